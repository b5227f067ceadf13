"""METEOR against NLTK: golden numbers that NLTK 3.10 gave, 5,000 real pairs side by side, properties, hostile texts."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profact_wordnet import wordnet_folder

from factgym.rewards.profact import (
    MeteorSettings,
    comparison_strings,
    meteor,
    meteor_matrix,
    meteor_of,
    prepare,
    prepare_tokens,
    treebank_tokens,
    word_tokens,
)
from perf.meteor import measure_meteor

NLTK = "needs NLTK: pip install 'factgym[nltk]'"
GOLDEN = [
    (
        "When did the president announce the new tax law?",
        "On what date was the tax law announced by the President?",
        0.4064337599446558,
    ),
    ("The physician treated the sick kids.", "The doctor cured the ill children.", 0.6371428571428571),
    ("How many people died of the disease in 2019?", "How many deaths did the illness cause in 2019?", 0.5625),
    (
        "Did the car hit the dog? The car hit the dog.",
        "The auto struck the hound, and the car hit a dog.",
        0.5294396961063628,
    ),
    ("He purchased automobiles; she bought an automobile.", "They buy cars and purchase a car.", 0.1851851851851852),
    ("cats cat cats", "cat cats cat cat", 0.6552706552706553),
    ("It's the mayor's \"final\" answer (of 5).", "The mayor's ``final'' answers -- it is 5.", 0.7934426229508196),
    ("a b c d e f g", "g f e d c b a", 0.5),
    ("run runs running ran", "ran running runs run sprint", 0.40816326530612246),
    ("Geese fly south", "The goose flew to the South", 0.08771929824561403),
    ("No answer could be found.", "The ministry reported 1,200 cases.", 0.08333333333333333),
    ("same words, same order.", "same words, same order.", 0.9976851851851852),
    ("word", "word", 0.5),
    ("", "something", 0.0),
    ("studies studied studying study", "report reports reporting survey survey study", 0.08620689655172413),
    (
        "The committee's decision was a big error, officials say.",
        "Officials said the commission made a large mistake in deciding.",
        0.18018018018018017,
    ),
    ("Ĳssel ÉCOLE naïve café", "ĳssel école Naïve CAFÉ", 0.9921875),
]
"""(hypothesis, reference, NLTK's single_meteor_score of their NLTKWordTokenizer tokens with WordNet 3.0)."""

GUIDE = [
    "It",
    "is",
    "a",
    "guide",
    "to",
    "action",
    "which",
    "ensures",
    "that",
    "the",
    "military",
    "always",
    "obeys",
    "the",
    "commands",
    "of",
    "the",
    "party",
]
REFERENCE = [
    "It",
    "is",
    "a",
    "guide",
    "to",
    "action",
    "that",
    "ensures",
    "that",
    "the",
    "military",
    "will",
    "forever",
    "heed",
    "Party",
    "commands",
]

TEXTS = st.lists(
    st.sampled_from(
        ["cat", "cats", "dog", "hound", "the", "a", "ran", "run", "running", "big", "large", ".", "?", "X"]
    ),
    max_size=12,
)
LEXNAMES = [
    "adj.all",
    "adj.pert",
    "adv.all",
    "noun.Tops",
    "noun.act",
    "noun.animal",
    "noun.artifact",
    "noun.attribute",
    "noun.body",
    "noun.cognition",
    "noun.communication",
    "noun.event",
    "noun.feeling",
    "noun.food",
    "noun.group",
    "noun.location",
    "noun.motive",
    "noun.object",
    "noun.person",
    "noun.phenomenon",
    "noun.plant",
    "noun.possession",
    "noun.process",
    "noun.quantity",
    "noun.relation",
    "noun.shape",
    "noun.state",
    "noun.substance",
    "noun.time",
    "verb.body",
    "verb.change",
    "verb.cognition",
    "verb.communication",
    "verb.competition",
    "verb.consumption",
    "verb.contact",
    "verb.creation",
    "verb.emotion",
    "verb.motion",
    "verb.perception",
    "verb.possession",
    "verb.social",
    "verb.stative",
    "verb.weather",
    "adj.ppl",
]
PARTS = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


@pytest.mark.parametrize(("hypothesis", "reference", "expected"), GOLDEN)
def test_golden_numbers(hypothesis: str, reference: str, expected: float) -> None:
    assert meteor(hypothesis, reference, tokenize=treebank_tokens) == pytest.approx(expected, abs=1e-15)


def test_the_examples_of_nltk() -> None:
    reference = prepare_tokens(REFERENCE)
    assert meteor_of(prepare_tokens(GUIDE), reference) == pytest.approx(0.6944444444444445, abs=1e-15)
    assert (
        meteor_of(prepare_tokens(["non", "matching", "hypothesis"]), prepare_tokens(["this", "is", "a", "cat"])) == 0
    )


def test_settings_change_the_score() -> None:
    hypothesis, reference = prepare_tokens(["a", "b", "x"]), prepare_tokens(["a", "b"])
    assert meteor_of(hypothesis, reference, MeteorSettings(alpha=1.0, gamma=0.0)) == 1.0  # the recall alone
    assert meteor_of(hypothesis, reference, MeteorSettings(alpha=0.0, gamma=0.0)) == pytest.approx(2 / 3)
    assert (
        meteor_of(hypothesis, reference, MeteorSettings(alpha=1.0, beta=1.0, gamma=1.0)) == 0.5
    )  # one run, two words


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]  # NLTK has no types
    """NLTK's own reader over the files of WordNet 3.0."""
    corpus = pytest.importorskip("nltk.corpus.reader.wordnet", reason=NLTK)
    allowed = pytest.importorskip("nltk.data", reason=NLTK).path
    folder = tmp_path_factory.mktemp("nltk") / "corpora" / "wordnet"
    shutil.copytree(wordnet_folder(), folder)
    lines = (f"{i:02d}\t{name}\t{PARTS[name.partition('.')[0]]}\n" for i, name in enumerate(LEXNAMES))
    (folder / "lexnames").write_text("".join(lines))
    root = str(folder.parents[1])
    allowed.append(root)  # NLTK reads nothing outside its own folders
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NLTK warns that there are no other languages
            yield corpus.WordNetCorpusReader(str(folder), None)
    finally:
        allowed.remove(root)


def real_pairs(folder: Path, n: int) -> list[tuple[str, str]]:
    """`n` (prediction, gold) pairs: what a published system asked and answered on AVeriTeC's dev set, and its gold."""
    predictions = json.loads((folder / "averitec" / "HerO_dev_veracity_prediction_8b.json").read_text("utf-8"))
    records = json.loads((folder / "averitec" / "dev.json").read_text("utf-8"))
    pairs: list[tuple[str, str]] = []
    for prediction, record in zip(predictions, records, strict=True):
        said = [f"{one['question']} {one['answer']}" for one in prediction["evidence"]]
        pairs += product(said, comparison_strings(record["questions"]))
        pairs += product(
            [one["question"] for one in prediction["evidence"]], [one["question"] for one in record["questions"]]
        )
    return random.Random(5).sample(pairs, n)


@pytest.mark.data
def test_five_thousand_real_pairs_as_nltk(reader, data_dir: Path) -> None:  # type: ignore[no-untyped-def]
    scorer = pytest.importorskip("nltk.translate.meteor_score", reason=NLTK)
    words = {text: word_tokens(text) for pair in real_pairs(data_dir, 5_000) for text in pair}
    pairs = real_pairs(data_dir, 5_000)
    theirs = [scorer.single_meteor_score(words[gold], words[said], wordnet=reader) for said, gold in pairs]
    ours = [meteor(said, gold) for said, gold in pairs]
    assert len(set(theirs)) > 2_500
    assert max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) <= 1e-9


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_range_and_zero(left: list[str], right: list[str]) -> None:
    score = meteor_of(prepare_tokens(left), prepare_tokens(right))
    assert 0 <= score <= 1
    assert meteor_of(prepare_tokens(left), prepare_tokens([])) == 0
    if {one.lower() for one in left} & {one.lower() for one in right}:
        assert score > 0


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=20))
def test_a_text_against_itself_loses_only_the_penalty_of_one_run(tokens: list[str]) -> None:
    text = prepare_tokens(tokens)
    assert meteor_of(text, text) == pytest.approx(1 - 0.5 / len(tokens) ** 3)


@settings(deadline=None)
@given(st.permutations(["alpha", "beta", "gamma", "delta", "epsilon"]))
def test_symmetric_where_both_are_one_set_of_different_words(order: list[str]) -> None:
    left, right = prepare_tokens(order), prepare_tokens(sorted(order))
    assert meteor_of(left, right) == pytest.approx(meteor_of(right, left))


@settings(deadline=None)
@given(TEXTS)
def test_case_does_not_count(tokens: list[str]) -> None:
    lower, upper = prepare_tokens([one.lower() for one in tokens]), prepare_tokens([one.upper() for one in tokens])
    other = prepare_tokens(["the", "hound", "ran"])
    assert meteor_of(lower, other) == meteor_of(upper, other)


def test_the_matrix_is_the_pairs() -> None:
    predictions, golds = ["The dog ran.", "", "Is it?"], ["A hound ran.", "Is it so?"]
    matrix = meteor_matrix(predictions, golds)
    assert matrix.tolist() == [[meteor(one, other) for other in golds] for one in predictions]
    assert meteor_matrix([], golds).shape == (0, 2)
    assert meteor_matrix(predictions, []).shape == (3, 0)


HOSTILE = {
    "one word": "a" * 1_000_000,
    "y": "y" * 1_000_000,
    "repeated": "dog " * 250_000,
    "periods": ". " * 500_000,
    "ellipsis": "." * 1_000_000,
    "brackets": ".)" * 500_000,
    "closing": ".)))))))))) x" * 80_000,
    "quotes": "\"' " * 333_000,
    "abbreviations": "U.S. " * 200_000,
    "space": "a" + " " * 1_000_000 + "b",
    "newlines": ".\n\t" * 333_000,
    "marks": "é\u0301\u200f\ufeff" * 250_000,
    "surrogates": "\ud800 " * 500_000,
    "nul": "\x00 dog " * 160_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_score_in_range(name: str) -> None:
    hostile, question = prepare(HOSTILE[name]), prepare("Did the dog bite a man?")
    assert 0 <= meteor_of(hostile, question) <= 1
    assert 0 <= meteor_of(question, hostile) <= 1


def test_two_large_texts() -> None:
    words = ["dog", "hound", "bite", "man", "physician", "doctor", "run", "ran"]
    rng = random.Random(3)
    left, right = (" ".join(rng.choices(words, k=100_000)) for _ in range(2))
    assert 0 < meteor(left, right) < 1


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_scores(left: str, right: str) -> None:
    assert 0 <= meteor(left, right) <= 1


def test_long_texts_are_not_kept() -> None:
    long, short = "dog " * 10_000, "A dog that nobody has asked about."
    assert prepare(long) is not prepare(long)
    assert prepare(short) is prepare(short)


def test_the_speed_report_holds_both_jobs() -> None:
    lines = measure_meteor(1, [("The dog ran.", "A hound ran home.")] * 5)
    assert [line.split("  ")[1] for line in lines[1:] if "ours, warm" in line] == [
        "pairs, ours, warm",
        "sets, ours, warm",
    ]
    assert any("NLTK" in line for line in lines)
