"""Names in claims and what they are names of: without a model, from capitals, the words around them and short lists.

A capital at the beginning of a sentence says nothing: such a word counts only when the source writes it with a capital
inside a sentence, and never without. A name whose kind cannot be told is never swapped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from factgym.generators.probes.lexicon import (
    CALENDAR,
    CITIES,
    COUNTRIES,
    DEMONYMS,
    FEMALE,
    FEMALE_WORDS,
    FUNCTION_WORDS,
    MALE,
    MALE_WORDS,
    STATES,
)
from factgym.generators.synthetic.words import listed

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w’'.&-]*(?<![.,'’-])"
_RUN = re.compile(
    rf"(?<![\w'’-])(?:[A-Z]\.(?: ?[A-Z]\.)* )?{_CAPITAL}"
    rf"(?: (?:(?:of|the|de|la|von|van|der|del|da|di|al|bin) ){{0,2}}(?:{_CAPITAL}|[A-Z]\.(?= [A-Z])))*"
)
_OPENERS = "\"“'‘(["
_PERSON_BEFORE = re.compile(
    r"\b(?:by|starring|stars?|starred|actor|actress|singer|director|author|writer|player|composer|politician|president"
    r"|poet|rapper|comedian|drummer|guitarist|novelist|Mr\.|Dr\.|Sir|with|married|wife|husband|son|daughter|brother"
    r"|sister|brothers|featuring|played|cast) $"
)
_PERSON_AFTER = re.compile(
    r"(?:'s|’s)? (?:was born|is an? (?:\w+ ){0,3}(?:actor|actress|singer|director|author|writer|player|politician|man"
    r"|woman|person|rapper|comedian|musician|composer|poet|model|footballer|wrestler|producer|artist)|died|married"
    r"|starred|stars|acted|wrote|sang|directed|played|plays|won|appeared|was married|was killed|graduated|worked)\b"
    r"| \((?:born|\d{1,2} \w+ \d{4}|\w+ \d{1,2}, \d{4})"
)
_ORG_LAST = frozenset(
    listed(
        "University College School Company Corporation Corp Inc League Club Records Group Studios Association Party Band"
        " Institute Bank Society Foundation Agency Network Orchestra Museum Church Council Committee Press"
    )
)
_THING_WORDS = frozenset(
    listed(
        "Awards Award Prize War Act Festival Championship Cup Games Olympics River Lake Mountain Island Islands Street"
        " Road Bridge Tower Castle Palace Park Airport Station County Tour Album Show Book Theorem Bible Revolution Day Era"
        " Sea Ocean Bay Army Navy Cemetery Library Theatre Theater Hospital Building Center Centre House Hall Valley"
    )
)
_KIND_OF = (
    dict.fromkeys(COUNTRIES, "country")
    | dict.fromkeys(STATES, "state")
    | dict.fromkeys(CITIES, "city")
    | dict.fromkeys(DEMONYMS, "demonym")
)
_TITLED = re.compile(r"^(?:Sir|Dr|Mr|Mrs|Ms|Lord|Lady|King|Queen|Prince|Princess|Saint|St|Pope|President|General)\b")


@dataclass(frozen=True, slots=True)
class Name:
    """A name at `start`..`end` of its text."""

    start: int
    end: int
    text: str

    @property
    def span(self) -> tuple[int, int]:
        """Start and end."""
        return self.start, self.end


def find_names(text: str, source: str = "") -> list[Name]:
    """The names in `text`, in order. source: other text that shows how a word is written inside a sentence."""
    found = []
    for match in _RUN.finditer(text):
        start, end = match.span()
        if _opens_sentence(text, start):
            start = _skip_opening_word(match[0], start, source)
        run = _trimmed(text[start:end]) if start < end else ""
        if run and run not in CALENDAR and run.lower() not in FUNCTION_WORDS and len(run) > 1:
            found.append(Name(start, start + len(run), run))
    return found


def _trimmed(run: str) -> str:
    words = run.split(" ")
    while words and (words[-1] in CALENDAR or words[-1].islower()):
        words.pop()
    run = " ".join(words)
    return run[:-2] if run.endswith(("'s", "’s")) else run


def _opens_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip(" " + _OPENERS)
    return not before or before[-1] in ".?!:\n"


def _skip_opening_word(run: str, start: int, source: str) -> int:
    """Where the name begins in a run of capitals that opens a sentence; the run's end when there is none."""
    word, _, rest = run.partition(" ")
    ordinary = word.lower() in FUNCTION_WORDS or word in CALENDAR
    if rest and rest[:1].isupper() and not ordinary and not _written_small(word, source):
        return start
    if not ordinary and not rest and (word.rstrip("s") in _KIND_OF or _written_large(word, source)):
        return start
    if not ordinary and rest and (word in _KIND_OF or _written_large(word, source)):
        return start
    words = run.split(" ")
    at = 1
    while at < len(words) and words[at].islower():
        at += 1
    return start + len(run) if at >= len(words) else start + len(" ".join(words[:at])) + 1


def _written_small(word: str, source: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word.lower())}(?![\w-])", source) is not None


def _written_large(word: str, source: str) -> bool:
    """Whether the source writes the word with a capital where no sentence begins, and nowhere small."""
    inside = re.search(rf"[\w,;)] {re.escape(word)}(?![\w-])", source)
    return inside is not None and not _written_small(word, source)


@lru_cache(maxsize=65_536)
def gender_of(name: str) -> str:
    """ "m", "f" or "" by the first name."""
    first = name.split(" ")[0]
    return "m" if first in MALE and first not in FEMALE else "f" if first in FEMALE and first not in MALE else ""


def gender_in(text: str) -> str:
    """ "m", "f" or "" by the gendered words of a text; "x" where there are both."""
    words = set(re.findall(r"[a-z']+", text.lower()))
    male, female = bool(words & MALE_WORDS), bool(words & FEMALE_WORDS)
    return "x" if male and female else "m" if male else "f" if female else ""


class Kinds:
    """What names are names of, as the texts of a data set show: "person", "org", a gazetteer's kind, or ""."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """texts: pairs of a claim and its source."""
        votes: dict[str, Counter[str]] = {}
        for claim, source in texts:
            for name in find_names(claim, source):
                kind = _kind_here(claim, name)
                if kind:
                    votes.setdefault(name.text, Counter())[kind] += 1
        self._votes: Mapping[str, Counter[str]] = votes

    def is_seen(self, name: str, kind: str) -> bool:
        """Whether a text of the data set uses the name as one of this kind."""
        return bool(gender_of(name)) and self._votes.get(name, Counter())[kind] > 0

    def of(self, name: str, text: str = "", span: tuple[int, int] | None = None) -> str:
        """The kind of a name, by itself, by where it stands in `text`, and by the data set."""
        fixed = kind_alone(name)
        if fixed:
            return fixed
        votes = Counter(self._votes.get(name, ()))
        if span is not None:
            here = _kind_here(text, Name(*span, name))
            votes += Counter({here: 1}) if here else Counter()
        ranked = votes.most_common(2)
        if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
            return ""
        return _fits_shape(name, ranked[0][0])


@lru_cache(maxsize=65_536)
def kind_alone(name: str) -> str:
    """The kind that the name itself shows, or ""."""
    if name in _KIND_OF:
        return _KIND_OF[name]
    words = name.split(" ")
    if words[-1].rstrip(".") in _ORG_LAST and len(words) > 1:
        return f"org {words[-1]}"
    if len(words) in (2, 3) and gender_of(name) and _is_person_shape(words):
        return "person"
    return ""


def _is_person_shape(words: list[str]) -> bool:
    plain = all(re.fullmatch(r"[^\W\d_][\w’'.-]*", word) and word[0].isupper() for word in words)
    plain = plain and not any(word.lower() in FUNCTION_WORDS for word in words)
    other = any(word in _THING_WORDS or word in _ORG_LAST or word in _KIND_OF or word.isupper() for word in words[1:])
    return plain and not other and not any("'s" in word or "’s" in word for word in words)


def _kind_here(text: str, name: Name) -> str:
    before, after = text[max(0, name.start - 40) : name.start], text[name.end : name.end + 60]
    words = name.text.split(" ")
    if _PERSON_BEFORE.search(before) or _PERSON_AFTER.match(after):
        return "person" if len(words) in (2, 3) and _is_person_shape(words) else ""
    return ""


def _fits_shape(name: str, kind: str) -> str:
    words = name.split(" ")
    if kind == "person":
        return kind if len(words) in (2, 3) and _is_person_shape(words) and not _TITLED.match(name) else ""
    return kind if not words[-1].isupper() and words[-1] not in _THING_WORDS else ""
