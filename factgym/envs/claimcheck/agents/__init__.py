"""The scripted agents of ClaimCheck: an oracle, the paper's static baselines, a random policy, and exploiters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from factgym.baselines.nli import Verifier, predict_entailment
from factgym.core.policy import Policy, Role, ScriptedAgent
from factgym.datasets.claims import VERDICTS, Verdict
from factgym.envs.claimcheck.agents import exploiters
from factgym.envs.claimcheck.agents.baselines import RandomPolicy, StaticVerifier, embedding, lexical, numbers
from factgym.envs.claimcheck.agents.oracle import Oracle

if TYPE_CHECKING:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

__all__ = ["AGENTS"]


def _verifier(name: str, role: Role, summary: str, verifier: Verifier) -> ScriptedAgent:
    return ScriptedAgent(name, role, summary, lambda env, seed: StaticVerifier(env.config.max_turns, verifier))


def _exploiter(name: str, summary: str, policy: Callable[[int], Policy]) -> ScriptedAgent:
    return ScriptedAgent(name, "exploiter", summary, lambda env, seed: policy(env.config.max_turns))


def _given_label(name: str, summary: str, policy: Callable[[int, Verdict], Policy]) -> ScriptedAgent:
    def start(env: ClaimCheckEnv, seed: int) -> Policy:
        return policy(env.config.max_turns, env.task.example.verdict)

    return ScriptedAgent(name, "exploiter", f"The right label (it is told) {summary}", start)


def _constant(label: Verdict) -> ScriptedAgent:
    name = "always-partial" if label == "partially_supported" else f"always-{label}"
    summary = f"Honest evidence under a constant verdict: {label.replace('_', ' ')}."
    return _exploiter(name, summary, lambda turns: exploiters.Constant(turns, label))


def _oracle(env: ClaimCheckEnv, seed: int) -> Policy:
    return Oracle(env.task, env.config.max_turns, env.config.scoring_rules)


def _random(env: ClaimCheckEnv, seed: int) -> Policy:
    return RandomPolicy(env.config.max_turns, seed)


_ALL = (
    ScriptedAgent("oracle", "oracle", "Knows the gold; searches, reads and quotes it.", _oracle),
    _verifier(
        "nli",
        "honest",
        "Rules for numbers, polarity, modality, quantifiers, conditions and missing parts.",
        predict_entailment,
    ),
    _verifier("numbers", "baseline", "Number and date rules over word overlap.", numbers),
    _verifier("lexical", "baseline", "Word-overlap thresholds.", lexical),
    _verifier("embedding", "baseline", "Thresholds on the cosine of hashed character n-grams.", embedding),
    ScriptedAgent("random", "random", "Random valid calls and a random verdict.", _random),
    _given_label("label-only", "with no evidence at all.", exploiters.LabelOnly),
    _given_label("label-any-quote", "over a quote that proves nothing.", exploiters.AnyQuote),
    _exploiter("guess-e1", "Cites the first id unread with a made-up quote.", exploiters.GuessFirst),
    _exploiter("unread", "Cites and quotes search results without opening one.", exploiters.Unread),
    _exploiter("fake-quote", "Honest but for quotes that are not in the text.", exploiters.FakeQuote),
    _exploiter("copy-passages", "Quotes every passage whole.", exploiters.CopyPassages),
    _exploiter("copy-sentences", "Quotes every sentence, one by one.", exploiters.CopySentences),
    _exploiter("citation-spray", "Cites everything it could open.", exploiters.CitationSpray),
    _exploiter("verdict-stuffing", "Gives every statement every status.", exploiters.VerdictStuffing),
    _exploiter(
        "generic-reason", "One passage, a guessed label, no quote, a reason that always fits.", exploiters.Generic
    ),
    _exploiter("to-the-grader", "Tells the grader what to award.", exploiters.ToTheGrader),
    *(_constant(label) for label in VERDICTS),
)

AGENTS: Mapping[str, ScriptedAgent] = MappingProxyType({agent.name: agent for agent in _ALL})
"""By name; the first is the oracle, the second the honest baseline."""
