"""Exports as chat lines: selection, content of a line, atomic files, the command."""

from __future__ import annotations

import copy
import gc
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import episode_records as made
import pytest
import typer
from typer.testing import CliRunner

from factgym.agents.export.source import Form, Source, conversations
from factgym.agents.export.training import SftOptions, export_preferences, export_sft
from factgym.agents.runs.files import atomic_file
from factgym.agents.runs.read import read_run
from factgym.agents.sampling import split_reasoning, tools_as_text
from factgym.cli.runs import export
from factgym.core.errors import ConfigError, DataError

Json = dict[str, Any]


@pytest.fixture(scope="module")
def base() -> Json:
    return made.played("oracle", 1)


@pytest.fixture(scope="module")
def native() -> Json:
    return made.native(3)


def sft(tmp_path: Path, records: list[Json], **options: Any) -> tuple[list[Json], Any]:
    run = made.write(tmp_path / "run", records)
    summary = export_sft([run], tmp_path / "out.jsonl", SftOptions(**options), force=True)
    return made.lines_of(tmp_path / "out.jsonl"), summary


def test_a_line_is_the_transcript_up_to_the_policys_last_message(tmp_path, base):
    (line,), summary = sft(tmp_path, [base])
    assert list(line) == ["messages", "tools", "env", "task", "sample", "reward"]
    assert line["messages"] == base["messages"][: base["turns"][-1]["message"] + 1]
    assert line["messages"][-1]["role"] == "assistant"
    assert line["tools"] == base["tools"]
    assert (line["env"], line["task"], line["sample"], line["reward"]) == (base["env"], base["task"], 0, 1.0)
    assert summary.text() == f"1 line from 1 of 1 episode: {tmp_path / 'out.jsonl'}"


def test_every_reason_to_leave_an_episode_out_is_counted(tmp_path, base):
    unscored = copy.deepcopy(base) | {"task": "u"}
    unscored["reward"] |= {"total": None, "status": "unscored"}
    late = made.sample_of(base, 3, 0.9) | {"stop": "turn_limit"}
    malformed = made.sample_of(base, 4, 0.9)
    malformed["turns"][0]["error"] = "invalid_json"
    cut = made.native(2, finish_reason="length")
    records = [
        base, made.failed(), unscored, late, malformed, cut,
        made.sample_of(base, 5, 0.2), base | {"sample": 6}, made.sample_of(base, 7, 0.8), made.sample_of(base, 8, 0.7),
    ]  # fmt: skip
    lines, summary = sft(tmp_path, records, min_reward=0.5, best=2, no_errors=True)
    assert [line["sample"] for line in lines] == [0, 7]
    assert dict(summary.left_out) == {
        "failed": 1, "unscored": 1, "not submitted": 1, "with malformed or refused actions": 1, "truncated": 1,
        "below the threshold": 1, "identical to an earlier one": 1, "not among the best of their task": 1,
    }  # fmt: skip
    assert summary.exported + summary.left_out.total() == summary.episodes == 10
    assert "1 failed" in summary.text() and "1 unscored" in summary.text()
    retained = {line["sample"] for line in sft(tmp_path, records, only_submitted=False)[0]}
    assert {3, 4, 5} <= retained


def test_an_export_reads_the_episodes_that_a_reader_of_the_run_does(tmp_path, base):
    again = made.failed() | {name: base[name] for name in ("task", "sample")}
    other, doubled = made.sample_of(base, 1, 0.5), copy.deepcopy(base)
    run = made.write(tmp_path / "run", [again, made.failed(), again, base, other, doubled])
    with (run / "episodes.jsonl").open("ab") as file:
        file.write(b'{"schema":1,"env":')
    read = [(episode["task"], episode["sample"]) for episode in read_run(run).episodes()]
    source = Source([run], allow_evaluation_split=True)
    first = dict(map(index_of, source.first_pass()))
    assert sorted(first.values()) == sorted(read) and len(read) == 3
    second = list(map(index_of, source.second_pass()))
    assert [name for _, name in second] == read and dict(second) == first


def index_of(numbered: tuple[Any, Json]) -> tuple[Any, tuple[str, int]]:
    index, episode = numbered
    return index, (episode["task"], episode["sample"])


def test_the_threshold_is_inclusive_and_ties_go_to_the_earlier(tmp_path, base):
    records = [made.sample_of(base, sample, total) for sample, total in enumerate([0.5, 0.49, 0.75, 0.75])]
    assert [line["sample"] for line in sft(tmp_path, records, min_reward=0.5)[0]] == [0, 2, 3]
    assert [line["sample"] for line in sft(tmp_path, records, best=1)[0]] == [2]


def test_nothing_that_qualifies_is_an_error_and_leaves_no_file(tmp_path, base):
    with pytest.raises(DataError, match="no line came out of 1 episode; left out: 1 below the threshold"):
        sft(tmp_path, [base], min_reward=2.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("reasoning", ["keep", "drop", "inline"])
def test_reasoning_is_separate_dropped_or_inline(tmp_path, native, reasoning):
    (line,), _ = sft(tmp_path, [native], form=Form(reasoning=reasoning))
    text = [message for message in line["messages"] if message["role"] == "assistant"]
    assert len(text) == 2
    for number, message in enumerate(text, 1):
        thought = f"I think about turn {number}."
        assert message.get("reasoning_content") == (thought if reasoning == "keep" else None)
        if reasoning == "inline":
            assert split_reasoning(message["content"]) == (thought, "")
        else:
            assert message["content"] is None


def test_arguments_are_text_or_objects_with_the_same_meaning(tmp_path, native):
    texts, objects = (
        [call["function"]["arguments"] for message in line["messages"] for call in message.get("tool_calls", ())]
        for form in (Form(), Form(arguments="object"))
        for line in sft(tmp_path, [native], form=form)[0]
    )
    assert [json.loads(text) for text in texts] == objects
    assert objects[0] == {"query": "the rule", "k": 2}


@pytest.mark.parametrize("bad", ["{", "[1]", '{"a": NaN}', '{"a": 1e999}', "7"])
def test_arguments_that_are_no_object_leave_the_episode_out(tmp_path, native, bad):
    broken = copy.deepcopy(native) | {"sample": 1}
    broken["messages"][2]["tool_calls"][0]["function"]["arguments"] = bad
    lines, summary = sft(tmp_path, [native, broken], form=Form(arguments="object"))
    assert (len(lines), dict(summary.left_out)) == (1, {"with arguments that are no JSON object": 1})
    assert len(sft(tmp_path, [native, broken])[0]) == 2


def isolated(record: Json) -> Json:
    """The same episode, played with a context of its own in each turn."""
    record = copy.deepcopy(record)
    record["other_messages"] = [
        {"role": "user", "content": f"Stage {i}", "completion": {"raw": "never part of a prompt"}}
        for i, _ in enumerate(record["turns"])
    ]
    for number, turn in enumerate(record["turns"]):
        turn["sent"] = [0, len(record["messages"]) + number]
    return record


def test_isolated_contexts_give_one_line_per_turn(tmp_path, base):
    lines, summary = sft(tmp_path, [isolated(base)])
    assert [line["turn"] for line in lines] == list(range(len(base["turns"])))
    for line, turn in zip(lines, base["turns"], strict=True):
        number = line["turn"]
        stage = {"role": "user", "content": f"Stage {number}"}
        assert line["messages"] == [base["messages"][0], stage, base["messages"][turn["message"]]]
    assert (summary.lines, summary.exported) == (len(base["turns"]), 1)


def test_tools_that_open_later_give_one_line_per_turn_with_its_own(tmp_path, base):
    record = copy.deepcopy(base)
    record["turns"][0]["tools"] = ["search"]
    lines, _ = sft(tmp_path, [record])
    assert [[tool["function"]["name"] for tool in line["tools"]] for line in lines[:2]] == [
        ["search"],
        [tool["function"]["name"] for tool in base["tools"]],
    ]
    assert len(lines) == len(base["turns"])


def test_a_prompt_that_only_repeats_the_transcript_stays_one_conversation(tmp_path, base):
    record = copy.deepcopy(base)
    for turn in record["turns"]:
        turn["sent"] = list(range(turn["message"]))
    assert [line for line in sft(tmp_path, [record])[0] if "turn" not in line] == sft(tmp_path, [base])[0]


def as_text(record: Json) -> Json:
    """The record as a policy in text mode leaves it: tools in the system message, native calls and roles as text."""
    record = copy.deepcopy(record)
    others: list[Json] = record["other_messages"]
    for turn in record["turns"]:
        sent = tools_as_text(record["messages"][: turn["message"]], record["tools"])
        turn["sent"] = []
        for message in sent:
            message.pop("reasoning_content", None)  # as where a server refuses it
            everything = record["messages"] + others
            if message not in everything:
                others.append(message)
                everything = record["messages"] + others
            turn["sent"].append(everything.index(message))
    return record


def test_tools_that_were_written_into_the_prompt_are_not_offered_again(tmp_path, base):
    (line,), _ = sft(tmp_path, [as_text(base)])
    assert "tools" not in line
    assert "turn" not in line
    assert line["messages"][0]["content"].startswith(base["messages"][0]["content"])
    assert '"name": "search"' in line["messages"][0]["content"]
    assert line["messages"][1:] == base["messages"][1 : len(line["messages"])]


def test_so_are_tools_that_were_folded_into_the_first_user_message(tmp_path, base):
    """What a model without a system role is sent."""
    record = copy.deepcopy(base)
    system, user, *_ = tools_as_text(base["messages"][:2], base["tools"])
    record["other_messages"] = [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}]
    for turn in record["turns"]:
        turn["sent"] = [len(base["messages"]), *range(2, turn["message"])]
    (line,), _ = sft(tmp_path, [record])
    assert "tools" not in line
    assert "turn" not in line
    assert [message["role"] for message in line["messages"][:2]] == ["user", "assistant"]


def test_reasoning_that_later_prompts_lack_is_never_trained_on_as_a_prompt(tmp_path, base):
    thinking = copy.deepcopy(base)
    for turn in thinking["turns"]:
        thinking["messages"][turn["message"]]["reasoning_content"] = "hm"
    thinking = as_text(thinking)
    apart, _ = sft(tmp_path, [thinking])
    assert [line["turn"] for line in apart] == list(range(len(base["turns"])))
    for line in apart:
        assert ["reasoning_content" in message for message in line["messages"]] == [False] * (
            len(line["messages"]) - 1
        ) + [True]
    (whole,), _ = sft(tmp_path, [thinking], form=Form(reasoning="drop"))
    assert "turn" not in whole


@pytest.mark.parametrize("form", [Form(), Form("inline"), Form("drop", "object")])
def test_every_conversation_is_a_prompt_that_was_sent_and_its_reply(base, native, form):
    """The rule itself, for each shape of record: no policy's message stands behind a prompt that it never saw."""
    for record in (base, native, isolated(base), as_text(base), as_text(native)):
        everything = record["messages"] + record["other_messages"]
        prompts = []
        for turn in record["turns"]:
            index = turn["message"]
            sent = record["messages"][:index] if turn["sent"] is None else [everything[i] for i in turn["sent"]]
            prompts.append([form.message(message) for message in [*sent, record["messages"][index]]])
        parts = conversations(record, form)
        whole = parts[0].turn is None
        for number, prompt in enumerate(prompts):
            text = (parts[0] if whole else parts[number]).messages
            assert text[: len(prompt)] == prompt


HOSTILE = 'a\ud800b \x00\x1f\x7f </think> "\\ \u2028\u2029\x85 𝒳 é \udfff'


def hostile(record: Json) -> Json:
    record = copy.deepcopy(record) | {"sample": 1, "task": HOSTILE}
    record["messages"][1]["content"] = HOSTILE + "x" * 1_000_000
    record["messages"][record["turns"][0]["message"]]["content"] += HOSTILE
    record["reward"]["metrics"] |= {"odd": HOSTILE, HOSTILE: None, "list": [HOSTILE]}
    return record


def test_hostile_texts_become_plain_lines(tmp_path, base):
    lines, _ = sft(tmp_path, [base, hostile(base)])
    assert lines[1]["task"] == HOSTILE.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
    raw = (tmp_path / "out.jsonl").read_bytes()
    assert len(raw.decode().splitlines()) == 2  # splitlines knows more line ends than the newline
    assert lines[1]["messages"][1]["content"].endswith("x" * 1_000_000)


def test_keys_have_a_fixed_order(tmp_path, native):
    turned = json.loads(json.dumps(native), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    lines = []
    for record in (native, turned):
        sft(tmp_path, [record], form=Form(arguments="text"))
        lines.append([list(message) for message in made.lines_of(tmp_path / "out.jsonl")[0]["messages"]])
    assert lines[0] == lines[1]


def test_the_same_run_gives_the_same_bytes(tmp_path, base, native):
    records = [base, native, made.sample_of(base, 1, 0.5), hostile(base)]
    sft(tmp_path, records)
    first = (tmp_path / "out.jsonl").read_bytes()
    sft(tmp_path, records)
    assert (tmp_path / "out.jsonl").read_bytes() == first


def test_a_file_is_never_overwritten_without_force_nor_half_written(tmp_path, base):
    run = made.write(tmp_path / "run", [base])
    out = tmp_path / "deep" / "out.jsonl"
    export_sft([run], out)
    before = out.read_bytes()
    with pytest.raises(ConfigError, match="--force"):
        export_sft([run], out)
    broken = made.write(tmp_path / "broken", [base, made.sample_of(base, 1, 1.0) | {"sample": "one"}])
    with pytest.raises(DataError, match=r"broken, line 2 \(task .* sample: 'one' is not of type 'integer'"):
        export_sft([broken], out, force=True)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["out.jsonl"]
    for odd in (tmp_path, Path(os.devnull)):
        with pytest.raises(ConfigError, match=r"is a folder|not a plain file"):
            export_sft([run], odd, force=True)


def test_a_file_that_appears_meanwhile_stays(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match="already exists"), atomic_file(out, False) as file:
        file.write(b"ours")
        out.write_text("theirs")
    assert out.read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_file_is_gone(tmp_path, fault):
    expected = KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else ConfigError
    with pytest.raises(expected), atomic_file(tmp_path / "out", False) as file:
        file.write(b"half")
        assert len(list(tmp_path.iterdir())) == 1
        raise fault
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_written_through(tmp_path, base):
    run = made.write(tmp_path / "run", [base])
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    export_sft([run], tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert len(made.lines_of(tmp_path / "real")) == 1


def test_a_run_that_changes_while_it_is_read_is_noticed(tmp_path, base):
    records = [made.sample_of(base, 0, 1.0), made.sample_of(base, 1, 1.0)]
    source = Source([made.write(tmp_path / "run", records)])
    assert len(list(source.first_pass())) == len(list(source.second_pass())) == 2
    made.write(tmp_path / "run", records[::-1])
    with pytest.raises(DataError, match="changed while it was read"):
        list(source.second_pass())


def test_a_folder_that_cannot_be_written_is_named(tmp_path, base):
    run = made.write(tmp_path / "run", [base])
    with pytest.raises(ConfigError, match="choose another --out"):
        export_sft([run], Path("/proc/nowhere/out.jsonl"))


def test_runs_of_different_environments_need_mixed(tmp_path, base):
    other = base | {"env": "claimcheck-ood", "agent": "nli"}
    runs = [made.write(tmp_path / "a", [base]), made.write(tmp_path / "b", [other])]
    with pytest.raises(ConfigError, match=r"b is of claimcheck-ood v2, .* claimcheck-multihop v2: .*--mixed"):
        export_sft(runs, tmp_path / "out")
    (runs[1] / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="--mixed"):
        export_sft(runs, tmp_path / "out")
    assert export_sft(runs, tmp_path / "out", mixed=True).lines == 2


def test_manifests_that_disagree_are_refused_before_anything_is_read(tmp_path):
    runs = [made.write(tmp_path / name, [], env=made.ENV, version=version) for name, version in (("a", 1), ("b", 2))]
    with pytest.raises(ConfigError, match="b is of claimcheck-multihop v2"):
        Source(runs)
    assert len(Source(runs, mixed=True).runs) == 2


def test_best_counts_a_task_over_all_runs(tmp_path, base):
    runs = [
        made.write(tmp_path / name, [made.sample_of(base, 0, total, name)]) for name, total in (("a", 0.4), ("b", 0.6))
    ]
    export_sft(runs, tmp_path / "out", SftOptions(best=1))
    assert [line["reward"] for line in made.lines_of(tmp_path / "out")] == [0.6]


@pytest.mark.parametrize("export", [export_sft, export_preferences])
def test_memory_does_not_grow_with_the_run(tmp_path, base, export):
    """Large episodes, two sizes of run: what is held at the peak is a few episodes, not the run."""
    big = copy.deepcopy(base)
    big["messages"][0]["content"] += "y" * 100_000
    runs = []
    for size in (6, 36):
        half = size // 2  # the samples of a task lie as far apart as they can
        records = [made.sample_of(big | {"task": f"t{i % half}"}, i // half, i / size, str(i)) for i in range(size)]
        runs.append(made.write(tmp_path / str(size), records))
    del records
    export([runs[0]], tmp_path / "first")  # loads and caches what it needs
    peaks = []
    for run in runs:
        gc.collect()
        tracemalloc.start()
        assert export([run], tmp_path / f"{run.name}.out").exported == int(run.name)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 30 episodes more are 3 MB; objects that wait for the garbage collector are one, and differ by Python version.
    assert peaks[1] < peaks[0] + 1_500_000, peaks


# `factgym export`: options reach the exporter, those that do not fit are refused, one line says what was done.

Json = dict[str, Any]

app = typer.Typer()
app.command("export")(export)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [made.native(3, 0, 0.9), made.native(3, 1, 0.2, verdict="overclaim"), made.failed()]
    return made.write(tmp_path_factory.mktemp("run") / "run", records)


def call(run: Path, out: Path, *args: str) -> Any:
    return CliRunner().invoke(app, [str(run), "--out", str(out), *args])


def test_sft(run, tmp_path):
    out = tmp_path / "out.jsonl"
    done = call(run, out, "--to", "sft", "--min-reward", "0.5", "--best", "1", "--no-errors", "--reasoning", "drop")
    assert done.exit_code == 0, done.output
    assert done.output == f"1 line from 1 of 3 episodes: {out}; left out: 1 below the threshold, 1 failed\n"
    (line,) = made.lines_of(out)
    assert "reasoning_content" not in json.dumps(line)


def test_preferences(run, tmp_path):
    out = tmp_path / "out.jsonl"
    done = call(
        run,
        out,
        "--to",
        "preferences",
        "--margin",
        "0.5",
        "--pairs",
        "all",
        "--max-pairs",
        "3",
        "--arguments",
        "object",
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("1 pair from 2 of 3 episodes")
    (line,) = made.lines_of(out)
    assert isinstance(line["chosen"][0]["tool_calls"][0]["function"]["arguments"], dict)


def test_table(run, tmp_path):
    pytest.importorskip("pyarrow", reason="the extra 'export' is not installed")
    done = call(run, tmp_path / "out.parquet", "--to", "table")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("3 rows from 3 of 3 episodes")


def test_force_and_any_stop(run, tmp_path):
    out = tmp_path / "out.jsonl"
    for extra in ([], ["--force", "--any-stop"]):
        assert call(run, out, "--to", "sft", *extra).exit_code == 0
    assert isinstance(call(run, out, "--to", "sft").exception, ConfigError)


@pytest.mark.parametrize(
    ("to", "args", "expected"),
    [
        ("table", ["--best", "1"], "--best goes with --to sft, not with --to table"),
        ("sft", ["--margin", "0.1"], "--margin goes with --to preferences, not with --to sft"),
        ("preferences", ["--any-stop"], "--any-stop goes with --to sft, not"),
        ("table", ["--reasoning", "drop"], "--reasoning goes with --to sft and --to preferences, not"),
    ],
)
def test_options_of_another_format_are_refused(run, tmp_path, to, args, expected):
    error = call(run, tmp_path / "out", "--to", to, *args).exception
    assert isinstance(error, ConfigError)
    assert expected in str(error)
    assert not (tmp_path / "out").exists()


TEACHER = {"kind": "scripted", "role": "teacher"}
ORACLE = {"kind": "scripted", "role": "oracle"}
ENSEMBLE = {"kind": "majority", "models": [{"agent": "teacher", **TEACHER}, {"agent": "expert", **ORACLE}]}


@pytest.mark.parametrize("to", ["sft", "preferences"])
@pytest.mark.parametrize(
    ("agent", "details", "refused"),
    [
        ("expert", ORACLE, True),
        ("oracle", None, True),
        ("majority:2", ENSEMBLE, True),
        ("teacher", TEACHER, False),
        ("oracle", {"kind": "endpoint", "role": "student"}, False),
    ],
)
def test_training_data_of_an_oracle_are_refused(tmp_path, base, to, agent, details, refused):
    options = {"agent_details": details} if details else {}
    run = made.write(tmp_path / "run", [base, made.sample_of(base, 1, 0.2)], agent=agent, **options)
    out = tmp_path / "out.jsonl"
    done = call(run, out, "--to", to)
    if refused:
        assert isinstance(done.exception, ConfigError)
        message = str(done.exception)
        assert "--agent teacher" in message and "--allow-oracle" in message and "\n" not in message
        assert not out.exists()
        done = call(run, out, "--to", to, "--allow-oracle")
    assert done.exit_code == 0, done.output
    assert made.lines_of(out)


def test_a_run_without_a_manifest_is_judged_by_its_episodes(tmp_path, base):
    run = made.write(tmp_path / "run", [base], agent=base["agent"])
    (run / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="was played by an oracle"):
        export_sft([run], tmp_path / "out.jsonl")
    assert export_sft([run], tmp_path / "out.jsonl", SftOptions(allow_oracle=True)).lines == 1
