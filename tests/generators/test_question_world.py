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
    sentences = [one for passage in world.corpus for one in SENTENCE.split(passage.text)]
    for split in SPLITS:
        questions = GeneratedQuestions(split)
        for place in range(0, 40):
            fact = questions.fact(place)
            stated = sum(fact.subject in one and fact.object in one for one in sentences)
            assert stated == questions[place].popularity == fact.statements, fact


def test_the_count_of_a_fact_is_its_popularity_and_falls_into_its_tier() -> None:
    documents = [tokenize(one.text) for one in question_world().corpus]
    questions = GeneratedQuestions("validation")
    for place in range(24):
        fact = questions.fact(place)
        words = [*content_words(fact.subject), *content_words(fact.object)]
        near = [one for one in documents if words[1] in one or words[0] in one]
        count = brute_count(near, [[word] for word in words], 1000, "window")
        low, high = TIERS[questions[place].meta["tier"]]
        assert low <= count <= high
        assert count == fact.statements


def test_the_corpus_says_nothing_false() -> None:
    world = question_world()
    objects = {fact.object for one in world.subjects for fact in one.facts if not fact.object.isdigit()}
    own = {one.name: {one.name, *(fact.object for fact in one.facts)} for one in world.subjects}
    for passage in world.corpus.passages[:400]:
        named = {name for name in objects if name in passage.text}
        assert {one for one in named if not any(one != other and one in other for other in named)} <= own[
            passage.title
        ]


def test_popularity_follows_zipf_within_the_highest_tier() -> None:
    for kind in ("book", "person", "town"):
        found = [one.popularity for one in question_world().subjects if one.kind.name == kind and one.tier == "common"]
        assert found == sorted(found, reverse=True)
        assert found[-1] == 20 and found[0] > 150


@pytest.mark.parametrize("split", SPLITS)
def test_every_four_questions_ask_for_one_fact_of_each_tier(split: str) -> None:
    questions = GeneratedQuestions(split)
    assert len(questions) == SPLITS[split]
    tiers = [one.meta["tier"] for one in questions]
    assert all(set(tiers[place : place + 4]) == set(TIERS) for place in range(0, len(tiers), 4))
    assert len({one.meta["statement"] for one in questions}) == len(questions)
    assert len({one.id for one in questions}) == len(questions)


def test_splits_share_no_subject_and_ood_asks_about_other_things() -> None:
    subjects = {split: {one.meta["subject"] for one in GeneratedQuestions(split)} for split in SPLITS}
    for one, other in pairwise([*SPLITS, "train"]):
        assert not subjects[one] & subjects[other]
    relations = {split: {one.meta["relation"] for one in GeneratedQuestions(split)} for split in SPLITS}
    assert not relations["ood"] & (relations["train"] | relations["validation"] | relations["test"])


def test_a_question_depends_on_seed_split_and_place_alone() -> None:
    whole, part = GeneratedQuestions("test", seed=5), GeneratedQuestions("test", seed=5, size=10)
    assert whole[:10] == part[:]
    assert whole[3] != GeneratedQuestions("test", seed=6)[3]
    assert World(5).corpus.fingerprint() == question_world(5).corpus.fingerprint()
    assert World(5).corpus.fingerprint() != question_world(6).corpus.fingerprint()
    assert pickle.loads(pickle.dumps(question_world(5))) is question_world(5)
    assert pickle.loads(pickle.dumps(part))[:] == part[:]
    assert part.fingerprint() not in (whole.fingerprint(), GeneratedQuestions("test", seed=6, size=10).fingerprint())


def test_questions_and_statements_name_their_subject_and_answers_do_not_stand_in_questions() -> None:
    for split in SPLITS:
        for one in GeneratedQuestions(split):
            assert one.meta["subject"] in one.question
            assert one.meta["subject"] in one.meta["statement"] and one.aliases[0] in one.meta["statement"]
            assert one.aliases[0] not in one.question
            assert len(set(one.aliases)) == len(one.aliases)


def test_names_are_unique_but_for_what_people_share() -> None:
    world = question_world()
    last = [one.name.split()[-1] for one in world.subjects if one.kind.name != "company"]
    assert Counter(last).most_common(1)[0][1] == 1


def test_sizes_and_splits_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown split 'dev'"):
        GeneratedQuestions("dev")
    with pytest.raises(ConfigError, match="from 1 to 400, not 401"):
        GeneratedQuestions("test", size=401)
