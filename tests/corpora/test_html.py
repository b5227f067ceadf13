"""Pages of HTML: each visible word is in exactly one passage, whatever end tags its author leaves out.

The words of a generated page are known by construction, as each is written once; which end tags may be omitted is from the
HTML standard, section 13.1.2.4.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import DataError
from factgym.corpora.documents import make_document
from factgym.corpora.html import read_html


def lines_of(html: str) -> list[str]:
    return [line for block in read_html(html).blocks for line in block.paragraphs]


class PageWriter:
    """Writes a random page of elements that may nest, and records its words."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words: list[str] = []

    def text(self) -> str:
        """Return words that occur nowhere else, in markup that does not part them."""
        word = f"w{len(self.words)}z"
        self.words.append(word)
        forms = (
            "{0}", "<b>{0}</b>", "{1}<i>{2}</i>", "{0}<!-- x -->", "<script>'<!--' + {1}</script>{0}", "<span hidden>no</span>{0}",
            "<svg><text>no</text></svg>{0}", "{1}<wbr>{2}", "<a href='?a>b'>{0}</a>", "{0} & more < less",
        )  # fmt: skip
        return self.random.choice(forms).format(word, word[:1], word[1:])

    def end(self, tag: str) -> str:
        """Return an end tag, or nothing."""
        return self.random.choice((f"</{tag}>", ""))

    def items(self, depth: int) -> str:
        """Return a list."""
        entries = "".join(f"<li>{self.text()}{self.blocks(depth - 1)}{self.end('li')}" for _ in range(self.count()))
        return f"<ul>{entries}</ul>"

    def terms(self, depth: int) -> str:
        """Return terms with their descriptions."""
        pairs = (f"<dt>{self.text()}{self.end('dt')}<dd>{self.text()}{self.end('dd')}" for _ in range(self.count()))
        return f"<dl>{''.join(pairs)}</dl>"

    def table(self, depth: int) -> str:
        """Return a table, whose first row names the columns."""
        width = self.count()
        rows = "".join(f"<tr>{''.join(self.cell() for _ in range(width))}{self.end('tr')}" for _ in range(self.count()))
        caption = f"<caption>{self.text()}{self.end('caption')}" if self.random.random() < 0.3 else ""
        return f"<table>{caption}<tbody>{rows}{self.end('tbody')}</table>"

    def cell(self) -> str:
        """Return a cell, at times with a list."""
        text, kind = self.text(), self.random.choice((self.blocks, self.blocks, self.items, self.terms))
        return f"<td>{text}{kind(0)}{self.end('td')}"

    def count(self) -> int:
        """Return a small number."""
        return self.random.randint(1, 3)

    def blocks(self, depth: int) -> str:
        """Return blocks one after another."""
        if depth <= 0:
            return ""
        simple = (
            lambda depth: f"<p>{self.text()}{self.end('p')}", lambda depth: f"<div>{self.text()}{self.blocks(depth - 1)}</div>",
            lambda depth: f"<pre>{self.text()}\n{self.text()}</pre>", lambda depth: f"<blockquote>{self.text()}</blockquote>",
        )  # fmt: skip
        kinds = (*simple, self.items, self.terms, self.table)
        return "".join(self.random.choice(kinds)(depth) for _ in range(self.count()))


@given(st.integers(0, 10**9))
def test_each_word_of_a_page_is_in_one_passage(seed: int) -> None:
    page = PageWriter(seed)
    body = page.blocks(3)
    builder = read_html(f"<!doctype html><head><title>T</title><style>p {{}}</style><h2>H</h2>{body}")
    passages = make_document("d", builder.title, builder.blocks, 900).passages
    counts = Counter(word for passage in passages for line in passage.text.split() for word in [line.strip("-;:,. ")])
    assert {word: counts[word] for word in page.words} == dict.fromkeys(page.words, 1), body
    assert "no" not in counts


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        ("<table><tr><th>Plan<th>Fee<tr><td>Basic<td>10 euros</table>", ["- Plan: Basic; Fee: 10 euros"]),
        ("<p>One rule.<p>Two rules.", ["One rule.", "Two rules."]),
        ("It costs $<!-- -->10.", ["It costs $10."]),
        ("<p># a *b* [c](d) {{ e }} | f</p>", ["# a *b* [c](d) {{ e }} | f"]),
        ("<script>s = '<!--';</script><p>Text.", ["Text."]),
        ("<ol start=3><li>Three<ul><li>inner</ul><li>Four</ol>", ["3. Three", "- inner", "4. Four"]),
        ("<dl><dt>Notice<dt>Term<dd>30 days<dd>60 days</dl>", ["- Notice", "- Term: 30 days", "60 days"]),
        ("<div style='display: none'>no<p>no</div><p>Yes.", ["Yes."]),
        ("<table><tr><td><h2>Leave</h2>Staff rest.<td><ul><li>A link</ul></table>", ["Staff rest.", "- A link"]),
        ("<table><td>Notice<td>30 days</table>", ["- Notice: 30 days"]),
        ("<table><tr><td hidden>no<td>Notice<td>30 days</table>", ["- Notice: 30 days"]),
        ("<table role=presentation><tr><td>One.<td>Two.</table>", ["One.", "Two."]),
        ("<nav>Menu</nav>Text.", ["Text."]),
    ],
)  # fmt: skip
def test_constructs(html: str, lines: list[str]) -> None:
    assert lines_of(html) == lines


def test_headings_without_text_are_kept() -> None:
    builder = read_html("<h1>Doc</h1><h2>Alpha</h2><h3>Beta</h3><h4>Gamma</h4>Text.<h2>Closed on Mondays</h2>")
    blocks = [(block.path, block.paragraphs) for block in builder.blocks]
    assert blocks == [
        (("Doc", "Alpha", "Beta", "Gamma"), ("Text.",)),
        (("Doc",), ("Alpha",)),
        (("Doc",), ("Closed on Mondays",)),
    ]
    assert builder.title == "Doc"


def test_depth_is_bounded() -> None:
    with pytest.raises(DataError, match="nested too deeply"):
        read_html("<div>" * 2000)


SOUP = "<p> <td> </td> <tr> </table> <table> <li> <ul> </ul> <dt> <h1> </h1> <caption> <nav> </nav> <dl> <pre> a"


@given(st.lists(st.sampled_from(SOUP.split())))
def test_any_soup_is_read(parts: list[str]) -> None:
    """The words outside of navigation are as many as in the source: a reading that knows no grid."""
    numbered = [f" a{number}z " if part == "a" else part for number, part in enumerate(parts) if "nav" not in part]
    builder = read_html("".join(numbered))
    counts = Counter(word.strip("-;:,. ") for line in builder.lines for word in line.split())
    assert all(counts[part.strip()] >= 1 for part in numbered if part.startswith(" "))
    read_html("".join(parts))
