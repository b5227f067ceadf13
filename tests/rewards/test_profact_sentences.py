"""Sentences as NLTK's Punkt cuts them with its English model; the expected cuts are its own (NLTK 3.10.4)."""

from __future__ import annotations

import sys

import pytest

from factgym.rewards.profact import meteor as by_meteor
from factgym.rewards.profact import prepare_tokens, sentences
from factgym.rewards.profact.meteor import _Known, meteor_of

CUTS = [
    (["He met Mr. Smith.", "Then he left."]),
    (["Republican Gov.", "Mike DeWine signed the law."]),
    (["All of this happened, i.e.", "Nobody came."]),
    (["It fell within weeks.", "[34][35] Nobody asked."]),
    (['She asked "is it mine?"', "Nobody knew."]),
    (['Did he say "it was a heart."?', "No."]),
    (["Was it the referendum?", '".']),
    (['a ventilator.".', "b"]),
    (["The bill passed.", "(It was a close vote.)", "It is law."]),
    (["He is a U.S. citizen."]),
    (["He was a U.S.", "Senator, then a judge."]),
    (["They live in Washington, D.C. We do not."]),
    (["Is this true?", "It is!", "Why?"]),
    (["J. K. Rowling wrote it."]),
    (["He paid 3.5 million in 2020.", "It was too much."]),
    (["“It is so.”", "He left."]),
]


@pytest.mark.parametrize("expected", CUTS, ids=lambda cut: cut[0][:24])
def test_sentences_are_cut_as_punkt_cuts_them(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


def test_white_space_does_not_matter() -> None:
    assert sentences("  It is.\n\n It was.  ") == ["It is.", "It was."]
    assert sentences(" \n ") == []


def test_what_is_known_of_words_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(word: str) -> str:
        asked.append(word)
        return word.upper()

    known = _Known(answer)
    monkeypatch.setattr(sys.modules[_Known.__module__], "_CACHED_WORDS", 3)
    assert [known[word] for word in ("a", "b", "c", "d", "d")] == ["A", "B", "C", "D", "D"]
    assert asked == ["a", "b", "c", "d"]
    assert list(known) == ["d"]
    long = "x" * 1000
    assert known[long] == known[long] == long.upper()
    assert asked.count(long) == 2


def test_a_word_of_many_readings_matches_its_synonyms() -> None:
    texts = prepare_tokens(["Doctors", "RAN", "quickly"]), prepare_tokens(["physicians", "run", "quick"])
    assert meteor_of(*texts) == by_meteor("Doctors RAN quickly", "physicians run quick") > 0.4
