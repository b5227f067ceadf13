"""The benchmark from its plan to its numbers: generated questions, public files, runs that are there."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import typer
from corver_runs import episode, random_episodes, write_run
from pages import HOSTILE, checked
from pages import printed as shown
from rich.console import Console
from typer.testing import CliRunner

from factgym.agents.difficulty import Buckets, DifficultyBand, select
from factgym.agents.runs.read import read_run
from factgym.benchmarks.benchmark import SYNTHETIC, Outcome, Request, baselines, chosen_agents
from factgym.benchmarks.corver.benchmark import BENCHMARK, QUESTIONS, calibration_chart
from factgym.benchmarks.corver.calibration import calibrate
from factgym.benchmarks.corver.compare import decompose
from factgym.benchmarks.corver.paper import facts, paper_tables
from factgym.benchmarks.corver.report import evaluate_runs
from factgym.benchmarks.terminal import render_table
from factgym.cli.benchmark import benchmark
from factgym.core.errors import ConfigError, DataError, FactgymError
from factgym.training.difficulty_filter import write_selection


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)


def play(out: Path, *agents: str, n: int | None = 30, **more: object) -> Outcome:
    """Play generated questions, unless `data` says otherwise."""
    return BENCHMARK.run(Request(agents=agents, n=n, out=out, **more))


def read(*runs: Path, **more: object) -> Outcome:
    return BENCHMARK.run(Request(runs=runs, **more))


def test_the_oracle_is_right_and_refusals_are_refusals(tmp_path):
    result = play(tmp_path, "oracle", "refuse")
    oracle, refuse = result.results
    assert oracle.scores["synthetic"]["accuracy"].value == 1.0
    assert oracle.scores["synthetic"].judged["reference"].value == 1.0
    assert oracle.scores["synthetic"]["format"].value == 1.0
    assert refuse.scores["synthetic"]["refusal"].value == 1.0
    # The paper's own rule does not know the refusal that the paper's own prompt asks for.
    assert refuse.scores["synthetic"].judged["reference"].value == 0.0
    (row,) = result.numbers["refusals"]
    assert (row["gain"], row["from_withdrawn"]) == (-1.0, -1.0)


def test_counts_rise_with_popularity_in_the_generated_world(tmp_path):
    result = play(tmp_path, "oracle", n=120)
    answers = result.results[0].answers
    rare = [answer.counts[0] or 0 for answer in answers if answer.popularity == 0]
    often = [answer.counts[0] or 0 for answer in answers if (answer.popularity or 0) >= 20]
    assert len(rare) > 10 < len(often)
    assert sum(item == 0 for item in rare) / len(rare) > 0.8
    assert sum(item >= 20 for item in often) / len(often) > 0.8


def test_the_same_plan_goes_on_where_it_was(tmp_path):
    first = play(tmp_path, "random")
    file = tmp_path / SYNTHETIC / "random" / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:11]))
    again = play(tmp_path, "random")
    assert again.results[0].scores == first.results[0].scores
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["reports"][0]["name"] == "random"


def test_everything_prints_in_eighty_columns(tmp_path):
    result = play(tmp_path, *baselines("corver-qa"), n=40, paper=True)
    output = shown(result)
    assert all(len(line.rstrip()) <= 80 for line in output.splitlines())
    assert not [line for line in output.splitlines() if "…" in line]
    words = " ".join(output.split())
    for part in (
        "synthetic: 40 questions",
        "eval prompt",
        "boundary judge",
        "its own generated corpus",
        "Accuracy by popularity",
        "student against random",
        "McNemar",
        "Refusals before and after",
        "Tables 1, 15, 16",
        "oracle (ours)",
        "not a reproduction",
        "generated questions alone",
        "✓",
    ):
        assert part in words, part


def test_default_agents_exploit_nothing():
    assert "oracle" in baselines("corver-qa")
    assert set(baselines("corver-qa")) < set(chosen_agents("corver-qa", ["scripted"]))
    assert chosen_agents("corver-qa", ["refuse", "refuse"]) == ("refuse",)


def test_ablations_and_prompts_are_settings_of_the_environment(tmp_path):
    settings = {"no_judge": True, "reward": "reference", "prompt": "eval-trained"}
    (report,) = play(tmp_path, "oracle", n=5, settings=settings).results
    assert report.labels[0].variant == "A2"
    assert report.labels[0].prompt == "eval-trained"
    assert report.labels[0].judge == "reference"
    assert report.scores["synthetic"]["reward"].value < 1.2


def test_public_files_are_found_by_folder_and_by_name(data_dir):
    names = [(data_set.name, data_set.config["source"]) for data_set in QUESTIONS(data_dir)]
    paper = ("triviaqa", "nq-open", "popqa", "simpleqa", "truthfulqa")
    assert names == [(item, item) for item in paper]
    (item,) = QUESTIONS(data_dir / "corver_official" / "popqa_test.json")
    assert (item.name, item.config["source"]) == ("popqa", "popqa")
    assert [data_set.name for data_set in QUESTIONS(data_dir, ["synthetic", "webquestions"])] == [
        "synthetic",
        "webquestions",
    ]


@pytest.mark.parametrize(
    ("file", "name", "n"), [("nq_open_validation", "nq-open", 3610), ("truthfulqa", "truthfulqa", 817)]
)
def test_the_authors_own_files_play_and_have_the_papers_sizes(data_dir, tmp_path, file, name, n):
    (item,) = QUESTIONS(data_dir / "corver_official" / f"{file}.json")
    assert len(item.open().tasks) == n
    result = play(tmp_path, "oracle", "random", n=25, paper=True, data=item.path)
    oracle, random = result.results
    assert oracle.scores[name]["accuracy"].value > 0.9
    assert random.scores[name]["accuracy"].value < 0.3
    assert any("no counter" in note for note in result.notes)
    first = next(table for table in result.report.tables if table.title == "Accuracy, %")
    assert any(column.name.endswith("†") for column in first.columns), "25 questions are not the paper's number"


def test_popqa_of_the_authors_has_no_page_views_and_a_note(data_dir, tmp_path):
    (item,) = QUESTIONS(data_dir / "corver_official" / "popqa_test.json")
    result = play(tmp_path, "refuse", n=10, data=item.path)
    assert any("without page views" in note for note in result.notes)
    views = QUESTIONS.data_set("popqa", path=data_dir / "popqa" / "popqa.json")
    with_views = play(tmp_path / "views", "oracle", n=None, data=views.path, only=("popqa",)).results
    assert with_views[0].popularity is not None
    assert sum(quartile.n for quartile in with_views[0].popularity.quarters[:-1]) == len(views.open().tasks)


@pytest.mark.parametrize(
    ("path", "only", "expected_text"),
    [
        (None, ["popqa"], "no data"),
        (None, ["popqaa"], "Did you mean 'popqa'"),
        ("nowhere", [], "does not exist"),
        (".", ["popqa"], "holds no popqa"),
        (".", [], "holds no triviaqa"),
    ],
)
def test_missing_data_names_the_fix(path, only, expected_text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=expected_text):
        QUESTIONS(path, only)


def test_a_users_own_file(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "Who?", "answers": ["Ada Lovelace"]}\n', "utf-8")
    (item,) = QUESTIONS(file)
    assert (item.name, item.config["source"]) == ("mine", "file")
    result = play(tmp_path / "out", "oracle", n=None, data=file)
    assert result.results[0].scores["mine"]["accuracy"].value == 1.0
    with pytest.raises(ConfigError, match="one file"):
        QUESTIONS(file, ["popqa", "nq-open"])
    with pytest.raises(ConfigError, match="have no file"):
        QUESTIONS(file, ["synthetic"])


def test_recorded_runs_are_compared_and_enter_the_papers_tables(tmp_path):
    raw = write_run(tmp_path / "raw", random_episodes(60, 1, (0.3, 0.4, 0.3)), agent="model")
    trained = write_run(tmp_path / "trained", random_episodes(60, 2, (0.6, 0.3, 0.1)), agent="model")
    result = read(raw, trained, out=tmp_path / "out", paper=True)
    assert [report.name for report in result.results] == ["model (raw)", "model (trained)"]
    assert [(comparison.first, comparison.second) for comparison in result.comparisons] == [
        ("model (raw)", "model (trained)")
    ]
    output = shown(result)
    assert "model (trained) against model (raw)" in output
    assert "model (trained) (ours)" in output
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["comparisons"]
    assert read(raw).files == ()


def test_several_benchmarks_and_several_agents_keep_to_eighty_columns(tmp_path):
    runs = []
    for agent, weights in (("raw-8b", (0, 1, 0)), ("trained", (1, 0, 0)), ("third", (1, 1, 1))):
        for i, name in enumerate(("triviaqa", "nq-open", "popqa", "simpleqa", "truthfulqa")):
            rows = random_episodes(40, i, weights, benchmark=name)
            runs.append(write_run(tmp_path / agent / name, rows, agent=agent, config={"source": name}))
    result = read(*runs, paper=True)
    assert [report.name for report in result.results] == ["raw-8b", "trained", "third"]
    output = shown(result)
    assert "Average over benchmarks" in output
    assert all(len(line.rstrip()) <= 80 for line in output.splitlines())
    assert not [line for line in output.splitlines() if "…" in line]
    complete = next(table for table in result.report.tables if table.title == "Accuracy, %").rows[-2].cells
    assert complete[0] == "trained (ours)"
    average = result.results[1].average
    judged = [score.judged["reference"].value for score in result.results[1].scores.values()]
    assert float(complete[-1]) == pytest.approx(100 * sum(judged) / 5, abs=0.05)
    assert average["words"].value == pytest.approx(
        sum(score["words"].value for score in result.results[1].scores.values()) / 5
    )


def test_runs_that_share_no_question_are_only_reported(tmp_path):
    item = write_run(tmp_path / "a", [episode("q-0", benchmark="popqa")], agent="a")
    second = write_run(tmp_path / "b", [episode("q-0", benchmark="nq-open")], agent="b")
    assert read(item, second).comparisons == ()


def test_a_filters_run_brings_its_buckets(tmp_path):
    rows = [episode(f"q-{i}", "good" if k < i else "bad", sample=k) for i in range(5) for k in range(4)]
    run = write_run(tmp_path / "zone", rows, agent="policy")
    episodes = list(read_run(run).episodes())
    write_selection(select(episodes, DifficultyBand(samples=4)), episodes, run, agent="policy")
    result = read(run, paper=True)
    zone = next(table for table in result.report.tables if table.title == "The learning zone")
    assert zone.rows[-1].cells == ("policy, G = 4 (ours)", "1", "3", "1", "3", "60.0 %")


def test_annotated_sentences_give_a_curve(tmp_path):
    file = tmp_path / "audit.jsonl"
    rows = [{"count": count, "correct": count > 3 or count == 1} for count in (0, 0, 1, 2, 5, 9, 30)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    result = play(tmp_path / "out", "oracle", n=3, settings={"annotated": str(file)})
    assert result.numbers["calibration"]["audit.jsonl"]["n"] == 7
    assert "Right sentences by count, %: audit.jsonl" in shown(result)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "out" / SYNTHETIC / "oracle", settings={"annotated": str(tmp_path / "nothing.jsonl")})


def test_a_typo_in_the_last_agent_costs_nothing(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'oracle'"):
        play(tmp_path, "refuse", "oracel")
    assert not list(tmp_path.iterdir())
    assert not Path(tmp_path, SYNTHETIC).exists()


def test_a_users_own_agents_are_played_and_compared(tmp_path):
    policy = f"{Path(__file__).parents[1] / 'agents' / 'forgetful.py'}:Forgetful"
    result = play(tmp_path, "random", policy, paper=True)
    assert [comparison.second for comparison in result.comparisons] == [result.results[1].name]
    assert result.comparisons[0].average["accuracy"].difference.value > 0.2


def test_the_papers_tables_judge_pairs_as_the_paper_does(tmp_path):
    result = play(tmp_path, "oracle", "refuse", paper=True)
    table = next(item for item in result.report.tables if item.title == "Refusals on Qwen3-8B, %")
    assert [row.cells[1:3] for row in table.rows if "(ours)" in row.cells[0]] == [("0.0", "100.0")]
    assert result.numbers["refusals"][0]["trained_refusal"] == 1.0


# The page and the command line: one file that needs nothing, foreign text escaped, options refused where they make no sense.


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def test_the_page_shows_the_results(tmp_path):
    raw = write_run(tmp_path / "raw", random_episodes(80, 1, (0.3, 0.4, 0.3)), agent="raw")
    trained = write_run(tmp_path / "trained", random_episodes(80, 2, (0.6, 0.3, 0.1)), agent="trained")
    result = BENCHMARK.run(Request(runs=(raw, trained), out=tmp_path / "out", paper=True))
    words = checked(result.files[0].read_text("ascii")).text
    assert result.files == (tmp_path / "out" / "report.html", tmp_path / "out" / "report.json")
    for part in (
        "trained against raw",
        "Accuracy by popularity",
        "Refusals",
        "Right sentences by count",
        "The learning zone",
    ):
        assert part in words
    value = 100 * result.results[1].scores["popqa"]["accuracy"].value
    assert f"{value:.1f}" in words


def test_foreign_names_are_escaped(tmp_path):
    rows = [episode("q-0", benchmark=HOSTILE), episode("q-1", "bad", benchmark=HOSTILE, popularity=3.0)]
    run = write_run(tmp_path / "run", rows, agent=HOSTILE, config={"counter": HOSTILE})
    page = BENCHMARK.run(Request(runs=(run,), out=tmp_path / "out", paper=True)).files[0].read_text("ascii")
    assert "alert(1)" in checked(page).text
    assert "[U+202E]" in page


def test_the_curve_is_a_self_contained_image():
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    custom = calibrate([(0, False), (3, True), (7, True), (50, True)])
    svg = calibration_chart([(HOSTILE, custom)])
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for words in ("the paper’s 700 sentences", "c = 0", "c ≥ 20"):
        assert words in text
    assert "\u202e" not in svg and "<script" not in svg
    assert calibration_chart([(HOSTILE, custom)]) == svg
    assert calibration_chart() != svg


def call(*args: str) -> str:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(benchmark)
    done = CliRunner().invoke(app, args)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return str(done.output)


def test_the_command_plays_and_writes(tmp_path):
    (tmp_path / "audit.jsonl").write_text('{"count": 0, "correct": false}\n{"count": 30, "correct": true}\n', "utf-8")
    output = call("corver", "-n", "20", "--agent", "student", "--agent", "random", "--paper", "--out", "mine", "--set", "annotated=audit.jsonl", "--set", "reward=reference")  # fmt: skip
    for part in (
        "synthetic: 20 questions",
        "reward reference",
        "random against student",
        "audit.jsonl",
        "Tables 1, 15, 16",
    ):
        assert part in output
    assert f"Page: {Path('mine', 'report.html')}" in output
    assert Path("mine", "report.json").is_file()
    again = call("corver", "--run", "mine/synthetic/student", "--run", "mine/synthetic/random")
    assert "random against student" in again
    assert "Page:" not in again


@pytest.mark.parametrize(
    ("args", "expected_text"),
    [
        (("--only", "popqaa"), "Did you mean 'popqa'"),
        (("--only", "popqa"), "no data"),
        (("--data", "nowhere"), "does not exist"),
        (("--agent", "oracel"), "Did you mean 'oracle'"),
        (("--run", "nowhere"), "nowhere is no run"),
        (("--run", "nowhere", "--agent", "oracle"), "leave out --agent"),
        (("--set", "promt=eval"), "prompt"),
        (("--set", "predictions=x.json"), "has no setting"),
        (("--set", "annotated=nothing.jsonl"), "cannot be read"),
    ],
)
def test_bad_input_names_the_fix(args, expected_text):
    with pytest.raises(FactgymError, match=expected_text):
        call("corver", *args)


def test_a_counter_that_is_no_path_cannot_count_annotations(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"sentence": "x", "correct": true}\n', "utf-8")
    with pytest.raises(ConfigError, match="path of an index"):
        BENCHMARK.run(Request(settings={"counter": 3, "annotated": str(tmp_path / "a.jsonl")}))


# The paper's tables: marked rows agree, and ours are beside theirs.


@pytest.fixture(scope="module")
def tables():
    return paper_tables()


def by_title(tables, title):
    return next(table for table in tables if table.title == title)


def test_every_number_that_is_compared_agrees(tables):
    marked = [row for table in tables for row in table.rows if row.agrees is not None]
    assert len(marked) > 20
    assert all(row.agrees for row in marked)


def test_the_tables_print_in_eighty_columns(tables):
    console = Console(width=80, record=True, file=io.StringIO())
    for table in tables:
        console.print(render_table(table))
    lines = console.export_text().splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert not [line for line in lines if "…" in line]


def test_the_facts_are_consistent():
    result = facts("table1")["rows"]
    assert len({(item["model"], item["method"]) for item in result}) == 24
    raw = {item["model"]: item["accuracy"] for item in facts("table15")["rows"] if item["variant"] == "Raw"}
    trained = {item["model"]: item["accuracy"] for item in facts("table15")["rows"] if item["variant"] == "CorVer"}
    for item in result:
        if item["method"] in ("Raw", "CorVer"):
            assert item["accuracy"] == {"Raw": raw, "CorVer": trained}[item["method"]][item["model"]]
    assert facts("table2")["rows"][0]["accuracy"] == raw["Llama-3.1-8B"]
    assert facts("table2")["rows"][1]["accuracy"] == trained["Llama-3.1-8B"]
    qwen = [item for item in facts("table15")["rows"] if item["model"] == "Qwen3-8B"]
    for i, name in enumerate(("triviaqa", "nq-open", "popqa", "simpleqa", "truthfulqa")):
        row = next(item for item in facts("table17")["rows"] if item["benchmark"] == name)
        assert [item["na"][i] for item in qwen] == [row["raw"], row["trained"]]


def test_our_rows_are_beside_the_published_ones_and_labelled(tmp_path):
    run = write_run(tmp_path / "run", random_episodes(80, 1, (0.5, 0.3, 0.2)), agent="mine")
    second = write_run(tmp_path / "other", random_episodes(80, 2, (0.6, 0.3, 0.1)), agent="trained")
    made = write_run(
        tmp_path / "made", [episode("q-0", benchmark="synthetic")], agent="scripted", config={"source": "synthetic"}
    )
    reports = [evaluate_runs(item) for item in (run, second, made)]
    refusals = [("trained", item) for item in decompose(*reports[:2])]
    curve = reports[0].proxy
    tables = paper_tables(
        reports, curves=[("mine", curve)], filters=[("mine", Buckets((5, 3, 2), 3))], refusals=refusals
    )
    first = by_title(tables, "Accuracy, %")
    assert tuple(column.name for column in first.columns) == (
        "model",
        "TrivQA",
        "NQ",
        "PopQA†",
        "SimpQA",
        "TruthQA",
        "synthetic",
        "Avg",
    )
    computed = {row.cells[0]: row.cells for row in first.rows if "(ours)" in row.cells[0]}
    value = 100 * reports[0].scores["popqa"]["accuracy"].value
    assert computed["mine (ours)"] == ("mine (ours)", "–", "–", f"{value:.1f}", "–", "–", "–", "–")
    assert computed["scripted (ours)"][6] == "100.0"
    output = " ".join(first.notes)
    for part in ("mine, trained", "popqa test, n = 80", "counts: wiki.cooc", "Not the paper’s number"):
        assert part in output
    assert any("(ours)" in row.cells[0] for row in by_title(tables, "The learning zone").rows)
    assert any("trained popqa (ours)" in row.cells[0] for row in by_title(tables, "Refusals on Qwen3-8B, %").rows)
    assert any("mine" in row.cells[0] for row in by_title(tables, "P(correct | count), %").rows)
    quartiles = [row for row in by_title(tables, "PopQA by popularity, accuracy, %").rows if "(ours)" in row.cells[0]]
    assert len(quartiles) == 10
    json.dumps([table.to_dict() for table in tables], allow_nan=False)


def test_a_run_under_an_ablation_has_its_row(tmp_path):
    run = write_run(tmp_path, [episode("q-0")], agent="mine", config={"reward": "reference-no-judge"})
    result = by_title(paper_tables([evaluate_runs(run)]), "Ablations on Llama-3.1-8B, accuracy, %")
    assert result.rows[-1].cells[0] == "mine, A2 (ours)"
    assert result.rows[-1].cells[3] == "100.0"
