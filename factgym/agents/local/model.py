"""A Hugging Face causal language model on this machine, as an agent's model.

Each episode has a policy of its own; one thread and one set of weights answer all of them. The weights are loaded when
the first episode starts or the first reply is requested: describing a run must not load gigabytes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from factgym.agents.local.engine import GivenReply, LocalEngine
from factgym.agents.local.loading import Loaded, LocalSettings
from factgym.agents.local.worker import Request, Worker
from factgym.core.errors import MissingExtraError
from factgym.core.messages import Message, ToolSchema
from factgym.core.seeds import derive


class LocalPolicy:
    """The policy of one episode: its n-th reply is sampled with a seed made of the episode's seed and n."""

    def __init__(self, model: LocalModel, seed: int) -> None:
        self._model, self._seed, self._turn = model, seed, 0

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The next assistant message; see `LocalModel.act`."""
        seed = derive(self._seed, "turn", self._turn)
        self._turn += 1
        return await self._model.answer(Request(list(messages), list(tools), seed))


class LocalModel:
    """A Hugging Face causal language model that answers the requests of concurrent episodes in batches.

    model: a folder or a hub name. loaded: the model itself, such as one in training, which is then not read from disk.
    settings: of LocalSettings. Raises ConfigError for settings that do not exist and
    MissingExtraError without the extra "local". Usable from several event loops and threads. Its thread and memory
    are held until `close`.
    """

    def __init__(self, model: str | Path, *, loaded: Loaded | None = None, **settings: Any) -> None:
        for name in ("torch", "transformers"):
            if find_spec(name) is None:
                raise MissingExtraError("a local model", "local")
        self.name = str(model)
        self.settings = LocalSettings.build(f"the local model {self.name!r}", settings)
        self.resolved: dict[str, Any] | None = None
        """Settings as resolved on loading (device, dtype, context length, tools, sampling); None before."""
        batching = (self.settings.batch_size, self.settings.batch_wait, self.settings.max_batch_tokens)
        self._loaded = loaded
        self._adapted: set[str] = set()
        self._worker = Worker(self._load_engine, *batching)
        self._direct = LocalPolicy(self, 0)

    def _load_engine(self) -> LocalEngine:
        engine = LocalEngine(self.name, self.settings, self._loaded)
        self.resolved = engine.resolved()
        self._adapted = engine.adapted
        return engine

    async def load(self) -> None:
        """Load the model now, once, and wait for it. Raises ConfigError when it cannot be loaded."""
        self._worker.wake()
        await asyncio.wrap_future(self._worker.loaded)

    def start(self, seed: int) -> LocalPolicy:
        """The policy of one episode. Loading starts in the background; `act` raises its errors."""
        self._worker.wake()
        return LocalPolicy(self, seed)

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The next assistant message, its tool calls in the text, with its completion record.

        Raises ContextOverflowError when the prompt leaves no room for a reply, ConfigError when the model or its chat
        template cannot be used, and PolicyError with cause "out_of_memory", "local_model" or "closed".
        """
        return await self._direct.act(messages, tools)

    async def score(self, messages: Sequence[Message], completion: str, *, given: str = "") -> float:
        """The log-probability that a reply which began with `given` goes on with `completion`; see `Scoring.score`.

        A prompt that ends inside a thought has the thought closed first. Raises as `act` does.
        """
        scored = await self.answer(Request(list(messages), [], 0, GivenReply(completion, given)))
        return math.fsum(token["logprob"] for token in scored["completion"]["logprobs"])

    async def answer(self, request: Request) -> Message:
        """The reply to one request. Raises as `act` does."""
        self._worker.submit(request)
        try:
            return await asyncio.wrap_future(request.future)
        finally:
            request.abandoned = True

    def describe(self) -> dict[str, Any]:
        """The model and every setting, as JSON data; values for settings that are None are in `resolved` after loading."""
        values = self.settings.model_dump()
        if self.settings.chat_template is not None:
            values["chat_template"] = str(self.settings.chat_template)
        installed = {name: version(name) for name in ("torch", "transformers")}
        unset = "the model's generation_config where it samples, else temperature 1 with nothing cut off"
        adapted = {"adapted": sorted(self._adapted)} if self._adapted else {}
        return {
            "kind": "local",
            "model": self.name,
            **values,
            "unset_sampling": unset,
            "libraries": installed,
            **adapted,
        }

    async def close(self) -> None:
        """Stop the thread and give the memory back; replies that are still awaited raise PolicyError "closed"."""
        await asyncio.to_thread(self._worker.close)
