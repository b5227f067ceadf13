"""Tokens with character offsets and a normal form: the units that the rule-based verifiers compare.

English only, without data files, linear in the length of the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from factgym.corpora.text import STOP_WORDS

MAX_TOKENS = 400
"""Limit on the tokens of one statement or sentence; further ones are ignored."""


def word_list(text: str) -> tuple[str, ...]:
    """Split a list that is written as one string."""
    return tuple(text.split())


_WORD = re.compile(r"[$€£]?\d++(?:[.,:]\d++)*+%?|[^\W\d_]++(?:['’][^\W\d_]++)*+")
_UNITS = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_SMALL_NUMBERS = {word: value for value, word in enumerate(_UNITS)}
_TENS = {
    word: value * 10
    for value, word in enumerate(word_list("twenty thirty forty fifty sixty seventy eighty ninety"), 2)
}
_FUNCTION_WORDS = frozenset(
    word_list(
        "must shall may can could should would might need needs ought cannot not no nor never neither any all every each some"
        " such other only also than within more less least most up per even case cases circumstance circumstances fact"
        " after before until upon under over between about out during through against without above below into onto off"
    )
)
"""Words of modality, polarity, quantity or relation; `semantics` compares these."""
_SUFFIXES = (
    "ations", "ation", "ating", "ated", "ates", "ate", "ments", "ment", "ings", "ing", "ied", "ies", "ers", "er", "ed", "es",
    "ly", "s",
)  # fmt: skip
_MIN_STEM = 4

_SYNONYMS = tuple(
    """
approve approval authorise authorize authorisation authorization consent permission
submit lodge file send deliver hand
destroy erase delete dispose disposal destruction deletion erasure shred
retain keep hold preserve store retention storage archive archival
notify inform advise notification notice alert
disclose disclosure share reveal divulge communicate convey
begin start commence commencement
terminate termination expire expiry expiration cease end
buy purchase procure
pay payment reimburse reimbursement
check inspect inspection examine examination review verify verification
repair fix
replace replacement exchange
staff employee personnel worker
vendor supplier
customer client
vehicle car
laptop computer notebook
fine penalty
allow permit entitle
forbid prohibit ban bar
oral orally verbal verbally spoken
copy copies duplicate reproduce reproduction
survive survival continue remain
solicit entice induce recruit hire
law legal legally regulation statute judicial court subpoena
license licence right title
negotiate negotiation discussion
similar same comparable
mark label stamp designate identify identification legend
purpose aim
damage harm
breach violate violation infringe infringement
complaint grievance
update revise revision amend amendment
complete completion finalise finalize
acquire acquisition obtain receive
""".strip().splitlines()
)
"""Near-synonyms of the language of policies and contracts, one group a line, the first word names the group.

Only words that can replace each other without changing who owes what to whom. Words whose difference a claim can be
wrong about (employee and contractor, return and destroy) are in different groups or in none.
"""


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
_GROUP_OF = {stem(word): stem(group.split()[0]) for group in reversed(_SYNONYMS) for word in reversed(group.split())}


@lru_cache(maxsize=8192)
def content_keys(text: str) -> tuple[str, ...]:
    """Return the keys of the content words of a text, each once, in order."""
    return tuple(dict.fromkeys(token.key for token in tokenize(text) if token.is_content))


class SentenceFrequency:
    """Weights of keys by smoothed inverse sentence frequency, in (0, ∞): log(1 + (N + 1) / (n + 0.5)).

    sentences: the keys of each sentence, without repeats.
    """

    def __init__(self, sentences: Iterable[Iterable[str]]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for keys in sentences:
            counts.update(keys)
            total += 1
        self._counts: Mapping[str, int] = counts
        self._total = total

    def weight(self, key: str) -> float:
        """Return the weight of one key."""
        return math.log(1.0 + (self._total + 1.0) / (self._counts.get(key, 0) + 0.5))

    def total(self, keys: Iterable[str]) -> float:
        """Return the summed weight of keys."""
        return math.fsum(self.weight(key) for key in keys)
