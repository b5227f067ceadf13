"""The EVE solver's environment, and the prompts under which a solver answers.

A solver answers under the searching protocol or under the single-turn one without search, with or without evidence. The
evidence verifier of EVE compares its answers under the single-turn protocol with and without a span (section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from factgym.core.action import ParsedAction
from factgym.core.config import EnvConfig
from factgym.core.episode import RewardReport
from factgym.core.messages import Message
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.untrusted import delimited, neutralise, nonce_of
from factgym.envs.eve.config import EveSolverConfig
from factgym.envs.eve.tasks import SolverTask, SolverTaskSet
from factgym.envs.eve.tools import (
    SEARCH,
    SOLUTION_RECEIPT,
    SUBMIT,
    EveEnv,
    EveState,
    answer_blocks,
    message_solution,
    search,
    submit,
    submitted_solution,
)
from factgym.rewards.answer_matching import token_f1
from factgym.rewards.eve.rubrics import RUBRICS, SOLVER_GATES, EveScore, build_report
from factgym.rewards.eve.solution import score_solution
from factgym.rewards.eve.spans import Solution, contains_answer
from factgym.tools.toolbox import Toolbox

PACKAGE = "factgym.envs.eve"
"""The package that holds the prompts."""


def search_messages(question: str, *, turns: int, top_k: int, tokens: int, style: str = "full") -> list[Message]:
    """Return the first messages of the searching protocol. style: "brief" for shorter instructions."""
    system = fill(prompt(PACKAGE, "search", style), count=str(top_k), tokens=str(tokens), turns=str(turns))
    return [{"role": "system", "content": system}, {"role": "user", "content": f"Question: {neutralise(question)}"}]


def single_turn_messages(
    question: str, evidence: str | None = None, *, span: bool = False, style: str = "full", nonce: str = ""
) -> list[Message]:
    """Return the prompt of the single-turn protocol: an answer from the question and the evidence alone.

    evidence: shown with the question, None for the question alone. span: ask for an `<evidence>` block besides the
    answer. Texts are neutralised. nonce: the code of the delimiters, by default drawn from the texts.
    """
    system = "\n\n".join(prompt(PACKAGE, name, style) for name in single_turn_prompts(evidence is not None, span))
    user = f"Question: {neutralise(question)}"
    if evidence is not None:
        user += f"\n\n{delimited('evidence', evidence, nonce or nonce_of(question, evidence))}"
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def single_turn_prompts(evidence: bool, span: bool) -> tuple[str, ...]:
    """Return the names of the prompts that make up the instructions of the single-turn protocol."""
    return ("single", *(["single_span"] if span else []), *(["single_evidence"] if evidence else []))


class EveSolverEnv(EveEnv[SolverTask]):
    """Answer a question from a corpus, with the span of evidence that shows it.

    ## Description
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
    `<evidence>` block, or a call of `submit`; calls before a block are done first, and the block is then read at the
    last turn only. A message with neither costs a turn (`remind=False`: ends the episode); at the last turn, or in the
    protocol of one turn, it is the answer as a whole. `search=False` is the single-turn protocol without search,
    `evidence=True` shows the gold evidence there.

    ## Rewards
    `reward="eve"` is the published sum: exact match after SQuAD's normalisation + 0.3 × token F1 of the evidence with
    the gold span; of several the nearest that contains the answer (`evidence_match="joined"`: all as one text).
    "dr-zero" is the exact match alone. The default, "guarded", pays for evidence only if it is verbatim in a search
    result of this episode, in one sentence or in half of its passage at most. An answer without such evidence, near
    the gold and with the answer in it, has half of its point. Without gold evidence the evidence term is 0, the report
    gives no F1 of it, and evidence has to be about the question instead, as much as the best sentence in sight. Credits lie on the answer and on the
    evidence inside the message. The range is 0 to 1.3.

    ## Splits and licences
    Generated: validation 100, train 400, test 100, no name in two of them; no licence attaches. The benchmarks have the
    splits of their files. No data is part of the package: NQ and HotpotQA are CC BY-SA, 2WikiMultihopQA, TriviaQA and
    MuSiQue have permissive licences, PopQA is MIT. Files that bring paragraphs with the questions are searched where no
    `corpus` is given; that is easier than an encyclopedia, and every result says so. Some mark a whole
    paragraph as evidence, of which a span may quote half.

    ## Determinism
    The world depends on (seed, size, split), a slice of a file on (file, size, seed). The same actions give the same
    bytes and the same reward.

    ## Known exploits
    `factgym audit` runs them. The published sum tests neither whether evidence was seen nor whether it occurs in the
    corpus: beside the honest solver's .75 on generated questions it pays .71 for a bag of likely words, .67 for an
    invented sentence and .65 for the question itself as evidence, and "dr-zero" cannot tell them apart. Under the guard
    these and the whole passage earn .28 beside .75, the bare answer as evidence .35, a list of candidates .20.
    The guard does not test whether the evidence suffices. The first sentence in view that contains the answer earns
    .69 beside .75 on generated questions, where a name occurs in several documents; on HotpotQA and 2WikiMultihopQA,
    where a right answer mostly occurs in its evidence, as much as reading does. Without gold evidence the
    sentence in sight with the answer that is nearest to question and queries is the measure: one of less than .6 of its
    relation to them is no evidence (of gold sentences on HotpotQA and 2WikiMultihopQA 88 % pass, of other sentences
    with the answer 36 %). A guess at yes or no is right
    half of the time. Sixteen calls of eight queries fit into a message: searching at random is not cheating, and is paid
    no more than searching with a plan.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    strategies = "factgym.envs.eve.solver_agents:SOLVER"
    Config: ClassVar[type[EnvConfig]] = EveSolverConfig
    implicit: ClassVar[Mapping[str, str]] = {"query_list": SEARCH, "answer": SUBMIT}
    toolbox: ClassVar[Toolbox] = Toolbox((search, submit))
    presets: ClassVar[Mapping[str, Any]] = RUBRICS["solver"]
    form = (
        "There is neither a tool call nor an answer in the message. To answer, write the blocks `answer` and `evidence` "
        "with your own words in them, as the instructions show, or call `submit`."
    )
    receipt = SOLUTION_RECEIPT
    config: EveSolverConfig
    tasks: SolverTaskSet
    state: EveState[Solution]

    def load_tasks(self) -> SolverTaskSet:
        return SolverTaskSet.of(self.config)

    def initial_messages(self, task: SolverTask) -> list[Message]:
        config, question = self.config, task.triple.question
        self.state = EveState(self.tasks, config.top_k, config.max_passage_tokens, config.removed)
        if config.search:
            sizes = {"turns": config.max_turns, "top_k": config.top_k, "tokens": config.max_passage_tokens}
            return search_messages(question, **sizes, style=config.prompt)
        evidence = "\n".join(_gold_spans(task)) if config.evidence else ""
        return single_turn_messages(question, evidence or None, span=True, style=config.prompt, nonce=self.nonce)

    @property
    def open_tools(self) -> Sequence[str]:
        """`search` where there is something to search, and `submit`."""
        return (SEARCH, SUBMIT) if self.config.search else (SUBMIT,)

    @property
    def slow_steps(self) -> bool:
        """Whether the index is not the in-memory BM25, or is built over a corpus of files."""
        return self.config.search and (self.config.index != "bm25" or self.config.source != "synthetic")

    def read_submission(self, parsed: ParsedAction) -> Solution | None:
        return submitted_solution(parsed, ends=self.config.max_turns == 1 or not self.config.remind)

    def score(self) -> RewardReport:
        """Score the submission; of an episode that was cut off, the last message, as a whole where it calls nothing."""
        turns, solution = self.episode.turns, self.state.submission
        if solution is None:
            solution = message_solution(self.episode.messages[turns[-1].message]) if turns else Solution()
            if turns and any(result.tool for result in turns[-1].results) and not solution.tagged:
                solution = Solution()
        score = self.evaluate(solution, len(turns) - 1)
        message = turns[-1].message if turns else 0
        triple = self.task.triple
        metrics = {
            "benchmark": triple.benchmark,
            "hops": triple.hops,
            "kind": triple.kind,
            "searches": len(self.state.searches),
            "corpus": self.config.search,
        }
        return build_report(score, self.config.rubric, message=message, metrics=metrics)

    def evaluate(self, solution: Solution, turn: int) -> EveScore:
        """Score a solution of this episode's task that is submitted in a turn."""
        triple = self.task.triple
        spans = _gold_spans(self.task)
        if self.config.evidence_match == "nearest" and len(spans) > 1:
            # Compare with the nearest of the spans that contain an answer, of all where none does.
            with_answer = [span for span in spans if any(contains_answer(answer, span) for answer in triple.answers)]
            spans = [max(with_answer or spans, key=lambda span: token_f1(solution.evidence, span))]
        return score_solution(
            solution,
            [neutralise(answer) for answer in triple.answers],
            spans,
            question=neutralise(triple.question),
            texts=self.texts_in_view(turn),
            queries=[result.query for result in self.state.results_before(turn)],
            rules=self.config.scoring_rules,
        )

    def texts_in_view(self, turn: int) -> list[tuple[str, str]]:
        """Return document id and text of the texts that were in view when the message of a turn was written."""
        if self.config.evidence:
            return [(f"evidence {number}", text) for number, text in enumerate(_gold_spans(self.task), 1)]
        return self.state.texts_in_view(turn)

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """0, and the highest reward for the episode's question, which may lack gold evidence or texts to quote."""
        config = self.config
        has_gold = self._episode is None or bool(self.task.triple.evidence)
        has_texts = config.search or (config.evidence and has_gold)
        gates = dict.fromkeys(SOLVER_GATES, float(has_texts))
        gates["grounded"] = 1.0 if has_texts else config.scoring_rules.ungrounded_share
        return 0.0, config.rubric.total({"correct": 1.0, "evidence": float(has_gold)}, gates)

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> str:
        return answer_blocks(ask("answer", ()), ask("evidence, copied (empty for none)", ()))

    def gold_lines(self) -> list[str]:
        triple = self.task.triple
        lines = [f"Right answers: {'; '.join(triple.answers[:12])}"]
        lines += [f"Evidence ({span.document or 'no document'}): {span.text}" for span in triple.evidence]
        return lines if triple.evidence else [*lines, "No gold evidence."]

    def view_task(self, task: SolverTask) -> dict[str, Any]:
        """Return the question with its gold answers and evidence, and the documents of the evidence."""
        triple = task.triple
        evidence = [asdict(span) for span in triple.evidence]
        passages = []
        if self.config.search:
            ids, corpus = dict.fromkeys(span.document for span in triple.evidence), self.tasks.corpus
            passages = [asdict(corpus.get(document)) for document in ids if document in corpus]
        return {
            "id": task.id,
            "question": triple.question,
            "answer": triple.answer,
            "gold_answers": list(triple.answers),
            "gold_evidence": evidence,
            "hops": triple.hops,
            "benchmark": triple.benchmark,
            "passages": passages,
            "gold": {"answers": list(triple.answers), "evidence": evidence, "meta": dict(triple.meta)},
        }

    def warnings(self) -> list[str]:
        """Return the limits of the results: missing gold evidence, and the corpus that was searched."""
        config, tasks = self.config, self.tasks
        warnings = []
        if tasks.without_evidence:
            warnings.append(
                f"{tasks.without_evidence} of {len(tasks)} questions have no gold evidence: the evidence term is 0 for "
                "them, and reports give no F1 of their evidence."
            )
        if not config.search:
            context = "the gold evidence shown with the question" if config.evidence else "the question alone"
            warnings.append(f"No search: one turn with {context}.")
        elif config.corpus is None and config.source != "synthetic":
            warnings.append(
                f"The {len(tasks.corpus)} passages that come with the questions are all that is searched, which is easier "
                "than an encyclopedia."
            )
        return warnings

    def prompt_hashes(self) -> dict[str, str]:
        names = ("search",) if self.config.search else single_turn_prompts(self.config.evidence, span=True)
        return {name: prompt_hash(prompt(PACKAGE, name, self.config.prompt)) for name in names}


def _gold_spans(task: SolverTask) -> list[str]:
    """Return the texts of the gold evidence, neutralised, each once."""
    return list(dict.fromkeys(neutralise(span.text) for span in task.triple.evidence))
