"""ProFact's evaluation: predictions, runs, the benchmark from claims to files, and the paper's tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pages import checked
from pages import printed as written
from profact_cases import FEW, cases
from typer.testing import CliRunner

from factgym.benchmarks.benchmark import Outcome, Request, baselines, chosen_agents
from factgym.benchmarks.page import report_page
from factgym.benchmarks.profact.benchmark import AVERITEC, BENCHMARK, GENERATED, data_sets, facts, paper_tables
from factgym.benchmarks.profact.report import ProFactReport, evaluate_predictions, evaluate_run, read_predictions
from factgym.cli.main import app
from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.datasets.averitec import LABELS, FactChecks, read_fact_checks
from factgym.rewards.profact.meteor import match_texts
from factgym.rewards.profact.stages import CUTOFFS
from factgym.text.treebank import nltk_tokens, sentences, treebank_tokens, word_tokens

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)


def play(out: Path, *agents: str, **more: Any) -> Outcome:
    return BENCHMARK.run(Request(agents=agents, out=out, **more))


def read(*runs: Path, **more: Any) -> Outcome:
    return BENCHMARK.run(Request(runs=runs, **more))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    out = tmp_path_factory.mktemp("profact")
    return play(out, "oracle", "workflow", n=8, paper=True), out


def gold_file(folder: Path, labels: tuple[str, ...] = LABELS) -> Path:
    file = folder / "dev.json"
    rows = [
        {
            "claim": f"The harbour has {i} cranes.",
            "label": label,
            "questions": [{"question": f"How many cranes has harbour {i}?", "answers": [{"answer": f"It has {i}."}]}],
        }
        for i, label in enumerate(labels)
    ]
    file.write_text(json.dumps(rows), "utf-8")
    return file


def checks(folder: Path) -> FactChecks:
    return read_fact_checks(gold_file(folder), "dev")


def prediction(claim_id: int, label: str, answer: str = "It has many.") -> Json:
    question = f"How many cranes has harbour {claim_id}?"
    return {"claim_id": claim_id, "evidence": [{"question": question, "answer": answer}], "pred_label": label}


def predictions(folder: Path, *rows: Json, name: str = "mine.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(rows), "utf-8")
    return file


class TestPredictions:
    def test_missing_predictions_count_as_zero_and_are_noted(self, tmp_path):
        file = predictions(tmp_path, prediction(0, LABELS[0]), prediction(2, LABELS[2]))
        report = evaluate_predictions(file, checks(tmp_path))
        assert (report.n, report.missing) == (4, 2)
        assert report.accuracy.value == 0.5
        assert report.no_label.value == 0.5
        assert report.question.value == pytest.approx(0.5, abs=0.01)
        assert any("2 claims without a prediction" in note for note in report.notes)

    def test_they_are_matched_by_claim_not_by_place(self, tmp_path):
        rows = [prediction(i, label) for i, label in enumerate(LABELS)]
        straight = evaluate_predictions(predictions(tmp_path, *rows), checks(tmp_path))
        turned = evaluate_predictions(predictions(tmp_path, *rows[::-1], name="turned.json"), checks(tmp_path))
        assert straight.accuracy.value == turned.accuracy.value == 1.0
        assert straight.qa == turned.qa

    def test_without_ids_the_place_counts(self, tmp_path):
        rows = [{**prediction(i, label)} for i, label in enumerate(LABELS)]
        for row in rows:
            del row["claim_id"]
        assert evaluate_predictions(predictions(tmp_path, *rows), checks(tmp_path)).accuracy.value == 1.0

    def test_a_score_at_the_cutoff_is_not_above_it(self, tmp_path, monkeypatch):
        from factgym.benchmarks.profact import report

        monkeypatch.setattr(report, "match_texts", lambda *_, **__: match_at(0.25))
        result = evaluate_predictions(predictions(tmp_path, prediction(0, LABELS[0])), checks(tmp_path)[:1])
        assert [result.averitec[cutoff].value for cutoff in CUTOFFS] == [1, 1, 0, 0, 0, 0]

    def test_labels_are_compared_letter_by_letter_as_the_scorer_does(self, tmp_path):
        file = predictions(tmp_path, prediction(0, "supported"), prediction(1, LABELS[1]))
        report = evaluate_predictions(file, checks(tmp_path)[:2])
        assert report.accuracy.value == 0.5
        assert any("none of the four" in note for note in report.notes)

    def test_words_for_no_answer_are_none(self, tmp_path):
        rows = [prediction(0, LABELS[0], "No answer could be found."), prediction(1, LABELS[1], "Two.")]
        assert evaluate_predictions(predictions(tmp_path, *rows), checks(tmp_path)[:2]).unanswered.value == 0.5

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"claim_id": 0, "evidence": "none"}, "'evidence' must be a list"),
            ({"claim_id": 0, "evidence": [{"question": "Who?"}]}, "an answer must be a text"),
            ({"claim_id": 0, "evidence": ["Who?"]}, "no object"),
            ({"claim_id": -1, "evidence": []}, "claim_id is '-1'"),
            ({"claim_id": 0, "evidence": [], "pred_label": 3}, "the label is '3'"),
            ({"claim_id": 0, "questions": [{"question": "Who?"}]}, "'questions' is not as in AVeriTeC's files"),
        ],
    )
    def test_invalid_predictions_are_named(self, tmp_path, row, message):
        with pytest.raises(DataError, match=r"mine\.json line 1 \(entry 1\): .*") as error:
            read_predictions(predictions(tmp_path, row))
        assert message in str(error.value)

    def test_a_claim_is_predicted_once(self, tmp_path):
        with pytest.raises(DataError, match=r"entry 2: claim 1 is predicted twice \(entry 1 too\)"):
            read_predictions(predictions(tmp_path, prediction(1, "Refuted"), prediction(1, "Refuted")))

    def test_predictions_of_another_split_are_refused(self, tmp_path):
        with pytest.raises(DataError, match="1 prediction of claims that the gold file does not have"):
            evaluate_predictions(predictions(tmp_path, prediction(77, "Refuted")), checks(tmp_path))
        second = {**prediction(1, "Refuted"), "claim": "Fish can sing."}
        with pytest.raises(DataError, match=r"claim 1 reads 'Fish can sing\.'"):
            evaluate_predictions(predictions(tmp_path, second), checks(tmp_path))

    @pytest.mark.parametrize("content", [b"[]", b"", b"{", b'[{"claim_id": 0}', b"\xff\xfe", b"[3]"])
    def test_files_that_are_no_predictions(self, tmp_path, content):
        file = tmp_path / "broken.json"
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"broken\.json"):
            read_predictions(file)


def match_at(score: float) -> Any:
    from factgym.rewards.profact.meteor import Matching

    return Matching(score, ())


class TestRuns:
    def test_the_oracle_answers_everything(self, small):
        outcome, _ = small
        report = outcome.results[0].report
        assert report.agent == "oracle"
        assert report.accuracy.value == report.macro_f1.value == 1.0
        assert report.qa.value > 0.95
        assert report.no_label.value == 0.0
        assert report.searches.value is not None
        assert report.stores
        assert report.seconds.value is not None

    def test_scores_are_those_that_follow_from_the_record(self, small):
        outcome, _ = small
        report = outcome.results[1].report
        lines = (Path(report.source) / "episodes.jsonl").read_text("utf-8").splitlines()
        result = []
        for line in lines:
            episode = json.loads(line)
            gold = episode["task_view"]["gold"]["questions"]
            requested = episode["reward"]["metrics"]["questions"]
            result.append(match_texts(requested, [item["question"] for item in gold]).score)
        assert report.question.value == pytest.approx(sum(result) / len(result))

    def test_faults_are_left_out_and_counted(self, small, tmp_path):
        outcome, _ = small
        source = Path(outcome.results[1].report.source)
        lines = (source / "episodes.jsonl").read_text("utf-8").splitlines()
        broken = {
            **json.loads(lines[0]),
            "error": {"cause": "server", "message": "gone"},
            "reward": None,
            "stop": "error",
        }
        run = tmp_path / "run"
        run.mkdir()
        (run / "manifest.json").write_bytes((source / "manifest.json").read_bytes())
        (run / "episodes.jsonl").write_text("\n".join([json.dumps(broken), *lines[1:]]) + "\n", "utf-8")
        report = evaluate_run(run)
        assert (report.n, report.errors) == (7, 1)
        assert "1 infrastructure error left out" in written(read(run))

    def test_tokens_are_summed_and_shown_for_a_claim(self, small, tmp_path):
        source = Path(small[0].results[1].report.source)
        lines = [json.loads(line) for line in (source / "episodes.jsonl").read_text("utf-8").splitlines()]
        for i, episode in enumerate(lines):
            episode |= {
                "usage": {"prompt_tokens": 1000 * (i + 1), "completion_tokens": 10, "requests": 3},
                "seconds": i,
            }
        (tmp_path / "episodes.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines), "utf-8")
        report = evaluate_run(tmp_path)
        assert report.usage is not None
        assert report.usage.tokens["prompt_tokens"].total == 36_000
        assert report.usage.tokens["completion_tokens"].per_episode.value == 10
        assert report.seconds.value == 3.5
        assert paper_tables({"mine": report})[1].rows[-1].cells[2:] == ("3.50", "0.04", "0.00", "4,500", "10")

    def test_hostile_metrics_do_no_harm(self, small, tmp_path):
        outcome, _ = small
        source = Path(outcome.results[1].report.source)
        episode = json.loads((source / "episodes.jsonl").read_text("utf-8").splitlines()[0])
        metrics = episode["reward"]["metrics"]
        metrics |= {"questions": 3, "pairs": [["one"], None], "searches": ["x"], "store": 7, "verdict": "[red]\u202e"}
        (tmp_path / "episodes.jsonl").write_text(json.dumps(episode) + "\n", "utf-8")
        report = evaluate_run(tmp_path)
        assert (report.n, report.questions.value, report.no_label.value) == (1, 0.0, 1.0)
        written(read(tmp_path))

    def test_a_run_of_another_environment_is_refused(self, small, tmp_path):
        episode = json.loads(
            (Path(small[0].results[0].report.source) / "episodes.jsonl").read_text("utf-8").splitlines()[0]
        )
        episode["reward"]["metrics"]["gold_verdict"] = "Attributable"
        (tmp_path / "episodes.jsonl").write_text(json.dumps(episode) + "\n", "utf-8")
        with pytest.raises(DataError, match="is this a run of a profact environment"):
            evaluate_run(tmp_path)

    def test_a_run_scored_anew_against_its_gold_has_the_same_scores(self, tmp_path):
        gold = gold_file(tmp_path)
        outcome = play(tmp_path / "runs", "workflow", data=gold)
        again = evaluate_run(outcome.results[0].report.source, checks=read_fact_checks(gold, "dev"))
        assert (again.question, again.qa) == (outcome.results[0].report.question, outcome.results[0].report.qa)
        assert again.split == "dev"
        assert "gold haystack" in again.stores


class TestBenchmark:
    def test_numbers_are_written_as_json(self, small):
        _, out = small
        result = json.loads((out / "report.json").read_text("utf-8"))
        assert [row["agent"] for row in result] == ["oracle", "workflow"]
        assert set(result[0]["report"]["averitec"]) == {str(cutoff) for cutoff in CUTOFFS}
        assert result[0]["report"]["accuracy"]["value"] == 1.0

    def test_it_goes_on_where_it_stopped(self, small):
        _, out = small
        before = (out / GENERATED / "workflow" / "episodes.jsonl").read_bytes()
        play(out, "workflow", n=8)
        assert (out / GENERATED / "workflow" / "episodes.jsonl").read_bytes() == before

    def test_our_rows_name_their_data(self, small):
        text = written(small[0])
        assert "oracle" in text
        assert "generated claims, on which no score of the paper is" in " ".join(text.split())
        assert "n 8" in " ".join(text.split())
        assert all(len(line) <= 80 for line in text.splitlines())

    def test_the_baselines_hold_no_exploiter(self):
        assert {"oracle", "workflow"} <= set(baselines("profact"))
        assert set(baselines("profact")) < set(chosen_agents("profact", ["scripted"]))

    def test_claims_are_found_by_path_or_variable(self, tmp_path, monkeypatch):
        gold = gold_file(tmp_path)
        (generated,) = data_sets()
        assert (generated.name, generated.path) == (GENERATED, None)
        (by_name,) = data_sets(gold)
        assert (by_name.name, by_name.path, by_name.config["split"]) == (AVERITEC, gold, "dev")
        assert data_sets(tmp_path, settings={"split": "train"})[0].config["split"] == "train"
        (tmp_path / "averitec").mkdir()
        gold_file(tmp_path / "averitec")
        monkeypatch.setenv("FACTGYM_DATA", str(tmp_path))
        assert data_sets()[0].path == tmp_path
        assert data_sets(only=[GENERATED])[0].path is None

    def test_wrong_data_sets(self, tmp_path):
        with pytest.raises(ConfigError, match="Did you mean 'averitec'"):
            data_sets(only=["averitek"])
        with pytest.raises(ConfigError, match="plays no file"):
            data_sets(tmp_path, only=[GENERATED])
        with pytest.raises(ConfigError, match="with --data"):
            data_sets(only=[AVERITEC])

    def test_the_page_is_whole(self, small):
        text = checked(report_page(small[0].report)).text
        for words in ("oracle", "workflow", "AVeriTeC score above 0.25", "not a reproduction", "seconds on the clock"):
            assert words in text

    def test_the_command_scores_predictions(self, tmp_path):
        file = predictions(tmp_path, *(prediction(i, label) for i, label in enumerate(LABELS)))
        gold = str(gold_file(tmp_path))
        done = CliRunner().invoke(
            app, ["benchmark", "profact", "--set", f"predictions={file}", "--data", gold, "--paper"]
        )
        assert done.exit_code == 0, done.output
        assert "AVeriTeC score > 0.25" in done.output
        assert "mine, 5 questions" in " ".join(done.output.split())

    def test_the_command_names_missing_data(self, tmp_path):
        file = predictions(tmp_path, prediction(0, LABELS[0]))
        with pytest.raises(ConfigError, match="scored against gold claims"):
            read(settings={"predictions": str(file)})


class TestPaper:
    def test_the_facts_are_of_one_shape(self):
        for table in ("table1", "table2"):
            result = facts(table)
            for row in result["rows"]:
                assert all(len(value) == len(result["llms"]) for key, value in row.items() if key != "method")

    def test_both_tables_have_published_and_own_rows(self, small):
        reports = {result.agent: result.report for result in small[0].results}
        first, second = paper_tables(reports)
        assert len(first.rows) == 5 * 4 + 2
        assert len(second.rows) == 2 * 4 + 2
        assert ("ProFact (theirs)", "Qwen2.5-7B", "45.26", "30.36", "70.20", "48.00") in [
            row.cells for row in first.rows
        ]
        assert first.rows[-2].cells[0] == "oracle (ours)"
        assert "14,520" in [cell for row in second.rows for cell in row.cells]


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["profact", "--run", "runs/x", "--agent", "workflow"], "leave out --agent"),
            (["profact", "--run", "runs/x"], "is no run"),
            (["profact", "--set", "predictions=none.json", "--data", "gone"], "does not exist"),
            (["profact", "--set", "index=bm52", "-n", "1"], "bm52"),
            (["seva", "--set", "predictions=dev.json"], "seva has no setting"),
        ],
    )
    def test_conflicting_options_are_refused(self, options, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(app, ["benchmark", *options])
        assert done.exit_code != 0
        assert message in str(done.exception)


# Our scores beside those of AVeriTeC's official scorer on the same predictions, to 1e-9.

GOLDEN = json.loads((Path(__file__).parent / "profact_golden.json").read_text("utf-8"))
CASES = tuple(GOLDEN["cases"])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def punkt_tokens(text: str) -> list[str]:
    """The official scorer's tokens: sentences as Punkt cut them where our rule cuts otherwise."""
    cuts = GOLDEN["sentences"].get(digest(text))
    parts = sentences(text) if cuts is None else [text[start:end] for start, end in cuts]
    return [token for part in parts for token in treebank_tokens(part)]


Evaluate = Callable[..., ProFactReport]


@pytest.fixture(scope="module")
def evaluated(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """A function from a case and a tokenizer to its report; each is computed once."""
    folder, files = data_dir / "averitec", tmp_path_factory.mktemp("cases")
    predictions_by_case, checks = cases(folder), read_fact_checks(folder, "dev")

    @cache
    def evaluate(case: str, tokenize: Callable[[str], list[str]] = word_tokens) -> ProFactReport:
        predictions, file = predictions_by_case[case], files / f"{case}.json"
        file.write_text(json.dumps(predictions), "utf-8")
        claims = checks if len(predictions) > FEW else checks[:FEW]
        return evaluate_predictions(file, claims, limit=5 if case.endswith("_five") else 10, tokenize=tokenize)

    return evaluate


def numbers(report: ProFactReport) -> dict[str, float | None]:
    """As the golden file has them."""
    return {
        "question": report.question.value,
        "qa": report.qa.value,
        "acc": report.accuracy.value,
        "macro": report.macro_f1.value,
        **{label: report.f1[label].value for label in LABELS},
        **{f"averitec {cutoff}": item.value for cutoff, item in report.averitec.items()},
    }


def close(scores: Mapping[str, float | None], expected: Mapping[str, float]) -> None:
    assert scores == {name: pytest.approx(value, rel=0, abs=1e-9) for name, value in expected.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_official_numbers(case: str, evaluated: Evaluate) -> None:
    close(numbers(evaluated(case, punkt_tokens)), GOLDEN["cases"][case])


def test_with_the_rule_instead_of_punkt_the_scores_are_nearly_the_same(evaluated: Evaluate) -> None:
    result, expected = numbers(evaluated("hero_8b")), GOLDEN["cases"]["hero_8b"]
    for name in expected:
        assert result[name] == pytest.approx(expected[name], abs=1e-5 if name in ("question", "qa") else 1e-9), name


def test_with_nltk_and_its_model_the_scores_are_the_official_ones(evaluated: Evaluate) -> None:
    nltk = pytest.importorskip("nltk", reason="needs NLTK: pip install 'factgym[nltk]'")
    if not nltk.__version__.startswith("3.10."):
        pytest.skip("the golden numbers are of NLTK 3.10, which cuts words otherwise than earlier versions")
    try:
        tokenize = nltk_tokens()
    except (ConfigError, MissingExtraError):
        pytest.skip("needs NLTK's model of sentences: python -m nltk.downloader punkt_tab")
    close(numbers(evaluated("hero_8b", tokenize)), GOLDEN["cases"]["hero_8b"])


def test_hero_has_the_accuracy_that_its_authors_publish(evaluated: Evaluate) -> None:
    report = evaluated("hero_8b")
    assert report.accuracy.value == 0.702
    assert [report.labels[label].gold for label in LABELS] == [122, 305, 35, 38]


def test_cut_to_five_questions_hero_has_the_papers_qa_score(evaluated: Evaluate) -> None:
    result = numbers(evaluated("hero_8b_five", punkt_tokens))
    assert [round(100 * (result[name] or 0), 2) for name in ("question", "qa")] == [44.33, 30.54]
