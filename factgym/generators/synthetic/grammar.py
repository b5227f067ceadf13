"""From words to sentences: frames, English forms, and the voice that chooses wordings.

A sentence frame is a string with `{slots}` and `[alternatives|like this]`, compiled once and filled many times. It names
its required slots, so that a chooser offers only frames for which the words exist. Span marks (two control characters)
survive filling: they delimit a slot's wording in the finished text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from factgym.generators.base import word_table
from factgym.generators.synthetic.facts import Action, Concept, Date, Phrase, Quantity, Term
from factgym.text.numbers import MONTH_NAMES, number_words

OPEN, CLOSE = "\x01", "\x02"

Node = str | tuple[str] | list[tuple["Node", ...]]
"""A literal, a slot `(name,)`, or a list of alternatives, each a sequence of nodes."""

_TOKEN = re.compile(r"\{([^}]*)\}|([\[|\]])|([^\[|\]{]+)")


@dataclass(frozen=True, slots=True)
class Frame:
    """A compiled frame. slots: every slot outside alternatives."""

    nodes: tuple[Node, ...]
    slots: frozenset[str]


@cache
def compile_frame(source: str) -> Frame:
    """Compile a frame. Raises ValueError for an unbalanced bracket."""
    # Each level of the stack is an open bracket: its alternatives, of which the last is being read.
    stack: list[list[list[Node]]] = [[[]]]
    for slot, bracket, literal in (match.groups() for match in _TOKEN.finditer(source)):
        if bracket == "[":
            stack.append([[]])
        elif bracket == "|":
            stack[-1].append([])
        elif bracket == "]" and len(stack) > 1:
            alternatives = [tuple(nodes) for nodes in stack.pop()]
            stack[-1][-1].append(alternatives)
        elif bracket:
            raise ValueError(f"unbalanced bracket in frame {source!r}")
        else:
            stack[-1][-1].append((slot,) if slot is not None else literal)
    if len(stack) > 1 or len(stack[0]) > 1:
        raise ValueError(f"unbalanced bracket in frame {source!r}")
    nodes = tuple(stack[0][0])
    return Frame(nodes, frozenset(node[0] for node in nodes if isinstance(node, tuple)))


def fill(frame: Frame, slot: Callable[[str], str], rng: random.Random) -> str:
    """Return the text of `frame`: one alternative drawn at each bracket, `slot(name)` for each slot.

    White space is normalised, with none before a comma or a full stop.
    """
    # A grammar without recursion, expanded from left to right, so that the order of the draws is fixed.
    text = "".join(_fill(frame.nodes, slot, rng))
    return " ".join(text.split()).replace(" ,", ",").replace(" .", ".")


def _fill(nodes: Sequence[Node], slot: Callable[[str], str], rng: random.Random) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, tuple):
            yield slot(node[0])
        else:
            yield from _fill(node[int(rng.random() * len(node))], slot, rng)


def draw_frame(options: Sequence[str], slot: Callable[[str], str], rng: random.Random) -> str:
    """Draw one of several frames and fill it."""
    return fill(compile_frame(rng.choice(options)), slot, rng)


def unmark(text: str) -> tuple[str, tuple[int, int] | None]:
    """Return `text` without its span marks, and the span of the first marked part, trimmed of spaces and commas."""
    start = text.find(OPEN)
    if start < 0:
        return text, None
    marked = text[start + 1 : text.index(CLOSE, start)]
    start += len(marked) - len(marked.lstrip(" ,"))
    return text.replace(OPEN, "").replace(CLOSE, ""), (start, start + len(marked.strip(" ,")))


# English forms: inflected verbs, nouns made of verbs.


@cache
def word_list(name: str) -> tuple[str, ...]:
    """Return a list of words of the table "english", in order."""
    return tuple(word_table("english")[name].split())


@cache
def word_map(name: str) -> dict[str, str]:
    """Return a list of "word:word" of the table "english" as a mapping."""
    return {first: second for first, _, second in (pair.partition(":") for pair in word_list(name))}


@cache
def participle(verb: str) -> str:
    """Return the past participle of a base form; a phrasal verb ("hand in") inflects its first word."""
    head, _, particle = verb.partition(" ")
    irregular = word_map("participle_of").get(head)
    if irregular:
        head = irregular
    elif head.endswith("e"):
        head += "d"
    elif head.endswith("y") and head[-2] not in "aeiou":
        head = head[:-1] + "ied"
    else:
        head += (head[-1] if head in word_list("doubling") else "") + "ed"
    return f"{head} {particle}".strip()


@cache
def gerund(verb: str) -> str:
    """Return the -ing form of a base form."""
    head, _, particle = verb.partition(" ")
    if head.endswith("ie"):
        head = head[:-2] + "y"
    elif head.endswith("e") and not head.endswith(("ee", "oe", "ye")) and head != "be":
        head = head[:-1]
    elif head in word_list("doubling"):
        head += head[-1]
    return f"{head}ing {particle}".strip()


@cache
def third_person(verb: str) -> str:
    """Return the third person singular of a base form."""
    head, _, particle = verb.partition(" ")
    if head in ("have", "be"):
        head = {"have": "has", "be": "is"}[head]
    elif head.endswith(("s", "sh", "ch", "x", "z", "o")):
        head += "es"
    elif head.endswith("y") and head[-2] not in "aeiou":
        head = head[:-1] + "ies"
    else:
        head += "s"
    return f"{head} {particle}".strip()


def noun_of(verb: str) -> str | None:
    """Return the noun of action ("submission"), or None where English has no natural one."""
    return word_map("noun_of").get(verb)


def sentence_case(text: str) -> str:
    """Return `text` with its first letter upper-cased, span marks and quotation marks before it skipped."""
    for at, char in enumerate(text):
        if char.isalnum() or char in "$£€":
            return text[:at] + char.upper() + text[at + 1 :]
    return text


# Voices: the wording habits of a document or an answer.

_SINGULAR = ("every ", "each ", "any", "everyone", "everybody", "whoever", "the entire ", "the whole ", "no ")


@dataclass(slots=True)
class Voice:
    """Chooses wordings. A document's voice records them in `used`; a claim's voice reads `used` to word things anew.

    fresh: probability that a wording differs from the one in `used` where another exists. focus: the slots whose
    wording gets span marks. masked: every word of the lexicon becomes a letter, so that only the sentence's shape
    remains. numbers: "digits", "words" or "both" ("seven (7)"). dates: "dmy" or "mdy".
    """

    rng: random.Random
    style: Mapping[str, tuple[str, ...]]
    used: dict[str, int]
    fresh: float = 0.0
    record: bool = True
    focus: frozenset[str] = frozenset()
    masked: bool = False
    numbers: str = "digits"
    dates: str = "dmy"
    frames: dict[str, str] = field(default_factory=dict)

    def _index(self, name: str, count: int) -> int:
        """Draw the wording, out of `count`, of the concept `name`."""
        if count == 1:
            return 0
        previous = self.used.get(name)
        if previous is None:
            choice = int(self.rng.random() * count)
            if self.record:
                self.used[name] = choice
            return choice
        if self.rng.random() >= self.fresh:
            return previous
        choice = int(self.rng.random() * (count - 1))
        return choice + (choice >= previous)

    def word(self, concept: Concept | Term) -> str:
        """Return a wording of a concept; a term is its own wording."""
        if isinstance(concept, Term):
            return concept.name
        return "X" if self.masked else concept.forms[self._index(concept.id, len(concept.forms))]

    def party(self, concept: Concept | Term) -> tuple[str, bool]:
        """Return a wording of a party, and whether verbs after it take the plural."""
        text = self.word(concept)
        return text, concept.plural and not text.startswith(_SINGULAR)

    def phrase(self, action: Action) -> Phrase:
        """Return a wording of an action."""
        if self.masked:
            form = action.forms[0]
            return Phrase("do", "X" if form.obj else "", "Y" if form.tail else "")
        return action.forms[self._index(action.id, len(action.forms))]

    def habit(self, name: str) -> str:
        """Draw one of the style's options."""
        return self.rng.choice(self.style[name])

    def mark(self, slot: str, text: str) -> str:
        """Return `text` with span marks if this slot is in focus."""
        return f"{OPEN}{text}{CLOSE}" if slot in self.focus else text

    def quantity(self, value: Quantity | Term) -> str:
        """ "7 days", "seven working days", "seven (7) days", "$1,200", "5%"; a term by its name."""
        if isinstance(value, Term):
            return value.name
        if self.masked:
            return "N"
        if value.is_money:
            return f"{value.unit}{value.n:,}"
        if value.unit == "percent":
            return f"{value.n}%"
        number = str(value.n)
        if value.n <= 99 and self.numbers != "digits":
            number = number_words(value.n) + (f" ({number})" if self.numbers == "both" else "")
        return f"{number} {value.unit if value.n == 1 else value.unit + 's'}"

    def date(self, value: Date) -> str:
        """Return a date as "1 March 2024" or "March 1, 2024"."""
        month = MONTH_NAMES[value.month - 1]
        if self.masked:
            return "D"
        return f"{month} {value.day}, {value.year}" if self.dates == "mdy" else f"{value.day} {month} {value.year}"
