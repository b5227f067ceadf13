"""Adversarial probes: the six strategies of SEVA (appendix on adversarial data) as tables of operators.

A probe is a claim of a data set with one controlled change, the label that it has now, and the error aimed at. Only
attributable claims are made false: in a claim that is false already, the error of another change would be unknown. A
change that keeps the meaning keeps the label, whichever it is. The same arguments give the same probe.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from factgym.core.errors import ConfigError, did_you_mean
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim, Label
from factgym.generators.perturbations.additions import BORROWED_FACT, DETAIL, PRESUPPOSITION
from factgym.generators.perturbations.checks import aim_faults, changed_faults, fluency_faults
from factgym.generators.perturbations.entities import ENTITY
from factgym.generators.perturbations.grammar import split_claim
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.numbers import CLAIM_NUMBER, DECADE
from factgym.generators.perturbations.operator import NoEdit, Operator, Statement
from factgym.generators.perturbations.polarity import NEGATION
from factgym.generators.perturbations.rewording import REWORDING
from factgym.generators.perturbations.scope import UNIQUENESS, WIDENING

OPERATORS: Mapping[str, tuple[Operator, ...]] = {
    "entity_confusion": (ENTITY,),
    "numerical_perturb": (CLAIM_NUMBER,),
    "multi_hop_graft": (BORROWED_FACT, DECADE),
    "paraphrase": (NEGATION, WIDENING, REWORDING),
    "presupposition": (PRESUPPOSITION, UNIQUENESS),
    "unanswerable_wrap": (DETAIL,),
}
"""The operators of each strategy."""

STRATEGIES: Mapping[str, tuple[str | None, ...]] = {
    strategy: tuple(category for operator in operators for category in operator.categories)
    for strategy, operators in OPERATORS.items()
}
"""Each strategy with the errors that it can aim at; None is a probe that keeps its claim's label."""

MAX_CLAIM_CHARS = 4_000
"""Longer claims are left alone: no claim is so long, and the time of the rules grows faster than the text."""

_ON_QUESTIONS = frozenset({"entity_confusion", "numerical_perturb"})
"""Strategies that change a name or a number in any text, also in a question and in a short answer."""
_FIXED_ORDER = frozenset({"multi_hop_graft"})
"""Strategies whose operators are tried in their own order instead of a drawn one."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A claim with one change.

    claim: the changed text. gold_label: "Attributable" or "Not Attributable". error_type: the error aimed at, one of
    ERROR_TYPES, or None for a probe that is attributable. by: its author ("rules", or the description of a model).
    meta: small JSON data; "variant" names the rule.
    """

    id: str
    claim: str
    source: str
    original_claim: str
    gold_label: Label
    error_type: str | None
    strategy: str
    seed: int
    by: str = "rules"
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, keys in a fixed order."""
        return asdict(self) | {"meta": dict(self.meta)}

    def as_case(self) -> dict[str, str]:
        """The probe as a case of the rubric "probe-check"."""
        case = {"source": self.source, "probe": self.claim, "label": self.gold_label, "original": self.original_claim}
        return case | ({"error_type": self.error_type} if self.error_type else {})


def check_strategy(strategy: str, error_type: str | None = None) -> None:
    """Raise ConfigError for an unknown strategy, or for an error that it does not aim at."""
    if strategy not in STRATEGIES:
        hint = did_you_mean(str(strategy), list(STRATEGIES))
        raise ConfigError(f"there is no probe strategy {strategy!r}.{hint} There are: {', '.join(STRATEGIES)}.")
    if error_type is not None and error_type not in STRATEGIES[strategy]:
        aims = ", ".join(aim for aim in STRATEGIES[strategy] if aim)
        raise ConfigError(f"the strategy {strategy!r} does not aim at {error_type!r}. It aims at: {aims}.")


def strategies_for(error_type: str) -> tuple[str, ...]:
    """The strategies that aim at an error. Raises ConfigError for an error that is not in the taxonomy."""
    if error_type not in ERROR_TYPES:
        hint = did_you_mean(str(error_type), ERROR_TYPES)
        raise ConfigError(f"there is no error type {error_type!r}.{hint} There are: {', '.join(ERROR_TYPES)}.")
    return tuple(name for name, aims in STRATEGIES.items() if error_type in aims)


def check_probe(probe: Probe) -> tuple[str, ...]:
    """Faults of a probe, each as "check: detail"; empty when it passes every check.

    A false claim's rewrite keeps its label, too; only its author can know, so "keeps_label" of its meta counts.
    """
    keeps = probe.gold_label == ATTRIBUTABLE or bool(probe.meta.get("keeps_label"))
    faults = {
        "changed": changed_faults(probe.claim, probe.original_claim),
        "fluent": fluency_faults(probe.claim, probe.original_claim),
        "aims": aim_faults(
            probe.strategy, probe.error_type, probe.original_claim, probe.claim, probe.source, keeps=keeps
        ),
    }
    return tuple(f"{check}: {detail}" for check, details in faults.items() for detail in details)


def make_probe(
    item: AttributionClaim,
    strategy: str,
    *,
    seed: int = 0,
    pool: Pool | None = None,
    error_type: str | None = None,
    keep: bool = False,
    checked: bool = True,
) -> Probe | NoEdit:
    """Make a probe of a claim by the rules, or give the reason for none.

    error_type: only this error; None for any that the strategy aims at. keep: a probe that keeps the claim's label,
    for strategies that have them. checked: refuse a probe that `check_probe` faults. Raises ConfigError for an unknown
    strategy, for an error that it does not aim at, and for `keep` with a strategy or an error that cannot.
    """
    check_strategy(strategy, error_type)
    if keep and (None not in STRATEGIES[strategy] or error_type is not None):
        check_strategy(strategy, "a kept label" if error_type is None else f"{error_type} with a kept label")
    if not keep and item.label != ATTRIBUTABLE:
        return NoEdit("not_attributable", "the claim is false already")
    if len(item.claim) > MAX_CLAIM_CHARS:
        return NoEdit("too_long")
    parts = split_claim(item.claim)
    if parts.kind != "statement" and strategy not in _ON_QUESTIONS:
        return NoEdit(parts.kind)
    statement = Statement(
        parts.text,
        item.source,
        _rng(seed, item.id, strategy, error_type or "", keep),
        evidence=f"{item.source}\n{item.claim}",
        lead=parts.lead,
        label=item.label,
        error_type=item.error_type,
        aim=error_type,
        keeps=keep,
        pool=pool or Pool(),
    )
    fixed = keep or error_type is not None
    operators = [
        operator
        for operator in OPERATORS[strategy]
        if (error_type in operator.categories if fixed else any(operator.categories))
    ]
    if strategy not in _FIXED_ORDER:
        statement.rng.shuffle(operators)
    refusal = NoEdit()  # that of the last operator
    for operator in operators:
        edit = operator.propose(statement)
        if isinstance(edit, NoEdit):
            refusal = edit
            continue
        probe = Probe(
            id=f"{item.id}/{strategy}/{edit.variant}/{seed}",
            claim=parts.lead + edit.apply(parts.text),
            source=item.source,
            original_claim=item.claim,
            gold_label=ATTRIBUTABLE if keep and item.label == ATTRIBUTABLE else NOT_ATTRIBUTABLE,
            error_type=edit.error_type,
            strategy=strategy,
            seed=seed,
            meta={"variant": edit.variant, "of": item.id, "keeps_label": keep},
        )
        faults = check_probe(probe) if checked else ()
        if not faults:
            return probe
        refusal = NoEdit("refused", ", ".join(faults))
    return refusal


def _rng(seed: int, *names: object) -> random.Random:
    # A hash as the seed: streams of different claims and strategies are independent, and the same in every process.
    text = "\x1f".join(str(name) for name in (seed, "probe", *names))
    return random.Random(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def generate_probes(
    items: Iterable[AttributionClaim], error_type: str, *, seed: int = 0, pool: Pool | None = None
) -> Iterator[Probe]:
    """Probes that aim at an error, from the claims in order, at most one for each; its strategies in a drawn order."""
    names = sorted(name for name in STRATEGIES if error_type in STRATEGIES[name])
    for item in items:
        order = names.copy()
        _rng(seed, item.id, "order").shuffle(order)
        for name in order:
            probe = make_probe(item, name, seed=seed, pool=pool, error_type=error_type)
            if isinstance(probe, Probe):
                yield probe
                break


@dataclass(frozen=True, slots=True)
class StrategyReport:
    """One strategy on one data set.

    claims: number that could be changed (attributable ones, or all for probes that keep the label). generated: probes
    before the checks. passed: of them, those without a fault. reasons: why there was none.
    """

    strategy: str
    claims: int
    generated: int
    passed: int
    reasons: Mapping[str, int]

    @property
    def coverage(self) -> float:
        """The share of the claims on which the strategy gives a probe that passes; 0 without claims."""
        return self.passed / self.claims if self.claims else 0.0


def survey_strategies(items: Sequence[AttributionClaim], *, keep: bool = False) -> list[StrategyReport]:
    """Try each strategy on each claim, unchecked, with the claims as the pool, and check the probes.

    keep: probes that keep the label, of the strategies that have them.
    """
    pool = Pool(items)
    reports = []
    for name in (name for name, aims in STRATEGIES.items() if not keep or None in aims):
        attempts = [make_probe(item, name, pool=pool, keep=keep, checked=False) for item in items]
        probes = [probe for probe in attempts if isinstance(probe, Probe)]
        reasons: Counter[str] = Counter(refusal.reason for refusal in attempts if isinstance(refusal, NoEdit))
        claims = len(items) - reasons.pop("not_attributable", 0)
        passed = sum(not check_probe(probe) for probe in probes)
        reports.append(StrategyReport(name, claims, len(probes), passed, dict(reasons)))
    return reports
