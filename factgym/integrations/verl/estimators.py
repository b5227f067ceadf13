"""The advantage estimators "factgym_grpo", "factgym_hrpo" and "factgym_stepwise" (`factgym.integrations.credit`).

Rows of one session (a policy that was shown several contexts) are one completion. The members of a group are those of
one prompt; for "factgym_hrpo" all rows of the batch that agree in the group column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import register_adv_est

from factgym.core.errors import ConfigError
from factgym.integrations.credit import FORMS, Credit, Row, token_advantages
from factgym.integrations.verl.output import KL_IN_REWARD, PREFIX, Decoded, decode_row

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
