"""Trainers of EVE's loop: a user's own that changes who plays, one that checks its rows, and the selector's feedback."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from eve_evolutions import evolution, learner, small
from evolve_runs import digests

from factgym.agents.agent import agent_from_model
from factgym.agents.resolve import find_agent
from factgym.agents.runs.read import read_run
from factgym.core.errors import ConfigError, DataError
from factgym.core.messages import Message, ToolSchema
from factgym.training.eve import EVE_TRAINERS, Checked, Learner
from factgym.training.eve.rollouts import Row
from factgym.training.trainer import find_trainer, open_dataset

OWN = '''
import json
from pathlib import Path

class Answering:
    """Learns the answer that had the highest advantage so far, and gives it ever after."""

    def __init__(self, answer="unknown", seen=0):
        self.answer, self.seen = answer, seen

    def start(self, seed):
        return self

    def act(self, messages, tools):
        return f"<answer>{self.answer}</answer>"

    def describe(self):
        return {"kind": "answering", "answer": self.answer, "seen": self.seen}

    async def close(self):
        pass

class Best:
    async def train(self, model, dataset, folder, seed):
        rows = list(dataset.rows())
        assert model.describe()["agent" if model.describe().get("agent") else "kind"]
        best = max(rows, key=lambda row: (row["advantage"], row["task"]))
        found = {"answer": best["task"], "seen": len(rows)}
        (Path(folder) / "answer.json").write_text(json.dumps(found))
        return Answering(**found)

    def load(self, folder):
        return Answering(**json.loads((Path(folder) / "answer.json").read_text()))
'''


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_the_trained_model_plays_the_next_iteration(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)

    def own(out: Path) -> Any:
        trainer = find_trainer(f"{file}:Best", {}, EVE_TRAINERS)
        solver = Learner("solver", lambda: find_agent("extractive", "eve-solver"), trainer)
        return evolution(out, solver=solver)

    own(tmp_path / "once").run(1, 3)
    folders = [tmp_path / "once" / "solver" / f"iteration-{number}" for number in (1, 2, 3)]
    assert load(folders[0] / "manifest.json")["learner"] == "as it was given"
    for before, folder in itertools.pairwise(folders):
        made = load(before / "trained.json")["model"]
        assert load(folder / "manifest.json")["learner"] == made
        answers = {episode["reward"]["metrics"]["answer"] for episode in read_run(folder / "rollouts").episodes()}
        assert answers == {made["answer"]}
    for iterations in (1, 2, 3):  # each call opens what the one before left
        own(tmp_path / "often").run(1, iterations, resume=True)
    assert digests(tmp_path / "often") == digests(tmp_path / "once")


def row(**changes: Any) -> Row:
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "yes"}]
    own = {"phase": "solver", "messages": messages, "actions": [1], "group": "a", "reward": 1.0, "advantage": 0.0}
    return {**own, "spans": [[1, 0, 3, 1.0]], **changes}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(actions=[])], "line 1: the policy wrote no message"),
        ([row(), row(actions=[0])], "line 2: message 0 is not the policy's"),
        ([row(reward=float("nan"))], "the reward is nan"),
        ([row(spans=[[1, 0, 4, 1.0]])], "a credit lies outside"),
        ([row(phase="judge")], "no phase is called 'judge'"),
        ([row(advantage=0.5), row(reward=0.0, advantage=0.5)], "the advantages sum to 1"),
        ([row(advantage=0.5), row(advantage=-0.5)], "equal rewards have different advantages"),
    ],
)
def test_the_checking_trainer_refuses_rows_that_nothing_can_learn_from(
    rows: list[Row], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=message):
        Checked().train(Silent(), open_dataset(path), tmp_path, 0)
    path.write_text(json.dumps(row()) + "\n")
    model = Silent()
    assert Checked().train(model, open_dataset(path), tmp_path, 0) is model
    assert load(tmp_path / "checked.json") == {"rows": 1, "groups": 1, "actions": 1, "moving": 0}


class Silent:
    """Says nothing; and counts how often it was opened and closed."""

    opened = closed = 0

    def start(self, seed: int) -> Silent:
        return self

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        return "nothing"

    def describe(self) -> dict[str, Any]:
        return {"kind": "silent"}

    async def prepare(self) -> None:
        Silent.opened += 1

    async def close(self) -> None:
        Silent.closed += 1


@pytest.mark.parametrize("trainer", ["none", "check"])
def test_a_learner_is_closed_before_training_and_at_the_end(trainer: str, tmp_path: Path) -> None:
    Silent.opened = Silent.closed = 0
    optimiser = find_trainer(trainer, {}, EVE_TRAINERS)
    solver = Learner("solver", lambda: agent_from_model("silent", Silent()), optimiser)
    evolution(tmp_path, solver=solver).run(1, 2)
    assert Silent.opened == (1 if trainer == "none" else 3)
    assert Silent.closed == Silent.opened + 1  # one was opened for the manifest alone, and not prepared
    assert (tmp_path / "solver" / "iteration-1" / "trained.json").exists() == (trainer == "check")


def test_unknown_trainers_are_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'check'"):
        learner("solver", trainer="chek")


def test_the_selector_draws_before_and_is_updated_after(tmp_path: Path) -> None:
    """What is on disk is what the selector does by itself, when it is given the same facts."""
    pytest.importorskip("sklearn", reason="needs the extra 'selector'")
    from factgym.core.seeds import derive
    from factgym.training.eve.selector import Selector, SelectorSettings, corpus_embeddings, run_reward

    options = {"clusters": 4, "growth": 1.5}
    own = evolution(tmp_path, small(draw="selector", selector=options))
    own.run(3, 0)
    passages = own.passages
    vectors = corpus_embeddings(passages.corpus.get(document) for document in passages.training)
    settings = SelectorSettings(**options)  # type: ignore[arg-type]
    expected = Selector(vectors, passages.training, settings=settings, seed=derive(0, "selector"))
    for number in (1, 2, 3):
        folder = tmp_path / "proposer" / f"iteration-{number}"
        choices = expected.draw(small().batch)
        drawn = [json.loads(line) for line in (folder / "draw.jsonl").read_text().splitlines()]
        assert [(row["document"], row["cluster"], row["task_type"]) for row in drawn] == choices
        episodes = sorted(read_run(folder / "rollouts").episodes(), key=lambda episode: episode["index"])
        facts = [episode["reward"]["metrics"] for episode in episodes]
        assert [fact["task_type"] for fact in facts] == [choice.task_type for choice in choices]
        rows = [
            {**fact, "cluster": choice.cluster, "task_type": choice.task_type}
            for fact, choice in zip(facts, choices, strict=True)
            if fact["valid"]
        ]
        rewards = [episode["reward"]["total"] for episode in episodes]
        solved = [fact["k"] / fact["n"] for fact in facts if fact["valid"]]
        score = run_reward(sum(rewards) / len(rewards), sum(solved) / len(solved))
        assert load(folder / "metrics.json")["selector"]["run_score"] == pytest.approx(score, abs=1e-5)
        expected.feedback(rows, load(folder / "metrics.json")["selector"]["run_score"])
        assert load(folder / "selector.json") == json.loads(json.dumps(expected.state()))
