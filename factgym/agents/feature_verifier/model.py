"""The feature verifier as a model: a policy that answers SEVA's prompt with a whole structured verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factgym.agents.feature_verifier.features import FEATURES, look_at
from factgym.agents.feature_verifier.weights import Weights, load_weights
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy
from factgym.envs.seva.agents.grounds import broken, carried, pairs, reading
from factgym.envs.seva.agents.script import NEGATIVE, POSITIVE, Brief, Script, Verdict, verdict

_SHOWN = 3
_PLACES = 4


class FeatureVerifier(Script):
    """Says what its weights make of the features; spans and steps are the sentences nearest to each part of the claim.

    weights: by default none are learned yet, and every claim is called attributable at a confidence of 1/2. It reads
    claim and source and no instructions, so that rules in the prompt cannot change it.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        self.weights = weights or Weights()

    @classmethod
    def load(cls, path: str | Path) -> FeatureVerifier:
        """From a file, or the folder that holds it. Raises DataError for a file that is no such model."""
        return cls(load_weights(Path(path)))

    def start(self, seed: int) -> Policy:
        """Itself: nothing is drawn by lot."""
        return self

    def describe(self) -> dict[str, Any]:
        """What identifies it, for a manifest."""
        return {
            "kind": "features",
            "model": "seva-feature-verifier",
            "features": len(FEATURES),
            "seen": self.weights.seen,
            "weights_sha256": self.weights.fingerprint(),
        }

    async def close(self) -> None:
        """Nothing to give back."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The verdict as the text of a completion."""
        return super().act(messages, tools)

    def verdict(self, brief: Brief) -> Verdict:
        """The verdict on a claim."""
        found = look_at(brief.claim, brief.source)
        negative = self.weights.negative(found.values)
        grounds = pairs(brief, reading(brief.source))
        if negative <= 0.5:
            return verdict(POSITIVE, round(1 - negative, _PLACES), *carried(grounds))
        wrong = found.wrong
        fix = f"Replace or remove “{(wrong or brief.claim)[:200]}”, as the source has it otherwise or not at all."
        told = broken(grounds, wrong, brief.source, f"Signs: {', '.join(self.signs(found.values))}.")
        return verdict(NEGATIVE, round(negative, _PLACES), *told, self.weights.error_type(found.values), fix)

    def signs(self, values: Any) -> list[str]:
        """The features that speak loudest against a claim, strongest first."""
        pushes = {name: self.weights.label[name] * values[name] for name in FEATURES}
        loud = sorted((name for name in FEATURES if pushes[name] > 0), key=lambda name: -pushes[name])
        return [name.replace("_", " ") for name in loud[:_SHOWN]]
