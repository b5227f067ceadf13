"""Base classes of generated data sets, and the reader of the word tables that they draw from."""

from __future__ import annotations

import hashlib
import operator
import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, ClassVar, TypeVar, overload

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import Immutable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class GeneratedSequence(Immutable, Sequence[T_co]):
    """Immutable sequence of `size` items, each generated on access. ITEMS: the plural noun in messages."""

    ITEMS: ClassVar[str]
    size: int

    @abstractmethod
    def generate(self, index: int) -> T_co:
        """Generate the item at an index, 0 <= index < size."""

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self.generate(position) for position in range(*index.indices(self.size)))
        return self.generate(self._position(index))

    def _position(self, index: int) -> int:
        """Return the non-negative form of an index. Raises IndexError outside the sequence."""
        position = operator.index(index)
        position += self.size if position < 0 else 0
        if not 0 <= position < self.size:
            raise IndexError(f"index {index} of {self.size} generated {self.ITEMS}")
        return position


class GeneratedSplit(GeneratedSequence[T_co]):
    """Split of a generated data set. Item *i* depends on (seed, split, i) alone.

    A smaller size is a prefix of a larger size. Pickled as its arguments. A subclass sets `SPLITS` (split -> default
    size; the first is the default split), `ITEMS`, `IDENTITY`, and `MAX_SIZES` where sizes are bounded. Raises
    ConfigError for an unknown split or an impossible size.
    """

    SPLITS: ClassVar[Mapping[str, int]]
    MAX_SIZES: ClassVar[Mapping[str, int]] = {}
    IDENTITY: ClassVar[str]
    """Name and version of the generator, with fields for attributes of the split."""

    def __init__(self, split: str | None = None, *, seed: int = 0, size: int | None = None) -> None:
        split = next(iter(self.SPLITS)) if split is None else split
        if split not in self.SPLITS:
            hint = did_you_mean(split, self.SPLITS)
            raise ConfigError(f"unknown split {split!r:.80}; there are {', '.join(self.SPLITS)}.{hint}")
        limit = self.MAX_SIZES.get(split)
        if size is not None and (size < 1 or (limit is not None and size > limit)):
            bounds = "at least 1" if limit is None else f"from 1 to {limit:,}"
            raise ConfigError(f"size is the number of generated {self.ITEMS}, {bounds}, not {size!r}")
        self.split, self.seed = split, seed
        self.size = self.SPLITS[split] if size is None else size

    # Counter-based streams: each item has a generator of its own, seeded by (seed, split, index); see the subclasses.
    def identity(self) -> str:
        """Return a text of the generator's version, the split, the seed and the size."""
        return self.IDENTITY.format_map(vars(self))

    def fingerprint(self) -> str:
        """SHA-256 in hex over the identity; nothing is generated for it."""
        return hashlib.sha256(self.identity().encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), seed=self.seed, size=self.size), (self.split,)


def balanced_choice(values: Sequence[T], index: int, stream: str) -> T:
    """Return the value of item `index` where each block of `len(values)` items holds every value once.

    stream: the seed of the shuffle; each block appends its number.
    """
    # Permuted-block randomisation: every prefix is balanced up to a block, and no block's order can be predicted.
    block, position = divmod(index, len(values))
    order = list(values)
    random.Random(f"{stream} {block}").shuffle(order)
    return order[position]


@cache
def word_table(name: str) -> dict[str, Any]:
    """Return the table `wordings/{name}.toml`, its arrays as tuples; parsed once per process."""
    import tomllib

    text = files(__package__).joinpath("wordings", f"{name}.toml").read_text(encoding="utf-8")
    return {key: _freeze(value) for key, value in tomllib.loads(text).items()}


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _freeze(item) for key, item in value.items()}
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Relation:
    """Kind of fact of a generated world. Of questions and statements, the usual form comes first.

    target: the kind of the object. statements: for the subject's document; inverse: for the object's. phrase: names
    the object in a question of several hops. bounds: smallest and greatest number. after: relation to an older person.
    """

    name: str
    target: str
    questions: tuple[str, ...]
    statements: tuple[str, ...]
    phrase: str = ""
    inverse: tuple[str, ...] = ()
    bounds: tuple[int, int] = (0, 0)
    after: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of subject of a generated world. leads: templates of first sentences. stub: a template that states no fact.

    count: subjects in a block of questions. phrase: names a subject in a question.
    """

    name: str
    leads: tuple[str, ...]
    fillers: tuple[str, ...]
    relations: tuple[Relation, ...]
    stub: str = ""
    count: int = 0
    phrase: str = ""


@cache
def world_kinds(table: str) -> Mapping[str, Kind]:
    """Return the kinds of subjects of a world's table by name."""
    rows = word_table(table)["kinds"]
    return {
        row["name"]: Kind(**row | {"relations": tuple(Relation(**item) for item in row["relations"])}) for row in rows
    }


def world_aliases(table: str, kind: str, value: str) -> tuple[str, ...]:
    """Return the names of an object of a kind, the usual name first; the world's table has templates of the others."""
    first, _, last = value.partition(" ")
    forms: tuple[str, ...] = word_table(table)["aliases"].get(kind, ())
    return (value, *(form.format(value, first=first, last=last) for form in forms))
