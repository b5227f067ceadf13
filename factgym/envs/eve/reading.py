"""Reading of the scripted agents: prompts, questions and sentences as sets of word stems, and chains of sentences.

A question about a fact that no single sentence states is followed along shared names: a sentence that covers a part of
it, then one that mentions a name of the first and covers more. The last sentence of a chain holds the answer. The chains
are found by a beam search over sentences; rules and word overlap are the only knowledge of language.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from factgym.core.messages import Message, ToolSchema
from factgym.core.untrusted import read_blocks
from factgym.envs.scripted import call_text, observations, user_text
from factgym.generators.named_entities import entities
from factgym.text.sentences import sentences
from factgym.text.words import STOP_WORDS, words_in

CUT_MARK = re.compile(r"… \[cut: \d+ more tokens\]\Z")
_TURNS_LEFT = re.compile(r"\(turns left: (\d+)\)")
_TURNS = re.compile(r"^- You have (\d+) messages in all", re.MULTILINE)

_WORD = re.compile(r"\w+")
_BLANK = re.compile(r"_{2,}|\[blank\]|…{2,}", re.IGNORECASE)
_ASKED_NOUN = re.compile(r"\b(?:which|what) (\w+)", re.IGNORECASE)
_STEM_LETTERS = 5
_NAME_WEIGHT = 2.0
_LINK_COST = 0.1
_BEAM_WIDTH, _MAX_CHAIN = 12, 4
_AUXILIARY_VERBS = words_in("is are was were do does did has have had can could will would")
_KINDS = (
    (re.compile(r"\b(?:when|year|date|month|day)\b", re.IGNORECASE), "date"),
    (
        re.compile(
            r"\bhow (?:many|much|old|long|far|high|large|tall|deep)\b|\b(?:number|population|length|depth|height)\b",
            re.IGNORECASE,
        ),
        "number",
    ),
    (re.compile(r"\b(?:who|whom|whose|where|which|what|name)\b", re.IGNORECASE), "name"),
)
_DESCRIPTION = re.compile(r"\b[Tt]he ([a-z]+) (?=[A-Z])|\b(town|city|village|province|state|country) of (?=[A-Z])")
"""A common noun before a name ("the novel Ulysses"), which a text about the name need not repeat."""
_THESAURUS = (
    "born birth birthplace", "wrote written write writer author manuscript",
    "published publish publisher brought print", "founded founder found established establish foundation",
    "headquarters based seat", "taught teach teacher learned pupil", "study studied attended attend students",
    "awarded received receive won winner prize given", "sponsor pays paid", "patron endowed gift",
    "surveyed surveyor chart survey", "situated located lies lie campus home", "population inhabitants people",
    "long length", "deep depth", "capital governed", "directed director", "composed composer", "died death",
    "married wife husband spouse",
)  # fmt: skip
"""Words that questions and encyclopedias use for the same thing; each counts as the first of its group."""
_IMPLIED_WORDS = {"date": ("year", "date", "when", "month", "day"), "number": ("number", "many", "much")}
"""Question words that a sentence with a date or a number answers without saying them."""


@dataclass(frozen=True, slots=True)
class SolverPrompt:
    """A solver's prompt, parsed.

    evidence: as given in the single-turn protocol, None without. results: (id, title, text) of every search result so
    far, in order. searches: messages of the policy so far. turns_left: None where the prompt does not say.
    """

    question: str
    evidence: str | None
    results: tuple[tuple[str, str, str], ...]
    searches: int
    turns_left: int | None


def parse_solver_prompt(messages: Sequence[Message]) -> SolverPrompt:
    """Parse a prompt of either protocol. Never raises: a foreign prompt is a question as a whole."""
    head, replies = user_text(messages), observations(messages)
    evidence = next((block.text for block in read_blocks(head, "evidence")), None)
    question = head.removeprefix("Question: ")
    if evidence is not None:
        question = question.rpartition("\n\n<evidence ")[0]
    results = [
        (block.attributes["id"], block.attributes["title"], CUT_MARK.sub("", block.text))
        for reply in replies
        for block in read_blocks(reply, "result")
    ]
    system = messages[0]["content"] or "" if messages and messages[0]["role"] == "system" else ""
    turns = _TURNS_LEFT.findall(replies[-1]) if replies else _TURNS.findall(system)
    searches = sum(message["role"] == "assistant" for message in messages)
    return SolverPrompt(question, evidence, tuple(results), searches, int(turns[-1]) if turns else None)


def can_search(prompt: SolverPrompt, tools: Sequence[ToolSchema]) -> bool:
    """Return whether the search tool is available and a turn is left for the answer."""
    return prompt.turns_left != 1 and any(tool["function"]["name"] == "search" for tool in tools)


def search_call(queries: Sequence[str], thought: str = "", *, max_chars: int = 1000) -> str:
    """Return a call of the search tool as text, after a thought if there is one."""
    text = call_text("search", {"query_list": [query[:max_chars] for query in queries]})
    return f"<think>{thought}</think>\n{text}" if thought else text


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of a sentence. stems: of its words. position: of its first word in the sentence, -1 for the title.

    span: offsets in the sentence's text.
    """

    text: str
    kind: str
    stems: frozenset[str]
    position: int
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence of a passage, with the stems of its words in order and its entities.

    stems: of the sentence and of the title, since a passage refers to its title by "it".
    """

    text: str
    title: str
    passage: str
    words: tuple[str, ...]
    stems: frozenset[str]
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, analysed.

    weights: stem -> weight of a sentence's having it. kind: of the answer, "" where any will do. names: stems of its
    capitalised words. noun: stem of the word after "which" or "what", "" without one. yes_no: whether it asks for yes or
    no. choices: the names of an either-or question. blank: stems before and after its gap. entities: their texts.
    """

    text: str
    weights: Mapping[str, float]
    kind: str
    names: frozenset[str]
    noun: str
    yes_no: bool
    choices: tuple[str, ...]
    blank: tuple[tuple[str, ...], tuple[str, ...]] | None
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Sentences linked by names, and the names. covered: stems of the question that occur in any of the sentences."""

    sentences: tuple[Sentence, ...]
    links: tuple[Entity, ...]
    covered: frozenset[str]
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer, the chain that leads to it, and how well it fits."""

    answer: str
    chain: Chain
    score: float


def _prefix(word: str) -> str:
    folded = word.casefold()
    return folded if folded[:1].isdigit() else folded[:_STEM_LETTERS]


_GROUP_STEMS = {_prefix(word): _prefix(group.split()[0]) for group in _THESAURUS for word in reversed(group.split())}


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the first letters of a word, or of the first word of its group in the thesaurus; numbers unchanged."""
    prefix = _prefix(word)
    return _GROUP_STEMS.get(prefix, prefix)


def _stems(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in _WORD.findall(text))


@lru_cache(maxsize=2048)
def read_question(text: str) -> Question:
    """Analyse a question."""
    capitalised = {stem(word) for word in re.findall(r"(?<!\A)\b[A-Z0-9]\w*", text)}
    words = [
        word
        for word in _WORD.findall(_DESCRIPTION.sub("", text))
        if word.casefold() not in STOP_WORDS and not _BLANK.fullmatch(word)
    ]
    weights = {stem(word): _NAME_WEIGHT if stem(word) in capitalised else 1.0 for word in words}
    first = text.split(maxsplit=1)[0].casefold() if text.split() else ""
    gap = _BLANK.search(text)
    choices = _choices(text) if " or " in text else ()
    noun = _ASKED_NOUN.search(text)
    return Question(
        text,
        weights,
        kind="" if gap else next((kind for pattern, kind in _KINDS if pattern.search(text)), ""),
        names=frozenset(weights) & capitalised,
        noun=stem(noun[1]) if noun else "",
        yes_no=first in _AUXILIARY_VERBS and not gap and not choices,
        choices=choices,
        blank=(_stems(text[: gap.start()])[-4:], _stems(text[gap.end() :])[:4]) if gap else None,
        entities=tuple(text[start:end] for start, end, _ in entities(text)),
    )


def _choices(text: str) -> tuple[str, ...]:
    """Return the names on either side of an "or"."""
    for first, second in pairwise([(start, end) for start, end, kind in entities(text) if kind == "name"]):
        if re.fullmatch(r",? or (?:the )?", text[first[1] : second[0]]):
            return text[slice(*first)], text[slice(*second)]
    return ()


@lru_cache(maxsize=4096)
def read_passage(title: str, text: str) -> tuple[Sentence, ...]:
    """Analyse the sentences of a passage, of which the first 100,000 characters are read."""
    text = text[:100_000]
    title_stems = frozenset(_stems(title))
    entity_spans = entities(text, title)
    result = []
    first = 0
    for start, end in sentences(text):
        words = _stems(text[start:end])
        word_starts = [match.start() for match in _WORD.finditer(text, start, end)]
        first = bisect_left(entity_spans, (start,), first)
        inside = tuple(
            Entity(
                *(text[a:b], kind, frozenset(_stems(text[a:b])), bisect_left(word_starts, a)),
                span=(a - start, b - start),
            )
            for a, b, kind in entity_spans[first : bisect_left(entity_spans, (end,), first)]
            if b <= end
        )
        implied = (stem(word) for entity in inside for word in _IMPLIED_WORDS.get(entity.kind, ()))
        result.append(Sentence(text[start:end], title, text, words, title_stems | {*words, *implied}, inside))
    return tuple(result)


def find_chains(question: Question, read: Sequence[Sentence], is_given: bool = False) -> list[Chain]:
    """Return the chains that cover most of the question, best first, by a beam search over their length.

    is_given: the sentences came with the question as evidence for it, so that one without overlap counts too.
    """
    # Invariant: each level holds at most _BEAM_WIDTH chains of one length. A chain is extended only by a sentence that
    # mentions a new name of its last one and covers more of the question, and each further sentence costs _LINK_COST
    # more than the one before, so that a short chain wins over a long one of the same coverage.
    stems = frozenset(question.weights)
    total = sum(question.weights.values()) or 1.0
    overlaps = [(sentence, stems & sentence.stems) for sentence in read]

    @cache
    def coverage(covered: frozenset[str]) -> float:
        """Return the share of the question that is covered; half of it where none of its names is."""
        share = sum(question.weights[word] for word in sorted(covered)) / total
        return share if not question.names or not covered.isdisjoint(question.names) else share / 2

    @cache
    def mentions(name: frozenset[str]) -> list[tuple[Sentence, frozenset[str]]]:
        return [(sentence, overlap) for sentence, overlap in overlaps if overlap and name <= sentence.stems]

    @cache
    def links(sentence: Sentence) -> list[Entity]:
        return onward_names(question, sentence)

    def extensions(chain: Chain) -> Iterator[Chain]:
        """Yield the chains that are one sentence longer and cover more of the question."""
        for link in links(chain.sentences[-1]):
            for sentence, overlap in mentions(link.stems):
                if not overlap <= chain.covered and sentence not in chain.sentences:
                    covered = chain.covered | overlap
                    score = coverage(covered) - _LINK_COST * len(chain.sentences)
                    yield Chain((*chain.sentences, sentence), (*chain.links, link), covered, score)

    level = _best(
        Chain((sentence,), (), overlap, coverage(overlap)) for sentence, overlap in overlaps if overlap or is_given
    )
    chains = list(level)
    for _ in range(_MAX_CHAIN - 1):
        level = _best(longer for chain in level for longer in extensions(chain))
        chains += level
    return _best(chains)


def _best(chains: Iterable[Chain]) -> list[Chain]:
    return sorted(chains, key=lambda chain: -chain.score)[:_BEAM_WIDTH]


def onward_names(question: Question, sentence: Sentence) -> list[Entity]:
    """Return the names of a sentence that the question does not have: where the question may go on."""
    stems = frozenset(question.weights)
    return [entity for entity in sentence.entities if entity.kind == "name" and not entity.stems <= stems]


def find_candidates(question: Question, chains: Sequence[Chain]) -> list[Candidate]:
    """Return possible answers, best first, each once: entities of the last sentences that the question does not name."""
    stems = frozenset(question.weights)
    best: dict[str, Candidate] = {}
    for chain in chains:
        sentence = chain.sentences[-1]
        used = chain.links[-1].stems if chain.links else frozenset[str]()
        title = frozenset(_stems(sentence.title))
        possible = list(sentence.entities)
        if title and not any(title <= entity.stems for entity in possible):
            possible.append(Entity(sentence.title, "name", title, -1))
        for entity in possible:
            if entity.stems <= stems or entity.stems <= used:
                continue
            candidate = Candidate(entity.text, chain, chain.score + _fit(question, sentence, entity))
            if entity.text not in best or best[entity.text].score < candidate.score:
                best[entity.text] = candidate
    return sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.answer))


def _fit(question: Question, sentence: Sentence, entity: Entity) -> float:
    """Return how well an entity fits: by its kind, the nearness of the question's words, and the words around a gap."""
    # A linear score with hand-set weights. Words of the question count by their reciprocal distance to the entity.
    score = 0.0 if not question.kind else 0.25 if entity.kind == question.kind else -0.35
    if question.noun and question.noun in entity.stems:
        score += 0.15
    if question.blank is not None:
        return score + 0.5 * _gap_overlap(question.blank, sentence, entity)
    if entity.position < 0:
        return score - 0.1
    first, size = entity.position, len(entity.stems)
    near = sum(
        question.weights[word] / (1 + min(abs(position - first), abs(position - first - size + 1)))
        for position, word in enumerate(sentence.words)
        if word in question.weights and not first <= position < first + size
    )
    return score + 0.3 * min(near, 1.5)


def _gap_overlap(blank: tuple[tuple[str, ...], tuple[str, ...]], sentence: Sentence, entity: Entity) -> float:
    """Return the share of the words around a gap that are around an entity in the same order."""
    before, after = blank
    first, size = entity.position, len(_WORD.findall(entity.text))
    preceding = sentence.words[max(0, first - len(before)) : max(0, first)]
    following = sentence.words[first + size : first + size + len(after)]
    matches = sum(a == b for a, b in zip(reversed(before), reversed(preceding), strict=False))
    matches += sum(a == b for a, b in zip(after, following, strict=False))
    return matches / max(1, len(before) + len(after))
