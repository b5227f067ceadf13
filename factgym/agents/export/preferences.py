"""Preference pairs in TRL's conversational form: `{"prompt", "chosen", "rejected", "tools", …}`.

A group is what one run holds of one task; pairs are made within groups. `prompt` is what comes before the policy's
first message, `chosen` and `rejected` are what followed, each up to the policy's last message.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import IO, Any, Literal

from factgym.agents.export.conversation import Form, conversations
from factgym.agents.export.files import Summary, json_line, whole_file
from factgym.agents.export.source import Episode, Place, Source, fault_of, was_cut
from factgym.core.errors import ConfigError
from factgym.core.strict_json import StrictJsonError

Pairing = Literal["best-worst", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceOptions:
    """Which pairs are made. A better episode whose reply was cut off may be rejected, but is never chosen.

    margin: the least difference of the totals; equal ones are never a pair. pairs: the best against the worst of a
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
    place: Place
    total: float
    cut: bool
    prompt: bytes
    """Digest of the prompt, which both sides of a pair must share."""
    said: bytes
    """Digest of what followed."""


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
    with whole_file(out, force) as file:
        groups = _groups(source, options.form, summary)
        pairs = [pair for group in groups for pair in _pairs(group, options, summary)]
        used = {sample.place for pair in pairs for sample in pair}
        with tempfile.TemporaryFile(dir=file_folder(file)) as spool:
            where = _spool(source, used, options.form, spool)
            for chosen, rejected in pairs:
                file.write(json_line(_line(_at(spool, where[chosen.place]), _at(spool, where[rejected.place]))))
        summary.kept, summary.lines = len(used), len(pairs)
        summary.check_not_empty()
    return summary


def file_folder(file: IO[bytes]) -> Path:
    """The folder of an open file: where there is room for what it will hold, there is for a draft."""
    return Path(file.name).parent


def _groups(source: Source, form: Form, summary: Summary) -> list[_Group]:
    groups: dict[tuple[int, str], _Group] = {}
    for place, episode in source.first_pass():
        summary.episodes += 1
        group = groups.setdefault((place[0], episode["task"]), _Group())
        group.episodes += 1
        sample = _sample(place, episode, form)
        if not isinstance(sample, str) and any(_same(sample, one) for one in group.samples):
            sample = "identical to an earlier one"
        if isinstance(sample, str):
            summary.left_out[sample] += 1
        else:
            group.samples.append(sample)
    if groups and all(group.episodes == 1 for group in groups.values()):
        raise ConfigError("every task was played once, and a pair needs two episodes of one: play with `-k 4` or more")
    return list(groups.values())


def _same(one: _Sample, other: _Sample) -> bool:
    return (one.prompt, one.said, one.total) == (other.prompt, other.said, other.total)


def _sample(place: Place, episode: Episode, form: Form) -> _Sample | str:
    """What choosing needs of an episode, or why it cannot be in a pair."""
    fault = fault_of(episode)
    if fault:
        return fault
    try:
        found = conversations(episode, form)
    except StrictJsonError:
        return "with arguments that are no JSON object"
    if len(found) != 1:
        return _apart(episode, form) if found else "without a reply"
    one = found[0]
    prompt, said = _digest([one.messages[: one.prompt]]), _digest([one.messages[one.prompt :]])
    return _Sample(place, episode["reward"]["total"], was_cut(episode), prompt, said)


def _apart(episode: Episode, form: Form) -> str:
    """Why an episode is no one conversation: often only because models are not sent their earlier reasoning."""
    if len(conversations(episode, replace(form, reasoning="drop"))) == 1:
        return "whose earlier reasoning was not sent again (take them with --reasoning drop)"
    return "with contexts of their own for each turn"


def _digest(value: Any) -> bytes:
    return blake2b(json_line(value), digest_size=16).digest()


def _pairs(group: _Group, options: PreferenceOptions, summary: Summary) -> list[Pair]:
    """The pairs of a group, the widest first."""
    pairs = sorted(_contrasts(group.samples, options.margin), key=_rank)
    if options.pairs == "best-worst":
        pairs = pairs[:1]
    elif len(pairs) > options.max_pairs:
        summary.left_out[f"pairs beyond {options.max_pairs} of a group"] += len(pairs) - options.max_pairs
        pairs = pairs[: options.max_pairs]
    used = {sample.place for pair in pairs for sample in pair}
    if len(group.samples) > len(used):
        alone = "neither best nor worst of their group" if pairs else "without contrast in their group"
        summary.left_out[alone] += len(group.samples) - len(used)
    return pairs


def _contrasts(samples: Sequence[_Sample], margin: float) -> Iterator[Pair]:
    for pair in combinations(samples, 2):
        better, worse = sorted(pair, key=lambda one: -one.total)
        fits = better.prompt == worse.prompt and better.said != worse.said and not better.cut
        if fits and better.total > worse.total and better.total - worse.total >= margin:
            yield better, worse


def _rank(pair: Pair) -> tuple[float, Place, Place]:
    better, worse = pair
    return worse.total - better.total, better.place, worse.place


def _spool(source: Source, used: set[Place], form: Form, spool: IO[bytes]) -> dict[Place, tuple[int, int]]:
    """Write the sides of the pairs to a scratch file, since a group's episodes may lie far apart in the run.

    Offset and length of each.
    """
    where = {}
    for place, episode in source.second_pass():
        if place in used:
            one = conversations(episode, form)[0]
            side = {name: episode[name] for name in ("env", "task", "sample")}
            side |= {"prompt": one.messages[: one.prompt], "said": one.messages[one.prompt :], "tools": one.tools}
            start = spool.tell()
            spool.write(json_line({**side, "total": episode["reward"]["total"]}))
            where[place] = (start, spool.tell() - start)
    return where


def _at(spool: IO[bytes], where: tuple[int, int]) -> dict[str, Any]:
    spool.seek(where[0])
    side: dict[str, Any] = json.loads(spool.read(where[1]))
    return side


def _line(chosen: dict[str, Any], rejected: dict[str, Any]) -> dict[str, Any]:
    line = {"prompt": chosen["prompt"], "chosen": chosen["said"], "rejected": rejected["said"]}
    tools = chosen["tools"] + [tool for tool in rejected["tools"] if tool not in chosen["tools"]]
    if tools:
        line["tools"] = tools
    line |= {"env": chosen["env"], "task": chosen["task"]}
    line |= {"chosen_reward": chosen["total"], "rejected_reward": rejected["total"]}
    return line | {"chosen_sample": chosen["sample"], "rejected_sample": rejected["sample"]}
