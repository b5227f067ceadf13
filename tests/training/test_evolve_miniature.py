"""Both evolutions in miniature: the rounds of small models from nothing, and what their controls are trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eve_evolutions import learner, small
from evolve_runs import digests

from factgym.agents.resolve import find_agent
from factgym.agents.runs.read import read_run
from factgym.benchmarks.eve.evolution import rounds_chart
from factgym.core.errors import ConfigError, DataError
from factgym.training.eve import EVE_TRAINERS, EveRounds, Learner
from factgym.training.trainer import find_trainer

LEARNING = '''
import json
from pathlib import Path

class Numbered:
    """Says how often it was trained."""

    def __init__(self, number=0):
        self.number = number

    def start(self, seed):
        return self

    def act(self, messages, tools):
        return f"<answer>{self.number}</answer>"

    def describe(self):
        return {"kind": "numbered", "number": self.number}

    async def close(self):
        pass

class Count:
    def train(self, model, dataset, folder, seed):
        number = model.describe().get("number", 0) + 1
        (Path(folder) / "number.json").write_text(json.dumps(number))
        return Numbered(number)

    def load(self, folder):
        return Numbered(json.loads((Path(folder) / "number.json").read_text()))
'''
TINY = {"size": 40, "world": "miniature", "hop_weights": (1.0,), "env_options": {"prompt": "brief", "top_k": 1}}


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def rounds(out: Path, file: Path, **changes: Any) -> EveRounds:
    """The scripted proposer, which does not learn, and a solver that is trained in every iteration."""
    file.write_text(LEARNING)
    trainer = find_trainer(f"{file}:Count", {}, EVE_TRAINERS)
    solver = Learner("solver", lambda: find_agent("extractive", "eve-solver"), trainer)
    return EveRounds(out, small(**TINY, **changes), learner("proposer", trainer="none"), solver, test=5)


def test_rounds_are_drawn_as_curves_and_viewed_one_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    measures = {"reward": 0.5, "em": 0.25, "evidence_f1": 0.75}
    trained = {"proposer": {"reward": 0.25}, "solver": {"reward": 0.5}}
    rows = [{"round": 0, "test": measures}, {"round": 1, **trained, "test": measures}]
    tested, untested = (rounds_chart(part) for part in (rows, [{"round": 1, **trained}]))
    assert "held-out" in tested and "held-out" not in untested and "proposer" in untested
    (tmp_path / "round-1").mkdir()
    with pytest.raises(DataError, match=r"give one of them, such as .*round-1"):
        read_run(tmp_path)


def test_a_round_begins_with_the_policies_that_the_one_before_left(tmp_path: Path) -> None:
    out = tmp_path / "eve"
    rounds(out, tmp_path / "mine.py").run(2, 1, 2)
    results = load(out / "rounds.json")["rounds"]
    assert [row["round"] for row in results] == [0, 1, 2]
    assert all(row["test"]["groups"] == 5 for row in results)
    # The held-out questions of round 2 are answered by the solver of its last training, its fourth.
    answers = {e["reward"]["metrics"]["answer"] for e in read_run(out / "round-2/test/rollouts").episodes()}
    assert answers == {"4"}
    first, second = (load(out / f"round-{number}/manifest.json") for number in (1, 2))
    assert second["fingerprints"] == first["fingerprints"]
    assert first["scoring"] == {}
    assert second["scoring"]["solver"]["number"] == 2
    # The splits are fixed, the draws are new.
    drawn = [(out / f"round-{number}/proposer/iteration-1/draw.jsonl").read_text() for number in (1, 2)]
    assert drawn[0] != drawn[1]
    trained = [{json.loads(line)["document"] for line in text.splitlines()} for text in drawn]
    for number in (1, 2):
        data = [json.loads(line) for line in (out / f"round-{number}/data/triples.jsonl").read_text().splitlines()]
        assert data
        assert not (trained[0] | trained[1]) & {row["meta"]["source"] for row in data}


def test_more_rounds_continue_and_end_as_at_once(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    rounds(whole, tmp_path / "mine.py").run(2, 1, 1)
    rounds(parts, tmp_path / "mine.py").run(1, 1, 1)
    rounds(parts, tmp_path / "mine.py").run(2, 1, 1, resume=True)
    assert digests(parts) == digests(whole)
    with pytest.raises(ConfigError, match="settings"):
        rounds(parts, tmp_path / "mine.py", rows=7).run(2, 1, 1, resume=True)


def test_the_control_has_rows_that_the_paper_drops(tmp_path: Path) -> None:
    counts = {}
    for select in ("valid", "all"):
        own = rounds(tmp_path / select, tmp_path / "mine.py", select=select)
        leaking = Learner("proposer", lambda: find_agent("leak", "eve-proposer"))
        EveRounds(own.out, own.settings, leaking, own.solver).run(1, 1, 0)
        counts[select] = load(tmp_path / select / "round-1/data/metrics.json")["rows"]
    assert counts["valid"] == 0 < counts["all"]


def test_held_out_questions_need_a_generated_world(tmp_path: Path) -> None:
    solver, proposer = learner("solver"), learner("proposer")
    with pytest.raises(ConfigError, match="generated world"):
        EveRounds(tmp_path, small(passages="corpus.jsonl"), proposer, solver, test=3)


@pytest.mark.filterwarnings("default")  # the frameworks' own
def test_small_models_go_through_the_rounds_of_both_loops(tmp_path: Path) -> None:
    """Random weights; the text of a tuning line is the prompt that the verifier plays under, schemas included."""
    pytest.importorskip("trl", reason="needs factgym[train]")
    from typer.testing import CliRunner

    from factgym.cli.main import app
    from factgym.training.recipes.scratch import make_model, make_tokenizer

    base = tmp_path / "base"
    tokenizer = make_tokenizer(["A claim is checked against a source.", "Is it true? Yes."], 400)
    make_model(tokenizer, 50_000, seed=1).save_pretrained(base)
    tokenizer.save_pretrained(base)

    def run(*command: str) -> None:
        result = CliRunner().invoke(app, ["evolve", *command])
        assert result.exit_code == 0, result.output

    out = tmp_path / "seva"
    claims = ["--benchmarks", "miniature-test", "--source", "miniature-train", "--size", "12", "--material", "60"]
    training = ["--trainer", "trl", "--trainer-set", "optimizer=muon", "--trainer-set", "epochs=1"]
    sizes = ["--budget", "6", "--rounds", "1", "--no-rules", "--proposer", "claims"]
    small_model = ["--agent", f"hf:{base}", "--prompt", "brief", "--agent-set", "max_tokens=4"]
    run("seva", "--arms", "weakness,claims", *small_model, *claims, *training, *sizes, "--out", str(out))
    report = load(out / "rounds.json")["rounds"]
    assert [(row["arm"], row["round"]) for row in report] == [("", 0), ("weakness", 1), ("claims", 1)]
    (episode, *_) = read_run(out / "weakness/round-1/verify/miniature-test").episodes()
    aimed, control = (
        [json.loads(line) for line in (out / arm / "round-1/train.jsonl").read_text().splitlines()]
        for arm in ("weakness", "claims")
    )
    assert len(aimed) == len(control)
    assert {row["origin"] for row in control} == {"replay"}
    assert "probe" in {row["origin"] for row in aimed}
    for row in (*aimed, *control):
        assert row["messages"][0] == episode["messages"][0]
        assert row["tools"] == episode["tools"]
    folders = (base, *(out / arm / "round-1/model" for arm in ("weakness", "claims")))
    assert len({(folder / "model.safetensors").read_bytes() for folder in folders}) == 3

    out = tmp_path / "eve"
    world = ["--world", "miniature", "--env-set", "prompt=brief", "--env-set", "max_turns=2", "--size", "24"]
    sizes = ["--batch", "2", "--prompts", "2", "--samples", "2", "--rows", "2", "--group", "2", "--hops", "1"]
    counts = ["-n", "2", "-m", "1", "--iterations", "1", "--rounds", "1", "--test", "2"]
    rate = ["--trainer-set", "learning_rate=1e-3"]  # of the solver's trainer: the other one takes no settings
    solver = [
        "--solver",
        f"hf:{base}",
        "--solver-set",
        "max_tokens=8",
        "--trainer",
        "none",
        "--solver-trainer",
        "trl",
        *rate,
    ]
    run("eve", *world, *sizes, *counts, *solver, "--out", str(out))
    assert [row["round"] for row in load(out / "rounds.json")["rounds"]] == [0, 1]
    (row, *_) = [json.loads(line) for line in (out / "round-1/solver/iteration-1/train.jsonl").read_text().splitlines()]
    assert row["completions"][0]["notes"]["prompt_ids"]
    assert load(out / "manifest.json")["solver"]["learning_rate"] == 1e-3
