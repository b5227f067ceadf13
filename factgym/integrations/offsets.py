"""Where each sampled token stands in the text of its turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from factgym.integrations.turns import Offsets, decode

_WAIT = 8
_LOST = "\ufffd"
_sizes: WeakKeyDictionary[Any, dict[int, int] | None] = WeakKeyDictionary()
"""Tokenizer -> token -> the bytes that it stands for; None for a tokenizer whose tokens are no bytes."""


def token_offsets(tokenizer: Any, ids: Sequence[int], text: str) -> Offsets:
    """(T, 2): where each token begins and ends in `text`, the decoded ids.

    Tokens that share a character share its place; special tokens have no width. Sampled tokens need not be those that
    the tokenizer would choose for the text.
    """
    found = _counted(tokenizer, ids, text)
    if found is not None:
        return found
    special, core = set(tokenizer.all_special_ids), list(ids)
    while core and core[-1] in special:
        core.pop()
    places: list[tuple[int, int]] | None = None
    if getattr(tokenizer, "is_fast", False):
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if list(again["input_ids"]) == core:
            places = [tuple(one) for one in again["offset_mapping"]]
    if places is None:
        places = _step_by_step(tokenizer, core)
    places += [(len(text), len(text))] * (len(ids) - len(core))
    return np.array(places, dtype=np.int64).reshape(-1, 2)


def _counted(tokenizer: Any, ids: Sequence[int], text: str) -> Offsets | None:
    """Offsets from the sizes of byte-level tokens, which follow each other in the text; None where they do not add up."""
    sizes = _known_sizes(tokenizer)
    if sizes is None or _LOST in text:
        return None
    ends = list(accumulate(sizes[one] if one in sizes else _size(tokenizer, sizes, one) for one in ids))
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if (ends[-1] if ends else 0) != size:
        return None
    last = np.array(ends, dtype=np.int64)
    first = np.concatenate([np.zeros(min(1, len(last)), dtype=np.int64), last[:-1]])
    if size != len(text):
        first, last = _characters(text, first, last)
    return np.stack([first, last], axis=1)


def _characters(text: str, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> tuple[Offsets, Offsets]:
    """Places in the text's bytes as places in its characters: a character is there with any of its bytes."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    begins = np.cumsum((data & 0xC0) != 0x80)  # of a byte: how many characters have begun
    before = np.concatenate([[0], begins])
    place = np.append(begins - 1, len(text))[first]
    return place, np.where(first < last, before[last], place)


def _known_sizes(tokenizer: Any) -> dict[int, int] | None:
    try:
        return _sizes[tokenizer]
    except KeyError:
        pass
    except TypeError:  # no key: it is asked again
        return None
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    found: dict[int, int] | None = {} if type(decoder).__name__ == "ByteLevel" else None
    _sizes[tokenizer] = found
    return found


def _size(tokenizer: Any, sizes: dict[int, int], token: int) -> int:
    added = tokenizer.added_tokens_decoder.get(token)
    piece = tokenizer.convert_ids_to_tokens(token) or ""
    # Decoding leaves special tokens out, and writes what are no bytes as they are.
    size = len(piece) if _alphabet().issuperset(piece) else len(piece.encode())
    return sizes.setdefault(token, 0 if added is not None and added.special else size)


@cache
def _alphabet() -> frozenset[str]:
    """The characters that byte-level tokenizers write bytes with."""
    from tokenizers.pre_tokenizers import ByteLevel

    return frozenset(ByteLevel.alphabet())


def _step_by_step(tokenizer: Any, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Offsets from what each token adds to the text, with the tokens before it as context."""
    found: list[tuple[int, int]] = []
    context = read = place = 0
    for i in range(len(ids)):
        before, after = decode(tokenizer, ids[context:read]), decode(tokenizer, ids[context : i + 1])
        last = i + 1 == len(ids)
        if after.endswith(_LOST) and i - read < _WAIT and not last:
            continue  # part of a character
        end = place + max(len(after) - len(before), 0)
        found += [(place, end)] * (i + 1 - read)
        context, read, place = read, i + 1, end
    return found
