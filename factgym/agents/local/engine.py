"""One loaded model that turns conversations into prompts and batches of prompts into replies."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from factgym.agents.local.chat import ChatFormat
from factgym.agents.local.codec import Codec
from factgym.agents.local.errors import NoRoomError
from factgym.agents.local.loading import Loaded, load
from factgym.agents.local.prompt import Prompt
from factgym.agents.local.reply import Generated, reply_message
from factgym.agents.local.sampler import Sampler, settle
from factgym.agents.local.scoring import GivenReply, score_prompts, scored_prompt
from factgym.agents.local.settings import DEFAULT_MAX_TOKENS, LocalSettings
from factgym.agents.local.stops import RowStops
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import ContextOverflowError, PolicyError

if TYPE_CHECKING:
    import torch

    from factgym.agents.local.worker import Row


class LocalEngine:
    """Loads on construction. Not made for several threads."""

    def __init__(self, name: str, settings: LocalSettings) -> None:
        self.name, self.settings = name, settings
        self.loaded: Loaded = load(name, settings)
        self.choice = settle(settings, self.loaded.defaults)
        self.codec = Codec(self.loaded.tokenizer, self.loaded.eos, settings.stops)
        self.chat = ChatFormat(
            self.loaded.tokenizer, self.codec, name, settings.tools, dict(settings.template_options or {})
        )

    def prepare(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Prompt:
        """The prompt of a request. Raises ContextOverflowError when it leaves no room for a reply."""
        rendered = self.chat.render(messages, tools)
        ids = self.codec.encode(rendered.text)
        if not ids:
            raise ConfigError(f"the chat template of {self.name!r} makes an empty prompt")
        room = self.loaded.context - len(ids)
        if room < 1:
            raise ContextOverflowError(
                f"the prompt has {len(ids)} tokens and the context {self.loaded.context}, reply included"
            )
        given = [{key: value for key, value in message.items() if key != "completion"} for message in messages]
        return Prompt(
            ids,
            min(self.settings.max_tokens or DEFAULT_MAX_TOKENS, room),
            opened=rendered.text.rstrip().endswith("<think>"),
            sent=None if rendered.sent == given else rendered.sent,
            notes={"control_tokens_broken_up": rendered.defused} if rendered.defused else {},
        )

    def prepare_scored(self, messages: Sequence[Message], tools: Sequence[ToolSchema], scored: GivenReply) -> Prompt:
        """The prompt of a request whose reply is given. Raises ContextOverflowError when the whole does not fit."""
        return scored_prompt(self.codec, self.chat.render(messages, tools).text, scored, self.loaded.context)

    def generate(self, rows: Sequence[Row]) -> list[Message | PolicyError]:
        """One reply for each row, or its fault. Raises NoRoomError when the rows do not fit together."""
        try:
            replies = self._answered(rows)
        except (RuntimeError, MemoryError) as fault:
            if not _is_out_of_memory(fault):
                raise
            text = str(fault).strip().split("\n")[0][:300]
        else:
            return [self._message(row, one) for row, one in zip(rows, replies, strict=True)]
        _free()  # here and not in the handler: the traceback holds the tensors until the handler ends
        raise NoRoomError(text)

    def _answered(self, rows: Sequence[Row]) -> list[Generated]:
        """Rows that ask for a reply and rows whose reply is given need passes of their own."""
        found: dict[int, Generated] = {}
        asked = [place for place, row in enumerate(rows) if row.prompt.scored_from is None]
        given = [place for place in range(len(rows)) if place not in set(asked)]
        if asked:
            found.update(zip(asked, self._generated([rows[place] for place in asked]), strict=True))
        if given:
            prompts = [rows[place].prompt for place in given]
            found.update(zip(given, score_prompts(self.loaded, prompts, left_padded), strict=True))
        return [found[place] for place in range(len(rows))]

    def _generated(self, rows: Sequence[Row]) -> list[Generated]:
        import torch
        from transformers import GenerationConfig

        model, device = self.loaded.model, self.loaded.device
        ids, mask, pads = left_padded([row.prompt.ids for row in rows], self.loaded.pad)
        limits = [row.prompt.max_tokens for row in rows]
        stops = RowStops(self.codec, ids.shape[1], limits, [row.stopped for row in rows], device)
        with torch.inference_mode():
            sampler = Sampler(self.choice, [row.seed for row in rows], pads, device, self.settings.logprobs)
            output = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                logits_processor=[sampler],
                stopping_criteria=[stops],
                generation_config=GenerationConfig(
                    do_sample=False,
                    max_new_tokens=max(limits),
                    eos_token_id=sorted(self.codec.eos) or None,
                    pad_token_id=self.loaded.pad,
                ),
            )
        return _cut(output[:, ids.shape[1] :].tolist(), stops.lengths(), sampler)

    def _message(self, row: Row, generated: Generated) -> Message | PolicyError:
        if not generated.sound:
            return PolicyError("local_model", f"the model's logits are not numbers in {self.loaded.dtype}")
        return reply_message(self.name, self.codec, self.settings, row.prompt, generated)

    def close(self) -> None:
        """Give the model's memory back."""
        del self.loaded, self.chat, self.codec
        _free()

    def resolved(self) -> dict[str, Any]:
        """What was settled when the model was loaded, as JSON data."""
        choice = {name: getattr(self.choice, name) for name in self.choice.__slots__}
        return {
            "device": self.loaded.device,
            "dtype": self.loaded.dtype,
            "context_length": self.loaded.context,
            "tools": "native" if self.chat.native else "text",
            "system_message": self.chat.system,
            "eos": sorted(self.codec.eos),
            "sampling": choice,
            "commit": getattr(self.loaded.model.config, "_commit_hash", None),
        }


def left_padded(prompts: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Ids and mask (rows, longest), padded at the left, and each row's padding."""
    import torch

    longest = max(len(ids) for ids in prompts)
    pads = [longest - len(ids) for ids in prompts]
    ids = torch.tensor([[pad] * left + list(row) for left, row in zip(pads, prompts, strict=True)])
    mask = torch.tensor([[0] * left + [1] * (longest - left) for left in pads])
    return ids, mask, pads


def _cut(rows: list[list[int]], lengths: list[int], sampler: Sampler) -> list[Generated]:
    logprobs, sound = sampler.logprobs(), sampler.sound()
    return [
        Generated(ids[:length], logprobs[row][:length] if logprobs else None, sound[row] >= length)
        for row, (ids, length) in enumerate(zip(rows, lengths, strict=True))
    ]


def _is_out_of_memory(fault: Exception) -> bool:
    import torch

    text = str(fault)
    return isinstance(fault, (torch.OutOfMemoryError, MemoryError)) or (
        "out of memory" in text or "not enough memory" in text
    )


def _free() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
