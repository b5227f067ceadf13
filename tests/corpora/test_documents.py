"""The folder reader: Markdown, text and JSONL to passages, path rules, and errors that name the fix.

The reading of Markdown is checked against markdown-it-py (CommonMark, not ours; rich brings it) on real policies.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.documents import (
    UniqueNames,
    cut,
    make_document,
    pack,
    passage_title,
    read_folder,
    slug,
    title_from_name,
)
from factgym.corpora.markdown import plain_inline, read_markdown, split_front_matter
from factgym.corpora.plain_text import heading_of, plain_paragraphs, read_plain

MARKDOWN = """---
title: "Refund policy"
keywords: x
---

<!-- a comment
over two lines -->
# Refunds

We *always* refund, see [our **terms**](terms/index.md "Terms") and ![logo](a.png)the
[FAQ][1]. Write to {{ site.email }}.

## How it works

- First item
  goes on here.
- Second `code` item {: .css}

1. Step one

| Plan | Price |
|------|:-----:|
| Solo | $5    |
| Team |       |

```
curl x
```

> Quoted text.

Annual plans
------------

Paid {% page "x/y" %}yearly.<br>Really.

[1]: https://example.org
"""


def lines_of(text: str) -> list[tuple[tuple[str, ...], str]]:
    return [(block.path, line) for block in read_markdown(text)[1] for line in block.paragraphs]


def test_markdown_constructs() -> None:
    title, _ = read_markdown(MARKDOWN)
    assert title == "Refund policy"
    assert lines_of(MARKDOWN) == [
        (("Refunds",), "We always refund, see our terms and the FAQ. Write to […]."),
        (("Refunds", "How it works"), "- First item goes on here."),
        (("Refunds", "How it works"), "- Second code item"),
        (("Refunds", "How it works"), "1. Step one"),
        (("Refunds", "How it works"), "- Plan: Solo; Price: $5"),
        (("Refunds", "How it works"), "- Plan: Team"),
        (("Refunds", "How it works"), "    curl x"),
        (("Refunds", "How it works"), "Quoted text."),
        (("Refunds", "Annual plans"), "Paid […]yearly. Really."),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[a](b(c)d) e", "a e"),
        ("[a [b](c)](d)", "[a b](d)"),
        ("[a] (b)", "[a] (b)"),
        ("[a](b", "[a](b"),
        ("](x)", "](x)"),
        ("![alt](x.png) t", "t"),
        ("[x]({% page 'a (b)' %}) t", "x t"),
    ],
)
def test_links(source: str, expected: str) -> None:
    assert plain_inline(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a **b** _c_ snake_case 5 * 3", "a b c snake_case 5 * 3"),
        ("R&amp;D &lt;b&gt;", "R&D <b>"),
        (r"\*not emphasis\*", "*not emphasis*"),
        ('{% slack_channel "tts-jobs" %}', "tts-jobs"),
        ("{% alert %}note{% endalert %}", "note"),
        ("a[^1] b", "a b"),
        ("<tr><td>Plan</td><td>10 <b>eu</b>ros</td></tr>", "Plan 10 euros"),
        ("<https://example.org/x>", "https://example.org/x"),
    ],
)
def test_inline(source: str, expected: str) -> None:
    assert plain_inline(source) == expected


def test_front_matter_without_an_end_is_text() -> None:
    assert split_front_matter("---\ntitle: x\n") == ("", "---\ntitle: x\n")
    assert read_markdown("# Only heading\n\ntext")[0] == "Only heading"
    assert read_markdown("## Second level\n\ntext")[0] == ""


@pytest.mark.data
@pytest.mark.parametrize("name", ["policies_basecamp", "policies_github_site", "policies_18f", "policies_automattic"])
def test_markdown_keeps_the_words_that_commonmark_renders(data_dir: Path, name: str) -> None:
    """Nearly every word outside code, HTML and template tags survives, and hardly any is made up."""
    parser = MarkdownIt("commonmark").enable("table")
    observed: Counter[str] = Counter()
    ours_counts: Counter[str] = Counter()
    for path in sorted((data_dir / name).glob("*.md")):
        body = split_front_matter(path.read_text(encoding="utf-8-sig"))[1]
        body = re.sub(r"<!--.*?-->|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>|\{:[^}]*\}", "", body, flags=re.DOTALL)
        tokens = [child for token in parser.parse(body) for child in token.children or [token]]
        words = " ".join(token.content for token in tokens if token.type in ("text", "code_inline", "fence"))
        observed.update(re.findall(r"[a-z]{3,}", words.lower()))
        blocks = read_markdown(body)[1]
        actual = " ".join(line for block in blocks for line in (*block.path[-1:], *block.paragraphs))
        ours_counts.update(re.findall(r"[a-z]{3,}", actual.lower()))
    lost = sum((observed - ours_counts).values()) / sum(observed.values())
    made = sum((ours_counts - observed).values()) / sum(ours_counts.values())
    assert lost < 0.02
    assert made < 0.04  # table headers are repeated in every row


def test_plain_text_is_reflowed_and_furniture_dropped() -> None:
    page = "ACME Supply Agreement                                   Page {n}\n\n"
    body = (
        "1. TERM\n\nThis agreement begins on the first day of March and\n"
        "continues for two years unless it is ended sooner by either\n"
        "party, which must give written notice of sixty days to the\n"
    )
    remaining = (
        "other party before the end of the term or of any renewed\nterm of it.\n\n(a) The notice is sent by mail.\n\n"
    )
    text = (
        body + "\n" + page.format(n=1) + remaining + page.format(n=2) + "Last words stand here.\n\n" + page.format(n=3)
    )
    _, blocks = read_plain(text)
    lines = [line for block in blocks for line in block.paragraphs]
    assert blocks[0].path == ("TERM",)
    assert lines[0].endswith(
        "notice of sixty days to the other party before the end of the term or of any renewed term of it."
    )
    assert lines[1:] == ["(a) The notice is sent by mail.", "Last words stand here."]


def test_one_paragraph_a_line_with_column_gaps_and_clause_numbers() -> None:
    text = (
        "DISTRIBUTION AGREEMENT            BETWEEN        ACME\n\n"
        "The parties agree. 2.1 The term is one year. 2.2 The fee is due monthly under Section 2.1 The end.\n\n"
        "1.       APPOINTMENT\n\nText here." + " Filler." * 30
    )
    assert plain_paragraphs(text) == [
        "DISTRIBUTION AGREEMENT", "BETWEEN", "ACME", "The parties agree.", "2.1 The term is one year.",
        "2.2 The fee is due monthly under Section 2.1 The end.", "1. APPOINTMENT", "Text here." + " Filler." * 30,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("1. Term and Termination", "Term and Termination"),
        ("ARTICLE 2 DEFINITIONS", "Definitions"),
        ("CONFIDENTIALITY", "Confidentiality"),
        ("1. The fee is due monthly.", ""),
        ("- Bullet", ""),
        ("180 West Street", ""),
        ("Some ordinary words", ""),
        ("By: /s/ A. Smith", ""),
    ],
)
def test_headings_of_plain_text(text: str, heading: str) -> None:
    assert heading_of(text) == heading


def test_jsonl_reads_text_and_contents(tmp_path: Path) -> None:
    text = '{"id": 1, "title": "A", "text": "one"}\n\n{"contents": "\\"T\\"\\nbody"}\n{"id": "z", "contents": "bare"}'
    (tmp_path / "f.jsonl").write_text(text)
    documents = read_folder(tmp_path).documents
    assert [(document.id, document.title, document.passages[0].text) for document in documents] == [
        ("1", "A", "one"),
        ("line-3", "T", "body"),
        ("z", "z", "bare"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"id": "a" "text": 1}',
            "policies.jsonl line 3: not valid JSON at column 12 (Expecting ',' delimiter). Fix the line or remove it.",
        ),
        ("[1]", "policies.jsonl line 3: a JSON object is expected, not a list"),
        ('{"id": "a"}', 'policies.jsonl line 3: no "text" or "contents" (found: id)'),
        ('{"text": 5}', "policies.jsonl line 3: 'text' must be a string, not a int"),
        ('{"text": "x", "title": 5}', "policies.jsonl line 3: 'title' must be a string"),
        ('{"text": "x", "id": null}', "policies.jsonl line 3: 'id' must be a string or a whole number"),
        ('{"text": "x", "id": "first"}', "policies.jsonl line 3: the id 'first' is on line 1 too"),
        ("[" * 100_000, "policies.jsonl line 3: not usable JSON"),
        ('{"text": ' + "9" * 5000 + "}", "policies.jsonl line 3: "),
    ],
)
def test_broken_jsonl_lines_name_file_line_and_fix(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "policies.jsonl").write_text('{"id": "first", "text": "fine"}\n\n' + line + "\n")
    with pytest.raises(DataError) as caught:
        read_folder(tmp_path)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "b").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "b" / "leave.md").write_text("# Leave\n\nYou may take leave.\n")
    (root / "a-note.txt").write_bytes("\ufeffThe office is open.\r\nIt closes at six.\r\n".encode())
    (root / "more.jsonl").write_text('{"id": "x", "title": "Leave", "text": "Other leave."}\n')
    (root / ".hidden.md").write_text("secret")
    (root / ".git" / "x.md").write_text("secret")
    (root / "image.md").write_bytes(b"\x00\x01")
    (root / "latin.md").write_bytes("Café".encode("latin-1"))
    (root / "big.md").write_text("x" * 2000)
    (root / "empty.md").write_text("---\ntitle: nothing\n---\n")
    (root / "other.py").write_text("print()")
    (tmp_path / "outside.md").write_text("# Outside\n\nSecret.\n")
    (root / "link.md").symlink_to(tmp_path / "outside.md")
    (root / "loop").symlink_to(tmp_path)
    return root


def test_folder_order_ids_titles_and_skips(folder: Path) -> None:
    scan = read_folder(folder, max_file_bytes=1000)
    names = [(document.id, document.title) for document in scan.documents]
    assert names == [("a-note", "A note"), ("leave", "Leave"), ("x", "Leave (x)")]
    assert [passage.text for document in scan.documents for passage in document.passages] == [
        "The office is open.\nIt closes at six.", "You may take leave.", "Other leave.",
    ]  # fmt: skip
    assert [document.id for document in scan.documents[1].passages] == ["leave#1"]
    reasons = {document.path: document.reason for document in scan.skipped}
    assert set(reasons) == {
        "image.md", "latin.md", "big.md", "empty.md", "link.md", "other.py", ".hidden.md", ".git/", "loop/",
    }  # fmt: skip
    assert reasons[".git/"] == reasons[".hidden.md"] == "hidden by the dot before its name"
    assert reasons["loop/"] == "a link to a folder: name the folder itself"
    assert reasons["image.md"] == "a binary file"
    assert "not UTF-8" in reasons["latin.md"]
    assert "over the limit" in reasons["big.md"]
    assert "leaves the folder" in reasons["link.md"]
    assert scan == read_folder(folder, max_file_bytes=1000)


def test_globs_and_single_files(folder: Path) -> None:
    assert [item.title for item in read_folder(folder, glob="**/*.md", max_file_bytes=1000).documents] == ["Leave"]
    assert [item.title for item in read_folder(folder, glob=["*.txt"]).documents] == ["A note"]
    assert [item.title for item in read_folder(folder / "b" / "leave.md").documents] == ["Leave"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read every file")
def test_unreadable_files_are_reported(folder: Path) -> None:
    (folder / "a-note.txt").chmod(0)
    assert any(
        document.path == "a-note.txt" and "cannot be read" in document.reason
        for document in read_folder(folder).skipped
    )


def test_an_empty_folder_is_an_error_that_names_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder; expected a folder of"):
        read_folder(tmp_path / "missing")
    with pytest.raises(DataError, match=r"no document found; expected files with text in a kind that is read"):
        read_folder(tmp_path)
    (tmp_path / "x.md").write_bytes(b"\0")
    with pytest.raises(DataError, match=r"skipped x\.md: a binary file"):
        read_folder(tmp_path)
    with pytest.raises(ConfigError, match="max_passage_chars"):
        read_folder(tmp_path, max_passage_chars=5)


def test_ids_and_titles() -> None:
    assert slug("Refund Policy – HEY’s!") == "refund-policy-heys"
    assert slug("合同") == "document"
    assert len(slug("word " * 40)) <= 48
    ids = UniqueNames()
    assert [ids.take(name) for name in ("a", "a", "A", "a-2")] == ["a", "a-2", "A-3", "a-2-2"]
    assert (
        title_from_name("NETGEAR,INC_04_21_2003-EX-10.16-DISTRIBUTOR AGREEMENT.txt")
        == "Netgear,Inc Distributor Agreement"
    )
    assert title_from_name("x/refund__hey__index.md") == "Refund hey"
    assert title_from_name("Terms of Service__Shop__EN-Terms-of-Service.md") == "EN Terms of Service"
    assert title_from_name("2024.md") == "2024"
    assert passage_title("Leave", ["leave", "A", "B", "C"]) == "Leave › B › C"


@given(st.lists(st.text("ab .\n", max_size=120), max_size=6), st.integers(5, 60))
def test_packing_keeps_every_word_in_order_within_the_limit(paragraphs: list[str], limit: int) -> None:
    paragraphs = [" ".join(item.split()) for item in paragraphs if item.strip()]
    packed = list(pack(paragraphs, limit))
    assert all(0 < len(text) <= limit for text in packed)
    assert re.sub(r"\s", "", "".join(packed)) == re.sub(r"\s", "", "".join(paragraphs))


def test_cut_prefers_sentence_ends() -> None:
    text = "One two three. Four five six. Seven eight nine."
    assert list(cut(text, 32)) == ["One two three. Four five six.", "Seven eight nine."]
    assert list(cut("abcdefgh", 3)) == ["abc", "def", "gh"]


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for title, blocks in (read_markdown(text), read_plain(text)):
        document = make_document("d", title, blocks, 100)
        assert all(0 < len(passage.text) <= 100 for passage in document.passages)


@pytest.mark.parametrize(
    "unit", ["[", "[a](", "*", "{%", "<a", "<!--", "|", "> ", "\\[", "a      ", "abc def\n", "1.1 ", "](x)"]
)
def test_hostile_repetition_is_read(unit: str) -> None:
    text = unit * (12_000 // len(unit))
    for title, blocks in (read_markdown(text), read_plain(text)):
        make_document("d", title, blocks, 900)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "glob"),
    [
        ("policies_basecamp", "*.md"),
        ("policies_18f", "*.md"),
        ("policies_github_site", "*.md"),
        ("policies_automattic", "*.md"),
        ("cuad/contracts", "*.txt"),
    ],
)
def test_real_folders(data_dir: Path, name: str, glob: str) -> None:
    scan = read_folder(data_dir / name, glob=glob)
    assert scan.skipped == ()
    assert len(scan.documents) == len(list((data_dir / name).glob(glob)))
    passages = [passage for document in scan.documents for passage in document.passages]
    assert len({passage.id for passage in passages}) == len(passages)
    assert len({document.title.casefold() for document in scan.documents}) == len(scan.documents)
    assert all(0 < len(passage.text) <= 900 for passage in passages)
    size = sum(path.stat().st_size for path in (data_dir / name).glob(glob))
    assert sum(len(passage.text) for passage in passages) > 0.45 * size
