"""Statements and evidence, sentence by sentence, and which sentences bear on a statement.

Similarity is weighted token overlap throughout: no model, no index, deterministic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from factgym.baselines.tokens import SentenceFrequency, Token, content_keys, tokenize, word_list
from factgym.corpora.corpus import Passage
from factgym.corpora.sentences import sentences
from factgym.corpora.text import STOP_WORDS

_MIN_CHARS = 12
"""Shorter sentences cannot be quoted."""
_MAX_CHARS = 4000
_DENSE_TOKENS = 20
"""Mean tokens per sentence from which a text counts as dense."""
_NAME_WEIGHT = 0.5
_EXTRA_WEIGHT = 0.2
_MAX_SELECTED = 3
_MIN_GAIN = 0.2


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage, verbatim. follows: it continues the paragraph of the sentence before it."""

    passage: str
    title: str
    text: str
    tokens: tuple[Token, ...]
    keys: frozenset[str]
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to verify. keys: its content words, each once, in order. names: keys of the capitalised ones."""

    text: str
    tokens: tuple[Token, ...]
    keys: tuple[str, ...]
    names: frozenset[str]


def parse_statement(text: str) -> Statement:
    """Tokenize a statement."""
    tokens = tokenize(text)
    capitalised = [text[token.start].isupper() for token in tokens]
    # A first word is capitalised anyway: it is a name only if another one follows it.
    names_from = 0 if len(capitalised) > 1 and capitalised[1] else 1
    names = (token.key for index, token in enumerate(tokens) if capitalised[index] and index >= names_from)
    return Statement(text, tokens, content_keys(text), frozenset(names))


@dataclass(frozen=True)
class Evidence:
    """The sentences of the passages that were read, and the weights of their words.

    ranked_ids: passages that a search for the statement returned, best first. silence_passages: how many passages to
    cite in order to show that the documents do not state it.
    """

    sentences: tuple[Sentence, ...]
    frequency: SentenceFrequency = field(compare=False)
    ranked_ids: tuple[str, ...] = ()
    silence_passages: int = 1

    @cached_property
    def is_dense(self) -> bool:
        """Whether the sentences are as long as those of contracts."""
        return sum(len(sentence.tokens) for sentence in self.sentences) >= _DENSE_TOKENS * max(1, len(self.sentences))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The content words of all sentences."""
        return keys_of(self.sentences)

    def coverage(self, statement: Statement, sentences: Iterable[Sentence]) -> float:
        """Return the share of the statement's weighted words that occur in the sentences, in [0, 1].

        In dense text names count half: the Receiving Party of one agreement is the Recipient of the next.
        """
        covering = keys_of(sentences)
        names = statement.names if self.is_dense else frozenset()
        weights = {key: self.frequency.weight(key) * (_NAME_WEIGHT if key in names else 1.0) for key in statement.keys}
        total = math.fsum(weights.values())
        return math.fsum(weights[key] for key in statement.keys if key in covering) / total if total else 0.0

    def overlap(self, statement: Statement, sentence: Sentence) -> float:
        """Return the coverage by one sentence, reduced a little for each extra word: of two equals the shorter wins."""
        shared = self.frequency.total(key for key in statement.keys if key in sentence.keys)
        extra = self.frequency.total(sorted(sentence.keys.difference(statement.keys)))
        total = self.frequency.total(statement.keys) + _EXTRA_WEIGHT * extra
        return shared / total if total else 0.0


def keys_of(sentences: Iterable[Sentence]) -> frozenset[str]:
    """Return the content words of several sentences."""
    return frozenset().union(*(sentence.keys for sentence in sentences))


def build_evidence(passages: Iterable[Passage]) -> Evidence:
    """Split passages into sentences, leaving out questions and what is too short to be quoted."""
    split = tuple(sentence for passage in passages for sentence in _split_passage(passage))
    return Evidence(split, SentenceFrequency(sentence.keys for sentence in split))


@lru_cache(maxsize=1024)
def _split_passage(passage: Passage) -> tuple[Sentence, ...]:
    split: list[Sentence] = []
    previous_end = 0
    for start, end in sentences(passage.text):
        text = passage.text[start:end][:_MAX_CHARS]
        if end - start >= _MIN_CHARS and not text.endswith("?"):
            follows = bool(split) and "\n" not in passage.text[previous_end:start]
            keys = frozenset(content_keys(text))
            split.append(Sentence(passage.id, passage.title, text, tokenize(text), keys, follows))
        previous_end = end
    return tuple(split)


def select_sentences(
    evidence: Evidence, statement: Statement, similarity: Callable[[Statement, Sentence], float] | None = None
) -> list[Sentence]:
    """Select at most three sentences greedily: the most similar one, then those that add the most coverage.

    A further sentence has to raise the coverage by at least 0.2. Empty without evidence.
    """
    if not evidence.sentences:
        return []
    similarity = similarity or evidence.overlap
    selected = [max(evidence.sentences, key=lambda sentence: similarity(statement, sentence))]
    while len(selected) < _MAX_SELECTED:
        best = max(evidence.sentences, key=lambda sentence: evidence.coverage(statement, [*selected, sentence]))
        if evidence.coverage(statement, [*selected, best]) - evidence.coverage(statement, selected) < _MIN_GAIN:
            break
        selected.append(best)
    return selected


def without_full_stop(text: str) -> str:
    """Strip white space and full stops from the end of a statement."""
    return text.rstrip().rstrip(".").rstrip()


_MAX_GAP = 2
_LEADING_WORDS = frozenset(
    word_list("a an the of to in on at by for from with and or as is are be was were that this")
)
_CONJUNCTIONS = frozenset(word_list("because since as given now so if unless when where until after before except"))


def uncovered_span(statement: Statement, sentences: Iterable[Sentence]) -> str:
    """Return the stretch of a statement with the most content words that the sentences lack; empty if none is lacking.

    A stretch bridges up to two covered content words. It ends with an uncovered word and begins with the function
    words, or the conjunction ("because"), that introduce it.
    """
    covering = keys_of(sentences)
    run = _longest_uncovered_run(statement.tokens, covering)
    while run and (run[-1].key in covering or not run[-1].is_content):
        run.pop()
    if not run:
        return ""
    start = run[0].start
    preceding = [token for token in statement.tokens if token.end <= start]
    while preceding and preceding[-1].lower in _LEADING_WORDS | _CONJUNCTIONS:
        start = preceding[-1].start
        if preceding.pop().lower in _CONJUNCTIONS:
            break
    return statement.text[start : run[-1].end]


def _longest_uncovered_run(tokens: Sequence[Token], covering: frozenset[str]) -> list[Token]:
    runs: list[list[Token]] = [[]]
    bridged = 0
    for token in tokens:
        if not token.is_content or token.key in covering:
            if not runs[-1]:
                continue
            bridged += token.is_content
        else:
            bridged = 0
        runs[-1].append(token)
        if bridged > _MAX_GAP:
            runs.append([])
            bridged = 0
    return max(runs, key=lambda run: sum(token.is_content and token.key not in covering for token in run))


_QUOTED = re.compile(r"[\"“]([^\"“”]{2,120})[\"”]")
_NAME = re.compile(r"(?<![\w“\"])[A-Z][\w&.’'-]*(?: (?:(?:of|and|for|the|on|in) )?[A-Z0-9][\w&.’'-]*)*")
_NOT_IN_NAMES = STOP_WORDS | frozenset(word_list("under according per q"))
_MIN_TITLE_MATCH = 0.5


def names_in_question(question: str) -> list[str]:
    """Return the names in a question: quoted text, and runs of capitalised words without a leading function word."""
    names = [match[1] for match in _QUOTED.finditer(question)]
    for match in _NAME.finditer(question):
        words = match[0].split()
        while words and words[0].lower() in _NOT_IN_NAMES:
            words.pop(0)
        if words:
            names.append(" ".join(words))
    return list(dict.fromkeys(names))


def passages_of_document(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages of the document that a question names; all where no title shares two words with it.

    Section names in a title ("Handbook › Leave › Sick leave") are ignored: a question may name one section while the
    answer is to be held against the whole document.
    """
    named = frozenset(key for name in names_in_question(question) for key in content_keys(name))
    matches = [sum(key in named for key in content_keys(passage.title.partition(" › ")[0])) for passage in passages]
    best = max(matches, default=0)
    if best < 2:
        return list(passages)
    return [passage for passage, count in zip(passages, matches, strict=True) if count > _MIN_TITLE_MATCH * best]
