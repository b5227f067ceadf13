"""The tools of both EVE environments, search and submit, and the base class that handles their actions.

Search shows passages of a corpus, delimited, and cut to a budget of tokens. One call may have several queries
(`query_list`). The budget is of the whole response, markup and cut marks included but for the codes in the delimiters. A token is a run of letters, digits
and underscores, or one other character except white space: a rule without a model, so that budgets mean the same for
every policy. English text has about as many of these as a model's tokenizer makes, most often ten to twenty per cent
fewer. Queries of one call have equal shares of the budget, and what one does not need goes to others. Within a share
passages come best first, so that a cut falls on the last of them. Where a share is too small for any text, its query and
the cut mark are shown all the same.

A submission is a call of `submit`, or blocks in a message. A solver's message with an `<answer>` block outside its
reasoning is its submission, a proposer's message with a `<question>` and an `<answer>` block its proposal, unless it
calls a tool before them. Of several blocks of one name the last counts. A solver's last message without a block counts
as a whole (the paper's base code settles this): where there is one turn, or at the turn limit, any text is the answer. A
proposal's texts are bounded, since each of them is put to the solver many times.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall, find_placeholder
from factgym.core.env import Env
from factgym.core.episode import EpisodeState, TaskT, ToolResult
from factgym.core.errors import ToolError
from factgym.core.messages import Message, message_text
from factgym.core.strict_json import StrictJsonError, in_json, loads
from factgym.core.untrusted import NO_NONCE, attribute, delimited, neutralise, opening
from factgym.corpora.corpus import Passage
from factgym.rewards.eve.proposal import TOKEN, count_tokens
from factgym.rewards.eve.spans import Proposal, Solution, parse_proposal, parse_solution
from factgym.tools.toolbox import tool

if TYPE_CHECKING:
    from factgym.envs.eve.tasks import ProposerTaskSet, SolverTaskSet

SEARCH, SUBMIT = "search", "submit"
MAX_QUERIES = 8
MAX_QUERY_CHARS = 1000
MIN_RESPONSE_TOKENS = 64
"""Room for one result with its cut mark."""

_CUT_MARK_TOKENS = 9
_MAX_QUERY_LINE_TOKENS = 24
_MAX_PLACEHOLDER_CHARS = 80
_NO_RESULTS = "No passage matches. Try other words."

MAX_QUESTION_CHARS, MAX_ANSWER_CHARS, MAX_EVIDENCE_CHARS = 2_000, 500, 20_000
"""Limits of the parts of a proposal."""
SOLUTION_RECEIPT = "Submitted. The episode is over."
PROPOSAL_RECEIPT = "Received. The episode is over."
NO_CALL_ERRORS = ("no_tool_call", "empty", "only_reasoning")
"""Error codes of messages that were no attempt to call a tool."""

_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_REASONING_END = "</think>"

Query = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS)]
SubmissionT = TypeVar("SubmissionT", Proposal, Solution)


@dataclass(frozen=True, slots=True)
class Snippet:
    """The displayed beginning of a passage, neutralised. cut: number of tokens that were not displayed."""

    document: str
    title: str
    text: str
    cut: int = 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of one query, best first. omitted: number of passages without room."""

    query: str
    snippets: tuple[Snippet, ...]
    omitted: int = 0


@dataclass(slots=True)
class EveState(EpisodeState, Generic[SubmissionT]):
    """State of an episode. searches: turn and results of every search. submission: None until there is one.

    tasks: hold the library, which is no part of an episode's state. removed: id of a document that is never returned.
    """

    tasks: SolverTaskSet | ProposerTaskSet
    top_k: int = 3
    max_tokens: int = 512
    removed: str = ""
    searches: list[tuple[int, tuple[SearchResult, ...]]] = field(default_factory=list)
    submission: SubmissionT | None = None

    @property
    def documents(self) -> list[str]:
        """The ids of all documents that were shown, each once."""
        results = (result for _, results in self.searches for result in results)
        return list(dict.fromkeys(snippet.document for result in results for snippet in result.snippets))

    def texts_in_view(self, turn: int) -> list[tuple[str, str]]:
        """Return document id and text of the snippets that were in view when the message of a turn was written.

        Of a document that was shown more than once the longest part counts.
        """
        texts: dict[str, str] = {}
        for snippet in (snippet for result in self.results_before(turn) for snippet in result.snippets):
            if len(snippet.text) > len(texts.get(snippet.document, "")):
                texts[snippet.document] = snippet.text
        return list(texts.items())

    def results_before(self, turn: int) -> list[SearchResult]:
        """Return the results of each query before a turn."""
        return [result for search_turn, results in self.searches if search_turn < turn for result in results]


def first_tokens(text: str, limit: int) -> str:
    """Return the text up to the end of its token number `limit`; the whole text where it has no more."""
    if limit <= 0:
        return ""
    last = next(islice(TOKEN.finditer(text), limit - 1, None), None)
    if last is None or TOKEN.search(text, last.end()) is None:
        return text
    return text[: last.end()]


def render_results(results: Sequence[SearchResult], nonce: str = NO_NONCE) -> str:
    """Return the response as a policy reads it."""
    several = len(results) > 1
    return "\n".join(
        _render_result(result, f"Query {number}: " if several else "", nonce)
        for number, result in enumerate(results, 1)
    )


def _render_result(result: SearchResult, label: str, nonce: str) -> str:
    head = [f"{label}{_query_line(result.query)}"] if label else []
    lines = [
        delimited(
            "result",
            snippet.text + (f"… [cut: {snippet.cut} more tokens]" if snippet.cut else ""),
            nonce,
            id=snippet.document,
            title=snippet.title,
        )
        for snippet in result.snippets
    ]
    omitted = [f"[cut: {result.omitted} more results]"] if result.omitted else []
    return "\n".join([*head, *lines, *omitted] if lines or omitted else [*head, _NO_RESULTS])


def _query_line(query: str) -> str:
    text = attribute(query)
    short = count_tokens(text) <= _MAX_QUERY_LINE_TOKENS
    return text if short else f"{first_tokens(text, _MAX_QUERY_LINE_TOKENS)}…"


@tool(render=render_results, tags=("query",), delimits=True)
def search(
    state: EveState[Any], query_list: Annotated[list[Query], Field(min_length=1, max_length=MAX_QUERIES)] | Query
) -> tuple[SearchResult, ...]:
    """Search the corpus. Returns the best passages for each query.

    Args:
        query_list: One or more queries, each in words that the text may use.
    """
    queries = [query_list] if isinstance(query_list, str) else query_list
    library = state.tasks.library
    hits = [
        [hit for hit in library.search(query, state.top_k + bool(state.removed)) if hit.id != state.removed][
            : state.top_k
        ]
        for query in queries
    ]
    passages = [[passage for hit in row if (passage := library.find(hit.id)) is not None] for row in hits]
    results = fit_results(list(zip(queries, passages, strict=True)), state.max_tokens)
    state.searches.append((state.turn, results))
    return results


def fit_results(retrieved: Sequence[tuple[str, Sequence[Passage]]], max_tokens: int) -> tuple[SearchResult, ...]:
    """Return the results of each query, cut to `max_tokens` together."""
    several = len(retrieved) > 1
    # Fair division: every query may use an equal share; tokens that short results leave over go to the long ones in
    # order. Invariant: the parts never sum to more than max_tokens, except that a cut part keeps its frame.
    results = [
        SearchResult(query, tuple(Snippet(passage.id, passage.title, neutralise(passage.text)) for passage in passages))
        for query, passages in retrieved
    ]
    costs = [
        count_tokens(_render_result(result, "Query 1: " if several else "", NO_NONCE)) - 2 * len(result.snippets)
        for result in results
    ]
    fair = max_tokens // len(results)
    spare = max_tokens - sum(min(cost, fair) for cost in costs)
    fitted = []
    for result, cost in zip(results, costs, strict=True):
        extra = min(max(cost - fair, 0), spare)
        spare -= extra
        fitted.append(result if cost <= fair + extra else _cut_result(result, fair + extra, several))
    return tuple(fitted)


def _cut_result(result: SearchResult, budget: int, several: bool) -> SearchResult:
    """Return the part of a result that fits into `budget` tokens; at least the beginning of the first passage."""
    # Greedy from the best passage on: whole passages while they fit, then the beginning of the next one.
    budget -= _CUT_MARK_TOKENS + (count_tokens(_query_line(result.query)) + 3 if several else 0)
    snippets: list[Snippet] = []
    for snippet in result.snippets:
        frame = count_tokens(opening("result", NO_NONCE, id=snippet.document, title=snippet.title)) + 3
        size = count_tokens(snippet.text)
        if frame + size > budget:
            text = first_tokens(snippet.text, budget - frame - _CUT_MARK_TOKENS)
            if text:
                snippets.append(Snippet(snippet.document, snippet.title, text, size - count_tokens(text)))
            break
        snippets.append(snippet)
        budget -= frame + size
    return SearchResult(result.query, tuple(snippets), len(result.snippets) - len(snippets))


def normalise_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search with unambiguous variants corrected.

    `query`, `queries` and `q` are taken for `query_list`, and the JSON text of a list of texts for the list itself.
    """
    normalised = dict(arguments)
    if "query_list" not in normalised:
        alias = next((name for name in ("query", "queries", "q") if name in normalised), None)
        if alias is not None:
            normalised["query_list"] = normalised.pop(alias)
    text = normalised.get("query_list")
    if isinstance(text, str) and text.lstrip().startswith("["):
        try:
            queries = loads(text)
        except StrictJsonError:
            return normalised
        if isinstance(queries, list) and queries and all(isinstance(query, str) for query in queries):
            normalised["query_list"] = queries
    return normalised


@tool(render=str, ends_episode=True)
def submit(
    state: EveState[Solution],
    answer: Annotated[str, Field(max_length=2000)],
    evidence: Annotated[str, Field(max_length=8000)] = "",
) -> str:
    """Submit the answer with its evidence. This ends the episode.

    Args:
        answer: The answer, as short as it can be said.
        evidence: The words that show it, copied without a change from one search result.
    """
    state.submission = Solution(neutralise(answer.strip()), neutralise(evidence.strip()), tagged=True)
    return SOLUTION_RECEIPT


@tool(render=str, name=SUBMIT, ends_episode=True)
def submit_proposal(
    state: EveState[Proposal],
    question: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_CHARS)],
    answer: Annotated[str, Field(min_length=1, max_length=MAX_ANSWER_CHARS)],
    evidence: Annotated[str, Field(max_length=MAX_EVIDENCE_CHARS)] = "",
) -> str:
    """Submit the question with its answer and the evidence for it. This ends the episode.

    Args:
        question: The question, which must not hold its answer.
        answer: The answer, as short as it can be said.
        evidence: The words that show it, copied without a change from the document or from one search result.
    """
    state.submission = Proposal(neutralise(question.strip()), neutralise(answer.strip()), neutralise(evidence.strip()))
    return PROPOSAL_RECEIPT


def answer_blocks(answer: str, evidence: str = "") -> str:
    """Return the blocks of an answer, as the prompts ask for them."""
    text = f"<answer>{answer}</answer>"
    return f"{text}\n<evidence>{evidence}</evidence>" if evidence else text


def proposal_blocks(question: str, answer: str, evidence: str, thought: str = "") -> str:
    """Return the blocks of a proposal, as the prompts ask for them, after a thought if there is one."""
    text = f"<question>{question}</question>\n{answer_blocks(answer, evidence)}"
    return f"<think>{thought}</think>\n{text}" if thought else text


def message_solution(message: Message) -> Solution:
    """Return the solution in a message's text; its spans are offsets in `message_text(message)`."""
    return _neutralised(parse_solution(mask_reasoning(message.get("content") or "")))


def message_proposal(message: Message) -> Proposal:
    """Return the proposal in a message's text; its spans are offsets in `message_text(message)`."""
    return _neutralised(parse_proposal(mask_reasoning(message.get("content") or "")))


def _parts(submission: Proposal | Solution) -> tuple[str, ...]:
    return ("question", "answer", "evidence") if isinstance(submission, Proposal) else ("answer", "evidence")


def _neutralised(submission: SubmissionT) -> SubmissionT:
    texts: dict[str, Any] = {name: neutralise(getattr(submission, name)) for name in _parts(submission)}
    return replace(submission, **texts)


def mask_reasoning(text: str) -> str:
    """Return the text with its reasoning replaced by spaces, of the same length.

    A closing tag without an opening one ends reasoning that the prompt's template opened; an opening tag that is never
    closed begins reasoning up to the end.
    """
    # Pairs first; a closing tag that is still there has no opening one, and the last of them ends the reasoning.
    masked = _REASONING.sub(lambda match: " " * len(match[0]), text)
    before, closing, after = masked.rpartition(_REASONING_END)
    return " " * len(before + closing) + after


def submitted_solution(parsed: ParsedAction, ends: bool) -> Solution | None:
    """Return the solution that a message is as a whole, else None. ends: whether a text without a block is one, too."""
    text, solution = parsed.message.get("content") or "", message_solution(parsed.message)
    if solution.tagged and solution.answer_span is not None:
        return solution if _submits_at(parsed, solution.answer_span[0]) else None
    return solution if ends and text.strip() and _submits_at(parsed, len(text)) else None


def submitted_proposal(parsed: ParsedAction) -> Proposal | None:
    """Return the proposal that a message is as a whole, else None."""
    proposal = message_proposal(parsed.message)
    if proposal.question_span is None or proposal.answer_span is None:
        return None
    return proposal if _submits_at(parsed, min(proposal.question_span[0], proposal.answer_span[0])) else None


def _submits_at(parsed: ParsedAction, offset: int) -> bool:
    """Return whether blocks at an offset are a submission: text of a permitted length, without a call before them."""
    return not parsed.native and not any(
        item.code == "too_long" if isinstance(item, CallError) else (item.start or 0) < offset for item in parsed.items
    )


def length_error(proposal: Proposal) -> str | None:
    """Return an error message for a part of a proposal that is too long; None where none is."""
    limits = {"question": MAX_QUESTION_CHARS, "answer": MAX_ANSWER_CHARS, "evidence": MAX_EVIDENCE_CHARS}
    for name, limit in limits.items():
        size = len(getattr(proposal, name))
        if size > limit:
            return f"The {name} has {size} characters; at most {limit} are allowed."
    return None


class EveEnv(Env[TaskT]):
    """Base of both environments: an action is a list of calls, or a submission as a whole."""

    tags: ClassVar[Mapping[str, tuple[str, str]]] = {SEARCH: (SEARCH, "query_list")}
    form: ClassVar[str]
    """The error message of an action that neither calls a tool nor submits, without an example of a submission."""
    receipt: ClassVar[str]
    state: EveState[Any]

    @abstractmethod
    def read_submission(self, parsed: ParsedAction) -> Proposal | Solution | None:
        """Return the submission that a message is as a whole, else None."""

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        submission = self.read_submission(parsed)
        if submission is None:
            return [
                replace(
                    result, text=f"Error ({result.error_code}): {self.form} To search, write {self.example_call()}."
                )
                if result.error_code in NO_CALL_ERRORS
                else result
                for result in super().tool_results(parsed)
            ]
        if placeholder := self._find_placeholder(submission):
            message = f"{placeholder!r} is a placeholder, no submission. {self.form}"
            return [ToolResult(f"Error (placeholder): {message}", error=ToolError("placeholder", message))]
        error = length_error(submission) if isinstance(submission, Proposal) else None
        if error is not None:
            return [ToolResult(f"Error (too_long): {error}", error=ToolError("too_long", error))]
        self.state.submission = submission
        self.finish()
        return [ToolResult(self.receipt, SUBMIT)]

    def _find_placeholder(self, submission: Proposal | Solution) -> str | None:
        """Return a part that stands for another text, or that repeats the example in the instructions."""
        instructions = self.episode.messages[0]["content"] or ""
        for name in _parts(submission):
            text: str = getattr(submission, name)
            is_example = f"<{name}>{text}</{name}>" in instructions and text.casefold() != "unknown"
            if find_placeholder(text) is not None or (text and is_example):
                return text[:_MAX_PLACEHOLDER_CHARS]
        return None

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Do a call; a submission gets the spans of its parts in the message.

        A part that is not in the message has no span in a proposal, and the call's in a solution.
        """
        arguments = normalise_arguments(call.arguments) if call.name == SEARCH else call.arguments
        result = super().call_tool(replace(call, arguments=arguments))
        submission = self.state.submission
        if submission is not None:
            text = message_text(self.episode.messages[-1])
            default = None if isinstance(submission, Proposal) else (call.start, call.end)
            spans: dict[str, Any] = {
                f"{name}_span": in_json(getattr(submission, name), text, call.start, call.end) or default
                for name in _parts(submission)
            }
            self.state.submission = replace(submission, **spans)
        return replace(result, arguments=call.arguments)
