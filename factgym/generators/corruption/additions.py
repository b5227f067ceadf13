"""What the document is silent on: an invented cause, or a statement of another document. *Unsupported*.

A donor sentence comes from a document on another matter; whoever builds the example makes sure that no passage of it
comes near the donor (`Context.donors`). Causes are composed here, from many openings and grounds, and are kept away
from documents that speak of the same ground at all.
"""

from __future__ import annotations

import random
import re

from factgym.generators.corruption.base import Context, Corruption, Operator, bare

_GIVES_A_REASON = re.compile(
    r"\b(?:because|since|so that|in order|due to|as a result|therefore|reasons?|for the purposes?|to ensure|to help|to protect"
    r"|thus|hence|if|unless|when|where|provided|except|which|such as|including|subject to|for example|but|however|until|while"
    r"|that|other than|whether|or)\b",
    re.I,
)
_CAUSE_CUE = re.compile(
    r"\b(?:must|shall|will|may|cannot|not|required|won['’]t|needs?|entitled|allowed|responsible)\b"
)
_ANY = re.compile(r".")
_JOINS = (", because ", ", since ", " because ", ", as ", ", given that ", ", the reason being that ")
_GROUNDS: tuple[tuple[str, str], ...] = (
    ("insurer", "the insurer {requires|insists on|asked for} it"),
    ("insurance", "insurance premiums {rose sharply|doubled} after the last renewal"),
    ("auditor", "the outside auditors {raised it as a finding|recommended it|asked for the change}"),
    ("union", "the works council and the union {agreed on it|negotiated it}"),
    ("court", "a court {ruled on the matter|ordered it} in an earlier dispute"),
    ("backlog", "the previous procedure {led to a long backlog|caused a backlog of cases}"),
    ("budget", "the budget {was cut|had to be reduced} last year"),
    ("survey", "a survey {showed that most people prefer it|of those affected favoured it}"),
    ("pilot", "a pilot project {proved successful|gave good results}"),
    ("staffing", "staffing levels {are too low for anything else|do not allow for more}"),
    ("fraud", "several cases of fraud {came to light|were discovered} under the old rule"),
    ("storage", "storage costs {have risen steeply|are charged by volume}"),
    ("software", "the old software {could not handle anything else|did not allow for exceptions}"),
    ("lawsuit", "a lawsuit {was settled on those terms|made the change necessary}"),
    ("tax", "the tax office {expects it|treats it favourably}"),
    ("competitor", "{most competitors|the main competitors} do the same"),
    ("complaint", "there were {too many complaints|a number of complaints} about the earlier practice"),
    ("shareholder", "the shareholders {voted for it|demanded it} at their annual meeting"),
    ("environment", "it {reduces the environmental footprint|is better for the environment}"),
    ("error", "manual handling {produced too many errors|proved prone to errors}"),
    ("regulator", "the regulator {issued new guidance|announced stricter checks}"),
    ("pandemic", "the arrangement {worked well during the pandemic|was introduced during the pandemic}"),
    ("consultant", "an external consultant {advised it|suggested the change}"),
    ("merger", "the merger {made a common rule necessary|brought two different practices together}"),
    ("currency", "exchange rates {fluctuate too much|have become unpredictable}"),
    ("travel", "travel between the sites {takes too long|is expensive}"),
    ("archive", "the paper archive {was lost in a flood|is full}"),
    ("training", "new staff {found the earlier rule confusing|need less training that way}"),
    ("supplier", "the main supplier {changed its conditions|went out of business}"),
    ("energy", "energy prices {have gone up|remain high}"),
)
_CHOICE = re.compile(r"\{([^{}]*)\}")
_MAX_CHARS = 190


def _ground(rng: random.Random, folded: str) -> str:
    options = [text for key, text in _GROUNDS if key not in folded]
    if not options:
        return ""
    return _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), rng.choice(options))


def invent_cause(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Gives a true statement a reason that the document does not give."""
    if len(sentence) > _MAX_CHARS or _GIVES_A_REASON.search(sentence) or "," in sentence[-30:]:
        return None
    ground = _ground(rng, context.folded or context.document.casefold())
    if not ground:
        return None
    cause = f"{rng.choice(_JOINS)}{ground}"
    span = cause.lstrip(" ,")
    reason = "The document states the rule but not this reason for it."
    return Corruption(f"{bare(sentence)}{cause}.", "unsupported", span, "cause", reason)


def _donor(name: str, reason: str, rng: random.Random, context: Context) -> Corruption | None:
    if not context.donors:
        return None
    text = rng.choice(context.donors)
    return Corruption(text, "unsupported", bare(text), name, reason)


def add_statement(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """A statement to stand beside a true one, on which the document is silent."""
    return _donor("addition", "Nothing in the document says this.", rng, context)


def cite_irrelevant(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """A statement of another document, offered as if this one carried it."""
    return _donor("irrelevant", "The cited document is about another matter and does not say this.", rng, context)


CAUSE = Operator("cause", "unsupported", _CAUSE_CUE, invent_cause)
ADDITION = Operator("addition", "unsupported", _ANY, add_statement)
IRRELEVANT = Operator("irrelevant", "unsupported", _ANY, cite_irrelevant)
