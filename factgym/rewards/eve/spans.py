"""Blocks of a policy's message, evidence spans in the texts it was shown, and properties of a span.

    <think>…</think> <question>Who …?</question> <answer>Ada</answer> <evidence>Ada wrote …</evidence>

Of several blocks of one name the last counts, as in Dr. Zero's published reward. "Verbatim" is the package's one
definition (`factgym.text.folding.find_quote`): equal after Unicode NFKC and white-space folding; a keyboard's quotation
marks and hyphens stand for typographic ones (`plain_marks`), as models write them. A found span is the document's own
slice, never the policy's spelling of it: this slice is shown to a verifier and kept in a data set.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from factgym.datasets.multihop import Evidence
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules
from factgym.text.folding import find_quote, plain_marks
from factgym.text.sentences import passage_ranges
from factgym.text.stems import porter_stem
from factgym.text.words import terms

Range = tuple[int, int]
"""A character range [start, end)."""

Texts = Iterable[tuple[str, str]]
"""(document id, text) pairs, in the order in which they are searched."""

_POSSESSIVE = re.compile(r"(?<=\w)'s\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposer's submission, stripped; an absent block is empty. Spans are offsets in the parsed text."""

    question: str = ""
    answer: str = ""
    evidence: str = ""
    question_span: Range | None = None
    answer_span: Range | None = None
    evidence_span: Range | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """A solver's submission, stripped. tagged: whether the answer had a block of its own."""

    answer: str = ""
    evidence: str = ""
    answer_span: Range | None = None
    evidence_span: Range | None = None
    tagged: bool = False


def parse_proposal(text: str) -> Proposal:
    """Return the proposal in a text. Never raises."""
    spans = [last_block(text, name) for name in ("question", "answer", "evidence")]
    question, answer, evidence = ("" if span is None else text[slice(*span)] for span in spans)
    return Proposal(question, answer, evidence, *spans)


def parse_solution(text: str) -> Solution:
    """Return the solution in a solver's last message; without an answer block the whole text is the answer."""
    block, evidence = last_block(text, "answer"), last_block(text, "evidence")
    answer = block or _strip(text, 0, len(text))
    cited = "" if evidence is None else text[slice(*evidence)]
    return Solution(text[slice(*answer)], cited, answer, evidence, tagged=block is not None)


def last_block(text: str, name: str) -> Range | None:
    """Return the range of the content of the last `<name>…</name>`, without white space at its ends.

    A block runs from its opening tag to the next closing tag; an unclosed one does not count. Linear in the text.
    """
    # `str.find` from block to block: a regular expression with a lazy body would be quadratic in unclosed tags.
    opening, closing = f"<{name}>", f"</{name}>"
    block: Range | None = None
    start = text.find(opening)
    while start >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            break
        block = start, end
        start = text.find(opening, end)
    return None if block is None else _strip(text, *block)


def _strip(text: str, start: int, end: int) -> Range:
    content = text[start:end]
    start += len(content) - len(content.lstrip())
    return start, start + len(content.strip())


def find_span(evidence: str, texts: Texts) -> tuple[Evidence, str] | None:
    """Return the first verbatim occurrence of the evidence and the text that holds it; None without one.

    texts: the source document, then the passages that this episode's searches returned, cut as they were displayed;
    not the rendered tool results, which may echo the query: a policy's own words are no evidence.
    """
    for document, text in texts:
        if span := locate_evidence(evidence, text):
            return Evidence(document, *span, text[slice(*span)]), text
    return None


def locate_evidence(evidence: str, text: str) -> Range | None:
    """Return the first range of a text that the evidence quotes, but for typographic marks; None without one."""
    # Marks are replaced at equal length, so that a range is one of the text itself.
    return find_quote(evidence, text) or find_quote(plain_marks(evidence), plain_marks(text))


def span_json(span: Evidence | None) -> dict[str, object] | None:
    """Return document and offsets of a span as JSON data."""
    return None if span is None else {"document": span.document, "start": span.start, "end": span.end}


def is_focused(span: Evidence, text: str, rules: EveRules = DEFAULT_RULES) -> bool:
    """Return whether a span lies within one sentence of its text, or has at most `max_evidence_share` of its words."""
    if span.start is None or span.end is None:
        return False
    sentences = sum(start < span.end and span.start < end for start, end in passage_ranges(text))
    return sentences <= 1 or len(span.text.split()) <= rules.max_evidence_share * len(text.split())


def is_related(
    question: str,
    answer: str,
    span: Evidence,
    texts: Sequence[tuple[str, str]],
    rules: EveRules = DEFAULT_RULES,
    *,
    queries: Sequence[str] = (),
) -> bool:
    """Return whether a span is about the question, and not much less so than the best sentence in sight with the answer.

    A sentence is about the question by the words of question and queries that it holds, weighted by their rarity in the
    texts; those of its text's first sentence, which tells whom "he" means, count half. The span's sentence needs
    `min_relation` of the best one. The span says more than the answer: at least `min_evidence_terms` other words.
    """
    # Inverse document frequency over the sentences in sight (Spärck Jones 1972).
    topic = _stems(" ".join((question, *queries))) - _stems(answer)
    read = []
    for document, text in texts:
        ranges = passage_ranges(text)
        lead = topic & _stems(text[slice(*ranges[0])]) if ranges else frozenset()
        read += [(document, text[start:end], start, end, lead) for start, end in ranges]
    overlaps = [(topic & _stems(sentence), lead) for _, sentence, _, _, lead in read]
    counts = Counter(stem for stems, lead in overlaps for stem in stems | lead)

    def weight(stems: frozenset[str]) -> float:
        return math.fsum(math.log1p(len(read) / counts[stem]) for stem in sorted(stems))

    own = best = 0.0
    for (document, sentence, start, end, _), (stems, lead) in zip(read, overlaps, strict=True):
        relation = weight(stems) + 0.5 * weight(lead - stems)
        if document == span.document and start < (span.end or 0) and (span.start or 0) < end:
            own = max(own, relation)
        elif contains_answer(answer, sentence):
            best = max(best, relation)
    says_more = len(stems_beyond(answer, span.text)) >= rules.min_evidence_terms
    return says_more and own > 0 and own >= rules.min_relation * best


def stems_beyond(answer: str, evidence: str) -> frozenset[str]:
    """Return the stems of the content words that a span holds besides those of the answer."""
    return _stems(evidence) - _stems(answer)


@lru_cache(maxsize=1 << 15)
def _stems(text: str) -> frozenset[str]:
    return frozenset(map(porter_stem, terms(text)))


def contains_answer(answer: str, text: str) -> bool:
    """Return whether the text contains the answer as whole words, normalised: "1" is not in "1975".

    Beyond SQuAD's normalisation typographic marks are punctuation too, and a possessive is its name: "Ada" is in "Ada’s".
    """
    words = _answer_words(answer)
    return bool(words) and f" {words} " in f" {_answer_words(text)} "


def _answer_words(text: str) -> str:
    if not text.isascii():
        text = plain_marks(text.replace("—", " "))
    return normalise_answer(_POSSESSIVE.sub("", text) if "'" in text else text)


def is_yes_no(answer: str) -> bool:
    """Return whether an answer is yes or no after normalisation."""
    return normalise_answer(answer) in ("yes", "no")
