"""What a set of claim examples is like, measured from its text alone: variety, balance, shortcuts, retrieval difficulty.

These are the claims that the benchmark makes of its data ("Building The Benchmark"): labels balanced, word overlap no
shortcut, gold passages at no favourite place, and one search not enough where several passages are needed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import VERDICTS, ClaimExample
from factgym.generators.synthetic import SyntheticClaims
from factgym.generators.synthetic.grammar import listed
from factgym.generators.synthetic.scenario import build

_WORD = re.compile(r"[a-z]+|\d[\d,]*")
_FUNCTION = frozenset(
    listed(
        "a an the this that these those such no not any all each every both either neither other another one same"
        " own of in on at by for from to with without within into onto over under above after before since until"
        " during between among against about through as than per upon but and or nor if unless except save where"
        " when whenever while once because so whether provided only also even more most less least at must may can"
        " shall should cannot need ought is are was were be been being has have had having do does did done will"
        " would could might who whom whose which what how it its they them their there here he she his her we our"
        " you your i up out off down away back"
    )
)


@dataclass(frozen=True, slots=True)
class SplitStats:
    """Measures of one set of examples; shares and accuracies are between 0 and 1.

    skeletons: distinct sentence skeletons per domain (see `skeleton`); commonest: the share of the commonest one.
    verdicts, corruptions: counts. gold_positions: share of gold citations at each passage number.
    overlap_accuracy: cross-validated accuracy of a decision tree over word-overlap features on the five verdicts.
    answer_accuracy: the same of naive Bayes over the words and word pairs of the answer, with no document at all.
    recall: share of examples whose whole gold set is among BM25's first k passages, by k; the query is question and
    answer. gold_sizes: counts of the number of gold passages. sentence_words: mean words in a passage sentence.
    vocabulary: word types of passages and answers.
    """

    examples: int
    skeletons: dict[str, int]
    commonest: float
    verdicts: dict[str, int]
    corruptions: dict[str, int]
    gold_positions: dict[int, float]
    gold_sizes: dict[int, int]
    overlap_accuracy: float
    answer_accuracy: float
    recall: dict[int, float]
    sentence_words: float
    vocabulary: frozenset[str]


def describe(examples: Sequence[ClaimExample]) -> SplitStats:
    """Measure a set of examples; at least 50 for the overlap classifier to mean anything."""
    items = list(examples)
    skeletons: dict[str, Counter[str]] = {}
    lengths: list[int] = []
    for example in items:
        counter = skeletons.setdefault(example.domain, Counter())
        for passage in example.passages:
            for sentence in split_sentences(passage.text):
                counter[skeleton(sentence)] += 1
                lengths.append(len(words(sentence)))
    total = sum(sum(counter.values()) for counter in skeletons.values())
    return SplitStats(
        examples=len(items),
        skeletons={domain: len(counter) for domain, counter in sorted(skeletons.items())},
        commonest=max((max(counter.values()) for counter in skeletons.values()), default=0) / max(total, 1),
        verdicts=dict(Counter(example.verdict for example in items)),
        corruptions=dict(Counter(claim.corruption for example in items for claim in example.claims).most_common()),
        gold_positions=_positions(items),
        gold_sizes=dict(sorted(Counter(len(example.gold_ids) for example in items).items())),
        overlap_accuracy=overlap_accuracy(items),
        answer_accuracy=answer_accuracy(items),
        recall={k: recall_at(items, k) for k in (1, 2, 3, 5)},
        sentence_words=sum(lengths) / max(len(lengths), 1),
        vocabulary=vocabulary(items),
    )


def words(text: str) -> list[str]:
    """Lower-cased words and numbers."""
    return _WORD.findall(text.lower())


def split_sentences(text: str) -> list[str]:
    """Sentences of generated passages, whose full stops end sentences and nothing else."""
    return [
        part for line in text.split("\n") for part in re.split(r"(?<=[.?!]) (?=[\"A-Z0-9$£€])", line) if part.strip()
    ]


def skeleton(sentence: str) -> str:
    """The sentence with every run of content words as one "X" and every number as "#": what a template leaves behind."""
    parts: list[str] = []
    for token in re.findall(r"[a-z]+|\d[\d,]*|[,;:]", sentence.lower()):
        mask = token if token in _FUNCTION or not token.isalnum() else "#" if token[0].isdigit() else "X"
        if not (parts and mask == "X" and parts[-1] == "X"):
            parts.append(mask)
    return " ".join(parts)


def vocabulary(examples: Sequence[ClaimExample]) -> frozenset[str]:
    """Word types of all passages and answers, numbers left out."""
    types: set[str] = set()
    for example in examples:
        for text in (*(passage.text for passage in example.passages), example.answer):
            types.update(word for word in words(text) if word.isalpha())
    return frozenset(types)


def _positions(examples: Sequence[ClaimExample]) -> dict[int, float]:
    counts = Counter(int(name.removeprefix("E")) for example in examples for name in example.gold_ids)
    total = sum(counts.values())
    return {position: counts[position] / total for position in sorted(counts)}


def bm25_order(query: str, passages: Sequence[Passage], k1: float = 1.5, b: float = 0.75) -> list[str]:
    """Ids of the passages by Okapi BM25 over title and text, best first, ties in document order."""
    texts = [Counter(words(f"{passage.title} {passage.text}")) for passage in passages]
    lengths = [sum(text.values()) for text in texts]
    mean = sum(lengths) / len(lengths)
    query_words = words(query)
    weights = {word: _idf(sum(word in text for text in texts), len(texts)) for word in set(query_words)}
    scores = []
    for at, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        norm = k1 * (1 - b + b * length / mean)
        scores.append((-sum(weights[word] * text[word] * (k1 + 1) / (text[word] + norm) for word in query_words), at))
    return [passages[at].id for _, at in sorted(scores)]


def _idf(matches: int, total: int) -> float:
    return math.log(1 + (total - matches + 0.5) / (matches + 0.5))


def recall_at(
    examples: Sequence[ClaimExample], k: int, order: Callable[[str, Sequence[Passage]], list[str]] = bm25_order
) -> float:
    """Share of examples whose gold passages are all among the first `k` of a search with question and answer."""
    hits = sum(
        set(example.gold_ids) <= set(order(f"{example.question} {example.answer}", example.passages)[:k])
        for example in examples
    )
    return hits / max(len(examples), 1)


def overlap_features(example: ClaimExample) -> list[float]:
    """Shares of the answer's words and word pairs that occur in its best sentence, best passage, and whole document."""
    answer = words(example.answer)
    pairs = set(pairwise(answer))
    types = set(answer)
    texts = [words(passage.text) for passage in example.passages]
    whole = {word for text in texts for word in text}
    best = max(len(types & set(text)) for text in texts)
    sentences = [set(words(s)) for passage in example.passages for s in split_sentences(passage.text)]
    in_pairs = {pair for text in texts for pair in pairwise(text)}
    closest = max((len(types & s) / len(types | s) for s in sentences), default=0.0)
    return [
        len(types & whole) / len(types),
        best / len(types),
        max(len(types & s) for s in sentences) / len(types),
        closest,
        len(pairs & in_pairs) / max(len(pairs), 1),
    ]


def overlap_accuracy(examples: Sequence[ClaimExample], folds: int = 5, depth: int = 4) -> float:
    """Cross-validated accuracy on the verdict of the best small decision tree over `overlap_features`."""
    features = [overlap_features(example) for example in examples]
    labels = [VERDICTS.index(example.verdict) for example in examples]
    right = 0
    for fold in range(folds):
        train = [at for at in range(len(labels)) if at % folds != fold]
        tree = _grow(features, labels, train, depth)
        right += sum(_leaf(tree, features[at]) == labels[at] for at in range(fold, len(labels), folds))
    return right / max(len(labels), 1)


def answer_accuracy(examples: Sequence[ClaimExample], folds: int = 5) -> float:
    """Cross-validated accuracy on the verdict of naive Bayes over the answer's words and word pairs alone."""
    bags = [_bag(example.answer) for example in examples]
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
    return right / max(len(examples), 1)


def _bag(text: str) -> list[object]:
    """Distinct words and word pairs in order of first use."""
    tokens = words(text)
    return list(dict.fromkeys([*tokens, *pairwise(tokens)]))


Tree = int | tuple[int, float, "Tree", "Tree"]


def _grow(features: Sequence[Sequence[float]], labels: Sequence[int], rows: list[int], depth: int) -> Tree:
    counts = Counter(labels[at] for at in rows)
    majority = max(sorted(counts), key=counts.__getitem__) if counts else 0
    if depth == 0 or len(rows) < 40:
        return majority
    best = min(
        (split for column in range(len(features[0])) if (split := _best_split(features, labels, rows, column))),
        default=None,
    )
    if best is None:
        return majority
    _, column, cut = best
    lower = [at for at in rows if features[at][column] <= cut]
    upper = [at for at in rows if features[at][column] > cut]
    return column, cut, _grow(features, labels, lower, depth - 1), _grow(features, labels, upper, depth - 1)


def _best_split(
    features: Sequence[Sequence[float]], labels: Sequence[int], rows: list[int], column: int
) -> tuple[float, int, float] | None:
    """(Gini impurity, column, threshold) of the best of a few quantile thresholds."""
    values = sorted(features[at][column] for at in rows)
    cuts = sorted({values[len(values) * part // 16] for part in range(1, 16)} - {values[-1]})
    return min(((_impurity(features, labels, rows, column, cut), column, cut) for cut in cuts), default=None)


def _impurity(
    features: Sequence[Sequence[float]], labels: Sequence[int], rows: list[int], column: int, cut: float
) -> float:
    sides: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for at in rows:
        sides[features[at][column] > cut][labels[at]] += 1
    return sum(n - sum(count * count for count in side.values()) / n for side in sides if (n := sum(side.values())))


def _leaf(tree: Tree, row: Sequence[float]) -> int:
    while not isinstance(tree, int):
        column, cut, lower, upper = tree
        tree = lower if row[column] <= cut else upper
    return tree


def sentence_shapes(claims: SyntheticClaims, count: int) -> dict[str, Counter[str]]:
    """Count the sentence shapes of the first `count` items, by domain: gold sentences with every lexicon word masked.

    A handful of templates would show here: with parties, actions, events, amounts and conditions as single letters, only
    the syntax remains. Fillers and ready-made statements are not counted.
    """
    shapes: dict[str, Counter[str]] = {}
    for index in range(min(count, len(claims))):
        example = build(claims.split, claims.seed, index, claims.verdict(index), masked=True).example
        texts = {passage.id: passage.text for passage in example.passages}
        counter = shapes.setdefault(example.domain, Counter())
        for fact in {fact for claim in example.claims for fact in claim.facts}:
            counter[texts[fact.passage][fact.start : fact.end]] += 1
    return shapes
