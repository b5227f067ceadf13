"""Errors that a person reads."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from factgym.core import errors
from factgym.core.errors import FactgymError, MissingExtraError, did_you_mean
from factgym.core.policy import PolicyError


def test_every_error_is_one_family_and_also_of_the_builtin_kind_that_callers_expect() -> None:
    kinds = {
        errors.UnknownEnvError: LookupError,
        errors.ConfigError: ValueError,
        errors.DataError: ValueError,
        errors.MissingExtraError: ImportError,
        errors.EpisodeOverError: RuntimeError,
        errors.ToolError: Exception,
    }
    defined = {cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, FactgymError)}
    assert defined - {FactgymError} == set(kinds)
    for cls, builtin in kinds.items():
        assert issubclass(cls, FactgymError) and issubclass(cls, builtin)


def test_a_missing_extra_names_the_command_that_brings_it() -> None:
    error = MissingExtraError("the dense index", "dense")
    assert error.extra == "dense"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.extra) == (str(error), "dense")
    assert str(error) == "the dense index needs the extra 'dense': pip install 'factgym[dense]'"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("claimchek", " Did you mean 'claimcheck'?"), ("zzz", ""), ("", ""), ("CLAIMCHECK" * 100_000, "")],
)
def test_did_you_mean(word: str, expected: str) -> None:
    assert did_you_mean(word, ["claimcheck", "seva"]) == expected


def test_did_you_mean_of_nothing_known_is_nothing() -> None:
    assert did_you_mean("word", iter(())) == ""


def test_a_fault_of_a_policy_travels_between_processes() -> None:
    fault = pickle.loads(pickle.dumps(PolicyError("rate_limit", "busy", fatal=True)))
    assert (fault.cause, str(fault), fault.fatal) == ("rate_limit", "busy", True)


def test_a_tool_error_is_data_that_compares_copies_and_travels() -> None:
    error = errors.ToolError("no_such_page", "There is no page 9.", path="$.page")
    assert str(error) == error.message == "There is no page 9."
    assert error == errors.ToolError("no_such_page", "There is no page 9.", "$.page") != errors.ToolError("x", "y")
    assert pickle.loads(pickle.dumps(error)) == copy.deepcopy(error) == error
    assert len({error, copy.copy(error)}) == 1
