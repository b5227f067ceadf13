"""Measures of synthetic claim examples, taken from their text alone: variety, balance, shortcuts, retrieval difficulty.

These are the claims that the benchmark makes of its data ("Building The Benchmark"): labels balanced, word overlap no
shortcut, gold passages at no favourite position, and one search not enough where several passages are needed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import VERDICTS, ClaimExample
from factgym.generators.synthetic import SyntheticClaims
from factgym.generators.synthetic.scenario import Scenario, build
from factgym.text.words import words_in

_FUNCTION_WORDS = words_in(
    "a an the this that these those such no not any all each every both either neither other another one same"
    " own of in on at by for from to with without within into onto over under above after before since until"
    " during between among against about through as than per upon but and or nor if unless except save where"
    " when whenever while once because so whether provided only also even more most less least at must may can"
    " shall should cannot need ought is are was were be been being has have had having do does did done will"
    " would could might who whom whose which what how it its they them their there here he she his her we our"
    " you your i up out off down away back"
)


@cache
def scenarios(split: str) -> tuple[Scenario, ...]:
    """The first 800 scenarios of a split with seed 0, or all that it has; built once for all test modules."""
    claims = SyntheticClaims(split)
    return tuple(build(split, 0, index, claims.verdict(index)) for index in range(min(800, len(claims))))


def words(text: str) -> list[str]:
    """Lower-cased words and numbers."""
    return re.findall(r"[a-z]+|\d[\d,]*", text.lower())


def split_sentences(text: str) -> list[str]:
    """Sentences of generated passages, whose full stops end sentences and nothing else."""
    return [
        part for line in text.split("\n") for part in re.split(r"(?<=[.?!]) (?=[\"A-Z0-9$£€])", line) if part.strip()
    ]


def skeleton(sentence: str) -> str:
    """The sentence with each run of content words as one "X" and each number as "#": the trace of a template."""
    parts: list[str] = []
    for token in re.findall(r"[a-z]+|\d[\d,]*|[,;:]", sentence.lower()):
        mask = token if token in _FUNCTION_WORDS or not token.isalnum() else "#" if token[0].isdigit() else "X"
        if not (parts and mask == "X" and parts[-1] == "X"):
            parts.append(mask)
    return " ".join(parts)


def skeletons(examples: Sequence[ClaimExample]) -> dict[str, Counter[str]]:
    """Counts of the sentence skeletons by domain."""
    counts: dict[str, Counter[str]] = {}
    for example in examples:
        counter = counts.setdefault(example.domain, Counter())
        for passage in example.passages:
            counter.update(map(skeleton, split_sentences(passage.text)))
    return counts


def sentence_shapes(split: str, count: int) -> dict[str, Counter[str]]:
    """Counts of the shapes of gold sentences by domain: every lexicon word masked, so that only the syntax remains.

    A handful of templates would show here. Fillers and ready-made statements are not counted.
    """
    claims = SyntheticClaims(split)
    shapes: dict[str, Counter[str]] = {}
    for index in range(count):
        example = build(split, 0, index, claims.verdict(index), masked=True).example
        texts = {passage.id: passage.text for passage in example.passages}
        counter = shapes.setdefault(example.domain, Counter())
        for fact in {fact for claim in example.claims for fact in claim.facts}:
            counter[texts[fact.passage][fact.start : fact.end]] += 1
    return shapes


def vocabulary(examples: Sequence[ClaimExample]) -> frozenset[str]:
    """Word types of all passages and answers, numbers left out."""
    texts = (text for example in examples for text in (*(p.text for p in example.passages), example.answer))
    return frozenset(word for text in texts for word in words(text) if word.isalpha())


def bm25_order(query: str, passages: Sequence[Passage], k1: float = 1.5, b: float = 0.75) -> list[str]:
    """Ids of the passages by Okapi BM25 over title and text, best first, ties in document order."""
    texts = [Counter(words(f"{passage.title} {passage.text}")) for passage in passages]
    lengths = [sum(text.values()) for text in texts]
    mean = sum(lengths) / len(lengths)
    query_words = words(query)
    total = len(texts)
    weights = {}
    for word in set(query_words):
        matches = sum(word in text for text in texts)
        weights[word] = math.log(1 + (total - matches + 0.5) / (matches + 0.5))
    scores = []
    for at, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        norm = k1 * (1 - b + b * length / mean)
        scores.append((-sum(weights[word] * text[word] * (k1 + 1) / (text[word] + norm) for word in query_words), at))
    return [passages[at].id for _, at in sorted(scores)]


def recalls(
    examples: Sequence[ClaimExample], order: Callable[[str, Sequence[Passage]], list[str]] = bm25_order
) -> dict[int, float]:
    """Share of examples whose whole gold set is among the first k passages, by k; the query is question and answer."""
    orders = [order(f"{example.question} {example.answer}", example.passages) for example in examples]
    return {
        k: sum(set(example.gold_ids) <= set(ids[:k]) for example, ids in zip(examples, orders, strict=True))
        / len(examples)
        for k in (1, 2, 3, 5)
    }


def overlap_features(example: ClaimExample) -> list[float]:
    """Shares of the answer's words and word pairs that occur in its best sentence, best passage, and whole document."""
    answer = words(example.answer)
    pairs = set(pairwise(answer))
    types = set(answer)
    texts = [words(passage.text) for passage in example.passages]
    document = {word for text in texts for word in text}
    sentences = [set(words(s)) for passage in example.passages for s in split_sentences(passage.text)]
    document_pairs = {pair for text in texts for pair in pairwise(text)}
    return [
        len(types & document) / len(types),
        max(len(types & set(text)) for text in texts) / len(types),
        max(len(types & s) for s in sentences) / len(types),
        max((len(types & s) / len(types | s) for s in sentences), default=0.0),
        len(pairs & document_pairs) / max(len(pairs), 1),
    ]


def overlap_accuracy(examples: Sequence[ClaimExample], folds: int = 5, depth: int = 4) -> float:
    """Cross-validated accuracy on the verdict of a small decision tree (CART) over `overlap_features`."""
    features = [overlap_features(example) for example in examples]
    labels = [VERDICTS.index(example.verdict) for example in examples]
    right = 0
    for fold in range(folds):
        tree = _grow(features, labels, [at for at in range(len(labels)) if at % folds != fold], depth)
        for at in range(fold, len(labels), folds):
            leaf = tree
            while not isinstance(leaf, int):
                column, cut, lower, upper = leaf
                leaf = lower if features[at][column] <= cut else upper
            right += leaf == labels[at]
    return right / len(labels)


Tree = int | tuple[int, float, "Tree", "Tree"]


def _grow(features: Sequence[Sequence[float]], labels: Sequence[int], rows: list[int], depth: int) -> Tree:
    """Split by the lowest Gini impurity among a few quantiles of each column."""
    counts = Counter(labels[at] for at in rows)
    majority = max(sorted(counts), key=counts.__getitem__) if counts else 0
    if depth == 0 or len(rows) < 40:
        return majority
    splits = []
    for column in range(len(features[0])):
        values = sorted(features[at][column] for at in rows)
        for cut in {values[len(values) * part // 16] for part in range(1, 16)} - {values[-1]}:
            sides: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
            for at in rows:
                sides[features[at][column] > cut][labels[at]] += 1
            impurity = sum(
                n - sum(count * count for count in side.values()) / n for side in sides if (n := side.total())
            )
            splits.append((impurity, column, cut))
    if not splits:
        return majority
    _, column, cut = min(splits)
    lower = [at for at in rows if features[at][column] <= cut]
    upper = [at for at in rows if features[at][column] > cut]
    return column, cut, _grow(features, labels, lower, depth - 1), _grow(features, labels, upper, depth - 1)


def answer_accuracy(examples: Sequence[ClaimExample], folds: int = 5) -> float:
    """Cross-validated accuracy on the verdict of naive Bayes over the answer's words and word pairs alone."""
    bags = []
    for example in examples:
        tokens = words(example.answer)
        bags.append(list(dict.fromkeys([*tokens, *pairwise(tokens)])))
    right = 0
    for fold in range(folds):
        counts = {verdict: Counter[object]() for verdict in VERDICTS}
        sizes = Counter[str]()
        for at, example in enumerate(examples):
            if at % folds != fold:
                counts[example.verdict].update(bags[at])
                sizes[example.verdict] += 1
        for at in range(fold, len(examples), folds):
            scores = {
                verdict: sum(math.log((counts[verdict][item] + 0.3) / (sizes[verdict] + 1)) for item in bags[at])
                for verdict in VERDICTS
            }
            right += max(VERDICTS, key=scores.__getitem__) == examples[at].verdict
    return right / len(examples)
