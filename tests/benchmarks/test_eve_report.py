"""EVE's evaluation of recorded runs: exact match, judged evidence, the joint rate, presence; who judged, and on what.

The numbers are checked against a brute-force count over the same records, and the intervals against SciPy's Wilson.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from eve_runs import episode, write_run
from pages import checked, printed
from scipy.stats import binomtest
from typer.testing import CliRunner

from factgym.agents.judges.base import Judge, JudgeError, Judgement
from factgym.agents.judges.prompt import EVIDENCE_SUPPORT
from factgym.benchmarks.benchmark import Request
from factgym.benchmarks.eve.benchmark import BENCHMARK, paper_tables
from factgym.benchmarks.eve.report import evaluate_runs, named_judge
from factgym.cli.main import app
from factgym.core.errors import ConfigError, DataError


def random_run(folder: Path, n: int, seed: int, benchmark: str = "hotpotqa") -> tuple[Path, list[dict]]:
    rng = random.Random(seed)
    spans = ["", "The capital is Paris.", "It rained in Rome.", "Paris"]
    rows = [
        episode(f"{benchmark}-{i}", rng.random() < 0.6, benchmark=benchmark, evidence=rng.choice(spans))
        for i in range(n)
    ]
    return write_run(folder, rows, source=benchmark), rows


def test_the_shares_are_those_of_a_plain_count(tmp_path):
    run, rows = random_run(tmp_path / "run", 200, 0)
    result = evaluate_runs(run).scores["hotpotqa"]
    metrics = [row["reward"]["metrics"] for row in rows]
    right = sum(item["em"] for item in metrics)
    sufficient = sum("Paris" in item["evidence"] for item in metrics)
    pair = sum(item["em"] and "Paris" in item["evidence"] for item in metrics)
    assert result["em"].value == right / 200
    assert result["evidence"].value == sufficient / 200
    assert result["joint"].value == pair / 200
    assert result["presence"].value == sum(bool(item["evidence"]) for item in metrics) / 200
    peer = binomtest(pair, 200).proportion_ci(method="wilson")
    assert (result["joint"].low, result["joint"].high) == pytest.approx((peer.low, peer.high))


def test_the_joint_rate_is_never_above_either_part(tmp_path):
    for seed in range(5):
        run, _ = random_run(tmp_path / str(seed), 60, seed)
        result = evaluate_runs(run).scores["hotpotqa"]
        assert result["joint"].value <= min(result["em"].value, result["evidence"].value) <= 1
        assert result["evidence"].value <= result["presence"].value


def test_the_average_counts_each_benchmark_the_same(tmp_path):
    item, _ = random_run(tmp_path / "a", 10, 1, "nq")
    second, _ = random_run(tmp_path / "b", 90, 2, "popqa")
    result = evaluate_runs([item, second])
    parts = [result.scores[name]["em"].value for name in ("nq", "popqa")]
    assert result.average["em"].value == pytest.approx(sum(parts) / 2)


def test_any_accepted_answer_in_the_evidence_is_enough_and_words_are_whole(tmp_path):
    rows = [
        episode("hotpotqa-0", golds=("Lutetia", "Paris")),
        episode("hotpotqa-1", golds=("1",), evidence="It was in 1975."),
        episode("hotpotqa-2", golds=(), evidence="anything"),
    ]
    result = evaluate_runs(write_run(tmp_path, rows)).scores["hotpotqa"]
    assert result["evidence"].value == pytest.approx(1 / 3)


class Fussy(Judge):
    """Knows one case, fails on another, and records its cases."""

    def __init__(self) -> None:
        self.cases: list[dict[str, str]] = []

    async def judge(self, case):
        self.cases.append(dict(case))
        if "Rome" in case["evidence"]:
            raise JudgeError("malformed", "no answer")
        return Judgement(1.0, "sufficient", "fussy")

    def describe(self):
        return {
            "rubric": EVIDENCE_SUPPORT.name,
            "version": 1,
            "by": "fussy",
            "stand_in": False,
            "prompt_sha256": "0" * 64,
        }


def test_a_judge_is_asked_once_a_span_and_its_failures_are_left_out(tmp_path):
    rows = [
        episode("hotpotqa-0", golds=("Lutetia", "Paris")),
        episode("hotpotqa-1", evidence="It rained in Rome."),
        episode("hotpotqa-2", evidence="  "),
    ]
    judge = Fussy()
    result = evaluate_runs(write_run(tmp_path, rows), judge=judge)
    scores = result.scores["hotpotqa"]
    assert [item["question"] for item in judge.cases] == ["Question hotpotqa-0?", "Question hotpotqa-1?"]
    assert judge.cases[0]["answer"] == "Lutetia\n(also accepted: Paris)"
    assert (scores["evidence"].value, scores["evidence"].n) == (0.5, 2)
    assert (scores["joint"].value, scores["em"].n) == (0.5, 3)
    assert "judged by fussy" in result.judge
    assert any("1 answer that the judge could not judge" in note for note in result.notes)


def test_the_stand_in_names_itself(tmp_path):
    run, _ = random_run(tmp_path, 5, 0)
    assert "NOT judged by a model" in evaluate_runs(run).judge


def test_faults_are_left_out_and_counted(tmp_path):
    rows = [episode("hotpotqa-0"), episode("hotpotqa-1", error={"cause": "timeout", "message": "…"})]
    result = evaluate_runs(write_run(tmp_path, rows))
    assert (result.n, result.errors) == (1, 1)


def test_questions_without_gold_evidence_say_so(tmp_path):
    rows = [episode("nq-0", benchmark="nq", evidence_f1=None)]
    result = evaluate_runs(write_run(tmp_path, rows, source="nq"))
    assert result.scores["nq"]["evidence_f1"].value is None
    assert any("No gold evidence on nq" in note for note in result.notes)


def test_runs_of_other_environments_are_refused(tmp_path):
    strange = episode("hotpotqa-0")
    del strange["reward"]["metrics"]["em"]
    with pytest.raises(DataError, match="hotpotqa-0"):
        evaluate_runs(write_run(tmp_path / "a", [strange]))
    with pytest.raises(DataError, match="no scored answer"):
        evaluate_runs(write_run(tmp_path / "b", [episode("hotpotqa-0", error={"cause": "timeout", "message": "…"})]))
    run = write_run(tmp_path / "c", [episode("hotpotqa-0")])
    with pytest.raises(DataError, match="twice"):
        evaluate_runs([run, run])


def test_hostile_records_break_nothing(tmp_path):
    odd = episode("hotpotqa-0")
    odd["reward"]["metrics"] |= {
        "gold_answers": [None, 3, "Paris"],
        "evidence": {"a": 1},
        "searches": "many",
        "f1": ["1"],
        "evidence_f1": True,
        "evidence_verbatim": 7,
        "answer": None,
    }
    odd["task_view"] = []
    result = evaluate_runs(write_run(tmp_path, [odd])).scores["hotpotqa"]
    assert (result["em"].value, result["presence"].value, result["searches"].value, result["f1"].value) == (
        1.0,
        0.0,
        None,
        None,
    )


def test_the_tables_fit_eighty_columns_and_mark_the_papers_statements(tmp_path):
    item, _ = random_run(tmp_path / "a", 20, 1, "nq")
    second, _ = random_run(tmp_path / "b", 20, 2, "2wikimultihopqa")
    outcome = BENCHMARK.run(Request(runs=(item, second), out=tmp_path / "out", paper=True))
    output = printed(outcome)
    checked((tmp_path / "out" / "report.html").read_text("ascii"))
    for part in ("nq: 20 questions", "mean of the benchmarks", "Table 2", "Tables 1, 7", "EVE-Agent", "NOT judged"):
        assert part in output, part
    assert (tmp_path / "out" / "report.json").is_file()
    table_2, table_3, table_4, _ = paper_tables(outcome.results)
    cells = {row.cells[0]: row.cells[1:] for row in table_3.rows}
    assert cells["Dr. Zero"][4] == "best" and cells["EVE-Agent"][4] == "–"
    computed = {row.cells[0]: row.cells[1:] for row in table_2.rows}["made-up (ours)"]
    assert computed[0] != "–" and computed[1] == "–"
    assert computed[-1] == "–", "the mean of two benchmarks must not stand in the column of the mean of seven"
    assert {row.cells[0]: row.cells[1:] for row in table_4.rows}["EVE-Agent"] == (*["–"] * 7, "best")


def test_a_script_is_no_judge():
    with pytest.raises(ConfigError, match="a judge is a model"):
        named_judge("oracle")


JUDGE = """
class Strict:
    def __init__(self, word="Paris"):
        self.word = word

    def act(self, messages, tools):
        said = messages[-1]["content"].partition("<evidence ")[2].partition(">")[2].partition("</evidence ")[0]
        label = "sufficient" if self.word in said else "insufficient"
        return '{"reason": "looked for the word", "label": "%s"}' % label
"""


def test_a_users_own_judge_at_the_command_line(tmp_path):
    (tmp_path / "judge.py").write_text(JUDGE, "utf-8")
    spans = ("The capital is Paris.", "It rained in Rome.", "")
    run = write_run(tmp_path / "run", [episode(f"hotpotqa-{i}", evidence=item) for i, item in enumerate(spans)])
    arguments = ["benchmark", "eve", "--run", str(run), "--out", str(tmp_path / "out")]
    judge = ["--set", f"judge={tmp_path / 'judge.py'}:Strict", "--set", "judge_settings.word=Rome"]
    result = CliRunner().invoke(app, [*arguments, *judge])
    assert result.exit_code == 0, result.output
    (report,) = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["reports"]
    assert report["benchmarks"]["hotpotqa"]["evidence"]["value"] == pytest.approx(1 / 3)
    assert "judge.py:Strict" in report["judge"]
    assert "NOT judged" not in report["judge"]
