"""The checkers of probes: broken probes are refused, each for its own fault; the paper's own examples are told apart."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from factgym.datasets.attribution import ATTRIBUTABLE, NOT_ATTRIBUTABLE
from factgym.generators.perturbations.checks import aim_faults, changed_faults, fluency_faults
from factgym.generators.perturbations.probes import Probe, check_probe

ORIGINAL = "Janet Leigh was an American actress in 1960."
SOURCE = "Janet Leigh (born July 6, 1927) was an American actress, who starred in Psycho of 1960."


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Janet Leigh was an Danish actress in 1960.", "article"),
        ("Janet Leigh was a American actress in 1960.", "article"),
        ("Janet Leigh was was an American actress in 1961.", "doubled word"),
        ("Janet Leigh (was an American actress in 1961.", "unbalanced ()"),
        ('Janet "Leigh was an American actress in 1961.', 'unbalanced "'),
        ("janet Leigh was an American actress in 1961.", "sentence case"),
        ("Janet Leigh was an American actress in 1961", "final punctuation"),
        ("Janet Leigh was an American actress in 1961?", "final punctuation"),
        ("Janet Leigh was an American actress in {year}.", "leftover"),
        ("In 1961, janet Leigh was an American actress.", "name in lower case"),
        ("Janet Leigh did not starred in 1961.", "verb form"),
        ("Janet Leigh was not not an American actress.", "double negation"),
        ("Janet Leigh was an American actress in 1961, .", "punctuation"),
        ("Although she sang, She was an American actress in 1961.", "capital"),
        ("It.", "length"),
        ("Janet Leigh was an American actress in 1961" + ", and so on" * 20 + ".", "length"),
        ("Janet Leigh was an American actress for three year.", "number"),
    ],
)
def test_each_fault_of_fluency_is_found(text, fault):
    faults = fluency_faults(text, ORIGINAL) if fault != "number" else fluency_faults(text.replace("year.", "year "), "")
    assert any(detail.startswith(fault) for detail in faults), faults


@pytest.mark.parametrize(
    "text",
    [
        ORIGINAL,
        "She had an hour, a union card, an 8-track, an honest uncle and a one-way ticket.",
        "He had had a European tour with an MBA and a US visa at a university.",
        "Duran Duran played (in May) for eleven days.",
    ],
)
def test_good_english_passes(text):
    assert fluency_faults(text, text) == []
    assert fluency_faults(text) == []


def test_faults_of_the_original_do_not_count():
    assert fluency_faults("Java was not formed by a eruption .", "Java was formed by a eruption .") == []


@pytest.mark.parametrize("text", [ORIGINAL.upper(), f"  {ORIGINAL} ", ORIGINAL.replace(".", "!"), ORIGINAL])
def test_white_space_case_and_marks_are_no_change(text):
    assert changed_faults(text, ORIGINAL)


GOOD = (
    ("entity_confusion", "entity_substitution", "Sheryl Lee was an American actress in 1960."),
    ("entity_confusion", "entity_substitution", "Janet Leigh was a Danish actress in 1960."),
    ("numerical_perturb", "temporal_shift", "Janet Leigh was an American actress in 1964."),
    ("multi_hop_graft", "temporal_shift", "Janet Leigh was an American actress in the 1930s."),
    ("multi_hop_graft", "fabrication", "Janet Leigh, who directed Billboard Dad, was an American actress in 1960."),
    ("paraphrase", "negation_flip", "Janet Leigh was not an American actress in 1960."),
    ("presupposition", "fabrication", "Despite the nationwide boycott, Janet Leigh was an American actress in 1960."),
    ("presupposition", "scope_inflation", "Janet Leigh was the only American actress in 1960."),
    ("unanswerable_wrap", "fabrication", "Janet Leigh was an American actress in 1960, as an unpublished diary says."),
)


@pytest.mark.parametrize(("strategy", "error", "text"), GOOD)
def test_the_right_aim_passes_and_every_other_error_is_refused(strategy, error, text):
    assert aim_faults(strategy, error, ORIGINAL, text, SOURCE) == []
    errors = {"entity_substitution", "numerical_exaggeration", "temporal_shift", "negation_flip", "scope_inflation"}
    passing = {other for other in errors if not aim_faults("paraphrase", other, ORIGINAL, text, SOURCE)}
    allowed = {error} | ({"numerical_exaggeration"} if error == "temporal_shift" else set())
    assert passing <= allowed


@pytest.mark.parametrize(
    ("strategy", "error", "text", "fault"),
    [
        (
            "entity_confusion",
            "entity_substitution",
            "Anthony Perkins Psycho was an American actress in 1960.",
            "source knows",
        ),
        ("entity_confusion", "entity_substitution", "Janet Leigh was an American poet in 1960.", "no name"),
        ("entity_confusion", "entity_substitution", "Sheryl Lee was an American actress in 1964.", "number"),
        ("entity_confusion", "entity_substitution", "Sheryl was a Danish actress Lee in 1960.", "one place"),
        ("numerical_perturb", "numerical_exaggeration", "Janet Leigh was an American actress in 1927.", "source has"),
        (
            "numerical_perturb",
            "numerical_exaggeration",
            "Janet Leigh was a British actress in 1961.",
            "more than numbers",
        ),
        ("numerical_perturb", "numerical_exaggeration", "Janet Leigh was an American singer in 1960.", "no number"),
        ("numerical_perturb", "temporal_shift", "Janet Leigh was an American actress in 1927.", "source has"),
        (
            "multi_hop_graft",
            "temporal_shift",
            "Janet Leigh was an American actress in the 1960s.",
            "no time|decade holds",
        ),
        ("multi_hop_graft", "fabrication", "Janet Leigh was an American actress in 1960, quietly resting.", "joined"),
        ("paraphrase", "negation_flip", "Janet Leigh was an American singer in 1960.", "polarity"),
        ("paraphrase", "negation_flip", "Janet Leigh was never not an American actress in 1960.", "polarity"),
        ("paraphrase", "scope_inflation", "Janet Leigh was some American actress in 1960.", "nothing that widens"),
        (
            "presupposition",
            "fabrication",
            "Janet Leigh was an American actress in 1960, gladly wearing velvet.",
            "nothing is",
        ),
        (
            "unanswerable_wrap",
            "fabrication",
            "Janet Leigh starred as an American actress in 1960 in July.",
            "claim itself|has what",
        ),
        (
            "unanswerable_wrap",
            "fabrication",
            "Janet Leigh was an American actress in 1960, born 1927 July 6.",
            "source has",
        ),
        ("paraphrase", "spelling", "Janet Leigh was not an American actress in 1960.", "no error"),
    ],
)
def test_an_aim_that_is_missed_is_refused(strategy, error, text, fault):
    faults = aim_faults(strategy, error, ORIGINAL, text, SOURCE)
    assert any(re.search(fault, detail) for detail in faults), faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Janet Leigh was not an American actress in 1960.", "polarity"),
        ("Janet Leigh was an American actress in 1961.", "number"),
        ("Sheryl Lee was an American actress in 1960.", "name"),
        ("In 1960, something else happened to Leigh.", "name|too little"),
    ],
)
def test_a_kept_label_needs_numbers_names_and_polarity(text, fault):
    faults = aim_faults("paraphrase", None, ORIGINAL, text, SOURCE, keeps=True)
    assert any(re.search(fault, detail) for detail in faults), faults
    assert (
        aim_faults("paraphrase", None, ORIGINAL, "In 1960, Janet Leigh was an American actress.", SOURCE, keeps=True)
        == []
    )


PROBE = Probe("p", GOOD[5][2], SOURCE, ORIGINAL, NOT_ATTRIBUTABLE, "negation_flip", "paraphrase", 0)


def test_broken_probes_are_refused_by_the_named_check():
    assert check_probe(PROBE) == ()
    broken = {
        "changed": replace(PROBE, claim=ORIGINAL + " "),
        "fluent": replace(PROBE, claim=PROBE.claim.replace("an American", "a American")),
        "aims": replace(PROBE, error_type="entity_substitution"),
    }
    for check, probe in broken.items():
        assert any(fault.startswith(f"{check}:") for fault in check_probe(probe)), check
    attributable = replace(PROBE, gold_label=ATTRIBUTABLE, error_type=None)
    assert any("polarity" in fault for fault in check_probe(attributable))


AIMS = {
    "entity_confusion": ("entity_substitution",),
    "numerical_perturb": ("numerical_exaggeration", "temporal_shift"),
    "presupposition": ("fabrication", "scope_inflation"),
    "unanswerable_wrap": ("fabrication",),
}


@pytest.fixture(scope="module")
def official(data_dir):
    path = data_dir / "seva_official" / "adversarial_fact_v3.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def agrees(record, strategy):
    pair = record["original_claim"], record["claim"], ""
    if strategy in ("paraphrase", "multi_hop_graft"):
        return not aim_faults(strategy, None, *pair, keeps=True)
    return any(not aim_faults(strategy, error, *pair) for error in AIMS[strategy])


def share(records, strategy):
    return sum(agrees(record, strategy) for record in records) / len(records)


def test_the_published_examples_agree_with_their_tags(official):
    by = {}
    for record in official:
        by.setdefault(record["strategy"], []).append(record)
    assert share(by["numerical_perturb"], "numerical_perturb") == 1
    assert share(by["paraphrase"], "paraphrase") == 1
    assert share(by["presupposition"], "presupposition") > 0.95
    assert share(by["multi_hop_graft"], "multi_hop_graft") > 0.8
    # The published wraps turn a claim into a question; ours stay claims, and the check asks for that.
    assert share(by["unanswerable_wrap"], "unanswerable_wrap") < 0.5


def test_the_published_examples_do_not_agree_with_other_tags(official):
    numbers = [record for record in official if record["strategy"] == "numerical_perturb"]
    paraphrases = [record for record in official if record["strategy"] == "paraphrase"]
    for other in ("entity_confusion", "presupposition", "unanswerable_wrap", "paraphrase"):
        assert share(numbers, other) < 0.05, other
    for other in ("entity_confusion", "numerical_perturb", "presupposition"):
        assert share(paraphrases, other) < 0.1, other


def test_faults_of_the_published_examples_are_detected(official):
    stuck = [record for record in official if record["claim"].endswith("?.")]
    assert len(stuck) > 20
    assert all(fluency_faults(record["claim"], record["original_claim"]) for record in stuck)
    small = [record for record in official if record["claim"].startswith("In the 1860s, mahatma")]
    assert small
    assert all(
        any("lower case" in fault for fault in fluency_faults(record["claim"], record["original_claim"]))
        for record in small
    )
