"""Fact checks of the miniature world, for small models: a claim of one dated statement, and six reports of a sentence each.

The claim is drawn first and without regard to its label; the reports are written to fit the label. Always three of them
are on the claim's subject and three on other subjects, so that only their sentences tell the label:

- Supported: every report on the subject's value in the claim's year has the claimed value.
- Refuted: every such report has one other value.
- Conflicting Evidence/Cherrypicking: one report has the claimed value, a second one another.
- Not Enough Evidence: no report is on that value in that year; the others are on other years or other values.

Of the other subjects' reports one has the claimed value. Names are those of `factgym.generators.miniature`: each belongs to
one split. Subjects and values are invented; no licence attaches.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from factgym.core.errors import DataError
from factgym.corpora.index import index_fingerprint
from factgym.corpora.web_pages import evidence_id
from factgym.datasets.averitec import (
    CONFLICTING,
    LABELS,
    NO_ANSWER,
    NOT_ENOUGH,
    REFUTED,
    SUPPORTED,
    FactCheck,
    GoldAnswer,
    GoldQuestion,
)
from factgym.datasets.evidence import ClaimKey, Evidence, EvidenceCorpus, KnowledgeStore
from factgym.generators.base import GeneratedSplit, balanced_choice, word_table
from factgym.generators.fact_checks import BECAUSE, CheckWithEvidence
from factgym.generators.miniature import ATTRIBUTES, Writer
from factgym.text.sentences import capitalise

_VERSION = 1
_YEARS = range(2011, 2022)
_NAMES_OF = {"dev": "validation", "train": "train", "test": "test"}
"""Split -> the split of the miniature world that it has its names from."""


@lru_cache(maxsize=4096)
def generate_check(split: str, seed: int, index: int) -> CheckWithEvidence:
    """Generate the check at an index with its six reports."""
    rng = random.Random(f"factgym miniature check {seed} {split} {index}")
    writer = Writer(_NAMES_OF[split], rng)
    subject, year = writer.name(), rng.choice(_YEARS)
    attribute, *others = rng.sample(list(ATTRIBUTES), 3)
    claimed = writer.value(attribute)
    label = balanced_choice(LABELS, index, f"factgym miniature labels {seed} {split}")
    sources = iter(rng.sample(word_table("miniature")["sources"], 6))

    def sentence(name: str, about: str, value: str, when: int, form: int) -> str:
        return str(ATTRIBUTES[name]["forms"][form]).format(s=about, v=value, c=f" in {when}")  # type: ignore[index]

    def report(text: str) -> Evidence:
        source = next(sources)
        return Evidence(evidence_id(source, text), source, text)

    wrong = writer.value(attribute, claimed)
    values = {SUPPORTED: [claimed], REFUTED: [wrong], CONFLICTING: [claimed, wrong], NOT_ENOUGH: []}[label]
    if label in (SUPPORTED, REFUTED) and rng.random() < 0.5:
        values *= 2
    forms = rng.sample(range(2), 2)
    decisive = [report(sentence(attribute, subject, value, year, forms[n])) for n, value in enumerate(values)]
    # Reports that decide nothing: the same attribute in another year, then other attributes of the subject.
    topics = [
        (attribute, rng.choice([other for other in _YEARS if other != year])),
        *((name, year) for name in others),
    ]
    silent = [
        report(
            sentence(name, subject, writer.value(name, claimed if name == attribute else ""), when, rng.randrange(2))
        )
        for name, when in topics[: 3 - len(decisive)]
    ]
    foreign = [claimed, *(writer.value(attribute, claimed) for _ in range(2))]
    evidence = [*decisive, *silent]
    evidence += [report(sentence(attribute, writer.name(), value, year, rng.randrange(2))) for value in foreign]
    rng.shuffle(evidence)
    question = str(ATTRIBUTES[attribute]["question"]).format(s=subject, c=f" in {year}")
    claim = sentence(attribute, subject, claimed, year, 1)
    answers = tuple(
        GoldAnswer(text, "Extractive") for text in [" ".join(dict.fromkeys(e.text for e in decisive))] if text
    )
    check = FactCheck(
        id=f"mini-{split}-{index:05d}",
        claim_id=index,
        claim=claim,
        label=label,
        justification=f"That {claim[:1].lower()}{claim[1:-1]} {BECAUSE[label]}.",
        questions=(GoldQuestion(capitalise(question), answers or (GoldAnswer(NO_ANSWER, "Unanswerable"),)),),
    )
    return CheckWithEvidence(check, tuple(evidence))


class MiniatureFactChecks(GeneratedSplit[FactCheck]):
    """A split of miniature fact checks. Every run of four has each of the labels once."""

    SPLITS: ClassVar[Mapping[str, int]] = {"dev": 500, "train": 20_000, "test": 500}
    ITEMS = "claims"
    IDENTITY = f"factgym miniature checks {_VERSION} {{split}} {{seed}} {{size}}"

    def generate(self, index: int) -> FactCheck:
        """Generate a fact check."""
        return generate_check(self.split, self.seed, index).check


class MiniatureReports(KnowledgeStore):
    """The six reports around each claim of a split, generated on request."""

    kind = "generated reports"
    per_claim = True

    def __init__(self, checks: MiniatureFactChecks) -> None:
        self._checks = checks
        self.sizes = {"claims": len(checks), "passages": 6 * len(checks)}
        self.note = "Evidence: six generated sentences of a claim's own; scores say nothing about real claims."

    def __reduce__(self) -> tuple[Any, ...]:
        return MiniatureReports, (self._checks,)

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """Return the reports around a claim. Raises DataError for a claim that is none of these."""
        index = claim.claim_id if isinstance(claim, FactCheck) else claim
        if not isinstance(index, int) or not 0 <= index < len(self._checks):
            raise DataError(f"there are no generated reports for the claim {index!r:.80}")
        return EvidenceCorpus(generate_check(self._checks.split, self._checks.seed, index).evidence)

    def passages(self) -> Iterator[Evidence]:
        """Yield all reports, claim by claim."""
        for index in range(len(self._checks)):
            yield from self.for_claim(index)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the generator's identity; nothing is generated for it."""
        return index_fingerprint(self.kind, {}, [self._checks.fingerprint()])
