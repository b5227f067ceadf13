"""Shortcut classifiers: the label from a text's surface alone, as a policy could learn it in training without reading.

Fitted on training tasks. Where one of them beats chance on fresh tasks, the task leaks its label; an exploit search plays
them as label rules. Needs scikit-learn (the extra "audit"), but for `memorised` and `prior`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.strategies import Example

KINDS = ("words", "names", "lengths", "overlap", "memorised", "prior")

_MAX_CHARS = 4000
_MAX_LABELS = 20
_MAX_CACHED = 50_000
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b[A-Z][\w'’-]*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")

T = TypeVar("T")
Classify = Callable[[Example], str]


class ShortcutClassifiers:
    """Classifiers of the kinds of `KINDS`, each fitted when it is first asked.

    words: bag of words and pairs of words (logistic regression). names: character n-grams of capitalised words. lengths:
    counts of characters, words, sentences, numbers and marks (decision tree). overlap: shares of the text's words, pairs,
    numbers and names that the evidence has. memorised: the label seen most often with the key, else the prior. prior:
    the commonest label. Labels beyond the 20 commonest, and those seen once, are not learned. Deterministic.
    """

    def __init__(self, examples: Iterable[Example | None]) -> None:
        self._examples = examples
        self._classifiers: dict[str, Classify] = {}
        self._cache: dict[tuple[str, ...], str] = {}
        self._fitted: dict[Callable[..., Any], Any] = {}

    def predict(self, kind: str, text: str, key: str = "", evidence: str = "") -> str:
        """Return the label of a text. Raises ConfigError for an unknown kind or without a labelled training task.

        Raises MissingExtraError where the kind needs scikit-learn and it is not installed.
        """
        query = (kind, text, key, evidence)
        if query not in self._cache:
            if kind not in self._classifiers:
                self._classifiers[kind] = self._fit(kind)
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            example = Example(text[:_MAX_CHARS], "", key or text, evidence[:_MAX_CHARS])
            self._cache[query] = self._classifiers[kind](example)
        return self._cache[query]

    def fitted(self, fit: Callable[[Sequence[Example]], T]) -> T:
        """Return what a function makes of the training tasks; made once. Raises ConfigError without a labelled task."""
        if fit not in self._fitted:
            self._fitted[fit] = fit(self._training)
        value: T = self._fitted[fit]
        return value

    @cached_property
    def _training(self) -> list[Example]:
        training = [example for example in self._examples if example is not None]
        if not training:
            raise ConfigError("shortcut classifiers need training tasks with labels, and these tasks have none")
        return training

    def _fit(self, kind: str) -> Classify:
        """Fit a classifier of that kind; the most frequent label where the training examples have fewer than two labels to tell apart."""
        if kind not in KINDS:
            raise ConfigError(f"there is no shortcut classifier {kind!r:.60}.{did_you_mean(kind, KINDS)}")
        labels = Counter(example.label for example in self._training).most_common(_MAX_LABELS)
        prior = labels[0][0]
        if kind == "prior":
            return lambda example: prior
        if kind == "memorised":
            by_key: dict[str, Counter[str]] = {}
            for example in self._training:
                by_key.setdefault(example.key or example.text, Counter())[example.label] += 1
            memory = {key: counts.most_common(1)[0][0] for key, counts in by_key.items()}
            return lambda example: memory.get(example.key, prior)
        frequent = {label for label, count in labels if count > 1}
        training = [example for example in self._training if example.label in frequent]
        if len(frequent) < 2:
            return lambda example: prior
        pipeline = _fitted(kind, training)
        if pipeline is None:
            return lambda example: prior
        return lambda example: str(pipeline.predict([_INPUTS[kind](example)])[0])


def _fitted(kind: str, training: Sequence[Example]) -> Any:
    """Return a fitted scikit-learn pipeline; None where no text has a feature."""
    try:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.tree import DecisionTreeClassifier
    except ImportError as error:
        raise MissingExtraError(f"the shortcut classifier {kind!r}", "audit") from error
    if kind in ("lengths", "overlap"):
        pipeline = make_pipeline(DecisionTreeClassifier(max_depth=5, min_samples_leaf=8, random_state=0))
    else:
        vectorizer = (
            CountVectorizer(binary=True, ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]", min_df=2)
            if kind == "words"
            else CountVectorizer(binary=True, analyzer="char_wb", ngram_range=(2, 4), min_df=2)
        )
        pipeline = make_pipeline(vectorizer, LogisticRegression(max_iter=300))
    inputs = [_INPUTS[kind](example) for example in training]
    if kind in ("words", "names") and not any(inputs):
        return None
    try:
        return pipeline.fit(inputs, [example.label for example in training])
    except ValueError:  # no term occurs in two texts
        return None


def _names(example: Example) -> str:
    return " ".join(_NAME.findall(example.text[:_MAX_CHARS]))


def _lengths(example: Example) -> list[float]:
    text = example.text[:_MAX_CHARS]
    words = _WORD.findall(text)
    counts = (len(text), len(words), len(_SENTENCE_END.findall(text)), len(_NUMBER.findall(text)))
    marks = (text.count(mark) for mark in (",", "'", '"', "-", ":", "?"))
    return [*counts, len(_NAME.findall(text)), len(text) / (len(words) or 1), *marks]


def _overlap(example: Example) -> list[float]:
    text, evidence = example.text[:_MAX_CHARS], example.evidence[:_MAX_CHARS]
    words, others = _WORD.findall(text.lower()), _WORD.findall(evidence.lower())
    return [
        _share(words, set(others)),
        _share(list(pairwise(words)), set(pairwise(others))),
        _share(_NUMBER.findall(text), set(_NUMBER.findall(evidence))),
        _share(_NAME.findall(text), set(_NAME.findall(evidence))),
        _share(others, set(words)),
        float(len(words) - len(others)),
        float(text.strip() in evidence),
    ]


def _share(items: Sequence[Any], others: set[Any]) -> float:
    return sum(item in others for item in items) / len(items) if items else -1.0


_INPUTS: dict[str, Callable[[Example], Any]] = {
    "words": lambda example: example.text[:_MAX_CHARS],
    "names": _names,
    "lengths": _lengths,
    "overlap": _overlap,
}
