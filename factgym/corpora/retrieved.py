"""Passages that an index elsewhere returns with its hits: no copy of its corpus is needed here.

    make("eve-solver", corpus="http://127.0.0.1:8000", index="http://127.0.0.1:8000")     a server of `/retrieve`
    make("eve-solver", corpus=RetrievedCorpus(my_index), index=my_index)                  a user's own index

Each hit brings its document, as `/retrieve` has it: `{"document": {"id": "7", "contents": "Title\\ntext"}, "score": 1.5}`, or
the bare document. The passages that came last are held, within bounds, and can be read by id; there is no list of all.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from factgym.core.errors import ConfigError
from factgym.core.strict_json import clean_text
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError
from factgym.corpora.http_client import FIRST_CONTACT_SECONDS, POSTGRES, HttpClient, parse_health, server_address

MAX_PASSAGES = 100_000
"""Passages held at a time; those used longest ago go first."""

MAX_CHARS = 100_000_000
"""Characters of passages held at a time."""

MAX_ID_CHARS = 200

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_TIMEOUT = 60.0
_START = "factgym serve retrieval SOURCE --host HOST --port PORT"


class RetrievedCorpus(Corpus):
    """The passages that were retrieved from `source`: the URL of a retrieval server or a table in PostgreSQL, or an index whose hits bring documents.

    Safe under threads, which share the passages; pickles without them. Raises ConfigError where all passages are asked
    for, UnknownPassageError for an id that was not retrieved, or so long ago that it is held no more.
    """

    __slots__ = ("_chars", "_lock", "_size", "source")

    def __init__(self, source: Any) -> None:
        super().__init__(())
        if isinstance(source, str):
            source = source if source.startswith(POSTGRES) else server_address(source).geturl()
        elif not callable(getattr(source, "search", None)):
            raise ConfigError(
                f"the passages of {type(source).__name__} cannot be retrieved: give a server's URL, or an object with "
                "search(queries: list[str], k: int)"
            )
        self.source = source
        self._by_id: OrderedDict[str, Passage] = OrderedDict()
        self._chars = 0
        self._size: int | None = None
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return RetrievedCorpus, (self.source,)

    @property
    def size(self) -> int | None:
        """Number of passages of the server's corpus; None where it is not told."""
        self.fingerprint()
        return self._size

    @property
    def passages(self) -> Sequence[Passage]:
        """Raises ConfigError."""
        self._refuse()

    @property
    def ids(self) -> Sequence[str]:
        """Raises ConfigError."""
        self._refuse()

    def fingerprint(self) -> str:
        """The fingerprint of the corpus that a server tells at `/health`, or of the index; independent of any address.

        Where neither has one, SHA-256 in hex over the type of the source. Raises ServerUnavailableError.
        """
        with self._lock:
            if not self._fingerprint:
                self._fingerprint = self._source_fingerprint()
            return self._fingerprint

    def add(self, document: object) -> Passage | None:
        """Hold the passage of a document as `/retrieve` has it, and return it; None for one without id and text."""
        passage = parse_document(document)
        if passage is None:
            return None
        with self._lock:
            self._chars += _size_of(passage) - _size_of(self._by_id.pop(passage.id, None))
            self._by_id[passage.id] = passage
            while len(self._by_id) > MAX_PASSAGES or (self._chars > MAX_CHARS and len(self._by_id) > 1):
                self._chars -= _size_of(self._by_id.popitem(last=False)[1])
        return passage

    def get(self, passage_id: str) -> Passage:
        """Return the retrieved passage with this id. Raises UnknownPassageError."""
        passage = self.find(passage_id)
        if passage is None:
            raise UnknownPassageError(f"no passage {str(passage_id)[:80]!r} among those that were retrieved")
        return passage

    def position(self, passage_id: str) -> int:
        """0: the order of these passages is that of the hits."""
        return 0

    def __len__(self) -> int:
        return len(self._by_id) if self.size is None else self.size

    def __iter__(self) -> Iterator[Passage]:
        self._refuse()

    def __repr__(self) -> str:
        source = self.source if isinstance(self.source, str) else type(self.source).__name__
        return f"{type(self).__name__}({source!r})"

    def find(self, passage_id: object) -> Passage | None:
        """Return the passage with this id, None where there is none."""
        with self._lock:
            passage = self._by_id.get(passage_id)  # type: ignore[call-overload]  # any hashable key may be asked for
            if passage is not None:
                self._by_id.move_to_end(passage.id)
            return passage  # type: ignore[no-any-return]

    def _source_fingerprint(self) -> str:
        """Return what identifies a source of passages: its own fingerprint, its server's, or its type."""
        if not isinstance(self.source, str):
            own = getattr(self.source, "fingerprint", None)
            kind = f"{type(self.source).__module__}.{type(self.source).__qualname__}"
            return _digest(kind, str(own()) if callable(own) else "")
        health = read_health(self.source)
        if isinstance(passages := health.get("passages"), int) and 0 <= passages < 10**12:
            self._size = passages
        fingerprint = health.get("corpus")
        if isinstance(fingerprint, str) and _FINGERPRINT.fullmatch(fingerprint):
            return fingerprint
        return _digest("server")

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            f"the passages of {self!r} are not here, only those that a search returned: this needs all of them. Give "
            "corpus=FILE or FOLDER instead"
        )


def read_health(url: str) -> Mapping[str, Any]:
    """Return a retrieval server's description of corpus and index, empty where it has no `/health`.

    Raises ServerUnavailableError.
    """
    if url.startswith(POSTGRES):
        # Named, not imported: it imports the indexes, which import this module.
        health: Mapping[str, Any] = importlib.import_module("factgym.corpora.postgres").read_health(url)
        return health
    client = HttpClient(url, _TIMEOUT, "retrieval server", _START)
    return parse_health(*client.exchange("GET", "/health", None, FIRST_CONTACT_SECONDS))


def parse_document(document: object) -> Passage | None:
    """Return the passage of `{"id": …, "contents": "Title\\ntext"}` (or title and text); None for anything else."""
    if not isinstance(document, Mapping):
        return None
    id_, title = document.get("id"), document.get("title")
    text = document.get("contents", document.get("text"))
    if isinstance(id_, bool) or not isinstance(id_, str | int) or not isinstance(text, str) or not text.strip():
        return None
    if (isinstance(id_, int) and abs(id_) >= 10**MAX_ID_CHARS) or not 0 < len(str(id_)) <= MAX_ID_CHARS:
        return None
    if not isinstance(title, str):
        first, newline, rest = text.partition("\n")
        title, text = (first.strip(), rest) if newline and rest.strip() else ("", text)
        if len(title) > 1 and title[0] == title[-1] == '"':
            title = title[1:-1]
    return Passage(clean_text(str(id_)), clean_text(title.strip()), clean_text(text.strip()))


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(["retrieved", *parts]).encode()).hexdigest()


def _size_of(passage: Passage | None) -> int:
    return 0 if passage is None else len(passage.id) + len(passage.title) + len(passage.text)
