"""Generated fact checks in the layout of AVeriTeC's: claims with four labels, questions, answers, and a haystack.

They let ProFact play without any file. `MadeChecks` is a sequence of `factgym.datasets.averitec.FactCheck`, `made_store`
its `KnowledgeStore`. Subjects, numbers and reports are invented; no licence attaches.
"""

from factgym.generators.factchecks.claims import Made, make_check
from factgym.generators.factchecks.dataset import MADE_HAYSTACK, MAX_SIZE, SPLITS, MadeChecks, MadeStore, made_store

__all__ = ["MADE_HAYSTACK", "MAX_SIZE", "SPLITS", "Made", "MadeChecks", "MadeStore", "made_store", "make_check"]
