"""`factgym filter ENV`: keep the questions that a policy answers rightly sometimes, neither always nor never."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli.options import (
    DataPath,
    EnvId,
    Ray,
    RayGpus,
    RayWorkers,
    Reward,
    Seed,
    Settings,
    Split,
    Tasks,
    chosen_tasks,
    engine_of,
    make_env,
    parse_settings,
)
from factgym.cli.termination import Termination
from factgym.core.errors import ConfigError, FactgymError

if TYPE_CHECKING:
    from rich.console import Console

    from factgym.agents.difficulty import DifficultyBand, Rule
    from factgym.agents.rollout.jobs import Progress
    from factgym.core.env import Env

_AGENT = "The policy: openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, path/to/file.py:Name, or a scripted agent."
_CORRECT = "What is right: auto (the report's label, else its verdict), verdict, reward>=0.5, or a metric's NAME or NAME>=VALUE."


def filter_command(
    env: EnvId,
    agent: Annotated[str, typer.Option(help=_AGENT)],
    out: Annotated[Path, typer.Option(help="Folder for the samples and for what is kept.")],
    samples: Annotated[int, typer.Option("-G", "--group", min=2, help="Samples of each question.")] = 16,
    keep: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Keep LOW ≤ n_correct ≤ HIGH; default 1 to G - 1.")
    ] = None,
    anchors: Annotated[
        int, typer.Option(min=0, help="Keep so many questions besides that are always right, drawn by the seed.")
    ] = 0,
    correct: Annotated[str, typer.Option(metavar="RULE", help=_CORRECT)] = "auto",
    n: Annotated[int | None, typer.Option("-n", "--episodes", min=1, help="How many questions; default all.")] = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue what is in the folder, if anything is.")] = False,
    tasks: Tasks = None,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    base_url: Annotated[str | None, typer.Option(help="Where the server of openai:MODEL is.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature of a model; default 0.7.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus of a model's sampling; default 0.95.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply of a model; default 512.")] = None,
    agent_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Any other setting of the agent. Repeatable.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at a time.")] = 64,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which an episode is an error.")] = None,
    max_errors: Annotated[
        int | None, typer.Option(min=0, help="Stop after this many infrastructure errors in a row (0: never).")
    ] = None,
    ray: Ray = None,
    ray_workers: RayWorkers = None,
    ray_gpus: RayGpus = 0.0,
) -> None:
    """Sample G answers to each question and keep the questions of the learning zone.

    Writes the samples as a run, kept.jsonl (the kept questions), tasks.txt (their ids) and filter.json (the counts).
    """
    from rich.console import Console

    from factgym.agents.difficulty import DifficultyBand, find_rule
    from factgym.agents.resolve import find_agent
    from factgym.agents.rollout.engine import Limits

    zone = DifficultyBand.parse(keep, samples=samples, anchors=anchors, seed=seed)
    rule = find_rule(correct)
    given = {"base_url": base_url, "temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    values = _settings(agent, given, agent_set or [])
    chosen = find_agent(agent, env, values)
    world = chosen_tasks(_world(env, settings, split=split, reward=reward, path=path), tasks, ray)
    engine = engine_of(ray, agent, values, ray_workers, ray_gpus)
    limits = Limits(concurrency=concurrency, episode_timeout=timeout, max_errors=max_errors)
    options = {"n": n, "seed": seed, "limits": limits, "resume": resume, "engine": engine}
    _run(Console(highlight=False), world, chosen, out, zone, rule, **options)


def _settings(agent: str, given: dict[str, Any], more: list[str]) -> dict[str, Any]:
    """Of the agent; a model samples as the paper's filter does unless told otherwise."""
    from factgym.agents.difficulty import SAMPLING
    from factgym.agents.resolve import is_model

    values = parse_settings(more, "--agent-set") | {key: one for key, one in given.items() if one is not None}
    return {**SAMPLING, **values} if is_model(agent) else values


def _world(env: str, settings: list[str] | None, **named: str | None) -> Env[Any]:
    """The environment with the training prompt, where it has one and none was chosen."""
    from factgym.core.registry import spec

    chosen = parse_settings(settings or [])
    known = spec(env).load().Config.model_fields
    prompt = ["prompt=train"] if "prompt" in known and "prompt" not in {*chosen, *spec(env).kwargs} else []
    return make_env(env, [*(settings or []), *prompt], **named)


def _run(
    console: Console, world: Env[Any], agent: Any, out: Path, zone: DifficultyBand, rule: Rule, **options: Any
) -> None:
    from factgym.cli.display import Display
    from factgym.training.difficulty_filter import filter_tasks

    stopped: FactgymError | None = None
    interrupted = False
    with Display(console, f"{world.env_spec.id} · {agent.name}") as display, Termination() as termination:

        def watch(progress: Progress) -> None:
            display.watch(progress)
            termination.watch()

        try:
            selection = filter_tasks(world, agent, out, zone, rule, on_start=watch, **options)
        except (KeyboardInterrupt, asyncio.CancelledError):
            if display.progress is None:  # nothing was begun
                raise typer.Exit(130) from None
            interrupted = True
        except ConfigError:
            raise
        except FactgymError as error:
            if display.progress is None:
                raise
            stopped = error
    if interrupted or stopped is not None:
        _show_partial(console, world, agent, out, zone, rule)
    if interrupted:
        said = f"Stopped. What was finished is in {out}; continue with --resume"
        console.print(said, markup=False, soft_wrap=True)
        raise typer.Exit(130)
    if stopped is not None:
        raise FactgymError(f"{stopped}. Continue with --resume") from stopped
    _show(console, selection, agent, world)
    console.print(_closing(out, selection), markup=False, soft_wrap=True)


def _show(console: Console, selection: Any, agent: Any, world: Env[Any]) -> None:
    from factgym.benchmarks.tables import render_selection

    console.print(render_selection(selection, agent.name, world.env_spec.id))


def _show_partial(console: Console, world: Env[Any], agent: Any, out: Path, zone: DifficultyBand, rule: Rule) -> None:
    """What is known so far; nothing is kept of it."""
    from factgym.agents.difficulty import select
    from factgym.agents.runs.read import read_run

    run = read_run(out)
    found = select(run.episodes(), zone, rule)
    if found.buckets.pool:
        _show(console, found, agent, world)
    for note in run.notes:
        console.print(note, markup=False, style="yellow")


def _closing(out: Path, selection: Any) -> str:
    from factgym.training.difficulty_filter import KEPT, TASKS

    return f"Kept:    {len(selection.retained):,} questions in {out / KEPT}, their ids in {out / TASKS}\nSamples: factgym view {out}"
