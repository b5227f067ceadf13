"""The components of SEVA's process reward (Algorithm 1, equations 8 to 11), each in its own range.

What the rubric leaves open is settled as in the authors' published reward: the length bonus of a chain lies inside the
cap of 1; an explanation of 3 to 9 characters earns .1; for a gold Not Attributable an error type outside the taxonomy
earns .2 and a correction of 1 to 9 characters .1; a confidence that is missing or no number counts as .5. Only text
counts as a span, part, evidence, explanation or correction: a number or a list in its place earns nothing there.

Three things to know about the published rubric. R_d depends on the gold label, not on the predicted one, and on no
gold error type: any category of the six earns the same. The range that the paper states, up to 1.28, is not reachable
by its own formula: five components of 1 and a confidence of 1 give 1.15. And nothing in it compares an output with the
claim or the source: invented spans earn what true ones earn. The grounded components, which are ours, do; see
`factgym.rewards.seva.grounding`.

Two more edges can be gamed. The calibration term is linear in the confidence, so it is no proper score: a policy that
is right more than two times in five earns most by always stating 1; `proper_calibration`, which is ours, pays most for
the true chance, and the grounded presets weigh it. And means over items reward silence: leaving out
the worst alignment or step raises the mean of the rest, so hiding a weak step pays. The grounded components cover the
claim instead, so that nothing that is left out pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.core.errors import ConfigError
from factgym.rewards.seva.grounding import NOTHING_GROUNDED, Grounding, ground
from factgym.rewards.seva.labels import (
    ERROR_TYPES,
    JUDGMENTS,
    LABELS,
    NOT_FOUND,
    STATUSES,
    Label,
    canonical_error_type,
    canonical_label,
)
from factgym.rewards.seva.output import REQUIRED_FIELDS, SevaOutput, stated_confidence
from factgym.rewards.seva.rules import DEFAULT_RULES, SevaRules

COMPONENTS = (
    *("format", "alignment", "chain", "label", "diagnosis", "calibration"),
    *("diagnosis_by_label", "calibration_proper"),
)
"""What every score holds. All lie in [0, 1] but calibration, which lies in [-0.10, 0.15]."""

GROUNDED_COMPONENTS = ("grounded_alignment", "grounded_chain")
"""What a score holds in addition when it was made with the claim and the source; in [0, 1]."""

GATES = ("consistent",)
"""1.0 when the label follows from the output's own alignments and steps, else 0.0; with claim and source only."""

_POSITIVE = LABELS[0]
_STATUSES = frozenset(STATUSES)
_JUDGMENTS = frozenset(JUDGMENTS)
_ERROR_TYPES = frozenset(ERROR_TYPES)

_ERROR_ON_POSITIVE = 0.3
"""R_d when a supported claim was given an error type; also the least that R_d is for such a claim."""


@dataclass(frozen=True, slots=True)
class SevaGold:
    """What is true of a claim. error_type: of the taxonomy where it is known; it earns nothing, see the module.

    Raises ConfigError for a label that is none of the two; `canonical_label` reads the many ways to write them.
    """

    label: Label
    error_type: str | None = None

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise ConfigError(f"a gold label is {' or '.join(map(repr, LABELS))}, not {self.label!r:.80}")


@dataclass(frozen=True, slots=True)
class SevaScore:
    """The components of one output, and facts about it.

    components: see COMPONENTS and GROUNDED_COMPONENTS. gates: see GATES; empty without claim and source. format_ok:
    all four required fields are there. correct: the label is the gold one. label: as predicted, None for none.
    confidence: the one that was counted. error_type: the predicted category, None for another or none. spans, steps:
    entries of the alignment and of the chain.
    """

    components: Mapping[str, float]
    gold: SevaGold
    parsed: bool = False
    format_ok: bool = False
    correct: bool = False
    label: Label | None = None
    confidence: float = 0.0
    error_type: str | None = None
    spans: int = 0
    steps: int = 0
    gates: Mapping[str, float] = field(default_factory=dict)


def score_output(
    output: SevaOutput | None,
    gold: SevaGold,
    *,
    claim: str | None = None,
    source: str | None = None,
    rules: SevaRules = DEFAULT_RULES,
) -> SevaScore:
    """Score an output against the gold label; None, which is unparseable, scores 0 in every component.

    claim, source: the texts that were shown; with both, the grounded components and the gate are scored too.
    """
    with_texts = claim is not None and source is not None
    if output is None:
        return _unparsed(gold, with_texts)
    data = output.data
    label = canonical_label(data.get("label"))
    correct = label == gold.label
    stated = stated_confidence(data)
    confidence = rules.default_confidence if stated is None else stated
    alignments, chain = output.alignments, output.chain
    shape = format_score(data)
    diagnosis = diagnosis_score(data, gold.label, rules)
    components = {
        "format": shape,
        "alignment": alignment_score(alignments, rules),
        "chain": chain_score(chain, rules),
        "label": 1.0 if correct else 0.0,
        "diagnosis": diagnosis,
        "calibration": confidence * (rules.calibration_gain if correct else -rules.calibration_loss),
        "diagnosis_by_label": by_label(diagnosis, gold.label),
        "calibration_proper": proper_calibration(confidence, correct, rules),
    }
    gates: dict[str, float] = {}
    if claim is not None and source is not None:
        _add_grounding(components, gates, ground(output, label, claim, source, rules))
    return SevaScore(
        components,
        gold,
        True,
        shape == 1.0,
        correct,
        label,
        confidence,
        canonical_error_type(data.get("error_type")),
        len(alignments),
        len(chain),
        gates,
    )


def format_score(data: Mapping[str, Any]) -> float:
    """R_f: 1.0 with all four required fields, .5 with at least two, .2 for any other JSON object."""
    present = 0
    for name in REQUIRED_FIELDS:
        if name in data:
            present += 1
    return 1.0 if present == len(REQUIRED_FIELDS) else 0.5 if present >= 2 else 0.2


def alignment_score(entries: list[Any], rules: SevaRules = DEFAULT_RULES) -> float:
    """R_a, equation 8: the mean over the entries, 0 without any. An entry that is no object earns 0."""
    if not entries:
        return 0.0
    tenths = 0
    shortest, claim_most, source_most = rules.min_span_chars, rules.max_claim_span_chars, rules.max_source_span_chars
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        claim, source, status = entry.get("claim_span"), entry.get("source_span"), entry.get("status")
        if isinstance(claim, str):
            tenths += (3 if claim.strip() else 0) + (shortest <= len(claim) <= claim_most)
        if source == NOT_FOUND:
            tenths += 4
        elif isinstance(source, str):
            tenths += (3 if source.strip() else 0) + (shortest <= len(source) <= source_most)
        if isinstance(status, str) and status in _STATUSES:
            tenths += 2
    return tenths / (10 * len(entries))


def chain_score(steps: list[Any], rules: SevaRules = DEFAULT_RULES) -> float:
    """R_c, equation 9: the mean over the steps plus the length bonus, at most 1; 0 without any step."""
    if not steps:
        return 0.0
    tenths = 0
    for step in steps:
        if not isinstance(step, dict):
            continue
        judgment, explanation = step.get("judgment"), step.get("explanation")
        evidence, part = step.get("source_evidence"), step.get("claim_part")
        if isinstance(judgment, str) and judgment in _JUDGMENTS:
            tenths += 3
        if isinstance(explanation, str):
            length = len(explanation)
            if length >= rules.min_explanation_chars:
                tenths += 3
            elif length >= rules.min_brief_explanation_chars:
                tenths += 1
        if isinstance(evidence, str) and len(evidence) >= rules.min_evidence_chars:
            tenths += 2
        if isinstance(part, str) and part:
            tenths += 2
    bonus = min(len(steps) / rules.full_chain_steps, 1.0) * rules.length_bonus
    return min(tenths / (10 * len(steps)) + bonus, 1.0)


def diagnosis_score(data: Mapping[str, Any], gold: Label, rules: SevaRules = DEFAULT_RULES) -> float:
    """R_d, equation 10, by the gold label.

    Attributable: 1.0 without an error type, .3 with one; null, "", [] and the like are none, "N/A" is one. Not
    Attributable: .6 for a category of the taxonomy or .2 for any other value, and .4 for a correction or .1 for a
    short one.
    """
    error = data.get("error_type")
    if gold == _POSITIVE:
        return _ERROR_ON_POSITIVE if error else 1.0
    fix = data.get("fix_suggestion")
    tenths = 0
    if isinstance(error, str) and error in _ERROR_TYPES:
        tenths = 6
    elif error:
        tenths = 2
    if isinstance(fix, str) and fix:
        tenths += 4 if len(fix) >= rules.min_fix_chars else 1
    return tenths / 10


def by_label(diagnosis: float, gold: Label) -> float:
    """R_d normalised by what it can be for the gold label: (R_d − lowest) / (highest − lowest), in [0, 1].

    R_d lies in [.3, 1] for a gold Attributable and in [0, 1] for the other. An unsure policy therefore earns 1 − .7 p
    by predicting Not Attributable with a diagnosis and p by predicting Attributable, where p is the chance that the
    claim is attributable: it leans to the negative label until p exceeds .59 (the bias of section 4.2). Normalised,
    it earns 1 − p against p, and leans to neither. The paper names label-conditional normalisation as future work and
    does not define it; this definition, which needs no running statistics, is ours.
    """
    if gold != _POSITIVE:
        return diagnosis
    return max(0.0, (diagnosis - _ERROR_ON_POSITIVE) / (1.0 - _ERROR_ON_POSITIVE))


def proper_calibration(confidence: float, correct: bool, rules: SevaRules = DEFAULT_RULES) -> float:
    """The calibration term as a proper score: gain · (1 − (1 − γ)²) when right, −gain · γ² when wrong.

    Its expectation is highest where the confidence γ is the chance of being right (the Brier score, scaled so that
    certainty earns what it earns in equation 11). Ours; equation 11 pays for certainty above a chance of .4.
    """
    return rules.calibration_gain * (1.0 - (1.0 - confidence) ** 2 if correct else -(confidence**2))


def _unparsed(gold: SevaGold, with_texts: bool) -> SevaScore:
    components = dict.fromkeys(COMPONENTS, 0.0)
    gates: dict[str, float] = {}
    if with_texts:
        _add_grounding(components, gates, NOTHING_GROUNDED)
    return SevaScore(components, gold, gates=gates)


def _add_grounding(components: dict[str, float], gates: dict[str, float], found: Grounding) -> None:
    components["grounded_alignment"] = found.alignment
    components["grounded_chain"] = found.chain
    gates["consistent"] = float(found.consistent)
