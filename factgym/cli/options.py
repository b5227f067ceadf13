"""Options that several commands share, and how they become configurations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.models import ParameterInfo

from factgym.core.env import Env
from factgym.core.errors import ConfigError, FactgymError, PathError, did_you_mean
from factgym.core.paths import user_path
from factgym.core.registry import make

KeyValues = list[str] | None


def key_value(help_text: str) -> Any:
    """A repeatable option KEY=VALUE."""
    return typer.Option(metavar="KEY=VALUE", help=f"{help_text} Repeatable.")


EnvId = Annotated[
    str, typer.Argument(metavar="ENV", help="An environment (see `factgym list`), or package.module:name of your own.")
]
Split = Annotated[str | None, typer.Option(help="Split of the tasks; `factgym info ENV` lists them.")]
Reward = Annotated[str | None, typer.Option(help="Reward, for example r0, gated or v2; see `factgym info ENV`.")]
DataPath = Annotated[str | None, typer.Option("--path", help="Folder or file of an environment over your own data.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, such as --set haystack=true. Repeatable."),
]
IndexSettings = Annotated[
    KeyValues,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of the index, such as --set encoder=PATH. Repeatable."),
]
CountSemantics = Annotated[Literal["infini-gram", "window"], typer.Option(help="Semantics of the counts.")]
CountWindow = Annotated[int, typer.Option(min=1, help="Largest distance, in words.")]
CountTokenizer = Annotated[
    Path | None, typer.Option("--tokenizer", help="infini-gram: only: the tokenizer that its index was made with.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the tasks and their order.")]
Tasks = Annotated[
    Path | None, typer.Option("--tasks", help="Only the tasks in this file: tasks.txt or kept.jsonl of a filter.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue in the folder, if it is not empty.")]
Prices = Annotated[Path | None, typer.Option(help="A price table (TOML or JSON), to show tokens as money.")]

BaseUrl = Annotated[str | None, typer.Option(help="URL of the server of openai:MODEL.")]
Temperature = Annotated[float | None, typer.Option(help="Sampling temperature of a model; 0 is greedy.")]
MaxTokens = Annotated[int | None, typer.Option(help="Maximum tokens of one reply of a model.")]
AgentSettings = Annotated[KeyValues, key_value("Any other setting of the agent, such as --agent-set top_p=0.9.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Number of concurrent episodes.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds after which an episode ends with an error.")]
MaxErrors = Annotated[
    int | None, typer.Option(min=0, help="Stop after this many infrastructure errors in a row (0: never).")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Worker processes on this machine; none by default.")]
Ray = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Use a Ray cluster: HOST:PORT, auto or local.")]
RayWorkers = Annotated[int | None, typer.Option(min=1, help="Workers on the cluster; by default as many as fit.")]
RayGpus = Annotated[float, typer.Option(min=0, help="GPUs of each worker, for a local model.")]


def check_paths(app: typer.Typer) -> None:
    """Make every argument and option of type Path refuse, when it is parsed, what `user_path` refuses."""
    for command in app.registered_commands:
        assert command.callback is not None
        # Evaluated once: each evaluation of an annotation's text makes another object of the option.
        hints = command.callback.__annotations__ = get_type_hints(command.callback, include_extras=True)
        for name, annotation in hints.items():
            for info in getattr(annotation, "__metadata__", ()):
                if isinstance(info, ParameterInfo) and Path in _types(annotation):
                    # An annotation's first name is kept as its default.
                    flags = [flag for flag in (info.default, *(info.param_decls or ())) if str(flag).startswith("--")]
                    is_option = isinstance(info, typer.models.OptionInfo)
                    own = f"--{name.replace('_', '-')}" if is_option else name.upper()
                    info.parser = _path_parser(str(flags[0]) if flags else own)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        check_paths(group.typer_instance)


def _types(annotation: Any) -> list[Any]:
    return [annotation, *(inner for part in get_args(annotation) for inner in _types(part))]


def _path_parser(setting: str) -> Callable[[Any], Path]:
    def path(text: Any) -> Path:  # the name is shown in the help
        try:
            return user_path(text, setting)
        except PathError as error:  # typer takes a ValueError for its own, and words it otherwise
            raise FactgymError(str(error)) from None

    return path


def parse_settings(settings: KeyValues, option: str = "--set", **overrides: Any) -> dict[str, Any]:
    """`["haystack=true", "index=bm25"]` as values (JSON where it is JSON, else text), and the overrides that were given."""
    values: dict[str, Any] = {}
    for setting in settings or []:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} takes KEY=VALUE, not {setting!r:.80}")
        try:
            values[key] = json.loads(text)
        except (ValueError, RecursionError):
            values[key] = text
    return values | {name: value for name, value in overrides.items() if value is not None}


def make_env(env_id: str, settings: KeyValues = None, **overrides: Any) -> Env[Any]:
    """The environment with the settings of --set and the overrides that were given."""
    return make(env_id, **parse_settings(settings, **overrides))


def chosen_tasks(env: Env[Any], tasks: Path | None) -> Env[Any]:
    """The environment over the tasks of a file, all of them without one."""
    if tasks is None:
        return env
    from factgym.training.difficulty_filter import only, read_tasks

    return only(env, read_tasks(tasks))


def rollout_engine(
    agent: str, settings: dict[str, Any], workers: int | None, ray: str | None, ray_workers: int | None, gpus: float
) -> Any:
    """The engine of the rollouts: this process, worker processes, or a cluster."""
    if ray is None and workers is None:
        from factgym.agents.rollout.engine import run_jobs

        return run_jobs
    from factgym.agents.cluster import on_processes, on_ray

    if ray is None:
        return on_processes(workers or 1, agent, settings)
    if workers is not None:
        raise ConfigError("--workers starts processes on this machine; those of a cluster are set by --ray-workers")
    return on_ray(ray, agent, settings, workers=ray_workers, gpus_per_worker=gpus)


def options_of_recipe(context: typer.Context, path: Path | None) -> Path | None:
    """Take a command's options from a TOML file, as the callback of its argument RECIPE; options that are given win.

    Keys are names of options; a table is for a repeatable KEY=VALUE, a list for commas. Raises ConfigError for a key
    that is not an option, DataError for a file that is not TOML.
    """
    if path is None:
        return None
    from factgym.training.recipes.recipe import read_recipe

    names = {name for name in (parameter.name for parameter in context.command.params) if name and name != "recipe"}
    options: dict[str, Any] = {}
    for key, value in read_recipe(path).items():
        if (name := key.replace("-", "_")) not in names:
            raise ConfigError(f"{path}: {context.info_name} has no option {key!r:.80}.{did_you_mean(name, names)}")
        if isinstance(value, dict):
            value = [f"{setting}={json.dumps(each)}" for setting, each in value.items()]
        elif isinstance(value, list):
            value = ",".join(map(str, value))
        options[name] = value
    context.default_map = options
    return path


OptionsRecipe = Annotated[
    Path | None,
    typer.Argument(
        metavar="RECIPE",
        help="A TOML file of options, such as rounds = 3; an option that is given wins.",
        is_eager=True,
        callback=options_of_recipe,
    ),
]
