"""A run of verl's: its page, commands and configurations, and one step of its own trainer on Ray, up to the advantages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs factgym[verl]")

import pyarrow.parquet as pq
from guide_pages import ROOT, run_page
from omegaconf import OmegaConf
from tiny_tokens import own_split
from tiny_verl import composed, oracle, tokenizer, written
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class
from verl.utils.import_utils import load_extern_object

from factgym.core.env import Env
from factgym.core.errors import ConfigError, install_command
from factgym.integrations.session import Session, self_contained
from factgym.integrations.verl import compute_score, config_text, table, write_rows
from factgym.integrations.verl.loop import FactAgentLoop
from factgym.rewards.advantages import group_advantages
from factgym.training.recipes.engines import write_engine
from factgym.training.recipes.recipe import recipe_of
from factgym.training.recipes.task_sets import TaskSets

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

HERE = Path(__file__).resolve().parent


def scripts(env_id: str, tasks: int) -> dict[str, list[list[str]]]:
    """For each task the oracle, one who submits at once, and one who has nothing to say."""
    scripts_of = {}
    for task in range(tasks):
        texts = [written(message) for message in oracle(env_id, task)]
        scripts_of[Session(env_id).start(task)[-1]["content"]] = [texts, texts[-1:], ["I cannot say.<|im_end|>"]]
    return scripts_of


RUNS: dict[str, dict[str, Any]] = {
    "dense": {"env": "claimcheck-multihop", "credit": "grpo", "tasks": 2, "samples": 3},
    "contexts": {"env": "profact", "credit": "hrpo", "tasks": 2, "samples": 3, "hops": [2, 2]},
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("verl")
    runs = {name: {**run, "scripts": scripts(run["env"], run["tasks"])} for name, run in RUNS.items()}
    (folder / "runs.json").write_text(json.dumps(runs), "utf-8")
    path = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, str(HERE / "verl_rollouts.py"), str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "results.json").read_text("utf-8"))


def sessions(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows of each rollout, in their order: verl names them UID_SESSION_PLACE."""
    parts: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["key"]):
        uid, session, _ = row["key"].rsplit("_", 2)
        parts[uid, session].append(row)
    return parts


@pytest.mark.parametrize("name", RUNS)
def test_every_rollout_reaches_the_trainer_with_its_reward(name: str, output: dict[str, Any]) -> None:
    run, rows = RUNS[name], output[name]["rows"]
    played = sessions(rows)
    assert len(played) == run["tasks"] * run["samples"]
    isolated = type(Session(run["env"]).env).policy_prompt is not Env.policy_prompt
    assert isolated == (len(rows) > len(played))
    for parts in played.values():
        report = parts[-1]["extra_fields"]["factgym"]["report"]
        for row in parts:
            assert sum(row["rm_scores"]) == pytest.approx(report["total"], abs=1e-5)
            assert len(row["rm_scores"]) == len(row["responses"]) == len(row["response_mask"])
    rewards = {parts[-1]["extra_fields"]["factgym"]["report"]["total"] for parts in played.values()}
    assert len(rewards) > 1


@pytest.mark.parametrize("name", RUNS)
def test_the_advantages_are_those_of_the_form(name: str, output: dict[str, Any]) -> None:
    """A + λ (c − mean c), where both groups come from the whole batch for HRPO and from the prompt's rollouts else."""
    played = sessions(output[name]["rows"])
    groups: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for (uid, _), parts in played.items():
        groups["all" if RUNS[name]["credit"] == "hrpo" else uid].append(parts)
    for members in groups.values():
        rewards = [parts[-1]["extra_fields"]["factgym"]["report"]["total"] for parts in members]
        values, advantages_of = [], []
        for parts in members:
            masks = [np.array(row["response_mask"], dtype=bool) for row in parts]
            scaled = [np.array(row["rm_scores"])[m] * 1024 for row, m in zip(parts, masks, strict=True)]
            values.append(np.concatenate(scaled))
            parts_advantages = [np.array(row["advantages"])[m] for row, m in zip(parts, masks, strict=True)]
            assert not any(np.array(row["advantages"])[~m].any() for row, m in zip(parts, masks, strict=True))
            advantages_of.append(np.concatenate(parts_advantages))
        mean = np.mean([credit_values.mean() for credit_values in values])
        for base, credit, advantages in zip(group_advantages(rewards), values, advantages_of, strict=True):
            assert advantages == pytest.approx(base + credit - mean, abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_a_validation_reports_every_metric(name: str, output: dict[str, Any]) -> None:
    env_id = RUNS[name]["env"]
    session = Session(env_id)
    session.start(0)
    session.close()
    names = {key.split("/")[2] for key in output[name]["validation"] if key.startswith("val-")}
    assert {"reward", *session.report.components, "turns", "error_turns", "truncated"} <= names


def test_the_page_runs(tmp_path: Path) -> None:
    outputs = [
        done.stdout
        for _, done in run_page(
            "verl", tmp_path, {"--limit 2000": "--limit 4", "--limit 200 ": "--limit 6 ", "--limit 100": "--limit 2"}
        )
    ]
    assert "4 rows of claimcheck-multihop" in outputs[0]
    composed_text = (tmp_path / "whole.yaml").read_text("utf-8")
    assert "adv_estimator: grpo" in composed_text and "max_tool_response_length: 1000000" in composed_text
    assert float(outputs[4]) <= 1.0
    assert "factgym_stepwise" in (tmp_path / "corver-qa.yaml").read_text("utf-8")
    hops = pq.read_table(tmp_path / "eve-train.parquet").column("hops").to_pylist()
    env = Session("eve-solver", split="train").env
    assert hops == [env.view_task(env.tasks[n])["hops"] for n in range(len(hops))]


@pytest.mark.parametrize("env_id", self_contained())
def test_a_configuration_is_one_of_verls(env_id: str) -> None:
    """Composed by Hydra over verl's own, and read by verl's checks."""
    config = composed(config_text(env_id, own_split(env_id)))
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    total = config.data.max_prompt_length + config.data.max_response_length
    assert (rollout.max_model_len, rollout.prompt_length) == (total, config.data.max_prompt_length)
    assert rollout.multi_turn.max_tool_response_length == 1_000_000
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == total
    assert get_dataset_class(config.data).__name__ == "FactDataset"
    assert load_extern_object(**_reward(config)) is compute_score
    session = Session(env_id)
    words = sum(len(message["content"]) for message in session.start(0)) + len(json.dumps(session.all_tools()))
    assert config.data.max_prompt_length >= words / 3
    assert config.algorithm.adv_estimator == ("factgym_stepwise" if env_id.startswith("corver") else "grpo")


def _reward(config: Any) -> dict[str, str]:
    section = config.reward.custom_reward_function
    return {"module_path": section.path, "object_name": section.name}


def test_a_row_is_what_verls_dataset_reads(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    assert write_rows("claimcheck-multihop", file, limit=3, start=2, split="train", max_turns=5) == 3
    config = composed(config_text("claimcheck-multihop"), ("data.max_prompt_length=100000",))
    dataset = get_dataset_class(config.data)(data_files=str(file), tokenizer=tokenizer(), config=config.data)
    batch = collate_fn([dataset[n] for n in range(3)])
    assert len(dataset) == 3
    session = Session("claimcheck-multihop", split="train", max_turns=5)
    for n, (info, prompt) in enumerate(zip(batch["extra_info"], batch["raw_prompt"], strict=True)):
        assert info["index"] == 2 + n
        assert session.start(info["task"]) == prompt
        assert json.loads(info["settings"]) == {"max_turns": 5, "split": "train"}
    assert set(batch["agent_name"]) == {"factgym"} and set(batch["data_source"]) == {"claimcheck-multihop"}
    config.data.max_prompt_length = max(
        len(tokenizer().apply_chat_template(messages, tokenize=True, add_generation_prompt=True)["input_ids"])
        for messages in batch["raw_prompt"]
    )  # enough without the tools, which count
    assert len(get_dataset_class(config.data)(data_files=str(file), tokenizer=tokenizer(), config=config.data)) == 0


def test_an_answer_in_one_text_has_the_environments_score() -> None:
    for env_id in ("corver-qa", "seva"):
        row = table(env_id, limit=1, **own_split(env_id)).to_pylist()[0]
        session = Session(env_id)
        session.start(0)
        (message,) = oracle(env_id, 0)
        text = message["content"] or message["tool_calls"][0]["function"]["arguments"]
        session.step(text)
        scores = compute_score(row["data_source"], text, "", row["extra_info"])
        assert scores.pop("score") == session.reward > 0.5
        assert scores == session.metrics()


def test_settings_that_a_row_cannot_carry_are_refused() -> None:
    with pytest.raises(ConfigError, match="no plain value 'hopes'"):
        table("claimcheck-multihop", limit=1, columns=["hopes"])
    with pytest.raises(ConfigError, match="must be JSON"):
        table("claimcheck-multihop", limit=1, reward=SimpleNamespace())
    with pytest.raises(ConfigError, match="no tasks"):
        write_rows("claimcheck-multihop", "nowhere.parquet", limit=0)
    with pytest.raises(ConfigError, match="Did you mean 'stepwise'"):
        config_text("seva", credit="stepwize")


def test_an_unknown_setting_is_one_line_of_the_command() -> None:
    command = [sys.executable, "-m", "factgym.integrations.verl", "config", "seva", "--set", "splat=train"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "splat" in done.stderr and "Did you mean" in done.stderr and "Traceback" not in done.stderr


def test_the_agent_loop_is_registered() -> None:
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

    assert _agent_loop_registry["factgym"] == {"_target_": f"{FactAgentLoop.__module__}.FactAgentLoop"}


def test_a_missing_framework_is_named_with_its_extra() -> None:
    code = (
        "import sys; from importlib import metadata\n"
        "real = metadata.version\n"
        "def version(name):\n"
        "    if name == 'verl': raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.version = version\n"
        "from factgym.core.errors import MissingExtraError\n"
        "import factgym.integrations.verl as integration\n"
        "try:\n    integration.FactAgentLoop\n"
        "except MissingExtraError as error:\n    sys.stdout.write(str(error))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"The verl integration needs the extra 'verl': {install_command('verl')}"


RECIPE = {
    "model": "hf:Qwen/Qwen3-0.6B",
    "env": "eve-solver",
    "seed": 3,
    "lora": {"rank": 8},
    "evaluation": {"every": 5, "tasks": 4, "samples": 2},
    "stages": [
        {"kind": "grpo", "tasks": 6, "groups": 2, "samples": 4, "steps": 9, "credit": "hrpo", "credit_weight": 0.25,
         "learning_rate": 3e-5, "beta": 0.01, "max_completion": 700, "schedule": "cosine"},
    ],
}  # fmt: skip


def test_a_recipe_becomes_a_run_of_verls(tmp_path: Path) -> None:
    """The script is started with Hydra's `--cfg job`, and verl's own checks and its data set read the result."""
    recipe = recipe_of(RECIPE)
    write_engine("verl", recipe, tmp_path / "run")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    words = ["bash", str(tmp_path / "run" / "run.sh"), "--cfg", "job"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    config = OmegaConf.create(done.stdout)
    assert config.actor_rollout_ref.model.lora_rank == 8
    config.actor_rollout_ref.model.lora_rank = 0  # verl's check of adapters imports vLLM
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.data.train_batch_size, rollout.n, config.trainer.total_training_steps) == (2, 4, 9)
    assert (actor.optim.lr, actor.optim.lr_scheduler_type, actor.use_kl_loss) == (3e-5, "cosine", True)
    assert (config.data.max_response_length, actor.kl_loss_coef, config.data.seed) == (700, 0.01, 3)
    assert (config.algorithm.adv_estimator, config.data.factgym.dense_weight) == ("factgym_hrpo", 0.25)
    assert config.actor_rollout_ref.model.path == "Qwen/Qwen3-0.6B"
    config.data.max_prompt_length = 100_000
    tasks = TaskSets(recipe)
    splits = {"train": (config.data.train_files, 6), "validation": (config.data.val_files, 4)}
    for split, (file, count) in splits.items():
        file = str(tmp_path / "run" / file)
        dataset = get_dataset_class(config.data)(data_files=file, tokenizer=tokenizer(), config=config.data)
        infos = [dataset[n]["extra_info"] for n in range(len(dataset))]
        assert len(infos) == count
        assert {json.loads(info["settings"])["split"] for info in infos} == {split}
        if split == "train":
            assert [info["index"] for info in infos] == tasks.trained(6)
