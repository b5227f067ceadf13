"""Words of an English sentence for `proof`: lemmas, synonyms and opposites, names, values with their units, and clauses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import Any
from unicodedata import is_normalized, normalize

from factgym.baselines.evidence import stem
from factgym.text.folding import INVISIBLE, fold_with_offsets
from factgym.text.languages import number_key
from factgym.text.numbers import MONTH, MONTH_NAMES, MONTHS, ONES, ORDINALS, TENS, parse_number
from factgym.text.wordnet import bases, synonyms

TABLES: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("proof.toml").read_text("utf-8"))


def word_set(name: str, table: Mapping[str, Any] = TABLES) -> frozenset[str]:
    """Return a list of words of `proof.toml`."""
    return frozenset(table[name].split())


FUNCTION, PREPOSITIONS, AUXILIARIES = word_set("function"), word_set("preposition"), word_set("auxiliary")
COPULAS, DETERMINERS, PRONOUNS = word_set("copula"), word_set("determiner"), word_set("pronoun")
DEONTIC = word_set("deontic")
NEGATIONS, LIGHT = word_set("negation"), word_set("light")
SUBORDINATE, RELATIVE = word_set("subordinate"), word_set("relative")
PREPOSITION_CLASS = {word: name for name, words in TABLES["prepositions"].items() for word in words.split()}
UNITS = {
    unit: (dimension, float(factor))
    for dimension, entries in TABLES["units"].items()
    for unit, _, factor in (entry.partition(":") for entry in entries.split())
}
OPPOSITES: dict[str, set[str]] = {}
for _pair in TABLES["opposites"]["pairs"].split():
    _first, _second = _pair.split(":")
    OPPOSITES.setdefault(_first, set()).add(_second)
    OPPOSITES.setdefault(_second, set()).add(_first)

_GROUPS: dict[str, set[str]] = {}
for _group in TABLES["synonyms"]["groups"].strip().splitlines():
    for _word in _group.split():
        _GROUPS.setdefault(_word, set()).update(_group.split())

_FULL_NAMES = {
    short: tuple(names.split("/")) for short, names in re.findall(r"(\S+):(\S+)", TABLES["synonyms"]["short_names"])
}
DEMONYMS = {name: (country,) for country, name in re.findall(r"(\S+):(\S+)", TABLES["synonyms"]["demonyms"].lower())}

_MONTH = {name[:n]: number for number, name in enumerate(MONTHS, 1) for n in (3, len(name))} | {"sept": 9}
_RANKS = {word: rank for rank, word in enumerate(ORDINALS[:10], 1)}
_SMALL = rf"(?:(?:{'|'.join(TENS)})(?:[- ](?:{'|'.join(ONES[1:10])}))?|{'|'.join(reversed(ONES))})"
_NUMBER_WORDS = rf"(?:{_SMALL}|a)(?:[- ](?:hundred|thousand|million|billion)(?: and)?(?:[- ]{_SMALL})?)+|{_SMALL}(?: and a half)?|(?:a|half a) (?:dozen|hundred|thousand|million|billion)"
_FIGURES = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d{1,15}(?:[.,]\d{1,15})*)"
_HOURS = rf"\d{{1,2}}|{'|'.join(ONES[1:13])}"
_TOKEN = re.compile(
    rf"(?=[^\W_]|[$€£] ?\d)(?:(?P<date>\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {MONTH}(?: ?,? \d{{4}})?|{MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?!:)(?: ?,? \d{{4}}\b)?|{MONTH} (?:of )?\d{{4}}\b"
    rf"|(?-i:\b(?:{'|'.join(MONTH_NAMES[:4] + MONTH_NAMES[5:])})\b|(?<=[a-z,] )May\b))"
    r"|(?P<duration>\d{1,3}:\d\d:\d\d\b)"
    r"|(?P<time>\d{1,2}(?:[:.]\d\d)? ?[ap]\.?m\b\.?|\d{1,2}:\d\d(?: ?hrs?| hours)?\b|\bnoon\b|\bmidnight\b"
    rf"|\b(?:(?P<part>half past|(?:a )?quarter (?:past|to)) )(?P<hour>{_HOURS})\b|\b(?P<sharp>{_HOURS}) o['’]clock\b)"
    r"|(?P<single>(?<=\bfor )an?(?= (?:year|month|week|day|hour|minute)\b)|(?<=\bwithin )an?(?= (?:year|month|week|day|hour|minute)\b))"
    rf"|(?P<decade>\b(?:1\d|20)\d0['’]?s\b|(?<=\bthe )(?:{'|'.join(f'{name[:-1]}ies' for name in TENS)})\b)"
    r"|(?P<ordinal>\d+(?:st|nd|rd|th)\b)"
    rf"|(?P<quantity>(?P<sign>[$€£]) ?(?P<amount>{_FIGURES})(?: ?(?P<scale>million|billion|trillion|thousand|bn|mn|[mk])\b)?"
    rf"|(?P<figures>(?<![\w.]){_FIGURES})(?:[ -]?(?P<scale2>million|billion|trillion|thousand|hundred|dozen|bn|mn)\b)?(?: ?(?P<percent>%|per ?cent\b|percent\b)| ?(?P<behind>[$€£])(?! ?\d))?"
    rf"|(?P<words>\b(?:{_NUMBER_WORDS})\b)(?: ?(?P<percent2>%|per ?cent\b|percent\b))?)"
    r"|(?P<word>(?:it|he|she|that|there|here|what|who|where|how|let)(?=['’]s\b)"
    r"|(?:(?:co|re|non|ex|pre|post|anti|semi|self|un)-)?[^\W\d_]+(?:['’](?!(?:ll|re|ve|d|m)\b)[^\W\d_]+)*|[^\W_]+))",
    re.I,
)
_DECADES = [f"{name[:-1]}ies" for name in TENS]
_COMPOUND, _JOINED = ("time", "months", "length", "mass"), re.compile(r",? (?:and )?|")
"""Dimensions of amounts in several units, "5 ft 11 in", and what may be between these."""
_SHORT = {"ll": "will", "re": "are", "ve": "have", "d": "would", "m": "am", "s": "is"}
"""What an apostrophe shortens: "we'll"."""
COMPARED = frozenset({"more", "less", "fewer"})
_PREFIXED = re.compile(r"^(?:co|re|pre|over|under|out|mis)-")
_STOP = re.compile(r"[.!?:;]\s*$")
_MAX_WORDS = 400
OF_BOUNDS = frozenset({"than", "over", "above", "under", "below", "within", "about", "around"})
_OR_MORE = re.compile(
    "(?P<least>more|newer|(?:lat|old|high|long|larg)er|above|over|up)|less|fewer|(?:earli|young|low)er|below|under"
)
_SCALE = {"hundred": 100, "dozen": 12, "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9}
_SCALE |= {"billion": 1e9, "trillion": 1e12}
_BOUND = re.compile(
    r"(?:(?P<more>(?:more|greater|higher|longer|larger|older|later) than|over|above|exceed(?:s|ing|ed)?)|(?P<least>at least|(?:a )?minimum(?: of)?|no (?:less|fewer|earlier) than|not (?:less|fewer) than)"
    r"|(?P<fewer>(?:less|fewer|lower|shorter|smaller|younger|earlier) than|under|below)|(?P<most>at most|up to|no (?:more|later|longer|greater) than|not more than|(?:a )?maximum(?: of)?|within)"
    r"|(?P<about>about|around|approximately|roughly|nearly|almost|circa|some|an estimated))(?: the| a| an)? $",
    re.I,
)
_PLANNED = re.compile(r"\b(?:is|are|was|were) (?:(?:due|set|going|about|still|yet) )?to (\w+)", re.I)
_TENSES = {
    "future": {"will", "shall", "'ll"},
    "past": {"was", "were", "had", "did"},
    "present": {"is", "are", "has", "have", "does", "do", "am"},
}
_DENIES = re.compile(
    r"\b(?:yet to|fail(?:s|ed)? to|refus(?:e|es|ed) to|declin(?:e|es|ed) to|unable to|rather than|instead of|far from|"
    r"anything but)\b",
    re.I,
)
_DENIES_NOTHING = re.compile(
    r"\b(?:(?:at|for) no (?:extra |additional )?(?:cost|charge)|no (?:more|less|later|fewer|earlier|sooner|longer) than|"
    r"not (?:only|just|merely)|no doubt|(?<!little )(?<!few )or (?:no|none|not|never))\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, name or value at `text[start:end]`.

    kind: "word", "name", "function", or of a value "date", "time", "year", "decade", "rank", "amount". lemmas: base forms. value: of a
    value; of a time all minutes since midnight that it may mean, of an amount its dimension and size in the base unit. bound:
    "more", "least", "fewer", "most", "about" or "". role, in a clause: "subject", "object", "verb", "possessive" or a class
    of prepositions. preposition: the one that governs it.
    """

    start: int
    end: int
    lower: str
    kind: str
    lemmas: frozenset[str] = frozenset()
    value: tuple[Any, ...] = ()
    bound: str = ""
    role: str = ""
    preposition: str = ""

    @property
    def is_fact(self) -> bool:
        """Whether a proof needs the word: neither a function word nor one that says little more than "is"."""
        return self.kind != "function"


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause.

    words: its facts. inherited: those of the subject that it shares with the clause before. function: its function words.
    tokens: all of them, in order. narrowed: facts of a relative clause that says of which of its subjects it speaks.
    predicate: what its subject is, by the clause before. relative: whether it is about a word of the clause before. apart: whether a full stop or semicolon is
    before it. is_fronted: whether it is "Born in Rome," before its subject.
    """

    words: tuple[Word, ...]
    inherited: tuple[Word, ...] = ()
    function: frozenset[str] = frozenset()
    negations: int = 0
    is_passive: bool = False
    is_copular: bool = False
    tense: str = ""
    tokens: tuple[Word, ...] = ()
    narrowed: tuple[Word, ...] = ()
    predicate: tuple[Word, ...] = ()
    relative: bool = False
    apart: bool = False
    is_aside: bool = False
    is_fronted: bool = False

    @property
    def opener(self) -> str:
        """The first word, such as "if"."""
        return self.tokens[0].lower if self.tokens else ""

    @property
    def all_words(self) -> frozenset[str]:
        """The words of the clause and of its shared subject, in lower case."""
        return self.function | {word.lower for word in (*self.words, *self.inherited) if word.kind != "date"}


def with_aliases(clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """Let what a clause calls its subject be the subject of the others: "Ann Lee, known as Annie, was born in Rome"."""
    for alias in clauses:
        lowers = [word.lower for word in alias.tokens]
        verb = next((word.end for word in alias.tokens if word.lower in ("known", "called", "nicknamed")), -1)
        prepositions = ("as",) if "known" in lowers else ("",)
        names = [w for w in alias.words if w.kind == "name" and w.start > verb >= 0 and w.preposition in prepositions]
        if names and alias.relative and not alias.negations and any(word.kind == "name" for word in alias.inherited):
            starts = {word.start for word in alias.inherited}
            called = [[w.role for w in (*clause.inherited, *clause.words) if w.start in starts] for clause in clauses]
            clauses = [
                replace(clause, predicate=clause.predicate + tuple(replace(w, role=roles[0]) for w in names))
                if roles
                else clause
                for clause, roles in zip(clauses, called, strict=True)
            ]
    return tuple(clauses)


@lru_cache(maxsize=65_536)
def lemmas(lower: str) -> frozenset[str]:
    """Return a word's base forms as a noun and as a verb, its stem, and the word itself; degrees of adjectives stay apart."""
    plain = lower.replace("’", "'").removesuffix("'s").removesuffix("'")
    bare = re.sub("[\u0300-\u036f]", "", normalize("NFD", plain))
    forms = {plain, bare, *bases(plain, 0), *bases(plain, 1), *DEMONYMS.get(plain, ()), *_FULL_NAMES.get(plain, ())}
    if not re.search(r"(?:est|er)$", plain):
        forms.add(f"~{stem(plain)}")
    return frozenset(forms)


@lru_cache(maxsize=16_384)
def near(lower: str) -> frozenset[str]:
    """Return the lemmas of a word and of its synonyms, without words that exclude it."""
    own = lemmas(lower)
    names = {name for lemma in own if not lemma.startswith("~") for name in synonyms(lemma)}
    names |= {name for lemma in own for name in _GROUPS.get(lemma, ())}
    if any(lemma in UNITS for lemma in own):
        return own
    names -= {other for lemma in own for other in OPPOSITES.get(lemma, ())}
    return own | names


@lru_cache(maxsize=16_384)
def opposites(lower: str) -> frozenset[str]:
    """Return the words that exclude a word: of the table, and with a denying prefix more or less."""
    own = {lemma for lemma in lemmas(lower) if not lemma.startswith("~")}
    others = {other for lemma in own for other in OPPOSITES.get(lemma, ())}
    others |= {a + lemma for a in ("un", "non", "in", "im", "ir", "dis", "non-") for lemma in own if len(lemma) > 3}
    bare = {lemma.removeprefix(prefix) for prefix in ("un", "non-", "dis") for lemma in own if len(lemma) > 6} - own
    return frozenset(others | {word for word in bare if bases(word, 1) or synonyms(word)})


def is_verb_form(lower: str) -> bool:
    """Whether a word can be a finite verb or a participle."""
    return bool(bases(_PREFIXED.sub("", lower), 1)) or lower in AUXILIARIES


def count_negations(lowers: Sequence[str], span: str = "") -> int:
    """Return how often a clause denies. lowers: its words. span: its text, for expressions such as "failed to"."""
    negations = sum(lower in NEGATIONS or lower.endswith("n't") for lower in lowers)
    negations -= lowers.count("nor") if "neither" in lowers else 0
    return negations + len(_DENIES.findall(span)) - len(_DENIES_NOTHING.findall(span))


def tense_of(lowers: Sequence[str], verb: str, span: str) -> str:
    """Return "past", "present", "future" or "" for a clause of these words. verb: its first full verb. span: its text."""
    planned = _PLANNED.search(span)
    if planned and planned[1].lower() in ("be", *bases(planned[1].lower(), 1)):  # "is to be opened"
        return "future"
    for tense, words in _TENSES.items():
        if not words.isdisjoint(lowers):
            return tense
    if verb.endswith("ed") or (verb and verb not in bases(verb, 1) and not verb.endswith(("s", "ing"))):
        return "past"
    return "present" if verb.endswith("s") else ""


# Words


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[Word, ...]:
    """Return the words of a sentence, values as one word each. Not more than 400."""
    if INVISIBLE.search(text) or not is_normalized("NFC", text):  # a word stays whole
        folded, offsets = fold_with_offsets(text)
        positions = [position for position, char in enumerate(folded) if not INVISIBLE.match(char)]
        starts = [*(offsets[position] for position in positions), offsets[-1]]
        seen = words_of("".join([folded[position] for position in positions]))
        return tuple(replace(word, start=starts[word.start], end=starts[word.end]) for word in seen)
    tokens = islice(_TOKEN.finditer(text), _MAX_WORDS)
    return tuple(_with_units(text, [_parsed(text, token, is_first=not n) for n, token in enumerate(tokens)]))


def _parsed(text: str, match: re.Match[str], *, is_first: bool) -> Word:
    lower = match[0].lower()
    if match["date"]:
        return _date(match)
    if match["time"]:
        return _time(match)
    if match["duration"]:
        hours, minutes, seconds = map(int, match[0].split(":"))
        amount = (3600 * hours + 60 * minutes + seconds) * UNITS["second"][1]
        return Word(match.start(), match.end(), lower, "amount", value=(UNITS["second"][0], amount))
    if match["decade"]:
        century, tens = (int(lower[:2]), int(lower[2])) if lower[0].isdigit() else (None, _DECADES.index(lower) + 2)
        return Word(match.start(), match.end(), lower, "decade", value=(century, tens))
    if match["ordinal"]:
        return Word(match.start(), match.end(), lower, "rank", value=(int(match["ordinal"][:-2]),))
    if match["single"]:
        return Word(match.start(), match.end(), lower, "amount", value=("", 1.0))
    if match["quantity"] is not None:
        return _quantity(text, match)
    return _plain(match, not is_first and _STOP.search(text[max(0, match.start() - 3) : match.start()]) is None)


def _date(match: re.Match[str]) -> Word:
    numbers = [int(n) for n in re.findall(r"\d+", match[0])]
    name = re.search(r"[A-Za-z]{3,}", re.sub(r"\b\d+(?:st|nd|rd|th)\b|\bof\b", "", match[0]))
    year = next((n for n in numbers if n > 31), None)
    day = next((n for n in numbers if n <= 31), None)
    value = tuple(numbers) if name is None else (year, _MONTH[name[0].lower()[:3]], day)
    return Word(match.start(), match.end(), match[0].lower(), "date", value=value)


def _time(match: re.Match[str]) -> Word:
    text = match[0].lower()
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    if hour_name := match["hour"] or match["sharp"]:  # in the morning or in the evening
        hour = int(hour_name) if hour_name.isdigit() else ONES.index(hour_name.lower())
        part = (match["part"] or "").lower()
        more = 30 if "half" in part else -15 if part.endswith("to") else 15 if part else 0
        minutes = (60 * hour + more) % 720
        return Word(match.start(), match.end(), text, "time", value=(minutes, minutes + 720))
    if not numbers:
        minutes = 720 if text == "noon" else 0
    else:
        hour = numbers[0] % 12 + 12 * ("p" in text) if re.search(r"[ap]\.?m", text) else numbers[0]
        minutes = 60 * hour + (numbers[1] if len(numbers) > 1 else 0)
    return Word(match.start(), match.end(), text, "time", value=(minutes,))


def _quantity(text: str, match: re.Match[str]) -> Word:
    lower = match[0].lower()
    bound = _BOUND.search(text[max(0, match.start() - 30) : match.start()])
    kind_of_bound = (bound and bound.lastgroup) or ""
    if lower in _RANKS:
        return Word(match.start(), match.end(), lower, "rank", value=(_RANKS[lower],))
    if match["words"]:
        amount = float(parse_number(re.sub("^a ", "one ", match["words"], flags=re.I)))
        dimension = "share" if match["percent2"] else ""
    else:
        figures = match["amount"] or match["figures"]
        amount = float(number_key(figures) if re.search(r"[,\s]|\..*\.", figures) else figures) * _SCALE.get(
            (match["scale"] or match["scale2"] or "").lower(), 1
        )
        dimension = {"$": "usd", "€": "eur", "£": "gbp"}.get(
            match["sign"] or match["behind"] or "", "share" if match["percent"] else ""
        )
        if match["figures"] and re.fullmatch(r"1[0-9]{3}|20[0-9]{2}", match[0]):
            return Word(match.start(), match.end(), lower, "year", value=(int(match[0]),), bound=kind_of_bound)
    return Word(match.start(), match.end(), lower, "amount", value=(dimension, amount), bound=kind_of_bound or "")


def _plain(match: re.Match[str], is_inside: bool) -> Word:
    lower = match[0].lower().replace("’", "'")
    if lower in _SHORT and match.string[match.start() - 1 : match.start()] in ("'", "’"):
        return Word(match.start(), match.end(), _SHORT[lower], "function")
    if lower in _RANKS:
        return Word(match.start(), match.end(), lower, "rank", value=(_RANKS[lower],), lemmas=frozenset({lower}))
    is_letter = match[0].isupper() and is_inside and lower not in ("i", "not", "no", "or", "and")  # "hepatitis A"
    if not is_letter and (lower in FUNCTION or lower.endswith("n't")):
        return Word(match.start(), match.end(), lower, "function")
    is_capital = match[0][0].isupper()
    is_name = is_capital and (is_inside or not (bases(lower, 0) or bases(lower, 1) or synonyms(lower)))
    kind = "name" if is_name else "function" if lower in LIGHT else "word"
    return Word(match.start(), match.end(), lower, kind, lemmas(lower))


def _with_units(text: str, words: Sequence[Word]) -> list[Word]:
    """Merge amounts with the unit that follows them."""
    merged: list[Word] = []
    for word in words:
        if merged and (with_unit := _merged(text, merged[-1], word)) is not None:
            merged[-1] = with_unit
            before = -3 if len(merged) > 2 and merged[-2].lower == "and" else -2
            if len(merged) > 1 and (total := _summed(text, merged[before], with_unit)) is not None:
                merged[before:] = [total]
        else:
            merged.append(word)
    for index in range(len(merged) - 2):  # "more than 5", "3.10 or newer"
        first, between, last = merged[index : index + 3]
        if first.lower in COMPARED and between.lower == "than" and last.kind == "amount":
            merged[index] = replace(first, kind="function")
        if first.kind == "amount" and between.lower == "or" and (degree := _OR_MORE.fullmatch(last.lower)):
            merged[index] = replace(first, bound=degree.lastgroup or "most")
            merged[index + 2] = replace(last, kind="function")
    return merged


def _summed(text: str, first: Word, second: Word) -> Word | None:
    """Return two amounts as one where the second counts parts of the first's unit: "2 hours and 19 minutes"."""
    unit = re.split(r"[\d\s\xa0-]", first.lower)[-1]
    dimension, size = UNITS.get(unit) or UNITS.get(unit.removesuffix("s")) or ("", 0.0)
    if first.kind != "amount" or dimension not in _COMPOUND or second.value[0] != dimension or second.value[1] >= size:
        return None
    if not _JOINED.fullmatch(text[first.end : second.start]):
        return None
    value = (dimension, first.value[1] + second.value[1])
    return replace(first, end=second.end, value=value, lower=text[first.start : second.end].lower())


def _merged(text: str, amount: Word, word: Word) -> Word | None:
    """Return an amount with the unit that is the next word; None where that is no unit, or the amount has one."""
    unit = UNITS.get(word.lower) or UNITS.get(word.lower.removesuffix("s"))
    if unit is None or amount.kind not in ("amount", "year") or (amount.kind == "amount" and amount.value[0]):
        return None
    gap = text[amount.end : word.start]
    if gap not in ("", " ", "-", "\xa0") or (amount.kind, unit[0]) == ("year", "usd") or gap + word.lower == "s":
        return None  # "1990s"
    value = (unit[0], float(amount.value[-1]) * unit[1])
    lower = text[amount.start : word.end].lower()
    return replace(amount, end=word.end, kind="amount", value=value, lower=lower)
