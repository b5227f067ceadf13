"""Workers on this machine, without Ray: `on_processes`, the engine of `factgym eval … --workers N`.

Each worker is a process with a pipe on which calls and their answers travel with a number. Workers are forked from a server
of multiprocessing that has imported what they need, and the compiled kernels where this process has them, so that they
share those pages as they share corpora and indexes on disk. A pipe that ends is the sign on both sides: a worker ends with the process that started it, however that ended, and a worker that was killed
has its jobs played by another.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from factgym.agents.cluster.driver import WorkerLostError, cluster_engine
from factgym.agents.cluster.worker import Worker
from factgym.agents.endpoint.gate import share_gates
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import Engine
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.processes import end_with_parent
from factgym.corpora.build import ON_DISK_FROM
from factgym.corpora.estimates import unpacked_bytes
from factgym.corpora.store import is_stored_corpus

_JOIN_SECONDS = 5.0

# A fork of this process would copy the threads' locks of whatever has been imported; the server has no threads.
_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_context: Any = multiprocessing.get_context(_METHOD)


class _ProcessWorker:
    """A `Worker` in a process of its own. Made and used on one event loop.

    gates: the folder of the rate gates that the workers of a run share. modules: that they share.
    """

    def __init__(self, gates: str, modules: Sequence[str] = ()) -> None:
        if _METHOD == "forkserver":
            _context.set_forkserver_preload([__name__, *modules])
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(target=_serve, args=(theirs, dict(os.environ), gates), daemon=True)
        self._process.start()
        theirs.close()
        threading.Thread(target=self._listen, name="factgym-worker", daemon=True).start()

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method and return its result."""
        number = next(self._numbers)
        future = self._waiting[number] = self._loop.create_future()
        try:
            self._pipe.send((number, method, args))
            return await future
        except OSError:
            raise self._lost() from None
        except (TypeError, AttributeError, ValueError) as error:  # of the serialization
            raise ConfigError(f"a setting of the environment or the agent cannot be sent to workers: {error}") from None
        finally:
            del self._waiting[number]

    def kill(self) -> None:
        """End the process and wait until it is gone."""
        self._process.kill()
        self._process.join(_JOIN_SECONDS)

    def _listen(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            with suppress(EOFError, OSError):
                while True:
                    self._loop.call_soon_threadsafe(self._resolve, *self._pipe.recv())
            self._loop.call_soon_threadsafe(self._fail)
        self._pipe.close()

    def _resolve(self, number: int, answer: Any) -> None:
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(answer)

    def _fail(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._lost())

    def _lost(self) -> WorkerLostError:
        self._process.join(_JOIN_SECONDS)
        return WorkerLostError(f"process {self._process.pid} ended with exit code {self._process.exitcode}")


def shared_modules(env: Env[Any]) -> list[str]:
    """Return the modules that workers of an environment share."""
    modules = [module for module in (type(env).__module__,) if module != "__main__"]
    if "aiohttp" in sys.modules:  # a run's agent has loaded it by now
        modules.append("aiohttp")
    # Numba takes a second, and is worth it for a corpus on disk alone.
    corpus = getattr(env.config, "corpus", None)
    is_on_disk = isinstance(corpus, str | Path) and (
        is_stored_corpus(corpus) or (Path(corpus).is_file() and unpacked_bytes(Path(corpus)) >= ON_DISK_FROM)
    )
    return [*modules, "factgym.corpora.preload"] if is_on_disk else modules


def _serve(pipe: Connection, environ: Mapping[str, str], gates: str) -> None:
    """Answer the calls that come over a pipe until it ends; the whole of a worker's process.

    environ: the variables of the process that started it, where the server has those of its own start.
    """
    share_gates(gates)
    os.environ.clear()
    os.environ.update(environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the driver answers it
    end_with_parent()
    asyncio.run(_answer_calls(pipe))


async def _answer_calls(pipe: Connection) -> None:
    worker, loop, calls = Worker(), asyncio.get_running_loop(), set()

    async def answer(number: int, method: str, args: tuple[Any, ...]) -> None:
        pipe.send((number, await getattr(worker, method)(*args)))

    def start(call: tuple[int, str, tuple[Any, ...]]) -> None:
        task = loop.create_task(answer(*call))
        calls.add(task)
        task.add_done_callback(calls.discard)

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                loop.call_soon_threadsafe(start, pipe.recv())
        os._exit(0)  # nobody waits any more, and a thread of a policy may never return

    threading.Thread(target=listen, name="factgym-worker", daemon=True).start()
    await asyncio.Event().wait()


def on_processes(workers: int, agent: str, settings: Mapping[str, Any] | None = None) -> Engine:
    """An engine for `collect(…, engine=…)` that spreads the episodes over processes of this machine.

    agent, settings: those that `find_agent` made the run's agent from; each worker makes its own. `Limits.concurrency` is
    that of the whole run, shared out among the workers. A script that uses it guards its own start with
    `if __name__ == "__main__"`, as multiprocessing asks. The engine raises what `run_jobs` raises, ConfigError for a run
    that workers cannot build, and ClusterError where none stays alive. Raises ConfigError for fewer than 1 worker.
    """
    if workers < 1:
        raise ConfigError(f"a run needs at least 1 worker, not {workers}")

    @contextmanager
    def start_workers(env: Env[Any], limits: Limits) -> Iterator[tuple[Callable[[], _ProcessWorker], int]]:
        with TemporaryDirectory(prefix="factgym-") as gates:
            yield partial(_ProcessWorker, gates, shared_modules(env)), workers

    return cluster_engine("this machine", start_workers, agent, settings)
