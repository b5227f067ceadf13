"""How the tests draw examples: alike for everybody, whatever ran before in the same process, unless a profile is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent

DRAWS = """
import json
import {module}
from hypothesis import given, strategies as st

draws = []

@given(st.integers() | st.text() | st.sampled_from(sorted({{"a", "b", "c"}})))
def test_draw(value):
    draws.append(value)

def test_write():
    print("DRAWS", json.dumps(draws))
"""


def draws(folder: Path, module: str, hash_seed: str, *options: str) -> list[str]:
    """The examples of a test whose module imports another one that Hypothesis takes constants from."""
    (folder / "own_constants.py").write_text(f"VALUES = {[*range(7_000_000, 7_000_400)]}\n", "utf-8")
    (folder / "test_draws.py").write_text(DRAWS.format(module=module), "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent, folder))), "PYTHONHASHSEED": hash_seed}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "-sq",
        *options,
        "test_draws.py",
    ]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return re.findall(r"(?m)^\.?DRAWS (.*)$", result.stdout)


def test_examples_depend_neither_on_imported_modules_nor_on_hashes(tmp_path: Path) -> None:
    (expected,) = draws(tmp_path, "math", "1")
    assert expected.count(",") > 20
    assert draws(tmp_path, "own_constants", "2") == [expected]


def test_a_seed_draws_ten_times_as_many_of_its_own(tmp_path: Path) -> None:
    tenfold = ("--hypothesis-profile=tenfold", "--hypothesis-seed=7")
    (expected,) = draws(tmp_path, "math", "1", *tenfold)
    assert draws(tmp_path, "own_constants", "2", *tenfold) == [expected]
    assert expected.count(",") > 200 and draws(tmp_path, "math", "1") != [expected]


def test_exploring_draws_others_each_time(tmp_path: Path) -> None:
    explore = "--hypothesis-profile=explore"
    assert draws(tmp_path, "math", "1", explore) != draws(tmp_path, "math", "1", explore)


def test_numbers_of_examples_follow_the_profile() -> None:
    """A number in a test would be the same in the run with ten times as many."""
    fixed = re.compile(r"\bmax_examples=\s*\d+\b(?!\s*\*)|\bderandomize=|\bdeadline=|@seed\(")
    wrong = [
        f"{file.relative_to(TESTS)}:{number}"
        for file in sorted(TESTS.rglob("test_*.py"))
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if fixed.search(line) and "hypothesis" in file.read_text("utf-8") and file != Path(__file__)
    ]
    assert not wrong, f"take a multiple of settings.default.max_examples: {wrong}"
