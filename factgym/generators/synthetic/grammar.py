"""From words to sentences: frames, English forms, and the voice that chooses wordings.

A sentence frame is a string with `{slots}` and `[alternatives|like this]`, compiled once and filled many times. It names
the slots that it cannot do without, so that a chooser offers only frames for which the words exist. Span marks (two
control characters) survive filling: they delimit a slot's wording in the finished text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from factgym.generators.synthetic.facts import Action, Concept, Date, Phrase, Quantity, Term

OPEN, CLOSE = "\x01", "\x02"

Node = str | tuple[str] | list[tuple["Node", ...]]
"""A literal, a slot `(name,)`, or a list of alternatives, each a sequence of nodes."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A compiled frame. slots: every slot outside alternatives."""

    nodes: tuple[Node, ...]
    slots: frozenset[str]


@cache
def compile_frame(source: str) -> Frame:
    """Compile a frame; an unbalanced bracket raises ValueError."""
    nodes, at = _sequence(source, 0, "")
    if at != len(source):
        raise ValueError(f"unbalanced bracket in frame {source!r}")
    return Frame(nodes, frozenset(node[0] for node in nodes if isinstance(node, tuple)))


def _sequence(source: str, at: int, stops: str) -> tuple[tuple[Node, ...], int]:
    nodes: list[Node] = []
    literal = ""
    while at < len(source) and source[at] not in stops:
        char = source[at]
        if char not in "{[":
            literal += char
            at += 1
            continue
        if literal:
            nodes.append(literal)
            literal = ""
        if char == "{":
            end = source.index("}", at)
            nodes.append((source[at + 1 : end],))
            at = end + 1
        else:
            options, at = _alternatives(source, at + 1)
            nodes.append(options)
    if literal:
        nodes.append(literal)
    return tuple(nodes), at


def _alternatives(source: str, at: int) -> tuple[list[tuple[Node, ...]], int]:
    options = []
    while True:
        option, at = _sequence(source, at, "|]")
        options.append(option)
        if at >= len(source):
            raise ValueError(f"unbalanced bracket in frame {source!r}")
        at += 1
        if source[at - 1] == "]":
            return options, at


def fill(frame: Frame, slot: Callable[[str], str], rng: random.Random) -> str:
    """The text of `frame`, with one alternative drawn at each bracket and `slot(name)` for each slot."""
    parts: list[str] = []
    _fill(frame.nodes, slot, rng, parts)
    return tidy("".join(parts))


def _fill(nodes: Sequence[Node], slot: Callable[[str], str], rng: random.Random, parts: list[str]) -> None:
    for node in nodes:
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, tuple):
            parts.append(slot(node[0]))
        else:
            _fill(node[int(rng.random() * len(node))], slot, rng, parts)


def tidy(text: str) -> str:
    """Single spaces, and none before a comma or a full stop."""
    return " ".join(text.split()).replace(" ,", ",").replace(" .", ".")


def unmark(text: str) -> tuple[str, tuple[int, int] | None]:
    """`text` without its marks, and the range between the first pair of them, trimmed of spaces."""
    start = text.find(OPEN)
    if start < 0:
        return text, None
    end = text.index(CLOSE, start)
    inner = text[start + 1 : end].strip(" ,")
    lead = len(text[start + 1 : end]) - len(text[start + 1 : end].lstrip(" ,"))
    plain = text.replace(OPEN, "").replace(CLOSE, "")
    return plain, (start + lead, start + lead + len(inner))


# English forms: inflected verbs, nouns made of verbs, numbers in words, dates.


def listed(text: str) -> tuple[str, ...]:
    """The words of a text: a word list that reads like one."""
    return tuple(text.split())


_PAST = {
    "become": "become", "begin": "begun", "bring": "brought", "build": "built", "buy": "bought", "choose": "chosen",
    "come": "come", "cut": "cut", "draw": "drawn", "drive": "driven", "feed": "fed", "find": "found", "forgo": "forgone",
    "get": "got", "give": "given", "go": "gone", "hang": "hung", "hold": "held", "keep": "kept", "lay": "laid",
    "lead": "led", "leave": "left", "lend": "lent", "let": "let", "make": "made", "meet": "met", "obtain": "obtained",
    "overrun": "overrun", "pay": "paid", "put": "put", "read": "read", "ride": "ridden", "run": "run", "see": "seen",
    "sell": "sold", "send": "sent", "set": "set", "show": "shown", "shut": "shut", "sit": "sat", "speak": "spoken",
    "spend": "spent", "take": "taken", "teach": "taught", "tell": "told", "undergo": "undergone", "withhold": "withheld",
    "undertake": "undertaken", "wear": "worn", "withdraw": "withdrawn", "write": "written", "rebuild": "rebuilt",
    "sublet": "sublet", "reset": "reset", "rewrite": "rewritten", "drink": "drunk", "fly": "flown", "grow": "grown",
    "throw": "thrown", "beat": "beaten", "bleed": "bled", "break": "broken", "cast": "cast", "deal": "dealt",
    "eat": "eaten", "fall": "fallen", "light": "lit", "offset": "offset", "repay": "repaid", "resit": "resat", "ring": "rung",
    "say": "said", "seek": "sought", "split": "split", "stand": "stood", "sweep": "swept", "do": "done", "have": "had", "be": "been",
}  # fmt: skip
_DOUBLING = frozenset(
    listed(
        "submit permit transfer refer log ship plan stop tag scan swap drop cancel label travel fit cut run begin"
        " put get set omit admit occur commit control sit scrub slam split tip relabel offset resit let shut trap"
        " trim rip strip clip unplug plug map defer deter recur reset remit beget rebut format outfit unpin sublet"
        " equip pin ban vet bar step signal prefer spot sell-on overrun stir skip"
    )
)
_NOUNS = {
    "submit": "submission", "approve": "approval", "review": "review", "return": "return", "delete": "deletion",
    "disclose": "disclosure", "pay": "payment", "deliver": "delivery", "inspect": "inspection", "remove": "removal",
    "transfer": "transfer", "store": "storage", "renew": "renewal", "assign": "assignment", "register": "registration",
    "complete": "completion", "notify": "notification", "replace": "replacement", "use": "use", "sign": "signature",
    "destroy": "destruction", "test": "testing", "publish": "publication", "appoint": "appointment", "repair": "repair",
    "verify": "verification", "revoke": "revocation", "erase": "erasure", "report": "reporting", "issue": "issue",
    "encrypt": "encryption", "dispose": "disposal", "certify": "certification", "install": "installation",
    "calibrate": "calibration", "confirm": "confirmation", "withdraw": "withdrawal", "process": "processing",
    "prepare": "preparation", "reconcile": "reconciliation", "record": "recording", "dispatch": "dispatch",
    "terminate": "termination", "collect": "collection", "refund": "refund", "update": "updating", "lodge": "lodging",
    "provide": "provision", "supply": "supply", "circulate": "circulation", "acknowledge": "acknowledgement",
}  # fmt: skip
_ONES = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_THIRD = {"have": "has", "be": "is"}
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@cache
def participle(verb: str) -> str:
    """The past participle of a base form; a phrasal verb ("hand in") inflects its first word."""
    head, _, rest = verb.partition(" ")
    return f"{_participle(head)} {rest}".strip()


def _participle(verb: str) -> str:
    if verb in _PAST:
        return _PAST[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return (verb + verb[-1] if verb in _DOUBLING else verb) + "ed"


@cache
def gerund(verb: str) -> str:
    """The -ing form of a base form."""
    head, _, rest = verb.partition(" ")
    if head == "be":
        head = "be"
    elif head.endswith("ie"):
        head = head[:-2] + "y"
    elif head.endswith("e") and not head.endswith(("ee", "oe", "ye")):
        head = head[:-1]
    elif head in _DOUBLING:
        head += head[-1]
    return f"{head}ing {rest}".strip()


@cache
def third_person(verb: str) -> str:
    """The third person singular of a base form."""
    head, _, rest = verb.partition(" ")
    if head in _THIRD:
        head = _THIRD[head]
    elif head.endswith(("s", "sh", "ch", "x", "z", "o")):
        head += "es"
    elif head.endswith("y") and head[-2] not in "aeiou":
        head = head[:-1] + "ies"
    else:
        head += "s"
    return f"{head} {rest}".strip()


def noun_of(verb: str) -> str | None:
    """The noun of action ("submission"), or None where English has no natural one."""
    return _NOUNS.get(verb)


@cache
def number_words(n: int) -> str:
    """A number from 0 to 99 in words."""
    if n < 20:
        return _ONES[n]
    tens, ones = divmod(n, 10)
    return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")


def date_text(date: Date, order: str) -> str:
    """A date as "1 March 2024" (order "dmy") or "March 1, 2024" ("mdy")."""
    month = MONTHS[date.month - 1]
    if order == "mdy":
        return f"{month} {date.day}, {date.year}"
    return f"{date.day} {month} {date.year}"


def sentence_case(text: str) -> str:
    """`text` with its first letter upper-cased, looking past marks that are no letters (as the span marks are)."""
    for at, char in enumerate(text):
        if char.isalnum() or char in "$£€":
            return text[:at] + char.upper() + text[at + 1 :]
    return text


# Voices: the wording habits of a document or an answer.

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
        previous = self.used.get(name)
        if previous is None:
            choice = int(self.rng.random() * count)
            if self.record:
                self.used[name] = choice
            return choice
        if self.rng.random() >= self.fresh:
            return previous
        other = int(self.rng.random() * (count - 1))
        return other + (other >= previous)

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
