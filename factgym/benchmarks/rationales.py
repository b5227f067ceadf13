"""Scores of evidence sentences: F1 over sufficient sets, and SciFact's official measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

MAX_ABSTRACT_SENTENCES = 3
"""Of a predicted abstract as many sentences count, unless its shortest rationale is longer."""


def set_f1(selected: Collection[T], sets: Iterable[Collection[T]]) -> float:
    """Return the highest F1 of the selected sentences over sets, each of which suffices, as WiCE's authors score them."""
    chosen = set(selected)
    return max(2 * len(chosen & set(gold)) / (len(chosen) + len(set(gold)) or 1) for gold in sets)


@dataclass(frozen=True, slots=True)
class AbstractEvidence:
    """Evidence in one abstract: label, and its rationales; of a prediction one, in the order of submission."""

    label: str
    rationales: tuple[Sequence[int], ...]


Evidence = Mapping[str, AbstractEvidence]
"""Abstract -> evidence; empty where there is none."""

MEASURES = ("abstract_label_only", "abstract_rationalized", "sentence_selection", "sentence_label")


def scifact_f1(golds: Sequence[Evidence], predictions: Sequence[Evidence]) -> dict[str, float]:
    """Return F1 under SciFact's four measures, after its evaluator (Wadden et al. 2020, section 4).

    An abstract is right with its label, and rationalized if a whole rationale is among its first sentences; a sentence
    is right if its whole rationale was predicted. Raises ValueError for sequences of different lengths.
    """
    counts: Counter[str] = Counter()
    for gold, predicted in zip(golds, predictions, strict=True):
        counts["abstracts"] += len(gold)
        counts["sentences"] += sum(len(rationale) for evidence in gold.values() for rationale in evidence.rationales)
        for abstract, prediction in predicted.items():
            sentences = [n for rationale in prediction.rationales for n in rationale]
            counts["predicted abstracts"] += 1
            counts["predicted sentences"] += len(sentences)
            if abstract in gold:
                counts.update(_right(gold[abstract], prediction.label, sentences))
    relevant = (counts["abstracts"], counts["sentences"])
    retrieved = (counts["predicted abstracts"], counts["predicted sentences"])
    return {
        name: 2 * counts[name] / (relevant[index // 2] + retrieved[index // 2] or 1)
        for index, name in enumerate(MEASURES)
    }


def _right(gold: AbstractEvidence, label: str, sentences: Sequence[int]) -> dict[str, int]:
    """Count what is right of an abstract by SciFact's four measures (Wadden et al. 2020).

    An abstract is rationalized when a whole rationale is among its first three selected sentences, or as many as the
    shortest rationale has; a sentence counts when all of its rationale was selected.
    """
    rationales: list[Set[int]] = [frozenset(rationale) for rationale in gold.rationales]
    limit = max(MAX_ABSTRACT_SENTENCES, min(map(len, rationales)))
    is_right = label == gold.label
    is_shown = any(rationale <= set(sentences[:limit]) for rationale in rationales)
    complete = [rationale for rationale in rationales if rationale <= set(sentences)]
    selected = sum(any(n in rationale for rationale in complete) for n in set(sentences))
    return {
        "abstract_label_only": int(is_right),
        "abstract_rationalized": int(is_right and is_shown),
        "sentence_selection": selected,
        "sentence_label": selected if is_right else 0,
    }
