"""`prompt="brief"`: at most half the instructions and schemas, and the same tasks, checks and rewards."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.core.registry import spec
from factgym.integrations.session import self_contained

ENVS = self_contained()
PIECE = re.compile(r" ?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d]+|\s+")
"""What byte-level BPE does not merge across: a count of them is the tokens of a vocabulary that has every word."""


def make(env_id: str, style: str, **config: Any) -> Any:
    default = spec(env_id).load().Config.model_fields["prompt"].default
    return factgym.make(env_id, prompt=default if style == "full" else style, **config)


def instructions(env: Any) -> str:
    """All that is the same in every episode: the system message (without one, the prompt) and the tool schemas."""
    env.reset(options={"task": 0})
    first = env.policy_prompt()[0]
    text = first["content"] if first["role"] == "system" else first["content"].removesuffix(env.task.prompt)
    tools = list(env.all_tools())
    return str(text) + (json.dumps(tools) if tools else "")


@pytest.mark.parametrize("env_id", ENVS)
def test_brief_instructions_are_at_most_half(env_id: str) -> None:
    full, brief = (len(PIECE.findall(instructions(make(env_id, style)))) for style in ("full", "brief"))
    assert brief <= full / 2, f"{brief} of {full}"


@pytest.mark.parametrize("env_id", ENVS)
def test_brief_instructions_are_at_most_half_in_tokens(env_id: str) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra 'local'")
    texts = {style: instructions(make(env_id, style)) for style in ("full", "brief")}
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=16_000, show_progress=False)
    bpe.train_from_iterator([instructions(make(other, style)) for other in ENVS for style in texts] * 2, trainer)
    full, brief = (len(bpe.encode(texts[style]).ids) for style in ("full", "brief"))
    assert brief <= full / 2, f"{brief} of {full}"


def play(env: Any, agent: str, index: int) -> tuple[str, Any]:
    """The task of an episode, and the report on it without the text of the policy's prompt."""
    env.reset(options={"task": index})
    policy = scripted_agents(env.env_spec.id)[agent].start(env, index)
    done, info = False, {}
    while not done:
        _, _, terminated, truncated, info = env.step(policy.act(env.policy_prompt(), env.available_tools()))
        done = terminated or truncated
    report = info["reward"]
    return env.task.id, (report.total, report.components, report.gates, report.status)


@pytest.mark.parametrize("env_id", ENVS)
def test_rewards_are_the_same(env_id: str) -> None:
    full, brief = make(env_id, "full"), make(env_id, "brief")
    roles = {agent.role: name for name, agent in reversed(scripted_agents(env_id).items())}
    for role in ("oracle", "teacher", "honest"):
        for index in range(6):
            assert play(full, roles[role], index) == play(brief, roles[role], index), (role, index)


@pytest.mark.parametrize("env_id", [name for name in ENVS if name != "toy"])
def test_manifests_tell_the_styles_apart(env_id: str) -> None:
    full, brief = make(env_id, "full"), make(env_id, "brief")
    assert full.prompt_hashes().keys() == brief.prompt_hashes().keys()
    differing = {name for name, value in full.prompt_hashes().items() if brief.prompt_hashes()[name] != value}
    assert differing
    text = brief.reset(options={"task": 0})[1]["messages"][0]["content"]
    assert full.reset(options={"task": 0})[1]["messages"][0]["content"] != text


def test_hashes_are_those_of_the_files() -> None:
    folder = Path(factgym.__file__).parent / "envs" / "claimcheck" / "prompts"
    hashes = make("claimcheck-mini", "brief").prompt_hashes()
    for name in ("system", "judged"):
        text = (folder / f"{name}.brief.md").read_text("utf-8").rstrip("\n")
        assert hashes[name] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("env_id", ENVS)
def test_names_and_choices_are_those_of_the_full_schemas(env_id: str) -> None:
    """A brief schema leaves out descriptions and bounds, but no argument, type or choice."""

    def shape(schema: Any) -> Any:
        if isinstance(schema, list):
            return [shape(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        inner = {"properties": lambda value: {name: shape(item) for name, item in value.items()}}
        keywords = ("type", "enum", "anyOf", "items", "properties")
        return {key: inner.get(key, shape)(schema[key]) for key in keywords if schema.get(key)}

    env, brief = make(env_id, "full"), make(env_id, "brief")
    env.reset(options={"task": 0}), brief.reset(options={"task": 0})
    for tool, short in zip(env.all_tools(), brief.all_tools(), strict=True):
        assert tool["function"]["name"] == short["function"]["name"]
        assert shape(tool["function"]["parameters"]) == shape(short["function"]["parameters"])


NUMERAL = re.compile(r"(?<![\w.])\d*\.?\d+(?!\w)")
NUMBERING = re.compile(r"^\d+\. ", re.MULTILINE)
NAME = re.compile(r"[`\"]([A-Za-z][\w-]+)[`\"]")


def descriptions(schema: Any) -> list[str]:
    """Every description in a schema."""
    items = list(schema.items()) if isinstance(schema, dict) else [("", item) for item in schema]
    return [
        text
        for key, value in items
        for text in ([value] if key == "description" else descriptions(value) if isinstance(value, dict | list) else [])
    ]


def rule_facts(text: str) -> set[str]:
    """Scores, shares and limits in a text as numbers, and the fields, labels and tools that it names."""
    numbers = {f"{float(match[0]):g}" for match in NUMERAL.finditer(NUMBERING.sub("", text))}
    fractions = {word for word in ("third", "quarter") if re.search(rf"\b{word}\b", text)}
    return numbers | fractions | {match[1].lower() for match in NAME.finditer(text)}


def rewards_of(env_id: str) -> list[Any]:
    presets = getattr(spec(env_id).load(), "presets", {})
    return [{"reward": name} for name in presets] or [{}]


@pytest.mark.parametrize("env_id", ENVS)
def test_every_fact_of_a_rule_is_in_the_brief_instructions(env_id: str) -> None:
    """Of the full prompt under every reward: each number of a score or limit, and each name of a field, label or tool."""
    for config in rewards_of(env_id):
        try:
            full, brief = make(env_id, "full", **config), make(env_id, "brief", **config)
        except factgym.core.errors.ConfigError:
            continue  # a reward that needs a policy or data of the user's
        tools = list(full.all_tools())
        schemas = json.dumps(tools)
        # Paging and defaults of the evidence tools are no rules of a score; a wrong page is answered by an error.
        described = descriptions([tool for tool in tools if tool["function"]["name"] not in ("list", "search", "read")])
        rules = "\n".join([instructions(full).removesuffix(schemas if tools else ""), *described])
        text = instructions(brief).lower()
        missing = {fact for fact in rule_facts(rules) - rule_facts(text) if not (fact[0].isalpha() and fact in text)}
        assert not missing, (config, missing)
        assert rule_facts(rules) or env_id == "toy", config


CLAIMS = [name for name in ENVS if name.startswith("claimcheck")]


@pytest.mark.parametrize("env_id", CLAIMS)
def test_mini_instructions_name_every_tool_argument_choice_and_number(env_id: str) -> None:
    """In place of schemas a line for each tool, under the same checks and rewards."""
    full, mini = make(env_id, "full"), make(env_id, "mini")
    mini.reset(options={"task": 0})
    assert list(mini.available_tools()) == list(mini.all_tools()) == []
    assert list(mini.checked_tools()) == list(full.checked_tools())
    text = instructions(mini)

    def names(schema: Any) -> set[str]:
        """Arguments and choices of a schema."""
        inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
        named = {*schema.get("properties", {}), *schema.get("enum", ())} if isinstance(schema, dict) else set()
        return named.union(*map(names, inner))

    for tool in full.checked_tools():
        words = {tool["function"]["name"], *names(tool["function"]["parameters"])}
        assert not [word for word in words if not re.search(rf"\b{word}\b", text)]
    scoring = rule_facts(instructions(full).partition("Scoring")[2].partition("[{")[0])
    named = rule_facts(text) | {"third" * ("1/3" in text), "quarter" * ("1/4" in text)}
    assert not {fact for fact in scoring - named if fact not in text}
    for index in range(6):
        for agent in ("oracle", "teacher"):
            assert play(full, agent, index) == play(mini, agent, index)
    assert full.prompt_hashes().keys() == mini.prompt_hashes().keys()
    assert full.prompt_hashes()["judged"] != mini.prompt_hashes()["judged"]


def test_a_call_in_the_text_is_played_where_no_schema_is_shown() -> None:
    env = make("claimcheck-mini", "mini")
    env.reset(options={"task": 0})
    example = instructions(env).partition("<tool_call>")[2].partition("</tool_call>")[0]
    info = env.step(f"<tool_call>{example}</tool_call>")[-1]
    assert info["error"] is None and info["tools"] == []
    assert "invalid_arguments" in env.step('<tool_call>{"name": "read", "arguments": {}}</tool_call>')[-1]["error"]


@pytest.mark.parametrize("env_id", ENVS)
def test_sampled_actions_fit_the_full_schemas(env_id: str) -> None:
    env = make(env_id, "brief", max_turns=2)
    env.action_space.seed(3)
    for index in range(20):
        env.reset(options={"task": index % 4})
        info = env.step(env.action_space.sample())[-1]
        assert info["error"] not in ("invalid_arguments", "unknown_tool")


def test_calls_are_checked_as_ever() -> None:
    env = make("claimcheck", "brief")
    env.reset(options={"task": 0})
    _, _, _, _, info = env.step({"tool": "search", "arguments": {"query": ""}})
    assert info["error"] == "invalid_arguments"


def test_the_number_of_passages_that_show_silence_is_stated() -> None:
    """ContractNLI's rules are added to brief instructions as to full ones, and scripted agents read them."""
    from factgym.core.prompts import fill, prompt
    from factgym.envs.claimcheck.scripted import parse_brief

    for style in ("full", "brief"):
        system = fill(prompt("factgym.envs.claimcheck", "silence", style), count="3")
        assert parse_brief([{"role": "system", "content": system}], [], 4).silence_passages == 3
        assert "{share}" in prompt("factgym.envs.claimcheck", "silence_share", style)
