"""Tables and scores against scikit-learn: live where it is installed, else against numbers that it once gave."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.seva.report import STYLES, style_groups, style_of
from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.classification import (
    METRICS,
    Confusion,
    accuracy,
    confusion,
    counts_of,
    distribution,
    false_positive_rates,
    label_scores,
    mcnemar,
    negative_bias,
    seed_variance,
    share_difference,
    stratified_slices,
    table_score,
    total_variation,
)
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, wilson

macro_f1, balanced_accuracy, matthews = (
    partial(table_score, metric=name) for name in ("macro_f1", "balanced_accuracy", "matthews")
)

LABELS = ["false", "mixed", "true"]
GOLDS = [LABELS[i * i % 7 % 3] for i in range(60)]
SAID = [LABELS[(i * i + (i % 4 == 0) * (i // 4)) % 7 % 3] for i in range(60)]
SOME_MISSING = [None if i % 11 == 3 else label for i, label in enumerate(SAID)]

Labelled = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", "c", "d", None])), min_size=1, max_size=40
)


def sklearn_metrics() -> Any:
    return pytest.importorskip("sklearn.metrics", reason="needs scikit-learn (the numbers it gave are tested too)")


def test_table_against_numbers_from_scikit_learn() -> None:
    """scikit-learn 1.9.1: confusion_matrix, accuracy_score, f1_score, balanced_accuracy_score, matthews_corrcoef."""
    table = confusion(GOLDS, SAID)
    assert table == Confusion(tuple(LABELS), tuple(LABELS), ((9, 0, 0), (6, 28, 0), (2, 2, 13)))
    assert accuracy(table) == wilson(50, 60)
    assert macro_f1(table) == pytest.approx(0.8113247863247862)
    assert balanced_accuracy(table) == pytest.approx(0.8627450980392156)
    assert matthews(table) == pytest.approx(0.7447720342646009)
    scores = label_scores(table)
    assert [score.f1 for score in scores.values()] == pytest.approx([0.6923076923076923, 0.875, 0.8666666666666667])
    assert [score.precision for score in scores.values()] == pytest.approx(
        [0.5294117647058824, 0.9333333333333333, 1.0]
    )
    assert [score.recall for score in scores.values()] == pytest.approx([1.0, 0.8235294117647058, 0.7647058823529411])
    assert [(score.gold, score.predicted, score.right) for score in scores.values()] == [
        (9, 17, 9),
        (34, 30, 28),
        (17, 13, 13),
    ]


def test_missing_predictions_against_numbers_from_scikit_learn() -> None:
    """scikit-learn 1.9.1, with the missing ones as a label "none" that `labels=` leaves out of the averages."""
    table = confusion(GOLDS, SOME_MISSING)
    assert table.predictions == (*LABELS, "none")
    assert [row[-1] for row in table.counts] == [1, 3, 2]
    assert accuracy(table) == wilson(45, 60)
    assert macro_f1(table) == pytest.approx(0.7636968766001023)
    assert balanced_accuracy(table) == pytest.approx(0.7668845315904139)
    assert matthews(table) == pytest.approx(0.6346800723040298)
    assert list(label_scores(table)) == LABELS
    assert METRICS["accuracy"](counts_of(table)) == accuracy(table).value == 45 / 60


def test_a_label_that_never_occurs_counts_as_zero() -> None:
    """scikit-learn 1.9.1, f1_score(labels=…, zero_division=0): 0.6084935897435897."""
    table = confusion(GOLDS, SAID, [*LABELS, "never"])
    assert macro_f1(table) == pytest.approx(0.6084935897435897)
    assert balanced_accuracy(table) == balanced_accuracy(confusion(GOLDS, SAID))
    never = label_scores(table)["never"]
    assert (never.precision, never.recall, never.f1, never.gold, never.predicted) == (0, 0, 0, 0, 0)


@given(Labelled)
def test_everything_against_scikit_learn(items: list[tuple[str, str | None]]) -> None:
    metrics = sklearn_metrics()
    golds, predictions = [item for item, _ in items], [item for _, item in items]
    table = confusion(golds, predictions, "abcd")
    expected = [label or "none" for label in predictions]
    # Given no prediction outside the labels their table is ours; "none" is a row of theirs that stays empty.
    square = metrics.confusion_matrix(golds, expected, labels=[*"abcd", "none"])
    width = len(table.predictions)
    assert [list(row) for row in table.counts] == square[:4, :width].tolist()
    shared: dict[str, Any] = {"labels": list("abcd"), "zero_division": 0, "average": None}
    scores = label_scores(table).values()
    assert [score.precision for score in scores] == pytest.approx(
        metrics.precision_score(golds, expected, **shared).tolist()
    )
    assert [score.recall for score in scores] == pytest.approx(metrics.recall_score(golds, expected, **shared).tolist())
    assert [score.f1 for score in scores] == pytest.approx(metrics.f1_score(golds, expected, **shared).tolist())
    macro = metrics.f1_score(golds, expected, labels=list("abcd"), average="macro", zero_division=0)
    assert macro_f1(table) == pytest.approx(macro)
    assert accuracy(table).value == pytest.approx(metrics.accuracy_score(golds, expected))
    present = sorted(set(golds))
    recall = metrics.recall_score(golds, expected, labels=present, average="macro", zero_division=0)
    assert balanced_accuracy(table) == pytest.approx(recall)
    if len({*golds, *expected}) > 1:
        assert matthews(table) == pytest.approx(metrics.matthews_corrcoef(golds, expected), abs=1e-12)


@given(Labelled, st.randoms(use_true_random=False))
def test_order_of_items_and_names_of_labels_do_not_matter(items: list[tuple[str, str | None]], random: Any) -> None:
    def scores(pairs: Sequence[tuple[str, str | None]]) -> list[float]:
        table = confusion([a for a, _ in pairs], [b for _, b in pairs])
        return [float(score(counts_of(table))) for score in METRICS.values()]

    before = scores(items)
    new = dict(zip("abcd", random.sample("wxyz", 4), strict=True))
    renamed = [(new[a], None if b is None else new[b]) for a, b in items]
    assert scores(renamed) == pytest.approx(before)
    random.shuffle(items)
    assert scores(items) == before


@pytest.mark.parametrize("name", METRICS)
def test_a_stack_of_tables_is_each_of_them(name: str) -> None:
    score: Callable[[Any], Any] = METRICS[name]
    tables = np.random.default_rng(1).integers(0, 9, (5, 7, 3, 4)).astype(float)
    tables[0, 0] = 0
    tables[0, 1, 1:] = 0
    stacked = score(tables)
    assert stacked.shape == (5, 7)
    for i, j in np.ndindex(5, 7):
        assert stacked[i, j] == pytest.approx(float(score(tables[i, j])))


def test_tables_of_a_run_are_read_as_well() -> None:
    """A run's own table may lack rows for labels that only were predicted."""
    episodes = [
        {"env": "e", "task": str(i), "stop": "submitted", "turns": [], "error": None}
        | {"reward": {"total": 1.0, "status": "scored", "metrics": {"gold_verdict": gold, "verdict": predicted}}}
        for i, (gold, predicted) in enumerate([("a", "a"), ("a", "b"), ("c", None), ("c", "c")])
    ]
    table = summarise(episodes).confusion
    assert table is not None and table.golds == ("a", "c") and len(table.predictions) == 4
    assert macro_f1(table) == macro_f1(confusion(["a", "a", "c", "c"], ["a", "b", None, "c"])) == pytest.approx(4 / 9)


def test_empty_and_refused() -> None:
    empty = confusion([], [])
    assert accuracy(empty) == NO_DATA
    assert (macro_f1(empty), balanced_accuracy(empty), matthews(empty)) == (0, 0, 0)
    nothing = confusion([], [], LABELS)
    assert (macro_f1(nothing), balanced_accuracy(nothing)) == (0, 0)
    with pytest.raises(ValueError, match=r"'tru' is none of .*Did you mean 'true'"):
        confusion(["true"], ["tru"], LABELS)
    with pytest.raises(ValueError, match="repeated"):
        confusion([], [], ["a", "a"])
    with pytest.raises(ValueError, match="use None"):
        confusion(["a"], ["none"])
    with pytest.raises(ValueError):
        confusion(["a", "b"], ["a"])


# Who is flagged wrongly, how often, and in which style: against statsmodels, by hand, and on the paper's numbers.

A, N = "Attributable", "Not Attributable"


def test_false_positives_by_group() -> None:
    """The paper's own rates (Table 15): 31.8 % of the supported claims are flagged."""
    golds = [A, A, A, A, N, N, A, N]
    predictions = [N, A, None, N, N, A, N, N]
    groups = ["copy", "copy", "copy", "paraphrase", "paraphrase", "copy", "paraphrase", "only negatives"]
    assert false_positive_rates(golds, predictions, N, groups) == {
        "copy": wilson(1, 3),
        "only negatives": NO_DATA,
        "paraphrase": wilson(2, 2),
    }
    with pytest.raises(ValueError):
        false_positive_rates(golds, predictions, N, groups[:-1])


def test_wilson_is_statsmodels_too() -> None:
    """statsmodels 0.15.0, proportion_confint(9, 40, method="wilson"): 0.12316, 0.37503."""
    result = wilson(9, 40)
    assert (result.low, result.high) == (pytest.approx(0.1231609132354074), pytest.approx(0.37503096742310027))
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="needs statsmodels")
    assert proportion.proportion_confint(9, 40, method="wilson") == pytest.approx((result.low, result.high))


def test_difference_of_two_shares_against_numbers_from_statsmodels() -> None:
    """statsmodels 0.15.0, confint_proportions_2indep(30, 80, 12, 60, method="newcomb"): 0.02171, 0.31164."""
    result = share_difference(wilson(12, 60), wilson(30, 80))
    assert result == Estimate(
        pytest.approx(0.175), pytest.approx(0.02171429310629369), pytest.approx(0.3116395767117006), 140
    )
    assert share_difference(wilson(1, 2), NO_DATA) == NO_DATA


@given(st.integers(1, 80), st.integers(1, 80), st.data())
def test_difference_of_two_shares_against_statsmodels(n: int, m: int, data: Any) -> None:
    item, two = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    result, back = share_difference(wilson(two, m), wilson(item, n)), share_difference(wilson(item, n), wilson(two, m))
    assert result.low is not None and result.high is not None and result.value is not None
    assert -1 <= result.low <= result.value <= result.high <= 1
    assert (back.low, back.high) == (pytest.approx(-result.high), pytest.approx(-result.low))
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="needs statsmodels")
    expected = proportion.confint_proportions_2indep(item, n, two, m, method="newcomb", compare="diff")
    assert (result.low, result.high) == pytest.approx([float(end) for end in expected], abs=1e-9)


def test_negative_bias_of_a_verifier_that_rejects_too_often() -> None:
    rng = np.random.default_rng(9)
    golds = [A if item else N for item in rng.random(1590) < 0.5]
    predictions = [N if gold == N or flip else A for gold, flip in zip(golds, rng.random(1590) < 0.2, strict=True)]
    result = negative_bias(golds, predictions, N)
    by_hand = (predictions.count(N) - golds.count(N)) / 1590
    assert result.value == pytest.approx(by_hand) and result.n == 1590
    boot = bca_mean([(b == N) - (a == N) for a, b in zip(golds, predictions, strict=True)])
    assert (result.low, result.high) == (pytest.approx(boot.low, abs=0.003), pytest.approx(boot.high, abs=0.003))
    back = negative_bias(predictions, golds, N)
    assert (back.value, back.low, back.high) == (
        pytest.approx(-(result.value or 0)),
        pytest.approx(-(result.high or 0)),
        pytest.approx(-(result.low or 0)),
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
        golds = [A if item else N for item in rng.random(n) < 0.5]
        chance = [0.3 if gold == A else 0.1 for gold in golds]
        predictions = [
            {A: N, N: A}[gold] if flip else gold for gold, flip in zip(golds, rng.random(n) < chance, strict=True)
        ]
        result = negative_bias(golds, predictions, N)
        inside.append(result.low is not None and result.high is not None and result.low <= 0.1 <= result.high)
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
    result = distribution(kinds, reference=list(table))
    assert list(result.counts) == list(table)
    for kind, (n, percent) in table.items():
        assert result.shares[kind] == wilson(n, 812)
        assert 100 * (result.shares[kind].value or 0) == pytest.approx(percent, abs=0.05)
    assert result.distance == pytest.approx((298 + 187) / 812 - 2 / 6)
    assert distribution(kinds).distance is None
    assert distribution([], kinds) == distribution([], [])
    assert distribution(["b", "a"]).counts == {"a": 1, "b": 1}


@given(*[st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)) for _ in range(3)])
def test_total_variation_is_a_distance(item: dict[str, int], two: dict[str, int], three: dict[str, int]) -> None:
    result = total_variation(item, two)
    if not sum(item.values()) or not sum(two.values()):
        assert result is None
        return
    assert result is not None and 0 <= result <= 1
    assert result == total_variation(two, item)
    assert total_variation(item, {key: 3 * n for key, n in item.items()}) == 0
    events = [
        abs(
            sum(item.get(x, 0) for x in event) / sum(item.values())
            - sum(two.get(x, 0) for x in event) / sum(two.values())
        )
        for event in ([x for i, x in enumerate("abcd") if bits >> i & 1] for bits in range(16))
    ]
    assert result == pytest.approx(max(events)), "it is the largest difference that any event makes"
    over, remainder = total_variation(item, three), total_variation(three, two)
    assert over is None or remainder is None or result <= over + remainder + 1e-12


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
    result = style_of(claim, "")
    assert (result.hedged, result.numbers, result.passive) == (hedged, numbers, passive)


def test_copying_counts_content_words_once() -> None:
    assert style_of("The red red fox of the wood", "a RED fox!").copied == pytest.approx(2 / 3)
    assert style_of("of the", "nothing").copied == 1
    for copied, group in ((4, "copy"), (3, "mixed"), (2, "paraphrase")):
        claim = "alpha beta gamma delta epsilon"
        assert STYLES["copying"](style_of(claim, " ".join(claim.split()[:copied]))) == group


@given(st.text(max_size=80), st.text(max_size=80))
def test_styles_accept_any_text(claim: str, source: str) -> None:
    result = style_of(claim, source)
    assert 0 <= result.copied <= 1
    assert style_of(claim, claim).copied == 1
    assert style_of(f"  {claim}\n", source) == result
    assert set(style_groups(claim, source)) == set(STYLES)


@pytest.mark.data
def test_styles_divide_real_claims(data_dir: Path) -> None:
    """On the paper's FEVER and HaluEval slices copying and length each leave at least a tenth in two groups or more."""
    for name in ("fever", "halueval"):
        lines = (data_dir / "seva_official" / f"{name}.jsonl").read_text("utf-8").splitlines()
        items = [json.loads(line) for line in lines]
        groups = [style_groups(item["claim"], item["source"]) for item in items]
        for dimension in ("copying", "length", "numbers", "voice"):
            sizes = Counter(group[dimension] for group in groups)
            assert sum(n >= len(items) / 10 for n in sizes.values()) >= 2, (name, dimension, sizes)
        copying = [group["copying"] for group in groups]
        rates = false_positive_rates([item["gold_label"] for item in items], [N] * len(items), N, copying)
        assert all(rate.value == 1 for rate in rates.values() if rate.n)
        assert sum(rate.n for rate in rates.values()) == sum(item["gold_label"] == A for item in items)
        assert not math.isnan(sum(style_of(item["claim"], item["source"]).copied for item in items))


# McNemar's test and stratified slices: against statsmodels and SciPy, by hand, and by their promise.

A, N = "Attributable", "Not Attributable"


def pairs(first_only: int, second_only: int, agreeing: int = 50, neither: int = 20) -> tuple[list[bool], list[bool]]:
    cells = (
        [(True, False)] * first_only
        + [(False, True)] * second_only
        + [(True, True)] * agreeing
        + [(False, False)] * neither
    )
    return [item for item, _ in cells], [item for _, item in cells]


@pytest.mark.parametrize(
    ("item", "two", "exact", "statistic", "p"),
    [
        (10, 22, True, 10, 0.050102459732443094),
        (10, 22, False, 3.78125, 0.05182992721790985),
        (40, 70, True, 40, 0.005447429511444476),
        (40, 70, False, 7.6454545454545455, 0.0056915552846872955),
        (1, 9, True, 1, 0.021484375),
        (1, 9, False, 4.9, 0.02685669550752441),
        (3, 3, True, 3, 1.0),
    ],
)
def test_mcnemar_against_numbers_from_statsmodels(item: int, two: int, exact: bool, statistic: float, p: float) -> None:
    """statsmodels 0.15.0, contingency_tables.mcnemar(exact=…, correction=True)."""
    result = mcnemar(*pairs(item, two), exact=exact)
    assert (result.first_only, result.second_only, result.exact) == (item, two, exact)
    assert (result.statistic, result.p) == (pytest.approx(statistic), pytest.approx(p, rel=1e-12))


@given(st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_mcnemar_against_statsmodels_and_scipy(item: int, two: int, exact: bool) -> None:
    result = mcnemar(*pairs(item, two), exact=exact)
    if exact and item + two:
        assert result.p == pytest.approx(stats.binomtest(item, item + two).pvalue)
    tables = pytest.importorskip("statsmodels.stats.contingency_tables", reason="needs statsmodels")
    if item != two:  # There it takes the correction off a difference of 0.
        expected = tables.mcnemar(np.array([[50, item], [two, 20]]), exact=exact, correction=True)
        assert (result.statistic, result.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    else:
        assert result.p == 1.0
    back = mcnemar(*pairs(two, item), exact=exact)
    assert (back.first_only, back.statistic, back.p) == (result.second_only, result.statistic, result.p)


def test_mcnemar_chooses_exact_for_few_discordant_items() -> None:
    assert mcnemar(*pairs(10, 14)).exact and not mcnemar(*pairs(10, 15)).exact
    nothing = mcnemar([], [])
    assert (nothing.p, nothing.statistic, nothing.exact) == (1.0, 0.0, True)
    assert mcnemar(*pairs(0, 0), exact=False).p == 1.0
    with pytest.raises(ValueError):
        mcnemar([True], [])


def test_mcnemar_keeps_its_level() -> None:
    """Two equally good verifiers: at 5 % the test rejects in no more than about 5 % of the cases."""
    rng = np.random.default_rng(5)
    for wrong, exact in ((0.1, None), (0.3, False)):
        result = [mcnemar(*(rng.random((2, 200)) > wrong).tolist(), exact=exact).p < 0.05 for _ in range(800)]
        assert 0.01 < np.mean(result) < 0.06


LABELS_PAIRED = [A] * 1007 + [N] * 531 + ["Conflicting"] * 52


def test_slices_keep_the_shares_of_labels() -> None:
    slices = stratified_slices(LABELS_PAIRED, 200, seeds=[1, 2, 3])
    for indices in slices:
        assert len(indices) == len(set(indices)) == 200 and list(indices) == sorted(indices)
        assert Counter(LABELS_PAIRED[i] for i in indices) == {A: 127, N: 67, "Conflicting": 6}  # 126.7, 66.8, 6.5
    assert len({*slices}) == 3
    assert stratified_slices(LABELS_PAIRED, 200, seeds=[2]) == (slices[1],)


@given(st.lists(st.sampled_from("abcde"), max_size=60), st.data())
def test_slices_are_within_one_of_the_exact_shares(labels: list[str], data: Any) -> None:
    n = data.draw(st.integers(0, len(labels)))
    (item,) = stratified_slices(labels, n, [7])
    assert len(set(item)) == len(item) == n
    chosen, all_of_them = Counter(labels[i] for i in item), Counter(labels)
    for label, count in all_of_them.items():
        assert abs(chosen[label] - n * count / len(labels)) < 1


def test_every_item_of_a_label_is_drawn_equally_often() -> None:
    labels = ["a", "b", "b", "a", "b", "b", "a", "b", "a", "b"]
    drawn = Counter(i for stratified_slice in stratified_slices(labels, 5, range(2000)) for i in stratified_slice)
    counts = [drawn[i] for i in range(10)]
    assert sum(counts) == 10_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_slices_refuse_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="4 of 3"):
        stratified_slices(["a", "b", "c"], 4, [0])
    assert stratified_slices([], 0, [0, 1]) == ((), ())


def test_seed_variance_is_that_of_the_scores() -> None:
    rng = np.random.default_rng(8)
    predictions = [
        item if keep else N for item, keep in zip(LABELS_PAIRED, rng.random(len(LABELS_PAIRED)) < 0.7, strict=True)
    ]
    slices = stratified_slices(LABELS_PAIRED, 200, [1, 2, 3])
    result = seed_variance(
        lambda some: macro_f1(confusion([LABELS_PAIRED[i] for i in some], [predictions[i] for i in some])), slices
    )
    assert result.mean == pytest.approx(np.mean(result.values))
    assert result.std == pytest.approx(np.std(result.values, ddof=1))
    assert (result.low, result.high) == (min(result.values), max(result.values)) and result.low < result.high
    assert seed_variance(lambda some: float(len(some)), slices[:1]).std is None
    with pytest.raises(ValueError, match="no slices"):
        seed_variance(lambda _: 0.0, [])
