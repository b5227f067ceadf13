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
from factgym.corpora.sentences import sentences
from factgym.generators.perturbations.grammar import strip_full_stop
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.generators.synthetic.grammar import capitalise, word_list

# Marks of list items and clause numbers, which are no part of a sentence.
_ITEM = re.compile(r"- |\d{1,3}[.)] |\(?[a-zA-Z]{1,4}[.)] |[•*·–] ")
_CLAUSE_NUMBER = re.compile(
    r"(?:(?:ARTICLE|Section|SECTION) )?\d{1,3}(?:\.\d{1,3})+\.? (?:\([a-z]{1,3}\) )?"
    r"|\d{1,2}\. |[A-Z]\. |\([a-zA-Z0-9]{1,4}\) "
)
# A run-in heading: "Log data: We collect …".
_RUN_IN = re.compile(r"[A-Z][^.:;!?]{1,60}[:.] (?=[A-Z])")
# Openings that make a sentence depend on the one before, and imperatives.
_DEPENDENT = re.compile(
    rf"(?:{'|'.join(word_list('dependent_openings'))}|For (?:example|instance)|In (?:this|that|these|such|WITNESS)|IN WITNESS"
    rf"|Some of"
    r"|As (?:such|used|noted|described)|To do|By doing|Once done|After that|No,|Don['’]t|Let['’]s|That['’]s"
    r"|Failure to do so|The (?:following|above|foregoing|former|latter|same|other)|A(?:ny|ll) (?:such|other)|All of"
    r"|In addition to this|(?:If|When) (?:so|not|this|that|they|it|such)|(?:If|When) (?:we|you) do so|(?:Per|Under"
    r"|With) this)\b"
)
_IMPERATIVE = re.compile(rf"(?:{'|'.join(word_list('imperatives'))})\b(?! [a-z]+ (?:is|are|must|may|will|can)\b)")
# A list item that is a whole sentence in spite of its introduction.
_OWN_SUBJECT = re.compile(
    r"(?:You|We|Your \w+|Our \w+|[A-Z]\w+ [A-Z]\w+|The \w+)"
    r" (?:must|shall|will|may|can|cannot|are|is|have|has|need|do|does)\b"
)
_CONNECTIVE = re.compile(
    r"(?:However|Moreover|Furthermore|In addition|Additionally|Also|In general|Of course|Accordingly|Nevertheless"
    r"|Generally speaking), (?=[a-zA-Z])"
)
# References out of the sentence: to other text ("as follows") and by a pronoun near the beginning.
_OUTWARD = re.compile(
    r"\b(?:as follows|the following|(?:set (?:out|forth)|listed|described) (?:below|above)|above[- ]mentioned"
    r"|aforesaid|aforementioned|this (?:section|page|table|list|step|case|option|type|process|information|right|way"
    r"|means|group|form|box|button|field|guide|post)|here|screenshot|click|e\.g|i\.e|per above|the above|foregoing"
    r"|mentioned)\b",
    re.I,
)
_POINTING = re.compile(
    r"\b(?:do so|he|she|they|them|their|it|its|these|those|this|that|latter|former|such(?! as\b))\b"
    r"(?! agreement| policy| notice)",
    re.I,
)
_POINTING_CHARS = 24
"""Only a pronoun this early can point out of the sentence; a later one mostly finds its noun inside."""
_FINITE_VERB = re.compile(
    r"\b(?:must|shall|will|may|can|cannot|should|is|are|was|were|has|have|does|do|agrees?|requires|reserves|remains"
    r"|applies|provides|receives|grants|expires|becomes|accepts|allows|appoints|maintains|retains|includes|contains"
    r"|warrants|represents|acknowledges|\w+['’](?:ll|re|ve|t))\b|^(?:We|You) [a-z]+ "
)
# Traces of links, markup, tables, placeholders and headings that were glued to the sentence.
_NOT_PROSE = re.compile(
    r"https?:|www\.|@|__|/s/|\.\.|…|[|<>{}\\›•=~^#]|\*\*|\?|!|:|\[|\bet al\b|\betc\b|\$\s*\(|_|&c|--|; (?:or|and)\b"
)
_GLUED = re.compile(
    r"[A-Z]{4,} [A-Z]{2,}[. ]|.{0,250}\b\d{1,2}\.\d{1,2} [A-Z]|[IVX]+\. |\w+, (?:please|do not|don['’]t)\b"
    r"|(?:[A-Z][\w’'-]+ ){2,8}(?:Some|The|You|We|If|All|In|This|Each|Any|An?|When|For|Our|Your|It|As|No|Except"
    r"|Subject) [a-z]"
)
_ENUMERATED = re.compile(r"\((?:[a-z]|[ivx]{1,4}|\d{1,2})\)")
_PERSONAL = re.compile(r"\b(?:I|me|my|I['’]\w+)\b")
_DEFINES = re.compile(
    r"\b(?:(?<!by )(?<!that )(?<!the )means?\b(?! of)|shall mean|please|(?:is|are|as) defined|has the meaning"
    r"|hereinafter|is called)\b",
    re.I,
)
_MIN_WORDS, _MAX_WORDS = 7, 55
_MIN_CHARS, _MAX_CHARS = 40, 360


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
        mark = _ITEM.match(line, start) or _CLAUSE_NUMBER.match(line, start) if first else None
        start = mark.end() if mark else start
        run_in = _RUN_IN.match(line, start, end) if first and item else None
        if run_in:
            start = run_in.end()
        elif first and dependent and not _OWN_SUBJECT.match(line, start):
            continue
        while start < end and line[start] == " ":
            start += 1
        if is_usable(line[start:end]):
            yield Sentence(offset + start, offset + end, line[start:end])


def is_usable(sentence: str) -> bool:
    """Whether a sentence can be a claim: well formed, declarative and independent of its neighbours."""
    if not _is_well_formed(sentence):
        return False
    connective = _CONNECTIVE.match(sentence)
    body = sentence[connective.end() :] if connective else sentence
    dependent = _DEPENDENT.match(body) or _IMPERATIVE.match(body) or _POINTING.search(body[:_POINTING_CHARS])
    return (
        not dependent and not _OUTWARD.search(body) and not _DEFINES.search(body) and bool(_FINITE_VERB.search(body))
    )


def _is_well_formed(sentence: str) -> bool:
    words = sentence.split()
    if not (_MIN_WORDS <= len(words) <= _MAX_WORDS and _MIN_CHARS <= len(sentence) <= _MAX_CHARS):
        return False
    if not sentence.endswith(".") or not sentence[0].isupper() or LOST_TEXT in sentence or _NOT_PROSE.search(sentence):
        return False
    if _GLUED.match(sentence) or _ENUMERATED.search(sentence) or _PERSONAL.search(sentence):
        return False
    balanced = sentence.count("(") == sentence.count(")") and sentence.count("“") == sentence.count("”")
    shouted = sum(word.isupper() and len(word) > 3 for word in words) * 3 > len(words)
    return balanced and sentence.count('"') % 2 == 0 and not shouted and ";" not in sentence[-40:]


# Finite verbs, subjects and open endings decide whether the rest of a sentence is a full sentence.
_FINITE = re.compile(
    r"\b(?:must|shall|will|may|can|cannot|should|could|would|is|are|was|were|has|have|had|does|do|don['’]t|won['’]t"
    r"|can['’]t|agrees?|requires?|reserves?|remains?|applies|apply|pays?|provides?|receives?|grants?|expires?|becomes?"
    r"|share|use|uses|collect|collects|store|process|offer|offers|accept|allow|allows|need|needs|want|\w+['’](?:ll|re"
    r"|ve))\b"
)
_SUBJECT = re.compile(
    r"(?:you|we|your|our|the|a|an|any|all|each|no|every|neither|either|both|such|employees|customers|users|supervisors"
    r"|[A-Z][\w&’'.-]*)\b"
)
_DANGLING = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|such|same|so|doing so|thereof|both)\b", re.I
)
# The clause words. Each pattern has the groups "word" and "clause"; a trailing one runs to the end.
_TRAILING = re.compile(
    r"(?P<lead>[,;]? )(?P<word>only if|only when|if and only if|if|unless|provided,? however,? that|provided,? that"
    r"|so long as|as long as|in the event that|in the event|on the condition that|on condition that|subject to|when"
    r"|whenever|once) (?P<clause>[^;:]+)$"
)
_WITH_CONSENT = re.compile(
    r"(?P<lead>,? )(?P<word>without|with|upon) (?P<clause>(?:[\w'’()-]+ ){0,6}?(?:consent|approval|permission"
    r"|authorization|authorisation|notice)\b[^;:,]{0,60})$",
    re.I,
)
_LEADING = re.compile(
    r"(?P<word>If|Unless|When|Once|Provided that|So long as|As long as|In the event that"
    r"|Whenever) (?P<clause>[^,;:]{8,160}), (?:then )?(?P<main>[^;:]+)$"
)
_EXCEPT_TRAILING = re.compile(
    r"(?P<lead>[,;]? \(?)(?P<word>except(?:ing)?(?: for| that| as| when| if| in| to| where| with)?|other than"
    r"|excluding|with the exceptions? of|with exceptions? for) (?P<clause>[^;:]+)$"
)
_EXCEPT_LEADING = re.compile(
    r"(?P<word>Except|Other than|Excluding|With the exception of) (?P<clause>[^,;:]{4,140}), (?P<main>[^;:]+)$"
)
# Limits that say nothing definite, words after which "if" asks instead of limits, and cut-off endings.
_BOILERPLATE = re.compile(
    r"\b(?:otherwise|terms of|terms and conditions|provisions?|herein|hereof|hereunder|this agreement|section|article"
    r"|clause|paragraph|exhibit|schedule|applicable law|set forth|described|noted|above|below|foregoing"
    r"|permitted by law|law)\b",
    re.I,
)
_NOT_A_CONDITION = re.compile(
    r"\b(?:see|know|knows|check|checks|ask|asks|asking|determine|determines|determining|decide|confirm|wonder|tell"
    r"|understand|learn|even|as|and|or|only|not|what|where|how|just|especially|particularly|including|date|time|times"
    r"|day|days|case|cases|situations?|circumstances|instances|moment|is|are|be|was|were|consider|considering|verify"
    r"|assess|to|of|than|except|remember|whether|explain|indicate|specify|find out|clear|sure|depends|upon|on|by|for"
    r"|about|from|mean|means|begins?|ends?|starts?|until|like|example|that|which|who|it|called|being|been|become"
    r"|becomes|take|conditioned|conditional|contingent|based|relied|agreed|rely|insist|reflect)$",
    re.I,
)
_OPEN_ENDED = re.compile(
    r"\b(?:the|a|an|of|to|in|on|by|for|and|or|with|any|such|as|at|from|other|than|that|which|its|their|your|our"
    r"|including|but|although|made|given|granted|incurred|[.;:])$",
    re.I,
)
_TEMPORAL = frozenset({"when", "whenever", "once"})
# A time clause limits a rule only where the main sentence has the force of one.
_DEONTIC = re.compile(
    r"\b(?:must|shall|may|can|cannot|won['’]t|can['’]t|not|never|(?:is|are) (?:required|entitled|allowed|permitted))\b"
)
_BINDING = re.compile(r"\b(?:must|shall|cannot|not|never|(?:is|are) required)\b")
_NOT_A_RULE = re.compile(
    r"\b(?:only|even if|even when|would|could|might|(?:may|will)(?: not)? be (?:un)?able|may (?:not )?(?:apply|have)"
    r"|want|feel)\b",
    re.I,
)
_MERE_WISH = re.compile(
    r"\b(?:do so|does so|so,|want|wants|wish|wishes|would like|prefer|choose|need|needs|questions?|believe|think"
    r"|decide|disagree|interested|don['’]t|necessary|possible|applicable|appropriate|any|desired|context|needed"
    r"|haven['’]t already)\b",
    re.I,
)
# Signs that the clause ends before the sentence does.
_CARRIES_ON = re.compile(r", (?:but|so|and (?:you|we|the|it|they|will|may|must|shall|can)\b|which|in which case)")
_PREDICATE = re.compile(rf"{_FINITE.pattern}|\b\w{{2,}}(?:ed|es|s|en|ing|ible|able)\b|\b(?:you|we|they)\b")
_LISTS = re.compile(r", (?:and|or) ")
_VAGUE_SUBJECT = re.compile(r"(?:The [a-z]|Additional|Further)")
_WHEN_ELSE = re.compile(r"(?:in|a|per|every|again|more)\b")
_EXCEPT_NEEDS = re.compile(r"\b(?:any|no|all|not|cannot|neither|every|never|none|\w+n['’]t)\b", re.I)
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
    clauses = (_leading_clause(_LEADING, body), _consent_clause(body), _trailing_clause(_TRAILING, body))
    return next((clause for clause in clauses if clause and _restricts(clause)), None)


def find_exception(body: str) -> Clause | None:
    """The only exception of a sentence without its full stop: except …, other than …"""
    clause = _leading_clause(_EXCEPT_LEADING, body) or _trailing_clause(_EXCEPT_TRAILING, body)
    if clause is None or _BOILERPLATE.search(clause.text) or ";" in clause.main:
        return None
    if clause.word == "other than":
        loose = "," in clause.text or clause.text.startswith("to ")
        return None if loose or not _EXCEPT_NEEDS.search(clause.main) else clause
    return clause


def _is_balanced(text: str) -> bool:
    """Whether brackets and quotation marks are balanced."""
    pairs = text.count("(") == text.count(")") and text.count("[") == text.count("]")
    return pairs and text.count('"') % 2 == 0 and text.count("“") == text.count("”")


def _is_full_sentence(main: str) -> bool:
    """Whether `main` reads as a sentence of its own."""
    return (
        len(main.split()) >= _MIN_MAIN_WORDS
        and _is_balanced(main)
        and _FINITE.search(main) is not None
        and not _OPEN_ENDED.search(main)
        and "," not in main[-25:].partition(" ")[0]
    )


def _leading_clause(pattern: re.Pattern[str], body: str) -> Clause | None:
    """The clause before the first comma, where a sentence with a subject and an early finite verb follows."""
    match = pattern.match(body)
    if match is None:
        return None
    main, text = match["main"], match["clause"]
    early_verb = _FINITE.search(" ".join(main.split()[:9]))
    if not _SUBJECT.match(main) or not early_verb or not _is_full_sentence(main):
        return None
    if not _PREDICATE.search(text) or not _is_balanced(text):
        return None
    main = capitalise(main)
    if _DANGLING.search(main) or _VAGUE_SUBJECT.match(main):
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
    main, text = body[: match.start()].rstrip(" ,"), match["clause"].rstrip(")")
    if (_LISTS.search(text) and "," in main) or not _is_full_sentence(main) or _NOT_A_CONDITION.search(main):
        return None
    if _CARRIES_ON.search(text) or main.startswith(("Except", "If", "Unless")):
        return None
    return Clause(match["word"].lower(), text, main, leading=False, apart=match["lead"][0] in ",;")


def _restricts(clause: Clause) -> bool:
    """Whether the main sentence says more without the clause, as it does not without "if you have questions"."""
    if _NOT_A_RULE.search(clause.main) or "context" in clause.text:
        return False
    if clause.word == "subject to":
        return clause.apart and not _BOILERPLATE.search(clause.text)
    if clause.word in _TEMPORAL:
        binding = (_DEONTIC if clause.leading else _BINDING).search(clause.main)
        return binding is not None and not _WHEN_ELSE.match(clause.text)
    return not _MERE_WISH.search(clause.text) or clause.word in ("without", "unless", "with", "upon")


def _consent_clause(body: str) -> Clause | None:
    """`… without the prior written consent of X` after a prohibition; `… with consent` after a permission."""
    clause = _trailing_clause(_WITH_CONSENT, body)
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


CONDITION = Operator(
    "condition_dropped",
    ("overclaim",),
    drop_condition,
    re.compile(
        r"\b(?:if|unless|provided|so long as|as long as|in the event|on (?:the )?condition|subject to|when|whenever"
        r"|once|upon|without|with)\b",
        re.I,
    ),
)
EXCEPTION = Operator(
    "exception_dropped",
    ("overclaim",),
    drop_exception,
    re.compile(r"\b(?:except\w*|other than|excluding|apart from|but not)\b", re.I),
)
