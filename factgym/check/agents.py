"""The default agent of `factgym check`: a scripted policy of ClaimCheck's, whose verifier compares values and polarities as well.

It is no agent of the environments: there `nli` is the honest baseline, against which their rewards are searched.
"""

from __future__ import annotations

from collections.abc import Mapping

from factgym.agents.resolve import scripted_agents
from factgym.baselines.rules import rules
from factgym.core.policy import ScriptedAgent
from factgym.datasets.claims import final_verdict
from factgym.envs.claimcheck.scripted import (
    EpisodeBrief,
    ScriptedPolicy,
    ToolLoop,
    Verdict,
    collect_evidence,
    make_verdict,
)
from factgym.envs.claimcheck.strategies import Draft, judge

ENV = "claimcheck"
"""The environment whose episodes check claims."""


def _play(brief: EpisodeBrief) -> ToolLoop[Verdict]:
    draft = Draft.of(brief, (yield from collect_evidence(brief)), seed=0)
    judge(draft, rules)
    return make_verdict(final_verdict(entry["status"] for entry in draft.entries), draft.entries)


RULES = ScriptedAgent(
    "rules",
    "baseline",
    "The rules of nli, values of the same thing, and polarity: plain denials and opposites.",
    lambda env, seed: ScriptedPolicy(env.config.max_turns, _play),
)


def checking_scripts() -> Mapping[str, ScriptedAgent]:
    """Return the scripted agents by name, this one first."""
    return {RULES.name: RULES, **scripted_agents(ENV)}
