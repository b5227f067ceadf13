"""An EVE evolution that is killed at any point, and continued, ends with the same bytes as one that was not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from eve_evolutions import PHASES, evolution, learner, small
from evolve_runs import digests, killed, stopped_after_each_file

from factgym.training.eve import EveSettings

HERE = Path(__file__).parent
ITERATIONS = 2


TINY = {"size": 24, "batch": 4, "prompts": 3, "samples": 2, "rows": 2, "group": 2, "n": 2, "m": 1}


def settings(draw: str) -> EveSettings:
    return small(**TINY, draw=draw, selector={"clusters": 3, "growth": 1.0} if draw == "selector" else {})


@pytest.mark.parametrize("draw", ["uniform", "selector"])
def test_killed_anywhere_and_continued_it_is_the_same(draw: str, tmp_path: Path) -> None:
    if draw == "selector":
        pytest.importorskip("sklearn", reason="needs the extra 'selector'")
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    evolution(whole, settings(draw)).run(ITERATIONS, ITERATIONS)
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from pathlib import Path\nfrom eve_evolutions import evolution\nfrom test_eve_resume import settings\n"
        f"evolution(Path({str(folder)!r}), settings({draw!r})).run({ITERATIONS}, {ITERATIONS}, resume=True)\n"
    )
    rng = random.Random(7)
    kills = 0
    for _ in range(3):
        limit = _size(folder) + rng.randint(1, 20_000)
        if not killed(code, lambda limit=limit: _size(folder) >= limit, rng.random() * 0.05):
            break
        kills += 1
    assert kills >= 2
    evolution(folder, settings(draw)).run(ITERATIONS, ITERATIONS, resume=True)
    assert digests(folder) == digests(whole)


@pytest.mark.parametrize("trainer", ["none", "check"])
def test_stopped_between_any_two_files_and_continued_it_is_the_same(trainer: str, tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "stopped"
    learners = {role: learner(role, trainer=trainer) for role in PHASES}
    evolution(whole, small(**TINY), **learners).run(ITERATIONS, ITERATIONS)
    for last in stopped_after_each_file(whole, folder):
        evolution(folder, small(**TINY), **learners).run(ITERATIONS, ITERATIONS, resume=True)
        assert digests(folder) == digests(whole), f"stopped after {last}"


def _size(folder: Path) -> int:
    """Bytes in the folder; a file that goes away meanwhile is none."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
