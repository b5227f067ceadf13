"""Word lists of the perturbations: closed-class words, verbs, opposites, names of places and people."""

from __future__ import annotations

from factgym.generators.base import word_table
from factgym.generators.synthetic.grammar import MONTHS, listed, participle, third_person, word_list, word_map


def word_set(name: str) -> frozenset[str]:
    """Return a list of words of the table "english" as a set."""
    return frozenset(word_list(name))


CALENDAR = frozenset((*MONTHS, *listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday Christmas Easter")))
FUNCTION_WORDS = word_set("function_words")

VERBS = word_list("verbs")
PARTICIPLES = word_set("participles")
AMBIGUOUS_VERBS = word_set("ambiguous_verbs")
_IRREGULAR_PAST = word_map("irregular_past")
PAST = {verb: _IRREGULAR_PAST.get(verb) or participle(verb) for verb in VERBS}
THIRD = {verb: third_person(verb) for verb in VERBS}
BASE_OF_PAST = {past: verb for verb, past in sorted(PAST.items()) if past != verb} | {"found": "find"}
"""Past forms to base forms; a form that is its own base is indistinguishable from the present."""
BASE_OF_THIRD = {third: verb for verb, third in sorted(THIRD.items())}

ANTONYMS: dict[str, str] = {}
for _first, _second in map(str.split, word_table("english")["antonyms"]):
    ANTONYMS.setdefault(_first, _second)
    ANTONYMS.setdefault(_second, _first)

MALE, FEMALE = word_set("male"), word_set("female")
MALE_WORDS, FEMALE_WORDS = word_set("male_words"), word_set("female_words")
COUNTRIES, DEMONYMS = word_list("countries"), word_list("demonyms")
STATES, CITIES = word_list("states"), word_list("cities")
NO_ANCHOR = word_set("wide_names")
"""Names so wide that a source implies them without naming them."""

SAFE_DEMONYM_DONORS = tuple(name for name in DEMONYMS if name not in listed("American British English Scottish Welsh"))
GAZETTEER: dict[str, tuple[str, ...]] = {
    "country": COUNTRIES,
    "demonym": SAFE_DEMONYM_DONORS,
    "state": STATES,
    "city": CITIES,
}
