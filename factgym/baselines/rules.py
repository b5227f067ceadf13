"""A rule as it is spread over a document: its sentence, the sentences that lean on it, and what its terms refer to.

This is the second hop in the reading itself: a line that speaks of "the Base Rate" or "Group B" is read together with
the line that says what these are, and with any line that sets the rule's section aside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from factgym.baselines.reading import Line, Reading, Statement
from factgym.baselines.thesaurus import word_list

_LEANS = re.compile(
    r"^(?:[QA]: |[-•] )?(?:this|that|these|those|they|such|here|it(?! (?:is|falls|shall be|remains) \w+ (?:to|for|that|who|which)\b| falls))\b"
    r"|\b(?:this|the|that) rule\b|\b(?:this|that|it) (?:does not|applies|holds|is|happens|takes|replaces)\b|\bno such\b|\bcannot rely on\b"
    r"|\b(?:is|are) (?:excluded|exempt)|\bdo so\b|\b(?:of|for|to|on) (?:this|that)\b|\bto whom\b"
    r"|^the (?:only |sole |one |main )?(?:condition|exception|reason|aim|purpose|point|idea|previous|earlier|former|old|way|position)\b"
    r"|^(?:an|one|no) exception|^there (?:is|are) no exceptions?|\b(?:superseded|previous version|earlier version|lapsed|withdrawn)\b"
    r"|^(?:until|before) [\w ,]{3,25}\d{4}, the\b|\bgives way\b|\bon one condition\b",
    re.I,
)
_TERM = re.compile(
    r"[\"“](?P<quoted>[^\"“”]{2,40})[\"”]|(?<![.?!:] )(?<!^)\b(?P<name>(?:[A-Z][\w-]*|\d+)(?: (?:[A-Z][\w-]*|\d+|of))* ?(?:[A-Z]\w*|\d+)?)"
)
_LEADING_TERM = re.compile(
    r"^(?:[QA]: |[-•] |\d+(?:\.\d+)* |\([a-z]\) )?(?:The |Each |All )?(?P<name>[A-Z][\w-]*(?: (?:[A-Z][\w-]*|\d+))+)"
)
_SECTION = re.compile(
    r"(?:§|\b(?:section|article|clause|chapter|part|rule|control|paragraph|schedule|annex|appendix|item|standard|policy|unit|by-?law)) ?"
    r"(?P<number>\d+(?:\.\d+)*|[A-Z])\b",
    re.I,
)
_NUMBER_IN_TITLE = re.compile(r"(?:^|[ ,§(-])(?P<number>\d+(?:\.\d+)*|[A-Z])[.:)]? ")
_CAPITALS = re.compile(r"[A-Z][\w-]*(?: (?:[A-Z][\w-]*|\d+))*")
_DEFINES = re.compile(
    r"\b(?:means?|meant|refers? to|references to|stands? for|covers?|defined|classed as|listed as|counts? as|amounts? to|makes? up|expression"
    r"|understood|known as|read as|to say that|denotes?|describes?|figure for|marked by|part of the [\w ]{3,30} is|is (?:met|reached|open|given|declared"
    r"|passed|the|an?|\d+|[$€£]\d+)|(?:is|are) [\w -]{3,60}\.$)",
    re.I,
)
_DEFINITION = re.compile(
    r"^[\"“]|^by [\"“]|\b(?:references to|expression|to say that|stands for|is meant|counts as|classed as|listed as|understood as|read as)\b",
    re.I,
)
_ONLY_DEFINES = 0.6
_MOST_FOLLOWERS = 3
_MOST_LINKED = 4
_MOST_MENTIONS = 2
_COMMONPLACE = 6
"""A name in more lines than this is a household word of the document, and no line in particular explains it."""
_HOPS = 2
_BESIDES = 0.1
_NEARLY = 0.7
_SECOND_WORDS, _SECOND_SHARE = 4, 0.75
_ITEM = re.compile(r"[a-z]|\(?[a-zA-Z]{1,4}[.)]|\d+(?:\.\d+)+")
_LEADS_IN = re.compile(r"(?:[:—-]|\b(?:that|shall|to))$")
_LONGEST_LIST = 7
_COMMON = frozenset(word_list("A I The This That If When No"))


@dataclass(frozen=True, slots=True)
class Rule:
    """main: the sentence nearest to the statement. followers: those after it that lean on it. linked: those
    elsewhere that define its terms or set its section aside."""

    main: Line
    followers: tuple[Line, ...] = ()
    linked: tuple[Line, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """All of it, the main sentence first."""
        return (self.main, *self.followers, *self.linked)

    @property
    def keys(self) -> frozenset[str]:
        """The content words of all of it."""
        return frozenset().union(*(line.keys for line in self.lines))


def nearest_rule(reading: Reading, statement: Statement) -> Rule | None:
    """The rule that shares most with the statement, its terms resolved; None when nothing was read."""
    return _nearest_clauses(reading, statement) if reading.dense else _nearest_sentence(reading, statement)


def _nearest_clauses(reading: Reading, statement: Statement) -> Rule | None:
    """In contracts, whose sentences are long and whose terms are everywhere: the line that says most of the statement,
    and another one that says nearly as much."""
    scores = [(reading.coverage(statement, [line]), -place) for place, line in enumerate(reading.lines)]
    ranked = sorted(scores, reverse=True)[:2]
    places = [-place for score, place in ranked if score >= _NEARLY * ranked[0][0]]
    places += [lead for place in places if (lead := _lead_in(reading.lines, place)) is not None]
    lines = [reading.lines[place] for place in dict.fromkeys(places)]
    return Rule(lines[0], linked=tuple(lines[1:])) if lines else None


def _lead_in(lines: Sequence[Line], place: int) -> int | None:
    """Where the line stands that an item of a list completes ("Each party shall:"), or None."""
    if not _ITEM.match(lines[place].text):
        return None
    for before in range(place - 1, max(-1, place - 1 - _LONGEST_LIST), -1):
        if _LEADS_IN.search(lines[before].text):
            return before
    return None


def _nearest_sentence(reading: Reading, statement: Statement) -> Rule | None:
    best: tuple[float, Rule] | None = None
    index = _mentions(reading.lines)
    for place, line in enumerate(reading.lines):
        if line.follows and _LEANS.search(line.text):
            continue
        followers = _followers(reading.lines, place)
        rule = Rule(line, followers, _linked((line, *followers), index))
        score = _likeness(reading, statement, rule)
        if best is None or score > best[0]:
            best = score, rule
    return _with_second(reading, statement, best[1]) if best else None


def _with_second(reading: Reading, statement: Statement, rule: Rule) -> Rule:
    """The rule and, for a statement that joins two, the other one: a line that says nearly all of what is missing."""
    missing = [key for key in statement.keys if key not in rule.keys]
    if len(missing) < _SECOND_WORDS:
        return rule
    weigh = reading.weights.sum
    best = max(reading.lines, key=lambda line: weigh(key for key in missing if key in line.keys))
    if weigh(key for key in missing if key in best.keys) < _SECOND_SHARE * weigh(missing) or best in rule.lines:
        return rule
    return Rule(rule.main, rule.followers, (*rule.linked, best))


def _likeness(reading: Reading, statement: Statement, rule: Rule) -> float:
    """Shared weight, that of the main sentence twice, against the statement's and a little of what else it says."""
    weigh = reading.weights.sum
    there, own = rule.keys, rule.main.keys
    # Numbers are left out: the rule for somebody else often has the very number that a wrong claim gives.
    asked = [key for key in statement.keys if not key[0].isdigit()]
    shared = weigh(key for key in asked if key in there) + weigh(key for key in asked if key in own)
    besides = weigh(key for key in sorted(own.difference(asked)) if not key[0].isdigit())
    score = shared / (2 * weigh(asked) + _BESIDES * besides or 1.0)
    return score * _ONLY_DEFINES if _DEFINITION.search(rule.main.text) else score


def _followers(lines: Sequence[Line], place: int) -> tuple[Line, ...]:
    found = []
    for line in lines[place + 1 : place + 1 + _MOST_FOLLOWERS]:
        if not line.follows or not _LEANS.search(line.text):
            break
        found.append(line)
    return tuple(found)


@lru_cache(maxsize=8192)
def terms_of(text: str) -> tuple[str, ...]:
    """The names that a sentence uses as defined terms: quoted, or capitalised inside the sentence; lower-cased."""
    found = [match["name"] for match in _TERM.finditer(text) if match["name"]]
    for match in _TERM.finditer(text):
        if match["quoted"]:
            found += [match["quoted"], *(inner[0] for inner in _CAPITALS.finditer(match["quoted"]))]
    lead = _LEADING_TERM.match(text)
    if lead:
        found.append(lead["name"])
    kept = [name.strip() for name in found if len(name) > 2 and name not in _COMMON and not name.isdigit()]
    return tuple(dict.fromkeys(name.lower() for name in kept))


def _mentions(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Term, or "#number" of a section, -> the lines that mention it."""
    index: dict[str, list[Line]] = {}
    for line in lines:
        sections = [f"#{match['number']}" for match in _SECTION.finditer(line.text)]
        for name in dict.fromkeys((*terms_of(line.text), *sections)):
            index.setdefault(name, []).append(line)
    return index


def _linked(own: Sequence[Line], index: dict[str, list[Line]]) -> tuple[Line, ...]:
    """The lines of other passages that share a term with these or speak of their section, and so on once more."""
    found: dict[str, Line] = {}
    known = {line.text for line in own}
    sections = [f"#{match['number']}" for match in _NUMBER_IN_TITLE.finditer(own[0].title)]
    names = [name for line in own for name in terms_of(line.text)] + sections
    for _ in range(_HOPS):
        fresh = []
        for name in dict.fromkeys(names):
            mentions = index.get(name, ())
            if len(mentions) > _COMMONPLACE:
                continue
            others = [one for one in mentions if one.passage != own[0].passage]
            telling = [one for one in others if name[0] == "#" or _DEFINES.search(one.text)]
            fresh += [one for one in telling[:_MOST_MENTIONS] if one.text not in known]
        known.update(line.text for line in fresh)
        found.update((line.text, line) for line in fresh)
        names = [name for line in fresh for name in terms_of(line.text)]
    return tuple(list(found.values())[:_MOST_LINKED])
