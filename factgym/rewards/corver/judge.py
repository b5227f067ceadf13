"""Judges of the final answer by string rules.

`reference` is the published judge: after normalisation the answer equals a gold answer, contains it, or is contained in
it. It also accepts answers without knowledge: "1" is a substring of "1975", "e" of almost everything, and a list of
candidates contains the right one. `boundary` reads one answer off the text, by rules that do not know the gold answers,
and compares this one:

- The answer is the first thing that the text names: words that name nothing (articles, prepositions, pronouns, forms of
  "be" and "have", verbs behind a subject) and the question's own words are passed over. Where a subject that takes up
  the question comes before a form of "be" ("The author of X is …"), it begins behind that. Where the question asks for a
  number or a date, it is the first number that the question does not hold.
- A gold answer has to begin there. Whatever separates the items of a list, only the first of them can earn; so a list,
  a second guess or a contrast ("1974 rather than 1975") earns no more than its first item alone. "or" behind the answer,
  a second number of the same length, and more than `max_other_words` other words without any verb leave nothing
  asserted.
- A denial is no assertion: a word that names something else before it ("not", "anything but", "perhaps") makes that
  word the answer, a word of denial behind it is refused, and so is a predicate that says nothing about what was asked
  ("Paris is nonsense").
- Words are compared, not characters, and combining marks are dropped ("Björk" is "Bjork").
- Part of a gold answer is enough when it has more than `min_gold_share` of its content words ("United States" for "in
  the United States of America"), is its part before a comma or in brackets ("Kew" for "Kew, Melbourne"), or its first
  and last word without others between ("Edith Cavell" for "Edith Louisa Cavell"); neither "John" for "John Smith" nor
  "1" for "1 May 1975" is.
- Only an answer block is an answer. (The published training judge takes the whole text in its absence.)
- "I dont know." and "unknown" are refusals; the published rule knows "I don't know" and "I do not know" only. (The
  paper prints its prompt without the apostrophe, the authors' code has it.)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile
from typing import Literal

from factgym.rewards.corver.rubrics import DEFAULT_RULES, CorverRules, JudgeRule
from factgym.rewards.corver.triplets import STOP_WORDS
from factgym.text.tagging import ADV, AUX, BE, DET, GERUND, LEXICON, MONTHS, PREP, PRON, VERB, WH, WORDS

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
_FUNCTION_TAGS = (DET, PREP, PRON, WH, BE, AUX)
_FUNCTION_WORDS = (
    frozenset(word.replace("'", "") for word, tag in LEXICON.items() if tag in _FUNCTION_TAGS and word.isascii())
    .difference(WORDS["quantities"], WORDS["modals"], WORDS["contrasts"])
    .union(WORDS["answer_words"])
)
"""Words that name nothing: articles, prepositions, pronouns, forms of "be", "have" and "do", "the answer"."""

_SUBJECT_PRONOUNS = frozenset(("it", "he", "she", "they", "this", "that", "there", "answer"))
_VERBS = frozenset(word for word, tag in LEXICON.items() if tag in (VERB, GERUND, ADV)).difference(
    WORDS["denials"], WORDS["contrasts"], map(str.lower, MONTHS)
)
_COPULAS = frozenset(("is", "was", "are", "were", "s"))
_RELATIVES = frozenset(("who", "which", "that"))
_PREDICATES = _COPULAS.union(WORDS["modals"], ("would", "has", "had", "have"))
_CONFIRMATIONS = frozenset(("answer", "correct", "right"))
_DENIALS = WORDS["denials"]
_UNASSERTED = _DENIALS.union(WORDS["hedges"], WORDS["modals"], ("or",))
_NUMBER_WORDS = WORDS["numbers"]
_NUMERIC_QUESTION = re.compile(
    r"\b(?:when|year|date|how (?:many|much|old|long|far|tall|high|big|large|deep)|what (?:age|number|time))\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\(([^()]+)\)|[\"“]([^\"“”]+)[\"”]")
"""Text in brackets, or a nickname in quotation marks."""


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
    text: str, answer: str | None, aliases: Sequence[str] | str, rules: CorverRules = DEFAULT_RULES, question: str = ""
) -> dict[JudgeRule, Label]:
    """Label a completion by both judges. answer: from `extract_answer`. aliases: a list, or one text separated by `;`.

    question: its words are no answer to the boundary judge. A question without any gold answer makes every attempt
    "bad".
    """
    golds = gold_answers(aliases)
    return {
        "reference": _judge_reference(text.strip() if answer is None else answer, golds),
        "boundary": "na" if answer is None else _judge_boundary(answer, golds, question, rules),
    }


def gold_answers(aliases: Sequence[str] | str) -> Words:
    """Split aliases into gold answers, in order, without empty answers: each alias may hold several, separated by `;`."""
    texts = (aliases,) if isinstance(aliases, str) else aliases
    return tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(";") if part.strip()))


def _judge_reference(answer: str, golds: Iterable[str]) -> Label:
    """Return the label of the authors' judge: containment of normalised texts, in either direction."""
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


def _judge_boundary(answer: str, golds: Sequence[str], question: str, rules: CorverRules) -> Label:
    """Return the label of the default judge, by what the answer asserts; see the decision list below."""
    words = _split_words(answer)
    if not words or (len(answer) < _MAX_REFUSAL_CHARS and _is_refusal(words)):
        return "na"
    # A decision list: equal words, then the length bound, then a gold answer that the text asserts, and last a part of
    # one (most of its content words, a name without its middle, a number without its unit).
    gold_words = [gold for gold in map(_split_gold, golds) if gold]
    if tuple(words) in gold_words or _join(words) in map(_join, gold_words):
        return "good"
    if len(words) > rules.max_answer_words + max(map(len, gold_words), default=0):
        return "bad"
    assertion = _Assertion(words, question)
    others = assertion.others(set().union(*gold_words))
    if any(assertion.states(gold) for gold in gold_words):
        return "good" if assertion.has_verb or others <= rules.max_other_words else "bad"
    parts = {part for gold in golds for part in _gold_parts(gold)}
    start, named_at = assertion.spans[0]
    for named in filter(None, (words[start:], words[named_at:])):
        is_part = tuple(named) in parts or any(_is_large_part(named, gold, rules.min_gold_share) for gold in gold_words)
        if is_part or any(_is_short_name(named, gold) for gold in gold_words):
            return "good"
    return "bad"


class _Assertion:
    """The one answer that a text asserts: where it begins, and whether the rest takes it back."""

    def __init__(self, words: Sequence[str], question: str) -> None:
        self.words = words
        self.question, self.question_names = _question_words(question)
        # Where the question offers its answers ("Rome or Oslo?"), its names are not passed over.
        self.spans = self._find(question, self.question), self._find(question, self.question - self.question_names)

    def _find(self, question: str, passed: frozenset[str]) -> tuple[int, int]:
        """Return the words between which a gold answer may begin: all but the last of them name nothing.

        passed: words of the question that are passed over.
        """
        words, size = self.words, len(self.words)
        if _NUMERIC_QUESTION.search(question):
            for i, word in enumerate(words):
                if (word[0].isdigit() or word in _NUMBER_WORDS) and word not in passed:
                    return (i, i) if self._may_precede(words[:i]) else (0, self._first_name(0, passed))
        for i, word in enumerate(words):
            if word in _COPULAS and i and words[i - 1] not in _RELATIVES and self._takes_up_question(words[:i], passed):
                first = self._first_name(i + 1, passed, has_subject=True)
                if first < size:
                    return i + 1, first
        return 0, self._first_name(0, passed)

    def _may_precede(self, words: Sequence[str]) -> bool:
        """Return whether a number behind these words is asserted: they name nothing, or take up the question."""
        if not (_UNASSERTED - self.question).isdisjoint(words):
            return False
        return not self.question.isdisjoint(words) or _FUNCTION_WORDS.union(_VERBS).issuperset(words)

    def _takes_up_question(self, subject: Sequence[str], passed: frozenset[str]) -> bool:
        """Return whether the words before a copula are a subject such as "The author of X", "It", "The answer"."""
        first = next((word for word in subject if word not in _FUNCTION_WORDS), None)
        if first is None or not self.question:
            return True
        is_about = not self.question.isdisjoint(subject) and (_UNASSERTED - self.question).isdisjoint(subject)
        return is_about and (first in passed or first not in self.question)

    def _first_name(self, start: int, passed: frozenset[str], has_subject: bool = False) -> int:
        """Return the first word from `start` on that names something. Behind a subject, verbs and adverbs do not."""
        for i in range(start, len(self.words)):
            word = self.words[i]
            if not (word in passed or word in _FUNCTION_WORDS or (has_subject and word in _VERBS)):
                return i
            has_subject = has_subject or word in self.question or word in _SUBJECT_PRONOUNS
        return len(self.words)

    @property
    def has_verb(self) -> bool:
        """Whether the text is a statement rather than a name or a list of names."""
        return not (_COPULAS | _VERBS).isdisjoint(self.words)

    def others(self, golds: set[str]) -> int:
        """Return the number of words that name something else than the question and the gold answers do."""
        return sum(not (word in golds or word in self.question or word in _FUNCTION_WORDS) for word in self.words)

    def states(self, gold: Words) -> bool:
        """Return whether the asserted answer begins with this gold answer, and nothing after it takes it back."""
        start, first = self.spans[all(word in self.question or word in _FUNCTION_WORDS for word in gold)]
        joined = _join(gold)
        for i in range(start, min(first + 1, len(self.words))):
            # One word more, as `_join` drops "and": "Simon and Garfunkel" equals "Simon Garfunkel".
            for size in (len(gold), len(gold) + 1):
                if joined and _join(self.words[i : i + size]) == joined:
                    return not self._is_taken_back(gold, self.words[i + size :])
        return False

    def _is_taken_back(self, gold: Words, rest: Sequence[str]) -> bool:
        """Return whether the words after an answer withdraw it, so that a list or a denial states nothing."""
        if not rest:
            return False
        # What follows an answer takes it back: an alternative ("Rome or Oslo"), a denial ("Rome? no"), another number
        # of as many digits ("1912, 1915"), or a predicate that says something else of it than the question asks.
        if rest[0] == "or" or (_DENIALS.isdisjoint(gold) and not _DENIALS.isdisjoint(rest)):
            return True
        number = next((word for word in gold if word.isdigit()), None)
        others = {word for word in rest if word.isdigit() and word not in gold and word not in self.question}
        if number is not None and any(len(word) == len(number) for word in others):
            return True
        if rest[0] in _PREDICATES and self.question:
            return not any(word in self.question or word in _CONFIRMATIONS for word in rest)
        return False


@lru_cache(maxsize=4096)
def _question_words(question: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a question with their regular forms, and those of its names; all where it has no capitals."""
    words, names = set(), set()
    for i, part in enumerate(question.split()):
        for word in _split_words(part):
            if word not in _FUNCTION_WORDS and word:
                words |= {word, f"{word}s", f"{word}d", f"{word}ed", f"{word}ing", word.removesuffix("s")}
                if i and not part.islower():
                    names.add(word)
    return frozenset(words), frozenset(names or words)


def _join(words: Sequence[str]) -> Words:
    return tuple(word for word in words if word != "and")


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


def _is_large_part(words: Sequence[str], gold: Words, min_share: float) -> bool:
    """Return whether the answer is a run of the gold words with more than `min_share` of their content words."""
    if len(words) >= len(gold) or words[0] not in gold:
        return False
    gold_content = [word for word in gold if word not in STOP_WORDS]
    content = [word for word in words if word not in STOP_WORDS]
    if not content or len(content) <= min_share * len(gold_content):
        return False
    return next(_occurrences(gold, words), None) is not None


@lru_cache(maxsize=65_536)
def _gold_parts(gold: str) -> frozenset[Words]:
    """Return parts of a gold answer that name it by themselves: before a comma, in brackets, a nickname with the last
    name, without the function words in front, and a number without its unit."""
    words = _split_gold(gold)
    texts = [_ASIDE.sub(" ", gold).partition(",")[0]]
    for aside in _ASIDE.findall(gold):
        texts += (aside[0], f"{''.join(aside)} {' '.join(words[-1:])}")
    parts = {tuple(_split_words(text)) for text in texts}
    parts.add(tuple(dropwhile(_FUNCTION_WORDS.__contains__, words)))
    if words and words[0].isdigit() and not any(word[0].isdigit() for word in words[1:]):
        parts.add(words[:1])
    return frozenset(part for part in parts if part)


def _is_short_name(words: Sequence[str], gold: Words) -> bool:
    """Return whether the words are a name's first and last one and some of those between; an initial is its word."""
    if not 2 <= len(words) <= len(gold) or words[-1] != gold[-1] or not _is_initial(words[0], gold[0]):
        return False
    rest = iter(gold)
    return all(any(_is_initial(word, name) for name in rest) for word in words)


def _is_initial(word: str, name: str) -> bool:
    return word == name or (len(word) == 1 and word.isalpha() and name.startswith(word))
