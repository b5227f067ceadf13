"""Presets and options of SEVA's rubrics, the report, span credits and the published schema."""

from __future__ import annotations

import copy
import json
import math
from itertools import product

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from seva_outputs import EXAMPLE_1, EXAMPLE_2, FIGURE_4, GRPO_OUTPUT, NEGATIVE, POSITIVE, aligned, output, step

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import group_advantages
from factgym.rewards.seva.output import (
    ERROR_TYPES,
    FIELDS,
    JUDGMENTS,
    LABELS,
    REQUIRED_FIELDS,
    STATUSES,
    VERDICT_SCHEMA,
    output_of,
    read_output,
)
from factgym.rewards.seva.rubrics import PROCESS, RUBRICS, find_rubric, span_credits, split_rubric
from factgym.rewards.seva.scoring import COMPONENTS, GATES, GROUNDED_COMPONENTS, score_output

WRONG = {"label": "Attributable", "confidence": 1, "x": 1}
"""Under the process reward: .05 for two fields − .10 for its confidence, so the floor adds .05."""


def test_the_default_has_the_printed_weights():
    expected = {"format": 0.10, "alignment": 0.30, "chain": 0.30, "label": 0.15, "diagnosis": 0.15, "calibration": 1.0}
    assert RUBRICS["process"].weights == expected == RUBRICS["70/30"].weights
    assert next(iter(RUBRICS)) == "process"


@pytest.mark.parametrize("share", range(10, 100, 10))
def test_splits_scale_both_sides_and_leave_calibration(share):
    weights = find_rubric(f"{share}/{100 - share}").weights
    process = [weights[name] for name in ("format", "alignment", "chain")]
    assert sum(process) == pytest.approx(share / 100)
    assert process[1] == process[2] == pytest.approx(3 * process[0])
    assert weights["label"] == weights["diagnosis"] == pytest.approx((100 - share) / 200)
    assert weights["calibration"] == 1.0


def test_table_21_calls_0_100_the_binary_reward():
    assert RUBRICS["0/100"].weights == RUBRICS["binary"].weights == {"label": 1.0}
    assert split_rubric(0).weights["diagnosis"] == 0.5
    assert {"90/10", "70/30", "50/50", "30/70", "0/100"} <= set(RUBRICS)


def test_other_splits_and_options_by_name():
    assert find_rubric("65/35").weights["label"] == pytest.approx(0.175)
    grounded = find_rubric("grounded-50/50")
    assert grounded.weights["grounded_chain"] == pytest.approx(0.5 * 3 / 7)
    assert set(grounded.gated.values()) == {"consistent"}
    by_label = find_rubric("process-by-label")
    assert by_label.name == "process-by-label"
    assert by_label.weights["diagnosis_by_label"] == 0.15
    assert "diagnosis" not in by_label.weights
    assert find_rubric("grounded-by-label").gated["diagnosis_by_label"] == "consistent"
    assert find_rubric("binary-by-label") == RUBRICS["binary"]
    for rubric in (*RUBRICS.values(), by_label, grounded, find_rubric("process-by-label-unfloored")):
        assert find_rubric(rubric.name) == rubric
        rubric.check((*COMPONENTS, *GROUNDED_COMPONENTS), GATES)


@pytest.mark.parametrize("name", ["proces", "", "65/36", "101/-1", "200/-100", "grounded-70", "grounded-1/1"])
def test_unknown_rubrics_are_refused(name):
    with pytest.raises(ConfigError, match="no SEVA rubric"):
        find_rubric(name)


def test_the_message_helps():
    with pytest.raises(ConfigError, match="Did you mean 'process'"):
        find_rubric("proces")
    for share in (-1, 101, 70.0, True):
        with pytest.raises(ConfigError, match="process share"):
            split_rubric(share)


def test_the_floor_and_the_value_below_it():
    scored = score_output(output_of(WRONG), NEGATIVE)
    assert find_rubric("process").total(scored.components, scored.gates) == 0.0
    below = find_rubric("process-unfloored")
    assert below.name == "process-unfloored"
    assert below.total(scored.components, scored.gates) == pytest.approx(-0.05)
    # The lowest value there is: the paper says -0.10, but any JSON object earns .02 for its format.
    lowest = score_output(output_of({"confidence": 1}), NEGATIVE)
    assert below.total(lowest.components, lowest.gates) == pytest.approx(0.02 - 0.10)
    shares = find_rubric("process").shares(scored.components, scored.gates)
    assert shares["floor"] == pytest.approx(0.05)
    assert sum(shares.values()) == pytest.approx(0.0)


def test_rubrics_survive_copying_and_pickling():
    import pickle

    for rubric in (*RUBRICS.values(), find_rubric("process-unfloored")):
        assert copy.deepcopy(rubric) == rubric == pickle.loads(pickle.dumps(rubric))


def test_the_report_keeps_every_component_and_the_facts():
    score = score_output(output_of(FIGURE_4), NEGATIVE)
    report = RUBRICS["process"].report(score.components, score.gates, metrics=score.facts)
    assert report.status == "scored"
    assert report.total == pytest.approx(1.1275)
    assert report.components == score.components
    assert set(report.components) == set(COMPONENTS)
    assert report.weights == RUBRICS["process"].weights
    assert report.metrics["gold_verdict"] == report.metrics["verdict"] == "Not Attributable"
    assert (report.metrics["error_type"], report.metrics["confidence"]) == ("scope_inflation", 0.85)
    json.dumps(report.to_dict(), allow_nan=False)
    score = score_output(None, POSITIVE)
    nothing = RUBRICS["binary"].report(score.components, score.gates, metrics=score.facts)
    assert (nothing.total, nothing.metrics["verdict"], nothing.metrics["confidence"]) == (0.0, None, None)


# Span credits


def texts(data):
    yield json.dumps(data)
    yield f"I think so.\n```json\n{json.dumps(data, indent=2)}\n```\nDone."
    yield json.dumps(data, ensure_ascii=False, separators=(",", " : "))


@pytest.mark.parametrize("name", ["process", "binary", "30/70"])
@pytest.mark.parametrize("data", [FIGURE_4, EXAMPLE_1, EXAMPLE_2, WRONG, {}], ids=["fig4", "ex1", "ex2", "wrong", "no"])
def test_credits_sum_to_the_total_and_lie_in_the_text(data, name):
    rubric = RUBRICS[name]
    for text in texts(data):
        for gold in (POSITIVE, NEGATIVE):
            score = score_output(read_output(text), gold)
            spans = span_credits(text, score, rubric)
            total = rubric.total(score.components, score.gates)
            assert math.fsum(value for _, _, value in spans) == pytest.approx(total, abs=1e-12)
            assert all(0 <= start < end <= len(text) for start, end, _ in spans)


def test_each_component_is_credited_to_its_fields():
    text = "So: " + json.dumps(FIGURE_4) + " That is all."
    score = score_output(read_output(text), NEGATIVE)
    credits_by_text = {text[start:end]: value for start, end, value in span_credits(text, score, RUBRICS["process"])}
    as_text = {name: json.dumps(value) for name, value in FIGURE_4.items()}
    assert credits_by_text[as_text["evidence_alignment"]] == pytest.approx(0.30)
    assert credits_by_text[as_text["reasoning_chain"]] == pytest.approx(0.30)
    assert credits_by_text[as_text["label"]] == pytest.approx(0.15)
    assert credits_by_text[as_text["confidence"]] == pytest.approx(0.15 * 0.85)
    assert credits_by_text[as_text["error_type"]] == credits_by_text[as_text["fix_suggestion"]] == pytest.approx(0.075)
    assert credits_by_text[json.dumps(FIGURE_4)] == pytest.approx(0.10)


def test_an_object_that_cannot_be_located_is_credited_to_the_whole_text():
    score = score_output(output_of(FIGURE_4), NEGATIVE)
    for text in ("submitted by other means", json.dumps(FIGURE_4).replace('"label"', '```json "label"')):
        assert span_credits(text, score, RUBRICS["process"]) == ((0, len(text), pytest.approx(1.1275)),)
    assert span_credits("nothing", score_output(None, NEGATIVE), RUBRICS["process"]) == ()


def test_an_output_is_found_inside_a_tool_call_and_after_prose_with_braces():
    text = "the set {a, b}\n" + json.dumps(FIGURE_4)
    score = score_output(output_of(FIGURE_4), NEGATIVE)
    assert json.dumps(FIGURE_4) in {text[start:end] for start, end, _ in span_credits(text, score, RUBRICS["process"])}
    text = json.dumps({"name": "submit", "arguments": FIGURE_4})
    score = score_output(output_of(FIGURE_4), NEGATIVE)
    placed = {text[start:end] for start, end, _ in span_credits(text, score, RUBRICS["process"])}
    assert {'"Not Attributable"', '"scope_inflation"', json.dumps(FIGURE_4)} <= placed


# The published schema


def errors(data):
    return [error.json_path for error in Draft202012Validator(VERDICT_SCHEMA).iter_errors(data)]


def test_the_schema_names_the_same_words_as_the_reward():
    Draft202012Validator.check_schema(VERDICT_SCHEMA)
    fields = VERDICT_SCHEMA["properties"]
    assert tuple(fields) == FIELDS
    assert tuple(VERDICT_SCHEMA["required"]) == REQUIRED_FIELDS
    assert tuple(fields["label"]["enum"]) == LABELS
    assert tuple(fields["error_type"]["enum"]) == ERROR_TYPES
    entry = fields["evidence_alignment"]["items"]["properties"]
    assert tuple(entry["status"]["enum"]) == STATUSES
    assert tuple(fields["reasoning_chain"]["items"]["properties"]["judgment"]["enum"]) == JUDGMENTS
    bounds = [(entry[name]["minLength"], entry[name]["maxLength"]) for name in ("claim_span", "source_span")]
    assert bounds == [(3, 200), (3, 500)]


def test_complete_outputs_fit_the_schema_and_others_do_not():
    assert not errors(output())
    assert not errors(FIGURE_4)
    assert not errors(GRPO_OUTPUT)
    assert errors(EXAMPLE_2)  # abbreviated: no confidence
    for name in REQUIRED_FIELDS:
        assert errors(output(**{name: None}))
    # A negative verdict carries its diagnosis, a positive one none.
    assert errors(output(error_type=None))
    assert errors(output(fix_suggestion=None))
    assert errors(GRPO_OUTPUT | {"error_type": "fabrication"})
    assert "$.label" in errors(output(label="yes"))
    assert errors(output(confidence=1.1)) == ["$.confidence"]


def test_an_output_that_fits_the_schema_earns_the_whole_process_part():
    for data in (output(), FIGURE_4, GRPO_OUTPUT, output(reasoning_chain=[step("a", "supported", "x" * 5, "y" * 10)])):
        assert not errors(data)
        scored = score_output(output_of(data), NEGATIVE).components
        assert [scored[name] for name in ("format", "alignment", "chain")] == [1.0, 1.0, 1.0]


# SEVA's two propositions, checked numerically: what holds, and where the paper's own statement does not

G = 8


def exact(q: float, value) -> float:
    """The expectation of `value(group)` over all 2^G groups of Bernoulli(q) rewards."""
    groups = np.array(list(product((0.0, 1.0), repeat=G)))
    wins = groups.sum(axis=1)
    return float((q**wins * (1 - q) ** (G - wins) * value(groups)).sum())


@pytest.mark.parametrize("q", [0.01, 0.1, 0.37, 0.5, 0.9])
def test_proposition_1_variance_of_a_bernoulli_group(q):
    unbiased = exact(q, lambda groups: groups.var(axis=1, ddof=1))
    assert unbiased == pytest.approx(q * (1 - q))
    assert exact(q, lambda groups: groups.var(axis=1)) == pytest.approx((G - 1) / G * q * (1 - q))
    printed = G / (G - 1) * q * (1 - q)
    assert printed > unbiased
    if q == 0.37:
        assert printed == pytest.approx(0.27, abs=0.005)  # the paper's number, as the upper bound that it calls it


def equal_groups(rewards):
    """Share of groups whose rewards are all equal."""
    return (rewards == rewards[:, :1]).all(axis=1).mean()


def test_proposition_1_by_simulation():
    rng = np.random.default_rng(0)
    for q in (0.1, 0.37):
        rewards = (rng.random((40_000, G)) < q).astype(float)
        assert rewards.mean() == pytest.approx(q, abs=0.005)
        assert rewards.var(axis=1, ddof=1).mean() == pytest.approx(q * (1 - q), rel=0.02)
        assert equal_groups(rewards) == pytest.approx(q**G + (1 - q) ** G, abs=0.01)


def test_proposition_1_advantages_vanish_on_average_and_not_one_by_one():
    sizes = [exact(q, lambda groups: np.abs(group_advantages(groups)).mean(axis=1)) for q in (0.37, 0.1, 0.01, 0.001)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.01 < 0.5 < sizes[0]
    # At q = .001 a group with a success is rare; where there is one, its advantage is as large as any.
    assert group_advantages([1, *[0] * (G - 1)])[0] == pytest.approx(7 / math.sqrt(8), rel=1e-3)
    # So at the paper's q of .37 a batch of 64 groups spans more than two deviations, not ±.05.
    rewards = (np.random.default_rng(1).random((64, G)) < 0.37).astype(float)
    assert group_advantages(rewards).max() > 2.0


def test_proposition_2_the_identity_and_the_lower_bound():
    """σ²(R) is the sum over the covariance matrix, and at least w_k² σ_k² for a component that is independent."""
    rng = np.random.default_rng(2)
    n = 200_000
    shared = rng.random(n)
    components = np.stack([rng.random(n) < 0.72, shared, np.clip(shared + 0.1, 0, 1), rng.random(n) < 0.6]).astype(
        float
    )
    weights = np.array([0.10, 0.30, 0.30, 0.15])
    total = weights @ components
    assert total.var() == pytest.approx(weights @ np.cov(components, ddof=0) @ weights)
    for k in (0, 3):
        assert total.var() >= weights[k] ** 2 * components[k].var()
        rest = weights @ components - weights[k] * components[k]
        assert abs(np.corrcoef(components[k], rest)[0, 1]) < 0.01


def test_proposition_2_pairs_that_are_not_perfectly_anti_correlated_may_still_cancel():
    """The paper's remark that only perfect anti-correlation can drive the variance to 0 is true of two components."""
    corners = np.eye(3)
    assert corners.sum(axis=1).var() == 0.0
    assert all(corners[:, k].var() > 0 for k in range(3))
    assert np.corrcoef(corners.T)[0, 1] == pytest.approx(-0.5)


def test_proposition_2_for_the_real_reward():
    """Format alone differs between outputs (28 % do not parse): the variance is at least what the format gives."""
    rng = np.random.default_rng(3)
    good = score_output(output_of(output(label="Attributable", confidence=0.5)), NEGATIVE)
    bad = score_output(None, NEGATIVE)
    value = {True: PROCESS.total(good.components, {}), False: PROCESS.total(bad.components, {})}
    parsed = rng.random((2_000, G)) >= 0.28
    rewards = np.where(parsed, value[True], value[False])
    assert rewards.var(axis=1, ddof=1).mean() >= 0.10**2 * 0.28 * 0.72
    assert equal_groups(rewards) == pytest.approx(0.72**G + 0.28**G, abs=0.02)


def test_where_binary_sees_one_value_process_sees_many():
    """All wrong labels: the binary group is flat, the process group is ordered by its work."""
    group = [
        output(label="Attributable", reasoning_chain=[step("a", "supported", "12345", "1234567890")] * 3),
        output(label="Attributable", reasoning_chain=[step("a", "supported")]),
        output(label="Attributable", evidence_alignment=[aligned("", "", "match")]),
        output(label="Attributable", evidence_alignment=[], reasoning_chain=[]),
    ]
    scores = [score_output(output_of(data), NEGATIVE) for data in group]
    totals = [PROCESS.total(score.components, score.gates) for score in scores]
    assert len({score.components["label"] for score in scores}) == 1 < len(set(totals))
    advantages = group_advantages(totals)
    assert advantages[0] == advantages.max()
    assert advantages[-1] == advantages.min()
