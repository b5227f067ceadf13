"""The hub packages are what the registry says, and settings survive the way from a flag to an environment."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import factgym
from factgym.core.errors import ConfigError, install_command
from factgym.integrations.frameworks import make_arguments, settings_of
from factgym.integrations.hub import module_of, packages
from factgym.integrations.session import Session, self_contained
from factgym.rewards.claimcheck.evidence import QuoteRules

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "environments"


def test_the_checked_in_packages_equal_the_commands_output() -> None:
    written = packages(ROOT)
    for path, text in written.items():
        assert path.is_file(), f"{path} is missing: run python -m factgym.integrations.hub ."
        assert path.read_text("utf-8") == text, f"{path} is stale: run python -m factgym.integrations.hub ."
    present = {path for path in ENVIRONMENTS.rglob("*.*") if path.is_file() and "__pycache__" not in path.parts}
    sources = {path for path in present if not {"dist", "build"} & set(path.relative_to(ENVIRONMENTS).parts)}
    assert {path for path in sources if ".egg-info" not in str(path)} == set(written)


def test_every_environment_that_needs_no_file_has_a_package() -> None:
    assert {"claimcheck-multihop", "claimcheck", "seva"} <= set(self_contained())
    assert {path.name for path in ENVIRONMENTS.iterdir()} == {module_of(env_id) for env_id in self_contained()}


@pytest.mark.parametrize("env_id", self_contained())
def test_a_package_has_the_hubs_metadata(env_id: str) -> None:
    folder = ENVIRONMENTS / module_of(env_id)
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    factgym_project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == env_id and module_of(project["name"]) == folder.name
    assert project["version"] == factgym.__version__ == factgym_project["version"]
    assert (project["license"], project["requires-python"]) == (
        factgym_project["license"],
        factgym_project["requires-python"],
    )
    assert project["tags"] and project["description"] and project["readme"] == "README.md"
    (verifiers,) = [requirement for requirement in project["dependencies"] if requirement.startswith("verifiers")]
    assert verifiers in factgym_project["optional-dependencies"]["verifiers"]
    assert re.search(r">=0\.4\b.*<0\.5$", verifiers), "without a lower bound the hub lists it as legacy"
    module = ast.parse((folder / folder.name / "__init__.py").read_text("utf-8"))
    assert ast.get_docstring(module)
    text = (folder / "README.md").read_text("utf-8")
    for name in (setting.name for setting in settings_of(env_id)):
        assert f"| `{name}" in text
    assert "### Known exploits" in text or "### Rewards" in text


@pytest.mark.parametrize("env_id", factgym.list_envs())
def test_every_setting_of_an_environment_takes_plain_values(env_id: str) -> None:
    entry = factgym.spec(env_id)
    names = entry.load().Config.model_fields.keys() - entry.fixed
    settings = {setting.name: setting for setting in settings_of(env_id)}
    assert settings.keys() == names
    assert all(setting.description for setting in settings.values() if not setting.inner), (
        "the docstring of the Config explains each"
    )
    defaults = {name: setting.default for name, setting in settings.items()}
    assert make_arguments(env_id, defaults) == {}


def test_plain_values_become_an_environments_configuration() -> None:
    values = {"split": "train", "max_turns": 5, "rules": {"min_quote_chars": 20}, "reward": "v2"}
    config = Session("claimcheck-multihop", **make_arguments("claimcheck-multihop", values)).env.config
    assert (config.split, config.max_turns, config.reward) == ("train", 5, "v2")
    assert config.rules == dataclasses.replace(QuoteRules(), min_quote_chars=20)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"spilt": "train"}, "Did you mean 'split'"),
        ({"source": "hard"}, "no plain setting 'source'"),
        ({"rules": {"min_quote_char": 3}}, "Did you mean 'min_quote_chars'"),
        ({"rules": {"min_quote_chars": "many"}}, "should be a valid integer"),
    ],
)
def test_an_unknown_setting_is_refused_with_a_reason(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make_arguments("claimcheck-multihop", values)


def extras() -> dict[str, list[Requirement]]:
    lists = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    return {name: [Requirement(requirement) for requirement in requirements] for name, requirements in lists.items()}


def table() -> list[tuple[str, str, str, str]]:
    lines = [line for line in (ROOT / ".ci" / "frameworks").read_text("utf-8").splitlines() if line and line[0] != "#"]
    rows = []
    for line in lines:
        name, python, arguments, files = (cell.strip() for cell in line.split("|"))
        rows.append((name, python, arguments, files))
    return rows


def pins(arguments: str) -> dict[str, Version]:
    return {name: Version(pin) for name, pin in re.findall(r"([\w-]+)==([\w.]+)", arguments)}


def test_the_table_of_frameworks_names_existing_extras_and_files() -> None:
    names = []
    for name, python, arguments, files in table():
        names.append(name)
        assert re.fullmatch(r"default|3\.\d+", python)
        (extra,) = re.findall(r"-e \.\[([\w,-]+)\]", arguments)
        assert set(extra.split(",")) <= extras().keys(), name
        assert all(list(ROOT.glob(pattern)) for pattern in files.split()), name
    assert len(set(names)) == len(names)
    assert {path.stem for path in (ROOT / "docs" / "guides" / "integrations").glob("*.md")} <= set(names) | {"session"}


def test_the_lowest_lines_are_at_the_lower_bounds_and_the_other_lines_are_free() -> None:
    lines = {name: arguments for name, _, arguments, _ in table()}
    lowest = [name for name in lines if name.endswith("-lowest")]
    assert lowest
    for name in lowest:
        extra = name.removesuffix("-lowest")
        specifiers = {requirement.name: requirement.specifier for requirement in extras()[extra]}
        pinned, newest = pins(lines[name]), pins(lines[extra])
        assert extras()[extra][0].name in pinned, f"{name} must pin the framework"
        assert not newest.keys() & specifiers.keys(), f"{extra} must take the newest versions that its bounds allow"
        for package, version in pinned.items() - {("torch", Version("2.13.0"))}:
            (bound,) = (
                Version(requirement.version) for requirement in specifiers[package] if requirement.operator == ">="
            )
            assert version == bound, f"{name} pins {package} to {version}; pyproject.toml begins at {bound}"


def test_a_missing_framework_is_named_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['verifiers'] = None\n"
        "from factgym.core.errors import MissingExtraError\n"
        "try:\n    import factgym.integrations.verifiers\n"
        "except MissingExtraError as error:\n    sys.stdout.write(str(error))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"The verifiers integration needs the extra 'verifiers': {install_command('verifiers')}"
