"""Turning a rule round: an obligation into a choice, a ban into a permission, "will" into "will not". *Contradicted*."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from factgym.generators.corruption.base import Context, Corruption, Operator, in_main_clause

_CUE = re.compile(
    r"\b(?:must|shall|will|may not|cannot|can['’]t|can|won['’]t|do(?:es)? not|don['’]t|doesn['’]t|is|are)\b"
)
_BAN = re.compile(
    r"\b(?P<modal>must not|shall not|cannot|can not|can['’]t|may not|won['’]t|will not) (?P<verb>(?:be )?[a-z]+)\b"
)
_BAN_TO = {"must not": "may", "shall not": "may", "may not": "may", "won't": "will", "will not": "will"}
_NOT_BE = re.compile(
    r"\b(?P<be>is|are) not (?P<word>required|permitted|allowed|responsible|liable|entitled|eligible|obligated|obliged|prohibited)\b"
)
_DO_NOT = re.compile(r"\b(?P<subject>We|we|You|you|They|they) (?:do not|don['’]t) (?P<verb>[a-z]+)\b")
_DOES_NOT = re.compile(r"\b(?:does not|doesn['’]t) (?P<verb>[a-z]+)\b")
_DUTY = re.compile(r"\b(?P<modal>must|shall|will) (?P<verb>(?:be )?[a-z]+)\b")
_BE = re.compile(
    r"\b(?P<be>is|are) (?P<word>required to|responsible for|liable for|entitled to|eligible for|eligible to|allowed to|permitted to"
    r"|prohibited|obligated to)\b"
)
_CAN = re.compile(r"\b(?:can|may) (?P<verb>[a-z]+)\b")
_POSSIBLE_WORDS = (
    "be have apply always work know need want exist see only even contain include vary differ understand like "
    "read learn find view contact visit feel help refer expect"
)
_POSSIBLE = frozenset(_POSSIBLE_WORDS.split())
_NOT_A_DUTY_WORDS = (
    "not have mean include also always only never in at be deemed survive apply need want see find likely"
)
_NOT_A_DUTY = frozenset(_NOT_A_DUTY_WORDS.split())
_NOT_PASSIVE = re.compile(
    r"be (?:deemed|construed|interpreted|considered|governed|understood|binding|able|held|in|a|an|the|of|as|no|treated)\b"
)
_OPEN = re.compile(
    r"\b(?:only|until|unless|because|not|no|never|nor|neither|except|nothing|none|but|however|otherwise|or shall|or will|if any"
    r"|and shall|and will|and must|and may|and can|either|whichever|one of)\b|\bother than\b",
    re.I,
)
_STAYS_NEGATIVE = re.compile(
    r"\b(?:not only|nor|neither|unless|until|except|but|anymore|yet|at all|other than|never|and must not|and may not|and will not"
    r"|or may not|solely|if|beyond|more than|any longer|necessarily|either|even|just|always)\b",
    re.I,
)
_CHOICE = re.compile(r"\b(?:any|all|both|either|and/or|also|or|up to)\b")
_HEDGE = re.compile(r"\b(?:some|sometimes|certain|may be|might)\b")


class _Edit(NamedTuple):
    start: int
    end: int
    new: str


def _lifted(sentence: str) -> Iterator[_Edit]:
    """Negations removed."""
    if _STAYS_NEGATIVE.search(sentence):
        return
    for match in _BAN.finditer(sentence):
        verb = match["verb"]
        if match["modal"] == "may not" and (verb.startswith("be") or verb in _POSSIBLE):
            continue
        yield _Edit(*match.span(), f"{_BAN_TO.get(match['modal'].replace('’', chr(39)), 'can')} {verb}")
    for match in _NOT_BE.finditer(sentence):
        yield _Edit(*match.span(), f"{match['be']} {match['word']}")
    for match in _DO_NOT.finditer(sentence):
        if match["verb"] not in ("have", "need", "want"):
            yield _Edit(match.end("subject") + 1, match.end(), match["verb"])
    for match in _DOES_NOT.finditer(sentence):
        yield _Edit(*match.span(), f"does {match['verb']}")


def _imposed(sentence: str) -> Iterator[_Edit]:
    """Negations added."""
    for match in _DUTY.finditer(sentence):
        verb, modal = match["verb"], match["modal"]
        if verb in _NOT_A_DUTY or _NOT_PASSIVE.match(f"{verb} ") or _OPEN.search(sentence):
            continue
        if sentence[match.end() :].startswith(","):
            continue
        yield _Edit(*match.span(), f"need not {verb}" if modal == "must" else f"{modal} not {verb}")
    for match in _BE.finditer(sentence):
        if not _OPEN.search(sentence):
            yield _Edit(*match.span(), f"{match['be']} not {match['word']}")
    for match in _CAN.finditer(sentence):
        rest = sentence[match.end() :]
        if (
            match["verb"] in _POSSIBLE
            or match["verb"] in _NOT_A_DUTY
            or _OPEN.search(sentence)
            or _CHOICE.search(rest)
        ):
            continue
        negative = "cannot" if match[0].startswith("can") else "may not"
        yield _Edit(*match.span(), f"{negative} {match['verb']}")


def _flip(edits_of: Callable[[str], Iterator[_Edit]], sentence: str) -> Corruption | None:
    if sentence.startswith(("If ", "When ", "Unless ", "Where ")) and "," not in sentence:
        return None
    main = [edit for edit in edits_of(sentence) if in_main_clause(sentence[: edit.start])]
    if not main or _HEDGE.search(sentence):
        return None
    edit = main[0]
    old = sentence[edit.start : edit.end]
    text = sentence[: edit.start] + edit.new + sentence[edit.end :]
    return Corruption(
        text, "contradicted", edit.new, "polarity", f"The document says {old!r}, the opposite of {edit.new!r}."
    )


def reverse(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Takes the negation out of the main clause, or puts one in."""
    return _flip(_lifted, sentence) or _flip(_imposed, sentence)


POLARITY = Operator("polarity", "contradicted", _CUE, reverse)
