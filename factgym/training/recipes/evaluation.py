"""Held-out evaluation of a model in training: an ordinary run of episodes, its scores, and differences in pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent, agent_from_model, agent_from_script
from factgym.agents.local import LocalModel
from factgym.agents.local.loading import Loaded
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import fresh_folder, read_json, write_json
from factgym.agents.runs.read import read_run
from factgym.benchmarks.metrics import RunSummary, summarise
from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core.env import Env
from factgym.training.recipes.recipe import Evaluation

SCORES = "scores.json"
"""Written last: an evaluation that has it is finished."""
REFERENCES = ("honest", "teacher")
"""Roles of the scripted agents that models are compared with."""


def evaluate(
    agent: Agent,
    env: Env[Any],
    folder: Path,
    tasks: int,
    settings: Evaluation,
    seed: int,
    on_start: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Play episodes of the first tasks in the seed's order and return their scores; a finished evaluation is read.

    Every call with one seed plays the same tasks with the same seeds of the samples, so that two agents can be compared
    in pairs. The process's own random state is left alone. on_start: gets the counters of the episodes.
    """
    if (folder / SCORES).is_file():
        return read_json(folder / SCORES)
    fresh_folder(folder)
    limits = Limits(concurrency=settings.batch)
    run = collect(env, agent, folder, n=tasks, k=settings.samples, seed=seed, limits=limits, on_start=on_start)
    scores = scores_of(summarise(run.episodes(), bounds=run.reward_bounds))
    write_json(folder / SCORES, scores)
    return scores


def evaluate_references(
    env_id: str, env: Env[Any], folder: Path, tasks: int, settings: Evaluation, seed: int
) -> dict[str, Any]:
    """Evaluate the environment's honest baseline and its teacher, where it has them; return their scores by role."""
    scores: dict[str, Any] = {}
    for role in REFERENCES:
        agent = next((agent for agent in scripted_agents(env_id).values() if agent.role == role), None)
        if agent is not None:
            played = evaluate(agent_from_script(agent), env, folder / role, tasks, settings, seed)
            scores[role] = {"agent": agent.name, **played}
    return scores


@contextmanager
def playing_agent(loaded: Loaded, **options: Any) -> Iterator[Agent]:
    """Put a model in training into evaluation mode, for an agent that plays with it. options: of the local model."""
    was_training, generation_config = loaded.model.training, loaded.model.generation_config
    loaded.model.eval()
    try:
        yield agent_from_model("model", LocalModel("model", loaded=loaded, batch_wait=0.01, **options))
    finally:
        loaded.model.train(was_training)
        loaded.model.generation_config = generation_config


def scores_of(summary: RunSummary) -> dict[str, Any]:
    """The scores of a run as JSON data: reward with its interval, components, their weights, recall by label, lengths.

    weights: of the components that the reward counts; the others are diagnostics.
    """

    def values(estimates: Mapping[str, Estimate]) -> dict[str, float | None]:
        return {name: estimate.value for name, estimate in estimates.items()}

    reward = summary.reward
    return {
        "tasks": summary.tasks,
        "episodes": summary.scored,
        "errors": summary.errors,
        "reward": reward.value,
        "low": reward.low,
        "high": reward.high,
        "components": values(summary.components),
        "weights": {name: weight for name, weight in summary.weights.items() if weight},
        "accuracy": summary.accuracy.value,
        "recall": values(summary.recall),
        "turns": summary.turns.value,
        "malformed": summary.malformed.value,
    }


def paired_differences(before: Path, after: Path) -> dict[str, Estimate]:
    """Mean differences of reward and components, after − before, over the tasks of two runs, with BCa intervals."""
    first, second = _task_means(before), _task_means(after)
    differences: dict[str, Estimate] = {}
    tasks = [task for task in first if task in second]
    for name in dict.fromkeys(name for task in tasks for name in first[task]):
        pairs = [(first[task], second[task]) for task in tasks]
        values = [new[name] - old[name] for old, new in pairs if name in old and name in new]
        if values:
            differences[name] = bca_mean(values)
    return differences


def _task_means(folder: Path) -> dict[str, dict[str, float]]:
    """Task -> the means of "reward" and of each component over its scored episodes."""
    series: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for episode in read_run(folder).episodes():
        report = episode.get("reward") or {}
        if report.get("total") is None:
            continue
        for name, value in {"reward": report["total"], **report.get("components", {})}.items():
            series[episode["task"]][name].append(value)
    return {task: {name: sum(values) / len(values) for name, values in rows.items()} for task, rows in series.items()}


def sampled_episodes(folder: Path, count: int) -> Sequence[Mapping[str, Any]]:
    """The first episodes of a run in the order of their tasks' ids, one of each task."""
    episodes: dict[str, Mapping[str, Any]] = {}
    for episode in read_run(folder).episodes():
        episodes.setdefault(episode["task"], episode)
    return [episodes[task] for task in sorted(episodes)[:count]]
