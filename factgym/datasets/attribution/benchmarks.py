"""Public attribution benchmarks, and files of one's own, as sequences of claims.

Read: the slices that SEVA was evaluated on, FEVER-Symmetric, SufficientFacts, HaluEval, TruthfulQA, ClearFacts and
GrayFacts, ANLI, and any JSON lines, JSON array or CSV with a claim, a source and a label. No data is part of the
package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import overload

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.tasks import SharedByArguments, shared
from factgym.datasets.attribution.claims import AttributionClaim
from factgym.datasets.attribution.files import SUFFIXES, Row, rows_of
from factgym.datasets.attribution.layouts import Layout, layout_of, readings

BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "fever": "seva_official/fever.jsonl",
        "truthfulqa": "seva_official/truthfulqa.jsonl",
        "halueval": "seva_official/halueval.jsonl",
        "clearfacts": "clearfacts/grayfacts.jsonl",
        "anli": "anli/ANLI_analysis_r3_dev.csv",
    }
)
"""Benchmark -> the file that is read where the folder of all public data sets is given."""

_VERSION = 1


class BenchmarkClaims(SharedByArguments, Sequence[AttributionClaim]):
    """The claims of one file or folder: an immutable sequence; ids are made of benchmark, file and line.

    files: what was read. skipped: files of a folder whose layout is not understood, or that are read only when they
    are named themselves. Raises DataError with file and line for what cannot be used.
    """

    def __init__(self, name: str, path: str | Path) -> None:
        self.name, self.path = name, Path(path)
        digest = hashlib.sha256(f"attribution-{_VERSION}:{name}".encode())
        found: list[AttributionClaim] = []
        files: list[Path] = []
        skipped: list[Path] = []
        many = self.path.is_dir() and not _chosen(name, self.path)
        for file in _files(name, self.path):
            digest.update(f":{file.name}:".encode())
            layout = _layout(file, several=many)
            if layout is None:
                skipped.append(file)
                continue
            files.append(file)
            found += _claims(name, file, layout, digest.update)
        if not found:
            raise DataError(f"{self.path}: holds no claim. Give a file or folder that {_formats()}.")
        self.files, self.skipped = tuple(files), tuple(skipped)
        self._claims = tuple(found)
        self._fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._claims)

    @overload
    def __getitem__(self, index: int) -> AttributionClaim: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AttributionClaim, ...]: ...
    def __getitem__(self, index: int | slice) -> AttributionClaim | tuple[AttributionClaim, ...]:
        return self._claims[index]

    def __reduce__(self) -> tuple[object, ...]:
        return read_benchmark, (self.name, str(self.path))

    def fingerprint(self) -> str:
        """SHA-256 in hex over the names and the bytes of the files."""
        return self._fingerprint


def read_benchmark(name: str, path: str | Path) -> BenchmarkClaims:
    """The claims of a benchmark (a key of `BENCHMARKS`); read once a process.

    path: a file of any understood layout, a folder of such files, or the folder of all public data sets.
    Raises ConfigError for an unknown benchmark or a path that does not exist, DataError for content that is unusable.
    """
    if name not in BENCHMARKS:
        raise ConfigError(f"there is no benchmark {name!r}.{did_you_mean(name, BENCHMARKS)} There are: {_names()}.")
    place = Path(path)
    if not place.exists():
        raise ConfigError(f"{place} does not exist: give a file or folder that {_formats()}")
    return shared(("attribution", name, place.resolve()), lambda: BenchmarkClaims(name, place))


def _names() -> str:
    return ", ".join(BENCHMARKS)


def _formats() -> str:
    return f"holds {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} with claims, sources and labels"


def _chosen(name: str, folder: Path) -> Path | None:
    """The benchmark's own file in the folder of all data sets, or in a folder of one file for each benchmark."""
    candidates = (folder / BENCHMARKS[name], *(folder / f"{name}{suffix}" for suffix in SUFFIXES))
    return next((file for file in candidates if file.is_file()), None)


def _files(name: str, path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    chosen = _chosen(name, path)
    if chosen is not None:
        return [chosen]
    found = sorted(file for file in path.iterdir() if file.is_file() and file.suffix in SUFFIXES)
    if not found:
        raise DataError(f"{path}: a folder without {', '.join(SUFFIXES)} files. Give one that {_formats()}.")
    return found


def _layout(file: Path, *, several: bool) -> Layout | None:
    """The layout of a file; None for one of several that is to be passed over."""
    try:
        for line, row in rows_of(file, lambda _: None):
            layout = layout_of(row, f"{file} line {line}")
            return None if several and layout.named else layout
    except DataError:
        if several:
            return None
        raise
    if several:
        return None
    raise DataError(f"{file}: holds no row. Give a file that {_formats()}.")


def _claims(name: str, file: Path, layout: Layout, update: object) -> Iterator[AttributionClaim]:
    def rows() -> Iterator[tuple[int, Row]]:
        return rows_of(file, update)  # type: ignore[arg-type]  # a hash's update takes bytes

    for line, number, reading in readings(rows(), layout, str(file)):
        yield AttributionClaim(
            id=f"{name}-{file.stem}-{line:05d}" + (f"-{number}" if number else ""),
            claim=reading.claim,
            source=reading.source,
            label=reading.label,
            benchmark=name,
            meta={"file": file.name, "line": line, **reading.meta},
        )
