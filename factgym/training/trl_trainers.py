"""Trainers of both evolutions on TRL: a policy-gradient step on stored episodes, and tuning on chat lines.

Episodes are trained on as they were played: the ids of each prompt and reply come from the rows, and nothing is
tokenized or generated again. Needs the extra "train".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from factgym.agents.agent import Model, model_path
from factgym.agents.local import LocalModel
from factgym.agents.local.loading import Loaded
from factgym.agents.runs import files
from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.training.recipes.stages import (
    choose_optimizer,
    device_faults,
    load_model,
    save_model,
    table_of,
    trainer_arguments,
)
from factgym.training.replies import TokenSequence, episode_replies, padded
from factgym.training.trainer import Dataset

FACTS, OPTIMIZER = "training.json", "optimizer.safetensors"


def token_sequences(dataset: Dataset) -> Iterator[TokenSequence]:
    """Yield a sequence for each reply of each row. Raises DataError for a row without the ids of its tokens."""
    for number, row in enumerate(dataset.rows(), 1):
        replies = episode_replies(row["completions"] or [None] * len(row["actions"]), float(row["advantage"]))
        if replies is None:
            raise DataError(
                f"{dataset.path} line {number}: a reply without the ids of its tokens. The trainer 'trl' trains a "
                "local model (hf:FOLDER) that plays with logprobs=true"
            )
        yield from replies


class _Trl:
    """The parts that both trainers share: they train a local model whole and save it with its optimiser."""

    optimizer_file = OPTIMIZER
    learning_rate: float
    device_batch: int
    agent_settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ConfigError(f"learning_rate must be above 0, not {self.learning_rate}")
        if self.device_batch < 2 or self.device_batch % 2:
            raise ConfigError(f"device_batch must be an even number from 2, not {self.device_batch}")
        try:
            import trl  # noqa: F401 - missing it is an error before the first episode
        except ImportError as error:
            raise MissingExtraError("the trainer 'trl'", "train") from error
        self.agent_settings = dict(self.agent_settings or {})

    def load(self, folder: Path) -> Model:
        """Load the model in a folder, with the agent's settings."""
        return LocalModel(folder, **self.agent_settings)

    def _arguments(self, folder: Path, seed: int, **values: Any) -> dict[str, Any]:
        shared = trainer_arguments(folder, self.device_batch, self.learning_rate, seed)
        return {**shared, "lr_scheduler_type": "constant", "save_strategy": "no", **values}

    def _run(self, trainer: Any, loaded: Loaded, source: str, folder: Path, facts: Mapping[str, Any]) -> Model:
        """Train with the optimiser's state of the model before; save the model, that state and facts."""
        from transformers import PrinterCallback

        from factgym.training.optimizer import load_optimizer, save_optimizer

        trainer.remove_callback(PrinterCallback)
        trainer.create_optimizer()
        load_optimizer(trainer.optimizer, Path(source) / self.optimizer_file)
        trainer.train()
        save_model(loaded, trainer.accelerator.unwrap_model(trainer.model), folder)
        save_optimizer(trainer.optimizer, folder / self.optimizer_file)
        logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
        names = ("loss", "grad_norm", "entropy", "mean_token_accuracy", "train_loss")
        numbers = {name: logged[name] for name in names if name in logged and math.isfinite(logged[name])}
        files.write_json(folder / FACTS, {**facts, "steps": trainer.state.global_step, **numbers})
        return self.load(folder)


@dataclass(eq=False)
class PolicyGradientTrainer(_Trl):
    """One step of GRPO, or HRPO, on the episodes that the policy has just played (EVE's algorithms 1 and 2).

    The rows hold the advantages: within a hop count for the proposer, within a row for the solver. The loss is TRL's,
    the mean over all tokens of the policy; the policy is the one that played, so that no ratio is clipped. The moments
    of AdamW are kept with the model. learning_rate, max_grad_norm: of the step; the paper's by default. device_batch:
    replies at a time, gradients are accumulated. temperature: of the sampled tokens. agent_settings: of the trained
    model. Raises ConfigError for settings out of range, MissingExtraError without the extra "train".
    """

    identity = "factgym.training.trl.PolicyGradientTrainer"
    learning_rate: float = 1e-6
    max_grad_norm: float = 0.1
    device_batch: int = 8
    agent_settings: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Identity for a manifest."""
        return {
            "kind": "policy gradient",
            "learning_rate": self.learning_rate,
            "max_grad_norm": self.max_grad_norm,
            "agent_settings": self.agent_settings,
        }

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Take one step and return the next policy; the same model where every advantage is 0.

        Raises DataError for rows without token ids, ConfigError and MemoryShortageError as the stages of a recipe do.
        """
        sequences = list(token_sequences(dataset))
        moving = [sequence for sequence in sequences if sequence.advantage]
        if not moving:
            return model
        source = model_path(model)
        loaded = load_model(source)
        tokens = sum(len(sequence.completion) for sequence in sequences)
        with device_faults(folder.parent, "lower device_batch of the trainer"):
            trainer = self._trainer(loaded, moving, tokens, folder, seed)
            facts = {"replies": len(sequences), "moving": len(moving), "tokens": tokens}
            return self._run(trainer, loaded, source, folder, facts)

    def _trainer(self, loaded: Loaded, sequences: Sequence[TokenSequence], tokens: int, folder: Path, seed: int) -> Any:
        from datasets import Dataset as Rows
        from trl import GRPOConfig, GRPOTrainer

        batches = [
            padded(sequences[start : start + self.device_batch], loaded.pad, tokens)
            for start in range(0, len(sequences), self.device_batch)
        ]

        def train_batches(trainer: Any) -> list[dict[str, Any]]:
            return batches

        def to_device(trainer: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
            return {name: tensor.to(trainer.accelerator.device) for name, tensor in batch.items()}

        overrides = {"get_train_dataloader": train_batches, "_prepare_inputs": to_device}
        # The temperature of a sampled token divides its logits; a greedy policy has no other tokens to weigh.
        arguments = self._arguments(
            folder,
            seed,
            max_steps=1,
            gradient_accumulation_steps=len(batches),
            num_generations=2,
            temperature=float(self.agent_settings.get("temperature") or 1.0),
            max_grad_norm=self.max_grad_norm,
            beta=0.0,
            loss_type="dapo",
        )
        return type("StoredEpisodes", (GRPOTrainer,), overrides)(
            model=loaded.model,
            args=GRPOConfig(**arguments),
            train_dataset=Rows.from_list([{"prompt": ""} for _ in sequences]),
            reward_funcs=lambda completions, **columns: [0.0] * len(completions),
            processing_class=loaded.tokenizer,
        )


@dataclass(eq=False)
class TuningTrainer(_Trl):
    """Supervised tuning on the chat lines of SEVA's rounds; only the verdict is learned.

    learning_rate, epochs, batch: the paper's warm-up by default (table 8). device_batch: lines at a time. max_length:
    tokens of a line, None for no limit. optimizer, schedule: AdamW at a constant rate, or as in the stages of a recipe.
    agent_settings: of the trained model. Raises ConfigError for settings out of range, MissingExtraError without the extra "train".
    """

    identity = "factgym.training.trl.TuningTrainer"
    learning_rate: float = 2e-5
    epochs: float = 3.0
    batch: int = 16
    device_batch: int = 4
    max_length: int | None = None
    optimizer: Literal["adamw", "muon"] = "adamw"
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    agent_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.epochs > 0 or self.batch % self.device_batch:
            raise ConfigError(
                f"epochs must be above 0, and device_batch={self.device_batch} must divide batch={self.batch}"
            )
        for name, values in {"optimizer": ("adamw", "muon"), "schedule": ("constant", "cosine", "linear")}.items():
            if (value := getattr(self, name)) not in values:
                raise ConfigError(f"{name} is {' or '.join(values)}, not {value!r:.80}")
        self.optimizer_file = OPTIMIZER if self.optimizer == "adamw" else f"{self.optimizer}.safetensors"

    def describe(self) -> dict[str, Any]:
        """Identity for a manifest."""
        return {
            "kind": "tuning",
            **{name: getattr(self, name) for name in ("learning_rate", "epochs", "batch", "max_length")},
            **{name: getattr(self, name) for name in ("optimizer", "schedule")},
            "agent_settings": self.agent_settings,
        }

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Tune on the lines and return the next model. Raises as the stages of a recipe do."""
        from trl import SFTConfig, SFTTrainer

        source = model_path(model)
        loaded = load_model(source)
        arguments = self._arguments(
            folder,
            seed,
            num_train_epochs=self.epochs,
            lr_scheduler_type=self.schedule,
            gradient_accumulation_steps=self.batch // self.device_batch,
            max_length=self.max_length,
            assistant_only_loss=True,
            weight_decay=0.01,
        )
        with device_faults(folder.parent, "lower device_batch or max_length of the trainer"):
            trainer = SFTTrainer(
                model=loaded.model,
                args=SFTConfig(**arguments),
                train_dataset=table_of(list(dataset.rows()), ("messages", "tools")),
                processing_class=loaded.tokenizer,
            )
            choose_optimizer(trainer, self.optimizer, self.learning_rate)
            return self._run(trainer, loaded, source, folder, {"lines": dataset.lines})
