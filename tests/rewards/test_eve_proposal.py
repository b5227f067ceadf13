"""A proposal's score: the published sum worked out by hand, and every hole under it with the gate that closes it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.rewards.eve import (
    PROPOSER_COMPONENTS,
    PROPOSER_GATES,
    RUBRICS,
    EveRules,
    Rollout,
    Search,
    check_proposal,
    find_rubric,
    find_span,
    is_focused,
    is_leak,
    is_valid,
    parse_proposal,
    report_of,
    score_proposal,
)

BYRON = (
    "Lord Byron was an English poet. He left England in 1816 and never came back. "
    "Byron died of a fever at Missolonghi in 1824. His heart is buried there."
)
ADA = (
    "Ada Lovelace was the daughter of Lord Byron. She was born in London in 1815. "
    "She wrote the first published program for the Analytical Engine of Charles Babbage."
)
THINK = "<think>The father of Ada is a poet; the search says where he died.</think>"
CALL = "<think>The source names her father, so I look for his death.</think><tool_call>{}</tool_call>"
QUESTION = "In which town did the father of Ada Lovelace die?"
SPAN = "Byron died of a fever at Missolonghi in 1824."
TEXTS = (("ada", ADA), ("byron", BYRON))


def scored(
    question: str = QUESTION,
    answer: str = "Missolonghi",
    evidence: str = SPAN,
    *,
    think: str = THINK,
    searched: str = BYRON,
    k: int = 2,
    plus: float = 1.0,
    minus: float = 0.0,
    hops: int = 2,
):
    """The score of a proposal of which k of 5 rollouts found the answer, and of 10 each with and without the span."""
    text = f"{think}<question>{question}</question><answer>{answer}</answer><evidence>{evidence}</evidence>"
    rollout = Rollout(hops, ADA, (CALL, text), (Search(("Lord Byron death",), searched),))
    checked = check_proposal(parse_proposal(text), rollout, TEXTS)
    return score_proposal(
        checked,
        solved=[i < k for i in range(5)],
        plus=[i < 10 * plus for i in range(10)],
        minus=[i < 10 * minus for i in range(10)],
    )


def total(score, name: str) -> float:
    return find_rubric(name, "proposer").total(score.components, score.gates)


def test_the_published_sum() -> None:
    score = scored(k=2, plus=0.9, minus=0.2)
    tokens = 10
    assert score.components["brevity"] == pytest.approx(1 - tokens / 256)
    expected = 0.5 * 1.0 + 3 / 4 + 0.5 * 0.7 + 0.1 * (1 - tokens / 256)
    assert total(score, "eve") == pytest.approx(expected)
    assert total(score, "dr-zero") == pytest.approx(0.5 + 0.75)
    gain = 0.7
    assert total(score, "guarded") == pytest.approx(0.5 + gain * 0.75 + 0.5 * 0.7 + 0.1 * gain * (1 - tokens / 256))
    assert set(score.components) == set(PROPOSER_COMPONENTS)
    assert set(score.gates) == set(PROPOSER_GATES)


def test_the_weights_are_the_rules() -> None:
    rules = EveRules(lambda_v=0.0, lambda_b=0.0)
    score = scored()
    assert find_rubric("eve", "proposer", rules).total(score.components, score.gates) == total(score, "dr-zero")
    heavy = find_rubric("guarded", "proposer", EveRules(lambda_v=2.0, format_weight=0.25))
    assert dict(heavy.weights) == {"format_guarded": 0.25, "difficulty": 1.0, "value": 2.0, "brevity": 0.1}
    for role in RUBRICS:
        assert find_rubric("eve", role) is RUBRICS[role]["eve"]


def test_unknown_rubrics_are_named() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'guarded'"):
        find_rubric("gaurded", "proposer")
    with pytest.raises(ConfigError, match="of the proposer or of the solver"):
        find_rubric("eve", "judge")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "answer", "valid"),
    [
        ("Who?", "Ada", True),
        ("", "Ada", False),
        ("Who?", "  ", False),
        ("Who is Ada, the countess?", "The ADA!", False),
        ("Is it known?", "no", False),  # as published: characters are compared
        ("Who?", "The", False),  # nothing is left of it
    ],
)
def test_validity_is_literal(question: str, answer: str, valid: bool) -> None:
    assert is_valid(question, answer) is valid


def test_an_invalid_proposal_has_half_its_format_and_is_not_asked_about() -> None:
    text = f"{THINK}<question>Was it Missolonghi?</question><answer>Missolonghi</answer><evidence>{SPAN}</evidence>"
    checked = check_proposal(parse_proposal(text), Rollout(1, ADA, (text,)), TEXTS)
    assert (checked.valid, checked.span) == (False, None)
    score = score_proposal(checked, solved=[True] * 5, plus=[True], minus=[False])
    assert (score.n, score.value_kind, score.components["brevity"]) == (0, "none", 0.0)
    assert total(score, "eve") == pytest.approx(0.5 * score.components["format"])
    assert score.components["format"] > 0
    assert total(score, "guarded") == 0.0
    for empty in ("<answer>x</answer>", "<question>Who?</question>", ""):
        checked = check_proposal(parse_proposal(THINK + empty), Rollout(1, ADA, (THINK,)), TEXTS)
        assert total(score_proposal(checked), "eve") == 0.0


@pytest.mark.parametrize("evidence", ["", "   ", "Byron died at Missolonghi.", "the answer is Missolonghi"])
def test_evidence_that_is_not_verbatim_has_no_value_and_no_brevity(evidence: str) -> None:
    score = scored(evidence=evidence)
    assert score.checked.span is None
    assert (score.value_kind, score.plus, score.components["value"], score.components["brevity"]) == (
        "none",
        None,
        0,
        0,
    )
    assert total(score, "eve") == pytest.approx(total(score, "dr-zero"))


def test_verbatim_is_after_folding_and_the_span_is_the_documents() -> None:
    text = "Byron’s  ﬁrst\u00a0book\nsold 10,000 copies."
    found = find_span("Byron’s first book sold", [("a", "Nothing."), ("b", text)])
    assert found is not None
    assert (found.document, found.text) == ("b", "Byron’s  ﬁrst\u00a0book\nsold")
    assert text[found.start : found.end] == found.text
    assert find_span("byron’s first book", [("b", text)]) is None


def test_the_source_is_looked_through_first() -> None:
    found = find_span("Lord Byron", TEXTS)
    assert found is not None
    assert found.document == "ada"


def test_the_value_may_come_from_log_probabilities() -> None:
    text = f"{THINK}<question>{QUESTION}</question><answer>Missolonghi</answer><evidence>{SPAN}</evidence>"
    checked = check_proposal(parse_proposal(text), Rollout(1, ADA, (text,)), TEXTS)
    score = score_proposal(checked, solved=[True, False], value=-0.25)
    assert (score.components["value"], score.value_kind, score.plus) == (-0.25, "logprob", None)
    skipped = score_proposal(checked, solved=[True, False], verified=False)
    assert (skipped.components["value"], skipped.value_kind) == (0.0, "none")
    with pytest.raises(ConfigError, match="between -1 and 1"):
        score_proposal(checked, solved=[True, False], value=1.5)
    for missing in ({"solved": [True]}, {"plus": [True], "minus": [True]}, {"solved": [True, False], "plus": [True]}):
        with pytest.raises(ConfigError):
            score_proposal(checked, **missing)


HONEST = scored(k=2, plus=1.0, minus=0.0)
TWO = BYRON[: BYRON.index("Byron died") + len(SPAN)]

HOLES = {
    "made-up span": scored(evidence="He died at Missolonghi.", k=1),
    "no span, for one that misleads": scored(evidence="", k=2, plus=0.0, minus=0.5),
    "whole document": scored(evidence=BYRON, k=2),
    "three of four sentences": scored(evidence=TWO, k=2),
    "bare answer": scored(evidence="Missolonghi", k=2),
    "answer in passing": scored("Who led the siege of Vienna with the Ottoman army?", "Byron", "Byron died of a fever", k=1),
    "nobody can find it": scored("In which town did he die?", k=0),
    "one of a list": scored("Pick a town: Rome, Paris or the third?", k=2, plus=0.4, minus=0.4),
    "true or false": scored("Is it true or false that Byron died in 1824?", "yes", SPAN, k=1, plus=0.5, minus=0.5),
    "known without evidence": scored("What is two plus two in words?", "four", SPAN, k=4, plus=1.0, minus=1.0),
    "one hop after a search for nothing": scored("Who was Lord Byron's daughter?", "Ada Lovelace", ADA.split(". ")[0], searched="Zebras.", k=2, hops=4),
    "leak in another order": scored("Was it Byron, that Lord, or not?", "Lord Byron", "daughter of Lord Byron", k=2, minus=0.9),
}  # fmt: skip
"""Exploit -> its score, with what solvers plausibly answer."""

OPEN = {"whole document", "three of four sentences", "bare answer"}
"""Under the published sum these earn within .1 of the honest proposal, or more than it."""


@pytest.mark.parametrize("name", HOLES)
def test_every_hole_is_below_the_honest_proposal(name: str) -> None:
    assert total(HOLES[name], "guarded") < total(HONEST, "guarded") - 0.5


@pytest.mark.parametrize("name", sorted(OPEN))
def test_the_published_sum_leaves_it_open(name: str) -> None:
    assert total(HOLES[name], "eve") > total(HONEST, "eve") - 0.1


def test_the_shortest_evidence_is_the_best_under_the_published_sum() -> None:
    assert total(HOLES["bare answer"], "eve") > total(HONEST, "eve")


def test_a_made_up_span_beats_a_true_one_under_the_published_sum_alone() -> None:
    made_up, misleading = HOLES["no span, for one that misleads"], scored(k=2, plus=0.0, minus=0.5)
    assert total(made_up, "eve") > total(misleading, "eve")
    # Guarded, a span that misleads costs what it costs, whatever else is wrong with it.
    whole = scored(evidence=BYRON, k=2, plus=0.0, minus=0.5)
    assert total(misleading, "guarded") == pytest.approx(total(whole, "guarded"))


def test_guessing_pays_by_difficulty_alone_only_when_unguarded() -> None:
    game = HOLES["true or false"]
    assert total(game, "eve") > 1.5
    assert total(game, "guarded") <= 0.5


def test_the_gates_say_which_rule_is_broken() -> None:
    wrong = {
        "whole document": "focused",
        "bare answer": "anchored",
        "answer in passing": "anchored",
        "nobody can find it": "answerable",
        "made-up span": "verbatim",
        "leak in another order": "valid",
    }
    for name, gate in wrong.items():
        assert HOLES[name].gates[gate] == 0.0, name
        assert HOLES[name].gates["learnable"] == 0.0
    assert all(value == 1.0 for value in HONEST.gates.values())


def test_focus_is_one_sentence_or_a_short_part() -> None:
    texts = (("byron", BYRON),)
    for evidence, focused in ((SPAN, True), (BYRON, False), ("came back. Byron died of a fever", True), (TWO, False)):
        span = find_span(evidence, texts)
        assert span is not None
        assert is_focused(span, BYRON) is focused
    only = "Byron died at Missolonghi."
    span = find_span(only, [("b", only)])
    assert span is not None
    assert is_focused(span, only)


def test_a_leak_is_every_word_in_any_order() -> None:
    assert is_leak("Was it Byron, the Lord?", "Lord Byron")
    assert not is_leak("Was it Lord Nelson?", "Lord Byron")
    assert not is_leak("Was it the one?", "the")


@pytest.mark.parametrize(
    "question",
    [
        "Is it B\u200by\u200br\u200bo\u200bn the Lord?",  # zero-width spaces
        "Is it Lo\u00adrd By\u00adron?",  # soft hyphens
        "Is it Lörd Býron?",
        "Is it Ｌｏｒｄ Ｂｙｒｏｎ?",  # full width
        "Is it LordByron?",
        "Is it l-o-r-d b.y.r.o.n?",
        "Is it #lord_byron?",
    ],
)
def test_a_leak_is_seen_through_what_a_reader_reads_over(question: str) -> None:
    assert is_leak(question, "Lord Byron")
    assert is_leak(question, "Lórd Byr\u200bon")


def test_a_short_answer_that_stands_across_words_by_chance_is_no_leak() -> None:
    assert not is_leak("Who came from Ecuador?", "Rome")
    assert not is_leak("What has the prometheus?", "Rome")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5), st.floats(0, 1), st.floats(0, 1), st.sampled_from(["", SPAN, BYRON, "Missolonghi", "x"]))
def test_totals_stay_in_range_and_better_evidence_never_costs(
    k: int, plus: float, minus: float, evidence: str
) -> None:
    score = scored(evidence=evidence, k=k, plus=plus, minus=minus)
    for name in RUBRICS["proposer"]:
        assert -0.5 <= total(score, name) <= 0.5 + 1.0 + 0.5 + 0.1
        better = scored(evidence=evidence, k=k, plus=min(1.0, plus + 0.1), minus=minus)
        assert total(better, name) >= total(score, name) - 1e-12
    assert total(score, "guarded") <= total(score, "eve") + 1e-12


def test_the_report_says_where_and_why() -> None:
    report = report_of(HONEST, find_rubric("guarded", "proposer"), message=4, metrics={"document": "ada"})
    assert report.total == pytest.approx(total(HONEST, "guarded"))
    assert sum(span.value for span in report.spans) == pytest.approx(report.total - 0.5)
    assert {span.message for span in report.spans} == {4}
    metrics = report.metrics
    start = BYRON.index(SPAN)
    assert metrics["evidence_span"] == {"document": "byron", "start": start, "end": start + len(SPAN)}
    assert metrics["format"] == {"integrity": 1.0, "think": 1.0, "tool": 1.0, "answer": 1.0}
    known = {
        name: metrics[name] for name in ("k", "n", "V", "plus", "minus", "hops", "valid", "value_kind", "document")
    }
    assert known == {
        "k": 2, "n": 5, "V": 1.0, "plus": 1.0, "minus": 0.0, "hops": 2, "valid": True, "value_kind": "sampling",
        "document": "ada",
    }  # fmt: skip
