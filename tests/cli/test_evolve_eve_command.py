"""`factgym evolve eve`, and `factgym view` on what it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from factgym.cli.main import app
from factgym.core.errors import FactgymError

SMALL = (
    *("--size", "40", "--batch", "10", "--prompts", "5", "--samples", "2", "--rows", "4", "--group", "2"),
    *("-n", "2", "-m", "2", "--iterations", "2"),
)


@pytest.fixture(autouse=True)
def _at_eighty_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def call(*args: str) -> str:
    done = CliRunner().invoke(app, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def evolve(*args: str) -> str:
    return call("evolve", "eve", *args)


def load(path: str) -> Any:
    return json.loads(Path(path).read_text("utf-8"))


def test_both_phases_and_their_summary() -> None:
    output = evolve(*SMALL, "--out", "out", "--trainer", "check")
    for title in ("Phase A: the proposer", "Data set", "Phase B: the solver"):
        assert f"\n{title}" in output
    assert max(len(line) for line in output.splitlines()) <= 80
    assert "rollouts from 5 held-out passages" in output
    assert "The solver is a script" in output.replace("\n", " ")
    assert "Nothing was trained" in output
    again = evolve(*SMALL, "--out", "out", "--trainer", "check", "--resume")
    assert "episodes\n" not in again
    assert again[again.index("Phase A") :] == output[output.index("Phase A") :]
    longer = evolve(*SMALL, "--out", "out", "--trainer", "check", "--resume", "--solver-iterations", "3")
    assert len(load("out/summary.json")["solver"]) == 3
    assert "solver 3: 8 episodes" in longer
    assert load("out/manifest.json")["scoring"] == {"solver": "extractive"}


def test_rounds_say_that_nothing_was_trained() -> None:
    output = evolve(*SMALL, "--world", "miniature", "--hops", "1", "--rounds", "1", "--test", "4", "--out", "rounds")
    assert "held-out questions" in output.replace("\n", " ") and "Nothing was trained" in output


def test_phase_a_alone_with_other_drawing_and_rewards() -> None:
    pytest.importorskip("sklearn", reason="needs the extra 'selector'")
    args = ("--draw", "selector", "--selector-set", "clusters=3", "--hops", "0:1", "--reward", "dr-zero")
    output = evolve(*SMALL, *args, "--solver-iterations", "0", "--out", "out")
    assert "Phase B" not in output
    assert load("out/manifest.json")["settings"]["selector"] == {"clusters": 3}
    metrics = load("out/proposer/iteration-1/metrics.json")
    assert set(metrics["hops"]) == {"2"}
    assert metrics["selector"]["clusters"] == 3
    assert load("out/proposer/iteration-1/rollouts/manifest.json")["config"]["reward"] == "dr-zero"


def test_passages_of_ones_own_and_a_solver_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Never:\n    def __init__(self, said='unknown'):\n        self.said = said\n"
        "    def act(self, messages, tools):\n        return f'<answer>{self.said}</answer>'\n"
    )
    rows = [
        {"id": str(i), "contents": f"Town {i}\nTown {i} lies on the River Arl{i}. It was founded in {1700 + i}."}
        for i in range(40)
    ]
    (tmp_path / "passages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ("--passages", "passages.jsonl", "--solver", "mine.py:Never", "--solver-set", "said=nobody")
    evolve(*SMALL, *args, "--out", "out")
    summary = load("out/summary.json")
    assert [iteration["solved"] for iteration in summary["proposer"]] == [0, 0]
    assert [iteration["em"] for iteration in summary["solver"]] == [0, 0]
    manifest = load("out/manifest.json")
    assert manifest["fingerprints"]["passages"] == 40
    assert manifest["settings"]["source"] == "passages"
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()


def test_a_command_trains_both(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(
        "import json, pathlib, sys\nrows = [json.loads(line) for line in open(sys.argv[1])]\n"
        "out = pathlib.Path(sys.argv[2])\n(out / 'agent.txt').write_text('quiet.py:' + rows[0]['phase'])\n"
    )
    (tmp_path / "quiet.py").write_text(
        "def proposer(messages, tools):\n    return '<question>Which?</question><answer>x</answer><evidence>x</evidence>'\n"
        "def solver(messages, tools):\n    return '<answer>quiet</answer>'\n"
    )
    command = json.dumps(["python", "fit.py", "{data}", "{out}"])
    trained = ("--trainer", "command", "--command", command, "--solver-iterations", "0")
    assert "not trained" not in (output := evolve(*SMALL, *trained, "--out", "out")) and "Nothing was" not in output
    agents = [load(f"out/proposer/iteration-{number}/rollouts/manifest.json")["agent"] for number in (1, 2)]
    assert agents == ["extractive", "proposer"]
    assert load("out/proposer/iteration-2/manifest.json")["learner"]["agent"] == "quiet.py:proposer"


def test_view_shows_the_evolution_and_its_data_set() -> None:
    evolve(*SMALL, "--out", "out")
    assert call("view", "out").strip() == "out/index.html"
    page = Path("out/index.html").read_text("ascii")
    assert "The solver is a script" in page and "Nothing was trained" in page
    for run in ("proposer/iteration-2/rollouts", "data", "data/rollouts", "solver/iteration-1/rollouts"):
        assert f'href="{run}/index.html"' in page
        assert Path("out", run, "index.html").stat().st_size > 10_000
    iteration = "out/proposer/iteration-1"
    assert call("view", iteration).strip() == f"{iteration}/rollouts/index.html"
    assert call("view", "out/data/triples.jsonl", "--out", "rows.html").strip() == "rows.html"
    assert Path("rows.html").read_bytes() == Path("out/data/index.html").read_bytes()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--hops", "many"), "--hops takes weights"),
        (("--hops", "0:0"), "hop_weights"),
        (("--passages", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--solver", "oracle"), "nothing can be learned"),
        (("--proposer", "extractiv"), "Did you mean 'extractive'"),
        (("--trainer", "chek"), "Did you mean 'check'"),
        (("--trainer", "command"), "go together"),
        (("--reward", "gaurded"), "guarded"),
        (("--held-out", "1.5"), "held_out should be less than 1"),
        (("--draw", "selector", "--selector-set", "cluster=3"), "Did you mean 'clusters'"),
        (("--passages", "one.jsonl"), "1 documents leaves"),
    ],
)
def test_impossible_arguments_are_named(args: tuple[str, ...], message: str) -> None:
    Path("one.jsonl").write_text('{"id": "1", "contents": "A town\\nThe town lies on a river."}\n')
    with pytest.raises(FactgymError, match=message):
        evolve(*SMALL, *args, "--out", "out")
    assert not list(Path("out").rglob("metrics.json"))


def test_over_real_passages(data_dir: Path) -> None:
    passages = data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json"
    small = ("--batch", "16", "--prompts", "8", "--samples", "2", "--rows", "8", "--iterations", "1")
    evolve("--passages", str(passages), *small, "--out", "out")
    summary = load("out/summary.json")
    assert load("out/manifest.json")["fingerprints"]["passages"] == 6119
    assert summary["proposer"][0]["valid"] > 0.8
    assert summary["data"]["rows"] >= 8
    assert summary["data"]["V"] > 0
    assert summary["solver"][0]["em"] > 0.2
