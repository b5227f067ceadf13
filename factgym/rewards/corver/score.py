"""Scores of completions: label, format, and the reward of each sentence with its reason.

`score_many` takes the completions of a step together: each new sentence is extracted once, each new query counted once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from factgym.core.episode import RewardReport, SpanCredit
from factgym.corpora.cooccurrence.remote import NO_COUNT, REFUSED
from factgym.rewards.corver.format import (
    Section,
    Sentence,
    code_format_faults,
    extract_answer,
    find_sections,
    format_faults,
    split_sentences,
)
from factgym.rewards.corver.judge import Label, judge_completion
from factgym.rewards.corver.rubrics import DEFAULT_RULES, SENTENCE_COMPONENTS, STRICT, CorverRules, JudgeRule
from factgym.rewards.corver.triplets import STOP_WORDS, Extractor, Query, Triplet, build_query, content_words
from factgym.rewards.rubric import Rubric

if TYPE_CHECKING:
    from factgym.corpora.cooccurrence import Counter

REPEATED, SAME_WORDS, UNCHECKED, OFF_TOPIC, TOO_LONG = ("repeated", "same words", "unchecked", "off topic", "too long")
NO_FACT, ONE_NAME, UNCOUNTED = "no fact", "one name", "no count"
"""Notes: why a strict reward differs from the published one."""

_SENTENCE_COMPONENTS = ("cooccurrence", "cooccurrence_strict", "cooccurrence_mean", "cooccurrence_strict_mean")
_NO_LIMIT = 2**63
_WORD_PART = re.compile(r"[^\W_]+")
_MAX_DIRECT_WORDS = 8
"""Longest answer that counts as a direct one, which needs no query."""
_MAX_NAME_WORDS = 8
_NAME_JOINERS = frozenset(("of", "the", "and", "for"))
"""Stop words inside a name: "Bank of England"."""


class Evidence(NamedTuple):
    """Counted query of a sentence, and its published reward; see `ScoredSentence`.

    triplet: also of a sentence whose triplets make no query. hits: negative where the counter has no count of the query.
    """

    triplet: Triplet | None
    query: Query | None
    hits: int | None
    reward: float
    relation_count: int | None = None


_NO_EVIDENCE = Evidence(None, None, None, 0.0)


class ScoredSentence(NamedTuple):
    """A sentence of a completion with its rewards.

    triplet: the one that was counted, or the first of those that make no query, None for none. query: its words, None for none. count: of the query, None without
    one; under the rule "min" the lowest one, with its triplet and query. relation_count: of the query with the
    relation's words, under "relcheck". reward: as published. strict_reward: see `factgym.rewards.corver.rubrics`;
    `note` is the reason for a difference between the two ("" for none).
    """

    sentence: Sentence
    triplet: Triplet | None
    query: Query | None
    count: int | None  # type: ignore[assignment]  # hides a tuple's method of this name, which nobody needs here
    reward: float
    relation_count: int | None
    strict_reward: float
    note: str


@dataclass(frozen=True, slots=True)
class CorverScore:
    """A scored completion, component by component.

    label: "good", "bad" or "na" by `rules.judge`; labels: by both judges. answer: None without an answer block.
    format_faults, strict_faults: empty for a correct format. components: see
    `factgym.rewards.corver.rubrics.COMPONENTS`. counted: whether there was a counter; without one every sentence
    earns 0. chars: characters inside the blocks.
    """

    text: str
    rules: CorverRules
    label: Label
    labels: Mapping[JudgeRule, Label]
    answer: str | None
    format_faults: tuple[str, ...]
    strict_faults: tuple[str, ...]
    sections: tuple[Section, ...]
    sentences: tuple[ScoredSentence, ...]
    components: Mapping[str, float]
    counted: bool

    @property
    def format_ok(self) -> bool:
        """Whether the format is correct by the published rule."""
        return not self.format_faults

    @property
    def gates(self) -> dict[str, float]:
        """Gates for a rubric: see `factgym.rewards.corver.rubrics.GATES`."""
        return {
            "format": float(not self.format_faults),
            "format_strict": float(not self.strict_faults),
            "good": float(self.labels["reference"] == "good"),
            "good_boundary": float(self.labels["boundary"] == "good"),
        }

    @property
    def chars(self) -> int:
        """Characters inside the blocks, white space between sentences included."""
        return sum(section.end - section.start for section in self.sections)

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The count of each sentence, None without one."""
        return tuple(None if (sentence.count or 0) < 0 else sentence.count for sentence in self.sentences)


def score_completion(
    text: str,
    aliases: Sequence[str] | str,
    counter: Counter | None,
    extractor: Extractor,
    rules: CorverRules = DEFAULT_RULES,
    *,
    question: str = "",
) -> CorverScore:
    """Score a completion. No text raises; exceptions of the counter or the extractor propagate.

    aliases: the gold answers, a list or one text separated by `;`. counter: None for no sentence term. question: the
    strict reward needs it to find sentences that are off topic.
    """
    return score_many([text], [aliases], counter, extractor, rules, questions=[question])[0]


def score_many(
    texts: Sequence[str],
    aliases: Sequence[Sequence[str] | str],
    counter: Counter | None,
    extractor: Extractor,
    rules: CorverRules = DEFAULT_RULES,
    *,
    questions: Sequence[str] | None = None,
) -> list[CorverScore]:
    """Score completions together, with `aliases` (and `questions`) for each; equal to `score_completion` on each."""
    sections = [find_sections(text) for text in texts]
    sentences = [split_sentences(text, group) for text, group in zip(texts, sections, strict=True)]
    # The completions of a group repeat sentences and queries: each distinct one is extracted and counted once.
    distinct = list(dict.fromkeys([sentence.text for group in sentences for sentence in group]))
    evidence = dict.fromkeys(distinct, _NO_EVIDENCE)
    if counter is not None and distinct:
        triplets = extractor.extract(distinct)
        evidence = dict(zip(distinct, _count_triplets(triplets, counter, rules), strict=True))
    if questions is None:
        questions = [""] * len(texts)
    return [
        _score(text, gold, parts, group, [evidence[s.text] for s in group], counter is not None, rules, question)
        for text, gold, parts, group, question in zip(texts, aliases, sections, sentences, questions, strict=True)
    ]


def _count_triplets(triplets: Sequence[Sequence[Triplet]], counter: Counter, rules: CorverRules) -> list[Evidence]:
    """Count the queries of each sentence's triplets, in one call for all sentences (two for "relcheck")."""
    candidates: list[list[tuple[Triplet, Query]]] = []
    for sentence_triplets in triplets:
        # The first valid triplet, or all of them for "min"; one with a single word has no query.
        valid = (triplet for triplet in sentence_triplets if triplet.valid)
        chosen = valid if rules.rule == "min" else islice(valid, 1)
        candidates.append([(triplet, query) for triplet in chosen if (query := build_query(triplet)) is not None])
    limit = None if rules.exact_counts or rules.rule == "min" else rules.high_count
    counts = _count([query for group in candidates for _, query in group], counter, limit)
    evidence = []
    for group, sentence_triplets in zip(candidates, triplets, strict=True):
        if not group:
            evidence.append(_NO_EVIDENCE._replace(triplet=next(iter(sentence_triplets), None)))
            continue
        # Of those without a count the last: -1 and -2 would be the lowest.
        triplet, query = group[0] if len(group) == 1 else min(group, key=lambda pair: counts[pair[1]] % _NO_LIMIT)
        hits = counts[query]
        evidence.append(Evidence(triplet, query, hits, rules.count_reward(hits) if hits >= 0 else 0.0))
    if rules.rule == "relcheck":
        # Appendix B.3: demote sentences whose entities are well supported, but not with their relation.
        queries = {
            i: build_query(item.triplet, relation=True) or ()
            for i, item in enumerate(evidence)
            if item.hits is not None and item.hits >= rules.high_count and item.triplet is not None
        }
        counts = _count(queries.values(), counter, None if rules.exact_counts else 1)
        for i, query in queries.items():
            reward = evidence[i].reward if counts[query] else rules.relation_reward
            evidence[i] = evidence[i]._replace(reward=reward, relation_count=counts[query])
    return evidence


def _count(queries: Iterable[Query], counter: Counter, limit: int | None) -> dict[Query, int]:
    """Count each distinct query once, in one call; up to `limit` if given."""
    distinct = list(dict.fromkeys(queries))
    if not distinct:
        return {}
    count_up_to = getattr(counter, "count_up_to", None)
    if limit is not None and count_up_to is not None:
        counts = count_up_to(distinct, limit)
    else:
        counts = counter.count_many(distinct)
        counts = counts if limit is None else np.minimum(counts, limit)
    return dict(zip(distinct, counts.tolist(), strict=True))


def _score(
    text: str,
    aliases: Sequence[str] | str,
    sections: tuple[Section, ...],
    sentences: Sequence[Sentence],
    evidence: Sequence[Evidence],
    counted: bool,
    rules: CorverRules,
    question: str,
) -> CorverScore:
    """Return the score of a completion from its sentences' counts: labels of all judges, format, component means."""
    answer = extract_answer(text)
    labels = judge_completion(text, answer, aliases, rules, question)
    faults, strict_faults = format_faults(text, rules)
    strict = [(0.0, "")] * len(evidence)
    if counted:
        strict = _strict_rewards(sentences, evidence, question, answer or "", labels["boundary"] == "na", rules)
    scored = tuple(
        ScoredSentence(sentence, *item, *rewards)
        for sentence, item, rewards in zip(sentences, evidence, strict, strict=True)
    )
    # An empty answer refuses nothing.
    refused = labels["boundary"] == "na" and any(map(str.isalnum, answer or ""))
    label_rewards = {"good": rules.good_reward, "bad": rules.bad_reward, "na": rules.na_reward}
    components = {
        "judge": label_rewards[labels["reference"]],
        "judge_boundary": rules.refusal_reward if refused else label_rewards[labels["boundary"]],
        "format": -rules.format_reward if faults else rules.format_reward,
        "format_code": -rules.format_reward if code_format_faults(text, rules) else rules.format_reward,
        "format_strict": -rules.format_reward if strict_faults else rules.format_reward,
        **_mean_rewards(scored, sum(section.end - section.start for section in sections), rules.min_alignment),
    }
    label = labels[rules.judge]
    return CorverScore(text, rules, label, labels, answer, faults, strict_faults, sections, scored, components, counted)


def _mean_rewards(sentences: Sequence[ScoredSentence], chars: int, min_alignment: float) -> dict[str, float]:
    """Return means over the blocks' characters, and over the sentences; 0 without any.

    The former are the masked mean of the tokens' sentence terms for a tokenizer of characters: blocks of mostly white
    space fall below the alignment threshold and have none.
    """
    by_chars = strict_by_chars = total = strict_total = 0.0
    aligned = 0
    for (start, end, _, _), _, _, _, reward, _, strict_reward, _ in sentences:
        size = end - start
        aligned += size
        by_chars += reward * size
        strict_by_chars += strict_reward * size
        total += reward
        strict_total += strict_reward
    number = len(sentences)
    if not number:
        return dict.fromkeys(_SENTENCE_COMPONENTS, 0.0)
    divisor = chars if aligned >= min_alignment * chars else math.inf
    means = (by_chars / divisor, strict_by_chars / divisor, total / number, strict_total / number)
    return dict(zip(_SENTENCE_COMPONENTS, means, strict=True))


# The strict reward; the docstring of `factgym.rewards.corver.rubrics` lists the exploit that each rule closes.


def _strict_rewards(
    sentences: Sequence[Sentence],
    evidence: Sequence[Evidence],
    question: str,
    answer: str,
    refused: bool,
    rules: CorverRules,
) -> list[tuple[float, str]]:
    """Return the strict reward of each sentence, and its note.

    question, answer: set the topic; without a question every sentence is on topic. refused: the answer is a refusal,
    whose sentences need no query.
    """
    if not refused and all(item.query is None for item in evidence):
        return [(rules.none_reward, UNCHECKED)] * len(evidence)
    # One pass in reading order: repetition is judged against earlier sentences, and topics grow from them.
    texts: set[tuple[str, str]] = set()
    queries: set[tuple[str, frozenset[str]]] = set()
    facts = [(sentence.text, item.triplet) for sentence, item in zip(sentences, evidence, strict=True) if item.triplet]
    topic = _Topic(question, answer, dict(facts)) if question else None
    rewards: list[tuple[float | None, str]] = []
    for sentence, item in zip(sentences, evidence, strict=True):
        reward, note = _strict_reward(sentence, item, topic, answer, refused, rules)
        text = (sentence.block, _fold(sentence.text))
        if text in texts and not refused:
            reward, note = rules.none_reward, REPEATED
        texts.add(text)
        if item.query is not None:
            query = (sentence.block, frozenset(map(str.lower, item.query)))
            if query in queries and reward is not None and reward > 0:
                reward, note = 0.0, SAME_WORDS
            queries.add(query)
        rewards.append((reward, note))
    if not refused and not any(s.block == "think" and item.query for s, item in zip(sentences, evidence, strict=True)):
        # A thought without any fact is no reasoning.
        rewards = [
            (rules.unchecked_reward, UNCHECKED) if sentence.block == "think" and reward is None else (reward, note)
            for sentence, (reward, note) in zip(sentences, rewards, strict=True)
        ]
    # A sentence without a fact counts as if it were not there: it earns the mean of the others, weighted by length.
    sizes = [len(sentence.text) for sentence in sentences]
    counted = [(size, reward) for size, (reward, _) in zip(sizes, rewards, strict=True) if reward is not None]
    mean = 0.0
    if any(size for size, _ in counted):
        values = [reward for _, reward in counted]
        mean = math.fsum(map(math.prod, counted)) / sum(size for size, _ in counted)
        mean = min(max(mean, min(values)), max(values))  # rounding
    return [(mean if reward is None else reward, note) for reward, note in rewards]


class _Topic:
    """The words that sentences may be about, and the names that they may not take apart."""

    def __init__(self, question: str, answer: str, facts: Mapping[str, Triplet]) -> None:
        parts = [part for word in question.split() for part in _WORD_PART.findall(word.lower())]
        self.words = {part for word in f"{question} {answer}".split() for part in _word_parts(word)}
        # Names of the question are runs of its words, whatever their case; other names are entities of the completion.
        self._runs = {
            frozenset(run) - STOP_WORDS
            for start in range(len(parts))
            for end in range(start + 2, min(start + _MAX_NAME_WORDS, len(parts)) + 1)
            if _NAME_JOINERS.issuperset(STOP_WORDS.intersection(run := parts[start:end]))
        }
        entities = [entity for triplet in facts.values() for entity in (triplet.head, triplet.tail)]
        if answer not in facts and len(answer.split()) <= _MAX_NAME_WORDS:
            entities.append(answer)
        self._names = [_entity_parts(entity) for entity in entities if "," not in entity]

    def note(self, triplet: Triplet) -> str:
        """Return why the triplet connects nothing about the question, "" if it does."""
        head, tail = _entity_parts(triplet.head), _entity_parts(triplet.tail)
        both = head | tail
        if head <= tail or tail <= head or both in self._runs or any(both <= name for name in self._names):
            return ONE_NAME
        # The topic has to contain one of the two entities in full: namesakes share only a word of it.
        if not any(parts and parts <= self.words for parts in (head, tail)):
            return OFF_TOPIC
        return ""


def _strict_reward(
    sentence: Sentence, evidence: Evidence, topic: _Topic | None, answer: str, refused: bool, rules: CorverRules
) -> tuple[float | None, str]:
    """Return the strict reward apart from repetitions, None for a sentence that does not count.

    The words of a sentence on topic extend the topic.
    """
    if evidence.query is None or evidence.triplet is None:
        is_direct = sentence.block == "answer" and sentence.text == answer and len(answer.split()) <= _MAX_DIRECT_WORDS
        if refused or is_direct:
            return 0.0, ""
        is_checkable = evidence.triplet is not None or len(sentence.text) > rules.max_sentence_chars
        return (rules.unchecked_reward, UNCHECKED) if is_checkable else (None, NO_FACT)
    note = topic.note(evidence.triplet) if topic else ""
    if note:
        return min(evidence.reward, rules.unchecked_reward), note
    if topic is not None:
        topic.words.update(part for word in evidence.query for part in _word_parts(word))
    if len(sentence.text) > rules.max_sentence_chars:
        return min(evidence.reward, rules.unchecked_reward), TOO_LONG
    if evidence.hits == REFUSED:  # else too many words would be a way around the count
        return rules.unchecked_reward, UNCHECKED
    if evidence.hits == NO_COUNT:
        return None, UNCOUNTED
    return evidence.reward, ""


def _entity_parts(entity: str) -> frozenset[str]:
    return frozenset(part for word in content_words(entity) for part in _word_parts(word))


@lru_cache(maxsize=65_536)
def _word_parts(word: str) -> tuple[str, ...]:
    """Return the runs of letters and digits in a word, in lower case, without stop words."""
    return tuple(part for part in _WORD_PART.findall(word.lower()) if part not in STOP_WORDS)


def _fold(text: str) -> str:
    """Return the text in lower case, with single spaces, without the marks that end a sentence."""
    text = text.lower()
    # The space is the only printable white space.
    if "  " in text or not text.isprintable():
        text = " ".join(text.split())
    return text.rstrip(".!? ")


# The report of an episode


def sentence_returns(sentences: Sequence[ScoredSentence], rubric: Rubric = STRICT) -> npt.NDArray[np.float64]:
    """Return λ_c · r_i, shape (sentences,): the addition to the returns of each sentence's tokens."""
    total = np.zeros(len(sentences))
    for name, field in SENTENCE_COMPONENTS.items():
        if weight := rubric.weights.get(name):
            total += weight * np.fromiter(map(attrgetter(field), sentences), np.float64, len(sentences))
    return total


def reward_report(score: CorverScore, rubric: Rubric = STRICT, *, message: int = 0) -> RewardReport:
    """Return the report: every component, the rubric's weights, each sentence's reward as a span, and `metrics`.

    message: the index of the completion's message, for the spans; a sentence that earns 0 has none.
    Metrics: label (good, bad, na) with label_reference and label_boundary, refusal, format_ok and format_faults,
    strict_format_ok, answer (None without one), answer_chars, counts (one for each sentence, None without a query),
    sentences, repeated (sentences that repeat an earlier one), counted (whether there was a counter), notes, and gates
    by name.
    """
    spans = tuple(
        SpanCredit(message, scored.sentence.start, scored.sentence.end, float(value))
        for scored, value in zip(score.sentences, sentence_returns(score.sentences, rubric), strict=True)
        if value
    )
    metrics = {
        "label": score.label,
        "label_reference": score.labels["reference"],
        "label_boundary": score.labels["boundary"],
        "refusal": score.label == "na",
        "format_ok": score.format_ok,
        "format_faults": list(score.format_faults),
        "strict_format_ok": not score.strict_faults,
        "answer": score.answer,
        "answer_chars": len(score.answer or ""),
        "counts": list(score.counts),
        "sentences": len(score.sentences),
        "repeated": sum(sentence.note in (REPEATED, SAME_WORDS) for sentence in score.sentences),
        "counted": score.counted,
        "notes": [] if score.counted else ["no counter: the sentence term is 0"],
    }
    return rubric.report(score.components, score.gates, spans=spans, metrics=metrics)
