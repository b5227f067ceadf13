"""Paths that the system refuses, in every setting of every environment and on every command line: one line, exit code 2.

Generated over the registry and over typer's own tree of commands, so that new settings and commands are covered. What is
refused is the system's own answer (stat(2), path_resolution(7)), not a list of ours.
"""

from __future__ import annotations

import sys
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from refused_paths import KINDS, forbid, no_waiting, refused
from typer.models import OptionInfo, ParameterInfo

from factgym import make
from factgym.agents.resolve import find_agent
from factgym.cli.main import app, main
from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError, DataError, FactgymError, PathError, error_line
from factgym.core.paths import kind_of, list_folder, open_file, read_text, user_path
from factgym.core.registry import list_envs, spec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="devices and /proc of Linux")
MISSING = {"long name", "long path", "loop", "null", "surrogate", "below a file", "unknown user", "empty"}
"""Kinds under which there is no file at all."""


@pytest.fixture
def bad(tmp_path, monkeypatch):
    """From a kind to a path of it."""
    forbid(monkeypatch, tmp_path)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return lambda kind: refused(kind, tmp_path)


def check_line(line: str) -> None:
    assert line.isprintable() and 10 < len(line) < 900, line


@pytest.mark.parametrize("kind", KINDS)
def test_every_opener_refuses_it_with_the_setting_the_path_and_a_remedy(bad, kind):
    path = bad(kind)
    with no_waiting():
        for read in (kind_of, open_file, read_text, list_folder):
            if (kind, read) != ("unknown user", kind_of) and not (kind == "unknown user" and read is not kind_of):
                with pytest.raises(PathError):
                    read(path)
        with pytest.raises(PathError) as refusal:
            user_path(path, "--out")
    assert isinstance(refusal.value, ConfigError) and isinstance(refusal.value, DataError)
    check_line(error_line(refusal.value))
    assert str(refusal.value).startswith("--out") and ": " in str(refusal.value)
    assert len(str(refusal.value)) < 400
    if kind in MISSING - {"empty", "unknown user", "null", "surrogate"}:  # the system's own words
        with pytest.raises(OSError) as system:
            Path(path).stat()
        assert str(system.value.strerror) in str(refusal.value)


def test_usual_paths_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_bytes(b"a\r\nb\rc")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert user_path("~/file") == tmp_path / "file" and read_text(tmp_path / "link") == "a\nb\nc"
    assert [kind_of(tmp_path / name) for name in ("file", "link", ".", "dangling", "none/of/it")] == [
        *("file", "file", "folder", None, None)
    ]
    assert kind_of("/proc/self/cwd") == "folder"  # a link out of /proc
    with pytest.raises(PathError, match="is a folder: name a file"):
        open_file(tmp_path)
    with pytest.raises(PathError, match="is not a folder: name a folder"):
        list_folder(tmp_path / "file")


CONFIGS = {spec(id_).load().Config: id_ for id_ in list_envs()}
TEXTS = sorted(
    {
        (id_, name)
        for Config, id_ in CONFIGS.items()
        for name, field in Config.model_fields.items()
        if "str" in str(field.annotation) or "Any" in str(field.annotation)
    }
)
PATHS = {"path", "store", "cache", "cache_dir"}
FEW = ("long name", "null", "fifo", "empty")
"""Kinds for what takes long, where all kinds go the way that the first test shows."""
PREFIXES = ("", "hf:", "nli:", "quco:", "infini-gram:", "features:")


@pytest.mark.parametrize(("id_", "name"), TEXTS, ids=[f"{id_}-{name}" for id_, name in TEXTS])
def test_every_setting_of_every_environment_refuses_it_or_does_not_read_it(bad, id_, name):
    for kind in KINDS:
        path = bad(kind)
        forms = [*(prefix + path for prefix in PREFIXES), f"{path}.py:Class", {"encoder": path}]
        for value in forms if kind in FEW else [path]:
            with no_waiting():
                try:
                    env = make(id_, **{name: value})
                    env.reset(seed=0)
                    while env.episode.stop is None:
                        env.step("x")
                    is_refused = False
                except FactgymError as error:
                    check_line(error_line(error))
                    is_refused = True
            assert is_refused or env.episode.stop != "error", env.episode.fault
            if name in PATHS and value == path:
                with pytest.raises(ConfigError, match=rf"{name}( is|:) "):
                    make(id_, **{name: value})


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_of_data_is_refused_by_its_variable(bad, kind, monkeypatch):
    if kind in ("empty", "null", "surrogate"):
        return  # empty is unset, and the system takes no variable with the others
    monkeypatch.setenv(DATA_VARIABLE, bad(kind))
    with no_waiting(), pytest.raises(PathError, match=f"^{DATA_VARIABLE}: "):
        make("seva-anli")


AGENTS = (
    "hf:{}",
    "nli:{}",
    "majority:3:hf:{}",
    "best:2:hf:{}",
    "{}.py:Class",
    "{}:Class",
    "http://{}",
    "https://{}/v1",
)


@pytest.mark.parametrize("form", AGENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_an_agent_refuses_it(bad, kind, form):
    if kind == "unknown user" and "://" in form:
        return  # the name of a host like another, until it is looked up
    with no_waiting(), pytest.raises(FactgymError) as refusal:
        find_agent(form.format(bad(kind)), "claimcheck-mini", {})
    check_line(error_line(refusal.value))


def commands(typer_app, prefix=()):
    for command in typer_app.registered_commands:
        yield (*prefix, command.name or command.callback.__name__.replace("_", "-")), command.callback
    for group in typer_app.registered_groups:
        names = (group.name, group.typer_instance.info.name)
        yield from commands(group.typer_instance, (*prefix, next(name for name in names if isinstance(name, str))))


def types(annotation) -> list[Any]:
    return [annotation, *(inner for part in get_args(annotation) for inner in types(part))]


def parameters(callback) -> list[tuple[str, Any, bool]]:
    """Name or flag, information and whether it is a path, of each parameter."""
    hints = get_type_hints(callback, include_extras=True)
    rows = []
    for name, hint in hints.items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, ParameterInfo):
                flags = [flag for flag in (info.default, *(info.param_decls or ())) if str(flag).startswith("-")]
                flag = (flags or [f"--{name.replace('_', '-')}"])[-1] if isinstance(info, OptionInfo) else ""
                rows.append((flag or name, info, Path in types(hint)))
    return rows


PATH_PARAMETERS = [
    (path, name, callback) for path, callback in commands(app) for name, _, is_path in parameters(callback) if is_path
]


def test_the_tree_has_the_commands_that_it_shows():
    names = {" ".join(path) for path, _ in commands(app)}
    assert {"eval", "corpus build", "serve check", "evolve eve", "view"} <= names and len(PATH_PARAMETERS) > 40


@pytest.mark.parametrize(
    ("path", "name", "callback"), PATH_PARAMETERS, ids=[" ".join((*path, name)) for path, name, _ in PATH_PARAMETERS]
)
def test_every_path_of_every_command_is_refused_in_one_line(bad, capsys, monkeypatch, path, name, callback):
    for kind in FEW:
        value = bad(kind)
        # Arguments that are needed get a text each: all are parsed before the command begins, and the path is refused then.
        defaults = signature(callback).parameters
        positions = [other for other, info, _ in parameters(callback) if not other.startswith("-")]
        positions = [other for other in positions if other == name or defaults[other].default is Parameter.empty]
        arguments = [value if other == name else "x" for other in positions]
        options = [] if name in positions else [name, value]
        monkeypatch.setattr(sys, "argv", ["factgym", *path, *options, *arguments])
        with no_waiting(), pytest.raises(SystemExit) as stop:
            main()
        output = capsys.readouterr()
        assert (stop.value.code, output.out, output.err.count("\n")) == (2, "", 1), (kind, output)
        assert name.lstrip("-").replace("-", "").lower()[:4] in output.err.replace("-", "").lower(), output.err
        check_line(output.err.removesuffix("\n"))


def test_an_error_of_the_system_later_on_is_one_line_but_an_error_of_the_package_is_none(monkeypatch, capsys):
    for error, is_refused in (
        (OSError(28, "No space left on device"), True),
        (FileNotFoundError(2, "No such file or directory", "/data/gone"), True),
        (
            FileNotFoundError(2, "No such file or directory", str(Path(make.__code__.co_filename).parent / "x.md")),
            False,
        ),
        (OSError(9, "Bad file descriptor"), False),
    ):

        def fail(error=error):
            raise error

        monkeypatch.setattr("factgym.cli.main.app", fail)
        with pytest.raises(SystemExit if is_refused else OSError) as stop:
            main()
        if is_refused:
            assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1
