"""The paper's tables: what is said to agree agrees, what is said to contradict does, and ours stand beside theirs."""

from __future__ import annotations

import io
import json

import pytest
from corver_runs import episode, random_episodes, write_run
from rich.console import Console

from factgym.agents.difficulty import Buckets
from factgym.benchmarks.corver.compare import decompose
from factgym.benchmarks.corver.paper import facts, paper_tables
from factgym.benchmarks.corver.report import evaluate_runs
from factgym.benchmarks.terminal import render_table


@pytest.fixture(scope="module")
def tables():
    return paper_tables()


def by_title(tables, title):
    return next(one for one in tables if one.title == title)


def test_every_number_that_is_compared_agrees(tables):
    marked = [row for table in tables for row in table.rows if row.agrees is not None]
    assert len(marked) > 20
    assert all(row.agrees for row in marked)


def test_the_tables_print_in_eighty_columns(tables):
    console = Console(width=80, record=True, file=io.StringIO())
    for one in tables:
        console.print(render_table(one))
    lines = console.export_text().splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert not [line for line in lines if "…" in line]


def test_every_fact_is_internally_what_the_tables_say():
    found = facts("table1")["rows"]
    assert len({(one["model"], one["method"]) for one in found}) == 24
    raw = {one["model"]: one["accuracy"] for one in facts("table15")["rows"] if one["variant"] == "Raw"}
    trained = {one["model"]: one["accuracy"] for one in facts("table15")["rows"] if one["variant"] == "CorVer"}
    for one in found:
        if one["method"] in ("Raw", "CorVer"):
            assert one["accuracy"] == {"Raw": raw, "CorVer": trained}[one["method"]][one["model"]]
    assert facts("table2")["rows"][0]["accuracy"] == raw["Llama-3.1-8B"]
    assert facts("table2")["rows"][1]["accuracy"] == trained["Llama-3.1-8B"]
    qwen = [one for one in facts("table15")["rows"] if one["model"] == "Qwen3-8B"]
    for i, name in enumerate(("triviaqa", "nq-open", "popqa", "simpleqa", "truthfulqa")):
        row = next(one for one in facts("table17")["rows"] if one["benchmark"] == name)
        assert [one["na"][i] for one in qwen] == [row["raw"], row["trained"]]


def test_ours_stand_beside_theirs_and_are_labelled(tmp_path):
    run = write_run(tmp_path / "run", random_episodes(80, 1, (0.5, 0.3, 0.2)), agent="mine")
    other = write_run(tmp_path / "other", random_episodes(80, 2, (0.6, 0.3, 0.1)), agent="trained")
    made = write_run(
        tmp_path / "made", [episode("q-0", benchmark="synthetic")], agent="scripted", config={"source": "synthetic"}
    )
    reports = [evaluate_runs(one) for one in (run, other, made)]
    refusals = [("trained", one) for one in decompose(*reports[:2])]
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
    ours = {row.cells[0]: row.cells for row in first.rows if "(ours)" in row.cells[0]}
    value = 100 * reports[0].scores["popqa"].accuracy.value
    assert ours["mine (ours)"] == ("mine (ours)", "–", "–", f"{value:.1f}", "–", "–", "–", "–")
    assert ours["scripted (ours)"][6] == "100.0"
    said = " ".join(first.notes)
    for part in ("mine, trained", "popqa test, n = 80", "counts: wiki.cooc", "Not the paper’s number"):
        assert part in said
    assert any("(ours)" in row.cells[0] for row in by_title(tables, "The learning zone").rows)
    assert any("trained popqa (ours)" in row.cells[0] for row in by_title(tables, "Refusals on Qwen3-8B, %").rows)
    assert any("mine" in row.cells[0] for row in by_title(tables, "P(correct | count), %").rows)
    quartiles = [row for row in by_title(tables, "PopQA by popularity, accuracy, %").rows if "(ours)" in row.cells[0]]
    assert len(quartiles) == 10
    json.dumps([one.to_dict() for one in tables], allow_nan=False)


def test_a_run_under_an_ablation_has_its_row(tmp_path):
    run = write_run(tmp_path, [episode("q-0")], agent="mine", config={"reward": "reference-no-judge"})
    found = by_title(paper_tables([evaluate_runs(run)]), "Ablations on Llama-3.1-8B, accuracy, %")
    assert found.rows[-1].cells[0] == "mine, A2 (ours)"
    assert found.rows[-1].cells[3] == "100.0"
