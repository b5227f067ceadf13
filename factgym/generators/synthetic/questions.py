"""Questions about a rule: they ask for what a claim answers, and never give the answer away."""

from __future__ import annotations

from factgym.generators.synthetic.clause import Clause, is_duration
from factgym.generators.synthetic.facts import Fact, Quantity
from factgym.generators.synthetic.grammar import compile_frame, fill
from factgym.generators.synthetic.style import Voice
from factgym.generators.synthetic.words import sentence_case

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
