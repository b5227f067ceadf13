"""Environments like the toy, each with one fault that `factgym validate` has to find. A user's module, as it were."""

from __future__ import annotations

import random
from typing import Any

from factgym import RewardReport, Rubric, ScriptedAgent, SimpleTask, TaskList, register
from factgym.envs.toy import NAMES, ToyEnv, play

MANY = TaskList(
    SimpleTask(
        f"{i}", f"The {NAMES[i % 12]} {'never' if i % 2 else 'always'} opens at {i}.", ("no" if i % 2 else "yes",)
    )
    for i in range(160)
)
BALANCED = TaskList(
    SimpleTask(
        f"{i}",
        f"The {random.Random(i).choice(NAMES)} opens at {i}.",
        ("no" if random.Random(f"label {i}").random() < 0.5 else "yes",),
    )
    for i in range(160)
)


class HashEnv(ToyEnv):
    """Shows what differs between processes."""

    def initial_messages(self, task: SimpleTask) -> list[Any]:
        (message,) = super().initial_messages(task)
        return [{**message, "content": f"{message['content']} ({hash(task.prompt)})"}]


class GenerousEnv(ToyEnv):
    """Pays for nothing."""

    def score(self) -> RewardReport:
        return self.report({"label": 1.0}, {"evidence": 1.0})


class CrashingEnv(ToyEnv):
    """Raises where a reply is short."""

    def call_tool(self, call: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")


class UnscoredEnv(ToyEnv):
    """Raises where an episode is scored."""

    def score(self) -> RewardReport:
        raise KeyError("gold")


class OpenEnv(ToyEnv):
    """Pays for a label without its evidence."""

    rubric = Rubric("open", {"label": 1.0})

    def score(self) -> RewardReport:
        return self.report({"label": super().score().components["label"]})


class LeakingEnv(ToyEnv):
    """Says its label in so many words."""

    strategies = None
    task_set = MANY


class BalancedEnv(LeakingEnv):
    """Says nothing of its label."""

    task_set = BALANCED


OpenEnv.__doc__ = LeakingEnv.__doc__ = ToyEnv.__doc__
ORACLE, TEACHER, HONEST, EXPLOITER = ScriptedAgent.from_script(
    play, "oracle", "teacher", "honest", "exploiter"
).values()
BLIND_ORACLE = {
    "oracle": ScriptedAgent("oracle", "oracle", "", EXPLOITER.start),
    "honest": HONEST,
    "exploiter": EXPLOITER,
}
SEEING_TEACHER = {
    "oracle": ORACLE,
    "teacher": ScriptedAgent("teacher", "teacher", "", ORACLE.start),
    "honest": HONEST,
    "exploiter": EXPLOITER,
}
LABELS = {"oracle": ORACLE, "honest": HONEST, "exploiter": ScriptedAgent("label", "exploiter", "", ORACLE.start)}

TOY_AGENTS = "factgym.envs.toy:AGENTS"
for name, cls, agents in (
    ("hash", "HashEnv", TOY_AGENTS),
    ("generous", "GenerousEnv", TOY_AGENTS),
    ("crashing", "CrashingEnv", TOY_AGENTS),
    ("unscored", "UnscoredEnv", TOY_AGENTS),
    ("open", "OpenEnv", "broken_envs:LABELS"),
    ("leaking", "LeakingEnv", TOY_AGENTS),
    ("balanced", "BalancedEnv", TOY_AGENTS),
    ("blind-oracle", "ToyEnv", "broken_envs:BLIND_ORACLE"),
    ("seeing-teacher", "ToyEnv", "broken_envs:SEEING_TEACHER"),
    ("no-agents", "ToyEnv", None),
):
    module = "factgym.envs.toy" if cls == "ToyEnv" else "broken_envs"
    register(f"broken-{name}", f"{module}:{cls}", "For tests.", agents=agents)
