"""METEOR of two texts, and the best one-to-one assignment of predicted texts to gold texts by it.

METEOR as NLTK's `single_meteor_score` computes it and AVeriTeC's scorer calls it.

Source: A. Lavie and A. Agarwal, "Meteor: an automatic metric for MT evaluation with high levels of correlation with
human judgments" (2007), in NLTK's reading: words in lower case are aligned one to one, first equal words, then equal
Porter stems, then stems of which the reference's is a WordNet synonym of the hypothesis's, each stage greedily from the
last word back. With m matches in c runs, P = m / words of the hypothesis, R = m / words of the reference:

    F = P R / (alpha P + (1 - alpha) R)          score = F (1 - gamma (c / m) ** beta)

The numbers are NLTK's, bit for bit, from the same tokens. Why it is fast: a text's words are grouped once, stems and
synonyms are cached, and a stage looks at the words that both texts have, not at pairs of words.

The assignment is that of ProFact's equation 5 and AVeriTeC's `eval.py`: the one with the largest sum of similarities
(Hungarian method); the sum divided by the number of gold items, so that an unmatched gold item counts zero, and only
the first ten predictions take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import DataError
from factgym.text.stems import porter_stem
from factgym.text.treebank import Tokenize, word_tokens
from factgym.text.wordnet import synonyms

_CACHED_TEXTS, _CACHED_TEXT_CHARS, _CACHED_PAIRS = 1 << 11, 2_000, 1 << 12
_CACHED_WORDS, _CACHED_WORD_CHARS = 1 << 16, 64
"""Longer texts and words are computed again each time, so that a hostile text cannot fill the memory."""

T = TypeVar("T")

Positions = dict[str, list[int]]
"""Word -> its positions in the text, ascending."""


@dataclass(frozen=True, slots=True)
class MeteorSettings:
    """alpha: weight of the precision against the recall, 0 to 1. beta, gamma: exponent and weight of the penalty."""

    alpha: float = 0.9
    beta: float = 3.0
    gamma: float = 0.5


DEFAULT_METEOR = MeteorSettings()


@dataclass(frozen=True, slots=True, eq=False)
class MeteorText:
    """A text prepared for comparison: its number of words, the positions of each, and whether the text is a short one."""

    length: int
    positions: Positions
    is_short: bool = False


def meteor(
    prediction: str, gold: str, *, tokenize: Tokenize = word_tokens, settings: MeteorSettings = DEFAULT_METEOR
) -> float:
    """Return METEOR of `prediction` (the hypothesis) against `gold` (the reference), 0 to 1; 0 without a match."""
    return meteor_prepared(prepare(prediction, tokenize), prepare(gold, tokenize), settings)


def meteor_matrix(
    predictions: Sequence[str],
    golds: Sequence[str],
    *,
    tokenize: Tokenize = word_tokens,
    settings: MeteorSettings = DEFAULT_METEOR,
) -> NDArray[np.float64]:
    """Return METEOR of every prediction against every gold text, shape (predictions, golds)."""
    columns = [prepare(gold, tokenize) for gold in golds]
    rows = [
        [meteor_prepared(prepare(prediction, tokenize), column, settings) for column in columns]
        for prediction in predictions
    ]
    return np.array(rows, dtype=np.float64).reshape(len(predictions), len(golds))


def prepare(text: str, tokenize: Tokenize = word_tokens) -> MeteorText:
    """Prepare a text for comparison; short texts are cached by text and tokenizer."""
    return _prepare_cached(text, tokenize) if len(text) <= _CACHED_TEXT_CHARS else prepare_tokens(tokenize(text))


@lru_cache(_CACHED_TEXTS)
def _prepare_cached(text: str, tokenize: Tokenize) -> MeteorText:
    return replace(prepare_tokens(tokenize(text)), is_short=True)


def prepare_tokens(tokens: Sequence[str]) -> MeteorText:
    """Prepare a text that was tokenized elsewhere."""
    positions: Positions = {}
    for position, token in enumerate(tokens):
        positions.setdefault(token.lower(), []).append(position)
    return MeteorText(len(tokens), positions)


class WordCache(dict[str, T]):
    """Word -> value of a function, computed once while there is room; emptied when it is full.

    A hit is one look-up in a dict, without the Python call that an `lru_cache` behind a check of the length would need.
    """

    def __init__(self, function: Callable[[str], T]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, word: str) -> T:
        value = self._function(word)
        if len(word) <= _CACHED_WORD_CHARS:
            if len(self) >= _CACHED_WORDS:
                self.clear()
            self[word] = value
        return value


_STEMS = WordCache(porter_stem)
_SYNONYMS = WordCache(synonyms)


def meteor_prepared(hypothesis: MeteorText, reference: MeteorText, settings: MeteorSettings = DEFAULT_METEOR) -> float:
    """Return METEOR of two prepared texts, 0 to 1."""
    is_cached = hypothesis.is_short and reference.is_short
    count, runs = (_cached_counts if is_cached else _match_counts)(hypothesis, reference)
    if count == 0:
        return 0.0
    precision, recall = count / hypothesis.length, count / reference.length
    mean = (precision * recall) / (settings.alpha * precision + (1 - settings.alpha) * recall)
    penalty: float = settings.gamma * (runs / count) ** settings.beta
    return (1 - penalty) * mean


def _match_counts(hypothesis: MeteorText, reference: MeteorText) -> tuple[int, int]:
    """Return the numbers of matches and of runs."""
    alignment = align(hypothesis, reference)
    # A run continues while both positions go up by one; each match that continues none begins one.
    previous = alignment.get
    runs = sum([previous(position - 1, -2) != gold - 1 for position, gold in alignment.items()])
    return len(alignment), runs


_cached_counts = lru_cache(_CACHED_PAIRS)(_match_counts)  # a reward compares the same texts under several settings


def align(hypothesis: MeteorText, reference: MeteorText) -> dict[int, int]:
    """Return position in the hypothesis -> position in the reference, by the three stages.

    A stage matches the last occurrences of each common word, as many as both sides have, and hands on the rest.
    """
    alignment: dict[int, int] = {}
    words, gold = hypothesis.positions, reference.positions
    common = words.keys() & gold.keys()
    _match_common(words, gold, common, alignment)
    if len(alignment) == hypothesis.length or len(alignment) == reference.length:
        return alignment
    stems, gold_stems = _unmatched_stems(words, gold), _unmatched_stems(gold, words)
    common = stems.keys() & gold_stems.keys()
    if common:
        _match_common(stems, gold_stems, common, alignment)
        stems, gold_stems = _unmatched(stems, gold_stems), _unmatched(gold_stems, stems)
    _match_synonyms(stems, gold_stems, alignment)
    return alignment


def _match_common(words: Positions, gold: Positions, common: set[str], alignment: dict[int, int]) -> None:
    for word in common:
        positions, targets = words[word], gold[word]
        if len(positions) == 1 == len(targets):  # most words occur once
            alignment[positions[0]] = targets[0]
        else:
            count = min(len(positions), len(targets))
            alignment.update(zip(positions[-count:], targets[-count:], strict=True))


def _unmatched(positions: Positions, reference: Positions) -> Positions:
    """Return the positions that are left after the common words were matched, last occurrences first."""
    unmatched = {}
    for word, indices in positions.items():
        matched = reference.get(word)
        if matched is None:
            unmatched[word] = indices
        elif len(indices) > len(matched):
            unmatched[word] = indices[: -len(matched)]
    return unmatched


def _unmatched_stems(positions: Positions, reference: Positions) -> Positions:
    """Return stem -> the positions that are left after the common words were matched."""
    stems: Positions = {}
    for word, indices in _unmatched(positions, reference).items():
        stem = _STEMS[word]
        stems[stem] = sorted(stems[stem] + indices) if stem in stems else indices
    return stems


def _match_synonyms(stems: Positions, gold: Positions, alignment: dict[int, int]) -> None:
    """From the last word of the hypothesis back, match the last free word of the reference that is its synonym."""
    # Greedy, as in NLTK: each word takes the last free synonym, even where another choice would match more words.
    gold_synonyms: dict[str, list[str]] = {}
    are_absent = gold.keys().isdisjoint  # which looks at the smaller of the two sides
    for stem in stems:
        related = _SYNONYMS[stem]
        if not are_absent(related):
            gold_synonyms[stem] = [word for word in gold if word in related]
    if not gold_synonyms:
        return
    free = {word: list(gold[word]) for words in gold_synonyms.values() for word in words}
    queue = ((position, words) for stem, words in gold_synonyms.items() for position in stems[stem])
    for position, words in sorted(queue, reverse=True):
        candidates = [free[word] for word in words if free[word]]
        if candidates:
            alignment[position] = max(candidates, key=itemgetter(-1)).pop()


# Assignment of predictions to gold items

MAX_PREDICTIONS = 10
"""Number of predictions that the official scorer reads."""


@dataclass(frozen=True, slots=True)
class Match:
    """Indices of a prediction and of the gold item assigned to it, and their similarity, 0 to 1."""

    prediction: int
    gold: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Matching:
    """score: sum of the similarities over the number of gold items, 0 to 1. matches: by prediction."""

    score: float
    matches: tuple[Match, ...]


def best_matching(similarities: NDArray[np.float64]) -> Matching:
    """Return the best assignment of rows (predictions) to columns (gold items), by the Hungarian method.

    Without a row the score is 0. Raises DataError without a column: such a task cannot be scored.
    """
    # Maximum-weight bipartite matching (the modified Jonker-Volgenant algorithm in SciPy).
    from scipy.optimize import linear_sum_assignment

    if similarities.ndim != 2 or similarities.shape[1] == 0:
        raise DataError("there are no gold items to match: a task needs at least one gold question")
    rows, columns = linear_sum_assignment(similarities, maximize=True)
    matched = similarities[rows, columns]
    matches = map(Match, rows.tolist(), columns.tolist(), matched.tolist())
    return Matching(float(matched.sum() * (1 / similarities.shape[1])), tuple(matches))


def match_texts(
    predictions: Sequence[str],
    golds: Sequence[str],
    *,
    tokenize: Tokenize = word_tokens,
    settings: MeteorSettings = DEFAULT_METEOR,
    limit: int | None = MAX_PREDICTIONS,
) -> Matching:
    """Return the best assignment by METEOR of the first `limit` predictions (None: of all) to the gold texts.

    Raises DataError when `golds` is empty.
    """
    return best_matching(meteor_matrix(predictions[:limit], golds, tokenize=tokenize, settings=settings))
