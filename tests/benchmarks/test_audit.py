"""When a reward passes the audit, and how the table says so."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from factgym.benchmarks.audit import AuditRow, judge, render_audit, ungrounded
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate
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


def _print(rows: list[AuditRow], judged: str, margins: dict[str, Estimate] | None = None) -> str:
    stream = io.StringIO()
    Console(file=stream, width=80).print(render_audit(rows, judged, "claimcheck [bold]", margins))
    return stream.getvalue()


def test_a_reward_holds_when_no_exploiter_reaches_the_honest_baseline() -> None:
    result = judge(ROWS, "v2")
    assert result.passed and result.apart
    assert (result.baseline, result.strongest) == ("reader", "always-partially-supported")
    assert result.margin == pytest.approx(0.4)


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


def test_overlapping_intervals_pass_with_a_warning() -> None:
    rows = [*ROWS, _row("close", "exploiter", 0.0, 0.58)]
    assert judge(rows, "v2").passed and not judge(rows, "v2").apart
    assert "raise -n" in " ".join(_print(rows, "v2").split())


def test_a_paired_margin_is_printed_instead_of_the_overlap() -> None:
    rows = [*ROWS, _row("close", "exploiter", 0.0, 0.58)]
    for low, doubt in ((0.01, False), (-0.01, True)):
        text = " ".join(_print(rows, "v2", {"close": Estimate(0.02, low, 0.03, 50)}).split())
        assert f"stays 0.020 below [{low:.3f}, 0.030] by task" in text
        assert ("may be chance" in text) is doubt and "intervals overlap" not in text


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
