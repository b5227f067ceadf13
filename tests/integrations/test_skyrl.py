"""The SkyRL integration: every environment's episodes are the same as a `BaseTextEnv` and through SkyRL's own generator."""

from __future__ import annotations

import asyncio
import inspect
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

pytest.importorskip("skyrl_gym", reason="needs factgym[skyrl]")

import reference_episodes
import skyrl_gym
from conformance.setups import SETUPS
from guide_pages import run_page
from reference_episodes import Case, Outcome, assert_same
from skyrl_gym.envs.base_text_env import BaseTextEnv
from skyrl_gym.envs.registration import registry
from skyrl_gym.metrics import aggregate_for_environment

from factgym.core.errors import ConfigError
from factgym.integrations.session import Session
from factgym.integrations.skyrl import ENTRY_POINT, EpisodeFaultError, FactTextEnv, register_skyrl, rows, write_rows

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

CLAIMS = "claimcheck-multihop"
NEEDS_SKYRL = "needs skyrl 0.3, torch and what its generator imports"


@pytest.fixture(autouse=True)
def unregistered() -> Any:
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def text_cases(env_id: str, needs: Callable[..., Any]) -> list[Case]:
    cases = reference_episodes.cases("texts", env=env_id, needs=needs)
    return [*cases, *(Case(env_id, needs, "texts", "oracle", task) for task in range(reference_episodes.TASKS))]


def outcome(env: FactTextEnv, steps: list[Any], tools: list[list[str]]) -> Outcome:
    report = steps[-1]["metadata"]["report"]
    return Outcome(
        first=env.session.env.episode.messages[: env.session.env.episode.turns[0].message],
        answers=[step["observations"] for step in steps],
        tools=tools,
        total=steps[-1]["reward"],
        status=report["status"],
        components=report["components"],
        spans=report["spans"],
        metrics=report["metrics"],
        stop=steps[-1]["metadata"]["stop"],
    )


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(env_id: str, needs: Callable[..., Any]) -> None:
    name = register_skyrl(env_id, name=f"{env_id} here", **reference_episodes.config_of(env_id, needs))
    for case in text_cases(env_id, needs):
        texts = [message["content"] for message in case.episode.messages]
        # A script that ends before its episode is cut by SkyRL's own limit; a limit of 1 is SkyRL's default.
        extras = {"task": case.episode.task, "max_turns": max(len(texts), 1)}
        env = skyrl_gym.make(name, env_config={}, extras=extras)
        first, info = env.init([])
        assert info == {"task": case.episode.task}
        for rendered, message in zip(first[::-1], case.reference.first[::-1], strict=False):
            assert (rendered["role"], rendered["content"].startswith(message["content"] or "")) == (
                message["role"],
                True,
            )
        assert len(first) - len(case.reference.first) in (0, 1)
        steps, tools = [], []
        for text in texts:
            steps.append(env.step(text))
            tools.append([tool["function"]["name"] for tool in env.session.tools()])
            if steps[-1]["done"]:
                break
        assert [step["reward"] for step in steps[:-1]] == [0.0] * (len(steps) - 1)
        assert_same(case.reference, outcome(env, steps, tools))
        assert sum(steps[-1]["metadata"]["turn_rewards"]) == pytest.approx(
            sum(value for *_, value in case.reference.spans)
        )
        after = env.step("more")
        assert (after["reward"], after["done"]) == (0.0, True)
        metrics = env.get_metrics()
        assert metrics["reward"] == case.reference.total
        assert all(type(value) is float for value in metrics.values())
        assert aggregate_for_environment(name, [metrics, metrics])["reward"] == metrics["reward"]
        env.close()


def test_the_slot_of_a_rollout_that_was_closed_is_used_again_and_no_other() -> None:
    name = register_skyrl(CLAIMS, name="claims of its own", size=13)
    first = skyrl_gym.make(name, extras={"task": 0})
    first.init([])
    first.step("no call")
    slot, played = first.session, first.session.env.episode.messages
    open_envs = [skyrl_gym.make(name, extras={"task": 1}) for _ in range(3)]
    assert len({id(env.session) for env in (first, *open_envs)}) == 4
    before = (first.get_metrics(), first.session.turn_rewards(), list(played), first.session.stop)
    first.close()
    first.close()
    again = skyrl_gym.make(name, extras={"task": 1})
    assert again.session is slot
    assert again.init([])[1] == {"task": slot.env.tasks[1].id}
    assert skyrl_gym.make(name, extras={"task": 1}).session is not slot
    again.step("another thing")
    assert (first.get_metrics(), first.session.turn_rewards(), list(played), first.session.stop) == before
    assert first.session.env.episode.messages is played is not slot.env.episode.messages
    again.close()
    second_name = register_skyrl(CLAIMS, name="more claims of its own", size=14)
    assert skyrl_gym.make(second_name, extras={"task": 0}).session is not slot


def test_registering_twice_changes_nothing_and_another_environment_under_the_name_is_refused() -> None:
    assert register_skyrl(CLAIMS, size=12) == CLAIMS
    assert register_skyrl(CLAIMS, size=12, split="train") == CLAIMS
    with pytest.raises(ConfigError, match="give this one a name"):
        register_skyrl(CLAIMS, size=13)
    assert register_skyrl(CLAIMS, name="claims-13", size=13) == "claims-13"
    with pytest.raises(ConfigError, match="Did you mean 'split'"):
        register_skyrl(CLAIMS, name="other", spilt="x")
    assert "other" not in registry
    assert json.loads(registry[CLAIMS].to_json())["kwargs"] == {
        "env_id": CLAIMS,
        "config": {"size": 12, "split": "train"},
    }


def test_rows_have_the_complete_prompt_and_no_gold(tmp_path: Path) -> None:
    name = register_skyrl("profact", size=12)
    assert write_rows(tmp_path / "train.jsonl", "profact", limit=5, size=12) == 5
    written = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text("utf-8").splitlines()]
    assert written == list(rows("profact", limit=5, size=12))
    for row in written:
        assert set(row) == {"prompt", "env_class", "data_source", "task"}
        env = skyrl_gym.make(name, env_config={}, extras=row)
        assert env.init(row["prompt"])[0] == row["prompt"]
        names = [tool["function"]["name"] for tool in env.session.all_tools()]
        assert names
        assert all(f'"name": "{name}"' in row["prompt"][0]["content"] for name in names)


def test_skyrls_own_data_set_reads_the_rows(tmp_path: Path) -> None:
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl
    from skyrl.train.dataset import PromptDataset

    write_rows(tmp_path / "train.jsonl", CLAIMS, limit=4, size=12)
    data = PromptDataset([str(tmp_path / "train.jsonl")], tiny_skyrl.tokenizer(), 10**6, num_workers=1)
    expected = list(rows(CLAIMS, limit=4, size=12))
    for index, row in enumerate(expected):
        prompt, env_class, extras, _ = data[index]
        assert (prompt, env_class, extras["task"]) == (row["prompt"], CLAIMS, row["task"])
    assert len(data) == len(expected)


def test_a_row_without_a_task_is_refused_with_the_function_that_writes_rows() -> None:
    register_skyrl(CLAIMS, size=12)
    with pytest.raises(ConfigError, match="write_rows"):
        skyrl_gym.make(CLAIMS, env_config={}, extras={})


@pytest.mark.parametrize(("limit", "turns"), [(1, 12), (None, 12), (5, 5), (400, 12)])
def test_skyrls_limit_counts_above_its_default(limit: int | None, turns: int) -> None:
    register_skyrl(CLAIMS, size=12)
    env = skyrl_gym.make(CLAIMS, env_config={}, extras={"task": 0, "max_turns": limit})
    env.init([])
    steps = [env.step("I think so.")]
    while not steps[-1]["done"]:
        steps.append(env.step("I think so."))
    assert (len(steps), steps[-1]["metadata"]["stop"]) == (turns, "turn_limit")


def test_a_fault_of_the_infrastructure_is_never_a_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    register_skyrl(CLAIMS, size=12)
    env = skyrl_gym.make(CLAIMS, env_config={}, extras={"task": 0})
    env.init([])

    def broken(call: Any) -> Any:
        raise ConnectionError("the index is gone")

    monkeypatch.setattr(env.session.env, "call_tool", broken)
    with pytest.raises(EpisodeFaultError, match="the index is gone"):
        env.step('<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>')


def through_the_generator(cases: list[Case], kind: Any = None, **settings: Any) -> tuple[Any, Any, list[FactTextEnv]]:
    """What SkyRL's generator makes of the cases, side by side; the engine, and the environments that it made."""
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl

    from factgym.integrations import skyrl as environment

    made: list[FactTextEnv] = []
    original = environment.FactTextEnv.init

    def init(self: FactTextEnv, prompt: Any = None) -> Any:
        made.append(self)
        return original(self, prompt)

    data, scripts = [], {}
    for index, case in enumerate(cases):
        name = register_skyrl(case.env, name=f"{case.env} here", **case.episode.config)
        prompt = [{"role": "user", "content": "the row's own"}]
        data.append({"prompt": prompt, "env_class": name, "data_source": name, "task": case.episode.task})
        scripts[f"{index}_0"] = [tiny_skyrl.written(message) for message in case.episode.messages]
    engine = tiny_skyrl.ScriptedEngine(scripts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment.FactTextEnv, "init", init)
        agent = tiny_skyrl.generator(engine, kind or tiny_skyrl.SkyRLGymGenerator, **settings)
        out = asyncio.run(agent.generate(tiny_skyrl.batch(data), disable_tqdm=True))
    assert engine.finished >= len(cases)
    return out, engine, made


def policy_texts(ids: list[int], mask: list[int]) -> list[str]:
    """The texts of the masked runs."""
    import tiny_skyrl

    runs: list[list[int]] = []
    for index, (token, own) in enumerate(zip(ids, mask, strict=True)):
        if own and (index == 0 or not mask[index - 1]):
            runs.append([])
        if own:
            runs[-1].append(token)
    return [tiny_skyrl.tokenizer().decode(run, skip_special_tokens=True) for run in runs]


@pytest.mark.parametrize("env_id", [env_id for env_id, needs in SETUPS if needs.__name__ == "nothing"])
def test_skyrls_own_generator_pays_the_same(env_id: str) -> None:
    needs = next(setup for other_id, setup in SETUPS if (other_id, setup.__name__) == (env_id, "nothing"))
    cases = [case for case in text_cases(env_id, needs) if case.task == 0]
    out, engine, made = through_the_generator(cases)
    by_task = {(env.session.task, len(env.session.env.episode.turns)): env for env in made}
    for index, case in enumerate(cases):
        if case.reference.stop == "turn_limit" and len(case.reference.answers) < case.episode.make().config.max_turns:
            continue  # the script was cut; an engine says it again
        assert sum(out["rewards"][index]) == case.reference.total
        assert out["rewards"][index][-1] == case.reference.total
        texts = [message["content"] for message in case.episode.messages][: len(case.reference.answers)]
        assert policy_texts(out["response_ids"][index], out["loss_masks"][index]) == texts
        env = by_task[case.episode.task, len(case.reference.answers)]
        report = env.session.report
        assert report is not None
        last = engine.prompts[f"{index}_0"][-1]
        for new in case.reference.answers[:-1]:
            assert all((message["content"] or "") in last for message in new)
    assert "environment/reward" in out["rollout_metrics"]


def oracle_case(env_id: str) -> Case:
    needs = next(setup for other_id, setup in SETUPS if (other_id, setup.__name__) == (env_id, "nothing"))
    return Case(env_id, needs, "texts", "oracle", 0)


@pytest.mark.parametrize("step_wise", [False, True])
@pytest.mark.parametrize("env_id", [CLAIMS, "profact", "seva", "corver-qa-search"])
def test_turn_credit_is_at_the_last_token_of_each_turn(env_id: str, step_wise: bool) -> None:
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl  # noqa: F401 - it mends what SkyRL's import needs

    from factgym.integrations.skyrl import FactGenerator

    class Credit(FactGenerator):
        turn_weight = 0.5

    case = oracle_case(env_id)
    out, _, made = through_the_generator([case], Credit, step_wise_trajectories=step_wise)
    (env,) = made
    paid: list[float] = []
    for rewards, mask in zip(out["rewards"], out["loss_masks"], strict=True):
        ends = [n for n, own in enumerate(mask) if own and not (mask[n + 1 :] or [0])[0]]
        assert all(reward == 0 for n, reward in enumerate(rewards) if n not in ends)
        paid += [rewards[n] for n in ends]
    expected = [0.5 * reward for reward in env.session.turn_rewards()]
    assert any(expected)
    assert len(expected) == len(case.reference.answers)
    assert case.reference.total is not None
    expected[-1] += case.reference.total
    assert paid == pytest.approx(expected)


@pytest.mark.parametrize(("env_id", "quarters"), [("profact", 3), ("seva-repair", 1)])
def test_a_truncated_rollout_is_scored(env_id: str, quarters: int) -> None:
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl

    from factgym.integrations.skyrl import FactGenerator

    case = oracle_case(env_id)
    uncut, _, _ = through_the_generator([case])
    cut = len(uncut["prompt_token_ids"][0]) + quarters * len(uncut["response_ids"][0]) // 4
    plain, _, _ = through_the_generator([case], max_input_length=cut)
    fact_output, _, (env,) = through_the_generator([case], FactGenerator, max_input_length=cut)
    session = Session(env_id, **case.episode.config)
    session.start(case.episode.task)
    for message in case.episode.messages[: len(env.session.env.episode.turns)]:
        session.step(message)
    expected = session.close("context_limit").total
    assert expected
    assert env.session.stop == "context_limit"
    assert sum(plain["rewards"][0]) == 0
    assert sum(fact_output["rewards"][0]) == expected
    assert fact_output["stop_reasons"] == ["length"]
    assert tiny_skyrl.tokenizer().eos_token_id == fact_output["response_ids"][0][-1]


def test_a_broken_episode_is_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl  # noqa: F401 - it mends what SkyRL's import needs

    from factgym.integrations import skyrl as environment
    from factgym.integrations.skyrl import FactGenerator

    case = oracle_case(CLAIMS)
    broken: list[int] = []
    total = environment.FactTextEnv.total

    def breaks(self: FactTextEnv) -> float:
        if len(broken) < breakages:
            broken.append(1)
            raise EpisodeFaultError("the index is gone")
        return total(self)

    monkeypatch.setattr(environment.FactTextEnv, "total", breaks)
    breakages = 1
    exploiter = Case(CLAIMS, case.needs, "texts", "exploiter", 0)
    out, _, made = through_the_generator([exploiter], FactGenerator)
    assert (len(made), sum(out["rewards"][0])) == (2, exploiter.reference.total)
    broken.clear()
    breakages = 100
    with pytest.raises(EpisodeFaultError):
        through_the_generator([exploiter], FactGenerator)
    assert len(broken) == 1 + FactGenerator.retries


def test_the_page_runs(tmp_path: Path) -> None:
    outputs = [done.stdout for _, done in run_page("skyrl", tmp_path)]
    assert any("'stop': 'submitted'" in message for message in outputs), outputs


def test_the_used_parts_of_the_framework_are_unchanged() -> None:
    assert reference_episodes.parameters(skyrl_gym.register) == ["id", "entry_point", "kwargs"]
    assert reference_episodes.parameters(skyrl_gym.make) == ["id", "kwargs"]
    assert reference_episodes.parameters(BaseTextEnv.step) == ["self", "action"]
    assert reference_episodes.parameters(BaseTextEnv.init) == ["self", "prompt"]
    assert {"max_turns", "turns"} <= vars(BaseTextEnv()).keys()
    assert registry is not None
    assert ENTRY_POINT.endswith(FactTextEnv.__name__)


def test_the_used_parts_of_the_generator_are_unchanged() -> None:
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl

    kind: Any = tiny_skyrl.SkyRLGymGenerator
    assert reference_episodes.parameters(kind._setup_env_extras)[1:3] == ["_env_class", "env_extras"]
    assert reference_episodes.parameters(kind._post_process_agent_loop_output)[1:3] == [
        "agent_loop_output",
        "_env_extras",
    ]
    source = inspect.getsource(kind.agent_loop)
    assert "env_extras = self._setup_env_extras(" in source
    assert source.index("env.get_metrics()") < source.index("self._post_process_agent_loop_output(")


def test_a_recipe_becomes_a_run_of_skyrls(tmp_path: Path) -> None:
    """The overrides of the script are fields of SkyRL's own configuration, whose checks would start Ray."""
    pytest.importorskip("skyrl", reason=NEEDS_SKYRL)
    import tiny_skyrl  # noqa: F401 - it mends what SkyRL's import needs
    from skyrl.train.config import SkyRLTrainConfig

    from factgym.training.recipes.engines import write_engine
    from factgym.training.recipes.recipe import recipe_of

    stage = {"kind": "grpo", "tasks": 6, "groups": 2, "samples": 4, "steps": 9, "credit": "grpo", "beta": 0.01}
    recipe = recipe_of({"model": "hf:Qwen/Qwen3-0.6B", "env": CLAIMS, "lora": {"rank": 8}, "stages": [stage]})
    write_engine("skyrl", recipe, tmp_path / "run")
    script = (tmp_path / "run" / "run.sh").read_text("utf-8")
    overrides = shlex.split(script.partition('train.py "$@"')[2].replace("\\\n", " "))
    values = dict(override.split("=", 1) for override in overrides)
    for key in values:
        table: Any = SkyRLTrainConfig
        for name in key.split("."):
            hints = get_type_hints(table)
            assert name in hints, key
            table = hints[name]
    assert (values["trainer.train_batch_size"], values["generator.n_samples_per_prompt"]) == ("2", "4")
    assert (values["trainer.max_training_steps"], values["trainer.policy.model.lora.rank"]) == ("9", "8")
    lines = [json.loads(line) for line in (tmp_path / "run" / "train.jsonl").read_text("utf-8").splitlines()]
    held_out = [json.loads(line) for line in (tmp_path / "run" / "validation.jsonl").read_text("utf-8").splitlines()]
    assert [line["env_class"] for line in lines] == [CLAIMS] * 6
    compile((tmp_path / "run" / "train.py").read_text("utf-8"), "train.py", "exec")
    register_skyrl(CLAIMS, name=held_out[0]["env_class"], split="validation")
    env = skyrl_gym.make(held_out[0]["env_class"], extras=held_out[0])
    assert env.init()[0] == held_out[0]["prompt"]
