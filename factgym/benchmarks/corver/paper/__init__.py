"""The tables of the CorVer paper, ours beside theirs.

Each table says what kind it is: "computed" from definitions, "data" about the files at hand, or "theirs", which are results of trained models that are printed beside scripts and baselines and
are no reproduction. Left out, because nothing in them can be computed: Tables 5 to 10 (settings), 19 and 21.
"""

from factgym.benchmarks.corver.paper.everything import paper_tables

__all__ = ["paper_tables"]
