"""Trainers: `StopWhenDone` ends TRL's rollout when the episode ends, `DenseCredit` adds advantages of tokens.

TRL's own loop passes an environment one call after another, ends a rollout at the first message without a call and has
no way for an environment to end it. This one plays whole messages: several calls in one message are one turn, a text
without a call is answered by the environment, malformed calls are refused by the environment, and nothing is generated
after the end. The tokens that a rollout adds have TRL's form.

It rests on private methods of the trainer; a test pins what is used of each. `DenseCredit` has the forms of
`factgym.integrations.credit`; TRL's own advantage is the A_i of "grpo", and its loss takes advantages in shape (B, T)."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.messages import Message
from factgym.integrations.credit import FORMS, Credit, Floats, Row, spread, token_advantages, token_offsets
from factgym.integrations.trl.environment import FactEnvironment, episode_tokens, show_all

_THREADS = 16
_CHECKED_TASKS = 4


@dataclass(slots=True)
class _Rollout:
    """One rollout while it grows. first: the place in `ids` of the turn that was said last."""

    env: FactEnvironment
    tools: list[Any]
    prompt: list[int]
    ids: list[int]
    messages: list[dict[str, Any]]
    logprobs: list[float] | None
    mask: list[int]
    first: int = 0

    def shown(self, answers: Sequence[dict[str, Any]], suffix: Sequence[int]) -> None:
        """Append what the environment said, which is no text of the policy's."""
        self.messages.extend(answers)
        self.ids += suffix
        self.mask += [0] * len(suffix)
        if self.logprobs is not None:
            self.logprobs += [0.0] * len(suffix)
        self.first = len(self.ids)

    def said(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> None:
        """Append what the policy said."""
        self.ids += ids
        self.mask += [1] * len(ids)
        if self.logprobs is not None and logprobs is not None:
            self.logprobs += logprobs


class StopWhenDone:
    """Mix in before GRPOTrainer: `class Trainer(StopWhenDone, GRPOTrainer): ...`.

    Raises ConfigError when the trainer is built without an environment of ours, or with `tools=` beside one. Warns when
    `max_completion_length`, which bounds the whole episode with all that the tools say, is too short for episodes that
    the environment's oracle plays.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        trainer: Any = self
        pools = getattr(trainer, "_environment_pool", None) or {}
        ours = {name: pool[0] for name, pool in pools.items() if isinstance(pool[0], FactEnvironment)}
        if not ours:
            raise ConfigError(
                f"{type(self).__name__} needs environment_factory=factgym.integrations.trl.environment_factory(ID)"
            )
        if trainer._standalone_tools:
            raise ConfigError("tools= beside a factgym environment is not played by StopWhenDone: leave it out")
        for name, env in ours.items():
            # Signatures say less than schemas: nested fields, bounds and defaults would be lost in the prompt.
            trainer._env_tools[name] = list(env._schemas)
            _check_length(trainer, env)

    def _tool_call_loop(
        self,
        prompts: Any,
        prompt_ids: Any,
        completion_ids: Any,
        completions: Any,
        logprobs: Any,
        images: Any,
        multimodal_fields: Any,
    ) -> tuple[Any, ...]:
        trainer: Any = self
        if images or not all(isinstance(env, FactEnvironment) for env in trainer.environments):
            found: tuple[Any, ...] = super()._tool_call_loop(  # type: ignore[misc]
                prompts, prompt_ids, completion_ids, completions, logprobs, images, multimodal_fields
            )
            return found
        rollouts = [
            _Rollout(
                env=env,
                tools=trainer._env_tools[trainer._batch_environments[i]],
                prompt=list(prompt_ids[i]),
                ids=list(completion_ids[i]),
                messages=completions[i],
                logprobs=None if logprobs is None else list(logprobs[i]),
                mask=[1] * len(completion_ids[i]),
            )
            for i, env in enumerate(trainer.environments)
        ]
        _Loop(trainer).run(rollouts)
        turns = [turn for one in rollouts for turn in one.env.session.env.episode.turns]
        results = [result for turn in turns for result in turn.results if result.tool]
        return (
            [one.mask for one in rollouts],
            [one.messages for one in rollouts],
            [one.ids for one in rollouts],
            None if logprobs is None else [one.logprobs for one in rollouts],
            len(results),
            sum(result.error is not None for result in results),
            [[] for _ in rollouts],
        )

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        """A closed book has no tools, so that the loop above is not called: its completions are played here."""
        trainer: Any = self
        if not trainer.tools:
            show_all(trainer.environments, completions, completion_ids_list, trainer._tokenizer)
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # type: ignore[misc]


class _Loop:
    """What the loop needs of a trainer, in one place."""

    def __init__(self, trainer: Any) -> None:
        from trl.chat_template_utils import parse_response

        self.trainer = trainer
        self.tokenizer = trainer._tokenizer
        self.budget: int = trainer.max_completion_length
        self.context = _context(trainer)
        self.rounds: int = trainer.max_tool_calling_iterations
        self.parse_response = parse_response
        self.takes_tools = "tools" in inspect.signature(parse_response).parameters
        signature = inspect.signature(trainer._generate_single_turn).parameters
        self.once = {"num_generations": 1} if "num_generations" in signature else {}

    def run(self, rollouts: Sequence[_Rollout]) -> None:
        """Play all rollouts to their ends."""
        live = list(rollouts)
        for done in range(self.rounds + 1):
            played = list(zip(live, self._play(live), strict=True))
            if done == self.rounds:
                break
            live = [one for one, answers in played if self._goes_on(one, answers)]
            live = self._generate(live) if live else []
            if not live:
                return
        for one in live:
            one.env.session.close("turn_limit")

    def _play(self, live: Sequence[_Rollout]) -> list[list[Message]]:
        if len(live) > 1 and any(one.env.session.env.slow_steps for one in live):
            with ThreadPoolExecutor(min(_THREADS, len(live))) as pool:
                return list(pool.map(self._answer, live))
        return [self._answer(one) for one in live]

    def _answer(self, one: _Rollout) -> list[Message]:
        return one.env._play(one.messages[-1], one.ids[one.first :], one.first, self.tokenizer)

    def _goes_on(self, one: _Rollout, answers: Sequence[Message]) -> bool:
        """Append the answers, unless the episode is over or there is no room for them and another token."""
        if one.env.session.done:
            return False
        named = _named(answers, one.messages[-1])
        suffix = self._suffix(named)
        length = len(one.ids) + len(suffix)
        if length >= self.budget or len(one.prompt) + length >= self.context:
            one.env.session.close("context_limit" if length < self.budget else "length_limit")
            return False
        one.shown(named, suffix)
        return True

    def _generate(self, live: Sequence[_Rollout]) -> list[_Rollout]:
        """One more turn of each; those that said something."""
        ids, logprobs = self.trainer._generate_single_turn(
            [one.prompt + one.ids for one in live], None, {}, **self.once
        )
        going = []
        for n, one in enumerate(live):
            room = self.budget - len(one.ids)
            said = list(ids[n])[:room]
            if not said:
                one.env.session.close("length_limit")
                continue
            before = one.prompt + one.ids
            one.said(said, None if logprobs is None else list(logprobs[n])[:room])
            extra = {"tools": one.tools} if self.takes_tools else {}
            one.messages.append(self.parse_response(self.tokenizer, said, prefix=before, **extra))
            going.append(one)
        return going

    def _suffix(self, answers: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of the answers and of the head of the policy's next message."""
        if answers[0]["role"] == "tool":
            return list(self.trainer._get_tool_suffix_ids(list(answers)))
        start = [{"role": "user", "content": "dummy"}, {"role": "assistant", "content": "dummy"}]
        prefix = self._render(start, head=False)
        full = self._render([*start, *answers], head=True)
        # Templates write an assistant's message in one way at the end and in another before a user's: what follows its
        # end token is the same.
        ends = prefix.count(self.tokenizer.eos_token_id)
        if ends:
            places = [n for n, token in enumerate(full) if token == self.tokenizer.eos_token_id]
            return full[places[ends - 1] + 1 :]
        if full[: len(prefix)] != prefix:
            raise ConfigError("the chat template does not preserve prefixes: use one of TRL's training templates")
        return full[len(prefix) :]

    def _render(self, messages: Sequence[Mapping[str, Any]], head: bool) -> list[int]:
        trainer = self.trainer
        return list(
            trainer.processing_class.apply_chat_template(
                list(messages),
                add_generation_prompt=head,
                tokenize=True,
                chat_template=trainer.chat_template,
                return_dict=False,
                **trainer.chat_template_kwargs,
            )
        )


def _named(answers: Sequence[Message], said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers as TRL writes them: a tool's message has the tool's name."""
    calls = said.get("tool_calls") or []
    found: list[dict[str, Any]] = []
    for n, message in enumerate(answers):
        if message["role"] != "tool":
            found.append({"role": message["role"], "content": message["content"]})
            continue
        call = calls[min(n, len(calls) - 1)] if calls else {}
        found.append(
            {"role": "tool", "name": call.get("function", call).get("name", ""), "content": message["content"]}
        )
    return found


def _context(trainer: Any) -> int:
    """Tokens that the model takes at most."""
    if trainer.use_vllm and trainer.vllm_mode == "colocate":
        return int(trainer.vllm_generation.llm.llm_engine.model_config.max_model_len)
    config = getattr(trainer.model.config, "text_config", None) or trainer.model.config
    return int(getattr(config, "max_position_embeddings", 0) or 1 << 60)


def _check_length(trainer: Any, env: FactEnvironment) -> None:
    needed = episode_tokens(env._env_id, trainer._tokenizer, tasks=_CHECKED_TASKS, **env._config)
    if needed.completion > trainer.max_completion_length:
        warnings.warn(
            f"max_completion_length={trainer.max_completion_length} bounds the whole episode, all tool text included; "
            f"the oracle of {env._env_id} takes up to {needed.completion} tokens on its first tasks. An episode that "
            f"does not fit is cut off and scored as it stands: set at least {2 * needed.completion}.",
            UserWarning,
            stacklevel=4,
        )


class DenseCredit(StopWhenDone):
    """Mix in before GRPOTrainer; set the form on the subclass.

    credit: "grpo", "hrpo" or "stepwise". dense_weight: λ of the first two. group_column: the rows' column that "hrpo"
    compares within. Batches over several processes are compared as a whole.
    """

    credit: Credit = "grpo"
    dense_weight: float = 0.5
    group_column: str = "hops"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.credit not in FORMS:
            raise ConfigError(f"credit is one of {', '.join(FORMS)}, not {self.credit!r}.")
        super().__init__(*args, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        trainer: Any = self
        found = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        weighted = (found * trainer.reward_weights.to(found.device).unsqueeze(0)).nansum(dim=1)
        weighted[found.isnan().all(dim=1)] = float("nan")
        begin = trainer.accelerator.process_index * len(prompts)
        self._own_rewards: list[float] = weighted[begin : begin + len(prompts)].tolist()
        return found

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        from accelerate.utils import gather_object

        trainer: Any = self
        found: Any = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        ours = self._rows(inputs, found)
        everyone = gather_object(ours)
        begin = trainer.accelerator.process_index * len(ours)
        scale = trainer.scale_rewards != "none"
        values = token_advantages(everyone, self.credit, self.dense_weight, scale)[begin : begin + len(ours)]
        advantages = found["advantages"]
        found["advantages"] = advantages.new_tensor(np.stack(values)).to(advantages.dtype)
        return found

    def _rows(self, inputs: Any, found: Any) -> list[Row]:
        trainer: Any = self
        mask = found["completion_mask"].bool()
        if "tool_mask" in found:
            mask &= found["tool_mask"].bool()
        kept = mask.cpu().numpy()
        advantages = found["advantages"].tolist()
        group_size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        begin = trainer.accelerator.process_index * len(inputs)
        rows = []
        for n, (env, row) in enumerate(zip(trainer.environments, inputs, strict=True)):
            reward = self._own_rewards[n]
            held, returns = self._spread(env, kept[n])
            known = env.session.reward if isinstance(env, FactEnvironment) else None
            # What other reward functions add belongs to the whole completion.
            returns = returns + (reward - (known or 0.0))
            group = self._group(row) if self.credit == "hrpo" else (begin + n) // group_size
            rows.append(Row(held, returns, kept[n], reward, advantages[n], group))
        return rows

    def _spread(self, env: Any, mask: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        if not isinstance(env, FactEnvironment):
            return np.zeros(len(mask)), np.zeros(len(mask))
        tokenizer = self._tokenizer  # type: ignore[attr-defined]
        found = spread(env.session, env.turns, mask, lambda turn: token_offsets(tokenizer, turn.ids, turn.text))
        return found.held, found.returns

    def _group(self, row: Any) -> Hashable:
        if self.group_column not in row:
            raise ConfigError(
                f"credit='hrpo' compares rows that agree in the column {self.group_column!r}, and the dataset has "
                f"{', '.join(row)}.{did_you_mean(self.group_column, row)} Add it, or set group_column."
            )
        value = row[self.group_column]
        return tuple(value) if isinstance(value, list) else value
