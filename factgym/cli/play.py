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
    environment: Any = make_env(env, settings, split=split, reward=reward, path=path)
    chosen: Any = int(task) if task is not None and task.isdigit() else task
    obs, info = environment.reset(seed=seed, options={"task": chosen} if chosen is not None else None)
    print(f"{obs}\n\nTask {info['task']}.\n{_help(environment)}\n")
    while environment.episode.stop is None:
        action = _read_action(environment)
        if action is None:
            print("Quit before the end; nothing was submitted.")
            return
        stage = environment.stage
        obs, *_ = environment.step(action)
        print(f"{obs}\n")
        if environment.stage not in (stage, "done"):
            print(f"{_help(environment)}\n")
    report = environment.episode.report
    print(f"Reward {report.total:.3f}" if report.total is not None else f"No score: {report.error}")
    for name, value in report.components.items():
        weight = report.weights.get(name)
        note = f" × {weight:g}" if weight is not None else " (no weight)"
        gate = f" × gate {report.gates[name]:.3f}" if name in report.gates else ""
        print(f"  {name:9} {value:.3f}{note}{gate}")
    print("\n".join(environment.gold_lines()))


def _help(environment: Any) -> str:
    """The commands of the available tools."""
    names = [tool["function"]["name"] for tool in environment.available_tools()]
    lines = [text for name, text in _COMMANDS.items() if name in names]
    if not any(line.startswith("submit") for line in lines):  # a reply in words is the submission
        lines.append(_COMMANDS["submit"])
    lines += ["{...}             a raw action: a JSON tool call, or any completion", "help, quit"]
    return "\n".join(["Commands:", *(f"  {line}" for line in lines)])


def _read_action(environment: Any) -> Any:
    """The person's next action, or None when they quit."""
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        command, _, argument = line.partition(" ")
        argument = argument.strip()
        if command in ("quit", "exit"):
            return None
        if command == "help":
            print(_help(environment))
        elif command == "submit" and not argument:
            if (submission := _prompt_submission(environment)) is not None:
                return submission
        elif line:
            return _tool_call(command, argument) or line


def _tool_call(command: str, argument: str) -> dict[str, Any] | None:
    """The tool call of a short command; None for other lines, which are raw actions."""
    if command == "search" and argument:
        return {"tool": "search", "arguments": {"query": argument}}
    if command == "read" and argument:
        return {"tool": "read", "arguments": {"id": argument}}
    if command == "list" and (not argument or argument.isdigit()):
        return {"tool": "list", "arguments": {"page": int(argument)} if argument else {}}
    return None


def _prompt_submission(environment: Any) -> Any:
    """A submission in answers to questions; None when the person interrupts it or the environment has no questions."""
    try:
        submission = environment.prompt_human(_prompt)
    except (EOFError, KeyboardInterrupt):
        print("\nInterrupted; the episode continues.")
        return None
    if submission is None:
        print("Write the submission yourself, as a JSON tool call.")
    return submission


def _prompt(question: str, options: Sequence[str]) -> str:
    if not options:
        return input(f"  {question}: ").strip()
    while True:
        reply = input(f"  {question} ({', '.join(options)}): ").strip().lower()
        exact = [option for option in options if option.lower() == reply]
        matches = exact or [option for option in options if reply and option.lower().startswith(reply)]
        if exact or len(matches) == 1:
            return matches[0]
        print("  Type one of them, or its first letters.")
