"""`python -m factgym.agents.script_server [--host H] [--port N] [--delay-ms N]`: prints its URL, then serves."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from factgym.agents.script_server.script import ScriptServer


async def _serve(host: str, port: int, delay: float) -> None:
    async with ScriptServer(delay=delay, host=host, port=port) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m factgym.agents.script_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--delay-ms", type=float, default=50.0, help="from the end of a request to its reply")
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(args.host, args.port, args.delay_ms / 1000))


if __name__ == "__main__":
    main()
