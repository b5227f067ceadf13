"""Judges of the final answer by string rules.

`reference` is the published judge: after normalisation the answer equals a gold answer, contains it, or is contained in
it. It also accepts answers without knowledge: "1" is a substring of "1975", "e" of almost everything, and a list of
candidates contains the right one. `boundary` closes these exploits:

- Words are compared, not characters, and combining marks are dropped ("Björk" is "Bjork").
- A gold answer inside the answer counts when the answer is short (`max_answer_words`), the words before it do not deny
  it, no "or" is next to it, and it is the answer's statement rather than one of its candidates: a list counts by its
  first item ("Paris, France" is Paris), more than `max_listed` candidates count when most of them are right, a year may
  be accompanied by one other year, and names without a word between them are a list as well.
- Part of a gold answer is enough only when it has more than `min_gold_share` of its content words: "United States" for
  "in the United States of America", but neither "John" for "John Smith" nor "1" for "1 May 1975".
- Only an answer block is an answer. (The published training judge takes the whole text in its absence.)
- "I dont know." and "unknown" are refusals; the published rule knows "I don't know" and "I do not know" only. (The
  paper prints its prompt without the apostrophe, the authors' code has it.)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from factgym.rewards.corver.rubrics import DEFAULT_RULES, CorverRules, JudgeRule
from factgym.rewards.corver.triplets import STOP_WORDS

Label = Literal["good", "bad", "na"]
Words = tuple[str, ...]

_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]")
_ASCII_TABLE = bytes(
    ord(char.lower()) if char.isalnum() or char == "_" or char.isspace() else ord(" ") for char in map(chr, range(128))
).ljust(256)
"""Translation table: lower case and `_PUNCTUATION` replaced by spaces, for ASCII."""
_MARK_RUN = re.compile(r"[^\w\s\x00-\x7f]{32,}")
"""NFKD sorts a run of combining marks in quadratic time, and no answer has a long one."""

_REFUSALS = frozenset(("", "i don't know", "i do not know", "i don’t know"))
_BOUNDARY_REFUSALS = frozenset(("", "i dont know", "i don t know", "i do not know", "unknown"))
_MAX_REFUSAL_CHARS = 200
_MAX_REFUSAL_WORDS = max(len(refusal.split()) for refusal in _BOUNDARY_REFUSALS)
_DENIALS = frozenset(("not", "never", "neither", "nor", "except", "isnt", "wasnt", "arent", "werent"))
_LIST_SEPARATOR = re.compile(r"[,;/|\n•]|(?<=\w\w\w)\.\s|\band\b|\bor\b|&")
_MAX_CANDIDATE_WORDS = 5
_MAX_NAME_RUN = 8
_INTRODUCTIONS = frozenset(("in", "on", "at", "by", "from", "during", "after", "before", "since", "as", "for", "with"))
_COPULAS = frozenset(("is", "was", "are", "were", "be", "been", "has", "had", "became"))
_FUNCTION_WORDS = STOP_WORDS | set("who which that this also when where into after before while".split())  # noqa: SIM905


def normalise_answer(text: str) -> str:
    """NFKD, lower case, stand-alone articles and everything but word characters to spaces, single spaces (A.2)."""
    if text.isascii():
        return " ".join(_drop_articles(text.encode().translate(_ASCII_TABLE).decode().split()))
    text = _ARTICLE.sub(" ", unicodedata.normalize("NFKD", _MARK_RUN.sub(" ", text)).lower().strip())
    return " ".join(_PUNCTUATION.sub(" ", text).split())


def _drop_articles(words: list[str]) -> list[str]:
    return words if _ARTICLES.isdisjoint(words) else [word for word in words if word not in _ARTICLES]


def is_refusal(answer: str, judge: JudgeRule = "reference") -> bool:
    """Return whether the answer declines to answer: empty, "I don't know" or "I do not know".

    The reference rule requires exactly that (straight or curly apostrophe, any case). The boundary rule ignores
    punctuation, and knows "I dont know" and "unknown" as well.
    """
    if judge == "reference":
        return answer.lower().strip() in _REFUSALS
    return len(answer) < _MAX_REFUSAL_CHARS and _is_refusal(_split_words(answer))


def _is_refusal(words: Sequence[str]) -> bool:
    return len(words) <= _MAX_REFUSAL_WORDS and " ".join(words) in _BOUNDARY_REFUSALS


def judge_completion(
    text: str, answer: str | None, aliases: Sequence[str] | str, rules: CorverRules = DEFAULT_RULES
) -> dict[JudgeRule, Label]:
    """Label a completion by both judges. answer: from `extract_answer`. aliases: a list, or one text separated by `;`.

    A question without any gold answer makes every attempt "bad".
    """
    golds = gold_answers(aliases)
    return {
        "reference": _judge_reference(text.strip() if answer is None else answer, golds),
        "boundary": "na" if answer is None else _judge_boundary(answer, golds, rules),
    }


def gold_answers(aliases: Sequence[str] | str) -> Words:
    """Split aliases into gold answers, in order, without empty ones: each alias may hold several, separated by `;`."""
    texts = (aliases,) if isinstance(aliases, str) else aliases
    return tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(";") if part.strip()))


def _judge_reference(answer: str, golds: Iterable[str]) -> Label:
    if is_refusal(answer):
        return "na"
    normalised = normalise_answer(answer)
    if not normalised:
        return "na"
    for gold in map(_normalise_gold, golds):
        if gold and (gold in normalised or normalised in gold):
            return "good"
    return "bad"


_normalise_gold = lru_cache(maxsize=65_536)(normalise_answer)


def _judge_boundary(answer: str, golds: Sequence[str], rules: CorverRules) -> Label:
    words = _split_words(answer)
    if not words or (len(answer) < _MAX_REFUSAL_CHARS and _is_refusal(words)):
        return "na"
    gold_words = [gold for gold in map(_split_gold, golds) if gold]
    if tuple(words) in gold_words:
        return "good"
    if any(_is_large_part(words, gold, rules.min_gold_share) for gold in gold_words):
        return "good"
    if len(words) > rules.max_answer_words + max(map(len, gold_words), default=0):
        return "bad"
    stated = [gold for gold in gold_words if _is_stated(words, gold)]
    if not stated:
        return "bad"
    # The words of each item between commas, "and", "or", line ends and the like.
    items = [item for part in _LIST_SEPARATOR.split(answer.casefold()) if (item := tuple(_split_words(part)))]
    # More candidates than allowed, of which at most half are gold answers; a gold answer may hold conjunctions itself.
    candidates = [item for item in items if len(item) <= _MAX_CANDIDATE_WORDS]
    conjunctions = max(sum(word in ("and", "or") for word in gold) for gold in gold_words)
    if len(candidates) > rules.max_listed + conjunctions and not _is_mostly_gold(candidates, gold_words):
        return "bad"
    if _is_name_dump(words, stated):
        return "bad"
    return "good" if _is_first_item(items, stated) or _is_mostly_gold(items, gold_words) else "bad"


def _split_words(text: str) -> list[str]:
    """Return the boundary judge's words: no marks or apostrophes, and no articles unless there is nothing else."""
    if text.isascii():
        words = text.encode().translate(_ASCII_TABLE, b"'").decode().split()
    else:
        text = unicodedata.normalize("NFKD", _MARK_RUN.sub(" ", text))
        text = "".join(char for char in text if not unicodedata.combining(char)).replace("’", "")
        words = _PUNCTUATION.sub(" ", text.replace("'", "").casefold()).split()
    return _drop_articles(words) or words


@lru_cache(maxsize=65_536)
def _split_gold(gold: str) -> Words:
    return tuple(_split_words(gold))


def _occurrences(words: Sequence[str], phrase: Sequence[str]) -> Iterator[int]:
    """Yield the indexes at which `phrase` begins in `words`."""
    first, size, phrase = phrase[0], len(phrase), list(phrase)
    return (i for i, word in enumerate(words) if word == first and list(words[i : i + size]) == phrase)


def _is_stated(words: Sequence[str], gold: Words) -> bool:
    """Return whether the answer contains the gold words, neither denied nor next to an "or"."""
    if gold[0] not in words:
        return False
    for start in _occurrences(words, gold):
        end = start + len(gold)
        before = words[max(0, start - 2) : start]
        hedged = (before and before[-1] == "or") or (end < len(words) and words[end] == "or")
        if not hedged and _DENIALS.isdisjoint(before):
            return True
    return False


def _is_large_part(words: Sequence[str], gold: Words, min_share: float) -> bool:
    """Return whether the answer is a run of the gold words with more than `min_share` of their content words."""
    if len(words) >= len(gold) or words[0] not in gold:
        return False
    gold_content = [word for word in gold if word not in STOP_WORDS]
    content = [word for word in words if word not in STOP_WORDS]
    if not content or len(content) <= min_share * len(gold_content):
        return False
    return next(_occurrences(gold, words), None) is not None


def _is_mostly_gold(items: Sequence[Words], golds: Sequence[Words]) -> bool:
    accepted = set(golds)
    return 2 * sum(item in accepted for item in items) > len(items)


def _is_first_item(items: Sequence[Words], stated: Iterable[Words]) -> bool:
    """Return whether a gold answer begins in the first item, where the answer is a list of short items.

    An introduction ("In 1975, …") is skipped, and an item with a copula ("…, Sr., is a lawyer") is no mere item. A gold
    answer may itself be split ("Simon and Garfunkel").
    """
    if any(len(item) > _MAX_CANDIDATE_WORDS for item in items):
        return True
    items = items[1:] if len(items) > 1 and items[0][0] in _INTRODUCTIONS else items
    words = [word for item in items for word in item]
    item_starts = [sum(map(len, items[:n])) for n in range(len(items))]
    for gold in stated:
        unjoined = tuple(word for word in gold if word not in ("and", "or"))
        for start in {*_occurrences(words, gold), *(_occurrences(words, unjoined) if unjoined else ())}:
            item_start = max(offset for offset in item_starts if offset <= start)
            if item_start == 0 or not _COPULAS.isdisjoint(words[item_start:start]):
                return True
    return False


def _is_name_dump(words: Sequence[str], stated: Sequence[Words]) -> bool:
    """Return whether the gold answer is one of many years, or of names without a function word between them."""
    # The longest run of words without a function word, in one pass.
    run = longest_run = 0
    for word in words:
        run = 0 if word in _FUNCTION_WORDS else run + 1
        longest_run = max(longest_run, run)
    if longest_run > max(map(len, stated)) + _MAX_NAME_RUN:
        return True
    numbers = [gold[0] for gold in stated if len(gold) == 1 and gold[0].isdigit()]
    return any(len({word for word in words if word.isdigit() and len(word) == len(number)}) > 2 for number in numbers)
