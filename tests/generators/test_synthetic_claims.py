"""Structure of the synthetic claims: examples of every split obey the contract of the record and the fact model."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from factgym.core.errors import ConfigError
from factgym.datasets.claims import VERDICTS, ClaimExample, GoldClaim, final_verdict
from factgym.generators.invented_names import organisation
from factgym.generators.synthetic import SPLITS, SyntheticClaims
from factgym.generators.synthetic.facts import Quantity
from factgym.generators.synthetic.lexicon import DOMAINS, load_domain
from factgym.generators.synthetic.scenario import Scenario
from factgym.text.numbers import number_words
from factgym.text.sentences import sentences
from tests.generators import claim_statistics
from tests.generators.claim_labels import judge

FIRST = 40
HASHES = {
    "train": "1805e2c460d5a94431ea439b06483aa18b21cf09539edbbd304bea912a0f7c54",
    "validation": "db081e82911c343be91f015c426e25d0eb3b53f6f407033898121dbb607aee97",
    "ood": "a467a8be5285f1714370ca3957770038fd30f41ecc150ddf824f6d933ed5e9b2",
    "hard": "2a5dd8ed56c726e2afd634df7ba83865c2b8302282ae13702c10f42d2136ddbe",
    "multihop": "5e5397c4ac135bb900265efe7aa2ef3c40f6de146606498a7405e63ecac0e2e5",
}
"""SHA-256 over the JSON of the first 40 examples of each split with seed 0. A change here is a new generator version."""


def content_hash(split: str, count: int = FIRST) -> str:
    digest = hashlib.sha256()
    for example in SyntheticClaims(split)[:count]:
        content = asdict(example)
        assert content.pop("alternatives") == ()  # of human annotations alone
        digest.update(json.dumps(content, sort_keys=True).encode())
    return digest.hexdigest()


@pytest.fixture(scope="module", params=list(SPLITS))
def scenarios(request: pytest.FixtureRequest) -> tuple[Scenario, ...]:
    return claim_statistics.scenarios(request.param)


def text_of(example: ClaimExample, passage: str) -> str:
    return next(item.text for item in example.passages if item.id == passage)


def quotes(example: ClaimExample, claim: GoldClaim) -> list[str]:
    return [text_of(example, fact.passage)[fact.start : fact.end] for fact in claim.facts]


@pytest.mark.parametrize("split", list(SPLITS))
def test_the_content_is_pinned(split: str) -> None:
    assert content_hash(split) == HASHES[split]


def test_content_does_not_depend_on_the_process_or_its_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_synthetic_claims import content_hash\n"
        "print(*(content_hash(split, 12) for split in ('train', 'ood', 'multihop')))"
    )
    expected = " ".join(content_hash(split, 12) for split in ("train", "ood", "multihop"))
    seed = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "4242"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    folder = str(Path(__file__).parent)
    run = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, env=env, check=True)
    assert run.stdout.strip() == expected


@pytest.mark.parametrize("split", list(SPLITS))
def test_labels_are_exactly_balanced_and_known_without_generating(split: str) -> None:
    claims = SyntheticClaims(split)
    counts = Counter(claims.verdict(at) for at in range(len(claims)))
    assert counts == dict.fromkeys(VERDICTS, len(claims) // len(VERDICTS))
    assert len(claims) == SPLITS[split]


def test_the_order_of_labels_is_no_cycle() -> None:
    claims = SyntheticClaims("train")
    blocks = {tuple(claims.verdict(at + k) for k in range(5)) for at in range(0, 1000, 5)}
    assert len(blocks) > 60


def test_every_example_keeps_the_contract_of_the_record(scenarios: tuple[Scenario, ...]) -> None:
    for scenario in scenarios:
        example = scenario.example
        ids = [passage.id for passage in example.passages]
        assert ids == [f"E{k}" for k in range(1, len(ids) + 1)]
        assert len(ids) == 5 if example.split == "multihop" else 3 <= len(ids) <= 6
        assert example.verdict == final_verdict(claim.status for claim in example.claims)
        assert set(example.gold_ids) <= set(ids)
        assert example.answer == " ".join(claim.text for claim in example.claims)
        assert example.question.endswith("?") and example.question[0].isupper()
        for claim in example.claims:
            check_claim(example, claim)


def check_claim(example: ClaimExample, claim: GoldClaim) -> None:
    assert claim.text in example.answer
    assert claim.facts, example.id
    assert claim.unsupported_span in claim.text
    assert bool(claim.unsupported_span) == (claim.status != "supported")
    assert (claim.corruption == "none") == (claim.status == "supported")
    assert claim.reason.endswith(".") and len(claim.reason) > 15
    for fact in claim.facts:
        text = text_of(example, fact.passage)
        assert 0 <= fact.start < fact.end <= len(text)
        assert text[fact.start : fact.end].rstrip()[-1] in ".?!"


def test_texts_are_clean(scenarios: tuple[Scenario, ...]) -> None:
    """No marks, empty slots, doubled words or spaces are left from the filling of frames."""
    fault = re.compile(r"[\x00-\x08{}\[\]|~*#@]|  |\.\.| ,| \.|\b(the|a|an|of|in in|to|is|be) \1\b", re.IGNORECASE)
    for scenario in scenarios:
        example = scenario.example
        for text in (example.question, example.answer, *(claim.reason for claim in example.claims)):
            assert not fault.search(text), text
        for passage in example.passages:
            for line in passage.text.splitlines():
                assert not fault.search(line.removeprefix("- ")), line


def test_articles_agree_with_the_next_sound(scenarios: tuple[Scenario, ...]) -> None:
    vowel_sound = re.compile(r"\ba (?=[aeio])(?!(?:one|once|eu)\b)\w+", re.IGNORECASE)
    consonant_sound = re.compile(r"\ban (?=[bcdfgjklmnpqrstvwxyz])(?!hour)\w+", re.IGNORECASE)
    for scenario in scenarios:
        for text in (scenario.example.answer, *(passage.text for passage in scenario.example.passages)):
            assert not vowel_sound.search(text), vowel_sound.search(text)
            assert not consonant_sound.search(text), consonant_sound.search(text)


def test_gold_facts_are_whole_sentences_for_another_splitter(scenarios: tuple[Scenario, ...]) -> None:
    """The sentence splitter of the corpus layer, written for real documents, puts its borders in the same places."""
    missed = total = 0
    for scenario in scenarios[:300]:
        example = scenario.example
        for claim in example.claims:
            for fact in claim.facts:
                ends = {end for _, end in sentences(text_of(example, fact.passage))}
                total += 1
                missed += fact.end not in ends
    assert missed / total < 0.01


def test_labels_follow_from_the_facts_without_their_wording(scenarios: tuple[Scenario, ...]) -> None:
    for scenario in scenarios:
        for draft, claim in zip(scenario.drafts, scenario.example.claims, strict=True):
            assert judge(draft.claim, scenario.facts) == claim.status, (scenario.example.id, claim)


SPELT = {number_words(n): n for n in range(2, 100)}


def numbers_in(text: str) -> set[int]:
    """Numbers of a text, in digits or words."""
    digits = {int(match.replace(",", "")) for match in re.findall(r"\d[\d,]*", text)}
    return digits | {SPELT[word] for word in re.findall(r"[a-z]+(?:-[a-z]+)*", text.lower()) if word in SPELT}


def test_numbers_of_supported_claims_are_in_the_gold_sentences(scenarios: tuple[Scenario, ...]) -> None:
    for scenario in scenarios:
        for draft, claim in zip(scenario.drafts, scenario.example.claims, strict=True):
            if claim.status == "supported" and isinstance(draft.claim.quantity, Quantity):
                stated = set().union(*(numbers_in(quote) for quote in quotes(scenario.example, claim)))
                assert draft.claim.quantity.n in numbers_in(claim.text), claim
                assert draft.claim.quantity.n in stated, claim


def test_wrong_numbers_are_not_in_the_sentences_that_decide(scenarios: tuple[Scenario, ...]) -> None:
    for scenario in scenarios:
        for draft, claim in zip(scenario.drafts, scenario.example.claims, strict=True):
            if claim.corruption in ("number", "version") and isinstance(draft.claim.quantity, Quantity):
                assert draft.claim.quantity.n in numbers_in(claim.unsupported_span), claim
                assert draft.claim.quantity.n not in numbers_in(quotes(scenario.example, claim)[0]), claim


def test_organisations_are_distinct_within_and_across_splits() -> None:
    names = {
        scenario.example.passages[0].title.split(" - ")[0]
        for split in ("train", "validation", "hard", "multihop")
        for scenario in claim_statistics.scenarios(split)
    }
    assert len(names) == 800 + 800 + 500 + 500


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_split_runs_out_of_organisations(domain: str) -> None:
    businesses = load_domain(domain).businesses
    splits = ("train", "validation", "hard", "multihop")
    names = [organisation(businesses, split, 0, index) for split in splits for index in range(SPLITS[split])]
    assert len(set(names)) == len(names)


def test_items_do_not_depend_on_the_size_or_the_order_of_access() -> None:
    small, large = SyntheticClaims("hard", size=7), SyntheticClaims("hard", size=5000)
    assert small[3] == large[3] == SyntheticClaims("hard")[3]
    assert small[-1] == large[6]
    assert SyntheticClaims("hard", seed=1)[3] != small[3]
    assert large[4321].id == "synthetic-hard-0-04321"


def test_sequence_behaviour_and_errors() -> None:
    claims = SyntheticClaims("validation", size=4)
    assert [example.id for example in claims] == [example.id for example in claims[:]]
    with pytest.raises(IndexError):
        claims[4]
    with pytest.raises(ConfigError, match="Did you mean 'multihop'"):
        SyntheticClaims("multi-hop")
    with pytest.raises(ConfigError, match="at least 1"):
        SyntheticClaims("train", size=0)


def test_fingerprints_tell_sets_apart_without_generating() -> None:
    prints = {
        SyntheticClaims(split, seed=seed, size=size).fingerprint()
        for split in SPLITS
        for seed in (0, 1)
        for size in (10, None)
    }
    assert len(prints) == len(SPLITS) * 4
    assert SyntheticClaims("train").fingerprint() == SyntheticClaims("train", size=5000).fingerprint()


def test_importing_the_package_generates_and_parses_nothing() -> None:
    code = (
        "import sys; import factgym.generators.synthetic\n"
        "heavy = {'tomllib', 'factgym.generators.synthetic.scenario'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
