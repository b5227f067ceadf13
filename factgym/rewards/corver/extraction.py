"""Triplets from English declaratives by rules: no model, no download, deterministic.

    The Philadelphia Flyers, a team based in Philadelphia, won the Stanley Cup in 1975.
    -> (Philadelphia Flyers, won, Stanley Cup), (Philadelphia Flyers, in, 1975),
       (Philadelphia Flyers, team based in, Philadelphia)

A sentence is cut into chunks (names, dates, numbers, verbs, others; see `tagging`). Its subject and main verb are found
past introductions and appositions, and every name, date or number after the verb forms a triplet with the subject, from
left to right. Appositions and possessives ("X's father, Y, …") form triplets of their own. Questions and fragments
without a verb form none, nor do sentences without a subject; a pronoun as subject makes its triplets invalid. Text about
the reasoning itself states no fact and forms none either: labels ("Step 1:"), instructions ("Compare the dates."), and
clauses about writer and reader ("I'll search for the film") or about an answer as such ("The search results show …"). A
clause with "that" in it is read: "I can see that Paris is in France".

Compared with the paper's traced completions (B.6) the pairs are the same, except for two habits of the published model
that rules cannot reproduce: it shortens names ("1989 Championship" for "1989 NCAA Men's Division I Basketball
Championship"), and in "Ella Fitzgerald's mother was Temperance … Height Fitzgerald" it picks one word of the name.

The time is linear in the length of the sentence, of which the first 2,000 characters are read.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from factgym.core.errors import ConfigError, did_you_mean
from factgym.rewards.corver.model_extractor import ModelExtractor
from factgym.rewards.corver.triplets import PRONOUNS, Extractor, Triplet
from factgym.text.tagging import (
    ADV,
    AUX,
    BE,
    COMMA,
    CONJ,
    DATE,
    DET,
    ENT,
    GERUND,
    NOUN,
    NUM,
    POSSESSIVES,
    PREP,
    PRON,
    STOP,
    SUB,
    VERB,
    WH,
    WORDS,
    Chunk,
    chunk,
    tokenize,
)

VERSION = 2
"""Version of the rules, raised when their results change."""

_MAX_CHARS = 2_000
_MAX_TRIPLETS = 8

_NOMINAL = frozenset((ENT, NOUN, PRON, NUM, DATE))
_ENTITY = frozenset((ENT, DATE))
_FINITE = frozenset((VERB, BE, AUX))
_DROPPED = frozenset((DET, COMMA, NUM, CONJ))
_ARTICLES = frozenset(("the", "a", "an"))
_SPEAKERS, _DISCOURSE = WORDS["speakers"], WORDS["discourse"]
_LABEL = re.compile(rf"^\W*(?:{'|'.join(sorted(WORDS['labels']))})(?: \d+)?\W*:\s*", re.IGNORECASE)
_NO_PRESENT_ENDINGS = frozenset(("ss", "us", "is", "as", "os"))


class CachedExtractor:
    """An extractor with a least-recently-used cache of `size` sentences. Safe in threads; a copy starts empty."""

    def __init__(self, inner: Extractor, size: int) -> None:
        self.inner, self.size = inner, size
        self._cache: OrderedDict[str, list[Triplet]] = OrderedDict()
        self._lock = threading.Lock()

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """Return the triplets of each sentence; the inner extractor gets each new sentence once."""
        distinct = dict.fromkeys(sentences)
        triplets: dict[str, list[Triplet]] = {}
        with self._lock:
            for sentence in distinct:
                if sentence in self._cache:
                    self._cache.move_to_end(sentence)
                    triplets[sentence] = self._cache[sentence]
        missing = [sentence for sentence in distinct if sentence not in triplets]
        if missing:
            extracted = dict(zip(missing, self.inner.extract(missing), strict=True))
            triplets.update(extracted)
            with self._lock:
                self._cache.update(extracted)
                while len(self._cache) > self.size:
                    self._cache.popitem(last=False)
        return [list(triplets[sentence]) for sentence in sentences]

    def describe(self) -> dict[str, Any]:
        """Describe the inner extractor: a cache changes no result."""
        return self.inner.describe()

    def __reduce__(self) -> tuple[type[CachedExtractor], tuple[Extractor, int]]:
        return CachedExtractor, (self.inner, self.size)


def cached_extractor(inner: Extractor, size: int = 65_536) -> CachedExtractor:
    """Wrap an extractor in a cache of `size` sentences; return a cached one unchanged."""
    return inner if isinstance(inner, CachedExtractor) else CachedExtractor(inner, size)


def find_extractor(extractor: str | Extractor) -> Extractor:
    """Resolve "rule" (built in), "quco:PATH" (the published model in a folder), or an object, which is returned.

    A model is loaded when it is first used. Raises ConfigError for anything else.
    """
    if not isinstance(extractor, str):
        if isinstance(extractor, Extractor):
            return extractor
        raise ConfigError(f"an extractor has extract(sentences) and describe(), which {extractor!r:.80} has not")
    kind, _, path = extractor.partition(":")
    if kind == "rule" and not path:
        return RuleExtractor()
    if kind == "quco" and path:
        return cached_extractor(ModelExtractor(path))
    hint = did_you_mean(extractor, ("rule", "quco:PATH"))
    raise ConfigError(f"there is no extractor {extractor!r:.80}.{hint} Use 'rule', 'quco:PATH', or an object.")


class RuleExtractor:
    """Extracts triplets by rules. Stateless, so it can be shared and copied."""

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """Return the triplets of each sentence, from left to right."""
        return [_extract(sentence) for sentence in sentences]

    def describe(self) -> dict[str, Any]:
        """Return name and version of the rules."""
        return {"extractor": "rule", "version": VERSION}


def _extract(sentence: str) -> list[Triplet]:
    if "\n" in sentence:
        lines = sentence[:_MAX_CHARS].splitlines()
        return [triplet for line in lines for triplet in _extract(line.strip())][:_MAX_TRIPLETS]
    if sentence.endswith("?"):
        return []
    words = tokenize(_LABEL.sub("", sentence[:_MAX_CHARS]))
    if len(words) < 3:
        return []
    parser = _ClauseParser(words, chunk(words))
    parser.parse()
    return parser.triplets


class _ClauseParser:
    """Reads the triplets off a sentence's chunks, from left to right."""

    # A shallow parser over chunk tags in place of a grammar: find the main verb, then the subject before it, then pair
    # every entity after it with the subject. Only `_present_verb` changes a tag, and no position is read twice.

    def __init__(self, words: Sequence[str], chunks: Sequence[Chunk]) -> None:
        self.words, self.chunks = words, chunks
        self.tags = [tag for tag, _, _ in chunks]
        self.triplets: list[Triplet] = []

    @property
    def done(self) -> bool:
        return len(self.triplets) >= _MAX_TRIPLETS

    def parse(self) -> None:
        """Add the clause's triples: of subject, verb and object, then of appositions; a pronoun's is invalid."""
        start = self._skip_reports(self._skip_introduction(0))
        verb = self._main_verb(start)
        verb = self._present_verb(start) if verb is None else verb
        if verb is None:
            return
        # The subject ends at the first comma or relative pronoun, or at the verb.
        subject_end = min(self._next(COMMA, start), verb)
        wh = self._next(WH, start)
        subject_end = wh if start < wh < subject_end else subject_end
        subject = self._subject(start, subject_end, verb)
        if subject is None:
            return
        head, role = subject
        self._predicate(head, role, verb)
        self._appositions(head, subject_end, verb)
        if not self.triplets and head.lower() in PRONOUNS:
            # Invalid, which tells "He won" from a sentence that states no fact.
            self._add(head, self._word(verb), "")

    def _add(self, head: str, relation: str, tail: str) -> None:
        self.triplets.append(Triplet(head, relation, tail))

    # The main clause

    def _skip_introduction(self, i: int) -> int:
        """Return the chunk after "However,", "In 1975,", "Based on this," and the like."""
        tags, size = self.tags, len(self.tags)
        while i < size and tags[i] in (ADV, CONJ, COMMA, SUB):
            i += 1
        if i < size and (tags[i] == PREP or (i == 0 and tags[i] in (GERUND, VERB))):
            after = self._next(COMMA, i) + 1
            if after < size and self._finite_verb(after, size) is not None:
                return after
        return i

    def _skip_reports(self, start: int) -> int:
        """Return the chunk after "I can see that" and the like; the number of chunks if no clause follows."""
        size = len(self.tags)
        while start < size and self._is_discourse(start):
            later = range(start + 1, size)
            that = next((i for i in later if self._word(i) == "that" and self.tags[i - 1] in (VERB, GERUND)), size)
            start = self._skip_introduction(that + 1) if that < size else size
        return start

    def _is_discourse(self, start: int) -> bool:
        """Return whether the clause is an instruction, or its subject the writer, the reader, or an answer as such."""
        if self.tags[start] in (VERB, GERUND):
            return True
        verb = self._finite_verb(start, len(self.tags))
        end = len(self.tags) if verb is None else verb
        first = self._word(start).lower().replace("’", "'").partition("'")[0]
        words = self.words[self.chunks[start][1] : self.chunks[end - 1][2]] if end > start else ()
        return first in _SPEAKERS or not _DISCOURSE.isdisjoint(map(str.lower, words))

    def _next(self, tag: int, start: int) -> int:
        """Return the first chunk with this tag from `start` on, the number of chunks if there is none."""
        try:
            return self.tags.index(tag, start)
        except ValueError:
            return len(self.tags)

    def _finite_verb(self, start: int, end: int) -> int | None:
        """Return the first finite verb after something nominal, or at `start`."""
        tags = self.tags
        for i in range(start, end):
            tag = tags[i]
            if tag not in _FINITE:
                continue
            # Behind a determiner, preposition, number or conjunction a verb form is a noun or a participle ("the
            # march").
            if i == start or tag != VERB or tags[i - 1] not in (DET, PREP, NUM, CONJ):
                return i
        return None

    def _main_verb(self, start: int) -> int | None:
        """Return the verb of the main clause: appositions between commas are skipped when another verb follows."""
        # Segments between commas from left to right. A verb in the first segment is the main verb; one in a later segment
        # counts at once if it begins the segment, and else only where no better one follows (it may be a relative clause).
        tags, size = self.tags, len(self.tags)
        fallback = None
        segment = start
        while segment < size:
            end = self._next(COMMA, segment)
            verb = self._finite_verb(segment, end)
            if verb is not None and verb == start:
                verb = self._finite_verb(verb + 1, end)
            if verb is not None:
                if segment == start or (verb == segment and tags[verb] != VERB):
                    return verb
                if verb == segment or tags[segment] in (DET, WH, PREP, ADV):
                    fallback = verb if fallback is None else fallback
                    if verb == segment and not self._has_verb_after_comma(end):
                        return verb
                else:
                    return verb if fallback is None or verb == segment else fallback
            segment = end + 1
        return fallback

    def _has_verb_after_comma(self, comma: int) -> bool:
        """Return whether a verb directly follows this comma or a later one."""
        return any(tag == COMMA and after in _FINITE for tag, after in pairwise(self.tags[comma:]))

    def _present_verb(self, start: int) -> int | None:
        """In a clause without a known verb: find a word in "s" after a name or noun ("Water boils at 100 degrees")."""
        tags = self.tags
        for i in range(start + 1, len(tags)):
            word = self._word(i)
            candidate = tags[i] == NOUN and tags[i - 1] in (ENT, NOUN)
            if candidate and word[-1] == "s" and word[-2:] not in _NO_PRESENT_ENDINGS:
                tags[i] = VERB
                return i
        return None

    # The subject

    def _subject(self, start: int, end: int, verb: int) -> tuple[str, str] | None:
        """Return the head of the triplets and its role ("zip code"), "" for none; None without a subject."""
        tags = self.tags
        while start < end and tags[start] in (DET, ADV, PREP):
            if self._word(start).lower() in POSSESSIVES:
                return self._word(start), ""
            start += 1
        article = self._word(start - 1).lower() if start and tags[start - 1] == DET else ""
        if start >= end:
            # "This", "That" and the like as pronouns.
            return (self._word(start - 1), "") if start and tags[start - 1] in (DET, WH) else None
        first_name = next((i for i in range(start, end) if tags[i] == ENT), None)
        if first_name is None:
            nominal = [i for i in range(start, end) if tags[i] in _NOMINAL]
            if not nominal:
                return None
            head = self._text(start, nominal[-1] + 1)
            return (f"{article} {head}" if article in _ARTICLES and tags[start] != PRON else head), ""
        name = self._name(first_name)
        if first_name == start:
            if self._is_possessive(start) and start + 1 < end and tags[start + 1] in (NOUN, VERB):
                return self._possessed(name, self._text(start + 1, end), end, verb)
            return name, ""
        if tags[first_name - 1] == PREP and tags[verb] == BE:
            return name, self._text(start, first_name - 1)
        is_apposed = tags[first_name - 1] in (NOUN, GERUND, VERB)
        return (name if is_apposed else self._text(start, first_name + 1)), ""

    def _possessed(self, name: str, role: str, end: int, verb: int) -> tuple[str, str]:
        """ "X's father, Y, …" adds (X, father, Y) and continues with Y; "X's father is Y" keeps the role."""
        if end + 1 < verb and self.tags[end] == COMMA and self.tags[end + 1] == ENT:
            other = self._name(end + 1)
            self._add(name, role, other)
            return other, ""
        return name, role if self.tags[verb] == BE else ""

    # The predicate

    def _predicate(self, head: str, role: str, verb: int) -> None:
        """Add a triplet for every name, date and number after the verb, with the head that it belongs to."""
        # A relative clause ("…, who died in …") takes the last bare name as head, a coordinated verb the subject again.
        tags, size = self.tags, len(self.tags)
        subject, relation_start, last_name, relation = head, verb, "", ""
        while relation_start and tags[relation_start - 1] == ADV:
            relation_start -= 1
        previous = len(self.triplets)
        i = verb + 1
        while i < size and not self.done:
            tag = tags[i]
            if tag in _ENTITY or (tag == NUM and self._is_value(i)):
                tail, end = self._tail(i)
                relation = self._relation(relation_start, i, role) or relation
                if self._word(i - 1) != "than":
                    self._add(head, relation, tail)
                is_bare_name = tag == ENT and end == i + 1 and tags[i - 1] != DET
                last_name = tail if is_bare_name else ""
                relation_start = i = end
                continue
            if tag == WH and last_name and i + 1 < size and tags[i + 1] in _FINITE:
                head, role, relation_start = last_name, "", i + 1
            elif tag == CONJ and i + 1 < size and tags[i + 1] in (VERB, BE, AUX, ADV):
                head, role, relation_start = subject, "", i + 1
            elif tag in (STOP, SUB):
                break
            i += 1
        if len(self.triplets) == previous:
            self._common_object(subject, role, verb)

    def _is_value(self, i: int) -> bool:
        """Return whether a number is a value, not the count of what follows ("80 minutes") or a score ("3–2")."""
        word = self._word(i)
        if not word[-1].isdigit() or ("–" in word and len(word) < 6):
            return False
        # From four characters on, a number before a noun is taken for a year ("in 1975 voters chose"), unless an article
        # makes it a modifier ("the 1975 final").
        counts = i + 1 < len(self.tags) and self.tags[i + 1] in (NOUN, ENT)
        return not counts or (len(word) >= 4 and self.tags[i - 1] != DET)

    def _tail(self, i: int) -> tuple[str, int]:
        """Return the name with its common nouns, and its end."""
        tags, end = self.tags, i + 1
        if tags[i] != ENT or self._is_possessive(i):
            return self._name(i), end
        while end < len(tags) and tags[end] == NOUN:
            end += 1
        return self._text(i, end), end

    def _relation(self, start: int, end: int, role: str) -> str:
        """Return the words from verb to object, without articles, numbers and auxiliaries before another word."""
        if role:
            return role
        tags = self.tags
        if end == start + 1 and tags[start] not in _DROPPED:
            return self._text(start, end)
        parts = [i for i in range(start, end) if tags[i] not in _DROPPED]
        while len(parts) > 1 and tags[parts[0]] in (BE, AUX):
            del parts[0]
        words = [self._text(i, i + 1) for i in parts]
        return " ".join([word for word in words if word != "also"])

    def _common_object(self, head: str, role: str, verb: int) -> None:
        """Without a name after the verb, add the first common noun phrase; after "is" only one with an article."""
        tags, size = self.tags, len(self.tags)
        i = verb + 1
        while i < size and tags[i] in (AUX, BE, ADV, VERB, PREP):
            i += 1
        if i >= size or (tags[verb] == BE and i == verb + 1 and tags[i] != DET and not role):
            return
        start = i
        while start < size and tags[start] in (DET, NUM):
            start += 1
        end = start
        while end < size:
            is_of_phrase = end > start and self._word(end) == "of" and end + 1 < size and tags[end + 1] == NOUN
            if tags[end] not in (NOUN, GERUND, VERB) and not is_of_phrase:
                break
            end += 1
        if end > start:
            self._add(head, self._relation(verb, i, role), self._text(start, end))

    def _appositions(self, head: str, start: int, verb: int) -> None:
        """ "X, the director of Y, …" adds (X, director of, Y)."""
        tags = self.tags
        relation_start = start
        for i in range(start, verb):
            if tags[i] == COMMA:
                relation_start = i + 1
            elif tags[i] in _ENTITY and not self.done and i > relation_start and tags[relation_start] != ENT:
                name = self._name(i)
                if name != head:
                    self._add(head, self._relation(relation_start, i, ""), name)
                relation_start = i + 1

    # Texts of chunks

    def _word(self, i: int) -> str:
        """Return the first word of a chunk."""
        return self.words[self.chunks[i][1]]

    def _is_possessive(self, i: int) -> bool:
        return self.words[self.chunks[i][2] - 1][-2:] in ("'s", "’s", "s'", "s’")

    def _name(self, i: int) -> str:
        """Return a name without its possessive ending."""
        text = self._text(i, i + 1)
        if text.endswith(("'s", "’s")):
            return text[:-2]
        return text[:-1] if text.endswith(("'", "’")) else text

    def _text(self, start: int, end: int) -> str:
        """Return the words of chunks [start, end) with single spaces, none before a comma."""
        first, last = self.chunks[start][1], self.chunks[end - 1][2]
        if last == first + 1:
            return self.words[first]
        text = " ".join(self.words[first:last])
        return text.replace(" ,", ",") if "," in text else text
