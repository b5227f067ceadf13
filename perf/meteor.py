"""METEOR per second on one core, ours beside NLTK's, in the same run and on the same pairs.

Two jobs: pairs that are tokenized already, and whole sets of five questions against five, from the texts to the score of
the best assignment. Cold: every stem, synonym and text is forgotten before each repeat, and NLTK's synsets; the WordNet
tables are loaded on both sides. NLTK treats each text as one sentence, since its sentence model needs a download. The
time is processor time of this thread; repeats are interleaved. NLTK needs its WordNet files on NLTK_DATA; without them,
or without NLTK, the report has our rows alone and says so.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from factgym.benchmarks.profact.report import read_predictions
from factgym.datasets.averitec import evidence_strings, read_fact_checks
from factgym.rewards.profact import meteor as own
from factgym.rewards.profact.meteor import best_matching, match_texts, meteor_prepared, prepare_tokens
from factgym.text.treebank import treebank_tokens

_PAIRS, _SETS, _SET_SIZE = 500, 20, 5

Job = Callable[[], object]

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


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf meteor", description="METEOR beside NLTK's.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--path", help="AVeriTeC's dev.json: measure on its texts")
    parser.add_argument("--predictions", help="predictions for it, to be compared with its texts")
    options = parser.parse_args(arguments)
    pairs = averitec_pairs(options.path, options.predictions) if options.path else None
    return measure_meteor(options.repeats, pairs)


def measure_meteor(repeats: int, pairs: Sequence[tuple[str, str]] | None = None) -> list[str]:
    """Return the lines of a report: microseconds per pair and per set, median and range over the repeats.

    pairs: (prediction, gold) texts to measure on; by default generated questions with answers, the same every time.
    """
    repeats = max(1, repeats)
    texts = list(pairs or make_pairs(_PAIRS))
    if len(texts) < _SET_SIZE:
        texts *= _SET_SIZE
    tokens = [(treebank_tokens(prediction), treebank_tokens(gold)) for prediction, gold in texts]
    starts = range(0, min(len(texts) - _SET_SIZE + 1, _SETS * _SET_SIZE), _SET_SIZE)
    sets = [list(zip(*texts[start : start + _SET_SIZE], strict=True)) for start in starts]
    length = statistics.mean(len(side) for pair in tokens for side in pair)
    lines = [
        f"METEOR, one core: {len(tokens):,} pairs of {length:.0f} words on average; {len(sets)} sets of "
        f"{_SET_SIZE} against {_SET_SIZE} with their assignment; {repeats} repeats, median [min – max] µs each"
    ]
    jobs: dict[str, tuple[Job, Job, int]] = {
        "pairs": (
            lambda: [meteor_prepared(prepare_tokens(text), prepare_tokens(gold)) for text, gold in tokens],
            lambda: [_nltk_meteor(text, gold) for text, gold in tokens],
            len(tokens),
        ),
        "sets": (
            lambda: [match_texts(texts, golds, tokenize=treebank_tokens) for texts, golds in sets],
            lambda: [_nltk_set(texts, golds) for texts, golds in sets],
            len(sets),
        ),
    }
    has_peer = _nltk_is_ready()
    for name, (own_job, peer_job, count) in jobs.items():
        lines += _measure_job(name, own_job, peer_job if has_peer else None, count, repeats)
    return lines if has_peer else [*lines, "  NLTK: not measured; it needs pip install nltk, and WordNet on NLTK_DATA"]


def make_pairs(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return `n` (prediction, gold) texts, each a question and an answer; the same for the same arguments."""
    rng = random.Random(seed)
    return [(_text(rng), _text(rng)) for _ in range(n)]


def averitec_pairs(path: str | Path, predictions: str | Path | None = None, n: int = _PAIRS) -> list[tuple[str, str]]:
    """Return at most `n` (prediction, gold) texts of AVeriTeC: a claim's first gold text against a prediction for it.

    predictions: a file of them; without one, each claim's first gold text against its last. Raises ConfigError and
    DataError as the readers do.
    """
    checks = read_fact_checks(path)
    golds = {check.claim_id: evidence_strings(check) for check in checks if check.questions}
    if predictions is None:
        return [(texts[0], texts[-1]) for texts in golds.values() if len(texts) > 1][:n]
    predicted = {prediction.claim_id: prediction.pairs for prediction in read_predictions(predictions)}
    return [(predicted[claim][0], texts[0]) for claim, texts in golds.items() if predicted.get(claim)][:n]


def _text(rng: random.Random) -> str:
    words = {slot: rng.choice(choices) for slot, choices in _WORDS.items()}
    return f"{rng.choice(_QUESTIONS)} {rng.choice(_ANSWERS)}".format(**words)


def _nltk_meteor(hypothesis: list[str], reference: list[str]) -> Any:
    return import_module("nltk.translate.meteor_score").single_meteor_score(reference, hypothesis)


def _nltk_set(predictions: Sequence[str], golds: Sequence[str]) -> object:
    words = import_module("nltk.tokenize").word_tokenize
    rows = [
        [_nltk_meteor(words(prediction, preserve_line=True), words(gold, preserve_line=True)) for gold in golds]
        for prediction in predictions
    ]
    return best_matching(np.array(rows))


def _nltk_is_ready() -> bool:
    try:
        _nltk_meteor(["dogs", "run"], ["hounds", "run"])
    except (ImportError, LookupError):
        return False
    return True


def _measure_job(name: str, own_job: Job, peer_job: Job | None, count: int, repeats: int) -> list[str]:
    times: dict[str, list[float]] = {}

    def measure(row: str, job: Job) -> None:
        start = time.thread_time()
        job()
        times.setdefault(row, []).append((time.thread_time() - start) / count * 1e6)

    own_job()
    for _ in range(repeats):
        own._prepare_cached.cache_clear()
        own._STEMS.clear()
        own._SYNONYMS.clear()
        measure("ours, cold", own_job)
        measure("ours, warm", own_job)
        if peer_job:
            # The synsets that NLTK's reader of WordNet has read.
            import_module("nltk.corpus").wordnet._synset_offset_cache.clear()
            measure("NLTK, cold", peer_job)
            measure("NLTK, warm", peer_job)
    medians = {row: statistics.median(values) for row, values in times.items()}
    lines = []
    for row, values in sorted(times.items(), key=lambda item: item[0].startswith("NLTK")):
        line = f"  {f'{name}, {row}':20} {medians[row]:10,.1f}  [{min(values):,.1f} – {max(values):,.1f}]"
        if peer_job and row.startswith("ours"):
            line += f"   {medians[row.replace('ours', 'NLTK')] / medians[row]:.1f} × as many as NLTK"
        if peer_job and row == "ours, cold":
            line += f", {medians['NLTK, warm'] / medians[row]:.1f} × as NLTK warm"
        lines.append(line)
    return lines
