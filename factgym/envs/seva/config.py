"""Configuration of the SEVA environments, and which splits each source of claims has."""

from __future__ import annotations

from typing import Any, Literal

from factgym.core.config import AtLeastOne, DataConfig
from factgym.core.errors import ConfigError
from factgym.generators.attribution import SPLITS
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.rubrics import find_rubric

Source = Literal["synthetic", "fever", "truthfulqa", "halueval", "clearfacts", "anli"]

REWARD = "grounded"
"""The default reward; the card explains why it is not the paper's own."""


class SevaConfig(DataConfig):
    """Settings of `seva*`.

    source: origin of the claims. split: part of generated claims ("validation", "train", "test", "ood"); a file has
    "test" only. size: number of claims: of generated ones the first, of a file's a stratified slice drawn by `seed`,
    all by default. path: file or folder of a source that is not generated. reward: the name of a preset ("process",
    "grounded", "binary", "50/50" …) or a `Rubric` over the same components. repair: the first submission is a draft,
    which is answered with a review, and the second one counts. max_source_chars: a longer source is cut there, with a
    mark.
    """

    max_turns: AtLeastOne = 1
    source: Source = "synthetic"
    reward: str | Rubric = REWARD
    repair: bool = False
    max_source_chars: AtLeastOne = 60_000

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other."""
        super().model_post_init(context)
        if self.source == "synthetic" and self.path is not None:
            raise ConfigError("generated claims have no path: use seva-fever or another environment over files")
        _ = self.rubric

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be chosen; the first is the default."""
        if self.source != "synthetic":
            return ("test",)
        return ("validation", *(split for split in SPLITS if split != "validation"))

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` names. Raises ConfigError for an unknown name."""
        return self.reward if isinstance(self.reward, Rubric) else find_rubric(self.reward)
