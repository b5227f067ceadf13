"""SkyRL's own search environment and client against the retrieval server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("skyrl_gym", reason="needs factgym[skyrl]")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

from retrieval_served import PASSAGES, serving, write_passages
from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig
from skyrl_gym.tools.search import SearchToolGroup, call_search_api

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = write_passages(tmp_path_factory.mktemp("corpus") / "passages.jsonl")
    with serving("retrieval", str(file), "--port", "0") as address:
        yield f"{address}/retrieve"


def test_its_client_reads_the_answer(url: str) -> None:
    answer, error = call_search_api(url, "Where is the office?", topk=1, log_requests=False)
    assert error is None and answer is not None
    ((hit,),) = answer["result"]
    assert hit["document"] == {"id": "3", "contents": PASSAGES[2][1]} and hit["score"] > 0
    bare, error = call_search_api(url, "Where is the office?", topk=1, return_scores=False, log_requests=False)
    assert error is None and bare == {"result": [[hit["document"]]]}


def test_its_tool_shows_the_passages_best_first(url: str) -> None:
    tool = SearchToolGroup(search_url=url, topk=2, log_requests=False)
    text = json.loads(tool.search("refunds of unused days"))["result"]
    assert text.startswith(f"Doc 1: {PASSAGES[1][1]}\nDoc 2: Refund policy\n")
    assert json.loads(tool.search("xyzzy"))["result"] == ""


def test_its_environment_plays_an_episode(url: str) -> None:
    extras: dict[str, Any] = {"reward_spec": {"ground_truth": {"target": ["2011"]}}, "max_turns": 3}
    env = SearchEnv(SearchEnvConfig(search_url=url), extras)
    env.init([{"role": "user", "content": "When did the office in Lisbon open?"}])
    step = env.step("<search>office in Lisbon</search>")
    assert not step["done"] and "opened in 2011" in step["observations"][0]["content"]
    step = env.step("<answer>2011</answer>")
    assert step["done"] and step["reward"] == 1.0


def test_a_refusal_reaches_its_caller(url: str) -> None:
    answer, error = call_search_api(url, "office", topk=1000, log_requests=False)
    assert answer is None and "422" in str(error)
