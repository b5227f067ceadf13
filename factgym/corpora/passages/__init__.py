"""Corpora of passages out of people's files: FlashRAG and Search-R1, 2Wiki, question files' contexts, SQuAD, folders."""

from factgym.corpora.passages.layouts import LAYOUTS
from factgym.corpora.passages.reading import iter_passages, read_passages
from factgym.corpora.passages.stored import StoredCorpus

__all__ = ["LAYOUTS", "StoredCorpus", "iter_passages", "read_passages"]
