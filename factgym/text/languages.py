"""The language of a text by its script and its most frequent words; a comparison that needs no grammar.

Frequent words are those of function word lists; a text without any of them is taken for what its words are found in.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

_PROFILES = {
    "en": "the of and to a in is are was were for that on with as by at from be this it not or an have has its his he she they may must will which",
    "de": "der die das und ist sind nicht ein eine einer eines einem einen im in den dem des zu mit von für auf wird werden wurde auch sich am beträgt kein keine dass bei nach aus zum zur",
    "fr": "le la les des du de et est sont ne pas un une dans en au aux pour par sur qui que il elle ils cette ce sa son ses ont été avec ou plus aucun",
    "es": "el la los las de del y es son no un una en por para con se su sus que al lo como más fue está están sin ningún",
    "it": "il lo la i gli le di del della dei degli delle e è sono non un una in nel nella per con che si da al alla ha stato dal",
    "pt": "o a os as de do da dos das e é são não um uma em no na nos nas por para com que se ao à foi está pelo pela sem",
    "nl": "de het een en is zijn niet in op van voor met aan dat die te bij door wordt worden er ook geen tot naar om",
    "pl": "i w na z nie jest są się do że o przez od po za dla ze oraz był była jako to ma",
    "sv": "och är inte en ett i på av för med som till det den att från har var om ska",
    "da": "og er ikke en et i på af for med som til det den at fra har var om skal",
    "la": "et est sunt non in ad cum ex per quod qui quae hoc sed ut a ab de esse erat licet",
    "cs": "a je jsou není v na s se do z že o pro od po za který která byl byla jako",
    "tr": "ve bir bu için ile de da değil olarak olan var yok en çok",
    "fi": "ja on ei ovat että se joka ole oli myös tai kun",
    "id": "dan di yang tidak dengan untuk dari ini itu adalah pada ke dalam akan oleh",
}
_WORDS = {name: frozenset(words.split()) for name, words in _PROFILES.items()}
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Letters of scripts without spaces between words: Chinese, Japanese, Thai, Lao, Burmese, Khmer."""
_NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f ]\d{3})*(?:[.,]\d+)?")
_ATOM = re.compile(rf"{_NUMBER.pattern}|{UNSPACED.pattern}|[^\W\d_]+")


@lru_cache(maxsize=4096)
def language_of(text: str) -> str:
    """Return "en", the code of another language, or the name of a script that is not Latin, such as "cyrillic"."""
    scripts: Counter[str] = Counter()
    for char in text[:4000]:
        if char.isalpha():
            scripts["latin" if char < "\u0250" else unicodedata.name(char, "?").partition(" ")[0].lower()] += 1
    if not scripts:
        return "en"
    script, count = scripts.most_common(1)[0]
    if script != "latin" and 3 * count > sum(scripts.values()):
        return script
    words = [word.lower() for word in _LETTERS.findall(text[:4000])]
    counts = {name: sum(word in profile for word in words) for name, profile in _WORDS.items()}
    marked = sum(not word.isascii() for word in words)
    best = max(counts, key=lambda name: counts[name])
    if counts[best] > counts["en"] + (counts["en"] > 0) or (counts["en"] == 0 and marked):
        return best if counts[best] else "unknown"
    return "en"


def is_unspaced(text: str) -> bool:
    """Whether a text has letters of a script that puts no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese."""
    return UNSPACED.search(text) is not None


def quotable_length(text: str) -> int:
    """Return the length of a text in letters, of which one of a script without spaces counts as three."""
    return len(text) + 2 * len(UNSPACED.findall(text))


def atoms(text: str) -> list[tuple[str, int, int]]:
    """Return what a comparison without grammar compares: words in lower case, numbers as values, letters of scripts without spaces."""
    units = []
    for match in _ATOM.finditer(text):
        word = match[0]
        units.append((number_key(word) if word[0].isdigit() else word.casefold(), match.start(), match.end()))
    return units


def number_key(text: str) -> str:
    """Return figures in one spelling: 1.250,50 and 1,250.50 and 1250,5 are "1250.5"."""
    plain = re.sub(r"['’\u00a0\u202f ]", "", text)
    marks = [mark for mark in plain if mark in ".,"]
    last = max(plain.rfind("."), plain.rfind(","))
    if marks:
        whole, part = plain[:last], plain[last + 1 :]
        is_decimal = len(set(marks)) == 2 or (len(marks) == 1 and len(part) != 3)
        plain = re.sub(r"[.,]", "", whole) + ("." if is_decimal else "") + part
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return plain.lstrip("0") or "0"
