"""A tokenizer trained on the spot, and what a model would sample for a message under it."""

from __future__ import annotations

from functools import cache
from typing import Any

import reference_episodes
from transformers import PreTrainedTokenizerFast

from factgym.agents.resolve import find_scripted_agent
from factgym.core.messages import Message
from factgym.integrations.session import Session
from perf.integrations import tiny_model


@cache
def tokenizer(template: str, vocabulary: int = 1500) -> PreTrainedTokenizerFast:
    """Byte-level BPE over prompts of ours, with a chat template."""
    texts = [
        message["content"] or ""
        for env in ("claimcheck-multihop", "seva", "profact", "corver-qa")
        for task in range(3)
        for message in Session(env).start(task)
    ]
    return tiny_model.tokenizer(texts, template, vocabulary)


def written(message: Message, tok: PreTrainedTokenizerFast) -> str:
    """A message as the template writes it, which is what a model would sample: up to its end token."""
    if not message.get("tool_calls"):
        return f"{message['content'] or ''}{tok.eos_token}"
    text = tok.apply_chat_template([{"role": "user", "content": "q"}, dict(message)], tokenize=False)
    head = tok.apply_chat_template([{"role": "user", "content": "q"}], tokenize=False, add_generation_prompt=True)
    return text.removeprefix(head).rstrip("\n").removeprefix("<think>\n\n</think>\n\n")


def own_split(env_id: str, **config: Any) -> dict[str, Any]:
    """The settings with the environment's own default split by name, that of the scripts here; training has another."""
    if "split" in config:
        return config
    split = getattr(Session(env_id, **config).env.config, "chosen_split", "")
    return {**config, "split": split} if split else config


def oracle(env_id: str, task: int, **config: object) -> list[Message]:
    """The oracle's messages, with native calls."""
    env = Session(env_id, **config).env
    env.reset(options={"task": task})
    messages = reference_episodes.scripted_messages(env, find_scripted_agent(env_id, "oracle").start(env, 0))
    return [reference_episodes.to_native(env, message, n) for n, message in enumerate(messages)]
