"""The verl integration: every environment's episodes are the same through its agent loop, and rows hold what a trainer needs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs factgym[verl]")

import reference_episodes
from reference_episodes import Case, assert_same
from tiny_verl import Server, contexts_of, oracle, played, row_of, tokenizer, written

from factgym.core.errors import ConfigError, UnknownEnvError
from factgym.integrations.session import Session
from factgym.integrations.verl.advantages import SCALE, TAIL, decode_row
from factgym.integrations.verl.rows import RowTask

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def row_for(case: Case) -> dict[str, Any]:
    episode = case.episode
    session = Session(episode.env, **episode.config)
    settings = json.dumps(episode.config, default=str)
    info = {"env": session.env.env_spec.versioned, "task": episode.task, "settings": settings, "index": 0}
    return {"extra_info": info, "raw_prompt": session.start(episode.task), "session_id": 0}


def own_tokens(out: Any) -> list[list[int]]:
    """The policy's tokens, turn by turn."""
    turns: list[list[int]] = []
    for context in contexts_of(out):
        before = 0
        for token, sampled in zip(context.response_ids, context.response_mask, strict=True):
            if sampled and not before:
                turns.append([])
            if sampled:
                turns[-1].append(token)
            before = sampled
    return turns


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(env_id: str, needs: Callable[..., Any]) -> None:
    cases = reference_episodes.cases(env=env_id, needs=needs)
    # Calls that are no JSON reach the integration as a model would have written them, which is as text.
    for case in (case for case in cases if (case.kind, case.name) != ("messages", "hostile")):
        reference, row = case.reference, row_for(case)
        texts = [written(message) for message in case.episode.messages]
        out, server = played(row, texts)
        last = contexts_of(out)[-1]
        info = last.extra_fields["factgym"]
        native = case.kind == "texts" and any("<tool_call>" in text for text in texts)
        skip = ["answers", "tools"] + (["spans"] if native else [])
        if (
            reference.stop == "turn_limit"
            and len(reference.answers) < Session(env_id, **case.episode.config).env.config.max_turns
        ):
            skip.append("stop")  # the script ends before the episode
        report = info["report"]
        outcome = reference_episodes.Outcome(
            first=row["raw_prompt"],
            answers=[],
            stop=info["stop"],
            **{key: report[key] for key in ("total", "status", "components", "spans", "metrics")},
        )
        assert_same(reference, outcome, skip=skip)
        assert last.reward_score == reference.total
        encoded = [tokenizer()(text, add_special_tokens=False)["input_ids"] for text in texts]
        assert own_tokens(out) == encoded[: len(reference.answers)]
        shows_the_same_prompts(case, server, native)
        for context in contexts_of(out):
            assert context.as_dict()["rm_scores"].sum().item() == pytest.approx(reference.total, abs=1e-5)


def shows_the_same_prompts(case: Case, server: Server, native: bool) -> None:
    """Before each turn the policy sees what `policy_prompt` shows, in its order, and no older context."""
    for prompt, tokens in zip(case.prompts, server.prompts, strict=False):
        text = tokenizer().decode(tokens)
        at = 0
        for message in prompt:
            if message["role"] != "assistant" and not native:
                at = text.find(message["content"], at)
                assert at >= 0, f"{message['content']!r} is not in {text!r}"
        assert text.count("<|im_start|>assistant") == sum(message["role"] == "assistant" for message in prompt) + 1


def test_contexts_that_an_environment_keeps_apart_are_rows_of_one_session() -> None:
    texts = [written(message) for message in oracle("profact", 0)]
    out, server = played(row_of("profact"), texts, credit="grpo", session_id=2)
    assert isinstance(out, list) and len(out) > 1
    decoded = [decode_row(np.array(row.token_rewards)) for row in out]
    assert {row.session for row in decoded} == {3}
    assert {round(row.reward, 5) for row in decoded} == {round(out[-1].reward_score, 5)}
    assert len(server.prompts[-1]) < sum(len(row.response_ids) for row in out) + len(out[0].prompt_ids)


def test_the_prompt_has_the_complete_schemas_and_the_rows_own_text() -> None:
    row = row_of("claimcheck-multihop")
    row["raw_prompt"] = [{"role": "system", "content": "Be brief."}, row["raw_prompt"][1]]
    out, _ = played(row, [written(message) for message in oracle("claimcheck-multihop", 0)])
    prompt = tokenizer().decode(out.prompt_ids)
    assert "Be brief." in prompt
    for schema in Session("claimcheck-multihop").all_tools():
        assert json.dumps(schema, ensure_ascii=False)[1:60] in prompt


def test_tokens_appended_turn_by_turn_equal_those_of_the_conversation() -> None:
    """What was appended piece by piece is what the template writes at once."""
    _, server = played(
        row_of("claimcheck-multihop"), [written(message) for message in oracle("claimcheck-multihop", 0)]
    )
    session = Session("claimcheck-multihop")
    session.start(0)
    for message, ids in zip(oracle("claimcheck-multihop", 0), server.prompts, strict=True):
        rendered = tokenizer().apply_chat_template(
            session.messages, tools=session.all_tools(), add_generation_prompt=True, tokenize=True
        )
        assert ids == rendered["input_ids"]
        session.step(message)


def test_nothing_is_generated_after_the_end() -> None:
    texts = [written(message) for message in oracle("claimcheck-multihop", 0)]
    out, server = played(row_of("claimcheck-multihop"), [*texts, "And more.<|im_end|>"])
    assert len(server.prompts) == len(texts)
    assert out.response_mask[-1] == 1


def test_hostile_messages_are_answered_and_scored_for_nothing() -> None:
    bad = ['<tool_call>{"name": "search", "arguments": {"query": </tool_call>', "<think>never closed", "", "{}"]
    texts = [f"{text}<|im_end|>" for text in bad]
    for env_id in ("claimcheck-multihop", "profact", "seva", "corver-qa-search"):
        out, _ = played(row_of(env_id), texts * 4)
        last = contexts_of(out)[-1]
        assert last.reward_score <= 0.1
        assert last.extra_fields["reward_extra_info"]["error_turns"] >= 1


def test_a_message_with_a_malformed_call_is_refused_as_a_unit() -> None:
    """One call of two is broken: verl's parser would have played the other and said nothing."""
    good = '<tool_call>\n{"name": "search", "arguments": {"query": "a"}}\n</tool_call>'
    _, server = played(row_of("claimcheck-multihop"), [f'{good}\n<tool_call>\n{{"name": \n</tool_call><|im_end|>'])
    assert "Error (invalid_json)" in tokenizer().decode(server.prompts[1])


@pytest.mark.parametrize("long", [True, False])
def test_tool_text_is_not_cut(long: bool) -> None:
    """verl's own tool loop keeps 256 characters of it."""
    texts = [written(message) for message in oracle("claimcheck-multihop", 0)]
    _, server = played(row_of("claimcheck-multihop"), texts, long=long)
    session = Session("claimcheck-multihop")
    session.start(0)
    for turn, message in enumerate(oracle("claimcheck-multihop", 0)[:-1]):
        (answer,) = session.step(message)
        assert answer["content"] in tokenizer().decode(server.prompts[turn + 1])
    assert any(len(message["content"] or "") > 600 for message in session.messages if message["role"] == "tool")


def test_an_episode_that_does_not_fit_is_truncated_and_scored() -> None:
    texts = [written(message) for message in oracle("claimcheck-multihop", 0)]
    uncut, _ = played(row_of("claimcheck-multihop"), texts)
    first = len(own_tokens(uncut)[0])
    cases = [
        (f"data.max_response_length={first + TAIL + 30}", "length_limit", 1),
        (f"data.max_response_length={first + TAIL - 5}", "length_limit", 1),
        (f"actor_rollout_ref.rollout.max_model_len={len(uncut.prompt_ids) + first + 30}", "context_limit", 1),
    ]
    for override, stop, turns in cases:
        out, server = played(row_of("claimcheck-multihop"), texts, override, credit="grpo")
        assert out.extra_fields["factgym"]["stop"] == stop
        assert len(server.prompts) == turns
        assert out.extra_fields["reward_extra_info"]["truncated"] == 1.0
        assert out.reward_score is not None
        assert out.response_mask[-TAIL - 1] == 1 and sum(out.response_mask) == len(out.response_ids) - TAIL
        limit = int(override.partition("=")[2])
        assert len(out.response_ids) <= limit
    with pytest.raises(ConfigError, match="max_prompt_length is 100"):
        played(row_of("claimcheck-multihop"), texts, "data.max_prompt_length=100")


def test_a_fault_of_the_infrastructure_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [written(message) for message in oracle("claimcheck-multihop", 0)]
    real = Session.step

    def failing(self: Session, message: Any) -> Any:
        answers = real(self, message)
        self.env.episode.report = None
        self.fail("the index is gone")
        return answers

    monkeypatch.setattr(Session, "step", failing)
    out, _ = played(row_of("claimcheck-multihop"), texts)
    assert out == []


def test_log_probabilities_and_versions_of_weights_reach_the_trainer() -> None:
    texts = [written(message) for message in oracle("claimcheck-multihop", 0)]
    out, server = played(row_of("claimcheck-multihop"), texts, credit="stepwise", logprobs=True)
    assert len(out.response_logprobs) == len(out.response_ids)
    assert {logprob for logprob, sampled in zip(out.response_logprobs, out.response_mask, strict=True) if sampled} == {
        -0.5
    }
    assert not any(
        logprob for logprob, sampled in zip(out.response_logprobs, out.response_mask, strict=True) if not sampled
    )
    assert (out.extra_fields["min_global_steps"], out.extra_fields["max_global_steps"]) == (0, len(texts) - 1)
    assert all(parameters["temperature"] == 1.0 for parameters in server.sampling)


def test_rows_of_another_kind_or_version_are_refused() -> None:
    row = row_of("seva")
    with pytest.raises(ConfigError, match=r"extra_info lacks env, task, settings"):
        RowTask.of({"index": 0, "env": None})
    with pytest.raises(UnknownEnvError, match="at version"):
        played({**row, "extra_info": {**row["extra_info"], "env": "seva-v99"}}, [])


def test_options_that_do_not_exist_are_refused() -> None:
    row = row_of("seva")
    with pytest.raises(ConfigError, match="dense_weight"):
        played(row, ["x"], "+data.factgym.dense_wait=1")
    with pytest.raises(ConfigError, match="use_v1=true"):
        played(row, ["x"], "trainer.use_v1=false")
    with pytest.raises(ConfigError, match="hermes"):
        played(row, ["x"], "actor_rollout_ref.rollout.multi_turn.format=hermis")
    with pytest.raises(ConfigError, match="group_column"):
        played(row, ["x"], credit="hrpo")
    with pytest.raises(ConfigError, match="whole numbers"):
        played(row, ["x"], credit="hrpo", hops="two")
    with pytest.raises(ConfigError, match="use_kl_in_reward=false"):
        played(row, ["x"], "algorithm.use_kl_in_reward=true", credit="grpo")


def test_other_formats_are_read_by_verls_parsers() -> None:
    call = "<tool_call>\n<function=search>\n<parameter=query>\nproxy\n</parameter>\n</function>\n</tool_call><|im_end|>"
    out, server = played(
        row_of("claimcheck-multihop"), [call], "actor_rollout_ref.rollout.multi_turn.format=qwen3_coder"
    )
    assert "(turns left: 11)" in tokenizer().decode(server.prompts[1])
    assert out.extra_fields["reward_extra_info"]["error_turns"] == 0.0


def test_the_used_parts_of_verl_are_unchanged() -> None:
    """Says which change upstream broke the integration."""
    from verl.experimental.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.experimental.agent_loop.tool_parser import ToolParser
    from verl.trainer.ppo import core_algos
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.utils.tokenizer import continuous_token
    from verl.workers.rollout.llm_server import LLMServerClient
    from verl.workers.rollout.replica import TokenOutput

    def names(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    expected = ["trainer_config", "server_manager", "tokenizer", "processor", "dataset_cls", "data_config"]
    assert names(AgentLoopBase.__init__)[1:7] == expected
    assert names(AgentLoopBase.run) == ["self", "sampling_params", "kwargs"]
    fields = set(AgentLoopOutput.model_fields)
    assert fields >= {
        *("prompt_ids", "response_ids", "response_mask", "response_logprobs", "routed_experts", "reward_score"),
        *("num_turns", "metrics", "extra_fields"),
    }
    assert set(TokenOutput.model_fields) >= {
        *("token_ids", "log_probs", "routed_experts", "num_preempted", "extra_fields")
    }
    assert {"prompt_ids", "sampling_params"} <= set(names(LLMServerClient.generate))
    builder = continuous_token.ContinuousTokenBuilder
    merge = getattr(builder, "merge_context_tokens", None) or builder.merge_non_assistant_tokens
    assert names(merge) == ["self", "previous_messages", "updated_messages", "runtime_token_ids", "tools"]
    assert names(builder.merge_assistant_tokens) == ["self", "runtime_token_ids", "assistant_token_ids"]
    assert names(builder.build_initial_tokens)[:3] == ["self", "messages", "tools"]
    parameters = ["self", "merge_result", "response_mask", "response_logprobs", "assistant_logprobs"]
    assert names(builder.align_response_metadata) == parameters
    assert {"token_ids", "removed_prefix_token_count"} <= set(names(continuous_token.MergeResult))
    assert names(ToolParser.extract_tool_calls)[1:] == ["responses_ids", "tools"]
    assert "maybe_filter_out_long_prompts" in vars(RLHFDataset)
    arguments = ["token_level_rewards", "response_mask", "config"]
    source = inspect.getsource(__import__("verl.trainer.ppo.ray_trainer", fromlist=["x"]).compute_advantage)
    assert all(f'"{name}"' in source for name in arguments) and 'adv_kwargs["index"]' in source
    assert names(core_algos.register_adv_est) == ["name_or_enum"]
    assert SCALE == 2**-10
