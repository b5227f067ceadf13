"""Configurations are frozen dataclasses; `build` refuses what they do not know."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from factgym.core.errors import ConfigError, did_you_mean

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvConfig:
    """What every environment can be told.

    max_turns: actions before the episode is cut off. max_observation_chars: what the answers to one action hold
    together at most; a cut is marked. max_episode_chars: what the whole transcript holds at most before the episode is cut off (about four
    characters a token). seed: of the task set, not of the episode.
    """

    max_turns: int = 12
    max_observation_chars: int = 16_000
    max_episode_chars: int = 400_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_observation_chars", "max_episode_chars"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be between 0 and 2**63 - 1, not {self.seed}")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be chosen, the default first; empty where there is one set of tasks only."""
        return ()

    @classmethod
    def build(cls, env_id: str, values: Mapping[str, Any]) -> Self:
        """A checked configuration. Raises ConfigError that names the key and what it takes."""
        return build_checked(cls, repr(env_id), values)


def build_checked(cls: type[SettingsT], owner: str, values: Mapping[str, Any]) -> SettingsT:
    """A settings dataclass from named values. Raises ConfigError that names owner, key and what the key takes."""
    hints = _hints(cls)  # type: ignore[arg-type]  # a class is hashable, whatever its instances are
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # any dataclass
    for key, value in values.items():
        if key not in hints:
            hint = did_you_mean(key, known) or f" It takes: {', '.join(known)}."
            raise ConfigError(f"{owner} has no setting {key!r}.{hint}")
        if not _fits(value, hints[key]):
            raise ConfigError(f"{owner}: {key} takes {_say(hints[key])}, not {value!r:.80}")
    return cls(**values)


@cache
def _hints(cls: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(hint))
    if origin in (Union, types.UnionType):
        return any(_fits(value, arm) for arm in get_args(hint))
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:
        return isinstance(value, (int, float))
    try:
        return isinstance(value, origin or hint)
    except TypeError:  # a protocol that cannot be checked at run time
        return True


def _say(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return " or ".join(repr(one) for one in get_args(hint))
    if origin in (Union, types.UnionType):
        return " or ".join(_say(one) for one in get_args(hint))
    return "nothing" if hint is type(None) else getattr(hint, "__name__", str(hint))
