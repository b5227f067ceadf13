"""A chat server that plays recorded episodes: the model's name says which. It keeps the bodies of the requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from factgym.agents.script_server import Connection, Request, ScriptServer, completion
from factgym.core.messages import Message


class PlaybackServer(ScriptServer):
    """`script[model]` holds the messages that the model says, one a request. `bodies[model]`: of the requests.

    A model that has said all that it has to say answers "I have nothing to add."; one that has no script plays the
    ClaimCheck script.
    """

    def __init__(self) -> None:
        super().__init__()
        self.script: dict[str, Sequence[Message]] = {}
        self.bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def chat(self, connection: Connection, request: Request) -> None:
        body = json.loads(request.body)
        model = body["model"]
        if model not in self.script:
            super().chat(connection, request)
            return
        turn = len(self.bodies[model])
        self.bodies[model].append(body)
        script = self.script[model]
        last: Message = {"role": "assistant", "content": "I have nothing to add."}
        message: Any = script[turn] if turn < len(script) else last
        self.reply(connection, request, completion(message))


@contextmanager
def in_thread(server: ScriptServer) -> Iterator[str]:
    """The server's address; it runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.start(), loop).result(30).url
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
