"""What an agent loop hands to the trainer, with a reward for each token.

verl's estimators see token rewards, a mask and the prompt's id, and nothing else. What ours need is laid out in the
token rewards, whose sum over a row is the episode's reward in every layout: verl's logs, its filters and its own
estimators see what they expect.

- For verl's estimators: each credit divided among the tokens of its span.
- For ours ("factgym_…"): each token's value of that form, scaled by `SCALE`, and behind the policy's last token three
  tokens outside the mask: the rest of the reward, the group of the row and its session, scaled too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from verl.experimental.agent_loop import AgentLoopOutput
from verl.trainer.ppo.core_algos import register_adv_est

from factgym.core.errors import ConfigError
from factgym.integrations.credit import FORMS, Credit, Floats, Row, Spread, token_advantages

PREFIX = "factgym_"
TAIL = 3
SCALE = 2.0**-10
"""A power of two, so that scaling loses nothing; it keeps the sum of a row exact enough in float32."""

MOST = 1 << 16
"""Groups and sessions are whole numbers below this."""


KL_IN_REWARD = (
    f"the estimators {PREFIX}… read token rewards as they were written: set algorithm.use_kl_in_reward=false"
)


class FactOutput(AgentLoopOutput):
    """An output of verl's with `token_rewards`, one for each response token; they sum to `reward_score`."""

    token_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """verl's own dictionary, with the token rewards as `rm_scores`."""
        found: dict[str, Any] = super().as_dict()
        found["rm_scores"] = torch.tensor(found.pop("token_rewards"), dtype=torch.float32)
        return found


def form_of(estimator: str) -> Credit | None:
    """The form that an `algorithm.adv_estimator` stands for; None for one of verl's own."""
    name = getattr(estimator, "value", estimator)
    return next((form for form in FORMS if name == PREFIX + form), None)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a session's rows are laid out. weight: λ. group, session: whole numbers below `MOST`, of ours only."""

    form: Credit | None
    weight: float = 0.5
    group: int = 0
    session: int = 0

    def __post_init__(self) -> None:
        for name in ("group", "session"):
            if not 0 <= getattr(self, name) < MOST - 1:
                raise ConfigError(f"{name} must be a whole number from 0 to {MOST - 2}, not {getattr(self, name)}")

    @property
    def tail(self) -> int:
        """How many tokens are put behind the policy's last one."""
        return TAIL if self.form else 0

    def rewards(
        self, credit: Spread, total: float, parts: Sequence[slice], mask: npt.NDArray[np.bool_]
    ) -> list[list[float]]:
        """The token rewards of each part of the session, its tail included; every part sums to the total.

        parts: where each row lies in the credit, which is the session's. mask: the policy's tokens, the last of a row
        among them.
        """
        values = self._values(credit) * mask
        found = []
        for part in parts:
            row = values[part].astype(np.float32).astype(np.float64)
            if self.form is None:
                row[-1] += total - row.sum()
            else:
                marks = [(self.group + 1) * SCALE, (self.session + 1) * SCALE]
                row = np.array([*row, total - row.sum() - sum(marks), *marks])
            found.append([float(one) for one in row])
        return found

    def _values(self, credit: Spread) -> Floats:
        if self.form is None:
            return credit.shares
        return SCALE * (credit.returns if self.form == "stepwise" else self.weight * credit.held)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A row as it was laid out. values: (T,) of the policy's tokens and 0 elsewhere."""

    values: Floats
    reward: float
    group: int
    session: int


def decode_row(rewards: Floats) -> Decoded | None:
    """What `Layout.rewards` laid out for one of our forms; None for a row of padding. Raises ConfigError for others."""
    (there,) = np.nonzero(rewards)
    if not len(there):
        return None
    end = int(there[-1]) + 1
    marks = rewards[max(end - 2, 0) : end] / SCALE
    whole = np.rint(marks)
    if end <= TAIL or np.abs(marks - whole).max() > 1e-3 or whole.min() < 1 or whole.max() >= MOST:
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
    """Advantages and returns, both (N, T): 0 outside the mask and for rows of padding.

    rewards: (N, T), laid out by the agent loop. index: (N,), the prompt of each row. config: the `algorithm` section,
    of which `norm_adv_by_std_in_grpo` says whether to divide by deviations. Raises ConfigError for other rewards.
    """
    options = config if config is not None else {}
    if options.get("use_kl_in_reward", False):
        raise ConfigError(KL_IN_REWARD)
    plain = rewards.detach().double().cpu().numpy()
    mask = response_mask.detach().bool().cpu().numpy()
    members: dict[Hashable, list[tuple[int, Decoded]]] = {}
    for n, row in enumerate(plain):
        decoded = decode_row(row)
        if decoded is not None:
            # Session 0 is that of a loop that was not told its own: such a row is a session by itself.
            key = (index[n], decoded.session) if decoded.session else ("row", n)
            members.setdefault(key, []).append((n, decoded))
    rows = [_row(form, parts, mask, index) for parts in members.values()]
    found = np.zeros(plain.shape)
    scale = bool(options.get("norm_adv_by_std_in_grpo", True))
    # λ lies in the values already, and the trainer's own advantage is that of the group.
    ours = token_advantages(rows, "stepwise" if form == "stepwise" else "hrpo", 1.0, scale)
    for parts, values in zip(members.values(), ours, strict=True):
        for (n, _), part in zip(parts, np.split(values, len(parts)), strict=True):
            found[n] = part
    advantages = torch.as_tensor(found, dtype=torch.float32, device=rewards.device)
    return advantages, advantages.clone()


def _row(form: Credit, parts: list[tuple[int, Decoded]], mask: Any, index: Any) -> Row:
    first, decoded = parts[0]
    values = np.concatenate([one.values for _, one in parts])
    group = decoded.group if form == "hrpo" else index[first]
    return Row(values, values, np.concatenate([mask[n] for n, _ in parts]), decoded.reward, 0.0, group)


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
