"""A local model end to end: real architectures with random weights, and models whose replies are known."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_model

import factgym
from factgym.agents.agent import Model, agent_from_model
from factgym.agents.folding import FOLDS
from factgym.agents.local import LocalModel
from factgym.agents.local.engine import LocalEngine, Row
from factgym.core.errors import ConfigError
from factgym.core.messages import Message
from factgym.core.policy import ContextOverflowError, PolicyError

torch, transformers = tiny_model.torch, tiny_model.transformers


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def qwen(folders: Path) -> Path:
    return tiny_model.build_random(folders / "qwen", "qwen3")


@pytest.fixture(scope="module")
def llama(folders: Path) -> Path:
    return tiny_model.build_random(folders / "llama", "llama", template=tiny_model.CHATML)


REPLIES = [
    '<tool_call>\n{"name": "search", "arguments": {"query": "rent"}}\n</tool_call><|im_end|>',
    "<think>It may be.</think>\nYes.<|im_end|>",
    "on and on ",
    "one STOP two<|im_end|>",
    "It may be.</think>\nYes.<|im_end|>",
    "Done.<|endoftext|> more<|im_end|>",
    "<|im_end|>",
]


@pytest.fixture(scope="module")
def scripted(folders: Path) -> Path:
    return tiny_model.build_scripted(folders / "scripted", REPLIES)


def user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def use(model: LocalModel, function: Callable[[LocalModel], Awaitable[Any]]) -> Any:
    """Run something with a model and close it, whatever happens."""

    async def run() -> Any:
        try:
            return await function(model)
        finally:
            await model.close()

    return asyncio.run(run())


def ask(model: LocalModel, *conversations: list[Message], seed: int = 0) -> list[Message]:
    """Replies to conversations that are asked for at the same time, each from a policy of its own."""

    async def run(model: LocalModel) -> list[Message]:
        policies = [model.start(seed + n) for n in range(len(conversations))]
        return list(await asyncio.gather(*[p.act(c, []) for p, c in zip(policies, conversations, strict=True)]))

    return use(model, run)  # type: ignore[no-any-return]


def cpu(folder: Path, **settings: Any) -> LocalModel:
    return LocalModel(folder, **{"device": "cpu", "max_tokens": 24, "batch_wait": 0.2, **settings})


PROMPTS = [user("Is the claim supported? " * n) for n in (1, 2, 3, 5, 8, 4, 7, 6)]


def by_hand(folder: Path, conversation: list[Message], tokens: int) -> list[int]:
    """The library's own greedy decoding of one prompt without padding."""
    words = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    text = words.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
    ids = words(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens)
    return list(out[0, ids.shape[1] :].tolist())


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Of each batch that a local model runs the prompts' lengths."""
    lengths: list[list[int]] = []
    generate = LocalEngine.generate

    def recorded(engine: LocalEngine, rows: Sequence[Row]) -> list[Message | PolicyError]:
        lengths.append([len(row.prompt.ids) for row in rows])
        return generate(engine, rows)

    monkeypatch.setattr(LocalEngine, "generate", recorded)
    return lengths


@pytest.mark.parametrize("kind", ["qwen", "llama"])
def test_greedy_replies_are_the_librarys_own_in_every_batch(
    kind: str, request: pytest.FixtureRequest, batches: list[list[int]]
) -> None:
    folder = request.getfixturevalue(kind)
    expected = [by_hand(folder, conversation, 24) for conversation in PROMPTS]
    assert len({tuple(ids) for ids in expected}) == len(PROMPTS)
    for size, count in ((1, 8), (3, 3), (8, 1)):
        batches.clear()
        model = cpu(folder, temperature=0, batch_size=size, logprobs=True)
        replies = ask(model, *PROMPTS)
        assert [reply["completion"]["notes"]["token_ids"] for reply in replies] == expected
        assert len(batches) >= count
        assert max(map(len, batches)) == size


def test_logprobs_are_those_of_a_forward_pass_without_padding(qwen: Path) -> None:
    replies = ask(cpu(qwen, temperature=0.8, top_k=50, logprobs=True), *PROMPTS, seed=3)
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen, dtype="float32").eval()
    words = transformers.AutoTokenizer.from_pretrained(qwen)
    for conversation, reply in zip(PROMPTS, replies, strict=True):
        text = words.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
        prompt = words(text, add_special_tokens=False)["input_ids"]
        ids = reply["completion"]["notes"]["token_ids"]
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0]
        result = torch.tensor([logprob["logprob"] for logprob in reply["completion"]["logprobs"]])
        assert torch.allclose(result, expected, atol=1e-3)
        assert reply["completion"]["usage"] == {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}


def test_the_same_seed_gives_the_same_reply_in_batches_of_different_composition(qwen: Path) -> None:
    async def play(model: LocalModel) -> list[Any]:
        policies = [model.start(n) for n in range(8)]
        first = await asyncio.gather(*[p.act(c, []) for p, c in zip(policies, PROMPTS, strict=True)])
        alone = [await model.start(n).act(PROMPTS[n], []) for n in (5, 2)]
        turned = await asyncio.gather(*[model.start(n).act(PROMPTS[n], []) for n in (7, 5, 2)])
        second = await policies[5].act(PROMPTS[5], [])
        return [first, alone, turned, second]

    first, alone, turned, second = use(cpu(qwen, temperature=1.0), play)
    texts = [reply["completion"]["raw"] for reply in first]
    assert [reply["completion"]["raw"] for reply in alone] == [texts[5], texts[2]]
    assert [reply["completion"]["raw"] for reply in turned] == [texts[7], texts[5], texts[2]]
    assert second["completion"]["raw"] != texts[5]
    again = ask(cpu(qwen, temperature=1.0, batch_size=3), *PROMPTS)
    assert [reply["completion"]["raw"] for reply in again] == texts


def test_a_reply_is_a_message_with_its_record(scripted: Path) -> None:
    folder = str(scripted)
    calls, thought, endless = ask(cpu(scripted), user("[[0]]"), user("[[1]] and a longer prompt"), user("[[2]]"))
    assert calls["content"] == '<tool_call>\n{"name": "search", "arguments": {"query": "rent"}}\n</tool_call>'
    assert calls["completion"]["raw"] == REPLIES[0]
    assert calls["completion"]["finish_reason"] == "stop"
    assert calls["completion"]["model"] == folder
    assert set(calls["completion"]) == {"raw", "model", "finish_reason", "usage", "requests"}
    assert (thought["content"], thought["reasoning_content"]) == ("Yes.", "It may be.")
    assert endless["completion"]["finish_reason"] == "length"
    assert endless["completion"]["usage"]["completion_tokens"] == 24
    json.dumps([calls, thought, endless])


def test_completion_tokens_count_the_end_token_and_no_padding(scripted: Path, batches: list[list[int]]) -> None:
    words = transformers.AutoTokenizer.from_pretrained(scripted)
    model = cpu(scripted)
    replies = ask(model, *[user(f"[[{n}]]" + " word" * n * 3) for n in range(len(REPLIES))])
    for n, reply in enumerate(replies):
        expected = 24 if n == 2 else len(words(REPLIES[n], add_special_tokens=False)["input_ids"])
        assert reply["completion"]["usage"]["completion_tokens"] == min(expected, 24)
    assert replies[6]["content"] == ""
    assert sum(map(sum, batches)) == sum(reply["completion"]["usage"]["prompt_tokens"] for reply in replies)


def test_stop_strings_end_their_row_alone(scripted: Path) -> None:
    stopped, endless = ask(cpu(scripted, stop=["STOP", "<|endoftext|>"]), user("[[3]]"), user("[[2]]"))
    assert stopped["content"] == "one "
    assert stopped["completion"]["finish_reason"] == "stop"
    assert stopped["completion"]["raw"] == "one STOP"
    assert endless["completion"]["finish_reason"] == "length"
    (ended,) = ask(cpu(scripted, stop="<|endoftext|>"), user("[[5]]"))
    assert (ended["content"], ended["completion"]["finish_reason"]) == ("Done.", "stop")


def test_reasoning_that_the_prompt_has_opened_is_split_off(folders: Path) -> None:
    folder = tiny_model.build_scripted(folders / "thinking", REPLIES, template=tiny_model.THINKING)
    closed, cut = ask(cpu(folder), user("[[4]]"), user("[[2]]"))
    assert (closed["reasoning_content"], closed["content"]) == ("It may be.", "Yes.")
    assert cut["content"] == ""
    assert cut["reasoning_content"].startswith("on and on")
    (reply,) = ask(cpu(folder, reasoning="keep"), user("[[4]]"))
    assert reply["content"] == "It may be.</think>\nYes."


def test_sent_messages_are_recorded_where_they_differ(scripted: Path, qwen: Path) -> None:
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}
    thinking: list[Message] = [
        *user("[[0]]"),
        {"role": "assistant", "content": "Hm.", "reasoning_content": "A lot.", "completion": {"raw": "x"}},
        *user("Go on."),
    ]

    async def play(model: LocalModel) -> list[Message]:
        return [
            await model.act(user("[[0]]"), []),
            await model.act(user("[[0]]"), [tool]),
            await model.act(thinking, []),
        ]

    plain, with_tool, reasoned = use(cpu(scripted), play)
    assert "sent" not in plain["completion"]
    assert [message["role"] for message in with_tool["completion"]["sent"]] == ["system", "user"]
    assert "sent" not in reasoned["completion"]  # this template renders all of a content, thoughts too
    (dropped,) = ask(cpu(scripted, send_reasoning="never"), thinking)
    assert dropped["completion"]["sent"] == [thinking[0], {"role": "assistant", "content": "Hm."}, thinking[2]]
    assert "sent" not in use(cpu(qwen), lambda model: model.act(user("Hello."), [tool]))["completion"]


def test_a_prompt_that_fills_the_context_is_an_overflow_and_max_tokens_is_cut(scripted: Path) -> None:
    """Each `[[9]]` is one token more."""

    async def play(model: LocalModel) -> list[Any]:
        short = await model.act(user("[[2]]"), [])
        remaining = 30 - short["completion"]["usage"]["prompt_tokens"]
        last = await model.act(user("[[2]]" + "[[9]]" * (remaining - 1)), [])
        with pytest.raises(ContextOverflowError, match="the prompt has 30 tokens and the context 30"):
            await model.act(user("[[2]]" + "[[9]]" * remaining), [])
        return [short["completion"]["usage"], last["completion"]["usage"]]

    short, last = use(cpu(scripted, context_length=30), play)
    assert short["prompt_tokens"] + short["completion_tokens"] == 30
    assert last == {"prompt_tokens": 29, "completion_tokens": 1}


def test_the_context_is_the_models_by_default(folders: Path) -> None:
    folder = tiny_model.build_random(folders / "short", "llama", context=64, template=tiny_model.CHATML)
    model = cpu(folder)
    with pytest.raises(ContextOverflowError, match="the context 64"):
        ask(model, user("word " * 100))
    assert model.resolved is not None
    assert model.resolved["context_length"] == 64


def test_settings_of_generation_config_apply_and_cannot_slip_in_twice(folders: Path) -> None:
    own = {
        "do_sample": True,
        "temperature": 0.5,
        "top_k": 7,
        "repetition_penalty": 1.2,
        "num_beams": 3,
        "max_length": 5,
    }
    folder = tiny_model.build_random(folders / "own", generation=own)
    model = cpu(folder)
    replies = ask(model, *PROMPTS[:3])
    assert all(reply["completion"]["usage"]["completion_tokens"] > 5 for reply in replies)
    assert model.resolved is not None
    assert model.resolved["sampling"] == {
        "temperature": 0.5, "top_p": 1.0, "top_k": 7, "min_p": 0.0, "repetition_penalty": 1.2,
    }  # fmt: skip


def test_weights_that_are_not_numbers_are_a_fault_and_not_a_reply(folders: Path) -> None:
    folder = tiny_model.build_random(folders / "broken")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.model.norm.weight.data.fill_(torch.nan)
    model.save_pretrained(folder)
    with pytest.raises(PolicyError, match="not numbers in float32") as caught:
        ask(cpu(folder), user("Hello."))
    assert caught.value.cause == "local_model"


def test_out_of_memory_halves_the_batch(scripted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def on_batch(rows: int) -> None:
        seen.append(rows)
        if rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(tiny_model.ScriptedModel, "on_batch", staticmethod(on_batch))
    model = cpu(scripted, batch_size=8)
    replies = ask(model, *[user(f"[[{n % 2}]]") for n in range(8)])
    assert [reply["completion"]["raw"] for reply in replies] == [REPLIES[n % 2] for n in range(8)]
    assert seen[:3] == [8, 4, 2]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes", "out_of_memory"),
        ("bad", "local_model"),
    ],
)
def test_faults_of_the_model_have_a_cause(
    scripted: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: str, cause: str
) -> None:
    faults = [RuntimeError(error)]

    def on_batch(rows: int) -> None:
        if faults:
            raise faults.pop()

    async def play(model: LocalModel) -> Message:
        with pytest.raises(PolicyError) as caught:
            await model.act(user("[[0]]"), [])
        assert caught.value.cause == cause
        return await model.act(user("[[0]]"), [])

    monkeypatch.setattr(tiny_model.ScriptedModel, "on_batch", staticmethod(on_batch))
    assert use(cpu(scripted), play)["completion"]["raw"] == REPLIES[0]


def test_a_cancelled_reply_stops_its_row(scripted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of 100,000 tokens would take minutes; when its task is cancelled the batch ends."""
    running = threading.Event()
    monkeypatch.setattr(tiny_model.ScriptedModel, "on_batch", staticmethod(lambda rows: running.set()))

    async def play(model: LocalModel) -> Message:
        task = asyncio.ensure_future(model.act(user("[[2]]"), []))
        await asyncio.to_thread(running.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.wait_for(model.act(user("[[0]]"), []), 60)

    model = cpu(scripted, max_tokens=100_000, context_length=200_000)
    assert use(model, play)["completion"]["raw"] == REPLIES[0]


def test_episodes_play_at_once_and_share_batches(folders: Path, batches: list[list[int]]) -> None:
    folder = tiny_model.build_random(folders / "long", context=16_384)
    model = cpu(folder, max_tokens=8, batch_size=12, batch_wait=1.0)

    async def episode(n: int) -> str:
        env = factgym.make("claimcheck-multihop", max_turns=3)
        _, info = env.reset(seed=n)
        policy = agent.start(env, n)
        while env.unwrapped.episode.stop is None:
            action = await policy.act(env.unwrapped.policy_prompt(), info["tools"])  # type: ignore[misc]
            info = env.step(action)[4]
        return str(env.unwrapped.episode.stop)

    async def play(model: LocalModel) -> list[str]:
        return await asyncio.gather(*[episode(n) for n in range(24)])

    agent = agent_from_model("tiny", model)
    stops = use(model, play)
    assert len(stops) == 24
    assert set(stops) <= {"turn_limit", "submitted"}
    rows, tokens = sum(map(len, batches)), sum(map(sum, batches))
    assert rows >= 24
    assert max(map(len, batches)) == 12
    assert rows / len(batches) > 4
    assert sum(max(batch) * len(batch) for batch in batches) < 2 * tokens


def test_it_is_a_model_that_describes_itself_without_loading(scripted: Path) -> None:
    model = cpu(scripted, chat_template=Path("x.jinja"), template_options={"enable_thinking": False})
    assert isinstance(model, Model)
    described = json.loads(json.dumps(model.describe()))
    assert described["kind"] == "local"
    assert described["chat_template"] == "x.jinja"
    assert described["batch_size"] == 16
    assert model.resolved is None
    assert not any(thread.name == "factgym-local-model" for thread in threading.enumerate())
    asyncio.run(model.close())
    assert json.loads(json.dumps(model.describe())) == described


def test_loading_is_quiet_and_happens_once(
    qwen: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from factgym.agents.local import engine

    loads: list[str] = []
    real = engine.load
    monkeypatch.setattr(engine, "load", lambda name, settings: loads.append(name) or real(name, settings))
    from transformers.utils import logging as library

    before = (library.get_verbosity(), library.is_progress_bar_enabled(), logging.getLogger().level)

    async def play(model: LocalModel) -> None:
        await asyncio.gather(model.load(), model.load(), *[model.start(n).act(user("Hello."), []) for n in range(3)])

    capfd.readouterr()
    use(cpu(qwen), play)
    assert loads == [str(qwen)]
    assert capfd.readouterr() == ("", "")
    assert (library.get_verbosity(), library.is_progress_bar_enabled(), logging.getLogger().level) == before


def test_a_closed_model_raises(scripted: Path) -> None:
    async def play(model: LocalModel) -> None:
        await model.act(user("[[0]]"), [])
        await model.close()
        with pytest.raises(PolicyError, match="closed") as caught:
            await model.act(user("[[0]]"), [])
        assert caught.value.fatal

    use(cpu(scripted), play)
    assert not any(thread.name == "factgym-local-model" for thread in threading.enumerate())


# Log-probabilities of given replies under a local model: every number is computed a second time by the library.

torch, transformers = tiny_model.torch, tiny_model.transformers

ASKED = [{"role": "user", "content": "Where was Ada born?"}]


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def folder(request, tmp_path_factory):
    return tiny_model.build_random(tmp_path_factory.mktemp(request.param), request.param)


def library(folder, text_before, completion):
    words = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    result = words(text_before + completion, add_special_tokens=False, return_offsets_mapping=True)
    ids = torch.tensor([result["input_ids"]])
    start = next(n for n, (_, end) in enumerate(result["offset_mapping"]) if end > len(text_before))
    with torch.no_grad():
        logs = model(ids).logits[0].log_softmax(-1)
    return sum(float(logs[index - 1, ids[0, index]]) for index in range(start, ids.shape[1]))


def test_scores_equal_a_forward_pass_in_every_batch(folder, batches):
    long = [{"role": "user", "content": "The tenant pays the rent on the first day of each month. " * 3}]
    cases = [(ASKED, "Paris</answer>", "<answer>"), (long, "yes", ""), (ASKED, "a longer answer\nof lines", "No: ")]

    async def go():
        model = LocalModel(folder, max_tokens=4, temperature=1.0)
        try:
            scores = (model.score(case, completion, given=given) for case, completion, given in cases)
            return await asyncio.gather(*scores, model.act(ASKED, []))
        finally:
            await model.close()

    replies = asyncio.run(go())
    assert max(map(len, batches)) == 4
    assert replies[3]["content"] is not None
    for (case, completion, given), value in zip(cases, replies, strict=False):
        before = f"<|im_start|>user\n{case[0]['content']}<|im_end|>\n<|im_start|>assistant\n{given}"
        assert value == pytest.approx(library(folder, before, completion), abs=1e-3)
        assert value < 0


def test_probabilities_of_parts_multiply(folder):
    async def go():
        model = LocalModel(folder)
        try:
            whole = await model.score(ASKED, "ab\ncd")
            parts = await model.score(ASKED, "ab"), await model.score(ASKED, "\ncd", given="ab")
            return whole, parts
        finally:
            await model.close()

    whole, parts = asyncio.run(go())
    assert whole == pytest.approx(sum(parts), abs=1e-3)


def test_unscorable_replies_are_errors(folder):
    from factgym.agents.local import LocalModel

    async def go():
        model = LocalModel(folder, context_length=40)
        try:
            with pytest.raises(ConfigError, match="must have a text"):
                await model.score(ASKED, "")
            with pytest.raises(ContextOverflowError):
                await model.score(ASKED, "word " * 60)
        finally:
            await model.close()

    asyncio.run(go())


def test_a_thought_that_the_template_opens_is_closed_first(tmp_path):
    folder = tiny_model.build_random(tmp_path, template=tiny_model.THINKING)

    async def go():
        model = LocalModel(folder)
        try:
            return await model.score(ASKED, "Paris")
        finally:
            await model.close()

    before = f"<|im_start|>user\n{ASKED[0]['content']}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert asyncio.run(go()) == pytest.approx(library(folder, before, "Paris"), abs=1e-3)


def test_a_conversation_that_was_folded_is_described_and_noted(folders: Path) -> None:
    folder = tiny_model.build_scripted(folders / "alternating", REPLIES, template=tiny_model.ALTERNATING)
    model = cpu(folder)
    system: Message = {"role": "system", "content": "Check claims."}
    (reply,) = ask(model, [system, *user("[[0]]")])
    assert reply["completion"]["notes"]["adapted"] == model.describe()["adapted"] == [FOLDS["system"]]
