"""Verifiers without a model: the honest baseline of the audit, and a simpler one.

`nli` judges a claim about rules as ClaimCheck's honest baseline does (numbers, dates, polarity, modality, quantifiers,
conditions, aligned words; its weights were fitted to training splits of policy documents), and any other claim by its
words, names and denials; `lexical` judges by the share of the claim's words that the best sentences have. Both name the
error by what differs and show the sentences that they went by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from factgym.baselines.nli import nli
from factgym.baselines.polarity import force_of, opposed, wide
from factgym.baselines.reading import Line, Reading, Statement, pick, statement_of
from factgym.baselines.rule import bare
from factgym.baselines.spans import missing_span
from factgym.baselines.values import compare
from factgym.envs.seva.agents.grounds import broken, carried, pairs, reading
from factgym.envs.seva.agents.script import NEGATIVE, POSITIVE, Brief, Script, Verdict, verdict

_TIMES = frozenset({"date", "rate"})
_ENOUGH, _COVERED = 0.6, 0.75
_PRESCRIBING = frozenset({"must", "must_not", "should", "may", "need_not"})
_PRESCRIBED = 0.25
_DENIAL = re.compile(r"\b(?:not|never|no|only|incapable|refused|exclusively|solely)\b", re.I)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule says of a claim: whether the source carries it, what is wrong, and how often such words were right."""

    holds: bool
    confidence: float
    error_type: str = "fabrication"
    wrong: str = ""
    reason: str = ""


Rule = Callable[[Statement, Reading], Judgement]


def judge(asked: Statement, sentences: Reading) -> Judgement:
    """The honest rule: over texts that say what must and may be done, ClaimCheck's; over others, `judge_plain`.

    The confidences are about the shares of right answers: .72 on the training split; for the plain rule .61 to .86 on
    FEVER-Symmetric and HaluEval. Its threshold was set with the public slices in view: what it scores there is a floor
    for others, not a held-out result.
    """
    prescribing = sum(force_of(line.text)[0] in _PRESCRIBING for line in sentences.lines)
    if prescribing < _PRESCRIBED * len(sentences.lines):
        return judge_plain(asked, sentences)
    found = nli(asked, sentences)
    if found.status == "supported":
        return Judgement(True, 0.72)
    kind = error_type(asked, found.lines, found.status)
    return Judgement(False, 0.72, kind, found.span, found.reason)


def judge_plain(asked: Statement, sentences: Reading) -> Judgement:
    """Whether the source has the words and all names of the claim, and the claim denies or restricts nothing.

    Of a claim that is a question with its answer, the answer decides.
    """
    answer = statement_of(asked.text.rpartition("? ")[2] or asked.text)
    there = frozenset().union(*(line.keys for line in sentences.lines))
    unknown = sorted(answer.names - there)
    denied = _DENIAL.search(asked.text)
    covered = sentences.coverage(answer, sentences.lines) >= _COVERED
    if covered and not unknown and denied is None:
        return Judgement(True, 0.65)
    wrong = missing_span(answer, sentences.lines) or bare(answer.text)
    if covered and denied is not None and not unknown:
        return Judgement(False, 0.65, "negation_flip", denied[0], "The source affirms what the claim restricts.")
    kind = error_type(asked, tuple(pick(sentences, asked)), "unsupported")
    return Judgement(False, 0.65, "entity_substitution" if unknown and kind == "fabrication" else kind, wrong)


def judge_lexical(asked: Statement, sentences: Reading) -> Judgement:
    """By word overlap with the best sentences, unless one of the claim's values is another one there."""
    lines = pick(sentences, asked)
    if lines and sentences.coverage(asked, lines) >= _ENOUGH and not compare(asked, lines).conflicts:
        return Judgement(True, 0.55)
    return Judgement(
        False, 0.55, error_type(asked, lines, "unsupported"), missing_span(asked, lines) or bare(asked.text)
    )


def error_type(asked: Statement, lines: Sequence[Line], status: str) -> str:
    """The category that what differs belongs to."""
    values = compare(asked, lines)
    for value in (*values.conflicts, *(values.missing if status == "contradicted" else ())):
        return "temporal_shift" if value.unit in _TIMES else "numerical_exaggeration"
    if status == "overclaim":
        return "scope_inflation"
    if lines and opposed(force_of(asked.text)[0], force_of(lines[0].text)[0]) == "contradicted":
        return "negation_flip"
    if status == "contradicted":
        return "entity_substitution"
    there = frozenset().union(*(line.keys for line in lines))
    if asked.names and not asked.names <= there and len(asked.names & there) < len(asked.names):
        return "entity_substitution"
    return "scope_inflation" if wide(asked.text) and status != "unsupported" else "fabrication"


class Verifier(Script):
    """Judges by its rule and shows the sentences."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def verdict(self, brief: Brief) -> Verdict:
        """The judgement with its grounds."""
        sentences = reading(brief.source)
        asked = statement_of(brief.claim)
        if sentences.lines:
            return self.written(brief, sentences, self._rule(asked, sentences))
        return self.written(brief, sentences, Judgement(False, 0.5, "fabrication", bare(brief.claim)))

    def written(self, brief: Brief, sentences: Reading, found: Judgement) -> Verdict:
        """A judgement as a verdict; exploiters change this."""
        found_pairs = pairs(brief, sentences)
        if found.holds:
            return verdict(POSITIVE, found.confidence, *carried(found_pairs))
        grounds = broken(found_pairs, found.wrong, brief.source, found.reason)
        fix = (
            f"Replace or remove “{(found.wrong or brief.claim)[:200]}”, as the source has it otherwise or not at all."
        )
        return verdict(NEGATIVE, found.confidence, *grounds, found.error_type, fix)
