"""verl's own search tool and client, of its version 0.7, against the retrieval server: batches, many at once, a restart.

Later versions of verl have no search tool; recipes bring this one with them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl.tools.search_tool", reason="needs verl 0.7, the last version with its search tool")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

from retrieval_served import PASSAGES, start, stop, write_passages
from verl.tools.schemas import OpenAIFunctionToolSchema
from verl.tools.search_tool import SearchTool
from verl.tools.utils import search_r1_like_utils
from verl.tools.utils.search_r1_like_utils import call_search_api, perform_single_search_batch

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

LIMITS = ("--max-queries", "4", "--max-topk", "5")

SCHEMA = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search.",
        "parameters": {
            "type": "object",
            "properties": {"query_list": {"type": "array", "description": "Queries."}},
            "required": ["query_list"],
        },
    },
}


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_passages(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


@pytest.fixture(scope="module")
def url(passages: Path) -> Iterator[str]:
    process, address = start("retrieval", str(passages), "--port", "0", *LIMITS)
    yield f"{address}/retrieve"
    stop(process)


CONTENTS = [text.replace('"', "") for _, text in PASSAGES]
"""Search-R1's quotation marks around a title are not part of it."""


def document(number: int) -> str:
    """The text in which verl shows the passage of that number as its first document."""
    title, text = CONTENTS[number].split("\n")
    return f"Doc 1 (Title: {title})\n{text}"


def test_its_client_reads_a_batch(url: str) -> None:
    answer, error = call_search_api(url, ["Where is the office?", "30 days"], topk=1)
    assert error is None and answer is not None
    assert [[hit["document"] for hit in hits] for hits in answer["result"]] == [
        [{"id": "3", "contents": CONTENTS[2]}],
        [{"id": "1", "contents": CONTENTS[0]}],
    ]
    text, metadata = perform_single_search_batch(url, ["Where is the office?", "30 days", "xyzzy"], topk=1)
    assert json.loads(text) == {"result": f"{document(2)}\n---\n{document(0)}\n---\n"}
    assert (metadata["status"], metadata["total_results"]) == ("success", 2)


def test_many_threads_get_their_own_answers(url: str) -> None:
    queries = {"refunds paid": 0, "annual leave": 1, "Lisbon": 2}
    semaphore = threading.Semaphore(8)

    def search(query: str) -> str:
        return perform_single_search_batch(url, [query], topk=1, concurrent_semaphore=semaphore)[0]

    repeated = [*queries] * 20
    with ThreadPoolExecutor(16) as pool:
        for query, text in zip(repeated, pool.map(search, repeated), strict=True):
            assert json.loads(text)["result"] == document(queries[query])


def test_its_tool_plays_trajectories_at_once(url: str) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        tool = SearchTool(
            {"retrieval_service_url": url, "topk": 1, "num_workers": 4, "rate_limit": 4},
            OpenAIFunctionToolSchema.model_validate(SCHEMA),
        )

        async def trajectory(query: str) -> tuple[Any, dict[str, Any]]:
            instance, _ = await tool.create()
            response, _, metrics = await tool.execute(instance, {"query_list": [query, "annual leave"]})
            assert await tool.calc_reward(instance) == [response.text]
            await tool.release(instance)
            return json.loads(response.text)["result"], metrics

        async def play() -> list[tuple[Any, dict[str, Any]]]:
            return await asyncio.gather(*(trajectory(query) for query in ["refunds paid", "Lisbon"] * 6))

        for number, (text, metrics) in enumerate(asyncio.run(play())):
            assert text == f"{document(0 if number % 2 == 0 else 2)}\n---\n{document(1)}"
            assert (metrics["status"], metrics["total_results"], metrics["api_request_error"]) == ("success", 2, None)
    finally:
        ray.shutdown()
        gc.collect()  # Ray's processes end later, of which Python warns here and not after the last test


def test_a_refusal_is_an_error_that_is_not_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_r1_like_utils.time, "sleep", lambda _: pytest.fail("tried again"))
    for queries, topk in ((["x"] * 5, 1), (["x"], 6)):
        text, metadata = perform_single_search_batch(url, queries, topk=topk)
        assert metadata["status"] == "api_error" and "422" in json.loads(text)["result"]


def test_a_server_that_is_started_anew_loses_no_search(passages: Path) -> None:
    """Connections that are refused are tried again by the client; an answer that a kill cuts off is not."""
    process, address = start("retrieval", str(passages), "--port", "0")
    port, answers, stopped = address.rpartition(":")[2], list[str](), threading.Event()

    def search() -> None:
        while not stopped.is_set():
            answers.append(perform_single_search_batch(f"{address}/retrieve", ["Lisbon"], topk=1)[0])

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        while len(answers) < 8:
            time.sleep(0.01)
        process.terminate()
        process.communicate()
        before = len(answers)
        process, _ = start("retrieval", str(passages), "--port", port)
        deadline = time.monotonic() + 100
        while len(answers) < before + 12 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
        stop(process)
    assert len(answers) >= before + 12
    assert all(json.loads(text)["result"] == document(2) for text in answers)
