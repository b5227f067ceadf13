"""Which claims the examples over documents have: chosen so that the words of an answer do not tell its verdict.

Contradictions and overclaims bring in words such as "not" and "must", and only some sentences allow them. An example has
two claims, so what the first brings in, the second can make up for: an overclaim comes beside a denial as often as a
contradiction occurs in an answer without one.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from factgym.datasets.claims import VERDICTS, Status, Verdict
from factgym.generators.document_index import DocumentIndex
from factgym.generators.perturbations.additions import JOINED
from factgym.generators.perturbations.adjuncts import PARAPHRASES
from factgym.generators.perturbations.corruptions import DONOR_OPERATORS, OPERATORS, Corruption, corrupt, status_of
from factgym.generators.perturbations.grammar import Cues
from factgym.generators.perturbations.rewording import name_source, reword
from factgym.text.sentences import strip_full_stop
from factgym.text.words import terms

_CUES = Cues("document_claims")

SECOND_STATUSES: Mapping[str, tuple[Status, ...]] = {
    "contradicted": ("contradicted", "overclaim", "unsupported"),
    "overclaim": ("overclaim", "overclaim", "unsupported"),
    "unsupported": ("unsupported",),
    "supported": ("supported",),
    "partially_supported": ("supported",),
}
"""Statuses of the second claim by verdict: the most severe status decides, so milder ones may occur beside it."""
_MAX_DONOR_COVERAGE = 0.4
"""Share of a foreign statement's terms that no passage of the document may exceed."""
_MAX_PER_SENTENCE = 2
_FOREIGN_SHARE = 0.3
_SAMPLE = 160
_DONORS = 6
_FIRSTS, _SECONDS = 12, 12
_TOKEN = re.compile(r"\w+|[^\w\s]")
_TOKENS = 200
_MIN_COUNT = 4
_REUSED = 40.0
_NAMES_SOURCE = 0.4
_PARAPHRASES = (0, 1, 1, 2, 2)

_Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A claim to make: the operator ("none" for a faithful one) and the numbers of its sentence and of a foreign one."""

    operator: str
    number: int
    donor: int | None = None


Plan = tuple[PlannedClaim, PlannedClaim | None]
"""The claims of an example, the one that decides its verdict first."""


@lru_cache(maxsize=1 << 16)
def _tokens(text: str) -> frozenset[str]:
    words = _TOKEN.findall(text.lower())
    return frozenset(words).union(map(" ".join, pairwise(words)))


class _Words:
    """Answers as vectors of the words and pairs of words that tell their groups apart, each with variance 1."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        # Feature selection by the variance between the groups over that within (a chi-squared statistic for each token).
        counts = [Counter(token for text in texts for token in _tokens(text)) for texts in groups]
        ranked = []
        for token, count in sum(counts, Counter()).items():
            if count >= _MIN_COUNT:
                shares = [group[token] / len(texts) for group, texts in zip(counts, groups, strict=True)]
                mean = sum(shares) / len(shares)
                variance = mean * (1.0 - mean)
                if variance > 0:
                    between = sum(len(texts) * (share - mean) ** 2 for share, texts in zip(shares, groups, strict=True))
                    ranked.append((-between / variance, token, variance))
        chosen = sorted(ranked)[:_TOKENS]
        self._columns = {token: column for column, (_, token, _) in enumerate(chosen)}
        self._scales = np.array([variance**-0.5 for _, _, variance in chosen], np.float32)
        self._cache: dict[str, _Vectors] = {}

    def vector(self, text: str) -> _Vectors:
        if text not in self._cache:
            row = np.zeros(len(self._scales), np.float32)
            for token in _tokens(text):
                column = self._columns.get(token)
                if column is not None:
                    row[column] = self._scales[column]
            self._cache[text] = row
        return self._cache[text]


@dataclass(frozen=True, slots=True)
class Draft:
    """A worded claim before its evidence has an id. sources: numbers of its sentences, none for a foreign statement."""

    claim: Corruption
    sources: tuple[int, ...]


class Drafter:
    """Words claims: the change, paraphrases and rewording outside the changed part, the source's name.

    A claim is a function of index, seed and round. name_foreign: name the source of every foreign statement.
    """

    def __init__(self, index: DocumentIndex, seed: str, *, name_foreign: bool = False) -> None:
        self.index, self.seed = index, f"{index.fingerprint}:{seed}"
        self._name_foreign = name_foreign
        self._drafts: dict[PlannedClaim, Draft] = {}

    def draft(self, claim: PlannedClaim, round_: int = 0) -> Draft:
        """Return the worded claim; that of round 0 is made once."""
        if round_:
            return self._make(claim, round_)
        if claim not in self._drafts:
            self._drafts[claim] = self._make(claim, 0)
        return self._drafts[claim]

    def _make(self, claim: PlannedClaim, round_: int) -> Draft:
        """Write a planned claim: the change, then a paraphrase and other words around it, then, at times, its source's name.

        A changed span that is less than the claim is protected from both rewrites, so that it remains word for
        word. Raises LookupError where the operator does not apply.
        """
        rng = random.Random(f"{self.seed}:{round_}:{claim}")
        source = self.index.sources[claim.number]
        if claim.operator == "none":
            text = _paraphrased(source.text, "", rng)
            corruption: Corruption | None = Corruption(text, "supported", "", "none", "The cited sentence says this.")
        elif claim.donor is not None:
            donor = self.index.sources[claim.donor].text
            corruption = corrupt(claim.operator, self.index.statement(claim.number, rng, (donor,)))
        else:
            corruption = self.index.corrupt(claim.operator, claim.number, round_)
            corruption = corruption or self.index.corrupt(claim.operator, claim.number)
        if corruption is None:
            raise LookupError(f"{claim.operator!r} does not apply to sentence {claim.number}")
        span = corruption.unsupported_span
        spans_all = span == strip_full_stop(corruption.text)
        text, protected = corruption.text, "" if spans_all else span
        if corruption.status != "supported":
            text = _paraphrased(text, protected, rng)
        text = reword(text, protected, rng)
        span = strip_full_stop(text) if spans_all else span
        foreign = claim.donor is not None
        if (foreign and self._name_foreign) or rng.random() < _NAMES_SOURCE:
            text = name_source(text, self.index.documents[source.document].title, rng)
        span = span if span in text else span[:1].lower() + span[1:]
        return Draft(replace(corruption, text=text, unsupported_span=span), self.sources_of(claim))

    def sources_of(self, claim: PlannedClaim) -> tuple[int, ...]:
        """Return the numbers of the sentences that show a claim's status."""
        if claim.donor is not None:
            return ()
        partner = self.index.partner(claim.number) if claim.operator == JOINED.name else None
        return (claim.number,) if partner is None else (claim.number, partner)


def _paraphrased(text: str, span: str, rng: random.Random) -> str:
    """Paraphrase a sentence up to twice, outside its span."""
    paraphrases = list(PARAPHRASES)
    rng.shuffle(paraphrases)
    count = rng.choice(_PARAPHRASES)
    for paraphrase in paraphrases:
        new = paraphrase(text, rng) if count else None
        if new is not None and span in new:
            text, count = new, count - 1
    return text


class Planner:
    """Chooses the claims of the examples of a sequence; a function of its arguments alone.

    window: the limit on passages between the two claims of an example.
    """

    def __init__(self, drafter: Drafter, window: int) -> None:
        index = drafter.index
        self._drafter, self._index, self._window, self._seed = drafter, index, window, drafter.seed
        self._plans: dict[Verdict, list[Plan]] = {}
        self._steps: dict[Verdict, Iterator[Plan]] = {}
        self._lock = threading.RLock()
        self._donors: dict[int, list[tuple[int, int]]] = {}
        self.verdicts = tuple(
            verdict
            for verdict in VERDICTS
            if verdict == "supported" or any(map(index.applies, self._operators(verdict)))
        )

    def _operators(self, verdict: Verdict) -> list[str]:
        """Operators that can make this verdict; an addition needs a true claim beside it."""
        if verdict == "supported":
            return ["none"]
        if verdict == "partially_supported":
            return [name for name in OPERATORS if name != "irrelevant"]
        return [name for name in OPERATORS if status_of(name) == verdict and name != "addition"]

    @cached_property
    def count(self) -> int:
        """Examples of each verdict for which no verdict uses a sentence more often than `_MAX_PER_SENTENCE`."""
        return min(len(candidates) for candidates in self.candidates.values())

    @cached_property
    def candidates(self) -> dict[Verdict, list[tuple[str, int]]]:
        """Operators and sentences that can make each verdict; a sentence occurs at most twice, by two operators."""
        candidates: dict[Verdict, list[tuple[str, int]]] = {}
        for verdict in self.verdicts:
            used: Counter[int] = Counter()
            candidates[verdict] = []
            # The rarer operators choose first.
            for name in sorted(self._operators(verdict), key=lambda name: (len(self._index.pool(name)), name)):
                numbers = [number for number in self._index.pool(name) if used[number] < _MAX_PER_SENTENCE]
                used.update(numbers)
                candidates[verdict] += [(name, number) for number in numbers]
        return candidates

    def item(self, verdict: Verdict, number: int) -> tuple[Plan, int]:
        """Return the claims of example `number` of a verdict, and how often its plan was used before.

        The first `count` have the words of the answers of all verdicts; the rest of the sentences comes after. A plan is
        made step by step, up to the example that is requested.
        """
        with self._lock:
            plans = self._plans.setdefault(verdict, [])
            if verdict not in self._steps:
                self._steps[verdict] = self._make_plans(verdict)
            plans.extend(islice(self._steps[verdict], max(0, number + 1 - len(plans))))
            round_, step = divmod(number, len(plans))
            return plans[step], round_

    def _make_plans(self, verdict: Verdict) -> Iterator[Plan]:
        """Yield pairs of statements; their answers match the target statistics, so that none tells a label."""
        # Herding (Welling, 2009): each step takes the pair that brings the sum of the chosen answers' vectors nearest to
        # its target. Operators are coordinates too; their target is water-filled, equal shares as far as each reaches.
        rng = random.Random(f"{self._seed}:{verdict}")
        remaining = list(self.candidates[verdict])
        rng.shuffle(remaining)
        shares = _water_fill(Counter(name for name, _ in remaining), self.count)
        drift, uses = np.zeros_like(self._target), Counter[str]()
        used: Counter[tuple[str, int]] = Counter()
        steps_made = 0
        while remaining and steps_made < self.count:
            options = []
            for position in range(min(_FIRSTS, len(remaining))):
                name, number = remaining[position]
                excess = uses[name] - shares[name] * steps_made
                for first, second in self._pairs(verdict, name, number, rng):
                    reuse = sum(used[_sentence(claim)] for claim in (first, second) if claim)
                    options.append((position, first, second, 8.0 * excess + _REUSED * reuse))
            if not options:
                remaining = remaining[_FIRSTS:]
                continue
            steps = np.array([self._vector(first, second) for _, first, second, _ in options]) - self._target
            costs = 2.0 * (steps @ drift) + (steps**2).sum(axis=1) + np.array([cost for *_, cost in options])
            best = int(np.argmin(costs))
            position, first, second, _ = options[best]
            drift += steps[best]
            uses[first.operator] += 1
            used.update(_sentence(claim) for claim in (first, second) if claim)
            steps_made += 1
            yield first, second
            del remaining[position]
            # The other candidates that were seen go to the end, so that every step sees new ones.
            seen = min(_FIRSTS - 1, len(remaining))
            remaining = remaining[seen:] + remaining[:seen]
        for name, number in remaining:
            yield from self._pairs(verdict, name, number, rng, 1)

    def _pairs(
        self, verdict: Verdict, name: str, number: int, rng: random.Random, limit: int = _SECONDS
    ) -> Iterator[tuple[PlannedClaim, PlannedClaim | None]]:
        """Yield first claims with a second of the status that the verdict needs, each second once; None where it needs none."""
        status = rng.choice(SECOND_STATUSES[verdict])
        needs_donors = name in DONOR_OPERATORS or status == "unsupported"
        donors = self._near_donors(number, rng) if needs_donors else []
        if name in DONOR_OPERATORS and not donors:
            return
        firsts = [
            PlannedClaim(name, number, rng.choice(donors) if name in DONOR_OPERATORS else None) for _ in range(limit)
        ]
        seconds = self._seconds(verdict, status, number, donors, rng)
        rng.shuffle(seconds)
        for position, first in enumerate(firsts):
            fitting = [second for second in seconds if self._fit(first, second)]
            if position < max(1, len(fitting)):
                yield first, fitting[position] if fitting else None

    def _fit(self, first: PlannedClaim, second: PlannedClaim) -> bool:
        """Whether two claims can be of one answer: other sentences, no further apart than the window."""
        if first.donor is not None and first.donor == second.donor:
            return False
        if JOINED.name not in (first.operator, second.operator):
            return True
        sources = [number for claim in (first, second) for number in self._drafter.sources_of(claim)]
        # A foreign statement takes the place of a sentence too.
        passages = [self._index.sources[number].passage for number in (first.number, second.number, *sources)]
        return len({*sources}) == len(sources) and max(passages) - min(passages) < self._window

    def _seconds(
        self, verdict: Verdict, status: Status, number: int, donors: Sequence[int], rng: random.Random
    ) -> list[PlannedClaim]:
        """Return the candidates for a second claim of that status beside sentence `number`; empty where none applies.

        Donors are sentences of other documents. Where no change applies nearby, a statement from a donor takes its part.
        """
        near = self._near(number)
        if status == "supported":
            faithful = [PlannedClaim("none", other) for other in near]
            return faithful or ([PlannedClaim("none", number)] if verdict == "partially_supported" else [])
        foreign = [PlannedClaim("addition", number, donor) for donor in donors]
        sites = [PlannedClaim(name, other) for other in near for name in self._failures[status].get(other, ())]
        unsupported = [
            PlannedClaim(name, other) for other in near for name in self._failures["unsupported"].get(other, ())
        ]
        if status == "unsupported" and rng.random() < _FOREIGN_SHARE:
            return foreign or sites
        if sites or unsupported:
            return sites or unsupported
        return foreign or [PlannedClaim("addition", number, donor) for donor in self._near_donors(number, rng)]

    @cached_property
    def _failures(self) -> dict[str, dict[int, list[str]]]:
        failures: dict[str, dict[int, list[str]]] = {"contradicted": {}, "overclaim": {}, "unsupported": {}}
        for name in OPERATORS:
            if name not in DONOR_OPERATORS:
                for number in self._index.pool(name):
                    failures[status_of(name)].setdefault(number, []).append(name)
        return failures

    def _near(self, number: int) -> list[int]:
        sources = self._index.sources
        source = sources[number]
        return [
            other
            for other in self._index.by_document[source.document]
            if other != number and abs(sources[other].passage - source.passage) < self._window
        ]

    def _near_donors(self, number: int, rng: random.Random) -> list[int]:
        """Return statements of other documents on which this document is silent, the nearest in topic of a sample."""
        source = self._index.sources[number]
        donors = self._donors_of(source.document)
        topic = frozenset(terms(f"{self._index.passage_of(source).title} {source.text}"))
        sample = rng.sample(donors, min(_SAMPLE, len(donors)))
        ranked = sorted((penalty - len(self._terms[donor] & topic), donor) for penalty, donor in sample)
        return [donor for _, donor in ranked[:_DONORS]]

    @cached_property
    def _terms(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(terms(source.text)) for source in self._index.sources)

    def _donors_of(self, document: int) -> list[tuple[int, int]]:
        """Return the statements of other documents on which this one is silent, each with a penalty for its names.

        Names that the document lacks give a statement away.
        """
        if document not in self._donors:
            index = self._index
            words = index.profile(document).words
            passages = [index.terms_of(document, n) for n in range(len(index.documents[document].passages))]
            every = frozenset[str]().union(*passages)
            donors = []
            for number, source in enumerate(index.sources):
                required = self._terms[number]
                # The bound on the whole document is a cheap test before those on its passages: coverage grows with the
                # terms.
                covered = _exceeds(required, every) and any(_exceeds(required, passage) for passage in passages)
                if source.document != document and not covered and number not in self._commonplace:
                    donors.append((2 * min(len(self._names[number] - words), 3), number))
            self._donors[document] = donors
        return self._donors[document]

    @cached_property
    def _commonplace(self) -> frozenset[int]:
        sources = enumerate(self._index.sources)
        return frozenset(number for number, source in sources if _CUES.commonplace.search(source.text))

    @cached_property
    def _names(self) -> tuple[frozenset[str], ...]:
        return tuple(
            frozenset(word for word in source.text.split()[1:] if word[0].isupper()) for source in self._index.sources
        )

    def _text(self, claim: PlannedClaim) -> str:
        return self._drafter.draft(claim).claim.text

    def _vector(self, first: PlannedClaim, second: PlannedClaim | None) -> Any:
        vector = self._words.vector(self._text(first))
        return vector if second is None else np.maximum(vector, self._words.vector(self._text(second)))

    @cached_property
    def _samples(self) -> dict[Verdict, list[Plan]]:
        """Random plans of each verdict, for the words that tell them apart and the target."""
        samples: dict[Verdict, list[Plan]] = {}
        for verdict in self.verdicts:
            rng = random.Random(f"{self._seed}:sample:{verdict}")
            candidates = self.candidates[verdict]
            chosen = rng.sample(candidates, min(2 * _SAMPLE, len(candidates)))
            samples[verdict] = [pair for name, number in chosen for pair in self._pairs(verdict, name, number, rng, 1)]
        return {verdict: sample for verdict, sample in samples.items() if sample}

    @cached_property
    def _words(self) -> _Words:
        return _Words(
            [
                [" ".join(self._text(claim) for claim in plan if claim) for plan in sample]
                for sample in self._samples.values()
            ]
        )

    @cached_property
    def _target(self) -> _Vectors:
        """The mean over the verdicts of the answers that random choices give."""
        means = [np.mean([self._vector(*plan) for plan in sample], axis=0) for sample in self._samples.values()]
        return np.asarray(np.mean(means, axis=0), np.float32)


def _sentence(claim: PlannedClaim) -> tuple[str, int]:
    return ("own", claim.number) if claim.donor is None else ("foreign", claim.donor)


def _exceeds(required: frozenset[str], available: frozenset[str]) -> bool:
    return len(required & available) > _MAX_DONOR_COVERAGE * len(required)


def _water_fill(sizes: Mapping[str, int], count: int) -> dict[str, float]:
    """Return the share of each group where the groups have equal shares as far as their sizes reach."""
    level = 0
    while sum(min(size, level) for size in sizes.values()) < min(count, sum(sizes.values())):
        level += 1
    filled = {name: min(size, level) for name, size in sizes.items()}
    return {name: size / (sum(filled.values()) or 1) for name, size in filled.items()}
