"""How SEVA's components are combined: the paper's process reward, the binary one, every split, and a grounded one.

The paper names splits ("90/10 (process-heavy)") and prints the weights of 70/30 only. A split here scales the process
weights (.10 : .30 : .30) and the outcome weights (.15 : .15) to their shares and leaves the calibration term as it is.
The row "0/100 (binary reward)" of Table 21 is the exception: the paper says that it *is* the binary reward, which is
not what scaling gives (that would be .5 R_l + .5 R_d + R_cal), so the preset of that name is the binary reward;
`split_rubric(0)` is the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from factgym.core.errors import ConfigError, did_you_mean
from factgym.rewards.rubric import Rubric

_PROCESS = {"format": Fraction(1, 7), "alignment": Fraction(3, 7), "chain": Fraction(3, 7)}
_OUTCOME = {"label": Fraction(1, 2), "diagnosis": Fraction(1, 2)}
_GROUNDED = {"alignment": "grounded_alignment", "chain": "grounded_chain"}
_CALIBRATION, _PROPER = "calibration", "calibration_proper"
_SPLIT = re.compile(r"([0-9]{1,3})/([0-9]{1,3})")
_BY_LABEL, _UNFLOORED = "-by-label", "-unfloored"


@dataclass(frozen=True, slots=True)
class SevaRubric(Rubric):
    """A rubric whose total is floored at 0 unless `floor` is False.

    Without the floor the process reward goes down to −0.08: the paper says −0.10, but any JSON object earns .02 for
    its format.
    """

    floor: bool = True

    def shares(self, components: Mapping[str, float], gates: Mapping[str, float]) -> dict[str, float]:
        """What each component adds to the total; "floor" is what the floor adds, where it does."""
        self._check_scored(components, gates)
        found = Rubric.shares(self, components, gates)
        total = sum(found.values())
        if self.floor and total < 0:
            found["floor"] = -total
        return found

    def total(self, components: Mapping[str, float], gates: Mapping[str, float]) -> float:
        """The combined reward. Raises ConfigError when it weighs a grounded component that was not scored."""
        total = 0.0
        gated = self.gated
        try:
            for name, weight in self.weights.items():
                share = weight * components[name]
                total += share * gates[gated[name]] if name in gated else share
        except KeyError:
            self._check_scored(components, gates)
            raise
        return 0.0 if self.floor and total < 0 else total

    def _check_scored(self, components: Mapping[str, float], gates: Mapping[str, float]) -> None:
        absent = [name for name in self.weights if name not in components]
        absent += [gate for gate in self.gated.values() if gate not in gates]
        if absent:
            raise ConfigError(
                f"rubric {self.name!r} weighs {', '.join(dict.fromkeys(absent))}, which the score does not hold; "
                "the grounded components need score_output(..., claim=, source=)"
            )

    def __reduce__(self) -> tuple[type[Rubric], tuple[object, ...]]:  # type: ignore[override]  # one field more
        return SevaRubric, (self.name, dict(self.weights), dict(self.gated), self.floor)


def split_rubric(process: int, *, grounded: bool = False) -> SevaRubric:
    """The split that gives `process` percent to the process components and the rest to the outcome.

    grounded: weigh the grounded components and the proper calibration, and count label, diagnosis and calibration only
    where the label follows from the output's own alignments and steps. Raises ConfigError when `process` is no whole number from 0 to 100.
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
"""The same weights over the grounded components and the proper calibration; ours, see `factgym.rewards.seva.grounding`."""

RUBRICS: Mapping[str, SevaRubric] = {
    rubric.name: rubric
    for rubric in (
        PROCESS,
        BINARY,
        GROUNDED,
        *(split_rubric(share) for share in range(90, 0, -10)),
        replace(BINARY, name="0/100"),
    )
}
"""The presets by name: process, binary, grounded, and the splits from 90/10 to 0/100 in steps of ten."""


def find_rubric(name: str, *, floor: bool = True, per_label: bool = False) -> SevaRubric:
    """A preset, or any other split ("65/35", "grounded-50/50"), with its options.

    floor: floor the total at 0, as the published reward does. per_label: weigh the diagnosis normalised by the gold
    label (`factgym.rewards.seva.score.by_label`) in place of R_d. An option that is not the default shows in the
    rubric's name and may be given in it: "process-by-label", "process-unfloored", "process-by-label-unfloored".
    Raises ConfigError for an unknown name.
    """
    given = name
    if given.endswith(_UNFLOORED):
        given, floor = given.removesuffix(_UNFLOORED), False
    if given.endswith(_BY_LABEL):
        given, per_label = given.removesuffix(_BY_LABEL), True
    found = RUBRICS.get(given) or _other_split(given)
    if found is None:
        raise ConfigError(
            f"there is no SEVA rubric {name!r:.80}.{did_you_mean(name, RUBRICS)} "
            f"Use {', '.join(RUBRICS)}, or a split such as '65/35'."
        )
    if per_label:
        found = _per_label(found)
    return found if floor else replace(found, name=found.name + _UNFLOORED, floor=False)


def _per_label(rubric: SevaRubric) -> SevaRubric:
    """The rubric over the normalised diagnosis; itself where it weighs none."""
    if "diagnosis" not in rubric.weights:
        return rubric
    weights = {_normalised(one): weight for one, weight in rubric.weights.items()}
    gated = {_normalised(one): gate for one, gate in rubric.gated.items()}
    return replace(rubric, name=rubric.name + _BY_LABEL, weights=weights, gated=gated)


def _other_split(name: str) -> SevaRubric | None:
    match = _SPLIT.fullmatch(name.removeprefix("grounded-"))
    if match is None or int(match[1]) + int(match[2]) != 100:
        return None
    return split_rubric(int(match[1]), grounded=name.startswith("grounded-"))


def _normalised(component: str) -> str:
    return "diagnosis_by_label" if component == "diagnosis" else component
