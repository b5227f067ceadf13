"""Markdown to blocks of plain text: CommonMark and tables by markdown-it, and the markup of static sites around it.

Text: paragraphs, list items, quotes, table rows (`- Header: cell; …`), fenced code (indented). Dropped: front matter (its
title is used), comments, images, link targets, HTML tags, template tags.
"""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from factgym.corpora.plain_text import Block, BlockBuilder
from factgym.corpora.tables import Cell, row_lines

LOST_TEXT = "[…]"
"""The mark of text that a reader had to drop out of a sentence (a template variable, say)."""

_MAX_FRONT_MATTER_LINES = 400
_MAX_NESTING = 20
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(r"(?:title|name)[ \t]*:[ \t]*(\S.*)")
_ATTRIBUTES = re.compile(r"\{:[^{}\n]{0,200}\}")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,50}\]")
_STRAY_EMPHASIS = re.compile(r"\*{2,}|(?<!\w)_{2,}(?!\w)")
_LIQUID = re.compile(r"\{%-?([^{}]{0,300}?)-?%\}|\{\{[^{}]{0,300}\}\}")
_LIQUID_TARGET = re.compile(r"\]\([^()\[\]{}\n]{0,200}\{[{%][^{}\n]{0,300}[}%]\}[^()\[\]{}\n]{0,200}\)")
_BREAK = re.compile(r"<(?:br|/?(?:td|th|tr|li|p|div|dt|dd))\b", re.I)
"""Tags between whose texts a page has a gap."""
_QUOTED = re.compile(r"[\"']([\w .#-]{1,80})[\"']")
_SILENT_TAGS = (
    *("if", "unless", "else", "end", "raw", "include", "capture"),
    *("assign", "comment", "for", "alert", "note"),
)


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables. Indented text is no code, and HTML blocks do not hide the Markdown inside them."""
    return MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table").disable(["html_block", "code"])


def read_markdown(text: str) -> tuple[str, list[Block]]:
    """Return the title (front matter, else the first top heading, else empty) and the blocks of a Markdown text."""
    title, body = split_front_matter(text)
    reader = _TokenReader()
    for token in _parser().parse(_without_templates(_COMMENT.sub("", body).expandtabs(4))):
        reader.add(token)
    reader.builder.close()
    return plain_inline(title) or reader.builder.title, reader.builder.blocks


def plain_inline(text: str) -> str:
    """Return one paragraph's Markdown as plain text, white space folded."""
    return "".join(_inline_text(token) for token in _parser().parseInline(_without_templates(text)))


def _without_templates(text: str) -> str:
    """Replace the markup of static sites that is no Markdown: template tags and attribute lists."""
    return _ATTRIBUTES.sub("", _LIQUID.sub(_liquid_text, _LIQUID_TARGET.sub("](#)", text)))


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the title named in YAML front matter (empty without one) and the text below it."""
    lines = text.split("\n", _MAX_FRONT_MATTER_LINES)
    if lines[0].rstrip() != "---":
        return "", text
    title = ""
    for number, line in enumerate(lines[1:-1], start=1):
        if line.rstrip() in ("---", "..."):
            return title, "\n".join(lines[number + 1 :])
        match = _META.match(line)
        if match and not title:
            title = match[1].strip().strip("\"'").strip()
    return "", text


def _liquid_text(match: re.Match[str]) -> str:
    """Return the text of a template tag: nothing for control flow, its quoted argument, or the mark of lost text."""
    words = (match[1] or "").split()
    if match[1] is not None and (not words or words[0].startswith(_SILENT_TAGS)):
        return ""
    quoted = _QUOTED.search(match[0])
    return quoted[1] if quoted else LOST_TEXT


def _inline_text(token: Token) -> str:
    parts = []
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "html_inline":
            parts.append(" " if _BREAK.match(child.content) else "")
        elif child.type != "image":
            parts.append(child.content)
    # Emphasis that CommonMark does not accept ("**Word: **") is emphasis all the same.
    return " ".join(_STRAY_EMPHASIS.sub("", _FOOTNOTE.sub("", "".join(parts))).split())


class _TokenReader:
    """Reads the stream of markdown-it's tokens."""

    def __init__(self) -> None:
        self.builder = BlockBuilder(is_complete=False)  # passages of Markdown stay those of published certificates
        self._heading_level = 0
        self._item_mark = ""
        self._rows: list[list[Cell]] = []
        self._cells: list[str] | None = None

    def add(self, token: Token) -> None:
        """Take the next token. An item's mark goes to its first paragraph."""
        # A heading's or cell's text comes as an inline token after the one that opens it.
        kind = token.type
        if kind == "inline":
            self._add_inline(_inline_text(token))
        elif kind == "heading_open":
            self._heading_level = int(token.tag[1])
        elif kind == "list_item_open":
            self._item_mark = f"{token.info}{token.markup} " if token.info else "- "
        elif kind == "list_item_close":
            self._item_mark = ""
        elif kind == "fence":
            self.builder.paragraphs(f"    {line.strip()}" for line in token.content.split("\n") if line.strip())
        elif kind == "tr_open":
            self._cells = []
        elif kind == "tr_close":
            self._rows.append([Cell(text, header=not self._rows) for text in self._cells or []])
            self._cells = None
        elif kind == "table_close":
            self.builder.paragraphs(f"- {line}" for line in row_lines(self._rows))
            self._rows = []

    def _add_inline(self, text: str) -> None:
        """Take the text of an inline token as a heading, a table cell or a paragraph, by what is open."""
        if self._heading_level:
            self.builder.heading(self._heading_level, text)
            self._heading_level = 0
        elif self._cells is not None:
            self._cells.append(text)
        elif text:
            self.builder.paragraphs([self._item_mark + text])
            self._item_mark = ""
