"""Exports as others read them: OpenAI's own message types, `datasets`, and chat templates of `transformers`.

TRL's column names are its documentation's (dataset formats): "messages" and "tools" for language modelling; "prompt",
"chosen" and "rejected" for preferences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import episode_records as made
import pytest
from pydantic import TypeAdapter, ValidationError

from factgym.agents.export.source import Form
from factgym.agents.export.training import PreferenceOptions, SftOptions, export_preferences, export_sft

Json = dict[str, Any]

TEMPLATE = """{%- if tools %}<|tools|>{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif -%}
{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</call>
{%- endfor -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, native calls and text calls, good and bad samples."""
    records = []
    for task in (3, 4):
        records += [made.native(task, 0, 0.9), made.native(task, 1, 0.2, verdict="overclaim")]
        records += [made.played("oracle", task, 2), made.played("random", task, 3)]
    return made.write(tmp_path_factory.mktemp("run") / "run", records)


@pytest.fixture(scope="module")
def files(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    export_sft([run], folder / "text.jsonl", SftOptions(only_submitted=False, form=Form("drop")))
    export_sft([run], folder / "object.jsonl", SftOptions(only_submitted=False, form=Form("keep", "object")))
    export_preferences([run], folder / "pairs.jsonl", PreferenceOptions(form=Form("drop"), pairs="all"))
    return {file.stem: file for file in folder.iterdir()}


def _check_openai(message: Json) -> None:
    """A message against OpenAI's type for its role: types, required keys, and no key that it does not know."""
    from openai.types import chat

    kinds: dict[str, Any] = {
        "system": chat.ChatCompletionSystemMessageParam,
        "user": chat.ChatCompletionUserMessageParam,
        "assistant": chat.ChatCompletionAssistantMessageParam,
        "tool": chat.ChatCompletionToolMessageParam,
    }
    _check_typed(kinds[message["role"]], message)
    for call in message.get("tool_calls", ()):  # an Iterable, which pydantic does not look into
        _check_typed(chat.ChatCompletionMessageFunctionToolCallParam, call)


def _check_typed(kind: Any, value: Json) -> None:
    TypeAdapter(kind).validate_python(value, strict=True)
    assert set(value) <= set(get_type_hints(kind))


def test_messages_and_tools_are_openais(files):
    from openai.types.chat import ChatCompletionFunctionToolParam

    for name in ("text", "pairs"):
        for line in made.lines_of(files[name]):
            for part in ("messages", "prompt", "chosen", "rejected"):
                for message in line.get(part, ()):
                    _check_openai(message)
            for tool in line["tools"]:
                _check_typed(ChatCompletionFunctionToolParam, tool)


def test_the_check_against_openais_types_can_fail(files):
    """Arguments as objects and reasoning kept apart are what chat templates take, and not OpenAI's form."""
    said = [one for line in made.lines_of(files["object"]) for one in line["messages"] if one.get("tool_calls")]
    with pytest.raises(AssertionError):
        _check_openai(said[0])
    with pytest.raises(ValidationError):
        _check_openai({key: value for key, value in said[0].items() if key != "reasoning_content"})


def test_every_call_is_answered_before_the_next_message_of_the_policy(files):
    """What OpenAI's servers ask for beyond the types; the last message, which ends the example, is free of it."""
    for line in made.lines_of(files["text"]):
        waiting: list[str] = []
        for message in line["messages"]:
            if message["role"] == "tool":
                waiting.remove(message["tool_call_id"])
            else:
                assert waiting == []
                waiting = [call["id"] for call in message.get("tool_calls", ())]


def _load(file: Path, cache: Path) -> Any:
    datasets = pytest.importorskip("datasets", reason="the 'datasets' package is not installed")
    return datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(cache))


def _without_nulls(value: Any) -> Any:
    """Arrow fills the keys that some messages lack with null."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["text", "object", "pairs"])
def test_datasets_loads_what_was_written(files, tmp_path, name):
    lines = made.lines_of(files[name])
    loaded = _load(files[name], tmp_path)
    wanted = {"prompt", "chosen", "rejected", "tools"} if name == "pairs" else {"messages", "tools"}
    assert wanted <= set(loaded.column_names)
    assert _without_nulls(loaded.to_list()) == _without_nulls(lines)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    transformers = pytest.importorskip("transformers", reason="the 'transformers' package is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="the 'tokenizers' package is not installed")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    found.chat_template = TEMPLATE
    return found


def _expected(line: Json, messages: list[Json]) -> Iterator[str]:
    yield "<|tools|>"
    for message in messages:
        yield f"<|{message['role']}|>{message['content'] or ''}"
        for call in message.get("tool_calls") or ():
            yield f'"name": "{call["function"]["name"]}", "arguments": '
            yield from (str(value) for value in [json.dumps(call["function"]["arguments"], ensure_ascii=False)])


def test_a_chat_template_renders_every_message_in_order(files, tmp_path, tokenizer):
    loaded = _load(files["object"], tmp_path)
    for row, line in zip(loaded, made.lines_of(files["object"]), strict=True):
        text = tokenizer.apply_chat_template(row["messages"], tools=row["tools"], tokenize=False)
        place = 0
        for part in _expected(line, line["messages"]):
            place = text.index(part, place) + len(part)
        for tool in line["tools"]:
            assert json.dumps(tool["function"]["name"]) in text


def test_prompt_and_sides_join_to_the_transcript_under_a_template(files, tmp_path, tokenizer):
    """As DPO needs it: the rendered prompt is a prefix of the rendered prompt and answer."""
    for row in _load(files["pairs"], tmp_path):
        prompt = tokenizer.apply_chat_template(
            row["prompt"], tools=row["tools"], tokenize=False, add_generation_prompt=True
        )
        for side in ("chosen", "rejected"):
            assert tokenizer.apply_chat_template(
                row["prompt"] + row[side], tools=row["tools"], tokenize=False
            ).startswith(prompt)  # fmt: skip
