"""Wikitext to prose, by `mwparserfromhell` (extra "wikipedia").

Templates, tables, references, mathematics, comments and files are dropped; of links and formatting the text remains.
The facts of infoboxes and tables are thereby lost, as they are in WikiExtractor's output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from factgym.core.errors import MissingExtraError
from factgym.corpora.plain_text import Block
from factgym.text.words import words_in

_TEXTLESS = words_in(
    "ref references table gallery math chem score timeline syntaxhighlight source imagemap graph style templatestyles "
    "mapframe hiero inputbox categorytree"
)
_NAMESPACE_LINK = re.compile(r"\s*:?\s*(?:File|Image|Media|Category)\s*:", re.I)
_LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?:\S")
_BLANK_LINES = re.compile(r"\n{3,}")
_EMPTY_PARENTHESES = re.compile(r"\(\s*[,;]?\s*\)")
_MARK = re.compile(
    r"(?P<open>\{\{\{?|\[\[|\[(?=[a-z]*:?//)|\{\||<!--|<(?!/)(?=(?P<tag>[a-z]\w*)(?![^<>]*/>)))"
    r"|(?P<close>\}\}\}?|\]\]?|\|\}|-->|</(?P<closed>[a-z]\w*))",
    re.I,
)
_PARTNERS = {"}}": "{{", "}}}": "{{", "{{{": "{{", "]]": "[[", "]": "[", "|}": "{|", "-->": "<!--"}
_ESCAPED = {ord(mark): 0xFDD0 + number for number, mark in enumerate("{[<")}
_UNESCAPED = {escaped: mark for mark, escaped in _ESCAPED.items()}
"""Marks -> characters of no text (Unicode 23.7) that the parser passes over, and back."""
_MAX_UNCLOSED = 32
"""Marks of a page that open what nothing closes, from which on they are escaped: for each the parser reads to the end."""


def strip_wikitext(wikitext: str) -> str:
    """Return the prose of a page. Raises MissingExtraError without the extra."""
    return _prose(_parse(wikitext))


def read_wikitext(wikitext: str) -> tuple[str, list[Block]]:
    """Return the prose of a page, as `strip_wikitext` does, and its paragraphs by section."""
    nodes = _parse(wikitext)
    blocks: list[Block] = []
    headings: list[tuple[int, str]] = []  # level and text, from the outermost to the nearest
    section: list[Any] = []
    for node in [*nodes, None]:
        if node is not None and type(node).__name__ != "Heading":
            section.append(node)
            continue
        if paragraphs := tuple(filter(None, (" ".join(line.split()) for line in _prose(section).split("\n")))):
            blocks.append(Block(tuple(text for _, text in headings if text), paragraphs))
        if node is not None:
            text = " ".join(_prose(node.title.nodes).split())
            headings = [(level, outer) for level, outer in headings if level < node.level]
            headings.append((node.level, text))
            section = []
    return _prose(nodes), blocks


def _parse(wikitext: str) -> list[Any]:
    try:
        parser = import_module("mwparserfromhell")
    except ImportError:
        raise MissingExtraError("a Wikipedia dump in MediaWiki's own form", "wikipedia") from None
    return list(parser.parse(_without_unclosed(wikitext)).nodes)


def _without_unclosed(wikitext: str) -> str:
    """Return a page as the parser reads it, in which the marks that nothing closes, where there are many, are escaped."""
    pending, unclosed, pieces, end = Counter[str](), list[re.Match[str]](), list[str](), 0
    is_single = import_module("mwparserfromhell.definitions").is_single
    for match in reversed(list(_MARK.finditer(wikitext))):
        mark, tag, close, closed = match.group(0, "tag", "close", "closed")
        kind = (tag or closed or _PARTNERS.get(mark, mark)).lower()
        if close:
            pending[kind] += 1
        elif pending[kind]:
            pending[kind] -= 1
        elif not is_single(kind):
            unclosed.append(match)
    if len(unclosed) <= _MAX_UNCLOSED:
        return wikitext
    for match in reversed(unclosed):
        pieces += (wikitext[end : match.start()], match[0].translate(_ESCAPED))
        end = match.end()
    return "".join((*pieces, wikitext[end:]))


def _prose(nodes: list[Any]) -> str:
    text = "".join(_node_texts(nodes))
    return _BLANK_LINES.sub("\n\n", _EMPTY_PARENTHESES.sub("", text.translate(_UNESCAPED))).strip()


def _node_texts(nodes: Any) -> Iterator[str]:
    """Yield the text of nodes; nodes of a kind without text are skipped."""
    for node in nodes:
        kind = type(node).__name__
        if kind == "Text":
            yield str(node.value)
        elif kind == "Wikilink":
            yield from _link_texts(node)
        elif kind == "Tag":
            yield from _tag_texts(node)
        elif kind == "Heading":
            yield from ("\n", *_node_texts(node.title.nodes), "\n")
        elif kind == "HTMLEntity":
            try:
                yield str(node.normalize())
            except (ValueError, OverflowError):  # a number that is no character
                yield " "
        elif kind == "ExternalLink" and node.title is not None:
            yield from _node_texts(node.title.nodes)


def _link_texts(node: Any) -> Iterator[str]:
    title = str(node.title)
    if not _NAMESPACE_LINK.match(title) and (node.text is not None or not _LANGUAGE_LINK.match(title)):
        yield from _node_texts((node.title if node.text is None else node.text).nodes)


def _tag_texts(node: Any) -> Iterator[str]:
    tag = str(node.tag).strip().lower()
    if tag == "br":
        yield "\n"
    elif tag not in _TEXTLESS and node.contents is not None:
        yield from _node_texts(node.contents.nodes)
