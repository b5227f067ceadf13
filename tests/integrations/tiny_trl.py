"""A model small enough for CPU tests, a tokenizer trained on the spot with TRL's own Qwen3 template, and a trainer whose
policy plays a script. Everything between is TRL's: template, parsing, masks, rewards, loss and step.

Run by torch.distributed, it writes the advantages that each process trains on, its share of one group of four."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiny_tokens
import torch
import torch.distributed
import trl
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from factgym.core.messages import Message
from factgym.integrations.trl import DenseCredit, FactEnvironment, StopWhenDone, dataset, environment_factory
from perf.integrations import tiny_model


def tokenizer(vocabulary: int = 1500) -> PreTrainedTokenizerFast:
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text("utf-8")
    return tiny_tokens.tokenizer(template, vocabulary)


def model(size: int = 16) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return tiny_model.model(tokenizer(), size)


def arguments(folder: Path, **more: Any) -> GRPOConfig:
    defaults: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        "max_steps": 1,
        "learning_rate": 1e-3,
        "max_completion_length": 500_000,
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "shuffle_dataset": False,
    }
    return GRPOConfig(**{**defaults, **more})


def written(message: Message) -> str:
    """A message as a model would sample it."""
    return tiny_tokens.written(message, tokenizer())


class Scripted:
    """Mix in first. `scripts`: for each rollout of a batch, in order, the texts that its policy says; then nothing."""

    scripts: Sequence[Sequence[str]]

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = self
        environments = trainer.environments
        if len(prompt_ids) == len(environments) and not any(env.turns for env in environments):
            self._turn_counts = [0] * len(environments)
            self._starts = [list(ids) for ids in prompt_ids]
            rows = range(len(environments))
        else:
            rows = self._rows_of(prompt_ids)
        sampled = []
        for row in rows:
            script = self.scripts[row]
            text = script[self._turn_counts[row]] if self._turn_counts[row] < len(script) else ""
            self._turn_counts[row] += 1
            sampled.append(tokenizer()(text, add_special_tokens=False)["input_ids"])
        return sampled, None

    def _rows_of(self, prompt_ids: Any) -> list[int]:
        """Rollouts are asked in their order, and those that are over are not asked."""
        alive = [n for n, env in enumerate(self.environments) if not env.session.done]  # type: ignore[attr-defined]
        assert len(alive) == len(prompt_ids)
        for n, ids in zip(alive, prompt_ids, strict=True):
            assert ids[: len(self._starts[n])] == self._starts[n]
        return alive


class ScriptedTrainer(Scripted, StopWhenDone, GRPOTrainer):
    """The integration as it is meant to be used, with a scripted policy."""


class Plain(Scripted, GRPOTrainer):
    """TRL's own loop."""


def factory(env_id: str, **config: Any) -> type[FactEnvironment]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return environment_factory(env_id, **tiny_tokens.own_split(env_id, **config))


def oracle(env_id: str, task: int, **config: Any) -> list[str]:
    """What the oracle's messages look like when a model samples them."""
    return [written(message) for message in tiny_tokens.oracle(env_id, task, **config)]


def trained(cls: type[Any], env_id: str, scripts: Any, folder: Path, rows: Any = None, **more: Any) -> Any:
    """A trainer after one real step."""
    columns = more.pop("columns", [])
    options = {"per_device_train_batch_size": len(scripts), "num_generations": len(scripts), **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        trainer = cls(
            model=model(),
            args=arguments(folder, **options),
            train_dataset=rows or dataset(env_id, limit=1, **tiny_tokens.own_split(env_id)),
            processing_class=tokenizer(),
            environment_factory=factory(env_id),
            reward_funcs=columns,
        )
    trainer.scripts = scripts
    trainer.train()
    return trainer


class Dense(Scripted, DenseCredit, GRPOTrainer):
    """Keeps what a batch's advantages were."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.batch = super()._generate_and_score_completions(inputs)
        return self.batch


class Hops(Dense):
    credit = "hrpo"
    dense_weight = 0.0


class Stepwise(Dense):
    credit = "stepwise"


QUICK = "<think>{0} is said to be right.</think>\n<answer>{1}</answer><|im_end|>"


def corver_scripts() -> list[list[str]]:
    """The oracle, a wrong answer, one without form, and a long one."""
    (right,) = oracle("corver-qa", 0)
    return [
        [right],
        [QUICK.format("Paris", "Paris")],
        ["Nothing.<|im_end|>"],
        [right.replace("</think>", " Nobody knows Xenia Brethaan.</think>")],
    ]


def main(folder: Path) -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rows = dataset("corver-qa", limit=1, **tiny_tokens.own_split("corver-qa")).add_column("hops", [1])
    share = corver_scripts()[rank * 4 // world : (rank + 1) * 4 // world]
    advantages = {}
    for cls in (Stepwise, Hops):
        batch = trained(cls, "corver-qa", share, folder / cls.credit, rows=rows, num_generations=4).batch
        masked = zip(batch["advantages"], batch["completion_mask"].bool(), strict=True)
        advantages[cls.credit] = [values[mask].tolist() for values, mask in masked]
    (folder / f"{world}-{rank}.json").write_text(json.dumps(advantages), "utf-8")
    if torch.distributed.is_initialized():  # else its threads may still run when the process ends, which aborts it
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
