"""The verdict object and the `submit` tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

from factgym.datasets.claims import Status, Verdict
from factgym.tools.evidence import MAX_ID_CHARS, EvidenceState
from factgym.tools.schema import Items, Text
from factgym.tools.toolbox import tool
from factgym.tools.untrusted import neutralise

Quote = Annotated[str, Text(max=4000)]
EvidenceId = Annotated[str, Text(1, MAX_ID_CHARS)]


class ClaimVerdict(TypedDict):
    """What is said of one statement of the answer."""

    claim: Annotated[str, Text(1, 4000, about="The statement, in the answer's words.")]
    status: Annotated[Status, "Whether the cited evidence carries the statement."]
    evidence_ids: Annotated[list[EvidenceId], Items(max=16, about="Ids of the passages that decide the statement.")]
    quote: Annotated[
        Quote | Annotated[list[Quote], Items(max=8)],
        "The deciding sentence, verbatim from a cited passage; a list when several are needed.",
    ]
    unsupported_span: NotRequired[
        Annotated[str, Text(max=4000, about="Shortest part of the answer that the evidence does not carry; or empty.")]
    ]
    reason: NotRequired[Annotated[str, Text(max=4000, about="One sentence.")]]


@dataclass(slots=True)
class ClaimDesk(EvidenceState):
    """The desk of a claim-checking episode; `submission` is the verdict object once there is one."""

    submission: dict[str, Any] | None = field(default=None)


def _render_receipt(verdict: str) -> str:
    return f"Submitted: {verdict}. The episode is over."


@tool(render=_render_receipt)
def submit(
    desk: ClaimDesk,
    claims: Annotated[list[ClaimVerdict], Items(1, 16)],
    final_verdict: Verdict,
    evidence_used: Annotated[list[EvidenceId], Items(max=32)] = [],  # noqa: B006 - a schema default, never mutated
) -> str:
    """Submit the verdict on the answer. This ends the episode.

    Args:
        claims: One entry for each statement of the answer.
        final_verdict: The verdict on the whole answer.
        evidence_used: Ids of all passages relied on.
    """
    # What is shown is neutralised, so what was copied from it is compared in the same form.
    checked = [
        {key: value if key == "evidence_ids" else _neutral(value) for key, value in claim.items()} for claim in claims
    ]
    desk.submission = {"claims": checked, "final_verdict": final_verdict, "evidence_used": list(evidence_used)}
    return final_verdict


def _neutral(value: Any) -> Any:
    return neutralise(value) if isinstance(value, str) else [neutralise(one) for one in value]
