"""Every fault of a server through the real client: errors, replies and records; then hundreds of episodes with faults."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from fault_server import FAULTS, INFRASTRUCTURE, POLICY, FaultServer, call, calls, error, message, reply
from test_engine import by_job

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import collect_async
from factgym.agents.runs.schema import validate
from factgym.benchmarks.metrics import summarise
from factgym.core.policy import ContextOverflowError, PolicyError

TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}]
ASK = [{"role": "user", "content": "Answer to check: The moon is made of basalt."}]
SEARCH = '{"query":"The moon is made of basalt."}'

CAUSES = {
    "drop_before": "connection",
    "drop_head": "connection",
    "drop_body": "connection",
    "slow": "timeout",
    "rate_limit_seconds": "rate_limit",
    "rate_limit_ms": "rate_limit",
    "rate_limit_date": "rate_limit",
    "rate_limit_silent": "rate_limit",
    "http_500": "server",
    "http_502": "server",
    "http_503": "server",
    "http_529": "server",
    "html": "bad_reply",
    "invalid_json": "bad_reply",
    "truncated_json": "bad_reply",
    "garbage": "bad_reply",
    "empty_choices": "bad_reply",
    "no_message": "bad_reply",
    "wrong_types": "bad_reply",
    "huge": "bad_reply",
    "huge_chunked": "bad_reply",
    "empty": "empty_reply",
}


def ask(server: FaultServer, messages=ASK, tools=TOOLS, seed=7, mode="native", **settings):
    """The reply to one question."""

    async def run():
        async with server as url:
            chosen = {"tools": mode, "max_wait": 0.01, "timeout": 5.0, **settings}
            endpoint = Endpoint("m", url, **chosen)
            policy = endpoint.start(seed)
            try:
                return await policy.act(messages, tools)
            finally:
                await endpoint.close()

    return asyncio.run(run())


def fails(server: FaultServer, **settings) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        ask(server, **settings)
    return caught.value


def test_every_infrastructure_fault_has_its_cause():
    assert set(CAUSES) == INFRASTRUCTURE


@pytest.mark.parametrize("fault", CAUSES)
def test_a_fault_that_passes_is_retried_and_recorded(fault):
    server = FaultServer(schedule=[fault], slow=2.0)
    reply = ask(server, timeout=0.3 if fault == "slow" else 10.0)
    assert reply["tool_calls"][0]["function"] == {"name": "search", "arguments": SEARCH}
    done = reply["completion"]
    assert done["requests"] == 2
    assert [retry["cause"] for retry in done["retries"]] == [CAUSES[fault]]
    assert 0 <= done["retries"][0]["waited"] <= 0.01
    assert server.counts == {fault: 1, "ok": 1}


@pytest.mark.parametrize("fault", sorted(set(CAUSES) - {"empty", "slow"}))
def test_a_fault_that_stays_ends_the_episode_as_an_error(fault):
    server = FaultServer(schedule=[fault] * 3)
    error = fails(server, max_retries=2)
    assert (error.cause, error.fatal) == (CAUSES[fault], False)
    assert "after 3 requests" in str(error)
    assert server.requests == 3
    assert len(str(error)) < 800


def test_a_timeout_that_stays():
    error = fails(FaultServer(schedule=["slow"] * 2, slow=3.0), max_retries=1, timeout=0.2)
    assert error.cause == "timeout"
    assert "0.2 s" in str(error)


def test_several_faults_of_one_reply_are_recorded_in_order():
    reply = ask(FaultServer(schedule=["http_503", "drop_body", "html", "rate_limit_ms"]))
    causes = [retry["cause"] for retry in reply["completion"]["retries"]]
    assert causes == ["server", "connection", "bad_reply", "rate_limit"]


def test_waits_are_the_same_for_the_same_seed():
    def waits(seed):
        reply = ask(FaultServer(schedule=["http_503", "http_503"]), seed=seed)
        return [retry["waited"] for retry in reply["completion"]["retries"]]

    assert waits(1) == waits(1) != waits(2)


def test_a_wait_above_max_wait_is_not_sat_out():
    server = FaultServer(schedule=[error(429, "come back tomorrow", b"Retry-After: 3600\r\n")])
    failed = fails(server)
    assert failed.cause == "rate_limit"
    assert "3600 s" in str(failed) and "max_wait" in str(failed)
    assert server.requests == 1


def test_a_refused_connection_is_an_ordinary_error():
    async def run():
        async with FaultServer() as url:
            pass
        endpoint = Endpoint("m", url, max_retries=1, max_wait=0.01, tools="native")
        try:
            await endpoint.act(ASK, TOOLS)
        finally:
            await endpoint.close()

    with pytest.raises(PolicyError) as caught:
        asyncio.run(run())
    assert (caught.value.cause, caught.value.fatal) == ("connection", False)
    assert "127.0.0.1" in str(caught.value) and "is the server running?" in str(caught.value)
    assert "after 2 requests" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message", "fields", "cause"),
    [
        (401, "Incorrect API key provided", {"code": "invalid_api_key"}, "authentication"),
        (403, "Country not supported", {}, "authentication"),
        (404, "The model `m` does not exist", {"code": "model_not_found"}, "not_found"),
        (429, "You exceeded your current quota", {"code": "insufficient_quota"}, "quota"),
        (402, "Insufficient credits", {}, "quota"),
        (400, "No connected db.", {}, "authentication"),  # LiteLLM's proxy, of a wrong key
        (400, "Invalid model name passed in model=m.", {}, "not_found"),
    ],
)
def test_faults_of_every_episode_are_fatal_and_not_retried(status, message, fields, cause):
    server = FaultServer(schedule=[error(status, message, **fields)])
    failed = fails(server)
    assert (failed.cause, failed.fatal) == (cause, True)
    assert message in str(failed)
    assert server.requests == 1


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_not_found_names_the_model_the_url_and_the_listed_models(mode):
    server = FaultServer(schedule=[error(404, "no such model")])
    failed = fails(server, mode=mode)
    assert (failed.cause, failed.fatal) == ("not_found", True)
    assert "'m'" in str(failed) and server.url in str(failed) and "claimcheck-script" in str(failed)


def test_the_error_of_a_server_that_refuses_tools_names_text_mode():
    failed = fails(FaultServer(schedule=[error(400, "tools are not enabled")]))
    assert "tools are not enabled" in str(failed) and "tools='text'" in str(failed)


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422])
def test_another_refusal_is_not_retried(status):
    server = FaultServer(schedule=[error(status, "temperature \x1b[31m\n\u202eis too high" + "!" * 5000)])
    failed = fails(server)
    assert (failed.cause, failed.fatal) == ("bad_request", False)
    assert "temperature" in str(failed) and "is too high" in str(failed)
    assert str(failed).isprintable() and len(str(failed)) < 800
    assert server.requests == 1


@pytest.mark.parametrize("status", [408, 409, 425, 500, 504])
def test_statuses_that_pass(status):
    reply = ask(FaultServer(schedule=[error(status, "not now")]))
    assert [retry["cause"] for retry in reply["completion"]["retries"]] == ["server"]


OVERFLOWS = [
    (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
    (400, {"error": {"message": "Input tokens exceed the configured limit of 272000 tokens."}}),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, Please reduce the length of the messages."}),
    (400, {"error": {"message": "This model's maximum context length is 10240 tokens. However, your request has 11000 input tokens. Please reduce the length of the input messages."}}),
    (400, {"error": {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}}),
    (400, {"object": "error", "message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."}),
    (400, {"error": {"message": "Requested token count exceeds the model's maximum context length of 4096 tokens."}}),
    (400, {"error": {"code": 400, "message": "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it", "type": "exceed_context_size_error"}}),
    (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", "error_type": "validation"}),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`"}),
    (413, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (400, {"error": "the input length exceeds the context length"}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_a_prompt_that_does_not_fit_is_the_policys_own_limit(status, body):
    server = FaultServer(schedule=[reply(status, body)])
    with pytest.raises(ContextOverflowError):
        ask(server)
    assert server.requests == 1


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens must be at least 1",
        "The context of the tool `search` is not valid",
        "Invalid value for 'input': expected a string",
    ],
)
def test_other_errors_are_no_overflow(text):
    assert fails(FaultServer(schedule=[error(400, text)])).cause == "bad_request"


TOO_MUCH = [
    ("'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (5000 > 4096 - 1000).", 3096),
    ("This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 'max_tokens'. Please reduce one or the other.", 2040),
    ("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.", 96),
    ("Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4000 tokens from the input messages and 1000 tokens for the completion.", 96),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`", 96),
    ("This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "limit"), TOO_MUCH)
def test_a_prompt_that_fits_with_fewer_reply_tokens_is_sent_again(text, limit):
    server = FaultServer(schedule=[error(400, text)], keep=True)
    answer = ask(server, max_tokens=5000)
    assert [json.loads(body).get("max_tokens") for body in server.bodies] == [5000, limit]
    assert answer["completion"]["notes"]["max_tokens"] == (limit or 0)
    assert "retries" not in answer["completion"]
    server = FaultServer(schedule=[error(400, text)] * 2)
    with pytest.raises(ContextOverflowError):
        ask(server, max_tokens=5000)
    assert server.requests == 2


def test_an_empty_reply_is_retried_once_and_then_returned():
    server = FaultServer(schedule=["empty", "empty"])
    reply = ask(server)
    assert reply["content"] == "" and "tool_calls" not in reply
    assert [retry["cause"] for retry in reply["completion"]["retries"]] == ["empty_reply"]
    assert reply["completion"]["notes"] == {"empty_reply": "returned as it came", "outcome": "empty"}
    assert server.requests == 2


def test_an_empty_reply_that_the_model_wrote_stays():
    server = FaultServer(schedule=["empty_said"])
    reply = ask(server)
    assert reply["content"] == ""
    assert reply["completion"]["usage"]["completion_tokens"] == 3
    assert server.requests == 1


def test_a_models_own_bad_reply_is_returned_unchanged():
    cut = ask(FaultServer(schedule=["length"]))
    assert cut["content"] == '<tool_call>{"name": "search", "arg'
    assert cut["completion"]["finish_reason"] == "length"
    broken = ask(FaultServer(schedule=["malformed_arguments"]))
    assert broken["tool_calls"][0]["function"]["arguments"] == '{"query": "a'
    filtered = ask(
        FaultServer(schedule=[message({"role": "assistant", "content": ""}, finish_reason="content_filter")])
    )
    assert filtered["completion"]["finish_reason"] == "content_filter"
    for answer in (cut, broken, filtered):
        assert answer["completion"]["requests"] == 1


def test_a_reply_that_the_server_broke_off_is_not_the_models():
    reply = ask(FaultServer(schedule=[message({"role": "assistant", "content": "hal"}, finish_reason="abort")]))
    assert [retry["cause"] for retry in reply["completion"]["retries"]] == ["server"]


def test_an_error_inside_a_good_status_is_an_error():
    answer = ask(FaultServer(schedule=[reply(200, {"error": {"code": 429, "message": "busy"}})]))
    assert [retry["cause"] for retry in answer["completion"]["retries"]] == ["rate_limit"]


def test_doubled_and_missing_ids_are_made_unique():
    reply = ask(FaultServer(schedule=["duplicate_ids"]))
    ids = [tool_call["id"] for tool_call in reply["tool_calls"]]
    assert len(set(ids)) == 2
    reply = ask(FaultServer(schedule=[calls(call("search", {"query": "a"}, None), call(None, None, 7))]))
    assert [tool_call["id"] for tool_call in reply["tool_calls"]] == ["call_0", "call_1"]
    functions = [tool_call["function"] for tool_call in reply["tool_calls"]]
    assert functions == [{"name": "search", "arguments": '{"query": "a"}'}, {"name": "", "arguments": "{}"}]


def test_a_cancelled_request_gives_its_connection_back():
    async def run():
        server = FaultServer(schedule=["slow", "ok"], slow=30.0)
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", connections=1)
            task = asyncio.create_task(endpoint.start(1).act(ASK, TOOLS))
            while not server.requests:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            text = await asyncio.wait_for(endpoint.start(1).act(ASK, TOOLS), 10)
            await endpoint.close()
            while server.connections:
                await asyncio.sleep(0.005)
            return text

    assert asyncio.run(run())["completion"]["requests"] == 1


def test_the_schedule_follows_the_requests_and_not_their_order():
    rates = {"http_500": 0.3, "drop_body": 0.2, "html": 0.1}

    def causes(order):
        async def run():
            async with FaultServer(seed=3, rates=rates) as url:
                endpoint = Endpoint("m", url, tools="native", max_wait=0.001, max_retries=50)

                async def retry_causes(seed):
                    done = (await endpoint.start(seed).act(ASK, TOOLS))["completion"]
                    return seed, [item["cause"] for item in done.get("retries", [])]

                forward = await asyncio.gather(*(retry_causes(seed) for seed in order))
                await endpoint.close()
                return dict(forward)

        return asyncio.run(run())

    forwards, backwards = causes(range(60)), causes(reversed(range(60)))
    assert forwards == backwards
    kinds = {cause for forward in forwards.values() for cause in forward}
    assert kinds == {"server", "connection", "bad_reply"}


def test_all_named_faults_are_played_here():
    assert {"empty_said", "length", "malformed_arguments", "duplicate_ids", "overflow"} | set(CAUSES) == set(FAULTS)
    with pytest.raises(ContextOverflowError):
        ask(FaultServer(schedule=["overflow"]))


# Hundreds of episodes against a server that fails on a seeded schedule: every one of them is accounted for.


RATES = dict.fromkeys(sorted(INFRASTRUCTURE | POLICY), 0.012) | {"slow": 0.006}
RUN_CAUSES = {"rate_limit", "server", "connection", "timeout", "bad_reply", "empty_reply"}
PLAN = {"n": 40, "k": 4, "limits": Limits(concurrency=100, max_errors=0)}


def endpoint(url, retries, timeout=3.0):
    model = Endpoint(base_url=url, tools="native", max_retries=retries, max_wait=0.02, timeout=timeout)
    return agent_from_model("endpoint", model)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run without a fault, a run with faults and few retries, and that run continued until nothing is left to do."""
    env = factgym.make("claimcheck-multihop")
    folder = tmp_path_factory.mktemp("runs")

    async def main():
        async with FaultServer() as url:
            # A busy machine must not make the calm run time out: it is what the other one is compared with.
            calm = await collect_async(env, endpoint(url, 0, timeout=60.0), folder / "calm", **{**PLAN, "k": 1})
        server = FaultServer(seed=7, rates=RATES, slow=60.0)
        async with server as url:
            first = await collect_async(env, endpoint(url, 1), folder / "faults", **PLAN)
            first = list(first.episodes())
            for _ in range(6):
                run = await collect_async(env, endpoint(url, 1), folder / "faults", resume=True, **PLAN)
        return list(calm.episodes()), first, run, server

    return asyncio.run(main())


def test_every_episode_is_recorded_once_and_every_error_has_a_cause(played):
    calm, first, _, server = played
    assert len(first) == len(by_job(first)) == 160
    assert set(by_job(first)) == {(episode["index"], sample) for episode in calm for sample in range(4)}
    errors = Counter(episode["error"]["cause"] for episode in first if episode["error"])
    # On a busy machine calm requests time out as well; most episodes end all the same.
    assert 3 < errors.total() < 80
    assert set(errors) <= RUN_CAUSES
    assert set(server.counts) == {*RATES, "ok"}, "every fault was met"
    for episode in first:
        validate(episode)
        assert (episode["reward"]["status"] == "error") == (episode["error"] is not None)
    summary = summarise(first)
    assert (summary.n, summary.errors, summary.scored) == (160, errors.total(), 160 - errors.total())


def test_retried_requests_leave_no_trace_in_the_episode(played):
    """An episode that met the infrastructure's faults alone is the very episode of a calm server (one a task)."""
    calm, first, _, _ = played
    assert not [episode["error"] for episode in calm if episode["error"]]
    reference = {episode["index"]: (episode["messages"], episode["reward"], episode["stop"]) for episode in calm}
    retried = same = other = 0
    for key, episode in by_job(first).items():
        if episode["error"]:
            continue
        retried += any((turn["completion"] or {}).get("retries") for turn in episode["turns"])
        if (episode["messages"], episode["reward"], episode["stop"]) == reference[key[0]]:
            same += 1
        else:
            other += 1
            assert episode["stop"] == "context_limit" or any(_policy_fault(turn) for turn in episode["turns"]), key
    assert retried > 16
    assert same > 80
    assert other > 4


def _policy_fault(turn):
    """Whether the model itself said something else than in the script: nothing, half a call, two calls."""
    text = turn["completion"] or {}
    return turn["error"] is not None or text.get("finish_reason") == "length" or len(turn["calls"]) != 1


def test_a_run_is_continued_until_there_is_no_error(played):
    _, first, run, _ = played
    last = list(run.episodes())
    assert len(last) == len(by_job(last)) == 160
    assert not [episode["error"] for episode in last if episode["error"]]
    attempts = Counter(episode["attempt"] for episode in last)
    assert attempts[1] == sum(episode["error"] is None for episode in first)
    assert max(attempts) >= 2
    by_key = by_job(last)
    for key, episode in by_job(first).items():
        assert episode["error"] is not None or by_key[key] == episode
