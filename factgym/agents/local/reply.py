"""From sampled tokens to an assistant message with its completion record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from factgym.agents.local.codec import Codec
from factgym.agents.local.prompt import Prompt
from factgym.agents.local.settings import LocalSettings
from factgym.agents.sampling import split_reasoning
from factgym.core.messages import Completion, Message


@dataclass(frozen=True, slots=True)
class Generated:
    """The tokens of one reply, the end token included, and their log-probabilities where they are kept.

    sound: every token came from logits that were numbers.
    """

    ids: Sequence[int]
    logprobs: Sequence[float] | None = None
    sound: bool = True


def reply_message(model: str, codec: Codec, settings: LocalSettings, prompt: Prompt, generated: Generated) -> Message:
    """The assistant message. Reasoning is apart where the settings split it; tool calls stay in the text."""
    text = codec.text(generated.ids)
    reasoning, content = split_reasoning(text, prompt.opened) if settings.reasoning == "split" else ("", text)
    message: Message = {"role": "assistant", "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    message["completion"] = _completion(model, codec, prompt, generated)
    return message


def _completion(model: str, codec: Codec, prompt: Prompt, generated: Generated) -> Completion:
    ids = generated.ids
    completion: Completion = {
        "raw": codec.raw(ids),
        "model": model,
        "finish_reason": "stop" if codec.ended(ids) else "length",
        "usage": {"prompt_tokens": len(prompt.ids), "completion_tokens": len(ids)},
        "requests": 1,
    }
    notes = dict(prompt.notes)
    if generated.logprobs is not None:
        pairs = zip(ids, generated.logprobs, strict=True)
        completion["logprobs"] = [{"token": codec.raw([one]), "logprob": value} for one, value in pairs]
        notes["token_ids"] = list(ids)
    if prompt.sent is not None:
        completion["sent"] = prompt.sent
    if notes:
        completion["notes"] = notes
    return completion
