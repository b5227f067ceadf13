"""SEVA's process reward against the paper: landscape, range table, every rubric line on both sides, worked examples.

Expected values are reasoned from equations 1 and 8 to 11, not read off the code.
"""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any

import pytest
from hypothesis import assume, given
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
    reward_of,
    step,
)

from factgym.core.errors import ConfigError
from factgym.rewards.seva.output import (
    ERROR_TYPES,
    JUDGMENTS,
    LABELS,
    NOT_FOUND,
    STATUSES,
    canonical_error_type,
    canonical_label,
    output_of,
    read_output,
)
from factgym.rewards.seva.rubrics import BINARY, GROUNDED, PROCESS, find_rubric
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
from factgym.text.words import STOP_WORDS


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
            rubric = find_rubric(f"{name}-unfloored")
            assert reward_of("nothing", gold, rubric) == 0.0
            assert reward_of("nothing", gold, find_rubric(f"{name}-by-label")) == 0.0


# Table 14, each row as far as the formula reaches it.


def test_range_unparseable():
    assert reward_of("", NEGATIVE) == reward_of("{", NEGATIVE) == reward_of("}{", POSITIVE) == 0.0


def test_range_json_without_fields():
    """.02 is the format's part alone: calibration takes it below 0, and a gold Attributable adds R_d."""
    assert components({})["format"] * 0.10 == pytest.approx(0.02)
    assert process({"x": 1}) == 0.0
    assert reward_of("{}", NEGATIVE, find_rubric("process-unfloored")) == pytest.approx(0.02 - 0.10 * 0.5)
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
    assert score_output(output_of(dict.fromkeys(output())), NEGATIVE).facts["format_ok"]


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
    assert score_output(output_of(data), NEGATIVE).facts["confidence"] == counted


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
    """Against the closed form: an expectation of .15 p - .3 (p (1 - p) + (p - c)^2), the Brier score's scaled."""

    def expected(confidence):
        data = {"label": "no", "confidence": confidence}
        values = [components(data, gold)["calibration_proper"] for gold in (NEGATIVE, POSITIVE)]
        return right * values[0] + (1 - right) * values[1]

    assert expected(stated) == pytest.approx(
        0.15 * right - 0.3 * (right * (1 - right) + (right - stated) ** 2), abs=1e-12
    )
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
    assert not score_output(output_of(EXAMPLE_2), NEGATIVE).facts["format_ok"]


def test_example_3_the_false_positive():
    """Well made and wrong: one step with a part, a judgment and an explanation; an error type on a supported claim."""
    expected = 0.10 * 0.5 + 0.30 + 0.30 * (0.8 + 0.2 / 3) + 0.15 * 0.3 - 0.10 * 0.5
    assert process(EXAMPLE_3, POSITIVE) == pytest.approx(expected)
    assert reward_of(json.dumps(EXAMPLE_3), POSITIVE, BINARY) == 0.0


def test_appendix_j_before_and_after_training():
    """The SFT output "counted as format error" has two fields of four; whichever label is gold, the other is worse."""
    assert not score_output(output_of(SFT_OUTPUT), POSITIVE).facts["format_ok"]
    assert process(SFT_OUTPUT, POSITIVE) == pytest.approx(0.05 + 0.15 + 0.15 + 0.15 * 0.7)
    assert process(SFT_OUTPUT, NEGATIVE) == 0.0
    assert process(GRPO_OUTPUT, POSITIVE) == pytest.approx(1.0 + 0.15 * 0.92)
    assert process(GRPO_OUTPUT, NEGATIVE) == pytest.approx(0.70 - 0.10 * 0.92)


def test_facts_are_kept_apart():
    scored = score_output(read_output("```json\n" + json.dumps(FIGURE_4) + "\n```"), POSITIVE)
    facts = scored.facts
    assert (facts["parsed"], facts["format_ok"], facts["correct"]) == (True, True, False)
    assert (facts["verdict"], facts["error_type"], facts["confidence"]) == ("Not Attributable", "scope_inflation", 0.85)
    assert (facts["spans"], facts["steps"], scored.gates) == (2, 2, {})
    nothing = score_output(None, NEGATIVE).facts
    assert (nothing["parsed"], nothing["format_ok"], nothing["correct"]) == (False, False, False)
    assert (nothing["verdict"], nothing["confidence"]) == (None, None)


def test_rules_are_checked():
    assert SevaRules(max_claim_span_chars=50).max_claim_span_chars == 50
    assert components(output(), rules=SevaRules(calibration_gain=0.0))["calibration"] == 0.0
    for wrong in ({"min_span_chars": 0}, {"length_bonus": 2}, {"length_bonus": math.nan}, {"full_coverage": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            SevaRules(**wrong)


def test_a_gold_label_is_one_of_the_two():
    with pytest.raises(ConfigError, match="'Not Attributable', not 'supported'"):
        SevaGold("supported")


# The grounded components: what counts as an alignment or a step, and that form alone earns little

CLAIM = "The study involved 500 participants from 12 countries."
SOURCE = "The research included 500 volunteers from 8 different nations."
# Content words of the claim: study, involved, 500, participants, 12, countries.


def score(data, gold=NEGATIVE, claim=CLAIM, source=SOURCE):
    return score_output(output_of(data), gold, claim=claim, source=source)


def total(data, gold=NEGATIVE, rubric=GROUNDED, **texts):
    scored = score(data, gold, **texts)
    return rubric.total(scored.components, scored.gates)


HONEST = output(
    evidence_alignment=[
        aligned("500 participants", "500 volunteers", "match"),
        aligned("12 countries", "8 different nations", "mismatch"),
    ],
    reasoning_chain=[
        step("500 participants", "supported", "500 volunteers", "Volunteers are participants."),
        step("12 countries", "not_supported", "8 different nations", "There were 8 countries and not 12."),
    ],
)


def test_an_honest_output_earns_what_it_earns_under_the_published_rubric():
    """Four of the six content words are two thirds, which is full coverage. The calibration terms differ."""
    assert total(HONEST, rubric=PROCESS) == pytest.approx(1.0 + 0.15 * 0.85)
    assert total(HONEST) == pytest.approx(1.0 + 0.15 - 0.3 * 0.15**2)
    assert score(HONEST).gates == {"consistent": 1.0}


@pytest.mark.parametrize(
    ("entry", "share", "quoted"),
    [
        (aligned("12 countries", "8 different nations", "mismatch"), 2 / 6, 3),
        (aligned("12  countries", "8\ndifferent nations", "mismatch"), 2 / 6, 3),
        (aligned("“12” COUNTRIES,", "8 (different) nations.", "mismatch"), 2 / 6, 3),
        (aligned("study involved 500 participants", "500 volunteers", "match"), 4 / 6, 2),
        (aligned("12 nations", "8 different nations", "mismatch"), 0, 3),
        (aligned("12 countries", "9 different nations", "mismatch"), 0, 0),
        (aligned("12 countries", "8 nations", "mismatch"), 0, 0),
        (aligned("12 countries", "different natio", "mismatch"), 0, 0),
        (aligned("12 countries", "8 different nations", "unsure"), 0, 0),
        (aligned("12", "8 different nations", "mismatch"), 0, 0),
        (aligned("12 countries", "NOT_FOUND", "not_found"), 2 / 6, 0),
        (aligned("12 countries", "8 different nations", "not_found"), 0, 0),
        (aligned("12 countries", "NOT_FOUND", "mismatch"), 0, 0),
        (aligned("500", "NOT_FOUND", "not_found"), 0, 0),
        (aligned("500", "500", "match"), 1 / 6, 0),
        (aligned("500", "500", "mismatch"), 0, 0),
        (aligned("from", "from", "match"), 0, 0),
        ("12 countries", 0, 0),
        ({"claim_span": ["12 countries"], "source_span": "8 different nations", "status": "mismatch"}, 0, 0),
    ],
)
def test_an_alignment_counts_when_it_can_be_true(entry, share, quoted):
    """`share` of the claim's content words is covered, of which two thirds earn everything; quotes need three words."""
    scored = score(output(evidence_alignment=[entry], reasoning_chain=[])).components["grounded_alignment"]
    assert scored == pytest.approx(min(1.0, share * 1.5) * quoted / 3)


@pytest.mark.parametrize(
    ("reasoning_step", "counts"),
    [
        (step("12 countries", "not_supported", "8 different nations", "The countries are 8."), True),
        (step("12 countries", "not_supported", "NOT_FOUND", "No countries are named."), True),
        (step("12 countries", "supported", "NOT_FOUND", "No countries are named."), False),
        (step("the size of the study", "not_supported", "8 different nations", "Not 12 countries, but 8."), True),
        (step("12 countries", "not_supported", "8 “different” nations.", "The countries are 8."), True),
        (step("", "not_supported", "8 different nations", "The 12 countries are 8."), False),
        (step("12 countries", "refuted", "8 different nations", "The countries are 8."), False),
        (step("12 countries", "not_supported", "9 different nations", "The countries are 8."), False),
        (step("12 countries", "not_supported", "8 different nations", "It does not fit at all."), False),
        (step("12 countries", "not_supported", "8 different nations", "countries"), False),
        (step("12 countries", "not_supported", "from", "The countries are 8."), False),
        (step("12 countries", "not_supported", None, "The countries are 8."), False),
    ],
)
def test_a_step_counts_when_it_can_be_true(reasoning_step, counts):
    """One step: coverage of a third of the words is half of everything, weighed .8, and half of the bonus of .2."""
    quote = aligned("12 countries", "8 different nations", "mismatch")
    scored = score(output(evidence_alignment=[quote], reasoning_chain=[reasoning_step])).components["grounded_chain"]
    words = 3 if "study" in reasoning_step["claim_part"] else 2
    assert scored == pytest.approx(0.8 * words / 4 + 0.1 if counts else 0.0)


@pytest.mark.parametrize(
    ("claim", "source", "quote", "part", "explanation"),
    [
        (
            "Rob Sheridan was born in the late 1970s.",
            "Rob Sheridan -LRB- born October 11 , 1979 -RRB- is an American graphic designer .",
            "born October 11, 1979",
            "the date of birth of Rob Sheridan",
            "The source has Sheridan born in 1979, which is late in the 1970s.",
        ),
        (
            'Virginia Woolf wrote "You cannot find peace by avoiding life"',
            'Michael Cunningham wrote "You cannot find peace by avoiding life" in "The Hours"',
            "Michael Cunningham wrote ‘You cannot find peace by avoiding life’",
            "the author of the quotation",
            "The claim names Virginia Woolf, the source Michael Cunningham.",
        ),
        ("You die", "Nothing in particular happens", "Nothing in particular happens", "You die", "Nobody would die."),
    ],
)
def test_right_outputs_of_models_count_whose_quotes_differ_in_marks_and_whose_parts_are_worded_freely(
    claim, source, quote, part, explanation
):
    """In 103 of 355 right outputs of a 7B model nothing counted for a space before a comma, a mark or a free wording."""
    chain = [{"claim_part": part, "source_evidence": quote, "judgment": "not_supported", "explanation": explanation}]
    scored = score(output(evidence_alignment=[], reasoning_chain=chain), claim=claim, source=source)
    assert scored.gates == {"consistent": 1.0} and scored.components["grounded_chain"] > 0.3


def test_gold_evidence_decides_where_it_is_known_and_the_nearest_sentences_elsewhere():
    source = "Tea is served at noon to all guests. Coffee is served in the garden after dinner."
    claim = "Tea is served at noon."
    for start, end in ((0, 36), (37, len(source))):
        data = output(evidence_alignment=[aligned(claim, source[start:end], "match")], reasoning_chain=[])
        scored = [
            score_output(output_of(data), SevaGold(LABELS[0], None, evidence), claim=claim, source=source).components
            for evidence in ((), ((0, 36),), ((37, len(source)),))
        ]
        is_first = start == 0
        assert [parts["grounded_alignment"] for parts in scored] == [
            float(is_first),
            float(is_first),
            float(not is_first),
        ]


def test_a_repeated_step_counts_once_and_lowers_its_component():
    first = step("12 countries", "not_supported", "8 different nations", "The countries are 8.")
    other = first | {"claim_part": "500 participants"}
    once = score(output(reasoning_chain=[first])).components["grounded_chain"]
    # Nothing of the 2nd to 9th step is new, however they are worded: a ninth of the points of one.
    reworded = [first | {"claim_part": f"12 countries ({n})", "explanation": f"{n}: 8 countries."} for n in range(9)]
    for steps in ([first] * 9, reworded):
        scored = score(output(reasoning_chain=steps))
        assert scored.components["grounded_chain"] <= once / 9 + 0.2 / 9 and scored.gates["consistent"] > 0
    # A third of the alignment repeats.
    entries = output()["evidence_alignment"]
    thrice = score(output(evidence_alignment=[*entries, entries[0] | {"status": "not_found"}, "12 countries"]))
    single = score(output()).components["grounded_alignment"]
    assert thrice.components["grounded_alignment"] == pytest.approx(single / 3)
    # Another part covers more, but the same explanation makes no second step.
    assert score(output(reasoning_chain=[first, other])).components["grounded_chain"] == pytest.approx(0.8 + 0.1)


def test_an_explanation_padded_with_the_source_does_not_count():
    first = step("12 countries", "not_supported", "8 different nations", "The countries are 8." + " Tea." * 96)
    assert len(first["explanation"]) == 500
    assert score(output(reasoning_chain=[first])).components["grounded_chain"] > 0
    longer = first | {"explanation": first["explanation"] + "."}
    assert score(output(reasoning_chain=[longer])).components["grounded_chain"] == 0
    # Where both are short, copies of claim and source fit into the length; one of them alone may be quoted.
    for padding, counts in ((f"{CLAIM} {SOURCE}", False), (CLAIM, True), (SOURCE, True)):
        padded = first | {"explanation": f"The countries are 8. {padding}"}
        assert len(padded["explanation"]) <= 500
        assert (score(output(reasoning_chain=[padded])).components["grounded_chain"] > 0) is counts


def test_a_claim_that_says_its_words_twice_is_no_repetition():
    claim, source = "The lake is deep? The lake is deep and cold.", "The lake is deep and cold in winter."
    for parts in (("The lake is deep?", "The lake is deep and cold."), ("The lake is deep?", "and cold.")):
        entries = [aligned(part, source, "match") for part in parts]
        data = output(evidence_alignment=entries, label="Attributable", error_type=None, fix_suggestion=None)
        assert score(data, POSITIVE, claim=claim, source=source).components["grounded_alignment"] == 1.0


def test_the_label_has_to_follow_from_the_steps():
    """A label that its own steps deny earns no outcome, and no calibration; the process part stays."""
    for data, gold, consistent in (
        (HONEST, NEGATIVE, 1.0),
        (HONEST | {"label": "Attributable"}, POSITIVE, 0.0),
        (HONEST | {"label": "?"}, POSITIVE, 0.0),
        (HONEST | {"reasoning_chain": []}, NEGATIVE, 0.0),
    ):
        scored = score(data, gold)
        assert scored.gates["consistent"] == consistent
        if not consistent:
            process = {name: scored.components[name] for name in ("format", "grounded_alignment", "grounded_chain")}
            assert GROUNDED.total(scored.components, scored.gates) == pytest.approx(
                sum(GROUNDED.weights[name] * value for name, value in process.items())
            )
    agreed = [HONEST["reasoning_chain"][0]]
    positive = output(evidence_alignment=HONEST["evidence_alignment"][:1], reasoning_chain=agreed)
    # An error type contradicts the label; without it, its quotes hold two of the three words that are needed.
    for error, consistent in (("fabrication", 0.0), ("NOT_APPLICABLE", 2 / 3), (None, 2 / 3)):
        scored = score(positive | {"label": "Attributable", "error_type": error}, POSITIVE)
        assert scored.gates["consistent"] == pytest.approx(consistent)
    assert score(positive | {"label": "Not Attributable"}).gates["consistent"] == 0.0


@pytest.mark.parametrize("gold", LABELS)
def test_a_template_about_nothing_earns_seventy_points_published_and_ten_grounded(gold):
    """One answer to every claim, of perfect form: the hole of the published rubric."""
    template = output(
        evidence_alignment=[aligned("the claim", "the source", "match")],
        reasoning_chain=[step("the claim", "supported", "the source", "The source supports the claim.")],
        label="Attributable",
        confidence=0,
    )
    scored = score(template, SevaGold(gold))
    process = sum(PROCESS.weights[name] * scored.components[name] for name in ("format", "alignment", "chain"))
    assert process == pytest.approx(0.70)
    assert GROUNDED.total(scored.components, scored.gates) == pytest.approx(0.10)


def test_the_appendix_examples_under_the_grounded_components():
    """The paper's own example 1 abbreviates San Francisco in its spans: it is not verbatim and does not count."""
    claim = "The company was founded in 2004 and is headquartered in San Francisco."
    source = "Founded in 2004, the technology firm operates from its main office in San Francisco, CA."
    scored = score(EXAMPLE_1, POSITIVE, claim=claim, source=source).components
    # founded and 2004 of company, founded, 2004, headquartered, San, Francisco; two of the three words that quotes need.
    assert scored["grounded_alignment"] == pytest.approx(2 / 6 * 1.5 * 2 / 3)
    assert scored["grounded_chain"] == 0.0
    assert score(EXAMPLE_2).components["grounded_alignment"] == 1.0
    scored = score(
        FIGURE_4, claim="60% of participants significantly improved", source="60% of subjects showed improvement"
    )
    assert scored.components["grounded_alignment"] == 1.0
    assert scored.gates["consistent"] == 0.0  # its explanations name nothing of the claim, so no step counts
    scored = score(
        EXAMPLE_3,
        POSITIVE,
        claim="The policy was implemented to reduce emissions.",
        source="The new regulation was enacted with the goal of lowering greenhouse gas output.",
    )
    # "GHG output" is not in the source, so that two words are quoted.
    assert scored.components["grounded_alignment"] == pytest.approx(2 / 4 * 1.5 * 2 / 3)


def test_a_claim_of_stop_words_and_an_empty_claim_can_be_scored():
    alignment = output(evidence_alignment=[aligned("was it", "was it", "match")])
    assert score(alignment, claim="Was it so? It was it.", source="was it").components["grounded_alignment"] > 0
    assert score(alignment, claim="", source="").components["grounded_alignment"] == 0.0


def test_grounded_rubrics_ask_for_the_texts():
    scored = score_output(output_of(HONEST), NEGATIVE)
    assert "grounded_alignment" not in scored.components
    for call in (GROUNDED.total, GROUNDED.shares):
        with pytest.raises(ConfigError, match="claim=, source="):
            call(scored.components, scored.gates)
    assert score_output(None, NEGATIVE, claim=CLAIM, source=SOURCE).gates == {"consistent": 0.0}


# Whether leaving information out can pay: true of the published rubric within limits, and never of the grounded one

STUDY_CLAIM = "The study involved 500 participants from 12 countries and ended in March 2019."
STUDY = "The research included 500 volunteers from 8 different nations. It ended in March 2019, a year late."

PARTS = [
    "500 participants",
    "12 countries",
    "The study",
    "ended in March 2019",
    STUDY_CLAIM,
    "not in the claim",
    "",
    "a",
]
SOURCE_SPANS = ["500 volunteers", "8 different nations", "March 2019", NOT_FOUND, "nowhere to be found", "", STUDY]
WORDS = ["The number of countries is another.", "It ended in March.", "too short", "no", "Nothing is shared here", ""]

PROCESS_WEIGHTS = {"format": 0.10, "alignment": 0.30, "chain": 0.30}
GROUNDED_WEIGHTS = {"format": 0.10, "grounded_alignment": 0.30, "grounded_chain": 0.30}

ENTRIES = st.lists(
    st.builds(aligned, st.sampled_from(PARTS), st.sampled_from(SOURCE_SPANS), st.sampled_from([*STATUSES, "?"])),
    max_size=5,
)
STEPS = st.lists(
    st.builds(
        step, st.sampled_from(PARTS), st.sampled_from([*JUDGMENTS, "?"]), st.sampled_from(SOURCE_SPANS), st.sampled_from(WORDS)
    ),
    max_size=5,
)  # fmt: skip
OUTPUTS = st.builds(lambda entries, steps: output(evidence_alignment=entries, reasoning_chain=steps), ENTRIES, STEPS)


def part(data: dict[str, Any], weights: dict[str, float]) -> float:
    scored = score_output(output_of(data), NEGATIVE, claim=STUDY_CLAIM, source=STUDY).components
    return sum(weight * scored[name] for name, weight in weights.items())


def drop_field(draw: st.DataObject, data: dict[str, Any]) -> None:
    del data[draw.draw(st.sampled_from(sorted(data)))]


def draw_item(draw: st.DataObject, data: dict[str, Any]) -> dict[str, Any] | None:
    items = [item for name in ("evidence_alignment", "reasoning_chain") for item in data[name]]
    return draw.draw(st.sampled_from(items)) if items else None


def drop_item_field(draw: st.DataObject, data: dict[str, Any]) -> None:
    item = draw_item(draw, data)
    if item is not None:
        del item[draw.draw(st.sampled_from(sorted(item)))]


def empty_text(draw: st.DataObject, data: dict[str, Any]) -> None:
    item = draw_item(draw, data)
    if item is not None:
        item[draw.draw(st.sampled_from(sorted(item)))] = draw.draw(st.sampled_from(["", None]))


def shorten_explanation(draw: st.DataObject, data: dict[str, Any]) -> None:
    """Below its bound; where it is below already, further."""
    if data["reasoning_chain"]:
        reasoning_step = draw.draw(st.sampled_from(data["reasoning_chain"]))
        reasoning_step["explanation"] = reasoning_step["explanation"][: draw.draw(st.integers(0, 9))]


def empty_item(draw: st.DataObject, data: dict[str, Any]) -> None:
    item = draw_item(draw, data)
    if item is not None:
        item.clear()


def drop_items(draw: st.DataObject, data: dict[str, Any]) -> None:
    for name in ("evidence_alignment", "reasoning_chain"):
        keep = draw.draw(st.lists(st.booleans(), min_size=len(data[name]), max_size=len(data[name])))
        data[name] = [item for item, is_kept in zip(data[name], keep, strict=True) if is_kept]


INSIDE = [drop_field, drop_item_field, empty_text, shorten_explanation, empty_item]


@given(OUTPUTS, st.sampled_from(INSIDE), st.data())
def test_published_rubric_no_removal_inside_the_items_pays(data, mutate, draw):
    less = copy.deepcopy(data)
    mutate(draw, less)
    assert part(less, PROCESS_WEIGHTS) <= part(data, PROCESS_WEIGHTS) + 1e-12


def repeats(data: dict[str, Any]) -> bool:
    """Whether an item names only words of claim and source that earlier items of its list named."""
    for name, keys in (
        ("evidence_alignment", ("claim_span", "source_span")),
        ("reasoning_chain", ("claim_part", "source_evidence")),
    ):
        named = set[tuple[str, str]]()
        for item in data[name]:
            texts = zip(keys, (STUDY_CLAIM, STUDY), strict=True)
            words = {
                (key, word)
                for key, text in texts
                for word in re.findall(r"\w+", str(item.get(key)).lower())
                if word in re.findall(r"\w+", text.lower()) and word not in STOP_WORDS
            }
            if words <= named:
                return True
            named |= words
    return False


@given(OUTPUTS, st.sampled_from([*INSIDE, drop_items]), st.data())
def test_grounded_preset_no_removal_pays_but_of_repetitions(data, mutate, draw):
    assume(not repeats(data))
    less = copy.deepcopy(data)
    mutate(draw, less)
    assert part(less, GROUNDED_WEIGHTS) <= part(data, GROUNDED_WEIGHTS) + 1e-12


@given(OUTPUTS, st.data())
def test_published_rubric_leaving_out_an_item_at_or_above_the_mean_does_not_pay(data, draw):
    """The mutations for which the published means do hold: an item that is not below the mean of its list."""
    for name, component in (("evidence_alignment", "alignment"), ("reasoning_chain", "chain")):
        worth = [score_output(output_of(data | {name: [item]}), NEGATIVE).components[component] for item in data[name]]
        if worth:
            best = draw.draw(st.sampled_from([i for i, value in enumerate(worth) if value == max(worth)]))
            less = data | {name: [item for index, item in enumerate(data[name]) if index != best]}
            assert part(less, PROCESS_WEIGHTS) <= part(data, PROCESS_WEIGHTS) + 1e-12


def test_known_exploit_of_the_published_rubric_hiding_the_weak_item_pays():
    """A weak second alignment costs .15 of reward, so a policy learns to say less; the grounded preset pays for both."""
    strong = aligned("12 countries", "8 different nations", "mismatch")
    weak = aligned("500 participants", "", "match")
    both, hidden = output(evidence_alignment=[strong, weak]), output(evidence_alignment=[strong])
    assert part(hidden, PROCESS_WEIGHTS) - part(both, PROCESS_WEIGHTS) == pytest.approx(0.30 * 0.2)
    assert part(hidden, GROUNDED_WEIGHTS) == pytest.approx(part(both, GROUNDED_WEIGHTS))
    good = aligned("500 participants", "500 volunteers", "match")
    assert part(output(evidence_alignment=[strong, good]), GROUNDED_WEIGHTS) > part(hidden, GROUNDED_WEIGHTS)

    firm = step("12 countries", "not_supported", "8 different nations", "The number of countries is another.")
    vague = step("500 participants", "supported", "", "same")
    assert part(output(reasoning_chain=[firm]), PROCESS_WEIGHTS) > part(
        output(reasoning_chain=[firm, vague]), PROCESS_WEIGHTS
    )
    assert part(output(reasoning_chain=[firm]), GROUNDED_WEIGHTS) == part(
        output(reasoning_chain=[firm, vague]), GROUNDED_WEIGHTS
    )


def test_known_exploit_of_the_published_rubric_cutting_an_overlong_span_pays():
    """By .03 a span at most: the rubric wants spans of up to 200 characters. So does the grounded preset."""
    long, cut = aligned("x" * 201, "abc", "match"), aligned("x" * 200, "abc", "match")
    gain = part(output(evidence_alignment=[cut]), PROCESS_WEIGHTS) - part(
        output(evidence_alignment=[long]), PROCESS_WEIGHTS
    )
    assert gain == pytest.approx(0.03)
