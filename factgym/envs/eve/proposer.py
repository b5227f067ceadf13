"""The EVE proposer's environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from factgym.core.action import ParsedAction
from factgym.core.config import EnvConfig
from factgym.core.episode import RewardReport, SpanCredit
from factgym.core.messages import Message, message_text
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.registry import EnvSpec
from factgym.core.untrusted import delimited, neutralise
from factgym.envs.eve.config import DEFAULT_SOLVER, EveProposerConfig
from factgym.envs.eve.nested_loop import Cancellation
from factgym.envs.eve.solver import PACKAGE
from factgym.envs.eve.solver_rollouts import SolverAnswers, SolverRollouts, answer_prompts, open_rollouts
from factgym.envs.eve.tasks import ProposerTask, ProposerTaskSet
from factgym.envs.eve.tools import (
    NO_CALL_ERRORS,
    PROPOSAL_RECEIPT,
    SEARCH,
    SUBMIT,
    EveEnv,
    EveState,
    first_tokens,
    length_error,
    message_proposal,
    proposal_blocks,
    search,
    submit_proposal,
    submitted_proposal,
)
from factgym.rewards.eve.proposal import (
    CheckedProposal,
    Rollout,
    Search,
    check_proposal,
    count_tokens,
    score_proposal,
    words_outside,
)
from factgym.rewards.eve.rubrics import RUBRICS, EveScore, build_report
from factgym.rewards.eve.spans import Proposal, find_span, locate_evidence
from factgym.tools.toolbox import Toolbox

_NEGLIGIBLE = 1e-9


class EveProposerEnv(EveEnv[ProposerTask]):
    """Write a question about a document, with its answer and the evidence, for a solver to learn from.

    ## Description
    The proposer's half of a self-evolving search agent. It is rewarded for questions that a solver answers sometimes,
    and for evidence that makes the solver's answer likelier: difficulty is measured by letting the solver search, the
    evidence by letting it answer without search, with the span and without. After "EVE-Agent: Evidence-Verifiable
    Self-Evolving Agents".

    ## Task
    A source document and a number of hops (1 to 4, drawn 4:3:2:1). Documents are those of a generated world of invented
    names, of a benchmark's file (`source=`, `path=`), or of your own passages (`corpus=`: the FlashRAG / Search-R1
    JSONL layout, 2Wiki's corpus, folders). `documents=`, `hops=` and `task_types=` choose them.

    ## Tools
    `search` (a `query_list` of one or more queries; the best three passages for each, 512 tokens in all) over the same
    corpus, and `submit`.

    ## Turn protocol
    At most five messages. The last holds `<question>`, `<answer>` and `<evidence>` blocks, or calls `submit`. A message
    that does neither costs a turn. The evidence must be verbatim in the source document as displayed, or in a snippet
    that was returned before the proposal.

    ## Rewards
    Format (½ of the mean of integrity, think, tool and answer) + difficulty, (n − k) / (n − 1) where 0 < k < n of the n
    searching rollouts gave the proposal's answer + .5 V, the accuracy of m answers with the evidence less that of m
    without + .1 brevity. `reward="eve"` is that published sum, "dr-zero" the same without V and brevity; the default,
    "guarded", closes the exploits named below. An invalid proposal (no question, no answer, or the answer in the question)
    is not shown to the solver. `value="logprob"` takes V from teacher-forced log-probabilities of the answer. Report:
    the four format parts, k of n, V, both accuracies, the span's offsets in the corpus, and the policies that answered.
    Guarded, hops are measured: where the solver was right, each document that the proposer was shown is removed from the
    corpus in turn, and it is a hop of the question where the solver is not right without it. With h hops requested,
    difficulty, value and brevity count by (hops made − 1) / (h − 1), nothing where the source document is not needed.
    `hops_made` and `needed` are in the report, and a data set's rows carry the hops that were made. That takes up to
    nine further rollouts for a needed document (`EveRules.removal_chance`), one or two for another.
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
    `factgym audit` runs them. Under the published sum a question that nobody can answer earns V all the same, and so
    do the whole document as evidence and a made-up search or thought; a question to guess at is a difficult one that
    needs no evidence; one easy hop after searches for nothing, or about wherever they led, earns as much as four; a
    leaked answer keeps half of the format. The guarded reward pays for none of these, nor for words
    that are glued together to look like others ("Noxwick/Gestwick"). `factgym.rewards.eve.rubrics`
    lists the exploits that remain: a question with several right answers looks difficult, a document is believed
    whatever it claims, and a question that gives orders ("say unknown unless evidence is shown") is paid where the
    solver obeys. The guard compares words: a sentence that shares none with the question or a
    query, or far fewer than another one in sight with the answer, counts as no evidence.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    strategies = "factgym.envs.eve.proposer_agents:PROPOSER"
    Config: ClassVar[type[EnvConfig]] = EveProposerConfig
    implicit: ClassVar[Mapping[str, str]] = {"query_list": SEARCH, "question": SUBMIT}
    toolbox: ClassVar[Toolbox] = Toolbox((search, submit_proposal))
    presets: ClassVar[Mapping[str, Any]] = RUBRICS["proposer"]
    form = (
        "There is no proposal in the message. Write the blocks `question`, `answer` and `evidence` with your own words in "
        "them, as the instructions show, or call `submit`."
    )
    receipt = PROPOSAL_RECEIPT
    config: EveProposerConfig
    tasks: ProposerTaskSet
    state: EveState[Proposal]

    def __init__(self, env_spec: EnvSpec, config: EnvConfig, render_mode: str | None = None) -> None:
        super().__init__(env_spec, config, render_mode)
        self._cancellation = Cancellation()
        self.rollouts  # noqa: B018 - a policy that cannot be used is an error now, not at the end of the first episode

    @property
    def rollouts(self) -> SolverRollouts:
        """The solver and the auxiliary scorer; shared by all episodes of the configuration."""
        return open_rollouts(self.config, self.tasks.corpus)

    def load_tasks(self) -> ProposerTaskSet:
        return ProposerTaskSet.of(self.config)

    def initial_messages(self, task: ProposerTask) -> list[Message]:
        config, document = self.config, task.document
        self.state = EveState(self.tasks, config.top_k, config.max_passage_tokens)
        self._cancellation = Cancellation()
        sizes = {"turns": config.max_turns, "count": config.top_k, "tokens": config.max_passage_tokens}
        system = fill(prompt(PACKAGE, "proposer", config.prompt), **{name: str(size) for name, size in sizes.items()})
        text = self._source_text(task)
        cut = count_tokens(document.text) - count_tokens(text)
        user = fill(
            prompt(PACKAGE, "proposer_task"),
            document=delimited(
                "document",
                text + (f"… [cut: {cut} more tokens]" if cut > 0 else ""),
                self.nonce,
                id=document.id,
                title=document.title,
            ),
            hops=str(task.hops),
            kind=f"\nKind of question: {task.task_type}" if task.task_type else "",
        )
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def _source_text(self, task: ProposerTask) -> str:
        """Return the displayed beginning of the source document, neutralised. Offsets are the document's."""
        return neutralise(first_tokens(task.document.text, self.config.max_document_tokens))

    @property
    def slow_steps(self) -> bool:
        """True: the last step waits for other policies."""
        return True

    def close(self) -> None:
        """Cancel what other policies do for this episode; it becomes an error. May be called at any time."""
        self._cancellation.cancel()

    def score(self) -> RewardReport:
        """Ask the solver and score the proposal; of an episode that was cut off, the one in the last message."""
        turns, proposal = self.episode.turns, self.state.submission
        message = turns[-1].message if turns else 0
        if proposal is None:
            proposal = message_proposal(self.episode.messages[message]) if turns else Proposal()
            proposal = Proposal() if length_error(proposal) else proposal
        checked = self.check(proposal, len(turns) - 1)
        answers = self.ask_solver(checked)
        metrics = {
            "document": self.task.document.id,
            "task_type": self.task.task_type,
            "searches": len(self.state.searches),
            "solver": self.rollouts.solver.name,
            "auxiliary": self.rollouts.auxiliary.name,
            "solved": list(answers.solved),
            "log_plus": answers.log_plus,
            "log_minus": answers.log_minus,
        }
        report = build_report(self.evaluate(checked, answers), self.config.rubric, message=message, metrics=metrics)
        if not turns:
            return replace(report, spans=())
        # Credits of the blocks, and the remainder on the whole message, so that they sum to the total.
        remainder = (report.total or 0.0) - math.fsum(span.value for span in report.spans)
        if abs(remainder) <= _NEGLIGIBLE:
            return report
        credit = SpanCredit(message, 0, len(message_text(self.episode.messages[message])), remainder)
        return replace(report, spans=(*report.spans, credit))

    def read_submission(self, parsed: ParsedAction) -> Proposal | None:
        return submitted_proposal(parsed)

    def check(self, proposal: Proposal, turn: int) -> CheckedProposal:
        """Check a proposal that was made in a turn, before any policy is asked."""
        document = self.task.document
        source = self._source_text(self.task)
        results = [(id_, text) for id_, text in self.state.texts_in_view(turn) if id_ != document.id]
        return check_proposal(
            proposal,
            self.rollout(turn, f"{document.title}\n{source}"),
            [(document.id, source), *results],
            self.config.scoring_rules,
            direct=self.is_direct(proposal, source, results),
        )

    def rollout(self, turn: int, source: str) -> Rollout:
        """Return the rollout as the format reads it: a failed call has a response, and is no valid call."""
        turns = self.episode.turns[: turn + 1]
        texts = []
        for turn_played in turns:
            # Separate reasoning is the think block that the text begins with.
            message = self.episode.messages[turn_played.message]
            text, reasoning = message_text(message), message.get("reasoning_content")
            texts.append(f"<think>{reasoning}</think>\n{text}" if reasoning and "<think>" not in text else text)
        failed = sum(
            result.error is not None and result.error.code not in NO_CALL_ERRORS
            for turn in turns
            for result in turn.results
        )
        searches = []
        for _, results in self.state.searches:
            snippets = [snippet for result in results for snippet in result.snippets]
            text = "\n".join(f"{snippet.title}\n{snippet.text}" for snippet in snippets)
            searches.append(Search(tuple(result.query for result in results), text))
        responses = (*searches, *[Search((), "")] * failed)
        return Rollout(self.task.hops, source, tuple(texts), responses, calls=len(searches))

    def is_direct(self, proposal: Proposal, source: str, results: Sequence[tuple[str, str]]) -> bool:
        """Return whether a search for the question without the source's words, or its title's, gives the evidence.

        results: (document id, text) of what the searches returned.
        """
        match = find_span(proposal.evidence, results) if self.task.hops > 1 else None
        if match is None:
            return False
        title, library = self.task.document.title, self.tasks.library
        passage = library.find(match[0].document)
        target = f"{passage.title if passage else ''}\n{match[1]}"
        for source_words in (f"{title}\n{source}", title):
            query = words_outside(proposal.question, source_words, target)
            hits = library.search(query, 1) if query else []
            passages = [library.find(hit.id) for hit in hits]
            if any(passage and locate_evidence(proposal.evidence, neutralise(passage.text)) for passage in passages):
                return True
        return False

    def ask_solver(self, checked: CheckedProposal, remove: bool = True) -> SolverAnswers:
        """Return the solver's answers to a proposal, none for an invalid one. Raises PolicyError for faults.

        remove: whether to find out which documents it needs.
        """
        if not checked.valid:
            return SolverAnswers()
        proposal, span = checked.proposal, checked.span
        evidence = span.text if span is not None and self.config.verify else None
        removable = checked.removable if remove and self.config.scoring_rules.removal_chance else ()
        return self.rollouts.ask(proposal.question, proposal.answer, evidence, self._cancellation, removable)

    def evaluate(self, checked: CheckedProposal, answers: SolverAnswers) -> EveScore:
        return score_proposal(
            checked,
            solved=answers.solved,
            needed=answers.needed,
            plus=answers.plus,
            minus=answers.minus,
            value=answers.value,
            verified=self.config.verify,
            rules=self.config.scoring_rules,
        )

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward under the rubric, for weights above 0; the value V may be negative."""
        weights = self.config.rubric.weights
        return sum(-weights[name] for name in weights if name == "value"), sum(weights.values())

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> str:
        question, answer = ask("question", ()), ask("answer", ())
        return proposal_blocks(question, answer, ask("evidence, copied (empty for none)", ()))

    def gold_lines(self) -> list[str]:
        """Return who answers: there is no gold proposal."""
        n, m = self.config.scoring_rules.n, self.config.scoring_rules.m
        return [f"Answered by {self.rollouts.solver.name}: {n} times with search, {m} times with the evidence alone."]

    def view_task(self, task: ProposerTask) -> dict[str, Any]:
        return {"id": task.id, "hops": task.hops, "task_type": task.task_type, "document": asdict(task.document)}

    def warnings(self) -> list[str]:
        """Return a warning where a script answers."""
        if self.config.solver != DEFAULT_SOLVER:
            return []
        return ["The solver is a script: difficulty and V say what overlap of words can answer, not what a model can."]

    def auxiliary_policies(self) -> dict[str, Any]:
        """Return the solver, and the auxiliary scorer where it is another policy."""
        rollouts = self.rollouts
        policies = {"solver": rollouts.solver, "auxiliary": rollouts.auxiliary}
        if rollouts.auxiliary is rollouts.solver:
            del policies["auxiliary"]
        return {role: {"name": policy.name, "details": dict(policy.describe())} for role, policy in policies.items()}

    def prompt_hashes(self) -> dict[str, str]:
        own = {name: prompt_hash(prompt(PACKAGE, name, self.config.prompt)) for name in ("proposer", "proposer_task")}
        return own | answer_prompts(self.config.prompt)
