"""Sentence-level condensation: of a passage, only the sentences that answer the query.

Condensed retrieval after Baleen (Khattab et al., NeurIPS 2021), with term overlap in place of its trained
sentence selector: sentences that share terms with the query are selected, best first, as long as they fit. Of a
passage that matches by its title alone the first sentences are shown. A snippet helps to decide which passage to read;
evidence is quoted from the passage, and a cut is always marked with `…`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from factgym.core.errors import ConfigError
from factgym.corpora.bm25 import share
from factgym.corpora.corpus import Passage
from factgym.text.sentences import sentences
from factgym.text.words import query_terms, terms

MAX_CHARS = 240
"""Default length of a snippet in characters, marks included; two ordinary sentences."""

_MIN_CHARS = 24
_CUT = "…"
_MARKS = 4
_CACHED_PASSAGES = 4096


MAX_FACT_CHARS = 500
"""Longest fact in characters; a longer sentence is cut there."""


class Fact(NamedTuple):
    """A sentence that was chosen from a passage: the first `MAX_FACT_CHARS` characters, white space folded."""

    passage: Passage
    text: str


class Sentences(NamedTuple):
    """The sentences of a passage: their texts with white space folded, and of each term the positions of those that hold it."""

    texts: tuple[str, ...]
    positions: Mapping[str, Sequence[int]]


def query_weights(query: str, index: object = None) -> dict[str, float]:
    """Return the weight of each distinct query term, in query order: its idf where the index has one, else 1."""
    words = dict.fromkeys(query_terms(query), 1.0)
    weigh = getattr(index, "idf", None)
    return {word: weigh(word) for word in words} if callable(weigh) else words


def condense(passage: Passage, weights: Mapping[str, float], max_chars: int = MAX_CHARS) -> str:
    """Return a snippet of at most `max_chars` characters: the passage's best sentences for `weights`, in text order.

    weights: term to weight, see `query_weights`; its order matters for nothing but rounding. Sentences that share no
    term are left out, unless none shares one: then the passage's first ones are taken. Empty for a blank passage.
    Raises `ConfigError` when `max_chars` has no room for a word.
    """
    if max_chars < _MIN_CHARS:
        raise ConfigError(f"max_chars is at least {_MIN_CHARS}, not {max_chars}")
    table = passage_sentences(passage.text)
    texts = table.texts
    if not texts:
        return ""
    scores = _overlaps(table, weights)
    matching = [i for i, score in enumerate(scores) if score > 0.0]
    order = sorted(matching, key=scores.__getitem__, reverse=True) or list(range(len(texts)))  # ties stay in order
    budget = max_chars - _MARKS
    if len(texts[order[0]]) > budget:
        return _window(texts, order[0], weights, budget)
    # Greedy by rank: every sentence that still fits, with room for the mark of a gap before it.
    chosen: list[int] = []
    for i in order:
        need = len(texts[i]) + (_MARKS - 1 if chosen else 0)
        if need <= budget:
            chosen.append(i)
            budget -= need
    chosen.sort()
    parts = [_CUT] if chosen[0] > 0 else []
    for i, following in zip(chosen, [*chosen[1:], len(texts)], strict=True):
        parts += [texts[i], _CUT] if following > i + 1 else [texts[i]]
    return " ".join(parts)


def best_facts(passages: Sequence[Passage], weights: Mapping[str, float], count: int) -> list[Fact]:
    """Return the best sentence of each passage, of these the best `count`; on a level the first passage.

    weights: see `query_weights`. A sentence has the words of its passage's title too, of which it may speak as "it"; on a
    level that which has more itself is chosen, then the first.
    """
    ranked = []
    for rank, passage in enumerate(passages):
        table = passage_sentences(passage.text)
        if table.texts:
            scores = _overlaps(table, weights, frozenset(terms(passage.title)))
            own = _overlaps(table, weights)
            best = max(range(len(own)), key=lambda i: (scores[i], own[i], -i))
            ranked.append((-scores[best], rank, Fact(passage, table.texts[best][:MAX_FACT_CHARS])))
    return [fact for *_, fact in sorted(ranked)[:count]]


def _overlaps(table: Sentences, weights: Mapping[str, float], title: frozenset[str] = frozenset()) -> list[float]:
    """Return of each sentence the weights of the terms that it shares, or that the title does."""
    # Term at a time, as an index scores passages; a sum in the order of the query rounds alike everywhere.
    scores = [0.0] * len(table.texts)
    for word, weight in weights.items():
        for i in range(len(scores)) if word in title else table.positions.get(word, ()):
            scores[i] += weight
    return scores


@lru_cache(maxsize=_CACHED_PASSAGES)
def passage_sentences(text: str) -> Sentences:
    """Return the sentences of a passage's text; cached for the last few thousand passages."""
    texts = [text[start:end] for start, end in sentences(text)]
    positions: dict[str, list[int]] = defaultdict(list)
    for i, sentence in enumerate(texts):
        for term in dict.fromkeys(terms(sentence)):
            positions[term].append(i)
    shared = {sys.intern(term): share(tuple(numbers)) for term, numbers in positions.items()}
    return Sentences(tuple(" ".join(sentence.split()) for sentence in texts), shared)


def _window(texts: Sequence[str], best: int, weights: Mapping[str, float], budget: int) -> str:
    """Return a span of one long sentence, cut between words, that begins shortly before its first query term."""
    text = texts[best]
    lowered = text.lower()
    first = min((at for at in (lowered.find(word) for word in weights) if at >= 0), default=0)
    start = max(0, min(first - budget // 4, len(text) - budget))
    if start:
        start = text.find(" ", start - 1, max(first, start)) + 1 or start
    end = start + budget
    if end < len(text):
        space = text.rfind(" ", start + 1, end + 1)
        end = end if space < 0 else space
    before = f"{_CUT} " if start or best else ""
    after = f" {_CUT}" if end < len(text) or best + 1 < len(texts) else ""
    return before + text[start:end] + after
