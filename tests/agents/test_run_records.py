"""Episode records: their schema, and runs read from disk."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import episode_records as made
import fake_runs
import pytest
from jsonschema import Draft202012Validator

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import play_episode
from factgym.agents.rollout.jobs import Progress
from factgym.agents.rollout.record import EncodedRecord
from factgym.agents.runs.read import read_run
from factgym.agents.runs.schema import path_text, schema, validate
from factgym.cli.docs import DATA
from factgym.core.errors import DataError
from factgym.core.policy import ContentFilterError, ContextOverflowError, PolicyError, ScriptedAgent

Json = dict[str, Any]
JsonPath = tuple[str | int, ...]


def full_record() -> Json:
    """A record in which every part of the schema occurs."""
    record = made.native(3)
    record["messages"][0]["name"] = "instructions"
    record["other_messages"] = [{"role": "system", "content": [{"type": "text", "text": "x"}], "cache": True}]
    record["turns"][1] |= {"sent": [len(record["messages"]), 1, 2, 3], "tools": ["submit"]}
    record["reward"]["components"]["json"] = 1.0
    record["reward"]["spans"] = [[2, 0, 3, 0.5]]
    return record


FULL = full_record()


def test_the_schema_is_a_schema_with_words_for_everything():
    result = schema()
    Draft202012Validator.check_schema(result)
    assert result["$id"] == "urn:factgym:schema:episode:1"
    rules = [(path, node) for path, node in _nodes(result) if "allOf" not in path and node != {"type": "null"}]
    assert [path for path, node in rules if "type" in node and "description" not in node] == []


def _nodes(node: Any, path: JsonPath = ()) -> Iterator[tuple[JsonPath, Json]]:
    if isinstance(node, dict):
        if not path or path[-1] not in ("properties", "$defs"):
            yield path, node
        for key, item in node.items():
            yield from _nodes(item, (*path, key))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _nodes(item, (*path, index))


def test_a_copy_is_the_callers_own():
    schema()["properties"].clear()
    validate(FULL)
    assert schema()["properties"]


@pytest.mark.parametrize("env_id", [env_id for env_id in factgym.list_envs() if env_id not in DATA])
def test_every_agent_of_every_environment_writes_valid_records(env_id):
    for agent in scripted_agents(env_id):
        validate(made.played(agent, 1, env=env_id))


class _Ends:
    """Searches once, then does what ends an episode otherwise than by a submission."""

    def __init__(self, fault: Exception | None) -> None:
        self.fault = fault
        self.turn = 0

    def act(self, messages: Any, tools: Any) -> Any:
        self.turn += 1
        if self.fault and self.turn == 2:
            raise self.fault
        return '<tool_call>{"name": "search", "arguments": {"query": "rule"}}</tool_call>'


@pytest.mark.parametrize(
    ("stop", "fault", "limits"),
    [
        ("turn_limit", None, {"max_turns": 2}),
        ("length_limit", None, {"max_episode_chars": 4000, "max_turns": 50}),
        ("context_limit", ContextOverflowError("4097 tokens"), {}),
        ("content_filter", ContentFilterError("flagged"), {}),
        ("error", PolicyError("rate_limit", "429"), {}),
    ],
)
def test_every_end_leaves_a_valid_record(stop, fault, limits):
    agent = ScriptedAgent("ends", "baseline", "", lambda env, seed: _Ends(fault))
    record = play_episode(factgym.make(made.ENV, **limits), agent, 2)
    assert record["stop"] == stop
    assert (record["error"] is None) == (stop != "error")
    validate(record)


def test_errors_and_full_accounts_are_valid():
    validate(made.failed())
    validate(FULL)
    validate(made.native(finish_reason="length"))


def _objects(value: Any, rules: Any, path: JsonPath = ()) -> Iterator[tuple[JsonPath, Json, Json]]:
    """Every object of a record with the rules that the schema has for it."""
    rules = _resolved(rules, value)
    if isinstance(value, dict):
        if "properties" in rules:
            yield path, value, rules
        for key, item in value.items():
            yield from _objects(item, rules.get("properties", {}).get(key, {}), (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:4]):
            yield from _objects(item, rules.get("items") or {}, (*path, index))


def _resolved(rules: Any, value: Any) -> Json:
    if not isinstance(rules, dict):
        return {}
    if "anyOf" in rules:
        rules = next(item for item in rules["anyOf"] if item.get("type") != "null") if value is not None else {}
    return schema()["$defs"][rules["$ref"].rsplit("/", 1)[1]] if "$ref" in rules else rules


OBJECTS = list(_objects(FULL, schema()))


def _refused(path: JsonPath, change: Any) -> str:
    record = copy.deepcopy(FULL)
    index: Any = record
    for step in path:
        index = index[step]
    change(index)
    with pytest.raises(DataError) as caught:
        validate(record)
    return str(caught.value)


def test_the_full_record_meets_every_definition():
    met = {id(rules) for _, _, rules in OBJECTS}
    assert len(met) > 10
    names = {key for _, value, rules in OBJECTS for key in value if key in rules["properties"]}
    expected = {key for _, node in _nodes(schema()) for key in node.get("properties", {}) if "description" in node}
    assert expected - names <= {"cause", "message", "description"}


REQUIRED = [(path, key) for path, _, rules in OBJECTS for key in rules.get("required", ())]


@pytest.mark.parametrize(("path", "key"), REQUIRED, ids=[path_text([*path, key]) for path, key in REQUIRED])
def test_a_record_without_a_required_field_is_refused(path, key):
    assert repr(key) in _refused(path, lambda index: index.pop(key))


def _types(rules: Json, value: Any) -> list[str]:
    """The types that a field may have, none where any will do."""
    kinds = _resolved(rules, value).get("type", [])
    nullable = ["null"] if {"type": "null"} in rules.get("anyOf", ()) else []
    return [*([kinds] if isinstance(kinds, str) else kinds), *nullable] if kinds else []


WRONG: dict[str, Any] = {
    "string": 7, "integer": "7", "number": "7", "object": [1], "array": {"a": 1},
}  # fmt: skip
TYPED = [
    (path, key, types)
    for path, value, rules in OBJECTS
    for key in value
    for types in [_types(rules["properties"].get(key, {}), value[key])]
    if types
]


@pytest.mark.parametrize(("path", "key", "types"), TYPED, ids=[path_text([*path, key]) for path, key, _ in TYPED])
def test_a_field_of_another_type_is_refused_and_its_path_named(path, key, types):
    bad = [value for kind, value in WRONG.items() if kind in types] + ([] if "null" in types else [None])
    for value in [*bad, True]:
        text = _refused(path, lambda index, value=value: index.__setitem__(key, value))
        assert path_text([*path, key]) in text or "required" in text, text


CLOSED = [path for path, _, rules in OBJECTS if rules.get("additionalProperties") is False]


@pytest.mark.parametrize("path", CLOSED, ids=[path_text(path) or "record" for path in CLOSED])
def test_a_stray_field_is_refused_where_the_format_is_ours(path):
    assert "'stray'" in _refused(path, lambda index: index.__setitem__("stray", 1))


@pytest.mark.parametrize(
    "path",
    [
        "task_view", "reward metrics", "tools 0", "tools 0 function", "other_messages 0", "turns 0 completion notes",
        "turns 0 completion raw", "turns 0 calls 0 arguments",
    ],
)  # fmt: skip
def test_keys_of_others_are_open(path):
    record = copy.deepcopy(FULL)
    index: Any = record
    for step in path.split():
        index = index[int(step) if step.isdigit() else step]
    index["stray"] = {"any": ["thing"]}
    validate(record)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema": 2}, "schema: 1 was expected"),
        ({"sample": -1}, "sample: -1 is less than the minimum"),
        ({"attempt": 0}, "attempt: 0 is less"),
        ({"seed": 2**31}, "seed: .* greater than the maximum"),
        ({"seconds": float("nan")}, "seconds: nan is no JSON number"),
        ({"task_view": {"a": [0.0, float("inf")]}}, r"task_view.a\[1\]: inf is no JSON number"),
        ({"stop": "gave_up"}, "stop: 'gave_up' is not one of"),
        ({"stop": "error"}, "error: None"),
        ({"error": {"cause": "timeout", "message": ""}}, "error: .* is not of type 'null'"),
        ({"reward": None}, "reward: None is not of type 'object'"),
        ({"reward": {**FULL["reward"], "status": "unscored"}}, "reward.total: .* is not of type 'null'"),
        ({"reward": {**FULL["reward"], "total": None}}, "reward.total: None is not of type 'number'"),
        ({"reward": {**FULL["reward"], "spans": [[2, 0, 1]]}}, r"reward.spans\[0\]: .* too short"),
        ({"reward": {**FULL["reward"], "spans": [[2, 0, 1, 0.5, 1]]}}, r"reward.spans\[0\]"),
        ({"reward": {**FULL["reward"], "spans": [[1, 0, 1, 0.5]]}}, r"spans\[0\]: 1 is not the index of a policy's"),
        ({"reward": {**FULL["reward"], "spans": [[2, 0, 10**6, 0.5]]}}, "lies outside of message 2"),
        ({"turns": [{**FULL["turns"][0], "message": 0}]}, r"turns\[0\].message: 0 is not the index"),
        ({"turns": [{**FULL["turns"][0], "message": 99}]}, r"turns\[0\].message: 99"),
        ({"turns": [FULL["turns"][0]] * 2}, r"turns\[1\].message: 2 is not the index of the policy's next"),
        ({"turns": [{**FULL["turns"][0], "sent": [77]}]}, r"turns\[0\].sent: 77 is no message"),
        ({"turns": [{**FULL["turns"][0], "tools": ["nope"]}]}, r"turns\[0\].tools: 'nope' is none"),
        ({"messages": [{"role": "tool", "content": "x"}]}, r"messages\[0\]: 'tool_call_id' is a required"),
        ({"messages": [{"role": "user", "content": "x", "completion": {}}]}, "'completion' was unexpected"),
        ({"messages": [{"role": "user", "content": "x", "reasoning_content": "y"}]}, r"messages\[0\]"),
        ({"messages": [{"role": "x" * 10**6, "content": ""}]}, r"messages\[0\].role: .{60,200} breaks the rule"),
    ],
)
def test_invalid_records_are_refused(change, expected):
    with pytest.raises(DataError, match=expected) as caught:
        validate({**FULL, **change})
    assert len(str(caught.value)) < 400


def test_an_encoded_record_is_the_record():
    record = copy.deepcopy(FULL)
    record["messages"][0]["content"] += " half a pair: \ud800"
    record["turns"][0]["completion"] = {"requests": 3, "retries": [{"cause": "server", "waited": 0.5}]}
    record["turns"][1]["completion"] = {"raw": "x"}
    encoded = EncodedRecord.of(record)
    assert dict(encoded) == record == json.loads(encoded.line)
    counts, expected = Progress(1), Progress(1)
    for turn, completion in zip(record["turns"], encoded.completions, strict=True):
        counts.add_turn(completion)
        expected.add_turn(turn["completion"])
    counts.add(encoded)
    expected.add(record)
    assert replace(counts, started=0.0) == replace(expected, started=0.0)


def test_records_round_trip_through_json():
    for record in (FULL, made.failed()):
        assert json.loads(json.dumps(record)) == record


# Reading runs: what is tolerated and said, and what is refused with a line number.


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fake_runs.write_run(tmp_path / "run", [fake_runs.episode(i) for i in range(20)])


def _set_line(run: Path, number: int, text: str | bytes) -> None:
    path = run / "episodes.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = text.encode() if isinstance(text, str) else text
    path.write_bytes(b"\n".join(lines))


def test_a_whole_run_is_read_as_written(run: Path) -> None:
    opened = read_run(run)
    assert list(opened.episodes()) == [fake_runs.episode(i) for i in range(20)]
    assert list(opened.episodes()) == list(opened.episodes())
    assert (opened.notes, opened.manifest["env"]) == ((), "claimcheck-multihop")
    assert read_run(run / "episodes.jsonl").folder == run


def test_a_torn_last_line_is_left_out_and_noted(run: Path) -> None:
    path = run / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-700])
    opened = read_run(run)
    assert len(list(opened.episodes())) == 19
    assert "cut off" in opened.notes[0]
    assert opened.notes[1] == "The run is incomplete: 19 of 20 episodes."


def test_a_last_line_without_its_newline_is_whole(run: Path) -> None:
    path = run / "episodes.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(list(read_run(run).episodes())) == 20
    assert read_run(run).notes == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"task": "a", "rewa', "no valid JSON"),
        ("[1, 2]", "a JSON object is needed, not list"),
        ("{}", "needs its 'task'"),
        (b'{"task": "\xff"}', "not UTF-8"),
        ('{"task": "a", "x": NaN}', "NaN is no JSON number"),
        ('{"task": "a", "x": ' + "9" * 10_000 + "}", "digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_line_17_is_named(run: Path, line: str | bytes, expected: str) -> None:
    _set_line(run, 17, line)
    with pytest.raises(DataError, match=expected) as caught:
        list(read_run(run).episodes())
    assert str(caught.value).startswith(f"{run / 'episodes.jsonl'} line 17: ")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("messages", None, "'messages' must be a list of objects"),
        ("turns", [1], "'turns' must be a list of objects"),
        ("turns", [{"message": "x"}], "'message' must be a number"),
        ("turns", [{"message": 1, "calls": 7}], "'calls' must be a list"),
        ("turns", [{"message": 1, "calls": [], "error": []}], "must be a code or null"),
        ("reward", 0.5, "'reward' must be an object or null"),
        ("reward", {"components": {"json": "1"}}, "'components' must be an object of numbers"),
        ("reward", {"weights": []}, "'weights' must be an object of numbers"),
        ("reward", {"metrics": []}, "'metrics' must be an object"),
    ],
)
def test_a_record_of_another_shape_is_refused(run: Path, key: str, value: Any, expected: str) -> None:
    _set_line(run, 17, json.dumps({**fake_runs.episode(16), key: value}))
    with pytest.raises(DataError, match=f"line 17: .*{expected}"):
        list(read_run(run).episodes())


def test_blank_lines_do_not_count(run: Path) -> None:
    _set_line(run, 3, "")
    assert len(list(read_run(run).episodes())) == 19


def test_a_folder_without_a_run_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="factgym eval ENV --out"):
        read_run(tmp_path / "nowhere")


def test_a_missing_manifest_is_noted_and_a_broken_manifest_refused(run: Path) -> None:
    (run / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json: no valid JSON"):
        read_run(run)
    (run / "manifest.json").unlink()
    assert "manifest.json is missing" in read_run(run).notes[0]


def test_an_empty_run_is_a_run(tmp_path: Path) -> None:
    run = read_run(fake_runs.write_run(tmp_path, []))
    assert list(run.episodes()) == []
