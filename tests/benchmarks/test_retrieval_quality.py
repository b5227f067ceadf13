"""Recall, nDCG and MRR: against trec_eval (pytrec_eval), by hand, over public data, and at the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from commands import run_factgym

from factgym.benchmarks.retrieval import evaluate_index, read_judged, score_ranking
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.index import build_index

NAMES = {f"recall@{k}": f"recall_{k}" for k in (2, 5, 10)} | {"nDCG@10": "ndcg_cut_10", "MRR@10": "recip_rank"}
"""Ours, and trec_eval's."""


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """Four passages and three queries, of which one has no judgement of this split and one a grade of 2."""
    texts = {
        "a": "The bridge was built by Ada Byron.",
        "b": "Ada Byron was born in Leeds.",
        "c": "Rain.",
        "d": "Leeds.",
    }
    rows = [{"_id": id_, "title": id_.upper(), "text": text} for id_, text in texts.items()]
    queries = [{"_id": "1", "text": "Who built the bridge?"}, {"_id": "2", "text": "Leeds"}, {"_id": "3", "text": "x"}]
    for name, lines in (("corpus.jsonl", rows), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (tmp_path / "qrels").mkdir()
    judgements = "query-id\tcorpus-id\tscore\n1\ta\t1\n1\tc\t0\n2\tb\t1\n2\td\t2\n"
    (tmp_path / "qrels" / "test.tsv").write_text(judgements, "utf-8")
    return tmp_path


def test_a_ranking_is_scored_by_hand() -> None:
    scores = score_ranking(["x", "a", "b"], {"a": 1.0, "b": 1.0}, [1, 2, 3])
    assert (scores["recall@1"], scores["recall@2"], scores["recall@3"]) == (0, 0.5, 1)
    assert scores["MRR@10"] == 0.5
    assert scores["nDCG@10"] == pytest.approx((0.6309297536 + 0.5) / (1 + 0.6309297536))


def test_it_is_what_trec_eval_computes() -> None:
    """Random rankings and grades, shorter and longer than the cutoffs."""
    trec = pytest.importorskip("pytrec_eval", reason="needs the extra 'test-extras'")
    rng = random.Random(0)
    documents = [f"d{number}" for number in range(40)]
    for _ in range(100):
        ids = rng.sample(documents, rng.choice([0, 3, 10, 30]))
        grades = {id_: rng.choice([1, 1, 2, 3]) for id_ in rng.sample(documents, rng.randint(1, 15))}
        scores = score_ranking(ids, {id_: float(grade) for id_, grade in grades.items()}, [2, 5, 10])
        evaluator = trec.RelevanceEvaluator({"q": grades}, {"recall.2,5,10", "ndcg_cut.10", "recip_rank"})
        run = {id_: 100.0 - rank for rank, id_ in enumerate(ids[:10])}
        values = evaluator.evaluate({"q": run}).get("q", {})
        for ours, theirs in NAMES.items():
            assert scores[ours] == pytest.approx(values.get(theirs, 0.0)), ours


def test_a_folder_in_beirs_layout(beir: Path) -> None:
    judged = read_judged(str(beir))
    assert [(query.id, dict(query.grades)) for query in judged.queries] == [("1", {"a": 1}), ("2", {"b": 1, "d": 2})]
    quality = evaluate_index(build_index(judged.corpus), judged, [1])
    assert quality.metrics["recall@1"].value == 0.75
    assert quality.metrics["MRR@10"].value == 1


@pytest.mark.parametrize(
    ("name", "count", "passages"), [("hotpotqa", 200, 1971), ("2wikimultihopqa", 164, 1294), ("nq", 2655, 2599)]
)
def test_gold_passages_of_public_data(data_dir: Path, name: str, count: int, passages: int) -> None:
    """BM25 among the passages of all questions is far above chance."""
    judged = read_judged(name, data_dir)
    assert (len(judged.queries), len(judged.corpus)) == (count, passages)
    assert all(id_ in judged.corpus for query in judged.queries for id_ in query.grades)
    quality = evaluate_index(build_index(judged.corpus), judged.queries[:100])
    assert quality.metrics["recall@10"].value > 0.6


def test_squad_questions_have_their_paragraph(data_dir: Path) -> None:
    judged = read_judged("squad", data_dir)
    query = judged.queries[0]
    (id_,) = query.grades
    assert query.text == "Which NFL team represented the AFC at Super Bowl 50?"
    assert judged.corpus.get(id_).text.startswith("Super Bowl 50 was an American football game")


def test_bm25_on_scifact_is_as_good_as_published(data_dir: Path) -> None:
    """Thakur et al., BEIR (NeurIPS 2021), table 2: nDCG@10 of BM25 on SciFact is .665."""
    judged = read_judged("scifact", data_dir)
    assert (len(judged.queries), len(judged.corpus)) == (300, 5183)
    assert sum(len(query.grades) for query in judged.queries) == 339
    quality = evaluate_index(build_index(judged.corpus), judged)
    assert quality.metrics["nDCG@10"].value == pytest.approx(0.665, abs=0.01)


def test_scifact_as_its_authors_publish_it(tmp_path: Path) -> None:
    abstract = {"doc_id": 7, "title": "Leeds", "abstract": ["It isn't far.", 'A "hub".'], "structured": False}
    claim = {"id": 1, "claim": "Leeds is a hub.", "evidence": {}, "cited_doc_ids": [7]}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(abstract) + "\n", "utf-8")
    (tmp_path / "claims_dev.jsonl").write_text(json.dumps(claim) + "\n", "utf-8")
    judged = read_judged("scifact", tmp_path)
    assert [(query.id, dict(query.grades)) for query in judged.queries] == [("1", {"7": 1})]
    (tmp_path / "corpus.jsonl").rename(tmp_path / "old.jsonl")
    columns = '"[\'A ""hub"".\'\n ""It isn\'t far.""]"'
    (tmp_path / "corpus_train.csv").write_text(f"doc_id,title,abstract,structured\n7,Leeds,{columns},False\n", "utf-8")
    assert judged.corpus.get("7").text == 'It isn\'t far. A "hub".'
    assert read_judged("scifact", tmp_path).corpus.get("7").text == 'A "hub". It isn\'t far.'
    with pytest.raises(ConfigError, match="SciFact's folder"):
        read_judged("scifact", tmp_path / "none")


def test_judgements_of_trec(beir: Path) -> None:
    expected = read_judged(str(beir)).queries
    (beir / "qrels" / "test.tsv").unlink()
    (beir / "qrels" / "test.txt").write_text("1 0 a 1\n1 0 c 0\n2\t0\tb  1\n\n2 Q0 d 2\n", "utf-8")
    assert read_judged(str(beir)).queries == expected
    with pytest.raises(ConfigError, match="it has: test"):
        read_judged(str(beir), split="dev")
    (beir / "qrels" / "test.txt").write_text("1 0 a 1\n1 a 1\n", "utf-8")
    with pytest.raises(DataError, match="line 2: a judgement is"):
        read_judged(str(beir))


def test_unusable_files_are_errors_that_name_the_fix(beir: Path, data_dir: Path) -> None:
    with pytest.raises(ConfigError, match="hotpotqa"):
        read_judged("hotpot", data_dir)
    with pytest.raises(ConfigError, match="FACTGYM_DATA"):
        read_judged("hotpotqa")
    with pytest.raises(DataError, match=r"--split of .*paragraphs"):
        read_judged("popqa", data_dir)
    with pytest.raises(ConfigError, match="it has: test"):
        read_judged(str(beir), split="dev")
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\tnan\n", "utf-8")
    with pytest.raises(DataError, match="finite"):
        read_judged(str(beir))


def test_the_commands(beir: Path, tmp_path: Path) -> None:
    words = f"corpus evaluate {beir} --index bm25 --index bm25s -k 1 --set k1=1.2 --out q.json".split()
    done = run_factgym(words, tmp_path)
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "q.json").read_text("utf-8"))
    assert set(numbers["indexes"]) == {"bm25", "bm25s"}
    assert numbers["indexes"]["bm25"]["recall@1"]["value"] == 0.75
    done = run_factgym([*words, "--set", "encoder=x"], tmp_path)
    assert done.returncode == 2
    assert "no option 'encoder'" in done.stderr
    done = run_factgym(["corpus", "search", str(beir / "corpus.jsonl"), "Leeds", "-k", "1", "--json"], tmp_path)
    assert json.loads(done.stdout)["id"] == "d"
