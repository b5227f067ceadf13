"""Condensed search in hops: worked out by hand, against one hop, over public data with its recall, and in an episode."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from play_policy import play_policy

import factgym
from factgym.benchmarks.retrieval import evaluate_index, read_judged
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.condense import MAX_FACT_CHARS, best_facts, query_weights
from factgym.corpora.corpus import Passage
from factgym.corpora.index import FingerprintedIndex, Hit, build_index
from factgym.corpora.multi_hop import merge_hops
from factgym.envs.eve.reading import parse_solver_prompt
from factgym.envs.eve.solver_agents import SOLVER_AGENTS, previous_queries

PASSAGES = [
    Passage("bridge", "Long Bridge", "It crosses the Nore. The Long Bridge was designed by Ada Byron. Trains use it."),
    Passage("noise", "Bridges", "A bridge carries a road."),
    Passage("ada", "Ada Byron", "She was raised in Leeds. She liked rain."),
    Passage("leeds", "Leeds", "A city on the river Aire."),
    Passage("rain", "Rain", "Water from the sky."),
]
QUESTION = "Who designed the Long Bridge, and where was the designer raised?"


class Recorder:
    """BM25 that remembers its queries."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.inner = SmallBM25(passages)
        self.batches: list[list[str]] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.batches.append(list(queries))
        return self.inner.search(queries, k)


def test_facts_are_worked_out_by_hand() -> None:
    """The second sentence has five words of the question and the others their title's two."""
    weights = query_weights("Who designed the Long Bridge?")
    facts = best_facts(PASSAGES, weights, 2)
    assert [(fact.passage.id, fact.text) for fact in facts] == [
        ("bridge", "The Long Bridge was designed by Ada Byron."),
        ("noise", "A bridge carries a road."),
    ]
    assert best_facts([Passage("x", "", " "), Passage("y", "", "z" * 5000)], weights, 3) == [
        (Passage("y", "", "z" * 5000), "z" * MAX_FACT_CHARS)
    ]


def test_each_hop_searches_with_the_question_and_its_facts() -> None:
    base = Recorder(PASSAGES)
    index = build_index(PASSAGES, "multi-hop", base=base, hops=3)
    (hits,) = index.search([QUESTION], 4)
    first = f"{QUESTION} Long Bridge The Long Bridge was designed by Ada Byron."
    assert base.batches == [[QUESTION], [first], [f"{first} Ada Byron She was raised in Leeds."]]
    assert "leeds" in [hit.id for hit in hits]
    assert "leeds" not in [hit.id for hit in SmallBM25(PASSAGES).search([QUESTION], 9)[0]]
    assert [hit.score for hit in hits] == [1, 1 / 2, 1 / 3, 1 / 4]


def test_hops_are_merged_by_hand() -> None:
    """c leads the second hop; a and b keep their ranks of the first; the first hop is earlier on a level."""
    hops = [[Hit("a", 9), Hit("b", 8)], [Hit("c", 7), Hit("a", 6), Hit("d", 5)]]
    assert merge_hops(hops) == [Hit("a", 1), Hit("c", 1 / 2), Hit("b", 1 / 3), Hit("d", 1 / 4)]
    assert merge_hops([]) == merge_hops([[], []]) == []


def test_one_hop_is_the_bases_ranking_and_fewer_hits_are_a_prefix() -> None:
    queries = [QUESTION, "rain", "", "nothing here matches"]
    single = build_index(PASSAGES, "multi-hop", hops=1).search(queries, 5)
    base = SmallBM25(PASSAGES).search(queries, 5)
    assert [[hit.id for hit in hits] for hits in single] == [[hit.id for hit in hits] for hits in base]
    index = build_index(PASSAGES, "multi-hop", hops=3, facts=2)
    long = index.search(queries, 5)
    assert all(
        index.search([query], k)[0] == hits[:k] for query, hits in zip(queries, long, strict=True) for k in (1, 3)
    )
    assert pickle.loads(pickle.dumps(index)).search(queries, 5) == long
    assert long[2] == [] and index.search([], 2) == []


def test_a_batch_is_one_search_in_each_hop() -> None:
    base = Recorder(PASSAGES)
    build_index(PASSAGES, "multi-hop", base=base).search([QUESTION, "", "rain"], 2)
    assert [len(batch) for batch in base.batches] == [3, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, "hops is a number from 1 to 10"),
        ({"hops": 11}, "hops is a number from 1 to 10"),
        ({"facts": True}, "facts is a number"),
        ({"reads": "5"}, "reads is a number"),
        ({"hop": 2}, "Did you mean 'hops'"),
        ({"encoder": "x"}, "no option 'encoder'"),
        ({"base": "bm25", "b": 2}, "0 <= b <= 1"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_index(PASSAGES, "multi-hop", **options)


def test_fingerprints_tell_settings_and_bases_apart() -> None:
    choices: list[dict[str, Any]] = [
        {},
        {"hops": 3},
        {"facts": 2},
        {"k1": 1.0},
        {"base": "hybrid", "indexes": ["bm25"]},
        {"hops": 2},
    ]
    made = [build_index(PASSAGES, "multi-hop", **options) for options in choices]
    assert len({index.fingerprint() for index in made if isinstance(index, FingerprintedIndex)}) == 5


@pytest.mark.parametrize(("name", "gain"), [("hotpotqa", 0.01), ("2wikimultihopqa", 0.07)])
def test_two_hops_find_more_of_the_gold_passages(data_dir: Path, name: str, gain: float) -> None:
    judged = read_judged(name, data_dir)
    recalls = [
        evaluate_index(build_index(judged.corpus, index), judged, [5]).metrics["recall@5"].value
        for index in ("bm25", "multi-hop")
    ]
    assert recalls[0] is not None and recalls[1] is not None and recalls[1] > recalls[0] + gain


def test_the_baseline_agent_searches_with_what_it_read() -> None:
    env = factgym.make("eve-solver", index="multi-hop", index_options={"hops": 3})
    policy = SOLVER_AGENTS["condensed"].start(env, 0)
    prompt: list[Message] = []

    class Watched:
        def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
            prompt[:] = messages
            return policy.act(messages, tools)

    play_policy(env, Watched(), 3)
    queries = previous_queries(prompt)
    assert len(queries) == 3 and all(query.startswith(queries[0]) for query in queries)
    results = parse_solver_prompt(prompt).results
    texts = [f"{title} {text}" for _, title, text in results]
    for query in queries[1:]:
        fact = query.removeprefix(queries[0]).strip()
        assert fact and any(fact.startswith(title) for _, title, _ in results)
        assert any(set(fact.split()) & set(text.split()) for text in texts)
