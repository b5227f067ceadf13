"""Reflect: what a verifier gets wrong, by the six categories of the error taxonomy.

SEVA "aggregates error diagnoses into a 6-bin weakness profile" and speaks of accuracy per category, without saying
which bin an episode falls into when its data set names no error type. Here it falls into the bin of

1. the gold error type, where the data names one;
2. else the error type that the verifier itself named: right where the claim is not attributable (a found error), wrong
   where it is (a false alarm);
3. else, for an error that was missed or an answer that names none, what `diagnose` says of claim and source. The
   default compares words, numbers and names by rules, and stands in for a model's diagnosis.

An attributable claim that was called so has no error and falls into no bin. An episode that the infrastructure ended is
left out. Right means the right label; whether the category was named as well is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from factgym.core.errors import ConfigError, DataError
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES

Diagnose = Callable[[str, str], str]
"""Claim and source -> the error type that the claim would have if it had one."""

PRIOR = Fraction(1, 2)

Case = tuple[str, bool, str]
"""The bin, whether the label was right, and by what it was binned: "gold", "said" or "rules"."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How often a verifier was right, by category.

    seen, right: episodes of each category. prior: the accuracy of a category without episodes. binned: how many
    episodes were binned by "gold", "said" and "rules". unbinned: right answers on attributable claims. unread: answers
    without a label.
    """

    seen: Mapping[str, int]
    right: Mapping[str, int]
    prior: Fraction = PRIOR
    binned: Mapping[str, int] | None = None
    unbinned: int = 0
    unread: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.prior <= 1:
            raise ConfigError(f"the prior accuracy must be from 0 to 1, not {self.prior}")

    @property
    def accuracy(self) -> dict[str, Fraction]:
        """α_t of each of the six categories, exactly."""
        return {
            name: Fraction(self.right.get(name, 0), self.seen[name]) if self.seen.get(name) else self.prior
            for name in ERROR_TYPES
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON data; accuracies as floats, and the counts from which they follow exactly."""
        return {
            "categories": {
                name: {"seen": self.seen.get(name, 0), "right": self.right.get(name, 0), "accuracy": float(value)}
                for name, value in self.accuracy.items()
            },
            "prior": str(self.prior),
            "binned": dict(self.binned or {}),
            "unbinned": self.unbinned,
            "unread": self.unread,
        }


def profile_from(data: Mapping[str, Any]) -> Profile:
    """A profile from the JSON data that `to_dict` gives. Raises DataError for anything else."""
    try:
        categories = data["categories"]
        return Profile(
            {name: int(categories[name]["seen"]) for name in ERROR_TYPES},
            {name: int(categories[name]["right"]) for name in ERROR_TYPES},
            Fraction(data["prior"]),
            dict(data["binned"]),
            int(data["unbinned"]),
            int(data["unread"]),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DataError(f"no weakness profile: {type(error).__name__}: {error}") from None


def profile_of(
    episodes: Iterable[Mapping[str, Any]], *, diagnose: Diagnose | None = None, prior: Fraction = PRIOR
) -> Profile:
    """The profile of the episodes of SEVA runs (any number of benchmarks together)."""
    seen: Counter[str] = Counter()
    right: Counter[str] = Counter()
    binned: Counter[str] = Counter()
    unbinned = unread = 0
    for episode in episodes:
        metrics = facts_of(episode)
        if metrics is None:
            continue
        unread += metrics.get("verdict") is None
        found = case_of(episode, metrics, diagnose or diagnose_by_rules)
        if found is None:
            unbinned += 1
            continue
        name, was_right, by = found
        seen[name] += 1
        right[name] += was_right
        binned[by] += 1
    ordered = {by: binned[by] for by in ("gold", "said", "rules")}
    return Profile(
        {name: seen[name] for name in ERROR_TYPES},
        {name: right[name] for name in ERROR_TYPES},
        prior,
        ordered,
        unbinned,
        unread,
    )


def facts_of(episode: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The metrics of an episode that counts; None for one that the infrastructure ended or that was not scored."""
    reward = episode.get("reward") or {}
    if episode.get("error") is not None or reward.get("status") != "scored":
        return None
    metrics = reward.get("metrics")
    return metrics if isinstance(metrics, Mapping) and "gold_verdict" in metrics else None


def case_of(episode: Mapping[str, Any], metrics: Mapping[str, Any], diagnose: Diagnose) -> Case | None:
    """Where an episode is binned; None for an attributable claim that was called so, or about which nothing was said."""
    gold, said = metrics["gold_verdict"], metrics.get("verdict")
    if gold == ATTRIBUTABLE and (said is None or said == gold):
        return None
    known = metrics.get("gold_error_type")
    if known in ERROR_TYPES:
        return known, said == gold, "gold"
    named = metrics.get("error_type")
    if said is not None and said != ATTRIBUTABLE and named in ERROR_TYPES:
        return named, said == gold, "said"
    return diagnose(*texts_of(episode)), said == gold, "rules"


def texts_of(episode: Mapping[str, Any]) -> tuple[str, str]:
    """Claim and source, as the verifier was shown them."""
    from factgym.envs.seva.scripted import parse_brief

    brief = parse_brief(episode["messages"])
    return brief.claim, brief.source


def diagnose_by_rules(claim: str, source: str) -> str:
    """The category of what differs between a claim and the sentences nearest to it: a stand-in for a diagnosis."""
    from factgym.baselines.evidence import parse_statement, select_sentences
    from factgym.envs.seva.agents import classify_error
    from factgym.envs.seva.scripted import source_evidence

    evidence, statement = source_evidence(source), parse_statement(claim)
    return classify_error(statement, select_sentences(evidence, statement), "unsupported")
