"""Configuration of the ClaimCheck environments, and which splits each source has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from factgym.core.config import DataConfig
from factgym.core.errors import ConfigError
from factgym.rewards.claimcheck import COMPONENTS, DEFAULT_RULES, GATES, RUBRICS, QuoteRules
from factgym.rewards.rubric import Rubric

Source = Literal["mixed", "hard", "ood", "multihop", "docs", "contracts"]

_STREAM_OFFSET = 1_000_000_007


@dataclass(frozen=True, slots=True)
class Split:
    """A synthetic split: the generator's kind, the number of examples, and the seed stream."""

    kind: str
    size: int
    stream: int = 0

    def seed(self, seed: int) -> int:
        """Return the generator's seed; streams of one kind share no example."""
        return seed + self.stream * _STREAM_OFFSET


SYNTHETIC: Mapping[str, Mapping[str, Split]] = {
    "mixed": {
        "train": Split("train", 5000),
        "validation": Split("validation", 1000),
        "ood": Split("ood", 1000),
        "hard": Split("hard", 500),
        "multihop": Split("multihop", 500),
    },
    "hard": {"test": Split("hard", 500), "train": Split("hard", 5000, 1), "validation": Split("hard", 500, 2)},
    "ood": {"test": Split("ood", 1000)},
    "multihop": {
        "test": Split("multihop", 500),
        "train": Split("multihop", 5000, 1),
        "validation": Split("multihop", 500, 2),
    },
}
REAL: Mapping[str, tuple[str, ...]] = {"docs": ("test",), "contracts": ("dev",)}


class ClaimCheckConfig(DataConfig):
    """Settings of `claimcheck*`.

    source: origin of the examples. split: part of the data, by default the first of Splits. size: number of examples,
    all by default. path: the folder (`docs`) or file (`contracts`) of a source that is not generated. reward: "r0",
    "gated", "v2" or a `Rubric` over the same components. index: "bm25", "dense", "hybrid", "rank-bm25", or an object
    with `search(queries, k)`. index_options: arguments of the index. haystack: search the passages of the whole split
    rather than the episode's own. offline: all evidence is in the prompt and there is one submission. rules: the
    definition of a quote.
    """

    source: Source = "mixed"
    reward: str | Rubric = "v2"
    index: Any = "bm25"
    index_options: dict[str, Any] | None = None
    haystack: bool = False
    offline: bool = False
    rules: QuoteRules = DEFAULT_RULES

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other."""
        super().model_post_init(context)
        if self.offline and self.haystack:
            raise ConfigError("offline=True shows all evidence, so it cannot be combined with haystack=True")
        self.rubric.check(COMPONENTS, GATES)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be chosen; the first is the default."""
        if self.source == "mixed":
            return ("validation", "train", "ood", "hard", "multihop")
        return tuple(SYNTHETIC[self.source]) if self.source in SYNTHETIC else REAL[self.source]

    @property
    def scoring_rules(self) -> QuoteRules:
        """`rules`, with one passage as evidence of silence unless the instructions ask for more (see `env`)."""
        return self.rules if self.source == "contracts" else replace(self.rules, silence_passages=1)

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` names."""
        if isinstance(self.reward, Rubric):
            return self.reward
        if self.reward not in RUBRICS:
            raise ConfigError(f"there is no reward {self.reward!r}: use {', '.join(RUBRICS)} or a Rubric")
        return RUBRICS[self.reward]
