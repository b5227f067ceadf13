"""The honest baseline of `corver-qa-search`: searches, reads off the answer by rules, and says what it read.

It sees the messages alone. Its rules know how encyclopedias put things ("a novel by …", "born in …"); which rule is
asked for it takes from the words of the question. Where no passage about the subject says it, it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from factgym.core.messages import Message, ToolSchema
from factgym.envs.corver.agents.script import Finish, Known, Lore, honest

_NAME = r"([A-Z]\w*(?: [A-Z]\w*)*)"
_SUBJECT = re.compile(r"[A-Z]\w*(?: [A-Z]\w*)*")
_RESULT = re.compile(r"<result [^>]*>\n(.*?)\n</result>", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MOST_SEARCHES = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """cue: stands in the question. found: the answer in a sentence about the subject, first match first. states: two
    sentences with {s} and {o}."""

    cue: re.Pattern[str]
    found: tuple[re.Pattern[str], ...]
    states: tuple[str, str]


def _rule(cue: str, found: Sequence[str], *states: str) -> Rule:
    patterns = tuple(re.compile(one.replace("NAME", _NAME).replace("YEAR", r"(\d{4})")) for one in found)
    return Rule(re.compile(cue), patterns, (states[0], states[-1]))


_RULES = (
    _rule("libretto", [r"(?:libretto|words) by NAME"], "{o} wrote the libretto of {s}.", "{s} has a libretto by {o}."),
    _rule("composed|composer", [r"(?:opera|music) by NAME"], "{s} was composed by {o}.", "{o} composed the opera {s}."),
    _rule("wrote|writer|author", [r"novel by NAME", r"which NAME wrote"], "{s} was written by {o}.", "{o} wrote the novel {s}."),
    _rule("year.*published|first appear", [r"published (?:by .+? )?in YEAR", r"[Ii]n YEAR"],
          "{s} was first published in {o}.", "{s} first appeared in {o}."),
    _rule("set\\?|story|take place", [r"set in NAME", r"takes place in NAME"], "{s} is set in the town of {o}.", "{s} takes place in {o}."),
    _rule("publish", [r"published (?:in YEAR )?by NAME".replace("YEAR", r"\d{4}"), r"house of NAME"],
          "{s} was first published by {o}.", "{o} brought out the novel {s}."),
    _rule("town was|birthplace", [r"born in NAME", r"the town of NAME"], "{s} was born in the town of {o}.", "{s} came from {o}."),
    _rule("year.*b(?:orn|irth)", [r"[Bb]orn in (?:[A-Z]\w* in )?YEAR"], "{s} was born in the year {o}.", "{s} was born in {o}."),
    _rule("university", [r"(?:studied at|attended) NAME"], "{s} studied for some years at {o}.", "{s} attended {o}."),
    _rule("prize", [r"received the NAME", r"The NAME went to"], "{s} was awarded the {o}.", "{s} received the {o}."),
    _rule("province", [r"province of NAME", r"a town of NAME", r"town of \w+ in NAME"], "{s} lies in the province of {o}.", "{s} belongs to {o}."),
    _rule("river", [r"(?:on the|The) (River \w+)"], "{s} lies on the banks of the {o}.", "{s} lies on the {o}."),
    _rule("town hall", [r"town hall by NAME", r"town hall that NAME designed", r"hall NAME built"],
          "{o} designed the town hall of {s}.", "{s} has a town hall by {o}."),
    _rule("year.*premiere|When.*first performed", [r"first performed in NAME in YEAR".replace("NAME", r"\w+")],
          "{s} was first performed in {o}.", "{s} had its premiere in {o}."),
    _rule("premiere|first performed", [r"first performed in NAME"], "{s} was first performed in {o}.", "{s} had its premiere in {o}."),
    _rule("year.*founded|[Ww]hen was.*(?:founded|established)", [r"[Ff]ounded in YEAR", r"dates from YEAR", r"founded in YEAR"],
          "{s} was founded as a town in {o}.", "{s} dates from {o}."),
    _rule("headquarters|based", [r"based in NAME", r"headquarters in NAME"], "{s} has its headquarters in {o}.", "{s} is based in {o}."),
    _rule("brand", [r"the brand NAME"], "{s} sells the brand {o}.", "{o} is the brand of {s}."),
    _rule("founded|established", [r"that NAME founded", r"[Ff]ounded in \d{4} by NAME"], "{s} was founded by {o}.", "{o} founded the company {s}."),
)  # fmt: skip
"""The first whose cue stands in the question holds."""


def subject_of(question: str) -> str:
    """What a question asks about: its last name, its first word left out."""
    found = _SUBJECT.findall(question.partition(" ")[2])
    return found[-1] if found else ""


def read_off(question: str, passages: Sequence[str]) -> Known | None:
    """The answer as the passages say it, None where none does."""
    subject = subject_of(question)
    rule = next((one for one in _RULES if one.cue.search(question)), None)
    if rule is None or not subject:
        return None
    for sentence in (one for text in passages for one in _SENTENCE.split(text) if subject in one):
        for pattern in rule.found:
            match = pattern.search(sentence)
            if match is not None and match[1] != subject:
                first, second = (form.format(s=subject, o=match[1]) for form in rule.states)
                return Known(match[1], first, second)
    return None


class Searcher:
    """Searches for the question, then for its subject, then gives up; `finish` writes what it knows by then."""

    def __init__(self, lore: Lore, finish: Finish = honest) -> None:
        self._lore = lore
        self._finish = finish

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The next search, or the completion."""
        question = next(message["content"] or "" for message in messages if message["role"] == "user")
        replies = [message["content"] or "" for message in messages[2:] if message["role"] != "assistant"]
        known = read_off(question, [text for reply in replies for text in _RESULT.findall(reply)])
        queries = list(dict.fromkeys(one for one in (question, subject_of(question)) if one))[:_MOST_SEARCHES]
        if known is None and len(replies) < len(queries):
            return f"<search>{queries[len(replies)]}</search>"
        return self._finish(known, self._lore)
