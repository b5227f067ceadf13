"""The OpenEnv integration: every environment's episodes are the same through it, over a real socket; and the folder for its hub."""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv.core", reason="needs factgym[openenv]")
pytest.importorskip("openenv.validation", reason="needs factgym[openenv]")

import reference_episodes
import requests
from guide_pages import run_page, shown_lines
from openenv.cli._validation import validate_multi_mode_deployment
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import HTTPEnvServer, create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
from openenv.core.generic_client import GenericEnvClient
from openenv.validation import Level, Verdict, run_validation
from openenv.validation.types import ProviderCapability
from openenv_served import COMMAND, in_process, in_thread
from reference_episodes import Case, Outcome, assert_same
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

from factgym.core.errors import ConfigError, EpisodeOverError
from factgym.integrations.openenv import FactAction, FactClient, ServerLostError, environment_class, write_folder
from factgym.integrations.session import EPISODE_OVER, Session, self_contained, training_config

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

CLAIMS = "claimcheck-multihop"


def play(client: Any, case: Case) -> Outcome:
    """The case's episode through a client; what the policy sees is checked on the way."""
    result = client.reset(task=case.episode.task)
    first = result.observation.messages
    transcript: list[Any] = list(first)
    answers, tools, paid = [], [], []
    for message, prompt in zip(case.episode.messages, case.prompts, strict=False):
        visible = result.observation.prompt
        assert [message["content"] for message in (transcript if visible is None else visible)] == [
            message["content"] for message in prompt
        ]
        result = client.step(dict(message))
        transcript += [message, *result.observation.messages]
        answers.append(result.observation.messages)
        tools.append([tool["function"]["name"] for tool in result.observation.tools])
        paid.append(result.reward)
        if result.done:
            break
    if not result.done:
        result = client.step(FactAction(stop="turn_limit"))
        paid.append(result.reward)
    report = result.observation.report
    assert paid[:-1] == [0.0] * (len(paid) - 1)
    assert paid[-1] == report["total"]
    assert client.state().step_count == len(paid)
    return Outcome(
        first=first,
        answers=answers,
        tools=tools,
        total=result.reward,
        status=report["status"],
        components=report["components"],
        spans=report["spans"],
        metrics=report["metrics"],
        stop=result.observation.stop,
    )


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_the_integration(env_id: str, needs: Callable[..., Any]) -> None:
    cases = reference_episodes.cases(env=env_id, needs=needs)
    with in_thread(env_id, reference_episodes.config_of(env_id, needs)) as url, FactClient(url).sync() as client:
        for case in cases:
            assert_same(case.reference, play(client, case))


def oracle_case(env_id: str) -> Case:
    return reference_episodes.cases("calls", env=env_id, name="oracle")[0]


def test_clients_without_our_classes_get_the_same() -> None:
    case = oracle_case(CLAIMS)
    with in_thread(CLAIMS, case.episode.config) as url, GenericEnvClient(base_url=url).sync() as client:
        result = client.reset(task=case.episode.task)
        for name, arguments in case.episode.calls():
            result = client.step({"tool": name, "arguments": json.loads(arguments)})
        assert (result.done, result.reward) == (True, case.reference.total)
        assert result.observation["report"]["components"] == case.reference.components
        after = client.step({"text": "more"})
        assert (after.done, after.reward, after.observation["messages"][0]["content"]) == (True, 0.0, EPISODE_OVER)


def test_sessions_at_once_are_episodes_of_their_own() -> None:
    cases = [
        case for case in reference_episodes.cases("calls", tasks=4) if case.env == "seva" and case.name != "refused"
    ]

    def play_case(url: str, case: Case) -> None:
        with FactClient(url).sync() as client:
            assert_same(case.reference, play(client, case))

    for case in cases:
        assert case.reference.answers  # recorded before the threads begin
    with (
        in_thread("seva", {"split": "validation"}, max_sessions=len(cases)) as url,
        ThreadPoolExecutor(len(cases)) as pool,
    ):
        list(pool.map(lambda case: play_case(url, case), cases))


def test_resets_without_a_task_go_through_all_of_them() -> None:
    with in_thread(CLAIMS, {"size": 12}, seed=5) as url, FactClient(url).sync() as client:
        size = requests.post(f"{url}/{CLAIMS}/num_tasks", json={"split": "train"}, timeout=10).json()["num_tasks"]
        first = [client.reset().observation.task for _ in range(size)]
        again = [client.reset().observation.task for _ in range(size)]
        listed = requests.post(f"{url}/{CLAIMS}/tasks", json={"split": "train"}, timeout=10).json()["tasks"]
        assert sorted(first) == sorted(task["id"] for task in listed)
        assert again == first
        assert client.reset(split="train", index=3).observation.task == listed[3]["id"]
        seeded = [client.reset(seed=11).observation.task for _ in range(2)]
        assert seeded[0] == seeded[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"taks": 1}, "Did you mean 'task'"),
        ({"task": "nothing-like-it"}, "there is no task"),
        ({"task": -1}, "there is no task"),
        ({"index": 10**9}, "there is no task"),
        ({"split": "tset", "index": 0}, "plays the split 'train', not 'tset'"),
        ({"seed": "x"}, "seed is a whole number"),
        ({"seed": True}, "seed is a whole number"),
        ({"episode_id": "x" * 1000}, "at most 255"),
    ],
)
def test_an_impossible_reset_is_refused_with_a_reason(arguments: dict[str, Any], message: str) -> None:
    env = environment_class(CLAIMS, {"size": 12})()
    with pytest.raises(ValueError, match=message):
        env.reset(**arguments)


def test_a_session_that_is_at_capacity_is_refused_and_a_closed_one_is_free() -> None:
    with in_thread(CLAIMS, {"size": 12}, max_sessions=2) as url:
        first, second, third = (FactClient(url).sync() for _ in range(3))
        first.reset()
        second.reset()
        with pytest.raises(RuntimeError, match=r"2/2 sessions active.*CAPACITY_REACHED"), third:
            third.reset()
        first.close()
        with FactClient(url).sync() as fourth:
            while True:  # the server hears of the first one's leaving in its own time
                try:
                    assert not fourth.reset().done
                    break
                except RuntimeError as error:
                    assert "CAPACITY_REACHED" in str(error)
        second.close()


def test_a_silent_session_is_ended_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Session]] = []
    construct = Session.__init__

    def record(session: Session, *args: Any, **kwargs: Any) -> None:
        construct(session, *args, **kwargs)
        made.append(weakref.ref(session))

    with in_thread(CLAIMS, {"size": 12}, idle_seconds=0.2) as url, FactClient(url).sync() as client:
        monkeypatch.setattr(Session, "__init__", record)
        client.reset()
        assert len(made) == 1
        for _ in range(200):  # OpenEnv looks every five seconds at the least
            gc.collect()
            if made[0]() is None:
                break
            time.sleep(0.1)
        assert made[0]() is None
        with pytest.raises(RuntimeError, match="idle for too long: connect again"):
            client.step("hello")


def test_a_dead_server_is_a_server_lost_error_and_a_restarted_one_serves_again() -> None:
    with in_process(CLAIMS, "--set", "size=12", "--port", "0") as (url, process):
        port = url.rsplit(":", 1)[1]
        client = FactClient(url.replace("//", "//me:hunter2@")).sync()
        client.reset()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        with pytest.raises(ServerLostError, match="start one with `factgym serve openenv ENV`") as lost:
            client.step("hello")
        assert "hunter2" not in str(lost.value)
    with in_process(CLAIMS, "--set", "size=12", "--port", port):
        with pytest.raises(RuntimeError, match="there is no episode yet"):
            client.step("hello")
        assert not client.reset().done
    client.close()


def test_a_broken_or_silent_connection_is_a_server_lost_error() -> None:
    with serve(lambda socket: socket.recv(), "127.0.0.1", 0) as server:  # hears one request, and hangs up
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        with FactClient(url).sync() as client, pytest.raises(ServerLostError, match="closed the connection"):
            client.reset()
        server.shutdown()
    with serve(lambda socket: socket.recv() and socket.recv(), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        slow = FactClient(url, message_timeout_s=0.2).sync()
        with slow, pytest.raises(ServerLostError, match=r"did not answer in 0\.2 s"):
            slow.reset()
        server.shutdown()


def test_messages_have_bounds_and_nothing_is_logged() -> None:
    words = ["--set", "size=12", "--port", "0", "--max-message-mb", "0.5"]
    with in_process(CLAIMS, *words) as (url, process):
        with FactClient(url).sync() as client:
            client.reset()
            with pytest.raises(ServerLostError, match="--max-message-mb"):
                client.step("x" * 600_000)
            assert client.reset().observation.turns_left == 12
        big = requests.post(f"{url}/step", json={"action": {"text": "x" * 600_000}}, timeout=10)
        assert (big.status_code, "524,288 bytes" in big.text) == (413, True)
        plain = requests.post(f"{url}/step", json={"action": {"text": "x"}}, timeout=10)
        assert (plain.status_code, "play over the socket at /ws" in plain.text) == (400, True)
        socket = f"{url.replace('http', 'ws')}/ws"
        for raw in ("[]", "{", '{"type": "step", "data": {"text": "a", "tool": "b"}}', "[" * 100_000):
            with connect(socket) as connection:
                connection.send(raw)
                assert json.loads(connection.recv())["type"] == "error"
        with connect(f"{socket}?session_id=hunter2") as connection:
            assert json.loads(connection.recv())["type"] == "error"
        assert requests.get(f"{url}/health", timeout=10).json() == {"status": "healthy"}
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 143


@pytest.mark.parametrize("text", ["half a \ud83d character", "nul \x00", "x" * 300_000, "<tool_call>" * 9000])
def test_no_text_of_a_policys_is_an_error_of_the_wire(text: str) -> None:
    with in_thread(CLAIMS, {"size": 12}) as url, FactClient(url).sync() as client:
        client.reset()
        call = {"id": "a", "type": "function", "function": {"name": text, "arguments": text}}
        for action in (text, {"role": "assistant", "content": None, "tool_calls": [call]}, {"tool": text}):
            result = client.step(action)
            assert result.observation.error is not None
        assert client.state().step_count == 3
    assert FactAction(text="half a \ud83d character").text == "half a \ufffd character"


def test_a_fault_of_the_infrastructure_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = environment_class(CLAIMS, {"size": 12})
    env = kind()
    env.reset(task=0)
    assert env._session is not None

    def broken(call: Any) -> Any:
        raise ConnectionError("the index is gone")

    monkeypatch.setattr(env._session.env, "call_tool", broken)
    observation = env.step(FactAction(tool="search", arguments={"query": "x"}))
    assert (observation.done, observation.reward, observation.stop) == (True, None, "error")
    assert observation.report is not None
    assert (observation.report["status"], "the index is gone" in observation.report["error"]) == ("error", True)
    env.close()
    with pytest.raises(EpisodeOverError, match="connect again"):
        env.step(FactAction(text="more"))


def test_openenv_validates_what_is_served() -> None:
    with in_process(CLAIMS, "--set", "size=12", "--port", "0") as (url, _):
        tool = Path(sys.executable).with_name("openenv")
        done = subprocess.run([tool, "validate", "--url", url], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASS")) == (0, 7), done.stdout + done.stderr
    assert "FAIL" not in done.stdout


def test_a_failed_start_is_one_line() -> None:
    with in_thread(CLAIMS, {"size": 12}) as url:
        used_port = url.rsplit(":", 1)[1]
        for words, message in (
            (["--set", "spilt=1"], "Did you mean 'split'"),
            (["--port", used_port], "another --port"),
        ):
            done = subprocess.run([*COMMAND, CLAIMS, *words], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert message in done.stderr


def test_the_page_runs(tmp_path: Path) -> None:
    """Against the server of the line that this page and that of the recipes show."""
    (line,) = {*shown_lines("openenv"), *shown_lines("recipes", "factgym serve")}
    with in_process(*line.split()[3:], "--port", "0") as (url, _):
        outputs = [done.stdout for _, done in run_page("openenv", tmp_path, {"http://127.0.0.1:8000": url})]
    assert any(message.startswith("True ") or "\nTrue " in message for message in outputs), outputs
    assert any("Verdict: PASS" in message for message in outputs)


def test_the_used_parts_of_the_framework_are_unchanged() -> None:
    required = {"env", "action_cls", "observation_cls", "env_name", "concurrency_config", "state_cls"}
    assert required <= set(reference_episodes.parameters(create_app))
    assert reference_episodes.parameters(Environment.reset) == ["self", "seed", "episode_id", "kwargs"]
    assert reference_episodes.parameters(Environment.step) == ["self", "action", "timeout_s", "kwargs"]
    assert reference_episodes.parameters(Environment.close) == ["self"]
    assert {"max_concurrent_envs", "session_timeout"} == set(ConcurrencyConfig.model_fields)
    assert set(Action.model_fields) == {"metadata"}
    assert set(Observation.model_fields) == {"done", "reward", "metadata"}
    assert set(State.model_fields) == {"episode_id", "step_count"}
    assert {"name", "description", "readme_content", "version", "author"} <= set(EnvironmentMetadata.model_fields)
    assert reference_episodes.parameters(StepResult) == ["observation", "reward", "done", "metadata"]
    for name in ("_step_payload", "_parse_result", "_parse_state", "_connect_async", "_send_and_receive"):
        assert callable(getattr(EnvClient, name))
    assert "_message_timeout" in inspect.getsource(EnvClient.__init__)
    for name in ("list_splits", "num_tasks", "list_tasks", "get_task", "get_task_range"):
        assert f'"{name}"' in inspect.getsource(HTTPEnvServer.register_routes)


@pytest.mark.parametrize("env_id", self_contained())
def test_every_environments_folder_is_green(env_id: str, tmp_path: Path) -> None:
    write_folder(env_id, {}, tmp_path)
    report = run_validation(tmp_path, max_level=Level.STATIC)
    assert report.verdict is Verdict.PASS, report.results
    assert report.manifest is not None
    env = Session(env_id, **training_config(env_id, strict=False)).env
    assert report.manifest.reward.range == env.reward_bounds
    assert list(report.manifest.capabilities.declared_task_count.values()) == [len(env.tasks)]
    ready, issues = validate_multi_mode_deployment(tmp_path)
    assert issues == ["Missing uv.lock - run 'uv lock' to generate it"], (ready, issues)


class _Here:
    """In the place of Docker: the folder's own server, as a process of this machine."""

    name = "here"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"no-network"})

    def build(self, root: Path, execution: Any) -> str:
        assert (root / execution.dockerfile).is_file()
        self.root = root
        return "sha256:" + "0" * 64

    def start(self, spec: Any) -> _Here:
        # A port that the machine chose is asked for again: `server.app` takes none.
        import socket

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "server.app", "--host", "127.0.0.1", "--port", str(port)]
        self.process = subprocess.Popen(command, cwd=self.root, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.base_url}/health", timeout=1)
                return self
            except (urllib.error.URLError, TimeoutError):
                assert self.process.poll() is None
                time.sleep(0.1)
        raise AssertionError("the folder's server does not start")

    def inspect(self) -> dict[str, Any]:
        return {}

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.mark.parametrize("env_id", ["claimcheck-multihop", "profact", "corver-qa"])
def test_the_folders_server_keeps_openenvs_runtime_contract(env_id: str, tmp_path: Path) -> None:
    command = [*COMMAND, env_id, "--folder", str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("\n")) == (0, 8), done.stderr
    report = run_validation(tmp_path / "made", provider=_Here())
    checks = {check.check_id: (check.status.value, check.evidence) for check in report.results}
    names = ("startup", "reward_well_formed", "observation_schema", "state_contract")
    assert [checks[f"runtime.{name}"][0] for name in names] == ["pass"] * 4, checks
    assert "fail" not in {status for status, _ in checks.values()}
    assert report.verdict is Verdict.WARN  # checks that OpenEnv has named and not written


def test_settings_are_written_to_the_folder_and_other_files_are_not_overwritten(tmp_path: Path) -> None:
    write_folder("claimcheck-multihop", {"haystack": True, "size": 12}, tmp_path / "made", max_sessions=3)
    text = (tmp_path / "made" / "server" / "app.py").read_text("utf-8")
    assert "app_of('claimcheck-multihop', {'haystack': True, 'size': 12}, seed=0, max_sessions=3" in text
    write_folder("seva", {}, tmp_path / "made")  # its own may be written again
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="holds other files"):
        write_folder("seva", {}, tmp_path / "mine")
    with pytest.raises(ConfigError, match="is a file"):
        write_folder("seva", {}, tmp_path / "mine" / "notes.txt")
    with pytest.raises(ConfigError, match="spilt"):
        write_folder("seva", {"spilt": 1}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_token_guards_requests_and_episodes() -> None:
    token = "a-token-of-some-length"
    with in_process(CLAIMS, "--set", "size=12", "--port", "0", "--token", token) as (url, _):
        for wrong in ({}, {"Authorization": f"Bearer {token}x"}, {"Authorization": f"Basic {token}"}):
            assert requests.get(f"{url}/health", headers=wrong, timeout=30).status_code == 401
            with pytest.raises(InvalidStatus, match="401"):
                connect(f"{url.replace('http', 'ws', 1)}/ws", additional_headers=wrong)
        right = {"Authorization": f"Bearer {token}"}
        assert requests.get(f"{url}/health", headers=right, timeout=30).status_code == 200
        with connect(f"{url.replace('http', 'ws', 1)}/ws", additional_headers=right) as socket:
            socket.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
            assert "error" not in json.loads(socket.recv(30))["type"]


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("localhost", 200), ("mine.example:8000", 200), ("a.hf.space", 200)]
)
def test_a_folders_server_answers_under_its_own_names_alone(
    monkeypatch: pytest.MonkeyPatch, host: str, status: int
) -> None:
    """As in its container: the application with the folder's arguments, under any server."""
    monkeypatch.setenv("FACTGYM_ALLOW_HOST", "mine.example, other.example")
    monkeypatch.setenv("SPACE_HOST", "a.hf.space")
    with in_thread(CLAIMS) as url:
        request = urllib.request.Request(f"{url}/health", headers={"Host": host})
        try:
            answer = urllib.request.urlopen(request, timeout=30).status
        except urllib.error.HTTPError as error:
            answer = error.code
    assert answer == status
