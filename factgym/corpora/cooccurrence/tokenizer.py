"""Tokenizer of the co-occurrence index, and the numbering of documents' words during a build.

A word is a maximal run of letters, digits and the marks that belong to them:

    tokenize("Men's 4-2 win over the U.S. on 1,000 m²")
    # ['Men', 's', '4', '2', 'win', 'over', 'the', 'U', 'S', 'on', '1', '000', 'm2']

Text is normalised (NFKC) first. Apostrophes, hyphens, full stops, commas and underscores separate, also inside numbers
and abbreviations, so that `Einstein` is found in `Einstein's` and `Saxon` in `Anglo-Saxon`; a query word with such a
mark is a phrase of its parts in adjacent positions, so that `1,000` is found as itself and not as `1` near `000`. Each
ideograph and each kana is a word of its own, as those scripts put no spaces.

With `case="fold"` words are case-folded; with `"keep"`, the default, `Rose` and `rose` are two words, as they are for
the engine that the paper used.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Case = Literal["keep", "fold"]

TOKENIZER = "words-1"
"""Version of `tokenize`, stored in an index; changes whenever its output does."""

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a51\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c56\u0d00-\u0d03"
    "\u0d3b-\u0d4d\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e"
    "\u1dc0-\u1dff\u20d0-\u20f0"
)
_WORD = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_][{_MARKS}]*)+")
_PLAIN_WORD = re.compile(r"[^\W_]+")
SPECIAL = re.compile("[\u0300-\u036f\u0483-\u1fff\u20d0-\u20f0\u2c00-\U0010ffff]")
"""A superset of marks and CJK characters; a text without any of them consists of plain words."""

_KEEP = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_ASCII_TABLES = {"keep": _KEEP, "fold": _KEEP.lower()}


def tokenize(text: str, case: Case = "keep") -> list[str]:
    """Return the words of `text` in order."""
    if text.isascii():
        return text.encode().translate(_ASCII_TABLES[case]).decode().split()
    return _find_words(text, case)


def tokenize_bytes(text: str, case: Case = "keep") -> list[bytes]:
    """Return the same words in UTF-8, faster."""
    if text.isascii():
        return text.encode().translate(_ASCII_TABLES[case]).split()
    return " ".join(_find_words(text, case)).encode("utf-8", "surrogatepass").split()


def _find_words(text: str, case: Case) -> list[str]:
    text = unicodedata.normalize("NFKC", text)
    if case == "fold":
        text = unicodedata.normalize("NFKC", text.casefold())
    words: list[str] = (_WORD if SPECIAL.search(text) else _PLAIN_WORD).findall(text)
    return words


class NumberedDocuments(NamedTuple):
    """Documents as word ids. Ids are given in the order of first appearance, by both implementations below."""

    words: list[bytes]
    """By id, in UTF-8."""
    tokens: list[NDArray[np.uint32]]
    """Ids of all documents' words, in consecutive arrays."""
    lengths: NDArray[np.int64]
    """Words of each document."""


class _WordIds(dict[bytes, int]):
    def __missing__(self, word: bytes) -> int:
        word_id = self[word] = len(self)
        return word_id


def number_documents(texts: Iterator[str], case: Case, positions: int | None) -> NumberedDocuments:
    """Number the words of documents until they fill `positions` (all, for None); documents are never split."""
    ids, tokens, lengths = _WordIds(), [], []
    for text in texts:
        words = tokenize_bytes(text, case)
        tokens.append(np.fromiter(map(ids.__getitem__, words), np.uint32, len(words)))
        lengths.append(len(words))
        if positions is not None:
            positions -= len(words) + 1
            if positions <= 0:
                break
    return NumberedDocuments(list(ids), tokens, np.array(lengths, np.int64))


_BATCH_BYTES = 1 << 20


class _Vocabulary:
    """The compiled scan's hash table from words to ids: open addressing, at most half full; grown between calls.

    slots: id + 1, 0 for empty. hashes: by id. spelling, ends: the words in UTF-8, one after the other. used: the number
    of words, and of tokens written by the current batch.
    """

    def __init__(self) -> None:
        self.slots = np.zeros(1 << 16, np.int64)
        self.hashes = np.zeros(1 << 15, np.uint64)
        self.spelling = np.zeros(1 << 19, np.uint8)
        self.ends = np.zeros((1 << 15) + 1, np.int64)
        self.used = np.zeros(2, np.int64)

    def reserve(self, document_bytes: int) -> None:
        """Make room for the words of a document of this size."""
        count = int(self.used[0])
        while 2 * (count + (document_bytes + 1) // 2) > len(self.slots):
            # Rehash into twice the slots by linear probing, all words with a free slot at a time.
            size = 2 * len(self.slots)
            self.hashes = np.concatenate([self.hashes, np.zeros_like(self.hashes)])
            self.ends = np.concatenate([self.ends, np.zeros(len(self.ends) - 1, np.int64)])
            self.slots = np.zeros(size, np.int64)
            pending = np.arange(1, count + 1)
            probes = (self.hashes[:count] >> np.uint64(20)).astype(np.int64) & (size - 1)
            while len(pending):
                free = self.slots[probes] == 0
                # Of several words at one free slot the last assignment stays; the others read a foreign number and
                # probe on.
                self.slots[probes[free]] = pending[free]
                collided = self.slots[probes] != pending
                pending, probes = pending[collided], (probes[collided] + 1) & (size - 1)
        while int(self.ends[count]) + document_bytes > len(self.spelling):
            self.spelling = np.concatenate([self.spelling, np.zeros_like(self.spelling)])

    def words(self) -> list[bytes]:
        """The words by id."""
        raw, ends = self.spelling.tobytes(), self.ends[: int(self.used[0]) + 1].tolist()
        return [raw[start:end] for start, end in itertools.pairwise(ends)]


def number_documents_compiled(
    kernels: Any, texts: Iterator[str], case: Case, positions: int | None
) -> NumberedDocuments:
    """`number_documents` by the module `kernel_text`; may take some hundred documents more than fill `positions`."""
    vocabulary = _Vocabulary()
    tokens: list[NDArray[np.uint32]] = []
    lengths: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    limit = _BATCH_BYTES if positions is None else min(_BATCH_BYTES, positions)
    while positions is None or positions > 0:
        batch: list[bytes] = []
        size = 0
        for text in encoded:
            batch.append(text)
            size += len(text)
            if size >= limit:
                break
        if not batch:
            break
        batch_tokens, batch_lengths = _number_batch(kernels, batch, case, vocabulary)
        tokens.append(batch_tokens)
        lengths.append(batch_lengths)
        if positions is not None:
            positions -= len(batch_tokens) + len(batch_lengths)
    return NumberedDocuments(vocabulary.words(), tokens, np.concatenate(lengths))


def _number_batch(
    kernels: Any, batch: list[bytes], case: Case, vocabulary: _Vocabulary
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    classes = kernels.char_classes(case)
    simple = np.ones(len(batch), np.bool_)
    text, bounds = _concatenate(batch)
    kernels.find_simple(text, bounds, classes, simple)
    if not simple.all():
        for i in np.flatnonzero(~simple).tolist():
            batch[i] = b" ".join(tokenize_bytes(batch[i].decode("utf-8", "surrogatepass"), case))
        text, bounds = _concatenate(batch)
    tokens = np.empty((len(text) + len(batch)) // 2 + 1, np.uint32)
    lengths = np.zeros(len(batch), np.int64)
    vocabulary.used[1] = document = 0
    while document < len(batch):
        vocabulary.reserve(len(batch[document]))
        table = (vocabulary.slots, vocabulary.hashes, vocabulary.spelling, vocabulary.ends, vocabulary.used)
        document = kernels.scan(text, bounds, document, classes, simple, case == "fold", *table, tokens, lengths)
    return tokens[: int(vocabulary.used[1])].copy(), lengths


def _concatenate(batch: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    text = np.frombuffer(bytearray(b"".join(batch)), np.uint8)
    bounds = np.zeros(len(batch) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, batch), np.int64, len(batch)), out=bounds[1:])
    return text, bounds
