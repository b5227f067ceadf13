"""Tiny BERTs with random weights, whose vocabulary is a handful of words."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

# The hub's client reads it when it is imported, so a fixture would come too late.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

WORDS = ["leave", "refund", "audit", "vendor", "laptop", "flight", "month", "policy", "access", "notice", "days"]


def save_bert(folder: Path, name: str = "BertForSequenceClassification", **config: Any) -> str:
    """Save a tiny BERT with random weights and a vocabulary of the passages' words."""
    with warnings.catch_warnings():
        # torch's and SWIG's own imports warn of deprecations that are theirs to fix.
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch", reason="needs the extra 'dense'")
        transformers = pytest.importorskip("transformers", reason="needs the extra 'dense'")
        pytest.importorskip("sentence_transformers", reason="needs the extra 'dense'")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "monthly"]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=48).save_pretrained(folder)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    with torch.random.fork_rng():
        torch.manual_seed(11)
        made = transformers.BertConfig(
            vocab_size=len(vocabulary), max_position_embeddings=48, initializer_range=0.6, **sizes, **config
        )
        getattr(transformers, name)(made).save_pretrained(folder)
    return str(folder)
