"""The four parts of the proposer's format reward (equation 9 and appendix D), as published.

They are Dr. Zero's, whose code settles what the paper leaves open: at h > 1 a rollout without a call
earns nothing for its tools. One thing is the paper's: the context of the answer is the source document with everything
that searches returned; the code leaves the latter out where calls and responses do not match in number.

They pay for form alone, so form is all that a policy needs: an empty thought, any search that is asked often enough, an
answer such as "1" that stands in "1975", or "yes". `factgym.rewards.eve.guarded` asks for the substance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from factgym.core.errors import ConfigError
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.parse import Proposal
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules
from factgym.rewards.eve.spans import is_yes_no

_THINK, _THINK_END = "<think>", "</think>"


class Search(NamedTuple):
    """One tool response: what was asked, and the passages that came back as one text ("" for none or an error)."""

    queries: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Rollout:
    """What a proposer did, as far as the format asks.

    hops: asked for, at least 1. source: text of the source document. turns: its own messages in order, a message's
    reasoning first in `<think>…</think>`. searches: the tool responses in order, also those of calls that failed.
    calls: how many of its calls were valid; None: as many as there are responses. Raises ConfigError for hops below 1.
    """

    hops: int
    source: str
    turns: tuple[str, ...] = ()
    searches: tuple[Search, ...] = ()
    calls: int | None = None

    def __post_init__(self) -> None:
        if type(self.hops) is not int or self.hops < 1:
            raise ConfigError(f"a rollout has at least one hop, not {self.hops!r:.80}")

    @property
    def valid_calls(self) -> int:
        """How many calls were valid."""
        return len(self.searches) if self.calls is None else self.calls

    @property
    def responses(self) -> int:
        """How many tool responses came back."""
        return len(self.searches)

    @cached_property
    def context(self) -> str:
        """Σ of appendix D: the source document and everything that searches returned, normalised."""
        return normalise_answer("\n".join((self.source, *(one.text for one in self.searches))))


class FormatParts(NamedTuple):
    """The four parts, each in [0, 1]. All are 0 for a proposal that the format does not reach."""

    integrity: float
    think: float
    tool: float
    answer: float

    @property
    def reward(self) -> float:
        """F_fmt, equation 9: their mean."""
        return sum(self) / 4


NO_FORMAT = FormatParts(0.0, 0.0, 0.0, 0.0)


def format_reward(proposal: Proposal, rollout: Rollout, rules: EveRules = DEFAULT_RULES) -> float:
    """F_fmt as published, in [0, 1]; 0 without a question or without an answer."""
    return format_parts(proposal, rollout, rules).reward


def format_parts(proposal: Proposal, rollout: Rollout, rules: EveRules = DEFAULT_RULES) -> FormatParts:
    """The parts as published.

    integrity: 1 with a question and an answer. think: share of the turns that begin with a closed think block, whatever
    it holds. tool: see `tool_score`. answer: see `answer_score`, in the source document and all responses.
    """
    if not proposal.question or not proposal.answer:
        return NO_FORMAT
    thoughts = sum(thought_of(turn) is not None for turn in rollout.turns)
    return FormatParts(
        1.0,
        thoughts / max(1, len(rollout.turns)),
        tool_score(rollout.hops, rollout.valid_calls, rollout.responses),
        answer_score(normalise_answer(proposal.answer), rollout.context, rules),
    )


def thought_of(turn: str) -> str | None:
    """The content of the think block that a message begins with; None when it begins otherwise or never closes it."""
    start = turn.lstrip()
    if not start.startswith(_THINK):
        return None
    end = start.find(_THINK_END, len(_THINK))
    return None if end < 0 else start[len(_THINK) : end]


def tool_score(hops: int, calls: int, responses: int) -> float:
    """F_tool(h): 1 at one hop; else min((1 + calls) / h, 1) where calls equal responses and there is one, else 0."""
    if hops == 1:
        return 1.0
    return min((1 + calls) / hops, 1.0) if 0 < calls == responses else 0.0


def answer_score(answer: str, context: str, rules: EveRules = DEFAULT_RULES) -> float:
    """F_ans: 1 for yes, no and a short answer that stands in the context, .5 for a longer one, else 0.

    Both texts normalised. As published the answer is looked for among characters: "1" stands in "1975".
    """
    if is_yes_no(answer):
        return 1.0
    return length_score(answer, rules) if answer in context else 0.0


def length_score(answer: str, rules: EveRules = DEFAULT_RULES) -> float:
    """1 for a normalised answer of at most `short_answer_words`, .5 up to `long_answer_words`, else 0; 0 for none."""
    words = len(answer.split())
    if not words or words > rules.long_answer_words:
        return 0.0
    return 1.0 if words <= rules.short_answer_words else 0.5
