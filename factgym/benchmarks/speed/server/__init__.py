"""A local chat server without a model, for measuring what the harness itself costs: `python -m factgym.benchmarks.speed.server`.

It speaks `/v1/models` and `/v1/chat/completions` as OpenAI-compatible servers do, plays a fixed script of ClaimCheck,
and answers after a fixed delay, however many ask at once.
"""

from factgym.benchmarks.speed.server.http import Connection, HttpServer, Request
from factgym.benchmarks.speed.server.script import MODEL, ScriptServer

__all__ = ["MODEL", "Connection", "HttpServer", "Request", "ScriptServer"]
