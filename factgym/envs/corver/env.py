"""The CorVer environment, and the completion that ends its episodes.

A message with an `<answer>` outside its reasoning is the completion, unless it calls a tool first. In an environment of
one turn any text is the completion: the reward, not the parser, punishes a wrong format. Where a server separates the
reasoning from the text, the reasoning is the think block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall, find_placeholder
from factgym.core.config import EnvConfig
from factgym.core.dialects import visible_text
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, ToolResult
from factgym.core.errors import ToolError
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.prompts import prompt, prompt_hash
from factgym.core.registry import EnvSpec
from factgym.core.spaces import ActionSpace, UnicodeText
from factgym.core.strict_json import DEFAULT_LIMITS
from factgym.core.untrusted import NO_NONCE, delimited
from factgym.corpora.corpus import Passage
from factgym.envs.corver.tasks import CorverConfig, CorverTask, CorverTaskSet
from factgym.rewards.corver.format import ANSWER, ANSWER_END, THINK, THINK_END
from factgym.rewards.corver.rubrics import RUBRICS
from factgym.rewards.corver.score import CorverScore, reward_report, score_completion, sentence_returns
from factgym.rewards.rubric import Rubric
from factgym.tools.evidence import PassageLibrary, none_of
from factgym.tools.toolbox import Toolbox, tool

_PACKAGE = "factgym.envs.corver"
_MAX_NAME_CHARS = 80
_MAX_ALIASES = 12
_PROMPTS = {"train": ("train",), "eval": ("eval",), "eval-trained": ("eval", "loop"), "brief": ("train",)}
_SCORING = {"strict": "scoring"}
"""The prompt with the rules of a rubric by its name; the published rewards keep the paper's prompts."""
_TOOL_CALL_SHARE = 0.5
_EXAMPLE_ANSWERS = ("the answer itself", "the answer")
"""Answers in the examples of the prompts, whose echo is no answer."""
_FORM = "Send your reasoning and your answer in the two blocks of the instructions"


@dataclass(frozen=True, slots=True)
class SearchBackend:
    """State of the search tool. nonce: the code of the episode's delimiters."""

    library: PassageLibrary
    max_passage_chars: int
    nonce: str = NO_NONCE


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages, best first, and the size of the library."""

    total: int | None
    passages: tuple[Passage, ...]
    max_chars: int


def _render(result: SearchResult, nonce: str) -> str:
    if not result.passages:
        return f"{none_of(result.total)} matches. Try other words."
    lines = []
    for passage in result.passages:
        cut = len(passage.text) - result.max_chars
        text = passage.text[: result.max_chars] + (f"… [cut: {cut} more characters]" if cut > 0 else "")
        lines.append(delimited("result", text, nonce, id=passage.id, title=passage.title))
    return "\n".join(lines)


@tool(render=_render, tags=("query",), delimits=True)
def search(
    backend: SearchBackend,
    query: Annotated[str, Field(min_length=1, max_length=1000)],
    k: Annotated[int, Field(ge=1, le=10)] = 3,
) -> SearchResult:
    """Search the corpus. Returns passages, best first.

    Args:
        query: What to look for, in words that the text may use.
        k: How many passages to return at most.
    """
    passages = (backend.library.find(hit.id) for hit in backend.library.search(query, k))
    matches = tuple(passage for passage in passages if passage is not None)
    return SearchResult(backend.library.total, matches, backend.max_passage_chars)


@dataclass(frozen=True, slots=True)
class Completion:
    """The scored text. shift: number of its characters before the message's own text."""

    text: str
    shift: int = 0


def message_completion(message: Message) -> Completion:
    """Return a message's text, with its separate reasoning as the think block if the text has none."""
    text = message.get("content") or ""
    reasoning = message.get("reasoning_content")
    if not reasoning or THINK in text:
        return Completion(text)
    head = f"{THINK}{reasoning.strip()}{THINK_END}\n"
    return Completion(head + text, len(head))


def is_completion(parsed: ParsedAction, single_turn: bool) -> bool:
    """Return whether a message is the completion."""
    text = parsed.message.get("content") or ""
    too_long = any(isinstance(item, CallError) and item.code == "too_long" for item in parsed.items)
    if parsed.native or too_long or not text.strip():
        return False
    if single_turn:
        return True
    answer = text.find(ANSWER, text.rfind(THINK_END) + 1)
    if answer < 0 or ANSWER not in visible_text(text, DEFAULT_LIMITS):
        return False
    block = text[answer + len(ANSWER) :].partition(ANSWER_END)[0]
    if find_placeholder(block) is not None or block.strip() in _EXAMPLE_ANSWERS:
        return False
    return not any(isinstance(item, ToolCall) and (item.start or 0) < answer for item in parsed.items)


def completion_credits(
    score: CorverScore, rubric: Rubric, shift: int, length: int, message: int
) -> tuple[SpanCredit, ...]:
    """Return each sentence's credit on its characters, and the response's on the whole message; they sum to the total.

    A sentence's credit is its reward times its share of the blocks' characters. length: of the message's own text;
    sentences of reasoning outside the message's text have an empty span.
    """
    spans = []
    for scored, value in zip(score.sentences, sentence_returns(score.sentences, rubric), strict=True):
        if not value:
            continue
        start, end = scored.sentence.start, scored.sentence.end
        span_start, span_end = (min(max(offset - shift, 0), length) for offset in (start, end))
        spans.append(SpanCredit(message, span_start, span_end, float(value) * ((end - start) / score.chars)))
    # The format and the judge belong to no sentence: their part is on the whole message.
    remainder = rubric.total(score.components, score.gates) - math.fsum(span.value for span in spans)
    spans.append(SpanCredit(message, 0, length, remainder))
    return tuple(span for span in spans if span.value)


class CompletionSpace(ActionSpace):
    """An `ActionSpace` whose samples are completions, and half of the time calls of an available tool."""

    def sample(self, mask: None = None, probability: None = None) -> Any:
        """Return a completion, or a tool call whose arguments fit the tool's schema."""
        if self.tools() and self.np_random.random() < _TOOL_CALL_SHARE:
            return super().sample()
        texts = UnicodeText(seed=self.np_random)
        return f"<think>{texts.sample()}</think><answer>{texts.sample()}</answer>"


TOOLBOX = Toolbox((search,))


class CorverEnv(Env[CorverTask]):
    """Answer a factual question, and have every sentence of the answer looked up in a corpus.

    ## Description
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
    turn, whose text is scored whatever its form. With more turns, as in `corver-qa-search`, a reply without an answer
    block costs a turn, and at the last one it is scored as it is. `prompt=` has the requirements of the paper's
    training or evaluation prompt. Reasoning that an agent or its server takes out of the text is the think block all
    the same; its sentences then have no spans, so train with `reasoning="keep"`.

    ## Rewards
    judge (good +2, bad -1, not attempted -1 or -0.5) + format (±1) + cooccurrence, the sentences' rewards (-0.3, -0.1, 0, +0.1
    at counts 0, 1-4, 5-19, 20 and more) averaged over the characters of both blocks, which equals the masked mean of
    the token returns for a tokenizer of characters. Spans carry each sentence's part. `reward="reference"` is the
    published sum, "reference-code" the same with the format rule of the authors' code, which wants no `</think>`. A
    `<think>` that the chat template opens counts for all of them. The default, "strict", closes the exploits named
    below: one answer is read off and compared once, a refusal costs 0.5 instead of 1, a sentence has to connect two
    different entities about the question, and a sentence that states no fact ("Let me think.") earns the mean of the
    others, as if it were not there. Its prompt states its rules. `no_cooccurrence`, `no_judge` and
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
    `factgym audit` runs them. The published reward pays for "e" as an answer, which most gold answers contain, for a
    list of candidates, for sentences of pronouns, which avoid every penalty, for a think block of dots, for one
    well-supported sentence repeated, and for truisms beside an unsupported sentence. The strict reward pays for none
    of these. Both miss a sentence whose subject and object occur together in the corpus under another relation. The
    published reward pays no more for "I don't know" than for a wrong answer, so that every guess pays; under the strict
    one a guess pays where it is right more than once in six times. Its judge takes the first thing named as the answer
    and finds denials behind it by a list of words: "Paris, they wish" asserts Paris. Without a counter only judge and
    format remain, and tricks in the thought cost nothing. `factgym audit --search` passes over PopQA's 14,267 questions; its
    sample of 250 leaves 125 fresh ones, too few to show it.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = CorverConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {"search": ("search", "query")}
    presets: ClassVar[Mapping[str, Any]] = RUBRICS
    strategies: ClassVar[str | None] = "factgym.envs.corver.agents:STRATEGIES"
    config: CorverConfig
    tasks: CorverTaskSet

    def __init__(self, env_spec: EnvSpec, config: EnvConfig, render_mode: str | None = None) -> None:
        super().__init__(env_spec, config, render_mode)
        self.action_space = CompletionSpace(self.checked_tools)

    def load_tasks(self) -> CorverTaskSet:
        """Load the questions, open a counter that is named by its path and find the extractor: their errors are those of construction."""
        tasks = CorverTaskSet.of(self.config)
        tasks.extractor  # noqa: B018
        if isinstance(self.config.counter, str):
            tasks.counter  # noqa: B018
        return tasks

    def initial_messages(self, task: CorverTask) -> list[Message]:
        self._completion_turn: int | None = None
        self._completion_call: ToolCall | None = None
        system = "\n\n".join(map(self._prompt, self._prompt_names))
        return [{"role": "system", "content": system}, {"role": "user", "content": task.question}]

    def _prompt(self, name: str) -> str:
        return prompt(_PACKAGE, name, self.config.prompt)

    @property
    def _prompt_names(self) -> tuple[str, ...]:
        """The prompts of the system message."""
        scoring = _SCORING.get(self.config.rubric.name.partition("-no-")[0])
        names = (*_PROMPTS[self.config.prompt], scoring, "search" if self.config.search else None)
        return tuple(name for name in names if name)

    def prompt_hashes(self) -> dict[str, str]:
        return {name: prompt_hash(self._prompt(name)) for name in self._prompt_names}

    def available_tools(self) -> Sequence[ToolSchema]:
        """Return `search` in an environment with a corpus; a completion is no tool call."""
        return TOOLBOX.schemas(style=self.config.prompt) if self.config.search else ()

    def checked_tools(self) -> Sequence[ToolSchema]:
        return TOOLBOX.schemas() if self.config.search else ()

    @property
    def slow_steps(self) -> bool:
        """Whether a step may be slow: a model as extractor, a custom counter, an index other than in-memory BM25."""
        config = self.config
        has_custom_counter = config.counter is not None and config.counter != "none"
        return bool(config.extractor != "rule" or has_custom_counter or (config.search and config.index != "bm25"))

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action; a completion is one item, whatever it contains.

        The error for a message without a completion names the requested format rather than that of a tool call.
        """
        if is_completion(parsed, self.config.max_turns == 1):
            length = len(parsed.message.get("content") or "")
            self._completion_call = ToolCall("completion", {}, None, 0, length)
            parsed = replace(parsed, items=(self._completion_call,))
        results = super().tool_results(parsed)
        self._completion_call = None
        for index, result in enumerate(results):
            if result.error_code in ("no_tool_call", "empty", "only_reasoning"):
                text = f"Error ({result.error_code}): There is no answer in the message. {_FORM}"
                text += f", or search: {self.example_call()}." if self.config.search else "."
                results[index] = replace(result, text=text)
        return results

    def call_tool(self, call: ToolCall) -> ToolResult:
        if call is self._completion_call:
            self._completion_turn = len(self.episode.turns)
            self.finish()
            return ToolResult("Received. The episode is over.")
        if not self.config.search:
            name = call.name[:_MAX_NAME_CHARS]
            raise ToolError("unknown_tool", f"There is no tool {name!r} here. {_FORM}.")
        return TOOLBOX.call(SearchBackend(self.tasks.library, self.config.max_passage_chars, self.nonce), call)

    def score(self) -> RewardReport:
        """Score the completion under the configured rubric; of a truncated episode, the last message."""
        message, completion, score = self.scored()
        rubric, item = self.config.rubric, self.task.item
        report = reward_report(score, rubric, message=max(message, 0))
        results = [result for turn in self.episode.turns for result in turn.results]
        metrics = {
            **report.metrics,
            "benchmark": item.benchmark,
            "popularity": item.popularity,
            "kind": item.meta.get("kind"),
            "rewards": [sentence.reward for sentence in score.sentences],
            "strict_rewards": [sentence.strict_reward for sentence in score.sentences],
            "searches": sum(result.tool == "search" and not result.error for result in results),
        }
        spans: tuple[SpanCredit, ...] = ()
        if message >= 0:
            length = len(message_text(self.episode.messages[message]))
            spans = completion_credits(score, rubric, completion.shift, length, message)
        return replace(report, spans=spans, metrics=metrics)

    def scored(self) -> tuple[int, Completion, CorverScore]:
        """Return the index of the scored message (-1 for none), its completion, and the score, for token returns."""
        message, completion = -1, Completion("")
        turns = self.episode.turns
        if turns:
            turn = turns[-1] if self._completion_turn is None else turns[self._completion_turn]
            if self._completion_turn is not None or not any(result.tool for result in turn.results):
                message, completion = turn.message, message_completion(self.episode.messages[turn.message])
        tasks, item = self.tasks, self.task.item
        rules = self.config.scoring_rules
        score = score_completion(
            completion.text, item.aliases, tasks.counter, tasks.extractor, rules, question=item.question
        )
        return message, completion, score

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward of the rubric, its weights taken as positive."""
        rules = self.config.scoring_rules
        judge_rewards = (rules.good_reward, rules.bad_reward, rules.na_reward, rules.refusal_reward)
        bounds = {
            "judge": (min(judge_rewards), max(judge_rewards)),
            "format": (-abs(rules.format_reward), abs(rules.format_reward)),
            "cooccurrence": (min(rules.none_reward, 0.0), max(rules.high_reward, 0.0)),
        }
        if not self.tasks.has_counter:
            bounds["cooccurrence"] = (0.0, 0.0)
        terms = [(weight, bounds[name.partition("_")[0]]) for name, weight in self.config.rubric.weights.items()]
        return sum(weight * low for weight, (low, _) in terms), sum(weight * high for weight, (_, high) in terms)

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> str:
        return f"<think>{ask('reasoning, in sentences', ())}</think>\n<answer>{ask('answer', ())}</answer>"

    def gold_lines(self) -> list[str]:
        item = self.task.item
        lines = [f"Right answers: {'; '.join(item.aliases[:_MAX_ALIASES])}"]
        if item.popularity is not None:
            unit = "sentences of the corpus state it" if item.benchmark == "synthetic" else "popularity of the subject"
            lines.append(f"  {item.popularity:g} ({unit})")
        return lines

    def view_task(self, task: CorverTask) -> dict[str, Any]:
        item = task.item
        return {
            "question": item.question,
            "answer": item.aliases[0],
            "passages": [],
            "gold": {"answers": list(item.aliases), "popularity": item.popularity, "meta": dict(item.meta)},
        }

    def warnings(self) -> list[str]:
        return [] if self.tasks.has_counter else ["No counter: the sentence term of the reward is 0."]
