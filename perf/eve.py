"""Time to score one proposer rollout of EVE without the policies' calls: format, difficulty, value, advantages.

A rollout asks for one to four hops in the paper's ratio, has made a search for each hop but the first, and each search
returned three passages; question, answer and evidence are about the last of them. The passages are those of a file, or
short documents of a generated world. Every rollout is scored as in an episode: blocks parsed, both format rewards, the
span found, the gates, the components, the report; then the hop-grouped advantages of batches of 256, divided by their
size. The last row is a solver's solution with the same passages. The times are processor time of this thread, the rows
interleaved over the repeats; between rollouts only the package's own caches of passages are warm.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from factgym.core.errors import DataError
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Passage
from factgym.generators.multihop_world import world
from factgym.rewards.advantages import hop_advantages
from factgym.rewards.eve.proposal import CheckedProposal, Rollout, Search, check_proposal, score_proposal
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveScore, build_report, find_rubric
from factgym.rewards.eve.solution import score_solution
from factgym.rewards.eve.spans import parse_proposal, parse_solution
from factgym.text.sentences import sentences

_ROLLOUTS = 512
_BATCH = 256
_TOP = 3
_WORLD = 400
_ALLOWED = 1e-3


@dataclass(frozen=True, slots=True)
class Sample:
    """A rollout: its last message, its record, the texts that it was shown, and the solver's answers."""

    message: str
    rollout: Rollout
    texts: tuple[tuple[str, str], ...]
    solved: tuple[bool, ...]
    plus: tuple[bool, ...]
    minus: tuple[bool, ...]


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf eve", description="Scoring a proposer rollout of EVE, without the policies' calls."
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--passages", type=Path, help="file of passages; default: a generated world's")
    options = parser.parse_args(arguments)
    return measure_eve(options.repeats, options.passages)


def measure_eve(repeats: int, path: Path | None = None) -> list[str]:
    """Return the lines of a report: microseconds per rollout, median and range. path: a file of passages."""
    passages = list(world(0, _WORLD, "train")[0] if path is None else read_passages(path))
    samples = make_samples(passages, _ROLLOUTS)
    rubric = find_rubric("guarded", "proposer")
    checked = [_check(sample) for sample in samples]
    scores = [_score(*pair) for pair in zip(checked, samples, strict=True)]
    rewards = np.array([rubric.total(score.components, score.gates) for score in scores])
    hops = np.array([sample.rollout.hops for sample in samples])
    rows: dict[str, Callable[[], object]] = {
        "whole: parse to report": lambda: [build_report(_score(_check(sample), sample), rubric) for sample in samples],
        "parse, formats, span, gates": lambda: [_check(sample) for sample in samples],
        "components": lambda: [_score(*pair) for pair in zip(checked, samples, strict=True)],
        "report": lambda: [build_report(score, rubric) for score in scores],
        f"advantages, batches of {_BATCH}": lambda: [
            hop_advantages(rewards[i : i + _BATCH], hops[i : i + _BATCH]) for i in range(0, len(samples), _BATCH)
        ],
        "a solution, with its report": lambda: [_solution_report(sample) for sample in samples],
    }
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(max(1, repeats)):
        for name, work in rows.items():
            start = time.thread_time()
            work()
            times[name].append((time.thread_time() - start) / len(samples))
    size = statistics.mean(sum(len(text) for _, text in sample.texts) for sample in samples)
    lines = [
        f"EVE's reward, one core: {len(samples)} rollouts with {size:,.0f} characters of passages on average, "
        f"{max(1, repeats)} repeats, median [min – max]"
    ]
    for name, values in times.items():
        median = statistics.median(values)
        line = f"  {name:28} {1e6 * median:9.1f} µs  [{1e6 * min(values):.1f} – {1e6 * max(values):.1f}]"
        if name.startswith("whole"):
            line += f"   {median / _ALLOWED:.2f} × the {1e3 * _ALLOWED:.0f} ms allowed"
        lines.append(line)
    return lines


def make_samples(passages: Sequence[Passage], count: int, seed: int = 0) -> list[Sample]:
    """Return `count` rollouts over the passages, the same for the same arguments. Raises DataError for too few."""
    if len(passages) < 1 + _TOP * len(DEFAULT_RULES.hop_weights):
        raise DataError(f"{len(passages)} passages are too few to make rollouts of")
    rng = random.Random(seed)
    return [_sample(passages, rng) for _ in range(count)]


def _sample(passages: Sequence[Passage], rng: random.Random) -> Sample:
    hops = rng.choices(range(1, len(DEFAULT_RULES.hop_weights) + 1), DEFAULT_RULES.hop_weights)[0]
    retrieved = rng.sample(passages, 1 + _TOP * (hops - 1))
    searches = tuple(
        Search((retrieved[i].title,), "\n\n".join(passage.text for passage in retrieved[i : i + _TOP]))
        for i in range(1, len(retrieved), _TOP)
    )
    last = retrieved[-1]
    start, end = next(iter(sentences(last.text)), (0, len(last.text)))
    words = last.text[start:end].split()
    thought = "<think>The source leads to {}, which I search for next, since the question needs it.</think>"
    message = (
        f"{thought.format(last.title)}\n<question>What is told of {' '.join(words[: len(words) // 2])}?</question>\n"
        f"<answer>{' '.join(words[-2:])}</answer>\n<evidence>{last.text[start:end]}</evidence>"
    )
    turns = tuple(thought.format(search.queries[0]) for search in searches)
    texts = tuple((passage.id, passage.text) for passage in retrieved)
    answers = [tuple(rng.random() < p for _ in range(5)) for p in (0.4, 0.9, 0.1)]
    return Sample(message, Rollout(hops, retrieved[0].text, (*turns, message), searches), texts, *answers)


def _check(sample: Sample) -> CheckedProposal:
    # A rollout caches its normalised context: a fresh rollout each time, as in an episode.
    rollout = replace(sample.rollout)
    return check_proposal(parse_proposal(sample.message), rollout, sample.texts)


def _score(checked: CheckedProposal, sample: Sample) -> EveScore:
    return score_proposal(checked, solved=sample.solved, plus=sample.plus, minus=sample.minus)


def _solution_report(sample: Sample) -> object:
    proposal = parse_proposal(sample.message)
    solution = parse_solution(sample.message)
    score = score_solution(solution, proposal.answer, proposal.evidence, question=proposal.question, texts=sample.texts)
    return build_report(score, find_rubric("guarded", "solver"))
