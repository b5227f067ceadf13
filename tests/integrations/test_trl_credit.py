"""Span credits as advantages of tokens, in a real GRPOTrainer and piece by piece."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs factgym[trl]")

import trl
from tiny_tokens import own_split
from tiny_trl import Dense, Hops, Stepwise, corver_scripts, oracle, tokenizer, trained

from factgym.core.errors import ConfigError
from factgym.core.messages import message_text
from factgym.integrations.trl import dataset
from factgym.integrations.trl.trainer import _RolloutLoop
from factgym.rewards.advantages import group_advantages
from factgym.rewards.corver.tokens import group_returns

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def test_grpo_adds_the_credit_of_the_spans_to_trls_advantage(tmp_path: Path) -> None:
    env_id = "claimcheck-multihop"
    script = oracle(env_id, 0)
    scripts = [script, script[-1:]]  # the second submits what it never read
    trainer = trained(Dense, env_id, scripts, tmp_path)
    batch, log = trainer.batch, trainer.state.log_history[0]
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool().numpy()
    advantages = batch["advantages"].numpy()
    assert advantages.shape == mask.shape
    assert not advantages[~mask].any()
    assert log["grad_norm"] > 0
    rewards = [env.session.reward for env in trainer.environments]
    base = group_advantages(rewards)
    sums, weights = [], []
    for n, env in enumerate(trainer.environments):
        messages = env.session.messages
        credit = np.zeros(mask.shape[1])
        for span in env.session.spans:
            credited = message_text(messages[span.message])[span.start : span.end]
            (turn,) = [turn for turn in env.turns if turn.index == span.message]
            begins = turn.text.find(credited)
            for t in range(len(turn.ids)):  # where the token's middle is, from what the tokens before it say
                low, high = (len(tokenizer().decode(turn.ids[:k], skip_special_tokens=True)) for k in (t, t + 1))
                whole_text = span.start == 0 and span.end == len(message_text(messages[span.message]))
                inside = begins <= (low + high) / 2 < begins + len(credited) and low < high
                credit[turn.first + t] += span.value * (whole_text or inside)
        sums.append(credit)
        weights.append(credit[mask[n]].mean())
    for n in range(2):
        expected = base[n] + 0.5 * (sums[n] - np.mean(weights))
        assert advantages[n][mask[n]] == pytest.approx(expected[mask[n]], abs=1e-4)
    assert len(set(np.round(advantages[0][mask[0]], 4))) > 2  # not the same for the whole completion


def test_stepwise_is_corvers_own_form(tmp_path: Path) -> None:
    trainer = trained(Stepwise, "corver-qa", corver_scripts(), tmp_path)
    scores, offsets = [], []
    for env in trainer.environments:
        core = env.session.env
        index, completion, score = core.scored()
        assert index >= 0
        scores.append(score)
        encoded = tokenizer()(completion.text, return_offsets_mapping=True, add_special_tokens=False)
        offsets.append([*encoded["offset_mapping"], (0, 0)])  # the end token
    reference = group_returns(scores, offsets, trainer.environments[0].session.env.config.rubric)
    assert not reference.fallback[0]
    advantages = trainer.batch["advantages"].numpy()
    assert advantages == pytest.approx(reference.advantages, abs=1e-4)
    assert len(set(np.round(advantages[3][reference.mask[3]], 4))) > 2
    assert trainer.state.log_history[0]["grad_norm"] > 0


def test_the_mean_return_of_the_tokens_is_the_reward(tmp_path: Path) -> None:
    """So stepwise advantages average to GRPO's, whatever the environment."""
    script = oracle("claimcheck-multihop", 0)
    trainer = trained(Stepwise, "claimcheck-multihop", [script, script[-1:]], tmp_path)
    batch = trainer.batch
    mask = (batch["completion_mask"] * batch["tool_mask"]).numpy()
    means = (batch["advantages"].numpy() * mask).sum(axis=1) / mask.sum(axis=1)
    assert means == pytest.approx(group_advantages([env.session.reward for env in trainer.environments]), abs=1e-3)


def test_hrpo_compares_within_a_column_of_the_rows(tmp_path: Path) -> None:
    rows = dataset("corver-qa", limit=2, **own_split("corver-qa")).add_column("hops", [1, 1])
    scripts = [corver_scripts()[0], corver_scripts()[1], oracle("corver-qa", 1), oracle("corver-qa", 1)]
    trainer = trained(Hops, "corver-qa", scripts, tmp_path, rows=rows, num_generations=2)
    rewards = [env.session.reward for env in trainer.environments]
    mask = trainer.batch["completion_mask"].bool().numpy()
    expected = group_advantages(rewards)
    assert expected[2] != 0  # within its own task's group it would be
    for n, value in enumerate(expected):
        assert trainer.batch["advantages"][n].numpy()[mask[n]] == pytest.approx(value, abs=1e-4)
    with pytest.raises(ConfigError, match="column 'hops'"):
        trained(
            Hops,
            "corver-qa",
            scripts,
            tmp_path,
            rows=dataset("corver-qa", limit=2, **own_split("corver-qa")),
            num_generations=2,
        )


@pytest.mark.parametrize("template", ["qwen2_5", "qwen3", "qwen3_instruct_2507", "llama3_1"])
def test_a_user_message_is_appended_as_the_template_writes_it(template: str) -> None:
    """What a template has between an assistant's message and the head of the next, a user's message in between."""
    tok = copy.deepcopy(tokenizer())
    end = "<|eot_id|>" if template.startswith("llama") else "<|im_end|>"
    tok.add_special_tokens({"eos_token": end})
    tok.chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja").read_text("utf-8")
    chat: Any = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "said"}]
    question: Any = {"role": "user", "content": "Error (no_tool_call): Call a tool."}
    trainer = SimpleNamespace(
        _tokenizer=tok,
        processing_class=tok,
        chat_template=None,
        chat_template_kwargs={},
        max_completion_length=1,
        max_tool_calling_iterations=1,
        use_vllm=False,
        model=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=1)),
        _generate_single_turn=lambda prompt_ids, images, multimodal_fields: None,
    )
    suffix = tok.decode(_RolloutLoop(trainer)._suffix([question]))
    full = tok.apply_chat_template([*chat, question], tokenize=False, add_generation_prompt=True)
    assert full.endswith(f"said{end}{suffix}")
    assert question["content"] in suffix


def test_several_processes_compare_their_completions_as_one_batch(tmp_path: Path) -> None:
    """A group of four over two processes: each trains on the advantages that one process would have had."""
    script = Path(__file__).with_name("tiny_trl.py")
    advantages = []
    for count in (1, 2):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
        words = [sys.executable, *launch, str(script), str(tmp_path)]
        paths = [str(script.parent), str(script.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        parts = [json.loads((tmp_path / f"{count}-{rank}.json").read_text("utf-8")) for rank in range(count)]
        advantages.append({form: [row for part in parts for row in part[form]] for form in parts[0]})
    assert advantages[0].keys() == advantages[1].keys() == {"hrpo", "stepwise"}
    for form, rows in advantages[0].items():
        assert len(rows) == 4
        for row, two in zip(rows, advantages[1][form], strict=True):
            assert two == pytest.approx(row, abs=1e-5)
