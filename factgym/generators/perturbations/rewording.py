"""Label-preserving rewrites of documents' sentences and of probes that keep their label, and questions on a section.

Supported and corrupted claims are reworded alike, or the wording would give the label away. A rewrite never reaches
into the span that a corruption made. Left out on purpose: synonyms of nouns, "shall" in definitions, and anything that
needs a parser to be safe.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

from factgym.generators.base import word_table
from factgym.generators.perturbations.clauses import find_condition
from factgym.generators.perturbations.grammar import (
    Cues,
    comma_of,
    lowercase_opening,
    rewriting_rules,
    split_final_stop,
    word_set,
)
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.generators.perturbations.polarity import NEGATIVE
from factgym.text.sentences import capitalise, strip_full_stop
from factgym.text.words import terms

_CUES = Cues("rewording")

_LEAD_INS = (
    *("According to {title}, ", "As stated in {title}, ", "Under {title}, ", "Per {title}, "),
    "In {title}, it says that ",
)
_TAILS = ("according to {title}", "as stated in {title}")
_MAX_HEADING_CHARS = 70
_NOT_A_MATTER = word_set("no_matter")
_LEAD_SHARE = 0.75
_PARTICIPLES, _TITLE_NOUNS = word_set("participles"), word_set("title_nouns")
_NOT_A_NAME = ("the ", "a ", "an ", "how ", "what ", "who", "why ", "requesting ", "your ", "our ")
_REWRITE_COUNTS = (0, 1, 1, 2, 2, 3)


def format_title(title: str) -> str:
    """A document's title as part of a sentence: `the Refund Policy`, `“Leave types”`."""
    plain = title.strip()
    words = plain.casefold().partition(" (")[0].split()
    if words and words[-1] in _TITLE_NOUNS and not plain.casefold().startswith(_NOT_A_NAME):
        return f"the {plain}"
    return f"“{plain}”"


def compose_question(title: str, passage_title: str, sentence: str, rng: random.Random) -> str:
    """Compose a question on a section, by its heading where there is one, else by two frequent content words."""
    _, separator, heading = passage_title.rpartition(" › ")
    number = _CUES.heading_number.match(heading)
    heading = heading[number.end() :] if number else heading
    name = format_title(title)
    if separator and 3 <= len(heading) <= _MAX_HEADING_CHARS:
        if heading.endswith("?"):
            return f"{capitalise(name)}: {heading}"
        heading = heading.rstrip(".:")
        matter = f"“{heading.capitalize() if heading.isupper() else heading}”"
    else:
        words = [word for word in terms(sentence) if len(word) > 3 and word.isalpha()]
        counts = Counter(word for word in words if word not in _NOT_A_MATTER)
        best = sorted(counts, key=lambda word: (-counts[word], -len(word), word))[:2]
        matter = " and ".join(f"“{word}”" for word in sorted(best, key=words.index)) or "this matter"
    return capitalise(rng.choice(word_table("english")["phrases"]["questions"]).format(name=name, matter=matter))


def reword(sentence: str, span: str, rng: random.Random) -> str:
    """Remove an opening connective and make up to three safe rewrites outside `span` (verbatim, or empty)."""
    start = sentence.find(span) if span else len(sentence)
    before, after = sentence[:start], sentence[start + len(span) :]
    connective = _CUES.connective.match(sentence)
    if connective and connective.end() < len(before):
        before = before[connective.end() :]
    for _ in range(rng.choice(_REWRITE_COUNTS)):
        if rng.random() * (len(before) + len(after)) < len(before):
            before = _rewrite_once(before, rng)
        else:
            after = _rewrite_once(after, rng)
    return capitalise(before) + sentence[start : start + len(span)] + after


def _rewrite_once(text: str, rng: random.Random) -> str:
    fitting = [(pattern, new) for pattern, new in rewriting_rules("rewrites") if pattern.search(text)]
    if not fitting:
        return text
    pattern, new = rng.choice(fitting)
    return pattern.sub(new, text, count=1)


def move_clause(sentence: str) -> str | None:
    """Move the if-clause or the opening phrase to the other end of the sentence; None where that is not safe."""
    clause = find_condition(strip_full_stop(sentence))
    if clause and clause.word in ("if", "unless") and "," not in clause.text:
        if clause.leading and "," not in clause.main:
            return f"{clause.main} {clause.word} {clause.text}."
        if not clause.leading and "," not in clause.main and _CUES.lowerable.match(clause.main):
            return f"{clause.word.capitalize()} {clause.text}, {clause.main[0].lower()}{clause.main[1:]}."
    match = _CUES.opening_phrase.match(sentence)
    if match is None or _CUES.has_clause.search(match["main"]):
        return None
    return f"{capitalise(match['main'])} {match['phrase'][0].lower()}{match['phrase'][1:]}."


def name_source(sentence: str, title: str, rng: random.Random) -> str:
    """Name the source, before the sentence where its first word may be written small, else after it."""
    if _CUES.lowerable.match(sentence) and not _CUES.no_lead.match(sentence):
        opening = rng.choice(_LEAD_INS).format(title=format_title(title))
        if rng.random() < _LEAD_SHARE:
            return capitalise(opening) + sentence[0].lower() + sentence[1:]
    if not sentence.endswith(".") or sentence.endswith("..") or _CUES.names_source.search(sentence):
        return sentence
    return f"{strip_full_stop(sentence)}, {rng.choice(_TAILS).format(title=format_title(title))}."


def restate(statement: Statement) -> Edit | NoEdit:
    """Say the same in other words; the label and the error of the claim stay."""
    rewrites: tuple[tuple[str, Callable[[Statement], str | None]], ...] = (
        ("passive", to_passive),
        ("fronted", front_time),
        ("synonym", replace_synonym),
        ("reworded", reword_claim),
    )
    for variant, rewrite in rewrites:
        text = rewrite(statement)
        if text is not None and text != statement.text:
            return Edit(0, len(statement.text), text, variant=variant, error_type=statement.error_type)
    return NoEdit("no_site", "no rewrite that certainly keeps the meaning")


def to_passive(statement: Statement) -> str | None:
    """ "Alan Metter directed Billboard Dad." as "Billboard Dad was directed by Alan Metter."."""
    verb, agent = statement.verb, statement.subject
    head, stop = split_final_stop(statement.text)
    if verb is None or agent is None or verb.word not in _PARTICIPLES or len(statement.names) != 2:
        return None
    patient = statement.names[1]
    if patient.start != verb.end + 1 or patient.end != len(head):
        return None
    return f"{patient.text} was {verb.word} by {agent.text}{stop}"


def front_time(statement: Statement) -> str | None:
    """ "X died in 1821." as "In 1821, X died."."""
    head, stop = split_final_stop(statement.text)
    match, verb = _CUES.end_time.search(head), statement.verb
    if match is None or verb is None or not (verb.tense == "past" or verb.word in ("was", "were")):
        return None
    main = head[: match.start()]
    if len(main.split()) < 3 or "," in main or NEGATIVE.search(head):
        return None
    if re.search(r"\b(?:and|that|who|which|when|from|between|until|since)\b", main):
        return None
    lowered = lowercase_opening(main, statement.name_spans, statement.source)
    return None if lowered is None else f"{capitalise(match['phrase'])}{comma_of(statement.text)} {lowered}{stop}"


def replace_synonym(statement: Statement) -> str | None:
    """Replace a word outside names by a synonym."""
    fitting = [
        (match, new)
        for pattern, new in rewriting_rules("synonyms")
        if (match := pattern.search(statement.text))
        and not any(start <= match.start() < end for start, end in statement.name_spans)
    ]
    if not fitting:
        return None
    match, new = statement.rng.choice(fitting)
    new = f"a {new}" if match[0].startswith(("a ", "an ")) else new
    return statement.text[: match.start()] + new + statement.text[match.end() :]


def reword_claim(statement: Statement) -> str | None:
    """Rewrite as sentences of documents are rewritten."""
    text = reword(statement.text, "", statement.rng)
    unsafe = '"' in statement.text or "as well as" in statement.text
    return None if unsafe or text.casefold() == statement.text.casefold() else text


REWORDING = Operator("rewording", (None,), restate)
