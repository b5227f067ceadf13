"""CorVer's evaluation: `report`, `compare` and `refusals` for recorded runs, `calibration` for counts against judgements,
`suite` and `command` for the benchmark over question sets, `zones` for the filter's table, `paper` for the paper's tables
with ours beside them.
"""

from factgym.benchmarks.corver.annotations import read_annotations, sentence_counter
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.compare import CorverComparison, compare
from factgym.benchmarks.corver.popularity import Popularity, by_popularity
from factgym.benchmarks.corver.refusals import Decomposition, decompose
from factgym.benchmarks.corver.report import CorverReport, evaluate_runs

__all__ = [
    "CorverComparison",
    "CorverReport",
    "CountCalibration",
    "Decomposition",
    "Popularity",
    "by_popularity",
    "calibrate",
    "compare",
    "decompose",
    "evaluate_runs",
    "read_annotations",
    "sentence_counter",
]
