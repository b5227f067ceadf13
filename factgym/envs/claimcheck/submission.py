"""The verdict object, the `submit` tool, and the published JSON Schema of both, `verdict.schema.json`.

The schema is for those who validate or constrain a model's output elsewhere. After a change of `submit`, write it
again: `python -m factgym.envs.claimcheck.submission`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from factgym.datasets.claims import Status, Verdict
from factgym.tools.evidence import MAX_ID_CHARS, EvidenceState
from factgym.tools.toolbox import tool
from factgym.tools.untrusted import neutralise

SCHEMA_FILE = Path(__file__).with_name("verdict.schema.json")

Quote = Annotated[str, Field(max_length=4000)]
EvidenceId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]


class ClaimVerdict(TypedDict):
    """The verdict on one statement of the answer."""

    claim: Annotated[str, Field(min_length=1, max_length=4000, description="The statement, in the answer's words.")]
    status: Annotated[Status, Field(description="Whether the cited evidence carries the statement.")]
    evidence_ids: Annotated[
        list[EvidenceId], Field(max_length=16, description="Ids of the passages that decide the statement.")
    ]
    quote: Annotated[
        Quote | Annotated[list[Quote], Field(max_length=8)],
        Field(description="The deciding sentence, verbatim from a cited passage; a list when several are needed."),
    ]
    unsupported_span: NotRequired[
        Annotated[
            str,
            Field(
                max_length=4000, description="Shortest part of the answer that the evidence does not carry; or empty."
            ),
        ]
    ]
    reason: NotRequired[Annotated[str, Field(max_length=4000, description="One sentence.")]]


@dataclass(slots=True)
class ClaimCheckState(EvidenceState):
    """The state of an episode. submission: the verdict object, None before it is submitted."""

    submission: dict[str, Any] | None = None


@tool(render="Submitted: {}. The episode is over.".format, ends_episode=True)
def submit(
    state: ClaimCheckState,
    claims: Annotated[list[ClaimVerdict], Field(min_length=1, max_length=16)],
    final_verdict: Verdict,
    evidence_used: Annotated[list[EvidenceId], Field(max_length=32)] = [],  # noqa: B006 - a schema default, never mutated
) -> str:
    """Submit the verdict on the answer. This ends the episode.

    Args:
        claims: One entry for each statement of the answer.
        final_verdict: The verdict on the whole answer.
        evidence_used: Ids of all passages relied on.
    """
    # Shown text is neutralised, so text copied from it is compared in the same form.
    entries: list[dict[str, Any]] = [dict(claim) for claim in claims]
    for entry in entries:
        for key, value in entry.items():
            if key != "evidence_ids":
                entry[key] = neutralise(value) if isinstance(value, str) else [neutralise(text) for text in value]
    state.submission = {"claims": entries, "final_verdict": final_verdict, "evidence_used": list(evidence_used)}
    return final_verdict


def verdict_schema() -> dict[str, Any]:
    """Return the JSON Schema of a verdict, from the signature of `submit`."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ClaimCheck verdict"}
    return head | {"description": submit.description} | submit.parameters


def write_schema(file: Path = SCHEMA_FILE) -> None:
    """Write the schema as indented JSON."""
    file.write_text(json.dumps(verdict_schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_schema()
