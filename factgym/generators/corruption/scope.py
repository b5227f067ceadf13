"""Widening what a rule covers or how strongly it binds; the claim is an *overclaim*.

"scope": "some" to "all", "usually" to "always". "modality": "may" to "must" or to "will always".
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from factgym.generators.corruption.base import Context, Corruption, Operator, capitalise, in_main_clause, swap

_CUE = re.compile(
    r"\b(?:some|certain|many|most|several|usually|typically|normally|often|sometimes|occasionally|generally|in general|limited"
    r"|rare|frequently|partially|partly)\b",
    re.I,
)
_OPENING = re.compile(
    r"(?:Generally speaking|Sometimes|Usually|Typically|Normally|Generally|Occasionally|Often|In general"
    r"|In (?:some|most|many|certain|limited|rare|several) (?:cases|circumstances|situations|instances))(?:, | (?=(?:we|you|the|your|our|an?|all|it)\b))"
)
_CASES = re.compile(
    r"\b(?:in|under) (?:some|most|many|certain|limited|rare|several|exceptional) (?P<noun>cases|circumstances|situations|instances)\b"
)
_PART = re.compile(r"\b(?:some|many|most|several|certain|a few) of (?=the |your |our |their |its |these |those )")
_QUANTIFIER = re.compile(
    r"\b(?P<word>some|certain|many|most|several) (?P<noun>[a-z]{3,}s|information|data|personal|people)\b"
)
_ADVERB = re.compile(r"\b(?:usually|typically|normally|often|sometimes|occasionally|frequently|generally)\b")
_AFTER_GENERALLY = re.compile(
    r" (?:accepted|available|known|applicable|recogni[sz]ed|speaking|useful)\b|,| (?:the|a|an|not|never)\b"
)
_ADVERB_BAD_BEFORE = re.compile(
    r"\b(?:may|might|can|could|not|more|most|less|as|how|very|so|too|and|or|but|who|that|which|to|of|the|a|an)$"
)
_BAD_BEFORE = re.compile(
    r"\b(?:the|these|those|a|at|as|how|not|so|too|very|our|your|its|their|than|including|like|to|and|or|have|has|with|there (?:is|are|may be)|of)$",
    re.I,
)
_NARROWING = re.compile(
    r"\b(?:not|no|never|nor|without|neither|unless|if|when|except|whether|only|cannot|prohibit\w*|refuse\w*|who|that|which|where"
    r"|limit\w*|restrict\w*|depend\w*|\w+n['’]t|because|provided|limited|although|though|while|since)\b",
    re.I,
)
_MAY = re.compile(r"(?P<subject>[\w’'&.-]+(?:\))?) may (?P<also>also )?(?P<next>[a-z]+)\b(?P<then> [a-z]+)?")
_NOT_AN_ACT_WORDS = (
    "not be have only never include vary apply differ result change need want wish choose elect contain "
    "become or still seem come affect require cause arise appear exist mean take contact find reach decide "
    "prefer opt continue in at from by lead involve impact make no then comprise occur depend even see get "
    "receive contribute face and also help refer visit read say"
)
_NOT_AN_ACT = frozenset(_NOT_AN_ACT_WORDS.split())
_POSSIBLE = re.compile(
    r"(?:eligible|entitled|required|asked|subject|charged|available|suspended|terminated|removed|shared|used|disclosed)\b"
)
_OPTIONAL = re.compile(
    r"\b(?:at any time|option|optional|wish|want|would like|prefer|either|instead|up to|only|any reason|one or more|or)\b",
    re.I,
)
_OPENS_A_CLAUSE = re.compile(r"(?:^|, )(?:(?:[Tt]he|An?|Each) (?:[A-Z]\w+ )?|[A-Z]\w+ )?$")
_HEDGED = re.compile(
    r"\b(?:in (?:some|certain|rare|many|most|limited) \w+|sometimes|occasionally|from time to time|periodically|once)\b",
    re.I,
)
_POSSIBLY = re.compile(r"\b(?:may|might|can|could)\b")
_US = frozenset({"we"})


class _Edit(NamedTuple):
    start: int
    end: int
    new: str
    span: str


def _widened(sentence: str) -> Iterator[_Edit]:
    opening = _OPENING.match(sentence)
    if opening and not _POSSIBLY.search(sentence):
        yield _Edit(0, opening.end(), "In all cases, ", "In all cases")
    for match in _CASES.finditer(sentence):
        if not _NARROWING.search(sentence[: match.start()]):
            new = f"in all {match['noun']}" if match[0].startswith("in") else f"under all {match['noun']}"
            yield _Edit(*match.span(), new, new)
    for match in _PART.finditer(sentence):
        if _plain(sentence[: match.start()]):
            yield _Edit(*match.span(), "all of ", "all of")
    for match in _QUANTIFIER.finditer(sentence):
        rest = match["noun"] not in (
            "cases",
            "circumstances",
            "situations",
            "instances",
            "times",
            "steps",
            "years",
            "days",
        )
        vague = (
            match["word"] in ("many", "several")
            and match.start() > 0
            and not sentence[: match.start()].endswith(("in ", "for "))
        )
        if rest and not vague and _plain(sentence[: match.start()]):
            new = f"all {match['noun']}"
            yield _Edit(*match.span(), new, new)


def _plain(before: str) -> bool:
    return not _NARROWING.search(before) and not _BAD_BEFORE.search(before.rstrip())


def _always(sentence: str) -> Iterator[_Edit]:
    for match in _ADVERB.finditer(sentence):
        before, after = sentence[: match.start()].rstrip(), sentence[match.end() :]
        if before.endswith(",") or not before or not re.match(r" [a-z]", after) or _ADVERB_BAD_BEFORE.search(before):
            continue
        if before.count("(") > before.count(")") or after.startswith(" referred"):
            continue
        if not _AFTER_GENERALLY.match(after) and not _NARROWING.search(before):
            yield _Edit(*match.span(), "always", "always")


def _obliged(sentence: str) -> Iterator[_Edit]:
    """ "we may suspend" to "we will always suspend", "Distributor may sell" to "Distributor must sell"."""
    for match in _MAY.finditer(sentence):
        before = sentence[: match.start("subject")]
        if (
            not _OPENS_A_CLAUSE.search(before)
            or not in_main_clause(sentence[: match.end("subject")])
            or sentence.count(" may ") > 1
            or _HEDGED.search(sentence)
            or match["next"].endswith("ly")
        ):
            continue
        act, also = match["next"], match["also"] or ""
        if act == "be":
            if _POSSIBLE.match((match["then"] or "").strip()):
                yield _may(match, f"will always {also}be", f"will always {also}be")
            continue
        if act in _NOT_AN_ACT:
            continue
        if _OPTIONAL.search(sentence):
            continue
        if match["subject"].lower() in _US:
            yield _may(match, f"will always {also}{act}", f"will always {also}{act}")
        elif match["subject"] == "you" or match["subject"][0].isupper():
            yield _may(match, f"must {also}{act}", f"must {also}{act}")


def _may(match: re.Match[str], new: str, span: str) -> _Edit:
    start = match.end("subject") + 1
    return _Edit(start, match.end("next"), new, span)


def widen(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Turns a partial or usual matter into a universal or constant one."""
    edits = [*_widened(sentence), *_always(sentence)]
    return _apply("scope", rng.choice(edits), sentence) if edits else None


def oblige(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Turns what may be done into what must be, or always will be."""
    edits = list(_obliged(sentence))
    return _apply("modality", rng.choice(edits), sentence) if edits else None


def _apply(name: str, edit: _Edit, sentence: str) -> Corruption:
    old = sentence[edit.start : edit.end].strip().rstrip(",")
    text = swap(sentence, (edit.start, edit.end), edit.new)
    span = capitalise(edit.span) if edit.start == 0 else edit.span
    return Corruption(text, "overclaim", span, name, f"The document says {old!r}, which is weaker than {span!r}.")


SCOPE = Operator("scope", "overclaim", _CUE, widen)
MODALITY = Operator("modality", "overclaim", re.compile(r"\bmay [a-z]"), oblige)
