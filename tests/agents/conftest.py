"""Fixtures of all tests of agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from factgym.agents.endpoint import client


@pytest.fixture(scope="session", autouse=True)
def small_bodies() -> Iterator[None]:
    """Replies have at most four megabytes, so that a server can send more in little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "MAX_BODY", 4 << 20)
        yield


@pytest.fixture
def policy(tmp_path):
    """A user's file, as the text of an agent."""
    from worker_runs import POLICY

    (tmp_path / "mine.py").write_text(POLICY, "utf-8")
    (tmp_path / "marks").mkdir()
    return f"{tmp_path / 'mine.py'}:Policy"
