"""How a document or an answer is worded: its habits, the wordings already used, and which slot is to be marked."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from factgym.generators.synthetic.facts import Action, Concept, Date, Phrase, Quantity, Term
from factgym.generators.synthetic.grammar import CLOSE, OPEN
from factgym.generators.synthetic.words import date_text, number_words

_SINGULAR = ("every ", "each ", "any", "everyone", "everybody", "whoever", "the entire ", "the whole ", "no ")
_CURRENCIES = frozenset("$£€")


@dataclass(slots=True)
class Voice:
    """Chooses wordings. A document's voice records them in `used`; a claim's voice reads `used` to word things anew.

    fresh: probability that a wording differs from the one in `used` where another exists. focus: the slots whose
    wording gets span marks. masked: every word of the lexicon becomes a letter, so that only the sentence's shape is left. numbers: "digits", "words" or "both" ("seven (7)").
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

    def index(self, name: str, count: int) -> int:
        """Which of `count` wordings of the concept `name` to use."""
        if count == 1:
            return 0
        known = self.used.get(name)
        if known is None:
            choice = int(self.rng.random() * count)
            if self.record:
                self.used[name] = choice
            return choice
        if self.rng.random() >= self.fresh:
            return known
        other = int(self.rng.random() * (count - 1))
        return other + (other >= known)

    def word(self, concept: Concept | Term) -> str:
        """A wording of a concept; a term is its own wording."""
        if isinstance(concept, Term):
            return concept.name
        if self.masked:
            return "X"
        return concept.forms[self.index(concept.id, len(concept.forms))]

    def party(self, concept: Concept | Term) -> tuple[str, bool]:
        """A wording of a party, and whether verbs after it take the plural."""
        text = self.word(concept)
        return text, concept.plural and not text.startswith(_SINGULAR)

    def phrase(self, action: Action) -> Phrase:
        """A wording of an action."""
        if self.masked:
            form = action.forms[0]
            return Phrase("do", "X" if form.obj else "", "Y" if form.tail else "")
        return action.forms[self.index(action.id, len(action.forms))]

    def habit(self, name: str) -> str:
        """One of the style's options."""
        return self.rng.choice(self.style[name])

    def mark(self, slot: str, text: str) -> str:
        """`text` with span marks if this slot is in focus."""
        return f"{OPEN}{text}{CLOSE}" if slot in self.focus else text

    def quantity(self, value: Quantity | Term) -> str:
        """ "7 days", "seven working days", "seven (7) days", "$1,200", "5%"; a term by its name."""
        if isinstance(value, Term):
            return value.name
        if self.masked:
            return "N"
        if value.unit in _CURRENCIES:
            return f"{value.unit}{value.n:,}"
        if value.unit == "percent":
            return f"{value.n}%"
        unit = value.unit if value.n == 1 else value.unit + "s"
        return f"{self._number(value.n)} {unit}"

    def _number(self, n: int) -> str:
        if n > 99 or self.numbers == "digits":
            return str(n)
        return f"{number_words(n)} ({n})" if self.numbers == "both" else number_words(n)

    def date(self, value: Date) -> str:
        """A date in this voice's order."""
        if self.masked:
            return "D"
        return date_text(value, self.dates)
