"""Multi-hop examples: rules whose parts stand in different passages and have to be put together.

A rule names some of its slots by defined terms ("Group A", "the Gate Review", "the Upper Limit"); other passages say
what the terms stand for, and one may except a case by referring to the rule's section. The answer speaks of the things
themselves, in other words than the definitions do, so a search with question and answer finds the sibling rules first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from factgym.datasets.claims import Status, Verdict
from factgym.generators.synthetic.corruption import WHOLE, Draft, faithful, quoted_slots
from factgym.generators.synthetic.document import Section, Setting, add_decoys
from factgym.generators.synthetic.facts import Concept, Fact, Kind, Quantity, Term, definition_of, with_slots
from factgym.generators.synthetic.lexicon import Domain, Topic
from factgym.generators.synthetic.rules import Rulebook, another, draw, size_of

PASSAGES = 5
_HIDEABLE: dict[Kind, tuple[str, ...]] = {
    "deadline": ("party", "quantity", "anchor"),
    "notice": ("party", "anchor"),
    "cap": ("party", "quantity"),
    "approve": ("authority", "quantity"),
    "may": ("party", "condition"),
    "keep": ("quantity", "anchor"),
}
_KINDS: tuple[Kind, ...] = ("deadline", "deadline", "notice", "cap", "approve", "may", "keep")
_HEADINGS = (
    "Definitions",
    "Interpretation",
    "Terms used",
    "Glossary",
    "Reference table",
    "Annex",
    "Schedule",
    "General part",
)


@dataclass(slots=True)
class Puzzle:
    """A rule as it truly is, as the document states it, and the passages that connect the two."""

    topic: Topic
    true: Fact
    stated: Fact
    definitions: list[Fact]
    waived: Fact | None = None
    extras: list[Fact] = field(default_factory=list)
    decoys: list[Fact] = field(default_factory=list)


def plan_multihop(setting: Setting, verdict: Verdict) -> tuple[list[Draft], list[Section]]:
    """Draw the claims of a multi-hop example and the five sections that decide them together."""
    rng = setting.rng
    topic = rng.choice(setting.domain.topics)
    puzzle = _puzzle(setting, topic, wants_exception=verdict == "overclaim" and rng.random() < 0.5)
    drafts = _drafts(setting, puzzle, verdict)
    return drafts, _sections(setting, puzzle)


def _puzzle(setting: Setting, topic: Topic, wants_exception: bool) -> Puzzle:
    rng, book = setting.rng, setting.book
    kinds = [kind for kind in _KINDS if topic.entries.get(kind)]
    kind = rng.choice(("deadline", "notice")) if wants_exception else rng.choice(kinds)
    if not topic.entries.get(kind):
        kind = "deadline"
    true = book.fact(topic, kind, frozenset({"only", "one"} if kind == "may" else {"plain", "one"}), plain=True)
    assert true is not None
    true = replace(true, former=None, changed=None, universal=False, exceptional=False, general=False)
    slots = _hideable(true)
    hidden = rng.sample(slots, 1 if rng.random() < 0.35 or wants_exception else min(2, len(slots)))
    stated, definitions = hide(true, hidden, setting.domain, rng)
    puzzle = Puzzle(topic, true, stated, definitions)
    if wants_exception or (kind in ("deadline", "notice") and len(hidden) == 1 and rng.random() < 0.4):
        exception = rng.choice(topic.exceptions)
        puzzle.true = replace(true, exception=exception)
        puzzle.waived = Fact("waive", true.about, exception=exception)
    _add_decoy_definitions(puzzle, setting)
    return puzzle


def _hideable(true: Fact) -> tuple[str, ...]:
    """The slots that a definition can speak of on its own: not an event told with a pronoun ("its arrival")."""
    pointing = isinstance(true.anchor, Concept) and any(_PRONOUNS & set(form.split()) for form in true.anchor.forms)
    return tuple(slot for slot in _HIDEABLE[true.kind] if not (pointing and slot == "anchor"))


_PRONOUNS = frozenset({"it", "its", "they", "their", "them"})


def hide(true: Fact, slots: Sequence[str], domain: Domain, rng: random.Random) -> tuple[Fact, list[Fact]]:
    """`true` with the slots named by terms, and the definitions of the terms."""
    terms: dict[str, Any] = {}
    definitions = []
    for slot in slots:
        value = getattr(true, slot)
        term = Term(rng.choice(domain.terms[_term_kind(slot, value)]), plural=slot == "party" and value.plural)
        terms[slot] = term
        definitions.append(definition_of(term, slot, value))
    return with_slots(true, **terms), definitions


def _term_kind(slot: str, value: object) -> str:
    return "money" if isinstance(value, Quantity) and value.unit in "$£€" else slot


def _add_decoy_definitions(puzzle: Puzzle, setting: Setting) -> None:
    """For some terms a sibling term with another value of the same sort, to be confused with."""
    rng = setting.rng
    for definition in list(puzzle.definitions):
        slot = _slot_of(puzzle, definition)
        value = getattr(definition, slot)
        names = [name for name in setting.domain.terms[_term_kind(slot, value)] if name != _name(definition)]
        other = _other_value(puzzle, slot, value, setting.book)
        if other is None or rng.random() < 0.2:
            continue
        term = Term(rng.choice(names), plural=slot == "party" and getattr(value, "plural", False))
        puzzle.decoys.append(definition_of(term, slot, other))


def _slot_of(puzzle: Puzzle, definition: Fact) -> str:
    return next(slot for slot, term in puzzle.stated.terms() if term == definition.term)


def _name(definition: Fact) -> str:
    return definition.term.name if definition.term else ""


def _other_value(puzzle: Puzzle, slot: str, value: object, book: Rulebook) -> object | None:
    """Another value that the slot could have had."""
    topic, rng = puzzle.topic, book.rng
    if isinstance(value, Quantity):
        return another(value, size_of(topic, puzzle.true), rng, near=rng.random() < 0.5)
    pools: dict[str, Sequence[Concept]] = {"party": topic.parties, "anchor": topic.events, "authority": topic.roles}
    pool = list(pools.get(slot, ()))
    if slot == "condition":
        pool = [*next(entry for entry in topic.entries[puzzle.true.kind] if entry.id == puzzle.true.about).conditions]
    others = [other for other in pool if other != value]
    return rng.choice(others) if others else None


def _drafts(setting: Setting, puzzle: Puzzle, verdict: Verdict) -> list[Draft]:
    """One composed claim, often followed by one on a further rule for the same matter."""
    rng, book = setting.rng, setting.book
    if verdict == "partially_supported":
        kind: Status = rng.choice(("unsupported", "unsupported", "contradicted", "overclaim"))
        second = _extra(puzzle, book, stated=kind != "unsupported") if puzzle.true.party else None
        if second is not None:
            return [_main(puzzle, setting, "supported" if kind == "unsupported" else kind), second]
        other = _plain_rule(setting, puzzle)
        return [_main(puzzle, setting, rng.choice(("contradicted", "unsupported"))), other]
    drafts = [_main(puzzle, setting, verdict)]
    if verdict in ("supported", "unsupported") and rng.random() < 0.4 and puzzle.true.party:
        second = _extra(puzzle, book, stated=verdict == "supported")
        drafts += [second] if second else []
    return drafts


def _plain_rule(setting: Setting, puzzle: Puzzle) -> Draft:
    """A supported claim on a rule that stands in the same passage."""
    rule = None
    while rule is None:
        kind: Kind = setting.rng.choice(("deadline", "may", "every", "forbid", "duty", "state"))
        rule = setting.book.fact(puzzle.topic, kind, plain=True)
    puzzle.extras.append(rule)
    claim = faithful(rule, puzzle.topic, setting.book)
    return Draft(puzzle.topic, rule, claim, "supported", "none", quoted=quoted_slots(claim))


def _extra(puzzle: Puzzle, book: Rulebook, stated: bool) -> Draft | None:
    """A further rule on the same action: stated in the rule's passage (supported) or nowhere (unsupported)."""
    fact = book.extra(puzzle.topic, puzzle.true)
    if fact is None:
        return None
    if not stated:
        return Draft(puzzle.topic, puzzle.stated, fact, "unsupported", "invented", WHOLE)
    rule = replace(fact, party=puzzle.stated.party)
    puzzle.extras.append(rule)
    return Draft(puzzle.topic, rule, fact, "supported", "none")


def _main(puzzle: Puzzle, setting: Setting, status: Status) -> Draft:
    """The composed claim with this status."""
    rng = setting.rng
    if status == "supported":
        return _composed(puzzle, puzzle.true, status, "none", "")
    options = list(_OPTIONS[status])
    rng.shuffle(options)
    for option in options:
        made = option(puzzle, setting)
        if made is not None:
            return made
    raise LookupError(f"no {status} claim for a rule of kind {puzzle.true.kind}")


def _composed(puzzle: Puzzle, claim: Fact, status: Status, name: str, focus: str) -> Draft:
    slots = WHOLE if focus == "whole" else frozenset({focus} if focus else ())
    return Draft(puzzle.topic, puzzle.stated, claim, status, name, slots, quoted_slots(puzzle.true))


def _wrong_value(puzzle: Puzzle, setting: Setting) -> Draft | None:
    """Another value in a slot, by preference the one that the sibling term stands for."""
    names = {"quantity": "number", "anchor": "trigger", "authority": "entity", "condition": "condition"}
    slots = [slot for slot in names if getattr(puzzle.true, slot) is not None]
    hidden = [slot for slot, _ in puzzle.stated.terms() if slot in names]
    slot = setting.rng.choice(hidden or slots)
    confused = [value for fact in puzzle.decoys if (value := getattr(fact, slot)) is not None]
    wrong = setting.rng.choice(confused) if confused else None
    wrong = wrong or _other_value(puzzle, slot, getattr(puzzle.true, slot), setting.book)
    if wrong is None or wrong == getattr(puzzle.true, slot):
        return None
    return _composed(puzzle, with_slots(puzzle.true, **{slot: wrong}), "contradicted", names[slot], slot)


def _wrong_group(puzzle: Puzzle, setting: Setting) -> Draft | None:
    """The value that the document sets for another group."""
    true, stated = puzzle.true, puzzle.stated
    others = [fact for fact in puzzle.decoys if isinstance(fact.party, Concept)]
    if not isinstance(stated.party, Term) or not isinstance(true.quantity, Quantity) or not others:
        return None
    wrong = another(true.quantity, size_of(puzzle.topic, true), setting.rng, near=False)
    puzzle.extras.append(replace(stated, party=others[0].term, quantity=wrong))
    return _composed(puzzle, replace(true, quantity=wrong), "contradicted", "party", "quantity")


def _opposite(puzzle: Puzzle, setting: Setting) -> Draft | None:
    """A prohibition where the document permits."""
    if puzzle.true.kind != "may":
        return None
    claim = replace(puzzle.true, modality="must_not", condition=None, only=False)
    return _composed(puzzle, claim, "contradicted", "polarity", "modality")


def _everyone(puzzle: Puzzle, setting: Setting) -> Draft | None:
    if puzzle.true.party is None:
        return None
    claim = replace(puzzle.true, party=puzzle.topic.everyone)
    return _composed(puzzle, claim, "overclaim", "scope", "party")


def _exception_dropped(puzzle: Puzzle, setting: Setting) -> Draft | None:
    if puzzle.true.exception is None:
        return None
    universal = setting.rng.random() < 0.4
    claim = replace(puzzle.true, exception=None, universal=universal)
    return _composed(puzzle, claim, "overclaim", "exception_dropped", "universal" if universal else "whole")


def _condition_dropped(puzzle: Puzzle, setting: Setting) -> Draft | None:
    if puzzle.true.condition is None:
        return None
    claim = replace(puzzle.true, condition=None, only=False)
    return _composed(puzzle, claim, "overclaim", "condition_dropped", "whole")


def _limit_added(puzzle: Puzzle, setting: Setting) -> Draft | None:
    """For a rule without party and limits: an exception in the document that the claim leaves out."""
    exception = setting.rng.choice(puzzle.topic.exceptions)
    puzzle.true = replace(puzzle.true, exception=exception)
    puzzle.waived = Fact("waive", puzzle.true.about, exception=exception)
    return _exception_dropped(puzzle, setting)


def _unlisted(puzzle: Puzzle, setting: Setting) -> Draft | None:
    """A party that belongs to no group of the document."""
    named = {fact.party for fact in (*puzzle.definitions, *puzzle.decoys)} | {puzzle.true.party}
    free = [party for party in puzzle.topic.parties if party not in named]
    if puzzle.true.party is None or not free:
        return None
    claim = replace(puzzle.true, party=setting.rng.choice(free))
    return _composed(puzzle, claim, "unsupported", "party", "party")


def _added_reason(puzzle: Puzzle, setting: Setting) -> Draft | None:
    if puzzle.true.kind in ("keep", "may"):
        return None
    claim = replace(puzzle.true, reason=setting.rng.choice(puzzle.topic.reasons))
    return _composed(puzzle, claim, "unsupported", "cause", "reason")


def _other_matter(puzzle: Puzzle, setting: Setting) -> Draft | None:
    """The composed values on a sibling matter of which the document says nothing."""
    entry = setting.book.entry(puzzle.topic, puzzle.true.kind)
    if entry is None:
        return None
    setting.book.taken.add(entry.id)
    quantity = puzzle.true.quantity
    if isinstance(quantity, Quantity) and size_of(puzzle.topic, puzzle.true) != entry.size:
        quantity = draw(entry.size, setting.book.currency, setting.rng, short=True)
    claim = replace(
        puzzle.true, about=entry.id, action=entry.action, thing=entry.thing, per=entry.per, quantity=quantity,
        exception=None, condition=None, only=False, anchor=entry.anchor,
    )  # fmt: skip
    return _composed(puzzle, claim, "unsupported", "irrelevant", "whole")


_OPTIONS = {
    "contradicted": (_wrong_value, _wrong_group, _opposite),
    "overclaim": (_everyone, _exception_dropped, _condition_dropped, _limit_added),
    "unsupported": (_unlisted, _added_reason, _other_matter),
}


def _sections(setting: Setting, puzzle: Puzzle) -> list[Section]:
    """Five sections in random order: the rule's, one or two that define, the rest siblings with the same people."""
    rng, topic = setting.rng, puzzle.topic
    headings = rng.sample(topic.headings, min(4, len(topic.headings)))
    rule = Section(topic, headings.pop(), [puzzle.stated, *puzzle.extras])
    helpers = [*puzzle.definitions, *([puzzle.waived] if puzzle.waived else [])]
    apart = len(helpers) == 2 and rng.random() < 0.75
    names = rng.sample(_HEADINGS, 2)
    bridges = [Section(topic, names[at]) for at in range(2 if apart else 1)]
    for at, fact in enumerate(helpers):
        bridges[at % len(bridges)].facts.append(fact)
    for fact in puzzle.decoys:
        rng.choice(bridges).facts.append(fact)
    for bridge in bridges:
        for _ in range(1 if len(bridge.facts) > 1 else 2):
            bridge.fillers.append(setting.book.filler(setting.domain.fillers))
    decoys = [Section(topic, headings.pop()) for _ in range(PASSAGES - 1 - len(bridges))]
    _populate(decoys, rule, puzzle, setting)
    sections = [rule, *bridges, *decoys]
    rng.shuffle(sections)
    if puzzle.waived:
        _refer(puzzle.waived, sections, rule, setting)
    return sections


def _populate(decoys: Sequence[Section], rule: Section, puzzle: Puzzle, setting: Setting) -> None:
    """Sibling rules for the very party that the question names."""
    for section in decoys:
        add_decoys(section, setting.book, setting.domain, setting.rng.choice((3, 4)))
        party = puzzle.true.party
        section.facts = [
            replace(fact, party=party)
            if isinstance(party, Concept) and isinstance(fact.party, Concept) and setting.rng.random() < 0.6
            and fact.kind != "scope" else fact
            for fact in section.facts
        ]  # fmt: skip
    if len(rule.facts) < 2 or setting.rng.random() < 0.4:
        add_decoys(rule, setting.book, setting.domain, 1)


def _refer(waived: Fact, sections: Sequence[Section], rule: Section, setting: Setting) -> None:
    """Let the exception name the section of its rule by number."""
    number = sections.index(rule) + 1
    label = setting.domain.style["reference"][0].format(n=number, a=chr(64 + number))
    for section in sections:
        section.facts = [
            replace(fact, thing=Concept(f"section.{number}", (label,))) if fact is waived else fact
            for fact in section.facts
        ]
