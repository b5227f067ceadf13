"""The tools as a server of one rollout's own: `python -m` runs it. Slow, because every rollout starts a Python process."""

from __future__ import annotations

from factgym.integrations.verifiers.task import FactData
from factgym.integrations.verifiers.tools import FactTools


class OwnTools(FactTools):
    """`FactTools` that learns its environment from the rollout's task."""

    async def setup_task(self, task: FactData) -> None:
        """Build what the task needs."""
        self.template = task.open()


if __name__ == "__main__":
    OwnTools.run()
