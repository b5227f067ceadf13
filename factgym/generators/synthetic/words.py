"""English forms: inflected verbs, nouns made of verbs, numbers in words, dates, articles. Plain tables and rules."""

from __future__ import annotations

from functools import cache

from factgym.generators.synthetic.facts import Date


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
