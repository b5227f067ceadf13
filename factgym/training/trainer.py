"""The trainer protocol, from a model and a data set to the next model, and a trainer that runs a command.

The data set is a file of chat lines, `{"messages": […], …}`. SEVA's are `[system, user, assistant]`, as TRL's
SFTTrainer and fine-tuning services take them, and the assistant's message is the verdict to learn. EVE's are whole
episodes with an advantage each (`factgym.training.eve.rollouts`). A user's own trainer is a class with two methods.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import re
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from factgym.agents.agent import AgentModel, Model, model_path
from factgym.agents.resolve import find_agent, is_model, user_object
from factgym.agents.runs import files
from factgym.core.errors import ConfigError, FactgymError, did_you_mean
from factgym.core.messages import Message
from factgym.core.paths import create_file, read_bytes
from factgym.core.registry import load_attribute

LOG = "command.log"
AGENT = "agent.txt"

_PLACEHOLDER = re.compile(r"\{(data|out|model|seed)\}")
_MAX_AGENT_CHARS = 4000
_DRAFT = ".model-"
_LOG_TAIL_CHARS = 600


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training data on disk. path: the JSON lines. lines: their number. fingerprint: SHA-256 in hex of the file."""

    path: Path
    lines: int
    fingerprint: str

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every line: "messages" and its labels."""
        return files.read_lines(self.path)

    def conversations(self) -> Iterator[list[Message]]:
        """The messages of every line."""
        return (row["messages"] for row in self.rows())


def open_dataset(path: Path) -> Dataset:
    """Open a data set on disk. Raises DataError for a file that cannot be read."""
    data = read_bytes(path)
    return Dataset(path, data.count(b"\n"), hashlib.sha256(data).hexdigest())


@runtime_checkable
class Trainer(Protocol):
    """Trains models. Both methods may be plain or async; a plain one is called in a thread and is not interrupted.

    An optional `describe()`, which returns JSON data, identifies the trainer in the manifest.
    """

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model | Awaitable[Model]:
        """Train on the data set and return the next model. `folder` is empty, for the trainer's files.

        `model` is the previous model, closed, so that its memory is free; its description stays valid. In EVE's loop the
        same `model` as result means that nothing was learned; `load` is then never called. An exception ends the
        evolution; when it is resumed, training starts anew.
        """
        ...

    def load(self, folder: Path) -> Model | Awaitable[Model]:
        """Load the model that an earlier `train` left in a folder, for a resumed evolution."""
        ...


TRAINERS: Mapping[str, str] = {
    "features": "factgym.training.seva.dataset:FeatureTrainer",
    "trl": "factgym.training.trl_trainers:TuningTrainer",
    "command": "factgym.training.trainer:CommandTrainer",
}
"""Name -> the class, imported when it is chosen. To add a trainer: a class, and a line here."""


def find_trainer(
    text: str, settings: Mapping[str, Any] | None = None, trainers: Mapping[str, str] = TRAINERS
) -> Trainer:
    """Find a trainer by name or `path/to/file.py:Class`. settings: keyword arguments of the class. trainers: the names.

    Raises ConfigError for an unknown or unusable trainer, and for settings that it does not take.
    """
    values = dict(settings or {})
    trainer: Any
    if ".py:" in text:
        trainer = user_object(text, values)
    elif text in trainers:
        make: Callable[..., Any] = load_attribute(trainers[text])
        try:
            trainer = make(**values)
        except TypeError as error:
            raise ConfigError(f"the trainer {text!r} does not take these settings: {error}") from None
    else:
        hint = did_you_mean(text, trainers)
        raise ConfigError(f"there is no trainer {text!r}.{hint} There are: {', '.join(trainers)}, and FILE.py:Class.")
    missing = [name for name in ("train", "load") if not callable(getattr(trainer, name, None))]
    if missing:
        raise ConfigError(f"{text} has no {' and no '.join(missing)}: a trainer is a class with train and load")
    checked: Trainer = trainer
    return checked


def describe_trainer(trainer: Trainer) -> dict[str, Any]:
    """Identity of a trainer, for a manifest: its `identity`, or the path of its class, and its description.

    `identity` is a name that stays when the class moves, so that evolutions that are on disk can be resumed.
    """
    describe = getattr(trainer, "describe", None)
    details = describe() if callable(describe) else {}
    name = getattr(trainer, "identity", None) or f"{type(trainer).__module__}.{type(trainer).__qualname__}"
    return {"trainer": name, **details}


async def train_once(trainer: Trainer, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
    """Train a model into `folder/model`; a finished training is loaded and not repeated.

    Exceptions of the trainer pass through; an unfinished training starts anew in an empty folder.
    """
    # `trained.json` is the commit point: written last, so a folder without it holds an interrupted training. The model
    # takes its name when it is whole: a trainer that outlived a killed run writes into a folder that nobody reads.
    path, finished = folder / files.MODEL, folder / files.TRAINED
    if finished.exists():
        return await call_trainer(trainer.load, path)
    for stale in folder.glob(f"{_DRAFT}*"):
        shutil.rmtree(stale)
    draft = files.fresh_folder(folder / f"{_DRAFT}{os.getpid()}")
    trained = await call_trainer(trainer.train, model, dataset, draft, seed)
    shutil.rmtree(path, ignore_errors=True)
    draft.rename(path)
    learned = trained is not model
    if learned:
        await trained.close()
        trained = await call_trainer(trainer.load, path)
    record = {
        "model": trained.describe(),
        "dataset_sha256": dataset.fingerprint,
        "lines": dataset.lines,
        "seed": seed,
        "learned": learned,
    }
    files.write_json(finished, record)
    return trained


async def call_trainer(method: Callable[..., Model | Awaitable[Model]], *args: Any) -> Model:
    """Call a trainer's method: an async one in this loop, a plain one in a thread, for training takes long."""
    in_loop = inspect.iscoroutinefunction(method)
    result = method(*args) if in_loop else await asyncio.to_thread(method, *args)
    return await result if inspect.isawaitable(result) else result


class TrainingError(FactgymError):
    """Training ended without a model; when the loop is resumed, training starts anew."""


class CommandTrainer:
    """Runs a command for every training. It is a list of arguments, without a shell; its output goes to `command.log`.

    command: its arguments; `{data}`, `{out}`, `{model}` and `{seed}` in them are replaced by the data set's path, the
    folder for the result, the path or name of the initial model, and the seed. The command may leave the text of an
    agent (as `--agent` takes it) in `agent.txt` of the folder; else the folder itself is the model, `hf:FOLDER`.
    timeout: seconds, None for no limit. agent_settings: of the trained models. env: their environment. Raises
    ConfigError for an empty command.
    """

    identity = "factgym.training.trainer.CommandTrainer"

    def __init__(
        self,
        command: Sequence[str],
        timeout: float | None = None,
        agent_settings: Mapping[str, Any] | None = None,
        env: str = "seva",
    ) -> None:
        if isinstance(command, str) or not command or not all(isinstance(text, str) and text for text in command):
            raise ConfigError('a training command is a list of arguments, such as ["python", "train.py", "{data}"]')
        if timeout is not None and not timeout > 0:
            raise ConfigError(f"the timeout of a training command must be above 0 seconds, not {timeout}")
        self.command = tuple(command)
        self.timeout = timeout
        self.agent_settings = dict(agent_settings or {})
        self.env = env

    def describe(self) -> dict[str, Any]:
        """Its identity for a manifest."""
        return {"kind": "command", "command": list(self.command), "agent_settings": self.agent_settings}

    async def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Run the command in a process group of its own, which ends as a whole on a timeout, on cancellation and with
        this process.

        Returns the model that it left. Raises TrainingError for a command that cannot be started, times out or fails,
        with the end of its output.
        """
        values = {"data": dataset.path, "out": folder, "model": model_path(model), "seed": seed}
        arguments = [_PLACEHOLDER.sub(lambda match: str(values[match[1]]), argument) for argument in self.command]
        log = folder / LOG
        with create_file(log) as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "factgym.training.supervised", *arguments),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise TrainingError(f"{arguments[0]!r} could not be started: {error.strerror or error}") from None
            try:
                async with asyncio.timeout(self.timeout):
                    code = await process.wait()
            except TimeoutError:
                limit = f"{self.timeout:g} seconds"
                raise TrainingError(f"training took more than {limit}; its output is in {log}") from None
            finally:
                # The command may have started workers (torchrun, a server): its whole process group is killed.
                if process.returncode is None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
        if code:
            tail = " ".join(log.read_bytes()[-_LOG_TAIL_CHARS:].decode("utf-8", "replace").split())
            raise TrainingError(
                f"training ended with exit code {code}; its output is in {log} and ends: {tail or '(nothing was printed)'}"
            )
        return self.load(folder)

    def load(self, folder: Path) -> Model:
        """The model that the command left in a folder. Raises TrainingError for a text that names no agent."""
        path = folder / AGENT
        text = f"hf:{folder}"
        if path.is_file():
            text = path.read_text("utf-8", "replace")[:_MAX_AGENT_CHARS].strip()
            # The command may have written the path of `{out}`, whose name was another while it ran.
            text = re.sub(rf"{re.escape(str(folder.parent / _DRAFT))}\d+", lambda match: str(folder), text)
        if not is_model(text) and ".py:" not in text:
            raise TrainingError(
                f"{path} holds {text[:80]!r}, which names no model: hf:FOLDER, openai:MODEL or FILE.py:Name"
            )
        return AgentModel(find_agent(text, self.env, self.agent_settings))
