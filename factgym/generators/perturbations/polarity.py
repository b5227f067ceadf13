"""Polarity: a rule or a claim is turned into its opposite by a negation, an opposite modal, or an antonym.

Documents' sentences ("polarity", *contradicted*): an obligation into a choice, a ban into a permission, "will" into
"will not". Claims ("negation_flip"): a negation removed or added with the right auxiliary, or a word replaced by its
opposite. Both remove negations before they add one, and leave quantified or conditional statements alone, whose
negation could also be true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from factgym.generators.base import word_table
from factgym.generators.perturbations.grammar import (
    PAST,
    THIRD,
    Cues,
    agree_article,
    contains_words,
    in_main_clause,
    word_set,
)
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement

_CUES = Cues("polarity")

_PERMISSION = {"must not": "may", "shall not": "may", "may not": "may", "won't": "will", "will not": "will"}
_POSSIBLE = word_set("possible")
_NOT_A_DUTY = word_set("no_duty")


def _without_negation(sentence: str) -> Iterator[Edit]:
    """Yield the edits that take a denial away; "any" and the like would be left without what licenses them."""
    if _CUES.stays_negative.search(sentence) or " any " in sentence:
        return
    for match in _CUES.ban.finditer(sentence):
        verb = match["verb"]
        if match["modal"] != "may not" or not (verb.startswith("be") or verb in _POSSIBLE):
            yield Edit(*match.span(), f"{_PERMISSION.get(match['modal'].replace('’', chr(39)), 'can')} {verb}")
    for match in _CUES.not_be.finditer(sentence):
        yield Edit(*match.span(), f"{match['be']} {match['word']}")
    for match in _CUES.do_not.finditer(sentence):
        if match["verb"] not in ("have", "need", "want"):
            yield Edit(match.end("subject") + 1, match.end(), match["verb"])
    for match in _CUES.does_not.finditer(sentence):
        yield Edit(*match.span(), f"does {match['verb']}")


def _with_negation(sentence: str) -> Iterator[Edit]:
    """Yield the edits that deny a duty, a state or a permission."""
    if _CUES.not_negatable.search(sentence):
        return
    for match in _CUES.duty.finditer(sentence):
        verb, modal = match["verb"], match["modal"]
        parenthesis = sentence[match.end() :].startswith(",")
        if verb not in _NOT_A_DUTY and not _CUES.not_passive.match(f"{verb} ") and not parenthesis:
            yield Edit(*match.span(), f"need not {verb}" if modal == "must" else f"{modal} not {verb}")
    for match in _CUES.be_bound.finditer(sentence):
        yield Edit(*match.span(), f"{match['be']} not {match['word']}")
    for match in _CUES.can.finditer(sentence):
        verb = match["verb"]
        if verb not in _POSSIBLE and verb not in _NOT_A_DUTY and not _CUES.choice.search(sentence[match.end() :]):
            yield Edit(*match.span(), f"{'cannot' if match[0].startswith('can') else 'may not'} {verb}")


def reverse(statement: Statement) -> Edit | NoEdit:
    """Remove the negation of the main clause of a document's sentence, or add one."""
    sentence = statement.text
    conditional = sentence.startswith(("If ", "When ", "Unless ", "Where ")) and "," not in sentence
    if conditional or _CUES.hedge.search(sentence):
        return NoEdit()
    for edits in (_without_negation(sentence), _with_negation(sentence)):
        for edit in edits:
            before = sentence[: edit.start]
            if in_main_clause(before) and not _CUES.contact_clause.search(before):
                return edit
    return NoEdit()


POLARITY = Operator(
    "polarity",
    ("contradicted",),
    reverse,
    _CUES.polarity_site,
    reason="The document says {old!r}, the opposite of {new!r}.",
)

NEGATIVE = _CUES.negative
_AFTER_BE = frozenset({"likely", "unlikely", "legal", "illegal", "able", "unable", "possible", "impossible", "known"})
"""Words whose opposite only fits behind "is"."""
_ANTONYMS: dict[str, str] = {}
for _first, _second in map(str.split, word_table("english")["antonyms"]):
    _ANTONYMS.setdefault(_first, _second)
    _ANTONYMS.setdefault(_second, _first)
_BE = frozenset({"is", "are", "was", "were"})
_MODALS = frozenset({"will", "can", "must", "has", "have", "had"})


def negate(statement: Statement) -> Edit | NoEdit:
    """Remove the negation of a claim; without one, add one or replace a word by its opposite, in a drawn order."""
    edit = remove_negation(statement)
    if edit is not None:
        return edit
    ways = [add_negation, replace_antonym]
    statement.rng.shuffle(ways)
    for way in ways:
        edit = way(statement)
        if edit is not None:
            return edit
    return NoEdit("no_site", "no verb or word with a certain opposite")


def _flip(start: int, end: int, replacement: str, variant: str) -> Edit:
    return Edit(start, end, replacement, variant=variant, error_type="negation_flip")


def remove_negation(statement: Statement) -> Edit | None:
    """Remove the only negation of the claim."""
    text = statement.text
    if len(NEGATIVE.findall(text)) != 1 or _CUES.polar_items.search(text):
        return None
    match = _CUES.aux_not.search(text) or _CUES.aux_not_short.search(text)
    if match:
        return _flip(*match.span(), f"{match['aux']} {match['next']}", "negation_removed")
    match = _CUES.do_support_not.search(text)
    if match is None or match["verb"] not in PAST:
        return None
    verb = match["verb"]
    form = {"do": verb, "does": THIRD[verb], "did": PAST[verb]}[match["do"]]
    return _flip(*match.span(), form, "negation_removed")


def add_negation(statement: Statement) -> Edit | None:
    """Negate the main verb, with "do" where it has no auxiliary."""
    text, verb = statement.text, statement.verb
    if verb is None or text.startswith(("Yes", "Oh ")) or NEGATIVE.search(text) or _CUES.quantified.search(text):
        return None
    # Of two statements joined, a negation would turn only one.
    if re.search(r",? and (?:\w+ ){0,2}(?:is|was|were|are|has|had|\w+ed)\b|;|: ", text):
        return None
    have = verb.word in ("has", "have", "had")
    if verb.base is not None:
        support = {"past": "did", "third": "does", "base": "do"}[verb.tense]
        negated = f"{support} not {verb.base}"
    elif verb.word in _BE or (verb.word in _MODALS and (not have or _CUES.not_verb_after_have.match(text[verb.end :]))):
        negated = "cannot" if verb.word == "can" else f"{verb.word} not"
    elif have:
        negated = {"has": "does not have", "have": "do not have", "had": "did not have"}[verb.word]
    else:
        return None
    return _flip(verb.start, verb.end, negated, "negation_added")


def replace_antonym(statement: Statement) -> Edit | None:
    """Replace a word by its opposite, which the source lacks."""
    text = statement.text
    matches = [
        match
        for match in re.finditer(r"(?<![\w-])[a-z]+(?![\w-])", text)
        if match[0] in _ANTONYMS
        and not any(start <= match.start() < end for start, end in statement.name_spans)
        and not contains_words(statement.source, _ANTONYMS[match[0]])
        and _takes_opposite(text, match)
    ]
    if not matches or NEGATIVE.search(text) or _CUES.not_all.search(text):
        return None
    if re.search(r"\b(?:or|if|although|but|than)\b", text):
        return None
    match = statement.rng.choice(matches)
    new = _ANTONYMS[match[0]]
    return _flip(0, match.end(), agree_article(text[: match.start()], new) + new, "antonym")


def _takes_opposite(text: str, match: re.Match[str]) -> bool:
    """Whether the opposite of the word fits in its position."""
    word, before, after = match[0], text[: match.start()], text[match.end() :]
    if re.search(r"\b(?:second|third|fourth|fifth|\w+th|\d(?:st|nd|rd|th)) $", before):
        return False
    if before.count('"') % 2 or after.startswith((" name", " person", " party", " time", " language", " lady", "'")):
        return False
    if word in ("most", "more", "least", "better", "best", "fewer") and not re.match(r" [a-z]+", after):
        return False
    if word in ("most", "least") and not before.endswith("the "):
        return False
    if word in ("before", "after", "inside", "outside", "above", "below"):
        return re.match(r" (?:the|his|her|its|their|[A-Z\d])", after) is not None
    if word in ("left", "right", "light", "real", "hot", "second", "fell", "rose", "last", "like", "known", "public"):
        return word == "last" and before.endswith("the ")
    if word in _AFTER_BE:
        return re.search(r"\b(?:is|are|was|were) $", before) is not None
    if word == "first":
        return before.endswith(("the ", "his ", "her ", "its ", "their "))
    return word not in ("more", "fewer") or re.match(r" [a-z]+s\b", after) is not None


NEGATION = Operator("negation", ("negation_flip",), negate)
