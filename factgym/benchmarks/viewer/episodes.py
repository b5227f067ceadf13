"""An episode as the page shows it: one row of the list, and the detail that is read when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from factgym.benchmarks.records import (
    fault_of,
    has_fault,
    is_scored,
    items,
    members,
    number,
    numbers,
    parts_of,
    shares,
    text_form,
    texts_of,
)
from factgym.benchmarks.viewer.eve import card, documents_of, quote_marks, span_range, triple_of, triple_row
from factgym.benchmarks.viewer.transcript import Mark, marked_pieces, quote_span, steps_of
from factgym.text.folding import find_quote

COLUMNS = (
    *("task", "sample", "gold", "verdict", "reward", "turns", "state", "cause", "tokens", "seconds"),
    *("topic", "question", "answer", "codes", "parts"),
)
"""Columns of a list row.

sample: its number in the task's group. state: right, wrong, silent (no verdict), error, unscored, invalid (a proposal
that is none), or played (no gold label). cause: of an infrastructure error, else empty. tokens: of prompts and completions. tokens and seconds are null
where they are unknown. codes: distinct error codes of turns and calls. parts: component -> value.
"""

_MAX_CHARS = 300


def row_of(episode: Mapping[str, Any]) -> list[Any]:
    """Return one row of the list, in the order of `COLUMNS`; long texts are cut, because all rows are in memory."""
    reward, metrics, view = parts_of(episode)
    gold, verdict = text_form(metrics.get("gold_verdict")), text_form(metrics.get("verdict"))
    topic = " · ".join(filter(None, (text_form(metrics.get(name)) for name in ("domain", "corruption"))))
    question, answer = text_form(view.get("question")), text_form(view.get("answer"))
    if has_fault(episode):
        state = "error"
    elif not is_scored(episode):
        state = "unscored"
    elif not gold:
        state = "played"
    else:
        state = "right" if gold == verdict else "wrong" if verdict else "silent"
    if (triple := triple_row(episode)) and state == "played":
        gold, verdict, state, question = triple
        answer = ""
    turns = [members(turn) for turn in items(episode.get("turns"))]
    acts = [act for turn in turns for act in (turn, *map(members, items(turn.get("calls"))))]
    usage = numbers(episode.get("usage"))
    tokens = [usage[kind] for kind in ("prompt_tokens", "completion_tokens") if kind in usage]
    return [
        text_form(episode.get("task"))[:_MAX_CHARS],
        number(episode.get("sample")) or 0,
        gold[:_MAX_CHARS],
        verdict[:_MAX_CHARS],
        number(reward.get("total")) if is_scored(episode) else None,
        len(turns),
        state,
        fault_of(episode)[0][:_MAX_CHARS] if has_fault(episode) else "",
        sum(tokens) if tokens else None,
        number(episode.get("seconds")) or None,
        topic[:_MAX_CHARS],
        question[:_MAX_CHARS],
        answer[:_MAX_CHARS],
        list(dict.fromkeys(text_form(act.get("error"))[:_MAX_CHARS] for act in acts if act.get("error"))),
        {name: round(value, 6) for name, value in numbers(reward.get("components")).items()},
    ]


def detail_of(episode: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of one episode for the page, as JSON data."""
    reward, metrics, view = parts_of(episode)
    submission = _submission(episode)
    claims = [members(claim) for claim in items(members(view.get("gold")).get("claims"))]
    triple = triple_of(episode)
    answer = "" if triple else text_form(view.get("answer"))
    marks = [*_unsupported(answer, claims, "u"), *_unsupported(answer, submission, "m")]
    passages = [members(passage) for passage in items(view.get("passages"))]
    ids = {text_form(passage.get("id")) for passage in passages}
    elsewhere = [[name, tag] for tag in ("read", "cited") for name in texts_of(metrics.get(tag)) if name not in ids]
    return {
        "stop": text_form(episode.get("stop")),
        "error": list(fault_of(episode)) if has_fault(episode) else None,
        "attempt": number(episode.get("attempt")) or 1,
        "triple": triple,
        "question": "" if triple else text_form(view.get("question")),
        "answer": marked_pieces(answer, marks),
        "claims": [_claim(claim) for claim in claims],
        "submitted": [_submitted(claim, passages) for claim in submission],
        "reward": _reward(reward),
        "passages": documents_of(episode) if triple else _passages(passages, metrics, claims, submission),
        "elsewhere": [] if triple else elsewhere,
        "steps": steps_of(episode),
        "metrics": {name: text_form(value) for name, value in metrics.items() if not isinstance(value, (list, dict))},
    }


def _submission(episode: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the claims of the last accepted submission; an alignment of a SEVA verdict counts as a claim."""
    for turn in map(members, reversed(items(episode.get("turns")))):
        for call in map(members, reversed(items(turn.get("calls")))):
            if call.get("tool") != "submit" or call.get("error"):
                continue
            arguments = members(call.get("arguments"))
            if "evidence_alignment" not in arguments:
                return [members(claim) for claim in items(arguments.get("claims"))]
            return [
                {
                    "claim": text_form(entry.get("claim_span")),
                    "status": text_form(entry.get("status")),
                    "evidence_ids": ["source"],
                    "quote": "" if (quote := text_form(entry.get("source_span"))) == "NOT_FOUND" else quote,
                }
                for entry in map(members, items(arguments.get("evidence_alignment")))
            ]
    return []


def _unsupported(answer: str, claims: Sequence[Mapping[str, Any]], mark: str) -> list[Mark]:
    """Return ranges of the answer that claims call unsupported, each searched inside its own claim first."""
    marks = []
    for claim in claims:
        span = text_form(claim.get("unsupported_span"))
        frame = find_quote(text_form(claim.get("text") or claim.get("claim")), answer)
        inside = find_quote(span, answer[frame[0] : frame[1]]) if frame else None
        if frame and inside:
            marks.append((frame[0] + inside[0], frame[0] + inside[1], mark))
        elif match := find_quote(span, answer):
            marks.append((*match, mark))
    return marks


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    facts = [items(fact) for fact in items(claim.get("facts"))]
    return {
        **{key: text_form(claim.get(key)) for key in ("text", "status", "reason")},
        "evidence": list(dict.fromkeys(text_form(fact[0]) for fact in facts if fact)),
    }


def _submitted(claim: Mapping[str, Any], passages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a submitted claim, each of its quotes with whether a passage that the claim cites contains it."""
    cited = texts_of(claim.get("evidence_ids"))
    texts = [text_form(passage.get("text")) for passage in passages if passage.get("id") in cited]
    quotes = [quote for quote in texts_of(claim.get("quote")) if quote.strip()]
    return {
        "text": text_form(claim.get("claim")),
        "status": text_form(claim.get("status")),
        "reason": text_form(claim.get("reason")),
        "evidence": cited,
        "quotes": [[quote, any(quote_span(quote, text) for text in texts)] for quote in quotes],
    }


def _reward(reward: Mapping[str, Any]) -> dict[str, Any]:
    components, gates = members(reward.get("components")), members(reward.get("gates"))
    weights, earned = members(reward.get("weights")), shares(reward)
    return {
        "total": number(reward.get("total")),
        "status": text_form(reward.get("status")),
        "rows": [
            [name, number(value), number(weights.get(name)), number(gates.get(name)), earned.get(name)]
            for name, value in components.items()
        ],
        "gates": [[name, number(value)] for name, value in gates.items() if name not in components],
    }


def _passages(
    passages: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Any],
    claims: Sequence[Mapping[str, Any]],
    submission: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the passages with gold facts (`g`) and submitted quotes (`q`) marked, and the policy's use of each."""
    facts = [items(fact) for claim in claims for fact in items(claim.get("facts"))]
    uses = {
        tag: set(texts_of(metrics.get(key)))
        for tag, key in (("gold", "gold_evidence"), ("read", "read"), ("cited", "cited"))
    }
    cards = []
    for passage in passages:
        name, text = text_form(passage.get("id")), text_form(passage.get("text"))
        marks: list[Mark] = [(*span_range(*fact[1:3]), "g") for fact in facts if fact and fact[0] == name]
        for claim in submission:
            if name in texts_of(claim.get("evidence_ids")):
                marks += [mark for quote in texts_of(claim.get("quote")) for mark in quote_marks(quote, text)]
        tags = [tag for tag, names in uses.items() if name in names]
        cards.append(card(name, text_form(passage.get("title")), text, marks, tags))
    return cards
