"""Endpoint against a local server: modes, transcripts, replies, models, event loops; every request really travels."""

from __future__ import annotations

import asyncio
import gc
import json
import threading

import pytest
from fault_server import FaultServer, call, error, message, reply

import factgym
from factgym.agents.agent import Model
from factgym.agents.endpoint import Endpoint, EndpointSettings
from factgym.agents.script_server import completion
from factgym.core.action import parse_action
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError
from factgym.core.seeds import derive

TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}]
ASK = [{"role": "user", "content": "Answer to check: Übung macht den Meister “x”."}]


def talk(server: FaultServer, *prompts, model="m", seed=7, schemas=TOOLS, **settings):
    """The replies of one episode to several prompts in turn, and the endpoint's description after them."""

    async def run():
        async with server as url:
            endpoint = Endpoint(model, url, **{"max_wait": 0.01, "timeout": 10.0, **settings})
            policy = endpoint.start(seed)
            try:
                text = [await policy.act(prompt, schemas) for prompt in prompts or (ASK,)]
                return text, endpoint.describe()
            finally:
                await endpoint.close()

    return asyncio.run(run())


def bodies(server):
    return [json.loads(body) for body in server.bodies]


def answered(given, **settings):
    """What the endpoint makes of one message of a server."""
    return talk(FaultServer(schedule=[message(given)]), tools="native", **settings)[0][0]


def test_it_is_a_model():
    assert isinstance(Endpoint("m", "http://127.0.0.1:1/v1"), Model)


# --- what is sent


def test_the_request_holds_the_settings_and_the_turns_seed():
    server = FaultServer(keep=True)
    talk(
        server, ASK, ASK, seed=3, temperature=0.5, top_p=0.9, top_k=20, max_tokens=64, stop=["</x>"],
        logprobs=True, top_logprobs=2, extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )  # fmt: skip
    first, second = bodies(server)[-2:]
    assert (first.pop("seed"), second.pop("seed")) == (derive(3, "turn", 0), derive(3, "turn", 1))
    assert first == second == {
        "model": "m", "messages": ASK, "tools": TOOLS, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "max_tokens": 64,
        "stop": ["</x>"], "logprobs": True, "top_logprobs": 2, "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip


def test_nothing_is_sent_that_was_not_set():
    server = FaultServer(keep=True)
    talk(server, send_seed=False)
    assert bodies(server)[-1].keys() == {"model", "messages", "tools"}


def test_cached_bytes_equal_freshly_encoded_bytes():
    env = factgym.make("claimcheck-multihop", split="test")
    env.reset(seed=2)
    server = FaultServer(keep=True)

    async def run():
        prompts = []
        async with server as url:
            endpoint = Endpoint("m", url)
            policy = endpoint.start(1)
            while env.episode.stop is None:
                prompts.append(json.loads(json.dumps(env.policy_prompt())))
                env.step(await policy.act(env.policy_prompt(), env.available_tools()))
            await endpoint.close()
        return prompts

    prompts = asyncio.run(run())
    assert [body["messages"] for body in bodies(server)[2:]] == prompts
    assert len(prompts) == 3


def test_a_changed_history_is_sent_as_it_is_now():
    server = FaultServer(keep=True)
    longer = [*ASK, {"role": "assistant", "content": "hm"}, {"role": "user", "content": "go on"}]
    other = [{"role": "user", "content": "Another context."}, *longer[1:]]
    talk(server, longer, other, ASK)
    assert [body["messages"] for body in bodies(server)[-3:]] == [longer, other, ASK]


WRAPPED = {
    text: {"malformed_arguments": text} for text in ['{"query": "a', "{" * 5000, "NaN", '{"k": Infinity}', "late fees"]
}
ECHOED = ["[1]", '"x"', "null", "3", '"{\\"query\\": \\"a\\"}"']


@pytest.mark.parametrize(
    ("arguments", "expected"), [*WRAPPED.items(), *((text, json.loads(text)) for text in ECHOED), ("", {}), (" ", {})]
)
def test_arguments_are_sent_as_they_came_where_they_are_json(arguments, expected):
    """RFC 8259 has no NaN; servers read arguments as JSON before they render them."""
    server = FaultServer(keep=True)
    parsed = parse_action({"role": "assistant", "content": None, "tool_calls": [call("search", arguments)]})
    history = [*ASK, parsed.message, {"role": "tool", "tool_call_id": "c1", "content": "Error"}]
    reply = talk(server, history)[0][0]
    sent = bodies(server)[-1]["messages"]
    echoed = sent[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(echoed) == expected
    assert sent[1]["content"] == ""
    if arguments in ECHOED:
        assert echoed == arguments and "sent" not in reply["completion"]
    else:
        assert reply["completion"]["sent"] == sent
    assert parsed.message["tool_calls"][0]["function"]["arguments"] == arguments


class ObjectsOnly(FaultServer):
    """A server whose chat template iterates over the items of a call's arguments, as Qwen3-Coder's does."""

    def _next(self, body):
        calls = [call for message in json.loads(body)["messages"] for call in message.get("tool_calls", ())]
        objects = [isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls]
        return "ok" if all(objects) else error(400, "Can only get item pairs from a mapping.")


def test_a_template_that_wants_objects_gets_them_from_then_on():
    server = ObjectsOnly(keep=True)
    parsed = parse_action({"role": "assistant", "content": None, "tool_calls": [call("search", "[1]")]})
    history = [*ASK, parsed.message, {"role": "tool", "tool_call_id": "c1", "content": "Error"}]
    talk(server, history, history)
    calls = [body["messages"][1]["tool_calls"][0] for body in bodies(server) if len(body["messages"]) > 1]
    echoes = [json.loads(call["function"]["arguments"]) for call in calls]
    assert echoes[0] == [1] and echoes[-2:] == [{"malformed_arguments": "[1]"}] * 2
    assert len([echo for echo in echoes if echo == [1]]) <= 2


def test_fields_that_servers_refuse_are_not_sent():
    server = FaultServer(keep=True)
    history = [
        {**ASK[0], "name": "not allowed!"},
        {"role": "assistant", "content": "a", "reasoning_content": "secret thought", "completion": {"raw": "x"}},
        {"role": "assistant", "content": None, "tool_calls": [call("a b\u00e9!", "{}")], "completion": {}},
        {"role": "tool", "tool_call_id": "c1", "content": "ok", "name": "search"},
    ]
    reply = talk(server, history)[0][0]
    sent = bodies(server)[-1]["messages"]
    assert sent[0] == ASK[0]
    assert sent[1] == {"role": "assistant", "content": "a"}
    assert sent[2]["tool_calls"][0]["function"]["name"] == "a_b__"
    assert sent[3] == {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    assert reply["completion"]["sent"] == sent


def test_a_transcript_that_goes_out_as_it_is_is_not_recorded_twice():
    history = [*ASK, {"role": "assistant", "content": "a", "completion": {"raw": "x"}}, *ASK]
    assert "sent" not in talk(FaultServer(), history)[0][0]["completion"]


def test_half_a_surrogate_pair_does_not_stop_a_request():
    server = FaultServer(keep=True)
    talk(server, [{"role": "user", "content": "half \ud83d and whole \U0001f600"}])
    assert bodies(server)[-1]["messages"][0]["content"] == "half ? and whole \U0001f600"


# --- tool modes


def test_text_mode_rewrites_the_transcript_and_records_what_was_sent():
    server = FaultServer(keep=True)
    native = {"role": "assistant", "content": None, "tool_calls": [call("search", '{"query": "a"}')]}
    history = [*ASK, native, {"role": "tool", "tool_call_id": "c1", "content": "found"}]
    text, described = talk(server, history, tools="text")
    (body,) = bodies(server)
    assert "tools" not in body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert '"name": "search"' in body["messages"][0]["content"]
    assert text[0]["completion"]["sent"] == body["messages"]
    assert "<tool_call>" in text[0]["content"]
    assert (described["tools"], "tools_found" in described) == ("text", False)


def test_auto_finds_a_server_that_takes_tools():
    server = FaultServer(keep=True)
    text, described = talk(server)
    with_tools, without, requests = bodies(server)
    assert (with_tools["tools"], with_tools["max_tokens"], "tools" in without) == (TOOLS, 1, False)
    assert requests["tools"] == TOOLS
    assert text[0]["completion"]["notes"]["tools"] == described["tools_found"] == "native"


VLLM = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
REFUSALS = [
    error(400, VLLM, type="BadRequestError"),
    error(422, "tools: extra fields not permitted"),
    error(501, "function calling is not implemented"),
    error(500, "tools param requires --jinja flag"),
    error(400, "registry.ollama.ai/library/x does not support tools"),
    error(404, "No endpoints found that support tool use"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_auto_finds_a_server_that_refuses_tools(refusal):
    server = FaultServer(schedule=[refusal], keep=True)
    text, described = talk(server, ASK, ASK)
    assert described["tools_found"] == "text"
    assert ["tools" in body for body in bodies(server)] == [True, False, False]
    assert text[0]["completion"]["notes"]["tools"] == "text"


def test_auto_finds_a_server_that_drops_tools():
    same = reply(200, completion({"role": "assistant", "content": "a"}, prompt_tokens=11))
    _, described = talk(FaultServer(schedule=[same, same]))
    assert described["tools_found"] == "text"


def test_auto_takes_a_server_without_counts_for_native():
    bare = reply(200, {"choices": [{"message": {"content": "a"}}]})
    _, described = talk(FaultServer(schedule=[bare, bare]))
    assert described["tools_found"] == "native"


def test_a_refusal_of_the_probe_differs_from_a_refusal_of_tools():
    refusal = error(400, "max_tokens is too small")
    with pytest.raises(PolicyError, match="too small"):
        talk(FaultServer(schedule=[refusal, refusal]))
    _, described = talk(FaultServer(schedule=[error(400, "unknown field"), "ok"]))
    assert described["tools_found"] == "text"


def test_a_probe_waits_faults_out_like_any_request():
    server = FaultServer(schedule=["http_503", error(500, "the tool parser crashed"), "ok", "drop_body"])
    text, described = talk(server)
    assert described["tools_found"] == "native"
    assert "retries" not in text[0]["completion"]
    with pytest.raises(PolicyError) as caught:
        talk(FaultServer(schedule=["http_503"] * 3), max_retries=2)
    assert caught.value.cause == "server"


def test_hundreds_of_first_calls_share_the_probe_and_the_list_of_models():
    server = FaultServer(keep=True, delay=0.02)

    async def run():
        async with server as url:
            endpoint = Endpoint(None, url)
            result = await asyncio.gather(*(endpoint.start(seed).act(ASK, TOOLS) for seed in range(512)))
            await endpoint.close()
            return result

    result = asyncio.run(run())
    assert len(result) == 512 and server.requests == 514
    assert {reply["completion"]["notes"]["tools"] for reply in result} == {"native"}


def test_a_cancelled_first_call_leaves_the_probe_to_the_others():
    async def run():
        async with FaultServer(delay=0.05) as url:
            endpoint = Endpoint("m", url)
            tasks = [asyncio.create_task(endpoint.start(seed).act(ASK, TOOLS)) for seed in range(3)]
            await asyncio.sleep(0.02)
            tasks[0].cancel()
            replies = await asyncio.gather(*tasks, return_exceptions=True)
            await endpoint.close()
            return replies

    cancelled, *others = asyncio.run(run())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [reply["completion"]["finish_reason"] for reply in others] == ["tool_calls"] * 2


def test_without_tools_nothing_is_probed():
    server = FaultServer(keep=True)
    text, described = talk(server, schemas=[])
    assert server.requests == 1 and "tools" not in bodies(server)[0]
    assert "tools_found" not in described and "notes" not in text[0]["completion"]


# --- what comes back


def test_reasoning_is_separated_from_the_answer():
    for key in ("reasoning_content", "reasoning"):
        answer = answered({"role": "assistant", "content": "yes", key: "let me see"})
        assert (answer["content"], answer["reasoning_content"]) == ("yes", "let me see")
        assert answer["completion"]["raw"] == {"role": "assistant", "content": "yes", key: "let me see"}
    thought = {"role": "assistant", "content": "<think>hm</think>\n\nyes"}
    assert answered(thought)["content"] == "yes"
    assert answered(thought)["reasoning_content"] == "hm"
    reply = answered(thought, reasoning="keep")
    assert reply["content"] == thought["content"] and "reasoning_content" not in reply
    both = answered({"content": "<think>b</think>c", "reasoning": "a"})
    assert (both["content"], both["reasoning_content"]) == ("c", "a\nb")


def test_only_reasoning_is_not_an_empty_reply():
    reply = answered({"role": "assistant", "content": None, "reasoning_content": "hm"})
    assert (reply["content"], reply["reasoning_content"]) == ("", "hm")
    assert reply["completion"]["requests"] == 1


def test_the_ways_in_which_servers_write_a_message():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, "b", {"type": "text", "text": None}]
    assert answered({"content": parts})["content"] == "ab"
    assert answered({"content": None, "refusal": "I will not."})["content"] == "I will not."
    old = answered({"content": None, "function_call": {"name": "search", "arguments": "{}"}})
    assert old["tool_calls"] == [call("search", "{}", "call_0")]
    objects = answered({"content": "", "tool_calls": [call("search", {"query": "ü"}, None)]})
    assert objects["tool_calls"] == [call("search", '{"query": "ü"}', "call_0")]
    flat = answered({"content": None, "tool_calls": [{"name": "search", "arguments": None}]})
    assert flat["tool_calls"] == [call("search", "{}", "call_0")]


def test_a_raw_message_is_bounded_and_plain():
    deep = {"role": "assistant", "content": "a", "extra": 1e999}
    body = json.dumps({"choices": [{"message": deep}]}).encode()
    answer = talk(FaultServer(schedule=[reply(200, body)]), tools="native")[0][0]
    assert answer["completion"]["raw"]["extra"] is None
    long = answered({"role": "assistant", "content": "a" * 3_000_000})
    assert len(long["content"]) == 3_000_000
    assert isinstance(long["completion"]["raw"], str) and len(long["completion"]["raw"]) <= 2000


def test_usage_and_logprobs_are_recorded_where_they_are_served():
    usage = {
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 3},
    }  # fmt: skip
    content = [
        {"token": "y", "logprob": -0.5, "bytes": None, "top_logprobs": [{"token": "n", "logprob": -1.5}]},
        {"token": "es", "logprob": float("-inf"), "top_logprobs": []},
    ]
    choice = {"message": {"content": "yes"}, "finish_reason": "stop", "logprobs": {"content": content}}
    body = json.dumps({"model": "m-2026", "choices": [choice], "usage": usage}).encode()
    done = talk(FaultServer(schedule=[reply(200, body)]), tools="native", top_logprobs=1)[0][0]["completion"]
    assert done["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 8, "reasoning_tokens": 3}
    assert done["logprobs"] == [{"token": "y", "logprob": -0.5}, {"token": "es", "logprob": -9999.0}]
    assert done["notes"]["top_logprobs"] == [[{"token": "n", "logprob": -1.5}], []]
    assert (done["model"], done["finish_reason"]) == ("m-2026", "stop")
    json.dumps(done, allow_nan=False)


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "10", "completion_tokens": -1}, {"prompt_tokens": True}])
def test_counts_that_are_none_are_left_out(usage):
    body = json.dumps({"choices": [{"message": {"content": "a"}}], "usage": usage}).encode()
    done = talk(FaultServer(schedule=[reply(200, body)]), tools="native")[0][0]["completion"]
    assert "usage" not in done


# --- models, loops, settings


def test_the_only_model_is_taken_and_several_are_listed():
    server = FaultServer(keep=True)
    _, described = talk(server, model=None)
    assert described["model"] == "claimcheck-script"
    assert {body["model"] for body in bodies(server)} == {"claimcheck-script"}


class ManyModels(FaultServer):
    """Its list of models is another one."""

    def __init__(self, listed):
        super().__init__()
        self.listed = listed

    def answer(self, connection, request):
        if request.path.endswith(b"/models"):
            self.listed(self, connection, request)
        else:
            super().answer(connection, request)


def test_several_models_or_none_are_an_error_that_lists_them():
    with pytest.raises(ConfigError, match="lists a, b: name one"):
        talk(ManyModels(reply(200, {"data": [{"id": "a"}, {"id": "b"}]})), model=None)
    for none in ({"data": []}, {"data": [{"name": 1}]}, [], "x"):
        with pytest.raises(ConfigError, match="lists no model"):
            talk(ManyModels(reply(200, none)), model=None)
    with pytest.raises(PolicyError, match=r"name one with model=.*no cache"):
        talk(ManyModels(error(500, "no cache")), model=None, max_retries=0)
    with pytest.raises(PolicyError) as caught:
        talk(ManyModels(error(401, "who are you")), model=None)
    assert caught.value.fatal and "name one" not in str(caught.value)


def test_prepare_finds_the_models_name_for_the_manifest():
    async def run():
        async with FaultServer() as url:
            endpoint = Endpoint(base_url=url)
            before = endpoint.describe()["model"]
            await endpoint.prepare()
            await endpoint.close()
            return before, endpoint.describe()["model"]

    assert asyncio.run(run()) == (None, "claimcheck-script")


def test_an_endpoint_in_successive_loops_closes_its_connections():
    """Loops end without `close`, as a caller's `asyncio.run` for each turn does; pytest fails on what is left open."""
    ready, stop, result = threading.Event(), threading.Event(), []

    async def serve():
        async with FaultServer() as url:
            result.append(url)
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        endpoint = Endpoint("m", result[0])
        policy = endpoint.start(1)
        text = [asyncio.run(policy.act(ASK, TOOLS)) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert [reply["completion"]["requests"] for reply in text] == [1, 1, 1]
    del endpoint, policy
    gc.collect()


def test_it_can_be_used_after_it_was_closed():
    async def run():
        async with FaultServer() as url:
            endpoint = Endpoint("m", url)
            text = []
            for _ in range(2):
                text.append(await endpoint.act(ASK, TOOLS))
                await endpoint.close()
            return text

    assert [reply["completion"]["requests"] for reply in asyncio.run(run())] == [1, 1]


def test_asked_directly_it_sends_no_seed():
    server = FaultServer(keep=True)

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, tools="native")
            await endpoint.act(ASK, TOOLS)
            await endpoint.close()

    asyncio.run(run())
    assert "seed" not in bodies(server)[0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"temprature": 1.0}, "Did you mean 'temperature'"),
        ({"timeout": 0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_wait": -0.5}, "max_wait"),
        ({"connections": 0}, "connections"),
        ({"top_logprobs": 50}, "top_logprobs"),
        ({"temperature": -1.0}, "temperature"),
        ({"extra_body": {"messages": []}}, "messages"),
        ({"extra_body": {"a": object()}}, "JSON"),
        ({"tools": "yes"}, "tools"),
    ],
)
def test_settings_are_checked(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        Endpoint("m", "http://127.0.0.1:1/v1", **settings)


def test_the_description_is_json_and_complete():
    described = Endpoint("m", "http://127.0.0.1:1/v1/", temperature=0.5, stop="x").describe()
    assert json.loads(json.dumps(described)) == described
    assert (described["kind"], described["base_url"], described["stop"]) == ("endpoint", "http://127.0.0.1:1/v1", "x")
    missing = {name for name in EndpointSettings.model_fields if getattr(EndpointSettings(), name) is not None}
    assert missing <= described.keys()


def test_openai_itself_takes_tools_and_names_the_limit_its_own_way(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    endpoint = Endpoint("gpt", max_tokens=9)
    assert endpoint.describe()["tools_found"] == "native"

    async def body():
        return json.loads((await endpoint.template()).body(b"[]"))

    assert asyncio.run(body()) == {"model": "gpt", "messages": [], "max_completion_tokens": 9}
