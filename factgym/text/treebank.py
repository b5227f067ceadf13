"""Tokens of a text as AVeriTeC's scorer sees them: sentences first, then the rules of the Penn Treebank.

The scorer calls `nltk.word_tokenize`. Within a sentence the rules here give the tokens of NLTK 3.10's
`NLTKWordTokenizer` (Apache-2.0), one by one. Sentences matter because only the last period of one is a token of its
own. NLTK splits them with a trained model (Punkt) that has to be downloaded; `sentences` is a rule with short word lists
in its place, so that scores need no download. It follows Punkt's habits, odd ones too (a sentence ends after "Gov." and
before "[1]"): of 19,400 texts of AVeriTeC and of predictions for it, 41 get other tokens. Where the model is installed,
`nltk_tokens()` gives the scorer's own tokens, and every score takes them by its `tokenize` argument.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import cast

from factgym.core.errors import ConfigError, MissingExtraError

Tokenize = Callable[[str], list[str]]

# The substitutions of `treebank.sed` in NLTK's order, which matters: a later rule sees the spaces of an earlier one.
_BEFORE_PERIOD: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"([«“‘„]|`+)"), r" \1 "),
    (re.compile(r'^"'), "``"),
    (re.compile(r"(``)"), r" \1 "),
    (re.compile(r"([ (\[{<])(\"|'{2})"), r"\1 `` "),
    (re.compile(r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)"), r"\1 "),
    (re.compile(r"([^.])(\.)([\])}>\"'»”’ ]*+)\s*$"), r"\1 \2 \3 "),
    (re.compile(r"([:,])(\D)"), r" \1 \2"),
    (re.compile(r"([:,])$"), r" \1 "),
    (re.compile(r"\.{2,}"), r" \g<0> "),
    (re.compile(r"[;@#$%&\u2012-\u2015]"), r" \g<0> "),
    (re.compile(r"([^.])(\.)([\])}>\"']*+)\s*$"), r"\1 \2\3 "),
    (re.compile(r"[?!]"), r" \g<0> "),
    (re.compile(r"([^'])' "), r"\1 ' "),
    (re.compile(r"[*\]\[(){}<>]"), r" \g<0> "),
    (re.compile(r"--"), " -- "),
)
_AFTER_PADDING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"([»”’])"), r" \1 "),
    (re.compile(r"''|\""), " '' "),
    (re.compile(r"\s+"), " "),
    (re.compile(r"([^' ])('[sS]|'[mM]|'[dD]|') "), r"\1 \2 "),
    (re.compile(r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) "), r"\1 \2 "),
)
_CONTRACTIONS = tuple(
    (re.compile(pattern), r" \1 \2 ")
    for pattern in (
        r"(?i)\b(can)(not)\b",
        r"(?i)\b(d)('ye)\b",
        r"(?i)\b(gim)(me)\b",
        r"(?i)\b(gon)(na)\b",
        r"(?i)\b(got)(ta)\b",
        r"(?i)\b(lem)(me)\b",
        r"(?i)\b(more)('n)\b",
        r"(?i)\b(wan)(na)(?=\s)",
        r"(?i) ('t)(is)\b",
        r"(?i) ('t)(was)\b",
    )
)
_CONTRACTED = re.compile(r"(?i)(?:canno|gimm|gonn|gott|lemm|wann)|'(?:ye|n|tis|twas)\b")
"""Matches in every text with a contraction."""

_PLAIN = re.compile(r"(?:[A-Za-z0-9]++ ?)*+[.?!]?")
"""A sentence of words and spaces, in which the last mark alone is split off."""

_CLOSING = r"[)\]}\"'»”’«“‘]"
_OPENING = r"[\[({*:@;]"
_LATER_MARK = rf"\S{{0,80}}[.?!](?:\s++\S|{_OPENING}|{_CLOSING}|[?!])"
"""Another mark in the same word: only the last mark of a word ends a sentence."""

_BREAK = re.compile(
    rf"(?<![.?!])[.?!]++(?:{_CLOSING}*+(?:\s++{_CLOSING}++(?=\s))?\s++(?=(\S{{1,80}}))"
    rf"|(?=({_OPENING}\S{{0,79}}|{_CLOSING}++\S))(?!{_LATER_MARK}))"
)
"""A mark that may end a sentence, with closing quotes and brackets, before white space or an opening sign."""
_LAST_WORD = re.compile(r"(?:^|\s)[(\[{\"`]*(\S+)$")
_INITIAL = re.compile(r"[^\W\d_]\.")
_NUMBER = re.compile(r"[\d.,]*\d\.")
_MAX_WORD_CHARS = 80


_TITLES, _ABBREVIATIONS, _OPENERS = (
    frozenset(words.split())
    for words in tomllib.loads(files(__package__).joinpath("sentence_words.toml").read_text("utf-8")).values()
)


def word_tokens(text: str) -> list[str]:
    """Return the words of `text` in order, with punctuation split off; opening quotes are ``, closing ones ''."""
    return [token for sentence in sentences(text) for token in treebank_tokens(sentence)]


def sentences(text: str) -> list[str]:
    """Split `text` after its sentences; white space around each is dropped."""
    parts, start = [], 0
    for match in _BREAK.finditer(text):
        if _ends_sentence(text, match):
            parts.append(text[start : match.end()].strip())
            start = match.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def treebank_tokens(sentence: str) -> list[str]:
    """Return the words of one sentence by the rules of the Penn Treebank, in NLTK's version."""
    if _PLAIN.fullmatch(sentence) and not _CONTRACTED.search(sentence):
        marks = sentence[-1:] if sentence.endswith((".", "?", "!")) else ""
        return [*sentence[: len(sentence) - len(marks)].split(), *marks]
    text = sentence
    for pattern, replacement in _BEFORE_PERIOD:
        text = pattern.sub(replacement, text)
    text = f" {text} "
    for pattern, replacement in _AFTER_PADDING:
        text = pattern.sub(replacement, text)
    if _CONTRACTED.search(text):
        for pattern, replacement in _CONTRACTIONS:
            text = pattern.sub(replacement, text)
    return text.split()


def nltk_tokens() -> Tokenize:
    """Return `nltk.word_tokenize`, the official scorer's own tokenizer.

    Raises MissingExtraError without NLTK, and ConfigError where its sentence model is not installed.
    """
    try:
        word_tokenize = import_module("nltk.tokenize").word_tokenize
    except ImportError as error:
        raise MissingExtraError("nltk_tokens", "nltk") from error
    try:
        word_tokenize("One. Two.")
    except LookupError as error:
        raise ConfigError(
            "NLTK is installed without its model of sentences. Install it with python -m nltk.downloader punkt_tab, "
            "or leave out `tokenize` to use the built-in rule."
        ) from error
    return cast(Tokenize, word_tokenize)


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Return whether the mark at the start of `match` ends a sentence."""
    # Punkt's decision (Kiss and Strunk, 2006) with fixed lists: abbreviations, initials and numbers before a period end a
    # sentence only if the next word is a frequent sentence starter.
    mark = match[0].rstrip()
    if not mark.startswith(".") or "?" in mark or "!" in mark:
        return True
    following = match[1] or match[2]
    if mark.startswith(".."):
        return following[:1].isupper()
    last_word = _LAST_WORD.search(text, max(0, match.start() - _MAX_WORD_CHARS), match.start())
    word = last_word[1] if last_word else ""
    opens = following.strip("\"'“‘(,.") in _OPENERS
    if _INITIAL.fullmatch(word + ".") or _NUMBER.fullmatch(word + "."):
        return not following[:1].islower() if word[-1:].isdigit() or word == "I" else opens
    name = word.lower().rpartition("-")[2]
    return name not in _TITLES and (name not in _ABBREVIATIONS or opens)
