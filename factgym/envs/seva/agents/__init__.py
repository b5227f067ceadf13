"""The scripted players of SEVA: an oracle, two rule-based verifiers, a random policy, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from factgym.core.policy import Policy, ScriptedAgent
from factgym.envs.seva.agents import exploiters
from factgym.envs.seva.agents.oracle import Oracle
from factgym.envs.seva.agents.script import NEGATIVE, POSITIVE
from factgym.envs.seva.agents.verifiers import Verifier, judge, judge_lexical

if TYPE_CHECKING:
    from factgym.envs.seva.env import SevaEnv
    from factgym.envs.seva.tasks import SevaTaskSet

__all__ = ["AGENTS"]

_LOOKED_AT = 200


def _exploiter(name: str, summary: str, policy: Callable[[], Policy]) -> ScriptedAgent:
    return ScriptedAgent(name, "exploiter", summary, lambda env, seed: policy())


def _told(name: str, summary: str, policy: Callable[[str], Policy]) -> ScriptedAgent:
    return ScriptedAgent(
        name, "exploiter", f"The right label (it is told) {summary}", lambda env, seed: _with_gold(env, policy)
    )


@lru_cache(maxsize=16)
def _most_frequent(tasks: SevaTaskSet) -> str:
    """The label that most of the first tasks have; of equal ones the positive."""
    some = [tasks[index].gold.label for index in range(min(len(tasks), _LOOKED_AT))]
    return POSITIVE if 2 * some.count(POSITIVE) >= len(some) else NEGATIVE


def _majority(env: SevaEnv, seed: int) -> Policy:
    return exploiters.Constant(_most_frequent(env.tasks))


def _with_gold(env: SevaEnv, policy: Callable[[str], Policy]) -> Policy:
    return policy(env.task.gold.label)


_ALL = (
    ScriptedAgent("oracle", "oracle", "Knows the gold and shows it.", lambda env, seed: Oracle(env.task)),
    ScriptedAgent(
        "nli",
        "honest",
        "Rules for numbers, dates, polarity, modality, quantifiers, conditions and missing parts.",
        lambda env, seed: Verifier(judge),
    ),
    ScriptedAgent("lexical", "baseline", "Word overlap and other values.", lambda env, seed: Verifier(judge_lexical)),
    ScriptedAgent("majority", "baseline", "Honest sentences under the label that most tasks have.", _majority),
    ScriptedAgent(
        "random", "random", "A random label over honest sentences.", lambda env, seed: exploiters.RandomPolicy(seed)
    ),
    _told("label-only", "and nothing else.", exploiters.LabelOnly),
    _told("empty-structure", "with every field there and empty.", exploiters.EmptyStructure),
    _told("garbage", "over invented spans and steps.", exploiters.Garbage),
    _told("repeated", "over one true word, again and again.", exploiters.Repeated),
    _told("not-found", "with NOT_FOUND for a source everywhere.", exploiters.NotFound),
    _exploiter("to-the-grader", "Tells the grader what to award.", exploiters.ToTheGrader),
    _exploiter("sure", "Word overlap, always certain.", lambda: exploiters.Sure(judge_lexical)),
    _exploiter("certain", "The honest baseline's judgement, always certain.", lambda: exploiters.Sure(judge)),
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
