"""Recognizes the errors by which servers say that a prompt does not fit the model.

Each server words this in its own way, so that the meaning is matched instead: a prompt or a context that is too long,
or a length with a smaller limit. Codes of errors are read as words. Limits of rates, of money, of time and of the reply
alone are no overflow. The wordings that were collected from servers, with their sources, are replayed by
`tests/agents/test_server_matrix.py`.
"""

from __future__ import annotations

import re
from re import _parser  # type: ignore[attr-defined]  # the only reader of Python's own syntax of patterns
from typing import Any

from factgym.core.errors import ConfigError

MAX_PATTERN_TEXT = 1000
"""Characters of an error in which a user's pattern is searched."""

_MAX_PATHS = 20_000

_NEVER, _SELDOM = frozenset({401, 402, 403, 404}), frozenset({408, 429})
"""Statuses of faults other than a prompt's length, whose words can be similar."""

_CODES = frozenset({"1261", "3051"})
"""Codes of Z.ai and Mistral that are no words."""

_MARKS = re.compile(r"(?<=\d),(?=\d{3})|[`'\"]")
_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_REPLY = re.compile(r"\bmax (?:completion |output |new )?tokens\b|\b(?:completion|output|new|generated) tokens?\b")
_OTHER_LIMIT = re.compile(
    r"rate.?limit|\brate increased|too many requests|throttl|quota|credit|billing|afford|balance|concurren"
    r"|per.(?:min|hour|day|second|month|model)|\btp[md]\b|this minute|wait before|again (?:later|in \d)|time ?(?:out|limit)"
    r"|timed out|deadline|retries|budget|vocab|token id|image|pixel|audio|video|file size"
    r"|(?:too many|number of) tools|频率|额度|余额|并发|每分钟"
)
_RATE = re.compile(r"rate.?limit|\brate increased|too many requests|throttl|per min|\btp[md]\b")
_NEVER_PASSES = re.compile(r"limit:? (\d+), requested:? (\d+)")
_FIELD_TOO_LONG = re.compile(r"invalid (\S+?):? (?:string|array) (?:is )?too long")
_CONVERSATION = re.compile(r"\W*(?:messages|input|prompt)(?:\[\d+\])?(?:\.content\S*)?")
_DERIVED = re.compile(
    r"max (?:completion |output |new )?tokens\b.{0,40}(?:at least|greater than|positive|>=).{0,80}(?:-\d|got 0\b)"
    r"|max (?:new )?tokens -\d+ is less than|max new tokens > 0"
)
"""A server's own `max_tokens`, which it computes from the room that the prompt leaves."""

_TOO_LONG = (
    r"(?:too (?:long|large|big)|(?:not )?exceed\w*|surpass\w*|overflow\w*|longer than|larger than|greater than|more than"
    r"|beyond|(?:not|cannot|nt) fit|disabled|full\b|too small for)"
)
_CONTEXT = r"(?:context ?(?:window|length|size|limit|shift)|max(?:imum)? model len\w*|session length)"
_SIZE = (
    r"(?:[\W\d]|\b(?:an?|do|the|this|your|of|in|is|are|was|has|have|been|it|which|that|with|and|should|must|not"
    r"|contains?|estimated|total|sum|plus|number|count|ids|tokens?|length|len|size|text|context|body|payload|entity"
    r"|prompts?|inputs?|messages|query|draft|model)\b"
    r"){0,30}?"
)
"""Words between a prompt and the verdict on its length; anything else would be the subject of the verdict."""

_PROMPT = r"\b(?:prompts?|inputs?|messages|conversation|sequence|context|query|request|payload|body|tokens)\b"
_STRONG = re.compile(
    rf"{_CONTEXT}.{{0,60}}{_TOO_LONG}|{_TOO_LONG}.{{0,60}}{_CONTEXT}|context the overflows|n keep.{{0,12}}>=? ?n ctx"
    r"|max(?:imum)? (?:context|prompt|input|model|sequence) (?:length|len|size|tokens?)\b.{0,60}\d"
    r"|context (?:window|length|size) is \d.{0,40}requested|\bbut the configured context"
    r"|length is \d+ while (?:the )?limit is \d|total tokens\b.{0,40}exceed"
)
_WEAK = re.compile(
    rf"{_PROMPT}{_SIZE}{_TOO_LONG}"
    r"|kv cache is full|exceed\w* the max(?:imum)? (?:number of )?(?:input )?tokens|too many (?:\w+ ){0,2}(?:tokens|text bytes|characters)|\btokens? length too long"
    r"|(?:reduce|shorten|decrease|use a shorter) (?:the )?(?:length of )?(?:the |your )?(?:messages|prompt|input|conversation)"
    r"|range of (?:input|prompt|messages?) (?:length|tokens)|expected max length: \d+, actual: \d"
    r"|\b(?:inputs?|prompt|messages|tokens)\b.{0,40}\bmust\b.{0,12}(?:less than|fewer than|shorter than|at most|<=) \d"
    r"|(?:over|above|beyond|exceeds|reached) (?:(?:the|its|your) )?(?:maximum context|token limit|conversation limit)"
    r"|\btoken count\b.{0,20}\bbut\b.{0,40}up to \d|max(?:imum)? length exceeded|tokens? limit (?:reached|exceeded)"
    r"|(?:输入|上下文|提示|内容|请求|消息|对话|prompt|token|长度).{0,24}(?:超过|超出|超限|过长|过大|太长)"
    r"|(?:超过|超出).{0,12}(?:上下文|长度)"
)
_COMPARISON = re.compile(r"limit|max(?:imum)?\b|only|at most|longer|larger|over\b|[<>]|context|set to|not fit")
_COUNTED = re.compile(r"\btokens?\b|\b(?:prompt|input|context)\b")
_NUMBER = re.compile(r"(?<![\w.-])\d{3,9}(?![\w-])")
_MIN_CONTEXT = 600
"""Tokens of a context, at least; statuses of HTTP are below."""

_TOO_LARGE = re.compile(r"too (?:large|long)|exceed|limit|size|^\W*\d*\W*$")
_SUM = re.compile(r"(?P<input>\d+) \+ \d+ > (?P<context>\d+)")
_CONTEXT_TOKENS = re.compile(r"(?:context (?:length|window|size|limit)(?: is| of|:)?|must be <=) (?P<context>\d+)")
_INPUT_TOKENS = re.compile(
    r"(?P<input>\d+) (?:inputs? tokens|tokens from the input|in (?:the|your) (?:messages|prompt))"
)
_NOTHING_ASKED = re.compile(r"\b0 (?:output tokens|in the completion|for the completion)|without any output tokens")


def words_of(text: str) -> str:
    """Return a message in lower case, its identifiers as words, its numbers without separators."""
    return " ".join(_WORD_ENDS.sub(" ", _MARKS.sub("", text)).lower().split())


def is_overflow(status: int, words: str, codes: frozenset[str]) -> bool:
    """Whether an error says that the prompt does not fit. words: see `words_of`, codes included. codes: of the error."""
    if status in _NEVER and not any("context" in code for code in codes):
        return False
    if field := _FIELD_TOO_LONG.search(words):
        return bool(_CONVERSATION.fullmatch(field[1]))
    prompt = _REPLY.sub("§", words)
    other = _OTHER_LIMIT.search(words)
    if _DERIVED.search(words) or codes & _CODES or _STRONG.search(words):
        return status not in _SELDOM or not other
    if other or status in _SELDOM:
        return False
    if _WEAK.search(prompt) or (status == 413 and _TOO_LARGE.search(words)):
        return True
    numbers = {number for number in map(int, _NUMBER.findall(prompt)) if number >= _MIN_CONTEXT}
    return len(numbers) > 1 and bool(_COUNTED.search(prompt) and _COMPARISON.search(prompt))  # a length and its limit


def is_rate_limit(words: str) -> bool:
    """Whether an error is about the rate of requests, whatever its status."""
    return bool(_RATE.search(words))


def exceeds_rate(words: str) -> bool:
    """Whether a single request is above the limit of the rate, so that waiting is of no use."""
    numbers = _NEVER_PASSES.search(words)
    return numbers is not None and int(numbers[2]) > int(numbers[1])


def tokens_for_reply(words: str) -> int | None:
    """Tokens that the reply may have by the server's own numbers; 0 where unknown, None where the prompt is too long."""
    if _NOTHING_ASKED.search(words) or not (_REPLY.search(words) or "completion" in words):
        return None
    both = _SUM.search(words)
    context, prompt = both or _CONTEXT_TOKENS.search(words), both or _INPUT_TOKENS.search(words)
    if context is None or prompt is None or "at least" in words:
        return 0 if "maximum context" in words or "context length" in words else None
    return max(0, int(context["context"]) - int(prompt["input"])) or None


def check_pattern(pattern: str) -> None:
    """Raise ConfigError for a pattern that is none, or that can take long on a text of `MAX_PATTERN_TEXT` characters."""
    try:
        paths = _paths(_parser.parse(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"overflow_pattern is no regular expression: {error}") from None
    if paths > _MAX_PATHS:
        remedy = "bound its repetitions, as in .{0,40}, and nest none"
        raise ConfigError(f"overflow_pattern can take very long on some texts: {remedy}")


def _paths(parsed: Any) -> int:
    """An upper bound on the ways in which a pattern can match at one position, which bounds backtracking."""
    total = 1
    for operation, value in parsed:
        name = str(operation)
        if name.endswith("REPEAT"):
            low, high, body = value
            high, inner = min(int(high), MAX_PATTERN_TEXT), _paths(body)
            total *= high - low + 1 if inner == 1 else sum(inner ** min(count, 30) for count in range(low, high + 1))
        elif name == "BRANCH":
            total *= sum(map(_paths, value[1]))
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            total *= _paths(value[-1])
        elif name.startswith("GROUPREF"):
            total *= MAX_PATTERN_TEXT
        elif name == "ATOMIC_GROUP":
            total *= _paths(value)
        total = min(total, _MAX_PATHS + 1)
    return total
