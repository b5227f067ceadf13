"""Blocks and the format reward: Dr. Zero's numbers, appendix D word by word, and the guarded parts."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.proposal import (
    Rollout,
    Search,
    format_parts,
    guarded_parts,
    hops_reached,
    is_valid,
    think_block,
    words_outside,
)
from factgym.rewards.eve.spans import last_block, parse_proposal, parse_solution

SOURCE = "Ada Lovelace, daughter of Lord Byron, was born in London on 10 December 1815."
THINK = "<think>The source names her father.</think>"
CALL = f'{THINK}\n<tool_call>{{"name": "search", "arguments": {{"query_list": ["Lord Byron"]}}}}</tool_call>'
BYRON = "George Gordon Byron was an English poet; he died at Missolonghi of a fever in the year 1824 aged thirty-six."
GREECE = "Missolonghi is a town in western Greece. It is known for its siege."


class Case(NamedTuple):
    """expected: score of Dr. Zero's published code, 0 for a leak. parts: our parts in the paper's order."""

    name: str
    rollout: Rollout
    parts: tuple[float, float, float, float]
    expected: float


def final(question: str, answer: str, think: str = THINK) -> str:
    return f"{think} <question>{question}</question> <answer> {answer} </answer>"


def rollout(hops: int, *turns: str, searches: tuple[str, ...] = (), calls: int | None = None) -> Rollout:
    return Rollout(hops, SOURCE, turns, tuple(Search(("Lord Byron",), text) for text in searches), calls)


WHO = "Who was the father of the first programmer?"
CASES = (
    Case("one hop", rollout(1, final(WHO, "Lord Byron")), (1, 1, 1, 1), 1.0),
    Case("one hop with a search", rollout(1, CALL, final(WHO, "Lord Byron"), searches=(BYRON,)), (1, 1, 1, 1), 1.0),
    Case("two hops", rollout(2, CALL, final("Where did he die?", "Missolonghi"), searches=(BYRON,)), (1, 1, 1, 1), 1.0),
    Case("two hops, no search", rollout(2, final(WHO, "Lord Byron")), (1, 1, 0, 1), 0.75),
    Case(
        "four hops, one search",
        rollout(4, CALL, final("Where did he die?", "Missolonghi"), searches=(BYRON,)),
        (1, 1, 0.5, 1),
        0.875,
    ),
    Case(
        "more searches than hops",
        rollout(2, CALL, CALL, CALL, final("Where did he die?", "Greece"), searches=(BYRON, GREECE, BYRON)),
        (1, 1, 1, 1),
        1.0,
    ),
    Case(
        "a call that was not valid",
        rollout(3, CALL, CALL, final(WHO, "Lord Byron"), searches=(BYRON, "error"), calls=1),
        (1, 1, 0, 1),
        0.75,
    ),
    Case("a turn without a thought", rollout(2, CALL[len(THINK) :], final(WHO, "Lord Byron"), searches=(BYRON,)), (1, 0.5, 1, 1), 0.875),
    Case("an empty thought", rollout(1, final(WHO, "Lord Byron", "<think></think>")), (1, 1, 1, 1), 1.0),
    Case("a thought left open", rollout(1, final(WHO, "Lord Byron", "<think> he")), (1, 0, 1, 1), 0.75),
    Case("no answer in the context", rollout(1, final(WHO, "Charles Babbage")), (1, 1, 1, 0), 0.75),
    Case("five words that count", rollout(2, CALL, final("When?", "in the year 1824 aged thirty-six", ""), searches=(BYRON,)), (1, 0.5, 1, 1), 0.875),
    Case("seven words", rollout(2, CALL, final("When?", "of a fever in the year 1824 aged thirty-six"), searches=(BYRON,)), (1, 1, 1, 0.5), 0.875),
    Case("too many words", rollout(1, final("Tell me.", SOURCE)), (1, 1, 1, 0), 0.75),
    Case("yes", rollout(1, final("Was she a child of a poet?", "Yes.")), (1, 1, 1, 1), 1.0),
    Case("a digit of a year", rollout(1, final("How many?", "1")), (1, 1, 1, 1), 1.0),
    Case("a leak", rollout(1, final("Was Lord Byron her father?", "The Lord Byron")), (1, 1, 1, 1), 0.0),
    Case("no question", rollout(1, f"{THINK}<answer>Lord Byron</answer>"), (0, 0, 0, 0), 0.0),
    Case("an empty answer", rollout(1, final(WHO, "")), (0, 0, 0, 0), 0.0),
    Case("an article for an answer", rollout(1, final(WHO, "The")), (1, 1, 1, 0), 0.0),
)  # fmt: skip
"""Proposer rollouts with the scores of Dr. Zero's published format reward on the same text."""


TAGS = ["<answer>", "</answer>", "<question>", "</question>", "<evidence>", "</evidence>"]
PIECES = [*TAGS, " ", "\n", "Ada", "<", "x>y"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_the_last_block_is_the_one_that_a_lazy_pattern_finds(text: str) -> None:
    for name in ("question", "answer", "evidence"):
        blocks = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        span = last_block(text, name)
        assert (None if span is None else text[slice(*span)]) == (blocks[-1].strip() if blocks else None)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_a_solvers_answer_is_its_last_block_or_everything(text: str) -> None:
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
ROLLOUTS = st.builds(
    Rollout,
    st.integers(1, 4),
    WORDS,
    st.lists(TURNS.map("".join), max_size=5).map(tuple),
    st.lists(st.builds(Search, st.tuples(WORDS), WORDS), max_size=4).map(tuple),
    st.none() | st.integers(0, 4),
)


@settings(max_examples=500, deadline=None)
@given(WORDS, WORDS, ROLLOUTS)
def test_format_is_appendix_d(question: str, answer: str, rollout: Rollout) -> None:
    proposal = parse_proposal(f"<question>{question}</question><answer>{answer}</answer>")
    assert format_parts(proposal, rollout).reward == pytest.approx(appendix_d(question, answer, rollout))
    reach = hops_reached(proposal, rollout)
    assert 1 / rollout.hops <= reach <= 1  # no evidence from elsewhere
    assert all(0 <= part <= 1 for part in guarded_parts(proposal, rollout, True, reach))


def test_hops_begin_at_one() -> None:
    for hops in (0, -1, 1.0, True):
        with pytest.raises(ConfigError, match="at least one hop"):
            Rollout(hops, "text")  # type: ignore[arg-type]


def guarded(*turns: str, hops: int = 1, searches: tuple[Search, ...] = (), calls: int | None = None):
    rollout = Rollout(hops, SOURCE, turns, searches, calls)
    proposal = proposal_of(rollout)
    return guarded_parts(proposal, rollout, True, hops_reached(proposal, rollout))


REAL = "<think>Her father is named in the source, so the question asks for him.</think>"


def test_a_guarded_thought_says_something_and_only_once() -> None:
    assert guarded(final(WHO, "Lord Byron", REAL)).think == 1.0
    for empty in ("<think></think>", "<think>...</think>", "<think>ok ok ok ok ok ok</think>", ""):
        assert guarded(final(WHO, "Lord Byron", empty)).think == 0.0
    assert guarded(REAL, REAL, final(WHO, "Lord Byron", REAL)).think == pytest.approx(1 / 3)
    assert think_block(" <think> a </think> b") == " a "


BYRON_SEARCH, GREECE_SEARCH = Search(("Lord Byron",), BYRON), Search(("Missolonghi",), GREECE)
DIED = "he died at Missolonghi of a fever"


def reached(hops: int, question: str, answer: str, evidence: str, *searches: Search) -> float:
    proposal = parse_proposal(f"{final(question, answer)}<evidence>{evidence}</evidence>")
    return hops_reached(proposal, Rollout(hops, SOURCE, searches=searches))


def test_a_hop_is_a_search_that_was_used() -> None:
    two = ("Where did the father of Ada Lovelace die?", "Missolonghi", DIED)
    assert reached(2, *two, BYRON_SEARCH) == 1.0
    assert reached(2, *two) == 0.5
    assert reached(4, *two, BYRON_SEARCH) == 0.5
    # The second search asks for a result of the first.
    three = ("In what country is the town where the father of Ada died?", "Greece", "a town in western Greece")
    assert reached(3, *three, BYRON_SEARCH, GREECE_SEARCH) == 1.0
    assert reached(3, *three, BYRON_SEARCH, Search(("zebra",), "A zebra has stripes.")) == pytest.approx(1 / 3)
    assert reached(3, *three, Search(("zebra",), "A zebra has stripes."), GREECE_SEARCH) == pytest.approx(2 / 3)


def test_a_question_that_does_not_need_the_document_has_made_no_hop() -> None:
    easy = parse_proposal(f"{final('Who died at sea (not Ada)?', 'Missolonghi')}<evidence>{DIED}</evidence>")
    rollout = Rollout(2, SOURCE, searches=(BYRON_SEARCH,))
    assert hops_reached(easy, rollout) == 1.0
    assert hops_reached(easy, rollout, direct=True) == 0.0
    # One hop: the document itself says it.
    assert hops_reached(easy, Rollout(1, SOURCE, searches=(BYRON_SEARCH,))) == 0.0
    assert hops_reached(easy, Rollout(1, f"{SOURCE} {DIED}")) == 1.0
    # Evidence in the source is one hop, however easily it is found.
    assert hops_reached(easy, Rollout(4, f"{SOURCE} {DIED}"), direct=True) == 0.25


def test_words_of_a_question_outside_the_source() -> None:
    source = "Ada is old. Mother is not."
    assert words_outside("Where did Ada's mother, ADA, die?", source) == "Where did die?"
    assert words_outside("", "Ada") == words_outside("Ada", "Ada") == ""


def test_unused_searches_are_no_hops() -> None:
    two = ("Where did the father of Ada Lovelace die?", "Missolonghi", DIED)
    zebra, nothing = Search(("zebra",), "A zebra has stripes."), Search(("zebra stripes",), "")
    assert reached(4, *two, BYRON_SEARCH, zebra, nothing) == 0.5
    assert reached(4, *two, BYRON_SEARCH, BYRON_SEARCH, BYRON_SEARCH) == 0.5
    echo = Search(("fever at Missolonghi",), "fever at Missolonghi")
    assert reached(4, *two, echo, zebra, nothing) == 0.25


def test_a_chain_begins_in_the_source_and_ends_elsewhere() -> None:
    made = (BYRON_SEARCH, GREECE_SEARCH, Search(("siege",), "The siege of Missolonghi was in 1825."))
    inside = ("Who was the father of the first programmer Ada?", "Lord Byron", "daughter of Lord Byron")
    elsewhere = ("At which town did he die of a fever?", "Missolonghi", DIED)
    for question, answer, evidence in (inside, elsewhere):
        assert reached(4, question, answer, evidence, *made) == 0.25
    assert (reached(1, *inside), reached(1, *elsewhere)) == (1.0, 0.0)


def test_the_guarded_tool_part_is_the_share_reached_without_surplus() -> None:
    deep = final("Where did the father of Ada Lovelace die?", "Missolonghi", REAL) + f"<evidence>{DIED}</evidence>"
    parts = [guarded(*[CALL] * n, deep, hops=2, searches=(BYRON_SEARCH,) * n).tool for n in range(5)]
    assert parts == pytest.approx([0, 1, 2 / 3, 2 / 4, 2 / 5])
    shallow = final(WHO, "Lord Byron", REAL)
    at_one = [guarded(*[CALL] * n, shallow, searches=(BYRON_SEARCH,) * n).tool for n in range(3)]
    assert at_one == pytest.approx([1, 1 / 2, 1 / 3])
    assert guarded(CALL, deep, hops=2, searches=(), calls=3).tool == pytest.approx(0.5 * 2 / 4)


def test_a_guarded_answer_is_words_of_the_context() -> None:
    assert guarded(final("How many?", "1", THINK)).answer == 0.0
    assert guarded(final("Which day?", "10", THINK)).answer == 1.0
    assert guarded(final("Was she?", "yes", THINK)).answer == 0.5
    assert tuple(guarded_parts(parse_proposal(final(WHO, "x")), Rollout(1, SOURCE), False, 1.0)) == (0, 0, 0, 0)
