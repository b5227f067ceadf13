"""An environment's settings as typed plain fields, for frameworks with typed configurations and flags of their own.

Read off the environment's frozen `Config`: what a file, a flag or a wire can say. What only Python objects can say (an
index, a rubric) is left to its names; a setting that takes nothing else is left out.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from factgym.core.config import EnvConfig, Settings, build_checked
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import spec

_PLAIN = (str, int, float, bool, type(None))
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of an environment's configuration.

    hint: its type, of plain JSON values only. default: this environment's own. about: its line in the configuration's
    docstring. inner: the fields of a setting that is itself a small configuration; `hint` is then its dataclass.
    """

    name: str
    hint: Any
    default: Any
    about: str = ""
    inner: tuple[Setting, ...] = ()


@cache
def settings_of(env_id: str) -> tuple[Setting, ...]:
    """The settings of an environment that plain values can say, without those that its id fixes."""
    entry = spec(env_id)
    found = _fields(entry.load().Config, dict(entry.kwargs))
    return tuple(one for one in found if one.name not in entry.fixed)


def keywords(env_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `make` out of plain values of `settings_of`; those that are the default are left out.

    A setting that is itself a configuration is a mapping in `values`. Raises ConfigError for one that is refused.
    """
    return _changed(settings_of(env_id), values, repr(env_id))


def _changed(settings: tuple[Setting, ...], values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    known = [one.name for one in settings]
    for key in values:
        if key not in known:
            raise ConfigError(f"{owner} has no plain setting {key!r}.{did_you_mean(key, known)}")
    found: dict[str, Any] = {}
    for one in settings:
        value = values.get(one.name, _NOTHING)
        if value is _NOTHING or value == one.default or value is one.default:
            continue
        if one.inner and isinstance(value, Mapping):
            inner = _changed(one.inner, value, f"{owner} {one.name}")
            if inner:
                own = _own(one.hint() if one.default is None else one.default)
                found[one.name] = build_checked(one.hint, f"{owner} {one.name}", {**own, **inner})
        else:
            found[one.name] = tuple(value) if isinstance(one.default, tuple) else value
    return found


def _own(default: Any) -> dict[str, Any]:
    return {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}


def _fields(cls: type[Any], given: Mapping[str, Any]) -> list[Setting]:
    hints = get_type_hints(cls)
    about = _about(cls)
    found = []
    for name, default in _defaults(cls).items():
        default = given.get(name, default)
        if default is _NOTHING:
            continue
        hint = hints[name]
        words = about.get(name, "")
        if (small := _small(hint, default)) is not None:
            inner = tuple(_fields(small, _own(default) if default is not None else {}))
            found.append(Setting(name, small, default, words, inner))
        elif (plain := _plain(hint, default)) is not None:
            found.append(Setting(name, plain, default, words))
    return found


def _defaults(cls: type[Any]) -> dict[str, Any]:
    """Field -> default of an environment's configuration or of a dataclass, `_NOTHING` where a field has none."""
    if issubclass(cls, Settings):
        return {
            name: _NOTHING if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in cls.model_fields.items()
        }
    return {field.name: _default(field) for field in dataclasses.fields(cls) if field.init}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else _NOTHING


def _small(hint: Any, default: Any) -> type[Any] | None:
    """The small configuration that a setting is, where it is one: a dataclass whose fields all have defaults."""
    arms = [arm for arm in (get_args(hint) or (hint,)) if dataclasses.is_dataclass(arm)]
    if not any(default is None or type(default) is arm for arm in arms):
        return None
    given = all(_default(field) is not _NOTHING for field in dataclasses.fields(arms[0]))
    return arms[0] if given and isinstance(arms[0], type) else None


def _plain(hint: Any, default: Any) -> Any:
    """The part of a type that plain values have; None where there is none that admits the default.

    What may be anything is named by a text.
    """
    if hint is Any:
        if default is None:
            return str | None
        return type(default) if isinstance(default, (str, int, float, bool)) else None
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        arms = [_plain(arm, default) for arm in get_args(hint)]
        arms = [arm for arm in arms if arm is not None]
        said = [arm for arm in arms if arm is not type(None)]
        return reduce(or_, arms) if said and (default is not None or type(None) in arms) else None
    if hint in _PLAIN or origin is Literal:
        return hint
    if origin in (tuple, list) and all(arm is Ellipsis or _plain(arm, "") for arm in get_args(hint)):
        return hint
    return hint if origin is dict and get_args(hint)[0] is str else None


def _about(cls: type[Any]) -> dict[str, str]:
    """Field -> what the docstrings of a configuration and its bases say of it: the text after `name:`."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        names = "|".join(_defaults(one)) if dataclasses.is_dataclass(one) or issubclass(one, EnvConfig) else ""
        text = " ".join((inspect.getdoc(one) or "").split()) if names else ""
        pieces = re.split(rf"(?:^|(?<=[.;] ))((?:{names})(?:(?:,| and) (?:{names}))*): ", text) if names else []
        for which, said in zip(pieces[1::2], pieces[2::2], strict=False):
            for name in re.split(r", | and ", which):
                found[name] = said.partition(" Raises ")[0].strip()
    return found
