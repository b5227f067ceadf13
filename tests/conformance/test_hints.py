"""Hints after malformed turns, over the registry: each example is a call that can be played, and none submits anything."""

from __future__ import annotations

import re
from typing import Any

import pytest

import factgym
from factgym.core.action import parse_action
from factgym.core.calls import ToolCall
from factgym.core.errors import ConfigError, DataError

MALFORMED = (
    *(
        "",
        "I think that it is true.",
        "<think>Hm.",
        "<think>Hm.</think>",
        "<tool_call>{",
        "<tool_call>search the web</tool_call>",
    ),
    *(
        '{"name": "search", "query": "x"}',
        "{}",
        '{"name": "", "arguments": {}}',
        "<tool_call>{'name': 'search'}</tool_call>",
    ),
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"name": "search", "arguments": "x"}}]},
)
PLACEHOLDERS = (
    *(
        "<answer>…</answer>",
        "<answer>...</answer>\n<evidence>...</evidence>",
        "<answer><your answer></answer>",
        "<answer>YOUR ANSWER</answer>",
    ),
    *("<think>…</think><answer>…</answer>", "<question>…</question>\n<answer>…</answer>\n<evidence>…</evidence>"),
    *(
        '<tool_call>{"name": "TOOL", "arguments": {...}}</tool_call>',
        '<tool_call>{"name": "…", "arguments": {…}}</tool_call>',
    ),
    *(
        '{"name": "submit", "arguments": {"answer": "..."}}',
        '{"name": "submit", "arguments": {"answer": "{your answer}"}}',
    ),
    *(
        '{"name": "submit", "arguments": {"label": "<label>"}}',
        '{"name": "verdict", "arguments": {"label": "…", "justification": "…"}}',
    ),
    '{"name": "ask", "arguments": {"questions": ["<question>"]}}',
    '{"name": "submit", "arguments": {"question": "…", "answer": "<answer>", "evidence": "..."}}',
)
MARKUP = re.compile(r"<(tool_call|search|answer|question|evidence|think)>.*?</\1>", re.DOTALL)

IDS = factgym.list_envs()


def started(env_id: str) -> Any:
    try:
        env = factgym.make(env_id)
        env.reset(seed=0)
    except (ConfigError, DataError) as error:  # an environment over a file that is not here
        pytest.skip(str(error)[:80])
    return env


@pytest.mark.parametrize("env_id", IDS)
def test_a_hint_can_be_played_and_submits_nothing(env_id: str) -> None:
    for action in MALFORMED:
        env = started(env_id)
        if env.config.max_turns == 1:  # there is no turn after a hint
            return
        observation, _, terminated, truncated, info = env.step(action)
        assert not terminated and not truncated
        assert info["error"] is not None
        assert not re.search(r"…</|\.\.\.</|\{\.\.\.\}|\bTOOL\b", observation)
        names = [tool["function"]["name"] for tool in env.available_tools()]
        for match in MARKUP.finditer(observation):
            (item,) = parse_action(match[0], tags=env.tags, implicit=env.implicit).items
            assert isinstance(item, ToolCall), match[0]
            assert item.name in names
            _, reward, terminated, _, info = env.step(match[0])
            assert info["error"] is None
            assert not terminated
            assert reward == 0


@pytest.mark.parametrize("env_id", IDS)
def test_a_placeholder_is_no_submission(env_id: str) -> None:
    for action in PLACEHOLDERS:
        env = started(env_id)
        if env.config.max_turns == 1:
            return
        _, reward, terminated, _, info = env.step(action)
        assert (terminated, reward) == (False, 0.0), action
        assert info["error"] is not None, action


@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_of_nothing_but_echoes_earns_nothing(env_id: str) -> None:
    env = started(env_id)
    observation, reward, over = "", 0.0, False
    while not over:
        match = MARKUP.search(observation)
        observation, reward, terminated, truncated, _ = env.step(match[0] if match else "I do not know what to do.")
        over = terminated or truncated
    assert reward <= 0
