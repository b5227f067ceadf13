"""When each row of a batch ends: end tokens, its own token limit, stop strings, or nobody waiting for it any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from factgym.agents.local.codec import Codec

if TYPE_CHECKING:
    import torch


class RowStops:
    """A stopping criterion of `generate` that decides row by row and remembers where each row ended.

    start: length of the padded prompts. limits: most tokens of each reply. unwanted: for each row, whether its reply
    is no longer waited for.
    """

    def __init__(
        self, codec: Codec, start: int, limits: Sequence[int], unwanted: Sequence[Callable[[], bool]], device: Any
    ) -> None:
        import torch

        self._codec, self._start, self._unwanted = codec, start, unwanted
        self._limits = torch.tensor(limits, device=device)
        self._eos = torch.tensor(sorted(codec.eos), dtype=torch.long, device=device)
        self._lengths = torch.zeros(len(limits), dtype=torch.long, device=device)
        self._ended = [False] * len(limits)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: object) -> torch.Tensor:
        """For each row of (rows, tokens) whether it has ended."""
        import torch

        length = input_ids.shape[1] - self._start
        done = (self._limits <= length) | torch.isin(input_ids[:, -1], self._eos)
        done |= torch.tensor(self._ends(input_ids, length), device=done.device)
        self._lengths = torch.where((self._lengths == 0) & done, length, self._lengths)
        return self._lengths > 0

    def _ends(self, input_ids: torch.Tensor, length: int) -> list[bool]:
        """What has to be asked row by row: is the reply still wanted, and does it hold a stop string?"""
        tails = input_ids[:, -min(length, self._codec.window) :].tolist() if self._codec.stops else None
        for row, unwanted in enumerate(self._unwanted):
            self._ended[row] = (
                self._ended[row] or unwanted() or (tails is not None and self._codec.stopped(tails[row]))
            )
        return self._ended

    def lengths(self) -> list[int]:
        """Tokens of each reply, the end token included."""
        lengths: list[int] = self._lengths.tolist()
        return lengths
