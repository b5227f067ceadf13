"""The dataset class and the agent loop "factgym": one rollout of verl's is one episode, and one message is one turn.

Tool text is bounded by the environment alone (`max_observation_chars`). Where the environment shows its policy less than
the whole transcript (ProFact's stages), each context is a row of its own, as verl's trainer takes them. A fault of the
infrastructure is no zero: the rollout is left out of its group."""

from __future__ import annotations

import asyncio
import json
import re
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
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.tools.schemas import OpenAIFunctionToolSchema
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.tokenizer import normalize_token_ids
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from factgym.agents.sampling import split_reasoning
from factgym.core.calls import ToolCall
from factgym.core.config import build_checked
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.messages import Message, ToolSchema
from factgym.integrations.credit import Turn, decode, policy_message, token_credit
from factgym.integrations.session import Session
from factgym.integrations.verl.advantages import KL_IN_REWARD, FactOutput, Layout, form_of
from factgym.integrations.verl.rows import AGENT, RowTask

HERMES = "hermes"
_CALL_BLOCK = re.compile(r"<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)
_SINGLE_CALL = re.compile(r"\s*<tool_call>\s*(\{.*\})\s*</tool_call>\s*", re.DOTALL)

Rendered = dict[str, Any]
"""A message as chat templates take it."""


class FactDataset(RLHFDataset):
    """`data.custom_cls` of a run: verl's own, whose bound on prompts counts the tools of the environment too."""

    def maybe_filter_out_long_prompts(self, dataframe: Any = None) -> Any:
        """Return the rows whose prompt, tools included, fits `data.max_prompt_length`; all without the filter."""
        if not self.filter_overlong_prompts:
            return dataframe
        schemas: dict[tuple[str, str], list[ToolSchema]] = {}

        def fits(row: Any) -> bool:
            task = RowTask.of(row["extra_info"])
            key = (task.env, task.settings)
            if key not in schemas:
                schemas[key] = task.pool.acquire().all_tools()
            ids = self.tokenizer.apply_chat_template(
                row[self.prompt_key],
                tools=schemas[key] or None,
                add_generation_prompt=True,
                tokenize=True,
                **self.apply_chat_template_kwargs,
            )
            return bool(len(normalize_token_ids(ids)) <= self.max_prompt_length)

        return dataframe.filter(fits, desc=f"Prompts of at most {self.max_prompt_length} tokens")


class ReplyParser:
    """Parses sampled texts in the format that `rollout.multi_turn.format` names.

    Calls in Hermes' format are parsed by the environment's own parser, so that the environment refuses a malformed one;
    those of other formats by verl's parser for them. Raises ConfigError for a format that verl does not have.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        formats = sorted(ToolParser._registry)
        if name not in formats:
            raise ConfigError(
                f"verl has no tool format {name!r}.{did_you_mean(name, formats)} It has {', '.join(formats)}."
            )
        self.format = name
        self._parser = ToolParser.get_tool_parser(name, tokenizer)
        self.stop_token_ids: list[int] = list(self._parser.stop_token_ids)

    async def parse(
        self, env: Env[Any], text: str, ids: Sequence[int], schemas: Sequence[ToolSchema], turn: int, thinking: bool
    ) -> Message:
        """Return the message to play: native calls where there are some, else the text.

        ids: the tokens of the text. turn: its number, for the ids of the calls. thinking: whether the prompt ended
        inside a `<think>`.
        """
        reasoning, answer = split_reasoning(text, thinking)
        if self.format == HERMES:
            content, calls = _hermes_calls(env, text, answer)
        else:
            try:
                # verl's type for schemas has fewer fields than JSON Schema, and its parsers read no others.
                tools = [OpenAIFunctionToolSchema.model_validate(schema) for schema in schemas]
                content, functions = await self._parser.extract_tool_calls(list(ids), tools)
                calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in functions]
                content = content.strip()
            except Exception:  # noqa: BLE001 - a text that a parser cannot read is refused by the environment
                content, calls = answer, []
        parsed: dict[str, Any] = {"content": content, "tool_calls": [{"function": call} for call in calls]}
        if reasoning:
            parsed["reasoning_content"] = reasoning
        return policy_message(parsed, text, turn)


def _hermes_calls(env: Env[Any], text: str, answer: str) -> tuple[str, list[dict[str, Any]]]:
    """Content and calls of a text; no calls where the environment's parser finds an error in one of them."""
    if "<tool_call>" not in answer:
        return answer, []
    if single := _SINGLE_CALL.fullmatch(answer):
        try:
            call = json.loads(single[1])
        except (ValueError, RecursionError):
            call = {}
        if call.keys() == {"name", "arguments"} and type(call["name"]) is str and type(call["arguments"]) is dict:
            return "", [call]
    items = env.parser.parse(text).items
    calls = [{"name": item.name, "arguments": item.arguments} for item in items if isinstance(item, ToolCall)]
    # Calls whose arguments are texts get their types from the environment, and are played as the text that they are.
    is_read = len(calls) == len(items) and not any(isinstance(item, ToolCall) and item.texts for item in items)
    return (_CALL_BLOCK.sub("", answer).strip(), calls) if is_read else (answer, [])


@dataclass(slots=True)
class Context:
    """A prompt of the policy's and all that followed it; an environment with isolated contexts has several.

    messages: as the environment has them. rendered: as the template gets them. schemas: the tools. prompt, response:
    tokens. mask: 1 on those of the policy. logprobs: of the response, None without. turns: the policy's messages,
    `first` counted in the response. extra: the server's metadata on its replies. experts: its routing.
    """

    messages: list[Message]
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

    def is_prefix_of(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> bool:
        """Whether the messages only add to this context's, and the tools have the same names."""
        names, other_names = ([schema["function"]["name"] for schema in group] for group in (self.schemas, tools))
        return names == other_names and list(messages[: len(self.messages)]) == self.messages

    def update(self, builder: Any, result: Any, logprobs: Sequence[float] | None = None) -> None:
        """Take the tokens of a merge of the builder's, which may remove tokens at the seam."""
        # The builder tokenises the seam between two messages as the template would: it may remove tokens at the end of
        # the policy's message, which then no longer belong to its turn.
        previous = self.logprobs
        if previous is None and logprobs is not None and not self.mask:
            previous = []
        if self.turns:
            last, length = self.turns[-1], len(self.response) - result.removed_prefix_token_count
            last.ids = last.ids[: max(0, length - last.first)]
        options = {"assistant_logprobs": list(logprobs)} if logprobs is not None and previous is not None else {}
        self.mask, self.logprobs = builder.align_response_metadata(result, self.mask, previous, **options)
        tokens = list(result.token_ids)
        start = len(tokens) - len(self.mask)
        self.prompt, self.response = tokens[:start], tokens[start:]

    def add_metadata(self, reply: Any) -> None:
        """Keep the server's metadata on a reply: the first and last version of the weights, and sums of counts."""
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

    def trim(self) -> None:
        """Drop the tokens after the policy's last message."""
        end = self.turns[-1].first + len(self.turns[-1].ids) if self.turns else 0
        self.response, self.mask = self.response[:end], self.mask[:end]
        if self.logprobs is not None:
            self.logprobs = self.logprobs[:end]


def render_reply(message: Message) -> Rendered:
    """Return a message of the policy's as templates take it: arguments as data."""
    rendered: Rendered = {"role": "assistant", "content": message.get("content") or ""}
    calls = []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:
            arguments = function["arguments"]
        calls.append(
            {"type": "function", "id": call["id"], "function": {"name": function["name"], "arguments": arguments}}
        )
    if calls:
        rendered["tool_calls"] = calls
    return rendered


def render_answers(answers: Sequence[Message], reply: Message) -> list[Rendered]:
    """Return the environment's answers to a reply as templates take them: a tool's message has the tool's name."""
    names = {call["id"]: call["function"]["name"] for call in reply.get("tool_calls") or []}
    rendered: list[Rendered] = []
    for answer in answers:
        rendered.append({"role": answer["role"], "content": answer["content"] or ""})
        if answer["role"] == "tool":
            call_id = answer["tool_call_id"]
            rendered[-1]["tool_call_id"] = call_id
            if call_id in names:
                rendered[-1]["name"] = names[call_id]
    return rendered


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
        model, builder = self.config.actor_rollout_ref.model, self.continuous_token_builder
        if builder is None:  # verl 0.9.0 makes one only with `data.continuous_token.enable`
            builder = create_continuous_token_builder(
                self.tokenizer,
                model_family="auto",
                model_path=model.path,
                tokenizer_name_or_path=model.get("tokenizer_path"),
                chat_template_kwargs=self.apply_chat_template_kwargs,
            )
        self._builder: Any = builder
        # The builder's method that appends tokens of the environment: verl 0.9.0 and 0.9.1 name it differently.
        self._merge: Callable[..., Any] = (
            getattr(builder, "merge_context_tokens", None) or builder.merge_non_assistant_tokens
        )
        self._parser = ReplyParser(self.tokenizer, self.rollout_config.multi_turn.format)
        self._options = build_checked(Options, "data.factgym", dict(self.data_config.get("factgym") or {}))
        self._form = form_of(self.config.algorithm.adv_estimator)
        if self._form and self.config.algorithm.get("use_kl_in_reward", False):
            raise ConfigError(KL_IN_REWARD)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> FactOutput | list[FactOutput]:
        """Play one episode; return its row, its rows where the policy had several contexts, none without a score.

        kwargs: the row's columns. Raises ConfigError for rows that are not ours, and for a first prompt longer than
        `data.max_prompt_length`.
        """
        task, layout = RowTask.of(kwargs.get("extra_info")), self._layout(kwargs)
        # Making the first session may build an index, which must not block the other rollouts of this process.
        session = task.pool.idle()
        if session is None:
            session = await asyncio.to_thread(task.pool.acquire)
        session.env.reset(options={"task": task.task})
        rollout = _Rollout(self, session, layout.tail, sampling_params, kwargs.get("raw_prompt"))
        await rollout.play()
        outputs = self._outputs(rollout, layout)
        task.pool.release(session)
        return outputs[0] if len(outputs) == 1 else outputs

    def _layout(self, row: Mapping[str, Any]) -> Layout:
        if self._form is None:
            return Layout(None)
        group, column = 0, self._options.group_column
        if self._form == "hrpo":
            if column not in row:
                raise ConfigError(
                    f"factgym_hrpo compares rows that agree in the column {column!r}, which these have not: add it, or "
                    "set data.factgym.group_column"
                )
            try:
                group = index(row[column])
            except TypeError:
                raise ConfigError(
                    f"the column {column!r} holds whole numbers for factgym_hrpo, not {row[column]!r:.80}"
                ) from None
        session = row.get("session_id")
        return Layout(self._form, self._options.dense_weight, group, 0 if session is None else int(session) + 1)

    def _outputs(self, rollout: _Rollout, layout: Layout) -> list[FactOutput]:
        """Return a row for each context of a rollout; credit is spread over the session and cut at the contexts."""
        session = rollout.session
        report = session.close()
        contexts = [context for context in rollout.contexts if context.turns]
        if report.total is None or not contexts:
            return []
        for context in contexts:
            context.trim()
        # Credit is that of the session: the contexts' responses, one after the other.
        starts = np.cumsum([0, *(len(context.response) for context in contexts)])
        parts = [slice(int(start), int(end)) for start, end in pairwise(starts)]
        mask = np.concatenate([np.array(context.mask, dtype=np.bool_) for context in contexts])
        turns = [
            replace(turn, first=turn.first + part.start)
            for context, part in zip(contexts, parts, strict=True)
            for turn in context.turns
        ]
        credit = token_credit(session, turns, mask, self.tokenizer)
        rewards = layout.rewards(credit, report.total, parts, mask)
        outputs, tail, end_token = [], layout.tail, int(self.tokenizer.eos_token_id)
        for context, token_rewards in zip(contexts, rewards, strict=True):
            optional: dict[str, Any] = {}
            if context.logprobs is not None:
                optional["response_logprobs"] = context.logprobs + [0.0] * tail
            if context.experts is not None:
                optional["routed_experts"] = context.experts[: len(context.tokens) + tail]
            outputs.append(
                FactOutput(
                    prompt_ids=context.prompt,
                    response_ids=context.response + [end_token] * tail,
                    response_mask=context.mask + [0] * tail,
                    token_rewards=token_rewards,
                    reward_score=session.reward,
                    num_turns=2 * len(session.env.episode.turns),
                    metrics=rollout.metrics,
                    extra_fields={
                        **context.extra,
                        "turn_scores": session.turn_rewards(),
                        "tool_rewards": [],
                        "reward_extra_info": session.metrics(),
                    },
                    **optional,
                )
            )
        # The report may be long: only the last row has it.
        outputs[-1].extra_fields["factgym"] = {
            "task": session.task,
            "stop": str(session.stop),
            "report": report.to_dict(),
        }
        return outputs


class _Rollout:
    """An episode while it is played. contexts: the policy's, one after the other. tail: tokens behind each of them."""

    def __init__(
        self, loop: FactAgentLoop, session: Session, tail: int, sampling: Mapping[str, Any], prompt: Any
    ) -> None:
        self.loop, self.session = loop, session
        self.contexts: list[Context] = []
        self.metrics = AgentLoopMetrics(num_preempted=-1)
        self._thinking: dict[tuple[int, ...], bool] = {}
        self._isolated = type(session.env).policy_prompt is not Env.policy_prompt
        self._row_prompt = None if prompt is None or self._isolated else [dict(message) for message in prompt]
        self._id = uuid4().hex
        stops = sorted({*(sampling.get("stop_token_ids") or []), *loop._parser.stop_token_ids})
        self._sampling = {**sampling, **({"stop_token_ids": stops} if stops else {})}
        config = loop.rollout_config
        self._max_prompt, max_response = int(config.prompt_length), int(config.response_length)
        self._max_response = max_response - tail
        self._max_total = int(config.get("max_model_len") or self._max_prompt + max_response) - tail

    async def play(self) -> None:
        """Play to the end of the episode; a turn that does not fit truncates it, and it is scored."""
        while not self.session.done:
            context = await self._next_context()
            if context is None:
                return
            budget = self._budget(context)
            ids, logprobs = await self._sample(context, budget)
            if not ids:
                self.session.close("length_limit")
                return
            await self._step(context, ids, logprobs)
            if not self.session.done and len(ids) >= budget:
                self.session.close("length_limit")

    def _budget(self, context: Context) -> int:
        """Tokens that fit behind the context."""
        response = len(context.response)
        return min(self._max_response - response, self._max_total - len(context.prompt) - response)

    async def _next_context(self) -> Context | None:
        """The last context with the environment's answers, or a new context; None where it does not fit."""
        session = self.session
        messages, tools = session.messages, session.tools() if self._isolated else session.all_tools()
        context = self.contexts[-1] if self.contexts else None
        if context is not None and context.is_prefix_of(messages, tools):
            await self._append_answers(context, messages)
            if self._budget(context) < 1:
                too_long = self._max_response <= len(context.response)
                session.close("length_limit" if too_long else "context_limit")
                return None
            return context
        rendered = self._row_prompt if self._row_prompt is not None else [dict(message) for message in messages]
        context = Context(list(messages), rendered, tools)
        context.prompt = await self._in_executor(
            lambda: list(self.loop._builder.build_initial_tokens(rendered, tools=tools or None))
        )
        if len(context.prompt) > self._max_prompt or self._budget(context) < 1:
            if not self.contexts:
                raise ConfigError(
                    f"the first prompt of {session.task} has {len(context.prompt)} tokens, and "
                    f"data.max_prompt_length is {self._max_prompt}: set it higher, or data.filter_overlong_prompts=true"
                )
            session.close("context_limit")
            return None
        self.contexts.append(context)
        return context

    async def _append_answers(self, context: Context, messages: Sequence[Message]) -> None:
        start = len(context.messages)
        reply, answers = messages[start], messages[start + 1 :]
        before = [*context.rendered, render_reply(reply)]
        after = [*before, *render_answers(answers, reply)]
        result = await self._in_executor(
            lambda: self.loop._merge(before, after, context.tokens, tools=context.schemas or None)
        )
        context.update(self.loop._builder, result)
        context.messages, context.rendered = list(messages), after

    async def _sample(self, context: Context, budget: int) -> tuple[list[int], list[float] | None]:
        start = time.perf_counter()
        reply = await self.loop.server_manager.generate(
            request_id=self._id, prompt_ids=context.tokens, sampling_params={**self._sampling, "max_tokens": budget}
        )
        self.metrics.generate_sequences += time.perf_counter() - start
        if reply.num_preempted is not None:
            self.metrics.num_preempted = max(self.metrics.num_preempted, 0) + reply.num_preempted
        context.add_metadata(reply)
        return list(reply.token_ids)[:budget], list(reply.log_probs)[:budget] if reply.log_probs else None

    async def _step(self, context: Context, ids: list[int], logprobs: list[float] | None) -> None:
        """Append the policy's tokens, and play their message."""
        session, builder, tokenizer = self.session, self.loop._builder, self.loop.tokenizer
        episode = session.env.episode
        tail = tuple(context.tokens[-8:])
        if tail not in self._thinking:  # most prompts end alike, and decoding takes long
            self._thinking[tail] = decode(tokenizer, tail).rstrip().endswith("<think>")
        context.update(builder, builder.merge_assistant_tokens(context.tokens, ids), logprobs)
        text = decode(tokenizer, ids)
        message = await self.loop._parser.parse(
            session.env, text, ids, context.schemas, len(episode.turns), self._thinking[tail]
        )
        context.turns.append(Turn(len(episode.messages), len(context.response) - len(ids), ids, text, message))
        start = time.perf_counter()
        await session.step_async(message)
        self.metrics.tool_calls += time.perf_counter() - start

    async def _in_executor(self, work: Callable[[], Any]) -> Any:
        return await self.loop.loop.run_in_executor(None, work)
