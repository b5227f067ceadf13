"""Playing episodes: one, the loop between a policy and an environment, and thousands at once in one process.

A fault of the infrastructure ends an episode as an error with its cause and is never a score; a prompt that no longer
fits the model's context is a limit of the policy's, and the episode is scored as it is. Many episodes are played by
workers that share an agent, each with an environment of its own. An episode is handed to `keep` the moment it ends and
is not held. A run that is stopped (a cancelled task, an interrupt, a fatal fault) stops between episodes: those that
are running are given up and can be played again.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Annotated, Any, cast

from pydantic import Field

from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.rollout.jobs import Job, Progress
from factgym.agents.rollout.record import Act, EncodedRecord, Log, Record, read_completion, record
from factgym.core.config import AtLeastOne, Settings
from factgym.core.env import Env
from factgym.core.errors import FactgymError
from factgym.core.policy import Policy, PolicyError, PromptRefusedError, ScriptedAgent, as_policy_error
from factgym.core.secrets import redact_text

_log = logging.getLogger(__name__)

_MAX_CAUSE_CHARS = 2000
_STEP_THREADS = 16

Keep = Callable[[Any], None]
"""Takes the `Record` of each finished episode, or its `EncodedRecord` where another process played it."""

Outcome = tuple[Record, bool]
"""The record of an episode, and whether every other episode would meet the same fault."""

Call = Callable[..., Awaitable[Any]]
"""`await call(function, *arguments)`: how the loop calls a function that may block, or may return an awaitable."""


async def call_here(function: Callable[..., Any], *args: Any) -> Any:
    """Call on the event loop, and wait where an awaitable is returned."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result


async def _call_synchronously(function: Callable[..., Any], *args: Any) -> Any:
    """Call without an event loop around: an awaitable gets one of its own, so that this never suspends."""

    async def wait(awaitable: Any) -> Any:
        return await awaitable

    result = function(*args)
    return asyncio.run(wait(result)) if inspect.isawaitable(result) else result


async def play(
    env: Env[Any], agent: Agent, job: Job, *, act: Call = call_here, step: Call = call_here, log: Log | None = None
) -> Outcome:
    """Play one task to its end.

    act, step: how the policy and the environment are called. Raises what `reset` raises (a task that does not exist
    or cannot be made); whatever the policy raises is recorded.
    """
    log = log if log is not None else Log()
    log.secrets = agent.secrets
    started = time.perf_counter()
    env.reset(seed=job.seed, options={"task": job.index})
    fatal = False
    try:
        policy = await _policy_call(call_here, agent.start, env, job.seed)
        log.policy = policy
        await _play_turns(env, policy, log, act, step)
    except PromptRefusedError as refused:
        env.truncate(refused.stop)
    except PolicyError as error:
        fatal = error.fatal
        fail(env, log, error.cause, str(error))
    except Exception as error:  # noqa: BLE001 - a fault of ours is recorded as such, and the run goes on
        _log.exception("an episode of %s failed", env.env_spec.id)
        fail(env, log, "environment", f"{type(error).__name__}: {error}")
    if log.error is None and env.episode.stop == "error":
        report = env.episode.report
        message = env.episode.fault or (report.error if report else None) or "unknown"
        log.error = {"cause": "environment", "message": redact_text(message, log.secrets)}
    log.seconds = time.perf_counter() - started
    return record(env, agent.name, job, log), fatal


def fail(env: Env[Any], log: Log, cause: str, message: str) -> None:
    """End the episode as an error with its cause."""
    message = redact_text(message[: 2 * _MAX_CAUSE_CHARS], log.secrets)
    log.error = {"cause": cause, "message": message[:_MAX_CAUSE_CHARS]}
    env.fail(f"{cause}: {message}")


async def _play_turns(env: Env[Any], policy: Policy, log: Log, act: Call, step: Call) -> None:
    clock = env.clock = time.perf_counter
    while env.episode.stop is None:
        turn = Act(env.policy_prompt(), env.available_tools())
        before = clock()
        reply = await _policy_call(act, policy.act, turn.prompt, turn.tools)
        after = clock()
        turn.model_seconds = after - before
        turn.completion = read_completion(reply)
        log.acts.append(turn)
        if log.progress is not None:
            log.progress.add_turn(turn.completion)
        await step(env.step, reply)
        turn.step_seconds = clock() - after
        turn.tool_seconds = env.episode.tool_seconds


async def _policy_call(call: Call, function: Callable[..., Any], *args: Any) -> Any:
    """Call a policy; its exceptions become the errors that a policy may raise."""
    try:
        return await call(function, *args)
    except Exception as error:
        typed = as_policy_error(error)
        if typed is error:
            raise
        if isinstance(typed, PolicyError) and not typed.fatal:
            _log.warning("the agent failed", exc_info=True)
        raise typed from error


def play_episode(env: Env[Any], agent: ScriptedAgent, task: int, seed: int = 0) -> Record:
    """Let a scripted agent play one task, without an event loop, and return the record."""
    # A coroutine that never awaits anything pending runs to its end in one step, and returns by StopIteration.
    try:
        play(env, agent_from_script(agent), Job(task, 0, seed), act=_call_synchronously).send(None)
    except StopIteration as done:
        return cast(Outcome, done.value)[0]
    raise AssertionError("the coroutine suspended")


def play_many(env: Env[Any], agent: ScriptedAgent, tasks: Sequence[int], seed: int = 0) -> Iterator[Record]:
    """Let a scripted agent play tasks one after another."""
    yield from (play_episode(env, agent, task, seed) for task in tasks)


class RunAbortedError(FactgymError):
    """Every further episode would fail as those before; finished episodes are on disk."""


class Limits(Settings):
    """Limits of a run; none of them changes an episode.

    concurrency: episodes at a time. episode_timeout: seconds, after which an episode is recorded as an error; None for
    no limit. max_errors: infrastructure errors in a row after which the run stops (0: never); default the larger of
    16 and the concurrency, so that one burst that hits every running episode does not end it.
    """

    concurrency: AtLeastOne = 64
    episode_timeout: Annotated[float, Field(gt=0)] | None = None
    max_errors: Annotated[int, Field(ge=0)] | None = None

    @property
    def errors_in_row(self) -> int:
        """Errors in a row after which the run stops; 0 for never."""
        return max(16, self.concurrency + 1) if self.max_errors is None else self.max_errors

    def abort_reason(self, episode: Mapping[str, Any], errors_in_row: int, fatal: bool = False) -> str | None:
        """Why a run must stop after this episode; None where it goes on."""
        if episode["error"] is None:
            return None
        error = f"{episode['error']['cause']}: {episode['error']['message']}"
        if fatal:
            return f"the run was stopped: {error}"
        if self.errors_in_row and errors_in_row >= self.errors_in_row:
            return f"the run was stopped after {errors_in_row} errors in a row; the last: {error}"
        return None


async def run_jobs(
    env: Env[Any],
    agent: Agent,
    jobs: Iterable[Job],
    keep: Keep,
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Progress:
    """Play every job and hand its record to `keep`, in the order in which they end.

    Raises RunAbortedError when a fault is fatal or errors come in a row, and what `keep` or a task that cannot be made
    raises. The agent is not closed.
    """
    limits = limits or Limits()
    progress = progress or Progress(0)
    with closing(EpisodeRunner(env, agent, limits.episode_timeout, progress)) as runner:
        return await run_jobs_with(runner.play, jobs, keep, limits, progress)


def play_jobs(env: Env[Any], agent: Agent, jobs: Sequence[Job], on_episode: Callable[[int], None]) -> list[Record]:
    """Let an agent play jobs, many at a time, prepare and close it, and return the records in the order of the jobs.

    on_episode(episodes so far). Raises as `run_jobs` does. For a thread without a running event loop.
    """
    records: dict[tuple[int, int], Record] = {}

    def keep(episode: Record) -> None:
        records[episode["index"], episode["sample"]] = episode
        on_episode(len(records))

    async def run() -> None:
        try:
            await agent.prepare()
            await run_jobs(env, agent, jobs, keep)
        finally:
            await agent.close()

    asyncio.run(run())
    return [records[job.index, job.sample] for job in jobs]


@contextmanager
def _heap_frozen() -> Iterator[None]:
    """Leave the process's modules, tasks and corpora out of garbage collection while episodes are made.

    What somebody else froze, another run of this process among them, is left to them.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def run_jobs_with(
    play_job: Callable[[Job], Awaitable[tuple[Record | EncodedRecord, bool]]],
    jobs: Iterable[Job],
    keep: Keep,
    limits: Limits,
    progress: Progress,
) -> Progress:
    """`run_jobs` for another way to play a job, such as on another machine."""
    # A pool of `concurrency` tasks over one shared iterator. When one stops the run, it cancels all: episodes that are
    # being played are given up, and their jobs can be played again.
    remaining = iter(jobs)
    tasks: list[asyncio.Task[None]] = []
    aborted: str | None = None
    failures: tuple[BaseException, ...] = ()

    async def work() -> None:
        nonlocal aborted
        for job in remaining:
            progress.running += 1
            try:
                episode, fatal = await play_job(job)
            finally:
                progress.running -= 1
            keep(episode)
            progress.add(episode)
            if aborted is None:
                aborted = limits.abort_reason(episode, progress.errors_in_row, fatal)
                if aborted is not None:
                    for task in tasks:
                        task.cancel()
            await asyncio.sleep(0)  # a policy that never waits must not starve the display and the interrupt

    try:
        with _heap_frozen():
            async with asyncio.TaskGroup() as group:
                tasks += [group.create_task(work()) for _ in range(limits.concurrency)]
    except BaseExceptionGroup as error:
        failures = error.exceptions
    if failures:
        raise failures[0]
    if aborted is not None:
        raise RunAbortedError(aborted)
    return progress


class EpisodeRunner:
    """Plays jobs, any number at a time, each in an environment of its own. The agent is not closed with it.

    episode_timeout: see `Limits`. progress: counters, updated with each turn as it is played.
    """

    def __init__(
        self, env: Env[Any], agent: Agent, episode_timeout: float | None = None, progress: Progress | None = None
    ) -> None:
        self._env, self._agent, self._timeout, self._progress = env, agent, episode_timeout, progress
        self._free: list[Env[Any]] = []
        self._pools: list[ThreadPoolExecutor] = []
        self._act = self._caller(agent.threads)
        self._step = self._caller(_STEP_THREADS if env.slow_steps else 0)

    async def play(self, job: Job) -> Outcome:
        """Play a job; an episode that takes too long is recorded as an error."""
        env, log = self._free.pop() if self._free else copy.deepcopy(self._env), Log(progress=self._progress)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                outcome = await play(env, self._agent, job, act=self._act, step=self._step, log=log)
        except asyncio.CancelledError:
            env.close()  # the thread of its step may wait for a reply that is no longer needed
            raise
        except TimeoutError:
            if not limit.expired():
                raise
            env.close()
            log.seconds = self._timeout or 0.0
            trouble = getattr(log.policy, "trouble", None)
            waiting = f", with requests repeated after this fault: {trouble}" if trouble else ""
            if env.slow_steps:  # a thread may still be changing this episode
                env, log = copy.deepcopy(self._env), Log(seconds=log.seconds)
                env.reset(seed=job.seed, options={"task": job.index})
            fail(env, log, "timeout", f"the episode took more than {self._timeout:g} seconds{waiting}")
            return record(env, self._agent.name, job, log), False
        if log.error is None:  # after a fault, a thread that was given up may still hold the environment
            self._free.append(env)
        return outcome

    def _caller(self, threads: int) -> Call:
        """How to call: on the loop, or in threads of its own that end with it."""
        if not threads:
            return call_here
        pool = ThreadPoolExecutor(threads, thread_name_prefix="factgym")
        self._pools.append(pool)

        async def call(function: Callable[..., Any], *args: Any) -> Any:
            result = await asyncio.get_running_loop().run_in_executor(pool, function, *args)
            return await result if inspect.isawaitable(result) else result

        return call

    def close(self) -> None:
        """End the threads without waiting for them."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
