"""The constants of SEVA's rubric lines that a user may want to change; the defaults are the paper's (appendix C).

The points of each line (.3, .2, .1 …) are printed in equations 8 to 10 and are not settings: the weights of a rubric
are what one changes to shift them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from factgym.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SevaRules:
    """Bounds in characters, and the calibration term.

    min_span_chars, max_claim_span_chars, max_source_span_chars: equation 8's length points, both ends included.
    min_explanation_chars, min_evidence_chars: equation 9; an explanation of at least `min_brief_explanation_chars`
    earns .1 instead of .3. full_chain_steps, length_bonus: the bonus grows up to so many steps. min_fix_chars:
    equation 10. default_confidence: where none is given. calibration_gain, calibration_loss: equation 11.

    For the grounded components only: full_coverage is the share of the claim's content words that earns everything,
    full_grounded_steps the number of different steps that a chain needs (the teacher's prompt asks for two).
    Raises ConfigError for a value out of range.
    """

    min_span_chars: int = 3
    max_claim_span_chars: int = 200
    max_source_span_chars: int = 500
    min_explanation_chars: int = 10
    min_brief_explanation_chars: int = 3
    min_evidence_chars: int = 5
    min_fix_chars: int = 10
    full_chain_steps: int = 3
    length_bonus: float = 0.2
    default_confidence: float = 0.5
    calibration_gain: float = 0.15
    calibration_loss: float = 0.10
    full_coverage: float = 2 / 3
    full_grounded_steps: int = 2

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "int":
                if type(value) is not int or value < 1:
                    raise ConfigError(f"SevaRules.{one.name} must be a whole number of at least 1, not {value!r:.80}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ConfigError(f"SevaRules.{one.name} must be a finite number, not {value!r:.80}")
            elif not 0 <= value <= 1:
                raise ConfigError(f"SevaRules.{one.name} must lie between 0 and 1, not {value!r:.80}")
        if self.full_coverage == 0:
            raise ConfigError("SevaRules.full_coverage must be above 0")


DEFAULT_RULES = SevaRules()
