"""Scope and force: "some" to "all", "usually" to "always", "may" to "must", "a" to "the only".

Documents' sentences give an *overclaim* ("scope", "modality"), claims a "scope_inflation". Widening a restricted or
negated part would narrow the statement instead, so such parts are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from factgym.generators.perturbations.grammar import Cues, contains_words, in_main_clause, rewriting_rules, word_set
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.generators.perturbations.polarity import NEGATIVE
from factgym.text.sentences import capitalise
from factgym.text.words import words_in

_CUES = Cues("scope")

_TIME_NOUNS = words_in("cases circumstances situations instances times steps years days")
_NOT_AN_ACT = word_set("no_act")


def _edit(start: int, end: int, replacement: str) -> Edit:
    if start == 0:
        replacement = capitalise(replacement)
    return Edit(start, end, replacement, replacement.strip(" ,"))


def _universal_edits(sentence: str) -> Iterator[Edit]:
    """Yield the edits that widen a rule to all cases, where nothing before them in the sentence narrows or denies it."""
    opening = _CUES.opening.match(sentence)
    if opening and not _CUES.possibly.search(sentence):
        yield _edit(0, opening.end(), "In all cases, ")
    for match in _CUES.cases.finditer(sentence):
        if not _CUES.narrowing.search(sentence[: match.start()]):
            preposition = "in" if match[0].startswith("in") else "under"
            yield _edit(*match.span(), f"{preposition} all {match['noun']}")
    for match in _CUES.part.finditer(sentence):
        if _is_unrestricted(sentence[: match.start()]):
            yield _edit(*match.span(), "all of ")
    for match in _CUES.quantifier.finditer(sentence):
        before = sentence[: match.start()]
        vague = match["word"] in ("many", "several") and before and not before.endswith(("in ", "for "))
        if match["noun"] not in _TIME_NOUNS and not vague and _is_unrestricted(before):
            yield _edit(*match.span(), f"all {match['noun']}")


def _is_unrestricted(before: str) -> bool:
    return not _CUES.narrowing.search(before) and not _CUES.bad_before.search(before.rstrip())


def _constant_edits(sentence: str) -> Iterator[Edit]:
    """Yield the edits that turn an adverb of frequency into "always", where an ordinary word follows."""
    for match in _CUES.adverb.finditer(sentence):
        before, after = sentence[: match.start()].rstrip(), sentence[match.end() :]
        if (
            before.endswith(",")
            or not before
            or not re.match(r" [a-z]", after)
            or _CUES.adverb_bad_before.search(before)
        ):
            continue
        if before.count("(") > before.count(")") or after.startswith(" referred"):
            continue
        if not _CUES.after_generally.match(after) and not _CUES.narrowing.search(before):
            yield _edit(*match.span(), "always")


def _obligation_edits(sentence: str) -> Iterator[Edit]:
    """ "we may suspend" to "we will suspend", "Distributor may sell" to "Distributor must sell"."""
    if sentence.count(" may ") > 1 or _CUES.hedged.search(sentence):
        return
    for match in _CUES.may.finditer(sentence):
        subject, act, also = match["subject"], match["next"], match["also"] or ""
        if not _CUES.opens_a_clause.search(sentence[: match.start("subject")]) or act.endswith("ly"):
            continue
        if not in_main_clause(sentence[: match.end("subject")]):
            continue
        span = match.end("subject") + 1, match.end("next")
        if act == "be":
            if _CUES.possible.match((match["then"] or "").strip()):
                yield _edit(*span, f"will {also}be")
        elif act in _NOT_AN_ACT or _CUES.optional.search(sentence):
            continue
        elif subject.lower() == "we":
            yield _edit(*span, f"will {also}{act}")
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
SCOPE = Operator("scope", ("overclaim",), widen_rule, _CUES.scope_site, _WEAKER)
MODALITY = Operator("modality", ("overclaim",), strengthen_rule, re.compile(r"\bmay [a-z]"), _WEAKER)

_INFLATION = "scope_inflation"
_NOT_UNIQUE = word_set("not_unique")
_UNIQUE = ("the only", "the first", "the most famous", "the best-known")


def widen_claim(statement: Statement) -> Edit | NoEdit:
    """Replace a word that limits a claim by one that does not."""
    text = statement.text
    rules = () if NEGATIVE.search(text) else rewriting_rules("widening")
    edits = [
        Edit(*match.span(), capitalise(new) if match.start() == 0 else new, variant="qualifier", error_type=_INFLATION)
        for match, new in [(pattern.search(text), new) for pattern, new in rules]
        if match and not contains_words(statement.source, new.split()[-1])
    ]
    return statement.rng.choice(edits) if edits else NoEdit("no_site", "no word that limits the claim")


def single_out(statement: Statement) -> Edit | NoEdit:
    """Presuppose uniqueness: "a member" as "the only member"."""
    for match in _CUES.kind_of_thing.finditer(statement.text):
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
