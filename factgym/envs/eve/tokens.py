"""Cutting a text to a number of tokens, by the rule with which `factgym.rewards.eve.count_tokens` counts them.

A token is a run of letters, digits and underscores, or one other character that is no white space: a rule that needs no
model, so that budgets mean the same whoever plays. English text has about as many of these as a model's tokenizer
makes, most often ten to twenty per cent fewer.
"""

from __future__ import annotations

from itertools import islice

from factgym.rewards.eve.proposal import TOKEN, count_tokens

__all__ = ["count_tokens", "first_tokens"]


def first_tokens(text: str, most: int) -> str:
    """The text up to the end of its token number `most`; the whole text where it has no more than that."""
    if most <= 0:
        return ""
    last = next(islice(TOKEN.finditer(text), most - 1, None), None)
    if last is None or TOKEN.search(text, last.end()) is None:
        return text
    return text[: last.end()]
