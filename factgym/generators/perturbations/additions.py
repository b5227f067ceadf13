"""Additions on which the source is silent: invented causes, foreign statements, presuppositions, borrowed facts.

Documents' sentences get an invented cause or are replaced by a sentence of another document (*unsupported*). Claims
get a presupposition, mentioned in passing as if it were known ("After the 1987 inquiry, …"); a detail that no source
of the kind would settle (a private feeling, an unpublished diary); or a clause that another claim of the pool states
of something else of the subject's kind ("fabrication"). Each has many wordings, so that the wording alone does not
give the label away, and each is kept away from sources that speak of the same thing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from factgym.generators.base import word_table
from factgym.generators.perturbations.grammar import (
    FUNCTION_WORDS,
    NO_ANCHOR,
    Cues,
    append_phrase,
    comma_of,
    lowercase_opening,
    prepend_phrase,
)
from factgym.generators.perturbations.names import find_names, kind_alone
from factgym.generators.perturbations.operator import NEGATED, Edit, NoEdit, Operator, Statement
from factgym.text.sentences import strip_full_stop

_CUES = Cues("additions")

_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
_MAX_SENTENCE_CHARS = 190
_MAX_JOINED_WORDS = 20
_REASON_FIRST = 0.3
_casefold = lru_cache(maxsize=4)(str.casefold)
"""Of whole documents, of which the same one comes again for each of its sentences."""


def invent_cause(statement: Statement) -> Edit | NoEdit:
    """Give a true statement a reason whose ground the document does not mention at all.

    For a folder whose other documents give no reason that `adjuncts.add_purpose` could take over.
    """
    sentence, rng = statement.text, statement.rng
    if statement.clauses("purpose"):
        return NoEdit("no_site", "other documents have reasons to take over")
    if len(sentence) > _MAX_SENTENCE_CHARS or _CUES.gives_a_reason.search(sentence) or "," in sentence[-30:]:
        return NoEdit()
    causes = word_table("english")["causes"]
    document = _casefold(statement.source)
    grounds = [template for keyword, template in causes["grounds"].items() if keyword not in document]
    if not grounds:
        return NoEdit("no_donor")
    ground = _ALTERNATIVES.sub(lambda match: rng.choice(match[1].split("|")), rng.choice(grounds))
    cause = f"{rng.choice(causes['joins'])}{ground}"
    reason = "The document states the rule but not this reason for it."
    return Edit(len(strip_full_stop(sentence)), len(sentence), f"{cause}.", cause.lstrip(" ,"), reason=reason)


def can_join(sentence: str) -> bool:
    """Whether a sentence can be the reason in `join_statements`: short, without a clause of its own, no permission."""
    return _is_plain(sentence) and not _CUES.permission.search(sentence)


def _is_plain(sentence: str) -> bool:
    return len(sentence.split()) <= _MAX_JOINED_WORDS and _CUES.joinable.match(sentence) is not None


def join_statements(statement: Statement) -> Edit | NoEdit:
    """Give a true statement another true one for its reason."""
    text, partner, source = statement.text, statement.partner(), statement.source
    if not partner or not _is_plain(text):
        return NoEdit("no_donor")
    reason, main = (_inside(sentence, source) for sentence in (partner, text))
    if reason is None or main is None:
        return NoEdit("refused", "it is uncertain how the first word is written inside a sentence")
    word, reason, main = statement.rng.choice(("because", "since")), strip_full_stop(reason), strip_full_stop(main)
    if statement.rng.random() < _REASON_FIRST:
        span = f"{word.capitalize()} {reason}"
        joined = f"{span}, {main}."
    else:
        span = f"{word} {reason}"
        joined = f"{strip_full_stop(text)} {span}."
    return Edit(
        0, len(text), joined, span, reason="The document states both, but not the one as the reason of the other."
    )


def _inside(sentence: str, source: str) -> str | None:
    """Return a sentence as it is written inside another one; None where that is uncertain."""
    word = sentence.split(" ", 1)[0]
    if word.lower() not in FUNCTION_WORDS and re.search(rf"[a-z,] {re.escape(word)}\b", source):
        return sentence
    return lowercase_opening(sentence, [name.span for name in find_names(sentence, source)], source)


def _replace_by_donor(statement: Statement) -> Edit | NoEdit:
    """Replace the statement by a statement of another document, on which the caller made sure that this document is silent."""
    if not statement.donors:
        return NoEdit("no_donor")
    text = statement.rng.choice(statement.donors)
    return Edit(0, len(statement.text), text, strip_full_stop(text))


JOINED = Operator("joined", ("unsupported",), join_statements, _CUES.joinable)
CAUSE = Operator("cause", ("unsupported",), invent_cause, _CUES.cause_site)
ADDITION = Operator("addition", ("unsupported",), _replace_by_donor, reason="Nothing in the document says this.")
IRRELEVANT = Operator(
    "irrelevant",
    ("unsupported",),
    _replace_by_donor,
    reason="The cited document is about another matter and does not say this.",
)

_MAX_FACTS = 40


def presuppose(statement: Statement) -> Edit | NoEdit:
    """Take something for granted that the source does not have."""
    table = word_table("english")["phrases"]
    phrases = [(opening, True) for opening in table["openings"]] + [(tail, False) for tail in table["tails"]]
    if _is_event(statement):
        phrases += [(opening, True) for opening in table["past_openings"]]
        name = statement.subject
        if name and statement.pool.kind_of(name.text, statement.text, name.span) == "person":
            phrases += [(opening, True) for opening in table["person_openings"] * 2]
    return _add_phrase(statement, phrases, "presupposition")


def add_detail(statement: Statement) -> Edit | NoEdit:
    """Add a detail that nothing in the source can settle."""
    table = word_table("english")["phrases"]
    phrases = [(detail, False) for detail in table["details"]]
    phrases += [(opening, True) for opening in table["detail_openings"]]
    if _is_event(statement) and not NEGATED.search(statement.text):
        phrases += [(detail, False) for detail in table["past_details"]]
    return _add_phrase(statement, phrases, "unsettled_detail")


def _is_event(statement: Statement) -> bool:
    """Whether the claim states something that happened."""
    verb = statement.verb
    if verb is None or re.search(r"\bborn\b", statement.text):
        return False
    passive = verb.word in ("was", "were") and re.match(r" \w+ed\b", statement.text[verb.end :])
    return verb.tense == "past" or bool(passive)


def _add_phrase(statement: Statement, phrases: list[tuple[str, bool]], variant: str) -> Edit | NoEdit:
    """Add the first phrase, in a drawn order, that fits and on which the source is silent.

    phrases: each with whether it opens the statement instead of closing it.
    """
    text = statement.text
    if re.match(r"I\b|My\b|I['’]", text):
        return NoEdit("no_site", "the claim is about its speaker")
    if _CUES.has_adjunct.search(text):
        return NoEdit("no_site", "the claim has such a phrase already")
    statement.rng.shuffle(phrases)
    for phrase, opens in phrases:
        if not statement.is_silent_on(phrase, 1.0) or (opens and _CUES.has_opening.match(text)):
            continue
        if opens:
            changed = prepend_phrase(text, phrase, statement.name_spans, statement.source)
        else:
            changed = append_phrase(text, phrase)
        if changed is not None:
            return Edit(0, len(text), changed, phrase, variant=variant, error_type="fabrication")
    return NoEdit("no_site", "no phrase fits the claim")


def borrow_fact(statement: Statement) -> Edit | NoEdit:
    """Add a clause on the claim's subject that another claim of the pool states of something else of its kind."""
    name = statement.subject
    if name is None or statement.verb is None or statement.verb.tense == "base":
        return NoEdit("no_site", "the claim does not begin with a name and its verb")
    kind = statement.pool.kind_of(name.text, statement.text, name.span)
    fitting = [fact for fact in statement.pool.facts if fact.suits(name.text, kind)]
    for fact in statement.rng.sample(fitting, min(_MAX_FACTS, len(fitting))):
        capitalised = re.findall(r"[A-Z]\w+", fact.phrase)
        anchors = [word for word in capitalised if not kind_alone(word) and word not in NO_ANCHOR]
        if not anchors or any(statement.mentions(word) for word in anchors) or not statement.is_silent_on(fact.phrase):
            continue
        pronoun, comma = "who" if fact.kind == "person" else "which", comma_of(statement.text)
        clause = f"{comma} {pronoun} {fact.phrase}{comma}"
        return Edit(name.end, name.end, clause, fact.phrase, variant="borrowed_fact", error_type="fabrication")
    return NoEdit("no_donor", "no fact of the pool is about another of its kind")


PRESUPPOSITION = Operator("presupposition", ("fabrication",), presuppose)
DETAIL = Operator("unsettled_detail", ("fabrication",), add_detail)
BORROWED_FACT = Operator("borrowed_fact", ("fabrication",), borrow_fact)
