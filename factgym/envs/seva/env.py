"""The SEVA environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from factgym.core.action import ParsedAction
from factgym.core.calls import ToolCall
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, ToolResult
from factgym.core.errors import ToolError, did_you_mean
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.envs.seva.config import SevaConfig
from factgym.envs.seva.human import Ask, compose
from factgym.envs.seva.review import complaints, diagnosis, schema_errors
from factgym.envs.seva.submission import IMPLICIT, SUBMIT, harmless, is_verdict, salvaged, submit_schema
from factgym.envs.seva.tasks import SevaTask, SevaTaskSet, seva_tasks
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva import (
    DEFAULT_RULES,
    FIELDS,
    RUBRICS,
    SevaOutput,
    SevaScore,
    credit,
    output_of,
    report_of,
    score_output,
)
from factgym.tools.untrusted import neutralise

_PACKAGE = "factgym.envs.seva"
_NAME_CHARS = 80
_SOURCE = "source"
_CALIBRATION = {
    "calibration": (-DEFAULT_RULES.calibration_loss, DEFAULT_RULES.calibration_gain),
    "calibration_proper": (-DEFAULT_RULES.calibration_gain, DEFAULT_RULES.calibration_gain),
}
"""Components that are not in [0, 1]: lowest and highest value."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A verdict as it came, and the turn in which it did."""

    data: Mapping[str, Any]
    turn: int


class SevaEnv(Env[SevaTask]):
    """Decide whether a claim follows from its source, and show the work.

    ## What it is
    One claim, one source, one structured verdict: which parts of the claim stand where in the source, a chain of
    judged steps, a label with a confidence, and for a claim that does not follow the kind of error and a fix. After
    "SEVA: Self-Evolving Verification Agent with Process Reward for Fact Attribution".

    ## Task
    Attributable or Not Attributable: does the source alone carry the whole claim? Generated claims retell a rule of
    their document faithfully or with one known error out of six categories; labels and categories are balanced. The
    environments over files read public benchmarks, and files of yours with claims, sources and labels.

    ## Tools
    `submit`. A JSON object in the text is a submission too: bare, fenced, tagged or among prose.

    ## Turn protocol
    One response. What cannot be read scores 0; an incomplete verdict is scored as it is. `seva-repair` has two: the
    first verdict is a draft, answered with what a validator noticed (form, spans that are not verbatim,
    contradictions) or, where it noticed nothing, with the draft's own diagnosis. The second is the one that is
    scored, and `metrics["draft"]` holds what the first would have earned. No answer depends on the gold.

    ## Rewards
    The paper's components, scored once: format, alignment, chain, label, diagnosis in [0, 1] and calibration in
    [-0.10, 0.15] (as a proper score in [-0.15, 0.15]). `reward="process"` is the paper's 70/30 sum, "binary" the label alone, "50/50" and the like are
    other splits. The default, "grounded", has the same weights, but alignments and steps count only when their spans
    stand in claim and source, the outcome only when the label follows from them, and the calibration term is a proper
    score, which pays most for the true chance. The highest reward is 1.15.

    ## Splits and licences
    Generated: validation 1,000, train 5,000, test 1,000, ood 1,000; no licence attaches. Files have one split, "test";
    `size` draws a stratified slice as the paper does. No data is part of the package: SEVA's slices and HaluEval are
    MIT, FEVER's sentences CC BY-SA, TruthfulQA Apache-2.0, ANLI CC BY-NC 4.0; ClearFacts states none.

    ## Determinism
    Generated claim *i* depends on (seed, split, i) alone, a slice on (file, size, seed). The same actions give the
    same bytes and the same reward.

    ## Known exploits
    `factgym audit` plays them. The paper's reward looks at form alone: invented spans under a right label earn all of
    it, and naming an error always is worth more than naming none (R_d). The grounded reward pays for neither, but it
    does not ask whether a verbatim span is the right one. Under the paper's reward a confidence of 1 earns more than an
    honest one whenever the label is right more than two times in five; under the grounded one it does not. Over files with unequal labels the frequent one earns
    its share. In TruthfulQA's slices a question mark tells the label.

    ## Versions
    v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = SevaConfig
    implicit: ClassVar[Mapping[str, str]] = IMPLICIT
    config: SevaConfig
    tasks: SevaTaskSet

    def load_tasks(self) -> SevaTaskSet:
        """The shared task set of this configuration."""
        return seva_tasks(self.config)

    def initial_messages(self, task: SevaTask) -> list[Message]:
        """The instructions, and the source with the claim."""
        self._draft: Submitted | None = None
        self._final: Submitted | None = None
        system = "\n\n".join(prompt(_PACKAGE, name) for name in self._instructions)
        said = fill(prompt(_PACKAGE, "task"), source=task.source, claim=task.claim)
        return [{"role": "system", "content": system}, {"role": "user", "content": said}]

    @property
    def _instructions(self) -> tuple[str, ...]:
        """The prompts that make up the system message."""
        return ("system", "repair") if self.config.repair else ("system",)

    def available_tools(self) -> Sequence[ToolSchema]:
        """`submit`."""
        return (submit_schema(),)

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action; a verdict in broken JSON is recovered."""
        found = salvaged(parsed)
        return super().tool_results(parsed if found is None else replace(parsed, items=(found,)))

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Take a verdict; where it is a draft, say what was noticed."""
        if call.name != SUBMIT:
            name = call.name[:_NAME_CHARS]
            raise ToolError(
                "unknown_tool", f"There is no tool {name!r} here.{did_you_mean(name, [SUBMIT])} Tools: {SUBMIT}."
            )
        if not is_verdict(call.arguments):
            message = f"The arguments of {SUBMIT!r} hold none of the verdict's fields: {', '.join(FIELDS)}."
            raise ToolError("invalid_arguments", message)
        submitted = Submitted(harmless(call.arguments), len(self.episode.turns))
        if self.config.repair and self._draft is None and self.config.max_turns - submitted.turn > 1:
            self._draft = submitted
            return ToolResult(self._noticed(output_of(submitted.data)), SUBMIT, call.arguments, call_id=call.id)
        if self._draft is not None and self._draft.turn == submitted.turn:
            message = "One verdict a turn: read what was noticed about the draft first."
            raise ToolError("one_at_a_time", message)
        self._final = submitted
        self.finish()
        return ToolResult("Submitted. The episode is over.", SUBMIT, call.arguments, call_id=call.id)

    def _noticed(self, draft: SevaOutput) -> str:
        found = complaints(draft, self.task.claim, self.task.source)
        if found:
            listed = "\n".join(f"- {one}" for one in found)
            return fill(prompt(_PACKAGE, "complaint"), complaints=listed)
        return fill(prompt(_PACKAGE, "diagnosis"), diagnosis=diagnosis(draft))

    @property
    def _counted(self) -> Submitted | None:
        """The verdict that is scored: the final one, or a draft to which nothing was said any more."""
        if self._final is None and self._draft is not None and self._draft.turn == len(self.episode.turns) - 1:
            return self._draft
        return self._final

    def score(self) -> RewardReport:
        """The components under the configured rubric."""
        counted = self._counted
        score = self._score(counted)
        report = report_of(score, self.config.rubric, self._spans(counted, score))
        return replace(report, metrics={**report.metrics, **self._metrics(counted, report)})

    def _score(self, submitted: Submitted | None) -> SevaScore:
        output = None if submitted is None else output_of(submitted.data)
        task = self.task
        return score_output(output, task.gold, claim=task.claim, source=task.source)

    def _spans(self, counted: Submitted | None, score: SevaScore) -> tuple[SpanCredit, ...]:
        if counted is None:
            return ()
        place = self.episode.turns[counted.turn].message
        text = message_text(self.episode.messages[place])
        return tuple(SpanCredit(place, *one) for one in credit(text, score, self.config.rubric))

    def _metrics(self, counted: Submitted | None, report: RewardReport) -> dict[str, Any]:
        item = self.task.item
        found: dict[str, Any] = {
            "benchmark": item.benchmark,
            "schema_ok": counted is not None and not schema_errors(counted.data),
        }
        if self.config.repair:
            found["draft"] = self._draft_metrics(report)
        return found

    def _draft_metrics(self, report: RewardReport) -> dict[str, Any] | None:
        """What the draft would have earned; None where there was none."""
        if self._draft is None:
            return None
        score = self._score(self._draft)
        total = self.config.rubric.total(score.components, score.gates)
        noticed = complaints(output_of(self._draft.data), self.task.claim, self.task.source)
        return {
            "total": total,
            "verdict": score.label,
            "correct": score.correct,
            "complaints": len(noticed),
            "gain": (report.total or 0.0) - total,
        }

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward that the rubric can give, its weights taken as positive."""
        rubric = self.config.rubric
        bounds = [(weight, _CALIBRATION.get(name, (0.0, 1.0))) for name, weight in rubric.weights.items()]
        low = 0.0 if getattr(rubric, "floor", False) else sum(weight * least for weight, (least, _) in bounds)
        return low, sum(weight * most for weight, (_, most) in bounds)

    def rubrics(self) -> tuple[dict[str, Rubric], str]:
        """The rewards that an audit compares, by name, and the name of the environment's own."""
        own = self.config.rubric
        known = {name: RUBRICS[name] for name in ("binary", "process", "grounded")}
        name = own.name if RUBRICS.get(own.name, own) == own else f"{own.name} (own)"
        return {**known, name: own}, name

    def prompt_human(self, ask: Ask) -> dict[str, Any]:
        """A submission asked for part by part, for a person who plays."""
        return {"tool": SUBMIT, "arguments": compose(self.task, ask)}

    def gold_lines(self) -> list[str]:
        """What is true of the task, for a person who has played it."""
        gold, meta = self.task.gold, self.task.item.meta
        lines = [f"Gold label: {gold.label}" + (f" ({gold.error_type})" if gold.error_type else "")]
        return [*lines, *(f"  {meta[key]}" for key in ("span", "reason") if meta.get(key))]

    def view_task(self, task: SevaTask) -> dict[str, Any]:
        """Claim and source with the gold, in the form that records of checked claims share."""
        meta = task.item.meta
        length = len(task.source)
        facts = [[_SOURCE, start, end] for start, end in meta.get("evidence", ()) if end <= length]
        gold = {
            "text": task.claim,
            "status": task.gold.label,
            "facts": facts,
            "unsupported_span": neutralise(str(meta.get("span", ""))),
            "reason": str(meta.get("reason", "")),
        }
        return {
            "question": "Is the claim attributable to the source?",
            "answer": task.claim,
            "passages": [{"id": _SOURCE, "title": task.item.benchmark, "text": task.source}],
            "gold": {"verdict": task.gold.label, "error_type": task.gold.error_type, "claims": [gold]},
        }

    def prompt_hashes(self) -> dict[str, str]:
        """The instructions, the form of the task, and what a draft is answered with."""
        names = [*self._instructions, "task", *(("complaint", "diagnosis") if self.config.repair else ())]
        return {name: prompt_hash(prompt(_PACKAGE, name)) for name in names}
