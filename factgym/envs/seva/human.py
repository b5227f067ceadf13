"""A verdict asked for part by part: how a person plays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from factgym.corpora.sentences import sentences
from factgym.envs.seva.tasks import SevaTask
from factgym.rewards.seva import ERROR_TYPES, JUDGMENTS, LABELS, NOT_FOUND, STATUSES

Ask = Callable[[str, Sequence[str]], str]
"""Asks a person: what for, and the answers to choose from (none for any text)."""


def compose(task: SevaTask, ask: Ask) -> dict[str, Any]:
    """The verdict of whoever answers `ask`; one entry and one step for each sentence of the claim."""
    alignments, chain = [], []
    for start, end in sentences(task.claim) or [(0, len(task.claim))]:
        part = task.claim[start:end]
        status = ask(f"status of “{part}”", STATUSES)
        source = ask("words of the source, verbatim", ()) if status != "not_found" else NOT_FOUND
        judgment = JUDGMENTS[STATUSES.index(status)] if status != "not_found" else JUDGMENTS[1]
        alignments.append({"claim_span": part[:200], "source_span": source, "status": status})
        explanation = ask("why, in a sentence that names what was compared", ())
        chain.append({"claim_part": part, "source_evidence": source, "judgment": judgment, "explanation": explanation})
    label = ask("label", LABELS)
    verdict: dict[str, Any] = {"evidence_alignment": alignments, "reasoning_chain": chain, "label": label}
    verdict["confidence"] = _number(ask("confidence from 0 to 1", ()))
    if label == LABELS[1]:
        verdict |= {"error_type": ask("error type", ERROR_TYPES), "fix_suggestion": ask("smallest correction", ())}
    return verdict


def _number(said: str) -> float:
    try:
        return min(1.0, max(0.0, float(said)))
    except ValueError:
        return 0.5
