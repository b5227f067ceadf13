"""The paper's tables: what is said to agree agrees, what is said to contradict does, and ours stand beside theirs."""

from __future__ import annotations

import io
import json

import pytest
from corver_runs import episode, random_episodes, write_run
from rich.console import Console

from factgym.agents.difficulty.band import Buckets
from factgym.benchmarks.corver.facts import facts
from factgym.benchmarks.corver.paper import paper_tables
from factgym.benchmarks.corver.paper.counts import published
from factgym.benchmarks.corver.paper.sums import REFUSAL
from factgym.benchmarks.corver.refusals import decompose
from factgym.benchmarks.corver.report import evaluate_runs
from factgym.benchmarks.papers.terminal import render_paper
from factgym.rewards.corver import check_format, judge_answer

DISAGREE = {
    "Llama-3.1-8B, triviaqa: gain over the best baseline",
    "Qwen3-8B, triviaqa: gain over the best baseline",
}
"""Rows where the paper's own numbers do not give what it prints."""


@pytest.fixture(scope="module")
def tables():
    return paper_tables()


def by_title(tables, title):
    return next(one for one in tables if one.title == title)


def test_all_but_two_printed_numbers_follow_from_the_others(tables):
    marked = [(table.title, row) for table in tables for row in table.rows if row.agrees is not None]
    assert len(marked) > 70
    assert {row.cells[0] for _, row in marked if not row.agrees} == DISAGREE


def test_the_tables_print_in_eighty_columns(tables):
    console = Console(width=80, record=True, file=io.StringIO())
    for one in tables:
        console.print(render_paper(one))
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


def test_what_the_notes_claim_is_so(tables):
    models: dict[str, dict[str, list[float]]] = {}
    for one in facts("table15")["rows"]:
        models.setdefault(one["model"], {})[one["variant"]] = one["na"]
    moves = {
        name: [round(b - a, 2) for a, b in zip(two["Raw"], two["CorVer"], strict=True)] for name, two in models.items()
    }
    assert all(one > 0 for one in moves["Qwen3-14B"])
    assert sum(one > 0 for one in moves["Qwen3-4B"]) == 2
    assert all(one < 0 for one in moves["Qwen3-8B"])
    llama = [*moves["Llama-3.2-3B"], *moves["Llama-3.1-8B"]]
    assert (min(llama), max(llama)) == (-1.55, 6.37)
    assert judge_answer(REFUSAL, ["Paris"], "reference") == "bad"
    assert judge_answer("I don't know", ["Paris"], "reference") == "na"
    assert check_format(f"<think>unknown</think><answer>{REFUSAL}</answer>")
    assert facts("table13")["figure5"]["first"] == 23
    assert published().buckets[0].share.value == 0.24
    methods = {(one["model"], one["method"]): one["accuracy"] for one in facts("table1")["rows"]}
    pairs = [
        (a, b)
        for (model, name), row in methods.items()
        if name == "KnowRL"
        for a, b in zip(row, methods[model, "Raw"], strict=True)
    ]
    assert all(a <= b for a, b in pairs)
    assert [a for a, b in pairs if a == b] == [5.63]
    fspo, raw = methods["Llama-3.1-8B", "FSPO"], methods["Llama-3.1-8B", "Raw"]
    assert [round(raw[i] - fspo[i], 2) for i in (0, 2)] == [8.43, 5.31]
    zone = {one["model"]: one for one in facts("table11")["rows"]}
    small, large = zone["Llama-3.2-3B"], zone["Llama-3.1-8B"]
    assert small["pool"] == large["pool"]
    assert small["never"] < large["never"]
    assert small["always"] > large["always"]
    seen = [one["hours"] * 3600 * one["rate"] for one in facts("table20")["rows"]]
    assert all(4600 < one < 4900 for one in seen)


def test_numbers_in_the_notes_are_in_their_tables(tables):
    def cells(title):
        return " ".join(cell for row in by_title(tables, title).rows for cell in row.cells)

    for number in ("+6.97", "+2.18", "+5.37", "+4.63", "+4.06", "+2.34"):
        assert number in cells("Averages and gains")
    assert "-1.75" in cells("Averages of the ablations")
    assert [row.cells[-1] for row in by_title(tables, "Averages of the ablations").rows] == [
        "TrivQA",
        "SimpQA",
        "TruthQA",
        "SimpQA",
    ]
    moves = {row.cells[0]: row.cells[-1] for row in by_title(tables, "Change of refusals, points").rows}
    assert (moves["Qwen3-8B"], moves["Qwen3-14B"], moves["Qwen3-4B"]) == ("down", "up", "mixed")


def test_seven_of_thirty_gains_are_within_chance(tables):
    found = by_title(tables, "Gains over raw, points")
    unsure = [cell for row in found.rows for cell in row.cells[1:] if cell.endswith("?")]
    assert len(unsure) == 7
    assert "7 of 30" in found.notes[0]
    # The smallest of those that are sure, by the textbook: 1.15 points at 17,944 questions each.
    a, b, n = 0.6284, 0.6399, 17944
    assert (b - a) / ((a * (1 - a) + b * (1 - b)) / n) ** 0.5 > 1.96


def test_unlocked_recall_is_bounded_by_all_and_by_new_refusals(tables):
    found = {row.cells[0]: row.cells[1:] for row in by_title(tables, "Unlocked recall against the gain, points").rows}
    assert found["simpleqa"] == ("+0.16", "0.33 to 0.36", "-0.20 to -0.17")
    assert found["nq-open"][1] == "1.60 to 2.32"


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
        reports, curves=[("mine", curve)], zones=[("mine", Buckets((5, 3, 2), 3))], refusals=refusals
    )
    first = by_title(tables, "Accuracy, %")
    assert first.columns == ("model", "TrivQA", "NQ", "PopQA†", "SimpQA", "TruthQA", "synthetic", "Avg")
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
