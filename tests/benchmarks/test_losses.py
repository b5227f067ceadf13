"""Lost episodes beside scored ones: the estimates against SciPy, and the notices of whole runs."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from recorded_runs import recorded, write_run
from scipy import stats
from typer.testing import CliRunner

from factgym.agents.runs.read import read_run
from factgym.benchmarks.benchmark import Request, find_benchmark
from factgym.benchmarks.losses import find_losses, mean_lengths, stratum_p_value
from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.viewer.page import write_page
from factgym.cli.main import app

FAULT = {"cause": "server", "message": "HTTP 500"}
TURN = {"message": 0, "calls": [], "observation": "", "error": None}


def run(loss, n=300, seed=0):
    """Episodes of 1 to 8 turns; `loss(rng, label, turns)` says in which turn one is lost, or None."""
    rng, episodes = random.Random(seed), []
    for number in range(n):
        label, length = rng.choice(("supported", "contradicted")), rng.choice((1, 2, 3, 5, 8))
        turns = loss(rng, label, length)
        view = {"question": "?" * rng.randrange(10, 200), "gold": {"verdict": label}}
        metrics = {"gold_verdict": label, "verdict": "supported"}
        error = None if turns is None else FAULT
        episode = recorded("claimcheck-multihop", f"t-{number}", 0, 0.5, {"json": 1.0}, metrics, view, error)
        episode["turns"] = [TURN] * (length if turns is None else turns)
        episode["messages"] = [{"role": "assistant", "content": "x"}]
        episodes.append(episode)
    return episodes


def at_each_request(rng, label, turns):
    return next((turn for turn in range(turns) if rng.random() < 0.08), None)


def before_the_first(rng, label, turns):
    return 0 if rng.random() < 0.2 else None


def of_one_label(rng, label, turns):
    return 0 if rng.random() < (0.3 if label == "contradicted" else 0.05) else None


@pytest.mark.parametrize("seed", range(5))
def test_mean_lengths_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    turns, lost = rng.integers(0, 9, 60), rng.random(60) < 0.3
    turns[~lost] += 1
    turns[np.argmax(turns)], lost[np.argmax(turns)] = 9, False
    sums = np.zeros(20)
    np.add.at(sums, 10 * lost + turns, 1)
    scored, estimated = mean_lengths(sums)
    survival = stats.ecdf(stats.CensoredData(uncensored=turns[~lost], right=turns[lost])).sf
    assert scored == pytest.approx(turns[~lost].mean())
    assert estimated == pytest.approx(survival.evaluate(np.arange(9)).sum())


def test_the_permutation_test_is_near_fishers_exact_test():
    for right, wrong in ((30, 14), (22, 18), (20, 20)):
        lost = np.array([1.0] * right + [0.0] * (100 - right) + [1.0] * wrong + [0.0] * (100 - wrong))
        p = stratum_p_value(lost, np.ones(200), ["a"] * 100 + ["b"] * 100)
        exact = stats.fisher_exact([[right, 100 - right], [wrong, 100 - wrong]]).pvalue
        assert p == pytest.approx(exact, abs=0.03)


def test_samples_of_one_task_are_no_evidence_of_their_own():
    """Ten tasks, one of which lost its thirty samples: a test over episodes would give p < 1e-9."""
    lost, totals = np.array([30.0] + [0.0] * 9), np.full(10, 30.0)
    assert stratum_p_value(lost, totals, ["a"] * 5 + ["b"] * 5) > 0.5


def test_faults_of_single_requests_lose_long_episodes():
    episodes = run(at_each_request, n=2000)
    losses = find_losses(episodes)
    assert losses.length.differs
    true_mean = np.mean([1, 2, 3, 5, 8])
    assert abs(losses.length.estimated - true_mean) < abs(losses.length.scored - true_mean) / 2
    (sentence,) = losses.sentences()
    assert "longer" in sentence


def test_losses_of_one_label_are_named():
    losses = find_losses(run(of_one_label))
    (sentence,) = losses.sentences()
    assert "gold verdict" in sentence and "'contradicted'" in sentence
    (stratum,) = (stratum for stratum in losses.strata if stratum.differs)
    assert sum(n for _, n in stratum.lost.values()) == 300
    assert sum(n for n, _ in stratum.lost.values()) == losses.lost


@pytest.mark.parametrize("seed", range(8))
def test_losses_by_chance_are_not_named(seed):
    losses = find_losses(run(before_the_first, n=120, seed=seed))
    assert losses.lost and not losses.differ and not list(losses.sentences())


def test_nothing_lost_or_nothing_scored_has_no_comparison():
    assert find_losses(run(lambda *_: None, n=3)) is None
    assert find_losses(run(lambda *_: 0, n=3)) is None
    assert summarise(run(lambda *_: None, n=3)).to_dict()["losses"] is None


def test_terminal_page_comparison_and_benchmark_say_so(tmp_path):
    folder = write_run(tmp_path / "run", run(at_each_request), "claimcheck-multihop")
    page = write_page(folder).read_text("utf-8")
    assert "Lost episodes are longer" in page
    result = CliRunner().invoke(app, ["compare", str(folder), str(folder), "--json", str(tmp_path / "c.json")])
    assert "Lost episodes are longer" in " ".join(result.output.split())
    assert json.loads((tmp_path / "c.json").read_text())["."]["losses"][0]["differ"]
    outcome = find_benchmark("claimcheck").run(Request(runs=(folder,)))
    assert any("Lost episodes are longer" in note for note in outcome.notes)
    assert outcome.numbers[0]["losses"]["differ"]


FLAKY = '''
class Flaky:
    """Fails in its last turn wherever the task is long; otherwise answers."""

    def act(self, messages, tools):
        if len(str(messages[1])) % 2:
            raise RuntimeError("no such luck")
        return "no call"
'''


def test_eval_writes_its_numbers(tmp_path):
    (tmp_path / "flaky.py").write_text(FLAKY)
    command = ["eval", "claimcheck-mini", "--split", "train", "--agent", f"{tmp_path}/flaky.py:Flaky", "-n", "40"]
    command += ["--max-errors", "0", "--out", str(tmp_path / "run"), "--json", str(tmp_path / "n.json")]
    assert CliRunner().invoke(app, command).exit_code == 0
    numbers = json.loads((tmp_path / "n.json").read_text())
    losses = numbers["losses"]
    assert losses["lost"] == numbers["errors"] > 0
    assert read_run(tmp_path / "run").failed == numbers["errors"]
    assert {"gold verdict", "length of the task's texts"} <= {stratum["name"] for stratum in losses["strata"]}
