"""Scope and force: "some" to "all", "usually" to "always", "may" to "must", "a" to "the only".

Documents' sentences give an *overclaim* ("scope", "modality"), claims a "scope_inflation". Widening a restricted or
negated part would narrow the statement instead, so such parts are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from factgym.generators.perturbations.grammar import contains_words, in_main_clause, rewriting_rules, word_set
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.generators.perturbations.polarity import NEGATIVE
from factgym.generators.synthetic.grammar import capitalise, listed

# Restrictions to part of the cases, of the things, and of the time.
_OPENING = re.compile(
    r"(?:Generally speaking|Sometimes|Usually|Typically|Normally|Generally|Occasionally|Often|In general|In (?:some"
    r"|most|many|certain|limited|rare|several) (?:cases|circumstances|situations|instances))(?:, | (?=(?:we|you|the"
    r"|your|our|an?|all|it)\b))"
)
_CASES = re.compile(
    r"\b(?:in|under) (?:some|most|many|certain|limited|rare|several|exceptional) (?P<noun>cases|circumstances"
    r"|situations|instances)\b"
)
_PART = re.compile(r"\b(?:some|many|most|several|certain|a few) of (?=the |your |our |their |its |these |those )")
_QUANTIFIER = re.compile(
    r"\b(?P<word>some|certain|many|most|several) (?P<noun>[a-z]{3,}s|information|data|personal|people)\b"
)
_ADVERB = re.compile(r"\b(?:usually|typically|normally|often|sometimes|occasionally|frequently|generally)\b")
_AFTER_GENERALLY = re.compile(
    r" (?:accepted|available|known|applicable|recogni[sz]ed|speaking|useful)\b|,| (?:the|a|an|not|never)\b"
)
# Contexts in which a wider word would be ungrammatical or would narrow the statement.
_ADVERB_BAD_BEFORE = re.compile(
    r"\b(?:may|might|can|could|not|more|most|less|as|how|very|so|too|and|or|but|who|that|which|to|of|the|a|an)$"
)
_BAD_BEFORE = re.compile(
    r"\b(?:the|these|those|a|at|as|how|not|so|too|very|our|your|its|their|than|including|like|to|and|or|have|has|with"
    r"|there (?:is|are|may be)|of)$",
    re.I,
)
_NARROWING = re.compile(
    r"\b(?:not|no|never|nor|without|neither|unless|if|when|except|whether|only|cannot|prohibit\w*|refuse\w*|who|that"
    r"|which|where|limit\w*|restrict\w*|depend\w*|\w+n['’]t|because|provided|limited|although|though|while|since)\b",
    re.I,
)
# "may" of permission: not of possibility ("may vary"), and not where the sentence offers a choice.
_MAY = re.compile(r"(?P<subject>[\w’'&.-]+(?:\))?) may (?P<also>also )?(?P<next>[a-z]+)\b(?P<then> [a-z]+)?")
_TIME_NOUNS = frozenset(listed("cases circumstances situations instances times steps years days"))
_NOT_AN_ACT = word_set("no_act")
_POSSIBLE = re.compile(
    r"(?:eligible|entitled|required|asked|subject|charged|available|suspended|terminated|removed|shared|used"
    r"|disclosed)\b"
)
_OPTIONAL = re.compile(
    r"\b(?:at any time|option|optional|wish|want|would like|prefer|either|instead|up to|only|any reason|one or more"
    r"|or)\b",
    re.I,
)
_OPENS_A_CLAUSE = re.compile(r"(?:^|, )(?:(?:[Tt]he|An?|Each) (?:[A-Z]\w+ )?|[A-Z]\w+ )?$")
_HEDGED = re.compile(
    r"\b(?:in (?:some|certain|rare|many|most|limited) \w+|sometimes|occasionally|from time to time|periodically"
    r"|once)\b",
    re.I,
)
_POSSIBLY = re.compile(r"\b(?:may|might|can|could)\b")


def _edit(start: int, end: int, replacement: str) -> Edit:
    if start == 0:
        replacement = capitalise(replacement)
    return Edit(start, end, replacement, replacement.strip(" ,"))


def _universal_edits(sentence: str) -> Iterator[Edit]:
    """Edits that make a partial matter universal."""
    opening = _OPENING.match(sentence)
    if opening and not _POSSIBLY.search(sentence):
        yield _edit(0, opening.end(), "In all cases, ")
    for match in _CASES.finditer(sentence):
        if not _NARROWING.search(sentence[: match.start()]):
            preposition = "in" if match[0].startswith("in") else "under"
            yield _edit(*match.span(), f"{preposition} all {match['noun']}")
    for match in _PART.finditer(sentence):
        if _is_unrestricted(sentence[: match.start()]):
            yield _edit(*match.span(), "all of ")
    for match in _QUANTIFIER.finditer(sentence):
        before = sentence[: match.start()]
        vague = match["word"] in ("many", "several") and before and not before.endswith(("in ", "for "))
        if match["noun"] not in _TIME_NOUNS and not vague and _is_unrestricted(before):
            yield _edit(*match.span(), f"all {match['noun']}")


def _is_unrestricted(before: str) -> bool:
    return not _NARROWING.search(before) and not _BAD_BEFORE.search(before.rstrip())


def _constant_edits(sentence: str) -> Iterator[Edit]:
    """Edits that make a usual matter constant."""
    for match in _ADVERB.finditer(sentence):
        before, after = sentence[: match.start()].rstrip(), sentence[match.end() :]
        if before.endswith(",") or not before or not re.match(r" [a-z]", after) or _ADVERB_BAD_BEFORE.search(before):
            continue
        if before.count("(") > before.count(")") or after.startswith(" referred"):
            continue
        if not _AFTER_GENERALLY.match(after) and not _NARROWING.search(before):
            yield _edit(*match.span(), "always")


def _obligation_edits(sentence: str) -> Iterator[Edit]:
    """ "we may suspend" to "we will always suspend", "Distributor may sell" to "Distributor must sell"."""
    if sentence.count(" may ") > 1 or _HEDGED.search(sentence):
        return
    for match in _MAY.finditer(sentence):
        subject, act, also = match["subject"], match["next"], match["also"] or ""
        if not _OPENS_A_CLAUSE.search(sentence[: match.start("subject")]) or act.endswith("ly"):
            continue
        if not in_main_clause(sentence[: match.end("subject")]):
            continue
        span = match.end("subject") + 1, match.end("next")
        if act == "be":
            if _POSSIBLE.match((match["then"] or "").strip()):
                yield _edit(*span, f"will always {also}be")
        elif act in _NOT_AN_ACT or _OPTIONAL.search(sentence):
            continue
        elif subject.lower() == "we":
            yield _edit(*span, f"will always {also}{act}")
        elif subject == "you" or subject[0].isupper():
            yield _edit(*span, f"must {also}{act}")


def _choose(edits: list[Edit], statement: Statement) -> Edit | NoEdit:
    return statement.rng.choice(edits) if edits else NoEdit()


def widen_rule(statement: Statement) -> Edit | NoEdit:
    """Turn a partial or usual matter of a document's sentence into a universal or constant one."""
    return _choose([*_universal_edits(statement.text), *_constant_edits(statement.text)], statement)


def strengthen_rule(statement: Statement) -> Edit | NoEdit:
    """Turn a permission into an obligation or into something that always happens."""
    return _choose(list(_obligation_edits(statement.text)), statement)


_WEAKER = "The document says {old!r}, which is weaker than {new!r}."
SCOPE = Operator(
    "scope",
    ("overclaim",),
    widen_rule,
    re.compile(
        r"\b(?:some|certain|many|most|several|usually|typically|normally|often|sometimes|occasionally|generally"
        r"|in general|limited|rare|frequently|partially|partly)\b",
        re.I,
    ),
    _WEAKER,
)
MODALITY = Operator("modality", ("overclaim",), strengthen_rule, re.compile(r"\bmay [a-z]"), _WEAKER)

_INFLATION = "scope_inflation"
# "is a …" and the nouns of which there is never only one.
_KIND_OF_THING = re.compile(r"\b(?P<be>is|was) (?P<article>an?) (?P<next>[A-Za-z][\w'-]*)(?= )")
_NOT_UNIQUE = word_set("not_unique")
_UNIQUE = ("the only", "the first", "the most famous", "the best-known")


def widen_claim(statement: Statement) -> Edit | NoEdit:
    """Replace a word that limits a claim by one that does not."""
    text = statement.text
    rules = () if NEGATIVE.search(text) else rewriting_rules("widening")
    matches = [(pattern.search(text), new) for pattern, new in rules]
    edits = [
        Edit(*match.span(), capitalise(new) if match.start() == 0 else new, variant="qualifier", error_type=_INFLATION)
        for match, new in matches
        if match and not contains_words(statement.source, new.split()[-1])
    ]
    return statement.rng.choice(edits) if edits else NoEdit("no_site", "no word that limits the claim")


def single_out(statement: Statement) -> Edit | NoEdit:
    """Presuppose uniqueness: "a member" as "the only member"."""
    for match in _KIND_OF_THING.finditer(statement.text):
        before = statement.text[: match.start()]
        if match["next"].lower() in _NOT_UNIQUE or before.count('"') % 2 or re.search(r"\b[Tt]here $", before):
            continue
        if statement.verb is None or statement.verb.start != match.start():
            continue
        unmentioned = [
            phrase
            for phrase in _UNIQUE
            if not any(statement.mentions(word) for word in phrase[4:].split("-")[0].split())
        ]
        if unmentioned:
            new = f"{match['be']} {statement.rng.choice(unmentioned)} {match['next']}"
            return Edit(*match.span(), new, variant="uniqueness", error_type=_INFLATION)
    return NoEdit("no_site", "the claim does not say that something is one of a kind")


WIDENING = Operator("widening", (_INFLATION,), widen_claim)
UNIQUENESS = Operator("uniqueness", (_INFLATION,), single_out)
