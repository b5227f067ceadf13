"""Entity confusion: another name of the same kind in a name's place, one that the source does not know."""

from __future__ import annotations

import re

from factgym.generators.probes.base import Draft, NoProbe
from factgym.generators.probes.names import Name, gender_in, gender_of
from factgym.generators.probes.statement import with_article
from factgym.generators.probes.work import NEGATED, Work

_MOST_TRIES = 24
_TITLE_BEFORE = (" named ", " called ", " titled ", " film ", " song ", " album ", " movie ", " novel ", " series ")
_NOT_ADJECTIVE = ("-", "the ", "of ", "dialectal ", "into ", " in ")
_PLACE_PAIR = re.compile(r",? [A-Z]")
_TITLE_MARK = re.compile(r"[\"“”‘`]|-LRB-|``")
_WORD = re.compile(r"[^\W\d_]{4,}")
_INSIDE_NAME = re.compile(r"[-–'’/]|\.\w| \(|(?:'s|’s)? (?:[A-Z]|\d)")


def swap_entity(work: Work, error_type: str | None) -> Draft | NoProbe:
    """Swaps one name of a known kind."""
    if NEGATED.search(work.body.text):
        return NoProbe("no_place", "what is denied of one may be rightly denied of another")
    usable = [(name, kind) for name in work.names if (kind := _kind(work, name))]
    if not usable:
        return NoProbe("no_place", "no name of a kind that can be told")
    work.rng.shuffle(usable)
    for name, kind in usable:
        donor = _donor(work, name, kind)
        if donor is not None:
            text = _replaced(work.body.text, name, donor)
            return Draft(work.whole(text), "entity_substitution", kind.split(" ")[0])
    return NoProbe("no_donor", f"no {usable[0][1]} of the pool is unknown to the source")


def _kind(work: Work, name: Name) -> str:
    """The kind of a name that can be swapped, or ""."""
    text = work.body.text
    before, after = text[: name.start], text[name.end :]
    if (_TITLE_MARK.search(before) and before.count('"') % 2) or before.endswith(
        ("'", "“", "``", "`` ", *_TITLE_BEFORE)
    ):
        return ""
    if text.count(name.text) != 1 or name.text in work.body.lead or _parts_elsewhere(work, name):
        return ""
    kind = work.pool.kinds.of(name.text, text, name.span)
    if kind == "person" and before.lower().endswith("the "):
        return ""
    place = kind in ("city", "country", "state")
    if place and (
        (after.startswith((", ", " , ")) and _PLACE_PAIR.match(after.lstrip(" ,"), 0)) or _follows_place(before)
    ):
        return ""
    if place and re.match(r",? ?[A-Z]", after.lstrip(" ")) and not after.startswith((".", " .")):
        return ""
    if kind == "demonym" and (after.startswith(("-", " language")) or before.lower().endswith(_NOT_ADJECTIVE)):
        return ""
    if place and (before.lower().endswith(("the ", "a ", "an ", "island of ")) or re.match(r" [a-z]+er\b", after)):
        return ""
    return "" if (_INSIDE_NAME.match(after) and not re.match(r"['’]s? [a-z]", after)) or before.endswith("-") else kind


def _follows_place(before: str) -> bool:
    return re.search(r"[A-Z][\w.]* ?, $", before) is not None


def _parts_elsewhere(work: Work, name: Name) -> bool:
    """Whether a word of the name stands elsewhere in the claim: the swap would leave half of it behind."""
    rest = work.claim.replace(name.text, " ", 1)
    return any(re.search(rf"\b{re.escape(word[0])}", rest) for word in _WORD.finditer(name.text))


def _donor(work: Work, name: Name, kind: str) -> str | None:
    donors = list(work.pool.names.get(kind, ()))
    gender = gender_of(name.text) if kind == "person" else ""
    shown = gender_in(work.claim) if kind == "person" else ""
    if kind == "person" and shown and not gender:
        return None
    words = len(name.text.split(" "))
    fitting = [one for one in donors if gender_of(one) == gender] if gender else donors
    for donor in work.rng.sample(fitting, min(_MOST_TRIES, len(fitting))):
        close = abs(len(donor.split(" ")) - words) <= 1 and donor.endswith("s") == name.text.endswith("s")
        if (close or kind == "person") and not _known(work, donor):
            return donor
    return None


def _known(work: Work, donor: str) -> bool:
    """Whether source or claim name the donor, or any long word of it."""
    return work.mentions(donor) or any(work.mentions(word[0]) for word in _WORD.finditer(donor))


def _replaced(text: str, name: Name, donor: str) -> str:
    return with_article(text[: name.start], donor) + donor + text[name.end :]
