"""Where the real public data lies."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_data_dir() -> Path | None:
    """The folder of public data sets: FACTGYM_DATA, or `../shared/data` beside the checkout, or None."""
    named = os.environ.get("FACTGYM_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None
