"""`factgym play ENV`: a person is the policy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from factgym.cli.options import DataPath, EnvId, Reward, Seed, Settings, Split, make_env

HELP = """Commands:
  search WORDS      search the passages
  read ID           open a passage
  list [PAGE]       list the passages
  submit            answer a few questions and submit a verdict
  {...}             a raw action: a JSON tool call, or any completion
  help, quit"""


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
    print(f"{obs}\n\nTask {info['task']}.\n{HELP}\n")
    while world.episode.stop is None:
        action = _ask(world)
        if action is None:
            print("Left before the end; nothing was submitted.")
            return
        obs, *_ = world.step(action)
        print(f"{obs}\n")
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
            print(HELP)
        elif word == "submit" and not rest:
            action = _compose(world.task.example)
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


def _compose(example: Any) -> dict[str, Any] | None:
    """A verdict object asked for field by field; None when the person breaks off."""
    from factgym.corpora.claims import STATUSES, VERDICTS
    from factgym.corpora.text import sentences

    claims = []
    try:
        for start, end in sentences(example.answer):
            text = example.answer[start:end]
            print(f"\nStatement: {text}")
            claim = {"claim": text, "status": _choose("status", STATUSES)}
            claim["evidence_ids"] = input("  evidence ids, separated by spaces: ").split()
            claim["quote"] = input("  quote, word for word: ")
            claim["unsupported_span"] = "" if claim["status"] == "supported" else input("  part that is not carried: ")
            claims.append(claim)
        verdict = _choose("final verdict", VERDICTS)
    except (EOFError, KeyboardInterrupt):
        print("\nBroken off; the episode goes on.")
        return None
    return {"tool": "submit", "arguments": {"claims": claims, "final_verdict": verdict}}


def _choose(what: str, options: tuple[str, ...]) -> str:
    while True:
        said = input(f"  {what} ({', '.join(options)}): ").strip().lower()
        matches = [option for option in options if option.startswith(said)] if said else []
        if said in options or len(matches) == 1:
            return said if said in options else matches[0]
        print("  Type one of them, or its first letters.")


def _show_reward(world: Any) -> None:
    report = world.episode.report
    print(f"Reward {report.total:.3f}" if report.total is not None else f"No score: {report.error}")
    for name, value in report.components.items():
        weight = report.weights.get(name)
        note = f" × {weight:g}" if weight is not None else " (no weight)"
        gate = f" × gate {report.gates[name]:.3f}" if name in report.gates else ""
        print(f"  {name:9} {value:.3f}{note}{gate}")
    example = world.task.example
    print(f"Gold verdict: {example.verdict}")
    for claim in example.claims:
        print(f"  {claim.status}: {claim.text}\n    {claim.reason}")
