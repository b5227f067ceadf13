"""ClaimCheck examples over real documents: claims cut from their sentences, true or corrupted, made on demand.

ClaimCheck ("Building The Benchmark") generates its documents; here a folder of policies, contracts or handbooks takes
their place, and the same kinds of controlled corruption work on its sentences. Every claim has a source sentence, so
gold evidence is exact. Left out: claims that join facts of several sentences (the synthetic generator makes those).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import overload

from factgym.core.errors import ConfigError, DataError
from factgym.core.shared import SharedByArguments
from factgym.corpora.corpus import Passage
from factgym.corpora.readers.document import Document
from factgym.corpora.readers.folder import read_folder
from factgym.datasets.claims import VERDICTS, ClaimExample, Verdict
from factgym.generators.corruption.operators import OPERATORS
from factgym.generators.documents.compose import Composer, Layout
from factgym.generators.documents.index import DocumentIndex

WINDOW = 12
PASSAGES = 16
_EVEN_SHARE = 400


@dataclass(frozen=True, slots=True)
class Stock:
    """What a folder can give.

    documents and sentences: how many are usable. unusable: ids of documents without a usable sentence. claims:
    operator -> number of sentences it applies to. missing: verdicts that no sentence allows.
    """

    documents: int
    sentences: int
    unusable: tuple[str, ...]
    claims: Mapping[str, int]
    missing: tuple[Verdict, ...]


class DocumentClaims(SharedByArguments, Sequence[ClaimExample]):
    """Examples over documents: an immutable sequence in which item *i* is made when it is asked for.

    documents: documents, or the path of a folder for `read_folder`. split: written into ids and part of the seed, so
    that two splits of one folder never share an example (they do share sentences: give train and test folders of
    their own). size: the number of items, by default as many as come without any verdict's sentences being
    used twice. window: at most so many
    neighbouring passages of the document that is asked about. passages: their number with the decoys of other
    documents. haystack: passages keep their ids of the folder, so that all of `corpus` can be searched.

    Verdicts take turns in shuffled rounds, so every prefix is balanced; within a verdict the operators take turns as
    far as the documents carry them (`stock` says how far). Item *i* depends on (split, seed, i), the window settings
    and the documents alone. Raises DataError where no sentence is usable.
    """

    def __init__(
        self,
        documents: Sequence[Document] | str | Path,
        *,
        split: str = "test",
        seed: int = 0,
        size: int | None = None,
        window: int = WINDOW,
        passages: int = PASSAGES,
        haystack: bool = False,
        domain: str = "documents",
    ) -> None:
        if window < 1 or passages < window or (size is not None and size < 1):
            raise ConfigError("window and size must be at least 1, and passages at least as many as window")
        named = isinstance(documents, str | Path)
        self._index = DocumentIndex(read_folder(documents) if isinstance(documents, str | Path) else documents)
        if not self._index.sources:
            where = f"{documents}: " if named else ""
            raise DataError(f"{where}no sentence that can be a claim; expected prose such as policies or contracts.")
        self.split, self.seed = split, seed
        self._layout = Layout(split, domain, window, passages, haystack)
        self._plans: dict[Verdict, tuple[tuple[str, int], ...]] = {}
        self._verdicts = tuple(verdict for verdict in VERDICTS if self._possible(verdict))
        self._size = size or len(self._verdicts) * min(len(self._plan(verdict)) for verdict in self._verdicts)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> ClaimExample: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ClaimExample, ...]: ...
    def __getitem__(self, index: int | slice) -> ClaimExample | tuple[ClaimExample, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(self._size)))
        number = index + self._size if index < 0 else index
        if not 0 <= number < self._size:
            raise IndexError(f"item {index} of {self._size}")
        return self._make(number)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._index.documents, self.seed, self._size, astuple(self._layout))

    def index_of(self, task_id: str) -> int:
        """The position of an example's id. Raises ConfigError for an id that is not in the sequence."""
        prefix, _, number = task_id.rpartition("-")
        if prefix != f"docs-{self.split}" or not number.isascii() or not number.isdigit() or len(number) > 12:
            raise ConfigError(f"no example {task_id[:80]!r}: ids look like 'docs-{self.split}-00000'")
        if int(number) >= self._size:
            raise ConfigError(f"no example {task_id!r}: there are {self._size}")
        return int(number)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the documents, the operators' version and every setting."""
        settings = [self.seed, self._size, *astuple(self._layout)]
        return hashlib.sha256(json.dumps([self._index.fingerprint, settings]).encode()).hexdigest()

    @property
    def corpus(self) -> tuple[Passage, ...]:
        """Every passage of the folder, under its folder id."""
        return tuple(passage for document in self._index.documents for passage in document.passages)

    @property
    def stock(self) -> Stock:
        """What the documents can give; asks every operator about every sentence (about 0.3 seconds per MB)."""
        used = self._index.by_document
        unusable = tuple(one.id for one, found in zip(self._index.documents, used, strict=True) if not found)
        claims = {name: len(self._index.pool(name)) for name in OPERATORS}
        missing = tuple(verdict for verdict in VERDICTS if verdict not in self._verdicts)
        return Stock(len(used) - len(unusable), len(self._index.sources), unusable, claims, missing)

    def _operators(self, verdict: Verdict) -> list[str]:
        """The operators that can make this verdict; an addition needs a true claim beside it."""
        if verdict == "partially_supported":
            return [name for name in OPERATORS if name != "irrelevant"]
        return [name for name, one in OPERATORS.items() if one.status == verdict and name != "addition"]

    def _possible(self, verdict: Verdict) -> bool:
        return verdict == "supported" or any(self._index.applies(name) for name in self._operators(verdict))

    def _plan(self, verdict: Verdict) -> tuple[tuple[str, int], ...]:
        """Operator and sentence of every item with this verdict, in order; it starts over when it is used up."""
        if verdict not in self._plans:
            rng = random.Random(f"{self._index.fingerprint}:{self.split}:{self.seed}:{verdict}")
            if verdict == "supported":
                pools = {"none": list(range(len(self._index.sources)))}
            else:
                pools = {name: list(self._index.pool(name)) for name in self._operators(verdict)}
            for pool in pools.values():
                rng.shuffle(pool)
            self._plans[verdict] = tuple(_take_turns(pools))
        return self._plans[verdict]

    def _make(self, number: int) -> ClaimExample:
        block, place = divmod(number, len(self._verdicts))
        order = list(self._verdicts)
        random.Random(f"{self.split}:{self.seed}:block:{block}").shuffle(order)
        plan = self._plan(order[place])
        round_, step = divmod(block, len(plan))
        operator, source = plan[step]
        rng = random.Random(f"{self._index.fingerprint}:{self.split}:{self.seed}:{number}")
        id_ = f"docs-{self.split}-{number:05d}"
        return Composer(self._index, self._layout, rng).compose(id_, order[place], operator, source, round_)


def _rebuild(
    documents: tuple[Document, ...], seed: int, size: int, layout: tuple[str, str, int, int, bool]
) -> DocumentClaims:
    split, domain, window, passages, haystack = layout
    return DocumentClaims(
        documents,
        split=split,
        seed=seed,
        size=size,
        window=window,
        passages=passages,
        haystack=haystack,
        domain=domain,
    )


def _take_turns(pools: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """The pools mixed evenly: about equal shares in the first few hundred, what remains of the larger ones after."""
    level, total = 0, 0
    while total < _EVEN_SHARE and any(len(pool) > level for pool in pools.values()):
        total += sum(len(pool) > level for pool in pools.values())
        level += 1
    early = [((place + 0.5) / min(level, len(pool)), name, pool[place])
             for name, pool in pools.items() for place in range(min(level, len(pool)))]  # fmt: skip
    late = [((place + 0.5) / len(pool), name, pool[place])
            for name, pool in pools.items() for place in range(level, len(pool))]  # fmt: skip
    return [(name, number) for _, name, number in [*sorted(early), *sorted(late)]]
