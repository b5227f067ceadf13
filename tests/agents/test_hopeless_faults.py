"""Faults that no retry mends say what they are at the first request."""

from __future__ import annotations

import asyncio

import pytest

from factgym.agents.endpoint import Endpoint
from factgym.core.policy import PolicyError

ASK = [{"role": "user", "content": "Hello"}]


def fault_at(url):
    """The fault of one request, and the number of connections that it took where the server counts them."""

    async def run():
        endpoint = Endpoint("m", url, tools="native", max_wait=0.01)
        try:
            await endpoint.act(ASK, [])
        finally:
            await endpoint.close()

    with pytest.raises(PolicyError) as caught:
        asyncio.run(run())
    return caught.value


def test_https_to_a_server_without_it_is_named_and_not_retried():
    connections = []

    async def answer(reader, writer):
        connections.append(await reader.read(5))
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def run():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await asyncio.to_thread(fault_at, f"https://127.0.0.1:{port}/v1")

    error = asyncio.run(run())
    assert (error.cause, error.fatal) == ("connection", True)
    assert "does the server speak HTTPS" in str(error) and "requests)" not in str(error)
    assert len(connections) == 1


def test_a_name_that_does_not_exist_is_named_and_not_retried(monkeypatch):
    import socket

    def no_name(*args, **more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    error = fault_at("http://no-such-host.invalid/v1")
    assert (error.cause, error.fatal) == ("connection", True)
    assert "no-such-host.invalid" in str(error) and "no server has this name" in str(error)
    assert "requests)" not in str(error)
