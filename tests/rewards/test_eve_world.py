"""Rollouts over a generated world: an honest proposer loses nothing to the guards, and exploiters do."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from factgym.core.errors import DataError
from factgym.corpora.corpus import Passage
from factgym.datasets.multihop import Triple
from factgym.generators.multihop_world import world
from factgym.rewards.eve.proposal import CheckedProposal, Rollout, Search, check_proposal, score_proposal
from factgym.rewards.eve.rubrics import find_rubric
from factgym.rewards.eve.spans import parse_proposal
from perf.eve import make_samples, measure_eve

WORLDS = [world(seed, 100, "train") for seed in (0, 1)]
TASKS = [(corpus, triple) for corpus, triples in WORLDS for triple in triples]
THINK = "<think>I look for {} as the next link of the chain now.</think>"


def bridge(before: str, after: str, title: str) -> str:
    """Names that two sentences of a chain share: the queries of an honest proposer."""
    words = set(before.rstrip(".").split())
    return " ".join(word for word in after.rstrip(".").split() if word in words and word[0].isupper()) or title


def honest_searches(corpus, triple: Triple, passages: Sequence[Passage], rng: random.Random) -> list[Search]:
    searches = []
    for before, after in zip(triple.evidence, triple.evidence[1:], strict=False):
        reached = corpus.get(after.document)
        passages_shown = [reached, *rng.sample(passages, 2)]
        searches.append(
            Search(
                (bridge(before.text, after.text, reached.title),),
                "\n\n".join(passage.text for passage in passages_shown),
            )
        )
    return searches


def checked(corpus, triple: Triple, searches: list[Search], evidence: str | None = None, hops: int | None = None):
    """A proposal that asks the triple's question, after these searches."""
    turns = [THINK.format(search.queries[0]) for search in searches]
    message = (
        f"{THINK.format(triple.answer)}<question>{triple.question}</question><answer>{triple.answer}</answer>"
        f"<evidence>{triple.evidence[-1].text if evidence is None else evidence}</evidence>"
    )
    documents = [corpus.get(span.document) for span in triple.evidence]
    rollout = Rollout(hops or triple.hops or 1, documents[0].text, (*turns, message), tuple(searches))
    return check_proposal(parse_proposal(message), rollout, [(document.id, document.text) for document in documents])


def reward(
    checked_proposal: CheckedProposal, *, k: int = 2, plus: float = 1.0, minus: float = 0.0, rubric: str = "guarded"
) -> float:
    answers = {"plus": [i < 10 * plus for i in range(10)], "minus": [i < 10 * minus for i in range(10)]}
    # Documents beside those of the evidence are not needed.
    score = score_proposal(
        checked_proposal, solved=[i < k for i in range(5)], needed=checked_proposal.documents, **answers
    )
    return find_rubric(rubric, "proposer").total(score.components, score.gates)


def test_an_honest_proposer_earns_the_same_under_the_guards() -> None:
    rng = random.Random(5)
    proposals = [
        checked(corpus, triple, honest_searches(corpus, triple, list(corpus), rng)) for corpus, triple in TASKS
    ]
    assert all(
        proposal.valid and not proposal.leak and proposal.focused and proposal.anchored for proposal in proposals
    )
    assert all(proposal.format.reward == 1.0 for proposal in proposals)
    for proposal in proposals:
        assert reward(proposal, rubric="eve") == pytest.approx(1.85, abs=0.02)
        assert reward(proposal) == pytest.approx(reward(proposal, rubric="eve"))


def test_unrelated_searches_do_not_count() -> None:
    shallow = [pair for pair in TASKS if pair[1].hops == 1]
    rng = random.Random(1)
    for corpus, triple in shallow:
        passages = list(corpus)
        sampled = [rng.choice(passages) for _ in range(3)]
        proposal = checked(corpus, triple, [Search((p.title,), p.text) for p in sampled], hops=4)
        assert proposal.format.tool == 1.0
        assert reward(proposal) < 0.5 + 0.25 * 1.4
        assert reward(proposal, rubric="eve") > 1.8


def test_whole_documents_and_bare_answers_earn_less_than_sentences() -> None:
    rng = random.Random(2)
    for corpus, triple in TASKS:
        searches = honest_searches(corpus, triple, list(corpus), rng)
        fair = checked(corpus, triple, searches)
        document = checked(corpus, triple, searches, corpus.get(triple.evidence[-1].document).text)
        bare = checked(corpus, triple, searches, triple.answer)
        assert reward(bare, rubric="eve") > reward(fair, rubric="eve")
        assert not document.focused
        assert not bare.anchored
        assert reward(fair) > 1.0 > reward(document)
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
    assert {sample.rollout.hops for sample in samples} == {1, 2, 3, 4}
    proposals = [check_proposal(parse_proposal(sample.message), sample.rollout, sample.texts) for sample in samples]
    assert sum(proposal.span is not None for proposal in proposals) > 30
    with pytest.raises(DataError, match="too few"):
        make_samples(passages[:5], 1)
