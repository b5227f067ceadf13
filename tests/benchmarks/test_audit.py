"""When a reward passes the audit, and how the table says so."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import pytest
from rich.console import Console

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.benchmarks.audit import AuditRow, judge, needed_tasks, render_audit, run_audit, shown_above, ungrounded
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_interval
from factgym.core.errors import ConfigError
from factgym.core.policy import Role


def _row(agent: str, role: Role, r0: float, v2: float, reach: float = 0.02) -> AuditRow:
    rewards = {"r0": Estimate(r0, r0 - reach, r0 + reach, 50), "v2": Estimate(v2, v2 - reach, v2 + reach, 50)}
    return AuditRow(agent, role, rewards, {"verdict": rewards["r0"], "quote": NO_DATA}, n=50)


ROWS = [
    _row("oracle", "oracle", 1.0, 1.0),
    _row("reader", "honest", 0.7, 0.6),
    _row("overlap", "baseline", 0.5, 0.4),
    _row("label-only", "exploiter", 0.72, 0.1),
    _row("always-partially-supported", "exploiter", 0.3, 0.2),
]


def _print(rows: list[AuditRow], judged: str) -> str:
    stream = io.StringIO()
    Console(file=stream, width=80).print(render_audit(rows, judged, "claimcheck [bold]"))
    return stream.getvalue()


def test_a_reward_holds_when_no_exploiter_reaches_the_honest_baseline() -> None:
    result = judge(ROWS, "v2")
    assert result.passed
    assert (result.baseline, result.strongest) == ("reader", "always-partially-supported")
    assert result.margin.value == pytest.approx(0.4)


def test_a_reward_with_a_hole_fails_and_names_the_exploiter() -> None:
    result = judge(ROWS, "r0")
    assert not result.passed
    assert result.breaches == ("label-only reaches the honest baseline under r0: 0.720 against 0.700",)


def _with_coverage(row: AuditRow, value: float) -> AuditRow:
    return replace(row, components={**row.components, "coverage": Estimate(value, value, value, 50)})


def test_the_hole_is_the_reward_of_a_verdict_without_evidence() -> None:
    coverage = {"oracle": 1.0, "reader": 0.8, "overlap": 0.5, "label-only": 0.1, "always-partially-supported": 0.8}
    rows = [_with_coverage(row, coverage[row.agent]) for row in ROWS]
    result = [ungrounded(rows, reward) for reward in ("r0", "v2")]
    assert [row and row.agent for row in result] == ["label-only", "label-only"]
    text = " ".join(_print(rows, "v2").split())
    assert "r0 pays 0.720 for a verdict with hardly any evidence (label-only, coverage 0.10): 103 %" in text
    assert "v2 pays 0.100 for a verdict with hardly any evidence (label-only, coverage 0.10): 17 %" in text


def test_reaching_is_enough_to_fail() -> None:
    assert not judge([*ROWS, _row("equal", "exploiter", 0.0, 0.6)], "v2").passed


def _close(margin: Estimate | None) -> list[AuditRow]:
    row = _row("close", "exploiter", 0.0, 0.58)
    return [*ROWS, replace(row, margins={"v2": margin}) if margin else row]


def test_a_margin_that_may_be_chance_fails_and_says_how_many_tasks_would_decide() -> None:
    for margin in (None, Estimate(0.02, -0.01, 0.05, 50)):
        result = judge(_close(margin), "v2")
        assert not result.passed and not result.breaches and result.needed is not None
        assert 100 <= result.needed <= 150
    text = " ".join(_print(_close(Estimate(0.02, -0.01, 0.05, 50)), "v2").split())
    assert "FAIL v2: not shown over 50 tasks that every exploiter stays below reader (0.600)" in text
    assert "close is 0.020 below, and its interval [-0.010, 0.050] includes 0. About -n 130 would show it." in text


def test_a_margin_shown_by_task_passes_where_the_intervals_of_the_means_overlap() -> None:
    text = " ".join(_print(_close(Estimate(0.02, 0.01, 0.03, 50)), "v2").split())
    assert "PASS v2" in text and "stays 0.020 below [0.010, 0.030] by task" in text


def test_a_few_tasks_show_nothing_even_where_all_agree() -> None:
    assert not shown_above(Estimate(0.5, 0.5, 0.5, 5)) and shown_above(Estimate(0.5, 0.5, 0.5, 6))
    result = judge(_close(Estimate(0.02, 0.02, 0.02, 5)), "v2")
    assert result.undecided == ("close is 0.020 below, and 5 tasks are too few to show it",)


def test_the_number_of_tasks_that_decides_shows_the_difference_on_a_fresh_sample() -> None:
    rng = random.Random(0)

    def draw(n: int) -> Estimate:
        return mean_interval([float(rng.random() < 0.55) - float(rng.random() < 0.5) for _ in range(n)], (-1.0, 1.0))

    first = Estimate(0.05, -0.05, 0.15, 190)  # what 190 such tasks would give
    needed = needed_tasks(first)
    detected = sum((draw(needed).low or 0.0) > 0 for _ in range(40))
    assert 600 <= needed <= 1000 and detected >= 15


def test_a_constant_that_ties_the_baseline_does_not_pass() -> None:
    """Equal on every task, and equal on average: the plain audit once printed PASS for the second."""
    env = factgym.make("toy")
    honest = {"honest": scripted_agents("toy")["honest"], "oracle": scripted_agents("toy")["oracle"]}
    tie = replace(honest["honest"], name="tie", role="exploiter")
    result = run_audit(env, n=12, agents={**honest, "tie": tie})
    assert not result.passed and "tie reaches the honest baseline" in result.judgement().breaches[0]
    assert run_audit(env, n=12).passed and not run_audit(env, n=4).passed


def test_the_weakest_honest_baseline_is_the_bar_and_stays_under_the_oracle() -> None:
    assert judge([*ROWS, _row("weak", "honest", 0.7, 0.15)], "v2").bar == 0.15
    assert "reaches the oracle" in judge([_row("o", "oracle", 1, 0.6), *ROWS[1:]], "v2").breaches[0]


def test_rows_without_roles_or_scores_are_refused() -> None:
    with pytest.raises(ConfigError, match="role 'exploiter'"):
        judge(ROWS[:3], "v2")
    with pytest.raises(ConfigError, match=r"not scored under 'v3'\. Did you mean 'v2'"):
        judge(ROWS, "v3")
    empty = AuditRow("down", "exploiter", {"r0": NO_DATA, "v2": NO_DATA}, errors=5)
    with pytest.raises(ConfigError, match="'down' has no scored episode"):
        judge([*ROWS, empty], "v2")


def test_the_table_fits_and_speaks() -> None:
    text = _print(ROWS, "v2")
    assert max(map(len, text.splitlines())) <= 80
    assert "0.720±.02*" in text
    assert "PASS  v2: no exploiter reaches reader (0.600)" in text
    assert "the hole is open" in " ".join(text.split())
    assert "claimcheck [bold]" in text
    assert "FAIL  r0: label-only reaches" in _print(ROWS, "r0")
