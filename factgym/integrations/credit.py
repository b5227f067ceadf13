"""Credit of a policy's tokens: turns in tokens, the offsets of tokens, and token advantages from span credits.

A framework's parsed message becomes the message that the environment plays (`read_message`); a character range of that
message becomes the tokens that hold it (`Turn.holds`). `token_advantages` has three forms, over the tokens that the
policy wrote (A_i is the advantage of completion i, c_t the sum of the credits of the spans that hold token t):

- "grpo": A_t = A_i + λ (c_t − mean of c in the group), with the trainer's own A_i;
- "hrpo": the same with A_i = (r_i − mean) / (std + 1e-4) over all completions of the batch whose rows agree in one
  column, EVE's hop groups (equation 5);
- "stepwise": CorVer's A_t = (R_t − mean R̄) / (std R̄ + 1e-4), where R_t are returns of tokens whose mean over the
  completion is its reward: for CorVer its own R_r + λ_c r_σ(t), otherwise each credit spread over its span's tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from factgym.core.action import encode_json
from factgym.core.messages import FunctionCall, Message, message_text
from factgym.integrations.session import Session
from factgym.rewards.advantages import group_advantages, stepwise_advantages

_OPENED, _CLOSED = "<think>", "</think>"
_REASONING = ("thinking", "reasoning_content")
_KEYS = ('"arguments":', '"parameters":')
_SCAN: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # what raw_decode calls, and typeshed leaves out
_HEAD = re.compile(
    r'\s*<tool_call>\s*\{[ \t\n\r]*"name"[ \t\n\r]*:[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*,'
    r'[ \t\n\r]*"arguments"[ \t\n\r]*:[ \t\n\r]*(?=\{)'
)
_TAIL = re.compile(r"[ \t\n\r]*\}\s*</tool_call>\s*\Z")
_TRIES = 64

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class Turn:
    """A message of the policy's and its tokens.

    message: its index in the transcript. first: the place of its first token in the completion. ids: its tokens.
    text: what they say, without special tokens. said: the message that was played.
    """

    message: int
    first: int
    ids: Sequence[int]
    text: str
    said: Message

    @property
    def length(self) -> int:
        """Characters of the message's own text, in which credit is counted."""
        return len(message_text(self.said))

    @property
    def parts(self) -> list[tuple[int, int, int | None]]:
        """Of the message's own text, start and length of each part and where it begins in `text`, None for nowhere."""
        return locate(self.said, self.text)

    def holds(self, offsets: Offsets, start: int, end: int) -> npt.NDArray[np.bool_]:
        """(T,) bool: the tokens of characters [start, end) of the message's text, never none of them.

        A token belongs where its middle is. A range over the whole text is the whole turn, with its end token and the
        syntax around a call; so is a range of which nothing is found in the tokens.
        """
        found = np.zeros(len(self.ids), dtype=np.bool_)
        if start > 0 or end < self.length:
            wide, middle = offsets[:, 0] < offsets[:, 1], offsets.sum(axis=1)
            for low, high in self._places(start, end):
                found |= wide & (2 * low <= middle) & (middle < 2 * high)
        return found if found.any() else np.ones(len(self.ids), dtype=np.bool_)

    def _places(self, start: int, end: int) -> list[tuple[int, int]]:
        found = []
        for begin, length, place in self.parts:
            low, high = max(start, begin), min(end, begin + length)
            if low < high and place is not None:
                found.append((place + low - begin, place + high - begin))
        return found


def read_message(parsed: Mapping[str, Any], text: str, number: int) -> Message:
    """The message to play: native calls where the parser found some, else the text as it stands, reasoning included.

    number: of the turn, for the ids of the calls.
    """
    calls = parsed.get("tool_calls")
    if not calls:
        # A template may open the block itself, and then it is no part of what was sampled.
        opened = _CLOSED in text and _OPENED not in text and any(parsed.get(key) for key in _REASONING)
        return {"role": "assistant", "content": f"{_OPENED}{text}" if opened else text}
    cursor = 0
    played: list[Any] = []
    for n, call in enumerate(calls):
        function = call.get("function", call)
        written, cursor = _as_written(text, function["arguments"], cursor)
        named = {"name": function["name"], "arguments": written}
        played.append({"id": f"call_{number}_{n}", "type": "function", "function": named})
    message: Message = {"role": "assistant", "content": parsed.get("content") or None, "tool_calls": played}
    for key in _REASONING:
        if parsed.get(key):
            message["reasoning_content"] = parsed[key]
    return message


def read_hermes(text: str, number: int) -> Message | None:
    """The message of a text that is one call in Hermes' form and nothing else; None for any other text.

    What `read_message` makes of the parsed call, in one pass over the text. number: of the turn, for the call's id.
    """
    head = None if _CLOSED in text else _HEAD.match(text)
    if head is None:
        return None
    begin = head.end()
    try:
        _, end = _SCAN(text, begin)
    except (ValueError, StopIteration, RecursionError):
        return None
    if _TAIL.match(text, end) is None:
        return None
    named: FunctionCall = {"name": head[1], "arguments": text[begin:end]}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}_0", "type": "function", "function": named}],
    }


def locate(message: Message, text: str) -> list[tuple[int, int, int | None]]:
    """`Turn.parts` of a message in the text of its tokens."""
    pieces = [message.get("content") or ""]
    pieces += [call["function"]["arguments"] for call in message.get("tool_calls") or []]
    parts: list[tuple[int, int, int | None]] = []
    begin = cursor = 0
    for piece in pieces:
        place: int | None = text.find(piece, cursor) if piece else None
        if place == -1:
            place = -len(_OPENED) if piece == _OPENED + text else None
        if place is not None:
            cursor = max(cursor, place + len(piece))
        parts.append((begin, len(piece), place))
        begin += len(piece) + 1
    return parts


def _as_written(text: str, arguments: Any, cursor: int) -> tuple[str, int]:
    """A call's arguments as they stand in the text, or written anew where the format is not JSON; where to go on."""
    span = _object_in(text, arguments, cursor)
    return (_written(arguments), cursor) if span is None else (text[span[0] : span[1]], span[1])


def _object_in(text: str, wanted: Any, cursor: int) -> tuple[int, int] | None:
    """Where a value stands in the text as JSON, from `cursor` on; first behind the keys that calls are written with."""
    mark = "[" if isinstance(wanted, list) else "{"
    for key in _KEYS:
        place = text.find(key, cursor)
        place = text.find(mark, place + len(key)) if place >= 0 else -1
        if place >= 0 and (end := _ends(text, place, wanted)):
            return place, end
    for _ in range(_TRIES):
        cursor = text.find(mark, cursor)
        if cursor < 0:
            return None
        if end := _ends(text, cursor, wanted):
            return cursor, end
        cursor += 1
    return None


def _ends(text: str, place: int, wanted: Any) -> int | None:
    """Where the JSON value at a place ends, None where it is not the wanted one."""
    try:
        value, end = _SCAN(text, place)
    except (ValueError, StopIteration, RecursionError):
        return None
    return end if value == wanted and value is not None else None


def _written(arguments: Any) -> str:
    try:
        return encode_json(arguments)
    except (TypeError, ValueError):
        return json.dumps(arguments, default=str)


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of token ids without special tokens, not tidied up."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))


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


Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Credit = Literal["grpo", "hrpo", "stepwise"]
FORMS: tuple[Credit, ...] = ("grpo", "hrpo", "stepwise")


@dataclass(frozen=True, slots=True)
class Row:
    """A completion as the advantages need it, everything over its T tokens.

    held: c_t. returns: R_t. mask: the tokens that the policy wrote and the loss counts. reward: r_i, NaN without a
    score. advantage: the trainer's A_i. group: with which rows it is compared.
    """

    held: Floats
    returns: Floats
    mask: Mask
    reward: float
    advantage: float
    group: Hashable


def token_advantages(rows: Sequence[Row], credit: Credit, weight: float, scale: bool = True) -> list[Floats]:
    """The advantages of each row's tokens; 0 where the mask is false, and throughout for a row without a score.

    weight: λ. scale: divide by deviations at all, where the form has them.
    """
    groups: dict[Hashable, list[int]] = {}
    for n, row in enumerate(rows):
        groups.setdefault(row.group, []).append(n)
    found: list[Floats] = [np.zeros(len(row.mask)) for row in rows]
    for members in groups.values():
        group = [rows[n] for n in members]
        ours = _stepwise(group, scale) if credit == "stepwise" else _added(group, credit, weight, scale)
        for n, values in zip(members, ours, strict=True):
            found[n] = values
    return found


def _stepwise(group: Sequence[Row], scale: bool) -> list[Floats]:
    size = max(len(row.mask) for row in group)
    returns, mask = np.zeros((len(group), size)), np.zeros((len(group), size), dtype=np.bool_)
    for g, row in enumerate(group):
        mask[g, : len(row.mask)] = row.mask
        returns[g, : len(row.mask)] = row.returns if row.reward == row.reward else np.nan
    if not size:
        return [np.zeros(0) for _ in group]
    found = stepwise_advantages(returns, mask, scale=scale, equal="zero")
    return [found[g, : len(row.mask)] for g, row in enumerate(group)]


def _added(group: Sequence[Row], credit: Credit, weight: float, scale: bool) -> list[Floats]:
    rewards = np.array([row.reward for row in group])
    whole = group_advantages(rewards, scale=scale) if credit == "hrpo" else np.array([row.advantage for row in group])
    means = np.array([row.held[row.mask].mean() if row.mask.any() else np.nan for row in group])
    scored = ~np.isnan(rewards) & ~np.isnan(means)
    baseline = means[scored].mean() if scored.any() else 0.0
    return [
        np.where(row.mask & good, a + weight * (row.held - baseline), 0.0)
        for row, a, good in zip(group, whole, scored, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Spread:
    """The credits of an episode over its tokens; tokens outside the mask have none.

    held: c_t, the sum of the credits of the spans that hold the token. shares: each credit divided among its span's
    tokens, so that they sum to the spans' sum. returns: R_t of the stepwise form.
    """

    held: Floats
    shares: Floats
    returns: Floats


def spread(session: Session, turns: Sequence[Turn], mask: Mask, offsets: Callable[[Turn], Offsets]) -> Spread:
    """The report's spans over tokens. turns: the policy's messages, their `first` counted in `mask`.

    A credit of a message that no tokens are known of, or that the mask hides, goes to all tokens of the mask.
    """
    held, shares = np.zeros(len(mask)), np.zeros(len(mask))
    known = {turn.message: turn for turn in turns}
    lengths = {message: turn.length for message, turn in known.items()}
    places: dict[int, Offsets] = {}

    def place_of(turn: Turn) -> Offsets:  # most spans are whole turns, and need none
        if turn.message not in places:
            places[turn.message] = offsets(turn)
        return places[turn.message]

    for span in session.spans:
        where, inside = slice(0, len(mask)), mask
        turn = known.get(span.message)
        if turn is not None:
            where = slice(turn.first, turn.first + len(turn.ids))
            inside = mask[where]
            if span.start > 0 or span.end < lengths[turn.message]:
                inside = turn.holds(place_of(turn), span.start, span.end) & inside
        count = int(np.count_nonzero(inside))
        if not count:
            where, inside = slice(0, len(mask)), mask
            count = int(np.count_nonzero(inside))
        held[where] += span.value * inside
        shares[where] += span.value / max(count, 1) * inside
    own = _corver_returns(session, known, mask, place_of)
    return Spread(held, shares, shares * np.count_nonzero(mask) if own is None else own)


def _corver_returns(
    session: Session, turns: Mapping[int, Turn], mask: Mask, place_of: Callable[[Turn], Offsets]
) -> Floats | None:
    """Equation 4 of CorVer where the environment is CorVer's, its sentences' rewards unspread; None elsewhere."""
    from factgym.envs.corver.env import CorverEnv
    from factgym.rewards.corver.tokens import response_return, token_returns

    episode = session.env
    if not isinstance(episode, CorverEnv) or session.report is None or session.report.status != "scored":
        return None
    message, completion, score = episode.scored()
    turn = turns.get(message)
    rubric = episode.config.rubric
    returns = np.full(len(mask), response_return(score, rubric))
    if turn is not None and completion.text:
        shift = completion.shift - (turn.parts[0][2] or 0)
        inside = np.clip(place_of(turn) + shift, 0, len(score.text))
        returns[turn.first : turn.first + len(turn.ids)] = token_returns(score, inside, rubric).returns
    return np.where(mask, returns, 0.0)
