"""One example from one sentence: the claims of its answer, their wording, their evidence, and the question.

Corrupted and faithful claims go through the same rewording, and a second claim of the same kind stands in some answers
of every verdict, so that neither the wording nor the number of claims tells the verdict.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from factgym.corpora.corpus import Passage
from factgym.corpora.text import terms
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, Status, Verdict, final_verdict
from factgym.generators.corruption.base import Corruption, bare
from factgym.generators.corruption.operators import OPERATORS
from factgym.generators.corruption.paraphrase import attribute, reword, turn
from factgym.generators.documents.evidence import (
    Window,
    arrange,
    choose_decoys,
    choose_window,
    coverage,
    find_donors,
)
from factgym.generators.documents.index import DONOR_OPERATORS, DocumentIndex
from factgym.generators.documents.questions import ask

_SECOND_CLAIM = {"supported": 0.5, "contradicted": 0.35, "overclaim": 0.5, "unsupported": 0.35}
_ATTRIBUTED = 0.4
_TURN = 0.7
_TRIED = 12
_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """What examples of one sequence have in common; see `DocumentClaims`."""

    split: str
    domain: str
    window: int
    passages: int
    haystack: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A claim before its evidence has an id. source: the number of its sentence, None for a foreign statement."""

    text: str
    status: Status
    span: str
    corruption: str
    reason: str
    source: int | None


class Composer:
    """Makes one example; holds its random generator."""

    def __init__(self, index: DocumentIndex, layout: Layout, rng: random.Random) -> None:
        self.index, self.layout, self.rng = index, layout, rng

    def compose(self, id_: str, verdict: Verdict, operator: str, source: int, round_: int) -> ClaimExample:
        """The example whose first claim `operator` makes of sentence `source` ("none" makes a faithful one)."""
        where = self.index.sources[source]
        window = choose_window(self.index, where.document, where.passage, self.layout.window, self.rng)
        drafts = self._drafts(verdict, operator, source, round_, window)
        room = self.layout.passages - (window.last - window.first)
        decoys = choose_decoys(self.index, window, self._spoken(drafts), room, self.rng)
        return self._finish(id_, source, drafts, window, arrange(window, decoys, self.rng))

    def _spoken(self, drafts: Sequence[Draft]) -> list[str]:
        """What no decoy may come near: the claims and their source sentences."""
        own = [self.index.sources[draft.source].text for draft in drafts if draft.source is not None]
        return [*own, *(draft.text for draft in drafts)]

    def _drafts(self, verdict: Verdict, operator: str, source: int, round_: int, window: Window) -> list[Draft]:
        first = self._true(source) if verdict == "supported" else self._false(operator, source, round_, window)
        if verdict == "partially_supported":
            kept = {source} if first.source is not None else set()
            second = self._companion(window, kept) or [self._true(source)]
        elif self.rng.random() >= _SECOND_CLAIM[verdict]:
            second = []
        elif verdict == "supported":
            second = self._companion(window, {source})
        else:
            second = self._second_failure(window, source, first.status)
        drafts = [first, *second]
        self.rng.shuffle(drafts)
        return drafts

    def _near(self, window: Window, used: set[int]) -> list[int]:
        numbers = self.index.by_document[window.document]
        return [number for number in numbers if number not in used and self.index.sources[number].passage in window]

    def _companion(self, window: Window, used: set[int]) -> list[Draft]:
        """A true claim of another sentence in the window, or none where there is no other."""
        near = self._near(window, used)
        return [self._true(self.rng.choice(near))] if near else []

    def _second_failure(self, window: Window, used: int, status: Status) -> list[Draft]:
        """A second claim that fails in the same way, where the window has a sentence for one."""
        near = self._near(window, {used})
        names = [name for name, one in OPERATORS.items() if one.status == status and name not in DONOR_OPERATORS]
        self.rng.shuffle(names)
        for number in self.rng.sample(near, min(_TRIED, len(near))):
            for name in names:
                made = self.index.corrupt(name, number)
                if made is not None:
                    return [self._corrupted(made, number)]
        return []

    def _true(self, number: int) -> Draft:
        text = self.index.sources[number].text
        turned = turn(text) if self.rng.random() < _TURN else None
        worded, _ = self._word(turned or text, "", number)
        return Draft(worded, "supported", "", "none", "The cited sentence says this.", number)

    def _false(self, operator: str, number: int, round_: int, window: Window) -> Draft:
        if operator in DONOR_OPERATORS:
            return self._foreign(operator, number, window)
        made = self.index.corrupt(operator, number, round_) or self.index.corrupt(operator, number)
        if made is None:
            raise LookupError(f"{operator!r} does not apply to sentence {number}")
        return self._corrupted(made, number)

    def _corrupted(self, made: Corruption, number: int) -> Draft:
        text, span = self._word(made.text, made.unsupported_span, number)
        return Draft(text, made.status, span, made.operator, made.reason, number)

    def _foreign(self, operator: str, number: int, window: Window) -> Draft:
        """A statement of another document; an invented cause where all others come too near to this one."""
        source = self.index.sources[number]
        donors = find_donors(self.index, window, f"{self.index.passage(source).title} {source.text}", self.rng)
        made = OPERATORS[operator].apply(source.text, self.rng, self.index.context(source, donors))
        if made is not None:
            text, span = self._word(made.text, made.unsupported_span, number, named=self.layout.haystack)
            return Draft(text, "unsupported", span, operator, made.reason, None)
        pool = self.index.pool("cause")
        inside = [near for near in self._near(window, set()) if near in pool]
        return self._false("cause", self.rng.choice(inside), 0, window) if inside else self._true(number)

    def _word(self, text: str, span: str, number: int, *, named: bool = False) -> tuple[str, str]:
        """The claim reworded, and its span as it stands in it; `named` insists on naming the document."""
        title = self.index.documents[self.index.sources[number].document].title
        whole = span == bare(text)
        worded = reword(text, "" if whole else span, self.rng)
        span = bare(worded) if whole else span
        if named or self.rng.random() < _ATTRIBUTED:
            worded = attribute(worded, title, self.rng)
        return worded, span if span in worded else span[:1].lower() + span[1:]

    def _finish(
        self, id_: str, source: int, drafts: Sequence[Draft], window: Window, places: Sequence[tuple[int, int]]
    ) -> ClaimExample:
        shown = [self.index.documents[document].passages[place] for document, place in places]
        ids = {where: shown[n].id if self.layout.haystack else f"E{n + 1}" for n, where in enumerate(places)}
        passages = tuple(
            Passage(ids[where], passage.title, passage.text) for where, passage in zip(places, shown, strict=True)
        )
        claims = tuple(self._gold(draft, ids) for draft in drafts)
        said = [self.index.sources[source].text]
        title = self.index.documents[window.document].title
        question = ask(title, self.index.passage(self.index.sources[source]).title, said, self.rng)
        silent = not any(claim.facts for claim in claims)
        return ClaimExample(
            id=id_,
            split=self.layout.split,
            domain=self.layout.domain,
            question=question,
            answer=" ".join(claim.text for claim in claims),
            passages=passages,
            claims=claims,
            verdict=final_verdict(claim.status for claim in claims),
            nearest=self._nearest(source, drafts, window, ids) if silent else (),
        )

    def _gold(self, draft: Draft, ids: dict[tuple[int, int], str]) -> GoldClaim:
        facts: tuple[GoldFact, ...] = ()
        if draft.source is not None:
            where = self.index.sources[draft.source]
            facts = (GoldFact(ids[where.document, where.passage], where.start, where.end),)
        return GoldClaim(draft.text, draft.status, facts, draft.span, draft.corruption, draft.reason)

    def _nearest(
        self, source: int, drafts: Sequence[Draft], window: Window, ids: dict[tuple[int, int], str]
    ) -> tuple[str, ...]:
        """The passage that was asked about, and those of its document that share most terms with the claims."""
        wanted = frozenset(terms(" ".join(draft.text for draft in drafts)))
        first = self.index.sources[source].passage
        places = [place for place in range(window.first, window.last) if place != first]
        places.sort(key=lambda place: (-coverage(wanted, self.index.terms_of(window.document, place)), place))
        return tuple(ids[window.document, place] for place in [first, *places][:_NEAREST])
