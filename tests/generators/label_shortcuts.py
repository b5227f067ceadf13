"""Simple classifiers that try to tell a label without its evidence: naive Bayes over sets of features of a text.

A generated data set on which one of them beats chance teaches a policy that shortcut.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from factgym.generators.base import word_table

_NAME = re.compile(r"\b[A-Z][a-z]{2,}")
_TABLE = word_table("invented_names")
_STEMS = {onset + coda: onset for onset in _TABLE["stem_onsets"].split() for coda in _TABLE["stem_codas"].split()}
"""Invented place-like name -> its first syllable."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A task as a shortcut sees it: the text that is judged, the text around it, its place in the data, its label."""

    text: str
    source: str
    index: int
    label: str


def _words(item: LabelledText) -> Iterable[str]:
    words = _WORD.findall(item.text.lower())
    return (*words, *map(" ".join, pairwise(words)))


def _names(item: LabelledText) -> Iterable[str]:
    # The invented names, by their first and last syllables; where there is none, every word with a capital.
    names = set(_NAME.findall(f"{item.text}\n{item.source}"))
    for name in (names & _STEMS.keys()) or names:
        onset = _STEMS.get(name, name[:3])
        yield from (f"{onset}-", f"-{name.removeprefix(onset)}")


def _lengths(item: LabelledText) -> Iterable[str]:
    words, sentences = _WORD.findall(item.text), re.split(r"[.!?;]\s", item.text)
    sizes = (len(item.text) // 12, len(words) // 2, len(sentences), item.text.count(","), len(item.source) // 200)
    return (f"{number}:{size}" for number, size in enumerate(sizes))


def _positions(item: LabelledText) -> Iterable[str]:
    # The place of the task in its data, and of the nearest sentence in the source.
    sentences, words = re.split(r"(?<=[.!?;])\s+|\n+", item.source), set(_WORD.findall(item.text.lower()))
    shared = [len(words & set(_WORD.findall(sentence.lower()))) for sentence in sentences]
    nearest = max(range(len(shared)), key=shared.__getitem__)
    return (f"nearest {nearest}", *(f"{item.index % period} of {period}" for period in (2, 3, 4, 5, 8, 12, 13, 52)))


def overlaps(item: LabelledText) -> Iterable[str]:
    """Yield how far the source has the words and numbers of each sentence of the text; evidence, but no judgement."""
    source = [set(_WORD.findall(sentence.lower())) for sentence in re.split(r"(?<=[.!?;])\s+|\n+", item.source)]
    everything = set[str]().union(*source)
    shares = []
    for sentence in re.split(r"(?<=[.!?;])\s+", item.text):
        words = set(_WORD.findall(sentence.lower()))
        shares.append(max(len(words & other) for other in source) / max(1, len(words)))
        yield f"sentence {round(10 * shares[-1])}"
        yield f"numbers {all(word in everything for word in words if word.isdigit())}"
    yield from (f"least {round(10 * min(shares))}", f"most {round(10 * max(shares))}")
    words = set(_WORD.findall(item.text.lower()))
    yield f"all {round(10 * len(words & everything) / max(1, len(words)))}"


FEATURES: Mapping[str, Callable[[LabelledText], Iterable[str]]] = {
    "words": _words,
    "names": _names,
    "lengths": _lengths,
    "positions": _positions,
}


def shortcut_accuracy(kind: str, items: Sequence[LabelledText]) -> float:
    """Return the accuracy of naive Bayes over features: each half by the classifier of the other half.

    kind: of `FEATURES`, "overlap", or several that are joined by "+".
    """
    middle = len(items) // 2
    halves = items[:middle], items[middle:]
    return sum(count_right(kind, *pair) for pair in (halves, halves[::-1])) / len(items)


def count_right(kind: str, train: Sequence[LabelledText], test: Sequence[LabelledText]) -> int:
    """Return how many labels of `test` naive Bayes over features tells when it is fitted on `train`."""
    counts: dict[str, Counter[str]] = {item.label: Counter() for item in train}
    sizes = Counter(item.label for item in train)
    for item in train:
        counts[item.label].update(set(_features(kind, item)))
    vocabulary = set[str]().union(*counts.values())
    right = 0
    for item in test:
        features = vocabulary.intersection(_features(kind, item))
        scores = {
            label: math.log(size) + sum(math.log((counts[label][feature] + 0.5) / (size + 1)) for feature in features)
            for label, size in sizes.items()
        }
        right += max(scores, key=scores.__getitem__) == item.label
    return right


def _features(kind: str, item: LabelledText) -> Iterable[str]:
    for name in kind.split("+"):
        yield from (overlaps if name == "overlap" else FEATURES[name])(item)


def chance_bound(items: Sequence[LabelledText], slack: float = 0.02) -> float:
    """Return the share of the most frequent label, three standard errors and `slack`."""
    share = Counter(item.label for item in items).most_common(1)[0][1] / len(items)
    return share + 3 * math.sqrt(share * (1 - share) / len(items)) + slack
