"""Pages of HTML as headings, paragraphs, list items and rows of tables.

Tokens are the standard library's; tags that an author may omit (`</p>`, `</li>`, `</td>`, `</tr>`, `</head>`) are closed
by the rules of the HTML standard (section 13.1.2.4). Each visible word is read once: scripts, navigation and hidden
elements are left out, and the cells of a table are those of its grid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from factgym.core.errors import DataError
from factgym.corpora.plain_text import BlockBuilder
from factgym.corpora.tables import Cell, form_grid, row_lines

_ELEMENTS = {
    "void": "area base br col embed hr img input link meta param source track wbr",
    "hidden": "script style noscript template svg head nav iframe object video audio canvas",
    "head": "title meta link script style base noscript template",
    "block": "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu ol optgroup option p pre section summary table tbody "
    "td tfoot th thead title tr ul",
}
_VOID, _HIDDEN, _HEAD, _BLOCKS = (frozenset(names.split()) for names in _ELEMENTS.values())
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_CELLS = frozenset(("td", "th", "caption"))
_GROUPS = frozenset(("thead", "tbody", "tfoot"))
_LISTS = frozenset(("ul", "ol", "menu"))
_SCOPE = _CELLS | {"table"}
_IMPLIED = {
    **dict.fromkeys(_GROUPS, (_GROUPS | {"caption"}, frozenset(("table",)))),
    **dict.fromkeys(("td", "th"), (_CELLS, frozenset(("tr", "table")))),
    **dict.fromkeys(("dt", "dd"), (frozenset(("dt", "dd")), _SCOPE | {"dl"})),
    "tr": (frozenset(("tr", "caption")), frozenset(("table",))),
    "li": (frozenset(("li",)), _SCOPE | _LISTS),
    "option": (frozenset(("option",)), _SCOPE),
}
"""Start tag -> the open elements that it ends, and those beyond which it ends none."""

_MAX_DEPTH = 1000
_MAX_SPAN = 1000
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_UNREAD = re.compile(
    r"<(?P<raw>script|style)\b[^<>]*>.*?(?:</(?P=raw)\s*>|\Z)"
    r"|<!--.*?(?:-->|\Z)|<[!?][^<>]*>?"
    r"""|<(?!/?[a-zA-Z](?:[^<>"']|"[^"<]{0,5000}+"|'[^'<]{0,5000}+'|["'])*+>)""",
    re.DOTALL | re.I,
)
"""Scripts, comments, declarations, and each `<` that opens no tag: `html.parser` reads on to the end of the file for each."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A heading (level from 1) or a paragraph with the mark of its list item; is_row: of a table."""

    text: str
    level: int = 0
    mark: str = ""
    is_row: bool = False


@dataclass(slots=True)
class _TableCell:
    is_header: bool
    width: int
    height: int
    parts: list[_Part] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    is_layout: bool
    caption: list[_Part] = field(default_factory=list)
    rows: list[list[_TableCell]] = field(default_factory=list)

    def parts(self) -> list[_Part]:
        """Return the rows, or the content of the cells in order where the table only arranges a page."""
        cells = [cell for row in self.rows for cell in row]
        is_data = bool(self.caption) or any(cell.is_header for cell in cells)
        is_page = len(cells) == 1 or any(part.level or part.is_row for cell in cells for part in cell.parts)
        if self.is_layout or (is_page and not is_data):
            return [*self.caption, *(part for cell in cells for part in cell.parts)]
        grid = form_grid(
            [
                [(Cell(_cell_text(cell.parts), cell.is_header), cell.width, cell.height) for cell in row]
                for row in self.rows
            ]
        )
        return [*self.caption, *(_Part(line, mark="- ", is_row=True) for line in row_lines(grid))]


def _cell_text(parts: list[_Part]) -> str:
    """Join the parts of a cell: by a comma where they do not end as sentences do."""
    text = ""
    for part in parts:
        gap = " " if text.endswith((".", "!", "?", ":", ";", ",")) else ", "
        text += (gap if text else "") + part.text
    return text


class _Page(HTMLParser):
    """Collects the parts of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.parts: list[_Part] = []
        self._open: list[str] = []
        self._sinks = [self.parts]  # of the page, and of each open cell
        self._tables: list[_Table] = []
        self._lists: list[int] = []  # number of the next item, negative without numbers
        self._text: list[str] = []
        self._mark = self._term = ""
        self._term_start = 0
        self._hidden = 0  # open elements up to the outermost hidden one, 0 without one

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element, and close those that it implies to be closed."""
        if self._open and self._open[-1] == "head" and tag not in _HEAD:
            self._close(len(self._open) - 1)
        if tag == "br" and not self._hidden:
            self._text.append("\n" if "pre" in self._open else " ")
        values = dict(attrs)
        is_hidden = tag in _HIDDEN or "hidden" in values or bool(_INVISIBLE.search(values.get("style") or ""))
        if tag in _VOID or not (tag in _BLOCKS or is_hidden or self._hidden):
            if tag == "hr":
                self._flush()
            return
        if tag in _BLOCKS:
            self._end(frozenset(("p",)), _SCOPE)
            self._end(*_IMPLIED.get(tag, (frozenset(), _SCOPE)))
        if len(self._open) >= _MAX_DEPTH:
            raise DataError("nested too deeply")
        if tag in _BLOCKS and not self._hidden:
            self._flush()
            if not is_hidden:
                self._begin(tag, values)
        self._open.append(tag)
        if is_hidden and not self._hidden:
            self._hidden = len(self._open)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read `<p/>` as `<p>`, as HTML does; a hidden element such as `<svg/>` is empty."""
        if tag not in _HIDDEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Close an element that is open; end tags of table cells and others do not leave their table."""
        if tag == "p" and not self._hidden:
            self._flush()
        scope = frozenset() if tag in ("table", "body", "html") else frozenset(("table",))
        self._end(frozenset((tag,)), scope if tag in _CELLS | _GROUPS | {"tr", "table"} else scope | _SCOPE - {tag})

    def handle_data(self, data: str) -> None:
        """Take text where it is visible."""
        if self._open and self._open[-1] == "title":
            self.title = self.title or " ".join(data.split())
        elif not self._hidden:
            self._text.append(data)

    def close(self) -> None:
        """End the page, and every element that is open."""
        super().close()
        self._close(0)
        self._flush()
        self._flush_term()

    def _end(self, tags: frozenset[str], scope: frozenset[str]) -> None:
        """Close the nearest open element of these tags and all within it, unless one of `scope` is nearer."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index] in tags:
                self._close(index)
                return
            if self._open[index] in scope:
                return

    def _begin(self, tag: str, values: dict[str, str | None]) -> None:
        if tag in ("dl", "dt", "li", "table") or tag in _HEADINGS:
            self._flush_term()
        if tag in _LISTS:
            start = values.get("start") or ""
            self._lists.append((int(start[:6]) if start.isdecimal() else 1) if tag == "ol" else -1)
        elif tag == "li":
            number = self._lists[-1] if self._lists else -1
            self._mark = "- " if number < 0 else f"{number}. "
            if number >= 0:
                self._lists[-1] += 1
        elif tag == "dt":
            self._term_start = len(self._sinks[-1])
        elif tag == "table":
            self._tables.append(_Table(values.get("role") in ("presentation", "none")))
        elif self._tables and tag == "tr":
            self._tables[-1].rows.append([])
        elif self._tables and tag in _CELLS:
            self._begin_cell(tag, values)

    def _begin_cell(self, tag: str, values: dict[str, str | None]) -> None:
        table = self._tables[-1]
        if tag == "caption":
            self._sinks.append(table.caption)
            return
        if not table.rows:
            table.rows.append([])
        is_header = tag == "th" or self._open[-2:-1] == ["thead"]
        cell = _TableCell(is_header, _span(values.get("colspan")), _span(values.get("rowspan"), zero=_MAX_SPAN))
        table.rows[-1].append(cell)
        self._mark = ""
        self._sinks.append(cell.parts)

    def _close(self, index: int) -> None:
        """Close the elements from an index of the open ones on."""
        while len(self._open) > index:
            tag = self._open[-1]
            if self._hidden:
                self._hidden = 0 if self._hidden == len(self._open) else self._hidden
                self._open.pop()
                continue
            if tag in _BLOCKS:
                self._flush()
            self._open.pop()
            if tag == "dt":
                self._end_term()
            elif tag in ("dl", "dd"):
                self._flush_term()
            elif tag in _LISTS and self._lists:
                self._lists.pop()
            elif tag in _CELLS and len(self._sinks) > 1:
                self._flush_term()
                self._sinks.pop()
            elif tag == "table":
                self._sinks[-1].extend(self._tables.pop().parts())
            self._mark = "" if tag == "li" else self._mark

    def _flush(self) -> None:
        """End a paragraph, or the heading that is open."""
        text, self._text = "".join(self._text), []
        is_code = "pre" in self._open and "\n" in text and len(self._sinks) == 1
        level = next((int(tag[1]) for tag in reversed(self._open[-2:]) if tag in _HEADINGS), 0)
        for line in text.split("\n") if is_code else [text]:
            if words := " ".join(line.split()):
                mark = "    " if is_code else self._mark
                if self._term:
                    words, mark = f"{self._term}: {words}", "- "
                self._sinks[-1].append(_Part(words, level, "" if level else mark))
                self._mark = self._term = ""

    def _end_term(self) -> None:
        """Make the paragraph of a `dt` the name of the next one."""
        if len(self._sinks[-1]) > self._term_start:
            self._term = self._sinks[-1].pop().text

    def _flush_term(self) -> None:
        if self._term:
            self._sinks[-1].append(_Part(self._term, mark="- "))
            self._term = ""


def _span(value: str | None, zero: int = 1) -> int:
    """Return a number of columns or rows, at least 1. zero: for 0, which means all rows that follow."""
    digits = (value or "").strip()[:6]
    return min(int(digits) or zero, _MAX_SPAN) if digits.isascii() and digits.isdigit() else 1


def read_html(html: str) -> BlockBuilder:
    """Return the blocks of a page, under the title of its first heading or of its head."""
    page = _Page()
    page.feed(_UNREAD.sub(lambda match: "&lt;" if match[0] == "<" else "", html))
    page.close()
    builder = BlockBuilder("" if any(part.level == 1 for part in page.parts) else page.title)
    for part in page.parts:
        if part.level:
            builder.heading(part.level, part.text)
        else:
            builder.paragraphs([part.mark + part.text])
    builder.close()
    return builder
