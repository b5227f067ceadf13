"""The judge for a rubric: a model when there is one, else the rubric's stand-in, which says that it is one."""

from __future__ import annotations

from pathlib import Path

from factgym.agents.agent import Model
from factgym.agents.judges.base import BaseJudge
from factgym.agents.judges.cache import JudgeCache
from factgym.agents.judges.fallback import ContainmentJudge, LexicalCheckJudge
from factgym.agents.judges.policy import PolicyJudge
from factgym.agents.judges.prompt import find_prompt
from factgym.core.errors import ConfigError
from factgym.core.policy import Policy

_STAND_INS: dict[str, type[ContainmentJudge] | type[LexicalCheckJudge]] = {
    ContainmentJudge.rubric.name: ContainmentJudge,
    LexicalCheckJudge.rubric.name: LexicalCheckJudge,
}


def judge_from(
    policy: Policy | Model | None,
    prompt_name: str,
    cache: JudgeCache | str | Path | None = None,
    *,
    name: str | None = None,
) -> BaseJudge:
    """A judge by the name of a shipped rubric.

    policy: None for the deterministic stand-in, which caches nothing. cache: or the folder of one. name: who judges.
    Raises ConfigError for an unknown rubric and for a rubric without a stand-in.
    """
    rubric = find_prompt(prompt_name)
    if policy is not None:
        kept = cache if cache is None or isinstance(cache, JudgeCache) else JudgeCache(cache)
        return PolicyJudge(policy, rubric, cache=kept, name=name)
    if prompt_name not in _STAND_INS:
        raise ConfigError(
            f"the rubric {prompt_name!r} has no stand-in: it needs a model. {', '.join(_STAND_INS)} have one."
        )
    return _STAND_INS[prompt_name]()
