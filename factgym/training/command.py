"""A trainer that is a command of yours: it gets a data set and a folder, and leaves a model there.

The command is a list of arguments and no shell reads it. What it prints goes to `command.log` in the folder.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.models import as_model, model_path
from factgym.agents.resolve import find_agent, is_model
from factgym.core.errors import ConfigError, FactgymError
from factgym.training.trainer import Dataset

LOG = "command.log"
AGENT = "agent.txt"
PLACES = ("data", "out", "model", "seed")

_PLACE = re.compile(r"\{(" + "|".join(PLACES) + r")\}")
_MAX_AGENT_CHARS = 4000
_SHOWN_CHARS = 600


class TrainingError(FactgymError):
    """Training ended without a model; the round can be continued, and then begins training anew."""


class CommandTrainer:
    """Runs a command for every training.

    command: its arguments; `{data}`, `{out}`, `{model}` and `{seed}` in them stand for the data set's path, the folder
    for the result, the path or name of the model to begin from, and the seed. It may leave the text of an agent (as
    `--agent` takes it) in `agent.txt` of the folder; else the folder itself is the model, `hf:FOLDER`. timeout:
    seconds, None for no limit. agent_settings: of the models that come out. env: what they play. Raises ConfigError for
    an empty command.
    """

    def __init__(
        self,
        command: Sequence[str],
        timeout: float | None = None,
        agent_settings: Mapping[str, Any] | None = None,
        env: str = "seva",
    ) -> None:
        if isinstance(command, str) or not command or not all(isinstance(one, str) and one for one in command):
            raise ConfigError('a training command is a list of arguments, such as ["python", "train.py", "{data}"]')
        if timeout is not None and not timeout > 0:
            raise ConfigError(f"the timeout of a training command must be above 0 seconds, not {timeout}")
        self.command = tuple(command)
        self.timeout = timeout
        self.agent_settings = dict(agent_settings or {})
        self.env = env

    def describe(self) -> dict[str, Any]:
        """What identifies it, for a manifest."""
        return {"kind": "command", "command": list(self.command), "agent_settings": self.agent_settings}

    async def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Run the command and open the model that it left.

        Raises TrainingError for a command that cannot be started, takes too long or fails, with the end of its output.
        """
        values = {"data": dataset.path, "out": folder, "model": model_path(model), "seed": seed}
        arguments = [_PLACE.sub(lambda match: str(values[match[1]]), one) for one in self.command]
        await self._run(arguments, folder / LOG)
        return self.load(folder)

    def load(self, folder: Path) -> Model:
        """The model that the command left in a folder. Raises TrainingError for a text that names no agent."""
        path = folder / AGENT
        text = f"hf:{folder}"
        if path.is_file():
            text = path.read_text("utf-8", "replace")[:_MAX_AGENT_CHARS].strip()
        if not is_model(text) and ".py:" not in text:
            raise TrainingError(
                f"{path} holds {text[:80]!r}, which names no model: hf:FOLDER, openai:MODEL or FILE.py:Name"
            )
        return as_model(find_agent(text, self.env, self.agent_settings))

    async def _run(self, arguments: Sequence[str], log: Path) -> None:
        with log.open("wb") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
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
                raise TrainingError(
                    f"training took more than {self.timeout:g} seconds; its output is in {log}"
                ) from None
            finally:
                if process.returncode is None:
                    _stop(process.pid)
                    await process.wait()
        if code:
            raise TrainingError(
                f"training ended with exit code {code}; its output is in {log} and ends: {_end_of(log)}"
            )


def _stop(pid: int) -> None:
    """End the command and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _end_of(log: Path) -> str:
    text = log.read_bytes()[-_SHOWN_CHARS:].decode("utf-8", "replace")
    return " ".join(text.split()) or "(nothing was printed)"
