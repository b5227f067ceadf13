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

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import stepwise_advantages
from factgym.rewards.corver.rubrics import SENTENCE_COMPONENTS, STRICT
from factgym.rewards.corver.score import CorverScore
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
    total = np.zeros(len(score.sentences))
    for name, field in SENTENCE_COMPONENTS.items():
        if rubric.weights.get(name):
            total += rubric.weights[name] * np.array(
                [getattr(one, field) for one in score.sentences], dtype=np.float64
            )
    return total


def token_returns(score: CorverScore, offsets: Offsets, rubric: Rubric = STRICT) -> TokenReturns:
    """The return of each token.

    offsets: (T, 2) character offsets into `score.text`; tokens may overlap or share offsets (bytes of one character).
    A token without width, such as a special token at (0, 0), belongs to no sentence and does not count for the
    alignment. Raises ConfigError for another shape, or offsets outside the text.
    """
    places = _checked(offsets, len(score.text))
    holder = _holders(places, score)
    aligned, inside = np.count_nonzero(holder >= 0), np.count_nonzero(holder != _OUTSIDE)
    alignment = aligned / inside if inside else 0.0
    fallback = not aligned or alignment < score.rules.min_alignment
    terms = np.zeros(len(score.sentences) + 2)
    if not fallback:
        terms[:-2] = sentence_returns(score, rubric)
    # Tokens of no sentence find the zeros at the end: their numbers are -1 and -2.
    returns = terms[holder] + response_return(score, rubric)
    return TokenReturns(returns, np.maximum(holder, -1), alignment, fallback)


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
    alignment, fallback = np.full(len(scores), np.nan), np.zeros(len(scores), dtype=np.bool_)
    for i, (score, place) in enumerate(zip(scores, places, strict=True)):
        mask[i, : len(place)] = True
        if score is None:
            returns[i, : len(place)] = np.nan
            continue
        found = token_returns(score, place, rubric)
        returns[i, : len(place)] = found.returns
        alignment[i], fallback[i] = found.alignment, found.fallback
    advantages = stepwise_advantages(returns, mask, eps=eps, scale=scale) if shape[1] else np.zeros(shape)
    return GroupReturns(returns, mask, advantages, alignment, fallback)


def _checked(offsets: Offsets, chars: int) -> npt.NDArray[np.int64]:
    try:
        places = np.asarray(offsets)
    except ValueError:
        raise ConfigError("offsets must be whole numbers of shape (T, 2), a start and an end for each token") from None
    if places.size == 0:
        places = np.empty((0, 2), dtype=np.int64)
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iu":
        raise ConfigError(f"offsets must be whole numbers of shape (T, 2), not {places.dtype} of shape {places.shape}")
    if len(places) and (places.min() < 0 or places.max() > chars or np.count_nonzero(places[:, 0] > places[:, 1])):
        raise ConfigError(
            f"offsets must lie in the completion's {chars} characters, start before end; "
            "they are taken from the completion alone, without its prompt"
        )
    return places.astype(np.int64, copy=False)


_OUTSIDE, _BETWEEN = -1, -2


def _holders(places: npt.NDArray[np.int64], score: CorverScore) -> npt.NDArray[np.int64]:
    """For each token the number of its sentence, _BETWEEN for a gap between two of a block, else _OUTSIDE.

    The sentences' bounds cut the text into 2 m + 1 stretches, of which every other one is a sentence; twice the
    midpoint is a whole number, and is looked up among twice the bounds. A block begins and ends with a sentence.
    """
    sentences = [one.sentence for one in score.sentences]
    bounds: list[int] = []
    labels, block = [_OUTSIDE], ""
    for number, one in enumerate(sentences):
        if one.block == block:
            labels[-1] = _BETWEEN
        bounds += (2 * one.start, 2 * one.end)
        labels += (number, _OUTSIDE)
        block = one.block
    stretch = np.searchsorted(np.array(bounds, dtype=np.int64), places[:, 0] + places[:, 1], side="right")
    found = np.array(labels, dtype=np.int64)[stretch]
    found[places[:, 0] == places[:, 1]] = _OUTSIDE
    return found
