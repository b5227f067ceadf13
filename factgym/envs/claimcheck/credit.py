"""Span credits: which of the policy's own words earned which part of the reward.

The shares of the total are placed where they were earned: evidence on the turns that opened the gold passages, quote
and coverage on the quotes, everything else on the submission. The credits of a scored episode sum to its total.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from factgym.core.messages import Message, message_text
from factgym.core.report import SpanCredit
from factgym.rewards.claimcheck import ClaimGold, ClaimScore

_ON_QUOTES = ("quote", "coverage")


def span_credits(
    shares: Mapping[str, float],
    score: ClaimScore,
    gold: ClaimGold,
    opened: Mapping[str, int],
    messages: Sequence[Message],
    submission: int,
) -> tuple[SpanCredit, ...]:
    """Credits on the policy's messages.

    opened: gold evidence id -> index of the message that opened it. submission: index of the submitting message.
    """
    text = message_text(messages[submission])
    found: list[SpanCredit] = []
    rest = dict(shares)
    readers = [opened[one] for one in score.counted if one in (gold.ids or gold.nearest) and one in opened]
    if readers:
        each = rest.pop("evidence", 0.0) / len(readers)
        found += [SpanCredit(place, 0, len(message_text(messages[place])), each) for place in readers]
    places = [place for place in (_locate(one.quote, text) for one in score.quotes) if place is not None]
    if places:
        each = sum(rest.pop(name, 0.0) for name in _ON_QUOTES) / len(places)
        found += [SpanCredit(submission, start, end, each) for start, end in places]
    found.append(SpanCredit(submission, 0, len(text), sum(rest.values())))
    return tuple(credit for credit in found if credit.value)


def _locate(quote: str, text: str) -> tuple[int, int] | None:
    """Where a quote stands in JSON text: plain, or escaped in either of the two usual ways."""
    for form in (quote, json.dumps(quote)[1:-1], json.dumps(quote, ensure_ascii=False)[1:-1]):
        start = text.find(form)
        if start >= 0:
            return start, start + len(form)
    return None
