"""What a solver is shown: the searching protocol, and the single-turn one without search (with or without evidence).

The evidence verifier of EVE compares a solver's answers under the single-turn protocol with and without a span of
evidence (section 3.1); `eve-solver` plays both protocols. Scripts read what they are shown with `read_shown`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from factgym.core.messages import Message
from factgym.core.prompts import fill, prompt
from factgym.tools.untrusted import neutralise

PACKAGE = "factgym.envs.eve"
SEARCH_PROMPTS = ("search",)

_QUESTION = "Question: "
_SHOWN = re.compile(r"\AQuestion: (?P<question>.*?)(?:\n\n<evidence>\n(?P<evidence>.*)\n</evidence>)?\Z", re.DOTALL)
_RESULT = re.compile(r'<result id="([^"]*)" title="([^"]*)">\n(.*?)\n</result>', re.DOTALL)
_CUT = re.compile(r"… \[cut: \d+ more tokens\]\Z")
_LEFT = re.compile(r"\(turns left: (\d+)\)")
_TURNS = re.compile(r"^- You have (\d+) messages in all", re.MULTILINE)


def single_prompts(evidence: bool, span: bool) -> tuple[str, ...]:
    """The names of the prompts that make up the instructions of the single-turn protocol."""
    return ("single", *(["single_span"] if span else []), *(["single_evidence"] if evidence else []))


def single_turn_messages(question: str, evidence: str | None = None, *, span: bool = False) -> list[Message]:
    """The prompt of the single-turn protocol without search: one answer, from the question and the evidence alone.

    evidence: shown with the question, None for the question alone. span: ask for an `<evidence>` block beside the
    answer. Texts are neutralised.
    """
    system = "\n\n".join(prompt(PACKAGE, name) for name in single_prompts(evidence is not None, span))
    shown = "" if evidence is None else f"\n\n<evidence>\n{neutralise(evidence)}\n</evidence>"
    return [{"role": "system", "content": system}, {"role": "user", "content": f"{asked(question)}{shown}"}]


def search_messages(question: str, *, turns: int, top_k: int, tokens: int) -> list[Message]:
    """The first messages of the searching protocol."""
    system = fill(prompt(PACKAGE, "search"), count=str(top_k), tokens=str(tokens), turns=str(turns))
    return [{"role": "system", "content": system}, {"role": "user", "content": asked(question)}]


def asked(question: str) -> str:
    """The question as it is shown, harmless."""
    return f"{_QUESTION}{neutralise(question)}"


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt, taken apart.

    question: as it was asked. evidence: what was given with it in the single-turn protocol, None without. results:
    (id, title, text) of every search result so far, in order. searches: messages of the policy so far. left: turns
    that are left, None where it is not said.
    """

    question: str
    evidence: str | None
    results: tuple[tuple[str, str, str], ...]
    searches: int
    left: int | None


def read_shown(messages: Sequence[Message]) -> Shown:
    """What a solver has in sight, of either protocol. Raises nothing: a foreign prompt is a question as a whole."""
    place = next((i for i, one in enumerate(messages) if one["role"] == "user"), None)
    head = (messages[place]["content"] or "") if place is not None else ""
    match = _SHOWN.match(head)
    question, evidence = (match["question"], match["evidence"]) if match else (head, None)
    later = messages[place + 1 :] if place is not None else ()
    said = [message["content"] or "" for message in later if message["role"] != "assistant"]
    results = [(id_, title, _CUT.sub("", text)) for one in said for id_, title, text in _RESULT.findall(one)]
    told = messages[0]["content"] or "" if messages and messages[0]["role"] == "system" else ""
    left = _LEFT.findall(said[-1]) if said else _TURNS.findall(told)
    searches = sum(message["role"] == "assistant" for message in later)
    return Shown(question, evidence, tuple(results), searches, int(left[-1]) if left else None)
