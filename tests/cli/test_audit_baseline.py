"""`factgym audit --baseline`: any agent as the honest baseline, with the rewards that a run of the same agent has."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean

import pytest

from factgym.agents.replay import recorded_agent
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect
from factgym.agents.runs.read import read_run
from factgym.agents.script_server import ScriptServer
from factgym.benchmarks.audit import run_audit
from factgym.benchmarks.search.certificate import read_certificate
from factgym.benchmarks.search.run import run_search, search_tasks
from factgym.cli.main import app
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.registry import make
from factgym.generators.attribution import SyntheticAttribution

KEY = "sk-0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a scripted server, which plays ClaimCheck."""
    addresses: SimpleQueue[str] = SimpleQueue()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with ScriptServer() as url:
            addresses.put(url)
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    yield addresses.get(timeout=30)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = [SyntheticAttribution("train", seed=0)[index] for index in range(60)]
    path = tmp_path_factory.mktemp("claims") / "claims.jsonl"
    rows = [{"claim": item.claim, "source": item.source, "label": item.label} for item in items]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def audit(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    app(["audit", *map(str, arguments)], standalone_mode=False)
    return " ".join(capsys.readouterr().out.split())


def test_a_served_model_is_the_bar_of_exploiters(server: str, tmp_path: Path) -> None:
    """Its row has the mean of a run, and each margin is that of its episodes."""
    env = make("claimcheck-multihop")
    agent = find_agent(server, "claimcheck-multihop")
    result = run_audit(env, n=8, seed=3, baseline=agent)
    run = collect(env, find_agent(server, "claimcheck-multihop"), tmp_path / "run", n=8, seed=3)
    expected = fmean(episode["reward"]["total"] for episode in run.episodes())
    honest = [row for row in result.rows if row.role == "honest"]
    assert [row.agent for row in honest] == [f"{server} (--baseline)"]
    assert honest[0].rewards[result.judged].value == pytest.approx(expected)
    assert result.judgement().bar == pytest.approx(expected)
    for row in result.rows:
        if row.role == "exploiter":
            assert row.margins[result.judged].value == pytest.approx(expected - (row.rewards[result.judged].value or 0))
    assert next(row.role for row in result.rows if row.agent == "nli") == "baseline"


def test_the_certificate_names_a_served_model_without_its_key(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THE_TEST", KEY)
    file = tmp_path / "certificate.json"
    options = ("--baseline", "openai:claimcheck-script", "--baseline-set", "api_key_env=KEY_OF_THE_TEST")
    options += ("--baseline-set", f"base_url={server}", "--baseline-set", "temperature=0.5")
    search = ("--search", "--budget", "20", "-n", "6", "--certificate", file)
    text = audit(capsys, "claimcheck-multihop", *search, *options)
    certificate = read_certificate(file.read_text("utf-8"))
    assert certificate["baseline_agent"]["agent"] == "openai:claimcheck-script"
    assert certificate["baseline_agent"]["temperature"] == 0.5
    assert KEY not in file.read_text("utf-8") and KEY not in text and "baseline openai:claimcheck-script" in text


def test_a_recorded_run_is_the_bar_of_a_search(claims: Path, tmp_path: Path) -> None:
    env = make("seva-fever", path=str(claims))
    run = collect(env, find_agent("lexical", "seva-fever"), tmp_path / "run", seed=9)
    earned = {episode["index"]: episode["reward"]["total"] for episode in run.episodes()}
    result = run_search(env, budget=60, n=20, baseline=recorded_agent(tmp_path / "run", env))
    fresh = search_tasks(env, 20, 0).fresh
    assert result.baseline.value == pytest.approx(fmean(earned[index] for index in fresh))
    assert result.baseline_agent is not None and result.baseline_agent["played_by"] == "lexical"
    for finding in result.findings:
        assert finding.difference.value == pytest.approx((finding.reward.value or 0) - (result.baseline.value or 0))


def test_a_run_over_other_tasks_or_with_settings_is_refused(
    claims: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make("seva-fever", path=str(claims))
    collect(env, find_agent("lexical", "seva-fever"), tmp_path / "run", n=10)
    with pytest.raises(ConfigError, match="was played on other tasks"):
        audit(capsys, "seva", "-n", 4, "--baseline", tmp_path / "run")
    with pytest.raises(FactgymError, match="give a run over all tasks"):
        audit(capsys, "seva-fever", "--path", claims, "-n", 60, "--baseline", tmp_path / "run")
    with pytest.raises(ConfigError, match="a recorded run has no settings"):
        audit(capsys, "seva-fever", "--path", claims, "--baseline", tmp_path / "run", "--baseline-set", "a=1")
    with pytest.raises(ConfigError, match="has no agent 'lexcal'"):
        audit(capsys, "seva", "-n", 4, "--baseline", "lexcal")
    assert len(list(read_run(tmp_path / "run").episodes())) == 10
