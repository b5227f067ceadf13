"""What a trainer is handed: one line for each scored episode of an iteration.

```
{"schema": 1, "phase": "proposer" | "solver", "iteration": 1.., "task": id, "sample": 0.., "seed": of the episode,
 "messages": [the whole transcript], "tools": [schemas that were open], "actions": [indices of the policy's messages],
 "hops": 1..4 | null, "group": "hops-2" | the task's id, "reward": float, "components": {name: value},
 "advantage": float, "spans": [[message, start, end, value]], "completions": [the policy's own account] | null}
```

Only the messages named in `actions` are the policy's: the others are masked in training. A row's advantage holds for
all of its tokens. `completions` has one entry for each action: tokens, log-probabilities and the raw text where the
policy told them. Phase A compares within a hop count (HRPO, equation 5), Phase B within the episodes of one row (GRPO).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Row = dict[str, Any]
Phase = Literal["proposer", "solver"]

SCHEMA = 1
GROUPS: Mapping[Phase, str] = {"proposer": "hop count", "solver": "row of the data set"}
"""Phase -> what the episodes of one group have in common."""


def scored(episodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The episodes that have a reward, by task and sample, whatever order they ended in."""
    found = [one for one in episodes if one["reward"] is not None and one["reward"]["total"] is not None]
    return sorted(found, key=lambda one: (one["index"], one["sample"]))


def training_rows(episodes: Sequence[Mapping[str, Any]], phase: Phase, iteration: int) -> list[Row]:
    """A row for each scored episode, in the order given, with its advantage within its group."""
    advantages = hop_grouped(episodes) if phase == "proposer" else row_grouped(episodes)
    return [_row(one, phase, iteration, value) for one, value in zip(episodes, advantages, strict=True)]


def hop_grouped(episodes: Sequence[Mapping[str, Any]]) -> list[float]:
    """HRPO: the advantage of each episode among those of its hop count; 0 for one without company."""
    from factgym.rewards.advantages import hop_advantages

    if not episodes:
        return []
    found = hop_advantages([one["reward"]["total"] for one in episodes], [hops_of(one) or 0 for one in episodes])
    return [float(value) for value in found]


def row_grouped(episodes: Sequence[Mapping[str, Any]]) -> list[float]:
    """GRPO: the advantage of each episode among those of its task, which stand beside each other."""
    from factgym.rewards.advantages import group_advantages

    found: list[float] = []
    for rewards in reward_groups(episodes):
        found += [float(value) for value in group_advantages(rewards)]
    return found


def reward_groups(episodes: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The rewards of each task's episodes."""
    groups: dict[str, list[float]] = {}
    for one in episodes:
        groups.setdefault(one["task"], []).append(one["reward"]["total"])
    return list(groups.values())


def hops_of(episode: Mapping[str, Any]) -> int | None:
    """The hop count of an episode, which its report tells."""
    found = episode["reward"]["metrics"].get("hops")
    return found if isinstance(found, int) else None


def _row(episode: Mapping[str, Any], phase: Phase, iteration: int, advantage: float) -> Row:
    reward, hops = episode["reward"], hops_of(episode)
    completions = [turn["completion"] for turn in episode["turns"]]
    return {
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
        "completions": completions if any(one is not None for one in completions) else None,
    }
