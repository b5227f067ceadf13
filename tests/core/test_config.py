"""Configurations: strict validation, one-line errors, and the settings that environments over data share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

from factgym.core.config import DATA_VARIABLE, DataConfig, EnvConfig, build_checked
from factgym.core.errors import ConfigError
from factgym.core.prompts import fill, prompt, prompt_hash


class Rubric:
    """A class that pydantic does not know."""


class Config(EnvConfig):
    mode: Literal["fast", "slow"] = "fast"
    level: Literal[1, 2] = 1
    rate: float = 1.0
    path: str | None = None
    reward: str | Rubric = "v2"
    options: dict[str, Any] | None = None
    index: Any = None
    flag: bool = False


class FileConfig(DataConfig):
    source: Literal["synthetic", "files"] = "synthetic"

    @property
    def splits(self) -> tuple[str, ...]:
        return ("validation", "train")


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
        {"path": None, "level": 2},
    ],
)
def test_valid_values_are_kept_as_they_are(values: dict[str, Any]) -> None:
    config = Config.build("e", values)
    assert {key: getattr(config, key) for key in values} == values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_turn": 3}, "'e': there is no setting 'max_turn'. Did you mean 'max_turns'?"),
        ({"zzz": 3}, "'e': there is no setting 'zzz'. It takes: max_turns, max_observation_chars, .*, flag."),
        ({"mode": "quick"}, "'e': mode should be 'fast' or 'slow', not 'quick'$"),
        ({"mode": "fats"}, "'e': mode should be 'fast' or 'slow', not 'fats'. Did you mean 'fast'?"),
        ({"mode": ["fast"]}, "'e': mode should be 'fast' or 'slow'"),
        ({"level": 3}, "'e': level should be 1 or 2, not 3"),
        ({"rate": "1"}, "'e': rate should be a valid number, not '1'"),
        ({"rate": True}, "'e': rate should be a valid number, not True"),
        ({"max_turns": 2.0}, "'e': max_turns should be a valid integer, not 2.0"),
        ({"max_turns": True}, "'e': max_turns should be a valid integer, not True"),
        ({"path": 3}, "'e': path should be a valid string, not 3"),
        ({"reward": 3}, "'e': reward should be a valid string or an instance of Rubric, not 3"),
        ({"options": [("k1", 1)]}, "'e': options should be a valid dictionary"),
        ({"flag": 1}, "'e': flag should be a valid boolean, not 1"),
        ({"max_turns": 0}, "max_turns should be at least 1, not 0"),
        ({"max_observation_chars": -1}, "max_observation_chars should be at least 1, not -1"),
        ({"max_episode_chars": 0}, "max_episode_chars should be at least 1, not 0"),
        ({"seed": -1}, "seed should be at least 0, not -1"),
        ({"seed": 2**63}, "seed should be less than 9223372036854775808"),
    ],
)
def test_an_invalid_value_is_named_with_the_values_that_are_valid(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.build("'e'", values)


def test_a_huge_value_is_not_repeated_in_full() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.build("e", {"max_turns": "x" * 1_000_000})
    assert len(str(caught.value)) < 200


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        EnvConfig.build("e", {}).max_turns = 3  # type: ignore[misc]


def test_a_split_defaults_to_the_first_and_is_checked() -> None:
    assert FileConfig().chosen_split == "validation"
    assert FileConfig(split="train").chosen_split == "train"
    with pytest.raises(ConfigError, match=r"'synthetic' has no split 'tain'. Did you mean 'train'\? It has: valid"):
        FileConfig(split="tain")


def test_the_path_of_the_data_is_its_own_or_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    assert FileConfig(path=str(tmp_path)).require_path("claims") == tmp_path
    with pytest.raises(ConfigError, match=r"source=.files. needs claims: give its path .* or set FACTGYM_DATA"):
        FileConfig(source="files").require_path("claims")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert FileConfig(source="files").require_path("claims") == tmp_path
    with pytest.raises(ConfigError, match=r"path: .*none does not exist: name the file or folder"):
        FileConfig(path=str(tmp_path / "none")).require_path("claims")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"FACTGYM_DATA: .*none does not exist"):
        FileConfig(source="files").require_path("claims")


@dataclass(frozen=True)
class Server:
    url: str
    retries: int = 3
    headers: dict[str, str] = field(default_factory=dict)


def test_any_dataclass_is_built_with_the_same_checks() -> None:
    assert build_checked(Server, "a server", {"url": "x"}) == Server("x")
    for values, message in (
        ({"url": "x", "retries": "3"}, "a server: retries should be a valid integer, not '3'"),
        ({"url": "x", "retrys": 3}, "a server: there is no setting 'retrys'. Did you mean 'retries'"),
        ({}, "a server: the setting 'url' is missing"),
    ):
        with pytest.raises(ConfigError, match=message):
            build_checked(Server, "a server", values)


# Prompts: Markdown files of a package, filled without a template language


def test_values_are_put_in_as_they_are() -> None:
    assert fill("Q: {q}\nA: {a}.", q="{a} {not a field}", a="}{") == "Q: {a} {not a field}\nA: }{."


def test_a_template_without_fields_is_itself() -> None:
    assert fill("plain } text", unused="x") == "plain } text"


def test_a_field_may_be_declared_twice() -> None:
    assert fill("{x}{x}", x="ab") == "abab"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="answer"):
        fill("{question} {answer}", question="q")


def test_prompts_come_from_the_package_without_the_last_newline() -> None:
    text = prompt("factgym.envs.claimcheck", "task")
    assert text == "Question: {question}\n\nAnswer to check: {answer}"
    assert prompt("factgym.envs.claimcheck", "task") is text


def test_an_unknown_prompt_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        prompt("factgym.envs.claimcheck", "nothing")


def test_the_hash_is_sha256_of_utf8() -> None:
    assert prompt_hash("é") == hashlib.sha256(b"\xc3\xa9").hexdigest()
