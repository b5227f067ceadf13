"""The paragraphs that question files carry: contexts of HotpotQA and 2WikiMultiHopQA, of MuSiQue, PopQA, NQ and SQuAD.

One place says what text a paragraph has and which id, so that gold evidence read off a question file points into the
corpus that is read off the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.corpora.passages.rows import Values

MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of a question's context.

    sentences: the ranges of its sentences in `text`, where the data set splits it; an empty range is an empty sentence.
    gold: whether the data set marks it as supporting the answer.
    """

    title: str
    text: str
    sentences: tuple[tuple[int, int], ...] = ()
    gold: bool = False


class Titles:
    """Ids made of titles: the title itself, and `title#2`, `title#3` for other texts under it.

    The same title and text give the same id again, so that a paragraph which many questions share is one passage.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def id_of(self, title: str, text: str) -> str:
        """The id of a paragraph."""
        known = self._known.get((title, text))
        return known if known is not None else self._known.setdefault((title, text), self.new_id(title))

    def new_id(self, title: str) -> str:
        """An id that was not given before."""
        number, id_ = 1, title
        while id_ in self._taken:
            number += 1
            id_ = f"{title}#{number}"
        self._taken.add(id_)
        return id_


def title_of(value: object, place: str) -> str:
    """A title, white space folded, at most 200 characters. Raises DataError for one that is no text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{place}: a title must be a text, not a {type(value).__name__}. Fix the row.")
    return " ".join(clean_text(value).split())[:MAX_TITLE_CHARS].strip()


def text_of(value: object, place: str) -> str:
    """The text of a passage without white space around it. Raises DataError for one that is no text, or too long."""
    if not isinstance(value, str):
        raise DataError(f"{place}: the text of a passage must be a string, not a {type(value).__name__}. Fix the row.")
    if len(value) > MAX_TEXT_CHARS:
        raise DataError(f"{place}: a passage of {len(value):,} characters; {MAX_TEXT_CHARS:,} are allowed. Split it.")
    return clean_text(value).strip()


def paragraphs_of(row: Values, place: str) -> list[Paragraph]:
    """The paragraphs of a question's row, blank ones left out; none where it carries none."""
    row = with_metadata(row)
    for key, read in _READERS.items():
        if row.get(key) is not None:
            return [one for one in read(row[key], place) if one.text]
    return []


def with_metadata(row: Values) -> Values:
    """The row with what FlashRAG keeps under "metadata" beside the other keys."""
    extra = row.get("metadata")
    return {**extra, **row} if isinstance(extra, dict) else row


def _contexts(value: Any, place: str) -> Iterator[Paragraph]:
    """Pairs of a title and its sentences, as published, or columns of both, as on the hub."""
    if isinstance(value, dict):
        titles, sentences = value.get("title"), value.get("sentences", value.get("content"))
        if not isinstance(titles, list) or not isinstance(sentences, list) or len(titles) != len(sentences):
            raise DataError(
                f"{place}: 'context' must hold a list of titles and as many lists of sentences. Fix the row."
            )
        value = list(zip(titles, sentences, strict=True))
    for pair in _listed(value, "context", place):
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], list):
            raise DataError(f"{place}: a context must be a title with a list of sentences. Fix the row.")
        yield _from_sentences(title_of(pair[0], place), pair[1], place)


def _from_sentences(title: str, sentences: list[Any], place: str) -> Paragraph:
    """The sentences as one text: as they are where they bring their spaces, else with a space between them."""
    text, ranges = "", []
    for one in sentences:
        piece = clean_text(one) if isinstance(one, str) else text_of(one, place)
        gap = "" if not text or text[-1].isspace() or piece[:1].isspace() or not piece else " "
        piece = piece if text else piece.lstrip()
        start = len(text) + len(gap) + len(piece) - len(piece.lstrip())
        text += gap + piece
        ranges.append((start, max(start, len(text.rstrip()))))
    text_of(text, place)
    text = text.rstrip()
    return Paragraph(title, text, tuple((min(start, len(text)), min(end, len(text))) for start, end in ranges))


def _paragraphs(value: Any, place: str) -> Iterator[Paragraph]:
    """MuSiQue's and PopQA's paragraphs; those of an article of SQuAD hold no title of their own."""
    for one in _listed(value, "paragraphs", place):
        if not isinstance(one, dict):
            raise DataError(f"{place}: a paragraph must be an object with a title and a text. Fix the row.")
        text = text_of(one.get("paragraph_text", one.get("text", one.get("context"))), place)
        yield Paragraph(title_of(one.get("title"), place), text, gold=one.get("is_supporting") is True)


def _passages(value: Any, place: str) -> Iterator[Paragraph]:
    """Retrieved passages as DPR writes them."""
    for one in _listed(value, "ctxs", place):
        if not isinstance(one, dict):
            raise DataError(f"{place}: a passage of 'ctxs' must be an object with a title and a text. Fix the row.")
        yield Paragraph(
            title_of(one.get("title"), place), text_of(one.get("text"), place), gold=one.get("isgold") is True
        )


def _listed(value: Any, key: str, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{place}: {key!r} must be a list, not a {type(value).__name__}. Fix the row.")
    return value


_READERS: Mapping[str, Callable[[Any, str], Iterator[Paragraph]]] = MappingProxyType(
    {"context": _contexts, "contexts": _contexts, "paragraphs": _paragraphs, "ctxs": _passages}
)
CARRIERS = tuple(_READERS)
"""Keys under which a question's row carries paragraphs."""
