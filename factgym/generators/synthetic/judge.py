"""Labels from slots alone: what a claim's status is, given the facts of the document, with no word of either read.

This is a check on the generator, independent of the operators that made the claims and of all wording. Terms are
looked up in the document's definitions first, which is the composition that multi-hop examples ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from factgym.datasets.claims import Status
from factgym.generators.synthetic.facts import Concept, Fact, Term

_STRENGTH = {"may": 0, "should": 1, "must": 2}
_VALUES = ("quantity", "anchor", "frequency", "authority", "result", "date")


def judge(claim: Fact, document: Sequence[Fact]) -> Status:
    """The status of `claim` against the facts of `document`.

    contradicted: the document's own rule for the claim's party gives another value, polarity, condition or sole
    reason, or expressly leaves the party out. overclaim: the values agree, but the claim holds of more parties or
    cases, or with more force. unsupported: no rule on the matter, none for the party, or a detail not given.
    """
    same = [fact for fact in document if fact.about == claim.about and fact.kind not in ("define", "waive")]
    rules = [rule_in_force(fact, document) for fact in same]
    if not rules:
        return "unsupported"
    own = [rule for rule in rules if _covers(rule, claim.party)]
    if own:
        return _compare(claim, own[0])
    if any(_id(rule.excluded) == _id(claim.party) for rule in rules if rule.excluded):
        return "contradicted"
    if _is_everyone(claim.party):
        status = _compare(replace(claim, party=rules[0].party), rules[0])
        return "overclaim" if status == "supported" else status
    return "unsupported"


def resolve(fact: Fact, definitions: dict[Term, Fact]) -> Fact:
    """`fact` with each defined term replaced by what its definition says."""
    found: dict[str, Any] = {}
    for slot, term in fact.terms():
        if term in definitions:
            found[slot] = getattr(definitions[term], slot)
    return replace(fact, **found) if found else fact


def rule_in_force(rule: Fact, document: Sequence[Fact]) -> Fact:
    """`rule` with its terms looked up, and with an exception that stands elsewhere in the document."""
    definitions = {fact.term: fact for fact in document if fact.kind == "define" and fact.term}
    waived = next((fact.exception for fact in document if fact.kind == "waive" and fact.about == rule.about), None)
    return _limited(resolve(rule, definitions), waived)


def _limited(rule: Fact, waived: Concept | None) -> Fact:
    """The rule with an exception that is stated elsewhere."""
    return replace(rule, exception=waived) if waived is not None else rule


def _id(value: Any) -> object:
    return value.id if isinstance(value, Concept) else value


def _is_everyone(party: object) -> bool:
    return isinstance(party, Concept) and party.id.endswith(".everyone")


def _covers(rule: Fact, party: object) -> bool:
    return rule.party is None or _is_everyone(rule.party) or _id(rule.party) == _id(party)


def _compare(claim: Fact, rule: Fact) -> Status:
    if claim.holds != rule.holds or _opposed(claim, rule):
        return "contradicted"
    missing = False
    for slot in _VALUES:
        stated, true = getattr(claim, slot), getattr(rule, slot)
        if stated is not None and _id(stated) != _id(true):
            if true is not None:
                return "contradicted"
            missing = True
    limits, missing_limit = _limits(claim, rule)
    if limits is None:
        return "contradicted"
    if limits or _STRENGTH.get(claim.modality, 0) > _STRENGTH.get(rule.modality, 0):
        return "overclaim"
    return "unsupported" if missing or missing_limit else "supported"


def _opposed(claim: Fact, rule: Fact) -> bool:
    if claim.modality == rule.modality:
        return False
    return "must_not" in (claim.modality, rule.modality) or claim.modality == "need_not"


def _limits(claim: Fact, rule: Fact) -> tuple[bool | None, bool]:
    """(whether the claim leaves out a limit, or None if it contradicts one; whether it adds what is not stated)."""
    broader = missing = False
    for slot in ("condition", "exception", "reason", "channel"):
        stated, true = getattr(claim, slot), getattr(rule, slot)
        if _id(stated) == _id(true):
            continue
        if stated is None:
            broader = broader or slot in ("condition", "exception")
        elif true is None or (slot == "reason" and not rule.sole):
            missing = True
        else:
            return None, missing
    return broader, missing
