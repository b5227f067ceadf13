"""What an episode holds, and its four tools: `ask`, `search`, `answer`, `verdict`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from factgym.core.calls import ToolCall
from factgym.core.errors import ToolError
from factgym.datasets.averitec import Label, fact_check_label
from factgym.datasets.evidence import Evidence
from factgym.datasets.evidence_search import EvidenceHit
from factgym.tools.schema import Items, Text
from factgym.tools.toolbox import Toolbox, tool
from factgym.tools.untrusted import attribute, neutralise

MAX_QUESTION_CHARS = 400
MAX_ANSWER_CHARS = 2_000
_MOST_LISTED = 20
_WORD = re.compile(r"\w+")


class Searched(Protocol):
    """What is searched: a task, or what stands in for one."""

    def search(self, query: str) -> Sequence[EvidenceHit]:
        """The evidence for a query, best first."""
        ...


@dataclass(slots=True)
class Looked:
    """The work on one question. answer, answered: what was answered and in which turn, None while it is open.

    found: the texts of the evidence that each search showed, with the turn of the search.
    """

    question: str
    found: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    answer: str | None = None
    answered: int | None = None

    @property
    def seen(self) -> list[str] | None:
        """The evidence that was in sight when the answer was written: not that of the same message.

        None where nothing had been looked for.
        """
        earlier = [texts for turn, texts in self.found if self.answered is not None and turn < self.answered]
        return [text for texts in earlier for text in texts] if earlier else None


@dataclass(slots=True)
class Verdict:
    """What was decided in the end, and in which turn."""

    label: Label
    justification: str
    turn: int


@dataclass(slots=True)
class Desk:
    """What the tools work on. moved: the turn in which a stage or question was ended last, None before.

    asked: the turn in which the questions were posed. most: how many questions are kept.
    """

    task: Searched
    most: int
    turn: int = 0
    work: list[Looked] = field(default_factory=list)
    asked: int | None = None
    verdict: Verdict | None = None
    moved: int | None = None

    @property
    def current(self) -> Looked | None:
        """The question that is open now, None before and after the questions."""
        return next((one for one in self.work if one.answer is None), None)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The questions that were answered, with their answers."""
        return [(one.question, one.answer) for one in self.work if one.answer is not None]


@dataclass(frozen=True, slots=True)
class Posed:
    """What became of a list of questions. left: texts that were not kept, by reason."""

    kept: tuple[str, ...]
    repeated: int
    blank: int
    beyond: int


def line(text: str) -> str:
    """The text on one line, harmless in a prompt."""
    return neutralise(" ".join(text.split()))


def _render_posed(data: Posed) -> str:
    notes = [
        f"{count} {reason}"
        for count, reason in (
            (data.blank, "blank and dropped"),
            (data.repeated, "repeated and dropped"),
            (data.beyond, "beyond the limit and dropped"),
        )
        if count
    ]
    left = f" ({', '.join(notes)})" if notes else ""
    listed = "\n".join(f"{number}. {line(one)}" for number, one in enumerate(data.kept, 1))
    return f"Questions posed: {len(data.kept)}{left}.\n{listed}\nNow question 1: {line(data.kept[0])}"


def _render_found(data: Sequence[Evidence]) -> str:
    if not data:
        return "No evidence matches. Try other words."
    return "\n".join(_rendered(one) for one in data)


def _rendered(one: Evidence) -> str:
    day = f' date="{one.date.isoformat()}"' if one.date else ""
    return f'<result source="{attribute(one.title)}"{day}>\n{neutralise(one.text)}\n</result>'


@tool(render=_render_posed, tags=("questions",))
def ask(
    desk: Desk, questions: Annotated[list[Annotated[str, Text(0, MAX_QUESTION_CHARS)]], Items(1, _MOST_LISTED)]
) -> Posed:
    """Pose the verification questions, once.

    Args:
        questions: The questions, the most telling first.
    """
    kept: dict[str, str] = {}
    blank = repeated = 0
    for one in questions:
        text, key = one.strip(), _key(one)
        blank += not key
        repeated += bool(key) and key in kept
        if key:
            kept.setdefault(key, text)
    if not kept:
        raise ToolError("no_question", "None of these is a question: write at least one in words.")
    found = tuple(kept.values())[: desk.most]
    desk.work = [Looked(text) for text in found]
    desk.asked = desk.moved = desk.turn
    return Posed(found, repeated, blank, len(kept) - len(found))


@tool(render=_render_found, tags=("query",))
def search(desk: Desk, query: Annotated[str, Text(1, 1000)]) -> Sequence[Evidence]:
    """Look for evidence on the current question.

    Args:
        query: What to look for, in words that the evidence may use.
    """
    found = [one.evidence for one in desk.task.search(query)]
    if desk.current is not None:
        desk.current.found.append((desk.turn, tuple(one.text for one in found)))
    return found


@tool(render=str, tags=("answer",))
def answer(desk: Desk, answer: Annotated[str, Text(1, MAX_ANSWER_CHARS)]) -> str:
    """Answer the current question from the evidence found, and go on to the next one.

    Args:
        answer: What the evidence says, in one or a few sentences; "No answer could be found." when it is silent.
    """
    current = desk.current
    if current is None:
        raise ToolError("no_question", "No question is open.")
    if not answer.strip():
        raise ToolError("blank_answer", 'The answer is blank: write "No answer could be found." when there is none.')
    current.answer, current.answered = answer.strip(), desk.turn
    desk.moved = desk.turn
    number = desk.work.index(current) + 1
    if desk.current is None:
        return f"Question {number} is answered. All questions are: now give the verdict."
    return f"Question {number} is answered. Now question {number + 1}: {line(desk.current.question)}"


@tool(render=str)
def verdict(desk: Desk, label: Label, justification: Annotated[str, Text(1, 4000)]) -> str:
    """Decide the claim. This ends the episode.

    Args:
        label: What follows from the answers.
        justification: Why, in a few sentences that rest on the answers.
    """
    desk.verdict = Verdict(label, justification, desk.turn)
    return "The verdict is given. The episode is over."


TOOLBOX = Toolbox((ask, search, answer, verdict))
TOOLS: Mapping[str, tuple[str, ...]] = {
    "question": ("ask",),
    "search": ("search", "answer"),
    "verdict": ("verdict",),
    "done": ("verdict",),
}
"""Stage -> the tools that are open in it; what is over keeps those of its last stage, for spaces that sample."""


def readable(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call with what is plainly meant put into form: a label in other words, one question as text."""
    arguments = dict(call.arguments)
    if call.name == "verdict":
        label = fact_check_label(arguments.get("label"))
        if label is not None:
            arguments["label"] = label
    if call.name == "ask" and isinstance(arguments.get("questions"), str):
        arguments["questions"] = [arguments["questions"]]
    return arguments


def _key(question: str) -> str:
    """What two questions that are the same have in common: their words, whatever case and punctuation."""
    return " ".join(_WORD.findall(question.casefold()))
