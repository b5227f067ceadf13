"""Byte-level BPE over words: tokenizers for small models that are trained from nothing on the traces of a few tasks.

Instructions, tool schemas and the scaffolding of calls are the same in every episode, and are most of its text: what most
texts share becomes one token for each message, line or phrase. All else is made of small parts that mean the same wherever they
occur: words, digits, and names in two pieces. A policy that has to compare and to copy names and conditions sees them as
the same tokens in a statement and in a passage; a phrase with its condition as one token would hide what they share.
After "SuperBPE: Space Travel for Language Models" (tokens across spaces), for shared text alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

_KEYS = r"""(?:[\s{}\[\],:]*"[a-z_ ]*"|[\s{}\[\],:]+")+[\s{}\[\],:]*"?"""
_FORMS = "|".join(
    (
        r"\p{Lu}\p{Ll}?",  # a name in two pieces: of three syllables there are few, of names there are many
        r"(?<=\p{Lu}\p{Ll})\p{Ll}+",
        r"\p{N}{1,2}",
        r"\s?\p{Ll}+(?:\s(?=[\p{Lu}\p{N}]))?",  # a word; its blank before a name, which is the same after any word
        r"\p{L}",  # letters without case
        r"[^\p{L}\p{N}\s]+\s*",
        r"\s+",
    )
)
"""Forms of the units within which tokens are merged (Oniguruma)."""
_CAPITALISED = re.compile(r"[A-Z][a-z]+")
_WHOLE = re.compile(r".+", re.DOTALL)
_LINES = re.compile(r"[^\n]+\n*")
_PHRASES = re.compile(rf"{_KEYS}|[a-z\s,;:'()<>/=_-]+|.", re.DOTALL)
"""Keys, and phrases up to a capital, a digit, or the end of a sentence."""
_SHARE, _MIN_LENGTH, _MAX_SHARED = 0.5, 5, 256
_COMMON_SHARE, _MIN_COMMON = 0.005, 5
"""A capitalised word is no name, and one unit, from this share and number of texts on."""


def phrase_tokenizer(
    texts: Iterable[str], entries: int = 2048, *, special: Sequence[str] = (), tags: Sequence[str] = ()
) -> Any:
    """Train byte-level BPE on texts; returns a `tokenizers.Tokenizer` of at most `entries` tokens.

    Any text is encoded without loss. special, tags: tokens of a chat template, of which no other token has a part;
    special ones are left out of decoded text, tags are not.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    parts = _split([[text] for text in texts], (*special, *tags))
    shared: list[str] = []
    for unit in (_WHOLE, _LINES, _PHRASES):
        shared += _shared(parts, unit)
        parts = _split(parts, shared)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_units(parts)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max(entries - len(tags) - len(shared), 256 + len(special)),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special),
        show_progress=False,
    )
    tokenizer.train_from_iterator((part for text in parts for part in text), trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in (*tags, *shared)])
    return tokenizer


def _units(texts: Sequence[Sequence[str]]) -> str:
    """Pattern of the units within which tokens are merged (Oniguruma): JSON keys, common capitalised words, forms."""
    counts = Counter(
        word for parts in texts for word in {match for part in parts for match in _CAPITALISED.findall(part)}
    )
    enough = max(_MIN_COMMON, _COMMON_SHARE * len(texts))
    common = "|".join(sorted(word for word, count in counts.items() if count >= enough))
    return rf"{_KEYS}|\s?(?:{common})(?!\p{{L}})|{_FORMS}" if common else f"{_KEYS}|{_FORMS}"


def _split(texts: Iterable[Sequence[str]], strings: Sequence[str]) -> list[list[str]]:
    """Cut the strings, the longest first, out of texts that are given in parts."""
    cut = re.compile("|".join(map(re.escape, sorted(strings, key=len, reverse=True))) or r"(?!)")
    return [[piece for part in parts for piece in cut.split(part) if piece] for parts in texts]


def _shared(texts: Sequence[Sequence[str]], unit: re.Pattern[str]) -> list[str]:
    """Units that at least half of the texts contain, the most frequent first."""
    counts: Counter[str] = Counter()
    for parts in texts:
        counts.update(list(dict.fromkeys(match for part in parts for match in unit.findall(part))))
    # The decoder would take a token without a blank for bytes in its own alphabet.
    return [
        text
        for text, count in counts.most_common(_MAX_SHARED)
        if count >= _SHARE * len(texts) and len(text) >= _MIN_LENGTH and re.search(r"\s", text)
    ]
