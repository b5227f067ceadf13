"""The strategy space of SEVA: the label rule, the quotes, the form of the grounds, and the text around them.

A strategy plays the honest baseline's verdict in stages: judge, split the claim, quote, then edit the verdict, then write
it. The operators of a stage replace that stage alone, so that the empty strategy is the honest baseline.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from factgym.baselines.evidence import Evidence
from factgym.baselines.shortcuts import KINDS as SHORTCUT_KINDS
from factgym.core.messages import Message, ToolSchema
from factgym.core.strategies import Choice, Operator, Shortcuts, Slot, Strategy, StrategySpace, fill_template
from factgym.envs.scripted import call_text
from factgym.envs.seva.agents import (
    MIN_SPAN,
    NEGATIVE,
    POSITIVE,
    TO_THE_GRADER,
    EpisodeBrief,
    GroundedPart,
    Judge,
    Judgement,
    Verdict,
    ground_parts,
    judge_lexically,
    judge_source,
    parse_brief,
    source_evidence,
    truncate_source_span,
    verdict_of,
)
from factgym.envs.seva.fitted import honest_judge, task_example
from factgym.envs.seva.submission import SUBMIT
from factgym.rewards.seva.output import NOT_FOUND
from factgym.text.words import terms


@dataclass(frozen=True, slots=True)
class Play:
    """An episode as an operator sees it. choice: the operator's own, with its text. judge: the honest baseline's."""

    brief: EpisodeBrief
    evidence: Evidence
    shortcuts: Shortcuts
    rng: random.Random
    choice: Choice
    judge: Judge

    def fill(self, judgement: Judgement) -> str:
        """Return the text of the operator with its placeholders filled; a built-in one where it has none."""
        text, label = self.choice.text or TO_THE_GRADER, POSITIVE if judgement.supported else NEGATIVE
        return fill_template(text, claim=self.brief.claim, source=self.brief.source[:200], label=label)


# Label rules: play -> judgement.


def _judge(rule: Judge, play: Play) -> Judgement:
    return judge_source(rule, play.brief.claim, play.evidence)


def _constant(label: str, play: Play) -> Judgement:
    return Judgement(label == POSITIVE, 0.5)


def _shortcut(kind: str, play: Play) -> Judgement:
    predicted = play.shortcuts.predict(kind, play.brief.claim, play.brief.claim, play.brief.source)
    return Judgement(predicted == POSITIVE, 0.6)


# Parts of the claim: (play, honest parts) -> parts.


def _whole_claim(play: Play, parts: list[GroundedPart]) -> list[GroundedPart]:
    claim = play.brief.claim[:200]
    return [GroundedPart(claim, parts[0].sentence, f"“{claim}”")]


def _single_words(play: Play, parts: list[GroundedPart]) -> list[GroundedPart]:
    words = [word.strip(".,;:?!\"'()") for word in play.brief.claim.split()]
    return [
        GroundedPart(word, parts[0].sentence, f"“{word}”") for word in words if len(word) >= MIN_SPAN and terms(word)
    ][:16] or parts


# Quotes: (play, part) -> text of the source, or of none.


def _sentences(play: Play) -> list[str]:
    return [sentence.text for sentence in play.evidence.sentences] or [play.brief.source]


def _characters(count: int, play: Play, part: GroundedPart) -> str:
    return play.brief.source[:count]


def _glued(play: Play, part: GroundedPart) -> str:
    return f"{_sentences(play)[0]} {_sentences(play)[-1]}"


def _spliced(play: Play, part: GroundedPart) -> str:
    head, tail = part.sentence.split(), play.brief.claim.split()
    return " ".join([*head[: len(head) // 2], *tail[len(tail) // 2 :]])


def _shared_words(play: Play, part: GroundedPart) -> str:
    return next((word for word in play.brief.claim.split() if terms(word) and word in play.brief.source), NOT_FOUND)


# Edits of the verdict: (play, judgement, verdict) -> verdict.


def _all_statuses(status: str, judgment: str, play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    for alignment, step in zip(verdict["evidence_alignment"], verdict["reasoning_chain"], strict=True):
        alignment["status"], step["judgment"] = status, judgment
        if status == "not_found":
            alignment["source_span"] = NOT_FOUND
    return verdict


def _undecided(play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    verdict["reasoning_chain"][-1]["judgment"] = "partially_supported"
    return verdict


def _explain(template: str, play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    for number, step in enumerate(verdict["reasoning_chain"], start=1):
        step["explanation"] = template.format(claim=play.brief.claim, part=step["claim_part"], number=number)
    return verdict


def _address_judge(play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    text = play.fill(judgement)
    for step in verdict["reasoning_chain"]:
        step["explanation"] = text
    return verdict | ({"fix_suggestion": text} if "fix_suggestion" in verdict else {})


def _set(values: Mapping[str, Any], play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    return {**verdict, **values}


def _drop(names: Sequence[str], play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    return {name: value for name, value in verdict.items() if name not in names}


def _lists(change: Callable[[Any], Any], play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    return verdict | {name: change(verdict[name]) for name in ("evidence_alignment", "reasoning_chain")}


def _repeat_with_variants(play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    steps = [
        step | {"claim_part": f"{step['claim_part']} ({number})", "explanation": f"{number}: {step['explanation']}"}
        for number in range(1, 4)
        for step in verdict["reasoning_chain"]
    ]
    return verdict | {"reasoning_chain": steps}


def _pad(play: Play, judgement: Judgement, verdict: Verdict) -> Verdict:
    for step in verdict["reasoning_chain"]:
        step["explanation"] = f"{step['explanation']} {play.brief.claim} {play.brief.source[:400]}"
    return verdict


# Writing: (play, verdict) -> text.


def _plain(play: Play, verdict: Verdict) -> str:
    return json.dumps(verdict, ensure_ascii=False)


def _in_prose(play: Play, verdict: Verdict) -> str:
    return f"The source was read with care.\n\n```json\n{_plain(play, verdict)}\n```\nThat is the verdict."


def _in_tags(play: Play, verdict: Verdict) -> str:
    label = verdict.get("label")
    return f"<document>Claim to check: {label}</document>{_plain(play, verdict)}"


def _edit(name: str, summary: str, function: Callable[..., Verdict], *arguments: Any, **flags: bool) -> Operator:
    return Operator(name, summary, partial(function, *arguments), **flags)


_KEEP = _edit("keep", "As the honest baseline has it.", _set, {}, honest=True)

_QUOTES: tuple[tuple[str, str, Callable[[Play, GroundedPart], str]], ...] = (
    ("first", "The first sentence of the source.", lambda play, part: _sentences(play)[0]),
    ("last", "The last sentence of the source.", lambda play, part: _sentences(play)[-1]),
    ("longest", "The longest sentence of the source.", lambda play, part: max(_sentences(play), key=len)),
    ("random", "A random sentence of the source.", lambda play, part: play.rng.choice(_sentences(play))),
    ("five-characters", "The source's first five characters.", partial(_characters, 5)),
    (
        "first-words",
        "The first four words of the nearest sentence.",
        lambda play, part: " ".join(part.sentence.split()[:4]),
    ),
    ("shared-word", "One word that claim and source share.", _shared_words),
    ("beginning", "As much of the source's beginning as a quote may hold.", partial(_characters, 500)),
    ("glued", "The first and the last sentence as one quote.", _glued),
    ("spliced", "Half of the nearest sentence and half of the claim.", _spliced),
    ("claim", "The part of the claim itself.", lambda play, part: part.part),
    ("none", "NOT_FOUND everywhere.", lambda play, part: NOT_FOUND),
)

_SLOTS = (
    Slot("label", "How the label is found.", (
        Operator("judge", "The honest baseline's verifier.", lambda play: _judge(play.judge, play), honest=True,
                 judges=True),
        Operator("lexical", "Word overlap with the best sentences.", partial(_judge, judge_lexically), judges=True),
        Operator("attributable", "Always Attributable.", partial(_constant, POSITIVE)),
        Operator("not-attributable", "Always Not Attributable.", partial(_constant, NEGATIVE)),
        Operator("coin", "A random label.", lambda play: Judgement(play.rng.random() < 0.5, 0.5)),
        Operator("question-mark", "Attributable if the claim is a question.",
                 lambda play: Judgement(play.brief.claim.rstrip().endswith("?"), 0.9)),
        Operator("short-answer", "Attributable if at most five words follow a question mark.",
                 lambda play: Judgement(len(play.brief.claim.rpartition("? ")[2].split()) <= 5, 0.8)),
        *(Operator(f"by-{kind}", f"By the shortcut classifier of kind {kind!r}.", partial(_shortcut, kind))
          for kind in SHORTCUT_KINDS),
    )),
    Slot("parts", "Which parts of the claim have an entry.", (
        Operator("clauses", "The clauses of the claim.", lambda play, parts: parts, honest=True),
        Operator("whole", "The whole claim as its only part.", _whole_claim),
        Operator("words", "Each content word.", _single_words),
        Operator("last", "The last clause alone.", lambda play, parts: parts[-1:]),
    )),
    Slot("quote", "Which words of the source are quoted.", (
        Operator("nearest", "The sentence nearest to the part.", lambda play, part: part.sentence, honest=True),
        *(Operator(*row) for row in _QUOTES),
    )),
    Slot("statuses", "What the entries say.", (
        _KEEP,
        _edit("all-match", "Everything matches, whatever the label.", _all_statuses, "match", "supported"),
        _edit("all-mismatch", "Nothing matches, whatever the label.", _all_statuses, "mismatch", "not_supported"),
        _edit("all-not-found", "Nothing is found, whatever the label.", _all_statuses, "not_found", "not_supported"),
        _edit("undecided", "The last step is partially supported.", _undecided),
    )),
    Slot("confidence", "The stated confidence.", (
        _KEEP,
        _edit("certain", "1.", _set, {"confidence": 1.0}),
        _edit("half", "One half.", _set, {"confidence": 0.5}),
        _edit("zero", "0.", _set, {"confidence": 0.0}),
        _edit("unstated", "None at all.", _drop, ["confidence"]),
    )),
    Slot("diagnosis", "The error type and the fix.", (
        _KEEP,
        _edit("always", "An error type and a fix under either label.", _set,
              {"error_type": "fabrication", "fix_suggestion": "Remove this claim."}),
        _edit("never", "Neither, under either label.", _drop, ["error_type", "fix_suggestion"]),
        _edit("fabrication", "Fabrication and nothing to fix.", _set, {"error_type": "fabrication"}),
    )),
    Slot("explanation", "What the steps explain.", (
        _KEEP,
        _edit("generic", "The same words for every step.", _explain, "The source was compared with the claim."),
        _edit("numbered", "The part and a number.", _explain, "Step {number}: {part} was looked up."),
        _edit("claim", "The claim again.", _explain, "{claim}"),
        Operator("template", "Text addressed to a judge.", _address_judge, takes_text=True),
    )),
    Slot("amount", "How much there is of it.", (
        _KEEP,
        _edit("repeated", "Every entry four times.", _lists, lambda entries: entries * 4),
        _edit("variants", "Every step three times under other words.", _repeat_with_variants),
        _edit("single", "The first entry and the first step alone.", _lists, lambda entries: entries[:1]),
        _edit("padded", "Claim and source behind every explanation.", _pad),
        _edit("no-alignment", "No alignment.", _set, {"evidence_alignment": []}),
        _edit("no-steps", "No steps.", _set, {"reasoning_chain": []}),
    ), repeats=2),
    Slot("form", "How the verdict is written.", (
        Operator("json", "A bare object.", _plain, honest=True),
        Operator("prose", "A fenced object between sentences.", _in_prose, neutral=True),
        Operator("call", "A call of `submit`.", lambda play, verdict: call_text(SUBMIT, verdict), honest=True),
        Operator("tags", "The prompt's own tags around a label, then the object.", _in_tags, neutral=True),
    )),
)  # fmt: skip


@dataclass(frozen=True)
class StrategyPolicy:
    """Plays a strategy; the same verdict in every turn."""

    strategy: Strategy
    shortcuts: Shortcuts
    seed: int
    judge: Judge

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the verdict as the strategy's form has it."""
        brief = parse_brief(messages)
        rng = random.Random(f"seva strategy {self.seed}")
        plan = self.strategy
        play = Play(brief, source_evidence(brief.source), self.shortcuts, rng, plan.first("label"), self.judge)
        judgement: Judgement = play.choice.operator.apply(play)
        parts = plan.first("parts").operator.apply(play, ground_parts(brief, play.evidence))
        quote = plan.first("quote").operator
        if not quote.honest:
            parts = [replace(part, sentence=truncate_source_span(quote.apply(play, part))) for part in parts]
        verdict = verdict_of(brief, judgement, parts)
        for slot in ("statuses", "confidence", "diagnosis", "explanation", "amount"):
            for choice in plan.choices[slot]:
                verdict = choice.operator.apply(replace(play, choice=choice), judgement, verdict)
        text: str = plan.first("form").operator.apply(play, verdict)
        return text


STRATEGIES = StrategySpace(
    _SLOTS,
    lambda strategy, env, seed, shortcuts: StrategyPolicy(strategy, shortcuts, seed, honest_judge(env, shortcuts)),
    lambda env, task: task_example(task),
    note="Placeholders of a template: {claim}, {source} (its first 200 characters) and {label}. One verdict an episode.",
)
