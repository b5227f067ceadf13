"""The audit: whether exploiters reach the honest baseline under a reward (ClaimCheck, "Evidence Guardrails").

Every scripted agent of an environment's family plays the same tasks. Each episode is scored once, and its components are
combined under the rewards that the environment compares (`Env.rubrics`); its own, a user's included, is judged. A reward
passes when the distance of each exploiter to the honest baseline, paired by task, has an interval above 0, and the
baseline stays under the oracle. Where there are too few tasks to show it, it fails and says how many are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from factgym.agents.agent import Agent
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import play_jobs, play_many
from factgym.agents.rollout.jobs import Job, task_order
from factgym.agents.rollout.record import Record
from factgym.benchmarks.formats import decimal, interval, label, percent, printable
from factgym.benchmarks.report import Cell, Styled, Table, make_table
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_interval, natural_bounds, paired_interval
from factgym.benchmarks.terminal import render_table
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.policy import Role, ScriptedAgent
from factgym.rewards.rubric import Rubric

if TYPE_CHECKING:
    from rich.console import Group

_HEADS: Mapping[Role, str] = {
    "oracle": "oracle",
    "teacher": "teacher",
    "honest": "honest baseline",
    "baseline": "other baselines",
    "random": "random",
    "exploiter": "exploiters",
}
_COLUMNS = {
    "verdict": "verd",
    "evidence": "evid",
    "quote": "quot",
    "coverage": "cove",
    "label": "labl",
    "grounded_alignment": "algn",
    "grounded_chain": "chn",
    "question": "ques",
    "qa": "qa",
    "grounded_qa": "grnd",
    "judge_boundary": "judg",
    "format_strict": "form",
    "cooccurrence_strict": "cooc",
}
_EVIDENCE = ("coverage", "grounded_alignment", "grounded_qa")
"""Components that measure whether the evidence was found; a family has at most one of them."""


MIN_TASKS = 6
"""Tasks below which no difference is shown: six that all agree are the fewest that a sign test finds unlikely (p < 0.05)."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Rewards and components of one agent. rewards: reward name -> mean total under it. components: name -> mean.

    summary: a sentence for people. n: scored episodes; errors: episodes lost to faults of the infrastructure, of which
    `fault` is the first. margins: reward name -> honest baseline minus agent, paired by task; of exploiters without such
    errors.
    """

    agent: str
    role: Role
    rewards: Mapping[str, Estimate]
    components: Mapping[str, Estimate] = field(default_factory=dict)
    n: int = 0
    errors: int = 0
    fault: str = ""
    summary: str = ""
    margins: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of one reward.

    bar: the lowest mean of an honest baseline, `baseline` its agent. strongest: the exploiter that earns most. margin:
    bar minus its mean, paired by task where both played the same. breaches: one sentence for each reason that the reward
    fails. undecided: one for each exploiter that is below the baseline, but not shown to be. needed: tasks that would
    show it for all of them.
    """

    reward: str
    baseline: str
    bar: float
    strongest: str
    margin: Estimate
    breaches: tuple[str, ...]
    undecided: tuple[str, ...] = ()
    needed: int | None = None

    @property
    def passed(self) -> bool:
        """Every exploiter is shown to stay below the honest baseline, and the baseline stays below the oracle."""
        return not self.breaches and not self.undecided


def judge(rows: Sequence[AuditRow], reward: str) -> Judgement:
    """Judge one reward. Raises ConfigError when a row lacks it, or without an honest and an exploiting agent."""
    honest, exploiters = _honest(rows, reward), _of(rows, "exploiter")
    strongest = max(exploiters, key=lambda row: _mean(row, reward))
    bar = _mean(honest, reward)
    pairs = [(row, honest, "honest baseline") for row in exploiters if _mean(row, reward) >= bar]
    pairs += [
        (honest, row, f"oracle {row.agent}") for row in rows if row.role == "oracle" and _mean(row, reward) <= bar
    ]
    breaches = tuple(
        f"{row.agent} reaches the {limit} under {reward}: {decimal(_mean(row, reward))} against "
        f"{decimal(_mean(other, reward))}"
        for row, other, limit in pairs
    )
    below = {row.agent: _margin(row, honest, reward) for row in exploiters if _mean(row, reward) < bar}
    close = {agent: margin for agent, margin in below.items() if not shown_above(margin)}
    return Judgement(
        reward,
        honest.agent,
        bar,
        strongest.agent,
        _margin(strongest, honest, reward),
        breaches,
        tuple(
            f"{agent} is {decimal(margin.value)} below, and {_doubt(margin)}"
            for agent, margin in sorted(close.items(), key=lambda item: item[1].value or 0.0)
        ),
        max((needed_tasks(margin) for margin in close.values()), default=None),
    )


def shown_above(margin: Estimate) -> bool:
    """Whether a margin is shown to be above 0: by its interval, and over enough tasks."""
    return margin.low is not None and margin.low > 0 and margin.n >= MIN_TASKS


def needed_tasks(difference: Estimate) -> int:
    """Return about how many tasks show that a difference is not 0, to two digits, if it is as large as it seems."""
    if not difference.value or difference.half_width is None:
        return MIN_TASKS
    # The half-width falls with the root of n; a tenth more, as the spread is an estimate too.
    n = max(MIN_TASKS, 1.1 * difference.n * (difference.half_width / difference.value) ** 2)
    digit: int = 10 ** max(0, math.floor(math.log10(n)) - 1)
    return math.ceil(n / digit) * digit


def _doubt(margin: Estimate) -> str:
    if margin.n < MIN_TASKS:
        return f"{margin.n} tasks are too few to show it"
    return f"its interval {interval(margin)} includes 0"


def _margin(row: AuditRow, honest: AuditRow, reward: str) -> Estimate:
    """Return the distance below the baseline: paired, or of two independent samples where there are no pairs."""
    if reward in row.margins:
        return row.margins[reward]
    ours, bar = row.rewards[reward], honest.rewards[reward]
    value, n = _mean(honest, reward) - _mean(row, reward), min(ours.n, bar.n)
    if ours.half_width is None or bar.half_width is None:
        return Estimate(value, None, None, n)
    reach = math.hypot(ours.half_width, bar.half_width)
    return Estimate(value, value - reach, value + reach, n)


def ungrounded(rows: Sequence[AuditRow], reward: str) -> AuditRow | None:
    """Return the exploiter that earns most under `reward` with less than half of the honest baseline's coverage, or None.

    Its reward is the price of a verdict without evidence: the paper's hole.
    """
    honest = _honest(rows, reward)
    name = _evidence(honest)
    bar = None if name is None else honest.components[name].value
    if name is None or bar is None:
        return None
    exploiters = [row for row in _of(rows, "exploiter") if (row.components[name].value or 0.0) < bar / 2]
    return max(exploiters, key=lambda row: _mean(row, reward), default=None)


def _evidence(row: AuditRow) -> str | None:
    """Return the component of `_EVIDENCE` that the agent's family has, None where its rewards ask for no evidence."""
    return next((name for name in _EVIDENCE if name in row.components), None)


def _of(rows: Sequence[AuditRow], role: Role) -> list[AuditRow]:
    if not (matches := [row for row in rows if row.role == role]):
        raise ConfigError(f"an audit needs at least one agent with the role {role!r} and a scored episode")
    return matches


def _honest(rows: Sequence[AuditRow], reward: str) -> AuditRow:
    """Return the weakest honest baseline: with it as the bar, one strong reader cannot hide a hole below another."""
    return min(_of(rows, "honest"), key=lambda row: _mean(row, reward))


def _mean(row: AuditRow, reward: str) -> float:
    if reward not in row.rewards:
        raise ConfigError(f"{row.agent!r} was not scored under {reward!r}.{did_you_mean(reward, row.rewards)}")
    value = row.rewards[reward].value
    if value is None:
        raise ConfigError(f"{row.agent!r} has no scored episode under {reward!r}: {row.fault or 'raise -n'}")
    return value


def render_audit(rows: Sequence[AuditRow], judged: str, title: str = "") -> Group:
    """Return the table, the sentence that passes or fails the reward `judged`, and the judgements of the other rewards.

    A mean that reaches the honest baseline under the same reward is marked `*`. Raises ConfigError as `judge` does.
    """
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    names = list(dict.fromkeys(name for row in rows for name in row.rewards))
    judgements = {name: judge(rows, name) for name in [judged, *(name for name in names if name != judged)]}
    key = Text("\n± half the 95 % interval   * an exploiter at or above the honest baseline\n", "dim")
    verdict, lines = judgements[judged], Grid.grid(padding=(0, 2, 0, 0))
    mark = Text("PASS", "bold green") if verdict.passed else Text("FAIL", "bold red")
    lines.add_row(mark, Text(f"{judged}: {_sentence(verdict)}."))
    for name in (name for name in names if name != judged):
        other = judgements[name]
        margin = other.margin.value or 0.0
        ends = "the hole is open" if margin <= 0 else "no exploiter reaches it"
        best = other.bar - margin
        share = percent(best / other.bar, 0) if other.bar > 0 else "as much as"
        text = f"{label(name)}: {other.strongest} earns {decimal(best)}, {share} of the honest baseline; {ends}."
        lines.add_row("", Text(text, "dim"))
    for name in names if any(_evidence(row) for row in rows) else ():
        text = f"{label(name)}: no exploiter goes without evidence, so its hole cannot be seen."
        if (exploiter := ungrounded(rows, name)) is not None:
            part, reward, bar = _evidence(exploiter) or "", _mean(exploiter, name), judgements[name].bar
            text = (
                f"{label(name)} pays {decimal(reward)} for a verdict with hardly any evidence ({exploiter.agent}, "
                f"{label(part)} {decimal(exploiter.components[part].value, 2)}): "
                f"{percent(reward / bar, 0) if bar > 0 else 'all'} of the honest baseline."
            )
        lines.add_row("", Text(text, "dim"))
    return Group(render_table(_table(rows, judgements, names, title)), key, lines)


def _sentence(verdict: Judgement) -> str:
    """Return why a reward passes, fails, or cannot be judged on so few tasks."""
    if verdict.breaches:
        return "; ".join(verdict.breaches)
    if verdict.undecided:
        more = f" (and {len(verdict.undecided) - 3} more)" if len(verdict.undecided) > 3 else ""
        return (
            f"not shown over {verdict.margin.n} tasks that every exploiter stays below {verdict.baseline} "
            f"({decimal(verdict.bar)}): {'; '.join(verdict.undecided[:3])}{more}. About -n {verdict.needed} would show it"
        )
    return (
        f"no exploiter reaches {verdict.baseline} ({decimal(verdict.bar)}); the strongest, {verdict.strongest}, stays "
        f"{decimal(verdict.margin.value)} below {interval(verdict.margin)} by task"
    )


def _table(rows: Sequence[AuditRow], judgements: Mapping[str, Judgement], names: Sequence[str], title: str) -> Table:
    """Return rewards with half their intervals, then components; a group of rows for each role."""
    components = [name for name in _COLUMNS if any(name in row.components for row in rows)]
    lines: list[Sequence[Cell]] = []
    for role, heading in _HEADS.items():
        group = sorted(
            (row for row in rows if row.role == role), key=lambda row: -(row.rewards[names[-1]].value or 0.0)
        )
        if group:
            lines.append((Styled(heading, "dim italic"), *[""] * (len(names) + len(components))))
        for row in group:
            cells: list[Cell] = [f" {printable(row.agent, 40)}"]
            for name in names:
                reward = row.rewards[name]
                reaches = role == "exploiter" and (reward.value or 0.0) >= judgements[name].bar
                half = "" if reward.half_width is None else f"±{decimal(reward.half_width, 2).removeprefix('0')}"
                text = f"{decimal(reward.value)}{half}{'*' if reaches else ' '}"
                cells.append(Styled(text, "bold red" if reaches else ""))
            cells += [decimal(row.components.get(name, NO_DATA).value, 2) for name in components]
            lines.append(tuple(cells))
    columns = ("agent", *(printable(name, 12) for name in names), *(_COLUMNS[name] for name in components))
    return make_table(printable(title, 76), columns, lines, min_width=18)


@dataclass(frozen=True, slots=True)
class Audit:
    """Rows of all agents on the same `n` tasks of `env`, in the order of the family's agents.

    rubrics: reward name -> rubric. judged: the name of the environment's own.
    """

    env: str
    split: str
    n: int
    seed: int
    judged: str
    rows: tuple[AuditRow, ...]
    rubrics: Mapping[str, Rubric]

    @property
    def margins(self) -> dict[str, Estimate]:
        """Exploiter -> honest baseline minus exploiter under `judged`, paired by task."""
        return {row.agent: row.margins[self.judged] for row in self.rows if self.judged in row.margins}

    def judgement(self, reward: str | None = None) -> Judgement:
        """Return the judgement of a reward, by default the environment's own."""
        return judge(self.rows, reward or self.judged)

    @property
    def passed(self) -> bool:
        """Whether the environment's own reward passes."""
        return self.judgement().passed

    @property
    def title(self) -> str:
        """A heading for the table."""
        split = f" ({self.split})" if self.split else ""
        return f"{self.env}{split}: {self.n} tasks, seed {self.seed}"


def rubrics_of(env: Env[Any]) -> tuple[dict[str, Rubric], str]:
    """Return the rewards to audit, by name, and the name of the environment's own.

    A user's rubric that has the name of a built-in one is listed as `NAME (own)`. Raises ConfigError for an environment
    whose reward is not a rubric.
    """
    rubrics, judged = env.rubrics()
    if not rubrics:
        raise ConfigError(f"{env.env_spec.id!r} has no rubrics to audit")
    return dict(rubrics), judged


def run_audit(
    env: Env[Any],
    n: int = 200,
    seed: int = 0,
    agents: Mapping[str, ScriptedAgent] | None = None,
    on_episode: Callable[[str, int], None] = lambda name, done: None,
    baseline: Agent | None = None,
) -> Audit:
    """Let each agent play the same `n` tasks (all of a smaller split), and compare their rewards.

    Each episode is scored once, and its components and gates are combined under every rubric. agents: by default those of
    the environment's family; pass more to audit your own. on_episode: called with the agent's name and the number of
    episodes that it has played. baseline: an agent that plays as the honest baseline, which the
    scripted one then is not. Raises ConfigError for n < 2, or when there is no agent in one of the roles that are
    compared, and RunAbortedError where the baseline cannot play.
    """
    if n < 2:
        raise ConfigError(f"an audit needs at least 2 tasks, not {n}")
    rubrics, judged = rubrics_of(env)
    order = task_order(len(env.tasks), n, seed)
    totals_by_agent: dict[str, dict[str, list[float]]] = {}
    rows = []
    rivals = list((scripted_agents(env.env_spec.id) if agents is None else agents).values())
    if baseline is not None:
        rivals = [replace(agent, role="baseline") if agent.role == "honest" else agent for agent in rivals]
        rivals.append(ScriptedAgent(f"{baseline.name} (--baseline)", "honest", "", baseline.start))
    for agent in rivals:
        reports, faults = [], []
        episodes: Iterable[Record] = play_many(env, agent, order, seed)
        if baseline is not None and agent.role == "honest":
            jobs = [Job(index, 0, seed) for index in order]
            episodes = play_jobs(env, baseline, jobs, partial(on_episode, agent.name))
        for number, episode in enumerate(episodes, 1):
            report = episode["reward"]
            if report is not None and report["status"] == "scored":
                reports.append((report["components"], report["metrics"]["gates"]))
            else:
                faults.append(printable(str((report or {}).get("error") or "an episode was lost"), 300))
            on_episode(agent.name, number)
        totals = {name: [rubric.total(*report) for report in reports] for name, rubric in rubrics.items()}
        totals_by_agent[agent.name] = totals
        names = list(reports[0][0]) if reports else []
        columns = {name: [components[name] for components, _ in reports] for name in names}
        row = AuditRow(
            agent=agent.name,
            role=agent.role,
            rewards={name: mean_interval(values, natural_bounds(values)) for name, values in totals.items()},
            components={name: mean_interval(values, natural_bounds(values)) for name, values in columns.items()},
            n=len(reports),
            errors=len(faults),
            fault=faults[0] if faults else "",
            summary=agent.summary,
        )
        rows.append(row)
    paired = [replace(row, margins=_margins_by_task(row, rows, totals_by_agent)) for row in rows]
    judge(paired, judged)
    split = str(getattr(env.config, "chosen_split", ""))
    return Audit(env.env_spec.id, split, len(order), seed, judged, tuple(paired), rubrics)


def _margins_by_task(
    row: AuditRow, rows: Sequence[AuditRow], totals: Mapping[str, Mapping[str, Sequence[float]]]
) -> dict[str, Estimate]:
    # Agents that lost episodes to faults cannot be paired by task.
    bars = {reward: _honest(rows, reward) for reward in row.rewards} if row.role == "exploiter" else {}
    return {
        reward: paired_interval(totals[row.agent][reward], totals[bar.agent][reward])
        for reward, bar in bars.items()
        if row.errors == bar.errors == 0
    }
