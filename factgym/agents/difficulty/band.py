"""Which numbers of right samples are kept, and how a pool of questions divides by them (CorVer's Table 11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from factgym.core.errors import ConfigError

SAMPLES = 16
"""G of the paper."""

SAMPLING: Mapping[str, Any] = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 512}
"""How the paper samples for its filter (A.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyBand:
    """What a question must be to be kept.

    samples: G, at least 2. low, high: kept when low <= n_correct <= high; high is G - 1 by default. anchors: how many
    questions that are always right (n_correct = G) are kept besides, drawn by `seed`; all of them where there are
    fewer. Which of two questions is drawn first does not depend on what else is in the pool.
    """

    samples: int = SAMPLES
    low: int = 1
    high: int | None = None
    anchors: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ConfigError(f"a group needs at least 2 samples, not {self.samples}")
        if not 0 <= self.low <= self.most <= self.samples:
            raise ConfigError(f"keep {self.low}:{self.most} is no range within 0:{self.samples}")
        if self.anchors < 0:
            raise ConfigError(f"anchors must be 0 or more, not {self.anchors}")
        if self.anchors and self.most == self.samples:
            raise ConfigError(f"keep {self.low}:{self.most} keeps every anchor already: leave the anchors out")

    @property
    def most(self) -> int:
        """The highest number of right samples that is kept."""
        return self.samples - 1 if self.high is None else self.high

    def holds(self, right: int) -> bool:
        """Whether a question with so many right samples is in the zone."""
        return self.low <= right <= self.most

    @classmethod
    def parse(cls, keep: str | None = None, *, samples: int = SAMPLES, anchors: int = 0, seed: int = 0) -> Self:
        """From `LOW:HIGH`, such as 1:15; by default 1 to G - 1. Raises ConfigError for other texts."""
        if keep is None:
            return cls(samples=samples, anchors=anchors, seed=seed)
        match = re.fullmatch(r"([0-9]{1,6}):([0-9]{1,6})", keep.strip())
        if match is None:
            raise ConfigError(f"what is kept is LOW:HIGH, such as 1:{samples - 1}, not {keep!r:.80}")
        return cls(samples=samples, low=int(match[1]), high=int(match[2]), anchors=anchors, seed=seed)

    def to_dict(self) -> dict[str, int]:
        """Plain JSON data."""
        return {
            "samples": self.samples,
            "low": self.low,
            "high": self.most,
            "anchors": self.anchors,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Buckets:
    """A pool of questions by how many of their samples are right.

    histogram: `histogram[c]` questions with exactly c right of G. retained: those whose c is kept. anchors: kept
    besides. incomplete: questions with fewer than G scored samples; they are in no bucket.
    """

    histogram: tuple[int, ...]
    retained: int
    anchors: int = 0
    incomplete: int = 0

    @property
    def never(self) -> int:
        """n_correct = 0."""
        return self.histogram[0]

    @property
    def always(self) -> int:
        """n_correct = G."""
        return self.histogram[-1]

    @property
    def between(self) -> int:
        """n_correct from 1 to G - 1: the learning zone."""
        return sum(self.histogram[1:-1])

    @property
    def pool(self) -> int:
        """Questions in the buckets, which is what the share kept is a share of."""
        return sum(self.histogram)

    @property
    def share(self) -> float | None:
        """The share of the pool that is retained, anchors apart; None for an empty pool."""
        return self.retained / self.pool if self.pool else None

    @property
    def solved(self) -> float | None:
        """The share of all samples that are right; None for an empty pool."""
        samples = len(self.histogram) - 1
        right = sum(count * n for count, n in enumerate(self.histogram))
        return right / (samples * self.pool) if self.pool else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "never": self.never,
            "between": self.between,
            "always": self.always,
            "pool": self.pool,
            "retained": self.retained,
            "share": self.share,
            "anchors": self.anchors,
            "incomplete": self.incomplete,
            "histogram": list(self.histogram),
        }
