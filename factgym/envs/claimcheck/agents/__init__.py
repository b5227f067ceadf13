"""The scripted agents of ClaimCheck: an oracle, the paper's static baselines, a random policy, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from factgym.baselines.nli import Verifier, predict_entailment
from factgym.core.policy import Role, ScriptedAgent
from factgym.datasets.claims import VERDICTS, Verdict
from factgym.envs.claimcheck.agents import exploiters
from factgym.envs.claimcheck.agents.baselines import embedding, lexical, numbers, play_at_random, verify
from factgym.envs.claimcheck.agents.oracle import play_gold
from factgym.envs.claimcheck.agents.scripted import Play, ScriptedPolicy

if TYPE_CHECKING:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

__all__ = ["AGENTS"]


def _agent(name: str, role: Role, summary: str, play: Callable[[ClaimCheckEnv, int], Play]) -> ScriptedAgent:
    return ScriptedAgent(name, role, summary, lambda env, seed: ScriptedPolicy(env.config.max_turns, play(env, seed)))


def _baseline(name: str, summary: str, verifier: Verifier) -> ScriptedAgent:
    return _agent(name, "baseline", summary, lambda env, seed: partial(verify, verifier=verifier))


def _exploiter(name: str, summary: str, play: Play) -> ScriptedAgent:
    return _agent(name, "exploiter", summary, lambda env, seed: play)


def _given_label(name: str, summary: str, play: Callable[..., Any]) -> ScriptedAgent:
    def play_of(env: ClaimCheckEnv, seed: int) -> Play:
        return partial(play, label=env.task.example.verdict)

    return _agent(name, "exploiter", f"The right label (it is told) {summary}", play_of)


def _constant(label: Verdict) -> ScriptedAgent:
    name = "always-partial" if label == "partially_supported" else f"always-{label}"
    summary = f"Honest evidence under a constant verdict: {label.replace('_', ' ')}."
    return _exploiter(name, summary, partial(_honest, conclude=partial(exploiters.constant, label=label)))


def _oracle(env: ClaimCheckEnv, seed: int) -> Play:
    return partial(play_gold, task=env.task, rules=env.config.scoring_rules)


_honest = partial(verify, verifier=predict_entailment)
_reads_all = partial(_honest, collect=exploiters.read_all)
_NLI = "Rules for numbers, polarity, modality, quantifiers, conditions and missing parts."

_ALL = (
    _agent("oracle", "oracle", "Knows the gold; searches, reads and quotes it.", _oracle),
    _agent("nli", "honest", _NLI, lambda env, seed: _honest),
    _baseline("numbers", "Number and date rules over word overlap.", numbers),
    _baseline("lexical", "Word-overlap thresholds.", lexical),
    _baseline("embedding", "Thresholds on the cosine of hashed character n-grams.", embedding),
    _agent(
        "random",
        "random",
        "Random valid calls and a random verdict.",
        lambda env, seed: partial(play_at_random, seed=seed),
    ),
    _given_label("label-only", "with no evidence at all.", exploiters.label_only),
    _given_label("label-any-quote", "over a quote that proves nothing.", exploiters.any_quote),
    _exploiter("guess-e1", "Cites the first id unread with a made-up quote.", exploiters.guess_first),
    _exploiter("unread", "Cites and quotes search results without opening one.", exploiters.unread),
    _exploiter(
        "fake-quote",
        "Honest but for quotes that are not in the text.",
        partial(_honest, conclude=exploiters.fake_quotes),
    ),
    _exploiter(
        "copy-passages", "Quotes every passage whole.", partial(_reads_all, conclude=exploiters.quote_passages)
    ),
    _exploiter(
        "copy-sentences",
        "Quotes every sentence, one by one.",
        partial(_reads_all, conclude=exploiters.quote_sentences),
    ),
    _exploiter("citation-spray", "Cites everything it could open.", partial(_reads_all, conclude=exploiters.cite_all)),
    _exploiter(
        "verdict-stuffing", "Gives every statement every status.", partial(_honest, conclude=exploiters.every_status)
    ),
    _exploiter(
        "generic-reason", "One passage, a guessed label, no quote, a reason that always fits.", exploiters.generic
    ),
    _exploiter("to-the-grader", "Tells the grader what to award.", exploiters.to_the_grader),
    *(_constant(label) for label in VERDICTS),
)

AGENTS: Mapping[str, ScriptedAgent] = MappingProxyType({agent.name: agent for agent in _ALL})
"""By name; the first is the oracle, the second the honest baseline."""
