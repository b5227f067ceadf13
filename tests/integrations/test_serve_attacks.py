"""`factgym serve check`, `retrieval` and `counts` under attack; `test_mcp_attacks.py` and `test_openenv_attacks.py` have the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs factgym[serve]")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

from serve_attacks import ATTACKS, Target, attack_from_pages, expected_of, make_target


@pytest.fixture(scope="module", params=("check", "retrieval", "counts"))
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with make_target(request.param, tmp_path_factory.mktemp("served")).serving() as made:
        yield made


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_its_outcome(target: Target, name: str) -> None:
    assert ATTACKS[name][0](target) == expected_of(name, target.name)
    assert target.is_alive()


def test_pages_of_other_sites_are_refused(target: Target, tmp_path: Path) -> None:
    attack_from_pages(target, tmp_path)
