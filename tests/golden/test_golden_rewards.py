"""Every reward is what it was: each environment, configuration, scripted agent and seed, compared bit for bit.

The first episodes of each row are played; with FACTGYM_GOLDEN=full all of them.
"""

from __future__ import annotations

import os

import pytest
from golden_rewards import EXCLUDED, Row, agents_of, first_difference, make, needs_data, read_golden
from public_data import find_data_dir

import factgym

SHORT_EPISODES = 6
EPISODE_LIMIT = 10**9 if os.environ.get("FACTGYM_GOLDEN") == "full" else SHORT_EPISODES

GOLDEN: dict[str, dict[str, list[Row]]] = {}
"""Environment -> configuration in words -> its rows."""
for golden_row in read_golden():
    described = ", ".join(f"{key}={value}" for key, value in golden_row["config"].items()) or "default"
    GOLDEN.setdefault(golden_row["env"], {}).setdefault(described, []).append(golden_row)


def test_every_environment_has_golden_rewards() -> None:
    assert set(GOLDEN) == set(factgym.list_envs())


@pytest.mark.parametrize("env_id", GOLDEN)
def test_every_agent_has_golden_rewards(env_id: str) -> None:
    recorded = {row["agent"] for rows in GOLDEN[env_id].values() for row in rows}
    assert recorded == {name for name in agents_of(env_id) if (env_id, name) not in EXCLUDED}


@pytest.mark.parametrize(("env_id", "config"), [(env_id, config) for env_id in GOLDEN for config in GOLDEN[env_id]])
def test_rewards_are_what_they_were(env_id: str, config: str) -> None:
    rows = GOLDEN[env_id][config]
    data = find_data_dir()
    if data is None and needs_data(rows[0]["config"]):
        pytest.skip("needs the public data sets: set FACTGYM_DATA to their folder")
    env = make(env_id, rows[0]["config"], data)
    differences = [first_difference(env, row, EPISODE_LIMIT) for row in rows]
    different = [difference for difference in differences if difference is not None]
    assert not different, f"{len(different)} of {len(rows)} agents differ, the first: {different[0]}"
