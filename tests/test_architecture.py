"""Rules for the shape of the package: layers, import cycles, file length, forbidden calls, vocabulary, import cost.

One case for each rule; each reports every offending line. Read off the syntax trees, so that imports inside functions
count as well.
"""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "factgym"

LAYERS = (
    *(
        "core",
        "text",
        "corpora",
        "datasets",
        "generators",
        "rewards",
        "tools",
        "baselines",
        "envs",
        "agents",
        "benchmarks",
    ),
    *("check", "integrations", "training", "cli"),
)
"""Each may import those before it and itself."""

RANK = {name: rank for rank, name in enumerate(LAYERS)}
HEAVY = {
    *("torch", "faiss", "sentence_transformers", "transformers", "openai", "scipy", "pydantic"),
    *("rich", "typer", "bm25s", "jsonschema"),
}
MAX_LINES = 600

PRINTS = {"print", "pprint", "pprint.pprint", "sys.stdout.write"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
UNSAFE_CALLS = {
    *("eval", "exec", "compile", "__import__", "breakpoint", "os.system", "os.popen"),
    *("np.load", "numpy.load", "torch.load"),
}
SEEDING = {"random.seed", "np.random.seed", "numpy.random.seed"}
CLOCKS = {*("time.time", "time.perf_counter", "time.monotonic", "datetime.now", "datetime.datetime.now", "uuid.uuid4")}

UNCLEAR_NAMES = {
    *("one", "found", "said", "place", "known", "kept", "left", "most", "told", "asked", "begin", "desk", "door"),
    *("room", "player", "what", "there", "mine", "shown", "wanted", "caveats", "guests"),
    *("Desk", "Reply", "Refusal", "Found", "Listing", "Posed", "Looked", "Zone"),
}
"""Names that do not say what they hold; see the table in DESIGN: the thing itself, or the field's term for it."""

NAMED_FOLDERS = ("factgym", "perf", "tests", "examples", "environments")


class Source:
    """A module of the package: its syntax tree, imports and calls, each with a line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.path = file.relative_to(ROOT)
        self.text = file.read_text("utf-8")
        self.tree = ast.parse(self.text, str(file))
        self.nodes = list(ast.walk(self.tree))
        parts = self.path.with_suffix("").parts
        self.module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.layer = layer(self.module)
        self.rank = RANK[self.layer or "core"]

    @cached_property
    def imports(self) -> list[tuple[str, int]]:
        """Every imported module, and `module.name` of a from-import, as the name may be a module."""
        return list(self._imports(self.nodes))

    @cached_property
    def runtime_imports(self) -> list[tuple[str, int]]:
        """`imports` without those under `if TYPE_CHECKING:`."""
        typing_only = {
            child
            for node in self.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for statement in node.body
            for child in ast.walk(statement)
        }
        return list(self._imports(node for node in self.nodes if node not in typing_only))

    def _imports(self, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
        package = self.module.split(".")
        if self.file.name != "__init__.py":
            package.pop()
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                yield source, node.lineno
                yield from ((f"{source}.{alias.name}", node.lineno) for alias in node.names)

    @cached_property
    def calls(self) -> list[tuple[str, int]]:
        return [
            (ast.unparse(node.func), node.lineno)
            for node in self.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))
        ]


def bindings(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names of variables, attributes, parameters, functions and classes where they are defined."""
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield (node.id if isinstance(node, ast.Name) else node.attr), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno


def layer(module: str) -> str | None:
    if module == "factgym.__main__":
        return "cli"
    parts = module.split(".")
    return parts[1] if parts[0] == "factgym" and len(parts) > 1 else None


@cache
def sources() -> tuple[Source, ...]:
    gc.disable()  # a million nodes that all live on: looking for garbage among them takes longer than parsing
    try:
        return tuple(Source(file) for file in sorted(PACKAGE.rglob("*.py")))
    finally:
        gc.freeze()
        gc.enable()


def parsed(folder: str) -> Iterator[tuple[Path, list[ast.AST]]]:
    """Path and syntax nodes of every file of a folder."""
    if folder == PACKAGE.name:
        yield from ((source.path, source.nodes) for source in sources())
        return
    for file in sorted((ROOT / folder).rglob("*.py")):
        yield file.relative_to(ROOT), list(ast.walk(ast.parse(file.read_text("utf-8"))))


def offences(lines: Iterable[str]) -> None:
    """Fail with the list of offending lines."""
    listed = "\n".join(lines)
    if listed:
        pytest.fail(listed, pytrace=False)


def test_every_folder_of_the_package_is_a_layer() -> None:
    assert len(sources()) > 30
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"} <= set(LAYERS)


def test_imports_run_one_way() -> None:
    """The package itself imports nothing but core and the list of environments, and exports the rest lazily."""
    offences(
        f"{source.path}:{line} imports {module}"
        for source in sources()
        for module, line in (source.imports if source.layer else source.runtime_imports)
        if (imported := layer(module)) in RANK
        and (imported not in ("core", "envs") if source.layer is None else RANK[imported] > source.rank)
    )


def test_references_by_name_run_one_way_too() -> None:
    """Lazy references: `"factgym.layer.module"` as an argument of import_module, `"factgym.layer.module:attribute"`.

    The package itself may name any layer: its exports, and the function that resolves policies.
    """
    offences(
        f"{source.path}:{node.lineno} names {node.value}"
        for source in sources()
        for node in source.nodes
        if source.layer is not None
        and isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("factgym.")
        and " " not in node.value
        and (named := layer(node.value.partition(":")[0])) in RANK
        and RANK[named] > source.rank
    )


def test_there_are_no_import_cycles() -> None:
    modules = {source.module for source in sources()}
    graph = {}
    for source in sources():
        imported = {module for module, _ in source.runtime_imports if module in modules} - {source.module}
        # `from package import module` names both; the edge is to the module.
        graph[source.module] = {
            module
            for module in imported
            if not any(
                other.startswith(f"{module}.") and other.count(".") == module.count(".") + 1 for other in imported
            )
        }
    offences(" -> ".join(cycle) for cycle in cycles(graph))


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for imported in sorted(graph[module]):
            if imported not in index:
                visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1:
                components.append(component)

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return components


def test_names_say_what_they_hold() -> None:
    offences(
        f"{path}:{line} binds {name!r}"
        for folder in NAMED_FOLDERS
        for path, nodes in parsed(folder)
        for name, line in bindings(nodes)
        if name in UNCLEAR_NAMES
    )


def test_a_file_can_be_read_in_one_sitting() -> None:
    lengths = ((source.path, len(source.text.splitlines())) for source in sources())
    offences(f"{path}: {length} lines" for path, length in lengths if length > MAX_LINES)


def test_every_file_has_a_docstring() -> None:
    offences(str(source.path) for source in sources() if source.text.strip() and not ast.get_docstring(source.tree))


def test_nothing_prints_but_the_command_line() -> None:
    offences(
        f"{source.path}:{line} {name}"
        for source in sources()
        if not is_command(source)
        for name, line in source.calls
        if name in PRINTS
    )


def is_command(source: Source) -> bool:
    return source.layer == "cli" or source.file.name in ("__main__.py", "script_server.py")


def test_nothing_runs_text_or_trusts_bytes() -> None:
    offences(
        f"{source.path}:{line} {name}"
        for source in sources()
        for name, line in [*unsafe_imports(source), *unsafe_calls(source)]
    )


def unsafe_imports(source: Source) -> Iterator[tuple[str, int]]:
    modules = UNSAFE_MODULES | ({"subprocess"} if source.rank < RANK["benchmarks"] else set())
    return ((module, line) for module, line in source.imports if module.split(".")[0] in modules)


def unsafe_calls(source: Source) -> Iterator[tuple[str, int]]:
    for name, line in source.calls:
        if (
            name in UNSAFE_CALLS
            or name.startswith(("os.exec", "os.spawn"))
            or (name == "input" and not is_command(source))
        ):
            yield name, line


WITH_DEADLINE = {"factgym/corpora/extraction.py"}
"""Reading a user's documents, which may be hostile, has a deadline; what it left out is listed."""


def test_no_global_randomness_and_no_clock_below_the_agents() -> None:
    offences(
        f"{source.path}:{line} {name}"
        for source in sources()
        for name, line in source.calls
        if name in SEEDING
        or (name in CLOCKS and source.rank < RANK["agents"] and str(source.path) not in WITH_DEADLINE)
        or (
            name.rpartition(".")[0] in ("random", "np.random", "numpy.random")
            and name.rpartition(".")[2] not in ("Random", "default_rng", "Generator")
        )
    )


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
    assert not loaded & (HEAVY - {"jsonschema", "pydantic"})
