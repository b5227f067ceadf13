"""Markdown to blocks of plain text, as much as evidence needs and no more.

Text: paragraphs, list items, quotes, table rows (`- Header: cell; …`), fenced code (indented). Dropped:
front matter (its title is used), comments, images, link targets, HTML tags, template tags. One pass over
lines and bounded patterns: a hostile file costs linear time.
"""

from __future__ import annotations

import html
import re

from factgym.corpora.plain_text import Block

LOST_TEXT = "[…]"
"""The mark of text that a reader had to drop out of a sentence (a template variable, say)."""

_ATX = re.compile(r"(#{1,6})(?:[ \t]+(.*))?$")
_ITEM = re.compile(r"[ \t]*(?:([-*+])|(\d{1,9}[.)]))[ \t]+(\S.*)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_RULE = re.compile(r"[ \t]*(?:[-*_][ \t]*){3,}$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}")
_REFERENCE = re.compile(r"[ ]{0,3}\[[^\]\n]{1,200}\]:[ \t]*\S")
_META = re.compile(r"(title|name)[ \t]*:[ \t]*(\S.*)")
_ATTRIBUTES = re.compile(r"\{:[^{}\n]{0,200}\}")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^<>\s]{1,500})>")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,50}\]")
_REFERENCE_USE = re.compile(r"\[([^\[\]]{1,300})\]\[[^\[\]]{0,100}\]")
_UNDERSCORE = re.compile(r"(?<![\w\\])_{1,3}(?=\S)|(?<=[^\s\\])_{1,3}(?!\w)")
_STAR = re.compile(r"(?<!\\)\*+(?=\S)|(?<=[^\s\\])\*+")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_LIQUID = re.compile(r"\{%-?([^{}]{0,300}?)-?%\}|\{\{[^{}]{0,300}\}\}")
_QUOTED = re.compile(r"[\"']([\w .#-]{1,80})[\"']")
_SILENT_TAGS = (
    "if",
    "unless",
    "else",
    "end",
    "raw",
    "include",
    "capture",
    "assign",
    "comment",
    "for",
    "alert",
    "note",
)
_MAX_FRONT_MATTER_LINES = 400
_MAX_LINK_TARGET = 2000
_MAX_LINK_DEPTH = 4
_BRACKET = re.compile(r"[()]")
_LINK_MARK = re.compile(r"!?\[|\]")


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
            title = match[2].strip().strip("\"'").strip()
    return "", text


def drop_between(text: str, opening: str, closing: str) -> str:
    """Remove every `opening … closing`; an unclosed one reaches to the end of the text."""
    parts, position = [], 0
    while (start := text.find(opening, position)) >= 0:
        parts.append(text[position:start])
        end = text.find(closing, start + len(opening))
        if end < 0:
            return "".join(parts)
        position = end + len(closing)
    parts.append(text[position:])
    return "".join(parts)


def _closers(text: str) -> dict[int, int]:
    """Return where each round bracket closes, in one pass: unclosed brackets cost nothing more."""
    opens: list[int] = []
    closed: dict[int, int] = {}
    for match in _BRACKET.finditer(text):
        if match[0] == "(":
            opens.append(match.start())
        elif opens:
            closed[opens.pop()] = match.end()
    return closed


def unlink(text: str) -> str:
    """Turn `[words](target)` to `words`, `![alt](target)` to nothing; brackets nested deeper than a link's are text."""
    if "](" not in text:
        return text
    closers = _closers(text)
    out: list[str] = []
    opens: list[int] = []
    position = 0
    for match in _LINK_MARK.finditer(text):
        if match.start() < position:
            continue
        out.append(text[position : match.start()])
        position = match.end()
        if match[0] != "]":
            opens = [*opens[-_MAX_LINK_DEPTH + 1 :], len(out)]
            out.append(match[0])
            continue
        end = closers.get(position, -1) if opens else -1
        start = opens.pop() if opens else -1
        if end < 0 or end - position > _MAX_LINK_TARGET:
            out.append("]")
            continue
        words = "" if out[start] == "![" else "".join(out[start + 1 :])
        del out[start:]
        out.append(words)
        position = end
    out.append(text[position:])
    return "".join(out)


def _liquid(match: re.Match[str]) -> str:
    words = (match[1] or "").split()
    if match[1] is not None and (not words or words[0].startswith(_SILENT_TAGS)):
        return ""
    quoted = _QUOTED.search(match[0])
    return quoted[1] if quoted else LOST_TEXT


def inline(text: str) -> str:
    """Return one paragraph's Markdown as plain text, white space folded."""
    text = _AUTOLINK.sub(r"\1", _FOOTNOTE.sub("", text))
    text = _REFERENCE_USE.sub(r"\1", unlink(text))
    text = _ATTRIBUTES.sub("", _LIQUID.sub(_liquid, text))
    text = _TAG.sub(" " if "<br" in text else "", text)
    text = _STAR.sub("", _UNDERSCORE.sub("", text)).replace("`", "")
    return " ".join(html.unescape(_ESCAPE.sub(r"\1", text)).split())


def _cells(row: str) -> list[str]:
    return [inline(cell) for cell in row.strip().strip("|").replace("\\|", "¦").split("|")]


class _Parser:
    """Parses line by line: the open paragraph, list item or table is flushed when something else begins."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.path: list[tuple[int, str]] = []
        self.paragraphs: list[str] = []
        self.prefix = ""
        self.open: list[str] = []
        self.header: list[str] | None = None
        self.fence = ""
        self.title = ""

    def flush(self) -> None:
        text = inline(" ".join(self.open))
        if text:
            self.paragraphs.append(self.prefix + text)
        self.open, self.prefix, self.header = [], "", None

    def close_block(self) -> None:
        self.flush()
        if self.paragraphs:
            self.blocks.append(Block(tuple(name for _, name in self.path if name), tuple(self.paragraphs)))
        self.paragraphs = []

    def heading(self, level: int, text: str) -> None:
        self.close_block()
        name = inline(text.rstrip("# "))
        self.path = [*[entry for entry in self.path if entry[0] < level], (level, name)]
        if level == 1 and not self.title:
            self.title = name

    def setext(self, line: str) -> bool:
        underline = line.strip()
        if not self.open or self.prefix or not underline or (underline.strip("=") and underline.strip("-")):
            return False
        title, self.open = " ".join(self.open), []
        self.heading(1 if underline[0] == "=" else 2, title)
        return True

    def row(self, line: str) -> None:
        if _TABLE_RULE.match(line):
            return
        cells = _cells(line)
        if self.header is None:
            self.flush()
            self.header = cells
            return
        named = [f"{name}: {cell}" if name else cell for name, cell in zip(self.header, cells, strict=False) if cell]
        if named:
            self.paragraphs.append("- " + "; ".join(named))

    def code(self, line: str, mark: str) -> None:
        if mark and mark[0] == self.fence[0] and len(mark) >= len(self.fence):
            self.fence = ""
        elif line.strip():
            self.paragraphs.append("    " + line.strip())

    def line(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self.fence:
            self.code(line, fence[1] if fence else "")
        elif fence:
            self.flush()
            self.fence = fence[1]
        elif not line.strip():
            self.flush()
        elif atx := _ATX.match(line):
            self.heading(len(atx[1]), atx[2] or "")
        elif line.lstrip().startswith("|"):
            self.row(line)
        elif self.setext(line) or _REFERENCE.match(line):
            pass
        elif _RULE.match(line):
            self.flush()
        else:
            self.words(line)

    def words(self, line: str) -> None:
        quoted = line.lstrip()
        if quoted.startswith(">"):
            line = quoted.lstrip("> ")
        item = _ITEM.match(line)
        if item:
            self.flush()
            self.prefix = "- " if item[1] else f"{item[2]} "
            line = item[3]
        self.header = None
        self.open.append(line.strip())
        if line.endswith("  "):
            self.open.append("")


def read_markdown(text: str) -> tuple[str, list[Block]]:
    """Return the title (front matter, else the first top heading, else empty) and the blocks of a Markdown text."""
    title, body = split_front_matter(text)
    parser = _Parser()
    for line in drop_between(body, "<!--", "-->").split("\n"):
        parser.line(line.expandtabs(4))
    parser.close_block()
    return inline(title) or parser.title, parser.blocks
