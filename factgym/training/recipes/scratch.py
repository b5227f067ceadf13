"""A tokenizer and a model from nothing, for machines without weights: byte-level BPE over phrases and a small Qwen3.

The chat template is that of Qwen3's instruction models as TRL ships it: TRL recognises templates by their exact text, and
parses tool calls of those alone. It writes a message the same wherever it occurs, so that a model is tuned on the prompts
that episodes have; Qwen3's other one drops thoughts from all but the last message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from factgym.core.errors import ConfigError
from factgym.training.recipes.templates import CHATML, template_text

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


def make_tokenizer(chats: Iterable[str], vocabulary: int, passages: Iterable[str] = ()) -> Any:
    """Train byte-level BPE over phrases on chats and passages; the result has Qwen3's chat template and its tokens."""
    return _with_template(phrase_tokenizer(chats, vocabulary, special=_SPECIAL, tags=_TAGS, more=passages))


def _with_template(core: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=_SPECIAL[2],
        pad_token=_SPECIAL[0],
        padding_side="left",
        model_max_length=_CONTEXT,
    )
    tokenizer.chat_template = template_text(CHATML)
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


# Byte-level BPE over phrases: tokenizers for small models that are trained from nothing on the traces of a few tasks.
#
# Instructions, tool schemas and the scaffolding of calls are the same in every episode, and are most of its text: what most
# texts share becomes one token for each message, line or phrase. All else is made of parts that mean the same wherever they
# occur: phrases in lower case, digits, tags with their code apart, and names in two pieces. A policy that has to compare and
# to copy names and values sees them as the same tokens in a statement and in a passage, whatever stands around them: the
# blank before a name belongs to the phrase before it, and the end of a sentence to neither.
# After "SuperBPE: Space Travel for Language Models" (tokens across spaces).

_KEYS = r""""?(?:[\s{}\[\],:]*"[a-z_ ]*"|[\s{}\[\],:]+")+[\s{}\[\],:]*"?"""
_MARKUP = r"""</?[a-z]+(?:\s[a-z]+="|\s)?|"\s[a-z]+=\""""
"""A tag up to its first value or code, and the key of its next value."""
_FORMS = "|".join(
    (
        r"\p{Lu}\p{N}{1,2}",  # an id
        r"\p{Lu}\p{Ll}?",  # a name in two pieces: of three syllables there are few, of names there are many
        r"(?<=\p{Lu}\p{Ll})\p{Ll}+",
        r"\p{N}{1,2}",
        _MARKUP,
        r"\p{Ll}{2}(?=\p{Ll}{2}>|>)",  # the code of a tag
        r"(?:\s?\p{Ll}+)+(?:\s(?=[\p{Lu}\p{N}]))?",  # a phrase; its blank before a name, which is the same after any
        r"\p{L}",  # letters without case
        r"[^\p{L}\p{N}\s<]+\s*|<",
        r"\s+",
    )
)
"""Forms of the units within which tokens are merged (Oniguruma)."""
_CAPITALISED = re.compile(r"[A-Z][a-z]+")
_WHOLE = re.compile(r".+", re.DOTALL)
_LINES = re.compile(r"[^\n]+\n*")
_PHRASES = re.compile(rf"{_KEYS}|{_MARKUP}|[a-z\s,;:'()<>/=_-]+|.", re.DOTALL)
"""Keys, and phrases up to a capital, a digit, or the end of a sentence."""
_SHARE, _MIN_LENGTH, _MAX_SHARED = 0.5, 5, 256
_COMMON_SHARE, _MIN_COMMON = 0.005, 5
"""A capitalised word is no name, and one unit, from this share and number of texts on."""


def phrase_tokenizer(
    texts: Iterable[str],
    entries: int = 2048,
    *,
    special: Sequence[str] = (),
    tags: Sequence[str] = (),
    more: Iterable[str] = (),
) -> Any:
    """Train byte-level BPE on texts; returns a `tokenizers.Tokenizer` of at most `entries` tokens.

    Any text is encoded without loss. more: texts that do not count for what texts share. special, tags: tokens of a chat template, of which no other token has a part;
    special ones are left out of decoded text, tags are not.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    parts = _split([[text] for text in texts], (*special, *tags))
    shared: list[str] = []
    for unit in (_WHOLE, _LINES, _PHRASES):
        shared += _shared(parts, unit)
        parts = _split(parts, shared)
    parts += _split([[text] for text in more], (*special, *tags, *shared))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_units(parts)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max(entries - len(tags) - len(shared), 256 + len(special)),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special),
        show_progress=False,
    )
    tokenizer.train_from_iterator((part for text in parts for part in text), trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in (*tags, *shared)])
    return tokenizer


def _units(texts: Sequence[Sequence[str]]) -> str:
    """Pattern of the units within which tokens are merged (Oniguruma): JSON keys, common capitalised words, forms."""
    counts = Counter(
        word for parts in texts for word in {match for part in parts for match in _CAPITALISED.findall(part)}
    )
    enough = max(_MIN_COMMON, _COMMON_SHARE * len(texts))
    common = "|".join(sorted(word for word, count in counts.items() if count >= enough))
    return rf"{_KEYS}|\s?(?:{common})(?!\p{{L}})|{_FORMS}" if common else f"{_KEYS}|{_FORMS}"


def _split(texts: Iterable[Sequence[str]], strings: Sequence[str]) -> list[list[str]]:
    """Cut the strings, the longest first, out of texts that are given in parts."""
    cut = re.compile("|".join(map(re.escape, sorted(strings, key=len, reverse=True))) or r"(?!)")
    return [[piece for part in parts for piece in cut.split(part) if piece] for parts in texts]


def _shared(texts: Sequence[Sequence[str]], unit: re.Pattern[str]) -> list[str]:
    """Units that at least half of the texts contain, the most frequent first."""
    counts: Counter[str] = Counter()
    for parts in texts:
        counts.update(list(dict.fromkeys(match for part in parts for match in unit.findall(part))))
    # The decoder would take a token without a blank for bytes in its own alphabet.
    return [
        text
        for text, count in counts.most_common(_MAX_SHARED)
        if count >= _SHARE * len(texts) and len(text) >= _MIN_LENGTH and re.search(r"\s", text)
    ]
