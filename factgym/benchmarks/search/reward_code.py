"""The code that decides an environment's reward: what a certificate hashes, and what an attacker reads.

Whole modules are the environment's classes and all that they import of `factgym.rewards`. Of other modules only the
definitions count that those use, and what these use in turn, so that a certificate outlives unrelated changes: those
of `factgym.text` and `factgym.corpora`, labels of `factgym.datasets`, fitting of `factgym.baselines`, and the
environment's own package (its settings, its task sets, a prior of the labels). The core and the tools are left out, and so
is what task sets read or generate: tasks have hashes of their own.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from importlib.util import resolve_name
from typing import Any, cast

from factgym.core.env import Env

_REWARDS = "factgym.rewards."
_FITTING = "factgym.baselines."
_SHARED = (_FITTING, "factgym.corpora.", "factgym.datasets.", "factgym.text.")


def reward_sources(env: Env[Any]) -> dict[str, str]:
    """Return module -> source text that decides an environment's reward, those of its class and of the rewards first.

    A class that was not read from a file has no source and is left out, and so is an installed library.
    """
    classes = [cls.__module__ for cls in type(env).__mro__ if issubclass(cls, Env) and cls is not Env]
    packages = tuple(f"{package}." for name in classes if (package := name.rpartition(".")[0]))
    whole: dict[str, str] = {}
    names, uses = list(classes), list[tuple[str, str]]()
    parts: dict[str, set[str]] = {}
    while names or uses:
        if names:
            name = names.pop()
            module = read_module(name)
            if name in whole or module is None:
                continue
            whole[name] = module.source
            names += [source for source in module.imported if source.startswith(_REWARDS)]
            uses += [use for use in module.imports.values() if use[0].startswith((*packages, *_SHARED))]
            continue
        name, symbol = uses.pop()
        module = None if name in whole or symbol in parts.get(name, ()) else read_module(name)
        if module is None:
            continue
        if symbol in module.definitions:
            parts.setdefault(name, set()).add(symbol)
        shared = (*packages, _FITTING) if name.startswith(packages) else _SHARED
        for used in module.names_in(symbol):
            source = module.imports.get(used)
            if source is None:
                uses.append((name, used))
            elif source[0].startswith(_REWARDS):
                names.append(source[0])
            elif source[0].startswith(shared):
                uses.append(source)
    partial = {name: cast(Module, read_module(name)).source_of(symbols) for name, symbols in sorted(parts.items())}
    return dict(sorted(whole.items())) | {name: text for name, text in partial.items() if name not in whole}


def reward_files(sources: Mapping[str, str]) -> dict[str, bytes]:
    """Return package/name -> content of the files beside these modules that their source text names."""
    files = {}
    for name, source in sources.items():
        package = name.rpartition(".")[0]
        texts = {
            node.value
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_file_name(node.value)
        }
        for text in texts if package else ():
            if (path := resources.files(package).joinpath(text)).is_file():
                files[f"{package}/{text}"] = path.read_bytes().replace(b"\r\n", b"\n")
    return dict(sorted(files.items()))


def _is_file_name(text: str) -> bool:
    return "." in text.strip(".") and text.replace(".", "").replace("_", "").isalnum()


@dataclass(frozen=True, slots=True)
class Module:
    """A module's text by its parts.

    definitions: name -> the statements at the top of the module that define it. imports: name -> the module that it comes
    from and its name there, without those of functions and of `if TYPE_CHECKING`. imported: all modules that names come from.
    """

    source: str
    definitions: Mapping[str, tuple[ast.stmt, ...]]
    imports: Mapping[str, tuple[str, str]]
    imported: tuple[str, ...]

    def names_in(self, symbol: str) -> set[str]:
        """Return the names of this module that a definition uses, or that an import brings under that name."""
        if symbol in self.imports:
            return {symbol}
        nodes = (node for part in self.definitions.get(symbol, ()) for node in ast.walk(part))
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        return used & (self.definitions.keys() | self.imports.keys())

    def source_of(self, symbols: set[str]) -> str:
        """Return the source text of some definitions, in their order."""
        lines = self.source.splitlines()
        spans = sorted({_lines(part) for symbol in symbols for part in self.definitions[symbol]})
        return "\n".join(line for start, end in spans for line in lines[start:end]) + "\n"


@cache
def read_module(name: str) -> Module | None:
    """Return a module's parts; None for one without source text."""
    try:
        module = sys.modules.get(name) or import_module(name)
        source = inspect.getsource(module).replace("\r\n", "\n")
    except (ImportError, OSError, TypeError):
        return None
    tree = ast.parse(source)
    definitions: dict[str, list[ast.stmt]] = {}
    imports: dict[str, tuple[str, str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            imports |= {
                alias.asname or alias.name: (_origin(statement, module.__package__), alias.name)
                for alias in statement.names
            }
        for defined in _defined(statement):
            definitions.setdefault(defined, []).append(statement)
    imported = (_origin(node, module.__package__) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return Module(source, {key: tuple(parts) for key, parts in definitions.items()}, imports, tuple(imported))


def _origin(node: ast.ImportFrom, package: str | None) -> str:
    return resolve_name("." * node.level + (node.module or ""), package)


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING":
        return
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    yield from (node.id for node in names if isinstance(node.ctx, ast.Store))


def _lines(statement: ast.stmt) -> tuple[int, int]:
    decorators = getattr(statement, "decorator_list", [])
    return min(node.lineno for node in (statement, *decorators)) - 1, cast(int, statement.end_lineno)


def without_comments(source: str) -> str:
    """Return Python source without comments, docstrings and blank lines: a text that changes only where the code does."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            text = node.body[0]
            end = cast(int, text.end_lineno)
            bare = " " * text.col_offset + "pass" if len(node.body) == 1 else ""
            lines[text.lineno - 1 : end] = [bare, *[""] * (end - text.lineno)]
    return "\n".join(line.rstrip() for line in lines if line.strip())
