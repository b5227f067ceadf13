"""Choosing the next token of each row so that a row's reply does not depend on its batch.

`generate` decodes greedily; what it sees as the logits is what this module hands it. A row's choice is the argmax of
its filtered logits plus Gumbel noise from the row's own generator, which is a draw from the softmax of those logits.
So it is a function of the row's logits and seed alone. (Logits of one row in different batches agree up to the
rounding of the model's arithmetic.)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from factgym.agents.sampling import Sampling

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token is chosen from logits, every value settled: temperature 0 is greedy, the others' neutral is 1, 0, 0, 1."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def greedy(self) -> bool:
        """Whether seeds have no effect."""
        return self.temperature == 0


def settle(settings: Sampling, defaults: Mapping[str, Any]) -> Choice:
    """The settings, with gaps filled from a model's generation_config (what of it differs from the library's)."""
    own = defaults if defaults.get("do_sample") else {}
    asked = {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k, "min_p": None}
    values = {name: own.get(name) if value is None else value for name, value in asked.items()}
    values["repetition_penalty"] = defaults.get("repetition_penalty")
    return Choice(**{name: value for name, value in values.items() if value is not None})  # type: ignore[arg-type]


def filtered(logits: torch.Tensor, choice: Choice) -> torch.Tensor:
    """Logits (rows, vocabulary) over the temperature, with what top_k, top_p and min_p leave out at minus infinity.

    top_p keeps the smallest set of most probable tokens whose mass reaches it, after top_k; always one at least.
    """
    import torch

    scores = logits if choice.temperature == 1 else logits / choice.temperature
    if choice.top_k:
        kth = scores.topk(min(choice.top_k, scores.shape[-1])).values[:, -1:]
        scores = scores.masked_fill(scores < kth, -torch.inf)
    if choice.top_p < 1:
        left = int((scores > -torch.inf).sum(-1).max()) if choice.top_k else scores.shape[-1]
        ordered = scores.topk(left).values if choice.top_k else scores.sort(descending=True).values
        mass = ordered.softmax(-1).cumsum(-1)
        kept = (mass < choice.top_p).sum(-1, keepdim=True).clamp(max=left - 1)
        scores = scores.masked_fill(scores < ordered.gather(-1, kept), -torch.inf)
    if choice.min_p:
        least = scores.max(-1, keepdim=True).values + torch.tensor(choice.min_p).log().item()
        scores = scores.masked_fill(scores < least, -torch.inf)
    return scores


class Sampler:
    """A logits processor of `generate`, to be its last, under greedy decoding.

    seeds: one for each row. pads: padding tokens at the left of each row's prompt. logprobs: keep the chosen tokens'
    log-probabilities, and only these.
    """

    def __init__(
        self, choice: Choice, seeds: Sequence[int], pads: Sequence[int], device: Any, logprobs: bool = False
    ) -> None:
        import torch

        self._choice = choice
        self._pads = pads
        self._keep = logprobs
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in ([] if choice.greedy else seeds)]
        self._logprobs: list[torch.Tensor] = []
        self._steps = 0
        self._sound = torch.full((len(seeds),), sys.maxsize, dtype=torch.long, device=device)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary), float32, whose argmax is the chosen token of each row."""
        logits = scores
        if self._choice.repetition_penalty != 1:
            scores = self._penalised(input_ids, scores)
        if not self._choice.greedy:
            scores = filtered(scores, self._choice) - self._exponential(scores).log_()
        best = scores.max(-1, keepdim=True)
        broken = ~best.values.isfinite().squeeze(-1)
        self._sound = self._sound.where(~broken, self._sound.clamp(max=self._steps))
        self._steps += 1
        if self._keep:
            chosen = logits.gather(-1, best.indices) - logits.logsumexp(-1, keepdim=True)
            self._logprobs.append(chosen.squeeze(-1))
        return scores

    def _exponential(self, scores: torch.Tensor) -> torch.Tensor:
        import torch

        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self._generators, strict=True):
            row.exponential_(generator=generator)
        return noise.clamp_(min=torch.finfo(noise.dtype).tiny)

    def _penalised(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores with the tokens that a row already has made less likely; its padding does not count."""
        scores, penalty = scores.clone(), self._choice.repetition_penalty
        for row, (ids, pad) in enumerate(zip(input_ids, self._pads, strict=True)):
            seen = ids[pad:].unique()
            old = scores[row, seen]
            scores[row, seen] = (old * penalty).where(old < 0, old / penalty)
        return scores

    def logprobs(self) -> list[list[float]]:
        """For each row the log-probability of each step's token; steps after the row's end are meaningless."""
        import torch

        return torch.stack(self._logprobs, -1).tolist() if self._logprobs else []

    def sound(self) -> list[int]:
        """For each row how many of its first tokens came from logits that were numbers; a huge one for all of them."""
        steps: list[int] = self._sound.tolist()
        return steps
