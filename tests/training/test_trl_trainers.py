"""The trainers on TRL beside plain PyTorch: the same weights after two steps, and evolutions that train for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs factgym[train]")

import torch
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from factgym.agents.local import LocalModel
from factgym.agents.local.loading import LocalSettings, load
from factgym.cli.main import app
from factgym.core.errors import ConfigError, DataError
from factgym.training.recipes.scratch import make_model, make_tokenizer
from factgym.training.trainer import Dataset, open_dataset
from factgym.training.trl_trainers import FACTS, OPTIMIZER, PolicyGradientTrainer, TuningTrainer

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

LEARNING_RATE = 1e-3


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 50,000 random weights."""
    folder = tmp_path_factory.mktemp("models") / "base"
    tokenizer = make_tokenizer(["A claim is checked against a source.", "Is it true? Yes."], 400)
    make_model(tokenizer, 50_000, seed=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def rows(path: Path, episodes: list[tuple[list[tuple[list[int], list[int]]], float]]) -> Dataset:
    """A data set of episodes: (prompt, reply) of each turn, and the advantage."""

    def row(turns: list[tuple[list[int], list[int]]], advantage: float) -> dict[str, Any]:
        notes = [{"notes": {"prompt_ids": prompt, "token_ids": reply}} for prompt, reply in turns]
        return {"completions": notes, "actions": list(range(len(turns))), "advantage": advantage}

    path.write_text("".join(json.dumps(row(*episode)) + "\n" for episode in episodes))
    return open_dataset(path)


EPISODES = [
    ([([5, 6, 7], [8, 9]), ([5, 6, 7, 8, 9, 10, 11], [12])], 1.5),
    ([([20, 21], [22, 23, 24, 25])], -0.5),
    ([([30, 31, 32, 33], [34])], 0.0),
    ([([40], [41, 42, 43])], -1.0),
]


def reference(folder: Path, steps: int, max_grad_norm: float) -> Any:
    """Weights after steps of AdamW on minus the mean over all tokens of advantage · log p, reply by reply."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    replies = [(prompt, reply, advantage) for turns, advantage in EPISODES for prompt, reply in turns]
    tokens = sum(len(reply) for _, reply, _ in replies)
    for _ in range(steps):
        optimizer.zero_grad()
        for prompt, reply, advantage in replies:
            logits = model(torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            chosen = logits.gather(-1, torch.tensor(reply).unsqueeze(-1)).sum()
            (-advantage * chosen / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize(("device_batch", "max_grad_norm"), [(2, 100.0), (8, 0.01)])
def test_two_steps_are_those_of_plain_pytorch(
    base: Path, tmp_path: Path, device_batch: int, max_grad_norm: float
) -> None:
    trainer = PolicyGradientTrainer(LEARNING_RATE, max_grad_norm, device_batch, {"logprobs": True})
    dataset = rows(tmp_path / "train.jsonl", EPISODES)
    model: Any = LocalModel(base, logprobs=True)
    for step in (1, 2):
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        model = trainer.train(model, dataset, folder, 0)
        expected = reference(base, step, max_grad_norm)
        weights = load(str(folder), LocalSettings(device="cpu", dtype="float32")).model.state_dict()
        for name, value in expected.items():
            # Where a gradient is rounding noise, Adam's first step is its sign times the learning rate.
            close = torch.isclose(weights[name], value, atol=LEARNING_RATE / 20)
            assert close.float().mean() > 0.99, name
        assert (folder / OPTIMIZER).is_file()
        facts = json.loads((folder / FACTS).read_text())
        assert (facts["replies"], facts["moving"], facts["tokens"]) == (5, 4, 11)


def test_settings_of_the_agent_survive_a_step(base: Path, tmp_path: Path) -> None:
    settings = {"temperature": 0.7, "max_tokens": 33, "logprobs": True}
    trained: Any = PolicyGradientTrainer(LEARNING_RATE, agent_settings=settings).train(
        LocalModel(base, **settings), rows(tmp_path / "train.jsonl", EPISODES), tmp_path / "model", 0
    )
    described = trained.describe()
    assert {name: described[name] for name in settings} == settings
    assert described["model"] == str(tmp_path / "model")


def test_rows_that_move_nothing_return_the_same_model(base: Path, tmp_path: Path) -> None:
    model: Any = LocalModel(base)
    still = rows(tmp_path / "train.jsonl", [(turns, 0.0) for turns, _ in EPISODES])
    assert PolicyGradientTrainer().train(model, still, tmp_path / "model", 0) is model


def test_rows_without_token_ids_are_refused_with_the_fix(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"completions": null, "actions": [2], "advantage": 1.0}\n')
    model: Any = LocalModel(base)
    with pytest.raises(DataError, match=r"line 1: .*logprobs=true"):
        PolicyGradientTrainer().train(model, open_dataset(path), tmp_path / "model", 0)
    with pytest.raises(ConfigError, match="an even number from 2, not 3"):
        PolicyGradientTrainer(device_batch=3)


def test_tuning_lowers_the_loss_of_the_verdict(base: Path, tmp_path: Path) -> None:
    lines = [
        {"messages": [{"role": "user", "content": f"Claim {i}"}, {"role": "assistant", "content": "Yes. It is true."}]}
        for i in range(8)
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    trainer = TuningTrainer(1e-2, epochs=1, batch=4, device_batch=2)
    losses = []
    model: Any = LocalModel(base)
    for step in range(3):
        folder = tmp_path / f"model-{step}"
        model = trainer.train(model, open_dataset(path), folder, 0)
        losses.append(json.loads((folder / FACTS).read_text())["train_loss"])
    assert losses[0] > losses[1] > losses[2]


def test_an_evolution_trains_the_policies_that_played(base: Path, tmp_path: Path) -> None:
    """Random weights write no question, so the scripted proposer writes them and the solver's own step is played."""
    sizes = ["--size", "24", "--batch", "4", "--prompts", "3", "--samples", "2", "--rows", "2", "--group", "2"]
    counts = ["-n", "2", "-m", "1", "--iterations", "1", "--solver-iterations", "1"]
    settings = ["--solver-set", "max_tokens=8", "--solver-set", "temperature=0.9"]
    trainers = ["--trainer", "none", "--solver-trainer", "trl"]
    out = tmp_path / "eve"
    command = ["evolve", "eve", "--solver", f"hf:{base}", *trainers, *sizes, *counts, *settings, "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    folder = out / "solver" / "iteration-1"
    trained = json.loads((folder / "trained.json").read_text())
    row = json.loads((folder / "train.jsonl").read_text().splitlines()[0])
    assert row["completions"][0]["notes"]["prompt_ids"]
    # Nonsense is paid alike: then nothing is learned, and the record says so.
    assert trained["learned"] == (folder / "model" / FACTS).exists()


def test_a_scripted_agent_cannot_be_trained_by_trl(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["evolve", "eve", "--trainer", "trl", "--out", str(tmp_path / "eve")])
    assert isinstance(result.exception, ConfigError)
    assert "hf:FOLDER" in str(result.exception)
