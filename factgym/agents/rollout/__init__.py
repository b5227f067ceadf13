"""Rollouts: which episodes, playing one, playing thousands at once, and the record of each."""

from factgym.agents.rollout.engine import play_episode, play_many, run_policy
from factgym.agents.rollout.jobs import Job, jobs_of, task_order
from factgym.agents.rollout.record import Record

__all__ = ["Job", "Record", "jobs_of", "play_episode", "play_many", "run_policy", "task_order"]
