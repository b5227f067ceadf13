"""Files of users, damaged at random: each is read, or refused in one line; never a traceback.

Recipes, corpora (JSON, JSONL, CSV, TSV, Parquet, HTML, Markdown, dumps, stores), rows of every data set, task lists; and
settings of environments.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from itertools import count
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym import make
from factgym.core.errors import FactgymError, error_line
from factgym.core.registry import list_envs, spec
from factgym.corpora import documents
from factgym.corpora.extraction import Extractor
from factgym.corpora.passage_files import iter_passages
from factgym.datasets.attribution import read_benchmark
from factgym.datasets.base import load_data_sets
from factgym.datasets.grounding import read_claims
from factgym.datasets.multihop import read_triples
from factgym.datasets.questions import read_questions
from factgym.training.difficulty_filter import read_tasks
from factgym.training.recipes.recipe import read_recipe, recipe_of, with_changes

KEYS = (
    "id",
    "_id",
    "title",
    "text",
    "contents",
    "content",
    "document",
    "doc",
    "url",
    "context",
    "paragraphs",
    "question",
)
KEYS += ("answer", "answers", "golden_answers", "claim", "label", "gold_label", "evidence", "supporting_facts", "type")
KEYS += ("premise", "hypothesis", "sentences", "metadata", "aliases", "value", "possible_answers", "source", "wiki_doc")
KEYS += ("data", "qas", "is_supporting", "paragraph_text", "idx", "level", "section", "gold", "verdict", "statement")
scalars = st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=12)
scalars |= st.sampled_from(
    ["SUPPORTS", "REFUTES", "supported", "yes", "1", "\ud800", "\x00", "a b. C d.", "https://a.b/c"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
rows = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)
json_lines = st.lists(rows | values, max_size=4).map(lambda lines: "\n".join(map(json.dumps, lines)).encode())
tables = st.lists(st.lists(st.sampled_from(KEYS) | st.text(max_size=8), max_size=4), max_size=5).map(
    lambda lines: "\n".join("\t".join(line) for line in lines).encode("utf-8", "replace")
)
pages = st.lists(
    st.sampled_from(
        ["<html>", "<p>", "</p>", "<table><tr><td>", "<!--", "<script>", "&#x110000;", "&amp", "a", "\x00", "<a"]
    )
).map(lambda parts: "".join(parts).encode())
files = st.binary(max_size=200) | json_lines | tables | pages | json_lines.map(lambda data: b"\xef\xbb\xbf" + data[:-1])


def refused_or_read(read) -> None:
    """Run it to its end; an error is one bounded line for people."""
    try:
        result = read()
        for _ in result if hasattr(result, "__iter__") else ():
            pass
    except FactgymError as error:
        line = error_line(error)
        assert line.isprintable() and 10 < len(line) < 2_000


@pytest.fixture(scope="module")
def extractor():
    """The worker process that reads pages, for all examples: a user's command starts it once for a whole folder."""
    with Extractor() as worker:
        yield worker


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.json", "a.tsv", "a.csv", "a.parquet", "a.arrow", "a.html", "a.md", "a.txt"]
)
@given(data=files)
def test_any_file_is_a_corpus_or_refused(tmp_path, monkeypatch, extractor, name, data):
    monkeypatch.setattr(documents, "Extractor", lambda *limits: nullcontext(extractor))
    path = tmp_path / name
    path.write_bytes(data)
    refused_or_read(lambda: iter_passages(path))
    refused_or_read(lambda: iter_passages(path, on_bad=lambda error: None))


@given(data=files)
def test_any_dump_is_a_corpus_or_refused(tmp_path, data):
    path = tmp_path / "a.xml"
    path.write_bytes(b"<mediawiki><page><title>A</title>" + data)
    refused_or_read(lambda: iter_passages(path))


numbers = count()
READERS = {"attribution": read_benchmark, "questions": read_questions, "multihop": read_triples, "claims": read_claims}
DATA_SETS = [(family, name) for family in READERS for name in load_data_sets(family)]


@pytest.mark.parametrize(("family", "name"), DATA_SETS, ids=[f"{family}-{name}" for family, name in DATA_SETS])
@settings(max_examples=settings.default.max_examples // 2)
@given(data=json_lines | tables)
def test_any_rows_are_a_data_set_or_refused(tmp_path, family, name, data):
    for suffix in ("jsonl", "json", "tsv"):
        path = tmp_path / f"{next(numbers)}.{suffix}"  # a file that was read is not read again
        path.write_bytes(data)
        refused_or_read(lambda path=path: READERS[family](name, path))


RECIPE = """env = "claimcheck-mini"
model = "m"
seed = 1
[lora]
rank = 4
[evaluation]
n = 3
[[stages]]
kind = "sft"
epochs = 1
[[stages]]
kind = "grpo"
steps = 2
"""


@given(data=st.data())
def test_any_recipe_is_built_or_refused(tmp_path, data):
    lines = RECIPE.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "value", "bytes", "key"]))
        if kind == "drop":
            lines[number] = ""
        elif kind == "value":
            value = data.draw(
                st.sampled_from(["-1", "nan", "1e999", '"x"', "[]", "{a = 1}", "true", "2020-01-01", '"\\u0000"'])
            )
            lines[number] = f"{lines[number].partition('=')[0] or 'a'}= {value}"
        elif kind == "key":
            lines[number] = f"{data.draw(st.sampled_from(['stages', 'lora', 'evaluation', 'kind', 'x.y']))} = 1"
        else:
            lines[number] = data.draw(st.text(max_size=9))
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join(lines), "utf-8", errors="replace")
    changes = data.draw(
        st.dictionaries(st.sampled_from(["stages.0.kind", "stages.9", "lora.rank.x", "seed", ".", ""]), values)
    )

    def build():
        recipe_of(with_changes(read_recipe(path), changes))

    refused_or_read(build)


@given(data=files)
def test_any_list_of_tasks_is_read_or_refused(tmp_path, data):
    path = tmp_path / "tasks.txt"
    path.write_bytes(data)
    refused_or_read(lambda: read_tasks(path))


def choices(annotation) -> list[object]:
    """The values of every Literal within a type."""
    inner = get_args(annotation)
    return list(inner) if get_origin(annotation) is Literal else [value for part in inner for value in choices(part)]


NAMES = ("", "x", "train", "test", "bm25", "dense", "hybrid", "late", "rules", "nli:/none", "quco:/none", "/none", ".")
texts = st.sampled_from([*NAMES, "\ud800", "\x00", "a\nb", "x" * 3_000])
PLAIN = {"int": st.integers(1, 7), "bool": st.booleans(), "float": st.floats(0, 2), "str": texts}


@pytest.mark.parametrize("word", ["x" * 3_000, "\x00" * 3_000, "\ud800" * 3_000])
def test_a_setting_without_end_is_quoted_in_part(word):
    with pytest.raises(FactgymError) as raised:
        make("claimcheck", reward=word)
    line = error_line(raised.value)
    assert "there is no reward 'x" in line if word[0] == "x" else line.isprintable()
    assert len(line) < 2_000 and line.isprintable()


@settings(max_examples=5 * settings.default.max_examples // 2)
@given(data=st.data())
def test_any_settings_make_an_environment_that_scores_or_are_refused(monkeypatch, tmp_path, data):
    monkeypatch.chdir(tmp_path)  # a relative path among the settings is written where the test may write
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    id_ = data.draw(st.sampled_from(list_envs()))
    fields = spec(id_).load().Config.model_fields
    config = {}
    for name in data.draw(st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)):
        literals = choices(fields[name].annotation)
        kinds = [kind for kind in PLAIN if re.search(rf"\b{kind}\b", str(fields[name].annotation))]
        fitting = st.sampled_from(literals) if literals else st.one_of([PLAIN[kind] for kind in kinds] or [values])
        config[name] = data.draw(fitting | values if data.draw(st.integers(0, 4)) == 0 else fitting)

    def play():
        env = make(id_, **config)
        env.reset(seed=0)
        while env.episode.stop is None:
            env.step("x")
        assert env.episode.stop != "error", env.episode.fault

    refused_or_read(play)
