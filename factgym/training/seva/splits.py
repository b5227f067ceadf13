"""The benchmarks that an evolution is measured on, and the claims that it may learn from, kept apart.

The paper's algorithm reads the weakness profile and the result off one held-out set. Here each benchmark has three
parts: "test", which is measured and nothing else; "reflect", whose failures make the profile and the rules; and
"material", from which probes and replay are made. Claims of one source are in one part, so that no text is trained on
and then tested, and each part has the labels in the proportion of the whole.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import make
from factgym.datasets.attribution import BENCHMARKS, AttributionClaim
from factgym.generators.attribution import SPLITS

Part = Literal["test", "reflect", "material"]
PARTS: tuple[Part, ...] = ("test", "reflect", "material")
SHARES: Mapping[Part, Fraction] = {"test": Fraction(1, 2), "reflect": Fraction(1, 5), "material": Fraction(3, 10)}

GENERATED = "generated"
NAMES = (*BENCHMARKS, *(f"{GENERATED}-{split}" for split in SPLITS))
"""What can be measured and learned from: public benchmarks, and the splits of generated claims, which need no data."""


@dataclass(frozen=True)
class World:
    """One benchmark. env: plays it. parts: indices of its tasks."""

    name: str
    env: Env[Any]
    parts: Mapping[Part, tuple[int, ...]]

    def claims(self, part: Part) -> list[AttributionClaim]:
        """The claims of a part, in their order."""
        return [self.env.tasks[place].item for place in self.parts[part]]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the tasks and the parts."""
        content = json.dumps([self.env.tasks.fingerprint(), {part: self.parts[part] for part in PARTS}])
        return hashlib.sha256(content.encode()).hexdigest()


def open_world(name: str, *, path: str | None, size: int | None, seed: int, measured: bool = True) -> World:
    """The world of a benchmark's name.

    path: file or folder of a public benchmark. size: claims at most. measured: False where it is only learned from,
    so that all of it is material. Raises ConfigError for an unknown name and DataError for unusable data.
    """
    env = _env(name, path, size, seed)
    if not measured:
        return World(name, env, {"test": (), "reflect": (), "material": tuple(range(len(env.tasks)))})
    found = World(name, env, split_parts([env.tasks[place].item for place in range(len(env.tasks))], seed))
    if not found.parts["test"] or not found.parts["reflect"]:
        raise ConfigError(f"{name!r} has {len(env.tasks)} claims, too few to measure and to reflect on")
    return found


def _env(name: str, path: str | None, size: int | None, seed: int) -> Env[Any]:
    if name not in NAMES:
        raise ConfigError(f"there is no benchmark {name!r}.{did_you_mean(name, NAMES)} There are: {', '.join(NAMES)}.")
    sized: dict[str, Any] = {} if size is None else {"size": size}
    kind, _, split = name.partition("-")
    if kind == GENERATED:
        return make("seva", split=split, seed=seed, **sized)
    return make(f"seva-{name}", seed=seed, **sized, **({} if path is None else {"path": path}))


def split_parts(claims: Sequence[AttributionClaim], seed: int) -> dict[Part, tuple[int, ...]]:
    """Indices of the claims in three parts, claims of one source together, by `SHARES` and within each label."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(claims):
        groups[one.source].append(place)
    layers: dict[tuple[str, ...], list[list[int]]] = defaultdict(list)
    for group in groups.values():
        layers[tuple(sorted({claims[place].label for place in group}))].append(group)
    found: dict[Part, list[int]] = {part: [] for part in PARTS}
    for layer in layers.values():
        layer.sort(key=lambda group: _lot(claims[group[0]].source, seed))
        _deal(layer, found)
    return {part: tuple(sorted(places)) for part, places in found.items()}


def _deal(groups: list[list[int]], found: dict[Part, list[int]]) -> None:
    """Each group goes to the part that lacks most of what it should have by now."""
    dealt: dict[Part, int] = dict.fromkeys(PARTS, 0)
    so_far = 0
    for group in groups:
        so_far += len(group)
        part = max(PARTS, key=lambda one: SHARES[one] * so_far - dealt[one])
        dealt[part] += len(group)
        found[part] += group


def _lot(text: str, seed: int) -> str:
    return hashlib.sha256(f"factgym evolve parts {seed} {text}".encode("utf-8", "surrogatepass")).hexdigest()


def task_ids(world: World, part: Part) -> frozenset[str]:
    """The ids of the tasks of a part, as records name them."""
    return frozenset(cast(str, world.env.tasks[place].id) for place in world.parts[part])
