"""A policy as a judge: any model, asked with a rubric's fixed prompt, whose answer is checked against its schema.

The answer is read by the one parser of actions, never by a search through the text. An answer that does not fit is
asked for again, the error said; after that the case is unscored (`JudgeError`). A fault of the infrastructure
(`PolicyError`) passes through. Only judgements that fit are kept in the cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.judges.base import BaseJudge, Case, JudgeError, Judgement
from factgym.agents.judges.cache import JudgeCache
from factgym.agents.judges.prompt import SUBMIT, AnswerForm, JudgePrompt
from factgym.core.action import ParsedAction, parse_action
from factgym.core.caching import Flights
from factgym.core.calls import CallError
from factgym.core.errors import ConfigError, DataError
from factgym.core.messages import Completion, Message, Usage, message_text
from factgym.core.policy import ContextOverflowError, Policy, add_usage, call_policy
from factgym.core.prompts import fill, prompt
from factgym.core.seeds import derive

_REASON_CHARS = 2_000
_SHOWN_CHARS = 400


@dataclass(slots=True)
class _Said:
    """What a judge was asked and said on one case."""

    messages: list[Message]
    usage: Usage = field(default_factory=Usage)
    answers: list[str] = field(default_factory=list)


class PolicyJudge(BaseJudge):
    """A policy, or a model, as a judge. Cases are asked at the same time, so a plain policy must not remember any.

    form: whether the judge calls a tool or writes JSON; either is understood under both. cache: where judgements are
    kept, None for nowhere. retries: how often it is asked again after an answer that does not fit. seed: of a model's
    sampling; it is part of a cached judgement's key. name: who judges, in reports and in the keys; by default what
    the policy's `describe()` says. blocking: a plain `act` takes long and is called in a thread. Raises ConfigError
    for a cache with a policy that says neither by itself nor by `name` who it is.
    """

    def __init__(
        self,
        policy: Policy | Model,
        rubric: JudgePrompt,
        *,
        cache: JudgeCache | None = None,
        form: AnswerForm = "tool",
        retries: int = 2,
        seed: int = 0,
        name: str | None = None,
        blocking: bool = False,
    ) -> None:
        if retries < 0:
            raise ConfigError(f"retries must be at least 0, not {retries}")
        describe: Callable[[], dict[str, Any]] | None = getattr(policy, "describe", None)
        if cache is not None and describe is None and not name:
            message = (
                f"{type(policy).__name__} does not say who it is, so its judgements cannot be told from another's"
            )
            raise ConfigError(f"{message}: give the judge a name=, the policy a describe(), or no cache.")
        self.policy = policy
        self.rubric = rubric
        self.cache = cache
        self.form: AnswerForm = form
        self.retries = retries
        self.seed = seed
        self.blocking = blocking
        self._details = _plain(describe() if describe else {}, policy)
        self._by = name or _who(policy, self._details)
        self._flights: Flights[Judgement] = Flights()

    def describe(self) -> dict[str, Any]:
        """Rubric, prompt hash, scale and the policy's own description."""
        return {
            "rubric": self.rubric.name,
            "version": self.rubric.version,
            "scale": self.rubric.scale,
            "grades": dict(self.rubric.grades),
            "prompt_sha256": self.rubric.fingerprint(self.form),
            "by": self._by,
            "stand_in": False,
            "form": self.form,
            "retries": self.retries,
            "seed": self.seed,
            "policy": self._details,
        }

    async def close(self) -> None:
        """Close the model."""
        if isinstance(self.policy, Model):
            await self.policy.close()

    async def judge(self, case: Case) -> Judgement:
        """Judge a case; the same case asked for twice at once is put to the policy once. See `Judge.judge`."""
        texts = self.rubric.check(case)
        key = self._key(texts)
        found, mine = await self._flights.share(key, lambda: self._find(key, texts))
        return found if mine else replace(found, cached=True, usage={})

    def _key(self, texts: Mapping[str, str]) -> str:
        identity = [self._by, self._details, self.seed]
        parts = [self.rubric.fingerprint(self.form), self.rubric.schema, identity, texts]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    async def _find(self, key: str, texts: Mapping[str, str]) -> Judgement:
        if self.cache is None:
            return await self._ask(key, texts)
        entry = await asyncio.to_thread(self.cache.get, key)
        if entry is not None:
            return self._from_entry(entry, self.cache)
        judgement = await self._ask(key, texts)
        kept = {"label": judgement.label, "reason": judgement.reason, "by": judgement.by}
        await asyncio.to_thread(self.cache.put, key, kept)
        return judgement

    def _from_entry(self, entry: Mapping[str, Any], cache: JudgeCache) -> Judgement:
        label, reason, by = (str(entry.get(name, "")) for name in ("label", "reason", "by"))
        if label not in self.rubric.grades or not reason or not by:
            raise DataError(f"{cache.file}: holds an entry that is no judgement by {self.rubric.name!r}; move it away")
        return Judgement(self.rubric.grades[label], label, by, cached=True, reason=reason)

    async def _ask(self, key: str, texts: Mapping[str, str]) -> Judgement:
        policy = self.policy.start(derive(self.seed, "judge", key)) if isinstance(self.policy, Model) else self.policy
        said = _Said(self.rubric.messages(texts, self.form))
        error = ""
        for _ in range(self.retries + 1):
            parsed = await self._turn(policy, said)
            arguments, error = self._read(parsed)
            if arguments is not None:
                return self._judgement(arguments, said)
            said.answers.append(message_text(parsed.message)[:_SHOWN_CHARS])
            said.messages += _corrected(parsed, fill(prompt(__package__, "again"), error=error, how=self._how))
        times = f"{self.retries + 1} times" if self.retries else "once"
        raise JudgeError("malformed", f"{self._by} was asked {times} and did not judge: {error}", said.answers)

    @property
    def _how(self) -> str:
        return self.rubric.how(self.form)

    async def _turn(self, policy: Policy, said: _Said) -> ParsedAction:
        tools = [self.rubric.tool.schema] if self.form == "tool" else []
        try:
            reply = await call_policy(policy, said.messages, tools, self.blocking)
        except ContextOverflowError as error:
            raise JudgeError("context_limit", f"the case does not fit the context of {self._by}: {error}") from error
        completion: Completion = reply.get("completion") or {}
        add_usage(said.usage, completion.get("usage"))
        return parse_action(reply, implicit={"label": SUBMIT})

    def _read(self, parsed: ParsedAction) -> tuple[dict[str, Any] | None, str]:
        """The arguments of the one judgement in an answer, or None and what is wrong."""
        item = parsed.items[0]
        if len(parsed.items) != 1:
            return None, f"The message holds {len(parsed.items)} calls; one is wanted."
        if isinstance(item, CallError):
            return None, item.message
        if item.name != SUBMIT:
            return None, f"There is no tool {item.name!r}."
        wrong = self.rubric.tool.check(item.arguments)
        return (item.arguments, "") if wrong is None else (None, wrong.message)

    def _judgement(self, arguments: Mapping[str, Any], said: _Said) -> Judgement:
        label = arguments["label"]
        reason = arguments["reason"].strip()[:_REASON_CHARS]
        return Judgement(self.rubric.grades[label], label, self._by, reason=reason, usage=said.usage)


def _corrected(parsed: ParsedAction, error: str) -> list[Message]:
    """The answer that did not fit, and what is wrong with it; every native call gets its reply."""
    message: Message = {"role": "assistant", "content": parsed.message["content"]}
    calls = parsed.message.get("tool_calls")
    if calls:
        message["tool_calls"] = calls
        replies: list[Message] = [{"role": "tool", "tool_call_id": one["id"], "content": error} for one in calls]
        return [message, *replies]
    message["content"] = message["content"] or "(no answer)"
    return [message, {"role": "user", "content": error}]


def _plain(details: dict[str, Any], policy: object) -> dict[str, Any]:
    try:
        json.dumps(details, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{type(policy).__name__}.describe() must return plain JSON data: {error}") from None
    return details


def _who(policy: object, details: Mapping[str, Any]) -> str:
    """The name of a policy as its description says it, else that of its class."""
    return _named(details) or type(policy).__name__


def _named(details: Mapping[str, Any]) -> str:
    """ "kind:model", and of an ensemble its models in brackets; empty where the description says neither."""
    said = [details.get(name) for name in ("kind", "model")]
    name = ":".join(one for one in said if isinstance(one, str) and one)
    inner = details.get("models")
    names = [_named(one) for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []
    return f"{name}({', '.join(names)})" if any(names) else name
