"""Group-relative advantages, and a diagnosis of groups that teach nothing.

GRPO samples a group of completions for each prompt and compares every reward with its group: A = (r − mean) / (std +
eps), equation 2 of SEVA and of DeepSeekMath. The defaults are those of the common trainers: the unbiased deviation and
eps = 1e-4. `scale=False` leaves the deviation out, as Dr. GRPO does.

- `group_advantages`: one reward per completion.
- `hop_advantages`: completions of different prompts with the same number of hops (HRPO of Dr. Zero and EVE).
- `stepwise_advantages`: one return per token (CorVer).
- `collapse`: statistics of a batch. A group whose rewards are all equal has no advantages and moves nothing. The
  normalisation does not shrink small differences: as soon as one of G rewards differs from the rest, however little,
  its advantage is near the bound (G − 1) / √G (2.47 for G = 8). Under a binary reward the signal is lost by groups that
  agree, not by advantages that shrink.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError

Array = npt.NDArray[np.float64]


def group_advantages(rewards: npt.ArrayLike, *, eps: float = 1e-4, ddof: int = 1, scale: bool = True) -> Array:
    """Compute advantages within groups: shape (G,) for one group or (N, G) for N groups; the same shape is returned.

    NaN marks a member without a score (an infrastructure fault): it is left out of mean and deviation and its
    advantage is 0. A group with fewer than two scores, or with equal ones, has advantages of exactly 0.

    eps: added to the deviation, ≥ 0. ddof: 1 for the unbiased deviation, 0 for the population's. scale: divide by the
    deviation at all. Raises ConfigError for another shape, for infinite rewards and for other values of the options.
    """
    values, groups = _as_groups(rewards)
    _check_options(eps, ddof)
    statistics = _GroupStatistics(groups, ddof)
    is_defined = statistics.varies[:, None] & statistics.scored
    result = np.where(is_defined, groups - statistics.mean[:, None], 0.0)
    if scale:
        # A group without differences would be 0 / eps, or 0 / 0 where eps is 0 as well.
        divisor = np.where(statistics.varies, statistics.deviation + eps, 1.0)
        result = result / divisor[:, None]
    return result.reshape(values.shape)


def hop_advantages(
    rewards: npt.ArrayLike, hops: npt.ArrayLike, *, eps: float = 1e-6, ddof: int = 1, scale: bool = True
) -> Array:
    """Compute hop-grouped advantages (HRPO, EVE's equation 5): shape (N,), each reward compared with its hop count's.

    rewards: one for each proposal of a batch, shape (N,), NaN for no score as in `group_advantages`. hops: hop counts,
    integers of the same shape. A group with fewer than two scores, or with equal ones, has advantages of 0. (Dr.
    Zero's code gives a proposal that is alone its reward as advantage, which pays it for being alone.)

    eps (δ₀), ddof, scale: as in `group_advantages`; the default of eps is Dr. Zero's. Raises ConfigError as that does,
    and for hops of another shape or type.
    """
    values, _ = _as_groups(rewards)
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


def stepwise_advantages(
    returns: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    eps: float = 1e-4,
    ddof: int = 1,
    scale: bool = True,
    equal: Literal["formula", "zero"] = "formula",
) -> Array:
    """Compute advantages of tokens (stepwise GRPO, CorVer section 3.4, Algorithm 1): shape (G, T) or (N, G, T).

        A_t = (R_t − mean_g R̄_g) / (std_g R̄_g + eps)      with R̄_g the mean of R_t over the tokens of completion g

    Baseline and scale come from the masked means of the completions, the numerator from the single token: two
    sentences of one completion can have advantages of opposite sign.

    returns: finite on tokens; values on padding are ignored. mask: same shape, true (or 1) on tokens. NaN on a token
    marks a completion without a score: it is left out of mean and deviation. Its advantages are 0, as are those of a
    completion without tokens, of padding, and of a group with fewer than two scored completions.

    eps, ddof, scale: as in `group_advantages`. equal: the result for a group whose completions all have the same
    mean, though their tokens differ: "formula" divides by eps alone, as the published code does, which makes a
    difference of 0.1 an advantage of 1,000; "zero" gives 0, as `group_advantages` does for equal rewards.

    Raises ConfigError for other shapes, infinite returns and other values of the options.
    """
    _check_options(eps, ddof)
    if equal not in ("formula", "zero"):
        raise ConfigError(f"equal must be 'formula' or 'zero', not {equal!r:.80}")
    try:
        values, is_token = np.asarray(returns, dtype=np.float64), np.asarray(mask).astype(np.bool_)
    except (TypeError, ValueError):
        raise ConfigError("returns and mask must be arrays of numbers of shape (G, T) or (N, G, T)") from None
    shape = values.shape
    if values.ndim not in (2, 3) or shape != is_token.shape:
        raise ConfigError(
            f"returns and mask must both have shape (G, T) or (N, G, T), not {shape} and {is_token.shape}"
        )
    values = np.where(is_token, values, 0.0)
    if np.isinf(values).any():
        raise ConfigError("returns must be finite on tokens; NaN marks a completion without a score")
    if not values.size:
        return np.zeros(shape)
    if values.ndim == 2:
        values, is_token = values[None], is_token[None]
    tokens = is_token.sum(axis=-1)
    means = np.where(tokens > 0, values.sum(axis=-1) / np.maximum(tokens, 1), np.nan)
    statistics = _GroupStatistics(means, ddof)
    is_defined = statistics.count >= 2
    if equal == "zero":
        # Means of equal tokens in other numbers differ by rounding.
        is_defined &= statistics.high - statistics.low > 1e-12 * np.maximum(1.0, np.abs(statistics.high))
    defined_tokens = is_token & (statistics.scored & is_defined[:, None])[:, :, None]
    result: Array = np.where(defined_tokens, values - statistics.mean[:, None, None], 0.0)
    if scale:
        divisor = statistics.deviation + eps
        # Without differences and without eps the result is 0 already.
        result = result / np.where(divisor > 0, divisor, 1.0)[:, None, None]
    return result.reshape(shape)


class _GroupStatistics:
    """Statistics of rewards of shape (N, G) along the groups, without the members that have no score."""

    def __init__(self, groups: Array, ddof: int) -> None:
        self.scored = ~np.isnan(groups)
        self.count = self.scored.sum(axis=1)
        filled = np.where(self.scored, groups, 0.0)
        self.mean: Array = filled.sum(axis=1) / np.maximum(self.count, 1)
        # Two passes: E[x^2] - E[x]^2 would cancel where the rewards of a group are nearly equal, which is the case
        # that matters.
        differences = np.where(self.scored, groups - self.mean[:, None], 0.0)
        self.deviation: Array = np.sqrt((differences**2).sum(axis=1) / np.maximum(self.count - ddof, 1))
        self.low: Array = np.where(self.scored, groups, np.inf).min(axis=1)
        self.high: Array = np.where(self.scored, groups, -np.inf).max(axis=1)
        # Equal rewards may differ from their rounded mean, so equality is tested on the rewards themselves.
        self.varies = (self.count >= 2) & (self.low < self.high)


def _check_options(eps: float, ddof: int) -> None:
    if ddof not in (0, 1):
        raise ConfigError(f"ddof must be 0 or 1, not {ddof!r:.80}")
    if not 0.0 <= eps < np.inf:
        raise ConfigError(f"eps must be a finite number of at least 0, not {eps!r:.80}")


def _as_groups(rewards: npt.ArrayLike) -> tuple[Array, Array]:
    """Return the rewards in their own shape and as (N, G)."""
    try:
        values = np.asarray(rewards, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError("rewards must be numbers in an array of shape (G,) or (N, G), NaN for no score") from None
    if values.ndim not in (1, 2) or values.size == 0:
        raise ConfigError(f"rewards must have shape (G,) or (N, G) and not be empty, not shape {values.shape}")
    if np.isinf(values).any():
        raise ConfigError("rewards must be finite; NaN marks a member without a score")
    return values, np.atleast_2d(values)
