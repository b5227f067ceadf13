"""The verifiers integration: every environment's episodes are the same through it, and a fault is no score of zero."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import types
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs factgym[verifiers]")

import reference_episodes
import verifiers.v1 as vf
from playback import PlaybackServer, in_thread
from reference_episodes import Case, assert_same, outcome_of

import factgym
from factgym.agents.script_server import MODEL, Connection, Request
from factgym.core.episode import RewardReport, SpanCredit
from factgym.integrations.frameworks import settings_of
from factgym.integrations.hub import module_of
from factgym.integrations.session import Session, self_contained
from factgym.integrations.verifiers import (
    FactData,
    FactEnv,
    FactHarness,
    FactHarnessConfig,
    FactState,
    FactTask,
    taskset_of,
)

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

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
    return next(candidate for candidate in env.taskset if candidate.data.id == task)


def report_in(trace: vf.Trace) -> RewardReport:
    data = json.loads(trace.model_dump_json())["info"]["factgym"]["report"]
    spans = tuple(SpanCredit(*span) for span in data.pop("spans"))
    return RewardReport(**{**data, "spans": spans})


async def play(env: Any, url: str, served: PlaybackServer, case: Case) -> vf.Trace:
    model = str(case)
    served.script[model] = case.episode.messages
    served.bodies.pop(model, None)
    episode = await env.run_episode(task_of(env, case.episode.task), context(url, model))
    assert episode.ok, [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    return episode.traces[0]


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(
    env_id: str, needs: Callable[..., Any], server: tuple[PlaybackServer, str]
) -> None:
    served, url = server
    cases = reference_episodes.cases("messages", "texts", env=env_id, needs=needs)

    async def play_all() -> list[vf.Trace]:
        async with serving(env_id, cases[0].episode.config) as env:
            return await asyncio.gather(*(play(env, url, served, case) for case in cases))

    for case, trace in zip(cases, run(play_all()), strict=True):
        reference = case.reference
        requests = served.bodies[str(case)]
        report = report_in(trace)
        first = [{key: message[key] for key in message} for message in requests[0]["messages"]]
        outcome = outcome_of(report, first=first, answers=[], stop=trace.info["factgym"]["stop"])
        assert_same(reference, outcome, skip=["answers", "tools"])
        assert [request["messages"] for request in requests] == case.prompts[: len(requests)]
        assert len(requests) == len(reference.answers)
        open_now = [[tool["function"]["name"] for tool in request.get("tools", [])] for request in requests]
        assert open_now[1:] == reference.tools[: len(requests) - 1]
        assert trace.reward == reference.total
        assert trace.rewards["reward"].score == reference.total
        assert {name: trace.metrics[name] for name in reference.components} == reference.components
        assert trace.num_turns == len(reference.answers)
        assert sum(trace.info["factgym"]["turn_rewards"]) == pytest.approx(sum(span[3] for span in reference.spans))


def test_the_framework_records_every_message_in_one_branch(server: tuple[PlaybackServer, str]) -> None:
    served, url = server
    case = reference_episodes.cases("messages", env="claimcheck-multihop")[0]

    async def play_case() -> vf.Trace:
        async with serving(case.env, case.episode.config) as env:
            return await play(env, url, served, case)

    trace = run(play_case())
    reference = case.reference
    assert trace.num_branches == 1
    assert trace.stop_condition == "submitted"
    results = [message.content for message in trace.tool_messages]
    assert results == [message["content"] for new in reference.answers[:-1] for message in new]
    assert [message.role for message in trace.messages[:2]] == ["system", "user"]
    assert len(trace.assistant_messages) == len(reference.answers)


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


def status(code: int, message: str) -> Callable[[Connection], None]:
    return lambda connection: connection.send(code, json.dumps({"error": {"message": message}}).encode())


async def episodes(url: str, count: int, **config: Any) -> list[vf.Episode]:
    async with serving("claimcheck-multihop", {}, **config) as env:
        tasks = list(env.taskset.take(count))
        return await asyncio.gather(*(env.run_episode(task, context(url, MODEL)) for task in tasks))


@pytest.mark.parametrize(
    "answer", [status(503, "busy"), status(429, "slow down"), lambda connection: connection.drop()], ids=[503, 429, 0]
)
def test_a_request_that_is_refused_once_is_sent_again(answer: Callable[[Connection], None]) -> None:
    with in_thread(Faulty(answer)) as url:
        results = run(episodes(url, 8))
    assert all(episode.ok and episode.traces[0].stop_condition == "submitted" for episode in results)
    assert all(episode.traces[0].num_turns == 3 for episode in results)


def test_a_server_that_never_answers_is_an_error_and_no_score() -> None:
    with in_thread(Faulty(status(400, "no such thing"), bad=1000)) as url:
        (episode,) = run(episodes(url, 1))
    assert not episode.ok
    assert episode.traces[0].stop_condition == "provider_error"
    assert not any(episode.traces[0].rewards.values())


def test_a_prompt_that_does_not_fit_ends_the_episode_and_is_scored() -> None:
    message = "This model's maximum context length is 4096 tokens."
    server = Faulty(status(400, message), bad=1000)
    turns = iter((False, True))
    play, server.chat = server.chat, None  # type: ignore[method-assign]
    server.chat = lambda *arguments: play(*arguments) if next(turns) else PlaybackServer.chat(server, *arguments)  # type: ignore
    with in_thread(server) as url:
        (episode,) = run(episodes(url, 1))
    trace = episode.traces[0]
    assert episode.ok
    assert (trace.info["factgym"]["stop"], trace.num_turns, trace.reward) == ("context_limit", 1, 0.0)


def test_a_fault_of_the_environment_is_an_error_and_no_score(
    monkeypatch: pytest.MonkeyPatch, server: tuple[PlaybackServer, str]
) -> None:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

    def fail(*_: Any) -> Any:
        raise ConnectionResetError("the index is gone")

    monkeypatch.setattr(ClaimCheckEnv, "score", fail)
    (episode,) = run(episodes(server[1], 1))
    assert not episode.ok
    assert episode.traces[0].errors[-1].type == "TaskError"
    assert "the index is gone" in episode.traces[0].errors[-1].message
    assert not any(episode.traces[0].rewards.values())


def test_the_run_can_cut_an_episode_off_and_it_is_scored(server: tuple[PlaybackServer, str]) -> None:
    (episode,) = run(episodes(server[1], 1, agent={"max_turns": 2}))
    trace = episode.traces[0]
    assert episode.ok
    assert (trace.stop_condition, trace.is_truncated, trace.metrics["truncated"]) == ("max_turns", True, 1.0)
    assert trace.info["factgym"]["stop"] == "turn_limit"


def test_an_episode_that_runs_out_of_time_is_scored() -> None:
    slow = PlaybackServer()
    slow.delay = 2.0
    with in_thread(slow) as url:
        (episode,) = run(episodes(url, 1, agent={"timeout": {"rollout": 3.0}}))
    trace = episode.traces[0]
    assert episode.ok and trace.is_timeout
    assert trace.stop_condition == "agent_timeout"
    assert trace.reward == 0.0
    assert trace.info["factgym"]["metrics"]["turns"] == trace.num_turns < 3


def test_a_system_prompt_of_the_run_replaces_the_environments(
    server: tuple[PlaybackServer, str], tmp_path: Path
) -> None:
    served, url = server
    (tmp_path / "system.txt").write_text("Judge well.", "utf-8")
    case = reference_episodes.cases("messages", env="claimcheck-multihop")[0]
    second = Case(case.env, case.needs, case.kind, case.name, 1)

    async def play_second() -> None:
        async with serving(case.env, {**case.episode.config, "system_prompt": str(tmp_path / "system.txt")}) as env:
            await play(env, url, served, second)

    run(play_second())
    for request in served.bodies[str(second)]:
        assert [m["content"] for m in request["messages"] if m["role"] == "system"] == ["Judge well."]


def test_settings_are_typed_and_wrong_ones_refused_with_a_reason() -> None:
    config = vf.resolve_env_config({"taskset": {"id": "claimcheck-multihop", "split": "train", "haystack": True}})
    task = next(iter(vf.load_taskset(config.taskset)))
    assert task.data.settings == {"split": "train", "haystack": True}
    assert task.data.open().env.config.haystack
    for wrong, message in (
        ({"split": "tset"}, "has no split 'tset'"),
        ({"haystack": "maybe"}, "bool"),
        ({"spilt": 1}, "spilt"),
    ):
        with pytest.raises(ValueError, match=message):
            vf.resolve_env_config({"taskset": {"id": "claimcheck-multihop", **wrong}})
    inner = vf.resolve_env_config({"taskset": {"id": "claimcheck", "rules": {"min_quote_chars": 20}}})
    session = next(iter(vf.load_taskset(inner.taskset))).data.open()
    assert session.env.config.rules.min_quote_chars == 20


@pytest.mark.parametrize("env_id", self_contained())
def test_every_package_has_typed_settings_tasks_and_a_ground_truth(env_id: str) -> None:
    config = vf.resolve_env_config({"taskset": {"id": env_id}})
    assert type(config.taskset).model_fields.keys() >= {setting.name for setting in settings_of(env_id)}
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


def test_a_tool_server_replays_a_session_that_it_dropped() -> None:
    case = reference_episodes.cases("calls", env="claimcheck-multihop")[0]
    data = FactData(env=case.env, task=case.episode.task, max_turns=12)
    calls = [(name, json.loads(arguments)) for name, arguments in case.episode.calls()]
    state = FactState(key="a", task=data.model_dump(), actions=calls[:-1])
    from factgym.integrations.verifiers.task import FactTools, FactToolsConfig

    tools = FactTools(FactToolsConfig(env=case.env))
    run(tools.setup())
    tools._inert_state = FactState.model_validate_json(state.model_dump_json())
    assert run(tools._call(*calls[-1])) == case.reference.results()[-1]
    assert tools.state.result["report"]["total"] == case.reference.total


def test_the_used_parts_of_the_framework_are_unchanged() -> None:
    assert reference_episodes.parameters(vf.Harness.launch) == [
        *("self", "ctx", "trace", "runtime", "endpoint", "secret", "mcp_urls", "data")
    ]
    assert (
        reference_episodes.parameters(vf.Task.setup)
        == reference_episodes.parameters(vf.Task.finalize)
        == ["self", "trace", "runtime"]
    )
    assert reference_episodes.parameters(vf.Task.validate) == ["self", "runtime"]
    assert reference_episodes.parameters(vf.Task.__init__) == ["self", "data", "config"]
    assert (
        reference_episodes.parameters(vf.Task.toolsets)
        == reference_episodes.parameters(vf.Taskset.toolsets)
        == ["config"]
    )
    assert reference_episodes.parameters(vf.Trace.stop)[:2] == ["self", "condition"]
    assert reference_episodes.parameters(vf.ProgramResult) >= ["exit_code", "stdout", "stderr"]
    assert inspect.isasyncgenfunction(inspect.unwrap(vf.Env.shared_tools))
    assert reference_episodes.parameters(vf.EnvConfig.agent_harnesses) == ["self"]
    assert {"state", "info", "rewards", "metrics", "stop_condition"} <= vf.Trace.model_fields.keys()
    assert {"id", "name", "prompt", "system_prompt"} <= vf.TaskData.model_fields.keys()
    assert {"task", "system_prompt", "id"} == vf.TasksetConfig.model_fields.keys()
    assert reference_episodes.parameters(vf.Toolset.register) == ["self", "mcp"]
    assert reference_episodes.parameters(vf.Toolset._with_state) == ["self", "fn"]


def test_other_harnesses_play_the_same_episodes_through_the_tool_server(server: tuple[PlaybackServer, str]) -> None:
    """A harness that knows nothing of us sees the tools through MCP, shared and one a rollout."""
    cases = reference_episodes.cases("calls", tasks=1, env="claimcheck-multihop")
    cases += reference_episodes.cases("calls", env="profact", name="oracle", tasks=1)[:1]

    async def play_all(env_id: str, tool_server: str) -> list[tuple[Case, vf.Trace]]:
        played = []
        module = sys.modules.setdefault("mcp_player", types.ModuleType("mcp_player"))
        vars(module).update(McpPlayer=McpPlayer, __all__=["McpPlayer"])
        agent = {"harness": {"id": "mcp-player"}}
        (config, *_) = [case.episode.config for case in cases if case.env == env_id]
        settings = {**config, "task": {"tool_server": tool_server}}
        async with serving(env_id, settings, agent=agent) as env:
            for case in cases:
                if case.env == env_id:
                    McpPlayer.episode = case.episode
                    episode = await env.run_episode(task_of(env, case.episode.task), context(server[1], "nobody"))
                    assert episode.ok, episode.traces[0].errors
                    played.append((case, episode.traces[0]))
        return played

    for env_id, tool_server in (("claimcheck-multihop", "shared"), ("profact", "rollout")):
        for case, trace in run(play_all(env_id, tool_server)):
            reference = case.reference
            assert trace.info["results"] == reference.results()[: len(trace.info["results"])]
            assert len(trace.info["results"]) == len(reference.results())
            outcome = outcome_of(report_in(trace), first=[], answers=[], stop=trace.info["factgym"]["stop"])
            assert_same(reference, outcome, skip=["first", "answers", "tools", "spans"])
            assert set(trace.info["tools"]) == {tool["function"]["name"] for tool in Session(env_id).all_tools()}
            functions = {tool["function"]["name"]: tool["function"] for tool in Session(env_id).all_tools()}
            for name, schema in trace.info["tools"].items():
                properties = {
                    key: {k: v for k, v in value.items() if k != "title"} for key, value in schema["properties"].items()
                }
                assert properties == functions[name]["parameters"]["properties"]
                assert schema.get("required", []) == functions[name]["parameters"].get("required", [])


class McpPlayer(vf.Harness[vf.HarnessConfig]):
    """Says an episode's calls to the tool server, without any model."""

    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True
    episode: Any = None

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: Any
    ) -> vf.ProgramResult:
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        (url,) = mcp_urls.values()
        results = []
        async with Client(streamable_http_client(url)) as client:
            trace.info["tools"] = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            for name, arguments in self.episode.calls():
                result = await client.call_tool(name, json.loads(arguments))
                results.append(result.content[0].text)
                if trace.state.result is not None:
                    break
        trace.info["results"] = results
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class Chatter(vf.Harness[vf.HarnessConfig]):
    """Talks with the model without any tool, until `turns` are over or it is refused."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    turns = 1

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: Any
    ) -> vf.ProgramResult:
        from openai import AsyncOpenAI, BadRequestError

        messages: list[Any] = [
            {"role": "system", "content": data.system_prompt},
            {"role": "user", "content": data.prompt},
        ]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as chat:
            for _ in range(self.turns):
                try:
                    completion = await chat.chat.completions.create(model=ctx.model, messages=messages)
                except BadRequestError:
                    break
                messages.append({"role": "assistant", "content": completion.choices[0].message.content})
                messages.append({"role": "user", "content": "Go on."})
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


async def chattered(env_id: str, url: str, served: PlaybackServer, case: Case, turns: int) -> vf.Trace:
    module = sys.modules.setdefault("chatter", types.ModuleType("chatter"))
    vars(module).update(Chatter=Chatter, __all__=["Chatter"])
    Chatter.turns = turns
    async with serving(env_id, case.episode.config, agent={"harness": {"id": "chatter"}}) as env:
        return await play(env, url, served, case)


def test_the_last_text_of_another_harness_is_the_answer(server: tuple[PlaybackServer, str]) -> None:
    served, url = server
    case = reference_episodes.cases("texts", env="seva", name="honest")[0]
    trace = run(chattered("seva", url, served, case, 1))
    outcome = outcome_of(report_in(trace), first=[], answers=[], stop=trace.info["factgym"]["stop"])
    assert_same(case.reference, outcome, skip=["first", "answers", "tools"])


def test_a_harness_that_never_calls_a_tool_is_stopped(server: tuple[PlaybackServer, str]) -> None:
    served, url = server
    case = reference_episodes.cases("texts", env="seva", name="hostile")[0]
    trace = run(chattered("seva", url, served, case, 1000))
    assert trace.stop_condition == "too_many_turns"
    assert (trace.num_turns, trace.reward) == (10, 0.0)
