"""Tiny verifiers, built on the spot: their vocabulary is the words of a few texts, their weights random or trained."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def libraries() -> tuple[Any, Any]:
    """torch and transformers, else the test is skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own imports warn of deprecations that are theirs to fix
        torch = pytest.importorskip("torch", reason="needs the extra 'local'")
        transformers = pytest.importorskip("transformers", reason="needs the extra 'local'")
    return torch, transformers


def save_tokenizer(folder: Path, texts: Iterable[str], limit: int, roberta: bool = False) -> int:
    """Save a tokenizer of whole words, and return the size of its vocabulary. limit: tokens of an input."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    words = sorted({word for text in [*texts, "0", "1"] for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    start, end, pad = ("<s>", "</s>", "<pad>") if roberta else ("[CLS]", "[SEP]", "[PAD]")
    vocabulary = {word: number for number, word in enumerate([pad, "[UNK]", start, end, *words])}
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    fast.normalizer = tokenizers.normalizers.Lowercase()
    fast.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    fast.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=fast,
        model_max_length=limit,
        pad_token=pad,
        unk_token="[UNK]",
        cls_token=start,
        sep_token=end,
        eos_token=end,
    ).save_pretrained(folder)
    return len(vocabulary)


def save_model(
    folder: Path, texts: Iterable[str], kind: str = "BertForSequenceClassification", limit: int = 96, **config: Any
) -> str:
    """Save a model of an architecture with random weights."""
    torch, transformers = libraries()
    folder.mkdir(parents=True, exist_ok=True)
    size = save_tokenizer(folder, texts, limit, roberta=kind.startswith("T5"))
    with torch.random.fork_rng():
        torch.manual_seed(7)
        if kind.startswith("T5"):
            sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
            made = transformers.T5Config(
                vocab_size=size, decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, **sizes, **config
            )
        else:
            made = transformers.BertConfig(
                vocab_size=size, max_position_embeddings=limit, **{"initializer_range": 0.3, **SIZES, **config}
            )
        getattr(transformers, kind)(made).save_pretrained(folder)
    return str(folder)


def train(folder: str, pairs: Sequence[tuple[str, str]], labels: Sequence[int], steps: int = 300) -> None:
    """Train a sequence classifier until every pair has its label, and save it."""
    torch, transformers = libraries()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    inputs = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, truncation="only_first", return_tensors="pt")
    target = torch.tensor(labels)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(steps):
        output = model(**inputs, labels=target)
        model.zero_grad()
        output.loss.backward()
        optimiser.step()
        if output.loss < 0.02:
            break
    model.eval()
    assert (model(**inputs).logits.argmax(-1) == target).all()
    model.save_pretrained(folder)
