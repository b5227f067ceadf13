"""The miniature world: an independent reader of its sentences gives the same verdicts, and splits share no name."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import pytest

from factgym.datasets.claims import VERDICTS, ClaimExample, final_verdict
from factgym.generators.miniature import MiniatureClaims, is_name_of
from factgym.text.sentences import sentences

SPLITS = ("train", "validation", "test")
CONDITION = r"((?: for \w+)?(?: in \w+)?)\.$"
READERS = {
    "fee": (rf"(\w+) has a fee of (\d+) crowns{CONDITION}", rf"The fee at (\w+) is (\d+) crowns{CONDITION}"),
    "seats": (rf"(\w+) has (\d+) seats{CONDITION}", rf"There are (?P<v>\d+) seats at (?P<s>\w+){CONDITION}"),
    "opening": (rf"(\w+) has its opening on (\d+ \w+){CONDITION}", rf"The opening of (\w+) is on (\d+ \w+){CONDITION}"),
    "closing": (rf"(\w+) has its closing on (\d+ \w+){CONDITION}", rf"The closing of (\w+) is on (\d+ \w+){CONDITION}"),
    "head": (rf"The head of (\w+) is (\w+){CONDITION}", rf"(?P<v>\w+) is the head of (?P<s>\w+){CONDITION}"),
    "cook": (rf"The cook of (\w+) is (\w+){CONDITION}", rf"(?P<v>\w+) is the cook of (?P<s>\w+){CONDITION}"),
}


def read(sentence: str) -> tuple[str, str, str, frozenset[str]] | None:
    """Attribute, subject, value and conditions of a sentence, None for a first sentence."""
    for attribute, patterns in READERS.items():
        for pattern in patterns:
            match = re.match(pattern, sentence)
            if match:
                named = match.groupdict()
                subject, value = (named["s"], named["v"]) if named else match.groups()[:2]
                return attribute, subject, value, frozenset(re.findall(r"(?:for|in) \w+", match.groups()[-1]))
    assert re.fullmatch(r"\w+ is an? \w+\.", sentence), sentence
    return None


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


def judged(statement: str, example: ClaimExample) -> str:
    """The status of a statement by the definitions of the card."""
    claim = read(statement)
    assert claim is not None
    attribute, subject, value, conditions = claim
    facts = [fact for passage in example.passages for sentence in parts(passage.text) if (fact := read(sentence))]
    stated = [fact for fact in facts if fact[:2] == (attribute, subject)]
    if not stated:
        return "unsupported"
    [fact] = stated
    if fact[2] != value:
        assert fact[3] == conditions
        return "contradicted"
    return "supported" if fact[3] == conditions else "overclaim" if fact[3] > conditions else "?"


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("split", SPLITS)
def test_an_independent_reader_gives_the_same_gold(split: str, level: int) -> None:
    for example in MiniatureClaims(split, seed=3, level=level)[:300]:
        statements = parts(example.answer)
        assert statements == [claim.text for claim in example.claims] and len(statements) == 2
        assert [judged(text, example) for text in statements] == [claim.status for claim in example.claims]
        assert example.verdict == final_verdict(claim.status for claim in example.claims)
        texts = {passage.id: passage.text for passage in example.passages}
        for claim in example.claims:
            [fact] = claim.facts
            assert texts[fact.passage][fact.start : fact.end] in parts(texts[fact.passage])
            assert claim.unsupported_span in claim.text
            assert all(len(sentence) >= 12 for text in texts.values() for sentence in parts(text))


def names_of(example: ClaimExample) -> set[str]:
    """The invented names of an example."""
    facts = [read(sentence) for passage in example.passages for sentence in parts(passage.text)]
    people = {fact[2] for fact in facts if fact and fact[0] in ("head", "cook")}
    claimed = [read(claim.text) for claim in example.claims]
    people |= {fact[2] for fact in claimed if fact and fact[0] in ("head", "cook")}
    return people | {passage.title for passage in example.passages}


def test_splits_share_no_name_but_all_syllables() -> None:
    used = {split: set().union(*map(names_of, MiniatureClaims(split, size=400))) for split in SPLITS}
    for split, names in used.items():
        assert all(is_name_of(split, name) for name in names)
        assert not any(is_name_of(other, name) for name in names for other in SPLITS if other != split)
    syllables = {split: {name[:2] for name in names} for split, names in used.items()}
    assert syllables["train"] >= syllables["test"] | syllables["validation"]
    assert len(used["train"]) > 1000


def test_an_item_depends_on_its_seed_and_index_alone() -> None:
    claims, other = MiniatureClaims("train", seed=5, size=50), MiniatureClaims("train", seed=5)
    assert [claims[index] for index in reversed(range(50))] == list(other[:50])[::-1]
    assert claims[7] != MiniatureClaims("train", seed=6)[7] != MiniatureClaims("test", seed=6)[7]


def test_verdicts_are_balanced_and_combinations_many() -> None:
    examples = MiniatureClaims("train", size=2000)[:]
    assert Counter(example.verdict for example in examples) == dict.fromkeys(VERDICTS, 400)
    assert len({example.answer for example in examples}) == 2000
    shapes = {tuple(re.sub(r"[A-Z]\w+", "N", claim.text) for claim in example.claims) for example in examples}
    assert len(shapes) > 1800


def test_levels_leave_contradictions_out_or_draw_values_from_sets_of_four() -> None:
    first, second, third = (MiniatureClaims("train", size=400, level=level) for level in (1, 2, 3))
    assert len({split.fingerprint() for split in (first, second, third)}) == 3
    assert third.fingerprint() == MiniatureClaims("train", size=400).fingerprint()
    for split in (first, second, third):
        assert pickle.loads(pickle.dumps(split))[7] == split[7]
    verdicts = Counter(example.verdict for example in first)
    assert verdicts == dict.fromkeys([verdict for verdict in VERDICTS if verdict != "contradicted"], 100)
    assert all(claim.status != "contradicted" for example in first for claim in example.claims)
    assert Counter(example.verdict for example in second) == dict.fromkeys(VERDICTS, 80)
    facts = [read(sentence) for e in second for passage in e.passages for sentence in parts(passage.text)]
    values = {(fact[0], fact[2]) for fact in facts if fact}
    assert Counter(attribute for attribute, _ in values) == dict.fromkeys(READERS, 4)
