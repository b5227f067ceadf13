"""The record of a question with its answers and the evidence for them, and what a set of such records is.

EVE's proposer writes triples (question, answer, evidence) and its solver is rewarded for answer and evidence; people's
benchmarks come with annotated evidence or with none. One record holds all of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, overload

from factgym.core.tasks import SharedByArguments


@dataclass(frozen=True, slots=True)
class Evidence:
    """A verbatim stretch of a document.

    document: its id in the corpus, "" where only the text is known. start, end: `text` is exactly that slice of the
    document's text, offsets in characters; both None where the place is not known.
    """

    document: str
    start: int | None
    end: int | None
    text: str

    @property
    def is_placed(self) -> bool:
        """Whether document and offsets are known."""
        return bool(self.document) and self.start is not None and self.end is not None


@dataclass(frozen=True, slots=True)
class Triple:
    """One question with what answers it.

    id: unique in its set. answers: every text that counts as right, the usual one first, none twice. evidence: gold
    spans, in the order of the hops where that is known; empty where there are none. hops: facts that have to be joined,
    None where that is not known. benchmark: which data set. kind: the data set's own type of question, None without
    one. meta: a few small facts about where it comes from, JSON data.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()
    hops: int | None = None
    benchmark: str = ""
    kind: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    @property
    def answer(self) -> str:
        """The usual answer."""
        return self.answers[0]

    def __reduce__(self) -> tuple[Any, ...]:
        own = (self.question, self.answers, self.evidence, self.hops, self.benchmark, self.kind, dict(self.meta))
        return Triple, (self.id, *own)

    def __deepcopy__(self, memo: dict[int, Any]) -> Triple:
        return self


class Triples(Protocol):
    """What every set of triples is: an immutable sequence that can say whether it is the same as another."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> Triple: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Triple]: ...
    def fingerprint(self) -> str:
        """A text that differs whenever the content differs."""
        ...


class TripleSequence(SharedByArguments, Sequence[Triple]):
    """Triples that are held; a subclass says what its copies are made of."""

    _triples: tuple[Triple, ...]

    def __len__(self) -> int:
        return len(self._triples)

    @overload
    def __getitem__(self, index: int) -> Triple: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Triple, ...]: ...
    def __getitem__(self, index: int | slice) -> Triple | tuple[Triple, ...]:
        return self._triples[index]
