"""Episodes of an iteration as training rows with advantages, and as metrics.

A row is one line of `train.jsonl`, for each scored episode:

```
{"schema": 1, "phase": "proposer" | "solver", "iteration": 1.., "task": id, "sample": 0.., "seed": of the episode,
 "messages": [the whole transcript], "tools": [schemas that were open], "actions": [indices of the policy's messages],
 "hops": 1..4 | null, "group": "hops-2" | the task's id, "reward": float, "components": {name: value},
 "advantage": float, "spans": [[message, start, end, value]], "completions": [the policy's own account] | null}
```

Only the messages named in `actions` are the policy's: the others are masked in training. A row's advantage holds for
all of its tokens. `completions` has one entry for each action: tokens, log-probabilities and the raw text, where the
policy returned them. Phase A compares within a hop count (HRPO, equation 5), Phase B within the episodes of one row
(GRPO).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

Row = dict[str, Any]
Episodes = Sequence[Mapping[str, Any]]
PhaseName = Literal["proposer", "solver"]

SCHEMA = 1
GROUPS: Mapping[PhaseName, str] = {"proposer": "hop count", "solver": "row of the data set"}
"""Phase -> the property that the episodes of one group share."""


def scored(episodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The episodes that have a reward, sorted by task and sample."""
    rewarded = [
        episode for episode in episodes if episode["reward"] is not None and episode["reward"]["total"] is not None
    ]
    return sorted(rewarded, key=lambda episode: (episode["index"], episode["sample"]))


def training_rows(episodes: Episodes, phase: PhaseName, iteration: int) -> list[Row]:
    """A row for each scored episode, in the order given, with its advantage within its group."""
    advantages = hop_grouped(episodes) if phase == "proposer" else row_grouped(episodes)
    rows = []
    for episode, advantage in zip(episodes, advantages, strict=True):
        reward, hops = episode["reward"], hops_of(episode)
        completions = [turn["completion"] for turn in episode["turns"]]
        row = {
            "schema": SCHEMA,
            "phase": phase,
            "iteration": iteration,
            "task": episode["task"],
            "sample": episode["sample"],
            "seed": episode["seed"],
            "messages": episode["messages"],
            "tools": episode["tools"],
            "actions": [turn["message"] for turn in episode["turns"]],
            "hops": hops,
            "group": f"hops-{hops}" if phase == "proposer" else episode["task"],
            "reward": reward["total"],
            "components": reward["components"],
            "advantage": advantage,
            "spans": reward["spans"],
            "completions": completions if any(completion is not None for completion in completions) else None,
        }
        rows.append(row)
    return rows


def hop_grouped(episodes: Episodes) -> list[float]:
    """HRPO: the advantage of each episode among those of its hop count; 0 in a group of one."""
    from factgym.rewards.advantages import hop_advantages

    if not episodes:
        return []
    rewards = [episode["reward"]["total"] for episode in episodes]
    return [float(value) for value in hop_advantages(rewards, [hops_of(episode) or 0 for episode in episodes])]


def row_grouped(episodes: Episodes) -> list[float]:
    """GRPO: the advantage of each episode among those of its task, which are adjacent."""
    from factgym.rewards.advantages import group_advantages

    return [float(value) for rewards in reward_groups(episodes) for value in group_advantages(rewards)]


def reward_groups(episodes: Episodes) -> list[list[float]]:
    """The rewards of each task's episodes."""
    groups: dict[str, list[float]] = {}
    for episode in episodes:
        groups.setdefault(episode["task"], []).append(episode["reward"]["total"])
    return list(groups.values())


def hops_of(episode: Mapping[str, Any]) -> int | None:
    """The hop count in an episode's reward report."""
    hops = episode["reward"]["metrics"].get("hops")
    return hops if isinstance(hops, int) else None


def mean(values: Iterable[float | int | bool | None]) -> float | None:
    """The mean of the values that are not None, to six places; None without any."""
    numbers = [float(value) for value in values if value is not None]
    # Adding 0.0 turns -0.0 into 0.0.
    return round(fmean(numbers), 6) + 0.0 if numbers else None


def component_means(episodes: Episodes) -> dict[str, float | None]:
    """Component -> its mean."""
    names = dict.fromkeys(name for episode in episodes for name in episode["reward"]["components"])
    return {name: mean(episode["reward"]["components"].get(name) for episode in episodes) for name in names}


def proposer_metrics(episodes: Episodes) -> dict[str, Any]:
    """Metrics of scored proposer episodes.

    valid: share. V, solved (k / n): means over the valid ones. placed: share of all whose evidence is verbatim in the
    document or a search result. hops: count -> episodes and mean reward. flat: share whose HRPO advantage is 0.
    """
    facts = [episode["reward"]["metrics"] for episode in episodes]
    valid = [metrics for metrics in facts if metrics.get("valid")]
    counts = Counter(hops_of(episode) for episode in episodes)
    return {
        "reward": mean(episode["reward"]["total"] for episode in episodes),
        "components": component_means(episodes),
        "valid": mean(bool(metrics.get("valid")) for metrics in facts),
        "placed": mean(metrics.get("evidence_span") is not None for metrics in facts),
        "V": mean(metrics.get("V") for metrics in valid),
        "plus": mean(metrics.get("plus") for metrics in valid),
        "minus": mean(metrics.get("minus") for metrics in valid),
        "solved": mean(
            metrics["k"] / metrics["n"] for metrics in valid if metrics.get("n") and metrics.get("k") is not None
        ),
        "documents": len({metrics.get("document") for metrics in facts}),
        "hops": {
            str(hops): {
                "episodes": counts[hops],
                "reward": mean(episode["reward"]["total"] for episode in episodes if hops_of(episode) == hops),
            }
            for hops in sorted(counts, key=lambda hops: hops or 0)
        },
        "flat": mean(value == 0 for value in hop_grouped(episodes)),
    }


def solver_metrics(episodes: Episodes) -> dict[str, Any]:
    """Metrics of scored solver episodes.

    em, f1, evidence_f1, searches: means. verbatim: share whose evidence is verbatim in a retrieved passage. flat: share
    of the groups whose rewards are all equal, so that nothing is learned from them.
    """
    facts = [episode["reward"]["metrics"] for episode in episodes]
    groups = reward_groups(episodes)
    return {
        "reward": mean(episode["reward"]["total"] for episode in episodes),
        "components": component_means(episodes),
        "em": mean(metrics.get("em") for metrics in facts),
        "f1": mean(metrics.get("f1") for metrics in facts),
        "evidence_f1": mean(metrics.get("evidence_f1") for metrics in facts),
        "present": mean(metrics.get("evidence_present") for metrics in facts),
        "verbatim": mean(metrics.get("evidence_verbatim") for metrics in facts),
        "searches": mean(metrics.get("searches") for metrics in facts),
        "groups": len(groups),
        "flat": mean(max(rewards) == min(rewards) for rewards in groups),
    }
