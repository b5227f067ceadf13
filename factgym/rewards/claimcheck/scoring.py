"""ClaimCheck's reward: components of a submitted verdict, the paper's three ways to combine them, and a fourth.

Source: "A Correct Verdict Is Not Enough: RL for Evidence-Grounded Claim Verification", sections *Reward Pressure And
Its Traps* and *Evidence Guardrails*. With the paper's symbols for the components

    J json      the verdict object fits the schema
    V verdict   the final verdict is the gold one
    E evidence  F1 of cited against gold passages
    Q quote     share of the quotes that occur in a cited passage
    C coverage  share of the gold facts that are quoted (v2 only)
    S span      F1 over the characters marked as unsupported
    F guard     not "supported" where the gold verdict is another one

the rewards are

    R0     = .10 J + .30 V       + .20 E + .20 Q         + .10 S + .10 F
    gated  = .10 J + .30 V · W_E + .20 E + .20 Q         + .10 S + .10 F,   W_E the mean of four evidence checks
    v2     = .05 J + .30 G_V     + .20 E + .20 Q + .15 C + .05 S + .05 F,   G_V = V · E · Q · C

The paper prints the weights of v2 only; those of R0 and of the gated reward are ours. A passage that was not read counts
as not cited, as in the paper's online environment.

Four rules are ours; each closes a hole that the formulas leave open. A quote has at least `min_quote_chars` characters:
"the" occurs in every text. It overlaps at most `max_quote_sentences` sentences: a copied passage is no quote. Coverage
shrinks once the quoted text exceeds an allowance for the length of the gold facts: quoting everything would cover anything.
An example whose annotators found the text silent has no gold passage: `silence_passages` of the nearest passages have to be
cited, and a sentence that comes close to the answer quoted, or a verdict of silence would be worth more than others.

The default, `judged`, is ours too, as v2 looks at the final verdict alone. It scores statement by statement:

    judged = .05 J + .15 G + .35 A + .30 D + .10 M · G + .05 R

    G grounding   mean over the statements of E · Q · C of the statement's own entries
    A statements  mean of E · Q · C times +1 for the right status and -1/3 for a wrong one: 0 at chance level
    D judgement   G times +1 for the right final verdict and -1/4 otherwise: 0 at chance level
    M marked      S, but for typographic marks
    R reason      share of the statements with the right status, evidence and a reason that holds

An entry belongs to the statement with which it shares most words, if it shares half of them; entries that disagree have a
wrong status, those that belong to none count as further statements without credit. A quote and an unsupported span may have
a keyboard's quotation marks, apostrophes and hyphens for typographic ones and the other way round (`plain_marks`), as models
write them so; nothing else may differ, and the paper's components compare as ever. A final verdict counts if it follows
from the statuses (`final_verdict`). Of a reason its presence is checked, and that its quotations, numbers and names occur.

Chosen on 200 tasks of train splits; the guide has the numbers. Losses at the odds of a guess make its expected value zero;
G keeps a reward for evidence while the judgement is at chance. Evidence of silence, at hand anywhere, counts a third.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from factgym.core.episode import SpanCredit
from factgym.core.messages import Message, message_text
from factgym.core.strict_json import in_json
from factgym.datasets.claims import STATUSES, final_verdict
from factgym.rewards.claimcheck.evidence import (
    DEFAULT_RULES,
    Entries,
    Entry,
    QuoteMatch,
    QuoteRules,
    TextOf,
    coverage,
    evidence_f1,
    join_quotes,
    overlap,
    read_entries,
)
from factgym.rewards.claimcheck.gold import ClaimGold, Range, merge_ranges
from factgym.rewards.rubric import Rubric
from factgym.text.folding import find_quote, fold, plain_marks
from factgym.text.numbers import fold_values, value_terms
from factgym.text.stems import porter_stem
from factgym.text.tagging import LEXICON
from factgym.text.wordnet import is_english
from factgym.text.words import STOP_WORDS, terms, words_in

COMPONENTS = (
    *("json", "verdict", "evidence", "quote", "coverage", "span", "guard"),
    *("grounding", "statements", "judgement", "marked", "reason"),
)
GATES = ("evidence_weight", "validity", "grounding")
"""W_E of the gated reward, E · Q · C of v2, and G of the judged reward."""

R0 = Rubric("r0", {"json": 0.10, "verdict": 0.30, "evidence": 0.20, "quote": 0.20, "span": 0.10, "guard": 0.10})
GATED = Rubric("gated", R0.weights, {"verdict": "evidence_weight"})
V2 = Rubric(
    "v2",
    {"json": 0.05, "verdict": 0.30, "evidence": 0.20, "quote": 0.20, "coverage": 0.15, "span": 0.05, "guard": 0.05},
    {"verdict": "validity"},
)
JUDGED = Rubric(
    "judged",
    {"json": 0.05, "grounding": 0.15, "statements": 0.35, "judgement": 0.30, "marked": 0.10, "reason": 0.05},
    {"marked": "grounding"},
)
JUDGED_WITHOUT_SPANS = Rubric(
    "judged", {"json": 0.05, "grounding": 0.15, "statements": 0.40, "judgement": 0.35, "reason": 0.05}
)
"""For data sets that mark no part of a statement: a marked whole would be paid for the status a second time."""
RUBRICS: Mapping[str, Rubric] = {rubric.name: rubric for rubric in (R0, GATED, V2, JUDGED)}


_SAME_STATEMENT = 0.5
_QUOTED_WORDS = re.compile(r"""["«`]([^"«»`]+)["»`]|(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w))+)'(?!\w)""")
_OMISSION = re.compile(r"\[?(?:…|\.{3})\]?")
_ABBREVIATION = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_WORD = re.compile(r"(?P<start>(?:\A|[.!?:;\"'(\[])\s*+[\"'(\[]*+)?(?<!\w)(?P<word>[^\W\d_]++(?:'[^\W\d_]++)?)")
_PARTS_OF_EVIDENCE = (
    "passage sentence text part statement claim source document section quote clause condition rule fact"
)
_COUNTED_PARTS = re.compile(
    r"\bone(?!\w|[ -]\w)|\b(?:both|(?:the |of )?(?:one|two|three|four|five|first|second|third))(?:,|\s(?:of\b|would\b|may\b|must\b|that\b|who\b"
    rf"|(?:\w+\s)?(?:{_PARTS_OF_EVIDENCE.replace(' ', '|')}|one)s?\b))",
    re.I,
)
"""Numbers that count the evidence itself: "two passages", "the first sentence", "First,", "one would expect"."""
_FUNCTION_WORDS = words_in(
    "although among anybody anyone anything beside besides cannot could else everybody everyone everything herself himself"
    " itself might must myself nobody ours ourselves overclaim overclaimed overclaims shall should somebody someone theirs"
    " themselves though unless unlike until upon whatever whenever whereas wherever whether whichever whoever would yours"
    " yourself"
)
_PREFIXES = frozenset(
    ("anti", "bi", "co", "de", "in", "inter", "mis", "multi", "non", "on", "pre", "re", "semi", "tele", "un")
)
_MAX_PREFIX_CHARS = 16
"""Words that are neither in WordNet, which has content words, nor among the stop words."""
_REASON_WORDS = frozenset(
    f"{_PARTS_OF_EVIDENCE} answer evidence entry page article supported contradicted unsupported overclaim partially".split()
)
"""Words of the task itself, whatever their case."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """The factor of a statement's share for a right label, and for a wrong one, by the label given.

    status, verdict: of a label that is not in `labels`. By default minus the odds of a guess among four statuses, and
    among five verdicts. labels: label -> factors, the same for a status and a final verdict.
    """

    status: tuple[float, float] = (1.0, -1 / 3)
    verdict: tuple[float, float] = (1.0, -1 / 4)
    labels: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def lowest(self) -> float:
        """The lowest factor."""
        return min(loss for _, loss in (self.status, self.verdict, *self.labels.values()))


GUESS = Stakes()


def chance_stakes(counts: Mapping[str, int], rules: QuoteRules) -> Stakes:
    """Return the factors under which every constant label, and so every prior, earns nothing over the same evidence.

    counts: label -> number of tasks, of answers of one statement. With p the label's part of all that can be earned
    (silence counts `silence_share`), a right one earns min(1, (1 - p) / p) of the share and a wrong one costs
    min(1, p / (1 - p)) of it: p times the one is 1 - p times the other. A label that no task has costs the highest loss.
    """
    shares = {"unsupported": rules.silence_share}
    weights = {label: counts[label] * shares.get(label, 1.0) for label in STATUSES if counts.get(label)}
    odds = {
        label: weight / rest if (rest := sum(weights.values()) - weight) else inf for label, weight in weights.items()
    }
    labels: dict[str, tuple[float, float]] = {
        label: (min(1.0, 1 / value), -min(1.0, value)) for label, value in odds.items()
    }
    other = (0.0, min(loss for _, loss in labels.values()))
    return Stakes(other, other, labels)


class ClaimScore(NamedTuple):
    """Components and gates, each in [0, 1]; `statements` and `judgement` are negative where wrong ones prevail.

    cited: ids as submitted. counted: those that exist and were read. quotes: the valid ones.
    """

    components: Mapping[str, float]
    gates: Mapping[str, float]
    cited: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    quotes: tuple[QuoteMatch, ...] = ()


NO_SUBMISSION = ClaimScore(dict.fromkeys(COMPONENTS, 0.0), dict.fromkeys(GATES, 0.0))
"""The score of an episode without a submission."""


def score_submission(
    submission: Mapping[str, Any] | None,
    gold: ClaimGold,
    text_of: TextOf,
    read: Collection[str],
    rules: QuoteRules = DEFAULT_RULES,
    stakes: Stakes = GUESS,
) -> ClaimScore:
    """Score a verdict object that fits the published schema; None scores 0. read: ids opened in this episode."""
    if submission is None:
        return NO_SUBMISSION
    entries = read_entries(submission, text_of, frozenset(read), rules)
    claims, cited, counted = submission["claims"], tuple(entries.texts), tuple(entries.sources)
    quote, quoted = join_quotes(entries.claims, verbatim=True)
    invented = list(entries.texts.values()).count(None)
    span, is_marked = _span_f1(claims, gold)
    marked_texts = [text for claim in claims for text in (claim["claim"], claim.get("unsupported_span", ""))]
    is_ascii = gold.answer.isascii() and "".join(marked_texts).isascii()
    is_correct = submission["final_verdict"] == gold.verdict
    by_statement = _score_statements(submission, entries, gold, rules, stakes)
    components = {
        "json": 1.0,
        "verdict": float(is_correct),
        "evidence": evidence_f1(counted, invented, gold, rules),
        "quote": quote,
        "coverage": coverage(quoted, entries.sources, gold, rules),
        "span": span,
        "marked": span if is_ascii else _span_f1(claims, gold, plain_marks)[0],
        "guard": float(is_correct or submission["final_verdict"] != "supported"),
        **by_statement,
    }
    # W_E (section Evidence Guardrails): cited ids exist, quotes occur in them, a span is marked where needed, no false support.
    exists = len(counted) / (len(counted) + invented) if counted else 0.0
    span_check = float(is_marked or not gold.marked)
    weight = (exists + quote + span_check + components["guard"]) / 4 if counted else 0.0
    validity = components["evidence"] * quote * components["coverage"]
    gates = {"evidence_weight": weight, "validity": validity, "grounding": by_statement["grounding"]}
    matches: dict[tuple[str, str], QuoteMatch] = {}
    for entry in entries.claims:
        for key, match in entry.quotes:
            if match is not None:
                matches.setdefault((key, match.passage), match)
    return ClaimScore(components, gates, cited, counted, tuple(matches.values()))


def _score_statements(
    submission: Mapping[str, Any], entries: Entries, gold: ClaimGold, rules: QuoteRules, stakes: Stakes
) -> dict[str, float]:
    """Return grounding, statements, judgement and reason (G, A, D, R)."""
    groups, unmatched = _match_statements(entries.claims, gold.statements)
    grounding = statuses = reasons = 0.0
    for statement, group in zip(gold.statements, groups, strict=True):
        cited = {id_ for entry in group for id_ in entry.cited}
        counted = entries.sources.keys() & cited
        # Ids that were listed but not opened show nothing: with those that do not exist they lower precision.
        share = evidence_f1(counted, len(cited) - len(counted), statement, rules)
        if share:
            quote, quoted = join_quotes(group, verbatim=False)
            share = share * quote * coverage(quoted, entries.sources, statement, rules)
        share *= rules.silence_share if statement.nearest else 1.0
        given = {entry.claim["status"] for entry in group}
        is_right = given == {statement.verdict}
        grounding += share
        # Gain and loss have the same factor: without evidence a status is worth 0 either way, and a guess among four
        # earns 1/4 - 3/4 * 1/3 = 0 times it. Of several statuses the dearest counts.
        factors = [stakes.labels.get(status, stakes.status) for status in given] or [stakes.status]
        statuses += share * (factors[0][0] if is_right else min([loss for _, loss in factors]))
        if is_right and share:
            reasons += _reasons_hold(group, [statement.answer, *(entries.sources[id_].text for id_ in counted)])
    total = len(gold.statements) + unmatched
    stated = final_verdict([entry.claim["status"] for entry in entries.claims])
    is_right = submission["final_verdict"] == gold.verdict == stated
    gain, loss = stakes.labels.get(submission["final_verdict"], stakes.verdict)
    return {
        "grounding": grounding / total,
        "statements": statuses / total,
        "judgement": grounding / total * (gain if is_right else loss),
        "reason": reasons / total,
    }


def _match_statements(entries: Sequence[Entry], statements: Sequence[ClaimGold]) -> tuple[list[list[Entry]], int]:
    """Return the entries of each statement, and the number of distinct texts that belong to none.

    An entry goes to the statement with which it shares most words (F1), if that has half of its words; together a
    statement's entries have to reach an F1 of a half. So a sentence may be split and repeated, but not merged with
    another or replaced.
    """
    # Many to one, so no bipartite matching: several entries may split or repeat one statement. The share of an entry's
    # own words admits a part of a sentence; the F1 of the union (the highest count of each word, so that repetition adds
    # nothing) then refuses parts that together leave half of it out.
    words = [_word_bag(statement.answer) for statement in statements]
    joined: list[frozenset[tuple[str, int]]] = [frozenset()] * len(statements)
    groups: list[list[Entry]] = [[] for _ in statements]
    unmatched: set[str] = set()
    for entry in entries:
        own = _word_bag(entry.claim["claim"])
        if own in words:
            best = words.index(own)
        else:
            overlaps = [_word_f1(own, expected) for expected in words]
            best = overlaps.index(max(overlaps))
        if own and (own is words[best] or len(own & words[best]) >= _SAME_STATEMENT * len(own)):
            groups[best].append(entry)
            joined[best] = joined[best] | own if joined[best] else own
        else:
            unmatched.add(fold(entry.claim["claim"]))
    for number, group in enumerate(groups):
        if _word_f1(joined[number], words[number]) < _SAME_STATEMENT:
            unmatched |= {fold(entry.claim["claim"]) for entry in group}
            groups[number] = []
    return groups, len(unmatched)


@lru_cache(maxsize=2048)  # the statements of a task are those of all of its episodes, and entries mostly repeat them
def _word_bag(text: str) -> frozenset[tuple[str, int]]:
    """Return the multiset of a text's terms as a set: the nth occurrence of a term is the pair of both."""
    counts: Counter[str] = Counter()
    bag = set()
    for term in terms(text):
        counts[term] += 1
        bag.add((term, counts[term]))
    return frozenset(bag)


def _word_f1(first: frozenset[tuple[str, int]], second: frozenset[tuple[str, int]]) -> float:
    shared = len(first) if first is second else len(first & second)
    return 2 * shared / (len(first) + len(second)) if shared else 0.0


def _reasons_hold(group: Sequence[Entry], texts: Sequence[str]) -> bool:
    """Whether each entry has a reason whose quotations, numbers and names occur in a text, ignoring case.

    Numbers and dates are compared as values, names by their stems.
    """
    values, stems = set[str](), set[str]()
    for text in texts:
        values |= _reason_terms(text)[0]
        stems |= _reason_terms(text)[1]
    for entry in group:
        reason = entry.claim.get("reason", "")
        if not reason.strip():
            return False
        for match in _QUOTED_WORDS.finditer(plain_marks(reason)):
            for part in _OMISSION.split(match[1] or match[2]):
                words = _fold_case(part).strip(" .,;:!?")
                if not any(words in _fold_case(text) for text in texts):
                    return False
        stated = _ABBREVIATION.sub(
            lambda match: match[0].replace(".", ""), _COUNTED_PARTS.sub(" ", _fold_marks(reason))
        )
        numbers = {term for term in value_terms(stated) if term[0].isdigit()}
        ids = frozenset(map(str.lower, entry.cited))
        if numbers - values or not all(stem in stems or stem in ids for stem in _names(fold_values(stated))):
            return False
    return True


@lru_cache(maxsize=2048)
def _reason_terms(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the numbers and dates of a text as values, and the stems of its words."""
    text = _ABBREVIATION.sub(lambda match: match[0].replace(".", ""), _fold_marks(text))
    words = {*terms(text), *value_terms(text)}
    return frozenset(word for word in words if word[0].isdigit()), frozenset(map(porter_stem, words)) | words


def _names(text: str) -> Iterator[str]:
    """Yield the stems of the names in a text: words with a capital inside a sentence, and words that English lacks."""
    for match in _WORD.finditer(text):
        word = match["word"].partition("'")[0]
        lowered = word.lower()
        is_word = lowered in STOP_WORDS or lowered in LEXICON or lowered in _FUNCTION_WORDS or _is_formed(word)
        is_capital = word[0].isupper() and match["start"] is None and not (word.isupper() and len(word) > 1)
        if len(word) > 1 and (is_capital or not is_word) and lowered.removesuffix("s") not in _REASON_WORDS:
            yield porter_stem(lowered)


def _is_formed(word: str) -> bool:
    """Return whether a word is English, or made of two English words or a prefix and one: "telework", "onboarding".

    With a capital it has to be a word by itself: "Microsoft".
    """
    if word != word.lower():
        return is_english(word.lower())
    splits = ((word[:i], word[i:]) for i in range(2, min(len(word) - 2, _MAX_PREFIX_CHARS)))
    bases = (word.removesuffix(suffix) for suffix in ("", "ly", "er", "ers", "ness", "able"))
    return any(map(is_english, bases)) or any(
        (first in _PREFIXES or (len(first) > 2 and is_english(first))) and is_english(second)
        for first, second in splits
    )


def _fold_marks(text: str) -> str:
    return fold(plain_marks(text)).replace("\xad", "")


@lru_cache(maxsize=2048)
def _fold_case(text: str) -> str:
    return fold(plain_marks(text)).casefold()


def _span_f1(
    claims: Sequence[Mapping[str, Any]], gold: ClaimGold, written: Callable[[str], str] = str
) -> tuple[float, bool]:
    """S: F1 over characters of the answer between marked and gold spans, and whether any marked span is in the answer.

    A marked span that is not in the answer lowers precision by its whole length. written: applied to all texts before they
    are compared; it keeps their lengths.
    """
    ranges: list[Range] = []
    answer = written(gold.answer)
    invented = 0
    for claim in claims:
        span = written(claim.get("unsupported_span", "").strip())
        if not span:
            continue
        # Inside the claim's own text if it is there, else the first occurrence in the answer.
        claim_range = find_quote(written(claim["claim"]), answer)
        located = find_quote(span, answer, *claim_range) if claim_range else None
        located = located or find_quote(span, answer)
        if located is None:
            invented += len(span)
        else:
            ranges.append(located)
    marked = merge_ranges(ranges)
    length = sum([end - start for start, end in marked]) + invented
    if not gold.marked:
        return float(length == 0), bool(marked)
    # F1 in Dice's form, 2 |A & B| / (|A| + |B|), which is defined where precision or recall is not.
    shared = sum([overlap(marked, span) for span in gold.marked])
    return 2 * shared / (length + gold.marked_chars), bool(marked)


def span_credits(
    shares: Mapping[str, float],
    score: ClaimScore,
    gold: ClaimGold,
    opened: Mapping[str, int],
    messages: Sequence[Message],
    submission: int,
) -> tuple[SpanCredit, ...]:
    """Credit the shares of the total to the policy's messages; the credits sum to the total.

    Evidence goes to the messages that opened correct passages, quote and coverage to the quotes, grounding to
    both, the rest to the whole submission. shares: component -> its part of the total. opened: passage id -> index of
    the message that opened it. submission: index of the submitting message.
    """
    text = message_text(messages[submission])
    spans: list[SpanCredit] = []
    # Invariant: what is taken out of `uncredited` is credited to a range at once, and the rest to the submission, so
    # that the credits sum to the total.
    uncredited = dict(shares)
    # Grounding is earned by reading and quoting alike.
    uncredited["read"] = uncredited["quoted"] = uncredited.pop("grounding", 0.0) / 2
    lengths = {message: len(message_text(messages[message])) for message in opened.values()}
    for name, correct in (("evidence", gold.evidence), ("read", gold.shown_by)):
        readers = [opened[id_] for id_ in score.counted if id_ in correct and id_ in opened]
        if readers and (share := uncredited.pop(name, 0.0)):
            each = share / len(readers)
            spans += [SpanCredit(message, 0, lengths[message], each) for message in readers]
    located = [(match.is_verbatim, in_json(match.quote, text)) for match in score.quotes]
    for names, verbatim in ((("quote", "coverage"), True), (("quoted",), False)):
        ranges = [span for is_verbatim, span in located if span and (is_verbatim or not verbatim)]
        if ranges and (share := sum([uncredited.pop(name, 0.0) for name in names])):
            each = share / len(ranges)
            spans += [SpanCredit(submission, start, end, each) for start, end in ranges]
    if rest := sum(uncredited.values()):
        spans.append(SpanCredit(submission, 0, len(text), rest))
    return tuple(spans)
