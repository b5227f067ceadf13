"""Growth: twice the hostile input takes at most 2.5 times as long, for every parser, reader and reward.

The subjects are found by signature (`perf.growth`), so that a new public function of texts is held to it without a line
here. That sweep takes minutes, so that it runs only where it is named: FACTGYM_GROWTH=main takes the main seeds,
`sample` some others too, and `full` all, as `python -m perf growth` does. CPU time is measured,
and a factor counts when it is the least of several attempts, so that a busy machine is no fault. What
was quadratic once is always measured, with room for a busy machine: a square takes four times as long.
"""

from __future__ import annotations

import os
import re

import pytest

from perf.growth import LIMIT, Subject, all_subjects, cpu_seconds, hostile, measure, regex_seeds, seeds_of

SWEEP = os.environ.get("FACTGYM_GROWTH")
IS_FULL = SWEEP == "full"
ROOM = 1.3
needs_sweep = pytest.mark.skipif(not SWEEP, reason="times all parsers: FACTGYM_GROWTH=main, sample or full")
SUBJECTS = [subject for subject in all_subjects() if IS_FULL or not subject.name.endswith("]")]


@needs_sweep
@pytest.mark.parametrize("package", sorted({subject.name.partition(".")[0].partition(":")[0] for subject in SUBJECTS}))
def test_time_grows_with_the_input_and_not_with_its_square(package: str) -> None:
    own = [subject for subject in SUBJECTS if re.match(rf"{re.escape(package)}[.:]", subject.name)]
    count = {"main": 0, "sample": 4}.get(SWEEP or "")
    grown = {subject.name: measure(subject, seeds_of(subject, count)) for subject in own}
    assert not {name: (growth.seed, growth.factor) for name, growth in grown.items() if growth.factor > LIMIT}


def test_a_quadratic_expression_is_noticed() -> None:
    """The fault that began this: a fenced block looked for anew at each backtick."""
    fence = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*?$", re.DOTALL | re.MULTILINE)
    subject = Subject("fence", lambda text: fence.findall(text))
    assert measure(subject, sorted(regex_seeds(fence)), attempts=1).factor > LIMIT


def test_a_square_that_is_quick_at_first_is_noticed() -> None:
    subject = Subject("pairs", lambda text: sum(text.count(text[n]) for n in range(0, len(text), 8)))
    assert cpu_seconds(subject.run, hostile("ab", 2_000), 3) < 1e-3
    assert measure(subject, ["ab"], attempts=1).fault


def test_a_cached_result_is_no_measurement() -> None:
    calls: list[str] = []
    cpu_seconds(calls.append, hostile("a", 2_000), 5)
    assert len(set(calls)) == 5 and {len(text) for text in calls} == {2_000}


INPUTS = [
    ("check.answers.split_claims", "`"),
    ("check.answers.split_claims", "\n~~~\n"),
    ("envs.eve.reading.read_passage", "<![CDATA["),
    ("action: a text", "<tool_call>"),
    ("core.untrusted.neutralise", "<"),
    ("reply: content", "<think>"),
    ("document: place of a quote", "a\n"),
    ("check.clauses.clauses_of", "a1 "),
    ("check.clauses.clauses_of", "a (b) "),
    ("baselines.polarity.polarity_of", "(including a)"),
    ("baselines.semantics.main_clause", "If a, "),
    ("document: wikitext", "{{a|"),
]
by_input = pytest.mark.parametrize(("name", "seed"), INPUTS)


def subject_of(name: str) -> Subject:
    if name.endswith("wikitext"):
        pytest.importorskip("mwparserfromhell", reason="needs the extra wikipedia")
    (subject,) = [subject for subject in all_subjects() if subject.name == name]
    return subject


@by_input
def test_inputs_that_were_quadratic_are_linear(name: str, seed: str) -> None:
    assert measure(subject_of(name), [seed]).factor <= LIMIT * ROOM


@pytest.mark.skipif(not IS_FULL, reason="needs a quick and quiet machine: FACTGYM_GROWTH=full")
@by_input
def test_200_kb_take_a_tenth_of_a_second(name: str, seed: str) -> None:
    assert cpu_seconds(subject_of(name).run, hostile(seed, 200_000), 5) < 0.1
