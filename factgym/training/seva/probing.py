"""Probe: as many adversarial claims of each category as were allocated, and what became of every one of them.

Rules make them, or a model proposes them; a judge then drops those that fail the cross-check. What a strategy could not
make is a shortfall, and it is reported, not made up for by another category: the allocation is the experiment.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.judges import Judge, judge_note
from factgym.core.seeds import derive
from factgym.datasets.attribution import ATTRIBUTABLE, AttributionClaim
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.probes import Probe, generate_probes, strategies_for
from factgym.training.seva.allocation import split_by_share
from factgym.training.seva.model_probes import PolicyProposer, Request, cross_check

PASSES = 4
"""How often the rules go through the claims with another seed, where one time did not give enough."""

Quotas = Mapping[str, Mapping[str, int]]
"""Source -> category -> how many probes are asked for."""


@dataclass(slots=True)
class Found:
    """What the Probe stage gave.

    kept: probes with the benchmark that their claims are from. dropped: rows for `dropped.jsonl`. made: source ->
    category -> probes before the cross-check. judged: what the cross-check says of itself.
    """

    kept: list[tuple[Probe, str]] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    made: dict[str, dict[str, int]] = field(default_factory=dict)
    judged: dict[str, Any] = field(default_factory=dict)

    def report(self, quotas: Quotas) -> dict[str, Any]:
        """Counts for people and for the round's metrics."""
        asked = sum(sum(one.values()) for one in quotas.values())
        made = sum(sum(one.values()) for one in self.made.values())
        short = {
            source: {name: n - self.made[source][name] for name, n in own.items() if self.made[source][name] < n}
            for source, own in quotas.items()
        }
        return {
            "asked": asked,
            "made": made,
            "kept": len(self.kept),
            "shortfall": {source: own for source, own in short.items() if own},
            "by_category": _counted(probe.error_type or "none" for probe, _ in self.kept),
            "by_strategy": _counted(probe.strategy for probe, _ in self.kept),
            "by_source": _counted(source for _, source in self.kept),
            "cross_check": self.judged,
        }

    def rows(self) -> list[dict[str, Any]]:
        """The kept probes for `probes.jsonl`."""
        return [{**probe.to_dict(), "benchmark": source} for probe, source in self.kept]


def quotas_of(counts: Mapping[str, int], shares: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Each category's probes over the sources in their shares, by largest remainder."""
    found: dict[str, dict[str, int]] = {source: {} for source in shares}
    for name, n in counts.items():
        for source, part in split_by_share(n, shares).items():
            found[source][name] = part
    return found


async def find_probes(
    quotas: Quotas,
    material: Mapping[str, Sequence[AttributionClaim]],
    judge: Judge,
    seed: int,
    *,
    proposer: PolicyProposer | None = None,
    limit: int | None = None,
) -> Found:
    """The probes of a round.

    material: source -> its claims. proposer: writes the probes in place of the rules. limit: how many may be kept; of
    more, a draw is dropped. Raises ConfigError for categories that do not exist and PolicyError for a fault of the
    infrastructure.
    """
    found = Found(made={source: dict.fromkeys(own, 0) for source, own in quotas.items()})
    made: list[tuple[Probe, str]] = []
    for source, own in quotas.items():
        pool = Pool(material[source])
        for name, n in own.items():
            if proposer is None:
                some = made_by_rules(material[source], name, n, derive(seed, source, name), pool)
            else:
                some = await _proposed(proposer, material[source], name, n, derive(seed, source, name), found)
            found.made[source][name] = len(some)
            made += [(probe, source) for probe in some]
    await _checked(made, judge, found)
    _limited(found, limit, seed)
    return found


def made_by_rules(items: Sequence[AttributionClaim], category: str, count: int, seed: int, pool: Pool) -> list[Probe]:
    """`count` different probes that aim at a category, fewer where the claims give no more."""
    order = [one for one in items if one.label == ATTRIBUTABLE]
    random.Random(f"factgym evolve probe order {seed}").shuffle(order)
    found: dict[tuple[str, str], Probe] = {}
    for turn in range(PASSES):
        before = len(found)
        for probe in (
            generate_probes(order, category, seed=derive(seed, "pass", turn), pool=pool) if len(found) < count else ()
        ):
            found.setdefault((probe.claim, probe.source), probe)
            if len(found) >= count:
                break
        if len(found) == before:
            break
    return list(found.values())[:count]


async def _proposed(
    proposer: PolicyProposer, items: Sequence[AttributionClaim], category: str, count: int, seed: int, found: Found
) -> list[Probe]:
    order = [one for one in items if one.label == ATTRIBUTABLE]
    rng = random.Random(f"factgym evolve proposals {seed}")
    rng.shuffle(order)
    strategies = strategies_for(category)
    requests = [
        Request(order[at % len(order)], rng.choice(strategies), category) for at in range(count if order else 0)
    ]
    said = await proposer.propose_many(requests)
    found.dropped += [
        {
            "stage": "proposer",
            "reason": one.cause,
            "detail": one.detail[:400],
            "of": one.request.item.id,
            "strategy": one.request.strategy,
            "error_type": category,
            "answer": one.answer,
        }
        for one in said.dropped
    ]
    return list(said.probes)


async def _checked(made: Sequence[tuple[Probe, str]], judge: Judge, found: Found) -> None:
    if not made:
        found.judged = {"judged": 0, "kept": 0, "drop_rate": 0.0, "note": judge_note(judge), "judge": judge.describe()}
        return
    filtered = await cross_check([probe for probe, _ in made], judge)
    kept = {id(probe) for probe in filtered.passed}
    found.kept = [(probe, source) for probe, source in made if id(probe) in kept]
    found.judged = filtered.to_dict()
    sources = {id(probe): source for probe, source in made}
    found.dropped += [
        {
            "stage": "cross-check",
            "reason": one.label,
            "detail": one.reason[:400],
            **one.probe.to_dict(),
            "benchmark": sources[id(one.probe)],
        }
        for one in filtered.rejected
    ]


def _limited(found: Found, limit: int | None, seed: int) -> None:
    """Cut to what the compared arm had, by lot, so that a control is not better for having had more."""
    if limit is None or len(found.kept) <= limit:
        return
    out = set(random.Random(f"factgym evolve limit {seed}").sample(range(len(found.kept)), len(found.kept) - limit))
    detail = f"the compared arm kept {limit}"
    found.dropped += [
        {"stage": "budget", "reason": "over", "detail": detail, **probe.to_dict(), "benchmark": source}
        for place, (probe, source) in enumerate(found.kept)
        if place in out
    ]
    found.kept = [one for place, one in enumerate(found.kept) if place not in out]


def _counted(names: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))
