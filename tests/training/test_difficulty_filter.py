"""The learning zone on made-up runs: rules, buckets, anchors, what is incomplete, and the files that are left."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from factgym.agents.cluster.worker import recipe_of
from factgym.agents.difficulty import Buckets, DifficultyBand, find_rule, select
from factgym.core.errors import ConfigError, DataError
from factgym.training.difficulty_filter import only, read_tasks, write_selection


def episode(task, right, sample=0, *, index=None, error=None, status="scored", **metrics):
    reward = {"total": 1.0 if right else 0.0, "status": status, "components": {"judge": 2.0 if right else -1.0}}
    reward["metrics"] = {"label": "good" if right else "bad", "benchmark": "nq-open", "popularity": 12.5, **metrics}
    view = {"question": f"Who is {task}?", "gold": {"answers": ["A", "B"]}}
    return {
        "task": task,
        "index": int(task[1:]) if index is None else index,
        "sample": sample,
        "error": error,
        "reward": None if error else reward,
        "task_view": view,
    }


def group(task, right, of, **more):
    return [episode(task, i < right, i, **more) for i in range(of)]


def pool(counts, of):
    """Questions q0, q1, … with these numbers of right samples, episodes in an order of their own."""
    episodes = [sample for i, right in enumerate(counts) for sample in group(f"q{i}", right, of)]
    random.Random(1).shuffle(episodes)
    return episodes


def test_the_zone_is_what_is_right_sometimes():
    counts = [0, 1, 15, 16, 7, 16, 0, 0]
    result = select(pool(counts, 16))
    assert list(result.retained) == ["q1", "q2", "q4"]
    assert set(result.retained.values()) == {"learning"}
    assert (result.buckets.never, result.buckets.between, result.buckets.always) == (3, 3, 2)
    assert (result.buckets.pool, result.buckets.retained, result.buckets.share) == (8, 3, 0.375)
    assert result.buckets.histogram == tuple(counts.count(c) for c in range(17))
    assert result.buckets.solved == pytest.approx(sum(counts) / (16 * 8))
    assert not result.notes


def test_table_11_adds_up_as_the_paper_prints_it():
    for never, between, always, pool_size, share in (
        (3057, 4861, 1762, 9680, 50.2),
        (2463, 5172, 2045, 9680, 53.4),
        (6515, 4329, 2716, 13560, 31.9),
    ):
        result = Buckets((never, between, *([0] * 14), always), between)
        assert result.pool == pool_size
        assert round(100 * result.share, 1) == share


@pytest.mark.parametrize(("keep", "retained"), [("0:4", 5), ("1:4", 4), ("2:2", 1), ("0:0", 1), ("4:4", 1)])
def test_other_ranges(keep, retained):
    result = select(pool([0, 1, 2, 3, 4], 4), DifficultyBand.parse(keep, samples=4))
    assert len(result.retained) == retained == result.buckets.retained


def test_anchors_are_drawn_by_the_seed_and_nest():
    counts = [4] * 40 + [2] * 5 + [0] * 5
    drawn = {}
    for anchors in (3, 10):
        for seed in (0, 1):
            result = select(pool(counts, 4), DifficultyBand(samples=4, anchors=anchors, seed=seed))
            drawn[anchors, seed] = {task for task, kind in result.retained.items() if kind == "anchor"}
            assert len(drawn[anchors, seed]) == anchors == result.buckets.anchors
            assert result.buckets.retained == 5
            assert list(result.retained) == sorted(result.retained, key=lambda task: int(task[1:]))
    assert drawn[3, 0] < drawn[10, 0]
    assert drawn[10, 0] != drawn[10, 1]
    # Another question in the pool does not change which of these is drawn before which.
    more = select(pool([*counts, 4], 4), DifficultyBand(samples=4, anchors=10))
    assert len({task for task, kind in more.retained.items() if kind == "anchor"} & drawn[10, 0]) >= 9


def test_fewer_anchors_than_asked_for_are_said():
    result = select(pool([4, 2], 4), DifficultyBand(samples=4, anchors=3))
    assert result.buckets.anchors == 1
    assert result.notes == ("Only 1 of 3 anchors: no more questions are always right.",)


def test_a_fault_is_never_a_wrong_answer():
    fault = {"cause": "rate_limit", "message": "busy"}
    episodes = [*group("q0", 4, 4), *group("q1", 3, 3), episode("q1", False, 3, error=fault), *group("q2", 1, 2)]
    result = select(episodes, DifficultyBand(samples=4))
    assert result.buckets.always == 1
    assert result.buckets.incomplete == 2
    assert not result.retained
    assert [
        (incomplete.task, incomplete.scored, incomplete.correct, incomplete.errors) for incomplete in result.incomplete
    ] == [("q1", 3, 3, 1), ("q2", 2, 1, 0)]


def test_unscored_samples_are_reported():
    episodes = [*group("q0", 1, 2), episode("q1", True), episode("q1", True, 1, status="unscored")]
    result = select(episodes, DifficultyBand(samples=2))
    assert result.buckets.incomplete == 1
    assert result.notes == ("1 samples were played but not scored: nobody knows whether they are right.",)


def test_more_samples_than_a_group_has_are_refused():
    with pytest.raises(ConfigError, match="'q0' has 8 samples, more than the 4"):
        select(pool([3], 8), DifficultyBand(samples=4))


def report(**metrics):
    return {
        "error": None,
        "reward": {"total": 0.4, "status": "scored", "components": {"judge": 2.0}, "metrics": metrics},
    }


@pytest.mark.parametrize(
    ("rule", "metrics", "right"),
    [
        ("auto", {"label": "good", "correct": False}, True),
        ("auto", {"label": "na"}, False),
        ("auto", {"correct": True, "verdict": "a", "gold_verdict": "b"}, True),
        ("auto", {"verdict": "a", "gold_verdict": "a"}, True),
        ("auto", {"verdict": None, "gold_verdict": "a"}, False),
        ("auto", {"gold_verdict": "a"}, None),
        ("auto", {}, None),
        ("label", {"correct": True}, None),
        ("verdict", {"label": "good"}, None),
        ("reward>=0.4", {}, True),
        ("reward > 0.4", {}, False),
        ("reward<0.5", {}, True),
        ("reward=0.4", {}, True),
        ("judge>1", {}, True),
        ("judge==2", {}, True),
        ("format_ok", {"format_ok": True}, True),
        ("format_ok", {"format_ok": 1}, None),
        ("format_ok=true", {"format_ok": True}, True),
        ("searches<=2", {"searches": 2}, True),
        ("searches<=2", {}, None),
        ("label_reference=good", {"label_reference": "good"}, True),
        ("label_reference=good", {"label_reference": "bad"}, False),
        ("steps=many", {"steps": 3}, False),
        ("steps>=1", {"steps": 10**400}, None),
    ],
)
def test_rules(rule, metrics, right):
    assert find_rule(rule)(report(**metrics)) is right


def test_a_rule_says_nothing_of_what_was_not_scored():
    good = report(label="good")
    assert find_rule()({**good, "error": {"cause": "x"}}) is None
    assert find_rule()({**good, "reward": None}) is None
    assert find_rule()({**good, "reward": {**good["reward"], "status": "unscored"}}) is None
    assert find_rule()({**good, "reward": {**good["reward"], "total": None}}) is None


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("reward", "give a threshold"),
        ("a b", "no rule"),
        ("", "no rule"),
        ("reward>=x", "no number"),
        ("x>=nan", "no number"),
    ],
)
def test_rules_that_are_none(rule, message):
    with pytest.raises(ConfigError, match=message):
        find_rule(rule)


def test_a_rule_that_says_nothing_names_what_there_is():
    episodes = [report(steps=3, color="red") | {"task": "q0", "index": 0}]
    with pytest.raises(ConfigError, match=r"'auto' says nothing about any of the 1 episodes.*color, steps"):
        select(episodes, DifficultyBand(samples=2))


@pytest.mark.parametrize("keep", ["5:4", "0:17", "x", "1", "-1:3"])
def test_ranges_that_are_none(keep):
    with pytest.raises(ConfigError):
        DifficultyBand.parse(keep)
    with pytest.raises(ConfigError, match="leave the anchors out"):
        DifficultyBand.parse("1:16", anchors=3)
    with pytest.raises(ConfigError, match="at least 2"):
        DifficultyBand(samples=1)


def test_the_selection_can_be_read_again(tmp_path):
    episodes = [*pool([0, 3, 4], 4), *group("q7", 1, 2)]
    band = DifficultyBand(samples=4, anchors=1)
    write_selection(select(episodes, band), episodes, tmp_path, env="corver-qa")
    rows = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["q1", "q2"]
    assert rows[0] == {
        "id": "q1",
        "question": "Who is q1?",
        "answers": ["A", "B"],
        "benchmark": "nq-open",
        "popularity": 12.5,
        "n_correct": 3,
        "samples": 4,
        "kept_as": "learning",
    }
    assert rows[1]["kept_as"] == "anchor"
    assert read_tasks(tmp_path / "tasks.txt") == read_tasks(tmp_path / "kept.jsonl") == ["q1", "q2"]
    summary = json.loads((tmp_path / "filter.json").read_text("utf-8"))
    assert summary["env"] == "corver-qa"
    assert summary["complete"] is False
    assert summary["short"] == {"q7": {"scored": 2, "errors": 0, "unscored": 0}}
    assert summary["zone"] == {"samples": 4, "low": 1, "high": 3, "anchors": 1, "seed": 0}
    assert summary["histogram"] == [1, 0, 0, 1, 1]


def test_hostile_questions_stay_on_their_line(tmp_path):
    rows = group("q0", 1, 2)
    for row in rows:
        row["task_view"] = {"question": "a\u2028b\x85c\nd \ud800", "gold": {"answers": None}}
    write_selection(select(rows, DifficultyBand(samples=2)), rows, tmp_path)
    (line,) = (tmp_path / "kept.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["question"] == "a\u2028b\x85c\nd \ufffd"


@pytest.mark.parametrize(
    ("text", "message"), [("", "names no task"), ('{"id": 3}', 'line 1: an "id"'), ("{", "line 1: no valid")]
)
def test_bad_lists_of_tasks_name_the_line(tmp_path, text, message):
    (tmp_path / "t.txt").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        read_tasks(tmp_path / "t.txt")
    with pytest.raises(DataError, match="cannot be read"):
        read_tasks(tmp_path / "missing.txt")


def test_a_part_of_the_tasks_plays_like_the_whole():
    import copy
    import pickle

    import factgym

    whole = factgym.make("claimcheck-multihop")
    ids = [whole.tasks[i].id for i in (7, 3, 11)]
    part = only(factgym.make("claimcheck-multihop"), ids)
    assert [task.id for task in (part.tasks[i] for i in range(len(part.tasks)))] == ids
    assert part.reset(options={"task": ids[1]})[0] == whole.reset(options={"task": 3})[0]
    assert part.episode.index == 1
    assert part.tasks.fingerprint() != whole.tasks.fingerprint()
    assert copy.deepcopy(part).tasks is part.tasks
    assert recipe_of(part, "nli", {}).tasks == tuple(ids), "workers build it from what `make` was told, and these"
    again = pickle.loads(pickle.dumps(part.tasks))
    assert again[2].id == ids[2]
    with pytest.raises(ConfigError, match="none of the 3"):
        part.reset(options={"task": whole.tasks[0].id})
    with pytest.raises(IndexError):
        part.tasks[3]
    for bad, message in (([], "no task is chosen"), ([ids[0], ids[0]], "chosen twice"), (["nope"], "nope")):
        with pytest.raises(ConfigError, match=message):
            only(factgym.make("claimcheck-multihop"), bad)


def test_the_buckets_of_a_random_pool_are_a_plain_count():
    rng = random.Random(4)
    counts = [rng.randint(0, 8) for _ in range(200)]
    result = select(pool(counts, 8), DifficultyBand(samples=8))
    assert dict(enumerate(result.buckets.histogram)) == {c: Counter(counts)[c] for c in range(9)}
    assert len(result.retained) == sum(0 < count < 8 for count in counts)
