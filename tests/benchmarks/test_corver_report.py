"""Reports, popularity and labels of recorded runs against counts by hand and NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corver_runs import episode, random_episodes, write_run

from factgym.agents.runs.read import read_run
from factgym.benchmarks.corver.report import (
    ABLATIONS,
    NO_COUNTER,
    by_popularity,
    evaluate_runs,
    grouped,
    label_of,
    mean_reward,
    variant_of,
)
from factgym.benchmarks.statistics.intervals import wilson
from factgym.core.errors import DataError


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return random_episodes(400, 1, (0.5, 0.35, 0.15))


@pytest.fixture(scope="module")
def report(made, tmp_path_factory):
    return evaluate_runs(write_run(tmp_path_factory.mktemp("run"), made))


def metrics(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["reward"]["metrics"] for one in made]


def test_shares_are_counts_with_wilson_intervals(made, report):
    found, rows = report.scores["popqa"], metrics(made)
    good, na = (sum(row["label"] == label for row in rows) for label in ("good", "na"))
    assert found.accuracy == wilson(good, 400)
    assert found.refusal == wilson(na, 400)
    assert found.wrong == wilson(400 - good - na, 400)
    assert found.attempted == wilson(good, 400 - na)
    assert found.format == wilson(sum(row["format_ok"] for row in rows), 400)
    assert found.judged["boundary"] == found.accuracy
    assert found.judged["reference"] == wilson(sum(row["label_reference"] == "good" for row in rows), 400)


def test_lengths_and_counts_by_numpy(made, report):
    found, rows = report.scores["popqa"], metrics(made)
    counts = [one for row in rows for one in row["counts"]]
    known = [one for one in counts if one is not None]
    assert found.chars.value == pytest.approx(np.mean([len(row["answer"]) for row in rows]))
    assert found.words.value == pytest.approx(np.mean([len(row["answer"].split()) for row in rows]))
    assert found.sentences.value == pytest.approx(np.mean([len(row["counts"]) for row in rows]))
    assert found.queried.value == pytest.approx(len(known) / len(counts))
    assert found.unsupported.value == pytest.approx(np.mean([one == 0 for one in known]))
    assert found.mean_count == pytest.approx(np.mean(known))
    assert found.median_count == np.median(known)
    assert found.reward.value == pytest.approx(np.mean([one["reward"]["total"] for one in made]))


def test_the_published_judge_can_be_asked_for(made, tmp_path):
    run = write_run(tmp_path, made)
    found = evaluate_runs(run, judge="reference")
    assert found.scores["popqa"].accuracy == evaluate_runs(run).scores["popqa"].judged["reference"]
    plain = [{**one, "reward": {**one["reward"], "metrics": {"label": "good"}}} for one in made]
    with pytest.raises(DataError, match="no label by the reference judge"):
        evaluate_runs(write_run(tmp_path / "plain", plain), judge="reference")


def test_the_average_is_that_of_benchmarks(tmp_path):
    first = write_run(tmp_path / "a", random_episodes(300, 2, (0.8, 0.1, 0.1), benchmark="popqa"))
    second = write_run(tmp_path / "b", random_episodes(50, 3, (0.2, 0.7, 0.1), benchmark="nq-open"))
    found = evaluate_runs([first, second])
    values = [found.scores[name].accuracy.value for name in ("popqa", "nq-open")]
    assert found.average["accuracy"].value == pytest.approx(sum(values) / 2)
    assert found.average["accuracy"].low < found.average["accuracy"].value < found.average["accuracy"].high
    wide = found.average["accuracy"].half_width
    assert wide == pytest.approx(np.hypot(*(found.scores[n].accuracy.half_width for n in found.scores)) / 2, rel=0.05)


def test_samples_of_a_question_are_not_independent(tmp_path):
    rows = [episode(f"q-{i}", "good" if i < 10 else "bad", sample=k) for i in range(20) for k in range(8)]
    found = evaluate_runs(write_run(tmp_path, rows))
    assert found.scores["popqa"].tasks == 20
    assert found.scores["popqa"].accuracy == wilson(10, 20)
    assert any("intervals are over questions" in note for note in found.notes)


def test_faults_are_no_answers(tmp_path):
    fault = {"cause": "rate_limit", "message": "busy"}
    rows = [
        episode("q-0"),
        episode("q-1", error=fault),
        {**episode("q-2"), "reward": {"status": "unscored", "total": None}},
    ]
    found = evaluate_runs(write_run(tmp_path, rows))
    assert (found.n, found.errors, found.unscored) == (1, 1, 1)
    with pytest.raises(DataError, match="no scored answer \\(1 ended by"):
        evaluate_runs(write_run(tmp_path / "none", rows[1:2]))


def test_quarters_of_popularity_add_up(made, report):
    found = report.popularity
    rows = [row for row in metrics(made) if row["popularity"] is not None]
    views = np.array([row["popularity"] for row in rows])
    good = np.array([row["label"] == "good" for row in rows])
    cuts = np.percentile(views, [0, 25, 50, 75, 100])
    assert found.excluded == 400 - len(rows) > 0
    assert sum(one.n for one in found.quartiles) == found.all.n == len(rows)
    places = np.searchsorted(cuts[1:4], views, side="left")
    for i, one in enumerate(found.quartiles):
        assert (one.low, one.high) == (cuts[i], cuts[i + 1])
        assert one.accuracy == wilson(int(good[places == i].sum()), int((places == i).sum()))
    assert found.all.accuracy == wilson(int(good.sum()), len(rows))


def test_only_benchmarks_with_popularity_count_as_lacking_it(made, tmp_path):
    other = random_episodes(30, 5, (1, 1, 1), benchmark="nq-open")
    found = evaluate_runs([write_run(tmp_path / "a", made), write_run(tmp_path / "b", other)])
    assert found.popularity.excluded == evaluate_runs(tmp_path / "a").popularity.excluded
    assert by_popularity(evaluate_runs(tmp_path / "b").answers) is None


def test_the_proxy_of_the_calibration_pairs_every_sentence_with_its_answer(made, report):
    pairs = [(one, row["label"] == "good") for row in metrics(made) for one in row["counts"]]
    assert report.proxy.n == sum(one is not None for one, _ in pairs)
    assert report.proxy.skipped == sum(one is None for one, _ in pairs)
    assert report.proxy.buckets[0].correct == sum(good for one, good in pairs if one == 0)


def test_a_label_says_what_a_run_is(tmp_path):
    run = read_run(write_run(tmp_path / "x", [episode("q-0"), episode("q-0", sample=1)]))
    found = label_of(run)
    assert found.questions() == "popqa test, n = 1 × 2"
    assert found.setting() == "corver-qa · eval prompt · reward reference · reference judge · counts: wiki.cooc"
    bare = read_run(write_run(tmp_path / "y", [episode("q-0")], config={"counter": None, "reward": "strict"}))
    assert label_of(bare).counter == NO_COUNTER
    assert label_of(bare).judge == "boundary"
    options = {"counter_options": {"semantics": "window", "window": 200}, "extractor": "quco:PATH"}
    counted = label_of(read_run(write_run(tmp_path / "w", [episode("q-0")], config=options)))
    assert counted.counter == "wiki.cooc (semantics window, window 200)"
    assert counted.setting().endswith("extractor quco:PATH")
    own = read_run(write_run(tmp_path / "z", [episode("q-0")], config={"counter": None, "source": "synthetic"}))
    assert "generated" in label_of(own).counter
    file = read_run(write_run(tmp_path / "f", [episode("q-0")], config={"source": "file", "path": "/a/b/mine.jsonl"}))
    assert label_of(file).source == "mine"


def test_runs_of_one_agent_on_several_benchmarks_are_one_report(tmp_path):
    runs = [
        write_run(tmp_path / name, [episode("q-0")], agent=agent, config={"source": source, "reward": reward})
        for name, agent, source, reward in (
            ("a", "raw", "popqa", "reference"),
            ("b", "trained", "popqa", "reference"),
            ("c", "raw", "nq-open", "reference"),
            ("d", "raw", "popqa", "reference"),
            ("e", "raw", "popqa", "reference-no-judge"),
        )
    ]
    found = [[run.folder.name for run in group] for group in grouped([read_run(one) for one in runs])]
    assert found == [["a", "c"], ["b"], ["d"], ["e"]]


def test_the_same_answers_twice_are_refused(tmp_path):
    run = write_run(tmp_path, [episode("q-0")])
    with pytest.raises(DataError, match="there twice"):
        evaluate_runs([run, run])


@pytest.mark.parametrize(
    ("config", "variant"),
    [
        ({"reward": "reference"}, ""),
        ({"reward": "reference-no-cooccurrence"}, "A1"),
        ({"reward": "strict", "no_judge": True}, "A2"),
        ({"reward": "strict-no-alignment"}, "A3"),
        ({"reward": "strict-no-judge", "no_alignment": True}, "A2+A3"),
        ({"reward": {"name": "mine", "weights": {}}}, ""),
        ({}, ""),
    ],
)
def test_ablations_are_read_off_the_manifest(config, variant):
    assert variant_of(config) == variant


def test_one_run_is_read_under_every_variant(tmp_path):
    rows = [episode("q-0", "good"), episode("q-1", "bad", format_ok=False)]
    answers = evaluate_runs(write_run(tmp_path, rows)).answers
    found = {name: mean_reward(answers, name).value for name in ("full", "A1", "A2", "A3")}
    assert found == {
        "full": pytest.approx((3.05 + -1.95) / 2),
        "A1": pytest.approx((3.0 + -2.0) / 2),
        "A2": pytest.approx((1.05 + -0.95) / 2),
        "A3": pytest.approx((3.03 + -1.97) / 2),
    }
    assert ABLATIONS["A4"].suffix == ""


def test_a_run_of_another_environment_is_refused(tmp_path):
    row = episode("q-0")
    row["reward"]["metrics"].pop("label")
    with pytest.raises(DataError, match=r"task 'q-0' has no label .* run of a corver environment"):
        evaluate_runs(write_run(tmp_path, [row]))


def test_hostile_records_stand(tmp_path):
    row = episode("q-0")
    row["reward"]["metrics"] |= {
        "counts": ["x", None, -3, 1e400, True, [1]],
        "popularity": "many",
        "answer": 5,
        "answer_chars": "x",
    }
    row["reward"]["components"] = {}
    row["task_view"] = {"question": ["?"]}
    (answer,) = evaluate_runs(write_run(tmp_path, [json.loads(json.dumps(row).replace("Infinity", "null"))])).answers
    assert answer.counts == (None,) * 6
    assert (answer.popularity, answer.chars, answer.words, answer.components) == (None, None, None, {})


def test_a_report_is_json(report, tmp_path):
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert json.loads(text)["benchmarks"]["popqa"]["n"] == 400
    assert Path(report.labels[0].folder).exists()
