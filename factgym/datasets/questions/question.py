"""The record of a question with its gold answers, and what a set of questions is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, overload


@dataclass(frozen=True, slots=True)
class Question:
    """One factual question.

    id: unique in its set. aliases: every answer that counts as right, the usual one first, none twice. benchmark: which
    data set. popularity: how well known its subject is, in the data set's own unit (monthly page views in PopQA, sentences
    that state the fact in the generated world), None where that is not known. meta: a few small facts about where it
    comes from, JSON data; "kind" groups questions where the data set does.
    """

    id: str
    question: str
    aliases: tuple[str, ...]
    benchmark: str = ""
    popularity: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    def __reduce__(self) -> tuple[Any, ...]:
        own = (self.id, self.question, self.aliases, self.benchmark, self.popularity, dict(self.meta))
        return Question, own

    def __deepcopy__(self, memo: dict[int, Any]) -> Question:
        return self


class Questions(Protocol):
    """What every set of questions is: an immutable sequence that can say whether it is the same as another."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Question]: ...
    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        ...
