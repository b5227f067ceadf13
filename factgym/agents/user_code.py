"""A user's own policy from a file: `--agent path/to/file.py:MyPolicy`.

The name may be a class (made once a run, with the settings as keyword arguments), an object with `act`, or a plain
function `(messages, tools) -> assistant message`. Where the object has `start(seed)`, each episode plays with what
that returns; else all episodes share the object. `prepare()`, `close()` (plain or async) and `describe()` are called
where they exist: before a run, after it, and for its manifest.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from factgym.agents.agent import Agent
from factgym.core.errors import ConfigError, FactgymError, did_you_mean
from factgym.core.policy import Policy

_SHOWN = 80


def user_agent(spec: str, settings: Mapping[str, Any]) -> Agent:
    """The agent of `FILE.py:NAME`. Raises ConfigError that says what is wrong with the file or the name.

    A plain (not async) `act` is called in one thread, never twice at a time; an attribute `threads` of the object
    allows more.
    """
    path, name = _place(spec)
    policy = _policy(user_object(spec, settings), spec)
    details: dict[str, Any] = {
        "kind": "user",
        "name": f"{path.name}:{name}",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    if settings:
        details["settings"] = dict(settings)
    return _agent(f"{path.name}:{name}", policy, details)


def object_agent(found: Any) -> Agent:
    """The agent of an object with `act` or `start`, or of a plain function. Raises ConfigError for anything else.

    Threads as `user_agent` has them. Its description is empty where the object has no `describe`.
    """
    name = getattr(found, "__name__", type(found).__name__)
    return _agent(name, _policy(found, repr(found)[:_SHOWN]), {})


def _agent(name: str, policy: Any, details: Mapping[str, Any]) -> Agent:
    def describe() -> dict[str, Any]:
        described = getattr(policy, "describe", None)
        if not callable(described):
            return dict(details)
        return {**details, "describe": described()} if details else dict(described())

    prepare, close = _method(policy, "prepare"), _method(policy, "close")
    return Agent(name, _starter(policy), describe, prepare, close, _threads(policy), policy)


def user_object(spec: str, settings: Mapping[str, Any]) -> Any:
    """The object that `FILE.py:NAME` names, made with the settings where it is a class.

    Raises ConfigError that says what is wrong with the file, the name or the settings.
    """
    path, name = _place(spec)
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} (give path/to/file.py:Name)")
    module = _load(path)
    if not hasattr(module, name):
        names = [one for one in vars(module) if not one.startswith("_")]
        raise ConfigError(f"{path} has no {name!r}.{did_you_mean(name, names)} It has: {', '.join(names)[:500]}.")
    found = getattr(module, name)
    if not inspect.isclass(found):
        if settings:
            raise ConfigError(f"{spec} is no class, so it takes no settings ({', '.join(settings)})")
        return found
    try:
        return found(**settings)
    except FactgymError:
        raise
    except Exception as error:
        raise ConfigError(f"{spec} could not be made: {type(error).__name__}: {error}") from error


def _place(spec: str) -> tuple[Path, str]:
    file, _, name = spec.rpartition(":")
    return Path(file), name


def _load(path: Path) -> ModuleType:
    """The file as a module, found under a name of its own; modules beside it can be imported by it."""
    name = f"factgym_user_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ConfigError(f"{path} is no Python file (its name should end in .py)")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path} could not be imported: {type(error).__name__}: {error}") from error
    return module


class _Function:
    """A plain function as a policy."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.act = function


def _policy(found: Any, spec: str) -> Any:
    if inspect.isroutine(found):
        found = _Function(found)
    if not callable(getattr(found, "act", None)) and not callable(getattr(found, "start", None)):
        raise ConfigError(f"{spec} has no act(messages, tools): a policy is one method of that name")
    return found


def _starter(policy: Any) -> Callable[[Any, int], Policy]:
    start = getattr(policy, "start", None)
    if callable(start):
        return lambda env, seed: start(seed)
    return lambda env, seed: policy


def _method(policy: Any, name: str) -> Callable[[], Awaitable[None]]:
    """A method that the object may have, plain or async."""

    async def call() -> None:
        found = getattr(policy, name, None)
        if callable(found):
            done = found()
            if inspect.isawaitable(done):
                await done

    return call


def _threads(policy: Any) -> int:
    threads = getattr(policy, "threads", 1)
    return 0 if inspect.iscoroutinefunction(getattr(policy, "act", None)) else int(threads)
