"""SEVA's process reward against the paper: landscape, range table, every rubric line on both sides, worked examples.

Expected values are reasoned from equations 1 and 8 to 11, not read off the code.
"""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seva_outputs import (
    EXAMPLE_1,
    EXAMPLE_2,
    EXAMPLE_3,
    FIGURE_4,
    GRPO_OUTPUT,
    NEGATIVE,
    POSITIVE,
    SFT_OUTPUT,
    aligned,
    output,
    process,
    step,
)

from factgym.core.errors import ConfigError
from factgym.rewards.seva.output import (
    ERROR_TYPES,
    JUDGMENTS,
    STATUSES,
    canonical_error_type,
    canonical_label,
    output_of,
    read_output,
)
from factgym.rewards.seva.rubrics import BINARY, find_rubric, reward_of
from factgym.rewards.seva.scoring import (
    SevaGold,
    SevaRules,
    alignment_score,
    chain_score,
    diagnosis_by_label,
    diagnosis_score,
    format_score,
    score_output,
)


def components(data, gold=NEGATIVE, **options):
    return score_output(output_of(data), gold, **options).components


def test_the_four_levels_of_the_landscape():
    """Table 1 and Figure 2: 1.13, 0.63, 0.28 and 0, and what the binary reward makes of them."""
    right = output()
    wrong = output(label="Attributable", confidence=0.7, error_type=None, fix_suggestion=None)
    poor = {"label": "Not Attributable", "confidence": 0.55}
    levels = [(right, 1.13, 1.0), (wrong, 0.63, 0.0), (poor, 0.28, 1.0)]
    for data, expected, binary in levels:
        assert round(process(data), 2) == expected
        assert reward_of(json.dumps(data), NEGATIVE, BINARY) == binary
    assert reward_of("The claim is supported by the source.", NEGATIVE) == 0.0
    assert reward_of("The claim is supported by the source.", NEGATIVE, BINARY) == 0.0


def test_a_text_that_does_not_parse_earns_nothing_whatever_the_gold_label():
    """Without care the omission of an error type would earn R_d = 1 on a supported claim."""
    for gold in (POSITIVE, NEGATIVE):
        for name in ("process", "binary", "90/10", "30/70"):
            rubric = find_rubric(name, floor=False)
            assert reward_of("nothing", gold, rubric) == 0.0
            assert reward_of("nothing", gold, find_rubric(name, per_label=True)) == 0.0


# Table 14, each row as far as the formula reaches it.


def test_range_unparseable():
    assert reward_of("", NEGATIVE) == reward_of("{", NEGATIVE) == reward_of("}{", POSITIVE) == 0.0


def test_range_json_without_fields():
    """.02 is the format's part alone: calibration takes it below 0, and a gold Attributable adds R_d."""
    assert components({})["format"] * 0.10 == pytest.approx(0.02)
    assert process({"x": 1}) == 0.0
    assert reward_of("{}", NEGATIVE, find_rubric("process", floor=False)) == pytest.approx(0.02 - 0.10 * 0.5)
    assert process({}, POSITIVE) == pytest.approx(0.02 + 0.15 - 0.05)
    # With a stated confidence of 0, calibration adds nothing and the row's value is reached.
    assert process({"confidence": 0}) == pytest.approx(0.02)


def test_range_all_fields_all_wrong():
    empty = {"evidence_alignment": [], "reasoning_chain": [], "label": "?", "confidence": 0}
    assert process(empty) == pytest.approx(0.10)
    assert process(empty, POSITIVE) == pytest.approx(0.25)
    assert process(empty | {"confidence": 1}) == 0.0


def test_range_perfect_process_and_wrong_label():
    """The formula spans .60 to .85, where the table says .55 to .70: its ends are not those of the formula."""
    lowest = output(label="Attributable", confidence=1, error_type=None, fix_suggestion=None)
    assert process(lowest) == pytest.approx(0.60)
    assert process(output(label="Attributable", confidence=0)) == pytest.approx(0.85)
    # The honest wrong answers: a claim called attributable without a diagnosis, at any confidence.
    for confidence in (0.0, 0.5, 1.0):
        assert 0.55 <= process(lowest | {"confidence": confidence}) <= 0.70 + 1e-12


def test_range_everything_perfect_ends_at_1_15_and_never_at_1_28():
    assert process(output(confidence=0)) == pytest.approx(1.00)
    assert process(output(confidence=1)) == pytest.approx(1.15)
    weights, top = find_rubric("process").weights, components(output(confidence=1))
    assert sum(weights[name] * value for name, value in top.items() if name in weights) == pytest.approx(1.15)
    assert all(top[name] == 1.0 for name in ("format", "alignment", "chain", "label", "diagnosis"))


# R_f


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((), 0.2),
        (("label",), 0.2),
        (("error_type", "fix_suggestion"), 0.2),
        (("label", "confidence"), 0.5),
        (("evidence_alignment", "reasoning_chain", "label"), 0.5),
        (("evidence_alignment", "reasoning_chain", "label", "confidence"), 1.0),
    ],
)
def test_format_counts_required_fields(fields, expected):
    assert format_score(dict.fromkeys(fields)) == expected


def test_a_field_is_there_when_its_key_is():
    assert score_output(output_of(dict.fromkeys(output())), NEGATIVE).format_ok


# R_a


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (aligned("abc", "abc", "match"), 1.0),
        (aligned("", "abc", "match"), 0.6),
        (aligned(" ", "abc", "match"), 0.6),
        (aligned("a", "abc", "match"), 0.9),
        (aligned("ab", "abc", "match"), 0.9),
        (aligned("a" * 200, "abc", "match"), 1.0),
        (aligned("a" * 201, "abc", "match"), 0.9),
        (aligned("abc", "", "match"), 0.6),
        (aligned("abc", "ab", "match"), 0.9),
        (aligned("abc", "a" * 500, "match"), 1.0),
        (aligned("abc", "a" * 501, "match"), 0.9),
        (aligned("abc", "NOT_FOUND", "not_found"), 1.0),
        (aligned("abc", "abc", "Match"), 0.8),
        (aligned("abc", "abc", ""), 0.8),
        ({"claim_span": "abc"}, 0.4),
        ({"source_span": "abc"}, 0.4),
        ({"status": "mismatch"}, 0.2),
        ({}, 0.0),
    ],
)
def test_alignment_lines(entry, expected):
    assert alignment_score([entry]) == pytest.approx(expected)


def test_alignment_is_the_mean_and_every_status_counts():
    assert alignment_score([]) == 0.0
    entries = [aligned("abc", "abc", status) for status in STATUSES]
    assert alignment_score(entries) == 1.0
    assert alignment_score([*entries, {}]) == pytest.approx(3 / 4)
    assert alignment_score([entries[0], "no object"]) == pytest.approx(1 / 2)


def test_not_found_is_a_span_of_good_length_under_any_bounds():
    short = SevaRules(max_source_span_chars=5)
    assert alignment_score([aligned("abc", "NOT_FOUND", "not_found")], short) == 1.0
    assert alignment_score([aligned("abc", "not found", "not_found")], short) == pytest.approx(0.9)


# R_c


def chain_of(**changes):
    """Three steps, so that the bonus of .2 is complete; it is taken off again."""
    changed = step("part", "supported", "12345", "1234567890") | changes
    return chain_score([changed] * 3, SevaRules(length_bonus=0.0))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1.0),
        ({"judgment": "Supported"}, 0.7),
        ({"judgment": ""}, 0.7),
        ({"explanation": "123456789"}, 0.8),
        ({"explanation": "123"}, 0.8),
        ({"explanation": "12"}, 0.7),
        ({"explanation": ""}, 0.7),
        ({"source_evidence": "1234"}, 0.8),
        ({"source_evidence": ""}, 0.8),
        ({"claim_part": "x"}, 1.0),
        ({"claim_part": ""}, 0.8),
    ],
)
def test_chain_lines(changes, expected):
    assert chain_of(**changes) == pytest.approx(expected)


@pytest.mark.parametrize(("steps", "bonus"), [(1, 0.2 / 3), (2, 0.4 / 3), (3, 0.2), (4, 0.2), (30, 0.2)])
def test_length_bonus_grows_to_three_steps(steps, bonus):
    half = {"judgment": "supported", "claim_part": "x"}
    assert chain_score([half] * steps) == pytest.approx(0.5 + bonus)


def test_the_length_bonus_lies_inside_the_cap_and_needs_a_step():
    full = step("part", "supported", "12345", "1234567890")
    assert chain_score([full]) == chain_score([full] * 3) == 1.0
    assert chain_score([]) == 0.0
    # Empty steps do earn the bonus: the rubric counts them.
    assert chain_score([{}, {}, {}]) == pytest.approx(0.2)
    assert all(chain_of(judgment=judgment) == 1.0 for judgment in JUDGMENTS)


# R_d


@pytest.mark.parametrize(
    ("error", "fix", "expected"),
    [
        ("fabrication", "1234567890", 1.0),
        ("fabrication", "123456789", 0.7),
        ("fabrication", "1", 0.7),
        ("fabrication", "", 0.6),
        ("Fabrication", "1234567890", 0.6),
        ("made_up_type", "", 0.2),
        ("NOT_APPLICABLE", "", 0.2),
        ("", "1234567890", 0.4),
        (None, None, 0.0),
        (["fabrication"], None, 0.2),
        (7, {"fix": "x"}, 0.2),
    ],
)
def test_diagnosis_for_a_gold_not_attributable(error, fix, expected):
    data = {"error_type": error, "fix_suggestion": fix}
    assert diagnosis_score(data, "Not Attributable") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(None, 1.0), ("", 1.0), ([], 1.0), ("fabrication", 0.3), ("NOT_APPLICABLE", 0.3), ("not applicable", 0.3)],
)
def test_diagnosis_for_a_gold_attributable(error, expected):
    assert diagnosis_score({"error_type": error, "fix_suggestion": "a long correction"}, "Attributable") == expected


def test_diagnosis_depends_on_the_gold_label_and_not_on_the_predicted_one():
    for label in ("Attributable", "Not Attributable", None):
        assert components(output(label=label))["diagnosis"] == 1.0
        assert components(output(label=label), POSITIVE)["diagnosis"] == 0.3


def test_any_category_earns_the_same():
    assert {diagnosis_score({"error_type": name}, "Not Attributable") for name in ERROR_TYPES} == {0.6}


def test_normalised_by_label_an_unsure_policy_leans_to_neither_label():
    """Section 4.2. p: the chance that the claim is attributable; both options are complete outputs."""

    def expected(data, p, scored):
        earned = {gold: scored(diagnosis_score(data, gold), gold) for gold in ("Attributable", "Not Attributable")}
        return p * earned["Attributable"] + (1 - p) * earned["Not Attributable"]

    negative, positive = {"error_type": "fabrication", "fix_suggestion": "a correction"}, {}
    raw = lambda value, gold: value  # noqa: E731
    assert expected(negative, 0.5, raw) == pytest.approx(0.65)
    assert expected(positive, 0.5, raw) == pytest.approx(0.5)
    assert expected(negative, 1 / 1.7, raw) == pytest.approx(expected(positive, 1 / 1.7, raw))
    for p in (0.0, 0.25, 0.5, 0.9):
        assert expected(negative, p, diagnosis_by_label) == pytest.approx(1 - p)
        assert expected(positive, p, diagnosis_by_label) == pytest.approx(p)


# R_cal


@pytest.mark.parametrize(
    ("confidence", "counted"),
    [
        (0, 0.0), (1, 1.0), (0.85, 0.85), (-3, 0.0), (1.5, 1.0), (10**400, 1.0), ("0.9", 0.9), ("90 %", 0.5),
        ("nan", 0.5), ("inf", 0.5), (None, 0.5), (True, 0.5), ([0.9], 0.5), ({}, 0.5), (math.inf, 0.5), (math.nan, 0.5), ("1" * 5000, 0.5),
    ],
)  # fmt: skip
def test_calibration(confidence, counted):
    data = {"label": "no", "confidence": confidence}
    assert components(data)["calibration"] == pytest.approx(0.15 * counted)
    assert components(data, POSITIVE)["calibration"] == pytest.approx(-0.10 * counted)
    assert score_output(output_of(data), NEGATIVE).confidence == counted


@pytest.mark.parametrize(("right", "best"), [(0.3, 0.0), (0.5, 1.0), (0.9, 1.0)])
def test_calibration_is_no_proper_score(right, best):
    """Linear in the confidence: what earns most is 0 or 1, never the honest chance of being right."""

    def expected(confidence):
        data = {"label": "no", "confidence": confidence}
        values = [components(data, gold)["calibration"] for gold in (NEGATIVE, POSITIVE)]
        return right * values[0] + (1 - right) * values[1]

    assert max((0.0, right, 1.0), key=expected) == best


@given(right=st.floats(0, 1), stated=st.floats(0, 1))
def test_the_proper_calibration_pays_most_for_the_true_chance(right, stated):
    """Against the closed form: an expectation of .15 (p^2 - (p - c)^2), the Brier score's loss scaled."""

    def expected(confidence):
        data = {"label": "no", "confidence": confidence}
        values = [components(data, gold)["calibration_proper"] for gold in (NEGATIVE, POSITIVE)]
        return right * values[0] + (1 - right) * values[1]

    assert expected(stated) == pytest.approx(0.15 * (right**2 - (right - stated) ** 2), abs=1e-12)
    assert expected(stated) <= expected(right) + 1e-12


def test_a_confidence_that_is_missing_counts_as_a_half():
    assert components({"label": "no"})["calibration"] == pytest.approx(0.075)


# R_l and Table 13


@pytest.mark.parametrize(
    ("written", "label"),
    [
        *((alias, "Attributable") for alias in ("yes", "true", "entailment", "supported", "Attributable", " YES\n")),
        *((alias, "Not Attributable") for alias in ("no", "false", "contradiction", "neutral", "not supported", "NO")),
        *((alias, "Not Attributable") for alias in ("not_attributable", "not attributable", "Not-Attributable")),
        ("The claim is clearly not attributable.", "Not Attributable"),
        ("It is not_attributable to the source", "Not Attributable"),
        ("Attributable or Not Attributable", "Not Attributable"),
        ("fully attributable", "Attributable"),
        ("", None),
        ("maybe", None),
        ("yes, it is", None),
        (True, None),
        (None, None),
        (["Attributable"], None),
        ({"label": "yes"}, None),
    ],
)
def test_labels_are_read_as_in_the_alias_table(written, label):
    assert canonical_label(written) == label
    assert components({"label": written}, POSITIVE)["label"] == float(label == "Attributable")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *((name, name) for name in ERROR_TYPES),
        ("Numerical exag.", "numerical_exaggeration"),
        ("Numerical-Exaggeration", "numerical_exaggeration"),
        (" ENTITY SUBSTITUTION ", "entity_substitution"),
        ("entity_sub", "entity_substitution"),
        ("NOT_APPLICABLE", None),
        ("none", None),
        (None, None),
        (3, None),
        ("x" * 100_000, None),
    ],
)
def test_error_types_are_folded_for_statistics_only(written, name):
    assert canonical_error_type(written) == name
    exact = 0.6 if written in ERROR_TYPES else 0.2 if written else 0.0
    assert diagnosis_score({"error_type": written}, "Not Attributable") == exact


# The appendix's examples


def test_figure_4():
    """Complete and right: .70 + .15 + .15 + .15 · .85."""
    assert process(FIGURE_4) == pytest.approx(1.1275)


def test_example_1_as_abbreviated():
    """Its steps hold part and judgment only: R_c = .3 + .2 + .2 · 2/3."""
    scores = components(EXAMPLE_1, POSITIVE)
    assert scores["alignment"] == scores["format"] == scores["label"] == scores["diagnosis"] == 1.0
    assert scores["chain"] == pytest.approx(0.5 + 0.4 / 3)
    assert process(EXAMPLE_1, POSITIVE) == pytest.approx(0.10 + 0.30 + 0.30 * (0.5 + 0.4 / 3) + 0.30 + 0.15 * 0.95)


def test_example_2_as_abbreviated():
    """No confidence: three of the four fields, and .5 counts. "Change 12 to 8." has 15 characters."""
    expected = 0.10 * 0.5 + 0.30 + 0.30 * (0.5 + 0.4 / 3) + 0.15 + 0.15 + 0.15 * 0.5
    assert process(EXAMPLE_2) == pytest.approx(expected)
    assert not score_output(output_of(EXAMPLE_2), NEGATIVE).format_ok


def test_example_3_the_false_positive():
    """Well made and wrong: one step with a part, a judgment and an explanation; an error type on a supported claim."""
    expected = 0.10 * 0.5 + 0.30 + 0.30 * (0.8 + 0.2 / 3) + 0.15 * 0.3 - 0.10 * 0.5
    assert process(EXAMPLE_3, POSITIVE) == pytest.approx(expected)
    assert reward_of(json.dumps(EXAMPLE_3), POSITIVE, BINARY) == 0.0


def test_appendix_j_before_and_after_training():
    """The SFT output "counted as format error" has two fields of four; whichever label is gold, the other is worse."""
    assert not score_output(output_of(SFT_OUTPUT), POSITIVE).format_ok
    assert process(SFT_OUTPUT, POSITIVE) == pytest.approx(0.05 + 0.15 + 0.15 + 0.15 * 0.7)
    assert process(SFT_OUTPUT, NEGATIVE) == 0.0
    assert process(GRPO_OUTPUT, POSITIVE) == pytest.approx(1.0 + 0.15 * 0.92)
    assert process(GRPO_OUTPUT, NEGATIVE) == pytest.approx(0.70 - 0.10 * 0.92)


def test_facts_are_kept_apart():
    scored = score_output(read_output("```json\n" + json.dumps(FIGURE_4) + "\n```"), POSITIVE)
    assert (scored.parsed, scored.format_ok, scored.correct) == (True, True, False)
    assert (scored.label, scored.error_type, scored.confidence) == ("Not Attributable", "scope_inflation", 0.85)
    assert (scored.spans, scored.steps, scored.gates) == (2, 2, {})
    nothing = score_output(None, NEGATIVE)
    assert (nothing.parsed, nothing.format_ok, nothing.correct, nothing.label) == (False, False, False, None)


def test_rules_are_checked():
    assert SevaRules(max_claim_span_chars=50).max_claim_span_chars == 50
    assert components(output(), rules=SevaRules(calibration_gain=0.0))["calibration"] == 0.0
    for wrong in ({"min_span_chars": 0}, {"length_bonus": 2}, {"length_bonus": math.nan}, {"full_coverage": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            SevaRules(**wrong)


def test_a_gold_label_is_one_of_the_two():
    with pytest.raises(ConfigError, match="'Not Attributable', not 'supported'"):
        SevaGold("supported")
