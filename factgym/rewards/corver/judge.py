"""The response reward's facts: the answer that was given, and whether it is right.

Two judges. `reference` is the published one: after normalisation the answer equals a gold answer, contains it, or is
contained in it. That pays for answers that know nothing: "1" stands in "1975", "e" in almost everything, and a list of
candidates contains the right one. `boundary` closes these holes:

- Words are compared, not characters, and marks are dropped ("Björk" is "Bjork").
- The gold answer may stand in the answer when that is short (`max_answer_words`), when the words before it do not deny
  it, when no "or" stands beside it, and when it is what the answer says rather than one of its candidates: a list counts
  by its first item ("Paris, France" is Paris), more than `max_listed` candidates count when most of them are right, a
  year may have one other year beside it, and names without a word between them are a list as well.
- A part of a gold answer is enough only when it holds more than `min_gold_share` of its content words: "United States"
  for "in the United States of America", but neither "John" for "John Smith" nor "1" for "1 May 1975".
- Nothing but an answer block is an answer. (The published training judge takes the whole text where there is none.)
- "I dont know." and "unknown" are refusals; the published rule knows "I don't know" and "I do not know" only. (The
  paper prints its prompt without the apostrophe, the authors' code has it.)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from factgym.rewards.corver.query import STOP_WORDS
from factgym.rewards.corver.rules import DEFAULT_RULES, CorverRules, JudgeRule
from factgym.rewards.corver.sentences import ANSWER, ANSWER_END

Label = Literal["good", "bad", "na"]

_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_OTHER = re.compile(r"[^\w\s]")
_NORMAL = bytes(
    ord(char.lower()) if char.isalnum() or char == "_" or char.isspace() else ord(" ") for char in map(chr, range(128))
).ljust(256)
"""What `_OTHER` and lower case make of ASCII, byte by byte."""
_MARK_RUN = re.compile(r"[^\w\s\x00-\x7f]{32,}")
"""Sorting a long run of combining marks costs its length squared, and no answer has one."""

_REFUSALS = frozenset(("", "i don't know", "i do not know", "i don’t know"))
_WIDE_REFUSALS = frozenset(("", "i dont know", "i don t know", "i do not know", "unknown"))
_MAX_REFUSAL_CHARS = 200
_LONG_REFUSAL = 1 + max(len(one.split()) for one in _WIDE_REFUSALS)
_DENIALS = frozenset(("not", "never", "neither", "nor", "except", "isnt", "wasnt", "arent", "werent"))
_CUT = re.compile(r"[,;/|\n•]|(?<=\w\w\w)\.\s|\band\b|\bor\b|&")
_MAX_CANDIDATE_WORDS = 5
_MAX_RUN = 8
_INTRODUCTIONS = frozenset(("in", "on", "at", "by", "from", "during", "after", "before", "since", "as", "for", "with"))
_STATES = frozenset(("is", "was", "are", "were", "be", "been", "has", "had", "became"))
_BETWEEN = STOP_WORDS | {"who", "which", "that", "this", "also", "when", "where", "into", "after", "before", "while"}


def extract_answer(text: str) -> str | None:
    """What stands after the first `<answer>`, up to the next `</answer>` or the end, stripped; None without the tag."""
    start = text.find(ANSWER)
    if start < 0:
        return None
    start += len(ANSWER)
    end = text.find(ANSWER_END, start)
    return text[start : end if end >= 0 else len(text)].strip()


def normalise_answer(text: str) -> str:
    """NFKD, lower case, stand-alone articles and everything but word characters to spaces, single spaces (A.2)."""
    if text.isascii():
        return " ".join(_kept(text.encode().translate(_NORMAL).decode().split()))
    text = _ARTICLE.sub(" ", unicodedata.normalize("NFKD", _MARK_RUN.sub(" ", text)).lower().strip())
    return " ".join(_OTHER.sub(" ", text).split())


def _kept(words: list[str]) -> list[str]:
    """Without the articles."""
    return words if _ARTICLES.isdisjoint(words) else [one for one in words if one not in _ARTICLES]


def is_refusal(answer: str, judge: JudgeRule = "reference") -> bool:
    """Whether the answer declines to answer: empty, "I don't know" or "I do not know".

    The reference rule wants exactly that (straight or curly apostrophe, any case). The boundary rule looks past
    punctuation, and knows "I dont know" and "unknown" as well.
    """
    if judge == "reference":
        return answer.lower().strip() in _REFUSALS
    return len(answer) < _MAX_REFUSAL_CHARS and _refuses(_words(answer))


def _refuses(words: Sequence[str]) -> bool:
    return len(words) < _LONG_REFUSAL and " ".join(words) in _WIDE_REFUSALS


def judge_answer(
    answer: str | None,
    aliases: Sequence[str] | str,
    judge: JudgeRule = "reference",
    rules: CorverRules = DEFAULT_RULES,
) -> Label:
    """Judge an answer against the gold ones: a list, or one text that `;` separates. None, no answer, is "na".

    A question without any gold answer makes every attempt "bad".
    """
    if answer is None:
        return "na"
    golds = gold_answers(aliases)
    if judge == "boundary":
        return _judge_boundary(answer, golds, rules)
    return "na" if is_refusal(answer, judge) else _judge_reference(answer, golds)


def both_labels(
    text: str, answer: str | None, aliases: Sequence[str] | str, rules: CorverRules = DEFAULT_RULES
) -> dict[JudgeRule, Label]:
    """The labels of a completion by both judges. answer: from `extract_answer`.

    The published training judge takes the whole text where there is no answer block; the boundary judge does not.
    """
    golds = gold_answers(aliases)
    given = text.strip() if answer is None else answer
    return {
        "reference": "na" if is_refusal(given) else _judge_reference(given, golds),
        "boundary": "na" if answer is None else _judge_boundary(answer, golds, rules),
    }


def gold_answers(aliases: Sequence[str] | str) -> tuple[str, ...]:
    """The gold answers one by one, in order, without empty ones: each alias may hold several, separated by `;`."""
    return _gold_answers(aliases if isinstance(aliases, str) else tuple(aliases))


@lru_cache(maxsize=4_096)
def _gold_answers(aliases: tuple[str, ...] | str) -> tuple[str, ...]:
    given = (aliases,) if isinstance(aliases, str) else aliases
    return tuple(dict.fromkeys(part.strip() for one in given for part in one.split(";") if part.strip()))


def _judge_reference(answer: str, golds: Iterable[str]) -> Label:
    given = normalise_answer(answer)
    if not given:
        return "na"
    for gold in golds:
        wanted = _normal_gold(gold)
        if wanted and (wanted in given or given in wanted):
            return "good"
    return "bad"


@lru_cache(maxsize=65_536)
def _normal_gold(gold: str) -> str:
    return normalise_answer(gold)


def _judge_boundary(answer: str, golds: Sequence[str], rules: CorverRules) -> Label:
    given = _words(answer)
    if not given or (len(answer) < _MAX_REFUSAL_CHARS and _refuses(given)):
        return "na"
    wanted = [one for one in map(_gold_words, golds) if one]
    if tuple(given) in wanted:
        return "good"
    if any(_is_large_part(given, one, rules.min_gold_share) for one in wanted):
        return "good"
    if len(given) > rules.max_answer_words + max(map(len, wanted), default=0):
        return "bad"
    stated = [one for one in wanted if _stated(given, one)]
    if not stated:
        return "bad"
    parts = _parts(answer)
    if _lists_candidates(parts, wanted, rules.max_listed) or _is_heap(given, stated):
        return "bad"
    return "good" if _is_said_first(parts, stated) or _mostly_right(parts, wanted) else "bad"


def _words(text: str) -> list[str]:
    """The words for the boundary judge: marks and apostrophes dropped, articles too unless nothing else is there."""
    if text.isascii():
        found = text.encode().translate(_NORMAL, b"'").decode().split()
    else:
        text = unicodedata.normalize("NFKD", _MARK_RUN.sub(" ", text))
        text = "".join(char for char in text if not unicodedata.combining(char)).replace("’", "")
        found = _OTHER.sub(" ", text.replace("'", "").casefold()).split()
    return _kept(found) or found


@lru_cache(maxsize=65_536)
def _gold_words(gold: str) -> tuple[str, ...]:
    return tuple(_words(gold))


def _places(words: Sequence[str], run: Sequence[str]) -> Iterable[int]:
    """Where `run` begins in `words`."""
    first, size, run = run[0], len(run), list(run)
    return (i for i, one in enumerate(words) if one == first and list(words[i : i + size]) == run)


def _stated(given: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether the gold words stand in the answer, neither denied nor beside an "or"."""
    if gold[0] not in given:
        return False
    for start in _places(given, gold):
        end = start + len(gold)
        before = given[max(0, start - 2) : start]
        hedged = (before and before[-1] == "or") or (end < len(given) and given[end] == "or")
        if not hedged and _DENIALS.isdisjoint(before):
            return True
    return False


def _is_large_part(given: Sequence[str], gold: Sequence[str], share: float) -> bool:
    """Whether the answer is a run of the gold answer's words that holds more than `share` of its content words."""
    if len(given) >= len(gold) or given[0] not in gold:
        return False
    content = [one for one in gold if one not in STOP_WORDS]
    held = [one for one in given if one not in STOP_WORDS]
    return bool(held) and len(held) > share * len(content) and any(True for _ in _places(gold, given))


_Parts = list[tuple[str, ...]]


def _parts(answer: str) -> _Parts:
    """The words between the commas, "and", "or", line ends and the like."""
    return [words for words in (tuple(_words(part)) for part in _CUT.split(answer.casefold())) if words]


def _mostly_right(parts: _Parts, golds: Sequence[tuple[str, ...]]) -> bool:
    known = set(golds)
    return 2 * sum(one in known for one in parts) > len(parts)


def _lists_candidates(parts: _Parts, golds: Sequence[tuple[str, ...]], most: int) -> bool:
    """Whether the answer is a list of more than `most` candidates of which at most half are gold answers."""
    short = [one for one in parts if len(one) <= _MAX_CANDIDATE_WORDS]
    longest = max((sum(one in ("and", "or") for one in gold) for gold in golds), default=0)
    return len(short) > most + longest and not _mostly_right(short, golds)


def _is_said_first(parts: _Parts, stated: Iterable[tuple[str, ...]]) -> bool:
    """Whether a gold answer begins in the first item, where the answer is a list of short items.

    An introduction ("In 1975, …") is passed over, and an item that states something ("…, Sr., is a lawyer") is no mere
    item. A gold answer may itself be cut ("Simon and Garfunkel").
    """
    if any(len(one) > _MAX_CANDIDATE_WORDS for one in parts):
        return True
    items = parts[1:] if len(parts) > 1 and parts[0][0] in _INTRODUCTIONS else parts
    words = [word for item in items for word in item]
    firsts = [sum(map(len, items[:n])) for n in range(len(items))]
    for gold in stated:
        plain = tuple(word for word in gold if word not in ("and", "or"))
        for start in {*_places(words, gold), *(_places(words, plain) if plain else ())}:
            begin = max(one for one in firsts if one <= start)
            if begin == 0 or not _STATES.isdisjoint(words[begin:start]):
                return True
    return False


def _is_heap(given: Sequence[str], stated: Sequence[tuple[str, ...]]) -> bool:
    """Whether years, or names without a word between them, are heaped up around the gold answer."""
    longest = max(map(len, stated))
    run = most = 0
    for word in given:
        run = 0 if word in _BETWEEN else run + 1
        most = max(most, run)
    if most > longest + _MAX_RUN:
        return True
    numbers = [one[0] for one in stated if len(one) == 1 and one[0].isdigit()]
    return any(len({word for word in given if word.isdigit() and len(word) == len(one)}) > 2 for one in numbers)
