"""Layouts of passage files and of question files that carry passages: their columns, and the passages of a row.

- **flashrag**: `id` and `contents`, the title on its first line with or without quotation marks; as FlashRAG, Search-R1
  and Pyserini write corpora. Ids are the file's.
- **title-text**: `text` with a `title` and an id (`id`, `_id`, `docid`) if there is one; JSON lines, arrays, DPR's TSV.
- **contexts**: questions that carry paragraphs (HotpotQA, 2WikiMultiHopQA, MuSiQue, PopQA, NQ with DPR's passages).
- **squad**: articles of paragraphs.

Where a file has no ids the title is the id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.strict_json import clean_text
from factgym.corpora.rows import Row, type_name

AUTO, FOLDER = "auto", "folder"
MAX_ID_CHARS = 300
MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 1_000_000
_IDS = ("id", "_id", "docid", "doc_id")


def title_of(value: object, row: Row) -> str:
    """Return a title, white space folded, at most 200 characters. Raises DataError for one that is no text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise row.error(f"a title must be a text, not {type_name(value)}")
    return " ".join(clean_text(value).split())[:MAX_TITLE_CHARS].strip()


def text_of(value: object, row: Row) -> str:
    """Return the stripped text of a passage. Raises DataError for one that is no text, or too long."""
    if not isinstance(value, str):
        raise row.error(f"the text of a passage must be a string, not {type_name(value)}")
    if len(value) > MAX_TEXT_CHARS:
        raise row.error(f"a passage of {len(value):,} characters; {MAX_TEXT_CHARS:,} are allowed")
    return clean_text(value).strip()


# Paragraphs that question files carry. Gold evidence read off a question file points into the corpus that is read off the
# same file, so texts and ids of paragraphs are defined here once.


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


class TitleIds:
    """Ids made of titles: the title itself, and `title#2`, `title#3` for other texts under it.

    The same title and text give the same id again, so that a paragraph which many questions share is one passage.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self._used: set[str] = set()

    def id_of(self, title: str, text: str) -> str:
        """Return the id of a paragraph."""
        id_ = self._ids.get((title, text))
        return id_ if id_ is not None else self._ids.setdefault((title, text), self.new_id(title))

    def new_id(self, title: str) -> str:
        """Return an id that was not given before."""
        number, id_ = 1, title
        while id_ in self._used:
            number += 1
            id_ = f"{title}#{number}"
        self._used.add(id_)
        return id_


def with_metadata(row: Row) -> Row:
    """Return the row with the fields that FlashRAG keeps under "metadata" beside the others."""
    extra = row.values.get("metadata")
    return replace(row, values={**extra, **row.values}) if isinstance(extra, dict) else row


def paragraphs_of(row: Row) -> list[Paragraph]:
    """Return the paragraphs of a question's row, blank ones left out; none where it carries none."""
    row = with_metadata(row)
    for key, read in _PARAGRAPHS.items():
        value = row.values.get(key)
        if value is not None:
            return [paragraph for paragraph in read(value, row) if paragraph.text]
    return []


def _context_pairs(value: Any, row: Row) -> Iterator[Paragraph]:
    """Pairs of a title and its sentences, as published, or columns of both, as on the hub."""
    if isinstance(value, dict):
        titles, sentences = value.get("title"), value.get("sentences", value.get("content"))
        if not isinstance(titles, list) or not isinstance(sentences, list) or len(titles) != len(sentences):
            raise row.error("'context' must hold a list of titles and as many lists of sentences")
        value = list(zip(titles, sentences, strict=True))
    if not isinstance(value, list):
        raise row.error(f"'context' must be a list, not {type_name(value)}")
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], list):
            raise row.error("a context must be a title with a list of sentences")
        yield _join_sentences(title_of(pair[0], row), pair[1], row)


def _join_sentences(title: str, sentences: list[Any], row: Row) -> Paragraph:
    """Join sentences to one text: as they are where they bring their spaces, else with a space between them."""
    # Invariant: `text[start:end]` of every range is the stripped sentence, also when `text` is stripped at the end.
    text, ranges = "", []
    for sentence in sentences:
        piece = clean_text(sentence) if isinstance(sentence, str) else text_of(sentence, row)
        gap = "" if not text or text[-1].isspace() or piece[:1].isspace() or not piece else " "
        piece = piece if text else piece.lstrip()
        start = len(text) + len(gap) + len(piece) - len(piece.lstrip())
        text += gap + piece
        ranges.append((start, max(start, len(text.rstrip()))))
    text_of(text, row)
    text = text.rstrip()
    return Paragraph(title, text, tuple((min(start, len(text)), min(end, len(text))) for start, end in ranges))


def _paragraph_objects(
    key: str, text_keys: tuple[str, ...], gold_key: str
) -> Callable[[Any, Row], Iterator[Paragraph]]:
    """Objects with a title and a text: MuSiQue's, PopQA's and SQuAD's paragraphs, and passages as DPR writes them."""

    def read(value: Any, row: Row) -> Iterator[Paragraph]:
        if not isinstance(value, list):
            raise row.error(f"{key!r} must be a list, not {type_name(value)}")
        for entry in value:
            if not isinstance(entry, dict):
                raise row.error(f"a paragraph of {key!r} must be an object with a title and a text")
            text = text_of(next((entry[name] for name in text_keys if name in entry), None), row)
            yield Paragraph(title_of(entry.get("title"), row), text, gold=entry.get(gold_key) is True)

    return read


_PARAGRAPHS: Mapping[str, Callable[[Any, Row], Iterator[Paragraph]]] = MappingProxyType(
    {
        "context": _context_pairs,
        "contexts": _context_pairs,
        "paragraphs": _paragraph_objects("paragraphs", ("paragraph_text", "text", "context"), "is_supporting"),
        "ctxs": _paragraph_objects("ctxs", ("text",), "isgold"),
    }
)
"""Keys under which a question's row carries paragraphs."""


# Layouts of corpus files: the columns that identify one, and the passages of a row.


class Draft(NamedTuple):
    """A passage before its id is settled.

    id: the file's own, or "". is_shared: another draft with the same title and text is the same passage.
    """

    id: str
    title: str
    text: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class PassageLayout:
    """fits: whether a row is of this layout. read: its passages. keys: the columns, for errors."""

    name: str
    keys: str
    fits: Callable[[Row], bool]
    read: Callable[[Row], Iterator[Draft]]

    def drafts(self, row: Row) -> Iterator[Draft]:
        """Yield the passages of a row. Raises DataError for one without text, and for a row of another layout."""
        try:
            for draft in self.read(row):
                if not draft.text:
                    raise DataError(f"{row.location}: a passage without text. Add the text or remove the row.")
                yield draft
        except KeyError as error:
            raise row.error(f"no {error} in this row of the layout {self.name}") from None


def _flashrag(row: Row) -> Iterator[Draft]:
    contents = text_of(row.values["contents"], row)
    first, newline, rest = contents.partition("\n")
    if not newline:
        first, rest = "", contents
    title = first.strip()
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    yield Draft(_own_id(row), title_of(title, row), rest.strip())


def _title_text(row: Row) -> Iterator[Draft]:
    yield Draft(_own_id(row), title_of(row.values.get("title"), row), text_of(row.values["text"], row))


def _contexts(row: Row) -> Iterator[Draft]:
    for paragraph in paragraphs_of(row):
        yield Draft("", paragraph.title, paragraph.text, is_shared=True)


def _squad(row: Row) -> Iterator[Draft]:
    articles = row.values.get("data", [row.values])
    for article in articles if isinstance(articles, list) else [articles]:
        if not isinstance(article, dict) or not isinstance(article.get("paragraphs"), list):
            raise row.error("an article must be an object with a list of 'paragraphs'")
        title = title_of(article.get("title"), row).replace("_", " ")
        for paragraph in paragraphs_of(replace(row, values=article)):
            yield Draft("", title, paragraph.text, is_shared=True)


def _own_id(row: Row) -> str:
    """Return the row's own id, or "". Raises DataError for one that is no text or whole number."""
    key = next((key for key in _IDS if row.values.get(key) is not None), None)
    if key is None:
        return ""
    value = row.values[key]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise row.error(f"{key!r} must be a text or a whole number that is not empty")
    text = clean_text(str(value)).strip()
    if len(text) > MAX_ID_CHARS:
        raise row.error(f"{key!r} has {len(text):,} characters; {MAX_ID_CHARS} are allowed")
    return text


def _is_squad(row: Row) -> bool:
    paragraphs = row.values.get("paragraphs")
    first = paragraphs[0] if isinstance(paragraphs, list) and paragraphs else None
    return isinstance(row.values.get("data"), list) or (isinstance(first, dict) and "context" in first)


LAYOUTS: Mapping[str, PassageLayout] = MappingProxyType(
    {
        layout.name: layout
        for layout in (
            PassageLayout(
                "flashrag",
                "id, contents",
                lambda row: "contents" in row.values and "text" not in row.values,
                _flashrag,
            ),
            PassageLayout("squad", "data or paragraphs of context", _is_squad, _squad),
            PassageLayout(
                "contexts",
                " or ".join(_PARAGRAPHS),
                lambda row: any(key in with_metadata(row).values for key in _PARAGRAPHS),
                _contexts,
            ),
            PassageLayout("title-text", "title, text", lambda row: "text" in row.values, _title_text),
        )
    }
)
"""Layouts by name, in the order in which "auto" tries them."""


def check_layout(name: str) -> None:
    """Raise ConfigError for a name that is no layout."""
    if name not in LAYOUTS:
        names = (AUTO, *LAYOUTS, FOLDER)
        raise ConfigError(
            f"no layout {name!r:.80} of passages (known: {', '.join(names)}).{did_you_mean(name, names)}"
        )


def choose_layout(name: str, row: Row, allowed: Collection[str] = LAYOUTS) -> PassageLayout:
    """Return the layout of a file by its first row: the one of this name, or with "auto" the one that fits.

    Raises ConfigError for an unknown name, DataError that lists the known layouts.
    """
    if name != AUTO:
        check_layout(name)
    candidates = [LAYOUTS[candidate] for candidate in (allowed if name == AUTO else (name,))]
    layout = next((candidate for candidate in candidates if candidate.fits(row)), None)
    if layout is not None and layout.name in allowed:
        return layout
    keys = ", ".join(sorted(map(str, row.values))[:12]) or "no keys"
    layouts = "; ".join(f"{candidate.name} ({candidate.keys})" for candidate in candidates)
    raise DataError(
        f"{row.location}: no passage that is understood; its keys are {keys[:200]}. Understood: {layouts}."
    )
