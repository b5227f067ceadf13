"""`python -m factgym.cli.docs [ROOT] [--certify ENV …]`: the pages that are generated from what runs.

In the README: the tables of rewards and of trained policies. In the guide to training: the curves' pictures. In
`docs`: its first page (the README), one card per environment, the data sets, the command line, the names that `import
factgym` exports, the changelog. In every page: the lines that install an extra. A card ends with the environment's
validation and certificate where `docs/environments` has them. `--certify` first writes those of the environments named,
of all where none is; those that read files need the folder of public data sets in FACTGYM_DATA. The curves' pictures are drawn anew where their result has changed.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

import factgym
from factgym.core.config import DATA_VARIABLE, data_folder
from factgym.core.errors import INSTALL_LINE, install_command
from factgym.core.registry import EnvSpec, list_envs, make, spec
from factgym.datasets.base import load_data_sets

CERTIFICATES = Path("docs/environments/certificates")
VALIDATIONS = Path("docs/environments/validations")
RESULTS = Path("recipes/results")
BUDGET, TASKS = 300, 100
"""Training episodes and fresh tasks of the certificates, as of `validate`: a few seconds for each environment."""
DATA: Mapping[str, str] = {
    "claimcheck-docs": "policies_basecamp",
    "claimcheck-contracts": "contract_nli",
    "claimcheck-wice": "wice",
    "claimcheck-fm2": "fool_me_twice",
    "claimcheck-scifact": "scifact",
    "seva-fever": "seva_official",
    "seva-truthfulqa": "seva_official",
    "seva-halueval": "seva_official",
    "seva-clearfacts": "clearfacts",
    "seva-anli": "anli",
}
"""Environment that reads files -> the folder of public data that its validation and certificate are over."""

Rows = list[tuple[str, ...]]


def pages(root: Path) -> dict[Path, str]:
    """Path -> text of every generated page, and of every other page whose lines of installation are generated."""
    docs = root / "docs"
    readme = (root / "README.md").read_text("utf-8")
    for name, rows in (("rewards", reward_rows(root)), ("training", training_rows(root))):
        readme = _between(readme, name, markdown_table(rows))
    texts = {path: path.read_text("utf-8") for path in sorted(docs.rglob("*.md"))}
    training = docs / "guides" / "training.md"
    texts[training] = _between(texts[training], "curves", curve_images(root))
    texts |= {
        root / "README.md": readme,
        docs / "index.md": readme.replace("](docs/", "](").replace("](CONTRIBUTING.md", "](contributing.md"),
        docs / "changelog.md": (root / "CHANGELOG.md").read_text("utf-8"),
        docs / "contributing.md": (root / "CONTRIBUTING.md").read_text("utf-8"),
        docs / "environments" / "index.md": environments_page(),
        docs / "data.md": data_page(),
        docs / "reference" / "commands.md": commands_page(),
        docs / "reference" / "python.md": python_page(),
    }
    for env_id in list_envs():
        texts[docs / "environments" / f"{env_id}.md"] = "".join(
            (card(spec(env_id)), validation_section(root, env_id), certificate_section(root, env_id))
        )
    return {path: INSTALL_LINE.sub(lambda match: install_command(match[1]), text) for path, text in texts.items()}


def markdown_table(rows: Rows) -> str:
    """Return a Markdown table; the first row is its head."""
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([head, "| " + " | ".join("---" for _ in rows[0]) + " |", *body])


def _between(text: str, name: str, content: str) -> str:
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, _, generated = text.partition(start)
    return f"{head}{start}\n{content}\n{end}{generated.partition(end)[2]}"


def reward_rows(root: Path) -> Rows:
    """What the scripted agents and the best exploits of each certificate earn, as a mean over its fresh tasks."""
    from factgym.benchmarks.search.certificate import best_exploit

    head = "environment", "honest baseline", "teacher", "exploit that never judges", "best exploit", "oracle", "search"
    rows: Rows = [head]
    for env_id in list_envs():
        path = root / CERTIFICATES / f"{env_id}.json"
        if path.is_file():
            value = json.loads(path.read_text("utf-8"))
            scripted = {role: _reward(estimate["value"]) for role, estimate in value["scripted"].items()}
            means = _reward(value["baseline"]["value"]), scripted.get("teacher", "")
            exploits = _reward(value["without_judgement"]), _reward(best_exploit(value))
            rows.append(
                (f"`{env_id}`", *means, *exploits, scripted["oracle"], "pass" if value["passed"] else "**FAIL**")
            )
    return rows


def _reward(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def training_rows(root: Path) -> Rows:
    """What the recipes with stored results earn on test tasks, before and after each stage, with paired differences."""
    heads = (
        "tuned on a teacher",
        "after GRPO",
        "GRPO − tuned, in pairs",
        "GRPO − tuning for as long",
        "honest baseline",
    )
    rows: Rows = [("recipe", "seeds", "untrained", *heads, "minutes")]
    for path in sorted((root / RESULTS).glob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        test, minutes = result["splits"]["test"], result.get("minutes", [])
        reward = {name: _reward(score["reward"]) for name, score in test["scores"].items()}
        order = list(reward)
        trained = next((name for name in reversed(order) if "-grpo" in name), order[-1])
        pairs = {row["before"]: row["scores"]["reward"] for row in test["differences"] if row["after"] == trained}
        tuned = next((name for name in pairs if "-sft" in name), "")
        control = next((name for name in pairs if order.index(name) > order.index(trained)), "")
        differences = ["{:+.2f} [{:.2f}, {:.2f}]".format(*pairs[name]) if name else "" for name in (tuned, control)]
        honest = _reward(test.get("references", {}).get("honest", {}).get("reward"))
        spent = f"{min(minutes)}–{max(minutes)}" if minutes else ""
        cells = (reward["start"], reward.get(tuned, ""), reward[trained] if trained != tuned else "", *differences)
        rows.append((f"`{path.stem}`", str(len(result.get("seeds", [0]))), *cells, honest, spent))
    return rows


def _curves(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and content of every stored result that has a held-out curve."""
    for path in sorted((root / RESULTS).glob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        if result.get("held_out"):
            yield path.stem, result


def curve_images(root: Path) -> str:
    """The pictures of the stored results' held-out curves, as `draw_curves` names them."""
    text = "Reward of {0} by step on validation tasks, and on test tasks before the first stage and after each"
    return "\n\n".join(f"![{text.format(name)}](../images/curve_{name}.svg)" for name, _ in _curves(root))


def draw_curves(root: Path, *, all_of_them: bool = False) -> None:
    """Draw the held-out curves whose results have changed since, or all. Raises MissingExtraError without Matplotlib."""
    from factgym.training.recipes.curves import held_out_chart, result_digest
    from factgym.training.recipes.recipe import read_recipe, recipe_of

    for name, result in _curves(root):
        picture = root / "docs" / "images" / f"curve_{name}.svg"
        if not all_of_them and picture.is_file() and result_digest(result) in picture.read_text("utf-8"):
            continue
        recipe, seeds = root / RESULTS.parent / f"{name}.toml", result.get("seeds", [])
        stages = recipe_of(read_recipe(recipe)).stages if recipe.is_file() else ()
        title = f"{name}, mean of {len(seeds)} seeds" if len(seeds) > 1 else name
        picture.write_text(held_out_chart(title, result, [stage.steps for stage in stages]), "utf-8")


def environments_page() -> str:
    """The table of all environments, with links to their cards."""
    rows: Rows = [("environment", "task")]
    rows += [(f"[`{entry.id}`]({entry.id}.md)", entry.summary) for entry in map(spec, list_envs())]
    return (
        f"# Environments\n\n{markdown_table(rows)}\n\n`path=…` marks those that read files of yours; all others need "
        "none. `factgym info ENV` prints a card with its settings and scripted agents.\n"
    )


def card(entry: EnvSpec) -> str:
    """The Markdown card of an environment, from its class's docstring."""
    about = inspect.getdoc(entry.load()) or ""
    settings = ", ".join(f"`{key}={value!r}`" for key, value in sorted(entry.kwargs.items()))
    return (
        f"# {entry.versioned}\n\n{entry.summary} In Gymnasium: `{entry.gymnasium_id}`. "
        f"It sets {settings or 'nothing'}.\n\n{about}\n"
    )


def data_page() -> str:
    """The public data sets that the readers know, with their licences."""
    used = {
        "claims": "Claims and documents, some with marked evidence: `claimcheck-…`, `factgym benchmark grounding`",
        "attribution": "Claims and sources: `seva-…`",
        "questions": "Questions: `corver-qa` and `corver-qa-search` with `source=…`",
        "multihop": "Questions with gold evidence: `eve-solver` with `source=…`",
    }
    parts = [
        "# Data sets\n\nNo data set is part of the package. Download what you need, name the file or its folder with "
        "`path=…`, or set `FACTGYM_DATA` to a folder that holds them under these names. Licences are those that the "
        "authors state; they are yours to keep. Files of your own are read by their columns, which an error names. "
        "ContractNLI (CC BY 4.0) goes to `claimcheck-contracts`, AVeriTeC (CC BY-NC 4.0) to `profact`: [guide]"
        "(guides/profact.md)."
    ]
    for family, title in used.items():
        rows: Rows = [("name", "licence", "split", "files, the first that exists")]
        for data_set in load_data_sets(family).values():
            for split, files in data_set.splits.items():
                names = ", ".join(f"`{file}`" for file in files)
                rows.append((f"`{data_set.name}`", data_set.licence, f"`{split}`", names))
        parts.append(f"## {title}\n\n{markdown_table(rows)}")
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    from factgym.cli.main import app  # imports every command

    root = typer.main.get_command(app)
    return "# The command line\n\n" + "\n\n".join(_command_parts("factgym", root)) + "\n"


def _command_parts(name: str, command: Any) -> Iterator[str]:
    under = getattr(command, "commands", {})
    if not under:
        yield f"## {name}\n\n{inspect.cleandoc(command.help or '')}"
        rows: Rows = [("argument", "default", "meaning")]
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            label = (parameter.name or "").upper() if parameter.param_type_name == "argument" else ", ".join(names)
            default = parameter.default
            default_text = (
                "" if default is None or callable(default) or default in ((), [], False, "") else f"`{default}`"
            )
            text = " ".join(str(getattr(parameter, "help", None) or "").split())
            rows.append((f"`{label}`", default_text, text))
        if len(rows) > 1:
            yield markdown_table(rows)
    for child, value in under.items():
        yield from _command_parts(f"{name} {child}", value)


def python_page() -> str:
    """The names that `import factgym` exports, for mkdocstrings to fill from their docstrings."""
    parts = ["# Python\n\nThe names that `import factgym` exports."]
    for name in sorted(factgym.__all__, key=str.lower):
        if name.startswith("__"):
            continue
        value = getattr(factgym, name)
        module = getattr(value, "__module__", None)
        home = module if module and module.startswith("factgym") else "factgym.core.policy"
        parts.append(f"::: {home}.{name}")
    return "\n\n".join(parts) + "\n"


def validation_section(root: Path, env_id: str) -> str:
    """The section of a card that shows the environment's validation and its badge; empty where there is none."""
    path = root / VALIDATIONS / f"{env_id}.json"
    if not path.is_file():
        return ""
    from factgym.benchmarks.validation import markdown

    return f"\n{markdown(json.loads(path.read_text('utf-8')), f'validations/{env_id}.svg')}"


def certificate_section(root: Path, env_id: str) -> str:
    """The section of a card that shows the environment's certificate; empty where there is none."""
    path = root / CERTIFICATES / f"{env_id}.json"
    if not path.is_file():
        return ""
    from factgym.benchmarks.search.certificate import markdown, read_certificate
    from factgym.core.registry import load_attribute

    default = load_attribute(spec(env_id).load().strategies or "").strategy().to_json()
    return f"\n{markdown(read_certificate(path.read_text('utf-8')), default)}"


def data_settings(env_id: str, folder: Path | None) -> dict[str, str] | None:
    """The settings under which an environment is certified; None for one that reads files where they are missing.

    folder: of public data sets.
    """
    if env_id not in DATA:
        return {}
    path = folder / DATA[env_id] if folder else None
    return {"path": str(path)} if path and path.is_dir() else None


def certify(env_id: str, folder: Path | None = None) -> dict[str, Any] | None:
    """The certificate of an environment at the small budget, as `write_trust` writes it.

    folder: of public data sets. None for an environment that needs one that is missing.
    """
    from factgym.benchmarks.search.certificate import certificate
    from factgym.benchmarks.search.run import run_search

    settings = data_settings(env_id, folder)
    return None if settings is None else certificate(run_search(make(env_id, **settings), budget=BUDGET, n=TASKS))


def write_trust(root: Path, env_id: str, folder: Path | None = None) -> None:
    """Write the validation of an environment with its badge, and its certificate where it has a strategy space.

    folder: of public data sets; nothing is written of an environment that needs one that is missing.
    """
    from factgym.benchmarks.validation import badge, json_text, validate

    settings = data_settings(env_id, folder)
    if settings is None:
        print(f"{env_id}: left out, set {DATA_VARIABLE} to a folder that holds {DATA[env_id]}")
        return
    validation = validate(env_id, settings)
    data = validation.to_dict()
    texts = {VALIDATIONS / f"{env_id}.json": json_text(data), VALIDATIONS / f"{env_id}.svg": badge(data)}
    if validation.certificate is not None:
        texts[CERTIFICATES / f"{env_id}.json"] = json_text(validation.certificate)
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    print(f"{env_id}: {'passed' if validation.passed else 'FAILED'}")


def main() -> None:
    """Write the pages."""
    arguments = sys.argv[1:]
    if "--certify" in arguments:
        split = arguments.index("--certify")
        arguments, chosen = arguments[:split], arguments[split + 1 :] or list_envs()
    else:
        chosen = []
    root = Path(arguments[0] if arguments else ".")
    for env_id in chosen:
        write_trust(root, env_id, data_folder())
    for path, text in pages(root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    draw_curves(root)


if __name__ == "__main__":
    main()
