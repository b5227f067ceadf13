"""The paper's tables: its numbers as its text has them, ours against numbers that were worked out by hand."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factgym.benchmarks.papers.table import same, signed
from factgym.benchmarks.seva import collapse
from factgym.benchmarks.seva.facts import facts
from factgym.benchmarks.seva.paper import KINDS, PaperRow, PaperTable, paper_tables
from factgym.benchmarks.seva.paper import data as data_tables
from factgym.benchmarks.seva.paper.reward import EXAMPLES, reward
from factgym.benchmarks.seva.paper.sums import best_macro_f1, implied_accuracy, rebuilt, slice_deviation
from factgym.benchmarks.seva.paper.variance import expected_variance, simulated_variance
from factgym.benchmarks.seva.suite import data_sets
from factgym.rewards.seva import LABELS, PROCESS, SevaGold, reward_of
from factgym.training.seva import rounds


@pytest.fixture(scope="module")
def tables() -> dict[tuple[str, str], PaperTable]:
    """Without data: what needs none."""
    return {(one.source, one.kind): one for one in paper_tables()}


@pytest.fixture(scope="module")
def paper(data_dir: Path) -> str:
    file = data_dir.parent / "papers" / "seva.txt"
    if not file.is_file():
        pytest.skip("needs the text of the paper beside the public data sets")
    return file.read_text("utf-8")


def row(table: PaperTable, name: str) -> PaperRow:
    return next(one for one in table.rows if one.cells[0] == name)


SECTIONS = {
    "table1": ("Table 1: Reward landscape", "Why 70/30"),
    "table2": ("Table 2: Self-evolution", "Does the loop"),
    "table3": ("Table 3: ClearFacts", "3.3 Generalization"),
    "table4": ("Table 4: Macro F1", "GRPO’s gains"),
    "table5": ("Table 5: Structural", "Process reward drives"),
    "table7": ("Table 7: Compute", "A.2 SFT"),
    "table12": ("Table 12: Evaluation", "Auxiliary benchmarks"),
    "table14": ("Table 14: Theoretical", "C.7 Proof"),
    "table15": ("Table 15: Confusion", "D.2 Multi"),
    "table16": ("Table 16: Per-benchmark", "D.3 Error"),
    "table17": ("Table 17: Error types", "Appendix E"),
    "table18": ("Table 18: GRPO", "Appendix F"),
    "figure6": ("Figure 6: Reward landscape", "Appendix F"),
    "table21": ("Table 21: Effect", "Appendix J"),
    "table22": ("Table 22: Per-round", "Figure 7"),
    "table23": ("Appendix N", "The full-pipeline estimate"),
    "appendixO": ("Appendix O", "Self-evolution result stability"),
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
    text = resources.files("factgym.benchmarks.seva").joinpath("facts.toml").read_text("utf-8")
    assert {*SECTIONS, "table13", "table19", "table20", "proposition1"} == set(tomllib.loads(text))


def test_the_simulation_is_laid_beside_the_same_numbers():
    for run, steps in collapse.PAPER.items():
        found = {one["step"]: (one["reward"], one["low"], one["high"]) for one in facts("table18")[run]}
        assert found == steps


def test_the_rounds_are_laid_beside_the_same_numbers():
    columns = facts("table22")["columns"]
    for one in facts("table22")["rows"]:
        match = next(found for name, found in rounds.PAPER.items() if name.startswith(one["round"]))
        assert match == dict(zip(columns, one["f1"], strict=True))


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
    data, gold = EXAMPLES[name]
    assert reward(data, gold) == pytest.approx(expected)
    assert row(tables["Algorithm 1", "computed"], name).cells[-1] == f"{expected:.3f}"


def test_the_unreadable_level_is_read_from_a_text():
    assert (
        reward(None, SevaGold(LABELS[0]))
        == reward_of("The claim is supported by the source.", SevaGold(LABELS[0]), PROCESS)
        == 0
    )


@pytest.mark.parametrize("q", [0.05, 0.37, 0.5, 0.9])
@pytest.mark.parametrize("size", [2, 8, 16])
def test_the_expected_variance_against_numpy(q, size):
    """By direct simulation: the unbiased one is q (1 - q), whatever G; the other is (G - 1) / G of it."""
    groups = (np.random.default_rng(3).random((60_000, size)) < q).astype(float)
    for ddof in (0, 1):
        found = groups.var(axis=1, ddof=ddof)
        tolerance = 5 * found.std() / np.sqrt(len(found))
        assert expected_variance(q, size, ddof) == pytest.approx(found.mean(), abs=tolerance)
        assert simulated_variance(q, size, ddof, groups=60_000) == pytest.approx(found.mean(), abs=2 * tolerance)
    assert expected_variance(q, size, 1) == pytest.approx(q * (1 - q))
    assert expected_variance(q, size, 0) == pytest.approx((size - 1) / size * q * (1 - q))


def test_proposition_1_says_that_the_paper_is_wrong(tables):
    table = tables["Proposition 1", "computed"]
    assert table.rows[0].cells[1] == "0.2331"
    assert table.rows[0].agrees is False
    assert row(table, "G/(G−1) · q(1−q), as printed").agrees is True
    assert row(table, "groups of equal rewards, no signal").cells[1] == "2.5 %"


def test_figure_6_by_equation_2(tables):
    """Six zeros and two ones: mean 1/4, unbiased deviation sqrt(3/14), so 0.75 / 0.4629 = 1.62."""
    assert row(tables["Figure 6", "computed"], "binary").cells[1:3] == ("-0.54", "+1.62")
    assert row(tables["Figure 6", "computed"], "process").cells[1:3] == ("-1.36", "+1.52")


def test_the_confusion_matrices_rebuilt():
    metrics = pytest.importorskip("sklearn.metrics", reason="compares with scikit-learn, of the dev extra")
    golds, said = rebuilt("SEVA-SFT 3B")
    assert len(golds) == len(said) == 1590
    assert 100 * metrics.f1_score(golds, said, average="macro") == pytest.approx(64.9, abs=0.1)
    golds, said = rebuilt("SEVA-GRPO 3B")
    assert 100 * metrics.f1_score(golds, said, average="macro") == pytest.approx(69.0, abs=0.1)
    assert 100 * metrics.accuracy_score(golds, said) == pytest.approx(68.9, abs=0.05)


def test_what_f1_and_rejections_imply_by_trying_all_tables():
    items, supported, rejected = 40, 13, 19
    found = []
    for hits in range(rejected + 1):
        wrong = rejected - hits
        if wrong <= supported and hits <= items - supported:
            first = 2 * (supported - wrong) / (supported + items - rejected)
            second = 2 * hits / (items - supported + rejected)
            found.append(((first + second) / 2, (supported - wrong + hits) / items))
    assert best_macro_f1(items, supported, rejected) == pytest.approx(max(found)[0])
    for f1, accuracy in found:
        assert implied_accuracy(items, supported, rejected, f1) == pytest.approx(accuracy)


def test_the_deviation_between_slices_by_drawing_them():
    """Two thousand slices of 200 from 1,000 items of which 800 are right, and the chance of three that hardly differ."""
    right = np.arange(1000) < 800
    rng = np.random.default_rng(1)
    shares = np.array([rng.choice(right, 200, replace=False).mean() for _ in range(2000)])
    deviation = slice_deviation(0.8, 200, 1000)
    assert deviation == pytest.approx(shares.std(), rel=0.05)
    triples = shares[:1998].reshape(-1, 3).std(axis=1, ddof=1)
    small = 0.5 * deviation
    assert (triples <= small).mean() == pytest.approx(1 - np.exp(-((small / deviation) ** 2)), abs=0.05)


def test_the_seeds_of_the_appendix(tables):
    table = tables["Appendix O", "arithmetic"]
    assert row(table, "fever").cells[1:4] == ("200 of 19,998", "2.5", "0.6")


def test_sums_and_differences(tables):
    assert all(one.agrees for one in tables["Table 2", "arithmetic"].rows)
    assert all(one.agrees for one in tables["Table 22", "arithmetic"].rows)
    assert all(one.agrees for one in tables["Table 17", "arithmetic"].rows)
    carbon = tables["Tables 7, 23", "arithmetic"]
    assert row(carbon, "first two rows").agrees is False
    assert row(carbon, "Round 4").cells[3:] == ("40.3", "40.3", "16.5", "16.5")


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
    claims = data_tables.claims_of(data_sets(data_dir))
    table = data_tables.table_12(claims)
    assert {one.cells[0]: (one.cells[1], one.cells[3], one.agrees) for one in table.rows} == {
        "clearfacts": ("159", "12.6 %", None),
        "fever": ("200", "32.5 %", False),
        "truthfulqa": ("400", "50.0 %", False),
        "halueval": ("200", "50.0 %", True),
        "anli": ("1,198", "33.6 %", None),
    }
    form = data_tables.shortcuts(claims)
    assert row(form, "truthfulqa").cells[2] == "100.0 %"
    assert any("truthfulqa" in note and "question mark" in note for note in form.notes)


def test_labels_at_hand_counted_without_our_reader(data_dir):
    lines = (data_dir / "seva_official" / "fever.jsonl").read_text("utf-8").splitlines()
    labels = [json.loads(line)["gold_label"] for line in lines]
    claims = data_tables.claims_of(data_sets(data_dir, ["fever"]))["fever"]
    assert 200 * data_tables.attributable(claims) == labels.count("Attributable") == 65
    assert len(labels) == 200


def test_signed_and_same():
    assert [signed(value) for value in (1.26, -0.7, 0.0, -0.04, 0.04)] == ["+1.3", "-0.7", "0.0", "0.0", "0.0"]
    assert same(0.125, 0.13, 2)
    assert not same(0.124, 0.13, 2)


def test_a_row_fits_its_columns():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        PaperTable("x", "y", "computed", ("a",), (PaperRow(("1", "2")),))
