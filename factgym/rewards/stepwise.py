"""Advantages of tokens within groups: the stepwise GRPO of CorVer (section 3.4, Algorithm 1).

    A_t = (R_t − mean_g R̄_g) / (std_g R̄_g + eps)      with R̄_g the mean of R_t over the tokens of completion g

The group's baseline and scale come from the completions' masked means, the numerator from the single token: two
sentences of one completion can have advantages of opposite sign.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError

Array = npt.NDArray[np.float64]


def stepwise_advantages(
    returns: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    eps: float = 1e-4,
    ddof: int = 1,
    scale: bool = True,
    equal: Literal["formula", "zero"] = "formula",
) -> Array:
    """Advantages of tokens: shape (G, T) for one group or (N, G, T) for N groups of G; the same shape comes back.

    returns: the return of each token, finite where `mask` says that there is one; what stands on padding is ignored.
    mask: same shape, true (or 1) on tokens. NaN on a token marks a completion without a score (an infrastructure
    fault): it is left out of mean and deviation and its advantages are 0, as are those of a completion without tokens.
    Padding has 0. A group with fewer than two scored completions has 0 throughout.

    eps: added to the deviation, ≥ 0. ddof: 1 for the unbiased deviation, 0 for the population's. scale: divide by the
    deviation at all. equal: what a group is given whose completions all have the same mean, though their tokens
    differ: "formula" divides by eps alone, as the published code does, which makes a difference of 0.1 an advantage of
    1,000; "zero" gives 0, as `group_advantages` does for equal rewards.

    Raises ConfigError for other shapes, infinite returns and other values of the options.
    """
    _check_options(eps, ddof, equal)
    values, kept, shape = _checked(returns, mask)
    if not values.size:
        return np.zeros(shape)
    tokens = kept.sum(axis=-1)
    means = np.where(kept, values, 0.0).sum(axis=-1) / np.maximum(tokens, 1)
    scored = ~np.isnan(means) & (tokens > 0)
    count = scored.sum(axis=-1)
    mean = np.where(scored, means, 0.0).sum(axis=-1) / np.maximum(count, 1)
    alive = count >= 2
    if equal == "zero":
        low = np.where(scored, means, np.inf).min(axis=-1)
        high = np.where(scored, means, -np.inf).max(axis=-1)
        # Means of equal tokens in other numbers differ by rounding.
        alive &= high - low > 1e-12 * np.maximum(1.0, np.abs(high))
    live = kept & (scored & alive[:, None])[:, :, None]
    result: Array = np.where(live, values - mean[:, None, None], 0.0)
    if scale:
        away = np.where(scored, means - mean[:, None], 0.0)
        std = np.sqrt((away**2).sum(axis=-1) / np.maximum(count - ddof, 1))
        divisor = std + eps
        # Without differences and without eps there is nothing to divide by.
        result = result / np.where(divisor > 0, divisor, 1.0)[:, None, None]
    return result.reshape(shape)


def _check_options(eps: float, ddof: int, equal: str) -> None:
    if ddof not in (0, 1):
        raise ConfigError(f"ddof must be 0 or 1, not {ddof!r:.80}")
    if not 0.0 <= eps < np.inf:
        raise ConfigError(f"eps must be a finite number of at least 0, not {eps!r:.80}")
    if equal not in ("formula", "zero"):
        raise ConfigError(f"equal must be 'formula' or 'zero', not {equal!r:.80}")


def _checked(returns: npt.ArrayLike, mask: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.bool_], tuple[int, ...]]:
    """Returns and mask as (N, G, T), and the shape as given. Padding is 0."""
    try:
        values, kept = np.asarray(returns, dtype=np.float64), np.asarray(mask).astype(np.bool_)
    except (TypeError, ValueError):
        raise ConfigError("returns and mask must be arrays of numbers of shape (G, T) or (N, G, T)") from None
    if values.ndim not in (2, 3) or values.shape != kept.shape:
        raise ConfigError(
            f"returns and mask must both have shape (G, T) or (N, G, T), not {values.shape} and {kept.shape}"
        )
    values = np.where(kept, values, 0.0)
    if np.isinf(values).any():
        raise ConfigError("returns must be finite on tokens; NaN marks a completion without a score")
    full = (1, *values.shape) if values.ndim == 2 else values.shape
    return values.reshape(full), kept.reshape(full), values.shape
