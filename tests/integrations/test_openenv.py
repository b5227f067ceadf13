"""The OpenEnv integration: every environment's episodes are the same through it, over a real socket."""

from __future__ import annotations

import gc
import inspect
import json
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv.core", reason="needs factgym[openenv]")

import requests
import same_episodes
from conformance.setups import SETUPS
from guide_pages import run_page
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import HTTPEnvServer, create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
from openenv.core.generic_client import GenericEnvClient
from openenv_served import COMMAND, in_process, in_thread
from same_episodes import Case, Outcome, assert_same
from websockets.sync.client import connect
from websockets.sync.server import serve

from factgym.core.errors import EpisodeOverError
from factgym.integrations.openenv import FactAction, FactClient, ServerLostError, environment_class
from factgym.integrations.openenv.server import Served
from factgym.integrations.session import OVER, Session

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

CLAIMS = "claimcheck-multihop"
SETUP_IDS = [f"{env_id}-{needs.__name__}".removesuffix("-nothing") for env_id, needs in SETUPS]


def play(client: Any, case: Case) -> Outcome:
    """The case's episode through a client; what the policy sees is checked on the way."""
    result = client.reset(task=case.episode.task)
    first = result.observation.messages
    whole: list[Any] = list(first)
    said, tools, paid = [], [], []
    for message, prompt in zip(case.episode.messages, case.prompts, strict=False):
        shown = result.observation.prompt
        assert [one["content"] for one in (whole if shown is None else shown)] == [one["content"] for one in prompt]
        result = client.step(dict(message))
        whole += [message, *result.observation.messages]
        said.append(result.observation.messages)
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
        said=said,
        tools=tools,
        total=result.reward,
        status=report["status"],
        components=report["components"],
        spans=report["spans"],
        metrics=report["metrics"],
        stop=result.observation.stop,
    )


@pytest.mark.parametrize(("env_id", "needs"), SETUPS, ids=SETUP_IDS)
def test_every_episode_is_the_same_through_the_door(env_id: str, needs: Callable[..., Any]) -> None:
    cases = [one for one in same_episodes.cases() if (one.env, one.needs) == (env_id, needs)]
    with in_thread(env_id, same_episodes.config_of(env_id, needs)) as url, FactClient(url).sync() as client:
        for case in cases:
            assert_same(case.reference, play(client, case))


def oracle_case(env_id: str) -> Case:
    return next(one for one in same_episodes.cases("calls") if (one.env, one.name) == (env_id, "oracle"))


def test_clients_without_our_classes_get_the_same() -> None:
    case = oracle_case(CLAIMS)
    with in_thread(CLAIMS) as url, GenericEnvClient(base_url=url).sync() as client:
        result = client.reset(task=case.episode.task)
        for name, arguments in case.episode.calls():
            result = client.step({"tool": name, "arguments": json.loads(arguments)})
        assert (result.done, result.reward) == (True, case.reference.total)
        assert result.observation["report"]["components"] == case.reference.components
        after = client.step({"text": "more"})
        assert (after.done, after.reward, after.observation["messages"][0]["content"]) == (True, 0.0, OVER)


def test_sessions_at_once_are_episodes_of_their_own() -> None:
    cases = [one for one in same_episodes.cases("calls", tasks=4) if one.env == "seva" and one.name != "refused"]

    def one(url: str, case: Case) -> None:
        with FactClient(url).sync() as client:
            assert_same(case.reference, play(client, case))

    for case in cases:
        assert case.reference.said  # recorded before the threads begin
    with in_thread("seva", max_sessions=len(cases)) as url, ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(lambda case: one(url, case), cases))


def test_resets_without_a_task_go_through_all_of_them() -> None:
    with in_thread(CLAIMS, {"size": 12}, seed=5) as url, FactClient(url).sync() as client:
        size = requests.post(f"{url}/{CLAIMS}/num_tasks", json={"split": "all"}, timeout=10).json()["num_tasks"]
        first = [client.reset().observation.task for _ in range(size)]
        again = [client.reset().observation.task for _ in range(size)]
        listed = requests.post(f"{url}/{CLAIMS}/tasks", json={"split": "all"}, timeout=10).json()["tasks"]
        assert sorted(first) == sorted(one["id"] for one in listed)
        assert again == first
        assert client.reset(split="all", index=3).observation.task == listed[3]["id"]
        seeded = [client.reset(seed=11).observation.task for _ in range(2)]
        assert seeded[0] == seeded[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"taks": 1}, "Did you mean 'task'"),
        ({"task": "nothing-like-it"}, "there is no task"),
        ({"task": -1}, "there is no task"),
        ({"index": 10**9}, "there is no task"),
        ({"split": "tset", "index": 0}, "plays the split 'all', not 'tset'"),
        ({"seed": "x"}, "seed is a whole number"),
        ({"seed": True}, "seed is a whole number"),
        ({"episode_id": "x" * 1000}, "at most 255"),
    ],
)
def test_a_reset_that_cannot_be_is_refused_in_words(given: dict[str, Any], said: str) -> None:
    env = environment_class(CLAIMS, {"size": 12})()
    with pytest.raises(ValueError, match=said):
        env.reset(**given)


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
    session = Served.session

    def kept_in_sight(served: Served) -> Session:
        found = session(served)
        made.append(weakref.ref(found))
        return found

    with in_thread(CLAIMS, {"size": 12}, idle_seconds=0.2) as url, FactClient(url).sync() as client:
        monkeypatch.setattr(Served, "session", kept_in_sight)
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


def test_a_server_that_dies_is_an_error_in_words_and_no_policys_fault() -> None:
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


def test_a_connection_that_breaks_off_or_is_silent_is_an_error_in_words() -> None:
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
        assert (big.status_code, "524288 bytes" in big.text) == (413, True)
        plain = requests.post(f"{url}/step", json={"action": {"text": "x"}}, timeout=10)
        assert (plain.status_code, "play over the socket at /ws" in plain.text) == (400, True)
        socket = f"{url.replace('http', 'ws')}/ws"
        for raw in ("[]", "{", '{"type": "step", "data": {"text": "a", "tool": "b"}}', "[" * 100_000):
            with connect(socket) as one:
                one.send(raw)
                assert json.loads(one.recv())["type"] == "error"
        with connect(f"{socket}?session_id=hunter2") as one:
            assert json.loads(one.recv())["type"] == "error"
        assert requests.get(f"{url}/health", timeout=10).json() == {"status": "healthy"}
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("text", ["half a \ud83d character", "nul \x00", "x" * 300_000, "<tool_call>" * 9000])
def test_no_text_of_a_policys_is_an_error_of_the_wire(text: str) -> None:
    with in_thread(CLAIMS, {"size": 12}) as url, FactClient(url).sync() as client:
        client.reset()
        call = {"id": "a", "type": "function", "function": {"name": text, "arguments": text}}
        for said in (text, {"role": "assistant", "content": None, "tool_calls": [call]}, {"tool": text}):
            result = client.step(said)
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
    seen = env.step(FactAction(tool="search", arguments={"query": "x"}))
    assert (seen.done, seen.reward, seen.stop) == (True, None, "error")
    assert seen.report is not None
    assert (seen.report["status"], "the index is gone" in seen.report["error"]) == ("error", True)
    env.close()
    with pytest.raises(EpisodeOverError, match="connect again"):
        env.step(FactAction(text="more"))


def test_openenv_validates_what_is_served() -> None:
    with in_process(CLAIMS, "--set", "size=12", "--port", "0") as (url, _):
        tool = Path(sys.executable).with_name("openenv")
        done = subprocess.run([tool, "validate", "--url", url], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASS")) == (0, 7), done.stdout + done.stderr
    assert "FAIL" not in done.stdout


def test_what_cannot_be_served_is_one_line() -> None:
    with in_thread(CLAIMS, {"size": 12}) as url:
        taken = url.rsplit(":", 1)[1]
        for words, said in ((["--set", "spilt=1"], "Did you mean 'split'"), (["--port", taken], "another --port")):
            done = subprocess.run([*COMMAND, CLAIMS, *words], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert said in done.stderr


def test_the_page_runs(tmp_path: Path) -> None:
    with in_process(CLAIMS, "--port", "0") as (url, _):
        said = [done.stdout for _, done in run_page("openenv", tmp_path, {"http://127.0.0.1:8000": url})]
    assert any(one.startswith("True ") or "\nTrue " in one for one in said), said
    assert any("Verdict: PASS" in one for one in said)


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_what_we_rely_on_upstream_is_as_it_was() -> None:
    wanted = {"env", "action_cls", "observation_cls", "env_name", "concurrency_config", "state_cls"}
    assert wanted <= set(parameters(create_app))
    assert parameters(Environment.reset) == ["self", "seed", "episode_id", "kwargs"]
    assert parameters(Environment.step) == ["self", "action", "timeout_s", "kwargs"]
    assert parameters(Environment.close) == ["self"]
    assert {"max_concurrent_envs", "session_timeout"} == set(ConcurrencyConfig.model_fields)
    assert set(Action.model_fields) == {"metadata"}
    assert set(Observation.model_fields) == {"done", "reward", "metadata"}
    assert set(State.model_fields) == {"episode_id", "step_count"}
    assert {"name", "description", "readme_content", "version", "author"} <= set(EnvironmentMetadata.model_fields)
    assert parameters(StepResult) == ["observation", "reward", "done", "metadata"]
    for name in ("_step_payload", "_parse_result", "_parse_state", "_connect_async", "_send_and_receive"):
        assert callable(getattr(EnvClient, name))
    assert "_message_timeout" in inspect.getsource(EnvClient.__init__)
    for name in ("list_splits", "num_tasks", "list_tasks", "get_task", "get_task_range"):
        assert f'"{name}"' in inspect.getsource(HTTPEnvServer.register_routes)
