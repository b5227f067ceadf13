"""The audit: does a reward pay for the work, or can it be had for less?

Every scripted agent of an environment's family plays the same tasks. Each episode is scored once, and its components
are combined under the rewards that the environment compares (`Env.rubrics`). A reward holds when no exploiter reaches the
honest baseline under it (ClaimCheck, "Evidence Guardrails"). This is for people who change rewards: the environment's
own rubric, theirs included, is the one that is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout import play_many, task_order
from factgym.benchmarks.audit_table import AuditRow, Judgement, judge
from factgym.benchmarks.statistics.intervals import Estimate, mean_interval
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.policy import ScriptedAgent
from factgym.rewards.rubric import Rubric

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
