"""Tokens, stems and synonyms behind METEOR: golden values from NLTK 3.10, and NLTK itself where it is installed."""

from __future__ import annotations

import gzip
import json
import random
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profact_wordnet import wordnet_folder

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.rewards.profact import comparison_strings, nltk_tokens, sentences, synonyms, treebank_tokens, word_tokens
from factgym.rewards.profact.build_wordnet import build_table
from factgym.rewards.profact.porter import porter_stem

NLTK = "needs NLTK: pip install 'factgym[nltk]'"
STEMS = {
    "caresses": "caress",
    "ponies": "poni",
    "ties": "tie",
    "cats": "cat",
    "agreed": "agre",
    "plastered": "plaster",
    "motoring": "motor",
    "hopping": "hop",
    "falling": "fall",
    "filing": "file",
    "happy": "happi",
    "enjoy": "enjoy",
    "flies": "fli",
    "dies": "die",
    "died": "die",
    "spied": "spi",
    "skies": "sky",
    "news": "news",
    "relational": "relat",
    "conditional": "condit",
    "rationally": "ration",
    "vietnamization": "vietnam",
    "sensibiliti": "sensibl",
    "hopefully": "hope",
    "geology": "geolog",
    "triplicate": "triplic",
    "electrical": "electr",
    "goodness": "good",
    "adoption": "adopt",
    "replacement": "replac",
    "controlling": "control",
    "rate": "rate",
    "cease": "ceas",
    "yyyy": "yyyi",
    "syzygy": "syzygi",
    "inning": "inning",
    "proceed": "proceed",
    "oed": "o",
    "ing": "ing",
}
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
    (
        "It's \"good\", he said: don't stop -- can't we?",
        ["It", "'s", "``", "good", "''", ",", "he", "said", ":", "do", "n't", "stop", "--", "ca", "n't", "we", "?"],
    ),
    (
        "I'm gonna pay $3.88 (about 5%) in the U.S. 'Tis true.",
        [
            "I",
            "'m",
            "gon",
            "na",
            "pay",
            "$",
            "3.88",
            "(",
            "about",
            "5",
            "%",
            ")",
            "in",
            "the",
            "U.S.",
            "'",
            "Tis",
            "true",
            ".",
        ],
    ),
    (
        "``Quoted'' [text] {here}; A&B... end.",
        ["``", "Quoted", "''", "[", "text", "]", "{", "here", "}", ";", "A", "&", "B", "...", "end", "."],
    ),
    (
        "She said 'hello' to the Smiths' dog, 'cause they'd cannot.",
        [
            "She",
            "said",
            "'",
            "hello",
            "'",
            "to",
            "the",
            "Smiths",
            "'",
            "dog",
            ",",
            "'",
            "cause",
            "they",
            "'d",
            "can",
            "not",
            ".",
        ],
    ),
    (
        "«Oui» “yes” ‘no’ — 10:30, e.g. a,b 1,000.",
        ["«", "Oui", "»", "“", "yes", "”", "‘", "no", "’", "—", "10:30", ",", "e.g.", "a", ",", "b", "1,000", "."],
    ),
]


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_golden_stems(word: str, stem: str) -> None:
    assert porter_stem(word) == stem
    assert porter_stem(word.upper()) == stem


@pytest.mark.parametrize(("word", "expected"), SYNONYMS.items())
def test_golden_synonyms(word: str, expected: str) -> None:
    assert synonyms(word) == set(expected.split())


@pytest.mark.parametrize(("text", "expected"), TOKENS)
def test_golden_tokens(text: str, expected: list[str]) -> None:
    assert treebank_tokens(text) == expected


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
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@settings(deadline=None)
@given(st.text())
def test_sentences_lose_nothing_but_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_each_sentence_gives_up_its_period() -> None:
    assert word_tokens("It ran. It hid.") == ["It", "ran", ".", "It", "hid", "."]
    assert treebank_tokens("It ran. It hid.") == ["It", "ran.", "It", "hid", "."]


@settings(deadline=None)
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


@settings(deadline=None)
@given(st.text(alphabet="ab .,:;?!'\"`()[]{}<>-*&%$#@«»“”‘’—\n\tsmtdlvre1nN", max_size=60))
def test_any_tokens_as_nltk(text: str) -> None:
    tokenizer = pytest.importorskip("nltk.tokenize.destructive", reason=NLTK).NLTKWordTokenizer()
    assert treebank_tokens(text) == tokenizer.tokenize(text)


def table() -> bytes:
    return gzip.decompress(resources.files("factgym.rewards.profact").joinpath("wordnet.tsv.gz").read_bytes())


def test_the_table_is_sorted_and_whole() -> None:
    keys = [line.partition(b"\t")[0] for line in table().split(b"\n") if line]
    assert keys == sorted(set(keys))
    assert len(keys) == 91_033
    assert (
        "any purpose and without" in resources.files("factgym.rewards.profact").joinpath("WORDNET-LICENSE").read_text()
    )


def test_the_table_is_what_the_files_of_wordnet_give() -> None:
    assert build_table(wordnet_folder()) == table()


def test_the_builder_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.noun"):
        build_table(tmp_path)


@pytest.mark.parametrize("word", ["", "\n", "\t", "dog\t", "a" * 1_000_000, "\ud800", "狗", "'", "~", "\x00"])
def test_words_that_wordnet_has_not(word: str) -> None:
    assert synonyms(word) == frozenset()


def test_first_and_last_lines_are_found() -> None:
    lines = [line for line in table().decode().split("\n") if line]
    for line in (lines[0], lines[-1], *random.Random(1).sample(lines, 200)):
        lemma, *cells = line.split("\t")
        wanted = {lemma if one == "*" else one for cell in cells[:4] for one in cell.split()} - {lemma}
        assert wanted <= synonyms(lemma)


def test_the_official_tokens_or_a_message_that_helps() -> None:
    try:
        tokenize = nltk_tokens()
    except (ConfigError, MissingExtraError) as error:
        assert "install" in str(error)
    else:
        assert tokenize("It ran. It hid.") == ["It", "ran", ".", "It", "hid", "."]
