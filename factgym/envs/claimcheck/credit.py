"""Span credits: which of the policy's own words earned which part of the reward.

The shares of the total are placed where they were earned: evidence on the turns that opened the gold passages, quote
and coverage on the quotes, everything else on the submission. The credits of a scored episode sum to its total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from factgym.core.episode import SpanCredit
from factgym.core.messages import Message, message_text
from factgym.core.strict_json import in_json
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
    places = [place for place in (in_json(one.quote, text) for one in score.quotes) if place is not None]
    if places:
        each = sum(rest.pop(name, 0.0) for name in _ON_QUOTES) / len(places)
        found += [SpanCredit(submission, start, end, each) for start, end in places]
    found.append(SpanCredit(submission, 0, len(text), sum(rest.values())))
    return tuple(credit for credit in found if credit.value)
