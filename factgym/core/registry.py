"""The registry: ids to environment classes, imported only when made.

An id is `name` or `name-vN`; `factgym/name-vN`, the form that Gymnasium uses, is accepted too. Every entry is also
registered with Gymnasium under that form. `package.module:name` imports the module, which registers `name`; installed
packages register theirs through the entry-point group `factgym.environments`.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import gymnasium

from factgym.core.errors import ConfigError, UnknownEnvError, did_you_mean

if TYPE_CHECKING:
    from factgym.core.env import Env

_log = logging.getLogger(__name__)

NAMESPACE = "factgym"
PLUGIN_GROUP = "factgym.environments"
"""Entry points of this group name a module that registers environments on import, or a function that registers them."""

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_VERSION = re.compile(r"-v(\d{1,4})\Z")
_ENTRY_POINT = "factgym.core.registry:_make_for_gymnasium"


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """One registered environment.

    id: the name without a version. entry_point and agents: `"module:attribute"`, imported on use; `agents` names a
    mapping from a scripted agent's name to a `factgym.core.policy.ScriptedAgent`. kwargs: this id's own defaults, which a
    caller may override unless they are `fixed`. Immutable: copies are the entry itself.
    """

    id: str
    entry_point: str
    summary: str
    version: int = 1
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    agents: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kwargs", MappingProxyType(dict(self.kwargs)))

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvSpec:
        return self

    def __reduce__(self) -> tuple[type[EnvSpec], tuple[Any, ...]]:
        kwargs = dict(self.kwargs)
        return EnvSpec, (self.id, self.entry_point, self.summary, self.version, kwargs, self.fixed, self.agents)

    @property
    def versioned(self) -> str:
        """`name-vN`."""
        return f"{self.id}-v{self.version}"

    @property
    def gymnasium_id(self) -> str:
        """The id under which Gymnasium knows it: `factgym/name-vN`."""
        return f"{NAMESPACE}/{self.versioned}"

    def load(self) -> type[Env[Any]]:
        """The environment class."""
        return load_attribute(self.entry_point)  # type: ignore[no-any-return]


_specs: dict[str, EnvSpec] = {}
_policy_resolver: str | None = None
_plugin_errors: list[str] | None = None
"""Faults of plugins, a line each; None before they were loaded."""


def register(
    id: str,
    entry_point: str,
    summary: str,
    *,
    version: int = 1,
    kwargs: Mapping[str, Any] | None = None,
    fixed: frozenset[str] = frozenset(),
    agents: str | None = None,
    replace: bool = False,
) -> EnvSpec:
    """Make an environment known to `make` and to Gymnasium.

    Registering the same entry again changes nothing. replace: put this entry in the place of another one (a newer
    version, a notebook cell that runs again). Raises ConfigError for a malformed entry or an id that is taken.
    """
    if not _ID.fullmatch(id) or _VERSION.search(id):
        raise ConfigError(
            f"{id[:80]!r} is no environment id: use at most 63 lower-case letters, digits, hyphens and underscores, "
            "without a version suffix"
        )
    if version < 0:
        raise ConfigError(f"{id!r}: a version is 0 or more, not {version}")
    for reference in (entry_point, agents):
        if reference is not None and not all(reference.partition(":")):
            raise ConfigError(f"{id!r}: {reference!r} must have the form 'module:attribute'")
    new = EnvSpec(id, entry_point, summary, version, kwargs or {}, fixed, agents)
    old = _specs.get(id)
    if old is not None and old != new and not replace:
        raise ConfigError(f"the id {id!r} is taken by {old.entry_point}: choose another id, or pass replace=True")
    if old is not None:
        gymnasium.registry.pop(old.gymnasium_id, None)
    gymnasium.register(id=new.gymnasium_id, entry_point=_ENTRY_POINT, kwargs={"env_id": new.versioned})
    _specs[id] = new
    return new


def _make_for_gymnasium(env_id: str, render_mode: str | None = None, **config: Any) -> Env[Any]:
    return make(env_id, render_mode=render_mode, **config)


def list_envs() -> list[str]:
    """Return the ids of all registered environments, those of installed plugins included, sorted."""
    load_plugins()
    return sorted(_specs)


def spec(id: str) -> EnvSpec:
    """Return the entry of an id: `name`, with or without version and namespace, or `package.module:name`.

    Raises UnknownEnvError for an id that nothing registers, ConfigError for a module that cannot be imported.
    """
    if not isinstance(id, str):
        raise UnknownEnvError(f"an environment id is a string, not {type(id).__name__}; factgym.list_envs() lists them")
    module, _, local_id = id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise ConfigError(f"{module[:80]!r} could not be imported: {type(error).__name__}: {error}") from error
    name = local_id.removeprefix(f"{NAMESPACE}/")
    suffix = _VERSION.search(name)
    name = name[: suffix.start()] if suffix else name
    if name not in _specs:
        load_plugins()
    entry = _specs.get(name)
    if entry is None:
        hint = did_you_mean(name, _specs) or " factgym.list_envs() lists them."
        where = f"; {module[:80]!r} registers none of this id" if module else ""
        broken = "".join(f" {line}" for line in _plugin_errors or ())
        raise UnknownEnvError(f"there is no environment {id[:80]!r}{where}.{hint}{broken[:400]}")
    if suffix and int(suffix[1]) != entry.version:
        raise UnknownEnvError(f"{name!r} is at version {entry.version}, not {int(suffix[1])}: use {entry.versioned!r}")
    return entry


def load_plugins() -> None:
    """Let installed packages register their environments, once a process; a broken one is one line in the log."""
    global _plugin_errors
    if _plugin_errors is not None:
        return
    _plugin_errors = []
    from importlib.metadata import entry_points

    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            register_environments = entry.load()
            if callable(register_environments):
                register_environments()
        except Exception as error:  # noqa: BLE001 - the boundary to other packages: a broken one hides no other
            line = f"The plugin {entry.name!r} ({entry.value}) could not be loaded: {type(error).__name__}: {error}"
            _plugin_errors.append(line)
            _log.warning("%s", line)


def make(id: str, *, render_mode: str | None = None, **config: Any) -> Env[Any]:
    """Make one episode slot of the environment `id`; `config` overrides fields of its config class.

    Raises UnknownEnvError for an unknown id and ConfigError for a key or value that the environment does not take.
    """
    entry = spec(id)
    locked = sorted(entry.fixed & config.keys())
    if locked:
        raise ConfigError(f"{entry.id!r} sets {locked[0]!r} itself: leave it out, or make another environment")
    cls = entry.load()
    env = cls(entry, cls.Config.build(repr(entry.id), {**entry.kwargs, **config}), render_mode=render_mode)
    env.spec = gymnasium.envs.registration.EnvSpec(
        entry.gymnasium_id,
        entry_point=_ENTRY_POINT,
        order_enforce=False,
        disable_env_checker=True,
        kwargs={"env_id": entry.versioned, "render_mode": render_mode, **config},
    )
    return env


def set_policy_resolver(reference: str) -> None:
    """Name the function (`"module:attribute"`) that makes a policy of the texts and objects in configurations.

    It lies in a higher layer than the environments that use it, so it is imported on first use.
    """
    global _policy_resolver
    _policy_resolver = reference


def policy_resolver() -> Callable[..., Any]:
    """Return the function that `set_policy_resolver` named. Raises ConfigError when there is none."""
    if _policy_resolver is None:
        raise ConfigError("there is no policy resolver: import factgym first")
    return load_attribute(_policy_resolver)  # type: ignore[no-any-return]


def load_attribute(reference: str) -> Any:
    """Return the object that `"module:attribute"` names."""
    module, _, attribute = reference.partition(":")
    loaded = importlib.import_module(module)
    try:
        return getattr(loaded, attribute)
    except AttributeError:
        raise ConfigError(f"{module!r} has no {attribute!r}.{did_you_mean(attribute, dir(loaded))}") from None
