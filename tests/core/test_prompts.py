"""Prompts: Markdown files of a package, filled without a template language."""

from __future__ import annotations

import hashlib

import pytest

from factgym.core.prompts import fill, prompt, prompt_hash


def test_values_are_put_in_as_they_are() -> None:
    assert fill("Q: {q}\nA: {a}.", q="{a} {not a field}", a="}{") == "Q: {a} {not a field}\nA: }{."


def test_a_template_without_fields_is_itself() -> None:
    assert fill("plain } text", unused="x") == "plain } text"


def test_a_field_may_stand_twice() -> None:
    assert fill("{x}{x}", x="ab") == "abab"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="answer"):
        fill("{question} {answer}", question="q")


def test_prompts_come_from_the_package_without_the_last_newline() -> None:
    text = prompt("factgym.envs.claimcheck", "task")
    assert text == "Question: {question}\n\nAnswer to check: {answer}"
    assert prompt("factgym.envs.claimcheck", "task") is text


def test_an_unknown_prompt_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        prompt("factgym.envs.claimcheck", "nothing")


def test_the_hash_is_sha256_of_utf8() -> None:
    assert prompt_hash("é") == hashlib.sha256(b"\xc3\xa9").hexdigest()
