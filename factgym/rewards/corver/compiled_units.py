"""Units and the main verb of a sentence, compiled: each function is the twin of its name in `units` or `rule_extractor`.

Imported by `compiled_rules` alone. Words are the columns of an array whose rows are named below; the units' kinds and
first words stand in two more arrays, with one first word more than there are units.
"""

from __future__ import annotations

from typing import Any

from factgym.rewards.corver.compiled_words import (
    AS,
    DIGITS,
    FOR,
    GENITIVE,
    IN_LY,
    IS_COMMA,
    JOINER,
    MONTH,
    OF,
    PLACE,
    PRESENT,
    ROLE,
    inner,
)
from factgym.rewards.corver.lexicon import (
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
    PREP,
    STOP,
    SUB,
    VERB,
    WH,
)

BEGIN, END, KIND, BITS, KNOWN = range(5)
"""Of a word: its place in the text, its kind, bits, and the kind of the word in lower case."""


@inner
def size_of(words: Any, i: int) -> Any:
    """Characters of a word."""
    return words[END, i] - words[BEGIN, i]


@inner
def _is_short_number(words: Any, i: int, low: int, high: int) -> Any:
    return words[BITS, i] & DIGITS != 0 and low <= size_of(words, i) <= high


@inner
def _reconsider_first(words: Any, n: int) -> None:
    if words[KIND, 0] == ENT:
        known = words[KNOWN, 0]
        if known and known != NOUN and known != VERB and known != GERUND:
            words[KIND, 0] = known
        elif words[BITS, 0] & IN_LY and n > 1 and words[BITS, 1] & IS_COMMA:
            words[KIND, 0] = ADV


@inner
def _name_end(words: Any, n: int, i: int) -> int:
    i += 1
    while i < n:
        kind, bits = words[KIND, i], words[BITS, i]
        if kind == ENT:
            if bits & MONTH and i + 1 < n and words[KIND, i + 1] == NUM:
                break
            i += 1
            continue
        if kind == NUM:
            if _is_short_number(words, i, 1, 3):
                i += 1
            break
        if not bits & JOINER or words[BITS, i - 1] & GENITIVE:
            break
        after = i + 1
        if after < n and words[BITS, after] & JOINER:
            after += 1
        if after >= n or words[KIND, after] != ENT:
            break
        i = after + 1
    return i


@inner
def _date_end(words: Any, n: int, i: int) -> int:
    i += 1
    if i < n and words[KIND, i] == NUM:
        i += 1
        if i + 1 < n and words[BITS, i] & IS_COMMA and words[KIND, i + 1] == NUM and size_of(words, i + 1) == 4:
            i += 2
    return i


@inner
def _unit(words: Any, n: int, i: int) -> tuple[int, int]:
    """The kind of the unit that begins at word `i`, and where it ends."""
    kind = words[KIND, i]
    if kind == ENT:
        if words[BITS, i] & MONTH:
            return DATE, _date_end(words, n, i)
        if i + 1 < n and words[BITS, i + 1] & (OF | FOR) and words[BITS, i] & ROLE:
            return NOUN, i + 1
        return ENT, _name_end(words, n, i)
    if kind == NUM and i + 1 < n and words[KIND, i + 1] == ENT:
        if words[BITS, i + 1] & MONTH:
            return DATE, _date_end(words, n, i + 1)
        if _is_short_number(words, i, 4, 4):
            return ENT, _name_end(words, n, i + 1)
    if kind == VERB and i:
        before = words[KIND, i - 1]
        if before == DET or (before == PREP and not words[BITS, i - 1] & AS):
            return NOUN, i + 1
    return kind, i + 1


@inner
def join(words: Any, n: int, kinds: Any, starts: Any) -> int:
    """Kinds and first words of the units; how many."""
    _reconsider_first(words, n)
    i = count = 0
    commas = False
    while i < n:
        starts[count] = i
        commas = commas or words[BITS, i] & IS_COMMA != 0
        kinds[count], i = _unit(words, n, i)
        count += 1
    starts[count] = n
    return _join_places(words, kinds, starts, count) if commas else count


@inner
def _kind_at(kinds: Any, count: int, i: int) -> int:
    return kinds[i] if i < count else STOP


@inner
def _goes_on(kinds: Any, count: int, first: int, i: int) -> bool:
    after, then = _kind_at(kinds, count, i + 1), _kind_at(kinds, count, i + 2)
    if after in (VERB, BE, AUX, ADV):
        return first == PREP
    return after == CONJ or (after == COMMA and then == CONJ)


@inner
def _join_places(words: Any, kinds: Any, starts: Any, count: int) -> int:
    kept, first = 0, kinds[0]
    for i in range(count):
        kind, start = kinds[i], starts[i]
        if (
            kind == ENT
            and kept >= 3
            and kinds[kept - 1] == COMMA
            and kinds[kept - 2] == ENT
            and kinds[kept - 3] == PREP
            and words[BITS, starts[kept - 3]] & PLACE
            and not _goes_on(kinds, count, first, i)
        ):
            kept -= 1
        else:
            kinds[kept], starts[kept] = kind, start
            kept += 1
    starts[kept] = starts[count]
    return kept


@inner
def next_of(kinds: Any, count: int, kind: int, i: int) -> int:
    """The next unit of a kind, or -1."""
    while i < count:
        if kinds[i] == kind:
            return i
        i += 1
    return -1


@inner
def is_finite(kind: int) -> bool:
    """Whether it is a verb that has a subject."""
    return kind in (VERB, BE, AUX)


@inner
def _verb_in(kinds: Any, start: int, end: int) -> int:
    for i in range(start, end):
        kind = kinds[i]
        if not is_finite(kind):
            continue
        if i == start or kind != VERB:
            return i
        before = kinds[i - 1]
        if before != DET and before != PREP and before != NUM and before != CONJ:
            return i
    return -1


@inner
def skip_introduction(kinds: Any, count: int) -> int:
    """Past "However,", "In 1975," and the like."""
    i = 0
    while i < count and (kinds[i] == ADV or kinds[i] == CONJ or kinds[i] == COMMA or kinds[i] == SUB):
        i += 1
    if i < count and kinds[i] == PREP:
        comma = next_of(kinds, count, COMMA, i)
        if comma >= 0 and comma + 1 < count and _verb_in(kinds, comma + 1, count) >= 0:
            return comma + 1
    return i


@inner
def main_verb(kinds: Any, count: int, start: int) -> int:
    """The verb of the main clause, or -1."""
    fallback, begin = -1, start
    while begin < count:
        end = next_of(kinds, count, COMMA, begin)
        end = count if end < 0 else end
        verb = _verb_in(kinds, begin, end)
        if verb >= 0 and verb == start:
            verb = _verb_in(kinds, verb + 1, end)
        if verb >= 0:
            kind = kinds[begin]
            if begin == start or (verb == begin and kinds[verb] != VERB):
                return verb
            if verb == begin or kind in (DET, WH, PREP, ADV):
                fallback = verb if fallback < 0 else fallback
                if verb == begin and _verb_after_commas(kinds, count, end) < 0:
                    return verb
            else:
                return verb if fallback < 0 else fallback
        begin = end + 1
    return fallback


@inner
def _verb_after_commas(kinds: Any, count: int, comma: int) -> int:
    while comma >= 0 and comma + 1 < count:
        if is_finite(kinds[comma + 1]):
            return comma + 1
        comma = next_of(kinds, count, COMMA, comma + 1)
    return -1


@inner
def present_verb(words: Any, kinds: Any, starts: Any, count: int, start: int) -> int:
    """Where no word is known as a verb: one in "s" right after a name or noun, or -1."""
    for i in range(start + 1, count):
        before = kinds[i - 1]
        if kinds[i] == NOUN and (before in (ENT, NOUN)) and words[BITS, starts[i]] & PRESENT:
            kinds[i] = VERB
            return i
    return -1


@inner
def subject_end(kinds: Any, count: int, start: int, verb: int) -> int:
    """The subject is what stands before the first comma, or before the verb."""
    comma, wh = next_of(kinds, count, COMMA, start), next_of(kinds, count, WH, start)
    end = verb if comma < 0 or comma > verb else comma
    return wh if wh >= 0 and start < wh < end else end
