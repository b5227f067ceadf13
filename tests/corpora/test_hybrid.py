"""Reciprocal rank fusion against an example worked out by hand (Cormack et al. 2009, constant 60)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Passage
from factgym.corpora.hybrid import HybridIndex
from factgym.corpora.index import Hit

PASSAGES = [Passage(name, "", name) for name in "abcd"]


class Fixed:
    """Gives the same ranking for every query."""

    def __init__(self, ranking: str) -> None:
        self.ranking = ranking
        self.depths: list[int] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.depths.append(k)
        return [[Hit(name, 9.0 - i) for i, name in enumerate(self.ranking)][:k] for _ in queries]


def test_fusion_worked_out_by_hand() -> None:
    """First ranking c a b, second b d c.

    c: 1/61 + 1/63 = .0322664; b: 1/63 + 1/61 = the same, and earlier in the corpus; a: 1/62; d: 1/62, later.
    """
    fused = HybridIndex(PASSAGES, [Fixed("cab"), Fixed("bdc")]).search(["q", "r"], 4)
    assert fused[0] == fused[1]
    assert [hit.id for hit in fused[0]] == ["b", "c", "a", "d"]
    assert [hit.score for hit in fused[0]] == pytest.approx([0.0322664585, 0.0322664585, 0.0161290323, 0.0161290323])


def test_the_constant_decides_between_one_first_place_and_two_second_places() -> None:
    parts = [Fixed("ab"), Fixed("cb")]
    assert HybridIndex(PASSAGES, parts).search(["q"], 1)[0][0].id == "b"
    assert HybridIndex(PASSAGES, parts, constant=0).search(["q"], 1)[0][0] == Hit("a", 1.0)


def test_depth_is_what_is_asked_of_each_index() -> None:
    part = Fixed("dcba")
    index = HybridIndex(PASSAGES, [part], depth=2)
    assert [hit.id for hit in index.search(["q"], 1)[0]] == ["d"]
    assert [hit.id for hit in index.search(["q"], 3)[0]] == ["d", "c", "b"]
    assert part.depths == [2, 3]


def test_nothing_found_anywhere_is_nothing() -> None:
    assert HybridIndex(PASSAGES, [Fixed(""), Fixed("")]).search(["q"], 3) == [[]]


def test_settings_are_checked_and_fingerprinted() -> None:
    with pytest.raises(ConfigError, match="at least one index"):
        HybridIndex(PASSAGES, [])
    prints = {HybridIndex(PASSAGES, [Fixed("a")], constant=c).fingerprint() for c in (60, 60, 1)}
    assert len(prints) == 2
