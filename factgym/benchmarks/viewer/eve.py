"""EVE's parts as the viewer shows them: proposers' and solvers' episodes, a solver's data set, and a whole evolution.

Each span is highlighted in its document. A proposer's episode holds its source document; where its span is in a search
result instead, that text is taken out of the transcript. A solver's holds the documents of the gold evidence, and the
passages that were shown are in its transcript too. A data set is a file of triples; the passages are in `documents.jsonl`
beside it. The page of an evolution needs no script and links to the pages of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.runs import DOCUMENTS, EPISODES, EVE_EVOLUTION, EVOLUTION_DATA, ROLLOUTS, TRIPLES
from factgym.agents.runs.files import MANIFEST, read_json, read_lines
from factgym.benchmarks.eve.evolution import (
    LEGEND,
    PROPOSER,
    SOLVER,
    data_lines,
    proposer_cells,
    solver_cells,
    summary_of,
)
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import as_dict, as_list, as_number, as_text, as_texts
from factgym.benchmarks.viewer.marks import Mark, quote_span, split
from factgym.datasets.multihop import Triple, read_triples
from factgym.envs.eve.reading import parse_solver_prompt

_SOLVER_FACTS = ("f1", "evidence_f1", "searches", "hops", "benchmark")
_PROPOSER_FACTS = ("hops", "task_type", "V", "plus", "minus", "brevity", "solver", "auxiliary")
_NAMES = {
    "f1": "answer F1",
    "evidence_f1": "evidence F1",
    "plus": "right with the evidence",
    "minus": "right without it",
}
_MAX_SHOWN = 12
"""Search results without any mark that are listed beside those with one."""

Facts = Mapping[str, Any]


def is_proposal(facts: Facts) -> bool:
    """Whether the metrics are those of a proposer's episode, or of a row that it wrote."""
    return "evidence_span" in facts and "valid" in facts


def is_solution(facts: Facts) -> bool:
    """Whether the metrics are those of a solver's episode."""
    return "em" in facts and "evidence_f1" in facts


def triple_row(episode: Mapping[str, Any]) -> tuple[str, str, str, str] | None:
    """(gold, said, state, question) of an episode's row in the list; None where it is none of these."""
    facts, view = _metrics(episode), as_dict(episode.get("task_view"))
    if is_proposal(facts):
        state = "played" if facts.get("valid") else "invalid"
        return "", as_text(facts.get("answer")), state, as_text(facts.get("question"))
    if is_solution(facts):
        said = as_text(facts.get("answer"))
        state = (
            "right" if as_number(facts.get("em")) == 1 or facts.get("em") is True else "wrong" if said else "silent"
        )
        return as_text(view.get("answer")), said, state, as_text(view.get("question"))
    return None


def triple_of(episode: Mapping[str, Any]) -> dict[str, Any] | None:
    """Question, answers, evidence and facts of an episode, for the page; None where it has none of these.

    answers: `[role, text]`. evidence: `[role, text, place, fault]`; the last two may be empty.
    """
    facts, view = _metrics(episode), as_dict(episode.get("task_view"))
    if is_proposal(facts):
        return _proposal(facts)
    return _solution(facts, view) if is_solution(facts) else None


def documents_of(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The documents of such an episode with their marks: `g` gold evidence, `q` evidence that was submitted."""
    facts, view = _metrics(episode), as_dict(episode.get("task_view"))
    shown = _shown(episode)
    return _of_proposal(facts, view, shown) if is_proposal(facts) else _of_solution(facts, view, shown)


def _metrics(episode: Mapping[str, Any]) -> Facts:
    return as_dict(as_dict(episode.get("reward")).get("metrics"))


def _proposal(facts: Facts) -> dict[str, Any]:
    span = as_dict(facts.get("evidence_span"))
    text = as_text(facts.get("evidence"))
    fault = "" if span or not text else "stands in no document or search result"
    right, asked = as_text(facts.get("k")), as_text(facts.get("n"))
    return {
        "question": as_text(facts.get("question")),
        "answers": [["answer", as_text(facts.get("answer"))]],
        "evidence": [["evidence", text, _place(span), fault]] if text else [],
        "facts": [*_named(facts, _PROPOSER_FACTS), *([["solved", f"{right} of {asked}"]] if right and asked else [])],
    }


def _solution(facts: Facts, view: Mapping[str, Any]) -> dict[str, Any]:
    text = as_text(facts.get("evidence"))
    fault = "" if facts.get("evidence_verbatim") else "stands in no passage that was shown"
    gold = [as_dict(one) for one in as_list(view.get("gold_evidence"))]
    return {
        "question": as_text(view.get("question")),
        "answers": [
            ["submitted", as_text(facts.get("answer"))],
            ["gold", " · ".join(as_texts(view.get("gold_answers"))[:_MAX_SHOWN])],
        ],
        "evidence": [
            *([["submitted", text, "", fault]] if text else []),
            *(["gold", as_text(one.get("text")), _place(one), ""] for one in gold),
        ],
        "facts": _named(facts, _SOLVER_FACTS),
    }


def _place(span: Mapping[str, Any]) -> str:
    start, end = span.get("start"), span.get("end")
    where = as_text(span.get("document"))
    return f"{where} · characters {start}–{end}" if isinstance(start, int) and isinstance(end, int) else where


def _named(facts: Facts, names: Iterable[str]) -> list[list[str]]:
    known = ((_NAMES.get(name, name), facts.get(name)) for name in names)
    return [[name, _said(value)] for name, value in known if value is not None and value != ""]


def _said(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else as_text(value)


def _shown(episode: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Id -> title and text of every search result, as it was shown; the longest of several cuts."""
    messages = [
        {"role": as_text(one.get("role")), "content": as_text(one.get("content"))}
        for one in map(as_dict, as_list(episode.get("messages")))
    ]
    found: dict[str, tuple[str, str]] = {}
    for name, title, text in parse_solver_prompt(messages).results:  # type: ignore[arg-type]  # as messages are
        if len(text) > len(found.get(name, ("", ""))[1]):
            found[name] = title, text
    return found


def _of_proposal(facts: Facts, view: Mapping[str, Any], shown: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    span = as_dict(facts.get("evidence_span"))
    own, source = as_text(span.get("document")), as_dict(view.get("document"))
    cards = []
    known = {as_text(source.get("id"))}
    for one, tag in [(source, "source"), *((as_dict(one), "") for one in as_list(view.get("passages")))]:
        name, text = as_text(one.get("id")), as_text(one.get("text"))
        if not text or (not tag and name in known):
            continue
        known.add(name)
        marks = [(*_range(span), "q")] if name == own else []
        cards.append(_card(name, as_text(one.get("title")), text, marks, [tag or "search result"]))
    if own and own not in known and own in shown:
        title, text = shown[own]
        cards.append(_card(own, title, text, _quoted(as_text(facts.get("evidence")), text), ["search result"]))
    return cards


def _of_solution(facts: Facts, view: Mapping[str, Any], shown: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    said = as_text(facts.get("evidence"))
    gold: dict[str, list[Mapping[str, Any]]] = {}
    for one in map(as_dict, as_list(view.get("gold_evidence"))):
        gold.setdefault(as_text(one.get("document")), []).append(one)
    cards = []
    known = set()
    for one in map(as_dict, as_list(view.get("passages"))):
        name, text = as_text(one.get("id")), as_text(one.get("text"))
        known.add(name)
        marks: list[Mark] = [(*_range(span), "g") for span in gold.get(name, ())]
        cards.append(_solved(name, as_text(one.get("title")), text, marks, said, name in shown))
    others = [_solved(name, *shown[name], [], said, True) for name in shown if name not in known]
    return cards + sorted(others, key=lambda card: "cited" not in card["tags"])[:_MAX_SHOWN]


def _solved(name: str, title: str, text: str, marks: Sequence[Mark], said: str, read: bool) -> dict[str, Any]:
    quoted = _quoted(said, text) if read else []
    tags = [
        *(["gold"] if marks else []),
        *(["read"] if read else []),
        *(["cited"] if quoted else []),
    ]
    return _card(name, title, text, [*marks, *quoted], tags)


def _quoted(quote: str, text: str) -> list[Mark]:
    """The mark of a quote, if the text holds it."""
    span = quote_span(quote, text)
    return [(*span, "q")] if span else []


def _range(span: Mapping[str, Any]) -> tuple[int, int]:
    start, end = span.get("start"), span.get("end")
    return (start, end) if isinstance(start, int) and isinstance(end, int) else (0, 0)


def _card(name: str, title: str, text: str, marks: Sequence[Mark], tags: list[str]) -> dict[str, Any]:
    return {"id": name, "title": title, "text": split(text, marks), "tags": tags}


_NOTE = "These are rows of a data set. A reward is that of the proposer's episode that wrote the row."


@dataclass(frozen=True)
class DatasetRows:
    """Rows of a data set in the place of a run's episodes."""

    folder: Path
    triples: Sequence[Triple]
    documents: Mapping[str, Mapping[str, Any]]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for people."""
        spans = [span for triple in self.triples for span in triple.evidence if span.document]
        missing = sum(span.document not in self.documents for span in spans)
        note = f"{count(missing, 'span')} of {len(spans):,} cannot be shown in place: {DOCUMENTS} lacks the passages."
        return (_NOTE, *((note,) if missing else ()))

    def episodes(self) -> Iterator[dict[str, Any]]:
        """Each row as a record that the page can show."""
        for index, triple in enumerate(self.triples):
            yield self._record(index, triple)

    def _record(self, index: int, triple: Triple) -> dict[str, Any]:
        meta = dict(triple.meta)
        names = dict.fromkeys(one.document for one in triple.evidence)
        spans = [{"document": one.document, "start": one.start, "end": one.end} for one in triple.evidence]
        source = meta.get("source") or next(iter(names), "")
        facts = {
            **meta,
            "valid": True,
            "question": triple.question,
            "answer": triple.answer,
            "evidence": "\n".join(one.text for one in triple.evidence),
            "evidence_span": spans[0] if spans else None,
            "hops": triple.hops,
        }
        documents = [self.documents[name] for name in names if name in self.documents]
        reward = meta.get("reward", meta.get("V"))
        return {
            "env": "data set",
            "version": None,
            "agent": f"{count(len(self.triples), 'row')} for the solver",
            "task": triple.id,
            "index": index,
            "sample": 0,
            "split": None,
            "messages": [],
            "turns": [],
            "reward": {
                "total": reward,
                "status": "unscored" if reward is None else "scored",
                "components": {} if meta.get("V") is None else {"V": meta["V"]},
                "weights": {},
                "gates": {},
                "metrics": facts,
            },
            "stop": "submitted",
            "error": None,
            "task_view": {"document": self.documents.get(source, {}), "passages": documents},
        }


def is_dataset(path: Path) -> bool:
    """Whether the path is a data set, or the folder of one."""
    return path.name == TRIPLES or (path / TRIPLES).is_file()


def read_dataset(path: Path) -> DatasetRows:
    """The data set at a path. Raises DataError for rows out of shape."""
    file = path if path.name == TRIPLES else path / TRIPLES
    beside = file.with_name(DOCUMENTS)
    documents = {str(row.get("id")): row for row in read_lines(beside)} if beside.is_file() else {}
    return DatasetRows(file.parent, read_triples("triples", file), documents)


def is_evolution(path: Path) -> bool:
    """Whether the path is the folder of an EVE evolution."""
    manifest = path / MANIFEST
    return manifest.is_file() and read_json(manifest).get("what") == EVE_EVOLUTION


def evolution_runs(out: Path) -> Iterator[Path]:
    """The runs and the data set of an evolution, as far as they are there, in the order in which they were made."""
    for phase in ("proposer", EVOLUTION_DATA, "solver"):
        folders = [out / phase] if phase == EVOLUTION_DATA else sorted((out / phase).glob("iteration-*"), key=_number)
        for folder in folders:
            if (folder / ROLLOUTS / EPISODES).exists():
                yield folder / ROLLOUTS
        if phase == EVOLUTION_DATA and (out / EVOLUTION_DATA / "metrics.json").exists():
            yield out / EVOLUTION_DATA


def _number(folder: Path) -> int:
    last = folder.name.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def evolution_values(out: Path) -> dict[str, Any]:
    """Values of the template `evolution.html`."""
    manifest, summary = read_json(out / MANIFEST), summary_of(out)
    sizes = manifest.get("fingerprints", {})
    facts = [f"{sizes[name]:,} {words}" for name, words in _COUNTS if isinstance(sizes.get(name), int)]
    return {
        "who": " and ".join(str(manifest.get(role, {}).get("agent", "")) for role in ("proposer", "solver")),
        "facts": [*facts, f"seed {manifest['settings']['seed']}", f"factgym {manifest['factgym']}"],
        "notes": summary["caveats"],
        "phases": [
            (
                "Phase A: the proposer",
                "proposer",
                PROPOSER,
                [proposer_cells(row) for row in summary["proposer"]],
                LEGEND,
            ),
            ("Phase B: the solver", "solver", SOLVER, [solver_cells(row) for row in summary["solver"]], ""),
        ],
        "data_lines": data_lines(summary["data"]) if summary["data"] is not None else None,
        "data_folder": EVOLUTION_DATA,
        "rollouts": ROLLOUTS,
        "manifest": manifest,
    }


_COUNTS = (("passages", "passages"), ("training", "to train the proposer on"), ("held_out", "held out"))
