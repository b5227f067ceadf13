"""Probes with a model: one that proposes them, and a judge that filters them."""

from factgym.agents.probes.crosscheck import Filtered, Rejected, cross_check
from factgym.agents.probes.proposer import Dropped, PolicyProposer, Proposals, Request

__all__ = ["Dropped", "Filtered", "PolicyProposer", "Proposals", "Rejected", "Request", "cross_check"]
