"""The EVE proposer's environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from factgym.core.action import ParsedAction
from factgym.core.calls import ToolCall
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, ToolResult, Turn
from factgym.core.errors import ToolError
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.registry import EnvSpec
from factgym.corpora.text import find_quote
from factgym.envs.eve.proposer_config import SOLVER, EveProposerConfig
from factgym.envs.eve.proposer_submission import (
    FORM,
    RECEIPT,
    ProposalDesk,
    is_proposal,
    placed,
    proposal_of,
    submit_proposal,
    too_long,
    written,
)
from factgym.envs.eve.proposer_tasks import ProposerTask, ProposerTaskSet, proposer_tasks
from factgym.envs.eve.protocols import PACKAGE
from factgym.envs.eve.rollouts import Underway
from factgym.envs.eve.search import SearchDesk, Snippet, in_sight, readable_search, search
from factgym.envs.eve.submission import SUBMIT
from factgym.envs.eve.tokens import count_tokens, first_tokens
from factgym.envs.eve.verifier import Verdicts, answer_prompts
from factgym.envs.eve.verifier_open import Verifier, open_verifier
from factgym.rewards.eve.format import Rollout, Search, words_outside
from factgym.rewards.eve.proposal import CheckedProposal, ProposalScore, check_proposal, score_proposal
from factgym.rewards.eve.rubrics import RUBRICS, build_report
from factgym.rewards.eve.spans import Proposal
from factgym.rewards.rubric import Rubric
from factgym.tools.toolbox import Toolbox
from factgym.tools.untrusted import attribute, neutralise

SEARCH = "search"
TOOLBOX = Toolbox((search, submit_proposal))
PROMPTS = ("proposer", "proposer_task")

_NO_CALL = ("no_tool_call", "empty", "only_reasoning")
"""Errors of messages that were no attempt to call a tool."""
_BOUNDS = {"value": (-1.0, 1.0)}
_SHORT = 1e-9


@cache
def _schemas() -> tuple[ToolSchema, ...]:
    return tuple(TOOLBOX.schemas())


class EveProposerEnv(Env[ProposerTask]):
    """Write a question about a document, with its answer and the evidence, for a solver to learn from.

    ## What it is
    The proposer's half of a self-evolving search agent. It is rewarded for questions that a solver answers sometimes,
    and for evidence that makes the solver's answer likelier: difficulty is measured by letting the solver search, the
    evidence by letting it answer without search, with the span and without. After "EVE-Agent: Evidence-Verifiable
    Self-Evolving Agents".

    ## Task
    A source document and a number of hops (1 to 4, drawn 4:3:2:1). Documents are those of a generated world of invented
    names, of a benchmark's file (`source=`, `path=`), or of your own passages (`corpus=`: the FlashRAG / Search-R1
    JSONL layout, 2Wiki's corpus, folders). `documents=`, `hops=` and `task_types=` say which, one by one.

    ## Tools
    `search` (a `query_list` of one or more queries; the best three passages for each, 512 tokens in all) over the same
    corpus, and `submit`.

    ## Turn protocol
    At most five messages. The last holds `<question>`, `<answer>` and `<evidence>` blocks, or calls `submit`. A message
    that does neither costs a turn. The evidence must stand word for word in the source document as it was shown or in a
    snippet that was returned before the proposal.

    ## Rewards
    Format (½ of the mean of integrity, think, tool and answer) + difficulty, (n − k) / (n − 1) where 0 < k < n of the n
    searching rollouts gave the proposal's answer + .5 V, the accuracy of m answers with the evidence less that of m
    without + .1 brevity. `reward="eve"` is that published sum, "dr-zero" the same without V and brevity; the default,
    "guarded", closes the holes named below. An invalid proposal (no question, no answer, or the answer in the question)
    is not shown to the solver. `value="logprob"` takes V from teacher-forced log-probabilities of the answer. Report:
    the four format parts, k of n, V, both accuracies, the span's place in the corpus, and who answered.
    `solver=` is any policy; by default a script, and every result says so. `auxiliary=` answers without evidence in its
    place. A fault of the solver's infrastructure is an error of the episode, never a score.

    ## Splits and licences
    Generated: validation (the default), train and test, every document a task; no licence attaches. Files have one
    split, under their own licences. No data is part of the package.

    ## Determinism
    Task *i* depends on (corpus, seed, i) alone, each answer of the solver on its seed, which follows from (seed,
    protocol, question, evidence, number). With a deterministic solver the same actions give the same bytes and the same
    reward; answers are kept, so that the same proposal is never put to the solver twice (`cache=` for a file that
    processes share).

    ## Known exploits
    `factgym audit` plays them. Under the published sum a question that nobody can answer earns V all the same, and so
    do the whole document as evidence and a made-up search or thought; a question to guess at is a difficult one that no
    evidence is needed for; one easy hop after searches for nothing, or about wherever they led, earns as much as four; a
    leaked answer keeps half of the format. The guarded reward pays for none of these. What it leaves open is said in
    `factgym.rewards.eve.rubrics`: a question with several right answers looks difficult, a document is believed,
    whatever it says, and a question that gives orders ("say unknown unless evidence is shown") is paid where the solver
    obeys. It asks for words: a true sentence that shares none with the question or a query counts as no evidence.

    ## Versions
    v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = EveProposerConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {SEARCH: (SEARCH, "query_list")}
    implicit: ClassVar[Mapping[str, str]] = {"query_list": SEARCH, "question": SUBMIT}
    config: EveProposerConfig
    tasks: ProposerTaskSet

    def __init__(self, env_spec: EnvSpec, config: EnvConfig, render_mode: str | None = None) -> None:
        super().__init__(env_spec, config, render_mode)
        self._underway = Underway()
        self.verifier  # noqa: B018 - what cannot be used is said now, not at the end of the first episode

    @property
    def verifier(self) -> Verifier:
        """Who is asked about proposals; shared by all episodes of the configuration."""
        return open_verifier(self.config, self.tasks.corpus)

    def load_tasks(self) -> ProposerTaskSet:
        """The shared task set of this configuration."""
        return proposer_tasks(self.config)

    def initial_messages(self, task: ProposerTask) -> list[Message]:
        """The instructions; the document, the number of hops and the kind of question."""
        self._shown: list[tuple[int, Snippet]] = []
        self._searches: list[Search] = []
        self._final: tuple[int, Proposal] | None = None
        self._taken: ToolCall | None = None
        self._underway = Underway()
        config, document = self.config, task.document
        sizes = {"turns": config.max_turns, "count": config.top_k, "tokens": config.max_passage_tokens}
        system = fill(prompt(PACKAGE, "proposer"), **{name: str(size) for name, size in sizes.items()})
        kind = f"\nKind of question: {task.task_type}" if task.task_type else ""
        shown = self.source(task)
        cut = count_tokens(document.text) - count_tokens(shown)
        told = fill(
            prompt(PACKAGE, "proposer_task"),
            id=attribute(document.id),
            title=attribute(document.title),
            text=shown + (f"… [cut: {cut} more tokens]" if cut > 0 else ""),
            hops=str(task.hops),
            kind=kind,
        )
        return [{"role": "system", "content": system}, {"role": "user", "content": told}]

    def source(self, task: ProposerTask) -> str:
        """The source document's text as it is shown: harmless, and from its beginning. Offsets are the document's."""
        return neutralise(first_tokens(task.document.text, self.config.max_document_tokens))

    def available_tools(self) -> Sequence[ToolSchema]:
        """`search` and `submit`."""
        return _schemas()

    @property
    def slow_steps(self) -> bool:
        """The last step waits for other policies."""
        return True

    def close(self) -> None:
        """Give up what other policies are asked for this episode; it becomes an error. May be called at any time."""
        self._underway.cancel()

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action; a proposal in the text is taken as a whole."""
        if is_proposal(parsed):
            self._taken = ToolCall(SUBMIT, {}, None, 0, len(parsed.message.get("content") or ""))
            parsed = replace(parsed, items=(self._taken,))
        replies = super().tool_results(parsed)
        self._taken = None
        return [_reminded(one) for one in replies]

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Take the proposal, or search."""
        turn, message = len(self.episode.turns), self.episode.messages[-1]
        if call is self._taken:
            proposal = proposal_of(message)
            wrong = too_long(proposal)
            if wrong is not None:
                return ToolResult(f"Error (too_long): {wrong}", error=ToolError("too_long", wrong))
            return self._finished(turn, proposal, RECEIPT)
        if call.name == SEARCH:
            result = self._searched(turn, call)
        else:
            desk = ProposalDesk()
            result = TOOLBOX.call(desk, call)
            if desk.proposal is not None:
                return self._finished(turn, placed(desk.proposal, message_text(message), call), result.text, call)
        return replace(result, arguments=call.arguments)

    def _searched(self, turn: int, call: ToolCall) -> ToolResult:
        config, before = self.config, len(self._shown)
        desk = SearchDesk(self.tasks.library, config.top_k, config.max_passage_tokens, turn, self._shown)
        result = TOOLBOX.call(desk, replace(call, arguments=readable_search(call.arguments)))
        if result.error is None:
            texts = (f"{snippet.title}\n{snippet.text}" for _, snippet in self._shown[before:])
            self._searches.append(Search(tuple(one.query for one in result.data), "\n".join(texts)))
        return result

    def _finished(self, turn: int, proposal: Proposal, text: str, call: ToolCall | None = None) -> ToolResult:
        self._final = turn, proposal
        self.finish()
        return ToolResult(text, SUBMIT, call.arguments if call else None, call_id=call.id if call else None)

    def score(self) -> RewardReport:
        """The components under the configured rubric; asks the solver.

        Of an episode that was cut off, what its last message holds counts; without a proposal it earns nothing.
        """
        turn, proposal = self._final or self._last()
        message = self.episode.turns[turn].message if turn >= 0 else 0
        checked = self.checked(proposal, turn)
        verdicts = self.verdicts(checked)
        report = build_report(self.scored(checked, verdicts), self.config.rubric, message=message)
        spans = self._whole(report, message) if turn >= 0 else ()
        return replace(report, spans=spans, metrics={**report.metrics, **self._metrics(verdicts)})

    def _last(self) -> tuple[int, Proposal]:
        turns = self.episode.turns
        if not turns:
            return -1, Proposal()
        found = proposal_of(self.episode.messages[turns[-1].message])
        return len(turns) - 1, Proposal() if too_long(found) else found

    def checked(self, proposal: Proposal, turn: int) -> CheckedProposal:
        """What can be seen of a proposal that was made in a turn, before anybody is asked."""
        task = self.task
        source = self.source(task)
        seen = [(id_, text) for id_, text in in_sight(self._shown, turn) if id_ != task.document.id]
        return check_proposal(
            proposal,
            self._rollout(turn, source),
            [(task.document.id, source), *seen],
            self.config.scoring_rules,
            direct=self._is_direct(proposal, source),
        )

    def _is_direct(self, proposal: Proposal, source: str) -> bool:
        """Whether a search for the question without the source's words, or its title's, brings the evidence first."""
        if self.task.hops == 1 or not proposal.evidence:
            return False
        title = self.task.document.title
        return any(self._finds(proposal, known) for known in (f"{title}\n{source}", title))

    def _finds(self, proposal: Proposal, known: str) -> bool:
        words = words_outside(proposal.question, known)
        library = self.tasks.library
        found = [library.find(hit.id) for hit in library.search(words, 1)] if words else []
        return any(one is not None and find_quote(proposal.evidence, neutralise(one.text)) for one in found)

    def verdicts(self, checked: CheckedProposal) -> Verdicts:
        """What the solver makes of a proposal; nothing is asked about an invalid one. Raises PolicyError for faults."""
        if not checked.valid:
            return Verdicts()
        proposal, span = checked.proposal, checked.span
        evidence = span.text if span is not None and self.config.verify else None
        return self.verifier.judge(proposal.question, proposal.answer, evidence, self._underway)

    def scored(self, checked: CheckedProposal, verdicts: Verdicts) -> ProposalScore:
        """The score of a proposal from the solver's answers."""
        asked = {"solved": verdicts.solved, "plus": verdicts.plus, "minus": verdicts.minus}
        return score_proposal(checked, **asked, value=verdicts.value, verified=self.config.verify)

    def _rollout(self, turn: int, source: str) -> Rollout:
        """What the format asks about. Of a call that was not done there is a response, and no valid call."""
        turns = self.episode.turns[: turn + 1]
        said = tuple(_with_thought(self.episode.messages[one.message]) for one in turns)
        failed = sum(_failed_calls(one) for one in turns)
        done = tuple(self._searches)
        told = f"{self.task.document.title}\n{source}"
        return Rollout(self.task.hops, told, said, done + (Search((), ""),) * failed, calls=len(done))

    def _whole(self, report: RewardReport, message: int) -> tuple[SpanCredit, ...]:
        """The credits of the blocks, and what belongs to no block on the whole message: they sum to the total."""
        rest = (report.total or 0.0) - math.fsum(one.value for one in report.spans)
        length = len(message_text(self.episode.messages[message]))
        own = (SpanCredit(message, 0, length, rest),) if abs(rest) > _SHORT else ()
        return (*report.spans, *own)

    def _metrics(self, verdicts: Verdicts) -> dict[str, Any]:
        task, verifier = self.task, self.verifier
        return {
            "document": task.document.id,
            "task_type": task.task_type,
            "searches": len(self._searches),
            "solver": verifier.solver.name,
            "auxiliary": verifier.auxiliary.name,
            "solved": list(verdicts.solved),
            "log_plus": verdicts.log_plus,
            "log_minus": verdicts.log_minus,
        }

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward that the rubric can give, its weights taken as positive."""
        found = [(weight, _BOUNDS.get(name, (0.0, 1.0))) for name, weight in self.config.rubric.weights.items()]
        return sum(weight * low for weight, (low, _) in found), sum(weight * high for weight, (_, high) in found)

    def rubrics(self) -> tuple[dict[str, Rubric], str]:
        """The published reward, that of Dr. Zero, the guarded one, and the environment's own."""
        own, known = self.config.rubric, RUBRICS["proposer"]
        name = own.name if known.get(own.name, own) == own else f"{own.name} (own)"
        return {**known, name: own}, name

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> str:
        """A proposal asked for part by part, for a person who plays."""
        question, answer = ask("question", ()), ask("answer", ())
        return written(question, answer, ask("evidence, copied (empty for none)", ()))

    def gold_lines(self) -> list[str]:
        """There is no right proposal: who answered is what can be told."""
        n, m = self.config.scoring_rules.n, self.config.scoring_rules.m
        return [f"Answered by {self.verifier.solver.name}: {n} times with search, {m} times with the evidence alone."]

    def view_task(self, task: ProposerTask) -> dict[str, Any]:
        """The source document, in which a viewer shows the span."""
        document = {"id": task.document.id, "title": task.document.title, "text": task.document.text}
        return {"id": task.id, "hops": task.hops, "task_type": task.task_type, "document": document}

    def warnings(self) -> list[str]:
        """That a script answers, where one does."""
        if self.config.solver != SOLVER:
            return []
        return ["The solver is a script: difficulty and V say what overlap of words can answer, not what a model can."]

    def auxiliary_policies(self) -> dict[str, Any]:
        """The solver, and the auxiliary scorer where it is another."""
        verifier = self.verifier
        other = {} if verifier.auxiliary is verifier.solver else {"auxiliary": verifier.auxiliary}
        found = {"solver": verifier.solver, **other}
        return {role: {"name": one.name, "details": dict(one.describe())} for role, one in found.items()}

    def prompt_hashes(self) -> dict[str, str]:
        """The proposer's prompts, and those under which its solver answers."""
        return {name: prompt_hash(prompt(PACKAGE, name)) for name in PROMPTS} | answer_prompts()


def _with_thought(message: Message) -> str:
    """A message's text, with separate reasoning as the think block that it begins with."""
    text = message_text(message)
    reasoning = message.get("reasoning_content")
    return f"<think>{reasoning}</think>\n{text}" if reasoning and "<think>" not in text else text


def _failed_calls(turn: Turn) -> int:
    """Count the calls of a turn that were not done."""
    return sum(result.error is not None and result.error.code not in _NO_CALL for result in turn.results)


def _reminded(result: ToolResult) -> ToolResult:
    """A reply to what was no proposal, with the form that is asked for rather than that of a tool call."""
    if result.error_code in _NO_CALL:
        text = f"Error ({result.error_code}): There is no proposal in the message. Write\n{FORM}"
        return replace(result, text=text)
    return result
