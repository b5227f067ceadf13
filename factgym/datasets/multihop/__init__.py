"""Questions whose answers need one fact or several, with the evidence for them: benchmarks, own data sets, a world.

Everything gives the same record, `Triple`: question, answers and gold `Evidence`, verbatim stretches of documents.
"""

from factgym.datasets.multihop.anchoring import evidence_in, stands, with_evidence_in
from factgym.datasets.multihop.benchmarks import (
    BENCHMARKS,
    TRIPLES,
    TripleFile,
    find_benchmark,
    read_triples,
    triple_file,
)
from factgym.datasets.multihop.records import read_row, triple_row, write_triple
from factgym.datasets.multihop.triple import Evidence, Triple, Triples

__all__ = [
    "BENCHMARKS",
    "TRIPLES",
    "Evidence",
    "Triple",
    "TripleFile",
    "Triples",
    "evidence_in",
    "find_benchmark",
    "read_row",
    "read_triples",
    "stands",
    "triple_file",
    "triple_row",
    "with_evidence_in",
    "write_triple",
]
