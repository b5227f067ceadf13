"""Span credits as advantages of tokens, for trainers that take one advantage for each token.

Three forms, over the tokens that the policy wrote (A_i is the advantage of completion i, c_t the sum of the credits of
the spans that hold token t):

- "grpo": A_t = A_i + λ (c_t − mean of c in the group), with the trainer's own A_i;
- "hrpo": the same with A_i = (r_i − mean) / (std + 1e-4) over all completions of the batch whose rows agree in one
  column, EVE's hop groups (equation 5);
- "stepwise": CorVer's A_t = (R_t − mean R̄) / (std R̄ + 1e-4), where R_t are returns of tokens whose mean over the
  completion is its reward: for CorVer its own R_r + λ_c r_σ(t), otherwise each credit spread over its span's tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from factgym.integrations.session import Session
from factgym.integrations.turns import Offsets, Turn
from factgym.rewards.advantages import group_advantages, stepwise_advantages

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Credit = Literal["grpo", "hrpo", "stepwise"]
FORMS: tuple[Credit, ...] = ("grpo", "hrpo", "stepwise")


@dataclass(frozen=True, slots=True)
class Row:
    """A completion as the advantages need it, everything over its T tokens.

    held: c_t. returns: R_t. mask: the tokens that the policy wrote and the loss counts. reward: r_i, NaN without a
    score. advantage: the trainer's A_i. group: with which rows it is compared.
    """

    held: Floats
    returns: Floats
    mask: Mask
    reward: float
    advantage: float
    group: Hashable


def token_advantages(rows: Sequence[Row], credit: Credit, weight: float, scale: bool = True) -> list[Floats]:
    """The advantages of each row's tokens; 0 where the mask is false, and throughout for a row without a score.

    weight: λ. scale: divide by deviations at all, where the form has them.
    """
    groups: dict[Hashable, list[int]] = {}
    for n, row in enumerate(rows):
        groups.setdefault(row.group, []).append(n)
    found: list[Floats] = [np.zeros(len(row.mask)) for row in rows]
    for members in groups.values():
        group = [rows[n] for n in members]
        ours = _stepwise(group, scale) if credit == "stepwise" else _added(group, credit, weight, scale)
        for n, values in zip(members, ours, strict=True):
            found[n] = values
    return found


def _stepwise(group: Sequence[Row], scale: bool) -> list[Floats]:
    size = max(len(row.mask) for row in group)
    returns, mask = np.zeros((len(group), size)), np.zeros((len(group), size), dtype=np.bool_)
    for g, row in enumerate(group):
        mask[g, : len(row.mask)] = row.mask
        returns[g, : len(row.mask)] = row.returns if row.reward == row.reward else np.nan
    if not size:
        return [np.zeros(0) for _ in group]
    found = stepwise_advantages(returns, mask, scale=scale, equal="zero")
    return [found[g, : len(row.mask)] for g, row in enumerate(group)]


def _added(group: Sequence[Row], credit: Credit, weight: float, scale: bool) -> list[Floats]:
    rewards = np.array([row.reward for row in group])
    whole = group_advantages(rewards, scale=scale) if credit == "hrpo" else np.array([row.advantage for row in group])
    means = np.array([row.held[row.mask].mean() if row.mask.any() else np.nan for row in group])
    scored = ~np.isnan(rewards) & ~np.isnan(means)
    baseline = means[scored].mean() if scored.any() else 0.0
    return [
        np.where(row.mask & good, a + weight * (row.held - baseline), 0.0)
        for row, a, good in zip(group, whole, scored, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Spread:
    """The credits of an episode over its tokens; tokens outside the mask have none.

    held: c_t, the sum of the credits of the spans that hold the token. shares: each credit divided among its span's
    tokens, so that they sum to the spans' sum. returns: R_t of the stepwise form.
    """

    held: Floats
    shares: Floats
    returns: Floats


def spread(session: Session, turns: Sequence[Turn], mask: Mask, offsets: Callable[[Turn], Offsets]) -> Spread:
    """The report's spans over tokens. turns: the policy's messages, their `first` counted in `mask`.

    A credit of a message that no tokens are known of, or that the mask hides, goes to all tokens of the mask.
    """
    held, shares = np.zeros(len(mask)), np.zeros(len(mask))
    known = {turn.message: turn for turn in turns}
    lengths = {message: turn.length for message, turn in known.items()}
    places: dict[int, Offsets] = {}

    def place_of(turn: Turn) -> Offsets:  # most spans are whole turns, and need none
        if turn.message not in places:
            places[turn.message] = offsets(turn)
        return places[turn.message]

    for span in session.spans:
        where, inside = slice(0, len(mask)), mask
        turn = known.get(span.message)
        if turn is not None:
            where = slice(turn.first, turn.first + len(turn.ids))
            inside = mask[where]
            if span.start > 0 or span.end < lengths[turn.message]:
                inside = turn.holds(place_of(turn), span.start, span.end) & inside
        count = int(np.count_nonzero(inside))
        if not count:
            where, inside = slice(0, len(mask)), mask
            count = int(np.count_nonzero(inside))
        held[where] += span.value * inside
        shares[where] += span.value / max(count, 1) * inside
    own = _corver_returns(session, known, mask, place_of)
    return Spread(held, shares, shares * np.count_nonzero(mask) if own is None else own)


def _corver_returns(
    session: Session, turns: Mapping[int, Turn], mask: Mask, place_of: Callable[[Turn], Offsets]
) -> Floats | None:
    """Equation 4 of CorVer where the environment is CorVer's, its sentences' rewards unspread; None elsewhere."""
    from factgym.envs.corver.env import CorverEnv
    from factgym.rewards.corver import token_returns
    from factgym.rewards.corver.tokens import response_return

    episode = session.env
    if not isinstance(episode, CorverEnv) or session.report is None or session.report.status != "scored":
        return None
    message, completion, score = episode.scored()
    turn = turns.get(message)
    rubric = episode.config.rubric
    returns = np.full(len(mask), response_return(score, rubric))
    if turn is not None and completion.text:
        shift = completion.shift - (turn.parts[0][2] or 0)
        inside = np.clip(place_of(turn) + shift, 0, len(score.text))
        returns[turn.first : turn.first + len(turn.ids)] = token_returns(score, inside, rubric).returns
    return np.where(mask, returns, 0.0)
