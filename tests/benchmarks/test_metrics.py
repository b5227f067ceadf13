"""The summary against numbers counted by hand, and against plain recounts of a larger made-up run."""

from __future__ import annotations

import copy
import itertools
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fake_runs
import numpy as np
import pytest

from factgym.benchmarks.metrics import chance_within, histogram, summarise, summarise_groups
from factgym.benchmarks.records import is_malformed
from factgym.benchmarks.statistics.intervals import mean_interval, wilson

Json = dict[str, Any]


def _turn(error: str | None = None, *calls: tuple[str, str | None]) -> Json:
    return {
        "message": 2,
        "calls": [{"tool": tool, "arguments": {}, "error": code} for tool, code in calls],
        "observation": "",
        "error": error,
    }


def _episode(gold: str, verdict: str | None, total: float, **more: Any) -> Json:
    parts = {"json": float(verdict is not None), "verdict": float(gold == verdict), "guard": 1.0}
    reward = fake_runs.report(
        total,
        components=parts,
        weights={"json": 0.2, "verdict": 0.8},
        gates={"verdict": 0.5},
        metrics={"gold_verdict": gold, "verdict": verdict},
    )
    base = {"env": "e", "version": 1, "agent": "a", "split": "test", "task": "t", "stop": "submitted", "error": None}
    return {**base, "messages": [], "turns": [_turn(None, ("submit", None))], "reward": reward, **more}


TWO_TURNS = [_turn("invalid_json"), _turn("x", ("read", "x"))]
FOUR = [
    _episode("supported", "supported", 0.6, task="a"),
    _episode("supported", "overclaim", 0.2, task="b"),
    _episode("overclaim", "supported", 0.2, task="c"),
    _episode("overclaim", None, 0.0, task="d", stop="turn_limit", turns=TWO_TURNS),
]


def test_numbers_counted_by_hand() -> None:
    result = summarise(FOUR)
    assert (result.n, result.scored, result.errors, result.unscored) == (4, 4, 0, 0)
    assert (result.env, result.version, result.agent, result.splits) == ("e", 1, "a", ("test",))
    assert result.reward.value == pytest.approx(0.25)
    assert result.components["json"] == wilson(3, 4)
    assert result.components["verdict"] == result.accuracy == wilson(1, 4)
    assert result.earned == {"json": pytest.approx(0.15), "verdict": pytest.approx(0.1)}
    assert result.gates["verdict"].value == 0.5
    assert result.recall == {"supported": wilson(1, 2), "overclaim": wilson(0, 2)}
    assert result.macro_recall.value == 0.25
    assert result.turns.value == 1.25
    assert result.stops == {"submitted": 3, "turn_limit": 1}
    assert [(tool.name, tool.calls, tool.errors) for tool in result.tools] == [("submit", 3, 0), ("read", 1, 1)]


def test_the_confusion_matrix_has_a_column_for_no_verdict() -> None:
    confusion = summarise(FOUR).confusion
    assert confusion is not None
    assert confusion.golds == ("supported", "overclaim")
    assert confusion.predictions == ("supported", "overclaim", "none")
    assert confusion.counts == ((1, 1, 0), (1, 0, 1))


def test_malformed_actions_are_counted_over_turns() -> None:
    """One of the five turns was no JSON; the refused `read` was well formed."""
    assert summarise(FOUR).malformed.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (_turn("invalid_json"), True),
        (_turn("too_deep"), True),
        (_turn("no_such_passage", ("read", "no_such_passage")), False),
        (_turn("unknown_tool", ("raed", "unknown_tool")), True),
        (_turn("invalid_arguments", ("read", None), ("search", "invalid_arguments")), True),
        (_turn(None, ("read", None)), False),
    ],
)
def test_malformed_turns(turn: Json, expected: bool) -> None:
    assert is_malformed(turn) is expected


def test_false_support_is_counted_where_it_can_happen() -> None:
    surfaces = {surface.name: {m.label: m.estimate for m in surface.measures} for surface in summarise(FOUR).surfaces}
    assert surfaces["safety"]["false supported"] == wilson(1, 2)


@pytest.mark.parametrize("supported, refuted", [("Supported", "Refuted"), ("Attributable", "Not Attributable")])
def test_false_support_is_seen_whatever_the_family_calls_it(supported: str, refuted: str) -> None:
    episodes = [
        _episode(refuted, supported, 0.2, task="a"),
        _episode(refuted, refuted, 0.6, task="b"),
        _episode(supported, supported, 0.6, task="c"),
    ]
    result = summarise(episodes)
    surfaces = {surface.name: {m.label: m.estimate for m in surface.measures} for surface in result.surfaces}
    assert surfaces["safety"]["false supported"] == wilson(1, 2)


def test_faults_of_the_infrastructure_are_no_zeros() -> None:
    faults = [
        {**FOUR[0], "error": {"cause": "rate_limit", "message": "429, [gone]"}, "stop": "error"},
        {**FOUR[0], "error": {"cause": "timeout", "message": "later"}, "stop": "error", "reward": None},
        {**FOUR[0], "error": {"cause": "rate_limit", "message": "again"}, "stop": "error", "reward": None},
        {**FOUR[0], "stop": "error"},
        {**FOUR[0], "reward": fake_runs.report(None, error="the index went away")},
    ]
    unscored = {**FOUR[0], "reward": None}
    result = summarise([*FOUR, *faults, unscored])
    assert (result.n, result.scored, result.errors, result.unscored) == (10, 4, 5, 1)
    alone = summarise(FOUR)
    for name in ("reward", "components", "accuracy", "recall", "turns", "malformed", "tools", "surfaces", "groups"):
        assert getattr(result, name) == getattr(alone, name)
    assert result.causes == {"rate_limit": 2, "timeout": 1, "unknown": 1, "scoring": 1}
    assert next(iter(result.causes)) == "rate_limit"
    assert result.fault == "429, [gone]"


def test_a_full_context_is_scored_and_a_reason_to_stop() -> None:
    result = summarise([*FOUR, _episode("overclaim", None, 0.1, task="e", stop="context_limit")])
    assert (result.scored, result.errors, result.stops["context_limit"]) == (5, 0, 1)
    assert result.reward.value == pytest.approx(0.22)


def test_samples_of_a_task_are_averaged_before_the_interval_is_taken() -> None:
    episodes = [episode for i in range(25) for episode in fake_runs.group(i, 4)]
    episodes = [episode for episode in episodes if episode["error"] is None]
    counts = Counter(episode["task"] for episode in episodes)
    complete = [episode for episode in episodes if counts[episode["task"]] == 4]
    result = summarise(complete)
    by_task: dict[str, list[Json]] = {}
    for item in complete:
        by_task.setdefault(item["task"], []).append(item["reward"])
    assert (result.tasks, result.scored) == (len(by_task), 4 * len(by_task))
    means = [np.mean([reward["total"] for reward in rewards]) for rewards in by_task.values()]
    expected = mean_interval(means, bounds=(0.0, 1.0))
    assert result.reward.value == pytest.approx(np.mean([item["reward"]["total"] for item in complete]))
    assert (result.reward.low, result.reward.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    right = [
        np.mean([item["metrics"]["verdict"] == item["metrics"]["gold_verdict"] for item in rewards])
        for rewards in by_task.values()
    ]
    assert result.accuracy.half_width == pytest.approx(mean_interval(right, bounds=(0.0, 1.0)).half_width)
    assert result.turns.n == result.malformed.n == result.components["json"].n == len(by_task)


def test_copies_of_an_episode_make_nothing_more_certain() -> None:
    once = summarise(FOUR)
    tenfold = summarise([{**item, "sample": sample} for item in FOUR for sample in range(10)])
    assert tenfold.scored == 40
    for name in ("reward", "turns"):
        for end in ("value", "low", "high"):
            assert getattr(getattr(tenfold, name), end) == pytest.approx(getattr(getattr(once, name), end))
    assert (once.accuracy, once.recall, once.macro_recall) == (tenfold.accuracy, tenfold.recall, tenfold.macro_recall)


def test_memory_does_not_grow_with_the_size_of_episodes() -> None:
    def fat() -> Iterator[Json]:
        for i in range(200):
            text = str(i) * 100_000
            item = fake_runs.episode(i)
            item["messages"].append({"role": "user", "content": text})
            item["turns"][0]["completion"]["raw"] = text
            yield item

    fake_runs.episode(0)
    tracemalloc.start()
    result = summarise(fat())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.n == 200
    assert peak < 4_000_000, "the episodes together hold some fifty million characters"


def test_a_run_without_labels_has_no_label_statistics() -> None:
    bare = copy.deepcopy(FOUR)
    for item in bare:
        item["reward"]["metrics"] = {}
    result = summarise(bare)
    assert result.confusion is None
    assert result.accuracy.value is None and result.macro_recall.value is None
    assert (result.recall, result.surfaces) == ({}, ())


def test_an_empty_run_has_no_numbers() -> None:
    result = summarise([])
    assert (result.n, result.reward.value, result.confusion) == (0, None, None)
    assert (result.usage, result.groups, result.causes, result.tasks) == (None, None, {}, 0)


def test_a_larger_run_agrees_with_a_plain_recount() -> None:
    episodes = [fake_runs.episode(i) for i in range(300)]
    scored = [episode for episode in episodes if episode["error"] is None]
    result = summarise(iter(episodes))
    assert (result.n, result.scored) == (300, len(scored))
    assert result.reward.value == pytest.approx(np.mean([item["reward"]["total"] for item in scored]))
    assert sum(result.earned.values()) == pytest.approx(result.reward.value)
    assert result.confusion is not None
    assert sum(map(sum, result.confusion.counts)) == len(scored)
    assert sum(result.histogram.counts) == len(scored)
    for name, part in result.components.items():
        assert part.value == pytest.approx(np.mean([item["reward"]["components"][name] for item in scored]))
    grounding = next(surface for surface in result.surfaces if surface.name == "grounding").measures[0].estimate
    pair = [(item["reward"]["components"]["evidence"] + item["reward"]["components"]["quote"]) / 2 for item in scored]
    assert grounding.value == pytest.approx(np.mean(pair))


def test_the_histogram_agrees_with_numpy_and_widens_with_the_values() -> None:
    values = np.random.default_rng(5).uniform(0, 1, 500).tolist()
    assert histogram(values).counts == tuple(np.histogram(values, bins=20, range=(0, 1))[0])
    wide = histogram([-0.5, 1.15])
    assert (wide.low, wide.high, sum(wide.counts)) == (-0.5, 1.15, 2)
    assert histogram([0.55, 1.0]).counts[11] == 1


# Groups of samples against NumPy, against plain enumeration, and against draws.


@pytest.mark.parametrize("n", range(1, 8))
def test_the_chance_within_k_agrees_with_all_subsets(n: int) -> None:
    for right in range(n + 1):
        samples = [True] * right + [False] * (n - right)
        for k in range(1, n + 1):
            subsets = [any(combination) for combination in itertools.combinations(samples, k)]
            assert chance_within(n, right, k) == pytest.approx(sum(subsets) / len(subsets), abs=1e-12)


def test_the_chance_within_k_is_unbiased() -> None:
    """Its mean over all outcomes of eight samples is 1 - (1 - p)^k, which plain 1 - (1 - right / n)^k is not."""
    p, n = 0.3, 8
    outcomes = list(itertools.product((0, 1), repeat=n))
    for k in (1, 2, 4, 8):
        chances = [(p ** sum(outcome) * (1 - p) ** (n - sum(outcome)), sum(outcome)) for outcome in outcomes]
        assert sum(w * chance_within(n, right, k) for w, right in chances) == pytest.approx(1 - (1 - p) ** k)
        if k > 1:
            plain = sum(w * (1 - (1 - right / n) ** k) for w, right in chances)
            assert plain != pytest.approx(1 - (1 - p) ** k, abs=1e-3)


@pytest.mark.parametrize(("n", "right", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_impossible_counts_are_refused(n: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        chance_within(n, right, k)


def _majority(gold: str, verdicts: list[str | None], rng: random.Random) -> float:
    """Draws instead of reasoning: one of the most frequent verdicts, many times."""
    votes = Counter(label for label in verdicts if label)
    if not votes:
        return 0.0
    first = [vote for vote in votes if votes[vote] == max(votes.values())]
    return sum(rng.choice(first) == gold for _ in range(4000)) / 4000


def test_a_run_agrees_with_a_plain_recount() -> None:
    episodes = [episode for i in range(60) for episode in fake_runs.group(i, 6, skill=(i % 5) / 4)]
    groups: dict[str, list[dict[str, Any]]] = {}
    for episode in episodes:
        if episode["error"] is None:
            groups.setdefault(episode["task"], []).append(episode["reward"])
    totals = [[reward["total"] for reward in group] for group in groups.values()]
    result = summarise(episodes).groups
    assert result is not None
    assert (result.n, result.smallest, result.largest) == (60, min(map(len, totals)), 6)
    assert result.smallest < 6, "the run has errors"
    collapsed = np.mean([len(set(rewards)) == 1 for rewards in totals])
    assert 0 < collapsed < 1
    assert result.collapsed.value == pytest.approx(collapsed)
    assert result.spread.value == pytest.approx(np.mean([np.std(rewards, ddof=1) for rewards in totals]))
    assert result.best.value == pytest.approx(np.mean([max(rewards) for rewards in totals]))
    assert result.worst.value == pytest.approx(np.mean([min(rewards) for rewards in totals]))
    metrics = [[reward["metrics"] for reward in group] for group in groups.values()]
    rng = random.Random(7)
    majority = [_majority(item[0]["gold_verdict"], [m["verdict"] for m in item], rng) for item in metrics]
    assert result.majority.value == pytest.approx(np.mean(majority), abs=0.005)
    assert list(result.right_within) == [1, 2, 4]
    right = [[m["verdict"] == m["gold_verdict"] for m in item] for item in metrics]
    for k, estimate in result.right_within.items():
        chances = [
            np.mean([any(subset) for subset in itertools.combinations(item, k)]) for item in right if len(item) >= k
        ]
        assert (estimate.value, estimate.n) == (pytest.approx(np.mean(chances)), len(chances))


def test_one_sample_a_task_makes_no_groups() -> None:
    assert summarise(fake_runs.episode(i) for i in range(20)).groups is None


def test_a_task_with_one_scored_sample_is_no_group_but_a_try() -> None:
    result = summarise_groups([[(0.5, "x", "x"), (0.5, "x", "y")], [(0.9, "x", "x")]])
    assert result is not None and (result.n, result.collapsed.value, result.majority.value) == (1, 1.0, 0.5)
    assert (result.right_within[1].value, result.right_within[1].n) == (pytest.approx(0.75), 2)


def test_groups_without_gold_labels_have_rewards_only() -> None:
    result = summarise_groups([[(-1.0, None, None), (2.0, None, None)]])
    assert result is not None and (result.best.value, result.worst.value) == (2.0, -1.0)
    assert (result.majority.value, result.right_within) == (None, {})
