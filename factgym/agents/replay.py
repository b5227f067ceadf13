"""Messages of other times played again: episodes of a run under another reward, and outputs that were made elsewhere."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from factgym.agents.agent import Agent
from factgym.agents.rollout.jobs import Job
from factgym.agents.runs.collect import json_value
from factgym.agents.runs.read import Run, read_run
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError
from factgym.core.messages import Message, ToolSchema
from factgym.core.paths import open_file, refusals
from factgym.core.policy import ContextOverflowError, Policy, PolicyError
from factgym.core.registry import spec
from factgym.core.seeds import derive

_MAX_LINE = 64 << 20

Outputs = Mapping[tuple[int, int], Sequence[Message]]
"""(index of the task, sample) -> the policy's messages, in order."""


@dataclass(slots=True)
class _Replay:
    """Gives one message after another; an episode that is not over after the last is scored as it is."""

    messages: Sequence[Message]
    position: int = 0

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """Return the next message."""
        if self.position == len(self.messages):
            raise ContextOverflowError("the recorded messages are at an end")
        self.position += 1
        return self.messages[self.position - 1]


def replay_agent(name: str, outputs: Outputs, seed: int, about: Mapping[str, Any]) -> tuple[Agent, list[Job]]:
    """Return the agent that plays the messages, and the jobs for `collect`.

    seed: of the run; jobs have the seeds that `factgym eval` would give them. about: for the manifest.
    """
    jobs = [Job(index, sample, derive(seed, "episode", index, sample)) for index, sample in outputs]
    by_seed = {(job.index, job.seed): outputs[job.index, job.sample] for job in jobs}

    def start(env: Env[Any], seed: int) -> Policy:
        return _Replay(by_seed[env.tasks.index_of(env.task.id), seed])

    return Agent(name, start, lambda: {"kind": "replay", **about}), jobs


def recorded_agent(folder: str | Path, env: Env[Any]) -> Agent:
    """Return the agent that plays the first episode that a run holds of each task again.

    Raises ConfigError where the environment has other tasks than the run; a task without an episode is a fatal fault.
    """
    run = read_run(folder)
    outputs, _ = run_outputs(run, env)
    first = {index: outputs[index, sample] for index, sample in sorted(outputs, reverse=True)}
    played_by = str(run.manifest.get("agent"))

    def start(env: Env[Any], seed: int) -> Policy:
        index = env.tasks.index_of(env.task.id)
        if index not in first:
            message = f"{folder} has no episode of the task {env.task.id!r:.80}: give a run over all tasks"
            raise PolicyError("configuration", message, fatal=True)
        return _Replay(first[index])

    details = {"kind": "replay", "played_by": played_by, "details": run.manifest.get("agent_details")}
    return Agent(f"{played_by} (recorded)", start, lambda: details)


def stored_config(manifest: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the environment's id of a run's manifest, and the settings that differ from its own.

    Raises ConfigError for a manifest without them, and for a setting that was an object and is only described.
    """
    env_id, config = manifest.get("env"), manifest.get("config")
    if not isinstance(env_id, str) or not isinstance(config, Mapping):
        raise ConfigError("the run's manifest does not name its environment and configuration")
    entry = spec(env_id)
    fields = entry.load().Config.model_fields
    settings: dict[str, Any] = {}
    for name, value in config.items():
        if name in entry.fixed or name not in fields:
            continue
        default = entry.kwargs.get(name, fields[name].default)
        if value != json_value(default):
            settings[name] = _restore(fields[name].annotation, value)
    return env_id, settings


def _restore(annotation: Any, value: Any) -> Any:
    """Return the data class that JSON data are of, where the annotation names one."""
    for kind in get_args(annotation) or (annotation,):
        if isinstance(value, Mapping) and isinstance(kind, type) and dataclasses.is_dataclass(kind):
            try:
                return kind(**value)
            except TypeError as error:
                raise ConfigError(
                    f"the run's manifest has settings that {kind.__name__} does not have: {error}"
                ) from None
    return value


def run_outputs(run: Run, env: Env[Any]) -> tuple[dict[tuple[int, int], list[Message]], int]:
    """Return the messages of a run's episodes, and the number of those that a fault of the infrastructure ended.

    Raises ConfigError where the environment now has other tasks.
    """
    fingerprint = (run.manifest.get("fingerprints") or {}).get("tasks")
    if fingerprint != env.tasks.fingerprint():
        raise ConfigError(
            f"{run.folder} was played on other tasks ({fingerprint}) than {env.env_spec.id} has with these settings "
            f"({env.tasks.fingerprint()}): give the data and settings of the run"
        )
    outputs, faults = {}, 0
    for episode in run.episodes():
        if episode.get("error") is not None:
            faults += 1
            continue
        try:
            messages = [episode["messages"][turn["message"]] for turn in episode["turns"]]
        except IndexError:
            raise DataError(
                f"{run.folder}: a turn of task {episode['task']!r:.60} names a message that is missing"
            ) from None
        outputs[env.tasks.index_of(episode["task"]), int(episode.get("sample") or 0)] = messages
    return outputs, faults


def file_outputs(path: Path, env: Env[Any]) -> dict[tuple[int, int], list[Message]]:
    """Return the outputs of a file of JSON lines, each with a "task" and an "output" or "messages".

    task: an id or an index of the environment's task set. output: the text of a single completion. messages: chat
    messages, of which those of the assistant count. Several lines of a task are its samples. Raises DataError that names
    the line.
    """
    outputs: dict[tuple[int, int], list[Message]] = {}
    samples: defaultdict[int, int] = defaultdict(int)
    with open_file(path) as lines, refusals(path):
        for number, line in enumerate(iter(lambda: lines.readline(_MAX_LINE), b""), 1):
            if line.strip():
                index, messages = _read_output(line, f"{path} line {number}", env)
                outputs[index, samples[index]] = messages
                samples[index] += 1
    if not outputs:
        raise DataError(f"{path} holds no output")
    return outputs


def _read_output(line: bytes, where: str, env: Env[Any]) -> tuple[int, list[Message]]:
    """Read one output: its task, by id or position, and the policy's messages."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: this is no JSON") from None
    if not isinstance(row, dict) or ("output" in row) == ("messages" in row):
        raise DataError(f'{where}: an output is {{"task": ID, "output": TEXT}} or {{"task": ID, "messages": […]}}')
    task = row.get("task")
    try:
        index = range(len(env.tasks))[task] if type(task) is int and task >= 0 else env.tasks.index_of(str(task))
    except (KeyError, IndexError, ValueError, ConfigError, DataError):
        raise DataError(f"{where}: {env.env_spec.id} has no task {str(task)!r:.60} in this split") from None
    if "output" in row:
        if not isinstance(row["output"], str):
            raise DataError(f"{where}: 'output' is the text of a completion")
        return index, [{"role": "assistant", "content": row["output"]}]
    messages = row["messages"]
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise DataError(f"{where}: 'messages' is a list of chat messages")
    return index, [message for message in messages if message.get("role") == "assistant"]
