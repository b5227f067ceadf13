"""Tokens for whole rollouts: what a model would sample for a recorded message, under a tokenizer trained on the spot.

Needs `transformers`, which the frameworks that want tokens bring along.
"""

from __future__ import annotations

from typing import Any

from factgym.core.env import Env
from factgym.integrations.speed.frame import Recorded, hermes, record

END, PAD = "<|im_end|>", "<|endoftext|>"
_SPECIAL = [PAD, "<|im_start|>", END]
_MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
_VOCABULARY = 4000
_READ = 10
"""Episodes on whose messages the tokenizer is trained."""


def tokenizer(env: Env[Any], template: str) -> Any:
    """A fast tokenizer: byte-level BPE over the first episodes, ChatML's special tokens. template: its chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=_SPECIAL,
    )
    core.train_from_iterator(_texts(env), trainer)
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in _MARKS])
    found: Any = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD, padding_side="left")
    found.chat_template = template
    return found


def _texts(env: Env[Any]) -> list[str]:
    found = []
    for one in record(env, _READ):
        env.reset(options={"task": one.task})
        for message in one.messages:
            env.step(message)
        found += [message["content"] or "" for message in env.episode.messages]
    return found


def sampled(tokenizer: Any, one: Recorded) -> list[list[int]]:
    """The ids of an episode's messages, each with the token that ends it."""
    return [tokenizer(f"{hermes(message)}{END}", add_special_tokens=False)["input_ids"] for message in one.messages]
