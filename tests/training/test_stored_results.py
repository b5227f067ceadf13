"""Results of several seeds as one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import factgym
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect
from factgym.core.errors import ConfigError
from factgym.training.recipes.recipe import recipe_of, recipe_toml
from factgym.training.recipes.results import main, stored_result

REWARDS = (0.2, 0.5, 0.3)


def finished_run(folder: Path, seed: int, reward: float, steps: int = 20) -> Path:
    """A run's folder as `factgym train` writes it, of two stages on the test split."""
    values: dict[str, Any] = {"model": "scratch:50k", "env": "toy", "seed": seed, "stages": [{"kind": "grpo"}]}
    values["stages"][0]["steps"] = steps
    folder.mkdir()
    (folder / "recipe.toml").write_text(recipe_toml(recipe_of(values)), "utf-8")
    (folder / "machine.json").write_text(json.dumps({"machine": "x86_64"}), "utf-8")
    score = {"tasks": 4, "episodes": 8, "reward": reward, "low": reward - 0.1, "high": reward + 0.1, "accuracy": None}
    score |= {"components": {"format": reward}, "recall": {}}
    difference = {"before": "start", "after": "0-grpo", "scores": {"reward": [reward, reward - 0.1, reward + 0.1]}}
    split = {"scores": {"start": score, "0-grpo": score}, "differences": [difference]}
    curve = [{"step": step, "reward": reward, "low": reward, "high": reward} for step in (0, 10, 10 + seed)]
    result = {"stages": [{"kind": "grpo", "steps": steps}], "splits": {"test": split}, "held_out": curve}
    (folder / "result.json").write_text(json.dumps(result), "utf-8")
    line = {"stage": 0, "step": 10, "total_step": 10, "reward": reward, "zero_signal": 0.5}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    return folder


def test_scores_are_means_over_seeds_with_students_interval(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(seed), seed, reward) for seed, reward in enumerate(REWARDS, 1)]
    out = tmp_path / "small.json"
    assert main([*map(str, runs), "--out", str(out), "--commit", "abc"]) == 0
    result = json.loads(out.read_text("utf-8"))
    assert (result["commit"], result["seeds"]) == ("abc", [1, 2, 3])
    mean, (low, high) = stats.tmean(REWARDS), stats.t.interval(0.95, 2, stats.tmean(REWARDS), stats.sem(REWARDS))
    test = result["splits"]["test"]
    score = test["scores"]["0-grpo"]
    assert [score["reward"], score["low"], score["high"]] == pytest.approx([mean, low, high], abs=1e-4)
    assert test["differences"][0]["scores"]["reward"] == pytest.approx([mean, low, high], abs=1e-4)
    assert score["by_seed"] == list(REWARDS)
    assert [row["step"] for row in result["held_out"]] == [0, 10]
    assert [run["steps"][0]["reward"] for run in result["runs"]] == list(REWARDS)


def test_a_seed_alone_keeps_its_interval_over_tasks(tmp_path: Path) -> None:
    result = stored_result([finished_run(tmp_path / "0", 0, 0.5)], "factgym train", "abc")
    score = result["splits"]["test"]["scores"]["start"]
    assert (score["low"], score["high"]) == (0.4, 0.6)


def test_two_recipes_are_compared_in_pairs_of_tasks_and_seeds(tmp_path: Path) -> None:
    runs: dict[str, list[Path]] = {"mini": [], "other": []}
    totals: dict[str, list[float]] = {"mini": [], "other": []}
    for name, agent in (("mini", "oracle"), ("other", "exploiter")):
        for seed in (0, 1):
            folder = finished_run(tmp_path / f"{name}-{seed}", seed, 0.5)
            evaluation = folder / "evaluations/test/0-grpo"
            run = collect(factgym.make("toy"), find_agent(agent, "toy"), evaluation, n=6, k=2, seed=seed)
            totals[name].append(stats.tmean([episode["reward"]["total"] for episode in run.episodes()]))
            (evaluation / "scores.json").write_text(json.dumps({"weights": {"answer": 1.0}}), "utf-8")
            runs[name].append(folder)
    out = tmp_path / "mini.json"
    arguments = ["--out", str(out), "--commit", "abc", "--against", "other", *map(str, runs["other"])]
    assert main([*map(str, runs["mini"]), *arguments]) == 0
    against = json.loads(out.read_text("utf-8"))["against"]["other"]["test"]
    expected = [new - old for new, old in zip(totals["mini"], totals["other"], strict=True)]
    assert against["by_seed"]["reward"] == pytest.approx(expected, abs=1e-4)
    assert against["scores"]["reward"][0] == pytest.approx(stats.tmean(expected), abs=1e-4)
    assert min(expected) > 0
    for folder in runs["other"]:
        (folder / "evaluations/test/0-grpo/scores.json").write_text('{"weights": {}}', "utf-8")
    others = {"other": runs["other"]}
    assert "reward" not in stored_result(runs["mini"], "", "", others=others)["against"]["other"]["test"]["scores"]
    with pytest.raises(ConfigError, match="compared in pairs"):
        stored_result(runs["mini"], "", "", others={"other": runs["other"][:1]})


def test_other_recipes_and_unfinished_runs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, other = finished_run(tmp_path / "0", 0, 0.1), finished_run(tmp_path / "1", 1, 0.1, steps=30)
    with pytest.raises(ConfigError, match="one recipe"):
        stored_result([first, other], "", "")
    with pytest.raises(ConfigError, match="of its own"):
        stored_result([first, first], "", "")
    monkeypatch.chdir(tmp_path)
    assert main([str(first), "--out", str(tmp_path / "out.json")]) == 2
    assert "--commit" in capsys.readouterr().err
    (first / "result.json").unlink()
    assert main([str(first), "--out", str(tmp_path / "out.json"), "--commit", "abc"]) == 2
    assert not (tmp_path / "out.json").exists()
