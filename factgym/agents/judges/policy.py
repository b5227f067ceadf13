"""A policy as a judge: any model gets a rubric's fixed prompt, and its answer is checked against a schema.

The answer is read by the environments' parser of actions, never by a search through the text. An answer that does not
fit is requested again with the error; after that the case is unscored (`JudgeError`). A fault of the infrastructure
(`PolicyError`) passes through. Only judgements that fit are cached.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from factgym.agents.agent import Model
from factgym.agents.judges.base import Case, Judge, JudgeError, Judgement
from factgym.agents.judges.fallback import ContainmentJudge, LexicalCheckJudge
from factgym.agents.judges.prompt import PROMPTS, SUBMIT, AnswerForm, JudgePrompt
from factgym.core.action import ParsedAction, parse_action
from factgym.core.caching import Flights, SqliteCache
from factgym.core.calls import CallError
from factgym.core.errors import ConfigError, DataError, ToolError, did_you_mean
from factgym.core.messages import Completion, Message, Usage, message_text
from factgym.core.policy import Policy, PromptRefusedError, add_usage, call_policy
from factgym.core.prompts import fill, prompt
from factgym.core.seeds import derive
from factgym.tools.toolbox import Tool

_REASON_CHARS = 2_000
_ANSWER_CHARS = 400


class JudgeCache(SqliteCache):
    """Judgements on disk, so that the same case is paid for once. Safe under threads and processes.

    One SQLite file in a folder, which is made when it is missing. A key is a SHA-256 over all that a judgement depends
    on; the file holds keys and judgements as JSON, never a case's text nor a secret.

    Raises DataError, here and in every method, that names the file when it is damaged, not ours or cannot be used.
    """

    content: ClassVar[str] = "judgement cache"
    table: ClassVar[str] = "judgements"
    application: ClassVar[int] = 0x46474A31

    def __init__(self, folder: str | Path) -> None:
        super().__init__(Path(folder) / "judgements.sqlite")


class PolicyJudge(Judge):
    """A policy, or a model, as a judge. Cases are judged concurrently, so a plain policy must be stateless.

    form: whether the judge calls a tool or writes JSON; either is understood under both. cache: of judgements, None
    for none. retries: requests after an answer that does not fit. seed: of a model's sampling; it is part of a cached
    judgement's key. name: of the judge, in reports and in the keys; by default from the policy's `describe()`.
    blocking: a plain `act` takes long and is called in a thread. Raises ConfigError for a cache with a policy that is
    identified neither by itself nor by `name`.
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
            raise ConfigError(
                f"{type(policy).__name__} has no describe(), so its judgements cannot be told from another's: give "
                "the judge a name=, the policy a describe(), or no cache."
            )
        self.policy = policy
        self.rubric = rubric
        self.cache = cache
        self.form: AnswerForm = form
        self.retries = retries
        self.seed = seed
        self.blocking = blocking
        self._details = describe() if describe else {}
        try:
            json.dumps(self._details, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{type(policy).__name__}.describe() must return plain JSON data: {error}") from None
        self._by = name or display_name(self._details) or type(policy).__name__
        self._flights: Flights[Judgement] = Flights()

    def describe(self) -> dict[str, Any]:
        """Rubric, prompt hash, scale and the policy's own description."""
        return {
            **self.rubric.describe(),
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
        """Judge a case; the policy gets the same case once, even if it is judged twice at once. See `Judge.judge`."""
        texts = self.rubric.check(case)
        identity = [self._by, self._details, self.seed]
        parts = [self.rubric.fingerprint(self.form), self.rubric.schema, identity, texts]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        judgement, started = await self._flights.share(key, lambda: self._judge_cached(key, texts))
        return judgement if started else replace(judgement, cached=True, usage={})

    async def _judge_cached(self, key: str, texts: Mapping[str, str]) -> Judgement:
        if self.cache is None:
            return await self._call_judge(key, texts)
        entry = await asyncio.to_thread(self.cache.get, key)
        if entry is not None:
            label, reason, by = (str(entry.get(name, "")) for name in ("label", "reason", "by"))
            if label not in self.rubric.grades or not reason or not by:
                raise DataError(
                    f"{self.cache.file}: holds an entry that is no judgement by {self.rubric.name!r}; move it away"
                )
            return Judgement(self.rubric.grades[label], label, by, cached=True, reason=reason)
        judgement = await self._call_judge(key, texts)
        entry = {"label": judgement.label, "reason": judgement.reason, "by": judgement.by}
        await asyncio.to_thread(self.cache.put, key, entry)
        return judgement

    async def _call_judge(self, key: str, texts: Mapping[str, str]) -> Judgement:
        """Call the policy until an answer fits, at most `retries` times more, each time with the error."""
        policy = self.policy.start(derive(self.seed, "judge", key)) if isinstance(self.policy, Model) else self.policy
        messages = self.rubric.messages(texts, self.form)
        tools = [self.rubric.tool.schema] if self.form == "tool" else []
        how = self.rubric.how(self.form)
        usage, answers, error = Usage(), [], ""
        for _ in range(self.retries + 1):
            try:
                reply = await call_policy(policy, messages, tools, self.blocking)
            except PromptRefusedError as refused:
                text = f"{self._by} cannot judge the case ({refused.stop}): {refused}"
                raise JudgeError(refused.stop, text) from refused
            completion: Completion = reply.get("completion") or {}
            add_usage(usage, completion.get("usage"))
            parsed = parse_action(reply, implicit={"label": SUBMIT})
            arguments = submitted_arguments(parsed, self.rubric.tool)
            if isinstance(arguments, str):
                error = arguments
            else:
                label, reason = arguments["label"], arguments["reason"].strip()[:_REASON_CHARS]
                return Judgement(self.rubric.grades[label], label, self._by, reason=reason, usage=usage)
            answers.append(message_text(parsed.message)[:_ANSWER_CHARS])
            messages += corrected(parsed, fill(prompt(__package__, "again"), error=error, how=how))
        times = f"{self.retries + 1} times" if self.retries else "once"
        raise JudgeError("malformed", f"{self._by} was called {times} and did not judge: {error}", answers)


def submitted_arguments(parsed: ParsedAction, tool: Tool) -> dict[str, Any] | str:
    """The arguments of the only call in an answer, which is of this tool, or the error as text."""
    item = parsed.items[0]
    if len(parsed.items) != 1:
        return f"The message holds {len(parsed.items)} calls; one is wanted."
    if isinstance(item, CallError):
        return item.message
    if item.name != tool.name:
        return f"There is no tool {item.name!r}."
    arguments = tool.fit(item.arguments, item.texts)
    return arguments.message if isinstance(arguments, ToolError) else dict(arguments)


def corrected(parsed: ParsedAction, error: str) -> list[Message]:
    """The answer that did not fit, and its error; every native call gets a reply."""
    message: Message = {"role": "assistant", "content": parsed.message["content"]}
    calls = parsed.message.get("tool_calls")
    if calls:
        message["tool_calls"] = calls
        replies: list[Message] = [{"role": "tool", "tool_call_id": call["id"], "content": error} for call in calls]
        return [message, *replies]
    message["content"] = message["content"] or "(no answer)"
    return [message, {"role": "user", "content": error}]


def display_name(details: Mapping[str, Any]) -> str:
    """ "kind:model", and of an ensemble its models in brackets; empty where the description has neither."""
    parts = [details.get(name) for name in ("kind", "model")]
    name = ":".join(part for part in parts if isinstance(part, str) and part)
    models = details.get("models")
    names = [display_name(model) for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return f"{name}({', '.join(names)})" if any(names) else name


_FALLBACKS = {judge.rubric.name: judge for judge in (ContainmentJudge, LexicalCheckJudge)}


def judge_from(
    policy: Policy | Model | None,
    prompt_name: str,
    cache: JudgeCache | str | Path | None = None,
    *,
    name: str | None = None,
) -> Judge:
    """The judge for a shipped rubric: a policy judge, or without a policy the rubric's fallback.

    policy: None for the deterministic fallback, which caches nothing. cache: or the folder of one. name: of the judge.
    Raises ConfigError for an unknown rubric.
    """
    if prompt_name not in PROMPTS:
        hint = did_you_mean(prompt_name, PROMPTS)
        raise ConfigError(f"there is no rubric {prompt_name!r}.{hint} There are: {', '.join(PROMPTS)}.")
    if policy is not None:
        if cache is not None and not isinstance(cache, JudgeCache):
            cache = JudgeCache(cache)
        return PolicyJudge(policy, PROMPTS[prompt_name], cache=cache, name=name)
    return _FALLBACKS[prompt_name]()
