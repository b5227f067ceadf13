"""The tasks of a recipe: those to train on, and the splits that are held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from factgym.agents.rollout.jobs import task_order
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError
from factgym.core.registry import make, spec
from factgym.training.difficulty_filter import only, read_tasks
from factgym.training.recipes.recipe import Recipe, Stage

TRAIN, VALIDATION, TEST = "train", "validation", "test"


class TaskSets:
    """Environments of a recipe on its splits, and the tasks to train on.

    Raises ConfigError when the recipe would train on a split that is made for evaluation, or skips all tasks.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._spec = spec(recipe.env)
        self._takes_split = "split" in self._spec.load().Config.model_fields
        config: EnvConfig = self._spec.load().Config.build(recipe.env, {**self._spec.kwargs, **self._without_split})
        self.splits = config.splits
        chosen = recipe.env_config.get("split", TRAIN if TRAIN in self.splits else None)
        if self.splits and chosen != TRAIN and not recipe.allow_evaluation_split:
            named = f"split {chosen!r}" if chosen else f"only {', '.join(self.splits)}"
            raise ConfigError(
                f"{recipe.env} would be trained on evaluation tasks ({named}): leave env_config.split out to train on "
                f"{TRAIN!r}, or set allow_evaluation_split=true to train on them all the same"
            )
        self.env_config = {**recipe.env_config, **({"split": chosen} if chosen is not None else {})}
        self.env = make(recipe.env, **self.env_config)
        source = recipe.tasks_file
        every = None if source is None else [self._trained_index(task, source) for task in read_tasks(source)]
        self.order = task_order(len(self.env.tasks), None, recipe.seed) if every is None else every
        skipped = max(stage.skip_tasks for stage in recipe.stages)
        if skipped and skipped >= len(self.order):
            raise ConfigError(f"skip_tasks={skipped} leaves none of {len(self.order)} tasks to train on: lower it")

    @property
    def _without_split(self) -> dict[str, Any]:
        return {name: value for name, value in self.recipe.env_config.items() if name != "split"}

    def _trained_index(self, task: str, source: str) -> int:
        """Return the index of a task of the training split; the error of another task names the split that has it."""
        with suppress(ConfigError, LookupError, ValueError):
            return self.env.tasks.index_of(task)
        for split in self.splits:
            if self._takes_split and split != self.env_config.get("split"):
                try:
                    make(self.recipe.env, **{**self._without_split, "split": split}).tasks.index_of(task)
                except (ConfigError, DataError, LookupError, ValueError):
                    continue
                raise ConfigError(
                    f"{source} names {task!r:.80}, a task of split {split!r}: training refuses evaluation tasks"
                )
        raise ConfigError(f"{source} names {task!r:.80}, which is no task of {self.recipe.env} in its training split")

    def check_trained(self, tasks: Iterator[str], source: str) -> None:
        """Raise ConfigError for a task that is none of the training split's."""
        for task in dict.fromkeys(tasks):
            self._trained_index(task, source)

    def trained(self, count: int | None, skip: int = 0) -> list[int]:
        """Indices of the first tasks to train on, after those to skip."""
        return self.order[skip:][:count]

    def of_stage(self, stage: Stage) -> list[int]:
        """Indices of the tasks of a stage that has no filter."""
        return self.trained(stage.tasks, stage.skip_tasks)

    def subset(self, count: int | None) -> Env[Any]:
        """An environment of its own over the first tasks to train on."""
        return self.restricted(self.trained(count))

    def restricted(self, indices: Sequence[int]) -> Env[Any]:
        """An environment of its own over these tasks to train on."""
        env = make(self.recipe.env, **self.env_config)
        return only(env, [str(env.tasks[index].id) for index in indices])

    def held_out(self, split: str) -> Env[Any] | None:
        """An environment over a split that is not trained on; None where there is none."""
        if not self._takes_split or split not in self.splits or split == self.env_config.get("split"):
            return None
        config = {name: value for name, value in self._without_split.items() if name != "size"}
        return make(self.recipe.env, **config, split=split)
