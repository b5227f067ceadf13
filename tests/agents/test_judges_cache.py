"""The cache of judgements: one call for each case, shared by threads and processes, errors for damaged files."""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from factgym.agents.judges.base import JudgeError
from factgym.agents.judges.policy import JudgeCache, PolicyJudge, judge_from
from factgym.agents.judges.prompt import EVIDENCE_SUPPORT, JudgePrompt
from factgym.core.errors import ConfigError, DataError
from factgym.core.policy import PolicyError

FILE = "judgements.sqlite"
CASE = {"question": "Which river?", "answer": "Lys", "evidence": "The mill stands on the Lys."}


class Counting:
    """A model that counts how often it is asked; `who` tells it from others."""

    def __init__(self, who="m", reply=None, fail=0, temperature=0.0):
        self.who = who
        self.temperature = temperature
        self.reply = reply or json.dumps({"reason": "It is named.", "label": "sufficient"})
        self.fail = fail
        self.requests = 0
        self.gate = None

    def start(self, seed):
        return self

    async def act(self, messages, tools):
        self.requests += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fail:
            self.fail -= 1
            raise PolicyError("connection", "reset by peer")
        message = {"role": "assistant", "content": self.reply}
        return message | {"completion": {"usage": {"prompt_tokens": 5}}}

    def describe(self):
        return {"kind": "openai", "model": self.who, "temperature": self.temperature}

    async def close(self):
        pass


def judge(model, cache, **more):
    return PolicyJudge(model, EVIDENCE_SUPPORT, cache=cache, **more)


def test_a_judgement_is_paid_for_once_and_marked_as_cached(tmp_path):
    model = Counting()
    first = asyncio.run(judge(model, JudgeCache(tmp_path)).judge(CASE))
    again = asyncio.run(judge(model, JudgeCache(tmp_path)).judge(dict(reversed(CASE.items()))))
    assert (first.cached, first.usage) == (False, {"prompt_tokens": 5})
    assert (again.cached, again.usage) == (True, {})
    assert (again.score, again.label, again.reason, again.by) == (first.score, first.label, first.reason, first.by)
    assert model.requests == 1
    assert asyncio.run(judge_from(model, "evidence-support", tmp_path).judge(CASE)).cached


def test_the_cache_key_covers_everything_that_a_judgement_depends_on(tmp_path):
    cache, model = JudgeCache(tmp_path), Counting()
    changed = JudgePrompt(
        "evidence-support", 2, EVIDENCE_SUPPORT.text, EVIDENCE_SUPPORT.fields, EVIDENCE_SUPPORT.grades
    )
    others = [
        judge(model, cache),
        judge(model, cache, form="json"),
        judge(model, cache, seed=1),
        judge(model, cache, name="somebody"),
        PolicyJudge(model, changed, cache=cache),
    ]
    for judge_under_test in others:
        assert not asyncio.run(judge_under_test.judge(CASE)).cached
    for field in CASE:
        assert not asyncio.run(others[0].judge(CASE | {field: CASE[field] + " "})).cached
    for other in (Counting("another"), Counting(temperature=0.7)):
        assert not asyncio.run(judge(other, cache).judge(CASE)).cached
    assert len(cache) == model.requests + 2 == 10


def test_nothing_of_the_case_is_in_the_file(tmp_path):
    asyncio.run(judge(Counting(), JudgeCache(tmp_path)).judge(CASE | {"evidence": "PRIVATE-EVIDENCE"}))
    assert b"PRIVATE" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_only_valid_judgements_are_cached(tmp_path):
    cache = JudgeCache(tmp_path)
    with pytest.raises(JudgeError):
        asyncio.run(judge(Counting(reply="no idea"), cache, retries=1).judge(CASE))
    model = Counting(fail=1)
    with pytest.raises(PolicyError):
        asyncio.run(judge(model, cache).judge(CASE))
    assert len(cache) == 0
    assert not asyncio.run(judge(model, cache).judge(CASE)).cached
    assert len(cache) == 1


@pytest.mark.parametrize("cached", [True, False])
def test_concurrent_equal_cases_are_judged_once(tmp_path, cached):
    model = Counting()
    shared_judge = judge(model, JudgeCache(tmp_path) if cached else None)
    judgements = asyncio.run(shared_judge.judge_many([CASE] * 20 + [CASE | {"answer": "Leie"}], concurrency=21))
    assert model.requests == 2
    assert [judgement.cached for judgement in judgements].count(False) == 2
    assert sum(judgement.usage.get("prompt_tokens", 0) for judgement in judgements) == 10


def test_a_cancelled_waiter_does_not_cancel_the_shared_judgement():
    async def play():
        model = Counting()
        model.gate = asyncio.Event()
        judgement = judge(model, None)
        tasks = [asyncio.ensure_future(judgement.judge(CASE)) for _ in range(3)]
        while not model.requests:
            await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        model.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert [judgement.score for judgement in answers[1:]] == [1.0, 1.0]
        model.gate.clear()
        last = asyncio.ensure_future(judgement.judge(CASE))
        while model.requests < 2:
            await asyncio.sleep(0)
        last.cancel()
        await asyncio.gather(last, return_exceptions=True)
        model.gate.set()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert (await judgement.judge(CASE)).score == 1.0
        assert model.requests == 3

    asyncio.run(play())


def test_a_fault_reaches_all_who_wait_and_the_next_asks_again():
    async def play():
        model = Counting(fail=1)
        judgement = judge(model, None)
        replies = await asyncio.gather(*(judgement.judge(CASE) for _ in range(4)), return_exceptions=True)
        assert [type(error) for error in replies] == [PolicyError] * 4
        assert (await judgement.judge(CASE)).score == 1.0
        assert model.requests == 2

    asyncio.run(play())


def test_a_policy_that_does_not_say_who_it_is_needs_a_name(tmp_path):
    class Nameless:
        def act(self, messages, tools):
            return json.dumps({"reason": "so", "label": "insufficient"})

    cache = JudgeCache(tmp_path)
    with pytest.raises(ConfigError, match="name="):
        PolicyJudge(Nameless(), EVIDENCE_SUPPORT, cache=cache)
    assert asyncio.run(PolicyJudge(Nameless(), EVIDENCE_SUPPORT, cache=cache, name="x").judge(CASE)).by == "x"

    class Odd(Counting):
        def describe(self):
            return {"file": {1, 2}}

    with pytest.raises(ConfigError, match="plain JSON data"):
        PolicyJudge(Odd(), EVIDENCE_SUPPORT)


def test_threads_share_a_cache(tmp_path):
    cache, model = JudgeCache(tmp_path), Counting()
    shared_judge = judge(model, cache)
    barrier = threading.Barrier(6)

    def work(start):
        barrier.wait()
        cases = [CASE | {"answer": str((start + i) % 40)} for i in range(40)]
        return asyncio.run(shared_judge.judge_many(cases, concurrency=4))

    with ThreadPoolExecutor(6) as pool:
        result = list(pool.map(work, range(0, 36, 6)))
    assert all(judgement.score == 1.0 for part in result for judgement in part)
    assert len(cache) == 40
    fresh = asyncio.run(judge(Counting(), cache).judge_many([CASE | {"answer": str(i)} for i in range(40)]))
    assert all(judgement.cached for judgement in fresh)


WRITER = """
import sys
from factgym.agents.judges.policy import JudgeCache
folder, name = sys.argv[1:]
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
cache = JudgeCache(folder)
for i in range(150):
    cache.put(f"key {i}", {"label": "sufficient", "by": name})
    assert cache.get(f"key {i}") is not None
    cache.put(f"{name} {i}", {"label": "insufficient", "by": name})
"""


def test_processes_create_and_fill_a_file_concurrently(tmp_path):
    folder = tmp_path / "new" / "cache"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", WRITER, str(folder)]
    workers = [subprocess.Popen([*command, f"p{i}"], **pipes) for i in range(4)]
    assert [worker.stdout.readline() for worker in workers] == [b"ready\n"] * 4
    for worker in workers:
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    errors = [worker.communicate()[1].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, errors
    cache = JudgeCache(folder)
    assert len(cache) == 150 * 5
    assert cache.get("p3 149") == {"label": "insufficient", "by": "p3"}


def test_a_new_file_is_made_by_many_at_once(tmp_path):
    barrier = threading.Barrier(8)

    def make(folder):
        barrier.wait()
        return JudgeCache(folder).get("nothing")

    with ThreadPoolExecutor(8) as pool:
        for i in range(25):
            assert list(pool.map(make, [tmp_path / str(i)] * 8)) == [None] * 8


def test_the_first_entry_of_a_key_stays(tmp_path):
    cache = JudgeCache(tmp_path)
    cache.put("k", {"label": "a"})
    cache.put("k", {"label": "b"})
    assert cache.get("k") == {"label": "a"}
    assert cache.get("other") is None
    assert copy.deepcopy(cache).get("k") == {"label": "a"}
    cache.close()
    cache.close()
    assert cache.get("k") == {"label": "a"}


def test_cached_entries_survive_a_killed_process(tmp_path):
    code = (
        "import os, signal, sys\nfrom factgym.agents.judges.policy import JudgeCache\ncache = JudgeCache(sys.argv[1])\n"
        "for i in range(50):\n    cache.put(str(i), {'label': 'a'})\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE)
    assert killed.returncode == -9, killed.stderr
    assert len(JudgeCache(tmp_path)) == 50


def test_a_forked_process_opens_the_file_for_itself(tmp_path):
    code = (
        "import os, sys\nfrom factgym.agents.judges.policy import JudgeCache\ncache = JudgeCache(sys.argv[1])\n"
        "children = []\n"
        "for name in 'abc':\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        [cache.put(f'{name}{i}', {}) for i in range(40)]\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "[cache.put(f'parent{i}', {}) for i in range(40)]\n"
        "assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]\n"
        "assert len(cache) == 160, len(cache)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(JudgeCache(tmp_path)) == 160


def test_a_damaged_or_foreign_file_is_named_and_not_changed(tmp_path):
    file = tmp_path / FILE
    file.write_bytes(b"this is a text file of somebody else, and not a short one\n" * 50)
    before = file.read_bytes()
    with pytest.raises(DataError, match=FILE) as caught:
        JudgeCache(tmp_path)
    assert "move it away" in str(caught.value)
    assert file.read_bytes() == before

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    db = sqlite3.connect(foreign / FILE)
    db.execute("CREATE TABLE judgements (mine TEXT)")
    db.commit()
    db.close()
    before = (foreign / FILE).read_bytes()
    with pytest.raises(DataError, match="another program"):
        JudgeCache(foreign)
    assert (foreign / FILE).read_bytes() == before


def test_a_file_cut_short_and_entries_that_are_none_are_named(tmp_path):
    cache = JudgeCache(tmp_path)
    for i in range(200):
        cache.put(f"{i:064d}", {"label": "sufficient", "reason": "r" * 200, "by": "b"})
    cache.close()
    data = cache.file.read_bytes()
    cache.file.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=FILE):
        [cache.get(f"{i:064d}") for i in range(200)]

    other = JudgeCache(tmp_path / "other")
    model = Counting()
    asyncio.run(judge(model, other).judge(CASE))
    for entry in ("{", "[]", '{"label": "yes", "reason": "x", "by": "y"}', '{"label": "sufficient"}'):
        db = sqlite3.connect(other.file)
        db.execute("UPDATE judgements SET entry = ?", (entry,))
        db.commit()
        db.close()
        with pytest.raises(DataError, match=FILE):
            asyncio.run(judge(model, other).judge(CASE))
    assert model.requests == 1


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"judgement cache: .*Not a directory"):
        JudgeCache(tmp_path / "file" / "cache")
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    with pytest.raises(DataError, match=FILE):
        JudgeCache(tmp_path / "taken")
