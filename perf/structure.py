"""The structure of the package in numbers, one column for each commit or folder.

    python -m perf structure [--collect] [--cycles] [REVISION_OR_FOLDER …]

Everything but the two rows that run code is read off the syntax trees and tokens. How the rows count:

- lines and files of a folder: its own and those of the folders in it, "of" the limit in `limits.toml`. The working tree
  may not go over a limit: then the command ends with 1 and says what to do, and a test fails.
- functions: every `def`, methods and nested ones included. Private: the name begins with `_` and is no dunder.
  Single-use: its name is read exactly once in its module outside its own definition.
- bindings: names that are assigned, loop and comprehension variables, parameters, targets of `with`, `except`, `:=`
  and `match`; not definitions, imports and attributes.
- public modules: files whose name does not begin with `_` (so `__init__.py` is not counted), by first-level folder.
- import cycles: strongly connected components of more than one module. `from a import b` leads to the module `a.b`
  where there is one, else to `a`; that importing `a.b` also runs `a` does not count. TYPE_CHECKING blocks are left out.
- factgym files in a warm step: distinct files of the package that execute during `Env.step`, the mean over the steps of
  an oracle's episode of `claimcheck-multihop` that has been played before.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "factgym"
SHORT_FILE = 100
LIMITS = Path(__file__).with_name("limits.toml")
WHOLE = "(all)"

FAMILIES = ("claimcheck", "seva", "profact", "corver", "eve")
FAMILY_OF_WORD: Mapping[str, str] = {
    **{"averitec": "profact", "factchecks": "profact"},
    **{"attribution": "seva", "probes": "seva", "evolve": "seva"},
    **{"cooccurrence": "corver", "questions": "corver"},
    **{"multihop": "eve", "selector": "eve"},
    **{"synthetic": "claimcheck", "corruption": "claimcheck", "documents": "claimcheck", "readers": "claimcheck"},
}
"""Words of a path that mean a family where the path names none; the first such word counts."""

VAGUE_NAMES = (
    *("one", "found", "said", "place", "known", "kept", "left", "most", "told", "asked", "begin"),
    *("desk", "door", "room", "player"),
)
TOY = "envs/toy.py"

_STEP_PROBE = """
import sys
import factgym
from factgym.core.registry import load_attribute, spec

def tools(env):  # the second name is that of commits before the redesign
    return env.available_tools() if hasattr(env, "available_tools") else env.open_tools()

def play(env, agent, measured):
    env.reset(seed=0)
    policy, counts, ended = agent.start(env, 0), [], False
    while not ended:
        action, files = policy.act(env.policy_prompt(), tools(env)), set()
        if measured:
            sys.setprofile(lambda frame, event, argument: event == "call" and files.add(frame.f_code.co_filename))
        _, _, terminated, truncated, _ = env.step(action)
        sys.setprofile(None)
        ended = terminated or truncated
        counts.append(sum("/factgym/" in file and file.startswith(sys.argv[1]) for file in files))
    return counts

env = factgym.make("claimcheck-multihop")
environment = spec("claimcheck-multihop")
agents = environment.agents if hasattr(environment, "agents") else environment.players
agent = load_attribute(agents)["oracle"]
play(env, agent, False)
counts = play(env, agent, True)
print(sum(counts) / len(counts))
"""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package; `path` is relative to the package's folder, with `/`."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def lines(self) -> int:
        """The number of lines."""
        return len(self.text.splitlines())

    @property
    def name(self) -> str:
        """The dotted name."""
        parts = [PACKAGE, *self.path.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def layer(self) -> str:
        """The first-level folder."""
        return self.path.partition("/")[0] if "/" in self.path else "(top)"

    @property
    def public(self) -> bool:
        """Whether the file's name does not begin with an underscore."""
        return not self.path.rpartition("/")[2].startswith("_")

    @property
    def family(self) -> str | None:
        """The family that the path names, else the one that its first word in `FAMILY_OF_WORD` means."""
        words = re.split(r"[/_.]", self.path)
        named = [word for word in words if word in FAMILIES]
        meant = [FAMILY_OF_WORD[word] for word in words if word in FAMILY_OF_WORD]
        return next(iter(named + meant), None)

    @property
    def comment_lines(self) -> int:
        """The number of lines with a comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})


@dataclass(frozen=True)
class Checkout:
    """A folder that holds the package and its tests; `working` where it is no temporary copy."""

    label: str
    folder: Path
    working: bool

    @cached_property
    def modules(self) -> list[Module]:
        """Every file of the package."""
        package = self.folder / PACKAGE
        files = sorted(file for file in package.rglob("*.py") if "__pycache__" not in file.parts)
        return [Module(file.relative_to(package).as_posix(), file.read_text("utf-8")) for file in files]


def functions(tree: ast.AST) -> list[_Function]:
    """Every function and method."""
    return [node for node in ast.walk(tree) if isinstance(node, _Function)]


def single_use_private(tree: ast.Module) -> list[str]:
    """Names of private functions that are read exactly once in the module outside their own definition."""
    everywhere = _reads(tree)
    return [
        function.name
        for function in functions(tree)
        if re.match(r"_(?!_.*__$)", function.name) and everywhere[function.name] - _reads(function)[function.name] == 1
    ]


def _reads(tree: ast.AST) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            counts[node.id] += 1
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            counts[node.attr] += 1
    return counts


def bindings(tree: ast.AST) -> Counter[str]:
    """Count the bindings of each name."""
    counts: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                counts[name] += 1
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                counts[name] += 1
            case ast.MatchMapping(rest=str(name)):
                counts[name] += 1
    return counts


def imports(module: Module, *, inside_functions: bool) -> Iterator[str]:
    """Dotted names that a module imports; of `from a import b` both `a.b` and, after it, `a`, joined by a space."""
    pending: list[ast.AST] = [module.tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            yield from (f"{base}.{alias.name} {base}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in (
            getattr(node.test, "id", None),
            getattr(node.test, "attr", None),
        ):
            pending += node.orelse
        elif inside_functions or not isinstance(node, _Function | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    steps = node.level - module.path.endswith("__init__.py")
    return ".".join([*package[: len(package) - steps], *([node.module] if node.module else [])])


def import_cycles(modules: Sequence[Module], *, inside_functions: bool) -> list[list[str]]:
    """The strongly connected components of more than one module, the largest first."""
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        targets = (
            next((name for name in text.split() if name in names), None)
            for text in imports(module, inside_functions=inside_functions)
        )
        graph[module.name] = {target for target in targets if target is not None} - {module.name}
    return sorted((sorted(group) for group in components(graph) if len(group) > 1), key=len, reverse=True)


def components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Kosaraju), without recursion."""
    reverse: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            reverse[target].add(name)
    finished: list[str] = []
    seen: set[str] = set()
    for name in graph:
        finished += _reachable(graph, name, seen)
    seen = set()
    groups = (_reachable(reverse, name, seen) for name in reversed(finished))
    return [group for group in groups if group]


def _reachable(graph: Mapping[str, set[str]], start: str, seen: set[str]) -> list[str]:
    """The unseen nodes that can be reached, in the order in which a depth-first search leaves them."""
    if start in seen:
        return []
    seen.add(start)
    order: list[str] = []
    stack = [(start, iter(sorted(graph[start])))]
    while stack:
        name, targets = stack[-1]
        target = next((target for target in targets if target not in seen), None)
        if target is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(sorted(graph[target]))))
    return order


def static_rows(checkout: Checkout) -> Iterator[tuple[str, str]]:
    """The rows that are read off the files."""
    modules = checkout.modules
    lengths = [module.lines for module in modules]
    lines = sum(lengths)
    yield "Python files", str(len(modules))
    yield "lines", str(lines)
    yield from _size_rows(modules)
    yield "median lines of a file", f"{statistics.median(lengths):g}"
    yield "longest file, lines", str(max(lengths))
    yield f"files under {SHORT_FILE} lines", str(sum(length < SHORT_FILE for length in lengths))
    count = sum(len(functions(module.tree)) for module in modules)
    single = sum(len(single_use_private(module.tree)) for module in modules)
    yield "functions", str(count)
    yield "single-use private functions", str(single)
    yield "  share of all functions, %", _share(single, count)
    yield "lines with a comment, %", _share(sum(module.comment_lines for module in modules), lines)
    yield from _binding_rows(modules)
    yield from _layer_rows(modules)
    for label, inside in (("top-level", False), ("all", True)):
        cycles = import_cycles(modules, inside_functions=inside)
        yield f"import cycles, {label} imports", str(len(cycles))
        yield "  modules in them", str(sum(map(len, cycles)))
    for family in FAMILIES:
        own = [module for module in modules if module.family == family]
        yield f"family {family}: files", str(len(own))
        yield f"family {family}: lines", str(sum(module.lines for module in own))
    yield f"lines of {TOY}", next((str(module.lines) for module in modules if module.path == TOY), "-")
    tests = (checkout.folder / "tests").rglob("*.py")
    yield "def test_", str(sum(len(re.findall(r"(?m)^\s*(?:async )?def test_", file.read_text())) for file in tests))


@dataclass(frozen=True)
class Size:
    """Lines and files of Python."""

    lines: int
    files: int


def sizes(modules: Sequence[Module]) -> dict[str, Size]:
    """The size of each first-level folder by name, files outside folders as "(top)", and of the whole package."""
    lines, files = Counter[str](), Counter[str]()
    for module in modules:
        for name in (module.layer, WHOLE):
            lines[name] += module.lines
            files[name] += 1
    return {name: Size(lines[name], files[name]) for name in sorted(files)}


def read_limits(path: Path = LIMITS) -> dict[str, Size]:
    """The limits of `sizes`."""
    table = tomllib.loads(path.read_text("utf-8"))
    return {name: Size(**limit) for name, limit in ({WHOLE: table["package"]} | table["folders"]).items()}


def over_limits(modules: Sequence[Module], limits: Mapping[str, Size]) -> list[str]:
    """A line for each limit that is exceeded, and how to get below it. A folder without a limit may have nothing."""
    lines: list[str] = []
    for name, size in sizes(modules).items():
        limit = limits.get(name, Size(0, 0))
        for unit, count, maximum in (("lines", size.lines, limit.lines), ("files", size.files, limit.files)):
            if count > maximum:
                lines.append(f"{PACKAGE} {name}: {count} {unit}, {count - maximum} over its limit of {maximum}")
    advice = (
        f"Remove as much from the same folder (duplicates, hand-written mechanisms, modules with a single user), or take "
        f"it from another folder's limit in perf/{LIMITS.name}; the limits of the package do not rise."
    )
    return [*lines, advice] if lines else []


def _size_rows(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    limits = read_limits()
    for name, size in sizes(modules).items():
        limit = limits.get(name, Size(0, 0))
        yield f"lines and files of {name}", f"{size.lines} of {limit.lines}, {size.files} of {limit.files}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"


def _binding_rows(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    counts = sum((bindings(module.tree) for module in modules), Counter[str]())
    total = counts.total()
    vague = {name: counts[name] for name in VAGUE_NAMES}
    yield "bindings", str(total)
    yield "vague names, per 1000 bindings", _per_thousand(sum(vague.values()), total)
    for name, number in vague.items():
        yield f"  {name}", _per_thousand(number, total)


def _per_thousand(part: int, whole: int) -> str:
    return f"{1000 * part / whole:.2f}" if whole else "-"


def _layer_rows(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    layers = Counter(module.layer for module in modules if module.public)
    yield "public modules", str(layers.total())
    for layer in sorted(layers):
        yield f"  {layer}/", str(layers[layer])


def files_in_warm_step(folder: Path) -> str:
    """The mean number of the package's files that execute in a warm step; "-" where it cannot be run."""
    result = _python(folder, "-c", _STEP_PROBE, str(folder.resolve()))
    return f"{float(result.stdout):.1f}" if result.returncode == 0 else "-"


def collected_tests(folder: Path) -> str:
    """The number of tests that pytest collects; "-" where it fails."""
    result = _python(folder, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider")
    summary = re.search(r"(\d+)(?:/\d+)? tests? collected", result.stdout)
    return summary[1] if summary else "-"


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Options for a pytest that runs this must not reach the pytest that it starts: a profile of a conftest.py that
    # the folder lacks, or a report that both would write.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(folder.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def rows_of(checkout: Checkout, *, collect: bool) -> dict[str, str]:
    """One column of the table. A repeated label gets the label above it as a prefix."""
    rows: dict[str, str] = {}
    heading = ""
    for label, value in static_rows(checkout):
        heading = heading if label.startswith("  ") else label
        rows[label if label == heading else f"{heading}:{label}"] = value
    if collect:
        rows["tests that pytest collects"] = collected_tests(checkout.folder) if checkout.working else "-"
    rows["factgym files in a warm step"] = files_in_warm_step(checkout.folder)
    return rows


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Aligned text: a line for each row, a column for each checkout."""
    labels: list[str] = []
    for rows in columns.values():  # a row that only a later column has goes after its predecessor there
        position = 0
        for label in rows:
            if label not in labels:
                labels.insert(position, label)
            position = labels.index(label) + 1
    lines = [["", *columns], *([label, *(rows.get(label, "-") for rows in columns.values())] for label in labels)]
    cells = [[re.sub(r"^.*?:(?=  )", "", line[0]), *line[1:]] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in cells
    )


def unpack(revision: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision, PACKAGE, "tests"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"{revision}: neither a folder nor a commit ({archive.stderr.decode().strip()})")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def main(arguments: Sequence[str]) -> Iterator[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf structure", description="The package's structure in numbers.")
    parser.add_argument("checkouts", nargs="*", metavar="REVISION_OR_FOLDER", help="default: the working tree")
    parser.add_argument("--collect", action="store_true", help="count the tests that pytest collects in folders")
    parser.add_argument("--cycles", action="store_true", help="list the import cycles under the table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        checkouts = [] if options.checkouts else [Checkout("working tree", ROOT, True)]
        for number, name in enumerate(options.checkouts):
            if Path(name).is_dir():
                checkouts.append(Checkout(name, Path(name), True))
            else:
                unpack(name, folder := Path(temporary) / str(number))
                checkouts.append(Checkout(name, folder, False))
        yield table({item.label: rows_of(item, collect=options.collect) for item in checkouts})
        for checkout in checkouts if options.cycles else ():
            for inside in (False, True):
                for cycle in import_cycles(checkout.modules, inside_functions=inside):
                    kind = "all imports" if inside else "top-level imports"
                    yield f"{checkout.label}, {kind}: {' '.join(cycle)}"
        if not options.checkouts and (lines := over_limits(checkouts[0].modules, read_limits())):
            yield from lines
            sys.exit(1)
