"""The oracle: knows the label, and where the data says them the deciding sentences, the wrong words and the error."""

from __future__ import annotations

from factgym.envs.seva.agents.grounds import broken, carried, cut, pairs, reading
from factgym.envs.seva.agents.script import NEGATIVE, POSITIVE, Brief, Script, Verdict, verdict
from factgym.envs.seva.tasks import SevaTask


class Oracle(Script):
    """Every point that the reward has to give: the gold label, over spans that are in the texts."""

    def __init__(self, task: SevaTask) -> None:
        self._task = task

    def verdict(self, brief: Brief) -> Verdict:
        """The gold as a verdict."""
        meta = self._task.item.meta
        evidence = meta.get("evidence") or []
        whole = cut(brief.source[evidence[0][0] : evidence[0][1]]) if evidence else ""
        found = pairs(brief, reading(brief.source), whole)
        if self._task.gold.label == POSITIVE:
            return verdict(POSITIVE, 1.0, *carried(found))
        wrong, reason = str(meta.get("span") or ""), str(meta.get("reason") or "")
        grounds = broken(found, wrong, brief.source, reason)
        fix = f"Replace or remove “{(wrong or brief.claim)[:200]}”. {reason}".strip()
        return verdict(NEGATIVE, 1.0, *grounds, self._task.gold.error_type or "fabrication", fix)
