"""The CorVer environment."""

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
from factgym.core.errors import ToolError
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import prompt, prompt_hash
from factgym.core.registry import EnvSpec
from factgym.envs.corver.completion import Completion, completion_of, credits_of, is_completion
from factgym.envs.corver.config import CorverConfig
from factgym.envs.corver.search import TOOLBOX, SearchDesk
from factgym.envs.corver.space import CompletionSpace
from factgym.envs.corver.tasks import CorverTask, CorverTaskSet, corver_tasks
from factgym.rewards.corver import RUBRICS, CorverScore, reward_report, score_completion
from factgym.rewards.corver.rubrics import CorverRules
from factgym.rewards.rubric import Rubric

_PACKAGE = "factgym.envs.corver"
_NAME_CHARS = 80
_COMPLETION = "completion"
_PROMPTS = {"train": ("train",), "eval": ("eval",), "eval-trained": ("eval", "loop")}
_FORM = "<think>…</think><answer>…</answer>"


@cache
def _schemas() -> tuple[ToolSchema, ...]:
    return tuple(TOOLBOX.schemas())


class CorverEnv(Env[CorverTask]):
    """Answer a factual question, and have every sentence of the answer looked up in a corpus.

    ## What it is
    Closed-book question answering with a reward that needs no judge model: the answer is compared with the gold ones,
    and each sentence of the reasoning and of the answer earns by how often a corpus holds its subject and its object
    together. After "Verifiable Rewards Beyond Math and Code: Lightweight Corpus-Grounded Process Supervision for
    Factual Question Answering" (CorVer).

    ## Task
    A question with one or more right answers. Generated questions ask about a small closed world of books, people and
    towns whose corpus states each fact from never to hundreds of times, a quarter of the questions in each tier of the
    reward. `source=` names NQ-Open, WebQuestions, TriviaQA, PopQA, SimpleQA, TruthfulQA, or "file" for one of yours.

    ## Tools
    None in `corver-qa`. `search` in `corver-qa-search`: whole passages of the world's corpus, or of `corpus=`.

    ## Turn protocol
    `<think>…</think><answer>…</answer>` as the text of the reply; there is no tool to submit with. `corver-qa` has one
    turn, and what is said in it is scored whatever its form. With more turns, as `corver-qa-search` has them, a reply
    without an answer block costs a turn, and at the last one it is scored as it is. `prompt=` has the requirements of
    the paper's training or evaluation prompt. Where an agent or its server takes the reasoning out of the text, it is
    the think block all the same; its sentences then have no place for spans, so train with `reasoning="keep"`.

    ## Rewards
    judge (good +2, bad -1, not attempted -1) + format (±1) + cooccurrence, the sentences' rewards (-0.3, -0.1, 0, +0.1
    at counts 0, 1-4, 5-19, 20 and more) averaged over the characters of both blocks, which is what the masked mean of
    the token returns is for a tokenizer of characters. Spans carry each sentence's part. `reward="reference"` is the
    published sum; the default, "strict", closes the holes named below. `no_cooccurrence`, `no_judge` and
    `no_alignment` are the paper's ablations A1 to A3. Over files there is no sentence term without a `counter`, and
    every report says so. The range is from -2.3 to 3.1. An episode without any completion earns -2, not 0.

    ## Splits and licences
    Generated: train 2,000, validation 400, test 400, ood 400 (operas and companies), no subject in two of them; no
    licence attaches. NQ-Open has dev, efficientqa and train, WebQuestions test, val, devtest and train, TriviaQA
    validation and train, the others test. No data is part of the package: NQ-Open is Apache-2.0 with NQ's CC BY-SA
    3.0, WebQuestions CC BY 4.0, TriviaQA Apache-2.0, PopQA and SimpleQA MIT, TruthfulQA Apache-2.0.

    ## Determinism
    The world depends on the seed, question *i* of a split on (seed, split, i) alone, a slice on (file, size, seed).
    The same actions give the same bytes and the same reward.

    ## Known exploits
    `factgym audit` plays them. The published reward pays for "e" as an answer, since it stands in most gold answers,
    for a list of candidates, for sentences of pronouns, which dodge every penalty, for a think block of dots, for
    one well-supported sentence said again and again, and for truisms beside a sentence that nothing supports. The
    strict reward pays for none of these. What neither can see: a sentence whose subject and object do stand together
    in the corpus, under another relation; and an answer that names two candidates is good when one of them is.
    Neither pays more for "I don't know" than for a wrong answer: that is the paper's choice. Without a counter only
    judge and format are left, and tricks in the thought cost nothing.

    ## Versions
    v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = CorverConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {"search": ("search", "query")}
    config: CorverConfig
    tasks: CorverTaskSet

    def __init__(self, env_spec: EnvSpec, config: EnvConfig, render_mode: str | None = None) -> None:
        super().__init__(env_spec, config, render_mode)
        self.action_space = CompletionSpace(self.available_tools)

    def load_tasks(self) -> CorverTaskSet:
        """The shared task set of this configuration."""
        return corver_tasks(self.config)

    def initial_messages(self, task: CorverTask) -> list[Message]:
        """The instructions, and the bare question."""
        self._final: int | None = None
        self._taken: ToolCall | None = None
        system = "\n\n".join(prompt(_PACKAGE, name) for name in self._instructions)
        return [{"role": "system", "content": system}, {"role": "user", "content": task.asked}]

    @property
    def _instructions(self) -> tuple[str, ...]:
        """The prompts that make up the system message."""
        return (*_PROMPTS[self.config.prompt], *(("search",) if self.config.search else ()))

    def available_tools(self) -> Sequence[ToolSchema]:
        """`search` where there is something to search; a completion is no tool call."""
        return _schemas() if self.config.search else ()

    @property
    def slow_steps(self) -> bool:
        """A model as extractor, an index that is not the in-memory BM25, and a counter of one's own may take long."""
        config = self.config
        own = config.counter is not None and config.counter != "none"
        return bool(config.extractor != "rule" or own or (config.search and config.index != "bm25"))

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action; a completion is taken as a whole."""
        if is_completion(parsed, self.config.max_turns == 1):
            self._taken = ToolCall(_COMPLETION, {}, None, 0, len(parsed.message.get("content") or ""))
            parsed = replace(parsed, items=(self._taken,))
        replies = super().tool_results(parsed)
        self._taken = None
        return [_reminded(one) for one in replies]

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Take the completion, or search."""
        if call is self._taken:
            self._final = len(self.episode.turns)
            self.finish()
            return ToolResult("Received. The episode is over.")
        if not self.config.search:
            name = call.name[:_NAME_CHARS]
            raise ToolError("unknown_tool", f"There is no tool {name!r} here. Write {_FORM}.")
        return TOOLBOX.call(SearchDesk(self.tasks.library, self.config.max_passage_chars), call)

    def score(self) -> RewardReport:
        """The components under the configured rubric; of an episode that was cut off, what its last message holds."""
        place, completion, score = self.scored()
        rubric = self.config.rubric
        report = reward_report(score, rubric, message=max(place, 0))
        spans = () if place < 0 else self._spans(score, rubric, place, completion)
        return replace(report, spans=spans, metrics={**report.metrics, **self._metrics(score)})

    def scored(self) -> tuple[int, Completion, CorverScore]:
        """The message that is scored (-1 for none), what of it, and the score: what token returns are made of."""
        place, completion = self._completion()
        tasks, item = self.tasks, self.task.item
        rules: CorverRules = self.config.scoring_rules
        score = score_completion(
            completion.text, item.aliases, tasks.counter, tasks.extractor, rules, question=item.question
        )
        return place, completion, score

    def _completion(self) -> tuple[int, Completion]:
        """What is scored and the index of its message; -1 and nothing where the last message was a call or none."""
        turns = self.episode.turns
        if not turns:
            return -1, Completion("")
        turn = turns[-1] if self._final is None else turns[self._final]
        if self._final is None and any(reply.tool for reply in turn.results):
            return -1, Completion("")
        return turn.message, completion_of(self.episode.messages[turn.message])

    def _spans(self, score: CorverScore, rubric: Rubric, place: int, completion: Completion) -> Any:
        length = len(message_text(self.episode.messages[place]))
        return credits_of(score, rubric, completion.shift, length, place)

    def _metrics(self, score: CorverScore) -> dict[str, Any]:
        item = self.task.item
        turns = self.episode.turns
        return {
            "benchmark": item.benchmark,
            "popularity": item.popularity,
            "kind": item.meta.get("kind"),
            "rewards": [one.reward for one in score.sentences],
            "strict_rewards": [one.strict_reward for one in score.sentences],
            "searches": sum(reply.tool == "search" and not reply.error for turn in turns for reply in turn.results),
        }

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward that the rubric can give, its weights taken as positive."""
        bounds = _bounds(self.config.scoring_rules, self.tasks.has_counter)
        found = [(weight, bounds[name.partition("_")[0]]) for name, weight in self.config.rubric.weights.items()]
        return sum(weight * low for weight, (low, _) in found), sum(weight * high for weight, (_, high) in found)

    def rubrics(self) -> tuple[dict[str, Rubric], str]:
        """The published reward, the strict one, and the environment's own."""
        own = self.config.rubric
        name = own.name if RUBRICS.get(own.name, own) == own else f"{own.name} (own)"
        return {**RUBRICS, name: own}, name

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> str:
        """A completion asked for part by part, for a person who plays."""
        return f"<think>{ask('reasoning, in sentences', ())}</think>\n<answer>{ask('answer', ())}</answer>"

    def gold_lines(self) -> list[str]:
        """The right answers, and of a generated question how often the corpus states the fact."""
        item = self.task.item
        lines = [f"Right answers: {'; '.join(item.aliases[:12])}"]
        if item.popularity is not None:
            unit = "sentences of the corpus state it" if item.benchmark == "synthetic" else "popularity of the subject"
            lines.append(f"  {item.popularity:g} ({unit})")
        return lines

    def view_task(self, task: CorverTask) -> dict[str, Any]:
        """The question with its gold answers."""
        item = task.item
        return {
            "question": item.question,
            "answer": item.aliases[0],
            "passages": [],
            "gold": {"answers": list(item.aliases), "popularity": item.popularity, "meta": dict(item.meta)},
        }

    def warnings(self) -> list[str]:
        """That nothing was counted, where nothing is."""
        return [] if self.tasks.has_counter else ["No counter: the sentence term of the reward is 0."]

    def prompt_hashes(self) -> dict[str, str]:
        """The instructions; the task is the bare question."""
        return {name: prompt_hash(prompt(_PACKAGE, name)) for name in self._instructions}


def _bounds(rules: CorverRules, counted: bool) -> dict[str, tuple[float, float]]:
    """The range of each kind of component."""
    judged = (rules.good_reward, rules.bad_reward, rules.na_reward)
    size = abs(rules.format_reward)
    sentence = (min(rules.none_reward, 0.0), max(rules.high_reward, 0.0)) if counted else (0.0, 0.0)
    return {"judge": (min(judged), max(judged)), "format": (-size, size), "cooccurrence": sentence}


def _reminded(result: ToolResult) -> ToolResult:
    """A reply to what was no completion, with the form that is asked for rather than that of a tool call."""
    if result.error_code in ("no_tool_call", "empty", "only_reasoning"):
        text = f"Error ({result.error_code}): There is no answer in the message. Write {_FORM}."
        return replace(result, text=text)
    return result
