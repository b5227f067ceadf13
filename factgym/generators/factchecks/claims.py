"""One generated fact check: a claim of one to three statements, what was reported about them, and what follows.

The claim is written first, from values that nothing says are true; only then the label is drawn and the reports are
made to fit it. Wording, numbers, speaker and date of a claim therefore say nothing about its label: reports alone do.

- Supported: every statement is reported as claimed.
- Refuted: at least one is reported with another value, by everyone who reports it.
- Conflicting Evidence/Cherrypicking: one is reported as claimed by one source and with another value by a second one.
- Not Enough Evidence: one is reported by nobody, though its subject and other years of it are.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from factgym.datasets.evidence import Evidence, evidence_id, host_of
from factgym.generators.factchecks.topics import AGENCIES, KINDS, LOCATIONS, SOURCES, SPEAKERS, TOPICS, Topic
from factgym.generators.synthetic.names import stem

_FIRST_YEAR, _LAST_YEAR = 2011, 2021
_STATEMENTS = (1, 1, 2, 2, 3)
_CHECKED = 0.3
"""How often a statement that is reported is asked about by a question for yes or no."""

_OPENINGS = (
    "The figures were published on a weekday morning.",
    "Officials presented their findings to the press.",
    "A summary was handed to reporters.",
    "The release drew little attention at first.",
    "Several local papers picked up the news.",
)
_CLOSINGS = (
    "The method has not changed since the previous edition.",
    "Further details are to follow later.",
    "The full tables are available on request.",
    "A spokesman declined to comment.",
    "Earlier editions can be found in the archive.",
)


@dataclass(frozen=True, slots=True)
class Made:
    """A generated check and everything that was reported around it, its own evidence among it."""

    check: FactCheck
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class _Statement:
    """One part of a claim: what is said of the subject in a year."""

    topic: Topic
    subject: str
    year: int
    value: str
    form: int

    def filled(self, template: str, value: str = "", agency: str = "", year: int | None = None) -> str:
        """A template of the topic with this statement's words."""
        text = template.format(s=self.subject, v=value, y=self.year if year is None else year, a=agency)
        return text[:1].upper() + text[1:]


def make_check(split: str, seed: int, index: int) -> Made:
    """The check of this place; it depends on the three arguments alone."""
    rng = random.Random(f"fact check {seed} {split} {index}")
    statements = _statements(rng, stem(split, seed, index))
    claimed = dt.date(statements[0].year + 1, 1, 10) + dt.timedelta(days=rng.randrange(600))
    meta = (rng.choice(SPEAKERS), rng.choice(LOCATIONS), rng.choice(SOURCES))
    label = LABELS[_order(split, seed, index // len(LABELS))[index % len(LABELS)]]
    writer = _Writer(rng, claimed)
    fates = _fates(rng, label, len(statements))
    questions = [
        one for statement, fate in zip(statements, fates, strict=True) for one in writer.reported(statement, fate)
    ]
    for statement in statements:
        writer.around(statement)
    check = FactCheck(
        id=f"made-{split}-{index:05d}",
        claim_id=index,
        claim=_sentence(statements),
        label=label,
        justification=_justification(statements, fates),
        questions=tuple(questions),
        claim_date=claimed,
        speaker=meta[0],
        location=meta[1],
        reporting_source=meta[2],
    )
    rng.shuffle(writer.evidence)
    return Made(check, tuple(writer.evidence))


def _order(split: str, seed: int, block: int) -> list[int]:
    """Each run of four claims has every label once, in an order of its own."""
    order = list(range(len(LABELS)))
    random.Random(f"labels {seed} {split} {block}").shuffle(order)
    return order


def _statements(rng: random.Random, place: str) -> list[_Statement]:
    kind = rng.choice(list(KINDS))
    subject = rng.choice(KINDS[kind]).format(stem=place)
    year = rng.randint(_FIRST_YEAR, _LAST_YEAR)
    topics = rng.sample(TOPICS[kind], rng.choice(_STATEMENTS))
    return [_Statement(topic, subject, year, topic.value(rng), rng.randrange(len(topic.claim))) for topic in topics]


def _sentence(statements: Sequence[_Statement]) -> str:
    parts = [one.topic.claim[one.form].format(s=one.subject, v=one.value, y=one.year) for one in statements]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
    return f"{text[:1].upper()}{text[1:]}."


def _fates(rng: random.Random, label: Label, count: int) -> list[Label]:
    """What becomes of each statement: one decides the label, the others are as claimed."""
    fates: list[Label] = [SUPPORTED] * count
    fates[rng.randrange(count)] = label
    return fates


_BECAUSE = {
    SUPPORTED: "is reported as claimed",
    REFUTED: "is reported with another value",
    NOT_ENOUGH: "is reported by nobody",
    CONFLICTING: "is reported with different values by different sources",
}


def _justification(statements: Sequence[_Statement], fates: Sequence[Label]) -> str:
    said = [
        f"That {one.topic.claim[one.form].format(s=one.subject, v=one.value, y=one.year)} {_BECAUSE[fate]}."
        for one, fate in zip(statements, fates, strict=True)
    ]
    return " ".join(said)


class _Writer:
    """Writes reports about the statements of one claim and collects them."""

    def __init__(self, rng: random.Random, claimed: dt.date) -> None:
        self.evidence: list[Evidence] = []
        self._rng = rng
        self._claimed = claimed
        self._agencies = rng.sample(AGENCIES, len(AGENCIES))

    def reported(self, statement: _Statement, fate: Label) -> Iterator[GoldQuestion]:
        """Reports that give the statement its fate, and the questions that they answer."""
        other = statement.topic.other(self._rng, statement.value)
        if fate == CONFLICTING:
            values = [statement.value, other]
            self._rng.shuffle(values)
            for value in values:
                yield self._attributed(statement, value)
        elif fate == NOT_ENOUGH:
            yield GoldQuestion(self._open(statement), (GoldAnswer(NO_ANSWER, "Unanswerable"),))
        else:
            yield self._asked(statement, statement.value if fate == SUPPORTED else other)

    def around(self, statement: _Statement) -> None:
        """Reports of other years, which decide nothing; those of later years are younger than the claim."""
        for step in self._rng.sample((-3, -2, -1, 1, 2), 2):
            year = statement.year + step
            self._report(statement, statement.topic.value(self._rng), year)

    def _asked(self, statement: _Statement, value: str) -> GoldQuestion:
        text, url = self._report(statement, value, statement.year)
        if self._rng.random() < 0.5:
            self._report(statement, value, statement.year, last=True)
        if self._rng.random() >= _CHECKED:
            return GoldQuestion(self._open(statement), (GoldAnswer(text, "Extractive", source_url=url),))
        word = "Yes" if value == statement.value else "No"
        question = statement.filled(statement.topic.check, statement.value)
        return GoldQuestion(question, (GoldAnswer(word, "Boolean", text, source_url=url),))

    def _attributed(self, statement: _Statement, value: str) -> GoldQuestion:
        agency = self._agencies[-1]
        text, url = self._report(statement, value, statement.year)
        question = self._open(statement)
        return GoldQuestion(
            f"According to {agency}, {question[:1].lower()}{question[1:]}",
            (GoldAnswer(text, "Extractive", source_url=url),),
        )

    def _open(self, statement: _Statement) -> str:
        return statement.filled(self._rng.choice(statement.topic.question))

    def _report(self, statement: _Statement, value: str, year: int, *, last: bool = False) -> tuple[str, str]:
        """One more piece of evidence: the sentence that matters, and the address of its page."""
        rng = self._rng
        form = statement.topic.report[-1 if last else rng.randrange(len(statement.topic.report))]
        text = statement.filled(form, value, self._agencies.pop(), year)
        day = self._day(year)
        url = f"https://www.{stem('hosts', 0, rng.randrange(400)).lower()}-news.example/{day:%Y/%m/%d}/{rng.randrange(10**6):06d}"
        passage = " ".join([*rng.sample(_OPENINGS, rng.randrange(2)), text, *rng.sample(_CLOSINGS, rng.randrange(2))])
        self.evidence.append(Evidence(evidence_id(url, passage), host_of(url), passage, url, day))
        if not self._agencies:
            self._agencies = rng.sample(AGENCIES, len(AGENCIES))
        return text, url

    def _day(self, year: int) -> dt.date:
        """When a report about `year` appears: within the next months, and before the claim if it is about its year."""
        first = dt.date(year, 12, 1)
        if first < self._claimed:
            span = min((self._claimed - first).days, 240)
            return first + dt.timedelta(days=self._rng.randrange(span))
        return first + dt.timedelta(days=self._rng.randrange(240))
