"""The scripted agents of SEVA: an oracle, two rule-based verifiers, a random policy, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from factgym.core.policy import Policy, ScriptedAgent
from factgym.envs.seva.agents import exploiters
from factgym.envs.seva.agents.baselines import Oracle, RandomPolicy, StaticVerifier, judge_honestly, judge_lexically
from factgym.envs.seva.agents.scripted import NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from factgym.envs.seva.env import SevaEnv
    from factgym.envs.seva.tasks import SevaTaskSet

__all__ = ["AGENTS"]

_MAJORITY_SAMPLE = 200


def _exploiter(name: str, summary: str, policy: Callable[[], Policy]) -> ScriptedAgent:
    return ScriptedAgent(name, "exploiter", summary, lambda env, seed: policy())


def _given_label(name: str, summary: str, policy: Callable[[str], Policy]) -> ScriptedAgent:
    def start(env: SevaEnv, seed: int) -> Policy:
        return policy(env.task.gold.label)

    return ScriptedAgent(name, "exploiter", f"The right label (it is told) {summary}", start)


def _majority(env: SevaEnv, seed: int) -> Policy:
    return exploiters.Constant(_majority_label(env.tasks))


@lru_cache(maxsize=16)
def _majority_label(tasks: SevaTaskSet) -> str:
    """Return the most frequent label of the first tasks; of equal ones the positive."""
    labels = [tasks[index].gold.label for index in range(min(len(tasks), _MAJORITY_SAMPLE))]
    return POSITIVE if 2 * labels.count(POSITIVE) >= len(labels) else NEGATIVE


_ALL = (
    ScriptedAgent("oracle", "oracle", "Knows the gold and shows it.", lambda env, seed: Oracle(env.task)),
    ScriptedAgent(
        "nli",
        "honest",
        "Rules for numbers, dates, polarity, modality, quantifiers, conditions and missing parts.",
        lambda env, seed: StaticVerifier(judge_honestly),
    ),
    ScriptedAgent(
        "lexical", "baseline", "Word overlap and other values.", lambda env, seed: StaticVerifier(judge_lexically)
    ),
    ScriptedAgent("majority", "baseline", "Honest sentences under the label that most tasks have.", _majority),
    ScriptedAgent("random", "random", "A random label over honest sentences.", lambda env, seed: RandomPolicy(seed)),
    _given_label("label-only", "and nothing else.", exploiters.LabelOnly),
    _given_label("empty-structure", "with every field there and empty.", exploiters.EmptyStructure),
    _given_label("garbage", "over invented spans and steps.", exploiters.Garbage),
    _given_label("repeated", "over one true word, again and again.", exploiters.Repeated),
    _given_label("not-found", "with NOT_FOUND for a source everywhere.", exploiters.NotFound),
    _exploiter("to-the-grader", "Tells the grader what to award.", exploiters.ToTheGrader),
    _exploiter("sure", "Word overlap, always certain.", lambda: exploiters.Certain(judge_lexically)),
    _exploiter(
        "certain", "The honest baseline's judgement, always certain.", lambda: exploiters.Certain(judge_honestly)
    ),
    _exploiter(
        "always-attributable",
        "Honest sentences under a constant label: Attributable.",
        lambda: exploiters.Constant(POSITIVE),
    ),
    _exploiter(
        "always-not",
        "Honest sentences under a constant label, Not Attributable, with an error named every time.",
        lambda: exploiters.Constant(NEGATIVE),
    ),
)

AGENTS: Mapping[str, ScriptedAgent] = MappingProxyType({agent.name: agent for agent in _ALL})
"""By name; the first is the oracle, the second the honest baseline."""
