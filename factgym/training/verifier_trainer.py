"""The trainer of feature verifiers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.feature_verifier import FeatureVerifier, TrainingExample, extract_features, fine_tune
from factgym.core.errors import ConfigError, DataError
from factgym.envs.seva.scripted import NEGATIVE, parse_brief
from factgym.rewards.seva.output import read_output
from factgym.training.trainer import Dataset


class FeatureTrainer:
    """Fine-tunes a FeatureVerifier on chat lines: claim and source from the prompt, label and error from the verdict.

    pull: strength of the old weights, see `fine_tune`. Raises ConfigError for a pull that is not above 0.
    """

    identity = "factgym.agents.evolve.verifier.trainer.FeatureTrainer"

    def __init__(self, pull: float = 2.0) -> None:
        if not pull > 0:
            raise ConfigError(f"pull must be above 0, not {pull}")
        self.pull = pull

    def describe(self) -> dict[str, Any]:
        """Return its identity for a manifest."""
        return {"kind": "features", "pull": self.pull}

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Return the fine-tuned verifier. The optimum is unique, so that `seed` has no effect.

        Raises ConfigError for a model of another kind, DataError for lines without a verdict.
        """
        if not isinstance(model, FeatureVerifier):
            raise ConfigError(
                f"the trainer 'features' trains feature verifiers, not {type(model).__name__}: start from --agent "
                "features, or choose a trainer for your model"
            )
        weights = fine_tune(model.weights, list(training_examples(dataset)), pull=self.pull)
        weights.save(folder)
        return FeatureVerifier(weights)

    def load(self, folder: Path) -> Model:
        """Load the verifier in a folder."""
        return FeatureVerifier.load(folder)


def training_examples(dataset: Dataset) -> Iterator[TrainingExample]:
    """Yield the features and labels of the lines of a data set."""
    for number, row in enumerate(dataset.rows(), 1):
        yield _training_example(row, f"{dataset.path} line {number}")


def _training_example(row: Mapping[str, Any], where: str) -> TrainingExample:
    try:
        messages = row["messages"]
        brief = parse_brief(messages)
        output = read_output(messages[-1]["content"])
    except (KeyError, IndexError, TypeError, StopIteration):
        raise DataError(f"{where}: needs messages with a prompt and a verdict") from None
    if output is None or output.label is None:
        raise DataError(f"{where}: the last message holds no verdict with a label")
    negative = output.label == NEGATIVE
    # The verdict of a claim whose error is not known names "fabrication"; the line itself holds None.
    error_type = row.get("error_type", output.error_type) if negative else None
    return TrainingExample(extract_features(brief.claim, brief.source).values, negative, error_type)
