"""The summary against numbers counted by hand, and against plain recounts of a larger made-up run."""

from __future__ import annotations

import copy
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fake_runs
import numpy as np
import pytest

from factgym.benchmarks.metrics import histogram, summarise
from factgym.benchmarks.records import is_malformed
from factgym.benchmarks.statistics.intervals import mean_interval, wilson

Json = dict[str, Any]


def _turn(error: str | None = None, *calls: tuple[str, str | None]) -> Json:
    return {
        "message": 2,
        "calls": [{"tool": tool, "arguments": {}, "error": code} for tool, code in calls],
        "observation": "",
        "error": error,
    }


def _episode(gold: str, said: str | None, total: float, **more: Any) -> Json:
    parts = {"json": float(said is not None), "verdict": float(gold == said), "guard": 1.0}
    reward = fake_runs.report(
        total,
        components=parts,
        weights={"json": 0.2, "verdict": 0.8},
        gates={"verdict": 0.5},
        metrics={"gold_verdict": gold, "verdict": said},
    )
    base = {"env": "e", "version": 1, "agent": "a", "split": "test", "task": "t", "stop": "submitted", "error": None}
    return {**base, "messages": [], "turns": [_turn(None, ("submit", None))], "reward": reward, **more}


TWO_TURNS = [_turn("invalid_json"), _turn("x", ("read", "x"))]
FOUR = [
    _episode("supported", "supported", 0.6, task="a"),
    _episode("supported", "overclaim", 0.2, task="b"),
    _episode("overclaim", "supported", 0.2, task="c"),
    _episode("overclaim", None, 0.0, task="d", stop="turn_limit", turns=TWO_TURNS),
]


def test_numbers_counted_by_hand() -> None:
    found = summarise(FOUR)
    assert (found.n, found.scored, found.errors, found.unscored) == (4, 4, 0, 0)
    assert (found.env, found.version, found.agent, found.splits) == ("e", 1, "a", ("test",))
    assert found.reward.value == pytest.approx(0.25)
    assert found.components["json"] == wilson(3, 4)
    assert found.components["verdict"] == found.accuracy == wilson(1, 4)
    assert found.earned == {"json": pytest.approx(0.15), "verdict": pytest.approx(0.1)}
    assert found.gates["verdict"].value == 0.5
    assert found.recall == {"supported": wilson(1, 2), "overclaim": wilson(0, 2)}
    assert found.macro_recall.value == 0.25
    assert found.turns.value == 1.25
    assert found.stops == {"submitted": 3, "turn_limit": 1}
    assert [(one.name, one.calls, one.errors) for one in found.tools] == [("submit", 3, 0), ("read", 1, 1)]


def test_the_confusion_matrix_has_a_column_for_no_verdict() -> None:
    confusion = summarise(FOUR).confusion
    assert confusion is not None
    assert confusion.golds == ("supported", "overclaim")
    assert confusion.predictions == ("supported", "overclaim", "none")
    assert confusion.counts == ((1, 1, 0), (1, 0, 1))


def test_malformed_actions_are_counted_over_turns() -> None:
    """One of the five turns was no JSON; the refused `read` was well formed."""
    assert summarise(FOUR).malformed.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (_turn("invalid_json"), True),
        (_turn("too_deep"), True),
        (_turn("no_such_passage", ("read", "no_such_passage")), False),
        (_turn("unknown_tool", ("raed", "unknown_tool")), True),
        (_turn("invalid_arguments", ("read", None), ("search", "invalid_arguments")), True),
        (_turn(None, ("read", None)), False),
    ],
)
def test_what_counts_as_malformed(turn: Json, expected: bool) -> None:
    assert is_malformed(turn) is expected


def test_false_support_is_counted_where_it_can_happen() -> None:
    surfaces = {one.name: {m.label: m.estimate for m in one.measures} for one in summarise(FOUR).surfaces}
    assert surfaces["safety"]["false supported"] == wilson(1, 2)


@pytest.mark.parametrize("supported, refuted", [("Supported", "Refuted"), ("Attributable", "Not Attributable")])
def test_false_support_is_seen_whatever_the_family_calls_it(supported: str, refuted: str) -> None:
    episodes = [
        _episode(refuted, supported, 0.2, task="a"),
        _episode(refuted, refuted, 0.6, task="b"),
        _episode(supported, supported, 0.6, task="c"),
    ]
    found = summarise(episodes)
    surfaces = {one.name: {m.label: m.estimate for m in one.measures} for one in found.surfaces}
    assert surfaces["safety"]["false supported"] == wilson(1, 2)


def test_faults_of_the_infrastructure_are_no_zeros() -> None:
    faults = [
        {**FOUR[0], "error": {"cause": "rate_limit", "message": "429, [gone]"}, "stop": "error"},
        {**FOUR[0], "error": {"cause": "timeout", "message": "later"}, "stop": "error", "reward": None},
        {**FOUR[0], "error": {"cause": "rate_limit", "message": "again"}, "stop": "error", "reward": None},
        {**FOUR[0], "stop": "error"},
        {**FOUR[0], "reward": fake_runs.report(None, error="the index went away")},
    ]
    unscored = {**FOUR[0], "reward": None}
    found = summarise([*FOUR, *faults, unscored])
    assert (found.n, found.scored, found.errors, found.unscored) == (10, 4, 5, 1)
    alone = summarise(FOUR)
    for name in ("reward", "components", "accuracy", "recall", "turns", "malformed", "tools", "surfaces", "groups"):
        assert getattr(found, name) == getattr(alone, name)
    assert found.causes == {"rate_limit": 2, "timeout": 1, "unknown": 1, "scoring": 1}
    assert next(iter(found.causes)) == "rate_limit"
    assert found.fault == "429, [gone]"


def test_a_full_context_is_scored_and_a_reason_to_stop() -> None:
    found = summarise([*FOUR, _episode("overclaim", None, 0.1, task="e", stop="context_limit")])
    assert (found.scored, found.errors, found.stops["context_limit"]) == (5, 0, 1)
    assert found.reward.value == pytest.approx(0.22)


def test_samples_of_a_task_are_averaged_before_the_interval_is_taken() -> None:
    episodes = [one for i in range(25) for one in fake_runs.group(i, 4)]
    episodes = [one for one in episodes if one["error"] is None]
    counts = Counter(one["task"] for one in episodes)
    whole = [one for one in episodes if counts[one["task"]] == 4]
    found = summarise(whole)
    by_task: dict[str, list[Json]] = {}
    for one in whole:
        by_task.setdefault(one["task"], []).append(one["reward"])
    assert (found.tasks, found.scored) == (len(by_task), 4 * len(by_task))
    means = [np.mean([reward["total"] for reward in rewards]) for rewards in by_task.values()]
    expected = mean_interval(means, bounds=(0.0, 1.0))
    assert found.reward.value == pytest.approx(np.mean([one["reward"]["total"] for one in whole]))
    assert (found.reward.low, found.reward.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    right = [
        np.mean([one["metrics"]["verdict"] == one["metrics"]["gold_verdict"] for one in rewards])
        for rewards in by_task.values()
    ]
    assert found.accuracy.half_width == pytest.approx(mean_interval(right, bounds=(0.0, 1.0)).half_width)
    assert found.turns.n == found.malformed.n == found.components["json"].n == len(by_task)


def test_copies_of_an_episode_make_nothing_more_certain() -> None:
    once = summarise(FOUR)
    tenfold = summarise([{**one, "sample": sample} for one in FOUR for sample in range(10)])
    assert tenfold.scored == 40
    for name in ("reward", "turns"):
        for end in ("value", "low", "high"):
            assert getattr(getattr(tenfold, name), end) == pytest.approx(getattr(getattr(once, name), end))
    assert (once.accuracy, once.recall, once.macro_recall) == (tenfold.accuracy, tenfold.recall, tenfold.macro_recall)


def test_memory_does_not_grow_with_what_an_episode_holds() -> None:
    def fat() -> Iterator[Json]:
        for i in range(200):
            text = str(i) * 100_000
            one = fake_runs.episode(i)
            one["messages"].append({"role": "user", "content": text})
            one["turns"][0]["completion"]["raw"] = text
            yield one

    fake_runs.episode(0)
    tracemalloc.start()
    found = summarise(fat())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n == 200
    assert peak < 4_000_000, "the episodes together hold some fifty million characters"


def test_a_run_without_labels_has_no_label_statistics() -> None:
    bare = copy.deepcopy(FOUR)
    for one in bare:
        one["reward"]["metrics"] = {}
    found = summarise(bare)
    assert found.confusion is None
    assert found.accuracy.value is None and found.macro_recall.value is None
    assert (found.recall, found.surfaces) == ({}, ())


def test_an_empty_run_has_no_numbers() -> None:
    found = summarise([])
    assert (found.n, found.reward.value, found.confusion) == (0, None, None)
    assert (found.usage, found.groups, found.causes, found.tasks) == (None, None, {}, 0)


def test_a_larger_run_agrees_with_a_plain_recount() -> None:
    episodes = [fake_runs.episode(i) for i in range(300)]
    scored = [one for one in episodes if one["error"] is None]
    found = summarise(iter(episodes))
    assert (found.n, found.scored) == (300, len(scored))
    assert found.reward.value == pytest.approx(np.mean([one["reward"]["total"] for one in scored]))
    assert sum(found.earned.values()) == pytest.approx(found.reward.value)
    assert found.confusion is not None
    assert sum(map(sum, found.confusion.counts)) == len(scored)
    assert sum(found.histogram.counts) == len(scored)
    for name, part in found.components.items():
        assert part.value == pytest.approx(np.mean([one["reward"]["components"][name] for one in scored]))
    grounding = next(one for one in found.surfaces if one.name == "grounding").measures[0].estimate
    both = [(one["reward"]["components"]["evidence"] + one["reward"]["components"]["quote"]) / 2 for one in scored]
    assert grounding.value == pytest.approx(np.mean(both))


def test_the_histogram_agrees_with_numpy_and_widens_with_the_values() -> None:
    values = np.random.default_rng(5).uniform(0, 1, 500).tolist()
    assert histogram(values).counts == tuple(np.histogram(values, bins=20, range=(0, 1))[0])
    wide = histogram([-0.5, 1.15])
    assert (wide.low, wide.high, sum(wide.counts)) == (-0.5, 1.15, 2)
    assert histogram([0.55, 1.0]).counts[11] == 1
