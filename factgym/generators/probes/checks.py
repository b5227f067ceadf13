"""Whether a probe is what it says: changed, fluent, and aimed where its tag says. Written apart from the operators.

The checks look at the two texts and the source alone: which words went and came. They are necessary signs, not proof:
a swapped name that the source does not know, a polarity that differs, added words on which the source is silent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import lru_cache

from factgym.corpora.text import fold, terms
from factgym.generators.probes.base import ATTRIBUTABLE, Probe
from factgym.generators.probes.fluency import fluency_faults
from factgym.generators.synthetic.words import listed

_TOKEN = re.compile(r"\d[\d,.]*\d|\d|[^\W\d_]+(?:['’-][^\W\d_]+)*|[^\w\s]|_")
_NUMBER_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    " twenty thirty forty fifty sixty seventy eighty ninety second third fourth fifth sixth seventh eighth ninth tenth"
    " eleventh twelfth hundred thousand million"
)
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_TIME_WORDS_TEXT = "january february march april may june july august september october november december in on the s , st nd rd th of"
_TIME_WORDS = frozenset(_TIME_WORDS_TEXT.split())
_NEGATORS_TEXT = (
    "not no never none nobody nothing nor neither without cannot hardly isn't aren't wasn't weren't don't doesn't didn't"
    " won't can't couldn't wouldn't shouldn't hasn't haven't hadn't"
)
_NEGATORS = frozenset(_NEGATORS_TEXT.split())
_SUPPORT = frozenset(listed("do does did can has have had be is are was were will"))
_NEGATING_PREFIX = re.compile(r"(?:un|in|im|il|ir|dis|non)-?(?=\w{3})")
_OPPOSED = (
    "first|last", "large big high long great major heavy upper old strong increase increased increases rose rise more"
    " most best better up above expensive|small little low short minor light lower young new weak decrease decreased"
    " decreases fell fall less fewer least worst worse down below cheap", "earlier early before earliest ancient"
    "|later late after latest modern", "won wins win accepted accepts opened opens began begins started allowed allows"
    " supported supports arrived gained passed praised loved loves always inside alive|lost loses lose rejected rejects"
    " closed closes ended ends stopped banned bans opposed opposes left failed criticized hated hates never outside dead",
    "north northern northeast northwest|south southern southwest southeast", "east eastern|west western",
    "public professional famous safe positive fictional male retired domestic rich cold wet indoor internal permanent"
    " empty easy rural natural true active|private amateur unknown dangerous negative real female active foreign poor hot"
    " dry outdoor external temporary full difficult urban artificial false retired", "announced confirmed|denied refuted",
)  # fmt: skip
_STEMS = {
    "bigg": "big",
    "larg": "large",
    "hott": "hot",
    "wett": "wet",
    "heavi": "heavy",
    "earli": "early",
    "lat": "late",
}
_UNIVERSAL = frozenset(
    listed(
        "all always every only first exclusively entirely extremely most best completely never famous best-known sole whole"
        " everyone everywhere highest largest greatest"
    )
)
_LIMITS = frozenset(
    listed(
        "some many most may might can could usually often sometimes generally typically frequently commonly occasionally"
        " rarely mainly mostly largely primarily partly partially predominantly somewhat fairly relatively slightly quite"
        " almost nearly a an of the"
    )
)
_PRESUPPOSES = re.compile(
    r"^\W*(?:[Ee]ven )?(?:after|before|despite|since|because|following|having|although|though|contrary to|while|given|as"
    r"|when|again|still|until|now that|with|by then|in spite of)\b",
    re.I,
)
_JOINS = re.compile(r"\b(?:who|which|whose|where|and|that|not|in the)\b", re.I)
_STEM = 5
_NEW_SHARE = 0.6


def check_probe(probe: Probe) -> tuple[str, ...]:
    """What is wrong with a probe, each as "check: detail"; empty when it passes every check."""
    keeps = _keeps(probe)
    faults = [f"changed: {one}" for one in changed_faults(probe.claim, probe.original_claim)]
    faults += [f"fluent: {one}" for one in fluency_faults(probe.claim, probe.original_claim)]
    aims = aim_faults(probe.strategy, probe.error_type, probe.original_claim, probe.claim, probe.source, keeps=keeps)
    return tuple(faults + [f"aims: {one}" for one in aims])


def _keeps(probe: Probe) -> bool:
    """A false claim's rewrite keeps its label, too; only who made it can say so."""
    return probe.gold_label == ATTRIBUTABLE or bool(probe.meta.get("keeps_label"))


def changed_faults(text: str, original: str) -> list[str]:
    """Whether more than white space, case and punctuation changed."""
    return [] if _bare(text) != _bare(original) else ["nothing but white space, case or punctuation"]


@lru_cache(maxsize=8192)
def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold(text).casefold()))


def aim_faults(
    strategy: str, error_type: str | None, original: str, text: str, source: str, *, keeps: bool = False
) -> list[str]:
    """Why the change from `original` to `text` is not what the strategy and the error say; empty when it is.

    keeps: the probe says that it keeps the label. An empty source knows nothing.
    """
    change = _Change(original, text, source)
    if keeps:
        return _kept(change, graft=strategy == "multi_hop_graft")
    if strategy == "presupposition" and error_type == "fabrication":
        return _presupposed(change)
    if strategy == "multi_hop_graft" and error_type == "fabrication":
        return _grafted(change)
    check = _BY_ERROR.get(error_type or "")
    return check(change) if check else [f"no error {error_type!r}"]


class _Change:
    """The tokens that went and came, as stretches."""

    def __init__(self, original: str, text: str, source: str) -> None:
        self.original, self.text, self.source = original, text, source
        self.old, self.new = _TOKEN.findall(original), _TOKEN.findall(text)
        matcher = SequenceMatcher(
            None, [_key(one) for one in self.old], [_key(one) for one in self.new], autojunk=False
        )
        self.edits = [(self.old[a:b], self.new[c:d]) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]

    @property
    def gone(self) -> list[str]:
        """Every word that went."""
        return [word for old, _ in self.edits for word in old if word[0].isalnum()]

    @property
    def come(self) -> list[str]:
        """Every word that came."""
        return [word for _, new in self.edits for word in new if word[0].isalnum()]

    def knows(self, word: str) -> bool:
        """Whether source or original have the word, as a whole word, ignoring case."""
        return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", f"{self.source}\n{self.original}", re.I) is not None

    def new_share(self) -> float:
        """The share of the content words that came on which source and original are silent."""
        words = terms(" ".join(self.come))
        stems = {word[:_STEM] for word in terms(f"{self.source} {self.original}")}
        return sum(word[:_STEM] not in stems for word in words) / len(words) if words else 0.0


def _key(token: str) -> str:
    return token.casefold().replace("’", "'")


def _is_number(word: str) -> bool:
    return word[0].isdigit() or any(part in _NUMBERS for part in word.lower().split("-"))


def _entity(change: _Change) -> list[str]:
    faults = []
    gone = [word for word in change.gone if word.lower() not in ("a", "an")]
    come = [word for word in change.come if word.lower() not in ("a", "an")]
    if not gone or not come:
        return ["no name in another's place"]
    if not any(_capital(word) for word in gone) or not any(_capital(word) for word in come):
        faults.append("what changed is no name")
    small = [
        word
        for word in come
        if word.islower() and word not in ("of", "the", "de", "la", "von", "van", "del", "der", "da", "di", "al")
    ]
    if small:
        faults.append(f"words that are no name came in: {small[0]!r}")
    if sum(1 for old, new in change.edits if any(_capital(word) for word in old + new)) > 2:
        faults.append("more than one place changed")
    if any(change.knows(word) for word in come if len(word) > 3):
        faults.append("the source knows the new name")
    numbers = [word for word in gone + come if word[0].isdigit()]
    return faults + (["a number changed"] if numbers else [])


def _capital(word: str) -> bool:
    return word[0].isupper()


def _numeral_change(change: _Change) -> list[str]:
    if Counter(filter(_is_number, change.gone)) == Counter(filter(_is_number, change.come)):
        return ["no number changed"]
    other = [
        word
        for word in change.gone + change.come
        if not _is_number(word) and word not in ("a", "an", "st", "nd", "rd", "th")
    ]
    if other:
        return [f"more than numbers changed: {other[0]!r}"]
    known = [word for word in change.come if change.knows(word)]
    return [f"the source has the new number {known[0]!r}"] if known else []


def _temporal(change: _Change) -> list[str]:
    if not any(word[0].isdigit() for word in change.come):
        return ["no time changed"]
    other = [word for word in change.gone + change.come if not word[0].isdigit() and word.lower() not in _TIME_WORDS]
    if other:
        return [f"more than a time changed: {other[0]!r}"]
    years = [word for word in change.come if word.isdigit() and len(word) == 4]
    decade = re.search(r"\b(\d{3})0s\b", change.text)
    was = re.findall(r"\b(\d{3})\d\b", change.original)
    if decade and decade[0] not in change.original and decade[1] in was:
        return ["the decade holds the year"]
    return ["the source has the new year"] if any(change.knows(word) for word in years) else []


def _negated(change: _Change) -> list[str]:
    if len(change.gone) + len(change.come) > 6:
        return ["too much changed for one turn of meaning"]
    if _negations(change.old) % 2 != _negations(change.new) % 2:
        rest = [word for word in change.gone + change.come if _key(word) not in _NEGATORS | _SUPPORT]
        return [] if len(rest) <= 2 else [f"more than a negation changed: {rest[0]!r}"]
    if len(change.gone) != len(change.come):
        return ["polarity is the same, and no word gave way to its opposite"]
    pairs = [(old.lower(), new.lower()) for old, new in zip(change.gone, change.come, strict=True)]
    pairs = [pair for pair in pairs if pair not in (("a", "an"), ("an", "a"))]
    opposed = [pair for pair in pairs if _opposed(*pair)]
    return (
        []
        if opposed and len(opposed) == len(pairs)
        else ["polarity is the same, and no word gave way to its opposite"]
    )


def _negations(tokens: list[str]) -> int:
    return sum(_key(token) in _NEGATORS for token in tokens)


def _opposed(left: str, right: str) -> bool:
    if _NEGATING_PREFIX.sub("", left) == right or _NEGATING_PREFIX.sub("", right) == left:
        return True
    for line in _OPPOSED:
        one, other = (frozenset(side.split()) for side in line.split("|"))
        stems = {_degree(left), left}, {_degree(right), right}
        if (stems[0] & one and stems[1] & other) or (stems[0] & other and stems[1] & one):
            return True
    return False


def _degree(word: str) -> str:
    """A comparative or superlative without its ending ("biggest" gives "big")."""
    for ending in ("est", "er"):
        stem = word.removesuffix(ending)
        if stem != word:
            return _STEMS.get(stem, stem)
    return word


def _widened(change: _Change) -> list[str]:
    wide = [word for word in change.come if word.lower() in _UNIVERSAL]
    if not wide:
        return ["nothing that widens came in"]
    if any(change.knows(word) for word in wide):
        return ["the source has the wider word"]
    gone = [word for word in change.gone if word.lower() not in _LIMITS]
    return [f"more than a limit went: {gone[0]!r}"] if gone else []


def _fabricated(change: _Change) -> list[str]:
    if len(change.gone) > 1:
        return ["the claim itself changed"]
    if len(change.come) < 2:
        return ["no detail came in"]
    return ["the source has what came in"] if change.new_share() < _NEW_SHARE else []


def _presupposed(change: _Change) -> list[str]:
    added = [" ".join(new) for _, new in change.edits if len(new) > 1]
    if not any(_PRESUPPOSES.match(one) for one in added):
        return ["nothing is presupposed"]
    return _fabricated(change)


def _grafted(change: _Change) -> list[str]:
    faults = _fabricated(change)
    joined = _JOINS.search(" ".join(change.come)) is not None
    anchored = any(_capital(word) or word[0].isdigit() for word in change.come)
    return faults + ([] if joined and anchored else ["no second fact was joined"])


def _kept(change: _Change, *, graft: bool) -> list[str]:
    """Signs that the meaning stayed: numbers, polarity and names as they were, most words as well."""
    faults = []
    if _negations(change.old) % 2 != _negations(change.new) % 2:
        faults.append("the polarity changed")
    decades = {f"{year[:3]}0" for year in re.findall(r"\b\d{4}\b", change.original)} if graft else set()
    come = Counter(word for word in change.come if _is_number(word))
    gone = Counter(word for word in change.gone if _is_number(word))
    if not graft and come != gone:
        faults.append("a number changed")
    elif graft and any(word not in decades and word not in change.old and not word.isalpha() for word in come):
        faults.append("a new number that does not follow")
    names = Counter(
        word for word in change.old[1:] if _capital(word) and len(word) > 3 and word.lower() not in _TIME_WORDS
    )
    if not graft and any(word not in change.new and word.lower() not in change.new for word in names):
        faults.append("a name went")
    return faults + ([] if _overlap(change) >= 0.5 else ["too little of the claim is left"])


def _overlap(change: _Change) -> float:
    old, new = set(terms(change.original)), set(terms(change.text))
    return len(old & new) / len(old) if old else 0.0


_BY_ERROR: dict[str, Callable[[_Change], list[str]]] = {
    "entity_substitution": _entity,
    "numerical_exaggeration": _numeral_change,
    "temporal_shift": _temporal,
    "negation_flip": _negated,
    "scope_inflation": _widened,
    "fabrication": _fabricated,
}
