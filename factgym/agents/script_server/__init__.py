"""A local chat server without a model, for measuring what the harness itself costs: `python -m factgym.agents.script_server`.

It speaks `/v1/models` and `/v1/chat/completions` as OpenAI-compatible servers do, plays a fixed script of ClaimCheck,
and answers after a fixed delay, however many ask at once.
"""

from factgym.agents.script_server.http import Connection, HttpServer, Request
from factgym.agents.script_server.script import MODEL, ScriptServer

__all__ = ["MODEL", "Connection", "HttpServer", "Request", "ScriptServer"]
