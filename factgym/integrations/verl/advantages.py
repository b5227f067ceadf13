"""The output of an agent loop with a reward for each token, and the advantage estimators that read it.

verl's estimators see token rewards, a mask and the prompt's id alone, so that all that ours need is encoded in the token
rewards, whose sum over a row is always the episode's reward. For verl's estimators each credit is divided among the
tokens of its span. For ours the rewards are each token's value of the form, scaled by `SCALE`, and behind the policy's
last token three tokens outside the mask: the rest of the reward, the group of the row and its session, scaled too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from verl.experimental.agent_loop import AgentLoopOutput
from verl.trainer.ppo.core_algos import register_adv_est

from factgym.core.errors import ConfigError
from factgym.integrations.credit import FORMS, Credit, Floats, Mask, Row, TokenCredit, token_advantages

PREFIX = "factgym_"
TAIL = 3
SCALE = 2.0**-10
"""A power of two, so that scaling loses nothing; it keeps the sum of a row exact enough in float32."""

MAX_KEYS = 1 << 16
"""Groups and sessions are whole numbers below this."""

KL_IN_REWARD = f"the estimators {PREFIX}… read token rewards as they were written: set algorithm.use_kl_in_reward=false"


class FactOutput(AgentLoopOutput):
    """An output of verl's with `token_rewards`, one for each response token; they sum to `reward_score`."""

    token_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """Return verl's own dictionary, with the token rewards as `rm_scores`."""
        fields: dict[str, Any] = super().as_dict()
        fields["rm_scores"] = torch.tensor(fields.pop("token_rewards"), dtype=torch.float32)
        return fields


def form_of(estimator: str) -> Credit | None:
    """Return the form of an `algorithm.adv_estimator`; None for one of verl's own."""
    name = getattr(estimator, "value", estimator)
    return next((form for form in FORMS if name == PREFIX + form), None)


@dataclass(frozen=True, slots=True)
class Layout:
    """Encoding of a session's rows. weight: λ. group, session: whole numbers below `MAX_KEYS`, of ours only."""

    form: Credit | None
    weight: float = 0.5
    group: int = 0
    session: int = 0

    def __post_init__(self) -> None:
        for name in ("group", "session"):
            if not 0 <= getattr(self, name) < MAX_KEYS - 1:
                raise ConfigError(f"{name} must be a whole number from 0 to {MAX_KEYS - 2}, not {getattr(self, name)}")

    @property
    def tail(self) -> int:
        """Number of tokens behind the policy's last one."""
        return TAIL if self.form else 0

    def rewards(self, credit: TokenCredit, total: float, parts: Sequence[slice], mask: Mask) -> list[list[float]]:
        """Return the token rewards of each part of the session, its tail included; every part sums to the total.

        parts: slices of the session's tokens, one for each row. mask: the policy's tokens; the last of a row is one.
        """
        if self.form is None:
            values = credit.shares
        else:
            values = SCALE * (credit.returns if self.form == "stepwise" else self.weight * credit.credit)
        values = values * mask
        rows = []
        for part in parts:
            # Rounded to the trainer's float32 first, so that the last entry also absorbs the rounding.
            row = values[part].astype(np.float32).astype(np.float64)
            if self.form is None:
                row[-1] += total - row.sum()
            else:
                keys = [(self.group + 1) * SCALE, (self.session + 1) * SCALE]
                row = np.array([*row, total - row.sum() - sum(keys), *keys])
            rows.append([float(reward) for reward in row])
        return rows


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded row. values: (T,) of the policy's tokens and 0 elsewhere."""

    values: Floats
    reward: float
    group: int
    session: int


def decode_row(rewards: Floats) -> Decoded | None:
    """Decode a row of `Layout.rewards` with one of our forms; None for a row of padding. Raises ConfigError for others."""
    (nonzero,) = np.nonzero(rewards)
    if not len(nonzero):
        return None
    end = int(nonzero[-1]) + 1
    keys = rewards[max(end - 2, 0) : end] / SCALE
    whole = np.rint(keys)
    if end <= TAIL or np.abs(keys - whole).max() > 1e-3 or whole.min() < 1 or whole.max() >= MAX_KEYS:
        raise ConfigError(
            "these token rewards were not laid out for this estimator: rows must be played by the agent loop "
            "'factgym' of a run with the same algorithm.adv_estimator, and algorithm.use_kl_in_reward must be false"
        )
    values = np.zeros(len(rewards))
    values[: end - TAIL] = rewards[: end - TAIL] / SCALE
    return Decoded(values, float(rewards.sum()), int(whole[0]) - 1, int(whole[1]) - 1)


Estimated = tuple[torch.Tensor, torch.Tensor]


def estimate(
    form: Credit, rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None
) -> Estimated:
    """Return advantages and returns, both (N, T): 0 outside the mask and for rows of padding.

    rewards: (N, T), encoded by the agent loop. index: (N,), the prompt of each row. config: the `algorithm` section,
    of which `norm_adv_by_std_in_grpo` turns the division by deviations on. Raises ConfigError for other rewards.
    """
    options = config if config is not None else {}
    if options.get("use_kl_in_reward", False):
        raise ConfigError(KL_IN_REWARD)
    encoded = rewards.detach().double().cpu().numpy()
    mask = response_mask.detach().bool().cpu().numpy()
    # The rows of a session are one completion: they are joined, compared with the others, and split again.
    sessions: dict[Hashable, list[tuple[int, Decoded]]] = {}
    for n, row in enumerate(encoded):
        decoded = decode_row(row)
        if decoded is not None:
            # Session 0 is that of a loop without a session id: such a row is a session by itself.
            key = (index[n], decoded.session) if decoded.session else ("row", n)
            sessions.setdefault(key, []).append((n, decoded))
    completions = []
    for parts in sessions.values():
        first, decoded = parts[0]
        values = np.concatenate([part.values for _, part in parts])
        joined_mask = np.concatenate([mask[n] for n, _ in parts])
        group = decoded.group if form == "hrpo" else index[first]
        completions.append(Row(values, values, joined_mask, decoded.reward, 0.0, group))
    # The values contain λ already, and the trainer's own advantage is that of the group.
    scale = bool(options.get("norm_adv_by_std_in_grpo", True))
    joined = token_advantages(completions, "stepwise" if form == "stepwise" else "hrpo", 1.0, scale)
    result = np.zeros(encoded.shape)
    for parts, values in zip(sessions.values(), joined, strict=True):
        for (n, _), part_values in zip(parts, np.split(values, len(parts)), strict=True):
            result[n] = part_values
    advantages = torch.as_tensor(result, dtype=torch.float32, device=rewards.device)
    return advantages, advantages.clone()


def _estimator(form: Credit) -> Callable[..., Estimated]:
    def registered(
        token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
    ) -> Estimated:
        with torch.no_grad():
            return estimate(form, token_level_rewards, response_mask, index, config)

    registered.__name__ = registered.__qualname__ = PREFIX + form
    return registered


ESTIMATORS = {PREFIX + form: register_adv_est(PREFIX + form)(_estimator(form)) for form in FORMS}
"""Name -> estimator, as registered with verl."""
