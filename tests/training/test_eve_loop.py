"""EVE's two phases on disk: what each part leaves, what a trainer is handed, and that nothing is done twice."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eve_evolutions import PHASES, evolution, learner, small
from evolve_runs import digests

from factgym.agents.agent import agent_from_model
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.read import read_run
from factgym.agents.runs.schema import validate
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.policy import PolicyError
from factgym.datasets.multihop import read_triples
from factgym.training.eve import EveEvolution, Learner
from factgym.training.eve.loop import iteration_rows
from factgym.training.eve.rollouts import write_triples
from factgym.training.rollouts import RolloutError

ITERATIONS = 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evolution that nothing interrupted."""
    out = tmp_path_factory.mktemp("eve")
    evolution(out).run(ITERATIONS, ITERATIONS)
    return out


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def iterations(out: Path, phase: str) -> list[Path]:
    return [out / phase / f"iteration-{number}" for number in range(1, ITERATIONS + 1)]


def test_every_part_leaves_its_artefacts(whole: Path) -> None:
    for phase in PHASES:
        for folder in iterations(whole, phase):
            names = {path.name for path in folder.iterdir()}
            assert names == {
                *("manifest.json", "draw.jsonl", "rollouts", "train.jsonl", "model", "trained.json", "metrics.json")
            }
    names = {path.name for path in (whole / "data").iterdir()}
    assert names == {
        *("manifest.json", "rollouts", "triples.jsonl", "dropped.jsonl", "documents.jsonl", "metrics.json")
    }
    runs = [folder / "rollouts" for phase in PHASES for folder in iterations(whole, phase)]
    for folder in [*runs, whole / "data" / "rollouts"]:
        run = read_run(folder)
        assert not run.notes
        for episode in run.episodes():
            validate(episode)
            assert episode["error"] is None
    summary = load(whole / "summary.json")
    assert [len(summary[phase]) for phase in PHASES] == [ITERATIONS, ITERATIONS]
    assert summary["data"] == load(whole / "data" / "metrics.json")


def test_the_two_shards_are_kept_apart(whole: Path) -> None:
    passages = evolution(whole).passages
    assert not set(passages.training) & set(passages.held_out)
    assert {*passages.training, *passages.held_out} == set(passages.corpus.ids)
    for folder in iterations(whole, "proposer"):
        drawn = lines(folder / "draw.jsonl")
        assert len(drawn) == small().batch
        assert {row["document"] for row in drawn} <= set(passages.training)
        assert {row["hops"] for row in drawn} <= {1, 2, 3, 4}
    sources = {row["meta"]["source"] for row in lines(whole / "data" / "triples.jsonl")}
    assert sources <= set(passages.prompts(small().seed)) <= set(passages.held_out)
    first, other = (lines(folder / "draw.jsonl") for folder in iterations(whole, "proposer"))
    assert first != other


def test_hop_counts_are_drawn_in_the_ratio_of_the_weights() -> None:
    drawn = Counter(small().draw_hops(20_000, seed=1))
    assert [round(drawn[hops] / 20_000, 2) for hops in (1, 2, 3, 4)] == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=0.011)
    assert set(small(hop_weights=(0.0, 1.0)).draw_hops(50, seed=1)) == {2}


@pytest.mark.parametrize("phase", PHASES)
def test_a_trainer_is_handed_the_episodes_and_their_advantages(whole: Path, phase: str) -> None:
    for number, folder in enumerate(iterations(whole, phase), 1):
        episodes = {
            (episode["task"], episode["sample"]): episode for episode in read_run(folder / "rollouts").episodes()
        }
        rows = lines(folder / "train.jsonl")
        assert [(row["task"], row["sample"]) for row in rows] == sorted(
            episodes, key=lambda key: (episodes[key]["index"], key[1])
        )
        for row in rows:
            episode = episodes[row["task"], row["sample"]]
            reward = episode["reward"]
            assert row["messages"] == episode["messages"]
            assert row["actions"] == [i for i, entry in enumerate(episode["messages"]) if entry["role"] == "assistant"]
            assert (row["reward"], row["components"]) == (reward["total"], reward["components"])
            assert row["hops"] == reward["metrics"]["hops"]
            assert (row["phase"], row["iteration"]) == (phase, number)
            for index, start, end, _ in row["spans"]:
                assert 0 <= start <= end <= len(message_text(row["messages"][index]))
            # Credits on the messages are all of the reward.
            assert sum(span[3] for span in row["spans"]) == pytest.approx(row["reward"], abs=1e-6)
        groups = defaultdict(list)
        for row in rows:
            groups[row["hops"] if phase == "proposer" else row["task"]].append(row)
        for group in groups.values():
            assert len({row["group"] for row in group}) == 1
            rewards = np.array([row["reward"] for row in group])
            expected = np.zeros(len(group))
            if len(group) > 1 and np.ptp(rewards) > 0:
                expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + (1e-6 if phase == "proposer" else 1e-4))
            assert [row["advantage"] for row in group] == pytest.approx(expected)
        assert load(folder / "model" / "checked.json")["rows"] == len(rows)


def test_every_row_of_the_data_set_can_be_checked(whole: Path) -> None:
    corpus = evolution(whole).passages.corpus
    rollouts = {
        f"{episode['task']}#{episode['sample']}": episode
        for episode in read_run(whole / "data" / "rollouts").episodes()
    }
    rows, dropped = lines(whole / "data" / "triples.jsonl"), lines(whole / "data" / "dropped.jsonl")
    assert rows
    assert {row["id"] for row in rows} | {row["id"] for row in dropped} == set(rollouts)
    assert len(rows) + len(dropped) == len(rollouts) == small().prompts * small().samples  # type: ignore[operator]
    for row in rows:
        facts = rollouts[row["id"]]["reward"]["metrics"]
        [span] = row["evidence"]
        assert corpus.get(span["document"]).text[span["start"] : span["end"]] == span["text"]
        assert (row["question"], row["answer"], row["hops"]) == (facts["question"], facts["answer"], facts["hops_made"])
        assert row["V"] == pytest.approx(facts["plus"] - facts["minus"])
        assert facts["valid"]
    for row in dropped:
        facts = rollouts[row["id"]]["reward"]["metrics"]
        repeated = row["reason"].startswith("a row before")
        assert repeated or not facts["valid"] or facts["leak"] or facts["evidence_span"] is None
    assert len({(row["question"], row["answer"], row["evidence"][0]["text"]) for row in rows}) == len(rows)
    documents = {row["id"]: row["text"] for row in lines(whole / "data" / "documents.jsonl")}
    assert all(documents[row["evidence"][0]["document"]] for row in rows)
    assert [triple.id for triple in read_triples("triples", whole / "data" / "triples.jsonl")] == [
        row["id"] for row in rows
    ]


def test_a_leak_that_the_published_test_does_not_see_is_no_row(whole: Path, tmp_path: Path) -> None:
    episodes = list(read_run(whole / "data" / "rollouts").episodes())
    retained = {row["id"] for row in lines(whole / "data" / "triples.jsonl")}
    for episode in episodes:
        episode["reward"]["metrics"]["leak"] = True
    metrics = write_triples(tmp_path, episodes, evolution(whole).passages.corpus, None)
    assert metrics["rows"] == 0
    reasons = {row["id"]: row["reason"] for row in lines(tmp_path / "dropped.jsonl")}
    assert {reasons[name] for name in retained} == {"the question holds every word of its answer"}


def test_rows_below_the_least_value_are_left_out(whole: Path, tmp_path: Path) -> None:
    evolution(tmp_path, small(min_value=0.5)).run(ITERATIONS, 0)
    retained = {row["id"]: row["V"] for row in lines(tmp_path / "data" / "triples.jsonl")}
    every = {row["id"]: row["V"] for row in lines(whole / "data" / "triples.jsonl")}
    assert retained == {name: value for name, value in every.items() if value >= 0.5}
    assert not (tmp_path / "solver").exists()


@pytest.mark.parametrize(("total", "batch"), [(7, 3), (5, 5), (4, 9), (30, 7)])
def test_phase_b_plays_every_row_once_before_one_comes_again(total: int, batch: int) -> None:
    played: list[int] = []
    for number in range(1, 12):
        rows = iteration_rows(number, total, batch, seed=3)
        assert len(rows) == len(set(rows)) <= batch
        assert rows == iteration_rows(number, total, batch, seed=3)
        played += rows
    counts = Counter(played)
    assert set(counts) == set(range(total))
    if total % batch == 0:
        assert max(counts.values()) - min(counts.values()) <= 1
    first = {row for number in range(1, total // batch + 1) for row in iteration_rows(number, total, batch, seed=3)}
    assert len(first) == total // batch * batch or batch > total


def test_a_finished_evolution_is_not_touched_again(whole: Path) -> None:
    def times() -> dict[Path, int]:
        skipped = (".lock", "summary.json")
        return {
            path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file() and path.name not in skipped
        }

    before, summary = times(), load(whole / "summary.json")
    evolution(whole).run(ITERATIONS, ITERATIONS, resume=True)
    assert times() == before
    assert load(whole / "summary.json") == summary


def test_more_iterations_later_are_the_same_as_at_once(whole: Path, tmp_path: Path) -> None:
    evolution(tmp_path).run(ITERATIONS, 0)
    for iterations_b in range(1, ITERATIONS + 1):
        evolution(tmp_path).run(ITERATIONS, iterations_b, resume=True)
    assert digests(tmp_path) == digests(whole)
    with pytest.raises(ConfigError, match=r"written after 2 iterations of the proposer, not 3"):
        evolution(tmp_path).run(ITERATIONS + 1, ITERATIONS, resume=True)


def test_how_many_play_at_once_changes_nothing(whole: Path, tmp_path: Path) -> None:
    evolution(tmp_path, limits=Limits(concurrency=1)).run(ITERATIONS, ITERATIONS)
    assert digests(tmp_path) == digests(whole)


def test_another_evolution_in_the_folder_is_refused(whole: Path) -> None:
    with pytest.raises(ConfigError, match="already holds an evolution"):
        evolution(whole).run(ITERATIONS, ITERATIONS)
    with pytest.raises(ConfigError, match=r"settings\.m: 2 then, 3 now"):
        evolution(whole, small(m=3)).run(ITERATIONS, ITERATIONS, resume=True)
    with pytest.raises(ConfigError, match=r"proposer\.trainer"):
        evolution(whole, proposer=learner("proposer", trainer="none")).run(ITERATIONS, ITERATIONS, resume=True)
    with pytest.raises(ConfigError, match=r"fingerprints\.corpus"):
        evolution(whole, small(size=40, seed=1)).run(ITERATIONS, ITERATIONS, resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"held_out": 1.0}, "held_out should be less than 1, not 1.0"),
        ({"draw": "random"}, "draw should be 'uniform' or 'selector', not 'random'"),
        ({"batch": 0}, "batch should be at least 1"),
        ({"group": 1}, "group should be at least 2"),
        ({"n": 1}, "n should be at least 2"),
        ({"min_value": 2.0}, "min_value should be at most 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(**changes)


class Rote:
    """Answers by rote."""

    def start(self, seed: int) -> Rote:
        return self

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        return "<answer>nothing</answer>"

    def describe(self) -> dict[str, Any]:
        return {"kind": "rote"}

    async def close(self) -> None: ...


class Away(Rote):
    """Says that it is the same, and is away for some questions."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        if len(message_text(messages[-1])) % 3 == 0:
            raise PolicyError("connection", "the server is away")
        return super().act(messages, tools)


def test_a_fault_of_the_infrastructure_is_never_a_score(tmp_path: Path) -> None:
    def of(model: Rote) -> EveEvolution:
        return evolution(tmp_path, solver=Learner("solver", lambda: agent_from_model("rote", model)))

    with pytest.raises(RolloutError, match=r"of solver 1 were ended by the infrastructure .*connection.*--resume"):
        of(Away()).run(1, 1)
    folder = tmp_path / "solver" / "iteration-1"
    assert not (folder / "train.jsonl").exists()
    finished = sum(episode["error"] is None for episode in read_run(folder / "rollouts").episodes())
    assert 0 < finished < small().rows * small().group
    of(Rote()).run(1, 1, resume=True)
    metrics = load(folder / "metrics.json")
    assert metrics["episodes"] == small().rows * small().group
    assert (metrics["em"], metrics["flat"]) == (0, 1)


def test_without_a_valid_row_phase_b_has_nothing_to_play(tmp_path: Path) -> None:
    own = evolution(tmp_path, proposer=Learner("proposer", lambda: agent_from_model("rote", Rote())))
    with pytest.raises(ConfigError, match="the proposer wrote no valid row"):
        own.run(1, 1)
    metrics = load(tmp_path / "summary.json")
    assert (metrics["proposer"][0]["valid"], metrics["proposer"][0]["V"]) == (0, None)
    assert (metrics["data"]["rows"], metrics["data"]["V"], metrics["solver"]) == (0, None, [])
