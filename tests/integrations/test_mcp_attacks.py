"""`factgym serve mcp` under attack, with an environment and with a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp.server.lowlevel", reason="needs factgym[mcp]")
pytest.importorskip("mcp_types", reason="needs factgym[mcp]")

from serve_attacks import ATTACKS, Target, attack_from_pages, expected_of, make_target


@pytest.fixture(scope="module", params=("mcp", "mcp --corpus"))
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with make_target(request.param, tmp_path_factory.mktemp("served")).serving() as made:
        yield made


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_its_outcome(target: Target, name: str) -> None:
    assert ATTACKS[name][0](target) == expected_of(name, target.name)
    assert target.is_alive()


def test_pages_of_other_sites_are_refused(target: Target, tmp_path: Path) -> None:
    attack_from_pages(target, tmp_path)
