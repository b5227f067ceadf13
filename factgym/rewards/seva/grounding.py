"""The grounded components of SEVA's reward, which are ours: they compare an output with the claim and the source.

An entry counts only when it can be true, a component is the share of the claim that the counting entries cover, and both
are worth as much as the output's quotes show of the words that decide, so that leaving something out never pays, but for repetitions.

Texts are compared as sequences of words, after Unicode NFKC and without case, punctuation and the bracket tags of
tokenised text (-LRB-): a space before a comma or a curly quotation mark separates no quote from its source.

- Deciding words: the gold evidence where the data has it; elsewhere the `nearest_sentences` of the source. A fabrication
  has both, as its gold evidence only shows a silence.
- A quote bears on the claim when it has a content word and occurs in the source, among the deciding words or with a
  content word of its part of the claim.
- An alignment counts when its claim span occurs in the claim, its lengths are within equation 8's bounds, its status is
  of the schema, and its source span bears on it; or the source span is NOT_FOUND, the status `not_found`, and the claim
  span does not occur in the source. A `mismatch` of two equal texts does not count.
- A step counts when its judgment is of the schema, its explanation has equation 9's length and names a content word of
  the claim, its part is any text, and its evidence bears on the claim, or is NOT_FOUND for a part that is not judged
  supported. It covers the words of the claim that its part and its explanation name.
- An entry or a step repeats earlier ones of its list when its span or part of the claim and its quote name no word of the
  claim and no content word of the source that no earlier one named. Near-copies and paraphrases add none. Each component is multiplied by the
  share of its list that adds something: of 5,257 entries of a 7B model, three add nothing. Nor does a step count whose
  explanation is longer than the longest quote may be (500 characters; the longest of that model has 274), or holds the
  whole claim and the whole source: copies of both pad an explanation where they are short (2 of that model's 544 do).
- The evidence share is that of `SevaRules.full_evidence_words` (or half of the deciding content words, if that is less)
  that the counting quotes hold of the different deciding content words; one of several is none. It multiplies both components
  and the gate.

Not tested, as it needs a judge: whether a status or a judgment is right.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from factgym.corpora.sentences import sentences
from factgym.corpora.text import STOP_WORDS, fold, plain_marks
from factgym.rewards.seva.output import JUDGMENTS, LABELS, NOT_FOUND, STATUSES, Label, SevaOutput, text_in

if TYPE_CHECKING:
    from factgym.rewards.seva.scoring import SevaRules

Range = tuple[int, int]

# A word keeps its combining marks. The possessive *+ gives up no character, so that a run of marks cannot backtrack.
_WORD = re.compile(r"\w[\w\u0300-\u036f]*+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_BRACKET_TAG = re.compile(r"-[LR][RSC]B-")
# Stemming by truncation: one regular ending is cut, then five letters are compared ("attribution", "attributed"). A
# policy's words and the source's pass through the same rule, so that it has to be consistent, not linguistic.
_INFLECTION = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|e)\Z")
_KEY_CHARS = 5
_MAX_OCCURRENCES = 16
_MAX_TEXT_CHARS = 4_000
"""Of a text of an entry, twice the longest that the schema allows is read."""
_MAX_ENTRIES = 64
"""As many entries of a list as the schema allows are read."""


def word_offsets(text: str) -> tuple[list[str], list[int]]:
    """Return the folded words of a text, and the offset at which each begins."""
    if "B-" in text:
        text = _BRACKET_TAG.sub(lambda tag: " " * len(tag[0]), text)
    text = plain_marks(text)
    if text.isascii():
        return _ASCII_WORD.findall(text.lower()), [match.start() for match in _ASCII_WORD.finditer(text)]
    words: list[str] = []
    offsets: list[int] = []
    for match in _WORD.finditer(text):
        folded = [match[0].lower()] if match[0].isascii() else _WORD.findall(fold(match[0]).casefold())
        words += folded
        offsets += [match.start()] * len(folded)
    return words, offsets


def occurs(quote: str, text: str) -> bool:
    """Return whether a quote has a word and occurs in a text, both as sequences of words."""
    phrase = _phrase(quote)
    return bool(phrase.keys) and phrase.joined in _join(word_offsets(text)[0])


def _join(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


@lru_cache(maxsize=65536)
def _key(word: str) -> str:
    """Return the beginning of a word without its ending, which its inflections share."""
    return _INFLECTION.sub("", word)[:_KEY_CHARS]


class _Phrase(NamedTuple):
    """A span, a part, a quote or an explanation. joined: its words between single spaces. keys: of all of them."""

    joined: str
    keys: frozenset[str]


@lru_cache(maxsize=4096)
def _phrase(text: str) -> _Phrase:
    """Split a text of an entry into words; the two lists of an output often share them."""
    words, _ = word_offsets(text[:_MAX_TEXT_CHARS])
    return _Phrase(_join(words), frozenset(map(_key, words)))


@dataclass(frozen=True, slots=True, eq=False)
class WordText:
    """A text as words. joined: between single spaces. keys: of the content words by index; of all, if there are none."""

    words: list[str]
    joined: str
    offsets: list[int]
    keys: dict[int, str]

    @classmethod
    def of(cls, text: str) -> WordText:
        """Split a text into words."""
        words, offsets = word_offsets(text)
        content = {index: _key(word) for index, word in enumerate(words) if word not in STOP_WORDS}
        return cls(words, _join(words), offsets, content or dict(enumerate(map(_key, words))))

    def find_all(self, phrase: str) -> Iterator[range]:
        """Yield the word indices of each occurrence of a phrase between spaces."""
        # Word search as substring search between single spaces: a match begins at the space before a word, so the
        # number of spaces before it is the word's index. Spaces are counted from match to match, which is linear in
        # all.
        size, position, index = phrase.count(" ") - 1, 0, 0
        while size > 0 and (start := self.joined.find(phrase, position)) >= 0:
            index += self.joined.count(" ", position, start)
            yield range(index, index + size)
            position, index = start + 1, index + 1

    def between(self, start: int, end: int) -> range:
        """Return the indices of the words that begin in a range of the text."""
        return range(bisect_left(self.offsets, start), bisect_left(self.offsets, end))


_folded_claim = lru_cache(maxsize=512)(WordText.of)  # the G outputs of a group share claim and source


@lru_cache(maxsize=4096)
def _named_words(part: str, claim: WordText) -> frozenset[int]:
    """Return the indices of the claim's words in all occurrences of a part of it."""
    return frozenset([index for occurrence in claim.find_all(part) for index in occurrence])


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A source. deciding: keys of the content words that decide, by index. vocabulary: keys of all content words."""

    text: WordText
    deciding: dict[int, str]
    deciding_count: int
    vocabulary: frozenset[str]


def nearest_sentences(claim: str, source: str) -> list[Range]:
    """Return the ranges of the sentences that decide a claim without gold evidence, the nearest first.

    These share at least half as many content words with the claim as the nearest one, or a word that no nearer one has:
    the parts of a claim may be decided in different places.
    """
    return _nearest_sentences(_folded_claim(claim), source, WordText.of(source))


def _nearest_sentences(claim: WordText, source: str, text: WordText) -> list[Range]:
    keys = set(claim.keys.values())
    parts = sentences(source) or [(0, len(source))]
    # No word crosses the end of a sentence, so that the words of one are a slice of the words of the text.
    indices = [text.between(start, end) for start, end in parts]
    shared = [keys.intersection(map(_key, text.words[part.start : part.stop])) for part in indices]
    order = sorted(range(len(parts)), key=lambda index: -len(shared[index]))
    nearest, covered = [], set[str]()
    for index in order:
        if 2 * len(shared[index]) >= len(shared[order[0]]) or not shared[index] <= covered:
            nearest.append(parts[index])
            covered |= shared[index]
    return nearest


@lru_cache(maxsize=128)
def _folded_source(source: str, claim: str, evidence: tuple[Range, ...], with_nearest: bool) -> _Source:
    text = WordText.of(source)
    nearest = _nearest_sentences(_folded_claim(claim), source, text) if with_nearest or not evidence else ()
    indices = {index for start, end in (*evidence, *nearest) for index in text.between(start, end)}
    deciding = {index: text.keys[index] for index in indices & text.keys.keys()}
    return _Source(text, deciding, len(set(deciding.values())), frozenset(text.keys.values()))


class _Quote(NamedTuple):
    """A quote in its source. keys: of its content words; deciding: of those that decide."""

    keys: frozenset[str]
    deciding: frozenset[str]


@lru_cache(maxsize=4096)
def _find_quote(quote: str, source: _Source) -> _Quote:
    """Return the words of the first occurrences of a quote in a source; the two lists of an output often share quotes."""
    occurrences = islice(source.text.find_all(quote), _MAX_OCCURRENCES)
    indices = {index for occurrence in occurrences for index in occurrence}
    keys, deciding = (
        frozenset([words[index] for index in indices & words.keys()]) for words in (source.text.keys, source.deciding)
    )
    return _Quote(keys, deciding)


class _Entry(NamedTuple):
    """An alignment or a step that counts: indices of the claim's words that it covers, keys of the deciding words it quotes.

    part, explanation: as words.
    """

    covered: frozenset[int]
    quoted: frozenset[str]
    is_negative: bool
    part: str
    explanation: str


def grounded_scores(
    output: SevaOutput,
    label: Label | None,
    claim_text: str,
    source_text: str,
    evidence: Sequence[Range],
    with_nearest: bool,
    rules: SevaRules,
) -> tuple[dict[str, float], float]:
    """Return the grounded components and the gate. label: the one that the output predicts; evidence: the gold ranges."""
    claim = _folded_claim(claim_text)
    source = _folded_source(source_text, claim_text, tuple(evidence), with_nearest)
    alignments = list(_counted_alignments(output.alignments, claim, source, rules))
    steps = list(_counted_steps(output.chain, claim, source, rules))
    new_alignments = _share_new(output.alignments, "claim_span", "source_span", claim, source)
    new_steps = _share_new(output.chain, "claim_part", "source_evidence", claim, source)
    # Distinct words: repetitions of a word count once.
    quoted = frozenset[str]().union(*(entry.quoted for entry in (*alignments, *steps)))
    needed = min(rules.full_evidence_words, (source.deciding_count + 1) // 2)
    share = min(1.0, len(quoted) / needed) if len(quoted) >= min(2, needed) > 0 else 0.0
    # Different steps are about different parts and have different explanations.
    different = min(len({step.part for step in steps}), len({step.explanation for step in steps}))
    bonus = rules.length_bonus * min(1.0, different / rules.full_grounded_steps)
    components = {
        "grounded_alignment": share * new_alignments * _coverage(alignments, claim, rules),
        "grounded_chain": share * new_steps * ((1.0 - rules.length_bonus) * _coverage(steps, claim, rules) + bonus),
    }
    # The gate: a positive label follows if no entry at all is negative and no error is named, a negative one if a counting
    # entry is negative.
    if label is None or not steps:
        consistent = False
    elif label != LABELS[0]:
        consistent = any(entry.is_negative for entry in (*alignments, *steps))
    else:
        negatives = (("status", STATUSES[1:], output.alignments), ("judgment", JUDGMENTS[1:], output.chain))
        consistent = output.error_type is None and not any(
            isinstance(entry, dict) and isinstance(entry.get(key), str) and entry[key] in values
            for key, values, entries in negatives
            for entry in entries
        )
    return components, share if consistent else 0.0


def _coverage(entries: Iterable[_Entry], claim: WordText, rules: SevaRules) -> float:
    """Return the share of the content words that the entries cover, relative to the share that earns everything."""
    if not claim.keys:
        return 0.0
    covered = frozenset[int]().union(*(entry.covered for entry in entries))
    return min(1.0, len(covered) / len(claim.keys) / rules.full_coverage)


def _share_new(entries: list[Any], claim_key: str, source_key: str, claim: WordText, source: _Source) -> float:
    """Return the share of the entries that name a word of the claim, or a content word of the source, for the first time."""
    # Novelty by coverage: wording is free, so a repetition shows in what an entry is about and not in how it reads.
    named, count = set[int | str](), 0
    for entry in entries[:_MAX_ENTRIES]:
        part, quote = (
            text_in(entry, key).strip() if isinstance(entry, dict) else "" for key in (claim_key, source_key)
        )
        phrase = _phrase(part)
        words: set[int | str] = set(_named_words(phrase.joined, claim) or _indices(claim, phrase.keys))
        if quote != NOT_FOUND:
            words |= source.vocabulary & _phrase(quote).keys
        count += not words <= named
        named |= words
    return count / len(entries) if entries else 1.0


def _indices(claim: WordText, keys: frozenset[str]) -> frozenset[int]:
    """Return the indices of the claim's content words with these keys."""
    return frozenset([index for index, key in claim.keys.items() if key in keys])


def _bears(phrase: str, keys: Iterable[str], source: _Source) -> frozenset[str] | None:
    """Return the keys of the deciding words that a quote holds; None for a quote that does not bear on the part of the claim with `keys`."""
    quote = _find_quote(phrase, source)
    return quote.deciding if quote.deciding or not quote.keys.isdisjoint(keys) else None


def _counted_alignments(entries: list[Any], claim: WordText, source: _Source, rules: SevaRules) -> Iterator[_Entry]:
    for entry in entries[:_MAX_ENTRIES]:
        status = entry.get("status") if isinstance(entry, dict) else None
        if not isinstance(status, str) or status not in STATUSES:
            continue
        claim_span, source_span = text_in(entry, "claim_span").strip(), text_in(entry, "source_span").strip()
        part = _phrase(claim_span).joined
        if part not in claim.joined or not rules.min_span_chars <= len(claim_span) <= rules.max_claim_span_chars:
            continue
        covered = _named_words(part, claim) & claim.keys.keys()
        quoted: frozenset[str] | None = None
        if status == "not_found":
            if source_span == NOT_FOUND and part not in source.text.joined:
                quoted = frozenset()
        elif rules.min_span_chars <= len(source_span) <= rules.max_source_span_chars and (
            status == "match" or part != _phrase(source_span).joined
        ):
            quoted = _bears(_phrase(source_span).joined, [claim.keys[index] for index in covered], source)
        if quoted is not None:
            yield _Entry(covered, quoted, status != "match", part, "")


def _counted_steps(steps: list[Any], claim: WordText, source: _Source, rules: SevaRules) -> Iterator[_Entry]:
    vocabulary = frozenset(claim.keys.values())
    for step in steps[:_MAX_ENTRIES]:
        judgment = step.get("judgment") if isinstance(step, dict) else None
        if not isinstance(judgment, str) or judgment not in JUDGMENTS:
            continue
        part, explanation, evidence = (
            text_in(step, key).strip() for key in ("claim_part", "explanation", "source_evidence")
        )
        named = vocabulary & _phrase(explanation).keys
        lengths = rules.min_explanation_chars, rules.max_explanation_chars
        if len(part) < rules.min_span_chars or not lengths[0] <= len(explanation) <= lengths[1] or not named:
            continue
        words = _phrase(explanation).joined
        if claim.joined in words and source.text.joined in words:
            continue
        named |= vocabulary & _phrase(part).keys
        quoted: frozenset[str] | None = None
        if evidence == NOT_FOUND:
            quoted = frozenset() if judgment != "supported" else None
        elif len(evidence) >= rules.min_evidence_chars:
            quoted = _bears(_phrase(evidence).joined, named, source)
        if quoted is not None:
            covered = _indices(claim, named)
            yield _Entry(covered, quoted, judgment != "supported", part, explanation)
