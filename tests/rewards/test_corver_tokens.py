"""Token returns: they sum as equation 4 says, for random texts, offsets and tokenizers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import memory_index
from factgym.rewards.corver.extraction import RuleExtractor
from factgym.rewards.corver.rubrics import REFERENCE, STRICT, find_rubric
from factgym.rewards.corver.score import CorverScore, reward_report, score_completion
from factgym.rewards.corver.tokens import group_returns, token_returns, token_returns_many
from factgym.rewards.rubric import Rubric
from tests.rewards.corver_paper import CASE_1, CASE_2, CASES, TableCounter

SENTENCES = [sentence.text for case in CASES for sentence in case.sentences]
Offsets = list[tuple[int, int]]

WORDS = ["<think>", "</think>", "<answer>", "</answer>", "Paris is in France.", "It won.", " ", "\n\n", "Zürich", "漢字。",
         "𝔘𝔫𝔦 code!", "👩‍👩‍👧 family?", "e\u0301", "Ann met Bob in 1975. ", "\t"]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=20).map("".join)
RUBRICS = [
    REFERENCE,
    STRICT,
    find_rubric("reference-no-alignment"),
    Rubric("half", {"judge": 0.5, "cooccurrence": 3.0}),
]


def scored(text: str, count: int = 3) -> CorverScore:
    return score_completion(text, ["France"], TableCounter({}, count), RuleExtractor())


def by_hand(score: CorverScore, offsets: Offsets, rubric: Rubric) -> tuple[list[float], float]:
    """Equation 4 token by token, and the alignment rate."""
    response = math.fsum(
        w * score.components[name]
        for name, w in rubric.weights.items()
        if name not in ("cooccurrence", "cooccurrence_strict")
    )
    inside = aligned = 0
    extra = []
    for start, end in offsets:
        middle, term = (start + end) / 2, 0.0
        if start < end:
            inside += any(section.start <= middle < section.end for section in score.sections)
            for sentence in score.sentences:
                if sentence.sentence.start <= middle < sentence.sentence.end:
                    aligned += 1
                    term = rubric.weights.get("cooccurrence", 0) * sentence.reward
                    term += rubric.weights.get("cooccurrence_strict", 0) * sentence.strict_reward
        extra.append(term)
    rate = aligned / inside if inside else 0.0
    if not aligned or rate < 0.5:
        extra = [0.0] * len(extra)
    return [response + term for term in extra], rate


def check(text: str, offsets: Offsets) -> None:
    score = scored(text)
    for rubric in RUBRICS:
        result = token_returns(score, offsets, rubric)
        returns, rate = by_hand(score, offsets, rubric)
        assert result.returns.shape == (len(offsets),)
        np.testing.assert_allclose(result.returns, returns, atol=1e-12)
        assert result.returns.sum() == pytest.approx(math.fsum(returns), abs=1e-9)
        assert result.alignment == pytest.approx(rate)


@given(texts, st.data())
def test_any_offsets_give_the_sum_of_equation_4(text: str, data: st.DataObject) -> None:
    position = st.integers(0, len(text))
    offsets = data.draw(st.lists(st.tuples(position, position).map(lambda p: (min(p), max(p))), max_size=40))
    check(text, offsets)


def _utf8(text: str) -> Offsets:
    """A byte-level tokenizer: each byte has the offsets of its character."""
    return [(i, i + 1) for i, char in enumerate(text) for _ in char.encode()]


def _pieces(text: str) -> Offsets:
    """Pieces of three characters, with special tokens before and after."""
    return [(0, 0), *((i, min(i + 3, len(text))) for i in range(0, len(text), 3)), (0, 0)]


@given(texts)
def test_byte_level_and_fixed_pieces(text: str) -> None:
    check(text, _utf8(text))
    check(text, _pieces(text))


def _byte_bpe() -> Any:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra 'local'")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(WORDS * 5, trainer)
    return made


def _word_piece() -> Any:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra 'local'")
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator(WORDS * 5, trainer)
    return made


@pytest.mark.parametrize("build", [_byte_bpe, _word_piece], ids=("byte-level bpe", "wordpiece"))
def test_real_tokenizers(build: Callable[[], Any]) -> None:
    tokenizer = build()

    @given(texts)
    def run(text: str) -> None:
        check(text, list(tokenizer.encode(text).offsets))

    run()
    score = scored(CASE_1.text)
    result = token_returns(score, tokenizer.encode(CASE_1.text).offsets)
    assert result.alignment > 0.95
    assert not result.fallback


@pytest.mark.parametrize("case", [CASE_1, CASE_2], ids=("case-1", "case-2"))
@pytest.mark.parametrize("rubric", [REFERENCE, STRICT], ids=("reference", "strict"))
def test_a_tokenizer_of_characters_has_the_report_s_total_as_its_mean_inside_the_blocks(
    case: Any, rubric: Rubric
) -> None:
    score = scored(case.text)
    places = [(i, i + 1) for section in score.sections for i in range(section.start, section.end)]
    assert token_returns(score, places, rubric).returns.mean() == pytest.approx(reward_report(score, rubric).total)


def test_two_sentences_of_a_completion_can_differ_in_sign() -> None:
    text = "<think>Ann met Bob. Cid met Dan.</think><answer>France</answer>"
    score = score_completion(text, "France", TableCounter({("Ann", "Bob"): 50}), RuleExtractor())
    result = token_returns(score, [(7, 11), (20, 24), (0, 7), (50, 56)], REFERENCE)
    np.testing.assert_allclose(result.returns - result.returns[2], [0.1, -0.3, 0.0, 0.0])
    assert result.sentence.tolist() == [0, 1, -1, 2]


def test_under_half_alignment_the_sentence_term_is_dropped() -> None:
    text = "<think>Ann met Bob." + " " * 60 + "Cid met Dan.</think><answer>x"
    score = scored(text, 0)
    blanks = [(i, i + 1) for i in range(20, 70)]
    token = [(7, 11)]
    result = token_returns(score, token * 49 + blanks)
    assert result.fallback
    assert result.alignment == pytest.approx(49 / 99)
    assert len(set(result.returns)) == 1
    aligned = token_returns(score, token * 50 + blanks)
    assert not aligned.fallback
    assert aligned.alignment == 0.5
    assert aligned.returns[0] < aligned.returns[-1]


def test_special_tokens_without_width_belong_to_no_sentence() -> None:
    score = scored("Ann met Bob.")
    result = token_returns(score, [(0, 0), (0, 3), (12, 12)])
    assert result.sentence.tolist() == [-1, 0, -1]
    assert result.alignment == 1.0


@pytest.mark.parametrize("offsets", [[(0, 99)], [(-1, 2)], [(3, 2)], [1, 2], [(0.5, 1.0)], [(1, 2, 3)], [(1, 2), (3,)]])
def test_offsets_that_do_not_fit_are_refused(offsets: Any) -> None:
    with pytest.raises(ConfigError, match="offsets"):
        token_returns(scored("Ann met Bob."), offsets)


def test_a_completion_without_tokens_has_none() -> None:
    result = token_returns(scored("Ann met Bob."), [])
    assert result.returns.shape == (0,)
    assert result.fallback


def test_a_group_comes_padded_with_mask_and_advantages() -> None:
    good = scored("<think>Ann met Bob. Cid met Dan.</think><answer>France</answer>", 50)
    bad = scored("<think>Ann met Bob.</think><answer>Spain</answer>", 0)
    offsets = [_pieces(good.text), _pieces(bad.text), [(0, 1)] * 3]
    result = group_returns([good, bad, None], offsets, REFERENCE, length=40)
    assert result.mask.sum(axis=1).tolist() == [len(token_offsets) for token_offsets in offsets]
    assert result.returns.shape == result.advantages.shape == (3, 40)
    means = [
        token_returns(token_offsets, position, REFERENCE).returns.mean()
        for token_offsets, position in zip((good, bad), offsets, strict=False)
    ]
    mean, std = np.mean(means), np.std(means, ddof=1)
    expected = (token_returns(good, offsets[0], REFERENCE).returns - mean) / (std + 1e-4)
    np.testing.assert_allclose(result.advantages[0, : len(offsets[0])], expected)
    assert not result.advantages[~result.mask].any()
    assert not result.advantages[2].any()
    assert np.isnan(result.returns[2, :3]).all()
    assert np.isnan(result.alignment[2])


def test_groups_that_do_not_fit_are_refused() -> None:
    score = scored("Ann met Bob.")
    with pytest.raises(ConfigError, match="offsets for each"):
        group_returns([score], [])
    with pytest.raises(ConfigError, match="3 tokens"):
        group_returns([score], [[(0, 1)] * 3], length=2)


def test_completions_aligned_together_equal_those_aligned_alone() -> None:
    texts = [case.text for case in CASES] + ["", "<think></think>", "One. Two.", " <answer>x</answer>"]
    scores = [
        score_completion(text, "1975", memory_index(SENTENCES, engine="numpy"), RuleExtractor()) for text in texts
    ]
    rng = np.random.default_rng(0)
    offsets = [np.sort(rng.integers(0, len(text) + 1, (40, 2)), axis=1) for text in texts]
    offsets[2] = np.empty((0, 2), np.int64)
    together = token_returns_many(scores, offsets, REFERENCE)
    for score, places, result in zip(scores, offsets, together, strict=True):
        alone = token_returns(score, places, REFERENCE)
        assert result.returns.tolist() == alone.returns.tolist()
        assert result.sentence.tolist() == alone.sentence.tolist()
        assert (result.alignment, result.fallback) == (alone.alignment, alone.fallback)
    assert token_returns_many([], []) == []
    with pytest.raises(ConfigError, match="6 scores, 5 offsets"):
        token_returns_many(scores, offsets[:5])
    with pytest.raises(ConfigError, match=f"the completion's {len(texts[1])} characters"):
        token_returns_many(scores[:2], [offsets[0], [[0, len(texts[1]) + 1]]])
