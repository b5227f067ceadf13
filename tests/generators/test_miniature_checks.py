"""Fact checks of the miniature world: labels follow from the reports, parsed here again, and from nothing else."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import pytest

import factgym
from factgym.agents.resolve import find_agent
from factgym.core.errors import ConfigError, DataError
from factgym.datasets.averitec import CONFLICTING, LABELS, NO_ANSWER, NOT_ENOUGH, REFUTED, SUPPORTED
from factgym.generators.miniature import MiniatureFactChecks, MiniatureReports

FORMS = (
    r"(?P<s>\w+) has a (?P<a>fee) of (?P<v>\d+) crowns",
    r"The (?P<a>fee) at (?P<s>\w+) is (?P<v>\d+) crowns",
    r"(?P<s>\w+) has (?P<v>\d+) (?P<a>seats)",
    r"There are (?P<v>\d+) (?P<a>seats) at (?P<s>\w+)",
    r"(?P<s>\w+) has its (?P<a>opening|closing) on (?P<v>\d+ \w+)",
    r"The (?P<a>opening|closing) of (?P<s>\w+) is on (?P<v>\d+ \w+)",
    r"(?P<v>\w+) is the (?P<a>head|cook) of (?P<s>\w+)",
    r"The (?P<a>head|cook) of (?P<s>\w+) is (?P<v>\w+)",
)
"""The sentences of the world, written down apart from its table."""


def parse(sentence: str) -> tuple[str, str, str, str]:
    """Subject, attribute, value and year of a sentence."""
    (match,) = (match for form in FORMS if (match := re.fullmatch(rf"{form} in (?P<y>\d{{4}})\.", sentence)))
    return match["s"], match["a"], match["v"], match["y"]


@pytest.mark.parametrize("split", ["dev", "train", "test"])
def test_the_label_is_what_the_reports_say(split: str) -> None:
    checks = MiniatureFactChecks(split, size=400)
    store = MiniatureReports(checks)
    for check in checks:
        subject, attribute, claimed, year = parse(check.claim)
        reports = [parse(evidence.text) for evidence in store.for_claim(check)]
        assert Counter(report[0] == subject for report in reports) == {True: 3, False: 3}
        values = {value for s, a, value, y in reports if (s, a, y) == (subject, attribute, year)}
        expected = (
            NOT_ENOUGH
            if not values
            else CONFLICTING
            if len(values) > 1
            else SUPPORTED
            if values == {claimed}
            else REFUTED
        )
        assert check.label == expected
        assert not values or len(values) == 1 or claimed in values
        assert [value for s, _, value, _ in reports if s != subject].count(claimed) == 1
        answer = check.questions[0].answers[0].text
        texts = {parse(f"{part}.")[2] for part in answer.removesuffix(".").split(". ")} if values else set()
        assert texts == values
        assert values or answer == NO_ANSWER
        assert subject in check.questions[0].question
        assert year in check.questions[0].question


def test_splits_are_balanced_fixed_and_have_names_of_their_own() -> None:
    checks = MiniatureFactChecks("dev")
    for start in range(0, len(checks), 4):
        assert Counter(check.label for check in checks[start : start + 4]) == Counter(LABELS)
    assert MiniatureFactChecks("dev", size=9)[:9] == checks[:9]
    names = {
        split: {parse(check.claim)[0] for check in MiniatureFactChecks(split, size=500)} for split in checks.SPLITS
    }
    assert not names["train"] & (names["dev"] | names["test"])
    assert not names["dev"] & names["test"]
    store = pickle.loads(pickle.dumps(MiniatureReports(checks)))
    assert store.fingerprint() == MiniatureReports(checks).fingerprint()
    assert sum(1 for _ in store.passages()) == store.sizes["passages"] == 3_000
    with pytest.raises(DataError, match="no generated reports"):
        store.for_claim(500)
    with pytest.raises(ConfigError, match="world is of generated claims"):
        factgym.make("profact", path="claims.json", world="miniature")


@pytest.mark.parametrize("reward", ["process", "guarded"])
def test_only_reading_earns(reward: str) -> None:
    """Teacher near oracle; the workflow, which knows nothing of this world, between; labels without evidence at chance."""
    settings = {
        "world": "miniature",
        "prompt": "brief",
        "max_questions": 1,
        "max_turns": 6,
        "split": "train",
        "size": 80,
    }
    means: dict[str, tuple[float, float]] = {}
    for name in ("oracle", "teacher", "workflow", "constant", "copies"):
        env, agent, totals, right = (
            factgym.make("profact", reward=reward, **settings),
            find_agent(name, "profact"),
            0.0,
            0,
        )
        for index in range(len(env.tasks)):
            env.reset(options={"task": index})
            policy = agent.start(env, index)
            while env.episode.stop is None:
                env.step(policy.act(env.policy_prompt(), env.available_tools()))
            totals += env.score().total
            right += env.state.verdict is not None and env.state.verdict.label == env.task.check.label
        means[name] = totals / len(env.tasks), right / len(env.tasks)
    assert means["oracle"][1] == 1.0
    assert means["teacher"][1] > 0.95
    assert means["teacher"][0] > 0.75 * means["oracle"][0]
    assert means["constant"][1] == means["copies"][1] == 0.25
    assert means["copies"][0] < means["workflow"][0] < means["teacher"][0]
    if reward == "guarded":
        assert means["copies"][0] == 0.0
