"""A user's own class from a file, with its settings: `path/to/file.py:MyTrainer`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factgym.agents.userfile import load_file
from factgym.core.errors import ConfigError, FactgymError, did_you_mean


def user_object(spec: str, settings: Mapping[str, Any]) -> Any:
    """The object that `FILE.py:NAME` names, made with the settings where it is a class.

    Raises ConfigError that says what is wrong with the file, the name or the settings.
    """
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"there is no file {file!r} (a class in a file is given as path/to/file.py:Name)")
    module = load_file(path)
    if not hasattr(module, name):
        names = [one for one in vars(module) if not one.startswith("_")]
        raise ConfigError(f"{file} has no {name!r}.{did_you_mean(name, names)} It has: {', '.join(names)[:500]}.")
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
