"""Parts that every data set shares: its declaration, the detection of a file's layout, records, sequences and slices.

A data set is declared by a `DataSet` in `data_sets.toml` (licence, splits, files) and its files' layouts by `Layout`s
(the columns that identify one, and the function that turns a row into records). No data is part of the package.
"""

from __future__ import annotations

import hashlib
import random
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from factgym.core.apportion import apportion
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import kind_of, user_path
from factgym.core.tasks import Immutable
from factgym.corpora.rows import Row

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LabelT = TypeVar("LabelT", bound=str)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A public data set.

    splits: split -> the files that are tried in this order, the default split first. A file is looked for in the folder
    of all public data sets, then by its bare name in a folder of one data set. licence: of the data, as its authors
    state it. extends: the name of the set of questions whose splits and layouts these are too. hops: of every question,
    where rows do not say it.
    """

    name: str
    licence: str
    splits: Mapping[str, tuple[str, ...]]
    extends: str = ""
    hops: int | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all splits."""
        return tuple(file for files in self.splits.values() for file in files)


@cache
def load_data_sets(family: str) -> Mapping[str, DataSet]:
    """Return the data sets of a family of readers, a table of `data_sets.toml`, by name."""
    tables = tomllib.loads(Path(__file__).with_name("data_sets.toml").read_text("utf-8"))
    data_sets = {}
    for name, table in tables[family].items():
        origin = tables["questions"].get(table.get("extends"), {"splits": {}})
        splits = {split: tuple(files) for split, files in {**origin["splits"], **table["splits"]}.items()}
        data_sets[name] = DataSet(name, **{**origin, **table, "splits": MappingProxyType(splits)})
    return MappingProxyType(data_sets)


def check_benchmark(name: str, benchmarks: Iterable[str]) -> None:
    """Raise ConfigError for an unknown benchmark."""
    names = tuple(benchmarks)
    if name not in names:
        raise ConfigError(
            f"there is no benchmark {name!r:.80}.{did_you_mean(name, names)} There are: {', '.join(names)}."
        )


def locate_file(
    records: str, path: str | Path, data_set: DataSet | None, splits: Sequence[str], split: str | None
) -> Path:
    """Return the file at `path`: the file itself, or that of the data set in a folder.

    records: their name in errors. data_set: None for files of the user's own, which are named themselves. splits: those
    that are searched without `split`. Raises ConfigError for a path or split that does not exist, DataError that lists
    the files it looked for.
    """
    path = user_path(path)
    kind = kind_of(path)
    if kind == "file":
        return path
    if kind is None:
        raise ConfigError(f"{path} does not exist: give a file or folder of {records}")
    if data_set is None:
        raise ConfigError(f"{path} is a folder: name the file of {records} itself, or a benchmark")
    if split is not None:
        if split not in data_set.splits:
            hint = did_you_mean(split, data_set.splits)
            raise ConfigError(
                f"{data_set.name} has no split {split!r:.80}.{hint} It has: {', '.join(data_set.splits)}."
            )
        splits = [split]
    files = [file for name in splits for file in data_set.splits[name]]
    candidates = (path / name for file in files for name in (file, Path(file).name))
    located = next((candidate for candidate in candidates if candidate.is_file()), None)
    if located is None:
        label = data_set.name if len(splits) > 1 else f"{data_set.name} {splits[0]}"
        raise DataError(f"{path}: holds no {label}: looked for {', '.join(files)}. Give the file itself as path.")
    return located


@dataclass(frozen=True, slots=True)
class Layout(Generic[T]):
    """One layout of rows. keys: columns that identify it. read: the record or records of a row.

    named_only: files of this layout are read only when they are named themselves, not with the rest of a folder.
    """

    name: str
    keys: tuple[str, ...]
    read: Callable[[Row], T]
    named_only: bool = False


def detect_layout(
    row: Row, layouts: Sequence[Layout[T]], columns: Mapping[str, tuple[str, ...]], own_layout: Callable[..., Layout[T]]
) -> Layout[T]:
    """Return the layout of a file by its first row.

    columns, own_layout: for files of the user's own, the accepted names of each column, and the function that makes a
    layout from its name and the names that are used. Raises DataError that lists the known layouts.
    """
    for layout in layouts:
        if all(key in row.values for key in layout.keys):
            return layout
    present = [next((name for name in names if name in row.values), "") for names in columns.values()]
    if all(present):
        return own_layout(", ".join(columns), *present)
    keys = ", ".join(sorted(str(key) for key in list(row.values)[:12])) or "no keys"
    understood = "; ".join(f"{layout.name} ({', '.join(layout.keys)})" for layout in layouts)
    own_columns = ", ".join(f"{column} ({' or '.join(names)})" for column, names in columns.items())
    raise DataError(
        f"{row.location}: no layout that is understood; its keys are {keys[:200]}. Understood are {understood}; and for files "
        f"of your own columns for {own_columns}."
    )


def label_lookup(names: Mapping[LabelT, str]) -> Callable[[str], LabelT | None]:
    """Return the function from a data set's word for a label to the label.

    names: label -> its names, separated by `|`. Any case is read, and `_` or `-` for a space.
    """
    table = {name: label for label, text in names.items() for name in text.split("|")}
    return lambda text: table.get(
        " ".join(text[:80].lower().replace("_", " ").replace("-", " ").split()).replace(" / ", "/")
    )


class FrozenRecord:
    """Mixin of a frozen data class with a field `meta`: immutable, its own copy, and pickled by value."""

    __slots__ = ()
    meta: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]  # a data class
        return type(self), tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class RecordSet(Protocol[T_co]):
    """The methods of `Records`, which generated sets have too."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> T_co: ...
    def fingerprint(self) -> str:
        """A text that differs whenever the content differs."""
        ...


class Records(Immutable, Sequence[T]):
    """An immutable sequence of records with a fingerprint of its content; a subclass sets both."""

    _records: tuple[T, ...]
    _fingerprint: str

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._records[index]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the names and the unpacked bytes of the files."""
        return self._fingerprint


class RecordSlice(Records[T]):
    """The records of `records` at `indices`, in their order."""

    def __init__(self, records: RecordSet[T], indices: Iterable[int]) -> None:
        chosen = tuple(sorted(indices))
        self._records = tuple(records[index] for index in chosen)
        self._fingerprint = hashlib.sha256(f"{records.fingerprint()}:{chosen}".encode()).hexdigest()


def stratified_slice(records: RecordSet[T], strata: Sequence[str], size: int, seed: str, noun: str) -> RecordSlice[T]:
    """Draw `size` records with the strata in the proportion of the whole, by largest remainder (Hamilton's method).

    strata: that of each record; of equal remainders the first name's is rounded up. Each stratum is drawn without
    replacement by the seed text and its name. Raises ConfigError for a size below 1 or above the number of records,
    which the error calls by `noun`.
    """
    total = len(records)
    if not 1 <= size <= total:
        raise ConfigError(f"a slice has 1 to {total} {noun} here, not {size}")
    members: dict[str, list[int]] = {}
    for index, name in enumerate(strata):
        members.setdefault(name, []).append(index)
    counts = apportion(size, {name: len(members[name]) for name in sorted(members)})
    draws = (random.Random(f"{seed} {name}").sample(indices, counts[name]) for name, indices in members.items())
    return RecordSlice(records, chain.from_iterable(draws))


def interleave(groups: Iterable[Sequence[T]]) -> list[T]:
    """Return the members of all groups, spread evenly: the i-th of a group's n at (i + 0.5) / n of the order."""
    positions = [
        ((index + 0.5) / len(members), rank, member)
        for rank, members in enumerate(groups)
        for index, member in enumerate(members)
    ]
    return [member for *_, member in sorted(positions, key=lambda entry: entry[:2])]
