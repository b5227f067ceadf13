"""Reading runs: what is tolerated and said, and what is refused with a line number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake_runs
import pytest

from factgym.agents.runs.read import read_run
from factgym.core.errors import DataError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fake_runs.write_run(tmp_path / "run", [fake_runs.episode(i) for i in range(20)])


def _set_line(run: Path, number: int, text: str | bytes) -> None:
    path = run / "episodes.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = text.encode() if isinstance(text, str) else text
    path.write_bytes(b"\n".join(lines))


def test_a_whole_run_is_read_as_written(run: Path) -> None:
    found = read_run(run)
    assert list(found.episodes()) == [fake_runs.episode(i) for i in range(20)]
    assert list(found.episodes()) == list(found.episodes())
    assert (found.notes, found.manifest["env"]) == ((), "claimcheck-multihop")
    assert read_run(run / "episodes.jsonl").folder == run


def test_a_torn_last_line_is_left_out_and_said_so(run: Path) -> None:
    path = run / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-700])
    found = read_run(run)
    assert len(list(found.episodes())) == 19
    assert "cut off" in found.notes[0]
    assert found.notes[1] == "The run is incomplete: 19 of 20 episodes."


def test_a_last_line_without_its_newline_is_whole(run: Path) -> None:
    path = run / "episodes.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(list(read_run(run).episodes())) == 20
    assert read_run(run).notes == ()


@pytest.mark.parametrize(
    ("line", "said"),
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
def test_broken_line_17_is_named(run: Path, line: str | bytes, said: str) -> None:
    _set_line(run, 17, line)
    with pytest.raises(DataError, match=said) as caught:
        list(read_run(run).episodes())
    assert str(caught.value).startswith(f"{run / 'episodes.jsonl'} line 17: ")


@pytest.mark.parametrize(
    ("key", "value", "said"),
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
def test_a_record_of_another_shape_is_refused(run: Path, key: str, value: Any, said: str) -> None:
    _set_line(run, 17, json.dumps({**fake_runs.episode(16), key: value}))
    with pytest.raises(DataError, match=f"line 17: .*{said}"):
        list(read_run(run).episodes())


def test_blank_lines_do_not_count(run: Path) -> None:
    _set_line(run, 3, "")
    assert len(list(read_run(run).episodes())) == 19


def test_what_is_no_run_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="factgym eval ENV --out"):
        read_run(tmp_path / "nowhere")


def test_a_missing_manifest_is_said_and_a_broken_one_refused(run: Path) -> None:
    (run / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json: no valid JSON"):
        read_run(run)
    (run / "manifest.json").unlink()
    assert "manifest.json is missing" in read_run(run).notes[0]


def test_an_empty_run_is_a_run(tmp_path: Path) -> None:
    found = read_run(fake_runs.write_run(tmp_path, []))
    assert list(found.episodes()) == []
