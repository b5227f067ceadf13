"""Errors that a person reads: each says what happened, where, and what to do about it.

The command line prints `str(error)` on one line and exits with code 2; a library user catches
`FactgymError`. Faults of a *policy* (a malformed action, an unknown tool) never leave `Env.step`: they are data, a
`CallError` of the parser or the `ToolError` of a result.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

RELEASED = False
"""Whether the package is on PyPI. `python -m factgym.cli.docs .` writes the lines of installation into every page."""

INSTALL_LINE = re.compile(r"pip install (?:-e )?['\"](?:factgym|\.)\[(?!test|lint|docs)([\w,-]+)\]['\"]")
"""A line that installs extras, but those for work on the checkout itself."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from a checkout, until the package is released."""
    return f"pip install 'factgym[{extra}]'" if RELEASED else f"pip install -e '.[{extra}]'"


_MAX_CHARS = 400
"""Of one word in an error's line."""


class FactgymError(Exception):
    """Base of every error that this package raises on purpose."""


def error_line(error: BaseException) -> str:
    """Return the message on one line. Characters that do not print, such as a terminal's commands, are escaped, and long
    words are cut: messages quote files and paths.
    """
    text = " ".join(word if len(word) <= _MAX_CHARS else f"{word[:_MAX_CHARS]}…" for word in str(error).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class UnknownEnvError(FactgymError, LookupError):
    """No environment is registered under this id."""


class ConfigError(FactgymError, ValueError):
    """A configuration key or value that an environment, index or command does not accept."""


class DataError(FactgymError, ValueError):
    """A file or record that cannot be used; the message names the file and, where there is one, the line."""


class PathError(ConfigError, DataError):
    """A file, folder or device that the system refuses or that no reader can use; the message names the path."""


class MissingExtraError(FactgymError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}': {install_command(extra)}")
        self.feature = feature
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)


class EpisodeOverError(FactgymError, RuntimeError):
    """`step` was called before `reset`, or after the episode had ended."""


class ToolError(FactgymError):
    """A refused tool call. Raise it in a tool, or in `Env.call_tool`; it becomes the `error` of the result.

    code: stable, for programs. message: for the policy. path: JSON path of the wrong argument, if it is one.
    """

    def __init__(self, code: str, message: str, path: str | None = None) -> None:
        super().__init__(code, message, path)
        self.code = code
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return self.message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


_MAX_WORD_CHARS = 160
"""A misspelt word is compared up to this length: a hostile one may have a megabyte, and the comparison is quadratic."""


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest option, or an empty string."""
    close = difflib.get_close_matches(word[:_MAX_WORD_CHARS], list(options), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
