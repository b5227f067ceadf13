"""Training with TRL: real sampling, limits, refusals, supervised tuning on exported traces, the page and the examples."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs factgym[trl]")

from datasets import Dataset, load_dataset
from guide_pages import ROOT, run_page
from tiny_tokens import own_split
from tiny_trl import ScriptedTrainer, Stepwise, arguments, factory, model, oracle, tokenizer, trained
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer
from trl.chat_template_utils import parse_response

import factgym.integrations.trl as integration
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.integrations.session import Session
from factgym.integrations.trl import (
    DenseCredit,
    column_weights,
    dataset,
    environment_factory,
    episode_tokens,
    reward_columns,
)

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def test_real_sampling_reaches_the_optimiser(tmp_path: Path) -> None:
    """A random model says noise: a closed book scores it, and another reward function tells the members apart."""

    class Trainer(DenseCredit, GRPOTrainer):
        credit = "stepwise"

    env_id = "corver-qa"

    def brevity(completions: Any, **options: Any) -> list[float]:
        return [-len(completion[-1]["content"]) / 100 for completion in completions]

    trainer = Trainer(
        model=model(),
        args=arguments(
            tmp_path,
            per_device_train_batch_size=4,
            num_generations=4,
            max_steps=2,
            max_completion_length=64,
            temperature=1.0,
            reward_weights=[1.0, *column_weights(env_id)],
        ),
        train_dataset=dataset(env_id, limit=4),
        processing_class=tokenizer(),
        environment_factory=environment_factory(env_id),
        reward_funcs=[brevity, *reward_columns(env_id)],
    )
    trainer.train()
    steps = [log for log in trainer.state.log_history if "reward" in log]
    assert len(steps) == 2
    for log in steps:
        assert -2.3 <= log["rewards/CorverQa/mean"] <= 3.1
        assert log["reward"] == pytest.approx(log["rewards/CorverQa/mean"] + log["rewards/brevity/mean"], abs=1e-4)
        assert log["grad_norm"] > 0
        assert math.isfinite(log["loss"])


def test_a_short_budget_ends_episodes_and_is_warned_of(tmp_path: Path) -> None:
    env_id = "claimcheck-multihop"
    needed = episode_tokens(env_id, tokenizer(), tasks=4)
    assert needed.prompt > 300
    assert needed.completion > 300
    short = 120
    with pytest.warns(UserWarning, match=f"set at least {2 * needed.completion}"):
        trainer = ScriptedTrainer(
            model=model(),
            args=arguments(tmp_path, max_completion_length=short),
            train_dataset=dataset(env_id, limit=1),
            processing_class=tokenizer(),
            environment_factory=environment_factory(env_id),
        )
    trainer.scripts = [oracle(env_id, 0)] * 2
    trainer.train()
    for env in trainer.environments:
        assert env.session.stop == "length_limit"
        assert env.session.reward == 0.0
        assert len(env.turns) == 1
        assert len(env.turns[0].ids) <= short


def test_a_cap_on_rounds_ends_episodes(tmp_path: Path) -> None:
    """The last message is played, and what answers it is not shown."""
    script = oracle("claimcheck-multihop", 0)
    trainer = trained(ScriptedTrainer, "claimcheck-multihop", [script, script], tmp_path, max_tool_calling_iterations=1)
    assert len(script) > 2
    for env in trainer.environments:
        assert (env.session.stop, len(env.turns)) == ("turn_limit", 2)
    assert trainer.state.log_history[0]["completions/clipped_ratio"] == 0.0


def test_one_trainer_may_train_on_several_environments_and_evaluate(tmp_path: Path) -> None:
    ids = ("corver-qa", "seva")
    rows = [{**row, "environment": env_id} for env_id in ids for row in dataset(env_id, limit=1, **own_split(env_id))]
    scripts = [oracle("corver-qa", 0), ["No.<|im_end|>"], oracle("seva", 0), ["No.<|im_end|>"]]
    trainer = Stepwise(
        model=model(),
        args=arguments(
            tmp_path,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=4,
            reward_weights=[0.0] * sum(len(column_weights(env_id)) for env_id in ids),
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
        environment_factory={env_id: factory(env_id) for env_id in ids},
        reward_funcs=[column for env_id in ids for column in reward_columns(env_id)],
    )
    trainer.scripts = scripts
    trainer.train()
    log = trainer.state.log_history[0]
    rewards = [env.session.reward for env in trainer.environments]
    assert rewards[0] > rewards[1]
    assert rewards[2] > rewards[3]
    assert log["rewards/CorverQa/mean"] == pytest.approx(sum(rewards[:2]) / 2)
    assert log["rewards/Seva/mean"] == pytest.approx(sum(rewards[2:]) / 2)
    assert [env.session.task for env in trainer.environments] == [row["task"] for row in rows for _ in range(2)]
    assert len(trainer._logs["extra"]["stop"]) == 4
    evaluation = trainer.evaluate(Dataset.from_list(rows))
    assert evaluation["eval_rewards/Seva/mean"] == log["rewards/Seva/mean"]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    env = factory("seva")()
    with pytest.raises(ConfigError, match="column 'task'"):
        env.reset(prompt=[])
    with pytest.raises(ConfigError, match="corver-qa-v2 was given to seva-v2"):
        env.reset(task=0, env="corver-qa-v2")
    assert "Claim to check" in env.reset(task=0)
    with pytest.warns(UserWarning, match="can only append"):
        environment_factory("profact")

    def tool(x: int) -> int:
        """Double.

        Args:
            x: What.
        """
        return 2 * x

    def build(**more: Any) -> None:
        options = {"environment_factory": factory("seva"), **more}
        ScriptedTrainer(
            model=model(),
            args=arguments(tmp_path),
            train_dataset=dataset("seva", limit=1),
            processing_class=tokenizer(),
            reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
            **options,
        )

    with pytest.raises(ConfigError, match="tools="):
        build(tools=[tool])
    with pytest.raises(ConfigError, match="environment_factory="):
        build(environment_factory=None)
    with pytest.raises(ConfigError, match="credit is one of"):
        type("Wrong", (DenseCredit, GRPOTrainer), {"credit": "ppo"})()


def test_other_versions_of_trl_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for installed in ("1.7.9", "2.0.0"):
        monkeypatch.setattr(metadata, "version", lambda name, installed=installed: installed)
        with pytest.raises(ConfigError, match=f"trl {installed} does not fit"):
            importlib.reload(integration)

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(MissingExtraError, match="needs the extra 'trl'"):
        importlib.reload(integration)


def test_rows_are_bound_to_tasks() -> None:
    rows = dataset("claimcheck-multihop", limit=3, split="train")
    assert rows.column_names == ["env", "index", "prompt", "task"]
    session = Session("claimcheck-multihop", split="train")
    for row in rows:
        assert row["prompt"] == session.start(row["task"])


def test_exported_traces_train_an_sft_trainer(tmp_path: Path) -> None:
    for words in (
        ["eval", "claimcheck-multihop", "--split", "train", "--agent", "teacher", "--episodes", "4", "--out", "run"],
        ["export", "run", "--to", "sft", "--out", "sft.jsonl"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "factgym", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text("utf-8").splitlines()]
    rows = load_dataset("json", data_files=str(tmp_path / "sft.jsonl"), split="train", cache_dir=str(tmp_path))
    tok = tokenizer()
    trainer = SFTTrainer(
        model=model(),
        args=SFTConfig(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=2,
            max_length=None,
            assistant_only_loss=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            learning_rate=1e-2,
        ),
        train_dataset=rows,
        processing_class=tok,
    )
    text = tok.decode(trainer.train_dataset[0]["input_ids"])
    for schema in lines[0]["tools"]:
        assert schema["function"]["description"] in text
    batch = trainer.data_collator([trainer.train_dataset[0]])
    trained_on = batch["labels"][0][batch["labels"][0] >= 0].tolist()
    learnt = tok.decode(trained_on)
    for message in lines[0]["messages"]:
        for call in message.get("tool_calls") or []:
            assert call["function"]["arguments"] in learnt
        if message["role"] == "tool":
            assert message["content"] not in learnt
    trainer.train()
    losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
    assert losses[1] < losses[0]


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_used_parts_of_trl_are_unchanged() -> None:
    """A failure here names the upstream change; `factgym.integrations.trl.trainer` rests on these private methods."""
    loop = ["prompts", "prompt_ids", "completion_ids", "completions", "logprobs", "images", "multimodal_fields"]
    assert parameters(GRPOTrainer._tool_call_loop) == loop
    assert parameters(GRPOTrainer._generate_single_turn)[:3] == ["prompt_ids", "images", "multimodal_fields"]
    assert set(parameters(GRPOTrainer._generate_single_turn)[3:]) <= {"num_generations", "has_tool_images"}
    assert parameters(GRPOTrainer._get_tool_suffix_ids) == ["tool_messages"]
    assert parameters(GRPOTrainer._calculate_rewards) == ["inputs", "prompts", "completions", "completion_ids_list"]
    assert parameters(GRPOTrainer._generate_and_score_completions) == ["inputs"]
    assert parameters(parse_response)[:3] == ["tokenizer", "ids", "prefix"]
    assert {"environment_factory", "tools", "reward_funcs"} <= set(parameters(GRPOTrainer.__init__))
    assert {"max_completion_length", "max_tool_calling_iterations", "reward_weights"} <= set(parameters(GRPOConfig))
    source = inspect.getsource(GRPOTrainer)
    returned = (
        "return tool_mask, completions, completion_ids, logprobs, tool_call_count, tool_failure_count, tool_images"
    )
    assert returned in source
    for name in ("_env_tools[name]", "_environment_pool[name]", "_batch_environments", "_standalone_tools"):
        assert f"self.{name}" in source
    assert "advantages.dim() == 1" in inspect.getsource(GRPOTrainer._compute_loss)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


SMALLER = {
    "max_steps=200": "max_steps=1",
    "max_steps=100": "max_steps=1",
    "per_device_train_batch_size=8": "per_device_train_batch_size=2",
    "num_generations=8": "num_generations=2",
    "max_completion_length=4096": "max_completion_length=96",
    "limit=100": "limit=2",
    "tasks=32": "tasks=4",
    "--episodes 20": "--episodes 2",
}


def test_the_page_runs(tiny: str, tmp_path: Path) -> None:
    outputs = [done.stdout for _, done in run_page("trl", tmp_path, {"Qwen/Qwen3-0.6B": tiny, **SMALLER})]
    assert outputs[0].splitlines()[-1].startswith("0."), outputs[0]
    reward, turns = outputs[1].splitlines()[-1].split()
    assert 0.0 <= float(reward) <= 1.0
    assert float(turns) >= 1
    prompt, completion = (int(word) for word in outputs[2].split())
    assert prompt > 300
    assert completion > 300


EXAMPLES = [
    *("claimcheck-multihop", "claimcheck-offline", "seva-repair", "profact"),
    *("corver-qa", "corver-qa-search", "eve-solver", "eve-proposer"),
]


@pytest.mark.parametrize("env", EXAMPLES)
def test_the_example_trains(env: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["--tasks", "2", "--steps", "1", "--group", "2", "--completion-tokens", "64", "--output", str(tmp_path)]
    monkeypatch.setattr(
        sys, "argv", ["train_with_trl.py", "--model", tiny, "--env", env, "--config", '{"max_turns": 4}', *small]
    )
    runpy.run_path(str(ROOT / "examples" / "train_with_trl.py"), run_name="__main__")
    assert (tmp_path / "model.safetensors").is_file()
