"""A solution's score: equation 19 by hand, and the rewards of its exploits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from factgym.core.episode import SpanCredit
from factgym.datasets.multihop import read_triples, triple_file
from factgym.generators.multihop_world import world
from factgym.rewards.answer_matching import token_f1
from factgym.rewards.eve.rubrics import RUBRICS, SOLVER_COMPONENTS, SOLVER_GATES, EveRules, build_report, find_rubric
from factgym.rewards.eve.solution import score_solution
from factgym.rewards.eve.spans import contains_answer, parse_solution, span_json

PASSAGE = (
    "Lord Byron was an English poet. He left England in 1816 and never came back. "
    "Byron died of a fever at Missolonghi in 1824. His heart is buried there."
)
GOLD = "Byron died of a fever at Missolonghi in 1824."
QUESTION = "In which town did the poet Byron die?"
TEXTS = (("other", "Missolonghi is a town in Greece."), ("byron", PASSAGE))


def scored(
    answer: str = "Missolonghi", evidence: str = GOLD, *, golds=("Missolonghi", "Messolonghi"), gold=GOLD, **more
):
    text = f"<think>ok</think><answer>{answer}</answer>" + (f"<evidence>{evidence}</evidence>" if evidence else "")
    more = {"question": QUESTION, "texts": TEXTS, **more}
    return score_solution(parse_solution(text), golds, gold, **more)


def total(score, name: str) -> float:
    return find_rubric(name, "solver").total(score.components, score.gates)


@pytest.mark.parametrize(
    ("answer", "evidence", "eve"),
    [
        ("the Missolonghi!", GOLD, 1.3),
        ("messolonghi", "", 1.0),
        ("Athens", GOLD, 0.3),
        ("Missolonghi or Athens", "", 0.0),
        ("Missolonghi", "Byron died", 1 + 0.3 * 2 * 2 / (2 + 8)),
    ],
)
def test_the_published_sum(answer: str, evidence: str, eve: float) -> None:
    score = scored(answer, evidence)
    assert total(score, "eve") == pytest.approx(eve)
    assert total(score, "dr-zero") == score.components["correct"]
    assert set(score.components) == set(SOLVER_COMPONENTS)
    assert set(score.gates) == set(SOLVER_GATES)
    assert find_rubric("eve", "solver", EveRules(lambda_e=0.0)).total(score.components, score.gates) in (0.0, 1.0)


def test_several_gold_spans_are_compared_as_a_whole() -> None:
    golds = [GOLD, "His heart is buried there."]
    first, both = scored(gold=golds), scored(evidence=f"{GOLD} His heart is buried there.", gold=golds)
    assert both.components["evidence"] == pytest.approx(1.0)
    assert first.components["evidence"] == pytest.approx(token_f1(GOLD, " ".join(golds)))
    assert scored(gold=()).components["evidence"] == scored(gold=["", " "]).components["evidence"] == 0.0


def test_the_honest_solution_earns_the_maximum_under_every_preset() -> None:
    score = scored()
    assert [total(score, name) for name in RUBRICS["solver"]] == pytest.approx([1.3, 1.0, 1.3])
    assert all(value == 1.0 for value in score.gates.values())


EXPLOITS = {
    "from memory, no evidence": scored(evidence=""),
    "evidence that was never returned": scored(texts=TEXTS[:1]),
    "likely words in a bag": scored(evidence="Byron poet died town Missolonghi 1824 fever in of a at"),
    "the whole passage": scored(evidence=PASSAGE),
    "the bare answer": scored(evidence="Missolonghi"),
    "a sentence that does not hold the answer": scored(evidence="Lord Byron was an English poet."),
    "yes with any sentence": scored("yes", "Lord Byron was an English poet.", golds="yes"),
}
"""Right answers with bad evidence."""


@pytest.mark.parametrize("name", EXPLOITS)
def test_an_ungrounded_answer_has_half_its_point(name: str) -> None:
    score = EXPLOITS[name]
    assert score.components["correct"] == 1.0
    assert score.gates["grounded"] == 0.5
    assert total(score, "guarded") <= 0.5 + 0.3 * 0.4
    assert total(score, "eve") >= 1.0


def test_bags_and_dumps_earn_f1_only_unguarded() -> None:
    for name, least in (("likely words in a bag", 0.75), ("the whole passage", 0.4)):
        assert EXPLOITS[name].components["evidence"] > least
        assert total(EXPLOITS[name], "guarded") == 0.5


def test_gold_evidence_grounds_with_any_question() -> None:
    """The last hop of a chain, and a sentence that has one word to say: quoted verbatim they count in full."""
    texts = (("a", "Sel Velkar wrote songs. It was written by Marek Dolvin. It has six parts."),)
    gold = "It was written by Marek Dolvin."
    for question in ("What is the name of that person?", "Who is the teacher of the founder of the first town?"):
        score = scored("Marek Dolvin", gold, golds="Marek Dolvin", gold=gold, question=question, texts=texts)
        assert total(score, "guarded") == pytest.approx(1.3)
        bare = scored("Marek Dolvin", "Marek Dolvin", golds="Marek Dolvin", gold=gold, question=question, texts=texts)
        assert (bare.components["evidence"] > 0.3, bare.gates["grounded"]) == (True, 0.5)


@pytest.mark.parametrize("seed", [0, 2])
def test_every_gold_span_of_a_generated_world_grounds_its_answer(seed: int) -> None:
    corpus, triples = world(seed, 120, "validation")
    for triple in triples:
        span = triple.evidence[-1]
        score = score_solution(
            parse_solution(f"<answer>{triple.answer}</answer><evidence>{span.text}</evidence>"),
            triple.answers,
            span.text,
            question=triple.question,
            texts=[(span.document, corpus.get(span.document).text)],
        )
        assert total(score, "guarded") == pytest.approx(1.3), triple
        assert score.facts["evidence_span"] == span_json(span)


@pytest.mark.data
@pytest.mark.parametrize("name", ["hotpotqa", "2wikimultihopqa"])
def test_gold_facts_of_benchmarks_ground_their_answers(data_dir: Path, name: str) -> None:
    triples = read_triples(name, triple_file(name, data_dir))
    assert triples.corpus is not None
    grounded = []
    for triple in triples:
        spans = [span for span in triple.evidence if contains_answer(triple.answer, span.text)] or list(
            triple.evidence[-1:]
        )
        if not spans:
            continue
        score = score_solution(
            parse_solution(f"<answer>{triple.answer}</answer><evidence>{spans[0].text}</evidence>"),
            triple.answers,
            spans[0].text,
            question=triple.question,
            texts=[(spans[0].document, triples.corpus.get(spans[0].document).text)],
        )
        assert (score.components["correct"], score.components["evidence"]) == (1.0, pytest.approx(1.0))
        grounded.append(score.gates["grounded"])
    assert len(grounded) >= 160
    assert np.mean(grounded) > 0.98


@pytest.mark.parametrize("gold", [(), "Byron’s fever ended at “Missolonghi” — in 1824."])
def test_evidence_with_a_keyboards_marks_is_that_of_the_document(gold) -> None:
    """Models write straight quotation marks and hyphens where documents have typographic ones, and the other way round."""
    sentence = "Byron’s fever ended at “Missolonghi” — in 1824."
    texts = (("byron", f"The poet Byron left England in 1816. {sentence} His heart is buried there."),)
    copied = scored(evidence=sentence, gold=gold, texts=texts)
    typed = scored(evidence='Byron\'s fever ended at "Missolonghi" - in 1824.', gold=gold, texts=texts)
    assert typed.gates == copied.gates and typed.gates["grounded"] == 1.0
    assert typed.facts["evidence_span"] == copied.facts["evidence_span"]
    assert scored(evidence="Byrons fever ended at Missolonghi in 1824.", gold=gold, texts=texts).gates["grounded"] < 1


def test_without_gold_evidence_the_question_or_a_query_must_fit() -> None:
    texts = (("a", "Tarn Velk taught music. Tarn Velk was born in Molgrad in spring."),)
    solution = {"evidence": "Tarn Velk was born in Molgrad in spring.", "golds": "Molgrad", "gold": (), "texts": texts}
    question = "Which town does the teacher of the second queen come from?"
    assert scored("Molgrad", question=question, **solution).gates["grounded"] == 0.5
    assert scored("Molgrad", question=question, queries=["Tarn Velk"], **solution).gates["grounded"] == 1.0
    assert scored("Molgrad", question="Where was Velk born?", **solution).gates["grounded"] == 1.0


def test_another_form_of_the_answer_needs_the_evidence_that_holds_it() -> None:
    """An accepted form that the gold evidence lacks is no way round the sentence, and no obstacle to it either."""
    texts = [("byron", "Byron died of a fever. Byron died of a fever at Missolonghi in 1824. Mesolongi is a town.")]
    golds = ("Missolonghi", "Mesolongi")
    bare = "Byron died of a fever."
    assert scored("Missolonghi", bare, golds=golds, texts=texts).gates["backed"] == 0.0
    for form in golds:
        assert scored(form, bare, golds=golds, texts=texts).gates["grounded"] == 0.5
        assert scored(form, golds=golds, texts=texts).gates["grounded"] == 1.0
    # Where no form occurs in the gold evidence, as in a comparison, what is near the gold is evidence.
    assert scored("the poet", bare, golds="the poet", texts=texts).gates["grounded"] == 1.0


def test_yes_needs_evidence_near_the_gold_where_there_is_one() -> None:
    question = "Did Byron die of a fever?"
    assert scored("yes", golds="yes", question=question).gates["grounded"] == 1.0
    assert scored("yes", golds="yes", question=question, gold=()).gates["grounded"] == 1.0
    far = scored(
        "yes", "He left England in 1816 and never came back.", golds="yes", question="When did he leave England?"
    )
    assert far.gates["grounded"] == 0.5


def test_a_wrong_answer_earns_its_evidence_alone() -> None:
    assert total(scored("Athens"), "guarded") == pytest.approx(0.3)
    assert total(scored("Athens", PASSAGE), "guarded") == 0.0


def test_the_report_has_the_facts_for_evaluation() -> None:
    text = "So.\n<answer>Missolonghi</answer>\n<evidence>Byron died of a fever</evidence>"
    score = score_solution(parse_solution(text), "Missolonghi", GOLD, question=QUESTION, texts=TEXTS)
    report = build_report(score, find_rubric("eve", "solver"), message=2, metrics={"searches": 1})
    start = text.index("Missolonghi")
    assert report.spans[0] == SpanCredit(2, start, start + len("Missolonghi"), 1.0)
    assert report.spans[1].value == pytest.approx(0.3 * score.components["evidence"])
    metrics = report.metrics
    assert (metrics["em"], metrics["f1"], metrics["answer"], metrics["searches"]) == (True, 1.0, "Missolonghi", 1)
    assert (metrics["evidence_present"], metrics["evidence_verbatim"]) == (True, True)
    assert metrics["evidence_span"]["document"] == "byron"
    silent = build_report(scored("x", "", gold=()), find_rubric("eve", "solver")).metrics
    assert (silent["em"], silent["evidence_f1"], silent["evidence_present"], silent["evidence_span"]) == (
        False, None, False, None,
    )  # fmt: skip


def test_a_message_without_a_block_is_the_answer() -> None:
    score = score_solution(parse_solution(" Missolonghi. "), "Missolonghi", question=QUESTION)
    assert (score.components["correct"], score.facts["answer_tagged"]) == (1.0, False)


@pytest.mark.data
def test_squads_answers_are_contained_in_their_paragraphs(data_dir: Path) -> None:
    """SQuAD's answers are spans of their paragraphs; those that begin or end within a word are no whole words."""
    articles = json.loads((data_dir / "squad" / "dev-v1.1.json").read_text("utf-8"))["data"]
    contained = [
        contains_answer(answer["text"], paragraph["context"])
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        for answer in question["answers"]
    ]
    assert len(contained) == 34_726 and np.mean(contained) > 0.985
    assert contains_answer("Ada", "Ada’s notes") and contains_answer("Ada's notes", "ADA’S notes")
    assert not contains_answer("Ada", "Adas notes")
