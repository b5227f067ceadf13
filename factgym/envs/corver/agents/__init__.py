"""The scripted players of CorVer: an oracle, an honest baseline for each environment, static ones, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from factgym.core.policy import Policy, ScriptedAgent
from factgym.envs.corver.agents.exploiters import TRICKS
from factgym.envs.corver.agents.script import Finish, honest, lore_of
from factgym.envs.corver.agents.searcher import Searcher
from factgym.envs.corver.agents.student import SHARE, constant, guess, oracle, refuse, student
from factgym.envs.corver.env import CorverEnv

__all__ = ["AGENTS", "SEARCH_AGENTS"]

_ORACLE = ScriptedAgent("oracle", "oracle", "Knows every answer and states it.", lambda env, seed: oracle(env))
_OTHERS = (
    ScriptedAgent("refuse", "baseline", "Never knows.", lambda env, seed: refuse(env)),
    ScriptedAgent(
        "constant", "baseline", "One well-formed answer to every question.", lambda env, seed: constant(env)
    ),
    ScriptedAgent("random", "random", "A random name in a well-formed sentence.", guess),
)


def _searcher(env: CorverEnv, finish: Finish) -> Policy:
    return Searcher(lore_of(env.task), finish)


def _exploiters(base: Callable[[CorverEnv, Finish], Policy]) -> tuple[ScriptedAgent, ...]:
    """Every trick with the knowledge of an honest baseline."""

    def start(trick: Finish) -> Callable[[CorverEnv, int], Policy]:
        return lambda env, seed: base(env, trick)

    return tuple(ScriptedAgent(name, "exploiter", summary, start(trick)) for name, (trick, summary) in TRICKS.items())


def _named(agents: tuple[ScriptedAgent, ...]) -> Mapping[str, ScriptedAgent]:
    return MappingProxyType({agent.name: agent for agent in agents})


_STUDENT = ScriptedAgent(
    "student",
    "honest",
    f"Is told the gold of a fixed {SHARE:.0%} of the tasks, states it, and refuses the others.",
    lambda env, seed: student(env),
)
_SEARCHER = ScriptedAgent(
    "searcher",
    "honest",
    "Searches, reads the answer off by rules, states it, and refuses what it does not find.",
    lambda env, seed: _searcher(env, honest),
)

AGENTS: Mapping[str, ScriptedAgent] = _named((_ORACLE, _STUDENT, *_OTHERS, *_exploiters(student)))
"""Closed book, by name; the first is the oracle, the second the honest baseline."""

SEARCH_AGENTS: Mapping[str, ScriptedAgent] = _named((_ORACLE, _SEARCHER, *_OTHERS, *_exploiters(_searcher)))
"""With the search tool; the exploiters know what the searcher finds."""
