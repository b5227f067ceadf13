"""Tiny random models, real servers in subprocesses, and whole episodes through them, for the tests of the endpoint.

The models are random, with a bias towards a few long tokens, each a whole tool call; so real calls come out of real
sampling, among much that makes no sense.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.endpoint import Endpoint

CALLS = [
    '<tool_call>\n{"name": "list", "arguments": {"page": 1}}\n</tool_call>',
    '<tool_call>\n{"name": "search", "arguments": {"query": "notice period", "k": 2}}\n</tool_call>',
    '<tool_call>\n{"name": "read", "arguments": {"id": "E1"}}\n</tool_call>',
    '<tool_call>\n{"name": "open", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "submit", "arguments": {"claims": [{"claim": "x", "status": "supported", "evidence_ids": '
    '["E1"], "quote": "x"}], "final_verdict": "supported"}}\n</tool_call>',
]
BIASES = [0.9, 1.0, 1.0, 0.8, 0.6]
"""Of the output towards each of `CALLS`; the end has 1.05."""
SETTINGS = {"max_tokens": 6, "max_retries": 1, "max_wait": 0.1, "timeout": 60.0}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

PLAIN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n# Tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    '{% for c in m.tool_calls or [] %}<tool_call>\n{"name": "{{ c.function.name }}", '
    '"arguments": { {%- for k, v in c.function.arguments.items() %}{{ k | tojson }}: {{ v | tojson }}{{ ", " if not loop.last }}{% endfor %} }}'
    "\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(template: str) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(prompt_texts(), trainer)
    tokenizer.add_tokens([AddedToken(call, normalized=False) for call in CALLS])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token="<|endoftext|>"
    )
    wrapped.chat_template = template
    return wrapped


def prompt_texts() -> list[str]:
    """Prompts and tool schemas that the models will read."""
    env = factgym.make("claimcheck-multihop", split="test")
    texts = [env.reset(seed=seed)[0] for seed in range(20)]
    return [*texts, json.dumps(list(env.available_tools()))]


def build_model(folder: Path, kind: str) -> str:
    """A model in `folder`: "native" (a Qwen2 whose template takes tools) or "plain" (a Llama whose template does not)."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    tokenizer = build_tokenizer(TOOL_TEMPLATE if kind == "native" else PLAIN_TEMPLATE)
    config_class, model_class = (Qwen2Config, Qwen2ForCausalLM) if kind == "native" else (LlamaConfig, LlamaForCausalLM)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    config = config_class(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16384, tie_word_embeddings=False,
        eos_token_id=end, pad_token_id=0, bos_token_id=0, use_cache=True,
    )  # fmt: skip
    torch.manual_seed(1)
    model = model_class(config)
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = 1.0
        bias = torch.zeros(len(tokenizer))
        bias[: len(SPECIAL)] = -3.0
        bias[end] = 1.05
        bias[tokenizer.convert_tokens_to_ids(CALLS)] = torch.tensor(BIASES)
        model.get_output_embeddings().weight[:, 0] = bias
    model.generation_config.do_sample = True
    model.generation_config.temperature = 1.0
    model.generation_config.eos_token_id = end
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@contextmanager
def serve(folder: Path, port: int) -> Iterator[str]:
    """`transformers serve` on a port of this machine, without network; the models are named by their folders."""
    (folder / "home" / "hub").mkdir(parents=True)  # without it, the server answers 500 to /models
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "TOKENIZERS_PARALLELISM": "false"}
    command = [Path(sys.executable).with_name("transformers"), "serve", "--port", port, "--host", "127.0.0.1"]
    with running([*command, "--device", "cpu"], f"http://127.0.0.1:{port}/health", folder / "serve.log", environment):
        yield f"http://127.0.0.1:{port}/v1"


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(
    command: Sequence[object], health: str, log: Path, environment: dict[str, str], seconds: float = 80.0
) -> Iterator[None]:
    """A server in a process of its own, from the moment that it answers the URL `health` with success."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=os.environ | environment,
        ) as server,
    ):
        try:
            _wait_for(health, server, log, seconds)
            yield
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{server.args} did not come up:\n{log.read_text('utf-8', 'replace')[-3000:]}")


def played(
    url: str, model: str | None, seeds: Iterable[int] = range(3), **settings: Any
) -> tuple[list[tuple[list[Any], Any]], dict[str, Any]]:
    """The replies of whole episodes and how each ended, and the endpoint's description."""

    async def episode(endpoint: Endpoint, seed: int) -> tuple[list[Any], Any]:
        env = factgym.make("claimcheck-multihop", split="test", max_turns=5)
        env.reset(seed=seed)
        policy = endpoint.start(seed)
        replies = []
        while env.episode.stop is None:
            replies.append(await policy.act(env.policy_prompt(), env.available_tools()))
            env.step(replies[-1])
        return replies, env.episode

    async def run() -> tuple[list[tuple[list[Any], Any]], dict[str, Any]]:
        endpoint = Endpoint(model, url, **{**SETTINGS, **settings})
        result = [await episode(endpoint, seed) for seed in seeds]
        await endpoint.close()
        return result, endpoint.describe()

    return asyncio.run(run())


def check(episodes: Iterable[tuple[list[Any], Any]], max_tokens: int = 6) -> None:
    """Assert what holds for every reply of a real server, whatever a random model says."""
    for replies, episode in episodes:
        assert episode.stop in ("submitted", "turn_limit")
        assert episode.report.status == "scored"
        assert len(replies) == len(episode.turns)
        for message in replies:
            completion = message["completion"]
            assert completion["usage"]["prompt_tokens"] > 500
            assert 1 <= completion["usage"]["completion_tokens"] <= max_tokens
            assert completion["finish_reason"] in ("stop", "length", "tool_calls")
            assert completion["requests"] == 1 and "retries" not in completion
            assert completion["raw"]["role"] == "assistant"
            json.dumps(message, allow_nan=False)
