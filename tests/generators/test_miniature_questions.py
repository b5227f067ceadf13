"""Questions of the miniature world: the gap hides a value of the passage, and each name belongs to one passage."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import pytest
from test_miniature_checks import FORMS

import factgym
from factgym.agents.resolve import find_agent
from factgym.core.errors import ConfigError
from factgym.generators.miniature import MiniatureQuestions

CONDITIONS = r"( in (spring|summer|autumn|winter)| for (members|guests|pupils|elders))?"
SPLITS = ("train", "validation", "test")


def parse(sentence: str) -> tuple[str, str, str]:
    """Subject, attribute and value of a sentence."""
    (match,) = (match for form in FORMS if (match := re.fullmatch(rf"{form}{CONDITIONS}\.", sentence)))
    return match["s"], match["a"], match["v"]


@pytest.mark.parametrize("split", SPLITS)
def test_the_gap_hides_the_answer_in_a_sentence_of_the_subjects_passage(split: str) -> None:
    questions = MiniatureQuestions(split, size=200)
    for triple in questions:
        match = re.fullmatch(r'What is missing in what is said of (\w+): "(.*)"\?', triple.question)
        assert match
        evidence = triple.evidence[0]
        assert match[2].replace("____", triple.answer) == evidence.text
        passage = questions.corpus.get(evidence.document)
        assert passage.text[evidence.start : evidence.end] == evidence.text
        lead, *facts = re.split(r"(?<=\.) ", passage.text)
        assert lead.startswith(f"{passage.title} is a")
        assert [parse(fact)[0] for fact in facts] == [passage.title] * 2
        assert parse(evidence.text)[2] == triple.answer
        assert match[1] == passage.title


def test_names_belong_to_one_passage_of_one_split() -> None:
    names: Counter[str] = Counter()
    for split in SPLITS:
        for passage in MiniatureQuestions(split, size=200).corpus:
            facts = re.split(r"(?<=\.) ", passage.text)[1:]
            names.update(
                {
                    passage.title,
                    *(value for fact in facts if (value := parse(fact)[2])[0].isupper() and " " not in value),
                }
            )
    assert max(names.values()) == 1


def test_a_smaller_world_is_a_prefix_and_pickles_as_its_arguments() -> None:
    small, large = MiniatureQuestions("train", seed=3, size=20), MiniatureQuestions("train", seed=3, size=60)
    assert list(small) == list(large)[:20]
    assert list(MiniatureQuestions("train", seed=4, size=20)) != list(small)
    copy = pickle.loads(pickle.dumps(small))
    assert list(copy) == list(small)
    assert copy.corpus.fingerprint() == small.corpus.fingerprint()


def test_the_teacher_earns_nearly_all_and_search_finds_the_passage() -> None:
    env = factgym.make("eve-solver", world="miniature", prompt="brief", top_k=1, max_turns=2)
    totals = []
    for index in range(40):
        env.reset(options={"task": index})
        policy = find_agent("teacher", "eve-solver").start(env, 0)
        while env.episode.stop is None:
            env.step(policy.act(env.policy_prompt(), env.available_tools()))
        totals.append(env.episode.report.total)
    assert sum(totals) / len(totals) > 1.2


def test_the_world_is_of_generated_questions_alone() -> None:
    with pytest.raises(ConfigError, match="world is a setting of generated questions"):
        factgym.make("eve-solver", world="miniature", source="hotpotqa", path=".")
