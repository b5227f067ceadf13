"""`factgym compare`, `rescore` and `score`: against SciPy's paired interval, and against playing under the other reward."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from factgym.agents.replay import replay_agent, run_outputs, stored_config
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect
from factgym.agents.runs.read import read_run
from factgym.benchmarks.comparison import compare_runs
from factgym.cli.main import app
from factgym.core.errors import ConfigError, DataError
from factgym.core.registry import make

SIZE = 12


def play(env_id: str, agent: str, folder: Path, k: int = 1, **config: object) -> Path:
    env = make(env_id, **config)
    collect(env, find_agent(agent, env_id, {}), folder, n=SIZE, k=k)
    return folder


def totals(folder: Path) -> dict[tuple[str, int], float]:
    return {(row["task"], row["sample"]): row["reward"]["total"] for row in read_run(folder).episodes()}


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    app([str(argument) for argument in arguments], standalone_mode=False)
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for agent in ("nli", "oracle", "numbers"):
        play("claimcheck-multihop", agent, folder / agent)
    return folder


def test_differences_are_paired_as_scipy_pairs_them(runs: Path) -> None:
    comparison = compare_runs(read_run(runs / "nli"), read_run(runs / "numbers"))
    first, second = totals(runs / "nli"), totals(runs / "numbers")
    assert first.keys() == second.keys()
    a, b = (np.array([values[key] for key in sorted(first)]) for values in (first, second))
    expected = scipy.stats.ttest_rel(b, a)
    interval = expected.confidence_interval()
    reward = comparison.find("reward")
    assert (reward.first, reward.second) == pytest.approx((a.mean(), b.mean()))
    assert (reward.difference.value, reward.difference.low, reward.difference.high) == pytest.approx(
        ((b - a).mean(), interval.low, interval.high)
    )
    names = [row.name for row in comparison.differences]
    assert names[0] == "reward" and names[-2:] == ["malformed turns", "turns"] and "recall supported" in names
    golds = [row["reward"]["metrics"]["gold_verdict"] for row in read_run(runs / "nli").episodes()]
    assert comparison.find("recall supported").difference.n == golds.count("supported")
    with pytest.raises(ConfigError, match="Did you mean 'evidence'"):
        comparison.find("evidense")


def test_a_run_beside_itself_differs_in_nothing(runs: Path) -> None:
    comparison = compare_runs(read_run(runs / "nli"), read_run(runs / "nli"))
    assert all(row.difference.value == 0 for row in comparison.differences)


def test_runs_of_other_settings_are_refused_with_what_differs(runs: Path, tmp_path: Path) -> None:
    other = play("claimcheck-multihop", "nli", tmp_path / "v2", reward="v2")
    with pytest.raises(ConfigError, match=r"config\.reward is 'judged' and 'v2'"):
        compare_runs(read_run(runs / "nli"), read_run(other))
    with pytest.raises(
        ConfigError, match=r"env is 'claimcheck-multihop' and 'corver-qa'; fingerprints\.tasks is '\w{8}…' and"
    ):
        compare_runs(read_run(runs / "nli"), read_run(play("corver-qa", "student", tmp_path / "c")))
    (tmp_path / "v2" / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="has no manifest"):
        compare_runs(read_run(runs / "nli"), read_run(other))


def test_a_gate_needs_every_interval_to_begin_high_enough(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, agents in (("base", ("nli", "nli")), ("new", ("oracle", "nli"))):
        for split, agent in zip(("multihop", "hard"), agents, strict=True):
            shutil.copytree(runs / agent, tmp_path / side / split)
    gate = tmp_path / "gate.toml"
    gate.write_text("[multihop]\nreward = 0.0\n[hard]\nreward = -0.01\nquote = 0\n")
    out = tmp_path / "differences.json"
    text = command(capsys, "compare", tmp_path / "base", tmp_path / "new", "--gate", gate, "--json", out)
    assert text.count("holds  [") == 3 and "FAILS" not in text
    assert json.loads(out.read_text())["gate"] is True
    gate.write_text("[multihop]\nreward = 0.0\n[hard]\nreward = 0.01\n")
    assert (
        app(["compare", *map(str, (tmp_path / "base", tmp_path / "new", "--gate", gate))], standalone_mode=False) == 1
    )
    assert "FAILS  [hard] reward: at least +0.01" in capsys.readouterr().out
    for text, message in (("reward = 0.1", "write a section"), ("[a]\nreward = 'x'", "a number"), ("", "no condition")):
        gate.write_text(text)
        with pytest.raises(DataError, match=message):
            command(capsys, "compare", tmp_path / "base", tmp_path / "new", "--gate", gate)


@pytest.mark.parametrize(
    ("env_id", "agent"),
    [
        ("claimcheck-multihop", "nli"),
        ("seva", "oracle"),
        ("corver-qa-search", "searcher"),
        ("eve-solver", "extractive"),
    ],
)
def test_a_rescored_run_has_the_rewards_of_the_run(env_id: str, agent: str, tmp_path: Path) -> None:
    run = read_run(play(env_id, agent, tmp_path / "run", k=2))
    name, config = stored_config(run.manifest)
    env = make(name, **config)
    outputs, faults = run_outputs(run, env)
    agent_again, jobs = replay_agent(agent, outputs, 0, {})
    replayed = collect(env, agent_again, tmp_path / "again", jobs=jobs)
    assert faults == 0 and totals(tmp_path / "again") == totals(tmp_path / "run")
    stops = [[row["stop"] for row in part.episodes()] for part in (run, replayed)]
    assert sorted(stops[0]) == sorted(stops[1])


def test_rescoring_equals_playing_under_the_other_reward(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A scripted agent plays the same under any reward, so the run that it plays under v2 is the reference.
    text = command(capsys, "rescore", runs / "nli", "--reward", "v2", "--out", tmp_path / "rescored")
    assert "played under another prompt" in text
    play("claimcheck-multihop", "nli", tmp_path / "played", reward="v2")
    assert totals(tmp_path / "rescored") == totals(tmp_path / "played")
    compare_runs(read_run(tmp_path / "rescored"), read_run(tmp_path / "played"))


def test_outputs_of_a_file_are_scored(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"task": row["task"], "messages": row["messages"]} for row in read_run(runs / "nli").episodes()]
    file = tmp_path / "outputs.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, {"task": 0, "output": "no call"}])))
    command(capsys, "score", "claimcheck-multihop", file, "--out", tmp_path / "scored")
    scored = totals(tmp_path / "scored")
    assert {key: scored[key] for key in totals(runs / "nli")} == totals(runs / "nli")
    assert len(scored) == SIZE + 1
    for line, message in (
        ("{", "no JSON"),
        ('{"task": 0}', "an output is"),
        ('{"task": "T", "output": "x"}', "has no task 'T'"),
        ('{"task": 1000000, "output": "x"}', "has no task '1000000'"),
        ('{"task": -1, "output": "x"}', "has no task '-1'"),
        ('{"task": 0, "messages": ["x"]}', "a list of chat messages"),
    ):
        file.write_text(f"\n{line}\n")
        with pytest.raises(DataError, match=f"outputs.jsonl line 2: .*{message}"):
            command(capsys, "score", "claimcheck-multihop", file, "--out", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_other_tasks_are_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="was played on other tasks"):
        command(capsys, "rescore", runs / "nli", "--set", "seed=5", "--out", tmp_path / "rescored")
