"""Claim examples by hand, so that these tests need no generator."""

from __future__ import annotations

from collections.abc import Sequence

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact

SHARED = Passage("E1", "Handbook / Leave", "Staff get 20 days of leave. Unused days lapse in March.")


def example(number: int, *, inject: str = "", filler: str = "") -> ClaimExample:
    """A multihop example; `inject` is put into the title, the texts, the question and the answer,
    `filler` into a text only.
    """
    days = 10 + number
    rule = f"Probation lasts {days} days.{inject} It may be extended once.{filler}"
    true = f"Staff get 20 days of leave{inject}."
    false = f"Probation lasts {days + 5} days{inject}."
    fact = f"Probation lasts {days} days."
    return ClaimExample(
        id=f"case-{number}",
        split="test",
        domain="hr",
        question=f"What holds for leave and probation?{inject}",
        answer=f"{true} {false}",
        passages=(SHARED, Passage("E2", f"Handbook / Probation{inject}", rule)),
        claims=(
            GoldClaim(true, "supported", (GoldFact("E1", 0, 27),)),
            GoldClaim(
                false,
                "contradicted",
                (GoldFact("E2", 0, len(fact)),),
                unsupported_span=f"{days + 5} days{inject}",
                corruption="number",
            ),
        ),
        verdict="partially_supported",
    )


class Examples:
    """A source of examples that records the requested indices."""

    def __init__(self, made: Sequence[ClaimExample]) -> None:
        self._made = tuple(made)
        self.requested: list[int] = []

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: int) -> ClaimExample:
        self.requested.append(index)
        return self._made[index]

    def fingerprint(self) -> str:
        return "by hand"
