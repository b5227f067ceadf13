"""The verifiers integration as people use it: vf-eval, vf-validate, the environment server, prime, and without any network."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs factgym[verifiers]")

import verifiers.v1 as vf
from guide_pages import blocks, run_line, run_page, shown_lines
from playback import in_thread
from served import ADDRESS

from factgym.agents.script_server import MODEL, ScriptServer
from factgym.integrations.hub import module_of
from factgym.integrations.session import Session, training_config

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "environments"
BIN = Path(sys.executable).parent
PATHS = os.pathsep.join(str(ENVIRONMENTS / module_of(env_id)) for env_id in ("claimcheck-multihop", "seva", "profact"))

LEAVE = """# Leave

Each employee has 24 days of leave a year. Leave must be requested two weeks before it begins. The manager approves it
within three days. Unused leave of up to five days is carried over to the next year. Employees may buy ten further days.
Leave cannot be taken during the probation period. A medical certificate is required after the third day of illness.
"""


@pytest.fixture
def url() -> Iterator[str]:
    with in_thread(ScriptServer()) as address:
        yield address


def command(*words: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    paths = {"PATH": path, "PYTHONPATH": PATHS, "HOME": str(folder), "VIRTUAL_ENV": sys.prefix}
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, **paths, **env}, check=False
    )


def traces(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = (folder / "outputs" / name / "traces.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def expected_rewards(env_id: str, count: int) -> list[float]:
    """What the script server's policy earns, by `reset` and `step`: its replies to what the environment shows."""
    from factgym.agents.script_server import scripted_reply

    session = Session(env_id, **training_config(env_id, strict=False))
    rewards = []
    for task in range(count):
        session.start(task)
        while not session.done:
            body = json.dumps({"messages": session.messages, "tools": session.tools()}, ensure_ascii=False).encode()
            session.step(json.loads(scripted_reply(body))["choices"][0]["message"])
        rewards.append(session.reward)
    return rewards


def check(episodes: list[dict[str, Any]], rewards: list[float]) -> None:
    """`vf-eval` exits with 0 even when every rollout failed: what counts is in the traces."""
    assert all(episode["ok"] and all(trace["ok"] for trace in episode["traces"]) for episode in episodes)
    reward_of = {
        trace["task"]["data"]["idx"]: trace["rewards"]["reward"]["score"] for e in episodes for trace in e["traces"]
    }
    assert [reward_of[index] for index in sorted(reward_of)] == rewards


def test_vf_eval_needs_only_a_server(tmp_path: Path, url: str) -> None:
    done = command(
        *("vf-eval", "claimcheck-multihop", "-m", MODEL, "--client.base-url", url),
        *("-n", "3", "-r", "2", "--no-push", "--no-rich", "--run.name", "one", "--env.taskset.reward", "r0"),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    episodes = traces(tmp_path, "one")
    assert len(episodes) == 6
    assert all(episode["ok"] for episode in episodes)
    trace = episodes[0]["traces"][0]
    assert trace["task"]["data"]["settings"] == {"reward": "r0", "split": "train"}
    assert trace["info"]["factgym"]["report"]["weights"].keys() >= {"verdict"}
    assert trace["metrics"]["turns"] == 3


def test_vf_eval_runs_without_any_network(tmp_path: Path) -> None:
    """In a network namespace of its own there is nothing but this machine: no hub, no package index, no sandbox."""
    if command("unshare", "-rn", "true", folder=tmp_path).returncode:
        pytest.skip("needs unprivileged network namespaces (unshare -rn)")
    script = (
        f"ip link set lo up 2>/dev/null || {sys.executable} -c "
        "'import fcntl, socket, struct; s = socket.socket(); "
        'fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x41))\'\n'
        f"{sys.executable} -m factgym.agents.script_server --port 8123 --delay-ms 0 & server=$!\n"
        "for _ in $(seq 100); do (echo > /dev/tcp/127.0.0.1/8123) 2>/dev/null && break; sleep 0.1; done\n"
        f"vf-eval claimcheck-multihop -m {MODEL} --client.base-url http://127.0.0.1:8123/v1 -n 4 -r 1 "
        "--no-push --no-rich --run.name off; kill $server"
    )
    done = command("unshare", "-rn", "bash", "-c", script, folder=tmp_path)
    assert (tmp_path / "outputs" / "off").exists(), done.stderr
    check(traces(tmp_path, "off"), expected_rewards("claimcheck-multihop", 4))


@pytest.mark.parametrize("env_id", ["claimcheck-multihop", "profact"])
def test_vf_validate_accepts_every_ground_truth_and_pays_less_for_doing_nothing(env_id: str, tmp_path: Path) -> None:
    done = command("vf-validate", env_id, "--runtime.type", "subprocess", "-n", "3", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (summary,) = tmp_path.rglob("summary.json")
    totals = json.loads(summary.read_text("utf-8"))
    assert (totals["valid_rate"], totals["total"]) == (1.0, 3)
    rows = [json.loads(line) for line in summary.with_name("results.jsonl").read_text("utf-8").splitlines()]
    assert all(row["noop"]["rewards"]["reward"] < 1 for row in rows)


def serve(config: dict[str, Any], paths: list[str], addresses: Any) -> None:
    sys.path[:0] = paths
    from verifiers.v1.serve.server import EnvServer

    EnvServer.run_server(address_queue=addresses, config=vf.resolve_env_config(config), address="tcp://127.0.0.1:0")


def test_the_environment_server_plays_what_its_client_sends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """prime-rl's path: the orchestrator loads the taskset, ships task data, and gets finished traces."""
    from verifiers.v1.serve.client import EnvClient

    monkeypatch.syspath_prepend(str(ENVIRONMENTS / "claimcheck_multihop"))
    config = {"taskset": {"id": "claimcheck-multihop", "reward": "gated"}}
    context = multiprocessing.get_context("spawn")
    addresses = context.Queue()
    server = context.Process(target=serve, args=(config, PATHS.split(os.pathsep), addresses), daemon=True)
    server.start()

    async def play() -> list[Any]:
        client = EnvClient(addresses.get(timeout=120))
        try:
            await client.wait_for_server_startup()
            tasks = vf.load_taskset(vf.resolve_env_config(config).taskset).take(6)
            return await asyncio.gather(
                *(
                    client.run(
                        client=vf.EvalClientConfig(base_url=url, api_key_var="NO_SUCH_KEY"),
                        model=MODEL,
                        sampling=vf.SamplingConfig(temperature=0.5),
                        task_data=task.data.model_dump(mode="json"),
                    )
                    for task in tasks
                )
            )
        finally:
            await client.close()

    try:
        episodes = asyncio.run(play())
    finally:
        server.terminate()
        server.join(30)
    assert len(episodes) == 6
    for index, episode in enumerate(episodes):
        (trace,) = episode.traces
        assert episode.ok
        assert trace.task.data.idx == index
        report = trace.info["factgym"]["report"]
        assert trace.reward == report["total"]
        assert trace.metrics["verdict"] == report["components"]["verdict"]
        assert trace.task.data.settings == {"reward": "gated", "split": "train"}


def checkout(folder: Path) -> Path:
    """A checkout's environments in a folder of their own, so that nothing is built inside this one."""
    copy = folder / "environments" / "claimcheck_multihop"
    shutil.copytree(ENVIRONMENTS / "claimcheck_multihop", copy, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    text = (copy / "pyproject.toml").read_text("utf-8")
    (copy / "pyproject.toml").write_text(text.replace('"../.."', json.dumps(str(ROOT))), "utf-8")
    return folder


def reachable() -> bool:
    """Whether packages can be built: the build backend comes from the package index."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", os.devnull, "hatchling"],
        capture_output=True,
        check=False,
    )
    return b"No matching distribution" not in done.stderr and b"Could not find" not in done.stderr


def test_prime_installs_it_word_for_word(tmp_path: Path) -> None:
    if shutil.which("prime", path=str(BIN)) is None or shutil.which("uv", path=str(BIN)) is None:
        pytest.skip("needs prime and uv: pip install prime uv")
    if not reachable():
        pytest.skip("needs a package index, from which the build backend comes")
    done = command("prime", "--plain", "env", "install", "claimcheck-multihop", folder=ROOT, HOME=os.environ["HOME"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Successfully installed claimcheck-multihop" in done.stdout
    code = "import claimcheck_multihop as m; print(*m.__all__)"
    imported = command(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH="")
    assert imported.stdout.split() == ["FactEnv", "FactHarness", "Taskset"], imported.stderr


def test_prime_would_publish_it(tmp_path: Path) -> None:
    """Up to the hub's own login: the package is read, built and classified; what is missing is a login."""
    if shutil.which("prime", path=str(BIN)) is None or not reachable():
        pytest.skip("needs prime and a package index, from which the build backend comes")
    from prime_cli.utils.environment_runtime import VERIFIERS_V1, classify_runtime_from_metadata

    folder = checkout(tmp_path)
    done = command("prime", "--plain", "env", "push", "claimcheck-multihop", folder=folder)
    output = " ".join((done.stdout + done.stderr).split())
    assert "Environment name: claimcheck-multihop" in output, output
    assert "Built claimcheck_multihop-" in output, output
    (wheel,) = (folder / "environments" / "claimcheck_multihop" / "dist").glob("*.whl")
    from zipfile import ZipFile

    with ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = (opened.read(name).decode() for name in names if name.endswith("METADATA"))
    assert "claimcheck_multihop/__init__.py" in names
    required = [line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if "Requires-Dist" in line]
    assert classify_runtime_from_metadata(required) == VERIFIERS_V1
    assert not any("file:" in requirement or "@" in requirement for requirement in required)
    assert "## Settings" in metadata


def test_the_page_runs_from_top_to_bottom(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PATHS)
    output = "\n".join(done.stdout for _, done in run_page("verifiers", tmp_path, {ADDRESS: url}, skip=" install "))
    assert "reward" in output
    # The environment over a folder of the user's, whose module the page has.
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "leave.md").write_text(LEAVE, "utf-8")
    (module,) = [code for language, code in blocks("verifiers") if code.startswith("# mine.py")]
    (tmp_path / "mine.py").write_text(module, "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), PATHS]))
    (line,) = shown_lines("verifiers", "vf-eval mine")
    options = f"-m {MODEL} --client.base-url {url} -n 2 --no-push --no-rich --run.name mine"
    run_line(line.replace("path/to/folder", "policies").replace("…", options), tmp_path)
    for name in ("first", "haystack", "mine"):
        assert all(trace["ok"] for trace in traces(tmp_path, name))


def test_a_recipe_becomes_a_run_of_prime_rls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasksets of the file are read by verifiers."""
    import tomllib

    from factgym.training.recipes.engines import write_engine
    from factgym.training.recipes.recipe import recipe_of

    monkeypatch.syspath_prepend(str(ENVIRONMENTS / "claimcheck_multihop"))
    stage = {"kind": "grpo", "groups": 2, "samples": 4, "steps": 9, "learning_rate": 3e-5}
    values = {"model": "Qwen/Qwen3-0.6B", "env": "claimcheck-multihop", "env_config": {"reward": "gated", "size": 50}}
    write_engine("prime-rl", recipe_of({**values, "stages": [stage]}), tmp_path / "run")
    written = tomllib.loads((tmp_path / "run" / "factgym-rl.toml").read_text("utf-8"))
    assert (written["max_steps"], written["trainer"]["optim"]["lr"]) == (9, 3e-5)
    assert (written["orchestrator"]["batch_size"], written["orchestrator"]["group_size"]) == (8, 4)
    for part, split in (("train", "train"), ("eval", "validation")):
        (source,) = written["orchestrator"][part]["source"]
        config = vf.resolve_env_config(source["env"])
        assert (config.taskset.split, config.taskset.reward) == (split, "gated")
        assert next(iter(vf.load_taskset(config.taskset))).data.settings["split"] == split


def test_the_recipe_for_prime_rl_fits_the_environments_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own tables against verifiers' models; the whole file against prime-rl's where that is installed."""
    import tomllib

    from guide_pages import blocks

    monkeypatch.syspath_prepend(str(ENVIRONMENTS / "claimcheck_multihop"))
    (text,) = [code for language, code in blocks("verifiers") if language == "toml" and "orchestrator" in code]
    recipe = tomllib.loads(text)
    sources = [*recipe["orchestrator"]["train"]["source"], *recipe["orchestrator"]["eval"]["source"]]
    for source in sources:
        config = vf.resolve_env_config(source["env"])
        assert config.agent.runtime.type == "subprocess"
        assert next(iter(vf.load_taskset(config.taskset))).data.settings["split"] == config.taskset.split
    try:
        from prime_rl.configs.rl import RLConfig
    except ImportError:
        return
    RLConfig.model_validate(recipe)


def test_the_measurements_run(tmp_path: Path) -> None:
    speed = (sys.executable, "-m", "perf")
    done = command(*speed, "integrations", "session", "verifiers", "--episodes", "3", "--repeats", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("overhead") == 2
    done = command(*speed, "vf-eval", "--episodes", "2", "--servers", "1", "--repeats", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("s of CPU") == 2
