"""Integration with OpenEnv 0.10: `factgym serve openenv ENV`, and a typed client.

    with FactClient("http://127.0.0.1:8000").sync() as client:
        result = client.reset(task=0)
        result = client.step({"tool": "search", "arguments": {"query": "leave"}})

A connection is a session, a session plays one episode at a time, and a reset begins the next. Steps are 0 until the last,
which carries the environment's own total, the whole report and its spans. Whoever holds the client is the trainer: show
the policy `observation.messages`, and not the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from factgym.core.errors import MissingExtraError

try:
    import openenv.core.env_server.types  # noqa: F401 - the import itself is the test
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "openenv":
        raise
    raise MissingExtraError("The OpenEnv integration", "openenv") from missing

from factgym.integrations.openenv.client import FactAction, FactObservation, FactState

if TYPE_CHECKING:
    from factgym.integrations.openenv.client import FactClient, ServerLostError
    from factgym.integrations.openenv.folder import write_folder
    from factgym.integrations.openenv.server import FactEnvironment, app, environment_class, serve

__all__ = [
    "FactAction",
    "FactClient",
    "FactEnvironment",
    "FactObservation",
    "FactState",
    "ServerLostError",
    "app",
    "environment_class",
    "serve",
    "write_folder",
]

_WHERE = {
    "FactClient": "client",
    "ServerLostError": "client",
    "FactEnvironment": "server",
    "environment_class": "server",
    "write_folder": "folder",
    "app": "server",
    "serve": "server",
}


def __getattr__(name: str) -> Any:
    """A client need not import the server, nor the server the client."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
