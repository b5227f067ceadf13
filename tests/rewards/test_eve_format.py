"""Blocks and the format reward: Dr. Zero's numbers, appendix D word by word, and what the guarded parts add."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.rewards.eve import (
    Rollout,
    Search,
    format_parts,
    format_reward,
    guarded_parts,
    hops_reached,
    is_valid,
    last_block,
    normalise_answer,
    parse_proposal,
    parse_solution,
    thought_of,
    words_beside_source,
)
from tests.rewards.eve_cases import BYRON, CALL, CASES, GREECE, SOURCE, THINK, WHO, final

PIECES = [
    "<answer>",
    "</answer>",
    "<question>",
    "</question>",
    "<evidence>",
    "</evidence>",
    " ",
    "\n",
    "Ada",
    "<",
    "x>y",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_the_last_block_is_the_one_that_a_lazy_pattern_finds(text: str) -> None:
    for name in ("question", "answer", "evidence"):
        found = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        place = last_block(text, name)
        assert (None if place is None else text[slice(*place)]) == (found[-1].strip() if found else None)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_a_solvers_answer_is_its_last_block_or_everything(text: str) -> None:
    found = re.findall("<answer>(.*?)</answer>", text, re.DOTALL)
    solution = parse_solution(text)
    assert solution.answer == (found[-1] if found else text).strip()
    assert solution.tagged == bool(found)
    assert solution.answer_span is not None
    assert text[slice(*solution.answer_span)] == solution.answer


def test_spans_are_where_the_words_stand() -> None:
    text = "<question>old</question> <question>\n Who? </question><answer>A</answer><evidence> A did. </evidence>"
    found = parse_proposal(text)
    assert (found.question, found.answer, found.evidence) == ("Who?", "A", "A did.")
    for span, words in ((found.question_span, "Who?"), (found.answer_span, "A"), (found.evidence_span, "A did.")):
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
    assert (format_reward(proposal, case.rollout) if valid else 0.0) == case.expected


def appendix_d(question: str, answer: str, rollout: Rollout) -> float:
    """Equation 9 and appendix D, written again from the text."""
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
    sigma = normalise_answer(" \n ".join([rollout.source, *[one.text for one in rollout.searches]]))
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
    assert format_reward(proposal, rollout) == pytest.approx(appendix_d(question, answer, rollout))
    reach = hops_reached(proposal, rollout)
    assert 1 / rollout.hops <= reach <= 1  # nothing is quoted from elsewhere
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
    assert thought_of(" <think> a </think> b") == " a "


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
    # What the first search brought, the second one asked for.
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
    # What stands in the source is one hop, however easily it is found.
    assert hops_reached(easy, Rollout(4, f"{SOURCE} {DIED}"), direct=True) == 0.25


def test_what_a_question_says_beside_the_source() -> None:
    source = "Ada is old. Mother is not."
    assert words_beside_source("Where did Ada's mother, ADA, die?", source) == "Where did die?"
    assert words_beside_source("", "Ada") == words_beside_source("Ada", "Ada") == ""


def test_searches_that_nothing_was_used_of_are_no_hops() -> None:
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


def test_the_guarded_tool_part_is_what_was_reached_without_surplus() -> None:
    deep = final("Where did the father of Ada Lovelace die?", "Missolonghi", REAL) + f"<evidence>{DIED}</evidence>"
    found = [guarded(*[CALL] * n, deep, hops=2, searches=(BYRON_SEARCH,) * n).tool for n in range(5)]
    assert found == pytest.approx([0, 1, 2 / 3, 2 / 4, 2 / 5])
    shallow = final(WHO, "Lord Byron", REAL)
    at_one = [guarded(*[CALL] * n, shallow, searches=(BYRON_SEARCH,) * n).tool for n in range(3)]
    assert at_one == pytest.approx([1, 1 / 2, 1 / 3])
    assert guarded(CALL, deep, hops=2, searches=(), calls=3).tool == pytest.approx(0.5 * 2 / 4)


def test_a_guarded_answer_is_words_of_the_context() -> None:
    assert guarded(final("How many?", "1", THINK)).answer == 0.0
    assert guarded(final("Which day?", "10", THINK)).answer == 1.0
    assert guarded(final("Was she?", "yes", THINK)).answer == 0.5
    assert tuple(guarded_parts(parse_proposal(final(WHO, "x")), Rollout(1, SOURCE), False, 1.0)) == (0, 0, 0, 0)
