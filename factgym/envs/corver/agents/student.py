"""Players without the search tool: the student, who knows a fixed part of the answers, and static ones."""

from __future__ import annotations

import random
import re

from factgym.core.policy import Policy
from factgym.envs.corver.agents.script import REFUSAL, Finish, Told, completion, gold, honest, lore_of
from factgym.envs.corver.env import CorverEnv

SHARE = 0.6
"""Of the questions, how many the student knows the answer of; which ones depends on their ids alone."""

_NAME = re.compile(r"[A-Z][\w’'-]*(?: [A-Z][\w’'-]*)*")


def knows(task_id: str) -> bool:
    """Whether the student knows the answer."""
    return random.Random(f"factgym student {task_id}").random() < SHARE


def student(env: CorverEnv, finish: Finish = honest) -> Policy:
    """Writes what `finish` makes of the student's knowledge. It is told the gold of the tasks that it knows."""
    task = env.task
    return Told(finish(gold(task) if knows(task.id) else None, lore_of(task)))


def oracle(env: CorverEnv) -> Policy:
    """Knows every answer and states it."""
    return Told(honest(gold(env.task), lore_of(env.task)))


def refuse(env: CorverEnv) -> Policy:
    """Never knows."""
    return Told(REFUSAL)


def constant(env: CorverEnv) -> Policy:
    """The right answer to the first question of the set, to every question."""
    known = gold(env.tasks[0])
    return Told(completion(known.thought, known.said))


def guess(env: CorverEnv, seed: int) -> Policy:
    """A random name among the answers of other questions, in a well-formed sentence."""
    task = env.task
    rng = random.Random(f"random answer {seed} {task.id}")
    name = rng.choice(lore_of(task).candidates)
    found = _NAME.findall(task.asked.partition(" ")[2])
    subject = found[-1] if found else "The question"
    return Told(completion(f"{subject} is known to be connected with {name}.", f"{subject} belongs to {name}."))
