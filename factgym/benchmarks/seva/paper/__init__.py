"""The tables of the SEVA paper that need no trained model, ours beside theirs.

Each table says what kind it is: "computed" from definitions, "simulated" under stated assumptions, "data" about the
files at hand, or "theirs", which are results of trained models that are
printed beside baselines and are no reproduction.
"""

from factgym.benchmarks.papers.table import KINDS, PaperRow, PaperTable
from factgym.benchmarks.seva.paper.everything import paper_tables

__all__ = ["KINDS", "PaperRow", "PaperTable", "paper_tables"]
