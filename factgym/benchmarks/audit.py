"""The audit: does a reward pay for the work, or can it be had for less?

Every scripted agent of an environment's family plays the same tasks. Each episode is scored once, and its components
are combined under the rewards that the environment compares (`Env.rubrics`). A reward holds when no exploiter reaches the
honest baseline under it, and the baseline stays under the oracle (ClaimCheck, "Evidence Guardrails"). Judging is on means;
whether the intervals are apart is printed beside it. The environment's own rubric, a user's included, is the one that is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout import play_many, task_order
from factgym.benchmarks.formats import decimal, interval, label, percent, printable
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_interval
from factgym.benchmarks.terminal import add, number_columns, plain_table
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.policy import Role, ScriptedAgent
from factgym.rewards.rubric import Rubric

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

_ROLES: tuple[Role, ...] = ("oracle", "honest", "baseline", "random", "exploiter")
_HEADS = {"oracle": "oracle", "honest": "honest baseline", "baseline": "other baselines", "random": "random"}
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
"""The component that says whether the evidence was shown, of whichever family has one."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What one agent earned. rewards: reward name -> mean total under it. components: name -> mean.

    summary: a sentence for people. n: scored episodes; errors: episodes lost to faults of the infrastructure.
    """

    agent: str
    role: Role
    rewards: Mapping[str, Estimate]
    components: Mapping[str, Estimate] = field(default_factory=dict)
    n: int = 0
    errors: int = 0
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a reward holds.

    bar: the lowest mean of an honest baseline, `baseline` its agent. strongest: the exploiter that earns most.
    margin: bar minus its mean. apart: whether their 95 % intervals do not touch. breaches: one sentence for each
    reason that the reward does not hold, empty when it does.
    """

    reward: str
    baseline: str
    bar: float
    strongest: str
    margin: float
    apart: bool
    breaches: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """No exploiter reached the honest baseline, and no baseline the oracle."""
        return not self.breaches


def judge(rows: Sequence[AuditRow], reward: str) -> Judgement:
    """Judge one reward. Raises ConfigError when a row lacks it, or without an honest and an exploiting agent."""
    honest = min(_of(rows, "honest", reward), key=lambda row: _mean(row, reward))
    strongest = max(_of(rows, "exploiter", reward), key=lambda row: _mean(row, reward))
    bar, best = _mean(honest, reward), _mean(strongest, reward)
    breaches = [
        f"{row.agent} reaches the honest baseline under {reward}: {decimal(_mean(row, reward))} against {decimal(bar)}"
        for row in _of(rows, "exploiter", reward)
        if _mean(row, reward) >= bar
    ]
    breaches += [
        f"{honest.agent} reaches the oracle {row.agent} under {reward}: {decimal(bar)} against "
        f"{decimal(_mean(row, reward))}"
        for row in rows
        if row.role == "oracle" and _mean(row, reward) <= bar
    ]
    low, high = honest.rewards[reward].low, strongest.rewards[reward].high
    apart = low is not None and high is not None and high < low
    return Judgement(reward, honest.agent, bar, strongest.agent, bar - best, apart, tuple(breaches))


def ungrounded(rows: Sequence[AuditRow], reward: str) -> AuditRow | None:
    """The exploiter that earns most under `reward` with less than half of the honest baseline's coverage, or None.

    What it earns is what the reward pays for a verdict without its evidence: the paper's hole.
    """
    honest = min(_of(rows, "honest", reward), key=lambda row: _mean(row, reward))
    name = _evidence(honest)
    bar = honest.components.get(name, NO_DATA).value if name is not None else None
    if name is None or bar is None:
        return None
    loose = [row for row in _of(rows, "exploiter", reward) if (row.components[name].value or 0.0) < bar / 2]
    return max(loose, key=lambda row: _mean(row, reward), default=None)


def _evidence(row: AuditRow) -> str | None:
    """The component of `_EVIDENCE` that the agent's family has, None where its rewards ask for no evidence."""
    return next((name for name in _EVIDENCE if name in row.components), None)


def _of(rows: Sequence[AuditRow], role: Role, reward: str) -> list[AuditRow]:
    found = [row for row in rows if row.role == role and _mean(row, reward) is not None]
    if not found:
        raise ConfigError(f"an audit needs at least one agent with the role {role!r} and a scored episode")
    return found


def _mean(row: AuditRow, reward: str) -> float:
    if reward not in row.rewards:
        raise ConfigError(f"{row.agent!r} was not scored under {reward!r}.{did_you_mean(reward, row.rewards)}")
    value = row.rewards[reward].value
    if value is None:
        raise ConfigError(f"{row.agent!r} has no scored episode under {reward!r}: raise -n, or see its errors")
    return value


def render_audit(
    rows: Sequence[AuditRow], judged: str, title: str = "", margins: Mapping[str, Estimate] | None = None
) -> Group:
    """The table, the sentence that passes or fails the reward `judged`, and how the other rewards fare.

    A mean that reaches the honest baseline under the same reward is marked `*`. margins: exploiter -> what it stays
    below the baseline under `judged`, paired by task, which is said instead of whether the two intervals overlap.
    Raises ConfigError as `judge` does.
    """
    from rich.console import Group
    from rich.text import Text

    names = list(dict.fromkeys(name for row in rows for name in row.rewards))
    verdicts = {name: judge(rows, name) for name in [judged, *(one for one in names if one != judged)]}
    others = [verdicts[name] for name in names if name != judged]
    key = Text("\n± half the 95 % interval   * an exploiter at or above the honest baseline\n", "dim")
    verdict = _verdict(verdicts[judged], others, (margins or {}).get(verdicts[judged].strongest))
    for name in names if any(_evidence(row) for row in rows) else ():
        add(verdict, "", Text(_hole(rows, verdicts[name]), "dim"))
    return Group(_table(rows, verdicts, names, title), key, verdict)


def _table(rows: Sequence[AuditRow], verdicts: Mapping[str, Judgement], names: Sequence[str], title: str) -> Table:
    from rich.text import Text

    table = plain_table(printable(title, 76))
    table.add_column("agent", overflow="fold", min_width=18)
    number_columns(table, *(printable(name, 12) for name in names))
    shown = [name for name in _COLUMNS if any(name in row.components for row in rows)]
    number_columns(table, *(_COLUMNS[name] for name in shown))
    for role in _ROLES:
        group = [row for row in rows if row.role == role]
        if group:
            add(table, Text(_HEADS.get(role, "exploiters"), "dim italic"))
        for row in sorted(group, key=lambda one: -(one.rewards[names[-1]].value or 0.0)):
            parts = [decimal(row.components.get(name, NO_DATA).value, 2) for name in shown]
            cells = [_reward_cell(row, name, verdicts[name]) for name in names]
            add(table, f" {printable(row.agent, 40)}", *cells, *parts)
    return table


def _reward_cell(row: AuditRow, name: str, verdict: Judgement) -> Text:
    from rich.text import Text

    found = row.rewards[name]
    reaches = row.role == "exploiter" and found.value is not None and found.value >= verdict.bar
    text = Text(decimal(found.value), "bold red" if reaches else "")
    margin = found.half_width
    if margin is not None:
        text.append(f"±{decimal(margin, 2).removeprefix('0')}", "dim")
    text.append("*" if reaches else " ", "bold red")
    return text


def _verdict(verdict: Judgement, others: Sequence[Judgement], margin: Estimate | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid(padding=(0, 2, 0, 0))
    if verdict.passed:
        state = Text("PASS", "bold green")
        said = (
            f"{verdict.reward}: no exploiter reaches {verdict.baseline} ({decimal(verdict.bar)}); the strongest, "
            f"{verdict.strongest}, stays {decimal(verdict.margin)} below{_certainty(verdict, margin)}."
        )
    else:
        state = Text("FAIL", "bold red")
        said = f"{verdict.reward}: {'; '.join(verdict.breaches)}."
    add(lines, state, said)
    for other in others:
        add(lines, "", Text(_compare(other), "dim"))
    return lines


def _certainty(verdict: Judgement, margin: Estimate | None) -> str:
    if margin is not None and margin.low is not None:
        doubt = "" if margin.low > 0 else ", which may be chance: raise -n"
        return f" {interval(margin)} by task{doubt}"
    return "" if verdict.apart else ", but their 95 % intervals overlap: raise -n"


def _hole(rows: Sequence[AuditRow], verdict: Judgement) -> str:
    loose = ungrounded(rows, verdict.reward)
    if loose is None:
        return f"{label(verdict.reward)}: no exploiter goes without evidence, so its hole cannot be seen."
    shown = _evidence(loose) or ""
    pays, covers = _mean(loose, verdict.reward), loose.components[shown].value
    share = percent(pays / verdict.bar, 0) if verdict.bar > 0 else "all"
    return (
        f"{label(verdict.reward)} pays {decimal(pays)} for a verdict with hardly any evidence ({loose.agent}, "
        f"{shown.replace('_', ' ')} {decimal(covers, 2)}): {share} of the honest baseline."
    )


def _compare(other: Judgement) -> str:
    best = other.bar - other.margin
    share = percent(best / other.bar, 0) if other.bar > 0 else "as much as"
    ends = "the hole is open" if other.margin <= 0 else "no exploiter reaches it"
    return f"{label(other.reward)}: {other.strongest} earns {decimal(best)}, {share} of the honest baseline; {ends}."


OnEpisode = Callable[[str, int], None]
"""Called with the agent's name and the number of episodes that it has played."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What every agent earned on the same `n` tasks of `env`, in the order of its players.

    rubrics: reward name -> rubric. judged: the name of the environment's own. margins: exploiter -> honest baseline
    minus exploiter under `judged`, paired by task, with the interval of the mean difference.
    """

    env: str
    split: str
    n: int
    seed: int
    judged: str
    rows: tuple[AuditRow, ...]
    rubrics: Mapping[str, Rubric]
    margins: Mapping[str, Estimate] = field(default_factory=dict)

    def judgement(self, reward: str | None = None) -> Judgement:
        """How a reward fares, by default the environment's own."""
        return judge(self.rows, reward or self.judged)

    @property
    def passed(self) -> bool:
        """Whether the environment's own reward holds."""
        return self.judgement().passed

    @property
    def title(self) -> str:
        """A heading for the table."""
        return f"{self.env} ({self.split}): {self.n} tasks, seed {self.seed}"


def rubrics_of(env: Env[Any]) -> tuple[dict[str, Rubric], str]:
    """The rewards to audit, by name, and the name of the environment's own.

    A rubric of the user's that goes by the name of one of ours is listed as `NAME (own)`. Raises ConfigError for an
    environment whose reward is not a rubric.
    """
    found, judged = env.rubrics()
    if not found:
        raise ConfigError(f"{env.env_spec.id!r} has no rubrics to audit")
    return dict(found), judged


def run_audit(
    env: Env[Any],
    n: int = 200,
    seed: int = 0,
    agents: Mapping[str, ScriptedAgent] | None = None,
    on_episode: OnEpisode | None = None,
) -> Audit:
    """Let each agent play the same `n` tasks (all of a smaller split), and compare what they earn.

    players: default those of the environment's family; pass more to audit agents of your own. Raises ConfigError for
    n < 2, or when there is no agent in one of the roles that are compared.
    """
    if n < 2:
        raise ConfigError(f"an audit needs at least 2 tasks, not {n}")
    rubrics, judged = rubrics_of(env)
    order = task_order(len(env.tasks), n, seed)
    played: dict[str, dict[str, list[float]]] = {}
    rows = []
    for agent in (scripted_agents(env.env_spec.id) if agents is None else agents).values():
        scores = _play(env, agent, order, seed, on_episode)
        played[agent.name] = totals = {
            name: [_total(rubric, one) for one in scores] for name, rubric in rubrics.items()
        }
        rows.append(_row(agent, scores, totals, len(order)))
    split = str(getattr(env.config, "chosen_split", ""))
    found = Audit(env.env_spec.id, split, len(order), seed, judged, tuple(rows), rubrics)
    margins = _margins(rows, {name: totals[judged] for name, totals in played.items()}, found.judgement().baseline)
    return Audit(found.env, split, found.n, seed, judged, found.rows, rubrics, margins)


_Score = Mapping[str, Mapping[str, float]]


def _play(
    env: Env[Any], agent: ScriptedAgent, order: Sequence[int], seed: int, on_episode: OnEpisode | None
) -> list[_Score]:
    """Components and gates of each scored episode, in order; one that a fault ended is left out."""
    scores: list[_Score] = []
    for number, episode in enumerate(play_many(env, agent, order, seed), 1):
        report = episode["reward"]
        if report is not None and report["status"] == "scored":
            scores.append({"components": report["components"], "gates": report["metrics"]["gates"]})
        if on_episode is not None:
            on_episode(agent.name, number)
    return scores


def _total(rubric: Rubric, score: _Score) -> float:
    return rubric.total(score["components"], score["gates"])


def _row(
    agent: ScriptedAgent, scores: Sequence[_Score], totals: Mapping[str, Sequence[float]], planned: int
) -> AuditRow:
    names = list(scores[0]["components"]) if scores else []
    return AuditRow(
        agent=agent.name,
        role=agent.role,
        rewards={name: mean_interval(values) for name, values in totals.items()},
        components={name: mean_interval([one["components"][name] for one in scores]) for name in names},
        n=len(scores),
        errors=planned - len(scores),
        summary=agent.summary,
    )


def _margins(rows: Sequence[AuditRow], earned: Mapping[str, Sequence[float]], honest: str) -> dict[str, Estimate]:
    """Paired by task; agents that lost episodes to faults cannot be paired and are left out."""
    bar = earned[honest]
    return {
        row.agent: mean_interval([mine - theirs for mine, theirs in zip(bar, earned[row.agent], strict=True)])
        for row in rows
        if row.role == "exploiter" and len(earned[row.agent]) == len(bar)
    }
