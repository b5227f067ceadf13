"""What counts as a right episode, from its record: the grader's label, the verdict, a fact of the report, or the reward.

| text | right when |
| --- | --- |
| `auto` | the report says so: `label` is "good", else `correct` is true, else the verdict is the gold one |
| `label` | the grader's label is "good" |
| `verdict` | the submitted verdict is the gold one |
| `reward>=0.5` | the total is at least that; `>`, `<=`, `<` and `=` as well |
| `NAME` | the metric of that name is true |
| `NAME>=0.5`, `NAME=text` | the metric or component of that name compares so |

An episode that does not say what is asked for, or that was not scored, is neither right nor wrong.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factgym.core.errors import ConfigError

Episode = Mapping[str, Any]
Test = Callable[[Mapping[str, Any]], bool | None]
"""From a scored reward report to right, wrong, or None where the report does not say."""

GOOD = "good"

_RULE = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*(?:(>=|<=|==|=|>|<)\s*(.*?)\s*)?")
_ORDERS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with the text that it was made from."""

    name: str
    test: Test

    def __call__(self, episode: Episode) -> bool | None:
        """Right or wrong; None for an episode that was not scored or does not say."""
        reward = episode.get("reward")
        if episode.get("error") is not None or not isinstance(reward, Mapping):
            return None
        if reward.get("status") != "scored" or _number(reward.get("total")) is None:
            return None
        return self.test(reward)


def find_rule(text: str = "auto") -> Rule:
    """The rule that a text stands for. Raises ConfigError for a text that is none."""
    if text in _NAMED:
        return Rule(text, _NAMED[text])
    match = _RULE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r:.80} is no rule of what is right: give auto, label, verdict, reward>=0.5, NAME or NAME>=VALUE"
        )
    name, sign, value = match.groups()
    if sign is None:
        if name == "reward":
            raise ConfigError("the reward alone is not right or wrong: say from where on, such as reward>=0.5")
        return Rule(text, lambda reward: _flag(_metrics(reward).get(name)))
    if sign in _ORDERS:
        return Rule(text, _ordered(name, _ORDERS[sign], _limit(text, value)))
    return Rule(text, _equal(name, value))


def _limit(text: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ConfigError(f"{text!r:.80} compares with {value!r:.40}, which is no number")
    return found


def _ordered(name: str, holds: Callable[[float, float], bool], limit: float) -> Test:
    def test(reward: Mapping[str, Any]) -> bool | None:
        value = _number(_fact(reward, name))
        return None if value is None else holds(value, limit)

    return test


def _equal(name: str, wanted: str) -> Test:
    def test(reward: Mapping[str, Any]) -> bool | None:
        value = _fact(reward, name)
        if value is None:
            return None
        if (number := _number(value)) is not None:
            try:
                return number == float(wanted)
            except ValueError:
                return False
        return (str(value).lower() if isinstance(value, bool) else str(value)) == wanted

    return test


def _fact(reward: Mapping[str, Any], name: str) -> Any:
    if name == "reward":
        return reward.get("total")
    metrics = _metrics(reward)
    return metrics[name] if name in metrics else _members(reward.get("components")).get(name)


def _by_label(reward: Mapping[str, Any]) -> bool | None:
    label = _metrics(reward).get("label")
    return label == GOOD if isinstance(label, str) else None


def _by_verdict(reward: Mapping[str, Any]) -> bool | None:
    metrics = _metrics(reward)
    gold = metrics.get("gold_verdict")
    # An episode that ended without a verdict is wrong; an environment without verdicts does not say.
    return metrics.get("verdict") == gold if isinstance(gold, str) and "verdict" in metrics else None


def _auto(reward: Mapping[str, Any]) -> bool | None:
    for test in (_by_label, lambda one: _flag(_metrics(one).get("correct")), _by_verdict):
        found = test(reward)
        if found is not None:
            return found
    return None


_NAMED: Mapping[str, Test] = MappingProxyType({"auto": _auto, "label": _by_label, "verdict": _by_verdict})


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _metrics(reward: Mapping[str, Any]) -> Mapping[str, Any]:
    return _members(reward.get("metrics"))


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
