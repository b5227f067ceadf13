"""Reasoning that goes back and conversations that are folded: real chat templates, and a brute-force twin of the search."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from pathlib import Path

import pytest
from fault_server import call, message
from test_endpoint_adaptation import played

import factgym
from factgym.agents.endpoint.faults import Fault, fault_of_status
from factgym.agents.endpoint.forms import Forms
from factgym.agents.endpoint.reply import ChatReply, completion_of_stream, read_reply
from factgym.agents.endpoint.request import Form, Transcript
from factgym.agents.export.source import Form as ExportForm
from factgym.agents.export.source import conversations
from factgym.agents.folding import FOLDS, REASONING_REFUSED, fold, foldings
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import play
from factgym.agents.rollout.jobs import Job
from factgym.agents.script_server import ScriptServer, completion, scripted_reply
from factgym.benchmarks.tables import effort

SEARCH = call("search", '{"query": "rent"}')
SYSTEM, USER = {"role": "system", "content": "Check."}, {"role": "user", "content": "The rent is due."}
CALLED = {"role": "assistant", "content": None, "tool_calls": [SEARCH]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "No passages."}
WORDS = {"role": "assistant", "content": "Hm."}


# --- folds


def refusing(refuses):
    """An `ask` of a server that refuses some conversations, and the conversations that it took or refused."""
    requests = []

    async def ask(body, patient):
        messages = json.loads(body)
        requests.append(messages)
        if refuses(messages):
            return fault_of_status(400, {}, b'{"message": "these roles are refused"}')
        return ChatReply({"role": "assistant", "content": "yes"}, {"raw": ""}, empty=False)

    return ask, requests


def exchanged(forms, messages, ask):
    return asyncio.run(forms.exchange(messages, Transcript(), ask))


def test_the_least_fold_that_is_taken_is_found_as_by_trying_all():
    """Against random rules about neighbouring roles: the search agrees with one that knows the rule."""
    drawn = random.Random(7)
    kinds = [SYSTEM, USER, CALLED, RESULT, WORDS]
    outcomes = []
    for _ in range(400):
        given = [SYSTEM] * drawn.randint(0, 1) + [drawn.choice(kinds) for _ in range(drawn.randint(1, 5))]
        pairs = list(itertools.product(["", "system", "user", "assistant", "tool"], repeat=2))
        banned = set(drawn.sample(pairs, drawn.randint(1, 6)))

        def refuses(messages, banned=banned):
            roles = ["", *(message["role"] for message in messages), ""]
            return any(pair in banned for pair in itertools.pairwise(roles))

        forms, (ask, requests) = Forms("auto", set()), refusing(refuses)
        outcome = exchanged(forms, given, ask)
        right = next((folded for _, folded in foldings(given) if not refuses(folded)), None)
        outcomes.append(right is None)
        if right is None:
            assert isinstance(outcome, Fault) and outcome.message == "HTTP 400: these roles are refused"
            first = len(requests)
            exchanged(forms, given, ask)
            assert len(requests) == first + 1, "what no fold helped against is not tried again"
        else:
            assert isinstance(outcome, ChatReply) and requests[-1] == right
            first = len(requests)
            exchanged(forms, given, ask)
            assert requests[first:] == [right], "learnt for good"
        assert first <= len(list(foldings(given)))
    assert 50 < sum(outcomes) < 350


def test_a_fold_is_applied_to_the_conversations_that_hold_what_was_refused_and_to_no_other():
    forms = Forms("auto", adapted := set())
    ask, requests = refusing(
        lambda messages: any(m["role"] == "tool" and n["role"] == "user" for m, n in itertools.pairwise(messages))
    )
    plain, odd = [SYSTEM, USER, CALLED, RESULT], [SYSTEM, USER, CALLED, RESULT, USER]
    exchanged(forms, [SYSTEM, USER], ask)
    exchanged(forms, plain, ask)
    assert requests == [[SYSTEM, USER], fold(plain, frozenset())]
    exchanged(forms, odd, ask)
    assert adapted == {FOLDS["tools"], FOLDS["neighbours"]}
    exchanged(forms, plain, ask)
    assert requests[-1] == fold(plain, frozenset())
    exchanged(forms, odd, ask)
    assert [m["role"] for m in requests[-1]] == ["system", "user", "assistant", "user"]


def test_an_unknown_error_in_a_conversation_of_known_roles_is_not_asked_about_again():
    forms = Forms("auto", set())
    ask, requests = refusing(lambda messages: False)
    exchanged(forms, [SYSTEM, USER, WORDS, USER], ask)

    async def fails(body, patient):
        requests.append(body)
        return fault_of_status(400, {}, b"{}")

    assert isinstance(exchanged(forms, [SYSTEM, USER, WORDS, USER], fails), Fault)
    assert len(requests) == 2


def test_folds_lose_no_text():
    given = [SYSTEM, USER, CALLED, RESULT, WORDS, WORDS, USER, SYSTEM]
    for _, folded in foldings(given):
        text = json.dumps(folded)
        assert all(text.count(part) >= 1 for part in ("Check.", "The rent is due.", "No passages.", "Hm.", "rent"))
    assert fold(given, frozenset()) == [{**message, "content": message["content"] or ""} for message in given]


class Templated(ScriptServer):
    """Renders each conversation with a chat template, as servers do, and answers what that raises."""

    def __init__(self, template, status):
        import tiny_model

        super().__init__()
        self.words, self.status = tiny_model.tokenizer(template), status

    def chat(self, connection, request):
        body = json.loads(request.body)
        for given in body["messages"]:
            for made in given.get("tool_calls", ()):
                made["function"]["arguments"] = json.loads(made["function"]["arguments"])
        try:
            with_tools, without = (self.rendered(body["messages"], tools) for tools in (body.get("tools"), None))
        except Exception as error:  # noqa: BLE001 - as servers do
            text = json.dumps({"error": {"message": str(error), "code": self.status}}).encode()
            return connection.send(self.status, text)
        if with_tools == without:
            body.pop("tools", None)
        reply = json.loads(scripted_reply(json.dumps(body).encode()))
        reply["usage"]["prompt_tokens"] = len(with_tools)
        return self.reply(connection, request, json.dumps(reply).encode())

    def rendered(self, messages, tools):
        return self.words.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True, tokenize=False, bos_token="<s>"
        )


def _templates():
    trl = pytest.importorskip("trl", reason="needs the extra 'trl'")
    folder = Path(trl.__file__).parent / "chat_templates"
    return {
        path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.jinja")) if "training" not in path.stem
    }


OF_IMAGES = {"llava_next"}
"""Takes contents in parts only."""


def test_every_chat_template_that_trl_carries_plays_behind_a_server_and_here():
    """The templates are those of the models' own repositories."""
    import tiny_model

    from factgym.agents.local.chat import ChatFormat, Codec

    templates = _templates()
    assert len(templates) > 30
    adaptations = {}
    for number, (name, template) in enumerate(templates.items()):
        if name in OF_IMAGES:
            continue

        async def run(template=template, status=(400, 422, 500)[number % 3]):
            async with Templated(template, status) as url:
                agent = find_agent(url, "claimcheck-multihop", {"max_retries": 0})
                record, _ = await play(factgym.make("claimcheck-multihop"), agent, Job(index=0))
                await agent.close()
            return record, agent.describe()

        record, described = asyncio.run(run())
        assert record["stop"] == "submitted", (name, record["error"])
        words = tiny_model.tokenizer(template)
        here = ChatFormat(words, Codec(words, [words.eos_token_id], ()), name, options={"bos_token": "<s>"})
        rendered = here.render(record["messages"][:-1], record["tools"])
        assert (described["tools_found"] == "native") == here.native, name
        adaptations[name] = set(described.get("adapted", ()))
        # A server does not tell when its template drops a system message; a refusal is met alike.
        assert adaptations[name] - set(rendered.adapted) <= {FOLDS["content"]}, name  # here, null is never rendered
        assert set(rendered.adapted) - adaptations[name] <= ({FOLDS["system"]} if not here.system else set()), name
    assert adaptations["gemma"] == {FOLDS["system"]} and adaptations["qwen3"] == set()


# --- reasoning


THOUGHT = 'Drafts never run: <tool_call>{"name": "submit", "arguments": {}}</tool_call>'


class Thinking(ScriptServer):
    """The script, which thinks before each reply, under a key; refuses it in requests where told so."""

    def __init__(self, key, refuses=False):
        super().__init__()
        self.key, self.refuses, self.bodies = key, refuses, []

    def chat(self, connection, request):
        body = json.loads(request.body)
        self.bodies.append(body)
        if self.refuses and any(self.key in given for given in body["messages"]):
            return connection.send(
                400, json.dumps({"error": {"message": f"property '{self.key}' is unsupported"}}).encode()
            )
        return super().chat(connection, request)

    def reply(self, connection, request, body):
        data = json.loads(body)
        turn = request.body.count(b'"role":"assistant"')
        data["choices"][0]["message"][self.key] = f"Turn {turn}. {THOUGHT}"
        super().reply(connection, request, json.dumps(data).encode())


def episode(server, **settings):
    async def run():
        async with server as url:
            agent = find_agent(url, "claimcheck-multihop", {"max_retries": 0, **settings})
            record, _ = await play(factgym.make("claimcheck-multihop"), agent, Job(index=0))
            await agent.close()
        return record

    return asyncio.run(run())


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("tools", ["native", "text"])
@pytest.mark.parametrize("stream", [False, True])
def test_records_and_exports_hold_what_the_model_saw(key, tools, stream):
    server = Thinking(key)
    record = episode(server, tools=tools, stream=stream)
    assert record["stop"] == "submitted"
    thoughts = [f"Turn {turn}. {THOUGHT}" for turn in range(3)]
    assert [given[key] for given in server.bodies[-1]["messages"] if given["role"] == "assistant"] == thoughts[:2]
    assert [turn["sent"] is None for turn in record["turns"]] == [tools == "native"] * 3
    (whole,) = conversations(record, ExportForm())
    assert [given["reasoning_content"] for given in whole.messages if given["role"] == "assistant"] == thoughts
    assert f"reasoning is sent back as {key}" in record["turns"][-1]["completion"]["notes"]["adapted"]


def test_refused_reasoning_is_in_no_exported_prompt():
    server = Thinking("reasoning", refuses=True)
    record = episode(server, tools="native")
    assert record["stop"] == "submitted" and len(server.bodies) == 4, "one refusal, then never again"
    first, *rest = conversations(record, ExportForm())
    assert first.turn == 0 and rest
    for number, turn in enumerate([first, *rest]):
        *prompt, reply = turn.messages
        assert reply["reasoning_content"] == f"Turn {number}. {THOUGHT}"
        assert not any("reasoning_content" in given for given in prompt)
    assert record["turns"][-1]["completion"]["notes"]["adapted"] == [REASONING_REFUSED]


def test_adaptations_are_in_manifest_and_table(tmp_path):
    class Picky(Thinking):
        def chat(self, connection, request):
            if b'"role":"system"' in request.body:
                return connection.send(422, b'{"detail": "System role not supported"}')
            return super().chat(connection, request)

    run, summary = played(Picky("reasoning", refuses=True), tmp_path)
    assert (summary.scored, summary.errors) == (6, 0)
    lines = {FOLDS["system"], REASONING_REFUSED}
    assert set(run.manifest["agent_details"]["adapted"]) == lines
    assert {text for name, text in effort(summary.usage) if name == "adapted"} == lines


def test_a_draft_in_reasoning_alone_is_no_call():
    draft = json.dumps({"name": "search", "arguments": {"query": "a"}})
    for key, value in (
        ("reasoning", f"<tool_call>{draft}</tool_call>"),
        ("reasoning_details", [{"type": "reasoning.text", "text": f"<tool_call>{draft}</tool_call>"}]),
        ("content", [{"type": "thinking", "thinking": f"<tool_call>{draft}</tool_call>"}]),
        ("content", f"<think><tool_call>{draft}</tool_call></think>"),
    ):
        reply = read_reply(completion({"role": "assistant", "content": "", key: value}))
        env = factgym.make("claimcheck-multihop")
        env.reset(seed=1)
        env.step(reply.message)
        (turn,) = env.episode.turns
        assert turn.error == "only_reasoning" and not turn.results[0].tool, key


def test_streamed_blocks_come_back_whole():
    """Pieces as OpenRouter and Mistral stream them."""
    pieces = [
        {"reasoning_details": [{"type": "reasoning.text", "text": "Let ", "index": 0}], "reasoning": "Let "},
        {"reasoning_details": [{"type": "reasoning.text", "text": "me.", "index": 0}], "reasoning": "me."},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "eHg", "index": 1}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So"}]}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": " it is."}]}]},
        {"content": "Yes."},
    ]
    events = [{"choices": [{"delta": piece}]} for piece in pieces] + [
        {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    reply = read_reply(completion_of_stream(body))
    blocks = [
        {"type": "reasoning.text", "text": "Let me.", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "eHg", "index": 1},
    ]
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "So it is."}]}]
    assert reply.reasoning == {"reasoning": "Let me.", "reasoning_details": blocks, "content": thinking}
    assert (reply.message["content"], reply.message["reasoning_content"]) == ("Yes.", "Let me.")
    transcript = Transcript()
    transcript.add_reply(reply)
    (sent,) = json.loads(transcript.messages([reply.message], Form()))
    parts = [*thinking, {"type": "text", "text": "Yes."}]
    assert sent == {"role": "assistant", "content": parts, "reasoning": "Let me.", "reasoning_details": blocks}


def test_the_same_reasoning_goes_back_outside_of_episodes():
    reply = read_reply(completion({"role": "assistant", "content": "Yes.", "reasoning": "Let me."}))
    given = {**reply.message, "completion": reply.completion}
    (sent,) = json.loads(Transcript().messages([given], Form()))
    assert sent == {"role": "assistant", "content": "Yes.", "reasoning": "Let me."}
    assert json.loads(Transcript().messages([given], Form(reasoning=False))) == [WORDS | {"content": "Yes."}]


def test_the_reasoning_of_another_model_is_not_sent():
    given = {**WORDS, "reasoning_content": "A secret."}
    assert json.loads(Transcript().messages([given], Form())) == [WORDS]


@pytest.mark.parametrize("value", [[[[[[["deep"]]]]]], {"text": {"text": 7}}, 7, True, [None, 3], {"a": {"b": "c"}}])
def test_odd_reasoning_harms_nothing(value):
    reply = asyncio.run(_one_reply(message({"role": "assistant", "content": "hm", "reasoning": value})))
    assert reply["content"] == "hm"


async def _one_reply(given):
    from fault_server import FaultServer

    async with FaultServer(schedule=[given]) as url:
        agent = find_agent(url, "claimcheck-multihop", {"max_retries": 0, "tools": "text"})
        policy = agent.start(None, 1)
        reply = await policy.act([USER], [])
        await policy.act([USER, {k: v for k, v in reply.items() if k != "completion"}, USER], [])
        await agent.close()
    return reply


def test_an_error_of_the_moment_folds_nothing():
    forms, requests = Forms("auto", adapted := set()), []

    async def ask(body, patient):
        requests.append(json.loads(body))
        if len(requests) == 1:
            return fault_of_status(500, {}, b"Internal Server Error")
        return ChatReply({"role": "assistant", "content": "yes"}, {"raw": ""}, empty=False)

    assert isinstance(exchanged(forms, [SYSTEM, USER], ask), ChatReply)
    assert requests[-1] == [SYSTEM, USER] and not adapted
