"""Where the real public data lies."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VARIABLE = "FACTGYM_TESTS_DATA"

# FACTGYM_DATA names the data for the tests, and is a setting of the code under test, which tests set for themselves:
# it goes on under another name, to the workers of pytest-xdist, too.
if "FACTGYM_DATA" in os.environ:
    os.environ[_VARIABLE] = os.environ.pop("FACTGYM_DATA")


def find_data_dir() -> Path | None:
    """The folder of public data sets: FACTGYM_DATA, or `../shared/data` beside the checkout, or None."""
    named = os.environ.get(_VARIABLE)
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None
