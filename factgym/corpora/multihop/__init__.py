"""Questions whose answers need one fact or several, with the evidence for them: benchmarks, own data sets, a world.

Everything gives the same record, `Triple`: question, answers and gold `Evidence`, verbatim stretches of documents.
"""

from factgym.corpora.multihop.anchoring import evidence_in, stands, with_evidence_in
from factgym.corpora.multihop.benchmarks import (
    BENCHMARKS,
    TRIPLES,
    TripleFile,
    find_benchmark,
    read_triples,
    triple_file,
)
from factgym.corpora.multihop.entities import entities
from factgym.corpora.multihop.records import read_row, triple_row, write_triple
from factgym.corpora.multihop.triple import Evidence, Triple, Triples
from factgym.corpora.multihop.world import MAX_SIZE, SPLITS, WorldTriples, world

__all__ = [
    "BENCHMARKS",
    "MAX_SIZE",
    "SPLITS",
    "TRIPLES",
    "Evidence",
    "Triple",
    "TripleFile",
    "Triples",
    "WorldTriples",
    "entities",
    "evidence_in",
    "find_benchmark",
    "read_row",
    "read_triples",
    "stands",
    "triple_file",
    "triple_row",
    "with_evidence_in",
    "world",
    "write_triple",
]
