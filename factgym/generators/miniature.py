"""A miniature world for small models: claims, fact checks and questions over short sentences of a small vocabulary.

Subjects are invented and have six attributes: two numbers, two dates, two names. Splits have names of their own, of the
same syllables, so that a policy has to compare names rather than remember them. No licence attaches.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from factgym.core.errors import DataError
from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
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
from factgym.datasets.claims import VERDICTS, ClaimExample, GoldClaim, GoldFact, Status, Verdict
from factgym.datasets.evidence import ClaimKey, EvidenceCorpus, KnowledgeStore
from factgym.datasets.evidence import Evidence as Report
from factgym.datasets.multihop import Evidence, Triple
from factgym.generators.base import GeneratedSplit, balanced_choice, word_table
from factgym.generators.fact_checks import BECAUSE, CheckWithEvidence
from factgym.text.numbers import MONTH_NAMES
from factgym.text.sentences import capitalise

_VERSION = 1
_TABLE = word_table("miniature")
ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {row["name"]: row for row in _TABLE["attributes"]}
_NAME_SHARES = {"validation": (0,), "test": (1,), "train": tuple(range(2, 10))}
"""Split -> the remainders of the hash of a name, modulo 10, that belong to it."""
_STATUSES: Mapping[Verdict, Sequence[tuple[Status, Status]]] = {
    "supported": (("supported", "supported"),),
    "partially_supported": (("supported", "contradicted"), ("supported", "overclaim"), ("supported", "unsupported")),
    "contradicted": (
        *(("contradicted", "contradicted"),) * 2,
        *(("contradicted", "overclaim"), ("contradicted", "unsupported")),
    ),
    "overclaim": (*(("overclaim", "overclaim"),) * 2, ("overclaim", "unsupported")),
    "unsupported": (("unsupported", "unsupported"),),
}
PASSAGES = 4
_CONDITIONS = ("", "seasons", "groups", "")


@dataclass(frozen=True, slots=True)
class _Fact:
    """A sentence's content. conditions: at most one of each kind, as written."""

    attribute: str
    value: str
    conditions: str = ""

    def sentence(self, subject: str, rng: random.Random) -> str:
        form: str = rng.choice(ATTRIBUTES[self.attribute]["forms"])
        return form.format(s=subject, v=self.value, c=self.conditions)


def is_name_of(split: str, name: str) -> bool:
    """Whether a name belongs to a split; each name belongs to one."""
    return zlib.crc32(name.encode()) % 10 in _NAME_SHARES[split]


class MiniatureClaims(GeneratedSplit[ClaimExample]):
    """A split of miniature claim examples; each verdict occurs once in every run of five, in a random order.

    Each of the four passages is about a subject: its kind, then two attributes, each with up to two conditions ("in
    winter", "for members"). An answer has two statements on one subject. Of the other passages some state the same
    attributes, and some the same values, of other subjects.

    The answer is drawn before the passages and without regard to its verdict; the subject's passage is then written to
    fit the statuses. So nothing in an answer, its length, its names or its words tells the verdict: only a comparison
    does.

        supported      the passage states the same value under the same conditions
        contradicted   the passage states another value under the same conditions
        overclaim      the passage states the same value under one more condition
        unsupported    the passage has other attributes

    level: 1 without contradictions, 2 with values of sets of four, which all splits share, 3 with any values.
    """

    SPLITS: ClassVar[Mapping[str, int]] = {"train": 20_000, "validation": 500, "test": 500}
    ITEMS = "examples"
    IDENTITY = f"factgym miniature claims {_VERSION} {{split}} {{seed}} {{size}}"

    def __init__(self, split: str | None = None, *, seed: int = 0, size: int | None = None, level: int = 3) -> None:
        super().__init__(split, seed=seed, size=size)
        self.level = level

    def identity(self) -> str:
        """Return that of every generated split, and the level below 3."""
        return super().identity() + (f" level {self.level}" if self.level < 3 else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(MiniatureClaims, seed=self.seed, size=self.size, level=self.level), (self.split,)

    def generate(self, index: int) -> ClaimExample:
        """Generate an example."""
        verdicts = [verdict for verdict in VERDICTS if self.level > 1 or verdict != "contradicted"]
        verdict = balanced_choice(verdicts, index, f"factgym miniature verdicts {self.seed} {self.split}")
        rng = random.Random(f"factgym miniature {self.seed} {self.split} {index}")
        return Writer(self.split, rng, self.level).example(f"mini-{self.split}-{index:05d}", verdict)


class Writer:
    """Writes an example by the random stream of its item. No name occurs twice, unless it is a value, shared or of level 2."""

    def __init__(self, split: str, rng: random.Random, level: int = 3) -> None:
        self.split, self.rng, self.level = split, rng, level
        self.names: set[str] = set()

    def name(self) -> str:
        """Return a new name of the split: two syllables, and for some a consonant."""
        while True:
            syllables = [self.rng.choice(_CONSONANTS) + self.rng.choice(_VOWELS) for _ in range(2)]
            name = f"{''.join(syllables)}{self.rng.choice(_TABLE['endings'])}".capitalize()
            if syllables[0] != syllables[1] and name not in self.names and is_name_of(self.split, name):
                self.names.add(name)
                return name

    def value(self, attribute: str, other: str = "") -> str:
        """Return a value of an attribute that shares no number, month or name with another one."""
        rng, kind = self.rng, ATTRIBUTES[attribute]["value"]
        if self.level == 2:
            return str(rng.choice([value for value in _TABLE["few"][kind] if value != other]))
        if kind == "name":
            return self.name()
        if kind == "number":
            return str(rng.choice([number for number in range(2, 100) if str(number) != other]))
        day, _, month = other.partition(" ")
        days = [number for number in range(1, 29) if str(number) != day]
        return f"{rng.choice(days)} {rng.choice([name for name in MONTH_NAMES if name != month])}"

    def example(self, example_id: str, verdict: Verdict) -> ClaimExample:
        """Draw an answer, and then the passages that give it a verdict."""
        rng = self.rng
        subject = self.name()
        attributes = rng.sample(list(ATTRIBUTES), len(ATTRIBUTES))
        claimed = [self._fact(attribute) for attribute in attributes[:2]]
        statements = [fact.sentence(subject, rng) for fact in claimed]
        pairs = [pair for pair in _STATUSES[verdict] if self.level > 1 or "contradicted" not in pair]
        statuses = list(rng.choice(pairs))
        rng.shuffle(statuses)
        stated = [
            self._evidence(fact, status, unused)
            for fact, status, unused in zip(claimed, statuses, attributes[2:4], strict=True)
        ]
        order = rng.sample(range(2), 2)
        sentences = [self.lead(subject), *(stated[number].sentence(subject, rng) for number in order)]
        passages = [(subject, sentences), *self._distractors(claimed)]
        rng.shuffle(passages)
        passage_id = f"E{[title for title, _ in passages].index(subject) + 1}"
        claims = []
        for number, (fact, evidence, status) in enumerate(zip(claimed, stated, statuses, strict=True)):
            position = 0 if status == "unsupported" else 1 + order.index(number)
            start = sum(len(sentence) + 1 for sentence in sentences[:position])
            gold = GoldFact(passage_id, start, start + len(sentences[position]))
            claims.append(_claim(statements[number], status, fact, evidence, gold))
        return ClaimExample(
            id=example_id,
            split=self.split,
            domain="miniature",
            question=rng.choice(_TABLE["questions"]).format(s=subject),
            answer=" ".join(statements),
            passages=tuple(
                Passage(f"E{number}", title, " ".join(text)) for number, (title, text) in enumerate(passages, 1)
            ),
            claims=tuple(claims),
            verdict=verdict,
            nearest=(passage_id,) if "unsupported" in statuses else (),
        )

    def lead(self, subject: str) -> str:
        """Return the first sentence of a passage, which tells the kind of its subject."""
        return str(_TABLE["leads"].format(s=subject, v=self.rng.choice(_TABLE["kinds"])))

    def _fact(self, attribute: str) -> _Fact:
        """Draw a fact with no condition or one."""
        kind = self.rng.choice(_CONDITIONS)
        return _Fact(attribute, self.value(attribute), self.rng.choice(_TABLE[kind]) if kind else "")

    def _evidence(self, claimed: _Fact, status: Status, unused: str) -> _Fact:
        """Return the fact of the subject's passage that gives a claimed one its status."""
        if status == "unsupported":
            return self._fact(unused)
        if status == "contradicted":
            return _Fact(claimed.attribute, self.value(claimed.attribute, claimed.value), claimed.conditions)
        if status == "supported":
            return claimed
        is_season = claimed.conditions in _TABLE["seasons"]
        kind = "groups" if is_season else "seasons" if claimed.conditions else self.rng.choice(("seasons", "groups"))
        added = self.rng.choice(_TABLE[kind])
        conditions = added + claimed.conditions if kind == "groups" else claimed.conditions + added
        return _Fact(claimed.attribute, claimed.value, conditions)

    def _distractors(self, claimed: Sequence[_Fact]) -> list[tuple[str, list[str]]]:
        """Return passages on other subjects; two state the claimed attributes, with the claimed value half of the time."""
        passages = []
        for number in range(PASSAGES - 1):
            subject = self.name()
            copied = claimed[number : number + 1]
            facts = [fact if self.rng.random() < 0.5 else self._fact(fact.attribute) for fact in copied]
            others = [name for name in ATTRIBUTES if name not in {fact.attribute for fact in facts}]
            facts += [self._fact(attribute) for attribute in self.rng.sample(others, 2 - len(facts))]
            self.rng.shuffle(facts)
            passages.append((subject, [self.lead(subject), *(fact.sentence(subject, self.rng) for fact in facts)]))
        return passages


_CONSONANTS, _VOWELS = _TABLE["consonants"].split(), _TABLE["vowels"].split()


def _claim(text: str, status: Status, claimed: _Fact, evidence: _Fact, gold: GoldFact) -> GoldClaim:
    """Return a claim with its gold; the whole statement is unsupported unless a value is."""
    corruption = {"supported": "none", "overclaim": "condition", "unsupported": "silence"}.get(status)
    whole = "" if status == "supported" else text.removesuffix(".")
    added = evidence.conditions.replace(claimed.conditions, "")
    return GoldClaim(
        text=text,
        status=status,
        facts=(gold,),
        unsupported_span=claimed.value if status == "contradicted" else whole,
        corruption=corruption or str(ATTRIBUTES[claimed.attribute]["value"]),
        reason=_TABLE["reasons"][status].format(v=evidence.value, c=added),
    )


# Fact checks

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
    sources = iter(rng.sample(_TABLE["sources"], 6))

    def sentence(name: str, about: str, value: str, when: int, form: int) -> str:
        return str(ATTRIBUTES[name]["forms"][form]).format(s=about, v=value, c=f" in {when}")

    def report(text: str) -> Report:
        source = next(sources)
        return Report(evidence_id(source, text), source, text)

    wrong = writer.value(attribute, claimed)
    values = {SUPPORTED: [claimed], REFUTED: [wrong], CONFLICTING: [claimed, wrong], NOT_ENOUGH: []}[label]
    if label in (SUPPORTED, REFUTED) and rng.random() < 0.5:
        values *= 2
    forms = rng.sample(range(2), 2)
    decisive = [report(sentence(attribute, subject, value, year, forms[n])) for n, value in enumerate(values)]
    # Reports that decide nothing: the same attribute in another year, then other attributes of the subject.
    topics = [(attribute, claimed, rng.choice([other for other in _YEARS if other != year]))]
    topics += [(name, "", year) for name in others]
    silent = [
        report(sentence(name, subject, writer.value(name, other), when, rng.randrange(2)))
        for name, other, when in topics[: 3 - len(decisive)]
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
    """A split of miniature fact checks: a claim of one dated statement, and six reports of a sentence each.

    Every run of four has each of the labels once. The claim is drawn first and without regard to its label; the reports
    are written to fit the label. Always three of them are on the claim's subject and three on other subjects, so that
    only their sentences tell the label:

    - Supported: every report on the subject's value in the claim's year has the claimed value.
    - Refuted: every such report has one other value.
    - Conflicting Evidence/Cherrypicking: one report has the claimed value, a second one another.
    - Not Enough Evidence: no report is on that value in that year; the others are on other years or other values.

    Of the other subjects' reports one has the claimed value.
    """

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

    def passages(self) -> Iterator[Report]:
        """Yield all reports, claim by claim."""
        for index in range(len(self._checks)):
            yield from self.for_claim(index)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the generator's identity; nothing is generated for it."""
        return index_fingerprint(self.kind, {}, [self._checks.fingerprint()])


# Questions

_GAP = "____"


class MiniatureQuestions(GeneratedSplit[Triple]):
    """A split of questions of one hop, all of which are generated at once, and their corpus, a passage for each.

    A passage is about a subject of its own: its kind, then two attributes. The question quotes one of these sentences
    with a gap, in the words of EVE's scripted proposer, so that a small model has one form of question to learn; the
    answer is what the gap hides, and the sentence is the evidence. A name occurs in one passage. A smaller world is a
    prefix of a larger one.
    """

    SPLITS: ClassVar[Mapping[str, int]] = {"train": 4000, "validation": 200, "test": 200}
    MAX_SIZES: ClassVar[Mapping[str, int]] = {"train": 5000, "validation": 500, "test": 500}
    ITEMS = "questions"
    IDENTITY = f"factgym miniature questions {_VERSION} {{seed}} {{size}} {{split}}"

    def __init__(self, split: str | None = None, *, seed: int = 0, size: int | None = None) -> None:
        super().__init__(split, seed=seed, size=size)
        names: set[str] = set()
        items = [self._item(index, names) for index in range(self.size)]
        self.corpus = Corpus(passage for passage, _ in items)
        self._triples = tuple(triple for _, triple in items)

    def generate(self, index: int) -> Triple:
        """Return a question."""
        return self._triples[index]

    def _item(self, index: int, names: set[str]) -> tuple[Passage, Triple]:
        """Write a passage and the question about it. names: of the passages before it, to which its own are added."""
        rng = random.Random(f"factgym miniature question {self.seed} {self.split} {index}")
        writer = Writer(self.split, rng)
        writer.names = names
        subject = writer.name()
        sentences, questions = [writer.lead(subject)], []
        for attribute in rng.sample(list(ATTRIBUTES), 2):
            kind = rng.choice(_CONDITIONS)
            form = str(rng.choice(ATTRIBUTES[attribute]["forms"]))
            words = {"s": subject, "c": rng.choice(_TABLE[kind]) if kind else ""}
            value = writer.value(attribute)
            sentences.append(form.format(v=value, **words))
            questions.append((form.format(v=_GAP, **words), value))
        number = rng.randrange(2)
        gapped, answer = questions[number]
        text, evidence = " ".join(sentences), sentences[number + 1]
        start = text.index(evidence)
        passage = Passage(f"m{index}", subject, text)
        triple = Triple(
            id=f"mini-{self.split}-{self.seed}-{index:05d}",
            question=f'What is missing in what is said of {subject}: "{gapped}"?',
            answers=(answer,),
            evidence=(Evidence(passage.id, start, start + len(evidence), evidence),),
            hops=1,
            benchmark="synthetic",
            kind="generated",
            meta={"subject": subject},
        )
        return passage, triple

    def __reduce__(self) -> tuple[Any, ...]:
        return miniature_questions, (self.seed, self.size, self.split)


def miniature_questions(seed: int = 0, size: int | None = None, split: str = "train") -> MiniatureQuestions:
    """Return the questions of a world with their corpus, generated once a process. Raises ConfigError."""
    size = MiniatureQuestions.SPLITS.get(split) if size is None else size
    return shared(("miniature questions", split, seed, size), lambda: MiniatureQuestions(split, seed=seed, size=size))
