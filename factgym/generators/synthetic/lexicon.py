"""The lexicons: one TOML file per domain, read on first use, into typed topics and entries.

The notation in the files keeps one rule on one line. `~` separates wordings of the same idea (a document and a claim
may pick different ones), `|` the verb, object and tail of an action, `@` the event that a period is counted from,
`#` the unit or size of number, `?` a condition, `!` an exception, `=>` a consequence, `//` a statement's negation.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from factgym.generators.synthetic.facts import Action, Concept, Kind, Phrase
from factgym.generators.synthetic.grammar import listed

DOMAINS = ("company", "legal", "privacy", "hr", "contract")
OOD_DOMAINS = ("university", "hospital", "tenancy", "sports", "municipal")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """What a topic can say of one kind: the words, and what numbers, conditions and exceptions go with them."""

    id: str
    kind: Kind
    action: Action | None = None
    thing: Concept | None = None
    anchor: Concept | None = None
    size: str = ""
    per: str = ""
    conditions: tuple[Concept, ...] = ()
    exceptions: tuple[Concept, ...] = ()
    results: tuple[Concept, ...] = ()
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """A subject that a section of a document is about. parties are disjoint; everyone is all of them and more."""

    id: str
    headings: tuple[str, ...]
    subject: Concept
    everyone: Concept
    parties: tuple[Concept, ...]
    roles: tuple[Concept, ...]
    events: tuple[Concept, ...]
    conditions: tuple[Concept, ...]
    exceptions: tuple[Concept, ...]
    reasons: tuple[Concept, ...]
    channels: tuple[Concept, ...]
    entries: Mapping[str, tuple[Entry, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A document genre: its topics, titles, names and habits of style (`style` maps a habit to its options)."""

    id: str
    titles: tuple[str, ...]
    topics: tuple[Topic, ...]
    businesses: tuple[str, ...]
    fillers: tuple[str, ...]
    terms: Mapping[str, tuple[str, ...]]
    style: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@cache
def load_domain(name: str) -> Domain:
    """The domain of this name, parsed once per process."""
    text = files(__package__).joinpath("lexicon", f"{name}.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    return Domain(
        id=name,
        titles=tuple(raw["titles"]),
        topics=tuple(_topic(name, topic) for topic in raw["topic"]),
        businesses=tuple(raw["businesses"]),
        fillers=tuple(raw["fillers"]),
        terms={key: tuple(values) for key, values in raw["terms"].items()},
        style={key: tuple(values) for key, values in raw["style"].items()},
    )


def _topic(domain: str, raw: Mapping[str, Any]) -> Topic:
    name = f"{domain}.{raw['id']}"
    return Topic(
        id=name,
        headings=tuple(raw["headings"]),
        subject=concept(f"{name}.subject", raw["subject"]),
        everyone=concept(f"{name}.everyone", raw["everyone"]),
        parties=_concepts(f"{name}.party", raw["parties"]),
        roles=_concepts(f"{name}.role", raw["roles"], plural=False),
        events=_concepts(f"{name}.event", raw["events"], plural=False),
        conditions=_concepts(f"{name}.if", raw["if"]),
        exceptions=_concepts(f"{name}.unless", raw["unless"]),
        reasons=_concepts(f"{name}.why", raw["why"]),
        channels=_concepts(f"{name}.via", raw["via"]),
        entries={
            kind: tuple(parse(f"{name}.{kind}.{at}", line) for at, line in enumerate(raw.get(kind, ())))
            for kind, parse in _PARSERS.items()
        },
    )


def _forms(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("~"))


def concept(name: str, text: str, plural: bool = True) -> Concept:
    """A concept from its line; a leading "sg:" says that its wordings are singular nouns."""
    if text.startswith("sg:"):
        text, plural = text[3:], False
    return Concept(name, _forms(text), plural)


def _concepts(name: str, lines: Sequence[str], plural: bool = True) -> tuple[Concept, ...]:
    return tuple(concept(f"{name}.{at}", line, plural) for at, line in enumerate(lines))


_PREPOSITIONS = frozenset(
    listed(
        "about abroad across after against ahead along as at away back before between by down early during for"
        " from  in indoors into of off on onto out outside over past remotely to through towards under up with"
        " within without"
    )
)


def _phrase(text: str) -> Phrase:
    parts = [part.strip() for part in text.split("|")]
    verb, obj, tail = (*parts, "", "")[:3]
    if obj.partition(" ")[0] in _PREPOSITIONS:
        obj, tail = "", f"{obj} {tail}".strip()
    return Phrase(verb, obj, tail)


def _action(name: str, text: str) -> Action:
    return Action(name, tuple(_phrase(form) for form in _forms(text)))


def _timed(name: str, kind: Kind, line: str) -> Entry:
    head, size = line.split("#")
    wording, anchor = head.split("@")
    return Entry(
        name, kind, action=_action(name, wording), anchor=concept(f"{name}.at", anchor.strip()), size=size.strip()
    )


def _deadline(name: str, line: str) -> Entry:
    return _timed(name, "deadline", line)


def _notice(name: str, line: str) -> Entry:
    return _timed(name, "notice", line)


def _may(name: str, line: str) -> Entry:
    wording, *conditions = line.split("?")
    return Entry(name, "may", action=_action(name, wording), conditions=_concepts(f"{name}.if", conditions))


def _forbid(name: str, line: str) -> Entry:
    wording, *exceptions = line.split("!")
    return Entry(name, "forbid", action=_action(name, wording), exceptions=_concepts(f"{name}.unless", exceptions))


def _approve(name: str, line: str) -> Entry:
    wording, size = line.split("#")
    return Entry(name, "approve", thing=concept(f"{name}.of", wording.strip()), size=size.strip())


def _cap(name: str, line: str) -> Entry:
    wording, size = line.split("#")
    size, _, per = size.strip().partition(" per ")
    forms = []
    for form in _forms(wording):
        verb, _, tail = form.partition("|")
        forms.append(Phrase(verb.strip(), "", tail.strip()))
    return Entry(name, "cap", action=Action(name, tuple(forms)), size=size, per=f"per {per}" if per else "")


def _keep(name: str, line: str) -> Entry:
    head, size = line.split("#")
    wording, anchor = head.split("@")
    things = concept(f"{name}.of", wording.strip())
    return Entry(name, "keep", thing=things, anchor=concept(f"{name}.at", anchor.strip()), size=size.strip())


def _every(name: str, line: str) -> Entry:
    return Entry(name, "every", action=_action(name, line))


def _duty(name: str, line: str) -> Entry:
    return Entry(name, "duty", action=_action(name, line))


def _penalty(name: str, line: str) -> Entry:
    event, *results = line.split("=>")
    return Entry(name, "penalty", thing=concept(f"{name}.of", event.strip()), results=_concepts(f"{name}.so", results))


def _state(name: str, line: str) -> Entry:
    yes, no = line.split("//")
    return Entry(name, "state", yes=_forms(yes), no=_forms(no))


_PARSERS = {
    "deadline": _deadline,
    "notice": _notice,
    "may": _may,
    "forbid": _forbid,
    "approve": _approve,
    "cap": _cap,
    "keep": _keep,
    "every": _every,
    "duty": _duty,
    "penalty": _penalty,
    "state": _state,
}
