"""A proposal's score: the published sum by hand, each exploit of it with the gate that closes it, and appendix B."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.datasets.multihop import Evidence
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.proposal import (
    Rollout,
    Search,
    brevity,
    check_proposal,
    count_tokens,
    difficulty,
    evidence_value,
    format_parts,
    guarded_parts,
    is_leak,
    is_valid,
    log_prob_value,
    removal_rollouts,
    score_proposal,
    share_reached,
    think_block,
    words_outside,
)
from factgym.rewards.eve.rubrics import (
    PROPOSER_COMPONENTS,
    PROPOSER_GATES,
    RUBRICS,
    EveRules,
    build_report,
    find_rubric,
)
from factgym.rewards.eve.spans import find_span, is_focused, last_block, parse_proposal, parse_solution

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
    needed: tuple[str, ...] = ("ada", "byron"),
):
    """The score of a proposal of which k of 5 rollouts found the answer, and of 10 each with and without the span."""
    text = f"{think}<question>{question}</question><answer>{answer}</answer><evidence>{evidence}</evidence>"
    rollout = Rollout(hops, ADA, (CALL, text), (Search(("Lord Byron death",), searched),))
    checked = check_proposal(parse_proposal(text), rollout, TEXTS)
    return score_proposal(
        checked,
        solved=[i < k for i in range(5)],
        needed=needed if k else None,
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
        ("Who?", "The", False),  # empty after normalisation
    ],
)
def test_validity_is_literal(question: str, answer: str, valid: bool) -> None:
    assert is_valid(question, answer) is valid


def test_an_invalid_proposal_has_half_its_format_and_needs_no_solver() -> None:
    text = f"{THINK}<question>Was it Missolonghi?</question><answer>Missolonghi</answer><evidence>{SPAN}</evidence>"
    checked = check_proposal(parse_proposal(text), Rollout(1, ADA, (text,)), TEXTS)
    assert (checked.valid, checked.span) == (False, None)
    score = score_proposal(checked, solved=[True] * 5, plus=[True], minus=[False])
    assert (score.facts["n"], score.facts["value_kind"], score.components["brevity"]) == (0, "none", 0.0)
    assert total(score, "eve") == pytest.approx(0.5 * score.components["format"])
    assert score.components["format"] > 0
    assert total(score, "guarded") == 0.0
    for empty in ("<answer>x</answer>", "<question>Who?</question>", ""):
        checked = check_proposal(parse_proposal(THINK + empty), Rollout(1, ADA, (THINK,)), TEXTS)
        assert total(score_proposal(checked), "eve") == 0.0


@pytest.mark.parametrize("evidence", ["", "   ", "Byron died at Missolonghi.", "the answer is Missolonghi"])
def test_evidence_that_is_not_verbatim_has_no_value_and_no_brevity(evidence: str) -> None:
    score = scored(evidence=evidence)
    assert score.facts["evidence_span"] is None
    assert (score.facts["value_kind"], score.facts["plus"]) == ("none", None)
    assert (score.components["value"], score.components["brevity"]) == (0, 0)
    assert total(score, "eve") == pytest.approx(total(score, "dr-zero"))


def span_in(evidence: str, texts: Sequence[tuple[str, str]]) -> tuple[Evidence, str]:
    match = find_span(evidence, texts)
    assert match is not None
    return match


def test_verbatim_is_after_folding_and_the_span_is_the_documents() -> None:
    text = "Byron’s  ﬁrst\u00a0book\nsold 10,000 copies."
    span, _ = span_in("Byron’s first book sold", [("a", "Nothing."), ("b", text)])
    assert (span.document, span.text) == ("b", "Byron’s  ﬁrst\u00a0book\nsold")
    assert text[span.start : span.end] == span.text
    assert find_span("byron’s first book", [("b", text)]) is None


def test_the_source_is_searched_first() -> None:
    span, text = span_in("Lord Byron", TEXTS)
    assert (span.document, text) == ("ada", ADA)


def test_the_value_may_come_from_log_probabilities() -> None:
    text = f"{THINK}<question>{QUESTION}</question><answer>Missolonghi</answer><evidence>{SPAN}</evidence>"
    checked = check_proposal(parse_proposal(text), Rollout(1, ADA, (text,)), TEXTS)
    score = score_proposal(checked, solved=[True, False], value=-0.25)
    assert (score.components["value"], score.facts["value_kind"], score.facts["plus"]) == (-0.25, "logprob", None)
    skipped = score_proposal(checked, solved=[True, False], verified=False)
    assert (skipped.components["value"], skipped.facts["value_kind"]) == (0.0, "none")
    with pytest.raises(ConfigError, match="between -1 and 1"):
        score_proposal(checked, solved=[True, False], value=1.5)
    for missing in ({"solved": [True]}, {"plus": [True], "minus": [True]}, {"solved": [True, False], "plus": [True]}):
        with pytest.raises(ConfigError):
            score_proposal(checked, **missing)


HONEST = scored(k=2, plus=1.0, minus=0.0)
TWO = BYRON[: BYRON.index("Byron died") + len(SPAN)]

EXPLOITS = {
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
    "one hop after a search for nothing": scored("Who was Lord Byron's daughter?", "Ada Lovelace", ADA.split(". ")[0], searched="Zebras.", k=2, hops=4, needed=("ada",)),
    "leak in another order": scored("Was it Byron, that Lord, or not?", "Lord Byron", "daughter of Lord Byron", k=2, minus=0.9),
}  # fmt: skip
"""Exploit -> its score, with plausible answers of solvers."""

OPEN = {"whole document", "three of four sentences", "bare answer"}
"""Under the published sum these earn within .1 of the honest proposal, or more than it."""


@pytest.mark.parametrize("name", EXPLOITS)
def test_every_exploit_is_below_the_honest_proposal(name: str) -> None:
    assert total(EXPLOITS[name], "guarded") < total(HONEST, "guarded") - 0.5


@pytest.mark.parametrize("name", sorted(OPEN))
def test_the_published_sum_leaves_it_open(name: str) -> None:
    assert total(EXPLOITS[name], "eve") > total(HONEST, "eve") - 0.1


def test_the_shortest_evidence_is_the_best_under_the_published_sum() -> None:
    assert total(EXPLOITS["bare answer"], "eve") > total(HONEST, "eve")


def test_a_made_up_span_beats_a_true_one_under_the_published_sum_alone() -> None:
    made_up, misleading = EXPLOITS["no span, for one that misleads"], scored(k=2, plus=0.0, minus=0.5)
    assert total(made_up, "eve") > total(misleading, "eve")
    # Guarded, a misleading span has the same penalty whatever other gate it breaks.
    document = scored(evidence=BYRON, k=2, plus=0.0, minus=0.5)
    assert total(misleading, "guarded") == pytest.approx(total(document, "guarded"))


def test_guessing_pays_by_difficulty_alone_only_when_unguarded() -> None:
    game = EXPLOITS["true or false"]
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
        assert EXPLOITS[name].gates[gate] == 0.0, name
        assert EXPLOITS[name].gates["learnable"] == 0.0
    assert all(value == 1.0 for value in HONEST.gates.values())


def test_focus_is_one_sentence_or_a_short_part() -> None:
    texts = (("byron", BYRON),)
    for evidence, focused in ((SPAN, True), (BYRON, False), ("came back. Byron died of a fever", True), (TWO, False)):
        assert is_focused(*span_in(evidence, texts)) is focused
    only = "Byron died at Missolonghi."
    assert is_focused(*span_in(only, [("b", only)]))


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
def test_a_leak_is_found_despite_invisible_characters_and_gaps(question: str) -> None:
    assert is_leak(question, "Lord Byron")
    assert is_leak(question, "Lórd Byr\u200bon")


def test_a_short_answer_across_words_by_chance_is_no_leak() -> None:
    assert not is_leak("Who came from Ecuador?", "Rome")
    assert not is_leak("What has the prometheus?", "Rome")


@given(st.integers(0, 5), st.floats(0, 1), st.floats(0, 1), st.sampled_from(["", SPAN, BYRON, "Missolonghi", "x"]))
def test_totals_stay_in_range_and_better_evidence_never_costs(k: int, plus: float, minus: float, evidence: str) -> None:
    score = scored(evidence=evidence, k=k, plus=plus, minus=minus)
    for name in RUBRICS["proposer"]:
        assert -0.5 <= total(score, name) <= 0.5 + 1.0 + 0.5 + 0.1
        better = scored(evidence=evidence, k=k, plus=min(1.0, plus + 0.1), minus=minus)
        assert total(better, name) >= total(score, name) - 1e-12
    assert total(score, "guarded") <= total(score, "eve") + 1e-12


def test_the_report_has_spans_and_facts() -> None:
    report = build_report(HONEST, find_rubric("guarded", "proposer"), message=4, metrics={"document": "ada"})
    assert report.total == pytest.approx(total(HONEST, "guarded"))
    assert sum(span.value for span in report.spans) == pytest.approx(report.total - 0.5)
    assert {span.message for span in report.spans} == {4}
    metrics = report.metrics
    start = BYRON.index(SPAN)
    assert metrics["evidence_span"] == {"document": "byron", "start": start, "end": start + len(SPAN)}
    assert metrics["format"] == {"integrity": 1.0, "think": 1.0, "tool": 1.0, "answer": 1.0}
    expected = {
        "k": 2, "n": 5, "V": 1.0, "plus": 1.0, "minus": 0.0, "hops": 2, "valid": True, "value_kind": "sampling",
        "document": "ada",
    }  # fmt: skip
    assert {name: metrics[name] for name in expected} == expected


# Appendix B: difficulty, value and brevity against simulation and exact sums.

ROLLOUTS = st.integers(2, 12)
CHANCES = st.floats(0, 1)


def expected_difficulty(p: float, n: int) -> float:
    """φ_n(p) in closed form, equation 4."""
    return n / (n - 1) * (1 - p) * (1 - (1 - p) ** (n - 1))


@given(ROLLOUTS, CHANCES)
def test_equation_4_is_the_mean_of_the_difficulty(n: int, p: float) -> None:
    exact = math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) * difficulty(k, n) for k in range(n + 1))
    assert expected_difficulty(p, n) == pytest.approx(exact, abs=1e-12)
    assert 0 <= expected_difficulty(p, n) <= 1


def test_equation_4_is_the_mean_over_sampled_rollouts() -> None:
    rng = np.random.default_rng(8)
    for n, p in ((2, 0.5), (5, 0.331), (5, 0.9), (8, 0.1)):
        earned = [difficulty(int(k), n) for k in rng.binomial(n, p, size=40_000)]
        error = np.std(earned) / math.sqrt(len(earned))
        assert abs(np.mean(earned) - expected_difficulty(p, n)) < 5 * error


def test_numbers_worked_out_by_hand() -> None:
    assert [difficulty(k, 5) for k in range(6)] == [0, 1, 0.75, 0.5, 0.25, 0]
    assert [difficulty(k, 2) for k in range(3)] == [0, 1, 0]


@pytest.mark.parametrize("m", [1, 2, 5, 20])
@pytest.mark.parametrize(("with_evidence", "without"), [(0.5, 0.5), (0.9, 0.2), (0.1, 0.6), (1.0, 0.0)])
def test_the_value_is_unbiased_and_of_bounded_variance(m: int, with_evidence: float, without: float) -> None:
    rng = np.random.default_rng(m)
    trials = 6_000
    plus, minus = rng.random((trials, m)) < with_evidence, rng.random((trials, m)) < without
    values = np.array([evidence_value(list(a), list(b)) for a, b in zip(plus, minus, strict=True)])
    variance = (with_evidence * (1 - with_evidence) + without * (1 - without)) / m
    assert abs(values.mean() - (with_evidence - without)) <= 5 * math.sqrt(variance / trials) + 1e-12
    assert values.var() == pytest.approx(variance, rel=0.12, abs=1e-12)
    assert variance <= 1 / (2 * m)
    assert (np.abs(values) <= 1).all()


def test_the_worst_case_reaches_the_bound() -> None:
    halves = [(a, b) for a in (False, True) for b in (False, True)]
    values = [evidence_value([a], [b]) for a, b in halves]
    assert np.var(values) == pytest.approx(1 / 2)


def test_sides_may_differ_in_number() -> None:
    assert evidence_value([True, True, False], [True, False]) == pytest.approx(2 / 3 - 1 / 2)
    for plus, minus in (([], [True]), ([True], [])):
        with pytest.raises(ConfigError, match="at least one answer"):
            evidence_value(plus, minus)


LOGS = st.lists(st.floats(-20, 0), min_size=1, max_size=6)


@given(LOGS, LOGS)
def test_log_probabilities_give_the_difference_of_probabilities(plus: list[float], minus: list[float]) -> None:
    product = math.prod(map(math.exp, plus)) - math.prod(map(math.exp, minus))
    assert log_prob_value(math.fsum(plus), math.fsum(minus)) == pytest.approx(product, abs=1e-12)
    assert -1 <= log_prob_value(math.fsum(plus), math.fsum(minus)) <= 1


def test_sampling_agrees_with_log_probabilities() -> None:
    """Answers sampled token by token from a model are right as often as the log-probabilities say."""
    rng = np.random.default_rng(3)
    with_evidence, without = np.array([0.9, 0.8]), np.array([0.3, 0.5])
    draws = 40_000
    plus = (rng.random((draws, 2)) < with_evidence).all(axis=1)
    minus = (rng.random((draws, 2)) < without).all(axis=1)
    exact = log_prob_value(float(np.log(with_evidence).sum()), float(np.log(without).sum()))
    assert abs(evidence_value(plus.tolist(), minus.tolist()) - exact) < 0.02


def test_log_probabilities_are_checked() -> None:
    assert log_prob_value(-math.inf, 0.0) == -1.0
    for bad in (0.1, math.nan):
        with pytest.raises(ConfigError, match="log-prob"):
            log_prob_value(bad, 0.0)


def test_brevity_falls_to_zero_at_the_limit() -> None:
    assert brevity("") == 1.0
    assert brevity("x " * 64) == 0.75
    assert brevity("x " * 256) == brevity("x " * 900) == 0.0
    assert brevity("a b c d", EveRules(max_evidence_tokens=8)) == 0.5
    assert count_tokens("Mr. O'Neil's 3,000 cafés…") == 12


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 1), (0, 0)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(ConfigError):
        difficulty(k, n)


@pytest.mark.parametrize(
    "values",
    [
        {"n": 1},
        {"m": 0},
        {"lambda_v": -0.1},
        {"lambda_b": math.nan},
        {"n": 2.5},
        {"hop_weights": ()},
        {"hop_weights": (0.0, 0.0)},
        {"max_evidence_share": 1.5},
        {"short_answer_words": 11},
    ],
)
def test_rules_out_of_range_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="EveRules"):
        EveRules(**values)  # type: ignore[arg-type]


# Blocks and the format reward: Dr. Zero's numbers, appendix D word by word, and the guarded parts

SOURCE = "Ada Lovelace, daughter of Lord Byron, was born in London on 10 December 1815."
THOUGHT = "<think>The source names her father.</think>"
SEARCH_CALL = f'{THOUGHT}\n<tool_call>{{"name": "search", "arguments": {{"query_list": ["Lord Byron"]}}}}</tool_call>'
BYRON_LINE = (
    "George Gordon Byron was an English poet; he died at Missolonghi of a fever in the year 1824 aged thirty-six."
)
GREECE = "Missolonghi is a town in western Greece. It is known for its siege."


class Case(NamedTuple):
    """expected: score of Dr. Zero's published code, 0 for a leak. parts: our parts in the paper's order."""

    name: str
    rollout: Rollout
    parts: tuple[float, float, float, float]
    expected: float


def final(question: str, answer: str, think: str = THOUGHT) -> str:
    return f"{think} <question>{question}</question> <answer> {answer} </answer>"


def rollout(hops: int, *turns: str, searches: tuple[str, ...] = (), calls: int | None = None) -> Rollout:
    return Rollout(hops, SOURCE, turns, tuple(Search(("Lord Byron",), text) for text in searches), calls)


WHO = "Who was the father of the first programmer?"
CASES = (
    Case("one hop", rollout(1, final(WHO, "Lord Byron")), (1, 1, 1, 1), 1.0),
    Case("one hop with a search", rollout(1, SEARCH_CALL, final(WHO, "Lord Byron"), searches=(BYRON_LINE,)), (1, 1, 1, 1), 1.0),
    Case("two hops", rollout(2, SEARCH_CALL, final("Where did he die?", "Missolonghi"), searches=(BYRON_LINE,)), (1, 1, 1, 1), 1.0),
    Case("two hops, no search", rollout(2, final(WHO, "Lord Byron")), (1, 1, 0, 1), 0.75),
    Case(
        "four hops, one search",
        rollout(4, SEARCH_CALL, final("Where did he die?", "Missolonghi"), searches=(BYRON_LINE,)),
        (1, 1, 0.5, 1),
        0.875,
    ),
    Case(
        "more searches than hops",
        rollout(2, SEARCH_CALL, SEARCH_CALL, SEARCH_CALL, final("Where did he die?", "Greece"), searches=(BYRON_LINE, GREECE, BYRON_LINE)),
        (1, 1, 1, 1),
        1.0,
    ),
    Case(
        "a call that was not valid",
        rollout(3, SEARCH_CALL, SEARCH_CALL, final(WHO, "Lord Byron"), searches=(BYRON_LINE, "error"), calls=1),
        (1, 1, 0, 1),
        0.75,
    ),
    Case("a turn without a thought", rollout(2, SEARCH_CALL[len(THOUGHT) :], final(WHO, "Lord Byron"), searches=(BYRON_LINE,)), (1, 0.5, 1, 1), 0.875),
    Case("an empty thought", rollout(1, final(WHO, "Lord Byron", "<think></think>")), (1, 1, 1, 1), 1.0),
    Case("a thought left open", rollout(1, final(WHO, "Lord Byron", "<think> he")), (1, 0, 1, 1), 0.75),
    Case("no answer in the context", rollout(1, final(WHO, "Charles Babbage")), (1, 1, 1, 0), 0.75),
    Case("five words that count", rollout(2, SEARCH_CALL, final("When?", "in the year 1824 aged thirty-six", ""), searches=(BYRON_LINE,)), (1, 0.5, 1, 1), 0.875),
    Case("seven words", rollout(2, SEARCH_CALL, final("When?", "of a fever in the year 1824 aged thirty-six"), searches=(BYRON_LINE,)), (1, 1, 1, 0.5), 0.875),
    Case("too many words", rollout(1, final("Tell me.", SOURCE)), (1, 1, 1, 0), 0.75),
    Case("yes", rollout(1, final("Was she a child of a poet?", "Yes.")), (1, 1, 1, 1), 1.0),
    Case("a digit of a year", rollout(1, final("How many?", "1")), (1, 1, 1, 1), 1.0),
    Case("a leak", rollout(1, final("Was Lord Byron her father?", "The Lord Byron")), (1, 1, 1, 1), 0.0),
    Case("no question", rollout(1, f"{THOUGHT}<answer>Lord Byron</answer>"), (0, 0, 0, 0), 0.0),
    Case("an empty answer", rollout(1, final(WHO, "")), (0, 0, 0, 0), 0.0),
    Case("an article for an answer", rollout(1, final(WHO, "The")), (1, 1, 1, 0), 0.0),
)  # fmt: skip
"""Proposer rollouts with the scores of Dr. Zero's published format reward on the same text."""


TAGS = ["<answer>", "</answer>", "<question>", "</question>", "<evidence>", "</evidence>"]
PIECES = [*TAGS, " ", "\n", "Ada", "<", "x>y"]
BLOCK_TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@given(BLOCK_TEXTS)
def test_the_last_block_is_the_one_that_a_lazy_pattern_finds(text: str) -> None:
    for name in ("question", "answer", "evidence"):
        blocks = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        span = last_block(text, name)
        assert (None if span is None else text[slice(*span)]) == (blocks[-1].strip() if blocks else None)


@given(BLOCK_TEXTS)
def test_a_solvers_answer_is_its_last_block_or_the_whole_text(text: str) -> None:
    blocks = re.findall("<answer>(.*?)</answer>", text, re.DOTALL)
    solution = parse_solution(text)
    assert solution.answer == (blocks[-1] if blocks else text).strip()
    assert solution.tagged == bool(blocks)
    assert solution.answer_span is not None
    assert text[slice(*solution.answer_span)] == solution.answer


def test_spans_are_offsets_in_the_text() -> None:
    text = "<question>old</question> <question>\n Who? </question><answer>A</answer><evidence> A did. </evidence>"
    proposal = parse_proposal(text)
    assert (proposal.question, proposal.answer, proposal.evidence) == ("Who?", "A", "A did.")
    spans = (proposal.question_span, proposal.answer_span, proposal.evidence_span)
    for span, words in zip(spans, ("Who?", "A", "A did."), strict=True):
        assert span is not None
        assert text[slice(*span)] == words
    assert parse_proposal("<question>Who?").question_span is None


def proposal_of(rollout: Rollout):
    return parse_proposal("\n".join(rollout.turns))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_format_is_dr_zeros(case) -> None:
    proposal = proposal_of(case.rollout)
    assert tuple(format_parts(proposal, case.rollout)) == case.parts
    valid = is_valid(proposal.question, proposal.answer)
    assert (format_parts(proposal, case.rollout).reward if valid else 0.0) == case.expected


def appendix_d(question: str, answer: str, rollout: Rollout) -> float:
    """Equation 9 and appendix D, implemented a second time from the paper."""
    if not question or not answer:
        return 0.0
    thinking = sum(bool(re.match(r"\s*<think>.*?</think>", turn, re.DOTALL)) for turn in rollout.turns)
    think = thinking / max(1, len(rollout.turns))
    h, calls = rollout.hops, rollout.valid_calls
    if h == 1:
        tool = 1.0
    elif calls == len(rollout.searches) and calls >= 1:
        tool = min((1 + calls) / h, 1)
    else:
        tool = 0.0
    normal = normalise_answer(answer)
    sigma = normalise_answer(" \n ".join([rollout.source, *[search.text for search in rollout.searches]]))
    size = len(normal.split())
    if normal in ("yes", "no") or (normal in sigma and 0 < size <= 5):
        answered = 1.0
    elif normal in sigma and 5 < size <= 10:
        answered = 0.5
    else:
        answered = 0.0
    return (1 + think + tool + answered) / 4


WORDS = st.lists(st.sampled_from(["The", "king", "of", "Rome", "1815", "no", "Yes.", "a"]), max_size=12).map(" ".join)
TURNS = st.tuples(
    st.sampled_from(["", "<think></think>", " <think>a\nb</think>", "<think>", "x<think>y</think>"]), WORDS
)
RANDOM_ROLLOUTS = st.builds(
    Rollout,
    st.integers(1, 4),
    WORDS,
    st.lists(TURNS.map("".join), max_size=5).map(tuple),
    st.lists(st.builds(Search, st.tuples(WORDS), WORDS), max_size=4).map(tuple),
    st.none() | st.integers(0, 4),
)


@given(WORDS, WORDS, RANDOM_ROLLOUTS)
def test_format_is_appendix_d(question: str, answer: str, rollout: Rollout) -> None:
    proposal = parse_proposal(f"<question>{question}</question><answer>{answer}</answer>")
    assert format_parts(proposal, rollout).reward == pytest.approx(appendix_d(question, answer, rollout))
    assert all(0 <= part <= 1 for part in guarded_parts(proposal, rollout, True, 1.0))


def test_hops_begin_at_one() -> None:
    for hops in (0, -1, 1.0, True):
        with pytest.raises(ConfigError, match="at least one hop"):
            Rollout(hops, "text")  # type: ignore[arg-type]


def guarded(*turns: str, hops: int = 1, searches: tuple[Search, ...] = (), calls: int | None = None):
    rollout = Rollout(hops, SOURCE, turns, searches, calls)
    proposal = proposal_of(rollout)
    return guarded_parts(proposal, rollout, True, 1.0)


REAL = "<think>Her father is named in the source, so the question asks for him.</think>"


def test_a_guarded_thought_counts_once_and_needs_content() -> None:
    assert guarded(final(WHO, "Lord Byron", REAL)).think == 1.0
    for empty in ("<think></think>", "<think>...</think>", "<think>ok ok ok ok ok ok</think>", ""):
        assert guarded(final(WHO, "Lord Byron", empty)).think == 0.0
    assert guarded(REAL, REAL, final(WHO, "Lord Byron", REAL)).think == pytest.approx(1 / 3)
    assert think_block(" <think> a </think> b") == " a "


DIED = "he died at Missolonghi of a fever"
CHAIN_TEXTS = (("ada", SOURCE), ("byron", f"Lord Byron was a poet; {DIED}."), ("other", "A zebra has stripes."))


def reached(hops: int, *needed: str, evidence: str = DIED, direct: bool = False, measured: bool = True) -> float:
    text = f"{final('Where did the father of Ada Lovelace die?', 'Missolonghi')}<evidence>{evidence}</evidence>"
    checked = check_proposal(parse_proposal(text), Rollout(hops, SOURCE), CHAIN_TEXTS, direct=direct)
    return share_reached(checked, needed if measured else None)


def test_a_hop_is_a_document_that_the_question_needs() -> None:
    assert reached(2, "ada", "byron") == reached(2, "ada", "byron", "other") == 1.0
    assert reached(4, "ada", "byron") == pytest.approx(1 / 3)
    assert reached(3, "ada") == 0.0


def test_a_question_that_does_not_need_the_document_has_made_no_hop() -> None:
    assert reached(2, "byron") == reached(2) == reached(2, measured=False) == 0.0
    assert reached(2, "ada", "byron", direct=True) == 0.0
    # One hop: the document itself says it.
    assert reached(1) == reached(1, "byron") == 0.0
    assert reached(1, evidence=SOURCE[:40]) == reached(1, evidence="") == 1.0


def test_so_many_rollouts_fail_by_chance_in_one_of_ten_cases() -> None:
    assert [removal_rollouts(k, 5, 0.1) for k in range(1, 6)] == [9, 5, 3, 2, 1]
    for k in range(1, 6):
        assert (1 - (k + 0.5) / 6) ** removal_rollouts(k, 5, 0.1) <= 0.1


def test_words_of_a_question_outside_the_source() -> None:
    source = "Ada is old. Mother is not."
    assert words_outside("Where did Ada's mother, ADA, die?", source, "").split()[-1] == "die"
    assert words_outside("", "Ada", "Ada") == words_outside("Ada", "Ada", "Ada") == ""


JOINTS = ["/", "-", ".", "_", "\u200b", "\u2060", "\u00b7", "", "'", "(", "–", "\u0301"]
NAMES = ["Gestwick", "Noxwick", "Pondouxora", "Velmora", "Tarn", "Byron"]


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(JOINTS), min_size=4, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_no_gluing_hides_a_word_of_the_target(
    names: list[str], joints: list[str], taken_apart: bool, lower: bool
) -> None:
    source, target = "Noxwick has a mill.", f"{' and '.join(NAMES)} are towns."
    glued = "Noxwick" + "".join(joint + name for joint, name in zip(joints, names, strict=False))
    if taken_apart:
        glued = joints[0].join(glued)
    expected = {name.lower() for name in names} - {"noxwick"}
    if taken_apart and joints[0]:  # a short word in single letters is not looked for
        expected -= {"tarn", "byron"}
    question = f"Where does the mill of {glued.lower() if lower else glued} stand?"
    assert expected <= set(words_outside(question, source, target).split())


def test_the_guarded_tool_part_is_the_share_reached_without_surplus() -> None:
    deep = final("Where did the father of Ada Lovelace die?", "Missolonghi", REAL) + f"<evidence>{DIED}</evidence>"
    search = Search(("Lord Byron",), BYRON_LINE)
    parts = [guarded(*[SEARCH_CALL] * n, deep, hops=2, searches=(search,) * n).tool for n in range(5)]
    assert parts == pytest.approx([0, 1, 2 / 3, 2 / 4, 2 / 5])
    shallow = final(WHO, "Lord Byron", REAL)
    at_one = [guarded(*[SEARCH_CALL] * n, shallow, searches=(search,) * n).tool for n in range(3)]
    assert at_one == pytest.approx([1, 1 / 2, 1 / 3])
    assert guarded(SEARCH_CALL, deep, hops=2, searches=(), calls=3).tool == pytest.approx(2 / 4)


def test_a_guarded_answer_is_words_of_the_context() -> None:
    assert guarded(final("How many?", "1", THOUGHT)).answer == 0.0
    assert guarded(final("Which day?", "10", THOUGHT)).answer == 1.0
    assert guarded(final("Was she?", "yes", THOUGHT)).answer == 0.5
    assert tuple(guarded_parts(parse_proposal(final(WHO, "x")), Rollout(1, SOURCE), False, 1.0)) == (0, 0, 0, 0)
