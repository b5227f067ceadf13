"""What an EVE evolution is told: passages, how both phases draw, and the rewards (sections 3.3, 3.4 and appendix C)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from factgym.core.errors import ConfigError
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules

Draw = Literal["uniform", "selector"]
DRAWS: tuple[Draw, ...] = ("uniform", "selector")


@dataclass(frozen=True, slots=True, kw_only=True)
class EveSettings:
    """Settings of the two phases; how many iterations each has is told to `run`.

    passages: file or folder that `read_passages` opens; None for a generated world. layout: of that file. size:
    passages at most, or how large the generated world is; None for all, or its default. index, index_options: of the
    search tool. held_out: share of the passages, chosen by a hash of their ids, that the proposer is not trained on
    and writes the solver's data set from.

    batch: proposer rollouts of an iteration, a passage each. hop_weights: how often 1, 2, 3 … hops are asked for. draw:
    "uniform", or "selector" for the corpus selector, whose settings are `selector` (see `SelectorSettings`).

    prompts: passages of the held-out shard that the data set is written from; None for all. samples: rollouts of each.
    min_value: least V of a row; None keeps every valid row, as the paper does. rows: rows that an iteration of the
    solver plays. group: episodes of each.

    n, m: searching answers, and search-disabled ones each way, that score a proposal. value: how V is found, "sampling"
    or "logprob". reward, solver_reward: names of rewards; None for each environment's own.
    """

    passages: str | None = None
    layout: str = "auto"
    size: int | None = None
    index: str = "bm25"
    index_options: Mapping[str, Any] = field(default_factory=dict)
    held_out: float = 0.2
    batch: int = 64
    hop_weights: tuple[float, ...] = DEFAULT_RULES.hop_weights
    draw: Draw = "uniform"
    selector: Mapping[str, Any] = field(default_factory=dict)
    prompts: int | None = 128
    samples: int = 5
    min_value: float | None = None
    rows: int = 64
    group: int = 5
    n: int = 5
    m: int = 5
    value: str = "sampling"
    reward: str | None = None
    solver_reward: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _check(0 < self.held_out < 1, f"the held-out share must be above 0 and below 1, not {self.held_out}")
        _check(self.draw in DRAWS, f"documents are drawn by {' or '.join(DRAWS)}, not {self.draw!r}")
        EveRules(n=self.n, m=self.m, hop_weights=self.hop_weights)
        for name in ("batch", "samples", "rows", "size", "prompts"):
            value = getattr(self, name)
            _check(value is None or value >= 1, f"{name} must be at least 1, not {value}")
        _check(self.group >= 2, f"a group has at least two episodes to compare, not {self.group}")
        _check(
            self.min_value is None or -1 <= self.min_value <= 1,
            f"V lies from -1 to 1, so the least V cannot be {self.min_value}",
        )

    def drawn_hops(self, count: int, seed: int) -> list[int]:
        """`count` independent hop counts in the ratio of the weights."""
        return random.Random(seed).choices(range(1, len(self.hop_weights) + 1), weights=self.hop_weights, k=count)

    def describe(self) -> dict[str, Any]:
        """Everything but the path of the passages, whose content has a fingerprint, as JSON data."""
        found = asdict(self)
        del found["passages"], found["layout"]
        return {**found, "source": "generated" if self.passages is None else "passages"}


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConfigError(otherwise)
