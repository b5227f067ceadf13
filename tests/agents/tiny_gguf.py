"""A tiny random Llama as a GGUF file, made by hand; each tool call of `served_model` is one token."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from served_model import BIASES, CALLS, SPECIAL, prompt_texts

_HIDDEN, _HEADS, _INNER, _LAYERS, _WORDS = 32, 4, 64, 1, 400


def write_model(path: Path, template: str, calls: Sequence[str] = CALLS, biases: Sequence[float] = BIASES) -> None:
    """Write the model. template: its chat template (Jinja). calls: texts that are one token each, with their biases."""
    from gguf import GGUFWriter, LlamaFileType, TokenType

    # GPT-2's byte-level BPE names a byte by a printable character. Merges build the commonest words from the left.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    names = [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
    words = Counter(re.findall(r" ?[A-Za-z]+", " ".join(prompt_texts()))).most_common(_WORDS)
    spelt = [word.replace(" ", names[32]) for word, _ in words]
    merges = {word[:size]: f"{word[: size - 1]} {word[size - 1]}" for word in spelt for size in range(2, len(word) + 1)}
    tokens = [*SPECIAL, *names, *merges, *calls]
    ordinary = len(names) + len(merges)
    types = [TokenType.CONTROL] * len(SPECIAL) + [TokenType.NORMAL] * ordinary + [TokenType.USER_DEFINED] * len(calls)
    end = SPECIAL.index("<|im_end|>")
    letters = [tokens.index(letter) for letter in "aeio"]

    writer = GGUFWriter(str(path), "llama")
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_context_length(32768)
    writer.add_embedding_length(_HIDDEN)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_HIDDEN // _HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(list(merges.values()))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)

    for name, values in _weights(len(tokens), end, letters, biases):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(size: int, end: int, letters: Sequence[int], biases: Sequence[float]) -> Iterator[tuple[str, np.ndarray]]:
    """Random tensors by name. size: of the vocabulary. The output prefers its last tokens, `letters` and `end`."""
    random = np.random.default_rng(1)

    def normal(rows: int, columns: int) -> np.ndarray:
        return random.normal(0, 0.02, (rows, columns)).astype(np.float32)

    embedding, output = normal(size, _HIDDEN), normal(size, _HIDDEN)
    # The first component is 1 for every token, so that the output's first column is a bias.
    embedding[:, 0] = 1.0
    output[:, 0] = 0.0
    output[letters, 0] = 0.7
    output[: len(SPECIAL), 0] = -3.0
    output[end, 0] = 1.05
    output[-len(biases) :, 0] = biases
    yield "token_embd.weight", embedding
    yield "output_norm.weight", np.ones(_HIDDEN, np.float32)
    yield "output.weight", output
    for layer in range(_LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", np.ones(_HIDDEN, np.float32)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}.weight", normal(_HIDDEN, _HIDDEN)
        for name, shape in (
            ("ffn_gate", (_INNER, _HIDDEN)),
            ("ffn_up", (_INNER, _HIDDEN)),
            ("ffn_down", (_HIDDEN, _INNER)),
        ):
            yield f"blk.{layer}.{name}.weight", normal(*shape)
