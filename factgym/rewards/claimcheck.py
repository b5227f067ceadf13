"""ClaimCheck's reward: seven components of a submitted verdict, and the paper's three ways to combine them.

Source: "A Correct Verdict Is Not Enough", sections *Reward Pressure And Its Traps* and *Evidence Guardrails*. The
paper prints the weights of v2 only; those of R0 and of the verdict-gated reward are ours and can be replaced by any
`Rubric` over the same components.

Evidence that was not read in the episode counts as not cited. Four rules are ours, because each closes a hole that
the formulas leave open. A quote needs `min_quote_chars` characters ("the" is verbatim in every text). It spans at most
`max_quote_sentences` sentences (a copied passage is no quote). Coverage shrinks once the quoted text exceeds an
allowance that depends on the length of the gold facts (quoting everything, sentence by sentence, covers anything). And
where people only said that a text is silent, so that no passage is gold, `silence_passages` of the nearest ones have
to be cited and a sentence that comes close to the statement quoted: else a verdict of silence, which any passage and
any sentence would back, would be worth more than one that has to find its evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Passage
from factgym.corpora.sentences import passage_ranges
from factgym.corpora.text import find_quote
from factgym.datasets.claims import ClaimExample, GoldFact
from factgym.rewards.rubric import Rubric

COMPONENTS = ("json", "verdict", "evidence", "quote", "coverage", "span", "guard")
GATES = ("evidence_weight", "validity")

R0 = Rubric("r0", {"json": 0.10, "verdict": 0.30, "evidence": 0.20, "quote": 0.20, "span": 0.10, "guard": 0.10})
GATED = Rubric("gated", R0.weights, {"verdict": "evidence_weight"})
V2 = Rubric(
    "v2",
    {"json": 0.05, "verdict": 0.30, "evidence": 0.20, "quote": 0.20, "coverage": 0.15, "span": 0.05, "guard": 0.05},
    {"verdict": "validity"},
)
RUBRICS: Mapping[str, Rubric] = {rubric.name: rubric for rubric in (R0, GATED, V2)}

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class QuoteRules:
    """What counts as a quote, and as proof of silence. Lengths in characters of the passage as shown.

    silence_passages: where people only said that a text is silent, no passage is gold; so many of the nearest ones
    must be cited, because one passage does not show what a whole document leaves unsaid.
    """

    min_quote_chars: int = 12
    max_quote_sentences: int = 2
    fact_share: float = 0.8
    allowance_factor: float = 2.0
    allowance_chars: int = 300
    silence_passages: int = 3


DEFAULT_RULES = QuoteRules()


@dataclass(frozen=True, slots=True)
class ClaimGold:
    """What is true of an example, in the form that scoring needs. `spans` are ranges of `answer`.

    places: for an example without gold facts, the sentences of its nearest passages that come closest to the answer;
    quoting one of them shows that the text is silent.
    """

    verdict: str
    answer: str
    ids: frozenset[str]
    nearest: frozenset[str]
    facts: tuple[GoldFact, ...]
    spans: tuple[Range, ...]
    places: tuple[GoldFact, ...] = ()


def gold_of(example: ClaimExample) -> ClaimGold:
    """The gold of an example."""
    # A stretch without characters, as some human annotations have it, cannot be quoted.
    facts = tuple(dict.fromkeys(fact for claim in example.claims for fact in claim.facts if fact.end > fact.start))
    spans = []
    for claim in example.claims:
        if claim.unsupported_span:
            base = example.answer.index(claim.text)
            start = base + claim.text.index(claim.unsupported_span)
            spans.append((start, start + len(claim.unsupported_span)))
    nearest = frozenset(example.nearest)
    places = () if facts else tuple(_closest_sentences(example, nearest))
    return ClaimGold(
        example.verdict, example.answer, frozenset(example.gold_ids), nearest, facts, tuple(spans), places
    )


_NEARLY_CLOSEST = 0.8


def _closest_sentences(example: ClaimExample, nearest: Collection[str]) -> Iterator[GoldFact]:
    """Of each nearest passage the sentences that BM25 ranks highest for the answer, or nearly as high."""
    facts = [
        GoldFact(passage.id, start, end)
        for passage in example.passages
        if passage.id in nearest
        for start, end in passage_ranges(passage.text)
    ]
    texts = {passage.id: passage.text for passage in example.passages}
    sentences = [Passage(str(at), "", texts[one.passage][one.start : one.end]) for at, one in enumerate(facts)]
    scores = {int(hit.id): hit.score for hit in SmallBM25(sentences).search([example.answer], max(1, len(facts)))[0]}
    best: dict[str, float] = {}
    for at, fact in enumerate(facts):
        best[fact.passage] = max(best.get(fact.passage, 0.0), scores.get(at, 0.0))
    for at, fact in enumerate(facts):
        if scores.get(at, 0.0) >= _NEARLY_CLOSEST * best[fact.passage]:
            yield fact


@dataclass(frozen=True, slots=True)
class ValidQuote:
    """A quote as submitted and where it stands."""

    quote: str
    passage: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ClaimScore:
    """Components and gates, each in [0, 1], and the evidence behind them."""

    components: Mapping[str, float]
    gates: Mapping[str, float]
    cited: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    quotes: tuple[ValidQuote, ...] = field(default=())


NOTHING = ClaimScore(dict.fromkeys(COMPONENTS, 0.0), dict.fromkeys(GATES, 0.0))
"""The score of an episode that submitted nothing."""


def score_submission(
    submission: Mapping[str, Any] | None,
    gold: ClaimGold,
    text_of: Callable[[str], str | None],
    read: Collection[str],
    rules: QuoteRules = DEFAULT_RULES,
) -> ClaimScore:
    """Score a verdict object that fits the published schema.

    text_of: a passage's text by id, None for an id that does not exist. read: ids that were opened in this episode.
    """
    if submission is None:
        return NOTHING
    cited = tuple(dict.fromkeys(_cited(submission)))
    missing = sum(text_of(one) is None for one in cited)
    counted = tuple(one for one in cited if one in read and text_of(one) is not None)
    valid, quote = _check_quotes(submission, frozenset(counted), text_of, rules)
    span_score, span_given = _span_score(submission, gold)
    false_support = submission["final_verdict"] == "supported" and gold.verdict != "supported"
    components = {
        "json": 1.0,
        "verdict": float(submission["final_verdict"] == gold.verdict),
        "evidence": _evidence_f1(counted, missing, gold, rules),
        "quote": quote,
        "coverage": _coverage(valid, gold, text_of, rules),
        "span": span_score,
        "guard": float(not false_support),
    }
    exists = len(counted) / (len(counted) + missing) if counted else 0.0
    weight = (exists + quote + float(span_given or not gold.spans) + components["guard"]) / 4 if counted else 0.0
    validity = components["evidence"] * components["quote"] * components["coverage"]
    return ClaimScore(components, {"evidence_weight": weight, "validity": validity}, cited, counted, tuple(valid))


def _cited(submission: Mapping[str, Any]) -> Iterator[str]:
    for claim in submission["claims"]:
        yield from claim["evidence_ids"]
    yield from submission.get("evidence_used", ())


def _evidence_f1(counted: tuple[str, ...], missing: int, gold: ClaimGold, rules: QuoteRules) -> float:
    accepted = gold.ids or gold.nearest
    right = sum(one in accepted for one in counted)
    if not right:
        return 0.0
    precision = right / (len(counted) + missing)
    recall = right / len(gold.ids) if gold.ids else min(1.0, right / _needed(gold, rules))
    return 2 * precision * recall / (precision + recall)


def _needed(gold: ClaimGold, rules: QuoteRules) -> int:
    """How many of the nearest passages show a silence."""
    return max(1, min(rules.silence_passages, len(gold.nearest)))


def quotes_of(claim: Mapping[str, Any]) -> list[str]:
    """The non-empty quotes of a submitted claim: a string, or a list of strings."""
    found = claim.get("quote", "")
    return [one for one in ([found] if isinstance(found, str) else found) if one.strip()]


def _check_quotes(
    submission: Mapping[str, Any],
    counted: frozenset[str],
    text_of: Callable[[str], str | None],
    rules: QuoteRules,
) -> tuple[list[ValidQuote], float]:
    """Where the valid quotes stand, and the share of the different quotes that are valid wherever they were given.

    A quote that is repeated counts once: saying a true one again does not make up for a false one.
    """
    holds: dict[str, bool] = {}
    places: dict[tuple[str, str], ValidQuote] = {}
    for claim in submission["claims"]:
        sources = [one for one in claim["evidence_ids"] if one in counted]
        for quote in quotes_of(claim):
            key = " ".join(quote.split())
            found = (places.get((key, one)) or _place(quote, one, text_of(one) or "", rules) for one in sources)
            place = next((one for one in found if one is not None), None)
            holds[key] = place is not None and holds.get(key, True)
            if place is not None:
                places.setdefault((key, place.passage), place)
    return list(places.values()), sum(holds.values()) / len(holds) if holds else 0.0


def _place(quote: str, passage: str, text: str, rules: QuoteRules) -> ValidQuote | None:
    if len(quote.strip()) < rules.min_quote_chars:
        return None
    place = find_quote(quote, text)
    if place is None:
        return None
    spanned = sum(start < place[1] and place[0] < end for start, end in passage_ranges(text))
    return ValidQuote(quote, passage, *place) if spanned <= rules.max_quote_sentences else None


def _coverage(
    valid: list[ValidQuote], gold: ClaimGold, text_of: Callable[[str], str | None], rules: QuoteRules
) -> float:
    quoted: dict[str, list[Range]] = {}
    for one in valid:
        quoted.setdefault(one.passage, []).append((one.start, one.end))
    merged = {passage: _merge(ranges) for passage, ranges in quoted.items()}
    wanted = gold.facts or gold.places
    covered = [fact for fact in wanted if _is_covered(fact, merged.get(fact.passage, []), text_of, rules)]
    length = sum(end - start for ranges in merged.values() for start, end in ranges)
    if not covered or not length:
        return 0.0
    # Every fact has to be quoted; of the places that show a silence any one will do, and any of them may be quoted.
    share = len(covered) / len(wanted) if gold.facts else 1.0
    expected = sum(fact.end - fact.start for fact in (gold.facts or covered))
    return share * min(1.0, (rules.allowance_factor * expected + rules.allowance_chars) / length)


def _is_covered(fact: GoldFact, ranges: list[Range], text_of: Callable[[str], str | None], rules: QuoteRules) -> bool:
    if _overlap(ranges, (fact.start, fact.end)) >= rules.fact_share * (fact.end - fact.start):
        return True
    if not ranges:
        return False
    # A sentence may stand twice in a passage, and a quote of it is found at the first place.
    text = text_of(fact.passage) or ""
    return any(text[fact.start : fact.end] in text[start:end] for start, end in ranges)


def _merge(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _overlap(ranges: list[Range], other: Range) -> int:
    return sum(max(0, min(end, other[1]) - max(start, other[0])) for start, end in ranges)


def _span_score(submission: Mapping[str, Any], gold: ClaimGold) -> tuple[float, bool]:
    """F1 over characters of the answer between marked and gold spans, and whether any marked span is in the answer.

    A marked span that is not in the answer counts against precision with its whole length.
    """
    marked: list[Range] = []
    invented = 0
    for claim in submission["claims"]:
        span = claim.get("unsupported_span", "").strip()
        if span:
            place = _place_span(span, claim["claim"], gold.answer)
            marked += [place] if place else []
            invented += 0 if place else len(span)
    merged = _merge(marked)
    length = sum(end - start for start, end in merged) + invented
    if not gold.spans:
        return float(length == 0), bool(merged)
    truth = _merge(list(gold.spans))
    shared = sum(_overlap(merged, one) for one in truth)
    if not shared:
        return 0.0, bool(merged)
    return 2 * shared / (length + sum(end - start for start, end in truth)), True


def _place_span(span: str, claim: str, answer: str) -> Range | None:
    """Where a span stands in the answer: inside the claim's own text if that is there, else its first occurrence."""
    frame = find_quote(claim, answer)
    if frame is not None:
        inside = find_quote(span, answer[frame[0] : frame[1]])
        if inside is not None:
            return frame[0] + inside[0], frame[0] + inside[1]
    return find_quote(span, answer)
