"""`factgym play ENV`: a person is the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from factgym.cli.options import DataPath, EnvId, Reward, Seed, Settings, Split, make_env

_COMMANDS = {
    "search": "search WORDS      search the passages",
    "read": "read ID           open a passage",
    "list": "list [PAGE]       list the passages",
    "submit": "submit            answer a few questions and submit a verdict",
    "ask": "submit            pose your questions, one by one",
    "answer": "submit            answer the open question",
    "verdict": "submit            give the verdict",
}


def _help(world: Any) -> str:
    """The commands for the tools that are open."""
    names = [tool["function"]["name"] for tool in world.available_tools()]
    lines = [_COMMANDS[name] for name in _COMMANDS if name in names]
    if not any(line.startswith("submit") for line in lines):  # a reply in words is the submission
        lines.append(_COMMANDS["submit"])
    lines += ["{...}             a raw action: a JSON tool call, or any completion", "help, quit"]
    return "\n".join(["Commands:", *(f"  {line}" for line in lines)])


def play(
    env: EnvId,
    task: Annotated[str | None, typer.Option(help="A task's id or index; default one chosen by --seed.")] = None,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
) -> None:
    """Play one episode yourself."""
    world = make_env(env, settings, split=split, reward=reward, path=path)
    chosen: Any = int(task) if task is not None and task.isdigit() else task
    obs, info = world.reset(seed=seed, options={"task": chosen} if chosen is not None else None)
    print(f"{obs}\n\nTask {info['task']}.\n{_help(world)}\n")
    while world.episode.stop is None:
        action = _ask(world)
        if action is None:
            print("Left before the end; nothing was submitted.")
            return
        stage = world.stage
        obs, *_ = world.step(action)
        print(f"{obs}\n")
        if world.stage not in (stage, "done"):
            print(f"{_help(world)}\n")
    _show_reward(world)


def _ask(world: Any) -> Any:
    """The person's next action, or None when they leave."""
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        word, _, rest = line.partition(" ")
        if word in ("quit", "exit"):
            return None
        if word == "help":
            print(_help(world))
        elif word == "submit" and not rest:
            action = _compose(world)
            if action is not None:
                return action
        elif line:
            return _short(word, rest.strip()) or line


def _short(word: str, rest: str) -> dict[str, Any] | None:
    if word == "search" and rest:
        return {"tool": "search", "arguments": {"query": rest}}
    if word == "read" and rest:
        return {"tool": "read", "arguments": {"id": rest}}
    if word == "list" and (not rest or rest.isdigit()):
        return {"tool": "list", "arguments": {"page": int(rest)} if rest else {}}
    return None


def _compose(world: Any) -> Any:
    """A submission asked for part by part; None when the person breaks off or there is no such form."""
    try:
        found = world.prompt_human(_answer)
    except (EOFError, KeyboardInterrupt):
        print("\nBroken off; the episode goes on.")
        return None
    if found is None:
        print("Write the submission yourself, as a JSON tool call.")
    return found


def _answer(what: str, options: Sequence[str]) -> str:
    if not options:
        return input(f"  {what}: ").strip()
    while True:
        said = input(f"  {what} ({', '.join(options)}): ").strip()
        matches = [option for option in options if option.lower().startswith(said.lower())] if said else []
        exact = [option for option in options if option.lower() == said.lower()]
        if exact or len(matches) == 1:
            return (exact or matches)[0]
        print("  Type one of them, or its first letters.")


def _show_reward(world: Any) -> None:
    report = world.episode.report
    print(f"Reward {report.total:.3f}" if report.total is not None else f"No score: {report.error}")
    for name, value in report.components.items():
        weight = report.weights.get(name)
        note = f" × {weight:g}" if weight is not None else " (no weight)"
        gate = f" × gate {report.gates[name]:.3f}" if name in report.gates else ""
        print(f"  {name:9} {value:.3f}{note}{gate}")
    print("\n".join(world.gold_lines()))
