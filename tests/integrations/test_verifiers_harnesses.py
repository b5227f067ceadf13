"""Harnesses that know nothing of us: the environment's tools through MCP, or no tools at all."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs factgym[verifiers]")

import same_episodes
import verifiers.v1 as vf
from playback import PlaybackServer
from same_episodes import Case, assert_same, outcome_of
from verifiers_runs import context, packages, play, report_in, run, server, serving, task_of

from factgym.integrations.session import Session

__all__ = ["packages", "server"]

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def test_other_harnesses_play_the_same_episodes_through_the_tool_server(server: tuple[PlaybackServer, str]) -> None:
    """A harness that knows nothing of us sees the tools through MCP, shared and one a rollout."""
    cases = [one for one in same_episodes.cases("calls", tasks=1) if one.env == "claimcheck-multihop"]
    cases += [one for one in same_episodes.cases("calls", tasks=1) if one.env == "profact" and one.name == "oracle"][
        :1
    ]

    async def play_all(env_id: str, tool_server: str) -> list[tuple[Case, vf.Trace]]:
        played = []
        module = sys.modules.setdefault("mcp_player", types.ModuleType("mcp_player"))
        vars(module).update(McpPlayer=McpPlayer, __all__=["McpPlayer"])
        agent = {"harness": {"id": "mcp-player"}}
        settings = {"task": {"tool_server": tool_server}}
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
            seen = outcome_of(report_in(trace), first=[], said=[], stop=trace.info["factgym"]["stop"])
            assert_same(reference, seen, skip=["first", "said", "tools", "spans"])
            assert set(trace.info["tools"]) == {tool["function"]["name"] for tool in Session(env_id).all_tools()}
            ours = {tool["function"]["name"]: tool["function"] for tool in Session(env_id).all_tools()}
            for name, schema in trace.info["tools"].items():
                shown = {
                    key: {k: v for k, v in one.items() if k != "title"} for key, one in schema["properties"].items()
                }
                assert shown == ours[name]["parameters"]["properties"]
                assert schema.get("required", []) == ours[name]["parameters"].get("required", [])


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
                found = await client.call_tool(name, json.loads(arguments))
                results.append(found.content[0].text)
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
                    said = await chat.chat.completions.create(model=ctx.model, messages=messages)
                except BadRequestError:
                    break
                messages.append({"role": "assistant", "content": said.choices[0].message.content})
                messages.append({"role": "user", "content": "Go on."})
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


async def chattered(env_id: str, url: str, served: PlaybackServer, case: Case, turns: int) -> vf.Trace:
    module = sys.modules.setdefault("chatter", types.ModuleType("chatter"))
    vars(module).update(Chatter=Chatter, __all__=["Chatter"])
    Chatter.turns = turns
    async with serving(env_id, {}, agent={"harness": {"id": "chatter"}}) as env:
        return await play(env, url, served, case)


def test_what_another_harness_lets_the_policy_say_last_is_its_answer(server: tuple[PlaybackServer, str]) -> None:
    served, url = server
    case = next(one for one in same_episodes.cases("texts") if one.env == "seva" and one.name == "honest")
    trace = run(chattered("seva", url, served, case, 1))
    seen = outcome_of(report_in(trace), first=[], said=[], stop=trace.info["factgym"]["stop"])
    assert_same(case.reference, seen, skip=["first", "said", "tools"])


def test_a_harness_that_never_calls_a_tool_is_stopped(server: tuple[PlaybackServer, str]) -> None:
    served, url = server
    case = next(one for one in same_episodes.cases("texts") if one.env == "seva" and one.name == "hostile")
    trace = run(chattered("seva", url, served, case, 1000))
    assert trace.stop_condition == "too_many_turns"
    assert (trace.num_turns, trace.reward) == (10, 0.0)
