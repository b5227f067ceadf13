"""Policy gradients on replies: each message of a policy with the prompt that the environment showed it.

TRL's own rollouts append to one transcript. Environments that take messages out of their policy's sight (`policy_prompt`,
as ProFact does after an answer) are therefore trained on replies, each a sequence of its own with the advantage of its
episode: the prompts are those of an evaluation, and nothing is tokenized again. Needs the extra "train".
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from factgym.agents.agent import Agent
from factgym.agents.export.source import was_cut
from factgym.agents.local.loading import Loaded
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import jobs_of
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive
from factgym.rewards.advantages import group_advantages
from factgym.training.recipes.evaluation import playing_agent
from factgym.training.rollouts import StepStore

Episode = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One reply with the prompt that it was sampled from. advantage: of the episode, the same for every token."""

    prompt: Sequence[int]
    completion: Sequence[int]
    advantage: float


def episode_replies(completions: Sequence[Mapping[str, Any] | None], advantage: float) -> list[TokenSequence] | None:
    """The replies of an episode by their completion records; None where one lacks the ids of its tokens."""
    notes = [(completion or {}).get("notes") or {} for completion in completions]
    if not all(note.get("prompt_ids") and note.get("token_ids") for note in notes):
        return None
    return [TokenSequence(note["prompt_ids"], note["token_ids"], advantage) for note in notes]


def padded(sequences: Sequence[TokenSequence], pad: int, tokens: int) -> dict[str, Any]:
    """Tensors of a batch as TRL's loss takes them: prompts are padded at the left, replies at the right.

    tokens: of all replies of the step, over which the loss is averaged.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def right(rows: Sequence[Sequence[int]], value: int) -> Any:
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)

    prompts = [list(sequence.prompt)[::-1] for sequence in sequences]
    replies = [list(sequence.completion) for sequence in sequences]
    return {
        "prompt_ids": right(prompts, pad).flip(1),
        "prompt_mask": right([[1] * len(row) for row in prompts], 0).flip(1),
        "completion_ids": right(replies, pad),
        "completion_mask": right([[1] * len(row) for row in replies], 0),
        "advantages": torch.tensor([sequence.advantage for sequence in sequences], dtype=torch.float32),
        "num_items_in_batch": torch.tensor(tokens),
    }


def tasks_of_step(indices: Sequence[int], groups: int, seed: int, step: int) -> list[int]:
    """The tasks of a step, from 0, of passes in an order of their own. No task is twice in a step of at most all tasks."""
    number, part = divmod(step, max(1, len(indices) // groups))
    order = random.Random(f"factgym tasks of a pass {seed} {number}").sample(list(indices), len(indices))
    return [order[n % len(order)] for n in range(part * groups, (part + 1) * groups)]


@dataclass(frozen=True, slots=True)
class GroupRollouts:
    """Groups of episodes for the steps of a stage; step *n* depends on the seed, n and the policy alone.

    indices: of the tasks, which are shuffled anew for each pass. groups: tasks a step. samples: episodes of each.
    max_tokens: of a reply.
    """

    env: Env[Any]
    indices: Sequence[int]
    groups: int
    samples: int
    seed: int
    temperature: float
    max_tokens: int

    def tasks(self, step: int) -> list[int]:
        """The tasks of a step, from 0. A step never has a task twice unless there are fewer than `groups`."""
        return tasks_of_step(self.indices, self.groups, self.seed, step)

    def play(self, loaded: Loaded, step: int) -> list[list[Episode]]:
        """Play the episodes of a step by a model in training; return them by group."""
        episodes: list[Episode] = []
        tasks, rows = self.tasks(step), self.groups * self.samples
        jobs = list(jobs_of(tasks, self.samples, derive(self.seed, "step", step)))
        options = {"temperature": self.temperature, "max_tokens": self.max_tokens, "batch_size": rows}

        async def run(agent: Agent) -> None:
            try:
                await agent.prepare()
                await run_jobs(self.env, agent, jobs, episodes.append, limits=Limits(concurrency=rows))
            finally:
                await agent.close()

        with playing_agent(loaded, logprobs=True, **options) as agent:
            asyncio.run(run(agent))
        episodes.sort(key=lambda episode: (episode["index"], episode["sample"]))
        return [[episode for episode in episodes if episode["index"] == task] for task in dict.fromkeys(tasks)]


class ReplyTrainer:
    """Mix in before GRPOTrainer; set `rollouts` and `loaded` on the subclass. GRPO (arXiv:2402.03300) on replies.

    A step plays its groups and takes one gradient step on all replies, in as many batches as gradients are accumulated.
    The policy is the one that played, so that no ratio is clipped; the loss is TRL's, the mean over all tokens of the
    step, with the KL divergence from the initial policy where beta is above 0. Rests on private parts of the trainer:
    `_metrics`, and for the divergence `_get_per_token_logps_and_entropies`. Raises ConfigError in more than one process.
    """

    rollouts: GroupRollouts
    loaded: Loaded
    store: StepStore | None = None

    def get_train_dataloader(self) -> Any:
        """The batches of all steps, each made when its step begins, from the step of the checkpoint on."""
        trainer: Any = self
        if trainer.accelerator.num_processes > 1:  # each would play and count every episode
            raise ConfigError("an environment that takes messages out of its policy's sight is trained in one process")
        return _Batches(self)

    def _prepare_inputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        trainer: Any = self
        inputs = {name: tensor.to(trainer.accelerator.device) for name, tensor in batch.items()}
        if trainer.beta:
            inputs["ref_per_token_logps"] = self._reference(inputs)
        return inputs

    def _reference(self, inputs: Mapping[str, Any]) -> Any:
        """Log-probabilities of the replies under the initial policy: a copy of it, or the model without its adapter."""
        import torch

        trainer: Any = self
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        size = inputs["completion_ids"].size(1)
        with torch.no_grad():
            if trainer.ref_model is not None:
                return trainer._get_per_token_logps_and_entropies(trainer.ref_model, ids, mask, size)[0]
            with trainer.accelerator.unwrap_model(trainer.model).disable_adapter():
                return trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, size)[0]

    def _step_batches(self, step: int) -> list[dict[str, Any]]:
        """Return a step's batches: replies of all groups with their group's advantage, sorted by length."""
        trainer: Any = self
        model = trainer.accelerator.unwrap_model(trainer.model)
        groups = self.rollouts.play(dataclasses.replace(self.loaded, model=model), step)
        advantages = [map(float, group_advantages([_total(episode) for episode in group])) for group in groups]
        played = [
            pair for group, values in zip(groups, advantages, strict=True) for pair in zip(group, values, strict=True)
        ]
        replies: list[TokenSequence] = []
        for episode, advantage in played:
            replies += episode_replies([turn["completion"] for turn in episode["turns"]], advantage) or []
        if self.store is not None:
            self.store.add(step + 1, played)
        for name, value in step_metrics(groups).items():
            trainer._metrics["train"][name].append(value)
        tokens = sum(len(reply.completion) for reply in replies)
        count = trainer.args.gradient_accumulation_steps
        if replies and len(replies) < count:  # episodes were lost to faults: the trainer takes `count` batches a step
            replies += [dataclasses.replace(replies[0], advantage=0.0)] * (count - len(replies))
        # Replies of similar length together, so that little is padded.
        replies.sort(key=lambda reply: len(reply.prompt) + len(reply.completion))
        bounds = [round(part * len(replies) / count) for part in range(count + 1)]
        return [padded(replies[start:end], self.loaded.pad, tokens) for start, end in pairwise(bounds)]


def step_metrics(groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
    """Means of a step's episodes by TRL's names: rewards and components, groups without signal, lengths, cut replies."""
    episodes = [episode for group in groups for episode in group]
    scored = [episode["reward"] for episode in episodes if episode["reward"] is not None]
    totals = [[total for episode in group if (total := _total(episode)) == total] for group in groups]
    # The tokens that the policy sampled.
    notes = [[(turn["completion"] or {}).get("notes") or {} for turn in episode["turns"]] for episode in episodes]
    lengths = [sum(len(note.get("token_ids", ())) for note in turns) for turns in notes]
    metrics = {
        "reward": fmean(total for group in totals for total in group) if any(totals) else float("nan"),
        "reward_std": fmean(float(np.std(group, ddof=1)) if len(group) > 1 else 0.0 for group in totals),
        "frac_reward_zero_std": fmean(not group or max(group) == min(group) for group in totals),
        "completions/mean_length": fmean(lengths),
        "completions/max_length": float(max(lengths)),
        "completions/clipped_ratio": fmean(was_cut(dict(episode)) for episode in episodes),
        "factgym/turns": fmean(len(episode["turns"]) for episode in episodes),
    }
    for name in dict.fromkeys(name for report in scored for name in report["components"]):
        values = [value for report in scored if (value := report["components"].get(name)) is not None]
        metrics[f"rewards/{name}/mean"] = fmean(values) if values else float("nan")
    return metrics


def _total(episode: Episode) -> float:
    """The reward of an episode; NaN without one."""
    total = (episode["reward"] or {}).get("total")
    return float("nan") if total is None else float(total)


class _Batches:
    """The batches of a stage as a data loader of one epoch, each step's made when the trainer asks for its first."""

    def __init__(self, trainer: ReplyTrainer) -> None:
        self.trainer: Any = trainer

    def __len__(self) -> int:
        arguments = self.trainer.args
        return int(arguments.max_steps * arguments.gradient_accumulation_steps)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for step in range(self.trainer.state.global_step, self.trainer.args.max_steps):
            yield from self.trainer._step_batches(step)
