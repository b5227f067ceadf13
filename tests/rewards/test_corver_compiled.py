"""The compiled rules find what the rules in Python find, and completions aligned together fare as one by one."""

from __future__ import annotations

import copy
import random
import time
import types

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.corpora.cooccurrence import memory_index
from factgym.corpora.cooccurrence.engine import Loading, has_numba
from factgym.rewards.corver import (
    REFERENCE,
    CorverRules,
    RuleExtractor,
    Triplet,
    rule_extractor,
    score_completion,
    score_many,
    token_returns,
    token_returns_many,
)
from factgym.rewards.corver import fast_rules as fast
from factgym.rewards.corver.fallback_judges import CAPITALS, OTHER, StandIns
from factgym.rewards.corver.lexicon import JOINERS, KINDS, MONTHS, ROLES
from factgym.rewards.corver.triplets import PRONOUNS
from tests.rewards.corver_paper import CASES, FIGURE_7

needs_numba = pytest.mark.skipif(not has_numba(), reason="compiled rules need the extra counting")

NAMES = ["Paris", "France", "Ann O'Brien", "James'", "Ann's", "King", "Bank of England", "It's", "He's", "U.S.", "A-1"]
NUMBERS = ["3", "12", "1989", "1,000", "1,0000", "12,345,678", "1980-1985", "007", "4th", "1.5"]
ODD = [
    "boils",
    "cities",
    "glass",
    "led",
    "walked",
    "Quickly",
    "singing",
    "x'",
    "'",
    "_",
    "&",
    "a.b.",
    "a.",
    "/",
    "-",
]
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
    {*FOREIGN, *KINDS, *JOINERS, *MONTHS, *ROLES, *PRONOUNS, *NAMES, *NUMBERS, *ODD, "APRIL", "The", "His", "May,"}
)
SPACES = [" ", " ", " ", " ", ", ", "  ", "\n", ""]
sentences = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SPACES)), max_size=24).map(
    lambda parts: "".join(word + space for word, space in parts)
)
TRACED = [one.text for case in CASES for one in case.sentences] + [one[0] for one in FIGURE_7]


def padded(found: list[str]) -> list[str]:
    """So many that they are worth the compiled rules."""
    return found + ["Ann met Bob in Paris."] * 20


def first_valid(found: list[list[Triplet]]) -> list[list[Triplet]]:
    return [[one for one in each if one.valid][:1] for each in found]


@needs_numba
@given(st.lists(sentences, min_size=1, max_size=20))
@example(
    ["At Liverpool, Salah scored.", "He lived in Seattle, Washington, and won.", "in A, B, C, and D is E, F is G"]
)
@settings(max_examples=400, deadline=None)
def test_compiled_and_plain_rules_find_the_same(found: list[str]) -> None:
    asked = padded(found)
    assert RuleExtractor("numba").extract_first(asked) == first_valid(RuleExtractor().extract(asked))


@needs_numba
@given(st.lists(st.text(max_size=60), max_size=20))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_by_one_or_the_other(found: list[str]) -> None:
    asked = padded(found)
    assert RuleExtractor("numba").extract_first(asked) == first_valid(RuleExtractor("python").extract(asked))


FEW = st.lists(st.tuples(st.sampled_from([*FOREIGN, "led", "of", "The", "May", "3", ","]), st.sampled_from(SPACES)))


@needs_numba
@given(st.lists(FEW.map(lambda parts: "".join(map("".join, parts))), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None)
def test_sentences_beyond_ascii_are_read_alike(found: list[str]) -> None:
    asked = padded(found)
    assert RuleExtractor("numba").extract_first(asked) == first_valid(RuleExtractor("python").extract(asked))


def test_stand_ins_give_back_what_they_stand_for() -> None:
    """Capitals and other letters have bytes of their own kind, as many as there are; what parts words shares one."""
    text = "Éa’b–c—d “x” … Éé東ǅ"
    stand_ins = StandIns()
    encoded = stand_ins.encode(text)
    assert encoded is not None
    assert len(encoded) == len(text)
    assert encoded.encode("latin-1")[0] == CAPITALS
    assert [encoded[text.index(char)] for char in "“”…"] == [chr(OTHER)] * 3
    assert stand_ins.decode(encoded) == "Éa’b–c—d \xe3x\xe3 \xe3 Éé東ǅ"
    assert stand_ins.encode("plain") == "plain"
    assert [StandIns().encode(char) for char in ("²", "½", "٣", "\u212a", "İ")] == [None] * 5
    letters = [chr(0x4E00 + i) for i in range(65)]
    assert stand_ins.encode("".join(letters)) is None
    assert StandIns().encode("".join(letters[:64])) is not None
    assert StandIns().encode("".join(map(chr, range(0x410, 0x430)))) is not None
    assert StandIns().encode("".join(map(chr, range(0x410, 0x430))) + "É") is None


@needs_numba
def test_a_batch_of_many_scripts_leaves_the_rest_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [f"{chr(0x4E00 + i)}{chr(0x5E00 + i)} met Élodie in Paris." for i in range(60)]
    read: list[str] = []
    plain = rule_extractor._first
    monkeypatch.setattr(rule_extractor, "_first", lambda one: read.append(one) or plain(one))
    assert RuleExtractor("numba").extract_first(asked) == [plain(one) for one in asked]
    assert 20 <= len(read) <= 40


@needs_numba
def test_traced_long_and_foreign_sentences_are_read_alike() -> None:
    rng = random.Random(0)
    long = [" ".join(rng.choices(WORDS, k=size)) for size in (300, 1_000, 3_000)]
    asked = padded(
        [*TRACED, *long, "(" * 5_000, "Élodie met Bob in 1975.", "Ann met Bob?", "", "a b", "\x00 is \x1f b"]
    )
    found = RuleExtractor("numba").extract_first(asked)
    assert found == first_valid(RuleExtractor("python").extract(asked))
    assert sum(map(bool, found)) > len(TRACED)
    assert RuleExtractor("numba").extract_first(["é"] * 20) == [[]] * 20


@needs_numba
def test_rewards_are_the_same_with_either_engine() -> None:
    texts = [case.text for case in CASES] * 4 + ["Ünal met Bob in Paris. He won it."]
    counter = memory_index(TRACED, engine="numpy")
    rules = CorverRules(exact_counts=False)
    fast, plain = (
        score_many(texts, ["1975"] * len(texts), counter, RuleExtractor(engine), rules)
        for engine in ("numba", "python")
    )
    assert fast == plain


def test_an_engine_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="numbq"):
        RuleExtractor("numbq")  # type: ignore[arg-type]


def test_few_sentences_do_not_load_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Loading("nothing.of.that.name")
    monkeypatch.setattr(fast, "_rules", loading)
    for _ in range(100):
        RuleExtractor().extract_first(["Ann met Bob in Paris."] * 4)
    assert loading._thread is None


def test_python_reads_while_numba_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Loading):
        def _load(self) -> None:
            time.sleep(0.05)
            self.found = types.SimpleNamespace()

    loading = Slow("slow")
    monkeypatch.setattr(fast, "_rules", loading)
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.has_numba", lambda: True)
    extractor = copy.deepcopy(RuleExtractor())
    for _ in range(100):
        if loading._thread is None:
            assert extractor.extract_first(TRACED * 2) == RuleExtractor("python").extract_first(TRACED * 2)
    loading.wait()
    assert fast.compiled_rules("auto", 100) is loading.found


def test_without_numba_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "_rules", Loading("nothing"))
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.has_numba", lambda: False)
    with pytest.raises(MissingExtraError, match="counting"):
        RuleExtractor("numba").extract_first(TRACED * 2)


def test_completions_aligned_together_fare_as_one_by_one() -> None:
    texts = [case.text for case in CASES] + ["", "<think></think>", "One. Two.", " <answer>x</answer>"]
    scores = [score_completion(one, "1975", memory_index(TRACED, engine="numpy"), RuleExtractor()) for one in texts]
    rng = np.random.default_rng(0)
    offsets = [np.sort(rng.integers(0, len(one) + 1, (40, 2)), axis=1) for one in texts]
    offsets[2] = np.empty((0, 2), np.int64)
    together = token_returns_many(scores, offsets, REFERENCE)
    for score, places, found in zip(scores, offsets, together, strict=True):
        alone = token_returns(score, places, REFERENCE)
        assert found.returns.tolist() == alone.returns.tolist()
        assert found.sentence.tolist() == alone.sentence.tolist()
        assert (found.alignment, found.fallback) == (alone.alignment, alone.fallback)
    assert token_returns_many([], []) == []
    with pytest.raises(ConfigError, match="6 scores, 5 offsets"):
        token_returns_many(scores, offsets[:5])
    with pytest.raises(ConfigError, match=f"the completion's {len(texts[1])} characters"):
        token_returns_many(scores[:2], [offsets[0], [[0, len(texts[1]) + 1]]])
