"""Scripted policies: written as generators of tool calls, with a shared strategy for collecting evidence.

A scripted policy sees what any policy sees: the chat messages and the tool schemas. It parses the environment's own
rendering of search results and evidence, and replies with completion text in the tool-call format of Qwen and Hermes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from factgym.baselines.evidence import (
    SentenceFrequency,
    content_keys,
    names_in_question,
    passages_of_document,
    tokenize,
)
from factgym.baselines.nli import Prediction
from factgym.baselines.premise import terms_of
from factgym.core.messages import Message, ToolSchema
from factgym.core.untrusted import read_blocks
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import STATUSES, Status
from factgym.envs.scripted import call_text, user_text
from factgym.text.sentences import sentences

Call = dict[str, Any]
"""A tool call: `{"name": …, "arguments": …}`."""

Verdict = dict[str, Any]
"""The arguments of `submit`."""

ReturnT = TypeVar("ReturnT")
ToolLoop = Generator[list[Call], str, ReturnT]
"""Yields the calls of a turn, receives the text of the observation, returns its result."""

MAX_CALLS = 16
"""Limit of the environment's parser on the calls in one turn."""

MAX_RESULTS = 10
"""Results that a search asks for."""


@dataclass(frozen=True, slots=True)
class EpisodeBrief:
    """The content of an episode's first messages.

    passages: those of an offline prompt. is_offline: whether there are no tools but `submit`. turns: limit on the
    actions, the submission included. silence_passages: how many passages the instructions ask to cite for an
    unsupported statement. stakes: by status, what a right and what a wrong one is worth, where the instructions say it.
    """

    question: str
    answer: str
    passages: tuple[Passage, ...]
    is_offline: bool
    turns: int
    silence_passages: int = 1
    stakes: Mapping[Status, tuple[float, float]] = field(default_factory=dict)


Play = Callable[[EpisodeBrief], ToolLoop[Verdict]]
"""Collects evidence in at most `brief.turns - 1` turns and returns the verdict to submit."""


class ScriptedPolicy:
    """A policy for one episode. turns: the environment's `max_turns`."""

    def __init__(self, turns: int, play: Play) -> None:
        self._turns = turns
        self._play = play
        self._loop: ToolLoop[Verdict] | None = None

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the calls of the next turn; the play is a generator that takes tool results, returns a verdict."""
        try:
            if self._loop is None:
                self._loop = self._play(parse_brief(messages, tools, self._turns))
                calls = next(self._loop)
            else:
                last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
                calls = self._loop.send("\n".join(message["content"] or "" for message in messages[last + 1 :]))
        except StopIteration as end:
            if end.value is None:
                return "I have nothing to add."
            calls = [{"name": "submit", "arguments": end.value}]
        return "\n".join(call_text(**call) for call in calls)


_SILENCE = re.compile(r"cite the (\d{1,2}) passages that come nearest")
_STAKE = re.compile(rf"\b({'|'.join(STATUSES)}) (\+\d\.\d\d) or (-\d\.\d\d)")


def parse_brief(messages: Sequence[Message], tools: Sequence[ToolSchema], turns: int) -> EpisodeBrief:
    """Parse the first messages of an episode."""
    task = user_text(messages)
    texts = {block.tag: block.text for block in read_blocks(task, "question", "answer")}
    instructions = "".join(message["content"] or "" for message in messages if message["role"] == "system")
    silence = _SILENCE.search(instructions)
    names, passages = [tool["function"]["name"] for tool in tools], tuple(parse_evidence(task))
    return EpisodeBrief(
        question=texts.get("question", ""),
        answer=texts.get("answer", ""),
        passages=passages,
        is_offline="search" not in names if names else bool(passages),  # a mini prompt has no schemas
        turns=turns,
        silence_passages=int(silence[1]) if silence else 1,
        stakes={status: (float(gain), float(loss)) for status, gain, loss in _STAKE.findall(instructions)},
    )


_CUT_MARK = re.compile(r"… \[cut: \d+ more characters\]\Z")


def parse_evidence(observation: str) -> list[Passage]:
    """Return the passages that an observation opens; of one that was cut for its length, the part that is shown."""
    passages = (
        Passage(block.attributes["id"], block.attributes["title"], _CUT_MARK.sub("", block.text))
        for block in read_blocks(observation, "evidence")
    )
    return [passage for passage in passages if passage.text.strip()]


def parse_results(observation: str) -> list[Passage]:
    """Return the entries of search results, with condensed text, and of listings, with the title as text."""
    return [
        Passage(block.attributes["id"], block.attributes.get("title") or block.text, block.text)
        for block in read_blocks(observation, "result")
    ]


def search_call(query: str, k: int = 3) -> Call:
    """Return a call of `search`."""
    return {"name": "search", "arguments": {"query": query[:1000].strip() or "policy", "k": k}}


def read_call(passage_id: str) -> Call:
    """Return a call of `read`."""
    return {"name": "read", "arguments": {"id": passage_id}}


LIST_CALL: Call = {"name": "list", "arguments": {"page": 1}}


def claim_entry(
    claim: str, status: str, ids: Sequence[str] = (), quotes: str | list[str] = "", span: str = "", reason: str = ""
) -> dict[str, Any]:
    """Return one entry of a verdict's `claims`."""
    return {
        "claim": claim,
        "status": status,
        "evidence_ids": list(ids)[:16],
        "quote": quotes,
        "unsupported_span": span,
        "reason": reason,
    }


def prediction_entry(prediction: Prediction) -> dict[str, Any]:
    """Return the entry of a predicted statement, with the deciding sentences as quotes."""
    texts = [sentence.text for sentence in prediction.sentences]
    ids = list(dict.fromkeys(sentence.passage for sentence in prediction.sentences))
    quotes: str | list[str] = texts if len(texts) > 1 else "".join(texts)
    text, span = prediction.statement.text, prediction.unsupported_span
    return claim_entry(text, prediction.status, ids, quotes, span, prediction.reason)


def make_verdict(final: str, claims: Sequence[dict[str, Any]], used: Sequence[str] | None = None) -> Verdict:
    """Return the arguments of `submit`; the evidence used is that cited by the claims unless it is given."""
    cited = [id_ for entry in claims for id_ in entry["evidence_ids"]] if used is None else used
    return {"claims": list(claims)[:16], "final_verdict": final, "evidence_used": list(dict.fromkeys(cited))[:32]}


# Collecting evidence: search for every statement, read a few passages, search again with the words that they add. After
# ClaimCheck's tool loop ("search for evidence, read a snippet, decide whether it is enough, maybe search again") and
# Baleen's condensed second hop.

_MAX_STATEMENTS = 8
_SMALL_LIBRARY = 8
_FIRST_READS = 8
_SECOND_READS = 6
_HOP_WORDS = 6


@dataclass(frozen=True, slots=True)
class CollectedEvidence:
    """passages: in the order of reading. ranked_ids: statement -> ids that its search returned, best first."""

    passages: list[Passage] = field(default_factory=list)
    ranked_ids: Mapping[str, Sequence[str]] = field(default_factory=dict)


def split_statements(answer: str) -> list[str]:
    """Split an answer into its sentences, verbatim: at least one and at most eight."""
    statements = [answer[start:end][:4000] for start, end in sentences(answer, _MAX_STATEMENTS)]
    return statements or [answer[:4000].strip() or "?"]


def collect_evidence(brief: EpisodeBrief) -> ToolLoop[CollectedEvidence]:
    """Collect passages in at most four turns, fewer where the limit on turns is low."""
    if brief.is_offline:
        return CollectedEvidence(list(brief.passages))
    if brief.turns < 3:
        return CollectedEvidence()
    statements = split_statements(brief.answer)
    names = " ".join(names_in_question(brief.question))
    text = yield [*(search_call(f"{statement} {names}", MAX_RESULTS) for statement in statements), LIST_CALL]
    *responses, listing = text.split("<tool_response>")[1:]
    results = [passages_of_document(brief.question, parse_results(response)) for response in responses]
    listed = parse_results(listing)
    ranked_ids = {statement: [hit.id for hit in hits] for statement, hits in zip(statements, results, strict=False)}
    is_small = len(listed) <= _SMALL_LIBRARY
    chosen = [entry.id for entry in listed] if is_small else _choose_reads(statements, results, (), _FIRST_READS)
    opened = parse_evidence((yield [read_call(id_) for id_ in chosen])) if chosen else []
    if is_small or not opened or brief.turns < 5:
        return CollectedEvidence(opened, ranked_ids)
    # The second hop: words of each statement that the first reads lack, with the terms that they add (Baleen).
    queries = second_queries(brief.question, statements, opened)
    text = yield [search_call(f"{query} {names}", MAX_RESULTS) for query in queries]
    responses = text.split("<tool_response>")[1:]
    results = [passages_of_document(brief.question, parse_results(response)) for response in responses]
    more = _choose_reads(statements, results, [passage.id for passage in opened], _SECOND_READS)
    if more:
        opened += parse_evidence((yield [read_call(id_) for id_ in more]))
    return CollectedEvidence(passages_of_document(brief.question, opened), ranked_ids)


def _choose_reads(
    statements: Sequence[str], results: Sequence[Sequence[Passage]], opened: Sequence[str], limit: int
) -> list[str]:
    """Choose ids to open, round-robin over the statements: the first hit, then by shared weighted words."""
    hit_keys = {hit: content_keys(f"{hit.title} {hit.text}") for hits in results for hit in hits}
    frequency = SentenceFrequency(hit_keys[hit] for hits in results for hit in hits)
    queues = []
    for statement, hits in zip(statements, results, strict=False):
        new = [hit for hit in hits if hit.id not in opened]
        keys = frozenset(content_keys(statement))
        by_weight = sorted(new[1:], key=lambda hit: frequency.shared(hit_keys[hit], keys), reverse=True)
        queues.append([*new[:1], *by_weight])
    rounds = [queue[rank].id for rank in range(MAX_RESULTS) for queue in queues if rank < len(queue)]
    return list(dict.fromkeys(rounds))[: min(limit, MAX_CALLS)]


def second_queries(question: str, statements: Sequence[str], opened: Sequence[Passage]) -> list[str]:
    """Return for each statement its words that the nearest sentence lacks, and the terms and words which that adds."""
    read = [passage.text[start:end] for passage in opened for start, end in sentences(passage.text)]
    frequency = SentenceFrequency(content_keys(text) for text in read)
    queries = []
    for statement in statements:
        statement_keys = frozenset(content_keys(statement))
        nearest = max(read, key=lambda text: frequency.shared(content_keys(text), statement_keys), default="")
        covered = frozenset(content_keys(nearest))
        missing = [token.lower for token in tokenize(statement) if token.is_content and token.key not in covered]
        added = [token for token in tokenize(nearest) if token.is_content and token.key not in statement_keys]
        added = sorted(added, key=lambda token: -frequency.weight(token.key))[:_HOP_WORDS]
        terms = [term for term in terms_of(nearest) for _ in range(2)]  # twice, for their weight in the query
        query = " ".join([*terms, *dict.fromkeys([*missing, *(token.lower for token in added)])])
        queries.append(query or question)
    return queries
