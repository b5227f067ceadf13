"""The parts of a sentence that limit, date or justify it, told by the words that open them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["limit", "time", "reason", "source"]

_LIMIT = (
    r"(?:but )?only (?:if|when|where|once|after|with|on condition that|to the extent)|if(?! necessary)|unless|provided(?:,? however,?)?(?: that)?"
    r"|as long as|so long as|in the event (?:that|of)|in (?:the )?cases? (?:where|when|that)|in case|on (?:the )?condition that|condition is that"
    r"|conditional on|subject to|contingent on|except(?:ing)?(?: for| that| as| when| if| in| to| where| with)?|save(?: for)? (?:where|when|if|that)|save for"
    r"|other than|apart from|with the exceptions? of|excluding|but not|assuming|whenever|where(?:ver)?|gives way (?:if|when|where)|set aside (?:if|when|where)"
    r"|limited to cases|depends on one condition:|without (?:the )?(?:\w+ ){0,4}(?:consent|approval|permission|agreement|authori[sz]ation|notice)"
    r"|with (?:the )?(?:\w+ ){0,4}(?:consent|approval|permission|agreement|authori[sz]ation)"
)
_TIME = r"after|following|counted from|starting with|from the|before|ahead of|prior to|until|upon|once|when|since|as soon as|during|within|no later than|not later than"
_REASON = (
    r"because|given that|seeing that|so that|in order to|in order that|so as to|owing to|due to|on account of|in view of|the reason (?:being|is)(?: that)?|for the reason that"
    r"|as a result of|now that|the (?:sole |only )?(?:aim|purpose|point|reason)(?: of this| for this)?(?: rule)? is(?: that)?|this is (?:because|meant|intended|designed)"
)
_CAUSAL = r"(?:^|, )since(?= )|(?:^|, )as(?= (?!of\b|from\b|soon\b|long\b|a\b|an\b|part\b|set\b|well\b|well|if\b|though\b|described|defined|stated|set out|required))"
_PURPOSE = r"(?:^|, )to(?= [a-z])"
_SOURCE = r"(?:according to|under|per|as stated in|in keeping with|pursuant to|for the purposes of)(?= (?-i:(?:the |this |that |our |its )?[\"“‘A-Z])| this )"
_OPENS = re.compile(
    rf"(?P<reason>\b(?:{_REASON})\b|{_CAUSAL}|{_PURPOSE})|(?P<source>\b{_SOURCE}|^In (?:the )?(?-i:[\"“‘A-Z])[^,]{{2,80}}, it says that\b|^It is (?:laid down|provided|stipulated|stated|said|written) that\b|^(?:The|This|Our|Its) \w+ (?:is|provides|says|states|requires|has it) that\b)"
    rf"|(?P<limit>\b(?:{_LIMIT})(?!\w))|(?P<time>\b(?:{_TIME})\b)",
    re.I,
)
_EXAMPLES = re.compile(r"\((?:including|e\.g\.|such as|for example|like)[^()]*\)", re.I)


@dataclass(frozen=True, slots=True)
class Part:
    """A clause `text[start:end]`; its own words begin at `inside`, after the words that open it."""

    kind: Kind
    start: int
    inside: int
    end: int


@lru_cache(maxsize=8192)
def parts(text: str) -> tuple[Part, ...]:
    """The clauses of a sentence in order, not overlapping; each runs to the next comma, the next opener or the end.

    A clause about the source of a statement ("according to the Handbook") is one too.
    """
    found: list[Part] = []
    for match in _OPENS.finditer(text):
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        start = match.start() + len(match[0]) - len(match[0].lstrip(" ,"))
        if found and start < found[-1].end and found[-1].kind == "source":
            continue
        if found and start < found[-1].end:
            if start - found[-1].inside < 4 or kind == "time":
                continue
            last = found[-1]
            found[-1] = Part(last.kind, last.start, last.inside, start)
        end = match.end() if kind == "source" and match[0].endswith("that") else _end(text, match.end())
        found.append(Part(kind, start, match.end(), end))
    return tuple(found)


def _end(text: str, at: int) -> int:
    """Up to the next comma or semicolon outside a number."""
    for place in range(at, len(text)):
        if text[place] in ",;" and not text[place + 1 : place + 2].isdigit():
            return place
    return len(text.rstrip().rstrip("."))


def core(text: str, kinds: frozenset[Kind] = frozenset({"limit", "reason", "source"})) -> str:
    """The text with the parts of these kinds, and examples in brackets, blanked out; offsets unchanged."""
    spans = [(part.start, part.end) for part in parts(text) if part.kind in kinds]
    for start, end in (*spans, *(match.span() for match in _EXAMPLES.finditer(text))):
        text = text[:start] + " " * (end - start) + text[end:]
    return text
