"""The paper's tables: its numbers as its text has them, ours against numbers that were worked out by hand."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from factgym.benchmarks.formats import signed
from factgym.benchmarks.report import KINDS, Row, Table, paper_table, same
from factgym.benchmarks.seva import paper as tables_of
from factgym.benchmarks.seva.benchmark import data_sets
from factgym.benchmarks.seva.paper import facts, paper_outputs, paper_tables, reward
from factgym.rewards.seva.output import LABELS
from factgym.rewards.seva.rubrics import PROCESS, reward_of
from factgym.rewards.seva.scoring import SevaGold


@pytest.fixture(scope="module")
def tables() -> dict[tuple[str, str], Table]:
    """Without data: what needs none."""
    return {(one.source, one.kind): one for one in paper_tables()}


@pytest.fixture(scope="module")
def paper(data_dir: Path) -> str:
    file = data_dir.parent / "papers" / "seva.txt"
    if not file.is_file():
        pytest.skip("needs the text of the paper beside the public data sets")
    return file.read_text("utf-8")


def row(table: Table, name: str) -> Row:
    return next(one for one in table.rows if one.cells[0] == name)


SECTIONS = {
    "table1": ("Table 1: Reward landscape", "Why 70/30"),
    "table4": ("Table 4: Macro F1", "GRPO’s gains"),
    "table5": ("Table 5: Structural", "Process reward drives"),
    "table12": ("Table 12: Evaluation", "Auxiliary benchmarks"),
    "table14": ("Table 14: Theoretical", "C.7 Proof"),
    "table16": ("Table 16: Per-benchmark", "D.3 Error"),
    "table17": ("Table 17: Error types", "Appendix E"),
    "table18": ("Table 18: GRPO", "Appendix F"),
    "figure6": ("Figure 6: Reward landscape", "Appendix F"),
    "table21": ("Table 21: Effect", "Appendix J"),
}


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, str):
        yield from (float(found) for found in re.findall(r"^[<~]+([\d.]+)$", value))
    elif not isinstance(value, bool):
        yield float(value)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_number_stands_in_its_section_of_the_paper(paper, name):
    start, end = SECTIONS[name]
    at = paper.index(start)
    # Digits that the conversion splits by braces, commas or signs are joined before they are looked for.
    section = paper[at : paper.index(end, at)].replace("{,}", "").replace(",", " ").replace("{", "").replace("}", "")
    there = {abs(float(found)) for found in re.findall(r"\d+\.\d+|\d+", section)}
    there |= {abs(float(found)) for found in re.findall(r"\d+\.?\d*", section.replace(" ", ""))}
    there |= {float(found.replace(",", "")) for found in re.findall(r"\d+,\d{3}", paper)}
    left_out = {"small_rows", "seeds"}
    known = {key: value for key, value in facts(name).items() if key not in left_out}
    # The conversion doubles formulas: "64.964.9" is 64.9.
    missing = [one for one in numbers(known) if abs(one) not in there and f"{abs(one)}" * 2 not in section]
    assert not missing


def test_the_facts_are_the_keys_that_are_read():
    text = resources.files("factgym.benchmarks").joinpath("facts", "seva.toml").read_text("utf-8")
    assert {*SECTIONS, "table13", "table19", "table20"} == set(tomllib.loads(text))


def test_tables_say_what_kind_they_are(tables):
    assert {kind for _, kind in tables} == set(KINDS)
    for (_, kind), table in tables.items():
        if kind in ("simulated", "theirs"):
            assert all(one.agrees is None for one in table.rows), table.source
        assert table.to_dict()["rows"]


def test_the_landscape_is_theirs(tables):
    table = tables["Table 1", "computed"]
    assert [one.agrees for one in table.rows] == [True] * 4


def test_the_range_says_where_the_formula_ends(tables):
    table = tables["Table 14", "computed"]
    assert row(table, "everything perfect").cells[1:] == ("1.00", "1.00", "1.15", "1.28")
    assert row(table, "everything perfect").agrees is False
    assert row(table, "unparseable").agrees is True
    assert row(table, "perfect process, wrong label").cells[1::2] == ("0.60", "0.85")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # .10 + .30 + .30 · (.3 + 1/2 (.3 + .3 + .2) + 2/3 · .2 …), from equations 1 and 8 to 11 by hand:
        ("Figure 4, scope inflation found", 0.10 + 0.30 + 0.30 * (0.8 + 2 / 15) + 0.15 + 0.15 + 0.85 * 0.15),
        ("G.1, attributable", 0.10 + 0.30 + 0.30 * (0.5 + 2 / 15) + 0.15 + 0.15 + 0.95 * 0.15),
        ("G.2, a number changed", 0.05 + 0.30 + 0.30 * (0.5 + 2 / 15) + 0.15 + 0.15 + 0.5 * 0.15),
        ("G.3, a paraphrase rejected", 0.05 + 0.30 + 0.30 * (0.8 + 1 / 15) + 0.15 * 0.3 - 0.5 * 0.10),
        ("J, SFT: label and confidence alone", 0.05 + 0.15 + 0.15 + 0.7 * 0.15),
        ("J, GRPO: the same, complete", 0.10 + 0.30 + 0.30 + 0.15 + 0.15 + 0.92 * 0.15),
    ],
)
def test_worked_examples(tables, name, expected):
    example = next(one for one in paper_outputs()["examples"] if one["name"] == name)
    assert reward(example["output"], SevaGold(example["gold"])) == pytest.approx(expected)
    assert row(tables["Algorithm 1", "computed"], name).cells[-1] == f"{expected:.3f}"


def test_the_unreadable_level_is_read_from_a_text():
    assert (
        reward(None, SevaGold(LABELS[0]))
        == reward_of("The claim is supported by the source.", SevaGold(LABELS[0]), PROCESS)
        == 0
    )


def test_figure_6_by_equation_2(tables):
    """Six zeros and two ones: mean 1/4, unbiased deviation sqrt(3/14), so 0.75 / 0.4629 = 1.62."""
    assert row(tables["Figure 6", "computed"], "binary").cells[1:3] == ("-0.54", "+1.62")
    assert row(tables["Figure 6", "computed"], "process").cells[1:3] == ("-1.36", "+1.52")


def test_every_alias_and_category_is_read_as_theirs(tables):
    assert len(tables["Table 13", "computed"].rows) == 10
    assert all(one.agrees for one in tables["Table 13", "computed"].rows)
    assert [one.cells[1] for one in tables["Table 20", "computed"].rows] == [
        "numerical_exaggeration", "negation_flip", "scope_inflation", "temporal_shift", "entity_substitution", "fabrication",
    ]  # fmt: skip


def test_every_strategy_has_a_probe_that_differs_from_its_original(tables):
    for one, known in zip(tables["Table 19", "computed"].rows, facts("table19")["rows"], strict=True):
        assert one.cells[0] == known["strategy"]
        assert "no probe" not in one.cells[2]
        assert one.cells[2].removesuffix(" *") != known["original"]


def test_without_data_the_tables_say_so(tables):
    assert all(one.cells[-1] == "no file at hand" for one in tables["Table 12", "data"].rows)


def test_the_data_at_hand(data_dir):
    claims = tables_of.claims_of(data_sets(data_dir))
    table = tables_of.table_12(claims)
    assert {one.cells[0]: (one.cells[1], one.cells[3], one.agrees) for one in table.rows} == {
        "clearfacts": ("159", "12.6 %", None),
        "fever": ("200", "32.5 %", False),
        "truthfulqa": ("400", "50.0 %", False),
        "halueval": ("200", "50.0 %", True),
        "anli": ("1,198", "33.6 %", None),
    }
    form = tables_of.shortcuts(claims)
    assert row(form, "truthfulqa").cells[2] == "100.0 %"
    assert any("truthfulqa" in note and "question mark" in note for note in form.notes)


def test_labels_at_hand_counted_without_our_reader(data_dir):
    lines = (data_dir / "seva_official" / "fever.jsonl").read_text("utf-8").splitlines()
    labels = [json.loads(line)["gold_label"] for line in lines]
    claims = tables_of.claims_of(data_sets(data_dir, ["fever"]))["fever"]
    assert 200 * tables_of.attributable(claims) == labels.count("Attributable") == 65
    assert len(labels) == 200


def test_signed_and_same():
    assert [signed(value) for value in (1.26, -0.7, 0.0, -0.04, 0.04)] == ["+1.3", "-0.7", "0.0", "0.0", "0.0"]
    assert same(0.125, 0.13, 2)
    assert not same(0.124, 0.13, 2)


def test_a_row_fits_its_columns():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        paper_table("x", "y", "computed", ("a",), (Row(("1", "2")),))
