"""Passages out of users' files: any known layout, packed or not, and folders of texts; `factgym.corpora.build` makes
corpora of them.

Layouts of files:

- **flashrag**: `id` and `contents`, the title on its first line with or without quotation marks; as FlashRAG, Search-R1
  and Pyserini write corpora. Ids are the file's.
- **title-text**: `text` with a `title` and an id (`id`, `_id`, `docid`) if there is one; JSON lines, arrays, DPR's TSV.
- **contexts**: questions that carry paragraphs (HotpotQA, 2WikiMultiHopQA, MuSiQue, PopQA, NQ with DPR's passages).
- **squad**: articles of paragraphs.
- **web-pages**: `url` and `url2text`, the sentences of a page, as the files for each claim of AVeriTeC's knowledge store
  have them. Passages are those of `factgym.datasets.evidence`, and a page that several claims share is there once.
- **mediawiki**: a Wikipedia dump (`….xml`, `.xml.bz2`); articles are cut into passages by section.

Where a file has no ids the title is the id. Files are read as streams: besides the passages themselves nothing grows
with the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import exists
from factgym.core.strict_json import clean_text
from factgym.corpora.byte_ranges import visible_files
from factgym.corpora.cooccurrence.sources import Article, Source, is_dump_name
from factgym.corpora.corpus import Passage
from factgym.corpora.documents import MAX_PASSAGE_CHARS, Document, Skipped, UniqueNames, iter_folder, make_document
from factgym.corpora.extraction import READABLE, TABLES, ReadingBudget
from factgym.corpora.rows import COLUMNAR, PACKED, SUFFIXES, OnBad, Row, read_rows, suffix_of, type_name
from factgym.corpora.web_pages import MAX_URL_CHARS, evidence_id, host_of, windows
from factgym.corpora.wikitext import read_wikitext

AUTO, FOLDER = "auto", "folder"
DUMP: Final = "mediawiki"
MAX_ID_CHARS = 300
MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 1_000_000
_ROW_SUFFIXES = (*SUFFIXES, *COLUMNAR)
_IDS = ("id", "_id", "docid", "doc_id")


def iter_passages(path: str | Path, *, layout: str = AUTO, on_bad: OnBad | None = None) -> Iterator[Passage]:
    """Yield the passages of a file or folder one after another; arguments and errors as of `read_passages`.

    on_bad: takes the error of a broken row, which is left out.
    """
    path = Path(path)
    if files := row_files(path, layout):
        return (passage for passage, _ in row_passages(files, layout, on_bad))
    return (passage for document in read_documents(path, layout, on_bad) for passage in document.passages)


def read_documents(path: Path, layout: str = AUTO, on_bad: OnBad | None = None) -> Iterator[Document]:
    """Yield the documents of a source without `row_files`: articles of a dump, or texts."""
    return read_articles(path, on_bad) if dump_files(path, layout) else read_texts(path, on_bad)


def dump_files(path: Path, layout: str = AUTO) -> list[Path]:
    """Return the files of a Wikipedia dump: a file of XML, a folder with a dump's names, or any with its layout."""
    is_dump = layout == DUMP
    if layout == AUTO:
        is_dump = suffix_of(path) == ".xml" if path.is_file() else any(map(is_dump_name, visible_files(path)))
    return Source(path, form=DUMP).files if is_dump else []


def read_articles(path: Path, on_bad: OnBad | None = None) -> Iterator[Document]:
    """Yield the articles of a Wikipedia dump. Arguments and errors as of `read_dump`, and DataError without a text."""
    is_empty = True
    for article in read_dump(path, on_bad):
        document = read_article(article)
        is_empty = is_empty and not document.passages
        yield document
    if is_empty:
        raise no_article(path)


def read_dump(path: Path, on_bad: OnBad | None = None) -> Iterator[Article]:
    """Yield the articles of a Wikipedia dump as they are written there.

    on_bad: takes the error of a broken page, which is left out. Raises MissingExtraError (extra `wikipedia`), and
    DataError for a broken page.
    """

    def report(fault: str) -> None:
        if on_bad is not None:
            on_bad(DataError(f"{fault}."))

    return Source(path, form=DUMP).articles(report if on_bad is not None else None)


def read_article(article: Article) -> Document:
    """Return an article with the page's id, its title as path, the text of `strip_wikitext`."""
    text, blocks = read_wikitext(clean_text(article.wikitext))
    title = " ".join(clean_text(article.title).split())[:MAX_TITLE_CHARS]
    document = make_document(article.id[:MAX_ID_CHARS], title, blocks, MAX_PASSAGE_CHARS)
    return replace(document, path=title, text=text)


def no_article(path: Path) -> DataError:
    """Return the error for a dump without a text."""
    return DataError(f"{path}: no article with text in this dump. Give a …pages-articles….xml of MediaWiki.")


def read_texts(
    path: Path,
    on_bad: OnBad | None = None,
    on_skipped: Callable[[Skipped], object] | None = None,
    budget: ReadingBudget | None = None,
) -> Iterator[Document]:
    """Yield the documents of a folder of texts, or of one file, HTML, PDF and DOCX included, one after another."""
    return iter_folder(path, budget=budget, on_bad=on_bad, on_skipped=on_skipped)


def row_files(path: Path, layout: str = AUTO) -> list[Path]:
    """Return the files of rows; none where the path is read as documents: texts, or a dump.

    Raises ConfigError for a path that does not exist or an unknown layout.
    """
    if not exists(path):
        raise ConfigError(f"{path} does not exist: give a file or folder of passages")
    if layout in (FOLDER, DUMP):
        return []
    if layout != AUTO:
        check_layout(layout)
    if dump_files(path, layout):
        return []
    if path.is_file():
        return [path] if suffix_of(path) in _ROW_SUFFIXES and not (layout == AUTO and _is_table(path)) else []
    files = sorted(file for name in visible_files(path) if (file := path / name).is_file())
    if any(file.suffix.lower() in {*READABLE}.difference(_ROW_SUFFIXES) for file in files):
        return []
    # Beside the tables of a data set that `datasets` saved are its description and state in JSON.
    tables = [file for file in files if file.suffix.lower() == ".arrow"]
    files = tables or [file for file in files if suffix_of(file) in _ROW_SUFFIXES]
    return [] if files and layout == AUTO and all(map(_is_table, files)) else files


def _is_table(file: Path) -> bool:
    """Whether a file is a table without a column of texts, which is read as a document."""
    row = next(read_rows(file, on_bad=lambda _: None), None) if file.suffix.lower() in TABLES else None
    return row is not None and not any(layout.fits(row) for layout in LAYOUTS.values())


def row_passages(
    files: list[Path], layout_name: str = AUTO, on_bad: OnBad | None = None
) -> Iterator[tuple[Passage, str]]:
    """Yield the passages of files, each with its document or "", and with ids that are unique among the files.

    Raises DataError where there is none.
    """
    titles = TitleIds()
    lines: dict[str, str] = {}
    is_empty = True
    for file in files:
        layout: PassageLayout | None = None  # of a file: that of its first row
        for row in read_rows(file, on_bad=on_bad, suffixes=_ROW_SUFFIXES):
            try:
                layout = layout or choose_layout(layout_name, row)
                drafts = list(layout.drafts(row))
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
                continue
            for draft in drafts:
                is_empty = False
                title = draft.title or f"passage {row.number}"
                id_ = draft.id or (titles.id_of(title, draft.text) if draft.is_shared else titles.new_id(title))
                if id_ not in lines:
                    lines[id_] = f"line {row.number}"
                    yield Passage(id_, draft.title, draft.text), draft.document
                elif not draft.is_shared:
                    repeated = f"{row.location}: the id {id_[:80]!r} is at {lines[id_]} too. Make ids unique."
                    if on_bad is None:
                        raise DataError(repeated)
                    on_bad(DataError(repeated))
    if is_empty:
        raise DataError(f"{files[0]}: holds no passage. Give rows with texts ({', '.join((*_ROW_SUFFIXES, *PACKED))}).")


# Paragraphs that question files carry. Gold evidence read off a question file points into the corpus that is read off the
# same file, so texts and ids of paragraphs are defined here once.


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
        self.new_id = UniqueNames("#", str).take

    def id_of(self, title: str, text: str) -> str:
        """Return the id of a paragraph."""
        id_ = self._ids.get((title, text))
        return id_ if id_ is not None else self._ids.setdefault((title, text), self.new_id(title))


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


def pairs_of(value: Any, key: str, second: tuple[str, ...], noun: str, row: Row) -> list[Any]:
    """Return pairs with a title: a list of them, as published, or the columns "title" and `second`, as on the hub.

    second: the names that the other column may have. noun: its entries in errors. Raises DataError.
    """
    if isinstance(value, dict):
        titles, others = value.get("title"), next((value[name] for name in second if name in value), None)
        if not isinstance(titles, list) or not isinstance(others, list) or len(titles) != len(others):
            raise row.error(f"{key!r} must hold a list of titles and as many {noun}")
        return list(zip(titles, others, strict=True))
    if not isinstance(value, list):
        raise row.error(f"{key!r} must be a list, not {type_name(value)}")
    return value


def _context_pairs(value: Any, row: Row) -> Iterator[Paragraph]:
    for pair in pairs_of(value, "context", ("sentences", "content"), "lists of sentences", row):
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], list):
            raise row.error("a context must be a title with a list of sentences")
        yield _join_sentences(title_of(pair[0], row), pair[1], row)


def _join_sentences(title: str, sentences: list[Any], row: Row) -> Paragraph:
    """Join sentences to one text: as they are where they bring their spaces, else with a space between them."""
    # Invariant: `text[start:end]` of every range is the stripped sentence, also when `text` is stripped at the end.
    text, ranges = "", []
    for sentence in sentences:
        addition = clean_text(sentence) if isinstance(sentence, str) else text_of(sentence, row)
        gap = "" if not text or text[-1].isspace() or addition[:1].isspace() or not addition else " "
        addition = addition if text else addition.lstrip()
        start = len(text) + len(gap) + len(addition) - len(addition.lstrip())
        text += gap + addition
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


_PARAGRAPHS: Mapping[str, Callable[[Any, Row], Iterator[Paragraph]]] = {
    "context": _context_pairs,
    "contexts": _context_pairs,
    "paragraphs": _paragraph_objects("paragraphs", ("paragraph_text", "text", "context"), "is_supporting"),
    "ctxs": _paragraph_objects("ctxs", ("text",), "isgold"),
}
"""Keys under which a question's row carries paragraphs."""


# Layouts of corpus files: the columns that identify one, and the passages of a row.


class Draft(NamedTuple):
    """A passage before its id is settled.

    id: the file's own, or "". is_shared: another draft with the same title and text is the same passage.
    document: where the text comes from, or "".
    """

    id: str
    title: str
    text: str
    is_shared: bool = False
    document: str = ""


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
    first, newline, text = contents.partition("\n")
    title = first.strip() if newline else ""
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    yield Draft(_own_id(row), title_of(title, row), (text if newline else contents).strip())


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


def _web_page(row: Row) -> Iterator[Draft]:
    """Yield the passages of a page of an AVeriTeC knowledge store: windows of its sentences."""
    content, url = row.values["url2text"], row.values.get("url") or ""
    texts = [content] if isinstance(content, str) else content
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise row.error("'url2text' must be a list of sentences")
    if not isinstance(url, str):
        raise row.error(f"'url' must be a text, not {type_name(url)}")
    url = clean_text(url[:MAX_URL_CHARS]).strip()
    for text in windows(texts):
        yield Draft(evidence_id(url, text), host_of(url), text, is_shared=True, document=url)


_LAYOUTS = (
    PassageLayout("web-pages", "url, url2text", lambda row: "url2text" in row.values, _web_page),
    PassageLayout(
        "flashrag", "id, contents", lambda row: "contents" in row.values and "text" not in row.values, _flashrag
    ),
    PassageLayout("squad", "data or paragraphs of context", _is_squad, _squad),
    PassageLayout(
        "contexts",
        " or ".join(_PARAGRAPHS),
        lambda row: any(key in with_metadata(row).values for key in _PARAGRAPHS),
        lambda row: (Draft("", part.title, part.text, is_shared=True) for part in paragraphs_of(row)),
    ),
    PassageLayout(
        "title-text",
        "title, text",
        lambda row: "text" in row.values,
        lambda row: iter(
            [Draft(_own_id(row), title_of(row.values.get("title"), row), text_of(row.values["text"], row))]
        ),
    ),
)
LAYOUTS: Mapping[str, PassageLayout] = MappingProxyType({layout.name: layout for layout in _LAYOUTS})
"""Layouts by name, in the order in which "auto" tries them."""


def check_layout(name: str) -> None:
    """Raise ConfigError for a name that is no layout."""
    if name not in LAYOUTS:
        names = (AUTO, *LAYOUTS, DUMP, FOLDER)
        raise ConfigError(f"no layout {name!r:.80} of passages (known: {', '.join(names)}).{did_you_mean(name, names)}")


def choose_layout(name: str, row: Row) -> PassageLayout:
    """Return the layout of a file by its first row: the one of this name, or with "auto" the one that fits.

    Raises ConfigError for an unknown name, DataError that lists the known layouts.
    """
    if name != AUTO:
        check_layout(name)
    candidates = list(LAYOUTS.values()) if name == AUTO else [LAYOUTS[name]]
    if layout := next((candidate for candidate in candidates if candidate.fits(row)), None):
        return layout
    keys = ", ".join(sorted(map(str, row.values))[:12]) or "no keys"
    layouts = "; ".join(f"{candidate.name} ({candidate.keys})" for candidate in candidates)
    raise DataError(f"{row.location}: no passage that is understood; its keys are {keys[:200]}. Understood: {layouts}.")
