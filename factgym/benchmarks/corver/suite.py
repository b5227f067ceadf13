"""CorVer's benchmarks: closed book with the evaluation prompt, unless the settings say otherwise."""

from __future__ import annotations

from pathlib import Path

from factgym.benchmarks.corver.facts import facts
from factgym.benchmarks.question_sets import Suite
from factgym.datasets.questions import BENCHMARKS, question_file

SUITE = Suite(
    env="corver-qa",
    known=tuple(BENCHMARKS),
    paper=tuple(facts("benchmarks")["columns"]),
    find=question_file,
    file_names={name: tuple(Path(file).name for file in data_set.files) for name, data_set in BENCHMARKS.items()},
    any_file="file",
    defaults={"prompt": "eval"},
)
