"""From the text of `--agent` to an agent, and a user's own policy in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_engine import many, run

import factgym
from factgym.agents.resolve import find_agent
from factgym.core.errors import ConfigError

ENV = "claimcheck-multihop"
POLICIES = Path(__file__).parent / "policies.py"


def verdicts(name, **settings):
    result, _ = run(factgym.make(ENV), find_agent(f"{POLICIES}:{name}", ENV, settings), many(4))
    return {episode["reward"]["metrics"]["verdict"] for episode in result if episode["error"] is None}


def test_a_class_a_function_and_an_object_of_a_file_play():
    assert verdicts("Wanting", verdict="unsupported") == {"unsupported"}
    assert verdicts("answer") == {"supported"}
    assert verdicts("ready") == {"contradicted"}


def test_a_file_is_identified_by_its_content(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def act(messages, tools):\n    return 'one'\n")
    first = find_agent(f"{file}:act", ENV)
    assert first.name == "mine.py:act"
    assert first.describe()["kind"] == "user"
    file.write_text("def act(messages, tools):\n    return 'two'\n")
    assert find_agent(f"{file}:act", ENV).describe() != first.describe()
    json.dumps(first.describe())


def test_a_file_can_import_modules_of_its_folder(tmp_path):
    (tmp_path / "beside_it.py").write_text("WORD = 'hello'\n")
    (tmp_path / "mine.py").write_text("import beside_it\n\ndef act(messages, tools):\n    return beside_it.WORD\n")
    (item,), _ = run(factgym.make(ENV, max_turns=1), find_agent(f"{tmp_path}/mine.py:act", ENV), many(1))
    assert item["messages"][2]["content"] == "hello"


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        ("{file}:Wantin", {}, "Did you mean 'Wanting'"),
        ("{file}:Wanting", {}, "could not be made: TypeError"),
        ("{file}:nothing", {}, "no act"),
        ("{file}:answer", {"x": 1}, "takes no settings"),
        ("{folder}/missing.py:X", {}, "there is no file"),
        ("{folder}/wrong.py:X", {}, "could not be imported: SyntaxError"),
        ("{folder}/raises.py:X", {}, "could not be imported: ZeroDivisionError"),
        ("orcale", {}, "Did you mean 'oracle'.*openai:MODEL"),
        ("oracle", {"temperature": 0.5}, "takes no settings"),
        ("majority:1:openai:m", {}, "N from 2"),
        ("majority:5:nli", {}, "made of models"),
        ("best:x:openai:m", {}, "best:N:AGENT"),
        ("hf:", {}, "needs a model"),
        ("http://localhost:1/v1", {"base_url": "http://localhost:2/v1"}, "takes no base_url"),
        ("openai:m", {"temprature": 1.0}, "Did you mean 'temperature'"),
        ("openai:m", {"temperature": -1.0}, "temperature should be"),
        ("openai:m", {"temperature": "hot"}, "temperature should be a valid number"),
    ],
)
def test_unusable_agents_are_errors(tmp_path, monkeypatch, text, settings, expected):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    (tmp_path / "wrong.py").write_text("def (:\n")
    (tmp_path / "raises.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=expected):
        find_agent(text.format(file=POLICIES, folder=tmp_path), ENV, settings)


def test_a_scripted_agent_may_have_the_name_of_an_ensemble():
    assert find_agent("majority", "seva").describe()["kind"] == "scripted"
