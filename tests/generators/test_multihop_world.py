"""The generated world: its facts and questions, that evidence is needed, and that it is the same everywhere."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import combinations

import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Corpus
from factgym.corpora.index import build_index
from factgym.datasets.multihop import Triple
from factgym.generators.multihop_world import MAX_SIZE, SPLITS, GeneratedTriples, world

NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+)*")


def normal(text: str) -> str:
    """SQuAD's normalisation, written again."""
    text = re.sub(r"[^\w\s]", "", text.lower())
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", text).split())


def sentences(corpus: Corpus) -> Counter[str]:
    return Counter(sentence for passage in corpus for sentence in re.split(r"(?<=\.) ", passage.text))


@pytest.mark.parametrize("split", SPLITS)
def test_evidence_is_one_verbatim_sentence_of_another_document_for_each_hop(split: str) -> None:
    corpus, triples = world(0, 200, split)
    counted = sentences(corpus)
    for triple in triples:
        assert len(triple.evidence) == triple.hops == len({item.document for item in triple.evidence})
        assert all(item.matches(corpus) for item in triple.evidence)
        assert all(counted[item.text] == 1 for item in triple.evidence)


def test_the_question_names_its_subject_alone_and_the_evidence_leads_from_it_to_the_answer() -> None:
    corpus, triples = world(1, 300, "train")
    titles = {passage.title for passage in corpus}
    for triple in triples:
        subject = triple.meta["subject"]
        assert subject in triple.question
        assert not any(title in triple.question for title in titles - {subject} if title not in subject)
        short = subject.split()[-1] if len(subject.split()) == 2 else subject
        for evidence, following in zip(triple.evidence, [*triple.evidence[1:], None], strict=True):
            assert subject in evidence.text or short in evidence.text
            if following is None:
                assert triple.answer in evidence.text
            else:
                steps = [name for name in titles if name in evidence.text and name not in (subject, short)]
                subject = next(name for name in steps if name in following.text or name.split()[-1] in following.text)
                short = subject.split()[-1]


def test_no_document_before_the_last_hop_gives_the_answer_away() -> None:
    corpus, triples = world(2, 300, "validation")
    by_title = {passage.title: passage for passage in corpus}
    for triple in triples:
        assert all(normal(answer) not in normal(triple.question) for answer in triple.answers)
        if triple.hops != 1:
            first = by_title[triple.meta["subject"]]
            earlier = [first, *(corpus.get(evidence.document) for evidence in triple.evidence[:-1])]
            assert not any(triple.answer in passage.text for passage in earlier)


def test_every_fact_and_every_question_occurs_once() -> None:
    corpus, triples = world(0, 400)
    assert len({triple.id for triple in triples}) == len({triple.question for triple in triples}) == len(triples)
    assert len({(triple.meta["subject"], *triple.meta["path"]) for triple in triples}) == len(triples)
    facts: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for triple in triples:
        if triple.hops == 1:
            facts[triple.meta["subject"], triple.meta["path"][0]].add(triple.answer)
    assert all(len(answers) == 1 for answers in facts.values())
    titles = {passage.title for passage in corpus}
    repeated = [sentence for sentence, count in sentences(corpus).items() if count > 1]
    assert not any(set(NAME.findall(sentence)) & titles for sentence in repeated)


def nearest(triple: Triple, pool: list[tuple[set[str], Triple]]) -> str:
    """The answer to the question that shares the largest part of its words."""
    words = set(normal(triple.question).split())
    ranked = [(len(words & near) / len(words | near), item.id, item) for near, item in pool if item is not triple]
    return max(ranked)[2].answer


def test_wording_alone_answers_nothing() -> None:
    """Guessers that know other questions with their answers, of another split and even of the same one."""
    test = world(0, 300, "test")[1]
    train_words, test_words = (
        [(set(normal(triple.question).split()), triple) for triple in triples]
        for triples in (world(0, 300, "train")[1], test)
    )
    answers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for triple in test:
        answers[triple.meta["path"][-1]][triple.answer] += 1

    def most_common(triple: Triple) -> str:
        counts = answers[triple.meta["path"][-1]].copy()
        counts[triple.answer] -= 1
        return counts.most_common(1)[0][0]

    right = Counter(
        {
            "nearest of train": sum(nearest(triple, train_words) in triple.answers for triple in test),
            "nearest of the same split": sum(nearest(triple, test_words) in triple.answers for triple in test),
            "most common of the same split": sum(most_common(triple) in triple.answers for triple in test),
        }
    )
    assert right["nearest of train"] <= 2  # a year can be hit by chance
    assert max(right.values()) / len(test) < 0.05, right
    assert max(Counter(triple.answer for triple in test).values()) <= 2


def test_one_search_finds_the_first_hop_and_not_the_last() -> None:
    corpus, triples = world(0, 400)
    hits = build_index(corpus).search([triple.question for triple in triples], 3)
    first: defaultdict[int | None, list[bool]] = defaultdict(list)
    last: defaultdict[int | None, list[bool]] = defaultdict(list)
    for triple, three in zip(triples, hits, strict=True):
        ids = {hit.id for hit in three}
        first[triple.hops].append(triple.evidence[0].document in ids)
        last[triple.hops].append(triple.evidence[-1].document in ids)
    assert all(sum(hits) / len(hits) > 0.9 for hits in first.values())
    assert all(sum(last[hops]) / len(last[hops]) < 0.15 for hops in (2, 3, 4))


@pytest.mark.parametrize("split", SPLITS)
def test_hops_are_in_the_proportion_of_the_paper_in_every_ten(split: str) -> None:
    triples = world(4, 100, split)[1]
    for start in range(0, 100, 10):
        assert Counter(triple.hops for triple in triples[start : start + 10]) == {1: 4, 2: 3, 3: 2, 4: 1}


def test_splits_and_seeds_share_no_names() -> None:
    worlds = [world(0, 200, split)[0] for split in SPLITS] + [world(9, 200, "test")[0]]
    titles = [{passage.title.split()[-1] for passage in corpus} - {"House", "University", "Prize"} for corpus in worlds]
    assert not any(first & second for first, second in combinations(titles[:3], 2))
    assert len(titles[2] & titles[3]) < 5
    ids = [set(corpus.ids) for corpus in worlds]
    assert not any(first & second for first, second in combinations(ids, 2))


def test_a_smaller_world_is_the_beginning_of_a_larger_one() -> None:
    small, large = GeneratedTriples("train", seed=5, size=37), GeneratedTriples("train", seed=5, size=200)
    assert large[:37] == small[:]
    assert set(small.corpus) <= set(large.corpus)
    assert small.fingerprint() != large.fingerprint()
    assert GeneratedTriples("train", seed=6, size=37)[0] != small[0]


def test_it_is_the_same_in_another_process_and_pickles_as_its_arguments() -> None:
    corpus, triples = world(7, 60, "test")
    code = (
        "from factgym.generators.multihop_world import world; c, t = world(7, 60, 'test');"
        " print(c.fingerprint(), hash(t[59].question) and t[59].question)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert output.stdout.strip() == f"{corpus.fingerprint()} {triples[59].question}"
    again = pickle.loads(pickle.dumps(triples))
    assert again is triples and len(pickle.dumps(triples)) < 300
    assert world(7, 60, "test")[1] is triples


def test_many_worlds_can_be_generated() -> None:
    for seed in range(20):
        assert len(GeneratedTriples("test", seed=seed, size=30)) == 30
    corpus, triples = world(0, 2_000, "validation")
    assert len(triples) == 2_000 and len({passage.title for passage in corpus}) == len(corpus)


def test_answers_list_the_usual_ways_to_write_them() -> None:
    triples = world(0, 400)[1]
    dates = [triple.answers for triple in triples if triple.meta["path"][-1] == "birthday"]
    for day_first, month_first in dates:
        assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+ \d{4}", day_first)
        assert re.fullmatch(r"[A-Z][a-z]+ \d{1,2}, \d{4}", month_first)
    rivers = [triple.answers for triple in triples if triple.meta["path"][-1] == "river"]
    assert all(first == f"River {name}" and second == f"{name} River" for first, name, second in rivers)
    assert dates and rivers
    assert all(len(set(triple.answers)) == len(triple.answers) for triple in triples)


def test_unknown_splits_and_impossible_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown split 'tests'.*Did you mean 'test'"):
        world(0, 10, "tests")
    for size in (0, -1, MAX_SIZE + 1):
        with pytest.raises(ConfigError, match="from 1 to 5,000"):
            world(0, size)
    assert [len(world(split=split)[1]) for split in SPLITS] == list(SPLITS.values())
