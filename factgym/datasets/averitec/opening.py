"""The store that is at hand: the knowledge store in a folder, or a haystack of the split's gold evidence."""

from __future__ import annotations

from pathlib import Path

from factgym.core.tasks import shared
from factgym.datasets.averitec.evidence import MAX_PASSAGE_CHARS
from factgym.datasets.averitec.folder import FolderStore
from factgym.datasets.averitec.reading import FactChecks
from factgym.datasets.averitec.stores import GoldStore


def open_store(
    checks: FactChecks, path: str | Path | None = None, *, max_chars: int = MAX_PASSAGE_CHARS
) -> FolderStore | GoldStore:
    """The knowledge store at `path` for these claims, or their gold haystack without a path; built once a process.

    checks: the whole split, of which the store's `name` finds its folder. Raises ConfigError for a path without a
    store: a haystack never takes its place unasked.
    """
    if path is None:
        key = ("averitec gold store", checks.fingerprint(), max_chars)
        return shared(key, lambda: GoldStore(checks, max_chars=max_chars))
    place = Path(path)
    return shared(
        ("averitec store", str(place.absolute()), checks.name, max_chars),
        lambda: FolderStore(place, checks.name, max_chars=max_chars),
    )
