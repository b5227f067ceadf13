"""Generated fact checks in the layout of AVeriTeC's, with which ProFact needs no data file.

The claim, of one to three statements, is drawn first; only then the label is drawn and the reports are generated to fit
it. Wording, numbers, speaker and date of a claim therefore carry no information on its label: only the reports do.

- Supported: every statement is reported as claimed.
- Refuted: every report of one statement has another value.
- Conflicting Evidence/Cherrypicking: one source reports a statement as claimed, a second one with another value.
- Not Enough Evidence: nobody reports one statement, though reports on its subject and other years of it exist.

Subjects, numbers and reports are invented; no licence attaches.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from factgym.core.tasks import shared
from factgym.corpora.web_pages import evidence_id, host_of
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
    Label,
)
from factgym.datasets.evidence import Evidence, EvidenceCorpus, Haystack
from factgym.generators.base import GeneratedSplit, balanced_choice, word_table
from factgym.generators.invented_names import stem
from factgym.text.sentences import capitalise

SPLITS: Mapping[str, int] = {"dev": 500, "train": 1200, "test": 500}
"""Split -> its default size; the first is the default split."""

MAX_SIZE = 1_400
"""The largest split: each of its subjects has its own name, and there are no more stems."""

HAYSTACK_KIND = "generated haystack"

_VERSION = 2
_FIRST_YEAR, _LAST_YEAR = 2011, 2021
_STATEMENTS = (1, 1, 2, 2, 3)
_BOOLEAN_RATE = 0.3
"""Share of the reported statements whose gold question is a yes-or-no question."""

BECAUSE = {
    SUPPORTED: "is reported as claimed",
    REFUTED: "is reported with another value",
    NOT_ENOUGH: "is reported by nobody",
    CONFLICTING: "is reported with different values by different sources",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A yearly value of a subject, and its wordings; a question does not give the value, a check asks for yes or no.

    values: names of which one holds. range: first, last and step of a whole number, where there are no values.
    """

    id: str
    claims: tuple[str, ...]
    questions: tuple[str, ...]
    check: str
    reports: tuple[str, ...]
    values: tuple[str, ...] = ()
    range: tuple[int, int, int] = (0, 0, 1)
    unit: str = ""

    def value(self, rng: random.Random) -> str:
        """Draw a value as it is written."""
        if self.values:
            return rng.choice(self.values)
        low, high, step = self.range
        return f"{rng.randrange(low, high + 1, step):,}{self.unit}"

    def other(self, rng: random.Random, value: str) -> str:
        """Draw another value; a number differs by at least a quarter, so that it is no rounding of the first."""
        if self.values:
            return rng.choice([candidate for candidate in self.values if candidate != value])
        number = _digits(value)
        while True:  # rejection sampling
            candidate = self.value(rng)
            if abs(_digits(candidate) - number) >= 0.25 * max(_digits(candidate), number):
                return candidate


def _digits(text: str) -> int:
    return int("".join(filter(str.isdigit, text)))


@dataclass(frozen=True, slots=True)
class SubjectKind:
    """Kind of subject. names: templates over `{stem}`."""

    name: str
    names: tuple[str, ...]
    topics: tuple[Topic, ...]


@cache
def subject_kinds() -> tuple[SubjectKind, ...]:
    """Return all kinds of subjects with their topics."""
    table = word_table("fact_checks")
    values: Mapping[str, tuple[str, ...]] = table["values"]
    return tuple(
        SubjectKind(
            kind["name"],
            kind["names"],
            tuple(Topic(**topic | {"values": values.get(topic.get("values"), ())}) for topic in kind["topics"]),
        )
        for kind in table["kinds"]
    )


@dataclass(frozen=True, slots=True)
class CheckWithEvidence:
    """A generated fact check and all reports around it, its gold evidence included."""

    check: FactCheck
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class _Statement:
    """One part of a claim: the value of a topic for a subject in a year. form: index of its wording."""

    topic: Topic
    subject: str
    year: int
    value: str
    form: int

    @property
    def claim_text(self) -> str:
        return self.topic.claims[self.form].format(s=self.subject, v=self.value, y=self.year)

    def fill(self, template: str, value: str = "", agency: str = "", year: int | None = None) -> str:
        """Fill a template of the topic with this statement's words."""
        return capitalise(template.format(s=self.subject, v=value, y=self.year if year is None else year, a=agency))


@lru_cache(maxsize=4096)
def generate_check(split: str, seed: int, index: int) -> CheckWithEvidence:
    """Generate the check at an index with its reports."""
    rng = random.Random(f"fact check {seed} {split} {index}")
    kind = rng.choice(subject_kinds())
    subject = rng.choice(kind.names).format(stem=stem(split, seed, index))
    year = rng.randint(_FIRST_YEAR, _LAST_YEAR)
    statements = [
        _Statement(topic, subject, year, topic.value(rng), rng.randrange(len(topic.claims)))
        for topic in rng.sample(kind.topics, rng.choice(_STATEMENTS))
    ]
    claim_date = dt.date(statements[0].year + 1, 1, 10) + dt.timedelta(days=rng.randrange(600))
    table = word_table("fact_checks")
    speaker, location, source = (rng.choice(table[key]) for key in ("speakers", "locations", "sources"))
    label = balanced_choice(LABELS, index, f"labels {seed} {split}")
    reporter = _Reporter(rng, claim_date)
    # One statement has the label of the claim; the others are supported.
    labels: list[Label] = [SUPPORTED] * len(statements)
    labels[rng.randrange(len(statements))] = label
    labelled = list(zip(statements, labels, strict=True))
    questions = [
        question for statement, decided in labelled for question in reporter.report_statement(statement, decided)
    ]
    for statement in statements:
        reporter.report_other_years(statement)
    parts = [statement.claim_text for statement in statements]
    claim = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
    check = FactCheck(
        id=f"made-{split}-{index:05d}",
        claim_id=index,
        claim=f"{capitalise(claim)}.",
        label=label,
        justification=" ".join(f"That {statement.claim_text} {BECAUSE[decided]}." for statement, decided in labelled),
        questions=tuple(questions),
        claim_date=claim_date,
        speaker=speaker,
        location=location,
        reporting_source=source,
    )
    rng.shuffle(reporter.evidence)
    return CheckWithEvidence(check, tuple(reporter.evidence))


class _Reporter:
    """Writes reports on the statements of one claim and collects them as evidence."""

    def __init__(self, rng: random.Random, claim_date: dt.date) -> None:
        self.evidence: list[Evidence] = []
        self._rng = rng
        self._claim_date = claim_date
        self._agencies: list[str] = []
        self._renew_agencies()

    def _renew_agencies(self) -> None:
        agencies = word_table("fact_checks")["agencies"]
        self._agencies = self._rng.sample(agencies, len(agencies))

    def report_statement(self, statement: _Statement, label: Label) -> Iterator[GoldQuestion]:
        """Write the reports that give a statement its label, and yield the questions that they answer."""
        rng = self._rng
        wrong = statement.topic.other(rng, statement.value)
        if label == CONFLICTING:
            values = [statement.value, wrong]
            rng.shuffle(values)
            for value in values:
                agency = self._agencies[-1]
                text, url = self._report(statement, value, statement.year)
                question = self._open_question(statement)
                question = f"According to {agency}, {question[:1].lower()}{question[1:]}"
                yield GoldQuestion(question, (GoldAnswer(text, "Extractive", source_url=url),))
            return
        if label == NOT_ENOUGH:
            yield GoldQuestion(self._open_question(statement), (GoldAnswer(NO_ANSWER, "Unanswerable"),))
            return
        value = statement.value if label == SUPPORTED else wrong
        text, url = self._report(statement, value, statement.year)
        if rng.random() < 0.5:
            self._report(statement, value, statement.year, last=True)
        if rng.random() >= _BOOLEAN_RATE:
            answer = GoldAnswer(text, "Extractive", source_url=url)
            yield GoldQuestion(self._open_question(statement), (answer,))
        else:
            answer = GoldAnswer("Yes" if label == SUPPORTED else "No", "Boolean", text, source_url=url)
            yield GoldQuestion(statement.fill(statement.topic.check, statement.value), (answer,))

    def report_other_years(self, statement: _Statement) -> None:
        """Write reports that decide nothing; those of later years are younger than the claim."""
        for step in self._rng.sample((-3, -2, -1, 1, 2), 2):
            self._report(statement, statement.topic.value(self._rng), statement.year + step)

    def _open_question(self, statement: _Statement) -> str:
        return statement.fill(self._rng.choice(statement.topic.questions))

    def _report(self, statement: _Statement, value: str, year: int, *, last: bool = False) -> tuple[str, str]:
        """Add one report as evidence. Return its decisive sentence and the address of its page.

        Its date lies within the months after December of `year`, before the claim wherever that is possible.
        """
        rng, forms = self._rng, statement.topic.reports
        text = statement.fill(forms[-1 if last else rng.randrange(len(forms))], value, self._agencies.pop(), year)
        first = dt.date(year, 12, 1)
        days = min((self._claim_date - first).days, 240) if first < self._claim_date else 240
        day = first + dt.timedelta(days=rng.randrange(days))
        host = f"{stem('hosts', 0, rng.randrange(400)).lower()}-news.example"
        url = f"https://www.{host}/{day:%Y/%m/%d}/{rng.randrange(10**6):06d}"
        opening, closing = (
            rng.sample(word_table("fact_checks")[key], rng.randrange(2)) for key in ("openings", "closings")
        )
        passage = " ".join([*opening, text, *closing])
        self.evidence.append(Evidence(evidence_id(url, passage), host_of(url), passage, url, day))
        if not self._agencies:
            self._renew_agencies()
        return text, url


class GeneratedFactChecks(GeneratedSplit[FactCheck]):
    """A split of generated fact checks. Every run of four has each of the labels once."""

    SPLITS = SPLITS
    MAX_SIZES = dict.fromkeys(SPLITS, MAX_SIZE)
    ITEMS = "claims"
    IDENTITY = f"made-checks-{_VERSION}:{{split}}:{{seed}}:{{size}}"

    def generate(self, index: int) -> FactCheck:
        """Generate a fact check."""
        return generate_check(self.split, self.seed, index).check

    def with_evidence(self, index: int) -> CheckWithEvidence:
        """Return the check at an index with the reports around it."""
        return generate_check(self.split, self.seed, self._position(index))


class GeneratedEvidenceStore(Haystack):
    """The reports around all claims of a split, as one haystack in the order of its opaque ids."""

    kind = HAYSTACK_KIND

    def __init__(self, checks: GeneratedFactChecks) -> None:
        self._checks = checks
        reports = {report.id: report for index in range(len(checks)) for report in checks.with_evidence(index).evidence}
        corpus = EvidenceCorpus((reports[key] for key in sorted(reports)), {"claims": len(checks)})
        note = (
            f"Evidence: a generated haystack of {len(corpus):,} passages around {len(checks):,} generated claims; scores "
            "say nothing about real claims."
        )
        super().__init__(corpus, note)

    def __reduce__(self) -> tuple[Any, ...]:
        return GeneratedEvidenceStore, (self._checks,)


def generated_store(checks: GeneratedFactChecks) -> GeneratedEvidenceStore:
    """Return the haystack of these claims, built once a process."""
    return shared(("made store", checks.fingerprint()), lambda: GeneratedEvidenceStore(checks))
