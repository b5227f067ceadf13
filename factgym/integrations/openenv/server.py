"""OpenEnv's server over one environment: an instance for each session, one shared configuration, bounds on requests."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, ClassVar
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import ConcurrencyConfig, EnvironmentMetadata

import factgym
from factgym.agents.rollout.jobs import task_order
from factgym.core.errors import ConfigError, EpisodeOverError, FactgymError, did_you_mean
from factgym.core.messages import Message
from factgym.integrations.frameworks import Shell, class_name
from factgym.integrations.openenv.client import FactAction, FactObservation, FactState
from factgym.integrations.serving import MAX_BODY_BYTES, Guard, first_fault, serve
from factgym.integrations.session import Session, training_config

MAX_LISTED = 10_000
"""Limit of tasks in one answer; `num_tasks` counts all of them, and a range selects any."""

MAX_SESSIONS = 64
IDLE_SECONDS = 3600.0
MAX_MESSAGE_BYTES = MAX_BODY_BYTES
"""Enough for the longest action that is parsed, however JSON escapes it."""

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net; img-src 'self' data: https://fastapi.tiangolo.com; "
    "frame-ancestors 'self' https://huggingface.co"
)
"""For FastAPI's page at /docs, which the page of a Space embeds."""

RESET_ARGUMENTS = ("seed", "episode_id", "task", "split", "index")
_MAX_ID_CHARS = 255


class ServedEnv:
    """Shared by all sessions of a server: the configuration, and the order in which tasks are played.

    The training split is served where the configuration names none; the environment's own default where it has no such.
    Raises the errors of `make`, so that a server that cannot play does not start.
    """

    def __init__(self, env_id: str, config: Mapping[str, Any] | None = None, seed: int = 0) -> None:
        self.session = partial(Session, env_id, **training_config(env_id, config, strict=False))
        self.template = self.session()
        self.size = len(self.template.env.tasks)
        if not self.size:
            raise ConfigError(f"{env_id!r} has no tasks in this configuration")
        self.split = str(getattr(self.template.env.config, "chosen_split", None) or "all")
        self._order = cycle(task_order(self.size, None, seed))
        self._lock = threading.Lock()

    def next_task(self) -> int:
        """Return the next task's index; after the last the first follows."""
        with self._lock:
            return next(self._order)

    def check_split(self, split: Any) -> None:
        """Raise ConfigError for any split but the one that is served."""
        if split != self.split:
            raise ConfigError(f"this server plays the split {self.split!r}, not {split!r:.80}: start one with --split")


class FactEnvironment(Environment[FactAction, FactObservation, FactState]):
    """One session. `served`: set by `environment_class`."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    served: ClassVar[ServedEnv]

    def __init__(self) -> None:
        super().__init__()
        self._session: Session | None = None
        self._episode_id: str | None = None
        self._steps = 0
        self._closed = False

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        task: str | int | None = None,
        split: str | None = None,
        index: int | None = None,
        **unknown: Any,
    ) -> FactObservation:
        """Start an episode: of `task` (its id or index), of `index` in the split, of the task that `seed` chooses; else the next.

        Raises ConfigError for a task or split that does not exist, and for any other argument.
        """
        for name in unknown:
            raise ConfigError(f"reset takes no {name!r:.80}.{did_you_mean(name, RESET_ARGUMENTS)}")
        if split is not None:
            self.served.check_split(split)
        if seed is not None and (type(seed) is not int or seed < 0):
            raise ConfigError(f"seed is a whole number from 0, not {seed!r:.80}")
        if episode_id is not None and (type(episode_id) is not str or len(episode_id) > _MAX_ID_CHARS):
            raise ConfigError(f"episode_id is a text of at most {_MAX_ID_CHARS} characters")
        session = self._open_session()
        requested = task if task is not None else index
        if requested is None and seed is None:
            requested = self.served.next_task()
        first = session.start(requested, seed)
        self._steps, self._episode_id = 0, episode_id or uuid4().hex
        return self._observation(session, first, None)

    def step(self, action: FactAction, timeout_s: float | None = None, **kwargs: Any) -> FactObservation:
        """Play an action. Raises EpisodeOverError before the first reset; after the end nothing is played."""
        session = self._open_session()
        was_over = session.done
        answers: list[Message] = []
        if action.stop is None:
            answers = session.step(action.to_env_action())
        else:
            session.close(action.stop)
        self._steps += 1
        return self._observation(session, answers, session.reward if session.done and not was_over else 0.0)

    def _open_session(self) -> Session:
        if self._closed:
            raise EpisodeOverError("this session was closed, or idle for too long: connect again, and reset")
        if self._session is None:
            self._session = self.served.session()
        return self._session

    def _observation(self, session: Session, answers: Sequence[Message], reward: float | None) -> FactObservation:
        episode, prompt, report = session.env.episode, session.messages, session.report
        final: dict[str, Any] = {}
        if report is not None:
            final = {"report": report.to_dict(), "metrics": session.metrics(), "turn_rewards": session.turn_rewards()}
        return FactObservation(
            done=session.done,
            reward=reward,
            messages=[dict(message) for message in answers],
            prompt=None if prompt == episode.messages else [dict(message) for message in prompt],
            tools=session.tools(),
            task=session.task,
            stage=session.env.stage,
            error=episode.turns[-1].error if episode.turns else None,
            turns_left=session.env.config.max_turns - len(episode.turns),
            stop=session.stop,
            **final,
        )

    @property
    def state(self) -> FactState:
        """State of the episode."""
        session = self._session
        if session is None or self._episode_id is None:
            return FactState(episode_id=None, step_count=0)
        env = session.env
        return FactState(
            episode_id=self._episode_id,
            step_count=self._steps,
            task=session.task,
            stage=env.stage,
            stop=session.stop,
            turns_left=env.config.max_turns - len(env.episode.turns),
            prompt=[dict(message) for message in session.messages],
            tools=session.tools(),
        )

    def close(self) -> None:
        """Free the session; later requests are errors."""
        self._closed, self._session, self._episode_id = True, None, None

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the environment's card."""
        entry = self.served.template.env.env_spec
        return EnvironmentMetadata(
            name=entry.id,
            description=entry.summary,
            readme_content=inspect.getdoc(entry.load()),
            version=str(entry.version),
            author=f"factgym {factgym.__version__}",
        )

    def list_splits(self) -> list[str]:
        """Return the split that is served; "all" where there is one set of tasks."""
        return [self.served.split]

    def num_tasks(self, split: str) -> int:
        """Count the tasks."""
        self.served.check_split(split)
        return self.served.size

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return the tasks, `MAX_LISTED` at most."""
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one task. Raises IndexError."""
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(f"there are {self.served.size} tasks")
        return self.get_task_range(split, index, index + 1)[0]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return the tasks of a slice, `MAX_LISTED` at most."""
        indices = range(self.num_tasks(split))[start:stop]
        tasks = self.served.template.env.tasks
        return [{"id": tasks[index].id, "index": index, "split": split} for index in indices[:MAX_LISTED]]


def environment_class(env_id: str, config: Mapping[str, Any] | None = None, *, seed: int = 0) -> type[FactEnvironment]:
    """Return the class that OpenEnv's `create_app` takes, over `make(env_id, **config)`. seed: of the order of the tasks.

    A class and no partial function: its name in an error message to a client does not hold the configuration.
    """
    attributes = {"served": ServedEnv(env_id, config, seed), "__doc__": f"A session of {env_id}."}
    return type(class_name(env_id), (FactEnvironment,), attributes)


def app(
    env_id: str,
    config: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    max_sessions: int = MAX_SESSIONS,
    idle_seconds: float | None = IDLE_SECONDS,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    shell: Shell | None = None,
) -> Guard:
    """Return the ASGI application over `make(env_id, **config)`; raises the errors of `make`.

    seed: of the order of tasks for resets that name none. max_sessions: connections at a time; one more is refused.
    idle_seconds: a session without a message for so long is ended; None never. max_message_bytes: of an HTTP request;
    for messages on a socket give uvicorn its own option (`--ws-max-size`). shell: rights of requests; by default the
    names of this machine are answered, those in FACTGYM_ALLOW_HOST (separated by commas) and in a Space's own SPACE_HOST.
    """
    application: FastAPI = create_app(
        environment_class(env_id, config, seed=seed),
        FactAction,
        FactObservation,
        env_name=env_id,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=idle_seconds),
        state_cls=FactState,
    )
    application.add_exception_handler(FactgymError, _error_response)
    application.add_exception_handler(RequestValidationError, _invalid_response)
    # A password, as OpenEnv's client sends no headers but those of its URL.
    return Guard(
        application,
        shell or Shell(allow_hosts=_named_hosts()),
        max_body_bytes=max_message_bytes,
        policy=_POLICY,
        asks_password=True,
    )


def _named_hosts() -> tuple[str, ...]:
    """Names under which a container is asked, such as by the proxy in front of it."""
    names = ",".join(os.environ.get(name, "") for name in ("FACTGYM_ALLOW_HOST", "SPACE_HOST")).split(",")
    return tuple(name.strip() for name in names if name.strip())


async def _error_response(request: Request, error: Exception) -> JSONResponse:
    """A plain HTTP step has no session: each request has one of its own."""
    hint = " Over plain HTTP no episode outlives a request; play over the socket at /ws."
    return JSONResponse({"detail": f"{error}.{hint if request.url.path == '/step' else ''}"}, status_code=400)


async def _invalid_response(request: Request, error: Any) -> JSONResponse:
    """FastAPI's own repeats the whole input, and fails where that is no Unicode."""
    return JSONResponse({"detail": first_fault(error.errors())}, status_code=422)


def run(application: Guard) -> None:
    """Run a folder's server, as its main function: `--host` and `--port`, all interfaces and 8000 by default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    application.shell = replace(application.shell, host=args.host, port=args.port)
    raise SystemExit(asyncio.run(serve(application, lambda url: None, websockets=True)))
