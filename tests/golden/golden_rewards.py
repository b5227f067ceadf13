"""Golden rewards: what every scripted agent earns in every environment, episode by episode, bit for bit.

`rewards.jsonl` beside this module was written before the package was redesigned; a change that only moves, renames or
merges code must reproduce it. Each line is one environment, configuration and agent. Write the file again with

    python -m tests.golden.golden_rewards --write

from the root of the repository, only when a reward, a task generator or a scripted agent is changed on purpose.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import inspect
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import factgym
from factgym.core.registry import load_attribute, spec

FOLDER = Path(__file__).resolve().parent
GOLDEN_FILE = FOLDER / "rewards.jsonl"
INPUTS = FOLDER / "inputs"

EPISODES = 200
SLOW_EPISODES = 50
"""Of an agent that needs more than `SLOW_SECONDS` for all of them, and of reward variants."""
SLOW_SECONDS = 60.0

Config = Mapping[str, Any]
Row = dict[str, Any]

DATA, OWN = "data:", "inputs:"
"""How a configuration names a file: of the public data sets, or of `inputs` beside this module."""

CONFIGS: Mapping[str, Sequence[Config]] = {
    "claimcheck-docs": ({"path": "inputs:documents"}, {"path": "data:policies_basecamp"}),
    "claimcheck-contracts": ({"path": "data:contract_nli/dev.json"},),
    "claimcheck-wice": ({"path": "data:"},),
    "claimcheck-fm2": ({"path": "data:"},),
    "claimcheck-scifact": ({"path": "data:"},),
    "seva-fever": ({"path": "inputs:claims.jsonl"}, {"path": "data:"}),
    "seva-truthfulqa": ({"path": "data:"},),
    "seva-halueval": ({"path": "data:"},),
    "seva-clearfacts": ({"path": "data:"},),
    "seva-anli": ({"path": "data:"},),
    "profact": ({}, {"path": "data:averitec/dev.json"}),
    "corver-qa": (
        {},
        {"source": "file", "path": "inputs:questions.jsonl"},
        {"source": "popqa", "path": "data:popqa/popqa.json", "prompt": "eval"},
    ),
    "corver-qa-search": ({}, {"source": "file", "path": "inputs:questions.jsonl", "corpus": "inputs:documents"}),
    "eve-solver": (
        {},
        {"source": "triples", "path": "inputs:triples.jsonl", "corpus": "inputs:documents"},
        {"source": "hotpotqa", "path": "data:hotpotqa/hotpot_distractor_sample_migres.json"},
    ),
}
"""The configurations of an environment; of those that are not listed, the default one. The first has variants."""

_CLAIMCHECK = ("judged", "r0", "gated", "v2")
_SEVA = (
    *("balanced", "grounded", "process", "binary", "50/50"),
    *("grounded-50/50", "process-by-label", "process-unfloored"),
)
_PROFACT = ("guarded", "process", "noprocess")
_CORVER = (
    *("strict", "strict-no-cooccurrence", "strict-no-judge", "strict-no-alignment"),
    *("reference", "reference-no-cooccurrence", "reference-no-judge", "reference-no-alignment"),
    "reference-code",
)
_EVE = ("guarded", "eve", "dr-zero")
REWARDS: Mapping[str, Sequence[str]] = {
    "claimcheck": _CLAIMCHECK,
    "seva": _SEVA,
    "profact": _PROFACT,
    "corver": _CORVER,
    "eve": _EVE,
}
"""The named rewards of a family, the default first."""

EXCLUDED: Mapping[tuple[str, str], str] = {}
"""(environment, agent) -> why its rewards are not reproducible and therefore not recorded."""


@dataclass(frozen=True)
class Played:
    """What is recorded of one episode."""

    task: str
    total: float | None
    status: str
    components: Mapping[str, float]
    turns: int
    stop: str

    @property
    def digest(self) -> str:
        content = [self.task, self.total, self.status, dict(self.components), self.turns, self.stop]
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def agents_of(env_id: str) -> Mapping[str, Any]:
    """The scripted agents of an environment by name."""
    reference = spec(env_id).agents
    agents: Mapping[str, Any] = load_attribute(reference) if reference else {}
    return agents


def configs_of(env_id: str) -> Iterator[tuple[Config, list[str], int]]:
    """Each configuration with the agents that play it and the number of episodes."""
    agents = [name for name in agents_of(env_id) if (env_id, name) not in EXCLUDED]
    configs = CONFIGS.get(env_id, ({},))
    for config in configs:
        yield config, agents, EPISODES
    entry = spec(env_id)
    if "reward" in entry.fixed or env_id.partition("-")[0] not in REWARDS:
        return
    default = entry.load().Config.build(env_id, {**entry.kwargs}).rubric.name
    pair = [name for name, agent in agents_of(env_id).items() if agent.role in ("oracle", "honest")]
    for reward in REWARDS[env_id.partition("-")[0]]:
        if reward != default:
            yield {**configs[0], "reward": reward}, [name for name in pair if name in agents], SLOW_EPISODES


def needs_data(config: Config) -> bool:
    return any(isinstance(value, str) and value.startswith(DATA) for value in config.values())


def make(env_id: str, config: Config, data: Path | None) -> Any:
    """The environment of a configuration, its file names resolved."""
    resolved = dict(config)
    for key, value in config.items():
        for prefix, folder in ((DATA, data), (OWN, INPUTS)):
            if isinstance(value, str) and value.startswith(prefix):
                assert folder is not None, "needs the public data sets"
                resolved[key] = str(folder / value.removeprefix(prefix))
    return factgym.make(env_id, **resolved)


def play(env: Any, agent: Any, seed: int) -> Played:
    """One episode of a scripted agent, which is seeded as the rollout engine does it: with the episode's seed."""
    env.reset(seed=seed)
    policy = agent.start(env, seed)
    ended, reward = False, 0.0
    while not ended:
        action = policy.act(env.policy_prompt(), env.available_tools())
        if inspect.isawaitable(action):
            action = asyncio.run(_wait(action))
        _, reward, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
    episode, report = env.episode, env.episode.report
    assert reward == (report.total or 0.0)
    return Played(
        episode.task.id, report.total, report.status, report.components, len(episode.turns), str(episode.stop)
    )


async def _wait(action: Any) -> Any:
    return await action


def row_of(env: Any, config: Config, agent_name: str, episodes: int) -> Row:
    """One line of the golden file."""
    agent = agents_of(env.env_spec.id)[agent_name]
    results: list[Played] = []
    started = time.perf_counter()
    for seed in range(episodes):
        results.append(play(env, agent, seed))
        if len(results) >= SLOW_EPISODES and _slow(started, len(results), episodes):
            break
    results = results if len(results) == episodes else results[:SLOW_EPISODES]
    scored = [result.total for result in results if result.total is not None]
    digests = [result.digest for result in results]
    return {
        "env": env.env_spec.id,
        "config": dict(config),
        "agent": agent_name,
        "episodes": len(results),
        "mean": sum(scored) / len(scored) if scored else None,
        "totals": [result.total for result in results],
        "unscored": {str(seed): result.status for seed, result in enumerate(results) if result.status != "scored"},
        "sha256": hashlib.sha256("".join(digests).encode()).hexdigest(),
        "digests": "".join(digest[:8] for digest in digests),
    }


def _slow(started: float, done: int, episodes: int) -> bool:
    return done == SLOW_EPISODES and (time.perf_counter() - started) * episodes / done > SLOW_SECONDS


def read_golden() -> list[Row]:
    with GOLDEN_FILE.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def first_difference(env: Any, row: Row, episodes: int) -> str | None:
    """The first episode of a row that is not what it was, in words; None where all of them are."""
    agent = agents_of(row["env"]).get(row["agent"])
    if agent is None:
        return f"{row['env']} {row['config']}: the agent {row['agent']!r} does not exist any more"
    for seed in range(min(episodes, row["episodes"])):
        result, total = play(env, agent, seed), row["totals"][seed]
        if result.total != total or result.digest[:8] != row["digests"][8 * seed : 8 * seed + 8]:
            where = f"{row['env']} {row['config']}, agent {row['agent']!r}, seed {seed}"
            return f"{where}: the total was {total!r} and is {result.total!r}; now {result}"
    return None


def rows_of_env(env_id: str, data: Path) -> list[Row]:
    """All lines of one environment."""
    rows = []
    for config, agents, episodes in configs_of(env_id):
        env = make(env_id, config, data)
        for name in agents:
            started = time.perf_counter()
            rows.append(row_of(env, config, name, episodes))
            seconds = time.perf_counter() - started
            print(f"{env_id} {config} {name}: {rows[-1]['episodes']} in {seconds:.1f} s", file=sys.stderr)  # noqa: T201
        env.close()
    return rows


def write(data: Path, env_ids: Iterable[str], processes: int) -> None:
    """Play these environments and write their lines of the golden file; the lines of others stay."""
    ids = list(env_ids)
    lines: dict[str, list[Row]] = {}
    for row in read_golden() if GOLDEN_FILE.exists() else []:
        lines.setdefault(row["env"], []).append(row)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        lines |= dict(zip(ids, pool.imap(partial(rows_of_env, data=data), ids), strict=True))
    with GOLDEN_FILE.open("w", encoding="utf-8") as output:
        for rows in lines.values():
            output.writelines(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n" for row in rows)


def main() -> None:
    """The command line."""
    from tests.public_data import find_data_dir

    parser = argparse.ArgumentParser(description="Write the golden rewards.")
    parser.add_argument("--write", action="store_true", required=True, help="play and write the file")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--env", action="append", help="replace the lines of this environment only; may be given again")
    options = parser.parse_args()
    data = find_data_dir()
    if data is None:
        parser.error("needs the public data sets: set FACTGYM_DATA to their folder")
    write(data, options.env or factgym.list_envs(), options.processes)


if __name__ == "__main__":
    main()
