"""ClaimCheck examples over real documents: claims cut from their sentences, faithful or corrupted, made on demand.

ClaimCheck ("Building The Benchmark") generates its documents; here a folder of policies, contracts or handbooks takes
their role, and the same kinds of controlled corruption work on its sentences. Every claim has a source sentence, so
gold evidence is exact. Left out: claims that join facts of several sentences (the synthetic generator makes those).

Against shortcuts, corrupted and faithful claims go through the same paraphrases and rewording, answers of every verdict
have two claims, words of denial and duty are about as frequent under every status, the gold passages are at no fixed
position, and documents come in random order. A decoy passage that could carry a claim would make its label wrong, so no
decoy comes near one.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property, partial, reduce
from operator import and_
from pathlib import Path

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.corpora.corpus import Passage
from factgym.corpora.documents import Document, read_folder
from factgym.corpora.text import terms
from factgym.datasets.claims import VERDICTS, ClaimExample, GoldClaim, GoldFact, Status, Verdict, final_verdict
from factgym.generators.base import GeneratedSequence
from factgym.generators.document_index import SPLITS, DocumentIndex, tone_of
from factgym.generators.perturbations.adjuncts import PARAPHRASES
from factgym.generators.perturbations.corruptions import DONOR_OPERATORS, OPERATORS, Corruption, corrupt, status_of
from factgym.generators.perturbations.grammar import Cues, strip_full_stop
from factgym.generators.perturbations.rewording import compose_question, name_source, reword

_CUES = Cues("document_claims")

WINDOW = 12
PASSAGES = 16
MAX_DECOY_COVERAGE = 0.6
"""Share of a claim's terms in a passage from which on the passage could be taken to carry the claim."""
_MAX_DONOR_COVERAGE = 0.4
"""Share of a foreign statement's terms that no passage of the document may exceed."""
_SAMPLE = 80
_SECOND_STATUSES: Mapping[str, tuple[Status, ...]] = {
    "contradicted": ("contradicted", "overclaim", "unsupported"),
    "overclaim": ("overclaim", "overclaim", "unsupported"),
    "unsupported": ("unsupported",),
}
"""Statuses of the second claim by verdict: the most severe status decides, so milder ones may stand beside it."""
_NAMES_SOURCE = 0.4
_PARAPHRASES = (0, 1, 1, 2, 2)
_MAX_PER_SENTENCE = 2
_FOREIGN_SHARE = 0.3
_SECOND_CLAIM_TRIES = 12
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


@dataclass(frozen=True, slots=True)
class _Draft:
    """A worded claim before its evidence has an id. source: number of its sentence, None for a foreign statement."""

    claim: Corruption
    source: int | None


class _ExampleBuilder:
    """Builds one example around a sentence, with its own random generator.

    window: the neighbouring passages of the sentence's document that the example shows, the sentence's own at a random
    position among them. The order of the draws decides every example.
    """

    def __init__(self, index: DocumentIndex, layout: _Layout, rng: random.Random, number: int) -> None:
        self.index, self.layout, self.rng, self.number = index, layout, rng, number
        self.source = index.sources[number]
        self.document = self.source.document
        self.donor = ""  # the foreign statement that the first claim has
        total = len(index.documents[self.document].passages)
        size = min(layout.window, total)
        first = min(max(0, self.source.passage - rng.randrange(size)), total - size)
        self.window = range(first, first + size)

    def build(self, id_: str, verdict: Verdict, operator: str, round_: int) -> ClaimExample:
        """Return the example whose first claim `operator` makes of the sentence ("none" makes a faithful one)."""
        drafts = self._draft_claims(verdict, operator, round_)
        positions = self._arrange(self._choose_decoys(drafts))
        originals = [self.index.documents[document].passages[passage] for document, passage in positions]
        ids = [passage.id if self.layout.haystack else f"E{n}" for n, passage in enumerate(originals, start=1)]
        id_of = dict(zip(positions, ids, strict=True))
        claims = []
        for claim, number in ((draft.claim, draft.source) for draft in drafts):
            facts: tuple[GoldFact, ...] = ()
            if number is not None:
                source = self.index.sources[number]
                facts = (GoldFact(id_of[source.document, source.passage], source.start, source.end),)
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

    def _draft_claims(self, verdict: Verdict, operator: str, round_: int) -> list[_Draft]:
        """Draft two claims where the window has sentences for them: their number does not tell the verdict."""
        first = self._faithful(self.number) if verdict == "supported" else self._corrupted(operator, round_)
        second: _Draft | None = None
        if verdict == "partially_supported":
            second = self._second_faithful(first.source) or self._faithful(self.number)
        elif verdict == "supported":
            second = self._second_faithful(self.number)
        else:
            status = self.rng.choice(_SECOND_STATUSES[verdict])
            second = self._second_failure(status) or self._second_failure("unsupported")
        drafts = [first, second] if second else [first]
        self.rng.shuffle(drafts)
        return drafts

    def _sentences_near(self, used: int | None) -> list[int]:
        """Numbers of the usable sentences in the window but one."""
        sources, numbers = self.index.sources, self.index.by_document[self.document]
        return [number for number in numbers if number != used and sources[number].passage in self.window]

    def _second_faithful(self, used: int | None) -> _Draft | None:
        """Draft a true claim of another sentence in the window, where there is one."""
        near = self._of_one_tone(self._sentences_near(used))
        return self._faithful(self.rng.choice(near)) if near else None

    def _of_one_tone(self, numbers: Sequence[int]) -> list[int]:
        """Return those sentences that have a tone, drawn from theirs: a rare tone is as likely as a frequent one."""
        tones = {number: tone_of(self.index.sources[number].text) for number in numbers}
        tone = self.rng.choice(sorted(set(tones.values()))) if tones else ""
        return [number for number in numbers if tones[number] == tone]

    def _second_failure(self, status: Status) -> _Draft | None:
        """Draft a second claim that fails with a status, where the window or another document has a sentence for one."""
        near = self._sentences_near(self.number)
        if status == "unsupported" and self.rng.random() < _FOREIGN_SHARE:
            foreign = self._foreign("addition")
            if foreign is not None:
                return foreign
        names = [name for name in OPERATORS if status_of(name) == status and name not in DONOR_OPERATORS]
        for number in self.rng.sample(near, min(_SECOND_CLAIM_TRIES, len(near))):
            self.rng.shuffle(names)
            for name in names:
                corruption = self.index.corrupt(name, number, self.number)
                if corruption is not None:
                    return self._reworded(corruption, number)
        return self._foreign("addition") if status == "unsupported" else None

    def _foreign(self, operator: str) -> _Draft | None:
        """Draft a statement of another document, where one is far enough from this document."""
        donors = tuple(donor for donor in self._find_donors() if donor != self.donor)
        corruption = corrupt(operator, self.index.statement(self.number, self.rng, donors))
        if corruption is None:
            return None
        self.donor = corruption.text
        return self._reworded(corruption, self.number, foreign=True)

    def _faithful(self, number: int) -> _Draft:
        text = self._paraphrased(self.index.sources[number].text)
        return self._reworded(Corruption(text, "supported", "", "none", "The cited sentence says this."), number)

    def _paraphrased(self, text: str, span: str = "") -> str:
        """Paraphrase a sentence up to twice, outside its span."""
        paraphrases = list(PARAPHRASES)
        self.rng.shuffle(paraphrases)
        count = self.rng.choice(_PARAPHRASES)
        for paraphrase in paraphrases:
            new = paraphrase(text, self.rng) if count else None
            if new is not None and span in new:
                text, count = new, count - 1
        return text

    def _corrupted(self, operator: str, round_: int) -> _Draft:
        """Draft the corruption of the sentence, or a statement of another document.

        Where all foreign statements come too near to this document, the claim gets an invented cause instead.
        """
        number = self.number
        if operator in DONOR_OPERATORS:
            foreign = self._foreign(operator)
            if foreign is not None:
                return foreign
            pool = self.index.pool("cause")
            near = [candidate for candidate in self._sentences_near(None) if candidate in pool]
            if not near:
                return self._faithful(number)
            operator, number, round_ = "cause", self.rng.choice(near), 0
        corruption = self.index.corrupt(operator, number, round_) or self.index.corrupt(operator, number)
        if corruption is None:
            raise LookupError(f"{operator!r} does not apply to sentence {number}")
        return self._reworded(corruption, number)

    def _reworded(self, corruption: Corruption, number: int, *, foreign: bool = False) -> _Draft:
        """Reword a claim outside its span, and name the source of some; in a haystack, of all foreign ones."""
        span = corruption.unsupported_span
        spans_all = span == strip_full_stop(corruption.text)
        text = corruption.text
        if corruption.status != "supported":
            text = self._paraphrased(text, "" if spans_all else span)
        text = reword(text, "" if spans_all else span, self.rng)
        span = strip_full_stop(text) if spans_all else span
        if (foreign and self.layout.haystack) or self.rng.random() < _NAMES_SOURCE:
            text = name_source(text, self.index.documents[self.document].title, self.rng)
        span = span if span in text else span[:1].lower() + span[1:]
        return _Draft(replace(corruption, text=text, unsupported_span=span), None if foreign else number)

    def _find_donors(self) -> tuple[str, ...]:
        """Return up to six statements of other documents on which the document is silent, nearest in topic first.

        Names that the document lacks count against a statement, for they give it away.
        """
        index = self.index
        topic = frozenset(terms(f"{index.passage_of(self.source).title} {self.source.text}"))
        passages = range(len(index.documents[self.document].passages))
        passage_terms = [index.terms_of(self.document, passage) for passage in passages]
        document_terms = frozenset[str]().union(*passage_terms)
        words = index.profile(self.document).words
        # The bound on the whole document is a cheap test before those on its passages: coverage grows with the terms.
        ranked = []
        sample = self.rng.sample(range(len(index.sources)), min(2 * _SAMPLE, len(index.sources)))
        for number in self._of_one_tone(sample):
            text = index.sources[number].text
            donor_terms = frozenset(terms(text))
            covered = coverage(donor_terms, document_terms) > _MAX_DONOR_COVERAGE and any(
                coverage(donor_terms, passage) > _MAX_DONOR_COVERAGE for passage in passage_terms
            )
            if covered or index.sources[number].document == self.document or _CUES.commonplace.search(text):
                continue
            foreign_names = sum(word[0].isupper() and word not in words for word in text.split()[1:])
            ranked.append((-len(donor_terms & topic) + 2 * min(foreign_names, 3), number))
        return tuple(index.sources[number].text for _, number in sorted(ranked)[:6])

    def _choose_decoys(self, drafts: Sequence[_Draft]) -> list[tuple[int, int]]:
        """Choose passages of other documents: the nearer half of a sample, none near a claim or its source."""
        texts = [self.index.sources[draft.source].text for draft in drafts if draft.source is not None]
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

    def _nearest(self, drafts: Sequence[_Draft]) -> tuple[int, ...]:
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
        self._plans: dict[Verdict, tuple[tuple[str, int], ...]] = {}
        self._verdicts = tuple(
            verdict
            for verdict in VERDICTS
            if verdict == "supported" or any(map(self._index.applies, self._operators(verdict)))
        )
        self.size = size or len(self._verdicts) * min(len(self._plan(verdict)) for verdict in self._verdicts)

    def generate(self, index: int) -> ClaimExample:
        """Generate an example."""
        block, position = divmod(index, len(self._verdicts))
        order = list(self._verdicts)
        random.Random(f"{self.split}:{self.seed}:block:{block}").shuffle(order)
        verdict = order[position]
        plan = self._plan(verdict)
        round_, step = divmod(block, len(plan))
        operator, number = plan[step]
        rng = random.Random(f"{self._index.fingerprint}:{self.split}:{self.seed}:{index}")
        builder = _ExampleBuilder(self._index, self._layout, rng, number)
        return builder.build(f"docs-{self.split}-{index:05d}", verdict, operator, round_)

    def __reduce__(self) -> tuple[object, ...]:
        settings = asdict(self._layout)
        return partial(DocumentClaims, seed=self.seed, size=self.size, **settings), (self._index.documents,)

    def index_of(self, task_id: str) -> int:
        """Return the index of an example's id. Raises ConfigError for an id that is not in the sequence."""
        prefix, _, number = task_id.rpartition("-")
        if prefix != f"docs-{self.split}" or not re.fullmatch("[0-9]{1,12}", number) or int(number) >= self.size:
            ids = f"docs-{self.split}-00000 to docs-{self.split}-{self.size - 1:05d}"
            raise ConfigError(f"no example {task_id[:80]!r}: ids run from {ids}")
        return int(number)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the documents, the operators' version and every setting."""
        settings = [self.seed, self.size, *astuple(self._layout)]
        return hashlib.sha256(json.dumps([self._index.fingerprint, settings]).encode()).hexdigest()

    @property
    def corpus(self) -> tuple[Passage, ...]:
        """Every passage of the folder, under its folder id."""
        return tuple(passage for document in self._index.documents for passage in document.passages)

    def _operators(self, verdict: Verdict) -> list[str]:
        """Operators that can make this verdict; an addition needs a true claim beside it."""
        if verdict == "partially_supported":
            return [name for name in OPERATORS if name != "irrelevant"]
        return [name for name in OPERATORS if status_of(name) == verdict and name != "addition"]

    def _plan(self, verdict: Verdict) -> tuple[tuple[str, int], ...]:
        """Operator and sentence of every item with this verdict, in order; used again from the start when exhausted.

        Of the first items as many have a tone as under every other verdict, or the tone would tell it. Under a tone, the
        operators have equal shares as far as their sentences reach. The rest of the sentences comes after.
        """
        # Water-filling: every pool gives up to `level` items to the first part. In a part, stratified interleaving:
        # item k of a pool of n sorts at (k + 0.5) / n.
        if verdict in self._plans:
            return self._plans[verdict]
        rng = random.Random(f"{self._index.fingerprint}:{self.split}:{self.seed}:{verdict}")
        pools = self._pools(verdict)
        for pool in pools.values():
            rng.shuffle(pool)
        # A sentence occurs at most twice under a verdict, by two operators: the rarer operators choose first.
        used: Counter[int] = Counter()
        for key in sorted(pools, key=lambda key: (len(pools[key]), key)):
            pools[key] = [number for number in pools[key] if used[number] < _MAX_PER_SENTENCE]
            used.update(pools[key])
        early, late = [], []
        for tone in sorted({tone for _, tone in pools}):
            by_operator = {name: pool for (name, other), pool in pools.items() if other == tone}
            level, total = 0, 0
            while total < self._tone_counts[tone] and any(len(pool) > level for pool in by_operator.values()):
                total += sum(len(pool) > level for pool in by_operator.values())
                level += 1
            for name, pool in by_operator.items():
                share = min(level, len(pool))
                early += [((rank + 0.5) / share, name, pool[rank]) for rank in range(share)]
                late += [((rank + 0.5) / len(pool), name, pool[rank]) for rank in range(share, len(pool))]
        self._plans[verdict] = tuple((name, number) for _, name, number in [*sorted(early), *sorted(late)])
        return self._plans[verdict]

    def _pools(self, verdict: Verdict) -> dict[tuple[str, str], list[int]]:
        """Return the sentences that can make a verdict by operator and tone."""
        names = ["none"] if verdict == "supported" else self._operators(verdict)
        return {(name, tone): pool for name in names for tone, pool in self._index.pool_by_tone(name).items()}

    @cached_property
    def _tone_counts(self) -> Counter[str]:
        """The number of items of each tone for which every verdict has sentences."""
        least: list[Counter[str]] = []
        for verdict in self._verdicts:
            uses = Counter((tone, number) for (_, tone), pool in self._pools(verdict).items() for number in pool)
            least.append(Counter())
            for (tone, _), count in uses.items():
                least[-1][tone] += min(count, _MAX_PER_SENTENCE)
        return reduce(and_, least)
