"""What the MCP door adds: a session's start, each call and its result, without the protocol's framing and transport."""

from __future__ import annotations

import json

from perf.integrations.frame import Door, Recorded, awaited_one_by_one


def door(env_id: str) -> Door:
    """The handlers alone. Raises MissingExtraError where the protocol's package is not installed."""
    from factgym.agents.rollout.jobs import Job
    from factgym.integrations.mcp import Episodes, Play

    episodes = Episodes(env_id)
    tasks = episodes.template.env.tasks

    async def episode(recorded: Recorded) -> float:
        play = Play(episodes, Job(tasks.index_of(recorded.task)))
        for message in recorded.messages:
            for call in message.get("tool_calls") or []:
                await play.call(call["function"]["name"], json.loads(call["function"]["arguments"]))
        play.leave()
        return play.session.reward or 0.0

    return Door(awaited_one_by_one(episode), served=True)
