"""The two judges: what the published rule takes, and which of it the boundary judge refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.rewards.corver.judge import Label, gold_answers, is_refusal, judge_answer, normalise_answer

GOLD_NAME = ["William Jefferson Clinton", "Bill Clinton"]


@pytest.mark.parametrize(
    ("answer", "gold", "reference", "boundary"),
    [
        ("1975", ["1975"], "good", "good"),
        ("The Philadelphia Flyers last won it in 1975.", "1975; nineteen seventy-five", "good", "good"),
        ("the Michigan Wolverines", ["Michigan"], "good", "good"),
        ("bill clinton", GOLD_NAME, "good", "good"),
        ("Paris", ["London"], "bad", "bad"),
        # The holes of containment between characters.
        ("1", ["1975"], "good", "bad"),
        ("e", ["Michigan; Michigan Wolverines; the Wolverines"], "good", "bad"),
        ("art", ["Bart Simpson"], "good", "bad"),
        ("I won in 19751", ["1975"], "good", "bad"),
        # Parts of a gold answer.
        ("United States", ["in the United States of America"], "good", "good"),
        ("William", GOLD_NAME, "good", "bad"),
        ("Bill", GOLD_NAME, "good", "bad"),
        ("of the", ["King of the Hill"], "good", "bad"),
        ("14 August 1947", ["on 14 August 1947"], "good", "good"),
        # Dumps of candidates, hedges, denials.
        ("1971, 1972, 1973, 1974, 1975, 1976", ["1975"], "good", "bad"),
        ("1971\n1972\n1973\n1974\n1975", ["1975"], "good", "bad"),
        ("1974 or 1975", ["1975"], "good", "bad"),
        ("It was not 1975", ["1975"], "good", "bad"),
        ("It wasn't 1975 but 1974", ["1975"], "good", "bad"),
        ("word " * 80 + "1975", ["1975"], "good", "bad"),
        ("Rome, Oslo", ["Oslo"], "good", "bad"),
        ("Rome, Oslo, Bonn", ["Bonn"], "good", "bad"),
        ("Rome. Oslo. Bonn.", ["Bonn"], "good", "bad"),
        ("It is Rome, Oslo or Bonn", ["Oslo"], "good", "bad"),
        ("1973 1974 1975", ["1975"], "good", "bad"),
        ("Rome Oslo Bonn Paris Berlin Madrid Lisbon Athens Vienna Prague", ["Bonn"], "good", "bad"),
        # What looks like one of these and is none.
        ("John, Paul, George, Ringo", ["John, Paul, George, Ringo"], "good", "good"),
        ("George Harrison, John Lennon, Paul McCartney, Ringo Starr, Pete Best", ["George Harrison", "John Lennon", "Paul McCartney", "Ringo Starr"], "good", "good"),
        ("Paris, Île-de-France, France", ["Paris"], "good", "good"),
        ("Trick or Treat", ["Trick or Treat"], "good", "good"),
        ("It was Simon and Garfunkel.", ["Simon and Garfunkel"], "good", "good"),
        ("In 1975, the Flyers won.", ["Flyers"], "good", "good"),
        ("The occupation of Raymond S. Burton is politician.", ["politician"], "good", "good"),
        ("Harvey Peltier, Sr. is a lawyer.", ["lawyer"], "good", "good"),
        ("The Philadelphia Flyers won the cup in 1974 and in 1975.", ["1975"], "good", "good"),
        ("the film Trick or Treat, from 1986", ["Trick or Treat"], "good", "good"),
        # Unicode: the published rule breaks words at marks.
        ("Bjork", ["Björk"], "bad", "good"),
        ("Björk", ["Björk"], "good", "good"),
        ("naïve art", ["NAÏVE ART"], "good", "good"),
        ("The Who", ["The Who"], "good", "good"),
        ("The The", ["The The"], "na", "good"),
        # Refusals.
        ("", ["1975"], "na", "na"),
        ("I don't know", ["1975"], "na", "na"),
        ("i don’t know", ["1975"], "na", "na"),
        ("I do not know", ["1975"], "na", "na"),
        ("I dont know", ["1975"], "bad", "na"),
        ("I don't know.", ["1975"], "bad", "na"),
        ("!!!", ["1975"], "na", "na"),
        ("I don't know, maybe 1975", ["1975"], "good", "bad"),
        (None, ["1975"], "na", "na"),
        ("Paris", [], "bad", "bad"),
        ("Paris", ["", " ; "], "bad", "bad"),
    ],
)  # fmt: skip
def test_labels(answer: str | None, gold: list[str] | str, reference: Label, boundary: Label) -> None:
    assert judge_answer(answer, gold) == reference
    assert judge_answer(answer, gold, "boundary") == boundary


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The  Stanley-Cup, (1975)! ", "stanley cup 1975"),
        ("An apple a day", "apple day"),
        ("Theodore", "theodore"),
        ("ﬁlm", "film"),
        ("snake_case", "snake_case"),
        ("Ｆｕｌｌ", "full"),
        ("…", ""),
    ],
)
def test_normalisation(text: str, normal: str) -> None:
    assert normalise_answer(text) == normal


def test_gold_answers_are_separated_by_semicolons() -> None:
    assert gold_answers("a; b ;;a") == ("a", "b")
    assert gold_answers(["x; y", "z", ""]) == ("x", "y", "z")


words = st.lists(
    st.sampled_from(["paris", "london", "the", "1975", "7", "or", "not", "Ö", ",", "of", "and"]), max_size=8
)


@settings(max_examples=500, deadline=None)
@given(words.map(" ".join), st.lists(words.map(" ".join), max_size=3))
def test_the_boundary_judge_only_takes_what_the_published_one_takes(answer: str, golds: list[str]) -> None:
    # On plain letters; marks are where the published rule refuses what it should not.
    if judge_answer(answer, golds, "boundary") == "good" and answer.isascii():
        visible = [gold for gold in golds if normalise_answer(gold)]
        assert judge_answer(answer, visible) == "good" or not normalise_answer(answer)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_any_texts_are_judged_and_a_gold_answer_is_good(answer: str, golds: list[str]) -> None:
    for judge in ("reference", "boundary"):
        assert judge_answer(answer, golds, judge) in ("good", "bad", "na")
    for gold in gold_answers(golds):
        assert judge_answer(gold, golds) in ("good", "na")
        assert judge_answer(gold, golds, "boundary") in ("good", "na")


def test_long_answers_and_runs_of_marks_are_judged() -> None:
    # A judge whose time grows with the square would not come back.
    for answer in ("a" + "\u0301\u0300" * 500_000, "1974, " * 300_000, "x " * 500_000 + "1975", "'" * 1_000_000):
        assert judge_answer(answer, ["1975"], "boundary") in ("bad", "na")
        judge_answer(answer, ["1975"])
    assert not is_refusal("i dont know " * 100_000, "boundary")
