"""TRL's rollout with all its tokens: a trainer with `DenseCredit` beside TRL's own loop around an environment by hand.

A batch is generated and scored as in training, by a policy that answers at once: template, tokens, parsing, masks,
rewards and advantages are TRL's. No parameter is touched.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factgym.core.errors import MissingExtraError
from factgym.core.registry import make
from perf.integrations.compare import Integration, Recorded, UnequalError, called, own_split
from perf.integrations.tiny_model import model, sampled, texts_of, tokenizer

_LONG = 500_000


def integration(env_id: str) -> Integration:
    """Whole batches of rollouts. Raises MissingExtraError where TRL is not installed."""
    from factgym.integrations.trl import environment_factory

    try:
        import trl  # noqa: F401
    except ModuleNotFoundError as missing:
        raise MissingExtraError("A rollout of TRL's", "trl") from missing
    return _Batches(env_id, environment_factory(env_id, **own_split(env_id))).integration()


class _Batches:
    """The two trainers, with the same prompts and completions."""

    def __init__(self, env_id: str, factory: type[Any]) -> None:
        import trl
        from trl import GRPOTrainer

        from factgym.integrations.trl import DenseCredit

        self.env_id, self.env = env_id, make(env_id)
        template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text("utf-8")
        self._tokenizer = tokenizer(texts_of(self.env), template)
        self._rows: dict[str, tuple[list[list[int]], dict[str, Any]]] = {}
        self._made: dict[str, list[int]] = {}
        self._seen: set[tuple[Any, str]] = set()
        self._folder = tempfile.TemporaryDirectory()
        self._ours = self._trainer(type("Ours", (_Scripted, DenseCredit, GRPOTrainer), {}), factory)
        by_hand = type("ByHand", (_Scripted, GRPOTrainer), {})
        self._by_hand = self._trainer(by_hand, _environment(env_id))
        # Signatures hold less than schemas: the prompts would differ.
        self._by_hand._env_tools = dict(self._ours._env_tools)

    def integration(self) -> Integration:
        """Play both ways."""
        return Integration(
            lambda some: self._played(self._ours, some, []),
            by_hand=lambda some: self._played(self._by_hand, some, [[]]),
            hand="TRL's own loop with an environment by hand",
            close=self._folder.cleanup,
        )

    def _trainer(self, kind: type[Any], factory: type[Any]) -> Any:
        from factgym.integrations.trl import dataset

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(
                model=model(self._tokenizer),
                args=_arguments(self._folder.name),
                train_dataset=dataset(self.env_id, limit=2, **own_split(self.env_id)),
                processing_class=self._tokenizer,
                environment_factory=factory,
            )

    def _played(self, trainer: Any, some: Sequence[Recorded], more: list[list[int]]) -> list[float]:
        """more: a message after the end of an episode, for which TRL's own loop has no signal: an empty one."""
        prepared = [
            self._rows.get(episode.task) or self._rows.setdefault(episode.task, self._row(episode)) for episode in some
        ]
        trainer.scripts = [ids + more for ids, _ in prepared]
        trainer.num_generations = len(some)
        batch = trainer._generate_and_score_completions([row for _, row in prepared])
        for episode, ids, mask in zip(some, batch["completion_ids"], batch["completion_mask"], strict=True):
            if (trainer, episode.task) not in self._seen:
                self._seen.add((trainer, episode.task))
                self._compare(episode.task, ids[mask.bool()].tolist())
        return [environment.get_reward() for environment in trainer.environments]

    def _compare(self, task: str, ids: list[int]) -> None:
        """Raises UnequalError where the tokens differ; TRL's own loop appends the last answer too."""
        previous = self._made.setdefault(task, ids)
        length = min(len(previous), len(ids))
        if previous[:length] != ids[:length]:
            raise UnequalError(f"TRL's own loop and the integration's make other tokens of {task}")

    def _row(self, episode: Recorded) -> tuple[list[list[int]], dict[str, Any]]:
        from factgym.integrations.session import rows

        (row,) = rows(self.env_id, limit=1, start=self.env.tasks.index_of(episode.task))
        return sampled(self._tokenizer, episode), row


class _Scripted:
    """A stand-in for the model: the next completion of each running rollout's script, in order."""

    scripts: list[list[list[int]]]

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        token_ids = [script.pop(0) for script in self.scripts if script]
        assert len(token_ids) == len(prompt_ids), "as many as are asked for"
        return token_ids, None


def _environment(env_id: str) -> type[Any]:
    """The smallest environment that TRL accepts: a call is one step."""

    class ByHand:
        def __init__(self) -> None:
            self._env = make(env_id)
            self._reward = 0.0

        def reset(self, **row: Any) -> None:
            self._env.reset(options={"task": row["task"]})

        def get_reward(self) -> float:
            return self._reward

        def _call(self, name: str, arguments: dict[str, Any]) -> str:
            _, self._reward, _, _, info = self._env.step(called(name, arguments))
            return str(info["messages"][0]["content"])

    for schema in make(env_id).all_tools():
        name = schema["function"]["name"]
        setattr(ByHand, name, _tool(name))
    return ByHand


def _tool(name: str) -> Any:
    def call(self: Any, **arguments: Any) -> str:
        return str(self._call(name, arguments))

    call.__name__ = name
    return call


def _arguments(folder: str) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=_LONG,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
    )
