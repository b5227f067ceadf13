"""Ids, versions, namespaces; and that every registered class is documented under the card's headings."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from tiny_env import TinyEnv

import factgym
from factgym.benchmarks.conformance import HEADINGS
from factgym.core import errors, registry
from factgym.core.errors import (
    ConfigError,
    FactgymError,
    MissingExtraError,
    UnknownEnvError,
    did_you_mean,
    install_command,
)
from factgym.core.policy import PolicyError
from factgym.core.registry import EnvSpec, list_envs, load_attribute, make, register, spec

ENTRY = "tiny_env:TinyEnv"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    tables: list[dict[str, Any]] = [registry._specs, gymnasium.registry]
    before = [dict(table) for table in tables]
    yield
    for table, saved in zip(tables, before, strict=True):
        table.clear()
        table.update(saved)


def test_the_claimcheck_family_is_listed() -> None:
    family = {
        f"claimcheck{end}"
        for end in (
            "",
            "-hard",
            "-ood",
            "-multihop",
            "-mini",
            "-offline",
            "-docs",
            "-contracts",
            "-wice",
            "-fm2",
            "-scifact",
        )
    }
    assert family <= set(list_envs())
    assert list_envs() == sorted(list_envs())


@pytest.mark.parametrize("id", list_envs())
def test_an_id_is_found_with_and_without_version_and_namespace(id: str) -> None:
    entry = spec(id)
    assert entry.id == id
    assert spec(entry.versioned) is spec(entry.gymnasium_id) is entry
    assert entry.versioned == f"{id}-v{entry.version}"
    assert entry.gymnasium_id == f"factgym/{entry.versioned}"
    assert entry.gymnasium_id in gymnasium.registry


@pytest.mark.parametrize("id", list_envs())
def test_every_class_is_its_own_card(id: str) -> None:
    doc = inspect.getdoc(spec(id).load()) or ""
    assert tuple(re.findall(r"^## (.+)$", doc, re.MULTILINE)) == HEADINGS
    sections = re.split(r"^## .+$", doc, flags=re.MULTILINE)
    assert all(len(section.strip()) > 20 for section in sections[1:-1])
    assert re.search(rf"^v{spec(id).version}: ", sections[-1].strip(), re.MULTILINE)
    assert 10 < len(spec(id).summary) < 120


@pytest.mark.parametrize("id", list_envs())
def test_defaults_and_fixed_settings_are_settings_of_the_config_class(id: str) -> None:
    entry = spec(id)
    settings = entry.load().Config.model_fields
    assert set(entry.kwargs) <= set(settings)
    assert entry.fixed <= set(settings)


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("claimchek", "there is no environment 'claimchek'. Did you mean 'claimcheck'?"),
        ("claimcheck-multihob", "Did you mean 'claimcheck-multihop'?"),
        ("factgym/claimchek-v2", "Did you mean 'claimcheck'?"),
        ("claimcheck-v7", "'claimcheck' is at version 2, not 7: use 'claimcheck-v2'"),
        ("factgym/claimcheck-v0", "use 'claimcheck-v2'"),
        ("", "factgym.list_envs() lists them"),
        ("zzzzzz", "factgym.list_envs() lists them"),
        ("claimcheck-v", "Did you mean"),
        ("claimcheck-v12345", "there is no environment"),
        ("other/claimcheck-v1", "there is no environment 'other/claimcheck-v1'"),
        (" claimcheck", "Did you mean 'claimcheck'?"),
        ("x" * 1_000_000, "factgym.list_envs() lists them"),
    ],
)
def test_an_unknown_id_suggests_the_nearest(id: str, message: str) -> None:
    with pytest.raises(UnknownEnvError) as caught:
        make(id)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("id", [None, 3, b"claimcheck", ["claimcheck"]])
def test_an_id_is_a_string(id: Any) -> None:
    with pytest.raises(UnknownEnvError, match="an environment id is a string"):
        make(id)


def test_a_fixed_setting_cannot_be_overridden() -> None:
    with pytest.raises(ConfigError, match="'claimcheck-hard' sets 'source' itself"):
        make("claimcheck-hard", source="mixed")
    with pytest.raises(ConfigError, match="'claimcheck-hard' sets 'source' itself"):
        gymnasium.make("factgym/claimcheck-hard-v2", source="mixed")


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'claimcheck-hard': there is no setting 'spilt'. Did you mean 'split'\?"):
        make("claimcheck-hard", spilt="test")


def test_a_registered_environment_is_made_in_both_ways() -> None:
    entry = register("tiny", ENTRY, "A tiny one.", version=3, kwargs={"max_turns": 5})
    env = make("tiny", max_observation_chars=100)
    assert isinstance(env, TinyEnv)
    assert (env.config.max_turns, env.config.max_observation_chars) == (5, 100)
    assert make("tiny-v3", max_turns=2).config.max_turns == 2
    wrapped = gymnasium.make("factgym/tiny-v3", max_turns=4)
    assert isinstance(wrapped.unwrapped, TinyEnv)
    assert wrapped.unwrapped.config.max_turns == 4
    assert entry.load() is TinyEnv
    assert "tiny" in list_envs()


def test_the_spec_of_a_made_environment_makes_it_again() -> None:
    register("tiny", ENTRY, "A tiny one.")
    env = make("tiny", max_turns=7, render_mode="ansi")
    assert env.spec is not None
    again = gymnasium.make(env.spec).unwrapped
    assert isinstance(again, TinyEnv)
    assert again.config == env.config
    assert again.render_mode == "ansi"
    read_back = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    third = gymnasium.make(read_back).unwrapped
    assert isinstance(third, TinyEnv)
    assert third.config == env.config


def test_registering_twice_is_harmless_only_when_nothing_differs() -> None:
    first = register("tiny", ENTRY, "A tiny one.", kwargs={"max_turns": 5})
    assert register("tiny", ENTRY, "A tiny one.", kwargs={"max_turns": 5}) == first
    others: list[dict[str, Any]] = [{"entry_point": "elsewhere:Env"}, {"kwargs": {"max_turns": 6}}, {"version": 2}]
    for changes in others:
        with pytest.raises(ConfigError, match=r"the id 'tiny' is taken by tiny_env:TinyEnv: choose another id"):
            register(**{"id": "tiny", "entry_point": ENTRY, "summary": "A tiny one.", **changes})
    assert spec("tiny").kwargs == {"max_turns": 5}


def test_a_newer_version_takes_the_place_of_the_old_one() -> None:
    register("tiny", ENTRY, "A tiny one.")
    register("tiny", ENTRY, "A tiny one.", version=2, replace=True)
    assert spec("tiny").version == 2
    assert "factgym/tiny-v1" not in gymnasium.registry
    with pytest.raises(UnknownEnvError, match="'tiny' is at version 2, not 1"):
        make("tiny-v1")


@pytest.mark.parametrize("id", ["", "Tiny", "tiny env", "tiny-v1", "ns/tiny", "-tiny", "tiny.x", "t" * 64, "tiny\n"])
def test_a_malformed_id_is_refused(id: str) -> None:
    with pytest.raises(ConfigError, match="is no environment id"):
        register(id, ENTRY, "x")


@pytest.mark.parametrize("entry_point", ["tiny_env", "tiny_env:", ":TinyEnv", ""])
def test_a_malformed_entry_point_is_refused(entry_point: str) -> None:
    with pytest.raises(ConfigError, match="must have the form 'module:attribute'"):
        register("tiny", entry_point, "x")
    with pytest.raises(ConfigError, match="must have the form 'module:attribute'"):
        register("tiny", ENTRY, "x", agents=entry_point)
    assert "tiny" not in list_envs()


def test_a_version_is_not_negative() -> None:
    with pytest.raises(ConfigError, match="a version is 0 or more, not -1"):
        register("tiny", ENTRY, "x", version=-1)


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'tiny_env' has no 'TinyEnw'. Did you mean 'TinyEnv'\?"):
        load_attribute("tiny_env:TinyEnw")


def test_an_entry_cannot_be_changed_and_copies_are_itself() -> None:
    entry = EnvSpec("tiny", ENTRY, "x", kwargs={"max_turns": 5}, fixed=frozenset({"seed"}))
    with pytest.raises(TypeError):
        entry.kwargs["max_turns"] = 6  # type: ignore[index]
    assert copy.deepcopy(entry) is entry
    assert pickle.loads(pickle.dumps(entry)) == entry


def test_the_caller_keeps_its_own_defaults() -> None:
    kwargs = {"max_turns": 5}
    register("tiny", ENTRY, "x", kwargs=kwargs)
    kwargs["max_turns"] = 6
    assert spec("tiny").kwargs == {"max_turns": 5}


def test_the_package_exports_all_of_its_names() -> None:
    for name in factgym.__all__:
        assert getattr(factgym, name) is not None
    assert dir(factgym) == sorted(factgym.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        factgym.nothing  # noqa: B018


MODULE = """
from factgym import register

register("hours", "tiny_env:TinyEnv", "An environment of another package.")
"""


def test_a_module_that_registers_an_environment_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_hours.py").write_text(MODULE, "utf-8")
    (tmp_path / "broken_hours.py").write_text("1 / 0", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert spec("my_hours:hours").id == "hours"
    assert spec("my_hours:hours-v1") is spec("hours")
    with pytest.raises(UnknownEnvError, match=r"'my_hours' registers none of this id. Did you mean 'hours'\?"):
        make("my_hours:hour")
    with pytest.raises(ConfigError, match="'broken_hours' could not be imported: ZeroDivisionError"):
        make("broken_hours:hours")
    with pytest.raises(ConfigError, match="'no_such_module' could not be imported: ModuleNotFoundError"):
        make("no_such_module:hours")


def test_installed_packages_register_environments_and_a_broken_one_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plugin_hours.py").write_text(MODULE, "utf-8")
    (tmp_path / "plugin_calls.py").write_text(
        "import factgym\ndef add():\n    factgym.register('called', 'tiny_env:TinyEnv', 'x')", "utf-8"
    )
    folder = tmp_path / "plugins-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n", "utf-8")
    (folder / "entry_points.txt").write_text(
        f"[{registry.PLUGIN_GROUP}]\nbroken = no_such_plugin\ncalled = plugin_calls:add\nhours = plugin_hours\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_plugin_errors", None)
    assert spec("claimcheck").id == "claimcheck" and registry._plugin_errors is None, "known ids load no plugins"
    assert {"called", "hours"} <= set(list_envs())
    assert [record.message for record in caplog.records] == [
        "The plugin 'broken' (no_such_plugin) could not be loaded: ModuleNotFoundError: No module named 'no_such_plugin'"
    ]
    with pytest.raises(UnknownEnvError, match=r"there is no environment 'zzzz'.*The plugin 'broken'"):
        make("zzzz")


# Errors that a person reads


def test_every_error_is_one_family_and_also_of_the_builtin_kind_that_callers_expect() -> None:
    kinds = {
        errors.UnknownEnvError: LookupError,
        errors.ConfigError: ValueError,
        errors.DataError: ValueError,
        errors.PathError: (errors.ConfigError, errors.DataError),
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
    assert str(error) == f"the dense index needs the extra 'dense': {install_command('dense')}"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("claimchek", " Did you mean 'claimcheck'?"), ("zzz", ""), ("", ""), ("CLAIMCHECK" * 100_000, "")],
)
def test_did_you_mean(word: str, expected: str) -> None:
    assert did_you_mean(word, ["claimcheck", "seva"]) == expected


def test_did_you_mean_without_options_is_empty() -> None:
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
