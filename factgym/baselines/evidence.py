"""Statements and evidence as tokens and sentences, and which sentences bear on a statement.

Tokens have character offsets and a normal form (`key`), the unit that the rule-based verifiers compare. Similarity is
weighted token overlap throughout: no model, no index, no data files, deterministic. English only.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any

from factgym.corpora.corpus import Passage
from factgym.text.numbers import ONES, TENS
from factgym.text.sentences import sentences
from factgym.text.words import STOP_WORDS

PHRASES: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
"""Word lists, patterns and weights of the verifiers by table and name."""


def alternatives(table: str, name: str) -> str:
    """Return a pattern of `PHRASES`, whose lines are its alternatives, as the source of a regular expression."""
    return "|".join(PHRASES[table][name].splitlines())


# Tokens

MAX_TOKENS = 400
"""Limit on the tokens of a statement or sentence; further tokens are ignored."""

_WORD = re.compile(r"[$€£]?\d++(?:[.,:]\d++)*+%?|[^\W\d_]++(?:['’][^\W\d_]++)*+")
_SMALL_NUMBERS = {word: value for value, word in enumerate(ONES)}
_TENS = {word: value * 10 for value, word in enumerate(TENS, 2)}
_FUNCTION_WORDS = frozenset(PHRASES["words"]["function"].split())
"""Words of modality, polarity, quantity or relation; `semantics` compares these."""
_SUFFIXES: Sequence[str] = PHRASES["words"]["suffixes"].split()
_MIN_STEM = 4


@dataclass(frozen=True, slots=True)
class Token:
    """One word at `text[start:end]`, lower-cased, with a `key` that most forms and near-synonyms of it share."""

    start: int
    end: int
    lower: str
    key: str

    @property
    def is_number(self) -> bool:
        """Whether it is a number, in digits or in words."""
        return self.key[0].isdigit()

    @property
    def is_content(self) -> bool:
        """Whether it is a number or a content word: neither a stop word nor a word of modality or quantity."""
        return self.is_number or (
            len(self.lower) > 1 and self.lower not in STOP_WORDS and self.lower not in _FUNCTION_WORDS
        )


@lru_cache(maxsize=8192)
def tokenize(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text in order. Parts of a hyphenated word are single tokens, but "twenty-five" is one."""
    tokens: list[Token] = []
    for match in _WORD.finditer(text):
        lower = match[0].lower().replace("’", "'")
        if lower in _SMALL_NUMBERS and tokens and tokens[-1].lower in _TENS and match.start() - tokens[-1].end == 1:
            tens = tokens.pop()
            key = str(_TENS[tens.lower] + _SMALL_NUMBERS[lower])
            tokens.append(Token(tens.start, match.end(), f"{tens.lower}-{lower}", key))
        else:
            tokens.append(Token(match.start(), match.end(), lower, token_key(lower)))
        if len(tokens) == MAX_TOKENS:
            break
    return tuple(tokens)


@lru_cache(maxsize=65536)
def token_key(lower: str) -> str:
    """Return the normal form of a lower-case word: a number in digits, any other word as the stem of its group."""
    if lower[-1].isdigit() or lower[-1] == "%":
        return lower.strip("$€£%").replace(",", "").removesuffix(".00")
    if lower in _SMALL_NUMBERS or lower in _TENS:
        return str(_SMALL_NUMBERS.get(lower, _TENS.get(lower)))
    if lower == "information":
        return lower  # its stem is that of "inform", which means something else
    word_stem = stem(lower)
    return _GROUP_OF.get(word_stem, word_stem)


def stem(lower: str) -> str:
    """Strip the inflection of a word by a table of suffixes, longest first; two forms of a word nearly always agree."""
    # A light stemmer in the manner of Porter's: cruder, but its stems are only ever compared with each other.
    word = lower.removesuffix("'s").removesuffix("s'")
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM - (suffix == "s"):
            word = word[: -len(suffix)]
            if suffix in ("ied", "ies"):
                word += "y"
            elif len(word) > _MIN_STEM and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > _MIN_STEM - 1 else word


# Reversed, so that a stem in several groups belongs to the first of them.
_GROUP_OF = {
    stem(word): stem(group.split()[0])
    for group in reversed(PHRASES["words"]["synonyms"].splitlines())
    for word in reversed(group.split())
}


@lru_cache(maxsize=8192)
def content_keys(text: str) -> tuple[str, ...]:
    """Return the keys of the content words of a text, each once, in order."""
    return tuple(dict.fromkeys(token.key for token in tokenize(text) if token.is_content))


class SentenceFrequency:
    """Weights of keys by smoothed inverse sentence frequency, in (0, ∞): log(1 + (N + 1) / (n + 0.5)).

    sentences: the keys of each sentence, without repeats.
    """

    def __init__(self, sentences: Iterable[Iterable[str]]) -> None:
        keys = [tuple(keys) for keys in sentences]
        self._counts = Counter(chain.from_iterable(keys))
        self._total = len(keys)

    def weight(self, key: str) -> float:
        """Return the weight of one key."""
        return math.log(1.0 + (self._total + 1.0) / (self._counts.get(key, 0) + 0.5))

    def total(self, keys: Iterable[str]) -> float:
        """Return the summed weight of keys."""
        return math.fsum(self.weight(key) for key in keys)

    def shared(self, keys: Iterable[str], covering: Collection[str]) -> float:
        """Return the summed weight of the keys that are among others."""
        return self.total(key for key in keys if key in covering)


# Sentences and statements

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
    """A statement to verify. keys: its content words, each once, in order. names: keys of the capitalised words."""

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
        shared = self.frequency.shared(statement.keys, sentence.keys)
        extra = self.frequency.total(sentence.keys.difference(statement.keys))
        total = self.frequency.total(statement.keys) + _EXTRA_WEIGHT * extra
        return shared / total if total else 0.0


def keys_of(sentences: Iterable[Sentence]) -> frozenset[str]:
    """Return the content words of several sentences."""
    return frozenset().union(*(sentence.keys for sentence in sentences))


def build_evidence(passages: Iterable[Passage]) -> Evidence:
    """Split passages into sentences, without questions and sentences too short to quote."""
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
    """Select at most three sentences by greedy set cover: the most similar one, then those that add the most coverage.

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


_MAX_GAP = 2
_CONJUNCTIONS = frozenset(PHRASES["words"]["conjunctions"].split())
_INTRODUCING = _CONJUNCTIONS.union(PHRASES["words"]["leading"].split())


def uncovered_span(statement: Statement, sentences: Iterable[Sentence]) -> str:
    """Return the stretch of a statement with the most content words that the sentences lack; empty if none is lacking.

    A stretch bridges up to two covered content words. It ends with an uncovered word and begins with the function
    words, or the conjunction ("because"), that introduce it.
    """
    run = heaviest_gap(statement.tokens, keys_of(sentences), lambda key: 1, _MAX_GAP)
    if not run:
        return ""
    start = run[0].start
    preceding = [token for token in statement.tokens if token.end <= start]
    while preceding and preceding[-1].lower in _INTRODUCING:
        start = preceding[-1].start
        if preceding.pop().lower in _CONJUNCTIONS:
            break
    return statement.text[start : run[-1].end]


def heaviest_gap(
    tokens: Sequence[Token], covering: Collection[str], weight: Callable[[str], float], max_bridged: int
) -> list[Token]:
    """Return the run of tokens with the greatest weight of content words outside `covering`, which is where it ends.

    It may bridge up to `max_bridged` covered content words in a row. Of equal runs the first; empty if all are covered.
    """
    # The maximum-weight segment in one pass, as in Kadane's algorithm: a run is closed by a gap that is too wide, and
    # its weight grows at uncovered words alone.
    best: list[Token] = []
    best_weight = 0.0
    run: list[Token] = []
    bridged = 0
    for token in tokens:
        if token.is_content and token.key not in covering:
            run.append(token)
            bridged = 0
            run_weight = sum(weight(member.key) for member in run if member.is_content and member.key not in covering)
            if run_weight > best_weight:
                best, best_weight = list(run), run_weight
        elif run:
            run.append(token)
            bridged += token.is_content
            if bridged > max_bridged:
                run, bridged = [], 0
    return best


_QUOTED = re.compile(r"[\"“]([^\"“”]{2,120})[\"”]")
_NAME = re.compile(r"(?<![\w“\"])[A-Z][\w&.’'-]*(?: (?:(?:of|and|for|the|on|in) )?[A-Z0-9][\w&.’'-]*)*")
_NOT_IN_NAMES = STOP_WORDS | {"under", "according", "per", "q"}
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
    name_keys = frozenset(key for name in names_in_question(question) for key in content_keys(name))
    matches = [sum(key in name_keys for key in content_keys(passage.title.partition(" › ")[0])) for passage in passages]
    best = max(matches, default=0)
    if best < 2:
        return list(passages)
    return [passage for passage, count in zip(passages, matches, strict=True) if count > _MIN_TITLE_MATCH * best]
