"""Configurations refuse what they do not know, and say what they take."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pytest

from factgym.core.config import EnvConfig
from factgym.core.errors import ConfigError


class Rubric:
    """Some class of ours."""


class Searcher(Protocol):
    def search(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(EnvConfig):
    mode: Literal["fast", "slow"] = "fast"
    level: Literal[1, 2] = 1
    rate: float = 1.0
    path: str | None = None
    reward: str | Rubric = "v2"
    options: dict[str, Any] | None = None
    index: Any = None
    searcher: Searcher | None = None
    flag: bool = False


def test_defaults() -> None:
    config = EnvConfig.build("e", {})
    assert (config.max_turns, config.max_observation_chars, config.max_episode_chars, config.seed) == (
        12,
        16_000,
        400_000,
        0,
    )


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "slow", "rate": 2, "path": "x", "flag": True},
        {"reward": Rubric(), "options": {"k1": 1.0}, "index": object()},
        {"path": None, "searcher": object(), "level": 2},
    ],
)
def test_what_fits_is_kept(values: dict[str, Any]) -> None:
    config = Config.build("e", values)
    assert {key: getattr(config, key) for key in values} == values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_turn": 3}, "'e' has no setting 'max_turn'. Did you mean 'max_turns'?"),
        ({"zzz": 3}, "'e' has no setting 'zzz'. It takes: max_turns, max_observation_chars, .*, flag."),
        ({"mode": "quick"}, "'e': mode takes 'fast' or 'slow', not 'quick'"),
        ({"mode": ["fast"]}, "'e': mode takes 'fast' or 'slow'"),
        ({"level": True}, "'e': level takes 1 or 2, not True"),
        ({"rate": "1"}, "'e': rate takes float, not '1'"),
        ({"rate": True}, "'e': rate takes float, not True"),
        ({"max_turns": 2.0}, "'e': max_turns takes int, not 2.0"),
        ({"max_turns": True}, "'e': max_turns takes int, not True"),
        ({"path": 3}, "'e': path takes str or nothing, not 3"),
        ({"reward": 3}, "'e': reward takes str or Rubric, not 3"),
        ({"options": [("k1", 1)]}, "'e': options takes dict or nothing"),
        ({"flag": 1}, "'e': flag takes bool, not 1"),
        ({"max_turns": 0}, "max_turns must be at least 1, not 0"),
        ({"max_observation_chars": -1}, "max_observation_chars must be at least 1, not -1"),
        ({"max_episode_chars": 0}, "max_episode_chars must be at least 1, not 0"),
        ({"seed": -1}, r"seed must be between 0 and 2\*\*63 - 1, not -1"),
        ({"seed": 2**63}, "seed must be between 0"),
    ],
)
def test_what_does_not_fit_is_named_with_what_would(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.build("e", values)


def test_a_huge_value_is_not_repeated_in_full() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.build("e", {"max_turns": "x" * 1_000_000})
    assert len(str(caught.value)) < 200


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EnvConfig.build("e", {}).max_turns = 3  # type: ignore[misc]
