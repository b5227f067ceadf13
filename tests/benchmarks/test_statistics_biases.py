"""Who is flagged wrongly, how often, and in which style: against statsmodels, by hand, and on the paper's numbers."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.classification import (
    distribution,
    false_positive_rates,
    negative_bias,
    share_difference,
    total_variation,
)
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, wilson
from factgym.benchmarks.statistics.style import STYLES, style_groups, style_of

A, N = "Attributable", "Not Attributable"


def test_false_positives_by_group() -> None:
    """The paper's own rates (Table 15): 31.8 % of the supported claims are flagged."""
    golds = [A, A, A, A, N, N, A, N]
    said = [N, A, None, N, N, A, N, N]
    groups = ["copy", "copy", "copy", "paraphrase", "paraphrase", "copy", "paraphrase", "only negatives"]
    assert false_positive_rates(golds, said, N, groups) == {
        "copy": wilson(1, 3),
        "only negatives": NO_DATA,
        "paraphrase": wilson(2, 2),
    }
    with pytest.raises(ValueError):
        false_positive_rates(golds, said, N, groups[:-1])


def test_wilson_is_statsmodels_too() -> None:
    """statsmodels 0.15.0, proportion_confint(9, 40, method="wilson"): 0.12316, 0.37503."""
    found = wilson(9, 40)
    assert (found.low, found.high) == (pytest.approx(0.1231609132354074), pytest.approx(0.37503096742310027))
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="needs statsmodels")
    assert proportion.proportion_confint(9, 40, method="wilson") == pytest.approx((found.low, found.high))


def test_difference_of_two_shares_against_numbers_from_statsmodels() -> None:
    """statsmodels 0.15.0, confint_proportions_2indep(30, 80, 12, 60, method="newcomb"): 0.02171, 0.31164."""
    found = share_difference(wilson(12, 60), wilson(30, 80))
    assert found == Estimate(
        pytest.approx(0.175), pytest.approx(0.02171429310629369), pytest.approx(0.3116395767117006), 140
    )
    assert share_difference(wilson(1, 2), NO_DATA) == NO_DATA


@settings(deadline=None)
@given(st.integers(1, 80), st.integers(1, 80), st.data())
def test_difference_of_two_shares_against_statsmodels(n: int, m: int, data: Any) -> None:
    one, two = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    found, back = share_difference(wilson(two, m), wilson(one, n)), share_difference(wilson(one, n), wilson(two, m))
    assert found.low is not None and found.high is not None and found.value is not None
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert (back.low, back.high) == (pytest.approx(-found.high), pytest.approx(-found.low))
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="needs statsmodels")
    theirs = proportion.confint_proportions_2indep(one, n, two, m, method="newcomb", compare="diff")
    assert (found.low, found.high) == pytest.approx([float(end) for end in theirs], abs=1e-9)


def test_negative_bias_of_a_verifier_that_says_no_too_often() -> None:
    rng = np.random.default_rng(9)
    golds = [A if one else N for one in rng.random(1590) < 0.5]
    said = [N if gold == N or flip else A for gold, flip in zip(golds, rng.random(1590) < 0.2, strict=True)]
    found = negative_bias(golds, said, N)
    by_hand = (said.count(N) - golds.count(N)) / 1590
    assert found.value == pytest.approx(by_hand) and found.n == 1590
    boot = bca_mean([(b == N) - (a == N) for a, b in zip(golds, said, strict=True)])
    assert (found.low, found.high) == (pytest.approx(boot.low, abs=0.003), pytest.approx(boot.high, abs=0.003))
    back = negative_bias(said, golds, N)
    assert (back.value, back.low, back.high) == (
        pytest.approx(-(found.value or 0)),
        pytest.approx(-(found.high or 0)),
        pytest.approx(-(found.low or 0)),
    )


def test_negative_bias_where_all_is_right_missing_or_absent() -> None:
    right = negative_bias([A, N] * 20, [A, N] * 20, N)
    assert right.value == 0 and right.low is not None and right.high is not None
    assert -0.1 < right.low < 0 < right.high < 0.1
    assert negative_bias([N] * 4, [None] * 4, N).value == -1
    assert negative_bias([N] * 4, [None] * 4, N).low == -1
    assert negative_bias([], [], N) == NO_DATA


@pytest.mark.parametrize("n", [20, 60])
def test_negative_bias_covers(n: int) -> None:
    rng = np.random.default_rng(10)
    inside = []
    for _ in range(800):
        golds = [A if one else N for one in rng.random(n) < 0.5]
        chance = [0.3 if gold == A else 0.1 for gold in golds]
        said = [{A: N, N: A}[gold] if flip else gold for gold, flip in zip(golds, rng.random(n) < chance, strict=True)]
        found = negative_bias(golds, said, N)
        inside.append(found.low is not None and found.high is not None and found.low <= 0.1 <= found.high)
    assert 0.92 < np.mean(inside) < 0.99


def test_error_types_of_the_papers_table() -> None:
    """SEVA, Table 17: 812 negative predictions; its percentages are our shares."""
    table = {
        "fabrication": (298, 36.7),
        "scope_inflation": (187, 23.0),
        "entity_substitution": (124, 15.3),
        "numerical_exaggeration": (89, 11.0),
        "negation_flip": (68, 8.4),
        "temporal_shift": (46, 5.7),
    }
    kinds = [kind for kind, (n, _) in reversed(table.items()) for _ in range(n)]
    found = distribution(kinds, reference=list(table))
    assert list(found.counts) == list(table)
    for kind, (n, percent) in table.items():
        assert found.shares[kind] == wilson(n, 812)
        assert 100 * (found.shares[kind].value or 0) == pytest.approx(percent, abs=0.05)
    assert found.distance == pytest.approx((298 + 187) / 812 - 2 / 6)
    assert distribution(kinds).distance is None
    assert distribution([], kinds) == distribution([], [])
    assert distribution(["b", "a"]).counts == {"a": 1, "b": 1}


@given(*[st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)) for _ in range(3)])
def test_total_variation_is_a_distance(one: dict[str, int], two: dict[str, int], three: dict[str, int]) -> None:
    found = total_variation(one, two)
    if not sum(one.values()) or not sum(two.values()):
        assert found is None
        return
    assert found is not None and 0 <= found <= 1
    assert found == total_variation(two, one)
    assert total_variation(one, {key: 3 * n for key, n in one.items()}) == 0
    events = [
        abs(
            sum(one.get(x, 0) for x in event) / sum(one.values())
            - sum(two.get(x, 0) for x in event) / sum(two.values())
        )
        for event in ([x for i, x in enumerate("abcd") if bits >> i & 1] for bits in range(16))
    ]
    assert found == pytest.approx(max(events)), "it is the largest difference that any event makes"
    over, rest = total_variation(one, three), total_variation(three, two)
    assert over is None or rest is None or found <= over + rest + 1e-12


def test_styles_of_the_papers_false_positive() -> None:
    """SEVA, appendix: a correct paraphrase that the trained verifier rejects."""
    claim = "The policy was implemented to reduce emissions."
    source = "The new regulation was enacted with the goal of lowering greenhouse gas output."
    assert style_groups(claim, source) == {
        "copying": "paraphrase",
        "length": "short",
        "hedging": "plain",
        "numbers": "no numbers",
        "voice": "passive",
    }
    assert style_of(claim, claim).copied == 1


@pytest.mark.parametrize(
    ("claim", "hedged", "numbers", "passive"),
    [
        ("Sales probably rose by 4.5 percent.", True, True, False),
        ("Twelve ships were never officially found.", False, True, True),
        ("The match is on 3 May.", False, True, False),
        ("The law may apply.", True, False, False),
        ("The speed is high and the need is great.", False, False, False),
        ("It wasn’t written by her.", False, False, True),
        ("They are, in the end, kind people who visited us.", False, False, False),
        ("The company has been sued.", False, False, True),
        ("", False, False, False),
    ],
)
def test_words_and_constructions(claim: str, hedged: bool, numbers: bool, passive: bool) -> None:
    found = style_of(claim, "")
    assert (found.hedged, found.numbers, found.passive) == (hedged, numbers, passive)


def test_copying_counts_content_words_once() -> None:
    assert style_of("The red red fox of the wood", "a RED fox!").copied == pytest.approx(2 / 3)
    assert style_of("of the", "nothing").copied == 1
    for copied, group in ((4, "copy"), (3, "mixed"), (2, "paraphrase")):
        claim = "alpha beta gamma delta epsilon"
        assert STYLES["copying"](style_of(claim, " ".join(claim.split()[:copied]))) == group


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_styles_stand_any_text(claim: str, source: str) -> None:
    found = style_of(claim, source)
    assert 0 <= found.copied <= 1
    assert style_of(claim, claim).copied == 1
    assert style_of(f"  {claim}\n", source) == found
    assert set(style_groups(claim, source)) == set(STYLES)


@pytest.mark.data
def test_styles_divide_real_claims(data_dir: Path) -> None:
    """On the paper's FEVER and HaluEval slices copying and length each leave at least a tenth in two groups or more."""
    for name in ("fever", "halueval"):
        lines = (data_dir / "seva_official" / f"{name}.jsonl").read_text("utf-8").splitlines()
        items = [json.loads(line) for line in lines]
        groups = [style_groups(one["claim"], one["source"]) for one in items]
        for dimension in ("copying", "length", "numbers", "voice"):
            sizes = Counter(one[dimension] for one in groups)
            assert sum(n >= len(items) / 10 for n in sizes.values()) >= 2, (name, dimension, sizes)
        copying = [one["copying"] for one in groups]
        rates = false_positive_rates([one["gold_label"] for one in items], [N] * len(items), N, copying)
        assert all(rate.value == 1 for rate in rates.values() if rate.n)
        assert sum(rate.n for rate in rates.values()) == sum(one["gold_label"] == A for one in items)
        assert not math.isnan(sum(style_of(one["claim"], one["source"]).copied for one in items))
