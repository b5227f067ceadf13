"""Co-occurrence counts of a corpus: an inverted index that counts words near each other, for CorVer's sentence reward.

    counter = open_index("wiki.cooc")
    counter.count_many([["Ronkonkoma", "11779"], ["Messi", "Rosario"]])     # array([12, 340])
    counter.count_up_to([["Ronkonkoma", "11779"], ["Messi", "Rosario"]], 20)    # array([12, 20]), and stops there

Counting is NumPy in the base install and compiled with the extra "counting" (numba), some twenty times as fast and
with the same counts. The cost of a query grows with the occurrences of its rarest clause, not with the corpus.

**Positions.** The corpus is one sequence of positions. Every document begins with a separator, which takes one
position, and its words follow in order; punctuation takes none. `tokenizer.tokenize` defines words.

**Queries.** A query is an AND of clauses, a clause an OR of terms, a term a word. A term that the tokenizer splits
(`Men's`, `4-2`, `U.S.`) is a phrase: its tokens in adjacent positions of one document; it occurs at its first token. A
clause's occurrences are those of its terms, its frequency their number. An empty query is an error; a clause without
occurrences makes the count 0. A query of one clause counts its occurrences.

**Semantics "infini-gram"** repeats the CNF count of the infini-gram engine (Liu et al., "Infini-gram: Scaling unbounded
n-gram language models to a trillion tokens", 2024), quirks included:

1. Clauses are sorted by frequency (equal ones stay in the query's order). The anchors are the occurrences of the
   first; an occurrence that two terms of the clause share is two anchors. Each anchor starts as the span [p, p].
2. For each further clause in that order, with its occurrences sorted: if one lies in [l, r) the span stays. Otherwise
   let `left` be the last occurrence before l and `right` the first at or after r. `left` is accepted when
   l - left <= window, `right` when right - r <= window. With both accepted the span becomes [left, right], with one
   of them it grows on that side alone, with neither the anchor is dropped. So the window chains.
3. An anchor counts when no separator lies inside its final span. The clauses ignore separators: a nearer occurrence in
   the neighbouring document is taken first and then costs the anchor.
4. Where a clause occurs more than `max_frequency` times the engine samples a random range of its suffix array (and
   reports it only from twice that number on). Those counts are not repeated: here they are exact, and no
   other engine's count can be compared with them.

**Semantics "window"** is the clean form. Clauses and anchors as in 1, but each position is an anchor once, and equally
frequent clauses are taken by their words, so that a query's order changes nothing. An anchor counts when every clause
has an occurrence in the anchor's document such that the anchor and one occurrence of each clause all lie within
`window`: largest position - smallest position <= window. One occurrence may serve several clauses (a repeated word
changes nothing).
"""

from __future__ import annotations

from factgym.corpora.cooccurrence.build import Built, Progress, build_index
from factgym.corpora.cooccurrence.index import CooccurrenceIndex, Counter, memory_index, open_counter, open_index
from factgym.corpora.cooccurrence.tokenizer import tokenize

__all__ = [
    "Built",
    "CooccurrenceIndex",
    "Counter",
    "Progress",
    "build_index",
    "memory_index",
    "open_counter",
    "open_index",
    "tokenize",
]
