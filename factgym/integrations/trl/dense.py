"""`DenseCredit`: span credits as advantages of tokens, which TRL's loss takes in shape (B, T).

The forms are those of `factgym.integrations.credit`; TRL's own advantage is the A_i of "grpo".
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError, did_you_mean
from factgym.integrations.credit import FORMS, Credit, Floats, Row, spread, token_advantages
from factgym.integrations.offsets import token_offsets
from factgym.integrations.trl.environment import FactEnvironment
from factgym.integrations.trl.loop import StopWhenDone


class DenseCredit(StopWhenDone):
    """Mix in before GRPOTrainer; set the form on the subclass.

    credit: "grpo", "hrpo" or "stepwise". dense_weight: λ of the first two. group_column: the rows' column that "hrpo"
    compares within. Batches over several processes are compared as a whole.
    """

    credit: Credit = "grpo"
    dense_weight: float = 0.5
    group_column: str = "hops"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.credit not in FORMS:
            raise ConfigError(f"credit is one of {', '.join(FORMS)}, not {self.credit!r}.")
        super().__init__(*args, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        trainer: Any = self
        found = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        weighted = (found * trainer.reward_weights.to(found.device).unsqueeze(0)).nansum(dim=1)
        weighted[found.isnan().all(dim=1)] = float("nan")
        begin = trainer.accelerator.process_index * len(prompts)
        self._own_rewards: list[float] = weighted[begin : begin + len(prompts)].tolist()
        return found

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        from accelerate.utils import gather_object

        trainer: Any = self
        found: Any = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        ours = self._rows(inputs, found)
        everyone = gather_object(ours)
        begin = trainer.accelerator.process_index * len(ours)
        scale = trainer.scale_rewards != "none"
        values = token_advantages(everyone, self.credit, self.dense_weight, scale)[begin : begin + len(ours)]
        advantages = found["advantages"]
        found["advantages"] = advantages.new_tensor(np.stack(values)).to(advantages.dtype)
        return found

    def _rows(self, inputs: Any, found: Any) -> list[Row]:
        trainer: Any = self
        mask = found["completion_mask"].bool()
        if "tool_mask" in found:
            mask &= found["tool_mask"].bool()
        kept = mask.cpu().numpy()
        advantages = found["advantages"].tolist()
        group_size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        begin = trainer.accelerator.process_index * len(inputs)
        rows = []
        for n, (env, row) in enumerate(zip(trainer.environments, inputs, strict=True)):
            reward = self._own_rewards[n]
            held, returns = self._spread(env, kept[n])
            known = env.session.reward if isinstance(env, FactEnvironment) else None
            # What other reward functions add belongs to the whole completion.
            returns = returns + (reward - (known or 0.0))
            group = self._group(row) if self.credit == "hrpo" else (begin + n) // group_size
            rows.append(Row(held, returns, kept[n], reward, advantages[n], group))
        return rows

    def _spread(self, env: Any, mask: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        if not isinstance(env, FactEnvironment):
            return np.zeros(len(mask)), np.zeros(len(mask))
        tokenizer = self._tokenizer  # type: ignore[attr-defined]
        found = spread(env.session, env.turns, mask, lambda turn: token_offsets(tokenizer, turn.ids, turn.text))
        return found.held, found.returns

    def _group(self, row: Any) -> Hashable:
        if self.group_column not in row:
            raise ConfigError(
                f"credit='hrpo' compares rows that agree in the column {self.group_column!r}, and the dataset has "
                f"{', '.join(row)}.{did_you_mean(self.group_column, row)} Add it, or set group_column."
            )
        value = row[self.group_column]
        return tuple(value) if isinstance(value, list) else value
