"""The scripted agents of SEVA: an oracle, two rule-based verifiers, a random policy, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from factgym.core.policy import Role, ScriptedAgent
from factgym.envs.seva.agents import exploiters
from factgym.envs.seva.agents.baselines import (
    gold_verdict,
    judge_honestly,
    judge_lexically,
    random_judgement,
    verify,
)
from factgym.envs.seva.agents.scripted import NEGATIVE, POSITIVE, EpisodeBrief, ScriptedPolicy, Verdict

if TYPE_CHECKING:
    from factgym.envs.seva.env import SevaEnv
    from factgym.envs.seva.tasks import SevaTaskSet

__all__ = ["AGENTS"]

_MAJORITY_SAMPLE = 200
_Verdict = Callable[[EpisodeBrief], Verdict]


def _agent(name: str, role: Role, summary: str, verdict: Callable[[SevaEnv, int], _Verdict]) -> ScriptedAgent:
    return ScriptedAgent(name, role, summary, lambda env, seed: ScriptedPolicy(verdict(env, seed)))


def _exploiter(name: str, summary: str, verdict: _Verdict) -> ScriptedAgent:
    return _agent(name, "exploiter", summary, lambda env, seed: verdict)


def _given_label(name: str, summary: str, verdict: Callable[..., Verdict]) -> ScriptedAgent:
    def verdict_of(env: SevaEnv, seed: int) -> _Verdict:
        return partial(verdict, label=env.task.gold.label)

    return _agent(name, "exploiter", f"The right label (it is told) {summary}", verdict_of)


def _constant(label: str) -> _Verdict:
    return partial(verify, judge=judge_honestly, revise=partial(exploiters.constant, label=label))


@lru_cache(maxsize=16)
def _majority_label(tasks: SevaTaskSet) -> str:
    """Return the most frequent label of the first tasks; of equal ones the positive."""
    labels = [tasks[index].gold.label for index in range(min(len(tasks), _MAJORITY_SAMPLE))]
    return POSITIVE if 2 * labels.count(POSITIVE) >= len(labels) else NEGATIVE


def _random(env: SevaEnv, seed: int) -> _Verdict:
    return partial(verify, judge=judge_lexically, revise=partial(random_judgement, seed=seed))


_NLI = "Rules for numbers, dates, polarity, modality, quantifiers, conditions and missing parts."
_honest = partial(verify, judge=judge_honestly)
_lexical = partial(verify, judge=judge_lexically)

_ALL = (
    _agent("oracle", "oracle", "Knows the gold and shows it.", lambda env, seed: partial(gold_verdict, task=env.task)),
    _agent("nli", "honest", _NLI, lambda env, seed: _honest),
    _agent("lexical", "baseline", "Word overlap and other values.", lambda env, seed: _lexical),
    _agent(
        "majority",
        "baseline",
        "Honest sentences under the label that most tasks have.",
        lambda env, seed: _constant(_majority_label(env.tasks)),
    ),
    _agent("random", "random", "A random label over honest sentences.", _random),
    _given_label("label-only", "and nothing else.", exploiters.label_only),
    _given_label("empty-structure", "with every field there and empty.", exploiters.empty_structure),
    _given_label("garbage", "over invented spans and steps.", exploiters.garbage),
    _given_label("repeated", "over one true word, again and again.", exploiters.repeated),
    _given_label("not-found", "with NOT_FOUND for a source everywhere.", exploiters.not_found),
    _exploiter("to-the-grader", "Tells the grader what to award.", exploiters.to_the_grader),
    _exploiter("sure", "Word overlap, always certain.", partial(_lexical, revise=exploiters.certain)),
    _exploiter(
        "certain", "The honest baseline's judgement, always certain.", partial(_honest, revise=exploiters.certain)
    ),
    _exploiter("always-attributable", "Honest sentences under a constant label: Attributable.", _constant(POSITIVE)),
    _exploiter(
        "always-not",
        "Honest sentences under a constant label, Not Attributable, with an error named every time.",
        _constant(NEGATIVE),
    ),
)

AGENTS: Mapping[str, ScriptedAgent] = MappingProxyType({agent.name: agent for agent in _ALL})
"""By name; the first is the oracle, the second the honest baseline."""
