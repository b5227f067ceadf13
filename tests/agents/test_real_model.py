"""A pretrained model (SmolLM2-135M-Instruct) behind a real vLLM, llama.cpp's server and `hf:`.

Peers: a loop of twenty lines over the bare `openai` client, which plays the same tasks by hand, and the same weights in
the same precision under three engines.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import factgym
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import task_order
from factgym.agents.runs.collect import collect
from factgym.agents.runs.read import read_run
from factgym.benchmarks.metrics import summarise
from factgym.core.errors import ConfigError
from perf import real_model

MAX_TOKENS = 40
SAMPLING = {"temperature": 0, "max_tokens": MAX_TOKENS}
SETTINGS = {**SAMPLING, "send_seed": False, "max_retries": 2, "max_wait": 2.0}
SEARCH = r'<tool_call>\n\{"name": "search", "arguments": \{"query": "[a-z ]{3,20}"\}\}\n</tool_call>'
"""What vLLM decodes where the model is to call a tool: left alone, it would rather talk."""
SUBMISSION = {
    "evidence_alignment": {"claim_span": 30, "source_span": 40, "status": ["match", "mismatch", "not_found"]},
    "reasoning_chain": {"claim_part": 30, "source_evidence": 30, "judgment": ["supported"], "explanation": 40},
}
"""Of a submission to `seva`: the longest text, or the words to choose from, of each part of the two lists."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for name in ("torch", "transformers", "gguf"):
        pytest.importorskip(name, reason=f"needs {name}: {real_model.INSTALL}")
    try:
        return real_model.save_folder(tmp_path_factory.mktemp("model"))
    except ConfigError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def vllm(folder, tmp_path_factory):
    try:
        server = real_model.vllm_server(folder, tmp_path_factory.mktemp("vllm"))
    except ConfigError as missing:
        pytest.skip(str(missing))
    with server:
        yield server


def submission_schema() -> dict[str, Any]:
    """The request's key that makes vLLM decode a short submission to `seva`, which the model would not write unasked."""

    def part(limit: Any) -> dict[str, Any]:
        return {"enum": limit} if isinstance(limit, list) else {"type": "string", "minLength": 10, "maxLength": limit}

    def an_object(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    lists = {
        name: {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": an_object({k: part(v) for k, v in parts.items()}),
        }
        for name, parts in SUBMISSION.items()
    }
    verdict = {"label": part(["Attributable", "Not Attributable"]), "confidence": part([0.5, 0.9])}
    schema = {"name": "submission", "schema": an_object({**lists, **verdict})}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def played(env, agent: str, out: Path, n: int, concurrency: int = 1, **settings: Any):
    """The run of n tasks by an agent of the package."""
    model = find_agent(agent, env.env_spec.id, {**SETTINGS, **settings})
    return collect(env, model, out, n=n, limits=Limits(concurrency=concurrency))


def bare_loop(env, url: str, n: int, **request: Any) -> list[tuple[int, float, str, list[str]]]:
    """The same tasks over the bare client: of each its index, reward, end, and the model's messages."""
    from openai import OpenAI

    episodes = []
    with OpenAI(base_url=url, api_key="none") as client:
        for index in task_order(len(env.tasks), n, 0):
            _, info = env.reset(options={"task": index})
            messages, replies, done = info["messages"], [], False
            while not done:
                tools = {"tools": info["tools"]} if info["tools"] else {}
                reply = client.chat.completions.create(
                    model="smollm2", messages=messages, **{**SAMPLING, **tools, **request}
                )
                message = reply.choices[0].message.model_dump(exclude_none=True)
                _, reward, terminated, truncated, info = env.step(message)
                messages += [message, *info["messages"]]
                replies.append(spoken(message))
                done = terminated or truncated
            episodes.append((index, reward, env.episode.stop, replies))
    return episodes


def spoken(message) -> str:
    """The words of a message and its calls, without the ids that a server draws."""
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return json.dumps([message.get("content") or "", calls])


def of_run(run) -> list[tuple[int, float, str, list[str]]]:
    """Of each episode of a run what `bare_loop` gives, in the order in which they were asked for."""
    records = {record["index"]: record for record in run.episodes()}
    env = factgym.make(run.manifest["env"])
    return [
        (
            index,
            records[index]["reward"]["total"],
            records[index]["stop"],
            [spoken(records[index]["messages"][turn["message"]]) for turn in records[index]["turns"]],
        )
        for index in task_order(len(env.tasks), run.manifest["n"], 0)
    ]


def first_prompts(env_id: str, n: int) -> list[tuple[list[Any], list[Any]]]:
    """Messages and tools of the first turn of n tasks."""
    env = factgym.make(env_id)
    prompts = []
    for index in task_order(len(env.tasks), n, 0):
        env.reset(options={"task": index})
        prompts.append((env.policy_prompt(), list(env.available_tools())))
    return prompts


def replies(agent: str, prompts, **settings: Any) -> list[dict[str, Any]]:
    """The replies of an agent to some prompts, one after the other."""

    async def run():
        model = find_agent(agent, "claimcheck-mini", settings)
        policy = model.policy
        messages = [await policy.act(messages, tools) for messages, tools in prompts]
        await model.close()
        return messages

    return asyncio.run(run())


def metric(url: str, name: str) -> float:
    """A number of vLLM's own metrics."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics") as reply:
        text = reply.read().decode()
    return sum(float(value) for value in re.findall(rf"^vllm:{name}{{.*}} (\S+)$", text, re.MULTILINE))


def until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def eval_command(url: str, out: Path, *options: str) -> list[str]:
    settings = ["send_seed=false", "max_retries=1", "max_wait=1", "max_outage=1"]
    command = [sys.executable, "-m", "factgym.cli.main", "eval", "claimcheck-mini", "--agent", url, "--out", str(out)]
    command += ["-n", "12", "--concurrency", "4", "--temperature", "0", "--max-tokens", str(MAX_TOKENS)]
    return [*command, "--tools", "native", *(f"--agent-set={setting}" for setting in settings), *options]


def lines_of(out: Path) -> int:
    path = out / "episodes.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def check_whole(out: Path) -> None:
    """Each of the twelve tasks was scored once, and the run is as another that nothing disturbed."""
    run = read_run(out)
    indices = Counter(record["index"] for record in run.episodes())
    assert len(indices) == 12 and set(indices.values()) == {1}
    assert summarise(run.episodes()).errors == 0


def test_native_tools_play_as_a_loop_over_the_bare_client(vllm, tmp_path):
    env = factgym.make("claimcheck-mini")
    forced = {"structured_outputs": {"regex": SEARCH}}
    run = played(env, vllm.url, tmp_path / "run", 6, tools="native", extra_body=forced)
    expected = bare_loop(env, vllm.url, 6, extra_body=forced)
    assert of_run(run) == expected
    summary = summarise(run.episodes())
    assert summary.turns.value == sum(len(messages) for *_, messages in expected) / 6
    assert summary.stops == Counter(stop for _, _, stop, _ in expected)
    assert summary.reward.value == pytest.approx(sum(reward for _, reward, _, _ in expected) / 6)
    calls = [turn["calls"] for record in run.episodes() for turn in record["turns"]]
    assert any(calls), "the model called no tool"


def test_a_submission_as_json_earns_what_it_earns_by_hand(vllm, tmp_path):
    env = factgym.make("seva", max_turns=2)
    schema = submission_schema()
    run = played(env, vllm.url, tmp_path / "run", 6, tools="native", max_tokens=220, extra_body=schema)
    expected = bare_loop(env, vllm.url, 6, max_tokens=220, **schema)
    assert [episode[:3] for episode in of_run(run)] == [episode[:3] for episode in expected]
    assert summarise(run.episodes()).reward.value == pytest.approx(sum(episode[1] for episode in expected) / 6)
    assert any(episode[1] > 0 for episode in expected), "nothing was earned, so that nothing was compared"


def test_text_mode_with_log_probabilities_and_token_ids(vllm, tmp_path):
    env = factgym.make("claimcheck-mini", max_turns=2)
    run = played(env, vllm.url, tmp_path / "run", 2, tools="text", logprobs=True, extra_body={"return_token_ids": True})
    for record in run.episodes():
        transcript = [*record["messages"], *record["other_messages"]]
        for turn in record["turns"]:
            completion, sent = turn["completion"], [transcript[index] for index in turn["sent"]]
            assert "<tools>" in sent[0]["content"] and all(message["role"] != "tool" for message in sent)
            tokens = completion["usage"]["completion_tokens"]
            notes = completion["notes"]
            assert len(completion["logprobs"]) == len(notes["token_ids"]) == tokens
            assert all(token["logprob"] <= 0 for token in completion["logprobs"])
            assert len(notes["prompt_ids"]) == completion["usage"]["prompt_tokens"]


def test_sixteen_in_flight(vllm, tmp_path):
    env = factgym.make("corver-qa")
    run = played(env, vllm.url, tmp_path / "run", 48, concurrency=16)
    summary = summarise(run.episodes())
    assert (summary.scored, summary.errors) == (48, 0)
    # Rounding depends on the batch, so that single replies may differ from those that were asked for alone.
    expected = {index: reward for index, reward, _, _ in bare_loop(env, vllm.url, 16)}
    rewards = {record["index"]: record["reward"]["total"] for record in run.episodes()}
    assert sum(rewards[index] == reward for index, reward in expected.items()) >= 12


def test_three_engines_give_the_same_text(vllm, folder, tmp_path):
    """vLLM, llama.cpp and transformers over the same weights in 32 bits, at temperature 0.

    The prompts have the same tokens everywhere. Each engine adds in another order, so that a reply may part from the
    others where two tokens are all but equally likely; of twelve, ten are the same.
    """
    prompts = first_prompts("claimcheck-mini", 12)
    try:
        server = real_model.llama_server(real_model.save_gguf(tmp_path / "model.gguf"), tmp_path)
    except ConfigError as missing:
        pytest.skip(str(missing))
    with server:
        by_llama = replies(server.url, prompts, tools="text", **SAMPLING)
    by_vllm = replies(vllm.url, prompts, tools="text", send_seed=False, **SAMPLING)
    here = replies(f"hf:{folder}", prompts, tools="text", device="cpu", dtype="float32", **SAMPLING)

    def prompt_tokens(messages):
        return [message["completion"]["usage"]["prompt_tokens"] for message in messages]

    assert prompt_tokens(by_vllm) == prompt_tokens(here) == prompt_tokens(by_llama)
    for others in (by_vllm, by_llama):
        assert sum(spoken(first) == spoken(second) for first, second in zip(here, others, strict=True)) >= 10


def test_a_mini_prompt_has_at_most_250_tokens(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    env = factgym.make("claimcheck-mini", prompt="mini")
    env.reset(options={"task": 0})
    system, tools = env.policy_prompt()[0], env.available_tools()
    assert not tools and len(tokenizer(f"<|im_start|>system\n{system['content']}<|im_end|>\n").input_ids) <= 250


def test_a_prompt_that_outgrows_the_context_ends_the_episode_at_a_limit(folder, tmp_path):
    """The server says so in its own words, which change from version to version."""
    try:
        server = real_model.vllm_server(folder, tmp_path, context=1536)
    except ConfigError as missing:
        pytest.skip(str(missing))
    with server:
        run = played(factgym.make("claimcheck-mini", max_turns=20), server.url, tmp_path / "run", 3, tools="native")
        assert [(record["stop"], record["error"]) for record in run.episodes()] == [("context_limit", None)] * 3
        assert summarise(run.episodes()).scored == 3
        check_killed_and_resumed(server, tmp_path / "killed")


def check_killed_and_resumed(server, out: Path) -> None:
    """`kill -9` of the server in mid-run: what was played stays, and the run goes on when the server is back."""
    command = eval_command(server.url, out)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until(lambda: lines_of(out) >= 2)
        server.kill()
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in output, output
    assert re.search(r"infrastructure errors left out of all scores: \d+ connection", output)
    finished = [record["index"] for record in read_run(out).episodes() if record["error"] is None]
    assert len(finished) >= 2
    server.start()
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=400)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    check_whole(out)


def test_an_abort_leaves_the_server_idle_and_the_run_whole(vllm, tmp_path):
    out = tmp_path / "run"
    command = eval_command(vllm.url, out)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until(lambda: lines_of(out) >= 1)  # of twelve: the others are in flight or to come
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in output, output
    until(lambda: metric(vllm.url, "num_requests_running") == 0)
    assert subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=400).returncode == 0
    check_whole(out)
