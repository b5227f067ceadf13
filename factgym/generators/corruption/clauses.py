"""Where the condition or the exception of a sentence stands, told without a parser.

The patterns are narrow on purpose: a clause counts when what remains without it is plainly a full sentence of its own.
Both the operators that drop a clause and the paraphrase that moves it to the other end use this one reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from factgym.generators.corruption.base import capitalise

_FINITE = re.compile(
    r"\b(?:must|shall|will|may|can|cannot|should|could|would|is|are|was|were|has|have|had|does|do|don['’]t|won['’]t|can['’]t"
    r"|agrees?|requires?|reserves?|remains?|applies|apply|pays?|provides?|receives?|grants?|expires?|becomes?|share|use|uses"
    r"|collect|collects|store|process|offer|offers|accept|allow|allows|need|needs|want|\w+['’](?:ll|re|ve))\b"
)
_SUBJECT = re.compile(
    r"(?:you|we|your|our|the|a|an|any|all|each|no|every|neither|either|both|such|employees|customers|users|supervisors"
    r"|[A-Z][\w&’'.-]*)\b"
)
_DANGLING = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|such|same|so|doing so|thereof|both)\b", re.I
)
_TRAILING = re.compile(
    r"(?P<lead>[,;]? )(?P<word>only if|only when|if and only if|if|unless|provided,? however,? that|provided,? that|so long as"
    r"|as long as|in the event that|in the event|on the condition that|on condition that|subject to|when|whenever|once)"
    r" (?P<clause>[^;:]+)$"
)
_WITH_CONSENT = re.compile(
    r"(?P<lead>,? )(?P<word>without|with|upon) (?P<clause>(?:[\w'’()-]+ ){0,6}?(?:consent|approval|permission|authorization"
    r"|authorisation|notice)\b[^;:,]{0,60})$",
    re.I,
)
_LEADING = re.compile(
    r"(?P<word>If|Unless|When|Once|Provided that|So long as|As long as|In the event that|Whenever) (?P<clause>[^,;:]{8,160}), (?:then )?"
    r"(?P<main>[^;:]+)$"
)
_NOTICE = re.compile(r"\bnotice\b", re.I)
_EXCEPT_TRAILING = re.compile(
    r"(?P<lead>[,;]? \(?)(?P<word>except(?:ing)?(?: for| that| as| when| if| in| to| where| with)?|other than|excluding"
    r"|with the exceptions? of|with exceptions? for) (?P<clause>[^;:]+)$"
)
_EXCEPT_LEADING = re.compile(
    r"(?P<word>Except|Other than|Excluding|With the exception of) (?P<clause>[^,;:]{4,140}), (?P<main>[^;:]+)$"
)
_BOILERPLATE = re.compile(
    r"\b(?:otherwise|terms of|terms and conditions|provisions?|herein|hereof|hereunder|this agreement|section|article|clause"
    r"|paragraph|exhibit|schedule|applicable law|set forth|described|noted|above|below|foregoing|permitted by law|law)\b",
    re.I,
)
_NOT_A_CONDITION = re.compile(
    r"\b(?:see|know|knows|check|checks|ask|asks|asking|determine|determines|determining|decide|confirm|wonder|tell|understand"
    r"|learn|even|as|and|or|only|not|what|where|how|just|especially|particularly|including|date|time|times|day|days|case|cases"
    r"|situations?|circumstances|instances|moment|is|are|be|was|were|consider|considering|verify|assess|to|of|than|except|remember"
    r"|whether|explain|indicate|specify|find out|clear|sure|depends|upon|on|by|for|about|from|mean|means|begins?|ends?|starts?"
    r"|until|like|example|that|which|who|it|called|being|been|become|becomes|take|conditioned|conditional|contingent|based|relied|agreed|rely|insist|reflect)$",
    re.I,
)
_OPEN_ENDED = re.compile(
    r"\b(?:the|a|an|of|to|in|on|by|for|and|or|with|any|such|as|at|from|other|than|that|which|its|their|your|our|including|but|although|made|given|granted|incurred|[.;:])$",
    re.I,
)
_TEMPORAL = frozenset({"when", "whenever", "once"})
_DEONTIC = re.compile(
    r"\b(?:must|shall|may|can|cannot|won['’]t|can['’]t|not|never|(?:is|are) (?:required|entitled|allowed|permitted))\b"
)
_BINDING = re.compile(r"\b(?:must|shall|cannot|not|never|(?:is|are) required)\b")
_NOT_A_RULE = re.compile(
    r"\b(?:only|even if|even when|would|could|might|(?:may|will)(?: not)? be (?:un)?able|may (?:not )?(?:apply|have)|want|feel)\b",
    re.I,
)
_MERE_WISH = re.compile(
    r"\b(?:do so|does so|so,|want|wants|wish|wishes|would like|prefer|choose|need|needs|questions?|believe|think|decide|disagree|interested|don['’]t"
    r"|necessary|possible|applicable|appropriate|any|desired|context|needed|haven['’]t already)\b",
    re.I,
)
_CARRIES_ON = re.compile(r", (?:but|so|and (?:you|we|the|it|they|will|may|must|shall|can)\b|which|in which case)")
_PREDICATE = re.compile(rf"{_FINITE.pattern}|\b\w{{2,}}(?:ed|es|s|en|ing|ible|able)\b|\b(?:you|we|they)\b")
_LISTS = re.compile(r", (?:and|or) ")
_VAGUE_SUBJECT = re.compile(r"(?:The [a-z]|Additional|Further)")
_WHEN_ELSE = re.compile(r"(?:in|a|per|every|again|more)\b")
_EXCEPT_NEEDS = re.compile(r"\b(?:any|no|all|not|cannot|neither|every|never|none|\w+n['’]t)\b", re.I)
_MIN_MAIN_WORDS = 5


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition or exception (`word` and `text`), and the `main` sentence that remains, without its full stop.

    leading: it stands before the main sentence. apart: a comma or semicolon parts the two.
    """

    word: str
    text: str
    main: str
    leading: bool
    apart: bool = True


def _level(text: str) -> bool:
    """Whether brackets and quotation marks are balanced."""
    pairs = text.count("(") == text.count(")") and text.count("[") == text.count("]")
    return pairs and text.count('"') % 2 == 0 and text.count("“") == text.count("”")


def _full(main: str) -> bool:
    """Whether `main` reads as a sentence of its own."""
    return (
        len(main.split()) >= _MIN_MAIN_WORDS
        and _level(main)
        and _FINITE.search(main) is not None
        and not _OPEN_ENDED.search(main)
        and "," not in main[-25:].partition(" ")[0]
    )


def _trailing(pattern: re.Pattern[str], body: str) -> Clause | None:
    """The last clause that runs to the end of the sentence."""
    found = list(_starts(pattern, body))
    if len(found) != 1:
        return None
    match = found[0]
    main, text = body[: match.start()].rstrip(" ,"), match["clause"].rstrip(")")
    if _LISTS.search(text) and "," in main:
        return None
    if (
        not _full(main)
        or _NOT_A_CONDITION.search(main)
        or _CARRIES_ON.search(text)
        or main.startswith(("Except", "If", "Unless"))
    ):
        return None
    return Clause(match["word"].lower(), text, main, leading=False, apart=match["lead"][0] in ",;")


def _starts(pattern: re.Pattern[str], body: str) -> list[re.Match[str]]:
    """Every match that runs to the end, from whichever clause word."""
    out = []
    position = 0
    while (match := pattern.search(body, position)) is not None:
        out.append(match)
        position = match.start("clause")
    return out


def _after_comma(pattern: re.Pattern[str], body: str) -> Clause | None:
    match = pattern.match(body)
    if match is None:
        return None
    main = match["main"]
    subject = _SUBJECT.match(main)
    early = _FINITE.search(" ".join(main.split()[:9]))
    if (
        subject is None
        or early is None
        or not _PREDICATE.search(match["clause"])
        or not _full(main)
        or not _level(match["clause"])
    ):
        return None
    if _DANGLING.search(main) or _VAGUE_SUBJECT.match(capitalise(main)):
        return None
    return Clause(match["word"].lower(), match["clause"], capitalise(main), leading=True)


def find_condition(body: str) -> Clause | None:
    """The one condition of a sentence (given without its full stop): if, unless, provided that, without consent …"""
    found = (_after_comma(_LEADING, body), _consent(body), _trailing(_TRAILING, body))
    return next((clause for clause in found if clause and restricts(clause)), None)


def restricts(clause: Clause) -> bool:
    """Whether the main sentence says more without the clause: not so for "if you have questions" or "subject to law"."""
    if _NOT_A_RULE.search(clause.main) or "context" in clause.text:
        return False
    if clause.word == "subject to":
        return clause.apart and not _BOILERPLATE.search(clause.text)
    if clause.word in _TEMPORAL:
        binding = (_DEONTIC if clause.leading else _BINDING).search(clause.main)
        return binding is not None and not _WHEN_ELSE.match(clause.text)
    return not _MERE_WISH.search(clause.text) or clause.word in ("without", "unless", "with", "upon")


def _consent(body: str) -> Clause | None:
    """`… without the prior written consent of X` after a prohibition; `… with consent` after a permission."""
    clause = _trailing(_WITH_CONSENT, body)
    if clause is None:
        return None
    forbids = re.search(r"\b(?:not|no|cannot|neither|never|nor|can['’]t|won['’]t)\b", clause.main, re.I) is not None
    permits = re.search(r"\b(?:may|can|will|shall|must)\b", clause.main) is not None and not forbids
    noticed = _NOTICE.search(clause.text) is not None
    fits = {"without": forbids and not noticed, "with": permits and not noticed, "upon": permits}
    return clause if fits[clause.word] else None


def find_exception(body: str) -> Clause | None:
    """The one exception of a sentence (given without its full stop): except …, other than …"""
    clause = _after_comma(_EXCEPT_LEADING, body) or _trailing(_EXCEPT_TRAILING, body)
    if clause is None or _BOILERPLATE.search(clause.text) or ";" in clause.main:
        return None
    loose = clause.word == "other than" and ("," in clause.text or clause.text.startswith("to "))
    return None if loose or (not _EXCEPT_NEEDS.search(clause.main) and clause.word == "other than") else clause
