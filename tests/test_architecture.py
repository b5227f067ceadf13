"""The house keeps its shape: which layer imports which, how long a file is, and what importing the package costs.

Read off the syntax trees, so that imports inside functions count as well.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "factgym"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS = (
    ("core",),
    ("corpora",),
    ("datasets",),
    ("generators",),
    ("rewards",),
    ("tools",),
    ("baselines",),
    ("envs",),
    ("agents",),
    ("benchmarks",),
    ("integrations",),
    ("training",),
    ("cli",),
)
"""Each may import those before it and itself; those in one row do not import each other."""

RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
HEAVY = {
    *("torch", "faiss", "sentence_transformers", "transformers", "openai", "scipy"),
    *("rich", "typer", "bm25s", "rank_bm25", "jsonschema"),
}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__", "breakpoint", "input"}
MAX_LINES = 600


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """Every imported module (and `module.name` of a from-import, as the name may be a module) with its line."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package.pop()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield source, node.lineno
            yield from ((f"{source}.{alias.name}", node.lineno) for alias in node.names)


def calls(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            yield ast.unparse(node.func), node.lineno


def layer(module: str) -> str | None:
    parts = module.split(".")
    if module == "factgym.__main__":
        return "cli"
    return parts[1] if parts[0] == "factgym" and len(parts) > 1 else None


def is_command(file: Path) -> bool:
    return layer(module_name(file)) == "cli" or file.name == "__main__.py"


def label(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 30
    assert {row for rows in LAYERS for row in rows} >= {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {
        "__pycache__"
    }


@pytest.mark.parametrize("file", FILES, ids=label)
def test_imports_run_one_way(file: Path) -> None:
    own = layer(module_name(file))
    front_door = {"core", "envs"}
    allowed = front_door if own is None else {own, *(name for name, rank in RANK.items() if rank < RANK[own])}
    wrong = [
        f"{label(file)}:{line} imports {module}"
        for module, line in imports(file)
        if (found := layer(module)) in RANK and found not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=label)
def test_references_by_name_run_one_way_too(file: Path) -> None:
    """Lazy references: `"factgym.layer.module"` as an argument of import_module, `"factgym.layer.module:attribute"`.

    The front door may name what every layer is given, such as what resolves policies.
    """
    own = layer(module_name(file)) or LAYERS[-1][0]
    wrong = [
        f"{label(file)}:{node.lineno} names {node.value}"
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("factgym.")
        and " " not in node.value
        and (found := layer(node.value.partition(":")[0])) in RANK
        and RANK[found] > RANK[own]
    ]
    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=label)
def test_a_file_can_be_read_in_one_sitting(file: Path) -> None:
    assert len(file.read_text("utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("file", FILES, ids=label)
def test_every_file_says_what_it_is_for(file: Path) -> None:
    assert ast.get_docstring(tree(file)) or not file.read_text("utf-8").strip()


@pytest.mark.parametrize("file", FILES, ids=label)
def test_nothing_prints_but_the_command_line(file: Path) -> None:
    if not is_command(file):
        assert not [
            line for name, line in calls(file) if name in ("print", "pprint", "pprint.pprint", "sys.stdout.write")
        ]


@pytest.mark.parametrize("file", FILES, ids=label)
def test_nothing_runs_text_or_trusts_bytes(file: Path) -> None:
    own = layer(module_name(file)) or "core"
    modules = FORBIDDEN_MODULES | ({"subprocess"} if RANK[own] < RANK["benchmarks"] else set())
    assert not [f"{module} at line {line}" for module, line in imports(file) if module.split(".")[0] in modules]
    assert not [
        f"{name} at line {line}"
        for name, line in calls(file)
        if name in FORBIDDEN_NAMES - ({"input"} if is_command(file) else set())
        or name in ("os.system", "os.popen", "np.load", "numpy.load", "torch.load")
        or name.startswith(("os.exec", "os.spawn"))
    ]


@pytest.mark.parametrize("file", FILES, ids=label)
def test_no_global_randomness_and_no_clock_below_the_agents(file: Path) -> None:
    own = layer(module_name(file)) or "core"
    seeding = ("random.seed", "np.random.seed", "numpy.random.seed")
    clocks = (
        "time.time",
        "time.perf_counter",
        "time.monotonic",
        "datetime.now",
        "datetime.datetime.now",
        "uuid.uuid4",
    )
    for name, line in calls(file):
        assert name not in seeding, f"{name} at line {line}"
        module, _, function = name.rpartition(".")
        assert module not in ("random", "np.random", "numpy.random") or function in (
            "Random",
            "default_rng",
            "Generator",
        )
        assert RANK[own] >= RANK["agents"] or name not in clocks, f"{name} at line {line}"


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nsys.stdout.write('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_heavy_and_no_environment() -> None:
    loaded = modules_after("import factgym")
    assert not loaded & HEAVY
    assert "factgym.core.registry" in loaded
    assert {name for name in loaded if name.startswith("factgym.")} <= {
        "factgym.core",
        "factgym.core.errors",
        "factgym.core.registry",
        "factgym.envs",
    }


def test_loading_an_environment_class_needs_no_optional_library() -> None:
    loaded = modules_after("import factgym\nfor id in factgym.list_envs(): factgym.spec(id).load()")
    assert "factgym.core.env" in loaded
    assert not loaded & (HEAVY - {"jsonschema"})
