"""Folding, quotes, sentences and terms. Checked against `unicodedata` and against ContractNLI's human spans."""

from __future__ import annotations

import json
import random
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factgym.text import folding
from factgym.text import words as words_module
from factgym.text.folding import find_quote, fold, fold_with_offsets, plain_marks
from factgym.text.sentences import sentences
from factgym.text.words import MAX_QUERY_TERMS, STOP_WORDS, query_terms, terms

# Letters with loose accents, ligatures, conjoining and compatibility Hangul, half-width kana with sound marks, an
# Indic vowel sign in two parts, spaces of several kinds, a letter that becomes 18, and a lone surrogate.
NASTY = "aeﬁf²½\u0301\u0316\u0327¨ \t\n\xa0\u2003\u3000é가\u1100\u1161\u11a8ㄱｶﾞﾟ\u09c7\u09beÅ\ufdfa\ud800’“.,10"
nasty_text = st.text(alphabet=NASTY, max_size=40)
any_text = st.one_of(nasty_text, st.text(max_size=60))


def plain_fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


@given(any_text)
def test_fold_is_nfkc_and_single_spaces_and_nothing_more(text: str) -> None:
    assert fold(text) == plain_fold(text)
    assert fold(fold(text)) == fold(text)


def test_fold_keeps_case_punctuation_and_curly_quotes() -> None:
    assert fold("  The “Plan”,\n it’s\tOURS ") == "The “Plan”, it’s OURS"


@given(any_text)
@example("a\u1100\u1161\u11a8")
@example("x¨\u0301 ﬁ")
def test_fold_with_offsets_folds_alike_and_points_into_the_text(text: str) -> None:
    folded, offsets = fold_with_offsets(text)
    assert folded == fold(text)
    assert len(offsets) == len(folded) + 1
    assert offsets == sorted(offsets)
    assert all(0 <= offset <= len(text) for offset in offsets)


@given(any_text, st.integers(0, 60), st.integers(0, 60))
@example("0\u3000\u0301", 1, 2)
@example("a \u09be", 2, 1)
def test_find_quote_agrees_with_folded_search(text: str, start: int, length: int) -> None:
    folded = fold(text)
    quote = folded[start : start + length]
    span = find_quote(quote, text)
    if not fold(quote) or fold(quote) not in folded:
        assert span is None
        return
    assert span is not None
    covered = text[span[0] : span[1]]
    assert fold(quote) in fold(covered)
    # A mark belongs to the character before it that it normalises with, even to white space.
    assert not covered[0].isspace() or not folding._starts_unit(fold(quote)[0])
    assert not covered[-1].isspace()


@pytest.mark.parametrize(
    ("quote", "text", "expected"),
    [
        ("within 30 days", "paid within\n  30 days of it", "within\n  30 days"),
        ("office", "the oﬃce", "oﬃce"),
        ("café", "a cafe\u0301.", "cafe\u0301"),
        ("cafe\u0301", "a café.", "café"),
        ("10 %", "is １０\xa0% now", "１０\xa0%"),
        ("각", "한 \u1100\u1161\u11a8 한", "\u1100\u1161\u11a8"),
        ("a b", "a  b a b", "a  b"),
        (" end ", "the end", "end"),
    ],
)
def test_find_quote_returns_the_original_range(quote: str, text: str, expected: str) -> None:
    span = find_quote(quote, text)
    assert span is not None
    assert text[span[0] : span[1]] == expected


@pytest.mark.parametrize(
    ("quote", "text"),
    [("", "text"), (" \n", "a b"), ("Within", "within"), ("its", "it's"), ("cafe", "cafe\u0301"), ("longer", "long")],
)
def test_find_quote_is_no_looser_than_the_fold(quote: str, text: str) -> None:
    assert find_quote(quote, text) is None


def test_plain_marks_changes_marks_alone() -> None:
    kinds = {"'": ("SINGLE", "PRIME"), '"': ("DOUBLE",), "-": ("HYPHEN", "DASH", "BAR", "MINUS SIGN")}
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        plain = plain_marks(char)
        assert plain == char or any(kind in unicodedata.name(char) for kind in kinds[plain])
    text = "‘a’ “b” – 5‑10 — −3 £ … • « × ·"
    assert plain_marks(text) == "'a' \"b\" - 5-10 - -3 £ … • « × ·"
    assert len(plain_marks(text)) == len(text)


def test_no_character_that_composes_backwards_starts_a_unit() -> None:
    decompositions = (unicodedata.decomposition(chr(code)) for code in range(sys.maxunicode + 1))
    pairs = [d.split() for d in decompositions if d and not d.startswith("<")]
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2}
    seconds |= {chr(code) for code in range(0x1161, 0x1176)} | {chr(code) for code in range(0x11A8, 0x11C3)}
    assert len(seconds) > 80
    assert not [char for char in sorted(seconds) if folding._starts_unit(char)]


def test_every_combining_mark_is_seen_in_a_long_run() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]):
            assert folding._MARK_RUN.fullmatch(char * 32), hex(code)


@pytest.mark.parametrize("pair", ["\u0301\u0316", "\u0301\uff9e", "\u0327\u0344"])
def test_marks_in_bad_order_fold_in_linear_time_to_the_same_text(pair: str) -> None:
    medium = "x" * 600 + "a" + pair * 250 + "b"
    assert fold(medium) == plain_fold(medium)
    # The standard library alone takes a quarter of a minute for this one.
    assert len(fold("a" + pair * 60_000)) > 60_000


@pytest.mark.parametrize(
    "unit",
    [".", ". ", "a. ", "(", "((", ". (", "1. ", "- ", "A\n", ".)", '." "', "1,", "a1.2", "#", "\u1100\u1161", "<"],
)
def test_hostile_repetition_is_answered(unit: str) -> None:
    text = unit * 6_000
    assert fold(text) == plain_fold(text)
    assert sentences(text) == sorted(sentences(text))
    assert isinstance(terms(text), list)
    assert len(fold_with_offsets(text)[0]) == len(fold(text))


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "text",
    [
        "The U.S. Company (e.g. Acme Inc. of Delaware) pays 4.2 percent.|See Section 4.2 below.|No. 5 applies.",
        "Do you refund?|No.|We do not.|Really!|Yes.",
        "Smith v. Jones, 5 U.S. 137, held it.|He left at 5 p.m.|The office closed at 6 p.m. on Friday.",
        "Dr. J. Smith agreed...|Then he left.|Visit basecamp.com or 2.example.org today.",
        "He said “It is done.”|“Really.”|She agreed (in part).|(We did not.)|Nobody did.",
        "“Who’s we?” you ask.|It is Fig. 3 on pp. 4-5 of Supplement No. II to the plan.",
        "Paid to Acme Ltd.|The vendor left.|Paid to Acme Ltd. Holdings on Jan. 5 of that year.",
        "Dated ............. (the “Date”) in full.|A non-U.S. Person may sign.",
        "費用は返金されます。|三十日以内です。",
        "It costs $5.50.|Then 12 more.|In 2021.|The end",
    ],
)
def test_sentences_of_running_text(text: str) -> None:
    expected = text.split("|")
    glue = "" if "。" in text else " "
    assert split(glue.join(expected)) == expected


def test_sentences_of_markdown_and_lists() -> None:
    text = (
        "---\n# Refund policy\n\n*Updated.*\nWe refund:\n- annual plans;\n* **Monthly plans.** Not always.\n"
        "1. Ask us\n2. Wait, sometimes with\nan appeal\n(a) first; and\n(b) second.\n\n"
        "A paragraph that an editor wrapped at about seventy characters by\nBasecamp, and then it ends. "
        "What follows is wrapped after the U.S.\nGovernment code, where no sentence ends.\n\n| a | b |\n|---|---|\n"
    )
    assert split(text) == [
        "Refund policy",
        "*Updated.*",
        "We refund:",
        "annual plans;",
        "**Monthly plans.**",
        "Not always.",
        "1. Ask us",
        "2. Wait, sometimes with\nan appeal",
        "(a) first; and",
        "(b) second.",
        "A paragraph that an editor wrapped at about seventy characters by\nBasecamp, and then it ends.",
        "What follows is wrapped after the U.S.\nGovernment code, where no sentence ends.",
        "a | b |",
    ]


@given(st.text(alphabet="aB .!?\n()\"'-#1é。“”*", max_size=60))
def test_sentences_are_disjoint_trimmed_and_cover_every_word(text: str) -> None:
    spans = sentences(text)
    end = 0
    for start, stop in spans:
        assert end <= start < stop <= len(text)
        assert text[start:stop] == text[start:stop].strip()
        assert any(char.isalnum() for char in text[start:stop])
        end = stop
    inside = {i for start, stop in spans for i in range(start, stop)}
    assert all(i in inside for i, char in enumerate(text) if char.isalnum())


@pytest.mark.data
def test_sentence_starts_are_span_starts_of_contract_nli(data_dir: Path) -> None:
    """The spans were made by ContractNLI's authors. They also split lists within a sentence, so recall is not asked."""
    documents = json.loads((data_dir / "contract_nli" / "dev.json").read_text("utf-8"))["documents"]
    actual = agreed = 0
    for document in documents:
        text = document["text"]
        reference = {_first_letter(text, start) for start, _ in document["spans"]}
        starts = {_first_letter(text, start) for start, _ in sentences(text)}
        actual += len(starts)
        agreed += len(starts & reference)
    assert actual > 3000
    assert agreed / actual > 0.99


def _first_letter(text: str, start: int) -> int:
    span = re.compile(r"[^\s\-•*–>#|]").search(text, start)
    return span.start() if span else len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The refund is paid within 30 days.", ["refund", "paid", "within", "30", "days"]),
        ("Section 4.2: $10,000.50, v1.2b", ["section", "4.2", "10000.50", "v1.2b"]),
        ("Basecamp’s US office isn't ﬁne", ["basecamp", "us", "office", "isn", "fine"]),
        ("No employee may not", ["no", "employee", "may", "not"]),
        ("ÉTÉ Straße 費用", ["été", "straße", "費用"]),
        ("to be or of the", []),
        ("end. 1,2 . 3", ["end", "12", "3"]),
        ("", []),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@given(st.text(alphabet="aB_ 19.,’“é\x00-\n²…\xa0", max_size=30))
def test_both_ways_of_terms_agree(text: str) -> None:
    normal = unicodedata.normalize("NFKC", text).lower()
    words = [word.replace(",", "") for word in words_module._WORD.findall(normal)]
    assert terms(text) == [word for word in words if word not in STOP_WORDS]


def test_queries_are_bounded() -> None:
    assert len(query_terms("refund " * 100_000)) == MAX_QUERY_TERMS
    assert query_terms("x" * 10_000_000) == ["x" * words_module.MAX_QUERY_CHARS]
    shuffled = [f"w{i}" for i in random.Random(1).sample(range(1000), 400)]
    assert query_terms(" ".join(shuffled)) == shuffled[:MAX_QUERY_TERMS]
