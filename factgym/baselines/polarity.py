"""Plain contradictions, over the NLI-style verifier: a denial beside the affirmation of the same thing, and opposites.

`nli` weighs features that were fitted to rules that differ in a word; it does not compare the polarity of predicates, and
calls "Refunds are never paid" supported by "Refunds are paid within 14 days". Here they are compared, as natural logic does
(MacCartney and Manning, "Modeling semantic containment and exclusion in natural language inference", COLING 2008): a
clause is a set of content words with a sign, which a denial and each word of a pair of opposites turn. A denial is
contradicted by a sentence that affirms at least as much, an affirmation by a denial or opposite of at most as much.
Statements that the words do not decide stay as `nli` has them, except that a denial needs evidence that denies something.
So do all over long sentences, as those of contracts, where the scope of a denial is not known: of 8 claims of ContractNLI
that the rules turned there, 2 were turned rightly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from factgym.baselines.evidence import PHRASES, Evidence, Sentence, alternatives, stem, token_key, tokenize
from factgym.baselines.nli import Prediction
from factgym.baselines.semantics import NOT_A_BOUND, clauses, main_clause
from factgym.text.sentences import strip_full_stop


def _pattern(*lists: tuple[str, str], but_not: str = "") -> re.Pattern[str]:
    words = "|".join(alternatives(table, name) for table, name in lists)
    return re.compile(rf"\b(?:{words})\b{but_not}", re.I)


_DENIES_NOTHING = rf"{NOT_A_BOUND}(?!{alternatives('polarity', 'no_denial')})"
_DENIAL = _pattern(("modality", "must_not"), ("polarity", "denial"), but_not=_DENIES_NOTHING)
_UNIVERSAL_DENIAL = _pattern(("polarity", "universal_denial"), but_not=_DENIES_NOTHING)
_NO_DUTY, _OMISSION = _pattern(("modality", "need_not")), _pattern(("polarity", "omission"))
_LIMITING = _pattern(("polarity", "omission"), ("polarity", "limiting"))
_SEGMENT_END = re.compile(r"[;:]|,(?!\d)|\b(?:but|while|whereas|although|though|however)\b", re.I)
_WORD_LIST = re.compile(r"\b\w++(?:, \w++){1,8},? (?:or|nor) \w++")
_ALTERNATIVES = re.compile(r"\b\w++(?:(?: (?:or|nor) |/)\w++){1,8}")
_LIGHT = frozenset(token_key(word) for word in PHRASES["polarity"]["light"].split())
_MIN_SHARE = 0.5
"""Of the words of an affirmation that a sentence denies."""


def _opposites() -> Mapping[str, tuple[str, int]]:
    """Return key of a word -> name of its pair and the word's sign."""
    signs: dict[str, tuple[str, int]] = {}
    for line in PHRASES["polarity"]["opposites"].strip().splitlines():
        name = f"±{stem(line.split()[0])}"
        for sign, side in zip((1, -1), line.split(" | "), strict=True):
            for word in side.split():
                signs.setdefault(token_key(word), (name, sign))
    return signs


_OPPOSITES = _opposites()


@dataclass(frozen=True, slots=True)
class Polarity:
    """A clause as content words with a sign.

    keys: its content words but those that deny, opposites by the name of their pair. core: those that are neither light
    verbs nor part of a time. opposites: pair -> sign of the word. is_denial: whether it denies something; is_universal:
    of all cases. is_limited: whether a condition or an exception limits it. alternatives: the words of each "A or B" that
    it denies.
    """

    keys: frozenset[str]
    core: frozenset[str]
    opposites: Mapping[str, int]
    is_denial: bool
    is_universal: bool
    is_limited: bool
    alternatives: tuple[frozenset[str], ...] = ()

    def sign(self, pairs: Collection[str]) -> int:
        """Return the sign (1 or -1) that denial and the words of these pairs give; 0 where a pair is missing."""
        return math.prod(self.opposites.get(name, 0) for name in pairs) * (-1 if self.is_denial else 1)

    def shared_with(self, claimed: Polarity) -> frozenset[str]:
        """Return the claim's core words in this clause, if nothing else is in it, nor a limit, that the claim lacks.

        Who denies "A or B" denies A (De Morgan): alternatives to a word of the claim are left out.
        """
        others = [group - claimed.keys for group in self.alternatives if group & claimed.keys]
        is_within = self.keys - _LIGHT - frozenset().union(*others) <= claimed.keys
        return claimed.core & self.keys if is_within and not self.is_limited else frozenset()


def polarity_of(text: str) -> Polarity | None:
    """Return the polarity of a clause; None where it has no single one.

    So it is of clauses with both words of a pair, with several denials, without a duty, too long or without content.
    """
    clause, parts = main_clause(text), clauses(text)
    denials = [match.span() for match in _DENIAL.finditer(clause)]
    if len(denials) > 1:
        return None
    times = {offset for part in parts if part.kind == "time" for offset in range(part.start, part.end)}
    opposites: dict[str, int] = {}
    keys: set[str] = set()
    core: set[str] = set()
    for token in tokenize(clause):
        name, sign = _OPPOSITES.get(token.key, (token.key, 0))
        if not sign and (not token.is_content or any(start <= token.start < end for start, end in denials)):
            continue
        if sign and opposites.setdefault(name, sign) != sign:
            return None
        keys.add(name)
        if name not in _LIGHT and token.start not in times:
            core.add(name)
    if not keys or _NO_DUTY.search(clause):
        return None
    return Polarity(
        keys=frozenset(keys),
        core=frozenset(core),
        opposites=opposites,
        is_denial=bool(denials),
        is_universal=_UNIVERSAL_DENIAL.search(clause) is not None,
        is_limited=any(part.kind == "limit" for part in parts),
        alternatives=tuple(
            frozenset(_OPPOSITES.get(token.key, (token.key, 0))[0] for token in tokenize(match[0]) if token.is_content)
            for match in (_ALTERNATIVES.finditer(clause) if denials else ())
        ),
    )


def _clauses_of(sentence: Sentence) -> Iterator[tuple[str, Polarity]]:
    """Yield the parts of a sentence that a denial does not leave, and all of it where nothing is denied, with polarity."""
    text, denies = sentence.text, _DENIAL.search(sentence.text)
    if denies:  # "do not share, rent or sell" is no three segments
        text = _WORD_LIST.sub(lambda match: re.sub(r", (?:n?or )?", " or ", match[0]), text)
    parts = _SEGMENT_END.split(text)
    if len(parts) > 1 and not denies:
        parts.append(text)
    for part in parts:
        polarity = polarity_of(part)
        if polarity is not None:
            yield part, polarity


def contradicts(sentence: Sentence, claimed: Polarity) -> bool:
    """Return whether a sentence says plainly the opposite of a claim."""
    for part, written in _clauses_of(sentence):
        if written.sign(claimed.opposites) != -claimed.sign(claimed.opposites):
            continue
        if claimed.is_denial:
            # Whatever is denied of all cases is affirmed of some, even under a condition.
            essential = claimed.keys - _LIGHT
            is_covered = claimed.keys <= written.keys or (essential <= written.keys and _LIGHT & written.keys)
            is_decided = claimed.is_universal or not written.is_limited
            if essential and is_covered and is_decided and not _OMISSION.search(main_clause(part)):
                return True
        elif (shared := written.shared_with(claimed)) and len(shared) >= _MIN_SHARE * len(claimed.core):
            return True
    return False


def can_deny(sentence: Sentence, claimed: Polarity) -> bool:
    """Return whether a denial can rest on a sentence: on a denial, an opposite, a limit or an omission."""
    if _DENIAL.search(sentence.text) or _LIMITING.search(sentence.text):
        return True
    sign = claimed.sign(claimed.opposites)
    return any(written.sign(claimed.opposites) == sign for _, written in _clauses_of(sentence))


def compare_polarity(prediction: Prediction, evidence: Evidence) -> Prediction:
    """Correct a prediction by the polarity of its statement where that decides."""
    statement = prediction.statement
    claimed = polarity_of(statement.text)
    if evidence.is_dense or claimed is None or claimed.is_limited or _SEGMENT_END.search(statement.text):
        return prediction
    text = strip_full_stop(statement.text)
    if prediction.status != "contradicted":
        opposed = [sentence for sentence in evidence.sentences if contradicts(sentence, claimed)]
        if opposed:
            nearest = max(opposed, key=lambda sentence: evidence.overlap(statement, sentence))
            return Prediction(statement, "contradicted", (nearest,), text, "The evidence says the opposite.")
    is_plain = claimed.is_denial and not _LIMITING.search(text)
    if prediction.status == "supported" and is_plain and not any(can_deny(s, claimed) for s in prediction.sentences):
        reason = "The evidence does not deny this."
        return replace(prediction, status="unsupported", unsupported_span=text, reason=reason)
    return prediction
