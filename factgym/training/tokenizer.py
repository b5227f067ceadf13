"""Byte-level BPE over phrases: tokenizers for small models that are trained from nothing on the traces of a few tasks.

Instructions, tool schemas and the scaffolding of calls are the same in every episode, and are most of its text. Ordinary
pre-tokenisation gives each of their words and quotation marks a token: 1,200 of them in an episode of `claimcheck-mini`.
Here a phrase in lower case and a run of JSON keys may become one token, while capitalised words and digits stay apart:
names and numbers, the part that a policy has to compare, are written with the same tokens wherever they occur. After
"SuperBPE: Space Travel for Language Models" (merges across spaces), without its second stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

PHRASES = "|".join(
    (
        r"""(?:[\s{}\[\],:]*"[a-z_ ]*"|[\s{}\[\],:]+")+[\s{}\[\],:]*"?""",  # JSON keys, their punctuation, plain values
        r"\p{Lu}\p{Ll}*",
        r"\p{N}",
        r"[\p{Ll}\s,;:'()<>/=_-]+",  # a phrase up to a capital, a digit, or the end of a sentence
        r"[^\p{L}\p{N}\s]+\s*",
        r"\p{L}",  # letters without case
    )
)
"""Pattern of the units within which tokens are merged (Oniguruma)."""


def phrase_tokenizer(
    texts: Iterable[str], entries: int = 2048, *, special: Sequence[str] = (), tags: Sequence[str] = ()
) -> Any:
    """Train byte-level BPE over phrases; returns a `tokenizers.Tokenizer` of at most `entries` tokens.

    Any text is encoded without loss. special, tags: tokens of a chat template, of which no other token has a part;
    special ones are left out of decoded text, tags are not.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PHRASES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=entries - len(tags),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special),
        show_progress=False,
    )
    whole = re.compile("|".join(map(re.escape, (*special, *tags))) or r"(?!)")
    tokenizer.train_from_iterator((part for text in texts for part in whole.split(text)), trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in tags])
    return tokenizer
