"""`factgym evolve seva`."""

from __future__ import annotations

import importlib.util
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from factgym.cli.evolve import evolve_app
from factgym.core.errors import FactgymError

SMALL = ("--size", "30", "--material", "50", "--warm-up", "30", "--budget", "16", "--rounds", "2")


@pytest.fixture(autouse=True)
def _without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def evolve(*args: str) -> str:
    done = CliRunner().invoke(evolve_app, ["seva", *args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_arms_side_by_side(tmp_path: Path) -> None:
    output = evolve(*SMALL, "--arms", "random,weakness,mix", "--out", "out")
    for name in ("seed", "weakness 2", "random 2", "mix 2"):
        assert f"\n{name} " in output
    assert max(len(line) for line in output.splitlines()) <= 80
    assert "NOT judged by a model" in output.replace("\n", " ")
    data = json.loads((tmp_path / "out" / "rounds.json").read_text())
    assert [row["arm"] for row in data["rounds"]] == ["", "weakness", "weakness", "random", "random", "mix", "mix"]
    if importlib.util.find_spec("matplotlib"):
        ET.parse(tmp_path / "out" / "rounds.svg")
    again = evolve(*SMALL, "--arms", "random,weakness,mix", "--out", "out", "--resume")
    assert "verifying" not in again
    assert again[again.index("Macro-F1") :] == output[output.index("Macro-F1") :]


def test_options_from_a_file_are_those_of_the_command_line(tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(
        'size = 30\nmaterial = 50\nwarm-up = 30\nbudget = [8, 16]\narms = ["random", "weakness"]\nrounds = 2\nrules = false\n'
        'out = "file"\n'
    )
    evolve("small.toml", "--rounds", "1")
    options = ("--size", "30", "--material", "50", "--warm-up", "30", "--budget", "8,16", "--arms", "random,weakness")
    evolve(*options, "--no-rules", "--rounds", "1", "--out", "line")
    first, second = (json.loads((tmp_path / name / "rounds.json").read_text()) for name in ("file", "line"))
    assert first == second
    for text, message in (("roundz = 3", "seva has no option 'roundz'. Did you mean 'rounds'"), ("a", "no valid TOML")):
        recipe.write_text(text)
        with pytest.raises(FactgymError, match=message):
            evolve("small.toml")


def test_settings_of_a_file_are_those_of_a_repeated_option(tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('agent = "nli"\nagent_set = { temperature = 0.5, top_p = "x" }\n')
    with pytest.raises(FactgymError, match=r"takes no settings \(temperature, top_p\)"):
        evolve("r.toml")


def test_one_control_alone(tmp_path: Path) -> None:
    output = evolve(*SMALL, "--probes", "random", "--out", "out")
    assert "\nrandom 2 " in output
    assert "At most as many" not in output
    evolve(*SMALL, "--mix", "generated-ood=3,generated-train=1/2", "--out", "mixed")
    manifest = json.loads((tmp_path / "mixed" / "mix" / "round-1" / "manifest.json").read_text())
    assert manifest["arm"]["shares"] == {"generated-ood": "3", "generated-train": "1/2"}


def test_a_command_and_a_schedule(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(
        "import sys, pathlib\nout = pathlib.Path(sys.argv[2])\n"
        "(out / 'agent.txt').write_text('majority-class.py:act')\n"
        "pathlib.Path('majority-class.py').write_text('def act(messages, tools):\\n    return \\'{\"label\": \"no\"}\\'\\n')\n"
    )
    command = json.dumps([sys.executable, "fit.py", "{data}", "{out}"])
    args = ("--trainer", "command", "--command", command, "--trainer-set", "timeout=60", "--agent", "nli")
    evolve("--size", "40", "--material", "60", "--budget", "12,18", "--rounds", "2", *args, "--out", "out")
    budgets = [
        json.loads((tmp_path / "out" / "weakness" / f"round-{number}" / "manifest.json").read_text())["budget"]
        for number in (1, 2)
    ]
    assert budgets == [12, 18]
    assert (tmp_path / "out" / "weakness" / "round-2" / "model" / "command.log").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--budget", "many"), "--budget takes a number"),
        (("--budget", ""), "--budget takes a number"),
        (("--mix", "fever=x"), "--mix takes NAME"),
        (("--mix", "fever=1/0"), "--mix takes NAME"),
        (("--mix", "fevr"), "did you mean 'fever'"),
        (("--arms", "weaknes"), "did you mean 'weakness'"),
        (("--arms", ","), "needs an arm"),
        (("--probes", "random", "--mix", "fever"), "two arms"),
        (("--benchmarks", "fever,fever"), "named twice"),
        (("--benchmarks", "fever"), "needs a file or folder"),
        (("--trainer", "command"), "go together"),
        (("--command", "[]"), "go together"),
        (("--trainer", "command", "--command", "python x.py"), "takes a JSON list"),
        (("--agent", "oracle"), "nothing can be learned"),
        (("--agent", "features:nowhere"), "cannot be read"),
        (("--judge", "oracle"), "nothing can be learned"),
    ],
)
def test_impossible_arguments_are_named(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(FactgymError, match=f"(?is){message}"):
        CliRunner().invoke(evolve_app, ["seva", *args, "--out", "out"], catch_exceptions=False)
    assert not list((tmp_path / "out").rglob("metrics.json"))


def test_there_is_room_for_other_systems() -> None:
    app = typer.Typer()
    app.add_typer(evolve_app, name="evolve")
    output = CliRunner().invoke(app, ["evolve", "--help"], env={"COLUMNS": "200"})
    assert "seva" in output.output
    assert CliRunner().invoke(app, ["evolve", "seva", "--help"]).exit_code == 0


def test_a_whole_loop_on_real_data(data_dir: Path, tmp_path: Path) -> None:
    output = evolve(
        "--path",
        str(data_dir),
        "--size",
        "40",
        "--material",
        "100",
        "--warm-up",
        "60",
        "--budget",
        "30",
        "--out",
        "out",
    )
    assert all(name in output for name in ("clearfacts", "fever", "truthfulqa", "halueval"))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["source"] == "anli"
    assert str(data_dir) not in (tmp_path / "out" / "manifest.json").read_text()
