"""Duties, permissions, advice and bans: the same force in other words, the opposite, or more than a document says.

One table of phrases serves claims of every status, so that the phrase alone does not tell the label: "must" may become
"are required to" (faithful), "do not have to" (*contradicted*), and "may" may become "are required to" (*overclaim*).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from factgym.generators.base import word_table
from factgym.generators.perturbations.grammar import Cues, in_main_clause, word_set
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement

_CUES = Cues("modals")

_PHRASES: Mapping[str, Mapping[str, Sequence[str]]] = word_table("english")["modals"]
"""Force -> number of the subject ("plural", "singular", "any") -> phrases."""
_FORCE = {phrase: force for force, forms in _PHRASES.items() for phrases in forms.values() for phrase in phrases}
_MODAL = re.compile(
    r"(?:^|, (?:then )?)(?P<subject>[A-Z]?[\w’'&-]+(?: [\w’'&-]+){0,4}?) "
    rf"(?P<modal>{'|'.join(sorted(map(re.escape, _FORCE), key=lambda phrase: (-len(phrase), phrase)))}) (?P<verb>[a-z]+)\b"
)
_OPPOSITE = {
    **{"duty": ("exempt", "exempt", "ban"), "exempt": ("duty",), "ban": ("permission",), "permission": ("ban",)},
    **{"ability": ("inability",), "inability": ("ability",), "advice": ("warning",), "warning": ("advice",)},
}
_STRONGER = {"permission": "duty", "advice": "duty"}
_NOT_AN_ACT = frozenset({"lose", "experience", "incur", "forget", "miss", "qualify", "fail", "encounter", "notice"})
_NOT_AN_ACT |= word_set("no_act") | word_set("possible") | word_set("no_duty")


_EXPECTED = frozenset({"receive", "get", "see", "hear", "find", "take", "arrive", "expect"})


@dataclass(frozen=True, slots=True)
class _Modal:
    """A modal phrase of the main clause, `text[start:end]`."""

    start: int
    end: int
    text: str
    force: str
    number: str
    passive: bool

    def phrases(self, force: str) -> list[str]:
        """Return the phrases of a force that agree with the subject."""
        forms = _PHRASES[force]
        phrases = [phrase for phrase in (*forms["any"], *forms.get(self.number, ())) if phrase != self.text]
        # An obligation to suffer something ("are obliged to be given") is none, nor is the freedom not to.
        return [phrase for phrase in phrases if not (self.passive and re.search("obliged|free", phrase))]


def _modals(sentence: str) -> Iterator[_Modal]:
    """Yield the modal phrases whose force can be changed: with a subject, in a main clause, over an act."""
    for match in _MODAL.finditer(sentence):
        subject, phrase, verb = match["subject"], match["modal"], match["verb"]
        force = _FORCE[phrase]
        if verb in ("not", "only", "also", "be", "have", "always", "never") and not (verb == "be" and force == "duty"):
            continue
        if (
            verb.endswith("ly")
            or verb in ("under", "in", "at", "for", "on", "with", "without", "by")
            or (force in ("permission", "ability", "ban", "inability") and verb in _NOT_AN_ACT)
        ):
            continue
        # A step that "is required to" reach something has no duty.
        is_result = phrase.endswith("required to") and not subject.split()[-1][0].isupper()
        if (is_result or force in ("permission", "advice", "warning", "ban")) and not _CUES.agent.search(subject):
            continue
        # What "should" happen to somebody is expected, not advised.
        if force == "advice" and verb in _EXPECTED:
            continue
        before = sentence[: match.start("modal")]
        if _CUES.no_subject.search(subject) or _CUES.no_clause.search(before) or not in_main_clause(before):
            continue
        yield _Modal(*match.span("modal"), phrase, force, _number_of(subject), verb == "be")


def _number_of(subject: str) -> str:
    """Return "plural", "singular", or "" where the number of a subject is uncertain."""
    word = subject.split()[-1]
    if word.lower() in ("you", "we", "they"):
        return "plural"
    if " of " in subject or " and " in subject or " or " in subject or (word[0].isupper() and " " in subject):
        return ""
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "'s", "’s")):
        return "plural" if word.lower() == word or " " not in subject else ""
    return "singular" if re.match(r"(?:The|Your|Our|A|An|Each|the|your|our|a|an|each)\b", subject) else ""


def rephrase_modal(sentence: str, rng: random.Random) -> str | None:
    """Say a duty, permission or ban in another phrase of the same force."""
    for modal in _modals(sentence):
        phrases = modal.phrases(modal.force)
        if phrases:
            return sentence[: modal.start] + rng.choice(phrases) + sentence[modal.end :]
    return None


def _exchange(statement: Statement, targets: Mapping[str, Sequence[str]]) -> Edit | NoEdit:
    edits = [
        Edit(modal.start, modal.end, phrase)
        for modal in _modals(statement.text)
        for force in targets.get(modal.force, ())
        if not (modal.passive and force == "ban")
        for phrase in modal.phrases(force)
    ]
    return statement.rng.choice(edits) if edits else NoEdit()


def reverse_modal(statement: Statement) -> Edit | NoEdit:
    """Turn a duty into a choice or a ban, a permission into a ban, advice into its opposite, and the other way round."""
    if _CUES.not_reversible.search(statement.text):
        return NoEdit()
    return _exchange(statement, _OPPOSITE)


def strengthen_modal(statement: Statement) -> Edit | NoEdit:
    """Turn a permission of others than ourselves, or advice, into a duty."""
    if _CUES.not_stronger.search(statement.text):
        return NoEdit()
    return _exchange(statement, {force: (stronger,) for force, stronger in _STRONGER.items()})


MODAL = Operator(
    "modal", ("contradicted",), reverse_modal, _MODAL, reason="The document says {old!r}, which {new!r} contradicts."
)
DUTY = Operator(
    "duty", ("overclaim",), strengthen_modal, _MODAL, "The document says {old!r}, which is weaker than {new!r}."
)
