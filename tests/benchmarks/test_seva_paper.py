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
from factgym.benchmarks.report import KINDS, Row, Table, agrees, make_table
from factgym.benchmarks.seva import paper as tables_of
from factgym.benchmarks.seva.benchmark import data_sets
from factgym.benchmarks.seva.paper import facts, paper_outputs, paper_tables, reward
from factgym.rewards.seva.output import LABELS, read_output
from factgym.rewards.seva.rubrics import GROUNDED, PROCESS
from factgym.rewards.seva.scoring import SevaGold, score_output
from perf.seva import make_items, measure_seva_reward, reward_of


@pytest.fixture(scope="module")
def tables() -> dict[tuple[str, str], Table]:
    """Without data: what needs none."""
    return {(item.source, item.kind): item for item in paper_tables()}


@pytest.fixture(scope="module")
def paper(data_dir: Path) -> str:
    file = data_dir.parent / "papers" / "seva.txt"
    if not file.is_file():
        pytest.skip("needs the text of the paper beside the public data sets")
    return file.read_text("utf-8")


def row(table: Table, name: str) -> Row:
    return next(item for item in table.rows if item.cells[0] == name)


SECTIONS = {
    "table1": ("Table 1: Reward landscape", "Why 70/30"),
    "table4": ("Table 4: Macro F1", "GRPO’s gains"),
    "table5": ("Table 5: Structural", "Process reward drives"),
    "table12": ("Table 12: Evaluation", "Auxiliary benchmarks"),
    "table14": ("Table 14: Theoretical", "C.7 Proof"),
    "table16": ("Table 16: Per-benchmark", "D.3 Error"),
    "table17": ("Table 17: Error types", "Appendix E"),
    "figure6": ("Figure 6: Reward landscape", "Appendix F"),
    "table21": ("Table 21: Effect", "Appendix J"),
}


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, str):
        yield from (float(result) for result in re.findall(r"^[<~]+([\d.]+)$", value))
    elif not isinstance(value, bool):
        yield float(value)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_number_is_in_its_section_of_the_paper(paper, name):
    start, end = SECTIONS[name]
    at = paper.index(start)
    # Digits that the conversion splits by braces, commas or signs are joined before they are looked for.
    section = paper[at : paper.index(end, at)].replace("{,}", "").replace(",", " ").replace("{", "").replace("}", "")
    present = {abs(float(result)) for result in re.findall(r"\d+\.\d+|\d+", section)}
    present |= {abs(float(result)) for result in re.findall(r"\d+\.?\d*", section.replace(" ", ""))}
    present |= {float(result.replace(",", "")) for result in re.findall(r"\d+,\d{3}", paper)}
    left_out = {"small_rows", "seeds"}
    values = {key: value for key, value in facts(name).items() if key not in left_out}
    # The conversion doubles formulas: "64.964.9" is 64.9.
    missing = [
        number for number in numbers(values) if abs(number) not in present and f"{abs(number)}" * 2 not in section
    ]
    assert not missing


def test_the_facts_are_the_keys_that_are_read():
    text = resources.files("factgym.benchmarks").joinpath("facts", "seva.toml").read_text("utf-8")
    assert {*SECTIONS, "table13", "table19", "table20", "tables"} == set(tomllib.loads(text))


def test_tables_name_their_kind(tables):
    assert {kind for _, kind in tables} == set(KINDS)
    for (_, kind), table in tables.items():
        if kind == "theirs":
            assert all(item.agrees is None for item in table.rows), table.source
        assert table.to_dict()["rows"]


def test_the_landscape_agrees_with_the_paper(tables):
    table = tables["Table 1", "computed"]
    assert [item.agrees for item in table.rows] == [True] * 4


def test_the_range_ends_at_the_limits_of_the_formula(tables):
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
    example = next(item for item in paper_outputs()["examples"] if item["name"] == name)
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


def test_every_alias_and_category_is_read_as_in_the_paper(tables):
    assert len(tables["Table 13", "computed"].rows) == 10
    assert all(item.agrees for item in tables["Table 13", "computed"].rows)
    assert [item.cells[1] for item in tables["Table 20", "computed"].rows] == [
        "numerical_exaggeration", "negation_flip", "scope_inflation", "temporal_shift", "entity_substitution", "fabrication",
    ]  # fmt: skip


def test_every_strategy_has_a_probe_that_differs_from_its_original(tables):
    for item, values in zip(tables["Table 19", "computed"].rows, facts("table19")["rows"], strict=True):
        assert item.cells[0] == values["strategy"]
        assert "no probe" not in item.cells[2]
        assert item.cells[2].removesuffix(" *") != values["original"]


def test_without_data_the_tables_say_so(tables):
    assert all(item.cells[-1] == "no file at hand" for item in tables["Table 12", "data"].rows)


def test_the_data_at_hand(data_dir):
    claims = tables_of.claims_of(data_sets(data_dir))
    table = tables_of.table_12(claims)
    assert {item.cells[0]: (item.cells[1], item.cells[3], item.agrees) for item in table.rows} == {
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
    assert agrees(0.125, 0.13, 2)
    assert not agrees(0.124, 0.13, 2)


def test_a_row_fits_its_columns():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        make_table("y", ("a",), (Row(("1", "2")),))


def test_speed_is_measured_on_complete_outputs_of_about_700_characters():
    items = make_items(200)
    bare = [text[text.index("{") : text.rindex("}") + 1] for text, *_ in items]
    assert 650 < sum(map(len, bare)) / len(bare) < 750
    assert len(set(bare)) > 190
    for text, gold, claim, source in items:
        result = score_output(read_output(text), gold, claim=claim, source=source)
        assert [result.components[name] for name in ("format", "alignment", "chain")] == [1.0, 1.0, 1.0]
        assert result.gates["consistent"] == 1.0
        assert 0.25 < reward_of(text, gold, GROUNDED, claim=claim, source=source) <= reward_of(text, gold, PROCESS)
    assert all(json.loads(text) for text in bare)


def test_the_speed_report_has_a_line_for_json_alone():
    lines = measure_seva_reward(1)
    assert [line.split("  ")[1].strip() for line in lines[1:]] == [
        "json.loads alone",
        "process reward",
        "process reward with its report",
        "grounded reward",
        "grounded reward, of known claims",
    ]
