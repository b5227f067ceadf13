"""What servers really send, replayed against the endpoint agent; the sources are named in each record of `matrix/`."""

from __future__ import annotations

from collections import Counter

import pytest
from server_matrix import CHECKS, COLUMNS, CONDITIONS, FOLDER, GUIDE, guide_table, records, replay


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry["id"]) for entry in records()])
def test_an_exchange_has_the_right_outcome(entry):
    assert replay(entry) == {}


def test_records_are_whole():
    """A misspelt condition or check cannot make a record pass: it raises, or it is named here."""
    keys = {"id", "server", "generation", "source", "settings", "exchanges", "right"}
    assert [count for count in Counter(entry["id"] for entry in records()).values() if count > 1] == []
    for path in FOLDER.glob("*.jsonl"):
        for entry in records(path.stem):
            assert entry.keys() <= keys and entry["id"].startswith(path.stem), entry["id"]
            assert entry["server"] and entry["source"] and entry["right"], entry["id"]
            assert entry["right"].keys() <= CHECKS.keys()
            for exchange in entry["exchanges"]:
                assert exchange.get("when", {}).keys() <= CONDITIONS.keys()
                assert len({"status", "message", "stream"} & exchange.keys()) == 1, entry["id"]


def test_the_guide_shows_the_matrix():
    assert guide_table() in GUIDE.read_text("utf-8"), "run python tests/agents/server_matrix.py"
    assert {path.stem for path in FOLDER.glob("*.jsonl")} <= COLUMNS.keys()
