"""The verifiers integration: every environment's episodes are the same through it, and what fails is no score of zero."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs factgym[verifiers]")

import same_episodes
import verifiers.v1 as vf
from conformance.setups import SETUPS
from playback import PlaybackServer, in_thread
from same_episodes import Case, assert_same, outcome_of
from verifiers_runs import context, packages, play, report_in, run, server, serving

import factgym
from factgym.agents.script_server import MODEL, Connection, Request
from factgym.integrations.session import self_contained
from factgym.integrations.settings import settings_of
from factgym.integrations.verifiers import (
    FactData,
    FactHarnessConfig,
    FactState,
    FactTask,
)

__all__ = ["packages", "server"]

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

SETUP_IDS = [f"{env_id}-{needs.__name__}".removesuffix("-nothing") for env_id, needs in SETUPS]


@pytest.mark.parametrize(("env_id", "needs"), SETUPS, ids=SETUP_IDS)
def test_every_episode_is_the_same_through_the_door(
    env_id: str, needs: Callable[..., Any], server: tuple[PlaybackServer, str]
) -> None:
    served, url = server
    cases = [one for one in same_episodes.cases("messages", "texts") if (one.env, one.needs) == (env_id, needs)]

    async def play_all() -> list[vf.Trace]:
        async with serving(env_id, cases[0].episode.config) as env:
            return await asyncio.gather(*(play(env, url, served, case) for case in cases))

    for case, trace in zip(cases, run(play_all()), strict=True):
        reference = case.reference
        asked = served.shown[str(case)]
        report = report_in(trace)
        first = [{key: one[key] for key in one} for one in asked[0]["messages"]]
        seen = outcome_of(report, first=first, said=[], stop=trace.info["factgym"]["stop"])
        assert_same(reference, seen, skip=["said", "tools"])
        assert [request["messages"] for request in asked] == case.prompts[: len(asked)]
        assert len(asked) == len(reference.said)
        open_now = [[tool["function"]["name"] for tool in request.get("tools", [])] for request in asked]
        assert open_now[1:] == reference.tools[: len(asked) - 1]
        assert trace.reward == reference.total
        assert trace.rewards["reward"].score == reference.total
        assert {name: trace.metrics[name] for name in reference.components} == reference.components
        assert trace.num_turns == len(reference.said)
        assert sum(trace.info["factgym"]["turn_rewards"]) == pytest.approx(sum(one[3] for one in reference.spans))


def test_the_framework_records_every_message_in_one_branch(server: tuple[PlaybackServer, str]) -> None:
    served, url = server
    case = next(one for one in same_episodes.cases("messages") if one.env == "claimcheck-multihop")

    async def one() -> vf.Trace:
        async with serving(case.env, {}) as env:
            return await play(env, url, served, case)

    trace = run(one())
    reference = case.reference
    assert trace.num_branches == 1
    assert trace.stop_condition == "submitted"
    results = [message.content for message in trace.tool_messages]
    assert results == [message["content"] for new in reference.said[:-1] for message in new]
    assert [message.role for message in trace.messages[:2]] == ["system", "user"]
    assert len(trace.assistant_messages) == len(reference.said)


class Faulty(PlaybackServer):
    """Answers the first `bad` requests of each conversation's turn with `answer`."""

    def __init__(self, answer: Callable[[Connection], None], bad: int = 1) -> None:
        super().__init__()
        self.answer_badly, self.bad = answer, bad
        self.met: dict[bytes, int] = {}

    def chat(self, connection: Connection, request: Request) -> None:
        met = self.met[request.body] = self.met.get(request.body, 0) + 1
        if met <= self.bad:
            self.answer_badly(connection)
        else:
            super().chat(connection, request)


def status(code: int, said: str) -> Callable[[Connection], None]:
    return lambda connection: connection.send(code, json.dumps({"error": {"message": said}}).encode())


async def episodes(url: str, count: int, **config: Any) -> list[vf.Episode]:
    async with serving("claimcheck-multihop", {}, **config) as env:
        tasks = list(env.taskset.take(count))
        return await asyncio.gather(*(env.run_episode(task, context(url, MODEL)) for task in tasks))


@pytest.mark.parametrize(
    "answer", [status(503, "busy"), status(429, "slow down"), lambda connection: connection.drop()], ids=[503, 429, 0]
)
def test_what_a_server_refuses_once_is_asked_again(answer: Callable[[Connection], None]) -> None:
    with in_thread(Faulty(answer)) as url:
        found = run(episodes(url, 8))
    assert all(one.ok and one.traces[0].stop_condition == "submitted" for one in found)
    assert all(one.traces[0].num_turns == 3 for one in found)


def test_a_server_that_never_answers_is_an_error_and_no_score() -> None:
    with in_thread(Faulty(status(400, "no such thing"), bad=1000)) as url:
        (found,) = run(episodes(url, 1))
    assert not found.ok
    assert found.traces[0].stop_condition == "provider_error"
    assert not any(found.traces[0].rewards.values())


def test_a_prompt_that_does_not_fit_ends_the_episode_and_is_scored() -> None:
    said = "This model's maximum context length is 4096 tokens."
    server = Faulty(status(400, said), bad=1000)
    turns = iter((False, True))
    play, server.chat = server.chat, None  # type: ignore[method-assign]
    server.chat = lambda *given: play(*given) if next(turns) else PlaybackServer.chat(server, *given)  # type: ignore
    with in_thread(server) as url:
        (found,) = run(episodes(url, 1))
    trace = found.traces[0]
    assert found.ok
    assert (trace.info["factgym"]["stop"], trace.num_turns, trace.reward) == ("context_limit", 1, 0.0)


def test_a_fault_of_the_environment_is_an_error_and_no_score(
    monkeypatch: pytest.MonkeyPatch, server: tuple[PlaybackServer, str]
) -> None:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

    def fail(*_: Any) -> Any:
        raise ConnectionResetError("the index is gone")

    monkeypatch.setattr(ClaimCheckEnv, "score", fail)
    (found,) = run(episodes(server[1], 1))
    assert not found.ok
    assert found.traces[0].errors[-1].type == "TaskError"
    assert "the index is gone" in found.traces[0].errors[-1].message
    assert not any(found.traces[0].rewards.values())


def test_the_run_can_cut_an_episode_off_and_it_is_scored(server: tuple[PlaybackServer, str]) -> None:
    (found,) = run(episodes(server[1], 1, agent={"max_turns": 2}))
    trace = found.traces[0]
    assert found.ok
    assert (trace.stop_condition, trace.is_truncated, trace.metrics["truncated"]) == ("max_turns", True, 1.0)
    assert trace.info["factgym"]["stop"] == "turn_limit"


def test_an_episode_that_runs_out_of_time_is_scored_as_it_stands() -> None:
    slow = PlaybackServer()
    slow.delay = 2.0
    with in_thread(slow) as url:
        (found,) = run(episodes(url, 1, agent={"timeout": {"rollout": 3.0}}))
    trace = found.traces[0]
    assert found.ok and trace.is_timeout
    assert trace.stop_condition == "agent_timeout"
    assert trace.reward == 0.0
    assert trace.info["factgym"]["metrics"]["turns"] == trace.num_turns < 3


def test_a_system_prompt_of_the_run_takes_the_place_of_ours(
    server: tuple[PlaybackServer, str], tmp_path: Path
) -> None:
    served, url = server
    (tmp_path / "system.txt").write_text("Judge well.", "utf-8")
    case = next(one for one in same_episodes.cases("messages") if one.env == "claimcheck-multihop")
    other = Case(case.env, case.needs, case.kind, case.name, 1)

    async def one() -> None:
        async with serving(case.env, {"system_prompt": str(tmp_path / "system.txt")}) as env:
            await play(env, url, served, other)

    run(one())
    for request in served.shown[str(other)]:
        assert [m["content"] for m in request["messages"] if m["role"] == "system"] == ["Judge well."]


def test_settings_are_typed_and_refused_in_words() -> None:
    config = vf.resolve_env_config({"taskset": {"id": "claimcheck-multihop", "split": "train", "haystack": True}})
    task = next(iter(vf.load_taskset(config.taskset)))
    assert task.data.settings == {"split": "train", "haystack": True}
    assert task.data.open().env.config.haystack
    for wrong, said in (
        ({"split": "tset"}, "has no split 'tset'"),
        ({"haystack": "maybe"}, "bool"),
        ({"spilt": 1}, "spilt"),
    ):
        with pytest.raises(ValueError, match=said):
            vf.resolve_env_config({"taskset": {"id": "claimcheck-multihop", **wrong}})
    inner = vf.resolve_env_config({"taskset": {"id": "claimcheck", "rules": {"min_quote_chars": 20}}})
    session = next(iter(vf.load_taskset(inner.taskset))).data.open()
    assert session.env.config.rules.min_quote_chars == 20


@pytest.mark.parametrize("env_id", self_contained())
def test_every_package_has_typed_settings_tasks_and_a_ground_truth(env_id: str) -> None:
    config = vf.resolve_env_config({"taskset": {"id": env_id}})
    assert type(config.taskset).model_fields.keys() >= {one.name for one in settings_of(env_id)}
    assert config.agent.runtime.type == "subprocess"
    assert isinstance(config.agent_harnesses()["agent"], FactHarnessConfig)
    taskset = vf.load_taskset(config.taskset)
    tasks = list(taskset.take(2))
    assert len({task.key for task in tasks}) == 2
    for task in tasks:
        wire = FactData.model_validate(json.loads(task.data.model_dump_json()))
        assert FactTask(wire, config.taskset.task).key == task.key
        # What an oracle can earn where the reward asks another policy depends on that policy.
        assert run(task.validate(None)) is (None if factgym.make(env_id).auxiliary_policies() else True)


def test_a_tool_server_that_forgot_a_session_plays_it_again() -> None:
    case = next(one for one in same_episodes.cases("calls") if one.env == "claimcheck-multihop")
    data = FactData(env=case.env, task=case.episode.task, max_turns=12)
    calls = [(name, json.loads(arguments)) for name, arguments in case.episode.calls()]
    state = FactState(key="a", task=data.model_dump(), actions=calls[:-1])
    from factgym.integrations.verifiers.task import FactTools, FactToolsConfig

    tools = FactTools(FactToolsConfig(env=case.env))
    run(tools.setup())
    tools._inert_state = FactState.model_validate_json(state.model_dump_json())
    assert run(tools._call(*calls[-1])) == case.reference.results()[-1]
    assert tools.state.result["report"]["total"] == case.reference.total


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_what_we_rely_on_upstream_is_as_it_was() -> None:
    assert parameters(vf.Harness.launch) == [
        *("self", "ctx", "trace", "runtime", "endpoint", "secret", "mcp_urls", "data"),
    ]
    assert parameters(vf.Task.setup) == parameters(vf.Task.finalize) == ["self", "trace", "runtime"]
    assert parameters(vf.Task.validate) == ["self", "runtime"]
    assert parameters(vf.Task.__init__) == ["self", "data", "config"]
    assert parameters(vf.Task.toolsets) == parameters(vf.Taskset.toolsets) == ["config"]
    assert parameters(vf.Trace.stop)[:2] == ["self", "condition"]
    assert parameters(vf.ProgramResult) >= ["exit_code", "stdout", "stderr"]
    assert inspect.isasyncgenfunction(inspect.unwrap(vf.Env.shared_tools))
    assert parameters(vf.EnvConfig.agent_harnesses) == ["self"]
    assert {"state", "info", "rewards", "metrics", "stop_condition"} <= vf.Trace.model_fields.keys()
    assert {"id", "name", "prompt", "system_prompt"} <= vf.TaskData.model_fields.keys()
    assert {"task", "system_prompt", "id"} == vf.TasksetConfig.model_fields.keys()
    assert parameters(vf.Toolset.register) == ["self", "mcp"]
    assert parameters(vf.Toolset._with_state) == ["self", "fn"]
