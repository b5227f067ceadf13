"""Stored results of recipes: `python -m factgym.training.recipes.results RUN … --out recipes/results/NAME.json`.

RUN: folders of finished runs of one recipe, which may differ in their seeds. A score is the mean over the seeds. With one
seed an interval is that over tasks; with several it is Student's t over the seeds' means, which holds what differs between
trainings, too. `runs` has every seed's own numbers.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from factgym.agents.runs.files import read_json, write_json
from factgym.core.errors import ConfigError, FactgymError
from factgym.training.recipes.evaluation import SCORES, paired_differences
from factgym.training.recipes.recipe import read_recipe, recipe_of
from factgym.training.recipes.run import EVALUATIONS, RECIPE, RESULT, read_metrics
from factgym.training.recipes.task_sets import TEST, TRAIN


def stored_result(
    folders: Sequence[Path],
    command: str,
    commit: str,
    note: str = "",
    others: Mapping[str, Sequence[Path]] | None = None,
) -> dict[str, Any]:
    """Return the result of finished runs of one recipe as JSON data. note: what a reader has to know of the runs.

    others: runs of other recipes by name, of the same environment and seeds; "against" has the paired differences of the
    last stages' episodes, these runs' − the others'. Raises ConfigError for a run that is not finished, runs of different recipes or two of one seed.
    """
    recipes = [read_recipe(folder / RECIPE) for folder in folders]
    seeds = [recipe.pop("seed", 0) for recipe in recipes]
    if any(recipe != recipes[0] for recipe in recipes) or len(set(seeds)) < len(seeds):
        raise ConfigError("the runs must be of one recipe, with a seed of its own each")
    unfinished = next((folder for folder in folders if not (folder / RESULT).is_file()), None)
    if unfinished is not None:
        raise ConfigError(f"{unfinished} is not finished: run its command again")
    results = [read_json(folder / RESULT) for folder in folders]
    about = {"command": command, "commit": commit, **read_json(folders[0] / "machine.json")}
    about |= {"seeds": seeds, "minutes": [_minutes(folder) for folder in folders], **({"note": note} if note else {})}
    splits = {name: _split([result["splits"][name] for result in results]) for name in results[0]["splits"]}
    runs = [
        {"seed": seed, "stages": result["stages"], "steps": _steps(folder)}
        for seed, result, folder in zip(seeds, results, folders, strict=True)
    ]
    against = {name: _against(folders, seeds, rivals) for name, rivals in (others or {}).items()}
    return {
        **about,
        "splits": splits,
        **({"against": against} if against else {}),
        "held_out": _curve(results),
        "runs": runs,
    }


def _against(folders: Sequence[Path], seeds: Sequence[int], others: Sequence[Path]) -> dict[str, Any]:
    """Paired differences of the last evaluations of two recipes' runs by split, over the seeds."""
    rivals = {read_recipe(folder / RECIPE).get("seed", 0): folder for folder in others}
    if sorted(rivals) != sorted(seeds):
        raise ConfigError(f"the runs have seeds {seeds}, the others {sorted(rivals)}: they are compared in pairs")
    splits: dict[str, Any] = {}
    for split in (TEST, TRAIN):
        rows = []
        for seed, folder in zip(seeds, folders, strict=True):
            after, before = (_last_evaluation(run, split) for run in (folder, rivals[seed]))
            if after is not None and before is not None:
                rows.append(_pairs(before, after))
        if len(rows) == len(folders):
            names = [name for name in rows[0] if all(name in row for row in rows)]
            splits[split] = {
                "scores": {name: over_seeds([row[name] for row in rows]) for name in names},
                "by_seed": {name: [_rounded(row[name][0]) for row in rows] for name in names},
            }
    return splits


def _last_evaluation(folder: Path, split: str) -> Path | None:
    """The evaluation after the last stage, where the recipe has one of this split."""
    stages = recipe_of(read_recipe(folder / RECIPE)).stages
    path = folder / EVALUATIONS / split / f"{len(stages) - 1}-{stages[-1].kind}"
    return path if path.is_dir() else None


def _pairs(before: Path, after: Path) -> dict[str, list[float | None]]:
    """Differences of the components, and of the reward where both recipes weigh them alike."""
    weights = [read_json(folder / SCORES)["weights"] for folder in (before, after)]
    differences = paired_differences(before, after)
    if weights[0] != weights[1]:
        del differences["reward"]
    return {name: [each.value, each.low, each.high] for name, each in differences.items()}


def over_seeds(estimates: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Return value, low, high of the mean of several seeds' values, each given with its own interval."""
    if len(estimates) == 1:
        return [_rounded(number) for number in estimates[0]]
    values = [estimate[0] for estimate in estimates if estimate[0] is not None]
    if len(values) < 2:
        return [_rounded(fmean(values)) if values else None, None, None]
    from scipy.special import stdtrit  # scipy.stats would cost most of a second to import

    quantile = float(stdtrit(len(values) - 1, 0.975))
    mean, reach = fmean(values), quantile * stdev(values) / math.sqrt(len(values))
    return [_rounded(mean), _rounded(mean - reach), _rounded(mean + reach)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _mean(values: Iterable[float | None]) -> float | None:
    return over_seeds([[value, None, None] for value in values])[0]


def _scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    value, low, high = over_seeds([[row["reward"], row["low"], row["high"]] for row in rows])
    return {"reward": value, "low": low, "high": high}


def _split(splits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores and paired differences of a split: means over the seeds, and each seed's."""
    tables = {
        table: {name: _mean_scores([split[table][name] for split in splits]) for name in splits[0][table]}
        for table in ("scores", "references")
        if table in splits[0]
    }
    differences = []
    for index, first in enumerate(splits[0]["differences"]):
        rows = [split["differences"][index]["scores"] for split in splits]
        names = [name for name in first["scores"] if all(name in row for row in rows)]
        differences.append(
            {
                **{key: first[key] for key in ("before", "after")},
                "scores": {name: over_seeds([row[name] for row in rows]) for name in names},
                "by_seed": [[_rounded(number) for number in row["reward"]] for row in rows],
            }
        )
    return {**tables, "differences": differences}


def _mean_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores of one model or agent: means over the seeds, and each seed's reward."""
    first = rows[0]
    return {
        **{key: first[key] for key in ("agent", "tasks", "episodes") if key in first},
        **_scores(rows),
        "by_seed": [_rounded(row["reward"]) for row in rows],
        "accuracy": _mean(row["accuracy"] for row in rows),
        **{
            table: {key: _mean(row[table].get(key) for row in rows) for key in first[table]}
            for table in ("components", "recall")
        },
    }


def _curve(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The held-out curve, at the steps that all seeds have."""
    curves = [{row["step"]: row for row in result["held_out"]} for result in results]
    steps = [step for step in curves[0] if all(step in curve for curve in curves)]
    return [{"step": step, **_scores([curve[step] for curve in curves])} for step in steps]


def _steps(folder: Path) -> list[dict[str, Any]]:
    """Every tenth step's reward and share of groups without signal, of stages that log them."""
    names = ("reward", "reward_std", "zero_signal", "entropy", "length")
    return [
        {"step": line["total_step"], **{name: _rounded(line[name]) for name in names if name in line}}
        for line in read_metrics(folder)
        if "evaluation" not in line and "reward" in line and line["step"] % 10 in (0, 1)
    ]


def _minutes(folder: Path) -> int:
    """Wall-clock minutes from a run's beginning to its result; pauses of a stopped run count."""
    return round(((folder / RESULT).stat().st_mtime - (folder / RECIPE).stat().st_mtime) / 60)


def main(arguments: Sequence[str]) -> int:
    """Write the result of runs; exit code 2 for runs that cannot be joined."""
    parser = argparse.ArgumentParser(prog="python -m factgym.training.recipes.results", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--commit", help="of the code that the runs were made with; default: the one checked out")
    parser.add_argument("--note", default="", help="what a reader has to know of the runs")
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        nargs="+",
        metavar="NAME RUN",
        help="another recipe's name and its runs of the same seeds, to compare with in pairs; repeatable",
    )
    chosen = parser.parse_args(arguments)
    name = f"recipes/{chosen.out.stem}.toml"
    try:
        command = f"factgym train {name} --seed N"
        others = {name: [Path(run) for run in runs] for name, *runs in chosen.against}
        commit = chosen.commit or _checked_out()
        write_json(chosen.out, stored_result(chosen.runs, command, commit, chosen.note, others))
    except FactgymError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _checked_out() -> str:
    try:
        git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise ConfigError("this is no git checkout: name the commit of the code with --commit") from None
    return git.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
