"""Data sets of questions: the benchmarks in a folder of public data, one file, or the generated world without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.benchmarks.benchmark import DataSet, check_names, data_place
from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError, DataError

SYNTHETIC = "synthetic"
"""The name, among the sets of questions, of those that need no data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSets:
    """The sets of questions of one paper over one environment.

    names: every benchmark; paper: those that its tables have, which are looked for in a folder. find(benchmark, folder):
    its file there; raises DataError. file_names: names of files that identify a benchmark. any_file: the environment's
    source for a file that is none of these, where it has one. config: settings of the environment.
    """

    env: str
    names: Sequence[str]
    paper: Sequence[str]
    find: Callable[[str, Path], Path]
    file_names: Mapping[str, Sequence[str]]
    any_file: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    def data_set(self, name: str, source: str | None = None, path: Path | None = None) -> DataSet:
        """Return the data set of a benchmark's file, or of generated questions. source: by default its name."""
        return DataSet(name, self.env, {**self.config, "source": source or name}, path)

    def __call__(
        self, data: str | Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] | None = None
    ) -> tuple[DataSet, ...]:
        """Return the sets in a folder (those of the paper that are there) or of one file; generated ones without data.

        Raises ConfigError for a place that does not exist, an unknown name, and requested sets that are missing.
        """
        check_names(only, (*self.names, SYNTHETIC))
        place = data_place(data)
        if place is None:
            requested = [name for name in only if name != SYNTHETIC]
            if requested:
                raise ConfigError(
                    f"{', '.join(requested)}: no data. Give a file or folder with --data, or set {DATA_VARIABLE}"
                )
            return (self.data_set(SYNTHETIC),)
        return (self._of_file(place, only),) if place.is_file() else self._in_folder(place, only)

    def _of_file(self, file: Path, only: Sequence[str]) -> DataSet:
        """A file under the name of its benchmark: as requested, or by the file's own name."""
        matches = [name for name, files in self.file_names.items() if file.name in files]
        if len(only) > 1:
            raise ConfigError(f"{file} is one file: name one benchmark with --only, or give a folder")
        name = (only[0] if only else None) or (matches[0] if len(matches) == 1 else None)
        if name == SYNTHETIC:
            raise ConfigError("generated questions have no file: leave out --data")
        if name:
            return self.data_set(name, path=file)
        if self.any_file is None:
            raise ConfigError(f"{file}: say whose questions these are with --only: {', '.join(self.names)}")
        return self.data_set(file.stem, self.any_file, file)

    def _in_folder(self, folder: Path, only: Sequence[str]) -> tuple[DataSet, ...]:
        data_sets, missing = [], []
        for name in only or self.paper:
            try:
                data_sets.append(self.data_set(name, path=None if name == SYNTHETIC else self.find(name, folder)))
            except DataError as error:
                missing.append(str(error))
        if not data_sets or (only and missing):
            raise ConfigError(" ".join(missing))
        return tuple(data_sets)
