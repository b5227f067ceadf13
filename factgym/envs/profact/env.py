"""The ProFact environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from factgym.core.calls import ToolCall
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, ToolResult
from factgym.core.errors import ToolError
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.strict_json import in_json
from factgym.core.untrusted import delimited
from factgym.datasets.averitec import LABELS, NO_ANSWER, FactCheck, answer_string
from factgym.envs.profact.state import STAGE_TOOLS, TOOLBOX, ProFactState, normalise_arguments, one_line
from factgym.envs.profact.tasks import ProFactConfig, ProFactTask, ProFactTaskSet
from factgym.rewards.profact.meteor import Matching, meteor
from factgym.rewards.profact.stages import RUBRICS, ProFactScore, is_grounded, score_stages
from factgym.tools.toolbox import Toolbox

_PACKAGE = "factgym.envs.profact"
_PROMPTS = ("system", "claim", "ask", "search", "record", "verdict")

_STAGE_HINTS = {
    "question": "Pose your questions with `ask` first.",
    "search": "Questions are posed once. Look for evidence with `search`, then `answer` the current question.",
    "verdict": "What is left is the `verdict`.",
}
"""Stage -> hint for a call of another stage."""


class ProFactEnv(Env[ProFactTask]):
    """Check a claim as fact-checkers do: pose questions, look for evidence on each, then decide.

    ## Description
    Three stages under one policy, each with a reward of its own. After "From Verdict to Process: Agentic Reinforcement
    Learning for Multi-Stage Fact Verification".

    ## Task
    A claim with its metadata (speaker, date, place, where it was reported) is Supported, Refuted, Not Enough
    Evidence or Conflicting Evidence/Cherrypicking.

    ## Tools
    `ask` in the first stage, `search` and `answer` in the second, `verdict` in the third. A call of another stage is
    answered with the tool to use instead and costs a turn.

    ## Turn protocol
    At most 12 turns. `ask` accepts the first five questions; it drops blank and repeated ones and says so. Then
    question by question: any number of searches, three pieces of evidence each, and one answer. An answer resets the
    search context: the next prompt holds the claim and the record of questions and answers, without the evidence of
    earlier searches. Calls after the one that ended a stage or a question are not done. The last turn belongs to the
    verdict, whatever is open then; the observation says so one turn ahead, and warns where turns are too few for the
    open questions. An episode that runs out is scored as it is; a missing verdict earns nothing. Send a policy
    `policy_prompt()`: a history of collected observations undoes the reset.

    ## Rewards
    `reward="process"` is the paper's plain sum, 0 to 3: METEOR of the questions against the gold questions by the best
    one-to-one assignment, over the number of gold ones; the same for "question answer"; 1 for the right label.
    "noprocess" is the label alone. The default, "guarded", has the same three terms, each as a gain over play that does
    no work: questions and pairs earn (m - c) / (1 - c) of METEOR with precision and recall weighed alike, where c is the
    claim's own as a question; a pair counts only when its answer is grounded in evidence that was found for its
    question (numbers and dates all, as values, other added words by half, a bare yes or no by evidence on the topic),
    and, if it adds more than eight content words, has one of question or claim, and one more for every 40; or is exactly
    "No answer could be found." after a search; the label earns (right - p) / (1 - chance), where p is its probability by the claim's words, names and
    metadata alone: of generated claims 1/4, of claims in files by a classifier of the training split, cross-fitted there.
    So what the claim gives away earns 0 on average, and the right labels 1. Questions and label count as far as
    questions were answered so, and a label other than Not Enough Evidence needs an answer that says something. The
    range is about -1 to 3.5 for generated claims and -2 to 4 for AVeriTeC's. The prompt states the rules. Credits lie on the message that earned each share.

    ## Splits and licences
    Generated: dev 500, train 1,200, test 500, labels balanced; no licence attaches. With `path` AVeriTeC's dev (500)
    and train (3,067 with a claim) or files in its layout; AVeriTeC is CC BY-NC 4.0 and no part of the package. `store`
    is the folder of its knowledge store. Without one, the gold evidence of the whole split is the haystack, which is
    easier; every report says which it was.

    ## Determinism
    Generated claim *i* depends on (seed, split, i) alone. The same actions give the same bytes and the same reward.

    ## Known exploits
    `factgym audit` runs them. A question-answer string is mostly its question, METEOR weighs recall nine to one, and 61 %
    of AVeriTeC's dev claims are Refuted. So the paper's sum pays five copies of the claim, answered without a search
    under the most frequent label, 1.28 on the dev claims, as much as an honest workflow (1.28 over the gold haystack,
    1.10 over web sentences). Under "guarded" they earn 0, unsearched play earns nothing, and constant labels with the
    workflow's own answers stay below it. What is left: an answer in words of the evidence need not answer its question (of
    pasted hits on another claim a third count as answers, of three at once 29 %), and a sentence that states an echo of the
    question makes it an answer. Over AVeriTeC's 3,067 train claims labels by classifiers of the claim earn .049 to .089 less
    than the workflow, each interval below 0 (docs/guides/audit.md). What a policy knows of a claim from its own training is
    no classifier of the claim's words, and is paid.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = ProFactConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {"search": ("search", "query"), "answer": ("answer", "answer")}
    implicit: ClassVar[Mapping[str, str]] = {"questions": "ask", "label": "verdict"}
    presets: ClassVar[Mapping[str, Any]] = RUBRICS
    toolbox: ClassVar[Toolbox] = TOOLBOX
    strategies: ClassVar[str | None] = "factgym.envs.profact.strategies:STRATEGIES"
    config: ProFactConfig
    tasks: ProFactTaskSet
    state: ProFactState

    def load_tasks(self) -> ProFactTaskSet:
        return ProFactTaskSet.of(self.config)

    def prompt_hashes(self) -> dict[str, str]:
        names = [*_PROMPTS, *([f"scoring_{self.config.rubric.name}"] if self.scoring_rules else [])]
        return {name: prompt_hash(self._prompt(name)) for name in names}

    def _prompt(self, name: str) -> str:
        return prompt(_PACKAGE, name, self.config.prompt)

    @property
    def scoring_rules(self) -> str:
        """The rules of the reward, as the prompt states them; empty for a rubric of the user's own."""
        rubric = self.config.rubric
        return self._prompt(f"scoring_{rubric.name}").strip() if RUBRICS.get(rubric.name) == rubric else ""

    def initial_messages(self, task: ProFactTask) -> list[Message]:
        self.state = ProFactState(task, self.config.max_questions)
        self._situation: Message | None = None
        count, turns = str(self.config.max_questions), str(self.config.max_turns)
        system = fill(self._prompt("system"), count=count, turns=turns, scoring=self.scoring_rules)
        only_verdict = self.config.max_turns == 1
        first = self._prompt("verdict") if only_verdict else fill(self._prompt("ask"), count=count)
        user = f"{_claim_text(task.check, self.nonce)}\n\n{first}"
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    @property
    def stage(self) -> str:
        """ "question", "search", "verdict" or "done"; the last turn is the verdict's."""
        if self._episode is None:
            return "verdict" if self.config.max_turns == 1 else "question"
        if self._episode.stop is not None:
            return "done"
        if self.config.max_turns - len(self._episode.turns) <= 1:
            return "verdict"
        return self._stage_by_progress

    @property
    def _stage_by_progress(self) -> str:
        """The stage without regard to the turn limit."""
        if self.state.asked_turn is None:
            return "question"
        return "verdict" if self.state.current is None else "search"

    @property
    def open_tools(self) -> Sequence[str]:
        return STAGE_TOOLS[self.stage]

    def all_tools(self) -> Sequence[ToolSchema]:
        return self.toolbox.schemas(style=self.config.prompt)

    @property
    def slow_steps(self) -> bool:
        """Whether an index may be built on first use, or a model loaded."""
        return self.config.index != "bm25" or self.config.store is not None

    def policy_prompt(self) -> list[Message]:
        """Return the instructions, the claim with the record so far, and the messages since the last context reset."""
        episode = self.episode
        if self._situation is None or self.state.reset_turn is None:
            return list(episode.messages)
        # Later turns follow the reset; their messages are contiguous, so the first one marks the start.
        later = episode.turns[self.state.reset_turn + 1 :]
        start = later[0].message if later else len(episode.messages)
        return [episode.messages[0], self._situation, *episode.messages[start:]]

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Do a call of the stage; a call that ends a question or the first stage resets the context."""
        turn = len(self.episode.turns)
        exists = any(call.name in names for names in STAGE_TOOLS.values())
        if exists and self.state.reset_turn == turn:
            message = (
                "This message has ended a question or stage, and the context is reset: call it in your next message."
            )
            raise ToolError("next_message", message)
        if exists and call.name not in self.open_tools:
            message = f"{call.name!r} is not open in the stage {self.stage!r}. {_STAGE_HINTS[self.stage]}"
            raise ToolError("wrong_stage", message)
        result = super().call_tool(replace(call, arguments=normalise_arguments(call)))
        if result.error is None and self.state.verdict is None and self.state.reset_turn == turn:
            self._situation = {"role": "user", "content": self.situation_text()}
        return replace(result, arguments=call.arguments)

    def situation_text(self) -> str:
        """Return the prompt after a reset: the claim, the record, and the next question or the verdict."""
        state = self.state
        parts = [_claim_text(self.task.check, self.nonce)]
        if state.pairs:
            record = "\n".join(
                f"{number}. {one_line(question)}\n   {one_line(answer)}"
                for number, (question, answer) in enumerate(state.pairs, 1)
            )
            parts.append(fill(self._prompt("record"), record=record))
        turns_left = self.config.max_turns - state.turn - 1
        current = state.current
        if current is None or turns_left <= 1:
            parts.append(self._prompt("verdict"))
        else:
            number, total = str(state.questions.index(current) + 1), str(len(state.questions))
            question = one_line(current.question)
            parts.append(fill(self._prompt("search"), number=number, total=total, question=question))
        return "\n\n".join(parts) + self._turn_note(turns_left)

    def _turn_note(self, turns_left: int) -> str:
        """Return the note on the turns left after the turn being played, with a warning where they are short."""
        stage = self._stage_by_progress
        open_questions = sum(question.answer is None for question in self.state.questions)
        warning = ""
        if turns_left == 1 and stage != "verdict":
            warning = "; it is the verdict's: give the verdict now, what is open stays open"
        elif turns_left == 2 and stage != "verdict":
            warning = "; the last one is the verdict's"
        elif stage == "search" and turns_left <= open_questions + 1:
            warning = f"; {open_questions} for open questions and 1 for the verdict are needed: answer soon"
        return f"\n(turns left: {turns_left}{warning})"

    def result_messages(self, results: Sequence[ToolResult], native: bool) -> list[Message]:
        """Write results as chat messages, with the turns left and a warning where they are short."""
        messages = super().result_messages(results, native)
        if self.episode.stop is None:
            turns_left = self.config.max_turns - len(self.episode.turns) - 1
            before, note, after = (messages[-1]["content"] or "").rpartition(f"\n(turns left: {turns_left})")
            if note:
                messages[-1]["content"] = before + self._turn_note(turns_left) + after
        return messages

    def score(self) -> RewardReport:
        """Return the report: questions, answers and verdict against the gold, with the gate of grounded answers."""
        state, rubric, store = self.state, self.config.rubric, self.tasks.store
        grounded = [
            is_grounded(question.question, question.answer or "", question.evidence_in_view, self.task.check.claim)
            for question in state.answered
        ]
        label = state.verdict.label if state.verdict else None
        questions = [question.question for question in state.questions]
        score = score_stages(questions, state.pairs, label, self.task.gold, grounded=grounded)
        shares = rubric.shares(score.components, score.gates)
        metrics = {
            "claim_id": self.task.check.claim_id,
            "gold_verdict": self.task.check.label,
            "verdict": label,
            "justification": state.verdict.justification if state.verdict else "",
            "questions": questions,
            "pairs": [list(pair) for pair in state.pairs],
            "searches": [len(question.searches) for question in state.questions],
            "grounded": grounded,
            "gates": score.gates,
            "store": {"kind": store.kind, "note": store.note},
        }
        spans = tuple(span for span in self.credit_spans(shares, score) if span.value)
        return rubric.report(score.components, score.gates, spans=spans, metrics=metrics)

    def credit_spans(self, shares: Mapping[str, float], score: ProFactScore) -> Iterator[SpanCredit]:
        """Yield each component's share of the total on the messages that earned it; they sum to the share.

        The question share is on the questions within the message that posed them, split by the similarity of each
        match; those of the pairs on the messages of the answers; the verdict's on its message.
        """
        state, messages = self.state, self.episode.messages
        indices = [turn.message for turn in self.episode.turns]
        if state.asked_turn is not None:
            message = indices[state.asked_turn]
            text = message_text(messages[message])
            for name in ("question", "new_question"):
                for question, value in _split_share(score.matchings[name], shares.get(name, 0.0)):
                    start, end = in_json(state.questions[question].question, text) or (0, len(text))
                    yield SpanCredit(message, start, end, value)
        by_turn: list[tuple[int | None, float]] = []
        for name in ("qa", "grounded_qa"):
            for pair, value in _split_share(score.matchings[name], shares.get(name, 0.0)):
                by_turn.append((state.answered[pair].answered_turn, value))
        if state.verdict is not None:
            by_turn.append((state.verdict.turn, shares.get("verdict", 0.0) + shares.get("informed_verdict", 0.0)))
        for turn, value in by_turn:
            if turn is not None:
                yield SpanCredit(indices[turn], 0, len(message_text(messages[indices[turn]])), value)

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The reward of the most probable label where it is wrong, and the highest reward for the episode's claim.

        METEOR of a gold text with itself is a little below 1. Without an episode: bounds over all claims.
        """
        weights = self.config.rubric.weights
        best = dict.fromkeys(weights, 1.0)
        shares = [share for prior in self.tasks.priors for share in prior.values()]
        low, high = min(shares), max(shares)
        if self._episode is not None:
            gold, limit = self.task.gold, self.config.max_questions
            best |= {"question": _best_score(gold.questions, limit), "qa": _best_score(gold.pairs, limit)}
            low, high = gold.prior[gold.verdict], max(gold.prior.values())
        scale = 1 - self.tasks.chance
        best["informed_verdict"] = (1 - low) / scale
        worst = -high / scale * weights.get("informed_verdict", 0.0)
        return worst, sum(weight * best[name] for name, weight in weights.items())

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> dict[str, Any] | None:
        """Ask a person for the call that ends the stage, part by part; None without a question."""
        if self.stage == "question":
            questions: list[str] = []
            while len(questions) < self.config.max_questions:
                question = ask(f"question {len(questions) + 1} (empty to stop)", ())
                if not question:
                    break
                questions.append(question)
            return {"tool": "ask", "arguments": {"questions": questions}} if questions else None
        if self.stage == "search":
            return {"tool": "answer", "arguments": {"answer": ask("answer (empty for none)", ()) or NO_ANSWER}}
        label = ask("label", LABELS)
        return {"tool": "verdict", "arguments": {"label": label, "justification": ask("justification", ()) or "None."}}

    def gold_lines(self) -> list[str]:
        check = self.task.check
        lines = [f"Gold label: {check.label}"]
        for question in check.questions:
            answers = " / ".join(answer_string(answer) for answer in question.answers) or NO_ANSWER
            lines.append(f"  {question.question}\n    {answers}")
        return [*lines, check.justification, self.tasks.store.note]

    def view_task(self, task: ProFactTask) -> dict[str, Any]:
        check = task.check
        questions = [
            {"question": question.question, "answers": [answer_string(answer) for answer in question.answers]}
            for question in check.questions
        ]
        return {
            "question": "Is the claim true?",
            "answer": check.claim,
            "about": _metadata(check),
            "gold": {"verdict": check.label, "questions": questions, "justification": check.justification},
            "store": self.tasks.store.note,
        }

    def warnings(self) -> list[str]:
        own_prior = (
            "The labels' probabilities that the reward subtracts are learned from these claims: no train.json is there."
        )
        return [self.tasks.store.note, *([own_prior] if self.tasks.has_own_prior else [])]


def _claim_text(check: FactCheck, nonce: str) -> str:
    """Return the claim with its metadata, the beginning of every prompt."""
    about = "\n".join(f"{name}: {one_line(value)}" for name, value in _metadata(check).items())
    return delimited("claim", fill(prompt(_PACKAGE, "claim"), claim=one_line(check.claim), about=about).rstrip(), nonce)


def _metadata(check: FactCheck) -> dict[str, str]:
    """Return the metadata that a policy may see: nothing of the verdict or of the fact-checking article."""
    metadata = {
        "Speaker": check.speaker,
        "Date": check.claim_date.isoformat() if check.claim_date else None,
        "Location": check.location,
        "Reported by": check.reporting_source,
    }
    return {name: value for name, value in metadata.items() if value}


def _split_share(matching: Matching, share: float) -> Iterator[tuple[int, float]]:
    """Yield prediction and its part of the share, in proportion to the similarity of its match."""
    # A share of a sum over matches: the parts are proportional to the similarities and sum to the share.
    total = sum(match.similarity for match in matching.matches)
    yield from ((match.prediction, share * match.similarity / total) for match in matching.matches if match.similarity)


def _best_score(texts: Sequence[str], count: int) -> float:
    """Return the highest score of `count` predictions against these gold texts."""
    similarities = sorted((meteor(text, text) for text in texts), reverse=True)
    return sum(similarities[:count]) / len(similarities)
