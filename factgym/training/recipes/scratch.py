"""A tokenizer and a model from nothing, for machines without weights: byte-level BPE over phrases and a small Qwen3.

The chat template is that of Qwen3's instruction models as TRL ships it: TRL recognises templates by their exact text, and
parses tool calls of those alone. It writes a message the same wherever it occurs, so that a model is tuned on the prompts
that episodes have; Qwen3's other one drops thoughts from all but the last message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError

PREFIX = "scratch:"

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([km])", re.IGNORECASE)
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_PROMPT_END = "assistant\n"
_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", _PROMPT_END)
"""Ordinary tokens: special ones are left out when a reply is decoded, and the reply's format with them. No other token
holds a part of one, so that a prompt has the same tokens with and without its reply."""
_HEADS = 4
_CONTEXT = 32_768
_MIN_WEIGHTS, _MAX_WEIGHTS = 10_000, 500_000_000
# Weights below which a model has so many layers and so large a vocabulary.
_SHAPES = ((200_000, 2, 512), (1_000_000, 2, 2048), (3_000_000, 3, 2048), (12_000_000, 6, 2048), (60_000_000, 8, 4096))
_LARGEST_SHAPE = (12, 8192)


def parse_size(text: str) -> int:
    """Number of weights of a size such as "1m" or "350k". Raises ConfigError for another text."""
    match = _SIZE.fullmatch(text)
    weights = int(float(match[1]) * {"k": 1e3, "m": 1e6}[match[2].lower()]) if match else 0
    if not _MIN_WEIGHTS <= weights <= _MAX_WEIGHTS:
        raise ConfigError(f"{PREFIX}{text:.40}: a size is a number of weights from 10k to 500m, such as {PREFIX}1m")
    return weights


def shape_of(weights: int) -> tuple[int, int]:
    """Layers and vocabulary of a model with about that many weights."""
    return next((shape[1:] for shape in _SHAPES if weights < shape[0]), _LARGEST_SHAPE)


def render_chats(lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Chat lines, each with "messages" and "tools", as the model's template writes them."""
    from tokenizers import Tokenizer, models

    renderer = _with_template(Tokenizer(models.BPE()))
    for line in lines:
        yield renderer.apply_chat_template(line["messages"], tools=line.get("tools"), tokenize=False)


def make_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """Train byte-level BPE over phrases on texts; the result has Qwen3's chat template and its tokens."""
    from factgym.training.tokenizer import phrase_tokenizer

    return _with_template(phrase_tokenizer(texts, vocabulary, special=_SPECIAL, tags=_TAGS))


def _with_template(core: Any) -> Any:
    import trl
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=_SPECIAL[2],
        pad_token=_SPECIAL[0],
        padding_side="left",
        model_max_length=_CONTEXT,
    )
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3_instruct_2507.jinja"
    tokenizer.chat_template = template.read_text("utf-8")
    return tokenizer


def make_model(tokenizer: Any, weights: int, seed: int) -> Any:
    """A Qwen3 with random weights, about as many as asked for."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    layers, _ = shape_of(weights)
    vocabulary = len(tokenizer)
    # Heads of 8, 16, … dimensions: kernels for odd dimensions take twice as long.
    widths = range(32, 2048, 32) if weights >= 200_000 else range(16, 256, 2 * _HEADS)
    hidden = min(widths, key=lambda width: abs(count_weights(width, layers, vocabulary) - weights))
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=_intermediate(hidden),
        num_hidden_layers=layers,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,  # to copy tokens takes values of full rank
        head_dim=hidden // _HEADS,
        max_position_embeddings=_CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def count_weights(hidden: int, layers: int, vocabulary: int) -> int:
    """Weights of the shape that `make_model` builds: embeddings (tied), attention, gated MLP and norms."""
    head = hidden // _HEADS
    attention = 4 * hidden * hidden + 2 * head
    return vocabulary * hidden + layers * (attention + 3 * hidden * _intermediate(hidden) + 2 * hidden) + hidden


def _intermediate(hidden: int) -> int:
    return (hidden * 14 // 5) // 16 * 16 or 16
