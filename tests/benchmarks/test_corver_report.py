"""Reports, popularity and labels of recorded runs against counts by hand and NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corver_runs import episode, random_episodes, write_run

from factgym.agents.runs.read import read_run
from factgym.benchmarks.answers import group_runs
from factgym.benchmarks.corver.compare import compare, decompose
from factgym.benchmarks.corver.report import (
    ABLATIONS,
    NO_COUNTER,
    by_popularity,
    evaluate_runs,
    label_of,
    mean_reward,
    run_key,
    variant_of,
)
from factgym.benchmarks.statistics.classification import mcnemar
from factgym.benchmarks.statistics.intervals import Estimate, mean_of, wilson
from factgym.core.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return random_episodes(400, 1, (0.5, 0.35, 0.15))


@pytest.fixture(scope="module")
def report(made, tmp_path_factory):
    return evaluate_runs(write_run(tmp_path_factory.mktemp("run"), made))


def metrics(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item["reward"]["metrics"] for item in made]


def test_shares_are_counts_with_wilson_intervals(made, report):
    result, rows = report.scores["popqa"], metrics(made)
    good, na = (sum(row["label"] == label for row in rows) for label in ("good", "na"))
    assert result["accuracy"] == wilson(good, 400)
    assert result["refusal"] == wilson(na, 400)
    assert result["wrong"] == wilson(400 - good - na, 400)
    assert result["attempted"] == wilson(good, 400 - na)
    assert result["format"] == wilson(sum(row["format_ok"] for row in rows), 400)
    assert result.judged["boundary"] == result["accuracy"]
    assert result.judged["reference"] == wilson(sum(row["label_reference"] == "good" for row in rows), 400)


def test_lengths_and_counts_by_numpy(made, report):
    result, rows = report.scores["popqa"], metrics(made)
    counts = [count for row in rows for count in row["counts"]]
    values = [count for count in counts if count is not None]
    assert result["chars"].value == pytest.approx(np.mean([len(row["answer"]) for row in rows]))
    assert result["words"].value == pytest.approx(np.mean([len(row["answer"].split()) for row in rows]))
    assert result["sentences"].value == pytest.approx(np.mean([len(row["counts"]) for row in rows]))
    assert result["queried"].value == pytest.approx(len(values) / len(counts))
    assert result["unsupported"].value == pytest.approx(np.mean([item == 0 for item in values]))
    assert result.mean_count == pytest.approx(np.mean(values))
    assert result.median_count == np.median(values)
    assert result["reward"].value == pytest.approx(np.mean([item["reward"]["total"] for item in made]))


def test_the_published_judge_can_be_asked_for(made, tmp_path):
    run = write_run(tmp_path, made)
    result = evaluate_runs(run, judge="reference")
    assert result.scores["popqa"]["accuracy"] == evaluate_runs(run).scores["popqa"].judged["reference"]
    plain = [{**item, "reward": {**item["reward"], "metrics": {"label": "good"}}} for item in made]
    with pytest.raises(DataError, match="no label by the reference judge"):
        evaluate_runs(write_run(tmp_path / "plain", plain), judge="reference")


def test_the_average_is_that_of_benchmarks(tmp_path):
    first = write_run(tmp_path / "a", random_episodes(300, 2, (0.8, 0.1, 0.1), benchmark="popqa"))
    second = write_run(tmp_path / "b", random_episodes(50, 3, (0.2, 0.7, 0.1), benchmark="nq-open"))
    result = evaluate_runs([first, second])
    values = [result.scores[name]["accuracy"].value for name in ("popqa", "nq-open")]
    assert result.average["accuracy"].value == pytest.approx(sum(values) / 2)
    assert result.average["accuracy"].low < result.average["accuracy"].value < result.average["accuracy"].high
    wide = result.average["accuracy"].half_width
    assert wide == pytest.approx(
        np.hypot(*(result.scores[n]["accuracy"].half_width for n in result.scores)) / 2, rel=0.05
    )


def test_samples_of_a_question_are_not_independent(tmp_path):
    rows = [episode(f"q-{i}", "good" if i < 10 else "bad", sample=k) for i in range(20) for k in range(8)]
    result = evaluate_runs(write_run(tmp_path, rows))
    assert result.scores["popqa"].tasks == 20
    assert result.scores["popqa"]["accuracy"] == wilson(10, 20)
    assert any("intervals are over questions" in note for note in result.notes)


def test_faults_are_no_answers(tmp_path):
    fault = {"cause": "rate_limit", "message": "busy"}
    rows = [
        episode("q-0"),
        episode("q-1", error=fault),
        {**episode("q-2"), "reward": {"status": "unscored", "total": None}},
    ]
    result = evaluate_runs(write_run(tmp_path, rows))
    assert (result.n, result.errors, result.unscored) == (1, 1, 1)
    with pytest.raises(DataError, match="no scored answer \\(1 ended by"):
        evaluate_runs(write_run(tmp_path / "none", rows[1:2]))


def test_quarters_of_popularity_add_up(made, report):
    result = report.popularity
    rows = [row for row in metrics(made) if row["popularity"] is not None]
    views = np.array([row["popularity"] for row in rows])
    good = np.array([row["label"] == "good" for row in rows])
    cuts = np.percentile(views, [0, 25, 50, 75, 100])
    assert result.excluded == 400 - len(rows) > 0
    assert sum(quartile.n for quartile in result.quarters[:-1]) == result.quarters[-1].n == len(rows)
    places = np.searchsorted(cuts[1:4], views, side="left")
    for i, item in enumerate(result.quarters[:-1]):
        assert (item.low, item.high) == (cuts[i], cuts[i + 1])
        assert item.accuracy == wilson(int(good[places == i].sum()), int((places == i).sum()))
    assert result.quarters[-1].accuracy == wilson(int(good.sum()), len(rows))


def test_only_benchmarks_with_popularity_count_as_lacking_it(made, tmp_path):
    second = random_episodes(30, 5, (1, 1, 1), benchmark="nq-open")
    result = evaluate_runs([write_run(tmp_path / "a", made), write_run(tmp_path / "b", second)])
    assert result.popularity.excluded == evaluate_runs(tmp_path / "a").popularity.excluded
    assert by_popularity(evaluate_runs(tmp_path / "b").answers) is None


def test_the_proxy_of_the_calibration_pairs_every_sentence_with_its_answer(made, report):
    pairs = [(count, row["label"] == "good") for row in metrics(made) for count in row["counts"]]
    assert report.proxy.n == sum(item is not None for item, _ in pairs)
    assert report.proxy.skipped == sum(item is None for item, _ in pairs)
    assert report.proxy.buckets[0].correct == sum(good for item, good in pairs if item == 0)


def test_a_label_describes_a_run(tmp_path):
    run = read_run(write_run(tmp_path / "x", [episode("q-0"), episode("q-0", sample=1)]))
    result = label_of(run)
    assert result.questions() == "popqa test, n = 1 × 2"
    assert result.setting() == "corver-qa · eval prompt · reward reference · reference judge · counts: wiki.cooc"
    bare = read_run(write_run(tmp_path / "y", [episode("q-0")], config={"counter": None, "reward": "strict"}))
    assert label_of(bare).counter == NO_COUNTER
    assert label_of(bare).judge == "boundary"
    options = {"counter_options": {"semantics": "window", "window": 200}, "extractor": "quco:PATH"}
    counted = label_of(read_run(write_run(tmp_path / "w", [episode("q-0")], config=options)))
    assert counted.counter == "wiki.cooc (semantics window, window 200)"
    assert counted.setting().endswith("extractor quco:PATH")
    group = read_run(write_run(tmp_path / "z", [episode("q-0")], config={"counter": None, "source": "synthetic"}))
    assert "generated" in label_of(group).counter
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
    result = [[run.folder.name for run in group] for group in group_runs([read_run(item) for item in runs], run_key)]
    assert result == [["a", "c"], ["b"], ["d"], ["e"]]


def test_the_same_answers_twice_are_refused(tmp_path):
    run = write_run(tmp_path, [episode("q-0")])
    with pytest.raises(DataError, match="occur twice"):
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
    result = {name: mean_reward(answers, name).value for name in ("full", "A1", "A2", "A3")}
    assert result == {
        "full": pytest.approx((3.05 + -1.95) / 2),
        "A1": pytest.approx((3.0 + -2.0) / 2),
        "A2": pytest.approx((1.05 + -0.95) / 2),
        "A3": pytest.approx((3.03 + -1.97) / 2),
    }
    assert ABLATIONS["A4"] == ""


def test_a_run_of_another_environment_is_refused(tmp_path):
    row = episode("q-0")
    row["reward"]["metrics"].pop("label")
    with pytest.raises(DataError, match=r"task 'q-0' has no label .* run of a corver environment"):
        evaluate_runs(write_run(tmp_path, [row]))


def test_hostile_records_are_read(tmp_path):
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


# Two reports on the same questions: paired differences, and where a gain comes from.


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A raw and a trained agent on two benchmarks."""
    folder = tmp_path_factory.mktemp("runs")

    def report(name, seed, weights):
        runs = [
            write_run(folder / name / item, random_episodes(n, seed, weights, benchmark=item), agent=name)
            for item, n in (("popqa", 300), ("nq-open", 120))
        ]
        return evaluate_runs(runs)

    return report("raw", 1, (0.3, 0.4, 0.3)), report("trained", 2, (0.5, 0.45, 0.05))


def labels(report, benchmark):
    return [answer.label for answer in report.answers if answer.benchmark == benchmark]


def test_differences_are_paired_means(reports):
    result = compare(*reports)
    for name in ("popqa", "nq-open"):
        first, second = (np.array(labels(item, name)) for item in reports)
        part = result.benchmarks[name].parts["accuracy"]
        assert part.difference.value == pytest.approx((second == "good").mean() - (first == "good").mean())
        refusal = result.benchmarks[name].parts["refusal"]
        assert refusal.difference.value == pytest.approx((second == "na").mean() - (first == "na").mean())
        assert part.difference.low < part.difference.value < part.difference.high
        assert result.benchmarks[name].mcnemar == mcnemar(list(first == "good"), list(second == "good"))


def test_the_interval_is_near_the_normal_one(reports):
    """BCa of a mean of some hundred differences is close to the textbook interval."""
    first, second = (np.array(labels(item, "popqa")) == "good" for item in reports)
    change = second.astype(float) - first.astype(float)
    reach = 1.96 * change.std(ddof=1) / np.sqrt(len(change))
    result = compare(*reports).benchmarks["popqa"].parts["accuracy"].difference
    assert result.high - result.low == pytest.approx(2 * reach, rel=0.05)


def test_exchanging_the_reports_changes_the_sign(reports):
    present, back = compare(*reports), compare(*reversed(reports))
    for name, item in present.benchmarks.items():
        for part, difference in item.parts.items():
            second = back.benchmarks[name].parts[part]
            assert second.difference.value == pytest.approx(-difference.difference.value)
            assert (second.first, second.second) == (difference.second, difference.first)


def test_the_average_is_that_of_benchmarks_compare(reports):
    result = compare(*reports)
    parts = [benchmark.parts["accuracy"].difference for benchmark in result.benchmarks.values()]
    assert result.average["accuracy"].difference.value == pytest.approx(sum(part.value for part in parts) / 2)
    complete = mean_of([Estimate(0.1, 0.0, 0.2, 5), Estimate(0.3, 0.2, 0.4, 7)])
    assert (complete.value, complete.n) == (pytest.approx(0.2), 12)
    assert complete.high - complete.value == pytest.approx(0.1 / 2**0.5)


def test_samples_are_clustered_by_question(tmp_path):
    raw = [episode(f"q-{i}", "good" if i % 2 else "bad", sample=k) for i in range(30) for k in range(4)]
    trained = [episode(f"q-{i}", "good" if i % 3 else "bad", sample=k) for i in range(30) for k in range(4)]
    result = compare(*(evaluate_runs(write_run(tmp_path / n, rows)) for n, rows in (("a", raw), ("b", trained))))
    once = compare(*(evaluate_runs(write_run(tmp_path / n, rows[::4])) for n, rows in (("c", raw), ("d", trained))))
    assert result.benchmarks["popqa"].mcnemar is None
    wide = result.benchmarks["popqa"].parts["accuracy"].difference
    alone = once.benchmarks["popqa"].parts["accuracy"].difference
    assert wide.n == alone.n == 30
    assert (wide.low, wide.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_reports_without_common_questions_are_refused(tmp_path):
    item = evaluate_runs(write_run(tmp_path / "a", [episode("q-0")]))
    second = evaluate_runs(write_run(tmp_path / "b", [episode("q-1")]))
    with pytest.raises(ConfigError, match="share no scored answer"):
        compare(item, second)
    changed = evaluate_runs(write_run(tmp_path / "c", [episode("q-0", question="Another one?")]))
    with pytest.raises(ConfigError, match="disagree on the content of task popqa 'q-0'"):
        compare(item, changed)


def test_differences_of_the_runs_are_noted(tmp_path):
    item = evaluate_runs(write_run(tmp_path / "a", [episode("q-0"), episode("q-1")]))
    second = evaluate_runs(write_run(tmp_path / "b", [episode("q-0")], config={"prompt": "eval-trained"}))
    result = compare(item, second)
    assert result.notes == (
        "1 answer that only one of the two gave left out.",
        "The runs differ in the prompt: eval against eval-trained.",
    )
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_gain_divides_into_its_three_parts(reports):
    for row in decompose(*reports):
        assert row.from_unlocked + row.from_both + row.from_withdrawn == pytest.approx(row.gain)
        raw, trained = (np.array(labels(report, row.benchmark)) for report in reports)
        assert row.gain == pytest.approx((trained == "good").mean() - (raw == "good").mean())
        opened = (raw == "na") & (trained != "na")
        assert row.unlocked.value == pytest.approx((trained[opened] == "good").mean())
        assert row.unlocked.n == opened.sum()
        assert row.raw_refusal.value == pytest.approx((raw == "na").mean())
        lost = (raw == "good") & (trained == "na")
        assert row.from_withdrawn == pytest.approx(-lost.mean())
        json.dumps(row.to_dict(), allow_nan=False)


def test_a_row_like_that_of_table_17(tmp_path):
    """NQ-Open's refusals, 13.27 % and 4.13 % of 3,610, none of the later ones new: 330 questions are unlocked."""
    n, refused, remaining, right = 3610, 479, 149, 58
    raw, trained = [], []
    for i in range(n):
        raw.append(episode(f"q-{i}", "na" if i < refused else "bad"))
        trained.append(episode(f"q-{i}", "na" if i < remaining else "good" if i < remaining + right else "bad"))
    (result,) = decompose(
        *(evaluate_runs(write_run(tmp_path / name, rows)) for name, rows in (("a", raw), ("b", trained)))
    )
    text = [round(100 * item.value, 2) for item in (result.raw_refusal, result.trained_refusal)]
    assert text == [13.27, 4.13]
    assert round(100 * result.unlocked.value, 1) == 17.6
    assert result.from_both == result.from_withdrawn == 0


def test_gains_by_popularity_are_paired_within_quarters(reports):
    raw, trained = ([answer for answer in report.answers if answer.popularity is not None] for report in reports)
    views = np.array([item.popularity for item in raw])
    places = np.searchsorted(np.percentile(views, [25, 50, 75]), views, side="left")
    change = np.array([b.good - a.good for a, b in zip(raw, trained, strict=True)], float)
    result = compare(*reports).quarters
    assert [row.name for row in result] == ["Q1 (rare)", "Q2", "Q3", "Q4 (popular)", "All"]
    for i, item in enumerate(result[:4]):
        assert item.n == (places == i).sum()
        assert item.accuracy.difference.value == pytest.approx(change[places == i].mean())
    assert result[4].n == len(raw)
    assert result[4].accuracy.difference.value == pytest.approx(change.mean())
    assert [(row.low, row.high) for row in result[:4]] == [
        (quartile.low, quartile.high) for quartile in reports[0].popularity.quarters[:-1]
    ]
