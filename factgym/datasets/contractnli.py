"""ContractNLI (Koreeda and Manning, 2021): 17 hypotheses about each non-disclosure agreement, with human evidence spans.

Entailment is supported, Contradiction contradicted, NotMentioned unsupported; there is neither overclaim nor partial
support in it. One example is one hypothesis about one contract. Human spans are the gold facts, at their exact
offsets; a hypothesis that is not mentioned has none, so the passages nearest to it stand for where to look.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, overload
from urllib.parse import unquote

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Passage
from factgym.corpora.readers.plain import heading_of, title_line
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, Status

MAX_PASSAGE_CHARS = 700
NEAREST = 5
_STATUS: dict[str, Status] = {
    "Entailment": "supported",
    "Contradiction": "contradicted",
    "NotMentioned": "unsupported",
}
_REASON = {
    "Entailment": "Annotators marked the cited spans as entailing the statement.",
    "Contradiction": "Annotators marked the cited spans as contradicting the statement.",
    "NotMentioned": "Annotators found no span of the agreement that settles the statement.",
}
_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Pair:
    """One hypothesis about one contract: positions in the file's documents, the choice, and the evidence spans."""

    document: int
    hypothesis: str
    choice: str
    spans: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Contract:
    id: str
    title: str
    text: str
    spans: tuple[tuple[int, int], ...]


class ContractNliClaims(SharedByArguments, Sequence[ClaimExample]):
    """The pairs of a ContractNLI file as examples: an immutable sequence, each item made when it is asked for.

    path: the JSON file, or the folder that holds `<split>.json`. Labels are interleaved in proportion, each in an order
    shuffled by `seed`, so that the first n examples are about as mixed as all; the order is the same everywhere.
    named: titles and questions name the contract, which a search over all of them needs.
    Raises DataError with the place for a file or record that is not what the data set's readme describes.
    """

    def __init__(self, path: str | Path, *, split: str = "dev", seed: int = 0, named: bool = False) -> None:
        file = Path(path) / f"{split}.json" if Path(path).is_dir() else Path(path)
        raw = _load(file)
        self.split, self.seed = split, seed
        self._labels = _read_labels(raw, file.name)
        self._contracts, pairs = _read_documents(raw, self._labels, file.name)
        if named:
            self._contracts = tuple(replace(one, title=f"{one.title} (contract {one.id})") for one in self._contracts)
        self._named = named
        self._pairs = tuple(_interleave(pairs, seed))
        self._ids = {self._id(pair): number for number, pair in enumerate(self._pairs)}
        if len(self._ids) != len(self._pairs):
            raise DataError(f"{file.name}: two documents share an id. Make the ids unique.")
        self._passages: dict[int, tuple[tuple[Passage, int, int], ...]] = {}
        text = json.dumps(raw, sort_keys=True)
        self._fingerprint = hashlib.sha256(
            f"contractnli-{_VERSION}:{split}:{seed}:{named}:{text}".encode()
        ).hexdigest()

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

    def index_of(self, task_id: str) -> int:
        """The position of an example's id. Raises ConfigError for an id that is not in the sequence."""
        try:
            return self._ids[task_id]
        except KeyError:
            raise ConfigError(f"no example {task_id[:80]!r}.{did_you_mean(task_id[:80], self._ids)}") from None

    def fingerprint(self) -> str:
        """SHA-256 in hex over the file's content, the split and the order."""
        return self._fingerprint

    def _id(self, pair: _Pair) -> str:
        return f"contract-{self._contracts[pair.document].id}-{pair.hypothesis}"

    def _parts(self, number: int) -> tuple[tuple[Passage, int, int], ...]:
        if number not in self._passages:
            self._passages[number] = tuple(_cut(self._contracts[number]))
        return self._passages[number]

    def _make(self, pair: _Pair) -> ClaimExample:
        parts = self._parts(pair.document)
        passages = tuple(passage for passage, _, _ in parts)
        matter, statement = self._labels[pair.hypothesis]
        status = _STATUS[pair.choice]
        spans = (self._contracts[pair.document].spans[number] for number in pair.spans)
        facts = tuple(_locate(span, parts) for span in spans)
        wrong = "" if status == "supported" else statement.rstrip().rstrip(".")
        claim = GoldClaim(statement, status, facts, wrong, "none", _REASON[pair.choice])
        near = () if facts else tuple(hit.id for hit in SmallBM25(passages).search([statement], NEAREST)[0])
        return ClaimExample(
            id=self._id(pair),
            split=self.split,
            domain="contracts",
            question=f"What does {self._contracts[pair.document].title if self._named else 'this agreement'} say about "
            f"“{matter}”?",
            answer=statement,
            passages=passages,
            claims=(claim,),
            verdict=status,
            nearest=near or (() if facts else tuple(passage.id for passage in passages[:NEAREST])),
        )


def _interleave(pairs: Iterable[_Pair], seed: int) -> list[_Pair]:
    """Each label's pairs shuffled, then all labels spread evenly over the whole order."""
    by_choice: dict[str, list[_Pair]] = {choice: [] for choice in _STATUS}
    for pair in pairs:
        by_choice[pair.choice].append(pair)
    placed = []
    for number, (choice, members) in enumerate(by_choice.items()):
        random.Random(f"contractnli:{seed}:{choice}").shuffle(members)
        placed += [((place + 0.5) / len(members), number, pair) for place, pair in enumerate(members)]
    return [pair for _, _, pair in sorted(placed, key=lambda entry: entry[:2])]


def _cut(contract: _Contract) -> Iterable[tuple[Passage, int, int]]:
    """Consecutive spans as passages of at most 700 characters (one longer span stands alone), with their offsets."""
    groups: list[list[tuple[int, int]]] = []
    for start, end in contract.spans:
        if groups and end - groups[-1][0][0] <= MAX_PASSAGE_CHARS:
            groups[-1].append((start, end))
        else:
            groups.append([(start, end)])
    heading = ""
    for number, group in enumerate(groups, start=1):
        start, end = group[0][0], group[-1][1]
        names = [name for first, last in group if (name := heading_of(contract.text[first:last].strip()))]
        opens = heading_of(contract.text[start : group[0][1]].strip())
        heading = opens or heading
        apart = heading and heading.casefold() != contract.title.casefold()
        title = f"{contract.title} › {heading}" if apart else contract.title
        yield Passage(f"E{number}", title, contract.text[start:end]), start, end
        heading = names[-1] if names else heading


def _locate(span: tuple[int, int], parts: Sequence[tuple[Passage, int, int]]) -> GoldFact:
    """An evidence span as a fact: its passage, and its range there without the white space at its ends."""
    passage, start, _ = next(part for part in parts if part[1] <= span[0] and span[1] <= part[2])
    text = passage.text[span[0] - start : span[1] - start]
    first = span[0] - start + len(text) - len(text.lstrip())
    return GoldFact(passage.id, first, first + len(text.strip()))


def _load(file: Path) -> dict[str, Any]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); expected a ContractNLI JSON file.") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{file} line {error.lineno}: not valid JSON at column {error.colno} ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: not usable JSON ({str(error)[:100]}).") from None
    if (
        not isinstance(raw, dict)
        or not isinstance(raw.get("documents"), list)
        or not isinstance(raw.get("labels"), dict)
    ):
        raise DataError(f'{file}: expected an object with "documents" (a list) and "labels" (an object).')
    return raw


def _read_labels(raw: Mapping[str, Any], name: str) -> dict[str, tuple[str, str]]:
    """Hypothesis id -> (short description, hypothesis)."""
    labels = {}
    for key, value in raw["labels"].items():
        texts = (
            [value.get(field) for field in ("short_description", "hypothesis")] if isinstance(value, dict) else [None]
        )
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise DataError(f"{name}: labels[{key[:40]!r}] needs the texts 'short_description' and 'hypothesis'.")
        labels[key] = (str(texts[0]), str(texts[1]))
    return labels


def _read_documents(
    raw: Mapping[str, Any], labels: Mapping[str, object], name: str
) -> tuple[tuple[_Contract, ...], list[_Pair]]:
    contracts: list[_Contract] = []
    pairs: list[_Pair] = []
    for number, record in enumerate(raw["documents"]):
        place = f"{name}: documents[{number}]"
        contract = _read_contract(record, place)
        annotations = _annotations(record, place)
        for key, annotation in annotations.items():
            pairs.append(_read_pair(number, key, annotation, contract, labels, f"{place} annotation {key[:40]!r}"))
        contracts.append(contract)
    return tuple(contracts), pairs


def _read_contract(record: object, place: str) -> _Contract:
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise DataError(f"{place}: expected an object with a 'text'.")
    text, last = record["text"], 0
    spans = record.get("spans")
    if not isinstance(spans, list) or not spans:
        raise DataError(f"{place}: 'spans' must be a list of [start, end] pairs.")
    for number, span in enumerate(spans):
        whole = isinstance(span, list) and len(span) == 2 and all(type(end) is int for end in span)
        if not whole or not last <= span[0] < span[1] <= len(text):
            raise DataError(
                f"{place} span {number}: {str(span)[:60]} is no range of its {len(text)} characters, in order."
            )
        last = span[1]
    lines = [line for line in text.split("\n", 5)[:3] if line.strip()]
    stem = PurePosixPath(unquote(str(record.get("file_name") or "unnamed")[:200])).stem
    title = title_line(lines[:1]).strip() or f"Non-disclosure agreement ({stem})"
    return _Contract(str(record.get("id", place)), title, text, tuple((start, end) for start, end in spans))


def _annotations(record: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    sets = record.get("annotation_sets")
    first = sets[0] if isinstance(sets, list) and sets else None
    annotations = first.get("annotations") if isinstance(first, dict) else None
    if not isinstance(annotations, dict):
        raise DataError(f"{place}: expected annotation_sets[0].annotations, an object.")
    return annotations


def _read_pair(
    number: int, key: str, annotation: object, contract: _Contract, labels: Mapping[str, object], place: str
) -> _Pair:
    if key not in labels:
        raise DataError(f"{place}: this hypothesis is not among 'labels'.{did_you_mean(key, labels)}")
    choice = annotation.get("choice") if isinstance(annotation, dict) else None
    if not isinstance(annotation, dict) or choice not in _STATUS:
        raise DataError(f"{place}: choice is {str(choice)[:40]!r}; expected one of {', '.join(_STATUS)}.")
    spans = annotation.get("spans")
    good = isinstance(spans, list) and all(type(one) is int and 0 <= one < len(contract.spans) for one in spans)
    if not isinstance(spans, list) or not good or (choice != "NotMentioned" and not spans):
        raise DataError(f"{place}: 'spans' must number spans of the document, at least one unless NotMentioned.")
    return _Pair(number, key, choice, () if choice == "NotMentioned" else tuple(spans))
