"""The scripted proposer: what it writes holds what it promises, over generated and over real documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import factgym
from factgym.agents.rollout.engine import play_episode
from factgym.corpora.corpus import Passage
from factgym.envs.eve.proposer_agents import PROPOSER_AGENTS, ExtractiveProposer, find_facts, parse_assignment
from factgym.rewards.answer_matching import normalise_answer

HONEST = PROPOSER_AGENTS["extractive"]


def metrics_of(env: Any, count: int) -> list[dict[str, Any]]:
    episodes = [
        play_episode(env, HONEST, index, index) for index in range(0, len(env.tasks), -(-len(env.tasks) // count))
    ]
    assert all(episode["error"] is None and episode["stop"] == "submitted" for episode in episodes)
    return [episode["reward"]["metrics"] | {"turns": len(episode["turns"])} for episode in episodes]


def check(env: Any, proposals: list[dict[str, Any]]) -> None:
    for metrics in proposals:
        span = metrics["evidence_span"]
        document = env.tasks.corpus.get(span["document"])
        assert document.text[span["start"] : span["end"]] == metrics["evidence"]
        assert metrics["valid"] and not metrics["leak"]
        assert f" {normalise_answer(metrics['answer'])} " in f" {normalise_answer(metrics['evidence'])} "
        assert normalise_answer(metrics["answer"]) not in normalise_answer(metrics["question"])
        assert metrics["turns"] == metrics["searches"] + 1 <= metrics["hops"]


def test_over_the_generated_world_every_proposal_is_valid_verbatim_and_goes_its_hops() -> None:
    env = factgym.make("eve-proposer", n=2, m=1)
    proposals = metrics_of(env, 80)
    check(env, proposals)
    assert {metrics["hops"] for metrics in proposals} == {1, 2, 3, 4}
    far = [metrics for metrics in proposals if metrics["hops"] > 1]
    elsewhere = [metrics for metrics in far if metrics["evidence_span"]["document"] != metrics["document"]]
    assert len(elsewhere) > 0.8 * len(far), "questions of several hops end in another document"
    assert sum(metrics["k"] > 0 for metrics in proposals) > 0.7 * len(proposals)
    assert len({metrics["question"] for metrics in proposals}) == len(proposals)


@pytest.mark.parametrize("name", ["2wikimultihopqa/2wikimultihopqa_corpus.json", "squad/dev-v1.1.json"])
def test_over_real_passages_too(name: str, data_dir: Path) -> None:
    env = factgym.make("eve-proposer", corpus=str(data_dir / name), size=30, seed=3, n=2, m=1)
    proposals = [metrics for metrics in metrics_of(env, 30) if metrics["valid"]]
    assert len(proposals) > 20
    for metrics in proposals:
        if metrics["evidence_span"] is not None:
            span = metrics["evidence_span"]
            document = env.tasks.corpus.get(span["document"])
            assert normalise_answer(document.text[span["start"] : span["end"]]) == normalise_answer(metrics["evidence"])
    assert sum(metrics["evidence_span"] is not None for metrics in proposals) > 0.9 * len(proposals)


def test_the_same_document_and_seed_give_the_same_proposal_and_another_seed_another() -> None:
    env = factgym.make("eve-proposer", n=2, m=1)

    def question(seed: int) -> str:
        return str(play_episode(env, HONEST, 7, seed)["reward"]["metrics"]["question"])

    assert question(3) == question(3)
    assert len({question(seed) for seed in range(12)}) > 2


def test_the_oracle_submits_its_best_draft() -> None:
    env = factgym.make("eve-proposer")
    oracle = [play_episode(env, PROPOSER_AGENTS["oracle"], index, index)["reward"]["total"] for index in range(8)]
    honest = [play_episode(env, HONEST, index, index)["reward"]["total"] for index in range(8)]
    assert all(best >= honest_total - 1e-9 for best, honest_total in zip(oracle, honest, strict=True))
    assert sum(oracle) > sum(honest)


def test_facts_are_about_the_title_and_about_names() -> None:
    page = Passage(
        "1", "Ada Byron", "She wrote notes with Luigi Menabrea in 1843. The Lys is a river of no interest to Bob Hale."
    )
    facts = {(fact.object, fact.kind) for fact in find_facts(page, "Ada Byron")}
    assert {("Luigi Menabrea", "name"), ("1843", "date"), ("Bob Hale", "name")} <= facts
    linked = find_facts(page, "Luigi Menabrea")
    assert {fact.object for fact in linked} == {"1843"}
    assert all(fact.sentence[slice(*fact.span)] == fact.object for fact in linked)


def test_foreign_prompts_and_documents_without_names_raise_nothing() -> None:
    assert parse_assignment([{"role": "user", "content": "Write a poem."}]) is None
    assert (
        ExtractiveProposer(0).act([{"role": "user", "content": "Write a poem."}], [])
        == "There is no document to ask about."
    )
    from factgym.corpora.corpus import Corpus, Passage

    for text in ("", "x", "there is nothing here that has a name at all, not one thing", "\n\n", "A" * 5000):
        env = factgym.make("eve-proposer", corpus=Corpus([Passage("d", "", text)]), hops=2, n=2, m=1)
        for agent in PROPOSER_AGENTS.values():
            assert play_episode(env, agent, 0, 0)["error"] is None, (agent.name, text)
