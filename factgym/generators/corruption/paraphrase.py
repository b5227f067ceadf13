"""Light rewrites that keep the truth, so that a claim is seldom its source sentence word for word.

Supported and corrupted claims are rewritten alike, or the wording would give the label away. A rewrite never reaches
into the span that a corruption made. Left out on purpose: synonyms of nouns, "shall" in definitions, and anything that
needs a parser to be safe.
"""

from __future__ import annotations

import random
import re

from factgym.generators.corruption.base import bare, capitalise
from factgym.generators.corruption.clauses import find_condition

_CONNECTIVE = re.compile(
    r"(?:However|Moreover|Furthermore|In addition|Additionally|Also|Of course|Accordingly|Nevertheless"
    r"|For the avoidance of doubt|For clarity|In other words|On the flip-side), (?=[a-zA-Z])"
)
_SPELT = "ninety|sixty|forty-five|thirty|twenty|fifteen|fourteen|ten|seven|five|three|two"
_RULES: tuple[tuple[str, str], ...] = (
    (r"\b([Yy]ou|[Ww]e) must (?!not\b|be\b|also\b|always\b|only\b)", r"\1 are required to "),
    (r"\b([Yy]ou|[Ww]e) are required to ", r"\1 must "),
    (r"\b([Yy]ou|[Ww]e) need to ", r"\1 have to "),
    (r"\b([Yy]ou|[Ww]e) have to ", r"\1 need to "),
    (r"\bshall (?!mean\b|be deemed\b|not be deemed\b|include\b)", "will "),
    (
        r"\b([A-Z]\w+) will (?=(?:pay|provide|notify|deliver|maintain|use|keep|submit|perform|obtain|promptly|not)\b)",
        r"\1 shall ",
    ),
    (r"\b([Yy]ou) may (?!not\b|also\b|be\b|have\b|need\b|want\b|wish\b|only\b)", r"\1 can "),
    (r"\b([Ww]e) may (?!not\b)", r"\1 might "),
    (r"\b(?:is|are) not (?:permitted|allowed) to ", "may not "),
    (r"\b(?:is|are) entitled to (?=(?:receive|use|request|terminate)\b)", "may "),
    (r"\bprior to\b", "before"),
    (r"\bin the event (?:that )?(?=you|we|the|a|an|either|any)", "if "),
    (r"\bin order to\b", "to"),
    (r"\bpursuant to\b", "under"),
    (r"\bwith (?:respect|regard) to\b", "regarding"),
    (r"\bin accordance with\b", "according to"),
    (r"\bincluding,? (?:but not limited to|without limitation),? ", "including "),
    (r"\bat least (?=\d|\w+ \()", "no less than "),
    (r"\bno less than (?=\d|\w+ \()", "at least "),
    (r"\bno later than\b", "not later than"),
    (rf"(?<![\w-])(?:{_SPELT}) \((\d{{1,2}})\)", r"\1"),
    (r"\bwithin (\d{1,3} (?:business |calendar )?days) after\b", r"no later than \1 after"),
    (r"\bfor the purpose of (?=[a-z]+ing\b)", "for "),
    (r"\bin connection with\b", "in relation to"),
    (r"\bregarding\b", "about"),
    (r"\bcannot\b", "can't"),
    (r"\bcan['’]t\b", "cannot"),
    (r"\b([Dd])o not\b", r"\1on't"),
    (r"\b([Dd])on['’]t\b", r"\1o not"),
    (r"\bdoes not\b", "doesn't"),
    (r"\bdoesn['’]t\b", "does not"),
    (r"\bwill not\b", "won't"),
    (r"\bwon['’]t\b", "will not"),
    (r"\b([Ww]e|[Yy]ou)['’]ll\b", r"\1 will"),
    (r"\b([Ww]e|[Yy]ou)['’]re\b", r"\1 are"),
    (r"\b([Ww]e|[Yy]ou)['’]ve\b", r"\1 have"),
    (r"\b([Ww]e|[Yy]ou) will\b(?! not)", r"\1'll"),
    (r"\b([Ww]e|[Yy]ou) are(?= [a-z])", r"\1're"),
    (r"\bobtain\b", "get"),
    (r"\butili[sz]e\b", "use"),
    (r"\bcommence\b", "begin"),
    (r"\bsubsequent to\b", "after"),
    (r"\bvia\b", "through"),
    (r"\bassist you\b", "help you"),
    (r"\bupon request\b", "on request"),
    (r"\bprior written\b", "advance written"),
    (r"\bsuch as\b", "like"),
    (r"\badditional (?=[a-z]+s\b)", "further "),
    (r"\breceive\b", "get"),
    (r"\bassist (?=in|with)\b", "help "),
    (r"\bterminate (?=this|the|your|any)\b", "end "),
    (r"\bnotify\b", "inform"),
    (r"\bto purchase\b", "to buy"),
    (r"\bsubmit (?=an?\b|the\b|your\b)", "send in "),
    (r"\bapproximately\b", "about"),
    (r"\bwhether or not\b", "whether"),
    (r"\buntil such time as\b", "until"),
    (r"\bupon receipt of\b", "on receiving"),
    (r"\bthe majority of(?= (?:the|your|our|their|its))\b", "most of"),
    (r"(?<!is )(?<!are )(?<!be )\bdue to\b", "because of"),
    (r"\b(?:is|are) able to\b", "can"),
    (r"\b(?:is|are) required to\b", "must"),
    (r"\b([Yy]ou|[Ww]e) have the right to (?=[a-z]+ )", r"\1 are entitled to "),
    (r"(?<!just )(?<!not )\bas well as\b(?! (?:\w+ )?(?:can|do|does|did|is|are|the average))", "and"),
    (r"\ball of (?=the|our|your|their|its)\b", "all "),
    (r"\bcurrently\b", "at present"),
    (r"\bobligations under\b", "duties under"),
    (r"\bensure that\b", "make sure that"),
    (r"\bin addition to\b", "besides"),
)
_COMPILED = tuple((re.compile(pattern), new) for pattern, new in _RULES)
_LOWERABLE = re.compile(
    r"(?:The|A|An|If|You|We|All|Any|In|For|Each|Your|Our|No|Every|When|Unless|To|At|On|Under|Upon|During|Before|After|Except|By|As"
    r"|Once|Only|Most|Some|Certain|With|Without|Until|Employees|Customers|Users|There|Neither|Nothing|Subject|Participants"
    r"|Generally|Usually|Sometimes|Notwithstanding)(?=[ ,’'])"
)
_LEAD_INS = (
    "According to {title}, ",
    "As stated in {title}, ",
    "Under {title}, ",
    "Per {title}, ",
    "In {title}, it says that ",
)
_TAILS = ("according to {title}", "as stated in {title}")
_LEAD_SHARE = 0.75
_NO_LEAD = re.compile(r"(?:According to|Under|Per|As|In all cases)\b")
_KINDS_WORDS = (
    "policy policies agreement terms notice guide guidelines statement code plan contract handbook overview "
    "faq conduct service"
)
_KINDS = frozenset(_KINDS_WORDS.split())
_NOT_A_NAME = ("the ", "a ", "an ", "how ", "what ", "who", "why ", "requesting ", "your ", "our ")
_REWRITES = (0, 1, 1, 2, 2, 3)
_OPENING_PHRASE = re.compile(
    r"(?P<phrase>(?:Before|After|During|Until|To|Upon) [^,;]{5,90}), (?P<main>(?:you|we|your|the|our|no|[A-Z]\w+)\b[^,;]{12,})\.$"
)
_UPON = re.compile(
    r"\b(?:before|after|during|until|upon|when|if|unless|because|so that|in order)\b|\bto (?:do so|avoid)\b"
)


def name_of(title: str) -> str:
    """How a sentence names a document: `the Refund Policy`, `“Leave types”`."""
    plain = title.strip()
    words = plain.casefold().partition(" (")[0].split()
    if words and words[-1] in _KINDS and not plain.casefold().startswith(_NOT_A_NAME):
        return f"the {plain}"
    return f"“{plain}”"


def _one_rule(text: str, rng: random.Random) -> str:
    fitting = [(pattern, new) for pattern, new in _COMPILED if pattern.search(text)]
    if not fitting:
        return text
    pattern, new = rng.choice(fitting)
    return pattern.sub(new, text, count=1)


def reword(sentence: str, span: str, rng: random.Random) -> str:
    """`sentence` without an opening connective and with up to three safe rewrites outside `span` (verbatim, or empty)."""
    at = sentence.find(span) if span else len(sentence)
    before, kept, after = sentence[:at], sentence[at : at + len(span)], sentence[at + len(span) :]
    connective = _CONNECTIVE.match(sentence)
    if connective and connective.end() < len(before):
        before = before[connective.end() :]
    for _ in range(rng.choice(_REWRITES)):
        if rng.random() * (len(before) + len(after)) < len(before):
            before = _one_rule(before, rng)
        else:
            after = _one_rule(after, rng)
    return capitalise(before) + kept + after


def turn(sentence: str) -> str | None:
    """The sentence with its if-clause or its opening phrase at the other end, or None where that is not safe."""
    return _turn_condition(sentence) or _turn_phrase(sentence)


def _turn_phrase(sentence: str) -> str | None:
    match = _OPENING_PHRASE.match(sentence)
    if match is None or _UPON.search(match["main"]):
        return None
    return f"{capitalise(match['main'])} {match['phrase'][0].lower()}{match['phrase'][1:]}."


def _turn_condition(sentence: str) -> str | None:
    clause = find_condition(bare(sentence))
    if clause is None or clause.word not in ("if", "unless") or "," in clause.text:
        return None
    if clause.leading:
        return None if "," in clause.main else f"{clause.main} {clause.word} {clause.text}."
    if not _LOWERABLE.match(clause.main):
        return None
    return f"{clause.word.capitalize()} {clause.text}, {clause.main[0].lower()}{clause.main[1:]}."


def attribute(sentence: str, title: str, rng: random.Random) -> str:
    """Names the source, before the sentence where its first word may be written small, else after it."""
    led = lead_in(sentence, title, rng)
    if led != sentence and rng.random() < _LEAD_SHARE:
        return led
    if not sentence.endswith(".") or sentence.endswith(".."):
        return sentence
    return f"{bare(sentence)}, {rng.choice(_TAILS).format(title=name_of(title))}."


def lead_in(sentence: str, title: str, rng: random.Random) -> str:
    """Opens the sentence with its source, where its first word may be written small."""
    if not _LOWERABLE.match(sentence) or _NO_LEAD.match(sentence):
        return sentence
    opening = rng.choice(_LEAD_INS).format(title=name_of(title))
    return capitalise(opening) + sentence[0].lower() + sentence[1:]
