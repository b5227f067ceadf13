"""A miniature of the synthetic claims: passages of three short sentences over a small vocabulary.

Each passage is about an invented subject: its kind, then two of six attributes (two numbers, two dates, two names), each
with up to two conditions ("in winter", "for members"). An answer has two statements on one subject. Of the other passages
some state the same attributes, and some the same values, of other subjects.

The answer is drawn before the passages and without regard to its verdict; the subject's passage is then written to fit the
statuses. So nothing in an answer, its length, its names or its words tells the verdict: only a comparison does. Splits
have names of their own, of the same syllables, so that a policy has to compare names rather than remember them.

    supported      the passage states the same value under the same conditions
    contradicted   the passage states another value under the same conditions
    overclaim      the passage states the same value under one more condition
    unsupported    the passage has other attributes
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import VERDICTS, ClaimExample, GoldClaim, GoldFact, Status, Verdict
from factgym.generators.base import GeneratedSplit, balanced_choice, word_table
from factgym.text.numbers import MONTH_NAMES

_VERSION = "1"
_TABLE = word_table("miniature")
ATTRIBUTES: Mapping[str, Mapping[str, object]] = {row["name"]: row for row in _TABLE["attributes"]}
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


@dataclass(frozen=True, slots=True)
class _Fact:
    """A sentence's content. conditions: at most one of each kind, as written."""

    attribute: str
    value: str
    conditions: str = ""

    def sentence(self, subject: str, rng: random.Random) -> str:
        forms: Sequence[str] = ATTRIBUTES[self.attribute]["forms"]  # type: ignore[assignment]  # a table's column
        return rng.choice(forms).format(s=subject, v=self.value, c=self.conditions)


def is_name_of(split: str, name: str) -> bool:
    """Whether a name belongs to a split; each name belongs to one."""
    return zlib.crc32(name.encode()) % 10 in _NAME_SHARES[split]


class MiniatureClaims(GeneratedSplit[ClaimExample]):
    """A split of miniature claim examples; each verdict occurs once in every run of five, in a random order."""

    SPLITS: ClassVar[Mapping[str, int]] = {"train": 20_000, "validation": 500, "test": 500}
    ITEMS = "examples"
    IDENTITY = f"factgym miniature claims {_VERSION} {{split}} {{seed}} {{size}}"

    def generate(self, index: int) -> ClaimExample:
        """Generate an example."""
        verdict = balanced_choice(VERDICTS, index, f"factgym miniature verdicts {self.seed} {self.split}")
        return Writer(self.split, random.Random(f"factgym miniature {self.seed} {self.split} {index}")).example(
            f"mini-{self.split}-{index:05d}", verdict
        )


class Writer:
    """Writes an example with the random stream of its item. No name occurs twice unless two passages share a value."""

    def __init__(self, split: str, rng: random.Random) -> None:
        self.split, self.rng = split, rng
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
        statuses = list(rng.choice(_STATUSES[verdict]))
        rng.shuffle(statuses)
        stated = [
            self._evidence(fact, status, unused)
            for fact, status, unused in zip(claimed, statuses, attributes[2:4], strict=True)
        ]
        order = rng.sample(range(2), 2)
        sentences = [self._lead(subject), *(stated[number].sentence(subject, rng) for number in order)]
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

    def _lead(self, subject: str) -> str:
        return str(_TABLE["leads"].format(s=subject, v=self.rng.choice(_TABLE["kinds"])))

    def _fact(self, attribute: str) -> _Fact:
        """Draw a fact with no condition or one."""
        kind = self.rng.choice(("", "seasons", "groups", ""))
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
            passages.append((subject, [self._lead(subject), *(fact.sentence(subject, self.rng) for fact in facts)]))
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
