"""What a local model has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalCounters:
    """Totals since the model was made.

    batches: batches that were answered. rows: their rows. largest_batch: rows of the largest. prompt_tokens and
    completion_tokens: without padding. padding_tokens: padding of the prompts. out_of_memory: batches that did not fit
    and were halved.
    """

    batches: int = 0
    rows: int = 0
    largest_batch: int = 0
    prompt_tokens: int = 0
    padding_tokens: int = 0
    completion_tokens: int = 0
    out_of_memory: int = 0
