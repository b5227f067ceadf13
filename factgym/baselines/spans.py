"""Which part of a statement the evidence does not carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from factgym.baselines.reading import Line, Statement
from factgym.baselines.thesaurus import word_list
from factgym.baselines.words import Word

_BRIDGE = 2
_EDGES = frozenset(word_list("a an the of to in on at by for from with and or as is are be was were that this"))
_JOINTS = frozenset(word_list("because since as given now so if unless when where until after before except"))


def missing_span(asked: Statement, lines: Iterable[Line]) -> str:
    """The longest stretch of the statement whose content words are not in the lines; empty when all are."""
    there = frozenset().union(*(line.keys for line in lines))
    best: Sequence[Word] = ()
    run: list[Word] = []
    found = 0
    for word in asked.words:
        if not word.content:
            run += [word] if run else []
            continue
        if word.key not in there:
            run.append(word)
            found = 0
        elif run:
            found += 1
            run.append(word)
            if found > _BRIDGE:
                best = _longer(best, run, there)
                run = []
    return _text(asked, _longer(best, run, there), there)


def _longer(best: Sequence[Word], run: Sequence[Word], there: frozenset[str]) -> Sequence[Word]:
    return run if _new(run, there) > _new(best, there) else best


def _new(run: Sequence[Word], there: frozenset[str]) -> int:
    return sum(word.content and word.key not in there for word in run)


def _text(asked: Statement, run: Sequence[Word], there: frozenset[str]) -> str:
    """The run without covered and empty words at its end, from its joint ("because") where one opens it."""
    kept = list(run)
    while kept and (kept[-1].key in there or not kept[-1].content):
        kept.pop()
    if not kept:
        return ""
    start = kept[0].start
    before = [word for word in asked.words if word.end <= start]
    while before and before[-1].lower in _EDGES | _JOINTS:
        start = before[-1].start
        if before.pop().lower in _JOINTS:
            break
    return asked.text[start : kept[-1].end]
