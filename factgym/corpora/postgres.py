"""Dense search in PostgreSQL with pgvector: `index="postgresql://USER@HOST:PORT/DATABASE?table=NAME"`.

    factgym corpus push FOLDER postgresql://me@db.example:5432/search --encoder ./my-e5

A table holds position, id, title, text and vector of each passage; its comment says which corpus and which encoder made
it, so that neither is mixed up with another. The password comes from PGPASSWORD and is in no URL, fingerprint or message.
PostgreSQL has no BM25: search words with the index of the corpus, or fuse both with `index="hybrid"`.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import ssl
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.tasks import Immutable
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.dense import SCORE_DIGITS, Encoder, as_encoder
from factgym.corpora.http_client import FIRST_CONTACT_SECONDS, FIRST_PAUSE, MAX_PAUSE, ServerUnavailableError, printable
from factgym.corpora.index import Hit, check_request, index_fingerprint
from factgym.corpora.retrieved import RetrievedCorpus

PASSWORD_VARIABLE = "PGPASSWORD"
TABLE = "factgym_passages"
TIMEOUT = 60.0
RETRY_SECONDS = 120.0
BATCH = 256
"""Passages encoded and written in one transaction."""

MAX_DIMENSION = 16_000
_SPARE = 8
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_LOST = ("08", "57P", "53300")
"""Codes of a connection that was lost or refused for now: another attempt may succeed."""

T = TypeVar("T")


class PostgresAddress(NamedTuple):
    """Where a table is. socket: folder of a Unix socket, "" for TCP. url: as written, without any password."""

    url: str
    user: str
    host: str
    port: int
    database: str
    table: str
    socket: str
    encrypted: bool


def parse_address(url: str) -> PostgresAddress:
    """Return the parts of `postgresql://[USER@][HOST][:PORT]/DATABASE[?table=NAME&host=SOCKET_FOLDER&sslmode=require]`.

    Raises ConfigError for any other text, and for one with a password, which it does not repeat.
    """
    form = "postgresql://USER@HOST:PORT/DATABASE?table=NAME"
    try:
        parts = urlsplit(url)
        port, query = parts.port or 5432, parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    except ValueError:
        raise ConfigError(f"this is no address of a database: write {form}") from None
    if parts.password or "password" in query:
        raise ConfigError(f"a password in the URL would end up in manifests: put it into {PASSWORD_VARIABLE}")
    database = unquote(parts.path.strip("/"))
    options = {"table", "host", "sslmode"}
    values = {key: entries[0] for key, entries in query.items()}
    table, mode = values.get("table", TABLE), values.get("sslmode", "disable")
    if not database or parts.fragment or not url.isprintable() or set(values) - options:
        raise ConfigError(f"{url[:120]!r} is no address of a database: write {form} (also host, sslmode)")
    if not _TABLE.fullmatch(table) or mode not in ("disable", "require"):
        raise ConfigError(f"{url[:120]!r}: table is of a-z, 0-9 and _, at most 63; sslmode is disable or require")
    user = unquote(parts.username or "") or os.environ.get("PGUSER") or getpass.getuser()
    url = url.replace(f"{parts.username}:@", f"{parts.username}@")
    return PostgresAddress(
        url, user, parts.hostname or "localhost", port, database, table, values.get("host", ""), mode == "require"
    )


class _Database:
    """Pooled connections to a table. A statement that was cut off by a lost connection is run again."""

    def __init__(self, address: PostgresAddress, timeout: float, retry_seconds: float) -> None:
        if timeout <= 0 or retry_seconds < 0:
            raise ConfigError("a database needs timeout above 0 and retry_seconds of at least 0")
        try:
            import pg8000.native
        except ImportError as error:
            raise MissingExtraError("index='postgresql://…'", "postgres") from error
        self._driver: Any = pg8000.native
        self.address, self._timeout, self._retry_seconds = address, timeout, retry_seconds
        self._idle: list[tuple[int, Any]] = []
        weakref.finalize(self, _close_all, self._idle)

    def run(self, work: Callable[[Any], T]) -> T:
        """Return `work(connection)` as one transaction. Raises ServerUnavailableError, and ConfigError for a refusal."""
        waited, pause = 0.0, FIRST_PAUSE
        while True:
            connection = None
            try:
                connection = self._take()
                connection.run("BEGIN")
                result = work(connection)
                connection.run("COMMIT")
                self._idle.append((os.getpid(), connection))
                return result
            except self._driver.DatabaseError as error:
                self._close(connection)
                fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
                fault = printable(str(fields.get("M", error)))
                code = str(fields.get("C", ""))
                if not code.startswith(_LOST):
                    hint = f": user and {PASSWORD_VARIABLE} must be those of the database" if code[:2] == "28" else ""
                    raise ConfigError(f"the database at {self.address.url} refused: {fault}{hint}") from None
            except (OSError, self._driver.InterfaceError) as error:
                self._close(connection)
                fault = printable(f"{type(error).__name__}: {error}")
                waited += self._timeout if isinstance(error, TimeoutError) else 0.0
            except BaseException:
                self._close(connection)
                raise
            if waited >= self._retry_seconds:
                raise ServerUnavailableError(
                    f"no PostgreSQL at {self.address.url} ({fault}): start it, or correct user, host and port; the "
                    f"password comes from {PASSWORD_VARIABLE}, and retry_seconds says how long to wait"
                )
            time.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, MAX_PAUSE)

    def _take(self) -> Any:
        while self._idle:
            process_id, connection = self._idle.pop()
            if process_id == os.getpid():
                return connection
        address = self.address
        return self._driver.Connection(
            address.user,
            host=address.host,
            port=address.port,
            database=address.database,
            password=os.environ.get(PASSWORD_VARIABLE),
            unix_sock=f"{address.socket}/.s.PGSQL.{address.port}" if address.socket else None,
            ssl_context=ssl.create_default_context() if address.encrypted else None,
            timeout=self._timeout,
        )

    def _close(self, connection: Any) -> None:
        if connection is not None:
            with suppress(OSError, self._driver.InterfaceError, self._driver.DatabaseError):  # it may be lost already
                connection.close()


def _close_all(idle: list[tuple[int, Any]]) -> None:
    for process_id, connection in idle:
        if process_id == os.getpid():
            with suppress(Exception):  # the driver's errors at the end of a process or of its server help nobody
                connection.close()


def read_table(database: _Database) -> dict[str, Any]:
    """Return what the table's comment says of its corpus and encoder, {} where there is no table. Raises ConfigError."""
    table = database.address.table
    rows = database.run(
        lambda connection: connection.run(
            "SELECT obj_description(c.oid, 'pg_class') FROM pg_class c WHERE c.oid = to_regclass(:name)", name=table
        )
    )
    if not rows:
        return {}
    try:
        meta = json.loads(rows[0][0] or "")["factgym"]
        return {key: meta[key] for key in ("corpus", "passages", "encoder", "preset", "dimension", "complete")}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ConfigError(
            f"the table {table} at {database.address.url} is not of `factgym corpus push`: name another with ?table=NAME"
        ) from None


def read_health(url: str) -> Mapping[str, Any]:
    """Return corpus, number of passages and fingerprint of the index of a table. Raises as `PostgresIndex`."""
    meta = read_table(_Database(parse_address(url), TIMEOUT, 0.0))
    return {**meta, "index": _fingerprint(meta)} if meta else {}


class PostgresIndex(Immutable):
    """Inner-product search by a table that `factgym corpus push` filled, over the same passages or a `RetrievedCorpus`.

    encoder, preset, device, batch_size: of the queries, the same encoder as of the passages. Exact, unless the table has
    an index of pgvector's; scores are rounded and ties in corpus order, as of `DenseIndex`. Raises ConfigError for a table
    that is missing, unfinished, or of another corpus or encoder; ServerUnavailableError where no database answers.
    """

    def __init__(
        self,
        passages: Iterable[Passage],
        url: str,
        *,
        encoder: Any = None,
        timeout: float = TIMEOUT,
        retry_seconds: float = RETRY_SECONDS,
        **options: Any,
    ) -> None:
        self._corpus = Corpus.of(passages)
        self._settings = {"timeout": timeout, "retry_seconds": retry_seconds, **options}
        self._chosen = encoder
        self._database = _Database(parse_address(url), timeout, retry_seconds)
        self.url = self._database.address.url
        self._meta = read_table(self._database)
        fill = f"`factgym corpus push FOLDER {self.url} --encoder MODEL`"
        if not self._meta:
            raise ConfigError(f"no table {self._database.address.table} at {self.url}: fill it with {fill}")
        if not self._meta["complete"]:
            raise ConfigError(f"the table at {self.url} is not filled to its end: run {fill} again, which continues")
        if not isinstance(self._corpus, RetrievedCorpus) and self._meta["corpus"] != self._corpus.fingerprint():
            raise ConfigError(
                f"the table at {self.url} holds another corpus ({self._meta['passages']:,} passages) than is searched here "
                f"({len(self._corpus):,}): fill another with {fill}, or give {self.url} as corpus too"
            )
        self._encoder = as_encoder(encoder, **options)
        _check_encoder(self._meta, self._encoder, self.url)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(PostgresIndex, encoder=self._chosen, **self._settings), (self._corpus, self.url)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first; none for a blank query."""
        check_request(queries, k)
        nonblank = [number for number, query in enumerate(queries) if query.strip()]
        results: list[list[Hit]] = [[] for _ in queries]
        vectors: Any = self._encoder.queries([queries[number] for number in nonblank]) if nonblank else []
        table = self._database.address.table
        is_local = not isinstance(self._corpus, RetrievedCorpus)
        columns = "id, position" if is_local else "id, position, title, contents"

        def select(connection: Any) -> list[Any]:
            # Some hits more than requested: scores are rounded after the search, which may reorder those near the cut.
            statement = (
                f"SELECT - (vector <#> CAST(:query AS vector)) AS score, {columns} FROM {table} "
                f"ORDER BY vector <#> CAST(:query AS vector) LIMIT :number"
            )
            return [connection.run(statement, query=_literal(row), number=k + _SPARE) for row in vectors]

        for number, rows in zip(nonblank, self._database.run(select) if nonblank else [], strict=True):
            ranked = sorted((-round(float(row[0]), SCORE_DIGITS), row[2], row) for row in rows)[:k]
            results[number] = [self._hit(row, -score) for score, _, row in ranked]
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, encoder and preset of the table; independent of the address."""
        return _fingerprint(self._meta)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _hit(self, row: Sequence[Any], score: float) -> Hit:
        if isinstance(self._corpus, RetrievedCorpus):
            self._corpus.add({"id": row[1], "title": row[3], "contents": row[4]})
        elif row[1] not in self._corpus:
            raise ConfigError(f"the table at {self.url} has the passage {row[1][:80]!r}, which is not of this corpus")
        return Hit(row[1], score)


def push_corpus(
    corpus: Corpus,
    url: str,
    encoder: Encoder,
    *,
    replace: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[int, int]:
    """Write passages and vectors into the table of `url`; return how many were written and how many were there.

    What is there with the same content is not encoded again, so that a push that was interrupted continues, and a second
    one writes nothing. replace: drop a table of another corpus or encoder first. progress: gets passages done so far.
    Raises ConfigError for such a table without it, for an id that PostgreSQL cannot hold, and without pgvector.
    """
    database = _Database(parse_address(url), TIMEOUT, FIRST_CONTACT_SECONDS)
    table = database.address.table
    meta = read_table(database)
    is_other = meta and (meta["corpus"] != corpus.fingerprint() or (meta["encoder"], meta["preset"]) != _name(encoder))
    if is_other and not replace:
        raise ConfigError(f"the table at {database.address.url} holds another corpus or encoder: --force replaces it")
    if is_other:
        database.run(lambda connection: connection.run(f"DROP TABLE {table}"))
    exists = bool(meta) and not is_other
    written = present = 0
    passages = iter(enumerate(corpus))
    while batch := list(islice(passages, BATCH)):
        missing = _missing(database, batch) if exists else batch
        if missing:
            vectors = encoder.passages([passage for _, passage in missing])
            if not exists:
                _create(database, corpus, encoder, vectors.shape[1])
                exists = True
            database.run(partial(_insert, table=table, rows=missing, vectors=vectors))
        written, present = written + len(missing), present + len(batch) - len(missing)
        progress(written + present)
    if not written + present:
        raise ConfigError("a corpus without passages cannot be pushed")
    meta = read_table(database)
    database.run(lambda connection: _comment(connection, table, {**meta, "complete": True}))
    return written, present


def _create(database: _Database, corpus: Corpus, encoder: Encoder, dimension: int) -> None:
    if dimension > MAX_DIMENSION:
        raise ConfigError(f"pgvector holds at most {MAX_DIMENSION:,} dimensions, not {dimension:,}")
    table = database.address.table
    model, preset = _name(encoder)
    meta = {"corpus": corpus.fingerprint(), "passages": len(corpus), "encoder": model, "preset": preset}

    def create(connection: Any) -> None:
        connection.run("CREATE EXTENSION IF NOT EXISTS vector")
        connection.run(
            f"CREATE TABLE {table} (position bigint PRIMARY KEY, id text UNIQUE NOT NULL, title text NOT NULL, "
            f"contents text NOT NULL, digest text NOT NULL, vector vector({int(dimension)}) NOT NULL)"
        )
        _comment(connection, table, {**meta, "dimension": int(dimension), "complete": False})

    database.run(create)


def _comment(connection: Any, table: str, meta: Mapping[str, Any]) -> None:
    connection.run(f"COMMENT ON TABLE {table} IS {_text_literal(json.dumps({'factgym': meta}))}")


def _text_literal(text: str) -> str:
    """Return a text as a literal of SQL, for statements that take no parameters."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _missing(database: _Database, batch: list[tuple[int, Passage]]) -> list[tuple[int, Passage]]:
    table = database.address.table
    rows = database.run(
        lambda connection: connection.run(
            f"SELECT position, digest FROM {table} WHERE position BETWEEN :first AND :last",
            first=batch[0][0],
            last=batch[-1][0],
        )
    )
    present = dict(rows)
    return [(position, passage) for position, passage in batch if present.get(position) != _digest(passage)]


def _insert(connection: Any, *, table: str, rows: list[tuple[int, Passage]], vectors: Any) -> None:
    for (position, passage), vector in zip(rows, vectors, strict=True):
        if passage.id != _storable(passage.id):
            raise ConfigError(f"PostgreSQL cannot hold the id {passage.id[:80]!r}: it has a zero or a lone surrogate")
        connection.run(
            f"INSERT INTO {table} (position, id, title, contents, digest, vector) VALUES "
            "(:position, :id, :title, :contents, :digest, CAST(:vector AS vector)) ON CONFLICT (position) DO UPDATE SET "
            "id = EXCLUDED.id, title = EXCLUDED.title, contents = EXCLUDED.contents, digest = EXCLUDED.digest, "
            "vector = EXCLUDED.vector",
            position=position,
            id=passage.id,
            title=_storable(passage.title),
            contents=_storable(passage.text),
            digest=_digest(passage),
            vector=_literal(vector),
        )


def _storable(text: str) -> str:
    """Return a text without what PostgreSQL refuses: zeros and lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _digest(passage: Passage) -> str:
    return hashlib.sha256(json.dumps([passage.id, passage.title, passage.text]).encode()).hexdigest()


def _literal(vector: Any) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


def _name(encoder: Encoder) -> tuple[str, dict[str, Any]]:
    return encoder.name, asdict(encoder.preset)


def _check_encoder(meta: Mapping[str, Any], encoder: Encoder, url: str) -> None:
    if (meta["encoder"], meta["preset"]) != _name(encoder):
        preset = meta["preset"].get("name") if isinstance(meta["preset"], dict) else None
        raise ConfigError(
            f"the vectors at {url} were made by the encoder {printable(str(meta['encoder']))[:80]} with the preset "
            f"{printable(str(preset))[:40]}, and the queries would be by {encoder.name[:80]} with {encoder.preset.name}: "
            "give the same encoder and preset"
        )


def _fingerprint(meta: Mapping[str, Any]) -> str:
    return index_fingerprint("postgres", {"preset": meta["preset"], "encoder": meta["encoder"]}, [str(meta["corpus"])])
