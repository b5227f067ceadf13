"""Multi-hop graft: a second fact has to be looked up before the claim can be judged.

Aiming at a fabrication, the claim's subject gets a clause that another claim of the pool says of something else of
its kind. A date becomes its decade: the right one, which keeps the label, or another, which is a temporal shift.
"""

from __future__ import annotations

import re

from factgym.generators.probes.base import ATTRIBUTABLE, Draft, NoProbe
from factgym.generators.probes.lexicon import NO_ANCHOR
from factgym.generators.probes.names import Name, kind_alone
from factgym.generators.probes.pool import Fact, suits
from factgym.generators.probes.statement import has_gap
from factgym.generators.probes.work import Work
from factgym.generators.synthetic.words import MONTHS

_MONTH = "|".join(MONTHS)
_DATE = re.compile(
    rf"\b(?P<word>[Oo]n|[Ii]n) (?:(?:{_MONTH})(?: \d{{1,2}}(?:st|nd|rd|th)?)? ?,? |\d{{1,2}} (?:{_MONTH}) ?,? )?(?P<year>1[5-9]\d\d|20[01]\d)"
    r"(?![\w%]|[-–/]|[.,]\d| [A-Z(]|,? ?(?:and|or) \d)"
)
_EVENT = re.compile(r"\b(?:born|died|won|wrote|began|[a-z]+ed|built|made|met|led|sold|took)\b(?: [\w'’&.,-]+){0,7} $")
_NO_EVENT = re.compile(
    r"\b(?:not|no|never|nothing|currently|longer|yet|already|only|first|last|still|until|every|each|all)\b|n['’]t\b",
    re.I,
)
_MOST_TRIES = 40


def graft(work: Work, error_type: str | None, keeps: bool) -> Draft | NoProbe:
    """A decade in place of a date, or a borrowed fact about the subject. keeps: the label has to stay."""
    ways = [_borrow] if error_type == "fabrication" else [_decade] if error_type or keeps else [_decade, _borrow]
    why: Draft | NoProbe = NoProbe("no_place", "neither a date nor a subject of a known kind")
    for way in ways:
        made = way(work, keeps)
        if isinstance(made, Draft):
            return made
        why = made
    return why


def _decade(work: Work, keeps: bool) -> Draft | NoProbe:
    text = work.body.text
    found = [match for match in _DATE.finditer(text) if text[: match.start()].count('"') % 2 == 0]
    if len(found) != 1 or text.count(found[0]["year"]) != 1 or len(re.findall(r"\d{4}", text)) != 1:
        return NoProbe("no_place", "no single date with a year")
    match = found[0]
    opens = match.start() == 0 and work.verb is not None and work.verb.tense == "past"
    if _NO_EVENT.search(text) or not (opens or _EVENT.search(text[: match.start()])):
        return NoProbe("no_place", "the date is not that of one event")
    if keeps and work.label != ATTRIBUTABLE:
        return NoProbe("no_place", "the decade of a false date can be true")
    right = int(match["year"]) // 10 * 10
    if (right < 1850 and right % 100 == 0) or right in (2000, 1900, 1800):
        return NoProbe("no_place", "the decade has no clear name")
    shifts = [right + shift for shift in (-30, -20, -10, 10, 20) if right + shift <= 2010 and (right + shift) % 100]
    decades = [right] if keeps else [one for one in shifts if not work.mentions(f"{one}s")]
    if not decades:
        return NoProbe("no_donor", "the source names the other decades")
    new = f"{'In' if match['word'][0] == 'O' or match['word'][0] == 'I' else 'in'} the {work.rng.choice(decades)}s"
    whole = work.whole(text[: match.start()] + new + text[match.end() :])
    return Draft(whole, None if keeps else "temporal_shift", "decade" if keeps else "wrong_decade")


def _borrow(work: Work, keeps: bool) -> Draft | NoProbe:
    name = _subject(work)
    if name is None:
        return NoProbe("no_place", "the claim does not begin with a name and its verb")
    kind = work.pool.kinds.of(name.text, work.body.text, name.span)
    fitting = [fact for fact in work.pool.facts if suits(fact, name.text, kind)]
    for fact in work.rng.sample(fitting, min(_MOST_TRIES, len(fitting))):
        if _unknown(work, fact):
            return Draft(_joined(work, name, fact), "fabrication", "borrowed_fact")
    return NoProbe("no_donor", "no fact of the pool is about another of its kind")


def _subject(work: Work) -> Name | None:
    """The name that the claim begins with and is about."""
    verb = work.verb
    name = work.names[0] if work.names else None
    if verb is None or name is None or name.start or verb.start != name.end + 1 or verb.tense == "base":
        return None
    return name


def _unknown(work: Work, fact: Fact) -> bool:
    anchors = [word for word in re.findall(r"[A-Z]\w+", fact.phrase) if not kind_alone(word) and word not in NO_ANCHOR]
    return bool(anchors) and not any(work.mentions(word) for word in anchors) and work.silent_on(fact.phrase)


def _joined(work: Work, name: Name, fact: Fact) -> str:
    text = work.body.text
    word = "who" if fact.kind == "person" else "which"
    comma = " ," if has_gap(text) else ","
    return work.whole(f"{name.text}{comma} {word} {fact.phrase}{comma}{text[name.end :]}")
