"""What scripted players share: what is known of a question, and how a completion is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from factgym.core.messages import Message, ToolSchema
from factgym.datasets.questions import Question
from factgym.envs.corver.tasks import CorverTask, CorverTaskSet

REFUSAL = "<think>unknown</think><answer>I don't know</answer>"
"""What the prompts ask for from whoever does not know."""

_SURE = (
    "Paris is the capital of France.",
    "Berlin is the capital of Germany.",
    "Albert Einstein was born in Ulm.",
    "William Shakespeare wrote Hamlet.",
)
_CANDIDATES = 60
_TRUISMS = 12


@dataclass(frozen=True, slots=True)
class Known:
    """What a player knows: the answer, and two sentences that state it."""

    answer: str
    thought: str
    said: str


@dataclass(frozen=True, slots=True)
class Lore:
    """What players know besides: the question, sentences that the corpus supports well, those of them that share a word
    with the question, and names that may be answers."""

    question: str
    truisms: tuple[str, ...]
    near: tuple[str, ...]
    candidates: tuple[str, ...]


Finish = Callable[[Known | None, Lore], str]
"""Turns what is known into a completion."""


def completion(thought: str, answer: str) -> str:
    """A completion in the form that is asked for."""
    return f"<think>{thought}</think>\n<answer>{answer}</answer>"


def honest(known: Known | None, lore: Lore) -> str:
    """The fact as a sentence in both blocks; the refusal of the prompt where it is not known."""
    return REFUSAL if known is None else completion(known.thought, known.said)


def gold(task: CorverTask) -> Known:
    """What is true of a task."""
    item = task.item
    answer = item.aliases[0]
    stated = _generated(task)
    if stated is not None:
        return Known(answer, *stated)
    subject, kind = item.meta.get("subject"), item.meta.get("kind")
    if subject and kind:
        return Known(
            answer, f"The {kind} of {subject} is known to be {answer}.", f"The {kind} of {subject} is {answer}."
        )
    return Known(answer, f"The question asks for something whose answer is known to be {answer}.", answer)


def _generated(task: CorverTask) -> tuple[str, str] | None:
    from factgym.generators.questions.generated import GeneratedQuestions

    tasks, index = task.place
    if not isinstance(tasks.questions, GeneratedQuestions):
        return None
    fact = tasks.questions.fact(index)
    return fact.state(0), fact.state(1)


def lore_of(task: CorverTask) -> Lore:
    """What everybody knows: the facts that the world's corpus states most often, and the answers of other questions."""
    tasks = task.place[0]
    candidates = _candidates(tasks, str(task.item.meta.get("kind", "")))
    return Lore(task.asked, _truisms(tasks), _near(tasks, task.asked), candidates)


@lru_cache(maxsize=16)
def _truisms(tasks: CorverTaskSet) -> tuple[str, ...]:
    world = tasks.world
    if world is None:
        return _SURE
    best = sorted(world.subjects, key=lambda one: -one.popularity)[:_TRUISMS]
    return tuple(one.facts[0].state() for one in best)


def _near(tasks: CorverTaskSet, question: str) -> tuple[str, ...]:
    """Well-supported sentences, of other subjects, with a word of the question; any where there is none."""
    known = _by_word(tasks)
    found = [one for word in question.rstrip("?").split() for one in known.get(word, ()) if one[0] not in question]
    return tuple(dict.fromkeys(text for _, text in found))[:_TRUISMS] or _truisms(tasks)


@lru_cache(maxsize=16)
def _by_word(tasks: CorverTaskSet) -> dict[str, list[tuple[str, str]]]:
    """Word of a name -> the best supported subjects of that name, each with a sentence about it."""
    found: dict[str, list[tuple[str, str]]] = {}
    subjects = tasks.world.subjects if tasks.world is not None else ()
    for one in sorted(subjects, key=lambda subject: -subject.popularity):
        if one.tier == "common":
            for word in one.name.split():
                found.setdefault(word, []).append((one.name, one.facts[0].state()))
    return found


@lru_cache(maxsize=256)
def _candidates(tasks: CorverTaskSet, kind: str) -> tuple[str, ...]:
    """Usual answers of the first tasks, those of the same kind of question first."""
    items: list[Question] = [tasks.questions[place] for place in range(min(len(tasks), 10 * _CANDIDATES))]
    alike = [one.aliases[0] for one in items if one.meta.get("kind", "") == kind]
    return tuple(dict.fromkeys([*alike, *(one.aliases[0] for one in items)]))[:_CANDIDATES]


class Told:
    """Says one thing, whatever it is shown."""

    def __init__(self, text: str) -> None:
        self._text = text

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The completion."""
        return self._text
