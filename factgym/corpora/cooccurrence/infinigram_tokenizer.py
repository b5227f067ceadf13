"""The tokenizer of a language model as the encoder of an infini-gram index: a word becomes what it is inside a text.

Inside a text a word has a space before it, so tokenizers that mark that space (SentencePiece by itself, byte-level BPE
when a space is given) must be asked for the word with its space. LLaMA-2's tokenizer puts a lone space before some
texts as a token of its own, which is dropped.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, DataError, MissingExtraError

_EXTRA = "local"
_SPACE_MARKS = ("\u2581", "\u0120", " ")
_END_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[SEP]")


class ModelTokenizer:
    """A fast tokenizer from a folder or file.

    path: a `tokenizer.json`, or a folder that `transformers` can load. drop_leading: a token dropped from the start.
    eos: the end-of-text token, found by its usual names when None. Raises ConfigError, DataError, MissingExtraError.
    """

    def __init__(self, path: str | Path, drop_leading: int | None = None, eos: int | None = None) -> None:
        self._drop = drop_leading
        self._tokenizer, self._digest = _load(Path(path))
        self.size = int(self._tokenizer.get_vocab_size(with_added_tokens=True))
        self._space = "" if self._marks("a") or not self._marks(" a") else " "
        self.eos = self._end() if eos is None else eos
        if not 0 <= self.eos < self.size:
            raise ConfigError(f"eos_token_id is {self.eos}; the vocabulary of {path} has {self.size:,} tokens")

    def encode(self, word: str) -> list[int] | None:
        """The tokens of a word as it stands after a space; None for a blank word."""
        if not word.strip():
            return None
        ids = [int(one) for one in self._tokenizer.encode(self._space + word.strip(), add_special_tokens=False).ids]
        return (ids[1:] if self._drop is not None and ids[:1] == [self._drop] else ids) or None

    def check(self, limit: int) -> None:
        """ConfigError when the tokens of this tokenizer do not fit an index whose tokens are below `limit`."""
        if self.size > limit:
            raise ConfigError(
                f"the tokenizer has {self.size:,} tokens and the index room for {limit:,}: it was made with another one"
            )

    def describe(self) -> dict[str, Any]:
        """What a manifest says of the tokenizer."""
        says = {"tokens_are": "subwords", "vocabulary": self.size, "drop_leading": self._drop}
        return {**says, "tokenizer_sha256": self._digest}

    def _marks(self, text: str) -> bool:
        tokens = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return bool(tokens) and tokens[0].startswith(_SPACE_MARKS)

    def _end(self) -> int:
        found = [one for name in _END_NAMES if (one := self._tokenizer.token_to_id(name)) is not None]
        if not found:
            raise ConfigError("the tokenizer names no end-of-text token: give eos_token_id")
        return int(found[0])


def _load(path: Path) -> tuple[Any, str]:
    """The tokenizer, and the SHA-256 of how it is written as JSON."""
    if not path.exists():
        raise ConfigError(f"{path}: no such tokenizer; give a folder or a tokenizer.json (nothing is downloaded)")
    file = path / "tokenizer.json" if path.is_dir() else path
    tokenizer = _from_file(file) if file.is_file() else _from_folder(path)
    return tokenizer, hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def _from_file(file: Path) -> Any:
    try:
        return import_module("tokenizers").Tokenizer.from_file(str(file))
    except ImportError:
        raise MissingExtraError("a tokenizer of a language model", _EXTRA) from None
    except Exception as error:  # noqa: BLE001 - the library raises Exception itself for a file that it cannot read
        raise DataError(f"{file} is no tokenizer: {str(error)[:200]}") from None


def _from_folder(folder: Path) -> Any:
    """A folder without a tokenizer.json, as LLaMA-2's `tokenizer.model` alone: transformers converts it."""
    try:
        auto = import_module("transformers").AutoTokenizer
    except ImportError:
        raise MissingExtraError("a tokenizer of a language model", _EXTRA) from None
    try:
        return auto.from_pretrained(str(folder), local_files_only=True).backend_tokenizer
    except (OSError, ValueError, AttributeError, ImportError) as error:
        raise DataError(f"{folder} holds no tokenizer that can be loaded: {str(error)[:200]}") from None
