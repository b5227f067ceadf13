"""The reward's speed benchmark measures what it says, on a text and on an index of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import build_index
from factgym.corpora.cooccurrence.sources import open_source
from perf.corver import Plan, measure_corver
from tests.rewards.corver_paper import CASES


def test_every_stage_has_its_row(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(sentence.text for case in CASES for sentence in case.sentences) * 3, "utf-8")
    build_index(open_source(text), tmp_path / "corpus.cooc", memory_mb=64, workers=1)
    for index in (None, tmp_path / "corpus.cooc"):
        lines = list(measure_corver(Plan(index, text, batches=1, processes=1)))
        assert re.search(r"384 completions, 1,[0-9]{3} sentences each; an index of [0-9]+ tokens", lines[0])
        names = [
            "sentences, new",
            "first batch",
            "whole reward",
            "whole, again",
            "whole, exact",
            "split",
            "extract",
            "count",
            "count, exact",
            "align",
            "whole, groups",
        ]
        assert [line.split("  ")[1].strip() for line in lines[1:]] == names
        assert all(int(re.findall(r"([0-9,]+) sentences/s", line)[0].replace(",", "")) > 0 for line in lines[1:])


def test_an_index_needs_its_text() -> None:
    with pytest.raises(ConfigError, match="--text"):
        list(measure_corver(Plan(index=Path("x.cooc"))))
