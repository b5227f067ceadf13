"""One loaded model: prompts from conversations, and replies for padded batches of prompts.

Batches are decoded by transformers' `generate`. Two parts are ours because the library cannot do them:

- Sampling with a seed for each row (`Sampler`). The library draws all rows from one generator, in `generate` as in its
  continuous batching, so that a reply would depend on who else is in the batch.
- Ends row by row (`RowStops`): each row has its own limit, and may stop because nobody waits for it any more.
"""

from __future__ import annotations

import gc
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from factgym.agents.local.chat import ChatFormat, Codec
from factgym.agents.local.loading import DEFAULT_MAX_TOKENS, Loaded, LocalSettings, load
from factgym.agents.sampling import Sampling, split_reasoning
from factgym.core.errors import ConfigError
from factgym.core.messages import Completion, Message, ToolSchema
from factgym.core.policy import ContextOverflowError, PolicyError

if TYPE_CHECKING:
    import torch

_CLOSE_THOUGHT = "\n</think>\n\n"
"""Follows a prompt that ends inside a thought, before a given reply."""


class BatchMemoryError(Exception):
    """The device has too little memory for a batch."""


@dataclass(frozen=True, slots=True)
class GivenReply:
    """A reply to score: `completion`, after the reply began with `given`."""

    completion: str
    given: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of a rendered conversation.

    max_tokens: of the reply, at least 1. opened: the prompt ends inside a `<think>`. sent: the messages that were
    rendered, where they differ from the given messages. notes: for the record. scored_from: the ids hold a given reply,
    and those from here on are scored; None where a reply is to be generated.
    """

    ids: Sequence[int]
    max_tokens: int
    opened: bool = False
    sent: list[Message] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    scored_from: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a batch. seed: of the reply's random choices. stopped(): the reply is no longer needed."""

    prompt: Prompt
    seed: int
    stopped: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Generated:
    """The tokens of one reply, the end token included, and their log-probabilities where they are recorded.

    finite: every token came from logits that were numbers.
    """

    ids: Sequence[int]
    logprobs: Sequence[float] | None = None
    finite: bool = True


class LocalEngine:
    """A model, loaded on construction unless it is given. Not made for several threads."""

    def __init__(self, name: str, settings: LocalSettings, loaded: Loaded | None = None) -> None:
        self.name, self.settings = name, settings
        self.loaded = loaded or load(name, settings)
        self.sampling = resolve_sampling(settings, self.loaded.defaults)
        self.codec = Codec(self.loaded.tokenizer, self.loaded.eos, settings.stops)
        self.adapted: set[str] = set()  # changes of conversations that the chat template asked for
        options = dict(settings.template_options or {})
        self.chat = ChatFormat(
            self.loaded.tokenizer, self.codec, name, settings.tools, options, settings.send_reasoning
        )

    def prepare(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], scored: GivenReply | None = None
    ) -> Prompt:
        """The prompt of a request, with the given reply where there is one.

        Raises ContextOverflowError when it leaves no room for a reply, or the given reply does not fit.
        """
        rendered = self.chat.render(messages, tools)
        self.adapted.update(rendered.adapted)
        if scored is not None:
            return self._scored_prompt(rendered.text, scored)
        ids = self.codec.encode(rendered.text)
        if not ids:
            raise ConfigError(f"the chat template of {self.name!r} makes an empty prompt")
        free = self.loaded.context - len(ids)
        if free < 1:
            raise ContextOverflowError(
                f"the prompt has {len(ids)} tokens and the context {self.loaded.context}, reply included"
            )
        original = [{key: value for key, value in message.items() if key != "completion"} for message in messages]
        return Prompt(
            ids,
            min(self.settings.max_tokens or DEFAULT_MAX_TOKENS, free),
            opened=rendered.text.rstrip().endswith("<think>"),
            sent=None if rendered.sent == original else rendered.sent,
            notes={
                **({"control_tokens_broken_up": rendered.defused} if rendered.defused else {}),
                **({"adapted": list(rendered.adapted)} if rendered.adapted else {}),
            },
        )

    def _scored_prompt(self, text: str, reply: GivenReply) -> Prompt:
        """Prompt and given reply as ids, and where in them the scored tokens begin.

        A token that holds the end of `given` and the beginning of `completion` counts to the latter.
        """
        closing = _CLOSE_THOUGHT if text.rstrip().endswith("<think>") else ""
        head = text + closing + self.codec.defuse(reply.given)[0]
        # Tokenizers merge across the border: the two encodings are compared, and the first difference is the border.
        before, ids = self.codec.encode(head), self.codec.encode(head + self.codec.defuse(reply.completion)[0])
        pairs = zip(before, ids, strict=False)
        start = next((index for index, (old, new) in enumerate(pairs) if old != new), min(len(before), len(ids)))
        if start == len(ids) or not start:
            raise ConfigError("a completion to score must have a text, and follow a prompt")
        if len(ids) > self.loaded.context:
            raise ContextOverflowError(
                f"prompt and given reply have {len(ids)} tokens and the context {self.loaded.context}"
            )
        return Prompt(ids, 1, scored_from=start)

    def generate(self, rows: Sequence[Row]) -> list[Message | PolicyError]:
        """One reply for each row, or its fault. Raises BatchMemoryError when the rows do not fit together."""
        import torch

        try:
            # Rows whose reply is to be generated and rows whose reply is given need passes of their own.
            replies: dict[int, Generated] = {}
            for scored, run in ((False, self._sample), (True, self._score)):
                indices = [index for index, row in enumerate(rows) if (row.prompt.scored_from is not None) == scored]
                if indices:
                    replies.update(zip(indices, run([rows[index] for index in indices]), strict=True))
        except (RuntimeError, MemoryError) as error:
            text = str(error)
            by_type = isinstance(error, (torch.OutOfMemoryError, MemoryError))
            if not by_type and "out of memory" not in text and "not enough memory" not in text:
                raise
        else:
            return [self._message(row.prompt, replies[index]) for index, row in enumerate(rows)]
        _free_memory()  # here and not in the handler: the traceback holds the tensors until the handler ends
        raise BatchMemoryError(text.strip().split("\n")[0][:300])

    def _sample(self, rows: Sequence[Row]) -> list[Generated]:
        """Generate a batch of replies with a seed, a limit and stop strings for each row.

        Prompts are padded on the left. `do_sample` is off since the processor chooses every token itself.
        """
        import torch
        from transformers import GenerationConfig

        model, device = self.loaded.model, self.loaded.device
        ids, mask, pads = left_padded([row.prompt.ids for row in rows], self.loaded.pad)
        limits = [row.prompt.max_tokens for row in rows]
        stops = RowStops(self.codec, ids.shape[1], limits, [row.stopped for row in rows], device)
        with torch.inference_mode():
            sampler = Sampler(self.sampling, [row.seed for row in rows], pads, device, self.settings.logprobs)
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
        tokens, logprobs, finite = output[:, ids.shape[1] :].tolist(), sampler.logprobs(), sampler.finite_steps()
        return [
            Generated(tokens[row][:length], logprobs[row][:length] if logprobs else None, finite[row] >= length)
            for row, length in enumerate(stops.lengths())
        ]

    def _score(self, rows: Sequence[Row]) -> list[Generated]:
        """Of each prompt the tokens from `scored_from` on, with their log-probabilities (teacher forcing).

        One forward pass. Natural logs under the model's own distribution, before temperature, top_k, top_p and
        penalties, as those of sampled tokens are. Rows are padded at the left, so that all end in the last column;
        logits are computed for the last columns only, where the model can.
        """
        import torch

        model, device = self.loaded.model, self.loaded.device
        prompts = [row.prompt for row in rows]
        ids, mask, _ = left_padded([prompt.ids for prompt in prompts], self.loaded.pad)
        columns = max(len(prompt.ids) - (prompt.scored_from or 0) for prompt in prompts) + 1
        parameters = inspect.signature(model.forward).parameters
        options: dict[str, Any] = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        if "position_ids" in parameters:
            options["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0).to(device)
        if "logits_to_keep" in parameters:
            options["logits_to_keep"] = columns
        replies = []
        with torch.inference_mode():
            logits = model(**options).logits[:, -columns:].float()
            for row, prompt in enumerate(prompts):
                scored = list(prompt.ids[prompt.scored_from :])
                # Position t predicts token t + 1, so that the window begins one column before the first scored token.
                before = logits[row, -len(scored) - 1 : -1].log_softmax(-1)
                index = torch.tensor(scored, device=logits.device).unsqueeze(-1)
                values: list[float] = before.gather(-1, index).squeeze(-1).tolist()
                replies.append(Generated(scored, values, all(math.isfinite(value) for value in values)))
        return replies

    def _message(self, prompt: Prompt, generated: Generated) -> Message | PolicyError:
        """The assistant message. Reasoning is apart where the settings split it; tool calls stay in the text."""
        if not generated.finite:
            return PolicyError("local_model", f"the model's logits are not numbers in {self.loaded.dtype}")
        codec, ids = self.codec, generated.ids
        text = codec.text(ids)
        reasoning, content = split_reasoning(text, prompt.opened) if self.settings.reasoning == "split" else ("", text)
        completion: Completion = {
            "raw": codec.raw(ids),
            "model": self.name,
            "finish_reason": "stop" if codec.ended(ids) else "length",
            "usage": {"prompt_tokens": len(prompt.ids), "completion_tokens": len(ids)},
            "requests": 1,
        }
        notes = dict(prompt.notes)
        if generated.logprobs is not None:
            pairs = zip(ids, generated.logprobs, strict=True)
            completion["logprobs"] = [{"token": codec.raw([token]), "logprob": logprob} for token, logprob in pairs]
            notes |= {"prompt_ids": list(prompt.ids), "token_ids": list(ids)}
        if prompt.sent is not None:
            completion["sent"] = prompt.sent
        if notes:
            completion["notes"] = notes
        message: Message = {"role": "assistant", "content": content}
        if reasoning:
            message["reasoning_content"] = reasoning
        message["completion"] = completion
        return message

    def close(self) -> None:
        """Give the model's memory back."""
        del self.loaded, self.chat, self.codec
        _free_memory()

    def resolved(self) -> dict[str, Any]:
        """Settings as resolved on loading, as JSON data."""
        return {
            "device": self.loaded.device,
            "dtype": self.loaded.dtype,
            "context_length": self.loaded.context,
            "tools": "native" if self.chat.native else "text",
            "system_message": self.chat.system,
            "reasoning_key": self.chat.reasoning_key,
            "eos": sorted(self.codec.eos),
            "sampling": asdict(self.sampling),
            "commit": getattr(self.loaded.model.config, "_commit_hash", None),
        }


@dataclass(frozen=True, slots=True)
class ResolvedSampling:
    """Sampling with every value set. Temperature 0 is greedy; the neutral values of the others are 1, 0, 0, 1."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


def resolve_sampling(settings: Sampling, defaults: Mapping[str, Any]) -> ResolvedSampling:
    """The settings, with gaps filled from a model's generation_config (as far as it differs from the library's)."""
    fallback = defaults if defaults.get("do_sample") else {}
    chosen = {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k, "min_p": None}
    values = {name: fallback.get(name) if value is None else value for name, value in chosen.items()}
    values["repetition_penalty"] = defaults.get("repetition_penalty")
    return ResolvedSampling(**{name: value for name, value in values.items() if value is not None})  # type: ignore[arg-type]


class Sampler:
    """A logits processor for `generate`, to be its last, under greedy decoding: the Gumbel-max trick.

    A row's token is the argmax of its filtered logits plus Gumbel noise from the row's own generator, which is a draw
    from the softmax of those logits. So it is a function of the row's logits and seed alone, whatever else is in the
    batch. (Logits of one row in different batches agree up to the rounding of the model's arithmetic.) Temperature,
    top_k, top_p, min_p and the repetition penalty are the library's own.

    seeds: one for each row. pads: padding tokens at the left of each row's prompt. logprobs: record the chosen tokens'
    log-probabilities, and only these.
    """

    def __init__(
        self, sampling: ResolvedSampling, seeds: Sequence[int], pads: Sequence[int], device: Any, logprobs: bool = False
    ) -> None:
        import torch
        from transformers import generation as library

        greedy = sampling.temperature == 0
        self._penalty = None
        if sampling.repetition_penalty != 1:
            self._penalty = library.RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))
        filters = (
            (sampling.temperature != 1, library.TemperatureLogitsWarper, float(sampling.temperature)),
            (sampling.top_k, library.TopKLogitsWarper, sampling.top_k),
            (sampling.top_p < 1, library.TopPLogitsWarper, sampling.top_p),
            (sampling.min_p, library.MinPLogitsWarper, sampling.min_p),
        )
        self._warpers = [warper(value) for applies, warper, value in filters if applies and not greedy]
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in ([] if greedy else seeds)]
        self._pads = torch.tensor(pads, device=device).unsqueeze(-1)
        self._keep_logprobs = logprobs
        self._logprobs: list[torch.Tensor] = []
        self._steps = 0
        self._finite_steps = torch.full((len(seeds),), sys.maxsize, dtype=torch.long, device=device)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary), float32, whose argmax is the chosen token of each row."""
        import torch

        logits = scores
        if self._penalty is not None:
            # Padding is not penalised: it is replaced by a token that the row holds anyway.
            columns = self._pads.new_tensor(range(input_ids.shape[1]))
            scores = self._penalty(input_ids.where(columns >= self._pads, input_ids[:, -1:]), scores.clone())
        if self._generators:
            noise = torch.empty_like(scores)
            for row, generator in zip(noise, self._generators, strict=True):
                row.exponential_(generator=generator)
            # Gumbel-max (Gumbel, 1954): argmax(log p + G) is a draw from p where G is Gumbel noise, which is minus the
            # log of exponential noise. Filtered logits are log p up to a constant, so that no softmax is needed.
            # The clamp: `exponential_` may return 0, whose logarithm would make any token the argmax.
            scores = self.filtered(input_ids, scores) - noise.clamp_(min=torch.finfo(noise.dtype).tiny).log_()
        best = scores.max(-1, keepdim=True)
        broken = ~best.values.isfinite().squeeze(-1)
        self._finite_steps = self._finite_steps.where(~broken, self._finite_steps.clamp(max=self._steps))
        self._steps += 1
        if self._keep_logprobs:
            chosen = logits.gather(-1, best.indices) - logits.logsumexp(-1, keepdim=True)
            self._logprobs.append(chosen.squeeze(-1))
        return scores

    def filtered(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores over the temperature, with those outside top_k, top_p and min_p at minus infinity."""
        for warper in self._warpers:
            scores = warper(input_ids, scores)
        return scores

    def logprobs(self) -> list[list[float]]:
        """For each row the log-probability of each step's token; steps after the row's end are meaningless."""
        import torch

        return torch.stack(self._logprobs, -1).tolist() if self._logprobs else []

    def finite_steps(self) -> list[int]:
        """For each row the number of first tokens from finite logits; a huge number where all were finite."""
        return self._finite_steps.tolist()  # type: ignore[no-any-return]


class RowStops:
    """A stopping criterion for `generate` that decides row by row and records where each row ended.

    start: length of the padded prompts. limits: tokens of each reply, at most. stopped: for each row, whether its
    reply is no longer needed.
    """

    def __init__(
        self, codec: Codec, start: int, limits: Sequence[int], stopped: Sequence[Callable[[], bool]], device: Any
    ) -> None:
        import torch

        self._codec, self._start, self._stopped = codec, start, stopped
        self._limits = torch.tensor(limits, device=device)
        self._eos = torch.tensor(sorted(codec.eos), dtype=torch.long, device=device)
        self._lengths = torch.zeros(len(limits), dtype=torch.long, device=device)
        self._ended = [False] * len(limits)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: object) -> torch.Tensor:
        """For each row of (rows, tokens) whether it has ended."""
        import torch

        # Invariant: `_lengths` is 0 for a row until it ends, and then its reply's length, whatever `generate` appends.
        length = input_ids.shape[1] - self._start
        tails = input_ids[:, -min(length, self._codec.stop_window) :].tolist() if self._codec.stops else None
        for row, stopped in enumerate(self._stopped):
            if not self._ended[row]:
                self._ended[row] = stopped() or (tails is not None and self._codec.stopped(tails[row]))
        done = (self._limits <= length) | torch.isin(input_ids[:, -1], self._eos)
        done |= torch.tensor(self._ended, device=done.device)
        self._lengths = torch.where((self._lengths == 0) & done, length, self._lengths)
        return self._lengths > 0

    def lengths(self) -> list[int]:
        """Tokens of each reply, the end token included."""
        return self._lengths.tolist()  # type: ignore[no-any-return]


def left_padded(prompts: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Ids and mask (rows, longest), padded at the left, and each row's padding."""
    import torch

    # At the left, since `generate` appends at the right: every prompt has to end in the last column.
    longest = max(len(ids) for ids in prompts)
    pads = [longest - len(ids) for ids in prompts]
    ids = torch.tensor([[pad] * count + list(row) for count, row in zip(pads, prompts, strict=True)])
    mask = torch.tensor([[0] * count + [1] * (longest - count) for count in pads])
    return ids, mask, pads


def _free_memory() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
