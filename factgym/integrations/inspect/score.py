"""The scorer: the environment's own score of the episode in a sample's store, component by component."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState
from inspect_ai.util import Store

from factgym.agents.resolve import scripted_agents
from factgym.integrations.inspect.play import PLAYED
from factgym.integrations.session import Session

REWARD = "reward"
"""The metric that is the environment's own total."""


def metric_names(session: Session) -> list[str]:
    """The reward and every metric of an episode, whether the policy does nothing or all that is right.

    Inspect wants them before the first episode. Plays the first task; a metric that an episode lacks is not in its mean.
    """
    session.start(0)
    session.close()
    found = dict.fromkeys([REWARD, *session.metrics()])
    oracle = next((one for one in scripted_agents(session.env.env_spec.id).values() if one.role == "oracle"), None)
    if oracle is not None:
        session.start(0)
        policy = oracle.start(session.env, 0)
        while not session.done:
            action: Any = policy.act(session.messages, session.tools())
            session.say(action)
        found.update(dict.fromkeys(session.metrics()))
    return list(found)


@scorer(metrics=[{"*": [mean(), stderr()]}])
def episode_reward(names: list[str] | None = None) -> Scorer:
    """The environment's own score of the episode that the solver played: its total, components and numeric metrics.

    names: of the metrics, so that every score has all of them; those of the episode by default. Reads the store alone,
    so that `inspect score LOG --scorer factgym/episode_reward` scores an old log.
    """

    async def score(state: TaskState, target: Target) -> Score:
        return score_of(state.store, names)

    return score


def score_of(store: Store, names: Sequence[str] | None = None) -> Score:
    """The score of the episode in a store; unscored where the environment gave none, or where there is no episode."""
    kept = {name: store.get(PLAYED + name) for name in ("report", "metrics", "answer", "stop", "turn_rewards")}
    report, answer = kept["report"], kept["answer"]
    if report is None or report["total"] is None:
        why = "the episode was not played by factgym's solver" if report is None else report["error"]
        return Score.unscored(reason="scoring_failed", answer=answer, explanation=why)
    values, stop = {REWARD: report["total"], **kept["metrics"]}, kept["stop"]
    return Score(
        value={name: float(values.get(name, math.nan)) for name in names or values},
        answer=answer,
        explanation=f"stop: {stop}",
        metadata={"stop": stop, "turn_rewards": kept["turn_rewards"], "report": report},
    )
