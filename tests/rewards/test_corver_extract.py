"""The rule extractor: the paper's traces, the forms of English that it claims to read, and texts that attack it."""

from __future__ import annotations

import copy
import json
import pickle
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.rewards.corver.extraction import RuleExtractor, cached_extractor, find_extractor
from factgym.rewards.corver.model_extractor import ModelExtractor, read_triplets
from factgym.rewards.corver.triplets import PRONOUNS, Extractor, Triplet, build_query
from factgym.text.tagging import JOINERS, LEXICON, MONTHS, ROLES
from tests.rewards.corver_paper import CASES, FIGURE_7, TableExtractor


def extract(sentence: str) -> list[Triplet]:
    return RuleExtractor().extract([sentence])[0]


def first_query(sentence: str) -> set[str] | None:
    triplet = next((triplet for triplet in extract(sentence) if triplet.valid), None)
    return None if triplet is None else {word.lower() for word in build_query(triplet) or ()}


TRACED = [sentence for case in CASES for sentence in case.sentences]
LONGER_NAMES = {
    # The published model shortens these names; a rule takes what stands there.
    TRACED[8].text: {"men’s", "division"},
    TRACED[10].text: {"ncaa", "men’s", "division", "basketball"},
}


@pytest.mark.parametrize("traced", TRACED, ids=[sentence.triplet.tail for sentence in TRACED])
def test_the_papers_traced_sentences_have_the_same_query_words(traced: tuple[str, Triplet]) -> None:
    text, triplet = traced[0], traced[1]
    published = {word.lower() for word in build_query(triplet) or ()}
    assert first_query(text) == published | LONGER_NAMES.get(text, set())


@pytest.mark.parametrize(("text", "triplet"), FIGURE_7[:2])
def test_the_single_sentences_of_figure_7_have_the_papers_queries(text: str, triplet: Triplet) -> None:
    published = {word.lower() for word in build_query(triplet) or ()}
    # "New York" is in the sentence where the published model writes "NY".
    assert {{"new": "ny", "york": "ny"}.get(word, word) for word in first_query(text) or ()} == published


def test_a_mother_s_long_name_is_taken_whole() -> None:
    assert extract(FIGURE_7[2][0]) == [Triplet("Ella Fitzgerald", "mother", "Temperance Mary Tempie Height Fitzgerald")]


@pytest.mark.parametrize(
    ("sentence", "head", "relation", "tail"),
    [
        ("Mario Camerini directed Il Seduttore.", "Mario Camerini", "directed", "Il Seduttore"),
        ("Kumbasaram was released in 2017.", "Kumbasaram", "released in", "2017"),
        ("Rajiv Rai was born in Mumbai, Maharashtra, India.", "Rajiv Rai", "born in", "Mumbai, Maharashtra, India"),
        ("Beowulf & Grendel was directed by Ann Lee.", "Beowulf & Grendel", "directed by", "Ann Lee"),
        ("The capital of France is Paris.", "France", "capital", "Paris"),
        ("Diane Simon's husband is George Miller.", "Diane Simon", "husband", "George Miller"),
        ("In 1975, the Flyers won the Stanley Cup.", "Flyers", "won", "Stanley Cup"),
        ("However, the Beatles released Abbey Road.", "Beatles", "released", "Abbey Road"),
        ("Michael Jordan, who played for Chicago, won it in 1991.", "Michael Jordan", "won it in", "1991"),
        ("Albert Einstein developed the theory of relativity.", "Albert Einstein", "developed", "theory of relativity"),
        ("Ludwig van Beethoven was born on 16 December 1770.", "Ludwig van Beethoven", "born on", "16 December 1770"),
        ("Water boils at 100 degrees Celsius.", "Water", "boils at degrees", "Celsius"),
        ("This film was directed by Steven Spielberg.", "film", "directed by", "Steven Spielberg"),
        ("The Bank of England sits in London.", "Bank of England", "sits in", "London"),
    ],
)
def test_forms_of_declaratives(sentence: str, head: str, relation: str, tail: str) -> None:
    assert extract(sentence)[0] == Triplet(head, relation, tail)


def test_a_second_verb_keeps_the_subject_and_an_apposition_makes_a_triplet_of_its_own() -> None:
    assert extract("The Robe was directed by Henry Koster and released in 1953.") == [
        Triplet("Robe", "directed by", "Henry Koster"),
        Triplet("Robe", "released in", "1953"),
    ]
    assert extract("Robert Enrico, the director of The Robe, was born first.") == [
        Triplet("Robert Enrico", "director of", "The Robe")
    ]
    assert extract("Coulson Wallop's father, Nigel Wallop, studied at Eton College.") == [
        Triplet("Coulson Wallop", "father", "Nigel Wallop"),
        Triplet("Nigel Wallop", "studied at", "Eton College"),
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "Who directed Il Seduttore?",
        "Paris Berlin London Madrid Rome.",
        "Thus, Vincent Cobos is younger.",
        "Vincent Cobos is 2 years older than Paul Mokeski.",
        "1975",
        "",
        ". . .",
        "I dont know",
    ],
)
def test_questions_fragments_and_comparisons_have_no_triplet(sentence: str) -> None:
    assert extract(sentence) == []


@pytest.mark.parametrize("sentence", ["He was born in Paris, France.", "They won it in 1975.", "It is known there."])
def test_a_pronoun_as_subject_makes_every_triplet_invalid(sentence: str) -> None:
    assert first_query(sentence) is None


@given(st.text(alphabet=st.sampled_from(list("Aa1 ,.'’–-&()of the was in Édß汉\n\u0301\ud800")), max_size=200))
def test_any_text_is_read_and_its_triplets_occur_in_it(text: str) -> None:
    for triplet in extract(text):
        for part in (triplet.head, triplet.tail):
            assert part
            assert all(word.strip(",").lower() in text.lower() for word in part.split())


@pytest.mark.parametrize(
    "fragment", ["Paris, ", "won, won ", "the ", "A's ", "1 ", "(", "and was ", "of of X ", "X" * 50]
)
def test_a_megabyte_without_a_full_stop_is_read_to_its_bound(fragment: str) -> None:
    # A reader whose time grows with the square would not come back.
    sentence = fragment * (1_000_000 // len(fragment))
    assert extract(sentence) == extract(sentence[:2_000])


def test_a_cached_extractor_asks_for_each_sentence_once_and_forgets_the_oldest() -> None:
    inner = TableExtractor({"A b.": [Triplet("A", "r", "b")]})
    cache = cached_extractor(inner, 2)
    assert cache.extract(["A b.", "C.", "A b."]) == [[Triplet("A", "r", "b")], [], [Triplet("A", "r", "b")]]
    assert inner.seen == ["A b.", "C."]
    cache.extract(["A b."])
    cache.extract(["D."])
    cache.extract(["A b.", "C."])
    assert inner.seen == ["A b.", "C.", "D.", "C."]
    assert cached_extractor(cache) is cache
    assert cache.describe() == {"extractor": "table"}


def test_changes_of_a_result_do_not_reach_the_cache() -> None:
    cache = cached_extractor(RuleExtractor())
    cache.extract(["Paris is in France."])[0].clear()
    assert cache.extract(["Paris is in France."])[0]


def test_a_cache_is_safe_in_threads_and_copies_start_empty() -> None:
    sentences = [f"Paris won the Cup of 19{n:02}." for n in range(60)]
    plain = RuleExtractor().extract(sentences)
    cache = cached_extractor(RuleExtractor(), 16)
    results: list[list[list[Triplet]]] = []
    threads = [threading.Thread(target=lambda: results.append(cache.extract(sentences))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [plain] * 8
    for twin in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert not twin._cache
        assert twin.extract(sentences) == plain


def test_extractors_are_found_by_name() -> None:
    assert isinstance(find_extractor("rule"), RuleExtractor)
    own = TableExtractor({})
    assert find_extractor(own) is own
    assert isinstance(own, Extractor)
    with pytest.raises(ConfigError, match="Did you mean 'rule'"):
        find_extractor("rules")
    with pytest.raises(ConfigError, match="extract"):
        find_extractor(3)  # type: ignore[arg-type]


NAMES = ["Paris", "France", "Ann O'Brien", "James'", "Ann's", "King", "Bank of England", "It's", "He's", "U.S.", "A-1"]
NUMBERS = ["3", "12", "1989", "1,000", "1,0000", "12,345,678", "1980-1985", "007", "4th", "1.5"]
ODD = ["boils", "cities", "glass", "led", "walked", "Quickly", "singing", "x'", "'", "_", "&", "a.b.", "a.", "/", "-"]
FOREIGN = [
    "Élodie",
    "São Paulo",
    "O’Brien",
    "Ann’s",
    "James’",
    "It’s",
    "he’s",
    "s’",
    "3–2",
    "10–12",
    "1980–1985",
    "12–",
    "—",
]
FOREIGN += [
    "été",
    "naïvely",
    "ÉTÉLY",
    "Øs",
    "walkés",
    "ünaled",
    "東京",
    "東京ing",
    "ǅ",
    "“",
    "…",
    "x²",
    "½",
    "٣",
    "\u212a",
    "\u212aofi",
    "İs",
    "ſ",
]
WORDS = sorted(
    {*FOREIGN, *LEXICON, *JOINERS, *MONTHS, *ROLES, *PRONOUNS, *NAMES, *NUMBERS, *ODD, "APRIL", "The", "His", "May,"}
)
SPACES = [" ", " ", " ", " ", ", ", "  ", "\n", ""]
assembled = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SPACES)), max_size=24).map(
    lambda parts: "".join(word + space for word, space in parts)
)


@given(st.lists(assembled, min_size=1, max_size=20))
@example(["At Liverpool, Salah scored.", "He lived in Seattle, Washington, and won.", "in A, B, C, and D is E, F is G"])
def test_a_sentence_has_the_same_triplets_in_every_batch(batch: list[str]) -> None:
    assert RuleExtractor().extract(batch) == list(map(extract, batch))


def test_long_and_foreign_sentences_are_read() -> None:
    rng = random.Random(0)
    long = [" ".join(rng.choices(WORDS, k=size)) for size in (300, 1_000, 3_000)]
    batch = [
        *(sentence.text for sentence in TRACED),
        *long,
        "(" * 5_000,
        "Élodie met Bob in 1975.",
        "",
        "\x00 is \x1f b",
    ]
    triplets = RuleExtractor().extract(batch)
    assert triplets[-3] == [Triplet("Élodie", "met", "Bob"), Triplet("Élodie", "in", "1975")]
    assert max(map(len, triplets)) <= 8


# The model extractor: its reader on what small models write, and real generation with a model built on the spot

A = Triplet("Ann Lee", "directed", "Jaws")


@pytest.mark.parametrize(
    ("text", "triplets"),
    [
        ('[["Ann Lee", "directed", "Jaws"]]', [A]),
        ('entities:\n[["Ann Lee", "directed", "Jaws"], ["Jaws", "released in", "1975"]]', [A, Triplet("Jaws", "released in", "1975")]),
        ("[]", []),
        ("[[]]", []),
        ("", []),
        ("no list at all", []),
        ('[["Jaws", "director"]]', []),
        ('["Ann Lee", "directed", "Jaws"]', [A]),
        ('[[["Ann Lee", "directed", "Jaws"]]]', [A]),
        ("[[“Ann Lee”, “directed”, “Jaws”]]", [A]),
        ("[['Ann Lee', 'directed', 'Jaws']]", [A]),
        ("[[Ann Lee, directed, Jaws]]", [A]),
        ('[["Ann Lee", directed, ‘Jaws’]]', [A]),
        ('[["Rai", "born in", "Mumbai, Maharashtra, India"]]', [Triplet("Rai", "born in", "Mumbai, Maharashtra, India")]),
        ("[[Rai, born in, Mumbai, Maharashtra, India]]", [Triplet("Rai", "born in", "Mumbai, Maharashtra, India")]),
        ('[["Conan O\'Brien", "hosts", "Late Night"]]', [Triplet("Conan O'Brien", "hosts", "Late Night")]),
        ("[['Conan O'Brien', 'hosts', 'Late Night']]", [Triplet("Conan O'Brien", "hosts", "Late Night")]),
        ('[["The "Big" Bang", "is", "a show"]]', [Triplet('The "Big" Bang', "is", "a show")]),
        (r'[["The \"Big\" Bang", "is", "a\\b"]]', [Triplet('The "Big" Bang', "is", "a\\b")]),
        ('[["Ann Lee", "directed", "Jaws"], ["Jaws", "released in", "19', [A]),
        ('[["Ann Lee", "directed", "Jaws"], ["Jaws", "rel', [A]),
        ('[["Ann Lee", "directed", "Jaws"', [A]),
        ('[["Ann Lee", "directed", "Jaws"]] and [["B", "c", "D"]]', [A]),
        ('[["Ann Lee", "directed", "Jaws"]]]]]', [A]),
        ('Sure! Here: [["Ann Lee", "directed", "Jaws"]].', [A]),
        ('[["Men’s [Division] I", "has", "16 teams"]]', [Triplet("Men’s [Division] I", "has", "16 teams")]),
    ],
)  # fmt: skip
def test_outputs_are_read_with_their_faults(text: str, triplets: list[Triplet]) -> None:
    assert read_triplets(text) == triplets


part = st.text(alphabet="ab, 'é.[](’", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(st.lists(st.tuples(part, part, part).map(lambda parts: Triplet(*parts)), max_size=4))
def test_well_formed_lists_come_back(triplets: list[Triplet]) -> None:
    assert read_triplets(json.dumps([list(triplet) for triplet in triplets], ensure_ascii=False)) == triplets


@given(st.text(alphabet=st.sampled_from(list("[]\",“”‘’'\\ ab\n")), max_size=80))
def test_any_output_is_read(text: str) -> None:
    for triplet in read_triplets(text):
        assert len(triplet) == 3


@pytest.mark.parametrize("fragment", ["[", "[[", '["', ",", '["a",', "\\", "'", "]"])
def test_megabytes_are_read(fragment: str) -> None:
    # A reader whose time grows with the square would not come back.
    read_triplets("[" + fragment * 1_000_000)


def test_a_folder_without_a_model_is_refused_with_the_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hf download"):
        ModelExtractor(str(tmp_path / "nothing"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="safetensors"):
        find_extractor(f"quco:{tmp_path}")
    with pytest.raises(ConfigError, match="at least 1"):
        ModelExtractor(str(tmp_path), batch=0)


def _folder(path: Path, template: str) -> Path:
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"")
    (path / "prompt_templates.json").write_text(template, "utf-8")
    return path


def test_the_published_template_is_used_where_the_folder_has_it(tmp_path: Path) -> None:
    folder = _folder(tmp_path, json.dumps({"entity_extraction_prompt": "Sentence:{}\nentities:\n"}))
    assert ModelExtractor(str(folder)).template == "Sentence:{sentence}\nentities:\n"


@pytest.mark.parametrize("template", ["{", "[]", "{}", '{"entity_extraction_prompt": "no place"}'])
def test_a_broken_template_is_refused(tmp_path: Path, template: str) -> None:
    with pytest.raises(DataError, match="entity_extraction_prompt"):
        ModelExtractor(str(_folder(tmp_path, template)))


def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    extractor = ModelExtractor(str(_folder(tmp_path, json.dumps({"entity_extraction_prompt": "{}"}))))
    with pytest.raises(MissingExtraError, match="needs the extra 'local'"):
        extractor.extract(["A."])


OUTPUTS = [
    '[["Ann Lee", "directed", "Jaws"]]<|im_end|>',
    "[]<|im_end|>",
    'entities:\n[["Bob", "was born in", "Rome, Italy"], ["Bob", "died in", "1999"]]<|im_end|>',
]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("transformers", reason="needs the extra 'local'")
    import tiny_model

    yield tiny_model.build_scripted(tmp_path_factory.mktemp("scripted"), OUTPUTS)


def test_a_real_model_s_outputs_become_triplets_in_order(scripted: Path) -> None:
    sentences = [
        "Short [[1]].",
        "A rather long sentence about Ann Lee, with [[0]] inside it.",
        "Bob [[2]] in Rome.",
    ] * 3
    triplets = ModelExtractor(str(scripted), batch=4).extract(sentences)
    assert triplets == [[], [A], [Triplet("Bob", "was born in", "Rome, Italy"), Triplet("Bob", "died in", "1999")]] * 3


def test_batches_are_at_most_as_large_as_configured(scripted: Path) -> None:
    import tiny_model

    rows: list[int] = []
    tiny_model.ScriptedModel.on_batch = rows.append
    try:
        ModelExtractor(str(scripted), batch=4).extract(["X [[1]]."] * 6)
    finally:
        tiny_model.ScriptedModel.on_batch = None
    assert set(rows) == {4, 2}


def test_an_output_is_cut_at_its_limit(scripted: Path) -> None:
    assert ModelExtractor(str(scripted), max_new_tokens=2).extract(["A [[0]]."]) == [[]]


def test_a_copy_finds_the_same_and_describes_itself_alike(scripted: Path) -> None:
    extractor = find_extractor(f"quco:{scripted}")
    twin: Any = pickle.loads(pickle.dumps(extractor))
    assert twin.describe() == extractor.describe()
    assert twin.extract(["A [[0]]."]) == extractor.extract(["A [[0]]."]) == [[A]]


def test_padding_does_not_change_a_random_models_output(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra 'local'")
    import tiny_model

    folder = str(tiny_model.build_random(tmp_path, template=tiny_model.CHATML))
    sentences = ["A longer sentence than the others.", "Ann met Bob.", "B"]
    together = ModelExtractor(folder, max_new_tokens=12).generate(sentences)
    assert together == ModelExtractor(folder, max_new_tokens=12, batch=1).generate(sentences)
    assert any(together)
