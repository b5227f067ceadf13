"""What sentences earn under the strict reward; `factgym.rewards.corver.rubrics` says which exploit each rule closes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from factgym.rewards.corver.query import STOP_WORDS, Query, content_words
from factgym.rewards.corver.rules import CorverRules
from factgym.rewards.corver.sentences import Sentence
from factgym.rewards.corver.triplets import Triplet


class Finding(NamedTuple):
    """What was looked up for a sentence, how often it was seen, and its published reward."""

    triplet: Triplet | None
    query: Query | None
    seen: int | None
    reward: float
    seen_with_relation: int | None = None


REPEATED, SAME_WORDS, UNCHECKED, OFF_TOPIC, TOO_LONG = ("repeated", "same words", "unchecked", "off topic", "too long")
"""Why a strict reward differs from the published one."""

_PART = re.compile(r"[^\W_]+")
_DIRECT_WORDS = 8
"""An answer of at most so many words is a direct one."""


def strict_rewards(
    sentences: Sequence[Sentence],
    findings: Sequence[Finding],
    question: str,
    answer: str,
    refused: bool,
    rules: CorverRules,
) -> list[tuple[float, str]]:
    """The strict reward of each sentence, and why it differs from the published one ("" where it does not).

    findings: what was found for each sentence. question, answer: set the topic; without a question everything is on it.
    refused: the answer is a refusal, whose sentences need not be checkable.
    """
    if not refused and all(one.query is None for one in findings):
        return [(rules.none_reward, UNCHECKED)] * len(findings)
    texts: set[tuple[str, str]] = set()
    queries: set[tuple[str, frozenset[str]]] = set()
    topic = _topic(question, answer) if question else None
    rewards = []
    for sentence, finding in zip(sentences, findings, strict=True):
        reward, note = _reward(sentence, finding, topic, answer, refused, rules)
        text = (sentence.block, _folded(sentence.text))
        if text in texts and not refused:
            reward, note = rules.none_reward, REPEATED
        texts.add(text)
        if finding.query is not None:
            query = (sentence.block, frozenset(map(str.lower, finding.query)))
            if query in queries and reward > 0:
                reward, note = 0.0, SAME_WORDS
            queries.add(query)
        rewards.append((reward, note))
    return rewards


def _reward(
    sentence: Sentence, finding: Finding, topic: set[str] | None, answer: str, refused: bool, rules: CorverRules
) -> tuple[float, str]:
    """A sentence by itself. What it says becomes part of the topic when it is on it."""
    if finding.query is None or finding.triplet is None:
        direct = sentence.block == "answer" and sentence.text == answer and len(answer.split()) <= _DIRECT_WORDS
        return (0.0, "") if refused or direct else (rules.unchecked_reward, UNCHECKED)
    if topic is not None:
        if not _is_on(topic, finding.triplet):
            return min(finding.reward, rules.unchecked_reward), OFF_TOPIC
        topic.update(part for word in finding.query for part in _split(word))
    if len(sentence.text) > rules.max_sentence_chars:
        return min(finding.reward, rules.unchecked_reward), TOO_LONG
    return finding.reward, ""


def _is_on(topic: set[str], triplet: Triplet) -> bool:
    """Whether one of the two entities is wholly named in the topic: namesakes share a word of it."""
    for entity in (triplet.head, triplet.tail):
        parts = {part for word in content_words(entity) for part in _split(word)}
        if parts and parts <= topic:
            return True
    return False


def _topic(question: str, answer: str) -> set[str]:
    return {part for word in f"{question} {answer}".split() for part in _split(word)}


@lru_cache(maxsize=65_536)
def _split(word: str) -> tuple[str, ...]:
    """The parts of a word that letters and digits make, in lower case, stop words left out."""
    return tuple(one for one in _PART.findall(word.lower()) if one not in STOP_WORDS)


def _folded(text: str) -> str:
    """In lower case, with single spaces, without the marks that end a sentence."""
    text = text.lower()
    # Of all white space a space alone is printable.
    if "  " in text or not text.isprintable():
        text = " ".join(text.split())
    return text.rstrip(".!? ")
