"""Training a model from nothing: the engine "small" beside TRL, on the same tokens of the same episodes.

Both engines start a stage from the same tuned model and take steps of the same size, in turn. A step of GRPO is counted
in episodes, one of tuning in traces; the first step of each, which fills caches, is left out. Seconds are of this
process's CPU, so that other work on the machine changes little; with two threads they are of the clock.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from factgym.cli.train import quiet_libraries
from factgym.core.errors import MissingExtraError
from factgym.core.registry import make
from factgym.training.recipes.recipe import Recipe, recipe_of
from factgym.training.recipes.run import train
from factgym.training.recipes.stages import MODEL, StageRun, run_stage

ENGINES = ("small", "trl")


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf train", description='Training a model from nothing: the engine "small" beside TRL.'
    )
    parser.add_argument("--env", default="claimcheck-mini")
    parser.add_argument("--model", default="scratch:500k")
    parser.add_argument("--tuning", type=int, default=1200, help="steps of 8 traces that make the model of the start")
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8, help="episodes of a group")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of each engine and stage")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    options = parser.parse_args(arguments)
    if find_spec("torch") is None or find_spec("trl") is None:
        raise MissingExtraError("training", "train")
    warnings.simplefilter("ignore")  # of TRL's, on arguments that are right here
    quiet_libraries()
    return _measure(options)


def _measure(options: argparse.Namespace) -> Iterator[str]:
    import torch

    grpo = {
        "kind": "grpo", "tasks": 1000, "steps": options.steps + 1, "groups": options.groups, "samples": options.samples,
        "learning_rate": 1e-6, "warmup_steps": 0, "max_completion": 260, "keep_episodes": False, "stop_patience": 1000,
    }  # fmt: skip
    sft = {"kind": "sft", "tasks": 1000, "steps": options.steps + 1, "batch": 64, "learning_rate": 1e-6}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        start = time.process_time()
        tuning = {**sft, "steps": options.tuning, "batch": 8, "optimizer": "muon", "learning_rate": 6e-3}
        train(_recipe(options, "small", options.model, tuning), folder / "start")
        model, data = (folder / "start/stages/0-sft" / name for name in (MODEL, "data.jsonl"))
        yield (
            f"{options.env}, {options.model}, tuned for {options.tuning} steps of 8 traces "
            f"({time.process_time() - start:.0f} s with its evaluations)"
        )
        yield f"  {'':10} {'threads':>7}  " + "  ".join(f"{engine:>12}" for engine in ENGINES) + f"  {'ratio':>5}"
        counts = {"episodes": (grpo, options.groups * options.samples), "traces": (sft, 64)}
        for threads in options.threads:
            torch.set_num_threads(threads)
            clock = time.process_time if threads == 1 else time.perf_counter
            for unit, (stage, count) in counts.items():
                rates: dict[str, list[float]] = {engine: [] for engine in ENGINES}
                for repeat in range(options.repeats):
                    for engine in ENGINES:
                        recipe = _recipe(options, engine, str(model), stage, threads)
                        seconds = _seconds(recipe, folder / f"{unit}-{threads}-{repeat}-{engine}", data, clock)
                        rates[engine] += [count / each for each in seconds]
                medians = [statistics.median(rates[engine]) for engine in ENGINES]
                cells = "  ".join(f"{rate:10.1f}/s" for rate in medians)
                yield f"  {unit:10} {threads:7}  {cells}  {medians[0] / medians[1]:5.2f}"


def _recipe(options: argparse.Namespace, engine: str, model: str, stage: Mapping[str, Any], threads: int = 1) -> Recipe:
    evaluation = {"every": 0, "tasks": 1, "test_tasks": 1, "max_tokens": 8}
    values = {"model": model, "env": options.env, "engine": engine, "threads": threads, "dtype": "float32"}
    return recipe_of({**values, "stages": [dict(stage)], "evaluation": evaluation})


def _seconds(recipe: Recipe, folder: Path, data: Path, clock: Any) -> list[float]:
    """Seconds of each step of a recipe's stage but the first."""
    stage, ends = recipe.stages[0], []

    def end_step(step: int, loaded: Any) -> None:
        ends.append(clock())

    indices = list(range(getattr(stage, "tasks", None) or 1000))
    config = {"split": "train"}
    run = StageRun(recipe, stage, make(recipe.env, **config), config, indices, folder, recipe.model, data)
    from factgym.training.recipes.small import run_small_stage

    start = run_small_stage if recipe.engine == "small" else run_stage
    start(run, lambda step, metrics: None, end_step)
    return [later - earlier for earlier, later in pairwise(ends)]
