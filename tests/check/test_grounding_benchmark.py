"""`factgym benchmark grounding`: what counts as right, evidence, official measures, LLM-AggreFact; and the confidences."""

from __future__ import annotations

import csv
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from commands import run_factgym

from factgym.agents.resolve import object_agent
from factgym.benchmarks.benchmark import Request
from factgym.check.answers import Answer
from factgym.check.benchmark import BENCHMARK, Claim, calibrate, is_fitted_on, report_on
from factgym.check.calibration import FEATURES, claim_features, read_calibrations, write_calibrations
from factgym.check.checker import Checker
from factgym.check.documents import CheckedDocuments
from factgym.check.grounding import Units, folded
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.corpus import Passage

DOC = "The mill opened in 1901 and was painted red. It has four floors and a wheel of oak."


def rows(*labelled: tuple[str, str, int]) -> str:
    return "\n".join(
        json.dumps({"dataset": name, "doc": DOC, "claim": claim, "label": label}) for name, claim, label in labelled
    )


AGGREFACT = rows(
    ("A", "The mill opened in 1901 and was painted red.", 1),
    ("A", "The mill opened in 1931 and was painted red.", 0),
    ("A", "It has four floors and a wheel of oak.", 0),
    ("B", "It has four floors and a wheel of oak.", 1),
    ("B", "The owner sold seven geese to a bishop.", 0),
)


@pytest.fixture
def aggrefact(tmp_path: Path) -> Path:
    (tmp_path / "test.jsonl").write_text(AGGREFACT, "utf-8")
    return tmp_path / "test.jsonl"


def test_the_layout_of_llm_aggrefact_is_scored_as_its_authors_do(aggrefact: Path, tmp_path: Path) -> None:
    outcome = BENCHMARK.run(Request(data=aggrefact, agents=("nli",), out=tmp_path / "out"))
    majority, nli = (result.report for result in outcome.results)
    # A: one of one supported right, one of two others; B: both right.
    assert nli.subsets == {"A": 0.75, "B": 1.0, "mean": 0.875}
    assert (nli.accuracy.value, majority.accuracy.value) == (0.8, 0.6)
    numbers = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert numbers[1]["report"]["confusion"]["counts"] == [[2, 0], [1, 2]]
    assert "LLM-AggreFact, nli" in (tmp_path / "out" / "report.html").read_text("utf-8")
    # Recorded runs say all that the scores need.
    again = BENCHMARK.run(Request(runs=(tmp_path / "out" / "aggrefact" / "nli",)))
    assert again.results[1].report == nli
    file = tmp_path / "out" / "aggrefact" / "nli" / "episodes.jsonl"
    text = file.read_text("utf-8")
    for change, message in (('"sets"', "lacks facts of the benchmark"), ('"data_set"', "no run of the grounding")):
        file.write_text(text.replace(change, '"other"'), "utf-8")
        with pytest.raises(DataError, match=message):
            BENCHMARK.run(Request(runs=(file.parent,)))


@pytest.mark.data
def test_scores_are_those_of_scikit_learn_on_the_labels_of_the_file(data_dir: Path, tmp_path: Path) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    request = Request(data=data_dir, only=("scifact",), agents=("lexical",), n=60, out=tmp_path)
    majority, lexical = (result.report for result in BENCHMARK.run(request).results)
    with (data_dir / "scifact" / "claims_validation.csv").open(encoding="utf-8") as file:
        labels = {f"scifact-{row['id']}": row["evidence_label"] for row in csv.DictReader(file)}
    names = {"SUPPORT": "supported", "CONTRADICT": "contradicted", "": "unsupported"}
    lines = (tmp_path / "scifact" / "lexical" / "episodes.jsonl").read_text("utf-8").splitlines()
    episodes = [json.loads(line) for line in lines]
    gold = [names[labels[episode["task"]]] for episode in episodes]
    verdicts = [episode["reward"]["metrics"]["verdict"] for episode in episodes]
    assert len(episodes) == 60 and set(verdicts) <= set(names.values())
    for report, predicted in ((lexical, verdicts), (majority, [max(set(gold), key=gold.count)] * 60)):
        assert report.accuracy.value == pytest.approx(sklearn.accuracy_score(gold, predicted))
        assert report.macro_f1.value == pytest.approx(sklearn.f1_score(gold, predicted, average="macro"))
        assert report.balanced_accuracy == pytest.approx(sklearn.balanced_accuracy_score(gold, predicted))
    assert lexical.accuracy.low < lexical.accuracy.value < lexical.accuracy.high
    assert 0 < lexical.official["sentence_label"] <= lexical.official["sentence_selection"] < 1


@pytest.mark.data
def test_answers_are_checked_end_to_end(data_dir: Path, tmp_path: Path) -> None:
    request = Request(data=data_dir, only=("factcheck-gpt",), agents=("lexical",), n=20, out=tmp_path)
    (_, result) = BENCHMARK.run(request).results
    assert {claim.gold for claim in result.report.claims} == {"supported", "unsupported"}
    assert result.report.answers.n == len({claim.group for claim in result.report.claims})


def test_a_data_set_has_to_be_there(tmp_path: Path, aggrefact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    with pytest.raises(ConfigError, match="needs data: give a folder or file with --data"):
        BENCHMARK.run(Request(out=tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"looked for wice/dev\.jsonl"):
        BENCHMARK.run(Request(data=tmp_path, only=("wice",), out=tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"no data set 'wise'\. Did you mean 'wice'"):
        BENCHMARK.run(Request(data=tmp_path, only=("wise",)))
    with pytest.raises(ConfigError, match="is one file: name one data set with --only"):
        BENCHMARK.run(Request(data=aggrefact, only=("wice", "fm2")))


@pytest.mark.parametrize(
    ("name", "status", "is_part", "counts_as"),
    [
        ("wice", "unsupported", True, "overclaim"),
        ("wice", "contradicted", False, "unsupported"),
        ("fm2", "unsupported", True, "contradicted"),
        ("fm2", "supported", False, "supported"),
        ("scifact", "overclaim", True, "unsupported"),
        ("aggrefact", "contradicted", False, "unsupported"),
        ("factcheck-gpt-claims", "overclaim", False, "overclaim"),
    ],
)
def test_statuses_count_as_the_nearest_that_a_data_set_has(
    name: Any, status: Any, is_part: bool, counts_as: str
) -> None:
    assert folded(name, status, is_part) == counts_as


def test_quotes_select_the_sentences_of_which_they_cover_half() -> None:
    passages = [Passage("7.1", "", "First here.\nThe second one."), Passage("7.2", "", "Third.")]
    units = Units(passages, by_line=True)
    assert units.covered([("7.1", 12, 27), ("7.2", 0, 6)]) == [["7", 1], ["7", 2]]
    assert units.covered([("7.1", 8, 20)]) == [["7", 1]]
    assert units.covered([("7.1", 0, 27), ("7.1", 12, 27)]) == [["7", 0], ["7", 1]]
    assert Units(passages, by_line=False).covered([("7.1", 0, 11)]) == [["7", 0]]


# Confidence


def drawn_claims(count: int, seed: int) -> list[Claim]:
    """Claims of which "supported" is right by a logistic curve over the share of quoted words, "unsupported" at random."""
    rng, claims = random.Random(seed), []
    for number in range(count):
        share, status = rng.random(), rng.choice(("supported", "unsupported"))
        features = dict(zip(FEATURES, (1.0, share, 1.0, 1.0, 0.0), strict=True))
        is_right = rng.random() < (1 / (1 + math.exp(3 - 6 * share)) if status == "supported" else 0.5)
        gold = status if is_right else "contradicted"
        claims.append(Claim(gold, status, status, features, (), (), f"document {number}", ""))  # type: ignore[arg-type]
    return claims


def test_confidence_is_the_share_of_right_statuses_on_documents_it_was_not_fitted_on(tmp_path: Path) -> None:
    report = report_on("scifact", drawn_claims(3000, 1))
    calibration = calibrate([report])
    assert calibration is not None
    low, high = (
        calibration.confidence("supported", dict(zip(FEATURES, (1.0, share, 1.0, 1.0, 0.0), strict=True)))
        for share in (0.1, 0.9)
    )
    assert (low, high) == pytest.approx((0.083, 0.917), abs=0.04)
    assert calibration.about["ece"] < 0.05
    assert calibration.about["fitted"] + calibration.about["held_out"] == 3000
    assert calibration.about["fitted"] == sum(map(is_fitted_on, report.claims))
    file = tmp_path / "confidence.json"
    write_calibrations(file, {"model": calibration})
    write_calibrations(file, {"other": calibration})
    stored = read_calibrations(file)
    assert set(stored) == {"model", "other"}
    assert stored["model"].confidence("overclaim", report.claims[0].features) == pytest.approx(
        calibration.confidence("overclaim", report.claims[0].features), abs=1e-3
    )


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"nli": 3}', '{"nli": {"weights": {"any": [1]}}}', '{"nli": {"features": []}}']
)
def test_a_broken_file_of_confidences(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match=r"c\.json"):
        read_calibrations(tmp_path / "c.json")


def test_shares_of_words_numbers_and_names_in_the_quotes() -> None:
    features = claim_features("In 1901 Anna Berg opened the mill.", ["The mill opened in 1901."], "Anna Berg")
    assert features == {"bias": 1.0, "words": 3 / 5, "numbers": 1.0, "names": 0.0, "part": 1.0}
    assert claim_features("It is red.", [], "It is red.") == {
        "bias": 1,
        "words": 0,
        "numbers": 1,
        "names": 1,
        "part": 0,
    }


def test_check_gives_a_confidence_to_calibrated_agents_alone(tmp_path: Path, aggrefact: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "mill.md").write_text(f"# The mill\n\n{DOC}\n", "utf-8")
    claim = "The mill opened in 1901 and was painted red."
    command = ["check", "--claim", claim, "--docs", "docs", "--json"]
    (answer,) = json.loads(run_factgym(command, tmp_path).stdout)["answers"]
    calibrated = read_calibrations()["rules"]
    features = claim_features(claim, [claim], "")
    assert answer["claims"][0]["confidence"] == pytest.approx(calibrated.confidence("supported", features))

    # An agent that was not calibrated has none, until its own file is named.
    class Policy:
        def act(self, messages: list[Any], tools: list[Any]) -> dict[str, Any]:
            entry = {"claim": claim, "status": "supported", "evidence_ids": [], "quote": ""}
            return {"tool": "submit", "arguments": {"claims": [entry], "final_verdict": "supported"}}

    agent, documents = object_agent(Policy()), CheckedDocuments(tmp_path / "docs")
    (checked,) = Checker(documents, agent).check([Answer("a", claim)])
    assert checked.claims[0].confidence is None
    (checked,) = Checker(documents, agent, calibrations={agent.name: calibrated}).check([Answer("a", claim)])
    assert 0 < checked.claims[0].confidence < 1


@pytest.mark.data
def test_supported_or_not_is_scored_for_each_agent(data_dir: Path, tmp_path: Path) -> None:
    """Against the shares counted here."""
    outcome = BENCHMARK.run(Request(data=data_dir, only=("fever-symmetric",), n=40, out=tmp_path))
    assert [result.agent for result in outcome.results] == ["majority", "rules", "embedding", "lexical"]
    rules = outcome.results[1].report
    green = [claim for claim in rules.claims if claim.verdict == "supported"]
    right = [claim for claim in green if claim.gold == "supported"]
    gold = [claim for claim in rules.claims if claim.gold == "supported"]
    assert rules.green["precision"].value == pytest.approx(len(right) / len(green))
    recalls = len(right) / len(gold), 1 - (len(green) - len(right)) / (len(rules.claims) - len(gold))
    assert rules.green["balanced"].value == pytest.approx(sum(recalls) / 2)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Not played, as they need weights: --agent verifier:FOLDER, --agent nli:FOLDER." in page
    assert "Too few supported claims to decide anything: fever-symmetric." in page
