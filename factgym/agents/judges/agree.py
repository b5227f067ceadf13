"""Several judges that must agree: SEVA's cross-check, where a probe stays only if a second model says so, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factgym.agents.judges.base import BaseJudge, Case, Judge, Judgement
from factgym.core.caching import gather_all
from factgym.core.errors import ConfigError
from factgym.core.messages import Usage
from factgym.core.policy import add_usage


class AllAgree(BaseJudge):
    """The judges are asked at once, and the lowest score counts; of equal ones the earliest judge's.

    One stand-in among them makes the whole a stand-in. Raises ConfigError for fewer than two judges, or for different
    rubrics. A case that one of them cannot judge is unscored.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self.judges = tuple(judges)
        self._about = [one.describe() for one in self.judges]
        rubrics = sorted({f"{one['rubric']} (version {one['version']})" for one in self._about})
        if len(self.judges) < 2 or len(rubrics) > 1:
            raise ConfigError(f"agreement takes two or more judges of one rubric, not {len(judges)} of {rubrics}")

    def describe(self) -> dict[str, Any]:
        """The rubric, and each judge's own description."""
        first = self._about[0]
        shared = {name: first[name] for name in ("rubric", "version", "scale", "grades")}
        hashes = sorted({one["prompt_sha256"] for one in self._about if one["prompt_sha256"]})
        return shared | {
            "prompt_sha256": " ".join(hashes) or None,
            "by": " and ".join(one["by"] for one in self._about),
            "stand_in": any(one["stand_in"] for one in self._about),
            "how": "the lowest of several scores",
            "judges": self._about,
        }

    async def close(self) -> None:
        """Close every judge."""
        for one in self.judges:
            await one.close()

    async def judge(self, case: Case) -> Judgement:
        """Judge a case; see `Judge.judge`."""
        found = await gather_all(one.judge(case) for one in self.judges)
        worst = min(found, key=lambda one: one.score)
        usage = Usage()
        for one in found:
            add_usage(usage, one.usage)
        labels = ", ".join(f"{one.by}: {one.label}" for one in found)
        agreed = len({one.label for one in found}) == 1
        return Judgement(
            worst.score,
            worst.label,
            " and ".join(one.by for one in found),
            any(one.stand_in for one in found),
            all(one.cached for one in found),
            worst.reason if agreed else f"The judges disagree ({labels}). {worst.reason or ''}".strip(),
            usage,
        )
