"""A corpus of any size for the counting benchmark: the sentences of a text, shuffled and drawn by Zipf's law.

Sentences keep what words do inside them; that a few are drawn very often and most rarely gives words frequencies over
many orders of magnitude, as in a large corpus. Without a text, sentences are made of words that are drawn by Zipf's law
themselves.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import tokenize
from factgym.corpora.cooccurrence.sources import Source

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
_LENGTHS = (5, 60)
_SENTENCES = 400_000
_GENERATED = (60_000, 20_000)
_DOCUMENT_SENTENCES = 25
_EXPONENT = 0.6
_BATCH = 4_000


@dataclass(frozen=True)
class Text:
    """Sentences to draw from."""

    sentences: Sequence[str]
    tokens: Sequence[list[str]]
    description: str

    @property
    def vocabulary(self) -> int:
        """Return the number of different words."""
        return len({word for sentence in self.tokens for word in sentence})


def read_text(path: Path | None, vocabulary: int, seed: int = 0) -> Text:
    """Return the sentences of a corpus of at most this many different words, or generated ones without a path.

    Sentences with a word that is not among the most frequent are left out; each sentence is there once.
    """
    if path is None:
        return _generate(seed)
    sentences: dict[str, list[str]] = {}
    for _, text in Source(path, unit="paragraph"):
        for sentence in _SENTENCE.split(text):
            plain = " ".join(sentence.split())
            if plain not in sentences and _LENGTHS[0] <= len(words := tokenize(plain)) <= _LENGTHS[1]:
                sentences[plain] = words
    common = {word for word, _ in Counter(w for words in sentences.values() for w in words).most_common(vocabulary)}
    common_sentences = {text: words for text, words in sentences.items() if common.issuperset(words)}
    if not common_sentences:
        raise ConfigError(f"{path} holds no sentence of {_LENGTHS[0]} to {_LENGTHS[1]} words")
    chosen = np.random.default_rng(seed).permutation(len(common_sentences))[:_SENTENCES]
    rows = list(common_sentences.items())
    return Text([rows[n][0] for n in chosen], [rows[n][1] for n in chosen], f"the sentences of {path.name}")


def _generate(seed: int) -> Text:
    rng = np.random.default_rng(seed)
    kinds, count = _GENERATED
    weights = 1 / np.arange(1, kinds + 1)
    drawn = rng.choice(kinds, (count, 20), p=weights / weights.sum())
    tokens = [[f"w{number}" for number in row] for row in drawn.tolist()]
    return Text([" ".join(words) for words in tokens], tokens, "generated sentences")


class Draw:
    """Documents drawn from a text until they hold about `tokens` tokens; the same every time they are iterated."""

    def __init__(self, text: Text, tokens: int, seed: int = 0) -> None:
        self.text, self.seed = text, seed
        lengths = np.fromiter(map(len, text.tokens), np.int64, len(text.tokens))
        ranks = 1 / np.arange(1, len(lengths) + 1) ** _EXPONENT
        self._chances = np.cumsum(ranks / ranks.sum())
        mean = float(lengths @ ranks) / ranks.sum()
        self.documents = max(1, round(tokens / mean / _DOCUMENT_SENTENCES))

    def rows(self) -> Iterator[NDArray[np.int64]]:
        """Yield the sentence numbers of each document, shape (sentences of the document,)."""
        rng = np.random.default_rng(self.seed)
        for first in range(0, self.documents, _BATCH):
            count = min(_BATCH, self.documents - first)
            yield from np.searchsorted(self._chances, rng.random((count, _DOCUMENT_SENTENCES)))

    def write(self, file: Path) -> None:
        """Yield the documents as JSON lines."""
        spelled = [json.dumps(sentence, ensure_ascii=False)[1:-1] for sentence in self.text.sentences]
        with file.open("w", encoding="utf-8", newline="\n") as lines:
            lines.writelines(f'{{"text": "{" ".join([spelled[n] for n in row.tolist()])}"}}\n' for row in self.rows())

    def token_lists(self) -> Iterator[list[str]]:
        """Yield the tokens of each document."""
        for row in self.rows():
            yield [word for n in row.tolist() for word in self.text.tokens[n]]
