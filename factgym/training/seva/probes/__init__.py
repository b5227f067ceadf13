"""Probes with a model: one that proposes them, and a judge that filters them."""

from factgym.training.seva.probes.crosscheck import Filtered, Rejected, cross_check
from factgym.training.seva.probes.proposer import Dropped, PolicyProposer, Proposals, Request

__all__ = ["Dropped", "Filtered", "PolicyProposer", "Proposals", "Rejected", "Request", "cross_check"]
