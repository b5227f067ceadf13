"""How a model's reply is sampled: one set of settings for every policy that runs a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from factgym.core.errors import ConfigError

ToolMode = Literal["auto", "native", "text"]
"""How a policy offers tools: by the server's or template's own tool calling, as text in the prompt, or found out."""

ReasoningMode = Literal["split", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of a model's reply; None leaves a setting to the model or its server.

    temperature: >= 0, where 0 is greedy. top_p: in (0, 1]. top_k: >= 1. max_tokens: of one reply, reasoning included.
    stop: strings that end a reply. logprobs: keep the log-probability of each sampled token. tools: see ToolMode.
    reasoning: "split" takes `<think>…</think>` out of the content into `reasoning_content`; "keep" leaves it.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool = False
    tools: ToolMode = "auto"
    reasoning: ReasoningMode = "split"

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, self.temperature is None or 0 <= self.temperature < math.inf, ">= 0")
        _check("top_p", self.top_p, self.top_p is None or 0 < self.top_p <= 1, "in (0, 1]")
        _check("top_k", self.top_k, self.top_k is None or self.top_k >= 1, "at least 1")
        _check("max_tokens", self.max_tokens, self.max_tokens is None or self.max_tokens >= 1, "at least 1")
        fits = all(isinstance(one, str) and one for one in self.stops)
        _check("stop", self.stop, fits, "a string that is not empty, or a list of such")

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings, none as an empty tuple."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


def _check(name: str, value: object, fits: bool, takes: str) -> None:
    if not fits:
        raise ConfigError(f"{name} must be {takes}, not {value!r:.80}")
