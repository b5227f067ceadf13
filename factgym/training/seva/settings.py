"""Settings of SEVA's loop, its experiment arms, and the benchmarks with their splits.

The paper's algorithm reads the weakness profile and the result off one held-out set. Here each benchmark has three
splits: "test" is measured and nothing else, failures in "reflect" make the profile and the rules, and probes and replay
are made from "material". Claims that share a source are in one split, so that no text is trained on and then tested.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from factgym.benchmarks.answers import group_by
from factgym.core.config import AtLeastOne, PromptStyle, Settings
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import make
from factgym.datasets.attribution import BENCHMARKS, AttributionClaim
from factgym.generators.attribution import SPLITS, MiniatureAttribution

GENERATED, MINIATURE = "generated", "miniature"
NAMES = (
    *BENCHMARKS,
    *(f"{GENERATED}-{split}" for split in SPLITS),
    *(f"{MINIATURE}-{split}" for split in MiniatureAttribution.SPLITS),
)
"""Benchmarks: the public ones, and the splits of generated claims, of which those of the miniature world have one passage
each for small models. Generated ones need no data."""

PUBLIC = ("clearfacts", "fever", "truthfulqa", "halueval")
"""The benchmarks of the paper's tables."""

EMBEDDED = ("generated-validation", "generated-ood")
"""The benchmarks that are measured without data."""

ARMS = ("weakness", "random", "mix", "claims")
"""weakness: the paper's loop. random: as many probes, of categories drawn uniformly. mix: probes from several sources.
claims: no probes, and as many claims of the source, drawn regardless of weakness, as the others have lines."""

_ALLOCATIONS: Mapping[str, Literal["random", "none"]] = {"random": "random", "claims": "none"}

Split = Literal["test", "reflect", "material"]
SHARES: Mapping[Split, Fraction] = {"test": Fraction(1, 2), "reflect": Fraction(1, 5), "material": Fraction(3, 10)}


@dataclass(frozen=True, slots=True)
class ExperimentArm:
    """One way to make probes. probes: allocated by weakness, at random, or none. shares: source -> share of the probes."""

    name: str
    probes: Literal["weakness", "random", "none"]
    shares: Mapping[str, Fraction]

    def describe(self) -> dict[str, Any]:
        """JSON data for a manifest."""
        return {"name": self.name, "probes": self.probes, "shares": _texts(self.shares)}


class EvolveSettings(Settings):
    """Settings of the loop.

    benchmarks: the measured ones. source: of probes and replay. mix: source -> share in the arm "mix"; empty for equal
    shares of the source and the benchmarks. budgets: B_k of round 1, 2, …; the last holds for later rounds. replay:
    replayed examples for each probe. balance: choose replay so that both labels are taught equally. rules: round 1 puts
    rules into the prompt and trains nothing; else it trains as later rounds do. keep_rules: the rules of round 1 stay in
    the instructions of later rounds. prompt: style of the prompts, "brief" for small models. warm_up: gold claims that
    the seed verifier is trained on first, 0 for none. warm_sources: their sources, by default `source`. size: claims of
    a benchmark at most. material: claims of a source at most. path: file or folder of public data. prior: accuracy of a
    category without episodes.
    """

    benchmarks: tuple[str, ...] = EMBEDDED
    source: str = "generated-train"
    mix: Mapping[str, Fraction] = Field(default_factory=dict)
    budgets: tuple[AtLeastOne, ...] = Field(default=(200,), min_length=1)
    replay: float = Field(default=1.0, ge=0)
    balance: bool = True
    rules: bool = True
    keep_rules: bool = True
    prompt: PromptStyle = "full"
    warm_up: int = Field(default=0, ge=0)
    warm_sources: tuple[str, ...] = ()
    size: AtLeastOne | None = None
    material: AtLeastOne = 1000
    path: str | None = None
    prior: Fraction = Field(default=Fraction(1, 2), ge=0, le=1)
    seed: int = 0

    def model_post_init(self, context: Any, /) -> None:
        """Check names and shares."""
        if not self.benchmarks:
            raise ConfigError("an evolution needs a benchmark to be measured on")
        if len(set(self.benchmarks)) < len(self.benchmarks):
            raise ConfigError("a benchmark is named twice")
        for name in (*self.benchmarks, self.source, *self.mix, *self.warm_sources):
            check_benchmark(name)
        shares = self.mix.values()
        if shares and (min(shares) < 0 or not any(shares)):
            raise ConfigError("shares must not be negative, and one above 0")

    def budget(self, number: int) -> int:
        """B_k of round `number`, from 1."""
        return self.budgets[min(number, len(self.budgets)) - 1]

    @property
    def mix_shares(self) -> Mapping[str, Fraction]:
        """The sources of the arm "mix" with their shares, in a fixed order."""
        return self.mix or dict.fromkeys((self.source, *self.benchmarks), Fraction(1))

    def arm(self, name: str) -> ExperimentArm:
        """An arm by name. Raises ConfigError for another."""
        if name not in ARMS:
            raise ConfigError(f"there is no arm {name!r}.{did_you_mean(name, ARMS)} There are: {', '.join(ARMS)}.")
        shares = self.mix_shares if name == "mix" else {self.source: Fraction(1)}
        return ExperimentArm(name, _ALLOCATIONS.get(name, "weakness"), shares)

    def describe(self) -> dict[str, Any]:
        """JSON data of everything but the path of the data, whose content has fingerprints."""
        return {
            **self.model_dump(exclude={"path"}),
            "mix": _texts(self.mix_shares),
            "warm_sources": self.warm_sources or (self.source,),
            "prior": str(self.prior),
        }


def _texts(shares: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(share) for name, share in shares.items()}


@dataclass(frozen=True)
class BenchmarkSplits:
    """One benchmark. env: over its tasks. indices: of the tasks of each split, ascending."""

    name: str
    env: Env[Any]
    indices: Mapping[Split, tuple[int, ...]]

    def tasks(self, split: Split) -> list[Any]:
        """The tasks of a split."""
        return [self.env.tasks[index] for index in self.indices[split]]

    def claims(self, split: Split) -> list[AttributionClaim]:
        """The claims of a split."""
        return [task.item for task in self.tasks(split)]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the tasks and the splits."""
        content = json.dumps([self.env.tasks.fingerprint(), {split: self.indices[split] for split in SHARES}])
        return hashlib.sha256(content.encode()).hexdigest()


def check_benchmark(name: str) -> None:
    """Raise ConfigError for an unknown benchmark."""
    if name not in NAMES:
        raise ConfigError(f"there is no benchmark {name!r}.{did_you_mean(name, NAMES)} There are: {', '.join(NAMES)}.")


def open_benchmark(
    name: str, *, path: str | None, size: int | None, seed: int, measured: bool = True, prompt: PromptStyle = "full"
) -> BenchmarkSplits:
    """Open a benchmark and split it.

    path: file or folder of a public one. size: claims at most. measured: False where all of it is "material". prompt:
    style of its environment. Raises ConfigError for an unknown name or too few claims, and DataError for unusable data.
    """
    check_benchmark(name)
    options: dict[str, Any] = {"seed": seed, "prompt": prompt, **({} if size is None else {"size": size})}
    kind, _, split = name.partition("-")
    if kind == GENERATED:
        env = make("seva", split=split, **options)
    elif kind == MINIATURE:
        env = make("seva", world="miniature", passages=1, split=split, **options)
    else:
        env = make(f"seva-{name}", **options, **({} if path is None else {"path": path}))
    total = len(env.tasks)
    if not measured:
        return BenchmarkSplits(name, env, {"test": (), "reflect": (), "material": tuple(range(total))})
    indices = split_claims([env.tasks[index].item for index in range(total)], seed)
    if not indices["test"] or not indices["reflect"]:
        raise ConfigError(f"{name!r} has {total} claims, too few to measure and to reflect on")
    return BenchmarkSplits(name, env, indices)


def split_claims(claims: Sequence[AttributionClaim], seed: int) -> dict[Split, tuple[int, ...]]:
    """Indices of the claims of each split, in the proportions of `SHARES`.

    A stratified split of groups: the claims of a source are one group, the set of its labels its stratum. Within a
    stratum the groups come in the order of a seeded hash, and each goes to the split that is furthest behind its share,
    so that every split is within one group of its share in every stratum.
    """
    groups = group_by(range(len(claims)), lambda index: claims[index].source)
    strata = group_by(groups, lambda source: tuple(sorted({claims[index].label for index in groups[source]})))

    def rank(source: str) -> str:
        return hashlib.sha256(f"factgym evolve parts {seed} {source}".encode("utf-8", "surrogatepass")).hexdigest()

    chosen: dict[Split, list[int]] = {split: [] for split in SHARES}
    for sources in strata.values():
        counts: dict[Split, int] = dict.fromkeys(SHARES, 0)
        total = 0
        for source in sorted(sources, key=rank):
            group = groups[source]
            total += len(group)
            behind = max(SHARES, key=lambda split: SHARES[split] * total - counts[split])
            counts[behind] += len(group)
            chosen[behind] += group
    return {split: tuple(sorted(indices)) for split, indices in chosen.items()}
