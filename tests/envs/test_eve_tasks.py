"""Where the solver's questions come from: the generated world, the seven benchmarks, data sets of one's own."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from eve_examples import AUTHOR, BARE, BORN, CORPUS, PASSAGES, TOWN, WRITTEN, blocks, call, report

import factgym
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import clear_shared
from factgym.corpora.build import build_corpus
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_bm25 import StoredBm25
from factgym.datasets.multihop import BENCHMARKS, triple_row
from factgym.envs.eve.config import EveConfig, EveSolverConfig
from factgym.envs.eve.solver_agents import SOLVER_AGENTS
from factgym.rewards.answer_matching import exact_match


def played(env: Env[Any], index: int, name: str = "oracle") -> Any:
    env.reset(options={"task": index})
    policy = SOLVER_AGENTS[name].start(env, 0)
    info: dict[str, Any] = {}
    while env.episode.stop is None:
        info = env.step(policy.act(env.policy_prompt(), env.available_tools()))[4]
    return info["reward"]


@pytest.fixture
def triples_file(tmp_path: Path) -> str:
    rows = [{**triple_row(triple), "V": 0.6} for triple in (AUTHOR, TOWN, BARE)]
    (tmp_path / "triples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "triples.jsonl")


@pytest.fixture
def corpus_file(tmp_path: Path) -> str:
    """The layout of FlashRAG and Search-R1: the title on the first line of the contents."""
    rows = [{"id": passage.id, "contents": f'"{passage.title}"\n{passage.text}'} for passage in PASSAGES]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return str(tmp_path / "corpus.jsonl")


def test_the_generated_splits_have_their_sizes_and_share_nothing() -> None:
    names: set[str] = set()
    for split, size in {"validation": 100, "train": 400, "test": 100}.items():
        env = factgym.make("eve-solver", split=split)
        assert len(env.tasks) == size
        subjects = {env.tasks[index].triple.meta["subject"] for index in range(size)}
        assert not names & subjects
        names |= subjects
    default = factgym.make("eve-solver")
    assert default.config.chosen_split == "validation" and default.warnings() == []
    small = factgym.make("eve-solver", size=20)
    assert [small.tasks[i].triple.question for i in range(20)] == [default.tasks[i].triple.question for i in range(20)]
    assert factgym.make("eve-solver", seed=5).tasks[0].triple != default.tasks[0].triple


def test_every_generated_question_has_gold_evidence_in_the_corpus() -> None:
    tasks = factgym.make("eve-solver", split="train").tasks
    for index in range(len(tasks)):
        triple = tasks[index].triple
        assert len(triple.evidence) == triple.hops
        assert all(span.matches(tasks.corpus) for span in triple.evidence)


def test_a_data_set_as_the_loop_writes_it_over_a_corpus_as_search_r1_has_it(
    triples_file: str, corpus_file: str
) -> None:
    env = factgym.make("eve-solver", source="triples", path=triples_file, corpus=corpus_file)
    env.reset(options={"task": "author"})
    assert env.task.triple.meta["V"] == 0.6
    env.step(call("search", query_list="Crimson Orvessa"))
    result = report(env, blocks("Dolvin", WRITTEN))
    assert result.total == pytest.approx(1.3) and result.metrics["evidence_span"]["document"] == "novel"
    assert "1 of 3 questions have no gold evidence" in env.warnings()[0]
    again = factgym.make("eve-solver", source="triples", path=triples_file, corpus=corpus_file)
    assert again.tasks is env.tasks
    from_file = factgym.make("eve-solver", source="triples", path=triples_file, corpus=CORPUS)
    assert from_file.tasks is not env.tasks


def test_a_corpus_on_disk_is_the_corpus_of_its_source(triples_file: str, corpus_file: str, tmp_path: Path) -> None:
    clear_shared()  # libraries are shared by their content
    built = str(build_corpus(corpus_file, tmp_path / "built").path)
    on_disk, in_memory = (
        factgym.make("eve-solver", source="triples", path=triples_file, corpus=corpus)
        for corpus in (built, corpus_file)
    )
    assert isinstance(on_disk.tasks.corpus, StoredCorpus)
    assert isinstance(on_disk.tasks.library._index, StoredBm25)
    assert on_disk.tasks.fingerprint() == in_memory.tasks.fingerprint()
    expected = played(in_memory, 0)
    assert played(on_disk, 0) == expected
    assert on_disk.episode.messages == in_memory.episode.messages
    assert played(pickle.loads(pickle.dumps(on_disk)), 0) == expected
    proposers = [factgym.make("eve-proposer", corpus=corpus, size=2) for corpus in (built, corpus_file)]
    assert proposers[0].tasks.fingerprint() == proposers[1].tasks.fingerprint()
    assert proposers[0].tasks[1].document == proposers[1].tasks[1].document


def test_the_benchmarks_have_the_questions_of_their_files(data_dir: Path) -> None:
    expected = {
        "nq": 3610,
        "triviaqa": 1805,
        "popqa": 14267,
        "hotpotqa": 200,
        "2wikimultihopqa": 200,
        "musique": 500,
        "bamboogle": 125,
    }
    assert set(expected) == set(BENCHMARKS)
    for source, size in expected.items():
        env = factgym.make("eve-solver", source=source, path=str(data_dir), search=False)
        assert len(env.tasks) == size, source
        env.reset(seed=1)
        right = env.task.triple.answers[0]
        assert env.step(f"<answer>{right}</answer>")[4]["reward"].metrics["benchmark"] == source


def test_hotpotqas_paragraphs_are_searched_and_its_supporting_facts_are_the_gold(data_dir: Path) -> None:
    env = factgym.make("eve-solver", source="hotpotqa", path=str(data_dir))
    assert len(env.tasks.corpus) == 1971
    assert all(span.matches(env.tasks.corpus) for i in range(200) for span in env.tasks[i].triple.evidence)
    assert env.warnings() == [
        "The 1971 passages that come with the questions are all that is searched, which is easier than an encyclopedia."
    ]
    assert sum(played(env, index).total for index in range(0, 200, 5)) / 40 > 1.25


def test_other_passages_can_be_searched_and_missing_gold_is_reported(data_dir: Path) -> None:
    wiki = str(data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json")
    env = factgym.make("eve-solver", source="2wikimultihopqa", path=str(data_dir), corpus=wiki)
    assert len(env.tasks.corpus) == 6119
    assert env.warnings() == [
        "36 of 200 questions have no gold evidence: the evidence term is 0 for them, and reports give no F1 of their "
        "evidence."
    ]
    assert played(env, 3).metrics["em"] is True
    assert env.slow_steps


def test_a_slice_is_drawn_by_the_seed_and_keeps_the_order(data_dir: Path) -> None:
    def ids(**config: Any) -> list[str]:
        tasks = factgym.make("eve-solver", source="nq", path=str(data_dir), search=False, **config).tasks
        return [tasks.id_at(index) for index in range(len(tasks))]

    drawn = ids(size=50)
    assert drawn == ids(size=50) != ids(size=50, seed=1)
    assert drawn == sorted(drawn) and len(set(drawn)) == 50


def test_the_folder_of_public_data_is_found_by_its_variable(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTGYM_DATA", str(data_dir))
    assert len(factgym.make("eve-solver", source="bamboogle", search=False).tasks) == 125
    split = factgym.make("eve-solver", source="hotpotqa", split="r1", search=False)
    assert len(split.tasks) == 500 and split.tasks.without_evidence == 500


def test_squad_answers_are_compared_as_the_benchmarks_are() -> None:
    assert exact_match("the  Eiffel-Tower!", ["Eiffeltower"]) and not exact_match("tower", ["Eiffel tower"])


def test_unreadable_files_are_errors_that_name_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    with pytest.raises(ConfigError, match="needs a file or folder of questions: give its path"):
        factgym.make("eve-solver", source="hotpotqa")
    with pytest.raises(DataError, match="holds no musique"):
        factgym.make("eve-solver", source="musique", path=str(tmp_path))
    with pytest.raises(ConfigError, match="does not exist"):
        factgym.make("eve-solver", source="nq", path=str(tmp_path / "none.json"))
    (tmp_path / "nq.jsonl").write_text('{"question": "Who?", "answer": ["me"]}', "utf-8")
    with pytest.raises(ConfigError, match="chooses nothing"):
        factgym.make("eve-solver", source="nq", path=str(tmp_path / "nq.jsonl"), split="dev")
    with pytest.raises(ConfigError, match="these questions of 'nq' bring no documents"):
        factgym.make("eve-solver", source="nq", path=str(tmp_path / "nq.jsonl"))
    with pytest.raises(ConfigError, match="corpus is a file or folder"):
        factgym.make("eve-solver", corpus=5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"corpus": "no/such/passages.jsonl"}, "does not exist: give a file or folder of passages"),
        ({"index": "bm26"}, "Did you mean 'bm25'"),
        ({"index": None}, "index"),
        ({"index_options": {"k9": 1}}, "no option 'k9'"),
        ({"triples": 3}, "triples is a sequence of factgym.*, at least one"),
        ({"triples": []}, "triples is a sequence of factgym.*, at least one"),
        ({"triples": ["Who?"]}, "triples is a sequence of factgym.*, at least one"),
    ],
)
def test_impossible_settings_are_refused_by_make_and_not_in_every_episode(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        factgym.make("eve-solver", **settings)


def test_both_environments_share_their_settings() -> None:
    assert issubclass(EveSolverConfig, EveConfig)
    config = EveConfig(source="triples")
    assert (config.splits, config.chosen_split) == ((), "")
    assert EveConfig(source="hotpotqa").chosen_split == "distractor"
    assert BORN in CORPUS.get("dolvin").text


def test_gold_evidence_is_located_in_the_corpus_that_is_searched(data_dir: Path) -> None:
    """A benchmark's places are those of its own documents: in another corpus they are looked up, or left open."""
    corpus = data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json"
    path = str(data_dir / "2wikimultihopqa" / "2wiki_dev_sample_migres.json")
    env = factgym.make("eve-solver", source="2wikimultihopqa", path=path, corpus=str(corpus))
    evidence = [span for index in range(60) for span in env.tasks[index].triple.evidence]
    placed = [span for span in evidence if span.is_placed]
    assert placed and len(placed) < len(evidence)
    assert all(span.matches(env.tasks.corpus) for span in placed)
    assert all(span.text and not span.document for span in evidence if not span.is_placed)
