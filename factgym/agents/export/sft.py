"""Chat lines for supervised tuning: `{"messages", "tools", …}`, as TRL's SFTTrainer and fine-tuning services take them.

Every conversation ends with a message of the policy's: what the environment said last is nothing to learn from.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from factgym.agents.export.conversation import Conversation, Form, conversations
from factgym.agents.export.files import Summary, json_line, whole_file
from factgym.agents.export.source import Episode, Place, Source, fault_of, was_cut
from factgym.core.errors import ConfigError
from factgym.core.strict_json import StrictJsonError


@dataclass(frozen=True, slots=True, kw_only=True)
class SftOptions:
    """Which episodes become lines, and how.

    min_reward: the least total. best: how many of a task at most, those with the highest total (None: all).
    only_submitted: leave out episodes that ended at a limit. no_errors: leave out episodes with a malformed or refused
    action. Replies that were cut off at their token limit and doubles are always left out.
    """

    min_reward: float | None = None
    best: int | None = None
    only_submitted: bool = True
    no_errors: bool = False
    form: Form = field(default_factory=Form)

    def __post_init__(self) -> None:
        if self.best is not None and self.best < 1:
            raise ConfigError(f"best must be at least 1, not {self.best}")
        if self.min_reward is not None and math.isnan(self.min_reward):
            raise ConfigError("min_reward must be a number, not nan")

    def objection(self, episode: Episode) -> str | None:
        """Why an episode is left out by itself, or None."""
        fault = fault_of(episode)
        if fault:
            return fault
        if self.only_submitted and episode["stop"] != "submitted":
            return "not submitted"
        if self.min_reward is not None and episode["reward"]["total"] < self.min_reward:
            return "below the threshold"
        if was_cut(episode):
            return "truncated"
        if self.no_errors and any(turn["error"] for turn in episode["turns"]):
            return "with malformed or refused actions"
        return None if episode["turns"] else "without a reply"


def export_sft(
    runs: Sequence[Path],
    out: Path,
    options: SftOptions = SftOptions(),
    *,
    force: bool = False,
    mixed: bool = False,
) -> Summary:
    """Write one line for each episode that qualifies (or for each of its turns, see `conversations`).

    Raises ConfigError for runs that do not fit together or a file that is there, DataError for broken runs and when
    nothing qualifies.
    """
    source, summary = Source(runs, mixed), Summary(out, "line")
    with whole_file(out, force) as file:
        chosen = _choose(source, options, summary)
        for place, episode in source.second_pass():
            if place in chosen:
                lines = [_line(episode, one) for one in conversations(episode, options.form)]
                file.writelines(json_line(line) for line in lines)
                summary.lines += len(lines)
        summary.kept = len(chosen)
        summary.check_not_empty()
    return summary


def _choose(source: Source, options: SftOptions, summary: Summary) -> set[Place]:
    """The episodes to write; kept of each are its place, its total, and a digest that shows doubles."""
    found: dict[Hashable, list[tuple[float, Place]]] = defaultdict(list)
    seen: set[bytes] = set()
    for place, episode in source.first_pass():
        summary.episodes += 1
        reason = options.objection(episode) or _unfit(episode, options.form, seen)
        if reason:
            summary.left_out[reason] += 1
        else:
            task = (episode["env"], episode["version"], episode["split"], episode["task"])
            found[task].append((episode["reward"]["total"], place))
    if options.best is not None:
        for ranked in found.values():
            ranked.sort(key=lambda one: (-one[0], one[1]))
            summary.left_out["not among the best of their task"] += len(ranked[options.best :])
            del ranked[options.best :]
    summary.left_out = +summary.left_out
    return {place for ranked in found.values() for _, place in ranked}


def _unfit(episode: Episode, form: Form, seen: set[bytes]) -> str | None:
    """Why an episode cannot be written beside those seen before, or None."""
    try:
        lines = [[episode["env"], one.tools, one.messages] for one in conversations(episode, form)]
    except StrictJsonError:
        return "with arguments that are no JSON object"
    digest = blake2b(json_line(lines), digest_size=16).digest()
    if digest in seen:
        return "identical to an earlier one"
    seen.add(digest)
    return None


def _line(episode: Episode, one: Conversation) -> dict[str, Any]:
    line: dict[str, Any] = {"messages": one.messages}
    if one.tools:
        line["tools"] = one.tools
    line |= {name: episode[name] for name in ("env", "task", "sample")}
    line["reward"] = episode["reward"]["total"]
    if one.turn is not None:
        line["turn"] = one.turn
    return line
