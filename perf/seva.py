"""SEVA's process rewards per second on one core, with `json.loads` of the same texts beside it.

The texts are complete outputs of about 700 characters, all different, about real-looking claims; half of them carry
prose and code fences around the object. A reward computation is everything from the text to the number: finding and
reading the JSON, every component, the total. The time is processor time of this thread, so that neighbours on the
machine do not count; the repeats of all rows are interleaved.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from factgym.rewards.seva.output import read_output
from factgym.rewards.seva.rubrics import GROUNDED, PROCESS, SevaRubric
from factgym.rewards.seva.scoring import SevaGold, score_output

_TEXTS = 2_000
_KNOWN = 500
"""Claims whose sources the reward has read before, as those of a batch with groups of outputs."""
_CLAIM = "About {a} percent of the {b} participants in {c} significantly improved within {d} weeks of treatment."
_SOURCE = "In {c}, {a} percent of {b} subjects showed improvement; the treatment lasted {e} weeks in every group."

Item = tuple[str, SevaGold, str, str]
"""An output's text, the gold, the claim and the source."""


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf seva", description="SEVA's process reward a second, json.loads beside it."
    )
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args(arguments)
    return measure_seva_reward(options.repeats)


def measure_seva_reward(repeats: int) -> list[str]:
    """Lines of a report: calls per second of each function, median and range over the repeats."""
    items = make_items(_TEXTS)
    bare = [item[0][item[0].index("{") : item[0].rindex("}") + 1] for item in items]
    rows: dict[str, Callable[[], object]] = {
        "json.loads alone": lambda: [json.loads(text) for text in bare],
        "process reward": lambda: [reward_of(text, gold, PROCESS) for text, gold, _, _ in items],
        "process reward with its report": lambda: [
            PROCESS.report(score.components, score.gates, metrics=score.facts)
            for text, gold, _, _ in items
            if (score := score_output(read_output(text), gold))
        ],
        "grounded reward": lambda: [
            reward_of(text, gold, GROUNDED, claim=claim, source=source) for text, gold, claim, source in items
        ],
        "grounded reward, of known claims": lambda: [
            reward_of(text, gold, GROUNDED, claim=claim, source=source)
            for text, gold, claim, source in items[:_KNOWN] * (len(items) // _KNOWN)
        ],
    }
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(max(1, repeats)):
        for name, work in rows.items():
            rates[name].append(len(items) / _seconds(work))
    length = statistics.mean(len(text) for text in bare)
    return [
        f"SEVA rewards a second, one core: {len(items):,} outputs of {length:.0f} characters on average, "
        f"{len(rates['process reward'])} repeats, median [min – max]",
        *(_line(name, values) for name, values in rates.items()),
    ]


def make_items(n: int, seed: int = 0) -> list[Item]:
    """Return `n` different outputs with gold, claim and source; the same for the same arguments."""
    rng = random.Random(seed)
    return [_item(rng, fenced=i % 2 == 1) for i in range(n)]


def _item(rng: random.Random, fenced: bool) -> Item:
    facts = {
        "a": rng.randint(11, 89),
        "b": rng.randint(100, 999),
        "c": rng.choice(["Denmark", "Portugal", "Vietnam"]),
        "d": rng.randint(2, 9),
        "e": rng.randint(10, 19),
    }
    claim, source = _CLAIM.format(**facts), _SOURCE.format(**facts)
    output = {
        "evidence_alignment": [
            _alignment("About {a} percent", "{a} percent", "match", facts),
            _alignment("{b} participants in {c}", "{b} subjects", "match", facts),
            _alignment("significantly", "NOT_FOUND", "not_found", facts),
        ],
        "reasoning_chain": [
            _step("{a} percent", "{a} percent of {b} subjects", "supported", "The percent is the same.", facts),
            _step("{d} weeks", "{e} weeks", "not_supported", "The source has {e} weeks.", facts),
        ],
        "label": "Not Attributable",
        "confidence": round(rng.uniform(0.5, 1.0), 2),
        "error_type": "numerical_exaggeration",
        "fix_suggestion": f"Write {facts['e']} weeks.",
    }
    text = json.dumps(output)
    gold = SevaGold(rng.choice(("Attributable", "Not Attributable")))
    return f"Here is my analysis.\n```json\n{text}\n```" if fenced else text, gold, claim, source


def _alignment(claim: str, source: str, status: str, facts: dict[str, object]) -> dict[str, str]:
    return {"claim_span": claim.format(**facts), "source_span": source.format(**facts), "status": status}


def _step(part: str, evidence: str, judgment: str, why: str, facts: dict[str, object]) -> dict[str, str]:
    return {
        "claim_part": part.format(**facts),
        "source_evidence": evidence.format(**facts),
        "judgment": judgment,
        "explanation": why.format(**facts),
    }


def reward_of(text: str, gold: SevaGold, rubric: SevaRubric = PROCESS, **texts: str) -> float:
    """The reward of an output. texts: claim and source, for a grounded one."""
    score = score_output(read_output(text), gold, **texts)
    return rubric.total(score.components, score.gates)


def _seconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _line(name: str, values: Sequence[float]) -> str:
    median = statistics.median(values)
    return f"  {name:32} {median:10,.0f}  [{min(values):,.0f} – {max(values):,.0f}]   {1e6 / median:.1f} µs"
