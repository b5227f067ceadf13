"""`factgym eval` where episodes fail: exit codes, tracebacks and counts."""

from __future__ import annotations

from typer.testing import CliRunner

from factgym.cli.main import app

BROKEN = '''
class Broken:
    """Fails always."""

    def act(self, messages, tools):
        raise RuntimeError("no such luck")
'''


def test_a_run_in_which_nothing_is_scored_is_exit_code_one(tmp_path, caplog):
    (tmp_path / "broken.py").write_text(BROKEN)
    agent = ["--agent", f"{tmp_path / 'broken.py'}:Broken"]
    command = ["eval", "claimcheck-multihop", *agent, "-n", "5", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "No episode was scored" in result.output
    assert "5 infrastructure errors" in result.output and "5 agent" in result.output
    assert "The same traceback came 5 times" in result.output
    assert sum(bool(record.exc_info) for record in caplog.records) == 1
