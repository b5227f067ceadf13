"""SEVA's evaluation: `report` and `compare` for recorded runs, `suite` and `command` for the benchmark over five data
sets, `paper` for the paper's tables with ours beside them, `collapse` for Table 18 simulated, `rounds` for Table 22.
"""

from factgym.benchmarks.seva.compare import SevaComparison, compare
from factgym.benchmarks.seva.report import SevaReport, evaluate_run

__all__ = ["SevaComparison", "SevaReport", "compare", "evaluate_run"]
