"""Shared fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from public_data import find_data_dir


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = find_data_dir()
    if folder is None:
        pytest.skip("needs the public data sets: set FACTGYM_DATA to their folder")
    return folder
