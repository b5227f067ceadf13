"""Group-relative advantages, and a diagnosis of groups that teach nothing.

GRPO samples a group of answers to each prompt and compares every reward with its group: A = (r − mean) / (std + eps),
equation 2 of SEVA and of DeepSeekMath. The defaults are those of the common trainers: the unbiased deviation and
eps = 1e-4. `scale=False` leaves the deviation out, as Dr. GRPO does.

A group whose rewards are all equal has no advantages, so its answers move nothing: `collapse` counts such groups. Note
what the normalisation does *not* do: as soon as one of G rewards differs from the rest, however little, its advantage
is near the bound (G − 1) / √G (2.47 for G = 8). Under a binary reward the signal is lost by groups that agree, not by
advantages that shrink one by one.

`hop_advantages` compares answers to different prompts that ask for the same number of hops: the HRPO of Dr. Zero and EVE.
`stepwise_advantages` compares tokens that have returns of their own (CorVer); see `factgym.rewards.stepwise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError
from factgym.rewards.stepwise import stepwise_advantages

__all__ = ["CollapseReport", "collapse", "group_advantages", "hop_advantages", "stepwise_advantages"]

Rewards = npt.ArrayLike
Array = npt.NDArray[np.float64]


def group_advantages(rewards: Rewards, *, eps: float = 1e-4, ddof: int = 1, scale: bool = True) -> Array:
    """Advantages within groups: shape (G,) for one group or (N, G) for N groups of G; the same shape comes back.

    NaN marks a member without a score (an infrastructure fault): it is left out of mean and deviation and its
    advantage is 0. A group with fewer than two scores, or with equal ones, has advantages of exactly 0.

    eps: added to the deviation, ≥ 0. ddof: 1 for the unbiased deviation, 0 for the population's. scale: divide by the
    deviation at all. Raises ConfigError for another shape, for infinite rewards and for other values of the options.
    """
    values, groups = _grouped(rewards)
    if ddof not in (0, 1):
        raise ConfigError(f"ddof must be 0 or 1, not {ddof!r:.80}")
    if not 0.0 <= eps < np.inf:
        raise ConfigError(f"eps must be a finite number of at least 0, not {eps!r:.80}")
    found = _Groups(groups, ddof)
    result = np.where(found.alive[:, None] & found.scored, groups - found.mean[:, None], 0.0)
    if scale:
        # A group without differences is 0 / eps; where eps is 0 as well, it is 0 all the same.
        divisor = np.where(found.alive, found.std + eps, 1.0)
        result = result / divisor[:, None]
    return result.reshape(values.shape)


def hop_advantages(
    rewards: Rewards, hops: npt.ArrayLike, *, eps: float = 1e-6, ddof: int = 1, scale: bool = True
) -> Array:
    """Hop-grouped advantages (HRPO, EVE's equation 5): shape (N,), each reward compared with those of its hop count.

    rewards: one for each proposal of a batch, shape (N,), NaN for no score as in `group_advantages`. hops: what groups
    them, whole numbers of the same shape. A group with fewer than two scores, or with equal ones, has advantages of 0.
    (Dr. Zero's code gives a proposal that is alone its reward as advantage, which pays it for being alone.)

    eps (δ₀), ddof, scale: as in `group_advantages`; the default of eps is Dr. Zero's. Raises ConfigError as that does,
    and for hops of another shape or that are no whole numbers.
    """
    values, _ = _grouped(rewards)
    try:
        groups = np.asarray(hops)
    except ValueError:
        groups = np.empty(0)
    if values.ndim != 1 or groups.shape != values.shape:
        raise ConfigError(f"rewards and hops must both have shape (N,), not {values.shape} and {groups.shape}")
    if not np.issubdtype(groups.dtype, np.integer):
        raise ConfigError(f"hops must be whole numbers, not {groups.dtype}")
    result = np.zeros_like(values)
    for hop in np.unique(groups):
        members = groups == hop
        result[members] = group_advantages(values[members], eps=eps, ddof=ddof, scale=scale)
    return result


@dataclass(frozen=True, slots=True)
class CollapseReport:
    """How much a batch of groups can teach. Means are over the groups that have at least two scores.

    groups: their number. unscored: members without a score, over all groups. reward: mean over all scored members.
    zero_variance: share of groups whose scores are equal. std_mean, std_min, std_max: of the deviation within a group.
    advantage_min, advantage_max: the extremes over all members. low_mean, high_mean: the lowest and the highest
    advantage of a group, averaged over the groups: the spread that an update sees. small: share of members with
    |A| < tolerance.
    """

    groups: int
    unscored: int
    reward: float
    zero_variance: float
    std_mean: float
    std_min: float
    std_max: float
    advantage_min: float
    advantage_max: float
    low_mean: float
    high_mean: float
    small: float
    tolerance: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, keys in the order above."""
        return {name: getattr(self, name) for name in self.__slots__}


def collapse(rewards: Rewards, *, tolerance: float = 0.05, eps: float = 1e-4, ddof: int = 1) -> CollapseReport:
    """Diagnose a batch of groups, shape (G,) or (N, G); NaN as in `group_advantages`.

    Raises ConfigError as that does, and when no group has two scores.
    """
    _, groups = _grouped(rewards)
    advantages = group_advantages(groups, eps=eps, ddof=ddof)
    found = _Groups(groups, ddof)
    usable = found.count >= 2
    if not usable.any():
        raise ConfigError("no group has two scored members, so there is nothing to compare")
    counted = found.scored & usable[:, None]
    inside = advantages[counted]
    low = np.where(counted, advantages, np.inf).min(axis=1)[usable]
    high = np.where(counted, advantages, -np.inf).max(axis=1)[usable]
    std = found.std[usable]
    return CollapseReport(
        groups=int(usable.sum()),
        unscored=int((~found.scored).sum()),
        reward=float(groups[found.scored].mean()),
        zero_variance=float((~found.alive[usable]).mean()),
        std_mean=float(std.mean()),
        std_min=float(std.min()),
        std_max=float(std.max()),
        advantage_min=float(inside.min()),
        advantage_max=float(inside.max()),
        low_mean=float(low.mean()),
        high_mean=float(high.mean()),
        small=float((np.abs(inside) < tolerance).mean()),
        tolerance=tolerance,
    )


def _grouped(rewards: Rewards) -> tuple[Array, Array]:
    """The rewards as given and as (N, G)."""
    try:
        values = np.asarray(rewards, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError("rewards must be numbers in an array of shape (G,) or (N, G), NaN for no score") from None
    if values.ndim not in (1, 2) or values.size == 0:
        raise ConfigError(f"rewards must have shape (G,) or (N, G) and not be empty, not shape {values.shape}")
    if np.isinf(values).any():
        raise ConfigError("rewards must be finite; NaN marks a member without a score")
    return values, np.atleast_2d(values)


class _Groups:
    """Statistics of (N, G) rewards along the groups, without the members that have no score."""

    def __init__(self, groups: Array, ddof: int) -> None:
        self.scored = ~np.isnan(groups)
        self.count = self.scored.sum(axis=1)
        filled = np.where(self.scored, groups, 0.0)
        self.mean: Array = filled.sum(axis=1) / np.maximum(self.count, 1)
        away = np.where(self.scored, groups - self.mean[:, None], 0.0)
        low = np.where(self.scored, groups, np.inf).min(axis=1)
        high = np.where(self.scored, groups, -np.inf).max(axis=1)
        # Equal rewards may differ from their rounded mean: equality is asked of the rewards themselves.
        self.alive = (self.count >= 2) & (low < high)
        variance = (away**2).sum(axis=1) / np.maximum(self.count - ddof, 1)
        self.std: Array = np.where(self.alive, np.sqrt(variance), 0.0)
