"""Training data: the target is what the reward pays for, the prompt is what will be asked, and the labels are even."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import factgym
from factgym.datasets.attribution import ERROR_TYPES, AttributionClaim, read_benchmark
from factgym.envs.seva.agents import parse_brief
from factgym.generators.attribution import SyntheticAttribution
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.probes import Probe
from factgym.rewards.seva.output import read_output
from factgym.rewards.seva.scoring import SevaGold, score_output
from factgym.training.seva.dataset import (
    Example,
    balanced_counts,
    changed_words,
    chat_lines,
    draw_replay,
    example_of,
    read_probes,
    write_dataset,
)
from factgym.training.seva.probes import ProbeBatch, probes_by_rules
from factgym.training.seva.settings import SHARES, open_benchmark, split_claims


def seed_examples(items: Iterable[AttributionClaim]) -> list[Example]:
    return [Example(item) for item in items]


def made(items: list[AttributionClaim], count: int = 6) -> list[Probe]:
    pool = Pool(items)
    return [probe for name in ERROR_TYPES for probe in probes_by_rules(items, name, count, 1, pool)]


def test_every_target_earns_what_can_be_earned(data_dir: Path) -> None:
    items = list(read_benchmark("anli", data_dir))[:150]
    examples = [*seed_examples(items[:60]), *(example_of(probe) for probe in made(items))]
    assert len(examples) > 80
    assert {example.item.error_type for example in examples} >= set(ERROR_TYPES) - {"scope_inflation"}
    for example, line in zip(examples, chat_lines(examples), strict=True):
        output = read_output(line["messages"][-1]["content"])
        gold = SevaGold(example.item.label, example.item.error_type)
        env_claim = parse_brief(line["messages"]).claim
        score = score_output(output, gold, claim=env_claim, source=example.item.source)
        assert score.facts["correct"]
        assert score.facts["format_ok"]
        assert {
            name: score.components[name] for name in ("format", "alignment", "chain", "label", "diagnosis")
        } == dict.fromkeys(("format", "alignment", "chain", "label", "diagnosis"), 1.0)
        if example.origin == "probe":
            assert output is not None
            assert output.error_type == example.item.error_type


def test_the_prompt_is_the_environments(tmp_path: Path) -> None:
    env = factgym.make("seva", split="train", size=8)
    items = list(SyntheticAttribution("train", size=8))
    for at, line in enumerate(chat_lines(seed_examples(items))):
        env.reset(options={"task": at})
        assert line["messages"][:2] == env.policy_prompt()
        assert (line["origin"], line["of"]) == ("seed", items[at].id)
    ruled = next(iter(chat_lines(seed_examples(items), "RULES")))
    assert ruled["messages"][0]["content"].endswith("\n\nRULES")
    dataset = write_dataset(tmp_path / "train.jsonl", seed_examples(items))
    assert dataset.lines == 8 == len(list(dataset.rows()))
    assert [row["label"] for row in dataset.rows()] == [item.label for item in items]
    assert [messages[-1]["role"] for messages in dataset.conversations()] == ["assistant"] * 8


def test_an_unknown_error_is_not_taught_as_the_catch_all() -> None:
    item = AttributionClaim("a", "It sold 90 cars in May.", "It sold 12 cars in May.", "Not Attributable")
    line = next(iter(chat_lines(seed_examples([item]))))
    assert (line["error_type"], line["taught_error_type"]) == (None, "numerical_exaggeration")


def test_changed_words_are_where_the_texts_differ() -> None:
    assert changed_words("Apple released it in 2007", "Samsung released it in 2007") == ("Apple", "Samsung")
    assert changed_words("a b c d", "a x y d") == ("b c", "x y")
    assert changed_words("a b", "a b, which nobody saw") == ("b", "b, which nobody saw")
    assert changed_words("a a a", "a a") == ("a", "")
    assert changed_words("a", "a") == ("", "")


def test_the_changed_words_are_what_the_verdict_points_at() -> None:
    items = list(SyntheticAttribution("train", size=80))
    for probe in probes_by_rules(items, "negation_flip", 5, 1, Pool(items)):
        example = example_of(probe)
        wrong = example.item.meta["span"]
        assert wrong
        assert wrong in probe.claim
        verdict = json.loads(next(iter(chat_lines([example])))["messages"][-1]["content"])
        bad = [entry for entry in verdict["evidence_alignment"] if entry["status"] != "match"]
        assert len(bad) == 1
        assert set(wrong.split()) & set(bad[0]["claim_span"].split())


def test_replay_makes_the_labels_even_as_far_as_there_are_claims() -> None:
    """Against every possible choice of how many to take of each label."""
    for ahead, negative, positive, count in itertools.product(range(-5, 6), range(5), range(5), range(7)):
        n, m = balanced_counts(ahead, negative, positive, count)
        possible = [(a, b) for a in range(negative + 1) for b in range(positive + 1) if a + b <= count]
        assert (n, m) in possible
        assert (abs(ahead + n - m), -(n + m)) == min((abs(ahead + a - b), -(a + b)) for a, b in possible)


def test_replay_is_drawn_by_its_seed_and_keeps_the_order() -> None:
    pool = seed_examples(SyntheticAttribution("train", size=60))
    probes = [Example(AttributionClaim(f"p{at}", "c", "s", "Not Attributable"), "probe") for at in range(10)]
    replay = draw_replay(probes, pool, 10, 1)
    assert replay == draw_replay(probes, pool, 10, 1) != draw_replay(probes, pool, 10, 2)
    assert {example.origin for example in replay} == {"replay"}
    assert [example.negative for example in replay] == [False] * 10
    indices = [[two.item.id for two in pool].index(example.item.id) for example in replay]
    assert indices == sorted(indices)
    as_they_come = Counter(example.negative for example in draw_replay(probes, pool, 60, 1, balance=False))
    assert as_they_come == {True: 30, False: 30}
    assert draw_replay(probes, [*probes, *pool[:1]], 5, 1, balance=False) == [
        Example(pool[0].item, "replay", pool[0].parent, pool[0].strategy)
    ]


def test_probes_read_back_as_they_were(tmp_path: Path) -> None:
    from factgym.agents.runs.files import write_lines

    items = list(SyntheticAttribution("train", size=60))
    probes = made(items, 3)
    write_lines(tmp_path / "probes.jsonl", ProbeBatch(probes=[(probe, "x") for probe in probes]).rows())
    assert read_probes(tmp_path / "probes.jsonl") == probes


def test_no_source_is_in_two_parts_and_labels_are_in_proportion(data_dir: Path) -> None:
    for name in ("fever", "halueval", "truthfulqa", "clearfacts"):
        claims = list(read_benchmark(name, data_dir))
        parts = split_claims(claims, 0)
        assert sorted(index for part in SHARES for index in parts[part]) == list(range(len(claims)))
        sources = {part: {claims[index].source for index in parts[part]} for part in SHARES}
        assert not sources["test"] & (sources["reflect"] | sources["material"])
        assert not sources["reflect"] & sources["material"]
        share = sum(claim.label == "Attributable" for claim in claims) / len(claims)
        for part in SHARES:
            own = [claims[index].label == "Attributable" for index in parts[part]]
            assert abs(len(own) / len(claims) - float(SHARES[part])) < 0.04
            assert abs(sum(own) / len(own) - share) < 0.08
        assert parts != split_claims(claims, 1)
        assert parts == split_claims(claims, 0)


def test_a_source_that_is_not_measured_is_all_material() -> None:
    world = open_benchmark("generated-train", path=None, size=30, seed=0, measured=False)
    assert len(world.claims("material")) == 30
    assert not world.indices["test"]
