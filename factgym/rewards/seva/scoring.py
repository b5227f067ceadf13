"""The components of SEVA's process reward (Algorithm 1, equations 8 to 11), and their grounded variants, which are ours.

Points that the rubric leaves open follow the authors' published reward: the length bonus of a chain lies inside the cap
of 1; an explanation of 3 to 9 characters earns .1; for a gold Not Attributable an error type outside the taxonomy earns
.2 and a correction of 1 to 9 characters .1; a confidence that is missing or no number counts as .5. Only text counts as
a span, part, evidence, explanation or correction: a number or a list in its place earns nothing.

Known properties of the published rubric:

- R_d depends on the gold label, not on the predicted one, and on no gold error type: any category earns the same.
- The range that the paper states, up to 1.28, is not reachable by its own formula: five components of 1 and a
  confidence of 1 give 1.15.
- Nothing compares an output with the claim or the source: invented spans earn as much as true spans.
- R_a and R_c are means, so leaving out the worst entry raises them: hiding a weak step pays.
- The calibration term is linear in the confidence and therefore no proper score: a policy that is right more than two
  times in five earns most by always stating 1.

The grounded components compare an output with both texts; see `grounding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from factgym.core.config import AtLeastOne, UnitFloat, check_fields
from factgym.core.errors import ConfigError
from factgym.rewards.seva.grounding import Range, grounded_scores
from factgym.rewards.seva.output import (
    ERROR_TYPES,
    JUDGMENTS,
    LABELS,
    NOT_FOUND,
    REQUIRED_FIELDS,
    STATUSES,
    Label,
    SevaOutput,
    stated_confidence,
)

COMPONENTS = (
    *("format", "alignment", "chain", "label", "diagnosis", "calibration"),
    *("diagnosis_by_label", "calibration_proper"),
)
"""Components of every score. All lie in [0, 1] except the calibrations: [-0.10, 0.15] and, proper, [-0.30, 0.15]."""

GROUNDED_COMPONENTS = ("grounded_alignment", "grounded_chain")
"""Further components of a score that was made with the claim and the source; in [0, 1]."""

GATES = ("consistent",)
"""Where the label follows from the output's own alignments and steps, the evidence share (`grounding`), else 0.0; with
claim and source only."""

_POSITIVE = LABELS[0]
_STATUSES = frozenset(STATUSES)
_JUDGMENTS = frozenset(JUDGMENTS)
_ERROR_TYPES = frozenset(ERROR_TYPES)

_ERROR_ON_POSITIVE = 0.3
"""R_d of an error type on a supported claim; also the least that R_d is for such a claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SevaRules:
    """Constants of the rubric lines; the defaults are the paper's (appendix C). Lengths in characters.

    The points of each line (.3, .2, .1 …) are part of equations 8 to 10 and no settings: a rubric's weights shift them.

    min_span_chars, max_claim_span_chars, max_source_span_chars: equation 8's length points, both ends included.
    min_explanation_chars, min_evidence_chars: equation 9; an explanation of at least `min_brief_explanation_chars`
    earns .1 instead of .3. full_chain_steps, length_bonus: the bonus grows up to so many steps. min_fix_chars:
    equation 10. default_confidence: where none is given. calibration_gain, calibration_loss: equation 11.
    proper_loss: of the proper calibration, for certainty in a wrong label (`proper_calibration`).

    For the grounded components only: full_coverage is the share of the claim's content words that earns everything,
    full_grounded_steps the number of different steps that a chain needs (the teacher's prompt asks for two),
    full_evidence_words the number of deciding content words that the quotes need, max_explanation_chars the length beyond
    which an explanation is padding.
    Raises ConfigError for a value out of range.
    """

    min_span_chars: AtLeastOne = 3
    max_claim_span_chars: AtLeastOne = 200
    max_source_span_chars: AtLeastOne = 500
    min_explanation_chars: AtLeastOne = 10
    min_brief_explanation_chars: AtLeastOne = 3
    min_evidence_chars: AtLeastOne = 5
    min_fix_chars: AtLeastOne = 10
    full_chain_steps: AtLeastOne = 3
    length_bonus: UnitFloat = 0.2
    default_confidence: UnitFloat = 0.5
    calibration_gain: UnitFloat = 0.15
    calibration_loss: UnitFloat = 0.10
    proper_loss: UnitFloat = 0.30
    full_coverage: UnitFloat = 2 / 3
    full_grounded_steps: AtLeastOne = 2
    full_evidence_words: AtLeastOne = 3
    max_explanation_chars: AtLeastOne = 500

    def __post_init__(self) -> None:
        check_fields(self)
        if self.full_coverage == 0:
            raise ConfigError("SevaRules.full_coverage must be above 0")


DEFAULT_RULES = SevaRules()


@dataclass(frozen=True, slots=True)
class SevaGold:
    """The gold of a claim. error_type: of the taxonomy where it is known; the reward does not use it.

    evidence: ranges of the source that decide, where the data has them, for the grounded components. Raises ConfigError for an unknown label; `canonical_label` reads the many ways to write the two.
    """

    label: Label
    error_type: str | None = None
    evidence: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise ConfigError(f"a gold label is {' or '.join(map(repr, LABELS))}, not {self.label!r:.80}")


@dataclass(frozen=True, slots=True)
class SevaScore:
    """The score of one output.

    components: see COMPONENTS and GROUNDED_COMPONENTS. gates: see GATES; empty without claim and source. facts, for the
    report's metrics: gold_verdict and verdict (labels; None for none), gold_error_type and error_type (a category,
    None for another or none), confidence (as counted, None when unparsed), parsed, format_ok (all required fields are
    present), correct, spans and steps (entries of the alignment and of the chain).
    """

    components: Mapping[str, float]
    gates: Mapping[str, float]
    facts: Mapping[str, Any]


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
    facts: dict[str, Any] = {
        "gold_verdict": gold.label,
        "verdict": output.label if output else None,
        "gold_error_type": gold.error_type,
        "error_type": output.error_type if output else None,
        "confidence": None,
        "parsed": output is not None,
        "format_ok": False,
        "correct": False,
        "spans": len(output.alignments) if output else 0,
        "steps": len(output.chain) if output else 0,
    }
    if output is None:
        has_texts = claim is not None and source is not None
        names = COMPONENTS + GROUNDED_COMPONENTS if has_texts else COMPONENTS
        return SevaScore(dict.fromkeys(names, 0.0), dict.fromkeys(GATES, 0.0) if has_texts else {}, facts)
    data, label = output.data, output.label
    correct = label == gold.label
    stated = stated_confidence(data)
    confidence = rules.default_confidence if stated is None else stated
    diagnosis = diagnosis_score(data, gold.label, rules)
    components = {
        "format": format_score(data),
        "alignment": alignment_score(output.alignments, rules),
        "chain": chain_score(output.chain, rules),
        "label": 1.0 if correct else 0.0,
        "diagnosis": diagnosis,
        "calibration": confidence * (rules.calibration_gain if correct else -rules.calibration_loss),
        "diagnosis_by_label": diagnosis_by_label(diagnosis, gold.label),
        "calibration_proper": proper_calibration(confidence, correct, rules),
    }
    gates = {}
    if claim is not None and source is not None:
        grounded, gates["consistent"] = grounded_scores(
            output, label, claim, source, gold.evidence, gold.error_type == "fabrication", rules
        )
        components.update(grounded)
    facts |= {"confidence": confidence, "format_ok": components["format"] == 1.0, "correct": correct}
    return SevaScore(components, gates, facts)


# The published components. Points are counted in tenths, so that sums are exact.


def format_score(data: Mapping[str, Any]) -> float:
    """R_f: 1.0 with all four required fields, .5 with at least two, .2 for any other JSON object."""
    present = sum(name in data for name in REQUIRED_FIELDS)
    return 1.0 if present == len(REQUIRED_FIELDS) else 0.5 if present >= 2 else 0.2


def alignment_score(entries: list[Any], rules: SevaRules = DEFAULT_RULES) -> float:
    """R_a, equation 8: the mean over the entries, 0 without any. An entry that is no object earns 0."""
    if not entries:
        return 0.0
    tenths = 0
    min_chars, max_claim, max_source = rules.min_span_chars, rules.max_claim_span_chars, rules.max_source_span_chars
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        # Equation 8 in tenths: 3 for a claim span and 1 for its length, 3 for a source span and 1 for its length
        # (NOT_FOUND has both), 2 for a valid status.
        claim, source, status = entry.get("claim_span"), entry.get("source_span"), entry.get("status")
        if isinstance(claim, str):
            tenths += (3 if claim.strip() else 0) + (min_chars <= len(claim) <= max_claim)
        if source == NOT_FOUND:
            tenths += 4
        elif isinstance(source, str):
            tenths += (3 if source.strip() else 0) + (min_chars <= len(source) <= max_source)
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
        # Equation 9 in tenths: 3 for a valid judgment, 3 for an explanation, 2 for evidence, 2 for the part of the
        # claim.
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


def diagnosis_by_label(diagnosis: float, gold: Label) -> float:
    """R_d normalised by its range for the gold label: (R_d − lowest) / (highest − lowest), in [0, 1].

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
    """The calibration term as a proper score: gain − loss · (1 − γ)² when right, −loss · γ² when wrong.

    Its expectation is highest where the confidence γ is the chance p of being right (the Brier score, scaled so that
    certainty of a right label earns as much as in equation 11); a constant .5 loses loss · (p − .5)². Ours; equation 11
    pays for certainty above a chance of .4. With a loss of .15, .5 on every claim cost the honest baseline, which is
    right about 73 %, half a percent of its reward, which no search tells from nothing.
    """
    return (rules.calibration_gain if correct else 0.0) - rules.proper_loss * (correct - confidence) ** 2
