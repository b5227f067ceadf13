"""The parts of the honest baseline, on sentences by hand: clauses, force, scope, linked definitions, fitting."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from factgym.baselines.parts import core, parts
from factgym.baselines.polarity import force_of, hedged, opposed, wide
from factgym.baselines.reading import Seen, reading_of, statement_of
from factgym.baselines.rules import nearest_rule, terms_of
from factgym.baselines.scope import in_scope, names_in
from factgym.baselines.weights import WEIGHTS
from factgym.datasets.claims import STATUSES
from factgym.envs.claimcheck.agents import fitting
from factgym.generators.synthetic import SyntheticClaims


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Unless it rains, the match takes place after lunch.",
            [("limit", "Unless it rains"), ("time", "after lunch")],
        ),
        ("Fees are due because the bank wants them.", [("reason", "because the bank wants them")]),
        ("Under the Travel Policy, fees are due.", [("source", "Under the Travel Policy")]),
        ("Fees are due, according to “House Rules”.", [("source", "according to “House Rules”")]),
        (
            "It may be shared without the prior written consent of X.",
            [("limit", "without the prior written consent of X")],
        ),
        ("Twenty euros per person are due.", []),
    ],
)
def test_clauses(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.kind, text[one.start : one.end]) for one in parts(text)] == found


def test_the_core_keeps_its_offsets() -> None:
    text = "If asked, staff (including interns) show a badge."
    assert core(text) == " " * 8 + ", staff" + " " * 21 + "show a badge."
    assert len(core(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "force"),
    [
        ("Staff must wear a badge.", "must"),
        ("Wearing a badge is compulsory for staff.", "must"),
        ("Staff need not wear a badge.", "need_not"),
        ("It is optional for staff to wear a badge.", "need_not"),
        ("Staff may not smoke.", "must_not"),
        ("Smoking is prohibited.", "must_not"),
        ("Staff may smoke.", "may"),
        ("Staff should wear a badge.", "should"),
        ("The badge is blue.", "is"),
        ("The badge is not blue.", "is_not"),
        ("Staff must not take more than six weeks.", "must"),
    ],
)
def test_force(text: str, force: str) -> None:
    assert force_of(text)[0] == force


def test_opposites() -> None:
    assert opposed("may", "must_not") == opposed("need_not", "must") == "contradicted"
    assert opposed("must", "may") == opposed("must", "should") == "overclaim"
    assert opposed("may", "may") is None


def test_breadth() -> None:
    assert [("Every guest pays."[a:b]) for a, b in wide("Every guest pays.")] == ["Every"]
    assert wide("Guests pay every month.") == []
    assert hedged("Some guests pay.")
    assert not hedged("Guests pay.")


def test_the_names_in_a_question_pick_the_document() -> None:
    question = "Under Dercourt Marine's Travel Policy, what does “Refunds” say?"
    assert names_in(question) == ["Refunds", "Dercourt Marine's Travel Policy"]
    ours, theirs = Seen("1", "Dercourt Marine - Travel Policy, Section 2", ""), Seen("2", "Acme - Travel Policy", "")
    assert in_scope(question, [theirs, ours]) == [ours]
    assert in_scope("What are the rules?", [theirs, ours]) == [theirs, ours]


def test_a_rule_is_read_with_what_leans_on_it_and_what_its_terms_mean() -> None:
    opened = [
        Seen("E1", "Policy, Section 1: Leave", "Group B staff may carry over leave for the Base Period. This applies only if the head agrees. Notices are green."),
        Seen("E2", "Policy, Section 2: Terms", "Fillers are fun. The Base Period means six weeks. \"Group B\" stands for night porters."),
        Seen("E3", "Policy, Section 3: Other", "Section 1 does not apply during a strike. Night porters must sign in."),
    ]  # fmt: skip
    rule = nearest_rule(reading_of(opened), statement_of("Night porters may carry over leave for six weeks."))
    assert rule is not None
    assert rule.main.text.startswith("Group B staff may")
    assert [line.text for line in rule.followers] == ["This applies only if the head agrees."]
    assert {line.text for line in rule.linked} == {
        "The Base Period means six weeks.",
        '"Group B" stands for night porters.',
        "Section 1 does not apply during a strike.",
    }


def test_terms() -> None:
    assert "base period" in terms_of("Leave is kept for the Base Period.")
    assert terms_of("leave is kept for a week.") == ()


def test_nothing_read_is_no_rule() -> None:
    assert nearest_rule(reading_of([]), statement_of("Anything.")) is None


def test_the_weights_can_be_fitted_again() -> None:
    """A fit on claims of known status does better on them than calling each one supported."""
    some = fitting.cases(SyntheticClaims("train", size=120))
    weights = fitting.fit(some)
    assert set(weights) == set(WEIGHTS)
    right = 0
    for values, status, _ in some:
        scores = [sum(value * weights[name][at] for name, value in values.items()) for at in range(len(STATUSES))]
        right += scores.index(max(scores)) == status
    assert right / len(some) > sum(status == 0 for _, status, _ in some) / len(some) + 0.15
    source = fitting.as_source(weights)
    assert source.startswith('"""') and source.endswith("}\n")
    compile(source, "weights.py", "exec")


_PLAY = """
import hashlib, json, factgym
from factgym.agents.rollout import play_episode
from factgym.envs.claimcheck.agents import PLAYERS
env = factgym.make("claimcheck-multihop", haystack=True, size=30)
said = [play_episode(env, PLAYERS[name], 3, 1)["messages"] for name in ("nli", "embedding", "random", "citation-spray")]
print(hashlib.sha256(json.dumps(said).encode()).hexdigest())
"""


def test_players_say_the_same_in_every_process() -> None:
    said = set()
    for seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", _PLAY],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
