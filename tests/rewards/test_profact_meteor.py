"""METEOR, its tokens, stems and synonyms: golden values of NLTK 3.10, NLTK itself where installed, properties."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import sys
import warnings
from importlib import resources
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.rewards.profact.meteor import (
    MeteorSettings,
    WordCache,
    meteor,
    meteor_matrix,
    meteor_prepared,
    prepare,
    prepare_tokens,
)
from factgym.rewards.profact.stages import comparison_strings
from factgym.text.stems import porter_stem
from factgym.text.treebank import nltk_tokens, sentences, treebank_tokens, word_tokens
from factgym.text.wordnet import synonyms
from perf.meteor import measure_meteor
from perf.wordnet_table import build_table

NLTK = "needs the extra 'nltk'"


def wordnet_folder() -> Path:
    """Folder of WordNet 3.0: FACTGYM_WORDNET, or that of Debian's wordnet-base; skips the test without one."""
    folder = Path(os.environ.get("FACTGYM_WORDNET", "/usr/share/wordnet"))
    if not (folder / "data.noun").is_file():
        pytest.skip("needs the files of WordNet 3.0: Debian's wordnet-base and wordnet-sense-index, or FACTGYM_WORDNET")
    return folder


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

GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCE = "It is a guide to action that ensures that the military will forever heed Party commands"

WORDS = ["cat", "cats", "dog", "hound", "the", "a", "ran", "run", "running", "big", "large", ".", "?", "X"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12)
LEXNAMES = """
    adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition
    noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object
    noun.person noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape
    noun.state noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition
    verb.consumption verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession
    verb.social verb.stative verb.weather adj.ppl
"""
PARTS = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


@pytest.mark.parametrize(("hypothesis", "reference", "expected"), GOLDEN)
def test_golden_numbers(hypothesis: str, reference: str, expected: float) -> None:
    assert meteor(hypothesis, reference, tokenize=treebank_tokens) == pytest.approx(expected, abs=1e-15)


def test_the_examples_of_nltk() -> None:
    reference = prepare_tokens(REFERENCE.split())
    assert meteor_prepared(prepare_tokens(GUIDE.split()), reference) == pytest.approx(0.6944444444444445, abs=1e-15)
    assert (
        meteor_prepared(prepare_tokens(["non", "matching", "hypothesis"]), prepare_tokens(["this", "is", "a", "cat"]))
        == 0
    )


def test_settings_change_the_score() -> None:
    hypothesis, reference = prepare_tokens(["a", "b", "x"]), prepare_tokens(["a", "b"])
    assert meteor_prepared(hypothesis, reference, MeteorSettings(alpha=1.0, gamma=0.0)) == 1.0  # the recall alone
    assert meteor_prepared(hypothesis, reference, MeteorSettings(alpha=0.0, gamma=0.0)) == pytest.approx(2 / 3)
    assert (
        meteor_prepared(hypothesis, reference, MeteorSettings(alpha=1.0, beta=1.0, gamma=1.0)) == 0.5
    )  # one run, two words


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]  # NLTK has no types
    """NLTK's own reader over the files of WordNet 3.0."""
    corpus = pytest.importorskip("nltk.corpus.reader.wordnet", reason=NLTK)
    allowed = pytest.importorskip("nltk.data", reason=NLTK).path
    folder = tmp_path_factory.mktemp("nltk") / "corpora" / "wordnet"
    shutil.copytree(wordnet_folder(), folder)
    lines = (f"{i:02d}\t{name}\t{PARTS[name.partition('.')[0]]}\n" for i, name in enumerate(LEXNAMES.split()))
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
        evidence = prediction["evidence"]
        texts = [f"{answered['question']} {answered['answer']}" for answered in evidence]
        pairs += product(texts, comparison_strings(record["questions"]))
        pairs += product(
            [answered["question"] for answered in evidence], [question["question"] for question in record["questions"]]
        )
    return random.Random(5).sample(pairs, n)


@pytest.mark.data
def test_five_thousand_real_pairs_as_nltk(reader, data_dir: Path) -> None:  # type: ignore[no-untyped-def]
    scorer = pytest.importorskip("nltk.translate.meteor_score", reason=NLTK)
    words = {text: word_tokens(text) for pair in real_pairs(data_dir, 5_000) for text in pair}
    pairs = real_pairs(data_dir, 5_000)
    reference_scores = [scorer.single_meteor_score(words[gold], words[text], wordnet=reader) for text, gold in pairs]
    scores = [meteor(text, gold) for text, gold in pairs]
    assert len(set(reference_scores)) > 2_500
    assert max(abs(a - b) for a, b in zip(scores, reference_scores, strict=True)) <= 1e-9


@given(TEXTS, TEXTS)
def test_range_and_zero(candidate: list[str], reference: list[str]) -> None:
    score = meteor_prepared(prepare_tokens(candidate), prepare_tokens(reference))
    assert 0 <= score <= 1
    assert meteor_prepared(prepare_tokens(candidate), prepare_tokens([])) == 0
    if set(map(str.lower, candidate)) & set(map(str.lower, reference)):
        assert score > 0


@given(st.lists(st.text(min_size=1), min_size=1, max_size=20))
def test_a_text_against_itself_loses_only_the_penalty_of_one_run(tokens: list[str]) -> None:
    text = prepare_tokens(tokens)
    assert meteor_prepared(text, text) == pytest.approx(1 - 0.5 / len(tokens) ** 3)


@given(st.permutations(["alpha", "beta", "gamma", "delta", "epsilon"]))
def test_symmetric_where_both_are_one_set_of_different_words(order: list[str]) -> None:
    candidate, reference = prepare_tokens(order), prepare_tokens(sorted(order))
    assert meteor_prepared(candidate, reference) == pytest.approx(meteor_prepared(reference, candidate))


@given(TEXTS)
def test_case_does_not_count(tokens: list[str]) -> None:
    lower, upper = prepare_tokens([*map(str.lower, tokens)]), prepare_tokens([*map(str.upper, tokens)])
    other = prepare_tokens(["the", "hound", "ran"])
    assert meteor_prepared(lower, other) == meteor_prepared(upper, other)


def test_the_matrix_is_the_pairs() -> None:
    predictions, golds = ["The dog ran.", "", "Is it?"], ["A hound ran.", "Is it so?"]
    matrix = meteor_matrix(predictions, golds)
    assert matrix.tolist() == [[meteor(text, gold) for gold in golds] for text in predictions]
    assert meteor_matrix([], golds).shape == (0, 2)
    assert meteor_matrix(predictions, []).shape == (3, 0)


HOSTILE = {
    "one word": "a" * 200_000,
    "y": "y" * 200_000,
    "repeated": "dog " * 50_000,
    "periods": ". " * 100_000,
    "ellipsis": "." * 200_000,
    "brackets": ".)" * 100_000,
    "closing": ".)))))))))) x" * 16_000,
    "quotes": "\"' " * 66_000,
    "abbreviations": "U.S. " * 40_000,
    "space": "a" + " " * 200_000 + "b",
    "newlines": ".\n\t" * 66_000,
    "marks": "é\u0301\u200f\ufeff" * 50_000,
    "surrogates": "\ud800 " * 100_000,
    "nul": "\x00 dog " * 32_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_score_in_range(name: str) -> None:
    hostile, question = prepare(HOSTILE[name]), prepare("Did the dog bite a man?")
    assert 0 <= meteor_prepared(hostile, question) <= 1
    assert 0 <= meteor_prepared(question, hostile) <= 1


def test_two_large_texts() -> None:
    words = ["dog", "hound", "bite", "man", "physician", "doctor", "run", "ran"]
    rng = random.Random(3)
    candidate, reference = (" ".join(rng.choices(words, k=30_000)) for _ in range(2))
    assert 0 < meteor(candidate, reference) < 1


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_scores(candidate: str, reference: str) -> None:
    assert 0 <= meteor(candidate, reference) <= 1


def test_long_texts_are_not_cached() -> None:
    long, short = "dog " * 10_000, "A dog that no other test has."
    assert prepare(long) is not prepare(long)
    assert prepare(short) is prepare(short)


def test_the_speed_report_has_both_jobs() -> None:
    lines = measure_meteor(1, [("The dog ran.", "A hound ran home.")] * 5)
    assert [line.split("  ")[1] for line in lines[1:] if "ours, warm" in line] == [
        "pairs, ours, warm",
        "sets, ours, warm",
    ]
    assert any("NLTK" in line for line in lines)


def test_the_word_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def upper(word: str) -> str:
        computed.append(word)
        return word.upper()

    cache = WordCache(upper)
    monkeypatch.setattr(sys.modules[WordCache.__module__], "_CACHED_WORDS", 3)
    assert [cache[word] for word in ("a", "b", "c", "d", "d")] == ["A", "B", "C", "D", "D"]
    assert computed == ["a", "b", "c", "d"]
    assert list(cache) == ["d"]
    long = "x" * 1000
    assert cache[long] == cache[long] == long.upper()
    assert computed.count(long) == 2


def test_a_word_with_many_senses_matches_its_synonyms() -> None:
    texts = prepare_tokens(["Doctors", "RAN", "quickly"]), prepare_tokens(["physicians", "run", "quick"])
    assert meteor_prepared(*texts) == meteor("Doctors RAN quickly", "physicians run quick") > 0.4


# Tokens and sentences.

STEMS = """
    caresses:caress ponies:poni ties:tie cats:cat agreed:agre plastered:plaster motoring:motor hopping:hop
    falling:fall filing:file happy:happi enjoy:enjoy flies:fli dies:die died:die spied:spi skies:sky news:news
    relational:relat conditional:condit rationally:ration vietnamization:vietnam sensibiliti:sensibl hopefully:hope
    geology:geolog triplicate:triplic electrical:electr goodness:good adoption:adopt replacement:replac
    controlling:control rate:rate cease:ceas yyyy:yyyi syzygy:syzygi inning:inning proceed:proceed oed:o ing:ing
"""
SYNONYMS = {
    "dog": "andiron blackguard bounder cad chase click detent dog-iron firedog frank frankfurter frump heel hotdog hound pawl tag tail track trail weenie wiener wienerwurst",
    "geese": "bozo cuckoo fathead goof goofball goose jackass twat zany",
    "physician": "doc doctor medico",
    "ran": "bleed bunk campaign carry consort course draw endure escape execute extend feed flow function go guide hunt incline ladder lam lead lean melt move operate pass persist play ply prevail race range run scarper scat tend unravel work",
    "news": "intelligence newsworthiness tidings word",
    "paris": "",
    "big": "adult bad bighearted boastful boastfully bounteous bountiful braggart bragging braggy cock-a-hoop crowing enceinte expectant freehanded full-grown giving gravid great grown grownup handsome heavy large liberal magnanimous openhanded prominent self-aggrandising self-aggrandizing swelled vainglorious vauntingly",
    "quickly": "apace chop-chop cursorily promptly quick rapidly speedily",
    "ax": "axe",
    "leaves": "allow bequeath depart entrust exit farewell foliage folio forget give impart lead leaf leafage leave leave-taking parting provide result will",
    "zzzz": "",
    "new_york": "",
}
TOKENS = [
    ("It's \"good\", he said: don't stop -- can't we?", "It 's `` good '' , he said : do n't stop -- ca n't we ?"),
    (
        "I'm gonna pay $3.88 (about 5%) in the U.S. 'Tis true.",
        "I 'm gon na pay $ 3.88 ( about 5 % ) in the U.S. ' Tis true .",
    ),
    ("``Quoted'' [text] {here}; A&B... end.", "`` Quoted '' [ text ] { here } ; A & B ... end ."),
    (
        "She said 'hello' to the Smiths' dog, 'cause they'd cannot.",
        "She said ' hello ' to the Smiths ' dog , ' cause they 'd can not .",
    ),
    ("«Oui» “yes” ‘no’ — 10:30, e.g. a,b 1,000.", "« Oui » “ yes ” ‘ no ’ — 10:30 , e.g. a , b 1,000 ."),
]
"""(sentence, its tokens joined by spaces)"""


@pytest.mark.parametrize("pair", STEMS.split())
def test_golden_stems(pair: str) -> None:
    word, _, stem = pair.partition(":")
    assert porter_stem(word) == stem
    assert porter_stem(word.upper()) == stem


@pytest.mark.parametrize(("word", "expected"), SYNONYMS.items())
def test_golden_synonyms(word: str, expected: str) -> None:
    assert synonyms(word) == set(expected.split())


@pytest.mark.parametrize(("text", "expected"), TOKENS)
def test_golden_tokens(text: str, expected: str) -> None:
    assert treebank_tokens(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith went to Washington. He stayed.", ["Dr. Smith went to Washington.", "He stayed."]),
        ("Was it so? No. It was not!", ["Was it so?", "No.", "It was not!"]),
        ("The U.S. economy grew. The U.S. The end.", ["The U.S. economy grew.", "The U.S.", "The end."]),
        ("J. K. Rowling wrote it in 1997. Fans cheered.", ["J. K. Rowling wrote it in 1997.", "Fans cheered."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("It rose 3.5 percent... and fell.", ["It rose 3.5 percent... and fell."]),
        ("  ", []),
        ("", []),
    ],
)
def test_sentence_boundaries(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text())
def test_sentences_lose_nothing_but_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_each_sentence_gives_up_its_period() -> None:
    assert word_tokens("It ran. It hid.") == ["It", "ran", ".", "It", "hid", "."]
    assert treebank_tokens("It ran. It hid.") == ["It", "ran.", "It", "hid", "."]


@given(st.text())
def test_stems_as_nltk(word: str) -> None:
    stemmer = pytest.importorskip("nltk.stem.porter", reason=NLTK).PorterStemmer()
    assert porter_stem(word) == stemmer.stem(word)


def test_stems_of_the_whole_table_as_nltk() -> None:
    stemmer = pytest.importorskip("nltk.stem.porter", reason=NLTK).PorterStemmer()
    lemmas = [line.partition("\t")[0] for line in table().decode().splitlines() if line]
    endings = ["", "s", "ies", "ied", "eed", "ed", "ing", "ly", "ational", "iveness", "ement", "logi", "alli", "ll"]
    rng = random.Random(0)
    words = [lemma + rng.choice(endings) for lemma in rng.sample(lemmas, 20_000)]
    assert [porter_stem(word) for word in words] == [stemmer.stem(word) for word in words]


@pytest.mark.data
def test_tokens_of_real_sentences_as_nltk(data_dir: Path) -> None:
    tokenizer = pytest.importorskip("nltk.tokenize.destructive", reason=NLTK).NLTKWordTokenizer()
    records = json.loads((data_dir / "averitec" / "dev.json").read_text("utf-8"))
    texts = [text for record in records for text in comparison_strings(record["questions"])]
    assert len(texts) > 1_000
    assert [treebank_tokens(text) for text in texts] == [tokenizer.tokenize(text) for text in texts]


@given(st.text(alphabet="ab .,:;?!'\"`()[]{}<>-*&%$#@«»“”‘’—\n\tsmtdlvre1nN", max_size=60))
def test_any_tokens_as_nltk(text: str) -> None:
    tokenizer = pytest.importorskip("nltk.tokenize.destructive", reason=NLTK).NLTKWordTokenizer()
    assert treebank_tokens(text) == tokenizer.tokenize(text)


def table() -> bytes:
    return gzip.decompress(resources.files("factgym.text").joinpath("wordnet.tsv.gz").read_bytes())


def test_the_table_is_sorted_and_whole() -> None:
    keys = [line.partition(b"\t")[0] for line in table().split(b"\n") if line]
    assert keys == sorted(set(keys))
    assert len(keys) == 91_033
    assert "any purpose and without" in resources.files("factgym.text").joinpath("WORDNET-LICENSE").read_text()


def test_the_table_follows_from_the_files_of_wordnet() -> None:
    assert build_table(wordnet_folder()) == table()


def test_the_builder_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.noun"):
        build_table(tmp_path)


@pytest.mark.parametrize("word", ["", "\n", "\t", "dog\t", "a" * 1_000_000, "\ud800", "狗", "'", "~", "\x00"])
def test_words_that_are_not_in_wordnet(word: str) -> None:
    assert synonyms(word) == frozenset()


def test_first_and_last_lines_are_found() -> None:
    lines = [line for line in table().decode().split("\n") if line]
    for line in (lines[0], lines[-1], *random.Random(1).sample(lines, 200)):
        lemma, *cells = line.split("\t")
        names = {lemma if name == "*" else name for cell in cells[:4] for name in cell.split()}
        assert names - {lemma} <= synonyms(lemma)


def test_the_official_tokens_or_a_message_that_helps() -> None:
    try:
        tokenize = nltk_tokens()
    except (ConfigError, MissingExtraError) as error:
        assert "install" in str(error)
    else:
        assert tokenize("It ran. It hid.") == ["It", "ran", ".", "It", "hid", "."]


CUTS = [
    (["He met Mr. Smith.", "Then he left."]),
    (["Republican Gov.", "Mike DeWine signed the law."]),
    (["All of this happened, i.e.", "Nobody came."]),
    (["It fell within weeks.", "[34][35] Nobody asked."]),
    (['She asked "is it mine?"', "Nobody knew."]),
    (['Did he say "it was a heart."?', "No."]),
    (["Was it the referendum?", '".']),
    (['a ventilator.".', "b"]),
    (["The bill passed.", "(It was a close vote.)", "It is law."]),
    (["He is a U.S. citizen."]),
    (["He was a U.S.", "Senator, then a judge."]),
    (["They live in Washington, D.C. We do not."]),
    (["Is this true?", "It is!", "Why?"]),
    (["J. K. Rowling wrote it."]),
    (["He paid 3.5 million in 2020.", "It was too much."]),
    (["“It is so.”", "He left."]),
]


@pytest.mark.parametrize("expected", CUTS, ids=lambda cut: cut[0][:24])
def test_sentences_are_cut_as_punkt_cuts_them(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


def test_white_space_does_not_matter() -> None:
    assert sentences("  It is.\n\n It was.  ") == ["It is.", "It was."]
    assert sentences(" \n ") == []
