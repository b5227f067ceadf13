"""The engine "small": stages of a model in plain torch, for processors.

Episodes are played in real environments, all of a step at once over one cache of keys and values, and learnt from in one
on-policy step. Losses, advantages, schedules and token rows are those of the stages on TRL; weights, gradients and moments
are float32. A step depends on the seed, its number and the weights alone.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import torch

from factgym.agents.local.loading import Loaded
from factgym.agents.runs.files import read_json, write_json
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive
from factgym.integrations.credit import Floats, Row, token_advantages, token_credit
from factgym.integrations.trl.environment import FactEnvironment, environment_factory
from factgym.rewards.advantages import group_advantages
from factgym.training.optimizer import MuonAdamW, load_optimizer, save_optimizer
from factgym.training.recipes import stages
from factgym.training.recipes.budget import device_rows, uses_bfloat16
from factgym.training.recipes.recipe import GrpoStage, LmStage, RwrStage, SftStage
from factgym.training.recipes.templates import training_template
from factgym.training.replies import tasks_of_step
from factgym.training.small_model import Cache, SmallModel, TokenRow, Weights, backward, sampler

_OPTIMIZER = "optimizer.safetensors"
_ROWS = 8  # computed together in training at most: values of a small model fit in a processor's cache


def run_small_stage(run: stages.StageRun, log: stages.Log, on_step_end: stages.StepEnd) -> dict[str, Any]:
    """Train a stage as `run_stage` does, from its last checkpoint or its beginning, and return facts about it.

    Raises ConfigError for a model of another shape than Llama's or Qwen3's.
    """
    from transformers import get_scheduler

    stage, checkpoint = run.stage, stages.last_checkpoint(run.folder)
    loaded = stages.load_model(str(checkpoint[0]) if checkpoint else run.model)
    if run.recipe.train_layers is not None:
        stages.freeze_layers(loaded.model, run.recipe.train_layers)
    steps: Any = (_GrpoSteps if isinstance(stage, GrpoStage) else _SftSteps)(run, loaded)
    weights, config = [each for each in loaded.model.parameters() if each.requires_grad], steps.config
    betas = (config.adam_beta1, config.adam_beta2)
    optimizer: torch.optim.Optimizer = MuonAdamW(loaded.model, stage.learning_rate)
    if stage.optimizer == "adamw":
        optimizer = torch.optim.AdamW(weights, stage.learning_rate, betas, config.adam_epsilon, 0.0, fused=True)
    schedule = get_scheduler(config.lr_scheduler_type, optimizer, stage.warmup, stage.steps, config.lr_scheduler_kwargs)
    silent, done, tokens = stages.SilentSteps.of(stage, checkpoint), 0, 0
    if checkpoint is not None:
        load_optimizer(optimizer, checkpoint[0] / _OPTIMIZER)
        done, tokens = checkpoint[1], read_json(checkpoint[0] / stages.COMPLETE)["tokens"]
        schedule.last_epoch = done - 1
        schedule.step()
    while done < stage.steps and not silent.stopped:
        start = time.perf_counter()
        metrics = steps.step(done)
        norm = torch.nn.utils.clip_grad_norm_(weights, config.max_grad_norm or float("inf"))
        metrics |= {"grad_norm": float(norm), "learning_rate": schedule.get_last_lr()[0]}
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        done, tokens = done + 1, tokens + metrics["tokens"]
        log(done, {**metrics, "tokens": tokens, "step_time": time.perf_counter() - start})
        if "zero_signal" in metrics:
            silent.add(done, metrics["zero_signal"])
        silent.stopped = on_step_end(done, loaded) or silent.stopped
        if done % stage.save_every == 0:
            folder = run.folder / stages.CHECKPOINTS / f"checkpoint-{done}"
            stages.save_model(loaded, loaded.model, folder)
            save_optimizer(optimizer, folder / _OPTIMIZER)
            write_json(folder / stages.COMPLETE, {"step": done, "silent_steps": silent.count, "tokens": tokens})
            shutil.rmtree(folder.with_name(f"checkpoint-{done - 2 * stage.save_every}"), ignore_errors=True)
    stages.save_model(loaded, loaded.model, run.folder / stages.MODEL)
    return {**steps.facts, "steps": done, "stopped": silent.stopped}


class _Steps:
    """`step(n)` adds the gradients of step n, from 0, and returns its metrics. config: of TRL's. facts: for the result."""

    config: Any
    facts: dict[str, Any]

    def __init__(self, run: stages.StageRun, loaded: Loaded) -> None:
        self.run, self.loaded, self.tokenizer = run, loaded, loaded.tokenizer
        half = run.stage.trl.get("bf16", uses_bfloat16(run.recipe))
        self.model = SmallModel(loaded.model, run.recipe.model, torch.bfloat16 if half else torch.float32)

    def _backward(self, rows: Iterable[TokenRow], temperature: float = 1.0) -> dict[str, float]:
        """Rows of one prompt go together, which is then computed once, and the others by length."""
        groups: dict[tuple[int, ...], list[TokenRow]] = defaultdict(list)
        rows = sorted(rows, key=lambda row: len(row.ids))
        for row in rows:
            groups[tuple(row.ids[: row.trained.index(True)])].append(row)
        together = [members for members in groups.values() if len(members) > 1]
        together.append([members[0] for members in groups.values() if len(members) == 1])
        size = device_rows(self.run.recipe, self.run.stage, self.run.stage.device_batch or _ROWS, len(rows[-1].ids))
        batches = (members[start : start + size] for members in together for start in range(0, len(members), size))
        return backward(self.model, batches, temperature)


class _SftSteps(_Steps):
    """Supervised tuning on chat lines, or on rows of plain text, in an order that is drawn anew for each pass."""

    def __init__(self, run: stages.StageRun, loaded: Loaded) -> None:
        from trl import SFTConfig

        super().__init__(run, loaded)
        stage = run.stage
        assert isinstance(stage, SftStage | RwrStage | LmStage)
        self.batch, self.max_length = stage.batch, None if isinstance(stage, RwrStage) else stage.max_length
        self.config = stages.config_of(run, stage.batch, 1, SFTConfig)
        self.lines: list[Any] = stages.text_rows(run, loaded) if isinstance(stage, LmStage) else stages.chat_lines(run)
        if not isinstance(stage, LmStage):
            line: Any = self.lines[0]
            self.template = training_template(self.tokenizer, line["messages"], line.get("tools") or ())
        self.facts = {"traces": len(self.lines)}

    def step(self, step: int) -> dict[str, Any]:
        encoded = [self.encode(line) for line in self.step_lines(step)]
        rows = [(ids, trained) for ids, trained in encoded if any(trained)]
        count = sum(sum(trained) for _, trained in rows)
        if not count:
            raise ConfigError(f"max_length={self.max_length} cuts all of the policy's messages off: set a higher one")
        sums = self._backward([TokenRow(ids, trained, [each / count for each in trained]) for ids, trained in rows])
        means = {"entropy": sums["entropy"] / count, "token_accuracy": sums["correct"] / count}
        return {"loss": sums["loss"], **means, "tokens": sum(len(ids) for ids, _ in encoded)}

    def step_lines(self, step: int) -> list[Any]:
        """The lines of a step, from 0."""
        size, first = len(self.lines), step * self.batch
        passes = range(first // size, (first + self.batch - 1) // size + 1)
        draws = [random.Random(f"factgym lines of a pass {self.run.recipe.seed} {number}") for number in passes]
        return [line for draw in draws for line in draw.sample(self.lines, size)][first % size :][: self.batch]

    def encode(self, line: Mapping[str, Any] | list[int]) -> tuple[list[int], list[bool]]:
        """Token ids of a line, and which of them are trained: those that the policy wrote; of plain text all but two."""
        if isinstance(line, list):
            return line, [index > 1 for index in range(len(line))]
        options = {"return_dict": True, "return_assistant_tokens_mask": True, "chat_template": self.template}
        encoded = self.tokenizer.apply_chat_template(line["messages"], tools=line.get("tools"), **options)
        return encoded["input_ids"][: self.max_length], [*map(bool, encoded["assistant_masks"])][: self.max_length]


@dataclass(slots=True)
class Rollout:
    """An episode in tokens. trained: those that the policy wrote. start: tokens of the prompt. sequences: all of them.

    An episode is one sequence, except where the environment hides messages from its policy: there each reply is a
    sequence with the prompt that the environment showed, and the fields are those of the last.
    """

    slot: FactEnvironment
    ids: list[int] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)
    start: int = 0
    sequences: list[tuple[list[int], list[bool]]] = field(default_factory=list)

    def open(self, prompt: Sequence[int]) -> None:
        """Begin a sequence with a prompt."""
        self.ids, self.trained, self.start = list(prompt), [False] * len(prompt), len(prompt)
        self.sequences.append((self.ids, self.trained))

    def append(self, ids: Sequence[int], sampled: bool) -> None:
        """Append tokens. sampled: whether they are the policy's."""
        self.ids += ids
        self.trained += [sampled] * len(ids)


class _GrpoSteps(_Steps):
    """GRPO (arXiv:2402.03300): groups of episodes, and one step on all of them."""

    def __init__(self, run: stages.StageRun, loaded: Loaded) -> None:
        from trl import GRPOConfig

        super().__init__(run, loaded)
        assert isinstance(run.stage, GrpoStage)
        self.stage, self.size = run.stage, run.stage.groups * run.stage.samples
        self.config = stages.config_of(run, self.size, 1, GRPOConfig, num_generations=run.stage.samples)
        tokens = stages.completion_limit(run, loaded)
        self.limit, self.facts = tokens["max_completion"], {"tasks": len(run.indices), "tokens": tokens}
        self.store, self.scales = stages.step_store(run), self.config.scale_rewards == "group"
        self.hides = stages.hides_messages(run)
        slot = environment_factory(run.recipe.env, **run.env_config)
        self.slots = [slot() for _ in range(self.size)]
        self._dummy = [{"role": role, "content": "dummy"} for role in ("user", "assistant")]
        self._ends = self.tokenizer.apply_chat_template(self._dummy, tokenize=False).count(self.tokenizer.eos_token)
        self._cache = Cache(self.model)

    def step(self, step: int) -> dict[str, Any]:
        rollouts = self.play(step)
        rewards = np.array([rollout.slot.session.close().total for rollout in rollouts], dtype=float)  # None is NaN
        outcomes = group_advantages(rewards.reshape(-1, self.stage.samples), scale=self.scales).ravel()
        if self.store is not None:
            self.store.add(step + 1, stages.trained_episodes(self.slots, outcomes.tolist()))
        rows = self.token_rows(rollouts, self.advantages(rollouts, rewards, outcomes))
        sums = self._backward(rows, self.stage.temperature)
        groups = [group[~np.isnan(group)] for group in rewards.reshape(-1, self.stage.samples)]
        scored = np.concatenate(groups)
        lengths = [sum(sum(trained) for _, trained in rollout.sequences) for rollout in rollouts]
        return {
            "loss": -sum(sum(row.weights) for row in rows),
            "entropy": sums["entropy"] / sums["tokens"],
            "reward": float(scored.mean()) if len(scored) else float("nan"),
            "reward_std": float(scored.std(ddof=1)) if len(scored) > 1 else 0.0,
            "zero_signal": fmean(len(set(group.tolist())) < 2 for group in groups),
            **{"length": fmean(lengths), "length_max": max(lengths)},
            "clipped": fmean(rollout.ids[-1] != self.tokenizer.eos_token_id for rollout in rollouts),
            "tokens": sum(len(row.ids) for row in rows),
            **_environment_metrics(rollouts),
        }

    def play(self, step: int) -> list[Rollout]:
        """Play the episodes of a step, from 0, group by group, all of them turn by turn."""
        seed, size = self.run.recipe.seed, self.stage.samples
        tasks = tasks_of_step(self.run.indices, self.stage.groups, seed, step)
        rollouts = [Rollout(slot) for slot in self.slots]
        for index, rollout in enumerate(rollouts):
            rollout.slot.reset(task=tasks[index // size], prompt=True)
            rollout.open(rollouts[index - 1].ids if index % size else self._prompt(rollout))
        draw = sampler(self.stage.temperature, derive(seed, "step", step))
        with torch.inference_mode():
            weights, cache = self.model.weights(), self._cache
            hidden = self._open(weights, rollouts, range(self.size), size)
            while True:
                limits = {row: self._room(rollouts[row]) for row in cache.rows}
                replies = cache.sample(weights, hidden, limits, self.tokenizer.eos_token_id, draw)
                answers = {row: self._turn(rollouts[row], reply) for row, reply in replies.items()}
                cache.reorder([index for index, row in enumerate(cache.rows) if answers[row]])
                if not cache.rows:
                    return rollouts
                if self.hides:
                    hidden = self._open(weights, rollouts, cache.rows, 1)
                else:  # the last token of a reply is not stored yet
                    hidden = cache.extend(weights, [[*replies[row][-1:], *answers[row]] for row in cache.rows])

    def _open(self, weights: Weights, rollouts: Sequence[Rollout], rows: Sequence[int], repeats: int) -> torch.Tensor:
        """Store the prompts of these rollouts alone; `repeats` after another have the same."""
        prompts = [rollouts[row].ids for row in rows[::repeats]]
        self._cache.clear(rows, max(map(len, prompts)) + self.limit)
        return self._cache.extend(weights, prompts, repeats)

    def _room(self, rollout: Rollout) -> int:
        """Tokens that the last sequence may still get."""
        return min(rollout.start + self.limit, int(self.model.context)) - len(rollout.ids)

    def _turn(self, rollout: Rollout, reply: Sequence[int]) -> list[int]:
        """Play a reply; return the tokens of what answers it, or of the next prompt, and none where the episode is over."""
        first, session = len(rollout.ids) - rollout.start, rollout.slot.session
        rollout.append(reply, sampled=True)
        answers = rollout.slot._play_turn({}, list(reply), first, self.tokenizer)  # as a text, like an evaluation
        if session.done:
            return []
        if self.hides:
            ids, limit = self._prompt(rollout), int(self.model.context)
        else:  # what the template writes behind the end of a reply
            ids, limit = self._encode([*self._dummy, *answers], ends=self._ends), self._room(rollout)
        if len(ids) >= limit:
            session.close("length_limit")
            return []
        rollout.open(ids) if self.hides else rollout.append(ids, sampled=False)
        return ids

    def _prompt(self, rollout: Rollout) -> list[int]:
        env = rollout.slot.session.env  # it may show fewer messages and tools than there are
        return self._encode(env.policy_prompt(), list(env.available_tools()) or None)

    def _encode(self, messages: Sequence[Any], tools: Any = None, ends: int = 0) -> list[int]:
        """Token ids of rendered messages with the generation prompt, after the first `ends` end tokens of their text."""
        text = self.tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
        text = text.split(self.tokenizer.eos_token, ends)[-1]
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def advantages(self, rollouts: Sequence[Rollout], rewards: Floats, outcomes: Floats) -> list[Any]:
        """The advantage of each rollout within its group, or those of the tokens after its prompt."""
        if self.stage.credit == "scalar":
            return list(outcomes)
        rows = []
        for index, rollout in enumerate(rollouts):
            slot, mask = rollout.slot, np.array(rollout.trained[rollout.start :])
            spread, group = token_credit(slot.session, slot.turns, mask, self.tokenizer), index // self.stage.samples
            rows.append(Row(spread.credit, spread.returns, mask, rewards[index], outcomes[index], group))
        return token_advantages(rows, self.stage.credit, self.stage.credit_weight, self.scales)

    def token_rows(self, rollouts: Sequence[Rollout], advantages: Sequence[Any]) -> list[TokenRow]:
        """The sequences of all rollouts, with the weights of TRL's `loss_type`."""
        rows = [(each, ids, trained) for each, rollout in enumerate(rollouts) for ids, trained in rollout.sequences]
        total, kind = sum(sum(trained) for _, _, trained in rows), self.config.loss_type
        made = []
        for index, ids, trained in rows:
            factors = np.zeros(len(ids))
            factors[rollouts[index].start if np.ndim(advantages[index]) else 0 :] = advantages[index]
            divisor = {"grpo": len(rows) * sum(trained), "dr_grpo": len(rows) * self.limit}.get(kind, total)
            made.append(TokenRow(ids, trained, (factors * trained / divisor).tolist()))
        return made


def _environment_metrics(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Means of the episodes' metrics, and of the components of their rewards."""
    rows = [rollout.slot.session.metrics() for rollout in rollouts]
    names = dict.fromkeys(name for row in rows for name in row)
    means = {name: fmean(row[name] for row in rows if name in row) for name in names}
    names = dict.fromkeys(name for rollout in rollouts for name in rollout.slot.session.close().components)
    return {"components": {name: means.pop(name) for name in names if name in means}, **means}
