"""The six strategies on one claim: choose a rule, change the text, and keep only what passes the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from factgym.generators.probes.additions import presuppose, single_out, wrap
from factgym.generators.probes.base import (
    ATTRIBUTABLE,
    NOT_ATTRIBUTABLE,
    STRATEGIES,
    ClaimLike,
    Draft,
    Label,
    NoProbe,
    Probe,
    check_strategy,
    rng_for,
)
from factgym.generators.probes.checks import check_probe
from factgym.generators.probes.entity import swap_entity
from factgym.generators.probes.graft import graft
from factgym.generators.probes.number import change_number
from factgym.generators.probes.pool import Pool
from factgym.generators.probes.rewording import negate, restate, widen
from factgym.generators.probes.work import Work

_ON_QUESTIONS = frozenset({"entity_confusion", "numerical_perturb"})
"""Strategies that change a name or a number wherever it stands, in a question and in a short answer, too."""

MAX_CLAIM_CHARS = 4_000
"""Longer claims are left alone: no claim is so long, and the time that the rules take grows faster than the text."""

Rule = Callable[[Work], Draft | NoProbe]


def attempt(
    item: ClaimLike,
    strategy: str,
    *,
    seed: int = 0,
    pool: Pool | None = None,
    error_type: str | None = None,
    keep: bool = False,
    checked: bool = True,
) -> Probe | NoProbe:
    """A probe made from a claim by the rules, or why there is none; the same for the same arguments.

    error_type: only this error; None for any that the strategy aims at. keep: a probe that keeps the claim's label,
    for strategies that have them. checked: refuse what `check_probe` faults. Raises ConfigError for an unknown
    strategy, for an error that it does not aim at, and for `keep` with a strategy or an error that cannot.
    """
    check_strategy(strategy, error_type)
    if keep and (None not in STRATEGIES[strategy] or error_type is not None):
        check_strategy(strategy, "a kept label" if error_type is None else f"{error_type} with a kept label")
    if not keep and item.label != ATTRIBUTABLE:
        return NoProbe("not_attributable", "the claim is false already")
    if len(item.claim) > MAX_CLAIM_CHARS:
        return NoProbe("too_long")
    rng = rng_for(seed, item.id, strategy, error_type or "", keep)
    work = Work(item.claim, item.source, item.label, item.error_type, pool or Pool(), rng)
    kind = work.body.kind
    if kind != "statement" and strategy not in _ON_QUESTIONS:
        return NoProbe("question" if kind == "question" else "fragment")
    why = NoProbe("no_place")
    for rule in _rules(strategy, error_type, keep, work):
        made = rule(work)
        if isinstance(made, NoProbe):
            why = made
            continue
        probe = _probe(item, made, strategy, seed, keep)
        faults = check_probe(probe) if checked else ()
        if not faults:
            return probe
        why = NoProbe("refused", ", ".join(faults))
    return why


def probe(
    item: ClaimLike,
    strategy: str,
    *,
    seed: int = 0,
    pool: Pool | None = None,
    error_type: str | None = None,
    keep: bool = False,
) -> Probe | None:
    """`attempt` without the reason."""
    made = attempt(item, strategy, seed=seed, pool=pool, error_type=error_type, keep=keep)
    return made if isinstance(made, Probe) else None


def probes(
    items: Iterable[ClaimLike],
    error_type: str,
    *,
    seed: int = 0,
    pool: Pool | None = None,
    strategies: Iterable[str] | None = None,
) -> Iterator[Probe]:
    """Probes that aim at an error, from the claims in order, at most one a claim; each claim's strategies in a drawn order."""
    names = [name for name in (strategies or STRATEGIES) if error_type in STRATEGIES[name]]
    for item in items:
        order = sorted(names)
        rng_for(seed, item.id, "order").shuffle(order)
        for name in order:
            made = attempt(item, name, seed=seed, pool=pool, error_type=error_type)
            if isinstance(made, Probe):
                yield made
                break


def _rules(strategy: str, error_type: str | None, keep: bool, work: Work) -> list[Rule]:
    if strategy == "entity_confusion":
        return [lambda work: swap_entity(work, error_type)]
    if strategy == "numerical_perturb":
        return [lambda work: change_number(work, error_type)]
    if strategy == "multi_hop_graft":
        aims = [error_type] if error_type or keep else ["fabrication", "temporal_shift"]
        return [_grafting(aim, keep) for aim in aims]
    if strategy == "unanswerable_wrap":
        return [wrap]
    if keep:
        return [restate]
    rules: dict[str, Rule] = (
        {"negation_flip": negate, "scope_inflation": widen}
        if strategy == "paraphrase"
        else {"fabrication": presuppose, "scope_inflation": single_out}
    )
    if error_type is not None:
        return [rules[error_type]]
    order = list(rules.values())
    work.rng.shuffle(order)
    return order


def _grafting(aim: str | None, keep: bool) -> Rule:
    return lambda work: graft(work, aim, keep)


def _probe(item: ClaimLike, draft: Draft, strategy: str, seed: int, keep: bool) -> Probe:
    label: Label = ATTRIBUTABLE if keep and item.label == ATTRIBUTABLE else NOT_ATTRIBUTABLE
    return Probe(
        id=f"{item.id}/{strategy}/{draft.variant}/{seed}",
        claim=draft.text,
        source=item.source,
        original_claim=item.claim,
        gold_label=label,
        error_type=draft.error_type,
        strategy=strategy,
        seed=seed,
        meta={"variant": draft.variant, "of": item.id, "keeps_label": keep},
    )
