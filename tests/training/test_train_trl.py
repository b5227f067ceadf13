"""`factgym train` with TRL: real runs of a tiny model from nothing, their curves, and runs that are killed."""

from __future__ import annotations

import html
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs factgym[train]")
pytest.importorskip("peft", reason="needs factgym[train]")

import torch
from trl.chat_template_utils import get_training_chat_template
from typer.testing import CliRunner

import factgym
from factgym.agents.local.loading import LocalSettings, load
from factgym.agents.runs.read import read_run
from factgym.cli.main import app
from factgym.core.errors import ConfigError, DataError
from factgym.integrations.trl import episode_tokens
from factgym.rewards.advantages import group_advantages
from factgym.training.recipes.curves import result_tables, write_curves
from factgym.training.recipes.recipe import Recipe, recipe_of, recipe_toml
from factgym.training.recipes.run import read_metrics, train
from factgym.training.recipes.scratch import (
    count_weights,
    make_model,
    make_tokenizer,
    parse_size,
    render_chats,
    shape_of,
)
from factgym.training.recipes.stages import StageRun, _sft, load_model, metrics_of

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

SFT = {"kind": "sft", "tasks": 12, "steps": 4, "batch": 4, "learning_rate": 1e-2, "warmup_steps": 1, "save_every": 2}
GRPO = {
    "kind": "grpo", "tasks": 4, "steps": 3, "groups": 2, "samples": 4, "max_completion": 24, "save_every": 1,
    "learning_rate": 1e-3, "warmup_steps": 0, "device_batch": 4,
}  # fmt: skip
EVALUATION = {"every": 2, "tasks": 3, "test_tasks": 4, "train_tasks": 2, "max_tokens": 16, "episodes": 2}


def recipe(**values: Any) -> Recipe:
    defaults: dict[str, Any] = {"model": "scratch:50k", "env": "corver-qa", "evaluation": EVALUATION}
    return recipe_of({**defaults, "stages": [SFT, GRPO], **values})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run") / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return folder, train(recipe(), folder)


def json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def texts(env_id: str, count: int = 20) -> list[str]:
    env = factgym.make(env_id)
    prompts = []
    for index in range(count):
        env.reset(options={"task": index})
        prompts += [message["content"] or "" for message in env.policy_prompt()]
    return prompts


@pytest.mark.parametrize("size", ["50k", "350k", "1m", "5m"])
def test_a_model_from_nothing_has_the_size_that_was_asked_for(size: str) -> None:
    weights = parse_size(size)
    layers, vocabulary = shape_of(weights)
    tokenizer = make_tokenizer(iter(texts("corver-qa")), vocabulary)
    model = make_model(tokenizer, weights, seed=0)
    real = sum(parameter.numel() for parameter in model.parameters())
    assert real == count_weights(model.config.hidden_size, layers, len(tokenizer))
    assert abs(real / weights - 1) < 0.25  # widths are multiples of 32
    again = make_model(tokenizer, weights, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_a_tokenizer_from_nothing_loses_no_text_and_its_template_is_known_to_trl() -> None:
    tokenizer = make_tokenizer(iter(texts("corver-qa")), 512)
    for text in ("<think>a\n</think>\n\n<answer>b</answer>", "Zürich 漢字 — \t\u200b", "<tool_call>{}</tool_call>"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert "{% generation %}" in get_training_chat_template(tokenizer)
    assert tokenizer.convert_tokens_to_ids("</think>") not in tokenizer.all_special_ids


def test_lengths_include_the_schemas_of_tools() -> None:
    tokenizer = make_tokenizer(iter(texts("claimcheck-multihop")), 1024)
    env = factgym.make("claimcheck-multihop", split="train")
    env.reset(options={"task": 0})
    rendered = tokenizer.apply_chat_template(
        env.policy_prompt(), tools=list(env.all_tools()), add_generation_prompt=True, return_dict=False
    )
    schemas = len(tokenizer(json.dumps(list(env.all_tools())))["input_ids"])
    assert episode_tokens("claimcheck-multihop", tokenizer, tasks=1).prompt == len(rendered) > schemas


def test_a_run_has_curves_scores_in_pairs_and_a_model_that_plays(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, result = finished
    lines = list(read_metrics(folder))
    steps = [line for line in lines if "evaluation" not in line]
    assert [line["total_step"] for line in steps] == list(range(1, 8))
    sft, grpo = [line for line in steps if line["stage"] == 0], [line for line in steps if line["stage"] == 1]
    assert all(line["loss"] > 0 and "entropy" in line for line in sft)
    for line in grpo:
        assert {"reward", "reward_std", "zero_signal", "length", "entropy", "components", "turns"} <= line.keys()
        assert "format" in line["components"]
    held_out = [(line["total_step"], line["episodes"]) for line in lines if line.get("evaluation") == "validation"]
    assert held_out == [(0, 3), (2, 3), (4, 3), (6, 3), (7, 3)]
    names = ["start", "0-sft", "1-grpo"]
    for split, tasks in (("test", 4), ("train", 2)):
        assert list(result["splits"][split]["scores"]) == names
        last = result["splits"][split]["differences"][-1]
        assert (last["before"], last["after"]) == ("start", "1-grpo")
        rewards = []
        for name in names:
            played = json_lines(folder / "evaluations" / split / name / "episodes.jsonl")
            assert {episode["split"] for episode in played} == {split}
            assert len(played) == tasks
            rewards.append({episode["task"]: episode["reward"]["total"] for episode in played})
        expected = sum(rewards[-1][task] - rewards[0][task] for task in rewards[0]) / tasks
        assert last["scores"]["reward"][0] == pytest.approx(expected)
    loaded = load(str(folder / "stages" / "1-grpo" / "model"), LocalSettings(device="cpu"))
    before = load(str(folder / "start" / "model"), LocalSettings(device="cpu"))
    assert loaded.tokenizer.chat_template == before.tokenizer.chat_template
    pairs = zip(loaded.model.parameters(), before.model.parameters(), strict=True)
    assert all(not torch.equal(a, b) for a, b in pairs)


def test_only_the_teachers_words_are_trained_on_and_the_loss_falls(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, result = finished
    lines = json_lines(folder / "stages" / "0-sft" / "data.jsonl")
    assert len(lines) == result["stages"][0]["traces"] == 12
    split = factgym.make("corver-qa", split="train").tasks
    for line in lines:
        split.index_of(line["task"])
    options = recipe()
    model = str(folder / "start" / "model")
    data = folder / "stages" / "0-sft" / "data.jsonl"
    env = factgym.make("corver-qa", split="train")
    loaded = load_model(model)
    run = StageRun(options, options.stages[0], env, {}, [], folder.parent / "masks", model, data)
    trainer, _ = _sft(run, loaded)
    batch = trainer.data_collator([trainer.train_dataset[n] for n in range(3)])
    for line, ids, labels in zip(lines, batch["input_ids"], batch["labels"], strict=False):
        learned = loaded.tokenizer.decode(ids[labels != -100])
        assert "".join(learned.split()) == "".join(line["messages"][-1]["content"].split()) + "<|im_end|>"
    losses = [line["loss"] for line in read_metrics(folder) if line["stage"] == 0 and "loss" in line]
    assert losses[-1] < losses[0]


def test_a_model_is_tuned_on_the_prompts_that_it_plays_with(tmp_path: Path) -> None:
    """The schemas of tools have other fields each, which a table of rows fills with nulls."""
    env = factgym.make("claimcheck-mini", split="train")
    env.reset(options={"task": 0})
    prompt, tools = env.policy_prompt(), list(env.all_tools())
    line = {"messages": [*prompt, {"role": "assistant", "content": "Yes."}], "tools": tools}
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(line) + "\n", "utf-8")
    tokenizer = make_tokenizer(render_chats([line]), 1024)
    make_model(tokenizer, 50_000, seed=0).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    options = recipe(env="claimcheck-mini")
    run = StageRun(options, options.stages[0], env, {}, [], tmp_path, str(tmp_path / "model"), data)
    trainer, _ = _sft(run, load_model(run.model))
    played = tokenizer.apply_chat_template(prompt, tools=tools, add_generation_prompt=True, return_dict=False)
    assert list(trainer.train_dataset[0]["input_ids"])[: len(played)] == played


def test_the_page_and_the_viewer_take_a_training_run(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = finished
    page = write_curves(folder).read_text("ascii")
    for text in ("Before and after", "Held-out scores", "data:image/svg+xml", "Episodes", "scratch:50k"):
        assert text in page
    played = json_lines(next((folder / "evaluations" / "validation").iterdir()) / "episodes.jsonl")
    questions = [episode["task_view"]["question"] for episode in played]
    assert sum(question in html.unescape(page) for question in questions) == EVALUATION["episodes"]
    assert "http://" not in page.replace("http://www.w3.org", "")
    result = CliRunner().invoke(app, ["view", str(folder)])
    assert result.output.strip() == str(folder / "curves.html")
    assert 'href="checkpoints.html"' in (folder / "curves.html").read_text("ascii")
    checkpoints = (folder / "checkpoints.html").read_text("ascii")
    assert all(name in checkpoints for name in ("start", "0-sft-000002", "1-grpo-000003"))
    with pytest.raises(DataError, match="no training run"):
        write_curves(folder / "start")


def test_the_episodes_of_a_step_are_stored_with_the_advantages_of_their_groups(
    finished: tuple[Path, dict[str, Any]],
) -> None:
    """Advantages against `factgym.rewards.advantages`, mean rewards against the numbers that TRL logged."""
    folder, _ = finished
    steps = [line for line in read_metrics(folder) if line["stage"] == 1 and "evaluation" not in line]
    for line in steps:
        path = folder / "stages" / "1-grpo" / "episodes" / f"step-{line['step']:06}"
        run = read_run(path)
        episodes = list(run.episodes())
        assert run.manifest["agent_details"]["step"] == line["step"] and {e["split"] for e in episodes} == {"train"}
        totals = [episode["reward"]["total"] for episode in episodes]
        assert sum(totals) / len(totals) == pytest.approx(line["reward"], abs=1e-5)
        for task in {episode["task"] for episode in episodes}:
            group = [episode["reward"] for episode in episodes if episode["task"] == task]
            expected = group_advantages([report["total"] for report in group])
            assert [report["metrics"]["advantage"] for report in group] == pytest.approx(list(expected), abs=1e-3)
        assert "left out" not in CliRunner().invoke(app, ["view", str(path)]).output
        assert "advantage" in (path / "index.html").read_text("ascii")


def test_a_control_begins_with_the_same_model_and_trains_for_as_many_cpu_seconds(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    start = finished[0] / "start" / "model"
    first = {**SFT, "steps": 4}
    control = {**SFT, "steps": 5000, "control_of": 1, "schedule": "constant"}
    result = train(recipe(stages=[first, {**SFT, "steps": 6}, control, first], model=str(start)), tmp_path / "run")
    facts = result["stages"]
    assert facts[2]["steps"] < 5000 and "as many CPU seconds as stage 1 took" in facts[2]["stopped"]
    assert facts[2]["cpu_time"] == pytest.approx(facts[1]["cpu_time"], rel=0.5, abs=1.0)
    pairs = [(row["before"], row["after"]) for row in result["splits"]["test"]["differences"]]
    assert pairs == [
        *(("start", "0-sft"), ("0-sft", "1-sft"), ("0-sft", "2-sft"), ("1-sft", "3-sft")),
        *(("2-sft", "1-sft"), ("start", "3-sft")),
    ]
    title = "test: 1-sft against 2-sft, its control, as long from the same model"
    titles = [table.title for table in result_tables(result)]
    assert title in titles and "test: 3-sft against 1-sft" in titles and "test: 2-sft against 0-sft" not in titles
    for others in ([0], [None, 1], [None, 0, 1]):
        with pytest.raises(ConfigError, match=f"control_of={others[-1]} is no earlier stage"):
            recipe(stages=[{**SFT, "control_of": other} for other in others])


def test_a_finished_run_is_not_repeated_and_another_recipe_is_refused(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, result = finished
    before = (folder / "metrics.jsonl").read_bytes()
    assert train(recipe(), folder) == result
    assert (folder / "metrics.jsonl").read_bytes() == before
    with pytest.raises(ConfigError, match=r"another recipe \(they differ in seed\)"):
        train(recipe(seed=1), folder)


def write_toml(path: Path) -> Path:
    path.write_text(recipe_toml(recipe()), "utf-8")
    return path


@pytest.mark.parametrize("step", [3, 6])
def test_a_killed_run_continues_to_the_same_curve(
    step: int, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Killed in the tuning, and in GRPO: the metrics are those of the run that was not interrupted."""
    words = [
        sys.executable,
        "-m",
        "factgym",
        "train",
        str(write_toml(tmp_path / "r.toml")),
        "--out",
        str(tmp_path / "run"),
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while max((line["total_step"] for line in read_metrics(tmp_path / "run")), default=0) < step:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "run" / "result.json").exists()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def curve(folder: Path) -> list[tuple[Any, ...]]:
        lines = list(read_metrics(folder))
        return [
            (line["total_step"], line.get("evaluation", ""), line.get("reward"), line.get("loss")) for line in lines
        ]

    expected, continued = curve(finished[0]), curve(tmp_path / "run")
    assert [row[:2] for row in continued] == [row[:2] for row in expected]
    for ours, theirs in zip(continued, expected, strict=True):
        assert ours[2:] == pytest.approx(theirs[2:], abs=1e-3), ours


def test_a_stage_ends_when_groups_no_longer_differ(tmp_path: Path) -> None:
    """A budget of one token lets no completion earn anything: all groups are equal."""
    silent = {**GRPO, "max_completion": 1, "stop_patience": 2, "steps": 9}
    result = train(recipe(stages=[silent], evaluation={"every": 0, "test_tasks": 0}), tmp_path / "run")
    (stage,) = result["stages"]
    assert stage["steps"] == 2
    assert "step 2: for 2 steps at least 100%" in stage["stopped"]
    assert any("max_completion=1 bounds" in note for note in stage["warnings"])


def test_an_adapter_is_merged_into_the_model(tmp_path: Path) -> None:
    stages = [{**SFT, "steps": 2}, {**GRPO, "steps": 1, "credit": "stepwise"}]
    values = {"stages": stages, "lora": {"rank": 2}, "evaluation": {"every": 1, "tasks": 2, "test_tasks": 0}}
    result = train(recipe(**values), tmp_path / "run")
    assert [stage["steps"] for stage in result["stages"]] == [2, 1]
    loaded = load(str(tmp_path / "run" / "stages" / "1-grpo" / "model"), LocalSettings(device="cpu"))
    assert not any("lora" in name for name, _ in loaded.model.named_parameters())


def test_preferences_and_reward_weighted_episodes_train_a_model(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """DPO on the policy's own episodes (the pages of an untrained model differ in reward), then RWR on the same run."""
    sampled = {"tasks": 6, "samples": 6, "steps": 2, "batch": 2, "max_tokens": 24, "learning_rate": 1e-3}
    stages = [
        {**sampled, "kind": "dpo", "margin": 0.0},
        {**sampled, "kind": "rwr", "lines": 8, "data": str(tmp_path / "run" / "stages" / "0-dpo" / "episodes")},
    ]
    model = str(finished[0] / "stages" / "1-grpo" / "model")
    result = train(recipe(model=model, stages=stages, evaluation={"every": 0, "test_tasks": 0}), tmp_path / "run")
    assert [stage["kind"] for stage in result["stages"]] == ["dpo", "rwr"]
    pairs = json_lines(tmp_path / "run" / "stages" / "0-dpo" / "data.jsonl")
    assert result["stages"][0]["pairs"] == len(pairs) > 0
    assert all(pair["chosen_reward"] > pair["rejected_reward"] for pair in pairs)
    lines = list(read_metrics(tmp_path / "run"))
    assert {"loss", "preference_margin"} <= lines[0].keys()
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-3)  # before the first step both policies are equal
    assert len(json_lines(tmp_path / "run" / "stages" / "1-rwr" / "data.jsonl")) == 8


def test_a_stage_takes_the_tasks_that_the_model_fails(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Traces of those tasks alone, and pairs of those that a stored run failed; the second call plays nothing again."""
    chosen = {"filter": "failures", "filter_tasks": 8, "filter_samples": 2, "tasks": 5, "steps": 1, "batch": 2}
    stored = str(tmp_path / "run" / "stages" / "0-sft" / "filter")
    dpo = {"samples": 6, "max_tokens": 24, "margin": 0.0, "filter_data": stored}
    stages = [{"kind": "sft", **chosen}, {"kind": "dpo", **chosen, **dpo}]
    values = {"model": str(finished[0] / "stages" / "1-grpo" / "model"), "stages": stages}
    train(recipe(**values, evaluation={"every": 0, "test_tasks": 0, "max_tokens": 24}), tmp_path / "run")
    folder = tmp_path / "run" / "stages"
    episodes = json_lines(folder / "0-sft" / "filter" / "episodes.jsonl")
    labels = {e["task"]: set() for e in episodes}
    for e in episodes:
        labels[e["task"]].add(e["reward"]["metrics"]["label"])
    wrong = {task for task, seen in labels.items() if "good" not in seen}
    mined = json_lines(folder / "0-sft" / "failures.jsonl")
    assert {failure["task"] for failure in mined if "answer" in failure["reasons"]} == wrong
    tasks = (folder / "0-sft" / "tasks.txt").read_text("utf-8").split()
    assert tasks == [failure["task"] for failure in mined]
    assert {line["task"] for line in json_lines(folder / "0-sft" / "data.jsonl")} == set(tasks[:5])
    assert {line["task"] for line in json_lines(folder / "1-dpo" / "data.jsonl")} <= set(tasks[:5])


def test_models_that_cannot_be_trained_are_refused(tmp_path: Path, finished: tuple[Path, dict[str, Any]]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"no \.safetensors weights"):
        train(recipe(model=str(tmp_path / "empty")), tmp_path / "a")
    start = load(str(finished[0] / "start" / "model"), LocalSettings(device="cpu"))
    start.tokenizer.chat_template = None
    start.model.save_pretrained(tmp_path / "bare")
    start.tokenizer.save_pretrained(tmp_path / "bare")
    with pytest.raises(ConfigError, match="no chat template"):
        train(recipe(model=str(tmp_path / "bare")), tmp_path / "b")
    with pytest.raises(ConfigError, match=r"has no argument 'bta'.*Did you mean 'beta'"):
        train(recipe(stages=[{**GRPO, "trl": {"bta": 1}}], evaluation={"every": 0, "test_tasks": 0}), tmp_path / "c")
    with pytest.raises(ConfigError, match="device_batch=3 must divide the 8 rows"):
        train(recipe(stages=[{**GRPO, "device_batch": 3}], evaluation={"every": 0, "test_tasks": 0}), tmp_path / "d")


def test_a_full_disk_and_a_full_memory_are_one_line_and_lose_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of a file stands in for the disk: the optimiser's state is above it."""
    from factgym.training.recipes import stages

    values = recipe(stages=[SFT], evaluation={"every": 0, "test_tasks": 0})
    (tmp_path / "r.toml").write_text(recipe_toml(values), "utf-8")
    folder = tmp_path / "run"
    words = [sys.executable, "-m", "factgym", "train", str(tmp_path / "r.toml"), "--out", str(folder)]
    limit = 250_000
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2, done.stderr
    assert "complete checkpoints are intact" in done.stderr
    assert done.stderr.strip().count("\n") == 0

    def exhausted(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setitem(stages._TRAINERS, "sft", exhausted)
        with pytest.raises(stages.MemoryShortageError, match=r"lower device_batch.*max_length.*\[lora\]"):
            train(values, folder)
    assert train(values, folder)["stages"][0]["steps"] == SFT["steps"]


def test_traces_of_evaluation_tasks_are_refused(tmp_path: Path) -> None:
    task = factgym.make("corver-qa", split="test").tasks[0].id
    line = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "task": task}
    (tmp_path / "sft.jsonl").write_text(json.dumps(line) + "\n")
    stages = [{**SFT, "data": str(tmp_path / "sft.jsonl")}]
    with pytest.raises(ConfigError, match=r"a task of split 'test': training refuses"):
        train(recipe(stages=stages), tmp_path / "run")


def test_logs_become_metrics_by_our_names() -> None:
    logs = {
        "loss": 0.5, "reward": 1.0, "rewards/CorverQa/mean": 1.0, "rewards/judge/mean": 0.2, "rewards/judge/std": 0.1,
        "frac_reward_zero_std": 0.25, "completions/mean_length": 9.0, "clip_ratio/low_mean": 0.0, "kl": float("nan"),
        "factgym/turns": 1.0,
    }  # fmt: skip
    assert metrics_of(logs, "CorverQa") == {
        "loss": 0.5, "reward": 1.0, "zero_signal": 0.25, "length": 9.0, "turns": 1.0, "components": {"judge": 0.2},
    }  # fmt: skip
