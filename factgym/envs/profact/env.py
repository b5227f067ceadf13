"""The ProFact environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from factgym.core.calls import ToolCall
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, ToolResult
from factgym.core.errors import ToolError
from factgym.core.messages import Message, ToolSchema
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.datasets.averitec import LABELS, NO_ANSWER, FactCheck, answer_string
from factgym.envs.profact.config import ProFactConfig
from factgym.envs.profact.credit import span_credits
from factgym.envs.profact.state import TOOLBOX, TOOLS, Desk, line, readable
from factgym.envs.profact.tasks import ProFactTask, ProFactTaskSet, profact_tasks
from factgym.rewards.profact.meteor import meteor
from factgym.rewards.profact.stages import RUBRICS, ProFactScore, is_grounded, score_stages
from factgym.rewards.rubric import Rubric
from factgym.tools.toolbox import failed

_PACKAGE = "factgym.envs.profact"
_PROMPTS = ("system", "claim", "ask", "search", "record", "verdict")

_INSTEAD = {
    "question": "Pose your questions with `ask` first.",
    "search": "Questions are posed once. Look for evidence with `search`, then `answer` the current question.",
    "verdict": "What is left is the `verdict`.",
}
"""Stage -> what to do, for a call that belongs to another one."""


@cache
def _schemas(names: tuple[str, ...]) -> tuple[ToolSchema, ...]:
    return tuple(TOOLBOX.schemas(names))


class ProFactEnv(Env[ProFactTask]):
    """Check a claim as fact-checkers do: pose questions, look for evidence on each, then decide.

    ## What it is
    Three stages under one policy, each with a reward of its own. After "From Verdict to Process: Agentic Reinforcement
    Learning for Multi-Stage Fact Verification".

    ## Task
    A claim with what is told about it (speaker, date, place, where it was reported) is Supported, Refuted, Not Enough
    Evidence or Conflicting Evidence/Cherrypicking.

    ## Tools
    `ask` in the first stage, `search` and `answer` in the second, `verdict` in the third. A call of another stage is
    answered with what to do instead and costs a turn.

    ## Turn protocol
    At most 12 turns. `ask` keeps the first five questions; blank and repeated ones are dropped, and it says so. Then
    question by question: any number of searches, three pieces of evidence each, and one answer. An answer resets the
    search context: the next prompt holds the claim, the record of questions and answers, and nothing that was found
    before. What stands in a message after the call that ended a stage or a question is not done. The last turn belongs to
    the verdict, whatever is open then; the observation says so one turn ahead, and warns where turns are too short for
    the open questions. An episode that runs out is scored on what stands; a missing verdict earns nothing.
    `policy_prompt()` is what a policy is to be sent: who collects observations instead undoes the reset.

    ## Rewards
    `reward="process"` is the paper's plain sum, 0 to 3: METEOR of the questions against the gold questions by the best
    one-to-one assignment, over the number of gold ones; the same for "question answer"; 1 for the right label.
    "noprocess" is the label alone. The default, "guarded", has the same three terms, but counts an answer only when it
    is grounded in evidence that was found for its question, or is "No answer could be found." after a search, with
    precision and recall weighed alike; questions and verdict count as far as questions were answered so. METEOR of a
    text with itself is a little below 1, so that the highest reward is so too. Credits lie on the message that earned
    each share.

    ## Splits and licences
    Generated: dev 500, train 1,200, test 500, labels balanced; no licence attaches. With `path` AVeriTeC's dev (500)
    and train (3,067 with a claim) or files in its layout; AVeriTeC is CC BY-NC 4.0 and no part of the package. `store`
    is the folder of its knowledge store. Without one, the gold evidence of the whole split is the haystack, which is
    easier; every report says which it was.

    ## Determinism
    Generated claim *i* depends on (seed, split, i) alone. The same actions give the same bytes and the same reward.

    ## Known exploits
    `factgym audit` plays them. A question-answer string is mostly its question, and METEOR weighs recall nine to one. So
    the paper's sum pays answers without a search for the question that they repeat, and answers that paste all that was
    found about as much as chosen ones. On generated claims no exploiter comes near the honest workflow (2.05 against
    1.55). On AVeriTeC's dev claims over their gold haystack it stays ahead of five copies of the claim, answered
    without a search under the most frequent label (1.47 against 1.28), and just ahead of pasting (1.46); over a store
    of web sentences both pay as much as it does. Under the guard unsearched answers earn nothing, and pasting stays
    below the workflow on all three. The right label without a search earns 2.07 of 3 under the paper's sum and nothing under the
    guard. "noprocess" pays the frequent label its share, .61 on the dev claims. Questions may be the claim reworded:
    `ask` drops plain repetitions alone. The guard asks whether an answer's words were found, not whether they answer.

    ## Versions
    v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = ProFactConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {"search": ("search", "query"), "answer": ("answer", "answer")}
    implicit: ClassVar[Mapping[str, str]] = {"questions": "ask", "label": "verdict"}
    config: ProFactConfig
    tasks: ProFactTaskSet

    def load_tasks(self) -> ProFactTaskSet:
        """The shared task set of this configuration."""
        return profact_tasks(self.config)

    def initial_messages(self, task: ProFactTask) -> list[Message]:
        """A fresh desk; the instructions, and the claim with what is told about it."""
        self._desk = Desk(task, self.config.max_questions)
        self._head: Message | None = None
        count = str(self.config.max_questions)
        told = fill(prompt(_PACKAGE, "system"), count=count, turns=str(self.config.max_turns))
        system: Message = {"role": "system", "content": told}
        last = self.config.max_turns == 1
        first = prompt(_PACKAGE, "verdict") if last else fill(prompt(_PACKAGE, "ask"), count=count)
        return [system, {"role": "user", "content": f"{_told(task.check)}\n\n{first}"}]

    @property
    def stage(self) -> str:
        """ "question", "search", "verdict" or "done"; the last turn is the verdict's."""
        if self._episode is None:
            return "verdict" if self.config.max_turns == 1 else "question"
        if self._episode.stop is not None:
            return "done"
        if self.config.max_turns - len(self._episode.turns) <= 1:
            return "verdict"
        return self._natural_stage

    @property
    def _natural_stage(self) -> str:
        """The stage that the work has reached, whatever the turns."""
        if self._desk.asked is None:
            return "question"
        return "verdict" if self._desk.current is None else "search"

    def available_tools(self) -> Sequence[ToolSchema]:
        """The tools of the stage."""
        return _schemas(TOOLS[self.stage])

    def all_tools(self) -> Sequence[ToolSchema]:
        """The tools of all stages."""
        return _schemas(tuple(dict.fromkeys(name for names in TOOLS.values() for name in names)))

    @property
    def slow_steps(self) -> bool:
        """An index is built on first use, and dense ones load a model."""
        return self.config.index != "bm25" or self.config.store is not None

    def policy_prompt(self) -> list[Message]:
        """The instructions, the claim with the record so far, and what happened since the last question was answered."""
        episode = self.episode
        if self._head is None or self._desk.moved is None:
            return list(episode.messages)
        later = episode.turns[self._desk.moved + 1 :]
        start = later[0].message if later else len(episode.messages)
        return [episode.messages[0], self._head, *episode.messages[start:]]

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Do a call of the stage."""
        desk = self._desk
        desk.turn = len(self.episode.turns)
        arguments = readable(call)
        wrong = self._refusal(call.name)
        result = (
            failed(call, wrong) if wrong else TOOLBOX.call(desk, replace(call, arguments=arguments), TOOLS[self.stage])
        )
        if result.error is None and desk.verdict is not None:
            self.finish()
        elif result.error is None and desk.moved == desk.turn:
            self._head = {"role": "user", "content": self._situation()}
        return replace(result, arguments=call.arguments)

    def _refusal(self, name: str) -> ToolError | None:
        """Why a tool that there is cannot be called now."""
        known = any(name in names for names in TOOLS.values())
        if known and self._desk.moved == len(self.episode.turns):
            said = (
                "This message has ended a question or stage, and the context is reset: call it in your next message."
            )
            return ToolError("next_message", said)
        if known and name not in TOOLS[self.stage]:
            return ToolError(
                "wrong_stage", f"{name!r} is not open in the stage {self.stage!r}. {_INSTEAD[self.stage]}"
            )
        return None

    def _situation(self) -> str:
        """What a policy needs to know to go on: the claim, the record, and the question or the verdict that is next."""
        desk = self._desk
        parts = [_told(self.task.check)]
        if desk.pairs:
            record = "\n".join(
                f"{number}. {line(question)}\n   {line(said)}" for number, (question, said) in enumerate(desk.pairs, 1)
            )
            parts.append(fill(prompt(_PACKAGE, "record"), record=record))
        left = self.config.max_turns - desk.turn - 1
        current = desk.current
        if current is None or left <= 1:
            parts.append(prompt(_PACKAGE, "verdict"))
        else:
            number, total = str(desk.work.index(current) + 1), str(len(desk.work))
            question = line(current.question)
            parts.append(fill(prompt(_PACKAGE, "search"), number=number, total=total, question=question))
        return "\n\n".join(parts) + self._turn_note(left)

    def _turn_note(self, left: int) -> str:
        """How many turns are left, with a warning where they are short. left: after the turn that is being played."""
        open_questions = sum(one.answer is None for one in self._desk.work)
        warning = ""
        if left == 1 and self._natural_stage != "verdict":
            warning = "; it is the verdict's: give the verdict now, what is open stays open"
        elif left == 2 and self._natural_stage != "verdict":
            warning = "; the last one is the verdict's"
        elif self._natural_stage == "search" and left <= open_questions + 1:
            warning = f"; {open_questions} for open questions and 1 for the verdict are needed: answer soon"
        return f"\n(turns left: {left}{warning})"

    def result_messages(self, results: Sequence[ToolResult], native: bool) -> list[Message]:
        """Write results as chat messages, with the turns left and a warning where they are short."""
        new = super().result_messages(results, native)
        if self.episode.stop is None:
            left = self.config.max_turns - len(self.episode.turns) - 1
            before, note, after = (new[-1]["content"] or "").rpartition(f"\n(turns left: {left})")
            if note:
                new[-1]["content"] = before + self._turn_note(left) + after
        return new

    def score(self) -> RewardReport:
        """The components under the configured rubric."""
        desk, rubric = self._desk, self.config.rubric
        grounded = [is_grounded(one.question, one.answer, one.seen) for one in desk.work if one.answer is not None]
        label = desk.verdict.label if desk.verdict else None
        questions = [one.question for one in desk.work]
        score = score_stages(questions, desk.pairs, label, self.task.gold, grounded=grounded)
        shares = rubric.shares(score.components, score.gates)
        places = [turn.message for turn in self.episode.turns]
        return RewardReport(
            total=rubric.total(score.components, score.gates),
            components=score.components,
            weights=dict(rubric.weights),
            gates=rubric.gate_factors(score.gates),
            spans=span_credits(shares, score, desk, self.episode.messages, places),
            metrics=self._metrics(score, grounded),
        )

    def _metrics(self, score: ProFactScore, grounded: Sequence[bool]) -> dict[str, Any]:
        desk, store = self._desk, self.tasks.store
        return {
            "claim_id": self.task.check.claim_id,
            "gold_verdict": self.task.check.label,
            "verdict": desk.verdict.label if desk.verdict else None,
            "justification": desk.verdict.justification if desk.verdict else "",
            "questions": [one.question for one in desk.work],
            "pairs": [list(pair) for pair in desk.pairs],
            "searches": [len(one.found) for one in desk.work],
            "grounded": list(grounded),
            "gates": score.gates,
            "store": {"kind": store.kind, "note": store.note},
        }

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """0, and the most that the episode's claim can earn: of each gold text that there is a question for, its METEOR
        with itself. Without an episode: the sum of the weights."""
        weights = self.config.rubric.weights
        best = dict.fromkeys(weights, 1.0)
        if self._episode is not None:
            gold, most = self.task.gold, self.config.max_questions
            best |= {
                "question": _most(gold.questions, most),
                **dict.fromkeys(("qa", "grounded_qa"), _most(gold.pairs, most)),
            }
        return 0.0, sum(weight * best[name] for name, weight in weights.items())

    def rubrics(self) -> tuple[dict[str, Rubric], str]:
        """The rewards that an audit compares, by name, and the name of the environment's own."""
        own = self.config.rubric
        name = own.name if RUBRICS.get(own.name, own) == own else f"{own.name} (own)"
        return {**RUBRICS, name: own}, name

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> dict[str, Any] | None:
        """What ends the stage, asked for part by part, for a person who plays; None for no question at all."""
        if self.stage == "question":
            questions: list[str] = []
            while len(questions) < self.config.max_questions:
                said = ask(f"question {len(questions) + 1} (empty to stop)", ())
                if not said:
                    break
                questions.append(said)
            return {"tool": "ask", "arguments": {"questions": questions}} if questions else None
        if self.stage == "search":
            return {"tool": "answer", "arguments": {"answer": ask("answer (empty for none)", ()) or NO_ANSWER}}
        label = ask("label", LABELS)
        return {"tool": "verdict", "arguments": {"label": label, "justification": ask("justification", ()) or "None."}}

    def gold_lines(self) -> list[str]:
        """The gold label, the questions with their answers, and why."""
        check = self.task.check
        lines = [f"Gold label: {check.label}"]
        for one in check.questions:
            said = " / ".join(answer_string(answer) for answer in one.answers) or NO_ANSWER
            lines.append(f"  {one.question}\n    {said}")
        return [*lines, check.justification, self.tasks.store.note]

    def view_task(self, task: ProFactTask) -> dict[str, Any]:
        """The claim with its metadata and gold, and the store's note."""
        check = task.check
        gold = [
            {"question": one.question, "answers": [answer_string(answer) for answer in one.answers]}
            for one in check.questions
        ]
        return {
            "question": "Is the claim true?",
            "answer": check.claim,
            "about": _about(check),
            "gold": {"verdict": check.label, "questions": gold, "justification": check.justification},
            "store": self.tasks.store.note,
        }

    def warnings(self) -> list[str]:
        """What the claims were checked against."""
        return [self.tasks.store.note]

    def prompt_hashes(self) -> dict[str, str]:
        """The instructions and the forms of what follows them."""
        return {name: prompt_hash(prompt(_PACKAGE, name)) for name in _PROMPTS}


def _told(check: FactCheck) -> str:
    """The claim with its metadata, as every prompt begins."""
    about = "\n".join(f"{name}: {line(value)}" for name, value in _about(check).items())
    return fill(prompt(_PACKAGE, "claim"), claim=line(check.claim), about=about).rstrip()


def _about(check: FactCheck) -> dict[str, str]:
    """What may be told about a claim; nothing of how it was judged, nor where."""
    found = {
        "Speaker": check.speaker,
        "Date": check.claim_date.isoformat() if check.claim_date else None,
        "Location": check.location,
        "Reported by": check.reporting_source,
    }
    return {name: value for name, value in found.items() if value}


def _most(texts: Sequence[str], count: int) -> float:
    """The most that `count` predictions can score against these gold texts."""
    own = sorted((meteor(text, text) for text in texts), reverse=True)
    return sum(own[:count]) / len(own)
