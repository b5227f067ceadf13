"""Questions over the miniature world, for small models: passages of three sentences, and one question about each.

A passage is about a subject of its own: its kind, then two of six attributes. The question quotes one of these sentences
with a gap, in the words of EVE's scripted proposer, so that a small model has one form of question to learn; the answer is
what the gap hides, and the sentence is the evidence. Names are those of `factgym.generators.miniature`: each belongs to
one split, and occurs in one passage. A smaller world is a prefix of a larger one. No licence attaches.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.datasets.multihop import Evidence, Triple
from factgym.generators.base import GeneratedSplit, word_table
from factgym.generators.miniature import ATTRIBUTES, Writer

_VERSION = 1
_GAP = "____"
_CONDITIONS = ("", "seasons", "groups", "")


class MiniatureQuestions(GeneratedSplit[Triple]):
    """A split of questions of one hop, all of which are generated at once, and their corpus, a passage for each."""

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
        table, rng = (
            word_table("miniature"),
            random.Random(f"factgym miniature question {self.seed} {self.split} {index}"),
        )
        writer = Writer(self.split, rng)
        writer.names = names
        subject = writer.name()
        sentences, questions = [str(table["leads"].format(s=subject, v=rng.choice(table["kinds"])))], []
        for attribute in rng.sample(list(ATTRIBUTES), 2):
            kind = rng.choice(_CONDITIONS)
            form = str(rng.choice(ATTRIBUTES[attribute]["forms"]))  # type: ignore[arg-type]  # a table's column
            words = {"s": subject, "c": rng.choice(table[kind]) if kind else ""}
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
    key = ("miniature questions", split, seed, size)
    return shared(key, lambda: MiniatureQuestions(split, seed=seed, size=size))
