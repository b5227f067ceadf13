"""`factgym serve mcp ENV`: an environment, served to programs that speak a protocol."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from factgym.cli.options import DataPath, EnvId, Reward, Seed, Settings, Split, parse_settings

serve_app = typer.Typer(help="Serve an environment to programs that speak a protocol.", no_args_is_help=True)


@serve_app.callback()
def _group() -> None:
    """Serve an environment to programs that speak a protocol."""


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


@serve_app.command("mcp")
def serve_mcp(
    env: EnvId,
    task: Annotated[str | None, typer.Option(help="A task's id or index, for every session.")] = None,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    show_reward: Annotated[
        bool, typer.Option("--show-reward", help="Show the reward report with the episode's last result.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="A run's folder for the finished episodes; continued if there.")
    ] = None,
    transport: Annotated[Transport, typer.Option(help="stdio, or streamable HTTP at /mcp.")] = Transport.STDIO,
    host: Annotated[str, typer.Option(help="For HTTP.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="For HTTP; 0 takes a free one.")] = 8000,
) -> None:
    """Serve an environment to clients of the Model Context Protocol. One session is one episode; a new one is the next."""
    from factgym.integrations.mcp import Episodes, serve_http, serve_stdio

    named = {"split": split, "reward": reward, "path": path}
    config = parse_settings(settings or []) | {key: value for key, value in named.items() if value is not None}
    with Episodes(env, config, task=task, seed=seed, show_reward=show_reward, out=out) as episodes:
        if transport is Transport.STDIO:
            asyncio.run(serve_stdio(episodes))
        else:
            asyncio.run(
                serve_http(episodes, host, port, lambda url: print(f"Serving {env} at {url}", file=sys.stderr))
            )
