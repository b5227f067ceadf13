"""Where ProFact's claims and evidence come from: AVeriTeC's files, a store on disk, a haystack that says so, a dense index."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profact_claims import call, prompt_text, record, started, write_claims

import factgym
from factgym.agents.rollout.engine import play_episode
from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import clear_shared
from factgym.corpora.dense import PRESETS, Encoder
from factgym.datasets.averitec import LABELS
from factgym.datasets.evidence import GoldStore
from factgym.envs.profact.agents import AGENTS, most_frequent_label
from factgym.rewards.profact.stages import comparison_strings


def test_blank_claims_and_claims_without_a_question_are_left_out(tmp_path: Path) -> None:
    rows = [record(number) for number in range(5)]
    rows[1]["claim"] = "  "
    rows[3]["questions"] = []
    (tmp_path / "dev.json").write_text(json.dumps(rows), "utf-8")
    env = factgym.make("profact", path=str(tmp_path))
    assert [env.tasks[index].check.claim_id for index in range(len(env.tasks))] == [0, 2, 4]
    assert env.tasks.describe()["skipped"] == 2
    # Their evidence stays in the haystack, which is that of the whole split.
    assert len(env.tasks.store.for_claim(0)) == 12


def test_nothing_to_score_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps([record(0) | {"claim": " "}]), "utf-8")
    with pytest.raises(DataError, match=r"dev\.json: no claim with a text"):
        factgym.make("profact", path=str(tmp_path))


def test_a_source_without_a_path_names_the_missing_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    with pytest.raises(ConfigError, match="needs AVeriTeC's files: give its path"):
        factgym.make("profact", source="averitec")
    monkeypatch.setenv("FACTGYM_DATA", write_claims(tmp_path))
    assert len(factgym.make("profact", source="averitec").tasks) == 8


def test_fewer_claims_search_the_haystack_of_all(tmp_path: Path) -> None:
    path = write_claims(tmp_path)
    few, all_ = (factgym.make("profact", path=path, size=size) for size in (2, None))
    assert (len(few.tasks), len(all_.tasks)) == (2, 8)
    assert few.tasks.store is all_.tasks.store
    assert few.tasks.fingerprint() != all_.tasks.fingerprint()


def test_a_file_can_be_named_itself_and_the_split_is_then_its_name(tmp_path: Path) -> None:
    file = Path(write_claims(tmp_path)) / "dev.json"
    env = factgym.make("profact", path=str(file), split="mine")
    assert env.tasks[0].id.startswith("mine-") and env.config.chosen_split == "mine"


def write_store(folder: Path, claims: int = 8) -> str:
    (folder / "dev").mkdir(parents=True)
    for number in range(claims):
        rows = [
            {
                "claim_id": str(number),
                "type": "claim",
                "query": "bridge",
                "url": f"https://pages.example/2019/02/0{index + 1}/story",
                "url2text": [
                    f"The bridge of claim {number} stood on page {index}.",
                    f"It was built of stone {number}-{index}.",
                ],
            }
            for index in range(4)
        ]
        (folder / "dev" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return str(folder)


@pytest.mark.parametrize("scope", ["claim", "global"])
def test_a_knowledge_store_is_searched_per_claim_or_as_a_whole(tmp_path: Path, scope: Any) -> None:
    (tmp_path / "claims").mkdir()
    env = started(write_claims(tmp_path / "claims"), 3, store=write_store(tmp_path / "store"), scope=scope, k=9)
    env.step(call("ask", questions=["What of the bridge?"]))
    obs = env.step(call("search", query="bridge claim stood page"))[0]
    numbers = {number for number in range(8) if f"claim {number} stood" in obs}
    assert numbers == {3} if scope == "claim" else len(numbers) > 1
    report = env.truncate("context_limit")
    assert report.metrics["store"]["kind"] == "knowledge store"
    assert "haystack" not in report.metrics["store"]["note"]
    assert env.slow_steps


def test_a_store_that_is_not_there_is_not_replaced_by_a_haystack(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        factgym.make("profact", path=write_claims(tmp_path), store=str(tmp_path / "nowhere"))


class Bag:
    """An encoder that hashes words: enough to see that queries and passages go through it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: list[str], **options: Any) -> Any:
        self.texts += texts
        rows = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[hashlib.sha256(word.encode()).digest()[0] % 64] += 1
        return rows


def test_dense_retrieval_by_flag_with_the_published_instruction_for_queries(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'dense'")
    bag = Bag()
    encoder = Encoder(bag, "qwen3")
    env = started(write_claims(tmp_path), index="dense", index_options={"encoder": encoder})
    env.step(call("ask", questions=["What?"]))
    obs = env.step(call("search", query="zq5x1"))[0]
    assert obs.count("<result") == 3
    queries = [text for text in bag.texts if text.startswith("Instruct: ")]
    assert queries == [
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:zq5x1"
    ]
    assert any(text.startswith("news.example\nThe bridge report") for text in bag.texts)
    assert env.slow_steps


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (None, "Qwen/Qwen3-Embedding-0.6B"),
        ({"encoder": "me/mine"}, "me/mine"),
        ({"preset": "plain"}, "sentence-transformers/all-MiniLM-L6-v2"),
    ],
)
def test_dense_retrieval_takes_the_papers_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str] | None, model: str
) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'dense'")
    loaded: list[str] = []

    def load(encoder: Any) -> Bag:
        loaded.append(encoder.source)
        return Bag()

    clear_shared()  # an encoder is loaded once in a process
    monkeypatch.setattr(Encoder, "_load", load)
    env = started(write_claims(tmp_path), index="dense", index_options=options)
    env.step(call("ask", questions=["What?"]))
    assert "<result" in env.step(call("search", query="bridge"))[0]
    assert loaded == [model]
    clear_shared()


def test_a_store_without_the_files_of_some_claims_is_refused_at_once(tmp_path: Path) -> None:
    path, store = write_claims(tmp_path), write_store(tmp_path / "store", claims=5)
    with pytest.raises(DataError, match=r"lacks the files of 3 of 8 claims: 5, 6, 7 .*with size=5\."):
        factgym.make("profact", path=path, store=store)
    assert len(factgym.make("profact", path=path, store=store, size=5).tasks) == 5
    assert len(factgym.make("profact", path=path, store=store, scope="global").tasks) == 8


def test_the_preset_names_the_papers_model() -> None:
    assert PRESETS["qwen3"].model == "Qwen/Qwen3-Embedding-0.6B"
    assert PRESETS["qwen3"].passage_prefix == "" and PRESETS["qwen3"].unit_norm


def test_a_large_index_is_kept_on_disk(tmp_path: Path) -> None:
    env = started(cache_dir=str(tmp_path / "kept"), k=2)
    env.step(call("ask", questions=["What?"]))
    first = env.step(call("search", query="jobless rate"))[0]
    assert list((tmp_path / "kept").iterdir())
    again = started(k=2)
    again.step(call("ask", questions=["What?"]))
    assert again.step(call("search", query="jobless rate"))[0] == first


# AVeriTeC itself


@pytest.fixture(scope="module")
def averitec(data_dir: Path) -> str:
    return str(data_dir / "averitec")


def test_all_real_claims_can_be_played_but_the_blank_one(averitec: str) -> None:
    dev, train = (factgym.make("profact", path=averitec, split=split) for split in ("dev", "train"))
    assert (len(dev.tasks), dev.tasks.skipped) == (500, 0)
    assert (len(train.tasks), train.tasks.skipped) == (3067, 1)
    assert 1948 not in {train.tasks[index].check.claim_id for index in range(len(train.tasks))}
    assert isinstance(dev.tasks.store, GoldStore) and "all 500 claims" in dev.tasks.store.note


def test_the_gold_is_that_of_the_official_scorer(averitec: str) -> None:
    env = factgym.make("profact", path=averitec)
    rows = json.loads((Path(averitec) / "dev.json").read_text("utf-8"))
    for index in range(len(env.tasks)):
        task = env.tasks[index]
        row = rows[task.check.claim_id]
        assert (task.gold.pairs, task.gold.verdict) == (tuple(comparison_strings(row["questions"])), row["label"])
        assert task.gold.questions == tuple(question["question"] for question in row["questions"])


def test_no_prompt_of_a_real_episode_holds_the_article_or_the_justification(averitec: str) -> None:
    env = factgym.make("profact", path=averitec)
    for index in range(60):
        env.reset(options={"task": index})
        check = env.task.check
        policy = AGENTS["workflow"].start(env, 0)
        while env.episode.stop is None:
            prompt = env.policy_prompt()
            head = json.dumps(prompt[:2], ensure_ascii=False)
            assert not check.fact_checking_article or check.fact_checking_article not in head
            # Some annotators made the justification of an answer's words, so that evidence may hold it later.
            assert env.stage != "question" or not check.justification or check.justification not in head
            env.step(policy.act(prompt, env.available_tools()))
        assert env.episode.stop == "submitted"


def test_limits_of_the_oracle_on_real_claims(averitec: str) -> None:
    """All of the label; of the texts what five questions with an answer each can match, up to METEOR's own rest."""
    env = factgym.make("profact", path=averitec, reward="process")
    full = 0
    for index in range(120):
        made = play_episode(env, AGENTS["oracle"], index)
        parts, check = made["reward"]["components"], env.tasks[index].check
        assert parts["verdict"] == 1.0 and made["stop"] == "submitted"
        distinct = {" ".join(re.findall(r"\w+", question.question.casefold())) for question in check.questions}
        answers = sum(max(1, len(question.answers)) for question in check.questions)
        if len(check.questions) <= 5 and len(distinct) == answers:
            full += 1
            assert made["reward"]["total"] == pytest.approx(env.reward_bounds[1], abs=1e-6), check.id
            assert made["reward"]["total"] > 2.7
        else:
            assert made["reward"]["total"] <= env.reward_bounds[1] + 1e-9
    assert full > 90


def test_every_label_occurs_and_every_prompt_can_be_read_back(averitec: str) -> None:
    env = factgym.make("profact", path=averitec)
    assert {env.tasks[index].gold.verdict for index in range(200)} == set(LABELS)
    for index in range(0, 500, 25):
        env.reset(options={"task": index})
        assert "\\n\\nStage: question." in prompt_text(env)


def test_the_prior_of_the_labels_is_that_of_the_training_split(averitec: str, tmp_path: Path) -> None:
    """The frequencies are counted by hand from AVeriTeC's train.json, each once more; the dev claims play."""
    rows = json.loads((Path(averitec) / "train.json").read_text("utf-8"))
    counts = Counter(row["label"] for row in rows if row["claim"].strip())
    dev, train = (factgym.make("profact", path=averitec, split=split) for split in ("dev", "train"))
    assert dev.tasks.prior == train.tasks.prior == factgym.make("profact", path=f"{averitec}/dev.json").tasks.prior
    assert dev.tasks.prior == {label: (counts[label] + 1) / (counts.total() + 4) for label in dev.tasks.prior}
    assert most_frequent_label(dev.tasks) == "Refuted"
    # Without a training split, the file's own labels, and results say so.
    alone = tmp_path / "claims.json"
    alone.write_text(json.dumps([row | {"label": "Supported"} for row in rows[:3]]), "utf-8")
    own = factgym.make("profact", path=str(alone))
    assert own.tasks.prior["Supported"] == 4 / 7 and most_frequent_label(own.tasks) == "Supported"
    assert any("train.json" in text for text in own.warnings()) and not any("train.json" in t for t in dev.warnings())
