"""How likely a given reply is to a local model: one forward pass over prompt and reply (teacher forcing).

The log-probabilities are natural logs under the model's own distribution, before temperature, top_k, top_p and
penalties, as those of sampled tokens are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from factgym.agents.local.codec import Codec
from factgym.agents.local.loading import Loaded
from factgym.agents.local.prompt import Prompt
from factgym.agents.local.reply import Generated
from factgym.core.errors import ConfigError
from factgym.core.policy import ContextOverflowError

if TYPE_CHECKING:
    import torch

_END_OF_THOUGHT = "\n</think>\n\n"
"""What a prompt that ends inside a thought needs before a given reply can follow."""


@dataclass(frozen=True, slots=True)
class GivenReply:
    """What is scored: `completion`, after the reply began with `given`."""

    completion: str
    given: str = ""


def scored_prompt(codec: Codec, rendered: str, reply: GivenReply, context: int) -> Prompt:
    """Prompt and reply as ids, and where in them the scored tokens begin.

    A token that holds the end of `given` and the beginning of `completion` counts to the latter. Raises ConfigError
    for an empty completion and ContextOverflowError when the whole does not fit.
    """
    opened = rendered.rstrip().endswith("<think>")
    head = rendered + (_END_OF_THOUGHT if opened else "") + codec.defuse(reply.given)[0]
    before, ids = codec.encode(head), codec.encode(head + codec.defuse(reply.completion)[0])
    same = zip(before, ids, strict=False)
    start = next((place for place, (old, new) in enumerate(same) if old != new), min(len(before), len(ids)))
    if start == len(ids) or not start:
        raise ConfigError("a completion to score must have a text, and follow a prompt")
    if len(ids) > context:
        raise ContextOverflowError(f"prompt and given reply have {len(ids)} tokens and the context {context}")
    return Prompt(ids, 1, scored_from=start)


def score_prompts(loaded: Loaded, prompts: Sequence[Prompt], pad: Any) -> list[Generated]:
    """Of each prompt the tokens from `scored_from` on, with their log-probabilities.

    pad: `left_padded` of the engine. Rows are padded at the left, so that all end in the last column.
    """
    import torch

    ids, mask, _ = pad([prompt.ids for prompt in prompts], loaded.pad)
    counts = [len(prompt.ids) - (prompt.scored_from or 0) for prompt in prompts]
    with torch.inference_mode():
        logits = _tail_logits(loaded, ids, mask, max(counts) + 1)
        return [_scored(logits[row], prompt) for row, prompt in enumerate(prompts)]


def _tail_logits(loaded: Loaded, ids: torch.Tensor, mask: torch.Tensor, keep: int) -> torch.Tensor:
    """Logits (rows, keep, vocabulary), float32, of the last columns; only these are computed where the model can."""
    known = inspect.signature(loaded.model.forward).parameters
    options: dict[str, Any] = {"input_ids": ids.to(loaded.device), "attention_mask": mask.to(loaded.device)}
    if "position_ids" in known:
        options["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0).to(loaded.device)
    if "logits_to_keep" in known:
        options["logits_to_keep"] = keep
    logits: torch.Tensor = loaded.model(**options).logits[:, -keep:].float()
    return logits


def _scored(logits: torch.Tensor, prompt: Prompt) -> Generated:
    """One row. logits (keep, vocabulary): the last stands after the last token, and says nothing about the row."""
    import torch

    scored = list(prompt.ids[prompt.scored_from :])
    before = logits[-len(scored) - 1 : -1].log_softmax(-1)
    index = torch.tensor(scored, device=logits.device).unsqueeze(-1)
    values: list[float] = before.gather(-1, index).squeeze(-1).tolist()
    return Generated(scored, values, all(math.isfinite(one) for one in values))
