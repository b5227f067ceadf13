"""Probe: adversarial claims of each category in the allocated numbers, and the fate of every one of them.

Rules make them or a model proposes them; a judge then drops those that fail the cross-check. A probe passes only if the
judge finds it fluent, its label right and decidable, and its error the one aimed at; the paper drops some 15 % so. A
strategy that cannot make enough leaves a shortfall, which is reported and not made up for by another category. Of a
source whose generator makes each error, its own claims can take the place of probes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from factgym.agents.judges.base import Judge, JudgeError, judge_note
from factgym.core.apportion import apportion
from factgym.core.messages import Usage
from factgym.core.policy import add_usage
from factgym.core.seeds import derive
from factgym.datasets.attribution import ATTRIBUTABLE, AttributionClaim
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.probes import Probe, generate_probes, strategies_for
from factgym.training.seva.proposer import MAX_DETAIL_CHARS, DroppedRequest, PolicyProposer, ProbeRequest

PASSES = 4
"""How often the rules go through the claims, each time with another seed, until there are enough probes."""

_CONCURRENCY = 8
_PASSING_SCORE = 1.0

Quotas = Mapping[str, Mapping[str, int]]
"""Source -> category -> number of requested probes."""

Claims = Mapping[str, Sequence[AttributionClaim]]
"""Source -> its claims."""


@dataclass(slots=True)
class ProbeBatch:
    """The probes of a round.

    probes: those that passed, each with the source of its claim. dropped: rows for `dropped.jsonl`. made: source ->
    category -> probes before the cross-check. cross_check: its counts.
    """

    probes: list[tuple[Probe, str]] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    made: dict[str, dict[str, int]] = field(default_factory=dict)
    cross_check: dict[str, Any] = field(default_factory=dict)

    def report(self, quotas: Quotas) -> dict[str, Any]:
        """Counts for people and for the metrics of the round."""
        shortfall = {
            source: missing
            for source, counts in quotas.items()
            if (missing := dict(Counter(counts) - Counter(self.made[source])))
        }
        return {
            "asked": sum(sum(counts.values()) for counts in quotas.values()),
            "made": sum(sum(counts.values()) for counts in self.made.values()),
            "kept": len(self.probes),
            "shortfall": shortfall,
            "by_category": _counts(probe.error_type or "none" for probe, _ in self.probes),
            "by_strategy": _counts(probe.strategy for probe, _ in self.probes),
            "by_source": _counts(source for _, source in self.probes),
            "cross_check": self.cross_check,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Rows for `probes.jsonl`."""
        return [{**probe.to_dict(), "benchmark": source} for probe, source in self.probes]


def quotas_by_source(counts: Mapping[str, int], shares: Mapping[str, Fraction]) -> dict[str, dict[str, int]]:
    """The probes of each category over the sources in their shares, by largest remainder."""
    quotas: dict[str, dict[str, int]] = {source: {} for source in shares}
    for category, n in counts.items():
        for source, part in apportion(n, shares).items():
            quotas[source][category] = part
    return quotas


async def make_probes(
    quotas: Quotas,
    claims: Claims,
    judge: Judge,
    seed: int,
    *,
    proposer: PolicyProposer | Literal["claims"] | None = None,
    limit: int | None = None,
) -> ProbeBatch:
    """Make and cross-check the probes of a round.

    proposer: writes the probes in place of the rules; "claims" draws them by `probes_from_claims`, and nothing is judged.
    limit: of the probes that pass; above it, probes are dropped at random, so that a control does not have more than the
    reference arm. Raises ConfigError for unknown categories and PolicyError for a fault of the infrastructure.
    """
    batch = ProbeBatch()
    made: list[tuple[Probe, str]] = []
    for source, counts in quotas.items():
        batch.made[source] = {}
        pool = Pool(claims[source])
        for category, n in counts.items():
            category_seed = derive(seed, source, category)
            proposals: Sequence[Probe | DroppedRequest]
            if proposer is None:
                proposals = probes_by_rules(claims[source], category, n, category_seed, pool)
            elif proposer == "claims":
                proposals = probes_from_claims(claims[source], category, n, category_seed)
            else:
                proposals = await proposer.propose_many(probe_requests(claims[source], category, n, category_seed))
            probes = [proposal for proposal in proposals if isinstance(proposal, Probe)]
            batch.dropped += [drop.to_dict() for drop in proposals if isinstance(drop, DroppedRequest)]
            batch.made[source][category] = len(probes)
            made += [(probe, source) for probe in probes]
    judged = [] if proposer == "claims" else [probe for probe, _ in made]
    rejections, batch.cross_check = await cross_check(judged, judge)
    rejections = rejections or [None] * len(made)

    def drop(stage: str, reason: str, detail: str, probe: Probe, source: str) -> None:
        header = {"stage": stage, "reason": reason, "detail": detail[:MAX_DETAIL_CHARS]}
        batch.dropped.append({**header, **probe.to_dict(), "benchmark": source})

    for (probe, source), rejection in zip(made, rejections, strict=True):
        if rejection is None:
            batch.probes.append((probe, source))
        else:
            drop("cross-check", *rejection, probe, source)
    if limit is not None and len(batch.probes) > limit:
        excess = len(batch.probes) - limit
        surplus = set(random.Random(f"factgym evolve limit {seed}").sample(range(len(batch.probes)), excess))
        for index in sorted(surplus):
            drop("budget", "over", f"the compared arm kept {limit}", *batch.probes[index])
        batch.probes = [pair for index, pair in enumerate(batch.probes) if index not in surplus]
    return batch


def probes_by_rules(items: Sequence[AttributionClaim], category: str, count: int, seed: int, pool: Pool) -> list[Probe]:
    """Make `count` different probes that aim at a category, fewer where the claims give no more."""
    order = [item for item in items if item.label == ATTRIBUTABLE]
    random.Random(f"factgym evolve probe order {seed}").shuffle(order)
    probes: dict[tuple[str, str], Probe] = {}
    # Each pass perturbs every claim with another seed; a pass that adds nothing shows that there is no more to find.
    for number in range(PASSES if count else 0):
        before = len(probes)
        for probe in generate_probes(order, category, seed=derive(seed, "pass", number), pool=pool):
            probes.setdefault((probe.claim, probe.source), probe)
            if len(probes) == count:
                return list(probes.values())
        if len(probes) == before:
            break
    return list(probes.values())


def probes_from_claims(items: Sequence[AttributionClaim], category: str, count: int, seed: int) -> list[Probe]:
    """Draw `count` claims with an error as probes, fewer where there are no more; their labels and errors are gold."""
    order = [item for item in items if item.error_type == category]
    random.Random(f"factgym evolve claims {seed}").shuffle(order)
    return [
        Probe(item.id, item.claim, item.source, item.claim, item.label, category, "claim", seed, "the source", gold)
        for item in order[:count]
        for gold in [{"of": item.id, **item.meta}]
    ]


def probe_requests(items: Sequence[AttributionClaim], category: str, count: int, seed: int) -> list[ProbeRequest]:
    """Requests for a proposer: `count` attributable claims in a random order, each with a strategy for the category."""
    order = [item for item in items if item.label == ATTRIBUTABLE]
    rng = random.Random(f"factgym evolve proposals {seed}")
    rng.shuffle(order)
    strategies = strategies_for(category)
    return [ProbeRequest(order[i % len(order)], rng.choice(strategies), category) for i in range(count if order else 0)]


async def cross_check(
    probes: Sequence[Probe], judge: Judge, concurrency: int = _CONCURRENCY
) -> tuple[list[tuple[str, str] | None], dict[str, Any]]:
    """Judge every probe by the rubric "probe-check".

    Returns the label and reason of each rejected probe, None where it passed, and a report: counts, the judge, and a
    note that says when no model judged. A probe without a judgement is rejected under the error's cause. Raises
    ConfigError for a judge with other fields, and PolicyError for a fault of the infrastructure.
    """
    judgements = await judge.judge_many([probe.as_case() for probe in probes], concurrency)
    rejections: list[tuple[str, str] | None] = []
    usage = Usage()
    for judgement in judgements:
        if isinstance(judgement, JudgeError):
            rejections.append((judgement.cause, str(judgement)))
            continue
        add_usage(usage, judgement.usage)
        passes = judgement.score >= _PASSING_SCORE
        rejections.append(None if passes else (judgement.label, judgement.reason or ""))
    rejected = [rejection for rejection in rejections if rejection is not None]
    judged = Counter(probe.strategy for probe in probes)
    dropped = Counter(
        probe.strategy for probe, rejection in zip(probes, rejections, strict=True) if rejection is not None
    )
    report = {
        "judged": len(probes),
        "kept": len(probes) - len(rejected),
        "drop_rate": len(rejected) / len(probes) if probes else 0.0,
        "reasons": _counts(label for label, _ in rejected),
        "by_strategy": {name: dropped[name] / judged[name] for name in sorted(judged)},
        "judge": judge.describe(),
        "note": judge_note(judge),
        "usage": dict(usage),
    }
    return rejections, report


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
