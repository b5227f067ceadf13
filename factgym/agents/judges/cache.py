"""Judgements on disk, so that the same question is paid for once: one SQLite file, keyed by content.

A key is a SHA-256 over all that a judgement depends on; the file holds keys and judgements as JSON, never a case's
text nor a secret.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from factgym.core.caching import SqliteCache

FILE = "judgements.sqlite"


class JudgeCache(SqliteCache):
    """A cache of judgements in a folder, which is made when it is missing. Safe under threads and processes.

    Raises DataError, here and in every method, that names the file when it is damaged, not ours or cannot be used.
    """

    what: ClassVar[str] = "judgement cache"
    table: ClassVar[str] = "judgements"
    application: ClassVar[int] = 0x46474A31

    def __init__(self, folder: str | Path) -> None:
        super().__init__(Path(folder) / FILE)
