"""Rows of Parquet files, and of the Arrow files that `datasets` saves; by pyarrow (extra `export`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError, MissingExtraError

_BATCH_ROWS = 1_000

Values = dict[str, Any]
Part = tuple[str, int | None, Callable[[], Iterable[Any]]]
"""Name of a part of a file for errors, its rows where they are known, and a function that reads its record batches."""


def read_table(file: Path, suffix: str, on_bad: Callable[[DataError], None] | None) -> Iterator[tuple[int, Values]]:
    """Yield the rows of a file, numbered from 1, by batches.

    on_bad: takes the errors of damaged row groups and batches, whose remaining rows are left out, and of a file that
    cannot be opened; else they are raised. Raises MissingExtraError.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet  # used as pa.parquet
    except ImportError as error:
        raise MissingExtraError(f"{file.name}: reading {suffix} files", "export") from error
    # pyarrow raises its own errors, and OSError, for damage; UnicodeDecodeError for text that is not UTF-8.
    faults = (pa.ArrowException, OSError, UnicodeDecodeError)
    number = 0

    def report(name: str, error: Exception) -> None:
        problem = f"{name}cannot be read after row {number} ({str(error)[:120]})"
        fault = DataError(f"{file}: {problem}. Copy or download it again.")
        if on_bad is None:
            raise fault from None
        on_bad(fault)

    try:
        parts = _parquet_parts(pa, file) if suffix == ".parquet" else _arrow_parts(pa, file)
    except faults as error:
        report("", error)
        return
    for name, size, batches in parts:
        first = number
        try:
            for batch in batches():
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    for values in batch.slice(start, _BATCH_ROWS).to_pylist():
                        number += 1
                        yield number, values
        except faults as error:
            report(name, error)
        number = number if size is None else first + size


def _parquet_parts(pa: Any, file: Path) -> list[Part]:
    # Checksums of pages are verified where the writer left some.
    table = pa.parquet.ParquetFile(file, page_checksum_verification=True)

    def part(group: int) -> Part:
        rows = table.metadata.row_group(group).num_rows
        return f"row group {group + 1} ", rows, lambda: table.iter_batches(_BATCH_ROWS, row_groups=[group])

    return [part(group) for group in range(table.metadata.num_row_groups)]


def _arrow_parts(pa: Any, file: Path) -> list[Part]:
    try:
        stream = pa.ipc.open_stream(pa.memory_map(str(file)))
    except pa.ArrowInvalid:
        table = pa.ipc.open_file(pa.memory_map(str(file)))

        def part(number: int) -> Part:
            return f"batch {number + 1} ", None, lambda: [table.get_batch(number)]

        return [part(number) for number in range(table.num_record_batches)]
    return [("", None, lambda: stream)]
