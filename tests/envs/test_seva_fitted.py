"""SEVA's fitted baseline: the constant without signal, never fitted to what it judges, and after the reward's own payoffs."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import factgym
from factgym.agents.rollout.engine import play_many
from factgym.baselines.evidence import parse_statement
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.benchmarks.search.run import StrategyRunner, fit_shortcuts, search_tasks
from factgym.core.env import Env
from factgym.core.strategies import Example
from factgym.datasets.attribution import BENCHMARKS
from factgym.envs.seva import fitted
from factgym.envs.seva.agents import NEGATIVE, POSITIVE, EpisodeBrief, source_evidence, verify_constantly
from factgym.envs.seva.fitted import FILE_AGENTS, LabelModel, fitted_judge, label_payoffs, task_example
from factgym.envs.seva.strategies import STRATEGIES
from factgym.generators.attribution import SyntheticAttribution
from factgym.rewards.seva.output import LABELS, output_of
from factgym.rewards.seva.rubrics import find_rubric
from factgym.rewards.seva.scoring import score_output

GENERATED = SyntheticAttribution("train", seed=0)


def examples(count: int, labels: Sequence[str] = (), start: int = 0) -> list[Example]:
    """Generated claims with their own labels, or with these in order."""
    items = [GENERATED[index] for index in range(start, start + count)]
    return [
        Example(item.claim, labels[n] if labels else item.label, evidence=item.source) for n, item in enumerate(items)
    ]


def probability(model: LabelModel, example: Example) -> float:
    return model(parse_statement(example.text), source_evidence(example.evidence))


def totals(env: Env[Any], name: str) -> list[float]:
    return [episode["reward"]["total"] for episode in play_many(env, FILE_AGENTS[name], range(len(env.tasks)))]


@pytest.mark.parametrize("commonest", LABELS)
def test_without_signal_it_gives_the_commonest_label(commonest: str) -> None:
    other = LABELS[1 - LABELS.index(commonest)]
    wrong = fresh = 0
    for seed in range(3):
        rng = random.Random(seed)
        model = LabelModel(examples(240, [commonest if rng.random() < 0.72 else other for _ in range(240)]))
        judge = fitted_judge(model, find_rubric("balanced"))
        for item in examples(80, start=300 + 80 * seed):
            fresh += 1
            judgement = judge(parse_statement(item.text), source_evidence(item.evidence))
            wrong += judgement.supported is (commonest == NEGATIVE)
    assert wrong <= 0.02 * fresh
    assert probability(LabelModel([]), examples(1)[0]) == 0.5


def test_with_signal_it_learns_whatever_the_labels_say() -> None:
    """Turned labels turn the judgement: nothing of what is right is built in."""
    training, fresh = examples(200), examples(60, start=300)
    for turned in (False, True):
        labels = [item.label if not turned else LABELS[1 - LABELS.index(item.label)] for item in training]
        model = LabelModel(examples(200, labels))
        right = sum((probability(model, item) > 0.5) == ((item.label == POSITIVE) != turned) for item in fresh)
        assert right > 0.6 * len(fresh)


def test_the_order_of_the_examples_changes_nothing() -> None:
    training, fresh = examples(60), examples(20, start=300)
    shuffled = random.Random(0).sample(training, len(training))
    for item in fresh:
        first, second = (probability(LabelModel(list(order)), item) for order in (training, shuffled))
        assert first == pytest.approx(second, abs=1e-4)


def write_claims(path: Path, flipped: int | None = None) -> Path:
    rows = []
    for number, item in enumerate(examples(40)):
        label = item.label if number != flipped else LABELS[1 - LABELS.index(item.label)]
        rows.append(json.dumps({"claim": item.text, "source": item.evidence, "label": label}))
    path.write_text("\n".join(rows), "utf-8")
    return path


def test_no_claim_is_judged_by_its_own_label(tmp_path: Path) -> None:
    def verdict(path: Path, index: int) -> str:
        env = factgym.make("seva-fever", path=str(path))
        return next(play_many(env, FILE_AGENTS["fitted"], [index]))["messages"][2]["content"]

    whole = write_claims(tmp_path / "claims.jsonl")
    for index in range(0, 40, 9):
        assert verdict(whole, index) == verdict(write_claims(tmp_path / f"{index}.jsonl", index), index)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Example]]]:
    """The examples of each fit."""
    recorded: list[list[Example]] = []

    class Recorded(LabelModel):
        def __init__(self, examples: Sequence[Example]) -> None:
            recorded.append(list(examples))
            super().__init__(examples)

    fitted.cross_fitted.cache_clear()
    monkeypatch.setattr(fitted, "LabelModel", Recorded)
    yield recorded
    fitted.cross_fitted.cache_clear()


def test_it_is_never_fitted_to_claims_about_the_sources_that_it_judges(
    fits: list[list[Example]], data_dir: Path
) -> None:
    env = factgym.make("seva-halueval", path=str(data_dir))
    for index in range(0, len(env.tasks), 10):
        env.reset(options={"task": index})
        fitted.cross_fitted.cache_clear()
        fitted.honest_judge(env)
        training = fits.pop()
        assert len(training) > 100 and env.task.source not in {item.evidence for item in training}


def test_in_a_search_it_is_fitted_to_the_tasks_of_the_classifiers(fits: list[list[Example]], data_dir: Path) -> None:
    env = factgym.make("seva-fever", path=str(data_dir))
    tasks = search_tasks(env, 60, 0)
    runner = StrategyRunner(tasks.env, STRATEGIES, fit_shortcuts(tasks, STRATEGIES), 0)
    for index in (*tasks.train[:3], *tasks.fresh[:3]):
        runner.play(STRATEGIES.strategy(), index)
    assert fits == [[task_example(env.tasks[index]) for index in tasks.fit]]
    assert not set(tasks.fit) & {*tasks.train, *tasks.fresh}


def test_with_the_same_examples_agent_and_empty_strategy_send_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = factgym.make("seva-fever", path=str(write_claims(tmp_path / "claims.jsonl")))
    training = examples(50, start=300)
    model = LabelModel(training)
    monkeypatch.setattr(fitted, "cross_fitted", lambda tasks, fold: model)
    runner = StrategyRunner(env, STRATEGIES, ShortcutClassifiers(training), 0)
    for index in range(10):
        strategy, agent = (
            episode.record["messages"][2]["content"]
            for episode in (runner.play(STRATEGIES.strategy(), index), runner.play_agent(FILE_AGENTS["fitted"], index))
        )
        assert strategy == agent


@pytest.mark.parametrize("reward", ["balanced", "grounded", "process", "binary", "process-by-label"])
def test_a_label_is_chosen_by_what_the_reward_pays_for_it(reward: str) -> None:
    """Against what honest grounds earn under either label on generated claims; a label's own share has to agree."""
    rubric = find_rubric(reward)
    payoffs = label_payoffs(rubric)
    gains: dict[str, Counter[float]] = {label: Counter() for label in LABELS}
    env = factgym.make("seva")
    for index in range(60):
        task = env.tasks[index]
        earned = {}
        for label in LABELS:
            verdict = {**verify_constantly(EpisodeBrief(task.claim, task.source), label), "confidence": 0.5}
            score = score_output(output_of(verdict), task.gold, claim=task.claim, source=task.source)
            earned[label] = rubric.total(score.components, score.gates)
        other = LABELS[1 - LABELS.index(task.gold.label)]
        gains[task.gold.label][round(earned[task.gold.label] - earned[other], 3)] += 1
    for label in LABELS:
        other = LABELS[1 - LABELS.index(label)]
        assert gains[label].most_common(1)[0][0] == pytest.approx(
            payoffs[label, label] - payoffs[other, label], abs=0.011
        )


@pytest.mark.parametrize("name", BENCHMARKS)
def test_on_public_data_it_is_below_neither_a_constant_nor_the_overlap_nor_the_rules(data_dir: Path, name: str) -> None:
    env = factgym.make(f"seva-{name}", path=str(data_dir))
    size = len(env.tasks)
    mean = {
        agent: sum(totals(env, agent)) / size
        for agent in ("fitted", "always-attributable", "always-not", "lexical", "nli")
    }
    assert mean.pop("fitted") > max(mean.values()) - 0.005  # a label is worth as much of 200 claims
