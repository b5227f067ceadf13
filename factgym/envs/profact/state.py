"""The state of a ProFact episode, and its four tools: `ask`, `search`, `answer`, `verdict`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from factgym.core.calls import ToolCall
from factgym.core.episode import EpisodeState
from factgym.core.errors import ToolError
from factgym.core.untrusted import delimited, neutralise
from factgym.datasets.averitec import Label, fact_check_label
from factgym.datasets.evidence import Evidence
from factgym.envs.profact.tasks import ProFactTask
from factgym.tools.toolbox import Toolbox, tool

MAX_QUESTION_CHARS = 400
MAX_ANSWER_CHARS = 2_000
_MAX_LISTED_QUESTIONS = 20
_WORD = re.compile(r"\w+")


@dataclass(slots=True)
class QuestionState:
    """Progress on one question. answer: None while it is open. answered_turn: turn of the answer.

    searches: turn and evidence texts of every search for the question.
    """

    question: str
    searches: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    answer: str | None = None
    answered_turn: int | None = None

    @property
    def evidence_in_view(self) -> list[str] | None:
        """The evidence that was in view when the answer was written, without that of the same message.

        None where no search had been answered.
        """
        answered = self.answered_turn
        earlier = [texts for turn, texts in self.searches if answered is not None and turn < answered]
        return [text for texts in earlier for text in texts] if earlier else None


@dataclass(slots=True)
class Verdict:
    """The decision, and its turn."""

    label: Label
    justification: str
    turn: int


@dataclass(slots=True)
class ProFactState(EpisodeState):
    """State of an episode. asked_turn: turn in which the questions were posed, None before.

    reset_turn: the last turn that ended a stage or a question, which resets the search context; None before.
    """

    task: ProFactTask
    max_questions: int
    questions: list[QuestionState] = field(default_factory=list)
    asked_turn: int | None = None
    verdict: Verdict | None = None
    reset_turn: int | None = None

    @property
    def current(self) -> QuestionState | None:
        """The open question; None before and after the questions."""
        return next((question for question in self.questions if question.answer is None), None)

    @property
    def answered(self) -> list[QuestionState]:
        """The questions with an answer, in order."""
        return [question for question in self.questions if question.answer is not None]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(question, answer) of the answered questions."""
        return [(question.question, question.answer or "") for question in self.answered]


@dataclass(frozen=True, slots=True)
class AskResult:
    """Accepted questions, and reason -> number of the others."""

    accepted: tuple[str, ...]
    dropped: Mapping[str, int]


def one_line(text: str) -> str:
    """Return the text on one line, neutralised for a prompt."""
    return neutralise(" ".join(text.split()))


def _render_questions(result: AskResult) -> str:
    notes = [f"{count} {reason} and dropped" for reason, count in result.dropped.items() if count]
    dropped = f" ({', '.join(notes)})" if notes else ""
    listed = "\n".join(f"{number}. {one_line(question)}" for number, question in enumerate(result.accepted, 1))
    first = one_line(result.accepted[0])
    return f"Questions posed: {len(result.accepted)}{dropped}.\n{listed}\nNow question 1: {first}"


def _render_evidence(results: Sequence[Evidence], nonce: str) -> str:
    if not results:
        return "No evidence matches. Try other words."
    lines = []
    for evidence in results:
        date = evidence.date.isoformat() if evidence.date else None
        lines.append(delimited("result", evidence.text, nonce, source=evidence.title, date=date))
    return "\n".join(lines)


@tool(render=_render_questions, tags=("questions",), brief="Pose all questions.")
def ask(
    state: ProFactState,
    questions: Annotated[
        list[Annotated[str, Field(max_length=MAX_QUESTION_CHARS)]],
        Field(min_length=1, max_length=_MAX_LISTED_QUESTIONS),
    ],
) -> AskResult:
    """Pose the verification questions, once.

    Args:
        questions: The questions, the most telling first.
    """
    # Questions with the same words are the same, whatever case and punctuation.
    keys = [" ".join(_WORD.findall(question.casefold())) for question in questions]
    distinct: dict[str, str] = {}
    for key, question in zip(keys, questions, strict=True):
        distinct.setdefault(key, question.strip())
    distinct.pop("", None)
    if not distinct:
        raise ToolError("no_question", "None of these is a question: write at least one in words.")
    accepted = tuple(distinct.values())[: state.max_questions]
    state.questions = [QuestionState(text) for text in accepted]
    state.asked_turn = state.reset_turn = state.turn
    blank, beyond = keys.count(""), len(distinct) - len(accepted)
    repeated = len(keys) - blank - len(distinct)
    return AskResult(accepted, {"blank": blank, "repeated": repeated, "beyond the limit": beyond})


@tool(render=_render_evidence, tags=("query",), brief="Find evidence.", delimits=True)
def search(state: ProFactState, query: Annotated[str, Field(min_length=1, max_length=1000)]) -> Sequence[Evidence]:
    """Look for evidence on the current question.

    Args:
        query: What to look for, in words that the evidence may use.
    """
    results = [hit.evidence for hit in state.task.search(query)]
    if state.current is not None:
        state.current.searches.append((state.turn, tuple(evidence.text for evidence in results)))
    return results


@tool(render=str, tags=("answer",), brief="Answer the question.")
def answer(state: ProFactState, answer: Annotated[str, Field(min_length=1, max_length=MAX_ANSWER_CHARS)]) -> str:
    """Answer the current question from the evidence found, and go on to the next one.

    Args:
        answer: What the evidence says, in one or a few sentences; "No answer could be found." when it is silent.
    """
    current = state.current
    if current is None:
        raise ToolError("no_question", "No question is open.")
    if not answer.strip():
        raise ToolError("blank_answer", 'The answer is blank: write "No answer could be found." when there is none.')
    current.answer, current.answered_turn = answer.strip(), state.turn
    state.reset_turn = state.turn
    number = state.questions.index(current) + 1
    if state.current is None:
        return f"Question {number} is answered. All questions are: now give the verdict."
    return f"Question {number} is answered. Now question {number + 1}: {one_line(state.current.question)}"


@tool(render=str, ends_episode=True)
def verdict(
    state: ProFactState, label: Label, justification: Annotated[str, Field(min_length=1, max_length=4000)]
) -> str:
    """Decide the claim. This ends the episode.

    Args:
        label: What follows from the answers.
        justification: Why, in a few sentences that rest on the answers.
    """
    state.verdict = Verdict(label, justification, state.turn)
    return "The verdict is given. The episode is over."


TOOLBOX = Toolbox((ask, search, answer, verdict))
STAGE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "question": ("ask",),
    "search": ("search", "answer"),
    "verdict": ("verdict",),
    "done": ("verdict",),
}
"""Stage -> its tools; a finished episode keeps those of its last stage, for spaces that sample."""


def normalise_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call with unambiguous variants corrected: a label's other names, a single question."""
    arguments = dict(call.arguments)
    if call.name == "verdict":
        label = fact_check_label(arguments.get("label"))
        if label is not None:
            arguments["label"] = label
    if call.name == "ask" and isinstance(arguments.get("questions"), str):
        arguments["questions"] = [arguments["questions"]]
    return arguments
