"""Token rewards and the registered estimators: the same advantages as the shared forms, and sums that verl expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs factgym[verl]")

import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_verl import contexts_of, oracle, played, row_of, tokenizer, written
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

from factgym.core.errors import ConfigError
from factgym.core.messages import message_text
from factgym.integrations import verl as integration
from factgym.integrations.credit import TokenCredit
from factgym.integrations.session import Session
from factgym.integrations.verl.advantages import SCALE, TAIL, Layout, decode_row, form_of
from factgym.rewards.advantages import group_advantages
from factgym.rewards.corver.score import score_completion
from factgym.rewards.corver.tokens import group_returns

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def padded(outs: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token rewards and mask of rows, as the trainer pads them."""
    rows = [context.as_dict() for out in outs for context in contexts_of(out)]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad([row["rm_scores"] for row in rows], batch_first=True), pad(
        [row["response_mask"] for row in rows], batch_first=True
    )


def estimated(name: str, outs: list[Any], index: list[str], config: Any = None) -> np.ndarray:
    rewards, mask = padded(outs)
    advantages, returns = get_adv_estimator_fn(name)(
        token_level_rewards=rewards, response_mask=mask, index=np.array(index, dtype=object), config=config
    )
    assert advantages.shape == returns.shape == rewards.shape
    assert not advantages[~mask.bool()].any()
    return advantages.numpy()


def rollouts(env_id: str, scripts: list[list[str]], credit: str, tasks: list[int] | None = None) -> list[Any]:
    task_list = tasks or [0] * len(scripts)
    return [
        played(row_of(env_id, task), script, credit=credit, session_id=n)[0]
        for n, (task, script) in enumerate(zip(task_list, scripts, strict=True))
    ]


def claimcheck() -> list[list[str]]:
    texts = [written(message) for message in oracle("claimcheck-multihop", 0)]
    return [texts, texts[-1:], ["It is true.<|im_end|>", *texts[-1:]]]  # the others submit what they never read


def test_grpo_adds_the_credit_of_the_spans() -> None:
    outs = rollouts("claimcheck-multihop", claimcheck(), "grpo")
    advantages = estimated("factgym_grpo", outs, ["a"] * 3)
    rewards = [out.reward_score for out in outs]
    credit, means = [], []
    for out, script in zip(outs, claimcheck(), strict=True):
        credit.append(held_by_hand(out, script))
        means.append(credit[-1][np.array(out.response_mask, dtype=bool)].mean())
    for n, base in enumerate(group_advantages(rewards)):
        mask = np.array(outs[n].response_mask, dtype=bool)
        expected = base + 0.5 * (credit[n] - np.mean(means))
        assert advantages[n][: len(mask)][mask] == pytest.approx(expected[mask], abs=1e-4)
    assert len(set(np.round(advantages[0], 4))) > 3  # not the same for the whole episode


def held_by_hand(out: Any, script: list[str]) -> np.ndarray:
    """The sum of the credits of the spans that hold each token, from what the tokens say one by one."""
    tok = tokenizer()
    credit = np.zeros(len(out.response_ids))
    starts = [t for t, sampled in enumerate(out.response_mask) if sampled and (t == 0 or not out.response_mask[t - 1])]
    ends = [t + 1 for t, sampled in enumerate(out.response_mask) if sampled and not out.response_mask[t + 1]]
    for message, start, end, value in out.extra_fields["factgym"]["report"]["spans"]:
        turn = (message - 2) // 2  # system, user, then the policy and the environment in turn
        first, last = starts[turn], ends[turn]
        text = tok.decode(out.response_ids[first:last], skip_special_tokens=True)
        assert script[turn].startswith(text)
        content = counted_in(text)
        inside = text.find(content[start:end])
        for t in range(first, last):
            low = len(tok.decode(out.response_ids[first:t], skip_special_tokens=True))
            high = len(tok.decode(out.response_ids[first : t + 1], skip_special_tokens=True))
            is_whole = start == 0 and end == len(content)
            credit[t] += value * (is_whole or (low < high and inside <= (low + high) / 2 < inside + end - start))
    return credit


def counted_in(text: str) -> str:
    """What credit counts in: a call's arguments, or the whole text."""
    if "<tool_call>" not in text:
        return text
    written = text[text.index('"arguments": ') + len('"arguments": ') : text.rindex("}")]
    call: Any = {"id": "", "type": "function", "function": {"name": "", "arguments": written}}
    return message_text({"role": "assistant", "content": None, "tool_calls": [call]})


def test_stepwise_is_corvers_own_form() -> None:
    right = [written(message) for message in oracle("corver-qa", 0)]
    quick = "<think>{0} is said to be right.</think>\n<answer>{1}</answer><|im_end|>"
    scripts = [
        right,
        [quick.format("Paris", "Paris")],
        ["Nothing.<|im_end|>"],
        [right[0].replace("</think>", " Nobody knows Xenia Brethaan.</think>")],
    ]
    outs = rollouts("corver-qa", scripts, "stepwise")
    advantages = estimated("factgym_stepwise", outs, ["a"] * 4)
    session = Session("corver-qa")
    session.start(0)
    env: Any = session.env
    scores, offsets = [], []
    for (script,) in scripts:
        text = script.removesuffix("<|im_end|>")
        rules = env.config.scoring_rules
        item = env.task.item
        scores.append(
            score_completion(text, item.aliases, env.tasks.counter, env.tasks.extractor, rules, question=item.question)
        )
        encoded = tokenizer()(text, return_offsets_mapping=True, add_special_tokens=False)
        offsets.append([*encoded["offset_mapping"], (0, 0)])  # the end token
    reference = group_returns(scores, offsets, env.config.rubric)
    width = reference.advantages.shape[1]
    assert advantages[:, :width] == pytest.approx(reference.advantages, abs=1e-3)
    assert not advantages[:, width:].any()
    assert len(set(np.round(advantages[3], 4))) > 2


def test_the_mean_return_of_the_tokens_is_the_reward() -> None:
    outs = rollouts("claimcheck-multihop", claimcheck(), "stepwise")
    advantages = estimated("factgym_stepwise", outs, ["a"] * 3)
    _, mask = padded(outs)
    means = (advantages * mask.numpy()).sum(axis=1) / mask.numpy().sum(axis=1)
    assert means == pytest.approx(group_advantages([out.reward_score for out in outs]), abs=1e-3)


def test_hrpo_compares_within_a_column_of_the_rows() -> None:
    scripts = [claimcheck()[0], claimcheck()[1], [written(message) for message in oracle("claimcheck-multihop", 1)]]
    outs = [
        played(row_of("claimcheck-multihop", task), script, "data.factgym.dense_weight=0", credit="hrpo", **more)[0]
        for script, task, more in zip(
            scripts, [0, 0, 1], [{"session_id": n, "hops": np.int64(2)} for n in range(3)], strict=True
        )
    ]
    advantages = estimated("factgym_hrpo", outs, ["a", "a", "b"])
    expected = group_advantages([out.reward_score for out in outs])
    for n, value in enumerate(expected):
        mask = np.array(outs[n].response_mask, dtype=bool)
        assert advantages[n][: len(mask)][mask] == pytest.approx(value, abs=1e-4)
    assert expected[2] != 0  # within its own prompt's group it would be


def test_rows_of_a_session_are_one_completion() -> None:
    script = [written(message) for message in oracle("profact", 0)]
    outs = rollouts("profact", [script, script[:1], script], "grpo")
    index = [f"{n // 9}" for out in outs for n, _ in enumerate(contexts_of(out))]
    advantages = estimated("factgym_grpo", outs, index)
    rewards = [contexts_of(out)[-1].reward_score for out in outs]
    means = []
    for out in outs:
        rows = [decode_row(np.array(context.token_rewards)) for context in contexts_of(out)]
        masks = [np.array(context.response_mask, dtype=bool) for context in contexts_of(out)]
        means.append(np.concatenate([row.values[: len(m)][m] for row, m in zip(rows, masks, strict=True)]).mean())
    row = 0
    for n, out in enumerate(outs):
        for context in contexts_of(out):
            mask = np.array(context.response_mask, dtype=bool)
            values = decode_row(np.array(context.token_rewards)).values[: len(mask)][mask]
            expected = group_advantages(rewards)[n] + values - np.mean(means)
            assert advantages[row][: len(mask)][mask] == pytest.approx(expected, abs=1e-4)
            row += 1


def test_verls_own_estimator_sees_the_episodes_reward_in_every_layout() -> None:
    for credit in ("none", "grpo", "stepwise"):
        outs = rollouts("claimcheck-multihop", claimcheck(), credit)
        rewards, mask = padded(outs)
        totals = [out.reward_score for out in outs]
        assert rewards.sum(dim=1).numpy() == pytest.approx(totals, abs=1e-6)
        advantages = estimated("grpo", outs, ["a"] * 3)
        expected = group_advantages(totals, eps=1e-6)
        for n in range(3):
            assert advantages[n][mask[n].bool().numpy()] == pytest.approx(expected[n], abs=1e-3)


def test_for_verls_estimators_the_credit_lies_on_the_tokens_that_earned_it() -> None:
    (out,) = rollouts("claimcheck-multihop", claimcheck()[:1], "none")
    assert len(out.token_rewards) == len(out.response_ids)
    turns = out.extra_fields["turn_scores"]
    starts = [t for t, sampled in enumerate(out.response_mask) if sampled and (t == 0 or not out.response_mask[t - 1])]
    sums = [sum(out.token_rewards[a:b]) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert sums == pytest.approx(turns, abs=1e-6)


def test_rewards_of_another_layout_are_refused() -> None:
    plain = rollouts("claimcheck-multihop", claimcheck(), "none")
    with pytest.raises(ConfigError, match=r"same algorithm\.adv_estimator"):
        estimated("factgym_grpo", plain, ["a"] * 3)
    outs = rollouts("claimcheck-multihop", claimcheck(), "grpo")
    with pytest.raises(ConfigError, match="use_kl_in_reward=false"):
        estimated("factgym_grpo", outs, ["a"] * 3, {"use_kl_in_reward": True})
    scaled = estimated("factgym_grpo", outs, ["a"] * 3)
    unscaled = estimated("factgym_grpo", outs, ["a"] * 3, {"norm_adv_by_std_in_grpo": False})
    assert not np.allclose(scaled, unscaled)


def test_padding_moves_nothing() -> None:
    outs = rollouts("claimcheck-multihop", claimcheck(), "grpo")
    rewards, mask = padded(outs)
    more = [torch.cat([tensor, torch.zeros_like(tensor[:2])]) for tensor in (rewards, mask)]
    estimate = get_adv_estimator_fn("factgym_grpo")
    index = np.array(["a", "a", "a", "pad", "pad"], dtype=object)
    advantages, _ = estimate(token_level_rewards=more[0], response_mask=more[1], index=index)
    alone, _ = estimate(token_level_rewards=rewards, response_mask=mask, index=index[:3])
    assert torch.equal(advantages[:3], alone) and not advantages[3:].any()


@given(
    values=st.lists(st.floats(-20, 20), min_size=1, max_size=200),
    total=st.floats(-5, 5),
    group=st.integers(0, 60_000),
    session=st.integers(0, 60_000),
    cut=st.integers(0, 200),
)
def test_layouts_are_read_back_and_sum_to_the_total(
    values: list[float], total: float, group: int, session: int, cut: int
) -> None:
    returns = np.array(values)
    spread = TokenCredit(returns, returns, returns)
    cut = min(cut, len(values) - 1)
    parts = [slice(0, cut), slice(cut, len(values))] if cut else [slice(0, len(values))]
    layout = Layout("stepwise", group=group, session=session)
    for part, row in zip(parts, layout.rewards(spread, total, parts, np.ones(len(values), dtype=bool)), strict=True):
        padded_row = np.array([*np.array(row, dtype=np.float32), 0.0, 0.0], dtype=np.float64)
        decoded = decode_row(padded_row)
        assert (decoded.group, decoded.session) == (group, session)
        assert decoded.values[: part.stop - part.start] == pytest.approx(returns[part], abs=2e-6, rel=1e-6)
        assert decoded.reward == pytest.approx(total, abs=1e-4)
        assert len(row) == part.stop - part.start + TAIL
    for row in Layout(None).rewards(spread, total, parts, np.ones(len(values), dtype=bool)):
        assert sum(row) == pytest.approx(total, abs=1e-4)


def test_groups_are_small_whole_numbers() -> None:
    with pytest.raises(ConfigError, match="group must be a whole number"):
        Layout("hrpo", group=70_000)
    assert SCALE * 1024 == 1


def test_estimators_are_registered_by_their_names() -> None:
    integration.register()
    assert [form_of(f"factgym_{name}") for name in ("grpo", "hrpo", "stepwise")] == ["grpo", "hrpo", "stepwise"]
    assert form_of("grpo") is None and form_of("factgym_other") is None
    assert get_adv_estimator_fn("factgym_stepwise").__name__ == "factgym_stepwise"


def test_spans_of_a_text_answer_are_counted_in_the_message() -> None:
    """The message that is played and the tokens agree on what a character is."""
    (out,) = rollouts("corver-qa", [[written(message) for message in oracle("corver-qa", 0)]], "none")
    report = out.extra_fields["factgym"]["report"]
    text = tokenizer().decode(out.response_ids, skip_special_tokens=True)
    message = {"role": "assistant", "content": text}
    assert all(0 <= start <= end <= len(message_text(message)) for _, start, end, _ in report["spans"])
