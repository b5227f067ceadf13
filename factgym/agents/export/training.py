"""Runs as training data: chat lines for supervised tuning, and preference pairs.

Chat lines are `{"messages", "tools", …}`, as TRL's SFTTrainer and fine-tuning services take them; each ends with a
message of the policy's. Preference pairs are in TRL's conversational form, `{"prompt", "chosen", "rejected", "tools",
…}`. A group is the episodes of one task in one run; pairs are made within groups. `prompt` holds the messages before
the policy's first, `chosen` and `rejected` those from there to the policy's last.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import IO, Any, Literal

from factgym.agents.export.source import (
    Conversation,
    Episode,
    EpisodeIndex,
    Form,
    Source,
    Summary,
    conversations,
    fault_of,
    was_cut,
)
from factgym.agents.runs.files import atomic_file, json_line
from factgym.core.errors import ConfigError
from factgym.core.strict_json import StrictJsonError


@dataclass(frozen=True, slots=True, kw_only=True)
class SftOptions:
    """Selection and form of the lines.

    min_reward: minimum of the total. best: episodes of a task, at most, with the highest totals (None: all).
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
        """The reason to leave an episode out by itself, or None."""
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
    with atomic_file(out, force) as file:
        chosen = _choose(source, options, summary)
        for index, episode in source.second_pass():
            if index in chosen:
                lines = [_sft_line(episode, conversation) for conversation in conversations(episode, options.form)]
                file.writelines(json_line(line) for line in lines)
                summary.lines += len(lines)
        summary.exported = len(chosen)
        summary.check_not_empty()
    return summary


def _choose(source: Source, options: SftOptions, summary: Summary) -> set[EpisodeIndex]:
    """The episodes to write; of each only index, total and a digest against doubles are held."""
    by_task: dict[Hashable, list[tuple[float, EpisodeIndex]]] = defaultdict(list)
    seen: set[bytes] = set()
    for index, episode in source.first_pass():
        summary.episodes += 1
        reason = options.objection(episode) or _unfit(episode, options.form, seen)
        if reason:
            summary.left_out[reason] += 1
        else:
            task = (episode["env"], episode["version"], episode["split"], episode["task"])
            by_task[task].append((episode["reward"]["total"], index))
    if options.best is not None:
        for ranked in by_task.values():
            ranked.sort(key=lambda item: (-item[0], item[1]))
            summary.left_out["not among the best of their task"] += len(ranked[options.best :])
            del ranked[options.best :]
    summary.left_out = +summary.left_out
    return {index for ranked in by_task.values() for _, index in ranked}


def _unfit(episode: Episode, form: Form, seen: set[bytes]) -> str | None:
    """The reason why an episode cannot be written besides earlier ones, or None."""
    try:
        lines = [
            [episode["env"], conversation.tools, conversation.messages]
            for conversation in conversations(episode, form)
        ]
    except StrictJsonError:
        return "with arguments that are no JSON object"
    digest = _digest(lines)
    if digest in seen:
        return "identical to an earlier one"
    seen.add(digest)
    return None


def _sft_line(episode: Episode, conversation: Conversation) -> dict[str, Any]:
    line: dict[str, Any] = {"messages": conversation.messages}
    if conversation.tools:
        line["tools"] = conversation.tools
    line |= {name: episode[name] for name in ("env", "task", "sample")}
    line["reward"] = episode["reward"]["total"]
    if conversation.turn is not None:
        line["turn"] = conversation.turn
    return line


Pairing = Literal["best-worst", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceOptions:
    """Selection and form of the pairs. A better episode whose reply was cut off may be rejected, but is never chosen.

    margin: minimum difference of the totals; equal ones are never a pair. pairs: the best against the worst of a
    group, or all that differ enough, the widest `max_pairs` of each group.
    """

    margin: float = 0.0
    pairs: Pairing = "best-worst"
    max_pairs: int = 32
    form: Form = field(default_factory=Form)

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise ConfigError(f"margin must be at least 0, not {self.margin}")
        if self.max_pairs < 1:
            raise ConfigError(f"max_pairs must be at least 1, not {self.max_pairs}")


@dataclass(frozen=True, slots=True)
class _Sample:
    index: EpisodeIndex
    total: float
    cut: bool
    prompt: bytes
    """Digest of the prompt, which both sides of a pair must share."""
    reply: bytes
    """Digest of the messages after the prompt."""

    @property
    def content(self) -> tuple[bytes, bytes, float]:
        """Equal for doubles."""
        return self.prompt, self.reply, self.total


@dataclass(slots=True)
class _Group:
    samples: list[_Sample] = field(default_factory=list)
    episodes: int = 0


Pair = tuple[_Sample, _Sample]


def export_preferences(
    runs: Sequence[Path],
    out: Path,
    options: PreferenceOptions = PreferenceOptions(),
    *,
    force: bool = False,
    mixed: bool = False,
) -> Summary:
    """Write the pairs of every group. Raises as `export_sft`, and ConfigError when no task was played twice."""
    source, summary = Source(runs, mixed), Summary(out, "pair")
    with atomic_file(out, force) as file:
        groups = _groups(source, options.form, summary)
        pairs = [pair for group in groups for pair in _pairs(group, options, summary)]
        used = {sample.index for pair in pairs for sample in pair}
        with tempfile.TemporaryFile(dir=Path(file.name).parent) as spool:
            offsets = _spool(source, used, options.form, spool)
            for chosen, rejected in pairs:
                file.write(
                    json_line(
                        _pair_line(
                            _read_side(spool, offsets[chosen.index]), _read_side(spool, offsets[rejected.index])
                        )
                    )
                )
        summary.exported, summary.lines = len(used), len(pairs)
        summary.check_not_empty()
    return summary


def _groups(source: Source, form: Form, summary: Summary) -> list[_Group]:
    groups: dict[tuple[int, str], _Group] = {}
    for index, episode in source.first_pass():
        summary.episodes += 1
        group = groups.setdefault((index[0], episode["task"]), _Group())
        group.episodes += 1
        sample = _sample(index, episode, form)
        if not isinstance(sample, str) and sample.content in {earlier.content for earlier in group.samples}:
            sample = "identical to an earlier one"
        if isinstance(sample, str):
            summary.left_out[sample] += 1
        else:
            group.samples.append(sample)
    if groups and all(group.episodes == 1 for group in groups.values()):
        raise ConfigError("every task was played once, and a pair needs two episodes of one: play with `-k 4` or more")
    return list(groups.values())


def _sample(index: EpisodeIndex, episode: Episode, form: Form) -> _Sample | str:
    """An episode as a candidate for pairs, or the reason why it cannot be in one."""
    fault = fault_of(episode)
    if fault:
        return fault
    try:
        parts = conversations(episode, form)
    except StrictJsonError:
        return "with arguments that are no JSON object"
    if len(parts) != 1:
        return _split_reason(episode, form) if parts else "without a reply"
    messages, prompt_size = parts[0].messages, parts[0].prompt
    prompt, reply = _digest([messages[:prompt_size]]), _digest([messages[prompt_size:]])
    return _Sample(index, episode["reward"]["total"], was_cut(episode), prompt, reply)


def _split_reason(episode: Episode, form: Form) -> str:
    """Why an episode is not a single conversation: often only because models are not sent their earlier reasoning."""
    if len(conversations(episode, replace(form, reasoning="drop"))) == 1:
        return "whose earlier reasoning was not sent again (take them with --reasoning drop)"
    return "with contexts of their own for each turn"


def _digest(value: Any) -> bytes:
    return blake2b(json_line(value), digest_size=16).digest()


def _pairs(group: _Group, options: PreferenceOptions, summary: Summary) -> list[Pair]:
    """The pairs of a group, the widest first."""
    pairs = sorted(_contrasts(group.samples, options.margin), key=_widest_first)
    if options.pairs == "best-worst":
        pairs = pairs[:1]
    elif len(pairs) > options.max_pairs:
        summary.left_out[f"pairs beyond {options.max_pairs} of a group"] += len(pairs) - options.max_pairs
        pairs = pairs[: options.max_pairs]
    used = {sample.index for pair in pairs for sample in pair}
    if len(group.samples) > len(used):
        alone = "neither best nor worst of their group" if pairs else "without contrast in their group"
        summary.left_out[alone] += len(group.samples) - len(used)
    return pairs


def _contrasts(samples: Sequence[_Sample], margin: float) -> Iterator[Pair]:
    for pair in combinations(samples, 2):
        better, worse = sorted(pair, key=lambda sample: -sample.total)
        fits = better.prompt == worse.prompt and better.reply != worse.reply and not better.cut
        if fits and better.total > worse.total and better.total - worse.total >= margin:
            yield better, worse


def _widest_first(pair: Pair) -> tuple[float, EpisodeIndex, EpisodeIndex]:
    better, worse = pair
    return worse.total - better.total, better.index, worse.index


def _spool(
    source: Source, used: set[EpisodeIndex], form: Form, spool: IO[bytes]
) -> dict[EpisodeIndex, tuple[int, int]]:
    """Write the sides of the pairs to a scratch file, since a group's episodes may lie far apart in the run.

    Offset and length of each.
    """
    offsets = {}
    for index, episode in source.second_pass():
        if index in used:
            conversation = conversations(episode, form)[0]
            prompt = conversation.prompt
            side = {name: episode[name] for name in ("env", "task", "sample")}
            side |= {"prompt": conversation.messages[:prompt], "reply": conversation.messages[prompt:]}
            side["tools"] = conversation.tools
            start = spool.tell()
            spool.write(json_line({**side, "total": episode["reward"]["total"]}))
            offsets[index] = (start, spool.tell() - start)
    return offsets


def _read_side(spool: IO[bytes], location: tuple[int, int]) -> dict[str, Any]:
    spool.seek(location[0])
    side: dict[str, Any] = json.loads(spool.read(location[1]))
    return side


def _pair_line(chosen: dict[str, Any], rejected: dict[str, Any]) -> dict[str, Any]:
    line = {"prompt": chosen["prompt"], "chosen": chosen["reply"], "rejected": rejected["reply"]}
    tools = chosen["tools"] + [tool for tool in rejected["tools"] if tool not in chosen["tools"]]
    if tools:
        line["tools"] = tools
    line |= {"env": chosen["env"], "task": chosen["task"]}
    line |= {"chosen_reward": chosen["total"], "rejected_reward": rejected["total"]}
    return line | {"chosen_sample": chosen["sample"], "rejected_sample": rejected["sample"]}
