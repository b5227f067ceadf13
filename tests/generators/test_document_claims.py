"""Examples over documents: invariants of every example, purity of item i, and the limits of a folder."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.core.errors import ConfigError, DataError
from factgym.core.strategies import Example
from factgym.corpora.documents import Document, read_folder
from factgym.datasets.claims import VERDICTS, ClaimExample, final_verdict
from factgym.generators.document_claims import MAX_DECOY_COVERAGE, DocumentClaims, coverage
from factgym.generators.document_index import SIMILARITY, SPLITS, DocumentIndex, split_sentences
from factgym.generators.perturbations.corruptions import OPERATORS
from factgym.generators.perturbations.rewording import compose_question
from factgym.text.words import terms

LEAVE = """# Leave policy

## Annual leave
You can carry over up to 240 hours of annual leave into the next year. Leave requests must be sent to your supervisor
within 10 days of the holiday. If you have exhausted all paid leave, you can ask for unpaid leave.

## Sick leave
Employees must hand in a medical note on the third day of an absence. We may ask for a second note from a doctor of
our choice. No sick leave may be paid out except at the end of the employment.
"""
TRAVEL = """# Travel guide

## Booking
You must book all flights through the travel desk of the company. Hotels may not cost more than $180 per night unless
the director has agreed in writing. We usually reply to booking requests on the same day.

## Expenses
Receipts are required for any single expense over $75 on a trip. The desk will refund your expenses within 14 days of
the claim. Some trips need the approval of two directors before tickets are bought.
"""
SECURITY = """# Security handbook

Passwords must have at least 12 characters and must not be shared with colleagues. All laptops are encrypted with
TLS 1.2 or a stronger protocol where files are moved. You may not connect private devices to the office network.
Backups are written daily and kept for 90 days in another city.
"""
WORDS = ("paper", "copper", "granite", "timber", "velvet", "mercury", "cotton", "amber", "rubber", "marble")
POLICIES = [("policies_basecamp", "*.md"), ("policies_18f", "*.md"), ("policies_github_site", "*.md"),
            ("policies_automattic", "*.md"), ("cuad/contracts", "*.txt")]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("policies")
    for name, text in (("leave", LEAVE), ("travel", TRAVEL), ("security", SECURITY)):
        (root / f"{name}.md").write_text(text)
    return root


@pytest.fixture(scope="module")
def claims(folder: Path) -> DocumentClaims:
    return DocumentClaims(folder, size=60)


def check_example(example: ClaimExample) -> None:
    passages = {passage.id: passage for passage in example.passages}
    assert len(passages) == len(example.passages)
    assert example.verdict == final_verdict(claim.status for claim in example.claims)
    assert example.answer == " ".join(claim.text for claim in example.claims)
    for claim in example.claims:
        assert claim.text.endswith(".")
        assert claim.text[0].isupper() or claim.text[0] == "“"
        assert claim.unsupported_span in claim.text
        assert (claim.unsupported_span == "") == (claim.status == "supported") == (claim.corruption == "none")
        assert claim.reason
        for fact in claim.facts:
            quote = passages[fact.passage].text[fact.start : fact.end]
            assert quote.endswith(".")
            assert quote == quote.strip()
    assert bool(example.nearest) != bool(example.gold_ids)
    assert all(near in passages for near in example.nearest)
    assert example.question.strip()


def test_every_example_is_consistent(claims: DocumentClaims) -> None:
    for example in claims:
        check_example(example)
        assert [passage.id for passage in example.passages] == [f"E{n + 1}" for n in range(len(example.passages))]


def test_verdicts_are_balanced_in_every_prefix(claims: DocumentClaims) -> None:
    for stop in (5, 10, 30, 60):
        counts = Counter(example.verdict for example in claims[:stop])
        assert counts == dict.fromkeys(VERDICTS, stop // 5)


def test_item_i_depends_on_split_seed_and_i_alone(folder: Path, claims: DocumentClaims) -> None:
    seventh = claims[7]
    fresh = DocumentClaims(read_folder(folder).documents, size=500)
    assert fresh[7] == seventh
    assert [fresh[n] for n in (3, 0, 7)] == [claims[n] for n in (3, 0, 7)]
    assert claims[-1] == claims[59]
    assert DocumentClaims(folder, size=60, seed=1)[7] != seventh
    other = DocumentClaims(folder, size=60, split="train")
    assert other[7].answer != seventh.answer or other[7].passages != seventh.passages
    assert other[7].id == "docs-train-00007"
    with pytest.raises(IndexError):
        claims[60]


def test_copies_and_pickles_are_the_same_sequence(claims: DocumentClaims) -> None:
    assert copy.deepcopy(claims) is claims
    twin = pickle.loads(pickle.dumps(claims))
    assert twin[11] == claims[11]
    assert (len(twin), twin.fingerprint()) == (len(claims), claims.fingerprint())


def test_other_processes_and_hash_seeds_give_the_same_bytes(folder: Path, claims: DocumentClaims) -> None:
    program = (
        "import sys; from factgym.generators.document_claims import DocumentClaims\n"
        "print(repr(DocumentClaims(sys.argv[1], size=20)[:]))"
    )
    root = Path(__file__).resolve().parents[2]
    seed = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "77"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", program, str(folder)], env=env, capture_output=True, check=True)
    assert run.stdout.decode().strip() == repr(DocumentClaims(folder, size=20)[:])


def test_fingerprints(folder: Path, claims: DocumentClaims) -> None:
    assert claims.fingerprint() == DocumentClaims(folder, size=60).fingerprint()
    changed = read_folder(folder, max_passage_chars=200).documents
    variants = [
        DocumentClaims(changed, size=60), DocumentClaims(folder, size=59), DocumentClaims(folder, size=60, seed=3),
        DocumentClaims(folder, size=60, split="train"), DocumentClaims(folder, size=60, window=3, passages=5),
    ]  # fmt: skip
    assert len({variant.fingerprint() for variant in [claims, *variants]}) == 6


def test_ids(claims: DocumentClaims) -> None:
    assert [claims[n].id for n in (0, 17, 59)] == ["docs-test-00000", "docs-test-00017", "docs-test-00059"]


def test_windows_and_decoys(folder: Path) -> None:
    claims = DocumentClaims(read_folder(folder, max_passage_chars=120).documents, size=50, window=2, passages=4)
    for example in claims:
        assert 2 <= len(example.passages) <= 4
        own = {passage.title.split(" › ")[0] for passage in example.passages if passage.id in example.gold_ids}
        assert len(own) <= 1
        decoys = [passage for passage in example.passages if own and passage.title.split(" › ")[0] not in own]
        for claim in example.claims:
            required = frozenset(terms(claim.text))
            assert all(coverage(required, frozenset(terms(decoy.text))) < MAX_DECOY_COVERAGE for decoy in decoys)


def test_haystack_keeps_folder_ids_and_names_the_document(folder: Path) -> None:
    claims = DocumentClaims(folder, size=50, haystack=True)
    corpus = {passage.id: passage for passage in claims.corpus}
    titles = ("Leave policy", "Travel guide", "Security handbook")
    foreign = 0
    for example in claims:
        check_example(example)
        assert all(corpus[passage.id] == passage for passage in example.passages)
        for claim in example.claims:
            if claim.corruption in ("irrelevant", "addition"):
                foreign += 1
                assert sum(title in claim.text for title in titles) == 1
    assert foreign > 3


def test_operators_are_applied_only_on_demand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DocumentIndex, "pool", lambda self, name: pytest.fail("applied too early"))
    monkeypatch.setattr(DocumentIndex, "applies", lambda self, name: True)
    assert len(DocumentClaims(folder, size=1_000_000)) == 1_000_000


def test_pools_hold_the_sentences_that_the_operators_apply_to(folder: Path) -> None:
    index = DocumentIndex(read_folder(folder).documents)
    assert all(index.by_document) and len(index.by_document) == 3
    pools = {name: len(index.pool(name)) for name in OPERATORS}
    assert pools["number"] >= 3
    assert pools["amount"] >= 1
    assert pools["exception_dropped"] == 1


def test_one_document_and_few_sentences(tmp_path: Path) -> None:
    (tmp_path / "only.txt").write_text("Employees must register on the first day of work.\n\nToc 1 2 3\n")
    (tmp_path / "toc.md").write_text("# Contents\n\n- One\n- Two\n")
    claims = DocumentClaims(tmp_path, split="all")
    for example in claims:
        check_example(example)
        assert example.passages[0].title != "Contents"  # it has no usable sentence
    with pytest.raises(DataError, match=r"no sentence that can be a claim in split 'test' .split='all' takes every"):
        DocumentClaims(tmp_path, split="test")
    assert {example.verdict for example in claims} == set(VERDICTS) - {"overclaim"}


def test_bad_input(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        DocumentClaims(tmp_path / "missing")
    (tmp_path / "x.md").write_text("# A\n\n- one\n- two\n")
    with pytest.raises(DataError, match="no sentence that can be a claim"):
        DocumentClaims(tmp_path)
    with pytest.raises(ConfigError, match=r"unknown split 'trian'.*Did you mean 'train'"):
        DocumentClaims(folder, split="trian")
    for bad in ({"window": 0}, {"passages": 3}, {"size": 0}):
        with pytest.raises(ConfigError, match="at least"):
            DocumentClaims(folder, **bad)  # type: ignore[arg-type]


def test_questions() -> None:
    rng = random.Random("q")
    by_title = compose_question("Refund policy", "Refund policy › Can I pay later?", "", rng)
    assert by_title == "The Refund policy: Can I pay later?"
    assert "“Annual plans”" in compose_question("Refund policy", "Refund policy › 2.1 Annual plans", "", rng)
    assert "“invoice” and “interest”" in compose_question("Fees", "Fees", "An unpaid invoice bears interest.", rng)


@cache  # a plan takes seconds of CPU
def real_claims(folder: Path, glob: str) -> tuple[tuple[Document, ...], DocumentClaims]:
    """Documents of a real folder, 32 contracts at most, and claims of all their sentences."""
    documents = read_folder(folder, glob=glob).documents[: 32 if glob == "*.txt" else None]
    return documents, DocumentClaims(documents, split="all")


@pytest.mark.data
@pytest.mark.parametrize(("name", "glob"), POLICIES)
def test_real_folders(data_dir: Path, name: str, glob: str) -> None:
    documents, claims = real_claims(data_dir / name, glob)
    assert len(claims) >= 290
    if name == POLICIES[0][0]:
        assert all(len(DocumentClaims(documents, split=split)) >= 0.4 * len(claims) for split in ("train", "test"))
    examples = claims[:150]
    for example in examples:
        check_example(example)
        assert len(example.passages) == 16
    assert Counter(example.verdict for example in examples) == dict.fromkeys(VERDICTS, 30)
    assert len({example.answer for example in examples}) >= 147
    kinds = Counter(claim.corruption for example in examples for claim in example.claims)
    assert len(kinds) >= 9
    counts = {
        verdict: Counter(len(example.claims) for example in examples if example.verdict == verdict)
        for verdict in VERDICTS
    }
    assert all(counts[verdict][2] >= 3 for verdict in VERDICTS)  # the number of claims does not tell the verdict


@pytest.mark.data
def test_faithful_claims_are_not_all_copies(data_dir: Path) -> None:
    _, claims = real_claims(data_dir / "policies_github_site", "*.md")
    same = total = 0
    for example in claims[:200]:
        texts = {passage.id: passage.text for passage in example.passages}
        for claim in example.claims:
            if claim.status == "supported":
                total += 1
                same += claim.text in texts[claim.facts[0].passage]
    assert same < 0.5 * total


@pytest.mark.data
def test_surfaces_of_claims_tell_little_of_the_verdict(data_dir: Path) -> None:
    pytest.importorskip("sklearn")
    training: list[Example] = []
    fresh: list[Example] = []
    for name in ("policies_basecamp", "policies_18f", "policies_automattic"):
        documents = read_folder(data_dir / name, glob="*.md").documents
        for split, examples in (("train", training), ("test", fresh)):
            for example in DocumentClaims(documents, split=split):
                evidence = " ".join(passage.text for passage in example.passages)
                examples.append(Example(example.answer, example.verdict, example.answer, evidence))
    classifiers = ShortcutClassifiers(training)
    # Chance is 0.2. Where train and test shared sentences, words told 0.45 and names 0.35.
    bounds = {"words": 0.32, "names": 0.29, "lengths": 0.29, "overlap": 0.38}
    for kind, bound in bounds.items():
        right = [classifiers.predict(kind, row.text, row.key, row.evidence) == row.label for row in fresh]
        assert sum(right) / len(right) < bound, kind


def quoted(claims: DocumentClaims) -> set[str]:
    """Return the source sentences of all statements, by their evidence."""
    sentences = set()
    for example in claims:
        passages = {passage.id: passage.text for passage in example.passages}
        facts = [fact for claim in example.claims for fact in claim.facts]
        sentences.update(passages[fact.passage][fact.start : fact.end] for fact in facts)
    return sentences


@pytest.mark.data
@pytest.mark.parametrize(("name", "glob"), [*POLICIES[:1], *POLICIES[4:]])
def test_train_and_test_share_no_sentence(data_dir: Path, name: str, glob: str) -> None:
    documents = read_folder(data_dir / name, glob=glob).documents[: 12 if glob == "*.txt" else 24]
    train, test = (quoted(DocumentClaims(documents, split=split, size=150)) for split in ("train", "test"))
    assert min(len(train), len(test)) >= 60
    assert train.isdisjoint(quoted(DocumentClaims(documents, split="test", size=150, seed=7)))
    sources = {split: [set(terms(row.text)) for row in DocumentIndex(documents, split).sources] for split in SPLITS}
    assert len(sources["train"]) + len(sources["test"]) == len(sources["all"])
    nearest = max(len(a & b) / len(a | b) for a in sources["train"] for b in sources["test"])
    assert 0.3 < nearest < SIMILARITY


def test_sentences_are_split_by_their_text() -> None:
    names = [f"Employees of office {number} must hand in {word} forms." for number, word in enumerate(WORDS)]
    splits = split_sentences(names)
    assert splits == split_sentences(names[::-1])
    near = "Visitors must sign the book at the desk of the main entrance."
    nearer = ["Visitors must always sign the book at the main entrance desk.", near.replace("Visitors", "Guests")]
    assert len({split_sentences([near, *nearer, *names])[sentence] for sentence in [near, *nearer]}) == 1
    alone = [f"The {word} of {word}land stays in {word[::-1]} behind {word[::-1]}town." for word in WORDS]
    assert set(split_sentences(alone).values()) == {"train", "test"}
    assert all(split_sentences([sentence])[sentence] == split for sentence, split in split_sentences(alone).items())


@pytest.mark.data
def test_kinds_of_change_and_their_number_for_each_sentence(data_dir: Path) -> None:
    _, claims = real_claims(data_dir / "policies_automattic", "*.md")
    assert len(claims) >= 480  # 310 with flips, conditions and sixty phrases
    candidates = claims._planner.candidates
    kinds = {verdict: Counter(name for name, _ in candidates[verdict]) for verdict in VERDICTS}
    contradictions = kinds["contradicted"]
    assert contradictions["polarity"] < 0.5 * contradictions.total()  # .76
    assert "cause" not in kinds["unsupported"]  # reasons are taken from the documents
    for verdict in set(VERDICTS) - {"supported"}:
        uses = Counter(number for name, number in candidates[verdict])
        assert max(uses.values()) <= 2
    examples = claims[:150]
    texts = Counter(claim.text for example in examples for claim in example.claims)
    assert max(texts.values()) <= 5
    assert sum(len(example.claims) == 2 for example in examples) >= 145
    assert all(len({claim.text for claim in example.claims}) == len(example.claims) for example in examples)


@pytest.mark.data
def test_a_joined_claim_has_both_of_its_sentences_as_evidence(data_dir: Path) -> None:
    """Found again by its text, apart from the plan: reason and main statement are the two sentences."""
    claims = DocumentClaims(read_folder(data_dir / "policies_basecamp", glob="*.md").documents, split="train")
    joined_claims = 0
    for example in claims[:120]:
        passages = {passage.id: passage.text for passage in example.passages}
        for claim in example.claims:
            if claim.corruption == "joined":
                joined_claims += 1
                quotes = [passages[fact.passage][fact.start : fact.end] for fact in claim.facts]
                assert len(quotes) == len({fact.passage for fact in claim.facts}) == 2
                words = set(terms(claim.text))
                assert all(len(set(terms(quote)) & words) >= 0.7 * len(set(terms(quote))) for quote in quotes)
                assert claim.unsupported_span.split(" ", 1)[0].lower() in ("because", "since")
                assert not claim.is_silent
    assert joined_claims
