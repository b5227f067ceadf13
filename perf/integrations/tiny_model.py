"""For whole rollouts: a tokenizer trained on the spot, the tokens a model would sample, and a small model.

Needs `transformers`, which the frameworks that want tokens bring along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factgym.core.env import Env
from perf.integrations.compare import Recorded, hermes, record

END, PAD = "<|im_end|>", "<|endoftext|>"
_SPECIAL = [PAD, "<|im_start|>", END]
_MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
_VOCABULARY = 4000
_READ = 10
"""Episodes on whose messages the tokenizer is trained."""


CHATML = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}{%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}
{%- endif %}{{ '# Tools\\n<tools>' }}{%- for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{%- endfor %}
{{- '\\n</tools>\\nFor each call write\\n<tool_call>\\n{"name": ..., "arguments": ...}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}{{ '<|im_start|>assistant' }}
{%- if message.content %}{{ '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}{{ '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{%- if call.function.arguments is string %}{{ call.function.arguments }}{%- else %}
{{- call.function.arguments | tojson }}{%- endif %}{{ '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{%- endif %}
{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""
"""ChatML with Hermes' calls, as the Qwen 2.5 family writes them."""


def tokenizer(texts: Sequence[str], template: str, vocabulary: int = _VOCABULARY) -> Any:
    """A fast tokenizer: byte-level BPE trained on the texts, with ChatML's special tokens and that chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=_SPECIAL,
    )
    core.train_from_iterator(texts, trainer)
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in _MARKS])
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD, padding_side="left")
    tokenizer.chat_template = template
    return tokenizer


def texts_of(env: Env[Any]) -> list[str]:
    """Return the texts of the oracle's first episodes."""
    texts = []
    for episode in record(env, _READ):
        env.reset(options={"task": episode.task})
        for message in episode.messages:
            env.step(message)
        texts += [message["content"] or "" for message in env.episode.messages]
    return texts


def sampled(tokenizer: Any, episode: Recorded) -> list[list[int]]:
    """The ids of an episode's messages, each with the token that ends it."""
    return [tokenizer(f"{hermes(message)}{END}", add_special_tokens=False)["input_ids"] for message in episode.messages]


def model(tokenizer: Any, size: int = 16) -> Any:
    """A causal model of one layer with random weights, for the tokenizer."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=size,
        intermediate_size=size,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=1_000_000,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)
