"""Table 18 on simulated policies: the effect, what it takes, the table and the picture; and the speed report's texts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from functools import cache

import pytest

from factgym.benchmarks.report import paper_facts
from factgym.benchmarks.seva.collapse import RUNS, CollapseRow, PolicyRates, collapse_chart, simulate_collapse
from factgym.core.errors import ConfigError
from factgym.rewards.seva.output import read_output
from factgym.rewards.seva.rubrics import GROUNDED, PROCESS, reward_of
from factgym.rewards.seva.scoring import score_output
from perf.seva import make_items, measure_seva_reward


@cache
def rows() -> tuple[CollapseRow, ...]:
    return simulate_collapse(groups=300, seed=1)


def own(run: str) -> list[CollapseRow]:
    return [row for row in rows() if row.run == row.reward == run]


def test_binary_advantages_die_out_and_process_advantages_do_not():
    binary, process = own("binary"), own("process")
    assert [row.step for row in binary] == [row.step for row in process] == [0, 100, 200, 350]
    assert binary[-1].report.zero_variance > binary[0].report.zero_variance > 0.75
    assert all(row.report.zero_variance < 0.35 for row in process)
    for row in binary:
        printed = next(one for one in paper_facts("seva", "table18")["binary"] if one["step"] == row.step)
        low, high = printed["low"], printed["high"]
        assert row.report.low_mean == pytest.approx(low, abs=0.08)
        assert row.report.high_mean == pytest.approx(high, abs=0.08)
    for row in process:
        assert row.report.high_mean - row.report.low_mean > 1.6
    assert process[-1].report.reward > process[0].report.reward


def test_the_same_samples_under_both_rewards():
    """Whichever policy wrote them: the reward makes the difference, not the run."""
    found = {(row.run, row.step, row.reward): row.report for row in rows()}
    for run in RUNS:
        for step in (0, 100, 200, 350):
            binary, process = found[run, step, "binary"], found[run, step, "process"]
            assert process.zero_variance < 0.5 * binary.zero_variance
            assert process.high_mean > 4 * binary.high_mean


def test_independent_samples_at_the_papers_rates_do_not_collapse():
    """q = .72 · .65 = .468: a group of eight is all equal with probability q^8 + (1 − q)^8, under one in a hundred."""
    found = simulate_collapse(groups=600, runs={"binary": [PolicyRates(0, 0.28, 0.35, 0.917, 0.0)]})
    binary = next(row.report for row in found if row.reward == "binary")
    assert binary.reward == pytest.approx(0.468, abs=0.02)
    assert binary.zero_variance < 0.03
    assert binary.high_mean > 0.9


def test_rates_are_kept():
    sure = PolicyRates(0, 1.0, 0.0, 1.0, 0.0)
    right = PolicyRates(1, 0.0, 0.0, 1.0, 0.0)
    found = simulate_collapse(groups=20, runs={"process": [sure, right]})
    assert [row.report.reward for row in found if row.step == 0] == [0.0, 0.0]
    process, binary = (row.report.reward for row in found if row.step == 1)
    assert binary == 1.0
    # All perfect, confidence uniform on .6 to 1: 1 + .15 · .8.
    assert process == pytest.approx(1.12, abs=0.01)


def test_the_same_arguments_give_the_same_numbers():
    once, again = (simulate_collapse(groups=5, seed=3) for _ in range(2))
    assert once == again
    assert simulate_collapse(groups=5, seed=4) != once


def test_nonsense_is_refused():
    with pytest.raises(ConfigError, match="group"):
        simulate_collapse(groups=0)
    with pytest.raises(ConfigError, match="group"):
        simulate_collapse(size=1)
    with pytest.raises(ConfigError, match=r"PolicyRates\.wrong"):
        PolicyRates(0, 0.1, 1.1, 0.9, 0.0)


def test_the_chart_is_one_svg_without_outside_parts_and_the_same_each_time():
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    text = collapse_chart(rows())
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<script" not in text and "<image" not in text
    shown = " ".join("".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text"))
    for words in ("binary reward, its own run", "process reward, its own run", "Groups of equal rewards"):
        assert words in shown
    assert collapse_chart(rows()) == text
    assert ET.fromstring(collapse_chart(())).tag == root.tag


def test_speed_is_measured_on_complete_outputs_of_about_700_characters():
    items = make_items(200)
    bare = [text[text.index("{") : text.rindex("}") + 1] for text, *_ in items]
    assert 650 < sum(map(len, bare)) / len(bare) < 750
    assert len(set(bare)) > 190
    for text, gold, claim, source in items:
        found = score_output(read_output(text), gold, claim=claim, source=source)
        assert [found.components[name] for name in ("format", "alignment", "chain")] == [1.0, 1.0, 1.0]
        assert found.gates["consistent"] == 1.0
        assert 0.4 < reward_of(text, gold, GROUNDED, claim=claim, source=source) <= reward_of(text, gold, PROCESS)
    assert all(json.loads(text) for text in bare)


def test_the_speed_report_has_a_line_for_json_alone():
    lines = measure_seva_reward(1)
    assert [line.split("  ")[1].strip() for line in lines[1:]] == [
        "json.loads alone",
        "process reward",
        "process reward with its report",
        "grounded reward",
    ]
