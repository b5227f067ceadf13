"""An index of the `infini-gram` package behind the same protocol as ours, so that the paper's counts can be had as they were.

    counter = open_infinigram("v4_wikipedia_llama", tokenizer="Llama-2-7b-hf")     # an index that others built
    counter.count(["Philadelphia", "Flyers", "Stanley", "Cup"])

An index of tokens of a language model needs that model's tokenizer, from a folder or a `tokenizer.json`; nothing is
downloaded. A word is then as many tokens as the tokenizer makes of it, which is not quite the same question: over
words drawn from a vocabulary such counts differ by more than a tenth in two cases of five. An index over words asks
what the paper means and needs no tokenizer: `write_infinigram` of the benchmark `speed.cooccurrence_peer` makes one.

The package needs the extra "infini-gram". Its engine ends the process on a file that is missing or cut off, so the
files are checked before it sees them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.corpora.cooccurrence.infinigram_files import WORDS, Shards, Words, read_shards, read_words

LLAMA_SPACE = 29_871
"""The token of a lone space in LLaMA-2's vocabulary, which the paper drops from the start of a query (appendix B.1)."""

_MAX_WINDOW = 1 << 40
_Encode = Callable[[str], list[int] | None]


class InfinigramCounter:
    """Counts of one infini-gram index; immutable, safe for threads, and pickled as its path.

    path: the folder with `tokenized.0`, `table.0`, `offset.0`. tokenizer: a folder or file of a tokenizer, for an
    index over the tokens of a language model. window: in tokens of the index. max_frequency: over it a clause
    is sampled, and the engine's counts are no longer exact: see `is_exact`. threads: that `count_many` uses, None for
    all cores.
    drop_leading: a token that is dropped from the start of each encoded word, None for none.
    eos_token_id: only for a tokenizer that names none. load_to_ram: read the index into memory of the process, where
    queries wait for no page of a file; by default it is mapped.
    Raises MissingExtraError without the package, DataError for files that are no such index or not whole, ConfigError
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
        _check(semantics, window, max_frequency, threads)
        self.path, self.window, self.max_frequency = Path(path), window, max_frequency
        self.threads = threads or os.cpu_count() or 1
        self._options = {"semantics": semantics, "window": window, "max_frequency": max_frequency, "threads": threads}
        self._options |= {"tokenizer": tokenizer, "drop_leading": drop_leading, "eos_token_id": eos_token_id}
        self._options |= {"load_to_ram": load_to_ram}
        engine = _engine_class()
        self.shards: Shards = read_shards(self.path)
        self._encode, eos, size, self._says = _encoder(self.path, self.shards, tokenizer, drop_leading, eos_token_id)
        self._engine = engine(
            index_dir=str(self.path),
            eos_token_id=eos,
            vocab_size=size,
            token_dtype=f"u{8 * self.shards.width}",
            load_to_ram=load_to_ram,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (str(self.path), self._options)

    @property
    def tokens(self) -> int:
        """Tokens of the corpus, separators left out."""
        return self.shards.tokens

    @property
    def documents(self) -> int:
        """Documents of the corpus."""
        return self.shards.documents

    def count(self, words: Sequence[str]) -> int:
        """The count of all these words together; 0 when one of them is unknown. ConfigError for no word."""
        return self._count([[word] for word in _some(words)])[0]

    def count_cnf(self, cnf: Sequence[Sequence[str]]) -> int:
        """The count of clauses that must all be met, each a list of words of which one is enough."""
        return self._count([_some(clause) for clause in _some(cnf)])[0]

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """The count of each query, shape (len(queries),)."""
        if self.threads == 1 or len(queries) < 2:
            counts = [self.count(words) for words in queries]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                counts = list(pool.map(self.count, queries))
        return np.array(counts, np.int64)

    def frequency(self, word: str) -> int:
        """How often the word stands in the corpus."""
        ids = self._encode(word)
        return int(_answer(self._engine.count(input_ids=ids))["count"]) if ids else 0

    def is_exact(self, words: Sequence[str]) -> bool:
        """Whether no word is over `max_frequency`, so that the count is of all its occurrences.

        The engine's own flag does not say it: from the cap to twice the cap it cuts and stays silent.
        """
        return all(self.frequency(word) <= self.max_frequency for word in words)

    def describe(self) -> dict[str, Any]:
        """What a manifest should say of the counts, without a path of this machine."""
        says = {"kind": "infini-gram", "semantics": self.semantics, "window": self.window}
        sizes = {"tokens": self.tokens, "documents": self.documents, "shards": self.shards.count}
        return {**says, "max_frequency": self.max_frequency, **sizes, **self._says, "fingerprint": self.fingerprint()}

    def fingerprint(self) -> str:
        """SHA-256 in hex over the sizes and the ends of the index's files, how words are encoded, and the settings."""
        settings = {"window": self.window, "max_frequency": self.max_frequency, **self._says}
        return hashlib.sha256((self.shards.digest + json.dumps(settings, sort_keys=True)).encode()).hexdigest()

    def _count(self, cnf: Sequence[Sequence[str]]) -> tuple[int, bool]:
        """The count, and whether the engine calls it approximate."""
        clauses = [[ids for word in clause if (ids := self._encode(word))] for clause in cnf]
        if not all(clauses):
            return 0, False
        found = _answer(
            self._engine.count_cnf(cnf=clauses, max_clause_freq=self.max_frequency, max_diff_tokens=self.window)
        )
        return int(found["count"]), bool(found["approx"])


def open_infinigram(path: str | Path, **options: Any) -> InfinigramCounter:
    """The counter over an infini-gram index; options as for `InfinigramCounter`."""
    return InfinigramCounter(path, **options)


def _reopen(path: str, options: dict[str, Any]) -> InfinigramCounter:
    return InfinigramCounter(path, **options)


def _check(semantics: str, window: int, max_frequency: int, threads: int | None) -> None:
    if semantics != "infini-gram":
        raise ConfigError(f"an infini-gram index has the semantics 'infini-gram' alone, not {semantics!r}")
    if not 1 <= window < _MAX_WINDOW:
        raise ConfigError(f"the window is {window}; it must be at least 1 token")
    if max_frequency < 1 or (threads is not None and threads < 1):
        raise ConfigError(f"max_frequency ({max_frequency}) and threads ({threads}) must be at least 1")


def _some(given: Sequence[Any]) -> Sequence[Any]:
    if isinstance(given, str):
        raise ConfigError(f"a query is a list of words, not the string {given[:40]!r}")
    if not given:
        raise ConfigError("an empty query has no count: give at least one word")
    return given


def _answer(found: dict[str, Any]) -> dict[str, Any]:
    if "error" in found:
        raise DataError(f"infini-gram refuses the query: {str(found['error'])[:200]}")
    return found


def _engine_class() -> Any:
    try:
        return import_module("infini_gram.engine").InfiniGramEngine
    except ImportError:
        raise MissingExtraError("an infini-gram index", "infini-gram") from None


def _encoder(
    path: Path, shards: Shards, tokenizer: str | Path | None, drop_leading: int | None, eos: int | None
) -> tuple[_Encode, int, int, dict[str, Any]]:
    """How words become tokens, the end-of-text token, the size of the vocabulary, and what is said of it."""
    if tokenizer is None:
        if not (path / WORDS).is_file():
            raise ConfigError(
                f"{path} holds an index over the tokens of a language model: name the tokenizer that it was made "
                "with (tokenizer=PATH, a folder or a tokenizer.json), or write an index over words."
            )
        words = read_words(path, shards)
        return words.encode, words.size, words.size + 1, words.describe()
    from factgym.corpora.cooccurrence.infinigram_tokenizer import ModelTokenizer

    model = ModelTokenizer(tokenizer, drop_leading, eos)
    model.check(1 << (8 * shards.width))
    return model.encode, model.eos, model.size, model.describe()


__all__ = ["LLAMA_SPACE", "InfinigramCounter", "Words", "open_infinigram"]
