"""The trainer of feature verifiers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.feature_verifier.features import look_at
from factgym.agents.feature_verifier.fitting import Lesson, fine_tune
from factgym.agents.feature_verifier.model import FeatureVerifier
from factgym.core.errors import ConfigError, DataError
from factgym.envs.seva.agents.script import NEGATIVE, read_brief
from factgym.rewards.seva import read_output
from factgym.training.trainer import Dataset


class FeatureTrainer:
    """Fine-tunes a FeatureVerifier on chat lines: claim and source from the prompt, label and error from the verdict.

    pull: how strongly the old weights hold, see `fine_tune`. Raises ConfigError for a pull that is not above 0.
    """

    def __init__(self, pull: float = 2.0) -> None:
        if not pull > 0:
            raise ConfigError(f"pull must be above 0, not {pull}")
        self.pull = pull

    def describe(self) -> dict[str, Any]:
        """What identifies it, for a manifest."""
        return {"kind": "features", "pull": self.pull}

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """The verifier after the data set. Raises ConfigError for a model of another kind, DataError for lines without a verdict.

        The optimum is unique, so that `seed` decides nothing.
        """
        if not isinstance(model, FeatureVerifier):
            raise ConfigError(
                f"the trainer 'features' trains feature verifiers, not {type(model).__name__}: start from --agent "
                "features, or choose a trainer for your model"
            )
        weights = fine_tune(model.weights, list(lessons(dataset)), pull=self.pull)
        weights.save(folder)
        return FeatureVerifier(weights)

    def load(self, folder: Path) -> Model:
        """The verifier in a folder."""
        return FeatureVerifier.load(folder)


def lessons(dataset: Dataset) -> Iterator[Lesson]:
    """What the lines of a data set teach."""
    for number, row in enumerate(dataset.rows(), 1):
        yield _lesson(row, f"{dataset.path} line {number}")


def _lesson(row: Mapping[str, Any], where: str) -> Lesson:
    try:
        messages = row["messages"]
        brief = read_brief(messages)
        output = read_output(messages[-1]["content"])
    except (KeyError, IndexError, TypeError, StopIteration):
        raise DataError(f"{where}: needs messages with a prompt and a verdict") from None
    if output is None or output.label is None:
        raise DataError(f"{where}: the last message holds no verdict with a label")
    negative = output.label == NEGATIVE
    # A target that does not know the error says fabrication for want of another; the line itself says None.
    known = row.get("error_type", output.error_type) if negative else None
    return Lesson(look_at(brief.claim, brief.source).values, negative, known)
