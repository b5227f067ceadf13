"""What a local model can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from factgym.agents.sampling import Sampling
from factgym.core.errors import ConfigError

DType = Literal["auto", "float32", "bfloat16", "float16"]

DEFAULT_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(Sampling):
    """Sampling settings, and how the model is loaded and batched.

    A sampling setting that is None follows the model's own generation_config where that samples; otherwise the
    temperature is 1 and nothing is cut off. max_tokens None is 1024. logprobs: natural logs under the model's own
    distribution, before temperature, top_k, top_p and penalties.
    revision: branch, tag or commit of a hub model. dtype: "auto" is bfloat16 on a CUDA device that has it, otherwise
    float32. device: such as "cuda:1", "mps" or "cpu"; None takes CUDA, then MPS, then the CPU. batch_size: most rows
    of a batch. batch_wait: seconds that a batch which is not full waits for more rows. max_batch_tokens: most tokens
    of a batch, prompts and replies, with padding; one row alone may have more. context_length: tokens of prompt and
    reply; None takes the model's. chat_template: a file with a Jinja template that replaces the tokenizer's.
    template_options: further variables of the template, such as `{"enable_thinking": False}`. trust_remote_code: run
    code that the model's repository brings; off unless asked for.
    """

    revision: str | None = None
    dtype: DType = "auto"
    device: str | None = None
    batch_size: int = 16
    batch_wait: float = 0.05
    max_batch_tokens: int = 65_536
    context_length: int | None = None
    chat_template: str | Path | None = None
    template_options: dict[str, Any] | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        for name, least in (("batch_size", 1), ("max_batch_tokens", 1), ("context_length", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, not {value}")
        if not 0 <= self.batch_wait < math.inf:
            raise ConfigError(f"batch_wait must be a number of seconds >= 0, not {self.batch_wait}")
