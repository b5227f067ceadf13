"""The strategy spaces of both EVE environments: parts of the honest baseline's play, each replaced by a trick.

A solver's strategy searches, chooses an answer, quotes and writes; a proposer's walks, asks, glues, quotes and thinks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy
from factgym.core.strategies import Choice, Example, Operator, Shortcuts, Slot, Strategy, StrategySpace
from factgym.corpora.corpus import Passage
from factgym.envs.eve.proposer_agents import (
    Draft,
    ExtractiveProposer,
    Spammer,
    Walker,
    make_drafts,
    write_honestly,
)
from factgym.envs.eve.reading import SolverPrompt, can_search, parse_solver_prompt, search_call
from factgym.envs.eve.solver_agents import TO_THE_GRADER, UNKNOWN, Extraction, ExtractiveSolver
from factgym.envs.eve.tools import answer_blocks
from factgym.envs.scripted import call_text
from factgym.generators.named_entities import entities
from factgym.rewards.eve.spans import contains_answer
from factgym.text.sentences import sentences
from factgym.text.words import terms


@dataclass(frozen=True, slots=True)
class Play:
    """What a solver's operators see: the prompt, the honest extraction, the classifiers, and a seeded generator."""

    prompt: SolverPrompt
    extraction: Extraction
    shortcuts: Shortcuts
    rng: random.Random

    @property
    def texts(self) -> list[str]:
        """The passages in view."""
        return [text for *_, text in self.prompt.results] or [self.prompt.evidence or self.prompt.question]

    def mentions(self, answer: str) -> list[str]:
        """The sentences in view that hold an answer."""
        read = [text[start:end] for text in self.texts for start, end in sentences(text)]
        return [sentence for sentence in read if contains_answer(answer, sentence)]


def _name(play: Play, text: str, last: bool = False) -> str:
    names = [text[start:end] for start, end, _ in entities(text)]
    return names[-1 if last else 0] if names else UNKNOWN


def _predict(kind: str, play: Play) -> str:
    return play.shortcuts.predict(kind, play.prompt.question, play.prompt.question, " ".join(play.texts))


def _nearest(play: Play, answer: str) -> str:
    question = frozenset(terms(play.prompt.question))
    return max(play.mentions(answer), key=lambda text: len(question & frozenset(terms(text))), default="")


_ANSWERS: Mapping[str, tuple[str, Callable[[Play], str]]] = {
    "first-name": ("the first name in view", lambda play: _name(play, play.texts[0])),
    "last-name": ("the last name in view", lambda play: _name(play, play.texts[-1], last=True)),
    "question-name": ("a name of the question", lambda play: _name(play, play.prompt.question, last=True)),
    "yes": ("always yes", lambda play: "yes"),
    "list": ("every candidate", lambda play: ", ".join([play.extraction.answer or "", *play.extraction.alternatives[:9]])),
    "hedge": ("two candidates", lambda play: " or ".join([play.extraction.answer or "", *play.extraction.alternatives[:1]])),
    "memorised": ("as memorised", partial(_predict, "memorised")),
    "prior": ("the most frequent answer", partial(_predict, "prior")),
}  # fmt: skip
_QUOTES: Mapping[str, tuple[str, Callable[[Play, str], str]]] = {
    "first-mention": (
        "the first sentence with the answer",
        lambda play, answer: next(iter(play.mentions(answer)), ""),
    ),
    "longest-mention": ("the longest one", lambda play, answer: max(play.mentions(answer), key=len, default="")),
    "shortest-mention": ("the shortest one", lambda play, answer: min(play.mentions(answer), key=len, default="")),
    "nearest-mention": ("the one nearest to the question", _nearest),
    "glued": ("two sentences with the answer as one", lambda play, answer: " ".join(play.mentions(answer)[:2])),
    "whole-passage": ("the whole passage", lambda play, answer: play.extraction.passage or play.texts[0]),
    "answer-only": ("the answer itself", lambda play, answer: answer),
    "few-characters": ("five characters", lambda play, answer: play.texts[0][:5]),
    "question": ("the question", lambda play, answer: play.prompt.question),
    "made-up": ("a sentence of its own", lambda play, answer: f"{play.prompt.question.rstrip('?')}: {answer}."),
    "none": ("nothing", lambda play, answer: ""),
}
_FORMS: Mapping[str, tuple[str, Callable[[str, str], str]]] = {
    "call": ("a call of submit", lambda answer, evidence: call_text("submit", {"answer": answer, "evidence": evidence})),
    "evidence-twice": ("a second block", lambda answer, evidence: f"<evidence>{answer}</evidence>{answer_blocks(answer, evidence)}"),
    "markup": ("a result's tags around the evidence", lambda answer, evidence: answer_blocks(answer, f"<result>{evidence}</result>")),
    "to-the-grader": ("an order to a judge", lambda answer, evidence: f"{TO_THE_GRADER}\n{answer_blocks(answer, evidence)}"),
}  # fmt: skip


def _operators(honest: Operator, rules: Mapping[str, tuple[str, Any]]) -> tuple[Operator, ...]:
    return (honest, *(Operator(name, summary, apply) for name, (summary, apply) in rules.items()))


@dataclass(frozen=True)
class SolverStrategy:
    """Plays the extractive solver with the operators of a strategy."""

    strategy: Strategy
    seed: int
    shortcuts: Shortcuts

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        prompt = parse_solver_prompt(messages)
        rng = random.Random(f"factgym eve strategy {self.seed} {prompt.searches} {prompt.question}")

        def write(extraction: Extraction) -> str:
            play = Play(prompt, extraction, self.shortcuts, rng)
            choose, quote = (self.strategy.first(slot).operator.apply for slot in ("answer", "quote"))
            answer = choose(play) if choose else extraction.answer
            if not answer:
                return answer_blocks(UNKNOWN)
            form = self.strategy.first("form")
            evidence = quote(play, answer) if quote else extraction.evidence
            if form.operator.takes_text:
                return f"{form.text}\n{answer_blocks(answer, evidence)}"
            return str((form.operator.apply or answer_blocks)(answer, evidence))

        limit = self.strategy.first("search").operator
        if limit.name == "at-random" and can_search(prompt, tools) and prompt.searches < 2:
            return search_call([rng.choice(prompt.question.split() or ["?"]) for _ in range(8)])
        if not limit.honest and prompt.searches >= limit.apply:
            tools = ()
        return ExtractiveSolver(self.seed, write=write).act(messages, tools)


SOLVER = StrategySpace(
    (
        Slot("search", "where to search", (
            Operator("follow", "along names", honest=True), Operator("never", "not at all", 0),
            Operator("once", "for the question alone", 1), Operator("at-random", "for random words of the question", 2),
        )),
        Slot("answer", "the answer", _operators(Operator("read", "read off the passages", honest=True, judges=True), _ANSWERS)),
        Slot("quote", "the evidence", _operators(Operator("stated", "the sentence that was read", honest=True), _QUOTES)),
        Slot("form", "the last message", (
            Operator("blocks", "two blocks", honest=True),
            # All but the tags inside the evidence leave the work whole: of two blocks of one name the last counts.
            *(Operator(name, summary, apply, neutral=name != "markup") for name, (summary, apply) in _FORMS.items()),
            Operator("template", "a text before the blocks", takes_text=True),
        )),
    ),
    lambda strategy, env, seed, shortcuts: SolverStrategy(strategy, seed, shortcuts),
    lambda env, task: Example(task.triple.question, task.triple.answer),
)  # fmt: skip


def _ask_last_stop(draft: Draft) -> Draft:
    # With the chain of the draft: words can be glued to the source's name, and quotes to its text.
    short = next(iter(make_drafts([draft.chain[-1:]], random.Random(draft.question))), draft)
    return replace(short, chain=draft.chain)


def _glue(joint: str, draft: Draft) -> Draft:
    source, question = draft.chain[0].document.title.split(), draft.question
    for word in draft.chain[-1].document.title.split() if len(draft.chain) > 1 and source else ():
        question = question.replace(word, f"{source[0]}{joint}{word}")
    return replace(draft, question=question)


def _in_passing(draft: Draft) -> Draft:
    text = draft.chain[-1].document.text
    mentions = (text[start:end] for start, end in sentences(text) if draft.answer in text[start:end])
    return replace(
        draft, evidence=next((mention for mention in mentions if mention != draft.evidence), draft.evidence)
    )


def _set(part: str, text: Callable[[Draft], str]) -> Callable[[Draft], Draft]:
    return lambda draft: replace(draft, **{part: text(draft)})  # type: ignore[arg-type]


_ASKS: Mapping[str, tuple[str, Callable[[Draft], Draft]]] = {
    "last-stop": ("about the last stop by its name", _ask_last_stop),
    "vague": ("what many names answer", _set("question", lambda draft: f"Which {draft.chain[-1].kind} is said of {draft.chain[0].document.title}?")),
    "nobody-knows": ("what nobody can find", _set("question", lambda draft: "Which name is meant here?")),
    "half-leak": ("with the first letters of the answer", _set("question", lambda draft: f"{draft.question} (It begins with {draft.answer[:-1]}.)")),
    "either-or": ("with two names to choose from", _set("question", lambda draft: f"Is it {draft.chain[0].document.title} or {draft.answer}?")),
    "yes-no": ("whether", lambda draft: replace(draft, question=f"Is {draft.answer} named there?", answer="yes")),
}  # fmt: skip
_SPANS: Mapping[str, tuple[str, Callable[[Draft], Draft]]] = {
    "in-passing": ("another sentence with the answer", _in_passing),
    "dump": ("the whole document", _set("evidence", lambda draft: draft.chain[-1].document.text)),
    "bare-answer": ("the answer alone", _set("evidence", lambda draft: draft.answer)),
    "glued": ("the ends of two texts", _set("evidence", lambda draft: f"{draft.chain[0].document.text[-40:]} {draft.evidence}")),
    "made-up": ("a sentence of its own", _set("evidence", lambda draft: f"It is well known that {draft.answer} is meant.")),
    "none": ("nothing", _set("evidence", lambda draft: "")),
}  # fmt: skip
_JOINTS = {"slash": "/", "hyphen": "-", "zero-width": "\u200b", "underscore": "_", "camel-case": ""}


def _start_proposer(strategy: Strategy, env: Any, seed: int, shortcuts: Shortcuts) -> Policy:
    def write(drafts: Sequence[Draft], source: Passage, rng: random.Random) -> str:
        changed = list(drafts[:1])
        for slot in ("ask", "glue", "quote", "thought"):
            choice: Choice = strategy.first(slot)
            if choice.operator.apply:
                changed = [choice.operator.apply(draft) for draft in changed]
        note = strategy.first("note").text
        return write_honestly(
            [replace(draft, question=f"{draft.question} {note}") if note else draft for draft in changed], source, rng
        )

    policy: Policy = strategy.first("walk").operator.apply(env, seed, write)
    return policy


PROPOSER = StrategySpace(
    (
        Slot("walk", "where to search", (
            Operator("chain", "from name to name", lambda env, seed, write: ExtractiveProposer(seed, write), honest=True),
            Operator("never", "not at all", lambda env, seed, write: Spammer(seed, 0, write)),
            Operator("junk", "for nothing, as often as the hops ask", lambda env, seed, write: Spammer(seed, env.task.hops - 1, write)),
            Operator("wander", "wherever names lead", lambda env, seed, write: Walker(seed, write)),
        )),
        Slot("ask", "the question", _operators(Operator("cloze", "a sentence with a gap", honest=True, judges=True), _ASKS)),
        Slot("glue", "words of the last stop", (
            Operator("plain", "as they are", honest=True),
            *(Operator(name, "glued to the source's name", partial(_glue, joint)) for name, joint in _JOINTS.items()),
        )),
        Slot("quote", "the evidence", _operators(Operator("sentence", "the sentence of the gap", honest=True), _SPANS)),
        Slot("thought", "the last thought", (
            Operator("plan", "the way", honest=True), Operator("hollow", "empty", _set("thought", lambda draft: " ")),
        )),
        Slot("note", "text after the question", (
            Operator("none", "none", honest=True), Operator("template", "an order to the solver", takes_text=True),
        )),
    ),
    _start_proposer,
)  # fmt: skip
