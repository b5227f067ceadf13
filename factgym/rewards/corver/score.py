"""A completion scored: its label, its format, and what each sentence earned and why.

`score_many` takes the completions of a step together: each new sentence is extracted once, each new query counted once.
Where nobody reads the counts, as in training, `CorverRules(exact_counts=False)` has them stop at the highest tier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from factgym.rewards.corver.format import format_faults
from factgym.rewards.corver.judge import Label, both_labels, extract_answer
from factgym.rewards.corver.query import Query, query_of
from factgym.rewards.corver.rules import DEFAULT_RULES, CorverRules, JudgeRule
from factgym.rewards.corver.sentences import Section, Sentence, sections_of, sentences_in
from factgym.rewards.corver.strict import Finding, strict_rewards
from factgym.rewards.corver.triplets import Extractor, Triplet

if TYPE_CHECKING:
    from factgym.corpora.cooccurrence import Counter


class ScoredSentence(NamedTuple):
    """One sentence of a completion, and what it earned.

    triplet: the one that counted, None for none. query: its words, None for none. count: of the query, None where none
    was asked for; under the rule "min" the lowest one, whose triplet and query stand beside it. relation_count: of the
    query with the relation's words, where "relcheck" asked. reward: as published. strict_reward: see
    `factgym.rewards.corver.rubrics`; `note` says why the two differ ("" where they do not).
    """

    sentence: Sentence
    triplet: Triplet | None
    query: Query | None
    count: int | None  # type: ignore[assignment]  # hides a tuple's method of this name, which nobody needs here
    reward: float
    strict_reward: float
    relation_count: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class CorverScore:
    """What a completion earned, component by component.

    label: "good", "bad" or "na" by `rules.judge`; labels: by both judges. answer: None without an answer block.
    format_faults, strict_faults: what is wrong with the format, empty where it is right. components: see
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
        """Whether the format holds by the published rule."""
        return not self.format_faults

    @property
    def gates(self) -> dict[str, float]:
        """What a rubric may gate a component with: see `factgym.rewards.corver.rubrics.GATES`."""
        return {
            "format": float(not self.format_faults),
            "format_strict": float(not self.strict_faults),
            "good": float(self.labels["reference"] == "good"),
            "good_boundary": float(self.labels["boundary"] == "good"),
        }

    @property
    def chars(self) -> int:
        """Characters inside the blocks, white space between sentences included."""
        return sum(one.end - one.start for one in self.sections)

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The count of each sentence."""
        return tuple(one.count for one in self.sentences)


def score_completion(
    text: str,
    aliases: Sequence[str] | str,
    counter: Counter | None,
    extractor: Extractor,
    rules: CorverRules = DEFAULT_RULES,
    *,
    question: str = "",
) -> CorverScore:
    """Score one completion. Never raises for any text; what the counter or the extractor raises passes through.

    aliases: the gold answers, a list or one text that `;` separates. counter: None for no sentence term. question: what
    was asked; with it the strict reward knows which sentences are off the topic.
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
    """Score completions together, `aliases` (and `questions`) one for each; as `score_completion` one by one."""
    sections = [sections_of(text) for text in texts]
    split = [
        [one for part in parts for one in sentences_in(text, part)]
        for text, parts in zip(texts, sections, strict=True)
    ]
    different = list(dict.fromkeys([one.text for group in split for one in group]))
    looked_up = [_NOTHING] * len(different)
    if counter is not None and different:
        looked_up = _look_up(_extract(different, extractor, rules), counter, rules)
    found = dict(zip(different, looked_up, strict=True))
    asked = questions if questions is not None else [""] * len(texts)
    return [
        _score(text, gold, parts, group, [found[one.text] for one in group], counter is not None, rules, question)
        for text, gold, parts, group, question in zip(texts, aliases, sections, split, asked, strict=True)
    ]


def _extract(sentences: Sequence[str], extractor: Extractor, rules: CorverRules) -> list[list[Triplet]]:
    """The triplets of each sentence, no further than the rule needs where the extractor can stop."""
    extract = extractor.extract
    if rules.rule != "min":
        extract = getattr(extractor, "extract_first", extract)
    return extract(sentences)


def _look_up(triplets: Sequence[Sequence[Triplet]], counter: Counter, rules: CorverRules) -> list[Finding]:
    """What is known of each sentence: two rounds of counting at most, each in one call."""
    asked = [_queries(found, rules) if found else () for found in triplets]
    most = None if rules.exact_counts or rules.rule == "min" else rules.high_count
    counts = _count([query for found in asked for _, query in found], counter, most)
    findings = []
    for found in asked:
        if not found:
            findings.append(_NOTHING)
            continue
        triplet, query = found[0] if len(found) == 1 else min(found, key=lambda one: counts[one[1]])
        count = counts[query]
        findings.append(Finding(triplet, query, count, rules.reward_of(count)))
    return _check_relations(findings, counter, rules) if rules.rule == "relcheck" else findings


_NOTHING = Finding(None, None, None, 0.0)


def _queries(triplets: Iterable[Triplet], rules: CorverRules) -> list[tuple[Triplet, Query]]:
    """The valid triplets that are counted, with their queries: the first one, or all of them for "min"."""
    found = []
    for triplet in triplets:
        if not triplet.valid:
            continue
        query = query_of(triplet)
        if query is not None:
            found.append((triplet, query))
        if rules.rule != "min":
            break
    return found


def _check_relations(findings: Sequence[Finding], counter: Counter, rules: CorverRules) -> list[Finding]:
    """Demote what is well supported without its relation only ("relcheck", B.3)."""
    wanted = {}
    for i, one in enumerate(findings):
        if one.seen is not None and one.seen >= rules.high_count and one.triplet is not None:
            query = query_of(one.triplet, relation=True)
            wanted[i] = query if query is not None else ()
    counts = _count(wanted.values(), counter, None if rules.exact_counts else 1)
    checked = list(findings)
    for i, query in wanted.items():
        old = findings[i]
        reward = old.reward if counts[query] else rules.relation_reward
        checked[i] = Finding(old.triplet, old.query, old.seen, reward, counts[query])
    return checked


def _count(queries: Iterable[Query], counter: Counter, most: int | None) -> dict[Query, int]:
    """Each different query counted once, in one call; up to `most` where that is given."""
    different = list(dict.fromkeys(queries))
    if not different:
        return {}
    if most is None:
        return dict(zip(different, counter.count_many(different).tolist(), strict=True))
    count_up_to = getattr(counter, "count_up_to", None)
    if count_up_to is not None:
        return dict(zip(different, count_up_to(different, most).tolist(), strict=True))
    return {query: min(count, most) for query, count in _count(different, counter, None).items()}


def _score(
    text: str,
    aliases: Sequence[str] | str,
    sections: tuple[Section, ...],
    split: Sequence[Sentence],
    found: Sequence[Finding],
    counted: bool,
    rules: CorverRules,
    question: str,
) -> CorverScore:
    answer = extract_answer(text)
    labels = both_labels(text, answer, aliases, rules)
    faults, strict_faults = format_faults(text, rules)
    strict = [(0.0, "")] * len(found)
    if counted:
        strict = strict_rewards(split, found, question, answer or "", labels["boundary"] == "na", rules)
    sentences = tuple(map(_scored, split, found, strict))
    given = {"good": rules.good_reward, "bad": rules.bad_reward, "na": rules.na_reward}
    components = {
        "judge": given[labels["reference"]],
        "judge_boundary": given[labels["boundary"]],
        "format": -rules.format_reward if faults else rules.format_reward,
        "format_strict": -rules.format_reward if strict_faults else rules.format_reward,
        **_sentence_components(sentences, sum(one.end - one.start for one in sections), rules.min_alignment),
    }
    return CorverScore(
        text,
        rules,
        labels[rules.judge],
        labels,
        answer,
        faults,
        strict_faults,
        sections,
        sentences,
        components,
        counted,
    )


def _scored(sentence: Sentence, found: Finding, strict: tuple[float, str]) -> ScoredSentence:
    triplet, query, count, reward, relation_count = found
    strict_reward, note = strict
    return ScoredSentence(sentence, triplet, query, count, reward, strict_reward, relation_count, note)


def _sentence_components(sentences: Sequence[ScoredSentence], chars: int, min_alignment: float) -> dict[str, float]:
    """Means over the blocks' characters, and over the sentences; 0 without any.

    The former are what the masked mean of the tokens' sentence terms is when each character is a token: blocks that
    are white space for the most part fall under the alignment threshold and have none.
    """
    by_chars = strict_by_chars = total = strict_total = 0.0
    aligned = 0
    for (start, end, _, _), _, _, _, reward, strict_reward, _, _ in sentences:
        size = end - start
        aligned += size
        by_chars += reward * size
        strict_by_chars += strict_reward * size
        total += reward
        strict_total += strict_reward
    number = len(sentences)
    if not number:
        return dict.fromkeys(_SENTENCE_NAMES, 0.0)
    counted = chars if aligned >= min_alignment * chars else math.inf
    values = (by_chars / counted, strict_by_chars / counted, total / number, strict_total / number)
    return dict(zip(_SENTENCE_NAMES, values, strict=True))


_SENTENCE_NAMES = ("cooccurrence", "cooccurrence_strict", "cooccurrence_mean", "cooccurrence_strict_mean")
