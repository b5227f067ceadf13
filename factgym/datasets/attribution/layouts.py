"""The layouts of attribution files: which keys tell one, and how a row of it gives claims.

A layout is told by the keys of the first row. Some choices of the data sets are not ours to change and matter to
whoever reads scores:

- TruthfulQA has no source text. The slices that SEVA was evaluated on take a question's best answer as the source, the
  question itself as the attributable claim, and its first incorrect answer as the other one; `TruthfulQA.csv` is read
  the same way, so that more of the same can be drawn. A question mark therefore tells the label.
- HaluEval's question answering gives two claims a record, "question answer" for the right and the hallucinated answer,
  against the knowledge passage. Its general part has no source at all: the user's query stands in its place.
- GrayFacts marks every record AMBIG. The label of the data set that the record came from is taken as gold, and
  `meta["ambiguous"]` says so.
- SufficientFacts holds evidence from which something was removed; `label_after` says whether what is left decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.datasets.attribution.claims import LABELS, Label, gold_label
from factgym.datasets.attribution.files import Row

MAX_CLAIM_CHARS = 20_000
MAX_SOURCE_CHARS = 400_000

Fact = str | bool | int


@dataclass(frozen=True, slots=True)
class Reading:
    """One claim of a row; `meta` holds what is worth keeping of the row."""

    claim: str
    source: str
    label: Label
    meta: dict[str, Fact]


Read = Callable[[Row, str], Iterator[Reading]]
"""Claims of a row; the text is its place, for errors."""


@dataclass(frozen=True, slots=True)
class Layout:
    """keys: all of them are in a row of this layout. named: read only when the file itself is named, not its folder."""

    name: str
    keys: tuple[str, ...]
    read: Read
    named: bool = False


def text_at(row: Row, key: str, place: str, most: int = MAX_SOURCE_CHARS) -> str:
    """A text of the row. Raises DataError where it is missing, blank, no text, or too long."""
    value = row.get(key)
    if not isinstance(value, str):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"{place}: {key!r} must be a text, and is {kind}. Fix the row or remove it.")
    text = clean_text(value).strip()
    if not text:
        raise DataError(f"{place}: {key!r} is empty. Fix the row or remove it.")
    if len(text) > most:
        raise DataError(f"{place}: {key!r} has {len(text):,} characters; {most:,} are allowed.")
    return text


def label_at(row: Row, key: str, place: str) -> Label:
    """The gold label under `key`. Raises DataError for a value that is no known label."""
    found = gold_label(row.get(key))
    if found is None:
        raise DataError(
            f"{place}: {key!r} is {str(row.get(key))[:40]!r}, which is no known label. Use {LABELS[0]!r} or {LABELS[1]!r}, "
            "SUPPORTS or REFUTES, or entailment, neutral or contradiction."
        )
    return found


def _plain(claim: str, source: str, label: str) -> Read:
    def read(row: Row, place: str) -> Iterator[Reading]:
        meta: dict[str, Fact] = {"gold": str(row.get(label))[:40]}
        yield Reading(
            text_at(row, claim, place, MAX_CLAIM_CHARS), text_at(row, source, place), label_at(row, label, place), meta
        )

    return read


def _pairs(question: str, right: str, wrong: str) -> Read:
    def read(row: Row, place: str) -> Iterator[Reading]:
        source = text_at(row, "knowledge", place)
        asked = text_at(row, question, place, MAX_CLAIM_CHARS)
        for key, label in zip((right, wrong), LABELS, strict=True):
            yield Reading(f"{asked} {text_at(row, key, place, MAX_CLAIM_CHARS)}", source, label, {"gold": key})

    return read


def _general(row: Row, place: str) -> Iterator[Reading]:
    said = str(row.get("hallucination")).strip().lower()
    if said not in ("yes", "no"):
        raise DataError(f"{place}: 'hallucination' is {said[:40]!r}; expected yes or no.")
    label = LABELS[said == "yes"]
    claim = text_at(row, "chatgpt_response", place, MAX_CLAIM_CHARS)
    yield Reading(
        claim, text_at(row, "user_query", place), label, {"gold": f"hallucination {said}", "sourceless": True}
    )


def _truthful(row: Row, place: str) -> Iterator[Reading]:
    source = text_at(row, "Best Answer", place)
    wrong = text_at(row, "Incorrect Answers", place).split(";")[0].strip()
    kind = str(row.get("Category") or "")[:60]
    yield Reading(
        text_at(row, "Question", place, MAX_CLAIM_CHARS), source, LABELS[0], {"gold": "question", "category": kind}
    )
    if wrong:
        yield Reading(wrong, source, LABELS[1], {"gold": "incorrect", "category": kind})


def _clear_facts(row: Row, place: str) -> Iterator[Reading]:
    meta: dict[str, Fact] = {key: str(row[key])[:60] for key in ("topic", "category") if row.get(key) is not None}
    label, marked = row.get("label"), row
    if isinstance(label, str) and label.strip().upper() == "AMBIG":
        extra = row.get("additional_info")
        marked = {"label": extra.get("original_label") if isinstance(extra, dict) else None}
        meta["ambiguous"] = True
    meta["gold"] = str(marked.get("label"))[:40]
    source = _joined(row, "reference_documents", place)
    yield Reading(text_at(row, "statement", place, MAX_CLAIM_CHARS), source, label_at(marked, "label", place), meta)


def _joined(row: Row, key: str, place: str) -> str:
    """A list of texts, or of [title, text] pairs, as one text with blank lines between."""
    value = row.get(key)
    if not isinstance(value, list):
        return text_at(row, key, place)
    parts = [": ".join(map(str, one)) if isinstance(one, list) else one for one in value]
    if not all(isinstance(part, str) for part in parts):
        raise DataError(f"{place}: {key!r} must be a list of texts. Fix the row or remove it.")
    return text_at({key: "\n\n".join(part.strip() for part in parts)}, key, place)


def _sufficient(row: Row, place: str) -> Iterator[Reading]:
    before, after = str(row.get("label_before")), str(row.get("label_after"))
    label = gold_label(before)
    if label is None or not after.upper().startswith(("ENOUGH", "NOT ENOUGH")):
        raise DataError(f"{place}: {before[:30]!r} and {after[:30]!r} are no labels of SufficientFacts.")
    if after.upper().startswith("NOT ENOUGH"):
        label = LABELS[1]
    meta: dict[str, Fact] = {"gold": f"{before} / {after}", "agreement": str(row.get("agreement"))[:20]}
    yield Reading(text_at(row, "claim", place, MAX_CLAIM_CHARS), _joined(row, "evidence", place), label, meta)


_CLAIM = ("claim", "statement", "hypothesis", "response", "answer")
_SOURCE = ("source", "evidence", "premise", "context", "document", "reference", "passage", "grounding", "text")
_LABEL = ("label", "gold_label", "gold", "verdict")

_KNOWN = (
    Layout("SEVA's slices", ("claim", "source", "gold_label"), _plain("claim", "source", "gold_label")),
    Layout("FEVER-Symmetric", ("claim", "evidence", "gold_label", "evid"), _plain("claim", "evidence", "gold_label")),
    Layout("FEVER-Symmetric (full)", ("claim", "evidence_sentence", "label"), _plain("claim", "evidence_sentence", "label")),
    Layout("SufficientFacts", ("claim", "evidence", "label_before", "label_after"), _sufficient),
    Layout(
        "HaluEval QA",
        ("knowledge", "question", "right_answer", "hallucinated_answer"),
        _pairs("question", "right_answer", "hallucinated_answer"),
    ),
    Layout(
        "HaluEval QA (CSV)",
        ("knowledge", "raw_question", "correct_answer", "hallucinated_answer"),
        _pairs("raw_question", "correct_answer", "hallucinated_answer"),
    ),
    Layout("HaluEval general", ("user_query", "chatgpt_response", "hallucination"), _general, named=True),
    Layout("TruthfulQA", ("Question", "Best Answer", "Incorrect Answers"), _truthful),
    Layout("ClearFacts", ("statement", "reference_documents", "label"), _clear_facts),
    Layout("ANLI analysis", ("context", "statement", "gold_label"), _plain("statement", "context", "gold_label")),
    Layout("ANLI", ("context", "hypothesis", "label"), _plain("hypothesis", "context", "label")),
)  # fmt: skip


def layout_of(row: Row, place: str) -> Layout:
    """The layout of a row. Raises DataError that lists what is understood."""
    for layout in _KNOWN:
        if all(key in row for key in layout.keys):
            return layout
    found = [next((key for key in keys if key in row), None) for keys in (_CLAIM, _SOURCE, _LABEL)]
    claim, source, label = found
    if claim is not None and source is not None and label is not None:
        return Layout("claim, source, label", (claim, source, label), _plain(claim, source, label))
    seen = ", ".join(sorted(str(key) for key in list(row)[:12])) or "no keys"
    raise DataError(f"{place}: no layout that is understood; its keys are {seen[:200]}. {_understood()}")


def _understood() -> str:
    known = "; ".join(f"{layout.name} ({', '.join(layout.keys)})" for layout in _KNOWN)
    own = f"claim ({' or '.join(_CLAIM)}), source ({' or '.join(_SOURCE)}) and label ({' or '.join(_LABEL)})"
    return f"Understood are {known}; and for files of your own columns for {own}."


def readings(rows: Iterable[tuple[int, Row]], layout: Layout, name: str) -> Iterator[tuple[int, int, Reading]]:
    """(line, number within its row, claim) of every row. Raises DataError for a row that is not of this layout."""
    for line, row in rows:
        place = f"{name} line {line}"
        for number, reading in enumerate(layout.read(row, place)):
            yield line, number, reading
