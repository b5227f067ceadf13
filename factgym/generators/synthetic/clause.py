"""From a fact to one clause: the choice of a frame, and the words for each slot that the frame names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from factgym.generators.synthetic import frames
from factgym.generators.synthetic.facts import Concept, Fact, Phrase, Quantity, Term
from factgym.generators.synthetic.grammar import (
    Frame,
    Voice,
    compile_frame,
    fill,
    gerund,
    noun_of,
    participle,
    third_person,
)

_HEAD_ENDS = re.compile(r" (?:of|for|to|from|on|in|with|against|by|about|that|at|under|after|between) ")
_UNMOVABLE = ("their ", "its ", "his ", "your ", "that ", "part ", "days ", "fewer ", "more ", "work")
_ACTIVE_ONLY = frozenset(
    {
        "have",
        "be",
        "meet",
        "come to",
        "see",
        "visit",
        "put in",
        "come",
        "refuse",
        "get",
        "make",
        "give",
        "take",
        "let",
        "move about",
        "work",
    }
)
_NOUNS = (
    " of",
    " part in",
    " word",
    " notice",
    " will come",
    " for",
    " into",
    " at",
    " from",
    " between",
    " over",
    " through",
)


_LASTING = frozenset(["stay", "remain", "park", "stand", "be", "work", "hold", "keep", "leave", "store", "carry"])
_NOT_FOR_TERMS = tuple(
    compile_frame(source.lstrip("^")).nodes
    for source in (*frames.CAP, *frames.KEEP)
    if "of {q}" in source or "{q} have" in source
)


class Clause:
    """The wording of one fact in one voice; each slot is a method `_name`, looked up by name.

    inline_channel: whether the channel is said inside the verb phrase.
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
        """The clause without a capital or full stop, and whether it opens with an adjunct of its own."""
        options = [source for source in frame_options(self.fact) if self._fits(compile_frame(source.lstrip("^")))]
        if is_everyone(self.fact.party):
            options = [source for source in options if "must not" not in source] or options
        if self._may_be_terse() and self.voice.rng.random() < 0.3:
            clipped = frames.TERSE.get(self.fact.kind, ()) if self.fact.modality != "should" else ()
            options = [source for source in clipped if self._fits(compile_frame(source[1:]))] or options
        if self.fact.exceptional or self.fact.general:
            options = [source for source in options if not source.startswith("^")]
        last = self.voice.frames.get(self.fact.about)
        if len(options) > 1 and last in options:
            options = [source for source in options if source != last]
        source = self.voice.rng.choice(options)
        if self.voice.record:
            self.voice.frames[self.fact.about] = source
        return fill(compile_frame(source.lstrip("^")), self.slot, self.voice.rng), source.startswith("^")

    def _may_be_terse(self) -> bool:
        plain = not (self.fact.exceptional or self.fact.general)
        return "terse" in self.voice.style and self.voice.record and plain

    def _fits(self, frame: Frame) -> bool:
        needs = frame.slots
        if isinstance(self.fact.quantity, Term) and frame.nodes in _NOT_FOR_TERMS:
            return False
        if "for" in needs and frame.nodes[0] == ("for",) and not self.phrase.tail.startswith(("for ", "on ")):
            return False
        if not self._passive() and not needs.isdisjoint(("obj", "pp", "is_o", "must_be", "nominal")):
            return False
        if "nominal" in needs and noun_of(self.phrase.verb) is None:
            return False
        if self.fact.anchor is None and not needs.isdisjoint(("a", "from_a", "after_a", "before")):
            return False
        if self.fact.party is None and "party" in needs:
            return False
        return not (
            "freq_front" in needs and not self.slot("freq").lstrip("\x01").startswith(("every", "once", "twice"))
        )

    def _passive(self) -> bool:
        """Whether the object can become a subject: it exists, points at nobody, and the verb has no noun inside."""
        verb, obj, _ = self.phrase
        return (
            bool(obj)
            and verb.count(" ") < 2
            and not obj.startswith(_UNMOVABLE)
            and verb not in _ACTIVE_ONLY
            and not verb.endswith(_NOUNS)
        )

    def slot(self, name: str) -> str:
        """The words for a slot; "q:within" puts words before a quantity inside its span marks.

        "m:open" are words that carry the modality, "v:pay" a verb that agrees with the party.
        """
        if ":" in name:
            kind, _, words = name.partition(":")
            if kind == "m":
                return self.voice.mark("modality", words)
            return self._quantity(words) if kind == "q" else words if self.plural else third_person(words)
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = _SLOTS[name](self)
        return text

    def _quantity(self, lead: str = "") -> str:
        assert self.fact.quantity is not None
        text = self.voice.quantity(self.fact.quantity)
        return self.voice.mark("quantity", f"{lead} {text}" if lead else text)

    def _sub(self, options: Sequence[str]) -> str:
        return fill(compile_frame(self.voice.rng.choice(options)), self.slot, self.voice.rng)

    def _concept(self, slot: str, value: Concept | Term | None) -> str:
        assert value is not None
        return self.voice.mark(slot, self.voice.word(value))

    def _modal(self, name: str, plural: bool) -> str:
        return self.voice.mark("modality", _agree(self.voice.habit(name), plural))

    def _object_plural(self) -> bool:
        """Whether the object's head noun is plural: marked so, or by its ending."""
        obj = self.phrase.obj
        if obj.endswith("*") or obj.startswith(("a ", "an ", "one ", "each ")):
            return obj.endswith("*")
        head = _HEAD_ENDS.split(obj, maxsplit=1)[0]
        return head.endswith("s") and not head.endswith(("ss", "us", "is", "news"))

    def _obj(self) -> str:
        return self.phrase.obj.rstrip("*")

    def _tail(self) -> str:
        parts = [self.phrase.tail]
        if self.inline_channel and self.fact.channel:
            parts.append(self._concept("channel", self.fact.channel))
        return " ".join(parts)

    def _verb_phrase(self, verb: str) -> str:
        return self.voice.mark("action", f"{verb} {self._obj()} {self._tail()}".strip())

    def _within(self) -> str:
        if isinstance(self.fact.quantity, Term):
            return self._sub(frames.WITHIN_TERM)
        return self._sub(frames.WITHIN if self.fact.anchor else frames.WITHIN_ALONE)


def _agree(text: str, plural: bool) -> str:
    if "{" not in text:
        return text
    for verb, singular in (("are", "is"), ("have", "has"), ("do", "does"), ("need", "needs")):
        text = text.replace(f"{{{verb}}}", verb if plural else singular)
    return text


def frame_options(fact: Fact) -> tuple[str, ...]:
    """The frames for a fact of this kind, modality and filled slots."""
    if fact.kind in ("deadline", "notice") and fact.quantity is not None:
        return _timed_options(fact)
    if fact.modality == "must_not" and is_everyone(fact.party):
        return frames.MUST_NOT_ALL
    if fact.kind in ("deadline", "notice", "may", "forbid", "every") and fact.frequency is None:
        return _BY_MODALITY[fact.modality]
    if fact.kind == "scope":
        return frames.SCOPE_YES if fact.holds else frames.SCOPE_NO
    if fact.kind == "extra":
        return frames.EXTRA[fact.about.rpartition("+")[2]]
    if fact.kind == "cap" and isinstance(fact.quantity, Quantity) and fact.quantity.unit not in "$£€":
        return frames.CAP_DURATION if is_duration(fact) else frames.CAP_COUNT
    if fact.kind == "define":
        return frames.DEFINE[defined_slot(fact)]
    return _BY_KIND[fact.kind]


def is_everyone(party: Concept | Term | None) -> bool:
    """Whether a party is a topic's superset of all parties; "every member must not" says too little of it."""
    return isinstance(party, Concept) and party.id.endswith(".everyone")


def is_duration(fact: Fact) -> bool:
    """Whether a limit in days or hours is on how long something is done ("stay"), not on how much is taken."""
    return fact.action is not None and fact.action.forms[0].verb.split()[0] in _LASTING


def _timed_options(fact: Fact) -> tuple[str, ...]:
    if fact.kind == "notice":
        return frames.MUST_BEFORE
    if isinstance(fact.quantity, Term):
        return frames.MUST_TERM_TIMED
    if fact.modality == "should":
        return frames.SHOULD_TIMED
    return frames.MUST_TIMED if fact.anchor else frames.MUST_TIMED_ALONE


def _plain(slot: str) -> Callable[[Clause], str]:
    """A slot that says one concept of the fact."""

    def words(clause: Clause) -> str:
        return clause._concept(slot, getattr(clause.fact, slot))

    return words


def _thing(clause: Clause) -> str:
    return clause._concept("thing", clause.fact.thing)


def _modal(name: str) -> Callable[[Clause], str]:
    return lambda clause: clause._modal(name, clause.plural)


def _object_modal(name: str) -> Callable[[Clause], str]:
    return lambda clause: clause._modal(name, clause._object_plural())


def _agreeing(plural: str, singular: str) -> Callable[[Clause], str]:
    return lambda clause: plural if clause.plural else singular


def _participle_phrase(clause: Clause) -> str:
    return f"{participle(clause.phrase.verb)} {clause._tail()}".strip()


def _nominal(clause: Clause) -> str:
    return f"the {noun_of(clause.phrase.verb)} of {clause._obj()} {clause._tail()}".strip()


def _present(clause: Clause) -> str:
    return clause._verb_phrase(_finite(clause))


def _finite(clause: Clause) -> str:
    """The present tense of the verb, agreeing with the party."""
    verb = clause.phrase.verb
    if clause.plural:
        return "are" if verb == "be" else verb
    return third_person(verb)


def _result(clause: Clause) -> str:
    assert clause.fact.result is not None
    text = clause.voice.word(clause.fact.result)
    if clause.fact.quantity is not None:
        text = text.replace("{q}", clause._quantity())
    return clause.voice.mark("result", text)


def _date(clause: Clause) -> str:
    assert clause.fact.date is not None
    return clause.voice.mark("date", clause.voice.date(clause.fact.date))


def _defined(clause: Clause) -> str:
    """The value that a definition gives to its term."""
    slot = defined_slot(clause.fact)
    if slot in ("quantity", "money"):
        return clause._quantity()
    return clause._concept(slot, getattr(clause.fact, slot))


def defined_slot(fact: Fact) -> str:
    """Which slot a definition fills: "party", "anchor", "authority", "condition", "quantity" or "money"."""
    if isinstance(fact.quantity, Quantity):
        return "money" if fact.quantity.unit in "$£€" else "quantity"
    return next(slot for slot in ("party", "anchor", "authority", "condition") if getattr(fact, slot) is not None)


def _from_a(clause: Clause) -> str:
    return clause._sub(frames.FROM_A)


_SLOTS: dict[str, Callable[[Clause], str]] = {
    "party": _plain("party"),
    "a": _plain("anchor"),
    "authority": _plain("authority"),
    "freq": _plain("frequency"),
    "freq_front": _plain("frequency"),
    "things": _thing,
    "event": _thing,
    "subject": _thing,
    "result": _result,
    "date": _date,
    "q": lambda clause: clause._quantity(),
    "within": lambda clause: clause._within(),
    "before": lambda clause: clause._sub(frames.BEFORE),
    "from_a": _from_a,
    "after_a": lambda clause: clause._sub(("after {a}", "following {a}", "from {a}")),
    "over": lambda clause: clause.voice.rng.choice(("above", "over", "of more than", "exceeding", "worth more than")),
    "vp": lambda clause: clause._verb_phrase(clause.phrase.verb),
    "ger": lambda clause: clause._verb_phrase(gerund(clause.phrase.verb)),
    "vp_present": _present,
    "vp_third": lambda clause: clause._verb_phrase(third_person(clause.phrase.verb)),
    "obj": lambda clause: clause._obj(),
    "pp": _participle_phrase,
    "nominal": _nominal,
    "is_o": lambda clause: "are" if clause._object_plural() else "is",
    "are": _agreeing("are", "is"),
    "have": _agreeing("have", "has"),
    "must_do": lambda clause: "has to",
    "must": _modal("must"),
    "must_be": _object_modal("must_be"),
    "may": _modal("may"),
    "may_be": _object_modal("may_be"),
    "should": _modal("should"),
    "must_not": _modal("must_not"),
    "must_not_be": _object_modal("must_not_be"),
    "need_not": _modal("need_not"),
    "do": lambda clause: clause.phrase.verb,
    "doing": lambda clause: gerund(clause.phrase.verb),
    "do_present": _finite,
    "for": lambda clause: clause.phrase.tail,
    "per": lambda clause: clause.fact.per,
    "x": _plain("exception"),
    "here": lambda clause: clause.section_name,
    "here_obj": lambda clause: clause.section_name,
    "value": _defined,
    "term": lambda clause: clause.fact.term.name.removeprefix("the ") if clause.fact.term else "",
    "term_the": lambda clause: clause.fact.term.name if clause.fact.term else "",
    "section": lambda clause: clause.voice.habit("section"),
    "document": lambda clause: clause.voice.habit("document"),
}

_BY_MODALITY = {
    "must": frames.MUST,
    "should": ("{party} {should} {vp}", "it is [recommended|advisable] that {party} {vp}"),
    "may": frames.MAY,
    "must_not": frames.MUST_NOT,
    "need_not": frames.NEED_NOT,
}
_BY_KIND: dict[str, tuple[str, ...]] = {
    "every": frames.EVERY,
    "approve": frames.APPROVE,
    "cap": frames.CAP,
    "keep": frames.KEEP,
    "duty": frames.DUTY,
    "penalty": frames.PENALTY,
    "effective": frames.EFFECTIVE,
    "waive": frames.WAIVE,
}
