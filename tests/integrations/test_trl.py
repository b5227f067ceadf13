"""The TRL integration: every environment's episodes are the same through a real GRPOTrainer, and credit reaches its tokens."""

from __future__ import annotations

import inspect
import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs factgym[trl]")

import reference_episodes
from datasets import Dataset
from reference_episodes import Case, assert_same, outcome_of
from tiny_trl import Plain, ScriptedTrainer, arguments, factory, model, oracle, tokenizer, trained, written
from transformers.utils import get_json_schema

from factgym.agents.resolve import find_scripted_agent
from factgym.core.errors import ConfigError
from factgym.integrations.session import Session, self_contained
from factgym.integrations.trl import FactEnvironment, column_weights, reward_columns

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


def row_of(session: Session, task: str) -> dict[str, Any]:
    return {"prompt": session.start(task), "task": task, "env": session.env.env_spec.versioned}


def scripted(env_id: str, config: dict[str, Any], rows: list[dict[str, Any]], scripts: Any, folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        trainer = ScriptedTrainer(
            model=model(),
            args=arguments(folder, per_device_train_batch_size=len(scripts), reward_weights=None),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer(),
            environment_factory=factory(env_id, **config),
        )
    trainer.scripts = scripts
    trainer.model.train()
    return trainer


def played(cases: list[Case], folder: Path) -> tuple[Any, list[dict[str, Any]], dict[str, Any]]:
    """Every case as one rollout of one batch of a real trainer."""
    first = cases[0].episode
    session = Session(first.env, **first.config)
    rows = [row_of(session, case.episode.task) for case in cases]
    scripts = [[written(message) for message in case.episode.messages] for case in cases]
    trainer = scripted(first.env, first.config, rows, scripts, folder)
    out = trainer._generate_and_score_completions([dict(row) for row in rows])
    return trainer, rows, out


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(
    env_id: str, needs: Callable[..., Any], tmp_path: Path
) -> None:
    cases = reference_episodes.cases(env=env_id, needs=needs)
    # Calls that are no JSON reach TRL's parser as a model would have written them, which is as text.
    cases = [case for case in cases if (case.kind, case.name) != ("messages", "hostile")]
    trainer, rows, out = played(cases, tmp_path)
    own_tokens = out.get("tool_mask", out["completion_mask"]) * out["completion_mask"]
    for n, (case, env) in enumerate(zip(cases, trainer.environments, strict=True)):
        reference = case.reference
        report = env.session.close()
        outcome = outcome_of(report, first=rows[n]["prompt"], answers=[], stop=env.session.stop)
        # A call that TRL's parser finds in a text is a native one here, and credit counts in its arguments.
        native = any(message.get("tool_calls") for message in env.session.messages)
        skip = ["answers", "tools"] + (["spans"] if case.kind == "texts" and native else [])
        if reference.stop == "turn_limit" and len(reference.answers) < env.session.env.config.max_turns:
            skip.append("stop")  # the script ends before the episode, and a policy without words has no room left
        assert_same(reference, outcome, skip=skip)
        observed = [turn.observation for turn in env.session.env.episode.turns]
        if case.kind != "texts":
            assert observed == reference.results()
        assert len(observed) == len(reference.answers)
        own_count = sum(len(turn.ids) for turn in env.turns)
        assert int(own_tokens[n].sum()) == own_count
        ids = out["completion_ids"][n].tolist()
        record = env.session.env.episode.turns
        for turn, following, answer in zip(env.turns, env.turns[1:], record, strict=False):
            between = tokenizer().decode(ids[turn.first + len(turn.ids) : following.first])
            assert all(result.text in between for result in answer.results)
        for turn in env.turns:
            assert ids[turn.first : turn.first + len(turn.ids)] == list(turn.ids)
            assert own_tokens[n, turn.first : turn.first + len(turn.ids)].all()


@pytest.mark.parametrize("case", reference_episodes.cases("calls", tasks=1), ids=str)
def test_the_class_alone_plays_the_same_calls(case: Case) -> None:
    """As a GRPOTrainer without our mixin uses it: methods with parsed arguments, then the reward."""
    env = factory(case.env, **case.episode.config)()
    assert env.reset(**row_of(env.session, case.episode.task)) is None
    answers = []
    for name, arguments_text in case.episode.calls():
        if env.report is None:
            answers.append(getattr(env, name)(**json.loads(arguments_text)))
    assert answers == case.reference.results()[: len(answers)]
    if case.episode.final is not None and env.report is None:
        env._play_final_text([{"role": "assistant", "content": case.episode.final}])
    assert env.get_reward() == case.reference.total
    outcome = outcome_of(env.report, first=[], answers=[], stop=env.session.stop)
    assert_same(case.reference, outcome, skip=["first", "answers", "tools", "spans"])


@pytest.mark.parametrize("env_id", self_contained())
def test_tools_describe_themselves_as_the_schemas_do(env_id: str) -> None:
    cls = factory(env_id)  # on the environment's own split: one has no training tasks
    schemas = {schema["function"]["name"]: schema["function"] for schema in Session(env_id).all_tools()}
    public = {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}
    assert public == {*schemas, "reset", "get_reward"}
    env = cls()
    for name, expected in schemas.items():
        actual = get_json_schema(getattr(env, name))["function"]
        assert actual["name"] == name
        assert actual["description"] == " ".join(expected["description"].split())
        assert actual["parameters"].get("required", []) == expected["parameters"].get("required", [])
        properties = expected["parameters"]["properties"]
        assert actual["parameters"]["properties"].keys() == properties.keys()
        for key, value in properties.items():
            parameter = actual["parameters"]["properties"][key]
            assert parameter.get("type") == value.get("type")
            assert parameter.get("enum") == value.get("enum")
            described = value.get("description", key)  # compact schemas describe nothing
            assert parameter["description"].startswith(" ".join(described.split()))
            if value.get("items", {}).get("type") == "object":
                assert json.dumps(value["items"], ensure_ascii=False) in parameter["description"]


def test_a_step_stops_when_the_episode_is_over_and_logs_every_component(tmp_path: Path) -> None:
    env_id = "claimcheck-multihop"
    scripts = [oracle(env_id, 0), ["It is true.<|im_end|>", *oracle(env_id, 0)[-1:]]]
    before = model().model.embed_tokens.weight.detach().numpy().copy()
    columns = reward_columns(env_id)
    trainer = trained(
        ScriptedTrainer, env_id, scripts, tmp_path, columns=columns, reward_weights=column_weights(env_id)
    )
    log = trainer.state.log_history[0]
    first, second = (env.session for env in trainer.environments)
    assert first.reward == 1.0 > second.reward
    assert second.env.episode.turns[0].error == "no_tool_call"
    assert log["reward"] == pytest.approx((first.reward + second.reward) / 2)
    assert log["rewards/ClaimcheckMultihop/mean"] == log["reward"]
    for name in first.report.components:
        values = [first.report.components[name], second.report.components[name]]
        assert log[f"rewards/{name}/mean"] == pytest.approx(np.mean(values))
    assert log["factgym/turns"] == (len(scripts[0]) + 2) / 2
    assert log["tools/call_frequency"] == (len(scripts[0]) + 1) / 2
    assert log["completions/clipped_ratio"] == 0.0
    assert trainer._turn_counts == [len(script) for script in scripts]  # nothing was generated after the end
    assert list(trainer._logs["extra"]["stop"]) == ["submitted", "submitted"]
    assert log["grad_norm"] > 0
    assert not np.array_equal(before, trainer.model.model.embed_tokens.weight.detach().numpy())


def test_hostile_messages_are_answered_and_scored_for_nothing(tmp_path: Path) -> None:
    cases = reference_episodes.cases("messages", files=False, tasks=1, name="hostile")
    for case in (case for case in cases if case.env in ("claimcheck-multihop", "corver-qa-search", "profact", "seva")):
        trainer, _, _ = played([case, case], tmp_path)
        for env in trainer.environments:
            assert env.session.close().status == "scored"
            assert env.session.reward <= max(case.reference.total, 0.0)
            assert any(turn.error for turn in env.session.env.episode.turns)


def test_slow_environments_are_played_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = reference_episodes.cases("calls", env="seva-repair", name="oracle", files=False)
    threads = set()
    real = FactEnvironment._play_turn

    def record_thread(self: Any, *arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return real(self, *arguments)

    monkeypatch.setattr(FactEnvironment, "_play_turn", record_thread)
    monkeypatch.setattr(type(cases[0].episode.make()), "slow_steps", True)
    trainer, _, _ = played(cases, tmp_path)
    assert threading.get_ident() not in threads
    assert [env.session.reward for env in trainer.environments] == [case.reference.total for case in cases]


def test_the_prompt_has_the_complete_schemas(tmp_path: Path) -> None:
    trainer, rows, out = played(reference_episodes.cases("calls", files=False)[:2], tmp_path)
    prompt = tokenizer().decode(out["prompt_ids"][0])
    for schema in trainer.environments[0]._schemas:
        assert json.dumps(schema, ensure_ascii=False) in prompt
    for message in rows[0]["prompt"]:
        assert message["content"] in prompt


@pytest.mark.parametrize("env_id", ["seva", "corver-qa"])
def test_a_plain_text_is_scored_with_the_mixin_or_with_the_columns_and_never_without_either(
    env_id: str, tmp_path: Path
) -> None:
    session = Session(env_id)
    session.start(0)
    reply = reference_episodes.scripted_messages(
        session.env, find_scripted_agent(env_id, "oracle").start(session.env, 0)
    )[-1]
    calls = reply.get("tool_calls")
    text = calls[0]["function"]["arguments"] if calls else reply["content"]
    expected = Session(env_id)
    expected.start(0)
    expected.step(text)
    assert expected.reward == session.reward > 0.5
    scripts = [[f"{text}<|im_end|>"], ["What?<|im_end|>"]]
    for cls, columns in ((ScriptedTrainer, []), (Plain, reward_columns(env_id))):
        weights = column_weights(env_id) if columns else None
        trainer = trained(cls, env_id, scripts, tmp_path, columns=columns, reward_weights=weights)
        assert trainer.environments[0].session.reward == expected.reward
        assert trainer.state.log_history[0]["reward_std"] > 0
    with pytest.raises(ConfigError, match="StopWhenDone"):
        trained(Plain, env_id, scripts, tmp_path)


def test_a_fault_of_the_infrastructure_is_no_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env_id = "corver-qa"
    scripts = [oracle(env_id, 0), ["<think>No.</think><answer>No</answer><|im_end|>"], oracle(env_id, 0)]
    real = FactEnvironment._play_turn

    def failing(self: Any, parsed: Any, ids: Any, first: int, tok: Any) -> Any:
        result = real(self, parsed, ids, first, tok)
        if first == 0 and "No" in parsed["content"]:
            self._session.env.episode.report = None
            self._session.fail("the index is gone")
        return result

    monkeypatch.setattr(FactEnvironment, "_play_turn", failing)
    columns = reward_columns(env_id)
    trainer = trained(
        ScriptedTrainer, env_id, scripts, tmp_path, columns=columns, reward_weights=column_weights(env_id)
    )
    assert trainer.environments[1].get_reward() is None
    expected = trainer.environments[0].session.reward
    assert trainer.state.log_history[0]["reward"] == pytest.approx(expected)
    assert list(trainer._logs["advantages"]) == [0.0, 0.0, 0.0]
