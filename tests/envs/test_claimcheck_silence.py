"""What shows a silence is what the instructions ask for: three passages over ContractNLI, one elsewhere."""

from __future__ import annotations

import pytest

import factgym
from factgym.agents.rollout import play_many
from factgym.agents.scripted import find_scripted_agent
from factgym.rewards.claimcheck import QuoteRules


@pytest.mark.parametrize("count", [1, 2, 3])
def test_contracts_ask_for_as_many_passages_as_they_score(data_dir, count):
    rules = QuoteRules(silence_passages=count)
    env = factgym.make("claimcheck-contracts", path=str(data_dir / "contract_nli" / "dev.json"), rules=rules)
    obs, _ = env.reset(seed=0)
    assert (f"cite the {count} passages that come nearest" in obs) == (count > 1)
    assert ("silence" in env.prompt_hashes()) == (count > 1)
    records = list(play_many(env, find_scripted_agent("claimcheck-contracts", "oracle"), range(20)))
    assert [record["reward"]["total"] for record in records] == pytest.approx([1.0] * 20)
    silent = [record for record in records if record["reward"]["metrics"]["gold_verdict"] == "unsupported"]
    assert silent
    for metrics in (record["reward"]["metrics"] for record in silent):
        assert len(metrics["cited"]) == min(count, len(metrics["gold_evidence"]))  # a short contract may have fewer


def test_elsewhere_one_passage_is_enough(data_dir):
    env = factgym.make("claimcheck-docs", path=str(data_dir / "policies_basecamp"))
    obs, _ = env.reset(seed=0)
    assert "that come nearest" not in obs
    assert env.config.scoring_rules.silence_passages == 1
    silent = [i for i in range(len(env.tasks)) if env.tasks[i].gold.nearest][:10]
    assert silent
    records = list(play_many(env, find_scripted_agent("claimcheck-docs", "oracle"), silent))
    assert [record["reward"]["total"] for record in records] == pytest.approx([1.0] * len(silent))
