"""Span credits: each stage's share of the total on the messages that earned it.

The question share lies on the questions inside the message that posed them, split by what each one's match adds; the
question-answer share on the answers' messages; the verdict's on the message of the verdict. The credits of a stage sum
to what the stage adds to the total.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from factgym.core.episode import SpanCredit
from factgym.core.messages import Message, message_text
from factgym.core.strict_json import in_json
from factgym.envs.profact.state import Desk
from factgym.rewards.profact.matching import Matching
from factgym.rewards.profact.stages import ProFactScore


def span_credits(
    shares: Mapping[str, float], score: ProFactScore, desk: Desk, messages: Sequence[Message], places: Sequence[int]
) -> tuple[SpanCredit, ...]:
    """Credits on the policy's messages.

    shares: component -> what it adds to the total. places: turn -> index of its message.
    """
    found: list[SpanCredit] = []
    if desk.asked is not None:
        message = places[desk.asked]
        found += _on_questions(_parts(score.question, shares.get("question", 0.0)), desk, messages, message)
    answered = [one.answered for one in desk.work if one.answered is not None]
    for name, matching in (("qa", score.qa), ("grounded_qa", score.grounded)):
        for pair, value in _parts(matching, shares.get(name, 0.0)):
            found.append(_whole(messages, places[answered[pair]], value))
    if desk.verdict is not None:
        found.append(_whole(messages, places[desk.verdict.turn], shares.get("verdict", 0.0)))
    return tuple(one for one in found if one.value)


def _parts(matching: Matching, share: float) -> Iterator[tuple[int, float]]:
    """Prediction -> its part of the share, by what its match adds to the score."""
    whole = sum(one.similarity for one in matching.matches)
    for one in matching.matches:
        if one.similarity:
            yield one.prediction, share * one.similarity / whole


def _on_questions(
    parts: Iterator[tuple[int, float]], desk: Desk, messages: Sequence[Message], message: int
) -> Iterator[SpanCredit]:
    text = message_text(messages[message])
    for place, value in parts:
        start, end = in_json(desk.work[place].question, text) or (0, len(text))
        yield SpanCredit(message, start, end, value)


def _whole(messages: Sequence[Message], message: int, value: float) -> SpanCredit:
    return SpanCredit(message, 0, len(message_text(messages[message])), value)
