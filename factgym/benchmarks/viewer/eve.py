"""EVE's parts as the viewer shows them: proposers' and solvers' episodes, a solver's data set, and a whole evolution.

Each span is highlighted in its document: the task's, else a search result of the transcript. A data set is a file of
triples; the passages are in `documents.jsonl` beside it. The page of an evolution links to the pages of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.runs.files import (
    DOCUMENTS,
    EPISODES,
    EVE_EVOLUTION,
    EVOLUTION_DATA,
    MANIFEST,
    ROLLOUTS,
    TRIPLES,
    read_json,
    read_lines,
)
from factgym.benchmarks.eve.evolution import data_lines, phase_table, summary_of
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import items, members, parts_of, text_form, texts_of
from factgym.benchmarks.viewer.transcript import Mark, marked_pieces, quote_span
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
_MAX_RESULTS = 12
"""Search results without any mark that are listed beside those with one."""

Facts = Mapping[str, Any]


def is_proposal(facts: Facts) -> bool:
    """Return whether the metrics are those of a proposer's episode, or of a row that it wrote."""
    return "evidence_span" in facts and "valid" in facts


def is_solution(facts: Facts) -> bool:
    """Return whether the metrics are those of a solver's episode."""
    return "em" in facts and "evidence_f1" in facts


def triple_row(episode: Mapping[str, Any]) -> tuple[str, str, str, str] | None:
    """Return gold answer, answer, state and question of an episode's row in the list; None where it is none of these."""
    _, facts, view = parts_of(episode)
    answer = text_form(facts.get("answer"))
    if is_proposal(facts):
        return "", answer, "played" if facts.get("valid") else "invalid", text_form(facts.get("question"))
    if is_solution(facts):
        state = "right" if facts.get("em") in (1, True) else "wrong" if answer else "silent"
        return text_form(view.get("answer")), answer, state, text_form(view.get("question"))
    return None


def triple_of(episode: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return question, answers, evidence and facts of an episode, for the page; None where it has none of these.

    answers: `[role, text]`. evidence: `[role, text, location, fault]`; the last two may be empty.
    """
    _, facts, view = parts_of(episode)
    evidence = text_form(facts.get("evidence"))
    if is_proposal(facts):
        span = members(facts.get("evidence_span"))
        fault = "" if span or not evidence else "in no document or search result"
        right, attempts = text_form(facts.get("k")), text_form(facts.get("n"))
        solved = [["solved", f"{right} of {attempts}"]] if right and attempts else []
        return {
            "question": text_form(facts.get("question")),
            "answers": [["answer", text_form(facts.get("answer"))]],
            "evidence": [["evidence", evidence, _location(span), fault]] if evidence else [],
            "facts": [*_named_facts(facts, _PROPOSER_FACTS), *solved],
        }
    if not is_solution(facts):
        return None
    fault = "" if facts.get("evidence_verbatim") else "in no passage that was shown"
    gold = [members(span) for span in items(view.get("gold_evidence"))]
    return {
        "question": text_form(view.get("question")),
        "answers": [
            ["submitted", text_form(facts.get("answer"))],
            ["gold", " · ".join(texts_of(view.get("gold_answers"))[:_MAX_RESULTS])],
        ],
        "evidence": [
            *([["submitted", evidence, "", fault]] if evidence else []),
            *(["gold", text_form(span.get("text")), _location(span), ""] for span in gold),
        ],
        "facts": _named_facts(facts, _SOLVER_FACTS),
    }


def _location(span: Mapping[str, Any]) -> str:
    start, end = span.get("start"), span.get("end")
    document = text_form(span.get("document"))
    return f"{document} · characters {start}–{end}" if isinstance(start, int) and isinstance(end, int) else document


def _named_facts(facts: Facts, names: Iterable[str]) -> list[list[str]]:
    return [
        [name, f"{value:.3f}" if isinstance(value, float) else text_form(value)]
        for name, value in ((_NAMES.get(name, name), facts.get(name)) for name in names)
        if value is not None and value != ""
    ]


def documents_of(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the documents of such an episode with their marks: `g` gold evidence, `q` evidence that was submitted."""
    _, facts, view = parts_of(episode)
    messages = [
        {"role": text_form(message.get("role")), "content": text_form(message.get("content"))}
        for message in map(members, items(episode.get("messages")))
    ]
    # Search results by id: title and text, the longest of several cuts.
    results: dict[str, tuple[str, str]] = {}
    for name, title, text in parse_solver_prompt(messages).results:  # type: ignore[arg-type]  # as messages are
        if len(text) > len(results.get(name, ("", ""))[1]):
            results[name] = title, text
    if is_proposal(facts):
        return _proposal_documents(facts, view, results)
    return _solution_documents(facts, view, results)


def _proposal_documents(facts: Facts, view: Facts, results: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    span = members(facts.get("evidence_span"))
    cited, source = text_form(span.get("document")), members(view.get("document"))
    passages = [(source, "source"), *((members(passage), "") for passage in items(view.get("passages")))]
    cards = []
    names = {text_form(source.get("id"))}
    for passage, tag in passages:
        name, text = text_form(passage.get("id")), text_form(passage.get("text"))
        if not text or (not tag and name in names):
            continue
        names.add(name)
        marks = [(*span_range(span.get("start"), span.get("end")), "q")] if name == cited else []
        cards.append(card(name, text_form(passage.get("title")), text, marks, [tag or "search result"]))
    if cited and cited not in names and cited in results:
        title, text = results[cited]
        cards.append(card(cited, title, text, quote_marks(text_form(facts.get("evidence")), text), ["search result"]))
    return cards


def _solution_documents(facts: Facts, view: Facts, results: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    evidence = text_form(facts.get("evidence"))

    def solved(name: str, title: str, text: str, marks: Sequence[Mark]) -> dict[str, Any]:
        quoted = quote_marks(evidence, text) if name in results else []
        states = (("gold", marks), ("read", name in results), ("cited", quoted))
        return card(name, title, text, [*marks, *quoted], [tag for tag, present in states if present])

    gold: dict[str, list[Mark]] = {}
    for span in map(members, items(view.get("gold_evidence"))):
        mark = (*span_range(span.get("start"), span.get("end")), "g")
        gold.setdefault(text_form(span.get("document")), []).append(mark)
    passages = {text_form(passage.get("id")): passage for passage in map(members, items(view.get("passages")))}
    cards = [
        solved(name, text_form(passage.get("title")), text_form(passage.get("text")), gold.get(name, []))
        for name, passage in passages.items()
    ]
    unlisted = [solved(name, *results[name], []) for name in results if name not in passages]
    return cards + sorted(unlisted, key=lambda result: "cited" not in result["tags"])[:_MAX_RESULTS]


def quote_marks(quote: str, text: str) -> list[Mark]:
    """Return the mark of a quote, if the text contains it."""
    span = quote_span(quote, text)
    return [(*span, "q")] if span else []


def span_range(start: Any = None, end: Any = None) -> tuple[int, int]:
    """Return a range of offsets; an empty one where they are no numbers."""
    return (start, end) if isinstance(start, int) and isinstance(end, int) else (0, 0)


def card(name: str, title: str, text: str, marks: Sequence[Mark], tags: list[str]) -> dict[str, Any]:
    """Return a document for the page, with its marks and tags."""
    return {"id": name, "title": title, "text": marked_pieces(text, marks), "tags": tags}


_NOTE = "These are rows of a data set. A reward is that of the proposer's episode that wrote the row."


@dataclass(frozen=True)
class DatasetRows:
    """Rows of a data set, read like a run's episodes."""

    folder: Path
    triples: Sequence[Triple]
    documents: Mapping[str, Mapping[str, Any]]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    reward_bounds: tuple[float, float] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for people."""
        spans = [span for triple in self.triples for span in triple.evidence if span.document]
        missing = sum(span.document not in self.documents for span in spans)
        note = f"{count(missing, 'span')} of {len(spans):,} cannot be shown in place: {DOCUMENTS} lacks the passages."
        return (_NOTE, *((note,) if missing else ()))

    def episodes(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a record that the page can show."""
        for triple in self.triples:
            meta = dict(triple.meta)
            names = dict.fromkeys(span.document for span in triple.evidence)
            spans = [{"document": span.document, "start": span.start, "end": span.end} for span in triple.evidence]
            reward = meta.get("reward", meta.get("V"))
            yield {
                "env": "data set",
                "agent": f"{count(len(self.triples), 'row')} for the solver",
                "task": triple.id,
                "turns": [],
                "reward": {
                    "total": reward,
                    "status": "unscored" if reward is None else "scored",
                    "components": {} if meta.get("V") is None else {"V": meta["V"]},
                    "metrics": {
                        **meta,
                        "valid": True,
                        "question": triple.question,
                        "answer": triple.answer,
                        "evidence": "\n".join(span.text for span in triple.evidence),
                        "evidence_span": spans[0] if spans else None,
                        "hops": triple.hops,
                    },
                },
                "stop": "submitted",
                "task_view": {
                    "document": self.documents.get(meta.get("source") or next(iter(names), ""), {}),
                    "passages": [self.documents[name] for name in names if name in self.documents],
                },
            }


def is_dataset(path: Path) -> bool:
    """Return whether the path is a data set, or the folder of one."""
    return path.name == TRIPLES or (path / TRIPLES).is_file()


def read_dataset(path: Path) -> DatasetRows:
    """Return the data set at a path. Raises DataError for rows out of shape."""
    file = path if path.name == TRIPLES else path / TRIPLES
    beside = file.with_name(DOCUMENTS)
    documents = {str(row.get("id")): row for row in read_lines(beside)} if beside.is_file() else {}
    return DatasetRows(file.parent, read_triples("triples", file), documents)


def is_evolution(path: Path) -> bool:
    """Return whether the path is the folder of an EVE evolution."""
    manifest = path / MANIFEST
    return manifest.is_file() and read_json(manifest).get("what") == EVE_EVOLUTION


def evolution_runs(out: Path) -> Iterator[Path]:
    """Yield the runs and the data set of an evolution, as far as they exist, in the order in which they were made."""

    def iteration(folder: Path) -> int:
        number = folder.name.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0

    for phase in ("proposer", EVOLUTION_DATA, "solver"):
        folders = [out / phase] if phase == EVOLUTION_DATA else sorted((out / phase).glob("iteration-*"), key=iteration)
        yield from (folder / ROLLOUTS for folder in folders if (folder / ROLLOUTS / EPISODES).exists())
        if phase == EVOLUTION_DATA and (out / EVOLUTION_DATA / "metrics.json").exists():
            yield out / EVOLUTION_DATA


def evolution_values(out: Path) -> dict[str, Any]:
    """Return values of the template `evolution.html`."""
    manifest, summary = read_json(out / MANIFEST), summary_of(out)
    sizes = manifest.get("fingerprints", {})
    facts = [f"{sizes[name]:,} {words}" for name, words in _COUNTS if isinstance(sizes.get(name), int)]
    return {
        "who": " and ".join(str(manifest.get(role, {}).get("agent", "")) for role in ("proposer", "solver")),
        "facts": [*facts, f"seed {manifest['settings']['seed']}", f"factgym {manifest['factgym']}"],
        "notes": summary["caveats"],
        "phases": [(phase, *phase_table(summary, phase)) for phase in ("proposer", "solver")],
        "data_lines": data_lines(summary["data"]) if summary["data"] is not None else None,
        "data_folder": EVOLUTION_DATA,
        "rollouts": ROLLOUTS,
        "manifest": manifest,
    }


_COUNTS = (("passages", "passages"), ("training", "to train the proposer on"), ("held_out", "held out"))
