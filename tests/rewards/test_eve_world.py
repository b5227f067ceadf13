"""Rollouts over a generated world: an honest proposer loses nothing to the guards, and the cheats that are in reach do."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from factgym.core.errors import DataError
from factgym.corpora.corpus import Passage
from factgym.datasets.multihop import Triple
from factgym.generators.multihop.world import world
from factgym.rewards.eve import (
    CheckedProposal,
    Rollout,
    Search,
    check_proposal,
    find_rubric,
    parse_proposal,
    score_proposal,
)
from perf.eve import make_samples, measure_eve

WORLDS = [world(seed, 100, "train") for seed in (0, 1)]
TASKS = [(corpus, triple) for corpus, triples in WORLDS for triple in triples]
THINK = "<think>I look for {} as the next link of the chain now.</think>"


def bridge(before: str, after: str, title: str) -> str:
    """The names that two sentences of a chain share: what an honest proposer searches for."""
    known = set(before.rstrip(".").split())
    return " ".join(word for word in after.rstrip(".").split() if word in known and word[0].isupper()) or title


def honest_searches(corpus, triple: Triple, passages: Sequence[Passage], rng: random.Random) -> list[Search]:
    found = []
    for before, after in zip(triple.evidence, triple.evidence[1:], strict=False):
        reached = corpus.get(after.document)
        shown = [reached, *rng.sample(passages, 2)]
        found.append(Search((bridge(before.text, after.text, reached.title),), "\n\n".join(one.text for one in shown)))
    return found


def checked(corpus, triple: Triple, searches: list[Search], evidence: str | None = None, hops: int | None = None):
    """A proposal that asks the triple's question, after these searches."""
    turns = [THINK.format(one.queries[0]) for one in searches]
    message = (
        f"{THINK.format(triple.answer)}<question>{triple.question}</question><answer>{triple.answer}</answer>"
        f"<evidence>{triple.evidence[-1].text if evidence is None else evidence}</evidence>"
    )
    documents = [corpus.get(one.document) for one in triple.evidence]
    rollout = Rollout(hops or triple.hops or 1, documents[0].text, (*turns, message), tuple(searches))
    return check_proposal(parse_proposal(message), rollout, [(one.id, one.text) for one in documents])


def reward(
    one: CheckedProposal, *, k: int = 2, plus: float = 1.0, minus: float = 0.0, rubric: str = "guarded"
) -> float:
    answers = {"plus": [i < 10 * plus for i in range(10)], "minus": [i < 10 * minus for i in range(10)]}
    score = score_proposal(one, solved=[i < k for i in range(5)], **answers)
    return find_rubric(rubric, "proposer").total(score.components, score.gates)


def test_an_honest_proposer_loses_nothing_to_the_guards() -> None:
    rng = random.Random(5)
    found = [checked(corpus, one, honest_searches(corpus, one, list(corpus), rng)) for corpus, one in TASKS]
    assert all(one.valid and not one.leak and one.focused and one.anchored for one in found)
    assert all(one.format.reward == 1.0 for one in found)
    # A search may bring nothing but what an earlier query had guessed.
    assert np.mean([one.reached == 1.0 for one in found]) > 0.97
    assert min(one.reached for one in found) >= 0.75
    for one in found:
        assert reward(one, rubric="eve") == pytest.approx(1.85, abs=0.02)
        if one.reached == 1.0:
            assert reward(one) == pytest.approx(reward(one, rubric="eve"))


def test_searches_for_nothing_do_not_count() -> None:
    shallow = [pair for pair in TASKS if pair[1].hops == 1]
    rng = random.Random(1)
    for corpus, triple in shallow:
        passages = list(corpus)
        asked = [rng.choice(passages) for _ in range(3)]
        one = checked(corpus, triple, [Search((p.title,), p.text) for p in asked], hops=4)
        assert one.format.tool == 1.0
        assert one.format_guarded.tool == one.reached == 0.25
        assert reward(one) < 0.5 + 0.25 * 1.4
        assert reward(one, rubric="eve") > 1.8


def test_whole_documents_and_bare_answers_earn_less_than_sentences() -> None:
    rng = random.Random(2)
    for corpus, triple in TASKS:
        searches = honest_searches(corpus, triple, list(corpus), rng)
        fair = checked(corpus, triple, searches)
        whole = checked(corpus, triple, searches, corpus.get(triple.evidence[-1].document).text)
        bare = checked(corpus, triple, searches, triple.answer)
        assert reward(bare, rubric="eve") > reward(fair, rubric="eve")
        assert not whole.focused
        assert not bare.anchored
        assert reward(fair) > 1.0 > reward(whole)
        assert reward(fair) > 1.0 > reward(bare)


def test_the_speed_benchmark_scores_real_rollouts() -> None:
    lines = measure_eve(1)
    assert lines[0].startswith("EVE's reward, one core: 512 rollouts")
    assert [line.split("  ")[1] for line in lines[1:]] == [
        "whole: parse to report",
        "parse, formats, span, gates",
        "components",
        "report",
        "advantages, batches of 256",
        "a solution, with its report",
    ]
    passages = list(WORLDS[0][0])
    samples = make_samples(passages, 40)
    assert samples == make_samples(passages, 40)
    assert {one.rollout.hops for one in samples} == {1, 2, 3, 4}
    proposals = [check_proposal(parse_proposal(one.message), one.rollout, one.texts) for one in samples]
    assert sum(one.span is not None for one in proposals) > 30
    with pytest.raises(DataError, match="too few"):
        make_samples(passages[:5], 1)
