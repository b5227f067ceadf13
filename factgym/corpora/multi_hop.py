"""Condensed retrieval over several hops, after Baleen (Khattab, Potts and Zaharia, NeurIPS 2021).

    build_index(passages, "multi-hop")                              two hops of BM25
    build_index(passages, "multi-hop", base="dense", hops=3, facts=2)

A hop searches, chooses the sentences of the new passages that fit the query best (facts), and the next hop searches with
the query and all facts so far. So a passage comes into reach that shares no word with the query, but with a fact. Baleen
trains its retriever and its choice of sentences; here any index retrieves, and overlap of words weighted by idf chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable
from factgym.corpora.condense import Fact, best_facts, query_weights
from factgym.corpora.corpus import Corpus
from factgym.corpora.index import Hit, Index, IndexChoice, build_index, check_request, fingerprint_of, index_fingerprint
from factgym.text.words import MAX_QUERY_CHARS

HOPS = 2
FACTS = 1
READS = 5
_MOST = {"hops": 10, "facts": 20, "reads": 100}


class MultiHopIndex(Immutable):
    """Searches `base` in hops, each with the query and the facts of those before.

    hops: searches of each query, at most; 1 is the base's ranking. facts: sentences that a hop adds, each of another
    passage. reads: how many of a hop's first hits they are chosen from, without those that have given a fact.

    A passage is ranked by its best rank in any hop, on a level the earlier hop first: the rankings are interleaved, and a
    passage that a hop brings back takes no second turn. Its score is 1 / position. All queries of a batch are searched
    together in each hop.
    """

    def __init__(
        self, corpus: Corpus, base: Index, *, hops: int = HOPS, facts: int = FACTS, reads: int = READS
    ) -> None:
        self._corpus = corpus
        self._base = base
        self._settings = {"hops": hops, "facts": facts, "reads": reads}
        for name, value in self._settings.items():
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST[name]:
                raise ConfigError(f"{name} is a number from 1 to {_MOST[name]}, not {value!r:.40}")
        self.hops, self.facts, self.reads = hops, facts, reads

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first."""
        check_request(queries, k)
        # Deep enough that facts, and so the order of the hits, do not depend on k.
        depth = max(k, self.reads + self.facts * (self.hops - 1))
        rankings = [[hits] for hits in self._base.search(queries, depth)]
        facts: list[list[Fact]] = [[] for _ in queries]
        for _ in range(self.hops - 1):
            extended: dict[int, str] = {}
            for i, query in enumerate(queries):
                if new := self._new_facts(query, facts[i], rankings[i][-1]):
                    facts[i] += new
                    extended[i] = with_facts(query, facts[i])
            if not extended:
                break
            for i, hits in zip(extended, self._base.search(list(extended.values()), depth), strict=True):
                rankings[i].append(hits)
        return [merge_hops(hops)[:k] for hops in rankings]

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, settings and base."""
        return index_fingerprint("multi-hop", self._settings, [self._corpus.fingerprint(), fingerprint_of(self._base)])

    def _new_facts(self, query: str, facts: Sequence[Fact], hits: Sequence[Hit]) -> list[Fact]:
        used = {fact.passage.id for fact in facts}
        new = [hit.id for hit in hits if hit.id not in used][: self.reads]
        weights: Mapping[str, float] = query_weights(with_facts(query, facts), self._base)
        return best_facts([self._corpus.get(id_) for id_ in new], weights, self.facts)


def with_facts(query: str, facts: Sequence[Fact]) -> str:
    """Return the query of the next hop: the query, then each fact after the title of its passage."""
    return " ".join([query[:MAX_QUERY_CHARS], *(f"{fact.passage.title} {fact.text}".strip() for fact in facts)])


def merge_hops(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Return the passages of all hops by their best rank, on a level the earlier hop first, scored 1 / position."""
    longest = max(map(len, rankings), default=0)
    turns = (hits[rank].id for rank in range(longest) for hits in rankings if rank < len(hits))
    return [Hit(id_, 1 / position) for position, id_ in enumerate(dict.fromkeys(turns), start=1)]


def build_multi_hop(
    corpus: Corpus, base: IndexChoice = "bm25", hops: int = HOPS, facts: int = FACTS, reads: int = READS, **options: Any
) -> MultiHopIndex:
    """Build the base with its options, and search it in hops."""
    return MultiHopIndex(corpus, build_index(corpus, base, **options), hops=hops, facts=facts, reads=reads)
