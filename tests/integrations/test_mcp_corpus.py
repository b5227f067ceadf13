"""A corpus over MCP: the environments' tools over stdio and HTTP, refusals as data, no session."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.lowlevel", reason="needs factgym[mcp]")
pytest.importorskip("mcp_types", reason="needs factgym[mcp]")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from retrieval_served import serving, write_passages

from factgym.core.errors import ConfigError
from factgym.corpora.build import read_passages
from factgym.integrations.mcp import CorpusServer
from factgym.tools.evidence import PassageLibrary, list_passages, read, search

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_passages(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


async def look_up(server: Any, mode: str = "legacy") -> list[str]:
    """List, search and read through a client; the texts of the results."""
    async with Client(server, mode=mode) as client:
        # A client that pins the version without handshake asks for no instructions.
        assert mode not in ("legacy", "auto") or "never instructions" in client.instructions
        names = [tool.name for tool in (await client.list_tools()).tools]
        results = [
            await client.call_tool(name, arguments)
            for name, arguments in (("list", {}), ("search", {"query": "Lisbon office", "k": 1}), ("read", {"id": "3"}))
        ]
    assert names == ["list", "search", "read"]
    assert not any(result.is_error for result in results)
    return [result.content[0].text for result in results]


def check(texts: Sequence[str]) -> None:
    assert texts[0].startswith("Page 1 of 1, 3 passages.") and re.search(
        r'<result id="2" ([a-z]{4})>Annual leave</result \1>', texts[0]
    )
    assert '<result id="3" title="Offices" ' in texts[1] and '<result id="1"' not in texts[1]
    assert "The office in Lisbon opened in 2011." in texts[2] and texts[2].startswith("<evidence")


def test_the_command_serves_a_corpus_over_stdio(corpus_file: Path) -> None:
    words = ["-m", "factgym", "serve", "mcp", "--corpus", str(corpus_file)]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    check(asyncio.run(look_up(stdio_client(parameters), "auto")))


def test_over_http_any_version_of_the_protocol_will_do(corpus_file: Path) -> None:
    with serving("mcp", "--corpus", str(corpus_file), "--transport", "http", "--port", "0") as url:
        for mode in ("legacy", "2026-07-28"):
            check(asyncio.run(look_up(url, mode)))


def test_schemas_and_refusals_are_those_of_the_environments(corpus_file: Path) -> None:
    corpus = read_passages(corpus_file)

    async def run() -> tuple[list[Any], list[Any]]:
        async with Client(CorpusServer(PassageLibrary(corpus.passages)), mode="legacy") as client:
            calls = [("read", {"id": "33"}), ("search", {"query": ""}), ("search", {"k": 3}), ("write", {})]
            return (await client.list_tools()).tools, [await client.call_tool(*call) for call in calls]

    tools, results = asyncio.run(run())
    assert [tool.input_schema for tool in tools] == [tool.parameters for tool in (list_passages, search, read)]
    assert all(result.is_error for result in results)
    texts = [result.content[0].text for result in results]
    assert "no_such_passage" in texts[0] and "unknown_tool" in texts[3]
    assert all("invalid_arguments" in text for text in texts[1:3])


class LostIndex:
    """An index whose server is gone."""

    def search(self, queries: Sequence[str], k: int) -> Any:
        raise ConfigError("http://10.0.0.7:8000 is gone")


def test_a_lost_index_is_a_result_that_tells_nothing_of_the_network(corpus_file: Path) -> None:
    server = CorpusServer(PassageLibrary(read_passages(corpus_file).passages, LostIndex()))
    text, is_error = server._call("search", {"query": "office"})
    assert is_error and "unavailable" in text and "10.0.0.7" not in text


def test_an_environment_or_a_corpus_is_named(corpus_file: Path) -> None:
    words = ["claimcheck-multihop", "--corpus", str(corpus_file)]
    command = [sys.executable, "-m", "factgym", "serve", "mcp", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "one of the two" in done.stderr
