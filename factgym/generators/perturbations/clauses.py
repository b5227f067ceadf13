"""Sentences of documents: which of them can be claims of their own, and their conditions and exceptions.

A claim has to be checkable without its neighbours: a full declarative sentence, no list fragment that depends on its
introduction, no pronoun that points out of it, no citation, signature or table row. The rules are strict: a sentence
left out costs an example, a bad one costs a label.

Conditions and exceptions are read by narrow patterns, without a parser: a clause counts when the rest of the sentence
is plainly a full sentence of its own. Two operators leave such a clause out, so that the rest is an *overclaim*;
`rewording.move_clause` moves it to the other end of the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from factgym.corpora.markdown import LOST_TEXT
from factgym.generators.perturbations.grammar import BASE_OF_THIRD, Cues
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.text.sentences import capitalise, sentences, strip_full_stop

_CUES = Cues("clauses")

# Marks of list items and clause numbers, which are no part of a sentence.
_ITEM = re.compile(r"- |\d{1,3}[.)] |\(?[a-zA-Z]{1,4}[.)] |[•*·–] ")
# A run-in heading: "Log data: We collect …".
_RUN_IN = re.compile(r"[A-Z][^.:;!?]{1,60}[:.] (?=[A-Z])")
_POINTING_CHARS = 24
"""Only a pronoun this early can point out of the sentence; a later one mostly finds its noun inside."""
_MIN_WORDS, _MAX_WORDS = 7, 55
_MIN_CHARS, _MAX_CHARS = 40, 360
_LATE_POINTER = re.compile(r".* (?:it|them|that \w+)\.$")
"""A short sentence that ends in a pronoun or "that …": its noun is in another one ("In some cases, we may require it.")."""
_SHORT = 12
_STEM = 4
_WORD = re.compile(r"[\w’']+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A usable sentence, `text[start:end]` of its passage, without any list or clause number before it."""

    start: int
    end: int
    text: str


def find_sentences(text: str) -> Iterator[Sentence]:
    """The usable sentences of one passage, in order."""
    offset = 0
    introduced = True
    for line in text.split("\n"):
        item = _ITEM.match(line) is not None
        if not line.startswith("    "):
            yield from _sentences_of_line(line, offset, item=item, dependent=item and introduced)
        if not item:
            introduced = line.rstrip().endswith(":")
        offset += len(line) + 1


def _sentences_of_line(line: str, offset: int, *, item: bool, dependent: bool) -> Iterator[Sentence]:
    """dependent: the line is a list item that completes its introduction, so its first sentence does not count."""
    for number, (start, end) in enumerate(sentences(line)):
        first = number == 0
        mark = _ITEM.match(line, start) or _CUES.clause_number.match(line, start) if first else None
        start = mark.end() if mark else start
        run_in = _RUN_IN.match(line, start, end) if first and item else None
        if run_in:
            start = run_in.end()
        elif first and dependent and not _CUES.own_subject.match(line, start):
            continue
        while start < end and line[start] == " ":
            start += 1
        if is_usable(line[start:end]):
            yield Sentence(offset + start, offset + end, line[start:end])


def is_usable(sentence: str) -> bool:
    """Whether a sentence can be a claim: well formed, declarative and independent of its neighbours."""
    if not _is_well_formed(sentence):
        return False
    connective = _CUES.connective.match(sentence)
    body = sentence[connective.end() :] if connective else sentence
    dependent = (
        _CUES.dependent.match(body) or _CUES.imperative.match(body) or _CUES.pointing.search(body[:_POINTING_CHARS])
    )
    pointing = len(body.split()) <= _SHORT and _LATE_POINTER.match(body)
    return (
        not dependent
        and not pointing
        and not _lacks_antecedent(sentence)
        and not _CUES.outward.search(body)
        and not _CUES.defines.search(body)
        and bool(_CUES.finite_verb.search(body))
        and not _is_fragment(body)
    )


def _is_fragment(body: str) -> bool:
    """Whether all finite verbs are those of a relative or other subordinate clause, and no such clause opens the text."""
    if _CUES.opens_clause.match(body) or _CUES.full_verb.search(body):
        return False
    body = body.partition(", provided")[0]
    words = (match for match in _WORD.finditer(body) if match[0] in BASE_OF_THIRD or _CUES.finite.fullmatch(match[0]))
    return all(_CUES.opened_clause.search(body[: word.start()]) for word in words)


def _lacks_antecedent(sentence: str) -> bool:
    """Whether "these …", "those …" or "such …" has a noun that the sentence has not named before."""
    return any(
        re.search(rf"(?i)\b{match[1][:_STEM]}", sentence[: match.start()]) is None
        for match in _CUES.demonstrative.finditer(sentence)
    )


def _is_well_formed(sentence: str) -> bool:
    """Return whether a sentence of a document is whole, plain prose: what cannot be edited without looking odd is left out."""
    words = sentence.split()
    if not (_MIN_WORDS <= len(words) <= _MAX_WORDS and _MIN_CHARS <= len(sentence) <= _MAX_CHARS):
        return False
    if (
        not sentence.endswith(".")
        or not sentence[0].isupper()
        or LOST_TEXT in sentence
        or _CUES.not_prose.search(sentence)
    ):
        return False
    if _CUES.glued.match(sentence) or _CUES.slip.search(sentence):
        return False
    if _CUES.enumerated.search(sentence) or _CUES.personal.search(sentence):
        return False
    balanced = sentence.count("(") == sentence.count(")") and sentence.count("“") == sentence.count("”")
    shouted = sum(word.isupper() and len(word) > 3 for word in words) * 3 > len(words)
    return balanced and sentence.count('"') % 2 == 0 and not shouted and ";" not in sentence[-40:]


_TEMPORAL = frozenset({"when", "whenever", "once"})
_PREDICATE = re.compile(rf"{_CUES.finite.pattern}|\b\w{{2,}}(?:ed|es|s|en|ing|ible|able)\b|\b(?:you|we|they)\b")
_MIN_MAIN_WORDS = 5


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition or exception (`word` and `text`), and the `main` sentence that remains, without its full stop.

    leading: it precedes the main sentence. apart: a comma or semicolon separates the two.
    """

    word: str
    text: str
    main: str
    leading: bool
    apart: bool = True


def find_condition(body: str) -> Clause | None:
    """The only condition of a sentence without its full stop: if, unless, provided that, without consent …"""
    clauses = (_leading_clause(_CUES.leading, body), _consent_clause(body), _trailing_clause(_CUES.trailing, body))
    return next((clause for clause in clauses if clause and _restricts(clause)), None)


def find_exception(body: str) -> Clause | None:
    """The only exception of a sentence without its full stop: except …, other than …"""
    clause = _leading_clause(_CUES.except_leading, body) or _trailing_clause(_CUES.except_trailing, body)
    if clause is None or _CUES.boilerplate.search(clause.text) or ";" in clause.main:
        return None
    if clause.word == "other than":
        loose = "," in clause.text or clause.text.startswith("to ")
        return None if loose or not _CUES.except_needs.search(clause.main) else clause
    return clause


def _is_balanced(text: str) -> bool:
    pairs = text.count("(") == text.count(")") and text.count("[") == text.count("]")
    return pairs and text.count('"') % 2 == 0 and text.count("“") == text.count("”")


def is_full_sentence(main: str) -> bool:
    """Whether `main` reads as a sentence of its own."""
    return (
        len(main.split()) >= _MIN_MAIN_WORDS
        and _is_balanced(main)
        and _CUES.finite.search(main) is not None
        and not _CUES.open_ended.search(main)
        and "," not in main[-25:].partition(" ")[0]
    )


def _leading_clause(pattern: re.Pattern[str], body: str) -> Clause | None:
    """The clause before the first comma, where a sentence with a subject and an early finite verb follows."""
    match = pattern.match(body)
    if match is None:
        return None
    main, text = match["main"], match["clause"]
    early_verb = _CUES.finite.search(" ".join(main.split()[:9]))
    if not _CUES.subject.match(main) or not early_verb or not is_full_sentence(main):
        return None
    if not _PREDICATE.search(text) or not _is_balanced(text):
        return None
    main = capitalise(main)
    if _CUES.dangling.search(main) or _CUES.vague_subject.match(main):
        return None
    return Clause(match["word"].lower(), text, main, leading=True)


def _trailing_clause(pattern: re.Pattern[str], body: str) -> Clause | None:
    """The clause that runs to the end of the sentence, where exactly one word can open it."""
    # Overlapping matches: each search starts inside the clause of the previous match. A second clause word anywhere
    # leaves open where the clause begins, so the sentence is left alone.
    matches = []
    position = 0
    while (match := pattern.search(body, position)) is not None:
        matches.append(match)
        position = match.start("clause")
    if len(matches) != 1:
        return None
    match = matches[0]
    main, text = body[: match.start()].rstrip(" ,"), match["clause"]
    if match["lead"].endswith("("):
        text = text.removesuffix(")")
    if not _is_balanced(text):
        return None
    if (_CUES.lists.search(text) and "," in main) or not is_full_sentence(main) or _CUES.not_a_condition.search(main):
        return None
    if _CUES.carries_on.search(text) or main.startswith(("Except", "If", "Unless")):
        return None
    return Clause(match["word"].lower(), text, main, leading=False, apart=match["lead"][0] in ",;")


def _restricts(clause: Clause) -> bool:
    """Whether the main sentence says more without the clause, as it does not without "if you have questions"."""
    if _CUES.not_a_rule.search(clause.main) or "context" in clause.text:
        return False
    if clause.word == "subject to":
        return clause.apart and not _CUES.boilerplate.search(clause.text)
    if clause.word in _TEMPORAL:
        binding = (_CUES.deontic if clause.leading else _CUES.binding).search(clause.main)
        return binding is not None and not _CUES.when_else.match(clause.text)
    return not _CUES.mere_wish.search(clause.text) or clause.word in ("without", "unless", "with", "upon")


def _consent_clause(body: str) -> Clause | None:
    """`… without the prior written consent of X` after a prohibition; `… with consent` after a permission."""
    clause = _trailing_clause(_CUES.with_consent, body)
    if clause is None:
        return None
    forbids = re.search(r"\b(?:not|no|cannot|neither|never|nor|can['’]t|won['’]t)\b", clause.main, re.I) is not None
    permits = re.search(r"\b(?:may|can|will|shall|must)\b", clause.main) is not None and not forbids
    notice = re.search(r"\bnotice\b", clause.text, re.I) is not None
    fits = {"without": forbids and not notice, "with": permits and not notice, "upon": permits}
    return clause if fits[clause.word] else None


def _drop(clause: Clause | None, kind: str, statement: Statement) -> Edit | NoEdit:
    """Leave a clause out. The whole remaining statement is the unsupported span: nothing shorter in it is wrong."""
    if clause is None:
        return NoEdit()
    limit = f"{clause.word} {clause.text}"
    quote = limit if len(limit) <= 120 else f"{limit[:117]}…"
    reason = f"The document states this with {kind}, which the claim leaves out: {quote!r}."
    return Edit(0, len(statement.text), f"{clause.main}.", clause.main, reason=reason)


def drop_condition(statement: Statement) -> Edit | NoEdit:
    """Leave out "if …", "unless …", "provided that …", "without consent" and the like."""
    return _drop(find_condition(strip_full_stop(statement.text)), "a condition", statement)


def drop_exception(statement: Statement) -> Edit | NoEdit:
    """Leave out "except …", "other than …" and the like."""
    return _drop(find_exception(strip_full_stop(statement.text)), "an exception", statement)


CONDITION = Operator("condition_dropped", ("overclaim",), drop_condition, _CUES.condition_site)
EXCEPTION = Operator("exception_dropped", ("overclaim",), drop_exception, _CUES.exception_site)
