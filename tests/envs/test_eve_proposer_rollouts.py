"""The solver's rollouts behind a proposal: how many, at once, never twice, and what becomes of faults and of giving up."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from eve_proposals import ANSWER, CORPUS, Solver, kind_of, proposal, started

from factgym.core.errors import ConfigError, DataError
from factgym.core.policy import ContextOverflowError, PolicyError
from factgym.envs.eve.nested_loop import Cancellation, run_nested, stop_nested


def played(env: Any, text: str) -> Any:
    env.reset(seed=0)
    return env.step(text)[4]["reward"]


@pytest.mark.parametrize(("n", "m"), [(5, 5), (2, 1), (7, 3)])
def test_n_searching_and_2m_search_disabled_answers_are_asked_all_at_once(n: int, m: int) -> None:
    solver = Solver(wait_for=n + 2 * m)
    report = played(started(solver=solver, n=n, m=m), proposal())
    assert solver.requests == {"search": n, "with": m, "without": m}
    assert solver.peak == n + 2 * m
    assert len(set(solver.seeds)) == n + 2 * m
    assert (report.metrics["k"], report.metrics["n"], report.metrics["V"]) == (n, n, 1.0)


def test_requests_depend_on_the_proposal() -> None:
    solver = Solver()
    env = started(solver=solver)
    for invalid in (proposal(answer="Ada Byron"), proposal(question=""), proposal(answer="")):
        played(env, invalid)
    assert not solver.requests
    played(env, proposal(evidence="Ada Byron was born in Paris."))
    assert solver.requests == {"search": 5}
    played(started(solver=solver, verify=False, reward="dr-zero", seed=1), proposal())
    assert solver.requests == {"search": 10}


def test_the_same_proposal_is_put_to_the_solver_once() -> None:
    solver = Solver()
    env = started(solver=solver)
    first = played(env, proposal())
    again = [
        played(env, proposal(thought=text))
        for env, text in ((env, "Other words about it all."), (started(solver=solver), "x"))
    ]
    assert sum(solver.requests.values()) == 15
    assert [report.metrics["V"] for report in again] == [first.metrics["V"]] * 2
    played(env, proposal(question="Where was Ada Byron, who wrote notes, born?"))
    assert sum(solver.requests.values()) == 30
    played(env, proposal(evidence="was born in London"))
    assert solver.requests["search"] == 10, "the searching rollouts do not see the evidence"
    assert solver.requests["with"] == 15
    played(started(solver=solver, seed=1), proposal())
    assert solver.requests["search"] == 15


def test_two_episodes_that_ask_the_same_at_once_share_the_answers() -> None:
    solver = Solver(wait_for=15)
    envs = [started(solver=solver) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda env: played(env, proposal()), envs))
    assert sum(solver.requests.values()) == 15
    assert len({report.total for report in reports}) == 1


def test_an_answers_seed_follows_from_the_request_alone() -> None:
    solvers = [Solver(), Solver()]
    played(started(solver=solvers[0]), proposal(question="Where in the world was Ada Byron born?"))
    solvers[0].seeds.clear()
    for solver in solvers:
        played(started(solver=solver), proposal())
    assert sorted(solvers[0].seeds) == sorted(solvers[1].seeds)


def test_a_changed_solver_is_asked_again_unless_only_its_tool_format_was_detected() -> None:
    solver = Solver()
    identity = {"kind": "fake", "step": 1}
    solver.describe = lambda: dict(identity)
    env = started(solver=solver)
    played(env, proposal())
    identity["tools_found"] = "native"
    played(env, proposal())
    assert sum(solver.requests.values()) == 15
    identity["step"] = 2
    played(env, proposal())
    assert sum(solver.requests.values()) == 30


IN_ANOTHER_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from eve_proposals import Solver, proposal, started
solver = Solver(name=sys.argv[3])
env = started(solver=solver, cache=sys.argv[2])
report = env.step(proposal())[4]["reward"]
assert report.status == "scored", report.error
print(sum(solver.requests.values()), report.total)
"""


def test_a_file_keeps_answers_for_other_processes(tmp_path: Path) -> None:
    def answers_of_process(name: str) -> list[str]:
        arguments = [str(Path(__file__).parent), str(tmp_path / "answers.sqlite"), name]
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", IN_ANOTHER_PROCESS, *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split()

    first = answers_of_process("one")
    assert first[0] == "15"
    assert answers_of_process("one") == ["0", first[1]]
    assert answers_of_process("another") == ["15", first[1]]


def test_a_cache_needs_a_solver_that_describes_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Solver does not say who it is.*describe"):
        started(solver=Solver(name=None), cache=str(tmp_path / "answers.sqlite"))
    (tmp_path / "other.sqlite").write_bytes(b"something else entirely" * 9)
    with pytest.raises(DataError, match=r"other\.sqlite: the answer cache cannot be used"):
        started(solver=Solver(), cache=str(tmp_path / "other.sqlite"))


class Failing(Solver):
    """The third answer fails; the others never come."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    async def reply(self, seed: int, messages: Any, tools: Any) -> str:
        kind = kind_of(messages, tools)
        if kind == "without":
            self.answers["without"] = []
        self.requests[kind] += 1
        self.running += 1
        try:
            if sum(self.requests.values()) == 15:
                raise self.fault
            await asyncio.Event().wait()
        finally:
            self.running -= 1
            if not self.running:
                self.idle.set()
        raise AssertionError


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (PolicyError("rate_limit", "slow down"), "PolicyError: the policy Failing: rate_limit: slow down"),
        (ZeroDivisionError("oops"), "the policy Failing: agent: ZeroDivisionError: oops"),
        (ConfigError("no such model"), "the policy Failing: configuration: no such model"),
    ],
)
def test_a_fault_of_the_solver_is_an_error_never_a_score_and_cancels_the_other_requests(
    fault: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    solver = Failing(fault)
    env = started(solver=solver)
    _, reward, terminated, truncated, info = env.step(proposal())
    assert (reward, terminated, truncated, env.episode.stop) == (0.0, False, True, "error")
    assert (info["reward"].status, info["reward"].total) == ("error", None)
    assert message in info["reward"].error
    assert solver.idle.wait(60) and not solver.running


def test_an_answer_that_failed_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")
    solver = Failing(PolicyError("connection", "gone"))
    env = started(solver=solver)
    assert played(env, proposal()).status == "error"
    assert solver.idle.wait(60)
    solver.__class__ = Solver
    solver.answers["without"] = ["unknown"]
    assert played(env, proposal()).status == "scored"


def test_a_prompt_that_does_not_fit_the_solver_is_a_wrong_answer() -> None:
    class Small(Solver):
        async def reply(self, seed: int, messages: Any, tools: Any) -> str:
            if kind_of(messages, tools) != "with":
                raise ContextOverflowError("at most 10 tokens")
            return await super().reply(seed, messages, tools)

    report = played(started(solver=Small()), proposal())
    assert (report.status, report.metrics["k"], report.metrics["V"]) == ("scored", 0, 1.0)


def test_closing_an_environment_cancels_its_requests(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")
    solver = Solver(wait_for=10**6)
    env = started(solver=solver)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(env.step, proposal())
        while sum(solver.requests.values()) < 15:
            run_nested(lambda: asyncio.sleep(0), Cancellation())
        env.close()
        report = done.result(60)[4]["reward"]
    assert report.status == "error" and "given up" in report.error
    assert solver.idle.wait(60) and not solver.running
    env.close()


def test_requests_that_another_episode_shares_survive_a_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """Two wait for the same answers: the work goes on for the one that stays."""
    caplog.set_level("CRITICAL")
    solver = Solver(wait_for=15 + 1)
    leaves, stays = started(solver=solver), started(solver=solver)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(leaves.step, proposal())
        second = pool.submit(stays.step, proposal())
        while sum(solver.requests.values()) < 15:
            run_nested(lambda: asyncio.sleep(0), Cancellation())
        while not stays._cancellation._futures:
            run_nested(lambda: asyncio.sleep(0), Cancellation())
        run_nested(lambda: asyncio.sleep(0), Cancellation())
        leaves.close()
        assert first.result(60)[4]["reward"].status == "error"
        more = pool.submit(played, started(solver=solver), proposal(question="In what town was Ada Byron born?"))
        assert second.result(60)[4]["reward"].status == "scored"
        assert more.result(60).status == "scored"
    assert sum(solver.requests.values()) == 30


def test_a_copy_branches_the_episode_and_shares_answers() -> None:
    solver = Solver()
    env = started(solver=solver)
    twin = copy.deepcopy(env)
    assert env.step(proposal())[1] == twin.step(proposal())[1]
    assert sum(solver.requests.values()) == 15
    assert twin.rollouts is env.rollouts and twin._cancellation is not env._cancellation


def test_the_auxiliary_scorer_answers_without_evidence_and_nothing_else() -> None:
    solver, auxiliary = Solver(), Solver({"without": [ANSWER, "Paris"]})
    report = played(started(solver=solver, auxiliary=auxiliary), proposal())
    assert solver.requests == {"search": 5, "with": 5}
    assert auxiliary.requests == {"without": 5}
    assert (report.metrics["plus"], report.metrics["minus"], report.metrics["V"]) == (1.0, 0.6, pytest.approx(0.4))
    assert (report.metrics["solver"], report.metrics["auxiliary"]) == ("Solver", "Solver")


@pytest.mark.parametrize(("name", "right"), [("oracle", 5), ("unknown", 0)])
def test_scripted_agents_of_the_solver_are_solvers_by_name(name: str, right: int) -> None:
    assert played(started(solver=name), proposal()).metrics["k"] == right


def test_a_scripted_agent_that_knows_the_gold_is_asked_anew_for_another_answer() -> None:
    env = started(solver="oracle")
    assert played(env, proposal()).metrics["k"] == 5
    assert played(env, proposal(answer="1815")).metrics["k"] == 5


def test_a_plain_function_and_a_blocking_object_are_solvers() -> None:
    running = threading.Semaphore(1)

    class Blocking:
        def act(self, messages: Any, tools: Any) -> str:
            assert running.acquire(blocking=False), "a plain object is never called twice at a time"
            try:
                return "<answer>London</answer>"
            finally:
                running.release()

    for solver in (lambda messages, tools: "<answer>London</answer>", Blocking()):
        assert played(started(solver=solver), proposal()).metrics["k"] == 5


class Scorer(Solver):
    """Log-probabilities instead of answers to the verifier."""

    def __init__(self, plus: float, minus: float) -> None:
        super().__init__()
        self.logs = {True: plus, False: minus}
        self.scored: list[tuple[str, str]] = []

    def score(self, messages: Any, completion: str, *, given: str = "") -> float:
        self.scored.append((completion, given))
        return self.logs["<evidence " in messages[1]["content"]]


def test_v_can_come_from_teacher_forced_log_probabilities() -> None:
    solver = Scorer(-0.5, -2.0)
    report = played(started(solver=solver, value="logprob"), proposal())
    assert solver.requests == {"search": 5}
    assert solver.scored == [("London</answer>", "<answer>")] * 2
    assert report.metrics["value_kind"] == "logprob"
    assert report.metrics["V"] == pytest.approx(2.718281828**-0.5 - 2.718281828**-2.0)
    assert (report.metrics["log_plus"], report.metrics["log_minus"], report.metrics["plus"]) == (-0.5, -2.0, None)


def test_log_probabilities_need_a_policy_that_has_them() -> None:
    with pytest.raises(ConfigError, match=r"Solver gives no log-probabilities"):
        started(solver=Solver(), value="logprob")
    with pytest.raises(ConfigError, match=r"Solver gives no log-probabilities"):
        started(solver=Scorer(0, 0), auxiliary=Solver(), value="logprob")


def test_an_object_that_is_no_policy_is_refused_when_the_environment_is_made() -> None:
    for wrong, message in (
        (5, "has no act"),
        ("extractve", "Did you mean 'extractive'"),
        ("nothing.py:X", "there is no file"),
    ):
        with pytest.raises(ConfigError, match=message):
            started(solver=wrong)
    with pytest.raises(ConfigError, match="named by text"):
        started(solver=Solver(), solver_settings={"temperature": 0})


def test_a_solver_that_cannot_be_prepared_fails_every_episode(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")

    class Unready(Solver):
        async def prepare(self) -> None:
            raise PolicyError("connection", "cannot connect; is the server running?")

    report = played(started(solver=Unready()), proposal())
    assert report.status == "error" and "is the server running?" in report.error


def test_the_shared_loop_ends_and_begins_again() -> None:
    solver = Solver()
    played(started(solver=solver), proposal())
    stop_nested()
    assert not any(thread.name == "factgym-nested" for thread in threading.enumerate())
    report = played(started(solver=solver), proposal(question="Where, in which city, was Ada Byron born?"))
    assert report.status == "scored"
    assert sum(thread.name == "factgym-nested" for thread in threading.enumerate()) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_finds_no_idle_thread_and_both_sides_go_on() -> None:
    """Python warns, and rightly, of forks in a process with threads: vector environments fork."""
    played(started(solver=Solver()), proposal())
    stop_others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        report = played(started(solver=Solver()), proposal())
        os.write(write, str(report.total).encode())
        os._exit(0)
    assert not any(thread.name == "factgym-nested" for thread in threading.enumerate())
    assert any(thread.name == "factgym-nested" for thread in stop_others)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    content = os.read(read, 100).decode()
    os.close(read)
    assert content == str(played(started(solver=Solver()), proposal()).total)


def test_a_policy_made_from_text_is_closed_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n    closed = 0\n    async def act(self, messages, tools):\n"
        "        return '<answer>London</answer>'\n    async def close(self):\n        Mine.closed += 1\n"
    )
    env = started(solver=f"{file}:Mine")
    assert played(env, proposal()).metrics["k"] == 5
    policy = env.rollouts.solver.policy
    assert policy.closed == 0
    stop_nested()
    assert policy.closed == 1


def test_a_solver_cannot_wait_for_the_loop_that_it_runs_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")

    class Inner(Solver):
        async def reply(self, seed: int, messages: Any, tools: Any) -> str:
            inner = played(started(solver="extractive"), proposal())
            assert inner.status == "error"
            raise PolicyError("nested", inner.error)

    assert "cannot be played by one of these" in played(started(solver=Inner()), proposal()).error


def test_no_more_rollouts_run_at_a_time_than_are_allowed() -> None:
    solver = Solver()
    played(started(solver=solver, max_rollouts=3), proposal())
    assert sum(solver.requests.values()) == 15
    assert solver.peak == 3


def test_the_solver_searches_the_proposers_corpus_and_never_sees_the_answer() -> None:
    prompts: list[str] = []

    class Reader(Solver):
        async def reply(self, seed: int, messages: Any, tools: Any) -> str:
            if kind_of(messages, tools) == "search" and len(messages) == 2:
                return "<search>Ada Byron born</search>"
            prompts.append("\n".join(str(message["content"]) for message in messages))
            return await super().reply(seed, messages, tools)

    played(started(solver=Reader()), proposal(answer="1815", question="When was Ada Byron born?"))
    searching = [text for text in prompts if "result id" in text]
    assert len(searching) == 5 and all('id="ada"' in text for text in searching)
    assert all("1815" in text for text in searching), "the passage tells"
    bare = [text for text in prompts if "result id" not in text and "<evidence " not in text.partition("Question:")[2]]
    assert len(bare) == 5 and not any("1815" in text for text in bare)
    assert len(CORPUS) == 12
