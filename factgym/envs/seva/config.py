"""Configuration of the SEVA environments, and which splits each source of claims has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from factgym.core.config import EnvConfig
from factgym.core.errors import ConfigError, did_you_mean
from factgym.generators.attribution import SPLITS
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva import find_rubric

Source = Literal["synthetic", "fever", "truthfulqa", "halueval", "clearfacts", "anli"]

REWARD = "grounded"
"""The reward by default; the card says why it is not the paper's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SevaConfig(EnvConfig):
    """Settings of `seva*`.

    source: where the claims come from. split: which part of generated claims ("validation", "train", "test", "ood");
    a file has "test" only. size: how many claims: of generated ones the first, of a file's a stratified slice drawn
    by `seed`, all by default. path: file or folder of a source that is not generated. reward: the name of a preset
    ("process", "grounded", "binary", "50/50" …) or a `Rubric` over the same components. repair: the first submission
    is a draft, which is answered with what was noticed, and the second one counts. max_source_chars: of a longer
    source the beginning is shown, and the cut is marked.
    """

    max_turns: int = 1
    source: Source = "synthetic"
    split: str | None = None
    size: int | None = None
    path: str | None = None
    reward: str | Rubric = REWARD
    repair: bool = False
    max_source_chars: int = 60_000

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        if self.split is not None and self.split not in self.splits:
            raise ConfigError(
                f"{self.source!r} has no split {self.split!r}.{did_you_mean(self.split, self.splits)} "
                f"It has: {', '.join(self.splits)}."
            )
        if self.size is not None and self.size < 1:
            raise ConfigError(f"size must be at least 1, not {self.size}")
        if self.max_source_chars < 1:
            raise ConfigError(f"max_source_chars must be at least 1, not {self.max_source_chars}")
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
    def chosen_split(self) -> str:
        """The split, with the default filled in."""
        return self.split or self.splits[0]

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` names. Raises ConfigError for a name that there is not."""
        return self.reward if isinstance(self.reward, Rubric) else find_rubric(self.reward)
