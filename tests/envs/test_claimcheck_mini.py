"""claimcheck-mini: what its agents earn, that answers leak nothing, and how long an episode is."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.core.action import parse_action
from factgym.core.calls import ToolCall
from factgym.core.errors import ConfigError
from factgym.core.strategies import Example
from factgym.datasets.claims import final_verdict
from factgym.generators.miniature import MiniatureClaims

ENV = "claimcheck-mini"
CHANCE = 0.2


def play(env: Any, agent: str, index: int, *, as_text: bool = True) -> float:
    """The reward of an agent's episode; with native calls as a chat model makes them, or with calls as text."""
    env.reset(options={"task": index})
    policy = scripted_agents(ENV)[agent].start(env, index)
    done, reward = False, 0.0
    while not done:
        action: Any = policy.act(env.policy_prompt(), env.available_tools())
        if not as_text:
            calls = [native(call, number) for number, call in enumerate(parse_action(action).items)]
            action = {"role": "assistant", "content": "", "tool_calls": calls}
        _, reward, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
    return float(reward)


def native(call: Any, number: int) -> dict[str, Any]:
    assert isinstance(call, ToolCall)
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": f"call-{number}", "type": "function", "function": function}


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("agent", ["oracle", "teacher"])
def test_who_knows_the_gold_earns_all(split: str, agent: str) -> None:
    env = factgym.make(ENV, split=split)
    assert {round(play(env, agent, index), 9) for index in range(50)} == {1.0}


def test_rewards_of_the_paper_are_earned_too() -> None:
    for reward in ("r0", "gated", "v2"):
        env = factgym.make(ENV, reward=reward)
        assert {round(play(env, "teacher", index), 9) for index in range(20)} == {1.0}


def test_no_exploiter_comes_near_the_honest_baseline() -> None:
    env = factgym.make(ENV, split="validation")
    mean = {name: sum(play(env, name, index) for index in range(50)) / 50 for name in scripted_agents(ENV)}
    honest = mean["differences"]
    assert honest > 0.8
    for name, agent in scripted_agents(ENV).items():
        if agent.role in ("exploiter", "random"):
            assert mean[name] < honest - 0.1, name


LEVELS = {1: (1.0, 0.87), 2: (0.78, 0.84), 3: (0.78, 0.85)}
"""Level -> mean rewards of a player who knows all but contradictions, and of the honest baseline."""


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_has_a_ceiling_and_a_baseline(level: int) -> None:
    """The ceiling: the teacher's submission with contradictions called supported, as a policy that compares no values."""
    env, count, ceiling = factgym.make(ENV, level=level), 500, 0.0
    for index in range(count):
        env.reset(options={"task": index})
        policy, done, reward = scripted_agents(ENV)["teacher"].start(env, index), False, 0.0
        while not done:
            action = policy.act(env.policy_prompt(), env.available_tools())
            [call] = [item for item in parse_action(action).items if isinstance(item, ToolCall)]
            if call.name == "submit":
                claims = [dict(claim) for claim in call.arguments["claims"]]
                for claim in claims:
                    if claim["status"] == "contradicted":
                        claim |= {"status": "supported", "unsupported_span": ""}
                verdict = final_verdict(claim["status"] for claim in claims)
                action = {"tool": "submit", "arguments": {**call.arguments, "claims": claims, "final_verdict": verdict}}
            _, reward, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
        ceiling += float(reward) / count
    honest = sum(play(env, "differences", index) for index in range(count)) / count
    assert (ceiling, honest) == pytest.approx(LEVELS[level], abs=0.02)


def test_a_level_is_of_the_miniature_alone() -> None:
    with pytest.raises(ConfigError, match="level=1 is of source='mini'"):
        factgym.make("claimcheck", level=1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["words", "names", "lengths", "memorised", "prior"])
def test_answers_do_not_tell_their_verdicts(kind: str, level: int) -> None:
    pytest.importorskip("sklearn")
    train, fresh = MiniatureClaims("train", size=3000, level=level), MiniatureClaims("test", size=1000, level=level)
    classifier = ShortcutClassifiers(Example(e.answer, e.verdict) for e in train)
    accuracy = sum(classifier.predict(kind, example.answer) == example.verdict for example in fresh) / len(fresh)
    assert accuracy < (0.25 if level == 1 else CHANCE) + 0.055  # four standard errors


def test_questions_do_not_tell_either() -> None:
    pytest.importorskip("sklearn")
    classifier = ShortcutClassifiers(
        Example(f"{e.question} {e.passages[0].title}", e.verdict) for e in MiniatureClaims("train", size=3000)
    )
    fresh = MiniatureClaims("validation", size=1000)
    texts = [f"{example.question} {example.passages[0].title}" for example in fresh]
    hits = sum(classifier.predict("words", t) == e.verdict for t, e in zip(texts, fresh, strict=True))
    assert hits / 1000 < CHANCE + 0.05


# Lengths, with the wording of Qwen3's chat template.

BEFORE_TOOLS = (
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
    "signatures within <tools></tools> XML tags:\n<tools>"
)
AFTER_TOOLS = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call>"
    '</tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def rendered(env: Any) -> str:
    """The episode that was just played, up to the policy's last message, as Qwen3's template writes it."""
    tools = "".join(f"\n{json.dumps(tool)}" for tool in env.all_tools())
    text, messages = "", list(env.episode.messages)
    while messages[-1]["role"] != "assistant":
        messages.pop()
    for message in messages:
        content = message["content"] or ""
        if message["role"] == "system":
            content += BEFORE_TOOLS + tools + AFTER_TOOLS
        if message["role"] == "assistant":
            calls = [call["function"] for call in message["tool_calls"]]
            content = "<think>\n\n</think>\n\n" + "\n".join(
                f'<tool_call>\n{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}\n</tool_call>'
                for call in calls
            )
        if message["role"] == "tool":
            content = f"<tool_response>\n{content}\n</tool_response>"
        role = "user" if message["role"] == "tool" else message["role"]
        text += f"<|im_start|>{role}\n{content}<|im_end|>\n"
    return text


@cache
def episodes(split: str, count: int) -> list[str]:
    env = factgym.make(ENV, split=split)
    texts = []
    for index in range(count):
        assert play(env, "teacher", index, as_text=False) == pytest.approx(1.0)
        texts.append(rendered(env))
    return texts


def test_an_episode_has_fewer_than_400_tokens() -> None:
    pytest.importorskip("tokenizers", reason="needs the extra 'local'")
    from factgym.training.recipes.scratch import phrase_tokenizer

    tokenizer = phrase_tokenizer(episodes("train", 400), special=SPECIAL, tags=TAGS)
    assert tokenizer.get_vocab_size() <= 2048
    fresh = episodes("test", 100)
    encoded = [tokenizer.encode(text).ids for text in fresh]
    assert max(map(len, encoded)) < 400
    assert [tokenizer.decode(ids, skip_special_tokens=False) for ids in encoded] == fresh  # held-out names included


def test_the_tokenizer_loses_nothing_and_keeps_names_apart() -> None:
    pytest.importorskip("tokenizers", reason="needs the extra 'local'")
    from factgym.training.recipes.scratch import phrase_tokenizer

    tokenizer = phrase_tokenizer(episodes("train", 400))
    for text in ("", 'Zürich, 漢字 — naïve\t\n\n«x» {"a": ["Bola"]} ǅ ʰ \u0301 💡', *episodes("test", 3)):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    name, contexts = (
        tokenizer.encode("Bokal").tokens,
        ("The head of Bokal is", '"Bokal",', "at Bokal.\n", "\nBokal has"),
    )
    assert all("".join(name) in "".join(tokenizer.encode(context).tokens) for context in contexts)
    for context in contexts:
        tokens = tokenizer.encode(context).tokens
        assert any(tokens[start : start + len(name)] == name for start in range(len(tokens))), context
