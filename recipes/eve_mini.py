"""Write the traces that the seed policies of EVE's miniature are tuned on: `python recipes/eve_mini.py OUT [EPISODES]`.

    OUT/solver.jsonl      searching episodes of the teacher; answers with the evidence, and "unknown" without it
    OUT/proposer.jsonl    proposals of the scripted proposer

Then `factgym train recipes/eve_solver_mini.toml` and `factgym train recipes/eve_proposer_mini.toml` tune them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.export.training import SftOptions, export_sft
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import read_lines, write_lines
from factgym.envs.eve.solver import single_turn_messages
from factgym.envs.eve.solver_agents import UNKNOWN
from factgym.generators.miniature import miniature_questions
from factgym.training.recipes.recipe import read_recipe

EPISODES = 3000
SINGLE_TURNS = 500


def traces(out: Path, role: str, teacher: str, episodes: int) -> list[Mapping[str, Any]]:
    """Episodes of a scripted agent on training tasks, as chat lines, in the environment of the policy's recipe."""
    config = read_recipe(Path(__file__).with_name(f"eve_{role}_mini.toml"))["env_config"]
    env = factgym.make(f"eve-{role}", split="train", **config)
    run, path = out / f"{role}-traces", out / f"{role}-traces.jsonl"
    collect(env, find_agent(teacher, f"eve-{role}"), run, n=episodes, seed=0, resume=True)
    export_sft([run], path, SftOptions(), force=True)
    return list(read_lines(path))


def single_turns() -> Iterator[Mapping[str, Any]]:
    """The verifier's questions, as the proposer's environment asks them: with the evidence, and without it."""
    for triple in miniature_questions(split="train")[-SINGLE_TURNS:]:
        for evidence, answer in ((triple.evidence[0].text, triple.answer), (None, UNKNOWN)):
            reply = {"role": "assistant", "content": f"<answer>{answer}</answer>"}
            yield {"messages": [*single_turn_messages(triple.question, evidence, style="brief"), reply], "tools": []}


def main(out: Path, episodes: int) -> None:
    """Write both files."""
    lines = [*traces(out, "solver", "teacher", episodes), *single_turns()]
    write_lines(out / "solver.jsonl", lines)
    write_lines(out / "proposer.jsonl", traces(out, "proposer", "extractive", episodes))


if __name__ == "__main__":
    folder, count = [*sys.argv[1:], *("runs/eve_mini", EPISODES)[len(sys.argv) - 1 :]]
    main(Path(folder), int(count))
