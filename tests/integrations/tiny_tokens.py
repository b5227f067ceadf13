"""A tokenizer trained on the spot, and what a model would sample for a message under it."""

from __future__ import annotations

from functools import cache

import same_room
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from factgym.agents.players import find_player
from factgym.core.messages import Message
from factgym.integrations.session import Session

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


@cache
def tokenizer(template: str, vocabulary: int = 1500) -> PreTrainedTokenizerFast:
    """Byte-level BPE over prompts of ours, with a chat template."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    texts = [
        message["content"] or ""
        for env in ("claimcheck-multihop", "seva", "profact", "corver-qa")
        for task in range(3)
        for message in Session(env).start(task)
    ]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary, show_progress=False, initial_alphabet=alphabet, special_tokens=SPECIAL
        ),
    )
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    found = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    found.chat_template = template
    return found


def written(message: Message, known: PreTrainedTokenizerFast) -> str:
    """A message as the template writes it, which is what a model would sample: up to its end token."""
    if not message.get("tool_calls"):
        return f"{message['content'] or ''}{known.eos_token}"
    text = known.apply_chat_template([{"role": "user", "content": "q"}, dict(message)], tokenize=False)
    head = known.apply_chat_template([{"role": "user", "content": "q"}], tokenize=False, add_generation_prompt=True)
    return text.removeprefix(head).rstrip("\n").removeprefix("<think>\n\n</think>\n\n")


def oracle(env_id: str, task: int, **config: object) -> list[Message]:
    """The oracle's messages, with native calls."""
    env = Session(env_id, **config).env
    env.reset(options={"task": task})
    said = same_room._said(env, find_player(env_id, "oracle").start(env, 0))
    return [same_room._as_native(env, message, n) for n, message in enumerate(said)]
