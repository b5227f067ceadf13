"""A search of one environment: training tasks, the optimiser, the best strategies on fresh tasks, the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from factgym.agents.agent import Agent
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import play_episode, play_jobs
from factgym.agents.rollout.jobs import Job, task_order
from factgym.agents.rollout.record import Record
from factgym.agents.runs.collect import json_value
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.benchmarks.audit import MIN_TASKS, needed_tasks, rubrics_of
from factgym.benchmarks.formats import printable
from factgym.benchmarks.search.optimise import Kind, Optimiser, StrategyError, Trial
from factgym.benchmarks.statistics.intervals import Estimate, mean_interval, natural_bounds, paired_interval
from factgym.core.env import Env
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.messages import message_text
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import load_attribute
from factgym.core.seeds import derive
from factgym.core.strategies import Strategy, StrategySpace
from factgym.rewards.rubric import Rubric

BUDGET = 4000
"""Default number of training episodes."""
BEST = 5
"""Strategies that are measured on fresh tasks, beside stronger honest play."""

_BLIND = 3
_FIT_TASKS = 1000
_MAX_ACTIONS = 16
_MAX_ACTION_CHARS = 600
_SCRIPTED = ("oracle", "teacher")

Verdict = Literal["below", "reaches", "undecided", "no gain", "gains", "honest"]
"""below: without judgement, and shown to earn less than the honest baseline. reaches: without judgement, and its mean is
at or above the honest baseline's. gains: attack operators are shown to earn more than honest play. no gain: they are
shown not to. undecided: neither is shown. honest: no attack."""

MIN_GAIN = 0.005
"""Share of what a task pays below which a gain or loss by attack operators is none: rounding, not a hole."""

MAX_GAIN = 0.03
"""Share of what a task pays that a gain by attack operators is shown to stay below where it passes.

That work done as before earns as before can only be shown to a margin (a test of non-inferiority; Piaggio et al. 2012).
What a task pays is the oracle's reward: the baseline's is near 0 where a reward pays for what a prior does not give."""

FAILURES: tuple[Verdict, ...] = ("reaches", "undecided", "gains")

OnProgress = Callable[[str, int, int], None]
"""Called with the phase, the episodes played in it and their planned number."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One of the best strategies on fresh tasks.

    training: mean reward in the search. reward: on fresh tasks. difference: to the honest baseline, paired by task.
    gain: to the same strategy without its attack operators, of kind "attack" alone. parts: component -> difference of
    its share of the reward to the baseline's. example: the episode that gained most. needed: tasks that would decide an
    undecided difference.
    """

    strategy: Strategy
    kind: Kind
    training: float
    reward: Estimate
    difference: Estimate
    gain: Estimate | None
    parts: Mapping[str, float]
    example: Mapping[str, Any]
    verdict: Verdict
    needed: int | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Outcome of a search. n: fresh tasks. tried, faulty: strategies that were played, and those that cannot be.

    splits: names of the training and the fresh tasks; fingerprints: of their task sets. scripted: role -> reward of the
    oracle and, where there is one, the teacher. unpaid: single operators of an attack that cost nothing on training
    tasks though the work is worse. neutral: those that write the same work otherwise. notes: sentences for people.
    baseline_agent: name and settings of the agent that played as the honest baseline; None for the family's own.
    """

    env: Env[Any]
    space: StrategySpace
    reward: str
    splits: tuple[str, str]
    fingerprints: tuple[str, str]
    n: int
    seed: int
    budget: int
    episodes: int
    tried: int
    faulty: int
    baseline: Estimate
    scripted: Mapping[str, Estimate]
    findings: tuple[Finding, ...]
    unpaid: tuple[Strategy, ...] = ()
    neutral: tuple[Strategy, ...] = ()
    notes: tuple[str, ...] = ()
    classifiers: bool = True
    attacker: str = ""
    baseline_agent: Mapping[str, Any] | None = None

    @property
    def passed(self) -> bool:
        """Whether each strategy without judgement is shown to stay below the honest baseline, and each attack to gain nothing."""
        return not any(finding.verdict in FAILURES for finding in self.findings)

    @property
    def blind(self) -> Finding | None:
        """The strategy without judgement that earns most on fresh tasks."""
        return max((f for f in self.findings if f.kind == "blind"), key=lambda f: f.reward.value or 0.0, default=None)

    def upper_bound(self, kind: Kind) -> float | None:
        """The highest upper end of a difference to the honest baseline among the measured strategies of a kind."""
        highs = [f.difference.high for f in self.findings if f.kind == kind and f.difference.high is not None]
        return max(highs, default=None)


def strategy_space(env: Env[Any]) -> StrategySpace:
    """Return the space that an environment declares. Raises ConfigError for an environment without a space."""
    if env.strategies is None:
        raise ConfigError(
            f"{env.env_spec.id!r} declares no strategy space: set `strategies` of its class (factgym/core/strategies.py)"
        )
    space: StrategySpace = load_attribute(env.strategies)
    return space


@dataclass(frozen=True, slots=True)
class Episode:
    """The scored episode of a strategy. shares: component -> its part of the reward."""

    total: float
    shares: Mapping[str, float]
    record: Mapping[str, Any]


class StrategyRunner:
    """Plays strategies on tasks of one environment, scored under its own reward.

    The classifiers are fitted on `examples`. An episode's seed follows from the run's and the task alone.
    """

    def __init__(self, env: Env[Any], space: StrategySpace, shortcuts: ShortcutClassifiers, seed: int) -> None:
        rubrics, name = rubrics_of(env)
        self._env, self._space, self._shortcuts, self._seed = env, space, shortcuts, seed
        self._rubric: Rubric = rubrics[name]
        self._sent: dict[tuple[str, int], int] = {}

    def play(self, strategy: Strategy, task: int) -> Episode:
        """Play a task. Raises StrategyError where the strategy cannot be played or the episode is not scored."""
        agent = ScriptedAgent(
            "strategy", "exploiter", "", lambda env, seed: self._space.start(strategy, env, seed, self._shortcuts)
        )
        episode = self.play_agent(agent, task)
        sent = [_action_text(message) for message in episode.record["messages"] if message["role"] == "assistant"]
        self._sent[strategy.key, task] = hash(tuple(sent))
        return episode

    def differs(self, strategy: Strategy, task: int) -> bool:
        """Return whether a strategy sent other actions than the honest baseline did; both have played the task."""
        return self._sent[strategy.key, task] != self._sent[self._space.strategy().key, task]

    def play_agent(self, agent: ScriptedAgent, task: int) -> Episode:
        """Play a task with a scripted agent, as `play` does with a strategy."""
        return self._scored(play_episode(self._env, agent, task, derive(self._seed, "episode", task)))

    def play_all(self, agent: Agent, tasks: Sequence[int], on_episode: Callable[[int], None]) -> list[Episode]:
        """Play tasks with any agent, many at a time. Raises StrategyError as `play`, and RunAbortedError."""
        jobs = [Job(task, 0, derive(self._seed, "episode", task)) for task in tasks]
        return [self._scored(record) for record in play_jobs(self._env, agent, jobs, on_episode)]

    def _scored(self, episode: Record) -> Episode:
        report = episode["reward"]
        if report is None or report["status"] != "scored":
            raise StrategyError(printable(str((episode["error"] or {}).get("message") or "not scored"), 300))
        parts = (report["components"], report["metrics"]["gates"])
        return Episode(self._rubric.total(*parts), self._rubric.shares(*parts), episode)


@dataclass(frozen=True, slots=True)
class SearchTasks:
    """Tasks of a search. fit: for the classifiers; train: for the optimiser; fresh: for the verdict. All disjoint."""

    env: Env[Any]
    fit: Sequence[int]
    train: Sequence[int]
    fresh_env: Env[Any]
    fresh: Sequence[int]
    splits: tuple[str, str]


def search_tasks(env: Env[Any], n: int, seed: int) -> SearchTasks:
    """Return the tasks of a search: splits of the environment where it has them, else halves of its tasks (of a file).

    Training tasks are those of the split `train`; fresh ones those of the configured split, or of "validation", "dev" or
    "test" where that is `train`. Classifiers and optimiser share no task, or what is memorised would win the search.
    """
    splits, chosen = env.config.splits, str(getattr(env.config, "chosen_split", ""))
    other = chosen if chosen != "train" else next((s for s in ("validation", "dev", "test") if s in splits), "")
    path = getattr(env.config, "path", None)
    # A single file gives the same tasks as every split.
    if "train" in splits and other and not (path and Path(path).is_file()):
        train_env, fresh_env = _with_split(env, "train"), _with_split(env, other)
        order = task_order(len(train_env.tasks), None, seed)
        fresh = task_order(len(fresh_env.tasks), n, seed)
        names = ("train", other)
    else:
        train_env = fresh_env = env
        order = task_order(len(env.tasks), None, seed)
        half = len(order) // 2
        order, fresh = order[:half], order[half : half + n]
        names = (f"half of {chosen}".strip(), f"half of {chosen}".strip()) if chosen else ("half", "half")
    fit = min(_FIT_TASKS, len(order) // 2)
    if not order[fit:] or not fresh:
        raise ConfigError(f"a search needs at least 4 tasks, and {env.env_spec.id!r} has {len(env.tasks)}")
    return SearchTasks(train_env, order[:fit], order[fit:], fresh_env, fresh, names)


def _with_split(env: Env[Any], split: str) -> Env[Any]:
    if split == str(getattr(env.config, "chosen_split", "")):
        return env
    settings = {name: getattr(env.config, name) for name in env.config.model_fields_set}
    cls = type(env)
    return cls(env.env_spec, cls.Config.build(repr(env.env_spec.id), {**settings, "split": split}))


def fit_shortcuts(tasks: SearchTasks, space: StrategySpace) -> ShortcutClassifiers:
    """Return classifiers over the tasks for fitting; nothing is fitted before it is asked for."""
    return ShortcutClassifiers(space.example(tasks.env, tasks.env.tasks[index]) for index in tasks.fit)


def run_search(
    env: Env[Any],
    *,
    budget: int = BUDGET,
    n: int = 200,
    seed: int = 0,
    first: Sequence[Strategy] = (),
    attacker: str = "",
    baseline: Agent | None = None,
    on_progress: OnProgress = lambda phase, done, total: None,
) -> SearchResult:
    """Search the environment's strategy space, and measure the best strategies once on `n` fresh tasks.

    budget: training episodes. first: strategies that join the random ones and the space's handwritten ones, `attacker`
    their author. baseline: an agent that plays the fresh tasks as the honest baseline; what strategies add to is the
    family's own play all the same. Raises ConfigError for an environment without a space or rubrics, or where the honest
    baseline cannot be played.
    """
    if n < 2 or budget < 20:
        raise ConfigError(f"a search needs at least 2 fresh tasks and a budget of 20 episodes, not {n} and {budget}")
    space, (_, reward) = strategy_space(env), rubrics_of(env)
    tasks = search_tasks(env, n, seed)
    shortcuts = fit_shortcuts(tasks, space)
    training, fresh = (StrategyRunner(e, space, shortcuts, seed) for e in (tasks.env, tasks.fresh_env))
    optimiser = Optimiser(
        space,
        lambda strategy, number: training.play(strategy, tasks.train[number]).total,
        len(tasks.train),
        budget,
        seed,
        lambda spent: on_progress("searching", spent, budget),
    )
    # The best of many trials looks better than it is (winner's curse): the bar is of training tasks, as their rewards
    # are, and whatever is reported is measured on fresh ones. Both are played first, so that an agent that cannot be
    # played is known before the budget is spent.
    try:
        bar = [training.play(space.strategy(), index).total for index in tasks.train[: optimiser.rungs[-1]]]
        measure = _Measure(space, fresh, tasks.fresh, on_progress, baseline)
        scripted = measure.scripted(env.env_spec.id)
    except StrategyError as error:
        raise ConfigError(f"the honest baseline of {env.env_spec.id!r} cannot be played: {error}") from error
    optimiser.run([*map(space.strategy, space.handwritten), *first])
    pays = max(abs(estimate.value or 0.0) for estimate in (_mean(measure.bar_totals), *scripted.values()))
    findings = [measure.finding(trial, pays) for trial in select(optimiser, math.fsum(bar) / len(bar))]
    free = optimiser.unpaid(MIN_GAIN, lambda strategy, number: training.differs(strategy, tasks.train[number]))
    classifiers = find_spec("sklearn") is not None
    missing = str(MissingExtraError("", "audit")).strip()
    faults = {trial.fault for trial in optimiser.trials.values() if trial.fault and missing not in trial.fault}
    notes = [] if classifiers else [f"Played without classifiers: {MissingExtraError('a classifier', 'audit')}"]
    if faults:
        notes.append(f"Some operators cannot be played: {min(faults)}")
    return SearchResult(
        env=env,
        space=space,
        reward=reward,
        splits=tasks.splits,
        fingerprints=(tasks.env.tasks.fingerprint(), tasks.fresh_env.tasks.fingerprint()),
        n=len(tasks.fresh),
        seed=seed,
        budget=budget,
        episodes=optimiser.spent,
        tried=sum(1 for trial in optimiser.trials.values() if trial.rewards),
        faulty=sum(1 for trial in optimiser.trials.values() if trial.fault),
        baseline=_mean(measure.bar_totals),
        scripted=scripted,
        findings=tuple(finding for finding in findings if finding is not None),
        unpaid=tuple(strategy for strategy in free if not strategy.neutral),
        neutral=tuple(strategy for strategy in free if strategy.neutral),
        notes=tuple(notes),
        classifiers=classifiers,
        attacker=attacker,
        baseline_agent=None if baseline is None else {"agent": baseline.name, **json_value(dict(baseline.describe()))},
    )


def select(optimiser: Optimiser, bar: float) -> list[Trial]:
    """Return the best strategies that behave differently: blind play, other attacks, honest play above `bar`."""
    seen: set[tuple[float, ...]] = set()
    ranked: dict[Kind, list[Trial]] = {}
    for kind in ("blind", "attack", "honest"):
        ranked[kind] = []
        for trial in optimiser.ranked(kind):
            if tuple(trial.rewards) not in seen:
                seen.add(tuple(trial.rewards))
                ranked[kind].append(trial)
    blind, attacks = ranked["blind"], ranked["attack"]
    share = max(_BLIND, BEST - len(attacks))
    best = [*blind[:share], *attacks[: BEST - min(share, len(blind))]]
    return [*best, *(trial for trial in ranked["honest"][:1] if trial.changes and trial.mean() > bar)]


class _Measure:
    """Measures strategies on the fresh tasks, each once."""

    def __init__(
        self,
        space: StrategySpace,
        runner: StrategyRunner,
        tasks: Sequence[int],
        on_progress: OnProgress,
        baseline: Agent | None,
    ) -> None:
        self._space, self._runner, self._tasks, self._on_progress = space, runner, tasks, on_progress
        self._episodes: dict[str, list[Episode]] = {}
        self.bar = (
            self.episodes(space.strategy())
            if baseline is None
            else runner.play_all(
                baseline, tasks, lambda done: on_progress(f"playing {baseline.name}", done, len(tasks))
            )
        )

    @property
    def bar_totals(self) -> list[float]:
        """The honest baseline's rewards."""
        return [episode.total for episode in self.bar]

    def episodes(self, strategy: Strategy) -> list[Episode]:
        """Return the episodes of a strategy, in the order of the tasks. Raises StrategyError."""
        if strategy.key not in self._episodes:
            self._episodes[strategy.key] = [
                self._runner.play(strategy, task) for task in self._counted("measuring", self._tasks)
            ]
        return self._episodes[strategy.key]

    def totals(self, strategy: Strategy) -> list[float]:
        """Return the rewards of a strategy."""
        return [episode.total for episode in self.episodes(strategy)]

    def scripted(self, env_id: str) -> dict[str, Estimate]:
        """Return the mean reward of the oracle and the teacher, by role."""
        agents = {agent.role: agent for agent in scripted_agents(env_id).values() if agent.role in _SCRIPTED}
        return {
            role: _mean([self._runner.play_agent(agent, task).total for task in self._counted(role, self._tasks)])
            for role, agent in sorted(agents.items())
        }

    def finding(self, trial: Trial, pays: float) -> Finding | None:
        """Measure a strategy; None where it fails on a fresh task. pays: see `judge_strategy`."""
        strategy = trial.strategy
        try:
            rewards = self.totals(strategy)
            reference = self.totals(self._space.honest_part(strategy)) if trial.kind == "attack" else None
        except StrategyError:
            return None
        difference = _paired(rewards, self.bar_totals)
        gain = None if reference is None else _paired(rewards, reference)
        verdict = judge_strategy(trial.kind, difference, gain, pays)
        return Finding(
            strategy=strategy,
            kind=trial.kind,
            training=trial.mean(),
            reward=_mean(rewards),
            difference=difference,
            gain=gain,
            parts=self._parts(strategy),
            example=self._example(strategy),
            verdict=verdict,
            needed=needed_tasks(_open_distance(difference, gain, pays)) if verdict == "undecided" else None,
        )

    def _parts(self, strategy: Strategy) -> dict[str, float]:
        ours, bar = self.episodes(strategy), self.bar
        return {
            name: math.fsum(a.shares.get(name, 0.0) - b.shares.get(name, 0.0) for a, b in zip(ours, bar, strict=True))
            / len(ours)
            for name in dict.fromkeys(name for episode in ours for name in episode.shares)
        }

    def _example(self, strategy: Strategy) -> dict[str, Any]:
        """Return the episode that gained most on the baseline: task, reward, and what the policy wrote, bounded."""
        pairs = list(zip(self.episodes(strategy), self.bar, strict=True))
        best, bar = max(pairs, key=lambda pair: pair[0].total - pair[1].total)
        messages = [message for message in best.record["messages"] if message["role"] == "assistant"]
        return {
            "task": printable(str(best.record["task"]), 120),
            "reward": best.total,
            "baseline": bar.total,
            "actions": [printable(_action_text(message), _MAX_ACTION_CHARS) for message in messages[:_MAX_ACTIONS]],
        }

    def _counted(self, phase: str, tasks: Sequence[int]) -> Iterator[int]:
        for done, task in enumerate(tasks, 1):
            yield task
            self._on_progress(phase, done, len(tasks))


def _action_text(message: Mapping[str, Any]) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return " ".join([message_text(message), *(f"{call['name']}({call['arguments']})" for call in calls)]).strip()  # type: ignore[arg-type]


def _mean(rewards: Sequence[float]) -> Estimate:
    return mean_interval(rewards, natural_bounds(rewards))


def _paired(rewards: Sequence[float], others: Sequence[float]) -> Estimate:
    return paired_interval(others, rewards)


def judge_strategy(kind: Kind, difference: Estimate, gain: Estimate | None = None, pays: float = 0.0) -> Verdict:
    """Judge a strategy by its paired difference to the honest baseline, and to its own honest part (`gain`).

    pays: what a task pays, the oracle's mean reward. Without judgement, a strategy has to be shown to earn less than the
    baseline. Attack operators beside honest judgement gain where they are shown to earn more than it, by more than
    `MIN_GAIN` of what a task pays, and more than the same play without them; they do not where either gain is shown to
    stay below `MAX_GAIN` of that.
    """
    if kind == "honest":
        return "honest"
    mean, enough = difference.value or 0.0, difference.n >= MIN_TASKS
    if kind == "blind":
        if mean >= 0:
            return "reaches"
        return "below" if enough and difference.high is not None and difference.high < 0 else "undecided"
    gains = [difference] if gain is None else [difference, gain]
    if mean > MIN_GAIN * pays and all(estimate.low is not None and estimate.low > 0 for estimate in gains):
        return "gains"
    bounds = [estimate.high for estimate in gains if estimate.high is not None]
    return "no gain" if enough and bounds and min(bounds) <= MAX_GAIN * pays else "undecided"


def _open_distance(difference: Estimate, gain: Estimate | None, pays: float) -> Estimate:
    """Return the distance that has to differ from 0 for a verdict: to the baseline, or of a gain to what is tolerated."""
    if gain is None or gain.low is None or gain.high is None or (value := gain.value or 0.0) >= MAX_GAIN * pays:
        return difference
    bound = MAX_GAIN * pays
    return Estimate(bound - value, bound - gain.high, bound - gain.low, gain.n)
