"""Credit of a policy's tokens: turns in tokens, the offsets of tokens, and token advantages from span credits.

A framework's parsed message becomes the message that the environment plays (`policy_message`); a character range of that
message becomes the tokens that hold it (`Turn.token_mask`). `token_advantages` has three forms, over the tokens that the
policy wrote (A_i is the advantage of completion i, c_t the sum of the credits of the spans that hold token t):

- "grpo": A_t = A_i + λ (c_t − mean of c in the group), with the trainer's own A_i;
- "hrpo": the same with A_i = (r_i − mean) / (std + 1e-4) over all completions of the batch whose rows agree in one
  column, EVE's hop groups (equation 5);
- "stepwise": CorVer's A_t = (R_t − mean R̄) / (std R̄ + 1e-4), where R_t are returns of tokens whose mean over the
  completion is its reward: for CorVer its own R_r + λ_c r_σ(t), otherwise each credit spread over its span's tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from factgym.core.action import encode_json
from factgym.core.messages import Message, message_text
from factgym.integrations.session import Session
from factgym.rewards.advantages import group_advantages, stepwise_advantages

Offsets = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Credit = Literal["grpo", "hrpo", "stepwise"]
FORMS: tuple[Credit, ...] = ("grpo", "hrpo", "stepwise")

_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_REASONING_KEYS = ("thinking", "reasoning_content")
_ARGUMENT_KEYS = ('"arguments":', '"parameters":')
# JSONDecoder.raw_decode without its exception handling; typeshed leaves it out.
_SCAN_JSON: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_MAX_TRIES = 64


@dataclass(slots=True)
class Turn:
    """One of the policy's messages and its tokens.

    index: of the message in the transcript. first: position of its first token in the completion. ids: its tokens.
    text: the decoded tokens, without special tokens. message: the message that was played.
    """

    index: int
    first: int
    ids: Sequence[int]
    text: str
    message: Message

    @property
    def length(self) -> int:
        """Characters of the message's own text, in which credit is counted."""
        return len(message_text(self.message))

    @property
    def parts(self) -> list[tuple[int, int, int | None]]:
        """Start and length of each part of the message's own text (content, arguments), and its offset in `text`.

        The offset is None for a part that is not in `text`.
        """
        text = self.text
        contents = [self.message.get("content") or ""]
        contents += [call["function"]["arguments"] for call in self.message.get("tool_calls") or []]
        parts: list[tuple[int, int, int | None]] = []
        start = cursor = 0
        for content in contents:
            offset: int | None = text.find(content, cursor) if content else None
            if offset == -1:  # the message has the opening tag that its template wrote before the sampled text
                offset = -len(_THINK_OPEN) if content == _THINK_OPEN + text else None
            if offset is not None:
                cursor = max(cursor, offset + len(content))
            parts.append((start, len(content), offset))
            start += len(content) + 1
        return parts

    def token_mask(self, offsets: Offsets, start: int, end: int) -> Mask:
        """Return (T,) bool: the tokens of characters [start, end) of the message's text, never an empty set.

        A token belongs to the range that holds its middle. A range over the whole text is the whole turn, with its end
        token and the syntax around a call; so is a range of which no part is in the tokens.
        """
        mask = np.zeros(len(self.ids), dtype=np.bool_)
        if start > 0 or end < self.length:
            # Twice the middle is the sum of start and end, which stays a whole number.
            has_width, middle = offsets[:, 0] < offsets[:, 1], offsets.sum(axis=1)
            for part_start, length, offset in self.parts:
                low, high = max(start, part_start), min(end, part_start + length)
                if low < high and offset is not None:
                    shift = offset - part_start
                    mask |= has_width & (2 * (low + shift) <= middle) & (middle < 2 * (high + shift))
        return mask if mask.any() else np.ones(len(self.ids), dtype=np.bool_)


def policy_message(parsed: Mapping[str, Any], text: str, turn: int) -> Message:
    """Return the message to play: native calls where the parser found some, else the text with its reasoning.

    turn: number of the turn, for the ids of the calls. Arguments keep the characters that the policy wrote.
    """
    calls = parsed.get("tool_calls")
    if not calls:
        # A template may open the block itself, and then the tag is no part of the sampled text.
        opened = _THINK_CLOSE in text and _THINK_OPEN not in text and any(parsed.get(key) for key in _REASONING_KEYS)
        return {"role": "assistant", "content": f"{_THINK_OPEN}{text}" if opened else text}
    # The cursor only moves forward, so that the second of two equal calls gets a span of its own.
    cursor = 0
    native: list[Any] = []
    for number, call in enumerate(calls):
        function = call.get("function", call)
        span = _find_json(text, function["arguments"], cursor)
        if span is None:  # the model's format is not JSON
            try:
                arguments = encode_json(function["arguments"])
            except (TypeError, ValueError):
                arguments = json.dumps(function["arguments"], default=str)
        else:
            arguments, cursor = text[span[0] : span[1]], span[1]
        called = {"name": function["name"], "arguments": arguments}
        native.append({"id": f"call_{turn}_{number}", "type": "function", "function": called})
    message: Message = {"role": "assistant", "content": parsed.get("content") or None, "tool_calls": native}
    for key in _REASONING_KEYS:
        if parsed.get(key):
            message["reasoning_content"] = parsed[key]
    return message


def _find_json(text: str, value: Any, cursor: int) -> tuple[int, int] | None:
    """Span of a value written as JSON in the text from `cursor` on, tried first behind the keys that calls have."""
    # An equal value may come earlier in the text, in the reasoning: the keys of a call are tried before every bracket.
    bracket = "[" if isinstance(value, list) else "{"
    for key in _ARGUMENT_KEYS:
        start = text.find(key, cursor)
        start = text.find(bracket, start + len(key)) if start >= 0 else -1
        if start >= 0 and (end := _json_end(text, start, value)):
            return start, end
    for _ in range(_MAX_TRIES):
        cursor = text.find(bracket, cursor)
        if cursor < 0:
            return None
        if end := _json_end(text, cursor, value):
            return cursor, end
        cursor += 1
    return None


def _json_end(text: str, start: int, value: Any) -> int | None:
    """End of the JSON value at an offset; None where it is another value than `value`."""
    try:
        scanned, end = _SCAN_JSON(text, start)
    except (ValueError, StopIteration, RecursionError):
        return None
    return end if scanned == value and scanned is not None else None


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the text of token ids without special tokens, not tidied up."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))


_MAX_PENDING = 8
_REPLACEMENT = "\ufffd"
_sizes: WeakKeyDictionary[Any, dict[int, int] | None] = WeakKeyDictionary()
"""Tokenizer -> token -> its size in bytes; None for a tokenizer whose tokens are no bytes."""


def token_offsets(tokenizer: Any, ids: Sequence[int], text: str) -> Offsets:
    """Return (T, 2): start and end of each token in `text`, the decoded ids.

    Tokens that share a character share its offsets; special tokens have no width. Sampled tokens need not be those that
    the tokenizer would choose for the text. Three ways, from the quickest to the one that always works: the sizes of
    byte-level tokens, the tokenizer's own offsets where it makes the same tokens of the text, decoding token by token.
    """
    offsets = _byte_level_offsets(tokenizer, ids, text)
    if offsets is not None:
        return offsets
    special, core = set(tokenizer.all_special_ids), list(ids)
    while core and core[-1] in special:
        core.pop()
    encoded: Any = {}
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    same = encoded and list(encoded["input_ids"]) == core
    pairs = [tuple(pair) for pair in encoded["offset_mapping"]] if same else _incremental_offsets(tokenizer, core)
    pairs += [(len(text), len(text))] * (len(ids) - len(core))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _byte_level_offsets(tokenizer: Any, ids: Sequence[int], text: str) -> Offsets | None:
    """Offsets as running sums of the sizes of byte-level tokens; None where they do not add up to the text."""
    sizes = _token_sizes(tokenizer)
    if sizes is None or _REPLACEMENT in text:
        return None
    # The tokens of byte-level BPE partition the text's bytes: a token ends at the running sum of sizes. The check of the
    # last sum rejects a decoder that changes the text.
    ends = list(accumulate(sizes[token] if token in sizes else _add_size(tokenizer, sizes, token) for token in ids))
    data = text.encode("utf-8", "surrogatepass")
    if (ends[-1] if ends else 0) != len(data):
        return None
    last = np.array(ends, dtype=np.int64)
    first = np.concatenate([np.zeros(min(1, len(last)), dtype=np.int64), last[:-1]])
    if len(data) != len(text):
        # Bytes to characters: a token holds every character of which it holds a byte.
        starts_char = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
        char_count = np.cumsum(starts_char)  # of a byte: the number of characters that have started
        first_char = np.append(char_count - 1, len(text))[first]
        last = np.where(first < last, np.concatenate([[0], char_count])[last], first_char)
        first = first_char
    return np.stack([first, last], axis=1)


def _token_sizes(tokenizer: Any) -> dict[int, int] | None:
    """The cache of a byte-level tokenizer's token sizes; None for tokenizers of another kind."""
    try:
        return _sizes[tokenizer]
    except KeyError:
        pass
    except TypeError:  # not hashable
        return None
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    sizes: dict[int, int] | None = {} if type(decoder).__name__ == "ByteLevel" else None
    _sizes[tokenizer] = sizes
    return sizes


def _add_size(tokenizer: Any, sizes: dict[int, int], token: int) -> int:
    from tokenizers.pre_tokenizers import ByteLevel

    added = tokenizer.added_tokens_decoder.get(token)
    written = tokenizer.convert_ids_to_tokens(token) or ""
    # Decoding leaves special tokens out, and copies tokens that are not written in the byte alphabet.
    size = len(written) if set(written).issubset(ByteLevel.alphabet()) else len(written.encode())
    return sizes.setdefault(token, 0 if added is not None and added.special else size)


def _incremental_offsets(tokenizer: Any, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Offsets from the text that each token adds, decoded with the tokens before it as context.

    Tokens whose text ends inside a character wait for those that complete it, and share its offsets.
    """
    # Incremental detokenisation, as inference engines stream text: tokens from `pending` on are not yet located, those
    # from `context` on are decoded with them, since a token's text may depend on the one before (a leading space).
    pairs: list[tuple[int, int]] = []
    context = pending = offset = 0
    for index in range(len(ids)):
        before, after = decode(tokenizer, ids[context:pending]), decode(tokenizer, ids[context : index + 1])
        if after.endswith(_REPLACEMENT) and index - pending < _MAX_PENDING and index + 1 < len(ids):
            continue
        end = offset + max(len(after) - len(before), 0)
        pairs += [(offset, end)] * (index + 1 - pending)
        context, pending, offset = pending, index + 1, end
    return pairs


@dataclass(frozen=True, slots=True)
class Row:
    """A completion as the advantages need it, everything over its T tokens.

    credit: c_t. returns: R_t. mask: the tokens that the policy wrote and the loss counts. reward: r_i, NaN without a
    score. advantage: the trainer's A_i. group: key of the rows that are compared with each other.
    """

    credit: Floats
    returns: Floats
    mask: Mask
    reward: float
    advantage: float
    group: Hashable


def token_advantages(rows: Sequence[Row], form: Credit, weight: float, scale: bool = True) -> list[Floats]:
    """Return the advantages of each row's tokens; 0 where the mask is false, and in a row without a score.

    weight: λ. scale: divide by deviations at all, where the form has them.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.group, []).append(index)
    advantages: list[Floats] = [np.zeros(len(row.mask)) for row in rows]
    for members in groups.values():
        group = [rows[index] for index in members]
        values = _stepwise(group, scale) if form == "stepwise" else _outcome_plus_credit(group, form, weight, scale)
        for index, row_values in zip(members, values, strict=True):
            advantages[index] = row_values
    return advantages


def _stepwise(group: Sequence[Row], scale: bool) -> list[Floats]:
    """Return token advantages of a group whose returns are compared position by position."""
    size = max(len(row.mask) for row in group)
    if not size:
        return [np.zeros(0) for _ in group]
    # Rows are padded to one length; the statistics skip NaN, the returns of a row without a score.
    returns, mask = np.zeros((len(group), size)), np.zeros((len(group), size), dtype=np.bool_)
    for index, row in enumerate(group):
        mask[index, : len(row.mask)] = row.mask
        returns[index, : len(row.mask)] = np.nan if np.isnan(row.reward) else row.returns
    padded = stepwise_advantages(returns, mask, scale=scale, equal="zero")
    return [padded[index, : len(row.mask)] for index, row in enumerate(group)]


def _outcome_plus_credit(group: Sequence[Row], form: Credit, weight: float, scale: bool) -> list[Floats]:
    """The forms "grpo" and "hrpo": the completion's advantage, and the token's credit above the group's mean."""
    rewards = np.array([row.reward for row in group])
    outcome = group_advantages(rewards, scale=scale) if form == "hrpo" else np.array([row.advantage for row in group])
    means = np.array([row.credit[row.mask].mean() if row.mask.any() else np.nan for row in group])
    scored = ~np.isnan(rewards) & ~np.isnan(means)
    baseline = means[scored].mean() if scored.any() else 0.0
    return [
        np.where(row.mask & is_scored, advantage + weight * (row.credit - baseline), 0.0)
        for row, advantage, is_scored in zip(group, outcome, scored, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class TokenCredit:
    """The credits of an episode over its tokens; tokens outside the mask have none.

    credit: c_t, the sum of the credits of the spans that hold the token. shares: each credit divided among its span's
    tokens, so that they sum to the spans' sum. returns: R_t of the stepwise form.
    """

    credit: Floats
    shares: Floats
    returns: Floats


def token_credit(session: Session, turns: Sequence[Turn], mask: Mask, tokenizer: Any) -> TokenCredit:
    """Spread the report's spans over tokens. turns: the policy's messages, their `first` counted in `mask`.

    A credit of a message without tokens, or whose tokens the mask hides, goes to all tokens of the mask.
    """
    credit, shares = np.zeros(len(mask)), np.zeros(len(mask))
    turn_of = {turn.index: turn for turn in turns}
    lengths = {turn.index: turn.length for turn in turns}
    offsets: dict[int, Offsets] = {}

    def offsets_of(turn: Turn) -> Offsets:  # most spans are whole turns, and need none
        if turn.index not in offsets:
            offsets[turn.index] = token_offsets(tokenizer, turn.ids, turn.text)
        return offsets[turn.index]

    for span in session.spans:
        tokens, inside = slice(0, len(mask)), mask
        turn = turn_of.get(span.message)
        if turn is not None:
            tokens = slice(turn.first, turn.first + len(turn.ids))
            inside = mask[tokens]
            if span.start > 0 or span.end < lengths[turn.index]:
                inside = turn.token_mask(offsets_of(turn), span.start, span.end) & inside
        count = int(np.count_nonzero(inside))
        if not count:
            tokens, inside = slice(0, len(mask)), mask
            count = int(np.count_nonzero(inside))
        credit[tokens] += span.value * inside
        shares[tokens] += span.value / max(count, 1) * inside
    returns = _corver_returns(session, turn_of, mask, offsets_of)
    return TokenCredit(credit, shares, shares * np.count_nonzero(mask) if returns is None else returns)


def _corver_returns(
    session: Session, turns: Mapping[int, Turn], mask: Mask, offsets_of: Callable[[Turn], Offsets]
) -> Floats | None:
    """Returns of equation 4 of CorVer for its own environments, from sentence rewards; None for the others."""
    from factgym.envs.corver.env import CorverEnv
    from factgym.rewards.corver.tokens import response_return, token_returns

    env = session.env
    if not isinstance(env, CorverEnv) or session.report is None or session.report.status != "scored":
        return None
    index, completion, score = env.scored()
    turn = turns.get(index)
    rubric = env.config.rubric
    returns = np.full(len(mask), response_return(score, rubric))
    if turn is not None and completion.text:
        # Sentences are counted in the scored completion, token offsets in the turn's text: `shift` leads from one to
        # the other. Tokens outside the completion are clipped to its first or last character.
        shift = completion.shift - (turn.parts[0][2] or 0)
        offsets = np.clip(offsets_of(turn) + shift, 0, len(score.text))
        returns[turn.first : turn.first + len(turn.ids)] = token_returns(score, offsets, rubric).returns
    return np.where(mask, returns, 0.0)
