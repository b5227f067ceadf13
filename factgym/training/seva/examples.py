"""Training data: claims with their gold as chat lines, the prompt as it will be asked and the verdict that is right.

The verdict is built from the gold as the oracle's is: spans of claim and source, steps, label, and for an error its
kind and a fix. Of a probe the changed words are known, so its verdict points at them.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from factgym.agents.models import with_rules
from factgym.agents.runs.files import read_lines, write_lines
from factgym.core.errors import DataError
from factgym.core.registry import make
from factgym.datasets.attribution import NOT_ATTRIBUTABLE, AttributionClaim
from factgym.envs.seva.agents import gold_verdict
from factgym.envs.seva.env import SevaEnv
from factgym.envs.seva.scripted import ScriptedPolicy
from factgym.envs.seva.tasks import SevaTaskSet
from factgym.generators.perturbations.probes import Probe
from factgym.training.seva.profile import diagnose_by_rules
from factgym.training.trainer import Dataset, open_dataset

Origin = Literal["seed", "replay", "probe"]


@dataclass(frozen=True, slots=True)
class Example:
    """A claim to learn from. origin: why it is there. of: the claim that a probe was made from, else its own id."""

    item: AttributionClaim
    origin: Origin
    of: str = ""
    strategy: str | None = None

    @property
    def negative(self) -> bool:
        """Whether the claim is not attributable."""
        return self.item.label == NOT_ATTRIBUTABLE


def example_of(probe: Probe, benchmark: str = "") -> Example:
    """A probe as an example; its verdict shows the words that were changed."""
    was, now = changed_words(probe.original_claim, probe.claim)
    reason = f"Where the claim has it, the source says “{was}”." if was and now else ""
    item = AttributionClaim(
        probe.id,
        probe.claim,
        probe.source,
        probe.gold_label,
        probe.error_type,
        benchmark,
        {"span": now, "reason": reason},
    )
    return Example(item, "probe", str(probe.meta.get("of") or probe.id), probe.strategy)


def changed_words(before: str, after: str) -> tuple[str, str]:
    """What stands in `before` and in `after` between the words with which both begin and those with which both end."""
    old, new = before.split(), after.split()
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return " ".join(old[head : len(old) - tail]), " ".join(new[head : len(new) - tail])


class Claims(Sequence[AttributionClaim]):
    """The claims of examples as a set that the environment reads."""

    def __init__(self, items: Iterable[AttributionClaim]) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the ids, texts and labels."""
        rows = [[one.id, one.claim, one.source, one.label, one.error_type] for one in self._items]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def chat_lines(examples: Sequence[Example], rules: str = "") -> Iterator[dict[str, Any]]:
    """One line for each example. rules: that the verifier has in its instructions."""
    env = cast(SevaEnv, make("seva"))
    tasks = SevaTaskSet(Claims(_diagnosed(one.item) for one in examples), env.config)
    for place, example in enumerate(examples):
        task = tasks[place]
        prompt = env.initial_messages(task)
        said = ScriptedPolicy(partial(gold_verdict, task=task)).act(prompt, ())
        messages = [*(with_rules(prompt, rules) if rules else prompt), {"role": "assistant", "content": said}]
        yield {
            "messages": messages,
            "id": example.item.id,
            "origin": example.origin,
            "label": example.item.label,
            "error_type": example.item.error_type,
            "taught_error_type": task.gold.error_type,
            "benchmark": example.item.benchmark,
            "strategy": example.strategy,
            "of": example.of or example.item.id,
        }


def _diagnosed(item: AttributionClaim) -> AttributionClaim:
    """A verdict has to name an error: where the data names none, what the rules say of claim and source stands in."""
    if item.label != NOT_ATTRIBUTABLE or item.error_type is not None:
        return item
    return replace(item, error_type=diagnose_by_rules(item.claim, item.source))


def write_dataset(path: Path, examples: Sequence[Example], rules: str = "") -> Dataset:
    """The data set of examples, on disk."""
    write_lines(path, chat_lines(examples, rules))
    return open_dataset(path)


def read_probes(path: Path) -> list[Probe]:
    """Probes as `probes.jsonl` holds them; keys of ours beside theirs are passed over."""
    found = []
    for number, row in enumerate(read_lines(path), 1):
        try:
            names = ("id", "claim", "source", "original_claim", "gold_label", "error_type", "strategy", "seed", "by")
            found.append(Probe(**{name: row[name] for name in names}, meta=row["meta"]))
        except (KeyError, TypeError) as error:
            raise DataError(f"{path} line {number}: no probe ({error})") from None
    return found


def replayed(
    probes: Sequence[Example], pool: Sequence[Example], count: int, seed: int, *, balance: bool = True
) -> list[Example]:
    """At most `count` examples of the pool that are not among the probes, drawn by the seed, in the pool's order.

    balance: choose labels so that probes and replay together come as near to one half each as the pool allows, and
    take fewer rather than add to the label that is ahead; else as they come. SEVA's probes make attributable claims
    false, so that by themselves they teach one label only.
    """
    own = {one.item.id for one in probes}
    places = [place for place, one in enumerate(pool) if one.item.id not in own]
    random.Random(f"factgym evolve replay {seed}").shuffle(places)
    if balance:
        places = _balanced(places, pool, count, sum(one.negative for one in probes), len(probes))
    chosen = sorted(places[:count])
    return [
        pool[place] if pool[place].origin == "probe" else replace(pool[place], origin="replay") for place in chosen
    ]


def _balanced(places: list[int], pool: Sequence[Example], count: int, negative: int, total: int) -> list[int]:
    """Places that bring both labels nearest to equal, at most `count` of them."""
    no = [place for place in places if pool[place].negative]
    yes = [place for place in places if not pool[place].negative]
    ahead = 2 * negative - total
    tries = []
    for of_no in range(min(count, len(no)) + 1):
        of_yes = max(0, min(ahead + of_no, len(yes), count - of_no))
        tries.append((abs(ahead + of_no - of_yes), -(of_no + of_yes), of_no, of_yes))
    _, _, of_no, of_yes = min(tries)
    return [*no[:of_no], *yes[:of_yes]]


def seeds(items: Iterable[AttributionClaim]) -> list[Example]:
    """Claims with their own gold, as examples."""
    return [Example(one, "seed") for one in items]
