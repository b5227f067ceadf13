"""The pictures are well-formed, say in words what they show, and put every mark where the number is."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from factgym.benchmarks.statistics import confusion, confusion_svg, reliability, reliability_svg

SVG = "{http://www.w3.org/2000/svg}"
STATED = [0.05, 0.05, 0.55, 0.95, 0.95, 0.95, 0.95]
RIGHT = [False, True, True, True, True, True, False]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def named(root: ElementTree.Element, tag: str, kind: str = "") -> list[ElementTree.Element]:
    return [one for one in root.iter(SVG + tag) if kind in one.get("class", "").split() or not kind]


def texts(root: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in named(root, "text")]


def test_reliability_points_stand_where_the_numbers_are() -> None:
    root = parsed(reliability_svg(reliability(STATED, RIGHT), "ClearFacts"))
    frame = next(one for one in named(root, "rect", "soft"))
    left, top, side = (float(frame.attrib[key]) for key in ("x", "y", "width"))
    points = [
        ((float(one.attrib["cx"]) - left) / side, 1 - (float(one.attrib["cy"]) - top) / side)
        for one in named(root, "circle")
    ]
    assert points == [pytest.approx(one, abs=1e-3) for one in ((0.05, 0.5), (0.55, 1.0), (0.95, 0.75))]
    columns = [float(one.attrib["height"]) for one in named(root, "rect", "fill")]
    assert [one / columns[-1] for one in columns] == [pytest.approx(0.5), pytest.approx(0.25), 1.0]
    reach = re.findall(r"[\d.]+", named(root, "path", "reach")[0].attrib["d"])
    found = reliability(STATED, RIGHT).bins[0].accuracy
    assert found.low is not None and found.high is not None
    assert 1 - (float(reach[1]) - top) / side == pytest.approx(found.high, abs=1e-3)
    assert 1 - (float(reach[5]) - top) / side == pytest.approx(found.low, abs=1e-3)


def test_bins_of_equal_mass_and_no_items() -> None:
    found = reliability(STATED, RIGHT)
    root = parsed(reliability_svg(found, mass=True))
    assert len(named(root, "circle")) == sum(one.n > 0 for one in found.mass_bins)
    for mass in (False, True):
        empty = parsed(reliability_svg(reliability([], []), mass=mass))
        assert not named(empty, "circle") and "0 items · ECE – · Brier –" in texts(empty)


def test_confusion_shows_every_count_and_share() -> None:
    golds, said = ["a"] * 4 + ["b"] * 2, ["a", "a", "a", "b", "b", None]
    root = parsed(confusion_svg(confusion(golds, said)))
    shown = texts(root)
    assert [one for one in shown if re.fullmatch(r"\d+", one)] == ["3", "1", "0", "0", "1", "1"]
    assert [one for one in shown if one.endswith("%")] == ["75.0 %", "25.0 %", "50.0 %", "50.0 %"]
    assert "no prediction" in shown and any("accuracy 0.667 [" in one for one in shown)
    strength = [float(one.attrib["opacity"]) for one in named(root, "rect") if "opacity" in one.attrib]
    assert strength == pytest.approx([0.45 * share for share in (0.75, 0.25, 0, 0, 0.5, 0.5)], abs=1e-3)
    kinds = [one.attrib["class"] for one in named(root, "rect") if "opacity" in one.attrib]
    assert kinds == ["good", "bad", "bad", "bad", "good", "bad"]


def pictures(title: str) -> list[str]:
    return [
        reliability_svg(reliability(STATED, RIGHT), title),
        confusion_svg(confusion(["a", "b"], ["a", None]), title),
        confusion_svg(confusion([], []), title),
    ]


@pytest.mark.parametrize(
    "title", ["Plain", '</title><script>alert("1")</script>', "x" * 500, "a\u202eb\x00\ud800", ""]
)
def test_self_contained_accessible_and_safe(title: str) -> None:
    for svg in pictures(title):
        root = parsed(svg)
        assert svg.isascii()
        names = root.attrib["aria-labelledby"].split()
        assert root.attrib["role"] == "img"
        assert [one.get("id") for one in (root[0], root[1])] == names
        assert (root[0].tag, root[1].tag) == (SVG + "title", SVG + "desc")
        assert "item" in (root[1].text or "")
        assert not {one.tag for one in root.iter()} - {
            SVG + tag for tag in ["svg", "title", "desc", "style", "rect", "line", "path", "circle", "text", "g"]
        }
        assert "http" not in svg.replace('xmlns="http://www.w3.org/2000/svg"', "") and "url(" not in svg
        assert "prefers-color-scheme: dark" in svg


def test_labels_are_escaped_and_cut() -> None:
    evil = "<b>&" + "y" * 400
    root = parsed(confusion_svg(confusion([evil, "a"], ["a", evil])))
    assert max(len(one) for one in texts(root)) < 80
    assert any(one.startswith("<b>&y") for one in texts(root))


def test_styles_of_two_pictures_on_one_page_do_not_meet() -> None:
    found = reliability(STATED, RIGHT)
    one, two = reliability_svg(found, "one"), reliability_svg(found, "two")
    assert one == reliability_svg(found, "one")
    scopes = [parsed(svg).attrib["class"] for svg in (one, two)]
    assert scopes[0] != scopes[1]
    for svg, scope in zip((one, two), scopes, strict=True):
        rules = re.findall(r"^(?:@media [^{]*\{ )?(\.\S+)", named(parsed(svg), "style")[0].text or "", re.MULTILINE)
        assert len(rules) > 8 and set(rules) == {f".{scope}"}
