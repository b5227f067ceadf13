"""Where the files of WordNet 3.0 lie, for tests that check ours against them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def wordnet_folder() -> Path:
    """The folder of WordNet 3.0: FACTGYM_WORDNET, or where Debian's wordnet-base puts it; else the test is skipped."""
    folder = Path(os.environ.get("FACTGYM_WORDNET", "/usr/share/wordnet"))
    if not (folder / "data.noun").is_file():
        pytest.skip(
            "needs the files of WordNet 3.0: Debian's wordnet-base and wordnet-sense-index, or FACTGYM_WORDNET"
        )
    return folder
