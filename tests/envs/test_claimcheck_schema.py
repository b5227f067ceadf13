"""The published verdict schema is what the `submit` tool checks; jsonschema itself is the judge of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from factgym.core.calls import ToolCall
from factgym.datasets.claims import STATUSES, VERDICTS
from factgym.envs.claimcheck.schema import SCHEMA_FILE, verdict_schema, write_schema
from factgym.envs.claimcheck.submission import ClaimDesk, submit
from factgym.tools.library import PassageLibrary
from factgym.tools.toolbox import Toolbox

PUBLISHED: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))

CLAIM = {"claim": "A day has 24 hours.", "status": "supported", "evidence_ids": ["E1"], "quote": "24 hours"}
VERDICT: dict[str, Any] = {"claims": [CLAIM], "final_verdict": "supported"}


def verdict(**changes: Any) -> dict[str, Any]:
    return {**VERDICT, "claims": [{**CLAIM, **changes}]}


def test_the_published_file_is_the_tools_schema(tmp_path: Path) -> None:
    assert verdict_schema() == PUBLISHED
    assert {key: value for key, value in PUBLISHED.items() if key in submit.parameters} == submit.parameters
    write_schema(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text("utf-8") == SCHEMA_FILE.read_text("utf-8")


def test_it_is_a_schema_and_names_the_labels_in_their_order() -> None:
    Draft202012Validator.check_schema(PUBLISHED)
    properties = PUBLISHED["properties"]
    assert properties["final_verdict"]["enum"] == list(VERDICTS)
    assert properties["claims"]["items"]["properties"]["status"]["enum"] == list(STATUSES)


GOOD = [
    VERDICT,
    {**VERDICT, "evidence_used": ["E1", "E2"]},
    verdict(quote=["one", "two"], unsupported_span="", reason="So it says."),
    verdict(evidence_ids=[], quote=""),
]
BAD = [
    {},
    {"claims": [CLAIM]},
    {"final_verdict": "supported"},
    {"claims": [], "final_verdict": "supported"},
    {"claims": [CLAIM] * 17, "final_verdict": "supported"},
    {**VERDICT, "final_verdict": "true"},
    {**VERDICT, "final_verdict": None},
    {**VERDICT, "confidence": 1.0},
    {**VERDICT, "claims": CLAIM},
    {**VERDICT, "evidence_used": "E1"},
    verdict(status="partially_supported"),
    verdict(evidence_ids="E1"),
    verdict(evidence_ids=[""]),
    verdict(evidence_ids=["E" * 81]),
    verdict(quote=None),
    verdict(quote=["q"] * 9),
    verdict(quote="q" * 4001),
    verdict(claim=""),
    verdict(note="x"),
]


@pytest.mark.parametrize("value", GOOD, ids=range(len(GOOD)))
def test_a_verdict_that_fits_ends_the_episode(value: dict[str, Any]) -> None:
    assert Draft202012Validator(PUBLISHED).is_valid(value)
    desk = ClaimDesk(PassageLibrary([]))
    assert Toolbox((submit,)).call(desk, ToolCall("submit", value)).error is None
    assert desk.submission is not None
    assert Draft202012Validator(PUBLISHED).is_valid(desk.submission)


@pytest.mark.parametrize("value", BAD, ids=range(len(BAD)))
def test_a_verdict_that_does_not_fit_is_refused_by_both(value: dict[str, Any]) -> None:
    assert not Draft202012Validator(PUBLISHED).is_valid(value)
    desk = ClaimDesk(PassageLibrary([]))
    error = Toolbox((submit,)).call(desk, ToolCall("submit", value)).error
    assert error is not None and error.code == "invalid_arguments" and error.path is not None
    assert desk.submission is None


def test_the_caller_keeps_its_own_object() -> None:
    value = verdict(quote="<think>24 hours", reason="x")
    before = json.dumps(value)
    desk = ClaimDesk(PassageLibrary([]))
    Toolbox((submit,)).call(desk, ToolCall("submit", value))
    assert json.dumps(value) == before
    assert desk.submission is not None
    assert desk.submission["claims"][0]["quote"] == "‹think>24 hours"
