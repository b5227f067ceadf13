"""The runs that an export reads, once to choose and once to write.

Every record is checked against its schema when it is first read, so that what follows needs no doubt about its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run, read_run
from factgym.agents.runs.schema import validate
from factgym.core.errors import ConfigError, DataError

Episode = dict[str, Any]
Place = tuple[int, int]
"""Which run, and which of its episodes in the order of its file."""


class Source:
    """One or several runs. Raises ConfigError when they are of different environments or versions, unless `mixed`."""

    def __init__(self, folders: Sequence[Path], mixed: bool = False) -> None:
        self.runs = [read_run(folder) for folder in folders]
        self.mixed = mixed
        self._kind: tuple[Any, Any] | None = None
        self._names: list[tuple[str, int]] = []
        for run in self.runs:
            self._agree(run.manifest, run)

    def _agree(self, found: Any, run: Run) -> None:
        if "env" not in found:
            return
        kind = (found["env"], found.get("version"))
        if self._kind is None:
            self._kind = kind
        if kind != self._kind and not self.mixed:
            raise ConfigError(
                f"{run.folder} is of {kind[0]} v{kind[1]}, the first run of {self._kind[0]} v{self._kind[1]}: "
                "export them one by one, or together with --mixed"
            )

    def first_pass(self) -> Iterator[tuple[Place, Episode]]:
        """Every episode, checked. Raises DataError that names run, task and fault."""
        self._names = []
        for place, episode in self._read():
            run = self.runs[place[0]]
            try:
                validate(episode)
            except DataError as error:
                task = f"task {episode['task']!r:.80} sample {episode.get('sample')!r:.20}"
                raise DataError(f"{run.folder}, episode {place[1] + 1} ({task}): {error}") from None
            self._agree(episode, run)
            self._names.append((episode["task"], episode["sample"]))
            yield place, episode

    def second_pass(self) -> Iterator[tuple[Place, Episode]]:
        """The same again. Raises DataError when a run has changed in between."""
        names = iter(self._names)
        for place, episode in self._read():
            if (episode["task"], episode.get("sample")) != next(names, None):
                raise DataError(
                    f"{self.runs[place[0]].folder} changed while it was read: export it when it is finished"
                )
            yield place, episode

    def _read(self) -> Iterator[tuple[Place, Episode]]:
        for number, run in enumerate(self.runs):
            for position, episode in enumerate(run.episodes()):
                yield (number, position), episode


def fault_of(episode: Episode) -> str | None:
    """Why an episode has no score, or None when it has one."""
    reward = episode["reward"]
    if episode["error"] is not None or (reward or {}).get("status") == "error":
        return "failed"
    return None if reward is not None and reward["total"] is not None else "unscored"


def was_cut(episode: Episode) -> bool:
    """Whether a reply of the policy's ended at its token limit."""
    return any((turn["completion"] or {}).get("finish_reason") == "length" for turn in episode["turns"])
