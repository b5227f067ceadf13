"""From drafts to a finished document: sections, decoys, the order of passages, and where each fact came to stand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import GoldFact
from factgym.generators.synthetic.adjuncts import Sentence, main_and_follow_ups
from factgym.generators.synthetic.facts import Fact, Kind, Term
from factgym.generators.synthetic.grammar import compile_frame, fill
from factgym.generators.synthetic.layout import Block, Layout, lay_out
from factgym.generators.synthetic.lexicon import Domain, Topic
from factgym.generators.synthetic.rules import Rulebook
from factgym.generators.synthetic.style import Voice

_DECOYS: tuple[tuple[Kind, float], ...] = (
    ("deadline", 3), ("notice", 1.5), ("may", 2), ("forbid", 1.5), ("approve", 1.5), ("cap", 1.5), ("keep", 1.3),
    ("every", 1.5), ("duty", 1.3), ("penalty", 1.2), ("state", 4),
)  # fmt: skip
_DECOY_KINDS = tuple(kind for kind, _ in _DECOYS)
_DECOY_WEIGHTS = tuple(weight for _, weight in _DECOYS)


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
    place = f"this {voice.style['section'][0]}"
    blocks = [Block(fact, tuple(word_fact(fact, voice, spread, place))) for fact in section.facts]
    for filler in section.fillers:
        text = fill(compile_frame(filler), lambda name: voice.style[name][0], voice.rng)
        blocks.append(Block(None, (Sentence(text, frozenset()),)))
    voice.rng.shuffle(blocks)
    return blocks


def word_fact(fact: Fact, voice: Voice, spread: float, place: str, preface: str = "") -> list[Sentence]:
    """A fact in sentences; statements come ready-made from the lexicon. preface: words before a claim's clause."""
    if fact.kind == "state":
        assert fact.thing is not None and not isinstance(fact.thing, Term)
        return [Sentence(voice.mark("whole", voice.word(fact.thing)), frozenset({"main"}))]
    return main_and_follow_ups(fact, voice, spread, place, preface)


def sections_for(topics: Sequence[Topic], rng: random.Random) -> list[Section]:
    """One section per topic given; the same topic twice gets two different headings."""
    used: dict[str, list[str]] = {}
    sections = []
    for topic in topics:
        headings = used.get(topic.id) or rng.sample(topic.headings, len(topic.headings))
        used[topic.id] = headings[1:]
        sections.append(Section(topic, headings[0]))
    return sections
