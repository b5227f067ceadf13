"""Log-probabilities of given replies over a server: asked for where it can tell, a clear error where it cannot."""

from __future__ import annotations

import asyncio
import json

import pytest
from fault_server import FaultServer, error, reply

from factgym.agents.endpoint import Endpoint
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError, Scoring

ASKED = [{"role": "user", "content": "Where was Ada born?"}]


def prompt_tokens(*tokens):
    """vLLM's form: nothing for the first token, then the token that was there before the likelier one."""
    rows = [None, *({str(n): {"logprob": value, "rank": 2, "decoded_token": text},
                     "9999": {"logprob": -0.01, "rank": 1, "decoded_token": "x"}}
                    for n, (text, value) in enumerate(tokens))]  # fmt: skip
    message = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}
    return reply(200, {"object": "chat.completion", "choices": [message], "prompt_logprobs": rows})


async def served(schedule, **settings):
    server = FaultServer(schedule=schedule, keep=True)
    async with server as url:
        model = Endpoint("m", url, max_wait=0.01, **settings)
        try:
            found = await model.score(ASKED, "Paris</answer>", given="<answer>")
        finally:
            await model.close()
    return found, [json.loads(one) for one in server.bodies]


def test_a_server_that_scores_prompts_is_asked_for_the_last_tokens():
    said = [("born", -4.0), ("?", -2.0), ("<answer>", -3.0), ("Par", -0.5), ("is", -0.25), ("</answer>", -0.125)]
    found, bodies = asyncio.run(served(["rate_limit_seconds", prompt_tokens(*said)], top_logprobs=3))
    assert found == -0.875
    body = bodies[-1]
    assert body["messages"] == [*ASKED, {"role": "assistant", "content": "<answer>Paris</answer>"}]
    assert (body["max_tokens"], body["prompt_logprobs"], body["continue_final_message"]) == (1, 1, True)
    assert body["add_generation_prompt"] is False and "top_logprobs" not in body


@pytest.mark.parametrize(
    "answer", ["ok", error(400, "Unrecognized request argument: prompt_logprobs"), reply(200, {"choices": []})]
)
def test_a_server_that_cannot_is_the_users_to_change(answer):
    with pytest.raises(ConfigError, match=r"gives no log-probabilities of given replies .*vLLM"):
        asyncio.run(served([answer]))


def test_openai_is_not_even_asked(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with pytest.raises(ConfigError, match="OpenAI's API does not"):
        asyncio.run(Endpoint("gpt").score(ASKED, "Paris"))


def test_other_faults_are_the_infrastructures():
    with pytest.raises(PolicyError, match="not as it was given"):
        asyncio.run(served([prompt_tokens(("born", -1.0), ("something else entirely", -1.0))]))
    with pytest.raises(PolicyError) as fault:
        asyncio.run(served([error(401, "no")]))
    assert fault.value.fatal


def test_models_say_that_they_score():
    assert isinstance(Endpoint("m", "http://127.0.0.1:9/v1"), Scoring)
