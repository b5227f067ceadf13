"""METEOR of two texts, as NLTK's `single_meteor_score` computes it and AVeriTeC's scorer calls it.

Source: A. Lavie and A. Agarwal, "Meteor: an automatic metric for MT evaluation with high levels of correlation with
human judgments" (2007), in NLTK's reading: words in lower case are matched one to one, first equal words, then equal
Porter stems, then stems of which the reference's is a synonym of the hypothesis's in WordNet, each stage greedily from
the last word back. With m matches in c runs, P = m / words of the hypothesis, R = m / words of the reference:

    F = P R / (alpha P + (1 - alpha) R)          score = F (1 - gamma (c / m) ** beta)

The numbers are NLTK's, bit for bit, from the same tokens. What makes it fast: a text's words are grouped once, stems and
synonyms are computed once a word, and a stage looks at the words that both texts have, not at pairs of words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from factgym.rewards.profact.porter import porter_stem
from factgym.rewards.profact.tokens import Tokenize, word_tokens
from factgym.rewards.profact.wordnet import synonyms

_CACHED_WORDS, _CACHED_TEXTS = 1 << 16, 1 << 11
_CACHED_WORD_CHARS, _CACHED_TEXT_CHARS = 64, 2_000
"""What is kept: longer words and texts are computed again, so that a hostile text cannot fill the memory."""

_T = TypeVar("_T")

Positions = dict[str, list[int]]
"""Word -> where it stands, ascending."""


@dataclass(frozen=True, slots=True)
class MeteorSettings:
    """alpha: weight of the precision against the recall, 0 to 1. beta, gamma: exponent and weight of the penalty."""

    alpha: float = 0.9
    beta: float = 3.0
    gamma: float = 0.5


DEFAULT_METEOR = MeteorSettings()


@dataclass(frozen=True, slots=True, eq=False)
class MeteorText:
    """A text ready to be compared: how many words it has, and where each stands."""

    length: int
    positions: Mapping[str, list[int]]


def meteor(
    prediction: str, gold: str, *, tokenize: Tokenize = word_tokens, settings: MeteorSettings = DEFAULT_METEOR
) -> float:
    """METEOR of `prediction` (the hypothesis) against `gold` (the reference), 0 to 1; 0 when no word matches."""
    return meteor_of(prepare(prediction, tokenize), prepare(gold, tokenize), settings)


def meteor_matrix(
    predictions: Sequence[str],
    golds: Sequence[str],
    *,
    tokenize: Tokenize = word_tokens,
    settings: MeteorSettings = DEFAULT_METEOR,
) -> NDArray[np.float64]:
    """METEOR of every prediction against every gold text, shape (predictions, golds)."""
    columns = [prepare(one, tokenize) for one in golds]
    rows = [[meteor_of(prepare(one, tokenize), column, settings) for column in columns] for one in predictions]
    return np.array(rows, dtype=np.float64).reshape(len(predictions), len(golds))


def prepare(text: str, tokenize: Tokenize = word_tokens) -> MeteorText:
    """`text` ready to be compared; short texts are kept, by text and tokenizer."""
    return _prepare_cached(text, tokenize) if len(text) <= _CACHED_TEXT_CHARS else prepare_tokens(tokenize(text))


def prepare_tokens(tokens: Sequence[str]) -> MeteorText:
    """Tokens ready to be compared, for a text that was cut into words elsewhere."""
    positions: Positions = {}
    for at, word in enumerate([token.lower() for token in tokens]):
        if word in positions:
            positions[word].append(at)
        else:
            positions[word] = [at]
    return MeteorText(len(tokens), positions)


def meteor_of(hypothesis: MeteorText, reference: MeteorText, settings: MeteorSettings = DEFAULT_METEOR) -> float:
    """METEOR of two prepared texts, 0 to 1."""
    matches = align(hypothesis, reference)
    count = len(matches)
    if count == 0:
        return 0.0
    precision, recall = count / hypothesis.length, count / reference.length
    mean = (precision * recall) / (settings.alpha * precision + (1 - settings.alpha) * recall)
    penalty: float = settings.gamma * (_runs(matches) / count) ** settings.beta
    return (1 - penalty) * mean


def align(hypothesis: MeteorText, reference: MeteorText) -> dict[int, int]:
    """Position in the hypothesis -> position in the reference, by the three stages."""
    matches: dict[int, int] = {}
    common = hypothesis.positions.keys() & reference.positions.keys()
    _match_equal(hypothesis.positions, reference.positions, common, matches)
    if len(matches) == hypothesis.length or len(matches) == reference.length:
        return matches
    left, right = _left_stems(hypothesis, reference, common), _left_stems(reference, hypothesis, common)
    common = left.keys() & right.keys()
    if common:
        _match_equal(left, right, common, matches)
        left, right = _without(left, right, common), _without(right, left, common)
    _match_synonyms(left, right, matches)
    return matches


def clear_caches() -> None:
    """Forget every text, stem and set of synonyms, as in a fresh process; the WordNet table stays."""
    _prepare_cached.cache_clear()
    _STEMS.clear()
    _SYNONYMS.clear()


def _match_equal(
    left: Mapping[str, list[int]], right: Mapping[str, list[int]], common: set[str], matches: dict[int, int]
) -> None:
    """Match the last occurrences of each common word, as many as both sides have."""
    for word in common:
        here, there = left[word], right[word]
        count = min(len(here), len(there))
        matches.update(zip(here[-count:], there[-count:], strict=True))


def _left_stems(text: MeteorText, other: MeteorText, common: set[str]) -> Positions:
    """Stem -> positions of the words that the first stage left over."""
    found: Positions = {}
    for word, places in text.positions.items():
        rest = places[: -len(other.positions[word])] if word in common else places
        if rest:
            stem = _STEMS[word]
            found[stem] = sorted(found[stem] + rest) if stem in found else rest
    return found


def _without(left: Positions, right: Positions, common: set[str]) -> Positions:
    """What is left of `left` when the common words are matched."""
    found = {}
    for word, places in left.items():
        rest = places[: -len(right[word])] if word in common else places
        if rest:
            found[word] = rest
    return found


def _match_synonyms(left: Positions, right: Positions, matches: dict[int, int]) -> None:
    """From the last word of the hypothesis back, match the last word of the reference that is its synonym."""
    offers = dict(_offers(left, right))
    if not offers:
        return
    open_right = {one: list(right[one]) for offered in offers.values() for one in offered}
    for at, offered in sorted(((at, offers[stem]) for stem in offers for at in left[stem]), reverse=True):
        free = [open_right[one] for one in offered if open_right[one]]
        if free:
            matches[at] = max(free, key=_last).pop()


def _offers(left: Positions, right: Positions) -> Iterator[tuple[str, list[str]]]:
    """Stem of the hypothesis -> its synonyms in the reference, where it has any."""
    stems = right.keys()
    for stem in left:
        known = _SYNONYMS[stem]
        if not known.isdisjoint(stems):
            yield stem, [one for one in stems if one in known]


def _last(places: list[int]) -> int:
    return places[-1]


def _runs(matches: Mapping[int, int]) -> int:
    """In how many runs the matches are: within one, both positions go up by one."""
    before = matches.get
    return sum(before(at - 1, -2) != there - 1 for at, there in matches.items())


class _Known(dict[str, _T]):
    """Word -> what a function says of it, asked once while there is room; a long word is asked for again each time."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], _T]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, word: str) -> _T:
        found = self._function(word)
        if len(word) <= _CACHED_WORD_CHARS:
            if len(self) >= _CACHED_WORDS:
                self.clear()
            self[word] = found
        return found


_STEMS = _Known(porter_stem)
_SYNONYMS = _Known(synonyms)


@lru_cache(_CACHED_TEXTS)
def _prepare_cached(text: str, tokenize: Tokenize) -> MeteorText:
    return prepare_tokens(tokenize(text))
