"""Strategy spaces: the operators over a policy's output of which an exploit search composes its strategies.

A family declares a space beside its exploiters and names it in `Env.strategies`. A strategy chooses, for each slot of
the space, one operator or a short sequence of them; the empty strategy is the honest baseline. Operators see only what a
policy sees: messages and tools, never gold. Shortcut classifiers (`Shortcuts`) are fitted on training tasks and stand in
for what a policy would have memorised in training.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.policy import Policy

T = TypeVar("T")

MAX_TEXT_CHARS = 500
"""Limit on the text of an operator that takes one."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One option of a slot.

    apply: called by the family's `start`; its signature is the family's own. honest: an honest policy may play so, which
    is no attack in itself. judges: it weighs the evidence to answer the question that the label asks. takes_text: it is
    given a text of at most `MAX_TEXT_CHARS` characters (a template of the family's placeholders). neutral: it changes how
    the same work is written and no part of it, so that equal reward is right, and more would be a hole.
    """

    name: str
    summary: str
    apply: Any = None
    honest: bool = False
    judges: bool = False
    takes_text: bool = False
    neutral: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """A decision of a policy. operators: the first is the honest baseline's. repeats: how many may be composed in order."""

    name: str
    summary: str
    operators: tuple[Operator, ...]
    repeats: int = 1

    @property
    def default(self) -> tuple[Choice, ...]:
        """The honest baseline's choice."""
        return (Choice(self.operators[0]),)

    def operator(self, name: str) -> Operator:
        """Return an operator by name. Raises ConfigError for a name that the slot does not have."""
        for operator in self.operators:
            if operator.name == name:
                return operator
        raise ConfigError(
            f"slot {self.name!r} has no operator {str(name)[:60]!r}."
            f"{did_you_mean(str(name), [operator.name for operator in self.operators])}"
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """An operator of a strategy, with its text where it takes one."""

    operator: Operator
    text: str = ""

    def to_json(self) -> str | dict[str, str]:
        """Return the choice as JSON data: the operator's name, or `{name: text}`."""
        return {self.operator.name: self.text} if self.operator.takes_text else self.operator.name


def fill_template(text: str, **values: str) -> str:
    """Return an operator's text with each `{name}` of the values replaced; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@dataclass(frozen=True, slots=True)
class Strategy:
    """Choices by slot, in the order in which they are applied; every slot of the space has at least one."""

    choices: Mapping[str, tuple[Choice, ...]]

    def first(self, slot: str) -> Choice:
        """Return the first choice of a slot."""
        return self.choices[slot][0]

    @property
    def judges(self) -> bool:
        """Whether any operator weighs the evidence to answer the label question."""
        return any(choice.operator.judges for choices in self.choices.values() for choice in choices)

    @property
    def honest(self) -> bool:
        """Whether every operator is one that an honest policy may use."""
        return all(choice.operator.honest for choices in self.choices.values() for choice in choices)

    @property
    def neutral(self) -> bool:
        """Whether every operator is honest or neutral, that is, all of the honest work is done."""
        return all(choice.operator.honest or choice.operator.neutral for row in self.choices.values() for choice in row)

    @property
    def key(self) -> str:
        """A text that two strategies share if and only if they make the same choices."""
        return json.dumps(self.to_json(), sort_keys=True)

    def replace(self, slot: str, choices: tuple[Choice, ...]) -> Strategy:
        """Return the strategy with other choices for a slot."""
        return Strategy(MappingProxyType({**self.choices, slot: choices}))

    def to_json(self) -> dict[str, Any]:
        """Return the strategy as JSON data, a single choice without a list."""
        texts = {slot: [choice.to_json() for choice in choices] for slot, choices in self.choices.items()}
        return {slot: values if len(values) > 1 else values[0] for slot, values in texts.items()}


@dataclass(frozen=True, slots=True)
class Example:
    """A training task for shortcut classifiers.

    text: the claim, question or answer to classify, alone. label: the gold label. key: the text under which a memorising
    policy would store the label (a question, a hypothesis); `text` by default. evidence: what a policy could have in
    sight beside it, for features of overlap.
    """

    text: str
    label: str
    key: str = ""
    evidence: str = ""


class Shortcuts(Protocol):
    """Classifiers fitted on training tasks. kinds: "words", "names", "lengths", "overlap", "memorised", "prior"."""

    def predict(self, kind: str, text: str, key: str = "", evidence: str = "") -> str:
        """Return the label that the classifier of a kind gives to a text."""

    def fitted(self, fit: Callable[[Sequence[Example]], T]) -> T:
        """Return what a function makes of the training tasks, for an honest baseline that is fitted; made once."""


StartStrategy = Callable[[Strategy, Any, int, Shortcuts], Policy]
"""(strategy, environment, seed of the episode, fitted classifiers) -> a fresh policy for the episode."""


@dataclass(frozen=True)
class StrategySpace:
    """The slots of a family, and how a strategy is played.

    start: see `StartStrategy`. example: a task of the environment's task set -> what shortcut classifiers learn from it,
    None where the family has no label. note: placeholders and limits that an author of strategies has to know. handwritten:
    compositions of several slots that a search tries first, as JSON data.
    """

    slots: tuple[Slot, ...]
    start: StartStrategy
    example: Callable[[Any, Any], Example | None] = field(default=lambda env, task: None)
    note: str = ""
    handwritten: Sequence[Mapping[str, Any]] = ()

    def slot(self, name: str) -> Slot:
        """Return a slot by name. Raises ConfigError for a name that the space does not have."""
        for slot in self.slots:
            if slot.name == name:
                return slot
        raise ConfigError(f"no slot {str(name)[:60]!r}.{did_you_mean(str(name), [slot.name for slot in self.slots])}")

    def strategy(self, value: Mapping[str, Any] = MappingProxyType({})) -> Strategy:
        """Return the strategy of JSON data (`Strategy.to_json`); slots that it leaves out are the honest baseline's.

        Raises ConfigError for names that do not exist, too many choices, or a text where none is taken.
        """
        if not isinstance(value, Mapping):
            raise ConfigError("a strategy is an object: slot -> operator, or a list of operators")
        for name in value:
            self.slot(name)
        return Strategy(MappingProxyType({slot.name: _read_choices(slot, value.get(slot.name)) for slot in self.slots}))

    def draw(self, rng: random.Random, changes: int = 3) -> Strategy:
        """Return a random strategy: the honest baseline with 1 to `changes` slots drawn anew. Texts are never drawn."""
        strategy = self.strategy()
        for _ in range(rng.randint(1, changes)):
            strategy = self.mutate(strategy, rng)
        return strategy

    def mutate(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """Return the strategy with one slot drawn anew."""
        slot = rng.choice(self.slots)
        options = [operator for operator in slot.operators if not operator.takes_text]
        drawn = rng.sample(options, rng.randint(1, min(slot.repeats, len(options))))
        return strategy.replace(slot.name, tuple(map(Choice, drawn)))

    def changes(self, strategy: Strategy) -> tuple[str, ...]:
        """Return the slots in which a strategy differs from the honest baseline."""
        return tuple(slot.name for slot in self.slots if strategy.choices[slot.name] != slot.default)

    def honest_part(self, strategy: Strategy) -> Strategy:
        """Return the strategy with the honest baseline's choice in each slot that has an operator of an attack."""
        for slot in self.slots:
            if not all(choice.operator.honest for choice in strategy.choices[slot.name]):
                strategy = strategy.replace(slot.name, slot.default)
        return strategy


def _read_choices(slot: Slot, value: Any) -> tuple[Choice, ...]:
    """Read a slot's operators, each a name or {name: text}. Raises ConfigError for others and for too many."""
    if value is None:
        return slot.default
    values: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    if not 1 <= len(values) <= slot.repeats:
        raise ConfigError(f"slot {slot.name!r} takes 1 to {slot.repeats} operators, not {len(values)}")
    choices = []
    for item in values:
        name, text = next(iter(item.items())) if isinstance(item, Mapping) and len(item) == 1 else (item, "")
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigError(f"slot {slot.name!r}: an operator is its name, or {{name: text}}")
        operator = slot.operator(name)
        if text and not operator.takes_text:
            raise ConfigError(f"slot {slot.name!r}: the operator {name!r} takes no text")
        choices.append(Choice(operator, text[:MAX_TEXT_CHARS]))
    return tuple(choices)
