"""The page of a training run: curves, scores before and after, the recipe, and episodes sampled at each evaluation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.agents.runs.files import EPISODES, read_json
from factgym.benchmarks.charts import COLOURS, error_bars, label_text, panel_chart
from factgym.benchmarks.formats import decimal, interval
from factgym.benchmarks.page import cut, report_page, write_page
from factgym.benchmarks.report import Chart, Column, Link, Note, Part, Report, Section, Table, make_table
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate
from factgym.core.errors import DataError, MissingExtraError
from factgym.core.messages import message_text
from factgym.training.recipes.evaluation import sampled_episodes
from factgym.training.recipes.recipe import Recipe, read_recipe, recipe_of
from factgym.training.recipes.run import EVALUATIONS, METRICS, RECIPE, RESULT, read_metrics
from factgym.training.recipes.task_sets import TEST, VALIDATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = "curves.html"

_PANELS = (
    ("loss", ("loss",)),
    ("reward of the rollouts", ("reward",)),
    ("share of groups without signal", ("zero_signal",)),
    ("entropy", ("entropy",)),
    ("KL", ("kl",)),
    ("tokens of an episode", ("length", "length_max")),
)
_MAX_REPLY_CHARS = 1500
_MAX_TASK_CHARS = 800

Points = Sequence[tuple[int, float]]


def is_training_run(folder: Path) -> bool:
    """Whether a folder holds a run of `factgym train`."""
    return (folder / RECIPE).is_file() and (folder / METRICS).is_file()


def checkpoint_runs(folder: Path) -> dict[str, Path]:
    """Return the finished evaluations on validation tasks by the name of their checkpoint, in the order of the steps."""
    names = dict.fromkeys(line["name"] for line in read_metrics(folder) if line.get("evaluation") == VALIDATION)
    runs = {name: folder / EVALUATIONS / VALIDATION / name for name in names}
    return {name: run for name, run in runs.items() if (run / EPISODES).is_file()}


def write_curves(folder: Path, out: Path | None = None, checkpoints: str | None = None) -> Path:
    """Write the page of a training run, finished or not; return its path. Raises DataError for another folder.

    checkpoints: the address of a page of the checkpoints' episodes.
    """
    if not is_training_run(folder):
        raise DataError(f"{folder} is no training run: it has no {RECIPE} and {METRICS}")
    recipe = recipe_of(read_recipe(folder / RECIPE))
    lines = list(read_metrics(folder))
    sections = [Section("Curves", tuple(_charts(lines, recipe)), in_navigation=True)]
    notes: tuple[str, ...] = ()
    if (folder / RESULT).is_file():
        result = read_json(folder / RESULT)
        sections.insert(0, Section("Before and after", tuple(result_tables(result)), in_navigation=True))
        notes = tuple(note for stage in result["stages"] for note in stage["warnings"])
    evaluations = [line for line in lines if "evaluation" in line]
    if evaluations:
        sections.append(Section("Held-out scores", (_evaluation_table(evaluations),), in_navigation=True))
    if evaluations and checkpoints:
        sections.append(Section("Checkpoints", (Link("Episodes of the checkpoints side by side", checkpoints),)))
    episodes = _episodes(folder, evaluations, recipe.evaluation.episodes)
    if episodes:
        about = "The same tasks at every evaluation, with the policy's own messages."
        sections.append(Section("Episodes", episodes, about=about, in_navigation=True))
    rows = [line.partition(" = ")[::2] for line in (folder / RECIPE).read_text("utf-8").splitlines() if line]
    sections.append(
        Section("Recipe", (make_table("", ("key", Column("value", left_aligned=True)), rows),), folded=True)
    )
    title = f"Training of {recipe.model} on {recipe.env}"
    return write_page(report_page(Report(title, tuple(sections), notes=notes)), out or folder / PAGE)


def _charts(lines: Sequence[Mapping[str, Any]], recipe: Recipe) -> list[Part]:
    steps = [line for line in lines if "evaluation" not in line]
    held_out = [line for line in lines if line.get("evaluation") == VALIDATION]
    boundaries = sorted({line["total_step"] - line["step"] for line in steps} - {0})
    charts: list[Part] = []

    def add(title: str, curves: Mapping[str, Points], estimates: Sequence[Mapping[str, Any]] = ()) -> None:
        if any(len(points) > 1 for points in curves.values()) or estimates:
            draw = partial(_draw_curves, curves=curves, boundaries=boundaries, estimates=estimates)
            charts.append(Chart(title, partial(panel_chart, title, {"": draw}, (8.4, 3.4))))

    add("held-out reward", {}, held_out)
    for title, names in _PANELS:
        add(title, {name: _points(steps, name) for name in names})
    counted = {name for line in lines for name in line.get("weights", {})}
    for title, source in (("components of the rollouts' reward", steps), ("components, held out", held_out)):
        tables = _tables(source, "components")
        add(title, {name: points for name, points in tables.items() if name in counted or not counted})
    add("recall by label, held out", _tables(held_out, "recall"))
    charts.append(Note("Dashed lines separate the stages. Faint lines are steps, bold ones a moving mean.", fine=True))
    try:
        import matplotlib  # noqa: F401 - the page draws without it, and says so
    except ImportError:
        charts.append(Note(str(MissingExtraError("the chart", "charts"))))
    return charts


def held_out_chart(title: str, result: Mapping[str, Any], stage_steps: Sequence[int] = ()) -> str:
    """Return SVG text: held-out reward by step with its interval, and test reward before the first stage and after each.

    Every stage is as wide as the others, as thirty steps of GRPO may follow 1,800 of tuning. Controls, the honest baseline
    and the teacher are lines.

    result: that of a training run, whose digest is the file's description. stage_steps: steps of its stages. Raises
    MissingExtraError without Matplotlib.
    """
    test = result["splits"].get(TEST, {"scores": {}, "differences": []})
    scores, controls = list(test["scores"].items()), set(_controls(test))
    if len(stage_steps) + 1 == len(scores):
        stage_steps = [steps for steps, (name, _) in zip(stage_steps, scores[1:], strict=True) if name not in controls]
    ends = list(accumulate(stage_steps, initial=0))
    levels = {f"{name}, the control": row["reward"] for name, row in scores if name in controls}
    for role, row in test.get("references", {}).items():
        levels[role if role == row["agent"] else f"{role} baseline ({row['agent']})"] = row["reward"]

    from scipy.interpolate import make_interp_spline

    def draw(axes: Axes) -> None:
        lines = [{**row, "total_step": row["step"]} for row in result["held_out"]]
        _draw_curves(axes, {}, ends[1:-1], lines, label="validation tasks")
        rows = [row for name, row in scores if name not in controls]
        if len(ends) == len(rows):
            rewards = [Estimate(row["reward"], row["low"], row["high"], row["tasks"]) for row in rows]
            error_bars(axes, ends, rewards, fmt="s", color=COLOURS[1], capsize=3, markersize=5, label="test tasks")
        for number, (label, reward) in enumerate(levels.items(), 2):
            axes.axhline(reward, color=COLOURS[number], linestyle=":", label=label)
        if len(ends) > 2 and all(stage_steps):
            stages, steps = list(range(len(ends))), [row["step"] for row in result["held_out"]]
            widths = make_interp_spline(ends, stages, k=1), make_interp_spline(stages, ends, k=1)
            axes.set_xscale("function", functions=widths)
            between = steps[:: len(steps) // (4 * len(stages) - 4) + 1]
            axes.set_xticks(sorted({*ends, *(step for step in between if 0.15 < float(widths[0](step)) % 1 < 0.85)}))
        axes.set(ylabel="reward")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)

    return panel_chart(title, {"": draw}, (7.6, 3.4), result_digest(result))


def _controls(test: Mapping[str, Any]) -> Iterator[str]:
    """Names of the stages that are controls: each is made after the stage that it is compared with."""
    order = list(test["scores"])
    for pair in test["differences"]:
        if order.index(pair["before"]) > order.index(pair["after"]):
            yield pair["before"]


def result_digest(result: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a result's content."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


def _points(lines: Sequence[Mapping[str, Any]], name: str) -> Points:
    pairs = ((line["total_step"], line.get(name)) for line in lines)
    return [(step, value) for step, value in pairs if isinstance(value, (int, float))]


def _tables(lines: Sequence[Mapping[str, Any]], key: str) -> dict[str, Points]:
    """A curve for each name in the lines' tables under a key."""
    names = dict.fromkeys(name for line in lines for name in line.get(key, {}))
    tables = [{"total_step": line["total_step"], **line.get(key, {})} for line in lines]
    return {name: _points(tables, name) for name in names}


def _draw_curves(
    axes: Axes,
    curves: Mapping[str, Points],
    boundaries: Sequence[int],
    estimates: Sequence[Mapping[str, Any]],
    label: str | None = None,
) -> None:
    for i, (name, points) in enumerate(curves.items()):
        if not points:
            continue
        xs, ys = [step for step, _ in points], [value for _, value in points]
        colour = COLOURS[i % len(COLOURS)]
        window = max(1, len(ys) // 20)
        means = [sum(ys[max(0, n - window + 1) : n + 1]) / (n + 1 - max(0, n - window + 1)) for n in range(len(ys))]
        if window > 1:
            axes.plot(xs, ys, color=colour, linewidth=0.6, alpha=0.35)
        axes.plot(xs, means, color=colour, linewidth=1.6, label=label_text(name))
    if estimates:
        xs, ys = [line["total_step"] for line in estimates], [line["reward"] for line in estimates]
        axes.plot(xs, ys, color=COLOURS[0], marker="o", markersize=3, label=label)
        if all(line["low"] is not None for line in estimates):
            lows, highs = [line["low"] for line in estimates], [line["high"] for line in estimates]
            axes.fill_between(xs, lows, highs, color=COLOURS[0], alpha=0.15)
    for boundary in boundaries:
        axes.axvline(boundary, linestyle="--", color="#999999", linewidth=1)
    axes.set(xlabel="step")
    axes.locator_params(axis="x", integer=True)
    if len(curves) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def result_tables(result: Mapping[str, Any]) -> list[Table]:
    """Reward and its components before and after each stage, and the difference of the last stage to the first in pairs
    with its interval; the same for each later stage, and for its control; the honest baseline's and the teacher's.
    """
    tables = []
    for split, values in result["splits"].items():
        scores, differences = values["scores"], values["differences"]
        tasks = next(iter(scores.values()))["tasks"]
        about = f"{split} ({tasks} tasks, {'held out' if split == TEST else 'trained on'})"
        tables.append(_score_table(about, scores, differences[-1] if differences else None))
        controls = set(_controls(values))
        for pair in differences:
            first, second = pair["before"], pair["after"]
            if first != "start" and second not in controls:
                title = f"{split}: {second} against {first}"
                title += ", its control, as long from the same model" if first in controls else ""
                tables.append(_score_table(title, {name: scores[name] for name in (first, second)}, pair))
        if references := values.get("references"):
            title = f"{split}: the honest baseline and the teacher on the same tasks"
            tables.append(_score_table(title, references, None))
    return tables


def _score_table(title: str, scores: Mapping[str, Any], pair: Mapping[str, Any] | None) -> Table:
    """The rows of reward and components. pair: the difference that the last columns show."""
    tasks = next(iter(scores.values()))["tasks"]
    counted = [name for row in scores.values() for name in row["weights"]]
    rows = []
    for name in dict.fromkeys(["reward", *counted]):
        cells = [decimal(row["reward"] if name == "reward" else row["components"].get(name)) for row in scores.values()]
        if pair is not None:
            difference = pair["scores"].get(name)
            value = Estimate(difference[0], difference[1], difference[2], tasks) if difference else NO_DATA
            cells += [decimal(value.value), interval(value)]
        rows.append([name.replace("_", " "), *cells])
    return make_table(title, ["score", *scores, *(["difference", "95 % interval"] if pair else [])], rows)


def _evaluation_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for line in lines:
        reward = Estimate(line["reward"], line["low"], line["high"], line["tasks"])
        accuracy = decimal(line["accuracy"]) if line["accuracy"] is not None else ""
        rows.append([str(line["total_step"]), line["evaluation"], decimal(reward.value), interval(reward), accuracy])
    return make_table("", ("step", Column("split", left_aligned=True), "reward", "95 % interval", "accuracy"), rows)


def _episodes(folder: Path, evaluations: Sequence[Mapping[str, Any]], count: int) -> tuple[Part, ...]:
    rows: dict[str, list[list[str]]] = {}
    for line in evaluations:
        run = folder / EVALUATIONS / line["evaluation"] / line["name"]
        if line["evaluation"] != VALIDATION or not run.is_dir():
            continue
        for episode in sampled_episodes(run, count):
            replies = []
            for message in (episode["messages"][turn["message"]] for turn in episode["turns"]):
                reasoning = message.get("reasoning_content")
                replies.append((f"<think>{reasoning}</think>\n" if reasoning else "") + message_text(message))
            reward = (episode.get("reward") or {}).get("total")
            cells = [str(line["total_step"]), decimal(reward), cut("\n\n".join(replies), _MAX_REPLY_CHARS)]
            first = episode["messages"][: episode["turns"][0]["message"]] if episode["turns"] else episode["messages"]
            question = cut(message_text(first[-1]), _MAX_TASK_CHARS) if first else ""
            rows.setdefault(episode["task"], [["task", "", question]]).append(cells)
    columns = ("step", "reward", Column("the policy's messages", left_aligned=True))
    return tuple(make_table(task, columns, cells) for task, cells in rows.items())
