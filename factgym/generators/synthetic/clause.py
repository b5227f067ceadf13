"""From a fact to one clause or question: the choice of a frame, and the words for each slot that the frame names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter, methodcaller

from factgym.generators.base import word_table
from factgym.generators.synthetic.facts import Concept, Fact, Phrase, Quantity, Term, is_everyone
from factgym.generators.synthetic.grammar import (
    Frame,
    Voice,
    compile_frame,
    draw_frame,
    fill,
    gerund,
    noun_of,
    participle,
    third_person,
)
from factgym.text.words import words_in

_HEAD_ENDS = re.compile(r" (?:of|for|to|from|on|in|with|against|by|about|that|at|under|after|between) ")
_NO_PASSIVE: Mapping[str, tuple[str, ...]] = word_table("frames")["no_passive"]
_LASTING = words_in("stay remain park stand be work hold keep leave store carry")
_AGREEMENT = (("are", "is"), ("have", "has"), ("do", "does"), ("need", "needs"))


def frames(section: str) -> Mapping[str, tuple[str, ...]]:
    """Return the frames of a section of the table, by kind of fact or part of a clause."""
    table: Mapping[str, tuple[str, ...]] = word_table("frames")[section]
    return table


@cache
def _unfit_for_terms() -> frozenset[str]:
    """Frames in which the name of a period reads badly: "a cap of the Upper Limit"."""
    clauses = frames("clause")
    sources = (*clauses["cap"], *clauses["keep"])
    return frozenset(source.lstrip("^") for source in sources if "of {q}" in source or "{q} have" in source)


class Clause:
    """The wording of one fact in one voice.

    inline_channel: whether the channel is part of the verb phrase. plural: whether the party takes a plural verb.
    """

    def __init__(
        self, fact: Fact, voice: Voice, inline_channel: bool = False, section_name: str = "this section"
    ) -> None:
        self.fact = fact
        self.voice = voice
        self.section_name = section_name
        self.phrase = voice.phrase(fact.action) if fact.action else Phrase("", "", "")
        self.inline_channel = inline_channel and fact.channel is not None
        self._texts: dict[str, str] = {}
        self.plural = True
        if fact.party is not None:
            words, self.plural = voice.party(fact.party)
            self._texts["party"] = voice.mark("party", words)

    def text(self) -> tuple[str, bool]:
        """Return the clause without a capital or full stop, and whether it opens with an adjunct of its own."""
        fact, voice = self.fact, self.voice
        options = [source for source in frame_options(fact) if self._fits(source)]
        if is_everyone(fact.party):
            # "Every member must not" would deny too little.
            options = [source for source in options if "must not" not in source] or options
        marked = fact.exceptional or fact.general
        if "terse" in voice.style and voice.record and not marked and voice.rng.random() < 0.3:
            clipped = frames("terse").get(fact.kind, ()) if fact.modality != "should" else ()
            options = [source for source in clipped if self._fits(source)] or options
        if marked:
            options = [source for source in options if not source.startswith("^")]
        # A claim avoids the frame that the document used for the same rule, or its syntax would give the source away.
        previous = voice.frames.get(fact.about)
        if len(options) > 1 and previous in options:
            options = [source for source in options if source != previous]
        source = voice.rng.choice(options)
        if voice.record:
            voice.frames[fact.about] = source
        return fill(compile_frame(source.lstrip("^")), self.slot, voice.rng), source.startswith("^")

    def _fits(self, source: str) -> bool:
        """Whether there are words for every slot of the frame, and none that the frame cannot take."""
        frame: Frame = compile_frame(source.lstrip("^"))
        needs = frame.slots
        if isinstance(self.fact.quantity, Term) and source.lstrip("^") in _unfit_for_terms():
            return False
        if "for" in needs and frame.nodes[0] == ("for",) and not self.phrase.tail.startswith(("for ", "on ")):
            return False
        if not needs.isdisjoint(("obj", "pp", "is_o", "must_be", "nominal")):
            verb, obj, _ = self.phrase
            active = verb.count(" ") > 1 or verb in _NO_PASSIVE["verbs"] or verb.endswith(_NO_PASSIVE["endings"])
            if not obj or active or obj.startswith(_NO_PASSIVE["objects"]):
                return False
        if "nominal" in needs and noun_of(self.phrase.verb) is None:
            return False
        if self.fact.anchor is None and not needs.isdisjoint(("a", "from_a", "after_a", "before")):
            return False
        if self.fact.party is None and "party" in needs:
            return False
        if "freq_front" in needs:
            return self.slot("freq").lstrip("\x01").startswith(("every", "once", "twice"))
        return True

    def slot(self, name: str) -> str:
        """Return the words for a slot; "q:within" puts words before a quantity inside its span marks.

        "m:open" are words that carry the modality, "v:pay" a verb that agrees with the party. The words of a plain slot
        are drawn once for the whole clause.
        """
        kind, separator, words = name.partition(":")
        if separator:
            if kind == "m":
                return self.voice.mark("modality", words)
            return self.quantity(words) if kind == "q" else words if self.plural else third_person(words)
        if name not in self._texts:
            self._texts[name] = _SLOTS[name](self)
        return self._texts[name]

    def quantity(self, lead: str = "") -> str:
        """The quantity, with words before it."""
        assert self.fact.quantity is not None
        text = self.voice.quantity(self.fact.quantity)
        return self.voice.mark("quantity", f"{lead} {text}" if lead else text)

    def part(self, name: str) -> str:
        """A part of a clause that has frames of its own."""
        return draw_frame(frames("clause")[name], self.slot, self.voice.rng)

    def concept(self, slot: str) -> str:
        """The words of a slot that holds a concept or a term."""
        value: Concept | Term | None = getattr(self.fact, slot)
        assert value is not None
        return self.voice.mark(slot, self.voice.word(value))

    def modal(self, name: str) -> str:
        """A modal of the style, agreeing in number with the party, a passive one with the object."""
        text = self.voice.habit(name)
        plural = self.object_plural if name.endswith("_be") else self.plural
        for verb, singular in _AGREEMENT:
            text = text.replace(f"{{{verb}}}", verb if plural else singular)
        return self.voice.mark("modality", text)

    @property
    def object_plural(self) -> bool:
        """Whether the object's head noun is plural: marked so by a star, or by its ending."""
        obj = self.phrase.obj
        if obj.endswith("*") or obj.startswith(("a ", "an ", "one ", "each ")):
            return obj.endswith("*")
        head = _HEAD_ENDS.split(obj, maxsplit=1)[0]
        return head.endswith("s") and not head.endswith(("ss", "us", "is", "news"))

    @property
    def object(self) -> str:
        """The object, without its plural mark."""
        return self.phrase.obj.rstrip("*")

    @property
    def tail(self) -> str:
        """The part of the verb phrase after the object, with the channel where it is inline."""
        return " ".join([self.phrase.tail, *([self.concept("channel")] if self.inline_channel else [])])

    def verb_phrase(self, verb: str) -> str:
        """The action with its verb in a form."""
        return self.voice.mark("action", f"{verb} {self.object} {self.tail}".strip())

    @property
    def finite_verb(self) -> str:
        """The present tense of the verb, agreeing with the party."""
        verb = self.phrase.verb
        if not self.plural:
            return third_person(verb)
        return "are" if verb == "be" else verb

    @property
    def within(self) -> str:
        """The words of a deadline."""
        if isinstance(self.fact.quantity, Term):
            return self.part("within_term")
        return self.part("within" if self.fact.anchor else "within_alone")

    @property
    def result(self) -> str:
        """The consequence of a breach."""
        assert self.fact.result is not None
        text = self.voice.word(self.fact.result)
        if self.fact.quantity is not None:
            text = text.replace("{q}", self.quantity())
        return self.voice.mark("result", text)

    @property
    def value(self) -> str:
        """The value that a definition gives to its term."""
        slot = defined_slot(self.fact)
        return self.quantity() if slot in ("quantity", "money") else self.concept(slot)


def frame_options(fact: Fact) -> tuple[str, ...]:
    """Return the frames for a fact of this kind, modality and filled slots."""
    if fact.kind == "extra":
        return frames("extra")[fact.about.rpartition("+")[2]]
    if fact.kind == "define":
        return frames("define")[defined_slot(fact)]
    clauses = frames("clause")
    if fact.counts and not is_duration(fact):
        return tuple(source for source in clauses["cap"] if "{doing}" not in source)
    return clauses[_frame_set(fact)]


def _frame_set(fact: Fact) -> str:
    """The name of a fact's set of clause frames."""
    if fact.kind == "notice" and fact.quantity is not None:
        return "must_before"
    if fact.kind == "deadline" and fact.quantity is not None:
        if isinstance(fact.quantity, Term):
            return "must_term_timed"
        if fact.modality == "should":
            return "should_timed"
        return "must_timed" if fact.anchor else "must_timed_alone"
    if fact.modality == "must_not" and is_everyone(fact.party):
        return "must_not_all"
    if fact.kind in ("deadline", "notice", "may", "forbid", "every") and fact.frequency is None:
        return fact.modality
    if fact.kind == "scope":
        return "scope_yes" if fact.holds else "scope_no"
    return "cap_duration" if fact.counts else fact.kind


def is_duration(fact: Fact) -> bool:
    """Return whether a limit in days or hours is on how long something is done ("stay"), not on how much is taken."""
    return fact.action is not None and fact.action.forms[0].verb.split()[0] in _LASTING


def defined_slot(fact: Fact) -> str:
    """Return the slot that a definition fills: "party", "anchor", "authority", "condition", "quantity" or "money"."""
    if isinstance(fact.quantity, Quantity):
        return "money" if fact.quantity.is_money else "quantity"
    return next(slot for slot in ("party", "anchor", "authority", "condition") if getattr(fact, slot) is not None)


def question_clause(fact: Fact, voice: Voice, subject: str) -> str:
    """Return a question on a rule, without its capital and question mark; it never gives the rule's value away."""
    clause = Clause(fact, voice)
    kind = "may" if fact.kind == "forbid" else str(fact.kind)
    if fact.counts:
        kind = "cap_duration" if is_duration(fact) else "cap_count"
    questions = frames("question")
    words = {
        "subject": subject,
        "do_aux": "do" if clause.plural else "does",
        "be_aux": "are" if clause.plural else "is",
        "do_doc": "does",
    }
    options = questions.get(kind, questions["state"])
    return draw_frame(options, lambda name: words[name] if name in words else clause.slot(name), voice.rng)


_CONCEPTS = {
    "party": "party", "a": "anchor", "authority": "authority", "freq": "frequency", "freq_front": "frequency",
    "things": "thing", "event": "thing", "subject": "thing", "x": "exception",
}  # fmt: skip
_PARTS = ("before", "from_a", "after_a", "over")
_MODALS = ("must", "must_be", "may", "may_be", "should", "must_not", "must_not_be", "need_not")
_SLOTS: dict[str, Callable[[Clause], str]] = {
    **{name: methodcaller("concept", slot) for name, slot in _CONCEPTS.items()},
    **{name: methodcaller("part", name) for name in _PARTS},
    **{name: methodcaller("modal", name) for name in _MODALS},
    **{name: attrgetter(name) for name in ("within", "result", "value")},
    "q": lambda clause: clause.quantity(),
    "date": lambda clause: clause.voice.mark("date", clause.voice.date(clause.fact.date)) if clause.fact.date else "",
    "vp": lambda clause: clause.verb_phrase(clause.phrase.verb),
    "ger": lambda clause: clause.verb_phrase(gerund(clause.phrase.verb)),
    "vp_present": lambda clause: clause.verb_phrase(clause.finite_verb),
    "vp_third": lambda clause: clause.verb_phrase(third_person(clause.phrase.verb)),
    "obj": attrgetter("object"),
    "pp": lambda clause: f"{participle(clause.phrase.verb)} {clause.tail}".strip(),
    "nominal": lambda clause: f"the {noun_of(clause.phrase.verb)} of {clause.object} {clause.tail}".strip(),
    "is_o": lambda clause: "are" if clause.object_plural else "is",
    "are": lambda clause: "are" if clause.plural else "is",
    "have": lambda clause: "have" if clause.plural else "has",
    "must_do": lambda clause: "has to",
    "do": attrgetter("phrase.verb"),
    "doing": lambda clause: gerund(clause.phrase.verb),
    "do_present": attrgetter("finite_verb"),
    "for": attrgetter("phrase.tail"),
    "per": attrgetter("fact.per"),
    "here": attrgetter("section_name"),
    "here_obj": attrgetter("section_name"),
    "term": lambda clause: clause.fact.term.name.removeprefix("the ") if clause.fact.term else "",
    "term_the": lambda clause: clause.fact.term.name if clause.fact.term else "",
    "section": lambda clause: clause.voice.habit("section"),
    "document": lambda clause: clause.voice.habit("document"),
}
"""The words of each slot."""
