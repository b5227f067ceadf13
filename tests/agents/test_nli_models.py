"""NLI models as agents: labels, scores as transformers itself computes them, quotes by score, and a check by a trained one."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from test_engine import many, run
from tiny_nli import libraries, save_model, train

import factgym
from factgym.agents.nli.policy import judge_statements, run_together
from factgym.agents.nli.scorer import NliSettings, Pair, PairScore, PairScorer, label_meanings
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.jobs import Job
from factgym.check.answers import Answer
from factgym.check.checker import CheckedClaim, Checker
from factgym.check.documents import CheckedDocuments
from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Passage
from factgym.envs.claimcheck.scripted import EpisodeBrief

ENV = "claimcheck-multihop"
SENTENCES = (
    "Refunds are paid within 14 days.",
    "A refund above 500 euros needs the approval of the finance team.",
    "Annual plans are refunded in the first month.",
)
CLAIMS = ("Refunds are paid within 14 days.", "Refunds are paid within 30 days.", "Customers get a free mug.")
TEXTS = [*SENTENCES, *CLAIMS, "Refund policy"]
PAIRS = [Pair(premise, claim, "Is it so?") for premise in (SENTENCES[0], " ".join(SENTENCES)) for claim in CLAIMS]


def label(premise: str, claim: str) -> int:
    """Entailment 0, neutral 1, contradiction 2: the rule that the trained model has learnt."""
    if claim in premise:
        return 0
    return 2 if re.sub(r"\d+", "14", claim) in premise else 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    libraries()
    root = tmp_path_factory.mktemp("handbook")
    (root / "docs").mkdir()
    (root / "docs" / "refunds.md").write_text("# Refund policy\n\n" + "\n".join(SENTENCES) + "\n", "utf-8")
    return root


@pytest.fixture(scope="module")
def trained(folder: Path) -> str:
    """A classifier with the labels of MNLI that knows `label` for what the agent asks about `CLAIMS`."""
    names = {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}
    labels = {"id2label": names, "label2id": {name: key for key, name in names.items()}}
    model = save_model(folder / "nli", TEXTS, initializer_range=0.1, **labels)
    premises = [" ".join(texts) for size in (1, 2, 3) for texts in permutations(SENTENCES, size)]
    premises.append("Refund policy\n" + " ".join(SENTENCES))
    pairs = [(premise, claim) for premise in premises for claim in CLAIMS]
    train(model, pairs, [label(*pair) for pair in pairs])
    return model


def check(folder: Path, agent: str, **settings: Any) -> tuple[CheckedClaim, ...]:
    checker = Checker(CheckedDocuments(folder / "docs"), agent, settings)
    (answer,) = checker.check([Answer("a", " ".join(CLAIMS))])
    return answer.claims


def test_a_trained_model_checks_a_text_with_verified_quotes(folder: Path, trained: str) -> None:
    supported, contradicted, unsupported = check(folder, f"nli:{trained}")
    assert (supported.status, contradicted.status) == ("supported", "contradicted")
    assert [quote.text for quote in supported.quotes] == [SENTENCES[0]]
    assert [quote.text for quote in contradicted.quotes] == [SENTENCES[0]]
    assert contradicted.not_carried == "30" and supported.not_carried == ""
    assert unsupported.status == "unsupported" and unsupported.not_carried == "Customers get a free mug"
    assert re.search(r"probability of (0\.9\d|1\.00) that the evidence supports", supported.reason)
    # With the certain as the only threshold nothing is decided.
    assert {claim.status for claim in check(folder, f"nli:{trained}", threshold=1.0)} == {"unsupported"}


def test_episodes_end_with_a_valid_verdict_and_repeat(trained: str) -> None:
    agent = find_agent(f"nli:{trained}", ENV)
    first, _ = run(factgym.make(ENV), agent, many(4))
    again, _ = run(factgym.make(ENV), agent, many(4))
    for episode in first:
        assert episode["error"] is None and not any(turn["error"] for turn in episode["turns"])
        assert episode["turns"][-1]["calls"][0]["tool"] == "submit"
        # Quotes are word for word in passages that were opened.
        assert episode["reward"]["components"]["quote"] == 1.0
    key = lambda episodes: sorted((item["task"], item["reward"]["total"]) for item in episodes)  # noqa: E731
    assert key(first) == key(again)
    described = agent.describe()
    assert described["resolved"]["meanings"] == ["support", "other", "contradiction"]
    json.dumps(described)
    asyncio.run(agent.close())


@pytest.mark.parametrize("offline", [True, False])
def test_it_plays_with_few_turns_and_offline(trained: str, offline: bool) -> None:
    agent = find_agent(f"nli:{trained}", "claimcheck", {"max_turns": 3})
    env = factgym.make("claimcheck", max_turns=3, offline=offline)
    episodes, _ = run(env, agent, many(2))
    assert all(item["turns"][-1]["calls"][0]["tool"] == "submit" and not item["error"] for item in episodes)
    asyncio.run(agent.close())


def test_on_claims_with_a_source_it_gives_its_label_and_probability(trained: str, tmp_path: Path) -> None:
    """Against the library's own probabilities; the trained model knows these claims."""
    source = " ".join(SENTENCES)
    rows = [{"claim": text, "source": source, "label": n == 0} for n, text in enumerate(CLAIMS)]
    (tmp_path / "claims.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    agent = find_agent(f"nli:{trained}", "seva-fever")
    env = factgym.make("seva-fever", path=str(tmp_path / "claims.jsonl"))
    episodes, _ = run(env, agent, [Job(index) for index in range(3)])
    expected = [score.support for score in scorer(trained).score([Pair(source, text, "") for text in CLAIMS])]
    for episode in episodes:
        verdict = json.loads(episode["messages"][2]["content"])
        support = expected[episode["index"]]
        assert verdict["label"] == ("Attributable" if episode["index"] == 0 else "Not Attributable")
        assert verdict["confidence"] == pytest.approx(max(support, 1 - support), abs=0.006)
        assert episode["reward"]["metrics"]["correct"] and episode["reward"]["components"]["grounded_alignment"] > 0
    wrong = json.loads(next(e for e in episodes if e["index"] == 1)["messages"][2]["content"])
    assert wrong["error_type"] == "numerical_exaggeration" or "30" in wrong["fix_suggestion"]
    asyncio.run(agent.close())


# Scores


def scorer(model: str, **settings: Any) -> PairScorer:
    return PairScorer(model, NliSettings(**settings))


def test_scores_are_those_of_the_library_and_do_not_depend_on_the_batch(trained: str) -> None:
    _, transformers = libraries()
    pipeline = transformers.pipeline("text-classification", model=trained, top_k=None)
    scores = scorer(trained).score(PAIRS)
    single = [scorer(trained, batch_size=1).score([pair])[0] for pair in PAIRS]
    for pair, score, alone in zip(PAIRS, scores, single, strict=True):
        expected = {item["label"]: item["score"] for item in pipeline({"text": pair.premise, "text_pair": pair.claim})}
        assert score.support == pytest.approx(expected["ENTAILMENT"], abs=1e-5)
        assert score.contradiction == pytest.approx(expected["CONTRADICTION"], abs=1e-5)
        assert alone.support == pytest.approx(score.support, abs=1e-5)


def test_minicheck_on_t5_is_the_first_token_that_generation_would_draw(tmp_path: Path) -> None:
    torch, transformers = libraries()
    model = save_model(tmp_path / "MiniCheck-tiny", [*TEXTS, "predict:"], "T5ForConditionalGeneration")
    scores = scorer(model).score(PAIRS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(model)
    for pair, score in zip(PAIRS, scores, strict=True):
        inputs = tokenizer(f"predict: {pair.premise}</s>{pair.claim}", return_tensors="pt")
        made = network.generate(
            **{key: inputs[key] for key in ("input_ids", "attention_mask")},
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        answers = [tokenizer.convert_tokens_to_ids(word) for word in "01"]
        expected = torch.softmax(made.logits[0][0][answers].float(), -1)[1].item()
        assert score.support == pytest.approx(expected, abs=1e-5) and score.contradiction == 0


def test_lettucedetect_marks_the_tokens_of_the_claim(tmp_path: Path) -> None:
    torch, transformers = libraries()
    model = save_model(tmp_path / "lettucedect-tiny", TEXTS, "BertForTokenClassification", num_labels=2, limit=160)
    loaded = scorer(model)
    scores = loaded.score(PAIRS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForTokenClassification.from_pretrained(model).eval()
    assert any(score.spans for score in scores)
    for pair, score in zip(PAIRS, scores, strict=True):
        prompt = loaded._single_text(pair)
        assert pair.premise in prompt and pair.question in prompt and prompt.endswith("output:")
        inputs = tokenizer(prompt, pair.claim, return_tensors="pt", return_offsets_mapping=True)
        offsets, owners = inputs.pop("offset_mapping")[0].tolist(), inputs.sequence_ids(0)
        values = torch.softmax(network(**inputs).logits[0], -1)[:, 1].tolist()
        claim = [(*span, value) for span, owner, value in zip(offsets, owners, values, strict=True) if owner == 1]
        claim = [token for token in claim if token[0] < token[1]]
        assert score.support == pytest.approx(1 - max(value for *_, value in claim), abs=1e-5)
        marked = {at for start, end, value in claim if value > 0.5 for at in range(start, end)}
        assert marked == {at for start, end in score.spans for at in range(start, end) if not pair.claim[at].isspace()}


def test_long_premises_are_read_in_windows_that_fit(trained: str) -> None:
    limited = scorer(trained, context_length=40)
    passages = [Passage("a", "Refund policy", " ".join(f"{text[:-1]} {n}." for n in range(6) for text in SENTENCES))]
    brief = EpisodeBrief("Is it so?", CLAIMS[0], tuple(passages), True, 12)
    scored: list[Pair] = []

    def spy(pairs: Any) -> list[PairScore]:
        scored.extend(pairs)
        return limited.score(pairs)

    run_together([judge_statements(brief, passages, lambda: limited, 0.5)], spy)
    windows = [pair.premise for pair in scored if pair.premise.startswith("Refund policy\n")]
    assert len(windows) > 3
    assert max(limited.lengths([f"{window} {CLAIMS[0]}" for window in windows])) + 3 <= 40
    read = " ".join(window.removeprefix("Refund policy\n") for window in windows)
    assert read == passages[0].text
    # A single premise that is too long is cut, and not the claim.
    (score,) = limited.score([Pair(passages[0].text, CLAIMS[0])])
    assert 0 <= score.support <= 1


def test_several_sentences_are_quoted_where_none_suffices_alone() -> None:
    needed = set(SENTENCES[:2])

    class Loaded:
        def premise_tokens(self, claim: str, question: str) -> int:
            return 400

        def lengths(self, texts: list[str]) -> list[int]:
            return [len(text.split()) for text in texts]

    def score(pairs: Any) -> list[PairScore]:
        shares = [sum(text in pair.premise for text in needed) / 2 for pair in pairs]
        return [PairScore(0.9 * share) for share in shares]

    passages = [Passage(str(n), "", text) for n, text in enumerate(SENTENCES)]
    claim = "Refunds above 500 euros are paid within 14 days with an approval."
    brief = EpisodeBrief("", claim, tuple(passages), True, 12)
    ((entry,),) = run_together([judge_statements(brief, passages, Loaded, 0.5)], score)  # type: ignore[arg-type]
    assert entry["status"] == "supported"
    assert set(entry["quote"]) == needed and set(entry["evidence_ids"]) == {"0", "1"}


# Labels and faults


@pytest.mark.parametrize(
    ("name", "labels", "chosen", "expected"),
    [
        ("cross-encoder/nli-deberta-v3-base", "contradiction entailment neutral", None, "contradiction support other"),
        ("facebook/bart-large-mnli", "CONTRADICTION NEUTRAL ENTAILMENT", None, "contradiction other support"),
        ("m/zeroshot", "entailment not_entailment", None, "support other"),
        ("m/fever", "SUPPORTS REFUTES NOT-ENOUGH-INFO", None, "support contradiction other"),
        ("lytang/MiniCheck-RoBERTa-Large", "LABEL_0 LABEL_1", None, "other support"),
        ("KRLabsOrg/lettucedect-base-modernbert-en-v1", "LABEL_0 LABEL_1", None, "support other"),
        ("mine", "LABEL_0 LABEL_1", "unsupported,supported", "other support"),
        ("mine", "LABEL_0", ["supported"], "support"),
    ],
)
def test_labels_have_a_meaning(name: str, labels: str, chosen: Any, expected: str) -> None:
    assert label_meanings(name, dict(enumerate(labels.split())), chosen) == tuple(expected.split())


@pytest.mark.parametrize(
    ("labels", "chosen", "expected"),
    [
        ("LABEL_0 LABEL_1", None, "'LABEL_0' says nothing about support.*labels=supported,unsupported"),
        ("LABEL_0 LABEL_1 LABEL_2", None, "labels=supported,unsupported,contradicted"),
        ("LABEL_0", None, "labels=supported"),
        ("entailed entailmnt", None, "Did you mean 'entailment'"),
        ("POSITIVE NEGATIVE", None, "'POSITIVE'"),
        ("LABEL_0 LABEL_1", "supported", "has 2 outputs .* and labels names 1"),
        ("neutral contradiction", None, "some, and not all"),
        ("supported entailed", None, "some, and not all"),
    ],
)
def test_labels_without_a_meaning_are_an_error_that_names_the_fix(labels: str, chosen: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        label_meanings("mine", dict(enumerate(labels.split())), chosen)


def test_models_that_judge_nothing_are_refused(folder: Path, tmp_path: Path) -> None:
    unnamed = save_model(tmp_path / "unnamed", TEXTS)
    headless = save_model(tmp_path / "headless", TEXTS, "BertModel")
    causal = save_model(tmp_path / "causal", TEXTS, "BertLMHeadModel", is_decoder=True)
    cases = {unnamed: "'LABEL_0' says nothing", headless: "is a BertModel", causal: "plays as hf:FOLDER"}
    for model, expected in cases.items():
        with pytest.raises(ConfigError, match=expected):
            asyncio.run(find_agent(f"nli:{model}", ENV).prepare())
    with pytest.raises(ConfigError, match=r"model: .* does not exist"):
        asyncio.run(find_agent(f"nli:{tmp_path}/missing", ENV).prepare())
    with pytest.raises(ConfigError, match="none of them"):
        find_agent(f"nli:{unnamed}", "profact")
    with pytest.raises(ConfigError, match="Did you mean 'threshold'"):
        find_agent(f"nli:{unnamed}", ENV, {"treshold": 0.5})
    with pytest.raises(ConfigError, match="needs a model"):
        find_agent("nli:", ENV)
