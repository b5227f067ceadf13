"""The constants of CorVer's reward that a user may want to change; the defaults are the paper's (section 4, B.1, B.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from factgym.core.errors import ConfigError, did_you_mean

Rule = Literal["first", "min", "relcheck"]
JudgeRule = Literal["reference", "boundary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorverRules:
    """How a completion is scored. Which components count, and with which weights, is a rubric's business.

    rule: how a sentence's triplets become one count. "first" takes the first valid triplet; "min" the lowest count of
    all valid ones; "relcheck" is "first", and a count of at least `high_count` is asked again with the relation's words
    added: where that finds nothing, the sentence earns `relation_reward`.
    exact_counts: whether counts are recorded in full. With False, for training, a counter that has `count_up_to` stops
    at `high_count` (for the relation's words at 1), and recorded counts are the smaller of the two, whatever the
    counter; every reward is the same, at a fraction of the time. "min" has to know which count is the lowest, and
    always counts in full.
    judge: which of the two judges the score's label (good, bad, na) follows.

    none_reward, low_reward, middle_reward, high_reward: what a sentence earns at a count of 0, below `low_count`, below
    `high_count`, and from there on. A sentence without a query earns 0.
    good_reward, bad_reward, na_reward: what the judge gives. format_reward: what the format gives, or takes.
    min_alignment: the share of tokens inside the blocks that must fall into a sentence; below it a completion has no
    sentence term. min_think_chars: of the think block, for the format.

    For the strict components only (see `factgym.rewards.corver.rubrics`): unchecked_reward is what a sentence earns
    that cannot be checked, is off the topic or longer than max_sentence_chars, min_think_words the
    different words that a think block needs. For the boundary judge: max_answer_words that an answer may have,
    max_listed candidates that it may list, and min_gold_share, the share of a gold answer's content words that a part
    of it must have more than. Raises ConfigError for a value out of range.
    """

    rule: Rule = "first"
    exact_counts: bool = True
    judge: JudgeRule = "reference"
    low_count: int = 5
    high_count: int = 20
    none_reward: float = -0.3
    low_reward: float = -0.1
    middle_reward: float = 0.0
    high_reward: float = 0.1
    relation_reward: float = -0.05
    good_reward: float = 2.0
    bad_reward: float = -1.0
    na_reward: float = -1.0
    format_reward: float = 1.0
    min_alignment: float = 0.5
    min_think_chars: int = 30
    unchecked_reward: float = -0.3
    max_sentence_chars: int = 400
    min_think_words: int = 5
    max_answer_words: int = 60
    max_listed: int = 3
    min_gold_share: float = 0.5

    def __post_init__(self) -> None:
        _check_choice("rule", self.rule, get_args(Rule))
        _check_choice("judge", self.judge, get_args(JudgeRule))
        for one in fields(self):
            _check_number(one.name, str(one.type), getattr(self, one.name))
        if not 1 <= self.low_count <= self.high_count:
            raise ConfigError("CorverRules: low_count must be at least 1 and high_count at least low_count")
        if not self.none_reward <= self.low_reward <= self.middle_reward <= self.high_reward:
            raise ConfigError("CorverRules: the rewards must not fall from none_reward to high_reward")
        if not self.none_reward <= self.unchecked_reward <= self.high_reward:
            raise ConfigError("CorverRules.unchecked_reward must lie between none_reward and high_reward")
        if not self.none_reward <= self.relation_reward <= self.high_reward:
            raise ConfigError("CorverRules.relation_reward must lie between none_reward and high_reward")
        for name in ("min_alignment", "min_gold_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"CorverRules.{name} must lie between 0 and 1, not {getattr(self, name)!r:.80}")

    def reward_of(self, count: int | None) -> float:
        """What a sentence earns for its count (equation 2); None, which is no query, earns 0."""
        if count is None:
            return 0.0
        if count >= self.high_count:
            return self.high_reward
        if count >= self.low_count:
            return self.middle_reward
        return self.low_reward if count > 0 else self.none_reward


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ConfigError(f"CorverRules.{name} must be {' or '.join(map(repr, choices))}, not {value!r:.80}.{hint}")


def _check_number(name: str, kind: str, value: object) -> None:
    if kind == "bool" and type(value) is not bool:
        raise ConfigError(f"CorverRules.{name} must be True or False, not {value!r:.80}")
    if kind == "int" and (type(value) is not int or value < 0):
        raise ConfigError(f"CorverRules.{name} must be a whole number of at least 0, not {value!r:.80}")
    if kind == "float" and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)
    ):
        raise ConfigError(f"CorverRules.{name} must be a finite number, not {value!r:.80}")


DEFAULT_RULES = CorverRules()
