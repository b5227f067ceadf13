"""The oracle: asks the gold questions, looks for their evidence, and gives the gold answers and label."""

from __future__ import annotations

from collections.abc import Sequence

from factgym.datasets.averitec import NO_ANSWER, GoldQuestion, answer_string
from factgym.envs.profact.agents.script import Brief, Call, Script, answering, searching
from factgym.envs.profact.tasks import ProFactTask
from factgym.rewards.profact.meteor import meteor


class Oracle(Script):
    """Knows the gold. Of more questions than are kept, or than there are turns for, it asks those that earn most."""

    def __init__(self, task: ProFactTask) -> None:
        self._check = task.check
        self._gold: dict[str, GoldQuestion] = {}
        for one in task.check.questions:
            self._gold.setdefault(_key(one.question), one)

    def questions(self, brief: Brief) -> Sequence[str]:
        """The gold questions, the longest self-matches first, in their own order."""
        golds = [one for one in self._gold.values() if one.question.strip()]
        best = sorted(golds, key=lambda one: -meteor(one.question, one.question))[: brief.most]
        return [one.question for one in golds if one in best]

    def look(self, brief: Brief) -> Call:
        """A search for the gold answer, then the answer."""
        gold = self._gold.get(_key(brief.question))
        text = _answer(gold) if gold else NO_ANSWER
        if not brief.searched:
            return searching(brief.question if text == NO_ANSWER else text)
        return answering(text)

    def decide(self, brief: Brief) -> tuple[str, str]:
        """The gold label."""
        return self._check.label, self._check.justification[:4000] or "As annotated."


def _answer(gold: GoldQuestion) -> str:
    """The answer that earns most: the first, with what the official scorer appends to it."""
    return answer_string(gold.answers[0]) if gold.answers else NO_ANSWER


def _key(text: str) -> str:
    return " ".join(text.split()).casefold()
