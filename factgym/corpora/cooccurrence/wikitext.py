"""Wikitext as plain text, by `mwparserfromhell` (the extra "wikipedia").

Templates, tables, references, mathematics, comments and files go, of links and formatting the text stays. What an
infobox or a table says is thereby lost to the counts, as it is in WikiExtractor's output.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from factgym.core.errors import MissingExtraError

_NO_TEXT = frozenset(
    [
        "ref",
        "references",
        "table",
        "gallery",
        "math",
        "chem",
        "score",
        "timeline",
        "syntaxhighlight",
        "source",
        "imagemap",
        "graph",
        "style",
        "templatestyles",
        "mapframe",
        "hiero",
        "inputbox",
        "categorytree",
    ]
)
_NO_LINK = re.compile(r"\s*:?\s*(?:File|Image|Media|Category)\s*:", re.I)
_LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?:\S")
_BLANK = re.compile(r"\n{3,}")
_EMPTY = re.compile(r"\(\s*[,;]?\s*\)")


def plain_text(wikitext: str) -> str:
    """The prose of a page. Raises MissingExtraError without the library."""
    parser = _parser()
    code = parser.parse(wikitext)
    text = "".join(_pieces(code.nodes))
    return _BLANK.sub("\n\n", _EMPTY.sub("", text)).strip()


@cache
def _parser() -> Any:
    try:
        return import_module("mwparserfromhell")
    except ImportError:
        raise MissingExtraError("a Wikipedia dump in MediaWiki's own form", "wikipedia") from None


def _pieces(nodes: Any) -> Any:
    """The text of nodes, piece by piece; a kind of node that has no text is left out."""
    for node in nodes:
        kind = type(node).__name__
        if kind == "Text":
            yield str(node.value)
        elif kind == "Wikilink":
            yield from _link(node)
        elif kind == "Tag":
            yield from _tag(node)
        elif kind == "Heading":
            yield from ("\n", *_pieces(node.title.nodes), "\n")
        elif kind == "HTMLEntity":
            yield _entity(node)
        elif kind == "ExternalLink" and node.title is not None:
            yield from _pieces(node.title.nodes)


def _link(node: Any) -> Any:
    title = str(node.title)
    if _NO_LINK.match(title) or (node.text is None and _LANGUAGE_LINK.match(title)):
        return
    yield from _pieces((node.title if node.text is None else node.text).nodes)


def _tag(node: Any) -> Any:
    name = str(node.tag).strip().lower()
    if name == "br":
        yield "\n"
    elif name not in _NO_TEXT and node.contents is not None:
        yield from _pieces(node.contents.nodes)


def _entity(node: Any) -> str:
    try:
        return str(node.normalize())
    except (ValueError, OverflowError):  # a number that is no character
        return " "
