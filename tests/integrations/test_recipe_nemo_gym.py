"""The NeMo-Gym recipe: its resources server under NeMo-Gym's own agent, against a server of ours.

NeMo-Gym's pins exclude factgym's; here both are imported from one environment, which has factgym's requirements but for
the version of `openai`, so that a test can compare.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("nemo_gym", reason="needs nemo-gym 0.4 and openenv (docs/guides/integrations/recipes.md)")

import httpx
import reference_episodes
from guide_pages import write_files
from nemo_gym.server_utils import ServerClient
from openenv_served import in_thread
from reference_episodes import Case
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

from factgym.core.messages import Message
from factgym.core.registry import spec
from factgym.integrations.session import EPISODE_OVER, Session

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("recipe")
    write_files(folder, "factgym_gym/app.py", "nemo_rows.py")
    spec = importlib.util.spec_from_file_location("factgym_gym_app", folder / "factgym_gym" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.folder = folder
    return module


class Answer:
    """An httpx response as the agent reads one of aiohttp's."""

    def __init__(self, response: httpx.Response) -> None:
        self._response, self.ok, self.cookies = response, response.is_success, dict(response.cookies)
        self.content = self

    async def read(self) -> bytes:
        return self._response.content

    def raise_for_status(self) -> None:
        self._response.raise_for_status()


def response_of(message: Message, turn: int) -> dict[str, Any]:
    """What a model server answers with."""
    output: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"fc_{turn}", "call_id": call["id"], "status": "completed", **call["function"]}
        for call in message.get("tool_calls") or []
    ]
    if message["content"]:
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        output.append(
            {"type": "message", "id": f"m_{turn}", "role": "assistant", "status": "completed", "content": [text]}
        )
    options = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    return {"id": f"r_{turn}", "created_at": 0, "model": "script", "object": "response", "output": output, **options}


class Servers:
    """In the place of NeMo-Gym's client: the resources server, the agent and a model that says a script, in process."""

    def __init__(self, recipe: Any, url: str, script: list[Message]) -> None:
        client = MagicMock(spec=ServerClient)
        client.post = self.post
        common: dict[str, Any] = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
        self.server = recipe.FactgymServer(
            config=recipe.Config(name="resources", domain="other", base_url=url, **common), server_client=client
        )
        references = {
            "resources_server": {"type": "resources_servers", "name": "resources"},
            "model_server": {"type": "responses_api_models", "name": "model"},
        }
        config = SimpleAgentConfig(name="agent", max_steps=len(script), **references, **common)
        self.agent = SimpleAgent(config=config, server_client=client)
        self.apps = {"resources": self.server.setup_webserver(), "agent": self.agent.setup_webserver()}
        self.script: Iterator[tuple[int, Message]] = iter(enumerate(script))
        self.requests: list[Any] = []

    async def post(self, server_name: str, url_path: str, json: Any, cookies: Any = None) -> Answer:
        body = json if isinstance(json, dict) else json.model_dump(mode="json", exclude_unset=True)
        if server_name == "model":
            self.requests.append(body)
            turn, message = next(self.script)
            return Answer(
                httpx.Response(200, json=response_of(message, turn), request=httpx.Request("POST", "http://here"))
            )
        transport = httpx.ASGITransport(app=self.apps[server_name])
        async with httpx.AsyncClient(transport=transport, base_url="http://here", cookies=dict(cookies or {})) as http:
            return Answer(await http.post(url_path, json=body))

    async def run(self, row: dict[str, Any]) -> dict[str, Any]:
        answer = await self.post("agent", "/run", row)
        result: dict[str, Any] = json.loads(await answer.read())
        assert answer.ok, result
        return result


def cases() -> list[Case]:
    return reference_episodes.cases("calls", files=False, tasks=1)


@pytest.mark.parametrize("env_id", sorted({case.env for case in cases()}))
def test_nemo_gyms_own_agent_earns_the_same(recipe: Any, env_id: str) -> None:
    env_cases = [case for case in cases() if case.env == env_id]
    with in_thread(env_id, dict(env_cases[0].episode.config)) as url:
        for case in env_cases:
            servers = Servers(recipe, url, list(case.episode.messages))
            prompt = {"input": [dict(message) for message in case.reference.first], "tools": []}
            result = asyncio.run(servers.run({"task": case.episode.task, "responses_create_params": prompt}))
            outputs = [
                item["output"] for item in result["response"]["output"] if item["type"] == "function_call_output"
            ]
            results = case.reference.results()[: None if case.episode.final is None else -1]
            assert outputs[: len(results)] == results
            assert set(outputs[len(results) :]) <= {EPISODE_OVER}
            assert result["reward"] == case.reference.total
            assert {name: result[name] for name in case.reference.components} == case.reference.components
            assert not servers.server._clients


def test_a_fault_is_an_error_of_the_rollout(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, call: Any) -> Any:
        raise ConnectionError("the index is gone")

    monkeypatch.setattr(spec("claimcheck-multihop").load(), "call_tool", broken)
    call = reference_episodes.native(("call_0", "search", '{"query": "x"}'))
    with in_thread("claimcheck-multihop", {"size": 12}) as url:
        servers = Servers(recipe, url, [call])
        prompt = {"input": [{"role": "user", "content": "q"}], "tools": []}
        with pytest.raises(httpx.HTTPStatusError, match="502"):
            asyncio.run(servers.run({"task": 0, "responses_create_params": prompt}))


def test_the_rows_are_the_servers_tasks(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recipe.folder)
    exec(compile((recipe.folder / "nemo_rows.py").read_text("utf-8"), "nemo_rows.py", "exec"), {})
    rows = [json.loads(line) for line in Path("factgym.jsonl").read_text("utf-8").splitlines()]
    session = Session("claimcheck-multihop", split="train")
    assert session.start(rows[3]["task"]) == rows[3]["responses_create_params"]["input"]
    names = [row["name"] for row in rows[0]["responses_create_params"]["tools"]]
    assert names == [schema["function"]["name"] for schema in session.all_tools()]
    assert len(rows) == 100
