"""The scripted proposer: what it writes holds what it promises, over generated and over real documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import factgym
from factgym.agents.rollout.engine import play_episode
from factgym.envs.eve.proposer_agents import (
    PROPOSER_AGENTS,
    Document,
    ExtractiveProposer,
    find_facts,
    parse_assignment,
)
from factgym.rewards.answer_matching import normalise_answer

HONEST = PROPOSER_AGENTS["extractive"]


def metrics_of(env: Any, count: int) -> list[dict[str, Any]]:
    found = [
        play_episode(env, HONEST, index, index) for index in range(0, len(env.tasks), -(-len(env.tasks) // count))
    ]
    assert all(one["error"] is None and one["stop"] == "submitted" for one in found)
    return [one["reward"]["metrics"] | {"turns": len(one["turns"])} for one in found]


def check(env: Any, found: list[dict[str, Any]]) -> None:
    for one in found:
        place = one["evidence_span"]
        document = env.tasks.corpus.get(place["document"])
        assert document.text[place["start"] : place["end"]] == one["evidence"]
        assert one["valid"] and not one["leak"]
        assert f" {normalise_answer(one['answer'])} " in f" {normalise_answer(one['evidence'])} "
        assert normalise_answer(one["answer"]) not in normalise_answer(one["question"])
        assert one["turns"] == one["searches"] + 1 <= one["hops"]


def test_over_the_generated_world_every_proposal_is_valid_verbatim_and_goes_its_hops() -> None:
    env = factgym.make("eve-proposer", n=2, m=1)
    found = metrics_of(env, 80)
    check(env, found)
    assert {one["hops"] for one in found} == {1, 2, 3, 4}
    far = [one for one in found if one["hops"] > 1]
    elsewhere = [one for one in far if one["evidence_span"]["document"] != one["document"]]
    assert len(elsewhere) > 0.8 * len(far), "questions of several hops end in another document"
    assert sum(one["k"] > 0 for one in found) > 0.7 * len(found)
    assert len({one["question"] for one in found}) == len(found)


@pytest.mark.parametrize("name", ["2wikimultihopqa/2wikimultihopqa_corpus.json", "squad/dev-v1.1.json"])
def test_over_real_passages_too(name: str, data_dir: Path) -> None:
    env = factgym.make("eve-proposer", corpus=str(data_dir / name), size=60, seed=3, n=2, m=1)
    found = [one for one in metrics_of(env, 60) if one["valid"]]
    assert len(found) > 40
    for one in found:
        if one["evidence_span"] is not None:
            place = one["evidence_span"]
            document = env.tasks.corpus.get(place["document"])
            assert normalise_answer(document.text[place["start"] : place["end"]]) == normalise_answer(one["evidence"])
    assert sum(one["evidence_span"] is not None for one in found) > 0.9 * len(found)


def test_the_same_document_and_seed_give_the_same_proposal_and_another_seed_another() -> None:
    env = factgym.make("eve-proposer", n=2, m=1)

    def question(seed: int) -> str:
        return str(play_episode(env, HONEST, 7, seed)["reward"]["metrics"]["question"])

    assert question(3) == question(3)
    assert len({question(seed) for seed in range(12)}) > 2


def test_the_oracle_submits_what_earns_most() -> None:
    env = factgym.make("eve-proposer")
    oracle = [play_episode(env, PROPOSER_AGENTS["oracle"], index, index)["reward"]["total"] for index in range(20)]
    honest = [play_episode(env, HONEST, index, index)["reward"]["total"] for index in range(20)]
    assert all(best >= own - 1e-9 for best, own in zip(oracle, honest, strict=True))
    assert sum(oracle) > sum(honest)


def test_it_reads_what_is_said_of_the_title_and_of_names() -> None:
    page = Document(
        "1", "Ada Byron", "She wrote notes with Luigi Menabrea in 1843. The Lys is a river of no interest to Bob Hale."
    )
    said = {(fact.object, fact.kind) for fact in find_facts(page, "Ada Byron")}
    assert {("Luigi Menabrea", "name"), ("1843", "date"), ("Bob Hale", "name")} <= said
    linked = find_facts(page, "Luigi Menabrea")
    assert {fact.object for fact in linked} == {"1843"}
    assert all(fact.sentence[slice(*fact.span)] == fact.object for fact in linked)


def test_foreign_prompts_and_documents_that_name_nothing_are_stood() -> None:
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
