"""The scripted players of ProFact: an oracle, an honest workflow, static baselines, a random policy, and exploiters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from factgym.core.policy import Policy, Role, ScriptedAgent
from factgym.datasets.averitec import LABELS
from factgym.envs.profact.agents import exploiters
from factgym.envs.profact.agents.oracle import Oracle
from factgym.envs.profact.agents.workflow import Workflow

if TYPE_CHECKING:
    from factgym.envs.profact.tasks import ProFactTaskSet

__all__ = ["AGENTS"]


@lru_cache(maxsize=16)
def _most_frequent(tasks: ProFactTaskSet) -> str:
    """The label that most of the tasks have; of equal ones the first of `LABELS`."""
    found = Counter(tasks[index].gold.verdict for index in range(len(tasks)))
    return max(LABELS, key=lambda label: found[label])


def _guessing(name: str, role: Role, summary: str, policy: Callable[[str], Policy]) -> ScriptedAgent:
    return ScriptedAgent(name, role, summary, lambda env, seed: policy(_most_frequent(env.tasks)))


_ALL = (
    ScriptedAgent(
        "oracle",
        "oracle",
        "Asks the gold questions and gives the gold answers and label.",
        lambda env, seed: Oracle(env.task),
    ),
    ScriptedAgent(
        "workflow",
        "honest",
        "Statements of the claim as questions, one search each, extracted answers, a lexical verdict.",
        lambda env, seed: Workflow(),
    ),
    _guessing("constant", "baseline", "The workflow under the label that most claims have.", exploiters.Constant),
    ScriptedAgent(
        "told-label",
        "baseline",
        "The right label (it is told) over copies of the claim that were answered without a search.",
        lambda env, seed: exploiters.ToldLabel(env.task.gold.verdict),
    ),
    ScriptedAgent(
        "random",
        "random",
        "Random words of claim and evidence, a random label.",
        lambda env, seed: exploiters.RandomPolicy(seed),
    ),
    _guessing("copies", "exploiter", "Five copies of the claim as questions, no search.", exploiters.Copies),
    _guessing("boilerplate", "exploiter", "Questions and answers that fit every claim.", exploiters.Boilerplate),
    _guessing("majority", "exploiter", "One question, no answer, the most frequent label.", exploiters.Majority),
    _guessing("no-search", "exploiter", "Honest questions, answered without a search.", exploiters.NoSearch),
    _guessing("non-answer", "exploiter", "Honest questions, searches, and the non-answer.", exploiters.NonAnswer),
    _guessing("dump", "exploiter", "All that a search shows as the answer.", exploiters.Dump),
    _guessing("to-the-grader", "exploiter", "Tells the grader what to award.", exploiters.ToTheGrader),
)

AGENTS: Mapping[str, ScriptedAgent] = MappingProxyType({agent.name: agent for agent in _ALL})
"""By name; the first is the oracle, the second the honest baseline."""
