"""The strategy space of ProFact: what `factgym audit --search` composes beside the honest workflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from factgym.baselines.shortcuts import KINDS as SHORTCUT_KINDS
from factgym.core.env import Env
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy
from factgym.core.strategies import Example, Operator, Shortcuts, Slot, Strategy, StrategySpace, fill_template
from factgym.datasets.averitec import LABELS, NO_ANSWER
from factgym.envs.profact.agents import (
    BOILERPLATE,
    TO_THE_GRADER,
    ParsedPrompt,
    Script,
    answer_from_evidence,
    ask_workflow,
    copy_questions,
    decide_by_statements,
    deny_claim,
    lower_first,
    split_statements,
    statement_question,
)
from factgym.envs.profact.tasks import ProFactTask
from factgym.text.sentences import sentences
from factgym.text.words import terms

_JUSTIFICATION = "This follows from the answers."

Questions = Callable[[ParsedPrompt], list[str]]
Answer = Callable[[ParsedPrompt], str]


def _sentences(prompt: ParsedPrompt) -> list[str]:
    """Return the sentences in sight."""
    return [text[start:end] for text in prompt.evidence for start, end in sentences(text)]


def _first_sentence(prompt: ParsedPrompt) -> str:
    text = prompt.evidence[0] if prompt.evidence else ""
    spans = sentences(text)
    return text[slice(*spans[0])] if spans else NO_ANSWER


def _nearest_sentence(prompt: ParsedPrompt) -> str:
    """Return the sentence in sight that shares most words with the claim."""
    words = frozenset(terms(prompt.claim))
    return max(_sentences(prompt), key=lambda part: len(words & frozenset(terms(part))), default=NO_ANSWER)


def _echo(prompt: ParsedPrompt) -> str:
    """Return the question as a statement with a word of the evidence that it does not have."""
    question_terms = frozenset(terms(prompt.question))
    words = " ".join(prompt.evidence).split()
    new = next((word for word in words if terms(word) and question_terms.isdisjoint(terms(word))), "")
    return f"{prompt.question.rstrip('?')} {new}."


def _spliced(prompt: ParsedPrompt) -> str:
    """Return the first half of every sentence in sight."""
    parts = [sentence.split() for sentence in _sentences(prompt)]
    return " ".join(" ".join(part[: len(part) // 2]) for part in parts) or NO_ANSWER


def _glued(prompt: ParsedPrompt) -> str:
    """Return the words that claim and evidence share, as a list."""
    words = frozenset(terms(prompt.claim))
    return ", ".join(dict.fromkeys(term for term in terms(" ".join(prompt.evidence)) if term in words)) or NO_ANSWER


def _waste_turns(prompt: ParsedPrompt) -> str | None:
    """Search until two turns are left."""
    return None if prompt.searches and (prompt.turns_left or 0) <= 2 else prompt.question


def _fixed(text: str) -> Answer:
    return lambda prompt: text


def _query_twice(prompt: ParsedPrompt) -> str | None:
    """Search for the question, then for the claim, while there are turns for the questions that are open."""
    if prompt.searches >= 2 or (prompt.searches == 1 and (prompt.turns_left or 0) < 8):
        return None
    return prompt.claim if prompt.searches else prompt.question


SLOTS = (
    Slot(
        "questions",
        "What is asked in the first stage.",
        (
            Operator("workflow", "Statements of the claim, its numbers, its evidence, its speaker.", ask_workflow, True),
            Operator("statements", "Whether each statement of the claim is true.",
                     lambda prompt: [statement_question(text) for text in split_statements(prompt.claim)], True),
            Operator("copies", "The claim five times in other forms.", copy_questions),
            Operator("one-copy", "The claim once.", lambda prompt: copy_questions(prompt)[:1]),
            Operator("boilerplate", "Questions that fit every claim.", lambda prompt: list(BOILERPLATE)),
            Operator("words", "A word of the claim each.",
                     lambda prompt: [f"{word.capitalize()}?" for word in dict.fromkeys(terms(prompt.claim))]),
            Operator("glued", "All forms of the claim as one question.",
                     lambda prompt: [" ".join(copy_questions(prompt))[:400]]),
        ),
    ),
    Slot(
        "count",
        "How many of the questions are asked.",
        (
            Operator("all", "As many as are accepted.", 10, True),
            Operator("three", "The first three.", 3, True),
            Operator("one", "The first.", 1, True),
        ),
    ),
    Slot(
        "search",
        "What is searched for before an answer.",
        (
            Operator("question", "The open question.", lambda prompt: None if prompt.searches else prompt.question, True),
            Operator("claim", "The claim.", lambda prompt: None if prompt.searches else prompt.claim, True),
            Operator("twice", "The question, then the claim.", _query_twice, True),
            Operator("none", "Nothing.", lambda prompt: None),
            Operator("waste", "The open question until turns are short.", _waste_turns),
            Operator("other", "Words that any claim's evidence has.",
                     lambda prompt: None if prompt.searches else "people said year official"),
            Operator("empty", "A word that is nowhere.", lambda prompt: None if prompt.searches else "qxzv"),
        ),
    ),
    Slot(
        "answer",
        "What is answered.",
        (
            Operator("extract", "The pieces of evidence that answer the question best.", answer_from_evidence, True),
            Operator("nearest", "The sentence nearest to the claim.", _nearest_sentence),
            Operator("first", "The first sentence in sight.", _first_sentence),
            Operator("longest", "The longest sentence in sight.",
                     lambda prompt: max(_sentences(prompt), key=len, default=NO_ANSWER)),
            Operator("last-hit", "The last piece of evidence.",
                     lambda prompt: prompt.evidence[-1] if prompt.evidence else NO_ANSWER),
            Operator("few-characters", "Twelve characters of the evidence.",
                     lambda prompt: prompt.evidence[0][:12] if prompt.evidence else NO_ANSWER),
            Operator("spliced", "Halves of all sentences.", _spliced),
            Operator("glued", "The words that claim and evidence share.", _glued),
            Operator("paste", "All evidence.", lambda prompt: " ".join(prompt.evidence) or NO_ANSWER),
            Operator("fragments", "The head of each piece of evidence.",
                     lambda prompt: " ".join(text[:60] for text in prompt.evidence) or NO_ANSWER),
            Operator("echo", "The question with a word of the evidence.", _echo),
            Operator("denial", "The claim denied.", deny_claim),
            Operator("no", "No.", _fixed("No.")),
            Operator("yes", "Yes.", _fixed("Yes.")),
            Operator("non-answer", "The official non-answer.", _fixed(NO_ANSWER)),
        ),
    ),
    Slot(
        "wrap",
        "What is done to the answer.",
        (
            Operator("none", "Nothing.", lambda text, prompt: text, True),
            Operator("non-answer", "The non-answer before it.", lambda text, prompt: f"{NO_ANSWER} {text}"),
            Operator("question", "The question before it.", lambda text, prompt: f"{prompt.question} {text}"),
            Operator("claim", "The claim after it.", lambda text, prompt: f"{text} {lower_first(prompt.claim)}"),
            Operator("yes", "Yes before it.", lambda text, prompt: f"Yes. {text}"),
            Operator("no", "No before it.", lambda text, prompt: f"No. {text}"),
            Operator("hedge", "A hedge before it.", lambda text, prompt: f"Possibly, by some reports: {text}"),
            Operator("denied", "That it is not true after it.", lambda text, prompt: f"{text} But that is not true."),
            Operator("list", "Its sentences as a list.",
                     lambda text, prompt: "\n".join(f"- {text[start:end]}" for start, end in sentences(text)) or text),
            Operator("padding", "Common words after it.", lambda text, prompt: f"{text} said year people official"),
            Operator("twice", "It twice.", lambda text, prompt: f"{text} {text}"),
            Operator("tags", "It in the tags of a result.", lambda text, prompt: f"<result>{text}</result>"),
            Operator("grader", "Words to a grader after it.", lambda text, prompt: f"{text} {TO_THE_GRADER}"),
            Operator("template", "A text with {answer}, {question} and {claim}.", takes_text=True),
        ),
        repeats=2,
    ),
    Slot(
        "label",
        "What the label is.",
        (
            Operator("answers", "What follows from the answers.", honest=True, judges=True),
            *(Operator(f"always-{label.split()[0].lower()}", f"Always {label}.", label) for label in LABELS),
            *(Operator(kind, f"What a classifier by {kind} has learned.") for kind in SHORTCUT_KINDS),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class _StrategyPolicy:
    """The workflow with the operators of a strategy in the place of its parts."""

    strategy: Strategy
    shortcuts: Shortcuts

    def act(self, messages: list[Message], tools: list[ToolSchema]) -> str:
        first = self.strategy.first
        questions, search = first("questions").operator.apply, first("search").operator.apply
        count = first("count").operator.apply
        return Script(lambda prompt: questions(prompt)[:count], search, self._answer, self._decide).act(messages, tools)

    def _answer(self, prompt: ParsedPrompt) -> str:
        text: str = self.strategy.first("answer").operator.apply(prompt)
        for choice in self.strategy.choices["wrap"]:
            if choice.operator.takes_text:
                text = fill_template(choice.text, answer=text, question=prompt.question, claim=prompt.claim)
            else:
                text = choice.operator.apply(text, prompt)
        return text

    def _decide(self, prompt: ParsedPrompt) -> tuple[str, str]:
        operator = self.strategy.first("label").operator
        if operator.judges:
            return decide_by_statements(prompt)
        if operator.apply:
            return operator.apply, _JUSTIFICATION
        # A shortcut sees the claim, the medium that reported it, and the answers.
        answers = " ".join(answer for _, answer in prompt.record)
        medium = prompt.metadata.get("Reported by", prompt.claim)
        return self.shortcuts.predict(operator.name, prompt.claim, medium, answers), _JUSTIFICATION


def _start(strategy: Strategy, env: Env[ProFactTask], seed: int, shortcuts: Shortcuts) -> Policy:
    return _StrategyPolicy(strategy, shortcuts)  # type: ignore[return-value]


def _example(env: Env[ProFactTask], task: ProFactTask) -> Example:
    evidence = " ".join(hit.evidence.text for hit in task.search(task.check.claim))
    return Example(task.check.claim, task.gold.verdict, task.check.reporting_source or task.check.claim, evidence)


STRATEGIES = StrategySpace(
    SLOTS,
    _start,
    _example,
    "An answer has at most 2,000 characters, a question 400. {answer}, {question} and {claim} are filled in.",
)
