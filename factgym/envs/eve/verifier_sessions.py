"""The episodes that a proposer's searching solver plays: `eve-solver` over the proposer's corpus, one question each."""

from __future__ import annotations

from typing import Any

from factgym.core.registry import make
from factgym.core.tasks import SharedByArguments
from factgym.corpora.corpus import Corpus
from factgym.datasets.multihop import Triple
from factgym.envs.eve.library import open_library
from factgym.envs.eve.solver import EveSolverEnv

SOLVER_ENV = "eve-solver"


class SolverRooms(SharedByArguments):
    """Makes environments whose one task is a proposal's question.

    corpus: what is searched. settings: of `eve-solver`, such as index, top_k and max_turns. Thread-safe.
    """

    def __init__(self, corpus: Corpus, settings: dict[str, Any]) -> None:
        self.corpus = corpus
        self._settings = settings

    @property
    def setting(self) -> Any:
        """What the answers of searching depend on besides the question, as data that JSON can name."""
        return [self.corpus.fingerprint(), self._settings]

    def open(self) -> None:
        """Build the index, where that has not been done, in the caller's thread."""
        open_library(self.corpus, self._settings["index"], self._settings["index_options"])

    def enter(self, question: str, answer: str) -> EveSolverEnv:
        """An environment at the beginning of the episode about a question."""
        triple = Triple("proposal", question, (answer,))
        env = make(SOLVER_ENV, triples=(triple,), corpus=self.corpus, **self._settings)
        assert isinstance(env, EveSolverEnv)
        env.reset(options={"task": 0})
        return env
