"""Reflect: from failures to a weakness profile, to probes of each category, and to rules for the prompt.

SEVA "aggregates error diagnoses into a 6-bin weakness profile", without saying which bin an episode falls into when its
data set names no error type; `diagnose` says how it is chosen here. Weights and counts (lines 5 to 9 of Algorithm 2) are
computed in fractions, because the ceiling of a float depends on its rounding: 0.1 of 30 is 3 and not 4."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, get_args

from factgym.baselines.evidence import parse_statement, select_sentences
from factgym.core.errors import DataError
from factgym.core.prompts import fill, prompt
from factgym.core.strict_json import clean_text
from factgym.core.untrusted import neutralise, nonce_of
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES
from factgym.envs.seva.agents import classify_error, parse_brief, source_evidence

Episode = Mapping[str, Any]
Basis = Literal["gold", "said", "rules"]

PRIOR = Fraction(1, 2)
_BRACES = str.maketrans("{}", "❴❵")
MAX_CLAIM_CHARS, MAX_SOURCE_CHARS = 240, 360
MAX_CATEGORIES, MAX_EXAMPLES = 6, 2


class Diagnosis(NamedTuple):
    """The bin of an episode. correct: whether the label was. basis: the source of the category."""

    category: str
    correct: bool
    basis: Basis


@dataclass(frozen=True, slots=True)
class Profile:
    """The accuracy of a verifier by category.

    episodes, correct: counts by category. prior: the accuracy of a category without episodes. binned: number of
    episodes by the basis of their category. unbinned: correct answers on attributable claims. unread: answers without
    a label.
    """

    episodes: Mapping[str, int]
    correct: Mapping[str, int]
    prior: Fraction = PRIOR
    binned: Mapping[str, int] = field(default_factory=dict)
    unbinned: int = 0
    unread: int = 0

    @property
    def accuracy(self) -> dict[str, Fraction]:
        """α_t of each of the six categories, exactly."""
        return {
            name: Fraction(self.correct.get(name, 0), self.episodes[name]) if self.episodes.get(name) else self.prior
            for name in ERROR_TYPES
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON data; accuracies as floats, and the counts from which they follow exactly."""
        categories = {
            name: {"seen": self.episodes.get(name, 0), "right": self.correct.get(name, 0), "accuracy": float(value)}
            for name, value in self.accuracy.items()
        }
        return {
            "categories": categories,
            "prior": str(self.prior),
            "binned": dict(self.binned),
            "unbinned": self.unbinned,
            "unread": self.unread,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Profile:
        """Read the data of `to_dict`. Raises DataError for other data."""
        try:
            episodes, correct = (
                {name: int(data["categories"][name][key]) for name in ERROR_TYPES} for key in ("seen", "right")
            )
            counts = (int(data["unbinned"]), int(data["unread"]))
            return cls(episodes, correct, Fraction(data["prior"]), dict(data["binned"]), *counts)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise DataError(f"no weakness profile: {type(error).__name__}: {error}") from None


def profile_of(episodes: Iterable[Episode], *, prior: Fraction = PRIOR) -> Profile:
    """The profile of the episodes of SEVA runs, of any number of benchmarks together."""
    scored = [(metrics, diagnose(episode, metrics)) for episode, metrics in scored_episodes(episodes)]
    diagnoses = [diagnosis for _, diagnosis in scored if diagnosis is not None]
    total, correct, binned = (
        Counter(diagnosis.category for diagnosis in diagnoses),
        Counter(diagnosis.category for diagnosis in diagnoses if diagnosis.correct),
        Counter(diagnosis.basis for diagnosis in diagnoses),
    )
    return Profile(
        {name: total[name] for name in ERROR_TYPES},
        {name: correct[name] for name in ERROR_TYPES},
        prior,
        {basis: binned[basis] for basis in get_args(Basis)},
        unbinned=len(scored) - len(diagnoses),
        unread=sum(metrics.get("verdict") is None for metrics, _ in scored),
    )


def scored_episodes(episodes: Iterable[Episode]) -> Iterator[tuple[Episode, Mapping[str, Any]]]:
    """The episodes that were scored, with their metrics: none that the infrastructure ended."""
    for episode in episodes:
        reward = episode.get("reward") or {}
        metrics = reward.get("metrics") or {}
        if episode.get("error") is None and reward.get("status") == "scored" and "gold_verdict" in metrics:
            yield episode, metrics


def diagnose(episode: Episode, metrics: Mapping[str, Any]) -> Diagnosis | None:
    """The bin of an episode; None for an attributable claim that was called so, or whose answer has no label.

    The gold error type, else the type that the verifier named, correct where the claim is not attributable, else that of
    `classify_by_rules`. Correct means the right label, whether or not the category was named as well.
    """
    gold, verdict = metrics["gold_verdict"], metrics.get("verdict")
    correct = verdict == gold
    if gold == ATTRIBUTABLE and (verdict is None or correct):
        return None
    if (gold_type := metrics.get("gold_error_type")) in ERROR_TYPES:
        return Diagnosis(gold_type, correct, "gold")
    if verdict not in (None, ATTRIBUTABLE) and (predicted := metrics.get("error_type")) in ERROR_TYPES:
        return Diagnosis(predicted, correct, "said")
    brief = parse_brief(episode["messages"])
    return Diagnosis(classify_by_rules(brief.claim, brief.source), correct, "rules")


def classify_by_rules(claim: str, source: str) -> str:
    """The category of the difference between a claim and the nearest sentences; a fallback for a model's diagnosis."""
    evidence, statement = source_evidence(source), parse_statement(claim)
    return classify_error(statement, select_sentences(evidence, statement), "unsupported")


# Allocation: w_t = (1 - α_t) / Σ(1 - α_t') and n_t = ⌈w_t · B⌉ (Algorithm 2).


def weakness_weights(accuracy: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """w_t, which sum to 1; uniform where every α_t is 1."""
    weakness = {name: 1 - Fraction(value) for name, value in accuracy.items()}
    total = sum(weakness.values())
    if not total:
        return dict.fromkeys(weakness, Fraction(1, len(weakness)))
    return {name: value / total for name, value in weakness.items()}


def ceiling_allocation(weights: Mapping[str, Fraction], budget: int) -> dict[str, int]:
    """n_t of each category. Their sum is at least B and below B plus the number of categories."""
    return {name: math.ceil(weight * budget) for name, weight in weights.items()}


def random_allocation(total: int, seed: int) -> dict[str, int]:
    """`total` probes over the six categories, each drawn uniformly, for the control."""
    rng = random.Random(f"factgym evolve random probes {seed}")
    drawn = Counter(rng.choice(ERROR_TYPES) for _ in range(total))
    return {name: drawn[name] for name in ERROR_TYPES}


# Rules: round 1 changes no parameter. Each weak category gives one rule of fixed words, weakest first, with failures of
# the verifier as examples. Their texts come from data sets and are untrusted.


@dataclass(frozen=True, slots=True)
class Failure:
    """A wrong verdict. missed: an error was not detected; else a false alarm."""

    claim: str
    source: str
    missed: bool


def failures_of(episodes: Iterable[Episode]) -> dict[str, list[Failure]]:
    """The failures of each category, in the order of the episodes."""
    failures: dict[str, list[Failure]] = defaultdict(list)
    for episode, metrics in scored_episodes(episodes):
        diagnosis = diagnose(episode, metrics)
        if diagnosis is not None and not diagnosis.correct:
            brief, missed = parse_brief(episode["messages"]), metrics["gold_verdict"] != ATTRIBUTABLE
            failures[diagnosis.category].append(Failure(brief.claim, brief.source, missed))
    return dict(failures)


def write_rules(profile: Profile, weights: Mapping[str, Fraction], failures: Mapping[str, Sequence[Failure]]) -> str:
    """The rules as text for the end of a system message; empty without a failure.

    Each category shows up to two examples: a missed error and a false alarm in turns, the shortest first.
    """
    weak = sorted((name for name in weights if failures.get(name)), key=lambda name: -weights[name])
    lines = [prompt(__package__, "rules")] if weak else []
    for name in weak[:MAX_CATEGORIES]:
        counts = {"right": profile.correct.get(name, 0), "seen": profile.episodes.get(name, 0)}
        texts = {key: str(count) for key, count in counts.items()}
        lines.append(fill(prompt(__package__, "rule"), name=name, rule=prompt(__package__, name), **texts))
        ordered = sorted(failures[name], key=lambda failure: (len(failure.claim) + len(failure.source), failure.claim))
        missed, alarms = ([failure for failure in ordered if failure.missed is kind] for kind in (True, False))
        turns = [failure for pair in zip_longest(missed, alarms) for failure in pair if failure is not None]
        lines += [
            fill(
                prompt(__package__, "missed" if failure.missed else "alarm"),
                claim=sanitize(failure.claim, MAX_CLAIM_CHARS),
                source=sanitize(failure.source, MAX_SOURCE_CHARS),
                category=name,
                nonce=nonce_of(failure.claim, failure.source),
            )
            for failure in turns[:MAX_EXAMPLES]
        ]
    return "\n".join(lines)


def sanitize(text: str, limit: int) -> str:
    """Untrusted text for a prompt: one line, cut, without markup and the braces of JSON."""
    printable = "".join(char if char.isprintable() else " " for char in clean_text(text[: 4 * limit]))
    flat = " ".join(printable.split())
    return neutralise(flat if len(flat) <= limit else f"{flat[: limit - 1]}…").translate(_BRACES)
