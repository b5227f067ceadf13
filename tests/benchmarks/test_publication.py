"""`factgym report`: boards in pairs beside SciPy's interval, unlike manifests apart, certificates and training curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake_runs
import numpy as np
import pytest
from pages import HOSTILE, checked
from scipy import stats
from typer.testing import CliRunner

from factgym.cli.main import app
from factgym.core.errors import ConfigError
from factgym.training.publication import publish
from factgym.training.recipes.recipe import recipe_of, recipe_toml

ROOT = Path(__file__).resolve().parents[2]
RECIPE = {"model": "scratch:1m", "env": "corver-qa", "stages": [{"kind": "sft", "steps": 4}]}
N = 30


def training_run(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(recipe_toml(recipe_of(RECIPE)), "utf-8")
    scores = {"tasks": 4, "episodes": 4, "errors": 0, "low": None, "high": None, "components": {}, "weights": {}}
    lines: list[dict[str, Any]] = [{"stage": 0, "kind": "sft", "step": 1, "total_step": 1, "loss": 0.5}]
    for step, reward in ((0, -2.0), (4, -1.0)):
        about = {"stage": 0, "kind": "sft", "step": step, "total_step": step, "name": f"0-sft-{step:06}"}
        lines.append({**about, **scores, "evaluation": "validation", "reward": reward, "accuracy": None, "recall": {}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    held_out = [
        {"step": 0, "reward": -2.0, "low": -2.5, "high": -1.5},
        {"step": 4, "reward": -1.0, "low": -1.5, "high": -0.5},
    ]
    splits = {
        "test": {
            "scores": {name: {**scores, "reward": reward} for name, reward in (("start", -2.0), ("0-sft", -1.25))},
            "differences": [{"before": "start", "after": "0-sft", "scores": {"reward": [0.75, 0.5, 1.0]}}],
        }
    }
    result = {"stages": [{"kind": "sft", "steps": 4, "warnings": []}], "splits": splits, "held_out": held_out}
    (folder / "result.json").write_text(json.dumps(result), "utf-8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    folder = tmp_path_factory.mktemp("runs")
    episodes = {
        "good": [fake_runs.episode(i, skill=0.95) for i in range(N)],
        "deep/bad": [fake_runs.episode(i, skill=0.3) for i in range(N)],
    }
    for name, records in episodes.items():
        fake_runs.write_run(folder / name, records)
    other = fake_runs.manifest(N)
    fake_runs.write_run(folder / "other", episodes["good"], {**other, "config": {**other["config"], "reward": "r0"}})
    hostile = fake_runs.write_run(
        folder / "<b>&", [fake_runs.episode(1)], {**fake_runs.manifest(1), "caveats": [HOSTILE]}
    )
    (hostile / "manifest.json").rename(hostile / "moved.json")
    certificate = (ROOT / "docs/environments/certificates/claimcheck.json").read_text("utf-8")
    (folder / "audit.json").write_text(certificate, "utf-8")
    (folder / "broken.json").write_text("{", "utf-8")
    training_run(folder / "tuned")
    return folder, episodes


def test_a_folder_becomes_boards_certificates_and_curves(
    runs: tuple[Path, dict[str, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    folder, episodes = runs
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.output
    site = tmp_path / "site"
    pages = frozenset(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert len(pages) == 1 + 4 + 1 + 1, "index, a page for each run, the board of two, the curves"
    page = checked((site / "index.html").read_text("ascii"), pages)
    by_task = [
        {record["task"]: record["reward"]["total"] for record in records if record["reward"]}
        for records in episodes.values()
    ]
    good, bad = (np.array([rewards[task] for task in by_task[0] if task in by_task[1]]) for rewards in by_task)
    low, high = stats.t.interval(0.95, len(good) - 1, np.mean(bad - good), stats.sem(bad - good))
    row = f"{np.mean(bad - good):+.3f} [{low:.3f}, {high:.3f}]"
    assert row in page.text.replace("\u2212", "-")
    assert page.text.index(f"{np.mean(list(by_task[0].values())):.3f}") < page.text.index(
        f"{np.mean(list(by_task[1].values())):.3f}"
    )
    assert "Not on one board with the above:" in page.text and "config.reward is 'v2' and 'r0'" in page.text
    assert "Without a manifest, and so on no board: <b>&" in page.text
    assert "claimcheck v2" in page.text and "passed" in page.text
    assert "Training: scratch:1m on corver-qa" in page.text and "0.750 [0.500, 1.000]" in page.text
    for name in pages:
        assert "http://" not in (site / name).read_text("ascii").replace("http://www.w3.org", "")


def test_pages_of_an_earlier_call_are_no_runs_and_episodes_can_be_left_out(
    runs: tuple[Path, dict[str, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    folder, _ = runs
    publish(folder, tmp_path / "site", episodes=False)
    names = sorted(path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html"))
    assert names == ["index.html", "training/1-tuned.html"]
    (tmp_path / "empty").mkdir()
    for source, message in ((tmp_path / "empty", "holds no run"), (tmp_path / "absent", "is no folder")):
        with pytest.raises(ConfigError, match=message):
            publish(source, tmp_path / "out")
