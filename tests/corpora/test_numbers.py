"""Numbers and dates as values: against numerals spelled out here, and forms that people write."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.text.numbers import parse_number, value_terms
from factgym.text.words import terms

WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
SMALL = WORDS.split()
TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(number: int) -> str:
    """A whole number in words, in British style: "two thousand and five"."""
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            head, rest = divmod(number, size)
            joint = " and " if rest < 100 else " "
            return f"{spelled(head)} {name}" + (f"{joint}{spelled(rest)}" if rest else "")
    if number < 20:
        return SMALL[number]
    return TENS[number // 10] + (f"-{SMALL[number % 10]}" if number % 10 else "")


@given(st.integers(0, 10**12 - 1))
def test_a_number_in_words_is_the_number(number: int) -> None:
    words = spelled(number)
    assert parse_number(words) == number
    for text in (words, words.replace("-", " "), words.upper(), str(number), f"{number:,}", f"{number}.0"):
        assert value_terms(f"It has {text} people.") == [str(number), "people"], text


@given(st.integers(1, 999_999), st.integers(0, 3))
def test_a_scale_multiplies(number: int, places: int) -> None:
    figures = str(Decimal(number).scaleb(-places))
    for form in ("{} million", "{}  million".replace("  ", "\xa0"), "{}-million", "${}m", "{}mn"):
        assert value_terms(form.format(figures)) == [str(number * 10 ** (6 - places))]


SAME = (
    ("Twenty people", "20 people"),
    ("1.5 million", "1,500,000", "one and a half million", "£1.5m", "15 lakh"),
    ("half a million", "500,000"),
    ("a hundred", "100", "one hundred"),
    ("4.50 %", "4.5%", "4.5 percent", "4.5 per cent"),
    ("March 3rd", "3 March", "3rd of March", "Mar. 3"),
    ("the twenty-first", "21st"),
    ("2020-03-03", "3/3/2020", "03.03.2020"),
    ("20km", "20 km"),
    ("two dozen", "24"),
)


@pytest.mark.parametrize("forms", SAME, ids=lambda forms: forms[0])
def test_forms_of_one_value(forms: tuple[str, ...]) -> None:
    assert len({tuple(value_terms(form)) for form in forms}) == 1
    assert value_terms(forms[0]) != value_terms("21 people")


def test_numbers_that_differ() -> None:
    for first, second in (("1.5 million", "1.6 million"), ("20", "21"), ("3 March", "4 March"), ("3 March", "3 May"),
                          ("third", "3"), ("1990s", "1990"), ("15", "1.5"), ("twenty", "twenty-one")):  # fmt: skip
        assert value_terms(first) != value_terms(second), first


def test_one_is_a_number_where_it_counts() -> None:
    assert value_terms("only one person") == ["only", "1", "person"]
    for text in ("one of the senators", "no one", "one another", "the one", "one's own"):
        assert "1" not in value_terms(text), text


def test_what_is_no_number_stays() -> None:
    for text in ("version 4.2.1", "hundreds of people", "may 2 or may not", "mp3 h1n1", "x" * 50, "dozens"):
        if not any(char.isdigit() for char in text):
            assert value_terms(text) == terms(text)
    assert value_terms("version 4.2.1") == ["version", "4.2.1"]
    assert value_terms("COVID-19 in May 2020") == ["covid", "19", "may", "2020"]


@given(st.text(alphabet="019.,-/ %a€thndmkonehalfMay\u0663\u00b2\uff11", max_size=60))
def test_it_never_fails(text: str) -> None:
    assert all(value_terms(text))
