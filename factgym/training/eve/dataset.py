"""Between the phases: the frozen proposer writes the solver's data set from the held-out passages (section 3.4).

```
data/manifest.json      kind, seeds, the proposer, fingerprints
    /rollouts/          every rollout, a run as `factgym eval` writes it
    /triples.jsonl      the rows: question, answer, evidence with document id and offsets, V
    /dropped.jsonl      the other rollouts, each with its reason
    /documents.jsonl    the passages that the rows refer to, so that each row can be inspected
    /metrics.json       written last
```

A row needs a valid proposal, as in the paper, and evidence with a span in the document or a search result: without a
span there is nothing to check. Dropped are also questions that contain every word of their answer, in another order or
hidden, and a second row with the same question, answer and evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from factgym.agents.runs import DOCUMENTS, TRIPLES, files
from factgym.corpora.corpus import Corpus
from factgym.datasets.multihop import Evidence, Triple, triple_row
from factgym.training.eve.rollouts import mean, scored

# Written into `dropped.jsonl` and `metrics.json`.
INVALID = "invalid: a part is empty, or the question holds its answer"
LEAKED = "the question holds every word of its answer"
UNPLACED = "the evidence stands in no document or search result"
REPEATED = "a row before it is the same"
LOW_VALUE = "V is below the least that is kept"

_FACTS = ("V", "plus", "minus", "k", "n", "brevity", "value_kind", "solver", "auxiliary")


def write_triples(
    folder: Path, episodes: Iterable[Mapping[str, Any]], corpus: Corpus, min_value: float | None
) -> dict[str, Any]:
    """Write the data set of proposer episodes and return its metrics. Episodes are read as a stream."""
    triples: list[Triple] = []
    dropped: list[dict[str, Any]] = []
    seen: set[tuple[str, ...]] = set()
    without_messages = (
        {name: episode[name] for name in ("index", "sample", "task", "reward")} for episode in episodes
    )
    for episode in scored(without_messages):
        facts = episode["reward"]["metrics"]
        row_id = f"{episode['task']}#{episode['sample']}"
        reason = _drop_reason(facts, seen, min_value)
        if reason is None:
            triples.append(_triple(row_id, episode, facts, corpus))
        else:
            proposal = {name: facts.get(name) for name in ("question", "answer", "evidence", "V")}
            dropped.append({"id": row_id, "reason": reason, "document": facts.get("document"), **proposal})
    files.write_lines(folder / files.DROPPED, dropped)
    files.write_lines(folder / DOCUMENTS, _documents(triples, corpus))
    files.write_lines(folder / TRIPLES, map(triple_row, triples))
    return {
        "episodes": len(triples) + len(dropped),
        "rows": len(triples),
        "dropped": dict(Counter(row["reason"] for row in dropped)),
        "documents": len({triple.meta["source"] for triple in triples}),
        "V": mean(triple.meta["V"] for triple in triples),
        "hops": {str(hops): n for hops, n in sorted(Counter(triple.hops or 0 for triple in triples).items())},
    }


def _drop_reason(facts: Mapping[str, Any], seen: set[tuple[str, ...]], min_value: float | None) -> str | None:
    """The reason to drop a proposal; None for a row, whose texts are added to `seen`."""
    if not facts.get("valid"):
        return INVALID
    if facts.get("leak"):
        return LEAKED
    if facts.get("evidence_span") is None:
        return UNPLACED
    if min_value is not None and (facts.get("V") is None or facts["V"] < min_value):
        return LOW_VALUE
    key = tuple(" ".join(facts[name].casefold().split()) for name in ("question", "answer", "evidence"))
    if key in seen:
        return REPEATED
    seen.add(key)
    return None


def _triple(row_id: str, episode: Mapping[str, Any], facts: Mapping[str, Any], corpus: Corpus) -> Triple:
    span = facts["evidence_span"]
    document, start, end = span["document"], span["start"], span["end"]
    meta = {
        "source": facts["document"],
        "task": episode["task"],
        "sample": episode["sample"],
        "reward": episode["reward"]["total"],
        **{name: facts.get(name) for name in _FACTS},
    }
    return Triple(
        id=row_id,
        question=facts["question"],
        answers=(facts["answer"],),
        evidence=(Evidence(document, start, end, corpus.get(document).text[start:end]),),
        hops=facts["hops"],
        benchmark="eve",
        meta=meta,
    )


def _documents(triples: Iterable[Triple], corpus: Corpus) -> Iterator[dict[str, str]]:
    """The passages that rows were written from or refer to, each once."""
    ids = (document for triple in triples for document in (triple.meta["source"], triple.evidence[0].document))
    for document in dict.fromkeys(ids):
        passage = corpus.get(document)
        yield {"id": passage.id, "title": passage.title, "text": passage.text}
