"""`DenseCredit`: span credits as advantages of tokens, which TRL's loss takes in shape (B, T).

Three forms, over the tokens that the policy wrote (A_i is the advantage of completion i, c_t the sum of the credits of
the spans that hold token t):

- "grpo": A_t = A_i + λ (c_t − mean of c in the group), with TRL's own A_i;
- "hrpo": the same with A_i = (r_i − mean) / (std + 1e-4) over all completions of the batch whose rows agree in one
  column, EVE's hop groups (equation 5);
- "stepwise": CorVer's A_t = (R_t − mean R̄) / (std R̄ + 1e-4), where R_t are returns of tokens whose mean over the
  completion is its reward: for CorVer its own R_r + λ_c r_σ(t), otherwise each credit spread over its span's tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError, did_you_mean
from factgym.integrations.trl.environment import FactEnvironment
from factgym.integrations.trl.loop import StopWhenDone
from factgym.integrations.trl.turns import Offsets, Turn, token_offsets
from factgym.rewards.advantages import group_advantages, stepwise_advantages

Floats = npt.NDArray[np.float64]
Credit = Literal["grpo", "hrpo", "stepwise"]
FORMS: tuple[Credit, ...] = ("grpo", "hrpo", "stepwise")


@dataclass(frozen=True, slots=True)
class Row:
    """A completion as the advantages need it, everything over its T tokens.

    held: c_t. returns: R_t. mask: the tokens that the policy wrote and the loss counts. reward: r_i, NaN without a
    score. advantage: TRL's A_i. group: with which rows it is compared.
    """

    held: Floats
    returns: Floats
    mask: npt.NDArray[np.bool_]
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


def spread(
    env: FactEnvironment, size: int, mask: npt.NDArray[np.bool_], offsets: Callable[[Turn], Offsets]
) -> tuple[Floats, Floats]:
    """`Row.held` and `Row.returns` of an episode; both sum up the report's spans, tokens outside `mask` excepted.

    A credit of a message that no tokens are known of, or that the mask hides, goes to all tokens of the mask.
    """
    held, returns = np.zeros(size), np.zeros(size)
    turns = {turn.message: turn for turn in env.turns}
    places = {message: offsets(turn) for message, turn in turns.items()}
    total = int(mask.sum())
    for span in env.session.spans:
        inside = np.zeros(size, dtype=np.bool_)
        turn = turns.get(span.message)
        if turn is not None:
            inside[turn.first : turn.first + len(turn.ids)] = turn.holds(places[span.message], span.start, span.end)
        inside &= mask
        if not inside.any():
            inside = mask
        held[inside] += span.value
        returns[inside] += span.value * total / max(int(inside.sum()), 1)
    own = _corver_returns(env, size, mask, places)
    return held, returns if own is None else own


def _corver_returns(
    env: FactEnvironment, size: int, mask: npt.NDArray[np.bool_], places: dict[int, Offsets]
) -> Floats | None:
    """Equation 4 of CorVer where the environment is CorVer's, its sentences' rewards unspread; None elsewhere."""
    from factgym.envs.corver.env import CorverEnv
    from factgym.rewards.corver import token_returns
    from factgym.rewards.corver.tokens import response_return

    episode = env.session.env
    if not isinstance(episode, CorverEnv) or env.report is None or env.report.status != "scored":
        return None
    message, completion, score = episode.scored()
    turn = next((one for one in env.turns if one.message == message), None)
    rubric = episode.config.rubric
    returns = np.full(size, response_return(score, rubric))
    if turn is not None and completion.text:
        shift = completion.shift - (turn.parts[0][2] or 0)
        inside = np.clip(places[message] + shift, 0, len(score.text))
        returns[turn.first : turn.first + len(turn.ids)] = token_returns(score, inside, rubric).returns
    return np.where(mask, returns, 0.0)


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
        return spread(env, len(mask), mask, lambda turn: token_offsets(tokenizer, turn.ids, turn.text))

    def _group(self, row: Any) -> Hashable:
        if self.group_column not in row:
            raise ConfigError(
                f"credit='hrpo' compares rows that agree in the column {self.group_column!r}, and the dataset has "
                f"{', '.join(row)}.{did_you_mean(self.group_column, row)} Add it, or set group_column."
            )
        value = row[self.group_column]
        return tuple(value) if isinstance(value, list) else value
