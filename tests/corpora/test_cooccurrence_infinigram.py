"""The adapter to the `infini-gram` package: the engine, our index and the plain rules give the same counts."""

from __future__ import annotations

import csv
import itertools
import json
import os
import pickle
import random
import shutil
import sys
from collections import Counter as Tally

import numpy as np
import pytest

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.corpora.cooccurrence import Counter, memory_index, open_counter, tokenize
from factgym.corpora.cooccurrence.infinigram import MAX_SHORT, InfinigramCounter, ModelEncoder
from perf.cooccurrence_peer import run_indexer, write_infinigram
from tests.corpora.brute_force import brute_count

DOCUMENTS = (
    "Paris is the capital of France and Paris is large",
    "France",
    "The Eiffel Tower stands in Paris , the capital of France",
    "Rome is the capital of Italy",
)


@pytest.fixture(scope="module", autouse=True)
def _package():
    pytest.importorskip("infini_gram", reason="needs the extra infini-gram")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_infinigram(map(tokenize, DOCUMENTS), tmp_path_factory.mktemp("index") / "words")


def random_corpus(rng):
    words = [f"w{n}" for n in range(rng.choice([3, 6, 14]))]
    count = rng.randrange(1, 14)
    return [[rng.choice(words) for _ in range(rng.randrange(0, 40))] for _ in range(count)] + [words]


def random_query(rng):
    def term():
        return " ".join(f"w{rng.randrange(14)}" for _ in range(rng.choice([1, 1, 1, 2])))

    return [[term() for _ in range(rng.choice([1, 1, 2]))] for _ in range(rng.randrange(1, 6))]


@pytest.mark.parametrize("seed", range(8))
def test_engine_index_and_plain_rules_agree(seed, tmp_path):
    """Random corpora of short documents, so that borders, chains, ties, repeats and shared places are all met."""
    rng = random.Random(seed)
    corpus = random_corpus(rng)
    path = write_infinigram(corpus, tmp_path / "index")
    for window in (1, 2, 3, 6, 15, 1000):
        engine = InfinigramCounter(path, window=window)
        actual = memory_index([" ".join(document) for document in corpus], window=window)
        for _ in range(40):
            cnf = random_query(rng)
            plain = brute_count(corpus, [[tokenize(term) for term in clause] for clause in cnf], window)
            assert engine.count_cnf(cnf) == plain, (cnf, window)
            assert actual.count_cnf(cnf) == plain, (cnf, window)


@pytest.mark.data
def test_engine_and_index_agree_on_real_text(data_dir, tmp_path):
    """Abstracts of papers, and words that stand in one of them, rare and frequent, at the paper's window and less."""
    with (data_dir / "scifact" / "corpus_train.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["abstract"] for row in itertools.islice(csv.DictReader(file), 800)]
    corpus = [tokenize(text) for text in texts]
    path = write_infinigram(corpus, tmp_path / "index")
    rng = random.Random(0)
    queries = [rng.sample(document, k=2 + n % 4) for n in range(400) if len(document := rng.choice(corpus)) > 9]
    for window in (10, 1000):
        engine, actual = InfinigramCounter(path, window=window), memory_index(texts, window=window)
        assert (engine.tokens, engine.documents) == (actual.tokens, actual.documents)
        counts = engine.count_many(queries)
        assert counts.tolist() == actual.count_many(queries).tolist()
        assert counts.max() > 20


def test_over_the_cap_the_engine_is_not_exact_and_we_are(tmp_path):
    """1,500 occurrences under a cap of 100: cut and multiplied, clause by clause."""
    path = write_infinigram([["A", "B"]] * 1500, tmp_path / "index")
    engine = InfinigramCounter(path, max_frequency=100, window=1)
    assert engine.count(["A", "B"]) != 1500
    assert not engine.is_exact(["A", "B"])
    assert memory_index(["A B"] * 1500, window=1, max_frequency=100).count(["A", "B"]) == 1500
    silent = InfinigramCounter(path, max_frequency=1000, window=1)
    assert silent.count(["A", "B"]) < 1500
    assert not silent.is_exact(["A"])
    exact = InfinigramCounter(path, max_frequency=1500)
    assert exact.is_exact(["A", "B"])
    assert exact.frequency("A") == 1500


def test_counts_and_their_description(folder):
    counter = open_counter(f"infini-gram:{folder}", window=50)
    assert isinstance(counter, Counter)
    queries = [["Paris", "France"], ["Paris"], ["Rome", "Berlin"], ["Eiffel Tower", "capital"], ["."]]
    expected = [brute_count([tokenize(text) for text in DOCUMENTS], [[tokenize(word)] for word in query], 50)
                for query in queries[:4]]  # fmt: skip
    counts = counter.count_many(queries)
    assert counts.dtype == np.int64
    assert counts.tolist() == [*expected, 0]
    assert InfinigramCounter(folder, window=50, threads=2).count_many(queries).tolist() == counts.tolist()
    assert InfinigramCounter(folder, window=50, load_to_ram=True).count_many(queries).tolist() == counts.tolist()
    reported = counter.describe()
    assert json.loads(json.dumps(reported)) == reported
    assert (reported["kind"], reported["documents"], reported["tokens"]) == ("infini-gram", 4, 27)
    assert str(folder) not in json.dumps(reported)


def test_empty_batch_and_empty_query(folder):
    counter = InfinigramCounter(folder)
    assert counter.count_many([]).shape == (0,)
    for bad in ([], "Paris"):
        with pytest.raises(ConfigError):
            counter.count(bad)


def test_a_copy_in_another_process_opens_the_same_index(folder):
    counter = InfinigramCounter(folder, window=7)
    again = pickle.loads(pickle.dumps(counter))
    assert again.window == 7
    assert again.fingerprint() == counter.fingerprint() != InfinigramCounter(folder, window=8).fingerprint()


def test_folded_words(tmp_path):
    path = write_infinigram([tokenize("Rose ROSE rose", "fold")], tmp_path / "index", case="fold")
    assert InfinigramCounter(path).count(["Rose"]) == 3


def test_as_many_words_as_two_bytes_can_number(tmp_path):
    """The last two numbers beside each other do not look like a separator."""
    words = [f"w{number}" for number in range(MAX_SHORT)]
    path = write_infinigram([words, words[-2:], [words[-1], words[255], words[-1]]], tmp_path / "index", threads=2)
    counter = InfinigramCounter(path)
    assert counter.shards.width == 2
    assert counter.count([words[-1], words[255]]) == 1
    assert InfinigramCounter(path, window=1).count([words[-2], words[-1]]) == 2
    assert [counter.frequency(words[n]) for n in (0, 255, -2, -1)] == [1, 2, 2, 4]


@pytest.mark.parametrize("size", [1_000, 400_000])
def test_several_threads_sort_what_one_does(tmp_path, size):
    """The package's indexer repeats suffixes when its parts are short; they must not be."""
    rng = random.Random(size)
    words = [f"w{min(int(rng.paretovariate(0.7)), 2_000)}" for _ in range(size)]
    corpus = [words[at : at + 50] for at in range(0, size, 50)]
    counter = InfinigramCounter(write_infinigram(corpus, tmp_path / "index", threads=4))
    assert all(counter.frequency(word) == count for word, count in Tally(words).items())


DAMAGE = {
    "table.0 is missing": lambda path: (path / "table.0").unlink(),
    "offset.0 is missing": lambda path: (path / "offset.0").unlink(),
    "a file is cut off": lambda path: os.truncate(path / "table.0", 7),
    "a file is cut": lambda path: (path / "tokenized.0").write_bytes(b""),
    "does not say where": lambda path: (path / "offset.0").write_bytes(bytes(range(8)) * 4),
    "does not fit": lambda path: (path / "words.txt").write_text("one\n"),
    "cannot be read": lambda path: (path / "words.json").write_text("{"),
    "no 'case'": lambda path: (path / "words.json").write_text((path / "words.json").read_text().replace("keep", "?")),
    "metaoff.0 is missing": lambda path: (path / "metadata.0").write_text("{}"),
    "no infini-gram index": lambda path: [file.unlink() for file in path.iterdir()],
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_index_is_an_error_and_not_the_end_of_the_process(folder, tmp_path, message):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    DAMAGE[message](copy)
    with pytest.raises(DataError, match=message):
        InfinigramCounter(copy)


def test_settings_that_do_not_fit(folder, tmp_path):
    for options in ({"semantics": "window"}, {"window": 0}, {"max_frequency": 0}, {"threads": 0}):
        with pytest.raises(ConfigError):
            InfinigramCounter(folder, **options)
    with pytest.raises(DataError, match="no infini-gram index"):
        InfinigramCounter(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="not an empty folder"):
        write_infinigram([["A"]], folder)
    with pytest.raises(DataError, match="no token"):
        write_infinigram([[]], tmp_path / "empty")


def test_without_the_package_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "infini_gram.engine", None)
    with pytest.raises(MissingExtraError, match="infini-gram"):
        InfinigramCounter(folder)


# An index over the tokens of a language model; the model is a small one of SentencePiece's kind, trained here.


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    library = pytest.importorskip("tokenizers", reason="needs the extra local")
    made = library.Tokenizer(library.models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = library.pre_tokenizers.Metaspace(prepend_scheme="always")
    made.decoder = library.decoders.Metaspace(prepend_scheme="always")
    trainer = library.trainers.BpeTrainer(vocab_size=70, special_tokens=["<unk>", "<s>", "</s>"])
    made.train_from_iterator(DOCUMENTS, trainer)
    file = tmp_path_factory.mktemp("model") / "tokenizer.json"
    made.save(str(file))
    return made, file


@pytest.fixture(scope="module")
def subwords(tokenizer, tmp_path_factory):
    """The same corpus, as its tokens written by `write_infinigram`, without our list of words."""
    made, _ = tokenizer
    ids = [made.encode(text).ids for text in DOCUMENTS]
    order = sorted({item for document in ids for item in document})
    path = write_infinigram(
        [[f"t{item}" for item in document] for document in ids], tmp_path_factory.mktemp("bpe") / "i"
    )
    numbers = [int(line[1:]) for line in (path / "words.txt").read_text().split()]
    assert sorted(numbers) == order
    return renumbered(path, numbers), ids


def renumbered(path, numbers):
    """The index again with the tokenizer's own numbers, and its suffixes sorted anew."""
    tokens = np.fromfile(path / "tokenized.0", "<u2")
    table = np.array([*numbers, *[0] * (65_535 - len(numbers)), 65_535])
    table[tokens].astype("<u2").tofile(path / "tokenized.0")
    for name in ("table.0", "words.txt", "words.json"):
        (path / name).unlink()
    run_indexer(path, 2, 1, 1)
    return path


def test_words_become_the_tokens_that_they_are_inside_a_text(tokenizer, subwords):
    made, file = tokenizer
    path, ids = subwords
    counter = InfinigramCounter(path, tokenizer=file, window=100)
    assert counter.frequency("Paris") == 3
    for query in (["Paris", "France"], ["Rome", "Italy"], ["capital", "Paris", "Eiffel"], ["Paris", "Italy"]):
        cnf = [[tuple(map(str, made.encode(word).ids))] for word in query]
        plain = brute_count([[str(item) for item in document] for document in ids], cnf, 100)
        assert counter.count(query) == plain
    assert counter.count(["Rome", "Italy"]) == 1
    assert counter.describe()["tokens_are"] == "subwords"
    assert counter.count_many([["  "]]).tolist() == [0]


def test_a_leading_space_is_dropped(tokenizer, subwords):
    """As the paper drops LLaMA-2's 29871; here the token of the lone space mark."""

    made, file = tokenizer
    mark = made.token_to_id("\u2581")
    word = next(w for w in ("zParis", "qRome", "7", "z") if made.encode(w).ids[:1] == [mark])
    assert ModelEncoder(file, drop_leading=mark).encode(word) == made.encode(word).ids[1:]
    assert ModelEncoder(file).encode(word) == made.encode(word).ids


def test_byte_level_words_get_their_space(tmp_path):

    library = pytest.importorskip("tokenizers", reason="needs the extra local")
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"])
    made.train_from_iterator(DOCUMENTS * 3, trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    inside = made.encode("is Paris").ids[len(made.encode("is").ids) :]
    assert ModelEncoder(tmp_path).encode("Paris") == inside != made.encode("Paris").ids


def test_an_index_without_words_asks_for_its_tokenizer(subwords, tmp_path):
    path, _ = subwords
    with pytest.raises(ConfigError, match="tokenizer"):
        InfinigramCounter(path)
    with pytest.raises(ConfigError, match="no such tokenizer"):
        InfinigramCounter(path, tokenizer=tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match="no tokenizer"):
        InfinigramCounter(path, tokenizer=tmp_path / "bad.json")
