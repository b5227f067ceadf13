"""The verl page, its commands and the configurations that they write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs factgym[verl]")

import pyarrow.parquet as pq
from guide_pages import ROOT, run_page
from tiny_verl import composed, oracle, tokenizer
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class
from verl.utils.import_utils import load_extern_object

from factgym.core.errors import ConfigError
from factgym.integrations.session import Session, self_contained
from factgym.integrations.verl import compute_score, config_text, table, write_rows
from factgym.integrations.verl.loop import FactAgentLoop

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def test_the_page_runs(tmp_path: Path) -> None:
    said = [
        done.stdout
        for _, done in run_page(
            "verl", tmp_path, {"--limit 2000": "--limit 4", "--limit 200 ": "--limit 6 ", "--limit 100": "--limit 2"}
        )
    ]
    assert "4 rows of claimcheck-multihop" in said[0]
    whole = (tmp_path / "whole.yaml").read_text("utf-8")
    assert "adv_estimator: grpo" in whole and "max_tool_response_length: 1000000" in whole
    assert float(said[4]) <= 1.0
    assert "factgym_stepwise" in (tmp_path / "corver-qa.yaml").read_text("utf-8")
    hops = pq.read_table(tmp_path / "eve-train.parquet").column("hops").to_pylist()
    env = Session("eve-solver").env
    assert hops == [env.view_task(env.tasks[n])["hops"] for n in range(len(hops))]


@pytest.mark.parametrize("env_id", self_contained())
def test_a_configuration_is_one_of_verls(env_id: str) -> None:
    """Composed by Hydra over verl's own, and read by verl's checks."""
    config = composed(config_text(env_id))
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    whole = config.data.max_prompt_length + config.data.max_response_length
    assert (rollout.max_model_len, rollout.prompt_length) == (whole, config.data.max_prompt_length)
    assert rollout.multi_turn.max_tool_response_length == 1_000_000
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == whole
    assert get_dataset_class(config.data).__name__ == "FactDataset"
    assert load_extern_object(**_reward(config)) is compute_score
    session = Session(env_id)
    words = sum(len(message["content"]) for message in session.start(0)) + len(json.dumps(session.all_tools()))
    assert config.data.max_prompt_length >= words / 3
    assert config.algorithm.adv_estimator == ("factgym_stepwise" if env_id.startswith("corver") else "grpo")


def _reward(config: Any) -> dict[str, str]:
    known = config.reward.custom_reward_function
    return {"module_path": known.path, "object_name": known.name}


def test_a_row_is_what_verls_dataset_reads(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    assert write_rows("claimcheck-multihop", file, limit=3, start=2, split="train", max_turns=5) == 3
    config = composed(config_text("claimcheck-multihop"), ("data.max_prompt_length=100000",))
    dataset = get_dataset_class(config.data)(data_files=str(file), tokenizer=tokenizer(), config=config.data)
    batch = collate_fn([dataset[n] for n in range(3)])
    assert len(dataset) == 3
    session = Session("claimcheck-multihop", split="train", max_turns=5)
    for n, (told, prompt) in enumerate(zip(batch["extra_info"], batch["raw_prompt"], strict=True)):
        assert told["index"] == 2 + n
        assert session.start(told["task"]) == prompt
        assert json.loads(told["settings"]) == {"max_turns": 5, "split": "train"}
    assert set(batch["agent_name"]) == {"factgym"} and set(batch["data_source"]) == {"claimcheck-multihop"}
    config.data.max_prompt_length = max(
        len(tokenizer().apply_chat_template(one, tokenize=True, add_generation_prompt=True)["input_ids"])
        for one in batch["raw_prompt"]
    )  # enough without the tools, which count
    assert len(get_dataset_class(config.data)(data_files=str(file), tokenizer=tokenizer(), config=config.data)) == 0


def test_an_answer_in_one_text_has_the_environments_score() -> None:
    for env_id in ("corver-qa", "seva"):
        row = table(env_id, limit=1).to_pylist()[0]
        session = Session(env_id)
        session.start(0)
        (said,) = oracle(env_id, 0)
        text = said["content"] or said["tool_calls"][0]["function"]["arguments"]
        session.say(text)
        found = compute_score(row["data_source"], text, "", row["extra_info"])
        assert found.pop("score") == session.reward > 0.5
        assert found == session.metrics()


def test_settings_that_a_row_cannot_carry_are_refused() -> None:
    with pytest.raises(ConfigError, match="no plain value 'hopes'"):
        table("claimcheck-multihop", limit=1, columns=["hopes"])
    with pytest.raises(ConfigError, match="must be JSON"):
        table("claimcheck-multihop", limit=1, reward=SimpleNamespace())
    with pytest.raises(ConfigError, match="no tasks"):
        write_rows("claimcheck-multihop", "nowhere.parquet", limit=0)
    with pytest.raises(ConfigError, match="Did you mean 'stepwise'"):
        config_text("seva", credit="stepwize")


def test_wrong_settings_are_said_in_words() -> None:
    command = [sys.executable, "-m", "factgym.integrations.verl", "config", "seva", "--set", "splat=train"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "splat" in done.stderr and "Did you mean" in done.stderr and "Traceback" not in done.stderr


def test_the_registered_loop_is_ours() -> None:
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
    assert done.stdout == "The verl integration needs the extra 'verl': pip install 'factgym[verl]'"
