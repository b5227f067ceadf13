"""EVE's evaluation: `report` for recorded runs of `eve-solver`, `suite` and `command` for the benchmark, `paper` for the
paper's tables with ours in them.
"""

from factgym.benchmarks.eve.report import EveReport, evaluate_runs

__all__ = ["EveReport", "evaluate_runs"]
