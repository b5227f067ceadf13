"""Which waiting requests make up the next batch.

The oldest is always in it, so that nobody starves. The others are those of nearest prompt length, as long as the
batch keeps its limits and no prompt is much longer than another: padding costs as much as tokens do.
"""

from __future__ import annotations

from collections.abc import Sequence

_LENGTH_RATIO, _LENGTH_SLACK = 2, 128
"""Prompts of one batch have at most twice the tokens of the shortest, and this many more."""


def choose_batch(prompts: Sequence[int], replies: Sequence[int], max_rows: int, max_tokens: int) -> list[int]:
    """Indices of the rows to answer next, in their order of arrival.

    prompts, replies: tokens of each waiting prompt and the most that its reply may have, the oldest first; not empty.
    max_rows: at least 1. max_tokens: of the batch with padding; the oldest alone may have more.
    """
    first = prompts[0]
    shortest = longest = first
    reply = replies[0]
    chosen = [0]
    for index in sorted(range(1, len(prompts)), key=lambda i: (abs(prompts[i] - first), i)):
        if len(chosen) >= max_rows:
            break
        low, high = min(shortest, prompts[index]), max(longest, prompts[index])
        most = max(reply, replies[index])
        if high > _LENGTH_RATIO * low + _LENGTH_SLACK or (len(chosen) + 1) * (high + most) > max_tokens:
            continue
        shortest, longest, reply = low, high, most
        chosen.append(index)
    return sorted(chosen)
