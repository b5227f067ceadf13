"""Errors that a person reads: each says what happened, where, and what to do about it.

The command line prints `str(error)` on one line and exits with code 2; a library user catches
`FactgymError`. Faults of a *policy* (a malformed action, an unknown tool) are never exceptions:
they are data, see `factgym.core.action` and `factgym.tools`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class FactgymError(Exception):
    """Base of every error that this package raises on purpose."""


class UnknownEnvError(FactgymError, LookupError):
    """No environment is registered under this id."""


class ConfigError(FactgymError, ValueError):
    """A configuration key or value that an environment, index or command does not accept."""


class DataError(FactgymError, ValueError):
    """A file or record that cannot be used; the message names the file and, where there is one, the line."""


class MissingExtraError(FactgymError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'factgym[{extra}]'")
        self.what = what
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.extra)


class EpisodeOverError(FactgymError, RuntimeError):
    """`step` was called before `reset`, or after the episode had ended."""


_MAX_WORD_CHARS = 160
"""What is compared of a misspelt word: a hostile one may have a megabyte, and the comparison is quadratic."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`" Did you mean 'x'?"` for the nearest known word, or an empty string."""
    close = difflib.get_close_matches(word[:_MAX_WORD_CHARS], list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
