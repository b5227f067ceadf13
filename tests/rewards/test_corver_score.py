"""The reward on the paper's own examples: every sentence of its two traces, and its three aggregation rules."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import build_index, memory_index
from factgym.corpora.cooccurrence.sources import Source
from factgym.rewards.corver.extraction import RuleExtractor
from factgym.rewards.corver.rubrics import COMPONENTS, GATES, REFERENCE, RUBRICS, STRICT, CorverRules, find_rubric
from factgym.rewards.corver.score import CorverScore, reward_report, score_completion, score_many
from factgym.rewards.corver.triplets import Triplet, build_query
from perf.corver import Plan, measure_corver
from tests.rewards.corver_paper import CASE_1, CASES, WORKED, WORKED_TRIPLETS, Case, TableCounter, TableExtractor


def traced(case: Case) -> tuple[TableCounter, TableExtractor]:
    counts = {build_query(sentence.triplet): sentence.count for sentence in case.sentences}
    return TableCounter(counts), TableExtractor({sentence.text: [sentence.triplet] for sentence in case.sentences})


@pytest.mark.parametrize("case", CASES, ids=("case-1", "case-2"))
def test_every_sentence_of_the_papers_traces_earns_what_the_paper_prints(case: Case) -> None:
    score = score_completion(case.text, case.gold, *traced(case))
    assert [sentence.sentence.text for sentence in score.sentences] == [sentence.text for sentence in case.sentences]
    assert [sentence.sentence.block for sentence in score.sentences] == ["think"] * len(case.thought) + ["answer"] * 2
    assert score.counts == tuple(sentence.count for sentence in case.sentences)
    assert [sentence.reward for sentence in score.sentences] == [sentence.reward for sentence in case.sentences]
    assert score.label == "good"
    assert score.format_ok
    places = [case.text.index(sentence.text) for sentence in case.sentences]
    assert [sentence.sentence.start for sentence in score.sentences] == places


@pytest.mark.parametrize("case", CASES, ids=("case-1", "case-2"))
def test_the_total_is_the_response_return_and_the_mean_over_the_blocks_characters(case: Case) -> None:
    score = score_completion(case.text, case.gold, *traced(case))
    thought, answer = case.text[8:].split(" </think> <answer> ")
    chars = len(thought) + len(answer.removesuffix(" </answer>"))
    by_hand = sum(sentence.reward * len(sentence.text) for sentence in case.sentences) / chars
    report = reward_report(score, REFERENCE, message=3)
    assert report.total == pytest.approx(2 + 1 + by_hand, abs=1e-12)
    assert report.components["cooccurrence_mean"] == pytest.approx(
        math.fsum(sentence.reward for sentence in case.sentences) / len(case.sentences)
    )
    earning = [(3, case.text.index(sentence.text), sentence.reward) for sentence in case.sentences if sentence.reward]
    assert [(span.message, span.start, span.value) for span in report.spans] == earning
    assert report.metrics["counts"] == [sentence.count for sentence in case.sentences]


def worked(rule: str, counts: dict[tuple[str, ...], int]) -> tuple[float, int | None]:
    """Reward and count of the worked example's first sentence, which the paper gives both triplets."""
    first, second = WORKED_TRIPLETS
    table = {build_query(first): 50, build_query(second): 0, **counts}
    extractor = TableExtractor({WORKED.split(". ")[0] + ".": WORKED_TRIPLETS})
    score = score_completion(WORKED, "x", TableCounter(table), extractor, CorverRules(rule=rule))
    return score.sentences[0].reward, score.sentences[0].count


RELATION_QUERY = ("Mario", "Camerini", "Il", "Seduttore", "directed")


def test_first_takes_the_first_triplet() -> None:
    assert worked("first", {}) == (0.1, 50)


def test_min_takes_the_lowest_count() -> None:
    assert worked("min", {}) == (-0.3, 0)


def test_relcheck_keeps_a_pair_whose_relation_is_seen_as_well() -> None:
    assert worked("relcheck", {RELATION_QUERY: 3}) == (0.1, 50)


def test_relcheck_demotes_a_pair_whose_relation_is_never_seen() -> None:
    assert worked("relcheck", {RELATION_QUERY: 0}) == (-0.05, 50)


def test_relcheck_asks_again_only_from_the_highest_tier_on() -> None:
    triplet = Triplet("Sophia Loren", "directed", "Il Seduttore")
    counter = TableCounter({build_query(triplet): 19})
    extractor = TableExtractor({"S.": [triplet]})
    score = score_completion("S.", "x", counter, extractor, CorverRules(rule="relcheck"))
    assert score.sentences[0].reward == 0.0
    assert counter.calls == 1


@pytest.mark.parametrize(
    ("count", "reward"), [(None, 0.0), (0, -0.3), (1, -0.1), (4, -0.1), (5, 0.0), (19, 0.0), (20, 0.1), (10**9, 0.1)]
)
def test_the_tiers_are_those_of_equation_2(count: int | None, reward: float) -> None:
    assert CorverRules().count_reward(count) == reward


def test_only_the_first_valid_triplet_counts_even_when_it_makes_no_query() -> None:
    triplets = [Triplet("He", "met", "Anna Karenina"), Triplet("Vronsky", "is", "vronsky"), Triplet("Ab", "r", "Cd")]
    score = score_completion("S.", "x", TableCounter({}, 99), TableExtractor({"S.": triplets}))
    assert score.sentences[0].query is None
    assert score.sentences[0].reward == 0.0


def test_sentences_and_queries_of_a_batch_are_counted_once_in_one_call() -> None:
    texts = [case.text for case in CASES] * 8
    counter = TableCounter({}, 7)
    scores = score_many(texts, [case.gold for case in CASES] * 8, counter, RuleExtractor())
    assert counter.calls == 1
    assert len(counter.queries) == len(set(counter.queries))
    alone = [score_completion(case.text, case.gold, TableCounter({}, 7), RuleExtractor()) for case in CASES]
    assert scores == alone * 8


def test_without_a_counter_the_sentence_term_is_zero_and_the_report_says_so() -> None:
    score = score_completion(CASES[0].text, "1975", None, RuleExtractor(), question=CASES[0].question)
    report = reward_report(score)
    assert report.total == 3.0
    assert report.spans == ()
    assert report.metrics["notes"] == ["no counter: the sentence term is 0"]
    assert set(score.counts) == {None}


def test_components_and_gates_serve_every_preset() -> None:
    score = score_completion(CASES[0].text, "1975", *traced(CASES[0]))
    assert set(score.components) == set(COMPONENTS)
    assert set(score.gates) == set(GATES)
    for rubric in RUBRICS.values():
        rubric.check(COMPONENTS, GATES)


def test_the_ablations_are_rubrics_of_their_own() -> None:
    score = score_completion(CASES[0].text, "1975", *traced(CASES[0]))
    parts = score.components

    def total(name: str) -> float:
        return find_rubric(name).total(parts, score.gates)

    assert total("reference-no-cooccurrence") == 3.0
    assert total("reference-no-judge") == pytest.approx(1 + parts["cooccurrence"])
    assert total("reference-no-alignment") == pytest.approx(3 + (0.1 * 4 - 0.3) / 5)
    both = find_rubric("strict-no-judge-no-cooccurrence")
    assert (both.name, dict(both.weights)) == ("strict-no-cooccurrence-no-judge", {"format_strict": 1.0})
    assert find_rubric("strict") is STRICT
    assert find_rubric("reference", judged_by="boundary").weights["judge_boundary"] == 1.0
    with pytest.raises(ConfigError, match="Did you mean 'strict'"):
        find_rubric("stict")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rule": "last"}, "rule should be"),
        ({"low_count": 30}, "low_count"),
        ({"none_reward": 0.5}, "must not fall"),
        ({"min_alignment": 2.0}, "at most 1"),
        ({"high_reward": float("nan")}, "finite"),
        ({"low_count": 1.5}, "valid integer"),
    ],
)
def test_rules_out_of_range_are_refused(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CorverRules(**setting)


def test_over_a_real_index_sentences_earn_by_the_corpus_counts() -> None:
    counter = memory_index(
        [f"Ann Lee met Bob Ray in Rome, number {n}." for n in range(25)] + ["Cid Fox met Dan Orr."], semantics="window"
    )
    text = (
        "<think>Ann Lee met Bob Ray. Cid Fox met Dan Orr. Ann Lee met Dan Orr.</think>"
        "<answer>Bob Ray met Ann Lee</answer>"
    )
    score = score_completion(text, "Bob Ray", counter, RuleExtractor())
    assert score.counts == (25, 1, 0, 25)
    assert [sentence.reward for sentence in score.sentences] == [0.1, -0.1, -0.3, 0.1]


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=3), st.sampled_from(["first", "min", "relcheck"]))
def test_no_text_makes_the_reward_raise_and_every_part_stays_in_its_range(
    text: str, gold: list[str], rule: str
) -> None:
    for completion in (text, f"<think>{text}. Paris is in {text}</think><answer>{text}"):
        score = score_completion(completion, gold, INDEX, RuleExtractor(), CorverRules(rule=rule), question=text)
        for rubric in RUBRICS.values():
            report = reward_report(score, rubric)
            assert -2.3 - 1e-9 <= (report.total or 0.0) <= 3.1 + 1e-9
            json.dumps(report.to_dict())


INDEX = memory_index(["Paris is in France. " * 30, "Ann met Bob."])

PEOPLE = ("Ann Lee", "Bob Ray", "Cid Fox", "Dan Orr", "Rome-Oslo", "Nobody")
WORLD = memory_index(
    [
        f"{person} met {limited} in Rome-Oslo."
        for i, person in enumerate(PEOPLE[:4])
        for limited in PEOPLE[:i]
        for _ in range(7 * i)
    ]
    + ["Dan Orr wrote to Ann Lee."] * 4
)
TABLE = TableCounter({("Ann", "Lee", "Bob", "Ray"): 4}, 33)
statements = st.builds(
    "{} {} {}.".format, st.sampled_from(PEOPLE), st.sampled_from(["met", "wrote to"]), st.sampled_from(PEOPLE)
)


@given(
    st.lists(statements, min_size=1, max_size=8),
    statements,
    st.sampled_from(["first", "min", "relcheck"]),
    st.integers(5, 40),
)
def test_counting_to_the_last_tier_changes_no_reward(thought: list[str], answer: str, rule: str, high: int) -> None:
    text = f"<think>{' '.join(thought)}</think><answer>{answer}</answer>"
    exact = CorverRules(rule=rule, high_count=high)
    for counter in (WORLD, TABLE):
        full, bounded = (
            score_completion(text, "Ann Lee", counter, RuleExtractor(), rules, question=answer)
            for rules in (exact, replace(exact, exact_counts=False))
        )
        assert full.components == bounded.components
        for sentence, limited in zip(full.sentences, bounded.sentences, strict=True):
            assert sentence._replace(count=None, relation_count=None) == limited._replace(
                count=None, relation_count=None
            )
            expected = None if rule == "min" or sentence.count is None else min(sentence.count, high)
            assert limited.count == (sentence.count if rule == "min" else expected)
            assert bool(sentence.relation_count) == bool(limited.relation_count)


# The strict reward: each exploit earns less than the work, more support never costs, and honest text keeps its reward

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


def test_a_paraphrase_about_the_same_entities_earns_nothing() -> None:
    again = "The Stanley Cup was won by the Philadelphia Flyers."
    assert rewards(f"{SUPPORTED} {again}")[1] == (0.0, "same words")


def test_an_answer_may_restate_the_thought() -> None:
    assert rewards(SUPPORTED, SUPPORTED)[1] == (0.1, "")


def test_pronouns_dodge_the_penalty_as_published_and_not_under_strict() -> None:
    assert published(PRONOUN) > published(INVENTED)
    assert rewards(PRONOUN) == [(-0.3, "unchecked"), (-0.3, "unchecked")]
    assert strict(PRONOUN) <= strict(INVENTED) + 1e-9
    assert strict(f"{SUPPORTED} {PRONOUN}") < strict(HONEST)


def test_padding_with_unchecked_sentences_pays_less_than_support() -> None:
    assert published(f"{INVENTED} {PRONOUN}") > published(INVENTED)
    assert rewards(f"{SUPPORTED} {PRONOUN}")[1] == (-0.3, "unchecked")


@pytest.mark.parametrize(
    "text", ["I'll look at the question once more.", "Step 1: Identify the team.", "Let us compare the years.", "So."]
)
def test_a_sentence_without_a_fact_counts_as_if_it_were_not_there(text: str) -> None:
    for thought in (SUPPORTED, INVENTED):
        assert rewards(f"{thought} {text}")[1] == (pytest.approx(rewards(thought)[0][0], abs=0.03), "no fact")
        assert strict(f"{thought} {text}") == pytest.approx(strict(thought), abs=0.03)  # but for spaces between
    assert score(text).components["cooccurrence_strict"] == pytest.approx(
        -0.3, abs=0.02
    )  # alone it is no way around one


@pytest.mark.parametrize(
    "sentence",
    [
        "Philadelphia belongs to Flyers.",
        "Stanley is a part of Cup.",
        "The Flyers play in Philadelphia.",
        "Bernie is Parent.",
    ],
)
def test_a_name_taken_apart_connects_nothing(sentence: str) -> None:
    counter = TableCounter({}, 50)
    text = f"<think>{sentence} {ALSO}</think><answer>1975</answer>"
    for question in (QUESTION, QUESTION.lower()):
        scored = score_completion(text, ["1975"], counter, RuleExtractor(), question=question)
        assert scored.sentences[0].reward == 0.1
        assert (scored.sentences[0].strict_reward, scored.sentences[0].note) == (-0.3, "one name")
        assert scored.sentences[1].strict_reward == 0.1


def test_truisms_off_the_topic_earn_what_unsupported_sentences_do_where_the_question_is_known() -> None:
    assert rewards(f"{SUPPORTED} {TRUISM}")[1] == (-0.3, "off topic")
    assert rewards(f"{SUPPORTED} {TRUISM}", question="")[1] == (0.1, "")
    off_and_invented = TableCounter({})
    text = f"<think>{SUPPORTED} {TRUISM}</think><answer>1975</answer>"
    scored = score_completion(text, ["1975"], off_and_invented, RuleExtractor(), question=QUESTION)
    assert scored.sentences[1].strict_reward == -0.3


def test_sentences_on_topic_extend_the_topic() -> None:
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
    assert STRICT.total(scored.components, scored.gates) == 0.5  # format 1, judge -0.5: more than a wrong answer's -1
    assert scored.components["judge"] == -1.0
    assert STRICT.total(scored.components, scored.gates) < strict(HONEST)


def test_without_a_counter_nothing_is_held_against_a_sentence() -> None:
    text = f"<think>{PRONOUN} {PRONOUN}</think><answer>1975</answer>"
    scored = score_completion(text, ["1975"], None, RuleExtractor(), question=QUESTION)
    assert scored.components["cooccurrence_strict"] == 0.0


SENTENCES = st.lists(
    st.sampled_from([SUPPORTED, ALSO, TRUISM, INVENTED, PRONOUN, "So.", CASE_1.answer[1].text]), max_size=8
)


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
            assert sentence.note == "no fact" or sentence.strict_reward <= max(sentence.reward, 0.0)
    assert totals[0] <= totals[1] + 1e-12


@given(SENTENCES, st.integers(0, 40))
def test_a_repetition_never_raises_the_total(thought: list[str], count: int) -> None:
    def total(sentences: list[str]) -> float:
        text = f"<think>{' '.join(sentences)}</think><answer>1975</answer>"
        scored = score_completion(text, ["1975"], TableCounter({}, count), RuleExtractor(), question=QUESTION)
        sizes = [sentence.sentence.end - sentence.sentence.start for sentence in scored.sentences]
        # Without the blanks between sentences, which belong to none.
        return sum(sentence.strict_reward * size for sentence, size in zip(scored.sentences, sizes, strict=True)) / sum(
            sizes
        )

    for sentence in set(thought):
        assert total([*thought, sentence]) <= total(thought) + 1e-12


# The reward's speed benchmark measures what it says, on a text and on an index of it


def test_every_stage_has_its_row(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(sentence.text for case in CASES for sentence in case.sentences) * 3, "utf-8")
    build_index(Source(text), tmp_path / "corpus.cooc", memory_mb=64, workers=1)
    for index in (None, tmp_path / "corpus.cooc"):
        lines = list(measure_corver(Plan(index, text, batches=1, processes=1)))
        assert re.search(r"384 completions, 1,[0-9]{3} sentences each; an index of [0-9]+ tokens", lines[0])
        names = [
            "sentences, new",
            "first batch",
            "whole reward",
            "whole, again",
            "whole, exact",
            "split",
            "extract",
            "count",
            "count, exact",
            "align",
            "whole, groups",
        ]
        assert [line.split("  ")[1].strip() for line in lines[1:]] == names
        assert all(int(re.findall(r"([0-9,]+) sentences/s", line)[0].replace(",", "")) > 0 for line in lines[1:])


def test_an_index_needs_its_text() -> None:
    with pytest.raises(ConfigError, match="--text"):
        list(measure_corver(Plan(index=Path("x.cooc"))))
