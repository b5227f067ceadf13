"""The scripted agents of SEVA: who sees the label, verbatim spans, and accuracy on generated and real data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import factgym
from factgym.agents.rollout.engine import play_many
from factgym.agents.rollout.jobs import task_order
from factgym.core.env import Env
from factgym.datasets.attribution import BENCHMARKS
from factgym.envs.seva.agents import AGENTS, parse_brief, split_claim
from factgym.rewards.seva.output import NOT_FOUND, VERDICT_SCHEMA
from factgym.text.folding import find_quote

VERBATIM = ("oracle", "teacher", "nli", "lexical", "random", "sure", "always-attributable", "always-not")


def play_episodes(env: Env[Any], name: str, n: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    yield from play_many(env, AGENTS[name], task_order(len(env.tasks), n, seed), seed)


def reports(env: Env[Any], name: str, n: int) -> list[dict[str, Any]]:
    return [episode["reward"] for episode in play_episodes(env, name, n)]


def accuracy(env: Env[Any], name: str, n: int) -> float:
    episode_reports = reports(env, name, n)
    return sum(report["metrics"]["correct"] for report in episode_reports) / len(episode_reports)


def verdicts(env: Env[Any], name: str, n: int) -> Iterator[tuple[dict[str, Any], Any]]:
    for episode in play_episodes(env, name, n):
        yield json.loads(episode["messages"][2]["content"]), env.tasks[episode["index"]]


@pytest.mark.parametrize("name", VERBATIM)
@pytest.mark.parametrize("source", ["seva", "seva-halueval", "seva-clearfacts", "seva-truthfulqa"])
def test_spans_are_verbatim_and_the_verdict_fits_the_schema(data_dir: Path, name: str, source: str) -> None:
    env = factgym.make(source, **({} if source == "seva" else {"path": str(data_dir)}))
    schema = jsonschema.Draft202012Validator(VERDICT_SCHEMA)
    for verdict, task in verdicts(env, name, 20):
        assert not list(schema.iter_errors(verdict))
        for entry in verdict["evidence_alignment"]:
            assert find_quote(entry["claim_span"], task.claim)
            assert entry["source_span"] == NOT_FOUND or find_quote(entry["source_span"], task.source)
        for step in verdict["reasoning_chain"]:
            assert find_quote(step["claim_part"], task.claim)


@pytest.mark.parametrize("source", ["seva", *(f"seva-{name}" for name in BENCHMARKS)])
def test_the_oracle_earns_all_there_is_on_every_set(data_dir: Path, source: str) -> None:
    env = factgym.make(source, **({} if source == "seva" else {"path": str(data_dir)}))
    for episode in play_episodes(env, "oracle", 150):
        # A claim of one word has one part, so there are no two different steps: .30 of the chain's bonus of .2 / 2.
        single = len(split_claim(env.tasks[episode["index"]].claim)) == 1
        assert episode["reward"]["total"] == pytest.approx(1.12 if single else 1.15), episode["task"]


def test_claims_of_the_miniature_can_be_told_apart_from_their_source_alone() -> None:
    env = factgym.make("seva", world="miniature", passages=1, split="test", reward="process")
    for name in ("oracle", "teacher"):
        assert [report["total"] for report in reports(env, name, 100)] == pytest.approx([1.15] * 100)
    constants = [accuracy(env, name, 100) for name in ("always-attributable", "always-not")]
    assert accuracy(env, "nli", 100) > max(constants) + 0.1


def test_the_brief_is_parsed_from_the_prompt(data_dir: Path) -> None:
    for source in ("seva-clearfacts", "seva-halueval"):
        env = factgym.make(source, path=str(data_dir))
        for index in range(0, len(env.tasks), 7):
            env.reset(options={"task": index})
            brief = parse_brief(env.policy_prompt())
            assert (brief.claim, brief.source) == (env.task.claim, env.task.source)


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.role not in ("oracle", "teacher")])
def test_only_agents_given_the_label_see_it(name: str) -> None:
    given_label = AGENTS[name].summary.startswith("The gold label")
    values = [report["metrics"]["correct"] for report in reports(factgym.make("seva"), name, 60)]
    assert all(values) is given_label
    assert given_label or sum(values) < 54


def test_the_honest_baseline_beats_chance_and_the_simpler_one_on_generated_claims() -> None:
    for split in ("validation", "ood"):
        env = factgym.make("seva", split=split)
        honest, lexical, random = (accuracy(env, name, 144) for name in ("nli", "lexical", "random"))
        assert honest > 0.62 > lexical > 0.4
        assert 0.35 < random < 0.65


def test_the_honest_baseline_names_errors_better_than_chance() -> None:
    """Of six categories one in six is right by chance; only where the error was seen."""
    values = [r["metrics"] for r in reports(factgym.make("seva"), "nli", 180)]
    correct_types = [
        m["error_type"] == m["gold_error_type"] for m in values if m["gold_error_type"] and m["error_type"]
    ]
    assert sum(correct_types) / len(correct_types) > 0.45


FLOORS = {"fever": 0.68, "truthfulqa": 0.55, "halueval": 0.78, "clearfacts": 0.7, "anli": 0.55}
"""Measured: .720, .627, .835, .767 and .615; the threshold was chosen on other data sets."""


@pytest.mark.parametrize("name", FLOORS)
def test_the_rules_on_real_data(data_dir: Path, name: str) -> None:
    env = factgym.make(f"seva-{name}", path=str(data_dir))
    assert accuracy(env, "nli", 200) > FLOORS[name]


def test_the_majority_agent_predicts_the_most_frequent_label(data_dir: Path) -> None:
    for name, share in {"fever": 0.675, "clearfacts": 139 / 159}.items():
        env = factgym.make(f"seva-{name}", path=str(data_dir))
        assert accuracy(env, "majority", len(env.tasks)) == pytest.approx(share)


def test_random_depends_on_its_seed_and_the_claim_alone() -> None:
    env = factgym.make("seva")
    first, again, different = (
        [episode["messages"][2]["content"] for episode in play_episodes(env, "random", 6, seed)] for seed in (1, 1, 2)
    )
    assert first == again
    env.reset(options={"task": 0})
    first_verdict, second_verdict = (AGENTS["random"].start(env, seed).act(env.policy_prompt(), ()) for seed in (1, 2))
    assert first_verdict != second_verdict and first != different


@pytest.mark.parametrize(
    "claim", ["You die", "x", "No.", "a" * 1000, "word " * 300, "¿?", "One, two, three; and four."]
)
def test_parts_are_verbatim_short_enough_and_never_none(claim: str) -> None:
    parts = split_claim(claim)
    assert parts and all(part in claim and 0 < len(part) <= 200 for part in parts)
