"""Attribution claims: claims with the source that they should follow from, out of public benchmarks and users' files.

All are read into `AttributionClaim`, with the two labels of SEVA ("Problem Formulation"): a claim is Attributable when
its source fully supports it, and Not Attributable when the source contradicts it or does not mention it. Labels of
three-way inference map as in the paper's training data: neutral and contradiction are Not Attributable. A model's own
labels are read by the table of the paper (`factgym.rewards.seva.canonical_label`).

Choices of the data sets that matter to readers of scores:

- TruthfulQA has no source text. The slices that SEVA was evaluated on take a question's best answer as the source, the
  question itself as the attributable claim, and its first incorrect answer as the other one; `TruthfulQA.csv` is read
  the same way, so that more of the same can be drawn. A question mark therefore predicts the label.
- HaluEval's question answering gives two claims a record, "question answer" for the right and the hallucinated answer,
  against the knowledge passage. Its general part has no source at all: the user's query takes its place.
- GrayFacts marks every record AMBIG. The label of the data set that the record came from is taken as gold, and
  `meta["ambiguous"]` is set.
- SufficientFacts holds evidence from which something was removed; `label_after` says whether the rest decides.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from factgym.core.errors import ConfigError, DataError
from factgym.core.paths import exists, is_file, list_folder, user_path
from factgym.core.tasks import shared
from factgym.corpora.rows import SUFFIXES, Row, read_rows, stem_of
from factgym.datasets.base import (
    FrozenRecord,
    Layout,
    Records,
    RecordSet,
    RecordSlice,
    check_benchmark,
    detect_layout,
    label_lookup,
    load_data_sets,
    stratified_slice,
)

Label = Literal["Attributable", "Not Attributable"]
LABELS: tuple[Label, ...] = get_args(Label)
ATTRIBUTABLE, NOT_ATTRIBUTABLE = LABELS

ERROR_TYPES = (
    *("numerical_exaggeration", "negation_flip", "scope_inflation"),
    *("temporal_shift", "entity_substitution", "fabrication"),
)
"""The six categories of the paper's error taxonomy."""

MAX_CLAIM_CHARS = 20_000
MAX_SOURCE_CHARS = 400_000

BENCHMARKS = load_data_sets("attribution")

_VERSION = 1
_FORMATS = f"holds {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} with claims, sources and labels"
_LABEL_OF = label_lookup(
    {
        ATTRIBUTABLE: "attributable|s|supports|supported|support|fully supported|e|entailment|entailed|entails|yes|true"
        "|correct|factual|faithful|consistent",
        NOT_ATTRIBUTABLE: "not attributable|unattributable|ns|not supported|unsupported|refutes|refuted|c|contradiction"
        "|contradicted|contradictory|contradicts|n|neutral|not entailment|not entailed|nei|not enough info"
        "|not enough information|not enough evidence|not enough|no|false|incorrect|hallucinated|hallucination"
        "|unfaithful|inconsistent",
    }
)


def gold_label(value: object) -> Label | None:
    """Return a data set's label as one of the two, None for anything else.

    Text in any case, with `_` or `-` for spaces, or a boolean. Numbers are refused: what 0 means differs between data
    sets.
    """
    if isinstance(value, bool):
        return ATTRIBUTABLE if value else NOT_ATTRIBUTABLE
    return _LABEL_OF(value) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class AttributionClaim(FrozenRecord):
    """One claim, the source that it is checked against, and its gold label.

    id: unique in its set. error_type: one of `ERROR_TYPES` where it is known, else None. benchmark: the data set's name.
    meta: a few small facts about its origin, JSON data.
    """

    id: str
    claim: str
    source: str
    label: Label
    error_type: str | None = None
    benchmark: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)


Claims = RecordSet[AttributionClaim]


class BenchmarkClaims(Records[AttributionClaim]):
    """The claims of one file or folder; ids consist of benchmark, file and line.

    files: those that were read. skipped: files of a folder whose layout is unknown, or that are read only when they are
    named themselves. Raises DataError with file and line for content that cannot be used.
    """

    def __init__(self, name: str, path: str | Path) -> None:
        self.name, self.path = name, user_path(path)
        digest = hashlib.sha256(f"attribution-{_VERSION}:{name}".encode())
        claims: list[AttributionClaim] = []
        files: list[Path] = []
        skipped: list[Path] = []
        file = self.path if is_file(self.path) else benchmark_file(name, self.path)
        candidates = [file] if file else [f for f in list_folder(self.path) if f.is_file() and f.suffix in SUFFIXES]
        if not candidates:
            raise DataError(f"{self.path}: a folder without {', '.join(SUFFIXES)} files. Give one that {_FORMATS}.")
        for candidate in candidates:
            digest.update(f":{candidate.name}:".encode())
            layout = _layout_of(candidate, in_folder=file is None)
            if layout is None:
                skipped.append(candidate)
                continue
            files.append(candidate)
            for row in read_rows(candidate, digest.update, suffixes=None):
                for number, claim in enumerate(layout.read(row)):
                    id_ = f"{name}-{stem_of(candidate)}-{row.number:05d}" + (f"-{number}" if number else "")
                    meta = {"file": candidate.name, "line": row.number, **claim.meta}
                    claims.append(replace(claim, id=id_, benchmark=name, meta=meta))
        if not claims:
            raise DataError(f"{self.path}: holds no claim. Give a file or folder that {_FORMATS}.")
        self.files, self.skipped = tuple(files), tuple(skipped)
        self._records = tuple(claims)
        self._fingerprint = digest.hexdigest()

    def __reduce__(self) -> tuple[object, ...]:
        return read_benchmark, (self.name, str(self.path))


def read_benchmark(name: str, path: str | Path) -> BenchmarkClaims:
    """Return the claims of a benchmark (a key of `BENCHMARKS`); read once a process.

    path: a file of any known layout, a folder of such files, or the folder of all public data sets. Raises ConfigError
    for an unknown benchmark or a path that does not exist, DataError for content that is unusable.
    """
    check_benchmark(name, BENCHMARKS)
    path = user_path(path)
    if not exists(path):
        raise ConfigError(f"{path} does not exist: give a file or folder that {_FORMATS}")
    return shared(("attribution", name, path.resolve()), lambda: BenchmarkClaims(name, path))


def benchmark_file(name: str, folder: Path) -> Path | None:
    """Return the benchmark's own file in the folder of all data sets, or in a folder of one file for each benchmark."""
    candidates = (folder / file for file in (*BENCHMARKS[name].files, *(f"{name}{suffix}" for suffix in SUFFIXES)))
    return next((file for file in candidates if file.is_file()), None)


def _layout_of(file: Path, *, in_folder: bool) -> Layout[Iterator[AttributionClaim]] | None:
    """Return the layout of a file; None for one of a folder that is to be skipped."""
    try:
        row = next(read_rows(file, suffixes=None), None)
        if row is None:
            raise DataError(f"{file}: holds no row. Give a file that {_FORMATS}.")
        layout = detect_layout(row, LAYOUTS, _COLUMNS, _columns)
    except DataError:
        if in_folder:
            return None
        raise
    return None if in_folder and layout.named_only else layout


# Layouts: how a row becomes claims.


def _claim(claim: str, source: str, label: Label, **meta: object) -> AttributionClaim:
    return AttributionClaim("", claim, source, label, meta=meta)


def _label(row: Row, value: object, key: str = "label") -> Label:
    label = gold_label(value)
    if label is None:
        raise DataError(
            f"{row.location}: {key!r} is {str(value)[:40]!r}, which is no known label. Use {LABELS[0]!r} or {LABELS[1]!r}, "
            "SUPPORTS or REFUTES, or entailment, neutral or contradiction."
        )
    return label


def _columns(name: str, claim: str, source: str, label: str, *more_keys: str) -> Layout[Iterator[AttributionClaim]]:
    """Return a layout of one claim a row, in three columns. more_keys: further columns that identify it."""

    def read(row: Row) -> Iterator[AttributionClaim]:
        texts = row.text(claim, MAX_CLAIM_CHARS), row.text(source, MAX_SOURCE_CHARS)
        value = row.values.get(label)
        yield _claim(*texts, _label(row, value, label), gold=str(value)[:40])

    return Layout(name, (claim, source, label, *more_keys), read)


def _answer_pairs(name: str, question: str, right: str, wrong: str) -> Layout[Iterator[AttributionClaim]]:
    """Return a layout of two claims a row: a question with its right and with its wrong answer, against a knowledge passage."""

    def read(row: Row) -> Iterator[AttributionClaim]:
        source, prefix = row.text("knowledge", MAX_SOURCE_CHARS), row.text(question, MAX_CLAIM_CHARS)
        for key, label in zip((right, wrong), LABELS, strict=True):
            yield _claim(f"{prefix} {row.text(key, MAX_CLAIM_CHARS)}", source, label, gold=key)

    return Layout(name, ("knowledge", question, right, wrong), read)


def _halueval_general(row: Row) -> Iterator[AttributionClaim]:
    judgement = str(row.values.get("hallucination")).strip().lower()
    if judgement not in ("yes", "no"):
        raise row.error(f"'hallucination' is {judgement[:40]!r}; expected yes or no")
    texts = row.text("chatgpt_response", MAX_CLAIM_CHARS), row.text("user_query", MAX_SOURCE_CHARS)
    yield _claim(*texts, LABELS[judgement == "yes"], gold=f"hallucination {judgement}", sourceless=True)


def _truthfulqa(row: Row) -> Iterator[AttributionClaim]:
    source = row.text("Best Answer", MAX_SOURCE_CHARS)
    wrong = row.text("Incorrect Answers", MAX_SOURCE_CHARS).split(";")[0].strip()
    category = str(row.values.get("Category") or "")[:60]
    yield _claim(row.text("Question", MAX_CLAIM_CHARS), source, ATTRIBUTABLE, gold="question", category=category)
    if wrong:
        yield _claim(wrong, source, NOT_ATTRIBUTABLE, gold="incorrect", category=category)


def read_clearfacts(row: Row) -> Iterator[AttributionClaim]:
    """Yield the statement of a row of ClearFacts or GrayFacts, without an id."""
    meta = {key: str(row.values[key])[:60] for key in ("topic", "category") if row.values.get(key) is not None}
    ambiguous, label = {}, row.values.get("label")
    if isinstance(label, str) and label.strip().upper() == "AMBIG":
        extra = row.values.get("additional_info")
        label = extra.get("original_label") if isinstance(extra, dict) else None
        ambiguous = {"ambiguous": True}
    source, claim = _joined_text(row, "reference_documents"), row.text("statement", MAX_CLAIM_CHARS)
    yield _claim(claim, source, _label(row, label), **meta, **ambiguous, gold=str(label)[:40])


def _joined_text(row: Row, key: str) -> str:
    """Join a list of texts, or of [title, text] pairs, with blank lines between."""
    value = row.values.get(key)
    if isinstance(value, list):
        parts = [": ".join(map(str, part)) if isinstance(part, list) else part for part in value]
        if not all(isinstance(part, str) for part in parts):
            raise row.error(f"{key!r} must be a list of texts")
        row = replace(row, values={key: "\n\n".join(part.strip() for part in parts)})
    return row.text(key, MAX_SOURCE_CHARS)


def _sufficient_facts(row: Row) -> Iterator[AttributionClaim]:
    before, after = str(row.values.get("label_before")), str(row.values.get("label_after"))
    label = gold_label(before)
    if label is None or not after.upper().startswith(("ENOUGH", "NOT ENOUGH")):
        raise row.error(f"{before[:30]!r} and {after[:30]!r} are no labels of SufficientFacts")
    if after.upper().startswith("NOT ENOUGH"):
        label = NOT_ATTRIBUTABLE
    texts = row.text("claim", MAX_CLAIM_CHARS), _joined_text(row, "evidence")
    yield _claim(*texts, label, gold=f"{before} / {after}", agreement=str(row.values.get("agreement"))[:20])


_COLUMNS = {
    "claim": ("claim", "statement", "hypothesis", "response", "answer"),
    "source": ("source", "evidence", "premise", "context", "document", "reference", "passage", "grounding", "text"),
    "label": ("label", "gold_label", "gold", "verdict"),
}


LAYOUTS = (
    _columns("SEVA's slices", "claim", "source", "gold_label"),
    _columns("FEVER-Symmetric", "claim", "evidence", "gold_label", "evid"),
    _columns("FEVER-Symmetric (full)", "claim", "evidence_sentence", "label"),
    Layout("SufficientFacts", ("claim", "evidence", "label_before", "label_after"), _sufficient_facts),
    _answer_pairs("HaluEval QA", "question", "right_answer", "hallucinated_answer"),
    _answer_pairs("HaluEval QA (CSV)", "raw_question", "correct_answer", "hallucinated_answer"),
    Layout("HaluEval general", ("user_query", "chatgpt_response", "hallucination"), _halueval_general, named_only=True),
    Layout("TruthfulQA", ("Question", "Best Answer", "Incorrect Answers"), _truthfulqa),
    Layout("ClearFacts", ("statement", "reference_documents", "label"), read_clearfacts),
    _columns("ANLI analysis", "statement", "context", "gold_label"),
    _columns("ANLI", "hypothesis", "context", "label"),
)
"""Layouts by the columns of their rows; the first that fits is taken."""


# Slices, as the paper's evaluation draws them (appendix "Evaluation Benchmarks"): FEVER and HaluEval are sampled to 200
# and TruthfulQA to 400, preserving the label distribution, under three seeds. A slice keeps the order of the whole.


def stratified(claims: Claims, size: int, seed: int = 0) -> RecordSlice[AttributionClaim]:
    """Draw `size` claims with the labels in the proportion of the whole. Raises ConfigError for a bad size."""
    labels = [claims[index].label for index in range(len(claims))]
    return stratified_slice(claims, labels, size, f"factgym attribution slice {seed}", "claims")


# Cues: properties of a claim alone that tell its label in a public slice.

KNOWN_CUES: Mapping[str, str] = {
    "truthfulqa": "In TruthfulQA a question mark at the end of the claim is the label: every question is Attributable.",
    "halueval": "In HaluEval an answer of at most five words is Attributable in about nine of ten claims, a longer one Not.",
}
"""Data set -> its known cue, a sentence for people; `without_cues` takes it out."""

_SHORT_ANSWER_WORDS = 5


class StatementClaims(Records[AttributionClaim]):
    """TruthfulQA's claims as "question answer", of the best answer, which is the source, and of the incorrect one.

    Questions without an incorrect answer to the same source are left out. What is left to compare is the answer.
    """

    def __init__(self, claims: Claims) -> None:
        rows = [claims[index] for index in range(len(claims))]
        questions = {row.source: row for row in rows if row.label == ATTRIBUTABLE}
        records: list[AttributionClaim] = []
        for row in rows:
            if row.label == NOT_ATTRIBUTABLE and (question := questions.pop(row.source, None)) is not None:
                records.append(replace(question, claim=f"{question.claim} {question.source}"))
                records.append(replace(row, claim=f"{question.claim} {row.claim}"))
        self._records = tuple(records)
        self._fingerprint = hashlib.sha256(f"{claims.fingerprint()}:statements".encode()).hexdigest()


def without_cues(name: str, claims: Claims, seed: int = 0) -> Claims:
    """Return the claims of a data set without its known cue; as they are where none is known.

    TruthfulQA's are rewritten (`StatementClaims`). Of HaluEval's as many are drawn of either label among the short
    answers, and among the longer ones.
    """
    if name == "truthfulqa":
        return StatementClaims(claims)
    if name != "halueval":
        return claims
    return balanced(claims, seed, lambda claim: len(claim.rpartition("? ")[2].split()) <= _SHORT_ANSWER_WORDS)


def balanced(claims: Claims, seed: int = 0, stratum: Callable[[str], bool] = lambda claim: True) -> Claims:
    """Return a random choice of the claims with as many of either label, within each stratum of claims."""
    strata: dict[bool, dict[str, list[int]]] = {}
    for index in range(len(claims)):
        is_member = stratum(claims[index].claim)
        strata.setdefault(is_member, {label: [] for label in LABELS})[claims[index].label].append(index)
    rng = random.Random(f"factgym attribution cues {seed}")
    chosen = (
        rng.sample(indices, min(map(len, members.values())))
        for _, members in sorted(strata.items())
        for indices in members.values()
    )
    return RecordSlice(claims, chain.from_iterable(chosen))
