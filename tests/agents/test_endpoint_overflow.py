"""Words of servers that were not collected: the meaning decides. Those of real servers are in `matrix/`."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest
from fault_server import FaultServer, error
from test_endpoint_faults import ask, fails

import factgym
from factgym.agents.endpoint.faults import fault_of_status
from factgym.agents.endpoint.overflow import is_overflow, tokens_for_reply, words_of
from factgym.agents.endpoint.settings import EndpointSettings
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import collect_async
from factgym.agents.script_server import ScriptServer
from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.tables import fault_sentence
from factgym.core.errors import ConfigError
from factgym.core.policy import ContextOverflowError

OVERFLOWS = """\
Messages exceed max message tokens
Request is over the maximum context of this endpoint
Total of 9000 tokens exceeds the limit for this model
Request is above the token limit for this model
token limit exceeded
超出上下文限制
token数量超过限制
内容过长
请求过大
The current model has reached its conversation limit. Please switch to another model to continue.
slot context: 8192 tokens, prompt 9000 tokens
engine prompt length 9000 exceeds the max_model_len 8192
exceeds token limit
context window full
Number of tokens (9000) exceeded maximum context length (8192).
Text is exceeding maximum context length (512)
The prompt is 9001 tokens; the model's limit is 8192.
the request's total token count 140000 is larger than the maximum 131072
Input too long
Query too long
maximum number of input tokens exceeded
Input validation error: inputs must be shorter than 4096 tokens
expected a prompt of at most 8192 tokens, got 9000
This request's 9000 tokens do not fit in the 8192-token context
model's context window (8192 tokens) is too small for this request (9000 tokens)
Requested 9000 tokens but only 8192 available
max_prompt_length exceeded
This prompt is too long for model's max seq len
Prompt length 9000 is greater than max_seq_len 8192
Request prompt has 9000 tokens in total, larger than the model input length limit 8192.
Total sequence length exceeds cache size in model.forward
Input length of input_ids is 2061, but `max_length` is set to 2048
Failed to generate: input prompt (9000 tokens) is too long. Must be smaller than 8192
$.messages' is too long. Maximum length is 2048, but got 4970 items.
input length 70000 > max 65536
400 Bad Request: total tokens 9000 > 8192
Deduced max_tokens -41 is less than 0
OutofContextError: context length exceeded
too many total text bytes
Context overflow: Summarization failed
n_tokens (9000) > n_ctx (8192)
the prompt exceeds the 8k limit of this model
Your messages are too long for this model
Your conversation is too long, please start a new chat.
input is longer than allowed
The request was too large for the model's context
prompt has 9000 tokens which is over the limit of 8192
Too many tokens in prompt
model_context_window_exceeded
ContextWindowExceededError
PROMPT_TOO_LONG
input_too_long
max_context_length_exceeded
exceeded the maximum number of tokens (8192) that can be processed
Requested 9000 input tokens, limit 8192
ggml: prompt exceeds KV cache
KV cache is full
The messages exceed the model's maximum number of tokens
input_tokens must be <= 8192, got 9000
Input tokens: 9000, maximum: 8192
maximum input tokens 8192, requested 9000
the total length of the messages must not exceed 32000 characters
tokenized prompt is longer than max_input_tokens
"""

OTHERS = """\
The input is invalid
messages must not be empty
Input should be greater than or equal to 1
Input should be less than 2
stop: too many stop sequences (max 4)
Invalid 'n': integer above maximum value
temperature must be between 0 and 2
logit_bias too large
Invalid schema for function 'search': context is required
unknown field: context
request timed out
The request exceeded the deadline
Request failed: connection pool limit exceeded
model m does not support tools
tool message must follow a tool call
prompt is required
the model context could not be created
Internal error: context canceled
context deadline exceeded
rpc error: context deadline exceeded while awaiting headers
The prompt contains disallowed content
request blocked by content filter
Your input violates our policy
No input tokens were provided
The maximum number of concurrent requests was exceeded
request body must be JSON
Exceeded the maximum number of retries
Missing messages
message content must be a string
conversation roles must alternate user/assistant
too many messages with role system
top_logprobs exceeds the limit of 20
Input is not valid UTF-8
Disk limit exceeded
upstream connect error or disconnect/reset before headers. reset reason: overflow
Arithmetic overflow
request queue is full, server overloaded
token has expired
Access token too long
Authorization token is longer than expected
"""


def overflows(text, status=400):
    return is_overflow(status, words_of(text), frozenset())


@pytest.mark.parametrize("text", OVERFLOWS.splitlines())
def test_a_length_above_its_limit_is_an_overflow(text):
    assert overflows(text) and overflows(text.upper()), text
    assert overflows(text, 500) and not overflows(text, 401)


@pytest.mark.parametrize("text", OTHERS.splitlines())
def test_other_limits_and_faults_are_no_overflow(text):
    assert not overflows(text), text


def test_a_status_for_rates_is_believed_unless_the_words_name_the_context():
    assert overflows("This model's maximum context length is 8192 tokens, your prompt has 9000", 429)
    assert not overflows("rate limit: maximum context length of 8192 tokens per minute exceeded", 429)
    assert not overflows("prompt is too long", 429)


def test_the_request_that_an_error_quotes_is_not_read():
    """The `input` of pydantic's errors is the text of the prompt (pydantic's documentation, "Errors")."""
    detail = [{"type": "string_type", "loc": ["body", "seed"], "msg": "Input should be a valid integer"}]
    quoted = {"detail": [{**detail[0], "input": "The prompt is too long: 9000 tokens > 8192"}]}
    fault = fault_of_status(422, {}, json.dumps(quoted).encode())
    assert (fault.cause, fault.message) == ("bad_request", "HTTP 422: body.seed: Input should be a valid integer")


def test_the_numbers_of_the_server_say_what_fits():
    """The remainder by hand: context minus prompt."""
    text = "input length and `max_tokens` exceed context limit: 198157 + 21333 > 200000"
    assert tokens_for_reply(words_of(text)) == 200000 - 198157
    assert tokens_for_reply(words_of("prompt is too long: 202128 tokens > 200000 maximum")) is None


@pytest.mark.parametrize(
    "unit", ["prompt 9000 tokens context ", "input is " * 3, "a" * 20, "max_tokens at least ", "9,000 "]
)
def test_reading_an_error_takes_time_in_proportion_to_its_length(unit):
    def seconds(size):
        text = words_of((unit * size)[:size])
        started = time.process_time()
        for _ in range(3):
            is_overflow(400, text, frozenset())
        return time.process_time() - started

    seconds(4000)
    assert seconds(8000) < 2.5 * max(seconds(4000), 0.01) and seconds(8000) < 0.3


def test_a_users_pattern_names_an_overflow():
    refusal = error(418, "The scroll of Qumran is brimming over")
    assert fails(FaultServer(schedule=[refusal])).cause == "bad_request"
    with pytest.raises(ContextOverflowError):
        ask(FaultServer(schedule=[refusal]), overflow_pattern=r"scroll .{0,40}BRIMMING")


@pytest.mark.parametrize("pattern", ["(", "", "a{2,1}", r"(?P<a>.)(?P<a>.)"])
def test_a_pattern_that_is_none_is_refused(pattern):
    with pytest.raises(ConfigError, match="overflow_pattern"):
        EndpointSettings.build("an endpoint", {"overflow_pattern": pattern})


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"(a|a)*$", r".*.*.*$", r"(\w+\s?)*:", r"(a{1,50}){1,50}x", r"(a)\1*.*b"]
)
def test_a_pattern_that_can_take_for_ever_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"bound its repetitions"):
        EndpointSettings.build("an endpoint", {"overflow_pattern": pattern})


@pytest.mark.parametrize(
    "pattern", ["too big", r"limit of \d+ items", r"(?:prompt|input).{0,40}(?:big|long)", r"prompt.*over"]
)
def test_an_ordinary_pattern_is_taken_and_is_fast(pattern):
    settings = EndpointSettings.build("an endpoint", {"overflow_pattern": pattern})
    assert settings.overflow_pattern == pattern
    body = json.dumps({"error": {"message": "prompt input limit of 1 " * 2000}}).encode()
    started = time.process_time()
    fault_of_status(400, {}, body, re.compile(pattern, re.IGNORECASE))
    assert time.process_time() - started < 0.5


class _Refusing(ScriptServer):
    """Refuses prompts above a size with words that nobody knows."""

    def chat(self, connection, request):
        if len(request.body) > 8360:
            connection.send(418, b'{"error":{"message":"The scroll of Qumran is brimming"}}')
        else:
            super().chat(connection, request)


def test_unknown_refusals_of_the_longest_prompts_are_a_class_of_their_own(tmp_path):
    env = factgym.make("claimcheck-multihop")

    async def play(resume=False, **settings):
        async with _Refusing() as url:
            agent = find_agent(url, "claimcheck-multihop", {"tools": "native", **settings})
            return await collect_async(env, agent, tmp_path, n=12, resume=resume, limits=Limits(max_errors=0))

    episodes = list(asyncio.run(play()).episodes())
    lost = [episode for episode in episodes if episode["error"]]
    assert 0 < len(lost) < 12, "some episodes outgrow the limit"
    summary = summarise(episodes)
    assert summary.causes == {"unknown_at_longest_prompts": len(lost)}
    assert "overflow_pattern=" in fault_sentence(summary)
    # The same refusal of a prompt that is much shorter than answered ones has nothing to do with its length.
    short = {**lost[0], "messages": lost[0]["messages"][:1], "turns": [], "task": "other"}
    assert summarise([*episodes, short]).causes == {"unknown_at_longest_prompts": len(lost), "bad_request": 1}
    scored = list(asyncio.run(play(resume=True, overflow_pattern="brimming")).episodes())
    assert [episode["stop"] for episode in scored].count("context_limit") == len(lost)
    assert summarise(scored).errors == 0
