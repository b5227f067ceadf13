"""The default agent of `factgym check`: a scripted policy of ClaimCheck's, which supports only what it can prove.

It is no agent of the environments: there `nli` is the honest baseline, against which their rewards are searched. Contracts
are read by the rules (`baselines.rules`): their sentences are too long for a proof by clauses, and of ContractNLI's claims
the rules judge seven in ten rightly. A text in another language than English is compared letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import combinations, product
from math import isclose

from factgym.agents.resolve import scripted_agents
from factgym.baselines.evidence import Evidence, Sentence, Statement, parse_statement
from factgym.baselines.nli import Prediction, without_evidence
from factgym.baselines.rules import rules, without_pointers
from factgym.check.alignment import matches
from factgym.check.clauses import is_too_long
from factgym.check.proof import nearest, prove
from factgym.check.words import FUNCTION, TABLES, Word, word_set, words_of
from factgym.core.policy import ScriptedAgent
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import final_verdict
from factgym.envs.claimcheck.scripted import (
    EpisodeBrief,
    ScriptedPolicy,
    ToolLoop,
    Verdict,
    collect_evidence,
    make_verdict,
    prediction_entry,
    split_statements,
)
from factgym.envs.claimcheck.strategies import Draft
from factgym.text.folding import INVISIBLE, visible
from factgym.text.languages import atoms, language_of
from factgym.text.sentences import passage_ranges, strip_full_stop
from factgym.text.wordnet import is_english

ENV = "claimcheck"
"""The environment whose episodes check claims."""

CANNOT_JUDGE = "Cannot judge: "
"""Beginning of the reason of a verdict that is none."""

_LEGAL = re.compile(
    r"\b(?:shall|part(?:y|ies)|agreement|here(?:of|in|under|by)|there(?:of|in)|disclos\w+|receiving|recipient|confidential\w*|pursuant|"
    r"licens(?:or|ee)|indemnif\w+)\b",
    re.I,
)
_MIN_LEGAL = 0.02
"""Share of the words of a text from which on it is a contract."""
_MIN_ENGLISH, _SURELY_ENGLISH = 0.6, 0.8
"""Shares of English words below which a text without frequent words of another language is in none that is read, and from
which on one with them is English all the same."""
_MIN_ALIKE = 0.6
"""Likeness of a sentence in another language from which on its differences count."""
_COMPUTES = re.compile(
    r"\b(?:in total|altogether|combined|sum|difference|twice|double|triple|half(?! past)|times (?:as|more|larger)|average|older than|younger than|"
    r"(?:per ?cent|%) (?:more|less|higher|lower)|(?<!the )(?<!for a )(?<!within a )years? (?:before|after|later|earlier)|each more than|together|overall|"
    r"an? (?:year|month|week) of)\b",
    re.I,
)
_OPINIONS, _OPINION = word_set("opinion"), re.compile(TABLES["opinions"], re.I)
_MAX_TERMS = 12
"""Amounts of the nearest sentences that are tried as terms of a sum."""


def play(brief: EpisodeBrief, judge: Callable[..., Prediction] | None = None) -> ToolLoop[Verdict]:
    """Search and read as the scripted verifiers do, and judge each statement, by the proof unless told otherwise."""
    draft = Draft.of(brief, (yield from collect_evidence(brief)), seed=0)
    entries = []
    for text in split_statements(brief.answer):
        statement = parse_statement(text)
        ranked = replace(draft.evidence, ranked_ids=tuple(draft.collected.ranked_ids.get(text, ())))
        entries.append(prediction_entry((judge or judge_statement)(statement, ranked, draft.collected.passages)))
    return make_verdict(final_verdict(entry["status"] for entry in entries), entries)


def judge_statement(statement: Statement, evidence: Evidence, passages: Sequence[Passage]) -> Prediction:
    """Return the verdict on a statement by the passages that were read. A reason that begins with CANNOT_JUDGE abstains."""
    language = language_of(statement.text)
    share = _english_share(statement.text)
    if language == "en" and share < _MIN_ENGLISH:
        language = "unknown"
    elif len(language) == 2 and share >= _SURELY_ENGLISH:
        language = "en"  # "Members pay 120 euros per year." has no frequent word but one of Italian
    if language != "en":
        return _by_letters(statement, passages, language)
    if not evidence.sentences:
        return without_evidence(statement)
    if is_too_long(statement.text):
        return _abstain(without_evidence(statement), "it is too long to be read as one sentence.")
    if is_contract(evidence):
        ruled = rules(statement, evidence)
        refuted = prove(statement, replace(evidence, sentences=ruled.sentences))
        prediction = refuted if (ruled.status, refuted.status) == ("supported", "contradicted") else ruled
    else:
        prediction = prove(statement, without_pointers(statement, evidence))
    if prediction.status != "unsupported":
        return prediction
    if (needed := _needs_more(statement, evidence)) is not None:
        return _abstain(replace(prediction, sentences=needed[1] or prediction.sentences), needed[0])
    others = [language_of(sentence.text) for sentence in evidence.sentences[:50]]
    if sum(other != "en" for other in others) > len(others) / 2:
        return _abstain(prediction, "the documents are in a language that is not read.")
    return prediction


def _needs_more(statement: Statement, evidence: Evidence) -> tuple[str, tuple[Sentence, ...]] | None:
    """Return what more than a sentence it takes to judge a statement, with the sentences that show it, if it can be told."""
    facts = [word for word in words_of(statement.text) if word.is_fact]
    if any(word.value for word in facts) and _COMPUTES.search(statement.text):
        return "it has to be computed.", ()
    near_by = [evidence.sentences[number] for number in nearest(statement, evidence)]
    written = [[word for word in words_of(sentence.text) if word.is_fact] for sentence in near_by]
    covers = [{n for n, fact in enumerate(facts) if any(matches(fact, word) for word in words)} for words in written]
    missing = [fact for n, fact in enumerate(facts) if not any(n in cover for cover in covers)]
    if _OPINION.search(statement.text) or any(fact.kind == "word" and fact.lower in _OPINIONS for fact in missing):
        return "it is an opinion.", ()
    related = zip(near_by, written, covers, strict=True)
    amounts = [(s, word) for s, words, cover in related for word in words if cover and word.kind == "amount"]
    sought = [fact for fact in missing if fact.kind == "amount"]
    for fact, ((first, term), (second, other)) in product(sought, combinations(amounts[:_MAX_TERMS], 2)):
        if _is_computed(fact, term, other):
            return "it may have to be computed.", tuple(dict.fromkeys((first, second)))
    for (sentence, cover), (another, further) in combinations(zip(near_by, covers, strict=True), 2):
        is_apart = sentence.passage.rpartition("#")[0] != another.passage.rpartition("#")[0]
        if is_apart and cover - further and further - cover and len(cover | further) == len(facts):
            return "it takes several documents at once.", (sentence, another)
    return None


def _is_computed(fact: Word, term: Word, other: Word) -> bool:
    """Whether an amount is the sum or difference of two of its dimension, or a multiple of one."""
    (dimension, amount), (first, size), (second, further) = fact.value, term.value, other.value
    if "" in (first, second) and isclose(amount, size * further):
        return bool(dimension == (first or second))
    return dimension == first == second and (isclose(amount, size + further) or isclose(amount, abs(size - further)))


def is_contract(evidence: Evidence) -> bool:
    """Whether the sentences are those of a contract: long, and full of its words."""
    if not evidence.is_dense:
        return False
    text = " ".join(sentence.text for sentence in evidence.sentences[:200])
    return len(_LEGAL.findall(text)) >= _MIN_LEGAL * len(text.split())


def _english_share(text: str) -> float:
    """Return which share of the words that are no names is English; 1 without any."""
    words = [word.lower for word in words_of(text) if word.kind in ("word", "function")]
    return sum(word in FUNCTION or is_english(word) for word in words) / len(words) if words else 1.0


def _abstain(prediction: Prediction, reason: str) -> Prediction:
    return replace(prediction, status="unsupported", reason=f"{CANNOT_JUDGE}{reason}")


def _by_letters(statement: Statement, passages: Sequence[Passage], language: str) -> Prediction:
    """Compare a statement with every sentence, word by word: equal is supported, and nearly equal shows what differs."""
    claimed = [atom for atom, _, _ in atoms(INVISIBLE.sub("", statement.text))]
    spans = atoms(statement.text)
    best: tuple[float, Sentence | None, Sequence[tuple[str, int, int, int, int]]] = (0.0, None, ())
    for passage in passages:
        for start, end in passage_ranges(passage.text):
            text = passage.text[start:end]
            written = [atom for atom, _, _ in atoms(visible(text)[0])]
            matcher = SequenceMatcher(None, claimed, written, autojunk=False)
            if (ratio := matcher.ratio() if written else 0.0) > best[0]:
                best = ratio, Sentence(passage.id, passage.title, text, (), frozenset()), matcher.get_opcodes()
    ratio, sentence, edits = best
    if ratio == 1.0 and sentence is not None:
        return Prediction(statement, "supported", (sentence,), "", "The documents have the same words.")
    name = language if len(language) > 2 else f"“{language}”"
    nothing = Prediction(statement, "unsupported", (), strip_full_stop(statement.text), "")
    if sentence is None or ratio < _MIN_ALIKE:
        near = replace(nothing, sentences=(sentence,) if sentence is not None and ratio > 0.3 else ())
        return _abstain(near, f"its language ({name}) is not read, and no sentence has nearly its words.")
    changed = [(first, last) for tag, first, last, _, _ in edits if tag != "equal"]
    first, last = next(((a, b) for a, b in changed if b > a), (0, len(spans)))
    span = statement.text[spans[first][1] : spans[last - 1][2]] if spans else statement.text
    values = all(
        tag == "equal" or (tag == "replace" and all(atom[0].isdigit() for atom in claimed[a:b]))
        for tag, a, b, _, _ in edits
    )
    reason = "The documents have nearly these words, and others where they differ."
    return Prediction(statement, "contradicted" if values else "unsupported", (sentence,), span, reason)


RULES = ScriptedAgent(
    "rules",
    "baseline",
    "Supports what it can prove word by word: names, values, roles, denials, limits; contracts by rules.",
    lambda env, seed: ScriptedPolicy(env.config.max_turns, play),
)


def checking_scripts() -> Mapping[str, ScriptedAgent]:
    """Return the scripted agents by name, this one first."""
    return {RULES.name: RULES, **scripted_agents(ENV)}
