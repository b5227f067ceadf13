"""The EVE solver's environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from factgym.core.action import ParsedAction
from factgym.core.calls import ToolCall
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, ToolResult
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import prompt, prompt_hash
from factgym.datasets.multihop import Triple
from factgym.envs.eve.config import EveSolverConfig
from factgym.envs.eve.protocols import PACKAGE, SEARCH_PROMPTS, search_messages, single_prompts, single_turn_messages
from factgym.envs.eve.search import SearchDesk, Snippet, in_sight, readable_search, search
from factgym.envs.eve.solver_tasks import SolverTask, SolverTaskSet, caveats_of, solver_tasks
from factgym.envs.eve.submission import (
    RECEIPT,
    SUBMIT,
    SubmitDesk,
    is_submission,
    placed,
    solution_of,
    submit,
    written,
)
from factgym.rewards.answer_matching import token_f1
from factgym.rewards.eve.rubrics import RUBRICS, SOLVER_GATES, build_report
from factgym.rewards.eve.solution import SolutionScore, score_solution
from factgym.rewards.eve.spans import Solution, contains_answer
from factgym.rewards.rubric import Rubric
from factgym.tools.toolbox import Toolbox
from factgym.tools.untrusted import neutralise

SEARCH = "search"
TOOLBOX = Toolbox((search, submit))

_FORM = "<answer>…</answer>\n<evidence>…</evidence>"
_OPEN = {True: (SEARCH, SUBMIT), False: (SUBMIT,)}


@cache
def _schemas(searching: bool) -> tuple[ToolSchema, ...]:
    return tuple(TOOLBOX.schemas(_OPEN[searching]))


class EveSolverEnv(Env[SolverTask]):
    """Answer a question from a corpus, with the span of evidence that shows it.

    ## What it is
    Multi-hop question answering with search, in which an answer has to come with a verbatim span of evidence. The
    solver of "EVE-Agent: Evidence-Verifiable Self-Evolving Agents"; `eve-proposer` writes the questions.

    ## Task
    A question with one or more right answers and, where there is some, gold evidence. Generated questions ask along one
    to four facts, each in another document, of a closed world of invented names, so that nothing can be known
    beforehand. `source=` names NQ, TriviaQA, PopQA, HotpotQA, 2WikiMultihopQA, MuSiQue or Bamboogle, with the
    supporting facts that their files mark as gold evidence, or "triples", a data set as the loop writes it.

    ## Tools
    `search` with `query_list` (a list of up to eight queries, one query, or a JSON text of a list): the three best
    passages for each, in at most 512 tokens a response. A token is a run of letters and digits or one other character
    that is no white space; markup counts, queries share alike, and cuts are marked. `submit` with answer and evidence.

    ## Turn protocol
    At most five messages, the answer among them. The answer is the last `<answer>` block of a message, with the last
    `<evidence>` block, or a call of `submit`; calls that stand before a block are done first, and the block is then
    read at the last turn only. A message with neither costs a turn (`remind=False`: ends the episode), and at the last
    turn, or in the protocol of one turn, it counts as the answer as a whole. `search=False` is the single-turn protocol without
    search, `evidence=True` shows the gold evidence there.

    ## Rewards
    `reward="eve"` is the published sum: exact match after SQuAD's normalisation + 0.3 × token F1 of the evidence with
    the gold span; of several the nearest that says the answer (`evidence_match="joined"`: all as one text). "dr-zero"
    is the exact match alone. The default, "guarded", pays for evidence only when it stands verbatim in what a search
    of this episode has shown, in one sentence or in half of its passage at most. An answer without such evidence, near
    the gold and with the answer in it, has half of its point. Without gold evidence the evidence term is 0, the report
    gives no F1 of it, and evidence has to be about the question instead. Credits lie on the answer and on the evidence
    inside the message. The range is 0 to 1.3.

    ## Splits and licences
    Generated: validation 100, train 400, test 100, no name in two of them; no licence attaches. The benchmarks have the
    splits of their files. No data is part of the package: NQ and HotpotQA are CC BY-SA, 2WikiMultihopQA, TriviaQA and
    MuSiQue have permissive licences, PopQA is MIT. Files that bring paragraphs with the questions are searched where no
    `corpus` is given; that is easier than an encyclopedia, and every result says so. What some mark as evidence is a
    whole paragraph, of which a span may quote half.

    ## Determinism
    The world depends on (seed, size, split), a slice of a file on (file, size, seed). The same actions give the same
    bytes and the same reward.

    ## Known exploits
    `factgym audit` plays them. The published sum asks neither whether evidence was seen nor whether it stands anywhere:
    beside the honest solver's .75 on generated questions it pays .71 for a bag of likely words, .67 for an invented
    sentence and .65 for the question itself as evidence, and "dr-zero" cannot tell them apart. Under the guard these
    and the whole passage earn .28 beside .75, the bare answer as evidence .35, a list of candidates .20.
    What the guard does not see: whether the evidence suffices. The first sentence in sight that holds the answer earns
    .69 beside .75 on generated questions, where a name stands in several places; on HotpotQA and 2WikiMultihopQA, where
    a right answer mostly stands where it is proved, as much as reading does. Without gold evidence a sentence that holds
    the answer and a word of the question or of a query is as good as one that proves it. A guess at yes or no is right
    half of the time. Sixteen calls of eight queries fit into a message: searching at random is not cheating, and is paid
    no more than searching with a plan.

    ## Versions
    v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = EveSolverConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {SEARCH: (SEARCH, "query_list")}
    implicit: ClassVar[Mapping[str, str]] = {"query_list": SEARCH, "answer": SUBMIT}
    config: EveSolverConfig
    tasks: SolverTaskSet

    def load_tasks(self) -> SolverTaskSet:
        """The task set of this configuration."""
        return solver_tasks(self.config)

    def initial_messages(self, task: SolverTask) -> list[Message]:
        """The instructions and the question; without search the gold evidence too, where it is to be shown."""
        config = self.config
        self._shown: list[tuple[int, Snippet]] = []
        self._asked: list[tuple[int, str]] = []
        self._final: tuple[int, Solution] | None = None
        self._taken: ToolCall | None = None
        if config.search:
            sizes = {"turns": config.max_turns, "top_k": config.top_k, "tokens": config.max_passage_tokens}
            return search_messages(task.triple.question, **sizes)
        given = "\n".join(_spans(task)) if config.evidence else ""
        return single_turn_messages(task.triple.question, given or None, span=True)

    def available_tools(self) -> Sequence[ToolSchema]:
        """`search` where there is something to search, and `submit`."""
        return _schemas(self.config.search)

    @property
    def slow_steps(self) -> bool:
        """An index that is not the in-memory BM25 may take long, and so may building one over a corpus of files."""
        return self.config.search and (self.config.index != "bm25" or self.config.source != "synthetic")

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action; a submission in the text is taken as a whole."""
        if is_submission(parsed, ends=self.config.max_turns == 1 or not self.config.remind):
            self._taken = ToolCall(SUBMIT, {}, None, 0, len(parsed.message.get("content") or ""))
            parsed = replace(parsed, items=(self._taken,))
        replies = super().tool_results(parsed)
        self._taken = None
        return [_reminded(one) for one in replies]

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Take the submission, or search."""
        turn, message = len(self.episode.turns), self.episode.messages[-1]
        if call is self._taken:
            return self._finished(turn, solution_of(message), RECEIPT)
        if call.name == SEARCH:
            result = self._searched(turn, call)
        else:
            desk = SubmitDesk()
            result = TOOLBOX.call(desk, call, _OPEN[self.config.search])
            if desk.solution is not None:
                return self._finished(turn, placed(desk.solution, message_text(message), call), result.text, call)
        return replace(result, arguments=call.arguments)

    def _searched(self, turn: int, call: ToolCall) -> ToolResult:
        config = self.config
        if not config.search:
            return TOOLBOX.call(None, call, _OPEN[False])
        desk = SearchDesk(self.tasks.library, config.top_k, config.max_passage_tokens, turn, self._shown)
        result = TOOLBOX.call(desk, replace(call, arguments=readable_search(call.arguments)), _OPEN[True])
        self._asked += [(turn, found.query) for found in result.data or ()]
        return result

    def _finished(self, turn: int, solution: Solution, text: str, call: ToolCall | None = None) -> ToolResult:
        self._final = turn, solution
        self.finish()
        return ToolResult(text, SUBMIT, call.arguments if call else None, call_id=call.id if call else None)

    def score(self) -> RewardReport:
        """The components under the configured rubric; of an episode that was cut off, what its last message holds."""
        turn, solution = self._submitted()
        score = self.scored(solution, turn)
        message = self.episode.turns[turn].message if self.episode.turns else 0
        return build_report(score, self.config.rubric, message=message, metrics=self._metrics())

    def scored(self, solution: Solution, turn: int) -> SolutionScore:
        """The score of a solution of this episode's task that is submitted in a turn."""
        triple = self.task.triple
        asked = [query for place, query in self._asked if place < turn]
        return score_solution(
            solution,
            [neutralise(one) for one in triple.answers],
            self._compared(solution.evidence),
            question=neutralise(triple.question),
            texts=self.in_sight(turn),
            queries=asked,
            rules=self.config.scoring_rules,
        )

    def _compared(self, evidence: str) -> Sequence[str]:
        """The gold spans with which the evidence is compared: the nearest of those that say the answer, or all."""
        spans = _spans(self.task)
        if self.config.evidence_match == "joined" or len(spans) < 2:
            return spans
        telling = [one for one in spans if any(contains_answer(answer, one) for answer in self.task.triple.answers)]
        return [max(telling or spans, key=lambda one: token_f1(evidence, one))]

    def _submitted(self) -> tuple[int, Solution]:
        """The turn and what was submitted in it.

        Of an episode that ran out, the block in the last message, or the whole of it where it calls nothing.
        """
        turns = self.episode.turns
        if self._final is not None:
            return self._final
        found = solution_of(self.episode.messages[turns[-1].message]) if turns else Solution()
        called = turns and any(reply.tool for reply in turns[-1].results)
        return len(turns) - 1, Solution() if called and not found.tagged else found

    def in_sight(self, turn: int) -> list[tuple[str, str]]:
        """Document and text of what was in sight when the message of a turn was written."""
        if self.config.evidence:
            return [(f"evidence {number}", text) for number, text in enumerate(_spans(self.task), 1)]
        return in_sight(self._shown, turn)

    def _metrics(self) -> dict[str, Any]:
        triple, turns = self.task.triple, self.episode.turns
        return {
            "benchmark": triple.benchmark,
            "hops": triple.hops,
            "kind": triple.kind,
            "searches": sum(reply.tool == SEARCH and not reply.error for turn in turns for reply in turn.results),
            "corpus": self.config.search,
        }

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """0, and the most that the episode's question can earn: of evidence nothing without gold evidence, or without
        a text that could hold it."""
        config = self.config
        has_gold = self._episode is None or bool(self.task.triple.evidence)
        shown = config.search or (config.evidence and has_gold)
        gates = dict.fromkeys(SOLVER_GATES, float(shown))
        gates["grounded"] = 1.0 if shown else config.scoring_rules.ungrounded_share
        return 0.0, config.rubric.total({"correct": 1.0, "evidence": float(has_gold)}, gates)

    def rubrics(self) -> tuple[dict[str, Rubric], str]:
        """The published reward, that of Dr. Zero, the guarded one, and the environment's own."""
        own, known = self.config.rubric, RUBRICS["solver"]
        name = own.name if known.get(own.name, own) == own else f"{own.name} (own)"
        return {**known, name: own}, name

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> str:
        """An answer asked for part by part, for a person who plays."""
        answer = ask("answer", ())
        return written(answer, ask("evidence, copied (empty for none)", ()))

    def gold_lines(self) -> list[str]:
        """The right answers and the gold evidence."""
        triple = self.task.triple
        lines = [f"Right answers: {'; '.join(triple.answers[:12])}"]
        lines += [f"Evidence ({one.document or 'no document'}): {one.text}" for one in triple.evidence]
        return lines if triple.evidence else [*lines, "No gold evidence."]

    def view_task(self, task: SolverTask) -> dict[str, Any]:
        """The question with its gold answers and evidence, and the documents of the evidence."""
        triple = task.triple
        evidence = [
            {"document": one.document, "start": one.start, "end": one.end, "text": one.text} for one in triple.evidence
        ]
        return {
            "id": task.id,
            "question": triple.question,
            "answer": triple.answer,
            "gold_answers": list(triple.answers),
            "gold_evidence": evidence,
            "hops": triple.hops,
            "benchmark": triple.benchmark,
            "passages": self._documents(triple),
            "gold": {"answers": list(triple.answers), "evidence": evidence, "meta": dict(triple.meta)},
        }

    def _documents(self, triple: Triple) -> list[dict[str, str]]:
        ids = dict.fromkeys(one.document for one in triple.evidence) if self.config.search else {}
        found = [self.tasks.corpus.get(one) for one in ids if one in self.tasks.corpus]
        return [{"id": one.id, "title": one.title, "text": one.text} for one in found]

    def warnings(self) -> list[str]:
        """What is missing in the questions, and what was searched."""
        return caveats_of(self.config, self.tasks)

    def prompt_hashes(self) -> dict[str, str]:
        """The instructions of the protocol that is played."""
        names = SEARCH_PROMPTS if self.config.search else single_prompts(self.config.evidence, span=True)
        return {name: prompt_hash(prompt(PACKAGE, name)) for name in names}


def _spans(task: SolverTask) -> list[str]:
    """The texts of the gold evidence, harmless, none twice."""
    return list(dict.fromkeys(neutralise(one.text) for one in task.triple.evidence))


def _reminded(result: ToolResult) -> ToolResult:
    """A reply to a message without call or answer, with the form that is asked for."""
    if result.error_code in ("no_tool_call", "empty", "only_reasoning"):
        text = f"Error ({result.error_code}): There is neither a tool call nor an answer in the message. To answer, write\n{_FORM}"
        return replace(result, text=text)
    return result
