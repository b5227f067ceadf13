"""Which document a question is about: the names in it, held against the titles of passages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from factgym.baselines.reading import Seen
from factgym.baselines.thesaurus import word_list
from factgym.baselines.words import keys
from factgym.corpora.text import STOP_WORDS

_QUOTED = re.compile(r"[\"“]([^\"“”]{2,120})[\"”]")
_NAME = re.compile(r"(?<![\w“\"])[A-Z][\w&.’'-]*(?: (?:(?:of|and|for|the|on|in) )?[A-Z0-9][\w&.’'-]*)*")
_NO_NAMES = STOP_WORDS | frozenset(word_list("under according per q"))
_SHARE = 0.5


def names_in(question: str) -> list[str]:
    """The names that a question gives: what is in quotation marks, and capitalised words, its first word aside."""
    found = [match[1] for match in _QUOTED.finditer(question)]
    for match in _NAME.finditer(question):
        parts = match[0].split()
        while parts and parts[0].lower() in _NO_NAMES:
            parts.pop(0)
        if parts:
            found.append(" ".join(parts))
    return list(dict.fromkeys(found))


def in_scope(question: str, some: Sequence[Seen]) -> list[Seen]:
    """Those whose documents' titles have most of the question's names; all where no title has two words of them.

    The sections in a title ("Handbook › Leave › Sick leave") are left out: a question names one, and the answer may
    be held against the whole document.
    """
    wanted = frozenset(key for name in names_in(question) for key in keys(name))
    fits = [sum(key in wanted for key in keys(one.title.partition(" › ")[0])) for one in some]
    best = max(fits, default=0)
    if best < 2:
        return list(some)
    return [one for one, fit in zip(some, fits, strict=True) if fit > _SHARE * best]
