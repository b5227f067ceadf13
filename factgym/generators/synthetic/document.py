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
from factgym.generators.base import word_table
from factgym.generators.invented_names import organisation
from factgym.generators.synthetic.clause import Clause, frames, question_clause
from factgym.generators.synthetic.facts import Fact, Kind
from factgym.generators.synthetic.grammar import Voice, compile_frame, draw_frame, fill, sentence_case
from factgym.generators.synthetic.lexicon import Domain, Topic
from factgym.generators.synthetic.rules import Rulebook

# Clauses with their adjuncts.


class Sentence(NamedTuple):
    """A finished sentence (span marks still in it) and the slots that it states; "main" marks the core clause."""

    text: str
    slots: frozenset[str]


class Adjunct(NamedTuple):
    """An adjunct before its clause, after it, and as a sentence of its own; empty where it cannot have that position."""

    slot: str
    front: str
    end: str
    follow: str


def word_fact(fact: Fact, voice: Voice, spread: float, section_name: str, preface: str = "") -> list[Sentence]:
    """Word a fact in sentences; statements come ready-made from the lexicon.

    Adjuncts are placed greedily in their order: one before the clause, others at its end, the rest in sentences that
    follow. spread: probability that an adjunct moves to a sentence of its own (0 in claims). preface: words before a claim.
    """
    if fact.kind == "state":
        assert fact.thing is not None
        return [Sentence(voice.mark("whole", voice.word(fact.thing)), frozenset({"main"}))]
    rng = voice.rng
    inline_channel = fact.channel is not None and rng.random() >= spread
    core, fronted = Clause(fact, voice, inline_channel, section_name).text()
    slots = {"main"} | ({"channel"} if inline_channel else set())
    ends = 0
    follow: list[Sentence] = []
    tail = ""
    for slot, front, end, sentence in _adjuncts(fact, voice):
        if sentence and (rng.random() < spread or not (end or front)):
            follow.append(_sentence(sentence, slot))
        elif front and not fronted and (rng.random() < 0.4 or not end):
            core, fronted = f"{front}, {core}", True
            slots.add(slot)
        elif end and (ends < 2 or not sentence or not spread):
            # "… in, in cases where …" needs the comma.
            stutter = end.lstrip("\x01").startswith("in ") and (core + tail).rstrip("\x02").endswith(" in")
            comma = "," if ends or stutter else ""
            tail += end if end.startswith(",") else f"{comma} {end}"
            ends += 1
            slots.add(slot)
        else:
            follow.append(_sentence(sentence, slot))
    if fact.channel is not None and not inline_channel:
        channel = _adjunct("channel", "channel", voice.word(fact.channel), voice)
        follow.insert(0, _sentence(channel.follow, "channel"))
    if spread and not fronted and fact.kind != "define" and rng.random() < 0.05:
        core = f"{rng.choice(frames('lead')['section']).format(section=section_name)}, {core}"
    return [Sentence(finish(preface + core + tail), frozenset(slots)), *follow]


def finish(text: str) -> str:
    """Add a capital letter and a full stop."""
    text = sentence_case(text)
    return text if text.rstrip("\x02").endswith((".", "?", "!")) else text + "."


def _sentence(text: str, slot: str) -> Sentence:
    return Sentence(finish(text), frozenset({slot}))


def _adjuncts(fact: Fact, voice: Voice) -> Iterator[Adjunct]:
    """Word the adjuncts of a fact, in the order in which they are placed."""
    if fact.kind in ("define", "waive"):
        return
    if fact.exceptional:
        yield _adjunct("exceptional", "exceptional", "", voice)
    if fact.general:
        yield _adjunct("general", "general", "", voice)
    if fact.condition is not None:
        yield _adjunct("condition", "only" if fact.only else "condition", voice.word(fact.condition), voice)
    if fact.exception is not None:
        yield _adjunct("exception", "exception", voice.word(fact.exception), voice)
    if fact.universal:
        form = "never" if fact.modality == "must_not" else "universal"
        adjunct = _adjunct("universal", form, "", voice)
        yield adjunct if voice.focus else adjunct._replace(follow=_words("no_exception", "follow", "", voice))
    if fact.reason is not None:
        words = voice.word(fact.reason)
        form = "purpose" if words.startswith("to ") else "cause"
        yield _adjunct("reason", f"sole_{form}" if fact.sole else form, words.removeprefix("because "), voice)
    if fact.former is not None and fact.changed is not None:
        words = _words("former", "follow", "", voice)
        noun = "limit" if fact.former.is_money else "period"
        words = words.format(noun=noun, old=voice.quantity(fact.former), date=voice.date(fact.changed))
        yield Adjunct("former", "", "", words)
    if fact.excluded is not None:
        words = _words("excluded", "follow", "", voice)
        yield Adjunct("excluded", "", "", words.format(x=voice.word(fact.excluded)))


def _adjunct(slot: str, form: str, words: str, voice: Voice) -> Adjunct:
    """Word an adjunct in all the positions of its form; the marks of a span go after a leading comma, not around it."""
    texts = {}
    # The order of the draws, which decides every generated item, differs for causes alone.
    for position in ("end", "front", "follow") if form == "cause" else ("front", "end", "follow"):
        texts[position] = _words(form, position, words, voice)
    front, end = texts["front"], texts["end"]
    comma = ", " if end.startswith(", ") else ""
    return Adjunct(
        slot,
        voice.mark(slot, front) if front else "",
        comma + voice.mark(slot, end.removeprefix(comma)) if end else "",
        texts["follow"],
    )


def _words(form: str, position: str, words: str, voice: Voice) -> str:
    """Draw the wording of an adjunct; "" where it has none in this position. Slots but {x} stay."""
    options = word_table("frames")["adjunct"][form].get(position)
    if not options:
        return ""
    return draw_frame(options, lambda name: words if words and name == "x" else f"{{{name}}}", voice.rng)


# Layout: prose, numbered or lettered clauses, bullets, questions and answers, or a memo; with exact offsets.

Form = Literal["prose", "numbered", "lettered", "bullets", "faq", "memo"]


class Layout(NamedTuple):
    """form: of all passages. title: format of a passage's title. label: index of the style's section label."""

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
    """Return the passage's text, and for each block the spans of its sentences in it."""
    # Offsets are taken while the text grows, so they are exact whatever the layout puts between the sentences.
    text = ""
    spans: list[list[tuple[int, int]]] = []
    for at, block in enumerate(blocks, 1):
        text += _lead(block, at, layout.form, number, heading, voice)
        spans.append([])
        for index, sentence in enumerate(block.sentences):
            text += " " if index else ""
            spans[-1].append((len(text), len(text) + len(sentence.text)))
            text += sentence.text
    return text, spans


def _lead(block: Block, at: int, form: Form, number: int, heading: str, voice: Voice) -> str:
    """Return the text before block number `at` (from 1) of passage `number`: a mark, a question, a subject line."""
    gap = "\n" if at > 1 else ""
    match form:
        case "numbered":
            return f"{gap}{number}.{at} "
        case "lettered":
            return f"{gap}({chr(96 + at)}) "
        case "bullets":
            return f"{gap}- "
        case "faq":
            question = "Is there anything else to know?"
            if block.fact is not None:
                question = sentence_case(question_clause(block.fact, voice, heading.lower())) + "?"
            return f"{gap}Q: {question}\nA: "
        case "memo" if at == 1:
            return f"Subject: {heading}\n\n"
    return " " if at > 1 else ""


# Documents.

_DECOYS: dict[Kind, float] = {
    "deadline": 3, "notice": 1.5, "may": 2, "forbid": 1.5, "approve": 1.5, "cap": 1.5, "keep": 1.3, "every": 1.5,
    "duty": 1.3, "penalty": 1.2, "state": 4,
}  # fmt: skip
"""Kinds of decoy rules with their weights."""


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
    """Plan of a passage: its topic and heading, the facts that it states, and sentences that state none."""

    topic: Topic
    heading: str
    facts: list[Fact] = field(default_factory=list)
    fillers: list[str] = field(default_factory=list)

    def add_decoys(self, setting: Setting, count: int) -> None:
        """Fill the section up with sibling rules of its topic and sentences that rule nothing."""
        book, fillers = setting.book, setting.domain.fillers
        for _ in range(count):
            if book.rng.random() < 0.1 and not self.fillers:
                self.fillers.append(book.filler(fillers))
                continue
            if self.facts and book.rng.random() < 0.1:
                extra = book.extra(self.topic, book.rng.choice(self.facts))
                self.facts += [extra] if extra else []
                continue
            kind = book.rng.choices(tuple(_DECOYS), tuple(_DECOYS.values()))[0]
            fact = book.fact(self.topic, kind, plain=book.rng.random() < 0.6)
            if fact is not None:
                self.facts.append(fact)
        if len(self.facts) + len(self.fillers) < 2:
            self.fillers.append(book.filler(fillers))


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """The position of a fact's sentence in the document, and the slots that it states."""

    fact: GoldFact
    slots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Document:
    """A finished document. placed: for each fact, its sentences in order."""

    org: str
    title: str
    passages: tuple[Passage, ...]
    placed: dict[Fact, tuple[PlacedSentence, ...]]


def render(
    setting: Setting, title: str, sections: Sequence[Section], voice: Voice, layout: Layout, spread: float
) -> Document:
    """Word all sections in one voice; section k becomes passage "Ek"."""
    passages = []
    placed: dict[Fact, tuple[PlacedSentence, ...]] = {}
    section_name = f"this {voice.style['section'][0]}"
    for number, section in enumerate(sections, 1):
        blocks = [Block(fact, tuple(word_fact(fact, voice, spread, section_name))) for fact in section.facts]
        for filler in section.fillers:
            text = fill(compile_frame(filler), lambda name: voice.style[name][0], voice.rng)
            blocks.append(Block(None, (Sentence(text, frozenset()),)))
        voice.rng.shuffle(blocks)
        text, spans = lay_out(blocks, layout, number, section.heading, voice)
        label = voice.style["label"][layout.label].format(n=number, heading=section.heading, a=chr(64 + number))
        passage = Passage(f"E{number}", layout.title.format(org=setting.org, title=title, label=label), text)
        passages.append(passage)
        for block, ranges in zip(blocks, spans, strict=True):
            if block.fact is not None:
                placed[block.fact] = tuple(
                    PlacedSentence(GoldFact(passage.id, start, end), sentence.slots)
                    for sentence, (start, end) in zip(block.sentences, ranges, strict=True)
                )
    return Document(setting.org, title, tuple(passages), placed)


def sections_for(topics: Sequence[Topic], rng: random.Random) -> list[Section]:
    """Return one section per topic; two sections on the same topic get two different headings."""
    headings: dict[str, list[str]] = {}
    sections = []
    for topic in topics:
        unused = headings.get(topic.id) or rng.sample(topic.headings, len(topic.headings))
        headings[topic.id] = unused[1:]
        sections.append(Section(topic, unused[0]))
    return sections
