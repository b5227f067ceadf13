"""Questions about a rule, and reasons for a claim's status.

A question asks for the value that a claim states and never gives it away. A reason is one sentence, for people and for
supervised traces.
"""

from __future__ import annotations

from dataclasses import replace

from factgym.generators.synthetic.clause import Clause, is_duration
from factgym.generators.synthetic.corruption import Draft
from factgym.generators.synthetic.facts import Action, Concept, Fact, Quantity, Term
from factgym.generators.synthetic.grammar import Voice, compile_frame, date_text, fill, sentence_case

_WHEN = (
    "how [long|much time] {do_aux} {party} have to {vp}",
    "by when must {party} {vp}",
    "what is the [deadline|time limit] for {party} to {vp}",
    "within what [time|period] must {party} {vp}",
    "what [deadline|time limit] applies to {party} for {ger}",
    "when must {party} {vp}, and from when is the time counted",
)
_AHEAD = (
    "how far [ahead|in advance] must {party} {vp}",
    "how much notice is needed when {party} {vp_present}",
    "how early must {party} {vp}",
    "what is the latest that {party} may {vp}",
)
_MAY = (
    "when may {party} {vp}",
    "under what conditions may {party} {vp}",
    "{be_aux} {party} [allowed|permitted] to {vp}",
    "may {party} {vp}, and if so when",
    "what are the rules for {party} on {ger}",
    "is {ger} open to {party}",
)
_EVERY = (
    "how often must {party} {vp}",
    "at what intervals must {party} {vp}",
    "{be_aux} {party} expected to {vp}, and how often",
)
_APPROVE = (
    "who has to approve {things}, and above what [amount|sum]",
    "when do {things} need [approval|authorisation], and from whom",
    "what approval do large {things} need",
    "from what [amount|sum] do {things} need somebody's approval, and whose",
)
_CAP = (
    "how much may {party} {do} {for}",
    "what is the [limit|maximum] for {party} {doing} {for}",
    "is there a limit to what {party} may {do} {for}",
)
_CAP_COUNT = ("what limit applies when {party} {do_present} {for}", "up to what limit may {party} {do} {for}")
_CAP_DURATION = ("how long may {party} {do} {for}", "is there a limit to how long {party} may {do} {for}")
_KEEP = (
    "how long are {things} kept",
    "what is the [retention|storage] period for {things}",
    "for how long must {things} be [kept|retained]",
    "when are {things} disposed of",
)
_DUTY = (
    "who [is responsible for|is in charge of|looks after|takes care of] {ger}",
    "whose [task|job|responsibility] is {ger}",
    "who has to {vp}",
)
_PENALTY = ("what happens [if|when] {event}", "what [follows|is the consequence] if {event}")
_STATE = (
    "what is the position on {subject}",
    "what {do_doc} the {document} say about {subject}",
    "which rules apply to {subject}",
    "what should one know about {subject}",
)
_SCOPE = (
    "to whom does the {section} on {subject} apply",
    "{be_aux} {party} covered by the {section} on {subject}",
)
_EXTRA = (
    "what [else|further] applies when {party} {vp_present}",
    "what should {party} know about {ger}",
    "what comes with {ger} [for|in the case of] {party}",
)
_EFFECTIVE = ("when does the {section} on {subject} take effect", "from what date do the rules on {subject} apply")

_BY_KIND: dict[str, tuple[str, ...]] = {
    "deadline": _WHEN, "notice": _AHEAD, "may": _MAY, "forbid": _MAY, "every": _EVERY, "approve": _APPROVE, "cap": _CAP,
    "keep": _KEEP, "duty": _DUTY, "penalty": _PENALTY, "scope": _SCOPE, "effective": _EFFECTIVE, "extra": _EXTRA,
}  # fmt: skip
_WHERE = (
    "[at|under the rules of|according to the {title} of] {org}, {q}",
    "{q} at {org}",
    "under {possessive} {title}, {q}",
    "{q} under {possessive} {title}",
)


class _Asker(Clause):
    """A clause whose slots serve questions."""

    def slot(self, name: str) -> str:
        if name == "do_aux":
            return "do" if self.plural else "does"
        if name == "be_aux":
            return "are" if self.plural else "is"
        if name == "do_doc":
            return "does"
        return super().slot(name)


def question_clause(fact: Fact, voice: Voice, subject: str) -> str:
    """A question without its capital and question mark."""
    asker = _Asker(fact, voice)
    frames = _BY_KIND.get(fact.kind, _STATE)
    if fact.kind == "cap" and isinstance(fact.quantity, Quantity) and fact.quantity.unit not in "$£€":
        frames = _CAP_DURATION if is_duration(fact) else _CAP_COUNT

    def slot(name: str) -> str:
        return subject if name == "subject" else asker.slot(name)

    return fill(compile_frame(voice.rng.choice(frames)), slot, voice.rng)


def possessive(name: str) -> str:
    """ "Halden Freight's", "Instruments'"."""
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def ask(clauses: list[str], org: str, title: str, voice: Voice) -> str:
    """The whole question: one or two clauses, placed at an organisation and, unless they do so themselves, a document."""
    words = {"org": org, "title": title, "possessive": possessive(org), "q": ", and ".join(clauses)}
    named = any(f"the {document}" in clause for document in voice.style["document"] for clause in clauses)
    text = fill(compile_frame(voice.rng.choice(_WHERE[1:2] if named else _WHERE)), lambda name: words[name], voice.rng)
    return sentence_case(text) + "?"


# Reasons.

_SUPPORTED = (
    "The cited text states the same rule, with the same limits.",
    "Every part of the claim is stated in the cited text.",
    "The claim says in other words what the cited text says.",
    "The cited text carries the whole claim; nothing is added to it.",
)
_REASONS: dict[str, tuple[str, ...]] = {
    "number": ("The document says {true}, not {claimed}.", "The claim gives {claimed} where the document gives {true}."),
    "version": (
        "The claim gives {claimed}, which is the superseded figure; {true} is now in force.",
        "{claimed} applied under the earlier version; the document now says {true}.",
    ),
    "trigger": ("The document counts from {true}, not from {claimed}.", "The claim counts from the wrong event."),
    "entity": ("The document names {true}, not {claimed}.", "It is {true}, and not {claimed}, whom the document names."),
    "consequence": ("The document attaches another consequence to this.", "What follows is not what the claim says."),
    "polarity": ("The document says the opposite.", "The claim turns the rule into its opposite."),
    "condition": (
        "The document makes this depend only on another condition: that {true}.",
        "The only condition in the document is that {true}, not that {claimed}.",
    ),
    "channel": ("The document prescribes another way of doing it: {true}.", "The way to do it is {true}, not {claimed}."),
    "date": ("The document gives the date as {true}, not {claimed}.", "The claim has {claimed} where the document has {true}."),
    "scope": (
        "The rule is stated for {true} only; the claim extends it to {claimed}.",
        "The document speaks of {true}, and the claim of {claimed}.",
    ),
    "condition_dropped": (
        "The document allows or requires this only on the condition that {true}; the claim leaves that out.",
        "The claim drops the condition that {true}.",
    ),
    "exception_dropped": (
        "The document makes an exception where {true}; the claim leaves it out.",
        "The claim ignores the exception for the case where {true}.",
    ),
    "exception_generalised": (
        "The document grants this as an exception where {true}; the claim makes it a general rule.",
        "A narrow exception, for where {true}, is told as if it were the general rule.",
    ),
    "modality": (
        "In the document this is only {true}; the claim makes it {claimed}.",
        "The claim states {claimed} where the document states {true}.",
    ),
    "invented": (
        "The document regulates this matter but says nothing of what the claim adds.",
        "Nothing in the document states this, though it is on the same topic.",
    ),
    "irrelevant": (
        "The nearest rule is about something else; the document does not state this one.",
        "The cited section is on the same topic but does not say this.",
    ),
    "detail": ("The document does not say that this is done {claimed}.", "How this is to be done is not stated in the document."),
}  # fmt: skip
_BY_STATUS: dict[tuple[str, str], tuple[str, ...]] = {
    ("party", "contradicted"): ("The claim applies another party's rule to {party}.", "The document has a different rule for {party}."),
    ("party", "unsupported"): ("The document states no such rule for {party}.", "The rule is stated for {other}; of {party} it says nothing."),
    ("cause", "contradicted"): ("The document gives a different reason as the only one.", "The sole reason in the document is another one."),
    ("cause", "unsupported"): ("The document does not give this reason.", "The rule is in the document, but the reason is not."),
}  # fmt: skip
_SLOT = {
    "number": "quantity", "version": "quantity", "trigger": "anchor", "entity": "authority", "condition": "condition",
    "channel": "channel", "date": "date", "scope": "party", "condition_dropped": "condition", "detail": "channel",
    "exception_dropped": "exception", "exception_generalised": "condition", "modality": "modality",
}  # fmt: skip


def reason_for(draft: Draft, rule: Fact, voice: Voice) -> str:
    """The reason, with the values of both sides where they differ in one. `rule` has its terms resolved."""
    rng = voice.rng
    if draft.status == "supported":
        return rng.choice(_SUPPORTED)
    options = _BY_STATUS.get((draft.corruption, draft.status)) or _REASONS[draft.corruption]
    slot = _SLOT.get(draft.corruption, "")
    if slot == "quantity" and rule.frequency is not None:
        slot = "frequency"
    plain = replace(voice, focus=frozenset(), fresh=0.0)  # without span marks
    words = {
        "true": _words(getattr(rule, slot, None), plain),
        "claimed": _words(getattr(draft.claim, slot, None), plain),
        "party": _words(draft.claim.party, plain),
        "other": _words(rule.party, plain),
    }
    return sentence_case(rng.choice(options).format(**words))


def _words(value: object, voice: Voice) -> str:
    if isinstance(value, Concept | Term) and not isinstance(value, Quantity):
        return voice.word(value)
    if isinstance(value, Quantity):
        return voice.quantity(value)
    if isinstance(value, str):
        return _MODALITY.get(value, value)
    if isinstance(value, Action) or value is None:
        return ""
    return date_text(value, voice.dates)  # type: ignore[arg-type]


_MODALITY = {"must": "an obligation", "should": "a recommendation", "may": "a permission"}
