"""verl's own classes without a GPU: a full configuration, a tiny tokenizer, and servers that say what a script says."""

from __future__ import annotations

import asyncio
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tiny_tokens
from tiny_tokens import oracle, own_split

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what verl and Ray say of each other while they are imported
    from hydra import compose, initialize_config_dir
    from omegaconf import DictConfig
    from transformers import PreTrainedTokenizerFast
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.workers.rollout.replica import TokenOutput

    from factgym.core.messages import Message
    from factgym.integrations import verl as integration
    from factgym.integrations.verl.loop import FactAgentLoop
    from factgym.integrations.verl.rows import config_text, table
    from perf.integrations.tiny_model import CHATML

    integration.register()

LONG = [
    "data.max_prompt_length=100000",
    "data.max_response_length=500000",
    "actor_rollout_ref.rollout.max_model_len=null",
]


def tokenizer() -> PreTrainedTokenizerFast:
    return tiny_tokens.tokenizer(CHATML)


def written(message: Message) -> str:
    return tiny_tokens.written(message, tokenizer()).removeprefix("\n")


@cache
def composed(text: str, overrides: tuple[str, ...] = ()) -> DictConfig:
    """verl's whole configuration under one of ours, as Hydra composes them."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ours.yaml").write_text(text, "utf-8")
        with initialize_config_dir(config_dir=folder, version_base=None):
            return compose("ours", overrides=["hydra.searchpath=[pkg://verl.trainer.config]", *overrides])


class Server:
    """In the place of verl's client: says one text after the other, then nothing. Keeps what it was shown."""

    def __init__(self, texts: Sequence[str], logprobs: bool = False) -> None:
        self.texts, self.logprobs = list(texts), logprobs
        self.prompts: list[list[int]] = []
        self.sampling: list[dict[str, Any]] = []

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        await asyncio.sleep(0)
        turn = len(self.prompts)
        self.prompts.append(list(prompt_ids))
        self.sampling.append(dict(sampling_params))
        ids = tokenizer()(self.texts[turn], add_special_tokens=False)["input_ids"] if turn < len(self.texts) else []
        ids = ids[: sampling_params["max_tokens"]]
        return TokenOutput(
            token_ids=ids,
            log_probs=[-0.5] * len(ids) if self.logprobs else None,
            extra_fields={"min_global_steps": turn, "max_global_steps": turn},
        )


def agent_loop(server: Any, config: DictConfig) -> FactAgentLoop:
    """The loop as a worker of verl's makes it; within a running event loop."""
    return FactAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer(),
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=None,
        hf_model_type="qwen2",
    )


def contexts_of(out: Any) -> list[Any]:
    return out if isinstance(out, list) else [out]


def row_of(env_id: str, task: int = 0, **config: Any) -> dict[str, Any]:
    """A row as verl's dataset gives it to the agent loop."""
    (row,) = table(env_id, limit=1, start=task, **own_split(env_id, **config)).to_pylist()
    return {**row, "raw_prompt": row["prompt"], "index": row["extra_info"]["index"]}


def played(
    row: Mapping[str, Any],
    texts: Sequence[str],
    *overrides: str,
    credit: str = "none",
    long: bool = True,
    **options: Any,
) -> tuple[Any, Server]:
    """What the loop makes of a row and a script, and the server with what it was shown."""
    info = row["extra_info"]
    text = _text(info["env"].rpartition("-v")[0], info["settings"], credit)
    config = composed(text, (*(LONG if long else ()), *overrides))
    server = Server(texts, options.pop("logprobs", False))

    async def run() -> Any:
        return await agent_loop(server, config).run({"temperature": 1.0}, **{**row, **options})

    return asyncio.run(run()), server


@cache
def _text(env_id: str, settings: str, credit: str) -> str:
    return config_text(env_id, json.loads(settings), credit)


__all__ = ["Server", "agent_loop", "composed", "contexts_of", "oracle", "played", "row_of", "tokenizer", "written"]
