"""The model extractor: its reader on what small models write, and real generation with a model built on the spot."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.rewards.corver.extraction import find_extractor
from factgym.rewards.corver.model_extractor import ModelExtractor, read_triplets
from factgym.rewards.corver.triplets import Triplet

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


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(part, part, part).map(lambda parts: Triplet(*parts)), max_size=4))
def test_well_formed_lists_come_back(triplets: list[Triplet]) -> None:
    assert read_triplets(json.dumps([list(triplet) for triplet in triplets], ensure_ascii=False)) == triplets


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("[]\",“”‘’'\\ ab\n")), max_size=80))
def test_any_output_is_read(text: str) -> None:
    for triplet in read_triplets(text):
        assert len(triplet) == 3


@pytest.mark.parametrize("fragment", ["[", "[[", '["', ",", '["a",', "\\", "'", "]"])
def test_megabytes_are_read(fragment: str) -> None:
    # A reader whose time grows with the square would not come back.
    read_triplets("[" + fragment * 1_000_000)


def test_a_folder_without_a_model_is_refused_with_what_to_do(tmp_path: Path) -> None:
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
    with pytest.raises(MissingExtraError, match=r"factgym\[local\]"):
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


def test_batches_are_at_most_as_large_as_asked(scripted: Path) -> None:
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


def test_padding_on_the_left_does_not_change_what_a_random_model_says(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra 'local'")
    import tiny_model

    from factgym.rewards.corver import model_extractor

    folder = tiny_model.build_random(tmp_path, template=tiny_model.CHATML)
    extractor = ModelExtractor(str(folder), max_new_tokens=12)
    extractor.extract(["x"])
    loaded = extractor._loaded
    assert loaded is not None
    prompts = [[5, 6, 7], [9, 10, 11, 12, 13, 14, 15], [20]]
    together = model_extractor.generate_greedily(loaded, prompts, 12)
    assert together == [model_extractor.generate_greedily(loaded, [prompt], 12)[0] for prompt in prompts]
    assert any(together)
