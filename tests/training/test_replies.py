"""GRPO on replies: a step beside plain PyTorch, prompts beside the environment's own, and runs that are continued."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs factgym[train]")
pytest.importorskip("peft", reason="needs factgym[train]")

import torch
from transformers import AutoModelForCausalLM

import factgym
from factgym.core.errors import ConfigError
from factgym.rewards.advantages import group_advantages
from factgym.training.recipes import stages
from factgym.training.recipes.recipe import Recipe, recipe_of
from factgym.training.recipes.run import read_metrics, train
from factgym.training.recipes.scratch import make_model, make_tokenizer
from factgym.training.replies import GroupRollouts

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

CONFIG = {"world": "miniature", "prompt": "brief", "max_questions": 1, "max_turns": 4, "reward": "process"}
SFT = {"kind": "sft", "tasks": 8, "steps": 6, "batch": 8, "learning_rate": 1e-2, "warmup_steps": 1}
GRPO = {
    "kind": "grpo", "tasks": 4, "steps": 2, "groups": 2, "samples": 2, "max_completion": 12, "save_every": 1,
    "learning_rate": 1e-3, "warmup_steps": 0, "device_batch": 4,
}  # fmt: skip


def recipe(stage_list: list[dict[str, Any]], **values: Any) -> Recipe:
    evaluation = {"every": 0, "test_tasks": 2, "max_tokens": 12}
    settings = {"model": "scratch:50k", "env": "profact", "env_config": CONFIG, "evaluation": evaluation, "threads": 1}
    return recipe_of({**settings, "stages": stage_list, **values})


def rollouts(indices: list[int], groups: int) -> GroupRollouts:
    return GroupRollouts(factgym.make("profact", **CONFIG), indices, groups, 2, 3, 1.0, 8)


def test_each_pass_has_every_task_as_often_and_no_step_has_one_twice() -> None:
    plan = rollouts(list(range(10, 22)), 4)
    steps = [plan.tasks(step) for step in range(9)]
    assert all(len(set(tasks)) == 4 for tasks in steps)
    for first in (0, 3, 6):
        assert sorted(task for tasks in steps[first : first + 3] for task in tasks) == list(range(10, 22))
    assert steps[:3] != steps[3:6]
    assert Counter(rollouts([5, 6], 4).tasks(0)) == {5: 2, 6: 2}


def test_a_step_is_that_of_plain_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minus the mean over all tokens of advantage · log p, reply by reply, with AdamW: no code of a trainer's."""
    tokenizer = make_tokenizer(["A claim is checked against a source.", "Is it true? Yes."], 400)
    base = tmp_path / "base"
    make_model(tokenizer, 50_000, seed=1).save_pretrained(base)
    tokenizer.save_pretrained(base)
    played = [
        (1.0, [([5, 6, 7], [8, 9]), ([20, 21], [12, 13, 14])]),
        (0.0, [([20, 21], [22, 23, 24, 25])]),
        (2.5, [([40, 41, 42], [43]), ([3, 4], [5, 6]), ([9], [10])]),
        (0.5, [([30, 31, 32, 33], [34])]),
    ]

    def turn(prompt: list[int], reply: list[int]) -> dict[str, Any]:
        return {"completion": {"notes": {"prompt_ids": prompt, "token_ids": reply}, "finish_reason": "stop"}}

    group = [
        {"reward": {"total": total, "components": {"verdict": total}}, "turns": [turn(*pair) for pair in turns]}
        for total, turns in played
    ]
    monkeypatch.setattr(GroupRollouts, "play", lambda self, loaded, step: [group])
    stage = {**GRPO, "groups": 1, "samples": 4, "steps": 1, "max_completion": 8, "keep_episodes": False}
    options = recipe([stage], model=str(base))
    run = stages.StageRun(
        options, options.stages[0], factgym.make("profact", split="train", **CONFIG), CONFIG, [0], tmp_path, str(base)
    )
    logged: list[dict[str, Any]] = []
    stages.run_stage(run, lambda step, metrics: logged.append(metrics), lambda step, loaded: None)

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    tokens = sum(len(reply) for _, turns in played for _, reply in turns)
    advantages = group_advantages([total for total, _ in played])
    for advantage, (_, turns) in zip(advantages, played, strict=True):
        for prompt, reply in turns:
            logits = model(torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            chosen = logits.gather(-1, torch.tensor(reply).unsqueeze(-1)).sum()
            (-float(advantage) * chosen / tokens).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32).state_dict()
    for name, value in model.state_dict().items():
        # Where a gradient is rounding noise, Adam's first step is its sign times the learning rate.
        assert torch.isclose(trained[name], value, atol=1e-3 / 20).float().mean() > 0.99, name
    assert logged[0]["reward"] == 1.0
    assert logged[0]["components"] == {"verdict": 1.0}
    assert (logged[0]["zero_signal"], logged[0]["length_max"], logged[0]["turns"]) == (0.0, 5.0, 1.75)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A run with the KL divergence, and the episodes of its steps."""
    folder, groups = tmp_path_factory.mktemp("run") / "run", []
    play = GroupRollouts.play

    def recorded(self: GroupRollouts, loaded: Any, step: int) -> Any:
        groups.append(play(self, loaded, step))
        return groups[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupRollouts, "play", recorded)
        train(recipe([SFT, {**GRPO, "beta": 0.1}]), folder)
    return folder, groups


def test_prompts_are_those_that_the_environment_shows(finished: tuple[Path, list[Any]]) -> None:
    from transformers import AutoTokenizer

    folder, steps = finished
    tokenizer = AutoTokenizer.from_pretrained(folder / "stages" / "1-grpo" / "model")
    env = factgym.make("profact", split="train", **CONFIG)
    replies = 0
    for episode in [episode for groups in steps for group in groups for episode in group]:
        env.reset(options={"task": episode["task"]})
        for turn in episode["turns"]:
            expected = tokenizer.apply_chat_template(
                env.policy_prompt(), tools=list(env.available_tools()), add_generation_prompt=True, return_dict=False
            )
            assert list(turn["completion"]["notes"]["prompt_ids"]) == list(expected)
            env.step(episode["messages"][turn["message"]])
            replies += 1
    assert len(steps) == 2
    assert replies >= 8


def test_a_run_that_is_continued_has_the_same_curve(finished: tuple[Path, list[Any]]) -> None:
    folder, _ = finished
    before = [line for line in read_metrics(folder) if line["stage"] == 1 and "evaluation" not in line]
    assert [line["step"] for line in before] == [1, 2]
    assert all(line["kl"] >= 0 and line["turns"] >= 1 for line in before)
    stage = folder / "stages" / "1-grpo"
    shutil.rmtree(stage / "checkpoints" / "checkpoint-2")
    shutil.rmtree(stage / "model")
    shutil.rmtree(folder / "evaluations" / "test" / "1-grpo")
    (stage / "finished.json").unlink()
    train(recipe([SFT, {**GRPO, "beta": 0.1}]), folder)
    after = [line for line in read_metrics(folder) if line["stage"] == 1 and "evaluation" not in line]
    for first, second in zip(before, after, strict=True):
        for name in ("reward", "length", "loss", "entropy", "kl"):
            assert second[name] == pytest.approx(first[name], rel=1e-4, abs=1e-6), name


def test_credit_of_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its credit is 'scalar'"):
        train(recipe([{**GRPO, "credit": "grpo"}]), tmp_path / "run")
