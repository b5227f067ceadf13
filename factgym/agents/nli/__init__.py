"""Entailment and grounding models of transformers as agents of ClaimCheck and SEVA, `nli:FOLDER-OR-NAME`: the extra "local".

`scorer` loads a model and scores pairs of premise and claim; `policy` plays episodes with it.
"""

from factgym.agents.nli.policy import NliModel, SevaNliModel
from factgym.agents.nli.scorer import NliSettings

__all__ = ["NliModel", "NliSettings", "SevaNliModel"]
