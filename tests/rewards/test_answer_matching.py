"""SQuAD's numbers from our normalisation, exact match and token F1."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.rewards.answer_matching import exact_match, normalise_answer, token_f1

PREDICTIONS = "pred_v1.1_Logistic_Regression_Baseline_Stanford_University.json"


def squad_scores(predictions: dict[str, str], golds: dict[str, list[str]]) -> tuple[float, float]:
    """EM and F1 in percent as SQuAD's `evaluate.py` reports them: a question without a prediction is wrong."""
    scored = [(predictions[key], texts) for key, texts in golds.items() if key in predictions]
    em, f1 = (sum(score(text, texts) for text, texts in scored) for score in (exact_match, token_f1))
    return 100.0 * em / len(golds), 100.0 * f1 / len(golds)


@pytest.mark.data
def test_squad_baseline_has_its_published_numbers(data_dir: Path) -> None:
    file = json.loads((data_dir / "squad/dev-v1.1.json").read_text("utf-8"))
    predictions = json.loads((data_dir / "squad" / PREDICTIONS).read_text("utf-8"))
    golds = {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in file["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    em, f1 = squad_scores(predictions, golds)
    assert len(golds) == 10_570
    assert len(golds.keys() - predictions.keys()) == 13
    assert f"{em:.4f} {f1:.4f}" == "40.1419 50.9815"


@pytest.mark.data
def test_r1_searchers_outputs_have_their_known_numbers(data_dir: Path) -> None:
    text = (data_dir / "r1_searcher_outputs/hotpotqa_qwen.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    em, f1 = squad_scores(
        {str(i): row["pred_ans"] for i, row in enumerate(rows)}, {str(i): [row["answer"]] for i, row in enumerate(rows)}
    )
    assert (len(rows), round(em, 2), round(f1, 2)) == (500, 57.60, 71.31)


def official_normalisation(text: str) -> str:
    """SQuAD v1.1's definition, step by step."""
    lowered = text.lower()
    bare = "".join(char for char in lowered if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


@given(
    st.lists(st.sampled_from(["The", "a", "AN", " ", "  ", "-", "'s", "“the”", "Élan", "U.S.", "\n", "x\x01the", "٣"]))
    .map("".join)
    .filter(bool)
    | st.text()
)
def test_normalisation_is_squads(text: str) -> None:
    assert normalise_answer(text) == official_normalisation(text)


def brute_f1(text: str, gold: str) -> float:
    tokens, gold_tokens = official_normalisation(text).split(), official_normalisation(gold).split()
    overlap = sum((Counter(tokens) & Counter(gold_tokens)).values())
    if not overlap:
        return 0.0
    precision, recall = overlap / len(tokens), overlap / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


WORDS = st.lists(st.sampled_from(["the", "a", "Ada", "Ada,", "king", "King", "1815", "1,815", "of"]), max_size=6).map(
    " ".join
)


@given(WORDS, st.lists(WORDS, max_size=3))
def test_scores_are_the_best_over_the_golds(text: str, golds: list[str]) -> None:
    assert token_f1(text, golds) == pytest.approx(max((brute_f1(text, gold) for gold in golds), default=0.0))
    assert exact_match(text, golds) == any(official_normalisation(text) == official_normalisation(g) for g in golds)


def test_a_single_gold_may_be_a_string() -> None:
    assert exact_match("The Eiffel Tower.", "eiffel tower")
    assert token_f1("a tower in Paris", "the Eiffel Tower") == pytest.approx(0.4)
