"""The closed classes and the verbs that the rule extractor knows, as one table from word to kind.

Verbs are listed by their base form, from which the regular forms are made; irregular ones are written out. Beside the
table any lower-case word that ends in "ed" counts as a verb, so the list matters for present tenses above all.
"""

from __future__ import annotations

from collections.abc import Mapping

DET, PREP, CONJ, SUB, WH, PRON, AUX, BE, ADV = range(1, 10)
VERB, GERUND, NOUN, NUM, DATE, ENT, COMMA, STOP = range(10, 18)
"""Kinds of words, and of the units that they make."""

_DETERMINERS = "the a an this that these those his her its their our my your some any each every all both another no two three four five six seven eight nine ten twelve several many few"
_PREPOSITIONS = (
    "of in at on for by with to from into onto over under against between among through during after before since "
    "until within without near around about across along behind beyond as like than per via toward towards upon "
    "alongside despite including following outside inside"
)
_CONJUNCTIONS = "and or but nor"
_SUBORDINATORS = "because although though while whereas if unless when once whether so"
_WH = "who whom whose which where that"
_PRONOUNS = (
    "he she it they we i you him them us me himself herself itself themselves this these those there here someone "
    "something everyone everything nobody nothing one i'm i've i'd i'll he's she's it's they're we're that's there's"
)
_BE = "is are was were be been being am became become becomes remains remained"
_AUXILIARIES = "has have had do does did will would can could may might must shall should having"
_ADVERBS = (
    "also not never first last then later now still already often always usually once again only just even most more "
    "originally formerly currently previously subsequently eventually finally officially generally commonly widely "
    "however therefore thus additionally moreover furthermore instead meanwhile hence well very too ever twice "
    "today together n't previously best better out up off down away back abroad overall indeed besides nonetheless nevertheless likewise soon there"
)
_REGULAR = (
    "accept achieve act add administer adopt air announce appear appoint approve arrest arrive ask assassinate assume "
    "attack attend award base belong border broadcast call capture captain carry cause celebrate chair change claim "
    "close coach collaborate collect command compete complete compose conclude conduct conquer consist contain "
    "control cover create cross crown debut declare dedicate defeat define deliver depict derive describe design "
    "destroy develop die direct discover dissolve divide divorce dominate earn edit elect emerge employ end enter "
    "establish exist explain explore expand express feature film finish flow focus follow form formulate found gain "
    "graduate guest handle happen help host house identify illustrate immigrate implement include influence "
    "inherit inspire introduce invade invent invest issue join kill land last launch list live locate locat loc "
    "maintain manage manufacture march mark marry measure merge move murder name narrate need nominate observe occupy "
    "occur offer open operate oppose orbit organize organise originate own paint pass patent perform pilot pioneer "
    "place play portray possess practice preach precede premiere present preside produce promote propose prove "
    "provide publish purchase race raise rank reach receive record refer reign reject relate release relocate remain "
    "remarry rename replace represent require reside resign retire return reveal rule sail sample score secure "
    "separate serve settle share shoot sign span specialize speciali sponsor star start state stay stop study "
    "succeed suggest support surrender surround survive test tour trade train transfer translate travel treat turn "
    "unite use visit voice vote walk want weigh work"
)
_IRREGULAR = (
    "won wins win beat beats beaten wrote write writes written sang sing sings sung made make makes gave give gives "
    "given took take takes taken went go goes gone came come comes began begin begins begun became led lead leads "
    "held hold holds met meet meets built build builds bought buy buys sold sell sells taught teach teaches fought "
    "fight fights lost lose loses left leave leaves kept keep keeps said say says told tell tells found find finds "
    "bore bear bears born grew grow grows grown knew know knows known drew draw draws drawn flew fly flies flown "
    "ran run runs rose rise rises risen fell fall falls fallen spoke speak speaks spoken broke break breaks broken "
    "chose choose chooses chosen drove drive drives driven ate eat eats eaten saw see sees seen shot shoots set sets "
    "put puts cut cuts hit hits let lets cost costs spent spend spends sent send sends brought bring brings caught "
    "catch catches thought think thinks sought seek seeks stood stand stands understood lay lie lies laid lays paid "
    "pay pays got get gets became hosted lent struck strike strikes swam swim swims swum sank wore wear wears worn "
    "won hung hangs overthrew overthrow overcame underwent withdrew rode ride rides ridden dealt deals read reads "
    "shone showed show shows shown slew slain sprang threw throw throws thrown woke feat features stars"
)
_NO_PAST = (
    "need seed speed breed feed indeed hundred bed red shed bleed weed exceed succeed proceed aged sacred naked wicked "
    "reed creed deed greed embed biped moped infrared united kindred hatred"
)
_NO_GERUND = (
    "king ring thing spring string morning evening building wedding during something anything nothing everything wing "
    "sing bring swing sibling ceiling being following including viking sterling pudding"
)
_ROLES = (
    "governor president king queen mayor emperor prime minister chancellor pope bishop archbishop director author "
    "capital chairman chief secretary senator speaker duke duchess earl prince princess captain manager founder "
    "leader head coach member winner champion brother sister son daughter father mother wife husband ceo ambassador "
    "vice commander general judge justice treasurer dean professor sheriff premier"
)
MONTHS = frozenset(
    (
        *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
        *("November", "December"),
    )
)
JOINERS = frozenset(
    (
        "of",
        "the",
        "de",
        "da",
        "del",
        "della",
        "di",
        "du",
        "van",
        "von",
        "der",
        "den",
        "la",
        "le",
        "al",
        "bin",
        "&",
        "for",
    )
)
"""Lower-case words that may stand inside a name: "Bank of England", "Ludwig van Beethoven"."""

POSSESSIVES = frozenset(("his", "her", "its", "their", "my", "your", "our"))
"""A subject that begins with one of these names nobody."""

ROLES = frozenset(_ROLES.split())
"""Capitalised or not, one of these before "of" is what somebody is, not part of a name."""

PLACE_PREPOSITIONS = frozenset(("in", "at", "near", "from", "for", "of", "to", "around", "outside"))


def _regular_forms(base: str) -> dict[str, int]:
    if base.endswith("e"):
        stem, third = base[:-1], base + "s"
    elif base.endswith("y") and base[-2] not in "aeiou":
        return {base: VERB, base[:-1] + "ies": VERB, base[:-1] + "ied": VERB, base + "ing": GERUND}
    else:
        stem, third = base, base + ("es" if base.endswith(("s", "x", "z", "ch", "sh")) else "s")
    return {base: VERB, third: VERB, stem + "ed": VERB, stem + "ing": GERUND}


def _kinds() -> dict[str, int]:
    table: dict[str, int] = {}
    for base in _REGULAR.split():
        table.update(_regular_forms(base))
    for words, kind in (
        *((_IRREGULAR, VERB), (_NO_PAST, NOUN), (_NO_GERUND, NOUN), (_ADVERBS, ADV), (_SUBORDINATORS, SUB)),
        *((_PREPOSITIONS, PREP), (_PRONOUNS, PRON), (_WH, WH), (_DETERMINERS, DET), (_CONJUNCTIONS, CONJ)),
        *((_AUXILIARIES, AUX), (_BE, BE)),
    ):
        table.update(dict.fromkeys(words.split(), kind))
    table.update({",": COMMA, ";": STOP, ":": STOP, "(": COMMA, ")": COMMA, "—": COMMA})
    return table


KINDS: Mapping[str, int] = _kinds()
"""Lower-case word -> kind. "that", "this", "these" and "those" are WH and DET: which of both is not told apart."""
