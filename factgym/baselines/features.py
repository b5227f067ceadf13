"""How a statement compares with a rule, in numbers from 0 to 1, and which of its words each of them points at.

The features of an early textual-entailment system (alignment, polarity, modality, quantifiers, numbers, dropped and
added adjuncts; MacCartney et al., 2006), computed from word lists and patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from factgym.baselines.parts import Part, core, parts
from factgym.baselines.polarity import existential, force_of, hedged, opposed, superseded, wide
from factgym.baselines.reading import Line, Reading, Statement
from factgym.baselines.rules import Rule
from factgym.baselines.values import Value, compare
from factgym.baselines.words import Word, keys, words

Range = tuple[int, int]
_KNOWN = 0.5
_BRIDGE = 1
_SOLE = re.compile(r"\b(?:sole|only) (?:reason|purpose|aim)\b", re.I)


@dataclass(slots=True)
class Features:
    """values: feature -> number. spans: feature -> the range of the statement that it is about."""

    values: dict[str, float] = field(default_factory=dict)
    spans: dict[str, Range] = field(default_factory=dict)

    def set(self, name: str, value: float, span: Range | None = None) -> None:
        """Set a feature; the first span given for it holds."""
        self.values[name] = value
        if span is not None and span[0] < span[1]:
            self.spans.setdefault(name, span)


def compute(asked: Statement, rule: Rule, reading: Reading) -> Features:
    """All features of a statement beside its nearest rule; what is not mentioned is 0."""
    found = Features({"bias": 1.0})
    _alignment(found, asked, rule, reading)
    _values(found, asked, rule)
    _force(found, asked, rule)
    _breadth(found, asked, rule)
    _adjuncts(found, asked, rule, reading)
    return found


def _alignment(found: Features, asked: Statement, rule: Rule, reading: Reading) -> None:
    weigh = reading.weights
    inner = core(asked.text)
    content = [word for word in words(inner) if word.content and not word.number]
    distinct = dict.fromkeys(word.key for word in content)
    total = weigh.sum(distinct) or 1.0
    there = rule.keys
    found.set("covered", weigh.sum(key for key in distinct if key in there) / total)
    gap = heaviest_gap(content, there, weigh.of)
    found.set("gap", weigh.sum(dict.fromkeys(word.key for word in gap if word.key not in there)) / total, _range(gap))
    found.set("gap_opens", float(bool(gap) and gap[0] is content[0]))
    others = frozenset().union(*(line.keys for line in reading.lines if line not in rule.lines))
    new = [key for key in distinct if key not in there]
    found.set("elsewhere", weigh.sum(key for key in new if key in others) / total)
    found.set("unheard", weigh.sum(key for key in new if key not in others) / total)
    found.set("gap_elsewhere", float(bool(gap) and all(word.key in others for word in gap if word.key not in there)))
    found.set("gap_long", float(sum(word.key not in there for word in gap) >= 3))
    said = keys(core(rule.main.text))
    back = weigh.sum(key for key in said if key in asked.keys) / (weigh.sum(said) or 1.0)
    found.set("back", back)
    found.set("foreign", max(0.0, 1.0 - found.values["covered"] - back))
    found.set("same_words", float(found.values["covered"] > 0.9 and back > 0.8))


def heaviest_gap(content: Sequence[Word], there: frozenset[str], weight: object) -> list[Word]:
    """The run of words, bridging single known ones, that holds the most weight not in `there`."""
    of = weight
    best: list[Word] = []
    best_weight = 0.0
    run: list[Word] = []
    known = 0
    for word in content:
        if word.key not in there:
            run.append(word)
            known = 0
        elif run:
            known += 1
            run.append(word)
        heavy = sum(of(one.key) for one in run if one.key not in there)  # type: ignore[operator]
        if heavy > best_weight:
            best, best_weight = list(run), heavy
        if known > _BRIDGE:
            run, known = [], 0
    return best


def _range(some: Sequence[Word]) -> Range | None:
    return (some[0].start, some[-1].end) if some else None


def _values(found: Features, asked: Statement, rule: Rule) -> None:
    current = [line for line in rule.lines if not superseded(line.text)]
    result = compare(asked, current or rule.lines)
    former = compare(asked, [line for line in rule.lines if superseded(line.text)]).agreed if current else ()
    stale = [value for value in (*result.conflicts, *result.missing) if value in former]
    for name, some in (("conflict", result.conflicts), ("missing_value", result.missing), ("stale", stale)):
        found.set(name, float(bool(some)), _value_range(some))
    found.set("conflict_copy", float(bool(result.conflicts)) * float(found.values["covered"] > 0.8))
    found.set("agreed", float(bool(result.agreed) and not result.conflicts and not result.missing))


def _value_range(some: Sequence[Value]) -> Range | None:
    return (some[0].start, some[0].end) if some else None


def _force(found: Features, asked: Statement, rule: Rule) -> None:
    claimed, place = force_of(core(asked.text))
    written, _ = force_of(core(rule.main.text))
    fault = opposed(claimed, written)
    span = place if place[1] else None
    contrary = fault == "contradicted"
    permission = {"may", "must_not"} == {claimed, written}
    duty = "need_not" in (claimed, written)
    copied = found.values["same_words"]
    found.set("reversed", float(contrary and not permission and not duty), span)
    found.set("reversed_permission", float(contrary and permission), span)
    found.set("reversed_duty", float(contrary and duty), span)
    found.set("reversed_copy", float(contrary) * copied, span)
    found.set("stronger", float(fault == "overclaim"), span)
    found.set("stronger_copy", float(fault == "overclaim") * copied, span)
    found.set("same_force", float(claimed == written))


def _breadth(found: Features, asked: Statement, rule: Rule) -> None:
    text = asked.text
    written = {line.text[start:end].lower() for line in rule.lines for start, end in wide(line.text)}
    new = [span for span in wide(text) if text[span[0] : span[1]].lower() not in written]
    found.set("wider", float(bool(new)), new[0] if new else None)
    found.set("wider_opens", float(bool(new) and new[0][0] < 12))
    found.set("hedged_rule", float(hedged(rule.main.text) and not hedged(text)))
    found.set("wider_copy", float(bool(new)) * found.values["same_words"], new[0] if new else None)
    found.set("existential", float(existential(text)))
    found.set("wide_over_hedge", float(bool(new) and hedged(rule.main.text)), new[0] if new else None)


def _adjuncts(found: Features, asked: Statement, rule: Rule, reading: Reading) -> None:
    mine = parts(asked.text)
    near = (rule.main, *rule.followers)
    for kind in ("limit", "time", "reason"):
        added = [part for part in mine if part.kind == kind and not _known(asked.text, part, rule.keys, reading)]
        left = any(_left(line, kind, asked, reading) for line in near)
        span = (added[0].start, added[0].end) if added else None
        found.set(f"{kind}_added", float(bool(added) and not left), span)
        found.set(f"{kind}_swapped", float(bool(added) and left), span)
        found.set(f"{kind}_kept", float(any(part.kind == kind for part in mine) and not added))
        if kind != "limit":
            found.set(f"{kind}_dropped", float(left and not added))
    dropped = not any(part.kind == "limit" for part in mine)
    in_main = dropped and _left(rule.main, "limit", asked, reading)
    follows = dropped and any(_left(line, "limit", asked, reading) for line in rule.followers)
    elsewhere = dropped and any(_left(line, "limit", asked, reading) for line in rule.linked)
    copied = found.values["covered"] > 0.9
    for name, value in (("limit_dropped", in_main), ("limit_follows", follows), ("limit_elsewhere", elsewhere)):
        found.set(name, float(value))
        found.set(f"{name}_copy", float(value and copied))
    sole = any(_SOLE.search(line.text) for line in near)
    found.set("sole_reason", float(sole and bool(found.values["reason_swapped"])))


def _left(line: Line, kind: str, asked: Statement, reading: Reading) -> bool:
    """Whether a line has a clause of this kind that the statement leaves out."""
    there = frozenset(asked.keys)
    return any(part.kind == kind and not _known(line.text, part, there, reading) for part in parts(line.text))


def _known(text: str, part: Part, there: Iterable[str], reading: Reading) -> bool:
    """Whether at least half of what a clause says is in `there`; a clause without content words is."""
    inside = keys(text[part.inside : part.end])
    total = reading.weights.sum(inside)
    return not total or reading.weights.sum(key for key in inside if key in there) >= _KNOWN * total
