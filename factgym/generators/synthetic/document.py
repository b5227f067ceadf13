"""From facts to a finished document: sentences, the layout of passages, sections, and the offsets of each fact.

A document spreads a rule over one to three sentences: conditions, exceptions, reasons and universal words come before
the clause, after it, or in a sentence of their own. A claim is always one sentence. Each rendered sentence carries the
names of the slots that it states, so that the sentences which decide a claim are known exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import GoldFact
from factgym.generators.invented_names import organisation
from factgym.generators.synthetic.clause import Clause
from factgym.generators.synthetic.facts import Concept, Fact, Kind, Quantity, Term
from factgym.generators.synthetic.grammar import Voice, compile_frame, fill, sentence_case
from factgym.generators.synthetic.lexicon import Domain, Topic
from factgym.generators.synthetic.questions import question_clause
from factgym.generators.synthetic.rules import Rulebook

# Clauses with their adjuncts.


class Sentence(NamedTuple):
    """A finished sentence (span marks still in it) and the slots that it states; "main" marks the core clause."""

    text: str
    slots: frozenset[str]


class Piece(NamedTuple):
    """One adjunct in its three possible places; an empty string means that the place is not possible."""

    slot: str
    front: str
    end: str
    follow: str


def main_and_follow_ups(
    fact: Fact, voice: Voice, spread: float, section_name: str, preface: str = ""
) -> list[Sentence]:
    """A fact in sentences. spread: probability that an adjunct moves to a sentence of its own (0 in claims)."""
    rng = voice.rng
    inline_channel = fact.channel is not None and rng.random() >= spread
    clause = Clause(fact, voice, inline_channel, section_name)
    core, fronted = clause.text()
    slots = {"main"} | ({"channel"} if inline_channel else set())
    ends = 0
    follow: list[Sentence] = []
    tail = ""
    for piece in _pieces(fact, voice):
        if piece.follow and (rng.random() < spread or not (piece.end or piece.front)):
            follow.append(_sentence(piece.follow, piece.slot))
        elif piece.front and not fronted and (rng.random() < 0.4 or not piece.end):
            core, fronted = f"{piece.front}, {core}", True
            slots.add(piece.slot)
        elif piece.end and (ends < 2 or not piece.follow or not spread):
            stutter = piece.end.lstrip("\x01").startswith("in ") and (core + tail).rstrip("\x02").endswith(" in")
            comma = "," if ends or stutter else ""
            tail += piece.end if piece.end.startswith(",") else f"{comma} {piece.end}"
            ends += 1
            slots.add(piece.slot)
        else:
            follow.append(_sentence(piece.follow, piece.slot))
    if fact.channel is not None and not inline_channel:
        follow.insert(0, _sentence(_channel_sentence(fact.channel, voice), "channel"))
    if spread and not fronted and fact.kind != "define" and rng.random() < 0.05:
        core = f"{rng.choice(_LEADS).format(section=section_name)}, {core}"
    return [Sentence(finish(preface + core + tail), frozenset(slots)), *follow]


_LEADS = (
    "under {section}",
    "for the purposes of {section}",
    "for the avoidance of doubt",
    "in keeping with {section}",
)


def finish(text: str) -> str:
    """A capital letter and a full stop."""
    text = sentence_case(text)
    return text if text.rstrip("\x02").endswith((".", "?", "!")) else text + "."


def _sentence(text: str, slot: str) -> Sentence:
    return Sentence(finish(text), frozenset({slot}))


def _pieces(fact: Fact, voice: Voice) -> Iterator[Piece]:
    if fact.kind in ("define", "waive"):
        return
    if fact.exceptional:
        yield Piece("exceptional", voice.rng.choice(_EXCEPTIONALLY), "", "")
    if fact.general:
        yield Piece("general", voice.mark("general", voice.rng.choice(_GENERALLY)), "", "")
    if fact.condition is not None:
        yield _condition(fact, voice)
    if fact.exception is not None:
        yield _exception(fact.exception, voice)
    if fact.universal:
        yield _universal(voice, fact.modality == "must_not")
    if fact.reason is not None:
        yield _reason(fact.reason, voice, fact.sole)
    if fact.former is not None and fact.kind != "define":
        yield Piece("former", "", "", _former(fact, voice))
    if fact.excluded is not None:
        yield Piece("excluded", "", "", _draw(voice.rng, _EXCLUDED).format(x=voice.word(fact.excluded)))


_EXCEPTIONALLY = ("by way of exception", "exceptionally", "as an exception", "as a narrow exception")
_GENERALLY = ("as a general rule", "in the ordinary course", "as a matter of routine", "generally")
_ALWAYS_FRONT = ("in every case", "without exception", "in all circumstances", "invariably")
_ALWAYS_END = (
    ", in every case",
    ", without exception",
    ", in all circumstances",
    ", whatever the circumstances",
    ", in each and every case",
)
_ALWAYS_FOLLOW = (
    "there are no exceptions to [this|this rule]",
    "no exception [is made|is granted|can be made]",
    "this [holds|applies] in [every case|all circumstances|each and every case]",
    "[nothing|no circumstance] [excuses|justifies] a departure from this",
    "the rule [has|knows] no exceptions",
)
_NEVER_END = (", whatever the circumstances", ", regardless of the circumstances", "at any time", "on any account")
_EXCLUDED = (
    "[this|the rule] does not [extend|apply] to {x}",
    "{x} [are excluded|cannot rely on this]",
    "the position is different for {x}, to whom this does not apply",
    "{x} have no such [option|possibility]",
)


def _draw(rng: random.Random, options: tuple[str, ...]) -> str:
    """One option with its alternatives drawn; `{x}` and its like are kept."""
    return fill(compile_frame(rng.choice(options)), lambda name: "{" + name + "}", rng)


def _place(rng: random.Random, options: tuple[str, ...], words: str) -> str:
    return _draw(rng, options).replace("{x}", words) if options else ""


def _condition(fact: Fact, voice: Voice) -> Piece:
    assert fact.condition is not None
    rng, slot = voice.rng, "condition"
    words = voice.word(fact.condition)
    front, end, follow = (_ONLY_FRONT, _ONLY_END, _ONLY_FOLLOW) if fact.only else (_IF_FRONT, _IF_END, _IF_FOLLOW)
    return Piece(
        slot,
        voice.mark(slot, _place(rng, front, words)) if front else "",
        _marked_end(slot, _place(rng, end, words), voice),
        _place(rng, follow, words),
    )


_IF_FRONT = ("[if|where|provided that|as long as] {x}", "in cases where {x}", "on condition that {x}")
_IF_END = ("[if|where|, provided that|as long as|on condition that] {x}", "in cases where {x}")
_IF_FOLLOW = (
    "this [applies|holds] [if|where|provided that] {x}",
    "the rule is limited to cases where {x}",
    "the condition is that {x}",
    "that is so provided that {x}",
)
_ONLY_FRONT: tuple[str, ...] = ()
_ONLY_END = ("only [if|where|once] {x}", "but only [if|where|once] {x}", "only on condition that {x}")
_ONLY_FOLLOW = (
    "this is possible only [if|where|once] {x}",
    "the [one|sole] condition is that {x}",
    "it takes effect only [if|where|once] {x}",
    "[everything|all of this] depends on one condition: {x}",
)


def _exception(exception: Concept, voice: Voice) -> Piece:
    rng, slot = voice.rng, "exception"
    words = voice.word(exception)
    return Piece(
        slot,
        voice.mark(slot, _place(rng, ("unless {x}", "except where {x}", "save where {x}"), words)),
        _marked_end(
            slot, _place(rng, ("unless {x}", ", unless {x}", "except where {x}", ", except where {x}"), words), voice
        ),
        _place(rng, _EXCEPT_FOLLOW, words),
    )


_EXCEPT_FOLLOW = (
    "this does not apply [where|if|when] {x}",
    "an exception is made [where|if|when] {x}",
    "[where|if] {x}, [this|the rule] does not apply",
    "it is otherwise [where|if] {x}",
    "the only exception is the case where {x}",
    "the rule gives way [where|if|when] {x}",
)


def _universal(voice: Voice, negative: bool) -> Piece:
    """ "In every case" after a negation would deny too little, so prohibitions have words of their own."""
    front = "" if negative else voice.mark("universal", voice.rng.choice(_ALWAYS_FRONT))
    end = _marked_end("universal", voice.rng.choice(_NEVER_END if negative else _ALWAYS_END), voice)
    return Piece("universal", front, end, "" if voice.focus else _draw(voice.rng, _ALWAYS_FOLLOW))


def _marked_end(slot: str, text: str, voice: Voice) -> str:
    """Span marks after a leading comma, not around it."""
    return ", " + voice.mark(slot, text[2:]) if text.startswith(", ") else voice.mark(slot, text)


def _reason(reason: Concept, voice: Voice, sole: bool) -> Piece:
    rng, slot = voice.rng, "reason"
    words = voice.word(reason)
    if words.startswith("to "):
        return _purpose(words, voice, sole)
    cause = words.removeprefix("because ")
    if sole:
        return Piece(
            slot, "", "", _place(rng, ("the [sole|only] reason [for this|for this rule] is that {x}",), cause)
        )
    end = _marked_end(
        slot, _place(rng, ("because {x}", ", because {x}", "since {x}", "seeing that {x}"), cause), voice
    )
    front = voice.mark(slot, _place(rng, ("because {x}", "since {x}", "as {x}"), cause))
    return Piece(slot, front, end, _place(rng, ("the reason is that {x}", "this is because {x}"), cause))


def _purpose(words: str, voice: Voice, sole: bool) -> Piece:
    rng, slot = voice.rng, "reason"
    if sole:
        return Piece(slot, "", "", _place(rng, ("the [sole|only] [purpose|aim] of [this|this rule] is {x}",), words))
    front = voice.mark(slot, rng.choice(("", "in order ")) + words)
    end = _marked_end(slot, rng.choice(("so as ", ", in order ", ", so as ")) + words, voice)
    return Piece(slot, front, end, _place(rng, _PURPOSE_FOLLOW, words))


_PURPOSE_FOLLOW = (
    "this is [meant|intended|designed] {x}",
    "the [purpose|aim|point] of [this|the rule] is {x}",
    "the rule exists {x}",
)


def _channel_sentence(channel: Concept, voice: Voice) -> str:
    return _place(voice.rng, _CHANNEL_FOLLOW, voice.word(channel))


_CHANNEL_FOLLOW = ("[this|it] [is done|is to be done|must be done] {x}", "that happens {x}", "the way to do so is {x}")


def _former(fact: Fact, voice: Voice) -> str:
    assert isinstance(fact.former, Quantity) and fact.changed is not None
    noun = "limit" if fact.former.unit in "$£€" else "period"
    text = _draw(voice.rng, _FORMER)
    return text.format(noun=noun, old=voice.quantity(fact.former), date=voice.date(fact.changed))


_FORMER = (
    "[until|before] {date}, the {noun} was {old}",
    "the [former|previous|earlier] {noun} of {old} [lapsed|ceased to apply|was withdrawn] on {date}",
    "this replaces the {noun} of {old} that [applied|was in force] until {date}",
    "the {noun} of {old} given in [the previous version|earlier versions] has not applied since {date}",
    "{old} was the {noun} in the version that was superseded on {date}",
)


# Layout: prose, numbered or lettered clauses, bullets, questions and answers, or a memo; with exact offsets.

Form = Literal["prose", "numbered", "lettered", "bullets", "faq", "memo"]


class Layout(NamedTuple):
    """form: see the module. title: format of a passage's title. label: index of the style's section label."""

    form: Form
    title: str
    label: int


class Block(NamedTuple):
    """The sentences of one fact (or of a filler, when `fact` is None)."""

    fact: Fact | None
    sentences: tuple[Sentence, ...]


def lay_out(
    blocks: Sequence[Block], layout: Layout, number: int, heading: str, voice: Voice
) -> tuple[str, list[list[tuple[int, int]]]]:
    """The passage's text, and for each block the ranges of its sentences in it."""
    text = ""
    spans: list[list[tuple[int, int]]] = []
    for at, (block, lead) in enumerate(zip(blocks, _leads(blocks, layout.form, number, heading, voice), strict=True)):
        text += lead if at or lead.strip() else ""
        ranges = []
        for index, sentence in enumerate(block.sentences):
            text += " " if index else ""
            ranges.append((len(text), len(text) + len(sentence.text)))
            text += sentence.text
        spans.append(ranges)
    return text, spans


def _leads(blocks: Sequence[Block], form: Form, number: int, heading: str, voice: Voice) -> Iterator[str]:
    """What stands before each block."""
    for at, block in enumerate(blocks, 1):
        gap = "\n" if at > 1 else ""
        if form == "numbered":
            yield f"{gap}{number}.{at} "
        elif form == "lettered":
            yield f"{gap}({chr(96 + at)}) "
        elif form == "bullets":
            yield f"{gap}- "
        elif form == "faq":
            yield f"{gap}Q: {_faq(block, heading, voice)}\nA: "
        elif form == "memo" and at == 1:
            yield f"Subject: {heading}\n\n"
        else:
            yield " "


def _faq(block: Block, heading: str, voice: Voice) -> str:
    if block.fact is None:
        return "Is there anything else to know?"
    return sentence_case(question_clause(block.fact, voice, heading.lower())) + "?"


# Documents.

_DECOYS: tuple[tuple[Kind, float], ...] = (
    ("deadline", 3), ("notice", 1.5), ("may", 2), ("forbid", 1.5), ("approve", 1.5), ("cap", 1.5), ("keep", 1.3),
    ("every", 1.5), ("duty", 1.3), ("penalty", 1.2), ("state", 4),
)  # fmt: skip
_DECOY_KINDS = tuple(kind for kind, _ in _DECOYS)
_DECOY_WEIGHTS = tuple(weight for _, weight in _DECOYS)


@dataclass(slots=True)
class Setting:
    """The inputs that all parts of one example share. subtle: errors are close to the truth. masked: see `Voice`."""

    split: str
    seed: int
    index: int
    rng: random.Random
    domain: Domain
    book: Rulebook
    subtle: bool
    masked: bool = False

    @property
    def org(self) -> str:
        """The organisation's name."""
        return organisation(self.domain.businesses, self.split, self.seed, self.index)


@dataclass(slots=True)
class Section:
    """A passage to be: its topic and heading, the facts that it states, and sentences that state none."""

    topic: Topic
    heading: str
    facts: list[Fact] = field(default_factory=list)
    fillers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a sentence of a fact stands, and which slots it states."""

    fact: GoldFact
    slots: frozenset[str]
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A finished document. placed: for each fact, its sentences in order."""

    org: str
    title: str
    passages: tuple[Passage, ...]
    placed: dict[Fact, tuple[Placed, ...]]


def add_decoys(section: Section, book: Rulebook, domain: Domain, sentences: int) -> None:
    """Fill a section up with sibling rules of its topic and sentences that rule nothing."""
    for _ in range(sentences):
        if book.rng.random() < 0.1 and len(section.fillers) < 1:
            section.fillers.append(book.filler(domain.fillers))
            continue
        if section.facts and book.rng.random() < 0.1:
            extra = book.extra(section.topic, book.rng.choice(section.facts))
            section.facts += [extra] if extra else []
            continue
        kind = book.rng.choices(_DECOY_KINDS, _DECOY_WEIGHTS)[0]
        fact = book.fact(section.topic, kind, plain=book.rng.random() < 0.6)
        if fact is not None:
            section.facts.append(fact)
    if len(section.facts) + len(section.fillers) < 2:
        section.fillers.append(book.filler(domain.fillers))


def render(
    domain: Domain, org: str, title: str, sections: Sequence[Section], voice: Voice, layout: Layout, spread: float
) -> Document:
    """Word all sections in one voice; section k becomes passage "Ek"."""
    passages = []
    placed: dict[Fact, tuple[Placed, ...]] = {}
    for number, section in enumerate(sections, 1):
        blocks = _blocks(section, voice, spread)
        text, spans = lay_out(blocks, layout, number, section.heading, voice)
        label = voice.style["label"][layout.label].format(n=number, heading=section.heading, a=chr(64 + number))
        passage = Passage(f"E{number}", layout.title.format(org=org, title=title, label=label), text)
        passages.append(passage)
        for block, ranges in zip(blocks, spans, strict=True):
            if block.fact is not None:
                placed[block.fact] = tuple(
                    Placed(GoldFact(passage.id, start, end), sentence.slots, text[start:end])
                    for sentence, (start, end) in zip(block.sentences, ranges, strict=True)
                )
    return Document(org, title, tuple(passages), placed)


def _blocks(section: Section, voice: Voice, spread: float) -> list[Block]:
    section_name = f"this {voice.style['section'][0]}"
    blocks = [Block(fact, tuple(word_fact(fact, voice, spread, section_name))) for fact in section.facts]
    for filler in section.fillers:
        text = fill(compile_frame(filler), lambda name: voice.style[name][0], voice.rng)
        blocks.append(Block(None, (Sentence(text, frozenset()),)))
    voice.rng.shuffle(blocks)
    return blocks


def word_fact(fact: Fact, voice: Voice, spread: float, section_name: str, preface: str = "") -> list[Sentence]:
    """A fact in sentences; statements come ready-made from the lexicon. preface: words before a claim's clause."""
    if fact.kind == "state":
        assert fact.thing is not None and not isinstance(fact.thing, Term)
        return [Sentence(voice.mark("whole", voice.word(fact.thing)), frozenset({"main"}))]
    return main_and_follow_ups(fact, voice, spread, section_name, preface)


def sections_for(topics: Sequence[Topic], rng: random.Random) -> list[Section]:
    """One section per topic given; the same topic twice gets two different headings."""
    used: dict[str, list[str]] = {}
    sections = []
    for topic in topics:
        headings = used.get(topic.id) or rng.sample(topic.headings, len(topic.headings))
        used[topic.id] = headings[1:]
        sections.append(Section(topic, headings[0]))
    return sections
