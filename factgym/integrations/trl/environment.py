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
from factgym.integrations.credit import Turn, decode, read_message
from factgym.integrations.session import EpisodeTokens, Session, rows
from factgym.integrations.session import episode_tokens as episode_lengths

_RESERVED = ("reset", "get_reward")
_UNSEEN = (
    "no completion of this rollout reached {env}: TRL hands tool calls to an environment, and no texts. Train with "
    "factgym.integrations.trl.StopWhenDone, or pass reward_funcs=reward_columns({env!r})."
)
_ISOLATED = (
    "{env} shows its policy less than the whole transcript (policy_prompt), and TRL's rollouts can only append: here "
    "the policy sees all of it. Rewards are the same; prompts are not those of an evaluation."
)


class FactEnvironment:
    """An episode slot. `environment_factory` makes the subclasses; they take no arguments."""

    _env_id: ClassVar[str]
    _config: ClassVar[Mapping[str, Any]] = {}
    _schemas: ClassVar[Sequence[ToolSchema]] = ()

    def __init__(self) -> None:
        self._session = Session(self._env_id, **self._config)
        self._turns: list[Turn] = []
        self._seen = self._logged = False

    def reset(self, **row: Any) -> str | None:
        """Start the episode of a row's task; None, or the prompt of a row that brings none.

        Raises ConfigError for a row without a task, and for one of another environment.
        """
        self._turns, self._seen, self._logged = [], False, False
        task, own = row.get("task"), row.get("env")
        if task is None:
            raise ConfigError(
                f"a row for {self._env_id} needs a column 'task', so that all members of a group play the same one; "
                f"it has {', '.join(row) or 'nothing'}. factgym.integrations.trl.dataset makes such rows."
            )
        env = self._session.env
        if own is not None and own != env.env_spec.versioned:
            raise ConfigError(
                f"a row of {own} was given to {env.env_spec.versioned}: make the dataset for the same environment"
            )
        env.reset(options={"task": task})
        if row.get("prompt"):
            return None
        return "\n\n".join(message["content"] or "" for message in env.policy_prompt())

    def get_reward(self) -> float | None:
        """The report's total; None where a fault of the infrastructure left the episode without a score.

        An episode that still runs is scored as it stands. Raises ConfigError when nothing that the policy said was
        ever shown to the environment.
        """
        if not self._seen and not self._session.env.episode.turns:
            raise ConfigError(_UNSEEN.format(env=self._env_id))
        return self._session.close().total

    @property
    def session(self) -> Session:
        """The episode slot, with the environment, its transcript and its metrics."""
        return self._session

    @property
    def report(self) -> RewardReport | None:
        """What the episode earned; None while it runs and before the first one."""
        try:  # some versions of TRL read every property of a fresh instance
            return self._session.report
        except EpisodeOverError:
            return None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The policy's messages and their tokens, where a trainer with `StopWhenDone` played them."""
        return tuple(self._turns)

    def _play(self, parsed: Mapping[str, Any], ids: Sequence[int], first: int, tokenizer: Any) -> list[Message]:
        """Play one turn as TRL parsed it; the messages that answer it. first: place of its first token."""
        self._seen = True
        env, turns = self._session.env, self._turns
        episode = env.episode
        if episode.stop is not None:
            return []
        text = decode(tokenizer, ids)
        message = read_message(parsed, text, len(turns))
        turns.append(Turn(len(episode.messages), first, ids, text, message))
        answers: list[Message] = env.step(message)[4]["messages"]
        return answers

    def _show(self, completion: Any) -> None:
        """Take what the policy said last, where it is text and no trainer of ours has played it."""
        if self._seen:
            return
        self._seen = True
        last = completion if isinstance(completion, str) else completion[-1] if completion else {}
        said = {"role": "assistant", "content": last} if isinstance(last, str) else last
        if said.get("role") == "assistant" and not said.get("tool_calls") and not self._session.done:
            self._session.say(_with_reasoning(said))


def environment_factory(env_id: str, **config: Any) -> type[FactEnvironment]:
    """The class to pass as `environment_factory=`; one instance plays one rollout at a time.

    Its tools are those that the environment may open at any stage; one that is not open yet answers so. Raises what
    `factgym.make` raises, and ConfigError for a tool whose name TRL keeps for itself.
    """
    probe = Session(env_id, **config)
    schemas = tuple(probe.all_tools())
    names = [schema["function"]["name"] for schema in schemas]
    for name in names:
        if name in _RESERVED or name.startswith("_"):
            raise ConfigError(f"{env_id} has a tool {name!r}, which TRL takes for something else")
    if type(probe.env).policy_prompt is not Env.policy_prompt:
        warnings.warn(_ISOLATED.format(env=env_id), UserWarning, stacklevel=2)
    attributes: dict[str, Any] = {name: _tool(schema) for name, schema in zip(names, schemas, strict=True)}
    attributes |= {"_env_id": env_id, "_config": dict(config), "_schemas": schemas}
    attributes["__doc__"] = f"{probe.env.env_spec.versioned} as an environment of TRL's."
    return type(_class_name(env_id), (FactEnvironment,), attributes)


def _class_name(env_id: str) -> str:
    """TRL names the reward's column after the class."""
    return "".join(word.capitalize() for word in env_id.replace("_", "-").split("-"))


def _with_reasoning(said: Mapping[str, Any]) -> Message:
    content, reasoning = said.get("content") or "", said.get("reasoning_content")
    return {"role": "assistant", "content": f"<think>\n{reasoning}\n</think>\n\n{content}" if reasoning else content}


def _tool(schema: ToolSchema) -> Callable[..., str]:
    """A method that plays one call, with the signature and the docstring that describe it."""
    function = schema["function"]
    name, parameters = function["name"], function["parameters"]

    def call(self: FactEnvironment, /, **arguments: Any) -> str:
        return self._session.call(name, arguments)

    required = parameters.get("required", ())
    hints = {key: _hint(one) for key, one in parameters.get("properties", {}).items()}
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [receiver]
    for key in sorted(hints, key=lambda one: one not in required):
        default = inspect.Parameter.empty if key in required else parameters["properties"][key].get("default")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found.append(inspect.Parameter(key, kind, default=default, annotation=hints[key]))
    call.__name__ = call.__qualname__ = name
    call.__doc__ = _docstring(function)
    call.__annotations__ = {**hints, "return": str}
    call.__signature__ = inspect.Signature(found, return_annotation=str)  # type: ignore[attr-defined]
    return call


def _docstring(function: Mapping[str, Any]) -> str:
    lines = [_line(function.get("description") or function["name"])]
    properties = function["parameters"].get("properties", {})
    if properties:
        lines += ["", "Args:"]
        lines += [f"    {key}: {_line(_about(key, one))}" for key, one in properties.items()]
    return "\n".join(lines)


def _about(key: str, schema: Mapping[str, Any]) -> str:
    """A parameter's description, with what a Python annotation cannot say about it."""
    said = str(schema.get("description") or key)
    inner = schema.get("items") if isinstance(schema.get("items"), Mapping) else None
    deep = inner is not None and inner.get("type") == "object"
    return f"{said} Each is {json.dumps(inner, ensure_ascii=False)}" if deep else said


def _line(text: str) -> str:
    return " ".join(text.split())


_HINTS: Mapping[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "null": type(None),
}  # fmt: skip


def _hint(schema: Mapping[str, Any]) -> Any:
    """The annotation that says as much of a schema as annotations can."""
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    if kind == "array":
        return list[_hint(schema.get("items") or {})]  # type: ignore[misc]
    return _HINTS.get(kind, Any) if isinstance(kind, str) else Any


Column = Callable[..., list[float | None]]


def dataset(env_id: str, *, limit: int | None = None, start: int = 0, **config: Any) -> Any:
    """The environment's tasks as a `datasets.Dataset` with the columns env, index, prompt (messages) and task.

    limit, start: which tasks. config: as for `make`, and as for `environment_factory`. Raises what `make` raises.
    """
    try:
        from datasets import Dataset
    except ModuleNotFoundError as missing:
        raise MissingExtraError("The TRL integration", "trl") from missing
    return Dataset.from_list(list(rows(env_id, config, limit=limit, start=start)))


def reward_columns(env_id: str, **config: Any) -> list[Column]:
    """A reward function for each component, which TRL logs as `rewards/NAME/mean`; give them weight 0.

    The total is the environment's own reward. None where an episode has no score. The first one also logs every metric
    (turns, errors, truncated …) and writes task and stop into the completions' table. Together they show a plain text
    to the environment as its answer, where no trainer of ours has done so.
    """
    return [_column(name, first=n == 0) for n, name in enumerate(_components(env_id, config))]


def column_weights(env_id: str, **config: Any) -> list[float]:
    """Zeros, `reward_weights=` for `reward_columns` alone: TRL adds the environment's own reward with weight 1."""
    return [0.0] * len(_components(env_id, config))


def _components(env_id: str, config: Mapping[str, Any]) -> list[str]:
    session = Session(env_id, **config)
    session.start(0)
    return list(session.close().components)


def _column(name: str, first: bool) -> Column:
    def column(completions: Sequence[Any], environments: Sequence[Any], **given: Any) -> list[float | None]:
        show_all(environments, completions)
        ours = [env.session.close() if isinstance(env, FactEnvironment) else None for env in environments]
        if first:
            _log(environments, given)
        scored = [report is not None and report.status == "scored" for report in ours]
        return [
            report.components.get(name) if report is not None and good else None
            for report, good in zip(ours, scored, strict=True)
        ]

    column.__name__ = name
    return column


def _log(environments: Sequence[Any], given: Mapping[str, Any]) -> None:
    if not all(isinstance(env, FactEnvironment) and not env._logged for env in environments):
        return
    sessions = []
    for env in environments:
        env._logged = True
        sessions.append(env.session)
    found: dict[str, list[float]] = {}
    for session in sessions:
        components = session.report.components if session.report else {}
        for name, value in session.metrics().items():
            if name not in components:
                found.setdefault(name, []).append(value)
    for name, values in found.items():
        given["log_metric"](f"factgym/{name}", sum(values) / len(values))
    given["log_extra"]("task_id", [session.task for session in sessions])
    given["log_extra"]("stop", [str(session.stop) for session in sessions])


def show_all(
    environments: Sequence[Any], completions: Sequence[Any], ids: Sequence[Any] | None = None, tokenizer: Any = None
) -> None:
    """Show each environment what its policy said, where it has seen nothing yet; with ids its tokens too."""
    for n, (env, completion) in enumerate(zip(environments, completions, strict=True)):
        if not isinstance(env, FactEnvironment):
            continue
        if ids is not None and not env._seen:
            parsed = completion[-1] if isinstance(completion, list) else {"content": completion}
            env._play(parsed, list(ids[n]), 0, tokenizer)
        env._show(completion)


def episode_tokens(env_id: str, tokenizer: Any, *, tasks: int = 16, **config: Any) -> EpisodeTokens:
    """How long episodes are under a tokenizer: what `max_completion_length` has to hold at least.

    The oracle goes the shortest way; twice its length is a fair beginning. The completion is 0 where there is none.
    """

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return episode_lengths(env_id, count, config, tasks=tasks)
