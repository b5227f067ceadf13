"""How time grows with hostile input: every parser, reader and reward of the package on inputs that double.

A subject is a function of one text. All public functions that take nothing but texts are subjects by themselves, found by
their signatures; those that need more (messages, files, episodes) have an adapter in `perf.growth_subjects`. Inputs repeat
a short seed: characters and pairs that every markup uses, and pieces that are derived from the regular expressions and
string literals of the modules that the function uses. A subject that is quick on all seeds at the first size is done; on
the others the input doubles until the time can be measured.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import inspect
import pkgutil
import random
import re
import re._constants as sre
import re._parser as sre_parser
import signal
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import factgym

LIMIT = 2.5
"""Largest factor of time for input of twice the length."""

FIRST_BYTES = 2_000
SCREEN_BYTES = 30_000
LAST_BYTES = 200_000
LIMIT_SECONDS = 0.1
"""CPU seconds that the slowest input of `LAST_BYTES` may take."""
FILES_LIMIT = 15.0
"""The same for what reads files and passages once, or writes data from them: in bulk, within the budget of a folder."""

_BULK = (
    "corpora.markdown.", "corpora.plain_text.", "corpora.tables.", "corpora.wikitext.", "corpora.condense.", "document: ",
    "split: ", "condense", "best facts", "text.sentences.", "text.folding.visible", "rewards.seva.grounding.nearest",
    "rows: a file", "recipe", "datasets.", "data set: ", "generators.", "perturbation: ", "training.",
)  # fmt: skip
_SENTENCES_LIMIT = 0.4
"""The same for CorVer's reward: 200 kB can be 66,667 sentences, and each has a reward."""
_BOUNDED = (
    (4_000, "check.agents", "text.languages.atoms", "text.numbers."),
    (16_000, "baselines.", "verifier: ", "envs.eve.reading.", "envs.profact.agents.", "envs.seva.agents."),
    (40_000, "reply: stream"),
    (2_400, "rewards.profact.", "reward: stages", "reward: METEOR", "text.treebank."),
)
"""Most bytes that reach some functions, where that is less: a claim (`check.answers.MAX_CLAIM_CHARS`), an observation
(`EnvConfig.max_observation_chars`), the text in 200 kB of events of a stream, and a question with its answer in ProFact
(`envs.profact.state`)."""

_SECONDS_PER_BYTE = LIMIT_SECONDS / LAST_BYTES
_MEASURABLE = 0.05
_CERTAIN = 1.0
_ALARM_SECONDS = 60
_CALLS = count()

# fmt: off
SEEDS = (
    *"a1 \n\t`*_|,.'\"()[]{}<>&#-~\\/:;!?=+$%@^“”’é中。X\u0301\u00ad\u200b½İ", "e\u0301", "ﬀ", "\r\n", " \n", "\n ", "\n\n",
    "a ", "a, ", "A. ", "a.", "1,", "1.", "1 ", "$1 ", "0.0.", "1/1/", "A B ", "Ab ", "a's ", "a-", "the ", "and ", "not ",
    "January 1, ", "Mr. ", "http://a.", "a@b.", "If a, ", "a (b) ", "(a", '"a" ', "“a” ",
    "<a", "<a ", "</", "</a", "<!--", "-->", "<![CDATA[", "]]>", "<td>", "<td colspan=1000000000>", "<tr>", "<div>", "<p>",
    "<?", "<!", "&lt;", "&#", "&amp", "<a b='", "<a><b>", "<i><p>", "[[", "]]", "{{", "}}", "{|", "|}", "{%", "[](", "![", "[a](", "[a]: ",
    "**", "***", "*a_", "**a *", "~~", "```", "\n```\n", "\n~~~\n", "\n# ", "\n- ", "\n1. ", "\n> ", "> ", "- ", "\n    ",
    "\n| a | b |", "|-|\n", "|a\n-|-\n", "==", "'''", "\n[a]: b", "\n---\n", "\n{\n", "`a``b", "\n\t- ",
    '{"a":', "[1,", '"a":', "\\u", '\\"', "{}", "[]", '{"a":1},', "\n{}", "[\n", "1e", "9",
    "<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", "<tool_call>{", "<|", "|>", "[TOOL_CALLS]",
)
# fmt: on


MAIN_SEEDS = ("a", "1 ", " ", "\n", "`", "~", "*", "<", "[", "(", '"', "A. ", "<![CDATA[", "<td colspan=1000000000>")


@dataclass(frozen=True)
class Subject:
    """A function of one text. modules: those whose literals and expressions give seeds."""

    name: str
    run: Callable[[str], object]
    modules: tuple[str, ...] = ()

    @property
    def max_bytes(self) -> int:
        """Bytes that reach it at most, of the 200 kB."""
        return next((size for size, *names in _BOUNDED if self.name.startswith(tuple(names))), LAST_BYTES)

    @property
    def limit(self) -> float:
        """CPU seconds that it may take for them."""
        if self.name.startswith(_BULK):
            return FILES_LIMIT
        return _SENTENCES_LIMIT if self.name.startswith("step of corver") else LIMIT_SECONDS


@dataclass(frozen=True)
class Growth:
    """The slowest seed of a subject. factor: of the time when the input doubles, 1 where it was too quick to measure.

    seconds: at `size` bytes. at_limit: seconds for the most that reaches the subject.
    """

    subject: Subject
    seed: str = ""
    size: int = FIRST_BYTES
    seconds: float = 0.0
    factor: float = 1.0
    seeds: int = 0

    @property
    def at_limit(self) -> float:
        """CPU seconds for the most bytes that reach the subject, measured or in proportion."""
        return self.seconds * self.subject.max_bytes / self.size

    @property
    def fault(self) -> str:
        """Why the subject fails, or an empty text."""
        if self.factor > LIMIT:
            return f"{self.factor:.1f} times as long for twice the input"
        return f"over {self.subject.limit * 1000:.0f} ms" if self.at_limit > self.subject.limit else ""


def hostile(seed: str, size: int) -> str:
    """Return a text of about so many bytes of UTF-8 that repeats a seed, and closes with a near miss."""
    chars = size * len(seed) // len(seed.encode("utf-8", "surrogatepass"))
    return (seed * (chars // len(seed) + 1))[: chars - 2] + "!x"


class TooSlowError(BaseException):
    """Ends a call that takes too long; no Exception, so that no reader takes it for a fault of its input."""


def _alarm(*_: object) -> None:
    raise TooSlowError


def cpu_seconds(run: Callable[[str], object], text: str, repeats: int = 1) -> float:
    """Return the least CPU seconds of some calls. An input may be refused, by an error of any kind.

    Each call has a text that no call before had, as results are cached; no garbage is collected during it, as in
    the standard library's `timeit`: how often that happens depends on all objects of the process.
    """
    best = float("inf")
    signal.signal(signal.SIGALRM, _alarm)  # not SIGPROF, whose timer makes the CPU clock tick in steps of 4 ms
    for _ in range(repeats):
        text = f"{text[:-6]}{next(_CALLS) % 10_000:04}!x"
        gc.disable()
        start = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, _ALARM_SECONDS)
        try:
            result = run(text)
            if isinstance(result, Iterator):
                for _ in result:
                    pass
        except TooSlowError:
            return float(_ALARM_SECONDS)
        except Exception:  # noqa: BLE001  # the boundary: a refusal of a hostile text, which must come soon as well
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            best = min(best, time.process_time() - start)
            gc.enable()
    return best


def grow(subject: Subject, seed: str) -> Growth:
    """Double the input until the time can be measured; the factor is the mean of the last two doublings."""
    size, times = FIRST_BYTES, [cpu_seconds(subject.run, hostile(seed, FIRST_BYTES), 3)]
    while (times[-1] < _MEASURABLE and size < LAST_BYTES) or len(times) < 3:
        size *= 2
        times.append(cpu_seconds(subject.run, hostile(seed, size), 2))
        if times[-1] > _ALARM_SECONDS / 2:
            break
    # A square stays one when the input doubles again; a step (a cache, a bound that is not yet reached) does not.
    while times[-1] > LIMIT**2 * times[-3] and times[-1] < _CERTAIN and size < 4 * LAST_BYTES:
        size *= 2
        times.append(cpu_seconds(subject.run, hostile(seed, size)))
    # Quick at the last size: there is nothing to measure but noise.
    factor = (times[-1] / max(times[-3], 1e-4)) ** 0.5 if times[-1] >= _MEASURABLE else 1.0
    seconds = times[-1]
    if size < subject.max_bytes and seconds * subject.max_bytes / size > subject.limit:
        size, seconds = LAST_BYTES, max(seconds, cpu_seconds(subject.run, hostile(seed, LAST_BYTES), 2))
    return Growth(subject, seed, size, seconds, factor)


def measure(subject: Subject, seeds: Sequence[str], attempts: int = 8) -> Growth:
    """Return the growth of the seed that is worst: the first whose factor is too large, else the slowest."""
    worst = Growth(subject)
    for seed in seeds:
        # A square that is quick at the first size need not be at fifteen times the size.
        for size in (FIRST_BYTES, SCREEN_BYTES):
            bound, text = _SECONDS_PER_BYTE * size, hostile(seed, size)
            if (seconds := cpu_seconds(subject.run, text)) > bound:
                seconds = cpu_seconds(subject.run, text, 2)
            if seconds > bound:
                break
        if seconds > bound:
            # Noise only adds time: the smallest factor of some attempts counts.
            growth = grow(subject, seed)
            for _ in range(attempts - 1):
                if growth.factor > LIMIT:
                    growth = min(growth, grow(subject, seed), key=lambda growth: growth.factor)
            if growth.factor > LIMIT:
                return replace(growth, seeds=len(seeds))
        else:
            growth = Growth(subject, seed, SCREEN_BYTES, seconds)
        if growth.at_limit > worst.at_limit:
            worst = growth
    return replace(worst, seeds=len(seeds))


# Seeds from code ---------------------------------------------------------------------------------------------------


def seeds_of(subject: Subject, limit: int | None = None) -> list[str]:
    """Return the common seeds and those of the subject's modules. limit: the main ones, and so many drawn from the others."""
    seeds = list(dict.fromkeys([*SEEDS, *(seed for module in subject.modules for seed in module_seeds(module))]))
    if limit is None or len(seeds) <= limit:
        return seeds
    return list(dict.fromkeys([*MAIN_SEEDS, *random.Random(subject.name).sample(seeds, limit)]))


@cache
def module_seeds(name: str) -> tuple[str, ...]:
    """Return pieces of what the regular expressions of a module match, and its literals that are no words."""
    module = importlib.import_module(name)
    pieces: set[str] = set()
    for pattern in _patterns(list(vars(module).values()), 0):
        pieces |= regex_seeds(pattern)
    tree = ast.parse(inspect.getsource(module))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in notes else None
        if isinstance(text, str) and 0 < len(text) <= 12 and not text.replace(" ", "").isalnum():
            pieces.add(text)
    return tuple(sorted(pieces))


def _patterns(values: Iterable[Any], depth: int) -> Iterator[re.Pattern[Any]]:
    for value in values:
        if isinstance(value, re.Pattern):
            yield value
        elif depth < 2 and isinstance(value, tuple | list | set | frozenset) and len(value) < 300:
            yield from _patterns(value, depth + 1)
        elif depth < 2 and isinstance(value, dict) and len(value) < 300:
            yield from _patterns(list(value.values()), depth + 1)


@cache
def regex_seeds(pattern: re.Pattern[Any]) -> frozenset[str]:
    """Return pieces of a shortest match: its beginnings up to each repetition or branch, and what is repeated."""
    pieces: set[str] = set()
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags if isinstance(pattern.pattern, str) else pattern.flags & ~re.LOCALE
    _sample(sre_parser.parse(source, flags), pieces)
    return frozenset(piece for piece in pieces if 0 < len(piece) <= 40)


_CATEGORY_SAMPLES = {"DIGIT": "1", "SPACE": " ", "WORD": "a", "NOT_SPACE": "x", "NOT_DIGIT": "x", "NOT_WORD": "."}


def _sample(parsed: Any, pieces: set[str]) -> str:
    """Return a text that a parsed expression matches, more or less; add its pieces."""
    text = ""
    for operation, value in parsed:
        part = ""
        if operation is sre.LITERAL:
            part = chr(value)
        elif operation in (sre.ANY, sre.NOT_LITERAL):
            part = "a"
        elif operation is sre.IN:
            part = _sample_of_set(value)
        elif operation is sre.BRANCH:
            parts = [_sample(branch, pieces) for branch in value[1][:40]]
            pieces.update(parts[:6])
            part = parts[0]
        elif operation is sre.SUBPATTERN:
            part = _sample(value[-1], pieces)
        elif operation is sre.ATOMIC_GROUP:
            part = _sample(value, pieces)
        elif operation in (sre.ASSERT, sre.ASSERT_NOT):
            pieces.add(_sample(value[1], pieces))
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            body = _sample(value[2], pieces)
            part = body * max(1, min(value[0], 8))
            pieces |= {body, text + part}
        text += part
    pieces.add(text)
    return text


def _sample_of_set(members: Sequence[tuple[Any, Any]]) -> str:
    (operation, value), *others = members
    if operation is sre.LITERAL:
        return chr(value)
    if operation is sre.RANGE:
        return chr(value[0])
    if operation is sre.CATEGORY:
        return _CATEGORY_SAMPLES.get(str(value).removeprefix("CATEGORY_"), "a")
    excluded = [chr(value) for operation, value in others if operation is sre.LITERAL]
    return next(char for char in "a1 .,(" if char not in excluded)


# Subjects ----------------------------------------------------------------------------------------------------------

_TEXT_PARAMETERS = frozenset(
    [
        "text",
        "quote",
        "claim",
        "source",
        "question",
        "answer",
        "sentence",
        "body",
        "raw",
        "line",
        "prediction",
        "gold",
        "wikitext",
        "turn",
        "evidence",
        "value",
        "document",
        "observation",
        "content",
        "statement",
        "query",
        "phrase",
        "before",
        "word",
        "lower",
        "title",
        "docstring",
        "doc",
        "template",
        "cnf",
        "action",
        "paragraph",
        "label",
        "original",
        "words",
        "reply",
        "completion",
        "solution_str",
        "evidence",
        "thought",
        "main",
        "name",
        "location",
        "folded_quote",
        "target",
        "table",
    ]
)
_NO_PARSERS = frozenset({"name", "table", "location"})
"""Names of parameters that alone make no parser: identifiers, which the caller chooses."""


def _is_text_function(function: types.FunctionType) -> bool:
    """Whether a function takes nothing but texts that others write."""
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = {p.name for p in required}
    are_texts = all(str(p.annotation) in ("str", "bytes", "object", "str | None") for p in required)
    return bool(names - _NO_PARSERS) and are_texts and names <= _TEXT_PARAMETERS


def _call(function: Callable[..., object], kinds: Sequence[str], hostile_at: int | None) -> Callable[[str], object]:
    def run(text: str) -> object:
        if hostile_at is None:  # all of them have the bytes together
            text = text[-len(text) // len(kinds) :]
        values = [text if hostile_at in (None, n) else "A short text. Another." for n in range(len(kinds))]
        return function(*(v.encode() if kind == "bytes" else v for v, kind in zip(values, kinds, strict=True)))

    return run


_OWN_INPUT = frozenset({"generators.synthetic.grammar.compile_frame", "benchmarks.search.reward_code.without_comments"})
"""Functions whose texts are files of the package itself."""

_SKIPPED_PACKAGES = ("factgym.cli", "factgym.__main__", "factgym.agents.cluster", "factgym.agents.resolve")


def found_subjects() -> Iterator[Subject]:
    """Yield a subject for each public function of texts, and one more for each argument of several."""
    for info in pkgutil.walk_packages(factgym.__path__, "factgym."):
        if ".templates" in info.name or info.name.startswith(_SKIPPED_PACKAGES):
            continue
        try:
            with warnings.catch_warnings():  # those of an extra are no fault here
                warnings.simplefilter("ignore")
                module = importlib.import_module(info.name)
        except ImportError:  # of an extra that is not installed
            continue
        for name, member in sorted(vars(module).items()):
            function = inspect.unwrap(member) if callable(member) else member
            is_own = isinstance(function, types.FunctionType) and function.__module__ == module.__name__
            if name.startswith("_") or not is_own or not _is_text_function(function):
                continue
            parameters = inspect.signature(function).parameters.values()
            kinds = [str(p.annotation) for p in parameters if p.default is p.empty]
            full_name = f"{module.__name__.removeprefix('factgym.')}.{name}"
            if full_name in _OWN_INPUT:
                continue
            modules = modules_of(function)
            yield Subject(full_name, _call(function, kinds, None), modules)
            for n in range(len(kinds)) if len(kinds) > 1 else ():
                yield Subject(f"{full_name}[{n}]", _call(function, kinds, n), modules)


def modules_of(function: types.FunctionType) -> tuple[str, ...]:
    """Return the module of a function, and those of the package from which it takes functions."""
    own = function.__module__
    used = {getattr(function.__globals__.get(name), "__module__", "") or "" for name in _names_of(function.__code__)}
    return (own, *sorted(name for name in used if name.startswith("factgym.") and name != own))


def _names_of(code: types.CodeType) -> set[str]:
    inner = (_names_of(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*inner)


def all_subjects() -> list[Subject]:
    """Return all subjects, sorted by name."""
    from perf.growth_subjects import adapted_subjects

    return sorted([*found_subjects(), *adapted_subjects()], key=lambda subject: subject.name)


# Command -----------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf growth", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="Parts of the subjects' names; all without one.")
    options = parser.parse_args(arguments)
    yield f"{'subject':64} {'seeds':>5} {'factor':>6} {'ms at 200 kB':>12}  slowest seed"
    failed = 0
    for subject in all_subjects():
        if options.names and not any(name in subject.name for name in options.names):
            continue
        growth = measure(subject, seeds_of(subject))
        failed += bool(growth.fault)
        mark = f"  FAULT: {growth.fault}" if growth.fault else ""
        yield (
            f"{subject.name:64} {growth.seeds:5} {growth.factor:6.2f} {growth.at_limit * 1000:12.1f}  "
            f"{growth.seed[:24]!a}{mark}"
        )
    yield f"{failed} faults"
