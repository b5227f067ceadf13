"""The MCP integration: every environment's episodes are the same through it, one session is one episode, the reward is kept."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, chdir, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("mcp.server.lowlevel", reason="needs factgym[mcp]")
pytest.importorskip("mcp_types", reason="needs factgym[mcp]")

import mcp_types as types
import reference_episodes
from guide_pages import run_page, shown_lines
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from reference_episodes import Case, Outcome, assert_same
from retrieval_served import serving as serving_at
from retrieval_served import write_passages

from factgym.agents.runs.read import read_run
from factgym.core.errors import ConfigError
from factgym.integrations.mcp import META, REPLY, Episodes, FactServer
from factgym.integrations.session import EPISODE_OVER, Session

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

CLAIMS = "claimcheck-multihop"
COMMAND = [sys.executable, "-m", "factgym.cli.main", "serve", "mcp"]


class Notifications:
    """Counts a client's notifications of changed tools."""

    def __init__(self) -> None:
        self.changes = 0

    async def __call__(self, message: Any) -> None:
        self.changes += isinstance(message, types.ToolListChangedNotification)


@asynccontextmanager
async def client_of(server: Any, mode: str = "legacy") -> Any:
    notifications = Notifications()
    async with Client(server, mode=mode, message_handler=notifications) as client:
        yield client, notifications


async def names(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def play(client: Any, notifications: Notifications, case: Case) -> tuple[list[str], list[list[str]], bool]:
    """The results of the case's actions, the tools that were open after each, and whether the episode was over then.

    The client is told of every change of the tools.
    """
    calls = [(name, json.loads(arguments)) for name, arguments in case.episode.calls()]
    if case.episode.final is not None:
        calls.append((REPLY, {"text": case.episode.final}))
    results: list[str] = []
    tools: list[list[str]] = []
    before, over = await names(client), False
    for name, arguments in calls:
        notified = notifications.changes
        result = await client.call_tool(name, arguments)
        results.append(result.content[0].text)
        tools.append(await names(client))
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            assert notifications.changes - notified == (tools[-1] != before)
        before = tools[-1]
        over = "stop" in result.meta[META]
        if over:
            break
    return results, tools, over


def outcome_in(folder: Path, **fields: Any) -> Outcome:
    (record,) = [json.loads(line) for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()]
    reward = record["reward"]
    return Outcome(
        total=reward["total"],
        status=reward["status"],
        components=reward["components"],
        spans=reward["spans"],
        metrics=reward["metrics"],
        # Where the reference is cut off by a framework's limit, the client here has gone.
        stop="turn_limit" if record["stop"] == "abandoned" else record["stop"],
        **fields,
    )


def check(
    case: Case, folder: Path, results: list[str], tools: list[list[str]], over: bool, speaks: bool = False
) -> None:
    reference = case.reference
    assert results == reference.results()
    assert_same(reference, outcome_in(folder, first=[], answers=[]), skip=["first", "answers", "tools"])
    added = [REPLY] if speaks else []
    open_now = [[*names, *added] for names in reference.tools]
    assert tools == ([*open_now[:-1], []] if over else open_now)


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(
    env_id: str, needs: Callable[..., Any], tmp_path: Path
) -> None:
    cases = reference_episodes.cases("calls", env=env_id, needs=needs)

    async def play_case(number: int, case: Case) -> None:
        folder = tmp_path / str(number)
        with Episodes(env_id, case.episode.config, task=case.episode.task, out=folder) as episodes:
            async with client_of(FactServer(episodes)) as (client, notifications):
                first = "\n\n".join(message["content"] or "" for message in case.reference.first)
                assert client.instructions == first
                prompt = await client.get_prompt("task")
                assert "\n\n".join(message.content.text for message in prompt.messages) == first
                played = await play(client, notifications, case)
            check(case, folder, *played, speaks=episodes.text_answers)

    for number, case in enumerate(cases):
        asyncio.run(play_case(number, case))


@reference_episodes.each_setup
def test_clients_get_the_environments_own_schemas(env_id: str, needs: Callable[..., Any]) -> None:
    config = reference_episodes.config_of(env_id, needs)

    async def list_tools() -> Any:
        async with client_of(FactServer(Episodes(env_id, config, task=0))) as (client, _):
            return (await client.list_tools()).tools

    session = Session(env_id, **config)
    session.start(0)
    expected = [tool["function"] for tool in session.tools()]
    actual = [tool for tool in asyncio.run(list_tools()) if tool.name != REPLY]
    assert [(tool.name, tool.description, tool.input_schema) for tool in actual] == [
        (tool["name"], tool["description"], tool["parameters"]) for tool in expected
    ]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_command_serves_one_episode_over_stdio(mode: str, tmp_path: Path) -> None:
    case = reference_episodes.cases("calls", env="profact", name="oracle")[0]
    words = [*COMMAND[1:], "profact", "--task", case.episode.task, "--out", str(tmp_path / "run")]
    parameters = StdioServerParameters(command=COMMAND[0], args=words, env=dict(os.environ))

    async def over_stdio() -> tuple[list[str], list[list[str]], bool]:
        async with client_of(stdio_client(parameters), mode) as (client, notifications):
            return await play(client, notifications, case)

    check(case, tmp_path / "run", *asyncio.run(over_stdio()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_process_keeps_its_episode(number: signal.Signals, tmp_path: Path) -> None:
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    call = {"name": "search", "arguments": {"query": "contract"}}
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": opening},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    command = [*COMMAND, CLAIMS, "--out", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in lines:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [answer["id"] for answer in answers] == [1, 2]
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    (record,) = read_run(tmp_path).episodes()
    assert (record["stop"], len(record["turns"])) == ("abandoned", 1)


def test_clients_without_a_handshake_are_notified_of_changed_tools_by_subscription() -> None:
    case = reference_episodes.cases("calls", env="profact", name="oracle")[0]

    async def notifications() -> list[str]:
        events_seen = []
        with Episodes("profact", task=case.episode.task) as episodes:
            async with client_of(FactServer(episodes), "auto") as (client, notifications):
                assert client.protocol_version in MODERN_PROTOCOL_VERSIONS
                async with client.listen(tools_list_changed=True) as events:
                    await play(client, notifications, case)
                    events_seen.append(type(await anext(aiter(events))).__name__)
        return events_seen

    assert asyncio.run(notifications()) == ["ToolsListChanged"]


@contextmanager
def serving(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [*COMMAND, *words, "--transport", "http", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert " at http://" in line, line + process.stderr.read()
            yield line.split()[-1], process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def test_every_session_over_http_is_an_episode_of_its_own(tmp_path: Path) -> None:
    async def two_calls(url: str, mode: str) -> tuple[str, int]:
        async with client_of(url, mode) as (client, _):
            first = await client.call_tool("search", {"query": "contract"})
            await asyncio.sleep(0.05)
            second = await client.call_tool("search", {"query": "contract"})
            metas = [result.meta[META] for result in (first, second)]
            assert metas[0]["task"] == metas[1]["task"]
            assert metas[0]["turns_left"] - metas[1]["turns_left"] == 1
            assert first.content[0].text.split("turns left")[0] == second.content[0].text.split("turns left")[0]
            return metas[0]["task"], metas[1]["turns_left"]

    async def several(url: str) -> list[tuple[str, int]]:
        return await asyncio.gather(*(two_calls(url, mode) for mode in ("legacy", "auto") * 3))

    async def without_a_session(url: str) -> MCPError:
        async with client_of(url, "2026-07-28") as (client, _):
            with pytest.raises(MCPError) as caught:
                await client.call_tool("search", {"query": "contract"})
        return caught.value

    run = tmp_path / "run"
    with serving(CLAIMS, "--set", "size=20", "--out", str(run)) as (url, _):
        played = asyncio.run(several(url))
        error = asyncio.run(without_a_session(url))
    assert len({task for task, _ in played}) == 6
    assert {turns_left for _, turns_left in played} == {10}
    assert error.code == types.UNSUPPORTED_PROTOCOL_VERSION
    finished = read_run(run)
    records = list(finished.episodes())
    assert {record["task"] for record in records} == {task for task, _ in played}
    assert {record["stop"] for record in records} == {"abandoned"}
    assert all(record["reward"]["status"] == "scored" for record in records)
    # A session more goes on with the tasks that were not played yet.
    with serving(CLAIMS, "--set", "size=20", "--out", str(run)) as (url, _):
        task, _ = asyncio.run(two_calls(url, "legacy"))
    assert task not in {record["task"] for record in records}
    assert len(list(read_run(run).episodes())) == 7


def test_sessions_over_http_are_limited_and_a_silent_one_is_abandoned(tmp_path: Path) -> None:
    run = tmp_path / "run"
    limits = ["--max-sessions", "1", "--idle-seconds", "0.5"]

    async def silent(url: str) -> str:
        async with client_of(url) as (client, _):
            await client.call_tool("search", {"query": "contract"})
            with pytest.raises(Exception):  # noqa: B017  # as the client reports a session that is refused
                async with client_of(url) as (second, _):
                    await second.call_tool("search", {"query": "contract"})
            while not list(read_run(run).episodes()):
                await asyncio.sleep(0.05)
            over = await client.call_tool("search", {"query": "contract"})
            async with client_of(url) as (third, _):  # there is room again
                await third.call_tool("search", {"query": "contract"})
            return str(over.content[0].text)

    with serving(CLAIMS, "--set", "size=20", "--out", str(run), *limits) as (url, _):
        text = asyncio.run(silent(url))
    assert EPISODE_OVER in text
    records = list(read_run(run).episodes())
    assert [(record["stop"], len(record["turns"])) for record in records] == [("abandoned", 1), ("abandoned", 1)]


def test_a_token_is_needed_where_one_is_given_and_an_open_port_without_one_warns() -> None:
    async def post(url: str, headers: dict[str, str]) -> int:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.post(url, json={}, headers=headers) as answer:
            return answer.status

    token = "a-token-of-length"
    with serving(CLAIMS, "--set", "size=20", "--token", token) as (url, _):
        assert asyncio.run(post(url, {})) == 401
        assert asyncio.run(post(url, {"Authorization": "Bearer another-token-123"})) == 401
        assert asyncio.run(post(url, {"Authorization": f"Bearer {token}"})) not in (401, 403)
    with serving(CLAIMS, "--set", "size=20", "--host", "0.0.0.0") as (_, process):
        assert process.stderr is not None
        assert "opens the server to other machines without a --token" in process.stderr.readline()


def test_the_reward_is_hidden_from_the_policy_without_show_reward() -> None:
    case = reference_episodes.cases("calls", env=CLAIMS, name="oracle")[0]
    calls = [(name, json.loads(arguments)) for name, arguments in case.episode.calls()]

    async def last(show: bool) -> list[Any]:
        with Episodes(CLAIMS, task=case.episode.task, show_reward=show) as episodes:
            async with client_of(FactServer(episodes)) as (client, _):
                for name, arguments in calls:
                    result = await client.call_tool(name, arguments)
                after = await client.call_tool(*calls[0])
        return [result, after]

    hidden, after = asyncio.run(last(False))
    text = json.dumps(hidden.model_dump(mode="json"))
    assert not any(word in text for word in ("reward", "report", "components"))
    assert hidden.meta[META]["stop"] == "submitted"
    assert after.content[0].text == EPISODE_OVER
    visible, _ = asyncio.run(last(True))
    assert visible.content[0].text == hidden.content[0].text
    assert visible.meta[META]["report"]["total"] == case.reference.total
    assert json.loads(visible.content[1].text.removeprefix("Reward report: ")) == visible.meta[META]["report"]


def test_calls_of_one_session_are_played_one_after_the_other() -> None:
    async def at_once() -> list[int]:
        async with client_of(FactServer(Episodes(CLAIMS, task=0))) as (client, _):
            results = await asyncio.gather(*(client.call_tool("search", {"query": str(n)}) for n in range(8)))
        return [result.meta[META]["turns_left"] for result in results]

    assert sorted(asyncio.run(at_once())) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_the_prompt_is_what_the_policy_sees_now() -> None:
    case = reference_episodes.cases("calls", env="profact", name="oracle")[0]

    async def prompts() -> list[str]:
        texts = []
        async with client_of(FactServer(Episodes("profact", task=case.episode.task))) as (client, _):
            for name, arguments in case.episode.calls():
                prompt = await client.get_prompt("task")
                texts.append("\n\n".join(message.content.text for message in prompt.messages))
                await client.call_tool(name, json.loads(arguments))
        return texts

    for text, prompt in zip(asyncio.run(prompts()), case.prompts, strict=True):
        for message in prompt:
            assert (message["content"] or "") in text


def test_tasks_follow_the_seed_start_again_and_unknown_ones_are_refused() -> None:
    episodes = Episodes(CLAIMS, {"size": 15}, seed=3)
    size = len(episodes.template.env.tasks)
    jobs = [episodes.start().job for _ in range(size + 1)]
    assert sorted(job.index for job in jobs[:size]) == list(range(size))
    assert (jobs[size].index, jobs[size].sample) == (jobs[0].index, 1)
    assert [Episodes(CLAIMS, {"size": 15}, task=task).start().job.index for task in ("2", 2)] == [2, 2]
    with pytest.raises(ConfigError, match="no task"):
        Episodes(CLAIMS, {"size": 15}, task="nothing-like-it")
    done = subprocess.run([*COMMAND, CLAIMS, "--set", "spilt=1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Did you mean 'split'" in done.stderr


def test_the_page_runs(tmp_path: Path) -> None:
    outputs = [done.stdout for _, done in run_page("mcp", tmp_path)]
    assert any("submitted" in message for message in outputs)


def test_the_servers_that_the_page_shows_answer(tmp_path: Path) -> None:
    """Those over standard streams, that of an assistant's configuration among them, and those over HTTP."""
    (configuration,) = shown_lines("mcp", '{"mcpServers"')
    (server,) = json.loads(configuration)["mcpServers"].values()
    lines = [*shown_lines("mcp", "factgym serve mcp"), shlex.join([server["command"], *server["args"]])]
    assert len(lines) == 5
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "leave.md").write_text("# Leave\n\nEach employee has 24 days of leave a year.\n", "utf-8")
    passages = write_passages(tmp_path / "passages.jsonl").read_bytes()
    (tmp_path / "wiki-18.jsonl.gz").write_bytes(gzip.compress(passages))
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with chdir(tmp_path), serving_at("retrieval", "passages.jsonl", "--port", "0") as index:
        for line in lines:
            words = shlex.split(line.replace("http://127.0.0.1:8001", index.removesuffix("/retrieve")))[2:]
            if "http" not in words:
                command = [sys.executable, "-m", "factgym", "serve", *words]
                done = subprocess.run(command, input=f"{hello}\n", capture_output=True, text=True, check=False)
                assert '"serverInfo"' in done.stdout, line + done.stderr
                continue
            words = words[: words.index("--port")] if "--port" in words else words
            with serving_at(*words, "--port", "0") as url, urlopen(Request(url, hello.encode(), headers)) as answer:
                assert b'"serverInfo"' in answer.read(), line


def test_the_used_parts_of_the_framework_are_unchanged() -> None:
    handlers = {"on_list_tools", "on_call_tool", "on_list_prompts", "on_get_prompt", "on_subscriptions_listen", "title"}
    assert handlers <= set(reference_episodes.parameters(Server.__init__))
    assert reference_episodes.parameters(Server.create_initialization_options)[1] == "notification_options"
    assert "host" in reference_episodes.parameters(Server.streamable_http_app)
    assert reference_episodes.parameters(Server.run)[:4] == [
        "self",
        "read_stream",
        "write_stream",
        "initialization_options",
    ]
    assert "_connection" in inspect.getsource(ServerSession.__init__)
    assert {"state", "exit_stack"} <= Connection.__annotations__.keys()
    assert {"session", "protocol_version", "method", "request_id", "request"} <= set(
        reference_episodes.parameters(ServerRequestContext)
    )
    assert reference_episodes.parameters(ServerSession.send_notification) == [
        "self",
        "notification",
        "related_request_id",
    ]
    assert reference_episodes.parameters(MCPError.__init__) == ["self", "code", "message", "data"]
