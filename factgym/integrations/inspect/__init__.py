"""Integration with Inspect: `inspect eval factgym/claimcheck-multihop --model …`.

Inspect finds this module by its entry point, and in it a task for every registered environment; the task's arguments
(`-T split=test`) are the environment's own settings. The solver plays in process: the model is sent what the
environment's policy sees, with the tools that are open, and the environment answers. Inspect's own tool execution, and
with it its approval policies, has no part in that: nothing here is executed but searches and look-ups.

A fault of the infrastructure raises, so that it is an error of the sample, which Inspect can retry. What was not scored
has no value, and is in no mean.
"""

from __future__ import annotations

from factgym.core.errors import MissingExtraError
from factgym.core.registry import list_envs

try:
    import inspect_ai  # noqa: F401 - the import itself is the test
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "inspect_ai":
        raise
    raise MissingExtraError("The Inspect integration", "inspect") from missing

from factgym.integrations.inspect.tasks import Played, episode_reward, play_episode, task_of

__all__ = ["Played", "episode_reward", "play_episode", "task_of"]

for _env_id in list_envs():
    task_of(_env_id)
