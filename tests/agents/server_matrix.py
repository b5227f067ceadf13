"""The matrix of server behaviours: what servers really send, replayed over a socket, and the table of the models guide.

`python tests/agents/server_matrix.py` writes the table into the guide; a test compares them.

Each line of `matrix/BEHAVIOUR.jsonl` is one record:

- id: unique; "BEHAVIOUR-server-detail". server: its name in the guide's table. generation: version or API, free text.
- source: public source of the wording or bytes: owner/repository#number or owner/repository:path where it is to be read
  as it is here; else a page of documentation, or where its wording is common, from which the record was written.
- settings: of the endpoint, beyond `SETTINGS` below.
- exchanges: the first one whose `when` holds answers a request; where none does, the script of `ScriptServer` plays.
  when: conditions on the request, all of which must hold; empty or absent holds always. See `CONDITIONS`.
  status, headers, body: of an answer; a body that is no text is sent as JSON. Or message, with finish_reason and
  other arguments of `script_server.completion`: a whole completion, streamed where the request asks for it. Or stream: the events of
  a stream; an object is sent as `data: JSON`, a text as it is. times: how often the exchange answers; default always.
- right: what the episode must show. See `CHECKS`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import play
from factgym.agents.rollout.jobs import Job
from factgym.agents.script_server import Connection, Request, ScriptServer, completion

FOLDER = Path(__file__).parent / "matrix"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "models.md"
BEGIN, END = "<!-- server matrix: python tests/agents/server_matrix.py -->", "<!-- end of the server matrix -->"
COLUMNS = {
    "overflow": "too long",
    "not_overflow": "other limits",
    "finish": "endings",
    "stream": "streams",
    "reasoning": "reasoning",
    "template": "templates",
    "tools": "tools",
    "tool_call_text": "calls in text",
}
"""Behaviour, in the order of the table's columns -> its heading."""
SETTINGS = {"max_retries": 1, "max_wait": 0.01, "tools": "native"}
Json = Any


def records(behaviour: str = "*") -> list[dict[str, Json]]:
    """The records of a behaviour, or all, in the order of the files."""
    lines = [
        line for path in sorted(FOLDER.glob(f"{behaviour}.jsonl")) for line in path.read_text("utf-8").splitlines()
    ]
    return [json.loads(line) for line in lines]


def _roles(request: Mapping[str, Json]) -> list[str]:
    return [message["role"] for message in request["messages"]]


def _holds(messages: list[dict[str, Json]], key: str) -> bool:
    return all(message.get(key) for message in messages if message["role"] == "assistant" and message.get("tool_calls"))


def _arguments(request: Mapping[str, Json]) -> list[Json]:
    """The arguments of all calls as a template gets them, `...` for those that are no JSON."""
    calls = [call for message in request["messages"] for call in message.get("tool_calls") or ()]
    values = []
    for call in calls:
        try:
            values.append(json.loads(call["function"]["arguments"]))
        except ValueError:
            values.append(...)
    return values


def _is_probe(request: Mapping[str, Json]) -> bool:
    return _roles(request) == ["user"] and len(request["messages"][0]["content"]) < 80


CONDITIONS: dict[str, Callable[[Mapping[str, Json], Json], bool]] = {
    "probe": lambda request, expected: _is_probe(request) == expected,  # a single short user message
    "turn": lambda request, turn: not _is_probe(request) and _roles(request).count("assistant") == turn,
    "from_turn": lambda request, turn: not _is_probe(request) and _roles(request).count("assistant") >= turn,
    "has_role": lambda request, role: role in _roles(request),
    "role_repeats": lambda request, expected: (
        expected == any(a == b for a, b in zip(_roles(request), _roles(request)[1:], strict=False))
    ),
    "has_key": lambda request, key: key in request,  # at the top of the request, such as "tools"
    "echo_lacks": lambda request, key: not _holds(request["messages"], key),  # an assistant's call without this key
    "echo_has": lambda request, key: any(key in message for message in request["messages"]),
    "last_role": lambda request, role: _roles(request)[-1] == role,
    "has_calls": lambda request, expected: (
        expected == any(message.get("tool_calls") for message in request["messages"])
    ),
    "text_and_calls": lambda request, expected: (
        expected == any(message.get("tool_calls") and message["content"] for message in request["messages"])
    ),
    "null_content": lambda request, expected: (
        expected == any(message["content"] is None for message in request["messages"])
    ),
    "empty_content": lambda request, expected: (
        expected == any(message["content"] == "" for message in request["messages"])
    ),
    "arguments_no_object": lambda request, expected: expected != all(isinstance(v, dict) for v in _arguments(request)),
    "arguments_no_json": lambda request, expected: expected == (... in _arguments(request)),
    "empty_reply": lambda request, expected: (
        expected == any(not message["content"] and not message.get("tool_calls") for message in request["messages"])
    ),
    "unlike_gemma": lambda request, expected: (
        expected == any((role == "user") != (number % 2 == 0) for number, role in enumerate(_roles(request)))
    ),
    "echo_differs": lambda request, expected: (
        any(  # an assistant's first message, or one with calls, lacks these members
            not _subset(expected, message)
            for message in [m for m in request["messages"] if m["role"] == "assistant"][:1]
        )
    ),
    "call_differs": lambda request, expected: any(
        not _subset(expected, message["tool_calls"][0])
        for message in [m for m in request["messages"] if m.get("tool_calls")][:1]
    ),
    "max_tokens_above": lambda request, limit: (request.get("max_tokens") or 1 << 30) > limit,
}


class MatrixServer(ScriptServer):
    """Answers by the exchanges of a record."""

    def __init__(self, exchanges: list[dict[str, Json]]) -> None:
        super().__init__()
        self.exchanges, self.bodies = exchanges, list[dict[str, Json]]()
        self._answered: Counter[int] = Counter()

    def chat(self, connection: Connection, request: Request) -> None:
        """Answer by the first exchange whose conditions hold."""
        body = json.loads(request.body)
        self.bodies.append(body)
        for number, exchange in enumerate(self.exchanges):
            conditions = exchange.get("when", {}).items()
            if self._answered[number] < exchange.get("times", 1 << 30) and all(
                CONDITIONS[name](body, expected) for name, expected in conditions
            ):
                self._answered[number] += 1
                return self._answer(connection, request, exchange)
        return super().chat(connection, request)

    def _answer(self, connection: Connection, request: Request, exchange: dict[str, Json]) -> None:
        if "message" in exchange:
            given = {key: exchange[key] for key in exchange.keys() - {"when", "times", "message"}}
            self.reply(connection, request, completion({"role": "assistant", **exchange["message"]}, **given))
        elif "stream" in exchange:
            events = [
                event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n" for event in exchange["stream"]
            ]
            connection.send(200, "".join(events).encode(), kind=b"text/event-stream")
        else:
            body = exchange.get("body", "")
            data = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
            lines = "".join(f"{name}: {value}\r\n" for name, value in exchange.get("headers", {}).items())
            connection.send(exchange["status"], data.encode(), lines.encode())


def _calls(record: Json) -> list[list[Json]]:
    return [[call["tool"], call["arguments"]] for call in record["turns"][0]["calls"]]


def _subset(expected: Json, given: Json) -> bool:
    """Whether every member of `expected` is in `given`, at any depth."""
    if isinstance(expected, dict) and isinstance(given, dict):
        return all(key in given and _subset(value, given[key]) for key, value in expected.items())
    return bool(expected == given)


CHECKS: dict[str, Callable[[Json, Mapping[str, Json], MatrixServer], Json]] = {
    "stop": lambda record, details, server: record["stop"],
    "cause": lambda record, details, server: (record["error"] or {}).get("cause"),
    "status": lambda record, details, server: record["reward"]["status"],
    "error": lambda record, details, server: (record["error"] or {}).get("message"),  # a text that the message holds
    "tools": lambda record, details, server: [name for name, _ in _calls(record)],  # called in the first turn
    "calls": lambda record, details, server: _calls(record),  # of the first turn, with arguments
    "turn_error": lambda record, details, server: record["turns"][0]["error"],
    "completion": lambda record, details, server: record["turns"][0]["completion"],  # a part of it
    "message": lambda record, details, server: record["messages"][record["turns"][0]["message"]],  # a part of it
    "retries": lambda record, details, server: [
        retry["cause"] for turn in record["turns"] for retry in (turn["completion"] or {}).get("retries", ())
    ],
    "details": lambda record, details, server: details,  # a part of what the manifest says of the agent
    "requests": lambda record, details, server: server.requests,
    "last_request": lambda record, details, server: server.bodies[-1],  # a part of it
    "last_roles": lambda record, details, server: _roles(server.bodies[-1]),
}


def replay(entry: Mapping[str, Json]) -> dict[str, tuple[Json, Json]]:
    """Play an episode against the exchanges; return each check that failed, with the right and the actual value."""

    async def run() -> tuple[Json, Mapping[str, Json], MatrixServer]:
        server = MatrixServer(entry["exchanges"])
        async with server as url:
            agent = find_agent(url, "claimcheck-multihop", {**SETTINGS, **entry.get("settings", {})})
            try:
                record, _ = await play(factgym.make("claimcheck-multihop"), agent, Job(index=0))
            finally:
                await agent.close()
        return record, agent.describe(), server

    outcome = asyncio.run(run())
    wrong = {}
    for name, expected in entry["right"].items():
        actual = CHECKS[name](*outcome)
        holds = expected in (actual or "") if name == "error" and expected else _subset(expected, actual)
        if not holds:
            wrong[name] = (expected, actual)
    return wrong


def guide_table() -> str:
    """Return the guide's table: exchanges of each server family, by behaviour."""
    counts = {name: Counter(entry["server"] for entry in records(name)) for name in COLUMNS}
    servers = sorted({server for column in counts.values() for server in column}, key=str.lower)
    head = f"| server | {' | '.join(COLUMNS.values())} |\n| --- |{' ---: |' * len(COLUMNS)}"
    rows = (f"| {server} | {' | '.join(str(counts[name][server] or '') for name in COLUMNS)} |" for server in servers)
    total = f"| all | {' | '.join(str(column.total() or '') for column in counts.values())} |"
    followed = sum(re.match(r"[\w.-]+/[\w.-]+(?:#\d+|:)", entry["source"]) is None for entry in records())
    note = f"{followed} of the {len(records())} were written from documentation, a standard or a wording that several projects quote."
    return "\n".join([BEGIN, "", head, *rows, total, "", note, "", END])


def write_guide() -> None:
    """Replace the table in the guide."""
    before, _, rest = GUIDE.read_text("utf-8").partition(BEGIN)
    GUIDE.write_text(before + guide_table() + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    write_guide()
