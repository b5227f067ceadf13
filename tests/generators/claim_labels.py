"""Labels of synthetic claims from slots alone: an oracle apart from the operators that make them and from all wording.

Terms are looked up in the document's definitions first: the composition that multi-hop examples ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from factgym.datasets.claims import Status
from factgym.generators.synthetic.facts import Concept, Fact, is_everyone, rule_in_force

_STRENGTH: Mapping[str, int] = {"may": 0, "should": 1, "must": 2}
_VALUES = ("quantity", "anchor", "frequency", "authority", "result", "date")
_LIMITS = ("condition", "exception", "reason", "channel")


def judge(claim: Fact, document: Sequence[Fact]) -> Status:
    """Return the status of `claim` against the facts of `document`.

    contradicted: the document's own rule for the claim's party gives another value, polarity, condition or sole
    reason, or expressly leaves the party out. overclaim: the values agree, but the claim holds of more parties or
    cases, or with more force. unsupported: no rule on the matter, none for the party, or a detail not given.
    """
    facts = [fact for fact in document if fact.about == claim.about and fact.kind not in ("define", "waive")]
    rules = [rule_in_force(fact, document) for fact in facts]
    if not rules:
        return "unsupported"
    # The document is a closed world: the first rule that covers the claim's party decides.
    for rule in rules:
        if rule.party is None or is_everyone(rule.party) or _id(rule.party) == _id(claim.party):
            return _compare(claim, rule)
    if any(_id(rule.excluded) == _id(claim.party) for rule in rules if rule.excluded):
        return "contradicted"
    if is_everyone(claim.party):
        status = _compare(replace(claim, party=rules[0].party), rules[0])
        return "overclaim" if status == "supported" else status
    return "unsupported"


def _id(value: Any) -> object:
    return value.id if isinstance(value, Concept) else value


def _compare(claim: Fact, rule: Fact) -> Status:
    """Compare a claim with the rule for its party, slot by slot; the first contradiction decides."""
    modalities = (claim.modality, rule.modality)
    opposed = claim.modality != rule.modality and ("must_not" in modalities or claim.modality == "need_not")
    if claim.holds != rule.holds or opposed:
        return "contradicted"
    broader = _STRENGTH.get(claim.modality, 0) > _STRENGTH.get(rule.modality, 0)
    missing = False
    for slot in (*_VALUES, *_LIMITS):
        stated, true = getattr(claim, slot), getattr(rule, slot)
        if _id(stated) == _id(true):
            continue
        if stated is None:
            broader = broader or slot in ("condition", "exception")
        elif true is None or (slot == "reason" and not rule.sole):
            missing = True
        else:
            return "contradicted"
    if broader:
        return "overclaim"
    return "unsupported" if missing else "supported"
