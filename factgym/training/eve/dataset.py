"""Between the phases: the frozen proposer writes the solver's data set from the held-out passages (section 3.4).

```
data/manifest.json      what, seeds, the proposer, fingerprints
    /rollouts/          every rollout, a run as `factgym eval` writes it
    /triples.jsonl      the rows: question, answer, evidence with document id and offsets, V
    /dropped.jsonl      the other rollouts, each with its reason
    /documents.jsonl    the passages that the rows point into, so that each row can be looked at
    /metrics.json       written last
```

A row is kept when it is valid, as in the paper, and when its span was found in the document or a search result:
without a place there is nothing to check. Dropped are also questions that hold every word of their answer, in another
order or out of sight, and a second row with the same question, answer and evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from factgym.agents.runs import DOCUMENTS, TRIPLES
from factgym.agents.runs import artifacts as files
from factgym.corpora.corpus import Corpus
from factgym.datasets.multihop import Evidence, Triple, triple_row
from factgym.training.eve.measures import mean
from factgym.training.eve.rows import scored

INVALID = "invalid: a part is empty, or the question holds its answer"
LEAKED = "the question holds every word of its answer"
UNPLACED = "the evidence stands in no document or search result"
REPEATED = "a row before it is the same"
LOW = "V is below the least that is kept"

_FACTS = ("V", "plus", "minus", "k", "n", "brevity", "value_kind", "solver", "auxiliary")


def write_triples(
    folder: Path, episodes: Iterable[Mapping[str, Any]], corpus: Corpus, min_value: float | None
) -> dict[str, Any]:
    """The data set of proposer episodes, on disk; what it amounts to. The episodes are read one by one."""
    kept: list[Triple] = []
    dropped: list[dict[str, Any]] = []
    seen: set[tuple[str, ...]] = set()
    slim = ({name: one[name] for name in ("index", "sample", "task", "reward")} for one in episodes)
    for one in scored(slim):
        facts = one["reward"]["metrics"]
        reason = _refused(facts, seen, min_value)
        if reason is None:
            kept.append(_triple(one, facts, corpus))
        else:
            own = {name: facts.get(name) for name in ("question", "answer", "evidence", "V")}
            dropped.append({"id": _id(one), "reason": reason, "document": facts.get("document"), **own})
    files.write_lines(folder / files.DROPPED, dropped)
    files.write_lines(folder / DOCUMENTS, _documents(kept, corpus))
    files.write_lines(folder / TRIPLES, (triple_row(one) for one in kept))
    return _measures(kept, dropped)


def _refused(facts: Mapping[str, Any], seen: set[tuple[str, ...]], min_value: float | None) -> str | None:
    if not facts.get("valid"):
        return INVALID
    if facts.get("leak"):
        return LEAKED
    if facts.get("evidence_span") is None:
        return UNPLACED
    if min_value is not None and (facts.get("V") is None or facts["V"] < min_value):
        return LOW
    key = tuple(" ".join(facts[name].casefold().split()) for name in ("question", "answer", "evidence"))
    if key in seen:
        return REPEATED
    seen.add(key)
    return None


def _triple(episode: Mapping[str, Any], facts: Mapping[str, Any], corpus: Corpus) -> Triple:
    place = facts["evidence_span"]
    start, end = place["start"], place["end"]
    span = Evidence(place["document"], start, end, corpus.get(place["document"]).text[start:end])
    meta = {
        "source": facts["document"],
        "task": episode["task"],
        "sample": episode["sample"],
        "reward": episode["reward"]["total"],
        **{name: facts.get(name) for name in _FACTS},
    }
    return Triple(
        id=_id(episode),
        question=facts["question"],
        answers=(facts["answer"],),
        evidence=(span,),
        hops=facts["hops"],
        benchmark="eve",
        meta=meta,
    )


def _id(episode: Mapping[str, Any]) -> str:
    return f"{episode['task']}#{episode['sample']}"


def _documents(triples: Iterable[Triple], corpus: Corpus) -> Iterator[dict[str, str]]:
    """The passages that rows were written from or point into, each once."""
    for name in dict.fromkeys(name for one in triples for name in (one.meta["source"], one.evidence[0].document)):
        passage = corpus.get(name)
        yield {"id": passage.id, "title": passage.title, "text": passage.text}


def _measures(kept: list[Triple], dropped: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "episodes": len(kept) + len(dropped),
        "rows": len(kept),
        "dropped": dict(Counter(one["reason"] for one in dropped)),
        "documents": len({one.meta["source"] for one in kept}),
        "V": mean(one.meta["V"] for one in kept),
        "hops": {str(hops): n for hops, n in sorted(Counter(one.hops or 0 for one in kept).items())},
    }
