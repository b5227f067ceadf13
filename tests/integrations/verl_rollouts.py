"""Run by a test: one step of verl's own trainer up to the advantages, with its workers, its queue and its replay buffer.

What needs a GPU has a script in its place: the model's server. Writes what came out of the queue as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from tiny_tokens import own_split
from tiny_verl import composed, tokenizer
from transformers import Qwen2Config
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.rollout.replica import TokenOutput

from factgym.integrations.verl.rows import config_text, write_rows

FIELDS = ["uid", "response_mask", "rm_scores", "advantages", "extra_fields", "num_turns", "responses"]


class Scripts:
    """In the place of verl's client. scripts: the end of a first prompt -> what each rollout of it says."""

    def __init__(self, scripts: dict[str, list[list[str]]]) -> None:
        self.scripts = scripts
        self.pending: dict[str, list[str]] = {}
        self.started: dict[str, int] = {}

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        tok = tokenizer()
        if request_id not in self.pending:
            prompt = tok.decode(prompt_ids)
            (task,) = [task for task in self.scripts if task in prompt]
            number = self.started[task] = self.started.get(task, -1) + 1
            self.pending[request_id] = list(self.scripts[task][number % len(self.scripts[task])])
        script = self.pending[request_id]
        ids = tok(script.pop(0), add_special_tokens=False)["input_ids"] if script else []
        return TokenOutput(token_ids=ids, extra_fields={"min_global_steps": 0, "max_global_steps": 0})


def configuration(folder: Path, run: dict[str, Any]) -> DictConfig:
    model = folder / "model"
    Qwen2Config(
        vocab_size=2000, hidden_size=16, intermediate_size=16, num_hidden_layers=1, architectures=["Qwen2ForCausalLM"]
    ).save_pretrained(model)
    tokenizer().save_pretrained(model)
    file = folder / "train.parquet"
    write_rows(run["env"], file, limit=run["tasks"], **own_split(run["env"]))
    if run.get("hops"):
        add_column(file, run["hops"])
    overrides = [
        f"actor_rollout_ref.model.path={model}",
        f"data.train_files={file}",
        f"data.val_files={file}",
        f"data.train_batch_size={run['tasks']}",
        "data.max_prompt_length=20000",
        "data.max_response_length=20000",
        "data.dataloader_num_workers=0",
        "data.shuffle=false",
        "actor_rollout_ref.rollout.max_model_len=null",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        f"actor_rollout_ref.rollout.n={run['samples']}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={run['tasks']}",
    ]
    return composed(config_text(run["env"], credit=run["credit"]), tuple(overrides))


def add_column(file: Path, hops: list[int]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(file).append_column("hops", pa.array(hops)), file)


def stepped(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The rows of a step with their advantages, and the metrics of a validation."""
    folder.mkdir()
    config = configuration(folder, run)
    OmegaConf.resolve(config)
    trainer: Any = PPOTrainerSync(config)  # and of its `init` all but the workers with GPUs
    trainer.global_steps = 1
    trainer._init_tokenizer()
    trainer._init_dataloader()
    trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
    trainer.agent_loop_manager = AgentLoopManagerTQ.create(
        config=config, llm_client=Scripts(run["scripts"]), teacher_client=None, reward_loop_worker_handles=[]
    )
    trainer._add_batch_to_generate()
    batch, _ = trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=run["tasks"])
    batch = trainer._compute_advantage(batch, {})
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=FIELDS)
    rows = []
    for n, key in enumerate(batch.keys):
        row = {name: data[name][n] for name in FIELDS}
        rows.append(
            {"key": key, **{name: getattr(value, "tolist", lambda v=value: v)() for name, value in row.items()}}
        )
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    return {"rows": rows, "validation": trainer._validate()}


def main(folder: Path) -> None:
    runs = json.loads((folder / "runs.json").read_text("utf-8"))
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=True, object_store_memory=200_000_000)
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    try:
        outputs = {name: stepped(folder / name, run) for name, run in runs.items()}
        (folder / "results.json").write_text(json.dumps(outputs, default=float), "utf-8")
    finally:
        tq.close()
        ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
