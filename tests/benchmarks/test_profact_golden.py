"""Our scores beside those of AVeriTeC's official scorer on the same predictions, to 1e-9."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from profact_cases import FEW, cases

from factgym.benchmarks.profact.report import ProFactReport, evaluate_predictions
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.datasets.averitec import LABELS, read_fact_checks
from factgym.rewards.profact.tokens import nltk_tokens, sentences, treebank_tokens

GOLDEN = json.loads((Path(__file__).parent / "profact_golden.json").read_text("utf-8"))
CASES = tuple(GOLDEN["cases"])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def punkt_tokens(text: str) -> list[str]:
    """The official scorer's tokens: sentences as Punkt cut them where our rule cuts otherwise."""
    cuts = GOLDEN["sentences"].get(digest(text))
    parts = sentences(text) if cuts is None else [text[start:end] for start, end in cuts]
    return [token for part in parts for token in treebank_tokens(part)]


def evaluated(case: str, data_dir: Path, tmp_path: Path, **options: Any) -> ProFactReport:
    folder = data_dir / "averitec"
    predictions = cases(folder)[case]
    file = tmp_path / f"{case}.json"
    file.write_text(json.dumps(predictions), "utf-8")
    checks = read_fact_checks(folder, "dev")
    few = checks if len(predictions) > FEW else checks[:FEW]
    return evaluate_predictions(file, few, limit=5 if case.endswith("_five") else 10, **options)


def numbers(report: ProFactReport) -> dict[str, float | None]:
    """As the golden file has them."""
    return {
        "question": report.question.value,
        "qa": report.qa.value,
        "acc": report.accuracy.value,
        "macro": report.macro_f1.value,
        **{label: report.f1[label].value for label in LABELS},
        **{f"averitec {cutoff}": one.value for cutoff, one in report.averitec.items()},
    }


def close(found: Mapping[str, float | None], expected: Mapping[str, float]) -> None:
    assert found == {name: pytest.approx(value, rel=0, abs=1e-9) for name, value in expected.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_official_numbers(case: str, data_dir: Path, tmp_path: Path) -> None:
    close(numbers(evaluated(case, data_dir, tmp_path, tokenize=punkt_tokens)), GOLDEN["cases"][case])


def test_with_the_rule_instead_of_punkt_the_scores_are_nearly_the_same(data_dir: Path, tmp_path: Path) -> None:
    found, expected = numbers(evaluated("hero_8b", data_dir, tmp_path)), GOLDEN["cases"]["hero_8b"]
    for name in expected:
        assert found[name] == pytest.approx(expected[name], abs=1e-5 if name in ("question", "qa") else 1e-9), name


def test_with_nltk_and_its_model_the_scores_are_the_official_ones(data_dir: Path, tmp_path: Path) -> None:
    nltk = pytest.importorskip("nltk", reason="needs NLTK: pip install 'factgym[nltk]'")
    if not nltk.__version__.startswith("3.10."):
        pytest.skip("the golden numbers are of NLTK 3.10, which cuts words otherwise than earlier versions")
    try:
        tokenize = nltk_tokens()
    except (ConfigError, MissingExtraError):
        pytest.skip("needs NLTK's model of sentences: python -m nltk.downloader punkt_tab")
    close(numbers(evaluated("hero_8b", data_dir, tmp_path, tokenize=tokenize)), GOLDEN["cases"]["hero_8b"])


def test_hero_has_the_accuracy_that_its_authors_publish(data_dir: Path, tmp_path: Path) -> None:
    report = evaluated("hero_8b", data_dir, tmp_path)
    assert report.accuracy.value == 0.702
    assert [report.labels[label].gold for label in LABELS] == [122, 305, 35, 38]


def test_cut_to_five_questions_hero_has_the_papers_qa_score(data_dir: Path, tmp_path: Path) -> None:
    found = numbers(evaluated("hero_8b_five", data_dir, tmp_path, tokenize=punkt_tokens))
    assert [round(100 * (found[name] or 0), 2) for name in ("question", "qa")] == [44.33, 30.54]
