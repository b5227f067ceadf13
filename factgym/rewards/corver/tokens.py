"""From scored sentences to returns of tokens, for any tokenizer that says where its tokens stand.

    R_t = R_r + [σ(t) > 0] · λ_c · r_σ(t)                                                            (equation 4)

σ(t) is the sentence that holds the midpoint of token t; tags and white space between sentences belong to none. Where
less than `min_alignment` of the tokens inside the blocks fall into a sentence, the offsets and the text do not fit
each other, and the completion keeps its response return alone.

`group_returns` is the piece for trainers: a group's scores and offsets in, padded returns, mask and advantages out. The
scores come from `score_many` over all completions of a step, with `CorverRules(exact_counts=False)`: no reward changes,
and counting stops where the tiers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import stepwise_advantages
from factgym.rewards.corver.rubrics import SENTENCE_COMPONENTS, STRICT
from factgym.rewards.corver.score import CorverScore, ScoredSentence
from factgym.rewards.rubric import Rubric

Floats = npt.NDArray[np.float64]
Offsets = npt.ArrayLike
"""(T, 2): where each token begins and ends in the completion, in characters, as `return_offsets_mapping` gives it."""


@dataclass(frozen=True, slots=True)
class TokenReturns:
    """The returns of a completion's tokens.

    returns: (T,) float64. sentence: (T,) int64, the index of the token's sentence, -1 for none. alignment: the share of
    the tokens inside the blocks that fall into a sentence, 0 where no token is inside. fallback: whether the sentence
    term was dropped.
    """

    returns: Floats
    sentence: npt.NDArray[np.int64]
    alignment: float
    fallback: bool


def response_return(score: CorverScore, rubric: Rubric = STRICT) -> float:
    """R_r: what the rubric gives for the completion as a whole, which every token gets."""
    shares = rubric.shares(score.components, score.gates)
    return float(sum(value for name, value in shares.items() if name not in SENTENCE_COMPONENTS))


def sentence_returns(score: CorverScore, rubric: Rubric = STRICT) -> Floats:
    """(m,) float64: λ_c · r_i, what the tokens of each sentence get in addition."""
    return _sentence_returns(score.sentences, rubric)


def _sentence_returns(sentences: Sequence[ScoredSentence], rubric: Rubric) -> Floats:
    total = np.zeros(len(sentences))
    for name, field in SENTENCE_COMPONENTS.items():
        if rubric.weights.get(name):
            rewards = map(attrgetter(field), sentences)
            total += rubric.weights[name] * np.fromiter(rewards, np.float64, len(sentences))
    return total


def token_returns(score: CorverScore, offsets: Offsets, rubric: Rubric = STRICT) -> TokenReturns:
    """The return of each token.

    offsets: (T, 2) character offsets into `score.text`; tokens may overlap or share offsets (bytes of one character).
    A token without width, such as a special token at (0, 0), belongs to no sentence and does not count for the
    alignment. Raises ConfigError for another shape, or offsets outside the text.
    """
    return token_returns_many([score], [offsets], rubric)[0]


def token_returns_many(
    scores: Sequence[CorverScore], offsets: Sequence[Offsets], rubric: Rubric = STRICT
) -> list[TokenReturns]:
    """`token_returns` of completions together, a fraction of the time of one by one; offsets one array for each."""
    if len(scores) != len(offsets):
        raise ConfigError(f"token returns need offsets for each score: {len(scores)} scores, {len(offsets)} offsets")
    if not scores:
        return []
    given = [_shaped(one) for one in offsets]
    sizes = np.fromiter(map(len, given), np.int64, len(given))
    places, ends = np.concatenate(given), np.cumsum(sizes)
    _check_places(places, np.repeat([len(one.text) for one in scores], sizes))
    holder = _holders(places, sizes, scores)
    aligned, inside = _sums(holder >= 0, ends), _sums(holder != _OUTSIDE, ends)
    alignment = np.divide(aligned, inside, out=np.zeros(len(scores)), where=inside > 0)
    least = np.array([one.rules.min_alignment for one in scores])
    fallback = (aligned == 0) | (alignment < least)
    # Tokens of no sentence find the zeros at the end: their numbers are -1 and -2.
    terms = np.append(_sentence_returns([one for score in scores for one in score.sentences], rubric), (0.0, 0.0))
    returns = np.where(np.repeat(fallback, sizes), 0.0, terms[holder])
    returns += np.repeat([response_return(score, rubric) for score in scores], sizes)
    firsts = list(accumulate((len(one.sentences) for one in scores), initial=0))[:-1]
    own = np.where(holder < 0, -1, holder - np.repeat(firsts, sizes))
    bounds = pairwise([0, *ends.tolist()])
    parts = zip(bounds, alignment.tolist(), fallback.tolist(), strict=True)
    return [TokenReturns(returns[a:b], own[a:b], share, dropped) for (a, b), share, dropped in parts]


def _sums(marks: npt.NDArray[np.bool_], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many are marked of each stretch that ends where `ends` say."""
    sums = np.append(0, np.cumsum(marks))[ends]
    return np.diff(sums, prepend=0)


@dataclass(frozen=True, slots=True)
class GroupReturns:
    """A group of G completions, padded on the right to the longest, T tokens.

    returns: (G, T) float64, 0 on padding, NaN for a completion without a score. mask: (G, T) bool, True on tokens.
    advantages: (G, T) float64, 0 on padding and for what has no score. alignment: (G,) NaN without a score. fallback:
    (G,) bool.
    """

    returns: Floats
    mask: npt.NDArray[np.bool_]
    advantages: Floats
    alignment: Floats
    fallback: npt.NDArray[np.bool_]


def group_returns(
    scores: Sequence[CorverScore | None],
    offsets: Sequence[Offsets],
    rubric: Rubric = STRICT,
    *,
    eps: float = 1e-4,
    scale: bool = True,
    length: int | None = None,
) -> GroupReturns:
    """Returns and advantages of the completions of one question, as a trainer feeds them to its loss.

    scores: one for each completion, None for one that has none (a fault). offsets: the (T_g, 2) offsets of each.
    length: pad to so many tokens. Raises ConfigError for lengths that do not fit, and as `token_returns` does.
    """
    if len(scores) != len(offsets) or not scores:
        raise ConfigError(
            f"a group needs offsets for each of its scores: {len(scores)} scores, {len(offsets)} offsets"
        )
    places = [np.asarray(one).reshape(-1, 2) if np.size(one) == 0 else np.asarray(one) for one in offsets]
    longest = max(map(len, places))
    if length is not None and length < longest:
        raise ConfigError(f"length is {length}, but a completion has {longest} tokens")
    shape = (len(scores), longest if length is None else length)
    returns, mask = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    alignment, fallback = (np.full(len(scores), np.nan), np.zeros(len(scores), dtype=np.bool_))
    for i, place in enumerate(places):
        mask[i, : len(place)] = True
        returns[i, : len(place)] = np.nan
    there = [i for i, score in enumerate(scores) if score is not None]
    scored = [score for score in scores if score is not None]
    for i, found in zip(there, token_returns_many(scored, [places[i] for i in there], rubric), strict=True):
        returns[i, : len(places[i])] = found.returns
        alignment[i], fallback[i] = found.alignment, found.fallback
    advantages = stepwise_advantages(returns, mask, eps=eps, scale=scale) if shape[1] else np.zeros(shape)
    return GroupReturns(returns, mask, advantages, alignment, fallback)


def _shaped(offsets: Offsets) -> npt.NDArray[np.int64]:
    try:
        places = np.asarray(offsets)
    except ValueError:
        raise ConfigError("offsets must be whole numbers of shape (T, 2), a start and an end for each token") from None
    if places.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iu":
        raise ConfigError(f"offsets must be whole numbers of shape (T, 2), not {places.dtype} of shape {places.shape}")
    return places.astype(np.int64, copy=False)


def _check_places(places: npt.NDArray[np.int64], chars: npt.NDArray[np.int64]) -> None:
    """Raise for a token that does not lie in its text, which has so many characters."""
    wrong = (places[:, 0] < 0) | (places[:, 1] > chars) | (places[:, 0] > places[:, 1])
    if wrong.any():
        raise ConfigError(
            f"offsets must lie in the completion's {chars[wrong.argmax()]} characters, start before end; "
            "they are taken from the completion alone, without its prompt"
        )


_OUTSIDE, _BETWEEN = -1, -2


def _holders(
    places: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], scores: Sequence[CorverScore]
) -> npt.NDArray[np.int64]:
    """For each token the number of its sentence among all, _BETWEEN for a gap between two of a block, else _OUTSIDE.

    places: of all completions' tokens; sizes: how many each has. The texts are laid end to end. The sentences' bounds
    cut them into 2 m + 1 stretches, of which every other one is a sentence; twice the midpoint is a whole number, and is
    looked up among twice the bounds. A block begins and ends with a sentence.
    """
    bounds: list[int] = []
    labels = [_OUTSIDE]
    shifts = []
    number = shift = 0
    for score in scores:
        block: str = ""
        shifts.append(2 * shift)
        for (start, end, _, where), *_ in score.sentences:
            if where == block:
                labels[-1] = _BETWEEN
            bounds += (2 * (shift + start), 2 * (shift + end))
            labels += (number, _OUTSIDE)
            block = where
            number += 1
        # One more than the text is long: a token at its end does not meet the next one's first sentence.
        shift += len(score.text) + 1
    middles = places[:, 0] + places[:, 1] + np.repeat(shifts, sizes)
    stretch = np.searchsorted(np.array(bounds, dtype=np.int64), middles, side="right")
    found: npt.NDArray[np.int64] = np.array(labels, dtype=np.int64)[stretch]
    found[places[:, 0] == places[:, 1]] = _OUTSIDE
    return found
