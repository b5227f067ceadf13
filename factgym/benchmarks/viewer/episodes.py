"""An episode as the page shows it: one row of the list, and the detail that is read when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from factgym.benchmarks.records import (
    as_dict,
    as_list,
    as_number,
    as_text,
    as_texts,
    fault_of,
    has_fault,
    is_scored,
    shares,
)
from factgym.benchmarks.viewer.eve import documents_of, triple_of, triple_row
from factgym.benchmarks.viewer.marks import Mark, quote_span, split
from factgym.benchmarks.viewer.transcript import steps_of
from factgym.corpora.text import find_quote

COLUMNS = (
    *("task", "sample", "gold", "said", "reward", "turns", "state", "cause", "tokens", "seconds"),
    *("topic", "question", "answer"),
)
"""Columns of a list row.

sample: its number in the task's group. state: right, wrong, silent (no verdict), error, unscored, invalid (a proposal
that is none), or played (no gold label). cause: of an infrastructure error, else empty. tokens: of prompts and completions. tokens and seconds are null
where they are not known.
"""

_SUBMIT = "submit"
_LISTED = 300


def row_of(episode: Mapping[str, Any]) -> list[Any]:
    """One row of the list, in the order of `COLUMNS`; long texts are cut, because all rows are in memory."""
    reward, view = as_dict(episode.get("reward")), as_dict(episode.get("task_view"))
    metrics = as_dict(reward.get("metrics"))
    gold, said = as_text(metrics.get("gold_verdict")), as_text(metrics.get("verdict"))
    topic = " · ".join(part for part in (as_text(metrics.get("domain")), as_text(metrics.get("corruption"))) if part)
    state, question, answer = _state(episode, gold, said), as_text(view.get("question")), as_text(view.get("answer"))
    if (triple := triple_row(episode)) and state == "played":
        gold, said, state, question = triple
        answer = ""
    return [
        as_text(episode.get("task"))[:_LISTED],
        as_number(episode.get("sample")) or 0,
        gold[:_LISTED],
        said[:_LISTED],
        as_number(reward.get("total")) if is_scored(episode) else None,
        len(as_list(episode.get("turns"))),
        state,
        fault_of(episode)[0][:_LISTED] if has_fault(episode) else "",
        _tokens(episode),
        as_number(episode.get("seconds")) or None,
        topic[:_LISTED],
        question[:_LISTED],
        answer[:_LISTED],
    ]


def _tokens(episode: Mapping[str, Any]) -> float | None:
    usage = as_dict(episode.get("usage"))
    known = [as_number(usage.get(kind)) for kind in ("prompt_tokens", "completion_tokens")]
    return sum(one for one in known if one is not None) if any(one is not None for one in known) else None


def _state(episode: Mapping[str, Any], gold: str, said: str) -> str:
    if has_fault(episode):
        return "error"
    if not is_scored(episode):
        return "unscored"
    if not gold:
        return "played"
    return "right" if gold == said else "wrong" if said else "silent"


def detail_of(episode: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the page shows of one episode, as JSON data."""
    view, reward = as_dict(episode.get("task_view")), as_dict(episode.get("reward"))
    metrics = as_dict(reward.get("metrics"))
    submission = _submission(episode)
    claims = [as_dict(one) for one in as_list(as_dict(view.get("gold")).get("claims"))]
    triple = triple_of(episode)
    answer = "" if triple else as_text(view.get("answer"))
    marks = [*_span_marks(answer, claims, "u"), *_span_marks(answer, submission, "m")]
    return {
        "stop": as_text(episode.get("stop")),
        "error": list(fault_of(episode)) if has_fault(episode) else None,
        "attempt": as_number(episode.get("attempt")) or 1,
        "triple": triple,
        "question": "" if triple else as_text(view.get("question")),
        "answer": split(answer, marks),
        "claims": [_claim(one) for one in claims],
        "submitted": [_submitted(one, view) for one in submission],
        "reward": _reward(reward),
        "passages": documents_of(episode) if triple else _passages(view, metrics, claims, submission),
        "elsewhere": [] if triple else _elsewhere(view, metrics),
        "steps": steps_of(episode),
        "metrics": {name: as_text(value) for name, value in metrics.items() if not isinstance(value, (list, dict))},
    }


def _submission(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The claims of the last accepted submission."""
    for turn in reversed(as_list(episode.get("turns"))):
        for call in reversed(as_list(as_dict(turn).get("calls"))):
            if as_dict(call).get("tool") == _SUBMIT and not as_dict(call).get("error"):
                arguments = as_dict(as_dict(call).get("arguments"))
                if "evidence_alignment" in arguments:
                    return [_aligned(as_dict(one)) for one in as_list(arguments.get("evidence_alignment"))]
                return [as_dict(one) for one in as_list(arguments.get("claims"))]
    return []


def _aligned(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An alignment of a SEVA verdict as a submitted claim: its part of the claim, and its quote of the source."""
    quote = as_text(entry.get("source_span"))
    return {
        "claim": as_text(entry.get("claim_span")),
        "status": as_text(entry.get("status")),
        "evidence_ids": ["source"],
        "quote": "" if quote == "NOT_FOUND" else quote,
    }


def _span_marks(answer: str, claims: Sequence[Mapping[str, Any]], mark: str) -> list[Mark]:
    """Ranges of the answer that claims call unsupported, each looked for inside its own claim first."""
    marks = []
    for claim in claims:
        span = as_text(claim.get("unsupported_span"))
        base, frame = 0, find_quote(as_text(claim.get("text") or claim.get("claim")), answer)
        place = find_quote(span, answer[frame[0] : frame[1]]) if frame else None
        if frame and place:
            base = frame[0]
        else:
            place = find_quote(span, answer)
        if place:
            marks.append((base + place[0], base + place[1], mark))
    return marks


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    facts = [as_list(fact) for fact in as_list(claim.get("facts"))]
    return {
        "text": as_text(claim.get("text")),
        "status": as_text(claim.get("status")),
        "reason": as_text(claim.get("reason")),
        "evidence": list(dict.fromkeys(as_text(fact[0]) for fact in facts if fact)),
    }


def _submitted(claim: Mapping[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    """A submitted claim, each of its quotes with whether it stands in a passage that the claim cites."""
    cited = as_texts(claim.get("evidence_ids"))
    texts = [as_text(one.get("text")) for one in map(as_dict, as_list(view.get("passages"))) if one.get("id") in cited]
    quotes = [quote for quote in as_texts(claim.get("quote")) if quote.strip()]
    return {
        "text": as_text(claim.get("claim")),
        "status": as_text(claim.get("status")),
        "reason": as_text(claim.get("reason")),
        "evidence": cited,
        "quotes": [[quote, any(quote_span(quote, text) for text in texts)] for quote in quotes],
    }


def _reward(reward: Mapping[str, Any]) -> dict[str, Any]:
    weights, gates = as_dict(reward.get("weights")), as_dict(reward.get("gates"))
    components = as_dict(reward.get("components"))
    earned = shares(reward)
    rows = [
        [name, as_number(value), as_number(weights.get(name)), as_number(gates.get(name)), earned.get(name)]
        for name, value in components.items()
    ]
    return {
        "total": as_number(reward.get("total")),
        "status": as_text(reward.get("status")),
        "rows": rows,
        "gates": [[name, as_number(value)] for name, value in gates.items() if name not in components],
    }


def _passages(
    view: Mapping[str, Any],
    metrics: Mapping[str, Any],
    claims: Sequence[Mapping[str, Any]],
    submission: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """The passages with gold facts (`g`) and submitted quotes (`q`) marked, and how the policy used each."""
    facts = [as_list(fact) for claim in claims for fact in as_list(claim.get("facts"))]
    used = {name: set(as_texts(metrics.get(name))) for name in ("read", "cited", "gold_evidence")}
    shown = []
    for passage in map(as_dict, as_list(view.get("passages"))):
        own, text = as_text(passage.get("id")), as_text(passage.get("text"))
        marks: list[Mark] = [(*_range(fact), "g") for fact in facts if fact and fact[0] == own]
        marks += _quote_marks(own, text, submission)
        tags = [
            tag for tag, name in (("gold", "gold_evidence"), ("read", "read"), ("cited", "cited")) if own in used[name]
        ]
        shown.append({"id": own, "title": as_text(passage.get("title")), "text": split(text, marks), "tags": tags})
    return shown


def _range(fact: Sequence[Any]) -> tuple[int, int]:
    ends = [one for one in fact[1:3] if isinstance(one, int)]
    return (ends[0], ends[1]) if len(ends) == 2 else (0, 0)


def _quote_marks(passage: str, text: str, submission: Sequence[Mapping[str, Any]]) -> list[Mark]:
    marks = []
    for claim in submission:
        if passage in as_texts(claim.get("evidence_ids")):
            for quote in as_texts(claim.get("quote")):
                span = quote_span(quote, text)
                if span:
                    marks.append((*span, "q"))
    return marks


def _elsewhere(view: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[list[str]]:
    """`[id, tag]` for passages that were read or cited but are not among those of the task."""
    own = {as_text(as_dict(one).get("id")) for one in as_list(view.get("passages"))}
    return [[one, tag] for tag in ("read", "cited") for one in as_texts(metrics.get(tag)) if one not in own]
