"""The benchmark of SEVA from data sets to files: agents, runs that continue, pages, and numbers on real data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pages import HOSTILE, checked, printed

import factgym
from factgym.benchmarks.benchmark import AgentResult, Outcome, Request, baselines, chosen_agents, folder_name
from factgym.benchmarks.page import report_page, write_page
from factgym.benchmarks.report import Report
from factgym.benchmarks.seva.benchmark import BENCHMARK, GENERATED, data_sets, seva_page
from factgym.benchmarks.seva.paper import paper_tables
from factgym.benchmarks.seva.report import SevaReport, evaluate_run
from factgym.core.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)


def run(out: Path, *agents: str, n: int | None = 24, only: tuple[str, ...] = (GENERATED,), **more: Any) -> Outcome:
    return BENCHMARK.run(Request(agents=agents, n=n, only=only, out=out, **more))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    out = tmp_path_factory.mktemp("suite")
    return run(out, *baselines("seva"), paper=True), out


def claims_file(folder: Path, name: str, n: int = 12) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "claim": f"The harbour has {i} cranes.",
            "source": f"The harbour of the town has {i + i % 2} cranes.",
            "gold_label": "Attributable" if i % 2 == 0 else "Not Attributable",
            "benchmark": name,
        }
        for i in range(n)
    ]
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def test_without_data_only_generated_claims_are_played():
    assert [data_set.name for data_set in data_sets()] == [GENERATED]


def test_the_variable_names_the_folder(tmp_path, monkeypatch):
    for name in ("fever", "truthfulqa", "halueval", "clearfacts", "anli"):
        claims_file(tmp_path, name)
    monkeypatch.setenv("FACTGYM_DATA", str(tmp_path))
    assert [data_set.name for data_set in data_sets()] == ["fever", "truthfulqa", "halueval", "clearfacts", "anli"]
    assert [data_set.name for data_set in data_sets(only=["anli", GENERATED])] == ["anli", GENERATED]
    monkeypatch.setenv("FACTGYM_DATA", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"gone \(from FACTGYM_DATA\) is no folder"):
        data_sets()


def test_every_missing_file_is_named(tmp_path):
    claims_file(tmp_path, "fever")
    with pytest.raises(ConfigError) as error:
        data_sets(tmp_path)
    for name in ("truthfulqa.jsonl", "halueval.jsonl", "clearfacts.jsonl", "anli.jsonl"):
        assert name in str(error.value)
    assert "--only fever" in str(error.value)
    assert "fever.jsonl" not in str(error.value)
    assert [data_set.name for data_set in data_sets(tmp_path, ["fever"])] == ["fever"]


@pytest.mark.parametrize(
    ("only", "expected_text"), [(["fevr"], "Did you mean 'fever'"), (["fever", "anli"], "fever, anli: no data")]
)
def test_names_and_data_that_there_are_not(only, expected_text):
    with pytest.raises(ConfigError, match=expected_text):
        data_sets(only=only)


def test_agents_by_default_by_name_and_all():
    assert chosen_agents("seva", []) == baselines("seva")
    assert {"oracle", "nli", "lexical", "random"} <= set(baselines("seva"))
    assert chosen_agents("seva", ["nli", "nli", "openai:m"]) == ("nli", "openai:m")
    everyone = chosen_agents("seva", ["lexical", "scripted"])
    assert everyone[0] == "lexical"
    assert {"garbage", "always-not"} <= set(everyone)
    assert len(set(everyone)) == len(everyone)


def test_an_agents_name_becomes_a_folder():
    assert folder_name("openai:qwen/2.5 7b") == "openai-qwen-2.5-7b"
    assert folder_name("../..") == "agent"
    assert len(folder_name("x" * 500)) == 60


def test_the_benchmark_writes_runs_page_and_numbers(small):
    outcome, out = small
    assert [result.agent for result in outcome.results] == list(baselines("seva"))
    for result in outcome.results:
        assert result.report.n == 24
        assert (out / GENERATED / result.agent / "episodes.jsonl").is_file()
        assert evaluate_run(out / GENERATED / result.agent) == result.report
    numbers = json.loads((out / "report.json").read_text("utf-8"))
    assert [number["agent"] for number in numbers] == list(baselines("seva"))
    assert numbers[0]["report"]["scores"]["macro_f1"]["value"] == 1.0
    assert (out / "report.html").read_text("ascii").startswith("<!doctype html>")
    assert any("generated claims alone" in note for note in outcome.notes)
    assert [(comparison.first, comparison.second) for comparison in outcome.comparisons] == [("lexical", "nli")]


def test_the_oracle_is_the_ceiling_and_reading_beats_guessing(small):
    result = {result.agent: result.report for result in small[0].results}
    assert result["oracle"].scores["macro_f1"].value == 1.0
    assert result["oracle"].false_positive.value == result["oracle"].false_negative.value == 0.0
    assert result["oracle"].diagnosed.value == 1.0
    assert result["oracle"].rewards["process"].value > result["random"].rewards["process"].value


def test_a_run_that_was_cut_off_goes_on(small, tmp_path):
    """Half a line is dropped, what is whole is kept, and the numbers are those of a run in one go."""
    complete = run(tmp_path, "lexical").results[0].report
    file = tmp_path / GENERATED / "lexical" / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:9]) + lines[9][:50])
    started: list[int] = []
    request = Request(agents=("lexical",), n=24, only=(GENERATED,), out=tmp_path)
    for before in (9, 24):
        again = BENCHMARK.run(request, on_start=lambda name, agent, progress: started.append(progress.before))
        assert started[-1] == before
        assert again.results[0].report == complete
        assert file.read_bytes().splitlines(keepends=True)[:9] == lines[:9]


def test_other_settings_are_refused(small):
    _, out = small
    with pytest.raises(ConfigError, match="n: 24 then, 25 now"):
        run(out, "nli", n=25)


def test_nothing_is_played_before_every_agent_is_known(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'oracle'"):
        run(tmp_path, "nli", "oracel", n=2)
    assert not list(tmp_path.iterdir())


def test_a_users_own_file(tmp_path):
    claims_file(tmp_path / "data", "fever", 20)
    result = data_sets(tmp_path / "data", ["fever"])
    more = {"only": ("fever",), "data": tmp_path / "data", "n": None}
    results = run(tmp_path / "out", "oracle", "majority", **more).results
    assert [result.report.n for result in results] == [20, 20]
    assert results[1].report.scores["accuracy"].value == 0.5
    rows = {
        row.cells[0]: row for table in paper_tables(result, results) if table.source == "Table 12" for row in table.rows
    }
    assert rows["fever"].cells[1] == "20"
    assert rows["fever"].cells[-1] == "a file of yours"
    assert rows["fever"].agrees is None


def test_recorded_runs_are_reported_and_compared(small, tmp_path):
    _, out = small
    runs = [out / GENERATED / name for name in ("nli", "lexical")]
    result = BENCHMARK.run(Request(runs=tuple(runs), out=tmp_path))
    assert [result.agent for result in result.results] == ["nli", "lexical"]
    assert result.comparisons[0].n == 24
    assert result.files[0] == tmp_path / "report.html"
    twice = BENCHMARK.run(Request(runs=(runs[0], runs[0]), out=tmp_path))
    assert twice.results[0].agent != "nli"
    assert twice.comparisons[0].macro_f1.difference.value == 0.0
    beside = BENCHMARK.run(Request(runs=(runs[0],)))
    assert beside.files == (runs[0] / "seva.html",)


GOLDEN = {
    # Macro-F1 and accuracy of players that do not read follow from the labels: 65 of 200, 200 of 400, 100 of 200,
    # 20 of 159 and 402 of 1,198 claims are attributable.
    ("fever", "majority"): ((2 * 135 / 335) / 2, 135 / 200),
    ("truthfulqa", "always-not"): ((2 * 200 / 600) / 2, 0.5),
    ("halueval", "always-attributable"): ((2 * 100 / 300) / 2, 0.5),
    ("clearfacts", "majority"): ((2 * 139 / 298) / 2, 139 / 159),
    ("anli", "always-attributable"): ((2 * 402 / 1600) / 2, 402 / 1198),
}


@pytest.mark.parametrize(("name", "agent"), GOLDEN)
def test_golden_numbers_on_real_data(data_dir, tmp_path, name, agent):
    result, oracle = (
        run(tmp_path / script, script, n=n, only=(name,), data=data_dir).results[0].report
        for script, n in ((agent, None), ("oracle", 40))
    )
    f1, accuracy = GOLDEN[name, agent]
    assert result.scores["macro_f1"].value == pytest.approx(f1)
    assert result.scores["accuracy"].value == pytest.approx(accuracy)
    assert result.predicted_negative.value in (0.0, 1.0)
    assert oracle.scores["macro_f1"].value == 1.0
    assert oracle.structure["format"].value == 1.0


def test_the_two_verifiers_on_halueval(data_dir, tmp_path):
    """The honest baseline is better than word overlap there, by more than the draw of the items."""
    outcome = run(tmp_path, "lexical", "nli", n=None, only=("halueval",), data=data_dir)
    lexical, nli = (result.report.scores["macro_f1"].value for result in outcome.results)
    assert nli > lexical + 0.1
    assert outcome.comparisons[0].macro_f1.difference.low > 0
    assert outcome.comparisons[0].mcnemar.p < 0.01


def test_the_page_is_whole_and_loads_nothing(small):
    page = (small[1] / "report.html").read_text("ascii")
    checker = checked(page)
    assert {"svg", "table", "details"} <= checker.seen
    words = checker.text
    for part in (
        "Reward landscape",
        "Advantages of the eight rollouts drawn",
        "not a reproduction",
        "False positives by writing style",
    ):
        assert part in words
    assert factgym.__version__ in words


def renamed(report: SevaReport, **changes: Any) -> SevaReport:
    return dataclasses.replace(report, **changes)


def test_hostile_names_are_shown_and_never_run(small, tmp_path):
    outcome, _ = small
    report = renamed(outcome.results[1].report, agent=HOSTILE, env=HOSTILE, notes=(HOSTILE,))
    results = [AgentResult(name, HOSTILE, report, 1.0) for name in (HOSTILE, "second")]
    comparison = renamed(outcome.comparisons[0], first=HOSTILE, second=HOSTILE, notes=(HOSTILE,))
    page = report_page(renamed(seva_page(results, [comparison], (), [HOSTILE]), title=HOSTILE))
    checker = checked(page)
    assert "[U+202E]" in page
    assert any("onerror" in words for words in checker.words)


def test_a_page_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(DataError, match="cannot write"):
        write_page(report_page(Report("x", ())), tmp_path / "file" / "page.html")


def test_the_terminal_keeps_to_eighty_columns(small, tmp_path):
    outcome, out = small
    output = printed(outcome)
    assert "…" not in output
    single = BENCHMARK.run(Request(runs=(out / GENERATED / "nli",), out=tmp_path))
    assert "False positives by writing style" in printed(single)


def test_the_terminal_takes_no_markup_and_no_control_characters(small):
    report = renamed(small[0].results[1].report, agent="[red]x[/red]\x1b[31m" + HOSTILE, notes=("[bold]" + HOSTILE,))
    text = [
        printed(
            dataclasses.replace(small[0], report=seva_page([AgentResult("[b]d", "[u]y\x1b[0m", report)], detailed=item))
        )
        for item in (True, False)
    ]
    assert "[red]x[/red]" in text[0]
    assert "[bold]" in text[0]
    assert "[u]y" in text[1]


def test_where_all_baselines_play_their_verifiers_are_compared_and_exploiters_are_named(tmp_path):
    outcome = run(tmp_path, "scripted", n=4)
    result = outcome.results
    assert [(comparison.first, comparison.second) for comparison in outcome.comparisons] == [("lexical", "nli")]
    assert any("know the gold label" in note for note in outcome.notes)
    informed = {result.agent: result.report for result in result}["label-only"]
    assert informed.scores["macro_f1"].value == 1.0
    assert informed.structure["format"].value == informed.structure["alignment"].value == 0.0
    text = {table.source: [row.cells[0] for row in table.rows] for table in paper_tables((), result)}
    assert not any(name.startswith("garbage") for name in text["Tables 3, 4"])
    assert "garbage (ours)" in text["Tables 5, 6"]
