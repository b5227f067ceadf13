"""ContractNLI (Koreeda and Manning, 2021): 17 hypotheses about each non-disclosure agreement, with human evidence spans.

Entailment is supported, Contradiction contradicted, NotMentioned unsupported; there is neither overclaim nor partial
support in it. One example is one hypothesis about one contract. Human spans are the gold facts, at their exact
offsets; a hypothesis that is not mentioned has none, so the passages nearest to it are given instead. The data are CC BY
4.0 and no part of the package.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, overload
from urllib.parse import unquote

from factgym.core.errors import DataError, did_you_mean
from factgym.core.paths import is_folder, user_path
from factgym.core.tasks import Immutable
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Passage
from factgym.corpora.plain_text import heading_of, title_line
from factgym.corpora.rows import read_rows
from factgym.datasets.base import interleave
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, Status

MAX_PASSAGE_CHARS = 700
NEAREST = 5
_STATUS: dict[str, Status] = {"Entailment": "supported", "Contradiction": "contradicted", "NotMentioned": "unsupported"}
_REASON = {
    "Entailment": "Annotators marked the cited spans as entailing the statement.",
    "Contradiction": "Annotators marked the cited spans as contradicting the statement.",
    "NotMentioned": "Annotators found no span of the agreement that settles the statement.",
}
_VERSION = 2


@dataclass
class _Contract:
    id: str
    title: str
    text: str
    spans: tuple[tuple[int, int], ...]

    @cached_property
    def parts(self) -> list[tuple[Passage, int, int]]:
        """Consecutive spans joined to passages of at most 700 characters, with offsets; a longer span is one alone."""
        groups: list[list[tuple[int, int]]] = []
        for start, end in self.spans:
            if groups and end - groups[-1][0][0] <= MAX_PASSAGE_CHARS:
                groups[-1].append((start, end))
            else:
                groups.append([(start, end)])
        parts, heading = [], ""
        for number, group in enumerate(groups, start=1):
            start, end = group[0][0], group[-1][1]
            headings = [heading_of(self.text[first:last].strip()) for first, last in group]
            heading = headings[0] or heading
            is_below = heading and heading.casefold() != self.title.casefold()
            title = f"{self.title} › {heading}" if is_below else self.title
            parts.append((Passage(f"E{number}", title, self.text[start:end]), start, end))
            heading = next((name for name in reversed(headings) if name), heading)
        return parts

    @cached_property
    def index(self) -> SmallBM25:
        return SmallBM25(passage for passage, _, _ in self.parts)


@dataclass(frozen=True, slots=True)
class _Pair:
    """One hypothesis about one contract. choice: the label. spans: indices of the evidence."""

    contract: _Contract
    hypothesis: str
    choice: str
    spans: tuple[int, ...]

    @property
    def id(self) -> str:
        return f"contract-{self.contract.id}-{self.hypothesis}"


class ContractNliClaims(Immutable, Sequence[ClaimExample]):
    """The pairs of a ContractNLI file as examples: an immutable sequence, each item made on request.

    path: the JSON file, or the folder that holds `<split>.json`. Labels are interleaved in proportion, each in an order
    shuffled by `seed`, so that the first n examples are about as mixed as all; the order is the same everywhere.
    named: titles and questions name the contract, which a search over all of them needs. balanced: of each hypothesis
    no label has more pairs than the second most frequent one, so that knowing the hypothesis tells little of the label:
    563 of the 1,037 pairs of the development set.
    Raises DataError that names the document for content that does not match the data set's readme.
    """

    def __init__(
        self, path: str | Path, *, split: str = "dev", seed: int = 0, named: bool = False, balanced: bool = False
    ) -> None:
        path = user_path(path)
        file = path / f"{split}.json" if is_folder(path) else path
        rows = list(read_rows(file, suffixes=None))
        raw = rows[0].values if len(rows) == 1 else {}
        if not isinstance(raw.get("documents"), list) or not isinstance(raw.get("labels"), dict):
            raise DataError(f'{file}: expected an object with "documents" (a list) and "labels" (an object).')
        self.split, self.seed = split, seed
        self._labels = _parse_labels(raw["labels"], file.name)
        by_choice: dict[str, list[_Pair]] = {choice: [] for choice in _STATUS}
        for number, record in enumerate(raw["documents"]):
            location = f"{file.name}: documents[{number}]"
            contract = _parse_contract(record, location)
            if named:
                contract.title += f" (contract {contract.id})"
            for key, annotation in _annotations_of(record, location).items():
                pair = _parse_pair(contract, key, annotation, self._labels, f"{location} annotation {key[:40]!r}")
                by_choice[pair.choice].append(pair)
        self._named = named
        for choice, members in by_choice.items():
            random.Random(f"contractnli:{seed}:{choice}").shuffle(members)
        by_choice = _balance(by_choice, file.name) if balanced else by_choice
        self._pairs = tuple(interleave(by_choice.values()))
        if len({pair.id for pair in self._pairs}) != len(self._pairs):
            raise DataError(f"{file.name}: two documents share an id. Make the ids unique.")
        content = f"contractnli-{_VERSION}:{split}:{seed}:{named}:{balanced}:{json.dumps(raw, sort_keys=True)}"
        self._fingerprint = hashlib.sha256(content.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> ClaimExample: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ClaimExample, ...]: ...
    def __getitem__(self, index: int | slice) -> ClaimExample | tuple[ClaimExample, ...]:
        if isinstance(index, slice):
            return tuple(map(self._make, self._pairs[index]))
        return self._make(self._pairs[index])

    def fingerprint(self) -> str:
        """SHA-256 in hex over the file's content, the split and the order."""
        return self._fingerprint

    def _make(self, pair: _Pair) -> ClaimExample:
        """Return the example of a hypothesis over a contract; without evidence the nearest passages show silence."""
        contract = pair.contract
        passages = tuple(passage for passage, _, _ in contract.parts)
        topic, statement = self._labels[pair.hypothesis]
        status = _STATUS[pair.choice]
        facts = tuple(_gold_fact(contract.spans[span], contract.parts) for span in pair.spans)
        unsupported = "" if status == "supported" else statement.rstrip().rstrip(".")
        claim = GoldClaim(statement, status, facts, unsupported, "none", _REASON[pair.choice])
        nearest: tuple[str, ...] = ()
        if not facts:
            hits = contract.index.search([statement], NEAREST)[0]
            nearest = tuple(hit.id for hit in hits) or tuple(passage.id for passage in passages[:NEAREST])
        return ClaimExample(
            id=pair.id,
            split=self.split,
            domain="contracts",
            question=f"What does {contract.title if self._named else 'this agreement'} say about “{topic}”?",
            answer=statement,
            passages=passages,
            claims=(claim,),
            verdict=status,
            nearest=nearest,
        )


def _balance(by_choice: Mapping[str, Sequence[_Pair]], name: str) -> dict[str, list[_Pair]]:
    """Keep of each hypothesis and label at most as many pairs, the first, as its second most frequent label has."""
    counts = {choice: Counter(pair.hypothesis for pair in pairs) for choice, pairs in by_choice.items()}
    balanced: dict[str, list[_Pair]] = {choice: [] for choice in by_choice}
    for choice, pairs in by_choice.items():
        taken: Counter[str] = Counter()
        for pair in pairs:
            limit = sorted(count[pair.hypothesis] for count in counts.values())[-2]
            taken[pair.hypothesis] += 1
            if taken[pair.hypothesis] <= limit:
                balanced[choice].append(pair)
    if not any(balanced.values()):
        raise DataError(f"{name}: no hypothesis has two labels, so they cannot be balanced: balance=False.")
    return balanced


def _gold_fact(span: tuple[int, int], parts: Sequence[tuple[Passage, int, int]]) -> GoldFact:
    """Return an evidence span as a fact: its passage, and its range there without the white space at its ends."""
    passage, offset, _ = next(part for part in parts if part[1] <= span[0] and span[1] <= part[2])
    text = passage.text[span[0] - offset : span[1] - offset]
    start = span[0] - offset + len(text) - len(text.lstrip())
    return GoldFact(passage.id, start, start + len(text.strip()))


def _parse_labels(raw: Mapping[str, Any], name: str) -> dict[str, tuple[str, str]]:
    """Return hypothesis id -> (short description, hypothesis)."""
    labels = {}
    for key, value in raw.items():
        texts = [value.get(field) if isinstance(value, dict) else "" for field in ("short_description", "hypothesis")]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise DataError(f"{name}: labels[{key[:40]!r}] needs the texts 'short_description' and 'hypothesis'.")
        labels[key] = (str(texts[0]), str(texts[1]))
    return labels


def _parse_contract(record: object, location: str) -> _Contract:
    """Check a contract's text and spans, which must be in order and may not overlap, and name it by its first lines."""
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise DataError(f"{location}: expected an object with a 'text'.")
    text, previous_end = record["text"], 0
    spans = record.get("spans")
    if not isinstance(spans, list) or not spans:
        raise DataError(f"{location}: 'spans' must be a list of [start, end] pairs.")
    for number, span in enumerate(spans):
        is_pair = isinstance(span, list) and len(span) == 2 and all(type(offset) is int for offset in span)
        if not is_pair or not previous_end <= span[0] < span[1] <= len(text):
            raise DataError(
                f"{location} span {number}: {str(span)[:60]} is no range of its {len(text)} characters, in order."
            )
        previous_end = span[1]
    lines = [line for line in text.split("\n", 5)[:3] if line.strip()]
    stem = PurePosixPath(unquote(str(record.get("file_name") or "unnamed")[:200])).stem
    title = title_line(lines[:1]).strip() or f"Non-disclosure agreement ({stem})"
    return _Contract(str(record.get("id", location)), title, text, tuple((start, end) for start, end in spans))


def _annotations_of(record: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Return hypothesis id -> annotation."""
    sets = record.get("annotation_sets")
    first = sets[0] if isinstance(sets, list) and sets else None
    annotations = first.get("annotations") if isinstance(first, dict) else None
    if not isinstance(annotations, dict):
        raise DataError(f"{location}: expected annotation_sets[0].annotations, an object.")
    return annotations


def _parse_pair(
    contract: _Contract, key: str, annotation: object, labels: Mapping[str, object], location: str
) -> _Pair:
    if key not in labels:
        raise DataError(f"{location}: this hypothesis is not among 'labels'.{did_you_mean(key, labels)}")
    choice = annotation.get("choice") if isinstance(annotation, dict) else None
    if not isinstance(annotation, dict) or choice not in _STATUS:
        raise DataError(f"{location}: choice is {str(choice)[:40]!r}; expected one of {', '.join(_STATUS)}.")
    spans = annotation.get("spans")
    is_valid = isinstance(spans, list) and all(type(span) is int and 0 <= span < len(contract.spans) for span in spans)
    if not isinstance(spans, list) or not is_valid or (choice != "NotMentioned" and not spans):
        raise DataError(f"{location}: 'spans' must number spans of the document, at least one unless NotMentioned.")
    return _Pair(contract, key, choice, () if choice == "NotMentioned" else tuple(spans))
