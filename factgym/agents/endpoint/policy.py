"""Any OpenAI-compatible server as a model: vLLM, SGLang, `transformers serve`, llama.cpp, OpenAI itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from json import loads
from random import Random
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from factgym.agents.endpoint.address import find_address
from factgym.agents.endpoint.client import Client
from factgym.agents.endpoint.exchange import Exchange
from factgym.agents.endpoint.faults import Fault
from factgym.agents.endpoint.once import Once
from factgym.agents.endpoint.probe import FoundMode, probe
from factgym.agents.endpoint.reply import Reply
from factgym.agents.endpoint.scoring import given_logprob
from factgym.agents.endpoint.secrets import Redactor
from factgym.agents.endpoint.settings import EndpointSettings
from factgym.agents.endpoint.wire import Template, Transcript, encoded
from factgym.agents.seeds import derive
from factgym.agents.text_tools import tools_as_text
from factgym.core.config import build_checked
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import ContextOverflowError, PolicyError

_HELLO = encoded([{"role": "user", "content": "Hello"}])
_MOST_NAMES = 20
_NO_SERVER = ("connection", "timeout", "authentication")
"""Causes that naming the model would not help against."""


def _own_random() -> Random:
    return Random("endpoint")


class Endpoint:
    """A model behind an OpenAI-compatible server.

    model: its name there; None takes the only one that the server lists. base_url: such as
    `http://127.0.0.1:8000/v1`; None takes OPENAI_BASE_URL, else OpenAI's. settings: see EndpointSettings.

    Keys come from the environment: for a given `base_url` the variable that `api_key_env` names, else FACTGYM_API_KEY,
    else none; otherwise OPENAI_API_KEY. Raises ConfigError for settings, URLs and keys that cannot be used.
    """

    def __init__(self, model: str | None = None, base_url: str | None = None, **settings: Any) -> None:
        self._given = (model, base_url, settings)
        self.settings = build_checked(EndpointSettings, "an endpoint", settings)
        self.address = find_address(base_url, self.settings.api_key_env)
        if model is not None and not model.strip():
            raise ConfigError("model must be a name, or left out where the server has one model only")
        self.redactor = Redactor(self.address.secret)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        self._template: Once[Template] = Once(self._template_for(model) if model else None)
        self._model = model
        set_mode = None if self.settings.tools == "auto" else self.settings.tools
        self._mode: Once[FoundMode] = Once("native" if self.address.is_openai and not set_mode else set_mode)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process reads the key from its own environment: keys are never pickled."""
        return _rebuilt, self._given

    def _template_for(self, model: str) -> Template:
        return Template(model, self.settings, self.address.is_openai)

    def start(self, seed: int) -> EndpointEpisode:
        """The policy of one episode; the sampling seed of its turn t (from 0) is `derive(seed, "turn", t)`."""
        return EndpointEpisode(self, seed)

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """One reply outside of any episode, without a seed; see EndpointEpisode.act."""
        return await EndpointEpisode(self, None).act(messages, tools)

    async def score(self, messages: Sequence[Message], completion: str, *, given: str = "") -> float:
        """The log-probability that a reply which began with `given` goes on with `completion`; see `Scoring.score`.

        Raises ConfigError for a server that does not give log-probabilities of prompts (vLLM does).
        """
        return await given_logprob(self, messages, completion, given)

    async def prepare(self) -> None:
        """Load the client, and find out the model's name where it was not given, so that `describe` can tell it.

        Raises ConfigError where the server lists none or several, and PolicyError where it cannot be asked.
        """
        self.client()
        await self.template()

    def describe(self) -> dict[str, Any]:
        """What identifies the model and its settings, as JSON data; never a key."""
        found = {"tools_found": self._mode.answer} if self.settings.tools == "auto" and self._mode.answer else {}
        settings = {key: value for key, value in asdict(self.settings).items() if value is not None}
        data = {"kind": "endpoint", "model": self._model, "base_url": self.address.url, **settings, **found}
        described: dict[str, Any] = loads(self.redactor.reply(encoded(data)))
        return described

    async def close(self) -> None:
        """Give back the connections of this event loop; the endpoint can be used again."""
        self._template.stop()
        self._mode.stop()
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def client(self) -> Client:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for ended in [one for one in self._clients if one.is_closed()]:
                del self._clients[ended]
            client = self._clients[loop] = Client(self.address, self.settings, self.redactor)
        return client

    def exchange(self, random: Callable[[], Random] = _own_random) -> Exchange:
        """A new exchange. random: where the jitter of its waits comes from."""
        return Exchange(self.client(), self.settings, random)

    async def template(self) -> Template:
        """The fixed parts of requests; asks for the model's name where it is not known."""
        if self._template.answer is not None:
            return self._template.answer
        found = await self._template.get(self._find_model)
        return self.fail(found) if isinstance(found, Fault) else found

    async def _find_model(self) -> Template | Fault:
        names = await self._models()
        if isinstance(names, Fault):
            hint = "" if names.cause in _NO_SERVER else "its models cannot be listed, say which one with model=…: "
            return replace(names, message=hint + names.message)
        if len(names) != 1:
            raise ConfigError(f"{self.address.url} lists {_listed(names)}: say which one with model=…")
        self._model = names[0]
        return self._template_for(names[0])

    async def _models(self) -> list[str] | Fault:
        answer = await self.exchange().ask(self.client().models)
        return answer if isinstance(answer, Fault) else _names_in(answer)

    async def tool_mode(self, tools: bytes) -> FoundMode:
        """How tools are offered: as set, or as found out with these tools (a JSON list)."""
        if self._mode.answer is not None:
            return self._mode.answer
        template = await self.template()
        found = await self._mode.get(partial(probe, partial(self._tiny, template), tools))
        return await self.give_up(found) if isinstance(found, Fault) else found

    async def _tiny(self, template: Template, tools: bytes | None) -> bytes | Fault:
        body = template.body(_HELLO, tools, limit=1)
        exchange = self.exchange()
        return await exchange.ask(partial(self.client().chat, body), lambda fault: fault.about_tools)

    def fail(self, fault: Fault) -> NoReturn:
        """Raise a fault as the error that the engine knows."""
        if fault.cause == "overflow":
            raise ContextOverflowError(fault.message)
        text = f"{self.address.url}: {fault.message}"
        raise PolicyError(fault.cause, self.redactor.error(text, 700), fatal=fault.fatal)

    async def give_up(self, fault: Fault) -> NoReturn:
        """Raise the fault of a chat request, with what can be done about it."""
        if fault.cause == "not_found":
            listed = await self.client().models()
            known = "" if isinstance(listed, Fault) else f" The server lists {_listed(_names_in(listed))}."
            said = f"no model {self._model!r}, or no chat server, at this URL.{known} {fault.message}"
            fault = replace(fault, message=said)
        elif fault.about_tools:
            fault = replace(
                fault, message=f"{fault.message} (a server that takes no tools can be played with tools='text')"
            )
        self.fail(fault)


def _names_in(models: bytes) -> list[str]:
    """The ids in a server's list of models; none where it cannot be read."""
    try:
        return [str(one["id"]) for one in loads(models)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:100] for name in names[:_MOST_NAMES])
    return (shown + (" and more" if len(names) > _MOST_NAMES else "")) if names else "no model"


def _rebuilt(model: str | None, base_url: str | None, settings: dict[str, Any]) -> Endpoint:
    return Endpoint(model, base_url, **settings)


class EndpointEpisode:
    """The policy of one episode: the endpoint's client with this episode's seeds. It is used by one episode only."""

    __slots__ = ("_endpoint", "_random", "_seed", "_transcript", "_turn")

    def __init__(self, endpoint: Endpoint, seed: int | None) -> None:
        self._endpoint = endpoint
        self._seed = seed
        self._turn = 0
        self._transcript = Transcript()
        self._random: Random | None = None

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The model's reply, with its `completion`.

        Raises PolicyError for a fault of the infrastructure and ContextOverflowError where the prompt does not fit.
        """
        endpoint, transcript = self._endpoint, self._transcript
        template = await endpoint.template()
        seed = None if self._seed is None else derive(self._seed, "turn", self._turn)
        self._turn += 1
        tool_bytes = transcript.tools(tools) if tools else None
        mode = await endpoint.tool_mode(tool_bytes) if tool_bytes else endpoint.settings.tools
        rewritten = mode == "text"
        if rewritten:
            messages, tool_bytes = tools_as_text(messages, tools), None
        listed = transcript.messages(messages)
        exchange = endpoint.exchange(self._jitter)
        reply = await exchange.reply(lambda limit: template.body(listed, tool_bytes, seed, limit))
        if isinstance(reply, Fault):
            await endpoint.give_up(reply)
        return self._recorded(reply, exchange, mode, rewritten)

    def _jitter(self) -> Random:
        if self._random is None:
            self._random = Random(derive(self._seed or 0, "retry"))
        return self._random

    def _recorded(self, reply: Reply, exchange: Exchange, mode: str, rewritten: bool) -> Message:
        """The message with all that is known about it."""
        completion = reply.completion
        completion["requests"] = exchange.requests
        if exchange.retries:
            completion["retries"] = exchange.retries
        sent = self._transcript.sent(always=rewritten)
        if sent is not None:
            completion["sent"] = sent
        notes = {**completion.get("notes", {}), **exchange.notes}
        if self._endpoint.settings.tools == "auto" and mode != "auto":
            notes["tools"] = mode
        if notes:
            completion["notes"] = notes
        return {**reply.message, "completion": completion}
