"""Runs as training data: chat lines for supervised tuning, and preference pairs.

Chat lines are `{"messages", "tools", …}`, as TRL's SFTTrainer and fine-tuning services take them; each ends with a
message of the policy's. Preference pairs are in TRL's conversational form, `{"prompt", "chosen", "rejected", "tools",
…}`. A group is the episodes of one task in one run; pairs are made within groups. `prompt` holds the messages before
the policy's first, `chosen` and `rejected` those from there to the policy's last.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import IO, Any, Literal

from factgym.agents.export.source import Episode, EpisodeIndex, Form, Source, Summary, conversations, fault_of, was_cut
from factgym.agents.runs.files import atomic_file, json_bytes, json_line
from factgym.agents.sampling import NonNegative
from factgym.core.config import AtLeastOne, FiniteFloat, Settings
from factgym.core.errors import ConfigError
from factgym.core.strict_json import StrictJsonError

_NO_OBJECT = "with arguments that are no JSON object"


class SftOptions(Settings):
    """Selection and form of the lines.

    min_reward: minimum of the total. best: episodes of a task, at most, with the highest totals (None: all).
    only_submitted: leave out episodes that ended at a limit. no_errors: leave out episodes with a malformed or refused
    action. allow_oracle: accept runs of an oracle. allow_evaluation_split: accept episodes of a split that is made for
    evaluation. Replies that were cut off at their token limit and doubles are always left out.
    """

    min_reward: FiniteFloat | None = None
    best: AtLeastOne | None = None
    only_submitted: bool = True
    no_errors: bool = False
    allow_oracle: bool = False
    allow_evaluation_split: bool = False
    form: Form = Form()

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
    runs: Sequence[Path], out: Path, options: SftOptions | None = None, *, force: bool = False, mixed: bool = False
) -> Summary:
    """Write one line for each episode that qualifies (or for each of its turns, see `conversations`).

    Raises ConfigError for runs that do not fit together, runs of an oracle or of an evaluation split or a file that
    exists, DataError for broken runs and when nothing qualifies.
    """
    options = options or SftOptions()
    source, summary = Source(runs, mixed, options.allow_oracle, options.allow_evaluation_split), Summary(out, "line")
    with atomic_file(out, force) as file:
        if options.best is None:  # lines are final as they come
            _choose(source, options, summary, file)
        else:
            with tempfile.TemporaryFile(dir=Path(file.name).parent) as spool:
                for start, size in _choose(source, options, summary, spool):
                    spool.seek(start)
                    file.write(spool.read(size))
        summary.check_not_empty()
    return summary


Span = tuple[int, int]
"""Start and size of an episode's lines in a spool, in bytes."""


def _choose(source: Source, options: SftOptions, summary: Summary, spool: IO[bytes]) -> list[Span]:
    """Write the lines of the episodes that qualify to a spool, and return those to export, in order.

    Of each episode only span, total and a digest against doubles are held.
    """
    by_task: dict[Hashable, list[tuple[float, Span, int]]] = defaultdict(list)
    digests: set[bytes] = set()
    writer, start = _SftWriter(options.form), 0
    for _, episode in source.first_pass():
        summary.episodes += 1
        reason = options.objection(episode)
        lines: list[bytes] = []
        if reason is None:
            try:
                lines, digest = writer.lines(episode)
                reason = "identical to an earlier one" if digest in digests else None
                digests.add(digest)
            except StrictJsonError:
                reason = _NO_OBJECT
        if reason:
            summary.left_out[reason] += 1
        else:
            task = (episode["env"], episode["version"], episode["split"], episode["task"])
            span = start, spool.write(b"".join(lines))
            start += span[1]
            by_task[task].append((episode["reward"]["total"], span, len(lines)))
    if options.best is not None:
        for ranked in by_task.values():
            ranked.sort(key=lambda item: (-item[0], item[1]))
            summary.left_out["not among the best of their task"] += len(ranked[options.best :])
            del ranked[options.best :]
    summary.left_out = +summary.left_out
    summary.exported = sum(map(len, by_task.values()))
    summary.lines = sum(lines for ranked in by_task.values() for *_, lines in ranked)
    return sorted(span for ranked in by_task.values() for _, span, _ in ranked)


class _SharedPart:
    """The JSON of a part that most episodes of a run share, encoded where it differs from that of the episode before."""

    def __init__(self) -> None:
        self._key: Any = None
        self._json = self._digest = b""

    def of(self, value: Any, origin: Any) -> tuple[bytes, bytes]:
        """Return the JSON of a value, and a digest of it.

        origin: of the value. Python's == takes 1 for True, a difference that values of one origin never have alone.
        """
        if (origin, value) != self._key:
            self._key, self._json = (origin, value), json_bytes(value)
            self._digest = blake2b(self._json, digest_size=16).digest()
        return self._json, self._digest


class _SftWriter:
    """Writes episodes as lines. Instructions and tools, the larger part of most lines, are encoded once for a run."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self._first, self._tools = _SharedPart(), _SharedPart()

    def lines(self, episode: Episode) -> tuple[list[bytes], bytes]:
        """Return an episode's lines, and a digest of what a model would learn from them."""
        lines: list[bytes] = []
        digest = blake2b(digest_size=16)
        origin = episode["env"], episode["version"], episode["factgym"]
        about = {"env": episode["env"], "task": episode["task"], "sample": episode["sample"]}
        about |= {"reward": episode["reward"]["total"]}
        for conversation in conversations(episode, self.form):
            first, first_digest = self._first.of(conversation.messages[0], origin)
            others = json_bytes(conversation.messages[1:])
            tools, tools_digest = self._tools.of(conversation.tools, origin)
            turn = {} if conversation.turn is None else {"turn": conversation.turn}
            line = [b'{"messages":[', first, b"," if len(others) > 2 else b"", others[1:]]
            line += [b',"tools":', tools] if conversation.tools else []
            lines.append(b"".join([*line, b",", json_line(about | turn)[1:]]))
            for part in (first_digest, others, tools_digest, origin[0].encode()):
                digest.update(part)
        return lines, digest.digest()


Pair = tuple["_Sample", "_Sample"]
Pairing = Literal["best-worst", "all"]


class PreferenceOptions(Settings):
    """Selection and form of the pairs. A better episode whose reply was cut off may be rejected, but is never chosen.

    margin: minimum difference of the totals; equal totals are never a pair. pairs: the best against the worst of a
    group, or all that differ enough, the widest `max_pairs` of each group. allow_oracle, allow_evaluation_split: as for
    `SftOptions`.
    """

    margin: NonNegative = 0.0
    pairs: Pairing = "best-worst"
    max_pairs: AtLeastOne = 32
    allow_oracle: bool = False
    allow_evaluation_split: bool = False
    form: Form = Form()


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


def export_preferences(
    runs: Sequence[Path],
    out: Path,
    options: PreferenceOptions | None = None,
    *,
    force: bool = False,
    mixed: bool = False,
) -> Summary:
    """Write the pairs of every group. Raises as `export_sft`, and ConfigError when no task was played twice."""
    options = options or PreferenceOptions()
    source, summary = Source(runs, mixed, options.allow_oracle, options.allow_evaluation_split), Summary(out, "pair")
    with atomic_file(out, force) as file:
        pairs = [pair for group in _groups(source, options.form, summary) for pair in _pairs(group, options, summary)]
        used = {sample.index for pair in pairs for sample in pair}
        with tempfile.TemporaryFile(dir=Path(file.name).parent) as spool:
            spans = _write_sides(source, used, options.form, spool)

            def read_side(sample: _Sample) -> Any:
                start, size = spans[sample.index]
                spool.seek(start)
                return json.loads(spool.read(size))

            for pair in pairs:
                chosen, rejected = (read_side(sample) for sample in pair)
                line = {"prompt": chosen["prompt"], "chosen": chosen["reply"], "rejected": rejected["reply"]}
                tools = chosen["tools"] + [tool for tool in rejected["tools"] if tool not in chosen["tools"]]
                line |= {"tools": tools} if tools else {}
                line |= {"env": chosen["env"], "task": chosen["task"]}
                line |= {"chosen_reward": chosen["total"], "rejected_reward": rejected["total"]}
                line |= {"chosen_sample": chosen["sample"], "rejected_sample": rejected["sample"]}
                file.write(json_line(line))
        summary.exported, summary.lines = len(used), len(pairs)
        summary.check_not_empty()
    return summary


def _groups(source: Source, form: Form, summary: Summary) -> list[list[_Sample]]:
    """The usable episodes of each task of each run."""
    groups: dict[tuple[int, str], list[_Sample]] = defaultdict(list)
    played: Counter[tuple[int, str]] = Counter()
    for index, episode in source.first_pass():
        summary.episodes += 1
        key = (index[0], episode["task"])
        played[key] += 1
        sample = _sample(index, episode, form)
        if not isinstance(sample, str) and sample.content in {earlier.content for earlier in groups[key]}:
            sample = "identical to an earlier one"
        if isinstance(sample, str):
            summary.left_out[sample] += 1
        else:
            groups[key].append(sample)
    if played and max(played.values()) == 1:
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
        return _NO_OBJECT
    if not parts:
        return "without a reply"
    if len(parts) > 1:  # often only because models are not sent their earlier reasoning
        if len(conversations(episode, replace(form, reasoning="drop"))) == 1:
            return "whose earlier reasoning was not sent again (take them with --reasoning drop)"
        return "with contexts of their own for each turn"
    messages, prompt_size = parts[0].messages, parts[0].prompt
    prompt, reply = _digest([messages[:prompt_size]]), _digest([messages[prompt_size:]])
    return _Sample(index, episode["reward"]["total"], was_cut(episode), prompt, reply)


def _digest(value: Any) -> bytes:
    return blake2b(json_line(value), digest_size=16).digest()


def _pairs(group: Sequence[_Sample], options: PreferenceOptions, summary: Summary) -> list[Pair]:
    """The pairs of a group, the widest first."""
    # All pairs of a group are compared: groups have at most some dozens of samples.
    pairs = []
    for pair in combinations(group, 2):
        better, worse = sorted(pair, key=lambda sample: -sample.total)
        fits = better.prompt == worse.prompt and better.reply != worse.reply and not better.cut
        if fits and better.total > worse.total and better.total - worse.total >= options.margin:
            pairs.append((better, worse))
    pairs.sort(key=lambda pair: (pair[1].total - pair[0].total, pair[0].index, pair[1].index))
    if options.pairs == "best-worst":
        pairs = pairs[:1]
    elif len(pairs) > options.max_pairs:
        summary.left_out[f"pairs beyond {options.max_pairs} of a group"] += len(pairs) - options.max_pairs
        pairs = pairs[: options.max_pairs]
    used = {sample.index for pair in pairs for sample in pair}
    if len(group) > len(used):
        unpaired = "neither best nor worst of their group" if pairs else "without contrast in their group"
        summary.left_out[unpaired] += len(group) - len(used)
    return pairs


def _write_sides(
    source: Source, used: set[EpisodeIndex], form: Form, spool: IO[bytes]
) -> dict[EpisodeIndex, tuple[int, int]]:
    """Write the sides of the pairs to a scratch file, since a group's episodes may lie far apart in the run.

    Returns offset and length of each.
    """
    spans = {}
    for index, episode in source.second_pass():
        if index in used:
            conversation = conversations(episode, form)[0]
            side = {name: episode[name] for name in ("env", "task", "sample")}
            side["prompt"] = conversation.messages[: conversation.prompt]
            side["reply"] = conversation.messages[conversation.prompt :]
            side |= {"tools": conversation.tools, "total": episode["reward"]["total"]}
            spans[index] = (spool.tell(), spool.write(json_line(side)))
    return spans
