"""Arguments of a GRPOTrainer: `environment_factory`, rows, reward columns, and the lengths of episodes.

TRL takes every public function of the environment's class for a tool, so that everything else in it is a property or
begins with `_`."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from factgym.core.env import Env
from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, EpisodeOverError, MissingExtraError
from factgym.core.messages import Message, ToolSchema
from factgym.integrations import session as sessions
from factgym.integrations.credit import Turn, decode, policy_message
from factgym.integrations.frameworks import class_name
from factgym.integrations.session import EpisodeTokens, Session, message_texts, training_config

_RESERVED = ("reset", "get_reward")


class FactEnvironment:
    """An episode slot. `environment_factory` makes the subclasses; they take no arguments."""

    _env_id: ClassVar[str]
    _config: ClassVar[Mapping[str, Any]] = {}
    _schemas: ClassVar[Sequence[ToolSchema]] = ()

    def __init__(self) -> None:
        self._session = Session(self._env_id, **self._config)
        self._turns: list[Turn] = []
        self._has_completion = self._logged = False

    def reset(self, **row: Any) -> str | None:
        """Start the episode of a row's task; return None, or the prompt for a row without one.

        Raises ConfigError for a row without a task, and for one of another environment.
        """
        self._turns, self._has_completion, self._logged = [], False, False
        task, row_env = row.get("task"), row.get("env")
        if task is None:
            raise ConfigError(
                f"a row for {self._env_id} needs a column 'task', so that all members of a group play the same one; "
                f"it has {', '.join(row) or 'nothing'}. factgym.integrations.trl.dataset makes such rows."
            )
        env = self._session.env
        if row_env is not None and row_env != env.env_spec.versioned:
            raise ConfigError(
                f"a row of {row_env} was given to {env.env_spec.versioned}: make the dataset for the same environment"
            )
        env.reset(options={"task": task})
        return None if row.get("prompt") else message_texts(env.policy_prompt())

    def get_reward(self) -> float | None:
        """The report's total; None where a fault of the infrastructure left the episode without a score.

        An episode that still runs is truncated and scored. Raises ConfigError when no completion of the policy's reached
        the environment.
        """
        if not self._has_completion and not self._session.env.episode.turns:
            raise ConfigError(
                f"no completion of this rollout reached {self._env_id}: TRL hands tool calls to an environment, and no "
                "texts. Train with factgym.integrations.trl.StopWhenDone, or pass "
                f"reward_funcs=reward_columns({self._env_id!r})."
            )
        return self._session.close().total

    @property
    def session(self) -> Session:
        """The episode slot, with the environment, its transcript and its metrics."""
        return self._session

    @property
    def report(self) -> RewardReport | None:
        """The reward report; None while the episode runs and before the first episode."""
        try:  # some versions of TRL read every property of a fresh instance
            return self._session.report
        except EpisodeOverError:
            return None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The policy's messages and their tokens, where a trainer with `StopWhenDone` played them."""
        return tuple(self._turns)

    def _play_turn(self, parsed: Mapping[str, Any], ids: Sequence[int], first: int, tokenizer: Any) -> list[Message]:
        """Play one message as TRL parsed it; return the messages that answer it. first: position of its first token."""
        self._has_completion = True
        env, turns = self._session.env, self._turns
        episode = env.episode
        if episode.stop is not None:
            return []
        text = decode(tokenizer, ids)
        message = policy_message(parsed, text, len(turns))
        turns.append(Turn(len(episode.messages), first, ids, text, message))
        answers: list[Message] = env.step(message)[4]["messages"]
        return answers

    def _play_final_text(self, completion: Any) -> None:
        """Play the last message of a completion where it is text, and no trainer of ours has played it."""
        if self._has_completion:
            return
        self._has_completion = True
        last = completion if isinstance(completion, str) else completion[-1] if completion else {}
        message = {"role": "assistant", "content": last} if isinstance(last, str) else last
        if message.get("role") == "assistant" and not message.get("tool_calls") and not self._session.done:
            content, reasoning = message.get("content") or "", message.get("reasoning_content")
            text = f"<think>\n{reasoning}\n</think>\n\n{content}" if reasoning else content
            self._session.step({"role": "assistant", "content": text})


def play_final_texts(
    environments: Sequence[Any], completions: Sequence[Any], ids: Sequence[Any] | None = None, tokenizer: Any = None
) -> None:
    """Play each completion that its environment has not had yet as the answer; with ids, and so with tokens, too."""
    for index, (env, completion) in enumerate(zip(environments, completions, strict=True)):
        if not isinstance(env, FactEnvironment):
            continue
        if ids is not None and not env._has_completion:
            parsed = completion[-1] if isinstance(completion, list) else {"content": completion}
            env._play_turn(parsed, list(ids[index]), 0, tokenizer)
        env._play_final_text(completion)


def environment_factory(env_id: str, **config: Any) -> type[FactEnvironment]:
    """Return the class to pass as `environment_factory=`; one instance plays one rollout at a time.

    Its tools are those that the environment may open at any stage; a tool that is not open yet answers with an error.
    config: as for `factgym.make`, on the training split where it names none. Raises the errors of `factgym.make`, and
    ConfigError for a tool whose name TRL reserves and for an environment that has evaluation splits only.
    """
    config = training_config(env_id, config)
    probe = Session(env_id, **config)
    schemas = tuple(probe.all_tools())
    tools: dict[str, Any] = {}
    for schema in schemas or probe.env.checked_tools():
        name = schema["function"]["name"]
        if name in _RESERVED or name.startswith("_"):
            raise ConfigError(f"{env_id} has a tool {name!r}, a name that TRL reserves")
        tools[name] = _tool_method(schema)
    if type(probe.env).policy_prompt is not Env.policy_prompt:
        warnings.warn(
            f"{env_id} shows its policy less than the whole transcript (policy_prompt), and TRL's rollouts can only "
            "append: here the policy sees all of it. Rewards are the same; prompts are not those of an evaluation.",
            stacklevel=2,
        )
    attributes = {
        **tools,
        "_env_id": env_id,
        "_config": dict(config),
        "_schemas": schemas,
        "__doc__": f"{probe.env.env_spec.versioned} as an environment of TRL's.",
    }
    return type(class_name(env_id), (FactEnvironment,), attributes)  # TRL names the reward's column after the class


def _tool_method(schema: ToolSchema) -> Callable[..., str]:
    """A method that plays one call, with the signature and the docstring that TRL reads the schema from."""
    function = schema["function"]
    name, parameters = function["name"], function["parameters"]
    properties, required = parameters.get("properties", {}), parameters.get("required", ())

    def call(self: FactEnvironment, /, **arguments: Any) -> str:
        return self._session.call(name, arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    summary = _one_line(function.get("description") or name)
    signature, hints = [inspect.Parameter("self", kind)], {}
    argument_docs = []
    for key, value in properties.items():
        hints[key] = _annotation(value)
        description = str(value.get("description") or key)
        items = value.get("items")
        if isinstance(items, Mapping) and items.get("type") == "object":  # beyond an annotation
            description += f" Each is {json.dumps(items, ensure_ascii=False)}"
        argument_docs.append(f"    {key}: {_one_line(description)}")
    for key in sorted(properties, key=lambda key: key not in required):
        default = inspect.Parameter.empty if key in required else properties[key].get("default")
        signature.append(inspect.Parameter(key, kind, default=default, annotation=hints[key]))
    call.__name__ = call.__qualname__ = name
    call.__doc__ = "\n".join([summary, "", "Args:", *argument_docs] if argument_docs else [summary])
    call.__annotations__ = {**hints, "return": str}
    call.__signature__ = inspect.Signature(signature, return_annotation=str)  # type: ignore[attr-defined]
    return call


def _one_line(text: str) -> str:
    return " ".join(text.split())


_TYPES: Mapping[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "null": type(None),
}  # fmt: skip


def _annotation(schema: Mapping[str, Any]) -> Any:
    """The annotation nearest to a JSON schema."""
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    if kind == "array":
        return list[_annotation(schema.get("items") or {})]  # type: ignore[misc]
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


Column = Callable[..., list[float | None]]


def dataset(
    env_id: str, *, limit: int | None = None, start: int = 0, indices: Sequence[int] | None = None, **config: Any
) -> Any:
    """Return the environment's tasks as a `datasets.Dataset` with the columns env, index, prompt (messages) and task.

    limit, start: of the tasks. indices: these tasks instead. config: as for `environment_factory`, which also has its
    errors; on the training split where it names none.
    """
    try:
        from datasets import Dataset
    except ModuleNotFoundError as missing:
        raise MissingExtraError("The TRL integration", "trl") from missing
    return Dataset.from_list(
        list(sessions.rows(env_id, training_config(env_id, config), limit=limit, start=start, indices=indices))
    )


def reward_columns(env_id: str, **config: Any) -> list[Column]:
    """Return a reward function for each component, which TRL logs as `rewards/NAME/mean`; give them weight 0.

    The total is the environment's own reward. None where an episode has no score. The first one also logs every metric
    (turns, error_turns, truncated …) and writes task and stop into the completions' table. Together they play a plain text
    as the environment's answer, where no trainer of ours has done so.
    """
    return [_column(name, is_first=index == 0) for index, name in enumerate(_component_names(env_id, config))]


def column_weights(env_id: str, **config: Any) -> list[float]:
    """Return zeros, `reward_weights=` for `reward_columns` alone: TRL adds the environment's own reward with weight 1."""
    return [0.0] * len(_component_names(env_id, config))


def _component_names(env_id: str, config: Mapping[str, Any]) -> list[str]:
    session = Session(env_id, **training_config(env_id, config))
    session.start(0)
    return list(session.close().components)


def _column(name: str, is_first: bool) -> Column:
    def column(completions: Sequence[Any], environments: Sequence[Any], **options: Any) -> list[float | None]:
        play_final_texts(environments, completions)
        rewards: list[float | None] = []
        for env in environments:
            report = env.session.close() if isinstance(env, FactEnvironment) else None
            scored = report is not None and report.status == "scored"
            rewards.append(report.components.get(name) if report is not None and scored else None)
        if is_first:
            _log_metrics(environments, options)
        return rewards

    column.__name__ = name
    return column


def _log_metrics(environments: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Log the means of all metrics but components, once a batch. options: log_metric and log_extra, of TRL."""
    if not all(isinstance(env, FactEnvironment) and not env._logged for env in environments):
        return
    series: dict[str, list[float]] = {}
    for env in environments:
        env._logged = True
        components = env.report.components if env.report else {}
        for name, value in env.session.metrics().items():
            if name not in components:
                series.setdefault(name, []).append(value)
    for name, values in series.items():
        options["log_metric"](f"factgym/{name}", sum(values) / len(values))
    options["log_extra"]("task_id", [env.session.task for env in environments])
    options["log_extra"]("stop", [str(env.session.stop) for env in environments])


def episode_tokens(env_id: str, tokenizer: Any, *, tasks: int = 16, **config: Any) -> EpisodeTokens:
    """Measure episodes under a tokenizer: a lower bound for `max_completion_length`.

    The prompt is counted as the tokenizer's chat template renders it, tool schemas included. The oracle goes the
    shortest way; twice its length is a fair start. The completion is 0 where there is none.
    """

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    def count_prompt(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> int:
        rendered = tokenizer.apply_chat_template(
            list(messages), tools=list(tools) or None, add_generation_prompt=True, tokenize=False
        )
        return count(rendered)

    has_template = bool(getattr(tokenizer, "chat_template", None))
    return sessions.episode_tokens(
        env_id, count, training_config(env_id, config), tasks=tasks, prompt=count_prompt if has_template else None
    )
