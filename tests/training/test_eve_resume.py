"""An EVE evolution that is killed at any point, and continued, ends with the same bytes as one that was not."""

from __future__ import annotations

from pathlib import Path

import pytest
from eve_evolutions import PHASES, evolution, learner, small
from evolve_runs import digests, stopped_after_each_file
from killed_runs import kill_until_done, size_of

from factgym.training.eve import EveSettings

ITERATIONS = 2


TINY = {"size": 24, "batch": 4, "prompts": 3, "samples": 2, "rows": 2, "group": 2, "n": 2, "m": 1}


def settings(draw: str) -> EveSettings:
    return small(**TINY, draw=draw, selector={"clusters": 3, "growth": 1.0} if draw == "selector" else {})


def run_whole(folder: Path, draw: str) -> None:
    evolution(folder, settings(draw)).run(ITERATIONS, ITERATIONS, resume=True)


@pytest.mark.parametrize("draw", ["uniform", "selector"])
def test_killed_anywhere_and_continued_it_is_the_same(draw: str, tmp_path: Path) -> None:
    if draw == "selector":
        pytest.importorskip("sklearn", reason="needs the extra 'selector'")
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    evolution(whole, settings(draw)).run(ITERATIONS, ITERATIONS)
    assert kill_until_done(run_whole, (folder, draw), folder, size_of(whole), seed=7) >= 2
    assert digests(folder) == digests(whole)


@pytest.mark.parametrize(("trainer", "iterations"), [("none", (1, ITERATIONS)), ("check", (ITERATIONS, 1))])
def test_stopped_between_any_two_files_and_continued_it_is_the_same(
    trainer: str, iterations: tuple[int, int], tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "stopped"
    learners = {role: learner(role, trainer=trainer) for role in PHASES}
    evolution(whole, small(**TINY), **learners).run(*iterations)
    for last in stopped_after_each_file(whole, folder):
        evolution(folder, small(**TINY), **learners).run(*iterations, resume=True)
        assert digests(folder) == digests(whole), f"stopped after {last}"
