"""What the tests of the verifiers integration share: packages on the path, an environment that serves, a played case."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections.abc import Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from playback import PlaybackServer, in_thread
from same_episodes import Case

from factgym.core.episode import RewardReport, SpanCredit
from factgym.integrations.hub import module_of
from factgym.integrations.session import self_contained
from factgym.integrations.verifiers import FactEnv, FactHarness, FactTask, taskset_of

ENVIRONMENTS = Path(__file__).resolve().parents[2] / "environments"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[PlaybackServer, str]]:
    served = PlaybackServer()
    with in_thread(served) as url:
        yield served, url


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checked-in packages, importable as if they were installed."""
    for env_id in self_contained():
        monkeypatch.syspath_prepend(str(ENVIRONMENTS / module_of(env_id)))


def package_for(env_id: str) -> str:
    """The taskset id of an environment: its hub package, or one made here where it needs files."""
    if env_id in self_contained():
        return env_id
    name = f"made_here_{module_of(env_id)}"
    module = sys.modules.setdefault(name, types.ModuleType(name))
    vars(module).update(Taskset=taskset_of(env_id), FactEnv=FactEnv, FactHarness=FactHarness)
    module.__all__ = ["FactEnv", "FactHarness", "Taskset"]
    return name


@asynccontextmanager
async def serving(env_id: str, settings: dict[str, Any], **config: Any) -> Any:
    taskset = {"id": package_for(env_id), **settings}
    env = vf.load_environment(vf.resolve_env_config({"taskset": taskset, **config}))
    async with env.serving():
        yield env


def context(url: str, model: str) -> vf.ModelContext:
    return vf.ModelContext(
        client=vf.EvalClientConfig(base_url=url, api_key_var="NO_SUCH_KEY"), model=model, sampling=vf.SamplingConfig()
    )


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def task_of(env: Any, task: str) -> FactTask:
    return next(one for one in env.taskset if one.data.id == task)


def report_in(trace: vf.Trace) -> RewardReport:
    data = json.loads(trace.model_dump_json())["info"]["factgym"]["report"]
    spans = tuple(SpanCredit(*one) for one in data.pop("spans"))
    return RewardReport(**{**data, "spans": spans})


async def play(env: Any, url: str, served: PlaybackServer, case: Case) -> vf.Trace:
    model = str(case)
    served.script[model] = case.episode.messages
    served.shown.pop(model, None)
    episode = await env.run_episode(task_of(env, case.episode.task), context(url, model))
    assert episode.ok, [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    return episode.traces[0]
