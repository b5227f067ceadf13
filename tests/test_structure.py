"""The structure measurement on a made-up package whose counts are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf import structure
from perf.structure import (
    ROOT,
    Checkout,
    Size,
    bindings,
    import_cycles,
    over_limits,
    read_limits,
    rows_of,
    single_use_private,
    sizes,
    table,
)

FILES = {
    "factgym/__init__.py": '"""A package."""\n',
    "factgym/core/__init__.py": "",
    "factgym/core/first.py": (
        "# a comment\n"
        "from factgym.core.second import helper\n\n\n"
        "def _once(one):  # another\n"
        "    return one\n\n\n"
        "def _twice():\n"
        "    return _once(1)\n\n\n"
        "def _recursive():\n"
        "    return _recursive()\n\n\n"
        "def public():\n"
        '    """# no comment"""\n'
        "    return _twice(), _twice(), helper\n"
    ),
    "factgym/core/second.py": "def helper():\n    from . import first\n    return first\n",
    "factgym/core/_hidden.py": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import factgym.envs.toy\n\nVALUE = 1\n"
    ),
    "factgym/envs/toy.py": "import factgym.core._hidden\n",
    "factgym/corpora/averitec/evidence.py": "found = {one: kept for one, kept in ()}\n",
    "factgym/rewards/seva_retrieve.py": "try:\n    pass\nexcept OSError as fault:\n    raise\n",
    "tests/test_all.py": "def test_one():\n    pass\n\n\nclass TestTwo:\n    async def test_two(self):\n        pass\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return Checkout("tiny", tmp_path, True)


def test_the_counts_of_a_tiny_package(checkout: Checkout) -> None:
    rows = rows_of(checkout, collect=True)
    expected = {
        "Python files": "8",
        "lines": "35",
        "median lines of a file": "2",
        "longest file, lines": "19",
        "files under 100 lines": "8",
        "functions": "5",
        "single-use private functions": "1",
        "single-use private functions:  share of all functions, %": "20.0",
        "lines with a comment, %": "5.7",
        "bindings": "6",  # the parameter one, VALUE, found, one, kept, fault
        "vague names, per 1000 bindings": "666.67",
        "vague names, per 1000 bindings:  one": "333.33",
        "public modules": "5",
        "public modules:  core/": "2",
        "import cycles, top-level imports": "0",
        "import cycles, all imports": "1",
        "import cycles, all imports:  modules in them": "2",
        "family profact: files": "1",
        "family seva: lines": "4",
        "family eve: files": "0",
        "lines of envs/toy.py": "1",
        "def test_": "2",
        "tests that pytest collects": "2",
        "factgym files in a warm step": "-",
    }
    assert {label: rows[label] for label in expected} == expected


def test_single_use_functions_bindings_and_cycles_are_counted(checkout: Checkout) -> None:
    modules = {module.path: module for module in checkout.modules}
    assert single_use_private(modules["core/first.py"].tree) == ["_once"]
    assert bindings(modules["corpora/averitec/evidence.py"].tree) == {"found": 1, "one": 1, "kept": 1}
    cycle = ["factgym.core.first", "factgym.core.second"]
    assert import_cycles(checkout.modules, inside_functions=True) == [cycle]


def test_no_folder_of_the_package_is_over_its_limit() -> None:
    modules = Checkout("working tree", ROOT, True).modules
    assert len(modules) == len([file for file in (ROOT / "factgym").rglob("*.py") if "__pycache__" not in file.parts])
    assert not (lines := over_limits(modules, read_limits())), "\n".join(lines)


def test_the_limits_name_the_folders_that_there_are_and_the_package_never_grows() -> None:
    limits = read_limits()
    assert set(limits) == set(sizes(Checkout("working tree", ROOT, True).modules))
    assert limits["(all)"].lines <= 97_200 and limits["(all)"].files <= 446


def test_a_folder_over_its_limit_is_named_with_the_way_out(checkout: Checkout) -> None:
    limits = {name: Size(lines, files) for name, lines, files in (("(all)", 34, 8), ("(top)", 1, 1), ("core", 27, 3))}
    limits |= {"corpora": Size(1, 1), "rewards": Size(4, 1)}
    *lines, advice = over_limits(checkout.modules, limits)
    assert lines == [
        "factgym (all): 35 lines, 1 over its limit of 34",
        "factgym core: 28 lines, 1 over its limit of 27",
        "factgym core: 4 files, 1 over its limit of 3",
        "factgym envs: 1 lines, 1 over its limit of 0",
        "factgym envs: 1 files, 1 over its limit of 0",
    ]
    assert "perf/limits.toml" in advice
    exact = sizes(checkout.modules)
    assert exact["(all)"] == Size(35, 8) and over_limits(checkout.modules, exact) == []


def test_columns_are_aligned_and_rows_of_one_checkout_alone_are_kept() -> None:
    text = table({"old": {"files": "10", "layers": "2", "layers:  envs/": "1"}, "new": {"files": "9", "layers": "1"}})
    assert text.splitlines() == ["         old  new", "files     10    9", "layers     2    1", "  envs/    1    -"]


def test_an_argument_that_is_neither_a_folder_nor_a_commit_is_refused() -> None:
    with pytest.raises(SystemExit, match="neither a folder nor a commit"):
        list(structure.main(["no-such-revision"]))
