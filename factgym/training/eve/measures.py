"""What the episodes of an iteration amount to, as numbers for `metrics.json` and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from factgym.training.eve.rows import hop_grouped, hops_of, reward_groups

Episodes = Sequence[Mapping[str, Any]]


def mean(values: Iterable[float | int | bool | None]) -> float | None:
    """The mean of the values that are there, to six places; None where none is."""
    known = [float(value) for value in values if value is not None]
    return round(fmean(known), 6) + 0.0 if known else None


def components(episodes: Episodes) -> dict[str, float | None]:
    """Component -> its mean."""
    names = dict.fromkeys(name for one in episodes for name in one["reward"]["components"])
    return {name: mean(one["reward"]["components"].get(name) for one in episodes) for name in names}


def proposer_measures(episodes: Episodes) -> dict[str, Any]:
    """Of scored proposer episodes.

    valid: share. V, solved (k / n): means over the valid ones. placed: share of all whose evidence stands verbatim in
    the document or a search result. hops: count -> episodes and mean reward. flat: share whose HRPO advantage is 0.
    """
    facts = [one["reward"]["metrics"] for one in episodes]
    valid = [one for one in facts if one.get("valid")]
    counts = Counter(hops_of(one) for one in episodes)
    return {
        "reward": mean(one["reward"]["total"] for one in episodes),
        "components": components(episodes),
        "valid": mean(bool(one.get("valid")) for one in facts),
        "placed": mean(one.get("evidence_span") is not None for one in facts),
        "V": mean(one.get("V") for one in valid),
        "plus": mean(one.get("plus") for one in valid),
        "minus": mean(one.get("minus") for one in valid),
        "solved": mean(one["k"] / one["n"] for one in valid if one.get("n") and one.get("k") is not None),
        "documents": len({one.get("document") for one in facts}),
        "hops": {
            str(hops): {
                "episodes": counts[hops],
                "reward": mean(one["reward"]["total"] for one in episodes if hops_of(one) == hops),
            }
            for hops in sorted(counts, key=lambda one: one or 0)
        },
        "flat": mean(value == 0 for value in hop_grouped(episodes)),
    }


def solver_measures(episodes: Episodes) -> dict[str, Any]:
    """Of scored solver episodes.

    em, f1, evidence_f1, searches: means. verbatim: share whose evidence stands in a passage that the episode showed.
    flat: share of the groups whose rewards are all equal, so that nothing is learned from them.
    """
    facts = [one["reward"]["metrics"] for one in episodes]
    groups = reward_groups(episodes)
    return {
        "reward": mean(one["reward"]["total"] for one in episodes),
        "components": components(episodes),
        "em": mean(one.get("em") for one in facts),
        "f1": mean(one.get("f1") for one in facts),
        "evidence_f1": mean(one.get("evidence_f1") for one in facts),
        "present": mean(one.get("evidence_present") for one in facts),
        "verbatim": mean(one.get("evidence_verbatim") for one in facts),
        "searches": mean(one.get("searches") for one in facts),
        "groups": len(groups),
        "flat": mean(max(one) == min(one) for one in groups),
    }
