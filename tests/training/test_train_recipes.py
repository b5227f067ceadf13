"""Recipes of `factgym train`: reading, writing, refusals; without the extra."""

from __future__ import annotations

import math
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from commands import run_factgym
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.core.errors import ConfigError, DataError
from factgym.core.registry import spec
from factgym.training.recipes.recipe import (
    GrpoStage,
    Recipe,
    SftStage,
    read_recipe,
    recipe_of,
    recipe_toml,
    with_changes,
)
from factgym.training.recipes.run import read_metrics, reward_weighted
from factgym.training.recipes.scratch import parse_size, shape_of
from factgym.training.recipes.task_sets import TaskSets

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
SMALL: dict[str, Any] = {"model": "scratch:50k", "env": "corver-qa", "stages": [{"kind": "sft"}, {"kind": "grpo"}]}


def refusal(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        recipe_of(values)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_of_the_repository_are_valid_and_train_on_no_evaluation_task(path: Path) -> None:
    recipe = recipe_of(read_recipe(path))
    assert recipe_of(tomllib.loads(recipe_toml(recipe))) == recipe
    entry = spec(recipe.env)
    config = entry.load().Config.build(recipe.env, {**entry.kwargs, **recipe.env_config})
    if config.source in ("averitec", "nq-open"):  # data of the user's
        assert "train" in config.splits and config.split is None
    else:
        assert TaskSets(recipe).env.config.chosen_split == "train"


def published(name: str) -> Recipe:
    return recipe_of(read_recipe(ROOT / "recipes" / f"{name}.toml"))


def test_recipes_have_the_papers_numbers() -> None:
    """The steps that follow from epochs, batches and shares of the papers' tables, computed here."""
    sft, grpo = published("seva").stages
    assert isinstance(sft, SftStage) and isinstance(grpo, GrpoStage)
    assert sft.tasks is not None and sft.steps == math.ceil(sft.tasks * 3 / sft.batch)
    assert sft.warmup_steps == round(0.05 * sft.steps)
    assert (grpo.groups * grpo.samples, grpo.temperature, grpo.beta) == (64 * 8, 1.2, 0.001)
    (corver,) = published("corver").stages
    assert isinstance(corver, GrpoStage)
    assert (corver.groups * corver.samples, corver.credit) == (384, "stepwise")
    assert corver.warmup_steps == round(0.03 * corver.steps)
    (profact,) = published("profact").stages
    assert isinstance(profact, GrpoStage) and profact.groups * profact.samples == 32
    (eve,) = published("eve").stages
    assert eve.warmup_steps == math.ceil(0.03 * eve.steps)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
"""Of texts those that a configuration takes."""
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(TEXT, st.one_of(VALUES, st.lists(VALUES), st.dictionaries(TEXT, VALUES))))
def test_a_recipe_is_read_back_as_it_was_written(config: dict[str, Any]) -> None:
    """Python's own TOML reader is the judge."""
    recipe = recipe_of({**SMALL, "env_config": config, "lora": {"rank": 4}})
    assert tomllib.loads(recipe_toml(recipe))["env_config"] == config
    assert recipe_of(tomllib.loads(recipe_toml(recipe))) == recipe


def test_unknown_keys_are_refused_with_their_table_and_the_nearest_key() -> None:
    assert "the recipe: there is no setting 'modle'. Did you mean 'model'?" in refusal({**SMALL, "modle": "x"})
    stages = [{"kind": "sft"}, {"kind": "grpo", "learning_rat": 1.0}]
    assert "stage 1 (grpo): there is no setting 'learning_rat'. Did you mean 'learning_rate'?" in refusal(
        {**SMALL, "stages": stages}
    )
    assert "[evaluation]: there is no setting 'evry'" in refusal({**SMALL, "evaluation": {"evry": 1}})
    assert "[lora]: rank should be" in refusal({**SMALL, "lora": {"rank": 0}})
    assert "stage 0: kind is one of sft, grpo, dpo, rwr" in refusal({**SMALL, "stages": [{"kind": "gprо"}]})
    assert "write [[stages]]" in refusal({**SMALL, "stages": {"kind": "sft"}})
    assert "stages" in refusal({"model": "x", "env": "corver-qa"})


def test_the_recipe_of_the_guide_is_valid() -> None:
    text = (ROOT / "docs" / "guides" / "training.md").read_text("utf-8")
    values = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])
    assert [stage.kind for stage in recipe_of(values).stages] == ["sft", "grpo"]


def test_lines_are_drawn_in_proportion_to_the_exponential_of_their_reward() -> None:
    lines = [{"reward": reward} for reward in (0.0, 1.0, 2.0)]
    drawn = Counter(line["reward"] for line in reward_weighted(lines, 30_000, 0.7, seed=1))
    weights = [math.exp(line["reward"] / 0.7) for line in lines]
    for line, weight in zip(lines, weights, strict=True):
        assert drawn[line["reward"]] / 30_000 == pytest.approx(weight / sum(weights), abs=0.01)
    assert reward_weighted([{"reward": -1e6}, {"reward": 1e6}], 2, 1e-3, seed=0) == [{"reward": 1e6}] * 2


def test_keys_are_changed_by_dotted_names() -> None:
    changed = recipe_of(
        with_changes(SMALL, {"stages.0.steps": 3, "stages.1.credit": "stepwise", "env_config.size": 9, "lora.rank": 2})
    )
    assert (changed.stages[0].steps, changed.env_config, changed.lora and changed.lora.rank) == (3, {"size": 9}, 2)
    table = recipe_of(with_changes(SMALL, {"stages.0.trl": "{ bf16 = true }", "stages.1.trl.beta": 0.1}))  # TOML's form
    assert [stage.trl for stage in table.stages] == [{"bf16": True}, {"beta": 0.1}]
    with pytest.raises(ConfigError, match="no '2'; the recipe's stages are 0 to 1"):
        with_changes(SMALL, {"stages.2.steps": 1})
    with pytest.raises(ConfigError, match="is no table"):
        with_changes(SMALL, {"model.size": 1})


def test_a_file_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("model = \nenv = 1")
    with pytest.raises(DataError, match=r"broken.toml is no valid TOML.*line 1"):
        read_recipe(tmp_path / "broken.toml")
    with pytest.raises(DataError, match="No such file"):
        read_recipe(tmp_path / "absent.toml")
    (tmp_path / "endless.toml").write_text("A. " * 40_000, "utf-8")  # the parser takes the square of it
    with pytest.raises(DataError, match="at most 100,000"):
        read_recipe(tmp_path / "endless.toml")


def tasks_of(**values: Any) -> TaskSets:
    return TaskSets(recipe_of({**SMALL, **values}))


def test_training_takes_the_train_split_and_refuses_evaluation_tasks(tmp_path: Path) -> None:
    sets = tasks_of(env_config={"size": 20})
    assert sets.env.config.chosen_split == "train"
    assert sorted(sets.order) == list(range(20))
    trained = {str(sets.env.tasks[index].id) for index in sets.trained(5)}
    assert {task.id for task in sets.subset(5).tasks} == trained
    assert sets.trained(None, 5) == sets.order[5:] and sets.trained(2, 5) == sets.order[5:7]
    with pytest.raises(ConfigError, match="skip_tasks=20 leaves none of 20 tasks"):
        tasks_of(env_config={"size": 20}, stages=[{"kind": "grpo", "skip_tasks": 20}])
    for split in ("validation", "test"):
        held_out = sets.held_out(split)
        assert held_out is not None
        assert held_out.config.chosen_split == split
        with pytest.raises(ConfigError, match=f"split '{split}'"):
            tasks_of(env_config={"split": split})
    assert sets.held_out("train") is None
    allowed = tasks_of(env_config={"split": "test"}, allow_evaluation_split=True)
    assert allowed.env.config.chosen_split == "test"
    assert allowed.held_out("test") is None
    with pytest.raises(ConfigError, match="evaluation tasks"):
        tasks_of(env="claimcheck-ood")
    assert tasks_of(env="toy").held_out("test") is None

    foreign = factgym.make("corver-qa", split="validation").tasks[3].id
    (tmp_path / "tasks.txt").write_text(f"{sorted(trained)[0]}\n{foreign}\n")
    with pytest.raises(ConfigError, match=r"of split 'validation': training refuses"):
        tasks_of(tasks_file=str(tmp_path / "tasks.txt"))
    (tmp_path / "tasks.txt").write_text("\n".join(trained))
    assert len(tasks_of(tasks_file=str(tmp_path / "tasks.txt")).order) == 5


def test_sizes_of_models_from_nothing() -> None:
    assert [parse_size(text) for text in ("1m", "350K", "2.5M")] == [1_000_000, 350_000, 2_500_000]
    for text in ("", "1", "1b", "1k", "900m", "m", "1m "):
        with pytest.raises(ConfigError, match="from 10k to 500m"):
            parse_size(text)
    assert [shape_of(n) for n in (50_000, 1_000_000, 100_000_000)] == [(2, 512), (3, 2048), (12, 8192)]


def test_a_torn_last_line_of_the_metrics_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"stage":0,"step":1}\n{"stage":0,"st')
    assert list(read_metrics(tmp_path)) == [{"stage": 0, "step": 1}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["corver-qa"], "needs --model"),
        (["absent.toml"], "cannot be read"),
        (["corver-qa", "--model", "scratch:1m", "--stages", "sftt"], "Did you mean 'sft'?"),
        (["corver-qa", "--model", "scratch:1m", "--set", "stages.0.stepz=3"], "Did you mean 'steps'?"),
        (["corver-qa", "--model", "scratch:1m", "--set", "trl={bf16=true}"], "or as stages.0.trl"),
        (["corver-qa", "--model", "scratch:1m", "--set", "stages.0.trl={bf16:1}"], "--set stages.0.trl.NAME=VALUE"),
        (["corver-qa", "--model", "scratch:1m", "--set", "stages.0.warmup_steps=400"], "lower it, or leave it out"),
        (["corver-qa", "--model", "m", "--engine", "verl", "--set", "train_layers=2"], "takes no train_layers"),
        (
            ["corver-qa", "--model", "m", "--engine", "verl", "--set", "stages.1.keep=best"],
            "leave the stage's `keep` out",
        ),
        (["corver-qa", "--model", "scratch:1m", "--engine", "prime-rl"], "needs weights"),
        (["corver-qa", "--model", "m", "--engine", "verl", "--stages", "sft"], "one grpo stage, and the recipe has 0"),
        (["corver-qa", "--model", "m", "--engine", "ver"], "Did you mean 'verl'?"),
        (
            [
                "corver-qa",
                "--model",
                "m",
                "--engine",
                "verl",
                "--set",
                "stages.1.filter=learning_zone",
                "--set",
                "stages.1.filter_data=runs/x",
            ],
            "plays no episodes before its run",
        ),
        (["corver-qa", "--model", "m", "--engine", "prime-rl", "--set", "stages.1.credit=stepwise"], "without credit"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: list[str], message: str, tmp_path: Path) -> None:
    done = command(tmp_path, *words)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_dry_run_prints_a_whole_recipe_and_writes_nothing(tmp_path: Path) -> None:
    done = command(tmp_path, "corver-qa", "--model", "scratch:1m", "--seed", "3", "--dry-run")
    assert done.returncode == 0, done.stderr
    recipe = recipe_of(tomllib.loads(done.stdout))
    assert isinstance(recipe, Recipe)
    assert (recipe.seed, [stage.kind for stage in recipe.stages]) == (3, ["sft", "grpo"])
    assert not list(tmp_path.iterdir())


def command(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_factgym(["train", *words], cwd)
