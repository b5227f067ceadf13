"""What is added to a clause: conditions, exceptions, reasons, universal words; before it, after it, or in a next sentence.

A document spreads a rule over one to three sentences; a claim is always one sentence. Each rendered sentence carries
the names of the slots that it states, so that the sentences which decide a claim are known exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from factgym.generators.synthetic.clause import Clause
from factgym.generators.synthetic.facts import Concept, Fact, Quantity
from factgym.generators.synthetic.grammar import compile_frame, fill
from factgym.generators.synthetic.style import Voice
from factgym.generators.synthetic.words import sentence_case


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


def main_and_follow_ups(fact: Fact, voice: Voice, spread: float, place: str, preface: str = "") -> list[Sentence]:
    """A fact in sentences. spread: probability that an adjunct moves to a sentence of its own (0 in claims)."""
    rng = voice.rng
    inline_channel = fact.channel is not None and rng.random() >= spread
    clause = Clause(fact, voice, inline_channel, place)
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
        core = f"{rng.choice(_LEADS).format(place=place)}, {core}"
    return [Sentence(finish(preface + core + tail), frozenset(slots)), *follow]


_LEADS = ("under {place}", "for the purposes of {place}", "for the avoidance of doubt", "in keeping with {place}")


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
