"""Synthetic ClaimCheck data: documents from a typed fact model, claims with controlled corruptions, and their measures."""

from factgym.corpora.synthetic.dataset import GENERATOR_VERSION, SPLITS, SyntheticClaims

__all__ = ["GENERATOR_VERSION", "SPLITS", "SyntheticClaims"]
