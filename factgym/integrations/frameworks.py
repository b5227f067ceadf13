"""Shared by several integrations: version checks, an environment's settings as typed fields, templates, a served ASGI app.

Settings are read off the environment's frozen `Config`, for frameworks with typed configurations and flags of their
own. A setting that takes plain values (JSON) is offered; a setting that takes Python objects too (an index, a rubric) is
offered by name; a setting that takes nothing else is left out.
"""

from __future__ import annotations

import dataclasses
import hmac
import inspect
import json
import re
import socket
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial, reduce
from importlib import metadata
from importlib.resources import files
from ipaddress import ip_address
from operator import or_
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from factgym.core.config import EnvConfig, Settings, build_checked
from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean, install_command
from factgym.core.registry import spec

SHUTDOWN_SECONDS = 3
"""Seconds that a stopping server waits for clients that are still connected."""

Version = tuple[int, int]

_PLAIN_TYPES = (str, int, float, bool, type(None))
_REQUIRED: Any = object()


@contextmanager
def framework_import(name: str, extra: str, *packages: str) -> Iterator[None]:
    """Raise MissingExtraError where the imports in the block fail because one of `packages` (by default the extra) is absent.

    A module that is missing inside an installed package is that package's own fault, and its error is passed on.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in (packages or (extra,)):
            raise
        raise MissingExtraError(f"The {name} integration", extra) from missing


def require_versions(name: str, extra: str, bounds: Mapping[str, tuple[Version, Version]]) -> None:
    """Check installed packages, each from its first bound to below its second, without importing them.

    Raises MissingExtraError for an absent package and ConfigError for another version.
    """
    for package, (low, high) in bounds.items():
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError as missing:
            raise MissingExtraError(f"The {name} integration", extra) from missing
        if not low <= tuple(int(part) for part in installed.split(".")[:2]) < high:
            lowest, below = (".".join(map(str, bound)) for bound in (low, high))
            raise ConfigError(
                f"{package} {installed} does not fit the {name} integration, which needs {package}>={lowest},<{below}: "
                f"{install_command(extra)}"
            )


def class_name(env_id: str) -> str:
    """Return an environment's id as the name of a class: "claimcheck-multihop" -> "ClaimcheckMultihop"."""
    return "".join(word.capitalize() for word in env_id.replace("_", "-").split("-"))


json_quote = partial(json.dumps, ensure_ascii=False)
"""A text in quotes, as JSON, TOML and YAML read it."""


def render_template(name: str, /, **values: Any) -> str:
    """Return a file of `templates/` with `{key}` replaced by the values."""
    return (files("factgym.integrations") / "templates" / name).read_text("utf-8").format_map(values)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of an environment's configuration.

    hint: its type, of plain JSON values only. default: this environment's own. description: its line in the
    configuration's docstring. inner: the fields of a setting that is a small configuration; `hint` is then its dataclass.
    """

    name: str
    hint: Any
    default: Any
    description: str = ""
    inner: tuple[Setting, ...] = ()


@cache
def settings_of(env_id: str) -> tuple[Setting, ...]:
    """Return the settings of an environment that take plain values, without those that its id fixes."""
    entry = spec(env_id)
    settings = _settings(entry.load().Config, dict(entry.kwargs))
    return tuple(setting for setting in settings if setting.name not in entry.fixed)


def make_arguments(env_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for `make` from plain values of `settings_of`, without those that equal the default.

    A setting that is itself a configuration is a mapping in `values`. Raises ConfigError for a value that is refused.
    """
    return _changed(settings_of(env_id), values, repr(env_id))


def _changed(settings: tuple[Setting, ...], values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return the settings that differ from a framework's defaults, and inner ones with all of theirs."""
    names = [setting.name for setting in settings]
    for key in values:
        if key not in names:
            raise ConfigError(f"{owner} has no plain setting {key!r}.{did_you_mean(key, names)}")
    changed: dict[str, Any] = {}
    for setting in settings:
        name, default = setting.name, setting.default
        value = values.get(name, default)
        if value is default or value == default:
            continue
        if setting.inner and isinstance(value, Mapping):
            inner = _changed(setting.inner, value, f"{owner} {name}")
            if inner:
                base = _field_values(setting.hint() if default is None else default)
                changed[name] = build_checked(setting.hint, f"{owner} {name}", {**base, **inner})
        else:
            changed[name] = tuple(value) if isinstance(default, tuple) else value
    return changed


def _settings(cls: type[Any], values: Mapping[str, Any]) -> Iterator[Setting]:
    """Settings of a configuration class or dataclass; `values` take the place of its defaults."""
    hints, descriptions = get_type_hints(cls), _descriptions(cls)
    for name, class_default in _defaults(cls).items():
        default, description = values.get(name, class_default), descriptions.get(name, "")
        if default is _REQUIRED:
            continue
        arms = get_args(hints[name]) or (hints[name],)
        nested = [arm for arm in arms if isinstance(arm, type) and dataclasses.is_dataclass(arm)]
        if any(default is None or type(default) is arm for arm in nested) and (
            _REQUIRED not in _defaults(nested[0]).values()
        ):
            inner = tuple(_settings(nested[0], {} if default is None else _field_values(default)))
            yield Setting(name, nested[0], default, description, inner)
        elif (hint := _plain_hint(hints[name], default)) is not None:
            yield Setting(name, hint, default, description)


def _defaults(cls: type[Any]) -> dict[str, Any]:
    """Field -> default of a configuration class or dataclass; `_REQUIRED` where a field has none."""
    if issubclass(cls, Settings):
        return {
            name: _REQUIRED if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in cls.model_fields.items()
        }
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
        else:
            defaults[field.name] = _REQUIRED
    return defaults


def _field_values(config: Any) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def _plain_hint(hint: Any, default: Any) -> Any:
    """The part of a type that plain values have; None where no part admits the default. `Any` becomes a text."""
    if hint is Any:
        if default is None:
            return str | None
        return type(default) if isinstance(default, (str, int, float, bool)) else None
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        arms = [arm for arm in (_plain_hint(arm, default) for arm in get_args(hint)) if arm is not None]
        if all(arm is type(None) for arm in arms) or (default is None and type(None) not in arms):
            return None
        return reduce(or_, arms)
    if hint in _PLAIN_TYPES or origin is Literal:
        return hint
    if origin in (tuple, list) and all(arm is Ellipsis or _plain_hint(arm, "") for arm in get_args(hint)):
        return hint
    return hint if origin is dict and get_args(hint)[0] is str else None


def _descriptions(cls: type[Any]) -> dict[str, str]:
    """Field -> its description in the docstrings of a configuration and its bases: the text after `name:`."""
    descriptions: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not (dataclasses.is_dataclass(base) or issubclass(base, EnvConfig)):
            continue
        names = "|".join(_defaults(base))
        text = " ".join((inspect.getdoc(base) or "").split())
        # A description starts after a sentence's end, at the names of one or more fields and a colon.
        # Splitting at "name:" or "name, other:" gives the text before, then fields and description in turn.
        parts = re.split(rf"(?:^|(?<=[.;] ))((?:{names})(?:(?:,| and) (?:{names}))*): ", text)
        for fields, description in zip(parts[1::2], parts[2::2], strict=False):
            for name in re.split(r", | and ", fields):
                descriptions[name] = description.partition(" Raises ")[0].strip()
    return descriptions


MIN_TOKEN_CHARS = 16


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's own address, which no other machine reaches."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def open_to_network_warning(host: str, token: str | None) -> str | None:
    """A sentence where a server takes requests of other machines without a token, else None."""
    if token is not None or is_loopback(host):
        return None
    return f"Warning: --host {host} opens the server to other machines without a --token."


def with_token(app: Any, token: str | None) -> Any:
    """An ASGI application that answers 401 to HTTP requests without the token; the application itself for no token.

    Raises ConfigError for a token of less than `MIN_TOKEN_CHARS` characters.
    """
    if token is None:
        return app
    if len(token) < MIN_TOKEN_CHARS:
        raise ConfigError(f"the token has {len(token)} characters; {MIN_TOKEN_CHARS} or more are needed")
    expected = b"Bearer " + token.encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(given, expected):
            await app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        body = b'{"detail": "The token is missing or wrong: send it as \'Authorization: Bearer TOKEN\'."}'
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return guarded


async def serve_app(app: Any, host: str, port: int, ready: Callable[[str], None], **options: Any) -> None:
    """Serve an ASGI application until the process receives SIGINT or SIGTERM; requests are not logged.

    port: 0 for a free port. ready: gets the URL once the port is open. options: of `uvicorn.Config`. Raises ConfigError
    where the address cannot be had.
    """
    import uvicorn

    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port} ({error.strerror}): choose another --port") from None
    with listener:
        # Accepted connections inherit it. asyncio sets it for sockets whose protocol number is given alone, and without it
        # an answer of two packets waits 40 ms for the client's acknowledgement (Nagle's algorithm).
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS, **options
        )
        ready(f"http://{host}:{listener.getsockname()[1]}")
        await uvicorn.Server(config).serve(sockets=[listener])
