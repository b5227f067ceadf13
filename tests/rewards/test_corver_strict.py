"""The strict reward: each exploit earns less than the work, more support never costs, and honest text keeps its reward."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.rewards.corver.extraction import RuleExtractor
from factgym.rewards.corver.rubrics import REFERENCE, STRICT, CorverRules
from factgym.rewards.corver.score import CorverScore, score_completion
from tests.rewards.corver_paper import CASE_1, TableCounter

QUESTION = "When did the Philadelphia Flyers last win the Stanley Cup?"
SUPPORTED = "The Philadelphia Flyers won the Stanley Cup in 1975."
ALSO = "Bernie Parent played for the Philadelphia Flyers."
TRUISM = "Paris is the capital of France."
INVENTED = "Philipp Mehldau coached the Philadelphia Flyers."
PRONOUN = "He won it there and everyone said that this was great."

COUNTS = TableCounter(
    {
        ("Philadelphia", "Flyers", "Stanley", "Cup"): 12_323,
        ("Bernie", "Parent", "Philadelphia", "Flyers"): 40,
        ("Paris", "France"): 99_999,
        ("Philipp", "Mehldau", "Philadelphia", "Flyers"): 0,
    }
)


def score(thought: str, answer: str = "1975", question: str = QUESTION) -> CorverScore:
    text = f"<think>{thought}</think><answer>{answer}</answer>"
    return score_completion(text, ["1975"], COUNTS, RuleExtractor(), question=question)


def strict(thought: str, answer: str = "1975", question: str = QUESTION) -> float:
    scored = score(thought, answer, question)
    return STRICT.total(scored.components, scored.gates)


def published(thought: str, answer: str = "1975") -> float:
    scored = score(thought, answer)
    return REFERENCE.total(scored.components, scored.gates)


def rewards(thought: str, answer: str = "1975", question: str = QUESTION) -> list[tuple[float, str]]:
    return [(sentence.strict_reward, sentence.note) for sentence in score(thought, answer, question).sentences]


HONEST = f"{SUPPORTED} {ALSO}"


def test_honest_supported_sentences_earn_what_they_earn_as_published() -> None:
    scored = score(HONEST)
    assert (
        [sentence.strict_reward for sentence in scored.sentences]
        == [sentence.reward for sentence in scored.sentences]
        == [0.1, 0.1, 0.0]
    )
    assert strict(HONEST) == pytest.approx(published(HONEST))


def test_repeating_a_sentence_pays_as_published_and_costs_under_strict() -> None:
    mixed = f"{INVENTED} {SUPPORTED}"
    assert published(f"{mixed} {SUPPORTED} {SUPPORTED}") > published(mixed)
    assert strict(f"{mixed} {SUPPORTED} {SUPPORTED}") < strict(mixed)
    assert strict(" ".join([SUPPORTED] * 8)) < strict(SUPPORTED) < strict(SUPPORTED) + 1e-9
    assert rewards(f"{SUPPORTED} {SUPPORTED.upper()}")[1] == (-0.3, "repeated")


def test_saying_the_same_of_the_same_entities_in_other_words_earns_nothing() -> None:
    again = "The Stanley Cup was won by the Philadelphia Flyers."
    assert rewards(f"{SUPPORTED} {again}")[1] == (0.0, "same words")


def test_an_answer_may_restate_what_the_thought_said() -> None:
    assert rewards(SUPPORTED, SUPPORTED)[1] == (0.1, "")


def test_pronouns_dodge_the_penalty_as_published_and_not_under_strict() -> None:
    assert published(PRONOUN) > published(INVENTED)
    assert rewards(PRONOUN) == [(-0.3, "unchecked"), (-0.3, "unchecked")]
    assert strict(PRONOUN) <= strict(INVENTED) + 1e-9
    assert strict(f"{SUPPORTED} {PRONOUN}") < strict(HONEST)


def test_filling_up_with_what_cannot_be_checked_pays_less_than_support() -> None:
    assert published(f"{INVENTED} {PRONOUN}") > published(INVENTED)
    assert rewards(f"{SUPPORTED} {PRONOUN}")[1] == (-0.3, "unchecked")


def test_truisms_off_the_topic_earn_what_unsupported_sentences_do_where_the_question_is_known() -> None:
    assert rewards(f"{SUPPORTED} {TRUISM}")[1] == (-0.3, "off topic")
    assert rewards(f"{SUPPORTED} {TRUISM}", question="")[1] == (0.1, "")
    off_and_invented = TableCounter({})
    text = f"<think>{SUPPORTED} {TRUISM}</think><answer>1975</answer>"
    scored = score_completion(text, ["1975"], off_and_invented, RuleExtractor(), question=QUESTION)
    assert scored.sentences[1].strict_reward == -0.3


def test_a_topic_is_carried_on_by_what_is_on_it() -> None:
    assert rewards(f"{ALSO} {SUPPORTED}")[0] == (0.1, "")
    question = "Who won the Stanley Cup in 1975?"
    assert rewards(f"{SUPPORTED} {ALSO}", question=question)[1] == (0.1, "")
    assert rewards(f"{ALSO} {SUPPORTED}", question=question)[0] == (-0.3, "off topic")


def test_namesakes_are_off_the_topic() -> None:
    namesake = "Bernie Sanders lived in Paris."
    counts = TableCounter({}, 99)
    text = f"<think>{namesake}</think><answer>1975</answer>"
    scored = score_completion(text, "1975", counts, RuleExtractor(), question="Whom did Bernie Parent play for?")
    assert scored.sentences[0].note == "off topic"


def test_one_endless_sentence_earns_nothing() -> None:
    endless = SUPPORTED.removesuffix(".") + " and then" * 60
    assert rewards(endless)[0] == (-0.3, "too long")


def test_one_word_answers_and_dumps_of_candidates_are_not_right() -> None:
    dump = ", ".join(map(str, range(1960, 1990)))
    for answer in ("1", dump):
        assert published(HONEST, answer) == pytest.approx(published(HONEST), abs=0.1)
        assert strict(HONEST, answer) < strict(HONEST) - 2.5


def test_an_empty_think_block_has_no_format() -> None:
    assert strict("") < strict(HONEST) - 2
    assert strict("." * 60) < strict(HONEST) - 2
    assert strict("a" + "." * 60) < strict(HONEST) - 2


def test_white_space_that_makes_the_alignment_fail_costs_the_format() -> None:
    stretched = f"{INVENTED}{' ' * 500}{INVENTED.replace('coached', 'led')}"
    assert published(stretched) == 3.0
    assert strict(stretched) < strict(HONEST) - 1.9


def test_a_refusal_is_not_made_to_name_entities() -> None:
    text = "<think>unknown</think><answer>I dont know</answer>"
    scored = score_completion(text, ["1975"], COUNTS, RuleExtractor(), question=QUESTION)
    assert [sentence.strict_reward for sentence in scored.sentences] == [0.0, 0.0]
    assert STRICT.total(scored.components, scored.gates) == 0.0
    assert STRICT.total(scored.components, scored.gates) < strict(HONEST)


def test_without_a_counter_nothing_is_held_against_a_sentence() -> None:
    text = f"<think>{PRONOUN} {PRONOUN}</think><answer>1975</answer>"
    scored = score_completion(text, ["1975"], None, RuleExtractor(), question=QUESTION)
    assert scored.components["cooccurrence_strict"] == 0.0


SENTENCES = st.lists(
    st.sampled_from([SUPPORTED, ALSO, TRUISM, INVENTED, PRONOUN, "So.", CASE_1.answer[1].text]), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(SENTENCES, SENTENCES, st.integers(0, 30), st.integers(0, 30))
def test_more_support_never_costs(thought: list[str], answer: list[str], low: int, more: int) -> None:
    text = f"<think>{' '.join(thought)}</think><answer>{' '.join(answer)}</answer>"
    totals = []
    for count in (low, low + more):
        scored = score_completion(text, ["1975"], TableCounter({}, count), RuleExtractor(), question=QUESTION)
        totals.append(STRICT.total(scored.components, scored.gates))
        bounds = CorverRules()
        for sentence in scored.sentences:
            assert bounds.none_reward <= sentence.strict_reward <= bounds.high_reward
            assert sentence.strict_reward <= max(sentence.reward, 0.0)
    assert totals[0] <= totals[1] + 1e-12


@settings(max_examples=200, deadline=None)
@given(SENTENCES, st.integers(0, 40))
def test_a_repetition_never_raises_the_total(thought: list[str], count: int) -> None:
    def total(sentences: list[str]) -> float:
        text = f"<think>{' '.join(sentences)}</think><answer>1975</answer>"
        scored = score_completion(text, ["1975"], TableCounter({}, count), RuleExtractor(), question=QUESTION)
        sizes = [sentence.sentence.end - sentence.sentence.start for sentence in scored.sentences]
        # Without the blanks between sentences, which belong to none.
        return sum(
            sentence.strict_reward * size for sentence, size in zip(scored.sentences, sizes, strict=True)
        ) / sum(sizes)

    for sentence in set(thought):
        assert total([*thought, sentence]) <= total(thought) + 1e-12
