"""ClaimCheck examples over real documents: claims cut from their sentences, faithful or corrupted, made on demand.

ClaimCheck ("Building The Benchmark") generates its documents; here a folder of policies, contracts or handbooks takes
their role, and the same kinds of controlled corruption work on its sentences. Every claim has a source sentence, so
gold evidence is exact; a claim that joins two sentences by a cause has both. Left out: claims that follow from several
sentences together (the synthetic generator makes those).

Against shortcuts, corrupted and faithful claims go through the same paraphrases and rewording, answers of every verdict
have two claims, which are chosen together so that the telling words are as frequent under every verdict (`document_plan`),
the gold passages are at no fixed position, and documents come in random order. A decoy passage that could carry a claim would make its label wrong, so no
decoy comes near one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.corpora.corpus import Passage
from factgym.corpora.documents import Document, read_folder
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, final_verdict
from factgym.generators.base import GeneratedSequence
from factgym.generators.document_index import SPLITS, DocumentIndex
from factgym.generators.document_plan import Draft, Drafter, Plan, Planner
from factgym.generators.perturbations.rewording import compose_question
from factgym.text.words import terms

WINDOW = 12
PASSAGES = 16
MAX_DECOY_COVERAGE = 0.6
"""Share of a claim's terms in a passage from which on the passage could be taken to carry the claim."""
_SAMPLE = 80
_NEAREST = 5


def coverage(required: frozenset[str], available: frozenset[str]) -> float:
    """Return the share of `required` terms in `available`; 1 for an empty `required`."""
    return len(required & available) / len(required) if required else 1.0


# One example: its claims, the passages around them, and the question.


@dataclass(frozen=True, slots=True)
class _Layout:
    """The settings that examples of one sequence share; see `DocumentClaims`."""

    split: str
    domain: str
    window: int
    passages: int
    haystack: bool


class _ExampleBuilder:
    """Builds one example from its plan, with its own random generator.

    window: the neighbouring passages of the first claim's document that the example shows, at a random position around
    those of its sentences. The order of the draws decides every example.
    """

    def __init__(self, drafter: Drafter, layout: _Layout, rng: random.Random, plan: Plan) -> None:
        self.drafter, self.index, self.layout, self.rng, self.plan = drafter, drafter.index, layout, rng, plan
        index = self.index
        self.source = index.sources[plan[0].number]
        self.document = self.source.document
        total = len(index.documents[self.document].passages)
        size = min(layout.window, total)
        numbers = [number for claim in plan if claim for number in (claim.number, *drafter.sources_of(claim))]
        positions = [index.sources[number].passage for number in numbers]
        first = rng.randint(max(0, max(positions) - size + 1), min(min(positions), total - size))
        self.window = range(first, first + size)

    def build(self, id_: str, round_: int) -> ClaimExample:
        """Return the example. round_: how often its plan was used before; its first claim is another one each time."""
        first, second = self.plan
        drafts = [self.drafter.draft(first, round_), *([self.drafter.draft(second)] if second else [])]
        self.rng.shuffle(drafts)
        positions = self._arrange(self._choose_decoys(drafts))
        originals = [self.index.documents[document].passages[passage] for document, passage in positions]
        ids = [passage.id if self.layout.haystack else f"E{n}" for n, passage in enumerate(originals, start=1)]
        id_of = dict(zip(positions, ids, strict=True))
        claims = []
        for claim, numbers in ((draft.claim, draft.sources) for draft in drafts):
            sources = [self.index.sources[number] for number in numbers]
            facts = tuple(GoldFact(id_of[row.document, row.passage], row.start, row.end) for row in sources)
            claims.append(
                GoldClaim(claim.text, claim.status, facts, claim.unsupported_span, claim.operator, claim.reason)
            )
        nearest = () if any(claim.facts for claim in claims) else self._nearest(drafts)
        title = self.index.documents[self.document].title
        return ClaimExample(
            id=id_,
            split=self.layout.split,
            domain=self.layout.domain,
            question=compose_question(title, self.index.passage_of(self.source).title, self.source.text, self.rng),
            answer=" ".join(claim.text for claim in claims),
            passages=tuple(Passage(new_id, p.title, p.text) for new_id, p in zip(ids, originals, strict=True)),
            claims=tuple(claims),
            verdict=final_verdict(claim.status for claim in claims),
            nearest=tuple(id_of[self.document, passage] for passage in nearest),
        )

    def _choose_decoys(self, drafts: Sequence[Draft]) -> list[tuple[int, int]]:
        """Choose passages of other documents: the nearer half of a sample, none near a claim or its source."""
        texts = [self.index.sources[number].text for draft in drafts for number in draft.sources]
        claims = [frozenset(terms(text)) for text in [*texts, *(draft.claim.text for draft in drafts)]]
        claim_terms = frozenset[str]().union(*claims)
        ranked = []
        # Hard negatives by term overlap, from a sample, below the coverage from which one could carry a claim.
        for document, passage in self.rng.sample(self.index.passages, min(_SAMPLE, len(self.index.passages))):
            decoy = self.index.terms_of(document, passage)
            far = all(coverage(claim, decoy) < MAX_DECOY_COVERAGE for claim in claims)
            if document != self.document and len(decoy) > 4 and far:
                ranked.append((-len(decoy & claim_terms), document, passage))
        count = self.layout.passages - len(self.window)
        nearest = [(document, passage) for _, document, passage in sorted(ranked)[: 2 * count]]
        return sorted(self.rng.sample(nearest, min(count, len(nearest))))

    def _arrange(self, decoys: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return all passages: the documents in random order, each document's passages in its own order."""
        groups: dict[int, list[int]] = {self.document: list(self.window)}
        for document, passage in decoys:
            groups.setdefault(document, []).append(passage)
        order = sorted(groups)
        self.rng.shuffle(order)
        return [(document, passage) for document in order for passage in groups[document]]

    def _nearest(self, drafts: Sequence[Draft]) -> tuple[int, ...]:
        """The passage of the sentence, and those of its document that share most terms with the claims."""
        required = frozenset(terms(" ".join(draft.claim.text for draft in drafts)))
        ranked = sorted(
            (-coverage(required, self.index.terms_of(self.document, passage)), passage)
            for passage in self.window
            if passage != self.source.passage
        )
        return (self.source.passage, *(passage for _, passage in ranked))[:_NEAREST]


# The sequence of examples.


class DocumentClaims(GeneratedSequence[ClaimExample]):
    """Examples over documents: an immutable sequence whose item *i* is made when it is requested.

    documents: documents, or the path of a folder for `read_folder`. split: of `SPLITS`; the claims of "test" and "train"
    are made of different sentences, near-duplicates included, those of "all" of every sentence. Passages are shown whole
    in every split. size: the number of items, by default as many as possible without using any verdict's sentences twice.
    window: the limit on neighbouring passages of the document that a question is about. passages: their number with
    the decoys of other documents. haystack: passages keep their ids of the folder, so that all of `corpus` can be
    searched.

    Verdicts take turns in shuffled rounds, so every prefix is balanced; within a verdict the operators take turns as
    far as the documents carry them. Item *i* depends on (split, seed, i), the window settings and
    the documents alone. Raises DataError where no sentence is usable.
    """

    ITEMS = "examples"

    def __init__(
        self,
        documents: Sequence[Document] | str | Path,
        *,
        split: str = "test",
        seed: int = 0,
        size: int | None = None,
        window: int = WINDOW,
        passages: int = PASSAGES,
        haystack: bool = False,
        domain: str = "documents",
    ) -> None:
        if split not in SPLITS:
            raise ConfigError(
                f"unknown split {split!r:.80}; there are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}"
            )
        if window < 1 or passages < window or (size is not None and size < 1):
            raise ConfigError("window and size must be at least 1, and passages at least as many as window")
        path = f"{documents}: " if isinstance(documents, str | Path) else ""
        self._index = DocumentIndex(
            read_folder(documents).documents if isinstance(documents, str | Path) else documents, split
        )
        if not self._index.sources:
            where = "" if split == "all" else f" in split {split!r} (split='all' takes every sentence)"
            raise DataError(
                f"{path}no sentence that can be a claim{where}; expected prose such as policies or contracts."
            )
        self.split, self.seed = split, seed
        self._layout = _Layout(split, domain, window, passages, haystack)
        self._drafter = Drafter(self._index, f"{split}:{seed}", name_foreign=haystack)
        self._planner = Planner(self._drafter, window)
        self.size = size or len(self._planner.verdicts) * self._planner.count

    def generate(self, index: int) -> ClaimExample:
        """Generate an example."""
        verdicts = self._planner.verdicts
        block, position = divmod(index, len(verdicts))
        order = list(verdicts)
        random.Random(f"{self.split}:{self.seed}:block:{block}").shuffle(order)
        plan, round_ = self._planner.item(order[position], block)
        rng = random.Random(f"{self._index.fingerprint}:{self.split}:{self.seed}:{index}")
        return _ExampleBuilder(self._drafter, self._layout, rng, plan).build(f"docs-{self.split}-{index:05d}", round_)

    def __reduce__(self) -> tuple[object, ...]:
        settings = asdict(self._layout)
        return partial(DocumentClaims, seed=self.seed, size=self.size, **settings), (self._index.documents,)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the documents, the operators' version and every setting."""
        settings = [self.seed, self.size, *astuple(self._layout)]
        return hashlib.sha256(json.dumps([self._index.fingerprint, settings]).encode()).hexdigest()

    @property
    def corpus(self) -> tuple[Passage, ...]:
        """Every passage of the folder, under its folder id."""
        return tuple(passage for document in self._index.documents for passage in document.passages)
