"""Between token ids and text: which special tokens are part of a reply, and which text must not become a token.

Special tokens are left out of a reply's text, with one exception: tags that the environments or the reasoning rule
read, such as `<tool_call>` or `<think>`, which some models have as special tokens and others not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

_TAGS = frozenset(
    f"<{slash}{name}>"
    for name in ("think", "tool_call", "tool_calls", "tool_response", "answer", "search", "read", "submit")
    for slash in ("", "/")
)
_BREAK = "\u200b"
"""A zero-width space: what is broken up with it still reads the same."""

_STOP_MARGIN = 8
"""Tokens looked at beyond a stop string's bytes: decoding may garble the first few of a cut piece."""


class Codec:
    """The text side of a tokenizer. eos: ids that end a reply; stops: strings that do."""

    def __init__(self, tokenizer: Any, eos: Collection[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        added = {str(token): token_id for token_id, token in tokenizer.added_tokens_decoder.items()}
        special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        control = (special | set(tokenizer.all_special_tokens)) - _TAGS
        self.eos = frozenset(eos) | {added[stop] for stop in stops if stop in added}
        self.stops = tuple(stops)  # those that are tokens too: a reply may spell one out
        self._hidden = self.eos | frozenset(tokenizer.convert_tokens_to_ids(sorted(control)))
        words = sorted((text for text in control if len(text) > 1), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, words))) if words else None
        self._tail = max((len(stop.encode("utf-8", "surrogatepass")) for stop in self.stops), default=0) + _STOP_MARGIN

    def encode(self, text: str) -> list[int]:
        """The ids of a rendered prompt; nothing is added to it."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return ids

    def raw(self, ids: Sequence[int]) -> str:
        """The text of a reply as it came, with every special token."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def text(self, ids: Sequence[int]) -> str:
        """The text of a reply without special tokens, up to the first stop string."""
        text = self._visible(ids)
        cut = min((place for stop in self.stops if (place := text.find(stop)) >= 0), default=None)
        return text if cut is None else text[:cut]

    def stopped(self, ids: Sequence[int]) -> bool:
        """Whether the last tokens of a reply hold a stop string."""
        tail = self._visible(ids[-self._tail :])
        return any(stop in tail for stop in self.stops)

    def ended(self, ids: Sequence[int]) -> bool:
        """Whether a reply ended of itself: with an end token or a stop string, not at its limit."""
        text = self._visible(ids) if self.stops else ""
        return bool(ids and ids[-1] in self.eos) or any(stop in text for stop in self.stops)

    @property
    def window(self) -> int:
        """How many of the last tokens `stopped` looks at."""
        return self._tail

    def defuse(self, text: str) -> tuple[str, int]:
        """A message's text with its control tokens broken up, and how many there were.

        A document that holds `<|im_end|>` would otherwise end the message that quotes it and could begin another role's.
        """
        if self._control is None:
            return text, 0
        return self._control.subn(lambda found: found[0][0] + _BREAK + found[0][1:], text)

    def _visible(self, ids: Sequence[int]) -> str:
        return self.raw([one for one in ids if one not in self._hidden])
