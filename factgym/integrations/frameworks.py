"""Shared by several integrations: version checks, an environment's settings as typed fields, templates, a server's rights.

Settings are read off the environment's frozen `Config`, for frameworks with typed configurations and flags of their
own. A setting that takes plain values (JSON) is offered; a setting that takes Python objects too (an index, a rubric) is
offered by name; a setting that takes nothing else is left out.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import socket
import types
from collections.abc import Iterator, Mapping
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
AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?")
"""An address in brackets, or else a name, and a port."""


@dataclass(frozen=True, slots=True)
class Shell:
    """Address, rights and limits of a server.

    host, port: to listen on; port 0 takes a free one. token: a secret that every request has to bring. allow_hosts: names
    under which the server may be asked besides its own; "*" permits all. allow_origins: origins of other web pages that
    may use it, such as "https://app.example"; "*" permits all. max_connections: at a time. request_seconds: for the headers
    of a request, for its body, and for a client that reads nothing of its response. Raises ConfigError.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    max_connections: int = 800
    request_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < MIN_TOKEN_CHARS:
            raise ConfigError(f"the token has {len(self.token)} characters; {MIN_TOKEN_CHARS} or more are needed")
        for host in self.allow_hosts:
            if host != "*" and _address(host.strip("[]")) is None and not re.fullmatch(r"[\w.-]+", host):
                raise ConfigError(f"--allow-host takes a name without scheme and port, not {host!r:.80}")
        for origin in self.allow_origins:
            scheme, _, authority = origin.lower().partition("://")
            if origin != "*" and not (scheme in ("http", "https") and AUTHORITY.fullmatch(authority)):
                raise ConfigError(f"--allow-origin takes an origin such as https://app.example, not {origin!r:.80}")

    @property
    def is_open(self) -> bool:
        """Whether other machines reach the server and need no token."""
        return self.token is None and not is_loopback(self.host)

    def permits_host(self, name: str) -> bool:
        """Whether requests for a host are answered. A foreign page that leads a name of its own to this address has no token."""
        names = [host.lower().strip("[]") for host in (*self.allow_hosts, self.host)]
        if self.token is not None or "*" in names or name in names or is_loopback(name):
            return True
        return self.is_open and (name == socket.gethostname().lower() or _address(name) is not None)

    def permits_origin(self, origin: str, host: str) -> bool:
        """Whether a web page may send requests: one of this server's own, or of an origin in `allow_origins`."""
        permitted = [permitted.lower() for permitted in self.allow_origins]
        return "*" in permitted or origin in (f"http://{host}", f"https://{host}", *permitted)

    def refusal(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Status and reason for a request of a foreign host or web page, else None. headers: names in lower case."""
        host = headers.get("host", "").lower()
        match = AUTHORITY.fullmatch(host)
        if match is None or not self.permits_host(match[1] or match[2]):
            return 421, "This server does not answer under this name: --allow-host NAME permits another."
        origin = headers.get("origin")
        # Browsers send no origin with what a page embeds, but whether the page is of another site.
        is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if not (is_link or not is_foreign) if origin is None else not self.permits_origin(origin.lower(), host):
            return 403, "Web pages of other origins may not use this server: --allow-origin permits one."
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's own address, which no other machine reaches."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> Any:
    """Return the IP address that a host is, an IPv4 address within IPv6 as itself; None for a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
