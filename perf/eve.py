"""What scoring one proposer rollout of EVE costs beyond the policies' own calls: format, difficulty, value, advantages.

A rollout asks for one to four hops in the paper's ratio, has made a search for each hop but the first, and each search
returned three passages; question, answer and evidence are about the last of them. The passages are those of a file, or
short documents of a generated world. Every rollout is scored as in an episode: blocks parsed, both format rewards, the
span found, the gates, the components, the report; then the hop-grouped advantages of batches of 256, divided by their
size. The last row is a solver's solution with the same passages. The times are processor time of this thread, the rows
interleaved over the repeats, and nothing is cached between rollouts but what the package remembers of passages anyway.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from factgym.core.errors import DataError
from factgym.corpora.corpus import Passage
from factgym.corpora.passages import read_passages
from factgym.corpora.sentences import sentences
from factgym.generators.multihop.world import world
from factgym.rewards.advantages import hop_advantages
from factgym.rewards.eve import (
    DEFAULT_RULES,
    CheckedProposal,
    ProposalScore,
    Rollout,
    Search,
    check_proposal,
    find_rubric,
    parse_proposal,
    parse_solution,
    report_of,
    score_proposal,
    score_solution,
)

_ROLLOUTS = 512
_BATCH = 256
_TOP = 3
_WORLD = 400
_ALLOWED = 1e-3


@dataclass(frozen=True, slots=True)
class Sample:
    """One rollout: the last message, the record of what was done, the texts that were shown, and the solver's answers."""

    message: str
    rollout: Rollout
    texts: tuple[tuple[str, str], ...]
    solved: tuple[bool, ...]
    plus: tuple[bool, ...]
    minus: tuple[bool, ...]


def measure_eve(repeats: int, path: Path | None = None) -> list[str]:
    """Lines of a report: microseconds a rollout, median and range over the repeats. path: a file of passages."""
    samples = make_samples(_passages(path), _ROLLOUTS)
    rubric = find_rubric("guarded", "proposer")
    checked = [_checked(one) for one in samples]
    scores = [_scored(*pair) for pair in zip(checked, samples, strict=True)]
    rewards = np.array([rubric.total(one.components, one.gates) for one in scores])
    hops = np.array([one.rollout.hops for one in samples])
    rows: dict[str, Callable[[], object]] = {
        "whole: parse to report": lambda: [report_of(_scored(_checked(one), one), rubric) for one in samples],
        "parse, formats, span, gates": lambda: [_checked(one) for one in samples],
        "components": lambda: [_scored(*pair) for pair in zip(checked, samples, strict=True)],
        "report": lambda: [report_of(one, rubric) for one in scores],
        f"advantages, batches of {_BATCH}": lambda: [
            hop_advantages(rewards[i : i + _BATCH], hops[i : i + _BATCH]) for i in range(0, len(samples), _BATCH)
        ],
        "a solution, with its report": lambda: [_solution(one) for one in samples],
    }
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(max(1, repeats)):
        for name, work in rows.items():
            times[name].append(_seconds(work) / len(samples))
    size = statistics.mean(sum(len(text) for _, text in one.texts) for one in samples)
    return [
        f"EVE's reward, one core: {len(samples)} rollouts with {size:,.0f} characters of passages on average, "
        f"{len(next(iter(times.values())))} repeats, median [min – max]",
        *(_line(name, found) for name, found in times.items()),
    ]


def make_samples(passages: Sequence[Passage], count: int, seed: int = 0) -> list[Sample]:
    """Different rollouts over these passages; the same for the same arguments. Raises DataError for too few passages."""
    if len(passages) < 1 + _TOP * len(DEFAULT_RULES.hop_pmf):
        raise DataError(f"{len(passages)} passages are too few to make rollouts of")
    rng = random.Random(seed)
    return [_sample(passages, rng) for _ in range(count)]


def _sample(passages: Sequence[Passage], rng: random.Random) -> Sample:
    hops = rng.choices(range(1, len(DEFAULT_RULES.hop_pmf) + 1), DEFAULT_RULES.hop_pmf)[0]
    shown = rng.sample(passages, 1 + _TOP * (hops - 1))
    searches = tuple(
        Search((shown[i].title,), "\n\n".join(one.text for one in shown[i : i + _TOP]))
        for i in range(1, len(shown), _TOP)
    )
    last = shown[-1]
    start, end = next(iter(sentences(last.text)), (0, len(last.text)))
    words = last.text[start:end].split()
    thought = "<think>The source leads to {}, which I search for next, since the question needs it.</think>"
    message = (
        f"{thought.format(last.title)}\n<question>What is told of {' '.join(words[: len(words) // 2])}?</question>\n"
        f"<answer>{' '.join(words[-2:])}</answer>\n<evidence>{last.text[start:end]}</evidence>"
    )
    turns = tuple(thought.format(one.queries[0]) for one in searches)
    texts = tuple((one.id, one.text) for one in shown)
    answers = [tuple(rng.random() < p for _ in range(5)) for p in (0.4, 0.9, 0.1)]
    return Sample(message, Rollout(hops, shown[0].text, (*turns, message), searches), texts, *answers)


def _passages(path: Path | None) -> Sequence[Passage]:
    return list(world(0, _WORLD, "train")[0] if path is None else read_passages(path))


def _checked(sample: Sample) -> CheckedProposal:
    # A rollout remembers its normalised context: a fresh one for each time, as in an episode.
    done = sample.rollout
    rollout = Rollout(done.hops, done.source, done.turns, done.searches)
    return check_proposal(parse_proposal(sample.message), rollout, sample.texts)


def _scored(checked: CheckedProposal, sample: Sample) -> ProposalScore:
    return score_proposal(checked, solved=sample.solved, plus=sample.plus, minus=sample.minus)


def _solution(sample: Sample) -> object:
    proposal = parse_proposal(sample.message)
    solution = parse_solution(sample.message)
    score = score_solution(
        solution, proposal.answer, proposal.evidence, question=proposal.question, texts=sample.texts
    )
    return report_of(score, find_rubric("guarded", "solver"))


def _seconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _line(name: str, found: Sequence[float]) -> str:
    median = statistics.median(found)
    goal = f"   {median / _ALLOWED:.2f} × the {1e3 * _ALLOWED:.0f} ms allowed" if name.startswith("whole") else ""
    return f"  {name:28} {1e6 * median:9.1f} µs  [{1e6 * min(found):.1f} – {1e6 * max(found):.1f}]{goal}"
