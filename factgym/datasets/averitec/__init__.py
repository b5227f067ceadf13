"""AVeriTeC for ProFact: its fact-checked claims, the evidence they are checked against, and the search in it.

Claims come from the data set's own files (`read_fact_checks`). Evidence comes from the published knowledge store
(`FolderStore`), or from the gold evidence of the whole split where none is at hand (`GoldStore`); `open_store` takes
the one that is there. No data is part of the package.
"""

from factgym.datasets.averitec.claims import (
    CONFLICTING,
    LABELS,
    NO_ANSWER,
    NOT_ENOUGH,
    REFUTED,
    SUPPORTED,
    FactCheck,
    GoldAnswer,
    GoldQuestion,
    Label,
    answer_string,
    evidence_strings,
    fact_check_label,
)
from factgym.datasets.averitec.evidence import Evidence, EvidenceCorpus, host_of, original_url, url_date, windows
from factgym.datasets.averitec.folder import FolderStore
from factgym.datasets.averitec.opening import open_store
from factgym.datasets.averitec.reading import FactChecks, parse_claim_date, read_fact_checks
from factgym.datasets.averitec.search import SCOPES, EvidenceSearch, Found, Scope
from factgym.datasets.averitec.stores import (
    GOLD_HAYSTACK,
    KNOWLEDGE_STORE,
    ClaimKey,
    GoldStore,
    KnowledgeStore,
)

__all__ = [
    "CONFLICTING",
    "GOLD_HAYSTACK",
    "KNOWLEDGE_STORE",
    "LABELS",
    "NOT_ENOUGH",
    "NO_ANSWER",
    "REFUTED",
    "SCOPES",
    "SUPPORTED",
    "ClaimKey",
    "Evidence",
    "EvidenceCorpus",
    "EvidenceSearch",
    "FactCheck",
    "FactChecks",
    "FolderStore",
    "Found",
    "GoldAnswer",
    "GoldQuestion",
    "GoldStore",
    "KnowledgeStore",
    "Label",
    "Scope",
    "answer_string",
    "evidence_strings",
    "fact_check_label",
    "host_of",
    "open_store",
    "original_url",
    "parse_claim_date",
    "read_fact_checks",
    "url_date",
    "windows",
]
