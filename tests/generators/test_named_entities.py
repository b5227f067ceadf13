"""Names, dates and numbers in passages, found by rules: on real passages, on invented worlds and on hostile text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.corpora.build import read_passages
from factgym.datasets.multihop import Triple, read_triples
from factgym.generators.multihop_world import world
from factgym.generators.named_entities import entities


def named(text: str, title: str = "") -> list[tuple[str, str]]:
    return [(text[start:end], kind) for start, end, kind in entities(text, title)]


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "Pál Gábor (2 November 1932 – 21 October 1987) directed 20 films.",
            [("Pál Gábor", "name"), ("2 November 1932", "date"), ("21 October 1987", "date"), ("20", "number")],
        ),
        ("Owen Story was born in Burton upon Trent.", [("Owen Story", "name"), ("Burton upon Trent", "name")]),
        ("Runmarö is an island in Sweden.", [("Runmarö", "name"), ("Sweden", "name")]),
        ("Critics praised it. Born in Rome, he died.", [("Rome", "name")]),
        ("She met Dr. Lexie Grey in St. Louis.", [("Dr. Lexie Grey", "name"), ("St. Louis", "name")]),
        ("It has 1,211 people and 7.5 million sheep.", [("1,211", "number"), ("7.5 million", "number")]),
        ("In May 1723 the House of Commons met.", [("May 1723", "date"), ("House of Commons", "name")]),
        ("On January 16, 1983 and in the 1940s.", [("January 16, 1983", "date"), ("1940s", "date")]),
        ("The film was written by J. R. R. Tolkien's son.", [("J. R. R. Tolkien", "name")]),
        ("It opened on a Monday in May.", []),
        ("Growth was 12.5% and $3 million.", [("12.5%", "number"), ("$3 million", "number")]),
        ("", []),
    ],
)
def test_examples(text: str, expected: list[tuple[str, str]]) -> None:
    assert named(text) == expected


def test_every_occurrence_of_a_title_is_a_name() -> None:
    text = "My Favourite Fabric premiered in 2018. Fabrication of My Favourite Fabric took a year."
    assert named(text, "My Favourite Fabric (film)") == [
        ("My Favourite Fabric", "name"),
        ("2018", "date"),
        ("My Favourite Fabric", "name"),
    ]
    assert named("The 7 Habits sold well.", "The 7 Habits") == [("The 7 Habits", "name")]
    assert named("A is a letter.", "A") == []


def answer_counts(triple: Triple) -> tuple[int, int]:
    """Whether the evidence holds an answer, and whether it is an entity there, as 0 or 1."""
    for evidence in triple.evidence:
        answer = next((answer for answer in triple.answers if answer in evidence.text), None)
        if answer is not None:
            return 1, int(answer in [text for text, _ in named(evidence.text, evidence.document)])
    return 0, 0


@pytest.mark.parametrize("benchmark, share", [("hotpotqa", 0.66), ("2wikimultihopqa", 0.75)])
def test_most_answers_of_real_questions_are_entities_of_their_evidence(
    data_dir: Path, benchmark: str, share: float
) -> None:
    counts = [answer_counts(triple) for triple in read_triples(benchmark, data_dir)]
    present, hit = (sum(column) for column in zip(*counts, strict=True))
    assert present > 100
    assert hit / present > share


def test_every_answer_of_a_world_is_an_entity_of_its_last_evidence() -> None:
    for split in ("train", "test"):
        for triple in world(3, 200, split)[1]:
            assert triple.answer in [text for text, _ in named(triple.evidence[-1].text)]


def check_shape(text: str, title: str = "") -> None:
    end = 0
    for start, stop, kind in entities(text, title):
        assert end <= start < stop <= len(text)
        assert kind in ("name", "date", "number")
        assert text[start:stop] == text[start:stop].strip()
        assert any(char.isalnum() for char in text[start:stop])
        end = stop


def test_spans_in_real_passages_are_disjoint_and_in_order(data_dir: Path) -> None:
    for passage in read_passages(data_dir / "hotpotqa" / "hotpot_distractor_sample_migres.json"):
        check_shape(passage.text, passage.title)


@given(
    st.text(st.sampled_from("Ab c.D'’1,2 \n-\"(é\0东½Mayof$%—\u0301") | st.characters(), max_size=80),
    st.text(max_size=6),
)
def test_any_text_has_disjoint_spans(text: str, title: str) -> None:
    check_shape(text, title)


@pytest.mark.parametrize(
    "text",
    ["A" * 200_000, "A " * 100_000, "A. " * 70_000, "1" * 200_000, "1,1" * 70_000, "((" * 100_000, "Aa of " * 40_000,
     "May 1 " * 40_000, "A'" * 100_000, "1." * 100_000, "Dr. " * 60_000],
    ids=range(11),
)  # fmt: skip
def test_hostile_texts_are_read_in_linear_time(text: str) -> None:
    """Quadratic time would take minutes here."""
    check_shape(text, "A")
    check_shape("x", text)
