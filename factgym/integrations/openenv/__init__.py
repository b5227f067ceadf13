"""Integration with OpenEnv 0.10: `factgym serve openenv ENV`, and a typed client.

    with FactClient("http://127.0.0.1:8000").sync() as client:
        result = client.reset(task=0)
        result = client.step({"tool": "search", "arguments": {"query": "leave"}})

A connection is a session; a session plays one episode at a time, and a reset starts the next. Rewards are 0 until the
last step, which has the environment's own total, the whole report and its spans. The client belongs to the trainer: show
the policy `observation.messages`, and not the report.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from factgym.integrations.frameworks import framework_import

with framework_import("OpenEnv", "openenv"):
    import openenv.core.env_server.types  # noqa: F401 - only to see whether it is installed

from factgym.integrations.openenv.client import FactAction, FactObservation, FactState

if TYPE_CHECKING:
    from factgym.integrations.openenv.client import FactClient, ServerLostError
    from factgym.integrations.openenv.folder import write_folder
    from factgym.integrations.openenv.server import FactEnvironment, app, environment_class

__all__ = [
    "FactAction",
    "FactClient",
    "FactEnvironment",
    "FactObservation",
    "FactState",
    "ServerLostError",
    "app",
    "environment_class",
    "write_folder",
]

_MODULES = {
    "client": ("FactClient", "ServerLostError"),
    "server": ("FactEnvironment", "environment_class", "app"),
    "folder": ("write_folder",),
}


def __getattr__(name: str) -> Any:
    """Import on first use: a client does not import the server, nor the server the client."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
