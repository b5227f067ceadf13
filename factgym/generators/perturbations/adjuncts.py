"""Purposes, limits and list items of documents' sentences: left out, or taken over from another document.

The same edit has another status elsewhere, so that its surface does not tell: a duty without its deadline or its purpose
still follows from the document (faithful), a permission without its limit does not (*overclaim*), and a purpose, a
deadline or a condition of another document is one on which this one is silent (*unsupported*).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache

from factgym.generators.perturbations.clauses import find_condition, find_exception, is_full_sentence
from factgym.generators.perturbations.grammar import FUNCTION_WORDS, Cues, in_main_clause, rewriting_rules, word_set
from factgym.generators.perturbations.modals import rephrase_modal
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.generators.perturbations.rewording import move_clause
from factgym.text.sentences import capitalise, strip_full_stop
from factgym.text.words import terms

_CUES = Cues("adjuncts")

CLAUSE_KINDS = ("purpose", "limit", "condition")
"""Kinds of clauses that a sentence of another document can take over."""
_MAX_CHARS = 170
_FREQUENT = word_set("frequent_matters")


def find_clause(kind: str, sentence: str) -> tuple[str, str] | None:
    """Return a clause that another document's sentence can take over as it is, and the first word of this sentence."""
    patterns = {"purpose": _CUES.purpose_donor, "limit": _CUES.limit_donor, "condition": _CUES.condition_donor}
    match = patterns[kind].search(sentence)
    if match is None:
        return None
    first = match.groupdict().get("first")
    clause = first[0].lower() + first[1:] if first else match["last"]
    main = sentence[match.end() :] if first else sentence[: match.start()]
    unfit = (
        _CUES.pointing.search(clause) or _CUES.ends_open.search(clause) or re.search(r"[()\"“”/]|[A-Z0-9]{2}", clause)
    )
    if kind == "purpose" and re.search(r"\d|\b(?:two|three|four|five|seven|eight|ten|hours?|days?)\b", clause):
        return None
    if kind == "condition" and (_CUES.wish.search(clause) or len(clause.split()) < 5):
        return None
    if unfit and kind != "limit":
        return None
    subject = _CUES.subject.search(main)
    return clause, subject[0].lower() if subject else ""


# Faithful: parts whose loss leaves a weaker statement.


def drop_purpose(sentence: str, rng: random.Random) -> str | None:
    """Leave out the purpose or the cause of a positive statement."""
    return _drop_end(_CUES.purpose, sentence)


def drop_limit(sentence: str, rng: random.Random) -> str | None:
    """Leave out the deadline or manner of a duty."""
    return _drop_end(_CUES.limit, sentence) if _CUES.obliged.search(sentence) else None


def _drop_end(pattern: re.Pattern[str], sentence: str) -> str | None:
    body = strip_full_stop(sentence)
    match = pattern.search(body)
    if match is None:
        return None
    main = body[: match.start()]
    unfit = _CUES.not_positive.search(main) or _CUES.allowed.search(main) or _CUES.ends_open.search(main)
    return None if unfit or not is_full_sentence(main) else f"{main}."


def drop_item(sentence: str, rng: random.Random) -> str | None:
    """Leave out an item in the middle of a list of a positive statement."""
    body = strip_full_stop(sentence)
    if _CUES.not_positive.search(body) or _CUES.not_a_list.search(body) or ";" in body:
        return None
    matches = [
        match
        for match in _CUES.list_item.finditer(body)
        if not _CUES.verbal_item.match(match["item"]) and (match["next"].endswith("and ") or _CUES.allowed.search(body))
    ]
    # The first item of a list may end a longer phrase; an item with a comma before it and behind it is whole.
    # Only in longer lists: the first item may end a longer phrase, and two items need no comma.
    matches = [match for match in matches if match["next"].count(",") > 1]
    if not matches:
        return None
    match = rng.choice(matches)
    return f"{body[: match.start()]}{match['next']}{body[match.end() :]}."


def reword_relation(sentence: str, rng: random.Random) -> str | None:
    """Say a relation or a predicate in other words, where a contradiction would replace it by its contrary."""
    return _replace(sentence, "equivalents", rng)


def _replace(sentence: str, table: str, rng: random.Random) -> str | None:
    edit = _rule_edit(sentence, table, rng)
    return edit.apply(sentence) if edit else None


def _rule_edit(sentence: str, table: str, rng: random.Random) -> Edit | None:
    """Return a rewriting by a rule of the table that applies to the sentence, drawn at random; None without any."""
    matches = [(match, new) for pattern, new in rewriting_rules(table) if (match := pattern.search(sentence))]
    if table != "equivalents":
        matches = [(match, new) for match, new in matches if in_main_clause(sentence[: match.start()])]
    if _CUES.negative.search(sentence):
        matches = [(match, new) for match, new in matches if _CUES.negative.search(match[0])]
    if not matches:
        return None
    match, new = rng.choice(matches)
    text = match.expand(rng.choice(new.split("|")))
    if not text:
        # Nothing but a capital letter remains of a part that opened the sentence.
        end = match.end() + (match.start() == 0)
        return Edit(match.start(), end, sentence[match.end() : end].upper())
    text = capitalise(text) if match.start() == 0 else text
    return Edit(*match.span(), text, text.strip())


PARAPHRASES: tuple[Callable[[str, random.Random], str | None], ...] = (
    *(rephrase_modal, reword_relation, drop_purpose, drop_limit, drop_item),
    lambda sentence, rng: move_clause(sentence),
)
"""Functions of a sentence that keep it true: they give another sentence, or None where they do not apply."""


# Contradictions and overclaims.


def state_contrary(statement: Statement) -> Edit | NoEdit:
    """Replace a relation or a predicate of a positive main clause by its contrary."""
    if _CUES.no_contrary.search(statement.text):
        return NoEdit()
    return _rule_edit(statement.text, "contraries", statement.rng) or NoEdit()


def drop_hedge(statement: Statement) -> Edit | NoEdit:
    """Leave out "usually", "some of", "try to", or turn a possibility into a certainty."""
    if _CUES.no_hedge.search(statement.text):
        return NoEdit()
    edit = _rule_edit(statement.text, "hedges", statement.rng)
    if edit is None:
        return NoEdit()
    old = statement.text[edit.start : edit.end].strip()
    # Without "usually", a possibility is still no certainty.
    if _CUES.possibly.search(edit.apply(statement.text)) and not _CUES.possibly.search(old):
        return NoEdit()
    text = strip_full_stop(edit.apply(statement.text))
    added = edit.replacement.strip()
    span = added if " " in added or len(added) > 3 else text
    reason = f"The document says {old!r}, which the claim leaves out or makes a certainty."
    return Edit(0, len(statement.text), f"{text}.", span, reason=reason)


def drop_permission_limit(statement: Statement) -> Edit | NoEdit:
    """Leave out the limit in time or manner of a permission or of an availability."""
    body = strip_full_stop(statement.text)
    match = _CUES.permission_limit.search(body)
    if match is None or len(match["clause"].split()) < 3 or find_exception(body) or _CUES.negative.search(body):
        return NoEdit()
    main = body[: match.start()]
    if not _CUES.allowed.search(main) or _CUES.obliged.search(main) or not is_full_sentence(main):
        return NoEdit()
    reason = f"The document states this with a limit, which the claim leaves out: {match['clause']!r}."
    return Edit(0, len(statement.text), f"{main}.", main, reason=reason)


# Unsupported: clauses of other documents.


@lru_cache(maxsize=8192)
def _terms(clause: str) -> frozenset[str]:
    return frozenset(term for term in terms(clause) if len(term) > 4 and term not in _FREQUENT)


def _borrow(statement: Statement, kind: str) -> str | None:
    """Return a clause that the documents state of another rule of the same actor, not of this rule.

    From elsewhere in this document, or from another one where this one is silent on it. It shares a word with the
    statement, the more the better: a clause on a remote matter would be odd.
    """
    subject = _CUES.subject.search(statement.text)
    actor = subject[0].lower() if subject else ""
    words = _terms(statement.text)
    ranked = []
    for clause, other, own in statement.clauses(kind):
        shared = len(words & _terms(clause))
        # A clause of this document that shares much with the statement may hold of it as well.
        if kind == "limit" or (actor and other == actor and 0 < shared <= 3 - 2 * own):
            ranked.append((-shared, statement.rng.random(), clause, own))
    for _, _, clause, own in sorted(ranked)[:6]:
        ending = set(strip_full_stop(statement.text).casefold().split()[-3:]) - FUNCTION_WORDS
        repeats = not ending.isdisjoint(clause.casefold().split())
        if not repeats and (own or not statement.mentions(clause)):
            return clause
    return None


def add_purpose(statement: Statement) -> Edit | NoEdit:
    """Give a statement without a reason the purpose or cause that another document gives for something else."""
    body = strip_full_stop(statement.text)
    open_ended = "," in body or " to " in body or _CUES.ends_open.search(body) or not is_full_sentence(body)
    unfit = _CUES.gives_a_reason.search(body) or _CUES.subordinate.search(body) or _CUES.negative.search(body)
    if len(body) > _MAX_CHARS or open_ended or unfit or _CUES.generic.search(body) or not _CUES.acts.match(body):
        return NoEdit()
    clause = _borrow(statement, "purpose")
    if clause is None:
        return NoEdit("no_donor")
    return Edit(len(body), len(statement.text), f" {clause}.", clause, reason="The document does not give this reason.")


def add_limit(statement: Statement) -> Edit | NoEdit:
    """Give a duty without a deadline the deadline or the manner of another document's duty."""
    body = strip_full_stop(statement.text)
    unfit: object = _CUES.timed.search(body) or "," in body or len(_CUES.obliged.findall(body)) != 1
    unfit = unfit or _CUES.subordinate.search(body) or _CUES.allowed.search(body) or not _CUES.punctual.search(body)
    if unfit or len(body) > _MAX_CHARS or not is_full_sentence(body):
        return NoEdit()
    clause = _borrow(statement, "limit")
    if clause is None:
        return NoEdit("no_donor")
    return Edit(len(body), len(statement.text), f" {clause}.", clause, reason="The document does not set this limit.")


def exchange_condition(statement: Statement) -> Edit | NoEdit:
    """Put the condition of another document's rule in the place of the statement's own."""
    body = strip_full_stop(statement.text)
    condition = find_condition(body)
    if condition is None or condition.word not in ("if", "when") or _CUES.negative.search(body):
        return NoEdit()
    if "," in condition.text or _CUES.ends_open.search(condition.main) or condition.main.endswith(" so"):
        return NoEdit()
    if _CUES.wish.search(condition.text) or _CUES.generic.search(condition.main) or " are " in condition.main[:12]:
        return NoEdit()
    clause = _borrow(statement, "condition")
    # A similar condition would make the rule wider or narrower instead of another one.
    if clause is None or _terms(clause) & _terms(condition.text):
        return NoEdit("no_donor")
    text = f"{capitalise(clause)}, {_lower(condition.main)}." if condition.leading else f"{condition.main} {clause}."
    span = capitalise(clause) if condition.leading else clause
    return Edit(0, len(statement.text), text, span, reason="The document states this under another condition.")


def _lower(main: str) -> str:
    return main[0].lower() + main[1:] if _CUES.lowerable.match(main) else main


CONTRARY = Operator("contrary", ("contradicted",), state_contrary)
HEDGE = Operator("hedge_dropped", ("overclaim",), drop_hedge)
LIMIT = Operator("limit_dropped", ("overclaim",), drop_permission_limit, _CUES.allowed)
PURPOSE_ADDED = Operator("purpose_added", ("unsupported",), add_purpose, _CUES.acts)
LIMIT_ADDED = Operator("limit_added", ("unsupported",), add_limit, _CUES.punctual)
CONDITION_EXCHANGED = Operator(
    "condition_exchanged", ("unsupported",), exchange_condition, re.compile(r"(?i)\b(?:if|when)\b")
)
