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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from factgym.rewards.seva.output import JUDGMENTS, LABELS, NOT_FOUND, STATUSES, Label, SevaOutput, text_in
from factgym.text.folding import fold
from factgym.text.sentences import sentences
from factgym.text.words import STOP_WORDS

if TYPE_CHECKING:
    from factgym.rewards.seva.scoring import SevaRules

Range = tuple[int, int]

# A word keeps its combining marks. The possessive *+ gives up no character, so that a run of marks cannot backtrack.
_WORD = re.compile(r"\w[\w\u0300-\u036f]*+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_WIDE_WORD = re.compile(r"[^\W\x00-\x7f]|[\u0300-\u036f]")
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


def _words(text: str) -> list[str]:
    """Return the folded words of a text."""
    if text.isascii() and "B-" not in text:  # most texts of an entry
        return _ASCII_WORD.findall(text.lower())
    return _word_offsets(text)[0]


def _word_offsets(text: str) -> tuple[list[str], list[int]]:
    """Return the folded words of a text, and the offset at which each begins."""
    text = _drop_tags(text)
    if _has_ascii_words(text):
        return _ASCII_WORD.findall(text.lower()), [match.start() for match in _ASCII_WORD.finditer(text)]
    words: list[str] = []
    offsets: list[int] = []
    for match in _WORD.finditer(text):
        folded = [match[0].lower()] if match[0].isascii() else _WORD.findall(fold(match[0]).casefold())
        words += folded
        offsets += [match.start()] * len(folded)
    return words, offsets


def _has_ascii_words(text: str) -> bool:
    """Whether no letter or digit is beyond ASCII, so that the words are the ASCII words, whatever other marks there are."""
    return text.isascii() or not _WIDE_WORD.search(text)


def _drop_tags(text: str) -> str:
    """Return a text of the same length without the bracket tags of tokenised text."""
    return _BRACKET_TAG.sub(lambda tag: " " * len(tag[0]), text) if "B-" in text else text


def occurs(quote: str, text: str) -> bool:
    """Return whether a quote has a word and occurs in a text, both as sequences of words."""
    phrase = _phrase(quote)
    return bool(phrase.keys) and phrase.joined in _join(_words(text))


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
    words = _words(text[:_MAX_TEXT_CHARS])
    return _Phrase(_join(words), frozenset(map(_key, words)))


@dataclass(frozen=True, slots=True, eq=False)
class WordText:
    """A text as words. joined: between single spaces. keys: of the content words by index; of all, if there are none.

    content, vocabulary: indices and keys of these.
    """

    joined: str
    keys: dict[int, str]
    content: frozenset[int]
    vocabulary: frozenset[str]

    @classmethod
    def of(cls, words: list[str]) -> WordText:
        """Find the content words."""
        content = {index: _key(word) for index, word in enumerate(words) if word not in STOP_WORDS}
        keys = content or dict(enumerate(map(_key, words)))
        return cls(_join(words), keys, frozenset(keys), frozenset(keys.values()))

    def find_all(self, phrase: str, limit: int | None = None) -> list[range]:
        """Return the word indices of the first occurrences of a phrase between spaces, of all for None."""
        # Word search as substring search between single spaces: a match begins at the space before a word, so the
        # number of spaces before it is the word's index. Spaces are counted from match to match, which is linear in
        # all.
        size, position, index, joined = phrase.count(" ") - 1, 0, 0, self.joined
        occurrences: list[range] = []
        start = joined.find(phrase) if size > 0 else -1
        while start >= 0 and len(occurrences) != limit:
            index += joined.count(" ", position, start)
            occurrences.append(range(index, index + size))
            position, index = start + 1, index + 1
            start = joined.find(phrase, position)
        return occurrences


_TASKS = 1024
"""Claims and sources that are kept as words, of some 30 kB each: the outputs of a group, and of a batch, share them."""


@lru_cache(maxsize=_TASKS)
def _folded_claim(text: str) -> WordText:
    return WordText.of(_words(text))


@lru_cache(maxsize=4096)
def _named_words(part: str, claim: WordText) -> frozenset[int]:
    """Return the indices of the claim's words in all occurrences of a part of it."""
    return frozenset[int]().union(*claim.find_all(part))


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A source. deciding: keys of the content words that decide, by index, and deciding_count different ones."""

    text: WordText
    deciding: dict[int, str]
    deciding_count: int


def nearest_sentences(claim: str, source: str) -> list[Range]:
    """Return the ranges of the sentences that decide a claim without gold evidence, the nearest first.

    These share at least half as many content words with the claim as the nearest one, or a word that no nearer one has:
    the parts of a claim may be decided in different places.
    """
    return _nearest_sentences(_folded_claim(claim), source, *_word_offsets(source))


def _nearest_sentences(claim: WordText, source: str, words: list[str], offsets: list[int]) -> list[Range]:
    """Return the sentences nearest to a claim: at least half of the best overlap, and greedily any new words."""
    parts = sentences(source) or [(0, len(source))]
    # No word crosses the end of a sentence, so that the words of one are a slice of the words of the text.
    indices = [_words_between(offsets, part) for part in parts]
    shared = [claim.vocabulary.intersection(map(_key, words[part.start : part.stop])) for part in indices]
    order = sorted(range(len(parts)), key=lambda index: -len(shared[index]))
    nearest, covered = [], set[str]()
    for index in order:
        if 2 * len(shared[index]) >= len(shared[order[0]]) or not shared[index] <= covered:
            nearest.append(parts[index])
            covered |= shared[index]
    return nearest


def _words_between(offsets: list[int], part: Range) -> range:
    """Return the indices of the words that begin in a range of the text."""
    return range(bisect_left(offsets, part[0]), bisect_left(offsets, part[1]))


@lru_cache(maxsize=_TASKS)
def _folded_source(source: str, claim: str, evidence: tuple[Range, ...], with_nearest: bool) -> _Source:
    words, offsets = _word_offsets(source)
    text = WordText.of(words)
    nearest = _nearest_sentences(_folded_claim(claim), source, words, offsets) if with_nearest or not evidence else ()
    indices = set[int]().union(*[_words_between(offsets, part) for part in (*evidence, *nearest)])
    deciding = {index: text.keys[index] for index in indices & text.content}
    return _Source(text, deciding, len(set(deciding.values())))


@lru_cache(maxsize=4096)
def _quoted_words(quote: str, source: _Source, only_deciding: bool) -> frozenset[str]:
    """Return the keys of the content words in the first occurrences of a quote in a source, or of those that decide."""
    keys = source.deciding if only_deciding else source.text.keys
    occurrences = source.text.find_all(quote, _MAX_OCCURRENCES)
    return frozenset([keys[index] for occurrence in occurrences for index in occurrence if index in keys])


class _Entry(NamedTuple):
    """An alignment or a step as written. data: None where it is no object. part, quote: its texts about claim and source."""

    data: dict[str, Any] | None
    part: str
    quote: str
    part_phrase: _Phrase
    quote_phrase: _Phrase


def _read_entries(entries: list[Any], part_key: str, quote_key: str) -> list[_Entry]:
    """Return the first entries of a list."""
    read = []
    for entry in entries[:_MAX_ENTRIES]:
        data = entry if isinstance(entry, dict) else None
        part, quote = (data.get(part_key), data.get(quote_key)) if data else ("", "")
        part = part.strip() if isinstance(part, str) else ""
        quote = quote.strip() if isinstance(quote, str) else ""
        read.append(_Entry(data, part, quote, _phrase(part), _phrase(quote)))
    return read


class _Counted(NamedTuple):
    """The entries of a list that count.

    covered: indices of the claim's content words. quoted: keys of the deciding words. has_negative: whether a status or a
    judgment is negative. different: number of different steps.
    """

    covered: set[int]
    quoted: set[str]
    has_negative: bool
    different: int = 0


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
    alignment_list, chain = output.alignments, output.chain
    written_alignments = _read_entries(alignment_list, "claim_span", "source_span")
    written_steps = _read_entries(chain, "claim_part", "source_evidence")
    alignments = _count_alignments(written_alignments, claim, source, rules)
    steps = _count_steps(written_steps, claim, source, rules)
    # Distinct words: repetitions of a word count once.
    quoted = len(alignments.quoted | steps.quoted)
    needed = min(rules.full_evidence_words, (source.deciding_count + 1) // 2)
    share = min(1.0, quoted / needed) if quoted >= min(2, needed) > 0 else 0.0
    bonus = rules.length_bonus * min(1.0, steps.different / rules.full_grounded_steps)
    new_alignments = _share_new(written_alignments, len(alignment_list), claim, source)
    new_steps = _share_new(written_steps, len(chain), claim, source)
    components = {
        "grounded_alignment": share * new_alignments * _coverage(alignments, claim, rules),
        "grounded_chain": share * new_steps * ((1.0 - rules.length_bonus) * _coverage(steps, claim, rules) + bonus),
    }
    # The gate: a positive label follows if no entry at all is negative and no error is named, a negative one if a counting
    # entry is negative.
    if label is None or not steps.different:
        consistent = False
    elif label != LABELS[0]:
        consistent = alignments.has_negative or steps.has_negative
    else:
        consistent = not (
            output.error_type is not None
            or _has_value(alignment_list, "status", STATUSES[1:])
            or _has_value(chain, "judgment", JUDGMENTS[1:])
        )
    return components, share if consistent else 0.0


def _has_value(entries: list[Any], key: str, values: Sequence[str]) -> bool:
    """Whether an entry of the whole list has one of the values under a key."""
    for entry in entries:
        value = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(value, str) and value in values:
            return True
    return False


def _coverage(counted: _Counted, claim: WordText, rules: SevaRules) -> float:
    """Return the share of the content words that the entries cover, relative to the share that earns everything."""
    return min(1.0, len(counted.covered) / len(claim.keys) / rules.full_coverage) if claim.keys else 0.0


def _share_new(entries: list[_Entry], total: int, claim: WordText, source: _Source) -> float:
    """Return the share of the entries that name a word of the claim, or a content word of the source, for the first time."""
    # Novelty by coverage: wording is free, so a repetition shows in what an entry is about and not in how it reads.
    named, quoted, count = set[int](), set[str](), 0
    for _, _, quote, part_phrase, quote_phrase in entries:
        part_words = _named_words(part_phrase.joined, claim) or _indices(claim, part_phrase.keys)
        source_words = source.text.vocabulary & quote_phrase.keys if quote != NOT_FOUND else frozenset[str]()
        if not (named.issuperset(part_words) and quoted >= source_words):
            count += 1
            named.update(part_words)
            quoted |= source_words
    return count / total if total else 1.0


def _indices(claim: WordText, keys: frozenset[str]) -> list[int]:
    """Return the indices of the claim's content words with these keys."""
    return [index for index, key in claim.keys.items() if key in keys]


def _bears(quote: str, covered: Iterable[int], claim: WordText, source: _Source) -> frozenset[str] | None:
    """Return the keys of the deciding words that a quote holds; None for a quote that does not bear on the part of the claim."""
    deciding = _quoted_words(quote, source, only_deciding=True)
    if deciding or not _quoted_words(quote, source, only_deciding=False).isdisjoint(map(claim.keys.get, covered)):
        return deciding
    return None


def _count_alignments(entries: list[_Entry], claim: WordText, source: _Source, rules: SevaRules) -> _Counted:
    """Return what well-formed alignments cover of the claim and quote of the source."""
    all_covered, all_quoted, has_negative = set[int](), set[str](), False
    min_chars, max_claim, max_source = rules.min_span_chars, rules.max_claim_span_chars, rules.max_source_span_chars
    for data, claim_span, source_span, part_phrase, quote_phrase in entries:
        status, part = data.get("status") if data else None, part_phrase.joined
        if not isinstance(status, str) or status not in STATUSES:
            continue
        if part not in claim.joined or not min_chars <= len(claim_span) <= max_claim:
            continue
        covered = _named_words(part, claim) & claim.content
        quoted: frozenset[str] | None = None
        if status == "not_found":
            if source_span == NOT_FOUND and part not in source.text.joined:
                quoted = frozenset()
        elif min_chars <= len(source_span) <= max_source and (status == "match" or part != quote_phrase.joined):
            quoted = _bears(quote_phrase.joined, covered, claim, source)
        if quoted is not None:
            all_covered |= covered
            all_quoted |= quoted
            has_negative |= status != "match"
    return _Counted(all_covered, all_quoted, has_negative)


def _count_steps(entries: list[_Entry], claim: WordText, source: _Source, rules: SevaRules) -> _Counted:
    """Return what well-formed reasoning steps cover of the claim and quote, and how many of them differ."""
    all_covered, all_quoted, has_negative = set[int](), set[str](), False
    parts, explanations = set[str](), set[str]()
    for data, part, evidence, part_phrase, quote_phrase in entries:
        judgment = data.get("judgment") if data else None
        if data is None or not isinstance(judgment, str) or judgment not in JUDGMENTS:
            continue
        explanation = text_in(data, "explanation").strip()
        if len(part) < rules.min_span_chars or not (
            rules.min_explanation_chars <= len(explanation) <= rules.max_explanation_chars
        ):
            continue
        phrase = _phrase(explanation)
        if claim.vocabulary.isdisjoint(phrase.keys):
            continue
        if claim.joined in phrase.joined and source.text.joined in phrase.joined:
            continue
        covered = _indices(claim, phrase.keys | part_phrase.keys)
        quoted: frozenset[str] | None = None
        if evidence == NOT_FOUND:
            quoted = frozenset() if judgment != "supported" else None
        elif len(evidence) >= rules.min_evidence_chars:
            quoted = _bears(quote_phrase.joined, covered, claim, source)
        if quoted is not None:
            all_covered.update(covered)
            all_quoted |= quoted
            has_negative |= judgment != "supported"
            parts.add(part)
            explanations.add(explanation)
    # Different steps are about different parts and have different explanations.
    return _Counted(all_covered, all_quoted, has_negative, min(len(parts), len(explanations)))
