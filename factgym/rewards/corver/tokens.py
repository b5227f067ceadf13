"""Returns of tokens from scored sentences, for any tokenizer with character offsets.

    R_t = R_r + [σ(t) > 0] · λ_c · r_σ(t)                                                            (equation 4)

σ(t) is the sentence that contains the midpoint of token t; tags and white space between sentences belong to none. If
less than `min_alignment` of the tokens inside the blocks fall into a sentence, the offsets and the text do not match,
and the completion keeps its response return alone.

`group_returns` is the interface for trainers. The scores come from `score_many` over all completions of a step, with
`CorverRules(exact_counts=False)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import stepwise_advantages
from factgym.rewards.corver.rubrics import SENTENCE_COMPONENTS, STRICT
from factgym.rewards.corver.score import CorverScore, sentence_returns
from factgym.rewards.rubric import Rubric

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Offsets = npt.ArrayLike
"""(T, 2): start and end of each token in the completion, in characters, as `return_offsets_mapping` gives it."""

_OUTSIDE, _BETWEEN = -1, -2
"""Owners of tokens in no sentence: outside the blocks, and between two sentences of a block."""


@dataclass(frozen=True, slots=True)
class TokenReturns:
    """Returns of a completion's tokens.

    returns: (T,) float64. sentence: (T,) int64, the index of the token's sentence, -1 for none. alignment: the share of
    the tokens inside the blocks that fall into a sentence, 0 if no token is inside. fallback: whether the sentence term
    was dropped.
    """

    returns: Floats
    sentence: Ints
    alignment: float
    fallback: bool


@dataclass(frozen=True, slots=True)
class GroupReturns:
    """Returns of a group of G completions, padded on the right to the longest, T tokens.

    returns: (G, T) float64, 0 on padding, NaN for a completion without a score. mask: (G, T) bool, True on tokens.
    advantages: (G, T) float64, 0 on padding and for completions without a score. alignment: (G,) NaN without a score.
    fallback: (G,) bool.
    """

    returns: Floats
    mask: Bools
    advantages: Floats
    alignment: Floats
    fallback: Bools


def response_return(score: CorverScore, rubric: Rubric = STRICT) -> float:
    """Return R_r: the rubric's total without the sentence terms, which every token gets."""
    shares = rubric.shares(score.components, score.gates)
    return float(sum(value for name, value in shares.items() if name not in SENTENCE_COMPONENTS))


def token_returns(score: CorverScore, offsets: Offsets, rubric: Rubric = STRICT) -> TokenReturns:
    """Return the return of each token.

    offsets: (T, 2) character offsets into `score.text`; tokens may overlap or share offsets (bytes of one character).
    A token without width, such as a special token at (0, 0), belongs to no sentence and does not count for the
    alignment. Raises ConfigError for another shape, or offsets outside the text.
    """
    return token_returns_many([score], [offsets], rubric)[0]


def token_returns_many(
    scores: Sequence[CorverScore], offsets: Sequence[Offsets], rubric: Rubric = STRICT
) -> list[TokenReturns]:
    """Return `token_returns` of each completion, in a fraction of the time; offsets: one array for each score."""
    if len(scores) != len(offsets):
        raise ConfigError(f"token returns need offsets for each score: {len(scores)} scores, {len(offsets)} offsets")
    if not scores:
        return []
    arrays = [_offset_array(array) for array in offsets]
    sizes = np.fromiter(map(len, arrays), np.int64, len(arrays))
    tokens, rows = np.concatenate(arrays), np.repeat(np.arange(len(scores)), sizes)
    text_lengths = np.array([len(score.text) for score in scores])[rows]
    wrong = (tokens[:, 0] < 0) | (tokens[:, 1] > text_lengths) | (tokens[:, 0] > tokens[:, 1])
    if wrong.any():
        raise ConfigError(
            f"offsets must lie in the completion's {text_lengths[wrong.argmax()]} characters, start before end; "
            "they are taken from the completion alone, without its prompt"
        )
    owners = _token_owners(tokens, sizes, scores)
    aligned, inside = (np.bincount(rows[marks], minlength=len(scores)) for marks in (owners >= 0, owners != _OUTSIDE))
    alignment = np.divide(aligned, inside, out=np.zeros(len(scores)), where=inside > 0)
    fallback = (aligned == 0) | (alignment < np.array([score.rules.min_alignment for score in scores]))
    # Tokens of no sentence index the zeros at the end: their owners are -1 and -2.
    terms = np.append(sentence_returns([s for score in scores for s in score.sentences], rubric), (0.0, 0.0))
    returns = np.where(fallback[rows], 0.0, terms[owners])
    returns += np.array([response_return(score, rubric) for score in scores])[rows]
    first_sentences = np.array(list(accumulate((len(score.sentences) for score in scores), initial=0)))
    sentences = np.where(owners < 0, -1, owners - first_sentences[rows])
    parts = (np.split(values, np.cumsum(sizes)[:-1]) for values in (returns, sentences))
    return [TokenReturns(*fields) for fields in zip(*parts, alignment.tolist(), fallback.tolist(), strict=True)]


def group_returns(
    scores: Sequence[CorverScore | None],
    offsets: Sequence[Offsets],
    rubric: Rubric = STRICT,
    *,
    eps: float = 1e-4,
    scale: bool = True,
    length: int | None = None,
) -> GroupReturns:
    """Return padded returns and advantages of the completions of one question, for a trainer's loss.

    scores: one for each completion, None for a fault. offsets: the (T_g, 2) offsets of each. length: number of tokens
    to pad to. Raises ConfigError for lengths that do not match, and as `token_returns` does.
    """
    if len(scores) != len(offsets) or not scores:
        raise ConfigError(f"a group needs offsets for each of its scores: {len(scores)} scores, {len(offsets)} offsets")
    arrays = [np.asarray(array).reshape(-1, 2) if np.size(array) == 0 else np.asarray(array) for array in offsets]
    longest = max(map(len, arrays))
    if length is not None and length < longest:
        raise ConfigError(f"length is {length}, but a completion has {longest} tokens")
    shape = (len(scores), longest if length is None else length)
    returns, mask = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    alignment, fallback = np.full(len(scores), np.nan), np.zeros(len(scores), dtype=np.bool_)
    for i, array in enumerate(arrays):
        mask[i, : len(array)] = True
        returns[i, : len(array)] = np.nan
    scored = {i: score for i, score in enumerate(scores) if score is not None}
    results = token_returns_many(list(scored.values()), [arrays[i] for i in scored], rubric)
    for i, result in zip(scored, results, strict=True):
        returns[i, : len(arrays[i])] = result.returns
        alignment[i], fallback[i] = result.alignment, result.fallback
    advantages = stepwise_advantages(returns, mask, eps=eps, scale=scale) if shape[1] else np.zeros(shape)
    return GroupReturns(returns, mask, advantages, alignment, fallback)


def _offset_array(offsets: Offsets) -> Ints:
    try:
        array = np.asarray(offsets)
    except ValueError:
        raise ConfigError("offsets must be whole numbers of shape (T, 2), a start and an end for each token") from None
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ConfigError(f"offsets must be whole numbers of shape (T, 2), not {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)


def _token_owners(tokens: Ints, sizes: Ints, scores: Sequence[CorverScore]) -> Ints:
    """Return for each token the number of its sentence among all, _BETWEEN for a gap inside a block, else _OUTSIDE.

    tokens: of all completions; sizes: tokens of each. One binary search over all completions: their texts are laid end
    to end, and the m sentences' bounds cut them into 2 m + 1 intervals of which every other one is a sentence. Twice a
    token's midpoint is a whole number, and is searched among twice the bounds. A block begins and ends with a sentence.
    """
    # Point location in disjoint intervals: `searchsorted` over the sorted bounds of all sentences.
    bounds: list[int] = []
    interval_owners = [_OUTSIDE]
    doubled_shifts = []
    number = shift = 0
    for score in scores:
        previous_block: str = ""
        doubled_shifts.append(2 * shift)
        for (start, end, _, block), *_ in score.sentences:
            if block == previous_block:
                interval_owners[-1] = _BETWEEN
            bounds += (2 * (shift + start), 2 * (shift + end))
            interval_owners += (number, _OUTSIDE)
            previous_block = block
            number += 1
        # One more than the text's length: a token at its end does not touch the next text's first sentence.
        shift += len(score.text) + 1
    midpoints = tokens[:, 0] + tokens[:, 1] + np.repeat(doubled_shifts, sizes)
    intervals = np.searchsorted(np.array(bounds, dtype=np.int64), midpoints, side="right")
    owners: Ints = np.array(interval_owners, dtype=np.int64)[intervals]
    owners[tokens[:, 0] == tokens[:, 1]] = _OUTSIDE
    return owners
