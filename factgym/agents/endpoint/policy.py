"""Any OpenAI-compatible server as a model: vLLM, SGLang, `transformers serve`, llama.cpp, OpenAI itself."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from random import Random
from typing import Any, Literal, NoReturn
from weakref import WeakKeyDictionary

from factgym.agents.endpoint.client import Client, Exchange
from factgym.agents.endpoint.faults import MALFORMED_CALL, REASONING, Fault
from factgym.agents.endpoint.forms import Forms, may_be_refused
from factgym.agents.endpoint.reply import ChatReply, read_reply
from factgym.agents.endpoint.request import RequestTemplate, Transcript, encode_json
from factgym.agents.endpoint.settings import EndpointSettings, Redactor, find_address
from factgym.agents.sampling import tools_as_text
from factgym.core.caching import Flights
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import ContentFilterError, ContextOverflowError, PolicyError
from factgym.core.seeds import derive

ToolSupport = Literal["native", "text"]

_HELLO = encode_json([{"role": "user", "content": "Hello"}])
_MAX_LISTED = 20
_MAX_PROBES = 20
_UNREACHABLE = ("connection", "timeout", "authentication")
"""Causes that naming the model would not help against."""

_PROMPT_LOGPROBS = {
    "prompt_logprobs": 1,
    "add_generation_prompt": False,
    "continue_final_message": True,
    "logprobs": False,
}
_REPLACEMENT = "\ufffd"
"""In the text of a token that holds part of a character."""


class Endpoint:
    """A model behind an OpenAI-compatible server.

    model: its name there; None takes the only one that the server lists. base_url: such as
    `http://127.0.0.1:8000/v1`; None takes OPENAI_BASE_URL, else OpenAI's. settings: see EndpointSettings.

    Keys come from the environment: for a given `base_url` the variable that `api_key_env` names, else FACTGYM_API_KEY,
    else none; otherwise OPENAI_API_KEY. Raises ConfigError for settings, URLs and keys that cannot be used.
    """

    def __init__(self, model: str | None = None, base_url: str | None = None, **settings: Any) -> None:
        self._arguments = (model, base_url, settings)
        self.settings = EndpointSettings.build("an endpoint", settings)
        self.address = find_address(base_url, self.settings.api_key_env)
        if model is not None and not model.strip():
            raise ConfigError("model must be a name, or left out where the server has one model only")
        self.redactor = Redactor(self.address.secret)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        self._model = model
        self._template = self._template_for(model) if model else None
        self._tool_support: ToolSupport | None = "native" if self.address.is_openai else None
        self._no_tools = ""  # how a probe showed that the server takes no tools
        self._flights: Flights[Any] = Flights()
        self.adapted: set[str] = set()  # changes of requests that the server asked for
        self.forms = Forms(self.settings.send_reasoning, self.adapted)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process reads the key from its own environment: keys are never pickled."""
        model, base_url, settings = self._arguments
        return partial(Endpoint, model, base_url, **settings), ()

    def _template_for(self, model: str) -> RequestTemplate:
        return RequestTemplate(model, self.settings, self.address.is_openai)

    def start(self, seed: int) -> EndpointEpisode:
        """The policy of one episode; the sampling seed of its turn t (from 0) is `derive(seed, "turn", t)`."""
        return EndpointEpisode(self, seed)

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """One reply outside of any episode, without a seed; see EndpointEpisode.act."""
        return await EndpointEpisode(self, None).act(messages, tools)

    async def prepare(self) -> None:
        """Meet the server, and find the model's name where it was not given, so that `describe` is complete.

        Raises ConfigError where the server lists none or several, and PolicyError where it cannot be asked.
        """
        if (fault := await self.client().contact()) is not None:
            self.fail(replace(fault, fatal=True))
        await self.template()

    def notice(self) -> str | None:
        """A line for a display while the server is away; None while it answers."""
        return next((notice for client in list(self._clients.values()) if (notice := client.notice)), None)

    def describe(self) -> dict[str, Any]:
        """The model and its settings, as JSON data; never a key."""
        settings = self.settings.model_dump(exclude_none=True)
        data = {"kind": "endpoint", "model": self._model, "base_url": self.address.url, **settings}
        if self.settings.tools == "auto" and self._tool_support:
            data["tools_found"] = self._tool_support
        if self.adapted:
            data["adapted"] = sorted(self.adapted)
        described: dict[str, Any] = json.loads(self.redactor.reply(encode_json(data)))
        return described

    async def close(self) -> None:
        """Give back the connections of this event loop; the endpoint can be used again."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def client(self) -> Client:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for ended in [other_loop for other_loop in self._clients if other_loop.is_closed()]:
                del self._clients[ended]
            client = self._clients[loop] = Client(self.address, self.settings, self.redactor)
        return client

    def exchange(self, random: Callable[[], Random] = lambda: Random("endpoint")) -> Exchange:
        """A new exchange. random: the source of the jitter of its waits."""
        return Exchange(self.client(), self.settings, random)

    async def template(self) -> RequestTemplate:
        """The fixed parts of requests. Requests the list of models where the model was not named."""
        if self._template is None:
            outcome, _ = await self._flights.share("model", self._find_model)
            if isinstance(outcome, Fault):
                self.fail(outcome)
            self._template = outcome
        return self._template

    async def _find_model(self) -> RequestTemplate | Fault:
        answer = await self.exchange().send(self.client().models)
        if isinstance(answer, Fault):
            hint = "" if answer.cause in _UNREACHABLE else "its models cannot be listed, name one with model=…: "
            return replace(answer, message=hint + answer.message)
        names = _model_names(answer)
        if len(names) != 1:
            raise ConfigError(f"{self.address.url} lists {_listed(names)}: name one with model=…")
        self._model = names[0]
        return self._template_for(names[0])

    async def tool_support(self, tools: bytes) -> ToolSupport:
        """How tools are offered: as set, or as probed with these tools (a JSON list)."""
        if self.settings.tools != "auto":
            return self.settings.tools
        outcome = await self._probed_tool_support(tools)
        if isinstance(outcome, Fault):
            await self.give_up(outcome)
        return outcome

    async def check_native(self, tools: bytes, reply: ChatReply | Fault) -> None:
        """Raise ConfigError where tools are set to be native and the server leaves them out of the prompt.

        A reply with a call, even one that the server cannot read, proves that it takes them; at the first one in words,
        the server is probed.
        """
        if isinstance(reply, Fault):
            refused = reply.about_tools and reply.cause == "bad_request"
        elif reply.message.get("tool_calls") or MALFORMED_CALL in reply.completion.get("notes", {}):
            refused, self._tool_support = False, "native"
        else:
            refused = bool(reply.message["content"])
        if refused and await self._probed_tool_support(tools) == "text":
            raise ConfigError(
                f"{self.address.url} takes no tools for {self._model!r}: {self._no_tools}. Play with --tools text"
            )

    async def _probed_tool_support(self, tools: bytes) -> ToolSupport | Fault:
        if self._tool_support is None:
            outcome, _ = await self._flights.share("tools", partial(self._probe_tools, await self.template(), tools))
            if isinstance(outcome, Fault):
                return outcome
            self._tool_support = outcome
        return self._tool_support

    async def _probe_tools(self, template: RequestTemplate, tools: bytes) -> ToolSupport | Fault:
        """Probe with a tiny request whether the server takes tools natively, once for each model.

        A server that cannot either refuses the request, or silently leaves the tools out of the prompt: then its count
        of the prompt's tokens is the same without them. A server that takes the tools but parses no calls out of the
        text stays native: the environment reads calls in text, too.
        """

        async def probe(tools: bytes | None) -> bytes | Fault:
            exchange, chat = self.exchange(), self.client().chat
            while True:
                body = template.body(_HELLO, tools, limit=1)
                answer = await exchange.send(partial(chat, body), lambda fault: fault.about_tools)
                # Every adaptation removes or renames a key, so that a body that changes no more ends the loop.
                if not isinstance(answer, Fault) or not answer.setting or exchange.requests > _MAX_PROBES:
                    return answer
                if self.adapt(answer) is None or template.body(_HELLO, tools, limit=1) == body:
                    return answer

        with_tools = await probe(tools)
        if isinstance(with_tools, Fault):
            self._no_tools = f"it refuses them ({with_tools.message})"
            if with_tools.about_tools:
                return "text"
            if with_tools.cause == MALFORMED_CALL:
                return "native"
            if with_tools.cause != "bad_request":
                return with_tools
            return with_tools if isinstance(await probe(None), Fault) else "text"
        without = await probe(None)
        if isinstance(without, Fault):
            return "native"
        (count, called), (plain, _) = _tokens_and_calls(with_tools), _tokens_and_calls(without)
        self._no_tools = f"its chat template drops them (a prompt has {count} tokens with tools and without)"
        # One token is what stand-ins report that count nothing: a chat prompt has more.
        return "text" if count > 1 and count == plain and not called else "native"

    def adapt(self, fault: Fault) -> str | None:
        """Change further requests where the server does not take a setting; return the change, None for no remedy."""
        change = None if self._template is None else self._template.adapt(fault)
        if change is not None:
            self.adapted.add(change)
        return change

    def fail(self, fault: Fault) -> NoReturn:
        """Raise a fault as an error of policies."""
        if fault.cause in ("overflow", "content_filter"):
            refused = ContextOverflowError if fault.cause == "overflow" else ContentFilterError
            raise refused(self.redactor.error(fault.message, 700))
        text = f"{self.address.url}: {fault.message}"
        raise PolicyError(fault.cause, self.redactor.error(text, 700), fatal=fault.fatal)

    async def give_up(self, fault: Fault) -> NoReturn:
        """Raise the fault of a chat request, with a hint at the remedy."""
        if fault.cause == "not_found":
            answer = await self.client().models()
            listed = "" if isinstance(answer, Fault) else f" The server lists {_listed(_model_names(answer))}."
            hint = f"no model {self._model!r}, or no chat server, at this URL.{listed} {fault.message}"
            fault = replace(fault, message=hint)
        elif fault.setting:
            hint = f"(the setting is {fault.setting}: leave it out, or change it with --agent-set)"
            fault = replace(fault, message=f"{fault.message} {hint}")
        elif fault.about_messages and REASONING.search(fault.message) and self.settings.send_reasoning != "auto":
            hint = f"(send_reasoning is {self.settings.send_reasoning}: leave it at auto)"
            fault = replace(fault, message=f"{fault.message} {hint}")
        elif fault.about_tools:
            hint = "(a server that takes no tools can be played with tools='text')"
            fault = replace(fault, message=f"{fault.message} {hint}")
        self.fail(fault)

    async def score(self, messages: Sequence[Message], completion: str, *, given: str = "") -> float:
        """The log-probability that a reply which began with `given` goes on with `completion`; see `Scoring.score`.

        vLLM continues an assistant message that is already begun and gives the log-probabilities of the whole prompt
        (`prompt_logprobs`), of which the last tokens are the given reply. OpenAI's API and most others have nothing
        like it: ConfigError.
        """
        if not completion.strip():
            raise ConfigError("a completion to score must have a text")
        if self.address.is_openai:
            raise self._cannot_score("OpenAI's API does not")
        template = await self.template()
        assistant: Message = {"role": "assistant", "content": given + completion}
        body, _ = self.forms.write([*messages, assistant], Transcript())
        request = json.loads(template.body(body, limit=1)) | _PROMPT_LOGPROBS
        request.pop("top_logprobs", None)
        answer = await self.exchange().send(partial(self.client().chat, encode_json(request)))
        if isinstance(answer, Fault):
            if answer.cause == "bad_request":
                raise self._cannot_score(f"it says {self.redactor.error(answer.message, 300)}")
            await self.give_up(answer)
        return self._sum_of_tail(answer, completion.rstrip())

    def _sum_of_tail(self, answer: bytes, completion: str) -> float:
        """The sum over the last tokens of the prompt, as many as hold the completion.

        The first token of a prompt has no probability; of each other the token of the prompt itself is listed first.
        """
        url = self.address.url
        try:
            tokens = [next(iter(alternatives.values())) for alternatives in json.loads(answer)["prompt_logprobs"][1:]]
        except (KeyError, TypeError):
            raise self._cannot_score("its reply holds no prompt_logprobs") from None
        except (ValueError, AttributeError, StopIteration, RecursionError):
            raise PolicyError("bad_reply", f"{url}: prompt_logprobs cannot be read") from None
        # The server tokenized the completion itself, so that its tokens are found from the end, by their text.
        total, text = 0.0, ""
        for token in reversed(tokens):
            if len(text) >= len(completion):
                break
            text = str(token.get("decoded_token") or "") + text
            total += float(token["logprob"])
        if completion not in text and _REPLACEMENT not in text:
            raise PolicyError("bad_reply", f"the prompt of {url} ends in {text!r:.80}, not in the given reply")
        if not math.isfinite(total):
            raise PolicyError("bad_reply", f"{url} gave a log-probability that is no number")
        return min(total, 0.0)

    def _cannot_score(self, reason: str) -> ConfigError:
        return ConfigError(
            f"{self.address.url} gives no log-probabilities of given replies ({reason}): serve the model with vLLM, "
            "whose chat API has prompt_logprobs, or run it here (hf:…), or sample instead"
        )


def _tokens_and_calls(body: bytes) -> tuple[int, bool]:
    """The tokens of a reply's prompt, 0 where they are not reported, and whether the reply holds tool calls."""
    reply = read_reply(body)
    if isinstance(reply, Fault):
        return 0, False
    return reply.completion.get("usage", {}).get("prompt_tokens", 0), bool(reply.message.get("tool_calls"))


def _model_names(models: bytes) -> list[str]:
    """The ids in a server's list of models; none where it cannot be read."""
    try:
        return [str(model["id"]) for model in json.loads(models)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(name[:100] for name in names[:_MAX_LISTED])
    return (text + (" and more" if len(names) > _MAX_LISTED else "")) if names else "no model"


class EndpointEpisode:
    """The policy of one episode: the endpoint's client with this episode's seeds."""

    def __init__(self, endpoint: Endpoint, seed: int | None) -> None:
        self._endpoint = endpoint
        self._seed = seed
        self._turn = 0
        self._transcript = Transcript()
        self._exchange: Exchange | None = None

    @property
    def trouble(self) -> str | None:
        """The fault after which the present request is repeated."""
        return self._exchange.trouble if self._exchange else None

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The model's reply, with its `completion`.

        Raises PolicyError for a fault of the infrastructure, ContextOverflowError where the prompt does not fit, and
        ContentFilterError where the provider blocks it.
        """
        endpoint, transcript = self._endpoint, self._transcript
        template = await endpoint.template()
        seed = None if self._seed is None else derive(self._seed, "turn", self._turn)
        self._turn += 1
        tool_bytes = template.tools(tools) if tools else None
        mode = await endpoint.tool_support(tool_bytes) if tool_bytes else endpoint.settings.tools
        if mode == "text":
            messages, tool_bytes = tools_as_text(messages, tools), None
        exchange = self._exchange = endpoint.exchange(lambda: self._jitter)

        async def ask(conversation: bytes, patient: bool) -> ChatReply | Fault:
            return await exchange.reply(
                lambda limit: template.body(conversation, tool_bytes, seed, limit),
                endpoint.adapt,
                lambda fault: fault.about_messages and may_be_refused(fault) and not patient,
            )

        reply = await endpoint.forms.exchange(messages, transcript, ask)
        if tool_bytes and endpoint.settings.tools == "native":
            await endpoint.check_native(tool_bytes, reply)
        if isinstance(reply, Fault):
            await endpoint.give_up(reply)
        transcript.add_reply(reply)
        completion = reply.completion
        completion["requests"] = exchange.requests
        if exchange.retries:
            completion["retries"] = exchange.retries
        sent = transcript.sent(always=mode == "text")
        if sent is not None:
            completion["sent"] = sent
        notes = {**completion.get("notes", {}), **exchange.notes}
        if endpoint.settings.tools == "auto" and mode != "auto":
            notes["tools"] = mode
        if endpoint.adapted:
            notes["adapted"] = sorted(endpoint.adapted)
        if notes:
            completion["notes"] = notes
        return {**reply.message, "completion": completion}

    @cached_property
    def _jitter(self) -> Random:
        return Random(derive(self._seed or 0, "retry"))
