"""How SEVA's components are combined, reported and credited to characters of the policy's message.

The paper names splits ("90/10 (process-heavy)") and prints the weights of 70/30 only. A split here scales the process
weights (.10 : .30 : .30) and the outcome weights (.15 : .15) to their shares and leaves the calibration term as it is.
The row "0/100 (binary reward)" of Table 21 is the exception: the paper says that it *is* the binary reward, which is
not the result of scaling (that would be .5 R_l + .5 R_d + R_cal), so the preset of that name is the binary reward;
`split_rubric(0)` is the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from json import JSONDecoder

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.strict_json import DEFAULT_LIMITS, skip_space
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.output import FIELDS
from factgym.rewards.seva.scoring import SevaScore

_PROCESS = {"format": Fraction(1, 7), "alignment": Fraction(3, 7), "chain": Fraction(3, 7)}
_OUTCOME = {"label": Fraction(1, 2), "diagnosis": Fraction(1, 2)}
_GROUNDED = {"alignment": "grounded_alignment", "chain": "grounded_chain"}
_CALIBRATION, _PROPER = "calibration", "calibration_proper"
_SPLIT = re.compile(r"(grounded-)?([0-9]{1,3})/([0-9]{1,3})")
_BY_LABEL, _UNFLOORED = "-by-label", "-unfloored"


@dataclass(frozen=True, slots=True)
class SevaRubric(Rubric):
    """A rubric whose total is floored at 0 unless `floor` is False.

    Without the floor the process reward goes down to −0.08: the paper says −0.10, but any JSON object earns .02 for
    its format.
    """

    floor: bool = True

    def shares(self, components: Mapping[str, float], gates: Mapping[str, float]) -> dict[str, float]:
        """Return the part of the total that each component contributes; "floor" is the part of the floor, if any."""
        shares = self._scored_shares(components, gates)
        total = sum(shares.values())
        if self.floor and total < 0:
            shares["floor"] = -total
        return shares

    def total(self, components: Mapping[str, float], gates: Mapping[str, float]) -> float:
        """Return the combined reward. Raises ConfigError when it weighs a grounded component that was not scored."""
        total = 0.0
        for share in self._scored_shares(components, gates).values():  # `sum` compensates from Python 3.12 on
            total += share
        return 0.0 if self.floor and total < 0 else total

    def _scored_shares(self, components: Mapping[str, float], gates: Mapping[str, float]) -> dict[str, float]:
        absent = [name for name in self.weights if name not in components]
        absent += [gate for gate in self.gated.values() if gate not in gates]
        if absent:
            raise ConfigError(
                f"rubric {self.name!r} weighs {', '.join(dict.fromkeys(absent))}, which the score does not hold; "
                "the grounded components need score_output(..., claim=, source=)"
            )
        return Rubric.shares(self, components, gates)

    def __reduce__(self) -> tuple[type[Rubric], tuple[object, ...]]:  # type: ignore[override]  # one field more
        return SevaRubric, (self.name, dict(self.weights), dict(self.gated), self.floor)


def split_rubric(process: int, *, grounded: bool = False) -> SevaRubric:
    """Return the split that gives `process` percent to the process components and the rest to the outcome.

    grounded: weigh the grounded components and the proper calibration, and count label, diagnosis and calibration only
    where the label follows from the output's own alignments and steps. Raises ConfigError when `process` is no whole
    number from 0 to 100.
    """
    if type(process) is not int or not 0 <= process <= 100:
        raise ConfigError(f"the process share must be a whole number from 0 to 100, not {process!r:.80}")
    parts = {name: part * process for name, part in _PROCESS.items()}
    parts |= {name: part * (100 - process) for name, part in _OUTCOME.items()}
    weights = {(_GROUNDED.get(name, name) if grounded else name): float(part / 100) for name, part in parts.items()}
    name = f"{process}/{100 - process}"
    calibration = _PROPER if grounded else _CALIBRATION
    gated = dict.fromkeys((*_OUTCOME, calibration), "consistent") if grounded else {}
    return SevaRubric(f"grounded-{name}" if grounded else name, weights | {calibration: 1.0}, gated)


PROCESS = replace(split_rubric(70), name="process")
"""The paper's equation 1: .10 R_f + .30 R_a + .30 R_c + .15 R_l + .15 R_d + R_cal."""

BINARY = SevaRubric("binary", {"label": 1.0})
"""1 when the output parses and its label is the gold one, else 0."""

GROUNDED = replace(split_rubric(70, grounded=True), name="grounded")
"""The same weights over the grounded components and the proper calibration; ours, see `grounding`."""


def by_label(rubric: SevaRubric) -> SevaRubric:
    """Return the rubric with the diagnosis normalised by the gold label (`scoring.diagnosis_by_label`)."""
    weights, gated = (
        {"diagnosis_by_label" if component == "diagnosis" else component: value for component, value in part.items()}
        for part in (rubric.weights, rubric.gated)
    )
    return replace(rubric, name=rubric.name + _BY_LABEL, weights=weights, gated=gated)  # type: ignore[arg-type]


BALANCED = replace(by_label(split_rubric(30, grounded=True)), name="balanced")
"""The default of the environments, ours: grounded, by label, with 30 percent for the process and 70 for the outcome.

Chosen by measurement. Of the oracle's reward on generated claims, a constant label over honest quotes earns 73 % under
70/30, 64 % under 50/50 and 57 % under 30/70, and the honest verifier's margin over it is .14, .18 and .22. On 459 outputs
of a 7B model for FEVER and TruthfulQA, right labels earn .99 against .53 of wrong ones under 70/30 and .97 against .25
under 30/70. All this was measured with a calibration loss of .15. With .30, certainty in a constant label earns 50 %
under 30/70, and of 534 outputs of that model the right ones .79 as before, the wrong ones .05 in place of .15. By label,
because R_d alone pays "Not Attributable" .0225 more than "Attributable" at even labels.
"""

RUBRICS: Mapping[str, SevaRubric] = {
    rubric.name: rubric
    for rubric in (
        PROCESS,
        BINARY,
        GROUNDED,
        BALANCED,
        *(split_rubric(share) for share in range(90, 0, -10)),
        replace(BINARY, name="0/100"),
    )
}
"""The presets by name: process, binary, grounded, balanced, and the splits from 90/10 to 0/100 in steps of ten."""


def find_rubric(name: str) -> SevaRubric:
    """Return a preset, or any other split ("65/35", "grounded-50/50"), with the options that end its name.

    "-unfloored" does not floor the total at 0, as the published reward does; "-by-label", before it, weighs the
    diagnosis normalised by the gold label (`scoring.diagnosis_by_label`) in place of R_d. Raises ConfigError for an
    unknown name.
    """
    stem = name.removesuffix(_UNFLOORED)
    base = stem.removesuffix(_BY_LABEL)
    rubric = RUBRICS.get(base)
    split = _SPLIT.fullmatch(base)
    if rubric is None and split is not None and int(split[2]) + int(split[3]) == 100:
        rubric = split_rubric(int(split[2]), grounded=split[1] is not None)
    if rubric is None:
        raise ConfigError(
            f"there is no SEVA rubric {name!r:.80}.{did_you_mean(name, RUBRICS)} "
            f"Use {', '.join(RUBRICS)}, or a split such as '65/35'."
        )
    if base != stem and "diagnosis" in rubric.weights:
        rubric = by_label(rubric)
    return rubric if stem == name else replace(rubric, name=rubric.name + _UNFLOORED, floor=False)


Range = tuple[int, int]

_CREDITED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "alignment": ("evidence_alignment",),
    "grounded_alignment": ("evidence_alignment",),
    "chain": ("reasoning_chain",),
    "grounded_chain": ("reasoning_chain",),
    "label": ("label",),
    "calibration": ("confidence",),
    "calibration_proper": ("confidence",),
    "diagnosis": ("error_type", "fix_suggestion"),
    "diagnosis_by_label": ("error_type", "fix_suggestion"),
}
"""Component -> the fields that it was scored on."""
_DECODE = JSONDecoder().raw_decode
_MAX_STARTS = 8
"""Limit on the braces tried as the start of the object, which may be inside a tool call or after prose with braces."""


def span_credits(text: str, score: SevaScore, rubric: Rubric) -> tuple[tuple[int, int, float], ...]:
    """Return credits `(start, end, value)` on `text`, the message with the output; they sum to the rubric's total.

    Each component is credited to the values of the fields that it was scored on. The rest (the format, an error type
    rightly left out, the floor) is credited to the whole object, and everything to the whole text where the object
    cannot be located (code fences inside it, arguments rewritten on the way). Shares of 0 give no credit.
    """
    message, fields = (0, len(text)), dict[str, Range]()
    if score.facts["parsed"] and len(text) <= DEFAULT_LIMITS.max_chars:
        for brace in islice(re.finditer(r"\{", text), _MAX_STARTS):
            try:
                fields, end = _locate_fields(text, brace.start())
            except (ValueError, IndexError, RecursionError):
                continue
            if fields:
                message = brace.start(), end
                break
    earned: dict[Range, float] = {}
    for name, share in rubric.shares(score.components, score.gates).items():
        ranges = [fields[field] for field in _CREDITED_FIELDS.get(name, ()) if field in fields] or [message]
        for credited in ranges:
            earned[credited] = earned.get(credited, 0.0) + share / len(ranges)
    return tuple((start, end, value) for (start, end), value in sorted(earned.items()) if value)


def _locate_fields(text: str, start: int) -> tuple[dict[str, Range], int]:
    """Return the ranges of the values of the JSON object that begins at `start`, by field, and its end."""
    # Only the outermost object is scanned here: the standard decoder consumes each key and value whole.
    ranges: dict[str, Range] = {}
    position = skip_space(text, start + 1)
    while text[position] != "}":
        if text[position] != '"':
            raise ValueError("no key")
        key, position = _DECODE(text, position)
        position = skip_space(text, position)
        if text[position] != ":":
            raise ValueError("no colon")
        value_start = skip_space(text, position + 1)
        _, value_end = _DECODE(text, value_start)
        if key in FIELDS:
            ranges[key] = (value_start, value_end)
        position = skip_space(text, value_end)
        if text[position] == ",":
            position = skip_space(text, position + 1)
    return ranges, position + 1
