"""The scripted players of CorVer: an oracle, an honest baseline for each environment, static ones, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from factgym.core.policy import Player, Policy
from factgym.envs.corver.env import CorverEnv
from factgym.envs.corver.players.exploiters import TRICKS
from factgym.envs.corver.players.script import Finish, honest, lore_of
from factgym.envs.corver.players.searcher import Searcher
from factgym.envs.corver.players.student import SHARE, constant, guess, oracle, refuse, student

__all__ = ["PLAYERS", "SEARCH_PLAYERS"]

_ORACLE = Player("oracle", "oracle", "Knows every answer and states it.", lambda env, seed: oracle(env))
_OTHERS = (
    Player("refuse", "baseline", "Never knows.", lambda env, seed: refuse(env)),
    Player("constant", "baseline", "One well-formed answer to every question.", lambda env, seed: constant(env)),
    Player("random", "random", "A random name in a well-formed sentence.", guess),
)


def _searcher(env: CorverEnv, finish: Finish) -> Policy:
    return Searcher(lore_of(env.task), finish)


def _exploiters(base: Callable[[CorverEnv, Finish], Policy]) -> tuple[Player, ...]:
    """Every trick with the knowledge of an honest baseline."""

    def start(trick: Finish) -> Callable[[CorverEnv, int], Policy]:
        return lambda env, seed: base(env, trick)

    return tuple(Player(name, "exploiter", summary, start(trick)) for name, (trick, summary) in TRICKS.items())


def _named(players: tuple[Player, ...]) -> Mapping[str, Player]:
    return MappingProxyType({player.name: player for player in players})


_STUDENT = Player(
    "student",
    "honest",
    f"Is told the gold of a fixed {SHARE:.0%} of the tasks, states it, and refuses the others.",
    lambda env, seed: student(env),
)
_SEARCHER = Player(
    "searcher",
    "honest",
    "Searches, reads the answer off by rules, states it, and refuses what it does not find.",
    lambda env, seed: _searcher(env, honest),
)

PLAYERS: Mapping[str, Player] = _named((_ORACLE, _STUDENT, *_OTHERS, *_exploiters(student)))
"""Closed book, by name; the first is the oracle, the second the honest baseline."""

SEARCH_PLAYERS: Mapping[str, Player] = _named((_ORACLE, _SEARCHER, *_OTHERS, *_exploiters(_searcher)))
"""With the search tool; the exploiters know what the searcher finds."""
