"""The extractive proposer: follows names from document to document, and hides the last one in a question with a gap.

    One hop    What is missing in what is said of Ada Byron: "She was born in ____ in 1815."?
    Two hops   Of the one about whom it is said, of Analytical Engine, "It was designed by [that one] in 1837.", what is
               missing here: "[That one] was born in ____."?

It sees the messages alone and knows no language beyond names, dates and numbers
(`factgym.generators.named_entities`). A document is read as facts: a sentence states one about the document's title,
whether it names it or not, and about every name in it. For two hops and more it searches for a name of the source's
facts and goes on from the facts of other documents about that name. The answer and the names on the way are hidden
wherever they occur in the question. After several hops a long last sentence is cut down to the words around the gap:
quoted whole it would be found by itself, without the way to it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from factgym.core.messages import Message, ToolSchema
from factgym.corpora.sentences import sentences
from factgym.corpora.text import terms
from factgym.envs.eve.agents.reading import CUT_MARK, parse_solver_prompt, search_call
from factgym.envs.eve.submission import proposal_blocks
from factgym.generators.named_entities import entities
from factgym.rewards.eve.proposal import is_leak, is_valid

_TASK = re.compile(
    r'\A<document id="(?P<id>[^"]*)" title="(?P<title>[^"]*)">\n(?P<text>.*)\n</document>\n\nHops: (?P<hops>\d+)'
    r"(?:\nKind of question: (?P<kind>.*))?\Z",
    re.DOTALL,
)
_MIN_SENTENCE_WORDS, _MAX_SENTENCE_WORDS = 5, 60
_MAX_ANSWER_WORDS = 5
_BEAM_WIDTH = 12
_MAX_QUERIES, _MAX_QUERY_CHARS = 2, 200
_MAX_DRAFTS = 8
GAP = "____"
_HIDDEN = "[that one]"
_THIN_WORDS, _THIN_SHARE = 2, 0.5
"""Words on each side of a gap that a thin question omits, and the share of documents with thin questions."""
_LONG_SENTENCE, _WORDS_AROUND_GAP = 8, 2
"""Words of a long sentence, and the words that it keeps on each side of a gap."""
_FALLBACK_WORDS = 3
"""Words of the answer where a document names nothing."""
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Document:
    """A source document or a search result."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """A proposer's task: the source document, the number of hops, and the kind of question."""

    source: Document
    hops: int
    kind: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence about the name `link` that mentions `object`, at `span` within the sentence."""

    document: Document
    sentence: str
    link: str
    object: str
    kind: str
    span: tuple[int, int]


Chain = tuple[Fact, ...]
"""Facts of different documents; the object of each is the link of the next."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal with the thought before it, and the chain that it was made from."""

    question: str
    answer: str
    evidence: str
    thought: str
    chain: Chain


WriteProposal = Callable[[Sequence[Draft], Document, random.Random], str]
"""Writes the last message from the drafts, best first, and the source document."""


def parse_assignment(messages: Sequence[Message]) -> Assignment | None:
    """Parse a proposer's prompt; None for a foreign one."""
    head = next((message["content"] or "" for message in messages if message["role"] == "user"), "")
    match = _TASK.match(head)
    if match is None:
        return None
    source = Document(match["id"], match["title"], CUT_MARK.sub("", match["text"]))
    return Assignment(source, int(match["hops"]), match["kind"] or "")


def parse_results(messages: Sequence[Message]) -> list[Document]:
    """Return the search results so far, each document once, in its longest cut."""
    results: dict[str, Document] = {}
    for id_, title, text in parse_solver_prompt(messages).results:
        if id_ not in results or len(results[id_].text) < len(text):
            results[id_] = Document(id_, title, text)
    return list(results.values())


def find_facts(document: Document, link: str) -> list[Fact]:
    """Return the facts about a name: of the document's title from every sentence, of others where they are mentioned."""
    titled = _is_title(link, document.title)
    mention = re.compile(rf"(?<!\w){re.escape(link)}(?!\w)")
    excluded = frozenset(terms(link)) | frozenset(terms(document.title))
    facts = []
    for sentence, named in _read_sentences(document):
        if titled or mention.search(sentence):
            for start, end, kind in named:
                # What may be asked for, or gone on from: short, and not the topic of the sentence.
                words = frozenset(terms(sentence[start:end]))
                short = len(sentence[start:end].split()) <= _MAX_ANSWER_WORDS
                if words and short and words.isdisjoint(excluded):
                    facts.append(Fact(document, sentence, link, sentence[start:end], kind, (start, end)))
    return facts


@lru_cache(maxsize=1024)
def _read_sentences(document: Document) -> tuple[tuple[str, tuple[tuple[int, int, str], ...]], ...]:
    """Return the sentences of a usable length, each with the entities in it."""
    named = entities(document.text, document.title)
    result = []
    for start, end in sentences(document.text):
        text = document.text[start:end]
        inside = tuple((a - start, b - start, kind) for a, b, kind in named if start <= a and b <= end)
        if _MIN_SENTENCE_WORDS <= len(text.split()) <= _MAX_SENTENCE_WORDS and "\n" not in text:
            result.append((text, inside))
    return tuple(result)


def _is_title(name: str, title: str) -> bool:
    """Return whether a title is a name, apart from a bracket behind it."""
    return name.casefold() == title.partition(" (")[0].casefold()


def make_drafts(chains: Sequence[Chain], rng: random.Random) -> list[Draft]:
    """Return the proposals that the chains give, in their order; of one hop, half have thin gaps."""
    thin = rng.random() < _THIN_SHARE
    drafts = (_make_draft(chain, thin and len(chain) == 1) for chain in chains)
    return list(islice((draft for draft in drafts if draft is not None), _MAX_DRAFTS))


def _make_draft(chain: Chain, thin: bool) -> Draft | None:
    """Return the proposal of a chain; None where the question would contain its answer."""
    last = chain[-1]
    names = [fact.object for fact in chain[:-1]]
    title = chain[0].document.title
    gapped = _hide(_gapped(last, thin), [*names, last.object])
    if len(chain) == 1:
        question = f'What is missing in what is said of {title}: "{gapped}"?'
    else:
        words = gapped.split()
        if len(words) > _LONG_SENTENCE:
            gap = next((index for index, word in enumerate(words) if GAP in word), 0)
            gapped = " ".join(words[max(0, gap - _WORDS_AROUND_GAP) : gap + 1 + _WORDS_AROUND_GAP])
        way = "; and of that one, ".join(f'"{_hide(_replaced(fact), names)}"' for fact in chain[:-1])
        question = f'Of the one about whom it is said, of {title}, {way}, what is missing here: "{gapped}"?'
    if last.object.casefold() in question.casefold():
        return None
    if not is_valid(question, last.object) or is_leak(question, last.object):
        return None
    stops = " to ".join(dict.fromkeys([title, *(fact.object for fact in chain)]))
    thought = f"The way goes from {stops}; I hide the last name and quote the sentence that says it."
    return Draft(question, last.object, last.sentence, thought, chain)


def _gapped(fact: Fact, thin: bool) -> str:
    """Return the sentence with a gap for its object. thin: without the words beside the gap."""
    start, end = fact.span
    before, after = fact.sentence[:start], fact.sentence[end:]
    if thin:
        starts = [match.start() for match in _WORD.finditer(before)]
        before = before[: starts[-_THIN_WORDS]] if len(starts) > _THIN_WORDS else ""
        ends = [match.end() for match in _WORD.finditer(after)]
        after = after[ends[_THIN_WORDS - 1] :] if len(ends) > _THIN_WORDS else ""
    return f"{before.rstrip()} {GAP}{'' if after[:1] in ',.;:' else ' '}{after.lstrip()}".strip()


def _replaced(fact: Fact) -> str:
    start, end = fact.span
    return f"{fact.sentence[:start]}{_HIDDEN}{fact.sentence[end:]}"


def _hide(text: str, names: list[str]) -> str:
    """Return the text with every mention of the names hidden, and no double quotes."""
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _HIDDEN, text)
    return text.replace('"', "'")


def write_honestly(drafts: Sequence[Draft], source: Document, rng: random.Random) -> str:
    """Write the best draft; without one, a question about the first words of the document."""
    if drafts:
        best = drafts[0]
        return proposal_blocks(best.question, best.answer, best.evidence, best.thought)
    words = source.text.split()
    thought = "No sentence here names anything that could be asked for."
    for index in range(_FALLBACK_WORDS, len(words) - _FALLBACK_WORDS + 1):
        question = f'Which words follow "{" ".join(words[:index])}" in the text about {source.title}?'
        answer = " ".join(words[index : index + _FALLBACK_WORDS])
        if is_valid(question, answer) and not is_leak(question, answer):
            return proposal_blocks(question, answer, " ".join(words[: index + _FALLBACK_WORDS]), thought)
    answer = " ".join(words[:_FALLBACK_WORDS])
    return proposal_blocks(f"How does the text about {source.title} begin?", answer, source.text, thought)


class ExtractiveProposer:
    """Searches as often as there are hops left, then writes a proposal. One object for each episode."""

    def __init__(self, seed: int, write: WriteProposal = write_honestly) -> None:
        self._seed = seed
        self._write = write

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the next search, or the proposal."""
        assignment = parse_assignment(messages)
        if assignment is None:
            return "There is no document to ask about."
        source = assignment.source
        prompt = parse_solver_prompt(messages)
        levels = self.find_chains(assignment, parse_results(messages))
        ends = (chain[-1] for chain in levels[-1][:_BEAM_WIDTH])
        names = list(dict.fromkeys(fact.object for fact in ends if fact.kind == "name"))[:_MAX_QUERIES]
        hops_left = prompt.turns_left != 1 and prompt.searches < assignment.hops - 1
        if names and hops_left and len(levels) == prompt.searches + 1:
            plan = f"Hop by hop away from {source.title}: what do other documents say of {' or of '.join(names)}?"
            return search_call(names, plan, max_chars=_MAX_QUERY_CHARS)
        rng = self._random(assignment, "draft")
        longest_first = [chain for level in reversed(levels) for chain in level]
        return self._write(make_drafts(longest_first, rng), source, rng)

    def find_chains(self, assignment: Assignment, results: Sequence[Document]) -> list[list[Chain]]:
        """Return chains of one fact, of two and so on as far as the results go; at most as many as there are hops."""
        rng = self._random(assignment, "chains")
        first = find_facts(assignment.source, assignment.source.title)
        rng.shuffle(first)
        first.sort(key=lambda fact: fact.kind != "name" and assignment.hops > 1)
        levels: list[list[Chain]] = [[(fact,) for fact in first]]
        while len(levels) < assignment.hops:
            longer = [
                (*chain, fact) for chain in levels[-1][:_BEAM_WIDTH] for fact in _next_facts(chain, results, rng)
            ]
            if not longer:
                break
            levels.append(longer)
        return levels

    def _random(self, assignment: Assignment, use: str) -> random.Random:
        return random.Random(f"factgym proposer {self._seed} {assignment.source.id} {assignment.hops} {use}")


def _next_facts(chain: Chain, results: Sequence[Document], rng: random.Random) -> list[Fact]:
    """Return facts of other documents about a chain's last name, in random order; documents about it are read first."""
    last = chain[-1]
    if last.kind != "name":
        return []
    visited = {fact.document.id for fact in chain}
    fresh = [document for document in results if document.id not in visited]
    fresh.sort(key=lambda document: not _is_title(last.object, document.title))
    names = {fact.object for fact in chain} | {chain[0].document.title}
    facts = [fact for document in fresh for fact in find_facts(document, last.object) if fact.object not in names]
    rng.shuffle(facts)
    return facts[:_BEAM_WIDTH]


def named_spans(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the text and kind of each entity of a document."""
    for start, end, kind in entities(document.text, document.title):
        yield document.text[start:end], kind
