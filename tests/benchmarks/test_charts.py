"""Charts: the same bytes each time, foreign text as text, and a page without the chart library."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from pages import HOSTILE, checked

from factgym.benchmarks import charts
from factgym.benchmarks.page import report_page
from factgym.benchmarks.report import Chart, Report, Section
from factgym.benchmarks.statistics.classification import reliability
from factgym.core.errors import MissingExtraError

SVG = "{http://www.w3.org/2000/svg}"


def words(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_reliability_chart_stands_alone_and_is_deterministic() -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    found = reliability([0.1, 0.3, 0.9, 0.95, 0.99], [False, True, True, True, False])
    svg = charts.reliability_chart(found, HOSTILE)
    assert svg == charts.reliability_chart(found, HOSTILE)
    assert "<script" not in svg and "\u202e" not in svg
    assert any("ECE" in line and "Brier" in line for line in words(svg))
    assert "5 items" in words(svg)
    assert charts.reliability_chart(found, HOSTILE, mass=True) != svg
    empty = charts.reliability_chart(reliability([], []))
    assert ET.fromstring(empty).tag == f"{SVG}svg"


def test_a_page_without_the_library_names_the_extra() -> None:
    def missing() -> str:
        raise MissingExtraError("a chart", "charts")

    text = checked(report_page(Report("x", (Section("y", (Chart("calibration", missing),)),)))).text
    assert "calibration: the extra 'charts' draws it" in text
