"""ProFact's evaluation: `report` for recorded runs and files of predictions, `suite` and `command` for the benchmark,
`paper` for the paper's tables with ours beside them.
"""

from factgym.benchmarks.profact.predictions import Prediction, read_predictions
from factgym.benchmarks.profact.report import ProFactReport, evaluate_predictions, evaluate_run

__all__ = ["Prediction", "ProFactReport", "evaluate_predictions", "evaluate_run", "read_predictions"]
