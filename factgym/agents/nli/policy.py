"""Policies of ClaimCheck and SEVA that act like the scripted verifiers, and judge by an NLI model's scores.

Each statement is scored against the passages that were read, as windows that fit the model (the longest premises, as in
MiniCheck), and against the sentences nearest to it, from which the quotes are chosen: the sentence, or the two or three
together, that the model takes for the best support. All pairs of an episode are scored in one call, and episodes that wait
at the same time share it.
"""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from factgym.agents.nli.scorer import NliSettings, Pair, PairScore, PairScorer
from factgym.baselines.evidence import (
    Evidence,
    Sentence,
    Statement,
    build_evidence,
    parse_statement,
    select_sentences,
    uncovered_span,
)
from factgym.core.errors import FactgymError, MissingExtraError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import PolicyError
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import Status, final_verdict
from factgym.envs.claimcheck.scripted import (
    EpisodeBrief,
    ScriptedPolicy,
    ToolLoop,
    Verdict,
    claim_entry,
    collect_evidence,
    make_verdict,
    split_statements,
)
from factgym.envs.scripted import call_text
from factgym.envs.seva import agents as seva
from factgym.text.sentences import strip_full_stop

_NEAREST = 12
"""Sentences of the passages that are scored by themselves for each statement, those that share most words with it."""
_MAX_QUOTES = 3

_Scores = Generator[list[Pair], list[PairScore], "list[dict[str, Any]]"]
"""Yields pairs, receives their scores, returns the entries of a verdict."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Sentences that were scored together as a premise, none for a window of a passage."""

    score: PairScore
    sentences: tuple[Sentence, ...] = ()


class NliModel:
    """An NLI model as a model of agents. Usable from several event loops; its thread and memory are held until `close`.

    model: a folder or a hub name. settings: of NliSettings. Raises ConfigError for settings that do not exist and
    MissingExtraError without the extra "local"; the model is loaded by `prepare` or the first episode.
    """

    def __init__(self, model: str | Path, **settings: Any) -> None:
        for name in ("torch", "transformers"):
            if find_spec(name) is None:
                raise MissingExtraError("an NLI model", "local")
        self.name = str(model)
        self.settings = NliSettings.build(f"the NLI model {self.name!r}", settings)
        self._scorer: PairScorer | None = None
        self._waiting: queue.SimpleQueue[tuple[_Scores, Future[list[dict[str, Any]]]]] = queue.SimpleQueue()
        self._thread: ThreadPoolExecutor | None = None

    async def prepare(self) -> None:
        """Load the model. Raises ConfigError when it cannot be loaded, or its outputs say nothing about support."""
        await asyncio.wrap_future(self._submit(self._load_lazily))

    def start(self, seed: int) -> NliPolicy:
        """Return the policy of one episode."""
        return NliPolicy(self)

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        """Return the first message of an episode."""
        return self.start(0).act(messages, tools)

    def describe(self) -> dict[str, Any]:
        """Return the model and every setting, as JSON data; what was resolved on loading after that."""
        installed = {name: version(name) for name in ("torch", "transformers")}
        resolved = {} if self._scorer is None else {"resolved": self._scorer.describe()}
        return {"kind": "nli", "model": self.name, **self.settings.model_dump(), "libraries": installed, **resolved}

    async def close(self) -> None:
        """Give the memory back. The next episode loads the model again."""
        thread, self._thread, self._scorer = self._thread, None, None
        if thread is not None:
            await asyncio.to_thread(thread.shutdown)

    async def judge(self, brief: EpisodeBrief, passages: Sequence[Passage]) -> list[dict[str, Any]]:
        """Return the entries of a verdict. Raises PolicyError with cause "local_model" where the model fails."""
        return await self.score(judge_statements(brief, passages, self._load_lazily, self.settings.threshold))

    async def judge_claim(self, brief: seva.EpisodeBrief) -> PairScore:
        """Return the best scores of a claim over the windows of its source. Raises PolicyError as `judge` does."""
        (scores,) = await self.score(_score_claim(brief, self._load_lazily))
        return PairScore(**scores)

    async def score(self, scores: _Scores) -> list[dict[str, Any]]:
        """Return the result of a generator of pairs, whose pairs share calls with those that wait at the same time."""
        future: Future[list[dict[str, Any]]] = Future()
        self._waiting.put((scores, future))
        self._submit(self._drain)
        return await asyncio.wrap_future(future)

    def _submit(self, work: Callable[[], Any]) -> Future[Any]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="factgym-nli")
        return self._thread.submit(work)

    def _load_lazily(self) -> PairScorer:
        if self._scorer is None:
            self._scorer = PairScorer(self.name, self.settings)
        return self._scorer

    def _drain(self) -> None:
        """Judge for all episodes that wait; those that come meanwhile are the next call's."""
        jobs = []
        while not self._waiting.empty():
            jobs.append(self._waiting.get())
        try:
            results = run_together([scores for scores, _ in jobs], self._load_lazily().score) if jobs else []
        except Exception as error:  # noqa: BLE001 - the boundary to the library: every episode gets the typed error
            for _, future in jobs:
                typed = isinstance(error, FactgymError)
                future.set_exception(
                    error if typed else PolicyError("local_model", f"{type(error).__name__}: {error}"[:2000])
                )
            return
        for (_, future), entries in zip(jobs, results, strict=True):
            if future.set_running_or_notify_cancel():
                future.set_result(entries)


class NliPolicy:
    """The policy of one episode."""

    def __init__(self, model: NliModel) -> None:
        self._model = model
        self._brief: EpisodeBrief | None = None
        self._passages: Sequence[Passage] = ()
        self._script = ScriptedPolicy(model.settings.max_turns, self._collect)

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the next calls: of the search for evidence, then the verdict."""
        reply = self._script.act(messages, tools)
        if self._brief is None:
            return reply
        entries = await self._model.judge(self._brief, self._passages)
        return call_text("submit", make_verdict(final_verdict(entry["status"] for entry in entries), entries))

    def _collect(self, brief: EpisodeBrief) -> ToolLoop[Verdict]:
        """Collect evidence, by which `act` then makes the verdict."""
        collected = yield from collect_evidence(brief)
        self._brief, self._passages = brief, collected.passages
        return {}


class SevaNliModel(NliModel):
    """An NLI model as a model of SEVA's environments."""

    def start(self, seed: int) -> SevaNliPolicy:  # type: ignore[override]  # another policy of the same protocol
        """Return the policy of one episode."""
        return SevaNliPolicy(self)


class SevaNliPolicy:
    """The policy of one episode of SEVA: the model's label and probability, over the grounds of the scripted verifiers."""

    def __init__(self, model: SevaNliModel) -> None:
        self._model = model

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the verdict, the same in every turn."""
        brief = seva.parse_brief(messages)
        judge = partial(_judge_claim, await self._model.judge_claim(brief), self._model.settings.threshold)
        return json.dumps(seva.verify(brief, judge), ensure_ascii=False)


def _score_claim(brief: seva.EpisodeBrief, scorer: Callable[[], PairScorer]) -> _Scores:
    """Score the windows of a source, and return the highest scores."""
    windows = _windows(scorer(), [Passage("S", "", brief.source)], brief.claim, "")
    scores = yield [Pair(text.strip(), brief.claim, "") for text in windows]  # no title above it
    best = max(scores, key=lambda score: score.support)
    contradiction = max(score.contradiction for score in scores)
    return [{"support": best.support, "contradiction": contradiction, "spans": best.spans}]


def _judge_claim(scores: PairScore, threshold: float, claim: Statement, evidence: Evidence) -> seva.Judgement:
    """Give the label as for a statement of ClaimCheck, with the model's probability of it as the confidence."""
    if scores.support >= max(threshold, scores.contradiction):
        return seva.Judgement(True, round(scores.support, 2))
    sentences = select_sentences(evidence, claim)
    status = "contradicted" if scores.contradiction > scores.support else "unsupported"
    wrong = uncovered_span(claim, sentences) or strip_full_stop(claim.text)
    if scores.spans:
        wrong = claim.text[slice(*max(scores.spans, key=lambda span: span[1] - span[0]))]
    kind = seva.classify_error(claim, sentences, status)
    return seva.Judgement(False, round(1 - scores.support, 2), kind, wrong)


def run_together(
    generators: Sequence[_Scores], score: Callable[[Sequence[Pair]], list[PairScore]]
) -> list[list[dict[str, Any]]]:
    """Run generators of pairs in step, with one call of `score` a round for all of them, and equal pairs once."""
    results: dict[int, list[dict[str, Any]]] = {}
    inbox: dict[int, list[PairScore] | None] = dict.fromkeys(range(len(generators)))
    while inbox:
        requests: dict[int, list[Pair]] = {}
        for number, scores in inbox.items():
            try:
                requests[number] = generators[number].send(scores)  # type: ignore[arg-type]  # None starts it
            except StopIteration as end:
                results[number] = end.value
        distinct = list(dict.fromkeys(pair for pairs in requests.values() for pair in pairs))
        by_pair = dict(zip(distinct, score(distinct), strict=True)) if distinct else {}
        inbox = {number: [by_pair[pair] for pair in pairs] for number, pairs in requests.items()}
    return [results[number] for number in range(len(generators))]


def judge_statements(
    brief: EpisodeBrief, passages: Sequence[Passage], scorer: Callable[[], PairScorer], threshold: float
) -> _Scores:
    """Judge the statements of an answer by the passages that were read.

    Greedy forward selection of evidence: each near sentence and each window alone, then, while no set decides, the best
    set of every size with each further sentence. The pairs of a round, of all statements, are scored together.
    """
    evidence = build_evidence(passages)
    statements = [parse_statement(text) for text in split_statements(brief.answer)]
    nearest = [_nearest(evidence, statement) for statement in statements]
    windows = [_windows(scorer(), passages, statement.text, brief.question) for statement in statements]
    sizes = [len(group) + len(texts) for group, texts in zip(nearest, windows, strict=True)]
    pairs = [
        Pair(text, statement.text, brief.question)
        for statement, group, texts in zip(statements, nearest, windows, strict=True)
        for text in (*(sentence.text for sentence in group), *texts)
    ]
    scores = iter((yield pairs))
    judged: list[list[_Judged]] = []
    for group, size in zip(nearest, sizes, strict=True):
        own = list(islice(scores, size))
        judged.append([_Judged(score, tuple(group[n : n + 1])) for n, score in enumerate(own)])
    for size in range(1, _MAX_QUOTES):
        extended = [
            _extensions(group, entries, size, threshold) for group, entries in zip(nearest, judged, strict=True)
        ]
        pairs = [
            Pair(" ".join(sentence.text for sentence in chosen), statement.text, brief.question)
            for statement, sets in zip(statements, extended, strict=True)
            for chosen in sets
        ]
        scores = iter((yield pairs) if pairs else ())
        for sets, entries in zip(extended, judged, strict=True):
            entries += [_Judged(next(scores), chosen) for chosen in sets]
    return [
        _entry(statement, entries, passages, threshold, brief.silence_passages)
        for statement, entries in zip(statements, judged, strict=True)
    ]


def _nearest(evidence: Evidence, statement: Statement) -> list[Sentence]:
    return sorted(evidence.sentences, key=lambda sentence: -evidence.overlap(statement, sentence))[:_NEAREST]


def _windows(scorer: PairScorer, passages: Sequence[Passage], claim: str, question: str) -> list[str]:
    """Return the passages under their titles, those that are too long in runs of whole sentences."""
    limit = scorer.premise_tokens(claim, question)
    windows = []
    for passage in passages:
        parts = [sentence.text for sentence in build_evidence([passage]).sentences] or [passage.text]
        (head, *lengths) = scorer.lengths([f"{passage.title}\n", *parts])
        run: list[str] = []
        used = head
        for part, length in zip(parts, lengths, strict=True):
            if run and used + length > limit:
                windows.append(f"{passage.title}\n{' '.join(run)}")
                run, used = [], head
            run.append(part)
            used += length
        windows.append(f"{passage.title}\n{' '.join(run)}")
    return list(dict.fromkeys(windows))


def _extensions(
    nearest: Sequence[Sentence], judged: Sequence[_Judged], size: int, threshold: float
) -> list[tuple[Sentence, ...]]:
    """Return the best set of `size` sentences with each further one; none where a set already decides the statement."""
    sets = [entry for entry in judged if len(entry.sentences) == size]
    best = max(sets, key=lambda entry: entry.score.support, default=None)
    if best is None or any(
        entry.sentences and max(entry.score.support, entry.score.contradiction) >= threshold for entry in judged
    ):
        return []
    return [(*best.sentences, sentence) for sentence in nearest if sentence not in best.sentences]


def _entry(
    statement: Statement, judged: Sequence[_Judged], passages: Sequence[Passage], threshold: float, silence: int
) -> dict[str, Any]:
    """Return the entry of a statement: its status by the best score, its quotes from the best sentences."""
    sets = [entry for entry in judged if entry.sentences]
    if not sets:
        ids = [passage.id for passage in passages[:silence]]
        return claim_entry(
            statement.text, "unsupported", ids, "", strip_full_stop(statement.text), "No sentence was read."
        )
    support = max(entry.score.support for entry in judged)
    against = max(sets, key=lambda entry: entry.score.contradiction)
    # Of equal scores the fewest sentences.
    best = max(sets, key=lambda entry: (entry.score.support, -len(entry.sentences)))
    status: Status = "supported" if support >= threshold and support >= against.score.contradiction else "unsupported"
    if status == "unsupported" and against.score.contradiction >= threshold:
        status, best = "contradicted", against
    chosen = best.sentences
    if status == "unsupported":
        chosen = _of_passages(sets, silence)
    span = "" if status == "supported" else _missing_part(statement, status, best)
    value = against.score.contradiction if status == "contradicted" else support
    reason = {"supported": "supports", "contradicted": "contradicts", "unsupported": "supports"}[status]
    quotes = [sentence.text for sentence in chosen]
    ids = list(dict.fromkeys(sentence.passage for sentence in chosen))
    text = f"The model gives a probability of {value:.2f} that the evidence {reason} the statement."
    return claim_entry(statement.text, status, ids, quotes if len(quotes) > 1 else quotes[0], span, text)


def _of_passages(sets: Sequence[_Judged], count: int) -> tuple[Sentence, ...]:
    """Return the best sentence of each of the best passages."""
    single = sorted((entry for entry in sets if len(entry.sentences) == 1), key=lambda entry: -entry.score.support)
    by_passage: dict[str, Sentence] = {}
    for entry in single:
        by_passage.setdefault(entry.sentences[0].passage, entry.sentences[0])
    return tuple(by_passage.values())[:count]


def _missing_part(statement: Statement, status: Status, best: _Judged) -> str:
    """Return the part that is not carried: by a token classifier's spans, else by the words that the sentences lack."""
    if best.score.spans:
        start, end = max(best.score.spans, key=lambda span: span[1] - span[0])
        return statement.text[start:end]
    missing = uncovered_span(statement, best.sentences) if status == "contradicted" else ""
    return missing or strip_full_stop(statement.text)
