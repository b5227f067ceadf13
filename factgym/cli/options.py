"""Options that several commands share, and how they become an environment's configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.registry import make

if TYPE_CHECKING:
    from factgym.benchmarks.costs import PriceTable

EnvId = Annotated[
    str,
    typer.Argument(
        metavar="ENV", help="An environment (`factgym list` shows them), or package.module:name of your own."
    ),
]
Split = Annotated[str | None, typer.Option(help="Which split; `factgym info ENV` shows them.")]
Reward = Annotated[str | None, typer.Option(help="Which reward, for example r0, gated or v2.")]
DataPath = Annotated[str | None, typer.Option("--path", help="Folder or file of an environment over your own data.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, for example --set haystack=true. Repeatable."),
]
Prices = Annotated[
    Path | None, typer.Option(help="Your price table (TOML or JSON), by which tokens are shown as money.")
]
Tasks = Annotated[
    Path | None,
    typer.Option("--tasks", help="Only the tasks that this file names: a tasks.txt or kept.jsonl of a filter."),
]
Ray = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help="Spread over a Ray cluster: HOST:PORT, auto or local.")
]
RayWorkers = Annotated[int | None, typer.Option(min=1, help="Worker processes; default all that fit.")]
RayGpus = Annotated[float, typer.Option(min=0, help="GPUs of each worker, for a local model.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Chooses the tasks and their order.")]


def make_env(
    env_id: str,
    settings: list[str] | None = None,
    *,
    split: str | None = None,
    reward: str | None = None,
    path: str | None = None,
) -> Env[Any]:
    """The environment with the given options."""
    config = parse_settings(settings or [])
    named = {"split": split, "reward": reward, "path": path}
    return make(env_id, **{**config, **{key: value for key, value in named.items() if value is not None}})


def chosen_tasks(env: Env[Any], tasks: Path | None, ray: str | None) -> Env[Any]:
    """The environment over the tasks that a file names, all of them where there is none."""
    if tasks is None:
        return env
    if ray is not None:
        raise ConfigError("--tasks chooses tasks on this machine, and a cluster's build their own: leave out --ray")
    from factgym.training.difficulty_filter import only, read_tasks

    return only(env, read_tasks(tasks))


def engine_of(ray: str | None, agent: str, settings: dict[str, Any], workers: int | None, gpus: float) -> Any:
    """What plays the episodes: this process, or a cluster."""
    if ray is None:
        from factgym.agents.rollout.engine import run_jobs

        return run_jobs
    from factgym.agents.cluster import on_ray

    return on_ray(ray, agent, settings, workers=workers, gpus_per_worker=gpus)


def parse_settings(settings: list[str], option: str = "--set") -> dict[str, Any]:
    """`["haystack=true", "index=bm25"]` as values: JSON where it is JSON, else text."""
    values = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} takes KEY=VALUE, not {setting!r:.80}")
        values[key] = _value(text)
    return values


def price_table(path: Path | None) -> PriceTable | None:
    """The user's price table; None where there is none. Raises ConfigError that names file and key."""
    if path is None:
        return None
    from factgym.benchmarks.costs import read_prices

    return read_prices(path)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
