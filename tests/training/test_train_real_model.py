"""A pretrained model whose own chat template knows no tools learns to call them from 24 traces: minutes of a processor."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs factgym[train]")

from factgym.agents.runs.read import read_run
from factgym.core.errors import ConfigError
from factgym.training.recipes.budget import keep_memory
from factgym.training.recipes.recipe import recipe_of
from factgym.training.recipes.run import train
from perf import real_model

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

TASKS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason=f"needs gguf: {real_model.INSTALL}")
    try:
        return real_model.save_folder(tmp_path_factory.mktemp("model"), template=None)
    except ConfigError as missing:
        pytest.skip(str(missing))


def call_shares(run: Path) -> tuple[float, float]:
    """Shares of first turns, and of all turns, whose call the environment could read.

    An untuned model copies the call that the answer to a malformed turn shows, so that its later turns tell less.
    """
    episodes = [episode["turns"] for episode in read_run(run).episodes()]
    assert len(episodes) == TASKS
    good = [[bool(turn["calls"]) and turn["error"] is None for turn in turns] for turns in episodes]
    return sum(turns[0] for turns in good) / TASKS, sum(map(sum, good)) / sum(map(len, good))


def test_a_pretrained_model_learns_to_write_calls_from_24_traces(folder: Path, tmp_path: Path) -> None:
    tuning = {
        "kind": "sft", "tasks": 24, "steps": 12, "batch": 2, "learning_rate": 4e-4, "warmup_steps": 1, "device_batch": 2
    }  # fmt: skip
    evaluation = {"every": 0, "tasks": TASKS, "test_tasks": TASKS, "temperature": 0, "max_tokens": 300, "batch": TASKS}
    recipe = recipe_of(
        {
            "model": str(folder), "env": "claimcheck-mini", "env_config": {"prompt": "mini", "max_turns": 3},
            "engine": "small", "train_layers": 10, "stages": [tuning], "evaluation": evaluation,
        }
    )  # fmt: skip
    keep_memory()
    train(recipe, tmp_path / "run")
    before, after = (call_shares(tmp_path / "run/evaluations/test" / name) for name in ("start", "0-sft"))
    assert before[0] == 0 and after[0] >= 0.75 and after[1] >= 0.5, (before, after)
