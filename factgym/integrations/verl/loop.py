"""The agent loop "factgym": one rollout of verl's is one episode.

It ends with the episode, for which verl's own tool loop has no signal; a message is one turn, however many calls it
holds, and a text without a call is the environment's to answer. Tool text is bounded by the environment alone
(`max_observation_chars`); verl's bound of 256 characters is that of its tool loop. Where the environment shows its policy less than
the whole transcript (ProFact's stages), each context is a row of its own, as verl's trainer takes them.

A fault of the infrastructure is no zero: the rollout is left out of its group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import index
from typing import Any
from uuid import uuid4

import numpy as np
from verl.experimental.agent_loop import AgentLoopBase
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, register

from factgym.core.config import build_checked
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.integrations.credit import Turn, decode, spread, token_offsets
from factgym.integrations.session import Session
from factgym.integrations.verl.advantages import KL_IN_REWARD, FactOutput, Layout, form_of
from factgym.integrations.verl.reading import Reader
from factgym.integrations.verl.rows import AGENT, RowTask, slot

Rendered = dict[str, Any]


@dataclass(slots=True)
class Context:
    """shown: the messages as the environment knows them. rendered: as the template is given them. schemas: the tools.

    prompt, response: tokens. mask: 1 on those of the policy. logprobs: of the response, None without. turns: the
    policy's messages, `first` counted in the response. extra: what the server says of its replies. experts: its routing.
    """

    shown: list[Message]
    rendered: list[Rendered]
    schemas: list[ToolSchema]
    prompt: list[int] = field(default_factory=list)
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = None
    turns: list[Turn] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    experts: Any = None

    @property
    def tokens(self) -> list[int]:
        """Prompt and response."""
        return self.prompt + self.response

    def extends(self, messages: Sequence[Message], names: Sequence[str]) -> bool:
        """Whether the messages only add to what is shown here, and the tools are the same."""
        same = [schema["function"]["name"] for schema in self.schemas] == list(names)
        return same and list(messages[: len(self.shown)]) == self.shown

    def merged(self, builder: Any, result: Any, logprobs: Sequence[float] | None = None) -> None:
        """Take the tokens of a merge of the builder's, which may cut at the seam."""
        known = self.logprobs
        if known is None and logprobs is not None and not self.mask:
            known = []
        if self.turns:  # the template may write the policy's last tokens itself
            last, kept = self.turns[-1], len(self.response) - result.removed_prefix_token_count
            last.ids = last.ids[: max(0, kept - last.first)]
        given = {"assistant_logprobs": list(logprobs)} if logprobs is not None and known is not None else {}
        self.mask, self.logprobs = builder.align_response_metadata(result, self.mask, known, **given)
        tokens = list(result.token_ids)
        self.prompt = tokens[: len(tokens) - len(self.mask)]
        self.response = tokens[len(tokens) - len(self.mask) :]

    def noted(self, reply: Any) -> None:
        """Keep what the server says of a reply: the first weights' version, the last one's, and sums of counts."""
        if not self.extra:
            self.extra = dict(reply.extra_fields)
        else:
            for key, value in reply.extra_fields.items():
                if key.startswith("spec_num_") and key in self.extra:
                    self.extra[key] = int(self.extra[key]) + int(value)
                elif key == "max_global_steps" and value:
                    self.extra[key] = value
        if reply.routed_experts is not None:
            self.experts = reply.routed_experts

    def closed(self) -> None:
        """Drop what was said to the policy after its last message."""
        end = self.turns[-1].first + len(self.turns[-1].ids) if self.turns else 0
        self.response, self.mask = self.response[:end], self.mask[:end]
        if self.logprobs is not None:
            self.logprobs = self.logprobs[:end]


def merger(builder: Any) -> Callable[..., Any]:
    """The builder's method that appends what is not the policy's: verl 0.9.0 and 0.9.1 call it differently."""
    found: Callable[..., Any] = getattr(builder, "merge_context_tokens", None) or builder.merge_non_assistant_tokens
    return found


def as_said(message: Message) -> Rendered:
    """A message of the policy's as templates take it: arguments as data."""
    found: Rendered = {"role": "assistant", "content": message.get("content") or ""}
    if message.get("tool_calls"):
        found["tool_calls"] = [
            {"type": "function", "id": call["id"], "function": _with_data(call["function"])}
            for call in message["tool_calls"]
        ]
    return found


def _with_data(function: Mapping[str, Any]) -> Rendered:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = function["arguments"]
    return {"name": function["name"], "arguments": arguments}


def as_answered(messages: Sequence[Message], said: Message) -> list[Rendered]:
    """The environment's answers as templates take them: a tool's message has the tool's name."""
    names = {call["id"]: call["function"]["name"] for call in said.get("tool_calls") or []}
    found: list[Rendered] = []
    for message in messages:
        one: Rendered = {"role": message["role"], "content": message["content"] or ""}
        if message["role"] == "tool":
            one["tool_call_id"] = message["tool_call_id"]
            if message["tool_call_id"] in names:
                one["name"] = names[message["tool_call_id"]]
        found.append(one)
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """The section `data.factgym` of a configuration.

    dense_weight: λ of "factgym_grpo" and "factgym_hrpo". group_column: the rows' column, whole numbers, within which
    "factgym_hrpo" compares.
    """

    dense_weight: float = 0.5
    group_column: str = "hops"


@register(AGENT)
class FactAgentLoop(AgentLoopBase):
    """Plays the row's task. Raises ConfigError for verl's former trainer, and for options that do not exist."""

    def __init__(self, *args: Any, tools: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.config.trainer.get("use_v1", True):
            raise ConfigError("the agent loop 'factgym' is for verl's trainer: set trainer.use_v1=true")
        self._builder = self.continuous_token_builder or _builder(self)
        self._merge = merger(self._builder)
        self._reader = Reader(self.tokenizer, self.rollout_config.multi_turn.format)
        self._options = build_checked(Options, "data.factgym", dict(self.data_config.get("factgym") or {}))
        self._form = form_of(self.config.algorithm.adv_estimator)
        if self._form and self.config.algorithm.get("use_kl_in_reward", False):
            raise ConfigError(KL_IN_REWARD)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> FactOutput | list[FactOutput]:
        """One episode: its row, its rows where the policy was shown several contexts, none without a score.

        kwargs: the row's columns. Raises ConfigError for rows that are not ours, and for a first prompt longer than
        `data.max_prompt_length`.
        """
        row, layout = RowTask.of(kwargs.get("extra_info")), self._layout(kwargs)
        async with slot(row) as session:
            rollout = _Rollout(self, session, sampling_params, kwargs.get("raw_prompt"))
            await rollout.play()
            return self._outputs(rollout, layout)

    def _layout(self, row: Mapping[str, Any]) -> Layout:
        if self._form is None:
            return Layout(None)
        group = 0
        if self._form == "hrpo":
            column = self._options.group_column
            if column not in row:
                raise ConfigError(
                    f"factgym_hrpo compares rows that agree in the column {column!r}, which these have not: add it, or "
                    "set data.factgym.group_column"
                )
            group = _whole(row[column], column)
        session = row.get("session_id")
        return Layout(self._form, self._options.dense_weight, group, 0 if session is None else int(session) + 1)

    def _outputs(self, rollout: _Rollout, layout: Layout) -> FactOutput | list[FactOutput]:
        session = rollout.session
        report = session.close()
        contexts = [context for context in rollout.contexts if context.turns]
        if report.total is None or not contexts:
            return []
        for context in contexts:
            context.closed()
        starts = np.cumsum([0, *(len(context.response) for context in contexts)])
        parts = [slice(int(a), int(b)) for a, b in pairwise(starts)]
        mask = np.concatenate([np.array(context.mask, dtype=np.bool_) for context in contexts])
        turns = [
            replace(turn, first=turn.first + part.start)
            for context, part in zip(contexts, parts, strict=True)
            for turn in context.turns
        ]
        credit = spread(session, turns, mask, lambda turn: token_offsets(self.tokenizer, turn.ids, turn.text))
        rewards = layout.rewards(credit, report.total, parts, mask)
        found = [
            self._output(context, rollout, values, layout.tail)
            for context, values in zip(contexts, rewards, strict=True)
        ]
        # Once is enough for what may be long.
        found[-1].extra_fields["factgym"] = {
            "task": session.task,
            "stop": str(session.stop),
            "report": report.to_dict(),
        }
        return found[0] if len(found) == 1 else found

    def _output(self, context: Context, rollout: _Rollout, rewards: list[float], tail: int) -> FactOutput:
        session, experts = rollout.session, context.experts
        given: dict[str, Any] = {
            "prompt_ids": context.prompt,
            "response_ids": context.response + [self._end] * tail,
            "response_mask": context.mask + [0] * tail,
            "token_rewards": rewards,
            "reward_score": session.reward,
            "num_turns": 2 * len(session.env.episode.turns),
            "metrics": rollout.metrics,
            "extra_fields": {
                **context.extra,
                "turn_scores": session.turn_rewards(),
                "tool_rewards": [],
                "reward_extra_info": session.metrics(),
            },
        }
        if context.logprobs is not None:
            given["response_logprobs"] = context.logprobs + [0.0] * tail
        if experts is not None:
            given["routed_experts"] = experts[: len(context.prompt) + len(context.response) + tail]
        return FactOutput(**given)

    @property
    def _end(self) -> int:
        return int(self.tokenizer.eos_token_id)


class _Rollout:
    """An episode while it is played. contexts: what the policy was shown, one after the other."""

    def __init__(self, loop: FactAgentLoop, session: Session, sampling: Mapping[str, Any], prompt: Any) -> None:
        self.loop, self.session = loop, session
        self.contexts: list[Context] = []
        self.metrics = AgentLoopMetrics(num_preempted=-1)
        self._slow = session.env.slow_steps
        self._tails: dict[tuple[int, ...], bool] = {}
        self._isolated = type(session.env).policy_prompt is not Env.policy_prompt
        self._prompt = None if prompt is None or self._isolated else [dict(message) for message in prompt]
        self._id = uuid4().hex
        stops = sorted({*(sampling.get("stop_token_ids") or []), *loop._reader.stop_token_ids})
        self._sampling = {**sampling, **({"stop_token_ids": stops} if stops else {})}
        config = loop.rollout_config
        self._most_prompt, self._most_response = int(config.prompt_length), int(config.response_length)
        self._window = int(config.get("max_model_len") or self._most_prompt + self._most_response)
        self._tail = 0 if loop._form is None else Layout(loop._form).tail

    async def play(self) -> None:
        """Play to the end of the episode; what does not fit ends it, and it is scored as it stands."""
        while not self.session.done:
            context = await self._shown()
            if context is None:
                return
            room = self._room(context)
            ids, logprobs = await self._sampled(context, room)
            if not ids:
                self.session.close("length_limit")
                return
            await self._played(context, ids, logprobs)
            if not self.session.done and len(ids) >= room:
                self.session.close("length_limit")

    def _room(self, context: Context) -> int:
        left = self._window - self._tail - len(context.prompt) - len(context.response)
        return min(self._most_response - self._tail - len(context.response), left)

    async def _shown(self) -> Context | None:
        """The context with all that the environment said, or a new one; None where it does not fit."""
        messages = self.session.messages
        last = self.contexts[-1] if self.contexts else None
        if last is not None and last.extends(messages, self._names()):
            await self._answered(last, messages)
            if self._room(last) < 1:
                short = self._most_response - self._tail <= len(last.response)
                self.session.close("length_limit" if short else "context_limit")
                return None
            return last
        return await self._began(messages)

    def _schemas(self) -> list[ToolSchema]:
        return self.session.tools() if self._isolated else self.session.all_tools()

    def _names(self) -> list[str]:
        return [schema["function"]["name"] for schema in self._schemas()]

    async def _began(self, messages: Sequence[Message]) -> Context | None:
        rendered = self._prompt if self._prompt is not None else [dict(message) for message in messages]
        context = Context(list(messages), rendered, self._schemas())
        context.prompt = await self._off_the_loop(
            lambda: list(self.loop._builder.build_initial_tokens(rendered, tools=context.schemas or None))
        )
        if len(context.prompt) > self._most_prompt or self._room(context) < 1:
            if not self.contexts:
                raise ConfigError(
                    f"the first prompt of {self.session.task} has {len(context.prompt)} tokens, and "
                    f"data.max_prompt_length is {self._most_prompt}: set it higher, or data.filter_overlong_prompts=true"
                )
            self.session.close("context_limit")
            return None
        self.contexts.append(context)
        return context

    async def _answered(self, context: Context, messages: Sequence[Message]) -> None:
        said, answers = messages[len(context.shown)], messages[len(context.shown) + 1 :]
        before = [*context.rendered, as_said(said)]
        after = [*before, *as_answered(answers, said)]
        result = await self._off_the_loop(
            lambda: self.loop._merge(before, after, context.tokens, tools=context.schemas or None)
        )
        context.merged(self.loop._builder, result)
        context.shown, context.rendered = list(messages), after

    async def _sampled(self, context: Context, room: int) -> tuple[list[int], list[float] | None]:
        begin = time.perf_counter()
        reply = await self.loop.server_manager.generate(
            request_id=self._id,
            prompt_ids=context.tokens,
            sampling_params={**self._sampling, "max_tokens": room},
        )
        self.metrics.generate_sequences += time.perf_counter() - begin
        if reply.num_preempted is not None:
            self.metrics.num_preempted = max(self.metrics.num_preempted, 0) + reply.num_preempted
        context.noted(reply)
        logprobs = list(reply.log_probs)[:room] if reply.log_probs else None
        return list(reply.token_ids)[:room], logprobs

    async def _played(self, context: Context, ids: list[int], logprobs: list[float] | None) -> None:
        """Append what the policy said, and play it."""
        env, tokenizer = self.session.env, self.loop.tokenizer
        opened = self._opened(context.tokens[-8:])
        context.merged(self.loop._builder, self.loop._builder.merge_assistant_tokens(context.tokens, ids), logprobs)
        text = decode(tokenizer, ids)
        number = len(env.episode.turns)
        message = await self.loop._reader.read(env, text, ids, context.schemas, number, opened)
        first = len(context.response) - len(ids)
        context.turns.append(Turn(len(env.episode.messages), first, ids, text, message))
        begin = time.perf_counter()
        if self._slow:
            await self.session.say_async(message)
        else:
            self.session.say(message)
        self.metrics.tool_calls += time.perf_counter() - begin

    def _opened(self, tail: list[int]) -> bool:
        """Whether a prompt with these last tokens ends inside a `<think>`; most end alike, and decoding takes long."""
        known = self._tails.get(tuple(tail))
        if known is None:
            known = decode(self.loop.tokenizer, tail).rstrip().endswith("<think>")
            self._tails[tuple(tail)] = known
        return known

    async def _off_the_loop(self, work: Any) -> Any:
        return await self.loop.loop.run_in_executor(None, work)


def _whole(value: Any, column: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise ConfigError(f"the column {column!r} holds whole numbers for factgym_hrpo, not {value!r:.80}") from None


def _builder(loop: Any) -> Any:
    """The builder that verl 0.9.0 makes only where `data.continuous_token.enable` says so."""
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    model = loop.config.actor_rollout_ref.model
    return create_continuous_token_builder(
        loop.tokenizer,
        model_family="auto",
        model_path=model.path,
        tokenizer_name_or_path=model.get("tokenizer_path"),
        chat_template_kwargs=loop.apply_chat_template_kwargs,
    )
