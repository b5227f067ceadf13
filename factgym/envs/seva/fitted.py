"""The honest baseline of SEVA over files: how claim and source relate, weighed as other claims of the same data teach.

Rules that were fitted elsewhere know neither how many claims of a set are supported nor how its claims were written: in
TruthfulQA overlap decides, in ANLI hardly anything does that rules can see, and a constant label beats them. So the
rules' log-odds and the features of `RELATION` are weighed by a logistic regression over labelled claims, with the labels'
frequencies as its intercept. The quadratic penalty leaves the commonest label where nothing tells the labels apart.

A claim's own label, and those of other claims about its source, take no part in its judgement: weights are cross-fitted
over parts of the task set; in an exploit search they are fitted to the tasks of the shortcut classifiers.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from factgym.baselines.evidence import Evidence, Statement, parse_statement, select_sentences
from factgym.baselines.fitting import fit_logistic
from factgym.baselines.pair_features import RELATION, compare_pair
from factgym.core.strategies import Example, Shortcuts
from factgym.envs.scripted import agent_table
from factgym.envs.seva.agents import (
    AGENTS,
    NEGATIVE,
    POSITIVE,
    Judge,
    Judgement,
    ScriptedPolicy,
    build_grounds,
    certain,
    classify_error,
    judge_honestly,
    make_verdict,
    source_evidence,
    verify,
)
from factgym.envs.seva.env import SevaEnv
from factgym.envs.seva.tasks import SevaTask, SevaTaskSet
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.output import LABELS, output_of
from factgym.rewards.seva.scoring import SevaGold, score_output

_PENALTY, _INTERCEPT_PENALTY = 10.0, 0.5
"""Of penalties from 3 to 60 the one that loses least against both the rules and a constant, over quarters of the public
slices as a search has them: of random labels, 2 in 3 of them equal, it gets .3 % fewer right than the constant after 150
claims."""
_FOLDS = 5
_MAX_FITTED = 1000
_CERTAINTY = 0.98


class LabelModel:
    """The probability that a claim is Attributable, fitted to labelled claims with their sources as evidence.

    Without examples it is 1/2. The same examples, in any order, give the same model to six digits.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        rows = [_features(parse_statement(example.text), source_evidence(example.evidence)) for example in examples]
        self._weights = np.zeros((2 + len(RELATION), 2))
        if examples:
            labels = np.array(
                [[example.label == label for label in (NEGATIVE, POSITIVE)] for example in examples], float
            )
            prior = _PENALTY * np.eye(2 + len(RELATION))
            prior[0, 0] = _INTERCEPT_PENALTY
            self._weights = fit_logistic(np.array(rows), labels, self._weights, penalty=prior[None], fixed=1).round(6)

    def __call__(self, claim: Statement, evidence: Evidence) -> float:
        """Return the probability of a claim."""
        return 1 / (1 + math.exp(-float(np.array(_features(claim, evidence)) @ self._weights[:, 1])))


def _features(claim: Statement, evidence: Evidence) -> list[float]:
    """Return 1, the log-odds of the rules, and the features of the relation. Nothing is known of the claim alone."""
    values = compare_pair(claim, evidence).values
    log_odds = 0.0
    if evidence.sentences:
        judgement = judge_honestly(claim, evidence)
        confidence = min(judgement.confidence, _CERTAINTY)
        log_odds = math.log(confidence / (1 - confidence)) * (1 if judgement.supported else -1)
    return [1.0, log_odds, *(values[name] for name in RELATION)]


def fitted_judge(model: LabelModel, rubric: Rubric) -> Judge:
    """Return the judge that gives the label of which a reward expects most, with its probability as the confidence."""
    payoffs = label_payoffs(rubric)

    def judge(claim: Statement, evidence: Evidence) -> Judgement:
        probability = model(claim, evidence)
        chances = {POSITIVE: probability, NEGATIVE: 1 - probability}
        # Rounded, so that equal payoffs differ by no rounding of sums; then the probable label wins.
        label = max(
            (NEGATIVE, POSITIVE),
            key=lambda label: (round(sum(chances[gold] * payoffs[label, gold] for gold in LABELS), 9), chances[label]),
        )
        confidence = round(chances[label], 2)
        if label == POSITIVE:
            return Judgement(True, confidence)
        judgement = judge_honestly(claim, evidence)
        if judgement.supported:
            kind = classify_error(claim, select_sentences(evidence, claim), "unsupported")
            judgement = Judgement(False, confidence, kind, compare_pair(claim, evidence).wrong)
        return replace(judgement, confidence=confidence)

    return judge


def label_payoffs(rubric: Rubric) -> dict[tuple[str, str], float]:
    """Return (label, gold label) -> reward of a verdict whose grounds are in order and whose confidence is 1/2."""
    claim, source = "The office opens at nine on Monday.", "On Monday the office opens at nine and closes at five."
    grounds = {
        label: build_grounds(
            [(claim[:22], source, "match", "“The office opens” is there."), (claim[22:], source, *last)]
        )
        for label, last in {
            POSITIVE: ("match", "“at nine on Monday” is there."),
            NEGATIVE: ("mismatch", "“at nine on Monday” is not there."),
        }.items()
    }
    verdicts = {label: make_verdict(label, 0.5, grounds[label], "fabrication") for label in LABELS}
    payoffs: dict[tuple[str, str], float] = {}
    for label in LABELS:
        for gold in LABELS:
            score = score_output(output_of(verdicts[label]), SevaGold(gold), claim=claim, source=source)
            payoffs[label, gold] = rubric.total(score.components, score.gates)
    return payoffs


def task_example(task: SevaTask) -> Example:
    """Return claim and source of a task with the gold label."""
    return Example(task.claim, task.gold.label, evidence=task.source)


def fold_of(source: str) -> int:
    """Return the part of a task set to which the claims about a source belong."""
    return hashlib.sha256(source.encode()).digest()[0] % _FOLDS


@lru_cache(maxsize=4 * _FOLDS)
def cross_fitted(tasks: SevaTaskSet, fold: int) -> LabelModel:
    """Return the model for the claims of a fold, fitted to those of all others, at most 1,000 drawn by the tasks' seed."""
    count = len(tasks)
    drawn = random.Random(f"seva fitted {tasks.config.seed}").sample(range(count), min(count, _MAX_FITTED))
    examples = (task_example(tasks[index]) for index in sorted(drawn))
    return LabelModel([example for example in examples if fold_of(example.evidence) != fold])


def honest_judge(env: SevaEnv, shortcuts: Shortcuts | None = None) -> Judge:
    """Return the honest baseline's judge for the current task: rules of generated claims, fitted over files.

    shortcuts: of a search; the judge is then fitted to their training tasks.
    """
    if env.config.source == "synthetic":
        return judge_honestly
    # The task's own set: that of the environment may be a choice of its tasks.
    tasks, fold = env.task.origin[0], fold_of(env.task.source)
    model = cross_fitted(tasks, fold) if shortcuts is None else shortcuts.fitted(LabelModel)
    return fitted_judge(model, env.config.rubric)


def _start(revise: Callable[[Judgement], Judgement], env: SevaEnv, seed: int) -> ScriptedPolicy:
    judge = honest_judge(env)
    return ScriptedPolicy(lambda brief: verify(brief, judge, revise))


FILE_AGENTS = {
    "oracle": AGENTS["oracle"],
    "teacher": AGENTS["teacher"],
    **agent_table(
        ("fitted", "honest", "How claim and source relate, weighed as the labels of other claims of the file teach.",
         partial(_start, lambda judgement: judgement)),
    ),
    **AGENTS,
    "nli": replace(AGENTS["nli"], role="baseline"),
    **agent_table(
        ("certain", "exploiter", "The honest baseline's judgement, always certain.", partial(_start, certain))
    ),
}  # fmt: skip
"""The agents over files, by name, in the order of `AGENTS`, where the rules are one baseline among others."""
