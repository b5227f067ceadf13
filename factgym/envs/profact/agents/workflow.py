"""The honest baseline: a workflow without a model and without the gold.

The claim is cut into statements; each is asked about, searched for, and answered with the sentences that fit it best;
the verdict compares the values of each statement with those of its answer. What is left of the questions goes to what
fact-checkers ask of nearly every claim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from factgym.corpora.sentences import sentences
from factgym.corpora.text import terms
from factgym.datasets.averitec import CONFLICTING, NO_ANSWER, NOT_ENOUGH, REFUTED, SUPPORTED, Label
from factgym.envs.profact.agents.script import Brief, Call, Script, answering, searching
from factgym.generators.synthetic.words import listed

_PARTS = re.compile(r", and |; |, but |, while |, (?=[^,]{16,})")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_NUMBER = re.compile(r"\d[\d,.]*")
_QUANTITY = re.compile(
    r"(?<!\w)(?!(?:19|20)\d\d\b)\d[\d,.]*(?: (?:percent|per cent|million|billion|thousand|euros|days))*"
)
_NAME = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+\b")
_DENIAL = frozenset(listed("no not never false fake hoax incorrect untrue misleading debunked satire doctored"))
_LEAST, _PIECES = 0.05, 2
"""The share of a question's words that a piece of evidence needs to answer it, and how many pieces do."""
_SAME_THING = 0.3
"""The share of a question's words by which a piece of another year is about the same thing."""
_CARRIED = 0.6
"""The share of a statement's words that carries it where there are no values to compare; the best of five on AVeriTeC's train claims."""
_HEAD, _NEEDED_WORDS = 200, 4


class Workflow(Script):
    """Templated questions, one search each, extractive answers, a lexical verdict."""

    def questions(self, brief: Brief) -> Sequence[str]:
        """One for each statement of the claim, then what it says of numbers, why it should hold, and who says it."""
        parts = statements(brief.claim)
        claim = low(brief.claim.rstrip(".!?"))
        found = [question_of(one) for one in parts[:3]]
        found += [f"How many {low(without_numbers(one))}?" for one in parts if without_numbers(one) != one][:1]
        found += [f"What is the evidence that {claim}?", f"Who is {brief.about.get('Speaker', 'the speaker')}?"]
        found.append(f"When was it said that {claim}?")
        return [one[:400] for one in found[: brief.most]]

    def look(self, brief: Brief) -> Call:
        """One search with the question's words, then what fits of the evidence that no earlier answer has told."""
        if not brief.searched:
            return searching(brief.question)
        used = " ".join(answer for _, answer in brief.record)
        fresh = [one for one in brief.shown if " ".join(one.split())[:_HEAD] not in used]
        return answering(extracted(brief.question, fresh))

    def decide(self, brief: Brief) -> tuple[str, str]:
        """What the answers say about the statements together."""
        answers = dict(brief.record)
        found = [
            judged(one, answers[asked]) for one in statements(brief.claim) if (asked := question_of(one)) in answers
        ]
        label = together(found)
        said = " ".join(dict.fromkeys(answer for _, answer in brief.record if answer != NO_ANSWER))
        return label, f"{label}: {said or NO_ANSWER}"[:4000]


def question_of(statement: str) -> str:
    """The question whether a statement holds."""
    return f"Did {low(statement)}?"[:400]


def statements(claim: str) -> list[str]:
    """The parts of a claim that are asked about, without their final mark."""
    whole = [claim[start:end].strip().rstrip(".!?") for start, end in sentences(claim)]
    return [part.strip() for one in whole for part in _parts(one) if part.strip()] or [claim]


def _parts(sentence: str) -> list[str]:
    parts = _PARTS.split(sentence)
    return parts if all(len(part.split()) >= _NEEDED_WORDS for part in parts) else [sentence]


def low(text: str) -> str:
    """The text with its first letter small, but for words that are all capitals."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def without_numbers(statement: str) -> str:
    """The statement without its quantities; years stay."""
    return " ".join(_QUANTITY.sub(" ", statement).split())


def extracted(question: str, shown: Sequence[str]) -> str:
    """The pieces of evidence that speak to the question, at most two, else the non-answer.

    A piece speaks to it by its best sentence, which must be of a year that the question names, unless nothing that was
    found has to do with the same thing in other years.
    """
    wanted, years = frozenset(terms(question)), frozenset(_YEAR.findall(question))
    ranked = _ranked(wanted, years, shown)
    if years and not (ranked and ranked[0][0]):
        ranked = _ranked(wanted, frozenset(), shown)
        if ranked and ranked[0][0] >= _SAME_THING * len(wanted):
            return NO_ANSWER
    best = [text for fit, text in ranked if fit >= max(1, _LEAST * len(wanted)) and fit >= ranked[0][0] - 1]
    return " ".join(best[:_PIECES])[:2000] or NO_ANSWER


def _ranked(wanted: frozenset[str], years: frozenset[str], shown: Sequence[str]) -> list[tuple[int, str]]:
    return sorted(((_fit(wanted, years, text), text) for text in shown), key=lambda pair: -pair[0])


def _fit(wanted: frozenset[str], years: frozenset[str], text: str) -> int:
    """How many of the wanted words the best sentence has."""
    found = [text[start:end] for start, end in sentences(text)]
    return max(
        (len(wanted & frozenset(terms(one))) for one in found if not years or years & set(_YEAR.findall(one))),
        default=0,
    )


def judged(statement: str, answer: str) -> Label:
    """What an answer says about one statement."""
    dated = _YEAR.search(statement)
    if answer == NO_ANSWER:
        return NOT_ENOUGH if dated else REFUTED
    wanted = values(statement)
    said = [answer[start:end] for start, end in sentences(answer)]
    said = [one for one in said if not dated or dated[0] in one]
    if wanted and dated:
        carried = [wanted <= values(f"x {one}") for one in said]
        return SUPPORTED if carried and all(carried) else CONFLICTING if any(carried) else REFUTED
    core = frozenset(terms(statement))
    best = max((len(core & frozenset(terms(one))) for one in said), default=0)
    denied = _DENIAL & frozenset(terms(answer)) - core
    return SUPPORTED if best >= _CARRIED * len(core) and not denied else REFUTED


def values(text: str) -> frozenset[str]:
    """Numbers that are no years, and names inside a sentence."""
    names = {name.casefold() for name in _NAME.findall(text)}
    numbers = {one.strip(",.").replace(",", "") for one in _NUMBER.findall(text)}
    return frozenset(names | {one for one in numbers if not _YEAR.fullmatch(one)})


def together(found: Sequence[Label]) -> Label:
    """The label of a claim whose statements have these."""
    for label in (REFUTED, CONFLICTING, NOT_ENOUGH):
        if label in found:
            return label
    return SUPPORTED
