"""The loop on disk: what each round leaves, that nothing is done twice, and that killing it changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from evolve_runs import digests, evolution, small, stopped_after_each_file
from killed_runs import kill_until_done, size_of

from factgym.agents.judges.policy import judge_from
from factgym.agents.runs.read import read_run
from factgym.agents.runs.schema import validate
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import PolicyError
from factgym.envs.seva.agents import parse_brief
from factgym.training.rollouts import RolloutError
from factgym.training.seva import ARMS, EvolveSettings
from factgym.training.seva.proposer import PolicyProposer
from factgym.training.trainer import find_trainer, open_dataset

HERE = Path(__file__).parent
ROUNDS = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evolution of all three arms that nothing interrupted."""
    out = tmp_path_factory.mktemp("evolution")
    evolution(out).run(ARMS, ROUNDS)
    return out


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_every_round_leaves_its_artefacts(whole: Path) -> None:
    for arm in ARMS:
        for number in range(1, ROUNDS + 1):
            names = {path.name for path in (whole / arm / f"round-{number}").iterdir()}
            common = {
                "manifest.json",
                "profile.json",
                "allocation.json",
                "probes.jsonl",
                "dropped.jsonl",
                "probes.json",
            }
            own = {"rules.md"} if number == 1 else {"train.jsonl", "model", "trained.json"}
            assert names == common | own | {"verify", "metrics.json"}
    for name in ("generated-validation", "generated-ood"):
        run = read_run(whole / "weakness" / "round-2" / "verify" / name)
        assert not run.notes
        for episode in run.episodes():
            validate(episode)


def test_the_allocation_is_the_algorithms(whole: Path) -> None:
    for number in range(1, ROUNDS + 1):
        folder = whole / "weakness" / f"round-{number}"
        measured = load(folder / "allocation.json")
        categories = load(folder / "profile.json")["categories"]
        weak = {
            name: Fraction(counts["seen"] - counts["right"], counts["seen"]) if counts["seen"] else Fraction(1, 2)
            for name, counts in categories.items()
        }
        for name, value in weak.items():
            exact = value / sum(weak.values()) * measured["budget"]
            assert 0 <= measured["counts"][name] - exact < 1
        probes = load(folder / "probes.json")
        assert probes["asked"] == measured["total"] == sum(measured["counts"].values())
        assert probes["made"] == probes["asked"] - sum(sum(counts.values()) for counts in probes["shortfall"].values())


def test_the_profile_is_of_the_verifier_before_and_not_of_the_measured_claims(whole: Path) -> None:
    own = evolution(whole)
    seen = sum(
        counts["seen"] for counts in load(whole / "weakness" / "round-1" / "profile.json")["categories"].values()
    )
    reflect = sum(len(benchmark.indices["reflect"]) for benchmark in own.benchmarks)
    assert 0 < seen <= reflect
    metrics = load(whole / "weakness" / "round-1" / "metrics.json")
    for benchmark in own.benchmarks:
        assert metrics["benchmarks"][benchmark.name]["tasks"] == [task.id for task in benchmark.tasks("test")]
    tasks = [task for benchmark in own.benchmarks for task in benchmark.tasks("test")]
    sources = {task.source for task in tasks}
    # Another document may make the same claim.
    reflected = {task.claim for benchmark in own.benchmarks for task in benchmark.tasks("reflect")}
    measured = {task.claim for task in tasks} - reflected
    assert measured
    for arm in ARMS:
        for number in (2, 3):
            for row in open_dataset(whole / arm / f"round-{number}" / "train.jsonl").rows():
                assert parse_brief(row["messages"]).source not in sources
        rules = (whole / arm / "round-1" / "rules.md").read_text("utf-8")
        assert not [claim for claim in measured if claim in rules]


def test_the_controls_have_the_same_budget(whole: Path) -> None:
    for number in range(1, ROUNDS + 1):
        reference = load(whole / "weakness" / f"round-{number}" / "probes.json")
        random_arm = load(whole / "random" / f"round-{number}" / "probes.json")
        assert random_arm["asked"] == reference["asked"]
        for arm in ("random", "mix"):
            assert load(whole / arm / f"round-{number}" / "probes.json")["kept"] <= reference["kept"]
        allocation = load(whole / "random" / f"round-{number}" / "allocation.json")
        assert allocation["probes"] == "random"
        assert allocation["total"] == sum(allocation["counts"].values())
    mixed = load(whole / "mix" / "round-2" / "allocation.json")["by_source"]
    assert set(mixed) == {"generated-train", "generated-validation", "generated-ood"}
    for name, n in load(whole / "mix" / "round-2" / "allocation.json")["counts"].items():
        parts = [own[name] for own in mixed.values()]
        assert sum(parts) == n
        assert max(parts) - min(parts) <= 1


def test_round_one_changes_no_parameter_and_later_rounds_do(whole: Path) -> None:
    seed = load(whole / "round-0" / "trained.json")["model"]["weights_sha256"]
    manifests = [load(whole / "weakness" / f"round-{number}" / "manifest.json") for number in (1, 2, 3)]
    assert [manifest["verifier"]["weights_sha256"] for manifest in manifests][:2] == [seed, seed]
    assert manifests[2]["verifier"]["weights_sha256"] != seed
    run = load(whole / "weakness" / "round-1" / "verify" / "generated-ood" / "manifest.json")
    assert len(run["agent_details"]["rules_sha256"]) == 64
    train = list(open_dataset(whole / "weakness" / "round-2" / "train.jsonl").rows())
    rules = (whole / "weakness" / "round-1" / "rules.md").read_text("utf-8").strip()
    assert all(row["messages"][0]["content"].endswith(rules) for row in train)
    labels = [row["label"] for row in train]
    assert labels.count("Attributable") == labels.count("Not Attributable")


def test_a_finished_evolution_is_not_touched_again(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file() and path.name != ".lock"}
    evolution(whole).run(ARMS, ROUNDS, resume=True)
    assert before == {
        path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file() and path.name != ".lock"
    }


def test_more_rounds_later_are_the_same_as_at_once(whole: Path, tmp_path: Path) -> None:
    for rounds in (1, 2, ROUNDS):
        evolution(tmp_path).run(["weakness"], rounds, resume=True)
    evolution(tmp_path).run(["random", "mix", "claims"], ROUNDS, resume=True)
    assert digests(tmp_path) == digests(whole)


def test_the_control_without_probes_has_as_many_claims_of_both_labels(whole: Path) -> None:
    for number in range(2, ROUNDS + 1):
        aimed, control = (
            [json.loads(line) for line in (whole / arm / f"round-{number}/train.jsonl").read_text().splitlines()]
            for arm in ("weakness", "claims")
        )
        assert {row["origin"] for row in control} == {"replay"}
        assert 0 < len(control) <= len(aimed)
        labels = [row["label"] for row in control]
        assert abs(2 * labels.count("Attributable") - len(labels)) <= 1
        assert load(whole / "claims" / f"round-{number}/probes.json")["asked"] == 0


def tiny() -> EvolveSettings:
    return small(benchmarks=("generated-validation",), size=24, material=40, warm_up=16, budgets=(8,))


def run_tiny(folder: Path) -> None:
    evolution(folder, tiny()).run(ARMS, ROUNDS, resume=True)


def test_killed_anywhere_and_continued_it_is_the_same(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    run_tiny(whole)
    assert kill_until_done(run_tiny, (folder,), folder, size_of(whole), seed=5) >= 3
    assert digests(folder) == digests(whole)


def test_stopped_between_any_two_files_and_continued_it_is_the_same(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "stopped"
    evolution(whole, tiny()).run(["weakness"], 2)
    for last in stopped_after_each_file(whole, folder):
        evolution(folder, tiny()).run(["weakness"], 2, resume=True)
        assert digests(folder) == digests(whole), f"stopped after {last}"


def test_the_seed_decides(whole: Path, tmp_path: Path) -> None:
    evolution(tmp_path, small(seed=1)).run(["weakness"], 1)
    first, other = (load(folder / "weakness" / "round-1" / "manifest.json") for folder in (whole, tmp_path))
    assert first["seeds"] != other["seeds"]
    assert digests(tmp_path)["weakness/round-1/probes.jsonl"] != digests(whole)["weakness/round-1/probes.jsonl"]


def test_another_evolution_in_the_folder_is_refused(whole: Path) -> None:
    with pytest.raises(ConfigError, match="already holds an evolution"):
        evolution(whole).run(["weakness"], 1)
    with pytest.raises(ConfigError, match=r"settings\.replay: 1\.0 then, 2\.0 now"):
        evolution(whole, small(replay=2.0)).run(["weakness"], 1, resume=True)
    with pytest.raises(ConfigError, match=r"trainer\.pull"):
        evolution(whole, trainer=find_trainer("features", {"pull": 9.0})).run(["weakness"], 1, resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"benchmarks": ("fevr",)}, "did you mean 'fever'"),
        ({"benchmarks": ()}, "needs a benchmark"),
        ({"budgets": (10, 0)}, "at least 1"),
        ({"mix": {"fever": Fraction(-1)}}, "must not be negative"),
        ({"replay": -1.0}, "replay should be at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?i){message}"):
        small(**changes)


def test_a_budget_schedule_holds_its_last_number() -> None:
    assert [EvolveSettings(budgets=(5, 7)).budget(number) for number in (1, 2, 3, 9)] == [5, 7, 7, 7]


class Flaky:
    """Fails on one claim as a server does, and tells more of itself once it has played."""

    played = False

    def __init__(self, failing_on: str | None = None) -> None:
        self.failing_on = failing_on

    def start(self, seed: int) -> Flaky:
        return self

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        self.played = True
        if self.failing_on is not None and self.failing_on in (messages[-1]["content"] or ""):
            raise PolicyError("connection", "the server is away")
        return json.dumps({"label": "Attributable", "confidence": 0.5})

    def describe(self) -> dict[str, Any]:
        return {"kind": "flaky", "found": "out"} if self.played else {"kind": "flaky"}

    async def close(self) -> None: ...


def test_a_fault_of_the_infrastructure_is_never_measured(tmp_path: Path) -> None:
    claim = evolution(tmp_path).benchmarks[1].tasks("test")[3].claim
    own = evolution(tmp_path, small(warm_up=0), start=lambda: Flaky(claim))
    other = evolution(tmp_path, small(warm_up=0), start=Flaky)
    with pytest.raises(RolloutError, match=r"ended by the infrastructure .*connection.*--resume"):
        own.run(["weakness"], 1)
    assert not (tmp_path / "round-0" / "metrics.json").exists()
    other.run(["weakness"], 1, resume=True)
    measured = load(tmp_path / "round-0" / "metrics.json")["benchmarks"]["generated-validation"]
    assert measured["n"] == len(measured["said"]) == len(measured["tasks"])
    assert None not in measured["said"]


class Proposing:
    """A model that answers a proposer's and a judge's prompt by rote."""

    def start(self, seed: int) -> Proposing:
        return self

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        name = tools[0]["function"]["name"]
        text = (
            {"claim": "Nobody on the moon agrees."}
            if name == "submit_probe"
            else {"label": "wrong-type", "reason": "no"}
        )
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(text)}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}  # type: ignore[list-item]

    def describe(self) -> dict[str, Any]:
        return {"kind": "rote", "model": "one"}

    async def close(self) -> None: ...


def test_a_model_may_propose_and_another_judge(tmp_path: Path) -> None:
    own = evolution(
        tmp_path,
        small(size=60, material=90, warm_up=50, budgets=(24,)),
        proposer=PolicyProposer(Proposing(), retries=0),
        judge=judge_from(Proposing(), "probe-check"),
    )
    own.run(["weakness"], 1)
    folder = tmp_path / "weakness" / "round-1"
    report = load(folder / "probes.json")
    dropped = [json.loads(line) for line in (folder / "dropped.jsonl").read_text().splitlines()]
    assert report["asked"] >= 24
    assert len(dropped) == report["asked"]
    assert report["kept"] == 0
    assert not report["cross_check"].get("judge", {}).get("stand_in", True)
    assert {row["stage"] for row in dropped} <= {"proposer", "cross-check"}
    assert all(row["reason"] for row in dropped)
    with pytest.raises(ConfigError, match="no probe was left to train on"):
        own.run(["weakness"], 2, resume=True)


def test_on_real_data(data_dir: Path, tmp_path: Path) -> None:
    """Three rounds of all arms over the four benchmarks of the paper's tables."""
    own = EvolveSettings(
        benchmarks=("clearfacts", "fever", "truthfulqa", "halueval"),
        source="anli",
        mix=dict.fromkeys(("anli", "fever", "halueval"), Fraction(1)),
        path=str(data_dir),
        size=32,
        material=100,
        warm_up=60,
        budgets=(40,),
    )
    evolution(tmp_path, own).run(ARMS, ROUNDS)
    for arm in ARMS:
        metrics = load(tmp_path / arm / "round-3" / "metrics.json")
        assert set(metrics["benchmarks"]) == set(own.benchmarks)
        assert all(scores["format_ok"] > 0.9 for scores in metrics["benchmarks"].values())
        assert (metrics["probes"]["kept"] >= 20) == (arm != "claims")
    report = load(tmp_path / "weakness" / "round-1" / "probes.json")
    assert report["cross_check"]["judge"]["stand_in"]
    assert set(report["by_source"]) == {"anli"}
    rules = (tmp_path / "weakness" / "round-1" / "rules.md").read_text("utf-8")
    assert rules.count("\n- ") >= 3
    changed = [(tmp_path / arm / "round-3" / "model" / "verifier.json").read_bytes() for arm in ARMS]
    assert len(set(changed)) == len(ARMS)
