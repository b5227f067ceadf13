"""The verifier of a configuration: policies resolved, opened once a process, and shared by all episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from factgym.core.policy import AuxiliaryPolicy, policy_from
from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus
from factgym.envs.eve.library import identity
from factgym.envs.eve.proposer_config import EveProposerConfig
from factgym.envs.eve.rollouts import close_at_end
from factgym.envs.eve.verifier import Verifier
from factgym.envs.eve.verifier_cache import AnswerCache, AnswerFile
from factgym.envs.eve.verifier_sessions import SOLVER_ENV, SolverRooms

__all__ = ["Verifier", "open_verifier"]


def open_verifier(config: EveProposerConfig, corpus: Corpus) -> Verifier:
    """The shared verifier of a configuration.

    Raises ConfigError for policies that do not exist or cannot do what is asked, and DataError for an unusable cache.
    """
    key = (
        *("eve verifier", corpus.fingerprint(), config.scoring_rules.n, config.scoring_rules.m, config.seed),
        *(config.value, config.max_rollouts, config.cache and str(Path(config.cache).resolve())),
        *(identity(one) for one in (_search(config), config.solver, config.solver_settings)),
        *(identity(one) for one in (config.auxiliary, config.auxiliary_settings)),
    )
    return shared(key, lambda: _verifier(config, corpus))


def _verifier(config: EveProposerConfig, corpus: Corpus) -> Verifier:
    solver = _guest(config.solver, config.solver_settings)
    auxiliary = solver if config.auxiliary is None else _guest(config.auxiliary, config.auxiliary_settings)
    file = None if config.cache is None else AnswerFile(config.cache)
    return Verifier(
        solver,
        auxiliary,
        SolverRooms(corpus, _search(config)),
        AnswerCache(file),
        n=config.scoring_rules.n,
        m=config.scoring_rules.m,
        seed=config.seed,
        by_logprob=config.value == "logprob",
        most=config.max_rollouts,
        must_name=file is not None,
    )


def _search(config: EveProposerConfig) -> dict[str, Any]:
    """The settings of `eve-solver` under which the solver searches."""
    return {
        "index": config.index,
        "index_options": config.index_options,
        "top_k": config.top_k,
        "max_passage_tokens": config.max_passage_tokens,
        "max_turns": config.solver_turns,
    }


def _guest(value: Any, settings: dict[str, Any] | None) -> AuxiliaryPolicy:
    """A policy; one that was made here, from text, is closed when the process ends."""
    guest = policy_from(value, SOLVER_ENV, settings)
    if isinstance(value, str) and guest.policy is not None:
        close_at_end(guest.close)
    return guest
