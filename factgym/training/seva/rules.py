"""Round 1: what went wrong becomes rules at the end of the instructions; no parameter changes.

Each weak category gives one rule of fixed words, weakest first, with failures of the verifier itself as examples. Their
texts come from data sets and are hostile until shown otherwise: they are cut, stripped of anything that could pass for
a marker of the conversation or close the tag they stand in, and called material.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from factgym.core.prompts import fill, prompt
from factgym.core.strict_json import clean_text
from factgym.datasets.attribution import ATTRIBUTABLE
from factgym.tools.untrusted import neutralise
from factgym.training.seva.profile import Diagnose, Profile, case_of, diagnose_by_rules, facts_of, texts_of

MAX_CLAIM_CHARS, MAX_SOURCE_CHARS = 240, 360
MAX_CATEGORIES, MAX_EXAMPLES = 6, 2

_TAG = re.compile(r"<(?=\s*/?\s*example\b)", re.IGNORECASE)
_BRACES = str.maketrans("{}", "｛｝")


@dataclass(frozen=True, slots=True)
class Failure:
    """A claim that was judged wrongly. missed: it has an error that was not seen; else one was seen that is not there."""

    category: str
    claim: str
    source: str
    missed: bool


def failures_of(
    episodes: Iterable[Mapping[str, Any]], *, diagnose: Diagnose | None = None
) -> dict[str, list[Failure]]:
    """The failures of each category, in the order of the episodes."""
    found: dict[str, list[Failure]] = defaultdict(list)
    for episode in episodes:
        metrics = facts_of(episode)
        case = case_of(episode, metrics, diagnose or diagnose_by_rules) if metrics is not None else None
        if metrics is None or case is None or case[1]:
            continue
        missed = metrics["gold_verdict"] != ATTRIBUTABLE
        found[case[0]].append(Failure(case[0], *texts_of(episode), missed))
    return dict(found)


def write_rules(
    profile: Profile,
    weights: Mapping[str, Fraction],
    failures: Mapping[str, Sequence[Failure]],
    *,
    examples: int = MAX_EXAMPLES,
) -> str:
    """The rules as text for the end of a system message; empty where nothing went wrong.

    examples: failures shown for each category at most, a missed error and a false alarm in turns, shortest first.
    """
    weak = sorted((name for name in weights if failures.get(name)), key=lambda name: -weights[name])
    parts = [_rule(name, profile, _chosen(failures[name], examples)) for name in weak[:MAX_CATEGORIES]]
    if not parts:
        return ""
    return "\n".join([prompt(__package__, "rules"), *parts])


def _rule(name: str, profile: Profile, chosen: Sequence[Failure]) -> str:
    said = fill(
        prompt(__package__, "rule"),
        name=name,
        right=str(profile.right.get(name, 0)),
        seen=str(profile.seen.get(name, 0)),
        rule=prompt(__package__, name),
    )
    return "\n".join([said, *(_example(one) for one in chosen)])


def _chosen(failures: Sequence[Failure], most: int) -> list[Failure]:
    ordered = sorted(failures, key=lambda one: (len(one.claim) + len(one.source), one.claim))
    kinds = [[one for one in ordered if one.missed is missed] for missed in (True, False)]
    turns = [one for pair in zip(*(_padded(kind, len(ordered)) for kind in kinds), strict=True) for one in pair]
    return [one for one in turns if one is not None][:most]


def _padded(found: list[Failure], length: int) -> list[Failure | None]:
    return [*found, *[None] * (length - len(found))]


def _example(one: Failure) -> str:
    name = "missed" if one.missed else "alarm"
    return fill(
        prompt(__package__, name),
        claim=material(one.claim, MAX_CLAIM_CHARS),
        source=material(one.source, MAX_SOURCE_CHARS),
        category=one.category,
    )


def material(text: str, most: int) -> str:
    """Foreign text for a prompt: one line, cut, nothing in it a marker, a tag of ours or the beginning of JSON."""
    seen = "".join(char if char.isprintable() else " " for char in clean_text(text[: 4 * most]))
    flat = " ".join(seen.split())
    cut = flat if len(flat) <= most else f"{flat[: most - 1]}…"
    return _TAG.sub("‹", neutralise(cut)).translate(_BRACES)
