"""Preference pairs: best against worst of a group, one prompt on both sides, nothing without contrast."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import episode_records as made
import pytest
from pydantic import TypeAdapter, ValidationError

from factgym.agents.export.source import Form
from factgym.agents.export.training import PreferenceOptions, SftOptions, export_preferences, export_sft
from factgym.core.errors import ConfigError, DataError

Json = dict[str, Any]


@pytest.fixture(scope="module")
def base() -> Json:
    return made.played("oracle", 1)


def group(base: Json, totals: list[float], task: str = "t") -> list[Json]:
    return [made.sample_of(base | {"task": task}, sample, total) for sample, total in enumerate(totals)]


def export(tmp_path: Path, records: list[Json], **options: Any) -> tuple[list[Json], Any]:
    run = made.write(tmp_path / "run", records)
    summary = export_preferences([run], tmp_path / "out", PreferenceOptions(**options), force=True)
    return made.lines_of(tmp_path / "out"), summary


def samples(lines: list[Json]) -> list[tuple[int, int]]:
    return [(line["chosen_sample"], line["rejected_sample"]) for line in lines]


def test_a_pair_is_the_best_against_the_worst(tmp_path, base):
    records = group(base, [0.4, 0.9, 0.1, 0.9]) + group(base, [0.2, 0.3], "u")
    records = [records[i] for i in (4, 0, 1, 5, 2, 3)]
    lines, summary = export(tmp_path, records)
    assert [line["task"] for line in lines] == ["u", "t"]
    assert samples(lines) == [(1, 0), (1, 2)]
    assert dict(summary.left_out) == {"neither best nor worst of their group": 2}
    line = lines[1]
    assert list(line) == [
        "prompt", "chosen", "rejected", "tools", "env", "task",
        "chosen_reward", "rejected_reward", "chosen_sample", "rejected_sample",
    ]  # fmt: skip
    assert (line["chosen_reward"], line["rejected_reward"]) == (0.9, 0.1)


def test_prompt_and_sides_make_up_the_two_transcripts(tmp_path, base):
    (line,), _ = export(tmp_path, group(base, [1.0, 0.0]))
    last = base["turns"][-1]["message"]
    assert line["prompt"] == base["messages"][:2]
    for side, sample in (("chosen", 0), ("rejected", 1)):
        transcript = made.sample_of(base, sample, 0.0)["messages"]
        assert line["prompt"] + line[side] == transcript[: last + 1]
        assert line[side][0]["role"] == line[side][-1]["role"] == "assistant"


def test_real_episodes_of_a_strong_and_a_weak_agent_are_a_pair(tmp_path):
    records = [made.played("oracle", 4, 0), made.played("random", 4, 1)]
    (line,), _ = export(tmp_path, records)
    assert line["chosen_reward"] == pytest.approx(1.0)
    assert line["rejected_reward"] < 0.9
    assert line["prompt"] == records[0]["messages"][:2] == records[1]["messages"][:2]


@pytest.mark.parametrize(("margin", "pairs"), [(0.0, [(1, 0)]), (0.25, [(1, 0)]), (0.26, [])])
def test_the_margin_is_inclusive(tmp_path, base, margin, pairs):
    records = group(base, [0.25, 0.5]) + group(base, [0.0, 1.0], "wide")
    lines, summary = export(tmp_path, records, margin=margin)
    assert samples([line for line in lines if line["task"] == "t"]) == pairs
    assert summary.left_out["without contrast in their group"] == (0 if pairs else 2)


def test_equal_rewards_are_no_pair(tmp_path, base):
    with pytest.raises(DataError, match="no pair came out of 3 episodes; left out: 3 without contrast"):
        export(tmp_path, group(base, [0.5, 0.5, 0.5]))
    assert not (tmp_path / "out").exists()


def test_all_pairs_are_the_widest_first_and_bounded(tmp_path, base):
    records = group(base, [0.0, 0.25, 0.75, 0.75])
    lines, _ = export(tmp_path, records, pairs="all")
    assert samples(lines) == [(2, 0), (3, 0), (2, 1), (3, 1), (1, 0)]
    lines, summary = export(tmp_path, records, pairs="all", max_pairs=2, margin=0.3)
    assert samples(lines) == [(2, 0), (3, 0)]
    assert summary.left_out["pairs beyond 2 of a group"] == 2


def test_failed_unscored_cut_and_double_episodes_are_not_chosen(tmp_path, base):
    cut = made.sample_of(base, 3, 1.0)
    cut["turns"][0]["completion"] = {"finish_reason": "length"}
    unscored = made.sample_of(base, 4, 0.0)
    unscored["reward"] |= {"total": None, "status": "unscored"}
    records = [
        *group(base, [0.4, 0.8]), *(item | {"task": "t"} for item in (cut, unscored)),
        made.failed("t", 2), group(base, [0.4])[0] | {"sample": 5},
    ]  # fmt: skip
    lines, summary = export(tmp_path, records)
    assert samples(lines) == [(1, 0)]
    assert dict(summary.left_out) == {
        "failed": 1, "unscored": 1, "identical to an earlier one": 1, "neither best nor worst of their group": 1
    }  # fmt: skip
    low = [*group(base, [0.4, 0.8]), made.with_reward(cut | {"task": "t"}, 0.1)]
    assert samples(export(tmp_path, low)[0]) == [(1, 3)]


def test_a_run_with_one_episode_per_task_is_refused_with_a_hint_at_k(tmp_path, base):
    with pytest.raises(ConfigError, match="-k 4"):
        export(tmp_path, [*group(base, [1.0]), *group(base, [0.0], "u")])


def test_groups_are_within_one_run(tmp_path, base):
    runs = [made.write(tmp_path / name, group(base, totals)) for name, totals in (("a", [0.1, 0.2]), ("b", [0.7, 0.9]))]
    export_preferences(runs, tmp_path / "out")
    assert [(item["chosen_reward"], item["rejected_reward"]) for item in made.lines_of(tmp_path / "out")] == [
        (0.2, 0.1),
        (0.9, 0.7),
    ]


def test_other_prompts_and_isolated_contexts_are_no_pair(tmp_path, base):
    records = group(base, [0.0, 0.5, 0.9, 1.0])
    records[3]["messages"][1]["content"] += " (another question)"
    apart = records[2]
    for turn in apart["turns"][1:]:
        turn["sent"] = [1]
    lines, summary = export(tmp_path, records)
    assert samples(lines) == [(1, 0)]
    assert summary.left_out["with contexts of their own for each turn"] == 1


def test_reasoning_that_was_not_sent_again_is_excluded_with_a_hint(tmp_path, base):
    records = group(base, [0.0, 1.0])
    for record in records:
        for turn in record["turns"]:
            bare = record["messages"][turn["message"]]
            record["other_messages"].append(dict(bare))
            turn["sent"] = [0, 1]
            for index in range(2, turn["message"]):
                turn["sent"].append(index if index % 2 else len(record["messages"]) + index // 2 - 1)
            bare["reasoning_content"] = "hm"
    with pytest.raises(DataError, match=r"2 whose earlier reasoning was not sent again .*--reasoning drop"):
        export(tmp_path, records)
    (line,), _ = export(tmp_path, records, form=Form("drop"))
    assert line["chosen"] == group(base, [0.0, 1.0])[1]["messages"][2 : base["turns"][-1]["message"] + 1]


def test_tools_of_both_sides_are_offered_once(tmp_path, base):
    records = group(base, [0.0, 1.0])
    extra = copy.deepcopy(base["tools"][0])
    extra["function"]["name"] = "extra"
    records[0]["tools"] = [*base["tools"], extra]
    (line,), _ = export(tmp_path, records)
    assert line["tools"] == [*base["tools"], extra]


def test_native_calls_and_reasoning_take_the_chosen_form(tmp_path):
    records = [made.native(3, sample, reward, verdict=verdict) for sample, reward, verdict in
               ((0, 0.1, "overclaim"), (1, 0.9, "supported"))]  # fmt: skip
    (line,), _ = export(tmp_path, records, form=Form("inline", "object"))
    assert line["chosen"][0]["content"].startswith("<think>\nI think about turn 1.\n</think>")
    assert line["chosen"][-1]["tool_calls"][0]["function"]["arguments"]["final_verdict"] == "supported"
    assert line["rejected"][-1]["tool_calls"][0]["function"]["arguments"]["final_verdict"] == "overclaim"


@pytest.mark.parametrize("bad", [{"margin": -1.0}, {"margin": float("nan")}, {"max_pairs": 0}])
def test_settings_out_of_range_are_named(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        PreferenceOptions(**bad)


# Exports as others read them: OpenAI's own message types, `datasets`, and chat templates of `transformers`.


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
    text = [
        message for line in made.lines_of(files["object"]) for message in line["messages"] if message.get("tool_calls")
    ]
    with pytest.raises(AssertionError):
        _check_openai(text[0])
    with pytest.raises(ValidationError):
        _check_openai({key: value for key, value in text[0].items() if key != "reasoning_content"})


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


def _as_read(value: Any) -> Any:
    """Arrow fills the keys that some messages lack with null; the reader rounds floats to ten decimals."""
    if isinstance(value, dict):
        return {key: _as_read(item) for key, item in value.items() if item is not None}
    if isinstance(value, float):
        return round(value, 10)
    return [_as_read(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["text", "object", "pairs"])
def test_datasets_loads_the_exported_file(files, tmp_path, name):
    lines = made.lines_of(files[name])
    loaded = _load(files[name], tmp_path)
    expected = {"prompt", "chosen", "rejected", "tools"} if name == "pairs" else {"messages", "tools"}
    assert expected <= set(loaded.column_names)
    assert _as_read(loaded.to_list()) == _as_read(lines)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    transformers = pytest.importorskip("transformers", reason="the 'transformers' package is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="the 'tokenizers' package is not installed")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    result = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    result.chat_template = TEMPLATE
    return result


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
        index = 0
        for part in _expected(line, line["messages"]):
            index = text.index(part, index) + len(part)
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
