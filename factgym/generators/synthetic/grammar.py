"""Sentence frames: strings with `{slots}` and `[alternatives|like this]`, compiled once and filled many times.

A frame names the slots that it cannot do without, so that a chooser offers only frames for which the words exist.
Span marks (two control characters) survive filling: they say where in the finished text a slot's wording stands.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

OPEN, CLOSE = "\x01", "\x02"

Node = str | tuple[str] | list[tuple["Node", ...]]
"""A literal, a slot `(name,)`, or a list of alternatives, each a sequence of nodes."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A compiled frame. slots: every slot outside alternatives."""

    nodes: tuple[Node, ...]
    slots: frozenset[str]


@cache
def compile_frame(source: str) -> Frame:
    """Compile a frame; an unbalanced bracket raises ValueError."""
    nodes, at = _sequence(source, 0, "")
    if at != len(source):
        raise ValueError(f"unbalanced bracket in frame {source!r}")
    return Frame(nodes, frozenset(node[0] for node in nodes if isinstance(node, tuple)))


def _sequence(source: str, at: int, stops: str) -> tuple[tuple[Node, ...], int]:
    nodes: list[Node] = []
    literal = ""
    while at < len(source) and source[at] not in stops:
        char = source[at]
        if char not in "{[":
            literal += char
            at += 1
            continue
        if literal:
            nodes.append(literal)
            literal = ""
        if char == "{":
            end = source.index("}", at)
            nodes.append((source[at + 1 : end],))
            at = end + 1
        else:
            options, at = _alternatives(source, at + 1)
            nodes.append(options)
    if literal:
        nodes.append(literal)
    return tuple(nodes), at


def _alternatives(source: str, at: int) -> tuple[list[tuple[Node, ...]], int]:
    options = []
    while True:
        option, at = _sequence(source, at, "|]")
        options.append(option)
        if at >= len(source):
            raise ValueError(f"unbalanced bracket in frame {source!r}")
        at += 1
        if source[at - 1] == "]":
            return options, at


def fill(frame: Frame, slot: Callable[[str], str], rng: random.Random) -> str:
    """The text of `frame`, with one alternative drawn at each bracket and `slot(name)` for each slot."""
    parts: list[str] = []
    _fill(frame.nodes, slot, rng, parts)
    return tidy("".join(parts))


def _fill(nodes: Sequence[Node], slot: Callable[[str], str], rng: random.Random, parts: list[str]) -> None:
    for node in nodes:
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, tuple):
            parts.append(slot(node[0]))
        else:
            _fill(node[int(rng.random() * len(node))], slot, rng, parts)


def tidy(text: str) -> str:
    """Single spaces, and none before a comma or a full stop."""
    return " ".join(text.split()).replace(" ,", ",").replace(" .", ".")


def unmark(text: str) -> tuple[str, tuple[int, int] | None]:
    """`text` without its marks, and the range between the first pair of them, trimmed of spaces."""
    start = text.find(OPEN)
    if start < 0:
        return text, None
    end = text.index(CLOSE, start)
    inner = text[start + 1 : end].strip(" ,")
    lead = len(text[start + 1 : end]) - len(text[start + 1 : end].lstrip(" ,"))
    plain = text.replace(OPEN, "").replace(CLOSE, "")
    return plain, (start + lead, start + lead + len(inner))
