"""Training data of a verifier: gold claims as chat lines, and the trainer of feature verifiers that reads them.

A line is the prompt as the environment gives it and the right verdict. The verdict is built from the gold like the
oracle's: spans of claim and source, steps, label, and for an error its type and a fix. Of a probe the changed words are
known, so its verdict points at them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, cast

from factgym.agents.agent import Model, with_rules
from factgym.agents.feature_verifier import FeatureVerifier, TrainingExample, fine_tune
from factgym.agents.runs.files import read_lines, write_lines
from factgym.baselines.pair_features import extract_features
from factgym.core.config import PromptStyle
from factgym.core.errors import ConfigError, DataError
from factgym.core.registry import make
from factgym.core.untrusted import nonce_of
from factgym.datasets.attribution import NOT_ATTRIBUTABLE, AttributionClaim
from factgym.datasets.base import Records
from factgym.envs.seva.agents import ScriptedPolicy, gold_verdict, parse_brief
from factgym.envs.seva.env import SevaEnv
from factgym.envs.seva.tasks import SevaTaskSet
from factgym.generators.perturbations.probes import Probe
from factgym.rewards.seva.output import read_output
from factgym.training.seva.profile import classify_by_rules
from factgym.training.trainer import Dataset, open_dataset

Origin = Literal["seed", "replay", "probe"]


@dataclass(frozen=True, slots=True)
class Example:
    """A claim to learn from. parent: id of the claim that a probe was made from, empty for a claim of a data set."""

    item: AttributionClaim
    origin: Origin = "seed"
    parent: str = ""
    strategy: str | None = None

    @property
    def negative(self) -> bool:
        """Whether the claim is not attributable."""
        return self.item.label == NOT_ATTRIBUTABLE


def example_of(probe: Probe) -> Example:
    """A probe as an example; its verdict shows the words that were changed, or what its own claim's gold shows."""
    meta, parent = probe.meta, probe.id
    if probe.strategy != "claim":
        original, changed = changed_words(probe.original_claim, probe.claim)
        reason = f"Where the claim has it, the source says “{original}”." if original and changed else ""
        meta, parent = {"span": changed, "reason": reason}, str(probe.meta.get("of") or probe.id)
    item = AttributionClaim(probe.id, probe.claim, probe.source, probe.gold_label, probe.error_type, "", meta)
    return Example(item, "probe", parent, probe.strategy)


def changed_words(before: str, after: str) -> tuple[str, str]:
    """The words of `before` and of `after` between their longest common prefix and suffix."""
    old, new = before.split(), after.split()
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    return " ".join(old[head : len(old) - tail]), " ".join(new[head : len(new) - tail])


def _common_prefix(first: Sequence[str], second: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


class _Claims(Records[AttributionClaim]):
    """Claims in memory, for a task set whose fingerprint nobody reads."""

    def __init__(self, claims: Iterable[AttributionClaim]) -> None:
        self._records, self._fingerprint = tuple(claims), ""


def chat_lines(examples: Sequence[Example], rules: str = "", prompt: PromptStyle = "full") -> Iterator[dict[str, Any]]:
    """One line for each example. rules: appended to the instructions. prompt: style of the instructions and schemas.

    A verdict has to name an error: where the data names none, the line teaches the one that the rules give.
    """
    env = cast(SevaEnv, make("seva", prompt=prompt))
    claims = []
    for example in examples:
        item = example.item
        if example.negative and item.error_type is None:
            item = replace(item, error_type=classify_by_rules(item.claim, item.source))
        claims.append(item)
    tasks = SevaTaskSet(_Claims(claims), env.config)
    for index, example in enumerate(examples):
        task, item = tasks[index], example.item
        env.nonce = nonce_of(env.env_spec.id, task.id)
        messages = env.initial_messages(task)
        verdict = ScriptedPolicy(partial(gold_verdict, task=task)).act(messages, ())
        yield {
            "messages": [
                *(with_rules(messages, rules) if rules else messages),
                {"role": "assistant", "content": verdict},
            ],
            "tools": list(env.available_tools()),
            "id": item.id,
            "origin": example.origin,
            "label": item.label,
            "error_type": item.error_type,
            "taught_error_type": task.gold.error_type,
            "benchmark": item.benchmark,
            "strategy": example.strategy,
            "of": example.parent or item.id,
        }


def write_dataset(path: Path, examples: Sequence[Example], rules: str = "", prompt: PromptStyle = "full") -> Dataset:
    """Write the chat lines of examples."""
    write_lines(path, chat_lines(examples, rules, prompt))
    return open_dataset(path)


def read_probes(path: Path) -> list[Probe]:
    """Read a `probes.jsonl`; keys that a probe does not have are ignored. Raises DataError that names the line."""
    names = ("id", "claim", "source", "original_claim", "gold_label", "error_type", "strategy", "seed", "by", "meta")
    probes = []
    for number, row in enumerate(read_lines(path), 1):
        try:
            probes.append(Probe(**{name: row[name] for name in names}))
        except (KeyError, TypeError) as error:
            raise DataError(f"{path} line {number}: no probe ({error})") from None
    return probes


def draw_replay(
    probes: Sequence[Example], pool: Sequence[Example], count: int, seed: int, *, balance: bool = True
) -> list[Example]:
    """Draw at most `count` examples of the pool that are not among the probes, in the pool's order.

    balance: choose labels so that probes and replay together come as near to one half each as the pool allows, and
    take fewer rather than add to the majority; else draw regardless of labels. SEVA's probes make attributable claims
    false, so that by themselves they teach one label only.
    """
    probe_ids = {example.item.id for example in probes}
    indices = [index for index, example in enumerate(pool) if example.item.id not in probe_ids]
    random.Random(f"factgym evolve replay {seed}").shuffle(indices)
    if balance:
        negative = [index for index in indices if pool[index].negative]
        positive = [index for index in indices if not pool[index].negative]
        ahead = 2 * sum(example.negative for example in probes) - len(probes)
        n, m = balanced_counts(ahead, len(negative), len(positive), count)
        indices = [*negative[:n], *positive[:m]]
    return [
        pool[index] if pool[index].origin == "probe" else replace(pool[index], origin="replay")
        for index in sorted(indices[:count])
    ]


def balanced_counts(ahead: int, negative: int, positive: int, count: int) -> tuple[int, int]:
    """How many negative and positive examples bring both labels nearest to equal; of equal choices, the most examples.

    ahead: negative minus positive examples so far. negative, positive: how many there are. count: limit of the sum.
    """
    # For each n the distance |ahead + n - m| falls with m up to m = ahead + n, so the best m is that number, as far as
    # there are positives and room; the choice among all n is then exhaustive.
    choices = []
    for n in range(min(count, negative) + 1):
        m = max(0, min(ahead + n, positive, count - n))
        choices.append((abs(ahead + n - m), -(n + m), n, m))
    return min(choices)[2:]


class FeatureTrainer:
    """Fine-tunes a FeatureVerifier on chat lines: claim and source from the prompt, label and error from the verdict.

    pull: strength of the old weights, see `fine_tune`. Raises ConfigError for a pull that is not above 0.
    """

    identity = "factgym.training.seva.dataset.FeatureTrainer"

    def __init__(self, pull: float = 2.0) -> None:
        if not pull > 0:
            raise ConfigError(f"pull must be above 0, not {pull}")
        self.pull = pull

    def describe(self) -> dict[str, Any]:
        """Identity for a manifest."""
        return {"kind": "features", "pull": self.pull}

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Return the fine-tuned verifier. The optimum is unique, so that `seed` has no effect.

        Raises ConfigError for a model of another kind, DataError for lines without a verdict.
        """
        if not isinstance(model, FeatureVerifier):
            raise ConfigError(
                f"the trainer 'features' trains feature verifiers, not {type(model).__name__}: start from --agent "
                "features, or choose a trainer for your model"
            )
        weights = fine_tune(model.weights, list(training_examples(dataset)), pull=self.pull)
        weights.save(folder)
        return FeatureVerifier(weights)

    def load(self, folder: Path) -> Model:
        """Load the verifier in a folder."""
        return FeatureVerifier.load(folder)


def training_examples(dataset: Dataset) -> Iterator[TrainingExample]:
    """Yield the features and labels of the lines of a data set."""
    for number, row in enumerate(dataset.rows(), 1):
        try:
            brief = parse_brief(row["messages"])
            output = read_output(row["messages"][-1]["content"])
        except (KeyError, IndexError, TypeError, StopIteration):
            raise DataError(f"{dataset.path} line {number}: needs messages with a prompt and a verdict") from None
        if output is None or output.label is None:
            raise DataError(f"{dataset.path} line {number}: the last message holds no verdict with a label")
        negative = output.label == NOT_ATTRIBUTABLE
        # The verdict of a claim whose error is not known names "fabrication"; the line itself holds None.
        error_type = row.get("error_type", output.error_type) if negative else None
        yield TrainingExample(extract_features(brief.claim, brief.source).values, negative, error_type)
