"""What a sentence says about its matter: that it must, should, may, need not or must not be; and how generally.

Plain lists of English expressions; of two that overlap the one listed first holds ("must not" beats its "must").
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Force = Literal["must", "should", "may", "need_not", "must_not", "is", "is_not"]
Fault = Literal["contradicted", "overclaim"]

_FORCES: tuple[tuple[Force, str], ...] = (
    (
        "need_not",
        r"need not|needs not|(?:do|does|is|are) not (?:have|need|required|obliged|obligated|expected|bound)(?: to)?|not (?:required|obliged|obligated)"
        r"|no (?:obligation|duty|need|requirement)|(?:don|doesn)['’]t (?:have|need) to|optional|voluntary|under no (?:duty|obligation)"
        r"|not (?:mandatory|compulsory|obligatory|necessary)|(?:isn|aren)['’]t required",
    ),
    (
        "must_not",
        r"(?:must|shall|may|can|could|will|would) (?:not|never|in no case|under no circumstances)|cannot|can['’]t|won['’]t|mustn['’]t"
        r"|(?:is|are|be|been) (?:strictly |expressly )?(?:prohibited|forbidden|barred|ruled out|banned|disallowed|precluded)"
        r"|(?:prohibits?|forbids?|bars?|bans?|precludes?)|not (?:be )?(?:allowed|permitted|entitled|authori[sz]ed|open|eligible|acceptable|free)"
        r"|no (?:right|permission|entitlement)|refrains? from|off limits|out of the question|not at liberty|may no longer"
        r"|(?:do|does) not (?:grant|permit|allow)|no \w+ (?:may|can|shall|will|must)|nobody may|no one may|neither \w+ (?:may|shall|can)",
    ),
    (
        "should",
        r"should|ought to|(?:is|are) (?:advised|encouraged|invited|recommended|urged|asked)|recommend\w*|advisable|suggested|good practice|preferabl[ey]",
    ),
    (
        "may",
        r"may|can|could|(?:is|are|be) (?:allowed|permitted|entitled|free|authori[sz]ed|eligible|able|acceptable)(?= to| for)|permission to"
        r"|(?:the )?right to|at liberty|(?:is|are) open to|has the option|possible|have the option|permits?|entitles?",
    ),
    (
        "must",
        r"must|shall|(?:has|have|needs?) to|(?:is|are|be) (?:required|obliged|obligated|bound|expected|to|due|responsible|in charge)|requires?|responsibility|task of|duty of|duty to|under a duty"
        r"|compulsory|mandatory|obligatory|no choice but|falls to|undertakes? to|agrees? to|deadline|time limit|will",
    ),
    (
        "is_not",
        r"not|never|no(?! (?:later|more|less))|none|nothing|neither|nor|isn['’]t|aren['’]t|doesn['’]t|don['’]t|fall outside|outside the reach",
    ),
)
_MEASURES = r"(?! (?:\w+ ){0,6}(?:more|less|later|longer|fewer|earlier|greater|higher|lower) than\b| (?:\w+ ){0,3}(?:exceed|wait more|wait longer|take more)\b| only\b)"
"""What makes a negation a bound: "must not take more than six weeks" forbids nothing."""
_NEGATIVE = ("must_not", "is_not")
_COMPILED = tuple(
    (force, re.compile(rf"\b(?:{source})\b{_MEASURES if force in _NEGATIVE else ''}", re.I))
    for force, source in _FORCES
)

_OPPOSED: dict[tuple[Force, Force], Fault] = {
    ("must", "may"): "overclaim",
    ("must", "should"): "overclaim",
    ("must", "need_not"): "contradicted",
    ("must", "must_not"): "contradicted",
    ("should", "must_not"): "contradicted",
    ("should", "need_not"): "contradicted",
    ("may", "must_not"): "contradicted",
    ("need_not", "must"): "contradicted",
    ("need_not", "is"): "contradicted",
    ("must_not", "must"): "contradicted",
    ("must_not", "may"): "contradicted",
    ("must_not", "should"): "contradicted",
    ("must_not", "is"): "contradicted",
    ("must_not", "need_not"): "contradicted",
    ("is", "is_not"): "contradicted",
    ("is", "must_not"): "contradicted",
    ("must", "is_not"): "contradicted",
    ("is_not", "is"): "contradicted",
    ("is_not", "must"): "contradicted",
}

_WIDE = re.compile(
    r"\b(?:all|always|(?:each and )?(?:every|each)(?! (?:\d|one|two|three|four|six|twelve|second|other|hour|day|week|fortnight|month|quarter|year))|any|everyone|everybody|anyone|anybody|whoever|no matter|in all cases|without exception|at all times|under all circumstances"
    r"|in all circumstances|whatever the circumstances|regardless|invariably|on any account|at any time|automatic\w*|exclusively|solely|no exceptions?"
    r"|unconditional\w*|in (?:each and )?every case|entire|whole|as a (?:general )?rule|as a matter of (?:routine|course)|in the ordinary course|generally"
    r"|will always|fully|immediately|guarantee\w*|completely|both)\b",
    re.I,
)
_NARROW = re.compile(
    r"\b(?:some|certain|many|most|several|usually|typically|normally|often|sometimes|occasionally|generally|in general|limited|rare"
    r"|partly|partially|frequently|a few|selected|specific|eligible|exceptional(?:ly)?|(?:by way of|as an?(?: narrow)?|the) exception|in special cases|may|might"
    r"|reasonable|only|up to|in part|possibl[ey])\b",
    re.I,
)
_SOME = re.compile(r"\b(?:some|certain|in some circumstances)\b", re.I)
_SUPERSEDED = re.compile(
    r"\b(?:previous\w*|earlier|former\w*|superseded|lapsed|withdrawn|no longer|ceased|replaced?s?|used to|has not applied|was in force|old)\b"
    r"|^(?:until|before) [\w ,]{3,25}\d{4}\b|\bthe (?:period|limit) was\b",
    re.I,
)


@lru_cache(maxsize=8192)
def force_of(text: str) -> tuple[Force, tuple[int, int]]:
    """The first force that a text speaks with and where its words stand; a plain statement "is", in an empty range."""
    best: tuple[Force, tuple[int, int]] | None = None
    for force, pattern in _COMPILED:
        match = pattern.search(text)
        if match is not None and (best is None or match.end() <= best[1][0]):
            best = force, match.span()
    return best or ("is", (0, 0))


def opposed(claimed: Force, written: Force) -> Fault | None:
    """What it is to claim the one where the other is written, or None where both can stand."""
    return _OPPOSED.get((claimed, written))


def wide(text: str) -> list[tuple[int, int]]:
    """Where a text generalises."""
    return [match.span() for match in _WIDE.finditer(text)]


def hedged(text: str) -> bool:
    """Whether a text says less than everything, or less than always."""
    return _NARROW.search(text) is not None


def existential(text: str) -> bool:
    """Whether a text claims no more than that there is something."""
    return _SOME.search(text) is not None


def superseded(text: str) -> bool:
    """Whether a text speaks of what held in the past."""
    return _SUPERSEDED.search(text) is not None
