"""verl's rollout with all its tokens: our agent loop beside verl's own tool loop around tools written by hand.

Both loops are made anew for every rollout, as verl's worker does, and fed by a client that answers at once. Both make
the same tokens; ours also gives each of them its reward.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.registry import make
from perf.integrations.compare import ENV, Integration, Recorded, UnequalError, awaited_sequentially, called, own_split
from perf.integrations.tiny_model import CHATML, sampled, texts_of, tokenizer

_LONG = ("data.max_prompt_length=100000", "data.max_response_length=500000")


def integration(env_id: str) -> Integration:
    """Whole rollouts. Raises MissingExtraError where verl is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of verl and Ray during their import
        from factgym.integrations import verl

        verl.register()
        rollouts = _Rollouts(env_id)
    env = rollouts.env

    async def through_integration(episode: Recorded) -> float:
        output = await rollouts.run(episode, rollouts.loop("factgym"))
        return float(output.reward_score)

    async def by_hand(episode: Recorded) -> float:
        env.reset(options={"task": episode.task})
        loop = rollouts.loop("tool_agent", rollouts.tools)
        loop.tool_schemas = rollouts.schemas  # verl's type for schemas has fewer fields: prompts would be shorter
        # Its loop has no signal for an episode's end: it stops before the last call, which then costs it no tokens.
        loop.max_assistant_turns = len(episode.messages)
        await rollouts.run(episode, loop)
        return float(env.step(episode.messages[-1])[1])

    return Integration(
        awaited_sequentially(through_integration),
        by_hand=awaited_sequentially(by_hand),
        hand="verl's own loop with tools by hand",
    )


class _Client:
    """A stand-in for verl's client: the recorded messages, one by one."""

    def __init__(self) -> None:
        from verl.workers.rollout.replica import TokenOutput

        self._output = TokenOutput
        self.remaining: Any = iter(())

    async def generate(self, request_id: str, *, prompt_ids: list[int], **_: Any) -> Any:
        return self._output(
            token_ids=next(self.remaining, []), extra_fields={"min_global_steps": 0, "max_global_steps": 0}
        )


class _Rollouts:
    """Inputs of both loops, and their outputs."""

    def __init__(self, env_id: str) -> None:
        from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
        from verl.utils.dataset.rl_dataset import RLHFDataset

        self.env = make(env_id)
        self.schemas = [dict(schema) for schema in self.env.all_tools()]
        self.tools = ToolListWrap(_tools(self.env))
        self._client = _Client()
        self._tokenizer = tokenizer(texts_of(self.env), CHATML)
        self._rows: dict[str, tuple[list[list[int]], dict[str, Any]]] = {}
        self._made: dict[str, list[int]] = {}
        config = _composed(env_id)
        self._given = {
            "trainer_config": DictConfigWrap(config),
            "server_manager": self._client,
            "tokenizer": self._tokenizer,
            "processor": None,
            "dataset_cls": RLHFDataset,
            "data_config": DictConfigWrap(config.data),
            "hf_model_type": "qwen2",
        }

    def loop(self, name: str, tools: Any = None) -> Any:
        """Return an agent loop, made as verl's worker makes one for each rollout."""
        import hydra
        from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

        return hydra.utils.instantiate(config=_agent_loop_registry[name], tools=tools, **self._given)

    async def run(self, episode: Recorded, loop: Any) -> Any:
        """Play an episode with a loop; return its output. Raises UnequalError where the other loop made other tokens."""
        sampled_ids, row = self._rows.get(episode.task) or self._rows.setdefault(episode.task, self._row(episode))
        self._client.remaining = iter(sampled_ids)
        output = await loop.run({"temperature": 1.0}, **row)
        if isinstance(output, list):
            raise ConfigError(
                f"{self.env.env_spec.id} is several rows of verl's an episode, which its own loop cannot make: "
                f"take --env {ENV}"
            )
        if self._made.setdefault(episode.task, output.response_ids) != output.response_ids:
            raise UnequalError(f"verl's own loop and the integration's make other tokens of {episode.task}")
        return output

    def _row(self, episode: Recorded) -> tuple[list[list[int]], dict[str, Any]]:
        from factgym.integrations.verl.rows import table

        env = self.env
        (row,) = table(
            env.env_spec.id, **own_split(env.env_spec.id), limit=1, start=env.tasks.index_of(episode.task)
        ).to_pylist()
        return sampled(self._tokenizer, episode), {**row, "raw_prompt": row["prompt"]}


def _tools(env: Env[Any]) -> list[Any]:
    """The environment's tools in verl's type: the call is one step of the episode that runs."""
    from verl.tools.base_tool import BaseTool
    from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

    class Tool(BaseTool):
        async def execute(
            self, instance_id: str, parameters: dict[str, Any], **_: Any
        ) -> tuple[Any, float, dict[str, Any]]:
            info = env.step(called(self.name, parameters))[4]
            return ToolResponse(text=info["messages"][0]["content"]), 0.0, {}

    with contextlib.redirect_stdout(io.StringIO()):  # each prints its schema
        return [Tool({}, OpenAIFunctionToolSchema.model_validate(schema)) for schema in env.all_tools()]


def _composed(env_id: str) -> Any:
    from hydra import compose, initialize_config_dir

    from factgym.integrations.verl.rows import config_text

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ours.yaml").write_text(config_text(env_id), "utf-8")
        with initialize_config_dir(config_dir=folder, version_base=None):
            searched = "hydra.searchpath=[pkg://verl.trainer.config]"
            return compose("ours", overrides=[searched, *_LONG, "actor_rollout_ref.rollout.max_model_len=null"])
