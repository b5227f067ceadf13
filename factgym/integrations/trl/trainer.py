"""Trainers: `StopWhenDone` ends TRL's rollout when the episode ends, `DenseCredit` adds advantages of tokens.

TRL's own loop passes an environment one call after another and ends a rollout at the first message without a call. This
one plays whole messages: several calls are one turn, texts and malformed calls are answered by the environment, and
nothing is generated after the end. It rests on private methods of the trainer; a test pins the used parts of each."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.messages import Message
from factgym.integrations.credit import FORMS, Credit, Floats, Row, token_advantages, token_credit
from factgym.integrations.trl.environment import FactEnvironment, episode_tokens, play_final_texts

_MAX_THREADS = 16
_CHECKED_TASKS = 4


@dataclass(slots=True)
class _Rollout:
    """One rollout while it grows. turn_start: position in `ids` of the policy's last message."""

    env: FactEnvironment
    tools: list[Any]
    prompt: list[int]
    ids: list[int]
    messages: list[dict[str, Any]]
    logprobs: list[float] | None
    mask: list[int]
    turn_start: int = 0

    def append(self, ids: Sequence[int], logprobs: Sequence[float] | None, sampled: bool) -> None:
        """Append tokens. sampled: whether they are the policy's."""
        self.ids += ids
        self.mask += [int(sampled)] * len(ids)
        if self.logprobs is not None and logprobs is not None:
            self.logprobs += logprobs


class StopWhenDone:
    """Mix in before GRPOTrainer: `class Trainer(StopWhenDone, GRPOTrainer): ...`.

    Raises ConfigError when the trainer is built without an environment of ours, or with `tools=` beside one. Warns when
    `max_completion_length`, which bounds the whole episode with all tool text, is too short for episodes of the
    environment's oracle; `limit_name` is the name of that setting in the warning. `on_episodes`, where it is set, takes
    the trainer's step, the environments with their finished episodes, and the advantages of these.
    """

    limit_name = "max_completion_length"
    on_episodes: Callable[[int, Sequence[FactEnvironment], Sequence[float]], None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        trainer: Any = self
        pools = getattr(trainer, "_environment_pool", None) or {}
        environments = {name: pool[0] for name, pool in pools.items() if isinstance(pool[0], FactEnvironment)}
        if not environments:
            raise ConfigError(
                f"{type(self).__name__} needs environment_factory=factgym.integrations.trl.environment_factory(ID)"
            )
        if trainer._standalone_tools:
            raise ConfigError("tools= beside a factgym environment is not played by StopWhenDone: leave it out")
        limit = trainer.max_completion_length
        for name, env in environments.items():
            # Signatures are less than schemas: nested fields, bounds and defaults would be lost in the prompt.
            trainer._env_tools[name] = list(env._schemas)
            length = episode_tokens(env._env_id, trainer._tokenizer, tasks=_CHECKED_TASKS, **env._config).completion
            if length > limit:
                warnings.warn(
                    f"{self.limit_name}={limit} bounds the whole episode, all tool text included; the oracle of "
                    f"{env._env_id} takes up to {length} tokens on its first tasks. An episode that does not fit is "
                    f"truncated and scored: set at least {2 * length}.",
                    stacklevel=3,
                )

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
        """Play the episodes after their first completion, in place of TRL's loop, and return what TRL's returns."""
        trainer: Any = self
        if images or not all(isinstance(env, FactEnvironment) for env in trainer.environments):
            outputs: tuple[Any, ...] = super()._tool_call_loop(  # type: ignore[misc]
                prompts, prompt_ids, completion_ids, completions, logprobs, images, multimodal_fields
            )
            return outputs
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
        _RolloutLoop(trainer).run(rollouts)
        turns = [turn for rollout in rollouts for turn in rollout.env.session.env.episode.turns]
        results = [result for turn in turns for result in turn.results if result.tool]
        return (
            [rollout.mask for rollout in rollouts],
            [rollout.messages for rollout in rollouts],
            [rollout.ids for rollout in rollouts],
            None if logprobs is None else [rollout.logprobs for rollout in rollouts],
            len(results),
            sum(result.error is not None for result in results),
            [[] for _ in rollouts],
        )

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        trainer: Any = self
        batch: Any = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        if self.on_episodes is not None:
            self.on_episodes(trainer.state.global_step, trainer.environments, batch["advantages"].tolist())
        return batch

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        """Without tools (a closed book) TRL does not call the loop above: completions are played here."""
        trainer: Any = self
        if not trainer.tools:
            play_final_texts(trainer.environments, completions, completion_ids_list, trainer._tokenizer)
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # type: ignore[misc]


class _RolloutLoop:
    """Replaces the loop of `GRPOTrainer._tool_call_loop`; all private parts of a trainer that it uses are here."""

    def __init__(self, trainer: Any) -> None:
        from trl.chat_template_utils import parse_response

        self.trainer = trainer
        self.tokenizer = trainer._tokenizer
        self.budget: int = trainer.max_completion_length
        if trainer.use_vllm and trainer.vllm_mode == "colocate":
            self.context_limit = int(trainer.vllm_generation.llm.llm_engine.model_config.max_model_len)
        else:
            config = getattr(trainer.model.config, "text_config", None) or trainer.model.config
            self.context_limit = int(getattr(config, "max_position_embeddings", 0) or 1 << 60)
        self.rounds: int = trainer.max_tool_calling_iterations
        self.parse_response = parse_response
        # TRL's versions differ in the parameters of these two.
        self.takes_tools = "tools" in inspect.signature(parse_response).parameters
        signature = inspect.signature(trainer._generate_single_turn).parameters
        self.generate_options = {"num_generations": 1} if "num_generations" in signature else {}

    def run(self, rollouts: Sequence[_Rollout]) -> None:
        """Play all rollouts to their ends."""
        running = list(rollouts)
        for iteration in range(self.rounds + 1):
            answers = self._play_turns(running)
            if iteration == self.rounds:
                break
            running = [
                rollout
                for rollout, messages in zip(running, answers, strict=True)
                if self._append_answers(rollout, messages)
            ]
            running = self._generate(running) if running else []
            if not running:
                return
        for rollout in running:
            rollout.env.session.close("turn_limit")

    def _play_turns(self, rollouts: Sequence[_Rollout]) -> list[list[Message]]:
        def play(rollout: _Rollout) -> list[Message]:
            start = rollout.turn_start
            return rollout.env._play_turn(rollout.messages[-1], rollout.ids[start:], start, self.tokenizer)

        if len(rollouts) > 1 and any(rollout.env.session.env.slow_steps for rollout in rollouts):
            with ThreadPoolExecutor(min(_MAX_THREADS, len(rollouts))) as executor:
                return list(executor.map(play, rollouts))
        return [play(rollout) for rollout in rollouts]

    def _append_answers(self, rollout: _Rollout, answers: Sequence[Message]) -> bool:
        """Append the answers; False where the episode is over, or where they and another token do not fit."""
        session = rollout.env.session
        if session.done:
            return False
        messages = _trl_messages(answers, rollout.messages[-1])
        ids = self._suffix(messages)
        length = len(rollout.ids) + len(ids)
        if length >= self.budget or len(rollout.prompt) + length >= self.context_limit:
            session.close("context_limit" if length < self.budget else "length_limit")
            return False
        rollout.messages.extend(messages)
        rollout.append(ids, [0.0] * len(ids), sampled=False)
        rollout.turn_start = len(rollout.ids)
        return True

    def _generate(self, rollouts: Sequence[_Rollout]) -> list[_Rollout]:
        """Sample one more message of each; return the rollouts whose message has tokens."""
        contexts = [rollout.prompt + rollout.ids for rollout in rollouts]
        ids, logprobs = self.trainer._generate_single_turn(contexts, None, {}, **self.generate_options)
        running = []
        for index, (rollout, context) in enumerate(zip(rollouts, contexts, strict=True)):
            budget = self.budget - len(rollout.ids)
            sampled = list(ids[index])[:budget]
            if not sampled:
                rollout.env.session.close("length_limit")
                continue
            rollout.append(sampled, None if logprobs is None else list(logprobs[index])[:budget], sampled=True)
            options = {"tools": rollout.tools} if self.takes_tools else {}
            rollout.messages.append(self.parse_response(self.tokenizer, sampled, prefix=context, **options))
            running.append(rollout)
        return running

    def _suffix(self, answers: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of the answers and of the head of the policy's next message."""
        if answers[0]["role"] == "tool":
            return list(self.trainer._get_tool_suffix_ids(list(answers)))
        # TRL has no suffix for a user message: a dummy conversation is rendered with and without it, and the tokens
        # behind the dummy's end are the suffix.
        start = [{"role": "user", "content": "dummy"}, {"role": "assistant", "content": "dummy"}]
        prefix = self._render(start, add_head=False)
        full = self._render([*start, *answers], add_head=True)
        # Templates write the last assistant message differently from one before a user message; the tokens after its
        # end token are the same.
        end_token = self.tokenizer.eos_token_id
        if count := prefix.count(end_token):
            ends = [index for index, token in enumerate(full) if token == end_token]
            return full[ends[count - 1] + 1 :]
        if full[: len(prefix)] != prefix:
            raise ConfigError("the chat template does not preserve prefixes: use one of TRL's training templates")
        return full[len(prefix) :]

    def _render(self, messages: Sequence[Mapping[str, Any]], add_head: bool) -> list[int]:
        trainer = self.trainer
        return list(
            trainer.processing_class.apply_chat_template(
                list(messages),
                add_generation_prompt=add_head,
                tokenize=True,
                chat_template=trainer.chat_template,
                return_dict=False,
                **trainer.chat_template_kwargs,
            )
        )


def _trl_messages(answers: Sequence[Message], reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers to a reply as TRL writes them: a tool's message has the tool's name."""
    calls = reply.get("tool_calls") or []
    messages: list[dict[str, Any]] = []
    for index, answer in enumerate(answers):
        if answer["role"] != "tool":
            messages.append({"role": answer["role"], "content": answer["content"]})
            continue
        call = calls[min(index, len(calls) - 1)] if calls else {}
        name = call.get("function", call).get("name", "")
        messages.append({"role": "tool", "name": name, "content": answer["content"]})
    return messages


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
        """Keep the weighted rewards of this process's completions: TRL keeps them for nobody."""
        trainer: Any = self
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        weighted = (rewards * trainer.reward_weights.to(rewards.device).unsqueeze(0)).nansum(dim=1)
        weighted[rewards.isnan().all(dim=1)] = float("nan")
        start = trainer.accelerator.process_index * len(prompts)
        self._rewards: list[float] = weighted[start : start + len(prompts)].tolist()
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        from accelerate.utils import gather_object

        trainer: Any = self
        batch: Any = super()._generate_and_score_completions(inputs)
        rows = self._rows(inputs, batch)
        all_rows = gather_object(rows)
        start = trainer.accelerator.process_index * len(rows)
        scale = trainer.scale_rewards != "none"
        values = token_advantages(all_rows, self.credit, self.dense_weight, scale)[start : start + len(rows)]
        advantages = batch["advantages"]
        batch["advantages"] = advantages.new_tensor(np.stack(values)).to(advantages.dtype)
        return batch

    def _rows(self, inputs: Any, batch: Any) -> list[Row]:
        """Return for each completion its token credit, returns and group, in the order of the batch."""
        trainer: Any = self
        token_mask = batch["completion_mask"].bool()
        if "tool_mask" in batch:
            token_mask &= batch["tool_mask"].bool()
        masks = token_mask.cpu().numpy()
        advantages = batch["advantages"].tolist()
        group_size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        start = trainer.accelerator.process_index * len(inputs)
        rows = []
        for index, (env, row) in enumerate(zip(trainer.environments, inputs, strict=True)):
            mask, reward, own_reward = masks[index], self._rewards[index], 0.0
            credit: Floats = np.zeros(len(mask))
            returns: Floats = np.zeros(len(mask))
            if isinstance(env, FactEnvironment):
                spread = token_credit(env.session, env.turns, mask, trainer._tokenizer)
                credit, returns, own_reward = spread.credit, spread.returns, env.session.reward or 0.0
            # The share of other reward functions belongs to the whole completion.
            returns = returns + (reward - own_reward)
            group: Hashable = (start + index) // group_size
            if self.credit == "hrpo":
                if self.group_column not in row:
                    raise ConfigError(
                        f"credit='hrpo' compares rows that agree in the column {self.group_column!r}, and the dataset "
                        f"has {', '.join(row)}.{did_you_mean(self.group_column, row)} Add it, or set group_column."
                    )
                value = row[self.group_column]
                group = tuple(value) if isinstance(value, list) else value
            rows.append(Row(credit, returns, mask, reward, advantages[index], group))
        return rows
