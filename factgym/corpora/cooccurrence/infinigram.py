"""Counts of an index of the `infini-gram` package (Liu et al., 2024) behind the same protocol, to repeat the paper's.

    counter = InfinigramCounter("v4_wikipedia_llama", tokenizer="Llama-2-7b-hf")     # a published index
    counter.count(["Philadelphia", "Flyers", "Stanley", "Cup"])

An index over a language model's tokens needs that model's tokenizer, from a folder or a `tokenizer.json`; nothing is
downloaded. A word is then as many tokens as the tokenizer makes of it, which is a slightly different question: over
words drawn from a vocabulary such counts differ by more than a tenth in two cases of five. An index over words asks the
paper's question and needs no tokenizer: `write_infinigram` of the benchmark `perf.cooccurrence_peer` makes one.

The package needs the extra "infini-gram". Its engine ends the process on a file that is missing or cut off, so the
files are checked first. A shard is three files: `tokenized.N`, the tokens of every document with a separator of all
ones before each; `offset.N`, the start of each document in bytes, as 64-bit numbers; `table.N`, the suffix array, whose
entries take as many bytes as the size of `tokenized.N` needs. The width of a token (1, 2 or 4 bytes) is in no file; it
follows from the sizes of the three. An index over words also has `words.txt`, a word a line in the order of their ids,
and `words.json`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.paths import exists, is_folder, list_folder, read_text, user_path
from factgym.corpora.cooccurrence.tokenizer import Case, tokenize

LLAMA_SPACE = 29_871
"""The token of a lone space in LLaMA-2's vocabulary, which the paper drops from the start of a query (appendix B.1)."""

WORDS, LISTING = "words.txt", "words.json"
FORMAT, VERSION = "factgym infini-gram words", 1
MAX_SHORT = 65_279
"""Most words of 2-byte tokens: two adjacent ids from 65,280 on can look like a separator."""

_MAX_WINDOW = 1 << 40
_SHARD_FILE = re.compile(r"(tokenized|table|offset)\.(\d+)")
_PAIRED_FILE = re.compile(r"(metadata|metaoff)\.(\d+)")
_TOKEN_WIDTHS = (2, 1, 4)
_HASHED_BYTES = 1 << 16
_CHECKED_OFFSETS = 16
_TOKENIZER_EXTRA = "local"
_SPACE_MARKS = ("\u2581", "\u0120", " ")
_EOS_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[SEP]")


class InfinigramCounter:
    """Counts of one infini-gram index; immutable, safe in threads, and pickled as its path.

    path: the folder with `tokenized.0`, `table.0`, `offset.0`. tokenizer: a folder or file of a tokenizer, for an
    index over the tokens of a language model. window: in tokens of the index. max_frequency: a clause that occurs more
    often is sampled, and the engine's counts are no longer exact: see `is_exact`. threads: of `count_many`, None for
    all cores. drop_leading: a token that is dropped from the start of each encoded word, None for none. eos_token_id:
    only for a tokenizer that names none. load_to_ram: read the index into the process's memory, so that queries wait
    for no page of a file; by default it is mapped.
    Raises MissingExtraError without the package, DataError for files that are no such index or incomplete, ConfigError
    for a setting.
    """

    semantics = "infini-gram"

    def __init__(
        self,
        path: str | Path,
        *,
        tokenizer: str | Path | None = None,
        semantics: str = "infini-gram",
        window: int = 1000,
        max_frequency: int = 500_000,
        threads: int | None = 1,
        drop_leading: int | None = LLAMA_SPACE,
        eos_token_id: int | None = None,
        load_to_ram: bool = False,
    ) -> None:
        if semantics != self.semantics:
            raise ConfigError(f"an infini-gram index has the semantics 'infini-gram' alone, not {semantics!r}")
        if not 1 <= window < _MAX_WINDOW:
            raise ConfigError(f"the window is {window}; it must be at least 1 token")
        if max_frequency < 1 or (threads is not None and threads < 1):
            raise ConfigError(f"max_frequency ({max_frequency}) and threads ({threads}) must be at least 1")
        self.path, self.window, self.max_frequency = Path(path), window, max_frequency
        self.threads = threads or os.cpu_count() or 1
        self._reopen = partial(
            InfinigramCounter,
            tokenizer=tokenizer,
            window=window,
            max_frequency=max_frequency,
            threads=threads,
            drop_leading=drop_leading,
            eos_token_id=eos_token_id,
            load_to_ram=load_to_ram,
        )
        try:
            engine = import_module("infini_gram.engine").InfiniGramEngine
        except ImportError:
            raise MissingExtraError("an infini-gram index", "infini-gram") from None
        self.shards = read_shards(self.path)
        self.tokens, self.documents = self.shards.tokens, self.shards.documents
        self._encoder: VocabularyEncoder | ModelEncoder
        if tokenizer is not None:
            self._encoder = ModelEncoder(tokenizer, drop_leading, eos_token_id)
            if self._encoder.vocabulary_size > (limit := 1 << (8 * self.shards.width)):
                raise ConfigError(
                    f"the tokenizer has {self._encoder.vocabulary_size:,} tokens and the index room for {limit:,}: it was "
                    "made with another one"
                )
        elif (self.path / WORDS).is_file():
            self._encoder = read_vocabulary(self.path, self.shards)
        else:
            raise ConfigError(
                f"{self.path} holds an index over the tokens of a language model: name the tokenizer that it was made "
                "with (tokenizer=PATH, a folder or a tokenizer.json), or write an index over words."
            )
        self._engine = engine(
            index_dir=str(self.path),
            eos_token_id=self._encoder.eos,
            vocab_size=self._encoder.vocabulary_size,
            token_dtype=f"u{8 * self.shards.width}",
            load_to_ram=load_to_ram,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reopen, (str(self.path),)

    def count(self, words: Sequence[str]) -> int:
        """Count an AND of words; 0 if one of them is unknown. ConfigError for no word."""
        return self.count_cnf([[word] for word in _non_empty(words)])

    def count_cnf(self, cnf: Sequence[Sequence[str]]) -> int:
        """Count an AND of ORs of words."""
        clauses = [
            [tokens for word in _non_empty(clause) if (tokens := self._encoder.encode(word))]
            for clause in _non_empty(cnf)
        ]
        if not all(clauses):
            return 0
        result = self._engine.count_cnf(cnf=clauses, max_clause_freq=self.max_frequency, max_diff_tokens=self.window)
        return _result_count(result)

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Return the count of each query, shape (len(queries),)."""
        with ThreadPoolExecutor(self.threads) as pool:
            return np.array(list(pool.map(self.count, queries)), np.int64)

    def frequency(self, word: str) -> int:
        """Return the occurrences of a word in the corpus."""
        tokens = self._encoder.encode(word)
        return _result_count(self._engine.count(input_ids=tokens)) if tokens else 0

    def is_exact(self, words: Sequence[str]) -> bool:
        """Return whether no word exceeds `max_frequency`, so that the count is of all its occurrences.

        The engine's own flag is not sufficient: between the cap and twice the cap it samples and does not report it.
        """
        return all(self.frequency(word) <= self.max_frequency for word in words)

    def describe(self) -> dict[str, Any]:
        """Return the counts' entries of a manifest, without a path of this machine."""
        return {
            "kind": "infini-gram",
            "semantics": self.semantics,
            "window": self.window,
            "max_frequency": self.max_frequency,
            "tokens": self.tokens,
            "documents": self.documents,
            "shards": self.shards.count,
            **self._encoder.describe(),
            "fingerprint": self.fingerprint(),
        }

    def fingerprint(self) -> str:
        """Return SHA-256 in hex over the sizes and ends of the files, the encoding of words, and the settings."""
        settings = {"window": self.window, "max_frequency": self.max_frequency, **self._encoder.describe()}
        return hashlib.sha256((self.shards.digest + json.dumps(settings, sort_keys=True)).encode()).hexdigest()


def _non_empty(words: Sequence[Any]) -> Sequence[Any]:
    if isinstance(words, str):
        raise ConfigError(f"a query is a list of words, not the string {words[:40]!r}")
    if not words:
        raise ConfigError("an empty query has no count: give at least one word")
    return words


def _result_count(result: dict[str, Any]) -> int:
    if "error" in result:
        raise DataError(f"infini-gram refuses the query: {str(result['error'])[:200]}")
    return int(result["count"])


# Files of an index


@dataclass(frozen=True, slots=True)
class Shards:
    """Facts that follow from the sizes of an index's files."""

    count: int
    width: int
    """Bytes of a token."""
    tokens: int
    documents: int
    bytes: int
    digest: str
    """SHA-256 in hex over the sizes and the first and last 64 KiB of every file."""


def read_shards(folder: Path) -> Shards:
    """Check the shards of an index as far as the sizes and the first offsets permit.

    Raises DataError for a folder without an index, a missing file, and files that do not match.
    """
    names = [entry.name for entry in list_folder(folder)] if is_folder(folder) else []
    present = {(match[1], int(match[2])) for name in names if (match := _SHARD_FILE.fullmatch(name))}
    count = 1 + max((n for _, n in present), default=-1)
    if not count:
        raise DataError(f"{folder} is no infini-gram index: it has no tokenized.0, table.0 and offset.0.")
    required = [(kind, n) for n in range(count) for kind in ("tokenized", "table", "offset")]
    pairs = {match.groups() for name in names if (match := _PAIRED_FILE.fullmatch(name))}
    missing = [f"{kind}.{n}" for kind, n in required if (kind, n) not in present]
    missing += [f"{kind}.{n}" for _, n in pairs for kind in ("metadata", "metaoff") if (kind, n) not in pairs]
    if missing:
        raise DataError(f"{folder} is not whole: {', '.join(missing[:4])} is missing. Copy or build the index again.")
    widths = {_token_width(folder, n) for n in range(count)}
    if len(widths) > 1:
        raise DataError(f"{folder}: its shards have tokens of different widths, so they are not of one index.")
    width = widths.pop()
    sizes = {(kind, n): (folder / f"{kind}.{n}").stat().st_size for kind, n in required}
    documents = sum(size // 8 for (kind, _), size in sizes.items() if kind == "offset")
    tokens = sum(size // width for (kind, _), size in sizes.items() if kind == "tokenized") - documents
    digest = hashlib.sha256()
    for (kind, n), size in sizes.items():
        with (folder / f"{kind}.{n}").open("rb") as file:
            digest.update(f"{kind}.{n}:{size}:".encode() + file.read(_HASHED_BYTES))
            file.seek(max(0, size - _HASHED_BYTES))
            digest.update(file.read(_HASHED_BYTES))
    return Shards(count, width, tokens, documents, sum(sizes.values()), digest.hexdigest())


def _token_width(folder: Path, n: int) -> int:
    """Return the bytes of a token, from the sizes of a shard's files; raises DataError if they do not match."""
    tokens, table, offset = ((folder / f"{kind}.{n}").stat().st_size for kind in ("tokenized", "table", "offset"))
    # An entry of the suffix array is a byte offset into the tokens: the bytes that it takes follow from their size.
    entry = math.ceil(math.log2(tokens) / 8) if tokens > 1 else 1
    widths = [width for width in _TOKEN_WIDTHS if tokens % width == 0 and table == tokens // width * entry]
    if tokens < 1 or not widths or offset < 8 or offset % 8:
        raise DataError(
            f"{folder}: table.{n} ({table:,} bytes) and offset.{n} ({offset:,} bytes) do not fit tokenized.{n} "
            f"({tokens:,} bytes): a file is cut off or of another index. Copy or build it again."
        )
    offsets = np.memmap(folder / f"offset.{n}", "<u8", mode="r")
    checked = [*map(int, offsets[:_CHECKED_OFFSETS]), int(offsets[-1])]
    with (folder / f"tokenized.{n}").open("rb") as file:
        valid = checked[-1] < tokens and checked[0] == 0
        for start in checked if valid else ():
            file.seek(start)
            valid = valid and file.read(widths[0]) == b"\xff" * widths[0]
        if not valid:
            raise DataError(f"{folder}: offset.{n} does not say where the documents of tokenized.{n} begin.")
    return widths[0]


# Encoders


class VocabularyEncoder:
    """Encodes words of an index over words as their ids."""

    def __init__(self, words: Sequence[str], case: Case) -> None:
        self._ids = {word: number for number, word in enumerate(words)}
        self._case, self._digest = case, hashlib.sha256("\n".join(words).encode()).hexdigest()
        self.eos, self.vocabulary_size = len(words), len(words) + 1

    def encode(self, word: str) -> list[int] | None:
        """Return the ids of the word's tokens; None if one is unknown or there is none."""
        tokens = tokenize(word, self._case)
        ids = [self._ids[token] for token in tokens if token in self._ids]
        return ids if ids and len(ids) == len(tokens) else None

    def describe(self) -> dict[str, Any]:
        """Return the words' entries of a manifest."""
        return {"tokens_are": "words", "case": self._case, "vocabulary": self.eos, "words_sha256": self._digest}


def read_vocabulary(folder: Path, shards: Shards) -> VocabularyEncoder:
    """Read the words of an index over words; DataError if they do not match it."""
    try:
        listing = json.loads(read_text(folder / LISTING))
        words = read_text(folder / WORDS).split("\n")[:-1]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{folder}: {WORDS} or {LISTING} cannot be read ({str(error)[:100]}).") from None
    expected = {"format": FORMAT, "version": VERSION, "words": len(words), "tokens": shards.tokens}
    if not isinstance(listing, dict) or any(listing.get(key) != value for key, value in expected.items()):
        raise DataError(f"{folder}: {LISTING} does not fit {WORDS} and the tokens. Write the index again.")
    if listing.get("case") not in ("keep", "fold"):
        raise DataError(f"{folder}: {LISTING} has no 'case' of 'keep' or 'fold'. Write the index again.")
    return VocabularyEncoder(words, listing["case"])


class ModelEncoder:
    """Encodes words by a language model's tokenizer, as they are inside a text: after a space.

    Tokenizers that mark that space (SentencePiece by itself, byte-level BPE if a space is given) need the word with its
    space. LLaMA-2's tokenizer puts a lone space before some texts as a token of its own, which is dropped.

    path: a `tokenizer.json`, or a folder that `transformers` can load. drop_leading: a token dropped from the start.
    eos: the end-of-text token, found by its usual names if None. Raises ConfigError, DataError, MissingExtraError.
    """

    def __init__(self, path: str | Path, drop_leading: int | None = None, eos: int | None = None) -> None:
        self._drop = drop_leading
        self._tokenizer = _load_tokenizer(Path(path))
        self._digest = hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()
        self.vocabulary_size = int(self._tokenizer.get_vocab_size(with_added_tokens=True))
        self._space = "" if self._marks_space("a") or not self._marks_space(" a") else " "
        if eos is None:
            ids = (self._tokenizer.token_to_id(name) for name in _EOS_NAMES)
            eos = next((int(id_) for id_ in ids if id_ is not None), None)
        if eos is None:
            raise ConfigError("the tokenizer names no end-of-text token: give eos_token_id")
        self.eos = eos
        if not 0 <= self.eos < self.vocabulary_size:
            raise ConfigError(
                f"eos_token_id is {self.eos}; the vocabulary of {path} has {self.vocabulary_size:,} tokens"
            )

    def encode(self, word: str) -> list[int] | None:
        """Return the tokens of a word after a space; None for a blank word."""
        if not word.strip():
            return None
        tokens = [*map(int, self._tokenizer.encode(self._space + word.strip(), add_special_tokens=False).ids)]
        if self._drop is not None and tokens[:1] == [self._drop]:
            tokens = tokens[1:]
        return tokens or None

    def describe(self) -> dict[str, Any]:
        """Return the tokenizer's entries of a manifest."""
        return {
            "tokens_are": "subwords",
            "vocabulary": self.vocabulary_size,
            "drop_leading": self._drop,
            "tokenizer_sha256": self._digest,
        }

    def _marks_space(self, text: str) -> bool:
        tokens = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return bool(tokens) and tokens[0].startswith(_SPACE_MARKS)


def _load_tokenizer(path: Path) -> Any:
    if not exists(user_path(path, "tokenizer")):
        raise ConfigError(f"{path}: no such tokenizer; give a folder or a tokenizer.json (nothing is downloaded)")
    file = path / "tokenizer.json" if path.is_dir() else path
    if file.is_file():
        try:
            return import_module("tokenizers").Tokenizer.from_file(str(file))
        except ImportError:
            raise MissingExtraError("a tokenizer of a language model", _TOKENIZER_EXTRA) from None
        except Exception as error:  # noqa: BLE001 - the library raises Exception itself for a file that it cannot read
            raise DataError(f"{file} is no tokenizer: {str(error)[:200]}") from None
    # A folder without a tokenizer.json, as with LLaMA-2's `tokenizer.model` alone: transformers converts it.
    try:
        auto = import_module("transformers").AutoTokenizer
    except ImportError:
        raise MissingExtraError("a tokenizer of a language model", _TOKENIZER_EXTRA) from None
    try:
        return auto.from_pretrained(str(path), local_files_only=True).backend_tokenizer
    except (OSError, ValueError, AttributeError, ImportError) as error:
        raise DataError(f"{path} holds no tokenizer that can be loaded: {str(error)[:200]}") from None
