"""Secrets in settings, by name and by form, reach no manifest and no record."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect, json_value
from factgym.agents.runs.files import open_folder
from factgym.core.secrets import REDACTED, redact, redact_text, secret_values


@dataclasses.dataclass
class Remote:
    """A setting of a user's own class."""

    password: str
    retries: int = 3


SECRETS = (
    "sk-proj-abcdefghijklmnop1234",
    "hunter2hunter2",
    "hf_abcdefghijklmnopqrstuv",
    "ghp_0123456789abcdefghij0123",
)


def test_secrets_are_redacted_by_name_and_by_value_at_any_depth():
    settings = {
        "api_key": SECRETS[1],
        "nested": [{"headers": {"Authorization": "Basic " + SECRETS[1]}, "note": f"use {SECRETS[0]} here"}],
        "remote": Remote(SECRETS[1]),
        "text": (SECRETS[2], SECRETS[3], f"Bearer {SECRETS[1]}"),
    }
    text = json.dumps(json_value(settings))
    assert not [secret for secret in SECRETS if secret in text]
    assert "use [key] here" in text and '"retries": 3' in text


def test_settings_that_only_sound_like_secrets_are_recorded():
    settings = {
        "max_tokens": 512,
        "token": 5,
        "tokenizer": "gpt2",
        "count_tokenizer": "words",
        "api_key_env": "MY_KEY",
        "password": "",
        "model": "sk-8b",
        "passages": "the bearer of news",
    }
    assert json_value(settings) == settings


@pytest.mark.parametrize(
    "name", ["apiKey", "x-api-key", "OPENAI_API_KEY", "clientSecret", "authToken", "db_pwd", "auth"]
)
def test_names_of_every_spelling_are_seen(name):
    assert redact({name: "correct horse"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["sort_key", "key", "monkey", "tokens", "author", "passages", "secretary"])
def test_words_that_hold_such_a_name_are_not(name):
    assert redact({name: "name"}) == {name: "name"}


def test_the_value_of_a_key_decides_where_its_name_does_not():
    assert redact({"openai_key": "a1b2c3d4e5f6g7h8"}) == {"openai_key": REDACTED}
    assert redact_text("https://user:hunter2@host/v1") == f"https://{REDACTED}@host/v1"
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
    assert redact_text(f"a {pem} b") == f"a {REDACTED} b"
    cut_off = "-----BEGIN PRIVATE KEY-----\n" + "MIIa" * 3_000
    assert "MIIa" * 1_001 not in redact_text(cut_off)
    assert redact_text(f"{pem[:38]}-----BEGIN") == f"{REDACTED}-----BEGIN"


settings = st.recursive(
    st.text(max_size=20) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=12,
)


@given(settings, st.lists(st.sampled_from(["a", "nested", "0"]), max_size=4))
def test_a_secret_is_redacted_wherever_it_is(around, path):
    value = {"password": {"text": SECRETS[1]}, "note": SECRETS[0]}
    for name in path:
        value = {name: [value, around]}
    result = json.dumps(redact(value, tuple(secret_values(value))))
    assert SECRETS[0] not in result and SECRETS[1] not in result
    assert redact(redact(value)) == redact(value)


LEAKY = """
class Leaky:
    def __init__(self, login, limits=None):
        self.login = login

    def describe(self):
        return {"login": self.login, "header": {"Authorization": "Basic " + self.login["password"]}}

    def act(self, messages, tools):
        password = self.login["password"]
        if len(messages) > 3:
            raise RuntimeError(f"cannot log in as {self.login} at https://me:{password}@host")
        notes = {"login": dict(self.login), "sent": ["curl -u me:" + password]}
        return {"role": "assistant", "content": "hm", "completion": {"notes": notes}}
"""


def test_no_file_of_a_run_holds_a_secret_of_a_users_class(tmp_path):
    (tmp_path / "leaky.py").write_text(LEAKY)
    login = {"password": SECRETS[1], "user": "me", "backup": [{"apiKey": SECRETS[2]}]}
    agent = find_agent(f"{tmp_path / 'leaky.py'}:Leaky", "claimcheck-multihop", {"login": login})
    run = collect(factgym.make("claimcheck-multihop"), agent, tmp_path / "run", n=2)
    (first, *_) = run.episodes()
    assert first["error"]["message"].startswith("RuntimeError: cannot log in")
    assert first["turns"][0]["completion"]["notes"]["login"]["user"] == "me"
    for file in (tmp_path / "run").iterdir():
        text = file.read_text()
        assert not [secret for secret in SECRETS if secret in text], file
    open_folder(tmp_path / "evolution", {"settings": login}, resume=False)
    open_folder(tmp_path / "evolution", {"settings": login}, resume=True)
    assert SECRETS[1] not in (tmp_path / "evolution" / "manifest.json").read_text()
