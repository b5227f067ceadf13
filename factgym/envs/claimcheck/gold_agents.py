"""Agents of ClaimCheck that know the gold: the oracle, an upper bound, and the teacher, whose episodes are worth imitating.

The oracle opens gold passages by ids that nothing has shown. The teacher finds them first: it opens ids of search results
or of the list, searches with words in sight, and judges a statement by the gold only if the gold evidence has come into
sight; else it judges like the honest baseline, by the passages that it opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from factgym.baselines.evidence import build_evidence, names_in_question, parse_statement
from factgym.baselines.nli import predict_entailment
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import GoldClaim, GoldFact, final_verdict
from factgym.envs.claimcheck.scripted import (
    LIST_CALL,
    MAX_CALLS,
    MAX_RESULTS,
    EpisodeBrief,
    ToolLoop,
    Verdict,
    claim_entry,
    make_verdict,
    parse_evidence,
    parse_results,
    prediction_entry,
    read_call,
    search_call,
    second_queries,
)
from factgym.envs.claimcheck.tasks import ClaimTask
from factgym.rewards.claimcheck.evidence import QuoteRules
from factgym.rewards.claimcheck.gold import ClaimGold
from factgym.text.sentences import passage_ranges

if TYPE_CHECKING:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

MAX_QUOTES = 8
"""Limit of the published schema on the quotes of an entry."""


def play_oracle(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    """Read and cite the gold evidence by its ids, whether or not a tool has shown them."""
    task, rules = env.task, env.config.scoring_rules
    example = task.example
    # The paper's rewards score the answer as a whole: a passage that shows the silence of one statement counts against the
    # evidence of another, and of an answer without evidence the sentences nearest to all of it show the silence.
    by_statement = "statements" in env.config.rubric.weights
    shows_silence = by_statement or not example.gold_ids
    golds = task.gold.statements if by_statement else [task.gold] * len(example.claims)
    evidence = [
        _gold_evidence(task, claim, gold, rules) if claim.facts or shows_silence else ([], ())
        for claim, gold in zip(example.claims, golds, strict=True)
    ]
    if not brief.is_offline and brief.turns > 1:  # one passage a turn if possible
        ids = list(dict.fromkeys(id_ for cited, _ in evidence for id_ in cited))
        if brief.turns > 2:
            yield [search_call(example.claims[0].text)]
        per_turn = max(1, min(MAX_CALLS, -(-len(ids) // max(1, brief.turns - 2))))
        for start in range(0, len(ids), per_turn):
            yield [read_call(id_) for id_ in ids[start : start + per_turn]]
    entries = [
        entry
        for claim, (ids, facts) in zip(example.claims, evidence, strict=True)
        for entry in _gold_entries(claim, ids, facts, task, rules)
    ]
    return make_verdict(example.verdict, entries)


def _gold_evidence(
    task: ClaimTask, claim: GoldClaim, gold: ClaimGold, rules: QuoteRules
) -> tuple[list[str], Sequence[GoldFact]]:
    """Return the ids to cite and the facts to quote; of a silence without facts, the nearest passages and sentence."""
    if claim.facts or not gold.nearest_sentences:
        return list(dict.fromkeys(fact.passage for fact in claim.facts)), claim.facts
    nearest = task.example.nearest or [fact.passage for fact in gold.nearest_sentences]
    ids = list(dict.fromkeys(nearest))[: rules.silence_passages]
    return ids, [fact for fact in gold.nearest_sentences if fact.passage == ids[0]][:1]


def _gold_entries(
    claim: GoldClaim, ids: Sequence[str], facts: Sequence[GoldFact], task: ClaimTask, rules: QuoteRules
) -> Iterator[dict[str, Any]]:
    """Yield one entry, or several with the same statement if it takes more quotes than an entry holds."""
    quotes = list(
        dict.fromkeys(
            quote
            for fact in facts
            for quote in quote_range(task.text_of(fact.passage) or "", fact.start, fact.end, rules)
        )
    )
    for start in range(0, len(quotes), MAX_QUOTES) or (0,):
        batch = quotes[start : start + MAX_QUOTES]
        field: str | list[str] = batch if len(batch) > 1 else "".join(batch)
        reason = claim.reason or f"By the cited text this is {claim.status}."
        yield claim_entry(claim.text, claim.status, ids, field, claim.unsupported_span, reason)


def quote_range(text: str, start: int, end: int, rules: QuoteRules) -> Iterator[str]:
    """Yield a range of a passage as quotes of at most as many sentences as a quote may span.

    A quote that is too short ("4.3") is extended by the words before it, or after it at the start of the text.
    """
    # The sentences inside the range, in batches of the largest number; a batch too short for a quote is dropped.
    inside = [(max(a, start), min(b, end)) for a, b in passage_ranges(text) if a < end and start < b]
    step, min_chars = rules.max_quote_sentences, rules.min_quote_chars
    ranges = [(start, end)]
    if len(inside) > step:
        batches = [inside[first : first + step] for first in range(0, len(inside), step)]
        joined = [(batch[0][0], batch[-1][1]) for batch in batches]
        ranges = [(first, last) for first, last in joined if last - first >= min_chars]
    for first, last in ranges:
        if len(text[first:last].strip()) < min_chars:
            if first >= 2 * min_chars:
                first = text.rfind(" ", 0, first - min_chars) + 1
            else:
                after = text.find(" ", last + 2 * min_chars)
                last = after if after > 0 else len(text)
        yield text[first:last]


def play_teacher(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    """Find the gold evidence, and judge by it what came into sight."""
    opened = list(brief.passages)
    if not brief.is_offline and brief.turns >= 3:
        needed = dict.fromkeys(id_ for _, cited, _ in _evidence_of(env) for id_ in cited)
        opened = yield from _find(brief, [claim.text for claim in env.task.example.claims], list(needed))
    entries = _judge_by_gold(brief, env, opened)
    return make_verdict(final_verdict(entry["status"] for entry in entries), entries)


def play_mini_teacher(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    """Search for the subject, read its passage, and submit without fields that may be left out.

    A status comes after its quote, so that a model which imitates the episodes writes both sentences before it has to
    compare them.
    """
    opened: list[Passage] = []
    if brief.turns >= 3:
        names = names_in_question(brief.question)
        hits = parse_results((yield [search_call(" ".join(names), 1)]))
        opened = parse_evidence((yield [read_call(hit.id) for hit in hits])) if hits else []
    entries = _judge_by_gold(brief, env, opened)
    verdict = make_verdict(final_verdict(entry["status"] for entry in entries), entries)
    claims = [{key: entry[key] for key in _KEYS if entry[key] or key in _REQUIRED} for entry in entries]
    return {"claims": claims, "final_verdict": verdict["final_verdict"]}


_REQUIRED = ("claim", "evidence_ids", "quote", "status")
_KEYS = (*_REQUIRED, "unsupported_span", "reason")


def _evidence_of(env: ClaimCheckEnv) -> list[tuple[GoldClaim, list[str], Sequence[GoldFact]]]:
    """Return each claim with the ids to cite and the facts to quote."""
    task, rules = env.task, env.config.scoring_rules
    return [
        (claim, *_gold_evidence(task, claim, statement, rules))
        for claim, statement in zip(task.example.claims, task.gold.statements, strict=True)
    ]


def _judge_by_gold(brief: EpisodeBrief, env: ClaimCheckEnv, opened: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return the gold entries of the statements whose evidence is open, of the others those of the honest baseline."""
    task, rules = env.task, env.config.scoring_rules
    texts = {passage.id: passage.text for passage in opened}
    seen = build_evidence(opened)
    entries: list[dict[str, Any]] = []
    for claim, ids, facts in _evidence_of(env):
        by_gold = list(_gold_entries(claim, ids, facts, task, rules))
        quotes = [quote for entry in by_gold for quote in _quotes_of(entry)]
        if facts and all(any(quote in texts.get(id_, "") for id_ in ids) for quote in quotes):
            entries += by_gold
        else:
            statement = parse_statement(claim.text)
            ranked = replace(seen, ranked_ids=tuple(texts), silence_passages=rules.silence_passages)
            entries.append(prediction_entry(predict_entailment(statement, ranked)))
    return entries


def _quotes_of(entry: dict[str, Any]) -> list[str]:
    return [entry["quote"]] if isinstance(entry["quote"], str) else entry["quote"]


def _find(brief: EpisodeBrief, statements: Sequence[str], needed: Sequence[str]) -> ToolLoop[list[Passage]]:
    """Search in two hops, then list; open the needed passages that are shown, or the first hits where none is."""
    opened: list[Passage] = []
    names = " ".join(names_in_question(brief.question))
    turns = brief.turns - 1
    for hop in range(3):
        missing = [id_ for id_ in needed if id_ not in {passage.id for passage in opened}]
        if not missing or turns < 2:
            break
        queries = statements if hop == 0 else second_queries(brief.question, statements, opened)
        calls = [search_call(f"{query} {names}", MAX_RESULTS) for query in queries]
        hits = parse_results((yield calls if hop < 2 else [LIST_CALL]))
        ids = [id_ for id_ in missing if id_ in {hit.id for hit in hits}]
        if not ids and not opened:
            ids = [hit.id for hit in hits[:1]]
        turns -= 1
        for start in range(0, len(ids), MAX_CALLS)[:turns]:
            opened += parse_evidence((yield [read_call(id_) for id_ in ids[start : start + MAX_CALLS]]))
            turns -= 1
    return opened
