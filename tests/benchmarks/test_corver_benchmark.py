"""The benchmark from its plan to its numbers: generated questions, public files, runs that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corver_runs import episode, random_episodes, write_run
from pages import printed as shown

from factgym.agents.difficulty import DifficultyBand, select
from factgym.agents.runs.read import read_run
from factgym.benchmarks.benchmark import Outcome, Request, baselines, chosen_agents
from factgym.benchmarks.corver.benchmark import BENCHMARK, QUESTIONS
from factgym.benchmarks.question_sets import SYNTHETIC
from factgym.core.errors import ConfigError, DataError
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
    found = play(tmp_path, "oracle", "refuse")
    oracle, refuse = found.results.reports
    assert oracle.scores["synthetic"].accuracy.value == 1.0
    assert oracle.scores["synthetic"].judged["reference"].value == 1.0
    assert oracle.scores["synthetic"].format.value == 1.0
    assert refuse.scores["synthetic"].refusal.value == 1.0
    # The paper's own rule does not know the refusal that the paper's own prompt asks for.
    assert refuse.scores["synthetic"].judged["reference"].value == 0.0
    (row,) = [one for _, one in found.results.refusals]
    assert (row.gain, row.from_withdrawn) == (-1.0, -1.0)


def test_counts_rise_with_popularity_in_the_generated_world(tmp_path):
    found = play(tmp_path, "oracle", n=120)
    answers = found.results.reports[0].answers
    rare = [one.counts[0] or 0 for one in answers if one.popularity == 0]
    often = [one.counts[0] or 0 for one in answers if (one.popularity or 0) >= 20]
    assert len(rare) > 10 < len(often)
    assert sum(one == 0 for one in rare) / len(rare) > 0.8
    assert sum(one >= 20 for one in often) / len(often) > 0.8


def test_the_same_plan_goes_on_where_it_was(tmp_path):
    first = play(tmp_path, "random")
    file = tmp_path / SYNTHETIC / "random" / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:11]))
    again = play(tmp_path, "random")
    assert again.results.reports[0].scores == first.results.reports[0].scores
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["reports"][0]["name"] == "random"


def test_everything_prints_in_eighty_columns(tmp_path):
    found = play(tmp_path, *baselines("corver-qa"), n=40, paper=True)
    said = shown(found)
    assert all(len(line.rstrip()) <= 80 for line in said.splitlines())
    assert not [line for line in said.splitlines() if "…" in line]
    words = " ".join(said.split())
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
    (report,) = play(tmp_path, "oracle", n=5, settings=settings).results.reports
    assert report.labels[0].variant == "A2"
    assert report.labels[0].prompt == "eval-trained"
    assert report.labels[0].judge == "reference"
    assert report.scores["synthetic"].reward.value < 1.2


def test_public_files_are_found_by_folder_and_by_name(data_dir):
    names = [(one.name, one.config["source"]) for one in QUESTIONS(data_dir)]
    paper = ("triviaqa", "nq-open", "popqa", "simpleqa", "truthfulqa")
    assert names == [(one, one) for one in paper]
    (one,) = QUESTIONS(data_dir / "corver_official" / "popqa_test.json")
    assert (one.name, one.config["source"]) == ("popqa", "popqa")
    assert [one.name for one in QUESTIONS(data_dir, ["synthetic", "webquestions"])] == [
        "synthetic",
        "webquestions",
    ]


@pytest.mark.parametrize(
    ("file", "name", "n"), [("nq_open_validation", "nq-open", 3610), ("truthfulqa", "truthfulqa", 817)]
)
def test_the_authors_own_files_play_and_have_the_papers_sizes(data_dir, tmp_path, file, name, n):
    (one,) = QUESTIONS(data_dir / "corver_official" / f"{file}.json")
    assert len(one.open().tasks) == n
    found = play(tmp_path, "oracle", "random", n=25, paper=True, data=one.path)
    oracle, random = found.results.reports
    assert oracle.scores[name].accuracy.value > 0.9
    assert random.scores[name].accuracy.value < 0.3
    assert any("no counter" in note for note in found.notes)
    first = next(one for one in found.results.tables if one.title == "Accuracy, %")
    assert any(column.name.endswith("†") for column in first.columns), "25 questions are not the paper's number"


def test_popqa_of_the_authors_has_no_page_views_and_that_is_said(data_dir, tmp_path):
    (one,) = QUESTIONS(data_dir / "corver_official" / "popqa_test.json")
    found = play(tmp_path, "refuse", n=10, data=one.path)
    assert any("without page views" in note for note in found.notes)
    views = QUESTIONS.data_set("popqa", path=data_dir / "popqa" / "popqa.json")
    with_views = play(tmp_path / "views", "oracle", n=None, data=views.path, only=("popqa",)).results
    assert with_views.reports[0].popularity is not None
    assert sum(one.n for one in with_views.reports[0].popularity.quartiles) == len(views.open().tasks)


@pytest.mark.parametrize(
    ("place", "only", "says"),
    [
        (None, ["popqa"], "no data"),
        (None, ["popqaa"], "Did you mean 'popqa'"),
        ("nowhere", [], "does not exist"),
        (".", ["popqa"], "holds no popqa"),
        (".", [], "holds no triviaqa"),
    ],
)
def test_missing_data_names_the_fix(place, only, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=says):
        QUESTIONS(place, only)


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "Who?", "answers": ["Ada Lovelace"]}\n', "utf-8")
    (one,) = QUESTIONS(file)
    assert (one.name, one.config["source"]) == ("mine", "file")
    found = play(tmp_path / "out", "oracle", n=None, data=file)
    assert found.results.reports[0].scores["mine"].accuracy.value == 1.0
    with pytest.raises(ConfigError, match="one file"):
        QUESTIONS(file, ["popqa", "nq-open"])
    with pytest.raises(ConfigError, match="have no file"):
        QUESTIONS(file, ["synthetic"])


def test_runs_that_are_there_are_read_compared_and_stand_in_the_papers_tables(tmp_path):
    raw = write_run(tmp_path / "raw", random_episodes(60, 1, (0.3, 0.4, 0.3)), agent="model")
    trained = write_run(tmp_path / "trained", random_episodes(60, 2, (0.6, 0.3, 0.1)), agent="model")
    found = read(raw, trained, out=tmp_path / "out", paper=True)
    assert [one.name for one in found.results.reports] == ["model (raw)", "model (trained)"]
    assert [(one.first, one.second) for one in found.results.comparisons] == [("model (raw)", "model (trained)")]
    said = shown(found)
    assert "model (trained) against model (raw)" in said
    assert "model (trained) (ours)" in said
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["comparisons"]
    assert read(raw).files == ()


def test_several_benchmarks_and_several_agents_keep_to_eighty_columns(tmp_path):
    runs = []
    for agent, weights in (("raw-8b", (0, 1, 0)), ("trained", (1, 0, 0)), ("third", (1, 1, 1))):
        for i, name in enumerate(("triviaqa", "nq-open", "popqa", "simpleqa", "truthfulqa")):
            rows = random_episodes(40, i, weights, benchmark=name)
            runs.append(write_run(tmp_path / agent / name, rows, agent=agent, config={"source": name}))
    found = read(*runs, paper=True)
    assert [one.name for one in found.results.reports] == ["raw-8b", "trained", "third"]
    said = shown(found)
    assert "Average over benchmarks" in said
    assert all(len(line.rstrip()) <= 80 for line in said.splitlines())
    assert not [line for line in said.splitlines() if "…" in line]
    whole = next(one for one in found.results.tables if one.title == "Accuracy, %").rows[-2].cells
    assert whole[0] == "trained (ours)"
    average = found.results.reports[1].average
    judged = [one.judged["reference"].value for one in found.results.reports[1].scores.values()]
    assert float(whole[-1]) == pytest.approx(100 * sum(judged) / 5, abs=0.05)
    assert average["words"].value == pytest.approx(
        sum(one.words.value for one in found.results.reports[1].scores.values()) / 5
    )


def test_runs_that_share_no_question_are_only_reported(tmp_path):
    one = write_run(tmp_path / "a", [episode("q-0", benchmark="popqa")], agent="a")
    other = write_run(tmp_path / "b", [episode("q-0", benchmark="nq-open")], agent="b")
    assert read(one, other).results.comparisons == ()


def test_a_filters_run_brings_its_buckets(tmp_path):
    rows = [episode(f"q-{i}", "good" if k < i else "bad", sample=k) for i in range(5) for k in range(4)]
    run = write_run(tmp_path / "zone", rows, agent="policy")
    episodes = list(read_run(run).episodes())
    write_selection(select(episodes, DifficultyBand(samples=4)), episodes, run, agent="policy")
    found = read(run, paper=True)
    zone = next(one for one in found.results.tables if one.title == "The learning zone")
    assert zone.rows[-1].cells == ("policy, G = 4 (ours)", "1", "3", "1", "3", "60.0 %")


def test_annotated_sentences_give_a_curve(tmp_path):
    file = tmp_path / "audit.jsonl"
    rows = [{"count": count, "correct": count > 3 or count == 1} for count in (0, 0, 1, 2, 5, 9, 30)]
    file.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    found = play(tmp_path / "out", "oracle", n=3, settings={"annotated": str(file)})
    name, curve = found.results.curves[0]
    assert (name, curve.n) == ("audit.jsonl", 7)
    assert "Right sentences by count, %: audit.jsonl" in shown(found)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "out" / SYNTHETIC / "oracle", settings={"annotated": str(tmp_path / "nothing.jsonl")})


def test_a_typo_in_the_last_agent_costs_nothing(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'oracle'"):
        play(tmp_path, "refuse", "oracel")
    assert not list(tmp_path.iterdir())
    assert not Path(tmp_path, SYNTHETIC).exists()


def test_a_users_own_agents_are_played_and_compared(tmp_path):
    policy = f"{Path(__file__).parents[1] / 'agents' / 'forgetful.py'}:Forgetful"
    found = play(tmp_path, "random", policy, paper=True)
    assert [one.second for one in found.results.comparisons] == [found.results.reports[1].name]
    assert found.results.comparisons[0].average["accuracy"].difference.value > 0.2


def test_the_papers_tables_judge_pairs_as_the_paper_does(tmp_path):
    found = play(tmp_path, "oracle", "refuse", paper=True)
    table = next(one for one in found.results.tables if one.title == "Refusals on Qwen3-8B, %")
    assert [row.cells[1:3] for row in table.rows if "(ours)" in row.cells[0]] == [("0.0", "100.0")]
    assert found.results.refusals[0][1].trained_refusal.value == 1.0
