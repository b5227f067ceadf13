"""Synthetic documents, claims, questions and worlds, and perturbations of text."""
