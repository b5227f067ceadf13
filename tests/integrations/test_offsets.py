"""Offsets of sampled tokens, against the tokenizers library's own and against a twin that goes byte by byte."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers", reason="needs the extra 'local'")

import tiny_tokens

from factgym.integrations import credit
from factgym.integrations.credit import token_offsets

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["plain words", "é中🙂", "e\u0301", "<tool_call>", "  two  spaces ", "<|im_end|>", "\ufffd"])
).map("".join)


@pytest.fixture(scope="module")
def known() -> Any:
    return tiny_tokens.tokenizer("")


def pieces_of(known: Any, text: str, rng: random.Random) -> list[int]:
    """Tokens of a text that the tokenizer would not choose: each of its own cut into letters, now and then."""
    found: list[int] = []
    for token in known(text, add_special_tokens=False)["input_ids"]:
        piece = known.convert_ids_to_tokens(token)
        cut = rng.random() < 0.5 and token not in known.added_tokens_decoder
        found += known.convert_tokens_to_ids(list(piece)) if cut else [token]
    return found


def byte_by_byte(known: Any, ids: list[int], text: str) -> list[tuple[int, int]]:
    """Of each token: the characters that hold any of its bytes."""
    owner = [place for place, letter in enumerate(text) for _ in letter.encode()]
    found, at = [], 0
    for token in ids:
        added = known.added_tokens_decoder.get(token)
        piece = known.convert_ids_to_tokens(token)
        size = len(piece) if added is None else 0 if added.special else len(piece.encode())
        own = owner[at : at + size]
        at += size
        here = owner[at] if at < len(owner) else len(text)
        found.append((own[0], own[-1] + 1) if own else (here, here))
    assert at == len(owner)
    return found


@given(TEXTS, st.integers(0, 2**32))
def test_tokens_that_the_tokenizer_would_not_choose_have_places_too(known: Any, asked: str, seed: int) -> None:
    ids = pieces_of(known, asked, random.Random(seed))
    text = known.decode(ids, skip_special_tokens=True)
    found = token_offsets(known, ids, text)
    assert found.shape == (len(ids), 2)
    if "\ufffd" not in text:  # which may stand for bytes that are no character, and is gone through token by token
        assert [tuple(one) for one in found.tolist()] == byte_by_byte(known, ids, text)


@given(TEXTS)
def test_the_tokenizers_own_choice_stands_where_it_says(known: Any, asked: str) -> None:
    text = known.decode(known(asked, add_special_tokens=False)["input_ids"], skip_special_tokens=True)
    again = known(text, add_special_tokens=False, return_offsets_mapping=True)
    if any(token in known.all_special_ids for token in again["input_ids"]):
        return  # the library finds special tokens that were put together from what stood around one
    assert [tuple(one) for one in token_offsets(known, again["input_ids"], text)] == again["offset_mapping"]


def test_without_bytes_the_tokenizer_reads_the_text_again_or_token_by_token() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"[UNK]": 0, "some": 1, "words": 2, "here": 3, "[END]": 4}
    core = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    known = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]", eos_token="[END]")
    assert token_offsets(known, [1, 2, 4], "some words").tolist() == [[0, 4], [5, 10], [10, 10]]
    assert credit._sizes[known] is None
    # What was sampled is not what the tokenizer reads in the text.
    assert token_offsets(known, [1, 3, 4], "some words").tolist() == [[0, 4], [4, 9], [10, 10]]


def test_bytes_that_are_no_characters_are_gone_through_token_by_token(known: Any) -> None:
    ids = known.convert_tokens_to_ids(["a", "Ã", "b"])
    text = known.decode(ids)
    assert text == "a\ufffdb"
    assert token_offsets(known, [*ids, known.eos_token_id], text)[[0, -1]].tolist() == [[0, 1], [3, 3]]
