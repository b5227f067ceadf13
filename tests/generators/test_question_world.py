"""The generated world: what its corpus states, how often, and which questions are asked about it."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from itertools import pairwise

import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import tokenize
from factgym.generators.question_world import SPLITS, TIERS, GeneratedQuestions, World, question_world
from factgym.rewards.corver.triplets import content_words
from tests.corpora.brute_force import brute_count

SENTENCE = re.compile(r"(?<=[.!?])\s+")


def test_popularity_is_the_number_of_sentences_that_name_subject_and_object() -> None:
    world = question_world()
    sentences = [sentence for passage in world.corpus for sentence in SENTENCE.split(passage.text)]
    for split in SPLITS:
        questions = GeneratedQuestions(split)
        for index in range(40):
            fact = questions.fact(index)
            stated = sum(fact.subject in sentence and fact.object in sentence for sentence in sentences)
            assert stated == questions[index].popularity == fact.statements, fact


def test_the_count_of_a_fact_is_its_popularity_and_falls_into_its_tier() -> None:
    documents = [tokenize(passage.text) for passage in question_world().corpus]
    questions = GeneratedQuestions("validation")
    for index in range(24):
        fact = questions.fact(index)
        words = [*content_words(fact.subject), *content_words(fact.object)]
        near = [document for document in documents if words[1] in document or words[0] in document]
        count = brute_count(near, [[word] for word in words], 1000, "window")
        low, high = TIERS[questions[index].meta["tier"]]
        assert low <= count <= high
        assert count == fact.statements


def test_the_corpus_states_nothing_false() -> None:
    world = question_world()
    objects = {fact.object for subject in world.subjects for fact in subject.facts if not fact.object.isdigit()}
    allowed = {subject.name: {subject.name, *(fact.object for fact in subject.facts)} for subject in world.subjects}
    for passage in world.corpus.passages[:400]:
        names = {name for name in objects if name in passage.text}
        longest = {name for name in names if not any(name != longer and name in longer for longer in names)}
        assert longest <= allowed[passage.title]


def test_popularity_follows_zipf_within_the_highest_tier() -> None:
    for kind in ("book", "person", "town"):
        subjects = [subject for subject in question_world().subjects if subject.kind.name == kind]
        counts = [subject.popularity for subject in subjects if subject.tier == "common"]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == 20 and counts[0] > 150


@pytest.mark.parametrize("split", SPLITS)
def test_every_four_questions_ask_for_one_fact_of_each_tier(split: str) -> None:
    questions = GeneratedQuestions(split)
    assert len(questions) == SPLITS[split]
    tiers = [question.meta["tier"] for question in questions]
    assert all(set(tiers[start : start + 4]) == set(TIERS) for start in range(0, len(tiers), 4))
    assert len({question.meta["statement"] for question in questions}) == len(questions)
    assert len({question.id for question in questions}) == len(questions)


def test_splits_share_no_subject_and_ood_asks_about_other_kinds() -> None:
    subjects = {split: {question.meta["subject"] for question in GeneratedQuestions(split)} for split in SPLITS}
    for first, second in pairwise([*SPLITS, "train"]):
        assert not subjects[first] & subjects[second]
    relations = {split: {question.meta["relation"] for question in GeneratedQuestions(split)} for split in SPLITS}
    assert not relations["ood"] & (relations["train"] | relations["validation"] | relations["test"])


def test_a_question_depends_on_seed_split_and_index_alone() -> None:
    full, part = GeneratedQuestions("test", seed=5), GeneratedQuestions("test", seed=5, size=10)
    assert full[:10] == part[:]
    assert full[3] != GeneratedQuestions("test", seed=6)[3]
    assert World(5).corpus.fingerprint() == question_world(5).corpus.fingerprint()
    assert World(5).corpus.fingerprint() != question_world(6).corpus.fingerprint()
    assert pickle.loads(pickle.dumps(question_world(5))) is question_world(5)
    assert pickle.loads(pickle.dumps(part))[:] == part[:]
    assert part.fingerprint() not in (full.fingerprint(), GeneratedQuestions("test", seed=6, size=10).fingerprint())


def test_questions_and_statements_name_their_subject_and_questions_not_their_answer() -> None:
    for split in SPLITS:
        for question in GeneratedQuestions(split):
            subject, statement, answer = question.meta["subject"], question.meta["statement"], question.aliases[0]
            assert subject in question.question
            assert subject in statement and answer in statement
            assert answer not in question.question
            assert len(set(question.aliases)) == len(question.aliases)


def test_last_names_are_unique() -> None:
    world = question_world()
    last = [subject.name.split()[-1] for subject in world.subjects if subject.kind.name != "company"]
    assert Counter(last).most_common(1)[0][1] == 1


def test_unknown_splits_and_impossible_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown split 'dev'"):
        GeneratedQuestions("dev")
    with pytest.raises(ConfigError, match="from 1 to 400, not 401"):
        GeneratedQuestions("test", size=401)
