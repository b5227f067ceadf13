"""The SEVA environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from factgym.core.action import ParsedAction
from factgym.core.calls import ToolCall, find_placeholder
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, ToolResult
from factgym.core.errors import ToolError, did_you_mean
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.untrusted import delimited, neutralise
from factgym.envs.seva.submission import (
    IMPLICIT,
    SUBMIT,
    is_verdict,
    neutralise_json,
    review_draft,
    salvage_verdict,
    schema_errors,
    submit_schema,
    summarise_draft,
)
from factgym.envs.seva.tasks import SevaConfig, SevaTask, SevaTaskSet
from factgym.rewards.seva.output import ERROR_TYPES, FIELDS, JUDGMENTS, LABELS, NOT_FOUND, STATUSES, output_of
from factgym.rewards.seva.rubrics import RUBRICS, span_credits
from factgym.rewards.seva.scoring import DEFAULT_RULES, GROUNDED_COMPONENTS, SevaScore, score_output
from factgym.text.sentences import sentences

_PACKAGE = "factgym.envs.seva"
_MAX_NAME_CHARS = 80
_SOURCE_ID = "source"
_CALIBRATION_BOUNDS = {
    "calibration": (-DEFAULT_RULES.calibration_loss, DEFAULT_RULES.calibration_gain),
    "calibration_proper": (-DEFAULT_RULES.proper_loss, DEFAULT_RULES.calibration_gain),
}
"""Lowest and highest value of the components that are not in [0, 1]."""
_FIELD_OF = {
    "grounded_alignment": "evidence_alignment",
    "grounded_chain": "reasoning_chain",
    "diagnosis": "error type and fix",
    "diagnosis_by_label": "error type and fix",
    "calibration_proper": "confidence, from -.3 to .15,",
}
"""Component -> its name in the prompt, where that is another."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submitted verdict and its turn."""

    data: Mapping[str, Any]
    turn: int


class SevaEnv(Env[SevaTask]):
    """Decide whether a claim follows from its source, and give the grounds.

    ## Description
    One claim, one source, one structured verdict: an alignment of the claim's parts with spans of the source, a chain
    of judged steps, a label with a confidence, and for a claim that does not follow the type of error and a fix. After
    "SEVA: Self-Evolving Verification Agent with Process Reward for Fact Attribution".

    ## Task
    Attributable or Not Attributable: does the source alone support the whole claim? Generated claims retell a rule of
    their document faithfully or with one known error out of six categories; labels and categories are balanced. The
    environments over files read public benchmarks, and files of yours with claims, sources and labels.

    ## Tools
    `submit`. A JSON object in the text is a submission too: bare, fenced, tagged or among prose.

    ## Turn protocol
    One response. An unreadable response scores 0; an incomplete verdict is scored as it is. `seva-repair` has two: the
    first verdict is a draft, answered with the faults that a validator found (form, spans that are not verbatim,
    contradictions) or, if it found none, with the draft's own diagnosis. The second verdict is scored, and
    `metrics["draft"]` holds the score of the first. No answer depends on the gold.

    ## Rewards
    The paper's components, scored once: format, alignment, chain, label, diagnosis in [0, 1] and calibration in
    [-0.10, 0.15]; as a proper score it is .15 for a right label less .30 times the squared error of the confidence, in
    [-0.30, 0.15]. `reward="process"` is the paper's 70/30 sum, "binary" the label alone, "50/50" and the like are other
    splits. "grounded" has the weights of "process", but alignments and steps count
    only if their quotes occur in the source and bear on the claim, the outcome only if the label follows from them, and
    the calibration is a proper score. Quotes are compared word by word. What decides is the gold evidence of generated
    claims, elsewhere the sentences that share most words with the claim; quotes need three content words of it. Entries
    and steps that add no word of claim or source to those before them (repetitions, near-copies, paraphrases) lower their
    component, explanations beyond 500 characters do not count, and Attributable with an error type contradicts itself. The
    default, "balanced", is the grounded reward with 30 % for the process and 70 % for the outcome, and with the diagnosis
    normalised by label, so that a constant label earns the same whichever it is, half of the oracle's reward. The prompt
    states the rules and the weights. The highest reward is 1.15.

    ## Splits and licences
    Generated: validation 1,000, train 5,000, test 1,000, ood 1,000; no licence attaches. Files have one split, "test";
    `size` draws a stratified slice as the paper does. No data is part of the package: SEVA's slices and HaluEval are
    MIT, FEVER's sentences CC BY-SA, TruthfulQA Apache-2.0, ANLI CC BY-NC 4.0; ClearFacts states none.

    ## Determinism
    Generated claim *i* depends on (seed, split, i) alone, a slice on (file, size, seed). The same actions give the
    same bytes and the same reward.

    ## Known exploits
    `factgym audit` runs them. The paper's reward tests form alone: invented spans under a right label earn all of it,
    always naming an error earns more than naming none (R_d), and a confidence of 1 more than an honest one whenever the
    label is right more than two times in five. The grounded rewards pay for none of these. They do not test whether a
    status or a judgment is right, nor what an explanation explains beyond the words that it names; without gold evidence,
    the nearest sentence passes for the deciding one. Over files with unequal labels the frequent one earns its share.

    Public slices have cues in the claim alone. In TruthfulQA a question mark is the label; in HaluEval answers of at most
    five words are Attributable in 90 %, longer ones in 12 %. `cues="remove"` takes them out: TruthfulQA's claims become
    "question answer", of the best answer, which is the source itself, and of the incorrect one; of HaluEval's as many
    short answers are drawn of either label, and as many longer ones. `balance=True` draws as many claims of either label
    from a file, so that a constant label earns chance.

    The honest baseline of generated claims is a set of rules. Over files it is `fitted`: the rules' verdict and the relation
    of claim and source, weighed by the labels of other claims of the file, so that it is no worse than a constant.
    `factgym audit --search` passes, at its full budget, for generated claims and for FEVER, with its own labels and with
    balanced ones. It does not pass for TruthfulQA (a question mark is the label; without it the overlap with the source is the task), HaluEval
    (the length of the answer is the label; without that 22 fresh claims are too few), ClearFacts and ANLI (nothing that the
    baseline can see tells the labels apart, so that it is the constant: name one that reads with `--baseline`).

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = SevaConfig
    strategies: ClassVar[str] = "factgym.envs.seva.strategies:STRATEGIES"
    implicit: ClassVar[Mapping[str, str]] = IMPLICIT
    presets: ClassVar[Mapping[str, Any]] = {
        name: RUBRICS[name] for name in ("binary", "process", "grounded", "balanced")
    }
    config: SevaConfig
    tasks: SevaTaskSet

    def load_tasks(self) -> SevaTaskSet:
        return SevaTaskSet.of(self.config)

    def initial_messages(self, task: SevaTask) -> list[Message]:
        self._draft: Submission | None = None
        self._final: Submission | None = None
        weights = ", ".join(f"{_FIELD_OF.get(name, name)} {value:.2g}" for name, value in self._weights.items())
        system = "\n\n".join(fill(self._prompt(name), weights=weights) for name in self._system_prompts)
        source = delimited("document", task.source, self.nonce)
        user = fill(self._prompt("task"), source=source, claim=delimited("claim", task.claim, self.nonce, inline=True))
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def _prompt(self, name: str) -> str:
        return prompt(_PACKAGE, name, self.config.prompt)

    @property
    def _system_prompts(self) -> tuple[str, ...]:
        # The published rewards test form alone, so the rules of the grounded ones are stated where these count.
        scoring = ("scoring",) if any(name in self._weights for name in GROUNDED_COMPONENTS) else ()
        return ("system", *scoring, *(("repair",) if self.config.repair else ()))

    @property
    def _weights(self) -> Mapping[str, float]:
        return self.config.rubric.weights

    def prompt_hashes(self) -> dict[str, str]:
        names = [*self._system_prompts, "task", *(("complaint", "diagnosis") if self.config.repair else ())]
        return {name: prompt_hash(self._prompt(name)) for name in names}

    def available_tools(self) -> Sequence[ToolSchema]:
        return (submit_schema(self.config.prompt),)

    def checked_tools(self) -> Sequence[ToolSchema]:
        return (submit_schema(),)

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action; a verdict in broken JSON is recovered."""
        call = salvage_verdict(parsed)
        return super().tool_results(parsed if call is None else replace(parsed, items=(call,)))

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Accept a verdict; a draft is answered with its review."""
        if call.name != SUBMIT:
            name = call.name[:_MAX_NAME_CHARS]
            message = f"There is no tool {name!r} here.{did_you_mean(name, [SUBMIT])} Tools: {SUBMIT}."
            raise ToolError("unknown_tool", message)
        if not is_verdict(call.arguments):
            message = f"The arguments of {SUBMIT!r} hold none of the verdict's fields: {', '.join(FIELDS)}."
            raise ToolError("invalid_arguments", message)
        if all(find_placeholder(value) is not None for value in call.arguments.values()):
            raise ToolError("placeholder", "The arguments are placeholders, no verdict: write your own.")
        submission = Submission(neutralise_json(call.arguments), len(self.episode.turns))
        text = "Submitted. The episode is over."
        if self.config.repair and self._draft is None and self.config.max_turns - submission.turn > 1:
            self._draft = submission
            draft = output_of(submission.data)
            faults = "\n".join(f"- {fault}" for fault in review_draft(draft, self.task.claim, self.task.source))
            if faults:
                text = fill(self._prompt("complaint"), complaints=faults)
            else:
                text = fill(self._prompt("diagnosis"), diagnosis=summarise_draft(draft))
        elif self._draft is not None and self._draft.turn == submission.turn:
            message = "One verdict a turn: read what was noticed about the draft first."
            raise ToolError("one_at_a_time", message)
        else:
            self._final = submission
            self.finish()
        return ToolResult(text, SUBMIT, call.arguments, call_id=call.id)

    def score(self) -> RewardReport:
        """Score the final verdict, or a draft that the episode ended with, under the configured rubric."""
        rubric, submission = self.config.rubric, self._final
        if submission is None and self._draft is not None and self._draft.turn == len(self.episode.turns) - 1:
            submission = self._draft
        score = self._score(submission)
        spans: tuple[SpanCredit, ...] = ()
        if submission is not None:
            message = self.episode.turns[submission.turn].message
            text = message_text(self.episode.messages[message])
            spans = tuple(SpanCredit(message, *credit) for credit in span_credits(text, score, rubric))
        report = rubric.report(score.components, score.gates, spans=spans, metrics=score.facts)
        metrics: dict[str, Any] = {
            "benchmark": self.task.item.benchmark,
            "schema_ok": submission is not None and not schema_errors(submission.data),
        }
        if self.config.repair:
            draft = self._draft
            metrics["draft"] = None if draft is None else self._draft_metrics(draft, report.total or 0.0)
        return replace(report, metrics={**report.metrics, **metrics})

    def _score(self, submission: Submission | None) -> SevaScore:
        output = None if submission is None else output_of(submission.data)
        return score_output(output, self.task.gold, claim=self.task.claim, source=self.task.source)

    def _draft_metrics(self, draft: Submission, final_total: float) -> dict[str, Any]:
        score = self._score(draft)
        total = self.config.rubric.total(score.components, score.gates)
        return {
            "total": total,
            "verdict": score.facts["verdict"],
            "correct": score.facts["correct"],
            "complaints": len(review_draft(output_of(draft.data), self.task.claim, self.task.source)),
            "gain": final_total - total,
        }

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward that the rubric can give, for positive weights."""
        rubric = self.config.rubric
        bounds = [(weight, _CALIBRATION_BOUNDS.get(name, (0.0, 1.0))) for name, weight in rubric.weights.items()]
        lowest = 0.0 if getattr(rubric, "floor", False) else sum(weight * low for weight, (low, _) in bounds)
        return lowest, sum(weight * high for weight, (_, high) in bounds)

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> dict[str, Any]:
        return {"tool": SUBMIT, "arguments": _ask_for_verdict(self.task.claim, ask)}

    def gold_lines(self) -> list[str]:
        gold, meta = self.task.gold, self.task.item.meta
        lines = [f"Gold label: {gold.label}" + (f" ({gold.error_type})" if gold.error_type else "")]
        return [*lines, *(f"  {meta[key]}" for key in ("span", "reason") if meta.get(key))]

    def view_task(self, task: SevaTask) -> dict[str, Any]:
        """Return claim and source with the gold, in the form that records of checked claims share."""
        meta = task.item.meta
        length = len(task.source)
        gold = {
            "text": task.claim,
            "status": task.gold.label,
            "facts": [[_SOURCE_ID, start, end] for start, end in meta.get("evidence", ()) if end <= length],
            "unsupported_span": neutralise(str(meta.get("span", ""))),
            "reason": str(meta.get("reason", "")),
        }
        return {
            "question": "Is the claim attributable to the source?",
            "answer": task.claim,
            "passages": [{"id": _SOURCE_ID, "title": task.item.benchmark, "text": task.source}],
            "gold": {"verdict": task.gold.label, "error_type": task.gold.error_type, "claims": [gold]},
        }


def _ask_for_verdict(claim: str, ask: Callable[[str, Sequence[str]], str]) -> dict[str, Any]:
    """Return a verdict with one entry and one step for each sentence of the claim."""
    alignments, chain = [], []
    for start, end in sentences(claim) or [(0, len(claim))]:
        part = claim[start:end]
        status = ask(f"status of “{part}”", STATUSES)
        is_found = status != "not_found"
        source = ask("words of the source, verbatim", ()) if is_found else NOT_FOUND
        judgment = JUDGMENTS[STATUSES.index(status)] if is_found else JUDGMENTS[1]
        alignments.append({"claim_span": part[:200], "source_span": source, "status": status})
        explanation = ask("why, in a sentence that names what was compared", ())
        chain.append({"claim_part": part, "source_evidence": source, "judgment": judgment, "explanation": explanation})
    label = ask("label", LABELS)
    try:
        confidence = min(1.0, max(0.0, float(ask("confidence from 0 to 1", ()))))
    except ValueError:
        confidence = 0.5
    verdict: dict[str, Any] = {
        "evidence_alignment": alignments,
        "reasoning_chain": chain,
        "label": label,
        "confidence": confidence,
    }
    if label == LABELS[1]:
        verdict |= {"error_type": ask("error type", ERROR_TYPES), "fix_suggestion": ask("smallest correction", ())}
    return verdict
