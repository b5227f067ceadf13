"""The folder for OpenEnv's hub: its own validator on every environment's, static and against the running server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv.validation", reason="needs factgym[openenv]")

from openenv.cli._validation import validate_multi_mode_deployment
from openenv.validation import Level, Verdict, run_validation
from openenv.validation.types import ProviderCapability
from openenv_served import COMMAND

from factgym.core.errors import ConfigError
from factgym.integrations.openenv import write_folder
from factgym.integrations.session import Session, self_contained

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


@pytest.mark.parametrize("env_id", self_contained())
def test_every_environments_folder_is_green(env_id: str, tmp_path: Path) -> None:
    write_folder(env_id, {}, tmp_path)
    report = run_validation(tmp_path, max_level=Level.STATIC)
    assert report.verdict is Verdict.PASS, report.results
    assert report.manifest is not None
    env = Session(env_id).env
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
    found = {one.check_id: (one.status.value, one.evidence) for one in report.results}
    wanted = ("startup", "reward_well_formed", "observation_schema", "state_contract")
    assert [found[f"runtime.{one}"][0] for one in wanted] == ["pass"] * 4, found
    assert "fail" not in {status for status, _ in found.values()}
    assert report.verdict is Verdict.WARN  # checks that OpenEnv has named and not written


def test_settings_go_into_the_folder_and_foreign_files_stay(tmp_path: Path) -> None:
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
