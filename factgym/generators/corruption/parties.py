"""Applying a rule to the wrong party: an actor of the same document in another's place. *Contradicted*.

Which actors a document keeps apart is read off it: capitalised names and roles that do things ("Distributor shall",
"NETGEAR agrees") and that meet in one sentence outside a definition (so that "Automattic Inc. (the "Company")" is
never taken for two), and for lower-case prose a short list of roles grouped so that synonyms never replace each other.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import combinations

from factgym.generators.corruption.base import Context, Corruption, Operator, has_words, in_main_clause, swap

_NAME = r"[A-Z][A-Za-z’'&]*[A-Za-z](?: (?:[A-Z][A-Za-z&]*[A-Za-z]|of)){0,2}"
_ACTS = re.compile(
    rf"(?<![\w(“\"])(?:[Tt]he )?(?P<name>{_NAME})(?:,[^,.;]{{1,60}},)? (?:agrees?|acknowledges?|represents?|warrants?|undertakes?"
    r"|covenants?|reserves|grants|(?:shall|will|must|may)(?: not)?(?: (?:also|promptly|immediately|then|at its))?"
    r" (?:pay|provide|notify|deliver|maintain|use|indemnify|reimburse|terminate|disclose|assign|sell|purchase|supply|keep"
    r"|perform|submit|furnish|make|give|appoint|permit|retain|ensure|obtain|promote|return|report|bear|have the right"
    r"|cooperate|assist|receive|own|determine|elect|take|comply|defend|request|refund|remove|suspend|share|remit|invoice))\b"
)
_ONE_WAY = re.compile(
    r"[^.;]{0,70}?(?:(?:shall|will|must|may|agrees to|undertakes to)(?: (?:also|promptly|immediately|then))?"
    r" (?:pay|provide|notify|deliver|indemnify|reimburse|sell|purchase|supply|perform|submit|furnish|appoint|promote|refund|remit"
    r"|invoice|suspend|remove|have the right)|reserves the right|grants)\b"
)
_NOT_ACTORS = re.compile(
    r"(?:This|That|Such|Each|Either|Neither|Both|All|Any|No|If|In|We|You|It|They|Every|Other|These|One|Notwithstanding|Our|Your"
    r"|Section|Article|Agreement|Exhibit|Schedule|Services?|Products?|Software|Information|Term|Parties|Party|Confidential"
    r"|Notice|Terms?|Policy|Law|Laws|Site|Website|Content|Network|Software|Term|Fees?|Upon|When|The|An?|Date|Section|Subject"
    r"|Subsidiar\w+|Affiliates?|Plan|Program|Territory|Trademarks?|Marks?|System|License|Work|Intellectual|Property)\b"
)
_DEFINES = re.compile(
    r"[“”\"]|\bhereinafter\b|\bmeans?\b|\bknown as\b|\bd/b/a\b|\bi\.e\.|\bacting as\b|\bas (?:the )?\""
)
_SHARED = re.compile(
    r"\b(?:each|either|both|parties|mutual\w*|respective\w*|jointly|neither|party|together|including|such as|agree(?:d)? (?:upon|by)"
    r"|between|and its)\b",
    re.I,
)
_MAX_PARTIES = 6
_MIN_ACTS = 3
_ROLES = (
    ("supervisor", "manager", "team lead", "immediate supervisor"),
    ("timekeeper",),
    ("human resources specialist", "HR specialist", "HR representative", "human resources"),
    ("contracting officer",),
    ("recruiter", "hiring manager"),
    ("account owner", "site owner", "account owners"),
    ("support team", "customer support"),
    ("legal team", "legal department"),
    ("security team",),
    ("travel team",),
    ("travel agency",),
    ("facilitator",),
    ("administrator", "administrators"),
    ("licensee",),
    ("licensor",),
    ("franchisee",),
    ("franchisor",),
    ("supplier", "vendor"),
    ("distributor",),
    ("landlord",),
    ("tenant",),
    ("borrower",),
    ("lender",),
    ("sponsor",),
    ("advertiser",),
    ("copyright holder", "copyright owner"),
    ("alleged infringer",),
    ("seller",),
    ("buyer", "purchaser"),
    ("onboarding team", "talent team"),
)
_GROUP = {role: number for number, roles in enumerate(_ROLES) for role in roles}
_ROLE = re.compile(
    rf"\b(?P<article>[Tt]he|[Yy]our|[Oo]ur) (?P<role>{'|'.join(sorted(_GROUP, key=lambda role: (-len(role), role)))})\b(?= (?:must|will|shall|may|can|is|approves|determines|decides|should|has)\b)"
)
_CUE = re.compile(
    r"[A-Z]\w+ (?:\w+ ){0,3}?(?:shall|will|must|may|agrees|is|are)\b|\b(?:[Tt]he|[Yy]our|[Oo]ur) [a-zA-Z]+"
)
_YOU_DUTY = re.compile(r"(?P<subject>You|We) (?:are|alone are) (?P<what>(?:solely |fully )?responsible for)\b")


def find_parties(sentences: list[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of actors that a document keeps apart, most active first; at most six names are looked at."""
    acts = Counter(
        match["name"]
        for sentence in sentences
        for match in _ACTS.finditer(sentence)
        if not _NOT_ACTORS.match(match["name"])
    )
    names = [name for name, count in sorted(acts.items(), key=lambda item: (-item[1], item[0])) if count >= _MIN_ACTS]
    pairs = combinations(names[:_MAX_PARTIES], 2)
    return tuple(pair for pair in pairs if _apart(*pair, sentences))


def _apart(left: str, right: str, sentences: list[str]) -> bool:
    """Whether the two meet as different actors in at least two sentences that define neither."""
    if left in right or right in left:
        return False
    both = [one for one in sentences if has_words(one, left) and has_words(one, right) and not _DEFINES.search(one)]
    return len(both) >= 2


def _named(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Puts another named party in the subject's place."""
    for match in _ACTS.finditer(sentence):
        old = match["name"]
        others = [right if old == left else left for left, right in context.parties if old in (left, right)]
        same_act = " ".join(sentence[match.end("name") :].split()[:4])
        others = [name for name in others if not has_words(sentence, name)]
        others = [name for name in others if not has_words(context.document, f"{name} {same_act}")]
        before = sentence[: match.start("name")]
        if (
            not others
            or sentence.count(old) > 1
            or not _ONE_WAY.match(sentence, match.end("name"))
            or not in_main_clause(before)
        ):
            continue
        new = rng.choice(others)
        span = match.span("name")
        text = swap(sentence, span, new)
        return Corruption(text, "contradicted", new, "party", f"The document says this of {old}, not of {new}.")
    return None


def _role(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Puts another role of the same document in place of one named once."""
    found = list(_ROLE.finditer(sentence))
    if len(found) != 1 or has_words(sentence[found[0].end() :], found[0]["role"]):
        return None
    match = found[0]
    if not in_main_clause(sentence[: match.start()]):
        return None
    known = [role for role in _GROUP if _GROUP[role] != _GROUP[match["role"]] and f"the {role}" in context.document]
    known += [role for role in _GROUP if _GROUP[role] != _GROUP[match["role"]] and f"your {role}" in context.document]
    known = [role for role in dict.fromkeys(known) if role.endswith("s") == match["role"].endswith("s")]
    known = [role for role in known if not has_words(sentence, role)]
    if not known:
        return None
    new = rng.choice(known)
    text = swap(sentence, match.span("role"), new)
    reason = f"The document says this of {match['article'].lower()} {match['role']}, not of the {new}."
    return Corruption(text, "contradicted", new, "party", reason)


def _whose_duty(sentence: str) -> Corruption | None:
    match = _YOU_DUTY.match(sentence)
    if match is None or re.search(r"\b(?:we|us|not|own)\b", sentence[match.end() :]) or match["subject"] == "We":
        return None
    text = f"We are {match['what']}{sentence[match.end() :]}"
    return Corruption(text, "contradicted", "We are", "party", "The document puts this on you, not on us.")


def swap_party(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Names the wrong actor. Sentences about shared or mutual duties are left alone."""
    if _SHARED.search(sentence):
        return None
    return _named(sentence, rng, context) or _role(sentence, rng, context) or _whose_duty(sentence)


PARTY = Operator("party", "contradicted", _CUE, swap_party)
