"""The Inspect integration: every environment's episodes are the same through it, and what was not scored is in no mean."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="needs factgym[inspect]")

import inspect_ai
import reference_episodes
from guide_pages import run_line, run_page, shown_lines
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.model._call_tools import parse_tool_call
from inspect_ai.scorer import Score
from inspect_ai.solver import TaskState
from inspect_ai.solver._task_state import sample_state
from inspect_ai.tool import ToolCall, ToolInfo, ToolParams
from inspect_ai.util import LimitExceededError, Store
from playback import PlaybackServer, in_thread
from reference_episodes import Case, assert_same, outcome_of

import factgym
from factgym.core.episode import RewardReport, SpanCredit
from factgym.core.messages import Message
from factgym.integrations.inspect import Played, assistant_message, metric_names, score_of, task_of, tool_info
from factgym.integrations.session import Session, self_contained

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]  # the framework's own

CLAIMS = "claimcheck-multihop"
USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
"""Said, so that Inspect does not count tokens with a tokenizer that it downloads."""


def output_of(message: Message, tools: Sequence[ToolInfo] = (), stop: Any = "stop") -> ModelOutput:
    """A chat message as Inspect's providers read it."""
    calls = [
        parse_tool_call(call["id"], call["function"]["name"], call["function"]["arguments"], list(tools))
        for call in message.get("tool_calls") or []
    ]
    reply = ChatMessageAssistant(content=message["content"] or "", tool_calls=calls or None, source="generate")
    return ModelOutput(model="mock", choices=[ChatCompletionChoice(message=reply, stop_reason=stop)], usage=USAGE)


class Script:
    """A model that says the messages of the running sample, by its id, and keeps what it was shown."""

    def __init__(self, messages: dict[str, Sequence[Message]]) -> None:
        self.messages = messages
        self.requests: dict[str, list[Any]] = defaultdict(list)

    def __call__(self, messages: list[Any], tools: list[ToolInfo], *_: Any) -> ModelOutput:
        state = sample_state()
        assert state is not None
        requests = self.requests[str(state.sample_id)]
        requests.append((messages, [tool.name for tool in tools]))
        script = self.messages[str(state.sample_id)]
        if len(requests) > len(script):
            requests.pop()
            raise LimitExceededError("turn", value=len(script), limit=len(script))
        return output_of(script[len(requests) - 1], tools)

    def model(self) -> Model:
        return get_model("mockllm/model", custom_outputs=self, memoize=False)


def run(task: Task, model: Model, folder: Path, **options: Any) -> EvalLog:
    gc.freeze()
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", **options)
    gc.collect()  # the streams that Inspect leaves open, while a warning is only a warning
    return log


def report_in(sample: EvalSample) -> RewardReport:
    data = dict(sample.store["Played:report"])
    spans = tuple(SpanCredit(*span) for span in data.pop("spans"))
    return RewardReport(**{**data, "spans": spans})


def as_message(chat: Any) -> dict[str, Any]:
    """A message of Inspect's as the environment words it."""
    message = {"role": chat.role, "content": chat.text}
    if chat.role == "tool":
        message["tool_call_id"] = chat.tool_call_id
    return message


def answers(messages: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
    """The first messages, and those that answer each of the policy's."""
    groups: list[list[Any]] = [[]]
    for message in messages:
        if message.role == "assistant":
            groups.append([])
        else:
            groups[-1].append(as_message(message))
    return groups[0], groups[1:]


def cases_of(env_id: str, needs: Any) -> list[Case]:
    """All but malformed native calls, which have their own test: Inspect reads them before we do."""
    cases = reference_episodes.cases(env=env_id, needs=needs)
    return [case for case in cases if (case.kind, case.name) != ("messages", "hostile")]


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(
    env_id: str, needs: Callable[..., Any], tmp_path: Path
) -> None:
    cases = {str(case): case for case in cases_of(env_id, needs)}
    task = _task_of(cases)
    script = Script({name: case.episode.messages for name, case in cases.items()})
    log = run(task, script.model(), tmp_path)
    assert log.status == "success", log.error
    assert log.samples is not None
    for sample in log.samples:
        case = cases[str(sample.id)]
        reference = case.reference
        first, answered = answers(sample.messages)
        outcome = outcome_of(report_in(sample), first=first, answers=answered, stop=sample.store["Played:stop"])
        assert_same(reference, outcome, skip=["tools"])
        requests = script.requests[str(sample.id)]
        assert len(requests) == len(reference.answers)
        for (messages, _), prompt in zip(requests, case.prompts, strict=True):
            assert [(message.role, message.text) for message in messages] == [
                (message["role"], message["content"] or "") for message in prompt
            ]
        assert [names for _, names in requests[1:]] == reference.tools[: len(requests) - 1]
        _check_score(sample, case)


def _task_of(cases: dict[str, Case]) -> Task:
    """A task whose samples are the cases: the same solver and scorer, one environment, ids of ours."""
    episode = next(iter(cases.values())).episode
    task = task_of(episode.env)(**_plain(episode.env, episode.config))
    samples = {sample.id: sample for sample in task.dataset}
    task.dataset = MemoryDataset(
        [
            Sample(id=name, input=samples[case.episode.task].input, metadata=samples[case.episode.task].metadata)
            for name, case in cases.items()
        ]
    )
    return task


def _plain(env_id: str, config: dict[str, Any]) -> dict[str, Any]:
    fit = inspect.signature(task_of(env_id)).parameters
    if not config.keys() <= fit.keys():
        pytest.skip(f"{env_id} is made with an object here, which no flag can say: {config.keys() - fit.keys()}")
    return config


def _check_score(sample: EvalSample, case: Case) -> None:
    (score,) = (sample.scores or {}).values()
    value, reference = score.value, case.reference
    assert isinstance(value, dict)
    assert value["reward"] == reference.total
    assert {name: value[name] for name in reference.components} == reference.components
    assert score.metadata is not None
    credit = sum(span[3] for span in reference.spans)
    assert sum(score.metadata["turn_rewards"]) == pytest.approx(credit)


@pytest.mark.parametrize("env_id", self_contained())
def test_malformed_calls_are_the_environments_to_refuse(env_id: str, tmp_path: Path) -> None:
    hostile = reference_episodes.cases("messages", env=env_id, name="hostile", files=False)
    cases = {str(case): case for case in hostile}
    log = run(_task_of(cases), Script({name: case.episode.messages for name, case in cases.items()}).model(), tmp_path)
    assert log.status == "success"
    for sample in log.samples or []:
        reference = cases[str(sample.id)].reference
        report = report_in(sample)
        assert (report.total, report.status, sample.store["Played:stop"]) == (
            reference.total,
            reference.status,
            reference.stop,
        )


def test_arguments_that_inspect_cannot_read_are_refused_in_the_environments_words() -> None:
    session = Session(CLAIMS)
    session.start(0)
    call = parse_tool_call("a", "search", '{"query": ', [tool_info(tool) for tool in session.tools()])
    assert call.parse_error
    (answer,) = session.step(assistant_message(ChatMessageAssistant(content="", tool_calls=[call])))
    assert "Error (invalid_json)" in (answer["content"] or "")
    nan = ToolCall(id="b", function="search", arguments={"query": math.nan})
    (answer,) = session.step(assistant_message(ChatMessageAssistant(content="", tool_calls=[nan])))
    assert "Error (" in (answer["content"] or "")


@reference_episodes.each_setup
def test_providers_get_the_environments_own_schemas(env_id: str, needs: Callable[..., Any]) -> None:
    for schema in Session(env_id, **reference_episodes.config_of(env_id, needs)).all_tools():
        function = schema["function"]
        sent = tool_info(schema).model_dump(exclude_none=True)
        assert (sent["name"], sent["description"]) == (function["name"], function["description"])
        assert _without_title(sent["parameters"]) == _without_title(_closed(function["parameters"]))


def _closed(parameters: dict[str, Any]) -> dict[str, Any]:
    return {"additionalProperties": False, "properties": {}, "required": [], **parameters}


def _without_title(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_title(item) for key, item in value.items() if key not in DROPPED or key == "properties"}
    return [_without_title(item) for item in value] if isinstance(value, list) else value


DROPPED = ("title", "minItems", "maxItems", "uniqueItems")
"""What Inspect's type of schemas has no field for."""


def test_a_limit_of_inspects_ends_the_episode_and_it_is_scored(tmp_path: Path) -> None:
    cases = {str(case): case for case in reference_episodes.cases("messages", env=CLAIMS, name="honest")}
    script = Script({name: case.episode.messages for name, case in cases.items()})
    log = run(_task_of(cases), script.model(), tmp_path, message_limit=4)
    assert log.status == "success"
    for sample in log.samples or []:
        assert sample.limit is not None
        assert sample.limit.type == "message"
        assert sample.store["Played:stop"] == "turn_limit"
        (score,) = (sample.scores or {}).values()
        assert isinstance(score.value, dict)
        assert (score.value["reward"], score.value["truncated"]) == (0.0, 1.0)
        assert score.value["turns"] < len(cases[str(sample.id)].reference.answers)
    tokens = run(_task_of(cases), Script(script.messages).model(), tmp_path, token_limit=3)
    assert {sample.store["Played:stop"] for sample in tokens.samples or []} == {"length_limit"}

    async def slow(*_: Any) -> ModelOutput:
        await asyncio.sleep(30)
        raise AssertionError("the limit of time did not hold")

    late = run(_task_of(cases), get_model("mockllm/model", custom_outputs=slow, memoize=False), tmp_path, time_limit=1)
    assert late.status == "success"
    assert {sample.store["Played:stop"] for sample in late.samples or []} == {"length_limit"}
    assert all(sample.scores for sample in late.samples or [])


def test_a_prompt_that_does_not_fit_ends_the_episode(tmp_path: Path) -> None:
    model = get_model(
        "mockllm/model",
        memoize=False,
        custom_outputs=lambda *_: output_of({"role": "assistant", "content": "too long"}, stop="model_length"),
    )
    log = run(task_of(CLAIMS)(size=20), model, tmp_path, limit=1)
    (sample,) = log.samples or []
    assert (sample.store["Played:stop"], sample.store["Played:metrics"]["turns"]) == ("context_limit", 0)


def test_faults_are_errors_of_their_samples_and_in_no_mean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

    cases = {str(case): case for case in reference_episodes.cases("calls", env=CLAIMS, name="oracle")}
    broken = next(iter(cases))
    real_score = ClaimCheckEnv.score

    def fail(self: Any) -> Any:
        if self.task.id == cases[broken].episode.task and len(self.episode.turns) > 0:
            raise ConnectionResetError("the index is gone")
        return real_score(self)

    task = _task_of(cases)
    script = Script({name: case.episode.messages for name, case in cases.items()})
    monkeypatch.setattr(ClaimCheckEnv, "score", fail)
    log = run(task, script.model(), tmp_path, fail_on_error=False)
    by_id = {sample.id: sample for sample in log.samples or []}
    assert by_id[broken].error is not None
    assert "the index is gone" in by_id[broken].error.message
    assert not by_id[broken].scores
    assert log.results is not None
    reward = next(score for score in log.results.scores if score.name == "reward")
    scored = [case.reference.total for name, case in cases.items() if name != broken]
    assert reward.metrics["mean"].value == pytest.approx(sum(scored) / len(scored))


def test_an_unscored_episode_has_no_value() -> None:
    session = Session(CLAIMS)
    session.start(0)
    session.fail("gone")
    assert session.report is not None
    score = score_of(Store({"Played:report": session.report.to_dict()}), ["reward"])
    assert isinstance(score.value, float)
    assert math.isnan(score.value)
    assert score.explanation == "gone"
    assert math.isnan(score_of(Store(), ["reward"]).as_float())


def test_a_metric_that_an_episode_lacks_is_not_in_its_mean() -> None:
    store = Store({"Played:report": {"total": 0.5, "error": None}, "Played:metrics": {"verdict": 1.0}})
    value = score_of(store, ["reward", "verdict", "quote"]).value
    assert isinstance(value, dict)
    assert (value["reward"], value["verdict"]) == (0.5, 1.0)
    assert math.isnan(value["quote"])


def test_every_environment_has_a_task_with_typed_arguments() -> None:
    for env_id in factgym.list_envs():
        made = task_of(env_id)
        assert inspect_ai._util.registry.registry_info(made).name == f"factgym/{env_id}"
    task = task_of(CLAIMS)(split="validation", size=30, rules={"min_quote_chars": 20})
    assert len(task.dataset) == 30
    for wrong, message in (
        ({"splt": "test"}, "Did you mean 'split'"),
        ({"split": "tset"}, "Did you mean 'test'"),
        ({"size": "many"}, "size should be a valid integer"),
    ):
        with pytest.raises(inspect_ai._util.error.PrerequisiteError, match=message):
            task_of(CLAIMS)(**wrong)


@pytest.mark.parametrize("env_id", self_contained())
def test_the_metrics_are_named_before_the_first_episode(env_id: str) -> None:
    names = set(metric_names(Session(env_id)))
    for case in reference_episodes.cases(env=env_id, files=False):
        assert case.reference.components.keys() <= names


@pytest.fixture
def server() -> Iterator[tuple[PlaybackServer, str]]:
    served = PlaybackServer()
    with in_thread(served) as url:
        yield served, url


def test_the_command_plays_against_a_server_and_its_log_holds_components_and_evidence(
    server: tuple[PlaybackServer, str], tmp_path: Path
) -> None:
    served, url = server
    case = reference_episodes.cases("messages", env=CLAIMS, name="honest")[0]
    served.script["honest"] = case.episode.messages
    command = [
        *("inspect", "eval", f"factgym/{CLAIMS}", "--model", "openai-api/local/honest", "--model-base-url", url),
        *("-M", "api_key=none", "--sample-id", case.episode.task, "--display", "none", "--log-dir", str(tmp_path)),
    ]
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (file,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(file))
    assert log.status == "success", log.error
    (sample,) = log.samples or []
    reference = case.reference
    assert report_in(sample).to_dict()["spans"] == reference.spans
    assert sample.store["Played:report"]["components"] == reference.components
    assert sample.store_as(Played).task_view["gold"]
    requests = [_shape(request["messages"]) for request in served.bodies["honest"]]
    assert requests == [_shape(prompt) for prompt in case.prompts[: len(requests)]]
    assert len(requests) == len(reference.answers)
    metrics = {score.name: score.metrics for score in (log.results.scores if log.results else [])}
    assert metrics.keys() >= {"reward", *reference.components}
    assert metrics["reward"].keys() == {"mean", "stderr"}
    assert metrics["reward"]["mean"].value == reference.total


def _shape(messages: Sequence[Any]) -> list[Any]:
    """Role, text and calls of each message, which is what a server is sent."""
    shape = []
    for message in messages:
        calls = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or []
        ]
        role = "system" if message["role"] == "developer" else message["role"]
        shape.append((role, message.get("content") or "", calls, message.get("tool_call_id")))
    return shape


def test_the_page_runs(server: tuple[PlaybackServer, str], tmp_path: Path) -> None:
    outputs = [done.stdout for _, done in run_page("inspect", tmp_path, {"http://127.0.0.1:8000/v1": server[1]})]
    assert any("reward" in message for message in outputs)


def test_the_lines_for_the_register_run(server: tuple[PlaybackServer, str], tmp_path: Path) -> None:
    (entries,) = shown_lines("inspect", "python -m factgym.integrations.registers")
    for name, value in {"FULL_SHA": "0123456789" * 4, "OWNER/NAME": "example/factgym", "…": "2404.10774"}.items():
        entries = entries.replace(name, value)
    run_line(entries, tmp_path)
    entry = tmp_path / "registers/inspect_evals/register/factgym_claimcheck_multihop/eval.yaml"
    assert "https://github.com/example/factgym/blob/" in entry.read_text("utf-8").splitlines()[0]
    (play,) = shown_lines("inspect", "inspect eval")
    model = f"openai-api/local/claimcheck-script --model-base-url {server[1]} -M api_key=none --limit 1 --display plain"
    play = play.replace("examples/", f"{Path(__file__).resolve().parents[2]}/examples/").replace("…", model)
    assert "reward" in run_line(play, tmp_path).stdout


def test_the_used_parts_of_the_framework_are_unchanged() -> None:
    assert reference_episodes.parameters(ModelAPI.generate) == ["self", "input", "tools", "tool_choice", "config"]
    assert reference_episodes.parameters(Model.generate)[:3] == ["self", "input", "tools"]
    assert {"dataset", "solver", "scorer", "metrics", "name", "version", "metadata"} <= set(
        reference_episodes.parameters(Task.__init__)
    )
    assert {"value", "answer", "explanation", "reason", "metadata"} <= Score.model_fields.keys()
    assert reference_episodes.parameters(Score.unscored) == ["reason", "answer", "explanation", "metadata"]
    assert {"id", "function", "arguments", "parse_error"} <= set(reference_episodes.parameters(ToolCall))
    assert {"name", "description", "parameters"} <= ToolInfo.model_fields.keys()
    assert {"properties", "required", "additionalProperties"} <= ToolParams.model_fields.keys()
    assert {"model_length"} <= set(ModelOutput.stop_reason.fget.__annotations__["return"].__args__)
    assert reference_episodes.parameters(TaskState.store_as) == ["self", "model_cls", "instance"]
    assert "name" in reference_episodes.parameters(task)
    assert reference_episodes.parameters(LimitExceededError.__init__)[:2] == ["self", "type"]
