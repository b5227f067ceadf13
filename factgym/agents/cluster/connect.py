"""Reaching a Ray cluster, with errors that say which address and what to do.

Ray itself tries an address that does not answer for many minutes, so it is tried with a plain connection first.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from factgym.core.errors import ConfigError, MissingExtraError

_REACH_SECONDS = 10.0
_MAX_WHY_CHARS = 300


def check_address(address: str) -> None:
    """Refuse an address that cannot be. Raises ConfigError, and MissingExtraError without Ray."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("--ray", "ray")
    if address.startswith("ray://"):
        raise ConfigError(
            f"{address} is an address of Ray Client, which does not stream results: start factgym on a machine of the "
            f"cluster with --ray auto, or hand it to the cluster with `ray job submit -- factgym eval … --ray auto`"
        )
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r:.80} is no address of a Ray cluster: give auto, local or HOST:PORT")
    _reach(address, host.strip("[]"), int(port))


def _reach(address: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), _REACH_SECONDS).close()
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from None


def _unreachable(address: str, why: str) -> ConfigError:
    return ConfigError(
        f"there is no Ray cluster at {address} ({why}): start one with `ray start --head`, whose output names the "
        f"address (port 6379 unless told otherwise), or try --ray local"
    )


def _refused(address: str, why: str) -> ConfigError:
    if address == "local":
        return ConfigError(f"a Ray cluster could not be started here: {why}")
    if address == "auto":
        return _unreachable("auto", why)
    return ConfigError(
        f"the Ray cluster at {address} does not take this process ({why}): it needs the same versions of Python and "
        f"Ray, and where the cluster asks for a token, RAY_AUTH_MODE=token and that token (`ray get-auth-token`)"
    )


@contextmanager
def connected(address: str, cpus: int | None) -> Iterator[Any]:
    """The module `ray`, connected to the cluster. A connection that this process already has is used and left open.

    cpus: of a "local" cluster, which ends with the block; default those of the machine. Raises ConfigError.
    """
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    with _own_sigterm():
        _connect(ray, address, cpus)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str, cpus: int | None) -> None:
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by the processes that Ray starts now
        options = {"num_cpus": cpus, "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(address, f"{error}"[:_MAX_WHY_CHARS]) from error


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep this process's answer to SIGTERM: Ray puts its own in the place."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            with suppress(TypeError):  # a handler that was not set from Python cannot be put back
                signal.signal(signal.SIGTERM, before)
