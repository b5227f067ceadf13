"""Turns are read, and their tokens located, as the environment's parser and the tokenizers library do it."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.action import encode_json, parse_action
from factgym.core.calls import ToolCall
from factgym.integrations import credit as credit_module
from factgym.integrations.credit import Row, Turn, policy_message, token_advantages, token_offsets

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=4)


NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


SPACES = st.sampled_from(["", " ", "\n", "\n  "])


def written(name: str, arguments: str, space: str) -> str:
    return (
        f'{space}<tool_call>{space}{{"name":{space}"{name}",{space}"arguments": {arguments}{space}}}{space}</tool_call>'
    )


@given(NAMES, ARGUMENTS, SPACES, st.booleans())
def test_a_call_equals_the_environments_own_parse(
    name: str, arguments: dict[str, Any], space: str, ascii_only: bool
) -> None:
    wrote = json.dumps(arguments, ensure_ascii=ascii_only)
    text = written(name, wrote, space)
    parsed = {"content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    message = policy_message(parsed, text, 3)
    assert message["tool_calls"][0]["function"] == {"name": name, "arguments": wrote}
    (item,) = parse_action(text).items
    assert isinstance(item, ToolCall)
    assert (item.name, item.arguments) == (name, arguments)


@given(VALUES)
def test_json_is_written_as_the_standard_library_writes_it(value: Any) -> None:
    assert encode_json(value) == json.dumps(value, ensure_ascii=False, allow_nan=False)


def test_values_that_are_no_json_are_refused() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for wrong in (math.nan, [math.inf], itself):
        with pytest.raises(ValueError, match=r"JSON|Circular"):
            encode_json(wrong)
    with pytest.raises(TypeError):
        encode_json({"a": object()})


SAMPLES = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["plain words", "é中🙂", "e\u0301", "<tool_call>", "  two  spaces ", "<|im_end|>", "\ufffd"])
).map("".join)


@pytest.fixture(scope="module")
def tok() -> Any:
    pytest.importorskip("transformers", reason="needs the extra 'local'")
    import tiny_tokens

    return tiny_tokens.tokenizer("")


def pieces_of(tok: Any, text: str, rng: random.Random) -> list[int]:
    """Tokens of a text that the tokenizer would not choose: each of its own cut into letters, now and then."""
    ids: list[int] = []
    for token in tok(text, add_special_tokens=False)["input_ids"]:
        written = tok.convert_ids_to_tokens(token)
        cut = rng.random() < 0.5 and token not in tok.added_tokens_decoder
        ids += tok.convert_tokens_to_ids(list(written)) if cut else [token]
    return ids


def byte_by_byte(tok: Any, ids: list[int], text: str) -> list[tuple[int, int]]:
    """Of each token: the characters that hold any of its bytes."""
    owner = [index for index, letter in enumerate(text) for _ in letter.encode()]
    offsets, at = [], 0
    for token in ids:
        added = tok.added_tokens_decoder.get(token)
        written = tok.convert_ids_to_tokens(token)
        size = len(written) if added is None else 0 if added.special else len(written.encode())
        owned = owner[at : at + size]
        at += size
        position = owner[at] if at < len(owner) else len(text)
        offsets.append((owned[0], owned[-1] + 1) if owned else (position, position))
    assert at == len(owner)
    return offsets


@given(SAMPLES, st.integers(0, 2**32))
def test_other_tokens_than_the_tokenizers_have_offsets_too(tok: Any, sample: str, seed: int) -> None:
    ids = pieces_of(tok, sample, random.Random(seed))
    text = tok.decode(ids, skip_special_tokens=True)
    offsets = token_offsets(tok, ids, text)
    assert offsets.shape == (len(ids), 2)
    if "\ufffd" not in text:  # which may stand for bytes that are no character, and is gone through token by token
        assert [tuple(pair) for pair in offsets.tolist()] == byte_by_byte(tok, ids, text)


@given(SAMPLES)
def test_offsets_of_the_tokenizers_own_tokens_are_its_own(tok: Any, sample: str) -> None:
    text = tok.decode(tok(sample, add_special_tokens=False)["input_ids"], skip_special_tokens=True)
    again = tok(text, add_special_tokens=False, return_offsets_mapping=True)
    if any(token in tok.all_special_ids for token in again["input_ids"]):
        return  # the library finds special tokens that were put together from what stood around one
    assert [tuple(pair) for pair in token_offsets(tok, again["input_ids"], text)] == again["offset_mapping"]


def test_without_bytes_the_tokenizer_reads_the_text_again_or_token_by_token() -> None:
    pytest.importorskip("transformers", reason="needs the extra 'local'")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"[UNK]": 0, "some": 1, "words": 2, "here": 3, "[END]": 4}
    core = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tok = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]", eos_token="[END]")
    assert token_offsets(tok, [1, 2, 4], "some words").tolist() == [[0, 4], [5, 10], [10, 10]]
    assert credit_module._sizes[tok] is None
    # What was sampled is not what the tokenizer reads in the text.
    assert token_offsets(tok, [1, 3, 4], "some words").tolist() == [[0, 4], [4, 9], [10, 10]]


def test_bytes_that_are_no_characters_are_decoded_token_by_token(tok: Any) -> None:
    ids = tok.convert_tokens_to_ids(["a", "Ã", "b"])
    text = tok.decode(ids)
    assert text == "a\ufffdb"
    assert token_offsets(tok, [*ids, tok.eos_token_id], text)[[0, -1]].tolist() == [[0, 1], [3, 3]]


def row(reward: float, credit: list[float], group: Any = 0, advantage: float = 0.0) -> Row:
    size = len(credit)
    values = np.array(credit)
    return Row(values, values, np.ones(size, dtype=np.bool_), reward, advantage, group)


def test_rows_without_a_score_move_nothing() -> None:
    rows = [row(1.0, [1.0, 0.0]), row(math.nan, [5.0, 5.0]), row(0.0, [0.0])]
    for form in ("grpo", "hrpo", "stepwise"):
        advantages = token_advantages(rows, form, 1.0)
        assert [len(values) for values in advantages] == [2, 2, 1]
        assert not advantages[1].any()
        assert advantages[0].any()
    equal = token_advantages([row(0.5, [1.0, 0.0]), row(0.5, [0.0, 1.0])], "stepwise", 1.0)
    assert not np.any(equal)


@pytest.mark.parametrize(
    "text", ["plain words", "é中🙂 and more", "<tool_call>\n{}\n</tool_call>", "  two  spaces ", "a\ufffdb", ""]
)
def test_offsets_hold_for_any_tokens_of_a_text(tok: Any, text: str) -> None:
    chosen = tok(text, add_special_tokens=False)["input_ids"]
    letters = [tok.convert_tokens_to_ids(letter) for token in tok.tokenize(text) for letter in token]
    odd = letters if tok.unk_token_id not in letters and None not in letters else chosen
    for ids in (chosen, odd):
        offsets = token_offsets(tok, [*ids, tok.eos_token_id], tok.decode(ids))
        assert len(offsets) == len(ids) + 1
        assert (offsets[:, 0] <= offsets[:, 1]).all()
        assert (np.diff(offsets[:, 0]) >= 0).all()
        assert offsets[-1].tolist() == [len(tok.decode(ids))] * 2
        if ids:
            assert offsets[: len(ids), 1].max() == len(tok.decode(ids))


def test_messages_keep_the_characters_that_the_policy_wrote() -> None:
    text = 'Both.\n<tool_call>\n{"name": "search", "arguments": {"query":  "\\u00e9"}}\n</tool_call>'
    parsed: Any = {
        "content": "Both.",
        "tool_calls": [{"type": "function", "function": {"name": "search", "arguments": {"query": "é"}}}],
    }
    message = policy_message(parsed, text, 3)
    call = message["tool_calls"][0]
    assert call == {
        "id": "call_3_0",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query":  "\\u00e9"}'},
    }
    xml = policy_message(parsed, "<function=search><parameter=query>é</parameter></function>", 0)
    assert json.loads(xml["tool_calls"][0]["function"]["arguments"]) == {"query": "é"}
    opened = policy_message({"content": "B", "reasoning_content": "A"}, "A</think>B", 0)
    assert opened["content"] == "<think>A</think>B"
    lost = Turn(0, 0, (1, 2), "ab", {"role": "assistant", "content": "other"})
    assert lost.token_mask(np.array([[0, 1], [1, 2]]), 1, 2).all()
