"""Multi-hop examples: rules whose parts are in different passages and have to be put together.

A rule names some of its slots by defined terms ("Group A", "the Gate Review", "the Upper Limit"); other passages define
the terms, and one may except a case by referring to the rule's section. The answer names the values themselves, in other
words than the definitions do, so a search with question and answer finds the sibling rules first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from factgym.datasets.claims import Status, Verdict
from factgym.generators.synthetic.corruption import WHOLE, Draft, draft_claim, faithful, on_matter, quoted_slots
from factgym.generators.synthetic.document import Section, Setting
from factgym.generators.synthetic.facts import Concept, Fact, Kind, Quantity, Term, definition_of, with_slots
from factgym.generators.synthetic.rules import draw, draw_other, size_of

PASSAGES = 5
_HIDEABLE: dict[Kind, tuple[str, ...]] = {
    "deadline": ("party", "quantity", "anchor"),
    "notice": ("party", "anchor"),
    "cap": ("party", "quantity"),
    "approve": ("authority", "quantity"),
    "may": ("party", "condition"),
    "keep": ("quantity", "anchor"),
}
"""Slots of each kind of rule that a definition elsewhere can fill."""

_KINDS: tuple[Kind, ...] = ("deadline", "deadline", "notice", "cap", "approve", "may", "keep")
_HEADINGS = (
    *("Definitions", "Interpretation", "Terms used", "Glossary", "Reference table", "Annex", "Schedule"),
    "General part",
)
_PRONOUNS = frozenset({"it", "its", "they", "their", "them"})
_MIXED: tuple[Status, ...] = ("supported", "supported", "contradicted", "overclaim", "unsupported")
"""Statuses of the composed claim of a partially supported answer; the further rule has the other kind."""
_FURTHER: dict[Verdict, tuple[Status, ...]] = {
    "unsupported": ("unsupported",),
    "overclaim": ("overclaim", "overclaim", "unsupported"),
    "contradicted": ("contradicted", "contradicted", "overclaim", "unsupported"),
    "partially_supported": ("contradicted", "overclaim", "unsupported"),
}
"""Statuses of the further claim of an answer with this verdict, where it is not supported."""
_ERROR_OF_SLOT = {"quantity": "number", "anchor": "trigger", "authority": "entity", "condition": "condition"}


def plan_multihop(setting: Setting, verdict: Verdict) -> tuple[list[Draft], list[Section]]:
    """Draw the claims of a multi-hop example and the five sections that decide them together."""
    puzzle = _Puzzle(setting)
    return puzzle.draft_claims(verdict), puzzle.sections()


class _Puzzle:
    """A rule as it truly is, as the document states it, and the passages that connect the two.

    true: the rule with its values. stated: with terms in their place. definitions: of those terms. decoys: definitions
    of sibling terms, to be confused with. waived: an exception stated elsewhere. extras: further facts of the rule's
    section. The order of the draws decides every generated item.
    """

    def __init__(self, setting: Setting) -> None:
        rng = setting.rng
        self.setting, self.rng, self.book = setting, rng, setting.book
        self.topic = rng.choice(setting.domain.topics)
        self.waived: Fact | None = None
        self.extras: list[Fact] = []
        needs_exception = rng.random() < 0.25
        kinds = [kind for kind in _KINDS if self.topic.entries.get(kind)]
        kind = rng.choice(("deadline", "notice")) if needs_exception else rng.choice(kinds)
        if not self.topic.entries.get(kind):
            kind = "deadline"
        need = frozenset({"only", "one"} if kind == "may" else {"plain", "one"})
        rule = self.book.fact(self.topic, kind, need, plain=True)
        assert rule is not None
        self.true = replace(rule, former=None, changed=None, universal=False, exceptional=False, general=False)
        if kind not in ("keep", "may") and rng.random() < 0.25:
            self.true = replace(self.true, reason=rng.choice(self.topic.reasons))
        slots = self._hideable_slots()
        hidden = rng.sample(slots, 1 if rng.random() < 0.35 or needs_exception else min(2, len(slots)))
        self.definitions = [self._define(slot, getattr(self.true, slot)) for slot in hidden]
        terms: dict[str, Any] = {slot: fact.term for slot, fact in zip(hidden, self.definitions, strict=True)}
        self.stated = with_slots(self.true, **terms)
        if needs_exception or (kind in ("deadline", "notice") and len(hidden) == 1 and rng.random() < 0.4):
            self._waive(rng.choice(self.topic.exceptions))
        self.decoys: list[Fact] = []
        for slot, definition in zip(hidden, self.definitions, strict=True):
            self._add_decoy(slot, definition)

    def _hideable_slots(self) -> tuple[str, ...]:
        """Slots that a definition can speak of on its own: not an event with a pronoun in it ("its arrival")."""
        anchor = self.true.anchor
        pointing = isinstance(anchor, Concept) and any(_PRONOUNS & set(form.split()) for form in anchor.forms)
        return tuple(slot for slot in _HIDEABLE[self.true.kind] if not (pointing and slot == "anchor"))

    def _define(self, slot: str, value: Any, other_than: Term | None = None) -> Fact:
        """Define a term, another than `other_than`, for a slot's value."""
        kind = "money" if isinstance(value, Quantity) and value.is_money else slot
        names = [name for name in self.setting.domain.terms[kind] if other_than is None or name != other_than.name]
        term = Term(self.rng.choice(names), plural=slot == "party" and getattr(value, "plural", False))
        return definition_of(term, slot, value)

    def _add_decoy(self, slot: str, definition: Fact) -> None:
        """Most terms get a sibling term with another value of the same sort."""
        value = self._other_value(slot, getattr(definition, slot))
        if value is not None and self.rng.random() >= 0.2:
            self.decoys.append(self._define(slot, value, other_than=definition.term))

    def _waive(self, exception: Concept) -> None:
        self.true = replace(self.true, exception=exception)
        self.waived = Fact("waive", self.true.about, exception=exception)

    def _other_value(self, slot: str, value: object) -> Quantity | Concept | None:
        """Draw another value that the slot could have had."""
        topic = self.topic
        if isinstance(value, Quantity):
            return draw_other(value, size_of(topic, self.true), self.rng, near=self.rng.random() < 0.5)
        pool: Sequence[Concept] = ()
        if slot == "condition":
            entries = topic.entries[self.true.kind]
            pool = next(entry for entry in entries if entry.id == self.true.about).conditions
        elif slot in ("party", "anchor", "authority"):
            pool = {"party": topic.parties, "anchor": topic.events, "authority": topic.roles}[slot]
        candidates = [candidate for candidate in pool if candidate != value]
        return self.rng.choice(candidates) if candidates else None

    # Claims.

    def draft_claims(self, verdict: Verdict) -> list[Draft]:
        """Draft a composed claim and one on a further rule.

        Every verdict has two statements, and their kinds do not depend on it, so that neither tells the verdict.
        """
        first: Status = self.rng.choice(_MIXED) if verdict == "partially_supported" else verdict
        composed = self._composed_claim(first)
        if (first == "supported") == (verdict != "partially_supported"):
            return [composed, self._further_rule(stated=True)]
        second = self.rng.choice(_FURTHER[verdict])
        return [composed, self._further_rule(stated=False) if second == "unsupported" else self._changed_rule(second)]

    def _changed_rule(self, status: Status) -> Draft:
        """Draft a claim that changes a further rule of the same passage."""
        while True:
            draft = draft_claim(status, self.topic, self.book, self.setting.subtle)
            if not draft.alone:
                self.extras += [draft.rule, *draft.siblings]
                return draft

    def _further_rule(self, *, stated: bool) -> Draft:
        """Draft a claim on a further rule: stated in the rule's passage (supported) or nowhere (unsupported)."""
        fact = self.book.extra(self.topic, self.true) if self.true.party and self.rng.random() < 0.6 else None
        if fact is not None:
            rule, claim = replace(fact, party=self.stated.party), fact
        while fact is None:
            kind: Kind = self.rng.choice(("deadline", "may", "every", "forbid", "duty", "state"))
            fact = self.book.fact(self.topic, kind, plain=True)
            if fact is not None:
                rule, claim = fact, faithful(fact, self.topic, self.book)
        if not stated:
            return Draft(self.topic, self.stated, claim, "unsupported", "invented", WHOLE)
        self.extras.append(rule)
        return Draft(self.topic, rule, claim, "supported", "none", quoted=quoted_slots(claim))

    def _composed_claim(self, status: Status) -> Draft:
        """Draft the composed claim with this status, by the first operator, in a drawn order, that applies."""
        if status == "supported":
            return self._draft(self.true, status, "none", "")
        operators = list(_OPERATORS[status])
        self.rng.shuffle(operators)
        for operator in operators:
            change = operator(self)
            if change is not None:
                return self._draft(change[0], status, *change[1:])
        raise LookupError(f"no {status} claim for a rule of kind {self.true.kind}")

    def _draft(self, claim: Fact, status: Status, corruption: str, focus: str) -> Draft:
        slots = frozenset({focus} if focus else ())
        return Draft(self.topic, self.stated, claim, status, corruption, slots, quoted_slots(self.true))

    # Operators: each returns the changed claim, the name of the corruption and the slot at fault, or None.

    def swap_value(self) -> Change | None:
        """State another value of a slot, by preference that of the sibling term."""
        slots = [slot for slot in _ERROR_OF_SLOT if getattr(self.true, slot) is not None]
        slot = self.rng.choice([slot for slot, _ in self.stated.terms() if slot in _ERROR_OF_SLOT] or slots)
        confused = [value for fact in self.decoys if (value := getattr(fact, slot)) is not None]
        value = self.rng.choice(confused) if confused else None
        value = value or self._other_value(slot, getattr(self.true, slot))
        if value is None or value == getattr(self.true, slot):
            return None
        return with_slots(self.true, **{slot: value}), _ERROR_OF_SLOT[slot], slot

    def borrow_value(self) -> Change | None:
        """State the value that the document sets for another group."""
        groups = [fact.term for fact in self.decoys if isinstance(fact.party, Concept)]
        quantity = self.true.quantity
        if not isinstance(self.stated.party, Term) or not isinstance(quantity, Quantity) or not groups:
            return None
        wrong = draw_other(quantity, size_of(self.topic, self.true), self.rng, near=False)
        self.extras.append(replace(self.stated, party=groups[0], quantity=wrong))
        return replace(self.true, quantity=wrong), "party", "quantity"

    def prohibit(self) -> Change | None:
        if self.true.kind != "may":
            return None
        return replace(self.true, modality="must_not", condition=None, only=False), "polarity", "modality"

    def extend_to_everyone(self) -> Change | None:
        if self.true.party is None:
            return None
        return replace(self.true, party=self.topic.everyone), "scope", "party"

    def drop_exception(self) -> Change | None:
        """Leave out the exception, silently or with words that deny that there is any."""
        if self.true.exception is None:
            return None
        universal = self.rng.random() < 0.2
        claim = replace(self.true, exception=None, universal=universal)
        return claim, "exception_dropped", "universal" if universal else "whole"

    def drop_condition(self) -> Change | None:
        if self.true.condition is None:
            return None
        return replace(self.true, condition=None, only=False), "condition_dropped", "whole"

    def drop_new_exception(self) -> Change | None:
        """Add an exception to a rule without party and limits, and leave it out."""
        self._waive(self.rng.choice(self.topic.exceptions))
        return self.drop_exception()

    def state_of_unlisted_party(self) -> Change | None:
        """State the rule of a party that belongs to no group of the document."""
        listed_parties = {fact.party for fact in (*self.definitions, *self.decoys)} | {self.true.party}
        free = [party for party in self.topic.parties if party not in listed_parties]
        if self.true.party is None or not free:
            return None
        return replace(self.true, party=self.rng.choice(free)), "party", "party"

    def add_reason(self) -> Change | None:
        if self.true.kind in ("keep", "may"):
            return None
        self.true, self.stated = replace(self.true, reason=None), replace(self.stated, reason=None)
        return replace(self.true, reason=self.rng.choice(self.topic.reasons)), "cause", "reason"

    def change_matter(self) -> Change | None:
        """State the composed values on a sibling matter, on which the document is silent."""
        entry = self.book.entry(self.topic, self.true.kind)
        if entry is None:
            return None
        self.book.stated.add(entry.id)
        quantity = self.true.quantity
        if isinstance(quantity, Quantity) and size_of(self.topic, self.true) != entry.size:
            quantity = draw(entry.size, self.book.currency, self.rng, short=True)
        return on_matter(self.true, entry, quantity=quantity), "irrelevant", "whole"

    # Sections.

    def sections(self) -> list[Section]:
        """Return five sections in random order: the rule's, one or two that define, the rest siblings."""
        rng, topic = self.rng, self.topic
        headings = rng.sample(topic.headings, min(4, len(topic.headings)))
        rule = Section(topic, headings.pop(), [self.stated, *self.extras])
        helpers = [*self.definitions, *([self.waived] if self.waived else [])]
        apart = len(helpers) == 2 and rng.random() < 0.75
        bridges = [Section(topic, heading) for heading in rng.sample(_HEADINGS, 2)][: 2 if apart else 1]
        for at, fact in enumerate(helpers):
            bridges[at % len(bridges)].facts.append(fact)
        for fact in self.decoys:
            rng.choice(bridges).facts.append(fact)
        for bridge in bridges:
            for _ in range(1 if len(bridge.facts) > 1 else 2):
                bridge.fillers.append(self.book.filler(self.setting.domain.fillers))
        siblings = [Section(topic, headings.pop()) for _ in range(PASSAGES - 1 - len(bridges))]
        for section in siblings:
            section.add_decoys(self.setting, rng.choice((3, 4)))
            section.facts = [self._of_same_party(fact) for fact in section.facts]
        if len(rule.facts) < 2 or rng.random() < 0.4:
            rule.add_decoys(self.setting, 1)
        sections = [rule, *bridges, *siblings]
        rng.shuffle(sections)
        if self.waived:
            # The exception names the section of its rule by number, which the shuffle has just decided.
            number = sections.index(rule) + 1
            label = self.setting.domain.style["reference"][0].format(n=number, a=chr(64 + number))
            reference = replace(self.waived, thing=Concept(f"section.{number}", (label,)))
            for section in sections:
                section.facts = [reference if fact is self.waived else fact for fact in section.facts]
        return sections

    def _of_same_party(self, fact: Fact) -> Fact:
        """Give most sibling rules the very party that the question names."""
        party = self.true.party
        swappable = isinstance(party, Concept) and isinstance(fact.party, Concept)
        if swappable and self.rng.random() < 0.6 and fact.kind != "scope":
            return replace(fact, party=party)
        return fact


Change = tuple[Fact, str, str]

_OPERATORS: dict[Status, tuple[Callable[[_Puzzle], Change | None], ...]] = {
    "contradicted": (_Puzzle.swap_value, _Puzzle.borrow_value, _Puzzle.prohibit),
    "overclaim": (
        _Puzzle.extend_to_everyone,
        _Puzzle.drop_exception,
        _Puzzle.drop_condition,
        _Puzzle.drop_new_exception,
    ),
    "unsupported": (_Puzzle.state_of_unlisted_party, _Puzzle.add_reason, _Puzzle.change_matter),
}
