"""How the scripted proposer writes: a question with a gap from a chain of facts, its answer, and the last sentence.

    One hop    What is missing in what is said of Ada Byron: "She was born in ____ in 1815."?
    Two hops   Of the one about whom it is said, of Analytical Engine, "It was designed by [that one] in 1837.", what is
               missing here: "[That one] was born in ____."?

The answer and the names on the way are taken out of the question wherever they stand. After several hops a long last
sentence is cut down to what stands about the gap: quoted whole it would be found by itself, without the way to it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from factgym.envs.eve.agents.proposer_reading import Chain, Fact
from factgym.rewards.eve.proposal import is_leak, is_valid

GAP = "____"
_OTHER = "[that one]"
_BESIDE = 2
"""Words on each side of a gap that a thin question leaves out."""
_THIN_SHARE = 0.5
_LONG, _NEAR = 8, 2
"""Words of a long sentence, and words that are kept of it on each side of a gap."""
_MOST = 8
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal with the thought behind it, and the chain that it was made from."""

    question: str
    answer: str
    evidence: str
    thought: str
    chain: Chain


def draft(chain: Chain, thin: bool) -> Draft | None:
    """The proposal of a chain; None where the question would hold its answer. thin: leave out words beside the gap."""
    last = chain[-1]
    hidden = [fact.object for fact in chain[:-1]]
    gapped = _without(_gapped(last, thin), [*hidden, last.object])
    first = chain[0].page.title
    if len(chain) == 1:
        question = f'What is missing in what is said of {first}: "{gapped}"?'
    else:
        gapped = _near_gap(gapped)
        way = "; and of that one, ".join(f'"{_without(_replaced(fact), hidden)}"' for fact in chain[:-1])
        question = f'Of the one about whom it is said, of {first}, {way}, what is missing here: "{gapped}"?'
    if last.object.casefold() in question.casefold():
        return None
    if not is_valid(question, last.object) or is_leak(question, last.object):
        return None
    return Draft(question, last.object, last.sentence, _thought(chain), chain)


def _gapped(fact: Fact, thin: bool) -> str:
    start, end = fact.place
    left, right = fact.sentence[:start], fact.sentence[end:]
    if thin:
        words = [(match.start(), match.end()) for match in _WORD.finditer(left)]
        left = left[: words[-_BESIDE][0]] if len(words) > _BESIDE else ""
        after = [match.end() for match in _WORD.finditer(right)]
        right = right[after[_BESIDE - 1] :] if len(after) > _BESIDE else ""
    return f"{left.rstrip()} {GAP}{'' if right[:1] in ',.;:' else ' '}{right.lstrip()}".strip()


def _near_gap(text: str) -> str:
    words = text.split()
    if len(words) <= _LONG:
        return text
    at = next((place for place, word in enumerate(words) if GAP in word), 0)
    return " ".join(words[max(0, at - _NEAR) : at + 1 + _NEAR])


def _replaced(fact: Fact) -> str:
    start, end = fact.place
    return f"{fact.sentence[:start]}{_OTHER}{fact.sentence[end:]}"


def _without(text: str, names: list[str]) -> str:
    """The text with every other mention of the names hidden."""
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _OTHER, text)
    return text.replace('"', "'")


def _thought(chain: Chain) -> str:
    way = " to ".join(dict.fromkeys([chain[0].page.title, *(fact.object for fact in chain)]))
    return f"The way goes from {way}; I hide the last name and quote the sentence that says it."


def drafts(chains: Sequence[Chain], rng: random.Random) -> list[Draft]:
    """The proposals that the chains give, in their order; of one hop, half have thin gaps."""
    thin = rng.random() < _THIN_SHARE
    found = (draft(chain, thin and len(chain) == 1) for chain in chains)
    return list(islice((one for one in found if one is not None), _MOST))
