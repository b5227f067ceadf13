"""Task sets: examples made on demand, each with the library that its episode searches."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from factgym.core.tasks import LazyTaskSet, SharedByArguments, shared
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact
from factgym.envs.claimcheck.config import REAL, ClaimCheckConfig
from factgym.envs.claimcheck.sources import DATA_VARIABLE, load_examples
from factgym.rewards.claimcheck import ClaimGold, gold_of
from factgym.tools.library import PassageLibrary
from factgym.tools.untrusted import neutralise


class Examples(Protocol):
    """What a source of examples is."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> ClaimExample: ...

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimTask(SharedByArguments):
    """One answer to check, its gold, and the library that the episode searches. Immutable and shared.

    place: the set that made it and its position there, which is what a pickle holds.
    """

    id: str
    example: ClaimExample
    gold: ClaimGold
    library: PassageLibrary = field(compare=False)
    place: tuple[ClaimTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.place

    def text_of(self, passage_id: str) -> str | None:
        """A passage's text as the policy sees it, None for an id that does not exist."""
        passage = self.library.find(passage_id)
        return passage.text if passage is not None else None


class TaskLibrary(PassageLibrary):
    """A library that a task set made: a pickle holds the set and, unless it is the haystack, the task's position."""

    place: tuple[ClaimTaskSet, int | None]

    def __reduce__(self) -> tuple[Any, ...]:
        return _library_at, self.place


def _library_at(tasks: ClaimTaskSet, index: int | None) -> PassageLibrary:
    return tasks.haystack.library if index is None else tasks[index].library


class ClaimTaskSet(LazyTaskSet[ClaimTask]):
    """The tasks of one configuration. Thread-safe; a task is made when it is first asked for."""

    def __init__(self, examples: Examples, config: ClaimCheckConfig) -> None:
        super().__init__()
        self._examples = examples
        self._config = config
        self._haystack: Haystack | None = None

    def __len__(self) -> int:
        return len(self._examples)

    def id_at(self, index: int) -> str:
        """The id of a task."""
        return self._examples[index].id

    def make(self, index: int) -> ClaimTask:
        """A task made anew."""
        example = _shown(self._examples[index])
        if self._config.haystack:
            example, library = self.haystack.place(example), self.haystack.library
        else:
            library = self._library(example.passages, index)
        return ClaimTask(example.id, example, gold_of(example), library, (self, index))

    def _library(self, passages: Sequence[Passage], index: int | None = None) -> PassageLibrary:
        library = TaskLibrary(passages, self._config.index, **(self._config.index_options or {}))
        library.place = self, index
        return library

    @property
    def haystack(self) -> Haystack:
        """The passages of all tasks in one library, built when it is first needed."""
        with self._lock:
            if self._haystack is None:
                self._haystack = Haystack((_shown(self._examples[i]) for i in range(len(self))), self._library)
            return self._haystack

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        mode = "haystack" if self._config.haystack else "own"
        return hashlib.sha256(f"{self._examples.fingerprint()}:{mode}".encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[Callable[[ClaimCheckConfig], ClaimTaskSet], tuple[ClaimCheckConfig]]:
        return claim_tasks, (self._config,)


def claim_tasks(config: ClaimCheckConfig) -> ClaimTaskSet:
    """The shared task set of a configuration."""
    path = os.environ.get(DATA_VARIABLE) if config.path is None and config.source in REAL else config.path
    key = (
        "claimcheck",
        config.source,
        config.chosen_split,
        config.size,
        path and Path(path).resolve(),
        config.seed,
        config.haystack,
        _identity(config.index),
        tuple((name, _identity(value)) for name, value in sorted((config.index_options or {}).items())),
    )
    return shared(key, lambda: ClaimTaskSet(load_examples(config), config))


def _identity(value: object) -> str:
    """Plain data by its content, anything else by which object it is (the set that holds it keeps it alive)."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return f"object {id(value)}"


def _shown(example: ClaimExample) -> ClaimExample:
    """The example as a policy sees it, its passages, question and answer neutralised; offsets stay true."""
    answer = neutralise(example.answer)
    claims = example.claims
    if answer != example.answer:
        claims = tuple(_shown_claim(claim, example.answer, answer) for claim in claims)
    return replace(
        example,
        question=neutralise(example.question),
        answer=answer,
        passages=tuple(replace(one, text=neutralise(one.text)) for one in example.passages),
        claims=claims,
    )


def _shown_claim(claim: GoldClaim, answer: str, shown: str) -> GoldClaim:
    # Taken from the whole answer: a part that ends inside a marker would not be neutralised by itself.
    start = answer.index(claim.text)
    text = shown[start : start + len(claim.text)]
    span = claim.text.index(claim.unsupported_span)
    return replace(claim, text=text, unsupported_span=text[span : span + len(claim.unsupported_span)])


class Haystack:
    """All passages of a split under ids of their own; passages that several examples share are held once."""

    def __init__(
        self, examples: Iterable[ClaimExample], library: Callable[[Sequence[Passage]], PassageLibrary]
    ) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        passages: list[Passage] = []
        for example in examples:
            for passage in example.passages:
                key = (passage.title, passage.text)
                if key not in self._ids:
                    self._ids[key] = f"P{len(self._ids) + 1:05d}"
                    passages.append(replace(passage, id=self._ids[key]))
        self.library = library(passages)

    def place(self, example: ClaimExample) -> ClaimExample:
        """The example with its ids as the haystack has them."""
        new = {one.id: self._ids[one.title, one.text] for one in example.passages}
        claims = tuple(
            replace(claim, facts=tuple(GoldFact(new[f.passage], f.start, f.end) for f in claim.facts))
            for claim in example.claims
        )
        passages = tuple(replace(one, id=new[one.id]) for one in example.passages)
        return replace(example, passages=passages, claims=claims, nearest=tuple(new[one] for one in example.nearest))
