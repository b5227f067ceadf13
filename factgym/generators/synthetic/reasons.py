"""One sentence on why a claim has its status, for people and for supervised traces."""

from __future__ import annotations

from dataclasses import replace

from factgym.generators.synthetic.corruption import Draft
from factgym.generators.synthetic.facts import Action, Concept, Fact, Quantity, Term
from factgym.generators.synthetic.style import Voice
from factgym.generators.synthetic.words import date_text, sentence_case

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
    plain = replace_focus(voice)
    words = {
        "true": _words(getattr(rule, slot, None), plain),
        "claimed": _words(getattr(draft.claim, slot, None), plain),
        "party": _words(draft.claim.party, plain),
        "other": _words(rule.party, plain),
    }
    return sentence_case(rng.choice(options).format(**words))


def replace_focus(voice: Voice) -> Voice:
    """The same voice without span marks."""
    return replace(voice, focus=frozenset(), fresh=0.0)


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
