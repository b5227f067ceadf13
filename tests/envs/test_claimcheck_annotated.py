"""ClaimCheck over annotated benchmarks: several sufficient sets, silence, balance, and evaluation splits that nothing trains on."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import factgym
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import play_many
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.integrations.session import training_config

CLAIM = "The mill opened in 1901 and is red."
EVIDENCE = [
    "The mill opened in 1901.",
    "The mill has been red since then.",
    "It opened in 1901 and is red.",
    "It is old.",
]
ROWS = [
    {"label": "supported", "claim": CLAIM, "evidence": EVIDENCE, "supporting_sentences": [[0, 1], [2]], "meta": {"id": "a"}},
    {"label": "not_supported", "claim": "The mill burned down.", "evidence": EVIDENCE, "supporting_sentences": [[]],
     "meta": {"id": "b"}},
    {"label": "partially_supported", "claim": "The mill opened in 1901 and closed in 1950.", "evidence": EVIDENCE,
     "supporting_sentences": [[0]], "meta": {"id": "c"}},
]  # fmt: skip


@pytest.fixture
def mill(tmp_path: Path) -> Env[Any]:
    file = tmp_path / "dev.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    return factgym.make("claimcheck-wice", path=str(file))


def submit(env: Env[Any], quote: str | list[str], status: str = "supported", task: str = "wice-a") -> Any:
    _, info = env.reset(options={"task": task})
    env.step({"tool": "read", "arguments": {"id": "E1"}})
    claim = next(row["claim"] for row in ROWS if task.endswith(row["meta"]["id"]))
    entry = {"claim": claim, "status": status, "evidence_ids": ["E1"], "quote": quote, "reason": "It says so."}
    if status != "supported":
        entry["unsupported_span"] = claim
    *_, info = env.step({"tool": "submit", "arguments": {"claims": [entry], "final_verdict": status}})
    return info["reward"]


def test_any_sufficient_set_of_sentences_earns_everything(mill: Env[Any]) -> None:
    assert submit(mill, EVIDENCE[2]).total == pytest.approx(1.0)
    report = submit(mill, EVIDENCE[:2])
    assert report.total == pytest.approx(1.0)
    assert sum(span.value for span in report.spans) == pytest.approx(1.0)
    assert submit(mill, EVIDENCE[0]).components["coverage"] == 0.5
    assert submit(mill, EVIDENCE[3]).components["coverage"] == 0.0


def test_evidence_of_silence_counts_a_third(mill: Env[Any]) -> None:
    report = submit(mill, EVIDENCE[0], "unsupported", "wice-b")
    assert report.total == pytest.approx(0.05 + (0.15 + 0.40 + 0.35) / 3 + 0.05, abs=0.01)


def test_a_wrong_label_costs_its_odds_in_the_data_set(mill: Env[Any]) -> None:
    """Shares of what can be earned: 1 supported, 1 overclaim, 1/3 unsupported; of it .05, and .15 of the evidence."""
    assert submit(mill, EVIDENCE[2], "overclaim").total == pytest.approx(0.05 + 0.15 - 0.75 * 3 / 4)
    assert submit(mill, EVIDENCE[2], "unsupported").total == pytest.approx(0.05 + 0.15 - 0.75 / 6)
    assert submit(mill, EVIDENCE[2], "contradicted").total == pytest.approx(0.05 + 0.15 - 0.75 * 3 / 4)
    assert mill.reward_bounds[0] == pytest.approx(0.05 + 0.15 - 0.75 * 3 / 4)
    system = mill.reset(seed=0)[1]["messages"][0]["content"]
    assert "nothing: supported +1.00 or -0.75, unsupported +1.00 or -0.17, overclaim +1.00 or -0.75, any" in system


def test_the_instructions_say_what_counts(mill: Env[Any], data_dir: Path) -> None:
    _, info = mill.reset(seed=0)
    system = info["messages"][0]["content"]
    assert "its status is `overclaim`" in system and "nearest: one is enough" in system
    for id_, silent in (("claimcheck-scifact", True), ("claimcheck-fm2", False)):
        env = factgym.make(id_, path=str(data_dir))
        system = env.reset(seed=0)[1]["messages"][0]["content"]
        assert ("often silent on a statement" in system) is silent


def test_one_task_ends_another_begins(mill: Env[Any]) -> None:
    """The set against which an episode was scored does not stay with the shared task."""
    submit(mill, EVIDENCE[:2])
    assert submit(mill, EVIDENCE[2]).total == pytest.approx(1.0)
    copied = pickle.loads(pickle.dumps(mill))
    assert submit(copied, EVIDENCE[2]).total == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("id_", "whole", "balanced"),
    [("claimcheck-wice", 349, 273), ("claimcheck-fm2", 1169, 1146), ("claimcheck-scifact", 300, 288)],
)
def test_balance_and_the_haystack(data_dir: Path, id_: str, whole: int, balanced: int) -> None:
    assert len(factgym.make(id_, path=str(data_dir), balance=False).tasks) == whole
    env = factgym.make(id_, path=str(data_dir))
    first, second, *_ = Counter(example.verdict for example in env.tasks.items).most_common()
    assert (len(env.tasks), first[1]) == (balanced, second[1])
    env = factgym.make(id_, path=str(data_dir), haystack=True)
    task = env.tasks[0]
    facts = [fact for claim in task.example.claims for fact in claim.facts]
    assert all(task.text_of(fact.passage)[fact.start : fact.end].strip() for fact in facts)
    assert len(task.library.corpus) > 500


def test_the_oracle_earns_all_there_is(data_dir: Path) -> None:
    for id_ in ("claimcheck-wice", "claimcheck-fm2", "claimcheck-scifact"):
        env = factgym.make(id_, path=str(data_dir))
        low = []
        for record in play_many(env, find_scripted_agent(id_, "oracle"), range(40)):
            verdict = env.tasks[record["index"]].example.verdict
            # Status and verdict are three quarters of the reward, of which a right label earns its stake; silence pays .4.
            right, _ = env.tasks.stakes.labels[verdict]
            expected = (0.25 + 0.75 * right) * (0.4 if verdict == "unsupported" else 1.0)
            low += [record["task"]] if record["reward"]["total"] < expected - 1e-9 else []
        # Four of this claim's five sentences are names in a list, two of which are too short for a quote.
        assert set(low) <= {"wice-dev03055"}


def test_evaluation_data_are_not_trained_on(data_dir: Path) -> None:
    for id_ in ("claimcheck-wice", "claimcheck-fm2"):
        with pytest.raises(ConfigError, match=r"has evaluation tasks only .*\(split 'dev'\)"):
            training_config(id_, {"path": str(data_dir)})
    assert training_config("claimcheck-scifact", {"path": str(data_dir)})["split"] == "train"
    dev, train = (
        {example.answer for example in factgym.make("claimcheck-scifact", path=str(data_dir), split=split).tasks.items}
        for split in ("validation", "train")
    )
    # As published: two claims are in both.
    assert len(dev & train) == 2
