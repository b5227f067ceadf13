"""How far the rules reach on a data set, and how many of what they make pass the checks: a table's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from factgym.generators.probes.base import STRATEGIES, ClaimLike, Probe, check_strategy
from factgym.generators.probes.checks import check_probe
from factgym.generators.probes.operators import attempt
from factgym.generators.probes.pool import Pool


@dataclass(frozen=True, slots=True)
class StrategyReport:
    """One strategy on one data set.

    claims: that could be changed (attributable ones, or all for probes that keep the label). made: probes before the
    checks. passed: of them, those without a fault. faults: how often each check failed ("changed", "fluent", "aims").
    errors: made probes by the error aimed at ("" for none). reasons: why there was none.
    """

    strategy: str
    keep: bool
    claims: int
    made: int
    passed: int
    faults: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def coverage(self) -> float:
        """The share of the claims on which the strategy gives a probe that passes; 0 without claims."""
        return self.passed / self.claims if self.claims else 0.0

    @property
    def pass_rate(self) -> float:
        """The share of the made probes that pass; 1 when none was made."""
        return self.passed / self.made if self.made else 1.0


def survey(
    items: Sequence[ClaimLike],
    *,
    seed: int = 0,
    pool: Pool | None = None,
    strategies: Iterable[str] = tuple(STRATEGIES),
    keep: bool = False,
) -> list[StrategyReport]:
    """Try each strategy on each claim, unchecked, and check what comes out. pool: by default the claims themselves.

    keep: probes that keep the label, of the strategies that have them. Raises ConfigError for an unknown strategy.
    """
    lent = pool or Pool(items)
    names = list(strategies)
    for name in names:
        check_strategy(name)
    return [_survey(items, name, seed, lent, keep) for name in names if not keep or None in STRATEGIES[name]]


def _survey(items: Sequence[ClaimLike], strategy: str, seed: int, pool: Pool, keep: bool) -> StrategyReport:
    faults: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    passed = 0
    for item in items:
        made = attempt(item, strategy, seed=seed, pool=pool, keep=keep, checked=False)
        if not isinstance(made, Probe):
            reasons[made.reason] += 1
            continue
        errors[made.error_type or ""] += 1
        wrong = {fault.partition(":")[0] for fault in check_probe(made)}
        faults.update(wrong)
        passed += not wrong
    claims = len(items) - reasons.pop("not_attributable", 0)
    return StrategyReport(
        strategy, keep, claims, sum(errors.values()), passed, dict(faults), dict(errors), dict(reasons)
    )
