"""What the other claims of a data set lend: names of the same kind, and facts about something of the same kind."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from factgym.generators.probes.base import ClaimLike
from factgym.generators.probes.lexicon import GAZETTEER, NO_ANCHOR
from factgym.generators.probes.names import Kinds, find_names, gender_in, gender_of, kind_alone
from factgym.generators.probes.statement import body_of, ending_of, main_verb

_VERB_PHRASE = re.compile(r"(?:is|was|has|had|[a-z]+(?:ed|s)|won|wrote|led|built|began|became|made|sang|went|took) ")
_LEANS = re.compile(
    r"[,;:()\"“”?!]|\b(?:not|never|no|only|also|too|and|or|but|nothing|none|same|other|another|both|either|neither|n't|it|its"
    r"|they|their|himself|herself|fish|called|named|because|who|which|that|the one|prior|one with|this|these|born|before|after|featured|stars|starred by)\b|n['’]t\b",
    re.I,
)
_TAGS = re.compile(r"-L[RSC]B-|-R[RSC]B-|``|''")
_MIN_WORDS, _MAX_WORDS = 3, 11


@dataclass(frozen=True, slots=True)
class Fact:
    """What a claim of the pool says of its subject: a verb phrase, in the singular. gender: that the phrase shows."""

    subject: str
    kind: str
    gender: str
    phrase: str


class Pool:
    """Claims to borrow from. The same claims in the same order lend the same."""

    def __init__(self, items: Iterable[ClaimLike] = ()) -> None:
        self.items: Sequence[ClaimLike] = tuple(items)

    @cached_property
    def kinds(self) -> Kinds:
        """What the names of these claims are names of."""
        return Kinds((item.claim, item.source) for item in self.items)

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Names by kind, sorted; the gazetteer's lists for the kinds that have one."""
        found: dict[str, set[str]] = {}
        for item in self.items:
            for name in find_names(item.claim, item.source):
                kind = self.kinds.of(name.text)
                sure = kind != "person" or self.kinds.is_seen(name.text, kind)
                if kind and sure and kind not in GAZETTEER and not _TAGS.search(name.text):
                    found.setdefault(kind, set()).add(name.text)
        return dict(GAZETTEER) | {kind: tuple(sorted(names)) for kind, names in found.items()}

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What the claims say of the things that they begin with, each once, sorted."""
        found = {fact for item in self.items if (fact := self._fact(item)) is not None}
        return tuple(sorted(found, key=lambda one: (one.phrase, one.subject)))

    def _fact(self, item: ClaimLike) -> Fact | None:
        text = body_of(item.claim).text
        names = find_names(text, item.source)
        verb = main_verb(text)
        if not names or names[0].start or verb is None or verb.start != names[0].end + 1:
            return None
        phrase = ending_of(text)[0][verb.start :]
        inside = [name for name in find_names(phrase) if name.text not in names[0].text]
        if not _MIN_WORDS <= len(phrase.split()) <= _MAX_WORDS or not _VERB_PHRASE.match(phrase) or not inside:
            return None
        if _LEANS.search(phrase) or _TAGS.search(phrase) or any(part in phrase for part in names[0].text.split()):
            return None
        if all(kind_alone(one.text) or one.text.split(" ")[0] in NO_ANCHOR for one in inside):
            return None
        kind = self.kinds.of(names[0].text, text, names[0].span)
        return Fact(names[0].text, kind, gender_in(phrase) or "", phrase) if kind else None

    def fingerprint(self) -> str:
        """SHA-256, in hex, over the claims."""
        digest = hashlib.sha256()
        for item in self.items:
            for part in (item.id, item.claim, item.source, item.label):
                digest.update(part.encode("utf-8", "surrogatepass") + b"\x1f")
        return digest.hexdigest()


def suits(fact: Fact, name: str, kind: str) -> bool:
    """Whether a fact can be said of the name: of the same kind, and its gender does not clash."""
    gender = gender_of(name)
    return fact.kind == kind and fact.subject != name and (not fact.gender or fact.gender == gender)
