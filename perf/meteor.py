"""METEOR a second on one core, ours beside NLTK's, in the same run and on the same pairs.

Two jobs: pairs that are cut into words already, and whole sets of five questions against five, from the texts to the
score of the best assignment. Cold is with every stem, synonym and text forgotten before each repeat, ours as NLTK's
synsets; the WordNet tables are loaded on both sides. NLTK splits each text as one sentence, since its model of
sentences needs a download. The time is processor time of this thread; repeats are interleaved. NLTK needs its WordNet
files on NLTK_DATA; without them, or without NLTK, the report says so and has our rows alone.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from factgym.benchmarks.profact.predictions import read_predictions
from factgym.datasets.averitec import evidence_strings, read_fact_checks
from factgym.rewards.profact.matching import best_matching, match_texts
from factgym.rewards.profact.meteor import clear_caches, meteor_of, prepare_tokens
from factgym.rewards.profact.tokens import treebank_tokens

_PAIRS, _SETS, _SET_SIZE = 500, 20, 5
_QUESTIONS = (
    "When did {who} announce the {thing} in {place}?",
    "How many {people} were {done} by the {thing} that {who} declared in {year}?",
    "Did {who} say that the {thing} had {done} {number} {people}?",
    "What did the {office} report about {people} in {place} during {year}?",
    "Is there evidence that {who}'s {thing} was {done} by the {office}?",
    "Where was the claim about {number} {people} in {place} first published?",
)
_ANSWERS = (
    "The {office} reported that {number} {people} were {done} in {place}, according to figures released in {year}.",
    "No. {who} told journalists that the {thing} never {done} any {people}; the {office} confirmed this.",
    "Records show the {thing} began in {year}, and it doesn't mention {place} or its {people}.",
)
_WORDS = {
    "who": ("the president", "the health minister", "the mayor", "a company spokesman", "the opposition leader"),
    "thing": ("tax reform", "vaccination programme", "travel ban", "lockdown", "election audit", "subsidy"),
    "place": ("Nigeria", "the United States", "Wisconsin", "India", "Brazil", "the capital"),
    "people": ("workers", "voters", "children", "patients", "immigrants", "students", "physicians"),
    "done": ("affected", "registered", "helped", "killed", "infected", "counted", "arrested"),
    "office": ("ministry", "statistics office", "health agency", "electoral commission", "fact-checking site"),
    "year": ("2016", "2018", "2019", "2020"),
    "number": ("1,200", "about 40", "three million", "5.4 percent of all", "several hundred"),
}


def measure_meteor(repeats: int, pairs: Sequence[tuple[str, str]] | None = None) -> list[str]:
    """Lines of a report: microseconds a pair and a set, median and range over the repeats, and the ratio to NLTK.

    pairs: (prediction, gold) texts to measure on; by default generated questions with answers, the same every time.
    """
    texts = list(pairs or make_pairs(_PAIRS))
    if len(texts) < _SET_SIZE:
        texts *= _SET_SIZE
    tokens = [(treebank_tokens(left), treebank_tokens(right)) for left, right in texts]
    sets = _sets(texts)
    jobs = {
        "pairs": (_ours_pairs(tokens), _nltk_pairs(tokens), len(tokens)),
        "sets": (_ours_sets(sets), _nltk_sets(sets), len(sets)),
    }
    length = statistics.mean(len(side) for pair in tokens for side in pair)
    lines = [
        f"METEOR, one core: {len(tokens):,} pairs of {length:.0f} words on average; {len(sets)} sets of "
        f"{_SET_SIZE} against {_SET_SIZE} with their assignment; {max(1, repeats)} repeats, median [min – max] µs each"
    ]
    peer = _peer_is_ready()
    for name, (ours, theirs, count) in jobs.items():
        lines += _job(name, ours, theirs if peer else None, count, max(1, repeats))
    return lines if peer else [*lines, "  NLTK: not measured; it needs pip install nltk, and WordNet on NLTK_DATA"]


def make_pairs(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """`n` (prediction, gold) texts, each a question and an answer; the same for the same arguments."""
    rng = random.Random(seed)
    return [(_text(rng), _text(rng)) for _ in range(n)]


def averitec_pairs(path: str | Path, predictions: str | Path | None = None, n: int = _PAIRS) -> list[tuple[str, str]]:
    """At most `n` (prediction, gold) texts of AVeriTeC: a claim's first gold text against a prediction for it.

    predictions: a file of them; without one, each claim's first gold text against its last. Raises ConfigError and
    DataError as the readers do.
    """
    checks = read_fact_checks(path)
    golds = {check.claim_id: evidence_strings(check) for check in checks if check.questions}
    if predictions is None:
        return [(texts[0], texts[-1]) for texts in golds.values() if len(texts) > 1][:n]
    found = {one.claim_id: one.pairs for one in read_predictions(predictions)}
    return [(found[claim][0], texts[0]) for claim, texts in golds.items() if found.get(claim)][:n]


def _text(rng: random.Random) -> str:
    words = {slot: rng.choice(choices) for slot, choices in _WORDS.items()}
    return f"{rng.choice(_QUESTIONS)} {rng.choice(_ANSWERS)}".format(**words)


def _sets(texts: Sequence[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
    starts = range(0, min(len(texts) - _SET_SIZE + 1, _SETS * _SET_SIZE), _SET_SIZE)
    chunks = [texts[start : start + _SET_SIZE] for start in starts]
    return [([left for left, _ in chunk], [right for _, right in chunk]) for chunk in chunks]


def _ours_pairs(tokens: Sequence[tuple[list[str], list[str]]]) -> Callable[[], object]:
    return lambda: [meteor_of(prepare_tokens(left), prepare_tokens(right)) for left, right in tokens]


def _nltk_pairs(tokens: Sequence[tuple[list[str], list[str]]]) -> Callable[[], object]:
    return lambda: [_nltk_meteor(left, right) for left, right in tokens]


def _ours_sets(sets: Sequence[tuple[list[str], list[str]]]) -> Callable[[], object]:
    return lambda: [match_texts(left, right, tokenize=treebank_tokens) for left, right in sets]


def _nltk_sets(sets: Sequence[tuple[list[str], list[str]]]) -> Callable[[], object]:
    def score(left: Sequence[str], right: Sequence[str]) -> object:
        rows = [[_nltk_meteor(_nltk_words(one), _nltk_words(other)) for other in right] for one in left]
        return best_matching(np.array(rows))

    return lambda: [score(left, right) for left, right in sets]


def _nltk_meteor(hypothesis: list[str], reference: list[str]) -> Any:
    return import_module("nltk.translate.meteor_score").single_meteor_score(reference, hypothesis)


def _nltk_words(text: str) -> Any:
    return import_module("nltk.tokenize").word_tokenize(text, preserve_line=True)


def _peer_is_ready() -> bool:
    try:
        _nltk_meteor(["dogs", "run"], ["hounds", "run"])
    except (ImportError, LookupError):
        return False
    return True


def _forget_synsets() -> None:
    """Empty what NLTK's reader of WordNet keeps of the synsets that it has read."""
    import_module("nltk.corpus").wordnet._synset_offset_cache.clear()


def _job(
    name: str, ours: Callable[[], object], theirs: Callable[[], object] | None, count: int, repeats: int
) -> list[str]:
    peers = ("NLTK, cold", "NLTK, warm") if theirs else ()
    found: dict[str, list[float]] = {row: [] for row in ("ours, cold", "ours, warm", *peers)}
    ours()
    for _ in range(repeats):
        clear_caches()
        found["ours, cold"].append(_micros(ours, count))
        found["ours, warm"].append(_micros(ours, count))
        if theirs:
            _forget_synsets()
            found["NLTK, cold"].append(_micros(theirs, count))
            found["NLTK, warm"].append(_micros(theirs, count))
    peer = {state: statistics.median(found[f"NLTK, {state}"]) for state in ("cold", "warm")} if theirs else {}
    return [_line(f"{name}, {row}", times, peer) for row, times in found.items()]


def _micros(work: Callable[[], object], count: int) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) / count * 1e6


def _line(name: str, times: Sequence[float], peer: Mapping[str, float]) -> str:
    """peer: NLTK's median, cold and warm; empty where it was not measured."""
    median = statistics.median(times)
    shown = f"  {name:20} {median:10,.1f}  [{min(times):,.1f} – {max(times):,.1f}]"
    if not peer or "NLTK" in name:
        return shown
    cold = "cold" in name
    same = f"{peer['cold' if cold else 'warm'] / median:.1f} × as many as NLTK"
    beside = f", {peer['warm'] / median:.1f} × as NLTK warm" if cold else ""
    return f"{shown}   {same}{beside}"
