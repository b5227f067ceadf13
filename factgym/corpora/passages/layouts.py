"""The layouts of corpus files: which keys tell one, and which passages a row of it holds.

- **flashrag**: `id` and `contents`, the title on its first line with or without quotation marks; as FlashRAG, Search-R1
  and Pyserini write corpora. Ids are the file's.
- **title-text**: `text` with a `title` and an id (`id`, `_id`, `docid`) if there is one; JSON lines, arrays, DPR's TSV.
- **contexts**: questions that carry paragraphs (HotpotQA, 2WikiMultiHopQA, MuSiQue, PopQA, NQ with DPR's passages).
- **squad**: articles of paragraphs.

Where a file has no ids the title is the id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.strict_json import clean_text
from factgym.corpora.passages.paragraphs import CARRIERS, paragraphs_of, text_of, title_of, with_metadata
from factgym.corpora.passages.rows import Row, Values

AUTO, FOLDER = "auto", "folder"
MAX_ID_CHARS = 300
_IDS = ("id", "_id", "docid", "doc_id")


class Draft(NamedTuple):
    """A passage before its id is settled. id: the file's own, or "". shared: the same title and text are one passage."""

    id: str
    title: str
    text: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """fits: whether a row is of this layout. read: its passages. keys: what it looks for, for errors."""

    name: str
    keys: str
    fits: Callable[[Values], bool]
    read: Callable[[Row], Iterator[Draft]]


def _flashrag(row: Row) -> Iterator[Draft]:
    contents = text_of(row.values["contents"], row.place)
    first, found, rest = contents.partition("\n")
    if not found:
        first, rest = "", contents
    title = first.strip()
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    yield Draft(_own_id(row), title_of(title, row.place), rest.strip())


def _title_text(row: Row) -> Iterator[Draft]:
    yield Draft(_own_id(row), title_of(row.values.get("title"), row.place), text_of(row.values["text"], row.place))


def _contexts(row: Row) -> Iterator[Draft]:
    for one in paragraphs_of(row.values, row.place):
        yield Draft("", one.title, one.text, shared=True)


def _squad(row: Row) -> Iterator[Draft]:
    articles = row.values.get("data", [row.values])
    for article in articles if isinstance(articles, list) else [articles]:
        if not isinstance(article, dict) or not isinstance(article.get("paragraphs"), list):
            raise DataError(f"{row.place}: an article must be an object with a list of 'paragraphs'. Fix the file.")
        title = title_of(article.get("title"), row.place).replace("_", " ")
        for one in paragraphs_of(article, row.place):
            yield Draft("", title, one.text, shared=True)


def _own_id(row: Row) -> str:
    """The id that the row gives itself, or "". Raises DataError for one that is no text or whole number."""
    key = next((key for key in _IDS if row.values.get(key) is not None), None)
    if key is None:
        return ""
    value = row.values[key]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise DataError(f"{row.place}: {key!r} must be a text or a whole number that is not empty. Fix the row.")
    text = clean_text(str(value)).strip()
    if len(text) > MAX_ID_CHARS:
        raise DataError(f"{row.place}: {key!r} has {len(text):,} characters; {MAX_ID_CHARS} are allowed.")
    return text


def _is_article(row: Values) -> bool:
    paragraphs = row.get("paragraphs")
    first = paragraphs[0] if isinstance(paragraphs, list) and paragraphs else None
    return isinstance(row.get("data"), list) or (isinstance(first, dict) and "context" in first)


def _carries(row: Values) -> bool:
    return any(key in with_metadata(row) for key in CARRIERS)


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        one.name: one
        for one in (
            Layout("flashrag", "id, contents", lambda row: "contents" in row and "text" not in row, _flashrag),
            Layout("squad", "data or paragraphs of context", _is_article, _squad),
            Layout("contexts", " or ".join(CARRIERS), _carries, _contexts),
            Layout("title-text", "title, text", lambda row: "text" in row, _title_text),
        )
    }
)


def layout_named(name: str) -> Layout:
    """The layout of this name. Raises ConfigError."""
    if name not in LAYOUTS:
        known = (AUTO, *LAYOUTS, FOLDER)
        raise ConfigError(
            f"no layout {name!r:.80} of passages (known: {', '.join(known)}).{did_you_mean(name, known)}"
        )
    return LAYOUTS[name]


def chosen_layout(name: str, row: Row, among: Collection[str] = LAYOUTS) -> Layout:
    """The layout of a file by its first row: the one of this name, or with "auto" the one that fits.

    among: those that will do. Raises ConfigError for an unknown name, DataError that lists what is understood.
    """
    candidates = [LAYOUTS[one] for one in among] if name == AUTO else [layout_named(name)]
    found = next((layout for layout in candidates if layout.fits(row.values)), None)
    if found is not None and found.name in among:
        return found
    seen = ", ".join(sorted(map(str, row.values))[:12]) or "no keys"
    known = "; ".join(f"{layout.name} ({layout.keys})" for layout in candidates)
    raise DataError(f"{row.place}: no passage that is understood; its keys are {seen[:200]}. Understood: {known}.")


def drafts_of(layout: Layout, row: Row) -> Iterator[Draft]:
    """The passages of a row. Raises DataError for one without text, and for a row of another layout."""
    try:
        for draft in layout.read(row):
            if not draft.text:
                raise DataError(f"{row.place}: a passage without text. Add the text or remove the row.")
            yield draft
    except KeyError as error:
        raise DataError(f"{row.place}: no {error} in this row of the layout {layout.name}. Fix the row.") from None
