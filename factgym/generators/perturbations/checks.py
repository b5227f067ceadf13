"""Checks of probes: changed, fluent, and aimed at the tagged error. No operator's code is used here.

Each check compares the original and the changed text (and the source): which words were removed and which were added.
They are necessary signs, not proof: a swapped name that the source lacks, a polarity that differs, added words on
which the source is silent. Faults of the original (tokenised punctuation, a missing full stop) do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

from factgym.generators.base import word_table
from factgym.generators.perturbations.grammar import BEFORE_NAMES, Cues, contains_words, word_set
from factgym.text.folding import fold
from factgym.text.words import terms, words_in

_CUES = Cues("checks")

# Fluency: grammar and punctuation faults that the surface shows.

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_BRACKETS = ("()", "[]", "{}", "“”")
_ARTICLE = re.compile(r"\b([Aa]n?) [\"'“‘]?([A-Za-z][\w’'.-]*|\d[\d,.]*)")
_MAY_DOUBLE = frozenset({"had", "that", "very", "so", "bora", "new", "duran", "who", "boom", "yo", "really"})
_NOT_NAMES = BEFORE_NAMES | {"as", "after", "before"}
"""Words that may precede a name with a capital only because they open the sentence."""
_MIN_RATIO, _MAX_RATIO = 0.5, 2.2
_MAX_GROWTH = 130
"""Characters that a short claim may grow by, whatever the ratio."""
_FAULT_PATTERNS = (
    ("punctuation", _CUES.marks),
    ("leftover", _CUES.leftover),
    ("capital", _CUES.capitalised),
    ("verb form", _CUES.do_past),
    ("double negation", _CUES.double_not),
    ("number", _CUES.one_many),
)


def fluency_faults(text: str, original: str = "") -> list[str]:
    """Faults of grammar that `text` has and `original` has not; empty when there are none."""
    # Multiset difference: a fault that the original has as often does not count.
    faults = list(Counter(_surface_faults(text)) - Counter(_surface_faults(original)))
    if not original:
        return faults
    longest = max(_MAX_RATIO * len(original), len(original) + _MAX_GROWTH)
    if not _MIN_RATIO * len(original) <= len(text) <= longest:
        faults.append("length")
    if text[:1].islower() and not original[:1].islower():
        faults.append("sentence case")
    if _final_mark(text) != _final_mark(original):
        faults.append("final punctuation")
    # Words that the original writes with a capital inside a run of names, and the text in lower case.
    runs = re.findall(r"(?<![\w'’])([A-Z][\w'’-]+) (?=[A-Z][a-z])", original)
    names = {word for word in runs if word.lower() not in _NOT_NAMES}
    names |= set(re.findall(r"(?<=[a-z,] )[A-Z][\w'’-]+", original))
    new = set(_WORD.findall(text)) - set(_WORD.findall(original))
    lowered = sorted(word for word in names if word.lower() in new and word not in text)
    return faults + [f"name in lower case {word!r}" for word in lowered]


def _surface_faults(text: str) -> list[str]:
    """Return what no edited sentence may have: unbalanced marks, doubled words, wrong articles, stray spaces."""
    faults = [f"unbalanced {pair}" for pair in _BRACKETS if text.count(pair[0]) != text.count(pair[1])]
    faults += ['unbalanced "'] * (text.count('"') % 2)
    doubled = re.finditer(r"\b([^\W\d_]+) \1\b", text, re.I)
    faults += [f"doubled word {match[1]!r}" for match in doubled if match[1].lower() not in _MAY_DOUBLE]
    faults += [f"article {match[0]!r}" for match in _ARTICLE.finditer(text) if not _article_agrees(text, match)]
    faults += [f"{name} {match[0]!r}" for name, pattern in _FAULT_PATTERNS for match in pattern.finditer(text)]
    return faults + (["double space"] if re.search(r"\S  \S", text) else [])


def _article_agrees(text: str, match: re.Match[str]) -> bool:
    """Whether "a" or "an" agrees with the next word, as far as the spelling shows its sound."""
    article, word = match[1], match[2]
    start = match.start()
    if (
        article == "A"
        and start
        and text[start - 1] != "\n"
        and text[max(0, start - 64) : start].rstrip()[-1:] not in ".?!"
    ):
        return True  # A letter or a grade inside a sentence.
    if word[0].isdigit():
        vowel = _CUES.vowel_digits.match(word) is not None
    elif _CUES.sounds_consonant.match(word):
        vowel = False
    else:
        vowel = _CUES.sounds_vowel.match(word if word.isupper() else word.lower()) is not None
    return vowel == (article.lower() == "an")


def _final_mark(text: str) -> str:
    mark = text.rstrip()[-1:]
    return mark if mark in ".?!" else ""


def changed_faults(text: str, original: str) -> list[str]:
    """A fault where nothing but white space, case and punctuation changed."""
    return [] if _words_of(text) != _words_of(original) else ["nothing but white space, case or punctuation"]


@lru_cache(maxsize=8192)
def _words_of(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold(text).casefold()))


# Aim: the words that were removed and added fit the strategy and the error.

_TOKEN = re.compile(r"\d[\d,.]*\d|\d|[^\W\d_]+(?:['’-][^\W\d_]+)*|[^\w\s]|_")
_NUMBER_WORDS = word_set("number_words")
_TIME_WORDS = word_set("time_words")
_NEGATORS = word_set("negators")
_NAME_PARTICLES = words_in("of the de la von van del der da di al")
_SUPPORT = word_set("support_verbs")
_OPPOSITES = tuple(tuple(words_in(side) for side in pair) for pair in word_table("english")["opposites"])
_DEGREE_STEMS = {
    "bigg": "big", "larg": "large", "hott": "hot", "wett": "wet", "heavi": "heavy", "earli": "early", "lat": "late",
}  # fmt: skip
# Words that a widening may bring in, and words that it may take out.
_UNIVERSAL = word_set("universal")
_LIMITS = word_set("limits")
_STEM = 5
_NEW_SHARE = 0.6


def aim_faults(
    strategy: str, error_type: str | None, original: str, text: str, source: str, *, keeps: bool = False
) -> list[str]:
    """Faults of the change from `original` to `text` by strategy and error; empty when it fits both.

    keeps: the probe claims to keep the label. An empty source mentions nothing.
    """
    change = _Change(original, text, source)
    if keeps:
        return label_faults(change, graft=strategy == "multi_hop_graft")
    check = _CHECKS.get((strategy, error_type or "")) or _CHECKS.get(("", error_type or ""))
    return check(change) if check else [f"no error {error_type!r}"]


class _Change:
    """The token difference of two texts: `edits` are pairs of removed and added tokens.

    removed, added: the words among them, in order.
    """

    def __init__(self, original: str, text: str, source: str) -> None:
        self.original, self.text = original, text
        self.evidence = f"{source}\n{original}"
        self.old, self.new = _TOKEN.findall(original), _TOKEN.findall(text)
        # Ratcliff and Obershelp's matching blocks over case-folded tokens; all that is between blocks is an edit.
        matcher = SequenceMatcher(None, [*map(_fold_token, self.old)], [*map(_fold_token, self.new)], autojunk=False)
        self.edits = [(self.old[a:b], self.new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
        self.removed = [word for old, _ in self.edits for word in old if word[0].isalnum()]
        self.added = [word for _, new in self.edits for word in new if word[0].isalnum()]

    def mentions_any(self, words: Iterable[str]) -> bool:
        """Whether source or original have one of the words, as a whole word, ignoring case."""
        return any(contains_words(self.evidence, word) for word in words)

    @cached_property
    def unknown_share(self) -> float:
        """The share of the added content words on which source and original are silent."""
        words = terms(" ".join(self.added))
        stems = {word[:_STEM] for word in terms(self.evidence)}
        return sum(word[:_STEM] not in stems for word in words) / len(words) if words else 0.0

    @property
    def keeps_polarity(self) -> bool:
        """Whether the number of negations has the same parity as before."""
        return _count_negations(self.old) % 2 == _count_negations(self.new) % 2


def _fold_token(token: str) -> str:
    return token.casefold().replace("’", "'")


def _count_negations(tokens: Sequence[str]) -> int:
    return sum(_fold_token(token) in _NEGATORS for token in tokens)


def _is_number(word: str) -> bool:
    return word[0].isdigit() or any(part in _NUMBER_WORDS for part in word.lower().split("-"))


def _has_capital(words: Iterable[str]) -> bool:
    return any(word[0].isupper() for word in words)


def entity_faults(change: _Change) -> list[str]:
    """Names gave way to names that the source lacks, in at most two spans, and no number changed."""
    faults = []
    removed = [word for word in change.removed if word.lower() not in ("a", "an")]
    added = [word for word in change.added if word.lower() not in ("a", "an")]
    if not removed or not added:
        return ["no name in another's place"]
    if not _has_capital(removed) or not _has_capital(added):
        faults.append("what changed is no name")
    small = [word for word in added if word.islower() and word not in _NAME_PARTICLES]
    if small:
        faults.append(f"words that are no name came in: {small[0]!r}")
    if sum(_has_capital(old + new) for old, new in change.edits) > 2:
        faults.append("more than one place changed")
    if change.mentions_any(word for word in added if len(word) > 3):
        faults.append("the source knows the new name")
    if any(word[0].isdigit() for word in removed + added):
        faults.append("a number changed")
    return faults


def number_faults(change: _Change) -> list[str]:
    """Only numbers changed, to numbers that the source lacks."""
    if Counter(filter(_is_number, change.removed)) == Counter(filter(_is_number, change.added)):
        return ["no number changed"]
    spelling = ("a", "an", "st", "nd", "rd", "th")
    extra = [word for word in change.removed + change.added if not _is_number(word) and word not in spelling]
    if extra:
        return [f"more than numbers changed: {extra[0]!r}"]
    mentioned = [word for word in change.added if change.mentions_any([word])]
    return [f"the source has the new number {mentioned[0]!r}"] if mentioned else []


def time_faults(change: _Change) -> list[str]:
    """Only times changed, to years that the source lacks; a new decade is another one."""
    if not any(word[0].isdigit() for word in change.added):
        return ["no time changed"]
    words = change.removed + change.added
    extra = [word for word in words if not word[0].isdigit() and word.lower() not in _TIME_WORDS]
    if extra:
        return [f"more than a time changed: {extra[0]!r}"]
    decade = re.search(r"\b(\d{3})0s\b", change.text)
    years = re.findall(r"\b(\d{3})\d\b", change.original)
    if decade and decade[0] not in change.original and decade[1] in years:
        return ["the decade holds the year"]
    new_years = [word for word in change.added if word.isdigit() and len(word) == 4]
    return ["the source has the new year"] if change.mentions_any(new_years) else []


def negation_faults(change: _Change) -> list[str]:
    """The parity of the negations differs, or every changed word gave way to its opposite."""
    if len(change.removed) + len(change.added) > 6:
        return ["too much changed for one turn of meaning"]
    # An odd change in the number of negations turns the meaning; after an even one, opposites have to do it.
    if not change.keeps_polarity:
        words = change.removed + change.added
        extra = [word for word in words if _fold_token(word) not in _NEGATORS | _SUPPORT]
        return [] if len(extra) <= 2 else [f"more than a negation changed: {extra[0]!r}"]
    pairs = list(zip(map(str.lower, change.removed), map(str.lower, change.added), strict=False))
    pairs = [pair for pair in pairs if pair not in (("a", "an"), ("an", "a"))]
    same_length = len(change.removed) == len(change.added)
    if same_length and pairs and all(_are_opposites(*pair) for pair in pairs):
        return []
    return ["polarity is the same, and no word gave way to its opposite"]


def _are_opposites(first: str, second: str) -> bool:
    """Return whether two words are antonyms: by a negating prefix, or by the table, in any degree of comparison."""
    if _CUES.negating_prefix.sub("", first) == second or _CUES.negating_prefix.sub("", second) == first:
        return True
    firsts, seconds = _degree_forms(first), _degree_forms(second)
    return any((firsts & a and seconds & b) or (firsts & b and seconds & a) for a, b in _OPPOSITES)


def _degree_forms(word: str) -> set[str]:
    """The word, and a comparative or superlative without its ending ("biggest" gives "big")."""
    stem = word.removesuffix("est") if word.endswith("est") else word.removesuffix("er")
    return {word, stem if stem == word else _DEGREE_STEMS.get(stem, stem)}


def scope_faults(change: _Change) -> list[str]:
    """A limiting word, and nothing else, gave way to a universal one that the source lacks."""
    universal = [word for word in change.added if word.lower() in _UNIVERSAL]
    if not universal:
        return ["nothing that widens came in"]
    if change.mentions_any(universal):
        return ["the source has the wider word"]
    removed = [word for word in change.removed if word.lower() not in _LIMITS]
    return [f"more than a limit went: {removed[0]!r}"] if removed else []


def fabrication_faults(change: _Change) -> list[str]:
    """Words were added, of which the source lacks most, and the claim stayed."""
    if len(change.removed) > 1:
        return ["the claim itself changed"]
    if len(change.added) < 2:
        return ["no detail came in"]
    return ["the source has what came in"] if change.unknown_share < _NEW_SHARE else []


def presupposition_faults(change: _Change) -> list[str]:
    """A fabrication in a phrase that presupposes."""
    added = [" ".join(new) for _, new in change.edits if len(new) > 1]
    if not any(_CUES.presupposes.match(phrase) for phrase in added):
        return ["nothing is presupposed"]
    return fabrication_faults(change)


def graft_faults(change: _Change) -> list[str]:
    """A fabrication that joins a second fact with a name or a number in it."""
    joined = _CUES.joining_words.search(" ".join(change.added)) is not None
    anchored = any(word[0].isupper() or word[0].isdigit() for word in change.added)
    return fabrication_faults(change) + ([] if joined and anchored else ["no second fact was joined"])


def label_faults(change: _Change, *, graft: bool) -> list[str]:
    """Signs that a label was not kept: numbers, polarity or names differ, or few words of the claim remain.

    A graft may replace a year by its decade.
    """
    faults = [] if change.keeps_polarity else ["the polarity changed"]
    added = [word for word in change.added if _is_number(word)]
    if graft:
        decades = {f"{year[:3]}0" for year in re.findall(r"\b\d{4}\b", change.original)}
        if any(word not in decades and word not in change.old and not word.isalpha() for word in added):
            faults.append("a new number that does not follow")
    else:
        if Counter(added) != Counter(word for word in change.removed if _is_number(word)):
            faults.append("a number changed")
        names = [word for word in change.old[1:] if word[0].isupper() and len(word) > 3]
        names = [word for word in names if word.lower() not in _TIME_WORDS]
        if any(word not in change.new and word.lower() not in change.new for word in names):
            faults.append("a name went")
    old, new = set(terms(change.original)), set(terms(change.text))
    overlap = len(old & new) / len(old) if old else 0.0
    return faults + ([] if overlap >= 0.5 else ["too little of the claim is left"])


_CHECKS: dict[tuple[str, str], Callable[[_Change], list[str]]] = {
    ("", "entity_substitution"): entity_faults,
    ("", "numerical_exaggeration"): number_faults,
    ("", "temporal_shift"): time_faults,
    ("", "negation_flip"): negation_faults,
    ("", "scope_inflation"): scope_faults,
    ("", "fabrication"): fabrication_faults,
    ("presupposition", "fabrication"): presupposition_faults,
    ("multi_hop_graft", "fabrication"): graft_faults,
}
"""The check of each error, by strategy where one has a check of its own."""
