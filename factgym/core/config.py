"""Configurations: frozen pydantic models whose errors are one line that names the key and its accepted values."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model
from pydantic_core import ErrorDetails, PydanticUndefined

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.paths import exists, is_file, is_utf8, path_error, user_path

SettingsT = TypeVar("SettingsT")

DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where a configuration has no `path`."""

AtLeastOne = Annotated[int, Field(ge=1)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
PromptStyle = Literal["full", "brief"]
UnitFloat = Annotated[float, Field(ge=0, le=1)]
"""A share or probability: from 0 to 1."""


def _check_path(path: str, info: ValidationInfo) -> str:
    return str(user_path(path, info.field_name or "path"))


FilePath = Annotated[str, AfterValidator(_check_path)]
"""A file or folder, which need not exist; `~` is expanded, and what the system refuses is refused."""


class Settings(BaseModel):
    """Base of all configurations: immutable and strict ("3" is not an int), unknown keys are refused.

    Raises ConfigError, not pydantic's own error.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", arbitrary_types_allowed=True, protected_namespaces=()
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_error_line(type(self), error.errors(include_url=False))) from None
        for name, value in _leaves(values):
            if isinstance(value, str) and value.startswith(("/", "./", "../", "~/")):
                user_path(value, name)
            # Texts name files, servers and agents, none of which can have these.
            if isinstance(value, str) and ("\0" in value or not is_utf8(value)):
                raise ConfigError(f"{name} is {value[:80]!r}, which has a character that no file name can have")

    @classmethod
    def build(cls, owner: str, values: Mapping[str, Any]) -> Self:
        """Return a checked configuration. Raises ConfigError that names the owner, the key and the accepted values."""
        try:
            return cls(**values)
        except ConfigError as error:
            raise ConfigError(f"{owner}: {error}") from None


def data_folder() -> Path | None:
    """The folder that FACTGYM_DATA names. Raises PathError for one that cannot be used."""
    folder = os.environ.get(DATA_VARIABLE)
    return user_path(folder, DATA_VARIABLE) if folder else None


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values with their names, those inside dicts as `name.key`."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in _leaves({str(k): v for k, v in value.items()}))
        else:
            yield name, value


class EnvConfig(Settings):
    """Settings that every environment takes.

    max_turns: actions before the episode is cut off. max_observation_chars: limit on the answers to one action
    together; a cut is marked. max_episode_chars: limit on the whole transcript before the episode is cut off (about four
    characters a token). seed: of the task set, not of the episode. prompt: "brief" for instructions and tool schemas of at
    most half the length, under the same rules and rewards, for small models and short contexts.
    """

    max_turns: AtLeastOne = 12
    max_observation_chars: AtLeastOne = 16_000
    max_episode_chars: AtLeastOne = 400_000
    seed: int = Field(default=0, ge=0, lt=2**63)
    prompt: PromptStyle = "full"

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be chosen, the default first; empty where there is one set of tasks only."""
        return ()


class DataConfig(EnvConfig):
    """Settings of an environment whose tasks are generated, or read from public data sets and a user's own files.

    source: where the tasks come from. split: which part of it, by default the first of `splits`. size: how many tasks,
    all by default. path: file or folder of a source that is not generated; by default the folder in FACTGYM_DATA.
    """

    source: str | None = None
    split: str | None = None
    size: AtLeastOne | None = None
    path: FilePath | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Check the split."""
        self.check_split()

    def check_split(self) -> None:
        """Raise ConfigError for a split that the source does not have."""
        if self.split is None or self.split in self.splits:
            return
        if self.is_one_file and not self.splits:
            raise ConfigError(f"{self.path} is one file, so split={self.split!r:.80} chooses nothing: leave it out")
        raise ConfigError(
            f"{self.source!r} has no split {self.split!r:.80}.{did_you_mean(self.split, self.splits)} "
            f"It has: {', '.join(self.splits) or 'none'}."
        )

    @property
    def chosen_split(self) -> str:
        """The split, with the default filled in; empty where there are no splits."""
        return self.split or next(iter(self.splits), "")

    @property
    def is_one_file(self) -> bool:
        """Whether `path` names a single file rather than a folder."""
        return self.path is not None and is_file(self.path)

    @property
    def data_path(self) -> Path | None:
        """`path`, or else the folder that FACTGYM_DATA names; None without either. Raises PathError for one that is missing."""
        path = data_folder() if self.path is None else Path(self.path)
        if path is not None and not exists(path):
            setting = DATA_VARIABLE if self.path is None else "path"
            raise path_error(path, "does not exist", "name the file or folder of the data", setting)
        return path

    def require_path(self, content: str) -> Path:
        """Return `data_path`. Raises ConfigError, which says that the source needs `content`, where there is none."""
        if self.data_path is None:
            raise ConfigError(
                f"source={self.source!r} needs {content}: give its path (path=… in Python, --path at the command "
                f"line), or set {DATA_VARIABLE} to a folder of public data sets"
            )
        return self.data_path


def build_checked(cls: type[SettingsT], owner: str, values: Mapping[str, Any]) -> SettingsT:
    """Return a dataclass made of named values, each checked against its annotation.

    Raises ConfigError that names the owner, the key and the accepted values.
    """
    checked = _model_of(cls).build(owner, values)  # type: ignore[arg-type]  # a class is hashable
    return cls(**{name: getattr(checked, name) for name in values})


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass against their annotations; for `__post_init__`.

    Raises ConfigError that names the class, the field and its accepted values.
    """
    cls = type(instance)
    values = {field.name: getattr(instance, field.name) for field in dataclasses.fields(cls)}
    _model_of(cls).build(cls.__name__, values)  # type: ignore[arg-type]  # a class is hashable


@cache
def _model_of(cls: type[Any]) -> type[Settings]:
    """Return a model with the fields of a dataclass, so that pydantic checks its values and words the errors."""
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        default = PydanticUndefined if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        fields[field.name] = (hints[field.name], default)
    return create_model(cls.__name__, __base__=Settings, **fields)


def _error_line(cls: type[Settings], errors: Sequence[ErrorDetails]) -> str:
    """Return the first error as one line; those of the members of a union are one error, joined by "or"."""
    first = errors[0]
    if first["type"] == "value_error":  # raised by a check of ours: its text is the whole message
        return str(first["ctx"]["error"])
    key, value = first["loc"][0], first["input"]
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(key), cls.model_fields) or f" It takes: {', '.join(cls.model_fields)}."
        return f"there is no setting {key!r:.80}.{hint}"
    if first["type"] == "missing":
        return f"the setting {key!r} is missing"
    messages = dict.fromkeys(
        error["msg"].removeprefix("Input should be ") for error in errors if error["loc"][0] == key
    )
    expected = " or ".join(messages).replace("greater than or equal to", "at least")
    line = f"{key} should be {expected.replace('less than or equal to', 'at most')}, not {value!r:.80}"
    options = re.findall(r"'([^']*)'", first["ctx"]["expected"]) if first["type"] == "literal_error" else []
    hint = did_you_mean(value, options) if isinstance(value, str) else ""
    return f"{line}.{hint}" if hint else line
