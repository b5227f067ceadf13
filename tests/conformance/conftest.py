"""Every test here runs once for each registered environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from setups import SETUPS, Setup


@pytest.fixture(scope="session")
def made_setups() -> dict[Any, Setup]:
    return {}


@pytest.fixture(params=SETUPS, ids=lambda param: f"{param[0]}-{param[1].__name__}".removesuffix("-nothing"))
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, made_setups: dict[Any, Setup]
) -> Setup:
    id_, needs = request.param

    def data() -> Path:
        folder: Path = request.getfixturevalue("data_dir")
        return folder

    if request.param not in made_setups:  # one folder a session: task sets are shared by path
        made_setups[request.param] = Setup(id_, needs(tmp_path_factory.mktemp("documents"), data))
    return made_setups[request.param]
