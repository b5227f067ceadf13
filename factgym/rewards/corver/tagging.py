"""Part-of-speech tags and chunks of English sentences, from a closed-class lexicon, a verb list and word shapes.

    The Philadelphia Flyers won the Stanley Cup in 1975
    DET ENT---------------- VERB DET ENT------- PREP NUM

Verbs are listed by their base form, from which the regular forms are made; irregular ones are written out. Besides, any
lower-case word that ends in "ed" is tagged as a verb, so the list matters mostly for present tenses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

DET, PREP, CONJ, SUB, WH, PRON, AUX, BE, ADV = range(1, 10)
VERB, GERUND, NOUN, NUM, DATE, ENT, COMMA, STOP = range(10, 18)
"""Tags of words, and of the chunks that they form."""

_DETERMINERS = (
    "the a an this that these those his her its their our my your some any each every all both another no two three "
    "four five six seven eight nine ten twelve several many few"
)
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
    "today together n't previously best better out up off down away back abroad overall indeed besides nonetheless "
    "nevertheless likewise soon there"
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
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
JOINERS = frozenset("of the de da del della di du van von der den la le al bin & for".split())  # noqa: SIM905
"""Lower-case words inside a name: "Bank of England", "Ludwig van Beethoven"."""

POSSESSIVES = frozenset(("his", "her", "its", "their", "my", "your", "our"))
"""A subject that begins with one of these names no entity."""

ROLES = frozenset(_ROLES.split())
"""Capitalised or not, one of these before "of" is a role, not part of a name."""

PLACE_PREPOSITIONS = frozenset(("in", "at", "near", "from", "for", "of", "to", "around", "outside"))


def _regular_forms(base: str) -> dict[str, int]:
    if base.endswith("e"):
        stem, third = base[:-1], base + "s"
    elif base.endswith("y") and base[-2] not in "aeiou":
        return {base: VERB, base[:-1] + "ies": VERB, base[:-1] + "ied": VERB, base + "ing": GERUND}
    else:
        stem, third = base, base + ("es" if base.endswith(("s", "x", "z", "ch", "sh")) else "s")
    return {base: VERB, third: VERB, stem + "ed": VERB, stem + "ing": GERUND}


def _build_lexicon() -> dict[str, int]:
    lexicon: dict[str, int] = {}
    for base in _REGULAR.split():
        lexicon.update(_regular_forms(base))
    # Later classes override earlier ones: a closed class beats a verb form.
    for words, tag in (
        *((_IRREGULAR, VERB), (_NO_PAST, NOUN), (_NO_GERUND, NOUN), (_ADVERBS, ADV), (_SUBORDINATORS, SUB)),
        *((_PREPOSITIONS, PREP), (_PRONOUNS, PRON), (_WH, WH), (_DETERMINERS, DET), (_CONJUNCTIONS, CONJ)),
        *((_AUXILIARIES, AUX), (_BE, BE)),
    ):
        lexicon.update(dict.fromkeys(words.split(), tag))
    lexicon.update({",": COMMA, ";": STOP, ":": STOP, "(": COMMA, ")": COMMA, "—": COMMA})
    return lexicon


LEXICON: Mapping[str, int] = _build_lexicon()
"""Lower-case word -> tag. "this", "that", "these" and "those" have one tag, DET, whatever their use."""

Chunk = tuple[int, int, int]
"""Tag, and the words [start, end)."""

_TOKEN = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\w[\w’'&–/-]*(?:\.\w[\w’'&–/-]*)*|[,;:()—&]")
_MAX_CACHED_WORDS = 200_000
_MAX_CACHED_CHARS = 64


def tokenize(text: str) -> list[str]:
    """Return the words, and the punctuation that separates clauses."""
    return _TOKEN.findall(text)


class _WordTags(dict[str, int]):
    """Word -> tag: the lexicon's, and a guess by the word's shape for other words, of which a bounded number is cached."""

    def __missing__(self, word: str) -> int:
        tag = _guess_tag(word)
        if len(self) < _MAX_CACHED_WORDS and len(word) < _MAX_CACHED_CHARS:
            self[word] = tag
        return tag


def _guess_tag(word: str) -> int:
    first, size = word[0], len(word)
    if first.isupper():
        return ENT
    if first.isdigit():
        return NUM
    if size < 5:
        return NOUN
    ending = word[-2:]
    if ending == "ed":
        return VERB
    if ending == "ly":
        return ADV
    return GERUND if size > 5 and word.endswith("ing") else NOUN


_WORD_TAGS = _WordTags(LEXICON)


def _tag_words(words: Sequence[str]) -> list[int]:
    tags = [_WORD_TAGS[word] for word in words]
    if tags[0] == ENT:
        # A capital at the beginning is no evidence for words of the lexicon.
        first = words[0].lower()
        tag = LEXICON.get(first)
        if tag is not None and tag not in (NOUN, VERB, GERUND):
            tags[0] = tag
        elif first.endswith("ly") and len(words) > 1 and words[1] == ",":
            tags[0] = ADV
    return tags


def chunk(words: Sequence[str]) -> list[Chunk]:
    """Tag words and join those of names and dates into chunks, from left to right."""
    # A deterministic chunker without backtracking: each tag decides how far its chunk reaches.
    tags = _tag_words(words)
    chunks: list[Chunk] = []
    i, size = 0, len(words)
    while i < size:
        tag, start = tags[i], i
        i += 1
        if tag == ENT:
            if words[start] in MONTHS:
                i, tag = _date_end(words, tags, start), DATE
            elif i < size and words[i] in ("of", "for") and words[start].lower() in ROLES:
                tag = NOUN
            else:
                i = _name_end(words, tags, start)
        elif tag == NUM:
            i, tag = _number_end(words, tags, start)
        elif tag == VERB and start and _nominalises(words[start - 1], tags[start - 1]):
            tag = NOUN
        chunks.append((tag, start, i))
    return _join_places(words, chunks) if "," in words else chunks


def _nominalises(word: str, tag: int) -> bool:
    """Return whether a word before a verb form makes it a noun."""
    return tag == DET or (tag == PREP and word != "as")


def _name_end(words: Sequence[str], tags: Sequence[int], i: int) -> int:
    """Return the end of the name that begins at `i`: capitalised words, joiners ("of"), numbers as in "Apollo 11"."""
    size = len(words)
    i += 1
    while i < size:
        tag = tags[i]
        if tag == ENT:
            if words[i] in MONTHS and i + 1 < size and tags[i + 1] == NUM:
                break
            i += 1
            continue
        if tag == NUM:
            if len(words[i]) <= 3 and words[i].isdigit():
                i += 1
            break
        if words[i] not in JOINERS or words[i - 1][-2:] in ("'s", "’s"):
            break
        after = i + 1
        if after < size and words[after] in JOINERS:
            after += 1
        if after >= size or tags[after] != ENT:
            break
        i = after + 1
    return i


def _number_end(words: Sequence[str], tags: Sequence[int], i: int) -> tuple[int, int]:
    """Return end and tag of a name that begins with a year ("1989 NCAA Championship"), a date, or a number."""
    if i + 1 < len(words) and tags[i + 1] == ENT:
        if words[i + 1] in MONTHS:
            return _date_end(words, tags, i + 1), DATE
        if len(words[i]) == 4 and words[i].isdigit():
            return _name_end(words, tags, i + 1), ENT
    return i + 1, NUM


def _date_end(words: Sequence[str], tags: Sequence[int], i: int) -> int:
    """Return the end of the date whose month is at `i`: "April 3, 1989", "April 1989", "April"."""
    i += 1
    size = len(words)
    if i < size and tags[i] == NUM:
        i += 1
        if i + 1 < size and words[i] == "," and tags[i + 1] == NUM and len(words[i + 1]) == 4:
            i += 2
    return i


def _join_places(words: Sequence[str], chunks: list[Chunk]) -> list[Chunk]:
    """Join "Seattle, Washington" after a preposition of place into one name."""
    joined: list[Chunk] = []
    for i, current in enumerate(chunks):
        if (
            current[0] == ENT
            and i > 2
            and joined[-1][0] == COMMA
            and len(joined) >= 3
            and joined[-2][0] == ENT
            and joined[-3][0] == PREP
            and words[joined[-3][1]].lower() in PLACE_PREPOSITIONS
            and not _is_subject_or_list(chunks, i)
        ):
            start = joined[-2][1]
            del joined[-2:]
            joined.append((ENT, start, current[2]))
        else:
            joined.append(current)
    return joined


def _is_subject_or_list(chunks: Sequence[Chunk], i: int) -> bool:
    """Return whether the name after a comma is the subject ("At Liverpool, Salah scored …") or an item of a list."""
    first, second = (chunks[k][0] if k < len(chunks) else STOP for k in (i + 1, i + 2))
    if first in (VERB, BE, AUX, ADV):
        return chunks[0][0] == PREP
    return first == CONJ or (first == COMMA and second == CONJ)
