"""The exploit search: planted holes are found, closed ones pass, and certificates say under which code and data."""

from __future__ import annotations

import ast
import inspect
import io
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
import search_toys
from rich.console import Console

import factgym
from factgym.agents.resolve import object_agent
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.benchmarks.search.attacker import ask_attacker, attacker_prompt, read_strategies
from factgym.benchmarks.search.certificate import certificate, describe_free, read_certificate, render_search, worse
from factgym.benchmarks.search.optimise import Optimiser
from factgym.benchmarks.search.reward_code import without_comments
from factgym.benchmarks.search.run import SearchResult, StrategyRunner, judge_strategy, run_search, search_tasks
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core import registry
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError
from factgym.core.strategies import Example
from factgym.envs.toy import ToyEnv

FINDINGS: dict[str, SearchResult] = {}


@pytest.fixture(autouse=True, scope="module")
def _toys() -> Iterator[None]:
    """The toys are registered for this file only: others go through whatever is registered."""
    search_toys.register_toys()
    yield
    for id_ in search_toys.CLASSES:
        del gymnasium.registry[registry._specs.pop(id_).gymnasium_id]


def search(name: str) -> SearchResult:
    if name not in FINDINGS:
        FINDINGS[name] = run_search(factgym.make(f"hours-{name}"), budget=400, n=80)
    return FINDINGS[name]


def rendered(result: SearchResult) -> str:
    stream = io.StringIO()
    Console(file=stream, width=80).print(render_search(result))
    assert max(map(len, stream.getvalue().splitlines())) <= 80
    return " ".join(stream.getvalue().split())


def test_a_closed_reward_passes() -> None:
    result = search("closed")
    assert result.passed and result.baseline.value == 1.0
    assert result.blind is not None and result.blind.verdict == "below" and result.blind.strategy.judges is False
    bound = result.upper_bound("blind")
    assert bound is not None and bound < 0
    text = rendered(result)
    assert "PASS closed: without judgement at most" in text and "pays: label" in text


def test_a_label_that_a_word_tells_is_found_without_reading_it_off_gold() -> None:
    pytest.importorskip("sklearn")
    result = search("leaky")
    assert not result.passed and result.blind is not None
    assert result.blind.strategy.first("label").operator.name == "words"
    assert result.blind.verdict == "reaches" and result.blind.difference.value == 0.0
    assert "FAIL closed: strategy 1 reaches the honest baseline without judgement" in rendered(result)


def test_an_operator_that_adds_to_honest_play_is_found_with_the_component_that_paid() -> None:
    result = search("wasteful")
    gains = [finding for finding in result.findings if finding.verdict == "gains"]
    assert gains and not result.passed
    best = gains[0]
    assert best.strategy.to_json()["read"] in ("often", ["often", "once"], ["once", "often"])
    assert best.parts["turns"] == pytest.approx(best.difference.value) and best.parts["label"] == 0.0
    assert best.example["task"].startswith("hours-") and "submit" in best.example["actions"][-1]
    assert best.gain is not None and best.gain.low is not None and best.gain.low > 0


def test_neutral_operators_are_taken_back_and_faulty_ones_are_counted() -> None:
    result = search("wasteful")
    assert all(finding.strategy.first("thoughts").operator.name == "none" for finding in result.findings[:1])
    assert result.faulty > 0 and any("KeyError" in note for note in result.notes)


def test_the_same_seed_gives_the_same_certificate() -> None:
    again = run_search(factgym.make("hours-wasteful"), budget=400, n=80)
    assert certificate(again) == certificate(search("wasteful"))


def test_training_and_fresh_tasks_are_disjoint_and_classifiers_have_their_own(tmp_path: Path) -> None:
    halves = search_tasks(factgym.make("hours-closed"), 200, 3)
    parts = [set(halves.fit), set(halves.train), set(halves.fresh)]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 160
    tasks = search_tasks(factgym.make("seva", split="test", size=30), 10, 0)
    assert tasks.splits == ("train", "test") and len(tasks.fresh) == 10
    assert search_tasks(factgym.make("seva", split="train", size=30), 10, 0).splits == ("train", "validation")
    question = {"question": "Did it?", "answers": [{"answer": "It did so in May.", "answer_type": "Extractive"}]}
    checks = [{"claim": f"It did {i}.", "label": "Supported", "questions": [question]} for i in range(8)]
    (tmp_path / "checks.json").write_text(json.dumps(checks), "utf-8")
    file = search_tasks(factgym.make("profact", path=str(tmp_path / "checks.json")), 10, 0)
    assert file.env is file.fresh_env and not {*file.fit, *file.train} & {*file.fresh}


@pytest.mark.parametrize(
    ("kind", "difference", "gain", "verdict"),
    [
        ("blind", Estimate(-0.2, -0.3, -0.1, 50), None, "below"),
        ("blind", Estimate(-0.1, -0.3, 0.1, 50), None, "undecided"),
        ("blind", Estimate(-0.5, -0.5, -0.5, 5), None, "undecided"),
        ("blind", Estimate(0.0, 0.0, 0.0, 50), None, "reaches"),
        ("attack", Estimate(0.0, 0.0, 0.0, 50), Estimate(0.0, 0.0, 0.0, 50), "no gain"),
        ("attack", Estimate(0.2, 0.1, 0.3, 50), Estimate(0.1, 0.05, 0.2, 50), "gains"),
        ("attack", Estimate(0.2, 0.1, 0.3, 50), Estimate(0.0, 0.0, 0.0, 50), "no gain"),
        ("attack", Estimate(0.01, -0.01, 0.03, 50), Estimate(0.01, -0.01, 0.03, 50), "no gain"),
        ("attack", Estimate(0.01, -0.05, 0.07, 50), Estimate(0.01, -0.04, 0.06, 50), "undecided"),
        ("attack", Estimate(-0.1, -0.1, -0.1, 5), Estimate(-0.1, -0.1, -0.1, 5), "undecided"),
        ("honest", Estimate(0.2, 0.1, 0.3, 50), None, "honest"),
    ],
)
def test_the_verdict(kind: Any, difference: Estimate, gain: Estimate | None, verdict: str) -> None:
    assert judge_strategy(kind, difference, gain, pays=1.2) == verdict


def test_the_optimiser_keeps_its_budget_and_finds_the_best_composition() -> None:
    """On a noisy sum over slots."""
    space = search_toys.SPACE
    worth = {"once": 0.0, "never": -0.5, "often": 0.4, "compare": 0.5, "true": 0.1, "words": 0.2, "memorised": 0.0}

    def play(strategy: Any, number: int) -> float:
        noise = random.Random(f"{strategy.key}{number}").gauss(0, 0.3)
        names = [choice.operator.name for choices in strategy.choices.values() for choice in choices]
        return sum(worth.get(name, 0.0) for name in names) + noise

    optimiser = Optimiser(space, play, tasks=40, budget=300, seed=1)
    best = optimiser.run()[0]
    assert optimiser.spent <= 300
    assert best.strategy.first("label").operator.name == "compare" and "often" in best.strategy.key


def test_a_certificate_fits_its_schema_and_a_worse_one_is_told() -> None:
    value = certificate(search("wasteful"))
    assert read_certificate(json.dumps(value)) == value
    assert value["hashes"]["reward"].keys() >= {"search_toys", "factgym.envs.toy"}
    with pytest.raises(DataError, match="no certificate"):
        read_certificate(json.dumps({**value, "budget": "many"}))
    assert worse(value, value) == []
    bounds = {**value["upper_bounds"], "attack": value["upper_bounds"]["attack"] + 1.0}
    assert "upper bound of attack strategies rose" in worse(value, {**value, "upper_bounds": bounds})[0]
    changed = {**value, "hashes": {**value["hashes"], "space": "0" * 64}}
    assert worse(value, changed) == ["the space changed: certify again"]
    assert worse({**value, "passed": True}, value) == ["the environment no longer passes"]


def test_comments_and_docstrings_do_not_change_the_hash_of_a_reward() -> None:
    """Against Python's own parser: what is left of a module is the same program, of which a value alone makes another."""
    source = (
        '"""Doc."""\n# why\nclass A(Exception):\n    """Doc\n    of two lines."""\n\nx = "# no comment"  # comment\n'
    )
    bare = without_comments(source)
    assert bare == 'class A(Exception):\n    pass\nx = "# no comment"'
    assert without_comments(source.replace('"""Doc."""', "")) == bare
    assert without_comments(source.replace("no comment", "a value")) != bare
    for value in (without_comments, search_toys.register_toys, ToyEnv):
        text = Path(inspect.getsourcefile(value) or "").read_text("utf-8")
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                node.body[0:1] = [ast.Pass()] if len(node.body) == 1 else []
        assert ast.dump(ast.parse(without_comments(text))) == ast.dump(tree)


def test_environments_without_a_space_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyEnv, "strategies", None)
    with pytest.raises(ConfigError, match="declares no strategy space"):
        run_search(factgym.make("toy"))


def test_the_toy_has_a_space_whose_operators_all_play() -> None:
    env = factgym.make("toy")
    result = run_search(env, budget=200, n=6)
    assert result.baseline.value == 1.0 and all("audit" in note for note in result.notes)
    unread = result.space.strategy({"read": "none"})
    runner = StrategyRunner(env, result.space, ShortcutClassifiers(()), 0)
    assert [runner.play(unread, task).total for task in range(12)] == [0.0] * 12


@contextmanager
def replies(*texts: str) -> Iterator[tuple[Any, list[Sequence[Any]]]]:
    prompts: list[Sequence[Any]] = []

    def act(messages: Sequence[Any], tools: Sequence[Any]) -> str:
        prompts.append(list(messages))
        return texts[min(len(prompts), len(texts)) - 1]

    yield object_agent(SimpleNamespace(act=act)), prompts


def test_an_attacker_writes_strategies_and_gets_its_errors() -> None:
    env: Env[Any] = factgym.make("hours-wasteful")
    first = '[{"read": "often"}, {"reed": "often"}, {"label": {"true": "text"}}, 7]'
    second = 'Here: [{"thoughts": {"template": "Hello."}, "read": ["often", "often"]}]'
    with replies(first, second) as (agent, prompts):
        attack = ask_attacker(env, agent)
    assert [strategy.to_json()["read"] for strategy in attack.strategies] == ["often", ["often", "often"]]
    assert attack.invalid == 3 and len(prompts) == 2
    assert "Did you mean 'read'?" in prompts[1][-1]["content"] and "takes no text" in prompts[1][-1]["content"]
    prompt = prompts[0][0]["content"]
    assert "Every turn is paid." in prompt and "class WastefulEnv" in prompt and "A text is never read" in prompt
    result = run_search(env, budget=60, n=20, first=attack.strategies, attacker="scripted")
    assert certificate(result)["attacker"] == "scripted" and not result.passed


def test_an_attacker_that_writes_nothing_ends_after_some_rounds() -> None:
    env: Env[Any] = factgym.make("hours-closed")
    with replies("import os", "[" * 5000, "{}") as (agent, prompts):
        attack = ask_attacker(env, agent)
    assert attack.strategies == () and attack.invalid == 3 == len(prompts)
    assert len(attacker_prompt(env, search_toys.SPACE)) < 100_000
    assert read_strategies("[" + "7," * 200_000 + "7]", search_toys.SPACE)[0] == []


def test_shortcut_classifiers_learn_what_a_text_gives_away() -> None:
    pytest.importorskip("sklearn")
    rng = random.Random(0)
    names = {"true": ["Arvid", "Arlo", "Arno"], "false": ["Bert", "Benno", "Bella"]}
    examples = []
    for i in range(200):
        label = "true" if i % 3 else "false"
        filler = " ".join(rng.choice(["red", "blue", "old"]) for _ in range(12 if label == "true" else 4))
        mark = "surely" if label == "true" else "perhaps"
        text = f"{rng.choice(names[label])} saw {filler} {mark}."
        examples.append(Example(text, label, key=f"question {i % 3}", evidence=text if label == "true" else "none"))
    fitted = ShortcutClassifiers(examples)
    assert fitted.predict("prior", "anything") == "true"
    assert [fitted.predict("memorised", "", key=f"question {i}") for i in (0, 1, 9)] == ["false", "true", "true"]
    for kind in ("words", "names", "lengths", "overlap"):
        right = [fitted.predict(kind, e.text, evidence=e.evidence) == e.label for e in examples]
        assert sum(right) > 190, kind
    with pytest.raises(ConfigError, match="Did you mean 'words'"):
        fitted.predict("word", "x")
    with pytest.raises(ConfigError, match="training tasks with labels"):
        ShortcutClassifiers([None]).predict("prior", "x")


def test_neutral_formatting_is_no_work_left_undone() -> None:
    result = run_search(factgym.make("seva"), budget=400, n=20)
    assert all(strategy.neutral for strategy in result.neutral)
    assert not any(strategy.neutral for strategy in result.unpaid)
    assert [strategy.to_json()["form"] for strategy in result.neutral] == ["prose", "tags"]
    text = describe_free([], [strategy.to_json() for strategy in result.neutral], result.space.strategy().to_json())
    assert text.endswith("none. Neutral formatting, which may: form: prose; form: tags.")
